"""The document of `bw stats`: quantities of inputs, t-tests, findings and notices."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.report.answer import AnswerEntry
from benchwright.report.documents import (
    EstimateEntry,
    FindingEntry,
    StopEntry,
    encode,
    entries,
    entry,
    estimate_entry,
    stop_entry,
)
from benchwright.report.stats_document import InputSection, QuantityLine, StatsReport
from benchwright.stats.input_comparison import InputComparison, QuantityComparison


class QuantityEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of one input."""

    name: str
    label: str
    unit: str
    count: int
    mean: float | None
    median: float | None
    low: float | None
    high: float | None
    minimum: float | None = msgspec.field(name="min")
    maximum: float | None = msgspec.field(name="max")
    sdev: float | None
    sdev_percent: float | None
    half_width: float | None
    half_width_percent: float | None
    slope: float | None
    sum: float | None
    confidence: float | None
    """null where a file states an estimate without it."""
    method: Literal["student-t", "stated"]
    """`stated`: as another tool wrote it, with its interval or without one; `count` is 0 if the
    file does not say it."""
    overhead_percent: float | None


class InputEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One input: a test of a study, or a file."""

    name: str
    threads: int | None
    sample: dict[str, str]
    stop: StopEntry | None
    quantities: tuple[QuantityEntry, ...]


class StatsInputEntry(InputEntry, frozen=True, kw_only=True):
    """One input, with its answer."""

    answer: AnswerEntry | None
    """With the ratio to the reference; null for a file, and for selected or transformed trials."""


class OfBoth(msgspec.Struct, frozen=True):
    """One figure for each of the two samples."""

    candidate: float | None
    baseline: float | None


class VariancesEntry(msgspec.Struct, frozen=True):
    """The F-test of the variances."""

    ratio: float | None
    p: float | None


class RankEntry(msgspec.Struct, frozen=True):
    """The rank test, present if a sample is not normal."""

    test: str
    p: float | None
    below: EstimateEntry


class TtestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The t-test of one quantity of an input against the baseline's."""

    candidate: str
    baseline: str
    name: str
    label: str
    means: OfBoth
    difference: EstimateEntry
    test: str
    decided: Literal["f-test", "asked"]
    t: float | None
    degrees: float | None
    p_greater: float | None
    p_less: float | None
    p_two_sided: float | None
    p_adjusted: float | None
    adjustment: Literal["benjamini-hochberg"]
    variances: VariancesEntry
    normality: OfBoth
    ratio: EstimateEntry
    rank: RankEntry | None
    shift: EstimateEntry | None


class NoticeEntry(msgspec.Struct, frozen=True):
    """A remark about a value, which does not question the result."""

    subject: str
    text: str


class StatsDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/stats/1"
):
    """The report of `bw stats`."""

    confidence: float
    baseline: str | None
    inputs: tuple[StatsInputEntry, ...]
    comparisons: tuple[TtestEntry, ...]
    findings: tuple[FindingEntry, ...]
    notices: tuple[NoticeEntry, ...]


class PredicateDocument(
    msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/predicate/1"
):
    """Whether a predicate holds for each quantity of each input."""

    holds: bool
    answers: dict[str, dict[str, bool]]


def render_json(report: StatsReport) -> str:
    """Return the report as indented JSON, ending with a newline."""
    return encode(stats_document(report))


def stats_document(report: StatsReport) -> StatsDocument:
    """Return the report as a document."""
    baseline = report.sections[report.baseline].name if report.sections else None
    return StatsDocument(
        confidence=report.confidence,
        baseline=baseline,
        inputs=tuple(
            StatsInputEntry(
                **msgspec.structs.asdict(input_entry(section)),
                answer=report.answers.get(section.name),
            )
            for section in report.sections
        ),
        comparisons=tuple(
            _ttest_entry(pair, quantity)
            for pair in report.comparisons
            for quantity in pair.quantities
        ),
        findings=entries(FindingEntry, report.findings),
        notices=entries(NoticeEntry, report.notices),
    )


def input_entry(section: InputSection) -> InputEntry:
    """Return one input with its quantities."""
    return entry(
        InputEntry,
        section,
        sample=dict(section.sample),
        stop=None if section.stop is None else stop_entry(section.stop),
        quantities=tuple(map(_quantity_entry, section.lines)),
    )


def _quantity_entry(line: QuantityLine) -> QuantityEntry:
    summary = line.summary
    return QuantityEntry(
        **msgspec.structs.asdict(summary),
        sdev_percent=line.sdev_percent,
        half_width_percent=line.half_width_percent,
        overhead_percent=line.overhead_percent,
    )


def _ttest_entry(pair: InputComparison, quantity_comparison: QuantityComparison) -> TtestEntry:
    test, rank = quantity_comparison.test, quantity_comparison.rank
    rank_entry = None
    if rank is not None:
        rank_entry = RankEntry(rank.method, rank.p, estimate_entry(rank.below))
    return TtestEntry(
        candidate=pair.candidate,
        baseline=pair.baseline,
        name=quantity_comparison.name,
        label=quantity_comparison.label,
        means=OfBoth(*quantity_comparison.means),
        difference=estimate_entry(test.difference),
        test=test.difference.method,
        decided="f-test" if quantity_comparison.decided == "auto" else "asked",
        t=test.t,
        degrees=test.degrees,
        p_greater=test.p_greater,
        p_less=test.p_less,
        p_two_sided=test.p_two_sided,
        p_adjusted=quantity_comparison.p_adjusted,
        adjustment="benjamini-hochberg",
        variances=VariancesEntry(
            quantity_comparison.variances.ratio.value, quantity_comparison.variances.p
        ),
        normality=OfBoth(*quantity_comparison.normality_p),
        ratio=estimate_entry(quantity_comparison.ratio),
        rank=rank_entry,
        shift=None
        if quantity_comparison.shift is None
        else estimate_entry(quantity_comparison.shift),
    )
