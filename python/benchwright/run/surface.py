"""The outer loop of a surface, over the driver of searches: one search for each sample.

Which sample comes next is a pure function of the results so far (decide/surface). It is
recorded before its search starts, so that a resumed session continues with the same samples
even if a newer version would choose others. Keys: `surface/N/wanted`, and those of
`search/N`. The result of a failed search is not recorded: a resume tries that sample again.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from benchwright.study.keys import search_key, wanted_key


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
        spec = read_spec(source.text, source.path, {"surface": read_surface})
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
        return surface_of(self.plan.goal, recorded_results(self.plan, ledger))

    def verdict(self, result: SurfaceResult) -> SessionVerdict:
        """Return how a session with this surface ends."""
        return surface_verdict(result)


def run_surface(
    plan: SurfacePlan,
    workbench: Workbench,
    ledger: Ledger,
    listener: SurfaceListener,
    watcher: LoadWatcher | None = None,
) -> SurfaceResult:
    """Search sample after sample, from the start or after a resume, and return the surface.

    Raises Interrupted, and BenchError if the workbench cannot continue; the session can be
    resumed after both.
    """
    results: list[SampleResult] = []
    while (wanted := _next_wanted(plan, results, ledger)) is not None:
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
    return surface_of(plan.goal, results)


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
    if result.fit is None:
        return SessionVerdict(
            "undecided", f"no model: too few of {samples} have a peak", 3
        )
    return SessionVerdict("complete", f"{samples} searched", 0)


def _next_wanted(
    plan: SurfacePlan, results: Sequence[SampleResult], ledger: Ledger
) -> SampleRequest | None:
    """Return the next sample, from the journal if it was chosen before."""
    key = wanted_key(len(results) + 1)
    recorded = ledger.recorded(key, msgspec.Raw)
    if recorded is not None:
        return decode_stored(recorded, SampleRequest)
    wanted = next_sample(plan.goal, results)
    if wanted is not None:
        ledger.note(key, encode_stored(wanted))
    return wanted
