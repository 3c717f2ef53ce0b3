"""The section of a page about loads: their tables, how they were measured, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.text import plural
from benchwright.core.untrusted import visible
from benchwright.features.load.chart import (
    NamedLoad,
    course_panel,
    issue_error_panel,
    quantities_panel,
    rate_panel,
    stream_panels,
)
from benchwright.features.load.report import (
    LoadReport,
    facts,
    flow_counts,
    load_sentence,
    outcome_counts,
    succeeded_text,
)
from benchwright.features.load.response_times import response_times
from benchwright.features.load.streams import good_streams, stream_times
from benchwright.features.load.types import EngineResult
from benchwright.features.load.view import load_tables
from benchwright.findings.result import TestResult
from benchwright.page.charts import normal_pictures
from benchwright.report.charts.compose import RESPONSE_MEAN
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotComponent, PlotGroup, result_of_columns
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT
from benchwright.views.blocks import (
    Block,
    Column,
    Group,
    Picture,
    Section,
    TableBlock,
    Tile,
    Words,
    count_number,
    heading,
    number_of,
    scale_of,
    table_of,
)


class ShownLoad(msgspec.Struct, frozen=True):
    """A load on a page."""

    id: str
    name: str
    test: TestResult
    result: EngineResult
    report: LoadReport


def load_tiles(load: ShownLoad) -> Iterator[Tile]:
    """Yield what a load's answer consists of."""
    result, link = load.result, load.test.trials_id
    rate = result.achieved_rate_per_s
    yield Tile(
        "Achieved rate",
        number_of(f"{load.id}.achieved", rate, scale_of([rate], "/s"), link=link),
        succeeded_text(result),
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
    yield from _stream_tiles(load)
    yield Tile("Errors", count_number(f"{load.id}.errors.tile", result.counts.errors, link=link))


def _stream_tiles(load: ShownLoad) -> Iterator[Tile]:
    """Yield the figures of streams; none without them."""
    result, streams = load.result, load.result.streams
    if streams is None:
        return
    for name in ("first", "tpot"):
        times = stream_times(result, name)
        if times.count:
            value = None if times.p99 is None else times.p99 / 1e9
            yield Tile(
                f"{name[:1].upper()}{name[1:]} p99",
                number_of(f"{load.id}.{name}.tile", value, scale_of([value], "s")),
                f"of {plural(times.count, 'stream')}",
            )
    if streams.with_tokens and (rate := streams.tokens_per_s) is not None:
        scale = scale_of([rate], "/s")
        yield Tile("Tokens", number_of(f"{load.id}.tokens.tile", rate, scale))
    good = good_streams(result)
    if good is not None and good.whole:
        percent = 100 * good.some / good.whole
        share = number_of(f"{load.id}.good.tile", percent, scale_of([percent], "%", 3))
        yield Tile("Good", share, f"{good.some:,} of {plural(good.whole, 'stream')}")


def load_responses(tests: Sequence[TestResult]) -> PlotGroup | None:
    """Return the mean responses of the trials of loads as tests in milliseconds; None if none has
    three."""
    found = []
    for test in tests:
        column = test.columns.get(RESPONSE_MEAN)
        if column is not None and len(column.values) >= FEWEST_OF_PROBABILITY_PLOT:
            in_ms = tuple(value / 1e6 for value in column.values)
            column = msgspec.structs.replace(column, values=in_ms)
            found.append(result_of_columns(test.name, [column]))
    named = PlotComponent(RESPONSE_MEAN, "Mean response", "ms")
    return PlotGroup("", tuple(found), (named,)) if found else None


def loads_section(part: str, loads: Sequence[ShownLoad]) -> Section:
    """Return the results of the loads."""
    blocks: list[Block] = []
    for load in loads:
        inner = tuple(_blocks(load))
        if len(loads) == 1:
            blocks += inner
            continue
        sentence = visible(load_sentence(load.result, load.report))
        blocks.append(Group(id=load.id, title=visible(load.name), sentence=sentence, blocks=inner))
    tests = {load.test.id: load.test for load in loads}
    blocks += normal_pictures(f"{part}-normal", load_responses(tuple(tests.values())))
    return Section(
        id=f"{part}-load",
        title="Load",
        lead="The delay that the generator added (issue error), the time that the server needed "
        "(service), and the time that a user waits (response).",
        blocks=tuple(blocks),
    )


def _blocks(load: ShownLoad) -> Iterator[Block]:
    named = NamedLoad(visible(load.name), load.result)
    yield from load_tables(load.result, load.report, load.id)
    yield _counts_table(load.result, load.id)
    yield table_of(
        f"{load.id}.facts",
        "How it was measured",
        [("", fact) for fact in facts(load.result, load.report) if fact[0] not in _COUNTED],
        (
            (Column("What"), lambda _, one: Words(visible(one[0]))),
            (Column("Value"), lambda _, one: Words(visible(one[1]))),
        ),
        folded=True,
    )
    yield Picture(
        id=f"{load.id}.times",
        title="Times",
        sheet=Sheet("", (quantities_panel(named), course_panel(named))),
        reading="Both axes of time are logarithmic. If the response time is far above the service "
        "time, operations waited before they started. If the issue error is close to the response "
        "time, the generator caused most of it. Operations without a response count as slower than "
        "all others: the response has no percentile among them.",
    )
    if load.result.streams is not None:
        times, course, good, timeline = stream_panels(named)
        yield Picture(
            id=f"{load.id}.streams",
            title="Streams",
            sheet=Sheet("", (times, course)),
            reading="If the first event becomes slower with time, requests wait before the server begins "
            "with them. A stream that failed or was cut counts as slower than all others.",
        )
        yield Picture(
            id=f"{load.id}.timeline",
            title="Streams in time",
            sheet=Sheet("", (timeline, good)),
            reading="Each line is a stream, from its intended start over its first event to its end.",
        )
    yield Picture(
        id=f"{load.id}.rates",
        title="Rates and the generator's error",
        sheet=Sheet("", (rate_panel([named]), issue_error_panel([named]))),
        reading="The achieved rate should be equal to the intended one. The second chart shows the "
        "share of operations whose issue error is at most the time below.",
    )


_COUNTED = ("operations", "in this time")
"""The facts that the table of counts has too."""


def _counts_table(result: EngineResult, key: str) -> TableBlock:
    started, ended = "issued", "completed"
    rows = list(outcome_counts(result.counts))
    if result.flow is not None:
        within = [(f"{name} in the measured part", n) for name, n in flow_counts(result.flow)]
        started, ended, rows = within[0][0], within[1][0], rows + within
    rates = {
        "intended": result.intended_rate_per_s,
        started: result.offered_rate_per_s,
        ended: result.achieved_rate_per_s,
    }
    scale = scale_of(rates.values(), "/s", 5)
    return table_of(
        f"{key}.operations",
        "Operations",
        [(name, (name, count, rates.get(name))) for name, count in rows],
        (
            (Column("Operations"), lambda _, one: Words(heading(one[0]))),
            (
                Column("Count", numeric=True),
                lambda name, one: count_number(f"{key}.counts.{name}", one[1]),
            ),
            (
                Column("Rate", numeric=True),
                lambda name, one: (
                    Words("") if one[2] is None else number_of(f"{key}.rates.{name}", one[2], scale)
                ),
            ),
        ),
    )
