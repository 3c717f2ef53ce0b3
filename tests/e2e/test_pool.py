"""Pools of local gangs with real processes: surfaces, kills, resumes.

The generator is a formula that sleeps for a fixed time, so that kills meet running trials. Nothing
here asserts a time: only what is recorded, what is void and why, and that nothing is left running.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.processes import process_ids
from benchwright.features.pool.stored import PoolRecord, pool_record
from benchwright.page.stream import JournalFollower
from benchwright.study.journal import Study
from own_network import cpu_ticks

BW = (sys.executable, "-m", "benchwright.cli.main")
PATIENCE_S = 120.0
GENERATOR = """
echo $3-$4 >>begun
sleep "${PACE:-0.05}"
if [ -e slow ]; then sleep 60; fi
if [ -e broken ]; then echo "the disk is full" >&2; exit 1; fi
exec awk -v rate="$1" -v seconds="$2" -v workers="$3" -v memory="$4" 'BEGIN {
  capacity = 100 * sqrt(workers) * (1 + memory / 10)
  mean = rate < capacity ? 1000 / (capacity - rate) : 10000
  printf "{\\"offered\\": %d, \\"mean_ms\\": %.6f}\\n", rate * seconds, mean
}'
"""
SPEC = """
[load]
generator = "command"
command = "sh gen.sh {rate} {duration} {workers} {memory}"
values = { response_ms_mean = "/mean_ms" }
counts = { offered = "/offered", completed = "/offered" }

[factors]
workers = [1, 2, 4]
memory = [1, 2, 4]

[peak]
criteria = ["mean response < 40ms"]
start = "50"
policy = "binsearch"
run_length = "20s"
max_trials = 3
seed = 1

[surface]
samples = 5
"""
UNDECIDED = 3
"""Exit status of the surface: three trials of a search do not find its peak to the claim."""

SUITE = """
[factors]
n = [1, 2]
[until]
runs = 3
[[test]]
name = "sleep"
setup = "echo {n} >>begun"
exec = "sleep $PACE && test ! -e broken && echo $TESTROOT >>roots"
[[compare]]
arm = [{name = "a", exec = "sleep 0.01"}, {name = "b", exec = "sleep 0.02"}]
max_blocks = 6
"""
STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with a spec and its generator; at the end no process of a pool is left."""
    (tmp_path / "s.toml").write_text(SPEC)
    (tmp_path / "gen.sh").write_text(GENERATOR)
    (tmp_path / "suite.toml").write_text(SUITE)
    yield tmp_path
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()
    left = processes_of(tmp_path)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def processes_of(place: Path, module: str = "") -> list[int]:
    """Return the agents and tasks whose command names the directory."""
    found = []
    for pid in process_ids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            named = any(word.startswith(str(place)) for word in words)
            if named and f"benchwright.features.pool.{module}" in " ".join(words):
                found.append(pid)
    return found


