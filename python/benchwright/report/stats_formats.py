"""The formats of `bw stats`: CSV, Markdown and LaTeX; and the raw rows as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import Pairs
from benchwright.core.untrusted import one_line
from benchwright.report.answer_text import StudyAnswer, answer_rows
from benchwright.report.stats_document import InputSection, QuantityLine, StatsReport, most_notable
from benchwright.report.stats_json import render_json
from benchwright.report.stats_table import render_table, tables_with_units
from benchwright.report.ttest import TTEST_COLUMNS, TTEST_CSV_COLUMNS, csv_fields, ttest_cells

# -- CSV, Markdown and LaTeX (table: stats_table.py; JSON: stats_json.py) --------------
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    tests = csv_fields(document)
    more = TTEST_CSV_COLUMNS if document.comparisons else ()
    factors = _factors(section.sample for section in document.sections)
    taken = {*CSV_COLUMNS, *more}
    writer.writerow([*CSV_COLUMNS, *more, *_factor_headings(factors, taken)])
    for section in document.sections:
        for line in section.lines:
            fields = tests.get((section.name, line.summary.name), [None] * len(more))
            texts = [f if isinstance(f, str) else _full(f) for f in fields]
            levels = _levels(factors, section.sample)
            writer.writerow([*_csv_row(section, line), *texts, *levels])
    return text.getvalue()


def _factors(samples: Iterable[Pairs]) -> list[str]:
    """Return the factors in order of first appearance: the last columns, one for each."""
    return list(dict.fromkeys(factor for sample in samples for factor, _ in sample))


def _factor_headings(factors: Sequence[str], taken: Collection[str]) -> list[str]:
    """Return the factors as headings; `factor:NAME` where a column has that name already."""
    return [f"factor:{one}" if one in taken else one for one in factors]


def _levels(factors: Sequence[str], sample: Pairs) -> list[str]:
    own = dict(sample)
    return [own.get(factor, "") for factor in factors]


def _csv_row(section: InputSection, line: QuantityLine) -> list[str]:
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
    return [section.name, s.name, s.unit, str(s.count), *map(_full, figures)]


def _full(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(value)


def answer_markdown(studies: Sequence[StudyAnswer]) -> str:
    """Return a Markdown table with one row per test for each study that has an answer."""
    parts = []
    for one in studies:
        rows = answer_rows(one.answer)
        if rows:
            head = f"### {markdown_text(one.source)}\n\n" if len(studies) > 1 else ""
            parts.append(f"{head}{markdown_table(rows)}\n")
    return "".join(parts)


def render_markdown(document: StatsReport) -> str:
    """Return one Markdown table per input under its name, then findings and notices as a list."""
    doubts = [
        f"- **{f.severity}** {markdown_code(f.code)} {markdown_text(f.subject)}: {markdown_text(f.evidence)}\n"
        for f in document.findings
    ]
    doubts += [
        f"- {markdown_text(one.subject)}: {markdown_text(one.text)}\n"
        for one in most_notable(document.notices)
    ]
    parts = []
    for name, rows in tables_with_units(document.sections):
        parts.append(f"### {markdown_text(name)}\n\n{markdown_table(rows)}")
    for pair in document.comparisons:
        rows = [list(TTEST_COLUMNS), *map(ttest_cells, pair.quantities)]
        head = f"{pair.candidate} (u1) compared to {pair.baseline} (u2)"
        parts.append(f"### {markdown_text(head)}\n\n{markdown_table(rows)}")
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
        _latex_comment(f"{one.subject}: {one.text}") for one in most_notable(document.notices)
    ]
    parts = ["".join(doubts)]
    for name, rows in tables_with_units(document.sections):
        parts.append(_latex_table(name, rows))
    for pair in document.comparisons:
        rows = [list(TTEST_COLUMNS), *map(ttest_cells, pair.quantities)]
        head = f"{pair.candidate} (u1) compared to {pair.baseline} (u2)"
        parts.append(_latex_table(head, rows))
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


RENDERERS: Mapping[str, Callable[[StatsReport], str]] = {
    "table": render_table,
    "csv": render_csv,
    "json": render_json,
    "markdown": render_markdown,
    "latex": render_latex,
}


def render_stats(document: StatsReport, form: str) -> str:
    """Return the report as text; `form` is a key of `RENDERERS`."""
    return RENDERERS[form](document)


# --------------------------------------------------------------------------------------
# The raw rows as CSV, to debug a benchmark.

_DUMP_COLUMNS = ("input", "thread", "epoch", "command", "status")


def render_dump(inputs: Sequence[tuple[str, Sequence[MeasurementBlock], Pairs]]) -> str:
    """Return one line per measurement block of every input (name, blocks, levels), in order.

    Columns: input, thread, epoch, command, status, then the values in order of first
    appearance, then the levels by factor. An absent value is an empty field; NaN is `nan`.
    """
    names = dict.fromkeys(
        name for _, blocks, _ in inputs for block in blocks for name in block.values
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    factors = _factors(sample for _, _, sample in inputs)
    taken = {*_DUMP_COLUMNS, *names}
    writer.writerow([*_DUMP_COLUMNS, *names, *_factor_headings(factors, taken)])
    for source, blocks, sample in inputs:
        levels = _levels(factors, sample)
        for b in blocks:
            values = [repr(b.values[n]) if n in b.values else "" for n in names]
            place = (source, b.thread, b.epoch, b.command, b.status)
            writer.writerow([*place, *values, *levels])
    return text.getvalue()
