"""The outer loop of a surface, over the driver of searches: one search for each sample.

Which sample comes next is a pure function of the results so far (decide/surface). It is
recorded before its search starts, so that a resumed session continues with the same samples
even if a newer version would choose others. Keys: `surface/N/wanted`, and those of
`search/N`. The result of a failed search is not recorded: a resume tries that sample again.
With a deadline, the budget of a search depends on a clock; it is recorded with the sample. The
deadline that ends a mapping is recorded (`surface/N/deadline`), and a resume begins another one.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.hosts import GangClients
from benchwright.core.text import plural
from benchwright.features.search.keys import deadline_key, search_key, wanted_key
from benchwright.features.search.load_watcher import LoadWatcher
from benchwright.features.search.options import SurfaceRequest
from benchwright.features.search.peak.experiment import peak_search, peak_verdict
from benchwright.features.search.requests import SurfacePlan, surface_plan
from benchwright.features.search.server.workbench import Workbench
from benchwright.features.search.session import (
    OneSearchExperiment,
    Search,
    SearchExperiment,
    SearchListener,
    SilentSearch,
    record_searches,
    recorded_result,
    recorded_trials,
    run_search,
    stored_request,
    stored_spec,
)
from benchwright.features.search.spec import samples_to_check
from benchwright.features.search.spec_toml import client_mistakes, read_spec
from benchwright.features.search.surface.design import next_search, results_needed, searches_of
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.spec import TimeLeft, budget_within_s, read_surface
from benchwright.features.search.surface.types import (
    GangNames,
    SampleRequest,
    SampleResult,
    SurfaceResult,
)
from benchwright.features.search.types import PeakAnswer, PeakStatus, decode_stored, encode_stored
from benchwright.run.gangs import DeadlineReached, Task, TaskEnd, TaskRunner, gangs_of
from benchwright.run.ledger import Ledger
from benchwright.run.session import SessionVerdict
from benchwright.study.catalogue import MeasuredPart, measured_parts
from benchwright.study.contents import recorded_findings
from benchwright.study.journal import SessionInfo, Study

if TYPE_CHECKING:
    from benchwright.run.runner import SessionSite


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
        if source is None:
            message = "the session is that of a surface, and its spec is not stored"
            raise InputError([Diagnostic("damaged-content", message, "leave this study out")])
        spec = read_spec(source.text, source.path, {"surface": read_surface}, source.beside)
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

    def check(self) -> None:
        """Raise InputError as other searches, and for a load that the clients of the pool cannot
        issue."""
        gangs = gangs_of(self.info)
        if gangs is not None and gangs.has_clients:
            specs = (self.spec, *map(self.spec.at, self.samples))
            wrong = dict.fromkeys(mistake for spec in specs for mistake in client_mistakes(spec))
            if wrong:
                raise InputError([*wrong])
        super().check()

    @property
    def searches(self) -> int:
        """The number of searches: with a pool, each gang searches the anchor too."""
        gangs = gangs_of(self.info)
        names = ThisMachine.names if gangs is None else gangs.names
        return searches_of(self.plan.goal, GangNames(names))

    def run(self, site: SessionSite, listener: SurfaceListener) -> SessionVerdict:
        """Search the samples here, or on the gangs of a pool."""
        gangs = site.gangs
        if gangs is None:
            return super().run(site, listener)

        def search() -> SessionVerdict:
            site.stop.pass_to(gangs.interrupt)
            site.stop.check()
            listener.search_begins()
            self.result = run_surface(self.plan, gangs, site.ledger, listener)
            self.bench_findings = recorded_findings(site.ledger.study, site.ledger.session)
            return self.verdict(self.result)

        return record_searches(site.ledger, search)

    def search(
        self,
        workbench: Workbench,
        ledger: Ledger,
        listener: SurfaceListener,
        watcher: LoadWatcher | None = None,
    ) -> SurfaceResult:
        """Search sample after sample. Raises Interrupted, BenchError."""
        listener.search_begins()
        here = ThisMachine(self.plan, workbench, ledger, listener, watcher)
        return run_surface(self.plan, here, ledger, listener)

    def recorded(self, ledger: Ledger) -> SurfaceResult:
        """Return the surface of the recorded samples."""
        return recorded_surface(self.plan, ledger)

    def verdict(self, result: SurfaceResult) -> SessionVerdict:
        """Return how a session with this surface ends."""
        deadline_s = self.plan.goal.deadline_s
        return surface_verdict(result, with_deadline=deadline_s is not None)


class SampleExperiment(OneSearchExperiment[PeakAnswer]):
    """The experiment of one search of a surface, as a gang of a pool runs it."""

    notify = None

    def __init__(
        self,
        info: SessionInfo,
        number: int,
        wanted: SampleRequest,
        left_s: float | None = None,
        clients: GangClients | None = None,
    ) -> None:
        """`number`: of the search; `left_s`: time until the deadline [s]; `clients`: the hosts of
        the gang that issue the load. Raises InputError as `SurfaceExperiment`."""
        surface = SurfaceExperiment(info)
        goal = wanted.goal
        if left_s is not None:
            budget_s = budget_within_s(surface.plan.goal, goal.budget_s, left_s)
            goal = msgspec.structs.replace(goal, budget_s=budget_s)
        super().__init__(
            info,
            surface.spec,
            criteria=surface.criteria,
            # Each search has loads of its own, as in a session that runs one after the other.
            seed=surface.seed + _SEEDS_APART * number,
            plot=None,
        )
        self.samples = (wanted.sample,)
        self.clients = clients
        self._plan = surface.plan.inner(goal, wanted.sample)
        self._key = search_key(number)

    def run(self, site: SessionSite, listener: object) -> SessionVerdict:  # noqa: ARG002
        """Search as a session does, and show nothing: the controller of the pool does."""
        return super().run(site, SilentSearch())

    def planned(self, *, watched: bool) -> Search[PeakAnswer]:
        """Return the search."""
        return peak_search(self._plan, watched=watched, key=self._key)

    def verdict(self, result: PeakAnswer) -> SessionVerdict:
        """Return how the gang's session ends: `failed` if the server or the generator failed."""
        return peak_verdict(result)


