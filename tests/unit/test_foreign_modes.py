"""Modes and versions of other tools: each figure is the tool's own, or is named, or is refused."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import InputError
from benchwright.features.exchange.foreign.python_tools import moment_ns
from benchwright.features.history.foreign_runs import imported_runs
from benchwright.features.history.store import HistoryFile
from benchwright.features.history.types import commit_text
from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_history, read_inputs
from benchwright.study.parsers.api import numbered


def read(path: Path, content: Any) -> list[TestResult]:
    """Write a file, JSON unless it is text or bytes, and return its tests."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_inputs([str(path)])


def values(one: TestResult) -> dict[str, float]:
    (block,) = one.blocks
    return dict(block.values)


def units(one: TestResult) -> dict[str, str]:
    return {spec.name: spec.unit for spec in one.specs}


# -- k6 ------------------------------------------------------------------------------------

TREND = {"avg": 2.5, "min": 1, "med": 2, "max": 9, "p(90)": 4, "p(95)": 6}
CHOICES = (
    *(["avg"], ["p(99)"], ["p(99)", "p(99.9)"], ["count"], ["min", "max"]),
    *(["med", "count", "p(99.99)"], ["count", "p(95)"]),
)


def k6_summary(trend: dict[str, float], *, handled: bool) -> dict[str, Any]:
    kinds: dict[str, tuple[str, str, dict[str, float]]] = {
        "http_req_duration": ("trend", "time", trend),
        "own_trend": ("trend", "default", trend),
        "http_reqs": ("counter", "default", {"count": 80, "rate": 40.5}),
        "http_req_failed": ("rate", "default", {"passes": 2, "fails": 78}),
        "vus": ("gauge", "default", {"value": 8, "min": 1, "max": 8}),
    }
    metrics: dict[str, Any] = {}
    for name, (kind, contains, figures) in kinds.items():
        share = {"rate" if handled else "value": 0.025} if kind == "rate" else {}
        figures = figures | share
        metrics[name] = figures | {"thresholds": {"p(99)<250": False}}
        if handled:
            metrics[name] = {"type": kind, "contains": contains, "values": figures}
    return {"metrics": metrics, "root_group": {"name": "", "groups": {}}}


@pytest.mark.parametrize("handled", [False, True], ids=["export", "handleSummary"])
@pytest.mark.parametrize("chosen", CHOICES, ids=",".join)
def test_a_trend_of_k6_has_the_statistics_that_were_chosen(
    chosen: list[str], tmp_path: Path, *, handled: bool
) -> None:
    known = TREND | {"p(99)": 181.25, "p(99.9)": 412.5, "p(99.99)": 500, "count": 3699}
    trend = {key: known[key] for key in chosen}
    (one,) = read(tmp_path / "k6", k6_summary(trend, handled=handled))
    found = values(one)
    for key, value in trend.items():
        name = key.replace("(", "").replace(")", "")
        milliseconds = 1 if key == "count" else 1e-3
        assert found[f"http_req_duration_{name}"] == pytest.approx(value * milliseconds)
        assert found[f"own_trend_{name}"] == value
    assert "http_req_duration_count" not in units(one)
    # Other kinds of metrics are what they were.
    assert (found["http_reqs_count"], found["http_reqs_rate"]) == (80, 40.5)
    assert (found["http_req_failed"], found["vus"]) == (0.025, 8)
    # A comparison judges the highest percentile there is.
    assert one.origin
    judged = [name for name in one.origin.main if name.startswith("http_req_duration")]
    assert judged or set(chosen) <= {"count", "min", "max"}


def test_the_new_summary_of_k6_is_read_with_rates(tmp_path: Path) -> None:
    metrics = [
        ("http_req_duration", "trend", "time", {"avg": 3.5, "p95": 20, "min": None}),
        ("http_reqs", "counter", "default", {"count": 30}),
        ("data_sent", "counter", "data", {"count": 900}),
        ("http_req_failed", "rate", "default", {"rate": 0.1, "matches": 3}),
    ]
    checks = [("checks_succeeded", "rate", "default", {"rate": 0.75, "total": 40})]
    keys = ("name", "type", "contains", "values")
    document = {
        "version": "1.0.0",
        "metadata": {"k6_version": "1.8.1", "generated_at": "2026-11-28T18:28:09Z"},
        "config": {"duration": 2.5},
        "results": {
            "metrics": [dict(zip(keys, one, strict=True)) for one in metrics],
            "checks": {"metrics": [dict(zip(keys, one, strict=True)) for one in checks]},
        },
    }
    (one,) = read(tmp_path / "k6", document)
    assert values(one) == {
        "http_req_duration_avg": 0.0035,
        "http_req_duration_p95": 0.02,
        "http_reqs_count": 30,
        "http_reqs_rate": 12,
        "http_req_failed": 0.1,
        "checks": 0.75,
        "data_sent_count": 900,
        "data_sent_rate": 360,
    }
    assert units(one)["data_sent_rate"] == "B/s"


def test_two_figures_of_one_name_stay_two(tmp_path: Path) -> None:
    document = k6_summary({"avg": 2}, handled=True)
    gauge = {"type": "gauge", "contains": "default", "values": {"value": 7}}
    document["metrics"]["own_trend_avg"] = gauge
    (one,) = read(tmp_path / "k6", document)
    assert values(one)["own_trend_avg"] == 2
    assert values(one)["own_trend_avg#2"] == 7


# -- fio -----------------------------------------------------------------------------------


def latency(mean: float, **percentiles: float) -> dict[str, Any]:
    found: dict[str, Any] = {"min": 1, "max": 9e6, "mean": mean, "stddev": 1, "N": 50}
    if percentiles:
        found["percentile"] = {
            key.removeprefix("p").replace("_", "."): value for key, value in percentiles.items()
        }
    return found


def fio(*jobs: dict[str, Any], version: str = "fio-3.33") -> dict[str, Any]:
    named = [{"jobname": "j", "error": 0, "job options": {"runtime": "3"}, **j} for j in jobs]
    return {"fio version": version, "timestamp": 1795890099, "jobs": named}


def direction(**figures: Any) -> dict[str, Any]:
    return {"total_ios": 50, "iops": 100.5, "bw_bytes": 411648, "bw": 402, **figures}


@pytest.mark.parametrize(
    ("suffix", "version", "factor"),
    [("", "fio-2.2.10", 1e-6), ("_us", "fio-3.0", 1e-6), ("_ns", "fio-3.33", 1e-9)],
)
def test_latencies_of_fio_have_the_unit_of_their_version(
    suffix: str, version: str, factor: float, tmp_path: Path
) -> None:
    times = {
        f"lat{suffix}": latency(1782.92),
        f"clat{suffix}": latency(1781.75, p99_000000=3152, p0_00=0),
        f"slat{suffix}": latency(1.5),
    }
    old = {"iops": 69, "bw": 275, "io_bytes": 7116, **times}  # without total_ios
    found = values(*read(tmp_path / "fio", fio({"read": old}, version=version)))
    for kind in ("lat", "clat", "slat"):
        assert found.pop(f"read_{kind}_min") == pytest.approx(factor)
        assert found.pop(f"read_{kind}_max") == pytest.approx(9e6 * factor)
    assert found == {
        "read_iops": 69,
        "read_bw": 275 * 1024,
        "read_lat_mean": pytest.approx(1782.92 * factor),
        "read_clat_mean": pytest.approx(1781.75 * factor),
        "read_clat_p99": pytest.approx(3152 * factor),
        "read_slat_mean": pytest.approx(1.5 * factor),
    }


