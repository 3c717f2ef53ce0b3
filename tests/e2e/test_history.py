"""A history of real runs: a commit that makes a program slower is found, and stops the gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(place: Path, *words: str, status: int = 0) -> str:
    """Run a program in a directory; return what it printed."""
    who = {
        f"GIT_{name}_{what}": "someone"
        for name in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        words,
        cwd=place,
        capture_output=True,
        text=True,
        env=os.environ | who,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository with results of 18 commits, the last 6 of which are ten times slower."""
    place = tmp_path_factory.mktemp("history") / "repository"
    place.mkdir()
    run(place, "git", "init", "-q")
    (place / ".gitignore").write_text("results\n")
    commits = []
    for at in range(18):
        program = place / "bench.sh"
        pause = "0.5" if at >= 12 else "0.05"
        program.write_text(f"#!/bin/sh\n# {at}\nexec sleep {pause}\n")
        program.chmod(0o755)
        run(place, "git", "add", ".")
        run(place, "git", "commit", "-q", "-m", f"commit {at}")
        commits.append(run(place, "git", "rev-parse", "HEAD").strip())
        bw = (sys.executable, "-m", "benchwright.cli.main")
        words = ("run", "--runs", "3", "--study", "results/nightly", "./bench.sh")
        run(place, *bw, *words)
    return place, commits


def test_the_slower_commit_is_found_and_stops_the_gate(
    repository: tuple[Path, list[str]],
) -> None:
    place, commits = repository
    words = (
        "-m",
        "benchwright.cli.main",
        "history",
        "results",
        "--gate",
        "20%",
        # Other tests can change the machine during a run.
        "--accept",
        "environment-changed-between-trials",
        "--json",
    )
    document = json.loads(run(place, sys.executable, *words, status=1))
    (series,) = document["series"]
    assert series["newest"]["verdict"] == "slower"
    assert [point["commit"] for point in series["points"]] == commits
    assert not any(point["dirty"] for point in series["points"])
    assert len(series["segments"]) == 1, (
        "the program that is measured is no environment"
    )
    # A busy machine can make the program slower too, so there may be other steps.
    worse = [
        step["ratio"]["value"]
        for step in series["steps"]
        if commits.index(step["after_commit"])
        <= 11
        < commits.index(step["up_to_commit"])
    ]
    assert len(worse) == 1
    assert worse[0] > 2
