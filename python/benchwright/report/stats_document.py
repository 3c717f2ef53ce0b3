"""The report of `bw stats` as data, independent of format: quantities, notices, table cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from benchwright.core.plan import Pairs, StopDecision
from benchwright.core.results import Finding, Summary
from benchwright.core.text import more_text
from benchwright.core.untrusted import one_line
from benchwright.findings.result import TestResult
from benchwright.stats.aggregate import (
    MetricColumn,
    MetricRules,
    overhead_percent,
    percent_of_mean,
    summarise_columns,
)
from benchwright.stats.sample import Z_THRESHOLD, standard_scores

if TYPE_CHECKING:
    from benchwright.report.answer import AnswerEntry
    from benchwright.stats.input_comparison import InputComparison

# -- The report as data ----------------------------------------------------------------
#
# Purpose: one structure that every renderer reads (table, CSV, Markdown, LaTeX, JSON), so
# that a figure cannot differ between formats.
# Non-goals: text, column widths, rounding.


class QuantityLine(msgspec.Struct, frozen=True):
    """One quantity of one input."""

    summary: Summary
    sdev_percent: float
    """SDEV% [% of the mean]."""
    half_width_percent: float
    """HW% [% of the mean]."""
    overhead_percent: float | None = None
    """O/H [% of the baseline's mean]; None for the baseline itself, NaN if the baseline
    lacks the quantity in this unit or its mean is 0."""


class InputSection(msgspec.Struct, frozen=True, dict=True):
    """One input: a test of a study, or a file."""

    name: str
    summaries: tuple[Summary, ...]
    stop: StopDecision | None = None
    sample: Pairs = ()
    threads: int | None = None
    means: Mapping[tuple[str, str], float] | None = None
    """Of the baseline, by quantity and unit; None for the baseline itself."""

    @cached_property
    def lines(self) -> tuple[QuantityLine, ...]:
        """Its quantities, with percentages of the mean and overheads against the baseline."""
        return tuple(quantity_line(summary, self.means) for summary in self.summaries)


class StatsNotice(msgspec.Struct, frozen=True):
    """A remark about a value that does not question the result; it is not a finding."""

    subject: str
    text: str
    size: float = 0.0
    """The absolute z-score; if there are many notices, those with the largest are printed."""


class StatsReport(msgspec.Struct, frozen=True):
    """Everything that `bw stats` reports."""

    sections: tuple[InputSection, ...]
    findings: tuple[Finding, ...] = ()
    notices: tuple[StatsNotice, ...] = ()
    baseline: int = 0
    """Index of the section that overheads refer to."""
    confidence: float = 0.95
    comparisons: tuple[InputComparison, ...] = ()
    """The results of `--ttest`: each input compared with the baseline."""
    answers: Mapping[str, AnswerEntry] = {}
    """The answer of each input that is a whole test of a study, by the input's name."""


def section_of(test: TestResult, summaries: Sequence[Summary]) -> InputSection:
    """Return the section of a test with these rows."""
    return InputSection(test.name, tuple(summaries), test.stop, test.sample, test.threads)


def table_of(
    test: TestResult, *, everything: bool = False, confidence: float = 0.95
) -> tuple[Summary, ...]:
    """Return the rows of a test's table; `everything`: those of getrusage too."""
    names = test.rules.shown((*test.columns, *test.rules.declared), everything=everything)
    return summarise_columns(test.columns, names, test.rules, confidence)


def compose_report(
    sections: Sequence[InputSection],
    findings: Sequence[Finding] = (),
    *,
    notices: Sequence[StatsNotice] = (),
    baseline: int = 0,
    confidence: float = 0.95,
    comparisons: Sequence[InputComparison] = (),
) -> StatsReport:
    """Return the report, with overheads against the section at the index `baseline`.

    Without sections the report is empty.
    """
    base = sections[baseline].summaries if sections else ()
    means = {(s.name, s.unit): s.mean for s in base}
    compared = tuple(
        section if place == baseline else msgspec.structs.replace(section, means=means)
        for place, section in enumerate(sections)
    )
    return StatsReport(
        compared, tuple(findings), tuple(notices), baseline, confidence, tuple(comparisons)
    )


def quantity_line(
    summary: Summary, means: Mapping[tuple[str, str], float] | None = None
) -> QuantityLine:
    """Return a quantity with its percentages; `means` are those of the baseline."""
    overhead = None
    if means is not None:
        of = (summary.name, summary.unit)
        overhead = overhead_percent(summary.mean, means.get(of, float("nan")))
    return QuantityLine(
        summary,
        percent_of_mean(summary.sdev, summary.mean),
        percent_of_mean(summary.half_width, summary.mean),
        overhead,
    )


# -- The columns of Getstats' table, and the format of figures in its cells ------------
#
# Source: Auto-pilot paper, Figure 2.

ABSENT: Final = "-"
"""The cell of an absent figure."""

FIGURES: Final[tuple[tuple[str, Callable[[QuantityLine], float]], ...]] = (
    ("MEAN", lambda line: line.summary.mean),
    ("MEDIAN", lambda line: line.summary.median),
    ("LOW", lambda line: line.summary.low),
    ("HIGH", lambda line: line.summary.high),
    ("MIN", lambda line: line.summary.minimum),
    ("MAX", lambda line: line.summary.maximum),
    ("SDEV%", lambda line: line.sdev_percent),
    ("HW%", lambda line: line.half_width_percent),
)
OVERHEAD: Final = "O/H"
MOST_DECIMALS: Final = 9
"""Decimals of a nanosecond in seconds; smaller figures are in scientific notation."""


def percent(value: float) -> str:
    """Return a percentage with three decimals; `-` if it is absent."""
    if not math.isfinite(value):
        return ABSENT
    if abs(value) >= 1e15:
        return f"{value:.4e}"
    text = f"{value:.3f}"
    return "0.000" if text == "-0.000" else text


def number(value: float, decimals: int = 3) -> str:
    """Return a figure with this many decimals; `-` if it is absent."""
    if not math.isfinite(value):
        return ABSENT
    if abs(value) >= 1e15 or 0 < abs(value) < 10.0**-MOST_DECIMALS:
        return f"{value:.4e}"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def decimals_of(line: QuantityLine) -> int:
    """Return the number of decimals of a row: three, as in Getstats, and more for values
    below 1, so that four of their digits are visible."""
    return decimals_for(max(abs(line.summary.mean), abs(line.summary.maximum)))


def decimals_for(size: float) -> int:
    """Return the number of decimals for figures of at most this size."""
    if not math.isfinite(size) or size >= 1 or size == 0:
        return 3
    return min(3 - math.floor(math.log10(size)), MOST_DECIMALS)


def column_headings(section: InputSection) -> list[str]:
    """Return the column headings of one section; O/H only if there is a baseline."""
    names = ["NAME", "COUNT", *(name for name, _ in FIGURES)]
    return [*names, OVERHEAD] if has_overhead(section) else names


def row_cells(line: QuantityLine) -> list[str]:
    """Return one quantity's cells, one for each of the section's headings."""
    decimals = decimals_of(line)
    texts = [line.summary.label, count_text(line.summary)]
    texts.extend(
        percent(figure(line)) if name.endswith("%") else number(figure(line), decimals)
        for name, figure in FIGURES
    )
    if line.overhead_percent is not None:
        texts.append(percent(line.overhead_percent))
    return texts


def count_text(summary: Summary) -> str:
    """Return the number of values; `-` where a file states an estimate but not of how many."""
    unknown = summary.method == "stated" and not summary.count
    return ABSENT if unknown else str(summary.count)


def has_overhead(section: InputSection) -> bool:
    """Return whether a section has overheads against a baseline."""
    return any(line.overhead_percent is not None for line in section.lines)


# -- z-score notices -------------------------------------------------------------------
#
# Decision: a notice is not a finding. Getstats warns of every |z| > 2. In clean normal data
# some value exceeds that in 23 % of samples of 10 and in 82 % of samples of 30 (simulated);
# findings are calibrated to be rare in such data.
# Source: Auto-pilot paper, section 3.3, "Detecting Anomalies", and Figure 2.

PERL_DIGITS: Final = 15
"""The digits of a z-score that Getstats prints: those of Perl."""


class StatsWords(msgspec.Struct, frozen=True):
    """What a program calls a trial in its report, and how it prints the report."""

    noun: str = "trial"
    digits: int = 3
    """Of z-scores."""
    is_plain: bool = False
    """The table of the paper's Figure 2 and every doubt in full, rather than answers, a table for
    people and doubts by code."""


MOST_PRINTED = 5
"""Maximum number of notices printed for one input; JSON has all."""


def high_z_scores(
    subject: str,
    quantities: Iterable[MetricColumn],
    threshold: float = Z_THRESHOLD,
    book: MetricRules | None = None,
    *,
    digits: int = PERL_DIGITS,
    noun: str = "epoch",
) -> list[StatsNotice]:
    """Return a notice for every value whose |z| exceeds the threshold.

    The text is that of the paper's Figure 2, which calls a trial an epoch. A quantity has the
    table's label unless that is only its name in another case.
    """
    result, rules = [], book or MetricRules()
    for column in quantities:
        label = rules.row(column.name).label
        name = column.name if label.lower() == column.name else label
        scores = standard_scores(column.values)
        for epoch, score in zip(column.epochs, scores, strict=True):
            if score <= threshold:
                continue
            text = f"High z-score of {score:.{digits}g} for {name} in {noun} {epoch}."
            result.append(StatsNotice(subject, text, score))
    return result


def most_notable(notices: Iterable[StatsNotice]) -> list[StatsNotice]:
    """Return the largest notices of each subject in their order, and a line with the number
    of the others."""
    of: dict[str, list[StatsNotice]] = {}
    for notice in notices:
        of.setdefault(notice.subject, []).append(notice)
    result: list[StatsNotice] = []
    for subject, stats_notices in of.items():
        places = sorted(range(len(stats_notices)), key=lambda place: -stats_notices[place].size)
        result += [stats_notices[place] for place in sorted(places[:MOST_PRINTED])]
        if len(stats_notices) > MOST_PRINTED:
            result.append(StatsNotice(subject, more_text(len(stats_notices) - MOST_PRINTED)))
    return result


def notice_lines(notices: Iterable[StatsNotice]) -> str:
    """Return the largest notices as lines `SUBJECT: text`, each ending with a newline."""
    return "".join(
        one_line(f"{notice.subject}: {notice.text}") + "\n" for notice in most_notable(notices)
    )
