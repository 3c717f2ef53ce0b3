"""Exports in the formats of other benchmark tools, which their own readers and scripts read.

Sources: hyperfine 1.20, src/benchmark/benchmark_result.rs; pyperf 2.10, the JSON that it writes;
Go proposal 14313 and golang.org/x/perf/benchfmt; JMH 1.37, JSONResultFormat.java; Google Benchmark
1.7, src/json_reporter.cc and tools/gbench/report.py.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchwright.core.untrusted import one_line
from benchwright.features.exchange.export.view import (
    Exported,
    ExportMetric,
    ExportTest,
    ExportTrial,
    ExportView,
    distinct,
    figures_of,
    json_text,
    measured_tests,
    moment,
    refusal,
    units_left_out,
    without_unit,
)

# -- hyperfine -------------------------------------------------------------------------


def hyperfine(view: ExportView) -> Exported:
    """Return the document of `hyperfine --export-json`: times in seconds, memory in bytes."""
    tests = _timed_tests(view, "hyperfine")
    results = [_hyperfine_result(test) for test in tests]
    has = {test.name: _HYPERFINE & _measured(test) for test in tests}
    why = "the file has times and peak memory of runs alone"
    return Exported(json_text({"results": results}), has, why=why)


_HYPERFINE = {"elapsed", "user", "system", "rss_bytes"}


def _hyperfine_result(test: ExportTest) -> dict[str, Any]:
    trials = _timed(test)
    times = _values(trials, "elapsed")
    result: dict[str, Any] = {
        "command": test.name,
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
    }
    for name in ("user", "system"):
        if found := _values(trials, name):
            result[name] = statistics.fmean(found)
    result |= {"min": min(times), "max": max(times), "times": times}
    if memory := _values(trials, "rss_bytes"):
        result["memory_usage_byte"] = [round(one) for one in memory]
    result["exit_codes"] = [trial.status for trial in trials]
    if test.keys:
        result["parameters"] = dict(test.keys)
    return result


def _timed_tests(view: ExportView, form: str) -> list[ExportTest]:
    """Return the tests with a trial that counts. Raises InputError if there is none."""
    tests = [test for test in view.tests if _timed(test)]
    if not tests and not any(test.trials for test in view.tests):
        message = f"it describes times of runs, which this bw {view.kind} does not have"
        hint = "formats for any metric: benchfmt, bencher, openmetrics, perfherder"
        raise refusal(form, message, hint)
    if not tests:
        measured_tests(view, form)
    return tests


def _timed(test: ExportTest) -> list[ExportTrial]:
    """Return the trials that count and have an elapsed time."""
    return [trial for trial in test.trials if trial.counts and "elapsed" in trial.values]


def _values(trials: Sequence[ExportTrial], name: str) -> list[float]:
    return [trial.values[name] for trial in trials if name in trial.values]


def _measured(test: ExportTest) -> set[str]:
    """Return what the trials that count have."""
    return {name for trial in _timed(test) for name in trial.values}


# -- pyperf ----------------------------------------------------------------------------

_PYPERF_UNITS = {"s": "second", "B": "byte"}
_PYPERF_FACTS = {
    "cpu.model": "cpu_model_name",
    "cpu.threads": "cpu_count",
    "host.name": "hostname",
    "kernel.release": "kernel",
}
"""Facts of the machine and their names in pyperf's metadata."""


def pyperf(view: ExportView) -> Exported:
    """Return a benchmark suite of pyperf: a benchmark for each test, a run for each trial.

    Raises InputError where pyperf would call the better value the slower one, and for values that
    pyperf does not read.
    """
    tests = measured_tests(view, "pyperf")
    benchmarks = [_pyperf_benchmark(test, test.metrics[0]) for test in tests]
    common: dict[str, Any] = {"benchwright_version": view.version}
    for fact, name in _PYPERF_FACTS.items():
        if text := one_line(view.facts.get(fact, "")):
            common[name] = int(text) if text.isdecimal() else text
    return Exported(
        json_text({"version": "1.0", "metadata": common, "benchmarks": benchmarks}),
        {test.name: (test.metrics[0].name, "rss_bytes") for test in tests},
        why="the file has the main metric and peak memory alone; another one: --metric NAME",
    )


