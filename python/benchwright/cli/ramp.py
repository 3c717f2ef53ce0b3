"""`bw ramp`: throughput and response time from a low load to saturation."""

from __future__ import annotations

import argparse
import math
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.peak import check_program
from benchwright.cli.plot_file import write_plot
from benchwright.cli.search_errand import (
    FirstOutput,
    SearchOutcome,
    SpecExperiment,
    print_recorded,
)
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
    for_command_only,
    search_or_print,
    two_sources,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.ramp import BandPoint, RampResult
from benchwright.core.search import Criterion, LoadEnding, LoadTrial, SearchTrial
from benchwright.decide.ramp.policy import best_so_far
from benchwright.decide.ramp.profile import band_of
from benchwright.findings.search_profiles import answer_load
from benchwright.load.generators.command import CommandGenerator, command_generator
from benchwright.load.generators.output import ValueSource, parse_source
from benchwright.load.ramp_spec import THROUGHPUT, read_ramp
from benchwright.load.search_options import RampRequest
from benchwright.load.spec import LoadPlan, Spec
from benchwright.load.spec_toml import ENGINE, read_spec
from benchwright.load.workbench import Workbench
from benchwright.report.charts.sheet import Sheet
from benchwright.report.ramp import RampReport, ramp_document, ramp_text
from benchwright.report.search_progress import (
    ramp_opening_text,
    ramp_probe_text,
    ramp_running_text,
    ramp_trial_text,
)
from benchwright.run.ledger import Ledger
from benchwright.run.ramp import ramp_search, ramp_verdict
from benchwright.run.search import (
    Search,
    recorded_trials,
    run_search,
    search_info,
    stored_request,
    stored_spec,
)
from benchwright.run.search_requests import (
    RampPlan,
    ramp_option_errors,
    ramp_plan,
)
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import StoredSession, Study
from benchwright.study.keys import search_key
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options, request_from
from benchwright.suite.program import SourceFile

# -- `bw ramp --command 'GEN {users} {duration}'` as a spec: a program as load ---------

FILE = "--command"
"""What stands for a spec's file."""
VALUES = (
    ("throughput", THROUGHPUT),
    ("response", "response_ms_mean"),
    ("p99", "response_ms_p99"),
    ("errors", "error_ratio"),
)
"""Options that say where a value is, and the value's key."""
_BARE = "GEN {users} {duration}"
_ANY = "/value"


def command_spec(request: RampRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command = request.command
    assert command is not None
    wrong: list[Diagnostic] = []
    made = _tried("--command", command, lambda: command_generator(command, _ANY), wrong)
    values = []
    for name, key in VALUES:
        source = _source(f"--{name}", getattr(request, name), wrong)
        if source is not None:
            values.append((key, source))
    series = request.series
    told = _tried("--series", series, lambda: _with_series(series), wrong)
    if wrong:
        raise InputError(wrong)
    assert made is not None
    settings = CommandGenerator(
        command=command,
        values=tuple(values),
        series=None if told is None else told.series,
        open_loop="{rate}" in command,
    )
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=FILE, directory=os.getcwd(), load=load)


def _with_series(series: str | None) -> CommandGenerator:
    return command_generator(_BARE, _ANY, series)


def _source(
    option: str, text: str | None, wrong: list[Diagnostic]
) -> ValueSource | None:
    if text is None:
        return None
    try:
        return parse_source(text)
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return None


def _tried(
    option: str,
    text: str | None,
    make: Callable[[], CommandGenerator],
    wrong: list[Diagnostic],
) -> CommandGenerator | None:
    if text is None:
        return None
    try:
        return make()
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return None


def first_output(workbench: Workbench, request: RampRequest) -> FirstOutput:
    """Return a workbench whose first output must hold what was pointed at."""

    def judge(trial: LoadTrial) -> None:
        failure = trial.failure.removeprefix("command: ")
        for name, key in (*VALUES, ("series", "series")):
            text = getattr(request, name)
            if text is None:
                continue
            if failure.startswith(f"no {key} "):
                raise argument_error(f"--{name}", text, failure, _HINT)
            missing = key != "series" and key not in trial.values
            if missing and trial.ending is not LoadEnding.FAILED:
                message = f"no {key} in the output of GEN"
                raise argument_error(f"--{name}", text, message, _HINT)

    return FirstOutput(workbench, judge)


_HINT = "GEN prints JSON, in which this pointer leads to a number"


# -- A ramp carried out: workbench, levels, progress, report ---------------------------

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
    errand = RampExperiment(request, source, arguments)
    if source is None:
        check_program(errand.spec)
    info = search_info("ramp", request, source, words)
    return run_search_session(info, errand, arguments)


