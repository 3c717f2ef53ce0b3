"""What is drawn of a replay's fidelity: Figures 8 to 11 of the Buttress paper, on a page.

Decision: A and B keep their colours in every panel. The arrival error is drawn by its size
on a logarithmic axis, early and late apart, because a linear one shows either the median
or the tail. Pure.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from benchwright.model.load import Times
from benchwright.model.trace_compare import CompareResult, Side
from benchwright.report.plot.load_results import TAIL_NAMES, cdf_curve, tail_curve
from benchwright.report.plot.sheet import Axis, Curve, Form, Mark, Panel, Sheet, Unit
from benchwright.report.plot.trace_stat import over_time
from benchwright.stats.hdr_histogram import decode

_UNKNOWN = "no trace tells when operations ended"


def compare_sheet(result: CompareResult) -> Sheet:
    """Return the page. Raises HistogramError."""
    return Sheet(
        title="",
        panels=(
            response_panel(result),
            count_panel(result),
            queue_panel(result),
            dispersion_panel(result),
            error_panel(result),
            tail_panel(result),
        ),
    )


def _sides(result: CompareResult) -> list[tuple[str, Side]]:
    names = [
        f"{name}: {PurePath(side.report.path).name}" for name, side in _named(result)
    ]
    return list(zip(names, (result.a, result.b), strict=True))


def _named(result: CompareResult) -> tuple[tuple[str, Side], ...]:
    return (("A", result.a), ("B", result.b))


def _panel(
    title: str, axes: tuple[Axis, Axis], curves: list[Curve | None], missing: str
) -> Panel:
    changed = msgspec.structs.replace
    known = tuple(
        changed(curve, colour=place)
        for place, curve in enumerate(curves)
        if curve is not None
    )
    return Panel(title, *axes, known, missing="" if known else missing)


def response_panel(result: CompareResult) -> Panel:
    """Return both CDFs of response times (Figures 8 and 11)."""
    axes = (
        Axis("response time", Unit.TIME, log=True),
        Axis("share of operations", Unit.SHARE, low=0, high=1.02),
    )
    curves = [_response(name, side) for name, side in _sides(result)]
    return _panel("Response time", axes, curves, _UNKNOWN)


def _response(name: str, side: Side) -> Curve | None:
    # A share of nothing at no time would stretch a logarithmic axis to its end.
    points = [p for p in side.response_cdf if p.share_micro or p.response_ns]
    if not points:
        return None
    x = tuple(max(float(point.response_ns), 1.0) for point in points)
    return Curve(
        name, x, tuple(point.share_micro / 1e6 for point in points), Form.STEPS
    )


def count_panel(result: CompareResult) -> Panel:
    """Return the requests seen in each second, side by side (Figure 10)."""
    counts = result.counts
    axes = (Axis("time [s]"), Axis(f"in {counts.bin_ns / 1e9:g} s", low=0))
    (a, _), (b, _) = _sides(result)
    curves = [
        over_time(a, counts.bin_ns, counts.a),
        over_time(b, counts.bin_ns, counts.b),
    ]
    return _panel("Arrivals", axes, curves, "no operation")


def queue_panel(result: CompareResult) -> Panel:
    """Return how many operations are under way over time (Figure 9's measure)."""
    curves = [
        over_time(name, side.queue.series.bin_ns, side.queue.series.mean)
        if side.queue is not None
        else None
        for name, side in _sides(result)
    ]
    axes = (Axis("time [s]"), Axis("operations under way", low=0))
    return _panel("Queue", axes, curves, _UNKNOWN)


def error_panel(result: CompareResult) -> Panel:
    """Return the CDFs of how late and how early pairs arrived, as shares of all pairs."""
    error = result.arrival_error
    axes = (
        Axis("|B - A|", Unit.TIME, log=True),
        Axis("share of pairs", Unit.SHARE, low=0, high=1.02),
    )
    named = (
        ("all", error.absolute_ns),
        ("late or on time", error.late_ns),
        ("early", error.early_ns),
    )
    curves = [_share(name, times, result.matched) for name, times in named]
    return _panel("Arrival error", axes, curves, "no pair")


def _share(name: str, times: Times, pairs: int) -> Curve | None:
    if times.hdr is None or not times.count:
        return None
    curve = cdf_curve(name, decode(times.hdr))
    part = times.count / max(pairs, 1)
    y = tuple(None if share is None else share * part for share in curve.y)
    return msgspec.structs.replace(curve, y=y)


def tail_panel(result: CompareResult) -> Panel:
    """Return how far off pairs are, by percentile."""
    times = result.arrival_error.absolute_ns
    curve = None
    if times.hdr is not None and times.count:
        curve = tail_curve("", decode(times.hdr))
    most = 0 if curve is None else int(curve.x[-1])
    axes = (
        Axis("percentile", names=TAIL_NAMES[: most + 1]),
        Axis("|B - A|", Unit.TIME, log=True),
    )
    return _panel("Arrival error: the tail", axes, [curve], "no pair")


def dispersion_panel(result: CompareResult) -> Panel:
    """Return both indices of dispersion by the width of the bins, each on its own time."""
    axes = (
        Axis("width of a bin", Unit.TIME, log=True),
        Axis("variance / mean of counts", log=True),
    )
    curves = [_dispersion(name, side) for name, side in _sides(result)]
    speed = result.alignment.speed_micro / 1e6
    own = "" if speed == 1 else f" (B runs at {speed:.6g}x)"
    panel = _panel(f"Burstiness{own}", axes, curves, "too few arrivals")
    marks = (Mark("Poisson", 1.0),) if panel.curves else ()
    return msgspec.structs.replace(panel, marks=marks)


def _dispersion(name: str, side: Side) -> Curve | None:
    known = [(float(one.bin_ns), one.index) for one in side.dispersion if one.index]
    if not known:
        return None
    x, y = zip(*known, strict=True)
    return Curve(name, tuple(x), tuple(y), Form.MARKED)
