"""The output of ramps, peak searches and surfaces: progress (a line for each trial or sample),
report, picture, JSON.

The same classes print stored searches, so that `bw peak`, `bw stats` and `bw resume` print the
same report. The report itself is the view of its kind (view.py).
"""

from __future__ import annotations

import contextlib
import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec import UNSET

from benchwright.cli.outcome import findings_text, with_study
from benchwright.cli.output_file import check_plot, write_plot
from benchwright.cli.session_output import TerminalOutput, reader_may_leave
from benchwright.cli.terminal import table_width
from benchwright.core.criterion import (
    Criterion,
    criterion_name,
    criterion_text,
    criterion_value_text,
)
from benchwright.core.errors import StudyError
from benchwright.core.progress import progress_display
from benchwright.core.results import Severity
from benchwright.core.text import (
    ABSENT,
    duration_text,
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
)
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.load.report import file_set_progress_text
from benchwright.features.load.types import FileSetProgress
from benchwright.features.search.documents import search_profiles, search_profiles_text
from benchwright.features.search.options import SurfaceRequest
from benchwright.features.search.ramp.levels import trial_throughput
from benchwright.features.search.ramp.report import level_text
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.features.search.reports import OpenedSearch, open_search, search_view
from benchwright.features.search.requests import read_questions
from benchwright.features.search.session import SearchExperiment, SilentSearch
from benchwright.features.search.surface.types import (
    SampleRequest,
    SampleResult,
    SurfaceGoal,
    SurfaceQuestions,
)
from benchwright.features.search.text import (
    binding_criterion,
    interval_text,
    load_value_text,
    open_answer_text,
    sample_text,
)
from benchwright.features.search.types import ClaimResult, PeakStatus, SearchTrial
from benchwright.features.search.view import SearchView
from benchwright.report.answer import finding_groups
from benchwright.run.findings import NoticeContents
from benchwright.run.runner import OutputOptions, SessionResult
from benchwright.study.contents import recorded_findings, stored_findings
from benchwright.study.journal import StoredSession, Study

if TYPE_CHECKING:
    from benchwright.features.search.peak.experiment import PeakExperiment
    from benchwright.features.search.ramp.experiment import RampExperiment
    from benchwright.features.search.surface.experiment import SurfaceExperiment


def peak_opening_text(criteria: Sequence[str], claims: Sequence[str], policy: str) -> str:
    """Return the line that opens a search."""
    return (
        f"searching for the peak rate with {' and '.join(criteria)}; "
        f"claim {', '.join(claims)}; policy {policy}"
    )


def probe_text(number: int, probe: Probe) -> str:
    """Return the line of the trial that starts: `trial 7: 236.3/s for 120 s (hold)`, `trial 7: 64
    users for 10 s (climb)`."""
    load = load_value_text(probe.rate, in_users=probe.users is not None)
    text = f"trial {number}: {load} for {duration_text(probe.duration_s)}"
    return text + (f" ({probe.purpose})" if probe.purpose else "")


def running_text(number: int, probe: Probe, so_far: LoadTrial, figures: str) -> str:
    """Return the status line of the running trial, with its figures so far."""
    return f"{probe_text(number, probe)}; after {duration_text(so_far.lasted_s)}: {figures}"


def criterion_figure_text(trial: LoadTrial, criterion: Criterion) -> str:
    """Return the value of a criterion: `mean response 30.5 ms`."""
    value = criterion_value_text(criterion, trial.values.get(criterion.key))
    return f"{criterion_name(criterion)} {value}"


def peak_trial_text(
    done: SearchTrial, criterion: Criterion, best: ClaimResult | None, spent_s: float
) -> str:
    """Return a trial's line: request, measurement, the peak so far, cost.

    The value of `criterion` is shown; `best` is the answer from the trials so far.
    """
    parts = [f"{probe_text(done.number, done.probe)}: {_outcome(done.trial, criterion)}"]
    if best is not None:
        parts.append(peak_so_far_text(best))
    parts.append(f"{duration_text(spent_s)} spent")
    return "; ".join(part for part in parts if part)