_SEEDS_APART = 100_003


class ThisMachine:
    """The gang of a session without a pool: searches one sample after another on its workbench."""

    names: tuple[str, ...] = ("",)

    def __init__(
        self,
        plan: SurfacePlan,
        workbench: Workbench,
        ledger: Ledger,
        listener: SearchListener,
        watcher: LoadWatcher | None = None,
    ) -> None:
        self._plan = plan
        self._workbench = workbench
        self._ledger = ledger
        self._listener = listener
        self._watcher = watcher
        self._submitted: deque[tuple[Task, str]] = deque()

    def expect(self, tasks: int, limit_s: float | None = None) -> None:
        """Do nothing: each search has a budget within the deadline."""

    def submit(self, task: Task, wanted: str = "") -> None:
        """Have a sample searched by the next `next_end`."""
        self._submitted.append((task, wanted))

    def next_end(self) -> TaskEnd:
        """Search the next sample. Raises Interrupted, and BenchError if the workbench cannot
        continue."""
        task, text = self._submitted.popleft()
        wanted = decode_stored(msgspec.Raw(text.encode()), SampleRequest)
        search = peak_search(
            self._plan.inner(wanted.goal, wanted.sample),
            watched=self._workbench.watched,
            key=search_key(int(task.place)),
        )
        run_search(search, self._workbench, self._ledger, self._listener, self._watcher)
        return TaskEnd(task, "", self._ledger.study.path)


def run_surface(
    plan: SurfacePlan,
    gangs: TaskRunner,
    ledger: Ledger,
    listener: SurfaceListener,
    clock: Callable[[], float] = time.monotonic,
) -> SurfaceResult:
    """Have gangs search the samples, from the start or after a resume, and return the surface.

    `clock`: seconds, for a deadline. Raises Interrupted, and BenchError if the gangs cannot
    continue; the session can be resumed after both.
    """
    names = GangNames(gangs.names)
    wanted: list[SampleRequest] = []
    ended: dict[int, SampleResult] = {}
    running = 0
    begun_s = clock() - _spent_before_s(ledger)
    gangs.expect(searches_of(plan.goal, names), _limit_s(plan, ledger))

    def choose(time_left: TimeLeft | None) -> SampleRequest | None:
        if time_left is not None:
            held_s = _held_s(ledger, results_needed(len(wanted) + 1, names))
            time_left = msgspec.structs.replace(time_left, held_s=held_s)
        return next_search(plan.goal, names, wanted, ended, time_left)

    while True:
        number = len(wanted) + 1
        request = None
        if all(one in ended for one in range(1, results_needed(number, names) + 1)):
            # A simulated load takes no time by the clock.
            spent_s = max(clock() - begun_s, _busy_s(ended.values()))
            request = _next_wanted(plan, number, choose, ledger, spent_s, last=not running)
        if request is not None:
            listener.sample_begins(number, request)
            answer = recorded_result(ledger, PeakAnswer, search_key(number))
            if answer is None:
                if plan.goal.deadline_s is not None:
                    # One that was chosen before a resume begins now.
                    now_s = max(request.spent_s, clock() - begun_s)
                    request = msgspec.structs.replace(request, spent_s=now_s)
                gangs.submit(_task(number, request), bytes(encode_stored(request)).decode())
                running += 1
            wanted.append(request)
            if answer is None:
                continue
            gang = _gangs_of_searches(ledger).get(number, "")
        elif running:
            try:
                end = gangs.next_end()
            except DeadlineReached:
                if (
                    len({sample_result.sample for sample_result in ended.values()})
                    < plan.goal.samples
                ):
                    place = len(_recorded_requests(ledger)) + 1
                    ledger.note(deadline_key(place), clock() - begun_s)
                break
            running -= 1
            number = int(end.task.place)
            request = wanted[number - 1]
            answer = _answer_of(plan, number, request, ledger, end)
            gang = _gangs_of_searches(ledger).get(number, end.gang)
        else:
            break
        ended[number] = _sample_result(request, answer, gang)
        listener.sample_ended(number, ended[number])
    results = [ended[number] for number in sorted(ended)]
    searched = {result.sample for result in results}
    return surface_of(plan.goal, results, at_deadline=len(searched) < plan.goal.samples)


