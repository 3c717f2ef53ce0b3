"""`--instructions`: counted by valgrind's callgrind, and by perf where the machine counts."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchwright.trial.programs import COUNTER, counter_problem
from bw_command import bw

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed"
)
COUNTS = "i=0; while [ $i -lt {n} ]; do i=$((i + 1)); done"


@needs_valgrind
def test_a_comparison_judges_instructions_and_only_shows_time(tmp_path: Path) -> None:
    commands = [COUNTS.format(n=n) for n in (1000, 1100)]
    done = bw(tmp_path, "compare", "--instructions=callgrind", "--json", "--", *commands)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    judged = {v["metric"]: v for v in document["verdicts"] if v["judged"]}
    assert set(judged) == {"instructions"}
    assert judged["instructions"]["verdict"] == "slower"
    assert 1.0 < judged["instructions"]["ratio"]["value"] < 1.1
    assert COUNTER.name not in done.stdout


@needs_valgrind
def test_children_are_counted_and_the_exit_status_is_the_commands(tmp_path: Path) -> None:
    one, two = (
        json.loads(bw(tmp_path, *words).stdout)["answers"][0]["estimate"]["value"]
        for words in (
            ("run", "--instructions=callgrind", "--runs", "2", "--json", "--study", study,
             "--", "sh", "-c", command)
            for study, command in (("a", "exec true"), ("b", "true; sh -c :; sh -c :"))
        )
    )  # fmt: skip
    assert two > 1.5 * one
    failed = bw(
        tmp_path, "run", "--instructions=callgrind", "--runs", "1", "--study", "c", "--",
        "false",
    )  # fmt: skip
    assert failed.returncode == 1
    assert "exited with status 1" in failed.stdout + failed.stderr


def test_perf_counts_or_says_what_to_do(tmp_path: Path) -> None:
    why, hint = counter_problem("perf")
    done = bw(tmp_path, "run", "--instructions", "--runs", "3", "--json", "--", "true")
    if why:
        assert done.returncode == 2
        assert "[no-counter]" in done.stderr
        assert hint in done.stderr
        assert not (tmp_path / "bw-study").exists()
        return
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answers"][0]["metric"] == "instructions"


def test_a_count_that_is_not_known_is_absent(tmp_path: Path) -> None:
    """perf's report of a machine that does not count has no number."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "perf").write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do [ "$1" = -o ] && o=$2; shift; done; shift\n'
        'echo "<not supported>;;instructions:u;0;100.00" >"$o"; exec "$@"\n'
    )
    (tools / "perf").chmod(0o755)
    log = tmp_path / "log"
    done = subprocess.run(
        [COUNTER, "perf", "sh", "-c", "exit 7"],
        env={"PATH": f"{tools}:/usr/bin:/bin", "APLOG": str(log)},
        check=False,
    )
    assert done.returncode == 7
    assert not log.exists()
