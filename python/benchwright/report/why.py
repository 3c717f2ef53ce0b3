"""`bw why` as text and for JSON: the sentence for all results, the figures, the USE table,
findings."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from shlex import quote
from typing import Literal

import msgspec

from benchwright.core.criterion import (
    Criterion,
    criterion_limit_text,
    criterion_name,
    criterion_value_text,
)
from benchwright.core.resource_use import ProgramUse, ResourceUse, TaskUse
from benchwright.core.results import Finding, Severity, Summary
from benchwright.core.text import duration_text, heading_with_unit, percent_text, plural, size_text
from benchwright.core.text_table import (
    TextColumn,
    cells_in_unit,
    table_lines,
    text_column,
    word_column,
)
from benchwright.core.untrusted import one_line, visible, visible_lines
from benchwright.findings.codes import LIMITER_CODES
from benchwright.findings.explanation import ONLY_STATED, Explanation, unlimited_groups
from benchwright.findings.observed import ObservedFiles
from benchwright.findings.use_table import UseRow, UseValue, busy_rows
from benchwright.report.answer import FindingGroup, concerned_text, finding_groups
from benchwright.report.documents import FindingEntry, entries, entry
from benchwright.report.stats_document import ABSENT

# --------------------------------------------------------------------------------------
# `bw why` as text: one sentence for all results with the same cause, the figures, what was
# busy, the other findings.
#
# Decision: results with the same cause are one sentence with the range of their figures, because
# a scan of nine levels beside a busy neighbour has one answer and not nine. Its evidence, its
# remedy and the USE table are those of the worst result. Rejected: the table of each result,
# which took 370 lines for nine levels; `--all` prints it.

_HEADINGS = ("RESOURCE", "UTILIZATION", "SATURATION", "ERRORS")
_NARROWEST = 60


def render_why(
    explanations: Sequence[Explanation],
    width: int = 100,
    *,
    about: Sequence[Finding] = (),
    whole: bool = False,
    noun: str = "test",
) -> str:
    """Return results as text, with lines of at most `width` characters.

    `about`: findings about the session or the file, and no single result.
    `whole`: print the complete USE table of every result, and why figures are absent; `noun`:
    what a result is, a `test` or a `load` of a search. Unprintable characters are escaped.
    """
    room = max(width, _NARROWEST)
    if not explanations:
        return f"no {noun} was completed, so there is no result to explain\n"
    results = named_results(explanations)
    groups = _groups_of(results, lambda one: one.causes)
    busiest = results if whole else _worst(groups, results)
    blocks = [
        list(_answers(groups, results, room, noun)),
        _figures(results, room, noun),
        *(_uses(one, room, whole=whole) for one in busiest),
        list(_other_findings(about, results, room, noun)),
        [
            line
            for one in results
            for text in _file_lines(one.files)
            for line in _wrapped(text, room, "")
        ],
    ]
    return visible_lines("\n\n".join("\n".join(b) for b in blocks if b) + "\n")


def _groups_of(
    results: Iterable[Explanation],
    findings: Callable[[Explanation], Sequence[Finding]],
    about: Sequence[Finding] = (),
) -> tuple[FindingGroup, ...]:
    named = [(one.name, finding) for one in results for finding in findings(one)]
    return finding_groups([*(("", finding) for finding in about), *named])


def _worst(groups: Sequence[FindingGroup], results: Sequence[Explanation]) -> list[Explanation]:
    """Return the result whose USE table is shown: the worst of the first group."""
    if not groups:
        return sorted(results, key=lambda one: -one.watched_s)[:1]
    return [one for one in results if one.name == groups[0].worst][:1]


# -- the sentences -----------------------------------------------------------------------


def _answers(
    groups: Sequence[FindingGroup], results: Sequence[Explanation], width: int, noun: str
) -> Iterator[str]:
    """Yield what limited the results: a sentence for each cause, its evidence and remedy, then
    the sentences of results without a limit."""
    for group in groups:
        yield from _wrapped(cause_text(group, len(results), noun), width, "")
        if len(group.tests) > 1 and group.evidence not in group.sentence:
            worst = f"worst, {group.worst}: {_short_path(group.evidence)}"
            yield from _wrapped(worst, width, "  ")
        yield from _wrapped(group.remedy, width, "  = ")
    for names, text in unlimited_groups(results):
        whom = concerned_text(names, len(results), noun)
        yield from _wrapped(f"{whom}: {_short_path(text)}", width, "")


def cause_text(group: FindingGroup, total: int, noun: str) -> str:
    """Return `7 of 7 loads: other processes cost about 24.4 to 34.3 % [noisy-neighbour]`."""
    whom = concerned_text(group.tests, total, noun)
    text = _short_path(group.sentence if len(group.tests) > 1 else group.evidence)
    mark = "" if group.code in LIMITER_CODES else f"{group.severity}: "
    return f"{whom}: {mark}{text} [{group.code}]"


# -- the figures -------------------------------------------------------------------------


def named_results(results: Sequence[Explanation]) -> list[Explanation]:
    """Return the results with the factors in their names: those that the name does not contain,
    and, of several results, only those whose level is not the same in all."""
    levels: dict[str, set[str]] = {}
    for one in results:
        for factor, level in one.sample:
            levels.setdefault(factor, set()).add(level)
    constant = {factor for factor, found in levels.items() if len(found) == 1}
    if len(results) == 1:
        constant = set()
    return [
        msgspec.structs.replace(one, name=" ".join((one.name, *_added(one, constant))))
        for one in results
    ]


def _added(explanation: Explanation, constant: set[str]) -> Iterator[str]:
    for factor, level in explanation.sample:
        pair = f"{factor}={level}"
        if factor not in constant and not _is_in(pair, explanation.name):
            yield pair


def _is_in(pair: str, name: str) -> bool:
    """Return whether a test's name has a factor's level as a part: `dd:block_size=4k`."""
    return re.search(rf"(?<![^:,\s]){re.escape(pair)}(?![^:,#\s])", name) is not None


def figure_text(summary: Summary) -> str:
    """Return a quantity in one line: `Elapsed 234.1 ms, 229.0 to 239.2 (95 %, 10 trials)`."""
    if not summary.count:
        return f"{summary.label} is missing"
    # The unit and the digits of the table of `bw run` and `bw stats`.
    (mean, low, high), unit = cells_in_unit(
        [summary.mean, summary.low, summary.high], summary.unit, typical=[summary.mean]
    )
    text = f"{summary.label} {mean} {unit}".rstrip()
    trials = plural(summary.count, "trial")
    if summary.low != summary.low:
        return f"{text} ({trials}, no interval)"
    return f"{text}, {low} to {high} ({percent_text(summary.confidence)}, {trials})"


def _limited_text(summary: Summary | None, criterion: Criterion) -> str:
    """Return a load's figure with its limit: `p95 response 503 ms, limit < 50 ms (1 trial)`."""
    name, limit = criterion_name(criterion), criterion_limit_text(criterion)
    if summary is None or not summary.count:
        return f"{name} is missing, limit {limit}"
    low, high = (criterion_value_text(criterion, one) for one in (summary.low, summary.high))
    trials = plural(summary.count, "trial")
    inside = f"{trials}, no interval"
    if summary.low == summary.low:
        inside = f"{low} to {high} ({percent_text(summary.confidence)}), {trials}"
    return f"{name} {criterion_value_text(criterion, summary.mean)}, limit {limit} ({inside})"


