"""A ramp as a search (features/search/session.py) and as the experiment of `bw ramp`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from functools import partial

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.errors import InputError, argument_error
from benchwright.features.generators.command import CommandGenerator, command_generator
from benchwright.features.generators.output import parse_source
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.options import RampRequest
from benchwright.features.search.ramp.policy import next_ramp_step, why_unusable
from benchwright.features.search.ramp.spec import THROUGHPUT, read_ramp
from benchwright.features.search.ramp.types import RampResult, RampStatus
from benchwright.features.search.requests import (
    RampPlan,
    ramp_option_errors,
    ramp_plan,
    spec_of_sample,
)
from benchwright.features.search.session import (
    COMMAND_FILE,
    OneSearchExperiment,
    Search,
    stored_request,
    stored_spec,
)
from benchwright.features.search.spec import LoadPlan, Spec
from benchwright.features.search.spec_toml import ENGINE
from benchwright.features.search.target_spec import spec_of
from benchwright.inputs.mistakes import SourceFile
from benchwright.inputs.option_reader import OptionReader
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo


def ramp_search(plan: RampPlan) -> Search[RampResult]:
    """Return the search of a plan; no trial ends early, because each level is held."""
    return Search(
        kind=RampResult,
        step=partial(next_ramp_step, plan.goal),
        gives_up=_gives_up,
        unusable=lambda trial: bool(why_unusable(plan.goal, trial)),
        sample=plan.sample,
    )


def ramp_verdict(result: RampResult) -> SessionVerdict:
    """Return how a session with this result ends, with the ramp's own status."""
    return SessionVerdict(result.status.value, result.detail, _exit_status(result))


def _exit_status(result: RampResult) -> int:
    if result.status is RampStatus.BUDGET:
        return 3
    useless = result.status is RampStatus.ERRORS and len(result.points) == 1
    return 1 if useless or result.status is RampStatus.FAILED else 0


def _gives_up(result: RampResult) -> bool:
    return result.status is RampStatus.FAILED


class RampExperiment(OneSearchExperiment[RampResult]):
    """The experiment of a session of `bw ramp`."""

    def __init__(self, info: SessionInfo) -> None:
        """Read the request and the spec. Raises InputError with every mistake of both."""
        self.request = stored_request(info, RampRequest)
        spec, self.plan = ramp_meaning(self.request, stored_spec(info))
        super().__init__(
            info,
            spec,
            criteria=wanted_of(spec, self.plan.goal.criteria),
            seed=self.plan.goal.seed,
            plot=self.request.plot,
        )

    def planned(self, *, watched: bool) -> Search[RampResult]:
        """Return the ramp, which is the same watched or not."""
        del watched
        search = ramp_search(self.plan)
        if self.request.command is None:
            return search
        check = partial(_check_first_output, self.request)
        return msgspec.structs.replace(search, check_first=check)

    def verdict(self, result: RampResult) -> SessionVerdict:
        """Return how a session with this result ends."""
        return ramp_verdict(result)


def ramp_meaning(request: RampRequest, source: SourceFile | None) -> tuple[Spec, RampPlan]:
    """Return the spec and the plan that a request means. Raises InputError with every
    mistake."""
    try:
        if source is None:
            spec = command_spec(request)
        else:
            spec = spec_of_sample(request, spec_of(source, {"ramp": read_ramp}))
    except InputError as error:
        wrong = [*error.diagnostics, *ramp_option_errors(request)]
        raise InputError(wrong) from None
    return spec, ramp_plan(request, spec)


_RESPONSES = (
    Criterion("response_ms_mean", math.inf),
    Criterion("response_ms_p50", math.inf, statistic="percentile", share=0.5),
    Criterion("response_ms_p99", math.inf, statistic="percentile", share=0.99),
)
"""The responses that a ramp measures, without limits."""


def wanted_of(spec: Spec, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    """Return the values to measure in trials: those of the ramp's criteria, and those that the
    generator reports."""
    if spec.load.generator == ENGINE:
        # Limits determine which lateness matters and how long to wait for the end.
        known = {criterion.key for criterion in criteria}
        return (*criteria, *(response for response in _RESPONSES if response.key not in known))
    settings = spec.load.settings
    if isinstance(settings, CommandGenerator):
        reported = {key for key, _ in settings.values}
        throughput = Criterion(THROUGHPUT, 0.0, "1/s", "higher", "metric")
        every = (throughput, *criteria, *_RESPONSES)
        return _first_of_key(one for one in every if one.key in reported)
    free = (response for response in _RESPONSES if not settings.traits.refusal(response))
    return _first_of_key((*criteria, *free))


def _first_of_key(criteria: Iterable[Criterion]) -> tuple[Criterion, ...]:
    by_key: dict[str, Criterion] = {}
    for criterion in criteria:
        by_key.setdefault(criterion.key, criterion)
    return tuple(by_key.values())


# -- `bw ramp --command 'GEN {users} {duration}'` as a spec: a program offers the load ---

VALUES = (
    ("throughput", THROUGHPUT),
    ("response", "response_ms_mean"),
    ("p99", "response_ms_p99"),
    ("errors", "error_ratio"),
)
"""Options that give the place of a value in the output, and the value's key."""
_BARE = "GEN {users} {duration}"
_ANY = "/value"


def command_spec(request: RampRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command = request.command
    assert command is not None
    reader = OptionReader(request)
    reader.parsed("--command", command, lambda text: command_generator(text, _ANY))
    sources = {
        key: reader.parsed(f"--{name}", getattr(request, name), parse_source)
        for name, key in VALUES
    }
    with_series = partial(command_generator, _BARE, _ANY)
    made = reader.parsed("--series", request.series, with_series)
    if reader.found:
        raise InputError(reader.found)
    settings = CommandGenerator(
        command=command,
        values=tuple((key, source) for key, source in sources.items() if source is not None),
        series=None if made is None else made.series,
        open_loop="{rate}" in command,
    )
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=COMMAND_FILE, directory=os.getcwd(), load=load)


_HINT = "GEN prints JSON, in which this pointer leads to a number"


def _check_first_output(request: RampRequest, trial: LoadTrial) -> None:
    """Raise InputError if a generator's first output has no value at a pointer."""
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
