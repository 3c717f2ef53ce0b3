"""The output of ramps, peak searches and surfaces: progress, report, picture, JSON.

The same classes print stored searches, so that `bw peak`, `bw stats` and `bw resume` print the
same report. Decision: report/ contains the texts and JSON of each kind; this module selects them.
"""

from __future__ import annotations

import contextlib
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET

from benchwright.cli.outcome import findings_text, with_study
from benchwright.cli.plot_file import check_plot, form_of, panel_style, write_plot, write_rendered
from benchwright.cli.session_output import TerminalOutput, reader_may_leave
from benchwright.core.criterion import criterion_text
from benchwright.core.errors import StudyError
from benchwright.core.progress import progress_display
from benchwright.core.results import Finding, Severity
from benchwright.features.load.report import file_set_progress_text
from benchwright.features.load.trial import LoadTrial, Probe
from benchwright.features.load.types import FileSetProgress
from benchwright.features.search.documents import Answers, search_profiles, search_profiles_text
from benchwright.features.search.experiments import search_experiment
from benchwright.features.search.profiles import answer_load
from benchwright.features.search.progress import (
    peak_opening_text,
    peak_probe_text,
    peak_running_text,
    peak_trial_text,
    ramp_opening_text,
    ramp_probe_text,
    ramp_running_text,
    ramp_trial_text,
    sample_ending_text,
    sample_opening_text,
    surface_opening_text,
)
from benchwright.features.search.reports import (
    peak_report,
    ramp_report,
    stored_verdict,
    surface_report,
)
from benchwright.features.search.requests import read_predicted
from benchwright.features.search.session import SearchExperiment, SilentSearch
from benchwright.features.search.stored import search_trials_of
from benchwright.features.search.text import binding_criterion
from benchwright.features.search.types import SearchTrial
from benchwright.report.answer import finding_groups
from benchwright.report.documents import FileEntry
from benchwright.run.ledger import Ledger
from benchwright.run.notices import NoticeContents
from benchwright.run.runner import OutputOptions, SessionResult
from benchwright.study.findings import recorded_findings, stored_findings
from benchwright.study.journal import StoredSession, Study

if TYPE_CHECKING:
    from benchwright.features.search.peak.experiment import PeakExperiment
    from benchwright.features.search.ramp.experiment import RampExperiment
    from benchwright.features.search.surface.experiment import SurfaceExperiment

    # Imported only for the session's kind, since each imports its policies.
    from benchwright.features.search.surface.types import SampleRequest, SampleResult, SurfaceResult

_SURFACE_PANEL_IN = 3.4
"""Height of a panel of a surface [inches], larger than that of a curve."""

ExperimentT = TypeVar("ExperimentT", bound=SearchExperiment[Any, Any])


class SearchReport(msgspec.Struct, frozen=True):
    """The outcome of a search session, as text and as JSON."""

    status: str
    findings: tuple[Finding, ...]
    text: str
    """The report as text, without the profiles and the findings."""
    document: Callable[..., str]
    """Returns the report as JSON; takes further members as keyword arguments."""
    trials: Sequence[SearchTrial]
    answers: Answers
    ending: str = ""
    """How the search ended, in a few words; empty if the status is sufficient."""
    shown: tuple[Finding, ...] = ()
    """Those of the findings that are in the text."""
    named: Sequence[tuple[str, Finding]] | None = None
    """The findings with the samples of a surface; None: they concern the one search."""


