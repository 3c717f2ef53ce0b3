"""Filaments that are programs, with the real engine: what they are sent, and what their replies do.

Nothing here asserts a time, but that nothing is issued early.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from benchwright.load import read_samples
from bw_command import Done, bw

PAGE = (Path(__file__).parents[2] / "docs" / "workload-toml.md").read_text()
FILAMENT = '[[filament]]\ntype = "process"\ncommand = ["python3", "filament.py"]\n'


def run(directory: Path, program: str, *words: str, more: str = "") -> Done:
    """Run a load of one program on the null target."""
    (directory / "filament.py").write_text(textwrap.dedent(program))
    (directory / "w.toml").write_text(FILAMENT + more)
    return bw(directory, "load", "w.toml", "--target", "null", "--json", *words)


def result(done: Done) -> dict[str, Any]:
    """Return the result of a load that went well."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["result"]
    return found


def test_the_program_of_the_page_reacts_to_completions(tmp_path: Path) -> None:
    walk = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    words = ("--samples", "rows.bw", "--seed", "7", "--duration", "300ms")
    found = result(run(tmp_path, walk, *words))
    rows = read_samples(tmp_path / "rows.bw")
    assert len(rows) > 3
    assert found["counts"]["early"] == 0
    # Each read is intended a millisecond after the one before has ended.
    ended = rows["completed"][:-1].astype(int)
    assert (rows["intended"][1:].astype(int) == ended + 1_000_000).all()
    (process,) = found["processes"]
    assert process["filament"] == 0
    assert process["replies"] >= len(rows)
    assert process["events"] >= len(rows) - 1
    again = tmp_path / "again"
    again.mkdir()
    result(run(again, walk, *words))
    offsets = read_samples(again / "rows.bw")["offset"].tolist()
    shorter = min(len(offsets), len(rows))
    assert offsets[:shorter] == rows["offset"].tolist()[:shorter]


def test_timers_messages_and_tags(tmp_path: Path) -> None:
    program = """
        import sys
        start = sys.stdin.readline().split()
        assert start == ["start", "0", "3", str(1 << 40)], start
        print("op 1000000 write 8192 512 77")
        print("timer 2000000 5")
        print("send 3000000 other 9")
        print("ready", flush=True)
        # In this order by their words: on a busy machine the end may come after the timer.
        seen = sorted(sys.stdin.readline().split() for _ in range(2))
        assert seen[0][:4] == ["end", "77", "512", "1000000"], seen
        assert seen[0][5] == "write", seen
        assert seen[1] == ["timer", "5", "2000000"], seen
        print("done", flush=True)
        sys.stdin.read()
    """
    other = """
        [[filament]]
        type = "closed"
        name = "leader"
        users = 1
        think = "1h"
        [[filament]]
        type = "follow"
        name = "other"
        leader = "leader"
        every = 1000000
        read = "0%"
        size = "64k"
    """
    words = ("--samples", "rows.bw", "--seed", "3", "--duration", "100ms")
    found = result(run(tmp_path, program, *words, more=textwrap.dedent(other)))
    rows = read_samples(tmp_path / "rows.bw")
    sizes = dict(zip(rows["size"].tolist(), rows["intended"].tolist(), strict=True))
    assert sizes[512] == 1_000_000
    assert sizes[65536] == 3_000_000
    assert found["processes"] == [{"filament": 0, "events": 2, "replies": 3}]


def test_a_late_reply_is_lateness_of_the_generator(tmp_path: Path) -> None:
    program = """
        import sys, time
        sys.stdin.readline()
        print("ready", flush=True)
        time.sleep(0.2)
        print("op 0 read 0 512", flush=True)
        print("done", flush=True)
    """
    found = result(run(tmp_path, program, "--duration", "1s"))
    times = found["kinds"]["read"]
    assert found["counts"]["issued"] == 1
    assert times["issue_error_ns"]["min"] >= 100_000_000
    assert times["response_ns"]["min"] >= times["issue_error_ns"]["min"]
    assert found["lateness_ns"]["max"] == times["issue_error_ns"]["max"]


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        ("", ["ended before it was ready"]),
        ("import sys; sys.exit(3)", ["exit status: 3"]),
        ("print('opp 1 read 0 512')", ["line 1", "the first word", "opp 1"]),
        ("print('op 1 read 0 512 ' * 900)", ["line 1", "4096 bytes"]),
        ("import os; os.write(1, b'\\xff\\xfe\\n')", ["line 1", "UTF-8"]),
        (
            "print('ready', flush=True); print('op 1 read 1099511627776 1', flush=True)",
            ["line 2", "beyond the target"],
        ),
        (
            "import sys; print('ready', flush=True); sys.stdin.read(); sys.exit(4)",
            ["exit status: 4"],
        ),
        (
            "import sys\nfor n in range(70000): print('op 1 read 0 512')\n"
            "print('ready', flush=True)",
            ["more than 65536 replies before it was ready"],
        ),
    ],
)
def test_a_hostile_program_ends_the_load_with_its_reason(
    tmp_path: Path, program: str, parts: list[str]
) -> None:
    done = run(tmp_path, program, "--duration", "100ms")
    assert done.returncode == 1, done.stderr
    assert "filament-process" in done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_program_that_does_not_read_ends_the_load(tmp_path: Path) -> None:
    program = """
        import sys
        sys.stdin.readline()
        print("ready", flush=True)
        for n in range(400000):
            print(f"op {n} read 0 512")
        sys.stdout.flush()
        # It ends when its input does, without having read.
        import select, time
        time.sleep(1)
    """
    done = run(tmp_path, program, "--duration", "60s")
    assert done.returncode == 1, done.stderr
    assert "did not read its events" in done.stderr


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(FILAMENT.replace('"python3"', '"no-such-program"'))
    done = bw(tmp_path, "load", "w.toml", "--target", "null")
    assert done.returncode == 1
    assert "no-such-program cannot be started" in done.stderr
    assert "w.toml:1" in done.stderr
