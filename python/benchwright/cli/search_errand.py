"""What the experiments of `bw ramp`, `bw peak` and `bw surface` have in common, and the check of a first trial's output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from benchwright.cli.search_live import (
    PrintedOutcome,
    SearchExperiment,
    StoredSearch,
    WorkbenchSetting,
)
from benchwright.cli.terminal import is_without_reader, silence_stdout
from benchwright.core.named_server import NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import Pairs
from benchwright.core.progress import progress_display
from benchwright.core.results import Finding
from benchwright.core.search import Criterion, LoadTrial, Probe, SearchTrial
from benchwright.findings.search_profiles import search_profile_findings
from benchwright.load.parse import implied_server, parse_target
from benchwright.load.spec import Spec, fill_placeholders
from benchwright.load.spec_toml import EngineSettings
from benchwright.load.workbench import LocalWorkbench, Workbench, WorkbenchConfig
from benchwright.report.observed import (
    Answers,
    search_profiles_object,
    search_profiles_text,
)
from benchwright.run.ledger import Ledger
from benchwright.run.search import Search, recorded_result
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import StoredSession, Study

# -- A workbench whose first trial is judged as the command line's doing ---------------
#
# Purpose: a pointer that leads nowhere is a mistake of who typed it, and no failure of the
# server. What is a mistake each command says itself.

UNREADABLE = "command: no "
"""Begin of the failure of a trial whose output lacks what was sought (adapter.py)."""


class FirstOutput:
    """A workbench; `judge` is shown its first trial, and raises InputError for a mistake."""

    def __init__(
        self, workbench: Workbench, judge: Callable[[LoadTrial], None]
    ) -> None:
        self._workbench = workbench
        self._judge = judge
        self._judged = False

    @property
    def watched(self) -> bool:
        """As the workbench's."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial. Raises InputError for the first one without a value."""
        trial = self._workbench.run(probe, sample, leaves)
        if not self._judged:
            self._judge(trial)
        self._judged = True
        return trial

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop everything that was started."""
        self._workbench.close()


# --------------------------------------------------------------------------------------
# What the errands of `bw ramp`, `bw peak` and `bw surface` have in common: their
# workbench, their progress, and telling what is on record.

Result = TypeVar("Result")


class SearchOutcome(msgspec.Struct, frozen=True):
    """What an errand has to tell, in both forms."""

    status: str
    findings: tuple[Finding, ...]
    text: str
    """As a person reads it, but for the profiles."""
    document: Callable[..., str]
    """The same as JSON; takes further members by name."""
    trials: Sequence[SearchTrial]
    answers: Answers
    ending: str = ""
    """How it ended, in one line; empty: the status says it."""


class SpecExperiment:
    """The common part of an errand (search_live.py)."""

    def __init__(self, spec: Spec, arguments: argparse.Namespace) -> None:
        self.spec = spec
        self._json: bool = arguments.json
        self._progress = progress_display(quiet=arguments.quiet)
        self._bench_findings: tuple[Finding, ...] = ()

    def note(self, text: str) -> None:
        """Tell a line of progress."""
        self._progress.line(text)

    @property
    def notify(self) -> NoticeSettings | None:
        """Whom the spec names to be told of the end."""
        return self.spec.notify

    @property
    def servers(self) -> tuple[NamedServer, ...]:
        """The servers that the spec names, or that the load's address tells of."""
        return self.spec.servers or _implied(self.spec)

    @property
    def starts_server(self) -> bool:
        """Whether the spec starts a server, which a name may mean."""
        return self.spec.server is not None

    def doubt(self, findings: Sequence[Finding]) -> None:
        """Tell these with the outcome: what could not be watched."""
        self._bench_findings += tuple(findings)

    def close(self) -> None:
        """Put the terminal back."""
        self._progress.close()

    def _doubts(self, trials: Sequence[SearchTrial]) -> tuple[Finding, ...]:
        """Return the doubts of a report that are not the search's own."""
        return (*self._bench_findings, *search_profile_findings("search", trials))

    def _built(
        self, site: WorkbenchSetting, criteria: tuple[Criterion, ...], seed: int
    ) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        setting = WorkbenchConfig(
            spec=self.spec,
            criteria=criteria,
            around=site.around,
            logs=site.logs,
            seed=seed,
            recorded=site.recorded,
        )
        workbench = LocalWorkbench(setting, site.bench, around_load=site.around_load)
        self._bench_findings = workbench.findings
        return workbench

    def _telling(
        self,
        search: Search[Result],
        begun: Callable[[int, Probe], str],
        running: Callable[[int, Probe, LoadTrial], str],
    ) -> Search[Result]:
        """Return the search, which tells what runs while it does: a probe that begins,
        and what is known of one, each with its number."""

        def step(history: Sequence[LoadTrial]) -> Probe | Result:
            answer = search.step(history)
            if isinstance(answer, Probe):
                self._progress.status(begun(len(history) + 1, answer))
            return answer

        def leaves(
            history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
        ) -> bool:
            self._progress.status(running(len(history) + 1, probe, so_far))
            return search.leaves(history, probe, so_far)

        return msgspec.structs.replace(search, step=step, leaves=leaves)

    def _print(
        self, outcome: SearchOutcome, verdict: SessionVerdict, kept: StoredSearch
    ) -> PrintedOutcome:
        """Print an outcome, and say where it is kept; return what was told, also where
        nobody reads it: a notice may still be wanted."""
        profiles = search_profiles_text(outcome.trials, outcome.answers)
        told = PrintedOutcome(outcome.text + profiles, outcome.findings)
        text = self._document(outcome, verdict, kept) if self._json else told.text
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            if not is_without_reader(error):
                raise
            silence_stdout()
        self.note(f"bw: {outcome.ending or outcome.status}; kept in {kept.study}")
        return told

    def _document(
        self, outcome: SearchOutcome, verdict: SessionVerdict, kept: StoredSearch
    ) -> str:
        return outcome.document(
            study=str(kept.study),
            session=kept.session,
            exit_status=verdict.exit_status,
            **search_profiles_object(outcome.trials, outcome.answers),
        )


def stored_verdict(stored: StoredSession) -> SessionVerdict:
    """Return how a session stands that has no result on record."""
    return SessionVerdict(stored.status, stored.detail or "it has not ended", 0)


def print_recorded(
    study: Study,
    stored: StoredSession,
    errand: SearchExperiment[Result],
    kind: type[Result],
) -> None:
    """Print what a stored search came to, or what is known of one that is unfinished."""
    ledger = Ledger(study, stored.number)
    verdict = stored_verdict(stored)
    result = recorded_result(ledger, kind)
    if result is not None:
        verdict = errand.verdict(result)
    errand.tell(result, verdict, StoredSearch(study.path, stored.number, ledger))


def _implied(spec: Spec) -> tuple[NamedServer, ...]:
    """Return the server that our engine's address tells of; where the spec starts one
    itself, its processes are known."""
    settings = spec.load.settings
    if spec.server is not None or not isinstance(settings, EngineSettings):
        return ()
    if settings.target.slots:
        return ()
    try:
        found = implied_server(parse_target(fill_placeholders(settings.target, {})))
    except ValueError:
        # The search itself says what is wrong with it.
        return ()
    return () if found is None else (found,)
