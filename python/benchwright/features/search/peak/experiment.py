"""A peak search as the driver runs it: one policy, one or several claims.

Several claims are searched one after the other over the same trials: the first claim that is
not yet answered chooses the next probe. Nothing is measured twice, and the answer contains all
claims. A running probe ends early only when it has shown enough for every claim.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.features.generators.command import MEAN, command_generator
from benchwright.features.generators.output import parse_source
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.keys import search_key
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.peak.policies.policy import Policy
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.peak.policies.search import may_leave, next_peak_step
from benchwright.features.search.peak.policies.trials import why_unusable
from benchwright.features.search.requests import PeakPlan, peak_plan, spec_of_sample
from benchwright.features.search.session import (
    COMMAND_FILE,
    OneSearchExperiment,
    Search,
    stored_request,
    stored_spec,
)
from benchwright.features.search.spec import LoadPlan, Spec
from benchwright.features.search.target_spec import spec_of
from benchwright.features.search.types import (
    ClaimResult,
    PeakAnswer,
    PeakGoal,
    PeakStatus,
    SearchTrial,
)
from benchwright.inputs.mistakes import SourceFile
from benchwright.inputs.option_reader import OptionReader
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo

Made = TypeVar("Made")

_EXIT_STATUS = {
    PeakStatus.FOUND: 0,
    PeakStatus.BUDGET: 3,
    PeakStatus.UNDECIDED: 3,
    PeakStatus.NEVER_FAILS: 3,
    PeakStatus.FAILS_AT_LOWEST: 1,
    PeakStatus.FAILED: 1,
}
"""Exit status by how the search ended: 3 without an answer, 1 if the server cannot meet the
criteria."""


def peak_search(plan: PeakPlan, *, watched: bool, key: str = search_key()) -> Search[PeakAnswer]:
    """Return the search of a plan; `watched`: the workbench shows the trials while they run."""
    policy, goals = policy_named(plan.policy), _goals(plan, watched=watched)
    return Search(
        kind=PeakAnswer,
        step=partial(_step, policy, goals),
        leaves=partial(_leaves, policy, goals),
        gives_up=_gives_up,
        unusable=lambda trial: bool(why_unusable(plan.goal, trial)),
        key=key,
        sample=plan.sample,
    )


def best_so_far(plan: PeakPlan, history: Sequence[LoadTrial]) -> ClaimResult | None:
    """Return the result for the first claim after these trials; None without trials."""
    if not history:
        return None
    goal = msgspec.structs.replace(_goals(plan, watched=False)[0], max_trials=len(history))
    peak_step = next_peak_step(policy_named(plan.policy), goal, history)
    assert isinstance(peak_step, ClaimResult), "there is no trial left to ask for"
    return peak_step


def peak_verdict(answer: PeakAnswer) -> SessionVerdict:
    """Return how a session with this answer ends, with the search's own status, which the
    report, the journal, the export and `bw resume` share."""
    claim_result = answer.deciding
    return SessionVerdict(
        claim_result.status.value, claim_result.detail, _EXIT_STATUS[claim_result.status]
    )


class PeakExperiment(OneSearchExperiment[PeakAnswer]):
    """The experiment of a session of `bw peak`."""

    def __init__(self, info: SessionInfo) -> None:
        """Read the request and the spec. Raises InputError with every mistake of both."""
        self.request = stored_request(info, PeakRequest)
        spec, self.plan = peak_meaning(self.request, stored_spec(info))
        super().__init__(
            info,
            spec,
            criteria=self.plan.goal.criteria,
            seed=self.plan.goal.seed,
            plot=self.request.plot,
        )

    def planned(self, *, watched: bool) -> Search[PeakAnswer]:
        """Return the search for the peak rate."""
        search = peak_search(self.plan, watched=watched)
        if self.request.command is None:
            return search
        check = partial(_check_first_output, self.request)
        return msgspec.structs.replace(search, check_first=check)

    def verdict(self, result: PeakAnswer) -> SessionVerdict:
        """Return how a session with this answer ends."""
        return peak_verdict(result)

    def best_so_far(self, trials: Sequence[SearchTrial]) -> ClaimResult | None:
        """Return the result for the first claim after these trials; None without trials."""
        return best_so_far(self.plan, [trial.trial for trial in trials])


def peak_meaning(request: PeakRequest, source: SourceFile | None) -> tuple[Spec, PeakPlan]:
    """Return the spec and the plan that a request means. Raises InputError with every
    mistake."""
    if source is not None:
        spec = spec_of_sample(request, spec_of(source))
        return spec, peak_plan(request, spec)
    wrong: list[Diagnostic] = []
    made = _collected(lambda: command_spec(request), wrong)
    plan = _collected(lambda: peak_plan(request, None), wrong)
    if made is None or plan is None:
        raise InputError(wrong)
    return made, plan


def _collected(make: Callable[[], Made], wrong: list[Diagnostic]) -> Made | None:
    """Return the result of `make`; None if it fails, with its mistakes appended to `wrong`."""
    try:
        return make()
    except InputError as error:
        wrong.extend(error.diagnostics)
        return None


def _goals(plan: PeakPlan, *, watched: bool) -> tuple[PeakGoal, ...]:
    return tuple(
        msgspec.structs.replace(plan.goal, claim=claim, watched=watched) for claim in plan.claims
    )


def _step(
    policy: Policy, goals: Sequence[PeakGoal], history: Sequence[LoadTrial]
) -> Probe | PeakAnswer:
    results: list[ClaimResult] = []
    for goal in goals:
        answer = next_peak_step(policy, goal, history)
        if isinstance(answer, Probe):
            return answer
        results.append(answer)
    return PeakAnswer(tuple(results))


def _leaves(
    policy: Policy,
    goals: Sequence[PeakGoal],
    history: Sequence[LoadTrial],
    probe: Probe,
    so_far: LoadTrial,
) -> bool:
    return all(may_leave(policy, goal, history, probe, so_far) for goal in goals)


def _gives_up(answer: PeakAnswer) -> bool:
    return answer.deciding.status is PeakStatus.FAILED


# -- `--command 'GEN {rate} {duration}'` as a spec: a program offers the load ------------

UNREADABLE = "command: no "
"""Prefix of the failure of a trial whose output has no value (features/generators)."""
_FIGURES = {
    "errors": ("error_ratio", "the share of operations that failed, from 0 to 1"),
    "offered": ("offered", "the number of operations that were started"),
    "late": ("late", "the 99th percentile of the lateness in ms"),
    "target_response": (f"target_values.{MEAN}", "the mean response in ms from the actual start"),
}
"""Further pointers: the option, the name of its figure in a failure, and what it leads to."""
_ANY = "/value"
_FULL = "GEN {rate} {duration}"


def command_spec(request: PeakRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command, response, series = request.command, request.response, request.series
    assert command is not None
    assert response is not None
    reader = OptionReader(request)
    reader.parsed("--command", command, _check_rate)
    reader.parsed("--response", response, partial(command_generator, _FULL))
    reader.parsed("--series", series, partial(command_generator, _FULL, _ANY))
    figures = {name: getattr(request, name) for name in _FIGURES}
    for name, text in figures.items():
        reader.parsed(_option(name), text, parse_source)
    if reader.found:
        raise InputError(reader.found)
    settings = command_generator(command, response, series, **figures)
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=COMMAND_FILE, directory=os.getcwd(), load=load)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _check_rate(command: str) -> None:
    """Raise ValueError for a command that takes no rate."""
    if "rate" not in command_generator(command, _ANY).traits.axes:
        raise ValueError(f"`{command}` has no {{rate}}, which a search for a peak rate needs")


def _check_first_output(request: PeakRequest, trial: LoadTrial) -> None:
    """Raise InputError if a generator's first output has no value at a pointer."""
    if not trial.failure.startswith(UNREADABLE):
        return
    message, series = trial.failure.removeprefix("command: "), request.series
    if series is not None and message.startswith("no series"):
        raise argument_error("--series", series, message)
    for name, (key, what) in _FIGURES.items():
        if message.startswith(f"no {key} "):
            hint = f"GEN prints JSON, in which this pointer leads to {what}"
            raise argument_error(_option(name), getattr(request, name), message, hint)
    text = request.response or ""
    hint = "GEN prints JSON, in which this pointer leads to the mean response in ms"
    raise argument_error("--response", text, message, hint)
