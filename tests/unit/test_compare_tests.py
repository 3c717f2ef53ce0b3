"""`bw compare` of stored results with several tests: each is compared, and they are judged together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchwright.api import compare
from benchwright.cli import compare_stored
from benchwright.cli.main import main
from benchwright.findings.codes import make_finding
from benchwright.stats.input_comparison import benjamini_hochberg, holm
from benchwright.study.parsers.api import ParsedInput

SECONDS = {"sort": 0.1, "gzip": 0.02, "xz": 2.0, "cat": 0.001}


def hyperfine(path: Path, factors: Mapping[str, float], seed: int) -> Path:
    """Write a file of hyperfine with 40 times of each test; without times for a factor of 0."""
    rng = np.random.default_rng(seed)
    results = []
    for name, factor in factors.items():
        times = SECONDS[name] * factor * rng.normal(1, 0.01, 40)
        mean = SECONDS[name] if factor == 0 else float(times.mean())
        one: dict[str, Any] = {"command": name, "mean": mean, "stddev": 0.01 * mean}
        one |= {"median": mean, "user": 0.1, "system": 0.1, "min": mean, "max": mean}
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
    ("gate", "adjusted"),
    [((), benjamini_hochberg), (("--fail-if", "slower by 3%"), holm)],
)
def test_tests_of_the_same_name_are_judged_together(
    files: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    gate: tuple[str, ...],
    adjusted: Any,
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
        # One that is gone is only named.
        ({"sort": 1.0, "xz": 1.0}, True, 0),
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
    assert [line.split()[0] for line in lines[:4]] == ["TEST", "sort", "gzip", "xz"]
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


def test_three_inputs_have_two_candidates(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyperfine(tmp_path / "third.json", {"sort": 1.3, "gzip": 1.0}, seed=4)
    shown = document(capsys, *files, "third.json")
    found = {
        (one["test"], one["candidate"]): one["verdict"] for one in shown["verdicts"]
    }
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

    def with_finding(texts: list[str]) -> list[ParsedInput]:
        first, *others = read(texts)
        about = (lost,) if texts == ["new.json"] else ()
        replaced = msgspec.structs.replace(
            first, name=f"{first.name} {texts[0]}", session_findings=about
        )
        return [replaced, *others]

    monkeypatch.setattr(compare_stored, "read_inputs", with_finding)
    found = compare_stored.compared_inputs(files)
    assert [test.name for test in found.tests] == ["xz"]
    assert found.about == (lost,)
