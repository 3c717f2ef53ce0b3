"""The simulated machine: gaps, drift, neighbours and shared CPUs, and closed loops on it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peak_table
from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.peak.policies.registry import DEFAULT_POLICY, policy_named
from benchwright.features.search.types import Claim
from held_out import BY_NAME
from machine import (
    BY_MACHINE,
    CALM,
    MACHINES,
    SLICES,
    Gaps,
    Machine,
    Neighbour,
    Preemption,
    busy_share,
)
from machine_peaks import PeakRange, peak_at_pace, peak_range, stored_range
from machine_table import machine_rows
from outcomes import Outcome, Task
from servers import MEAN, R_SAT, A, SimServer
from stations import Queue
from work import Deterministic, Exponential
from world import Operations, SimWorkbench, State, play, simulate, simulate_users, unit_of

P99 = Criterion(key="response_ms_p99", limit=100, statistic="percentile", share=0.99)
WITHIN = Criterion(key="within_40ms_share", limit=0.9, unit="", better="higher", statistic="share")
ERRORS = Criterion(key="error_ratio", limit=0.001, unit="", statistic="ratio")
ALL = (R_SAT, P99, WITHIN, ERRORS)
INSTANT = SimServer("instant", Queue(1, Deterministic(1e-6)))
OPEN = Probe(rate=150.0, duration_s=30.0)


def ran(server: SimServer, machine: Machine, probe: Probe = OPEN, seed: int = 3) -> LoadTrial:
    """Return one whole trial on a machine."""
    bench = SimWorkbench(server, ALL, seed, machine=machine)
    return bench.run(probe, (), lambda so_far: False)


def gaps_of(edges: list[float]) -> Gaps:
    """Return gaps between every second pair of edges."""
    ordered = np.unique(np.array(edges))
    ordered = ordered[: ordered.size // 2 * 2]
    return Gaps(ordered[::2], ordered[1::2])


EDGES = st.lists(st.floats(0, 50), max_size=12).map(gaps_of)


@given(EDGES, EDGES, st.lists(st.floats(0, 60), min_size=1))
@settings(max_examples=200)
def test_a_moment_lies_in_a_union_if_it_lies_in_one_of_the_gaps(
    one: Gaps, other: Gaps, at: list[float]
) -> None:
    moments = np.sort(np.array(at))
    union = one.with_others(other)
    assert (union.around(moments) == (one.around(moments) | other.around(moments))).all()
    after = union.after(moments)
    assert not union.around(after).any()
    assert (after >= moments).all()
    assert (np.diff(after) >= 0).all()
    assert (after[~union.around(moments)] == moments[~union.around(moments)]).all()


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_gaps_take_their_share_of_time(share: float) -> None:
    preemption = Preemption(share, (0.001, 0.3))
    gaps = preemption.gaps(np.random.default_rng(5), 20_000.0)
    lengths = gaps.ends - gaps.begins
    assert lengths.sum() / 20_000 == pytest.approx(share, rel=0.05)
    assert 0.001 <= lengths.min() <= lengths.max() <= 0.3
    assert (gaps.begins[1:] > gaps.ends[:-1]).all()


def test_a_calm_machine_changes_nothing_and_is_never_late() -> None:
    calm = ran(A, Machine("nothing happens"))
    assert calm == ran(A, CALM)
    assert calm.late_p99_ms == 0.0
    assert calm.target_values == calm.values


def test_lateness_of_the_generator_is_in_the_values_and_not_in_those_of_the_target() -> None:
    gaps = Preemption(0.2, (0.1, 0.3))
    late = ran(INSTANT, Machine("late", generator=gaps))
    # A moment in a gap waits for half of it, weighted by its length: 0.2 x about 107 ms.
    assert late.values[MEAN] == pytest.approx(21, rel=0.25)
    assert late.late_p99_ms is not None
    assert 200 < late.late_p99_ms < 300
    assert late.values["response_ms_p99"] == pytest.approx(late.late_p99_ms, rel=0.05)
    assert late.target_values[MEAN] < 0.5
    assert late.target_values["within_40ms_share"] > 0.99
    assert late.values["within_40ms_share"] < 0.9
    assert late.target_values["error_ratio"] == 0.0


def test_an_answer_that_is_read_late_was_there_before() -> None:
    server = SimServer("slow", Queue(1000, Deterministic(0.020)))
    machine = Machine("late", generator=Preemption(0.3, (0.1, 0.3)))
    users = Probe(rate=20.0, duration_s=30.0, users=20)
    for probe in (OPEN, users):
        trial = ran(server, machine, probe)
        assert trial.target_values["response_ms_p99"] == pytest.approx(20, abs=0.01)
        assert trial.values["response_ms_p99"] > 150


def test_operations_of_a_gap_are_issued_at_its_end_and_none_in_it() -> None:
    machine = Machine("late", generator=Preemption(0.3, (0.1, 0.3)))
    operations = simulate(A, 200.0, 30.0, State(3, 0), machine)
    same = simulate(A, 200.0, 30.0, State(3, 0))
    assert (operations.arrivals == same.arrivals).all()
    assert operations.came is not None
    counts = np.unique(operations.came, return_counts=True)[1]
    assert counts.max() > 20
    late = operations.came > operations.arrivals
    assert late.mean() == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("kind", ["server", "both"])
def test_a_server_that_is_preempted_can_do_that_much_less(kind: str) -> None:
    machine = Machine("slow", **{kind: Preemption(0.25)})
    done = [
        simulate(A, 500.0, 120.0, State(3, number), machine).completed_by(120.0) / 120
        for number in range(8)
    ]
    assert np.mean(done) == pytest.approx(0.75 * 4 / 0.015, rel=0.03)


def test_drift_and_wave_follow_the_time_of_the_search() -> None:
    drift, wave = Machine("drift", loses=0.2), Machine("wave", wave=0.15)
    at = np.array([0.0, 600.0, 1200.0, 5000.0])
    assert drift.pace(at) == pytest.approx([1.0, 0.9, 0.8, 0.8])
    assert wave.pace(np.array([0.0, 150.0, 300.0])) == pytest.approx([1, 0.85, 1])

    def done(age_s: float) -> float:
        run = simulate(A, 500.0, 60.0, State(3, 0, age_s), drift)
        return run.completed_by(60.0) / 60

    assert done(2000.0) == pytest.approx(0.8 * done(0.0), rel=0.02)


def test_a_neighbour_is_there_at_the_same_times_in_every_trial() -> None:
    neighbour = Neighbour(SLICES, SLICES)
    whole = neighbour.here(7, 0.0, 4000.0)
    there_s = np.minimum(whole.ends, 4000) - np.minimum(whole.begins, 4000)
    assert 0.3 < there_s.sum() / 4000 < 0.7
    for from_s in (0.0, 100.0, 1234.0):
        moments = np.arange(from_s, from_s + 90.0, 0.5)
        seen = neighbour.here(7, from_s, 90.0).around(moments - from_s)
        assert (seen == whole.around(moments)).all()
    stays, absences = whole.ends - whole.begins, whole.begins[1:] - whole.ends[:-1]
    for lengths in (stays[:-1], absences):
        assert 20 <= lengths.min() <= lengths.max() <= 120


def test_a_neighbour_takes_time_only_while_it_is_there() -> None:
    neighbour = Neighbour(SLICES, SLICES)
    machine = Machine("beside", neighbour=neighbour)
    for number, from_s in enumerate((0.0, 100.0, 250.0, 700.0)):
        course = machine.course((7, number, from_s), 60.0, None)
        here = neighbour.here(7, from_s, 60.0)
        assert here.around(course.generator.begins).all()
        if course.generator.begins.size:
            lost = (course.generator.ends - course.generator.begins).sum()
            there = np.minimum(here.ends, 60) - np.clip(here.begins, 0, 60)
            assert lost == pytest.approx(0.35 * there[there > 0].sum(), rel=0.25)


@pytest.mark.parametrize("name", ["shared-process", "shared-session"])
def test_the_busier_the_server_the_later_the_generator(name: str) -> None:
    def late_share(rate: float) -> float:
        run = simulate(A, rate, 120.0, State(3, 0), BY_MACHINE[name])
        assert run.came is not None
        return float((run.came > run.arrivals).mean())

    idle, half, full = late_share(10.0), late_share(130.0), late_share(400.0)
    assert idle < 0.05 < half < full
    assert full == pytest.approx(0.3, abs=0.05)


def test_how_busy_a_server_is_counts_what_is_inside() -> None:
    busy = busy_share(np.array([0.0, 0.01]), np.array([0.05, 0.03]), 2, 0.1)
    assert busy[:6] == pytest.approx([0.5, 1.0, 0.5, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["gen-20", "neighbour", "shared-session"])
def test_a_search_on_a_machine_resumed_at_any_trial_ends_the_same(name: str) -> None:
    goal = msgspec.structs.replace(A.goal(unit=unit_of(3)), budget_s=1500.0)
    policy = policy_named("binsearch")
    machine = BY_MACHINE[name]
    whole = play(policy, goal, A, 3, machine=machine)
    assert any(trial.late_p99_ms for trial in whole.history)
    for k in range(1, len(whole.history), 2):
        rest = play(policy, goal, A, 3, whole.history[:k], machine)
        assert rest.history == whole.history


# Closed loops -----------------------------------------------------------------------


def completed(operations: Operations, lasts_s: float) -> float:
    """Return the throughput [1/s]."""
    return operations.completed_by(lasts_s) / lasts_s


@pytest.mark.parametrize("users", [1, 2, 3, 4, 16])
def test_users_get_what_so_many_servers_can_do(users: int) -> None:
    server = SimServer("mm3", Queue(3, Exponential(0.015)))
    done = [completed(simulate_users(server, users, 20.0, State(3, n)), 20.0) for n in range(8)]
    assert np.mean(done) == pytest.approx(min(users, 3) / 0.015, rel=0.06)


@pytest.mark.parametrize("name", BY_NAME)
def test_each_user_has_one_operation_at_a_time(name: str) -> None:
    operations = simulate_users(BY_NAME[name], 8, 2.0, State(3, 0))
    starts, ends = operations.arrivals, np.sort(operations.ends)
    inside = np.arange(1, starts.size + 1) - np.searchsorted(ends, starts, side="right")
    # The fixed point is approximate where operations overtake each other.
    assert (inside[8:] > 8).mean() < 0.05
    assert 7 <= inside.max() <= 16


STEADY = [
    name
    for name in BY_NAME
    if name not in ("flat", "stalls", "stalls-rare", "cold", "batching", "held-out-cache-warms")
    and not name.startswith("mm8")
]


@pytest.mark.parametrize("name", STEADY)
def test_many_users_complete_about_the_peak_rate_or_more(name: str) -> None:
    """Capacity is a little more than the peak, unless the response hardly grows before it."""
    server = BY_NAME[name]
    lasts_s = min(20.0, 50_000 / server.peak_rate)
    done = [completed(simulate_users(server, 64, lasts_s, State(3, n)), lasts_s) for n in range(3)]
    assert 0.9 < np.mean(done) / server.peak_rate < 1.6


def test_a_long_closed_run_goes_on_as_its_second_half() -> None:
    fast = BY_NAME["fast"]
    operations = simulate_users(fast, 2, 4.0, State(3, 0))
    assert operations.arrivals.size > 300 * 2 * 10
    assert (np.diff(operations.arrivals) >= 0).all()
    assert completed(operations, 4.0) == pytest.approx(2 / 70e-6, rel=0.1)


def test_a_closed_trial_says_its_users_and_no_lateness() -> None:
    probe = Probe(rate=16.0, duration_s=2.0, users=16)
    trial = ran(A, BY_MACHINE["gen-20"], probe)
    calm = ran(A, CALM, probe)
    assert trial.users == calm.users == 16
    assert trial.late_p99_ms is calm.late_p99_ms is None
    assert trial.completed is not None
    assert calm.completed is not None
    assert calm.completed / 2 == pytest.approx(4 / 0.015, rel=0.15)
    assert trial.values.keys() == trial.target_values.keys() == calm.values.keys()


# Peaks and outcomes ------------------------------------------------------------------


def test_a_slower_server_has_the_peak_of_its_own_closed_form() -> None:
    slow = SimServer("slow", Queue(4, Exponential(0.015 / 0.8)))
    assert peak_at_pace(A, 0.8) == pytest.approx(slow.peak_rate, rel=1e-4)


def test_peaks_on_machines() -> None:
    calm = PeakRange(A.peak_rate, A.peak_rate)
    for name in ("calm", "gen-5", "gen-30-long"):
        assert peak_range(A, BY_MACHINE[name], 3, 500.0) == calm
    drift = peak_range(A, BY_MACHINE["drift"], 3, 600.0)
    assert drift.high == pytest.approx(A.peak_rate, rel=1e-4)
    assert drift.low == pytest.approx(peak_at_pace(A, 0.9), rel=1e-4)
    vm = peak_range(A, BY_MACHINE["vm-10"], 3, 500.0)
    assert 0.5 * A.peak_rate < vm.low < vm.high < 0.9 * A.peak_rate
    beside = BY_MACHINE["neighbour"]
    assert beside.neighbour is not None
    comes_s = float(beside.neighbour.here(3, 0.0, 500.0).begins[0])
    assert peak_range(A, beside, 3, 0.9 * comes_s) == calm
    whole = peak_range(A, beside, 3, 500.0)
    assert whole.high == A.peak_rate
    assert whole.low < 0.65 * A.peak_rate


@pytest.mark.parametrize("name", ["server-10-short", "vm-10-short"])
def test_a_stored_peak_is_measured_again(name: str) -> None:
    """With other random numbers: at it, the mean response is about the limit."""
    machine = BY_MACHINE[name]
    peaks = stored_range(A, machine)
    outside = Machine("outside", server=machine.server or machine.both)
    means = [simulate(A, peaks.low, 600.0, State(n, 0), outside).responses.mean() for n in range(8)]
    assert 1000 * float(np.mean(means)) == pytest.approx(R_SAT.limit, rel=0.15)


def test_a_factor_counts_outside_the_range_only() -> None:
    peaks = PeakRange(100.0, 200.0)
    assert peaks.factor(150.0) == 1.0
    assert peaks.factor(50.0) == peaks.factor(400.0) == 2.0
    assert peaks.error(150.0) == 0.0
    assert peaks.error(180.0) == 0.0
    assert peaks.error(220.0) == pytest.approx(0.1)
    assert PeakRange(0.0, 0.0).factor(1.0) > 1000


def outcome(**changed: object) -> Outcome:
    """Return a right search's outcome with some of it changed."""
    right = Outcome(
        seed=1,
        status="found",
        trials=10,
        load_s=100.0,
        error=0.01,
        in_region=True,
        claim_held=True,
        interval_held=True,
        probability=0.96,
        codes=(),
        cpu_s=0.1,
        rate=100.0,
    )
    return msgspec.structs.replace(right, **changed)


