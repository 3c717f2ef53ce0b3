"""Results of load generators: fio and k6.

One run is one trial: its mean and percentiles are values of that trial, and no interval follows from
them. Several runs make an interval: name the files one after the other, or as a pattern.
Sources: fio 3.33, `--output-format=json` and `json+`; k6 1.8, `--summary-export`, `handleSummary`,
`--out json`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec
from benchwright.study.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    input_error,
    is_object,
    parse_json,
)
from benchwright.study.foreign.python_tools import epoch_ns, moment_ns
from benchwright.study.foreign.units import spec_of
from benchwright.study.parsers.api import FileOrigin, ParsedInput


class _RunValues:
    """The values of one run with their declarations, in order."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.specs: list[MetricSpec] = []

    def add(
        self, name: str, value: float | None, unit: str = "", better: str = ""
    ) -> None:
        """Add a value, if there is one and it is finite. One without unit and direction is not
        declared."""
        if value is None or not math.isfinite(value) or name in self.values:
            return
        self.values[name] = value
        if unit or better:
            self.specs.append(spec_of(name, unit, better))


# -- fio ---------------------------------------------------------------------------------

_FIO_DIRECTIONS = ("read", "write", "trim")
_FIO_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_FIO_MAIN = ("iops", "clat_mean", "clat_p99")
_FIO_LEVELS = ("rw", "bs", "iodepth", "numjobs", "ioengine", "direct", "rate_iops")


def _is_fio(value: Any) -> bool:
    return is_object(value, "fio version") and (
        isinstance(value.get("jobs"), list)
        or isinstance(value.get("client_stats"), list)
    )


def _fio(document: Node) -> list[ParsedInput]:
    """Return one test for each job, or for each group of jobs that fio reports together."""
    version = document["fio version"].text().removeprefix("fio-")
    origin = FileOrigin(
        tool=f"fio {version}".rstrip(),
        started_ns=epoch_ns(document["timestamp"], 1.0),
        main=tuple(
            f"{direction}_{what}" for direction in _FIO_DIRECTIONS for what in _FIO_MAIN
        ),
    )
    key = "jobs" if document.has("jobs") else "client_stats"
    jobs = list(document[key].elements())
    options = document["global options"]
    names = Counter(one["jobname"].text() for one in jobs)
    found = []
    for at, job in enumerate(jobs):
        run = _RunValues()
        for direction in _FIO_DIRECTIONS:
            _fio_direction(run, direction, job[direction])
        for name in ("usr_cpu", "sys_cpu"):
            run.add(name, job[name].number(), "%", "lower")
        own = job["job options"]
        levels = [
            (name, (own[name] if own.has(name) else options[name]).text())
            for name in _FIO_LEVELS
            if own.has(name) or options.has(name)
        ]
        name = job["jobname"].text("job")
        error = int(job["error"].number() or 0)
        found.append(
            ParsedInput(
                name=name if names[name] == 1 else f"{name}#{at + 1}",
                blocks=(MeasurementBlock(0, 1, "", error, run.values),),
                specs=tuple(run.specs),
                sample=tuple(levels),
                origin=origin,
            )
        )
    return found


def _fio_direction(run: _RunValues, direction: str, figures: Node) -> None:
    if not figures["total_ios"].number():
        return
    run.add(f"{direction}_iops", figures["iops"].number(), "1/s", "higher")
    size = figures["bw_bytes"].number()
    if size is None and (kib := figures["bw"].number()) is not None:
        size = kib * 1024
    run.add(f"{direction}_bw", size, "B/s", "higher")
    for kind in ("lat", "clat", "slat"):
        times, factor = figures[f"{kind}_ns"], 1e-9
        if times.absent and figures.has(f"{kind}_us"):
            times, factor = figures[f"{kind}_us"], 1e-6
        if not times["N"].number() and not times["mean"].number():
            continue
        mean = times["mean"].number()
        run.add(
            f"{direction}_{kind}_mean",
            None if mean is None else mean * factor,
            "s",
            "lower",
        )
        for share, value in _fio_percentiles(times).items():
            run.add(f"{direction}_{kind}_p{share:g}", value * factor, "s", "lower")


