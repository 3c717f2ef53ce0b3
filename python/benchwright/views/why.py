"""The view of explanations: why results are what they are, as blocks and as the text of `bw why`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from shlex import quote

import msgspec

from benchwright.core.criterion import (
    Criterion,
    criterion_limit_text,
    criterion_name,
    criterion_value_text,
)
from benchwright.core.results import Estimate, Finding, Severity, Summary
from benchwright.core.text import (
    ABSENT,
    binary_size_text,
    duration_text,
    percent_text,
    plural,
    scale_of,
    size_text,
)
from benchwright.core.untrusted import visible, visible_lines
from benchwright.findings.codes import LIMITER_CODES
from benchwright.findings.explanation import ONLY_STATED, Explanation, unlimited_groups
from benchwright.findings.result import ObservedFiles
from benchwright.findings.use_table import UseRow, UseValue, busy_rows
from benchwright.report.answer import FindingGroup, concerned_text
from benchwright.results.explained import ExplainedServer, groups_of
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    TableBlock,
    Words,
    count_column,
    estimate_number,
    keyed,
    mean_of,
    table_of,
)
from benchwright.views.terminal import table_text, wrapped
from benchwright.views.tests import observed_lines
from benchwright.watch.process_use import ProcessUse

# -- `bw why` as text: one sentence for all results with the same cause, the figures, what was
# busy, the other findings.
#
# Decision: results with the same cause are one sentence with the range of their figures, because
# a scan of nine levels beside a busy neighbour has one answer and not nine. Its evidence, its
# remedy and the USE table are those of the worst result. Rejected: the table of each result,
# which took 370 lines for nine levels; `--all` prints it.

_NARROWEST = 60


def render_why(
    explanations: Sequence[Explanation],
    width: int = 100,
    *,
    about: Sequence[Finding] = (),
    whole: bool = False,
    noun: str = "test",
    running: Explanation | None = None,
) -> str:
    """Return results as text, with lines of at most `width` characters.

    `about`: findings about the session or the file, and no single result.
    `whole`: print the complete USE table of every result, and why figures are absent; `noun`:
    what a result is, a `test` or a `load` of a search; `running`: a trial that has not ended,
    which comes first. Unprintable characters are escaped.
    """
    room = max(width, _NARROWEST)
    if running is not None:
        now = render_why([running], width, whole=whole, noun=noun)
        done = [one for one in explanations if one.trials]
        return now + (
            "\n" + render_why(done, width, about=about, whole=whole, noun=noun) if done else ""
        )
    if not explanations:
        return f"no {noun} was completed, so there is no result to explain\n"
    results = named_results(explanations)
    groups = groups_of(results, lambda explanation: explanation.causes)
    worst = worst_of(groups, results)
    busiest = results if whole else [worst] if worst else []
    blocks = [
        list(_answers(groups, results, room, noun)),
        _figures(results, room, noun),
        *(_uses(one, room, whole=whole) for one in busiest),
        *(_processes(one, room) for one in results if isinstance(one, ExplainedServer)),
        list(_other_findings(about, results, room, noun)),
        [
            line
            for result in results
            for text in _file_lines(result.files)
            for line in wrapped(text, room)
        ],
    ]
    return visible_lines("\n\n".join("\n".join(b) for b in blocks if b) + "\n")


def worst_of(groups: Sequence[FindingGroup], results: Sequence[Explanation]) -> Explanation | None:
    """Return the result whose USE table is shown: the worst of the first group, else the one that
    was watched longest."""
    named = (result for result in results if groups and result.name == groups[0].worst)
    return next(named, None) or max(results, key=lambda one: one.watched_s, default=None)


# -- the sentences -----------------------------------------------------------------------


def _answers(
    groups: Sequence[FindingGroup], results: Sequence[Explanation], width: int, noun: str
) -> Iterator[str]:
    """Yield what limited the results: a sentence for each cause, its evidence and remedy, then
    the sentences of results without a limit."""
    for group in groups:
        yield from wrapped(cause_text(group, len(results), noun), width)
        if len(group.tests) > 1 and group.evidence not in group.sentence:
            worst = f"worst, {group.worst}: {_short_path(group.evidence)}"
            yield from wrapped(worst, width, "  ")
        yield from wrapped(f"= {group.remedy}" if group.remedy else "", width, "  ")
    for names, text in unlimited_groups(results):
        whom = concerned_text(names, len(results), noun)
        yield from wrapped(f"{whom}: {_short_path(text)}", width)


def running_line(running: Explanation) -> str:
    """Return `12.3 s: sort, trial 2 so far: one thread ... [single-threaded-cpu-bound]`."""
    if running.causes:
        causes = [f"{_short_path(cause.evidence)} [{cause.code}]" for cause in running.causes]
        text = "; ".join(causes)
    else:
        text = _short_path(running.sentence)
    lasted = "" if running.window is None else f"{duration_text(running.window.seconds)}: "
    return visible(f"{lasted}{running.name}: {text}")


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
    for explanation in results:
        for factor, level in explanation.sample:
            levels.setdefault(factor, set()).add(level)
    constant = {factor for factor, found in levels.items() if len(found) == 1}
    if len(results) == 1:
        constant = set()
    return [
        msgspec.structs.replace(result, name=" ".join((result.name, *_added(result, constant))))
        for result in results
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
    scale = scale_of([summary.mean], summary.unit, ends=[summary.low, summary.high])
    text = f"{summary.label} {scale.text(summary.mean)}"
    trials = plural(summary.count, "trial")
    if summary.low != summary.low:
        return f"{text} ({trials}, no interval)"
    low, high = (scale.text(end, unit=False) for end in (summary.low, summary.high))
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


def _figures(results: Sequence[Explanation], width: int, noun: str) -> list[str]:
    """Return the main quantity of a single result, the table of several; none where files state
    only estimates, as the answer says."""
    if all(result.sentence == ONLY_STATED or result.running for result in results):
        return []
    if len(results) == 1:
        return wrapped(_figure_text(results[0]), width)
    table = figures_table(results, noun)
    return [*table_text(table, width), *wrapped(table.note, width)]


def figures_table(results: Sequence[Explanation], noun: str, part: str = "") -> TableBlock:
    """Return a row for each result: its main quantity, and the codes of its causes."""
    columns: list[tuple[Column, Callable[[str, Explanation], Cell]]] = [
        (Column(noun.capitalize()), lambda _, explanation: Words(visible(explanation.name)))
    ]
    kinds = {
        (result.figure.label, result.figure.unit) for result in results if result.figure is not None
    }
    if len(kinds) == 1:
        ((label, unit),) = kinds
        known = [
            result.figure for result in results if result.figure is not None and result.figure.count
        ]
        scale = scale_of(
            [summary.mean for summary in known],
            unit,
            ends=[end for summary in known for end in (summary.low, summary.high)],
        )
        columns += [
            (
                Column(visible(label), numeric=True, short=visible(label)),
                lambda key, one: estimate_number(f"{key}.figure", _estimate(one.figure), scale),
            ),
            count_column(
                "Trials", "trials", lambda one: one.figure.count if one.figure is not None else 0
            ),
        ]
    else:
        columns.append((Column("Figure"), lambda _, one: Words(visible(_figure_text(one)))))
    columns.append(
        (
            Column("Limited by"),
            lambda _, one: Words(visible(", ".join(cause.code for cause in one.causes) or ABSENT)),
        )
    )
    limits = dict.fromkeys(
        f"limit: {criterion_name(result.criterion)} {criterion_limit_text(result.criterion)}"
        for result in results
        if result.criterion is not None
    )
    return table_of(
        f"{part}-figures",
        "What limited each",
        keyed(f"{part}.r", results),
        columns,
        note=visible("; ".join(limits)) if len(kinds) == 1 else "",
    )


def _estimate(summary: Summary | None) -> Estimate | None:
    return mean_of(summary) if summary is not None and summary.count else None


# -- what was busy -----------------------------------------------------------------------


def _uses(explanation: Explanation, width: int, *, whole: bool) -> list[str]:
    """Return the USE table of a result below its title: all of it, or only what was busy."""
    if explanation.window is None:
        return []
    table = use_table(explanation, whole=whole)
    return [
        *wrapped(table.title, width),
        *(f"  {line}" for line in table_text(table, width - 2, wrap=True)),
        *wrapped(table.note, width, "  "),
    ]


def use_table(explanation: Explanation, part: str = "", *, whole: bool) -> TableBlock:
    """Return the USE table of a result that was watched: all of it, which a page folds, or only
    what was busy."""
    window = explanation.window
    assert window is not None
    first, last = window.epochs
    which = f"trial {first}" if first == last else f"one window of trials {first} to {last}"
    name = f"{which} of {explanation.name}"
    seen = f"{explanation.watched} of {plural(explanation.trials, 'trial')} watched"
    lasted = f"{duration_text(window.seconds)}; {seen}"
    if explanation.running:
        name, lasted = f"{explanation.name}, which runs", duration_text(window.seconds)
    rows = explanation.table if whole else busy_rows(explanation.table)
    what = f"All {len(rows)} resources" if whole else "What was busy"
    return table_of(
        f"{part}-{'resources' if whole else 'busy'}",
        visible(f"{what} in {name} ({lasted})"),
        [("", row) for row in rows],
        (
            (Column("Resource"), lambda _, row: Words(visible(_resource_name(row)))),
            (Column("Utilization"), lambda _, row: _readings(row.utilization, whole=whole)),
            (Column("Saturation"), lambda _, row: _readings(row.saturation, whole=whole)),
            (Column("Errors"), lambda _, row: _readings(row.errors, whole=whole)),
        ),
        note=visible(_absent_text(rows)) if whole else "",
        folded=whole,
    )


_MOST_PROCESSES = 8


def _processes(server: ExplainedServer, width: int) -> list[str]:
    """Return the table of a running server's processes, the busiest, and what observers recorded."""
    lines = []
    if server.processes:
        table = processes_table(server)
        lines += [table.title, *(f"  {line}" for line in table_text(table, width - 2))]
    if (left := len(server.processes) - _MOST_PROCESSES) > 0:
        lines.append(f"  and {plural(left, 'other')} that used less")
    return [*lines, *map(visible, observed_lines(server.name, (), server.recorded))]