def _figure_text(explanation: Explanation) -> str:
    if explanation.criterion is not None:
        return _limited_text(explanation.figure, explanation.criterion)
    if explanation.figure is None:
        return "no figure"
    return figure_text(explanation.figure)


_NO_FIGURE = (math.nan, math.nan, math.nan)


def _figures(results: Sequence[Explanation], width: int, noun: str) -> list[str]:
    """Return a line for each result: its main quantity, and the codes of its causes; none where
    files state only estimates, as the answer says."""
    if all(one.sentence == ONLY_STATED for one in results):
        return []
    if len(results) == 1:
        return _wrapped(_figure_text(results[0]), width, "")
    names = word_column(noun, [one_line(one.name) for one in results])
    causes = word_column(
        "limited by", [", ".join(cause.code for cause in one.causes) or ABSENT for one in results]
    )
    summaries = [one.figure for one in results]
    kinds = {(one.label, one.unit) for one in summaries if one is not None}
    if len(kinds) != 1:
        figures = word_column("figure", [_figure_text(one) for one in results])
        return list(table_lines([names, figures, causes]))
    ((label, unit),) = kinds
    rows = [
        (one.mean, one.low, one.high) if one is not None and one.count else _NO_FIGURE
        for one in summaries
    ]
    cells, shown_unit = cells_in_unit([figure for row in rows for figure in row], unit)
    headings = [heading_with_unit(label, shown_unit), "low", "high"]
    if all(math.isnan(low) for _, low, _ in rows):
        headings = headings[:1]
    columns = [
        text_column(heading, cells[place :: len(_NO_FIGURE)])
        for place, heading in enumerate(headings)
    ]
    trials = text_column("trials", [str(one.count if one else 0) for one in summaries])
    lines = list(table_lines([names, *columns, trials, causes]))
    limits = dict.fromkeys(
        f"limit: {criterion_name(one.criterion)} {criterion_limit_text(one.criterion)}"
        for one in results
        if one.criterion is not None
    )
    return [*lines, *limits]


