"""A mapping carried out: workbench, searches, progress, report, picture."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchwright.cli.plot_file import form_of, panel_style, write_rendered
from benchwright.cli.search_errand import Outcome, SearchErrand, stored_verdict
from benchwright.cli.search_live import Kept, Site, Told, run_again, run_new
from benchwright.control.surface.result import predicted, surface_of
from benchwright.model.errors import StudyError
from benchwright.model.search import SearchTrial
from benchwright.model.surface import (
    SampleResult,
    SampleWanted,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.report.peak_progress import trial_text
from benchwright.report.peak_words import criterion_text
from benchwright.report.surface import SurfaceReport, surface_text
from benchwright.report.surface_json import surface_document
from benchwright.report.surface_progress import (
    beginning_text,
    ending_text,
    mapping_text,
)
from benchwright.session.ledger import Ledger
from benchwright.session.run import Verdict
from benchwright.session.search_peak import best_so_far
from benchwright.session.search_start import search_info, stored_request, stored_spec
from benchwright.session.search_surface import (
    recorded_results,
    run_surface,
    surface_verdict,
)
from benchwright.session.search_surface_request import (
    SurfacePlan,
    SurfaceRequest,
    read_predicted,
    surface_plan,
)
from benchwright.study.contents import search_trials_of
from benchwright.study.journal import Session, Study
from benchwright.suite.program import SourceFile
from benchwright.workbench.port import Workbench
from benchwright.workbench.spec_toml import read_spec
from benchwright.workbench.surface_spec import read_surface

_HEIGHT_IN = 3.4
"""Of a panel: a relief needs more than a curve."""


def begin(
    request: SurfaceRequest,
    source: SourceFile,
    arguments: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Map as a new session of a study; return the exit code. Raises InputError."""
    errand = SurfaceErrand(request, source, arguments)
    info = search_info("surface", request, source, words)
    return run_new(info, errand, arguments)