def processes_table(server: ExplainedServer) -> TableBlock:
    """Return a row for each of a running server's busiest processes."""

    def number(name: str, text: Callable[[ProcessUse], str]) -> Callable[[str, ProcessUse], Cell]:
        return lambda key, use: Number(
            key=f"{key}.{name}", value=getattr(use, name), text=text(use)
        )

    return table_of(
        "processes",
        visible(f"Processes of {server.name}"),
        keyed("p", server.processes[:_MOST_PROCESSES]),
        (
            (Column("Process"), lambda _, use: Words(visible(f"{use.name} ({use.pid})"))),
            (
                Column("CPUs", numeric=True, short="CPUs"),
                number("cores", lambda use: f"{use.cores:.3f}"),
            ),
            (Column("User", numeric=True), number("user_cores", lambda u: f"{u.user_cores:.3f}")),
            (
                Column("System", numeric=True),
                number("system_cores", lambda use: f"{use.system_cores:.3f}"),
            ),
            (Column("Threads", numeric=True), number("threads", lambda use: str(use.threads))),
            (
                Column("RSS", numeric=True, short="RSS"),
                number("rss_bytes", lambda use: binary_size_text(use.rss_bytes)),
            ),
            (
                Column("Disk reads", numeric=True),
                number("read_bytes_per_s", lambda use: _rate(use.read_bytes_per_s)),
            ),
            (
                Column("Disk writes", numeric=True),
                number("write_bytes_per_s", lambda use: _rate(use.write_bytes_per_s)),
            ),
        ),
    )


