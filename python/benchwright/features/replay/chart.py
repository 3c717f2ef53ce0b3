"""Charts of traces: a page of panels for one or several traces, and one for a replay's fidelity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

import msgspec

from benchwright.core.text import binary_size_text
from benchwright.features.load.chart import TAIL_NAMES, cdf_curve, tail_curve
from benchwright.features.load.response_times import decode_histogram
from benchwright.features.load.types import TimeDistribution
from benchwright.features.replay.types import (
    SizeBucket,
    TraceComparison,
    TraceSide,
    TraceStatistics,
)
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    named_ticks,
)

# -- Statistics of traces: a page of panels, with one colour per trace ------------------
#
# Decision: burstiness is log-log with Poisson's 1 marked, because the slope shows whether
# bursts persist across scales. Gaps and responses have a logarithmic time axis, because most
# of them are around a hundredth of the mean. Pure.


class NamedStat(msgspec.Struct, frozen=True):
    """A trace's statistics and its name in the legends."""

    name: str
    result: TraceStatistics


CurveOfStat = Callable[[NamedStat], PanelCurve | None]


def stat_sheet(stats: Sequence[NamedStat]) -> Sheet:
    """Return the page of one or several traces. Raises HistogramError."""
    title = stats[0].name if len(stats) == 1 else ""
    panels = [make(stats) for make in _PANELS]
    drawn = tuple(panel for panel in panels if not panel.missing)
    left = [f"{p.title} ({p.missing})" for p in panels if p.missing]
    note = f"not drawn: {', '.join(left)}" if left else ""
    return Sheet(title, drawn or tuple(panels), note=note)


def _curves(stats: Sequence[NamedStat], draw: CurveOfStat) -> tuple[PanelCurve, ...]:
    found = ((place, draw(stat)) for place, stat in enumerate(stats))
    changed = msgspec.structs.replace
    return tuple(changed(curve, colour=place) for place, curve in found if curve is not None)


def rate_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return arrivals per second over time."""

    def rate(one: NamedStat) -> PanelCurve | None:
        series = one.result.rate
        return over_time(one.name, series.bin_ns, series.operations, 1e9 / max(series.bin_ns, 1))

    widths = sorted({stat.result.rate.bin_ns for stat in stats})
    bins = " and ".join(f"{width / 1e9:.4g} s" for width in widths)
    return Panel(
        title=f"Rate, in bins of {bins}",
        x=PanelAxis("time [s]"),
        y=PanelAxis("operations per second", low=0),
        curves=_curves(stats, rate),
        missing=_missing(stats, lambda r: bool(r.rate.operations)),
    )


def dispersion_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the index of dispersion of counts for each bin width."""

    def index(one: NamedStat) -> PanelCurve | None:
        known = [(d.bin_ns, d.index) for d in one.result.dispersion if d.index]
        if not known:
            return None
        x, y = zip(*known, strict=True)
        return PanelCurve(one.name, tuple(map(float, x)), tuple(y), CurveForm.MARKED)

    curves = _curves(stats, index)
    return Panel(
        title="Burstiness",
        x=PanelAxis("width of a bin", AxisUnit.TIME, log=True),
        y=PanelAxis("variance / mean of counts", log=True),
        curves=curves,
        marks=(LevelLine("Poisson", 1.0),) if curves else (),
        missing="" if curves else "too few arrivals",
    )


def size_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the share of operations by size, in bins that double."""

    def buckets_of(one: NamedStat) -> tuple[SizeBucket, ...]:
        return () if one.result.sizes is None else one.result.sizes.buckets

    sizes = sorted({b.up_to_bytes for stat in stats for b in buckets_of(stat)})
    places = {size: float(place) for place, size in enumerate(sizes)}
    width = 0.8 / max(len(stats), 1)

    def shares(one: NamedStat) -> PanelCurve | None:
        buckets = buckets_of(one)
        shift = (stats.index(one) - (len(stats) - 1) / 2) * width
        x = tuple(places[b.up_to_bytes] + shift for b in buckets)
        y = tuple(b.operations / max(one.result.operations, 1) for b in buckets)
        return PanelCurve(one.name, x, y, CurveForm.BARS, width=width) if buckets else None

    curves = _curves(stats, shares)
    return Panel(
        title="Sizes",
        x=PanelAxis("up to", ticks=named_ticks(map(binary_size_text, sizes))),
        y=PanelAxis("share of operations", AxisUnit.SHARE, low=0),
        curves=curves,
        missing="" if curves else "not in the trace",
    )


def gap_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the CDF of the times between arrivals."""
    return _cdf("Gaps between arrivals", "gap", stats, lambda r: r.gaps.gap_ns)


