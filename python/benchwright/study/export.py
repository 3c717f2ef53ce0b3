"""Plain-text export of every result, which can be read years later without Benchwright."""

from __future__ import annotations

import datetime
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.observation import MeasurementBlock, ProcessRecord, Trial, TrialEnding
from benchwright.core.plan import CommandMode, Replicated
from benchwright.core.text_table import csv_of_rows
from benchwright.core.untrusted import regular_bytes, visible_json
from benchwright.study.contents import TestContents, VoidBatch, one_test_of, tests_of
from benchwright.study.journal import SessionInfo, StoredSession, Study
from benchwright.study.logs import (
    STREAMS,
    Stream,
    file_name,
    log_directory,
    log_file,
    omitted_bytes,
    read_output,
    stored_range,
    written_bytes,
)

# --------------------------------------------------------------------------------------
# Writes Auto-pilot's results file: blocks headed `[name]` of `field = value` lines.
#
# Purpose: a test as text that Getstats, ours and the original, reads. Decision: what only
# Benchwright records (plan, session, endings, void trials) is in blocks with other names, which a
# reader of `[measurement]` skips. Rejected: comments, which the format does not have.
# Non-goal: escapes, which the format does not have: a line break in a value becomes a space.
# Source: Auto-pilot paper, section 3.2; Auto-pilot's manual, version 2.1.

_RES_TIMES = ("user", "system", "elapsed")
_RES_NAMES = {"system": "sys"}


def res_text(test: TestContents, session: StoredSession) -> str:
    """Return a test in the form of Auto-pilot's results file. Times are in seconds."""
    parts = [_res_session(session), _res_test(test)]
    for trial in test.trials:
        parts += _res_trial(trial)
    for void in test.void:
        parts += _res_void(void)
    if test.stop is not None:
        stop = {"reason": test.stop.reason, "detail": test.stop.detail}
        parts.append(_res_section("stop", stop))
    return "\n".join(parts)


