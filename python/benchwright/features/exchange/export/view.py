"""What an export reads: one session as tests, metrics, values, findings and verdicts.

Purpose: every format is a function of this, so that a figure cannot differ between formats, and a
new kind of session needs no change of a format. Decision: figures in the units in which they are
stored; a format converts them once, by `in_base_unit`. Non-goal: where the figures are from
(`features/exchange/view.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from benchwright.core.comparison import Better, ComparisonResult
from benchwright.core.errors import InputError, argument_error
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import list_text, percent_text, written_unit
from benchwright.features.load.types import EngineResult, KindResult, LimitVerdict
from benchwright.report.answer import FindingGroup, SessionAnswer, State
from benchwright.stats.aggregate import TIMES


class ExportTrial(msgspec.Struct, frozen=True):
    """A trial that ran to its end, with success or not; warm-up trials are among them."""

    epoch: int
    started_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    duration_ns: int
    """With its set-up and clean-up [ns]."""
    status: int
    """The first exit status of its commands that is not 0; 128 + signal."""
    ok: bool
    warmup: bool
    values: dict[str, float]
    """What it measured, also of a trial that does not count."""

    @property
    def counts(self) -> bool:
        """Whether its values are in the figures."""
        return self.ok and not self.warmup


class ExportMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a test, with its figure."""

    name: str
    label: str
    """The metric with its statistic: `elapsed`, `median elapsed`."""
    unit: str
    better: Better
    estimate: Estimate
    """Its ends are NaN or infinite where the values do not bound anything."""
    values: tuple[float, ...]
    """Of the trials that count and have it, in order; empty for a result of a search, which no
    single trial has."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the interval; None if an end is unbounded or unknown."""
        low, high = self.estimate.low, self.estimate.high
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    @property
    def base(self) -> UnitScale:
        """Its unit in the base unit, in which most formats have all values."""
        return in_base_unit(self.unit)

    @property
    def base_name(self) -> str:
        """The name for a value in the base unit that has no unit beside it: `delay` for `delay_ms`."""
        return self.name if self.base.size == 1 else without_unit(self.name)

    @property
    def base_value(self) -> float:
        """The value in the base unit."""
        return self.base.of(self.estimate.value)

    @property
    def base_interval(self) -> tuple[float, float] | None:
        """The interval in the base unit."""
        ends = self.interval
        return ends and (self.base.of(ends[0]), self.base.of(ends[1]))

    @property
    def base_replicates(self) -> tuple[float, ...]:
        """The values in the base unit; the result alone where no single trial has it."""
        return tuple(map(self.base.of, self.values or (self.estimate.value,)))


class ExportTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test, an arm of a comparison, or a level or sample of a search."""

    name: str
    """As stored: `gzip:level=9`."""
    base: str
    """The name without the levels: `gzip`."""
    keys: Pairs
    """The levels by factor."""
    command: str
    threads: int = 1
    metrics: tuple[ExportMetric, ...]
    """The main one first; none if nothing was measured."""
    trials: tuple[ExportTrial, ...] = ()
    state: State
    reason: str
    """Why it ended."""
    failed: int = 0
    """Number of its trials that count and failed: one makes the exit status 1."""
    findings: tuple[Finding, ...] = ()

    def metric(self, name: str) -> ExportMetric | None:
        """Return the metric of this name; None if the test does not have it."""
        return next((metric for metric in self.metrics if metric.name == name), None)


class ExportLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A trial in which the engine issued a load."""

    test: str
    """The name of its test."""
    trial: int
    """Its number; 1 for a result that is in no study."""
    result: EngineResult
    warm_up_ns: int = 0
    """Before the measured part; `elapsed_ns` of the result has it too."""
    limits: tuple[LimitVerdict, ...] = ()
    """The verdicts on its limits."""

    def part(self, name: str, *, label: bool) -> KindResult | None:
        """Return the figures of a kind of operation, or of a label; None if it has none."""
        parts = self.result.labels if label else self.result.kinds
        return parts.get(name)


def labels_of(loads: Iterable[ExportLoad]) -> list[str]:
    """Return the labels of the requests of loads, each once."""
    return list(dict.fromkeys(label for load in loads for label in load.result.labels))