def test_each_kind_of_operation_that_fio_reports_is_read(tmp_path: Path) -> None:
    times = {"clat_ns": latency(1000, p99_000000=2000), "lat_ns": latency(1100)}
    kinds = ("read", "write", "trim", "mixed")
    job = {kind: direction(**times) for kind in kinds}
    job["sync"] = {"total_ios": 7, "lat_ns": latency(3e6, p99_000000=4e6)}
    job["latency_ns"] = {"2": 0.01}
    (one,) = read(tmp_path / "fio", fio(job))
    found = values(one)
    for kind in kinds:
        assert found[f"{kind}_iops"] == 100.5
        assert found[f"{kind}_clat_p99"] == pytest.approx(2e-6)
    assert found["sync_lat_mean"] == pytest.approx(3e-3)
    assert found["sync_lat_p99"] == pytest.approx(4e-3)
    assert one.origin
    assert {"mixed_iops", "mixed_clat_mean", "mixed_clat_p99"} <= set(one.origin.main)


def test_no_figure_of_fio_is_wanted_that_its_kind_of_operation_does_not_have(
    tmp_path: Path,
) -> None:
    sync = {"total_ios": 7, "lat_ns": latency(3e6, p99_000000=4e6)}
    (one,) = read(tmp_path / "fio", fio({"write": direction(), "sync": sync}))
    assert one.origin
    assert one.origin.main == ("write_iops", "sync_lat_mean", "sync_lat_p99")
    assert set(one.origin.main) <= set(values(one))


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (("a", 1, "b", 1), {"j@a": 0, "j@b": 1}),
        (("a", 1, "a", 2), {"j@a:1": 0, "j@a:2": 1}),
        (("a", 1, "a", 1), {"j#1": 0, "j#2": 1}),
    ],
)
def test_the_servers_of_fio_tell_equal_jobs_apart_in_any_order(
    tmp_path: Path, places: tuple[Any, ...], names: dict[str, int]
) -> None:
    """fio writes its clients in the order in which they end."""
    clients = [
        {"jobname": "j", "hostname": host, "port": port, "read": direction(iops=number)}
        for number, host, port in zip((0.5, 1.5), places[::2], places[1::2], strict=True)
    ]
    whole = {"jobname": "All clients", "hostname": "b", "port": 1, "read": direction()}
    same_place = places[:2] == places[2:]
    for order in [clients] if same_place else [clients, clients[::-1]]:
        document = {"fio version": "fio-3.33", "client_stats": [*order, whole]}
        found = {one.name: values(one)["read_iops"] for one in read(tmp_path / "fio", document)}
        assert found == {**{name: at + 0.5 for name, at in names.items()}, "All clients": 100.5}


def test_several_equal_jobs_of_each_server_of_fio_have_numbers_of_their_server(
    tmp_path: Path,
) -> None:
    jobs = [{"jobname": "j", "hostname": host, "port": 1, "read": direction()} for host in "abba"]
    document = {"fio version": "fio-3.33", "client_stats": jobs}
    found = [one.name for one in numbered(read(tmp_path / "fio", document))]
    assert found == ["j@a", "j@b", "j@b#2", "j@a#2"]


def test_the_percentiles_of_fio_are_those_of_its_list(tmp_path: Path) -> None:
    chosen = {"75.000000": 20, "99.950000": 5200, "99.999900": 5300, "99.999990": 5400}
    names = ["p75", "p99.95", "p99.9999", "p99.99999"]
    for kind in ("clat", "lat"):
        times = latency(1000) | {"percentile": chosen}
        (one,) = read(tmp_path / "fio", fio({"read": direction(**{f"{kind}_ns": times})}))
        found = values(one)
        assert [name.rpartition("_")[2] for name in found if f"_{kind}_p" in name] == names
        assert found[f"read_{kind}_p99.99999"] == pytest.approx(5.4e-6)
        assert one.origin
        assert one.origin.main == ("read_iops", f"read_{kind}_mean", f"read_{kind}_p99.99999")


def fio_runs(*spans: tuple[float, float]) -> list[str]:
    """Return documents of fio by start and end of their runs [s]; its rate is the document's
    number."""
    texts = []
    for at, (start, end) in enumerate(spans, 1):
        part = fio({"read": direction(iops=10 * at, runtime=1000 * (end - start))})
        part["timestamp_ms"] = 1_795_890_099_000 + 1000 * end
        texts.append(json.dumps(part, indent=2))
    return texts


def test_the_last_document_of_a_run_of_fio_is_the_run(tmp_path: Path) -> None:
    texts = fio_runs((0.01, 1), (0, 2.002), (0.02, 2.03))  # --status-interval=1
    path = tmp_path / "fio"
    head = "j: (g=0): rw=randread, bs=(R) 4096B-4096B\nfio-3.33\n"
    tail = "\nj: (groupid=0, jobs=1): err= 0: pid=1:\n  read: IOPS=30\n"
    for text in (
        "\n".join(texts),
        head + "\n".join(texts) + tail,
        head * 200 + texts[-1] + tail,  # its JSON is behind the first bytes
        "3;fio-3.33;j;0;0;1984\n" + texts[-1],
    ):
        assert values(*read(path, text))["read_iops"] == 30
    # A document that is cut off is not replaced by the one before it.
    with pytest.raises(InputError) as refused:
        read(path, "\n".join(texts)[:-30])
    assert refused.value.diagnostics[0].code == "fio-syntax"


def test_runs_of_fio_in_one_file_are_as_many_tests(tmp_path: Path) -> None:
    spans = ((0, 1), (0, 2), (2.4, 2.5), (3, 3.1), (3, 4))
    found = read(tmp_path / "fio", "\n".join(fio_runs(*spans)))
    assert [(one.name, values(one)["read_iops"]) for one in found] == [
        ("j", 20),
        ("j#2", 30),
        ("j#3", 50),
    ]
    # Without times nothing says that they are one run.
    unknown = json.dumps(fio({"read": direction()}))
    assert len(read(tmp_path / "fio", f"{unknown}\n{unknown}\n")) == 2


def test_packed_files_are_read_as_the_plain_ones(tmp_path: Path) -> None:
    text = json.dumps(fio({"read": direction()})).encode()
    assert values(*read(tmp_path / "a", gzip.compress(text))) == values(*read(tmp_path / "b", text))


def test_figures_that_are_not_understood_are_named(tmp_path: Path) -> None:
    document = k6_summary({"avg": 2}, handled=False)
    document["metrics"]["odd"] = {"thresholds": {"p(99)<1": False}}
    (one,) = read(tmp_path / "k6", document)
    (found,) = one.session_findings
    assert found.code == "results-not-read"
    assert "metrics.odd" in found.evidence

    prios = [{"prio": 1, "lat_ns": latency(5)}]
    (one,) = read(tmp_path / "fio", fio({"read": direction(prios=prios)}))
    (found,) = one.session_findings
    assert "jobs[0].read.prios" in found.evidence