def peak_so_far_text(best: ClaimResult) -> str:
    """Return the current estimate of the peak: `peak 231 to 242/s at 95 %, claim 87 %`."""
    if best.status in (PeakStatus.FAILED, PeakStatus.FAILS_AT_LOWEST):
        return ""
    known = interval_text(best.interval)
    if not known and best.peak_rate is not None:
        known = f"about {rate_text(best.peak_rate)}"
    if not known:
        return ""
    claim = best.claim_probability
    tail = "" if claim is None else f", claim {probability_text(claim)}"
    return f"peak {known}{tail}"


def _outcome(trial: LoadTrial, criterion: Criterion) -> str:
    if trial.ending is LoadEnding.FAILED:
        return f"failed: {trial.failure or 'no reason reported'}"
    text = criterion_figure_text(trial, criterion)
    if trial.ending is LoadEnding.LEFT:
        text += f", stopped after {duration_text(trial.lasted_s)} because the result was clear"
    return text


# -- Progress of a ramp: a line for each trial --------------------------------------

_MEAN = "response_ms_mean"


def ramp_opening_text(goal: RampGoal) -> str:
    """Return the line that opens a ramp."""
    rise = f"times {goal.factor:g}" if goal.step is None else f"by {goal.step:g}"
    highest = level_text(goal.highest, goal.axis)
    after = "then a low level once more, as a control"
    if goal.repeats > 1:
        more = plural(goal.repeats - 1, "more time")
        after = f"then each level {more}, in random order"
    elif goal.axis is RampAxis.RATE:
        after = ""
    return (
        f"ramping from {level_text(goal.start, goal.axis)}, rising {rise}, to at most "
        f"{highest}, {duration_text(goal.hold_s)} each; until throughput grows by less "
        f"than {percent_text(goal.growth, 10)} at {plural(goal.flat_levels, 'level')}"
        f"{after and '; ' + after}"
    )


def ramp_trial_text(done: SearchTrial, axis: RampAxis) -> str:
    """Return a trial's line: the requested load and the measurements."""
    trial = done.trial
    came = throughput_text(trial, axis)
    if trial.ending is LoadEnding.FAILED:
        came = f"failed: {trial.failure or 'no reason reported'}"
    return f"{probe_text(done.number, done.probe)}: {came}"


def throughput_text(trial: LoadTrial, axis: RampAxis) -> str:
    """Return the throughput of a trial, and its mean response if it is known."""
    flow = trial_throughput(trial, axis)
    throughput = ABSENT if flow is None else f"{rate_text(flow.throughput)}"
    mean = trial.values.get(_MEAN)
    text = f"throughput {throughput}"
    return text if mean is None else f"{text}, mean response {number_text(mean)} ms"


# -- Progress of a surface: a line when a sample's search starts, and one when it ends --


def surface_opening_text(goal: SurfaceGoal, criteria: Sequence[str]) -> str:
    """Return the line that opens the measurement of a surface."""
    within = ""
    if goal.deadline_s is not None:
        within = f", within {duration_text(goal.deadline_s)}"
    return (
        f"mapping the peak rate with {' and '.join(criteria)}: "
        f"{goal.samples} of {plural(goal.count, 'sample')}, design {goal.design}{within}"
    )


def sample_opening_text(number: int, count: int, wanted: SampleRequest) -> str:
    """Return which sample is searched and why, and the start of its search."""
    text = f"sample {number} of {count}: {sample_text(wanted.sample)} ({wanted.why})"
    if wanted.goal.budget_s is not None:
        text += f", for at most {duration_text(wanted.goal.budget_s)}"
    if wanted.goal.guess_users is not None:
        users = plural(wanted.goal.guess_users, "user")
        return f"{text}, starting with a closed loop of {users}"
    if not wanted.seeded_from:
        return f"{text}, starting at {rate_text(wanted.goal.start_rate)}"
    near = sample_text(wanted.seeded_from)
    return f"{text}, starting at the rate of {near}, {rate_text(wanted.goal.start_rate)}"