class SearchOutput(TerminalOutput, SilentSearch, Generic[ExperimentT]):
    """The part of the output that all searches share."""

    def __init__(self, experiment: ExperimentT, plot: str | None, options: OutputOptions) -> None:
        self.experiment = experiment
        self._plot = plot
        self._json = options.json
        self._verbose = options.verbose
        self._progress = progress_display(quiet=options.quiet)
        self._begun_s = time.monotonic()
        self._report: SearchReport | None = None

    @abstractmethod
    def report(self, ended: SessionResult) -> SearchReport:
        """Return the outcome; draw the picture if --plot is given."""

    def making_files(self, progress: FileSetProgress) -> None:
        """Show how far the file set of the next load is."""
        fraction = progress.done / max(1, progress.total)
        at_s = time.monotonic() - self._begun_s
        self._progress.status(file_set_progress_text(progress), fraction, at_s)

    def note(self, text: str) -> None:
        """Print a line of progress."""
        self._progress.line(text)

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show how far the searches are, where other hosts run them."""
        self._progress.status(text, fraction, elapsed_s)

    def close(self) -> None:
        """Restore the terminal."""
        self._progress.close()

    def print(self, ended: SessionResult) -> None:
        """Print the outcome and the path of the study."""
        report = self._report = self.report(ended)
        study = ended.ledger.study.path
        text = f"{self._text(report)}{self._findings_text(report)}"
        if self._json:
            text = report.document(
                study=str(study),
                session=ended.ledger.session,
                exit_status=ended.verdict.exit_status,
                profiles=search_profiles(report.trials, report.answers) or UNSET,
            )
        with reader_may_leave():
            sys.stdout.write(text)
            sys.stdout.flush()
        ending = report.ending or report.status
        if ended.verdict.status == "interrupted":
            ending = f"interrupted: {with_study(ended.verdict.detail, str(study))}"
        self.note(f"bw: {ending}; stored in {study}")

    def notice(self, ended: SessionResult) -> NoticeContents:
        """Return the report as text, also if JSON was printed."""
        report = self._report or self.report(ended)
        return NoticeContents(summary=self._text(report), findings=report.findings)

    def _text(self, report: SearchReport) -> str:
        return report.text + search_profiles_text(report.trials, report.answers)

    def _findings_text(self, report: SearchReport) -> str:
        """Return the findings after a blank line, as at the end of a run."""
        named = report.named or [
            ("", finding)
            for finding in report.findings
            # The text and the sentence about the law say the same.
            if self._verbose
            or (finding.code != "kappa-not-identified" and finding not in report.shown)
        ]
        order = tuple(Severity)
        named = sorted(named, key=lambda pair: -order.index(pair[1].severity))
        total = len({name for name, _ in named if name})
        more = "-v prints each finding with its evidence and remedy"
        text = findings_text(
            finding_groups(named), named, total, more=more, verbose=self._verbose, noun="search"
        )
        return f"\n{text}\n" if text else ""


def _about_session(ended: SessionResult) -> tuple[Finding, ...]:
    """Return the findings about the session as a whole."""
    return ended.recorded if ended.findings is None else ended.findings.session


class PeakOutput(SearchOutput["PeakExperiment"]):
    """The output of a peak search."""

    def search_begins(self) -> None:
        """Print what the search looks for."""
        plan = self.experiment.plan
        criteria = [criterion_text(criterion) for criterion in plan.goal.criteria]
        claims = [claim.text for claim in plan.claims]
        self.note(peak_opening_text(criteria, claims, plan.policy))

    def probe_begins(self, number: int, probe: Probe) -> None:
        """Show the load that starts."""
        self._progress.status(peak_probe_text(number, probe))

    def probe_runs(self, number: int, probe: Probe, so_far: LoadTrial) -> None:
        """Show the current results of the running load."""
        first = self.experiment.plan.goal.criteria[0]
        self._progress.status(peak_running_text(number, probe, so_far, first))

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Show a trial, and the best answer so far."""
        best = self.experiment.best_so_far(trials)
        criteria = self.experiment.plan.goal.criteria
        binding = None if best is None else binding_criterion(best, criteria)
        spent_s = sum(trial.trial.cost_s for trial in trials)
        self.note(peak_trial_text(trials[-1], binding or criteria[0], best, spent_s))

    def report(self, ended: SessionResult) -> SearchReport:
        """Return the answer, or the results so far of an interrupted search."""
        from benchwright.features.search.peak.report import (
            peak_document,
            peak_ending_text,
            peak_text,
        )

        report = peak_report(self.experiment, ended.ledger, ended.verdict, _about_session(ended))

        def sheet() -> Any:
            from benchwright.features.search.peak.chart import peak_sheet

            return peak_sheet(report)

        result = report.result
        return SearchReport(
            status=report.status,
            findings=report.findings,
            shown=report.disturbed.findings,
            text=peak_text(report),
            document=partial(peak_document, report, write_plot(self._plot, sheet)),
            trials=report.trials,
            answers={report.sample: None if result is None else result.peak_rate},
            ending=peak_ending_text(report),
        )