# -- what was busy -----------------------------------------------------------------------


def _uses(explanation: Explanation, width: int, *, whole: bool) -> list[str]:
    """Return the USE table of a result: all of it, or only what was busy."""
    window = explanation.window
    if window is None:
        return []
    first, last = window.epochs
    which = f"trial {first}" if first == last else f"one window of trials {first} to {last}"
    seen = f"{explanation.watched} of {plural(explanation.trials, 'trial')} watched"
    what = "resources" if whole else "busy"
    head = f"{what} in {which} of {explanation.name} ({duration_text(window.seconds)}; {seen})"
    rows = explanation.table if whole else busy_rows(explanation.table)
    lines = [*_wrapped(head, width, ""), *_table(rows, width, whole=whole)]
    return [*lines, *_absent(explanation, width)] if whole else lines


def _table(rows: Sequence[UseRow], width: int, *, whole: bool) -> list[str]:
    names = [visible(f"{row.resource} {_short_path(row.name)}".rstrip()) for row in rows]
    first = min(max(map(len, (*names, _HEADINGS[0]))), 24)
    cells = [[_cell(part, whole=whole) for part in _parts(row)] for row in rows]
    room = width - first - 2 - 3 * 2
    widths = _shared(cells, room)
    columns = [TextColumn(_HEADINGS[0], tuple(names), left=True, width=first, wrap=True)]
    for place, (heading, column) in enumerate(zip(_HEADINGS[1:], widths, strict=True)):
        texts = tuple(row[place] for row in cells)
        if any(texts):
            columns.append(TextColumn(heading, texts, left=True, width=column, wrap=True))
    return list(table_lines(columns, indent="  "))


_HASH = re.compile(r"[0-9a-f]{16,}")
"""A hash or another machine-made name, as in the cgroup of a container."""


def _short_path(name: str) -> str:
    """Return a cgroup's path with its hashes cut to eight characters."""
    return _HASH.sub(lambda match: f"{match[0][:8]}...", name)


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


def _cell(readings: Sequence[UseValue], *, whole: bool) -> str:
    """Return the figures of a cell; not `whole`: without absent ones and zeros."""
    texts = [(one.name, reading_text(one)) for one in readings]
    return ", ".join(
        f"{name} {text}" for name, text in texts if whole or text.split()[0] not in (ABSENT, "0")
    )


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


# -- other findings, files ---------------------------------------------------------------


def _other_findings(
    about: Sequence[Finding], results: Sequence[Explanation], width: int, noun: str
) -> Iterator[str]:
    """Yield the other findings, one for each code and severity, with remedies of all but notes."""
    for group in _groups_of(results, lambda one: one.findings, about):
        whom = concerned_text(group.tests, len(results), noun) if group.tests else ""
        text = f"{group.severity}: {_short_path(group.sentence)} [{group.code}]"
        line = f"{whom}: {text}" if whom else text
        yield from _wrapped(line, width, "")
        if group.severity is not Severity.NOTE or group.code == "not-watched":
            yield from _wrapped(group.remedy, width, "  = ")


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
        subsequent_indent=" " * (len(indent) or 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


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


class WhyDocument(msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/why/1"):
    """Limiters of each result."""

    study: str
    session: int | None
    results: tuple[ExplanationEntry, ...]
    groups: tuple[FindingGroup, ...]
    """The causes of all results together, the most severe first."""
    findings: tuple[FindingEntry, ...]
    """About the session or the file, and no single result."""


def why_document(
    results: Iterable[Explanation], study: str, session: int | None, about: Sequence[Finding] = ()
) -> WhyDocument:
    """Return the document of all results."""
    explained = tuple(results)
    groups = _groups_of(explained, lambda one: one.causes)
    return WhyDocument(
        study,
        session,
        tuple(map(_explanation_entry, explained)),
        groups,
        entries(FindingEntry, about),
    )


def _explanation_entry(explanation: Explanation) -> ExplanationEntry:
    limit = explanation.criterion
    files = explanation.files or ObservedFiles()
    return ExplanationEntry(
        name=explanation.name,
        sample=dict(explanation.sample),
        threads=explanation.threads,
        figure=None if explanation.figure is None else entry(FigureEntry, explanation.figure),
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
        window=None if explanation.window is None else _window_entry(explanation.window),
        use=tuple(map(_resource_entry, explanation.table)),
        findings=entries(FindingEntry, explanation.findings),
        files=ObservedFilesEntry(files.flame_graphs, files.io or None, files.block_trace or None),
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