def sample_ending_text(number: int, result: SampleResult) -> str:
    """Return the result of a sample's search."""
    claim_result = result.found
    if result.peak_rate is None:
        return f"sample {number}: {open_answer_text(claim_result)}: {claim_result.detail}"
    interval = interval_text(claim_result.interval)
    ends = f" ({interval})" if interval else ""
    return f"sample {number}: {claim_result.status}: {rate_text(result.peak_rate)}{ends}"


ExperimentT = TypeVar("ExperimentT", bound=SearchExperiment[Any, Any])


class SearchOutput(TerminalOutput, SilentSearch, Generic[ExperimentT]):
    """The part of the output that all searches share."""

    _panel_in: float | None = None
    """Height of a panel of the chart, if it is not that of a curve [inches]."""

    def __init__(self, experiment: ExperimentT, plot: str | None, options: OutputOptions) -> None:
        self.experiment = experiment
        self._plot = plot
        self._json = options.json
        self._verbose = options.verbose
        self._progress = progress_display(quiet=options.quiet)
        self._begun_s = time.monotonic()
        self._questions: SurfaceQuestions | None = None
        self._view: SearchView[Any] | None = None

    def view(self, ended: SessionResult) -> SearchView[Any]:
        """Return the outcome."""
        opened = OpenedSearch(self.experiment, ended.ledger, ended.verdict)
        about = ended.recorded if ended.findings is None else ended.findings.session
        return search_view(opened, about, questions=self._questions, verbose=self._verbose)

    def probe_begins(self, number: int, probe: Probe) -> None:
        """Show the load that starts."""
        self._progress.status(probe_text(number, probe))

    def probe_runs(self, number: int, probe: Probe, so_far: LoadTrial) -> None:
        """Show the current results of the running load."""
        self._progress.status(running_text(number, probe, so_far, self.figures(so_far)))

    @abstractmethod
    def figures(self, so_far: LoadTrial) -> str:
        """Return the figures of a running load as text."""

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
        view = self._view = self.view(ended)
        study = ended.ledger.study.path
        plots = write_plot(self._plot, view.sheet, self._panel_in)
        if self._json:
            profiles = search_profiles(view.report.trials, view.answers())
            text = view.document(
                plots,
                study=str(study),
                session=ended.ledger.session,
                exit_status=ended.verdict.exit_status,
                profiles=profiles or UNSET,
            )
        else:
            text = f"{_text(view, table_width())}{self._findings_text(view)}"
        with reader_may_leave():
            sys.stdout.write(text)
            sys.stdout.flush()
        ending = view.ending()
        if ended.verdict.status == "interrupted":
            ending = f"interrupted: {with_study(ended.verdict.detail, str(study))}"
        self.note(f"bw: {ending}; stored in {study}")

    def notice(self, ended: SessionResult) -> NoticeContents:
        """Return the report as text, also if JSON was printed."""
        view = self._view or self.view(ended)
        return NoticeContents(summary=_text(view), findings=view.report.findings)

    def _findings_text(self, view: SearchView[Any]) -> str:
        """Return the findings after a blank line, as at the end of a run."""
        named = [
            (name, finding)
            for name, finding in view.named_findings()
            # The text and the sentence about the law say the same.
            if self._verbose
            or (
                finding.code != "kappa-not-identified"
                and finding not in view.report.disturbed.findings
            )
        ]
        order = tuple(Severity)
        named = sorted(named, key=lambda pair: -order.index(pair[1].severity))
        total = len({name for name, _ in named if name})
        more = "-v prints each finding with its evidence and remedy"
        text = findings_text(
            finding_groups(named), named, total, more=more, verbose=self._verbose, noun="search"
        )
        return f"\n{text}\n" if text else ""


