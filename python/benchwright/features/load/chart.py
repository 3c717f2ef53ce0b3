"""Charts of loads' results: issue error, its tail, rate and response over time.

Purpose: one page for one load (`bw load --plot`) or for several side by side (pacers, engines,
rates), as in the Buttress paper, Figures 4 and 5. Decision: the CDF of the issue error has a
logarithmic time axis. A second panel shows the tail by percentile, because a CDF in percent
hides what is beyond 99 %. Times below 1 ns are drawn at 1 ns. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from benchwright.core.numeric import np
from benchwright.core.text import plural
from benchwright.features.load.response_times import Histogram, times_histogram
from benchwright.features.load.steady import full_intervals
from benchwright.features.load.streams import missing_streams
from benchwright.features.load.types import (
    EngineResult,
    IntervalResult,
    StreamResult,
    TimeDistribution,
    response_rank,
)
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    named_ticks,
)

_LEAST_NS = 1.0
_QUANTITIES = (
    ("response", "response_ns"),
    ("service", "service_ns"),
    ("issue error", "issue_error_ns"),
)
TAIL_NAMES = ("50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %")
"""Labels of the positions in `tail_curve`."""


class NamedLoad(msgspec.Struct, frozen=True):
    """A load's result and its name in the legend."""

    name: str
    result: EngineResult


def load_sheet(loads: Sequence[NamedLoad]) -> Sheet:
    """Return the page of one or several loads. Raises HistogramError."""
    return Sheet(
        title=loads[0].name if len(loads) == 1 else "",
        panels=(
            issue_error_panel(loads),
            tail_panel(loads),
            rate_panel(loads),
            response_panel(loads),
            *((quantities_panel(loads[0]),) if len(loads) == 1 else ()),
            *(stream_panels(loads[0]) if len(loads) == 1 else ()),
        ),
    )


def stream_panels(load: NamedLoad) -> tuple[Panel, ...]:
    """Return the panels about the streams of a load; none without streams."""
    streams = load.result.streams
    if streams is None:
        return ()
    return (
        stream_times_panel(load, streams),
        first_panel(load),
        goodput_panel(load),
        timeline_panel(streams),
    )


def issue_error_panel(loads: Sequence[NamedLoad]) -> Panel:
    """Return the CDF of the issue error of each load, on a logarithmic axis of time.

    Delayed operations are excluded, so this is the generator's own error (lateness).
    """
    curves = [
        cdf_curve(load.name, histogram)
        for load in loads
        if (histogram := _histogram(load.result.lateness_ns)) is not None
    ]
    return Panel(
        title="Issue error",
        x=PanelAxis("actual - intended start", AxisUnit.TIME, log=True),
        y=PanelAxis("share of operations", AxisUnit.SHARE, low=0, high=1.02),
        curves=_coloured(curves, len(curves)),
        missing="" if curves else "no operation was issued",
    )


def tail_panel(loads: Sequence[NamedLoad]) -> Panel:
    """Return the issue error by percentile; each step to the right has a tenth of the operations
    beyond it."""
    curves = [curve for load in loads for curve in _tails(load.name, load.result.lateness_ns)]
    return _by_percentile(
        "Issue error: the tail",
        PanelAxis("actual - intended start", AxisUnit.TIME, log=True),
        _coloured(curves, len(curves)),
        "no operation was issued",
    )


def quantities_panel(load: NamedLoad) -> Panel:
    """Return issue error, service and response time of all operations by percentile: what the
    generator added, what the server needed, and what a user waits. The response ends where the
    percentile is of an operation without one."""
    failed, _ = load.result.missing("all")
    curves = [
        curve
        for what, name in _QUANTITIES
        for curve in _tails(
            what, getattr(load.result.all, name), failed if name == "response_ns" else 0
        )
    ]
    return _by_percentile(
        "Issue error, service and response by percentile",
        _TIME,
        _coloured(curves, 1),
        "no operation was completed",
    )


def stream_times_panel(load: NamedLoad, streams: StreamResult) -> Panel:
    """Return the times of streams by percentile; each ends where the percentile is of a stream
    without one."""
    curves = [
        curve
        for name in ("first", "largest_gap", "gap", "tpot")
        for curve in _tails(
            name.replace("_", " "), streams.times(name), missing_streams(load.result, name)[0]
        )
    ]
    return _by_percentile(
        "Times of streams by percentile", _TIME, _coloured(curves, 1), "no stream succeeded"
    )


_TIME = PanelAxis("time", AxisUnit.TIME, log=True)