def go_on(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored mapping; return the exit code."""
    return run_again(study, stored, stored_errand(stored, arguments))


def tell_again(arguments: argparse.Namespace) -> int:
    """Tell the last surface of a study; return the exit code.

    Raises StudyError where there is none, InputError for a sample that cannot be.
    """
    place = Path(arguments.study)
    with contextlib.closing(Study.open_to_read(place)) as study:
        stored = [one for one in study.sessions() if one.info.kind == "surface"]
        if not stored:
            raise StudyError(
                "no-surface",
                f"{place} holds no surface",
                "map one: bw surface SPEC.toml --study DIR",
            )
        errand = stored_errand(stored[-1], arguments)
        errand.ask(arguments.predict, arguments.plot)
        _tell(study, stored[-1], errand)
        return 0


def tell_stored(study: Study, stored: Session, arguments: argparse.Namespace) -> None:
    """Tell a stored surface as far as it is known; draw nothing."""
    errand = stored_errand(stored, arguments)
    errand.ask((), None)
    _tell(study, stored, errand)


def _tell(study: Study, stored: Session, errand: SurfaceErrand) -> None:
    ledger = Ledger(study, stored.number)
    result = errand.recorded(ledger)
    errand.tell(result, stored_verdict(stored), Kept(study.path, stored.number, ledger))


def stored_errand(stored: Session, arguments: argparse.Namespace) -> SurfaceErrand:
    """Return the errand that a session was begun with."""
    source = stored_spec(stored.info)
    assert source is not None, "a surface has a spec"
    request = stored_request(stored.info, SurfaceRequest)
    return SurfaceErrand(request, source, arguments)


class SurfaceErrand(SearchErrand):
    """What `bw surface` does in its session; listens to its own searches."""

    def __init__(
        self,
        request: SurfaceRequest,
        source: SourceFile,
        arguments: argparse.Namespace,
    ) -> None:
        spec = read_spec(source.text, source.path, {"surface": read_surface})
        super().__init__(spec, arguments)
        self.plan: SurfacePlan = surface_plan(request, self.spec)
        self._plot = request.plot

    def ask(self, predict: Sequence[str], plot: str | None) -> None:
        """Predict these samples, and draw there, in place of what was asked at first.

        Raises InputError with every mistake.
        """
        samples = read_predicted(tuple(predict), self.plan.goal.factors)
        self.plan = msgspec.structs.replace(self.plan, predict=samples)
        self._plot = plot

    def workbench(self, site: Site) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        goal = self.plan.goal.peak
        return self._built(site, goal.criteria, goal.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> SurfaceResult:
        """Search sample after sample, telling each."""
        criteria = [criterion_text(one) for one in self.plan.goal.peak.criteria]
        self.note(mapping_text(self.plan.goal, criteria))
        return run_surface(self.plan, workbench, ledger, self)

    def recorded(self, ledger: Ledger) -> SurfaceResult:
        """Return the surface of the samples that are on record."""
        return surface_of(self.plan.goal, recorded_results(self.plan, ledger))

    def verdict(self, result: SurfaceResult) -> Verdict:
        """Return how the session ends."""
        return surface_verdict(result)

    def tell(self, result: SurfaceResult | None, verdict: Verdict, kept: Kept) -> Told:
        """Print the outcome, and draw it where that was asked for; return what was told."""
        trials = search_trials_of(kept.ledger.study, kept.session)
        known = result
        if known is None:
            # The trials of the sample that was cut short were paid for too.
            known = msgspec.structs.replace(
                self.recorded(kept.ledger),
                trials=len(trials),
                load_s=sum(one.trial.lasted_s for one in trials),
                cost_s=sum(one.trial.cost_s for one in trials),
            )
        answers = {one.sample: one.found.peak_rate for one in known.results}
        report = self._report(known, verdict, trials)
        files = _written(self._plot, self.plan.goal, known)
        return self._print(
            Outcome(
                status=report.status,
                findings=report.findings,
                text=surface_text(report),
                document=partial(surface_document, report, files),
                trials=trials,
                answers=answers,
            ),
            verdict,
            kept,
        )

    def _report(
        self, result: SurfaceResult, verdict: Verdict, trials: Sequence[SearchTrial]
    ) -> SurfaceReport:
        plan = self.plan
        return SurfaceReport(
            status=verdict.status,
            detail=verdict.detail,
            goal=plan.goal,
            claims=plan.claims,
            policy=plan.policy,
            result=result,
            asked=predicted(plan.goal, result.results, plan.predict),
            bench_findings=self._doubts(trials),
        )

    # -- session.search_surface.SurfaceListener ---------------------------------------

    def begins(self, number: int, wanted: SampleWanted) -> None:
        """Tell which sample is searched now."""
        self.note(beginning_text(number, self.plan.goal.samples, wanted))

    def trial(self, wanted: SampleWanted, trials: Sequence[SearchTrial]) -> None:
        """Tell a trial and what is known of the sample's peak."""
        inner = self.plan.inner(wanted.goal, wanted.sample)
        best = best_so_far(inner, [one.trial for one in trials])
        spent_s = sum(one.trial.cost_s for one in trials)
        criterion = wanted.goal.criteria[0]
        self.note("  " + trial_text(trials[-1], criterion, best, spent_s))

    def ended(self, number: int, result: SampleResult) -> None:
        """Tell what the sample's search came to."""
        self.note(ending_text(number, result))


def _written(
    path: str | None, goal: SurfaceGoal, result: SurfaceResult
) -> list[dict[str, Any]]:
    """Draw the surface and write it; return what was written."""
    if path is None:
        return []
    from benchwright.report.plot.render import render_surface
    from benchwright.report.plot.surface import surface_chart

    chart = surface_chart(goal, result)
    rendered = render_surface(chart, panel_style(_HEIGHT_IN), form_of(path))
    return write_rendered(path, rendered)
