"""The view of `bw stats`: its tables as text, as Markdown, LaTeX and CSV; the raw rows as CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import Pairs, ReplicatePath
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Summary
from benchwright.core.text import (
    ABSENT,
    Scale,
    exact_text,
    heading_with_unit,
    percent_text,
    quantity_text,
    scale_of,
)
from benchwright.core.text_table import TextColumn, csv_of_rows, table_lines
from benchwright.core.untrusted import one_line, visible
from benchwright.report.answer import concerned_text, finding_groups, half_width_percent
from benchwright.report.documents import finding_lines
from benchwright.report.stats_document import (
    InputSection,
    QuantityLine,
    StatsReport,
    column_headings,
    count_text,
    most_notable,
    notice_lines,
    row_cells,
)
from benchwright.stats.aggregate import COMPUTED_COLUMNS
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    TableBlock,
    Words,
    alike,
    count_number,
    estimate_number,
    label_of,
    mean_of,
    number_of,
    share_number,
    table_of,
)
from benchwright.views.terminal import (
    Paint,
    finding_paragraphs,
    group_lines,
    table_rows,
    unpainted,
    wrapped,
)
from benchwright.views.tests import answers_table

if TYPE_CHECKING:
    from benchwright.results.stats import StudyAnswer

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


def _tables(tables: Iterable[tuple[str, list[list[str]]]]) -> Iterator[str]:
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
            section, summaries=tuple(ln.summary for ln in section.lines if not _is_constant(ln))
        )
        for section in sections
    ]
    parts = [
        *_tables(
            _section_rows([input_section for input_section in changing if input_section.lines])
        )
    ]
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
    shown = [notice for notice in document.notices if verbose or math.isinf(notice.size)]
    return "\n".join(filter(None, (found, notice_lines(shown))))


def _section_rows(sections: Sequence[InputSection]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name of each section, and the headings and rows of its table as texts.

    A quantity has the same unit and decimals in all sections, so that they can be compared, unless
    its means are not alike.
    """
    heading, *rows = table_rows(
        quantities_table([line for section in sections for line in section.lines])
    ) or [[]]
    left = iter(rows)
    for section in sections:
        if not section.lines:
            continue
        own = [heading, *islice(left, len(section.lines))]
        # The baseline has no overhead.
        filled = [any(row[at] for row in own[1:]) for at in range(len(heading))]
        yield section.name, [list(compress(row, filled)) for row in own]


def _scales_of(lines: Sequence[QuantityLine]) -> list[Scale]:
    """Return the scale of each line: one for those of the same name and unit with means that are
    alike. The means decide on it, because a smallest value can be nearly 0."""
    found: dict[tuple[str, str], list[Summary]] = {}
    for line in lines:
        found.setdefault((line.summary.name, line.summary.unit), []).append(line.summary)
    together = {
        of: _scale_of_summaries(summaries)
        for of, summaries in found.items()
        if alike(map(_typical, summaries))
    }
    return [
        together.get((line.summary.name, line.summary.unit)) or _scale_of_summaries([line.summary])
        for line in lines
    ]


def _scale_of_summaries(summaries: Sequence[Summary]) -> Scale:
    return scale_of(
        map(_typical, summaries),
        summaries[0].unit,
        ends=[
            end
            for summary in summaries
            for end in (
                summary.mean,
                summary.median,
                summary.low,
                summary.high,
                summary.minimum,
                summary.maximum,
            )
        ],
    )