def popularity_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the share of accesses that go to the most popular share of blocks."""

    def tops(one: NamedStat) -> PanelCurve | None:
        shares = one.result.popularity.tops
        if not shares:
            return None
        x = (*(top.blocks_share for top in shares), 1.0)
        y = (*(top.accesses_share for top in shares), 1.0)
        return PanelCurve(one.name, x, y, CurveForm.MARKED)

    sampled = any(stat.result.popularity.method == "sampled" for stat in stats)
    curves = _curves(stats, tops)
    return Panel(
        title="Popularity" + (" (sampled)" if sampled else ""),
        x=PanelAxis(
            f"most popular share of the touched {_counted(stats)}", AxisUnit.SHARE, log=True
        ),
        y=PanelAxis("share of accesses", AxisUnit.SHARE, low=0, high=1.02),
        curves=curves,
        missing="" if curves else "no block was touched",
    )


def _counted(stats: Sequence[NamedStat]) -> str:
    """Return of what popularity and working set are: blocks, paths, or both."""
    units = {stat.result.popularity.block_bytes is None for stat in stats}
    return " and ".join("paths" if is_path else "blocks" for is_path in sorted(units))


def working_set_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the size of the working set since the start of the trace; of requests the number of
    different paths. Traces of block I/O and of requests have no common axis: the paths are
    not drawn beside blocks."""
    paths = all(stat.result.popularity.block_bytes is None for stat in stats)

    def touched(one: NamedStat) -> PanelCurve | None:
        working_set, block = one.result.working_set, one.result.popularity.block_bytes
        if block is None and not paths:
            return None
        block = block or 1
        x = [(at + 1) * working_set.bin_ns / 1e9 for at in range(len(working_set.cumulative))]
        y = [blocks * block for blocks in working_set.cumulative]
        return PanelCurve(one.name, (0.0, *x), (0.0, *y)) if y else None

    curves = _curves(stats, touched)
    return Panel(
        title=f"Different {'paths' if paths else 'blocks'} touched",
        x=PanelAxis("time [s]"),
        y=PanelAxis("since the start", AxisUnit.NUMBER if paths else AxisUnit.BYTES, low=0),
        curves=curves,
        missing="" if curves else "no block was touched",
    )


def queue_panel(stats: Sequence[NamedStat]) -> Panel:
    """Return the mean number of operations in progress in each bin."""

    def depth(one: NamedStat) -> PanelCurve | None:
        queue = one.result.queue
        if queue is None:
            return None
        return over_time(one.name, queue.series.bin_ns, queue.series.mean)

    return Panel(
        title="Queue",
        x=PanelAxis("time [s]"),
        y=PanelAxis("operations in flight", low=0),
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
) -> PanelCurve | None:
    """Return a series of bins as steps, each to the bin's end; None if there are no values."""
    if not values:
        return None
    x = tuple(place * bin_ns / 1e9 for place in range(len(values) + 1))
    y = tuple(value * scale for value in (*values, values[-1]))
    return PanelCurve(label, x, y, CurveForm.STEPS)


def _cdf(
    title: str,
    label: str,
    stats: Sequence[NamedStat],
    times: Callable[[TraceStatistics], TimeDistribution],
) -> Panel:
    def curve(one: NamedStat) -> PanelCurve | None:
        distribution = times(one.result)
        if distribution.hdr is None or not distribution.count:
            return None
        return cdf_curve(one.name, decode_histogram(distribution.hdr))

    curves = _curves(stats, curve)
    return Panel(
        title=title,
        x=PanelAxis(label, AxisUnit.TIME, log=True),
        y=PanelAxis("share", AxisUnit.SHARE, low=0, high=1.02),
        curves=curves,
        missing="" if curves else "not in the trace",
    )


def _missing(stats: Sequence[NamedStat], known: Callable[[TraceStatistics], bool]) -> str:
    return "" if any(known(stat.result) for stat in stats) else "not in the trace"


# --------------------------------------------------------------------------------------
# The fidelity of a replay: Figures 8 to 11 of the Buttress paper, on one page.
#
# Decision: A and B have the same colours in all panels. The arrival error is drawn as a
# magnitude on a logarithmic axis, with separate curves for early and late, because a linear
# axis shows either the median or the tail. Pure.

_UNKNOWN = "no trace has the ends of operations"


def compare_sheet(result: TraceComparison) -> Sheet:
    """Return the page. Raises HistogramError."""
    return Sheet(
        title="",
        panels=(
            compare_response_panel(result),
            count_panel(result),
            compare_queue_panel(result),
            compare_dispersion_panel(result),
            error_panel(result),
            tail_panel(result),
        ),
    )


def _sides(result: TraceComparison) -> list[tuple[str, TraceSide]]:
    names = [f"{name}: {PurePath(side.report.path).name}" for name, side in _named(result)]
    return list(zip(names, (result.a, result.b), strict=True))


def _named(result: TraceComparison) -> tuple[tuple[str, TraceSide], ...]:
    return (("A", result.a), ("B", result.b))


