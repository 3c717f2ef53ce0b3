"""Results: an estimate with its interval, and a finding with its evidence."""

from __future__ import annotations

import enum
import math
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

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


# -- What a number of trials cannot show -------------------------------------------------
#
# No interval knows of a mode that did not occur: of n independent trials none is slow with
# probability (1 - share)^n. So beside a mean stands the most frequent mode that may be unseen.
# Source: J. Hanley and A. Lippman-Hand 1983, If nothing goes wrong, is everything all right?, JAMA
# 249(13) (for 95 % the share is about 3 / n).

UNSEEN_SIZE = 2.0
"""How slow the runs are whose effect is stated where nobody asked for another size."""
_UNSEEN_ERROR = 0.05
"""Probability with which the stated share of slow runs would have been missed."""


class SlowRuns(msgspec.Struct, frozen=True):
    """Slow runs among others: `1%:2x`, one in a hundred, each of twice the time."""

    share: float
    """Of all runs, in (0, 1)."""
    size: float = UNSEEN_SIZE
    """How many times as long they take, above 1."""

    @classmethod
    def unseen(cls, n: int, size: float = UNSEEN_SIZE) -> SlowRuns:
        """Return the most frequent ones of which `n` trials, at least one, may have shown none:
        with a probability of 5 %."""
        return cls(1 - _UNSEEN_ERROR ** (1 / n), size)

    @property
    def trials(self) -> int:
        """The number of trials of which at least one is slow, with a probability of 95 %."""
        return math.ceil(math.log(_UNSEEN_ERROR) / math.log1p(-self.share))

    @property
    def frequency(self) -> str:
        """Their share as text: `1 in 10`, `1 in 2` at most. It is a little above the share where
        that is no whole number."""
        return f"1 in {max(math.floor(1 / self.share), 2)}"

    def shift(self, better: Literal["lower", "higher"] = "lower") -> float:
        """Return by how much they change the mean, as a share of the other runs' mean: of a time by
        default, where `better` is `higher` of a rate."""
        each = self.size - 1 if better == "lower" else 1 / self.size - 1
        return self.share * each


class LevelSpread(msgspec.Struct, frozen=True):
    """By how much the replicates of one level differ, within one replicate of the level outside it."""

    level: str
    """`build`, `env`, or `trial` for the innermost."""
    replicates: int
    """How many there are in all."""
    spread: float | None
    """Standard deviation, as a share of the mean; None where no replicate has two of them."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    share_of_error: float
    """Its part of the squared error of the mean, 0 to 1."""


class Population(msgspec.Struct, frozen=True):
    """What the replicates of levels show about all of their kind, beside the mean and its interval."""

    levels: tuple[LevelSpread, ...]
    """Outermost first, trials last."""
    half_width: float | None
    """Of the mean's interval, as a share of the mean; None without one."""
    least_half_width: float | None
    """The same if each of these outermost replicates were known exactly: what more trials in each can
    reach."""
    next_replicate: tuple[float | None, float | None]
    """Between which the mean of the next outermost replicate will be, in the mean's unit."""
    next_trial: tuple[float | None, float | None]
    """Between which a single trial of it will be."""


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


BROKEN_CODES = ("command-failed", "load-failed", "result-failed", "timeout")
"""Codes of the findings that report a failed trial."""


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


class Figure(msgspec.Struct, frozen=True):
    """A quantity of a finding, or the range of one over several findings."""

    value: int | float
    unit: str = ""
    """`%` (of a share, where 1 is all), `+%` and `+` (changes, shown with their signs), `CPUs`, `s`, `B`, or any unit of a metric."""
    high: int | float | None = None
    """The other end of a range; None for a single value."""


Value = Figure | int | float | str
"""What a finding has: a quantity, a plain number, or a text, such as the name of a disk."""


class FindingFigures(msgspec.Struct, frozen=True):
    """What a finding measured: values for a template of its code, from which its evidence and the
    sentence about several findings are made (findings/sentence.py)."""

    form: str = ""
    """Which of its code's templates; empty where there is one."""
    values: tuple[tuple[str, Value], ...] = ()
    """By name; without absent ones."""

    @property
    def named(self) -> dict[str, Value]:
        """The values by name."""
        return dict(self.values)


def states(form: str = "", /, **values: Value | None) -> FindingFigures:
    """Return figures with these values, without those that are None or an empty text.

    What is not finite becomes a text, because JSON does not have it.
    """
    return FindingFigures(
        form,
        tuple((name, _plain(value)) for name, value in values.items() if value not in (None, "")),
    )


def change(part: float, whole: float) -> Figure:
    """Return a change as a share of a whole; the change itself where that is 0."""
    return Figure(part / abs(whole), "+%") if whole else Figure(part, "+")


def _plain(value: Value | None) -> Value:
    assert value is not None
    if isinstance(value, str):
        return value
    if isinstance(value, Figure):
        number = _plain(value.value)
        return number if isinstance(number, str) else msgspec.structs.replace(value, value=number)
    if isinstance(value, int):
        return int(value)
    return float(value) if math.isfinite(value) else "-"


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
    figures: FindingFigures | UnsetType = UNSET
    """Those in the evidence; unset where it has none, and where an earlier version stored it."""

    def __post_init__(self) -> None:
        if self.code in FORMER_CODES:
            msgspec.structs.force_setattr(self, "code", FORMER_CODES[self.code])