def _fio_percentiles(times: Node) -> dict[float, float]:
    """Return the percentiles of latencies: as fio wrote them, else from the bins of JSON+, whose
    value is the upper end of a bin."""
    found: dict[float, float] = {}
    for key, node in times["percentile"].members():
        value = node.number()
        share = _share(key)
        if share in _FIO_PERCENTILES and value is not None:
            found[share] = value
    bins = sorted(
        (end, count.count())
        for key, count in times["bins"].members()
        if (end := _share(key)) is not None
    )
    total = sum(count for _, count in bins)
    if found or not total:
        return found
    for share in _FIO_PERCENTILES:
        below = 0
        for end, count in bins:
            below += count
            if below >= math.ceil(share / 100 * total):
                found[share] = end
                break
    return found


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", text) else None


FIO = JsonFormat(
    name="fio",
    description="fio's JSON",
    matches=_is_fio,
    convert=_fio,
    marks=(b'"fio version"',),
    hint="write it again: fio --output-format=json --output=FILE JOB",
)


# -- k6 ----------------------------------------------------------------------------------
#
# `--summary-export` has no units: times of k6's own metrics are milliseconds by their names. The values
# of a trend that k6 does not name have no unit there; with `--out json` and `handleSummary` they have.

_K6_TIMES = re.compile(
    r"(http_req_(duration|blocked|connecting|tls_handshaking|sending|waiting|receiving)"
    r"|iteration_duration|group_duration|grpc_req_duration|ws_(connecting|session_duration|ping)"
    r"|browser_web_vital_(fcp|fid|inp|lcp|ttfb)|browser_http_req_duration)(\{.*\})?"
)
_K6_FIRST = (
    *("http_req_duration", "http_reqs", "http_req_failed"),
    *("iteration_duration", "iterations", "checks"),
)
_K6_MAIN = (
    *("http_req_duration_avg", "http_req_duration_p95", "http_reqs_rate"),
    *("http_req_failed", "iteration_duration_avg", "iteration_duration_p95"),
)
_K6_STATISTICS = ("avg", "min", "med", "max", "count")
_K6_DATA = ("data_sent", "data_received")
_K6_RATES = ("iterations", "http_reqs")
_K6_SHARES = {"checks": "higher", "http_req_failed": "lower"}
_K6_HINT = "write it again: k6 run --summary-export=FILE SCRIPT, or --out json=FILE"
_K6_POINT = re.compile(rb'\A\s*\{[^\n]*"type":\s*"(Metric|Point)"')


def _is_k6(value: Any) -> bool:
    metrics = value.get("metrics") if isinstance(value, dict) else None
    return (
        isinstance(metrics, dict)
        and bool(metrics)
        and ("root_group" in value or "iterations" in metrics)
        and all(isinstance(one, dict) for one in metrics.values())
    )


def _k6(document: Node) -> list[ParsedInput]:
    run = _RunValues()
    for name, metric in sorted(document["metrics"].members(), key=_k6_place):
        figures = metric["values"] if metric.has("values") else metric
        contains = metric["contains"].text()
        if not contains and _K6_TIMES.fullmatch(name):
            contains = "time"
        elif not contains and name in _K6_DATA:
            contains = "data"
        _k6_metric(
            run,
            name,
            contains,
            {k: v.number() for k, v in figures.members() if _is_figure(v)},
        )
    return [_k6_test(document.problems.path, run, None)]


def _k6_place(pair: tuple[str, Any]) -> tuple[int, str]:
    """Return a sort key: the main metrics first, then the others by name."""
    name = pair[0]
    return (_K6_FIRST.index(name) if name in _K6_FIRST else len(_K6_FIRST)), name


def _is_figure(node: Node) -> bool:
    return isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _k6_test(path: Path, run: _RunValues, started_ns: int | None) -> ParsedInput:
    main = [name for name in _K6_MAIN if name in run.values]
    return ParsedInput(
        name=path.name,
        blocks=(MeasurementBlock(0, 1, "", 0, run.values),) if run.values else (),
        specs=tuple(run.specs),
        origin=FileOrigin(tool="k6", started_ns=started_ns, main=tuple(main)),
    )


