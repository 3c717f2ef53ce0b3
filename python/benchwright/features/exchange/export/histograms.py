"""Exports of the histograms of loads, for the tools of HdrHistogram: interval logs and
distributions.

Decision: values in milliseconds, as these tools have them; a log contains the histograms as the
engine recorded them, so a reader that adds them up has the percentiles of the whole load. Each
label of requests has the histogram of the whole load under a tag of its own, since the engine has
none of its intervals. Response times of operations that failed are in neither. Sources:
HistogramLogWriter, HistogramLogReader, AbstractHistogram.outputPercentileDistribution and
PercentileIterator of HdrHistogram (Java).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from benchwright.core.untrusted import one_line
from benchwright.features.exchange.export.view import (
    Exported,
    ExportLoad,
    ExportView,
    distinct,
    failures_left_out,
    file_name,
    labels_of,
    measured_loads,
    moment,
    refusal,
    tests_of,
)
from benchwright.features.load.engine_values import merged
from benchwright.features.load.response_times import Histogram, decode_histogram
from benchwright.features.load.types import EngineResult, TimeDistribution

_NS_PER_MS = 1e6
_NOT_IN_TAG = re.compile(r"[\s,=]+")
_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
_NO_LOAD = "it has no load"
_TICKS = 5
"""Lines of a distribution for each halving of the distance to 100 %."""
_SUB_BUCKETS = 2048
_BUCKETS = 32
"""Of the engine's histograms: three digits up to one hour in nanoseconds."""


# -- Interval logs ---------------------------------------------------------------------


def hlog(view: ExportView) -> Exported:
    """Return a log of the response times of each interval: `*.hlog`.

    A load without histograms of intervals is one interval. Several loads have tags, and so has each
    label of requests, which is one interval.
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
    named: list[tuple[str, Iterator[str]]] = []
    for load in loads:
        name = f"{load.test}:{load.trial}" if len(loads) > 1 else ""
        start_ns = load.result.started_ns - base_ns
        for label, kind_result in load.result.labels.items():
            response = kind_result.response_ns
            line = _log_line(start_ns, load.result.elapsed_ns, response.max, response.hdr)
            named.append((f"{name}:{label}".removeprefix(":"), iter([line])))
        # Behind its labels, so that the starts ascend.
        named.append((name, _log_lines(load.result, start_ns)))
    tags = distinct(_NOT_IN_TAG.sub("_", one_line(name)) for name, _ in named)
    for tag, (_, found) in zip(tags, named, strict=True):
        lines += [f"Tag={tag},{line}" if tag else line for line in found]
    whole = [load.test for load in loads if not _has_intervals(load.result)]
    left_out: tuple[str, ...] = ()
    if whole:
        left_out = (
            f"{', '.join(dict.fromkeys(whole))}: one interval, because the result has no "
            "histograms of intervals; interval_histograms = true in [run] of a workload adds them",
        )
    return Exported(
        "\n".join([*lines, ""]),
        tests_of(view, [load.test for load in loads]),
        left_out=(*left_out, *failures_left_out(loads)),
        why=_NO_LOAD,
    )


def _has_intervals(result: EngineResult) -> bool:
    intervals = result.intervals
    return bool(intervals) and all(interval.response_hdr is not None for interval in intervals)


def _log_lines(result: EngineResult, start_ns: int) -> Iterator[str]:
    """Yield the intervals of a load that starts `start_ns` after the base of the log."""
    if not _has_intervals(result):
        response = result.all.response_ns
        yield _log_line(start_ns, result.elapsed_ns, response.max, response.hdr)
        return
    for interval in result.intervals:
        begin = start_ns + interval.start_ns
        yield _log_line(begin, interval.length_ns, interval.response_ns_max, interval.response_hdr)


def _log_line(start_ns: int, length_ns: int, longest_ns: int | None, hdr: str | None) -> str:
    times = f"{start_ns / 1e9:.3f},{length_ns / 1e9:.3f}"
    return f"{times},{(longest_ns or 0) / _NS_PER_MS:.6f},{hdr or ''}"


# -- Distributions ---------------------------------------------------------------------


def hgrm(view: ExportView) -> Exported:
    """Return the distribution of the response times of a load, of all its trials: `*.hgrm`. Beside
    it is one of each label of requests."""
    loads = measured_loads(view, "hgrm")
    tests = list(dict.fromkeys(load.test for load in loads))
    if len(tests) > 1:
        message = f"a file has one distribution, and the session has {len(tests)} loads"
        hint = f"name one: {view.study}@{view.session}:{tests[0]}"
        raise refusal("hgrm", message, hint)
    if not histogram_of(loads, "all", "response_ns").total:
        raise refusal("hgrm", "no operation succeeded", "for what failed: prometheus")
    labels = labels_of(loads)
    names = distinct(file_name(f"{tests[0]}-{label}") for label in labels)
    return Exported(
        _hgrm_text(loads, "all"),
        tests_of(view, tests),
        beside=tuple(
            (f"{name}.hgrm", _hgrm_text(loads, label, label=True))
            for name, label in zip(names, labels, strict=True)
            if histogram_of(loads, label, "response_ns", label=True).total
        ),
        needs_beside=False,
        left_out=failures_left_out(loads),
        why=_NO_LOAD,
    )


def _hgrm_text(loads: Sequence[ExportLoad], name: str, *, label: bool = False) -> str:
    """Return the distribution of a kind of operation, or of a label, which has at least one value."""
    kind_results = (load.part(name, label=label) for load in loads)
    times = [kind_result.response_ns for kind_result in kind_results if kind_result is not None]
    histogram = histogram_of(loads, name, "response_ns", label=label)
    mean, sd = _moments(times)
    longest = max(time.max or 0 for time in times)
    lines = [
        "       Value     Percentile TotalCount 1/(1-Percentile)",
        "",
        *_distribution(histogram, longest),
        f"#[Mean    = {mean / _NS_PER_MS:12.6f}, StdDeviation   = {sd / _NS_PER_MS:12.6f}]",
        f"#[Max     = {longest / _NS_PER_MS:12.6f}, Total count    = {histogram.total:12d}]",
        f"#[Buckets = {_BUCKETS:12d}, SubBuckets     = {_SUB_BUCKETS:12d}]",
    ]
    return "\n".join([*lines, ""])


def histogram_of(
    loads: Sequence[ExportLoad], name: str, times: str, *, label: bool = False
) -> Histogram:
    """Return the histogram of a time (`response_ns`, `service_ns`) over all loads, of a kind of
    operation or of a label."""
    parts = (load.part(name, label=label) for load in loads)
    found = [getattr(part, times).hdr for part in parts if part is not None]
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
        yield (f"{value:12.6f} {share:.12f} {counted[place]:10d} {1 / (1 - share):14.2f}")
        if counted[place] >= histogram.total:
            break
        halvings = math.floor(math.log2(100 / (100 - level))) + 1
        level += 100 / (_TICKS * 2**halvings)
    yield f"{longest_ns / _NS_PER_MS:12.6f} {1:.12f} {histogram.total:10d}"


def _moments(times: Sequence[TimeDistribution]) -> tuple[float, float]:
    """Return mean and standard deviation of all values together [ns]."""
    total = sum(time.count for time in times)
    mean = sum(time.count * (time.mean or 0.0) for time in times) / total
    squares = sum(
        (time.count - 1) * (time.sd or 0.0) ** 2 + time.count * ((time.mean or 0.0) - mean) ** 2
        for time in times
        if time.count
    )
    return mean, math.sqrt(squares / (total - 1)) if total > 1 else 0.0