def go_on(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored ramp; return the exit code."""
    request = stored_request(stored.info, RampRequest)
    errand = RampExperiment(request, stored_spec(stored.info), arguments)
    return resume_search_session(study, stored, errand)


def tell_stored(
    study: Study,
    stored: StoredSession,
    arguments: argparse.Namespace,
    plot: str | None = None,
) -> None:
    """Print what a stored ramp came to, or what is known of one that is unfinished;
    draw it to `plot`."""
    request = msgspec.structs.replace(
        stored_request(stored.info, RampRequest), plot=plot
    )
    errand = RampExperiment(request, stored_spec(stored.info), arguments)
    print_recorded(study, stored, errand, RampResult)


class RampExperiment(SpecExperiment):
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

    def workbench(self, site: WorkbenchSetting) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        return self._built(site, wanted_of(self.spec), self._plan.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> RampResult:
        """Ramp, telling each trial."""
        self.note(ramp_opening_text(self._plan.goal))
        begun = recorded_trials(_KEY, ledger)[0]
        if self._request.command is not None and not begun:
            workbench = first_output(workbench, self._request)
        search = self._told(ramp_search(self._plan, _KEY))
        return run_search(search, workbench, ledger, self._tell_trial).result

    def verdict(self, result: RampResult) -> SessionVerdict:
        """Return how the session ends."""
        return ramp_verdict(result)

    def tell(
        self, result: RampResult | None, verdict: SessionVerdict, kept: StoredSearch
    ) -> PrintedOutcome:
        """Print the outcome, and draw it where that was asked for; return what was told."""
        trials, _ = recorded_trials(_KEY, kept.ledger)
        report = self._report(result, verdict, trials)
        answers = {self._plan.sample: answer_load(report.result)}
        band = self._band(trials) if self._json or self._request.plot else ()
        plots = write_plot(self._request.plot, lambda: _sheet(report, band))
        return self._print(
            SearchOutcome(
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
            lambda number, probe: ramp_probe_text(number, probe, axis),
            lambda number, probe, so_far: ramp_running_text(
                number, probe, so_far, axis
            ),
        )

    def _tell_trial(self, trials: Sequence[SearchTrial]) -> None:
        self.note(ramp_trial_text(trials[-1], self._plan.goal.axis))

    # -- report ----------------------------------------------------------------------

    def _report(
        self,
        result: RampResult | None,
        verdict: SessionVerdict,
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
        wrong = [*error.diagnostics, *ramp_option_errors(request)]
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
    from benchwright.report.charts.ramp import ramp_sheet

    return ramp_sheet(report, band)


# -- `bw ramp`: load in rising levels until throughput stops growing -------------------
#
# Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
# `ramp_run.py` ramps and tells. Heavy imports are inside the functions.

_EXAMPLES = """\
examples:
  bw ramp examples/peak-nginx.toml                    users of a closed loop, doubled
  bw ramp server.toml -P workers=2 --repeats 3 --plot profile.png
  bw ramp server.toml --axis rate --start 1k --step 500
  bw ramp --command 'GEN {users} {duration}' --throughput /tps --response /mean_ms
  bw ramp --study DIR --plot profile.png              draw the ramp stored in DIR

With users, the Universal Scalability Law is fitted: X(N) = gamma N /
(1 + sigma (N-1) + kappa N (N-1)), with an interval of each parameter and of the number of
users at its maximum.

exit status: 0 done; 1 the server or the generator failed; 2 bad input; 3 budget spent;
130 interrupted (continue with `bw resume`)
"""
_OUTPUT = ("throughput", "response", "p99", "errors", "series")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw ramp`."""
    parser = add_command(
        commands,
        "ramp",
        epilog=_EXAMPLES,
        usage="bw ramp [options] SPEC.toml | bw ramp [options] --command 'GEN {users} "
        "{duration}' --throughput /POINTER",
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server and load; [ramp] if it has one; without one, and without "
        "--command, print the study's last ramp again",
    )
    add_options(parser, RampRequest)
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw ramp` was asked; return the exit code."""
    wrong = _mistakes(arguments)
    if wrong:
        raise InputError(wrong)
    return search_or_print(
        "ramp",
        arguments,
        lambda spec: begin(_request(arguments), spec, arguments, sys.argv[1:]),
    )


def resume(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored ramp; return the exit code."""

    return go_on(study, stored, arguments)


def _mistakes(arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return what does not go together, or is missing."""
    from benchwright.cli.stored_search import is_stored_search

    found: list[Diagnostic] = []
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {users} {duration}'"
        found.append(
            option_mistake("--", "a command after -- cannot take a level", hint)
        )
    elif (
        spec is None
        and command is None
        and not is_stored_search(arguments, (RampRequest, *NEW_SESSION))
    ):
        hint = (
            "bw ramp SPEC.toml, or --command 'GEN {users} {duration}'; or for a "
            "stored ramp bw ramp --study DIR --plot FILE, without options of a new one"
        )
        found.append(option_mistake("bw ramp", "there is nothing to ramp", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if spec is not None and command is None:
        found += for_command_only(arguments, RampRequest, _OUTPUT)
    return found


def _request(arguments: argparse.Namespace) -> RampRequest:
    """Return what the user typed, with a seed drawn."""
    return request_from(RampRequest, arguments, drawn_seed=secrets.randbelow(2**32))
