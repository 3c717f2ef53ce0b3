"""The check of an answer: runs beside it decide whether it is one, and a change with time is seen."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.check import (
    CheckSide,
    Movement,
    check_side,
    check_text,
    movement,
)
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.monotone_posterior import MonotoneRun
from benchwright.features.search.peak.policies.reading import UNKNOWN_NOISE
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.types import (
    Claim,
    ClaimKind,
    ClaimResult,
    PeakGoal,
    PeakStatus,
    RateTally,
)
from hand_written import MEAN_RESPONSE, run_of

MEAN = Criterion(MEAN_RESPONSE, 40.0)
GOAL = PeakGoal(criteria=(MEAN,), claim=Claim(ClaimKind.RATE, 0.05), start_rate=200.0)
PEAK, STEEP = 300.0, 8.0


def run(rate: float, lasts: int, seed: int, times: float = 1.0, noise: float = 0.05) -> LoadTrial:
    """Return a run of a server with its peak at 300/s; `times` its response."""
    random = np.random.default_rng(seed)
    level = 40 * times * min((rate / PEAK) ** STEEP, 20.0)
    bins = level * np.maximum(1 + noise * random.standard_normal(lasts), 0.1)
    return run_of(rate, (bins * level / bins.mean()).tolist())


KNOWN = [run(rate, 180, seed) for seed, rate in enumerate((293, 296, 298, 299, 301, 302, 304, 307))]
"""Long runs near the peak, from which the claim would hold."""
ABOVE = [run(315, 60, 100 + n) for n in range(tuning.ENOUGH_TRIALS)]


def below(times: float, count: int) -> list[LoadTrial]:
    """Return runs just below the answer that show nothing precisely."""
    return [run(285, 10, 200 + n, times, noise=1.5) for n in range(count)]


# Sides --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "held", "failed", "agrees"),
    [
        (0.95, 2, 1, True),
        (0.95, 1, 1, False),
        (0.95, 1, 2, False),
        (1.05, 1, 2, True),
        (1.05, 2, 2, False),
        (1.0, 2, 1, True),
        (1.0, 0, 3, False),
    ],
)
def test_a_side_agrees_by_the_majority_of_its_runs(
    share: float, held: int, failed: int, agrees: bool
) -> None:
    assert CheckSide(share, RateTally(285, held, failed)).agrees == agrees


def test_a_side_counts_runs_close_to_its_rate() -> None:
    runs = [(rate, rate < 300) for rate in (280.0, 285.0, 290.0, 294.0, 320.0)]
    side = check_side(0.95, 285.0, 0.05, runs)
    assert side.tally == RateTally(285, held=3)
    assert check_side(1.05, 321.0, 0.05, runs).tally == RateTally(321, 0, 1)


def test_a_check_reads_as_shares_of_the_answer() -> None:
    tallies = (RateTally(285, 3, 0), RateTally(315, 1, 2), RateTally(400))
    assert check_text(tallies, 300.0) == (
        "at 0.95 of it held 3 of 3; at 1.05 of it exceeded a limit 2 of 3"
    )


# A search that ends ------------------------------------------------------------------------


def checked(goal: PeakGoal, history: Sequence[LoadTrial]) -> list[Probe]:
    """Return the probes of the check, to the answer; each shows the server as it is."""
    probes, known = [], list(history)
    while isinstance(step := Monotone().next(goal, known), Probe):
        probes.append(step)
        lasts = math.ceil(step.duration_s)
        known.append(run(step.rate, lasts, 300 + len(known)))
    assert step.status is PeakStatus.FOUND
    return probes


def test_no_search_ends_before_the_runs_beside_its_answer() -> None:
    probes = checked(GOAL, KNOWN)
    assert {probe.purpose for probe in probes} == {"check"}
    sides = [probe.rate > PEAK for probe in probes]
    assert sides.count(True) == sides.count(False) == tuning.ENOUGH_TRIALS
    for probe in probes:
        assert abs(probe.rate / PEAK - 1) == pytest.approx(0.05, abs=0.01)


def test_a_one_sided_claim_is_checked_at_its_answer_only() -> None:
    goal = msgspec.structs.replace(GOAL, claim=Claim(ClaimKind.SLO, 0.05))
    history = [*KNOWN, *(run(310, 60, 50 + n) for n in range(4))]
    probes = checked(goal, history)
    assert all(0.95 * PEAK < probe.rate < PEAK for probe in probes)


def test_the_order_of_the_sides_depends_on_the_seed_and_on_nothing_else() -> None:
    def order(seed: int) -> tuple[bool, ...]:
        goal = msgspec.structs.replace(GOAL, seed=seed)
        return tuple(probe.rate > PEAK for probe in checked(goal, KNOWN))

    orders = {seed: order(seed) for seed in range(4)}
    assert order(1) == orders[1]
    assert len(set(orders.values())) > 1
    # Not first all below and then all above, or the other way round, whatever the seed.
    assert any(one != tuple(sorted(one)) for one in orders.values())


def test_runs_that_contradict_the_answer_are_repeated_and_then_it_is_undecided() -> None:
    step: Probe | ClaimResult
    for count in range(tuning.ENOUGH_TRIALS, tuning.MANY_TRIALS):
        step = Monotone().next(GOAL, [*KNOWN, *ABOVE, *below(1.6, count)])
        assert isinstance(step, Probe)
        assert step.purpose == "check"
        assert step.rate == pytest.approx(285, rel=0.02)
    history = [*KNOWN, *ABOVE, *below(1.6, tuning.MANY_TRIALS)]
    step = Monotone().next(GOAL, history)
    assert isinstance(step, ClaimResult)
    assert step.status is PeakStatus.UNDECIDED
    assert step.claim_probability is None
    assert step.peak_rate == pytest.approx(PEAK, rel=0.03)
    finding = step.findings[0]
    assert finding.code == "check-contradicts"
    assert re.search("at 0.95 of it held [0-4] of 9", finding.evidence)
    assert step.detail == finding.evidence


def test_runs_of_which_most_agree_end_the_search() -> None:
    mixed = [*below(1.6, 2), *below(0.9, 3)]
    step = Monotone().next(GOAL, [*KNOWN, *ABOVE, *mixed])
    assert isinstance(step, ClaimResult)
    assert step.status is PeakStatus.FOUND
    low, high = step.check
    assert (low.held, low.failed) == (3, 2)
    assert (high.held, high.failed) == (0, 3)
    assert "check-contradicts" not in {one.code for one in step.findings}


def test_where_a_bound_leaves_no_rate_beside_the_answer_the_other_side_is_enough() -> None:
    goal = msgspec.structs.replace(GOAL, highest_rate=301.0, start_rate=100.0)
    history = [one for one in KNOWN if one.rate <= 301] * 2
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        assert step.rate <= 301
        assert len(history) < 80
        history.append(run(step.rate, math.ceil(step.duration_s), len(history)))
    assert step.peak_rate is not None
    assert step.peak_rate <= 301


# A change with time --------------------------------------------------------------------------


Course = Callable[[float], float]
"""Share of the search, 0 to 1 -> the peak as a multiple of the first."""


def moved(n: int, seed: int, course: Course, noise: float = 0.1) -> Movement | None:
    """Return what a search of `n` runs near the limit shows; `noise` is a run's, relative."""
    random = np.random.default_rng(seed)
    history, runs = [], []
    for i in range(n):
        rate = PEAK * math.exp(random.uniform(-0.015, 0.015))
        value = (rate / PEAK / course(i / n)) ** STEEP
        value *= math.exp(noise * random.standard_normal())
        history.append(run_of(rate, [40 * value] * 4))
        runs.append(MonotoneRun(rate, value, 60.0, UNKNOWN_NOISE, MEAN.key))
    near = [run for run in runs if run.near]
    assert len(near) > 0.8 * n, "this is about runs near the limit"
    return movement(MEAN, history, runs, STEEP)


