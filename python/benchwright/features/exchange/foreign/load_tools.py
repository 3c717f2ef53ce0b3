"""Results of load generators: fio and k6.

One run is one trial: its mean and percentiles are values of that trial, and no interval follows
from them. Several runs make an interval: name the files one after the other, or as a pattern.
Sources: fio 2.2 and 3.33, `--output-format=json` and `json+`; k6 0.36, 0.50 and 1.8,
`--summary-export`, `handleSummary`, `--new-machine-readable-summary`, `--out json`.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec
from benchwright.features.exchange.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    is_object,
    json_lines,
    load_json,
    parse_documents,
)
from benchwright.features.exchange.foreign.python_tools import epoch_ns, moment_ns
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import read_mixed_text
from benchwright.study.parsers.units import scaled, spec_of


class RunValues:
    """The values of one run with their declarations, in order."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.values: dict[str, float] = {}
        self.specs: list[MetricSpec] = []

    def add(self, name: str, value: float | None, unit: str = "", better: str = "") -> None:
        """Add a value, if there is one and it is finite. One without unit and direction is not
        declared. A second value of one name gets a number: `a_avg#2`. A time, rate or size below 0
        is named instead."""
        if value is None or not math.isfinite(value):
            return
        if value < 0 and unit:
            self._problems.not_read("", f"{name} is {value:g} {unit}, below 0")
            return
        plain, number = name, 1
        while name in self.values:
            number += 1
            name = f"{plain}#{number}"
        self.values[name] = value
        if unit or better:
            self.specs.append(spec_of(name, unit, better))


# -- fio ---------------------------------------------------------------------------------
#
# What a job reports is in its members: `read`, `write`, `trim`, `sync`, and `mixed` with
# `unified_rw_reporting`. Latencies are in nanoseconds (`clat_ns`), in fio 2 in microseconds
# (`clat`).

FIO_MARK = b'"fio version"'
FIO_TEXT = re.compile(rb"^(<[^>\n]*> )?[^\n]*: \(g=[0-9]+\): rw=|^[0-9];fio-[0-9]", re.MULTILINE)
"""What fio writes before or instead of JSON: its text for people, and the terse format."""
_FIO_DIRECTIONS = ("read", "write", "trim", "sync", "mixed")
_FIO_FIGURES = ("total_ios", "iops", "io_bytes")
_FIO_LATENCY = re.compile(r"([cs]?lat)(|_ns|_us|_ms)")
_FIO_UNITS = {"": 1e-6, "_ns": 1e-9, "_us": 1e-6, "_ms": 1e-3}
_FIO_BIN_PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99")
"""Those of JSON+ whose job has bins and no list of percentiles."""
_FIO_MAIN_PERCENTILE = "99"
_FIO_LEVELS = ("rw", "bs", "iodepth", "numjobs", "ioengine", "direct", "rate_iops")


def _is_fio(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and _is_fio(one) for one in value)
    return is_object(value, "fio version") and (
        isinstance(value.get("jobs"), list) or isinstance(value.get("client_stats"), list)
    )


