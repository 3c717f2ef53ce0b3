"""Kill -9 at random moments: no trial lost, none counted twice, no orphan left.

A suite with loops, conditions, a predicate and CHECKPOINT over deterministic fake
commands is killed again and again (bw alone, the launcher's worker, its guard, all of
them, all with the trial's own processes) and resumed until it ends; the table of the
deterministic value must then equal an undisturbed run's. The seed is fixed and printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchwright.core.errors import StudyError
from benchwright.study.journal import Study
from bw_command import bw_words

KILLS = int(os.environ.get("BW_TEST_KILLS", "200"))
STUDIES = 8
SEED = 20261121
ALL_SUPERVISORS = ("bw, guard and worker", "everything")
"""Nobody of ours is left to end a grandchild (or one forked while we kill): the next
resume does, by the session's token. All other kills must leave nothing by themselves."""

SUITE = r"""
ENV BASE=100
VAR ROUND=0
WHILE ROUND < 2
  VAREX ROUND=%ROUND%+1
  FOREACH KIND fast slow
    FOR N=1 TO 2
      THREADS=%N%
      IF KIND = fast
        ENV SPREAD=3
      ELSE
        ENV SPREAD=400
      FI
      TEST %KIND%:%N%:%ROUND% 4 2 getstats --predicate \
          '("$name" ne "value") || ("$delta" < 0.05 * $mean) || ($count > 9)'
        METRIC value
        PRESETUP ./mark.sh presetup
        SETUP ./mark.sh setup
        EXEC ./work.sh
        CLEANUP ./mark.sh cleanup
        POSTCLEANUP ./mark.sh postcleanup
      DONE
    DONE
  DONE
  CHECKPOINT
  IF RESTORE = 1
    ECHO restored
  FI
DONE
"""

WORK = """#!/bin/sh
# A deterministic value of test, epoch and thread; and a grandchild that outlives it.
n=$(( (APEPOCH * 7919 + APTHREAD * 104729) % 1000 ))
echo "value = $(( BASE * 10 + n * SPREAD / 1000 ))" >> "$APLOG"
setsid sleep 60 > /dev/null 2>&1 &
sleep 0.01
"""

MARK = """#!/bin/sh
exit 0
"""


def write_suite(directory: Path) -> None:
    """Write the suite and its commands."""
    directory.mkdir()
    (directory / "suite.ap").write_text(SUITE)
    for name, text in (("work.sh", WORK), ("mark.sh", MARK)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


def tagged(directory: Path) -> list[int]:
    """Return the processes that a session in this directory started."""
    wanted = f"BW_STUDY={directory / 'study'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def descendants(pid: int) -> list[int]:
    """Return a process's descendants, nearest first."""
    found: list[int] = []
    queue = [pid]
    while queue:
        children = children_of(queue.pop(0))
        found += children
        queue += children
    return found


def children_of(pid: int) -> list[int]:
    """Return a process's children; none when it has ended, even while we look."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            children += [int(word) for word in text.split()]
    except (FileNotFoundError, ProcessLookupError):
        return children
    return children


def kill(victim: subprocess.Popen[bytes], how: str) -> None:
    """Send SIGKILL to the part of the tree that `how` names."""
    family = descendants(victim.pid)
    guard, worker = ([*family, 0, 0])[:2]
    targets = {
        "bw": [victim.pid],
        "guard": [guard],
        "worker": [worker],
        "bw, guard and worker": [victim.pid, guard, worker],
        "everything": [victim.pid, *family],
    }[how]
    for target in targets:
        if target:
            try:
                os.kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue


def table(directory: Path) -> dict[str, tuple[object, ...]]:
    """Return the deterministic part of the table: test -> figures of `value`."""
    done = subprocess.run(
        bw_words("stats", "study", "--json"), cwd=directory, capture_output=True, check=True
    )
    rows = {}
    for group in json.loads(done.stdout)["inputs"]:
        for row in group["quantities"]:
            if row["name"] == "value":
                rows[group["name"]] = tuple(
                    row[key] for key in ("count", "mean", "median", "sdev", "slope")
                )
    return rows


def wait_for_no_orphan(directory: Path, after: str, older: frozenset[int] = frozenset()) -> None:
    """Wait until nothing that the session started is alive; fail if something stays.

    `older` may stay: left by an earlier kill of everything, and `bw` was killed again
    before it came to end them.
    """
    for _attempt in range(200):
        if older.issuperset(tagged(directory)):
            return
        time.sleep(0.05)
    pytest.fail(f"left running after {after}: {tagged(directory)}")


def has_session(directory: Path) -> bool:
    """Return whether a session was begun: a kill may come before there is one."""
    try:
        with contextlib.closing(Study.open_to_read(directory / "study")) as study:
            return bool(study.sessions())
    except StudyError:
        return False


def run_to_the_end(directory: Path, words: tuple[str, ...]) -> None:
    """Run bw and expect success."""
    done = subprocess.run(bw_words(*words), cwd=directory, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def killed_once(directory: Path, words: tuple[str, ...], delay_s: float, how: str) -> bool:
    """Run bw, kill it after a delay; return False when it had ended by itself before."""
    process = subprocess.Popen(
        bw_words(*words),
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        process.wait(timeout=delay_s)
    except subprocess.TimeoutExpired:
        kill(process, how)
        process.communicate(timeout=60)
        return True
    error = process.communicate()[1].decode()
    assert process.returncode == 0, error
    return False


@pytest.mark.timeout(1500)
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    print(f"seed {SEED}, {KILLS} kills")
    whole = tmp_path / "whole"
    write_suite(whole)
    begun = time.monotonic()
    run_to_the_end(whole, ("run", "suite.ap", "--study", "study"))
    length_s = time.monotonic() - begun
    expected = table(whole)
    assert len(expected) == 8
    assert len({figures[0] for figures in expected.values()}) > 1, "predicate is idle"
    hows = ("bw", "guard", "worker", "bw, guard and worker", "everything")
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        directory = tmp_path / f"killed-{rounds}"
        write_suite(directory)
        words: tuple[str, ...] = ("run", "suite.ap", "--study", "study")
        quota = min(-(-KILLS // STUDIES), KILLS - kills)
        for _kill in range(quota):
            how = rng.choice(hows)
            older = frozenset(tagged(directory))
            if not killed_once(directory, words, rng.uniform(0.05, length_s / 3), how):
                break
            kills += 1
            if how not in ALL_SUPERVISORS:
                wait_for_no_orphan(directory, how, older)
            if has_session(directory):
                words = ("resume", "study")
        if words[0] == "run" or not ended(directory):
            run_to_the_end(directory, words)
        wait_for_no_orphan(directory, "the last resume")
        assert table(directory) == expected
    assert kills == KILLS


def ended(directory: Path) -> bool:
    """Return whether the session is complete already."""
    done = subprocess.run(
        bw_words("resume", "study"), cwd=directory, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return True