def _pyperf_benchmark(test: ExportTest, metric: ExportMetric) -> dict[str, Any]:
    if metric.better == "higher":
        message = f"it calls the smaller value the faster one, but {metric.name} is better higher"
        hint = "name another metric: --metric elapsed; or another format: benchfmt"
        raise refusal("pyperf", message, hint)
    if not metric.values:
        message = f"its values are of single runs, and {metric.name} has none"
        raise refusal("pyperf", message, "formats for a result: benchfmt, bencher")
    base = metric.base
    runs: list[dict[str, Any]] = []
    warmups = [
        [1, base.of(trial.values[metric.name])]
        for trial in test.trials
        if trial.ok and trial.warmup and metric.name in trial.values
    ]
    for trial in test.trials:
        value = trial.values.get(metric.name)
        if not trial.counts or value is None:
            continue
        if value <= 0:
            message = f"its values are above 0, and {metric.name} of {test.name} is {value:g}"
            raise refusal("pyperf", message, "name another metric: --metric NAME")
        metadata: dict[str, Any] = {
            "date": f"{moment(trial.started_ns):%Y-%m-%d %H:%M:%S.%f}",
            "duration": trial.duration_ns / 1e9,
        }
        if memory := trial.values.get("rss_bytes"):
            metadata["command_max_rss"] = round(memory)
        run = {"metadata": metadata, "values": [base.of(value)]}
        runs.append({**run, "warmups": warmups} if warmups and not runs else run)
    named = {
        "name": one_line(test.name),
        "unit": _PYPERF_UNITS.get(base.name, "integer"),
        "loops": 1,
    }
    if base.name not in _PYPERF_UNITS and metric.unit:
        named["bw_unit"] = base.name
    if metric.name != "elapsed":
        named["bw_metric"] = one_line(metric.name)
    if test.command:
        named["command"] = one_line(test.command)
    return {"metadata": named, "runs": runs}


# -- Go's benchfmt ---------------------------------------------------------------------

_GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386"}
_GO_UNITS = {"elapsed": "sec/op", "rss_bytes": "peak-RSS-bytes"}
_GO_OF_BASE = {"s": "sec", "B": "bytes", "share": "ratio"}
_NOT_IN_GO_NAME = re.compile(r"[\s/\\]+")


def benchfmt(view: ExportView) -> Exported:
    """Return a line for each trial in Go's benchmark format.

    Decision: only `goos`, `goarch` and `cpu` are configuration lines. benchstat puts files whose
    configuration differs into separate tables, so a session's number would prevent the comparison
    of two sessions; it is in a comment.
    """
    tests = measured_tests(view, "benchfmt")
    lines = [
        f"# bw {view.kind} {one_line(view.study)}@{view.session}, {view.status}",
        "goos: linux",
    ]
    if machine := one_line(view.facts.get("cpu.architecture", "")):
        lines.append(f"goarch: {_GO_ARCHITECTURES.get(machine, machine)}")
    if model := one_line(view.facts.get("cpu.model", "")):
        lines.append(f"cpu: {model}")
    metrics = {metric.name: metric for test in tests for metric in test.metrics}
    units = dict(zip(metrics, distinct(map(_go_unit, metrics.values())), strict=True))
    lines += [f"Unit {units[name]} better={metric.better}" for name, metric in metrics.items()]
    for test, name in zip(tests, distinct(map(_go_name, tests)), strict=True):
        lines += _go_lines(test, f"{name}-{test.threads}", units)
    return Exported("\n".join(lines) + "\n", figures_of(tests))


def _go_lines(test: ExportTest, name: str, units: Mapping[str, str]) -> Iterator[str]:
    rows = [trial.values for trial in test.trials if trial.counts]
    for row in rows or [{metric.name: metric.estimate.value for metric in test.metrics}]:
        values = [
            f"{metric.base.of(row[metric.name])!r} {units[metric.name]}"
            for metric in test.metrics
            if metric.name in row
        ]
        if values:
            yield f"{name} 1 {' '.join(values)}"


