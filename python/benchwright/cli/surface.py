"""`bw surface`: how the peak rate depends on factors of the server and its load."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.plot_file import check_plot, form_of, panel_style, write_rendered
from benchwright.cli.search_errand import SearchOutcome, SpecExperiment, stored_verdict
from benchwright.cli.search_live import (
    PrintedOutcome,
    StoredSearch,
    WorkbenchSetting,
    resume_search_session,
    run_search_session,
)
from benchwright.cli.search_options import (
    NEW_SESSION,
    add_session,
    spec_source,
)
from benchwright.core.errors import StudyError, argument_error
from benchwright.core.extras import require
from benchwright.core.search import SearchTrial
from benchwright.core.search_text import criterion_text
from benchwright.core.surface import (
    SampleRequest,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.decide.surface.result import predict_samples, surface_of
from benchwright.load.search_options import INNER, PeakRequest, SurfaceRequest
from benchwright.load.spec_toml import read_spec
from benchwright.load.surface_spec import read_surface
from benchwright.load.workbench import Workbench
from benchwright.report.search_progress import (
    peak_trial_text,
    sample_ending_text,
    sample_opening_text,
    surface_opening_text,
)
from benchwright.report.surface import SurfaceReport, surface_document, surface_text
from benchwright.run.ledger import Ledger
from benchwright.run.peak import best_so_far
from benchwright.run.search import search_info, stored_request, stored_spec
from benchwright.run.search_requests import (
    SurfacePlan,
    read_predicted,
    surface_plan,
)
from benchwright.run.session import SessionVerdict
from benchwright.run.surface import recorded_results, run_surface, surface_verdict
from benchwright.study.contents import search_trials_of
from benchwright.study.journal import StoredSession, Study
from benchwright.suite.options import add_options, given, request_from
from benchwright.suite.program import SourceFile

# -- A mapping carried out: workbench, searches, progress, report, picture -------------

_HEIGHT_IN = 3.4
"""Of a panel: a relief needs more than a curve."""


def begin(
    request: SurfaceRequest,
    source: SourceFile,
    arguments: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Map as a new session of a study; return the exit code. Raises InputError."""
    require("scipy", "bw surface", "a search")
    errand = SurfaceExperiment(request, source, arguments)
    info = search_info("surface", request, source, words)
    return run_search_session(info, errand, arguments)


