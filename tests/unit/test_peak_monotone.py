"""The monotone search: on curves of any shape, with noise and without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.check import IntendedRun, region_crossing
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.monotone_posterior import (
    MonotonePosterior,
    MonotoneRun,
    monotone_posterior,
)
from benchwright.features.search.peak.policies.reading import UNKNOWN_NOISE
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from held_out import BY_NAME
from world import play, search_of

MEAN = Criterion(key="response_ms_mean", limit=40.0)
METRIC = Criterion(key="quality", limit=10.0, unit="", statistic="metric")
HIGHER = Criterion(key="within_40ms_share", limit=0.9, unit="", better="higher", statistic="share")
Curve = Callable[[float], float]


def run(probe: Probe, key: str, curve: Curve, noise: float, seed: int) -> LoadTrial:
    """Return a trial of a curve with this relative noise of a second's value."""
    random = np.random.default_rng(seed)
    n = math.ceil(probe.duration_s)
    level = curve(probe.rate)
    column = level * (1 + noise * random.standard_normal(n))
    return LoadTrial(
        rate=probe.rate,
        duration_s=probe.duration_s,
        lasted_s=probe.duration_s,
        cost_s=probe.duration_s,
        values={key: float(column.mean())},
        series=LoadSeries(
            at_s=tuple(float(i) for i in range(n)),
            counts=(max(round(probe.rate), 1),) * n,
            values={key: tuple(column.tolist())},
        ),
        ending=LoadEnding.WHOLE,
    )


def posterior(goal: PeakGoal, history: Sequence[LoadTrial]) -> MonotonePosterior:
    """Return the distribution of the peak, with the usual part of each run left out."""
    return monotone_posterior(goal, history, tuning.WARM_UP_SHARE)


def searched(goal: PeakGoal, curve: Curve, noise: float = 0.1) -> ClaimResult:
    """Return what a search of a curve came to."""
    history: list[LoadTrial] = []
    key = goal.criteria[0].key
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        history.append(run(step, key, curve, noise, len(history)))
    return step


def test_curves_that_grow_are_found_as_often_as_is_claimed() -> None:
    random = np.random.default_rng(20261121)
    right = 0
    for _ in range(80):
        peak = math.exp(random.uniform(3, 8.5))
        steepness, bend = random.uniform(1, 25), random.uniform(-0.3, 1.0)

        def curve(rate: float, at: float = peak, k: float = steepness, b: float = bend) -> float:
            z = min(max(k * math.log(rate / at), -0.9), 3.0)
            return 10 * math.exp(z + b * z * z / 2)

        goal = PeakGoal(criteria=(METRIC,), claim=Claim(ClaimKind.RATE, 0.1))
        result = searched(goal, curve)
        assert result.status is PeakStatus.FOUND
        assert result.peak_rate is not None
        assert result.interval is not None
        assert result.interval.low <= result.peak_rate <= result.interval.high
        right += abs(result.peak_rate / peak - 1) <= 0.1
    # The claim's 95 %, less three standard deviations of 80 searches.
    assert right >= 71


def test_a_step_is_bracketed() -> None:
    goal = PeakGoal(criteria=(METRIC,), claim=Claim(ClaimKind.RATE, 0.05))
    result = searched(goal, lambda rate: 1.0 if rate < 333 else 500.0)
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(333, rel=0.05)


def step_at_300(rate: float) -> float:
    """Return a response that is flat but for one rate [ms]."""
    return 12.0 if rate <= 300 else 50.0


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_a_jump_across_the_region_is_no_region(noise: float) -> None:
    goal = PeakGoal(criteria=(MEAN,), start_rate=50.0)
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        history.append(run(step, MEAN.key, step_at_300, noise, len(history)))
    assert step.status is PeakStatus.UNDECIDED
    assert "response-jumps" in {finding.code for finding in step.findings}
    assert step.peak_rate == pytest.approx(300, rel=0.01)
    assert step.interval is not None
    assert step.interval.low <= 300 <= step.interval.high
    assert len(history) <= 60


def asked(rate: float, value: float, lasts_s: float = 60.0) -> IntendedRun:
    """Return a run at a rate with a response as a share of the limit."""
    return IntendedRun(rate, MonotoneRun(rate, value, lasts_s, UNKNOWN_NOISE, MEAN.key))


