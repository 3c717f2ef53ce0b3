"""A ramp carried out: workbench, levels, progress, report."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial

import msgspec

from benchwright.cli.peak_command import check_program
from benchwright.cli.plot_file import write_plot
from benchwright.cli.ramp_command import command_spec, first_output
from benchwright.cli.search_errand import Outcome, SearchErrand, tell_recorded
from benchwright.cli.search_live import Kept, Site, Told, run_again, run_new
from benchwright.control.ramp.policy import best_so_far
from benchwright.control.ramp.profile import band_of
from benchwright.finding.profiled_search import answer_load
from benchwright.model.errors import InputError
from benchwright.model.peak import Criterion
from benchwright.model.ramp import RampResult
from benchwright.model.search import SearchTrial
from benchwright.model.usl import BandPoint
from benchwright.report.plot.sheet import Sheet
from benchwright.report.ramp import RampReport, ramp_text
from benchwright.report.ramp_json import ramp_document
from benchwright.report.ramp_progress import (
    opening_text,
    probe_text,
    running_text,
    trial_text,
)
from benchwright.session.ledger import Ledger
from benchwright.session.run import Verdict
from benchwright.session.search import (
    Search,
    recorded_trials,
    run_search,
    search_key,
)
from benchwright.session.search_ramp import ramp_search, ramp_verdict
from benchwright.session.search_ramp_request import (
    RampPlan,
    RampRequest,
    option_mistakes,
    ramp_plan,
)
from benchwright.session.search_start import search_info, stored_request, stored_spec
from benchwright.study.journal import Session, Study
from benchwright.suite.program import SourceFile
from benchwright.workbench.generators.command import CommandGenerator
from benchwright.workbench.port import Workbench
from benchwright.workbench.ramp_spec import THROUGHPUT, read_ramp
from benchwright.workbench.spec import Spec
from benchwright.workbench.spec_load import ENGINE
from benchwright.workbench.spec_toml import read_spec

_KEY = search_key()
_RESPONSES = (
    Criterion("response_ms_mean", math.inf),
    Criterion("response_ms_p50", math.inf, statistic="percentile", share=0.5),
    Criterion("response_ms_p99", math.inf, statistic="percentile", share=0.99),
)
"""A ramp limits no response."""


def begin(
    request: RampRequest,
    source: SourceFile | None,
    arguments: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Ramp as a new session of a study; return the exit code. Raises InputError."""
    errand = RampErrand(request, source, arguments)
    if source is None:
        check_program(errand.spec)
    info = search_info("ramp", request, source, words)
    return run_new(info, errand, arguments)


