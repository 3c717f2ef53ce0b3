"""Hosts of a pool as replicates, with gangs of real processes on this machine.

What a gang measures depends on its number, which is in the directory of its agent, so the mean over
hosts is known. Nothing here asserts a time.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchwright.features.pool.stored import pool_record
from benchwright.features.pool.types import Attempt
from benchwright.study.journal import Study

BW = str(Path(sys.executable).parent / "bw")
PATIENCE_S = 120.0
WORK = """#!/bin/sh
# 100, 200, 300 on the gangs g1, g2, g3, and the argument.
gang=${BW_STUDY#*/agents/g}
echo "{\\"value\\": $((${gang%%/*} * 100 + $1))}"
echo . >>begun
sleep "${PACE:-0}"
"""
POOL = ("--pool", "local:gangs=3", "--metric", "value=/value")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    work = tmp_path / "work.sh"
    work.write_text(WORK)
    work.chmod(0o755)
    return tmp_path


def begin(place: Path, *words: str, pace: str = "0") -> subprocess.Popen[str]:
    around = {**os.environ, "BW_CONFIG": "/dev/null", "PACE": pace}
    return subprocess.Popen(
        [BW, *words],
        cwd=place,
        env=around,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def bw(place: Path, *words: str, status: int = 0) -> str:
    process = begin(place, *words)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status, err
    return out if status != 2 else err


def trials(place: Path, study: str = "bw-study") -> list[dict[str, str]]:
    with (place / study / "results" / "s1" / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def attempts(study: Path) -> Sequence[Attempt]:
    with contextlib.closing(Study.open_to_read(study)) as opened:
        return list(pool_record(opened, 1).attempts.values())


def rows_of(found: list[dict[str, str]], *columns: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in columns) for row in found]


DESIGN = ("--replicate", "host=3", "--replicate", "env=2", "--runs", "2", "--warmup", "1")


def assert_is_the_design(found: list[dict[str, str]]) -> None:
    """Assert that each host measured a warm-up trial, since a host is cold, and two of each environment
    in turns, since those are not."""
    rows = rows_of(found, "replicate:host", "replicate:env", "value")
    assert [row[::2] for row in rows] == [(n, n + "07") for n in "123" for _ in range(5)]
    for at in (0, 5, 10):
        warm, *counted = (env for _, env, _ in rows[at : at + 5])
        assert warm == counted[0]
        assert sorted(counted[:2]) == sorted(counted[2:]) == ["1", "2"]


def test_the_mean_is_over_the_hosts(place: Path) -> None:
    out = bw(place, "run", *DESIGN, *POOL, "--json", "--", "./work.sh", "7")
    document = json.loads(out)
    (answer,) = document["answers"]
    assert "pool-hosts-share-machine" in {one["code"] for one in document["findings"]}
    found = trials(place)
    assert_is_the_design(found)
    assert [row["epoch"] for row in found] == [str(n) for n in range(1, 16)]
    host, env, trial = answer["population"]["levels"]
    assert (host["level"], host["replicates"]) == ("host", 3)
    assert (env["spread"], trial["spread"], host["spread"] > 0.3) == (0, 0, True)
    assert {one.gang for one in attempts(place / "bw-study")} == {"g1", "g2", "g3"}
    assert "hosts differ by" in bw(place, "stats")
    # The output of each trial is still where its record says.
    log = (place / "bw-study" / "results" / "s1" / "work.sh.log").read_text()
    values = [json.loads(line)["value"] for line in log.splitlines() if line.startswith("{")]
    assert values == [host * 100 + 7 for host in (1, 2, 3) for _ in range(5)]


def test_a_killed_controller_continues_the_same_design(place: Path) -> None:
    words = ("run", *DESIGN, *POOL, "--", "./work.sh", "7")
    process = begin(place, *words, pace="0.3")
    end = time.monotonic() + PATIENCE_S
    while not (place / "begun").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    bw(place, "resume")
    found = trials(place)
    assert_is_the_design(found)


def test_a_lost_agent_s_replicate_is_measured_again_by_its_own_gang(place: Path) -> None:
    process = begin(place, "run", *DESIGN, *POOL, "--", "./work.sh", "7", pace="0.3")
    end = time.monotonic() + PATIENCE_S
    while not (place / "begun").exists() and time.monotonic() < end:
        time.sleep(0.02)
    (agent,) = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"{place}/bw-study/pool/s1/agents/g2" in _words(path)
        and "benchwright.features.pool.agent" in _words(path)
    ]
    os.kill(agent, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert_is_the_design(trials(place))
    made = attempts(place / "bw-study")
    assert any(one.void is not None for one in made)
    assert all(one.gang == f"g{one.place}" for one in made)


def _words(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace").replace("\0", " ")
    return ""


def test_arms_share_each_host(place: Path) -> None:
    words = ("--replicate", "host=3", "--seed", "2", "--json", "--", "./work.sh 0", "./work.sh 50")
    out = bw(place, "compare", *POOL, *words, status=3)
    document: dict[str, Any] = json.loads(out)
    (verdict,) = [one for one in document["verdicts"] if one["metric"] == "value"]
    ratios = [(host * 100 + 50) / (host * 100) for host in (1, 2, 3)]
    assert verdict["ratio"]["value"] == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert [one["replicates"] for one in verdict["population"]["levels"]] == [3, 6]
    hosts = rows_of(trials(place), "test", "replicate:host")
    assert hosts == [(arm, n) for arm in ("work.sh", "work.sh-2") for n in "123" for _ in range(3)]


SUITE = """
name = "hosts"
[replicate]
levels = ["host=2"]
[pool]
engine = "local"
gangs = 2
[[test]]
name = "one"
exec = "./work.sh 1"
metrics = { value = { pointer = "/value" } }
until = { runs = 2 }
[[test]]
name = "two"
exec = "./work.sh 2"
metrics = { value = { pointer = "/value" } }
until = { runs = 2 }
"""


def test_each_test_of_a_suite_is_measured_by_each_host(place: Path) -> None:
    (place / "s.toml").write_text(SUITE)
    bw(place, "run", "s.toml")
    found = sorted(rows_of(trials(place), "test", "replicate:host", "value"))
    assert found == [
        (name, str(host), str(host * 100 + number))
        for number, name in ((1, "one"), (2, "two"))
        for host in (1, 2)
        for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--replicate", "host=3", "--runs", "2"), "need a pool of hosts"),
        (("--replicate", "host=4", "--runs", "2", *POOL), "4 hosts of 3 gangs"),
        (("--replicate", "host", "--precision", "2%", *POOL), "no number of hosts"),
        (
            ("--replicate", "host=3", "--replicate", "env", "--precision", "2%", *POOL),
            "numbers are given before",
        ),
        (("--replicate", "env=3", "--replicate", "host=3", "--runs", "2", *POOL), "outermost"),
        (("--replicate", "host=3", "--replicate", "boot=3", "--runs", "2", *POOL), "outermost"),
    ],
)
def test_designs_that_hosts_cannot_run_are_refused(
    place: Path, words: tuple[str, ...], why: str
) -> None:
    assert why in bw(place, "run", *words, "--", "./work.sh", "1", status=2)
    assert not (place / "bw-study").exists()
