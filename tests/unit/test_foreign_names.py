"""Series of files of other tools: the same ones, whichever files are read, in whatever order and
way."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

RUNS = 16
START_S = 1_790_000_000
Answers = dict[tuple[float, ...], str]
"""The verdict of each series, by its values [ns]."""

A, B = "e.org/m/a", "e.org/m/b"


def value(test: str, run: int) -> int:
    level = {A: 1000, B: 5000, "on": 20_000, "off": 90_000, "p": 300_000}[test]
    slower = 1.5 if test in (A, "on", "p") and run >= RUNS - 5 else 1.0
    return round(level * slower) + 7 * random.Random(f"{test} {run}").randrange(3)


def packages(run: int) -> str:
    """Return a run of two packages with a test of one name, of which some runs have only one."""
    has = (A,) if run % 3 == 0 else (B,) if run % 5 == 0 else (A, B)
    return "".join(f"pkg: {one}\nBenchmarkSum-2 9 {value(one, run)} ns/op\n" for one in has)


def labels(run: int) -> str:
    """Return a run of two configurations, of which some runs have only one."""
    has = ("on",) if run % 3 == 0 else ("on", "off")
    return "pkg: e.org/m\n" + "".join(
        f"tuned: {one}\nBenchmarkSum-2 9 {value(one, run)} ns/op\n" for one in has
    )


def numbered(run: int) -> str:
    """Return a run whose configuration differs from run to run, which makes no other test."""
    return f"pkg: e.org/m\nbuild: {run}\nBenchmarkSum-2 9 {value('p', run)} ns/op\n"


Text = Callable[[int], str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Text], Files]:
    monkeypatch.chdir(tmp_path)

    def write(text: Text) -> list[str]:
        names = []
        for run in range(RUNS):
            name = f"r{run}.txt"
            Path(name).write_text(f"goos: linux\n{text(run)}")
            os.utime(name, (START_S + 3600 * run,) * 2)
            names.append(name)
        return names

    return write


Files = list[str]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    status = main([*arguments, "--json"])
    assert status in (0, 1, 3)
    return json.loads(capsys.readouterr().out)


def answers(capsys: pytest.CaptureFixture[str], *paths: str) -> Answers:
    found = document(capsys, "history", *paths)["series"]
    return {
        tuple(round(point["estimate"] * 1e9) for point in one["points"]): one["newest"]["verdict"]
        for one in found
    }


def expected(text: Text, *tests: str) -> Answers:
    verdicts = {A: "slower", "on": "slower", "p": "slower"}
    return {
        tuple(value(one, run) for run in range(RUNS) if f" {value(one, run)} ns/op" in text(run)): (
            verdicts.get(one, "no difference")
            if f" {value(one, RUNS - 1)} ns/op" in text(RUNS - 1)
            else "undecided"
        )
        for one in tests
    }


def shuffled(files: Sequence[str]) -> list[str]:
    return random.Random(5).sample(files, len(files))


@pytest.mark.parametrize(
    ("text", "tests"), [(packages, (A, B)), (labels, ("on", "off")), (numbered, ("p",))]
)
def test_files_and_one_file_are_the_same_series(
    text: Text,
    tests: tuple[str, ...],
    files: Callable[[Text], Files],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names, wanted = files(text), expected(text, *tests)
    assert len(wanted) == len(tests)
    assert answers(capsys, *names) == wanted
    for paths in (names[::-1], shuffled(names)):
        found = answers(capsys, *paths)
        assert {tuple(sorted(points)) for points in found} == {*map(tuple, map(sorted, wanted))}
        assert set(found) != set(wanted), "their times are not trusted more than the arguments"
    Path("one.txt").write_text(
        "goos: linux\n"
        + "".join(
            f"commit: {run:040x}\ncommit-time: 2026-11-{run + 1:02}T00:00:00Z\n{text(run)}"
            for run in range(RUNS)
        )
    )
    assert answers(capsys, "one.txt") == wanted
    document(capsys, "history", "add", "one.txt", "--file", "h.db")
    assert answers(capsys, "h.db") == answers(capsys, "one.txt", "h.db") == wanted


def store(runs: Sequence[int]) -> str:
    """Return a data.js of two suites with a test of one name, of which some commits have only one."""
    entries: dict[str, list[object]] = {}
    for run in runs:
        for suite in (A,) if run < 4 else (A, B):
            bench = {"name": "Sum", "unit": "ns", "value": value(suite, run)}
            time = f"2026-11-{run + 1:02}T00:00:00Z"
            entries.setdefault(suite, []).append(
                {
                    "commit": {"id": f"{run:040x}", "timestamp": time},
                    "date": (START_S + run) * 1000,
                    "tool": "customSmallerIsBetter",
                    "benches": [bench],
                }
            )
    return f"window.BENCHMARK_DATA = {json.dumps({'entries': entries})}"


def rows(runs: Sequence[int]) -> str:
    """Return CSV of Otava."""
    lines = (f"{START_S + run},{run:040x},{value('p', run)}e-9\n" for run in runs)
    return "time,commit,elapsed\n" + "".join(lines)


@pytest.mark.parametrize(
    ("name", "write", "tests"), [("data.js", store, (A, B)), ("otava.csv", rows, ("p",))]
)
def test_one_file_of_many_runs_and_its_parts_are_the_same_series(
    name: str,
    write: Callable[[Sequence[int]], str],
    tests: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(write(range(RUNS)))
    parts = []
    for runs in (range(3), range(3, 9), range(9, RUNS)):
        part = Path(f"from-{runs.start}", name)
        part.parent.mkdir()
        part.write_text(write(runs))
        parts.append(str(part))
    wanted = answers(capsys, name)
    assert {len(one): verdict for one, verdict in wanted.items()} == {
        RUNS - 4 if one == B else RUNS: "no difference" if one == B else "slower" for one in tests
    }
    for paths in (parts, parts[::-1], [*parts[::-1], name]):
        assert answers(capsys, *paths) == wanted
    for at, part in enumerate((*parts[::-1], name)):
        document(capsys, "history", "add", part, "--file", f"{at // 4}.db")
        assert answers(capsys, "0.db", *parts) == wanted
    assert answers(capsys, "0.db") == wanted


def test_a_test_of_pytest_has_one_series_whatever_else_its_files_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    golden = Path(__file__).parent.parent / "golden/foreign/pytest-benchmark.json"
    whole = json.loads(golden.read_text())
    one = whole["benchmarks"][0]

    def text(run: int) -> str:
        return json.dumps(
            whole
            | {
                "datetime": f"2026-11-{run + 1:02}T00:00:00",
                "benchmarks": [
                    one
                    | {
                        "name": "test_x",
                        "fullname": f"{test}.py::test_x",
                        "stats": one["stats"] | {"data": [value(test, run) * 1e-9] * 3},
                    }
                    for test in ((A,) if run % 3 else (A, B))
                ],
            }
        )

    names = []
    for run in range(RUNS):
        names.append(f"p{run}.json")
        Path(names[-1]).write_text(text(run))
    wanted = answers(capsys, *names)
    assert sorted(map(len, wanted)) == [RUNS - 10, RUNS]
    assert answers(capsys, *shuffled(names)) == wanted
    for name in shuffled(names):
        document(capsys, "history", "add", name, "--file", "h.db")
    assert answers(capsys, "h.db") == answers(capsys, "h.db", *names) == wanted


@pytest.mark.parametrize("order", [list, shuffled, lambda names: names[::-1]])
def test_a_history_file_and_files_are_the_same_series(
    order: Callable[[Files], Files],
    files: Callable[[Text], Files],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names, wanted = files(packages), expected(packages, A, B)
    for at, name in enumerate(order(names)):
        document(capsys, "history", "add", name, "--file", "h.db")
        if at in (0, 7, RUNS - 1):
            assert answers(capsys, "h.db", *names) == wanted
            assert answers(capsys, *names, "h.db") == wanted
    assert answers(capsys, "h.db") == wanted
    assert document(capsys, "history", "add", *names, "--file", "h.db")["new"] == 0


def test_a_stored_history_keeps_its_series_and_its_accepted_steps(
    files: Callable[[Text], Files], capsys: pytest.CaptureFixture[str]
) -> None:
    names = files(lambda run: f"pkg: {A}\nBenchmarkSum-2 9 {value(A, run)} ns/op\n")
    last = names.pop()
    document(capsys, "history", "add", *names, "--file", "h.db")
    # As a file of an earlier version, which knows no full names.
    with closing(sqlite3.connect("h.db")) as database, database:
        database.execute("DROP TABLE full_name")
    document(capsys, "history", "accept", "Sum-2/1", "--reason", "r", "--file", "h.db", "h.db")
    (before,) = document(capsys, "history", "h.db")["series"]
    Path("b.txt").write_text(f"pkg: {B}\nBenchmarkSum-2 9 5000 ns/op\n")
    assert len(answers(capsys, "h.db", *names, "b.txt")) == 2
    document(capsys, "history", "add", last, "--file", "h.db")
    added = document(capsys, "history", "add", *names, "b.txt", "--file", "h.db")
    assert (added["new"], added["replaced"], added["known"]) == (1, 0, RUNS - 1)
    one, other = document(capsys, "history", "h.db")["series"]
    assert (one["test"], other["test"]) == ("Sum-2", f"{B}.Sum-2")
    assert (len(one["points"]), len(other["points"])) == (RUNS, 1)
    assert one["id"] == before["id"]
    assert one["steps"][0]["accepted"]["reason"] == "r"
