"""What `bw export` writes, `bw stats` reads again with the same figures."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

STUDY = Path(__file__).parents[1] / "data" / "studies-0.1" / "compare.tar.xz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack the stored comparison into the working directory."""
    with tarfile.open(STUDY) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def figures(source: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the elapsed time of each test, in the order of the source."""
    assert main(["stats", source, "--json"]) == 0, capsys.readouterr().err
    document = json.loads(capsys.readouterr().out)
    return [
        line
        for one in document["inputs"]
        for line in one["quantities"]
        if line["name"] == "elapsed"
    ]


@pytest.mark.parametrize("name", ["hyperfine", "pyperf", "benchfmt", "jmh", "google-benchmark"])
def test_trials_survive_the_round_trip(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["export", "compare", "--format", name, "-o", "out"]) == 0
    before, after = figures("compare", capsys), figures("out", capsys)
    assert len(after) == len(before) == 2
    for one, other in zip(before, after, strict=True):
        assert (other["count"], other["unit"]) == (10, "s")
        for member in ("mean", "median", "min", "max", "low", "high"):
            assert other[member] == pytest.approx(one[member], rel=1e-6), member


def test_a_result_of_a_series_survives_the_round_trip(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "compare", "--format", "otava", "-o", "out.yaml"]) == 0
    before = [one["mean"] for one in figures("compare", capsys)]
    after = [figures(f"compare-{arm}.csv", capsys)[0]["mean"] for arm in ("short", "long")]
    assert after == pytest.approx(before)
    wanted = ["--format", "github-action-benchmark", "--metric", "elapsed"]
    assert main(["export", "compare", *wanted, "-o", "out"]) == 0
    assert [one["mean"] for one in figures("out", capsys)] == pytest.approx(before)