def quantities_table(
    lines: Sequence[QuantityLine],
    identifier: str = "",
    *,
    link: str = "",
    answers: Mapping[str, Estimate | None] = MappingProxyType({}),
) -> TableBlock:
    """Return a row for each quantity of one or more inputs; its name has the unit.

    On a page, `identifier` is that of the test; `link` leads to its trials, and `answers` are
    intervals that are those of the answer, everywhere on the page.
    """
    scales = {id(line): one for line, one in zip(lines, _scales_of(lines), strict=True)}

    def number(name: str, of: Callable[[Summary], float]) -> Callable[[str, QuantityLine], Cell]:
        return lambda key, line: _without_waiting(
            line, number_of(f"{key}.{name}", of(line.summary), scale(line), unit=False), scale(line)
        )

    def scale(line: QuantityLine) -> Scale:
        return scales[id(line)]

    def mean(key: str, line: QuantityLine) -> Cell:
        estimate = answers.get(line.summary.name) or mean_of(line.summary)
        found = estimate_number(f"{key}.mean", estimate, scale(line), link=link, unit=False)
        return _without_waiting(line, found, scale(line))

    def half_width(line: QuantityLine) -> float:
        estimate = answers.get(line.summary.name)
        return line.half_width_percent if estimate is None else half_width_percent(estimate)

    def count(key: str, line: QuantityLine) -> Cell:
        found = count_number(f"{key}.count", line.summary.count, link=link)
        return msgspec.structs.replace(found, text=count_text(line.summary))

    def share(
        name: str, of: Callable[[QuantityLine], float | None]
    ) -> Callable[[str, QuantityLine], Cell]:
        shares = [*map(of, lines)]
        percents = scale_of(shares, "%") if alike(shares) else None

        def cell(key: str, line: QuantityLine) -> Cell:
            percent = of(line)
            if percent is None:
                return Words("")
            return share_number(f"{key}.{name}", percent / 100, percents)

        return cell

    confidence = f", {percent_text(lines[0].summary.confidence)} interval" if lines else ""
    return table_of(
        f"{identifier}-quantities",
        "Quantities",
        [(f"{identifier}.{line.summary.name}", line) for line in lines],
        (
            (
                Column("Quantity"),
                lambda _, line: Words(visible(_name_with_unit(line, scale(line)))),
            ),
            (Column("Trials", numeric=True), count),
            (Column(f"Mean{confidence}", numeric=True, short="mean"), mean),
            (Column("Median", numeric=True), number("median", lambda summary: summary.median)),
            (Column("Minimum", numeric=True, short="min"), number("min", lambda one: one.minimum)),
            (Column("Maximum", numeric=True, short="max"), number("max", lambda one: one.maximum)),
            (
                Column("Spread", "standard deviation, of the mean", numeric=True, short="sdev"),
                share("spread", lambda line: line.sdev_percent),
            ),
            (
                Column("±", "half of the interval, of the mean", numeric=True),
                share("half_width", half_width),
            ),
            (
                Column(
                    "Overhead",
                    "by how much the mean exceeds the baseline's",
                    numeric=True,
                    short="O/H",
                ),
                share("overhead", lambda line: line.overhead_percent),
            ),
        ),
    )


def _name_with_unit(line: QuantityLine, scale: Scale) -> str:
    return heading_with_unit(label_of(line.summary.name, line.summary.label), scale.unit)


def _without_waiting(line: QuantityLine, number: Number, scale: Scale) -> Number:
    """Return a figure as a person reads it: Wait is elapsed less CPU time, which is negative if
    a process runs on several CPUs, or by the resolution of its clocks; it did not wait then."""
    if line.summary.name != "wait":
        return number
    none = scale.text(0.0, unit=False)
    text, low, high = (
        none if text.startswith("-") and text != ABSENT else text
        for text in (number.text, number.low_text, number.high_text)
    )
    return msgspec.structs.replace(number, text=text, low_text=low, high_text=high)


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


# -- CSV, Markdown and LaTeX (JSON: report/stats_document.py) ------------------------------
#
# CSV is for programs: all digits, one line per input and quantity. Markdown and LaTeX are for
# people: they have the cells of the table of `bw stats`, and its units.

CSV_COLUMNS = (
    "input",
    "name",
    "unit",
    "count",
    "mean",
    "median",
    "low",
    "high",
    "min",
    "max",
    "sdev",
    "sdev_percent",
    "half_width",
    "half_width_percent",
    "slope",
    "sum",
    "confidence",
    "overhead_percent",
)
_MARKUP = frozenset("\\`*_[]<>|#&~$")
_CODE = re.compile(r"[\w.:-]+")