def _rate(bytes_per_s: float | None) -> str:
    return ABSENT if bytes_per_s is None else f"{size_text(bytes_per_s)}/s"


def _resource_name(row: UseRow) -> str:
    return f"{row.resource} {_short_path(row.name)}".rstrip()


_HASH = re.compile(r"[0-9a-f]{16,}")
"""A hash or another machine-made name, as in the cgroup of a container."""


def _short_path(name: str) -> str:
    """Return a cgroup's path with its hashes cut to eight characters."""
    return _HASH.sub(lambda match: f"{match[0][:8]}...", name)


def _readings(readings: Sequence[UseValue], *, whole: bool) -> Words:
    """Return the figures of a cell; not `whole`: without absent ones and zeros."""
    texts = [(reading.name, reading_text(reading)) for reading in readings]
    return Words(
        visible(
            ", ".join(
                f"{name} {text}"
                for name, text in texts
                if whole or text.split()[0] not in (ABSENT, "0")
            )
        )
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


def _absent_text(rows: Sequence[UseRow]) -> str:
    """Return which figures are absent, and why."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for use_value in (*row.utilization, *row.saturation, *row.errors):
            if use_value.value is None and use_value.absent:
                reasons.setdefault(use_value.absent, []).append(
                    f"{_resource_name(row)}: {use_value.name}"
                )
    texts = [f"{', '.join(dict.fromkeys(what))}: {why}" for why, what in reasons.items()]
    return f"Absent: {'; '.join(texts)}." if texts else ""


# -- other findings, files ---------------------------------------------------------------


def _other_findings(
    about: Sequence[Finding], results: Sequence[Explanation], width: int, noun: str
) -> Iterator[str]:
    """Yield the other findings, one for each code and severity, with remedies of all but notes."""
    for group in groups_of(results, lambda explanation: explanation.findings, about):
        whom = concerned_text(group.tests, len(results), noun) if group.tests else ""
        text = f"{group.severity}: {_short_path(group.sentence)} [{group.code}]"
        line = f"{whom}: {text}" if whom else text
        yield from wrapped(line, width)
        if group.severity is not Severity.NOTE or group.code == "not-watched":
            yield from wrapped(f"= {group.remedy}" if group.remedy else "", width, "  ")


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