LOADS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "fio": (
        fio({"read": direction(clat_ns=latency(5, p99_000000=9))}),
        ["jobs", 0, "read", "clat_ns", "mean"],
    ),
    "fio-percentile": (
        fio({"read": direction(clat_ns=latency(5, p99_000000=9))}),
        ["jobs", 0, "read", "clat_ns", "percentile", "99.000000"],
    ),
    "k6": (k6_summary({"avg": 2.5}, handled=False), ["metrics", "http_req_duration", "avg"]),
    "k6-handled": (
        k6_summary({"avg": 2.5}, handled=True),
        ["metrics", "http_req_duration", "values", "avg"],
    ),
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("value", ["x", [1], {"a": 1}, -3])
def test_a_figure_of_a_wrong_kind_is_refused_or_named(
    load: str, value: Any, tmp_path: Path
) -> None:
    document, path = LOADS[load]
    changed = json.loads(json.dumps(document))
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    if value == -3:
        (one,) = read(tmp_path / load, changed)
        assert "below 0" in one.session_findings[0].evidence
        return
    with pytest.raises(InputError) as refused:
        read(tmp_path / load, changed)
    where = str(path[-2]) if load == "fio-percentile" else str(path[-1])
    assert where in refused.value.diagnostics[0].message


def test_operations_of_fio_that_are_no_objects_are_a_mistake(tmp_path: Path) -> None:
    for value in ("x", [direction()], 3):
        with pytest.raises(InputError) as refused:
            read(tmp_path / "fio", fio({"read": value}))
        assert "jobs[0].read" in refused.value.diagnostics[0].message


def test_a_metric_of_k6_of_an_unknown_kind_is_named(tmp_path: Path) -> None:
    document = k6_summary({"avg": 2.5}, handled=True)
    document["metrics"]["own_trend"]["type"] = "histogram"
    (one,) = read(tmp_path / "k6", document)
    assert "metrics.own_trend" in one.session_findings[0].evidence


# -- tables and texts that are not read ------------------------------------------------------

