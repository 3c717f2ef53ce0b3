"""Runs a session of tests or a comparison for a person: study, machine capture, signals, outcome."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchwright.cli.notices import SessionEnd, notify_of_session, notify_on_error
from benchwright.cli.outcome import document_of, print_outcome
from benchwright.cli.quiet_session import QuietSession
from benchwright.cli.terminal import is_without_reader, silence_stdout, stopping
from benchwright.core.errors import BenchError, InputError, StudyError
from benchwright.core.progress import progress_display
from benchwright.core.untrusted import visible_lines
from benchwright.machine.capture import capture
from benchwright.report.flame_graph import flame_svg
from benchwright.report.progress import SessionProgress
from benchwright.run.findings import findings_of_session
from benchwright.run.ledger import Ledger
from benchwright.run.observers import WATCH_OPTION, ObserverOutput, batch_watcher
from benchwright.run.performer import Performer
from benchwright.run.preparation import (
    PreparedProgram,
    boot_id,
    comparison_request,
    exec_environment,
)
from benchwright.run.recovery import CRASH_CAUSE, CutTest, recover
from benchwright.run.session import Session, SessionVerdict
from benchwright.run.watching import servers_of
from benchwright.study.contents import record_capture
from benchwright.study.findings import SessionFindings, store_findings
from benchwright.study.journal import RESUMABLE, UNWRITABLE, SessionInfo, Study
from benchwright.suite.plan import PlannedTest, describe
from benchwright.trial import bench as leftovers
from benchwright.trial.bench import LocalBench

if TYPE_CHECKING:
    from benchwright.core.results import Finding
    from benchwright.study.journal import StoredSession


# --------------------------------------------------------------------------------------
# The machine captured for a session: at its beginning, at each resume, at its end.
#
# Decision: after the machine was put in order and before the first trial: it is the machine
# that the trials see. What the programs are is taken from a rehearsal, since a suite's commands
# are known only once its variables are.

Commands = Sequence[tuple[str, ...]]


def record_machine(study: Study, session: int, commands: Commands = ()) -> None:
    """Capture the machine and the programs of these commands into the session's journal.

    Takes tens of milliseconds, bounded by `capture`'s patience. Raises StudyError.
    """
    record_capture(study, session, capture(commands))


def commands_of(prepared: PreparedProgram) -> Commands:
    """Return what a program's tests measure, each command once, in order."""
    try:
        planned = describe(
            prepared.program,
            defines=prepared.defines,
            environment=prepared.environment,
        )
    except InputError:
        # It was checked before it began; a resume may rehearse in another environment.
        return ()
    tests = (item.plan for item in planned if isinstance(item, PlannedTest))
    found = (command.argv for plan in tests for command in plan.phases.exec)
    return tuple(dict.fromkeys(found))


# -- Running a session for a person: study, bench, signals, progress, outcome ----------


def run_session(prepared: PreparedProgram, arguments: argparse.Namespace) -> int:
    """Run a program as a new session of a study; return the exit code."""
    with contextlib.closing(Study.create_or_open(Path(arguments.study))) as study:
        for earlier in study.sessions():
            # A session that was resumed and then crashed still shows its earlier end.
            if earlier.status in RESUMABLE:
                leftovers.end_leftovers(earlier.info.options["token"])
        number = study.begin_session(prepared.info)
        return _run(prepared, study, Ledger(study, number), arguments)


def resume_session(
    prepared: PreparedProgram,
    study: Study,
    stored: StoredSession,
    arguments: argparse.Namespace,
) -> int:
    """Go on with a stored session; return the exit code."""
    ended = leftovers.end_leftovers(prepared.token)
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
        return f"{CRASH_CAUSE}: the machine went down or was restarted"
    return f"{CRASH_CAUSE}: bw or its launcher was killed"


def _run(
    prepared: PreparedProgram,
    study: Study,
    ledger: Ledger,
    arguments: argparse.Namespace,
    notes: Sequence[str] = (),
    cut: Sequence[CutTest] = (),
) -> int:
    around = exec_environment(prepared, study.path)
    with (
        contextlib.closing(
            SessionProgress(progress_display(quiet=arguments.quiet))
        ) as progress,
        contextlib.closing(LocalBench()) as bench,
    ):
        for text in notes:
            progress.note(text)
        wish = prepared.info.options.get(WATCH_OPTION, "")
        place = ObserverOutput(study.path, ledger.session, flame_svg)
        servers = servers_of(prepared.info, prepared.program.servers)
        watching = batch_watcher(wish, bench.processes, place, servers)
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
            notify_on_error(prepared.info, prepared.program.notify, kept),
            quiet,
        ):
            programs = commands_of(prepared)
            record_machine(study, ledger.session, programs)
            verdict = session.run(prepared.defines, prepared.environment)
            # Again: what changed meanwhile changed between trials.
            with after_the_end("the machine as it is now"):
                record_machine(study, ledger.session, programs)
    recorded = (*quiet.findings, *watching.doubts())
    findings = findings_of_session(session, verdict, ledger, recorded)
    store_last_findings(study, ledger.session, findings, recorded)
    study.check_there()
    try:
        _print_and_notify(
            prepared, session, verdict, ledger, findings, json=arguments.json
        )
    except OSError as error:
        if not is_without_reader(error):
            raise
        silence_stdout()
    paused = ledger.at_checkpoint and verdict.status in ("stopped", "interrupted")
    end = SessionEnd(*kept, verdict, findings=findings.all, paused=paused)
    notify_of_session(prepared, session, end)
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


def store_last_findings(
    study: Study,
    session: int,
    findings: SessionFindings | None,
    recorded: Sequence[Finding],
) -> None:
    """Store the findings of a session whose end is durable."""
    codes = dict.fromkeys(one.code for one in (findings.all if findings else recorded))
    with after_the_end(f"the findings {', '.join(codes)}" if codes else "its findings"):
        store_findings(study, session, findings, recorded)


def _print_and_notify(
    prepared: PreparedProgram,
    session: Session,
    verdict: SessionVerdict,
    ledger: Ledger,
    findings: SessionFindings,
    *,
    json: bool,
) -> None:
    """Print the outcome: of a comparison, or of a suite's tests."""
    request = comparison_request(prepared)
    kept = (ledger.study, ledger.session)
    if request is None or not session.comparisons:
        document = document_of(session.tests, findings.all)
        ended = [c.result for c in session.comparisons if c.result is not None]
        print_outcome(
            document, verdict, kept, json=json, comparisons=ended, tests=session.tests
        )
        return
    from benchwright.cli.compare_outcome import print_comparison_outcome

    (opened,) = session.comparisons
    print_comparison_outcome(
        opened, verdict, kept, findings.all, json=json, junit=request.junit
    )


def _make_testroot(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            "testroot",
            f"cannot make the directory TESTROOT, {path}: {error.strerror}",
            "set TESTROOT to a directory for the tests' files, and run again",
        ) from None
