"""Every process's output: one append-only file per mode, thread and stream of a test.

The record of a process says which range of its file is its own, so a thousand epochs
need no thousand files, and a trial creates none (docs/launcher-protocol.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from benchwright.model.observation import ProcessRecord
from benchwright.study.names import file_name

Stream = Literal["out", "err"]
PROGRAM_LOG = "_program"
"""Directory of commands that belong to no test: SYSTEM, FASTFAIL."""


def log_directory(study: Path, session: int, test: str | None) -> Path:
    """Return where a test's output goes; None for commands outside every test."""
    name = PROGRAM_LOG if test is None else file_name(test)
    return study / "logs" / f"s{session}" / name


def read_output(
    study: Path, session: int, test: str | None, process: ProcessRecord, stream: Stream
) -> bytes:
    """Return what one process wrote to a stream; empty where the log is gone."""
    offset, length = process.out if stream == "out" else process.err
    if not length:
        return b""
    name = f"{process.mode.lower()}-{process.thread}.{stream}"
    try:
        with (log_directory(study, session, test) / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError:
        return b""