def _go_name(test: ExportTest) -> str:
    """Return the name with the keys. After `Benchmark` no lower-case letter may follow, and a
    name has no space; `-N` at its end is the number of threads."""
    base = _NOT_IN_GO_NAME.sub("_", one_line(test.base)).strip("_") or "Test"
    keys = "".join(
        f"/{_NOT_IN_GO_NAME.sub('_', one_line(key))}={_NOT_IN_GO_NAME.sub('_', one_line(level))}"
        for key, level in test.keys
    )
    return f"Benchmark{base[0].upper()}{base[1:]}{keys}"


def _go_unit(metric: ExportMetric) -> str:
    if metric.name in _GO_UNITS:
        return _GO_UNITS[metric.name]
    name = _NOT_IN_GO_NAME.sub("-", one_line(without_unit(metric.name)))
    base = metric.base.name
    unit = _GO_OF_BASE.get(base, _NOT_IN_GO_NAME.sub("-", one_line(base)).strip("-"))
    if base.endswith("/s"):
        what = base.removesuffix("/s").replace("B", "bytes")
        return f"{name}{f'-{what}' * bool(what)}/s"
    return f"{name}-{unit}" if unit else name


# -- JMH -------------------------------------------------------------------------------

_NOT_IN_JAVA_NAME = re.compile(r"\W+")


def jmh(view: ExportView) -> Exported:
    """Return the document of `jmh -rf json`: a fork for each trial.

    The main metric is the primary one; the others are its secondary metrics.
    """
    tests = measured_tests(view, "jmh")
    names = [f"bw.{_NOT_IN_JAVA_NAME.sub('_', test.base).strip('_') or 'test'}" for test in tests]
    known = {(name, test.keys) for name, test in zip(names, tests, strict=True)}
    if len(known) < len(tests):
        names = distinct(names)
    entries = [_jmh_entry(test, name) for test, name in zip(tests, names, strict=True)]
    return Exported(json_text(entries), figures_of(tests))


def _jmh_entry(test: ExportTest, name: str) -> dict[str, Any]:
    main, *others = test.metrics
    warmups = sum(trial.ok and trial.warmup for trial in test.trials)
    entry: dict[str, Any] = {
        "jmhVersion": "1.37",  # of the format; readers require it
        "benchmark": name,
        "mode": "thrpt" if main.better == "higher" else "avgt",
        "threads": test.threads,
        "forks": len(main.base_replicates),
        "jvm": "",
        "jvmArgs": [],
        "jdkVersion": "",
        "vmName": "",
        "vmVersion": "",
        "warmupIterations": warmups,
        "warmupTime": "single-shot",
        "warmupBatchSize": 1,
        "measurementIterations": 1,
        "measurementTime": "single-shot",
        "measurementBatchSize": 1,
    }
    if test.keys:
        entry["params"] = dict(test.keys)
    if main.name != "elapsed":
        # JMH has no name of the primary metric.
        entry["bwMetric"] = main.name
    entry["primaryMetric"] = _jmh_metric(main)
    entry["secondaryMetrics"] = {other.name: _jmh_metric(other) for other in others}
    return entry


def _jmh_metric(metric: ExportMetric) -> dict[str, Any]:
    values, base = metric.base_replicates, metric.base.name
    ordered = sorted(values)
    shares = (0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 100.0)
    low, high = metric.base_interval or (math.nan, math.nan)
    return {
        "score": metric.base_value,
        "scoreError": _jmh_number((high - low) / 2),
        "scoreConfidence": [_jmh_number(low), _jmh_number(high)],
        "scorePercentiles": {str(share): _percentile(ordered, share) for share in shares},
        "scoreUnit": _JMH_UNITS.get(base, base) or metric.name,
        "rawData": [[value] for value in values],
    }


_JMH_UNITS = {"s": "s/op", "/s": "ops/s", "share": "ratio"}