@pytest.mark.parametrize("runs", [8, 12, 24, 40])
def test_no_change_is_seen_where_there_is_none(runs: int) -> None:
    """1,000 series each. Of a server that does not change at most about one search in a hundred may
    have the finding: of 1,000, 25 or more are with probability less than 0.01 %."""
    found = [moved(runs, seed, lambda _: 1.0) for seed in range(1000)]
    assert sum(one is not None for one in found) <= 24
    assert max((one.share for one in found if one), default=0.0) < 0.1


def step_of(change: float) -> Course:
    """Return a peak that changes once, in the middle."""
    return lambda share: 1.0 if share < 0.5 else change


def drift_of(change: float) -> Course:
    """Return a peak that changes in equal parts."""
    return lambda share: 1 + (change - 1) * share


@pytest.mark.parametrize("change", [0.95, 1.05])
@pytest.mark.parametrize(
    ("course", "part"), [(step_of, 1.0), (drift_of, 0.5)], ids=["step", "drift"]
)
def test_a_change_is_seen_and_measured(
    course: Callable[[float], Course], part: float, change: float
) -> None:
    found = [moved(24, seed, course(change), 0.05) for seed in range(50)]
    seen = [one for one in found if one is not None]
    assert len(seen) >= 45
    ratios = [one.after / one.before for one in seen]
    # Of a drift the means of its parts differ by about half of it.
    assert np.mean(ratios) == pytest.approx(1 + part * (change - 1), abs=0.02)
    assert all(
        one.share == pytest.approx(max(r, 1 / r) - 1) for one, r in zip(seen, ratios, strict=True)
    )


