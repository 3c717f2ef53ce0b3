"""`bw peak`: the highest rate that a server sustains under its criteria."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.plot_file import write_plot
from benchwright.cli.search_errand import (
    UNREADABLE,
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
from benchwright.core.extras import require
from benchwright.core.search import LoadTrial, PeakAnswer, PeakResult, SearchTrial
from benchwright.core.search_text import binding_criterion, criterion_text
from benchwright.load.generators.command import CommandGenerator, command_generator
from benchwright.load.search_options import PeakRequest
from benchwright.load.spec import LoadPlan, Spec
from benchwright.load.spec_toml import read_spec
from benchwright.load.workbench import Workbench
from benchwright.report.charts.sheet import Sheet
from benchwright.report.peak import (
    PeakReport,
    peak_document,
    peak_ending_text,
    peak_text,
)
from benchwright.report.search_progress import (
    peak_opening_text,
    peak_probe_text,
    peak_running_text,
    peak_trial_text,
)
from benchwright.run.ledger import Ledger
from benchwright.run.peak import best_so_far, peak_search, peak_verdict
from benchwright.run.search import (
    Search,
    recorded_trials,
    run_search,
    search_info,
    stored_request,
    stored_spec,
)
from benchwright.run.search_requests import PeakPlan, peak_plan
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import StoredSession, Study
from benchwright.study.keys import search_key
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options, request_from
from benchwright.suite.program import SourceFile
from benchwright.trial.programs import program_problem

# --------------------------------------------------------------------------------------
# `--command 'GEN {rate} {duration}'` as a spec: the user's own server, a program as
# load.

FILE = "--command"
"""What stands for a spec's file."""
_ANY = "/value"
_FULL = "GEN {rate} {duration}"


def command_spec(request: PeakRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command, response, series = request.command, request.response, request.series
    assert command is not None
    assert response is not None
    wrong: list[Diagnostic] = []
    _try("--command", command, lambda: _loaded(command), wrong)
    _try("--response", response, lambda: command_generator(_FULL, response), wrong)
    if series is not None:
        _try("--series", series, lambda: command_generator(_FULL, _ANY, series), wrong)
    if wrong:
        raise InputError(wrong)
    settings = command_generator(command, response, series)
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=FILE, directory=os.getcwd(), load=load)


def _loaded(command: str) -> None:
    """Raise ValueError for a command that cannot be asked for a rate."""
    if "rate" not in command_generator(command, _ANY).traits.axes:
        raise ValueError(
            f"`{command}` has no {{rate}}, which a search for a peak rate needs"
        )


def _try(
    option: str, text: str, make: Callable[[], object], wrong: list[Diagnostic]
) -> None:
    try:
        make()
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))


def first_output(workbench: Workbench, request: PeakRequest) -> FirstOutput:
    """Return a workbench whose first output must be readable."""

    def judge(trial: LoadTrial) -> None:
        if trial.failure.startswith(UNREADABLE):
            raise _mistake(request, trial.failure.removeprefix("command: "))

    return FirstOutput(workbench, judge)


def _mistake(request: PeakRequest, message: str) -> InputError:
    series = request.series
    if series is not None and message.startswith("no series"):
        return argument_error("--series", series, message)
    text = request.response or ""
    hint = "GEN prints JSON, in which this pointer leads to the mean response in ms"
    return argument_error("--response", text, message, hint)


def check_program(spec: Spec) -> None:
    """Raise InputError for a command's program that is not there, before there is a study."""
    settings = spec.load.settings
    assert isinstance(settings, CommandGenerator)
    for name in settings.programs:
        why = program_problem(name, os.environ.get("PATH"), os.getcwd())
        if why:
            hint = "give its path, or check PATH"
            raise argument_error("--command", settings.command, why, hint)


# -- A peak search carried out: workbench, policy, progress, report --------------------

Made = TypeVar("Made")

_KEY = search_key()