def go_on(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored ramp; return the exit code."""
    request = stored_request(stored.info, RampRequest)
    errand = RampErrand(request, stored_spec(stored.info), arguments)
    return run_again(study, stored, errand)


def tell_stored(
    study: Study,
    stored: Session,
    arguments: argparse.Namespace,
    plot: str | None = None,
) -> None:
    """Print what a stored ramp came to, or what is known of one that is unfinished;
    draw it to `plot`."""
    request = msgspec.structs.replace(
        stored_request(stored.info, RampRequest), plot=plot
    )
    errand = RampErrand(request, stored_spec(stored.info), arguments)
    tell_recorded(study, stored, errand, RampResult)


class RampErrand(SearchErrand):
    """What `bw ramp` does in its session."""

    def __init__(
        self,
        request: RampRequest,
        source: SourceFile | None,
        arguments: argparse.Namespace,
    ) -> None:
        spec, self._plan = meaning_of(request, source)
        super().__init__(spec, arguments)
        self._request = request

    def workbench(self, site: Site) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        return self._built(site, wanted_of(self.spec), self._plan.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> RampResult:
        """Ramp, telling each trial."""
        self.note(opening_text(self._plan.goal))
        begun = recorded_trials(_KEY, ledger)[0]
        if self._request.command is not None and not begun:
            workbench = first_output(workbench, self._request)
        search = self._told(ramp_search(self._plan, _KEY))
        return run_search(search, workbench, ledger, self._tell_trial).result

    def verdict(self, result: RampResult) -> Verdict:
        """Return how the session ends."""
        return ramp_verdict(result)

    def tell(self, result: RampResult | None, verdict: Verdict, kept: Kept) -> Told:
        """Print the outcome, and draw it where that was asked for; return what was told."""
        trials, _ = recorded_trials(_KEY, kept.ledger)
        report = self._report(result, verdict, trials)
        answers = {self._plan.sample: answer_load(report.result)}
        band = self._band(trials) if self._json or self._request.plot else ()
        plots = write_plot(self._request.plot, lambda: _sheet(report, band))
        return self._print(
            Outcome(
                status=report.status,
                findings=report.findings,
                text=ramp_text(report),
                document=partial(ramp_document, report, band, plots),
                trials=trials,
                answers=answers,
            ),
            verdict,
            kept,
        )

    # -- progress --------------------------------------------------------------------

    def _told(self, search: Search[RampResult]) -> Search[RampResult]:
        """Return the search, which tells what runs while it does."""
        axis = self._plan.goal.axis

        return self._telling(
            search,
            lambda number, probe: probe_text(number, probe, axis),
            lambda number, probe, so_far: running_text(number, probe, so_far, axis),
        )

    def _tell_trial(self, trials: Sequence[SearchTrial]) -> None:
        self.note(trial_text(trials[-1], self._plan.goal.axis))

    # -- report ----------------------------------------------------------------------

    def _report(
        self,
        result: RampResult | None,
        verdict: Verdict,
        trials: Sequence[SearchTrial],
    ) -> RampReport:
        """Return what is told: the profile, or what is known where it was cut short."""
        goal = self._plan.goal
        status = verdict.status if result is None else result.status.value
        if result is None and trials:
            result = best_so_far(goal, [one.trial for one in trials])
        return RampReport(
            status=status,
            detail=verdict.detail,
            goal=goal,
            result=result,
            trials=tuple(trials),
            seed=self._plan.seed,
            sample=self._plan.sample,
            bench_findings=self._doubts(trials),
        )

    def _band(self, trials: Sequence[SearchTrial]) -> tuple[BandPoint, ...]:
        return band_of(self._plan.goal, [one.trial for one in trials])


def meaning_of(
    request: RampRequest, source: SourceFile | None
) -> tuple[Spec, RampPlan]:
    """Return what is loaded and how, and how far. Raises InputError with every mistake."""
    try:
        if source is None:
            spec = command_spec(request)
        else:
            spec = read_spec(source.text, source.path, {"ramp": read_ramp})
    except InputError as error:
        wrong = [*error.diagnostics, *option_mistakes(request)]
        raise InputError(wrong) from None
    return spec, ramp_plan(request, spec)


def wanted_of(spec: Spec) -> tuple[Criterion, ...]:
    """Return the values that trials are asked for: those that the generator can tell."""
    if spec.load.generator == ENGINE:
        # Limits of [peak] say what lateness matters, and how long an end is waited for.
        limited = () if spec.goal is None else spec.goal.criteria
        said = {one.key for one in limited}
        return (*limited, *(one for one in _RESPONSES if one.key not in said))
    settings = spec.load.settings
    if isinstance(settings, CommandGenerator):
        told = {key for key, _ in settings.values}
        throughput = Criterion(THROUGHPUT, 0.0, "1/s", "higher", "metric")
        return tuple(one for one in (throughput, *_RESPONSES) if one.key in told)
    return tuple(one for one in _RESPONSES if not settings.traits.refusal(one))


def _sheet(report: RampReport, band: Sequence[BandPoint]) -> Sheet:
    from benchwright.report.plot.ramp import ramp_sheet

    return ramp_sheet(report, band)