def _fio(document: Node) -> list[TestResult]:
    """Return one test for each job of each run, or for each group of jobs that fio reports
    together."""
    if isinstance(document.value, list):
        return [test for run in document.elements() for test in _fio(run)]
    version = document["fio version"].text().removeprefix("fio-")
    tool = f"fio {version}".rstrip()
    started_ns = epoch_ns(document["timestamp_ms"], 1e-3)
    if started_ns is None:
        started_ns = epoch_ns(document["timestamp"], 1.0)
    key = "jobs" if document.has("jobs") else "client_stats"
    jobs = list(document[key].elements())
    options = document["global options"]
    tests = []
    for test, job in zip(_fio_names(jobs), jobs, strict=True):
        run = RunValues(job.problems)
        main: list[str] = []
        for direction, figures in job.members():
            known = any(is_object(figures.value, fio_figure) for fio_figure in _FIO_FIGURES)
            if known or direction in _FIO_DIRECTIONS:
                main += _fio_direction(run, direction, figures)
        for name in ("usr_cpu", "sys_cpu"):
            run.add(name, job[name].number(), "%", "lower")
        own = job["job options"]
        levels = [
            (name, (own[name] if own.has(name) else options[name]).text())
            for name in _FIO_LEVELS
            if own.has(name) or options.has(name)
        ]
        if not run.values:
            job.not_read(f"{test} has no figure that is known")
            continue
        error = int(job["error"].number() or 0)
        tests.append(
            TestResult(
                name=test,
                blocks=(
                    MeasurementBlock(
                        thread=0,
                        epoch=1,
                        command="",
                        status=error,
                        values=run.values,
                        failure=f"error {error}, {os.strerror(error)}" if error else "",
                    ),
                ),
                specs=tuple(run.specs),
                sample=tuple(levels),
                origin=FileOrigin(tool=tool, started_ns=started_ns, main=tuple(main)),
            )
        )
    return tests


def _fio_names(jobs: Sequence[Node]) -> list[str]:
    """Return the names of jobs. Equal ones of several servers have their host, and its port if the
    host does not suffice: fio writes them in the order in which they end. A number tells apart the
    rest."""
    plain = [job["jobname"].text("job") for job in jobs]
    hosts = [job["hostname"].text() for job in jobs]
    servers = [f"{host}:{job['port'].text()}" for host, job in zip(hosts, jobs, strict=True)]
    names = plain
    for places in (hosts, servers):
        of_name: dict[str, set[str]] = {}
        for name, place in zip(plain, places, strict=True):
            of_name.setdefault(name, set()).add(place)
        longer = [
            f"{name}@{place}" if len(of_name[name]) > 1 else name
            for name, place in zip(plain, places, strict=True)
        ]
        if len(set(longer)) > len(set(names)):
            names = longer
    equal = Counter(plain)
    return [
        f"{name}#{at}" if name == one and equal[one] > 1 else name
        for at, (name, one) in enumerate(zip(names, plain, strict=True), start=1)
    ]


def _fio_direction(run: RunValues, direction: str, figures: Node) -> list[str]:
    """Add the figures of one direction, if it has any operation. Return the names of those that a
    comparison judges, as far as fio states them: the rate, and the mean and a high percentile of
    the latency."""
    if not any(figures[fio_figure].number() for fio_figure in _FIO_FIGURES):
        return []
    run.add(f"{direction}_iops", figures["iops"].number(), "1/s", "higher")
    size = figures["bw_bytes"].number()
    if size is None and (kib := figures["bw"].number()) is not None:
        size = kib * 1024
    run.add(f"{direction}_bw", size, "B/s", "higher")
    main: dict[str, list[str]] = {}
    for key, times in figures.members():
        match = _FIO_LATENCY.fullmatch(key)
        if match is None:
            if isinstance(times.value, dict | list) and times.value:
                times.not_read("figures of a kind that is not known")
            continue
        mean = times["mean"].number()
        if not (times["N"].number() or mean or times["percentile"].value):
            continue
        kind, factor = match[1], _FIO_UNITS[match[2]]
        name = f"{direction}_{kind}"
        for figure in ("mean", "min", "max"):
            time = scaled(times[figure].number(), factor)
            run.add(f"{name}_{figure}", time, "s", "lower")
        shares = _fio_percentiles(times)
        for share, value in shares.items():
            run.add(f"{name}_p{share}", scaled(value, factor), "s", "lower")
        high = _FIO_MAIN_PERCENTILE
        high = high if high in shares else max(shares, key=float, default="")
        main[kind] = [f"{name}_mean", *[f"{name}_p{high}"] * bool(shares)]
    judged = [f"{direction}_iops", *(main.get("clat") or main.get("lat") or [])]
    return [name for name in judged if name in run.values]