def test_an_answer_is_off_unless_a_serious_finding_says_so() -> None:
    wrong = {"factor": 1.5, "interval_held": False, "claim_held": False}
    outcomes = [
        outcome(),
        outcome(**wrong),
        outcome(**wrong, serious=True),
        outcome(status="budget", factor=3.0, error=None, claim_held=False),
        outcome(status="undecided", factor=9.0, serious=True, claim_held=False),
        outcome(status="never-fails", bound="lower", claim_held=False),
    ]
    task = Task("A-mm4", DEFAULT_POLICY, Claim(), tuple(range(6)), machine="gen-5")
    (row,) = machine_rows([(task, outcomes)])
    assert row.found == 0.5
    assert row.claim_held == pytest.approx(1 / 3)
    assert row.undecided == pytest.approx(2 / 6)
    assert row.undecided_serious == row.bounds == pytest.approx(1 / 6)
    assert row.off == pytest.approx(2 / 6)
    assert row.excludes == pytest.approx(1 / 6)
    assert (row.worst, row.worst_server, row.worst_of_all) == (3.0, "A-mm4", 9.0)


def test_a_table_on_machines_goes_on_and_judges_by_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "outcomes.jsonl"
    asked = f"--servers A-mm4 --policies {DEFAULT_POLICY} --claims rate:10% --searches 1 --jobs 1 --budget 200 --outcomes {kept} --machines"
    peak_table.main([*asked.split(), "calm"])
    peak_table.main([*asked.split(), "calm,gen-20"])
    assert len(kept.read_bytes().splitlines()) == 2
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[2] for line in shown if "rate:10%" in line] == [
        "calm",
        "calm",
        "gen-20",
    ]


def test_every_machine_has_its_own_name() -> None:
    assert len(BY_MACHINE) == len(MACHINES)
    assert [machine.name for machine in MACHINES if machine.calm] == ["calm"]
    seen = {}
    for machine in MACHINES:
        bench = SimWorkbench(A, ALL, 3, restart_s=100.0, machine=machine)
        trials = [bench.run(OPEN, (), lambda so_far: False) for _ in range(4)]
        seen[machine.name] = tuple(trial.values[MEAN] for trial in trials)
    assert len(set(seen.values())) == len(MACHINES), seen
