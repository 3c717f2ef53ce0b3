"""Results of other tools, read: each as its golden document, and against the tool's own summary.

tests/golden/foreign/README.md says which tool and version wrote each file.
To accept a change that is meant: BW_UPDATE_GOLDEN=1 make test-python, and read the diff.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.results import Summary
from benchwright.features.history.foreign_runs import imported_runs
from benchwright.findings.result import TestResult
from benchwright.report.stats_document import table_of
from benchwright.results.inputs import parsers, read_history, read_inputs
from benchwright.stats.aggregate import summarise
from benchwright.study.parsers.api import ResultParser, content_head

HERE = Path(__file__).parent / "foreign"
FILES = {
    "hyperfine.json": "hyperfine",
    "pyperf.json": "pyperf",
    "pyperf.json.gz": "pyperf",
    "pyperf-command.json": "pyperf",
    "pytest-benchmark.json": "pytest-benchmark",
    "pytest-benchmark-summary.json": "pytest-benchmark",
    "asv": "asv",
    "asv/vm/fefd73b6-py3.11.json": "asv",
    "go-bench.txt": "benchfmt",
    "jmh.json": "jmh",
    "google-benchmark.json": "google-benchmark",
    "google-benchmark-aggregates.json": "google-benchmark",
    "google-benchmark-complexity.json": "google-benchmark",
    "criterion": "criterion",
    "criterion-0.3.0": "criterion",
    "cargo-criterion.jsonl": "criterion",
    "fio.json": "fio",
    "fio-plus.json": "fio",
    "fio-mixed.json": "fio",
    "fio-sync.json": "fio",
    "k6-summary.json": "k6",
    "k6-handle.json": "k6",
    "k6-chosen.json": "k6",
    "k6-new.json": "k6",
    "k6-0.36.json": "k6",
    "k6-points.ndjson": "k6-points",
    "redis-benchmark.csv": "redis-benchmark",
    "otava.csv": "otava",
    "data.js": "github-action-benchmark-store",
    "custom-smaller.json": "github-action-benchmark",
}


def parser_of(name: str) -> ResultParser:
    found: ResultParser = {one.name: one for one in parsers()}[name]
    return found


def document(inputs: list[TestResult]) -> str:
    """Return what was read, without what a parser left at its default."""
    lean: list[dict[str, Any]] = []
    for one in inputs:
        plain = msgspec.to_builtins(one)
        default = msgspec.to_builtins(TestResult("", ()))
        lean.append({k: v for k, v in plain.items() if k == "name" or v != default[k]})
    text = msgspec.json.format(msgspec.json.encode(lean), indent=1)
    return text.decode().replace(f"{HERE}/", "") + "\n"


@pytest.mark.parametrize("file", FILES)
def test_a_file_reads_as_its_golden_document(file: str) -> None:
    golden = HERE / "read" / f"{file.replace('/', '-')}.json"
    text = document(parser_of(FILES[file]).read(HERE / file))
    if os.environ.get("BW_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_recognised_by_its_content(file: str, tmp_path: Path) -> None:
    path = HERE / file
    head = b""
    if path.is_file():  # under a name that says nothing
        head = content_head(path, 4096)
        path = tmp_path / "results"
        path.write_bytes((HERE / file).read_bytes())
    by = [one.name for one in parsers() if one.detect(path, head)]
    # Otava's files are CSV too; the first parser reads a file.
    assert by == [FILES[file], *["csv"] * (file == "otava.csv")]


# -- against the summary of the tool itself ------------------------------------------------


def tests_of(file: str) -> dict[str, TestResult]:
    return {one.name: one for one in read_inputs([str(HERE / file)])}


def row(one: TestResult, metric: str = "elapsed") -> Summary:
    """Return the row of a quantity in the table of `bw stats`."""
    given = [found for found in one.summaries if found.name == metric]
    if given:
        return given[0]
    rows = table_of(one, everything=True)
    return {found.name: found for found in rows}[metric]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-15)


def stored(file: str) -> Any:
    return json.loads((HERE / file).read_text())


def figures(one: Summary) -> tuple[float, ...]:
    return (one.mean, one.median, one.minimum, one.maximum, one.sdev)


def test_hyperfine() -> None:
    found = list(tests_of("hyperfine.json").values())
    results = stored("hyperfine.json")["results"]
    assert len(found) == len(results) == 4
    for one, said in zip(found, results, strict=True):
        keys = ("mean", "median", "min", "max", "stddev")
        assert figures(row(one)) == near(tuple(said[key] for key in keys))
        assert row(one, "user").mean == said["user"]
        assert math.isnan(row(one, "user").low)
        assert dict(one.sample) == said["parameters"]


def test_pyperf() -> None:
    found = tests_of("pyperf.json")
    said = (HERE / "pyperf.stats").read_text()
    parts = re.split(r"^(sum100|sorted)\n-+\n", said, flags=re.MULTILINE)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        summary = row(found[name])
        assert f"Mean +- std dev: {ns(summary.mean)} +- {ns(summary.sdev)}" in text
        assert re.search(rf"^Median \+- MAD: +{ns(summary.median)} ", text, re.MULTILINE)
        assert f"Total number of values: {summary.count}" in text
    assert found == {
        name: msgspec.structs.replace(one, source=found[name].source)
        for name, one in tests_of("pyperf.json.gz").items()
    }


def ns(seconds: float) -> str:
    return f"{seconds * 1e9:.0f} ns"


@pytest.mark.parametrize("file", ["pytest-benchmark.json", "pytest-benchmark-summary.json"])
def test_pytest_benchmark(file: str) -> None:
    found = tests_of(file)
    for said in stored(file)["benchmarks"]:
        summary, stats = row(found[said["name"]]), said["stats"]
        keys = ("mean", "median", "min", "max", "stddev")
        assert figures(summary) == near(tuple(stats[key] for key in keys))
        assert summary.count == stats["rounds"]
        # Without the rounds there is no interval.
        assert math.isnan(summary.low) == ("data" not in stats)


def test_asv() -> None:
    for commit in ("fefd73b6", "aae50d38"):
        file = f"asv/vm/{commit}-py3.11.json"
        found, said = tests_of(file), stored(file)["results"]
        medians = said["b.Sums.time_sum"]
        names = [f"b.Sums.time_sum({n}, {kind})" for n in (10, 1000) for kind in ("'a'", "'b'")]
        for at, name in enumerate(names):
            summary = row(found[name])
            # asv rounds what it writes to 5 digits, except the result.
            assert summary.median == pytest.approx(medians[0][at], rel=1e-9)
            if not found[name].blocks:
                ends = (medians[5][at], medians[6][at])
                assert (summary.low, summary.high) == ends
                assert summary.confidence == 0.99
            assert summary.count == medians[10][at]
        assert row(found["b.peakmem_list"], "memory").mean == said["b.peakmem_list"][0][0]
        assert found["b.track_size"].specs[0].unit == "widgets"
        # Failed and skipped benchmarks have no result.
        assert not {"b.time_broken", "b.Skipped.time_skipped"} & set(found)


def test_a_directory_of_asv_is_read_by_its_newest_commit() -> None:
    newest = tests_of("asv")
    file = tests_of("asv/vm/aae50d38-py3.11.json")
    assert {n: one.summaries for n, one in newest.items()} == {
        n: one.summaries for n, one in file.items()
    }


def test_go() -> None:
    """benchstat prints the median of each unit."""
    found = tests_of("go-bench.txt")
    names = {"sec/op": "elapsed", "B/s": "throughput"}
    unit, checked = "", 0
    with (HERE / "go-bench.benchstat.csv").open() as file:
        for cells in csv.reader(file):
            if len(cells) == 3 and cells[2] == "CI":
                unit = names.get(cells[1], cells[1])
            elif cells and cells[0] in found:
                assert row(found[cells[0]], unit).median == near(float(cells[1]))
                checked += 1
    assert checked == 8
    better = {spec.name: spec.better for spec in found["Sum/n=100-2"].specs}
    assert better == {"elapsed": "lower", "throughput": "higher"}


def test_jmh() -> None:
    found = list(tests_of("jmh.json").values())
    for one, said in zip(found, stored("jmh.json"), strict=True):
        metric = said["primaryMetric"]
        name = "throughput" if said["mode"] == "thrpt" else "elapsed"
        factor = 1e6 if said["mode"] == "thrpt" else 1e-9
        percentiles = metric["scorePercentiles"]
        expected = (metric["score"], *(percentiles[k] for k in ("50.0", "0.0", "100.0")))
        summary = row(one, name)
        assert figures(summary)[:4] == near(tuple(factor * one for one in expected))
        if said["mode"] == "sample":
            ends = tuple(factor * end for end in metric["scoreConfidence"])
            assert (summary.low, summary.high, summary.confidence) == near((*ends, 0.999))
            assert summary.count == sum(
                count
                for fork in metric["rawDataHistogram"]
                for iteration in fork
                for _, count in iteration
            )


def test_google_benchmark() -> None:
    found = tests_of("google-benchmark.json")
    ways = {"mean": "mean", "median": "median", "stddev": "sdev"}
    checked = 0
    for said in stored("google-benchmark.json")["benchmarks"]:
        if said.get("aggregate_name") in ways:
            for key, metric in (("real_time", "elapsed"), ("cpu_time", "cpu_time")):
                summary = row(found[said["run_name"]], metric)
                value = getattr(summary, ways[said["aggregate_name"]])
                assert value == near(said[key] * 1e-9)
                checked += 1
    assert checked == 12
    assert all(block.status for block in found["Broken"].blocks)


def test_google_benchmark_of_aggregates_alone() -> None:
    found = tests_of("google-benchmark-aggregates.json")
    said = {one["name"]: one for one in stored("google-benchmark-aggregates.json")["benchmarks"]}
    summary = row(found["Sum/n:100"])
    assert summary.mean == said["Sum/n:100_mean"]["real_time"] * 1e-9
    assert summary.sdev == said["Sum/n:100_stddev"]["real_time"] * 1e-9
    assert (summary.count, summary.method) == (5, "stated")
    assert math.isnan(summary.low)


def test_criterion() -> None:
    for name, one in tests_of("criterion").items():
        said = stored(f"criterion/{name}/new/estimates.json")
        summary, slope = row(one), row(one, "elapsed_slope")
        assert summary.mean == near(said["mean"]["point_estimate"] * 1e-9)
        assert summary.median == near(said["median"]["point_estimate"] * 1e-9)
        interval = said["slope"]["confidence_interval"]
        ends = (interval["lower_bound"], interval["upper_bound"])
        assert (slope.low, slope.high) == near(tuple(end * 1e-9 for end in ends))
        assert slope.mean == said["slope"]["point_estimate"] * 1e-9
        assert slope.confidence == 0.95


def test_cargo_criterion() -> None:
    found = tests_of("cargo-criterion.jsonl")
    lines = (HERE / "cargo-criterion.jsonl").read_text().splitlines()
    for said in map(json.loads, lines):
        if said["reason"] == "benchmark-complete":
            one = found[said["id"]]
            assert row(one).mean == near(said["mean"]["estimate"] * 1e-9)
            assert row(one).median == near(said["median"]["estimate"] * 1e-9)
            slope = row(one, "elapsed_slope")
            assert slope.low == near(said["slope"]["lower_bound"] * 1e-9)
            assert math.isnan(slope.confidence)  # it does not write it


def test_fio() -> None:
    (one,) = tests_of("fio.json").values()
    (job,) = stored("fio.json")["jobs"]
    values = one.blocks[0].values
    for direction in ("read", "write"):
        said = job[direction]
        assert values[f"{direction}_iops"] == said["iops"]
        assert values[f"{direction}_bw"] == said["bw_bytes"]
        assert values[f"{direction}_clat_mean"] == near(said["clat_ns"]["mean"] * 1e-9)
        p99 = said["clat_ns"]["percentile"]["99.000000"]
        assert values[f"{direction}_clat_p99"] == near(p99 * 1e-9)
    # One run has no interval, and a direction without operations no values.
    assert math.isnan(row(one, "read_iops").low)
    assert not any(name.startswith("trim") for name in values)
    assert dict(one.sample) == {"rw": "randrw", "bs": "4k", "ioengine": "psync"}


@pytest.mark.parametrize("file", ["fio-mixed.json", "fio-sync.json"])
def test_every_figure_of_fio_is_read(file: str) -> None:
    """Each rate, mean and percentile of an operation that occurred is a value, and no other is."""
    (one,) = tests_of(file).values()
    (job,) = stored(file)["jobs"]
    expected = {name: job[name] for name in ("usr_cpu", "sys_cpu")}
    for kind in ("read", "write", "trim", "sync", "mixed"):
        said = job.get(kind, {})
        if not said.get("total_ios"):
            continue
        if "iops" in said:
            expected[f"{kind}_iops"] = said["iops"]
            expected[f"{kind}_bw"] = said["bw_bytes"]
        for latency in ("slat", "clat", "lat"):
            times = said.get(f"{latency}_ns", {"N": 0})
            if times["N"]:
                for figure in ("mean", "min", "max"):
                    name = f"{kind}_{latency}_{figure}"
                    expected[name] = times[figure] * 1e-9
                for share, value in times.get("percentile", {}).items():
                    name = f"{kind}_{latency}_p{float(share):g}"
                    expected[name] = value * 1e-9
    assert one.blocks[0].values == near(expected)


def test_percentiles_from_the_bins_of_fio_are_within_a_bin(tmp_path: Path) -> None:
    (whole,) = tests_of("fio-plus.json").values()
    said = stored("fio-plus.json")
    del said["jobs"][0]["read"]["clat_ns"]["percentile"]
    path = tmp_path / "bins"
    path.write_text(json.dumps(said))
    (one,) = read_inputs([str(path)])
    names = [name for name in one.blocks[0].values if "_p" in name]
    assert len(names) == 6
    for name in names:
        # fio interpolates in a bin, whose width is 1/64 of its value.
        expected = pytest.approx(whole.blocks[0].values[name], rel=1 / 64)
        assert one.blocks[0].values[name] == expected


def test_k6_points_give_the_summary_of_the_same_run() -> None:
    (summary,) = tests_of("k6-summary.json").values()
    (points,) = tests_of("k6-points.ndjson").values()
    said = stored("k6-summary.json")["metrics"]
    stated, computed = summary.blocks[0].values, points.blocks[0].values
    assert stated["http_req_duration_p95"] == near(said["http_req_duration"]["p(95)"] / 1e3)
    assert stated["http_reqs_rate"] == said["http_reqs"]["rate"]
    # Trends of the script have a unit only where k6 writes it.
    assert computed["own_time_avg"] == near(stated["own_time_avg"] / 1e3)
    shared = [
        name for name in computed if name in stated and not name.startswith(("own_time", "vus"))
    ]
    assert len(shared) > 40
    assert {name: computed[name] for name in shared} == near(
        {name: stated[name] for name in shared}
    )


def test_k6_handle_summary_has_units() -> None:
    (one,) = tests_of("k6-handle.json").values()
    said = stored("k6-handle.json")["metrics"]
    values = one.blocks[0].values
    assert values["own_time_avg"] == near(said["own_time"]["values"]["avg"] / 1e3)
    assert values["own_size_avg"] == said["own_size"]["values"]["avg"]
    assert values["checks"] == said["checks"]["values"]["rate"]


@pytest.mark.parametrize("file", ["k6-chosen.json", "k6-0.36.json"])
def test_k6_has_the_statistics_that_were_chosen(file: str) -> None:
    (one,) = tests_of(file).values()
    metrics = stored(file)["metrics"]
    expected = {}
    for name in ("http_req_duration", "iteration_duration"):
        said = metrics[name].get("values", metrics[name])
        expected[f"{name}_count"] = said["count"]
        for key in ("p(99)", "p(99.9)"):
            expected[f"{name}_{key.replace('(', '').replace(')', '')}"] = said[key] * 1e-3
    found = one.blocks[0].values
    assert {name: found[name] for name in expected} == near(expected)


def test_the_new_summary_of_k6_has_what_the_old_one_has() -> None:
    (new,) = tests_of("k6-new.json").values()
    (old,) = tests_of("k6-summary.json").values()
    names = {name for name in new.blocks[0].values if name.startswith(("http", "iter"))}
    assert len(names) > 15
    assert names <= set(old.blocks[0].values)
    results = stored("k6-new.json")["results"]
    said = {one["name"]: one["values"] for one in results["metrics"]}
    values = new.blocks[0].values
    expected = said["http_req_duration"]["p95"] * 1e-3
    assert values["http_req_duration_p95"] == near(expected)
    duration = stored("k6-new.json")["config"]["duration"]
    assert values["http_reqs_rate"] == near(said["http_reqs"]["count"] / duration)


def test_a_complexity_of_google_benchmark_is_no_test() -> None:
    names = list(tests_of("google-benchmark-complexity.json"))
    assert names == [
        *("BM_A/8", "BM_A/64", "BM_A/512", "BM_B", "BM_B_mean_time"),
        *("same", "same#2", "BM_E", "thr/real_time/threads:2"),
    ]


def test_old_samples_and_baselines_of_criterion() -> None:
    found = tests_of("criterion-0.3.0")
    assert list(found) == ["single", "single (before)"]
    for one, place in zip(found.values(), ("new", "before"), strict=True):
        said = stored(f"criterion-0.3.0/single/{place}/estimates.json")
        assert row(one).mean == near(said["Mean"]["point_estimate"] * 1e-9)
        assert row(one).median == near(said["Median"]["point_estimate"] * 1e-9)


# -- as points of a history ------------------------------------------------------------------


def points_of(*files: str) -> Iterable[tuple[str, str, float, str | None, int]]:
    """Return test, metric, estimate, commit and start of each point."""
    inputs = read_history([str(HERE / file) for file in files])
    for run in imported_runs(inputs):
        for key, point in run.points:
            yield key.test, key.metric, point.estimate, point.commit, point.started_ns


def test_a_directory_of_asv_is_a_history_of_its_commits() -> None:
    points = [one for one in points_of("asv") if one[0] == "b.time_single"]
    commits = {commit[:8] for *_, commit, _ in points if commit}
    assert commits == {"fefd73b6", "aae50d38"}
    runs = imported_runs(read_history([str(HERE / "asv")]))
    by_commit = {
        point.commit[:8]: point
        for run in runs
        for key, point in run.points
        if key.test == "b.time_single" and point.commit
    }
    stated, computed = by_commit["aae50d38"], by_commit["fefd73b6"]
    assert (stated.low, stated.high, stated.confidence) == (6.67e-07, 1.0013e-05, 0.99)
    assert computed.confidence == 0.95
    samples = stored("asv/vm/fefd73b6-py3.11.json")["results"]["b.time_single"][11][0]
    assert computed.low == near(summarise("elapsed", samples).low)
    assert len(runs) == 2


def test_rows_of_otava_are_points() -> None:
    points = list(points_of("otava.csv"))
    elapsed = [
        (value, str(commit)[:8], at) for _, name, value, commit, at in points if name == "elapsed"
    ]
    day = 86_400 * 10**9
    assert elapsed == [
        (0.16405, "fefd73b6", 1795179600 * 10**9),
        (0.16512, "aae50d38", 1795179600 * 10**9 + day),
        (0.16391, "c0ffee03", 1795179600 * 10**9 + 2 * day),
    ]
    # An empty cell is no point.
    assert sum(name == "peak_rss" for _, name, *_ in points) == 2


def test_a_store_of_github_action_benchmark_is_a_history() -> None:
    runs = imported_runs(read_history([str(HERE / "data.js")]))
    points = [pair for run in runs for pair in run.points]
    assert [
        (key.test, key.metric, point.estimate, point.unit, point.better) for key, point in points
    ] == [
        ("throughput", "throughput", 1.5e6, "B/s", "higher"),
        ("throughput", "throughput", 1.7e6, "B/s", "higher"),
        ("time", "elapsed", 0.0125, "s", "higher"),
    ]
    assert all(point.low is None for _, point in points)
    assert [one.name for one in read_inputs([str(HERE / "data.js")])] == ["throughput", "time"]
