"""Histories of other tools: github-action-benchmark's entries, and the times of Otava's rows."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.errors import InputError
from benchwright.features.history.foreign_runs import imported_runs
from benchwright.features.history.inputs import read_runs
from benchwright.features.history.store import HistoryFile
from benchwright.features.history.types import HistoryPoint
from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_history, read_inputs

# -- github-action-benchmark ---------------------------------------------------------------

Bench = dict[str, Any]


def stored(folder: Path, *commits: list[Bench], ids: str = "") -> str:
    """Write a store of a commit for each list; return its path."""
    entries = [
        {
            "commit": {
                "id": (ids or "abcdef")[at] * 40,
                "timestamp": f"2026-01-0{1 + at}T00:00:00Z",
            },
            "date": 1767225600000 + at,
            "tool": "go",
            "benches": benches,
        }
        for at, benches in enumerate(commits)
    ]
    file = folder / "data.js"
    file.write_text(f"window.BENCHMARK_DATA = {json.dumps({'entries': {'Go': entries}})}")
    return str(file)


def bench(name: str, value: object, unit: str, procs: int = 2) -> Bench:
    extra = f"100 times\n{procs} procs"
    return {"name": name, "value": value, "unit": unit, "extra": extra}


def values(tests: list[TestResult]) -> dict[str, dict[str, float]]:
    return {one.name: one.blocks[0].values if one.blocks else {} for one in tests}


def test_figures_of_go_are_one_test_whether_its_line_is_stored_or_not(tmp_path: Path) -> None:
    """Versions before 1.19.3 store no entry of the whole line."""

    def commit(time: float, line: bool) -> list[Bench]:
        whole = [bench("BenchmarkX", time, "ns/op\t 4.000 frobs")] * line
        figures = [("ns/op", time), ("frobs", 4.0)]
        return [*whole, *(bench(f"BenchmarkX - {u}", v, u) for u, v in figures)]

    path = stored(tmp_path, commit(8.0, line=False), commit(9.0, line=True))
    found = {key: len(points) for key, points in series(path).items()}
    assert found == {("BenchmarkX", "elapsed"): 2, ("BenchmarkX", "frobs"): 2}


def test_repetitions_of_go_are_trials_and_their_copies_no_results(tmp_path: Path) -> None:
    """`go test -count`: the store has each line, then its figures once more."""
    lines = []
    for time in (10.0, 12.0, 11.0):
        lines += [
            bench("BenchmarkX", time, f"ns/op\t {time / 2} MB/s"),
            bench("BenchmarkX - ns/op", time, "ns/op"),
            bench("BenchmarkX - MB/s", time / 2, "MB/s"),
        ]
    other = bench("BenchmarkX", 90.0, "ns/op")
    path = stored(tmp_path, [*lines, bench("BenchmarkY", 1.0, "ns/op"), other])
    tests = read_inputs([path])
    times = [[block.values["elapsed"] * 1e9 for block in one.blocks] for one in tests]
    # What is printed later under the same name is another benchmark, as of another package.
    assert [[round(one, 6) for one in each] for each in times] == [[10, 12, 11], [1], [90]]
    assert len({one.name for one in tests}) == 3


@pytest.mark.parametrize("before", ["window.BENCHMARK_DATA = ", "", "\n"])
def test_a_store_is_read_as_a_script_and_as_json(before: str, tmp_path: Path) -> None:
    path = stored(tmp_path, *[[bench("a = b", at, "ns/op")] for at in (1.0, 2.0)])
    text = Path(path).read_text().removeprefix("window.BENCHMARK_DATA = ")
    file = tmp_path / "store.json"
    file.write_text(before + text)
    assert values(read_inputs([str(file)])) == {"a = b": {"elapsed": 2e-9}}
    assert len(read_history([str(file)])) == 2


def series(path: str) -> dict[tuple[str, str], list[HistoryPoint]]:
    """Return the points of each test and metric of a history, in order of time."""
    found: dict[tuple[str, str], dict[str, HistoryPoint]] = {}
    for run in imported_runs(read_history([path])):
        for key, point in run.points:
            found.setdefault((key.test, key.metric), {})[point.run] = point
    return {
        key: sorted(points.values(), key=lambda one: one.started_ns)
        for key, points in found.items()
    }


def test_the_line_of_go_that_is_stored_as_a_unit_is_its_figures(tmp_path: Path) -> None:
    def commit(time: float, size: int) -> list[Bench]:
        unit = f"ns/op\t         8.000 extra/op\t     {size} B/op\t      11 allocs/op"
        # The action stores each figure again, as an entry of its own.
        return [
            bench("BenchmarkDiv", time, unit),
            bench("BenchmarkDiv - ns/op", time, "ns/op"),
            bench("BenchmarkDiv - B/op", size, "B/op"),
            bench("BenchmarkDiv - other/op", 5, "other/op"),
            bench("BenchmarkOne", 7, "ns/op"),
        ]

    path = stored(tmp_path, commit(895.3, 311), commit(886, 312))
    newest = values(read_inputs([path]))
    assert list(newest) == ["BenchmarkDiv", "BenchmarkOne"]
    assert newest["BenchmarkDiv"] == {
        "elapsed": pytest.approx(886e-9),
        "other/op": 5,
        "extra/op": 8,
        "B/op": 312,
        "allocs/op": 11,
    }
    found = series(path)
    estimates = [one.estimate for one in found["BenchmarkDiv", "elapsed"]]
    assert estimates == pytest.approx([895.3e-9, 886e-9])
    assert [one.estimate for one in found["BenchmarkDiv", "B/op"]] == [311, 312]


def test_the_results_of_the_newest_commit_are_all_of_one_commit(tmp_path: Path) -> None:
    old = [bench("kept", 10, "ns/op"), bench("gone", 77, "ns/op")]
    path = stored(tmp_path, old, [bench("kept", 11, "ns/op")])
    assert values(read_inputs([path])) == {"kept": {"elapsed": pytest.approx(11e-9)}}
    # A second job of the newest commit adds its results.
    path = stored(
        tmp_path, old, [bench("kept", 11, "ns/op")], [bench("new", 1, "ns/op")], ids="abb"
    )
    newest = read_inputs([path])
    assert {one.name for one in newest} == {"kept", "new"}
    assert {one.origin.commit for one in newest if one.origin} == {"b" * 40}


def test_equal_names_stay_two_by_processes_unit_or_number(tmp_path: Path) -> None:
    path = stored(
        tmp_path,
        [
            bench("Add", 1, "ns/op", procs=2),
            bench("Add", 2, "ns/op", procs=4),
            bench("Two", 3, "ns/op"),
            bench("Two", 4, "MB/s"),
            bench("Same", 5, "ns/op"),
            bench("Other", 7, "ns/op"),
            bench("Same", 6, "ns/op"),
        ],
    )
    names = ["Add (2 procs)", "Add (4 procs)", "Two (s)", "Two (B/s)"]
    names += ["Same", "Other", "Same#2"]
    assert list(values(read_inputs([path]))) == names
    assert list(dict.fromkeys(test for test, _ in series(path))) == names


def test_a_commit_that_was_measured_again_is_another_run(tmp_path: Path) -> None:
    one, other = ([bench("Add", at, "ns/op")] for at in (1, 2))
    (points,) = series(stored(tmp_path, one, other, ids="aa")).values()
    assert [point.estimate for point in points] == pytest.approx([1e-9, 2e-9])


def test_an_entry_without_a_value_is_named(tmp_path: Path) -> None:
    path = stored(tmp_path, [bench("Bad", None, "ns/op")], [bench("Good", 1, "ns/op")])
    (found,) = (each for one in read_inputs([path]) for each in one.session_findings)
    assert found.code == "results-not-read"
    assert "benches[0]: Bad has no value" in found.evidence


# -- Otava ----------------------------------------------------------------------------------

TIMES = {
    "ISO": "2026-01-{:02} 03:00:00 +0100",
    "ISO with T": "2026-01-{:02}T02:00:00Z",
    "fractions": "2026-01-{:02}T02:00:00.123456+00:00",
    "a date alone": "2026-01-{:02}",
    "points, as in Otava's example": "2026.01.{:02} 3:00:00 +0100",
    "strokes": "2026/1/{} 03:00",
    "of mail": "{:02} Jan 2026 03:00:00 +0100",
    "seconds since 1970": "17672{:02}600",
    "milliseconds since 1970": "17672{:02}600000",
    "microseconds since 1970": "17672{:02}600000000",
    "nanoseconds since 1970": "17672{:02}600000000000",
}


@pytest.mark.parametrize("column", ["time", "timestamp", "Date"])
@pytest.mark.parametrize("form", TIMES)
def test_each_row_is_a_run_at_its_time_however_it_is_written(
    form: str, column: str, tmp_path: Path
) -> None:
    rows = [f"{TIMES[form].format(10 + at)},aaa{at},{150 + at}" for at in range(8)]
    rows = [f'"{row.replace(",", chr(34) + ",", 1)}' for row in rows]
    file = tmp_path / "otava.csv"
    file.write_text("\n".join([f"{column},commit,metric1", *rows, ""]))
    found = series(str(file))
    assert list(found) == [("otava.csv", "metric1")]
    (points,) = found.values()
    assert [one.commit for one in points] == [f"aaa{at}" for at in range(8)]
    moments = [one.started_ns // 10**9 for one in points]
    assert moments == sorted(set(moments))
    assert all(1767200000 < one < 1770000000 for one in moments)
    (one,) = read_inputs([str(file)])
    assert {name for block in one.blocks for name in block.values} == {"metric1"}


def test_a_time_that_is_not_understood_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "otava.csv"
    file.write_text("time,commit,a\n2026-01-01,x,1\nsometime 2026,y,2\n2026-99-01,z,3\n")
    with pytest.raises(InputError) as refused:
        read_history([str(file)])
    assert [one.line for one in refused.value.diagnostics] == [3, 4]
    assert {one.code for one in refused.value.diagnostics} == {"otava-syntax"}
    file.write_text("time,commit,a\nthe 1st of 2026,x,1\n")
    with pytest.raises(InputError):
        read_history([str(file)])


@pytest.mark.parametrize("rows", ["0.5,1\n0.4,2\n", "2000000000,1\n1500000000,2\n1800000000,3\n"])
def test_a_column_of_durations_is_measured(rows: str, tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    file.write_text(f"time,used\n{rows}")
    (one,) = read_inputs([str(file)])
    assert {name for block in one.blocks for name in block.values} == {"time", "used"}


# -- The order of runs ------------------------------------------------------------------------


def asv_results(folder: Path, *commits: tuple[int, int, float]) -> str:
    """Write asv's results of commits: the day of each, when it was measured, and its value."""
    machine = folder / "results" / "vm"
    machine.mkdir(parents=True)
    (machine / "machine.json").write_text("{}")
    for at, (day, measured, value) in enumerate(commits):
        document = {
            "commit_hash": f"{at:040x}",
            "env_name": "py",
            "date": 1767225600000 + day * 86_400_000,
            "params": {"machine": "vm"},
            "result_columns": ["result", "params", "started_at", "samples"],
            "results": {"b.time_x": [[value], [], 1772000000000 + measured * 1000, [[value] * 3]]},
        }
        (machine / f"{at:08x}-py.json").write_text(json.dumps(document))
    return str(folder / "results")


