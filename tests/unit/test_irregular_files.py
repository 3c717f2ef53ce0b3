"""A FIFO, a device or a socket in the place of a file is refused or passed over; nobody waits for
it."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import benchwright
from benchwright.cli.main import main
from benchwright.core.untrusted import open_regular, regular_bytes
from benchwright.study.directory import JOURNAL

PIPE, STUDY, HISTORY = "pipe", "folder/study", "h.db"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a FIFO, and a study whose journal is one; a command that waits for them is stopped."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo(PIPE)
    Path(STUDY).mkdir(parents=True)
    os.mkfifo(f"{STUDY}/{JOURNAL}")

    def stuck(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("the command waits for the other end")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(60)
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


REFUSED = (
    "not a regular file",
    "is not a history file",
    "is not a study",
    "there is no such",
    "of an unknown suite type",
)
"""What a command says of a FIFO: what it is, or what it is not."""


@pytest.mark.parametrize(
    "words",
    [
        f"history {PIPE}",
        f"history add {PIPE} --file {HISTORY}",
        f"history add {STUDY} --file {PIPE}",
        f"show {STUDY}",
        f"report {STUDY} -o x.html",
        f"report {PIPE}",
        f"live {STUDY}",
        f"tag {STUDY} --note x",
        f"export {STUDY} --format junit",
        f"export {PIPE} --format junit",
        f"pool status {STUDY}",
        f"resume {STUDY}",
        f"run --study {STUDY} -- true",
        f"env {STUDY}",
        f"env --diff {STUDY} {STUDY}",
        f"env --diff {PIPE} {PIPE}",
        f"stats {PIPE}",
        f"stats --rule {PIPE} {PIPE}",
        f"plot {PIPE} -o x.svg",
        f"why {PIPE}",
        f"compare {PIPE} {PIPE}",
        f"compare --baseline {PIPE} -- true",
        f"run {PIPE}",
        f"load {PIPE} --target null",
        f"load --target udp://127.0.0.1:9 --rate 10 --payload file:{PIPE}",
        f"load --rate 1 --target http://127.0.0.1:9 --llm chat --model x --prompt-trace {PIPE}",
        f"load --rate 1 --target grpc://127.0.0.1:9 --grpc a.B/C --data {{}} --proto {PIPE}",
        f"replay {PIPE} --target http://127.0.0.1:9 --llm chat --model x",
        f"run --draw n=@{PIPE} -- echo {{n}}",
        f"peak {PIPE}",
        f"surface {PIPE}",
        f"ls {PIPE}",
    ],
)
def test_a_fifo_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(words.split())
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    assert code == 2, captured
    assert any(text in captured.err for text in REFUSED), captured


@pytest.mark.parametrize("words", ["history folder", "ls folder"])
def test_a_study_that_is_a_fifo_is_passed_over_in_a_folder(words: str) -> None:
    assert main(words.split()) in (0, 3)


def test_a_log_that_is_a_fifo_is_damage(tmp_path: Path) -> None:
    study = tmp_path / "whole"
    assert main(["run", "--max-runs", "2", "--study", str(study), "--", "true"]) == 0
    (study / f"{JOURNAL}-wal").unlink(missing_ok=True)
    os.mkfifo(study / f"{JOURNAL}-wal")
    assert main(["show", str(study)]) == 2


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in (PIPE, "socket", "/dev/zero", "."):
            with pytest.raises(OSError, match=r"."):
                open_regular(name)
    (tmp_path / "file").write_text("text")
    assert regular_bytes("file") == b"text"


def test_what_the_callers_shell_has_opened_is_read() -> None:
    script = "import sys; from benchwright.core.untrusted import regular_bytes; print(regular_bytes(sys.argv[1]))"
    shell = f"exec {sys.executable} -c '{script}' <(sleep 0.3; echo text)"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.stdout == f"{b'text' + bytes([10])!r}\n", done.stderr


ROOMS = ("cli", "study", "report", "findings", "page", "suite")
"""The rooms that read files that a user, a study or another program names."""
WRITES = {"w", "wb", "a", "ab", "x", "xb", "r+b"}


def test_the_rooms_that_read_such_files_open_them_in_one_place() -> None:
    root = Path(benchwright.__path__[0])
    direct = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and _opens(call):
                    direct.append(f"{path.relative_to(root)}:{call.lineno}")
    assert [one for one in direct if one.split(":")[0] not in KNOWN] == []


KNOWN = {
    "page/html.py": "templates of the package",
    "inputs/mistakes.py": "opens without waiting, and checks the file itself",
    "study/catalogue.py": "/proc",
    "study/directory.py": "/proc",
}


def _opens(call: ast.Call) -> bool:
    """Return whether a call opens a file to read it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in ("read_text", "read_bytes"):
        return True
    modes = {one.value for one in call.args if isinstance(one, ast.Constant)}
    if isinstance(call.func, ast.Name) and call.func.id == "open":
        return not WRITES & modes
    # `Path.open(mode)`: its first argument is no path, as that of other methods named `open`.
    return name == "open" and len(modes) == len(call.args) and not WRITES & modes
