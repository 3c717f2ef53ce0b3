"""Defaults from configuration files in real sessions: shown, stored, and independent of the files
later."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchwright.study.contents import StoredDefault, stored_defaults
from benchwright.study.journal import StoredSession, Study

BW = (sys.executable, "-m", "benchwright.cli.main")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory of a project with defaults."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.benchwright]\nstudy = "results"\n'
        '[tool.benchwright.run]\nruns = 3\nmetric = ["n~n=(.*)"]\n'
        '[tool.benchwright.load]\nduration = "100ms"\nrate = "1k"\n'
    )
    return tmp_path


def bw(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run bw with the files of a directory, which may be changed between calls."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(place)}
    del environment["BW_CONFIG"]
    return subprocess.run([*BW, *words], cwd=place, capture_output=True, text=True, env=environment)


def session_of(study: Path) -> StoredSession:
    """Return the last session of a study."""
    with contextlib.closing(Study.open_to_read(study)) as opened:
        return opened.sessions()[-1]


def test_a_session_shows_and_stores_where_its_defaults_are_from(place: Path) -> None:
    done = bw(place, "run", "--", "echo", "n=7")
    assert done.returncode == 0
    shown = "pyproject.toml sets study = results, runs = 3, metric = n~n=(.*)"
    assert f"bw: {shown}\n" in done.stderr
    stored = stored_defaults(session_of(place / "results").info)
    assert StoredDefault("runs", "3", "pyproject.toml:4") in stored
    page = bw(place, "report", "-o", "-").stdout
    assert "3 (pyproject.toml:4)" in page


def test_the_document_of_a_run_has_its_defaults(place: Path) -> None:
    found = json.loads(bw(place, "run", "--json", "--", "echo", "n=7").stdout)
    assert found["defaults"] == [
        {"key": "study", "value": "results", "place": "pyproject.toml:2"},
        {"key": "runs", "value": "3", "place": "pyproject.toml:4"},
        {"key": "metric", "value": "n~n=(.*)", "place": "pyproject.toml:5"},
    ]
    (place / "pyproject.toml").unlink()
    without = json.loads(bw(place, "run", "--json", "--runs", "2", "--", "true").stdout)
    assert "defaults" not in without


def test_a_resumed_session_does_not_read_the_files_again(place: Path) -> None:
    killed = "{ touch second; kill -9 $(cat $BW_STUDY/lock); sleep 9; }"
    script = f"test $APEPOCH != 2 || test -e second || {killed}"
    bw(place, "run", "--", "sh", "-c", f'{script}; echo "n=7"')
    (place / "pyproject.toml").write_text('[tool.benchwright.run]\nruns = "many"\n')
    done = bw(place, "resume", "results")
    assert done.returncode == 0, done.stderr
    (place / "pyproject.toml").unlink()
    document = json.loads(bw(place, "stats", "--metric", "n", "--json", "results").stdout)
    (test,) = document["inputs"]
    counts = {one["name"]: one["count"] for one in test["quantities"]}
    assert (counts["elapsed"], counts["n"]) == (3, 3)


def test_a_load_in_a_study_has_the_same_defaults(place: Path) -> None:
    done = bw(place, "load", "--target", "null", "--study", "loads")
    assert done.returncode == 0, done.stderr
    ((_, request),) = session_of(place / "loads").info.sources
    assert "--duration=100ms" in request
    assert "--rate=1k" in request


def test_a_search_of_a_target_has_the_defaults_that_suit_it(place: Path) -> None:
    (place / "pyproject.toml").write_text(
        "[tool.benchwright.ramp]\nquiet = true\nhold = '100ms'\nhighest = 2\n"
        "direct = true\ndrain = '7s'\n"
    )
    done = bw(place, "ramp", "--target", "null", "--study", "ramps")
    assert done.returncode in (0, 3), done.stderr
    sources = str(session_of(place / "ramps").info.sources)
    assert "drain" in sources
    assert "direct" not in sources