def begin(place: Path, *words: str, pace: str = "0.05") -> subprocess.Popen[str]:
    """Start bw in the directory."""
    process = subprocess.Popen(
        [*BW, *words, "--json"],
        cwd=place,
        env={**os.environ, "PACE": pace},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    STARTED.append(process)
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Return exit status, the document, and the lines on stderr."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, json.loads(out or "{}"), err


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def trials_begun(place: Path) -> int:
    """Return how many trials have begun."""
    marks = place / "begun"
    return len(marks.read_text().split()) if marks.exists() else 0


def record_of(study: Path, session: int = 1) -> PoolRecord:
    """Return what a session of a study recorded about its pool."""
    with contextlib.closing(Study.open_to_read(study)) as opened:
        return pool_record(opened, session)


def known(document: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on the clock, the directory, or on who measured."""
    left = ("seconds", "study", "session", "plots", "samples", "cost_s", "findings")
    return {name: value for name, value in document.items() if name not in left}


def peaks(document: dict[str, Any]) -> list[object]:
    """Return sample and peak of each search, in order."""
    return [(one["sample"], one["peak_rate"]) for one in document["samples"]]


def recorded_once(study: Path, searches: int) -> None:
    """Assert that each search is recorded by one attempt, and that each attempt has ended."""
    attempts = record_of(study).attempts.values()
    recorded = [one.place for one in attempts if one.ended_ns and one.void is None]
    assert sorted(recorded, key=int) == [str(n) for n in range(1, searches + 1)]
    assert all(one.ended_ns for one in attempts)


def test_gangs_map_the_same_surface_for_the_same_seed(place: Path) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2")
    status, first, err = ended(begin(place, *words, "--study", "a"))
    assert status == UNDECIDED, err
    status, again, err = ended(begin(place, *words, "--study", "b"))
    assert status == UNDECIDED, err
    assert known(again) == known(first)
    assert peaks(again) == peaks(first)
    recorded_once(place / "a", len(first["samples"]))
    used = {one.gang for one in record_of(place / "a").attempts.values()}
    assert used == {"g1", "g2"}


def test_a_killed_controller_is_resumed_and_running_searches_go_on(place: Path) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2")
    status, whole, err = ended(begin(place, *words, "--study", "whole"))
    assert status == UNDECIDED, err
    (place / "begun").unlink()
    process = begin(place, *words, "--study", "cut", pace="0.5")
    wait_until(lambda: trials_begun(place) >= 3)
    before = set(record_of(place / "cut").attempts)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert processes_of(place, "agent")
    status, resumed, err = ended(begin(place, "resume", "cut"))
    assert status == UNDECIDED, err
    assert known(resumed) == known(whole)
    assert peaks(resumed) == peaks(whole)
    recorded_once(place / "cut", len(whole["samples"]))
    attempts = record_of(place / "cut").attempts
    assert all(attempts[one].void is None for one in before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_whose_agent_is_gone_runs_on_another_gang(
    place: Path, number: signal.Signals
) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2")
    process = begin(place, *words, "--study", "cut", pace="0.5")
    wait_until(lambda: trials_begun(place) >= 2)
    victim = processes_of(place, "agent")[0]
    os.kill(victim, number)
    status, document, err = ended(process)
    assert status == UNDECIDED, err
    recorded_once(place / "cut", len(document["samples"]))
    attempts = list(record_of(place / "cut").attempts.values())
    (void,) = [one for one in attempts if one.void is not None]
    expected = "agent-lost" if number is signal.SIGKILL else "preempted"
    assert void.void == expected
    (again,) = [one for one in attempts if one.place == void.place and not one.void]
    assert again.gang != void.gang


@pytest.mark.parametrize("module", ["agent", "task"])
def test_an_attempt_that_was_stopped_is_void(place: Path, module: str) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2")
    process = begin(place, *words, "--study", "cut", pace="0.5")
    wait_until(lambda: trials_begun(place) >= 2)
    victim = processes_of(place, module)[0]
    os.kill(victim, signal.SIGSTOP)
    time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError):
        # The agent ends a stopped task at once.
        os.kill(victim, signal.SIGCONT)
    status, document, err = ended(process)
    assert status == UNDECIDED, err
    recorded_once(place / "cut", len(document["samples"]))
    voids = [one.void for one in record_of(place / "cut").attempts.values() if one.void]
    assert voids == ["suspended"]


def test_an_interrupt_ends_the_gangs_and_a_resume_continues(place: Path) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2")
    process = begin(place, *words, "--study", "cut", pace="0.5")
    wait_until(lambda: trials_begun(place) >= 2)
    os.kill(process.pid, signal.SIGINT)
    status, _, err = ended(process)
    assert status == 130, err
    assert processes_of(place) == []
    status, document, err = ended(begin(place, "resume", "cut"))
    assert status == UNDECIDED, err
    recorded_once(place / "cut", len(document["samples"]))


def test_an_interrupt_ends_the_gangs_of_a_suite(place: Path) -> None:
    words = ("run", "suite.toml", "--pool", "local:gangs=2")
    process = begin(place, *words, "--study", "cut", pace="60")
    wait_until(lambda: trials_begun(place) >= 2)
    os.kill(process.pid, signal.SIGINT)
    status, _, err = ended(process)
    assert status == 130, err
    assert processes_of(place) == []
    voids = [one.void for one in record_of(place / "cut").attempts.values()]
    assert "cancelled" in voids


def test_a_server_that_fails_everywhere_fails_the_session(place: Path) -> None:
    (place / "broken").touch()
    words = ("surface", "s.toml", "--pool", "local:gangs=2,retries=1", "--study", "cut")
    status, _, err = ended(begin(place, *words))
    assert status == 1, err
    attempts = list(record_of(place / "cut").attempts.values())
    assert {one.void for one in attempts} == {"server-failed"}
    assert "the disk is full" in attempts[0].detail
    (place / "broken").unlink()
    status, document, err = ended(begin(place, "resume", "cut"))
    assert status == UNDECIDED, err
    assert all(one["peak_rate"] for one in document["samples"])


def test_a_task_longer_than_its_lease_is_void(place: Path) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2,lease=1s,retries=0")
    status, _, err = ended(begin(place, *words, "--study", "cut", pace="5"))
    assert status == 1, err
    record = record_of(place / "cut")
    voids = {one.void for one in record.attempts.values()}
    assert "lease-ended" in voids <= {"lease-ended", "cancelled"}
    assert all(one.state == "ended" for one in record.leases.values())


def test_status_shows_gangs_and_void_attempts(place: Path) -> None:
    (place / "broken").touch()
    words = ("surface", "s.toml", "--pool", "local:gangs=2,retries=0", "--study", "cut")
    status, _, err = ended(begin(place, *words))
    assert status == 1, err
    status, document, err = ended(begin(place, "pool", "status", "cut"))
    assert status == 0, err
    assert document["schema"] == "benchwright/pool/1"
    assert [one["gang"] for one in document["gangs"]] == ["g1", "g2"]
    assert {one["void"] for one in document["attempts"]} == {"server-failed"}
    text = subprocess.run([*BW, "pool", "status", "cut"], cwd=place, capture_output=True, text=True)
    assert " server-failed " in text.stdout


def test_what_gangs_run_is_shown_while_they_run_it(place: Path) -> None:
    words = ("surface", "s.toml", "--pool", "local:gangs=2", "--study", "cut")
    process = begin(place, *words, pace="100")
    wait_until(lambda: trials_begun(place) >= 2)
    status, document, err = ended(begin(place, "pool", "status", "cut"))
    assert status == 0, err
    running = {one.gang: one for one in record_of(place / "cut").attempts.values()}
    assert document["status"] == "running"
    for one in document["gangs"]:
        attempt = running[one["gang"]]
        shown = (one["runs"], one["attempt"], one["since_ns"])
        assert shown == (attempt.name, attempt.number, attempt.began_ns)
    searches = document["planned"]
    reading = JournalFollower(place / "cut").read()
    page = reading.sections["p1-pool"]
    assert all(one.name in page for one in running.values())
    os.kill(process.pid, signal.SIGINT)
    status, _, err = ended(process)
    assert status == 130, err
    assert f"0 of {searches} tasks recorded, 1 running; " in err
    page = JournalFollower(place / "cut").read().sections["p1-pool"]
    assert page.count("the session ended") == 2
    assert "Since" not in page


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("local", "the number of gangs is missing"),
        ("local:gangs=0", "not a whole number"),
        ("local:gangs=2,partition=a", "partition is for slurm"),
        ("local:gangs=2,speed=3", "there is no key 'speed'"),
        ("moon:gangs=2", "must be local or slurm"),
    ],
)
def test_a_wrong_pool_is_refused(place: Path, pool: str, message: str) -> None:
    status, _, err = ended(begin(place, "surface", "s.toml", "--pool", pool))
    assert status == 2
    assert message in err


def test_slurm_without_its_programs_names_the_packages(place: Path) -> None:
    process = subprocess.run(
        [*BW, "surface", "s.toml", "--pool", "slurm:partition=a,gangs=2"],
        cwd=place,
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert "slurm-client" in process.stderr


def test_a_table_of_a_spec_opens_a_pool(place: Path) -> None:
    with (place / "s.toml").open("a") as spec:
        spec.write('\n[pool]\nengine = "local"\ngangs = 2\n')
    status, document, err = ended(begin(place, "surface", "s.toml", "--study", "a"))
    assert status == UNDECIDED, err
    recorded_once(place / "a", len(document["samples"]))


def test_gangs_share_the_time_of_a_deadline(place: Path) -> None:
    spec = SPEC.replace('run_length = "20s"', 'run_length = "0.2s"')
    spec = spec.replace("samples = 5", 'samples = 9\ndeadline = "6s"')
    # Nine searches of three trials sleep for 8 s on each of two gangs.
    (place / "s.toml").write_text(spec)
    status, document, _ = ended(
        begin(place, "surface", "s.toml", "--pool", "local:gangs=2", pace="0.6")
    )
    assert status == (0 if document["model"] else 3)
    assert document["status"] == "deadline"
    assert document["left_out"] == 9 - len(peaks(document)) > 0
    # Too short for an anchor on every gang.
    searched = [sample for sample, _ in peaks(document)]
    assert all(searched.count(one) == 1 for one in searched)
    attempts = record_of(place / "bw-study").attempts.values()
    assert {one.gang for one in attempts} == {"g1", "g2"}
    # On a machine that does much else a deadline may come before any search ends.
    for _ in range(20):
        _, resumed, _ = ended(begin(place, "resume", pace="0.6"))
        assert all(one in peaks(resumed) for one in peaks(document))
        if len(peaks(resumed)) > len(searched):
            break
    assert len(peaks(resumed)) > len(searched)


def test_searches_that_run_at_the_deadline_are_void(place: Path) -> None:
    spec = SPEC.replace('run_length = "20s"', 'run_length = "0.1s"')
    (place / "s.toml").write_text(spec + 'deadline = "7s"\n')
    (place / "slow").touch()
    words = ("surface", "s.toml", "--pool", "local:gangs=2", "--study", "a")
    status, document, err = ended(begin(place, *words))
    assert status == 3, err
    assert document["status"] == "deadline"
    assert document["samples"] == []
    assert processes_of(place) == []
    # On a machine that does much else no attempt may have begun.
    voids = [one.void for one in record_of(place / "a").attempts.values()]
    assert voids == ["deadline"] * len(voids)
    (place / "slow").unlink()
    for _ in range(20):
        _, document, err = ended(begin(place, "resume", "a"))
        if document["status"] in ("complete", "undecided"):
            break
        assert document["status"] == "deadline", err
    recorded_once(place / "a", len(document["samples"]))
    assert document["left_out"] == 0


# -- Suites ------------------------------------------------------------------------------


def test_a_suite_runs_its_tests_and_comparisons_side_by_side(place: Path) -> None:
    words = ("run", "suite.toml", "--pool", "local:gangs=2", "--study", "a")
    status, document, err = ended(begin(place, *words))
    assert status in (0, 3), err
    answers = {one["name"]: one["trials"] for one in document["answers"]}
    assert answers["sleep n=1"] == answers["sleep n=2"] == 3
    assert len(document["comparisons"]) == 2
    recorded_once(place / "a", 4)
    # Each gang's tests have their files in a directory of their own.
    assert len(set((place / "roots").read_text().split())) == 2
    assert (place / "a" / "results" / "s1" / "sleep:n=1.res").exists()


def test_a_suite_whose_controller_was_killed_ends_with_each_trial_once(place: Path) -> None:
    words = ("run", "suite.toml", "--pool", "local:gangs=2", "--study", "a")
    process = begin(place, *words, pace="0.5")
    wait_until(lambda: trials_begun(place) >= 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    status, document, err = ended(begin(place, "resume", "a", pace="0.5"))
    assert status in (0, 3), err
    recorded_once(place / "a", 4)
    answers = {one["name"]: one["trials"] for one in document["answers"]}
    assert answers["sleep n=1"] == answers["sleep n=2"] == 3
    assert trials_begun(place) == 6


def test_a_comparison_runs_on_one_gang(place: Path) -> None:
    words = ("--pool", "local:gangs=2", "--max-blocks", "6", "--study", "a")
    arms = ("--", "sleep 0.01", "sleep 0.05")
    process = subprocess.run(
        [*BW, "compare", "--json", *words, *arms],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert process.returncode in (0, 3), process.stderr
    document = json.loads(process.stdout)
    assert (len(document["arms"]), document["blocks"]) == (2, 6)
    recorded_once(place / "a", 1)


def test_a_failure_under_fail_fast_ends_the_suite(place: Path) -> None:
    (place / "broken").touch()
    words = ("run", "suite.toml", "--pool", "local:gangs=2,retries=0", "--study", "a")
    status, _, err = ended(begin(place, *words))
    assert status == 1, err
    (place / "broken").unlink()
    status, _, err = ended(begin(place, "resume", "a"))
    assert status in (0, 3), err
    recorded_once(place / "a", 4)


def test_commands_and_dependent_suites_are_refused(place: Path) -> None:
    status, _, err = ended(begin(place, "run", "--pool", "local:gangs=2", "sleep 0.1"))
    assert (status, "is for suites" in err) == (2, True)
    (place / "s.ap").write_text("SYSTEM true\nTEST a 2 1\nEXEC true\nDONE\n")
    status, _, err = ended(begin(place, "run", "--pool", "local:gangs=2", "s.ap"))
    assert (status, "s.ap:1:1" in err) == (2, True)
    assert not (place / "bw-study").exists()


# -- Disks -------------------------------------------------------------------------------


def test_a_gang_whose_disk_is_full_is_excluded(place: Path) -> None:
    status, _, err = ended(begin(place, "run", "--runs", "1", "--study", "a", "true"))
    assert status == 0, err
    disk = place / "a" / "pool" / "s2" / "agents" / "g2"
    disk.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk))
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small disk")
    try:
        words = ("surface", "s.toml", "--pool", "local:gangs=2,retries=5")
        status, document, err = ended(begin(place, *words, "--study", "a"))
    finally:
        subprocess.run(("umount", str(disk)), check=True)
    assert status == 3, err
    attempts = list(record_of(place / "a", 2).attempts.values())
    assert [one.void for one in attempts if one.gang == "g2"] == ["disk-full"] * 2
    recorded = {one.place for one in attempts if one.is_recorded}
    assert len(recorded) == len(document["samples"])
    assert "pool-host-excluded" in {one["code"] for one in document["findings"]}


# -- The silent interval ------------------------------------------------------------------


def test_an_agent_uses_no_cpu_while_a_task_runs(place: Path) -> None:
    """It wakes once a second; a tick of CPU time is 10 ms. tests/kernel/test_pool_silence.py
    captures its packets."""
    words = ("surface", "s.toml", "--pool", "local:gangs=1", "--study", "a")
    process = begin(place, *words, pace="4")
    wait_until(lambda: trials_begun(place) >= 1)
    (agent,) = processes_of(place, "agent")
    before = cpu_ticks(agent)
    time.sleep(3)
    assert trials_begun(place) == 1
    assert cpu_ticks(agent) - before <= 1
    os.kill(process.pid, signal.SIGINT)
    assert ended(process)[0] == 130


def test_a_gang_that_was_frozen_is_noticed(place: Path) -> None:
    """No signal announces a freezer: the agent wakes late."""
    group = Path("/sys/fs/cgroup/freezer") / f"bw-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no freezer of cgroups version 1")
    try:
        words = ("surface", "s.toml", "--pool", "local:gangs=2", "--study", "a")
        process = begin(place, *words, pace="0.5")
        wait_until(lambda: trials_begun(place) >= 2)
        victim = processes_of(place, "agent")[0]
        (group / "cgroup.procs").write_text(str(victim))
        (group / "freezer.state").write_text("FROZEN")
        time.sleep(2.5)
        (group / "freezer.state").write_text("THAWED")
        status, document, err = ended(process)
    finally:
        if (group / "freezer.state").exists():
            (group / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
    assert status == 3, err
    recorded_once(place / "a", len(document["samples"]))
    voids = [one.void for one in record_of(place / "a").attempts.values() if one.void]
    assert voids == ["suspended"]