def _tails(label: str, times: TimeDistribution, missing: int = 0) -> Iterator[PanelCurve]:
    """Yield the curve of times by percentile, if there is one."""
    histogram = _histogram(times)
    curve = None if histogram is None else tail_curve(label, histogram, missing)
    if curve is not None:
        yield curve


def _by_percentile(title: str, y: PanelAxis, curves: tuple[PanelCurve, ...], none: str) -> Panel:
    """Return the panel of curves by percentile; `none`: why there is no curve."""
    most = max((curve.x[-1] for curve in curves), default=0)
    return Panel(
        title=title,
        x=PanelAxis("percentile", ticks=named_ticks(TAIL_NAMES[: int(most) + 1])),
        y=y,
        curves=curves,
        missing="" if curves else none,
    )


def first_panel(load: NamedLoad) -> Panel:
    """Return the percentiles of the first event of the streams that ended in each interval."""
    return _course(
        load,
        "First event over time",
        PanelAxis("first event - intended start", AxisUnit.TIME, log=True),
        (("first p50", "first_ns_p50"), ("first p99", "first_ns_p99")),
        "no stream succeeded",
    )


def goodput_panel(load: NamedLoad) -> Panel:
    """Return the streams per second that were intended, and those that were good; where nothing says
    what is good, those that succeeded; and the tokens per second, if they are known."""
    values: dict[str, Callable[[IntervalResult], float | None]] = {
        "intended": partial(_per_s, "intended")
    }
    streams = load.result.streams
    if streams is not None and streams.good is not None:
        values["good"] = partial(_per_s, "good")
    else:
        values["succeeded"] = _succeeded_per_s
    curves = [c for what, value in values.items() for c in _over_time([load], what, value)]
    return Panel(
        title="Good streams" if "good" in values else "Streams",
        x=PanelAxis("time [s]"),
        y=PanelAxis("streams per second", low=0),
        curves=_coloured(curves, 1),
        missing="" if curves else "the run has no interval",
    )


_OF_TIMELINE = (0, 2, 3)
"""Colours: two that are alike for the parts of a stream, another for those that failed."""


def timeline_panel(streams: StreamResult) -> Panel:
    """Return a line for each of the first streams: from its intended start to its first event, and
    from there to its end; of one that failed from its intended start to its end."""
    order = sorted(streams.timeline, key=lambda one: one.intended_ns)
    parts: dict[str, tuple[list[float], list[float | None]]] = {
        "until its first event": ([], []),
        "events": ([], []),
        "failed": ([], []),
    }
    for row, stream_times in enumerate(order, 1):
        ends = {"failed": (stream_times.intended_ns, stream_times.end_ns)}
        if stream_times.result >= 0:
            first_ns = (
                stream_times.end_ns if stream_times.first_ns is None else stream_times.first_ns
            )
            ends = {
                "until its first event": (stream_times.intended_ns, first_ns),
                "events": (first_ns, stream_times.end_ns),
            }
        for name, (begin_ns, end_ns) in ends.items():
            x, y = parts[name]
            x += (begin_ns / 1e9, end_ns / 1e9, end_ns / 1e9)
            y += (row, row, None)
    curves = [
        PanelCurve(name, tuple(x), tuple(y), colour=colour)
        for colour, (name, (x, y)) in zip(_OF_TIMELINE, parts.items(), strict=True)
        if x
    ]
    return Panel(
        title=f"The first {plural(len(order), 'stream')}",
        x=PanelAxis("time [s]"),
        y=PanelAxis("stream", low=0, high=len(order) + 1),
        curves=tuple(curves),
        missing="" if curves else "no stream ended",
    )


def course_panel(load: NamedLoad) -> Panel:
    """Return the 99th percentiles of the response time and of the issue error in each interval."""
    return _course(
        load,
        "Response and issue error over time",
        _TIME,
        (("response p99", "response_ns_p99"), ("issue error p99", "issue_error_ns_p99")),
        "no operation succeeded",
    )


def _course(
    load: NamedLoad, title: str, y: PanelAxis, words: Iterable[tuple[str, str]], none: str
) -> Panel:
    """Return the panel of times in each interval, each with its name there; `none`: why there is no
    curve."""
    curves = [
        curve
        for what, name in words
        for curve in _over_time([load], what, partial(_interval_ns, name))
    ]
    known = _coloured(curves, 1)
    return Panel(
        title=title, x=PanelAxis("time [s]"), y=y, curves=known, missing="" if known else none
    )