TABLES = {
    "k6-csv": (
        "metric_name,timestamp,metric_value,check,status\nhttp_reqs,1795890469,1,,200\n",
        "--out json",
    ),
    "k6-text": (
        "    HTTP\n    http_req_duration..............: p(99)=15.32ms count=20\n",
        "--summary-export",
    ),
    "fio-text": (
        "a: (g=0): rw=randrw, bs=(R) 4096B-4096B\nfio-3.33\nStarting 1 process\n",
        "--output-format=json",
    ),
    "fio-client-text": (
        "hostname=vm, be=0\n<vm> a: (g=0): rw=randrw, bs=(R) 4096B-4096B\n",
        "--output-format=json",
    ),
    "fio-terse": ("3;fio-3.33;a;0;0;1984;15872;3968\n", "--output-format=json"),
    "google-csv": (
        "name,iterations,real_time,cpu_time,time_unit,bytes_per_second\nBM_A/8,10,2,2,ns,\n",
        "--benchmark_out_format=json",
    ),
    "google-table": (
        "Benchmark        Time     CPU   Iterations\n---\nBM_A    2.1 ns  2.0 ns   300\n",
        "--benchmark_out",
    ),
    "hyperfine-table": (
        "| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|\n",
        "--export-json",
    ),
    "hyperfine-org": ("| Command  |  Mean [ms] |  Min [ms] |\n|--+--+--|\n", "--export-json"),
    "hyperfine-asciidoc": ('[cols="<,>,>"]\n|===\n| Command \n| Mean [ms] \n', "--export-json"),
    "fio-log": ("5, 5207416, 0, 4096, 0\n5, 33440, 0, 4096, 0\n", "--output-format"),
    "redis-benchmark": ('"PING_INLINE","92506.94"\n"PING_BULK","95147.48"\n', '"test","rps"'),
    "jmeter": ("timeStamp,elapsed,label,responseCode\n1795890469000,12,home,200\n", "s"),
    "apachebench-requests": (
        "starttime\tseconds\tctime\tdtime\tttime\twait\nSat Nov 28\t1795905075\t0\t1\t1\t1\n",
        "milliseconds",
    ),
    "oha": (
        "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,http_status\n"
        "0.1,0.1,0.2,0.3,0.4,3,200\n",
        "request-duration",
    ),
    "locust": (
        "Type,Name,Request Count,Failure Count\nGET,/item,100,0\n",
        "a row for each request",
    ),
    "locust-failures": (
        "Method,Name,Error,Occurrences\nGET,/a,\"HTTPError('500')\",12\n",
        "a row for each request",
    ),
    "locust-exceptions": (
        'Count,Message,Traceback,Nodes\n3,boom,"Traceback (most recent call last)",local\n',
        "a row for each request",
    ),
    "jmeter-summary": (
        "Label,# Samples,Average,Min,Max,Std. Dev.,Error %,Throughput\nA,9,12,3,50,4,0.00%,9.1\n"
        "TOTAL,9,12,3,50,4,0.00%,9.1\n",
        "jmeter -l",
    ),
    "ycsb": (
        "[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.9\n",
        "a row for each request",
    ),
    "perf-stat-table": (
        "# started on Mon Nov 30 11:54:00 2026\n\n\n"
        " Performance counter stats for 'sleep 0.02' (3 runs):\n\n              0.80 msec task-clock\n",
        "perf stat -x, --append",
    ),
    "locust-history": ("Timestamp,User Count,Type,Name,Requests/s\n1,2,GET,/,3\n", "a row for"),
    "llama-bench": (
        'build_commit,n_prompt,n_gen,avg_ns,stddev_ns,avg_ts,stddev_ts\n"8cf","512","0","7","1","72","1"\n',
        "-o json",
    ),
    "llama-bench-table": ("| model  |       size |     params | backend |\n", "-o json"),
    "benchmarkdotnet": (
        "Method,Job,Runtime,N,Mean,Error,StdDev\nMd5,DefaultJob,.NET 8.0,1000,1.8 us,0.1 us,0.1 us\n",
        "--exporters json",
    ),
    "benchmarkdotnet-semicolons": (
        "Method;Job;N;Mean;Error;StdErr;StdDev\nMd5;DefaultJob;1000;1,8 us;0,1 us;0,1 us;0,1 us\n",
        "--exporters json",
    ),
    "benchmarkdotnet-measurements": (
        "Target,Target_Method,Measurement_IterationStage,Measurement_Value\nP,Md5,Warmup,2500\n",
        "--exporters json",
    ),
    "apachebench": ("Percentage served,Time in ms\n0,1.5\n1,1.6\n", "percentiles"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_not_read_is_refused_with_what_to_do(name: str, tmp_path: Path) -> None:
    text, option = TABLES[name]
    with pytest.raises(InputError) as refused:
        read(tmp_path / f"{name}.csv", text)
    (one,) = refused.value.diagnostics
    assert (one.code, one.file) == ("format-syntax", str(tmp_path / f"{name}.csv"))
    assert option in one.hint


# -- programs whose JSON has the values of every run -----------------------------------------


def llama(n_prompt: int, n_gen: int, **more: Any) -> dict[str, Any]:
    return {
        "build_commit": "8cf427ff",
        "model_filename": "m.gguf",
        "n_threads": 8,
        "n_prompt": n_prompt,
        "n_gen": n_gen,
        "test_time": "2026-11-24T11:58:50Z",
        "avg_ns": 2e9,
        "samples_ns": [1_900_000_000, 2_100_000_000],
        "samples_ts": [110.5, 100.0],
        **more,
    }


@pytest.mark.parametrize("in_lines", [False, True])
def test_repetitions_of_llama_bench_are_trials(in_lines: bool, tmp_path: Path) -> None:
    results = [llama(512, 0), llama(0, 128), llama(512, 128, n_depth=64, n_threads=4)]
    lines = "".join(f"{json.dumps(one)}\n" for one in results)
    first, second, third = read(tmp_path / "llama.json", lines if in_lines else results)
    assert first.name == "pp512:n_threads=8"
    assert second.name == "tg128:n_threads=8"
    assert third.name == "pp512+tg128 @ d64:n_threads=4"
    assert third.sample == (("n_threads", "4"),)
    assert ("model_filename", "m.gguf") in first.settings
    assert [block.values for block in first.blocks] == [
        {"elapsed": pytest.approx(1.9), "throughput": 110.5},
        {"elapsed": pytest.approx(2.1), "throughput": 100.0},
    ]
    (one, _) = read(tmp_path / "same.json", [llama(512, 0), llama(0, 128)])
    assert one.name == "pp512"
    with pytest.raises(InputError) as refused:
        read(tmp_path / "odd.json", [llama(512, 0, samples_ts=[1.0])])
    assert "[0] has samples_ns and samples_ts of different" in refused.value.diagnostics[0].message


def test_iterations_of_benchmarkdotnet_are_trials(tmp_path: Path) -> None:
    def benchmark(n: int, job: str, values: list[float] | None) -> dict[str, Any]:
        return {
            "DisplayInfo": f"P.Md5: {job} [N={n}]",
            "FullName": f"A.P.Md5(N: {n})",
            "Parameters": f"N={n}&Kind=a",
            "Statistics": None if values is None else {"OriginalValues": values},
            "Memory": {"BytesAllocatedPerOperation": 80},
        }

    benchmarks = [
        benchmark(1000, "DefaultJob", [1820.0, 1827.0]),
        benchmark(10, "Core", [20.0]),
        benchmark(10, "Mono", [30.0]),
        benchmark(1, "DefaultJob", None),
    ]
    host = {"BenchmarkDotNetVersion": "0.13.12", "ProcessorName": "AMD"}
    document = {"Title": "P", "HostEnvironmentInfo": host, "Benchmarks": benchmarks}
    first, core, mono = read(tmp_path / "report.json", document)
    assert first.name == "A.P.Md5(N: 1000)"
    assert first.sample == (("N", "1000"), ("Kind", "a"))
    elapsed = [block.values["elapsed"] for block in first.blocks]
    assert elapsed == pytest.approx([1.82e-6, 1.827e-6])
    assert (first.summaries[0].name, first.summaries[0].mean) == ("allocated", 80)
    assert (core.name, mono.name) == ("P.Md5: Core [N=10]", "P.Md5: Mono [N=10]")
    assert "A.P.Md5(N: 1) has no value" in first.session_findings[0].evidence


def test_a_table_with_tabs_is_refused_because_of_them(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "data.tsv", "test\telapsed\na\t1.5\n")
    assert "separated by tabs" in refused.value.diagnostics[0].message


def test_what_is_not_there_has_no_advice_about_formats(tmp_path: Path) -> None:
    paths = [str(tmp_path / "nothing.csv")]
    for reading in (lambda: read_inputs(paths, "it must be"), lambda: read_history(paths)):
        with pytest.raises(InputError) as refused:
            reading()
        (one,) = refused.value.diagnostics
        assert "No such file" in one.message
        assert one.hint == ""


@pytest.mark.parametrize(
    "first", ["sort,1.23", "1.23,sort", "sort,1,0.5", "sort,12", "sort,12,3,40"]
)
def test_a_first_line_of_data_is_no_header(first: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "data.csv", f"{first}\n{first.replace('1', '2')}\n")
    assert "the first line is data" in refused.value.diagnostics[0].message
    # Names that begin with a digit, or are whole numbers, are names.
    for header in ("name,2.5GB", "name,99", "name,p99.9"):
        (one,) = read(tmp_path / "named.csv", f"{header}\na,1.5\n")
        assert list(values(one).values()) == [1.5]


def test_results_of_redis_benchmark_have_units(tmp_path: Path) -> None:
    text = '"test","rps","avg_latency_ms"\n"SET","92506.94","0.28"\n'
    (one,) = read(tmp_path / "redis.csv", text)
    assert one.name == "SET"
    expected = {"throughput": 92506.94, "avg_latency": 0.28e-3}
    assert values(one) == pytest.approx(expected)
    assert units(one) == {"throughput": "1/s", "avg_latency": "s"}
    assert one.specs[0].better == "higher"
    # Runs that were joined in one file are trials, without their header lines.
    (one,) = read(tmp_path / "redis.csv", text * 3)
    assert len(one.blocks) == 3


# -- tests with one name ---------------------------------------------------------------------


def test_results_with_one_name_stay_two_in_every_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = []
    for factor in (1, 2):
        results = [
            {"command": "true", "mean": 1, "times": [base * factor + n for n in range(5)]}
            for base in (100, 300)
        ]
        files.append(str(tmp_path / f"{factor}.json"))
        Path(files[-1]).write_text(json.dumps({"results": results}))
    names = [one.name for one in read_inputs(files[:1])]
    assert names == ["true", "true#2"]
    # The names are those of arguments, of comparisons and of series.
    (second,) = read_inputs([f"{files[0]}:true#2"])
    assert second.blocks[0].values["elapsed"] == 300
    main(["compare", *files, "--json"])
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [one["test"] for one in verdicts] == names
    runs = imported_runs(read_history(files))
    assert [[key.test for key, _ in run.points] for run in runs] == [names, names]


# -- hyperfine and CSV -----------------------------------------------------------------------

OLD = "command,mean,stddev,user,system,min,max"
NEW = "command,mean,stddev,median,user,system,min,max"


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (OLD, "0.01,0.1,0.002,0.2,0.3"),
        (NEW, "0.01,0.21,0.1,0.002,0.2,0.3"),
        (NEW + ",exit_codes", "0.01,0.21,0.1,0.002,0.2,0.3,0"),
    ],
)
def test_a_row_of_hyperfine_is_a_test(header: str, cells: str, tmp_path: Path) -> None:
    rows = [f"sleep 0.2,0.2046,{cells}", f"sleep 0.4,0.4046,{cells}"]
    found = read(tmp_path / "hf.csv", "\n".join([header, *rows, rows[0], ""]))
    assert [one.name for one in found] == ["sleep 0.2", "sleep 0.4", "sleep 0.2#2"]
    assert [values(one)["elapsed"] for one in found] == [0.2046, 0.4046, 0.2046]


def test_rows_of_one_name_are_told_apart_by_their_parameters(tmp_path: Path) -> None:
    rows = "\n".join(f"same,0.{n},0,0.2,0,0,1,1,{n}" for n in (1, 2))
    found = read(tmp_path / "hf.csv", f"{NEW},parameter_n\n{rows}\n")
    assert [(one.name, values(one)["elapsed"]) for one in found] == [
        ("same:n=1", 0.1),
        ("same:n=2", 0.2),
    ]