class RampOutput(SearchOutput["RampExperiment"]):
    """The output of a ramp."""

    def search_begins(self) -> None:
        """Print how the load is raised."""
        self.note(ramp_opening_text(self.experiment.plan.goal))

    def probe_begins(self, number: int, probe: Probe) -> None:
        """Show the level that starts."""
        axis = self.experiment.plan.goal.axis
        self._progress.status(ramp_probe_text(number, probe, axis))

    def probe_runs(self, number: int, probe: Probe, so_far: LoadTrial) -> None:
        """Show the current results of the running level."""
        axis = self.experiment.plan.goal.axis
        self._progress.status(ramp_running_text(number, probe, so_far, axis))

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Print the results of a level."""
        self.note(ramp_trial_text(trials[-1], self.experiment.plan.goal.axis))

    def report(self, ended: SessionResult) -> SearchReport:
        """Return the result, or the levels so far of an interrupted ramp."""
        from benchwright.features.search.ramp.profile import band_of
        from benchwright.features.search.ramp.report import (
            ramp_document,
            ramp_ending_text,
            ramp_text,
        )

        report = ramp_report(self.experiment, ended.ledger, ended.verdict, _about_session(ended))
        history = [trial.trial for trial in report.trials]
        band = band_of(report.goal, history) if self._json or self._plot else ()

        def sheet() -> Any:
            from benchwright.features.search.ramp.chart import ramp_sheet

            return ramp_sheet(report, band)

        return SearchReport(
            status=report.status,
            findings=report.findings,
            shown=report.disturbed.findings,
            text=ramp_text(report, verbose=self._verbose),
            ending=ramp_ending_text(report),
            document=partial(ramp_document, report, band, write_plot(self._plot, sheet)),
            trials=report.trials,
            answers={report.sample: answer_load(report.result)},
        )


class SurfaceOutput(SearchOutput["SurfaceExperiment"]):
    """The output of a surface."""

    def __init__(
        self,
        experiment: SurfaceExperiment,
        plot: str | None,
        options: OutputOptions,
        predict: Sequence[str] | None = None,
    ) -> None:
        """`predict`: the samples to predict instead of those of the request.

        Raises InputError with all mistakes in them.
        """
        super().__init__(experiment, plot, options)
        self._predict = experiment.plan.predict
        if predict is not None:
            factors = experiment.plan.goal.factors
            self._predict = read_predicted(tuple(predict), factors)
        self._running: SampleRequest | None = None

    def search_begins(self) -> None:
        """Print the factors and samples of the surface."""
        goal = self.experiment.plan.goal
        criteria = [criterion_text(criterion) for criterion in goal.peak.criteria]
        self.note(surface_opening_text(goal, criteria))

    def sample_begins(self, number: int, wanted: SampleRequest) -> None:
        """Print the sample whose search starts."""
        self._running = wanted
        searches = self.experiment.searches
        self.note(sample_opening_text(number, searches, wanted))

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Show a trial, and the best answer so far at its sample."""
        from benchwright.features.search.peak.experiment import best_so_far

        running = self._running
        if running is None:
            return
        inner = self.experiment.plan.inner(running.goal, running.sample)
        best = best_so_far(inner, [trial.trial for trial in trials])
        spent_s = sum(trial.trial.cost_s for trial in trials)
        text = peak_trial_text(trials[-1], running.goal.criteria[0], best, spent_s)
        self.note("  " + text)

    def sample_ended(self, number: int, result: SampleResult) -> None:
        """Print the answer at a sample."""
        self.note(sample_ending_text(number, result))

    def report(self, ended: SessionResult) -> SearchReport:
        """Return the surface, or the results so far of an interrupted one."""
        from benchwright.features.search.surface.report import (
            named_findings,
            surface_document,
            surface_text,
        )

        report = surface_report(
            self.experiment, ended.ledger, ended.verdict, _about_session(ended), self._predict
        )
        result = report.result
        return SearchReport(
            status=report.status,
            findings=report.findings,
            text=surface_text(report),
            named=named_findings(report),
            document=partial(surface_document, report, self._drawn(result)),
            trials=search_trials_of(ended.ledger.study, ended.ledger.session),
            answers={at: one.found.peak_rate for at, one in result.by_sample.items()},
        )

    def _drawn(self, result: SurfaceResult) -> tuple[FileEntry, ...]:
        """Draw the surface and write it; return the file's entry for the JSON document."""
        if self._plot is None:
            return ()
        from benchwright.features.search.surface.chart import surface_sheet
        from benchwright.report.charts.render import render_sheet

        sheet = surface_sheet(self.experiment.plan.goal, result)
        style = panel_style(_SURFACE_PANEL_IN)
        rendered = render_sheet(sheet, style, form_of(self._plot))
        return write_rendered(self._plot, rendered)


def search_output(
    experiment: SearchExperiment[Any, Any],
    plot: str | None,
    options: OutputOptions,
    predict: Sequence[str] | None = None,
) -> PeakOutput | RampOutput | SurfaceOutput:
    """Return the output of an experiment; `predict`: samples of a surface to predict."""
    match experiment.info.kind:
        case "ramp":
            ramp = cast("RampExperiment", experiment)
            return RampOutput(ramp, plot, options)
        case "peak":
            peak = cast("PeakExperiment", experiment)
            return PeakOutput(peak, plot, options)
        case _:
            surface = cast("SurfaceExperiment", experiment)
            return SurfaceOutput(surface, plot, options, predict)


# -- stored searches -------------------------------------------------------------------


def print_last_search(
    kind: str, place: Path, plot: str | None, options: OutputOptions, predict: Sequence[str] = ()
) -> None:
    """Print the study's last search of a kind, and draw it to `plot`.

    The search may be incomplete. The study is only read. Raises StudyError if it has no such
    search, InputError if the picture cannot be written.
    """
    check_plot(plot, [])
    with contextlib.closing(Study.open_to_read(place)) as study:
        stored = [session for session in study.sessions() if session.info.kind == kind]
        if not stored:
            what = "surface" if kind == "surface" else f"search by bw {kind}"
            raise StudyError(
                f"no-{kind}",
                f"{place} has no {what}",
                f"start one: bw {kind} SPEC.toml --study DIR",
            )
        print_stored(study, stored[-1], plot, options, predict)


def print_stored(
    study: Study,
    stored: StoredSession,
    plot: str | None,
    options: OutputOptions,
    predict: Sequence[str] = (),
) -> None:
    """Print the recorded result of a session, or the results so far of an incomplete one."""
    ledger = Ledger(study, stored.number)
    experiment = search_experiment(stored.info)
    output = search_output(experiment, plot, options, predict)
    verdict = stored_verdict(experiment, stored, ledger)
    findings = stored_findings(study, stored.number)
    recorded = recorded_findings(study, stored.number)
    output.print(SessionResult(ledger, verdict, findings, recorded))
