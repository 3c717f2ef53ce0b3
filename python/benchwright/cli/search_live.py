"""Running a session of searches for a person: study, workbench, signals, outcome.

`bw ramp`, `bw peak` and `bw surface` differ only in their `Errand`; what a crash left,
the journal, the signals and the end of the server are the same for all.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from benchwright.cli.live import cause_of_crash, record_machine, store_last_findings
from benchwright.cli.notices import (
    SessionEnd,
    notices_of,
    notify_of_end,
    notify_on_error,
    suite_of,
)
from benchwright.cli.shared_options import with_session_options
from benchwright.cli.terminal import stopping
from benchwright.core.errors import Interrupted
from benchwright.core.named_server import NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.results import Finding
from benchwright.load.workbench import AroundLoad, Workbench
from benchwright.report.flame_graph import flame_svg
from benchwright.run.ledger import Ledger
from benchwright.run.observers import (
    SAMPLE,
    WATCH_OPTION,
    LoadWatcher,
    ObserverOutput,
    WatchedWorkbench,
    load_watcher,
)
from benchwright.run.recovery import recover
from benchwright.run.search import (
    count_trials,
    record_search_session,
    search_environment,
    stored_spec,
)
from benchwright.run.session import SessionVerdict
from benchwright.run.watching import refuse_missing, servers_of
from benchwright.study.journal import RESUMABLE, SessionInfo, StoredSession, Study
from benchwright.suite.program import SourceFile
from benchwright.trial import bench as leftovers
from benchwright.trial.bench import LocalBench
from benchwright.trial.protocol import ExecEnvironment

Result = TypeVar("Result")


class WorkbenchSetting(msgspec.Struct, frozen=True):
    """Where a workbench is built: what it gets of its session."""

    bench: LocalBench
    around: ExecEnvironment
    study: Path
    session: int
    recorded: int
    """Trials that the session has on record."""
    around_load: AroundLoad

    @property
    def logs(self) -> Path:
        """Directory of the session's logs; it may not be there yet."""
        return self.study / "logs" / f"s{self.session}"


class StoredSearch(msgspec.Struct, frozen=True):
    """Where a session is kept, and what is on record of it."""

    study: Path
    session: int
    ledger: Ledger


class PrintedOutcome(msgspec.Struct, frozen=True):
    """What was told of a search when it ended, for a notice."""

    text: str = ""
    """As a person reads it, also where JSON was printed."""
    findings: tuple[Finding, ...] = ()


class SearchExperiment(Protocol[Result]):
    """What one kind of session does, from the request that it was begun with."""

    @property
    def notify(self) -> NoticeSettings | None:
        """Whom the spec names to be told of the end."""

    @property
    def servers(self) -> tuple[NamedServer, ...]:
        """The servers that the spec names, or that its load's address tells of."""

    @property
    def starts_server(self) -> bool:
        """Whether the session starts a server itself, which a name may mean."""

    def note(self, text: str) -> None:
        """Tell a line of progress: a resume, what a crash left."""

    def workbench(self, site: WorkbenchSetting) -> Workbench:
        """Return the workbench of the request's server and generator.

        Raises InputError, BenchError.
        """

    def run(self, workbench: Workbench, ledger: Ledger) -> Result:
        """Run the searches, by `session.search.run_search`, to what they come to."""

    def verdict(self, result: Result) -> SessionVerdict:
        """Return how the session ends."""

    def doubt(self, findings: Sequence[Finding]) -> None:
        """Tell these with the outcome: what could not be watched."""

    def tell(
        self, result: Result | None, verdict: SessionVerdict, kept: StoredSearch
    ) -> PrintedOutcome:
        """Print the outcome, None after an interrupt; return what was told, also where
        nobody reads it."""

    def close(self) -> None:
        """Put the terminal back."""