def render_csv(document: StatsReport) -> str:
    """Return one line per input and quantity with full precision (RFC 4180).

    An absent figure is an empty field; lines end with `\\n`. T-tests add fields to the
    candidate's lines. The last columns are the factors with the input's levels.
    """
    fields: dict[tuple[str, str], list[str | float | None]] = {}
    more: tuple[str, ...] = ()
    if document.comparisons:
        from benchwright.report.ttest import TTEST_CSV_COLUMNS, csv_fields

        fields, more = csv_fields(document), TTEST_CSV_COLUMNS
    factors = _factors(section.sample for section in document.sections)
    head = [*CSV_COLUMNS, *more, *_factor_headings(factors, {*CSV_COLUMNS, *more})]
    rows = [
        [
            *_csv_row(section, line),
            *map(_field, fields.get((section.name, line.summary.name), [None] * len(more))),
            *_levels(factors, section.sample),
        ]
        for section in document.sections
        for line in section.lines
    ]
    return csv_of_rows([head, *rows])


def _factors(samples: Iterable[Pairs]) -> list[str]:
    """Return the factors in order of first appearance: the last columns, one for each."""
    return list(dict.fromkeys(factor for sample in samples for factor, _ in sample))


def _factor_headings(factors: Sequence[str], taken: Collection[str]) -> list[str]:
    """Return the factors as headings; `factor:NAME` where a column has that name already."""
    return [f"factor:{factor}" if factor in taken else factor for factor in factors]


def _levels(factors: Sequence[str], sample: Pairs) -> list[str]:
    own = dict(sample)
    return [own.get(factor, "") for factor in factors]


def _csv_row(section: InputSection, line: QuantityLine) -> list[object]:
    s = line.summary
    figures = [
        s.mean,
        s.median,
        s.low,
        s.high,
        s.minimum,
        s.maximum,
        s.sdev,
        line.sdev_percent,
        s.half_width,
        line.half_width_percent,
        s.slope,
        s.sum,
        s.confidence,
        line.overhead_percent,
    ]
    return [section.name, s.name, s.unit, s.count, *map(_field, figures)]


def _field(value: str | float | None) -> str | float | None:
    """Return a field, None for a figure that is absent."""
    return finite(value) if isinstance(value, float) else value


def answer_markdown(studies: Sequence[StudyAnswer]) -> str:
    """Return a Markdown table with one row per test for each study that has an answer."""
    parts = []
    for study in studies:
        if rows := table_rows(answers_table(study.answer)):
            head = f"### {markdown_text(study.source)}\n\n" if len(studies) > 1 else ""
            parts.append(f"{head}{markdown_table(rows)}\n")
    return "".join(parts)


def _tables_of(document: StatsReport) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name and the rows of each table: of the inputs, then of their t-tests."""
    yield from _section_rows(document.sections)
    if document.comparisons:
        # This import loads numpy, which tables without t-tests do not need.
        from benchwright.report.ttest import TTEST_COLUMNS, ttest_cells

        for pair in document.comparisons:
            rows = [list(TTEST_COLUMNS), *map(ttest_cells, pair.quantities)]
            yield f"{pair.candidate} (u1) compared to {pair.baseline} (u2)", rows


def render_markdown(document: StatsReport) -> str:
    """Return one Markdown table per input under its name, then findings and notices as a list."""
    doubts = [
        f"- **{f.severity}** {markdown_code(f.code)} {markdown_text(f.subject)}: {markdown_text(f.evidence)}\n"
        for f in document.findings
    ]
    doubts += [
        f"- {markdown_text(notice.subject)}: {markdown_text(notice.text)}\n"
        for notice in most_notable(document.notices)
    ]
    parts = []
    for name, rows in _tables_of(document):
        parts.append(f"### {markdown_text(name)}\n\n{markdown_table(rows)}")
    parts += ["".join(doubts)] if doubts else []
    return "\n".join(parts)


def markdown_table(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row is its heading."""
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    escaped = [[markdown_text(cell) for cell in row] for row in rows]
    lines = [escaped[0], rule, *escaped[1:]]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def markdown_text(text: str) -> str:
    """Return a text as one line, escaped so that Markdown shows it literally."""
    return "".join("\\" + c if c in _MARKUP else c for c in one_line(text))


