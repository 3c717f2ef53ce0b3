"""`bw plot STUDY -o FILE`: the chart that fits each kind of study, of stored studies."""

from __future__ import annotations

import contextlib
import re
import tarfile
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.features.search.requests import RampRequest
from benchwright.features.search.session import search_info
from benchwright.study.journal import Study

REPOSITORY = Path(__file__).parents[2]
STUDIES = REPOSITORY / "tests" / "data" / "studies-0.1"
ARMS = REPOSITORY / "docs" / "images" / "data" / "arms.tar.xz"


def unpacked(archive: Path, where: Path) -> str:
    """Unpack a study; return its name."""
    with tarfile.open(archive) as file:
        file.extractall(where, filter="data")
    return archive.name.partition(".")[0]


def texts_of(picture: Path) -> set[str]:
    """Return the texts in an SVG of matplotlib, which writes them as comments."""
    return set(re.findall(r"<!-- (.*?) -->", picture.read_text()))


def drawn(archive: Path, where: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> set[str]:
    """Draw a stored study without a name or a mode; return the texts of the picture."""
    monkeypatch.chdir(where)
    assert main(["plot", unpacked(archive, where), "-o", "x.svg", *more]) == 0
    return texts_of(where / "x.svg")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("run", {"Elapsed (s)", "n"}),
        ("crashed", {"nap", "trials", "estimate, 95 % interval"}),
        ("compare", {"ratio to short", "elapsed", "undecided", "null run"}),
        ("load", {"Issue error", "service", "response"}),
        ("peak", {"Response against rate", "holds", "peak"}),
        ("interrupted-peak", {"Response against rate", "Cost of each trial, 1 s together"}),
        ("ramp", {"Throughput", "Cost of each trial, 5 s together"}),
        ("surface", {"Peak rate [1/s]", "workers"}),
    ],
)
def test_each_kind_of_study_has_its_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, texts: set[str]
) -> None:
    found = drawn(STUDIES / f"{name}.tar.xz", tmp_path, monkeypatch)
    assert texts <= found, found


def test_a_mode_is_kept_and_a_single_series_has_no_legend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = STUDIES / "run.tar.xz"
    assert "run" not in drawn(archive, tmp_path, monkeypatch)
    words = ("--mode", "strip", "--components", "Elapsed")
    assert "median" in drawn(archive, tmp_path, monkeypatch, *words)


def test_a_comparison_has_a_row_for_each_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drawn(ARMS, tmp_path, monkeypatch)
    assert {"gzip-5 elapsed", "gzip-4 elapsed", "ratio to gzip-6", "faster"} <= found


def test_an_option_of_tests_draws_the_tests_of_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drawn(ARMS, tmp_path, monkeypatch, "--ylabel", "seconds")
    assert "seconds" in found
    assert "ratio to gzip-6" not in found


def test_the_resources_of_a_study_have_a_row_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drawn(ARMS, tmp_path, monkeypatch, "--mode", "use")
    assert "CPU ≤ 100 %" in found
    assert "time [s]" in found
    unwatched = drawn(STUDIES / "peak.tar.xz", tmp_path, monkeypatch, "--mode", "use")
    assert "no series was recorded" in unwatched


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["A", "arms"], "--mode use draws one study"),
        (["arms", "--ok-status", "0,1"], "--ok-status is not for --mode use"),
        (["arms", "--components", "user"], "--components is not for --mode use"),
        (["arms", "--ymax", "2"], "--ymax is not for --mode use"),
        (["arms.csv"], "'arms.csv' is no study"),
        (["arms@9"], "arms@9: there is no session 9"),
    ],
)
def test_resources_are_those_of_one_study(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    unpacked(ARMS, tmp_path)
    assert main(["plot", "--mode", "use", *words, "-o", "x.png"]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--json"], ["--datafile", "x.csv"]])
def test_the_numbers_of_a_search_are_elsewhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    name = unpacked(STUDIES / "peak.tar.xz", tmp_path)
    assert main(["plot", name, *option]) == 2
    assert f"{option[0]}: " in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_a_session_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = unpacked(STUDIES / "peak.tar.xz", tmp_path)
    assert main(["plot", f"{name}@9", "-o", "x.png"]) == 2
    assert "there is no session 9" in capsys.readouterr().err


def test_a_search_without_a_load_has_no_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    request = RampRequest(command="gen {users}", throughput="/tps")
    with contextlib.closing(Study.create_or_open(tmp_path / "s")) as study:
        study.begin_session(search_info("ramp", request, None, ()))
    assert main(["plot", "s", "-o", "x.png"]) == 2
    assert "[empty-series]" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()