def begin(
    request: PeakRequest,
    source: SourceFile | None,
    arguments: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Search as a new session of a study; return the exit code. Raises InputError."""
    require("scipy", "bw peak", "a search")
    errand = PeakExperiment(request, source, arguments)
    if source is None:
        check_program(errand.spec)
    info = search_info("peak", request, source, words)
    return run_search_session(info, errand, arguments)


def go_on(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored search; return the exit code."""
    require("scipy", "bw peak", "a search")
    request = stored_request(stored.info, PeakRequest)
    errand = PeakExperiment(request, stored_spec(stored.info), arguments)
    return resume_search_session(study, stored, errand)


def tell_stored(
    study: Study,
    stored: StoredSession,
    arguments: argparse.Namespace,
    plot: str | None = None,
) -> None:
    """Print what a stored search came to, or what is known of one that is unfinished;
    draw it to `plot`."""
    request = msgspec.structs.replace(
        stored_request(stored.info, PeakRequest), plot=plot
    )
    errand = PeakExperiment(request, stored_spec(stored.info), arguments)
    print_recorded(study, stored, errand, PeakAnswer)


class PeakExperiment(SpecExperiment):
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

    def workbench(self, site: WorkbenchSetting) -> Workbench:
        """Return the workbench of the spec's server and generator."""
        goal = self._plan.goal
        return self._built(site, goal.criteria, goal.seed)

    def run(self, workbench: Workbench, ledger: Ledger) -> PeakAnswer:
        """Search, telling each trial."""
        plan = self._plan
        self.note(
            peak_opening_text(
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

    def verdict(self, result: PeakAnswer) -> SessionVerdict:
        """Return how the session ends."""
        return peak_verdict(result)

    def tell(
        self, result: PeakAnswer | None, verdict: SessionVerdict, kept: StoredSearch
    ) -> PrintedOutcome:
        """Print the outcome, and draw it where that was asked for; return what was told."""
        trials, _ = recorded_trials(_KEY, kept.ledger)
        report = self._report(result, verdict, trials)
        known = report.result
        answers = {self._plan.sample: None if known is None else known.peak_rate}
        plots = write_plot(self._request.plot, lambda: _sheet(report))
        return self._print(
            SearchOutcome(
                status=report.status,
                findings=report.findings,
                text=peak_text(report),
                document=partial(peak_document, report, plots),
                trials=trials,
                answers=answers,
                ending=peak_ending_text(report),
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
            peak_probe_text,
            lambda number, probe, so_far: peak_running_text(
                number, probe, so_far, first
            ),
        )

    def _tell_trial(self, trials: Sequence[SearchTrial]) -> None:
        best = self._best(trials)
        criteria = self._plan.goal.criteria
        binding = None if best is None else binding_criterion(best, criteria)
        spent_s = sum(one.trial.cost_s for one in trials)
        text = peak_trial_text(trials[-1], binding or criteria[0], best, spent_s)
        self._progress.line(text)

    def _best(self, trials: Sequence[SearchTrial]) -> PeakResult | None:
        return best_so_far(self._plan, [one.trial for one in trials])

    # -- outcome ---------------------------------------------------------------------

    def _report(
        self,
        answer: PeakAnswer | None,
        verdict: SessionVerdict,
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
    from benchwright.report.charts.peak import peak_sheet

    return peak_sheet(report)


# -- `bw peak`: the highest rate that a server sustains under its criteria -------------
#
# Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
# `peak_run.py` searches and tells. Heavy imports are inside the functions.

_EXAMPLES = """\
examples:
  bw peak examples/peak-nginx.toml                    docs/workbench.md
  bw peak server.toml -P workers=2 --claim rate:5% --plot peak.png
  bw peak --command 'GEN {rate} {duration}' --response /mean_ms --series /series \\
      --limit 40ms --claim region:10%,rate:5%         GEN prints JSON
  bw peak --study DIR --plot peak.png                 draw the search stored in DIR

claims (with several, all are reached):
  region:10%   the true response at the answer is within 10 % of the limit
  rate:5%      the answer is within 5 % of the true peak rate
  slo:95%      the limit holds at the answer with a probability of 95 %

exit status: 0 found; 1 the server or the generator failed, or a criterion fails at the
lowest rate; 2 bad input; 3 undecided, budget spent, or no criterion ever fails;
130 interrupted (continue with `bw resume`)
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw peak`."""
    parser = add_command(
        commands,
        "peak",
        epilog=_EXAMPLES,
        usage="bw peak [options] SPEC.toml | bw peak [options] --command 'GEN {rate} "
        "{duration}' --response /POINTER --limit 40ms",
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server, load and criteria; without one, and without --command, print the "
        "study's last search again",
    )
    add_options(parser, PeakRequest)
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw peak` was asked; return the exit code."""
    wrong = _mistakes(arguments)
    if wrong:
        raise InputError(wrong)
    return search_or_print(
        "peak",
        arguments,
        lambda spec: begin(_request(arguments), spec, arguments, sys.argv[1:]),
    )


def resume(study: Study, stored: StoredSession, arguments: argparse.Namespace) -> int:
    """Go on with a stored search; return the exit code."""

    return go_on(study, stored, arguments)


def _mistakes(arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return what does not go together, or is missing."""
    from benchwright.cli.stored_search import is_stored_search

    found: list[Diagnostic] = []
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {rate} {duration}'"
        found.append(
            option_mistake("--", "a command after -- cannot take a rate", hint)
        )
    elif (
        spec is None
        and command is None
        and not is_stored_search(arguments, (PeakRequest, *NEW_SESSION))
    ):
        hint = (
            "bw peak SPEC.toml, or --command 'GEN {rate} {duration}'; or for a "
            "stored search bw peak --study DIR --plot FILE, without options of a new one"
        )
        found.append(option_mistake("bw peak", "there is nothing to search", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if command is not None and arguments.response is None:
        hint = "such as --response /mean_ms, a JSON pointer into GEN's output"
        message = "the pointer to the mean response time is missing"
        found.append(option_mistake("--response", message, hint))
    if spec is not None and command is None:
        found += for_command_only(arguments, PeakRequest, ("response", "series"))
    return found


def _request(arguments: argparse.Namespace) -> PeakRequest:
    """Return what the user typed, with a seed drawn."""
    return request_from(PeakRequest, arguments, drawn_seed=secrets.randbelow(2**32))