def test_few_runs_show_no_change() -> None:
    assert moved(2 * tuning.MOVED_LEAST_RUNS - 1, 1, step_of(0.95), 0.01) is None
    assert moved(2 * tuning.MOVED_LEAST_RUNS, 1, step_of(0.95), 0.01) is not None


def test_a_change_is_reported_with_the_values_at_one_rate_in_time() -> None:
    history = [run_of(300.0, [value] * 60) for value in (40, 41, 40, 39, 60, 61, 60, 59)]
    runs = [
        MonotoneRun(300.0, trial.values[MEAN.key] / 40, 60.0, UNKNOWN_NOISE, MEAN.key)
        for trial in history
    ]
    found = movement(MEAN, history, runs, STEEP)
    assert found is not None
    assert found.before == pytest.approx(300, rel=0.01)
    assert found.after == pytest.approx(300 * 1.5 ** (-1 / STEEP), rel=0.01)
    assert "40 ms, 41 ms" in found.evidence
    assert "60 ms and 59 ms, in this order" in found.evidence


def test_an_answer_that_moved_is_undecided_with_both_peaks_in_its_interval() -> None:
    """The same rates, later with half as much again: the peak fell from 300/s to 285/s."""
    goal = msgspec.structs.replace(GOAL, claim=Claim(ClaimKind.RATE, 0.04))
    later = [run(one.rate, 180, 400 + n, times=1.5) for n, one in enumerate(KNOWN)]
    history = [*KNOWN, *later]
    while isinstance(step := Monotone().next(goal, history), Probe):
        assert len(history) < 80
        lasts = math.ceil(step.duration_s)
        history.append(run(step.rate, lasts, 500 + len(history), times=1.5))
    assert step.status is PeakStatus.UNDECIDED
    (finding,) = (one for one in step.findings if one.code == "drift")
    assert step.detail == finding.evidence
    assert step.interval is not None
    assert step.interval.low < 286
    assert step.interval.high > 297


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"budget_s": 1.0}, PeakStatus.BUDGET), ({"max_trials": 1}, PeakStatus.UNDECIDED)],
)
def test_a_search_that_ends_before_its_claim_says_that_the_peak_moved(
    limits: dict[str, float], status: PeakStatus
) -> None:
    goal = msgspec.structs.replace(GOAL, claim=Claim(ClaimKind.RATE, 0.04))
    times = [run(one.rate, 180, 400 + n, times=1.5) for n, one in enumerate(KNOWN)]
    moved_goal = msgspec.structs.replace(goal, **limits)  # type: ignore[arg-type]
    for history, codes in (([*KNOWN, *times], {"drift"}), (KNOWN, set())):
        step = next_peak_step(Monotone(), moved_goal, history)
        assert isinstance(step, ClaimResult)
        assert step.status is status
        assert {one.code for one in step.findings} & {"drift"} == codes
        assert (step.claim_probability is None) == bool(codes)
    result = next_peak_step(Monotone(), moved_goal, [*KNOWN, *times])
    assert isinstance(result, ClaimResult)
    assert result.interval is not None
    assert result.interval.low < 286
    assert result.interval.high > 297


def test_a_check_that_contradicts_leaves_both_peaks_of_a_change_in_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Movement(PEAK, 0.8 * PEAK, "the peak fell")
    monkeypatch.setattr(
        "benchwright.features.search.peak.policies.monotone.movement", lambda *_: found
    )
    history = [*KNOWN, *ABOVE, *below(1.6, tuning.MANY_TRIALS)]
    step = Monotone().next(GOAL, history)
    assert isinstance(step, ClaimResult)
    codes = [one.code for one in step.findings]
    assert codes[:2] == ["check-contradicts", "drift"]
    assert step.interval is not None
    assert step.interval.low <= 0.8 * PEAK < PEAK <= step.interval.high
