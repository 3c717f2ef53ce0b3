"""The outer loop over the driver of searches: a cut at every trial, a server that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from benchwright.core.criterion import Criterion
from benchwright.core.errors import BenchError
from benchwright.core.plan import Pairs
from benchwright.core.results import Finding
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.pool import POOL_OPTION
from benchwright.features.pool.keys import attempt_key
from benchwright.features.pool.types import Attempt, PoolKind, PoolSettings
from benchwright.features.search.keys import search_key
from benchwright.features.search.peak.experiment import peak_search, peak_verdict
from benchwright.features.search.peak.policies.published import PAPER_RUN_LENGTH_S
from benchwright.features.search.requests import SurfacePlan
from benchwright.features.search.session import SilentSearch, run_search
from benchwright.features.search.surface.experiment import (
    ThisMachine,
    recorded_results,
    recorded_surface,
    run_surface,
    surface_verdict,
)
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.types import (
    DesignKind,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
    make_factor,
)
from benchwright.features.search.types import (
    Claim,
    ClaimKind,
    PeakAnswer,
    PeakGoal,
    PeakStatus,
    SearchTrial,
    decode_stored,
)
from benchwright.run.gangs import DeadlineReached, Task, TaskEnd
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import SessionInfo, Study
from benchwright.suite.program import Program
from session_infos import session_info

LIMIT = Criterion("response_ms_mean", 40.0)
FACTORS = (make_factor("workers", ("1", "2", "4", "8")), make_factor("sync", ("on", "off")))
SURFACE = SurfacePlan(
    goal=SurfaceGoal(factors=FACTORS, peak=PeakGoal(criteria=(LIMIT,), start_rate=10.0), samples=5),
    claims=(Claim(ClaimKind.REGION),),
    policy="binsearch",
)


def capacity(sample: Pairs) -> float:
    levels = dict(sample)
    return 100.0 * float(levels["workers"]) * (1.0 if levels["sync"] == "on" else 2.0)


def text(sample: Pairs) -> str:
    return ",".join(f"{name}={level}" for name, level in sample)


class Servers:
    """A workbench in virtual time, whose response is exactly 10 ms * C / (C - rate)."""

    watched = False

    def __init__(self, breaks_at: int | None = None, failing: Sequence[str] = ()) -> None:
        self.runs: list[tuple[str, float]] = []
        self.now_s = 0.0
        self._breaks_at = breaks_at
        self._failing = failing

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        if self._breaks_at == len(self.runs):
            raise BenchError("launcher-gone", "killed")
        self.runs.append((text(sample), probe.rate))
        most = capacity(sample)
        failed = text(sample) in self._failing
        mean = 10 * most / (most - probe.rate) if probe.rate < most else 1000.0
        self.now_s += probe.duration_s
        return LoadTrial(
            rate=probe.rate,
            duration_s=probe.duration_s,
            lasted_s=0.0 if failed else probe.duration_s,
            cost_s=probe.duration_s,
            values={} if failed else {LIMIT.key: mean},
            ending=LoadEnding.FAILED if failed else LoadEnding.WHOLE,
            failure="it does not start" if failed else "",
        )

    def clock(self) -> float:
        return self.now_s

    def interrupt(self) -> None:
        """Nothing runs for long enough."""

    def close(self) -> None:
        """There is nothing to stop."""


class Listener(SilentSearch):
    """Remembers what was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sample_begins(self, number: int, wanted: SampleRequest) -> None:
        self.lines.append(f"begin {number} {text(wanted.sample)}")

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        self.lines.append("trial")

    def sample_ended(self, number: int, result: SampleResult) -> None:
        self.lines.append(f"end {number} {result.found.status}")


def info(pool: PoolSettings | None = None) -> SessionInfo:
    options = {} if pool is None else {POOL_OPTION: msgspec.json.encode(pool).decode()}
    return session_info(
        program_main="<request>", sources=(("<request>", "{}"),), kind="surface", options=options
    )


def begun(place: Path, pool: PoolSettings | None = None) -> tuple[Study, Ledger]:
    study = Study.create_or_open(place)
    return study, Ledger(study, study.begin_session(info(pool)))


def resumed(place: Path) -> tuple[Study, Ledger]:
    study = Study.open_to_resume(place)
    (stored,) = study.sessions()
    recover(study, stored.number, CRASH_CAUSE)
    return study, Ledger(study, stored.number)


def searched(
    plan: SurfacePlan, servers: Servers, ledger: Ledger, listener: Listener
) -> SurfaceResult:
    here = ThisMachine(plan, servers, ledger, listener)
    return run_surface(plan, here, ledger, listener, servers.clock)


def mapped(place: Path, servers: Servers, plan: SurfacePlan = SURFACE) -> SurfaceResult:
    study, ledger = begun(place)
    with contextlib.closing(study):
        return searched(plan, servers, ledger, Listener())


