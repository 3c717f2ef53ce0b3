"""`bw why` as text and for JSON: the figure, its limiters, the USE table, other findings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Literal

import msgspec

from benchwright.core.resource_use import ProgramUse, ResourceUse, TaskUse
from benchwright.core.results import Finding, Severity, Summary
from benchwright.core.search import Criterion
from benchwright.core.search_text import (
    criterion_limit_text,
    criterion_name,
    criterion_value_text,
)
from benchwright.core.text import duration_text, percent_text, plural, size_text
from benchwright.core.text_table import TextColumn, table_lines
from benchwright.core.untrusted import one_line, visible, visible_lines
from benchwright.findings.codes import LIMITER_CODES
from benchwright.findings.explanation import Explanation
from benchwright.findings.observed import ObservedFiles
from benchwright.findings.use_table import UseRow, UseValue
from benchwright.report.documents import FindingEntry, entries, entry
from benchwright.report.stats_document import ABSENT, decimals_for, number

# --------------------------------------------------------------------------------------
# `bw why` as text: the figure, its limiters, the USE table, the other findings.
#
# Decision: an absent figure is `-` in the table; each reason is printed once below it.

_HEADINGS = ("RESOURCE", "UTILIZATION", "SATURATION", "ERRORS")
_NARROWEST = 72


def render_why(results: Iterable[Explanation], width: int = 100) -> str:
    """Return the results as text, with lines of at most `width` characters.

    Unprintable characters are escaped.
    """
    room = max(width, _NARROWEST)
    return visible_lines("\n".join(_result(result, room) for result in results))


def _result(explanation: Explanation, width: int) -> str:
    lines = [_headline(explanation)]
    if explanation.sentence:
        lines += _wrapped(explanation.sentence, width, "  ")
    for cause in explanation.causes:
        lines += _cause(cause, width)
    if explanation.window is not None:
        lines += [
            "",
            _watched(explanation),
            *_table(explanation.table, width),
            *_absent(explanation, width),
        ]
    rest = [
        line for finding in explanation.findings for line in _finding(finding, width)
    ]
    for line in _file_lines(explanation.files):
        rest += _wrapped(line, width, "  ")
    if rest:
        lines += ["", *rest]
    return "".join(line + "\n" for line in lines)


def _headline(explanation: Explanation) -> str:
    """Return the name, the factors that the name does not contain, and the figure."""
    pairs = (f"{name}={level}" for name, level in explanation.sample)
    sample = "".join(f" {pair}" for pair in pairs if not _is_in(pair, explanation.name))
    if explanation.criterion is not None:
        figure = _limited_text(explanation.figure, explanation.criterion)
    else:
        figure = (
            "no figure"
            if explanation.figure is None
            else figure_text(explanation.figure)
        )
    return f"{explanation.name}{sample}: {figure}"


def _is_in(pair: str, name: str) -> bool:
    """Return whether a test's name has a factor's level as a part: `dd:block_size=4k`."""
    return re.search(rf"(?<![^:,\s]){re.escape(pair)}(?![^:,#\s])", name) is not None


def figure_text(summary: Summary) -> str:
    """Return a quantity in one line: `Elapsed 2.341 s, 2.290 to 2.392 (95 %, 10 trials)`."""
    if not summary.count:
        return f"{summary.label} is missing"
    decimals = decimals_for(max(abs(summary.mean), abs(summary.maximum)))
    text = f"{summary.label} {number(summary.mean, decimals)} {summary.unit}".rstrip()
    trials = plural(summary.count, "trial")
    if summary.low != summary.low:
        return f"{text} ({trials}, no interval)"
    low, high = number(summary.low, decimals), number(summary.high, decimals)
    return f"{text}, {low} to {high} ({percent_text(summary.confidence)}, {trials})"


def _limited_text(summary: Summary | None, criterion: Criterion) -> str:
    """Return a load's figure with its limit: `p95 response 503 ms, limit < 50 ms (1 trial)`."""
    name, limit = criterion_name(criterion), criterion_limit_text(criterion)
    if summary is None or not summary.count:
        return f"{name} is missing, limit {limit}"
    low, high = (
        criterion_value_text(criterion, one) for one in (summary.low, summary.high)
    )
    trials = plural(summary.count, "trial")
    inside = f"{trials}, no interval"
    if summary.low == summary.low:
        inside = f"{low} to {high} ({percent_text(summary.confidence)}), {trials}"
    return f"{name} {criterion_value_text(criterion, summary.mean)}, limit {limit} ({inside})"


