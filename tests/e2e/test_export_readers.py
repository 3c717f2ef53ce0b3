"""Exports are read by the programs that they are for; one that is not installed is a skip.

Each export is of the session of `exported_session`, which has what formats get wrong, or of a
stored study. `scripts/export_readers.sh` installs what Debian and PyPI do not; the other readers
are in the virtual environment, or Debian packages (`scripts/setup.sh`).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

import exported_session
from benchwright.features.exchange.export import FORMATS, ExportView

COMPARE_PY = Path("/usr/share/benchmark/compare.py")
TIMES = 'sort -k 2 "a\\b" | uniq:level=9:file size=4 k/2'


def exported(name: str, view: ExportView) -> str:
    """Return the text of an export."""
    return FORMATS[name].write(view).text


def times_of(slower: float = 1.0) -> ExportView:
    """Return the session with the test of times alone."""
    view = exported_session.session(slower)
    return msgspec.structs.replace(view, tests=view.tests[:1])


def written(place: Path, name: str, view: ExportView) -> str:
    """Write an export to a file and return its path."""
    place.write_text(exported(name, view))
    return str(place)


def output_of(*command: str, place: Path, text: str = "", status: int = 0) -> str:
    """Run a reader in a directory and return what it printed."""
    found = shutil.which(command[0])
    if found is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [found, *command[1:]],
        cwd=place,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


# -- Benchmark tools -------------------------------------------------------------------


def test_pyperf_shows_the_runs(tmp_path: Path) -> None:
    pytest.importorskip("pyperf")
    file = written(tmp_path / "one.json", "pyperf", times_of())
    shown = output_of(sys.executable, "-m", "pyperf", "stats", file, place=tmp_path)
    assert "Number of run with values: 12" in shown
    assert re.search(r"Mean \+- std dev: 165 ms", shown)
    metadata = output_of(sys.executable, "-m", "pyperf", "metadata", file, place=tmp_path)
    assert f"name: {TIMES}" in metadata
    assert "command_max_rss: 1104.0 KiB" in metadata


def test_pyperf_compares_two_sessions(tmp_path: Path) -> None:
    pytest.importorskip("pyperf")
    files = [
        written(tmp_path / f"{slower}.json", "pyperf", times_of(slower)) for slower in (1.0, 1.5)
    ]
    shown = output_of(sys.executable, "-m", "pyperf", "compare_to", *files, place=tmp_path)
    assert "1.50x slower" in shown


def test_benchstat_compares_two_sessions_in_one_table(tmp_path: Path) -> None:
    """Different sessions must have equal configuration lines, or benchstat compares nothing."""
    before = exported_session.session()
    after = msgspec.structs.replace(exported_session.session(1.5), session=3)
    files = [
        written(tmp_path / f"{view.session}.txt", "benchfmt", view) for view in (before, after)
    ]
    shown = output_of("benchstat", *files, place=tmp_path)
    assert "+50.00% (p=0.000 n=12)" in shown
    assert "ops" in shown
    assert "missing" not in shown


def test_benchstat_finds_the_keys_and_units(tmp_path: Path) -> None:
    file = written(tmp_path / "one.txt", "benchfmt", exported_session.session())
    shown = output_of("benchstat", "-format", "csv", "-row", ".name,/level", file, place=tmp_path)
    assert re.search(r'^ *"Sort_-k_2_.* 9",0\.1646', shown, re.MULTILINE), shown
    assert "delay-sec" in shown
    # Digits of 1130496 with a binary prefix: benchstat knows that they are bytes.
    table = output_of("benchstat", file, place=tmp_path)
    assert "1.078Mi" in table


def test_google_benchmarks_compare_py_tests_two_sessions(tmp_path: Path) -> None:
    if not COMPARE_PY.exists():
        pytest.skip("libbenchmark-tools is not installed")
    files = [
        written(tmp_path / f"{slower}.json", "google-benchmark", exported_session.session(slower))
        for slower in (1.0, 1.5)
    ]
    report = tmp_path / "report.json"
    output_of(
        *(sys.executable, "-W", "ignore", str(COMPARE_PY), "--dump_to_json"),
        *(str(report), "benchmarks", *files),
        place=tmp_path,
    )
    compared = json.loads(report.read_text())
    (found,) = [
        one for one in compared if one["run_type"] == "iteration" and one["name"].startswith("sort")
    ]
    assert [round(one["time"], 3) for one in found["measurements"]] == [0.5] * 12
    assert found["utest"]["time_pvalue"] < 0.001


def test_an_export_for_hyperfine_has_the_members_that_hyperfine_writes(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    output_of(
        *("hyperfine", "--runs", "3", "-L", "level", "9", "--export-json", str(own)),
        *("--style", "none", "-N", "true"),
        place=tmp_path,
    )
    (theirs,) = json.loads(own.read_text())["results"]
    (ours,) = json.loads(exported("hyperfine", times_of()))["results"]
    # 1.15 of Debian has no memory_usage_byte; that test has no system time above 0.
    assert set(theirs) <= set(ours)
    assert set(ours) - set(theirs) <= {"memory_usage_byte"}
    assert {k: type(v) for k, v in theirs.items()} == {k: type(ours[k]) for k in theirs}


class JmhMetric(msgspec.Struct, forbid_unknown_fields=True):
    """A metric of JMH's JSON; an absent number is the text NaN."""

    score: float
    scoreError: float | str
    scoreConfidence: tuple[float | str, float | str]
    scorePercentiles: dict[str, float]
    scoreUnit: str
    rawData: list[list[float]]


class JmhEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A benchmark of JMH's JSON (JSONResultFormat.java)."""

    jmhVersion: str
    benchmark: Annotated[str, msgspec.Meta(pattern=r"^(\w+\.)+\w+$")]
    mode: Annotated[str, msgspec.Meta(pattern="^(thrpt|avgt|sample|ss)$")]
    threads: int
    forks: int
    jvm: str
    jvmArgs: list[str]
    jdkVersion: str
    vmName: str
    vmVersion: str
    warmupIterations: int
    warmupTime: str
    warmupBatchSize: int
    measurementIterations: int
    measurementTime: str
    measurementBatchSize: int
    primaryMetric: JmhMetric
    secondaryMetrics: dict[str, JmhMetric]
    params: dict[str, str] = {}
    bwMetric: str = ""
    """The one member of ours: JMH has no name of the primary metric. Its readers (jmh-visualizer,
    Bencher's adapter java_jmh) skip members that they do not know."""


def test_an_export_for_jmh_has_its_shape() -> None:
    text = exported("jmh", exported_session.session())
    times, counted = msgspec.json.decode(text, type=list[JmhEntry])
    assert (times.forks, len(times.primaryMetric.rawData)) == (12, 12)
    assert times.params == {"level": "9", "file size": "4 k/2"}
    assert (counted.mode, counted.primaryMetric.score) == ("thrpt", 111.5)
    assert (times.bwMetric, counted.bwMetric) == ("", "ops")


# -- Services --------------------------------------------------------------------------


def test_otava_reads_the_sessions_of_a_study(tmp_path: Path) -> None:
    """A step of 50 % in the fifth of ten sessions is found, in the direction of slower."""
    sessions = [
        msgspec.structs.replace(
            exported_session.session((1.0 if at < 5 else 1.5) * (1 + at % 2 * 0.001)),
            session=at,
            started_ns=exported_session.START_NS + at * 86_400 * 10**9,
        )
        for at in range(1, 11)
    ]
    *earlier, last = sessions
    found = FORMATS["otava"].write(msgspec.structs.replace(last, earlier=tuple(earlier)))
    for name, text in (("otava.yaml", found.text), *found.beside):
        (tmp_path / name).write_text(text)
    config = ("--config-file", "otava.yaml")
    listed = output_of("otava", "list-tests", *config, place=tmp_path).split()
    assert "count" in listed
    assert len(listed) == 2
    (times,) = set(listed) - {"count"}
    shown = output_of(
        *("otava", "analyze", times, "--since", "2020-01-01"),
        *("--until", "2100-01-01", *config),
        place=tmp_path,
    )
    assert "+50" in shown
    assert "odd study@5" in shown


class Bench(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of customSmallerIsBetter (README of github-action-benchmark)."""

    name: str
    unit: str
    value: float
    range: str = ""
    extra: str = ""


def test_github_action_benchmark_has_its_shape_and_one_direction() -> None:
    view = exported_session.session()
    smaller = msgspec.json.decode(exported("github-action-benchmark", view), type=list[Bench])
    assert [one.name for one in smaller if "ops" in one.name] == []
    assert len({one.name for one in smaller}) == len(smaller) == 5


class Measure(msgspec.Struct, forbid_unknown_fields=True):
    """A measure of Bencher Metric Format (bmf-schema)."""

    value: float
    lower_value: float
    upper_value: float


def test_bencher_metric_format_has_its_shape() -> None:
    found = msgspec.json.decode(
        exported("bencher", exported_session.session()),
        type=dict[str, dict[Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]+$")], Measure]],
    )
    assert found[TIMES]["latency"].value == 164765000
    assert found["count"]["delay"].value == 0.0142


Value = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Unit = Annotated[str, msgspec.Meta(min_length=1, max_length=20)]


class Subtest(msgspec.Struct, forbid_unknown_fields=True):
    """As in Treeherder's schema."""

    name: str
    value: Value
    lowerIsBetter: bool
    replicates: list[float]
    unit: Unit = "ms"


class Suite(msgspec.Struct, forbid_unknown_fields=True):
    """As in Treeherder's schema."""

    name: str
    subtests: list[Subtest]
    value: Value
    lowerIsBetter: bool
    unit: Unit = "ms"
    extraOptions: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=100)]], msgspec.Meta(max_length=8)
    ] = []


class Artifact(msgspec.Struct, forbid_unknown_fields=True):
    """As in Treeherder's schema."""

    framework: dict[str, str]
    suites: list[Suite]