def test_every_sample_is_searched_and_begins_at_a_neighbours_peak(tmp_path: Path) -> None:
    study, ledger = begun(tmp_path / "s")
    listener, servers = Listener(), Servers()
    with contextlib.closing(study):
        result = searched(SURFACE, servers, ledger, listener)
    assert [one.found.status for one in result.results] == [PeakStatus.FOUND] * 5
    assert len([one for one in listener.lines if one.startswith("begin")]) == 5
    assert surface_verdict(result).exit_status == 0
    seeded = [one for one in result.results if one.seeded_from]
    assert seeded
    rates = {one.sample: one.peak_rate for one in result.results}
    for one in seeded:
        first = next(rate for sample, rate in servers.runs if sample == text(one.sample))
        assert first == pytest.approx(rates[one.seeded_from], rel=1e-4)
        assert dict(one.seeded_from)["sync"] == dict(one.sample)["sync"]


def test_a_mapping_cut_at_any_trial_ends_with_the_same_surface(tmp_path: Path) -> None:
    goal = msgspec.structs.replace(SURFACE.goal, samples=3)
    plan = msgspec.structs.replace(SURFACE, goal=goal)
    whole = Servers()
    answer = mapped(tmp_path / "whole", whole, plan)
    for cut in range(len(whole.runs)):
        place = tmp_path / str(cut)
        first = Servers(breaks_at=cut)
        with pytest.raises(BenchError):
            mapped(place, first, plan)
        again = Servers()
        study, ledger = resumed(place)
        with contextlib.closing(study):
            assert searched(plan, again, ledger, Listener()) == answer
        assert first.runs + again.runs == whole.runs


def test_a_recorded_mapping_is_told_without_a_workbench(tmp_path: Path) -> None:
    answer = mapped(tmp_path / "s", Servers())
    with contextlib.closing(Study.open_to_read(tmp_path / "s")) as study:
        assert recorded_results(SURFACE, Ledger(study, 1)) == answer.results


def test_a_sample_that_fails_is_a_result_and_is_tried_again(tmp_path: Path) -> None:
    place = tmp_path / "s"
    reference = mapped(tmp_path / "whole", Servers())
    failing = text(reference.results[2].sample)
    result = mapped(place, Servers(failing=[failing]))
    assert len(result.results) == 5
    (failed,) = (one for one in result.results if text(one.sample) == failing)
    assert failed.found.status is PeakStatus.FAILED
    assert "it does not start" in failed.found.detail
    assert "surface-sample-failed" in {one.code for one in result.findings}
    assert surface_verdict(result).exit_status == 1
    with contextlib.closing(Study.open_to_read(place)) as study:
        assert recorded_results(SURFACE, Ledger(study, 1)) == result.results
    study, ledger = resumed(place)
    mended = Servers()
    with contextlib.closing(study):
        again = searched(SURFACE, mended, ledger, Listener())
    assert {sample for sample, _ in mended.runs} == {failing}
    assert [one.sample for one in again.results] == [one.sample for one in result.results]
    assert surface_verdict(again).exit_status == 0


# -- samples whose claim did not hold ----------------------------------------------------