def _res_session(session: StoredSession) -> str:
    info = session.info
    started = datetime.datetime.fromtimestamp(info.started_ns // 10**9, datetime.UTC)
    fields = {
        "number": str(session.number),
        "started": started.isoformat(),
        "benchwright": info.version,
        "boot": info.boot_id,
        "directory": info.directory,
        "arguments": shlex.join(info.arguments),
        **{f"define {name}": value for name, value in info.defines},
    }
    return _res_section("session", fields)


def _res_test(test: TestContents) -> str:
    plan = test.plan
    fields = {
        "name": plan.name,
        "threads": str(plan.threads),
        **{f"factor {name}": level for name, level in plan.sample},
        **{f"command {n}": c.text for n, c in enumerate(plan.phases.exec, 1)},
    }
    return _res_section("test", fields)


def _res_trial(trial: Trial) -> Iterator[str]:
    for block in trial.blocks:
        name = f"warmup {block.name}" if trial.warmup else block.name
        yield _res_section(name, _block_fields(block))
    for extra in trial.extra_blocks:
        fields = {"epoch": str(trial.epoch), **extra}
        yield _res_section(fields.pop("", "hook"), fields)
    if trial.ending is not TrialEnding.OK or trial.attempt > 1 or trial.missing or trial.warmup:
        fields = {"epoch": str(trial.epoch), "ending": trial.ending.value}
        if trial.warmup:
            fields["warmup"] = "yes"
        if trial.attempt > 1:
            fields["attempt"] = str(trial.attempt)
        if trial.missing:
            fields["missing"] = "; ".join(trial.missing)
        yield _res_section("trial", fields)


def _res_void(void: VoidBatch) -> Iterator[str]:
    epochs = " ".join(str(epoch) for epoch in void.epochs)
    yield _res_section("void", {"epochs": epochs, "cause": void.cause})
    for block in void.trial.blocks if void.trial else ():
        yield _res_section("void measurement", _block_fields(block))


def _block_fields(block: MeasurementBlock) -> dict[str, str]:
    fields = {"thread": str(block.thread), "epoch": str(block.epoch), "command": block.command}
    for name in _RES_TIMES:
        if name in block.values:
            fields[_RES_NAMES.get(name, name)] = number_text(block.values[name])
    fields["status"] = str(block.status)
    for name, value in block.values.items():
        if name not in _RES_TIMES:
            fields[name] = number_text(value)
    return fields


def number_text(value: float) -> str:
    """Return a number as text that reads back exactly; whole numbers without a fraction."""
    return repr(value).removesuffix(".0")


def _res_section(name: str, fields: dict[str, str]) -> str:
    lines = [f"[{name}]"]
    # A line break is not printable, so this test is enough for nearly all values.
    lines += [
        f"{key} = {text if text.isprintable() else ' '.join(text.splitlines())}"
        for key, text in fields.items()
    ]
    return "\n".join(lines) + "\n"


# -- The output of the commands of a test or a session as one readable log -------------
#
# Purpose: the contents of `NAME.log`; each piece has a heading with epoch, command, thread and
# stream. Decision: output is stored once, under logs/; short pieces are copied here for reading,
# and for longer ones the file and range are given. A long piece that equals an earlier one
# says so.

_SHOWN_PIECE_BYTES = 4096
"""Of a longer piece only the place is given."""
_SHOWN_TEST_BYTES = 1 << 20
"""After this much of a test's output only the places of all further pieces are given."""


def output_of_test(study: Path, session: int, test: TestContents) -> Iterator[bytes]:
    """Yield the output of a test: PRESETUP, its trials, void epochs, then the rest."""
    name = test.plan.name
    logs = log_directory(study, session, name)
    room = _ShownOutput(study)
    yield from _whole_files(room, logs, (CommandMode.PRESETUP,))
    seen = [(trial, "") for trial in test.trials]
    seen += [(void.trial, " void") for void in test.void if void.trial is not None]
    shown: dict[tuple[str, tuple[int, int]], int] = {}
    for trial, mark in seen:
        for process in trial.processes:
            for stream in STREAMS:
                if not written_bytes(process, stream):
                    continue
                yield f"{_piece_heading(trial, process, stream, mark)}\n".encode()
                data = b""
                if written_bytes(process, stream) <= _SHOWN_PIECE_BYTES:
                    data = read_output(study, session, name, process, stream)
                key = log_file(process, stream), stored_range(process, stream)
                epoch = shown.setdefault(key, trial.epoch)
                if epoch != trial.epoch and not data:
                    yield f"[the same as in epoch {epoch}]\n".encode()
                    continue
                yield from room.shown(data, logs / key[0], _piece_location(process, stream))
    yield from _whole_files(room, logs, (CommandMode.PREDICATE, CommandMode.POSTCLEANUP))


def output_of_program(study: Path, session: int) -> Iterator[bytes]:
    """Yield the output of commands that belong to no test: SYSTEM and FASTFAIL."""
    logs = log_directory(study, session, None)
    yield from _whole_files(_ShownOutput(study), logs, (CommandMode.SYSTEM, CommandMode.FASTFAIL))


class _ShownOutput:
    """Counts how much output was shown."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self._left = _SHOWN_TEST_BYTES

    def shown(self, data: bytes, path: Path, place: str) -> Iterator[bytes]:
        """Yield a piece, or its place if `data` is empty (too long) or the limit is reached."""
        if not data or len(data) > self._left:
            where = path.relative_to(self._study)
            yield f"[in {where}: {place}]\n".encode()
            return
        self._left -= len(data)
        yield data
        if not data.endswith(b"\n"):
            yield b"\n"


def _whole_files(room: _ShownOutput, logs: Path, modes: tuple[CommandMode, ...]) -> Iterator[bytes]:
    """Yield the files of commands that run outside trials; each file is one piece, because no
    record says which range belongs to which command."""
    for mode in modes:
        for stream in STREAMS:
            path = logs / f"{mode.lower()}-0.{stream}"
            try:
                size = path.stat().st_size
                data = regular_bytes(path) if size <= _SHOWN_PIECE_BYTES else b""
            except OSError:
                continue
            if size:
                yield f"[{mode} std{stream}]\n".encode()
                yield from room.shown(data, path, f"{size:,} bytes")


def _piece_heading(trial: Trial, process: ProcessRecord, stream: Stream, mark: str) -> str:
    thread = f" thread {process.thread}" if process.thread else ""
    return f"[epoch {trial.epoch}{mark} {process.mode}{thread} std{stream}]"


def _piece_location(process: ProcessRecord, stream: Stream) -> str:
    """Return a text that says which part of a stream is stored, and where in its file."""
    offset, length = stored_range(process, stream)
    total = f"{written_bytes(process, stream):,} bytes"
    if process.packed:
        return f"{total}, the gzip member of {length:,} bytes at {offset:,}"
    if cut := omitted_bytes(process, stream):
        half = f"{length // 2:,}"
        return (
            f"{total}, of which the first {half} are kept at {offset:,} and the last "
            f"{half} after them; {cut:,} bytes between them were left out"
        )
    return f"{total} at {offset:,}"


# --------------------------------------------------------------------------------------
# Plain-text export of every result.
#
# Under `results/s<N>/`: per test `NAME.res` (Auto-pilot's results file) and `NAME.log`
# (all output), for the session `trials.csv`, `session.json` and `_program.log`.
# Decision: derived from the journal and replaced whole (draft, fsync, rename), so that a
# reader never sees half a file and a lost one can be made again. Rejected: appending after each
# trial, which would write to the benchmark's own disk while it runs. A resume does not read
# these files. A command of several lines is written on one line.
# Source: Auto-pilot paper, section 3.2; Auto-pilot's manual for `.res`.


def results_directory(study: Study, session: int) -> Path:
    """Return the directory of a session's exports."""
    return study.path / "results" / f"s{session}"


def export_session(study: Study, session: int, written: Collection[str] = ()) -> Path:
    """Write every test's files and the session's, and return their directory.

    `written` are the keys of tests whose own files are up to date.
    Raises OSError, and StudyError `study-gone`.
    """
    study.check_there()
    directory = results_directory(study, session)
    stored = _stored_session(study, session)
    tests = tests_of(study, session)
    for test in tests:
        if test.key not in written:
            _write_test(study, stored, test)
    write_whole(directory / "trials.csv", [csv_text(tests).encode()])
    write_session(study, session)
    write_whole(directory / "_program.log", output_of_program(study.path, session))
    return directory


def write_session(study: Study, session: int) -> None:
    """Write `session.json`: what a session was started with and how it ended."""
    path = results_directory(study, session) / "session.json"
    write_whole(path, [_session_json(_stored_session(study, session)).encode()])


def export_test(study: Study, session: int, key: str) -> Path:
    """Write one test's files and return the path of its `.res` file.

    Raises OSError, and StudyError `study-gone`: a study that is gone is not made again.
    """
    study.check_there()
    test = one_test_of(study, session, key)
    return _write_test(study, _stored_session(study, session), test)


def _stored_session(study: Study, number: int) -> StoredSession:
    (session,) = (s for s in study.sessions() if s.number == number)
    return session


def _write_test(study: Study, session: StoredSession, test: TestContents) -> Path:
    directory = results_directory(study, session.number)
    name = file_name(test.plan.name)
    results = directory / f"{name}.res"
    write_whole(results, [res_text(test, session).encode(errors="backslashreplace")])
    output = output_of_test(study.path, session.number, test)
    write_whole(directory / f"{name}.log", output)
    return results


def _levels_of(test: TestContents) -> tuple[str, ...]:
    """Return the levels of replication of a test, outermost first."""
    rule = test.plan.stopping
    if not isinstance(rule, Replicated):
        return ()
    return tuple(level.kind.value for level in rule.replication.levels)


def csv_text(tests: Sequence[TestContents]) -> str:
    """Return one row per measurement block of all tests; absent values are empty."""
    ran = [(test, trial, b) for test in tests for trial in test.trials for b in trial.blocks]
    names = list(dict.fromkeys(name for _, _, block in ran for name in block.values))
    factors = list(dict.fromkeys(n for test in tests for n, _ in test.plan.sample))
    named = [f"factor:{name}" for name in factors]
    replicated = list(dict.fromkeys(kind for test in tests for kind in _levels_of(test)))
    named += [f"replicate:{kind}" for kind in replicated]
    place = ["epoch", "thread", "command", "status", "ending"]
    rows: list[list[object]] = [["test", *named, *place, *names]]
    for test, trial, block in ran:
        sample = dict(test.plan.sample)
        levels: list[object] = [sample.get(factor, "") for factor in factors]
        path = dict(zip(_levels_of(test), trial.path, strict=False))
        levels += [path.get(kind, "") for kind in replicated]
        values = block.values
        numbers = [number_text(values[n]) if n in values else "" for n in names]
        ending = "warmup" if trial.warmup else trial.ending
        where = (block.epoch, block.thread, block.command, block.status, ending)
        rows.append([test.plan.name, *levels, *where, *numbers])
    return csv_of_rows(rows)


class SessionDocument(msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/session/1"):
    """What a session was started with and how it ended: `session.json`."""

    number: int
    status: str
    detail: str
    info: SessionInfo


def _session_json(session: StoredSession) -> str:
    options = {k: v for k, v in session.info.options.items() if k != "token"}
    info = msgspec.structs.replace(session.info, options=options)
    document = SessionDocument(session.number, session.status, session.detail, info)
    encoded = msgspec.json.encode(document)
    return visible_json(msgspec.json.format(encoded, indent=2).decode()) + "\n"


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Replace a derived file whole: a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
