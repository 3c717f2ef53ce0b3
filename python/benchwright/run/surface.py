"""The outer loop of a surface, over the driver of searches: one search for each sample.

Which sample comes next is a pure function of the results so far (decide/surface). It is
recorded before its search starts, so that a resumed session continues with the same samples
even if a newer version would choose others. Keys: `surface/N/wanted`, and those of
`search/N`. The result of a failed search is not recorded: a resume tries that sample again.
With a deadline, the budget of a search depends on a clock; it is recorded with the sample. The
deadline that ends a mapping is recorded (`surface/N/deadline`), and a resume begins another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from benchwright.core.search import (
    PeakAnswer,
    PeakStatus,
    decode_stored,
    encode_stored,
)
from benchwright.core.surface import SampleRequest, SampleResult, SurfaceResult
from benchwright.core.text import plural
from benchwright.decide.surface.deadline import TimeLeft
from benchwright.decide.surface.design import next_sample
from benchwright.decide.surface.result import surface_of
from benchwright.load.search_options import SurfaceRequest
from benchwright.load.spec import samples_to_check
from benchwright.load.spec_toml import read_spec
from benchwright.load.surface_spec import read_surface
from benchwright.load.workbench import Workbench
from benchwright.run.ledger import Ledger
from benchwright.run.observers import LoadWatcher
from benchwright.run.peak import peak_search
from benchwright.run.search import (
    SearchExperiment,
    SearchListener,
    recorded_result,
    recorded_trials,
    run_search,
    stored_request,
    stored_spec,
)
from benchwright.run.search_requests import SurfacePlan, surface_plan
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo
from benchwright.study.keys import deadline_key, search_key, wanted_key


class SurfaceListener(SearchListener, Protocol):
    """Shows a running surface: its samples, and the search at each."""

    def sample_begins(self, number: int, wanted: SampleRequest) -> None:
        """A sample's search starts, or is read from the journal."""

    def sample_ended(self, number: int, result: SampleResult) -> None:
        """A sample's search ended."""


class SurfaceExperiment(SearchExperiment[SurfaceResult, SurfaceListener]):
    """The experiment of a session of `bw surface`."""

    def __init__(self, info: SessionInfo) -> None:
        """Read the request and the spec. Raises InputError with every mistake of both."""
        source = stored_spec(info)
        assert source is not None, "a surface has a spec"
        spec = read_spec(
            source.text, source.path, {"surface": read_surface}, source.beside
        )
        self.request = stored_request(info, SurfaceRequest)
        self.plan = surface_plan(self.request, spec)
        super().__init__(
            info,
            spec,
            criteria=self.plan.goal.peak.criteria,
            seed=self.plan.goal.peak.seed,
            plot=self.request.plot,
        )
        self.samples = tuple(samples_to_check(spec.factors))

    def search(
        self,
        workbench: Workbench,
        ledger: Ledger,
        listener: SurfaceListener,
        watcher: LoadWatcher | None = None,
    ) -> SurfaceResult:
        """Search sample after sample. Raises Interrupted, BenchError."""
        listener.search_begins()
        return run_surface(self.plan, workbench, ledger, listener, watcher)

    def recorded(self, ledger: Ledger) -> SurfaceResult:
        """Return the surface of the recorded samples."""
        return recorded_surface(self.plan, ledger)

    def verdict(self, result: SurfaceResult) -> SessionVerdict:
        """Return how a session with this surface ends."""
        return surface_verdict(result)