class OneSlowServer(Servers):
    """At one sample each trial costs all of a search's budget, so that the search ends after its
    first trial."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self._slow = slow

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        trial = super().run(probe, sample, leaves)
        if text(sample) != self._slow:
            return trial
        return msgspec.structs.replace(trial, cost_s=10 * BUDGET_S)


BUDGET_S = 1e5
WITH_BUDGET = msgspec.structs.replace(
    SURFACE,
    goal=msgspec.structs.replace(
        SURFACE.goal,
        samples=8,
        peak=msgspec.structs.replace(SURFACE.goal.peak, budget_s=BUDGET_S),
        design=DesignKind.FULL,
    ),
)


@pytest.mark.parametrize("place", range(4))
def test_a_far_too_low_answer_is_not_established_and_starts_no_other_search(
    tmp_path: Path, place: int
) -> None:
    reference = mapped(tmp_path / "whole", Servers(), WITH_BUDGET)
    assert surface_verdict(reference).exit_status == 0
    wrong = reference.results[place].sample
    servers = OneSlowServer(text(wrong))
    result = mapped(tmp_path / "s", servers, WITH_BUDGET)
    (found,) = (one.found for one in result.results if one.sample == wrong)
    assert found.status is PeakStatus.BUDGET
    assert found.peak_rate is not None
    assert found.peak_rate < capacity(wrong) / 2
    verdict = surface_verdict(result)
    assert (verdict.status, verdict.exit_status) == ("undecided", 3)
    assert verdict.detail == "the claim held at 7 of 8 samples"
    assert [one.found.status for one in result.results].count(PeakStatus.FOUND) == 7
    # Each search but the first with its word starts at the peak of a sample that was measured.
    assert wrong not in {one.seeded_from for one in result.results}
    peaks = {one.sample: one.peak_rate for one in result.results}
    for one in result.results:
        first = next(rate for at, rate in servers.runs if at == text(one.sample))
        start = peaks[one.seeded_from] if one.seeded_from else 10.0
        assert first == pytest.approx(start, rel=1e-4)


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [
        (PeakStatus.FOUND, 0),
        (PeakStatus.BUDGET, 3),
        (PeakStatus.UNDECIDED, 3),
        (PeakStatus.NEVER_FAILS, 3),
        (PeakStatus.FAILS_AT_LOWEST, 1),
        (PeakStatus.FAILED, 1),
    ],
)
def test_a_surface_exits_as_a_peak_search_that_ended_like_its_worst_sample(
    tmp_path: Path, status: PeakStatus, exit_status: int
) -> None:
    result = mapped(tmp_path, Servers())
    last = result.results[-1]
    found = msgspec.structs.replace(last.found, status=status)
    results = (*result.results[:-1], msgspec.structs.replace(last, found=found))
    ended = surface_of(SURFACE.goal, results)
    assert surface_verdict(ended).exit_status == exit_status
    assert peak_verdict(PeakAnswer((found,))).exit_status == exit_status
    # A search with a share of a deadline's time ends at its budget as requested.
    as_requested = status is PeakStatus.BUDGET
    whole = surface_verdict(ended, with_deadline=True)
    assert whole.exit_status == (0 if as_requested else exit_status)
    left = msgspec.structs.replace(ended, left_out=2)
    cut = surface_verdict(left, with_deadline=True)
    assert cut.exit_status == (0 if as_requested else exit_status)
    assert cut.status == ("failed" if status is PeakStatus.FAILED else "deadline")


# -- a deadline ------------------------------------------------------------------------


def with_deadline(deadline_s: float) -> SurfacePlan:
    goal = msgspec.structs.replace(SURFACE.goal, deadline_s=deadline_s, trial_s=PAPER_RUN_LENGTH_S)
    return msgspec.structs.replace(SURFACE, goal=goal)


def run_to_deadline(place: Path, plan: SurfacePlan, servers: Servers) -> SurfaceResult:
    study, ledger = resumed(place) if (place / JOURNAL).exists() else begun(place)
    with contextlib.closing(study):
        return searched(plan, servers, ledger, Listener())


def test_a_mapping_ends_at_its_deadline_and_a_resume_continues(tmp_path: Path) -> None:
    plan = with_deadline(2000.0)
    result = run_to_deadline(tmp_path, plan, Servers())
    assert result.cost_s <= 2000.0
    assert 0 < len(result.results) < 5
    assert result.left_out == 5 - len(result.results)
    assert "surface-deadline" in {one.code for one in result.findings}
    assert surface_verdict(result).status == "deadline"
    with contextlib.closing(Study.open_to_read(tmp_path)) as study:
        ledger = Ledger(study, 1)
        assert recorded_surface(plan, ledger) == result
    before = result
    for _ in range(4):
        result = run_to_deadline(tmp_path, plan, Servers())
        assert result.cost_s - before.cost_s <= 2000.0
        assert result.results[: len(before.results)] == before.results
        if not result.left_out:
            break
        assert len(result.results) > len(before.results)
        before = result
    assert len(result.results) == 5
    # Some ended at their share of the time, and this policy states no interval by which a model
    # could use them.
    assert PeakStatus.BUDGET in {one.found.status for one in result.results}
    assert surface_verdict(result, with_deadline=True).detail.startswith("no model")


def test_a_mapping_with_a_deadline_is_the_same_wherever_it_was_cut(tmp_path: Path) -> None:
    plan, whole = with_deadline(1600.0), Servers()
    answer = run_to_deadline(tmp_path / "whole", plan, whole)
    assert len(whole.runs) > 5
    for cut in range(len(whole.runs)):
        place = tmp_path / str(cut)
        first, again = Servers(breaks_at=cut), Servers()
        with pytest.raises(BenchError):
            run_to_deadline(place, plan, first)
        assert run_to_deadline(place, plan, again) == answer
        assert first.runs + again.runs == whole.runs


class SlowServers(Servers):
    """Each trial takes 60 s more than it costs, by a clock that begins anywhere."""

    def __init__(self, begin_s: float = 0.0, breaks_at: int | None = None) -> None:
        super().__init__(breaks_at)
        self.now_s = begin_s

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        trial = super().run(probe, sample, leaves)
        self.now_s += 60.0
        return trial


def test_time_beside_the_trials_counts(tmp_path: Path) -> None:
    plan, servers = with_deadline(2500.0), SlowServers()
    study, ledger = begun(tmp_path / "slow")
    with contextlib.closing(study):
        slow = searched(plan, servers, ledger, Listener())
    fast = run_to_deadline(tmp_path / "fast", plan, Servers())
    assert slow.left_out > fast.left_out
    assert servers.now_s < 2500.0 + 60.0 * slow.results[0].found.trials


def test_time_between_an_interruption_and_a_resume_does_not_count(tmp_path: Path) -> None:
    plan, first = with_deadline(2500.0), SlowServers(breaks_at=2)
    study, ledger = begun(tmp_path)
    with contextlib.closing(study), pytest.raises(BenchError):
        searched(plan, first, ledger, Listener())
    later = SlowServers(begin_s=1e6)
    study, ledger = resumed(tmp_path)
    with contextlib.closing(study):
        result = searched(plan, later, ledger, Listener())
    assert len(result.results) == 2
    assert result.left_out == 3


TWO_GANGS = PoolSettings(engine=PoolKind.LOCAL, gangs=2)


class GangsUntil:
    """Two gangs, one search of 3,000 s after another, until the deadline comes after some of them."""

    names: tuple[str, ...] = ("g1", "g2")

    def __init__(self, plan: SurfacePlan, ledger: Ledger, searches: int) -> None:
        self._plan = plan
        self._ledger = ledger
        self._left = searches
        self._tasks: list[tuple[Task, str]] = []
        self.limit_s = 0.0
        self.now_s = 0.0
        self.submitted: list[str] = []

    def parts(
        self, program: Program, defines: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Task, ...]:
        raise AssertionError("a surface is no program")

    def expect(self, tasks: int, limit_s: float | None = None) -> None:
        assert limit_s is not None
        self.limit_s = limit_s

    def clock(self) -> float:
        return self.now_s

    def submit(self, task: Task, wanted: str = "") -> None:
        self._tasks.append((task, wanted))
        self.submitted.append(task.place)

    def next_end(self) -> TaskEnd:
        if not self._left:
            self.now_s = self.limit_s
            raise DeadlineReached
        self._left -= 1
        self.now_s += 3000.0
        # The one that was submitted last ends first, so that there are gaps at the deadline.
        task, text = self._tasks.pop()
        wanted = decode_stored(msgspec.Raw(text.encode()), SampleRequest)
        search = peak_search(
            self._plan.inner(wanted.goal, wanted.sample),
            watched=False,
            key=search_key(int(task.place)),
        )
        run_search(search, Servers(), self._ledger, Listener())
        attempt = Attempt(
            place=task.place,
            name=task.name,
            number=1,
            gang=task.gang,
            lease=f"{task.gang}.1",
            hosts=(task.gang,),
            began_ns=1,
            ended_ns=2,
        )
        self._ledger.note(attempt_key(attempt.id, "ended"), attempt)
        return TaskEnd(task, task.gang, Path())

    def interrupt(self) -> None:
        """Nothing runs for long enough."""

    def findings(self) -> tuple[Finding, ...]:
        return ()


def test_a_deadline_that_comes_while_gangs_search_keeps_what_has_ended(tmp_path: Path) -> None:
    plan = with_deadline(90000.0)
    study, ledger = begun(tmp_path, TWO_GANGS)
    with contextlib.closing(study):
        gangs = GangsUntil(plan, ledger, searches=2)
        first = run_surface(plan, gangs, ledger, Listener(), gangs.clock)
    cut = [one for one in gangs.submitted if one not in ("2", "3")]
    assert cut
    assert len(first.results) == 2
    assert first.left_out == 5 - first.searched
    assert surface_verdict(first).status == "deadline"
    with contextlib.closing(Study.open_to_read(tmp_path)) as opened:
        assert recorded_surface(plan, Ledger(opened, 1)) == first
    # Those that were cut are searched first, with as much time again.
    study, ledger = resumed(tmp_path)
    with contextlib.closing(study):
        gangs = GangsUntil(plan, ledger, searches=99)
        again = run_surface(plan, gangs, ledger, Listener(), gangs.clock)
    assert gangs.limit_s == pytest.approx(90000.0)
    assert gangs.submitted[: len(cut)] == cut
    assert "2" not in gangs.submitted
    assert all(one in again.results for one in first.results)
    assert surface_verdict(again).status == "complete"
    assert again.searched == 5


def test_a_deadline_without_a_model_is_undecided(tmp_path: Path) -> None:
    result = run_to_deadline(tmp_path, with_deadline(40.0), Servers())
    assert result.fit is None
    assert surface_verdict(result).exit_status == 3


def test_a_deadline_that_is_long_enough_changes_no_sample(tmp_path: Path) -> None:
    free = mapped(tmp_path / "free", Servers())
    timed = run_to_deadline(tmp_path / "timed", with_deadline(1e6), Servers())
    assert timed == free