def test_one_run_in_the_region_is_enough_for_no_jump() -> None:
    below = [asked(299, 0.4), asked(299.5, 0.41), asked(299.8, 0.41)]
    above = [asked(301, 1.3), asked(300.5, 1.31), asked(300.2, 1.3)]
    sides = [*below, *above]
    known = region_crossing(sides, 0.1)
    assert known is not None
    assert (known.low, known.high) == (299.8, 300.2)
    assert known.is_jump(noise_s=0.5)
    assert not known.is_jump(noise_s=20.0), "noise explains it"
    assert region_crossing([*sides, asked(300, 1.05)], 0.1) is None
    assert region_crossing([*sides, asked(300, 1.05, lasts_s=15.0)], 0.1) == known, "short"
    assert region_crossing(below, 0.1) is None


def test_seconds_with_a_pause_are_no_overload_where_a_long_run_holds() -> None:
    paused = asked(233, math.inf, 5.0)
    long_runs = [asked(231, 0.74, 180.0), asked(246, 0.75, 60.0)]
    assert region_crossing([paused, *long_runs], 0.1) is None
    beyond = asked(300, math.inf, 5.0)
    crossing = region_crossing([paused, *long_runs, beyond], 0.1)
    assert crossing is not None
    assert (crossing.low, crossing.high) == (246, 300)
    # As long as the others it is believed, and the sides are mixed.
    mixed = region_crossing([asked(233, math.inf, 60.0), *long_runs], 0.1)
    assert mixed is not None
    assert mixed.is_mixed


def test_sides_that_are_far_apart_in_rate_are_no_jump() -> None:
    below = [asked(280, 0.4), asked(281, 0.41), asked(282, 0.41)]
    above = [asked(301, 1.3), asked(300.5, 1.31), asked(302, 1.3)]
    known = region_crossing([*below, *above], 0.1)
    assert known is not None
    assert not known.is_jump(noise_s=0.5)
    assert 290 < known.middle < 292


def test_what_grows_on_its_sides_is_no_jump() -> None:
    below = [asked(294, 0.35), asked(297, 0.5), asked(299.7, 0.8)]
    above = [asked(300.3, 1.2), asked(303, 1.8), asked(304, 2.5)]
    known = region_crossing([*below, *above], 0.1)
    assert known is not None
    assert not known.is_jump(noise_s=0.05)


def test_sides_that_the_chance_in_arrivals_mixes_can_be_a_jump() -> None:
    below = [asked(299, 0.4), asked(300.5, 0.41), asked(301, 0.41)]
    above = [asked(302, 1.3), asked(300.5, 1.31), asked(299.5, 1.3)]
    known = region_crossing([*below, *above], 0.1)
    assert known is not None
    assert known.is_mixed
    assert known.is_jump(noise_s=0.5)
    far = region_crossing([*below, asked(340, 0.41), *above], 0.1)
    assert far is not None
    assert not far.is_jump(noise_s=0.5)


def test_a_share_that_falls_is_searched_too() -> None:
    goal = PeakGoal(criteria=(HIGHER,), claim=Claim(ClaimKind.RATE, 0.05))
    result = searched(goal, lambda rate: 1 - 0.1 * (rate / 400) ** 3, noise=0.001)
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(400, rel=0.05)


def test_a_one_sided_answer_is_below_the_middle() -> None:
    def curve(rate: float) -> float:
        return 10 * (rate / 300) ** 5

    sure = searched(PeakGoal(criteria=(METRIC,), claim=Claim(ClaimKind.SLO)), curve, 0.3)
    assert sure.status is PeakStatus.FOUND
    assert sure.peak_rate is not None
    assert sure.peak_rate < 300
    assert sure.interval is not None


@pytest.mark.parametrize("kind", [ClaimKind.RATE, ClaimKind.SLO])
def test_a_claim_of_99_per_cent_asks_for_no_more_than_certainty(kind: ClaimKind) -> None:
    claim = Claim(kind, 0.05, confidence=0.99)
    goal = PeakGoal(criteria=(METRIC,), claim=claim, max_trials=60)
    result = searched(goal, lambda rate: 10 * (rate / 300) ** 5, 0.3)
    assert result.status is PeakStatus.FOUND
    assert result.claim_probability is not None
    assert result.claim_probability >= 0.99
    assert result.peak_rate == pytest.approx(300, rel=0.05)


