"""The section about loads: issue error, service and response time, rates over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from benchwright.core.text import DECIMAL_UNITS, plural, scaled_text
from benchwright.core.untrusted import visible
from benchwright.features.load.chart import (
    NamedLoad,
    course_panel,
    issue_error_panel,
    quantities_panel,
    rate_panel,
)
from benchwright.features.load.report import (
    COLUMNS,
    TIMES,
    VERDICTS,
    LoadDocument,
    TrialLoad,
    file_set_text,
    headline_report,
    kind_name,
    shown_chains,
    shown_kinds,
    shown_times,
    skew_text,
)
from benchwright.features.load.response_times import chain_times, host_times, response_times
from benchwright.features.load.types import EngineResult, TimeDistribution
from benchwright.page.trial_charts import normal_pictures
from benchwright.page.trial_documents import StoredDocument
from benchwright.report.charts.compose import RESPONSE_MEAN
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotTest
from benchwright.stats.aggregate import MetricColumn
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT
from benchwright.views.blocks import (
    Block,
    Cell,
    Column,
    Group,
    Picture,
    Section,
    TableBlock,
    Tile,
    Words,
)
from benchwright.views.figures import (
    count_column,
    count_number,
    keyed,
    number_of,
    scale_of,
    table_of,
)


class ShownLoad(msgspec.Struct, frozen=True):
    """A load on a page."""

    id: str
    name: str
    document: LoadDocument
    result: EngineResult


def _shown(one: StoredDocument) -> ShownLoad:
    load = one.document
    assert isinstance(load, TrialLoad)
    return ShownLoad(one.id, one.name, load.document, load.result)


def load_tiles(one: StoredDocument) -> Iterator[Tile]:
    """Yield what a load's answer consists of."""
    load, link = _shown(one), one.test.trials_id
    result = load.result
    rate = result.achieved_rate_per_s
    yield Tile(
        "Achieved rate", number_of(f"{load.id}.achieved", rate, scale_of([rate], "/s"), link=link)
    )
    for what, times in (
        ("Response", response_times(result)),
        ("Issue error", result.all.issue_error_ns),
    ):
        value = None if times.p99 is None else times.p99 / 1e9
        yield Tile(
            f"{what} p99",
            number_of(f"{load.id}.{what[:5].lower()}.tile", value, scale_of([value], "s")),
            f"of {plural(times.count, 'operation')}",
        )
    yield Tile("Errors", count_number(f"{load.id}.errors.tile", result.counts.errors, link=link))


def load_responses(name: str, column: MetricColumn) -> PlotTest | None:
    """Return the mean responses of a load's trials [ns] as a test in milliseconds; None if there
    are fewer than three."""
    if len(column.values) < FEWEST_OF_PROBABILITY_PLOT:
        return None
    values = tuple(value / 1e6 for value in column.values)
    in_ms = MetricColumn(column.name, column.epochs, values)
    label = {column.name: "Mean response"}
    return PlotTest(name, {column.name: in_ms}, label, {column.name: "ms"})


def loads_section(part: str, loads: Sequence[StoredDocument]) -> Section:
    """Return the results of the loads."""
    alone = len(loads) == 1
    blocks: list[Block] = []
    for load in loads:
        inner = tuple(_blocks(_shown(load)))
        if alone:
            blocks += inner
            continue
        blocks.append(
            Group(
                id=load.id,
                title=visible(load.name),
                sentence=visible(load.document.sentence),
                blocks=inner,
            )
        )
    tests = {load.test.id: load.test for load in loads}
    found = [
        load_responses(test.name, test.columns[RESPONSE_MEAN])
        for test in tests.values()
        if RESPONSE_MEAN in test.columns
    ]
    blocks += normal_pictures(f"{part}-normal", [one for one in found if one])
    return Section(
        id=f"{part}-load",
        title="Load",
        lead="The delay that the generator added (issue error), the time that the server needed "
        "(service), and the time that a user waits (response).",
        blocks=tuple(blocks),
    )


def _blocks(load: ShownLoad) -> Iterator[Block]:
    named = NamedLoad(visible(load.name), load.result)
    yield _times_table(load)
    if load.result.labels:
        yield _labels_table(load)
    if load.document.limits:
        yield _limits_table(load)
    if shown_chains(load.result):
        yield _chains_table(load)
    yield _counts_table(load)
    if load.result.hosts:
        yield _hosts_table(load)
    yield Picture(
        id=f"{load.id}.times",
        title="Times",
        sheet=Sheet("", (quantities_panel(named), course_panel(named))),
        reading="Both axes of time are logarithmic. If the response time is far above the service "
        "time, operations waited before they started. If the issue error is close to the response "
        "time, the generator caused most of it. Operations without a response count as slower than "
        "all others: the response has no percentile among them.",
    )
    yield Picture(
        id=f"{load.id}.rates",
        title="Rates and the generator's error",
        sheet=Sheet("", (rate_panel([named]), issue_error_panel([named]))),
        reading="The achieved rate should be equal to the intended one. The second chart shows the "
        "share of operations whose issue error is at most the time below.",
    )


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e9


_ShownTimes = tuple[str, str, TimeDistribution]
"""Kind of operation, which time, its figures."""


def _figure(times: Callable[[Any], TimeDistribution], column: str) -> Callable[[str, Any], Cell]:
    """Return the function that makes the cell of a percentile."""

    def cell(key: str, one: Any) -> Cell:
        seconds = _seconds(getattr(times(one), column))
        return number_of(f"{key}.{column}", seconds, scale_of([seconds], "s", 3))

    return cell