def actions(folder: Path, *commits: tuple[int, int, float]) -> str:
    """Write the same as entries of github-action-benchmark."""
    entries = [
        {
            "commit": {"id": f"{at:040x}", "timestamp": f"2026-01-{day + 1:02}T00:00:00Z"},
            "date": 1772000000000 + measured * 1000,
            "tool": "customSmallerIsBetter",
            "benches": [{"name": "x", "value": value, "unit": "s"}],
        }
        for at, (day, measured, value) in enumerate(commits)
    ]
    file = folder / "data.js"
    document = {"entries": {"x": entries}}
    file.write_text(f"window.BENCHMARK_DATA = {json.dumps(document)}")
    return str(file)


def gos(folder: Path, *commits: tuple[int, int, float]) -> str:
    """Write the same as output of Go with configuration."""
    file = folder / "bench.txt"
    file.write_text(
        "".join(
            f"commit: {at:040x}\ncommit-time: 2026-01-{day + 1:02}T00:00:00Z\n"
            f"date: 2026-03-01T00:00:{measured:02}Z\nBenchmarkX 1 {value * 1e9:.0f} ns/op\n"
            for at, (day, measured, value) in enumerate(commits)
        )
    )
    return str(file)


COMMITS = ((1, 5, 2.0), (2, 1, 5.0), (2, 0, 4.0), (0, 9, 1.0), (1, 6, 3.0))
"""Neither in the order of their measurements nor in that of the files."""


