"""What a person sees on a terminal: real pseudo-terminals of several widths."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

BW = [sys.executable, "-m", "benchwright.cli.main"]
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;]+m")
_REDRAWN = re.compile(r"[\r\n]+|\x1b\[1A|\x1b\[2K")


def on_terminal(place: Path, columns: int, *words: str, **environment: str) -> str:
    """Run bw on a new terminal of this width, and return all that it wrote."""
    ours, theirs = pty.openpty()
    size = struct.pack("HHHH", 24, columns, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    running = subprocess.Popen(
        [*BW, *words],
        cwd=place,
        env={**known, "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the terminal has no writer any more
            break
        written += part
    os.close(ours)
    assert running.wait(timeout=60) in (0, 1, 3)
    return written.decode()


def states_of(text: str) -> list[str]:
    """Return each line that was on the screen, redrawn ones too, without control sequences."""
    lines = (_CONTROL.sub("", line).strip() for line in _REDRAWN.split(text))
    return [line for line in lines if line]


SLOW = "sleep 0.3; echo tps 51$(($$ % 80 + 10))"
RUN = (
    *("run", "--no-watch", "--precision", "20%", "--min-runs", "5", "--max-runs", "6"),
    *("--name", "a-name-of-a-test", "--metric", "tps:higher~tps ([0-9]+)"),
)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_progress_fits_the_width_and_shows_the_users_metric(tmp_path: Path, columns: int) -> None:
    text = on_terminal(tmp_path, columns, *RUN, "--", "sh", "-c", SLOW)
    statuses = [line for line in states_of(text) if ": trial " in line]
    assert statuses
    for line in statuses:
        assert len(line) <= columns
        assert "…" not in line
        assert "tps 5,1" in line
    assert any(" left" in line for line in statuses) is (columns > 60)
    assert any("so far" in line for line in statuses) is (columns > 80)
    rows = [line for line in states_of(text) if line.startswith("a-name-of-a-test ")]
    assert all(len(line) <= columns for line in rows)


def test_several_tests_have_one_status_line(tmp_path: Path) -> None:
    words = ("run", "--no-watch", "--runs", "6", "-P", "n=1,2,3", "sleep 0.1{n}")
    lines = states_of(on_terminal(tmp_path, 80, *words))
    statuses = [line for line in lines if "trial " in line]
    assert statuses
    for line in statuses:
        assert re.match(r"(\S+  )?test [123] of 3, trial 1?[0-9] of 18; elapsed ", line)
        assert len(line) <= 80
    assert any("about" in line and line.endswith(" left") for line in statuses)
    assert not any("stopped:" in line for line in lines)


def test_severities_have_a_colour_and_no_color_none(tmp_path: Path) -> None:
    words = ("run", "--no-watch", "--quiet", "--min-runs", "3", "--", "true")
    coloured = on_terminal(tmp_path, 100, *words)
    assert "\x1b[33mwarning\x1b[0m" in coloured
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        text = on_terminal(tmp_path, 100, *words, **plain)
        assert "warning" in text
        assert not _COLOUR.search(text)


def test_a_dumb_terminal_has_plain_lines(tmp_path: Path) -> None:
    text = on_terminal(tmp_path, 80, *RUN, "--", "sh", "-c", SLOW, TERM="dumb")
    assert "\x1b" not in text
    assert "stopped" in text


def test_a_failure_is_reported_once(tmp_path: Path) -> None:
    text = on_terminal(tmp_path, 100, "run", "--no-watch", "--", "ls", "/nonexistent")
    lines = states_of(text)
    assert sum("exited with" in line for line in lines) == 1
    assert sum("cannot access" in line for line in lines) == 1
    assert any("bw-study/logs/s1/ls/exec-1.err" in line for line in lines)
    assert not any("elapsed" in line for line in lines)
