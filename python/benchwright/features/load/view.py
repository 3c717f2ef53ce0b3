"""The result of a load as blocks: its tables, for terminal and page; and its report as text.

Decision: the table of times has three rows for each kind of operation: response time, service time,
issue error. The times of a table have one unit, so that they are compared at a glance. A percentile
with few operations beyond it is marked. One whose rank lies among operations that failed or did not
finish is unknown: the largest time is its lower bound.
Non-goal: the series of intervals as numbers, which `--json` has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from benchwright.core.results import Finding
from benchwright.core.text import (
    ABSENT,
    TIME_UNITS,
    duration_ns_text,
    number_text,
    part_text,
    rounded_down,
    unit_for,
)
from benchwright.core.text_table import field_lines
from benchwright.core.untrusted import visible
from benchwright.features.load.groups import groups_by_name
from benchwright.features.load.report import (
    COLUMNS,
    MANY_KINDS,
    VERDICTS,
    LoadReport,
    facts,
    load_sentence,
    shown_kinds,
)
from benchwright.features.load.response_times import (
    chain_times,
    host_times,
    kind_times,
    response_times,
)
from benchwright.features.load.streams import missing_streams, stream_times
from benchwright.features.load.types import (
    EngineResult,
    HostResult,
    KindResult,
    TimeDistribution,
    response_rank,
)
from benchwright.findings.thresholds import FEW_BEYOND
from benchwright.report.answer import finding_groups
from benchwright.report.documents import report_text
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    Scale,
    TableBlock,
    Words,
    as_sentence,
    count_column,
    count_number,
    keyed,
    number_of,
    scale_of,
    table_of,
)
from benchwright.views.terminal import finding_paragraphs, group_lines, table_text, wrapped

_MARK = "~"
_ABOVE = "*"
_FINEST = 3
"""Maximum decimals of a time in a table: the resolution is a thousandth of its unit."""
_RANKS = {"p90": 3, "p99_99": 2}
"""Percentiles that a narrow table leaves out first."""


# -- Times ------------------------------------------------------------------------------


class _Timed(msgspec.Struct, frozen=True):
    """A row of a table: something that took times."""

    of: Any
    times: TimeDistribution
    missing: int = 0
    """Operations that are in none of these times, and count as slower than all that are."""
    whole: int = 0
    """All operations."""

    def is_known(self, beyond: float) -> bool:
        """Return whether the percentile beyond which this share lies is known."""
        return not self.missing or response_rank(1 - beyond, self.missing, self.whole) is not None


_Cells = tuple[Column, Callable[[str, Any], Cell]]
_Unit = tuple[float, str]
"""The size of a unit of time [s], and its name."""


def _unit(rows: Iterable[_Timed]) -> _Unit:
    """Return the unit between the smallest and the largest time, which are often far apart, but
    not so large that the smallest is 0."""
    values = [getattr(row.times, name) for row in rows for _, name, _ in COLUMNS]
    some = [ns / 1e9 for ns in values if ns]
    if not some:
        return TIME_UNITS[0]
    middle = math.sqrt(min(some) * max(some))
    return unit_for(min(middle, min(some) * 10**_FINEST), TIME_UNITS)


def _time_column(
    heading: Column, rows: Sequence[_Timed], unit: _Unit, name: str, beyond: float | None = None
) -> _Cells:
    """Return the column of one figure of the times of rows; `beyond`: the share of operations that
    lie beyond it, of a percentile."""

    def in_unit(ns: float) -> float:
        return round(ns / 1e9 / unit[0], _FINEST)

    values = [getattr(row.times, name) for row in rows]
    decimals = scale_of([in_unit(ns) for ns in values if ns is not None], "", 3).decimals
    scale = Scale(1.0, "", _FINEST if decimals is None else min(decimals, _FINEST))

    def cell(key: str, row: _Timed) -> Number:
        key, ns, longest = f"{key}.{name}", getattr(row.times, name), row.times.max
        if beyond and longest is not None and not row.is_known(beyond):
            least = number_text(in_unit(rounded_down(longest)), 3)
            return Number(key=key, value=None, text=f"> {least}{_ABOVE}")
        if ns is None:
            return Number(key=key, value=None, text=ABSENT)
        few = beyond and round(row.times.count * beyond, 6) < FEW_BEYOND
        text = scale.text(in_unit(ns))
        return Number(key=key, value=ns / 1e9, text=text + _MARK if few else text)

    return heading, cell


def _mean(rows: Sequence[_Timed], unit: _Unit, heading: str) -> _Cells:
    return _time_column(Column(heading, numeric=True, rank=1), rows, unit, "mean")


def _percentiles(rows: Sequence[_Timed], unit: _Unit, label: str = "") -> Iterator[_Cells]:
    """Yield the columns of percentiles; `label`: what took the times, where a page does not show it
    otherwise."""
    for title, name, share in COLUMNS:
        rank = _RANKS.get(name, 0)
        heading = Column(f"{label} {title}".lstrip(), numeric=True, short=title, rank=rank)
        yield _time_column(heading, rows, unit, name, share)


def times_table(result: EngineResult, report: LoadReport, key: str = "load") -> TableBlock:
    """Return the three times of each kind of operation; of many kinds, the response times alone,
    unless the report is verbose."""
    kinds = shown_kinds(result)
    short = len(kinds) > MANY_KINDS and not report.verbose
    shown = []
    for kind, one in kinds:
        named, response = report.kind_name(kind), response_times(result, kind)
        row = _Timed((named, "response"), response, *result.missing(kind))
        shown.append((f"{key}.{kind}.response_ns", row))
        if kind == "all" or not short:
            for what, name in (("service", "service_ns"), ("issue error", "issue_error_ns")):
                shown.append((f"{key}.{kind}.{name}", _Timed(("", what), getattr(one, name))))
    rows = [row for _, row in shown]
    unit = _unit(rows)
    table = table_of(
        f"{key}.table",
        "Times",
        shown,
        (
            (Column("Kind"), lambda _, row: Words(visible(row.of[0]))),
            (Column(f"Time in {unit[1]}"), lambda _, row: Words(row.of[1])),
            _count(lambda row: row.times.count),
            _mean(rows, unit, "Mean"),
            *_percentiles(rows, unit),
        ),
    )
    return _noted(table, result, *_of_all(result))


_STREAM_ROWS = (
    ("first", "first"),
    ("first_service", "first service"),
    ("first_visible", "first visible"),
    ("first_event", "first event"),
    ("gap", "gap"),
    ("largest_gap", "largest gap"),
    ("tpot", "tpot"),
    ("last", "last"),
)


def streams_table(result: EngineResult, report: LoadReport, key: str = "load") -> TableBlock:
    """Return the times of streams: without those that say what another says, unless the report is
    verbose."""
    shown = []
    for name, title in _STREAM_ROWS if result.streams else ():
        assert result.streams is not None, "they are shown"
        times = stream_times(result, name)
        same = name in ("first_visible", "first_event") and (
            result.streams.times(name).p50 == result.streams.first_ns.p50
        )
        if times.count and (report.verbose or not (same or name == "last")):
            missing, whole = missing_streams(result, name)
            shown.append((f"{key}.streams.{name}_ns", _Timed(title, times, missing, whole)))
    rows = [row for _, row in shown]
    unit = _unit(rows)
    table = table_of(
        f"{key}.streams",
        "Streams",
        shown,
        (
            (Column(f"Streams, in {unit[1]}"), lambda _, row: Words(row.of)),
            _count(lambda row: row.times.count),
            _mean(rows, unit, "Mean"),
            *_percentiles(rows, unit),
        ),
    )
    more = []
    if any(row.missing for row in rows):
        more.append(
            "streams that failed, were cut or did not end, or without such an event, count as slower "
            "than all others"
        )
    return _noted(table, result, *more, of="values", why="it is of a stream that has none")


def _of_all(result: EngineResult) -> Iterator[str]:
    """Yield of which operations the times are, where some have none."""
    if missing := result.counts.without_response:
        yield (
            f"percentiles of responses are of all operations, {missing:,} of them the slowest; "
            "mean, max and service times are of those that succeeded"
        )
    lateness, held = result.lateness_ns, result.counts.held
    if lateness.count and held:
        yield (
            f"issue error without the {held:,} delayed operations: "
            f"p50 {duration_ns_text(lateness.p50)}, p99 {duration_ns_text(lateness.p99)}"
        )


def _noted(
    table: TableBlock, result: EngineResult, *more: str, of: str = "operations", why: str = ""
) -> TableBlock:
    """Return a table with what the marks at its times mean, a line for each sentence; `why` a
    percentile is unknown, if it is not of responses."""
    numbers = [cell for row in table.rows for cell in row if isinstance(cell, Number)]
    marks = {number.text[-1:] for number in numbers}
    notes = [table.note] if table.note else []
    if _MARK in marks:
        notes.append(f"{_MARK} fewer than {FEW_BEYOND} {of} lie beyond it")
    if _ABOVE in marks and why:
        notes.append(f"{_ABOVE} not known: {why}")
    elif _ABOVE in marks:
        part = part_text(result.counts.without_response, result.counts.intended)
        notes.append(
            f"{_ABOVE} not known: {part} failed or did not finish; these operations count as "
            "slower than all that did"
        )
    return msgspec.structs.replace(table, note="\n".join(map(as_sentence, (*notes, *more))))


def _count(count: Callable[[Any], int]) -> _Cells:
    return (
        Column("Count", numeric=True, short="n"),
        lambda key, one: count_number(f"{key}.count", count(one)),
    )


_MOST_ROWS = 20
"""Rows of the tables of labels and of groups."""
_KindT = TypeVar("_KindT", bound=KindResult)


def _slowest(
    rows: list[tuple[str, _KindT]], what: str
) -> tuple[list[tuple[str, _KindT]], list[str]]:
    """Return the rows that a table shows, of many the slowest, and a note on the others."""
    if len(rows) <= _MOST_ROWS:
        return rows, []
    order = sorted(rows, key=lambda row: -(row[1].response_ns.mean or math.inf))
    rest = len(rows) - _MOST_ROWS
    return order[:_MOST_ROWS], [f"{rest} faster {what} are only in the document (--json)"]


def labels_table(result: EngineResult, key: str = "load") -> TableBlock:
    """Return the response times of each label, and its errors; of many labels those of the slowest."""
    shown, more = _slowest(list(result.labels.items()), "labels")
    rows = keyed(f"{key}.label", shown)
    return _operations_table(f"{key}.labels", "Labels", rows, result, notes=more)


def groups_table(result: EngineResult, report: LoadReport, key: str = "load") -> TableBlock:
    """Return the rate and response times of the operations of each filament and of each target;
    with those of each kind or label where they are few, or the report is verbose. Of many groups those
    of the slowest."""
    named = groups_by_name(result)
    several = [group for group in result.groups if group.operation]
    of_place = Counter((group.filament, group.target) for group in several)
    shown = [
        (_short(names), group)
        for names, group in named
        if not group.operation
        or report.verbose
        or of_place[group.filament, group.target] < MANY_KINDS
    ]
    shown, more = (shown, []) if report.verbose else _slowest(shown, "groups")
    rate = scale_of([result.rates_of(group)[0] for _, group in shown], "/s", 5)
    return _operations_table(
        f"{key}.groups",
        "Groups",
        keyed(f"{key}.group", shown),
        result,
        (
            Column("Rate", numeric=True),
            lambda key, row: number_of(f"{key}.rate", result.rates_of(row.of[1])[0], rate),
        ),
        notes=more,
    )


def _short(names: Sequence[str]) -> str:
    """Return the names of a filament and its target; of operations among theirs, the last name."""
    places = [name for name in names if name.startswith(("@", "filament "))]
    return ", ".join(places or names[-1:])


def _operations_table(
    key: str,
    title: str,
    shown: Sequence[tuple[str, tuple[str, KindResult]]],
    result: EngineResult,
    *more: _Cells,
    notes: Sequence[str] = (),
) -> TableBlock:
    """Return a table of some of the operations in each row, by its name; `more`: further columns."""

    def never_ended(one: KindResult) -> int:
        return one.lost.never_ended if one.lost else 0

    lost = [count_column("Not ended", "never_ended", lambda row: never_ended(row.of[1]))]
    rows = [
        (row_key, _Timed((name, one), kind_times(result, one), *result.missing_of(one)))
        for row_key, (name, one) in shown
    ]
    timed = [row for _, row in rows]
    unit = _unit(timed)
    table = table_of(
        key,
        title,
        rows,
        (
            (Column(title.removesuffix("s")), lambda _, row: Words(visible(row.of[0]))),
            _count(lambda row: row.of[1].operations),
            count_column("Failed", "failed", lambda row: sum(row.of[1].errors.values())),
            *(lost if any(never_ended(one) for _, (_, one) in shown) else ()),
            *more,
            _mean(timed, unit, f"Mean {unit[1]}"),
            *_percentiles(timed, unit, "Response"),
            (
                Column("Errors"),
                lambda _, row: Words(
                    ", ".join(f"{name} {number:,}" for name, number in row.of[1].errors.items())
                ),
            ),
        ),
    )
    # How many failed is in each row: those of the whole load are not those of the marked one.
    why = "it is of an operation that failed or did not finish"
    return _noted(table, result, *notes, why=why)


def chains_table(result: EngineResult, key: str = "load") -> TableBlock:
    """Return the chains with more than one operation; others are in the table of kinds."""
    shown = [
        _Timed(
            (name, one),
            chain_times(one),
            one.errors + one.unfinished,
            one.completed + one.errors + one.unfinished,
        )
        for name, one in result.sequences.items()
        if one.operations > one.started
    ]
    unit = _unit(shown)
    each = scale_of([row.of[1].operations / row.of[1].started for row in shown], "", 3)
    table = table_of(
        f"{key}.chains",
        "Chains",
        keyed(f"{key}.chain", shown),
        (
            (Column("Chain"), lambda _, row: Words(visible(row.of[0]))),
            (
                Column("Completed", numeric=True, short="n"),
                lambda key, row: count_number(f"{key}.completed", row.of[1].completed),
            ),
            count_column("Failed", "errors", lambda row: row.of[1].errors),
            count_column("Unfinished", "unfinished", lambda row: row.of[1].unfinished),
            (
                Column("Operations each", numeric=True, rank=4),
                lambda key, row: number_of(
                    f"{key}.each", row.of[1].operations / row.of[1].started, each
                ),
            ),
            _mean(shown, unit, f"Mean {unit[1]}"),
            *_percentiles(shown, unit),
        ),
        note="from the intended start of a chain's first operation to the end of its last",
    )
    return _noted(table, result)


def limits_table(report: LoadReport, key: str = "load") -> TableBlock:
    """Return the verdict on each limit of a load."""
    return table_of(
        f"{key}.limits",
        "Limits",
        keyed(f"{key}.limit", report.limits),
        (
            (Column("Limit"), lambda _, one: Words(visible(one.limit))),
            (Column("Verdict"), lambda _, one: Words(VERDICTS[one.outcome])),
            (Column("Measured"), lambda _, one: Words(visible(one.detail))),
        ),
    )


def hosts_table(result: EngineResult, key: str = "load") -> TableBlock:
    """Return the part of each host, also of one without a result."""
    shown = []
    for one in result.hosts:
        counts = one.counts
        rest = (counts.without_response, counts.intended) if counts else ()
        shown.append(_Timed(one, host_times(one), *rest))
    unit = _unit(shown)
    rates = scale_of([host.achieved_rate_per_s for host in result.hosts], "/s", 5)
    late = {
        host.host: None
        if host.all is None or host.all.issue_error_ns.p99 is None
        else host.all.issue_error_ns.p99 / 1e9
        for host in result.hosts
    }
    lateness = scale_of(late.values(), "s", 3)
    table = table_of(
        f"{key}.hosts",
        "Hosts",
        keyed(f"{key}.host", shown),
        (
            (Column("Host"), lambda _, row: Words(visible(row.of.host))),
            _count(lambda row: row.times.count),
            (
                Column("Failed", numeric=True),
                lambda key, row: (
                    count_number(f"{key}.failed", row.missing) if row.of.counts else Words(ABSENT)
                ),
            ),
            (
                Column("Rate", numeric=True),
                lambda key, row: number_of(f"{key}.rate", row.of.achieved_rate_per_s, rates),
            ),
            *(
                _time_column(
                    Column(f"Response {title} {unit[1]}", numeric=True, short=f"{title} {unit[1]}"),
                    shown,
                    unit,
                    name,
                    share,
                )
                for title, name, share in (COLUMNS[0], COLUMNS[2])
            ),
            (
                Column("Issue error p99", numeric=True, rank=1),
                lambda key, row: number_of(f"{key}.issue_error", late[row.of.host], lateness),
            ),
            (Column("Start skew", numeric=True, rank=2), lambda _, row: Words(_skew_text(row.of))),
            (Column("Drift", numeric=True, rank=3), lambda _, row: Words(_drift_text(row.of))),
        ),
        note="each host issued its part of one schedule; the start skew is known to the bound "
        "behind it",
    )
    return _noted(
        table,
        result,
        *(visible(f"no result of {lost_host.lost}") for lost_host in result.lost_hosts),
    )


def _skew_text(host: HostResult) -> str:
    """Return `+3.2 us ±11 us`."""
    if host.start_skew_ns is None or host.clock is None:
        return ABSENT
    sign = "-" if host.start_skew_ns < 0 else "+"
    skew = duration_ns_text(abs(host.start_skew_ns), 2)
    return f"{sign}{skew} ±{duration_ns_text(host.clock.bound_ns, 2)}"


def _drift_text(host: HostResult) -> str:
    """Return `+1.2 ±0.4 ppm`."""
    clock = host.clock
    if clock is None or clock.drift_ppm is None or clock.drift_bound_ppm is None:
        return ABSENT
    return f"{clock.drift_ppm:+.2g} ±{clock.drift_bound_ppm:.2g} ppm"


def load_tables(
    result: EngineResult, report: LoadReport, key: str = "load"
) -> Iterator[TableBlock]:
    """Yield the tables of a load, without those that have no rows."""
    every = (
        times_table(result, report, key),
        streams_table(result, report, key),
        labels_table(result, key),
        groups_table(result, report, key),
        chains_table(result, key),
        limits_table(report, key),
        hosts_table(result, key),
    )
    yield from (table for table in every if table.rows)


# -- On a terminal ------------------------------------------------------------------------


def load_text(result: EngineResult, findings: Sequence[Finding], report: LoadReport) -> str:
    """Return the report, ending with a newline: the answer in a sentence, the tables, how it was
    measured, findings."""
    blocks: list[list[str]] = []
    noted: set[str] = set()
    for table in load_tables(result, report):
        notes = [note for note in table.note.splitlines() if note not in noted]
        noted.update(notes)
        lines = [line for note in notes for line in wrapped(note, report.width)]
        blocks.append([*table_text(table, report.table_width, wrap=True), *lines])
    text = report_text([load_sentence(result, report)], *blocks, field_lines(facts(result, report)))
    named = [("", finding) for finding in findings]
    # These lines may have colours, and are without unprintable characters already.
    if report.verbose:
        lines = finding_paragraphs(named, report.width, report.paint)
    else:
        lines = group_lines(finding_groups(named), 1, report.width, report.paint)
    return "\n".join((text, *lines, "")) if lines else text