@pytest.mark.parametrize("write", [asv_results, actions, gos])
def test_runs_are_in_the_order_of_their_commits(write: Any, tmp_path: Path) -> None:
    path = write(tmp_path, *COMMITS)
    runs = read_runs([Path(path)])
    (found,) = runs.history().series
    assert [one.estimate for one in found.points] == pytest.approx([1, 2, 3, 4, 5])
    assert runs.skipped == ()
    file = tmp_path / "history.db"
    with HistoryFile.open_to_write(file) as history:
        for run in runs.runs:
            history.add([run])
    (found,) = read_runs([file]).history().series
    assert [one.estimate for one in found.points] == pytest.approx([1, 2, 3, 4, 5])
    if write is not gos:  # Its commits are tests of one file.
        (newest,) = read_inputs([path])
        assert newest.blocks[0].values["elapsed"] == pytest.approx(5)


def test_stored_runs_get_the_order_of_their_commits(tmp_path: Path) -> None:
    """Earlier versions stored when a run was measured."""
    file = tmp_path / "history.db"
    runs = read_runs([Path(asv_results(tmp_path, *COMMITS))])
    with HistoryFile.open_to_write(file) as history:
        history.add(runs.runs)
    measured = {f"{at:040x}": one[1] for at, one in enumerate(COMMITS)}
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        for commit, at in measured.items():
            database.execute(
                'UPDATE run SET started_ns = ? WHERE "commit" = ?',
                ((1772000000 + at) * 10**9, commit),
            )
    with HistoryFile.open_to_write(file) as history:
        history.add([])
    (found,) = read_runs([file]).history().series
    assert [one.estimate for one in found.points] == pytest.approx([1, 2, 3, 4, 5])


