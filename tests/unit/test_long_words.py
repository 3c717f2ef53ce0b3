"""Long words of one kind: no command's time grows with their square, and signals end it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchwright.cli.parser import COMMANDS

LENGTH = 100_000
KINDS = (
    *("x", "X", "7", "-", '"', "'", "{", "}", "/", " ", "=", "\\", "a/", "a=b ", "x@y:"),
    *("$(", "eyJ", "://"),
)
WORDS = [(kind * LENGTH)[:LENGTH] for kind in KINDS]
CPU_S = 90
"""What a process may take: some times as much as it needs for all kinds, beside other work, and
less than one quadratic search in one of them takes."""
CHILD = Path(__file__).parent.parent / "stand_ins" / "long_texts.py"


def limited() -> None:
    """Let the kernel end a process that takes too long, also within one call."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def bw(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    """Run `bw` with a limit of CPU time."""
    return subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=at,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=limited,
    )


@pytest.mark.timeout(1500)
def test_no_expression_is_quadratic() -> None:
    done = subprocess.run([sys.executable, "-P", str(CHILD)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *slow, count = done.stdout.splitlines()
    assert slow == []
    assert int(count.split()[0]) > 100


MEASURED = {
    "run": ("run", "--max-runs", "2", "--study", "run", "--", "true", *WORDS),
    "compare": (
        *("compare", "--max-blocks", "2", "--study", "compare", "--"),
        *(f"true {word}" for word in WORDS[:7]),
    ),
    "env": ("env", "--", "true", *WORDS),
    "shell": ("env", "--", "sh", "-c", "true " + "a" * LENGTH),
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_command_may_have_long_words(name: str, tmp_path: Path) -> None:
    done = bw(*MEASURED[name], at=tmp_path)
    assert done.returncode in (0, 1, 3), done.stderr[-2000:]
    assert "Traceback" not in done.stderr


ALL = [name for names in COMMANDS.values() for name in names]
IN_ONE_PROCESS = """
import sys
from benchwright.cli.main import main
command, *kinds = sys.argv[1:]
for kind in kinds:
    try:
        code = main([command, (kind * {length})[:{length}]])
    except SystemExit as ended:
        code = ended.code
    print(kind, code, flush=True)
"""


@pytest.mark.parametrize("command", [name for name in ALL if name != "help"])
def test_every_command_takes_or_refuses_a_long_word(command: str, tmp_path: Path) -> None:
    script = IN_ONE_PROCESS.format(length=LENGTH)
    done = subprocess.run(
        [sys.executable, "-c", script, command, *KINDS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=limited,
    )
    assert done.returncode == 0, (done.stdout[-200:], done.stderr[-2000:])
    assert "Traceback" not in done.stderr


def test_a_signal_ends_a_run_with_long_words(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = f"echo > {started}; sleep 600"
    words = ("run", "--study", "study", "--", "sh", "-c", script, *WORDS)
    with subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        preexec_fn=limited,
    ) as process:
        while not started.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
