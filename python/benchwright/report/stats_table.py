"""The tables of `getstats`, in the form of the paper's Figure 2, and of `bw stats`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.results import Summary
from benchwright.core.text import exact_text, heading_with_unit, quantity_text
from benchwright.core.text_table import TextColumn, cells_in_unit, table_lines
from benchwright.core.untrusted import visible
from benchwright.report.answer import concerned_text, finding_groups
from benchwright.report.answer_text import (
    Paint,
    finding_paragraphs,
    group_lines,
    unpainted,
    wrapped,
)
from benchwright.report.parts import finding_lines
from benchwright.report.stats_document import (
    FIGURES,
    InputSection,
    QuantityLine,
    StatsReport,
    column_headings,
    count_text,
    notice_lines,
    percent,
    row_cells,
)
from benchwright.stats.metric_rules import COMPUTED_COLUMNS

# -- Getstats' table, in the form of the paper's Figure 2 ------------------------------
#
# A line with the input's name, the headings, one line per quantity. Names and counts are
# left-aligned, figures right-aligned. A column has the same width in the tables of all
# inputs, so that they can be compared by eye.

_NARROWEST = 6
_NAME = 9
_COUNT = 5
_LEFT = 2


def render_table(document: StatsReport, *, findings: bool = True) -> str:
    """Return findings and notices, one line each, a table for every input, and any t-tests.

    The text ends with a newline; it is empty for an empty report.
    """
    parts = []
    doubts = finding_lines(document.findings) + notice_lines(document.notices)
    if findings and doubts:
        parts.append(doubts)
    tables = [
        (section.name, [column_headings(section), *map(row_cells, section.lines)])
        for section in document.sections
    ]
    parts += _tables(tables)
    parts += _ttests(document)
    return "\n".join(parts)


def _tables(tables: Sequence[tuple[str, list[list[str]]]]) -> Iterator[str]:
    """Yield tables with their names, unprintable characters escaped; a column has the same width
    in all of them."""
    shown = [
        (visible(name), [[visible(cell) for cell in row] for row in rows]) for name, rows in tables
    ]
    widths = _column_widths([rows for _, rows in shown])
    for name, rows in shown:
        columns = [
            TextColumn("", cells, left=place < _LEFT, width=widths[place])
            for place, cells in enumerate(zip(*rows, strict=True))
        ]
        lines = [name, *table_lines(columns, gap=" ")]
        yield "".join(line + "\n" for line in lines)


def _ttests(document: StatsReport) -> Iterator[str]:
    if document.comparisons:
        # This import loads numpy, which a table without t-tests does not need.
        from benchwright.report.ttest import ttest_text

        yield ttest_text(document)


def _column_widths(tables: list[list[list[str]]]) -> list[int]:
    columns = max((len(rows[0]) for rows in tables), default=0)
    widths = [_NAME, _COUNT, *[_NARROWEST] * (columns - _LEFT)]
    for rows in tables:
        for row in rows:
            for place, text in enumerate(row):
                widths[place] = max(widths[place], len(text))
    return widths


# -- The table of `bw stats`: the same columns, for people -------------------------------
#
# Decision: the tables come first and the doubts below them. Each row has its unit and one number of
# decimals; a quantity that is the same in every trial is a line below the tables, because its six
# equal figures say no more. z-scores are printed only on request: in clean data of 30 trials 82 %
# have one above 2.


def render_readable(
    document: StatsReport,
    width: int,
    paint: Paint = unpainted,
    *,
    verbose: bool,
    more: str = "bw stats -v",
) -> str:
    """Return the tables, what is constant, any t-tests, and the findings by code.

    `verbose`: each finding with its evidence and remedy, and z-score notices; `more`: the command
    that prints them.
    """
    sections = [section for section in document.sections if section.lines]
    changing = [
        msgspec.structs.replace(
            section, lines=tuple(ln for ln in section.lines if not _is_constant(ln))
        )
        for section in sections
    ]
    parts = [*_tables(tables_with_units([one for one in changing if one.lines]))]
    parts.append("".join(f"{line}\n" for line in _constant_lines(sections, width)))
    parts += _ttests(document)
    parts.append(doubts_text(document, width, paint, verbose=verbose, more=more))
    return "\n".join(filter(None, parts))


def doubts_text(
    document: StatsReport, width: int, paint: Paint = unpainted, *, verbose: bool, more: str
) -> str:
    """Return the findings by code and the notices, as below the tables; see `render_readable`."""
    names = {section.name for section in document.sections}
    named = [
        (finding.subject if finding.subject in names else "", finding)
        for finding in document.findings
    ]
    if verbose:
        doubts = finding_paragraphs(named, width, paint)
    else:
        doubts = group_lines(finding_groups(named), len(names), width, paint)
        doubts += [f"evidence and remedies: {more}"] if doubts else []
    found = "".join(f"{line}\n" for line in doubts)
    shown = [one for one in document.notices if verbose or math.isinf(one.size)]
    return "\n".join(filter(None, (found, notice_lines(shown))))


def tables_with_units(sections: Sequence[InputSection]) -> list[tuple[str, list[list[str]]]]:
    """Return the name of each section with its headings and rows, which have their units.

    A quantity of one dimension has the same unit and decimals in all sections, so that they can
    be compared; its
    means decide on them, because a smallest value can be nearly 0.
    """
    plain = [figure for name, figure in FIGURES if not name.endswith("%")]
    shares = [figure for name, figure in FIGURES if name.endswith("%")]
    lines: dict[tuple[str, str], list[QuantityLine]] = {}
    for section in sections:
        for line in section.lines:
            of = (line.summary.name, line.summary.unit)
            lines.setdefault(of, []).append(line)
    rows: dict[int, list[str]] = {}
    for found in lines.values():
        values = [_shown(line, figure(line)) for line in found for figure in plain]
        means = [_typical(line.summary) for line in found]
        cells, unit = cells_in_unit(values, found[0].summary.unit, typical=means)
        for place, line in enumerate(found):
            first = place * len(plain)
            last = () if line.overhead_percent is None else (line.overhead_percent,)
            rows[id(line)] = [
                heading_with_unit(line.summary.label, unit),
                count_text(line.summary),
                *cells[first : first + len(plain)],
                *map(percent, (*(figure(line) for figure in shares), *last)),
            ]
    return [
        (section.name, [column_headings(section), *(rows[id(line)] for line in section.lines)])
        for section in sections
    ]


def _shown(line: QuantityLine, value: float) -> float:
    """Return a figure as a person reads it: Wait is elapsed less CPU time, which is negative if
    a process runs on several CPUs, or by the resolution of its clocks; it did not wait then."""
    return max(value, 0.0) if line.summary.name == "wait" else value


def _typical(summary: Summary) -> float:
    """Return the mean; the median where a file states only that."""
    return summary.mean if math.isfinite(summary.mean) else summary.median


def _is_constant(line: QuantityLine) -> bool:
    summary = line.summary
    return summary.count > 1 and summary.minimum == summary.maximum


def _constant_text(summary: Summary) -> str:
    """Return the value of a constant quantity: exact as measured, at most six digits of one that
    was computed."""
    value, unit = summary.minimum, summary.unit
    if not value and unit == "s":
        return "less than the resolution of its clock"
    if summary.name not in COMPUTED_COLUMNS:
        return exact_text(value, unit)
    text = quantity_text(value, unit, _COMPUTED_DIGITS)
    is_rounded = not math.isclose(float(f"{value:.{_COMPUTED_DIGITS}g}"), value)
    return f"about {text}" if is_rounded else text


_COMPUTED_DIGITS = 6


def _constant_lines(sections: Sequence[InputSection], width: int) -> Iterator[str]:
    """Yield a line for each quantity that is the same in every trial of some inputs."""
    found: dict[tuple[str, str], list[str]] = {}
    for section in sections:
        for line in filter(_is_constant, section.lines):
            summary = line.summary
            value = _constant_text(summary)
            found.setdefault((summary.label, value), []).append(section.name)
    for (label, value), names in found.items():
        whom = ""
        if len(names) < len(sections):
            whom = f" of {concerned_text(names, len(sections))}"
        yield from wrapped(f"{label} is {value} in every trial{whom}", width)