def _jmh_number(value: float) -> float | str:
    """Return a number as JMH writes it: an absent one is the text `NaN`."""
    return value if math.isfinite(value) else "NaN"


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile as Apache Commons Math estimates it, which JMH uses: position
    `share` (n + 1), by linear interpolation."""
    place = share / 100 * (len(ordered) + 1)
    if place < 1:
        return ordered[0]
    if place >= len(ordered):
        return ordered[-1]
    below = math.floor(place)
    low, high = ordered[below - 1], ordered[below]
    return low + (place - below) * (high - low)


# -- Google Benchmark ------------------------------------------------------------------


def google_benchmark(view: ExportView) -> Exported:
    """Return the document of `--benchmark_format=json`: an entry for each trial that counts, then
    the aggregates; real and CPU time in nanoseconds, other metrics as counters.

    Failed trials are left out: compare.py takes the times of an entry with an error for results.
    """
    tests = _timed_tests(view, "google-benchmark")
    context: dict[str, Any] = {
        "date": moment(view.started_ns).isoformat(timespec="seconds"),
        "executable": "bw",
        "caches": [],
        "load_avg": [],
        "library_build_type": "release",
    }
    if host := view.facts.get("host.name"):
        context["host_name"] = host
    if (count := view.facts.get("cpu.threads", "")).isdecimal():
        context["num_cpus"] = int(count)
    entries = [
        entry for family, test in enumerate(tests) for entry in _google_entries(test, family)
    ]
    document = {"context": context, "benchmarks": entries}
    shown = {name: metric for test in tests for name, metric in _google_counters(test).items()}
    has = {
        test.name: {
            "elapsed",
            *(google_counter.name for google_counter in _google_counters(test).values()),
        }
        & _measured(test)
        for test in tests
    }
    return Exported(
        json_text(document),
        has,
        left_out=units_left_out(shown),
        why="the file has the elapsed time, the CPU time (user and system together) and counters",
    )


_GOOGLE_TIMES = ("elapsed", "user", "system")
_GOOGLE_MEMBERS = (
    *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
    *("repetitions", "repetition_index", "threads", "iterations", "time_unit"),
    *("aggregate_name", "aggregate_unit", "label", "error_occurred", "skipped"),
    *("error_message", "skip_message", "real_time", "cpu_time"),
)
"""Members of an entry that are no counter."""


def _google_counters(test: ExportTest) -> dict[str, ExportMetric]:
    """Return the metrics that are counters by their names in the file, which no other member has."""
    metrics = [metric for metric in test.metrics if metric.name not in _GOOGLE_TIMES]
    names = distinct((*_GOOGLE_MEMBERS, *(export_metric.base_name for export_metric in metrics)))
    return dict(zip(names[len(_GOOGLE_MEMBERS) :], metrics, strict=True))


def _google_entries(test: ExportTest, family: int) -> Iterator[dict[str, Any]]:
    name = "/".join([one_line(test.base), *(f"{k}:{v}" for k, v in test.keys)])
    trials = _timed(test)
    counters = _google_counters(test)
    rows = [_google_times(trial) for trial in trials]
    head = {
        "name": name,
        "family_index": family,
        "per_family_instance_index": 0,
        "run_name": name,
        "repetitions": len(trials),
        "threads": test.threads,
        "time_unit": "ns",
    }
    for index, (trial, times) in enumerate(zip(trials, rows, strict=True)):
        yield {
            **head,
            "run_type": "iteration",
            "repetition_index": index,
            "iterations": 1,
            **times,
            **{
                key: metric.base.of(trial.values[metric.name])
                for key, metric in counters.items()
                if metric.name in trial.values
            },
        }
    for what, of in _AGGREGATES.items():
        if len(rows) < 2:
            break
        yield {
            **head,
            "name": f"{name}_{what}",
            "run_type": "aggregate",
            "aggregate_name": what,
            "aggregate_unit": "time",
            "iterations": len(rows),
            **{key: of([row[key] for row in rows]) for key in rows[0]},
        }


_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "stddev": statistics.stdev,
}


def _google_times(trial: ExportTrial) -> dict[str, float]:
    cpu = trial.values.get("user", 0.0) + trial.values.get("system", 0.0)
    times = {"real_time": trial.values["elapsed"], "cpu_time": cpu}
    return {name: float(round(seconds * 1e9)) for name, seconds in times.items()}
