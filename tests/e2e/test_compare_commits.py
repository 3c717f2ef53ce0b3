"""`bw compare` of commits: checked out, built and run side by side, in a real repository."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bw_command import Done, bw

BW = (sys.executable, "-m", "benchwright.cli.main")
BUILD = "cp prog.in prog; chmod +x prog"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of two commits, tagged `fast` and `slow`; the cache is a directory
    beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    for tag, seconds in (("fast", "0.01"), ("slow", "0.1")):
        (place / "prog.in").write_text(f"#!/bin/sh\nsleep {seconds}\n")
        git(place, "add", ".")
        git(place, "commit", "-qm", tag)
        git(place, "tag", tag)
    return place


def git(place: Path, *words: str) -> str:
    """Run git in a repository; return what it prints."""
    done = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def compared(place: Path, *words: str) -> Done:
    """Compare the commits `fast` and `slow`."""
    commits = ("--commit", "fast", "--commit", "slow")
    return bw(place, "compare", "--study", "../study", *commits, *words)


def test_commits_are_built_and_compared_and_the_repository_is_unchanged(repository: Path) -> None:
    before = git(repository, "for-each-ref"), git(repository, "worktree", "list")
    words = ("--build", BUILD, "--json", "--", "./prog")
    done = compared(repository, *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    names = {tag: git(repository, "rev-parse", tag) for tag in ("fast", "slow")}
    assert document["commits"] == names
    (verdict,) = (v for v in document["verdicts"] if v["judged"])
    assert (verdict["candidate"], verdict["verdict"]) == ("slow", "slower")
    assert done.stderr.count("checking out") == 2
    # Built once: a second comparison uses both again.
    again = bw(
        repository, "compare", "--study", "../other", "--commit", "fast", "--commit",
        "slow", "--max-blocks", "2", *words,
    )  # fmt: skip
    assert "checking out" not in again.stderr
    assert git(repository, "status", "--short") == ""
    assert (git(repository, "for-each-ref"), git(repository, "worktree", "list")) == before


def test_a_baseline_is_built_again_and_interleaved(repository: Path) -> None:
    git(repository, "checkout", "-q", "fast")
    subprocess.run(["sh", "-c", BUILD], cwd=repository, check=True)
    run = ("run", "--study", "../base", "--runs", "3", "--name", "p", "--", "./prog")
    assert bw(repository, *run).returncode == 0
    git(repository, "checkout", "-q", "main")
    subprocess.run(["sh", "-c", BUILD], cwd=repository, check=True)
    words = ("--baseline", "../base", "--interleave-baseline", "--build", BUILD)
    gate = ("--fail-if", "slower by 50%", "--json", "--", "./prog")
    done = bw(repository, "compare", "--study", "../study", *words, *gate)
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["gates"][0]["outcome"] == "failed"
    assert document["commits"] == {"base:p": git(repository, "rev-parse", "fast")}
    assert "not-interleaved" not in done.stdout
    # What was measured with uncommitted changes cannot be built again.
    (repository / "prog.in").write_text("#!/bin/sh\nsleep 0.02\n")
    assert bw(repository, *run).returncode == 0
    done = bw(repository, "compare", "--study", "../study", *words, *gate)
    assert done.returncode == 2
    assert "uncommitted changes" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--commit", "fast", "--commit", "none", "--", "./prog"), 2, "no commit 'none'"),
        (("--commit", "fast", "--", "./prog"), 2, "--commit is given once"),
        (("--commit", "fast", "--commit", "slow", "--", "./a", "./b"), 2, "one command"),
        (("--commit", "fast", "--commit", "slow", "--", "./prog"), 2, "--build"),
        (("--build", "true", "--", "./prog", "./prog"), 2, "none is checked out"),
        (("--interleave-baseline", "--", "./prog"), 2, "needs a stored baseline"),
        (
            ("--commit", "fast", "--commit", "slow", "--build", "echo why; exit 9", "--", "x"),
            1,
            "exit status 9\nwhy",
        ),
    ],
)  # fmt: skip
def test_mistakes_say_what_to_do(
    repository: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    done = bw(repository, "compare", "--study", "../study", *words)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (repository.parent / "study").exists()


def test_outside_a_repository_no_commit_is_known(tmp_path: Path) -> None:
    done = compared(tmp_path, "--", "./prog")
    assert done.returncode == 2
    assert "is in no git repository" in done.stderr


def test_a_resumed_comparison_checks_its_commits_out_again(repository: Path) -> None:
    words = ("--build", BUILD, "--max-blocks", "40", "--min-blocks", "40", "--", "./prog")
    commits = ("--commit", "fast", "--commit", "slow")
    with subprocess.Popen(
        [*BW, "compare", "--study", "../study", *commits, *words],
        cwd=repository,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        logs = repository.parent / "study" / "logs"
        while not logs.exists() and running.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(running.pid, signal.SIGINT)
    assert running.returncode == 130
    for place in (repository.parent / "cache" / "benchwright" / "commits").iterdir():
        subprocess.run(["rm", "-rf", str(place)], check=True)
    git(repository, "tag", "-f", "fast", "slow")
    done = bw(repository, "resume", "../study", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert done.stderr.count("checking out") == 2
    document = json.loads(done.stdout)
    assert document["commits"]["fast"] == git(repository, "rev-parse", "slow~1")


# -- bw history confirm and bisect --------------------------------------------------------


def with_commits(place: Path, count: int, change: int, broken: int) -> list[str]:
    """Add commits to a repository, of which one makes the program slow and one does not build;
    return the names of all, the fast one first."""
    git(place, "checkout", "-q", "fast")
    for number in range(1, count):
        seconds = "0.01" if number < change else "0.06"
        (place / "prog.in").write_text(f"#!/bin/sh\n# {number}\nsleep {seconds}\n")
        (place / "broken").write_text("x" * (number == broken))
        git(place, "add", ".")
        git(place, "commit", "-qm", f"change {number}")
    return git(place, "rev-list", "--reverse", "HEAD").split()


def test_a_bisection_finds_the_commit_and_does_not_repeat_what_it_knows(repository: Path) -> None:
    commits = with_commits(repository, 7, change=5, broken=3)
    build = f"test ! -s broken && {BUILD}"
    words = ("history", "bisect", "fast", "HEAD", "--build", build, "--study", "../study")
    done = bw(repository, *words, "--json", "--", "./prog")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert [one["commit"] for one in document["candidates"]] == [commits[5]]
    outcomes = {one["commit"]: one["outcome"] for one in document["steps"]}
    assert outcomes[commits[3]] == "broken"
    assert outcomes[commits[4]] == "old"
    assert document["change"]["ratio"] > 1.5
    again = bw(repository, *words, "--quiet", "--", "./prog")
    assert again.returncode == 0
    assert commits[5][:12] in again.stdout.splitlines()[0]
    listed = json.loads(bw(repository, "ls", "../study", "--json").stdout)
    # The ends, and each step that could be built.
    assert len(listed["sessions"]) == 1 + len(document["steps"]) - 1


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is missing")
def test_a_bisection_by_instructions_judges_them(repository: Path) -> None:
    for number in range(3):
        loops = 1000 if number < 2 else 3000
        text = f"i=0; while [ $i -lt {loops} ]; do i=$((i + 1)); done # {number}"
        (repository / "prog.in").write_text(f"#!/bin/sh\n{text}\n")
        git(repository, "commit", "-qam", f"loops {number}")
    commits = git(repository, "rev-list", "--reverse", "HEAD~3..HEAD").split()
    words = ("--instructions=callgrind", "--build", BUILD, "--study", "../study")
    done = bw(repository, "history", "bisect", "HEAD~2", *words, "--json", "--", "./prog")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["metric"] == "instructions"
    assert [one["commit"] for one in document["candidates"]] == [commits[2]]


def test_commits_that_do_not_differ_have_no_change_to_find(repository: Path) -> None:
    commits = with_commits(repository, 3, change=9, broken=0)
    words = ("--build", BUILD, "--margin", "40%", "--", "./prog")
    ends = (commits[0], commits[-1])
    done = bw(repository, "history", "confirm", *ends, "--study", "../a", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are equivalent within 40 %" in done.stdout
    bisect = ("history", "bisect", *ends, "--build", BUILD, "--max-blocks", "12")
    done = bw(repository, *bisect, "--json", "--study", "../b", "--", "./prog")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_status"]
    assert (document["candidates"], document["limit"]) == ([], None)
    wrong = bw(repository, "history", "bisect", commits[-1], commits[0], "--", "./prog")
    assert wrong.returncode == 2
    assert "give the older one first" in wrong.stderr