@pytest.mark.parametrize("status", ["200", "404"])
def test_a_status_of_http_is_no_exit_status(status: str, tmp_path: Path) -> None:
    text = f"url,elapsed,status\n/a,0.1,200\n/b,0.2,{status}\n"
    with pytest.raises(InputError) as refused:
        read(tmp_path / "responses.csv", text)
    (one,) = refused.value.diagnostics
    assert one.code == "csv-syntax"
    assert "status" in one.message
    # Exit statuses are read, also those of signals.
    text = text.replace(",200", ",0").replace(",404", ",137")
    found = read(tmp_path / "runs.csv", text)
    assert {block.status for one in found for block in one.blocks} <= {0, 137}


@pytest.mark.parametrize("column", ["status-code", "http_status", "responseCode"])
def test_answers_with_an_error_are_failed_trials(column: str, tmp_path: Path) -> None:
    """The CSV of hey: a server that refuses requests answers fast."""
    text = f"response-time,{column},offset\n0.1,200,0\n0.2,302,1\n0.001,503,2\n"
    (found,) = read(tmp_path / "responses.csv", text)
    assert [block.failure for block in found.blocks] == ["", "", "HTTP status 503"]
    assert all({*block.values} == {"response-time", "offset"} for block in found.blocks)
    (other,) = read(tmp_path / "codes.csv", text.replace("302", "7"))
    assert column in other.blocks[0].values


@pytest.mark.parametrize("code", [1e30, -1e30, 0.5, "x", [3]])
def test_an_exit_code_that_is_none_is_refused_with_its_place(code: Any, tmp_path: Path) -> None:
    result = {"command": "a", "mean": 1, "times": [1, 1], "exit_codes": [0, code]}
    with pytest.raises(InputError) as refused:
        read(tmp_path / "hf", {"results": [result]})
    assert "results[0].exit_codes[1]" in refused.value.diagnostics[0].message