def _k6_metric(
    run: _RunValues, name: str, contains: str, figures: Mapping[str, float | None]
) -> None:
    """Add the figures of one metric under k6's names: `http_req_duration_p95`, `http_reqs_rate`."""
    unit, factor = {"time": ("s", 1e-3), "data": ("B", 1.0)}.get(contains, ("", 1.0))
    share = figures.get("rate") if "passes" in figures else None
    if "passes" in figures:
        share = share if share is not None else figures.get("value")
        run.add(name, share, better=_K6_SHARES.get(name, ""))
    elif "avg" in figures or "med" in figures:
        for key in sorted(figures, key=_k6_trend_place):
            value = figures[key]
            if value is None:
                continue
            plain = key == "count"
            run.add(
                f"{name}_{re.sub(r'[()]', '', key)}",
                value if plain else value * factor,
                "" if plain else unit,
                "lower" if contains == "time" and not plain else "",
            )
    elif "count" in figures:
        run.add(f"{name}_count", figures["count"], unit)
        better = "higher" if name in _K6_RATES else ""
        run.add(f"{name}_rate", figures.get("rate"), f"{unit or 1}/s", better)
    else:
        run.add(name, figures.get("value"), unit)


def _k6_trend_place(key: str) -> tuple[int, float, str]:
    """Return a sort key: the average, the extremes, then percentiles in order."""
    if key in _K6_STATISTICS:
        return _K6_STATISTICS.index(key), 0.0, key
    return len(_K6_STATISTICS), _share(re.sub(r"[p()]", "", key)) or 0.0, key


K6_SUMMARY = JsonFormat(
    name="k6",
    description="k6's summary",
    matches=_is_k6,
    convert=_k6,
    marks=(b'"root_group"',),
    hint=_K6_HINT,
)


class _K6PointsParser:
    name = "k6-points"
    description = "k6's lines of JSON (--out json)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the first line is a metric or a point of k6."""
        return path.is_file() and _K6_POINT.match(head) is not None

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the run as one test with one trial, whose values are those of k6's summary. Raises
        InputError with all mistakes."""
        problems = Problems(path, self.name, _K6_HINT)
        kinds: dict[str, tuple[str, str]] = {}
        points: dict[str, list[float]] = {}
        started: int | None = None
        with path.open(encoding="utf-8", errors="backslashreplace") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    node = Node(parse_json(line), problems, f"line {number}")
                except DamagedJson as error:
                    problems.add(f"line {number}", f"is damaged: {error}")
                    continue
                name, data = node["metric"].text(), node["data"]
                if node["type"].text() == "Metric":
                    kinds[name] = (data["type"].text(), data["contains"].text())
                    continue
                value = data["value"].number()
                if name and value is not None:
                    points.setdefault(name, []).append(value)
                if started is None:
                    started = moment_ns(data["time"].text())
        problems.check()
        run = _RunValues()
        for name, values in points.items():
            kind, contains = kinds.get(name, ("", ""))
            _k6_metric(run, name, contains, _k6_figures(kind, values))
        if not run.values:
            message = f"{path} contains no point"
            raise input_error(path, self.name, message, _K6_HINT)
        return [_k6_test(path, run, started)]


def _k6_figures(kind: str, values: list[float]) -> Mapping[str, float]:
    """Return the figures of k6's summary for the points of a metric, without rates over time."""
    if kind == "trend":
        ordered = sorted(values)
        shares = {"min": 0.0, "med": 0.5, "max": 1.0, "p(90)": 0.9, "p(95)": 0.95}
        mean = math.fsum(value / len(values) for value in values)
        return {"avg": mean} | {
            key: _percentile(ordered, share) for key, share in shares.items()
        }
    if kind == "rate":
        passed = float(sum(1 for value in values if value))
        return {"rate": passed / len(values), "passes": passed}
    if kind == "counter":
        return {"count": sum(values)}
    return {"value": values[-1]}


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the percentile of sorted values as k6 computes it: linear between two values."""
    place = share * (len(ordered) - 1)
    low = int(place)
    part = place - low
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - part) + ordered[high] * part


K6_POINTS = _K6PointsParser()
