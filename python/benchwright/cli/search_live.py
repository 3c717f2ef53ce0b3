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

from benchwright.bench import leftovers
from benchwright.bench.local import LocalBench
from benchwright.cli.env_session import record_machine
from benchwright.cli.live import cause_of_crash, record_last_doubts
from benchwright.cli.notified import Ended, suite_of, tell_of_end, telling_of_errors
from benchwright.cli.notify_option import notices_of
from benchwright.cli.signals import stopping
from benchwright.cli.watch_options import begun_with
from benchwright.model.errors import Interrupted
from benchwright.model.finding import Finding
from benchwright.model.named_server import NamedServer
from benchwright.model.notice import Notify
from benchwright.report.flame import flame_svg
from benchwright.session.ledger import Ledger
from benchwright.session.observers import OPTION, SAMPLE, Place, watching_loads
from benchwright.session.resume import recover
from benchwright.session.run import Verdict
from benchwright.session.search import count_trials
from benchwright.session.search_session import run_session
from benchwright.session.search_start import search_surroundings, stored_spec
from benchwright.session.servers import refuse_missing, servers_of
from benchwright.session.watched_workbench import LoadWatch, WatchedWorkbench
from benchwright.study.journal import RESUMABLE, SessionInfo, Study
from benchwright.study.journal import Session as StoredSession
from benchwright.suite.program import SourceFile
from benchwright.trial.request import Surroundings
from benchwright.workbench.port import AroundLoad, Workbench

Result = TypeVar("Result")


class Site(msgspec.Struct, frozen=True):
    """Where a workbench is built: what it gets of its session."""

    bench: LocalBench
    around: Surroundings
    study: Path
    session: int
    recorded: int
    """Trials that the session has on record."""
    around_load: AroundLoad

    @property
    def logs(self) -> Path:
        """Directory of the session's logs; it may not be there yet."""
        return self.study / "logs" / f"s{self.session}"


class Kept(msgspec.Struct, frozen=True):
    """Where a session is kept, and what is on record of it."""

    study: Path
    session: int
    ledger: Ledger


class Told(msgspec.Struct, frozen=True):
    """What was told of a search when it ended, for a notice."""

    text: str = ""
    """As a person reads it, also where JSON was printed."""
    findings: tuple[Finding, ...] = ()


class Errand(Protocol[Result]):
    """What one kind of session does, from the request that it was begun with."""

    @property
    def notify(self) -> Notify | None:
        """Whom the spec names to be told of the end."""

    @property
    def servers(self) -> tuple[NamedServer, ...]:
        """The servers that the spec names, or that its load's address tells of."""

    @property
    def starts_server(self) -> bool:
        """Whether the session starts a server itself, which a name may mean."""

    def note(self, text: str) -> None:
        """Tell a line of progress: a resume, what a crash left."""

    def workbench(self, site: Site) -> Workbench:
        """Return the workbench of the request's server and generator.

        Raises InputError, BenchError.
        """

    def run(self, workbench: Workbench, ledger: Ledger) -> Result:
        """Run the searches, by `session.search.run_search`, to what they come to."""

    def verdict(self, result: Result) -> Verdict:
        """Return how the session ends."""

    def doubt(self, findings: Sequence[Finding]) -> None:
        """Tell these with the outcome: what could not be watched."""

    def tell(self, result: Result | None, verdict: Verdict, kept: Kept) -> Told:
        """Print the outcome, None after an interrupt; return what was told, also where
        nobody reads it."""

    def close(self) -> None:
        """Put the terminal back."""


def run_new(
    info: SessionInfo, errand: Errand[Result], arguments: argparse.Namespace
) -> int:
    """Run the errand as a new session of a study; return the exit code.

    Raises InputError for a --notify that tells nobody, before there is a study.
    """
    info = begun_with(info, arguments)
    if not errand.starts_server:
        refuse_missing(servers_of(info, errand.servers))
    place = Path(arguments.study)
    with contextlib.closing(Study.create_or_open(place)) as opened:
        for earlier in opened.sessions():
            # A session that was resumed and then crashed still shows its earlier end.
            if earlier.status in RESUMABLE:
                leftovers.end(earlier.info.options["token"])
        ledger = Ledger(opened, opened.begin_session(info))
        return _run(info, errand, ledger)


def run_again(study: Study, stored: StoredSession, errand: Errand[Result]) -> int:
    """Go on with a stored session; return the exit code."""
    info = stored.info
    ended = leftovers.end(info.options["token"])
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


def _run(info: SessionInfo, errand: Errand[Result], ledger: Ledger) -> int:
    around = search_surroundings(info, ledger.study.path)
    ours = (ledger.study.path, ledger.session)
    with contextlib.closing(errand), contextlib.closing(LocalBench()) as bench:
        recorded = count_trials(ledger)
        stop = _Stop()

        wish = info.options.get(OPTION, SAMPLE)
        place = Place(*ours, flame_svg)
        servers = servers_of(info, errand.servers)
        watching = watching_loads(wish, bench.all_processes, place, servers)
        loads = LoadWatch(watching, recorded)
        site = Site(bench, around, *ours, recorded, loads.around)

        def do() -> Result:
            bare = errand.workbench(site)
            made = WatchedWorkbench(bare, loads)
            with contextlib.closing(watching), contextlib.closing(made) as workbench:
                stop.reaches(workbench)
                return errand.run(workbench, ledger)

        record_machine(ledger.study, ledger.session)
        with stopping(stop.asked), telling_of_errors(info, errand.notify, ours):
            ended = run_session(ledger, do, errand.verdict)
    result, verdict = ended
    errand.doubt(watching.doubts())
    record_last_doubts(ledger.study, ledger.session, watching.doubts())
    ledger.study.check_there()
    told = errand.tell(result, verdict, Kept(*ours, ledger))
    end = Ended(*ours, verdict, summary=told.text, findings=told.findings)
    tell_of_end(suite_of(info), notices_of(info, errand.notify), end)
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