def test_a_line_for_perfherder_fits_treeherders_schema() -> None:
    (line,) = exported("perfherder", exported_session.session()).splitlines()
    # Treeherder's log parser: everything after this mark to the end of the line.
    found = re.fullmatch(r".*?PERFHERDER_DATA:\s*({.*})", line)
    assert found is not None
    times, counted = msgspec.json.decode(found[1], type=Artifact).suites
    assert times.extraOptions == ["level=9", "file size=4 k/2"]
    assert (counted.value, counted.lowerIsBetter) == (111.5, False)


# -- Prometheus, JUnit -----------------------------------------------------------------


def test_promtool_has_no_complaint(tmp_path: Path) -> None:
    text = exported("prometheus", exported_session.session())
    said = output_of("promtool", "check", "metrics", place=tmp_path, text=text)
    assert said == ""


@pytest.mark.parametrize("name", ["prometheus", "openmetrics"])
def test_the_parsers_of_prometheus_read_names_labels_and_values(name: str) -> None:
    if name == "prometheus":
        parser: Any = pytest.importorskip("prometheus_client.parser")
    else:
        parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = exported(name, exported_session.session())
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    samples = families["bw_elapsed_seconds"].samples
    found = {one.labels["bound"]: one for one in samples if "level" in one.labels}
    assert found["estimate"].labels["test"] == TIMES
    assert found["low"].value < found["estimate"].value < found["high"].value
    assert families["bw_delay_seconds"].samples[0].value == 0.0142
    if name == "openmetrics":
        assert families["bw_rss_bytes"].unit == "bytes"


def test_xmllint_reads_the_cases(tmp_path: Path) -> None:
    file = written(tmp_path / "junit.xml", "junit", exported_session.session())
    assert output_of("xmllint", "--noout", file, place=tmp_path) == ""
    count = output_of(*("xmllint", "--xpath", "count(//testcase[error])", file), place=tmp_path)
    assert count.strip() == "2"


# -- Loads: histograms and intervals ---------------------------------------------------


def test_promtool_has_no_complaint_about_loads(tmp_path: Path) -> None:
    text = exported("prometheus", exported_session.loads())
    said = output_of("promtool", "check", "metrics", place=tmp_path, text=text)
    assert said == ""


def test_the_buckets_of_a_load_are_cumulative_and_complete() -> None:
    parser: Any = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = exported("openmetrics", exported_session.loads())
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    family = families["bw_load_response_seconds"]
    assert (family.type, family.unit) == ("histogram", "seconds")
    buckets = {
        one.labels["le"]: one.value for one in family.samples if one.name.endswith("_bucket")
    }
    # Of the eight response times three are at most 90 us, six at most 120 us, all at most 2 ms and
    # a little.
    assert (buckets["5e-05"], buckets["0.0001"], buckets["0.0002"]) == (0, 5, 6)
    assert (buckets["0.002"], buckets["0.005"], buckets["+Inf"]) == (7, 8, 8)
    (total,) = [one.value for one in family.samples if one.name.endswith("_sum")]
    assert total == pytest.approx(sum(map(sum, exported_session.LOAD_NS)) / 1e9)


@pytest.mark.parametrize("name", ["prometheus", "openmetrics"])
def test_each_label_has_its_own_histogram_and_counts(name: str) -> None:
    if name == "prometheus":
        parser: Any = pytest.importorskip("prometheus_client.parser")
    else:
        parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = exported(name, exported_session.loads())
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    every, odd = "GET /a b", 'say "=1,2"'
    response = families["bw_load_label_response_seconds"]
    assert response.type == "histogram"
    totals = {
        one.labels["label"]: one.value for one in response.samples if one.name.endswith("_count")
    }
    assert totals == {every: 5, odd: 3}
    sums = {one.labels["label"]: one.value for one in response.samples if one.name.endswith("_sum")}
    for label, first in ((every, 0), (odd, 1)):
        own = sum(sum(times[first::2]) for times in exported_session.LOAD_NS)
        assert sums[label] == pytest.approx(own / 1e9)
    whole = families["bw_load_response_seconds"].samples
    for le in ("0.0001", "0.002", "+Inf"):
        (expected,) = [one.value for one in whole if one.labels.get("le") == le]
        parts = [one.value for one in response.samples if one.labels.get("le") == le]
        assert (len(parts), sum(parts)) == (2, expected)
    counts = {
        (one.labels["label"], one.labels["kind"]): one.value
        for one in families["bw_load_label_operations"].samples
    }
    assert counts == {
        (every, "completed"): 5,
        (every, "errors"): 0,
        (odd, "completed"): 6,
        (odd, "errors"): 3,
    }


def test_promtool_makes_blocks_of_the_intervals(tmp_path: Path) -> None:
    view = exported_session.loads()
    file = written(tmp_path / "intervals.txt", "openmetrics-intervals", view)
    output_of(
        *("promtool", "tsdb", "create-blocks-from", "openmetrics", file, "blocks"), place=tmp_path
    )
    listed = output_of("promtool", "tsdb", "list", "blocks", place=tmp_path)
    # 2 trials, each with 4 rates, mean, median and maximum, and 2 counts, of 2 intervals.
    assert re.search(r"\b36\b", listed), listed
