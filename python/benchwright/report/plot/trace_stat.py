"""What is drawn of traces: a page of panels, each trace a colour in all of them.

Decision: burstiness is log-log with Poisson's 1 marked, because its slope says whether
bursts go on through the scales; gaps and responses have logarithmic times, since most of
them are a hundredth of the mean. Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.model.load import Times
from benchwright.model.trace_stat import StatResult
from benchwright.report.plot.load_results import cdf_curve
from benchwright.report.plot.sheet import Axis, Curve, Form, Mark, Panel, Sheet, Unit
from benchwright.report.plot.ticks import BYTES, scaled
from benchwright.stats.hdr_histogram import decode


class NamedStat(msgspec.Struct, frozen=True):
    """A trace's figures under the name that it has in the legends."""

    name: str
    result: StatResult


Draw = Callable[[NamedStat], Curve | None]


def stat_sheet(stats: Sequence[NamedStat]) -> Sheet:
    """Return the page of one trace or of several side by side. Raises HistogramError."""
    title = stats[0].name if len(stats) == 1 else ""
    panels = [make(stats) for make in _PANELS]
    drawn = tuple(panel for panel in panels if not panel.missing)
    left = [f"{p.title} ({p.missing})" for p in panels if p.missing]
    note = f"not drawn: {', '.join(left)}" if left else ""
    return Sheet(title, drawn or tuple(panels), note=note)


def _curves(stats: Sequence[NamedStat], draw: Draw) -> tuple[Curve, ...]:
    found = ((place, draw(one)) for place, one in enumerate(stats))
    changed = msgspec.structs.replace
    return tuple(
        changed(curve, colour=place) for place, curve in found if curve is not None
    )


def rate_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return arrivals per second over time."""

    def rate(one: NamedStat) -> Curve | None:
        series = one.result.rate
        return over_time(
            one.name, series.bin_ns, series.operations, 1e9 / max(series.bin_ns, 1)
        )

    widths = sorted({one.result.rate.bin_ns for one in stats})
    bins = " and ".join(f"{width / 1e9:.4g} s" for width in widths)
    return Panel(
        title=f"Rate, in bins of {bins}",
        x=Axis("time [s]"),
        y=Axis("operations per second", low=0),
        curves=_curves(stats, rate),
        missing=_missing(stats, lambda r: bool(r.rate.operations)),
    )


def dispersion_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the index of dispersion of counts by the width of the bins."""

    def index(one: NamedStat) -> Curve | None:
        known = [(d.bin_ns, d.index) for d in one.result.dispersion if d.index]
        if not known:
            return None
        x, y = zip(*known, strict=True)
        return Curve(one.name, tuple(map(float, x)), tuple(y), Form.MARKED)

    curves = _curves(stats, index)
    return Panel(
        title="Burstiness",
        x=Axis("width of a bin", Unit.TIME, log=True),
        y=Axis("variance / mean of counts", log=True),
        curves=curves,
        marks=(Mark("Poisson", 1.0),) if curves else (),
        missing="" if curves else "too few arrivals",
    )


def size_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the share of operations of each size, in sizes that double."""
    sizes = sorted({b.up_to_bytes for one in stats for b in one.result.sizes.buckets})
    places = {size: float(place) for place, size in enumerate(sizes)}
    width = 0.8 / max(len(stats), 1)

    def shares(one: NamedStat) -> Curve | None:
        buckets = one.result.sizes.buckets
        shift = (stats.index(one) - (len(stats) - 1) / 2) * width
        x = tuple(places[b.up_to_bytes] + shift for b in buckets)
        y = tuple(b.operations / max(one.result.operations, 1) for b in buckets)
        return Curve(one.name, x, y, Form.BARS, width=width) if buckets else None

    curves = _curves(stats, shares)
    return Panel(
        title="Sizes",
        x=Axis("up to", names=tuple(scaled(size, BYTES) for size in sizes)),
        y=Axis("share of operations", Unit.SHARE, low=0),
        curves=curves,
        missing="" if curves else "no operation",
    )


def gap_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the CDF of the times between arrivals."""
    return _cdf("Gaps between arrivals", "gap", stats, lambda r: r.gaps.gap_ns)


def popularity_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the share of accesses that go to the most popular share of blocks."""

    def tops(one: NamedStat) -> Curve | None:
        found = one.result.popularity.tops
        if not found:
            return None
        x = (*(top.blocks_share for top in found), 1.0)
        y = (*(top.accesses_share for top in found), 1.0)
        return Curve(one.name, x, y, Form.MARKED)

    sampled = any(one.result.popularity.method == "sampled" for one in stats)
    curves = _curves(stats, tops)
    return Panel(
        title="Popularity" + (" (sampled)" if sampled else ""),
        x=Axis("most popular share of the touched blocks", Unit.SHARE, log=True),
        y=Axis("share of accesses", Unit.SHARE, low=0, high=1.02),
        curves=curves,
        missing="" if curves else "no block was touched",
    )


def working_set_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return how much has been touched since the start."""

    def touched(one: NamedStat) -> Curve | None:
        found, block = one.result.working_set, one.result.popularity.block_bytes
        x = [(at + 1) * found.bin_ns / 1e9 for at in range(len(found.cumulative))]
        y = [blocks * block for blocks in found.cumulative]
        return Curve(one.name, (0.0, *x), (0.0, *y)) if y else None

    curves = _curves(stats, touched)
    return Panel(
        title="Different blocks touched",
        x=Axis("time [s]"),
        y=Axis("since the start", Unit.BYTES, low=0),
        curves=curves,
        missing="" if curves else "no block was touched",
    )


def queue_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return how many operations are under way, on average in each bin."""

    def depth(one: NamedStat) -> Curve | None:
        queue = one.result.queue
        if queue is None:
            return None
        return over_time(one.name, queue.series.bin_ns, queue.series.mean)

    return Panel(
        title="Queue",
        x=Axis("time [s]"),
        y=Axis("operations under way", low=0),
        curves=_curves(stats, depth),
        missing=_missing(stats, lambda r: r.queue is not None),
    )


def response_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the CDF of the response times."""
    return _cdf("Response time", "end - arrival", stats, lambda r: r.response_ns)


_PANELS = (
    *(rate_panel, dispersion_panel, gap_panel, size_panel),
    *(popularity_panel, working_set_panel, queue_panel, response_panel),
)


def over_time(
    label: str, bin_ns: int, values: Sequence[float], scale: float = 1.0
) -> Curve | None:
    """Return a series of bins as steps; the last one holds to its end. None of none."""
    if not values:
        return None
    x = tuple(place * bin_ns / 1e9 for place in range(len(values) + 1))
    y = tuple(value * scale for value in (*values, values[-1]))
    return Curve(label, x, y, Form.STEPS)


def _cdf(
    title: str,
    label: str,
    stats: Sequence[NamedStat],
    times: Callable[[StatResult], Times],
) -> Panel:
    def curve(one: NamedStat) -> Curve | None:
        found = times(one.result)
        if found.hdr is None or not found.count:
            return None
        return cdf_curve(one.name, decode(found.hdr))

    curves = _curves(stats, curve)
    return Panel(
        title=title,
        x=Axis(label, Unit.TIME, log=True),
        y=Axis("share", Unit.SHARE, low=0, high=1.02),
        curves=curves,
        missing="" if curves else "the trace does not tell",
    )


def _missing(stats: Sequence[NamedStat], known: Callable[[StatResult], bool]) -> str:
    return "" if any(known(one.result) for one in stats) else "the trace does not tell"