def _fio_percentiles(times: Node) -> dict[str, float]:
    """Return the percentiles of latencies: as fio wrote them, else from the bins of JSON+, whose
    value is the upper end of a bin."""
    found: dict[str, float] = {}
    for key, node in times["percentile"].members():
        value = node.number()
        # fio 2 fills its list with `0.00`.
        if _share(key) and value is not None:
            found[key.rstrip("0").rstrip(".") if "." in key else key] = value
    bins = sorted(
        (end, count.count())
        for key, count in times["bins"].members()
        if (end := _share(key)) is not None
    )
    total = sum(count for _, count in bins)
    if found or not total:
        return found
    for share in _FIO_BIN_PERCENTILES:
        below = 0
        for end, count in bins:
            below += count
            if below >= math.ceil(float(share) / 100 * total):
                found[share] = end
                break
    return found


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", text) else None


def _fio_document(path: Path) -> Any:
    """Return fio's document, or those of several runs. Other output formats write text around them;
    with `--status-interval` the last one of a run is the whole run."""
    try:
        return load_json(path)
    except DamagedJson:
        text = read_mixed_text(path)
        if FIO_MARK.decode() not in text:
            raise
        found = [document for document in parse_documents(text) if _is_fio(document)]
        if not found:
            raise
    problems = Problems(path, FIO.name, FIO.hint)
    spans = [_fio_span(Node(one, problems)) for one in found]
    problems.check()
    runs: list[Any] = []
    for at, one in enumerate(found):
        if at and spans[at][0] < spans[at - 1][1]:
            runs.pop()
        runs.append(one)
    return runs[0] if len(runs) == 1 else runs


def _fio_span(document: Node) -> tuple[float, float]:
    """Return when the run of a document started, and when it was written [ms since 1970]; not a
    number if that is unknown."""
    end = document["timestamp_ms"].number()
    if end is None and (seconds := document["timestamp"].number()) is not None:
        end = seconds * 1000
    key = "jobs" if document.has("jobs") else "client_stats"
    times = [
        value
        for job in document[key].elements()
        for _, figures in job.members()
        if is_object(figures.value, "runtime", "iops")
        and (value := figures["runtime"].number()) is not None
    ]
    if end is None or not times:
        return math.nan, math.nan
    return end - max(times), end


FIO = JsonFormat(
    name="fio",
    description="fio's JSON",
    matches=_is_fio,
    convert=_fio,
    load=_fio_document,
    before=FIO_TEXT,
    mark=re.compile(re.escape(FIO_MARK)),
    hint="write it again: fio --output-format=json --output=FILE JOB",
)


# -- k6 ----------------------------------------------------------------------------------
#
# `--summary-export` has no units: times of k6's own metrics are milliseconds by their names. The
# values of a trend that k6 does not name have no unit there; with `--out json` and `handleSummary`
# they have.

_K6_TIMES = re.compile(
    r"(http_req_(duration|blocked|connecting|tls_handshaking|sending|waiting|receiving)"
    r"|iteration_duration|group_duration|grpc_req_duration|ws_(connecting|session_duration|ping)"
    r"|browser_web_vital_(fcp|fid|inp|lcp|ttfb)|browser_http_req_duration)(\{.*\})?"
)
_K6_FIRST = (
    *("http_req_duration", "http_reqs", "http_req_failed"),
    *("iteration_duration", "iterations", "checks"),
)
_K6_MAIN = ("http_reqs_rate", "http_req_failed")
_K6_MAIN_TRENDS = ("http_req_duration", "iteration_duration")
_K6_ABOUT = ("thresholds", "type", "contains")
_K6_KINDS = {"rate": {"passes", "fails"}, "counter": {"count", "rate"}, "gauge": {"value"}}
"""By the figures that a metric of the kind always has; one with others is a trend."""
_K6_STATISTICS = ("avg", "min", "med", "max", "count")
_K6_DATA = ("data_sent", "data_received")
_K6_RATES = ("iterations", "http_reqs")
_K6_SHARES = {"checks": "higher", "http_req_failed": "lower"}
_K6_HINT = "write it again: k6 run --summary-export=FILE SCRIPT, or --out json=FILE"
_K6_POINT = re.compile(rb'\A\s*\{[^\n]*"type":\s*"(Metric|Point)"')