def markdown_code(code: str) -> str:
    """Return a finding's code in backquotes; as escaped text if it has other characters."""
    return f"`{code}`" if _CODE.fullmatch(code) else markdown_text(code)


def render_latex(document: StatsReport) -> str:
    """Return one `tabular` per input with its name as caption; findings and notices are
    comments."""
    doubts = [
        _latex_comment(f"{f.severity} {f.code} {f.subject}: {f.evidence}")
        for f in document.findings
    ]
    doubts += [
        _latex_comment(f"{notice.subject}: {notice.text}")
        for notice in most_notable(document.notices)
    ]
    parts = ["".join(doubts)]
    for name, rows in _tables_of(document):
        parts.append(_latex_table(name, rows))
    return "\n".join(part for part in parts if part)


def _latex_table(caption: str, rows: list[list[str]]) -> str:
    """Return a LaTeX table; the first row is its heading."""
    columns = len(rows[0]) - 1
    body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_latex(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * columns}}}",
            r"\hline",
            body[0],
            r"\hline",
            *body[1:],
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


_LATEX = {
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    # At the start of a row, LaTeX would read these as arguments of the preceding `\\`.
    **{c: f"{{{c}}}" for c in "[]*"},
    **{c: "\\" + c for c in "&%$#_{}"},
}


def _latex(text: str) -> str:
    """Return a text as one line, escaped so that LaTeX prints it literally."""
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def _latex_comment(text: str) -> str:
    """Return a text as one comment line, ending with a newline."""
    return f"% {one_line(text)}\n"


def _json(document: StatsReport) -> str:
    # This import loads numpy.
    from benchwright.report.stats_json import render_json

    return render_json(document)


RENDERERS: Mapping[str, Callable[[StatsReport], str]] = {
    "table": render_table,
    "csv": render_csv,
    "json": _json,
    "markdown": render_markdown,
    "latex": render_latex,
}


def render_stats(document: StatsReport, form: str) -> str:
    """Return the report as text; `form` is a key of `RENDERERS`."""
    return RENDERERS[form](document)


# --------------------------------------------------------------------------------------
# The raw rows as CSV, to debug a benchmark.

_DUMP_COLUMNS = ("input", "thread", "epoch", "command", "status")
_REPLICATE = "replicate"


def render_dump(
    inputs: Sequence[tuple[str, Sequence[MeasurementBlock], Pairs]],
    paths: Sequence[Mapping[int, ReplicatePath]] = (),
) -> str:
    """Return one line per measurement block of every input (name, blocks, levels), in order.

    Columns: input, thread, epoch, command, status, then the values in order of first
    appearance, then the levels by factor, and where an input has `paths`, those of its replicates by
    epoch, such as `2.1`. An absent value is an empty field; NaN is `nan`.
    """
    names = dict.fromkeys(
        name for _, blocks, _ in inputs for block in blocks for name in block.values
    )
    factors = _factors(sample for _, _, sample in inputs)
    fixed = (*_DUMP_COLUMNS, _REPLICATE) if any(paths) else _DUMP_COLUMNS
    head = [*_DUMP_COLUMNS, *names, *_factor_headings(factors, {*fixed, *names})]
    head += fixed[len(_DUMP_COLUMNS) :]
    rows: list[list[object]] = [
        [
            *(source, b.thread, b.epoch, b.command, b.status),
            *(b.values.get(name) for name in names),
            *_levels(factors, sample),
            *([".".join(map(str, own.get(b.epoch, ())))] if any(paths) else ()),
        ]
        for (source, blocks, sample), own in zip(inputs, paths or [{}] * len(inputs), strict=True)
        for b in blocks
    ]
    return csv_of_rows([head, *rows])