OTHERS: dict[str, Any] = {
    "mitata": {
        "layout": [{"name": None, "types": []}],
        "benchmarks": [
            {"alias": "a", "runs": [{"stats": {"avg": 3.5, "samples": []}, "args": {}}]}
        ],
        "context": {"cpu": {"name": "x", "freq": 3.1}, "runtime": "node"},
    },
    "vitest": {
        "files": [{"filepath": "/a.js", "groups": [{"benchmarks": [{"name": "a", "mean": 1}]}]}]
    },
    "tinybench": [{"name": "a", "result": {"latency": {"mean": 1}}}],
    "bombardier": {"spec": {"testType": "timed"}, "result": {"latency": {"mean": 1, "stddev": 2}}},
    "oha": {"summary": {"average": 1}, "rps": {"mean": 5, "stddev": 1}},
    "BenchmarkDotNet": {"Title": "a", "Benchmarks": [{"Statistics": {"Mean": 1}}]},
    "of training": {"metrics": {"iterations": {"total": 5}, "loss": {"value": 1}}},
    "of a build": {"commit_hash": "0123456789", "results": {"lint": 1}},
    "of a dashboard": {"context": {"page": 1}, "benchmarks": [{"name": "a"}]},
    "of a test": {"results": [{"mean": 5, "unit": "points", "command": "a"}]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_json_of_an_unknown_tool_is_called_that(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "a.json", OTHERS[name])
    (one,) = refused.value.diagnostics
    assert one.code == "unreadable-input"
    assert "of a form that no parser recognises" in one.message
    assert "hyperfine, pyperf" in one.hint
    text = json.dumps(OTHERS[name])
    for length in range(len(text) // 2, len(text)):
        with pytest.raises(InputError) as refused:
            read(tmp_path / "cut.json", text[:length])
        (one,) = refused.value.diagnostics
        assert one.code == "unreadable-input"
        assert "begins like JSON" in one.message


NEGATIVE = {
    "hyperfine": {"results": [{"command": "a", "mean": 1, "times": [1, -1]}]},
    "hyperfine-mean": {"results": [{"command": "a", "mean": -1, "user": 0}]},
    "pyperf": {"benchmarks": [{"runs": [{"values": [1, -1]}]}]},
    "google": {"context": {}, "benchmarks": [{"name": "a", "real_time": 1, "cpu_time": -1}]},
    "csv": "test,elapsed\na,1\na,-1\n",
    "res": "[measurement]\nepoch = 1\nelapsed = -1\n",
    "go": "BenchmarkA 1 2 ns/op\nBenchmarkA 1 -2 ns/op\n",
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_a_time_below_zero_is_a_mistake(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / f"a.{name}", NEGATIVE[name])
    (one,) = refused.value.diagnostics
    assert "below 0" in one.message


# -- Google Benchmark ------------------------------------------------------------------------


def google(name: str, nanoseconds: float = 0, **more: Any) -> dict[str, Any]:
    times = {"real_time": nanoseconds, "cpu_time": nanoseconds, "time_unit": "ns"}
    return {"name": name, "iterations": 10, **times, **more}


def fit(name: str, **more: Any) -> list[dict[str, Any]]:
    """Return the entries that `Complexity()` adds."""
    order = {"name": f"{name}_BigO", "cpu_coefficient": 0.25, "big_o": "N"}
    return [order | more, {"name": f"{name}_RMS", "rms": 0.01} | more]


def read_google(path: Path, *entries: dict[str, Any]) -> list[TestResult]:
    return read(path, {"context": {"host_name": "h"}, "benchmarks": list(entries)})


@pytest.mark.parametrize("typed", [False, True], ids=["before 1.5", "since 1.5"])
def test_only_repetitions_are_trials_of_a_google_benchmark(tmp_path: Path, *, typed: bool) -> None:
    def of(kind: str, **more: Any) -> dict[str, Any]:
        return {"run_name": "BM/8", "run_type": kind, **more} if typed else {}

    entries = [google("BM/8", value, **of("iteration")) for value in (1, 2, 6)]
    for statistic, value in (("mean", 3), ("median", 2), ("stddev", 2.6), ("max", 6)):
        about = of("aggregate", aggregate_name=statistic)
        entries.append(google(f"BM/8_{statistic}", value, **about))
    entries += fit("BM", **of("aggregate", aggregate_name="BigO"))
    other = {"run_name": "BM_mean", "run_type": "iteration"} if typed else {}
    entries.append(google("BM_mean", 9, **other))  # a benchmark with such a name
    found = read_google(tmp_path / "gb", *entries)
    assert [
        (one.name, [block.values["elapsed"] * 1e9 for block in one.blocks]) for one in found
    ] == [("BM/8", pytest.approx([1, 2, 6])), ("BM_mean", pytest.approx([9]))]
    # A statistic of the user's is named.
    assert "max of BM/8" in found[0].session_findings[0].evidence

    # Without repetitions the aggregates are what the file states.
    found = read_google(tmp_path / "gb", *entries[3:6])
    ((stat,),) = ([s for s in one.summaries if s.name == "elapsed"] for one in found)
    assert (stat.mean, stat.median, stat.sdev) == pytest.approx((3e-9, 2e-9, 2.6e-9))


def test_google_benchmarks_with_one_name_stay_two(tmp_path: Path) -> None:
    entries = [
        google("same", value, family_index=at, per_family_instance_index=0)
        for at in (3, 4)
        for value in (10 * at, 10 * at + 1)
    ]
    found = read_google(tmp_path / "gb", *entries)
    assert [one.name for one in found] == ["same", "same#2"]
    assert [len(one.blocks) for one in found] == [2, 2]


def test_a_skipped_google_benchmark_is_named(tmp_path: Path) -> None:
    skipped = google("BM_gpu", skipped=True, skip_message="no device")
    (one,) = read_google(tmp_path / "gb", google("BM", 1), skipped)
    assert one.name == "BM"
    assert "BM_gpu was skipped: no device" in one.session_findings[0].evidence


def test_a_gate_passes_beside_a_complexity(tmp_path: Path) -> None:
    files = []
    for name, factor in (("a", 10.0), ("b", 9.0)):
        runs = [
            google(f"BM/{n}", n * factor + at * 5 % 7 / 10) for n in (8, 64) for at in range(14)
        ]
        files.append(str(tmp_path / name))
        read_google(Path(files[-1]), *runs, *fit("BM"))
    gate = ["--fail-if", "slower by 5%", "--accept", "not-interleaved"]
    assert main(["compare", *gate, *files]) == 0


# -- criterion ---------------------------------------------------------------------------------

ITERATIONS, TIMES = [10, 20, 30, 40], [1000, 2010, 2990, 4000]
OLD_SAMPLE = [ITERATIONS, TIMES]
NEW_SAMPLE = {"sampling_mode": "Linear", "iters": ITERATIONS, "times": TIMES}


def criterion(target: Path, place: str, sample: Any = NEW_SAMPLE, *, old: bool = False) -> None:
    """Write the results of a benchmark into a directory such as `grp/f/100/new`."""
    folder = target / place
    folder.mkdir(parents=True)
    name = place.rpartition("/")[0]
    interval = {"confidence_level": 0.95, "lower_bound": 99, "upper_bound": 101}
    estimate = {"point_estimate": 100.1, "confidence_interval": interval}
    keys = ("Mean", "Median", "Slope") if old else ("mean", "median", "slope")
    about = {"group_id": name, "full_id": name, "function_id": None}
    (folder / "benchmark.json").write_text(json.dumps(about))
    (folder / "estimates.json").write_text(json.dumps(dict.fromkeys(keys, estimate)))
    (folder / "sample.json").write_text(sample if isinstance(sample, str) else json.dumps(sample))


def elapsed(found: list[TestResult]) -> dict[str, list[float]]:
    return {one.name: [block.values["elapsed"] * 1e9 for block in one.blocks] for one in found}


def test_samples_of_each_version_of_criterion_are_read(tmp_path: Path) -> None:
    criterion(tmp_path, "old/new", OLD_SAMPLE, old=True)
    criterion(tmp_path, "now/new")
    each = pytest.approx([100, 100.5, 99.667, 100], rel=1e-4)
    assert elapsed(read_inputs([str(tmp_path)])) == {"now": each, "old": each}


@pytest.mark.parametrize(
    "sample",
    [
        *("{", '{"iters": [1, 2], "times": [1]}', "[[1, 2]]", "[[0], [1]]", "7"),
        *('{"iters": ["x"], "times": [1]}', "[]"),
    ],
)
def test_a_benchmark_of_criterion_that_cannot_be_read_is_named(sample: str, tmp_path: Path) -> None:
    criterion(tmp_path, "good/new")
    criterion(tmp_path, "grp/bad/new", sample)
    (one,) = read_inputs([str(tmp_path)])
    assert one.name == "good"
    (found,) = one.session_findings
    assert found.code == "results-not-read"
    assert f"{tmp_path}: grp/bad/new: sample.json" in found.evidence
    # Alone it is an error with the same place.
    with pytest.raises(InputError) as refused:
        read_inputs([str(tmp_path / "grp")])
    assert "sample.json" in refused.value.diagnostics[0].message


def test_what_is_no_file_in_a_directory_is_named(tmp_path: Path) -> None:
    places = {"criterion": "cut/new/sample.json", "asv": "vm/22222222-py3.json"}
    for tool, place in places.items():
        folder = tmp_path / tool
        if tool == "criterion":
            criterion(folder, "good/new")
            criterion(folder, "cut/new")
        else:
            asv(folder, "1", good=[1.0])
        for kind in ("fifo", "damaged"):
            (folder / place).unlink(missing_ok=True)
            if kind == "fifo":
                os.mkfifo(folder / place)
            else:
                (folder / place).write_bytes(gzip.compress(b"{}" * 99)[:30])
            (one,) = read_inputs([str(folder)])
            assert one.name == "good"
            (found,) = one.session_findings
            assert place.rpartition("/")[0] in found.evidence


def test_a_run_of_criterion_without_estimates_is_named(tmp_path: Path) -> None:
    for name in ("good", "cut"):
        criterion(tmp_path, f"{name}/new")
    (tmp_path / "cut/new/estimates.json").unlink()
    (one,) = read_inputs([str(tmp_path)])
    assert "cut/new: estimates.json" in one.session_findings[0].evidence


def test_baselines_of_criterion_have_their_names(tmp_path: Path) -> None:
    for name in ("single", "base", "report"):  # names of benchmarks, too
        criterion(tmp_path, f"{name}/new")
        criterion(tmp_path, f"{name}/base")
    for baseline in ("before", "after"):
        criterion(tmp_path, f"single/{baseline}")
    names = ["base", "report", "single", "single (after)", "single (before)"]
    assert [one.name for one in read_inputs([str(tmp_path)])] == names
    (one,) = read_inputs([f"{tmp_path}:single (before)"])
    assert len(one.blocks) == 4
    (one,) = read_inputs([str(tmp_path / "single/before")])
    assert one.name == "single"


# -- pyperf ------------------------------------------------------------------------------------


def pyperf(version: Any, values: str, metadata: str) -> dict[str, Any]:
    about = {"name": "telco", "perf_version": "0.8.2", "hostname": "h"}
    runs = [
        {"metadata": {}, "warmups": [[1, 9.0]], values: []},  # a calibration
        {"metadata": {"date": "2026-11-28 18:21:02"}, values: [0.0225, 0.0226]},
    ]
    found = {"version": version, "benchmarks": [{metadata: about, "runs": runs}]}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("version", "values", "metadata"),
    [
        (5, "samples", "common_metadata"),
        (6, "values", "metadata"),
        ("1.0", "values", "metadata"),
        (None, "values", "metadata"),
    ],
)
def test_each_format_of_pyperf_has_its_values_and_name(
    version: Any, values: str, metadata: str, tmp_path: Path
) -> None:
    (one,) = read(tmp_path / "pyperf", pyperf(version, values, metadata))
    assert one.name == "telco"
    assert [block.values["elapsed"] for block in one.blocks] == [0.0225, 0.0226]
    assert one.origin
    assert (one.origin.tool, one.origin.machine) == ("pyperf 0.8.2", "h")


@pytest.mark.parametrize("version", [4, 7, "2.0"])
def test_an_unknown_format_of_pyperf_is_refused(version: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "pyperf", pyperf(version, "values", "metadata"))
    assert f"version is {version}" in refused.value.diagnostics[0].message


def test_a_benchmark_of_pyperf_without_values_is_named(tmp_path: Path) -> None:
    document = pyperf("1.0", "values", "metadata")
    document["benchmarks"].append({"metadata": {"name": "cut"}, "runs": []})
    (one,) = read(tmp_path / "pyperf", document)
    assert "cut has no value" in one.session_findings[0].evidence


# -- asv -----------------------------------------------------------------------------------------


def asv(results: Path, commit: str, **found: Any) -> None:
    """Write the results of one commit; its number is its time."""
    machine = results / "vm"
    machine.mkdir(parents=True, exist_ok=True)
    (machine / "machine.json").write_text('{"machine": "vm"}')
    document = {
        "commit_hash": commit * 40,
        "env_name": "py3",
        "date": int(commit) * 10**12,
        "params": {"machine": "vm"},
        "result_columns": ["result", "params"],
        "results": {name: [result, []] for name, result in found.items()},
    }
    text = json.dumps(document).replace('"NaN"', "NaN")
    (machine / f"{commit * 8}-py3.json").write_text(text)


def test_benchmarks_of_asv_without_a_result_are_named(tmp_path: Path) -> None:
    asv(tmp_path, "1", time_a=[1.0], time_b=None, time_c=["NaN"])
    (one,) = read_inputs([str(tmp_path)])
    assert one.name == "time_a"
    (found,) = one.session_findings
    assert found.evidence.startswith("not read: ")
    for what in ("time_b failed", "time_c was skipped"):
        assert what in found.evidence


def test_what_asv_tracks_keeps_its_name_whatever_its_unit(tmp_path: Path) -> None:
    asv(tmp_path, "1", track_size=[5.0], peakmem_x=[6.0], track_p99=[7.0])
    units = {"track_size": "bytes", "peakmem_x": "bytes", "track_p99": "seconds"}
    described = {name: {"unit": unit} for name, unit in units.items()}
    (tmp_path / "benchmarks.json").write_text(json.dumps(described))
    read = read_inputs([str(tmp_path)])
    found = {one.name: one.blocks[0].values for one in read}
    assert found == {
        "track_size": {"track_size": 5},
        "peakmem_x": {"memory": 6},
        "track_p99": {"track_p99": 7},
    }
    assert [one.specs[0].unit for one in read] == ["B", "B", "s"]


def test_a_benchmark_of_asv_that_breaks_stays_in_its_history(tmp_path: Path) -> None:
    asv(tmp_path, "1", time_a=[1.0], time_b=[2.0], time_never=["NaN"])
    asv(tmp_path, "2", time_a=[1.0], time_b=None, time_never=["NaN"])
    asv(tmp_path, "3", time_a=[1.0], time_b=["NaN"], time_never=["NaN"])
    runs = imported_runs(read_history([str(tmp_path)]))
    assert [[key.test for key, _ in run.points] for run in runs] == [
        ["time_a", "time_b"],
        ["time_a"],
        ["time_a"],
    ]
    without = [[(one.test, one.failed) for one in run.without] for run in runs]
    assert without == [[], [("time_b", True)], [("time_b", False)]]


def test_a_damaged_file_of_asv_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    asv(tmp_path, "1", time_a=[1.0])
    (tmp_path / "vm/22222222-py3.json").write_text('{"commit_hash": ')
    for read_files in (read_inputs, read_history):
        (one,) = read_files([str(tmp_path)])
        assert one.name == "time_a"
        assert "vm/22222222-py3.json" in one.session_findings[0].evidence


def test_values_of_asv_that_fit_no_parameters_are_a_mistake(tmp_path: Path) -> None:
    asv(tmp_path, "1", time_a=[1.0, 2.0])
    with pytest.raises(InputError) as refused:
        read_inputs([str(tmp_path / "vm/11111111-py3.json")])
    assert "2 values for 1 combinations" in refused.value.diagnostics[0].message


# -- directions and directories ---------------------------------------------------------------


@pytest.mark.parametrize("key", ["mode", "threads", "forks"])
def test_equal_benchmarks_of_jmh_have_what_tells_them_apart(tmp_path: Path, key: str) -> None:
    time = {"score": 1, "scoreUnit": "s/op", "rawData": [[1, 1.1]]}
    stated = {"mode": "avgt", "threads": "1", "forks": "1"}
    results = [
        {"benchmark": "b", **stated, key: value, "primaryMetric": time} for value in ("1", "4")
    ]
    found = [one.name for one in read(tmp_path / "jmh", results)]
    assert found == [f"b:{key}=1", f"b:{key}=4"]


def test_a_count_of_events_of_jmh_is_not_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = []
    for name, hits in (("a", 100), ("b", 900)):
        files.append(str(tmp_path / name))
        time = {"score": 1, "scoreUnit": "ms/op", "rawData": [[1, 1.1, 1.2]]}
        events = {"score": hits, "scoreUnit": "#", "rawData": [[hits, hits + 1, hits + 2]]}
        result = {
            "benchmark": "b",
            "mode": "avgt",
            "primaryMetric": time,
            "secondaryMetrics": {"hits": events},
        }
        (one,) = read(Path(files[-1]), [result])
        assert "hits" not in units(one)
        assert [block.values["hits"] for block in one.blocks] == [hits, hits + 1, hits + 2]
    main(["compare", *files, "--json"])
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert {one["metric"] for one in verdicts if one["judged"]} == {"elapsed"}
    main(["compare", *files, "--metric", "hits:higher", "--json"])
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert "hits" in {one["metric"] for one in verdicts if one["judged"]}


def test_a_directory_of_another_tool_is_taken_or_refused_like_its_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asv(tmp_path, "1", time_a=[1.0])
    assert main(["why", str(tmp_path)]) == 0
    assert "time_a" in capsys.readouterr().out
    assert main(["export", "--format", "hyperfine", str(tmp_path)]) == 2
    assert "has results of asv" in capsys.readouterr().err


# -- gates for what a file does not have -----------------------------------------------------


def test_a_gate_for_a_metric_that_is_not_there_is_undecided(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = []
    for name in ("a", "b"):
        files.append(str(tmp_path / name))
        read(Path(files[-1]), fio({"read": direction(iops=100 + len(files))}))
    assert main(["compare", "--fail-if", "slower by 5%", *files, "--json"]) == 3
    (gate,) = json.loads(capsys.readouterr().out)["gates"]
    assert gate["outcome"] == "undecided"
    assert "elapsed" in gate["detail"]


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "Point", "metric": "a", "data": {"value": 1}}',
        '{"reason": "benchmark-complete", "id": "a"}',
    ],
)
def test_a_damaged_line_has_one_place(line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "lines", f"{line}\n{line[:-9]}\n")
    message = refused.value.diagnostics[0].message
    assert "line 2" in message
    assert "line 1" not in message


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [
        *(("ns/op", 1e-9), ("us/op", 1e-6), ("ms/op", 1e-3), ("s/op", 1.0)),
        *(("min/op", 60.0), ("hr/op", 3600.0), ("day/op", 86400.0)),
    ],
)
def test_each_unit_of_time_of_jmh_is_seconds(unit: str, seconds: float, tmp_path: Path) -> None:
    rate = "/".join(reversed(unit.replace("op", "ops").split("/")))
    found = []
    for text in (unit, rate):
        metric = {"score": 2.0, "scoreUnit": text, "rawData": [[2.0]]}
        result = {"benchmark": "b", "mode": "avgt", "primaryMetric": metric}
        file = tmp_path / "jmh.json"
        file.write_text(json.dumps([result]))
        (one,) = read_inputs([str(file)])
        found.append(one.blocks[0].values)
    assert found[0] == {"elapsed": pytest.approx(2 * seconds)}
    assert found[1] == {"throughput": pytest.approx(2 / seconds)}