def _is_k6(value: Any) -> bool:
    metrics = value.get("metrics") if isinstance(value, dict) else None
    return _is_new_k6(value) or (
        isinstance(metrics, dict)
        and bool(metrics)
        and ("root_group" in value or _is_counter(metrics.get("iterations")))
        and all(isinstance(metric, dict) for metric in metrics.values())
    )


def _is_counter(metric: Any) -> bool:
    """Return whether a metric is a counter of k6, in either form of a summary."""
    values = metric.get("values") if isinstance(metric, dict) else None
    return any(is_object(one, "count", "rate") for one in (metric, values))


def _is_new_k6(value: Any) -> bool:
    return (
        is_object(value, "metadata", "results")
        and is_object(value["metadata"], "k6_version")
        and is_object(value["results"], "metrics")
    )


def _k6(document: Node) -> list[TestResult]:
    if _is_new_k6(document.value):
        return _new_k6(document)
    run = RunValues(document.problems)
    for name, metric in sorted(document["metrics"].members(), key=_k6_place):
        figures = metric["values"] if metric.has("values") else metric
        contains = metric["contains"].text()
        if not contains and _K6_TIMES.fullmatch(name):
            contains = "time"
        elif not contains and name in _K6_DATA:
            contains = "data"
        found = _k6_numbers(figures)
        kind = metric["type"].text() or _k6_kind(found)
        if not _k6_metric(run, name, kind, contains, found):
            metric.not_read("no figure of a kind that is known")
    return [_k6_test(document.problems.path, run, None)]


def _new_k6(document: Node) -> list[TestResult]:
    """Return the run of a summary with `--new-machine-readable-summary`, which has the duration
    instead of rates."""
    run = RunValues(document.problems)
    results = document["results"]
    seconds = document["config"]["duration"].number()
    both = (results["metrics"], results["checks"]["metrics"])
    metrics = [(one["name"].text(), one) for node in both for one in node.elements()]
    for name, metric in sorted(metrics, key=_k6_place):
        found = _k6_numbers(metric["values"])
        count = found.get("count")
        if metric["type"].text() == "counter" and seconds and count is not None:
            found["rate"] = count / seconds
        name = "checks" if name == "checks_succeeded" else name
        kind, contains = metric["type"].text(), metric["contains"].text()
        if not _k6_metric(run, name, kind, contains, found):
            metric.not_read("no figure of a kind that is known")
    started_ns = moment_ns(document["metadata"]["generated_at"].text())
    return [_k6_test(document.problems.path, run, started_ns)]


def _k6_place(pair: tuple[str, Any]) -> tuple[int, str]:
    """Return a sort key: the main metrics first, then the others by name."""
    name = pair[0]
    return (_K6_FIRST.index(name) if name in _K6_FIRST else len(_K6_FIRST)), name


def _k6_kind(figures: Mapping[str, float | None]) -> str:
    """Return the kind of a metric by the names of its figures: a trend may have any statistics."""
    for kind, names in _K6_KINDS.items():
        if names <= set(figures):
            return kind
    return "trend"


def _k6_numbers(figures: Node) -> dict[str, float | None]:
    return {key: node.number() for key, node in figures.members() if key not in _K6_ABOUT}


def _k6_test(path: Path, run: RunValues, started_ns: int | None) -> TestResult:
    return TestResult(
        name=path.name,
        blocks=(MeasurementBlock(0, 1, "", 0, run.values),) if run.values else (),
        specs=tuple(run.specs),
        origin=FileOrigin(tool="k6", started_ns=started_ns, main=tuple(_k6_main(run.values))),
    )


