"""Plain-text export of everything: what is read years later needs nothing of ours.

Under `results/s<N>/`: per test `NAME.res` (Auto-pilot's results file) and `NAME.log`
(all output), for the session `trials.csv`, `session.json` and `_program.log`.
Decision: derived from the journal and replaced whole (draft, fsync, rename), so that a
reader never sees half a file and a lost one can be made again; appending after each
trial lost, because the benchmark's own disk would be written to while it runs.
Non-goals: not read back by a resume. A command of several lines is written on one.
Source: Auto-pilot paper, section 3.2; Auto-pilot's manual for `.res`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from benchwright.model.visible import visible_json
from benchwright.study.contents import TestContents, one_test_of, tests_of
from benchwright.study.journal import Session, Study
from benchwright.study.names import file_name
from benchwright.study.output import output_of_program, output_of_test
from benchwright.study.res import number_text, res_text


def results_directory(study: Study, session: int) -> Path:
    """Return where a session's exports are."""
    return study.path / "results" / f"s{session}"


def export_session(study: Study, session: int, written: Collection[str] = ()) -> Path:
    """Write every test's files and the session's, and return their directory.

    `written` are the keys of tests whose own files are up to date.
    Raises OSError, and StudyError `study-gone`.
    """
    study.check_there()
    directory = results_directory(study, session)
    kept = _session(study, session)
    tests = tests_of(study, session)
    for test in tests:
        if test.key not in written:
            _export(study, kept, test)
    write_whole(directory / "trials.csv", [csv_text(tests).encode()])
    write_session(study, session)
    write_whole(directory / "_program.log", output_of_program(study.path, session))
    return directory


def write_session(study: Study, session: int) -> None:
    """Write what a session was begun with and how it ended, as `session.json`."""
    path = results_directory(study, session) / "session.json"
    write_whole(path, [_session_json(_session(study, session)).encode()])


def export_test(study: Study, session: int, key: str) -> Path:
    """Write one test's files and return the path of its `.res` file.

    Raises OSError, and StudyError `study-gone`: a study that is gone is not begun anew.
    """
    study.check_there()
    test = one_test_of(study, session, key)
    return _export(study, _session(study, session), test)


def _session(study: Study, number: int) -> Session:
    (found,) = (s for s in study.sessions() if s.number == number)
    return found


def _export(study: Study, session: Session, test: TestContents) -> Path:
    directory = results_directory(study, session.number)
    name = file_name(test.plan.name)
    results = directory / f"{name}.res"
    write_whole(results, [res_text(test, session).encode(errors="backslashreplace")])
    output = output_of_test(study.path, session.number, test)
    write_whole(directory / f"{name}.log", output)
    return results


def csv_text(tests: Sequence[TestContents]) -> str:
    """Return one row per measurement block of all tests; absent values are empty."""
    rows = [
        (test, trial, b)
        for test in tests
        for trial in test.trials
        for b in trial.blocks
    ]
    names = list(dict.fromkeys(name for _, _, block in rows for name in block.values))
    factors = list(dict.fromkeys(n for test in tests for n, _ in test.plan.sample))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = [f"factor:{name}" for name in factors]
    place = ["epoch", "thread", "command", "status", "ending"]
    writer.writerow(["test", *named, *place, *names])
    for test, trial, block in rows:
        sample = dict(test.plan.sample)
        levels = [sample.get(factor, "") for factor in factors]
        values = block.values
        numbers = [number_text(values[n]) if n in values else "" for n in names]
        ending = "warmup" if trial.warmup else trial.ending
        where = (block.epoch, block.thread, block.command, block.status, ending)
        writer.writerow([test.plan.name, *levels, *where, *numbers])
    return text.getvalue()


def _session_json(session: Session) -> str:
    options = {k: v for k, v in session.info.options.items() if k != "token"}
    document = {
        "schema": "benchwright/session/1",
        "number": session.number,
        "status": session.status,
        "detail": session.detail,
        "info": msgspec.structs.replace(session.info, options=options),
    }
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