class ExportView(msgspec.Struct, frozen=True, kw_only=True):
    """A session, complete for every format."""

    study: str
    """The name of its directory."""
    session: int
    kind: str
    """`run`, `compare`, `compare --null`, `ramp`, `peak` or `surface`."""
    status: str
    failure: str = ""
    """Why the exit status of its command was 1; empty if it was not."""
    version: str
    """Of the Benchwright that measured."""
    started_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    duration_ns: int
    """Of all trials together [ns]."""
    tests: tuple[ExportTest, ...]
    comparisons: tuple[ComparisonResult, ...] = ()
    about_session: tuple[Finding, ...] = ()
    """Findings that concern no single test."""
    groups: tuple[FindingGroup, ...] = ()
    """All findings by code, the worst first."""
    facts: Mapping[str, str] = {}
    """Of the machine at the start, without those that are absent."""
    answer: SessionAnswer | None = None
    """None for a search."""
    sentences: tuple[str, ...] = ()
    """The answer of a search, the answer of each load."""
    loads: tuple[ExportLoad, ...] = ()
    """The results of loads in the order of their trials."""
    earlier: tuple[ExportView, ...] = ()
    """The sessions of the study before it, oldest first, for formats of series; else none."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: about the session, then about each test."""
        return (*self.about_session, *(f for test in self.tests for f in test.findings))

    @property
    def measured(self) -> tuple[ExportTest, ...]:
        """The tests that have a figure."""
        return tuple(test for test in self.tests if test.metrics)


class Exported(msgspec.Struct, frozen=True):
    """The text of an export, the files that belong beside it, and what is in them."""

    text: str
    has: Mapping[str, Collection[str]]
    """The tests that are in it, by name, with the names of their metrics. What else the session has
    is named as left out (`with_left_out`)."""
    beside: tuple[tuple[str, str], ...] = ()
    """Name and text of each."""
    left_out: tuple[str, ...] = ()
    """What else is not in it, a sentence for each."""
    needs_beside: bool = True
    """Whether the text is of no use without the files beside it."""
    why: str = ""
    """Why a figure is not in it: `it has one direction`."""


def figures_of(tests: Iterable[ExportTest]) -> dict[str, list[str]]:
    """Return the tests with all of their metrics, as `Exported.has`."""
    return {test.name: [metric.name for metric in test.metrics] for test in tests}


def tests_of(view: ExportView, loads: Iterable[str]) -> dict[str, list[str]]:
    """Return the tests of these loads, as `Exported.has`: all their metrics are figures of the
    loads."""
    named = set(loads)
    return figures_of(test for test in view.tests if test.name in named)


def with_left_out(exported: Exported, view: ExportView) -> Exported:
    """Return an export that names each test and each metric of the session that is not in it."""
    sentences = [
        f"{test.name} is left out: {_why_left_out(test, exported)}"
        for test in view.tests
        if test.name not in exported.has
    ]
    of_names: dict[tuple[str, ...], list[str]] = {}
    for test in view.tests:
        there = exported.has.get(test.name)
        if there is None:
            continue
        names = tuple(metric.name for metric in test.metrics if metric.name not in there)
        if names:
            of_names.setdefault(names, []).append(test.name)
    for names, tests in of_names.items():
        verb = "is" if len(names) == 1 else "are"
        what = f"{list_text(names)} of {list_text(tests, _MOST_NAMED)}"
        sentences.append(f"{what} {verb} left out: {exported.why}")
    return msgspec.structs.replace(exported, left_out=(*sentences, *exported.left_out))


_MOST_NAMED = 3
"""Tests in a sentence about metrics."""


def _why_left_out(test: ExportTest, exported: Exported) -> str:
    if test.trials and not any(trial.counts for trial in test.trials):
        return "no trial of it counts"
    return exported.why if test.metrics and exported.why else "it has no value"


def units_left_out(metrics: Mapping[str, ExportMetric]) -> tuple[str, ...]:
    """Return a sentence about the units of figures, by their names in a format without units; none
    about a unit that the name says, or that every metric of that name has."""
    units = {
        name: metric.base.name
        for name, metric in metrics.items()
        if metric.base.name and metric.base.name != in_base_unit(_usual_unit(name)).name
    }
    if not units:
        return ()
    text = list_text([f"{name} is in {unit}" for name, unit in units.items()])
    return (f"the units are left out: {text}",)


def _usual_unit(name: str) -> str:
    return "s" if name in TIMES else unit_of(name, "")


def refusal(form: str, message: str, hint: str = "") -> InputError:
    """Return the error for a session that a format cannot represent."""
    return argument_error("--format", form, f"{form}: {message}", hint)