def rate_panel(loads: Sequence[NamedLoad]) -> Panel:
    """Return the completed and the intended operations per second in each interval; also those that
    failed, if any did."""
    failed = any(
        interval_result.errors for load in loads for interval_result in load.result.intervals
    )
    curves = [
        curve
        for what in ("intended", "completed", *(("errors",) if failed else ()))
        for curve in _over_time(loads, what, partial(_per_s, what))
    ]
    return Panel(
        title="Rate",
        x=PanelAxis("time [s]"),
        y=PanelAxis("operations per second", low=0),
        curves=_coloured(curves, len(loads)),
        missing="" if curves else "the run has no interval",
    )


def response_panel(loads: Sequence[NamedLoad]) -> Panel:
    """Return the percentiles of the response time in each interval."""
    words = ("p50", "p99", "max") if len(loads) == 1 else ("p50", "p99")
    curves = [
        curve
        for word in words
        for curve in _over_time(loads, word, partial(_interval_ns, f"response_ns_{word}"))
    ]
    known = _coloured(curves, len(loads))
    return Panel(
        title="Response time",
        x=PanelAxis("time [s]"),
        y=PanelAxis("completion - intended start", AxisUnit.TIME, log=True),
        curves=known,
        missing="" if known else "no operation succeeded",
    )


def _over_time(
    loads: Sequence[NamedLoad], what: str, value: Callable[[IntervalResult], float | None]
) -> Iterator[PanelCurve]:
    """Yield, for each load, a value of each interval as steps.

    A gap between intervals (the generator did not run) is a gap in the curve.
    """
    for load in loads:
        intervals = full_intervals(load.result.intervals)
        x: list[float] = []
        y: list[float | None] = []
        for this, after in zip(intervals, (*intervals[1:], None), strict=True):
            end_ns = this.start_ns + this.length_ns
            x.append(this.start_ns / 1e9)
            y.append(value(this))
            if after is None or after.start_ns > end_ns:
                x.append(end_ns / 1e9)
                y.append(y[-1] if after is None else None)
        if x:
            label = f"{load.name}, {what}" if len(loads) > 1 else what
            yield PanelCurve(label, tuple(x), tuple(y), CurveForm.STEPS)


def _coloured(curves: Sequence[PanelCurve], loads: int) -> tuple[PanelCurve, ...]:
    """Return the curves with a colour for each load and a dash for each quantity; for one load,
    with a colour and a dash for each quantity. Those without a value are left out, so that no
    legend names them."""
    changed = msgspec.structs.replace
    coloured = (
        changed(curve, colour=at, dash=at)
        if loads == 1
        else changed(curve, colour=at % loads, dash=at // loads)
        for at, curve in enumerate(curves)
    )
    return tuple(
        panel_curve for panel_curve in coloured if any(y is not None for y in panel_curve.y)
    )


def _per_s(what: str, interval: IntervalResult) -> float:
    operations: int = getattr(interval, what) or 0
    return operations / interval.length_ns * 1e9


def _succeeded_per_s(interval: IntervalResult) -> float:
    return (interval.completed - interval.errors) / interval.length_ns * 1e9


def _interval_ns(name: str, interval: IntervalResult) -> float | None:
    value: int | None = getattr(interval, name)
    return None if value is None else max(float(value), _LEAST_NS)


def cdf_curve(label: str, histogram: Histogram) -> PanelCurve:
    """Return the cumulative share of values as steps, from the left end of the first bucket."""
    x = np.maximum(histogram.high, _LEAST_NS)
    begin = max(float(histogram.low[0]), _LEAST_NS)
    return PanelCurve(
        label=label,
        x=(begin, *(float(value) for value in x)),
        y=(0.0, *(float(share) for share in histogram.shares())),
        form=CurveForm.STEPS,
    )


def tail_curve(label: str, histogram: Histogram, missing: int = 0) -> PanelCurve | None:
    """Return the median at 0, p90 at 1, p99 at 2 and so on; None without values.

    Percentiles with less than one value beyond them are left out, and those whose rank lies among
    the `missing` operations, which are in no histogram and count as slower than all others.
    """
    whole = histogram.total + missing
    powers = [p for p in range(len(TAIL_NAMES)) if 10**p <= whole or not p]
    x, y = [], []
    for power in powers:
        share = 0.5 if power == 0 else 1 - 10.0**-power
        rank = response_rank(share, missing, whole)
        value = None if rank is None else histogram.at_rank(rank)
        if value is not None:
            x.append(float(power))
            y.append(max(float(value), _LEAST_NS))
    return PanelCurve(label, tuple(x), tuple(y), CurveForm.MARKED) if x else None


def _histogram(times: TimeDistribution) -> Histogram | None:
    """Return the histogram of a distribution of times; None if it is absent or empty."""
    return times_histogram(times) if times.count else None