def _times_table(load: ShownLoad) -> TableBlock:
    report = headline_report(load.document)
    shown = [
        (
            f"{load.id}.{kind}.{name}",
            (kind_name(kind, report), what, shown_times(load.result, kind, name)),
        )
        for kind, _ in shown_kinds(load.result)
        for what, name in TIMES
    ]

    return table_of(
        f"{load.id}.table",
        "Times",
        shown,
        (
            (Column("Operation"), lambda _, one: Words(visible(one[0]))),
            (Column("Time"), lambda _, one: Words(one[1])),
            count_column("Count", "count", lambda one: one[2].count),
            *(
                (Column(title, numeric=True), _figure(lambda one: one[2], column))
                for title, column, _ in COLUMNS
            ),
        ),
    )


def _labels_table(load: ShownLoad) -> TableBlock:
    return table_of(
        f"{load.id}.labels",
        "Labels",
        keyed(f"{load.id}.label", load.result.labels.items()),
        (
            (Column("Label"), lambda _, one: Words(visible(one[0]))),
            count_column("Count", "count", lambda one: one[1].operations),
            count_column("Failed", "failed", lambda one: sum(one[1].errors.values())),
            *(
                (
                    Column(f"Response {title}", numeric=True),
                    _figure(lambda one: response_times(load.result, one[0], label=True), column),
                )
                for title, column, _ in COLUMNS
            ),
        ),
    )


def _limits_table(load: ShownLoad) -> TableBlock:
    return table_of(
        f"{load.id}.limits",
        "Limits",
        keyed(f"{load.id}.limit", load.document.limits),
        (
            (Column("Limit"), lambda _, one: Words(visible(one.limit))),
            (Column("Verdict"), lambda _, one: Words(VERDICTS[one.outcome])),
            (Column("Measured"), lambda _, one: Words(visible(one.detail))),
        ),
    )


def _chains_table(load: ShownLoad) -> TableBlock:
    return table_of(
        f"{load.id}.chains",
        "Chains",
        keyed(f"{load.id}.chain", shown_chains(load.result)),
        (
            (Column("Chain"), lambda _, one: Words(visible(one[0]))),
            count_column("Completed", "completed", lambda one: one[1].completed),
            count_column("Failed", "errors", lambda one: one[1].errors),
            count_column("Unfinished", "unfinished", lambda one: one[1].unfinished),
            *(
                (Column(title, numeric=True), _figure(lambda one: chain_times(one[1]), column))
                for title, column, _ in COLUMNS
            ),
        ),
        note="From the intended start of a chain's first operation to the end of its last.",
    )


def _counts_table(load: ShownLoad) -> TableBlock:
    result, counts = load.result, load.result.counts
    rows: list[tuple[str, int, float | None]] = [
        ("Intended", counts.intended, result.intended_rate_per_s),
        ("Issued", counts.issued, result.offered_rate_per_s),
        ("Completed", counts.completed, result.achieved_rate_per_s),
        ("Errors", counts.errors, None),
    ]
    scale = scale_of([rate for _, _, rate in rows], "/s", 5)
    others = (
        ("Dropped", counts.dropped),
        ("Skipped", counts.skipped),
        ("Unfinished", counts.unfinished),
    )
    rows += [(name, count, None) for name, count in others if count]
    size = result.target.size_bytes
    target = result.target.kind
    if size is not None:
        target += f" of {scaled_text(size, DECIMAL_UNITS)}"
    return table_of(
        f"{load.id}.operations",
        "Operations",
        [(one[0].lower(), one) for one in rows],
        (
            (Column("Operations"), lambda _, one: Words(one[0])),
            (
                Column("Count", numeric=True),
                lambda key, one: count_number(f"{load.id}.counts.{key}", one[1]),
            ),
            (
                Column("Rate", numeric=True),
                lambda key, one: (
                    Words("")
                    if one[2] is None
                    else number_of(f"{load.id}.rates.{key}", one[2], scale)
                ),
            ),
        ),
        note=visible(f"Target: {target}; pacer {result.pacer}.{_file_set(load)}"),
    )


def _hosts_table(load: ShownLoad) -> TableBlock:
    measured = [(one, one.all) for one in load.result.hosts if one.all is not None]
    scale = scale_of([one.achieved_rate_per_s for one, _ in measured], "/s", 5)
    percentiles = [one for one in COLUMNS if one[1] in ("p50", "p99")]
    lost = [f" No result of {one.lost}." for one in load.result.lost_hosts]
    return table_of(
        f"{load.id}.hosts",
        "Hosts",
        keyed(f"{load.id}.host", measured),
        (
            (Column("Host"), lambda _, one: Words(visible(one[0].host))),
            count_column("Count", "count", lambda one: one[1].response_ns.count),
            (
                Column("Rate", numeric=True),
                lambda key, one: number_of(f"{key}.rate", one[0].achieved_rate_per_s, scale),
            ),
            *(
                (
                    Column(f"Response {title}", numeric=True),
                    _figure(lambda one: host_times(one[0]), column),
                )
                for title, column, _ in percentiles
            ),
            (
                Column("Issue error p99", numeric=True),
                lambda key, one: number_of(
                    f"{key}.issue_error",
                    seconds := _seconds(one[1].issue_error_ns.p99),
                    scale_of([seconds], "s", 3),
                ),
            ),
            (Column("Start skew"), lambda _, one: Words(skew_text(one[0]))),
        ),
        note=visible(
            "Each host issued its part of one schedule. The start skew is known to the bound "
            f"behind it.{''.join(lost)}"
        ),
    )


def _file_set(load: ShownLoad) -> str:
    files, warm_up_ns = load.result.file_set, load.document.request.get("warm_up_ns")
    return "" if files is None else f" File set: {file_set_text(files, warm_up_ns or 0)}."