def _text(view: SearchView[Any], width: int | None = None) -> str:
    return view.text(width) + search_profiles_text(view.report.trials, view.answers())


class PeakOutput(SearchOutput["PeakExperiment"]):
    """The output of a peak search."""

    def search_begins(self) -> None:
        """Print what the search looks for."""
        plan = self.experiment.plan
        criteria = [criterion_text(criterion) for criterion in plan.goal.criteria]
        claims = [claim.text for claim in plan.claims]
        self.note(peak_opening_text(criteria, claims, plan.policy))

    def figures(self, so_far: LoadTrial) -> str:
        """Return the value of the first criterion."""
        return criterion_figure_text(so_far, self.experiment.plan.goal.criteria[0])

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Show a trial, and the best answer so far."""
        best = self.experiment.best_so_far(trials)
        criteria = self.experiment.plan.goal.criteria
        binding = None if best is None else binding_criterion(best, criteria)
        spent_s = sum(trial.trial.cost_s for trial in trials)
        self.note(peak_trial_text(trials[-1], binding or criteria[0], best, spent_s))


class RampOutput(SearchOutput["RampExperiment"]):
    """The output of a ramp."""

    def search_begins(self) -> None:
        """Print how the load is raised."""
        self.note(ramp_opening_text(self.experiment.plan.goal))

    def figures(self, so_far: LoadTrial) -> str:
        """Return the throughput."""
        return throughput_text(so_far, self.experiment.plan.goal.axis)

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Print the results of a level."""
        self.note(ramp_trial_text(trials[-1], self.experiment.plan.goal.axis))


class SurfaceOutput(SearchOutput["SurfaceExperiment"]):
    """The output of a surface."""

    _panel_in = 3.4

    def __init__(
        self,
        experiment: SurfaceExperiment,
        plot: str | None,
        options: OutputOptions,
        asked: SurfaceRequest | None = None,
    ) -> None:
        """`asked`: a request with the questions to answer instead of those of the session's.

        Raises InputError with all mistakes in them.
        """
        super().__init__(experiment, plot, options)
        if asked is not None:
            self._questions = read_questions(asked, experiment.plan.goal.factors)
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

    def figures(self, so_far: LoadTrial) -> str:
        """Return the value of the first criterion."""
        return criterion_figure_text(so_far, self.experiment.plan.goal.peak.criteria[0])

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


def search_output(
    experiment: SearchExperiment[Any, Any],
    plot: str | None,
    options: OutputOptions,
    asked: SurfaceRequest | None = None,
) -> PeakOutput | RampOutput | SurfaceOutput:
    """Return the output of an experiment; `asked`: a request with the questions about a surface, None: its
    own."""
    match experiment.info.kind:
        case "ramp":
            ramp = cast("RampExperiment", experiment)
            return RampOutput(ramp, plot, options)
        case "peak":
            peak = cast("PeakExperiment", experiment)
            return PeakOutput(peak, plot, options)
        case _:
            surface = cast("SurfaceExperiment", experiment)
            return SurfaceOutput(surface, plot, options, asked)


# -- stored searches -------------------------------------------------------------------


def print_last_search(
    kind: str,
    place: Path,
    plot: str | None,
    options: OutputOptions,
    asked: SurfaceRequest | None = None,
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
        print_stored(study, stored[-1], plot, options, asked)


def print_stored(
    study: Study,
    stored: StoredSession,
    plot: str | None,
    options: OutputOptions,
    asked: SurfaceRequest | None = None,
) -> None:
    """Print the recorded result of a session, or the results so far of an incomplete one."""
    experiment, ledger, verdict = open_search(study, stored)
    output = search_output(experiment, plot, options, asked)
    findings = stored_findings(study, stored.number)
    recorded = recorded_findings(study, stored.number)
    output.print(SessionResult(ledger, verdict, findings, recorded))
