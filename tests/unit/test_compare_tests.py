"""`bw compare` of stored results with several tests: each is compared, and they are judged
together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from benchwright.api import compare
from benchwright.cli.main import main
from benchwright.findings.codes import make_finding
from benchwright.findings.result import TestResult
from benchwright.results import stored_comparison as compare_stored
from benchwright.stats.input_comparison import benjamini_hochberg, holm

SECONDS = {"sort": 0.1, "gzip": 0.02, "xz": 2.0, "cat": 0.001}


def hyperfine(path: Path, factors: Mapping[str, float], seed: int) -> Path:
    """Write a file of hyperfine with 40 times of each test; without times for a factor of 0."""
    rng = np.random.default_rng(seed)
    results = []
    for name, factor in factors.items():
        times = SECONDS[name] * factor * rng.normal(1, 0.01, 40)
        mean = SECONDS[name] if factor == 0 else float(times.mean())
        one: dict[str, Any] = {"command": name, "mean": mean, "stddev": 0.01 * mean}
        one |= {"median": mean, "user": 0.7 * mean, "system": 0.1 * mean}
        one |= {"min": mean, "max": mean}
        if factor:
            one |= {"times": times.tolist(), "exit_codes": [0] * len(times)}
        results.append(one)
    path.write_text(json.dumps({"results": results}))
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two files: of the tests that both have, one is slower, one faster, one the same."""
    monkeypatch.chdir(tmp_path)
    old = {"sort": 1.0, "gzip": 1.0, "xz": 1.0}
    new = {"gzip": 1.0, "xz": 0.8, "sort": 1.1, "cat": 1.0}
    hyperfine(tmp_path / "old.json", old, seed=1)
    hyperfine(tmp_path / "new.json", new, seed=2)
    return "old.json", "new.json"


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main(["compare", *words, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("gate", "adjusted"), [((), benjamini_hochberg), (("--fail-if", "slower by 3%"), holm)]
)
def test_tests_of_the_same_name_are_judged_together(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], gate: tuple[str, ...], adjusted: Any
) -> None:
    shown = document(capsys, *files, *gate)
    judged = [one for one in shown["verdicts"] if one["judged"]]
    verdicts = {one["test"]: one["verdict"] for one in judged}
    assert verdicts == {"sort": "slower", "gzip": "equivalent", "xz": "faster"}
    assert judged[0]["baseline"] == "old.json:sort"
    assert judged[0]["candidate"] == "new.json:sort"
    p_values = [one["p"] for one in judged]
    assert [one["p_adjusted"] for one in judged] == pytest.approx(adjusted(p_values))
    alone = document(capsys, *(f"{file}:sort" for file in files), *gate)
    assert alone["verdicts"][0]["ratio"] == judged[0]["ratio"]
    assert alone["verdicts"][0]["p"] == judged[0]["p"]
    assert alone["verdicts"][0]["adjustment"] == "none"
    assert shown["only_in"] == {"new.json": ["cat"]}
    assert "only_in" not in alone


