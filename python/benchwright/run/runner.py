"""The one runner of sessions: everything around an experiment, in order.

Sessions of every kind are started, resumed, watched, stopped, recorded and reported by the code
here, which also sends their notices. What a session does is an `Experiment` (run/session.py, or of
a feature); what a person sees of it is a `SessionOutput`, which comes with the experiment: this
package prints nothing. Decision: two
small protocols. Rejected: one composition for each command; the copies drifted apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Protocol, TypeVar

import msgspec

from benchwright.core.errors import Interrupted, OperatingError, StudyError
from benchwright.core.hosts import NamedServer
from benchwright.core.machine import Fact
from benchwright.core.notice import NoticeSettings
from benchwright.core.processes import stop_signals
from benchwright.core.results import Finding
from benchwright.feature import check_options, features
from benchwright.machine.capture import capture
from benchwright.run.findings import (
    NoticeContents,
    SessionEnd,
    is_wanted,
    notices_of,
    send_end,
    subject_of,
)
from benchwright.run.gangs import GangListener, Gangs, gangs_of
from benchwright.run.ledger import CRASH_CAUSE, Ledger, Recovery, recover
from benchwright.run.preparation import ADDRESSES_OPTION, boot_id
from benchwright.run.session import SessionVerdict
from benchwright.run.viewer import Viewer
from benchwright.run.watching import (
    SAMPLE,
    WATCH_OPTION,
    BatchWatcher,
    ObserverOutput,
    servers_of,
    session_watcher,
)
from benchwright.study.catalogue import check_unused
from benchwright.study.contents import SessionFindings, record_capture, store_findings
from benchwright.study.journal import RESUMABLE, UNWRITABLE, SessionInfo, StoredSession, Study
from benchwright.study.keys import stated_about
from benchwright.trial.bench import LocalBench, end_leftovers

Commands = Sequence[tuple[str, ...]]
"""Commands whose programs a capture of the machine describes."""


class StopRequests:
    """The user's requests to stop, including those before there was anything to stop."""

    def __init__(self) -> None:
        self._count = 0
        self._interrupt: Callable[[], None] | None = None

    def request(self) -> None:
        """Interrupt the running session; safe to call in a signal handler."""
        self._count += 1
        if self._interrupt is not None:
            self._interrupt()

    def pass_to(self, interrupt: Callable[[], None]) -> None:
        """Forward each request to `interrupt`, including the earlier ones."""
        self._interrupt = interrupt
        for _ in range(self._count):
            interrupt()

    def check(self) -> None:
        """Raise Interrupted if there was a request."""
        if self._count:
            raise Interrupted


class SessionSite(msgspec.Struct, frozen=True):
    """The session as its experiment sees it."""

    ledger: Ledger
    bench: LocalBench
    watching: BatchWatcher
    stop: StopRequests
    viewer: Viewer
    """The live view of the study, if there is one."""
    recovery: Recovery
    """What to clean up after a crash; empty in a new session."""
    capture: Callable[[], None]
    """Records the machine as it is now."""
    gangs: Gangs | None = None
    """Run the session's parts; None: they run here."""


class SessionResult(msgspec.Struct, frozen=True):
    """How a session ended."""

    ledger: Ledger
    verdict: SessionVerdict
    findings: SessionFindings | None
    """Findings to store with it; None if the experiment has none of its own."""
    recorded: tuple[Finding, ...] = ()
    """Findings of the session itself: what could not be watched or restored."""


class SessionOutput(GangListener, Protocol):
    """What a person sees of a session."""

    def warn(self, text: str) -> None:
        """Print a line on stderr, even if progress is not wanted; never fails."""

    def print(self, ended: SessionResult) -> None:
        """Print the result."""

    def notice(self, ended: SessionResult) -> NoticeContents:
        """Return the result for a notice."""

    def close(self) -> None:
        """Restore the terminal."""


ListenerT = TypeVar("ListenerT", contravariant=True)


class Experiment(Protocol[ListenerT]):
    """What one kind of session does."""

    info: SessionInfo
    applies_loads: bool
    """Whether `bw` itself applies the loads, rather than trials of the launcher."""

    @property
    def notify(self) -> NoticeSettings | None:
        """Notices that the suite or the spec asks for."""

    @property
    def servers(self) -> tuple[NamedServer, ...]:
        """Servers that the suite or the spec names."""

    @property
    def tables(self) -> Mapping[str, Any]:
        """What the tables of features in its suite state (`Program.tables`)."""

    def prepare_again(self, note: Callable[[str], None]) -> None:
        """Make what a resumed session needs and may be gone, and note what has changed since the
        session started. Raises OperatingError."""

    def programs(self) -> Commands:
        """Return the commands whose programs the capture of the machine describes."""

    def run(self, site: SessionSite, listener: ListenerT) -> SessionVerdict:
        """Run the experiment; record how the session ended, and return that.

        Raises OperatingError; then the session is recorded as failed and can be resumed.
        """

    def findings(
        self, ledger: Ledger, verdict: SessionVerdict, recorded: Sequence[Finding], /
    ) -> SessionFindings:
        """Return the findings to store with the session, including the recorded ones."""


class OutputOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants to see of a session."""

    json: bool = False
    quiet: bool = False
    """Whether progress is not wanted."""
    verbose: bool = False
    here: Path | None = None
    """The directory in which `bw` was called, if that is not the current one."""


OutputT = TypeVar("OutputT", bound=SessionOutput)


def run_session(
    experiment: Experiment[OutputT], study: Path, output: OutputT, *, undone: Sequence[Finding] = ()
) -> int:
    """Run an experiment as a new session of a study, which is made if it does not exist;
    return the exit status.

    `undone`: about what this `bw` restored at its start, after a killed one.
    """
    with contextlib.closing(Study.create_or_open(study)) as opened:
        for earlier in opened.sessions():
            # A session that was resumed and then crashed still shows its earlier end.
            if earlier.status in RESUMABLE:
                end_leftovers(earlier.info.options["token"])
        if name := stated_about(experiment.info.options).name:
            check_unused(name, opened)
        before = opened.sessions()
        number = opened.begin_session(experiment.info)
        if before:
            kept = f"{len(before)} earlier sessions are kept"
            if len(before) == 1:
                kept = f"session {before[0].number} is kept"
            output.note(f"session {number} of {study}; {kept} (bw ls {quote(str(study))})")
        ledger = Ledger(opened, number)
        return _run(experiment, ledger, output, Recovery(), undone)


def resume_session(
    experiment: Experiment[OutputT],
    study: Study,
    stored: StoredSession,
    output: OutputT,
    *,
    undone: Sequence[Finding] = (),
) -> int:
    """Resume a stored session; return the exit status.

    Raises StudyError if a feature that it uses is not installed.
    """
    check_options(stored.info.options)
    experiment.prepare_again(output.note)
    study.record_resume(stored.number)
    ended = end_leftovers(stored.info.options["token"])
    recovery = recover(study, stored.number, cause_of_crash(stored.info))
    output.note(f"resuming session {stored.number} of {study.path}")
    if ended:
        left = "process" if ended == 1 else "processes"
        output.note(f"ended {ended} {left} that the crash had left running")
    if recovery.voided:
        output.note("trials that the crash interrupted are void and will be run again")
    if recovery.restored:
        output.note("restored from the last checkpoint (RESTORE = 1)")
    ledger = Ledger(study, stored.number)
    return _run(experiment, ledger, output, recovery, undone)


def cause_of_crash(info: SessionInfo) -> str:
    """Return a description of what cut short a session that could not record it."""
    if info.boot_id and info.boot_id != boot_id():
        return f"{CRASH_CAUSE}: the machine went down or was restarted"
    return f"{CRASH_CAUSE}: bw or its launcher was killed"


def _run(
    experiment: Experiment[OutputT],
    ledger: Ledger,
    output: OutputT,
    recovery: Recovery,
    undone: Sequence[Finding],
) -> int:
    study, info = ledger.study, experiment.info
    stop, programs = StopRequests(), experiment.programs()
    elsewhere = gangs_of(info)
    # The sessions of the gangs apply the tables on their machines.
    tables = experiment.tables if elsewhere is None else {}
    surroundings = [
        one for feature in features() for one in feature.surroundings(info, tables, output.note)
    ]
    with contextlib.closing(Viewer(study.path)) as viewer:
        with contextlib.closing(output), contextlib.closing(_bench_of(info)) as bench:
            bench.warn = study.warn = output.warn
            watching = session_watcher(
                info.options.get(WATCH_OPTION, SAMPLE),
                bench,
                ObserverOutput(study.path, ledger.session),
                servers_of(info, experiment.servers),
                of_loads=experiment.applies_loads,
            )
            opened = (
                contextlib.nullcontext() if elsewhere is None else elsewhere.open(ledger, output)
            )
            with (
                contextlib.closing(watching),
                stop_signals(lambda _: stop.request()),
                _notify_on_error(experiment, ledger, output),
                contextlib.ExitStack() as around,
            ):
                for surrounding in surroundings:
                    around.enter_context(surrounding)
                capture_now = partial(
                    record_machine, study, ledger.session, programs, _stated_facts(info)
                )
                capture_now()
                with opened as gangs:
                    site = SessionSite(
                        ledger, bench, watching, stop, viewer, recovery, capture_now, gangs
                    )
                    verdict = experiment.run(site, output)
                found = () if gangs is None else gangs.findings()
                if not experiment.applies_loads:
                    # Again: a fact that differs now changed between trials.
                    with _after_the_end("the machine as it is now", output):
                        capture_now()
        changed = [finding for surrounding in surroundings for finding in surrounding.findings]
        recorded = (*undone, *changed, *watching.findings(), *found)
        findings = experiment.findings(ledger, verdict, recorded)
        _store_findings(ledger, findings, recorded, output)
    study.check_there()
    ended = SessionResult(ledger, verdict, findings, recorded)
    output.print(ended)
    _notify(experiment, ended, output)
    return verdict.exit_status


def _bench_of(info: SessionInfo) -> LocalBench:
    """Return this host as a bench, with random addresses unless the session has fixed ones. Raises
    BenchError."""
    if info.options.get(ADDRESSES_OPTION) != "fixed":
        return LocalBench()
    # Few sessions choose it.
    from benchwright.trial.addresses import fixed_addresses

    with fixed_addresses():
        return LocalBench()


def _stated_facts(info: SessionInfo) -> tuple[Fact, ...]:
    """Return what the session chose about its programs, which a capture cannot see."""
    if info.options.get(ADDRESSES_OPTION) != "fixed":
        return ()
    return (Fact("trials.addresses", "fixed", "--replicate aslr=off"),)


def record_machine(
    study: Study, session: int, programs: Commands = (), stated: Sequence[Fact] = ()
) -> None:
    """Capture the machine and the programs of these commands into a session's journal.

    Called after the machine was made quiet and before the first trial, so it describes the machine
    that the trials run on. Takes tens of milliseconds, at most `capture`'s time limit. Raises
    StudyError.
    """
    found = capture(programs)
    if stated:
        facts = sorted((*found.facts, *stated), key=lambda fact: fact.name)
        found = msgspec.structs.replace(found, facts=tuple(facts))
    record_capture(study, session, found)


@contextlib.contextmanager
def _after_the_end(what: str, output: SessionOutput) -> Iterator[None]:
    """Warn of failed writes, such as on a full disk, once a session's end is durable.

    The result is complete without them, and there is nothing to resume.
    """
    try:
        yield
    except StudyError as error:
        if error.code != UNWRITABLE:
            raise
        output.warn(
            f"bw: not recorded: {what} ({error.message}) [{UNWRITABLE}]; all trials and "
            "the end of the session are recorded: `bw stats` reads them"
        )


def _store_findings(
    ledger: Ledger, findings: SessionFindings, recorded: Sequence[Finding], output: SessionOutput
) -> None:
    """Store the findings of a session whose end is durable."""
    codes = dict.fromkeys(finding.code for finding in findings.all)
    what = f"the findings {', '.join(codes)}" if codes else "its findings"
    with _after_the_end(what, output):
        store_findings(ledger.study, ledger.session, findings, recorded)


@contextlib.contextmanager
def _notify_on_error(
    experiment: Experiment[OutputT], ledger: Ledger, output: SessionOutput
) -> Iterator[None]:
    """Send a notice of an operating error that ends a session, and raise the error again."""
    try:
        yield
    except OperatingError as error:
        verdict = SessionVerdict("failed", str(error), error.exit_status)
        end = SessionEnd(ledger.study.path, ledger.session, verdict, broken=True)
        targets = notices_of(experiment.info, experiment.notify)
        send_end(subject_of(experiment.info), targets, end, output.warn)
        raise


def _notify(experiment: Experiment[OutputT], ended: SessionResult, output: SessionOutput) -> None:
    """Send the notice of a session's end to the targets that want it.

    A session that stopped at a checkpoint, as before a reboot, sends none: a boot script resumes
    it.
    """
    ledger, verdict = ended.ledger, ended.verdict
    if ledger.at_checkpoint and verdict.status in ("stopped", "interrupted"):
        return
    targets = notices_of(experiment.info, experiment.notify)
    end = SessionEnd(ledger.study.path, ledger.session, verdict)
    if is_wanted(targets, end):
        end = msgspec.structs.replace(end, contents=output.notice(ended))
        send_end(subject_of(experiment.info), targets, end, output.warn)