@pytest.mark.parametrize("column", ["test", "name", "command", "label", "factor:size"])
def test_rows_with_times_are_series_by_whatever_names_them(tmp_path: Path, column: str) -> None:
    rows = [
        f"2026-01-{day:02} 13:00:00 +0000,{name},{value}"
        for day, name, value in ((1, "a", 1), (1, "b", 5), (2, "a", 2), (3, "b", 6))
    ]
    file = tmp_path / "t.csv"
    file.write_text("\n".join([f"time,{column},elapsed", *rows, ""]))
    found: dict[str, list[tuple[int, float]]] = {}
    for one in read_history([str(file)]):
        assert one.origin is not None
        assert one.origin.started_ns is not None
        day = one.origin.started_ns // (86_400 * 10**9)
        found.setdefault(one.name, []).append((day, one.blocks[0].values["elapsed"]))
    first = min(days[0][0] for days in found.values())
    series = [[(day - first, value) for day, value in one] for one in found.values()]
    assert series == [[(0, 1.0), (1, 2.0)], [(0, 5.0), (2, 6.0)]]


@pytest.mark.parametrize(
    ("tool", "better"),
    [("customBiggerIsBetter", "higher"), ("customSmallerIsBetter", "lower"), ("other", "higher")],
)
def test_a_stated_direction_counts_more_than_the_unit(
    tool: str, better: str, tmp_path: Path
) -> None:
    entry = {"commit": {"id": "a"}, "date": 1, "tool": tool}
    entry["benches"] = [bench("Load", 5, "req/s")]
    file = tmp_path / "data.js"
    store = {"entries": {"suite": [entry]}}
    file.write_text(f"window.BENCHMARK_DATA = {json.dumps(store)}")
    (points,) = series(str(file)).values()
    assert [one.better for one in points] == [better]


def test_rows_with_times_that_say_that_they_failed_did(tmp_path: Path) -> None:
    rows = ["2026-11-01T00:00:00Z,A,12,true", "2026-11-02T00:00:00Z,A,80,false"]
    file = tmp_path / "runs.csv"
    file.write_text("\n".join(["timestamp,test,elapsed,success", *rows, ""]))
    (one,) = read_inputs([str(file)])
    assert (one.name, [block.failure for block in one.blocks]) == ("A", ["", "success is false"])


@pytest.mark.parametrize(
    "text",
    [
        "latency,timestamp\n3,1767230600000\n2,1767220600000\n1,1767210600000\n",
        "timestamp,test,latency\n1767210600,a,1\n1767210600,b,1\n1767220600,a,2\n1767220600,b,2\n"
        "1767230600,a,3\n1767230600,b,3\n",
        "time,timestamp\n1,1767210600\n2,1767220600\n3,1767230600\n",
    ],
    ids=["newest first", "several tests", "beside a time that is measured"],
)
def test_a_timestamp_is_that_of_the_row_in_any_order(text: str, tmp_path: Path) -> None:
    file = tmp_path / "nights.csv"
    file.write_text(text)
    for points in series(str(file)).values():
        ordered = sorted(points, key=lambda point: point.started_ns)
        assert [point.estimate for point in ordered] == [1, 2, 3]
        assert ordered[0].started_ns == 1767210600 * 10**9
