"""A history of real runs: a commit that makes a program slower is found, and stops the gate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest


def run(place: Path, *words: str, status: int = 0) -> str:
    """Run a program in a directory; return what it printed."""
    who = {
        f"GIT_{name}_{what}": "someone"
        for name in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        words, cwd=place, capture_output=True, text=True, env=os.environ | who, check=False
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


def test_the_slower_commit_is_found_and_stops_the_gate(repository: tuple[Path, list[str]]) -> None:
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
    assert len(series["segments"]) == 1, "the program that is measured is no environment"
    # A busy machine can make the program slower too, so there may be other steps.
    worse = [
        step["ratio"]["value"]
        for step in series["steps"]
        if commits.index(step["after_commit"]) <= 11 < commits.index(step["up_to_commit"])
    ]
    assert len(worse) == 1
    assert worse[0] > 2


@pytest.mark.parametrize(
    ("words", "judged"),
    [
        # The tests that were not run were not judged, and a comparison is no part of a history.
        (("run", "--runs", "1000", "--name", "q", "--", "sleep", "0.1"), False),
        (("compare", "--min-blocks", "500", "--", "sleep 0.1", "sleep 0.1"), True),
    ],
)
def test_a_gate_does_not_pass_over_an_interrupted_session(
    tmp_path: Path, words: tuple[str, ...], *, judged: bool
) -> None:
    bw = (sys.executable, "-m", "benchwright.cli.main")
    run(tmp_path, *bw, "run", "--runs", "3", "--study", "n/a", "--name", "q", "true")
    gate = (*bw, "history", "n", "--gate", "50%", "--json")
    before = json.loads(run(tmp_path, *gate, status=3))
    process = subprocess.Popen(
        (*bw, words[0], "--study", "n/z", *words[1:]),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    logs = tmp_path / "n" / "z" / "logs"
    while not list(logs.glob("*/*/*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    after = json.loads(run(tmp_path, *gate, status=3))
    assert any(one["test"] == "" for one in after["without"]) != judged
    if not judged:
        report = run(tmp_path, *bw, "export", "n/z", "--format", "junit")
        (suite,) = ElementTree.fromstring(report)
        assert int(suite.attrib["errors"]) > 0
    more = len(after["gate"]["undecided"]) - len(before["gate"]["undecided"])
    assert (more == 0) == judged