def run_search_session(
    info: SessionInfo, errand: SearchExperiment[Result], arguments: argparse.Namespace
) -> int:
    """Run the errand as a new session of a study; return the exit code.

    Raises InputError for a --notify that tells nobody, before there is a study.
    """
    info = with_session_options(info, arguments)
    if not errand.starts_server:
        refuse_missing(servers_of(info, errand.servers))
    place = Path(arguments.study)
    with contextlib.closing(Study.create_or_open(place)) as opened:
        for earlier in opened.sessions():
            # A session that was resumed and then crashed still shows its earlier end.
            if earlier.status in RESUMABLE:
                leftovers.end_leftovers(earlier.info.options["token"])
        ledger = Ledger(opened, opened.begin_session(info))
        return _run(info, errand, ledger)


def resume_search_session(
    study: Study, stored: StoredSession, errand: SearchExperiment[Result]
) -> int:
    """Go on with a stored session; return the exit code."""
    info = stored.info
    ended = leftovers.end_leftovers(info.options["token"])
    recovery = recover(study, stored.number, cause_of_crash(info))
    errand.note(f"resuming session {stored.number} of {study.path}")
    if ended:
        left = "process" if ended == 1 else "processes"
        errand.note(f"ended {ended} {left} that the crash had left running")
    if recovery.voided:
        errand.note("the trial that was cut short is void and will be run again")
    if changed := changed_spec(info.directory, stored_spec(info)):
        errand.note(changed)
    return _run(info, errand, Ledger(study, stored.number))


def changed_spec(directory: str, spec: SourceFile | None) -> str:
    """Return what to tell of a spec that is not the one the session began with; empty
    where it is the same, or gone, or there was none."""
    if spec is None:
        return ""
    with contextlib.suppress(OSError):
        file = Path(directory, spec.path)
        if file.read_text(encoding="utf-8", errors="replace") != spec.text:
            return (
                f"{spec.path} has changed since: this goes on with it as it was; for the "
                "new one begin anew"
            )
    return ""


def _run(info: SessionInfo, errand: SearchExperiment[Result], ledger: Ledger) -> int:
    around = search_environment(info, ledger.study.path)
    ours = (ledger.study.path, ledger.session)
    with contextlib.closing(errand), contextlib.closing(LocalBench()) as bench:
        recorded = count_trials(ledger)
        stop = _Stop()

        wish = info.options.get(WATCH_OPTION, SAMPLE)
        place = ObserverOutput(*ours, flame_svg)
        servers = servers_of(info, errand.servers)
        watching = load_watcher(wish, bench.all_processes, place, servers)
        loads = LoadWatcher(watching, recorded)
        site = WorkbenchSetting(bench, around, *ours, recorded, loads.around)

        def do() -> Result:
            bare = errand.workbench(site)
            made = WatchedWorkbench(bare, loads)
            with contextlib.closing(watching), contextlib.closing(made) as workbench:
                stop.reaches(workbench)
                return errand.run(workbench, ledger)

        record_machine(ledger.study, ledger.session)
        with stopping(stop.asked), notify_on_error(info, errand.notify, ours):
            ended = record_search_session(ledger, do, errand.verdict)
    result, verdict = ended
    errand.doubt(watching.doubts())
    store_last_findings(ledger.study, ledger.session, None, watching.doubts())
    ledger.study.check_there()
    told = errand.tell(result, verdict, StoredSearch(*ours, ledger))
    end = SessionEnd(*ours, verdict, summary=told.text, findings=told.findings)
    notify_of_end(suite_of(info), notices_of(info, errand.notify), end)
    return verdict.exit_status


class _Stop:
    """The user's wish to stop, also before there is a workbench to tell it to."""

    def __init__(self) -> None:
        self._workbench: Workbench | None = None
        self._asked = False

    def asked(self) -> None:
        """Interrupt the workbench; safe to call in a signal handler."""
        self._asked = True
        if self._workbench is not None:
            self._workbench.interrupt()

    def reaches(self, workbench: Workbench) -> None:
        """From now on tell this workbench. Raises Interrupted if it is too late."""
        self._workbench = workbench
        if self._asked:
            raise Interrupted