def _panel(
    title: str, axes: tuple[PanelAxis, PanelAxis], curves: list[PanelCurve | None], missing: str
) -> Panel:
    changed = msgspec.structs.replace
    known = tuple(
        changed(curve, colour=place) for place, curve in enumerate(curves) if curve is not None
    )
    return Panel(title, *axes, known, missing="" if known else missing)


def compare_response_panel(result: TraceComparison) -> Panel:
    """Return both CDFs of response times (Figures 8 and 11)."""
    axes = (
        PanelAxis("response time", AxisUnit.TIME, log=True),
        PanelAxis("share of operations", AxisUnit.SHARE, low=0, high=1.02),
    )
    curves = [_response(name, side) for name, side in _sides(result)]
    return _panel("Response time", axes, curves, _UNKNOWN)


def _response(name: str, side: TraceSide) -> PanelCurve | None:
    # A point with share 0 at time 0 would stretch a logarithmic axis.
    points = [p for p in side.response_cdf if p.share_micro or p.response_ns]
    if not points:
        return None
    x = tuple(max(float(point.response_ns), 1.0) for point in points)
    return PanelCurve(name, x, tuple(point.share_micro / 1e6 for point in points), CurveForm.STEPS)


def count_panel(result: TraceComparison) -> Panel:
    """Return the arrivals in each bin, for A and B (Figure 10)."""
    counts = result.counts
    axes = (PanelAxis("time [s]"), PanelAxis(f"in {counts.bin_ns / 1e9:g} s", low=0))
    (a, _), (b, _) = _sides(result)
    curves = [over_time(a, counts.bin_ns, counts.a), over_time(b, counts.bin_ns, counts.b)]
    return _panel("Arrivals", axes, curves, "no operation")


def compare_queue_panel(result: TraceComparison) -> Panel:
    """Return the number of operations in progress over time (Figure 9's measure)."""
    curves = [
        over_time(name, side.queue.series.bin_ns, side.queue.series.mean)
        if side.queue is not None
        else None
        for name, side in _sides(result)
    ]
    axes = (PanelAxis("time [s]"), PanelAxis("operations in flight", low=0))
    return _panel("Queue", axes, curves, _UNKNOWN)


def error_panel(result: TraceComparison) -> Panel:
    """Return the CDFs of the arrival error's magnitude for all, late and early pairs, as
    shares of all pairs."""
    error = result.arrival_error
    axes = (
        PanelAxis("|B - A|", AxisUnit.TIME, log=True),
        PanelAxis("share of pairs", AxisUnit.SHARE, low=0, high=1.02),
    )
    named = (
        ("all", error.absolute_ns),
        ("late or on time", error.late_ns),
        ("early", error.early_ns),
    )
    curves = [_share(name, times, result.matched) for name, times in named]
    return _panel("Arrival error", axes, curves, "no pair")


def _share(name: str, times: TimeDistribution, pairs: int) -> PanelCurve | None:
    if times.hdr is None or not times.count:
        return None
    curve = cdf_curve(name, decode_histogram(times.hdr))
    part = times.count / max(pairs, 1)
    y = tuple(None if share is None else share * part for share in curve.y)
    return msgspec.structs.replace(curve, y=y)


def tail_panel(result: TraceComparison) -> Panel:
    """Return the magnitude of the arrival error by percentile."""
    times = result.arrival_error.absolute_ns
    curve = None
    if times.hdr is not None and times.count:
        curve = tail_curve("", decode_histogram(times.hdr))
    most = 0 if curve is None else int(curve.x[-1])
    axes = (
        PanelAxis("percentile", ticks=named_ticks(TAIL_NAMES[: most + 1])),
        PanelAxis("|B - A|", AxisUnit.TIME, log=True),
    )
    return _panel("Arrival error: the tail", axes, [curve], "no pair")


def compare_dispersion_panel(result: TraceComparison) -> Panel:
    """Return the indices of dispersion of A and B for each bin width, each in its own time."""
    axes = (
        PanelAxis("width of a bin", AxisUnit.TIME, log=True),
        PanelAxis("variance / mean of counts", log=True),
    )
    curves = [_dispersion(name, side) for name, side in _sides(result)]
    speed = result.alignment.speed_micro / 1e6
    own = "" if speed == 1 else f" (B runs at {speed:.6g}x)"
    panel = _panel(f"Burstiness{own}", axes, curves, "too few arrivals")
    marks = (LevelLine("Poisson", 1.0),) if panel.curves else ()
    return msgspec.structs.replace(panel, marks=marks)


def _dispersion(name: str, side: TraceSide) -> PanelCurve | None:
    known = [
        (float(dispersion.bin_ns), dispersion.index)
        for dispersion in side.dispersion
        if dispersion.index
    ]
    if not known:
        return None
    x, y = zip(*known, strict=True)
    return PanelCurve(name, tuple(x), tuple(y), CurveForm.MARKED)
