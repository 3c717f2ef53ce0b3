"""Results of `go test -bench`: configuration, results split by output, events of `-json`."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.errors import InputError
from benchwright.features.history.foreign_runs import imported_runs
from benchwright.findings.examine import compute_findings
from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_history, read_inputs

FILES = Path(__file__).parents[1] / "golden" / "foreign"
_VALUE = re.compile(r"([0-9.]+) ns/op")


def written(folder: Path, text: str) -> str:
    file = folder / "bench.txt"
    file.write_text(text)
    return str(file)


def times(tests: list[TestResult]) -> dict[str, list[float]]:
    """Return the times of each test [ns], to a tenth."""
    return {
        one.name: [round(block.values["elapsed"] * 1e9, 3) for block in one.blocks] for one in tests
    }


def not_read(tests: list[TestResult]) -> list[str]:
    """Return what was not read, without the file."""
    (found,) = tests[0].session_findings
    assert found.code == "results-not-read"
    return re.findall(r"(?:\.txt|\.jsonl):([0-9]+: [^;]*)", found.evidence)


# -- Configuration ----------------------------------------------------------------------

PART = "{key}: {value}\nBenchmarkSum-4 100 {time} ns/op\n"


@pytest.mark.parametrize("key", ["cpu", "commit", "note", "goos", "branch", "a/b.c"])
def test_configuration_separates_the_results_behind_it(key: str, tmp_path: Path) -> None:
    parts = ((1, "old"), (2, "old"), (3, "new one"), (1.5, "old"))
    text = "".join(PART.format(key=key, value=value, time=at) for at, value in parts)
    tests = read_inputs([written(tmp_path, f"goarch: amd64\n{text}")])
    assert times(tests) == {f"Sum-4:{key}=old": [1.0, 2.0, 1.5], f"Sum-4:{key}=new one": [3.0]}
    assert [dict(one.sample)[key] for one in tests] == ["old", "new one"]


def test_configuration_that_all_results_of_a_name_share_is_not_in_the_name(tmp_path: Path) -> None:
    text = (
        "cpu: A\npkg: p/a\nBenchmarkSum-4 1 1 ns/op\nBenchmarkOne 1 2 ns/op\n"
        "pkg: p/b\nBenchmarkSum-4 1 3 ns/op\nnote: x\nBenchmarkSum-4 1 4 ns/op\n"
        "note:\nBenchmarkTwo 1 5 ns/op\nat c.go:3:4: no blank\nBenchmarkTwo 1 6 ns/op\n"
    )
    assert times(read_inputs([written(tmp_path, text)])) == {
        "p/a.Sum-4": [1.0],
        "One": [2.0],
        "p/b.Sum-4": [3.0],
        "p/b.Sum-4:note=x": [4.0],
        "Two": [5.0, 6.0],
    }


@pytest.mark.parametrize("key", ["commit", "note", "date"])
def test_commits_and_notes_are_runs_of_a_history_in_the_order_of_the_file(
    key: str, tmp_path: Path
) -> None:
    values = ["2026-01-02", "2026-01-01", "2026-01-03"]
    text = "".join(PART.format(key=key, value=value, time=at) for at, value in enumerate(values, 1))
    runs = imported_runs(read_history([written(tmp_path, f"cpu: A\n{text}")]))
    points = [point for run in runs for _, point in run.points]
    points.sort(key=lambda one: one.started_ns)
    assert {key.test for run in runs for key, _ in run.points} == {"Sum-4"}
    order = [2, 1, 3] if key == "date" else [1, 2, 3]
    assert [round(one.estimate * 1e9) for one in points] == order
    assert len({one.run for one in points}) == 3
    if key == "commit":
        assert [one.commit for one in points] == values


# -- Output between the name and the values ------------------------------------------------


@pytest.mark.parametrize(
    ("name", "printing"),
    [
        ("go-printing.txt", {"Log-2", "Bare-2", "Err-2", "Sub/n=1-2", "Sub/n=10-2"}),
        ("go-printing.jsonl", {"Bare-2"}),
    ],
)
def test_results_are_read_whatever_their_benchmarks_print(name: str, printing: set[str]) -> None:
    file = FILES / name
    text = file.read_text()
    if name.endswith("jsonl"):
        events = map(json.loads, text.splitlines())
        text = "".join(one.get("Output", "") for one in events)
    # Each value of the file, in order, whichever lines it and its name are on.
    expected = [round(float(value), 3) for value in _VALUE.findall(text)]
    tests = read_inputs([str(file)])
    found = times(tests)
    assert sorted(at for values in found.values() for at in values) == sorted(expected)
    assert list(found) == [
        *("example.com/m/b.Sum-2", "Log-2", "Bare-2", "Err-2", "Note-2"),
        *("Sub/n=1-2", "Sub/n=10-2", "example.com/m/c.Sum-2"),
    ]
    assert {len(values) for values in found.values()} == {2}
    named = [one.partition(": ")[2] for one in not_read(tests)]
    split = {one for one in named if one.startswith("output of ")}
    inside = "output of Benchmark{}, inside of its result"
    assert split == {inside.format(one) for one in printing}
    assert [one for one in named if one not in split] == [
        "the package example.com/m/a failed: build failed",
        "BenchmarkFails failed",
        "the package example.com/m/c failed",
        "the package example.com/m/d failed",
    ]


def test_a_result_that_cannot_be_put_together_is_named(tmp_path: Path) -> None:
    text = (
        "BenchmarkGood-2 \t 100 \t 5 ns/op\n"
        "BenchmarkStops-2 \tworking\n"
        "BenchmarkPrints-2 \t12 things\n"
        "done 100\t 7 ns/op\t 3 B/op\n"
        "     100\t 8 ns/op\n"
        "BenchmarkNoTime-2 \thello\n"
        "     100\t 9 widgets\n"
    )
    tests = read_inputs([written(tmp_path, text)])
    assert times(tests) == {"Good-2": [5.0], "Prints-2": [7.0]}
    assert tests[1].blocks[0].values["B/op"] == 3
    assert not_read(tests) == [
        "2: BenchmarkStops-2 has no values",
        "3: output of BenchmarkPrints-2, inside of its result",
        "5: 8 ns/op, without the name of a benchmark",
        "6: BenchmarkNoTime-2 has no values",
    ]


def test_a_benchmark_that_failed_is_said_to_have_failed_once(tmp_path: Path) -> None:
    failed = "BenchmarkZ-2 \t--- FAIL: BenchmarkZ-2\n    x_test.go:8: mid\n"
    prints = "BenchmarkY-2 \tworking\n--- FAIL: BenchmarkY-2\n    x_test.go:8: mid\n"
    cut = "BenchmarkX-2 \t"
    text = f"BenchmarkGood-2 \t 100 \t 5 ns/op\n{failed * 3}{prints * 2}{cut}"
    assert not_read(read_inputs([written(tmp_path, text)])) == [
        "2: BenchmarkZ-2 failed (3 times)",
        "9: BenchmarkY-2 failed (2 times)",
        "14: BenchmarkX-2 has no values",
    ]


@pytest.mark.parametrize("procs", ["", "-2"])
def test_a_benchmark_that_failed_has_no_value_in_its_run(procs: str, tmp_path: Path) -> None:
    good = "BenchmarkA-2 \t 9 \t 5 ns/op\n"
    broken = f"--- FAIL: BenchmarkB/n=1{procs}\n--- FAIL: BenchmarkB\n"
    partly = f"BenchmarkA-2 \t--- FAIL: BenchmarkA{procs}\n"
    text = f"commit: 1\n{good}BenchmarkB/n=1-2 \t 9 \t 5 ns/op\ncommit: 2\n{good}{broken}{partly}"
    runs = imported_runs(read_history([written(tmp_path, text)]))
    assert [[key.test for key, _ in run.points] for run in runs] == [["A-2", "B/n=1-2"], ["A-2"]]
    without = [[(one.test, one.failed) for one in run.without] for run in runs]
    assert without == [[], [("B/n=1-2", True)]]
    again = imported_runs(read_history([written(tmp_path, text + broken)]))
    assert "2 trials failed" in again[1].without[0].why


def test_events_of_two_packages_at_once_are_put_together(tmp_path: Path) -> None:
    def event(package: str, output: str) -> str:
        words = {"Action": "output", "Package": package, "Output": output}
        return json.dumps({"Time": "t", **words}).replace('": "', '":"')

    lines = [
        '{"ImportPath":"c","Action":"build-output","Output":"# c"}',
        "go: downloading example.com/x v1.0.0",
        event("a", "cpu: A\n"),
        event("b", "cpu: B\n"),
        event("a", "BenchmarkSum \t"),
        event("b", "BenchmarkSum \tlog\n"),
        event("a", "10\t 1 ns/op\n"),
        event("b", "10\t 2 ns/op\nBenchmarkCut \t 10\t 3 ns/op"),
        event("a", "BenchmarkLate 1 4 ns/op\n")[:-9],
    ]
    tests = read_inputs([written(tmp_path, "\n".join(lines))])
    assert times(tests) == {"Sum:cpu=A": [1.0], "Sum:cpu=B": [2.0], "Cut": [3.0]}
    assert not_read(tests) == [
        "6: output of BenchmarkSum, inside of its result",
        "9: an event of go test -json that is damaged",
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("Benchmark" * 11_000, "1" * 100_000, "1\t" * 50_000, "a" * 100_000 + ":"),
        *("BenchmarkA \t" * 9_000, "1 x " * 25_000, "1\t" + "2 x " * 25_000, "\t" * 100_000),
        *(" " * 100_000, "1 " * 50_000 + "ns/op", "Benchmark" + " 1" * 50_000),
    ],
    ids=lambda line: repr(line[:12]),
)
def test_a_line_of_100_000_characters_is_read_in_linear_time(line: str, tmp_path: Path) -> None:
    """An expression that is not linear needs hours for it."""
    text = f"goos: linux\n{line}\nBenchmarkSum 1 2 ns/op\n"
    wrong: set[int] = set()
    found = {"Sum": [2.0]}
    try:
        found = times(read_inputs([written(tmp_path, text)]))
    except InputError as error:
        wrong = {one.line for one in error.diagnostics}
    assert found["Sum"] == [2.0]
    assert wrong == ({2} if line.startswith("Benchmark 1") else set())


def test_a_file_that_begins_with_errors_of_the_build_is_recognised(tmp_path: Path) -> None:
    errors = "a.go:1:2: undefined: b\n" * 20
    text = f"# example.com/a\n{errors}goos: linux\nhello\nBenchmarkSum 1 2 ns/op\n"
    assert times(read_inputs([written(tmp_path, text)])) == {"Sum": [2.0]}


def test_exact_values_differ_whatever_the_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`1000000` and `1000001` are equivalent within each margin, and still not equal."""
    files = []
    for name, sizes in (("a.txt", (1_000_000, 7)), ("b.txt", (1_000_001, 7))):
        lines = [
            f"Benchmark{test}-2 1 10{at} ns/op {size} size-B"
            for test, size in zip("AB", sizes, strict=True)
            for at in range(5)
        ]
        (tmp_path / name).write_text("\n".join(["Unit size-B assume=exact", *lines]))
        files.append(str(tmp_path / name))
    main(["compare", *files, "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert {one["metric"] for one in shown["verdicts"]} == {"elapsed"}
    found = {one["code"]: one for one in shown["findings"]}["exact-value-differs"]
    assert found["subject"] == "A-2 size-B"
    assert found["evidence"] == "A-2 size-B: 1,000,000, then 1,000,001"


@pytest.mark.parametrize("place", ["before", "behind"])
def test_an_exact_unit_has_no_statistics(place: str, tmp_path: Path) -> None:
    lines = [
        f"Benchmark{name}-2 1 10{at} ns/op {size} size-B"
        for name, sizes in (("A", (500, 500, 500)), ("B", (500, 501, 501)))
        for at, size in enumerate(sizes)
    ]
    units = ["Unit size-B assume=exact better=higher", "Unit ns/op assume=nothing"]
    path = tmp_path / "bench.txt"
    path.write_text("\n".join(units + lines if place == "before" else lines + units))
    one, other = read_inputs([str(path)])
    (size,) = one.summaries
    assert (size.name, size.mean, size.count) == ("size-B", 500, 3)
    assert math.isnan(size.half_width)
    assert {spec.name: spec.better for spec in one.specs}["size-B"] == "higher"
    assert other.summaries == ()
    for test in (one, other):
        assert [[*block.values] for block in test.blocks] == [["elapsed"]] * 3
    (found,) = one.session_findings
    line = 1 + (0 if place == "before" else len(lines))
    assert f"bench.txt:{line}: size-B of BenchmarkB-2 is from" in found.evidence


@pytest.mark.parametrize(
    ("end", "is_read"),
    [
        *((end, False) for end in ("2 a", "2 allocs/o", "20", "20 n", "9 own", "9 B")),
        *((end, True) for end in ("2 allocs/op", "7 B/op", "9 own/op", "8 MB/s")),
    ],
)
def test_a_last_line_that_is_cut_is_named(end: str, *, is_read: bool, tmp_path: Path) -> None:
    text = "BenchmarkA 100 5 ns/op 4 own/op\nBenchmarkB 100 5 ns/op "
    tests = read_inputs([written(tmp_path, text + end)])
    assert [one.name for one in tests] == ["A", "B"][: 1 + is_read]
    if is_read:
        assert not tests[0].session_findings
    else:
        assert not_read(tests) == ["2: BenchmarkB, whose line is cut"]


def test_a_loop_whose_work_was_removed_has_a_finding(tmp_path: Path) -> None:
    text = "".join(f"BenchmarkSum-2 \t1000000000\t 0.25{n} ns/op\n" for n in range(5))
    [test] = read_inputs([written(tmp_path, f"goos: linux\n{text}")])
    assert "work-removed" in [finding.code for finding in compute_findings(test)]
