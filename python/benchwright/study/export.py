"""Plain-text export of everything: what is read years later needs nothing of ours.

Under `results/s<N>/`: per test `NAME.res` (Auto-pilot's results file) and `NAME.log`
(all output), for the session `trials.csv` and `session.json`. Derived from the journal,
so they are replaced whole (draft, fsync, rename) and can always be made again.
Source: papers/auto-pilot.txt section 3.2; Auto-pilot's manual for `.res`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.model.observation import Block, Ending, Trial
from benchwright.study.contents import TestContents, tests_of
from benchwright.study.journal import Study
from benchwright.study.logs import read_output
from benchwright.study.names import file_name

_TIMES = ("user", "system", "elapsed")
_WRITTEN = {"system": "sys"}


def results_directory(study: Study, session: int) -> Path:
    """Return where a session's exports are."""
    return study.path / "results" / f"s{session}"


def export_session(study: Study, session: int) -> Path:
    """Write every test's files and the session's, and return their directory."""
    directory = results_directory(study, session)
    tests = tests_of(study, session)
    for test in tests:
        _export(study, session, test)
    _write(directory / "trials.csv", csv_text(tests))
    _write(directory / "session.json", _session_json(study, session))
    return directory


def export_test(study: Study, session: int, key: str) -> Path:
    """Write one test's files and return the path of its `.res` file."""
    (test,) = (t for t in tests_of(study, session) if t.key == key)
    return _export(study, session, test)


def _export(study: Study, session: int, test: TestContents) -> Path:
    directory = results_directory(study, session)
    name = file_name(test.plan.name)
    _write(directory / f"{name}.res", res_text(test))
    _write(directory / f"{name}.log", _log_text(study, session, test))
    return directory / f"{name}.res"


def res_text(test: TestContents) -> str:
    """Return a test in the form of Auto-pilot's results file."""
    parts = [_head(test)]
    for trial in test.trials:
        parts += [_block_text(block) for block in trial.blocks]
        for extra in trial.extra_blocks:
            fields = {"epoch": str(trial.epoch), **extra}
            parts.append(_section(fields.pop(""), fields))
        if trial.ending is not Ending.OK:
            parts.append(
                _section("trial", {"epoch": str(trial.epoch), "ending": trial.ending})
            )
    for trial in test.void:
        parts.append(
            _section("void", {"epoch": str(trial.epoch), "cause": trial.ending})
        )
    return "\n".join(parts)


def _head(test: TestContents) -> str:
    plan = test.plan
    fields = {
        "name": plan.name,
        "threads": str(plan.threads),
        **{f"factor {name}": level for name, level in plan.sample},
        **{f"command {n}": c.text for n, c in enumerate(plan.phases.exec, 1)},
    }
    return _section("test", fields)


def _block_text(block: Block) -> str:
    fields = {
        "thread": str(block.thread),
        "epoch": str(block.epoch),
        "command": block.command,
    }
    for name in _TIMES:
        if name in block.values:
            fields[_WRITTEN.get(name, name)] = _number(block.values[name])
    fields["status"] = str(block.status)
    for name, value in block.values.items():
        if name not in _TIMES:
            fields[name] = _number(value)
    return _section(block.name, fields)


def _number(value: float) -> str:
    """Return a number that reads back as itself; whole ones without a fraction."""
    if value == int(value) and abs(value) < 2**53:
        return str(int(value))
    return repr(value)


def _section(name: str, fields: dict[str, str]) -> str:
    lines = [f"[{name}]"]
    lines += [f"{key} = {_one_line(text)}" for key, text in fields.items()]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()) if text else text


def csv_text(tests: Sequence[TestContents]) -> str:
    """Return one row per measurement block of all tests; absent values are empty."""
    rows = [(test, block) for test in tests for t in test.trials for block in t.blocks]
    names = list(dict.fromkeys(name for _, block in rows for name in block.values))
    factors = list(dict.fromkeys(n for test in tests for n, _ in test.plan.sample))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = [f"factor:{name}" for name in factors]
    writer.writerow(["test", *named, "epoch", "thread", "command", "status", *names])
    for test, block in rows:
        sample = dict(test.plan.sample)
        levels = [sample.get(factor, "") for factor in factors]
        values = [_number(block.values[n]) if n in block.values else "" for n in names]
        place = (block.epoch, block.thread, block.command, block.status)
        writer.writerow([test.plan.name, *levels, *place, *values])
    return text.getvalue()


def _log_text(study: Study, session: int, test: TestContents) -> bytes:
    return b"".join(
        chunk
        for trial in test.trials
        for chunk in _outputs(study, session, test, trial)
    )


def _outputs(
    study: Study, session: int, test: TestContents, trial: Trial
) -> Iterator[bytes]:
    for process in trial.processes:
        for stream in ("out", "err"):
            data = read_output(study.path, session, test.plan.name, process, stream)
            if data:
                thread = f" thread {process.thread}" if process.thread else ""
                head = f"[epoch {trial.epoch} {process.mode}{thread} std{stream}]\n"
                yield head.encode() + data + (b"" if data.endswith(b"\n") else b"\n")


def _session_json(study: Study, session: int) -> str:
    (found,) = (s for s in study.sessions() if s.number == session)
    options = {k: v for k, v in found.info.options.items() if k != "token"}
    info = msgspec.structs.replace(found.info, options=options)
    document = {"status": found.status, "detail": found.detail, "info": info}
    encoded = msgspec.json.encode(document)
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _write(path: Path, content: str | bytes) -> None:
    """Replace a derived file whole: a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    data = content.encode() if isinstance(content, str) else content
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
