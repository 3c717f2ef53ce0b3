"""Exports of the histograms of loads, for the tools of HdrHistogram: interval logs and distributions.

Decision: values in milliseconds, as these tools have them; a log contains the histograms as the engine
recorded them, so a reader that adds them up has the percentiles of the whole load. Response times of
operations that failed are in neither. Sources: HistogramLogWriter, HistogramLogReader,
AbstractHistogram.outputPercentileDistribution and PercentileIterator of HdrHistogram (Java).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from benchwright.core.load import EngineResult, TimeDistribution
from benchwright.core.untrusted import one_line
from benchwright.load.engine_values import merged
from benchwright.report.export.view import (
    Exported,
    ExportLoad,
    ExportView,
    distinct,
    measured_loads,
    moment,
    refusal,
)
from benchwright.stats.hdr_histogram import Histogram, decode_histogram

_NS_PER_MS = 1e6
_NOT_IN_TAG = re.compile(r"[\s,=]+")
_LEGEND = (
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
)
_TICKS = 5
"""Lines of a distribution for each halving of the distance to 100 %."""
_SUB_BUCKETS = 2048
_BUCKETS = 32
"""Of the engine's histograms: three digits up to one hour in nanoseconds."""


# -- Interval logs ---------------------------------------------------------------------


def hlog(view: ExportView) -> Exported:
    """Return a log of the response times of each interval: `*.hlog`.

    A load without histograms of intervals is one interval. Several loads have tags.
    """
    loads = measured_loads(view, "hlog")
    base_ns = min(load.result.started_ns for load in loads)
    seconds = f"{base_ns / 1e9:.3f} (seconds since epoch)"
    lines = [
        f"#[Logged by Benchwright {one_line(view.version)}]".replace(" ]", "]"),
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {seconds}]",
        f"#[StartTime: {seconds}, {moment(base_ns):%a %b %d %H:%M:%S UTC %Y}]",
        _LEGEND,
    ]
    tags: Sequence[str] = [""]
    if len(loads) > 1:
        names = (f"{load.test}:{load.trial}" for load in loads)
        tags = [
            f"Tag={name},"
            for name in distinct(_NOT_IN_TAG.sub("_", one_line(name)) for name in names)
        ]
    for tag, load in zip(tags, loads, strict=True):
        start_ns = load.result.started_ns - base_ns
        lines += [f"{tag}{line}" for line in _log_lines(load.result, start_ns)]
    whole = [load.test for load in loads if not _has_intervals(load.result)]
    left_out: tuple[str, ...] = ()
    if whole:
        left_out = (
            f"{', '.join(dict.fromkeys(whole))}: one interval, because the result has no "
            "histograms of intervals; interval_histograms = true in [run] of a workload adds them",
        )
    return Exported("\n".join([*lines, ""]), left_out=left_out)


def _has_intervals(result: EngineResult) -> bool:
    intervals = result.intervals
    return bool(intervals) and all(one.response_hdr is not None for one in intervals)


def _log_lines(result: EngineResult, start_ns: int) -> Iterator[str]:
    """Yield the intervals of a load that starts `start_ns` after the base of the log."""
    if not _has_intervals(result):
        response = result.all.response_ns
        yield _log_line(start_ns, result.elapsed_ns, response.max, response.hdr)
        return
    for one in result.intervals:
        begin = start_ns + one.start_ns
        yield _log_line(begin, one.length_ns, one.response_ns_max, one.response_hdr)


def _log_line(
    start_ns: int, length_ns: int, longest_ns: int | None, hdr: str | None
) -> str:
    times = f"{start_ns / 1e9:.3f},{length_ns / 1e9:.3f}"
    return f"{times},{(longest_ns or 0) / _NS_PER_MS:.6f},{hdr or ''}"


# -- Distributions ---------------------------------------------------------------------


def hgrm(view: ExportView) -> Exported:
    """Return the distribution of the response times of a load, of all its trials: `*.hgrm`."""
    loads = measured_loads(view, "hgrm")
    tests = list(dict.fromkeys(load.test for load in loads))
    if len(tests) > 1:
        message = f"a file has one distribution, and the session has {len(tests)} loads"
        hint = f"name one: {view.study}@{view.session}:{tests[0]}"
        raise refusal("hgrm", message, hint)
    times = [load.result.all.response_ns for load in loads]
    histogram = histogram_of(loads, "all", "response_ns")
    if not histogram.total:
        raise refusal("hgrm", "no operation succeeded", "for what failed: prometheus")
    mean, sd = _moments(times)
    longest = max(one.max or 0 for one in times)
    lines = [
        "       Value     Percentile TotalCount 1/(1-Percentile)",
        "",
        *_distribution(histogram, longest),
        f"#[Mean    = {mean / _NS_PER_MS:12.6f}, StdDeviation   = {sd / _NS_PER_MS:12.6f}]",
        f"#[Max     = {longest / _NS_PER_MS:12.6f}, Total count    = {histogram.total:12d}]",
        f"#[Buckets = {_BUCKETS:12d}, SubBuckets     = {_SUB_BUCKETS:12d}]",
    ]
    return Exported("\n".join([*lines, ""]))


def histogram_of(loads: Sequence[ExportLoad], kind: str, times: str) -> Histogram:
    """Return the histogram of a time (`response_ns`, `service_ns`) of a kind over all loads."""
    found = [
        getattr(load.result.kinds[kind], times).hdr
        for load in loads
        if kind in load.result.kinds
    ]
    return merged([decode_histogram(hdr) for hdr in found if hdr])


def _distribution(histogram: Histogram, longest_ns: int) -> Iterator[str]:
    """Yield the lines of a distribution, in steps that halve with the distance to 100 %."""
    counted = histogram.count.cumsum()
    place, level = 0, 0.0
    while True:
        while 100 * counted[place] / histogram.total < level:
            place += 1
        value = min(int(histogram.high[place]), longest_ns) / _NS_PER_MS
        share = level / 100
        yield (
            f"{value:12.6f} {share:.12f} {counted[place]:10d} {1 / (1 - share):14.2f}"
        )
        if counted[place] >= histogram.total:
            break
        halvings = math.floor(math.log2(100 / (100 - level))) + 1
        level += 100 / (_TICKS * 2**halvings)
    yield f"{longest_ns / _NS_PER_MS:12.6f} {1:.12f} {histogram.total:10d}"


def _moments(times: Sequence[TimeDistribution]) -> tuple[float, float]:
    """Return mean and standard deviation of all values together [ns]."""
    total = sum(one.count for one in times)
    mean = sum(one.count * (one.mean or 0.0) for one in times) / total
    squares = sum(
        (one.count - 1) * (one.sd or 0.0) ** 2
        + one.count * ((one.mean or 0.0) - mean) ** 2
        for one in times
        if one.count
    )
    return mean, math.sqrt(squares / (total - 1)) if total > 1 else 0.0
