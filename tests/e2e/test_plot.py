"""`bw plot` and `graphit` on results that were really measured, as programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

GRAPHIT = Path(__file__).parents[2] / "packaging" / "data" / "scripts" / "graphit"
BW = ("-m", "benchwright.cli.main")
Done = subprocess.CompletedProcess[str]


def python(directory: Path, *words: str, seed: str = "0") -> Done:
    """Run a Python program in a directory and return what it did."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "TkAgg"},
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure a command with two factors; return the directory with the study in it."""
    directory = tmp_path_factory.mktemp("plots")
    done = python(
        directory,
        *(*BW, "run", "--quiet", "--study", "s", "-P", "fs=ext2,xfs", "-P", "n=1,2,4"),
        *("--name", "t", "--min-runs", "12", "--max-runs", "12", "--", "echo", "{fs}{n}"),
    )
    assert done.returncode == 0, done.stderr
    return directory


SERIES = ("Ext2", "s:t:fs=ext2*", "Xfs", "s:t:fs=xfs*")


@pytest.mark.parametrize("mode", ["line", "bar", "ecdf", "violin", "strip", "epochs", "ratio"])
def test_every_mode_draws_a_real_study(study: Path, mode: str) -> None:
    done = python(
        study,
        *(*BW, "plot", "--mode", mode, "--components", "Elapsed", "--json"),
        *(f"--graphfile={mode}.svg", *SERIES),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    points = [point for series in document["series"] for point in series["points"]]
    assert len(points) == (3 if mode == "ratio" else 6)
    assert all(point["n"] == 12 and point["value"] > 0 for point in points)
    assert all(point["low"] <= point["value"] <= point["high"] for point in points)
    ET.parse(study / f"{mode}.svg")


def test_the_exported_results_are_drawn_like_the_study(study: Path) -> None:
    """The text files of a study hold the same numbers as its journal."""
    places = (("s:t:fs=xfs*",), ("s/results/s1/t:fs=xfs*.res",))
    found = [
        json.loads(python(study, *BW, "plot", "--json", "Xfs", *place).stdout)["series"]
        for place in places
    ]
    values = [[p["value"] for s in one for p in s["points"]] for one in found]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_graphit_is_installed_and_draws_as_the_paper_says(study: Path) -> None:
    done = python(
        study,
        *(str(GRAPHIT), "--mode=bar", "--ylabel", "Time (seconds)", "-f", "17"),
        *("--components=Elapsed,User,System", "--graphfile=pm.eps", "--rotate", "45"),
        *("Ext2", "s:t:fs=ext2:n=1", "Xfs", "s:t:fs=xfs:n=1"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (study / "pm.eps").read_bytes().startswith(b"%!PS-Adobe-3.0 EPSF-3.0\n")


def test_two_processes_write_the_same_bytes(study: Path) -> None:
    """Also with another order of hashing; a time would differ by seconds."""
    found = []
    for seed in ("1", "2"):
        forms = [f"--graphfile=same.{form}" for form in ("eps", "pdf", "svg", "png")]
        done = python(study, *BW, "plot", "--mode=bar", *forms, *SERIES, seed=seed)
        assert done.returncode == 0, done.stderr
        found.append([(study / form.partition("=")[2]).read_bytes() for form in forms])
    assert found[0] == found[1]
    assert not [data for data in found[0] if b"CreationDate" in data]


def test_mistakes_end_with_2_and_write_nothing(study: Path) -> None:
    done = python(study, *BW, "plot", "--graphfile=none.png", "A", "s:zfs*", "B")
    assert done.returncode == 2
    assert "'B' is left over" in done.stderr
    done = python(study, *BW, "plot", "--graphfile=none.png", "A", "s:zfs*")
    assert done.returncode == 2
    assert "no test matches 'zfs*'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (study / "none.png").exists()