def _cause(cause: Finding, width: int) -> list[str]:
    kind = "limited by" if cause.code in LIMITER_CODES else "doubtful:"
    line = f"{kind} {cause.code}: {cause.evidence}"
    return [*_wrapped(line, width, "  "), *_wrapped(cause.remedy, width, "    = ")]


def _finding(finding: Finding, width: int) -> list[str]:
    """Return a finding; a note has no remedy, as in `parts.finding_line`."""
    line = f"{finding.severity}: {finding.evidence} [{finding.code}]"
    lines = _wrapped(line, width, "  ")
    if finding.severity is not Severity.NOTE and finding.remedy:
        lines += _wrapped(finding.remedy, width, "    = ")
    return lines


def _file_lines(files: ObservedFiles | None) -> Iterator[str]:
    """Yield the files of profiles and characterization, and how to open them."""
    if files is None:
        return
    if files.flame_graphs:
        first, last = files.flame_graphs[0], files.flame_graphs[-1]
        which = first if first == last else f"{first} to {last}"
        graphs = plural(len(files.flame_graphs), "flame graph")
        yield f"profiled: {graphs}, to be opened in a browser: {which}"
    if files.io:
        more = ""
        if files.block_trace:
            more = f"; its requests: bw trace stat {quote(files.block_trace)}"
        yield f"characterized: its I/O is described in {files.io}{more}"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    # Escape before wrapping, because an escape is longer than its character.
    return textwrap.wrap(
        one_line(text),
        width,
        initial_indent=indent,
        subsequent_indent=" " * (len(indent) + (2 if indent == "  " else 0)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _watched(explanation: Explanation) -> str:
    window = explanation.window
    assert window is not None
    first, last = window.epochs
    which = f"trial {first}" if first == last else f"trials {first} to {last}"
    return (
        f"  watched {explanation.watched} of {plural(explanation.trials, 'trial')}, "
        f"{duration_text(explanation.watched_s)}; here {which}, {duration_text(window.seconds)}:"
    )


def _table(rows: Sequence[UseRow], width: int) -> list[str]:
    names = [visible(f"{row.resource} {row.name}".rstrip()) for row in rows]
    first = min(max(map(len, (*names, _HEADINGS[0]))), 24)
    cells = [[_cell(part) for part in _parts(row)] for row in rows]
    room = width - first - 2 - 3 * 2
    widths = _shared(cells, room)
    columns = [
        TextColumn(_HEADINGS[0], tuple(names), left=True, width=first, wrap=True)
    ]
    for place, (heading, column) in enumerate(zip(_HEADINGS[1:], widths, strict=True)):
        texts = tuple(row[place] for row in cells)
        columns.append(TextColumn(heading, texts, left=True, width=column, wrap=True))
    return list(table_lines(columns, indent="  "))


def _shared(cells: Sequence[Sequence[str]], room: int) -> tuple[int, ...]:
    """Return the widths of the three columns: as needed, or shares of `room` if too wide."""
    needed = [
        max(len(heading), *(len(row[place]) for row in cells))
        for place, heading in enumerate(_HEADINGS[1:])
    ]
    if sum(needed) <= room:
        return tuple(needed)
    errors = min(needed[2], room // 4)
    saturation = min(needed[1], (room - errors) // 2)
    return room - errors - saturation, saturation, errors


def _parts(row: UseRow) -> tuple[tuple[UseValue, ...], ...]:
    return row.utilization, row.saturation, row.errors


def _cell(readings: Sequence[UseValue]) -> str:
    return ", ".join(f"{reading.name} {reading_text(reading)}" for reading in readings)


def reading_text(reading: UseValue) -> str:
    """Return a figure with its unit, its capacity and its share of it; `-` if absent."""
    if reading.value is None:
        return ABSENT
    text = _in_unit(reading.value, reading.unit)
    if not reading.of:
        return text
    share = percent_text(reading.value / reading.of)
    return f"{text} of {_in_unit(reading.of, reading.unit)} ({share})"


def _in_unit(value: float, unit: str) -> str:
    if unit == "share":
        return percent_text(value)
    if unit in ("B", "B/s"):
        return size_text(value) + unit[1:]
    if unit == "s":
        return duration_text(value)
    if unit == "processors":
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


def _absent(explanation: Explanation, width: int) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for row in explanation.table:
        for reading in (one for part in _parts(row) for one in part):
            if reading.value is None and reading.absent:
                name = f"{row.resource} {row.name}".rstrip()
                reasons.setdefault(reading.absent, []).append(f"{name}: {reading.name}")
    for why, what in reasons.items():
        text = f"- {', '.join(dict.fromkeys(what))}: {why}"
        yield from _wrapped(text, width, "  ")


# -- the document ------------------------------------------------------------------------


class FigureEntry(msgspec.Struct, frozen=True):
    """The quantity that a result is about."""

    name: str
    label: str
    unit: str
    count: int
    mean: float | None
    low: float | None
    high: float | None
    confidence: float


class LimitEntry(msgspec.Struct, frozen=True):
    """The criterion of a search's load, and its limit."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]


class AbsentEntry(msgspec.Struct, frozen=True):
    """Something that was not measured, and the reason."""

    what: str
    why: str


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the USE table covers."""

    epochs: tuple[int, int]
    seconds: float
    samples: int
    series: str | None
    """The file of the sampler's series, relative to the study."""
    sampler_cores: float | None
    tasks: tuple[TaskUse, ...]
    others: tuple[TaskUse, ...]
    programs: tuple[ProgramUse, ...]
    absent: tuple[AbsentEntry, ...]


class ValueEntry(msgspec.Struct, frozen=True):
    """One figure of the USE table; if absent, null with the reason."""

    name: str
    value: float | None
    unit: str
    of: float | None
    """The capacity that the value is a part of."""
    absent: str | None


class ResourceEntry(msgspec.Struct, frozen=True):
    """One row of the USE table."""

    resource: str
    name: str
    utilization: tuple[ValueEntry, ...]
    saturation: tuple[ValueEntry, ...]
    errors: tuple[ValueEntry, ...]


class ObservedFilesEntry(msgspec.Struct, frozen=True):
    """Files of observations that belong to the result, relative to the study."""

    flame_graphs: tuple[str, ...]
    io: str | None
    block_trace: str | None


class ExplanationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One result explained."""

    name: str
    sample: dict[str, str]
    threads: int | None
    figure: FigureEntry | None
    limit: LimitEntry | None
    first: str | None
    """The code of the first cause."""
    limited_by: str | None
    """The code of the first limit."""
    sentence: str | None
    """Text for a result without a limit; null if there is one."""
    causes: tuple[FindingEntry, ...]
    trials: int
    trials_watched: int
    watched_s: float
    window: WindowEntry | None
    use: tuple[ResourceEntry, ...]
    findings: tuple[FindingEntry, ...]
    files: ObservedFilesEntry


class WhyDocument(
    msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/why/1"
):
    """Limiters of each result."""

    study: str
    session: int | None
    results: tuple[ExplanationEntry, ...]


def why_document(
    results: Iterable[Explanation], study: str, session: int | None
) -> WhyDocument:
    """Return the document of all results."""
    return WhyDocument(study, session, tuple(map(_explanation_entry, results)))


def _explanation_entry(explanation: Explanation) -> ExplanationEntry:
    limit = explanation.criterion
    files = explanation.files or ObservedFiles()
    return ExplanationEntry(
        name=explanation.name,
        sample=dict(explanation.sample),
        threads=explanation.threads,
        figure=None
        if explanation.figure is None
        else entry(FigureEntry, explanation.figure),
        limit=None
        if limit is None
        else entry(LimitEntry, limit, name=limit.key, value=limit.limit),
        first=explanation.first or None,
        limited_by=explanation.limited_by or None,
        sentence=explanation.sentence or None,
        causes=entries(FindingEntry, explanation.causes),
        trials=explanation.trials,
        trials_watched=explanation.watched,
        watched_s=explanation.watched_s,
        window=None
        if explanation.window is None
        else _window_entry(explanation.window),
        use=tuple(map(_resource_entry, explanation.table)),
        findings=entries(FindingEntry, explanation.findings),
        files=ObservedFilesEntry(
            files.flame_graphs, files.io or None, files.block_trace or None
        ),
    )


def _window_entry(use: ResourceUse) -> WindowEntry:
    return entry(
        WindowEntry,
        use,
        series=use.series or None,
        sampler_cores=use.sampler_cost,
        absent=tuple(AbsentEntry(what, why) for what, why in use.absent),
    )


def _resource_entry(row: UseRow) -> ResourceEntry:
    utilization, saturation, errors = (
        tuple(entry(ValueEntry, one, absent=one.absent or None) for one in part)
        for part in _parts(row)
    )
    return ResourceEntry(row.resource, row.name, utilization, saturation, errors)