def _k6_main(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that a comparison judges: rates, and of the main trends the average and a
    high percentile, or what the run has instead."""
    there = list(names)
    yield from (one for one in _K6_MAIN if one in there)
    for trend in _K6_MAIN_TRENDS:
        yield from [one for key in ("avg", "med") if (one := f"{trend}_{key}") in there][:1]
        shares = {
            one: share
            for one in there
            if (share := _share(one.removeprefix(f"{trend}_p"))) is not None
        }
        if shares:
            usual = f"{trend}_p95"
            yield usual if usual in shares else max(shares, key=shares.__getitem__)


def _k6_metric(
    run: RunValues, name: str, kind: str, contains: str, figures: Mapping[str, float | None]
) -> bool:
    """Add the figures of one metric under k6's names: `http_req_duration_p95`, `http_reqs_rate`.
    Return whether there was any."""
    before = len(run.values)
    unit, factor = {"time": ("s", 1e-3), "data": ("B", 1.0)}.get(contains, ("", 1.0))
    if kind == "rate":
        share = figures.get("rate", figures.get("value"))
        run.add(name, share, better=_K6_SHARES.get(name, ""))
    elif kind == "counter":
        run.add(f"{name}_count", figures.get("count"), unit)
        better = "higher" if name in _K6_RATES else ""
        run.add(f"{name}_rate", figures.get("rate"), f"{unit or 1}/s", better)
    elif kind == "gauge":
        run.add(name, figures.get("value"), unit)
    elif kind == "trend":
        for key in sorted(figures, key=_k6_trend_place):
            plain = key == "count"
            run.add(
                f"{name}_{re.sub(r'[()]', '', key)}",
                scaled(figures[key], 1.0 if plain else factor),
                "" if plain else unit,
                "lower" if contains == "time" and not plain else "",
            )
    return len(run.values) > before


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
    mark=re.compile(rb'"root_group"|"k6_version"'),
    hint=_K6_HINT,
)


class _K6PointsParser:
    name = "k6-points"
    description = "k6's lines of JSON (--out json)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the first line is a metric or a point of k6."""
        return path.is_file() and _K6_POINT.match(head) is not None

    def read(self, path: Path) -> list[TestResult]:
        """Return the run as one test with one trial, whose values are those of k6's summary. Raises
        InputError with all mistakes."""
        problems = Problems(path, self.name, _K6_HINT)
        kinds: dict[str, tuple[str, str]] = {}
        points: dict[str, list[float]] = {}
        started: int | None = None
        for node in json_lines(path, problems):
            name, data = node["metric"].text(), node["data"]
            if node["type"].text() == "Metric":
                kinds[name] = (data["type"].text(), data["contains"].text())
                continue
            value = data["value"].number()
            if name and value is not None:
                points.setdefault(name, []).append(value)
            if started is None:
                started = moment_ns(data["time"].text())
        run = RunValues(problems)
        for name, values in points.items():
            kind, contains = kinds.get(name, ("gauge", ""))
            _k6_metric(run, name, kind, contains, _k6_figures(kind, values))
        return problems.results([_k6_test(path, run, started)] if run.values else [])


def _k6_figures(kind: str, values: list[float]) -> Mapping[str, float]:
    """Return the figures of k6's summary for the points of a metric, without rates over time."""
    if kind == "trend":
        ordered = sorted(values)
        shares = {"min": 0.0, "med": 0.5, "max": 1.0, "p(90)": 0.9, "p(95)": 0.95}
        mean = math.fsum(value / len(values) for value in values)
        return {"avg": mean} | {key: _percentile(ordered, share) for key, share in shares.items()}
    if kind == "rate":
        passed = float(sum(1 for value in values if value))
        return {"rate": passed / len(values)}
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
