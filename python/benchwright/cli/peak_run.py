"""A peak search carried out: workbench, policy, progress, report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from benchwright.cli.peak_command import check_program, command_spec, first_output
from benchwright.cli.plot_file import write_plot
from benchwright.cli.search_errand import Outcome, SearchErrand, tell_recorded
from benchwright.cli.search_live import Kept, Site, Told, run_again, run_new
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.peak import PeakResult
from benchwright.model.search import PeakAnswer, SearchTrial
from benchwright.report.peak import PeakReport, ending_text, peak_text
from benchwright.report.peak_json import peak_document
from benchwright.report.peak_progress import (
    opening_text,
    probe_text,
    running_text,
    trial_text,
)
from benchwright.report.peak_words import binding_of, criterion_text
from benchwright.report.plot.sheet import Sheet
from benchwright.session.ledger import Ledger
from benchwright.session.run import Verdict
from benchwright.session.search import (
    Search,
    recorded_trials,
    run_search,
    search_key,
)
from benchwright.session.search_peak import best_so_far, peak_search, peak_verdict
from benchwright.session.search_peak_request import PeakPlan, PeakRequest, peak_plan
from benchwright.session.search_start import search_info, stored_request, stored_spec
from benchwright.study.journal import Session, Study
from benchwright.suite.program import SourceFile
from benchwright.workbench.port import Workbench
from benchwright.workbench.spec import Spec
from benchwright.workbench.spec_toml import read_spec

Made = TypeVar("Made")

_KEY = search_key()


def begin(
    request: PeakRequest,
    source: SourceFile | None,
    arguments: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Search as a new session of a study; return the exit code. Raises InputError."""
    errand = PeakErrand(request, source, arguments)
    if source is None:
        check_program(errand.spec)
    info = search_info("peak", request, source, words)
    return run_new(info, errand, arguments)


def go_on(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored search; return the exit code."""
    request = stored_request(stored.info, PeakRequest)
    errand = PeakErrand(request, stored_spec(stored.info), arguments)
    return run_again(study, stored, errand)


def tell_stored(
    study: Study,
    stored: Session,
    arguments: argparse.Namespace,
    plot: str | None = None,
) -> None:
    """Print what a stored search came to, or what is known of one that is unfinished;
    draw it to `plot`."""
    request = msgspec.structs.replace(
        stored_request(stored.info, PeakRequest), plot=plot
    )
    errand = PeakErrand(request, stored_spec(stored.info), arguments)
    tell_recorded(study, stored, errand, PeakAnswer)


class PeakErrand(SearchErrand):
    """What `bw peak` does in its session."""

    def __init__(
        self,
        request: PeakRequest,
        source: SourceFile | None,
        arguments: argparse.Namespace,
    ) -> None:
        spec, self._plan = meaning_of(request, source)
        super().__init__(spec, arguments)
        self._request = request

    def workbench(self, site: Site) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        goal = self._plan.goal
        return self._built(site, goal.criteria, goal.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> PeakAnswer:
        """Search, telling each trial."""
        plan = self._plan
        self.note(
            opening_text(
                [criterion_text(one) for one in plan.goal.criteria],
                [claim.text for claim in plan.claims],
                plan.policy,
            )
        )
        begun = recorded_trials(_KEY, ledger)[0]
        if self._request.command is not None and not begun:
            workbench = first_output(workbench, self._request)
        search = self._told(peak_search(plan, watched=workbench.watched, key=_KEY))
        return run_search(search, workbench, ledger, self._tell_trial).result

    def verdict(self, result: PeakAnswer) -> Verdict:
        """Return how the session ends."""
        return peak_verdict(result)

    def tell(self, result: PeakAnswer | None, verdict: Verdict, kept: Kept) -> Told:
        """Print the outcome, and draw it where that was asked for; return what was told."""
        trials, _ = recorded_trials(_KEY, kept.ledger)
        report = self._report(result, verdict, trials)
        known = report.result
        answers = {self._plan.sample: None if known is None else known.peak_rate}
        plots = write_plot(self._request.plot, lambda: _sheet(report))
        return self._print(
            Outcome(
                status=report.status,
                findings=report.findings,
                text=peak_text(report),
                document=partial(peak_document, report, plots),
                trials=trials,
                answers=answers,
                ending=ending_text(report),
            ),
            verdict,
            kept,
        )

    # -- progress --------------------------------------------------------------------

    def _told(self, search: Search[PeakAnswer]) -> Search[PeakAnswer]:
        """Return the search, which tells what runs while it does."""

        first = self._plan.goal.criteria[0]
        return self._telling(
            search,
            probe_text,
            lambda number, probe, so_far: running_text(number, probe, so_far, first),
        )

    def _tell_trial(self, trials: Sequence[SearchTrial]) -> None:
        best = self._best(trials)
        criteria = self._plan.goal.criteria
        binding = None if best is None else binding_of(best, criteria)
        spent_s = sum(one.trial.cost_s for one in trials)
        text = trial_text(trials[-1], binding or criteria[0], best, spent_s)
        self._progress.line(text)

    def _best(self, trials: Sequence[SearchTrial]) -> PeakResult | None:
        return best_so_far(self._plan, [one.trial for one in trials])

    # -- outcome ---------------------------------------------------------------------

    def _report(
        self,
        answer: PeakAnswer | None,
        verdict: Verdict,
        trials: Sequence[SearchTrial],
    ) -> PeakReport:
        """Return what is told: the answer, or what is known where it was cut short."""
        plan = self._plan
        results = self._so_far(trials) if answer is None else answer.claims
        status = verdict.status if answer is None else answer.deciding.status.value
        return PeakReport(
            status=status,
            detail=verdict.detail,
            criteria=plan.goal.criteria,
            claims=plan.claims,
            results=results,
            trials=tuple(trials),
            policy=plan.policy,
            seed=plan.goal.seed,
            budget_s=plan.goal.budget_s,
            sample=plan.sample,
            bench_findings=self._doubts(trials),
        )

    def _so_far(self, trials: Sequence[SearchTrial]) -> tuple[PeakResult | None, ...]:
        """Return what is known of the first claim; of the others nothing is said."""
        return (self._best(trials), *(None for _ in self._plan.claims[1:]))


def meaning_of(
    request: PeakRequest, source: SourceFile | None
) -> tuple[Spec, PeakPlan]:
    """Return what is loaded and how, and what is searched for. Raises InputError with
    every mistake."""
    if source is not None:
        spec = read_spec(source.text, source.path)
        return spec, peak_plan(request, spec)
    wrong: list[Diagnostic] = []
    made = _made(lambda: command_spec(request), wrong)
    plan = _made(lambda: peak_plan(request, None), wrong)
    if made is None or plan is None:
        raise InputError(wrong)
    return made, plan


def _made(make: Callable[[], Made], wrong: list[Diagnostic]) -> Made | None:
    """Return what `make` makes; None where it cannot, with its mistakes in `wrong`."""
    try:
        return make()
    except InputError as error:
        wrong.extend(error.diagnostics)
        return None


def _sheet(report: PeakReport) -> Sheet:
    from benchwright.report.plot.peak import peak_sheet

    return peak_sheet(report)
