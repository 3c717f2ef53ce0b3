"""The output of a test's or a session's commands as one readable log.

Purpose: what `NAME.log` holds, each piece headed by epoch, command, thread and stream.
Decision: output is stored once, under logs/; what is short is also here, to be read at a
glance, the rest is named with the place where it is. A long piece that is the same as one
before says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchwright.model.observation import ProcessRecord, Trial
from benchwright.model.plan import Mode
from benchwright.study.contents import TestContents
from benchwright.study.logs import (
    STREAMS,
    Stream,
    kept_range,
    left_out,
    log_directory,
    log_file,
    read_output,
    written,
)

_SHORT_BYTES = 4096
"""A piece that is longer is only named."""
_MOST_BYTES = 1 << 20
"""After this much of a test's output all pieces are only named."""


def output_of_test(study: Path, session: int, test: TestContents) -> Iterator[bytes]:
    """Yield the output of a test: PRESETUP, its trials, what is void, then the rest."""
    name = test.plan.name
    logs = log_directory(study, session, name)
    room = _Room(study)
    yield from _whole(room, logs, (Mode.PRESETUP,))
    seen = [(trial, "") for trial in test.trials]
    seen += [(void.trial, " void") for void in test.void if void.trial is not None]
    shown: dict[tuple[str, tuple[int, int]], int] = {}
    for trial, mark in seen:
        for process in trial.processes:
            for stream in STREAMS:
                if not written(process, stream):
                    continue
                yield f"{_head(trial, process, stream, mark)}\n".encode()
                data = b""
                if written(process, stream) <= _SHORT_BYTES:
                    data = read_output(study, session, name, process, stream)
                key = log_file(process, stream), kept_range(process, stream)
                epoch = shown.setdefault(key, trial.epoch)
                if epoch != trial.epoch and not data:
                    yield f"[the same as in epoch {epoch}]\n".encode()
                    continue
                yield from room.shown(data, logs / key[0], _place(process, stream))
    yield from _whole(room, logs, (Mode.PREDICATE, Mode.POSTCLEANUP))


def output_of_program(study: Path, session: int) -> Iterator[bytes]:
    """Yield the output of commands that belong to no test: SYSTEM and FASTFAIL."""
    logs = log_directory(study, session, None)
    yield from _whole(_Room(study), logs, (Mode.SYSTEM, Mode.FASTFAIL))


class _Room:
    """Keeps account of how much was shown."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self._left = _MOST_BYTES

    def shown(self, data: bytes, path: Path, place: str) -> Iterator[bytes]:
        """Yield a piece, or where it is if it is empty (too long) or room is short."""
        if not data or len(data) > self._left:
            where = path.relative_to(self._study)
            yield f"[in {where}: {place}]\n".encode()
            return
        self._left -= len(data)
        yield data
        if not data.endswith(b"\n"):
            yield b"\n"


def _whole(room: _Room, logs: Path, modes: tuple[Mode, ...]) -> Iterator[bytes]:
    """Yield the files of commands that run outside trials; no record says which range
    is whose, so each file is one piece."""
    for mode in modes:
        for stream in STREAMS:
            path = logs / f"{mode.lower()}-0.{stream}"
            try:
                size = path.stat().st_size
                data = path.read_bytes() if size <= _SHORT_BYTES else b""
            except OSError:
                continue
            if size:
                yield f"[{mode} std{stream}]\n".encode()
                yield from room.shown(data, path, f"{size:,} bytes")


def _head(trial: Trial, process: ProcessRecord, stream: Stream, mark: str) -> str:
    thread = f" thread {process.thread}" if process.thread else ""
    return f"[epoch {trial.epoch}{mark} {process.mode}{thread} std{stream}]"


def _place(process: ProcessRecord, stream: Stream) -> str:
    """Return what is kept of a stream and where in its file, in words."""
    offset, length = kept_range(process, stream)
    total = f"{written(process, stream):,} bytes"
    if process.packed:
        return f"{total}, the gzip member of {length:,} bytes at {offset:,}"
    if cut := left_out(process, stream):
        half = f"{length // 2:,}"
        return (
            f"{total}, of which the first {half} are kept at {offset:,} and the last "
            f"{half} after them; {cut:,} bytes between them were left out"
        )
    return f"{total} at {offset:,}"