def _busy_s(results: Iterable[SampleResult]) -> float:
    """Return the time of the trials of the gang that had most [s]."""
    of_gang: defaultdict[str, float] = defaultdict(float)
    for result in results:
        of_gang[result.gang] += result.found.cost_s
    return max(of_gang.values(), default=0.0)


def _task(number: int, request: SampleRequest) -> Task:
    return Task(
        place=str(number),
        name=f"search {number}",
        prefixes=(f"{search_key(number)}/",),
        gang=request.gang,
    )


def _limit_s(plan: SurfacePlan, ledger: Ledger) -> float | None:
    """Return the time until the deadline [s]; None without one."""
    if plan.goal.deadline_s is None:
        return None
    return _deadline_begins_s(ledger) + plan.goal.deadline_s - _spent_before_s(ledger)


def _sample_result(wanted: SampleRequest, answer: PeakAnswer, gang: str = "") -> SampleResult:
    return SampleResult(wanted.sample, answer.deciding, wanted.seeded_from, gang)


def _answer_of(
    plan: SurfacePlan, number: int, wanted: SampleRequest, ledger: Ledger, end: TaskEnd
) -> PeakAnswer:
    """Return the answer of a search that has ended; of one that failed in every attempt of a pool
    from the last gang's study.

    Raises BenchError if the attempts were void for another reason.
    """
    answer = _recorded_answer(plan, number, wanted, ledger)
    if answer is None and end.failure is not None and end.study.exists():
        with contextlib.closing(Study.open_to_read(end.study)) as study:
            answer = _recorded_answer(plan, number, wanted, Ledger(study, 1))
    if answer is not None:
        return answer
    assert end.gave_up is not None, "a recorded task has an answer"
    raise end.gave_up


def _parts(ledger: Ledger) -> list[MeasuredPart]:
    """Return the recorded searches that gangs measured."""
    (stored,) = (session for session in ledger.study.sessions() if session.number == ledger.session)
    return measured_parts(ledger.study, ledger.session, stored.info)


def _gangs_of_searches(ledger: Ledger) -> dict[int, str]:
    """Return the gang that measured each search of a pool."""
    return {int(part.place): part.gang for part in _parts(ledger)}


def _held_s(ledger: Ledger, count: int) -> float | None:
    """Return the time for which the first searches of a pool held their gangs [s]; None without a
    pool."""
    parts = _parts(ledger)
    if not parts:
        return None
    return sum(part.held_ns for part in parts if int(part.place) <= count) / 1e9


def recorded_surface(plan: SurfacePlan, ledger: Ledger) -> SurfaceResult:
    """Return the surface of the recorded samples."""
    place = len(_recorded_requests(ledger)) + 1
    at_deadline = ledger.recorded(deadline_key(place), float) is not None
    results = recorded_results(plan, ledger)
    return surface_of(plan.goal, results, at_deadline=at_deadline)


def recorded_results(plan: SurfacePlan, ledger: Ledger) -> tuple[SampleResult, ...]:
    """Return the samples whose searches ended, including failed ones."""
    sample_results = []
    measured_by = _gangs_of_searches(ledger)
    for number, wanted in enumerate(_recorded_requests(ledger), 1):
        answer = _recorded_answer(plan, number, wanted, ledger)
        if answer is not None:
            gang = measured_by.get(number, "")
            sample_results.append(_sample_result(wanted, answer, gang))
    return tuple(sample_results)


def _recorded_requests(ledger: Ledger) -> list[SampleRequest]:
    """Return the searches that were chosen, in order."""
    sample_requests: list[SampleRequest] = []
    while (text := ledger.recorded(wanted_key(len(sample_requests) + 1), msgspec.Raw)) is not None:
        sample_requests.append(decode_stored(text, SampleRequest))
    return sample_requests