def measured_tests(view: ExportView, form: str) -> tuple[ExportTest, ...]:
    """Return the tests that have a figure. Raises InputError if there is none."""
    if not view.measured:
        message = f"no test of {view.study}@{view.session} has a value"
        hint = "for what failed: junit, markdown, prometheus"
        raise refusal(form, message, hint)
    return view.measured


def measured_loads(view: ExportView, form: str) -> tuple[ExportLoad, ...]:
    """Return the results of loads. Raises InputError if there is none."""
    if not view.loads:
        message = f"{view.study}@{view.session} has no result of bw load"
        hint = "for other sessions: prometheus, openmetrics"
        raise refusal(form, message, hint)
    return view.loads


def failures_left_out(loads: Iterable[ExportLoad]) -> tuple[str, ...]:
    """Return that histograms of response times are of those that succeeded, for each load where
    others failed or never ended."""
    sentences = []
    for load in loads:
        missing, whole = load.result.missing("all")
        if missing:
            sentences.append(
                f"{load.test}, trial {load.trial}: {missing:,} of {whole:,} operations have no response time (they failed or "
                f"never ended); counted as the slowest, they leave percentiles above "
                f"{percent_text(math.floor(1e5 * (1 - missing / whole)) / 1e5, 10)} unknown"
            )
    return tuple(sentences)


# -- Units, names and times ------------------------------------------------------------


class UnitScale(msgspec.Struct, frozen=True):
    """A unit as a part or a multiple of a base unit."""

    name: str
    """The base unit: `s`, `B`, `share`; the unit itself where it has no other base."""
    size: float = 1

    def of(self, value: float) -> float:
        """Return a value of the unit in the base unit, to 15 digits: 14.2 ms are 0.0142 s."""
        return value if self.size == 1 else float(f"{value * self.size:.15g}")


_PARTS = {"n": 1e-9, "u": 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, "m": 1e-3}
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PREFIXES = {
    "s": _PARTS,
    "B": _MULTIPLES | _BINARY,
    "bit": _MULTIPLES | _BINARY,
    "Hz": _MULTIPLES,
    "J": _PARTS | _MULTIPLES,
    "W": _PARTS | _MULTIPLES,
}
_BASE_UNITS = {
    f"{prefix}{base}": UnitScale(base, size)
    for base, prefixes in _PREFIXES.items()
    for prefix, size in prefixes.items()
} | {
    "min": UnitScale("s", 60),
    "h": UnitScale("s", 3600),
    "d": UnitScale("s", 86400),
    "512 B": UnitScale("B", 512),
    "%": UnitScale("share", 0.01),
}
_UNIT_IN_NAME = re.compile(r"(?<=.)_(ns|us|ms|bytes_per_s|bytes|per_s)(?=_|$)")
_OF_NAME = {"bytes": "B", "bytes_per_s": "B/s", "per_s": "/s"}


def unit_of(name: str, declared: str) -> str:
    """Return the unit of a metric: the declared one, else the one in its name
    (`response_ns_p99`); empty for a pure number."""
    match = _UNIT_IN_NAME.search(name)
    if declared or match is None:
        return written_unit(declared)
    return _OF_NAME.get(match[1], match[1])


def in_base_unit(unit: str) -> UnitScale:
    """Return a unit in its base unit, also one of a rate or of each operation: `MB/ms`, `us/op`."""
    what, slash, per = unit.rpartition("/")
    under = _BASE_UNITS.get(per, UnitScale(per))
    if not slash:
        return under
    over = in_base_unit(what)
    return UnitScale(f"{over.name}/{under.name}", over.size / under.size)


def without_unit(name: str) -> str:
    """Return a metric's name without the unit in it: `response_p99` for `response_ns_p99`."""
    return _UNIT_IN_NAME.sub("", name).strip("_") or name


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names, each different from those before: `gzip`, `gzip_2`."""
    found: list[str] = []
    for name in names:
        one, number = name, 1
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found.append(one)
    return found


_NOT_IN_FILE_NAME = re.compile(r"[^A-Za-z0-9._=-]+")


def file_name(name: str) -> str:
    """Return a name as part of the name of a file."""
    return _NOT_IN_FILE_NAME.sub("-", name).strip("-.") or "test"


def moment(ns: int) -> datetime:
    """Return a moment [ns since 1970] in UTC, to the microsecond."""
    seconds, rest = divmod(ns, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def json_text(document: object) -> str:
    """Return a document of another tool as indented JSON; NaN and infinity become null."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