def run_surface(
    plan: SurfacePlan,
    workbench: Workbench,
    ledger: Ledger,
    listener: SurfaceListener,
    watcher: LoadWatcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SurfaceResult:
    """Search sample after sample, from the start or after a resume, and return the surface.

    `clock`: seconds, for a deadline. Raises Interrupted, and BenchError if the workbench cannot
    continue; the session can be resumed after both.
    """
    results: list[SampleResult] = []
    begun_s = clock() - _spent_before_s(plan, ledger)
    while True:
        spent_s = clock() - begun_s
        wanted = _next_wanted(plan, results, ledger, spent_s)
        if wanted is None:
            break
        number = len(results) + 1
        listener.sample_begins(number, wanted)
        search = peak_search(
            plan.inner(wanted.goal, wanted.sample),
            watched=workbench.watched,
            key=search_key(number),
        )
        answer = run_search(search, workbench, ledger, listener, watcher).result
        result = SampleResult(wanted.sample, answer.deciding, wanted.seeded_from)
        listener.sample_ended(number, result)
        results.append(result)
    at_deadline = len(results) < plan.goal.samples
    return surface_of(plan.goal, results, at_deadline=at_deadline)


def recorded_surface(plan: SurfacePlan, ledger: Ledger) -> SurfaceResult:
    """Return the surface of the recorded samples."""
    results = recorded_results(plan, ledger)
    place = len(results) + 1
    ended = ledger.recorded(deadline_key(place), float) is not None
    begun = ledger.recorded(wanted_key(place), msgspec.Raw) is not None
    return surface_of(plan.goal, results, at_deadline=ended and not begun)


def recorded_results(plan: SurfacePlan, ledger: Ledger) -> tuple[SampleResult, ...]:
    """Return the samples whose searches ended, including failed ones."""
    found = []
    for number in range(1, plan.goal.samples + 1):
        text = ledger.recorded(wanted_key(number), msgspec.Raw)
        if text is None:
            break
        wanted = decode_stored(text, SampleRequest)
        answer = _recorded_answer(plan, number, wanted, ledger)
        if answer is not None:
            found.append(
                SampleResult(wanted.sample, answer.deciding, wanted.seeded_from)
            )
    return tuple(found)


def _recorded_answer(
    plan: SurfacePlan, number: int, sample_request: SampleRequest, ledger: Ledger
) -> PeakAnswer | None:
    """Return the answer of a recorded search; None if it is unfinished."""
    answer = recorded_result(ledger, PeakAnswer, search_key(number))
    if answer is not None:
        return answer
    search = peak_search(
        plan.inner(sample_request.goal, sample_request.sample), watched=False
    )
    trials, _ = recorded_trials(search_key(number), ledger)
    last = search.step([trial.trial for trial in trials]) if trials else None
    failed = isinstance(last, PeakAnswer) and search.gives_up(last)
    return last if isinstance(last, PeakAnswer) and failed else None


def surface_verdict(result: SurfaceResult) -> SessionVerdict:
    """Return how a session with this surface ends."""
    samples = plural(len(result.results), "sample")
    failed = sum(one.found.status is PeakStatus.FAILED for one in result.results)
    if failed:
        again = "it" if failed == 1 else "them"
        detail = f"{failed} of {samples} failed; `bw resume` tries {again} again"
        return SessionVerdict("failed", detail, 1)
    if result.left_out:
        detail = (
            f"{samples} searched until the deadline; `bw resume` searches "
            f"{plural(result.left_out, 'more sample')} for as long again"
        )
        return SessionVerdict("deadline", detail, 3 if result.fit is None else 0)
    if result.fit is None:
        return SessionVerdict(
            "undecided", f"no model: too few of {samples} have a peak", 3
        )
    return SessionVerdict("complete", f"{samples} searched", 0)


def _next_wanted(
    plan: SurfacePlan, results: Sequence[SampleResult], ledger: Ledger, spent_s: float
) -> SampleRequest | None:
    """Return the next sample, from the journal if it was chosen before; None at the end, or after
    the deadline has come, which is recorded."""
    place = len(results) + 1
    recorded = ledger.recorded(wanted_key(place), msgspec.Raw)
    if recorded is not None:
        return decode_stored(recorded, SampleRequest)
    goal = plan.goal
    if goal.deadline_s is None:
        wanted = next_sample(goal, results)
    else:
        # In a simulation time passes in trials only.
        spent_s = max(spent_s, math.fsum(one.found.cost_s for one in results))
        came = _deadlines(plan, ledger)
        begins_s = came.get(place, max(came.values(), default=0.0))
        left_s = begins_s + goal.deadline_s - spent_s
        time_left = TimeLeft(spent_s, left_s, begins=place in came or not results)
        wanted = next_sample(goal, results, time_left)
        if wanted is None and len(results) < goal.samples:
            ledger.note(deadline_key(place), spent_s)
    if wanted is not None:
        ledger.note(wanted_key(place), encode_stored(wanted))
    return wanted


def _deadlines(plan: SurfacePlan, ledger: Ledger) -> dict[int, float]:
    """Return when each deadline came [s], by the place of the sample that was not searched."""
    places = range(1, plan.goal.samples + 1)
    recorded = {place: ledger.recorded(deadline_key(place), float) for place in places}
    return {place: at_s for place, at_s in recorded.items() if at_s is not None}


def _spent_before_s(plan: SurfacePlan, ledger: Ledger) -> float:
    """Return the time that earlier runs of the session spent, as far as it is recorded [s]: until
    the last sample was chosen, and in the trials of its search."""
    spent_s = max(_deadlines(plan, ledger).values(), default=0.0)
    for place in range(plan.goal.samples, 0, -1):
        text = ledger.recorded(wanted_key(place), msgspec.Raw)
        if text is not None:
            trials, _ = recorded_trials(search_key(place), ledger)
            chosen_s = decode_stored(text, SampleRequest).spent_s
            trials_s = math.fsum(trial.trial.cost_s for trial in trials)
            return max(spent_s, chosen_s + trials_s)
    return spent_s