def go_on(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored mapping; return the exit code."""
    require("scipy", "bw surface", "a search")
    return resume_search_session(study, stored, stored_errand(stored, arguments))


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
                f"{place} has no surface",
                "map one: bw surface SPEC.toml --study DIR",
            )
        errand = stored_errand(stored[-1], arguments)
        errand.ask(arguments.predict, arguments.plot)
        _tell(study, stored[-1], errand)
        return 0


def tell_stored(
    study: Study, stored: StoredSession, arguments: argparse.Namespace
) -> None:
    """Tell a stored surface as far as it is known; draw nothing."""
    errand = stored_errand(stored, arguments)
    errand.ask((), None)
    _tell(study, stored, errand)


def _tell(study: Study, stored: StoredSession, errand: SurfaceExperiment) -> None:
    ledger = Ledger(study, stored.number)
    result = errand.recorded(ledger)
    errand.tell(
        result, stored_verdict(stored), StoredSearch(study.path, stored.number, ledger)
    )


def stored_errand(
    stored: StoredSession, arguments: argparse.Namespace
) -> SurfaceExperiment:
    """Return the errand that a session was begun with."""
    source = stored_spec(stored.info)
    assert source is not None, "a surface has a spec"
    request = stored_request(stored.info, SurfaceRequest)
    return SurfaceExperiment(request, source, arguments)


class SurfaceExperiment(SpecExperiment):
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

    def workbench(self, site: WorkbenchSetting) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        goal = self.plan.goal.peak
        return self._built(site, goal.criteria, goal.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> SurfaceResult:
        """Search sample after sample, telling each."""
        criteria = [criterion_text(one) for one in self.plan.goal.peak.criteria]
        self.note(surface_opening_text(self.plan.goal, criteria))
        return run_surface(self.plan, workbench, ledger, self)

    def recorded(self, ledger: Ledger) -> SurfaceResult:
        """Return the surface of the samples that are on record."""
        return surface_of(self.plan.goal, recorded_results(self.plan, ledger))

    def verdict(self, result: SurfaceResult) -> SessionVerdict:
        """Return how the session ends."""
        return surface_verdict(result)

    def tell(
        self, result: SurfaceResult | None, verdict: SessionVerdict, kept: StoredSearch
    ) -> PrintedOutcome:
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
            SearchOutcome(
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
        self,
        result: SurfaceResult,
        verdict: SessionVerdict,
        trials: Sequence[SearchTrial],
    ) -> SurfaceReport:
        plan = self.plan
        return SurfaceReport(
            status=verdict.status,
            detail=verdict.detail,
            goal=plan.goal,
            claims=plan.claims,
            policy=plan.policy,
            result=result,
            asked=predict_samples(plan.goal, result.results, plan.predict),
            bench_findings=self._doubts(trials),
        )

    # -- session.search_surface.SurfaceListener ---------------------------------------

    def begins(self, number: int, wanted: SampleRequest) -> None:
        """Tell which sample is searched now."""
        self.note(sample_opening_text(number, self.plan.goal.samples, wanted))

    def trial(self, wanted: SampleRequest, trials: Sequence[SearchTrial]) -> None:
        """Tell a trial and what is known of the sample's peak."""
        inner = self.plan.inner(wanted.goal, wanted.sample)
        best = best_so_far(inner, [one.trial for one in trials])
        spent_s = sum(one.trial.cost_s for one in trials)
        criterion = wanted.goal.criteria[0]
        self.note("  " + peak_trial_text(trials[-1], criterion, best, spent_s))

    def ended(self, number: int, result: SampleResult) -> None:
        """Tell what the sample's search came to."""
        self.note(sample_ending_text(number, result))


def _written(
    path: str | None, goal: SurfaceGoal, result: SurfaceResult
) -> list[dict[str, Any]]:
    """Draw the surface and write it; return what was written."""
    if path is None:
        return []
    from benchwright.report.charts.render import render_surface
    from benchwright.report.charts.surface import surface_chart

    chart = surface_chart(goal, result)
    rendered = render_surface(chart, panel_style(_HEIGHT_IN), form_of(path))
    return write_rendered(path, rendered)


# -- `bw surface`: the peak rate over factors, from a few samples ----------------------
#
# Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
# `surface_run.py` searches and tells. Heavy imports are inside the functions.

_EXAMPLES = """\
examples:
  bw surface examples/surface-postgres.toml               docs/surface.md
  bw surface server.toml --samples 10 --plot surface.png  10 of all samples, a model for the rest
  bw surface --predict workers=3,buffers=96M              of the surface stored in ./bw-study

designs: adaptive (default with --samples), d-optimal, i-optimal, full (default without)
models: gaussian-process (default), polynomial (default of d- and i-optimal)

exit status: 0 mapped; 1 the server failed at a sample; 2 bad input; 3 too few samples
have a peak for any model; 130 interrupted (continue with `bw resume`)
"""
_START = "first rate of the first search; others start at a neighbour's peak"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw surface`."""
    parser = add_command(
        commands,
        "surface",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server, load, criteria and factors; without one print the study's last "
        "surface again",
    )
    add_options(parser, SurfaceRequest)
    add_options(parser, PeakRequest, only=INNER, helps={"start": _START})
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw surface` was asked; return the exit code."""
    _check(arguments)
    if arguments.spec is None:
        check_plot(arguments.plot, [])
        return tell_again(arguments)
    spec = spec_source(arguments.spec, "bw surface")
    check_plot(arguments.plot, [spec.path])
    return begin(request_of(arguments), spec, arguments, sys.argv[1:])


def resume(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored mapping; return the exit code."""

    return go_on(study, stored, arguments)


def request_of(arguments: argparse.Namespace) -> SurfaceRequest:
    """Return what the user typed, word for word, with a seed drawn."""
    drawn = secrets.randbelow(2**32)
    inner = request_from(PeakRequest, arguments, only=INNER, drawn_seed=drawn)
    return request_from(SurfaceRequest, arguments, peak=inner)


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for words that mean nothing here."""
    if arguments.command_argv is not None:
        hint = "bw surface SPEC.toml: the spec says what is started and loaded"
        raise argument_error("--", "", "bw surface takes no command after --", hint)
    new = given(arguments, PeakRequest, SurfaceRequest, *NEW_SESSION)
    new = [option for option in new if option.name not in ("plot", "predict")]
    if arguments.spec is None and new:
        option = new[0].flag
        message = "there is no SPEC.toml to search with it"
        hint = "bw surface SPEC.toml; without a spec it prints a stored surface again"
        raise argument_error(option, "", message, hint)