def test_many_tests_without_a_difference_are_rarely_called_different(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of 60 equal tests has P < 0.04 by itself in nearly every comparison."""
    monkeypatch.chdir(tmp_path)
    names = [f"t{number}" for number in range(60)]
    monkeypatch.setattr(f"{__name__}.SECONDS", dict.fromkeys(names, 0.1))
    same = dict.fromkeys(names, 1.0)
    for seed, name in enumerate(("a.json", "b.json"), 3):
        hyperfine(tmp_path / name, same, seed)
    shown = document(capsys, "a.json", "b.json", "--margin", "0.01%")
    p_values = [one["p"] for one in shown["verdicts"] if one["judged"]]
    assert min(p_values) < 0.04
    verdicts = {one["verdict"] for one in shown["verdicts"] if one["judged"]}
    assert verdicts == {"undecided"}


@pytest.mark.parametrize(
    ("new", "accept", "status"),
    [
        ({"sort": 1.0, "gzip": 0.9}, True, 0),
        ({"sort": 1.2, "gzip": 1.0}, True, 1),
        # The files were measured at different times.
        ({"sort": 1.2, "gzip": 1.0}, False, 3),
        # A test without values has not passed.
        ({"sort": 1.0, "gzip": 0.0}, True, 3),
        ({"sort": 1.2, "gzip": 0.0}, True, 1),
        # Nor has one that is gone.
        ({"sort": 1.0, "xz": 1.0}, True, 3),
    ],
)
def test_one_failed_test_fails_the_gate(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    new: dict[str, float],
    accept: bool,
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    hyperfine(tmp_path / "old.json", {"sort": 1.0, "gzip": 1.0}, seed=1)
    hyperfine(tmp_path / "new.json", new, seed=2)
    words = ["compare", "old.json", "new.json", "--fail-if", "slower by 5%"]
    words += ["--accept", "not-interleaved"] if accept else []
    assert main([*words, "--junit", "gate.xml"]) == status
    shown = capsys.readouterr().out
    report = Path("gate.xml").read_text()
    assert ("<failure" in report) == (status == 1)
    assert ("<error" in report) == (status == 3 or 0.0 in new.values())
    if 0.0 in new.values():
        assert "gzip is not compared: new.json contains estimates" in shown
    if "xz" in new:
        assert "only in old.json: gzip" in shown
        assert "only in new.json: xz" in shown


def test_the_table_has_a_row_for_each_test(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *files]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["test", "sort", "gzip", "xz"]
    assert "new.json against old.json, 3 tests: 1 slower, 1 faster, 1 equiv" in shown
    assert "new.json:xz is 2" in shown
    assert "only in new.json: cat" in shown


def test_a_single_test_of_one_input_is_compared_with_its_own_in_the_other(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = document(capsys, f"{files[0]}:sort", files[1])
    assert {one["test"] for one in shown["verdicts"]} == {"sort"}
    assert shown["only_in"] == {"new.json": ["gzip", "xz", "cat"]}


def test_inputs_without_a_common_test_are_refused_with_their_tests(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyperfine(tmp_path / "cat.json", {"cat": 1.0}, seed=3)
    assert main(["compare", files[0], "cat.json"]) == 2
    shown = capsys.readouterr().err
    assert "no test is in all inputs" in shown
    assert "old.json: sort, gzip, xz; cat.json: cat" in shown
    hyperfine(tmp_path / "sort.json", {"sort": 0.0, "cat": 1.0}, seed=3)
    assert main(["compare", files[0], "sort.json"]) == 2
    shown = capsys.readouterr().err
    assert "sort: sort.json contains estimates by hyperfine" in shown
    assert "Let the tool write its values" in shown
    assert main(["compare", files[0], files[0]]) == 2
    assert "are the same trials" in capsys.readouterr().err


def test_files_that_differ_only_in_other_tests_are_compared(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = json.loads((tmp_path / files[0]).read_text())
    [other] = json.loads(hyperfine(tmp_path / "cat.json", {"cat": 1.0}, seed=3).read_text())[
        "results"
    ]
    more["results"].append(other)
    (tmp_path / "more.json").write_text(json.dumps(more))
    shown = document(capsys, files[0], "more.json")
    assert {one["verdict"] for one in shown["verdicts"]} == {"equivalent"}
    assert shown["only_in"] == {"more.json": ["cat"]}


def test_a_missing_study_is_named_whatever_its_test_is_called(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["nothing:my test", files[0]], ["nothing:my test", "nothing:b c"]):
        assert main(["compare", *words]) == 2
        shown = capsys.readouterr().err
        assert "nothing:my test: No such file or directory" in shown
        assert "compare -- " not in shown


def test_three_inputs_have_two_candidates(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyperfine(tmp_path / "third.json", {"sort": 1.3, "gzip": 1.0}, seed=4)
    shown = document(capsys, *files, "third.json")
    found = {(one["test"], one["candidate"]): one["verdict"] for one in shown["verdicts"]}
    assert found["sort", "third.json:sort"] == "slower"
    assert shown["only_in"] == {"old.json": ["xz"], "new.json": ["xz", "cat"]}
    main(["compare", *files, "third.json"])
    assert "new.json and third.json against old.json" in capsys.readouterr().out


def test_studies_and_the_python_api_compare_all_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for study in ("one", "two"):
        run = ["run", "--quiet", "--runs", "3", "--study", study, "-P", "n=1,2"]
        assert main([*run, "true {n}"]) == 0
    capsys.readouterr()
    shown = document(capsys, "one", "two")
    assert shown["arms"] == ["one", "two"]
    assert shown["exit_status"] == 3, "3 trials decide nothing"
    found = compare(Path("one"), Path("two"))
    assert {one.test for one in found.verdicts} == {"true:n=1", "true:n=2"}


def test_findings_about_a_session_count_though_its_first_test_is_not_compared(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first test of a session brings them along."""
    lost = make_finding("errors-in-kernel-log", "session 1", "an error")
    read = compare_stored.read_inputs

    def with_finding(texts: list[str], **options: Any) -> list[TestResult]:
        first, *others = read(texts, **options)
        about = (lost,) if texts == ["new.json"] else ()
        replaced = msgspec.structs.replace(
            first, name=f"{first.name} {texts[0]}", session_findings=about
        )
        return [replaced, *others]

    monkeypatch.setattr(compare_stored, "read_inputs", with_finding)
    found = compare_stored.compared_inputs(files)
    assert [test.name for test in found.tests] == ["xz"]
    assert found.about == (lost,)


def _go(path: str, *results: tuple[str, float]) -> None:
    """Write 12 results of `Same` for each package."""
    lines = []
    for package, base in results:
        lines.append(f"pkg: {package}")
        lines += [f"BenchmarkSame 9 {base + at % 3} ns/op" for at in range(12)]
    Path(path).write_text("\n".join(lines) + "\n")


def _pytest(path: str, *results: tuple[str, float]) -> None:
    found = [
        {
            "name": "test_same",
            "fullname": f"{where}::test_same",
            "params": None,
            "stats": {"data": [(base + at % 3) * 1e-9 for at in range(12)]},
        }
        for where, base in results
    ]
    about = {"machine_info": {}, "commit_info": {}, "version": "5.1.0"}
    Path(path).write_text(json.dumps({**about, "benchmarks": found}))


@pytest.mark.parametrize("write", [_go, _pytest])
def test_a_test_is_matched_by_its_full_name_whatever_else_its_file_has(
    write: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write("both", ("e.org/a", 100.0), ("e.org/b", 200.0))
    write("b", ("e.org/b", 2000.0))
    for files, ratio in ((("both", "b"), 10), (("b", "both"), 0.1)):
        shown = document(capsys, *files)
        (judged,) = [one for one in shown["verdicts"] if one["judged"]]
        assert judged["test"].startswith("e.org/b")
        assert judged["ratio"]["value"] == pytest.approx(ratio, rel=0.1)
        assert [len(names) for names in shown["only_in"].values()] == [1]


def test_a_gate_does_not_pass_where_a_test_of_the_baseline_is_missing(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = files
    gate = ["--fail-if", "slower by 900%", "--accept", "not-interleaved"]
    assert main(["compare", old, new, *gate]) == 0, "a new test decides nothing"
    assert main(["compare", new, old, *gate]) == 3
    assert "cat" in capsys.readouterr().out
    assert main(["compare", new, old, *gate, "--accept", "test-missing"]) == 0


@pytest.mark.parametrize(
    ("shift", "why"), [(0, ""), (14, "P = 0.078"), (15.4, "P = 0.046 is above 4 %"), (30, "")]
)
def test_an_undecided_test_whose_interval_excludes_1_says_why(
    shift: float, why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rng = random.Random(1)
    old, new = ([1000 + rng.gauss(0, 20) for _ in range(30)] for _ in range(2))
    paths = [tmp_path / "old.txt", tmp_path / "new.txt"]
    for path, times, more in zip(paths, (old, new), (0, shift), strict=True):
        path.write_text(
            "".join(
                f"BenchmarkMoved 1 {one + more} ns/op\nBenchmarkSame 1 {one} ns/op\n"
                for one in times
            )
        )
    main(["compare", *map(str, paths)])
    shown = capsys.readouterr().out
    sentences = [one for one in shown.splitlines() if ": undecided (" in one]
    assert len(sentences) == bool(why)
    for one in sentences:
        assert "Moved against" in one
        assert why in one


def test_a_gates_case_in_junit_has_the_findings_that_concern_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hyperfine(tmp_path / "old.json", {"sort": 1.0, "gzip": 1.0, "cat": 1.0}, seed=1)
    hyperfine(tmp_path / "new.json", {"sort": 1.0, "gzip": 1.0, "xz": 1.0}, seed=2)
    words = ["compare", "old.json", "new.json", "--fail-if", "slower by 5%"]
    assert main([*words, "--junit", "gate.xml"]) == 3
    root = ElementTree.fromstring(Path("gate.xml").read_text())
    suite = root.find("testsuite")
    assert suite is not None
    cases = {
        (case.get("classname") or "").rpartition(":")[2]: case.findtext("system-out")
        for case in suite.findall("testcase[@name='not slower by 5%']")
    }
    assert set(cases) == {"sort", "gzip", "cat"}
    for test, own in cases.items():
        assert own
        others = set(cases) - {test}
        assert not any(other in line for line in own.splitlines() for other in others)
    assert "[test-missing]" in (cases["cat"] or "")
    assert "[not-interleaved]" in (cases["sort"] or "")
    every = suite.findtext("system-out") or ""
    assert all(test in every for test in cases)


def _with_bytes(path: str, kilobytes: int, *, in_all: bool = False) -> None:
    """Write 30 results of X, which has B/op, and of Y, which has it only if `in_all`."""
    lines = []
    for at in range(30):
        of_x = f"{kilobytes}000 B/op {9 + at % 3} pages/op"
        lines.append(f"BenchmarkX 9 {100 + at % 7} ns/op {of_x}")
        of_y = f" {kilobytes}000 B/op" if in_all else ""
        lines.append(f"BenchmarkY 9 {100 + at % 7} ns/op{of_y}")
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("metric", "status"), [("B/op", 1), ("pages/op", 0)])
def test_a_gate_is_on_any_metric_of_the_table_in_the_tests_that_have_it(
    metric: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _with_bytes("old", 1)
    _with_bytes("new", 2)
    gate = ["--fail-if", f"{metric} slower by 5%", "--accept", "not-interleaved"]
    assert main(["compare", "old", "new", *gate]) == status
    assert f"without {metric}: Y" in capsys.readouterr().out
    shown = document(capsys, "old", "new", *gate)
    assert [one["test"] for one in shown["gates"]] == ["X"]


@pytest.mark.parametrize("words", [("--fail-if", "C/op slower by 5%"), ("--metric", "C/op")])
def test_a_metric_that_no_input_has_is_refused_with_those_that_all_have(
    words: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _with_bytes("old", 1)
    _with_bytes("new", 2)
    assert main(["compare", "old:X", "new:X", *words]) == 2
    err = capsys.readouterr().err
    assert all(text in err for text in (words[0], "bad-argument", "B/op, pages/op"))


def test_a_gate_on_a_metric_that_only_the_baseline_has_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _with_bytes("old", 1, in_all=True)
    _with_bytes("new", 1)
    gate = ["--fail-if", "B/op slower by 5%", "--accept", "not-interleaved"]
    outcomes = {
        one["test"]: one["outcome"] for one in document(capsys, "old", "new", *gate)["gates"]
    }
    assert outcomes == {"X": "passed", "Y": "undecided"}


@pytest.mark.parametrize(("column", "verdict"), [("ops/s", "faster"), ("p50 ms", "slower")])
def test_every_name_of_a_table_can_be_a_metric_with_a_direction(
    column: str,
    verdict: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, level in (("old.csv", 100), ("new.csv", 130)):
        rows = (f"{level + at % 5 / 9}" for at in range(30))
        Path(name).write_text("\n".join([column, *rows]) + "\n")
    files = ["old.csv", "new.csv", "--accept", "not-interleaved"]

    def found(*words: str) -> tuple[str, list[str]]:
        shown = document(capsys, *files, *words)
        (one,) = shown["verdicts"]
        return one["verdict"], [gate["outcome"] for gate in shown["gates"]]

    assert found()[0] == verdict
    gate = ("--fail-if", f"{column} slower by 5%")
    assert found(*gate) == (verdict, ["passed" if verdict == "faster" else "failed"])
    higher = ("--metric", f"{column}:higher")
    assert found(*gate, *higher) == ("faster", ["passed"])
    lower = ("--metric", f"{column}:lower")
    assert found(*gate, *lower) == ("slower", ["failed"])
