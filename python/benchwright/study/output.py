"""The output of a test's or a session's commands as one readable log.

Purpose: what `NAME.log` holds, each piece headed by epoch, command, thread and stream.
Decision: streamed piece by piece; a build's output can be larger than memory.
Non-goal: the files under logs/ are the originals and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchwright.model.observation import ProcessRecord, Trial
from benchwright.model.plan import Mode
from benchwright.study.contents import TestContents
from benchwright.study.logs import Stream, log_directory, read_output

_STREAMS: tuple[Stream, Stream] = ("out", "err")
_PIECE_BYTES = 1 << 20


def output_of_test(study: Path, session: int, test: TestContents) -> Iterator[bytes]:
    """Yield all output of a test: PRESETUP, its trials, what is void, then the rest."""
    name = test.plan.name
    logs = log_directory(study, session, name)
    yield from _whole(logs, (Mode.PRESETUP,))
    seen = [(trial, "") for trial in test.trials]
    seen += [(void.trial, " void") for void in test.void if void.trial is not None]
    for trial, mark in seen:
        for process in trial.processes:
            for stream in _STREAMS:
                data = read_output(study, session, name, process, stream)
                yield from _headed(_head(trial, process, stream, mark), data)
    yield from _whole(logs, (Mode.PREDICATE, Mode.POSTCLEANUP))


def output_of_program(study: Path, session: int) -> Iterator[bytes]:
    """Yield the output of commands that belong to no test: SYSTEM and FASTFAIL."""
    logs = log_directory(study, session, None)
    yield from _whole(logs, (Mode.SYSTEM, Mode.FASTFAIL))


def _whole(logs: Path, modes: tuple[Mode, ...]) -> Iterator[bytes]:
    """Yield the files of commands that run outside trials; no record says which range
    is whose, so each file is one piece."""
    for mode in modes:
        for stream in _STREAMS:
            try:
                with (logs / f"{mode.lower()}-0.{stream}").open("rb") as file:
                    first = file.read(_PIECE_BYTES)
                    if not first:
                        continue
                    yield f"[{mode} std{stream}]\n".encode()
                    last = first
                    while first:
                        yield first
                        last, first = first, file.read(_PIECE_BYTES)
                    if not last.endswith(b"\n"):
                        yield b"\n"
            except OSError:
                continue


def _head(trial: Trial, process: ProcessRecord, stream: Stream, mark: str) -> str:
    thread = f" thread {process.thread}" if process.thread else ""
    return f"[epoch {trial.epoch}{mark} {process.mode}{thread} std{stream}]\n"


def _headed(head: str, data: bytes) -> Iterator[bytes]:
    if data:
        yield head.encode()
        yield data
        if not data.endswith(b"\n"):
            yield b"\n"