def test_more_load_makes_the_peak_surer() -> None:
    goal = PeakGoal(criteria=(METRIC,))
    rates = (100.0, 250.0, 290.0, 310.0, 400.0)

    def width(lasts_s: float) -> float:
        history = [
            run(Probe(rate, lasts_s), METRIC.key, lambda r: (r / 300) ** 6 * 10, 0.5, i)
            for i, rate in enumerate(rates)
        ]
        known = posterior(goal, history)
        return known.quantile(0.9) / known.quantile(0.1)

    assert width(400.0) < width(30.0)


@pytest.mark.parametrize(
    ("kind", "least", "most"), [(ClaimKind.RATE, 0.03, 0.2), (ClaimKind.REGION, 0.002, 0.01)]
)
def test_runs_for_a_claim_of_the_rate_are_farther_from_the_answer(
    kind: ClaimKind, least: float, most: float
) -> None:
    """They show the steepness, which the rate at the limit depends on."""
    goal = PeakGoal(criteria=(METRIC,), claim=Claim(kind, 0.01))
    history = [
        run(Probe(rate, 60.0), METRIC.key, lambda r: (r / 300) ** 10 * 10, 1.5, i)
        for i, rate in enumerate((285.0, 295.0, 305.0, 315.0))
    ]
    step = Monotone().next(goal, history)
    assert isinstance(step, Probe)
    assert step.purpose == "hold"
    answer = Monotone().best(goal, history).peak_rate
    assert answer is not None
    steepness = posterior(goal, history).steepness
    assert least < steepness * abs(math.log(step.rate / answer)) < most


def test_a_failed_trial_is_overload() -> None:
    goal = PeakGoal(criteria=(METRIC,))
    good = run(Probe(100.0, 20.0), METRIC.key, lambda _rate: 1.0, 0.1, 1)
    bad = LoadTrial(
        rate=200.0,
        duration_s=20.0,
        lasted_s=0.0,
        cost_s=3.0,
        ending=LoadEnding.FAILED,
        failure="it died",
    )
    assert posterior(goal, [good, bad]).bracket == (100.0, 200.0)


def test_nothing_is_known_of_nothing() -> None:
    result = Monotone().best(PeakGoal(criteria=(METRIC,)), [])
    assert result.peak_rate is None
    assert result.status is PeakStatus.UNDECIDED


def refused(claim: Claim) -> tuple[ClaimResult, list[LoadTrial]]:
    """Return the search of a server far from its limit at 200/s, where it refuses."""
    goal = PeakGoal(criteria=(MEAN,), start_rate=50.0, claim=claim)
    history: list[LoadTrial] = []
    step = next_peak_step(Monotone(), goal, history)
    while isinstance(step, Probe):
        seed = len(history)
        here = run(step, MEAN.key, lambda rate: 12 + 0.06 * rate, 0.1, seed)
        if step.rate > 200:
            here = LoadTrial(
                rate=step.rate,
                duration_s=step.duration_s,
                lasted_s=0.1,
                cost_s=0.1,
                ending=LoadEnding.FAILED,
                failure="connection refused",
            )
        history.append(here)
        step = next_peak_step(Monotone(), goal, history)
    return step, history


def test_a_server_that_refuses_is_not_asked_for_more_again_and_again() -> None:
    result, history = refused(Claim())
    failed = [trial.rate for trial in history if trial.ending is LoadEnding.FAILED]
    assert all(failed.count(rate) == 2 for rate in failed), "each twice, and not more"
    assert len(history) <= 40
    assert result.status is PeakStatus.UNDECIDED, "no response there is near the limit"
    assert "no rate has a response near the limit" in result.detail
    assert result.interval is not None
    assert 198 <= result.interval.low <= 200 <= result.interval.high < 203
    assert result.peak_rate is not None
    held = {trial.rate for trial in history if trial.ending is not LoadEnding.FAILED}
    assert result.peak_rate == pytest.approx(max(held), rel=1e-4)
    told = [one.code for one in result.findings]
    assert told.count("failure-counted-as-overload") == 1


