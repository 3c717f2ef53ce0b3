"""Running a session for a person: study, bench, signals, progress, outcome."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.bench import leftovers
from benchwright.bench.local import LocalBench
from benchwright.cli.env_session import commands_of, record_machine
from benchwright.cli.notified import Ended, tell_of_session, telling_of_errors
from benchwright.cli.outcome import document_of, doubts_of_observed, tell
from benchwright.cli.quiet_session import QuietSession
from benchwright.cli.signals import stopping
from benchwright.cli.streams import is_without_reader, silence_stdout
from benchwright.finding.compared import doubts_of
from benchwright.model.errors import BenchError, StudyError
from benchwright.model.visible import visible_lines
from benchwright.report.flame import flame_svg
from benchwright.report.progress import listener
from benchwright.session.ledger import Ledger
from benchwright.session.observers import OPTION, Place, watching_for
from benchwright.session.performer import Performer
from benchwright.session.resume import CRASH, CutTest, recover
from benchwright.session.run import Session, Verdict
from benchwright.session.servers import servers_of
from benchwright.session.start import (
    Prepared,
    boot_id,
    comparison_request,
    surroundings,
)
from benchwright.study.doubts import doubts_of_session, record_doubts
from benchwright.study.journal import RESUMABLE, UNWRITABLE, SessionInfo, Study

if TYPE_CHECKING:
    from benchwright.model.finding import Finding
    from benchwright.study.journal import Session as StoredSession


def run_new(prepared: Prepared, arguments: argparse.Namespace) -> int:
    """Run a program as a new session of a study; return the exit code."""
    with contextlib.closing(Study.create_or_open(Path(arguments.study))) as study:
        for earlier in study.sessions():
            # A session that was resumed and then crashed still shows its earlier end.
            if earlier.status in RESUMABLE:
                leftovers.end(earlier.info.options["token"])
        number = study.begin_session(prepared.info)
        return _run(prepared, study, Ledger(study, number), arguments)


def run_again(
    prepared: Prepared,
    study: Study,
    stored: StoredSession,
    arguments: argparse.Namespace,
) -> int:
    """Go on with a stored session; return the exit code."""
    ended = leftovers.end(prepared.token)
    recovery = recover(study, stored.number, cause_of_crash(prepared.info))
    ledger = Ledger(study, stored.number)
    notes = [f"resuming session {stored.number} of {study.path}"]
    if ended:
        left = "process" if ended == 1 else "processes"
        notes.append(f"ended {ended} {left} that the crash had left running")
    if recovery.voided:
        notes.append("what the crash cut short is void and will be run again")
    if recovery.restored:
        notes.append("restored from the last checkpoint (RESTORE = 1)")
    return _run(prepared, study, ledger, arguments, notes, recovery.cut)


def cause_of_crash(info: SessionInfo) -> str:
    """Return in words what cut short a session that had no time to say it."""
    if info.boot_id and info.boot_id != boot_id():
        return f"{CRASH}: the machine went down or was restarted"
    return f"{CRASH}: bw or its launcher was killed"


def _run(
    prepared: Prepared,
    study: Study,
    ledger: Ledger,
    arguments: argparse.Namespace,
    notes: Sequence[str] = (),
    cut: Sequence[CutTest] = (),
) -> int:
    around = surroundings(prepared, study.path)
    with (
        contextlib.closing(listener(quiet=arguments.quiet)) as progress,
        contextlib.closing(LocalBench()) as bench,
    ):
        for text in notes:
            progress.note(text)
        wish = prepared.info.options.get(OPTION, "")
        place = Place(study.path, ledger.session, flame_svg)
        servers = servers_of(prepared.info, prepared.program.servers)
        watching = watching_for(wish, bench.processes, place, servers)
        performer = Performer(
            bench, around, study.path, ledger.session, watching=watching
        )
        session = Session(prepared.program, ledger, performer, progress, cut)
        _make_testroot(Path(prepared.stored_environment["TESTROOT"]))
        kept = (study.path, ledger.session)
        quiet = QuietSession(
            prepared.program.quiet,
            prepared.token,
            progress.note,
            getattr(arguments, "undone", None),
        )
        with (
            contextlib.closing(watching),
            stopping(performer.interrupt),
            telling_of_errors(prepared.info, prepared.program.notify, kept),
            quiet,
        ):
            programs = commands_of(prepared)
            record_machine(study, ledger.session, programs)
            verdict = session.run(prepared.defines, prepared.environment)
            # Again: what changed meanwhile changed between trials.
            with after_the_end("the machine as it is now"):
                record_machine(study, ledger.session, programs)
    record_last_doubts(study, ledger.session, (*quiet.findings, *watching.doubts()))
    study.check_there()
    try:
        _tell(prepared, session, verdict, (study, ledger.session), json=arguments.json)
    except OSError as error:
        if not is_without_reader(error):
            raise
        silence_stdout()
    paused = ledger.at_checkpoint and verdict.status in ("stopped", "interrupted")
    tell_of_session(prepared, session, Ended(*kept, verdict, paused=paused))
    return verdict.exit_status


@contextlib.contextmanager
def after_the_end(what: str) -> Iterator[None]:
    """Report what a full disk does not take once a session's end is durable.

    The result is whole without it, and there is nothing to resume.
    """
    try:
        yield
    except StudyError as error:
        if error.code != UNWRITABLE:
            raise
        said = (
            f"bw: not recorded: {what} ({error.message}) [{UNWRITABLE}]; all trials and the "
            "session's end are: `bw stats` reads them"
        )
        print(visible_lines(said), file=sys.stderr)


def record_last_doubts(study: Study, session: int, findings: Sequence[Finding]) -> None:
    """Record the doubts about a session as a whole, whose end is durable."""
    codes = ", ".join(dict.fromkeys(one.code for one in findings))
    with after_the_end(f"the findings {codes}"):
        record_doubts(study, session, findings)


def _tell(
    prepared: Prepared,
    session: Session,
    verdict: Verdict,
    kept: tuple[Study, int],
    *,
    json: bool,
) -> None:
    """Print the outcome: of a comparison, or of a suite's tests."""
    request = comparison_request(prepared)
    if request is None or not session.comparisons:
        _tell_suite(session, verdict, kept, json=json)
        return
    from benchwright.cli.compare_outcome import tell_comparison

    (opened,) = session.comparisons
    tell_comparison(opened, verdict, kept, json=json, junit=request.junit)


def _tell_suite(
    session: Session, verdict: Verdict, kept: tuple[Study, int], *, json: bool
) -> None:
    """Print a suite's tests, and the comparisons that came to an end."""
    document = document_of(session.tests)
    ended = [c.result for c in session.comparisons if c.result is not None]
    doubts = (
        *doubts_of_session(*kept),
        *(one for comparison in ended for one in doubts_of(comparison)),
        *doubts_of_observed(session.tests),
    )
    document = msgspec.structs.replace(document, findings=(*doubts, *document.findings))
    tell(document, verdict, kept, json=json, comparisons=ended, tests=session.tests)


def _make_testroot(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            "testroot",
            f"cannot make the directory TESTROOT, {path}: {error.strerror}",
            "set TESTROOT to a directory for the tests' files, and run again",
        ) from None
