"""Results: an estimate with its interval, and a finding with its evidence."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

# -- A number that never travels alone -------------------------------------------------


class Estimate(msgspec.Struct, frozen=True):
    """A value with its interval, confidence, method, sample size and unit."""

    value: float
    low: float
    high: float
    confidence: float
    method: str
    n: int
    unit: str = ""

    @property
    def half_width(self) -> float:
        """Half the interval's width, in the value's unit."""
        return (self.high - self.low) / 2


class Alternative(msgspec.Struct, frozen=True):
    """Another question about the same trials, which needs fewer of them."""

    option: str
    """What asks it: `--of median`."""
    key: str
    """The same in a suite: `of = "median"`."""
    metric: str
    """What it estimates: `median elapsed`."""
    estimate: Estimate
    """From the trials that ran."""
    needed: int | None = None
    """Trials that the target needs, projected to two digits; None: it is reached already."""


class ReachedPrecision(msgspec.Struct, frozen=True):
    """How precisely a rule's metric is known where the test ended."""

    metric: str
    statistic: str
    """`mean`, `median`, `p90`."""
    n: int
    estimate: Estimate | None
    """None where n values bound nothing."""


class Summary(msgspec.Struct, frozen=True):
    """One row of Getstats' table for one quantity of one test.

    A figure that the data cannot give is NaN: LOW, HIGH, SDEV and HW for n < 2. With the method
    `stated`, the figures are those that another tool wrote, without values; what it did not write
    is NaN, its number of values 0.
    """

    name: str
    """`elapsed`, `system`, `user`, `wait`, `cpu_percent`, or a metric's name."""
    label: str
    """As printed: `Elapsed`, `CPU%`, or the metric's name."""
    unit: str
    count: int
    mean: float
    median: float
    low: float
    """Lower end of the Student-t interval of the mean; in tables not below 0 for what
    cannot be (times, CPU%, counts)."""
    high: float
    minimum: float
    maximum: float
    sdev: float
    """Sample standard deviation (n - 1)."""
    half_width: float
    slope: float
    """Least-squares slope over epochs, unit per epoch."""
    sum: float
    confidence: float = 0.95
    method: Literal["student-t", "stated"] = "student-t"


# -- A finding about a result: data that travels with it, not a log line ------------


class Severity(enum.StrEnum):
    """Severity of a finding."""

    NOTE = "note"
    WARNING = "warning"
    SERIOUS = "serious"


FORMER_CODES = {
    "backlog-uncounted": "backlog-not-counted",
    "kappa-not-told": "kappa-not-identified",
    "quiet-not-held": "quiet-reverted",
    "retrograde-under-overload": "throughput-drops-under-overload",
}
"""Former codes and their codes of today: accepted for one release wherever a code is read, in
stored studies, rules and `--accept`."""


def current_code(code: str) -> str:
    """Return the code of today for a code that may be a former one."""
    return FORMER_CODES.get(code, code)


class Finding(msgspec.Struct, frozen=True):
    """A doubt about a result: stable code, severity, evidence, remedy.

    A former code becomes the code of today, whoever made the finding.
    """

    code: str
    """Stable identifier, such as `command-failed` or `missing-metric`."""
    severity: Severity
    subject: str
    """What it is about: `ext2:1`, or `ext2:1 elapsed epoch 3`."""
    evidence: str
    """What was measured, with figures and units."""
    remedy: str = ""
    """What to do about it."""
    metric: str = ""
    """The one metric that it is about, where it is about one."""

    def __post_init__(self) -> None:
        if self.code in FORMER_CODES:
            msgspec.structs.force_setattr(self, "code", FORMER_CODES[self.code])