@pytest.mark.parametrize("kind", [ClaimKind.RATE, ClaimKind.SLO])
def test_a_rate_is_claimed_where_a_server_refuses(kind: ClaimKind) -> None:
    result, history = refused(Claim(kind, 0.05))
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(200, rel=0.05)
    lowest = min(t.rate for t in history if t.ending is LoadEnding.FAILED)
    assert result.peak_rate < lowest, "never a rate that failed"
    assert result.interval is not None
    assert result.interval.low <= result.peak_rate <= result.interval.high <= lowest


@pytest.mark.parametrize("seed", [1052, 1090])
def test_one_run_far_from_the_limit_keeps_no_search_at_one_rate(seed: int) -> None:
    """A short run from cold was far beyond the limit below the peak: 155 and 100 of the
    trials that followed were at one rate, whose response is near the limit."""
    search = search_of(Monotone(), BY_NAME["mm8-cold-per-trial"], seed)
    assert search.result is not None
    codes = {finding.code for finding in search.result.findings}
    assert "rate-not-decided" not in codes
    assert len(search.history) <= 40
    at_one_rate = Counter(probe.rate for probe in search.probes)
    assert max(at_one_rate.values()) <= 5


# -- the random number of arrivals ----------------------------------------------------------


# -- a failure is tried again ---------------------------------------------------------------


def disturbed(at_trial: int, most: int = 400) -> tuple[list[LoadTrial], list[Probe], ClaimResult]:
    """Return a search of a server with its peak at 300/s, of which one trial is disturbed."""
    claim = Claim(ClaimKind.RATE, 0.05)
    goal = PeakGoal(criteria=(MEAN,), claim=claim, start_rate=30.0, max_trials=most)
    history: list[LoadTrial] = []
    probes: list[Probe] = []
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        slower = 20.0 if len(history) + 1 == at_trial else 1.0
        probes.append(step)
        history.append(
            run(
                step,
                MEAN.key,
                lambda rate, slow=slower: 40 * slow * min((rate / 300) ** 6 + 0.2, 30),
                0.1,
                len(history),
            )
        )
    return history, probes, step


@pytest.mark.parametrize("at_trial", [1, 2, 3])
def test_one_false_failure_far_below_the_peak_does_not_bound_the_answer(at_trial: int) -> None:
    history, probes, result = disturbed(at_trial)
    false = history[at_trial - 1]
    assert false.rate <= 120
    assert probes[at_trial].purpose == "confirm"
    assert probes[at_trial].rate == false.rate
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(290, rel=0.05)
    assert [probe.purpose for probe in probes].count("confirm") <= 4
    assert [one.rate for one in history].count(false.rate) <= 4


def test_a_failure_of_the_server_is_confirmed_once() -> None:
    history, probes, _ = disturbed(at_trial=0)
    failed = next(one.rate for one in history if one.values[MEAN.key] > 80)
    assert [one.rate for one in history].count(failed) == 2
    assert [one.purpose for one in probes if one.rate == failed].count("confirm") == 1


def test_an_answer_while_a_failure_is_unconfirmed_is_not_below_what_held() -> None:
    """Cut right after the false failure: it is one trial against none, so an interval begins there."""
    history, _, result = disturbed(at_trial=4, most=4)
    held = max(one.rate for one in history if one.values[MEAN.key] < 40)
    assert result.peak_rate is not None
    assert result.peak_rate >= held
    assert result.interval is None or result.interval.high >= held


def test_a_search_cut_at_any_trial_goes_on_to_the_same_answer() -> None:
    whole = search_of(Monotone(), BY_NAME["A-mm4"], 7)
    for cut in range(0, len(whole.history), 3):
        copies = [msgspec.structs.replace(one) for one in whole.history[:cut]]
        resumed = play(Monotone(), whole.goal, BY_NAME["A-mm4"], 7, copies)
        assert resumed.result == whole.result
        assert [one.rate for one in resumed.history] == [one.rate for one in whole.history]


def test_a_run_length_that_was_set_is_that_of_every_trial() -> None:
    goal = PeakGoal(criteria=(MEAN,), start_rate=20.0, run_length_s=77.0)
    history: list[LoadTrial] = []
    purposes = set()
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        assert step.duration_s == 77
        purposes.add(step.purpose)
        history.append(run(step, MEAN.key, lambda rate: 40 * (rate / 300) ** 6, 0.1, len(history)))
    assert {"double", "hold", "check"} <= purposes