@pytest.mark.parametrize("dirty", [True, False, None])
def test_changes_that_were_not_committed_are_no_run_of_the_commit(
    tmp_path: Path, dirty: bool | None
) -> None:
    document = {
        "machine_info": {},
        "commit_info": {"id": "a" * 40, "time": "2026-01-01T00:00:00", "dirty": dirty},
        "version": "5.1.0",
        "datetime": "2026-01-02T00:00:00",
        "benchmarks": [
            {"name": "x", "fullname": "x", "params": None, "stats": {"data": [1.0, 2.0]}}
        ],
    }
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    (run,) = imported_runs(read_history([str(file)]))
    ((_, point),) = run.points
    assert point.dirty is bool(dirty)
    assert commit_text(point) == "aaaaaaa" + "+" * bool(dirty)


# -- Moments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-11-29 02:13:34.893840", 893_840_000),
        ("2026-11-29T02:13:34.893840123Z", 893_840_123),
        ("2026-11-29T03:13:34.8938401+01:00", 893_840_100),
        ("2026-11-29T02:13:34.5", 500_000_000),
        ("2026-11-29T02:13:34+00:00", 0),
    ],
)
def test_a_moment_has_the_digits_that_its_file_states(text: str, nanoseconds: int) -> None:
    start = datetime(2026, 11, 29, 2, 13, 34, tzinfo=UTC)
    assert moment_ns(text) == int(start.timestamp()) * 10**9 + nanoseconds