def _recorded_answer(
    plan: SurfacePlan, number: int, sample_request: SampleRequest, ledger: Ledger
) -> PeakAnswer | None:
    """Return the answer of a recorded search; None if it is unfinished."""
    answer = recorded_result(ledger, PeakAnswer, search_key(number))
    if answer is not None:
        return answer
    search = peak_search(plan.inner(sample_request.goal, sample_request.sample), watched=False)
    trials, _ = recorded_trials(search_key(number), ledger)
    last = search.step([trial.trial for trial in trials]) if trials else None
    failed = isinstance(last, PeakAnswer) and search.gives_up(last)
    return last if isinstance(last, PeakAnswer) and failed else None


def surface_verdict(result: SurfaceResult, *, with_deadline: bool = False) -> SessionVerdict:
    """Return how a session with this surface ends: with the exit status of `bw peak`, if its
    searches were peak searches of their own.

    `with_deadline`: each search had a share of the time as its budget, so one that used it up ended
    as requested.
    """
    samples = plural(result.searched, "sample")
    endings = Counter(sample_result.found.status for sample_result in result.by_sample.values())
    failed = sum(
        sample_result.found.status is PeakStatus.FAILED for sample_result in result.results
    )
    if failed:
        again = "it" if failed == 1 else "them"
        searches = plural(len(result.results), "search")
        detail = f"{failed} of {searches} failed; `bw resume` tries {again} again"
        return SessionVerdict("failed", detail, 1)
    held = f"the claim held at {endings[PeakStatus.FOUND]} of {samples}"
    missed = endings.total() - endings[PeakStatus.FOUND]
    if with_deadline:
        missed -= endings[PeakStatus.BUDGET]
    exit_status = 3 if missed or result.fit is None else 0
    unmet = endings[PeakStatus.FAILS_AT_LOWEST]
    if unmet:
        exit_status = 1
    if result.left_out:
        detail = (
            f"{samples} searched until the deadline; {held}; `bw resume` searches "
            f"{plural(result.left_out, 'more sample')} for as long again"
        )
        return SessionVerdict("deadline", detail, exit_status)
    if unmet:
        detail = f"{unmet} of {samples} failed a criterion at the lowest rate; {held}"
        return SessionVerdict(PeakStatus.FAILS_AT_LOWEST.value, detail, exit_status)
    if result.fit is None:
        detail = f"no model: too few of {samples} have a peak; {held}"
        return SessionVerdict("undecided", detail, exit_status)
    if missed:
        return SessionVerdict("undecided", held, exit_status)
    return SessionVerdict("complete", f"{samples} searched; {held}", 0)


def _next_wanted(
    plan: SurfacePlan,
    number: int,
    choose: Callable[[TimeLeft | None], SampleRequest | None],
    ledger: Ledger,
    spent_s: float,
    *,
    last: bool = True,
) -> SampleRequest | None:
    """Return the next search, from the journal if it was chosen before; None at the end, or if
    there is no time for it. `last`: then the deadline has come, which is recorded; a running search
    may still leave time to others."""
    recorded = ledger.recorded(wanted_key(number), msgspec.Raw)
    if recorded is not None:
        return decode_stored(recorded, SampleRequest)
    goal = plan.goal
    if goal.deadline_s is None:
        wanted = choose(None)
    else:
        left_s = _deadline_begins_s(ledger) + goal.deadline_s - spent_s
        begins = last and (number in _deadlines(ledger) or number == 1)
        wanted = choose(TimeLeft(spent_s, left_s, begins=begins))
        chosen = {request.sample for request in _recorded_requests(ledger)}
        if wanted is None and last and len(chosen) < goal.samples:
            ledger.note(deadline_key(number), spent_s)
    if wanted is not None:
        ledger.note(wanted_key(number), encode_stored(wanted))
    return wanted


def _deadlines(ledger: Ledger) -> dict[int, float]:
    """Return when each deadline came [s], by the number of the search that was not begun."""
    numbers = range(1, len(_recorded_requests(ledger)) + 2)
    recorded = {number: ledger.recorded(deadline_key(number), float) for number in numbers}
    return {number: at_s for number, at_s in recorded.items() if at_s is not None}


def _deadline_begins_s(ledger: Ledger) -> float:
    """Return when the deadline that has not come yet began [s]: with the session, or when the one
    before came."""
    return max(_deadlines(ledger).values(), default=0.0)


def _spent_before_s(ledger: Ledger) -> float:
    """Return the time that earlier runs of the session spent, as far as it is recorded [s]: until
    the last sample was chosen, and in the trials of its search."""
    spent_s = _deadline_begins_s(ledger)
    requests = _recorded_requests(ledger)
    if not requests:
        return spent_s
    trials, _ = recorded_trials(search_key(len(requests)), ledger)
    trials_s = math.fsum(trial.trial.cost_s for trial in trials)
    return max(spent_s, requests[-1].spent_s + trials_s)