def _pyperf_at(path: Path, second: str, *names: str) -> str:
    """Write a file of pyperf whose benchmarks began in one second of 2026-11-29."""
    benchmarks = [
        {
            "metadata": {"name": name},
            "runs": [
                {
                    "metadata": {"date": f"2026-11-29 02:13:{second}{at}"},
                    "values": [1.0 + at, float(second)],
                }
            ],
        }
        for at, name in enumerate(names)
    ]
    path.write_text(json.dumps({"version": "1.0", "benchmarks": benchmarks}))
    return str(path)


def test_runs_of_one_second_are_in_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seconds = ("34.89384", "34.11111", "34.20000")
    files = [
        _pyperf_at(tmp_path / f"{at}.json", second, "a", "b") for at, second in enumerate(seconds)
    ]
    # The benchmarks of a file that began in one second are one run.
    assert [len(run.points) for run in imported_runs(read_history(files))] == [2] * 3
    assert main(["history", *files, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["skipped"] == []
    for one in document["series"]:
        studies = [point["study"] for point in one["points"]]
        assert studies == [files[1], files[2], files[0]]


def test_rows_of_one_second_are_runs(tmp_path: Path) -> None:
    rows = [f"2026-11-29T02:13:34.{at}00000001Z,{1 + at}" for at in (3, 1, 2)]
    (tmp_path / "t.csv").write_text("\n".join(["time,latency", *rows]) + "\n")
    runs = imported_runs(read_history([str(tmp_path / "t.csv")]))
    found = [point.started_ns % 10**9 for run in runs for _, point in run.points]
    assert found == [300_000_001, 100_000_001, 200_000_001]


@pytest.mark.parametrize(
    ("file", "stored"),
    [
        ("pyperf.json", ["ec7a7ff01418d001", "ec17294a485d3187"]),
        ("pytest-benchmark.json", ["aed8c9f69a13805d"]),
        ("fio.json", ["ffe97377f8adb09c"]),
        ("fio-sync.json", ["557cb90676c00aa5"]),
        ("k6-new.json", ["79c116f260b24f14"]),
        ("k6-points.ndjson", ["c1a97e068c88863b"]),
    ],
)
def test_runs_that_were_stored_with_whole_seconds_are_known(
    file: str, stored: list[str], tmp_path: Path
) -> None:
    runs = imported_runs(
        read_history([str(Path(__file__).parents[1] / "golden" / "foreign" / file)])
    )
    assert [one.name for one in runs] != stored
    old = []
    for run, name in zip(runs, stored, strict=True):
        points = tuple((key, msgspec.structs.replace(point, run=name)) for key, point in run.points)
        old.append(msgspec.structs.replace(run, points=points, former=()))
    with HistoryFile.open_to_write(tmp_path / "h.db") as history:
        history.add(old)
        added = history.add(runs)
    assert (added.new, added.replaced, added.known) == (0, 0, len(runs))


def test_a_run_of_hyperfine_2_has_all_its_quantities(tmp_path: Path) -> None:
    """The form of its export/json.rs: each run is an object, a quantity a value with its unit."""

    def run(seconds: float, code: int | None) -> dict[str, object]:
        time = {"unit": "second"}
        return {
            "time_wall_clock": {"value": seconds, **time},
            "time_cpu": {"value": 0.003, **time},
            "time_user": {"value": 0.002, **time},
            "time_system": {"value": 0.001, **time},
            "memory_peak_resident": {"value": 1753088, "unit": "byte"},
            "instructions": {"value": 812345},
            "exit_code": code,
        }

    results = [
        {
            "command": "sleep 0.1",
            "name": "short",
            "measurements": [run(0.1, 0), run(0.2, 1), run(0.3, None)],
            "parameters": {"t": {"value": "0.1"}},
            "summary": {"time_wall_clock": {"unit": "second", "count": 3, "mean": 0.2}},
        },
        {"command": "true", "measurements": [run(0.001, 0)], "summary": {}},
    ]
    document = {
        "schema_version": 2,
        "metadata": {"hyperfine_version": "2.0.0", "platform": {"os": "Linux"}},
        "primary_metric": "time_wall_clock",
        "results": results,
    }
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(document, indent=2))
    (short, true) = read_inputs([str(path)])
    assert (short.name, true.name) == ("short", "true")
    assert dict(short.sample) == {"t": "0.1"}
    assert [block.status for block in short.blocks] == [0, 1, 128]
    assert short.blocks[0].values == {
        "elapsed": 0.1,
        "user": 0.002,
        "system": 0.001,
        "rss_bytes": 1753088,
        "instructions": 812345,
    }
    assert not short.session_findings
    assert main(["stats", str(path)]) == 0
    results[1]["measurements"][0] |= {  # type: ignore[index]
        "time_user": {"value": 2.0, "unit": "millisecond"},
        "page_faults": {"value": 3},
    }
    path.write_text(json.dumps(document, indent=2))
    short, true = read_inputs([str(path)])
    assert "user" not in true.blocks[0].values
    (found,) = short.session_findings
    assert found.code == "results-not-read"
    assert "time_user: is not in the unit" in found.evidence
    assert "page_faults: is a quantity that is not known" in found.evidence


def test_lines_of_json_of_an_unknown_tool_are_not_called_damaged(tmp_path: Path) -> None:
    """Such as vegeta's `encode -to json`."""
    row = '{"attack":"","seq":0,"code":200,"latency":31190628}\n'
    with pytest.raises(InputError) as refused:
        read(tmp_path / "v.json", row * 2)
    assert "is lines of JSON of a form that no parser" in refused.value.diagnostics[0].message
    with pytest.raises(InputError) as refused:
        read(tmp_path / "v.json", row + row[:20])
    assert "damaged or incomplete" in refused.value.diagnostics[0].message
