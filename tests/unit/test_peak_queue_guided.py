"""The queue-guided search: its parts on data whose answer is known, and whole searches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.search import (
    Claim,
    ClaimKind,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.next_run import Bracket, bracket_of, next_climb
from benchwright.decide.peak.posterior import (
    PEAK,
    Likelihood,
    ResponseCurve,
    best_answer,
    curve_of,
    likeliest,
    posterior,
    weighted_quantiles,
)
from benchwright.decide.peak.queue_guided import QueueGuided
from benchwright.decide.peak.reading import (
    MeasuredCapacity,
    RunEstimate,
    RunEstimates,
    SlownessByAge,
    fit_warm_up,
    read_runs,
    run_noise,
    without_contradictory_capacities,
)
from hand_written import overloaded_run, run_of
from held_out import BY_NAME
from servers import A, D
from world import play, search_of, unit_of


def _curve(gap: float, exponent: float) -> ResponseCurve:
    one = np.ones(1)
    return ResponseCurve(100 * one, gap * one, exponent * one, 0.3 * one)


@given(gap=st.floats(0.02, 1.0), exponent=st.floats(0.5, 8.0))
def test_a_curve_meets_its_limit_at_its_peak_and_rises(
    gap: float, exponent: float
) -> None:
    curve = _curve(gap, exponent)
    assert float(curve.response(np.array([100.0]))[0]) == pytest.approx(1.0, rel=1e-2)
    rates = np.linspace(5.0, 99.0 * (1 + gap), 50)
    values = [float(curve.response(np.array([rate]))[0]) for rate in rates]
    assert all(a <= b for a, b in itertools.pairwise(values))


def test_noise_of_independent_bins_is_their_variance() -> None:
    random = np.random.default_rng(1)
    found = [
        run_noise(1 + 0.1 * random.standard_normal(240), np.full(240, 50.0), 1.0, 0.0)
        for _ in range(200)
    ]
    assert np.mean([one.relative_s for one in found]) == pytest.approx(0.01, rel=0.25)
    assert all(one.freedom > 0 for one in found)


def test_few_bins_tell_no_noise() -> None:
    assert run_noise(np.ones(4), np.ones(4), 1.0, 0.0).freedom == 0


def _ageing(slowness: float, seed: int) -> SlownessByAge:
    age = np.arange(60) + 0.5
    noise = 0.05 * np.random.default_rng(seed).standard_normal(60)
    return SlownessByAge(age, slowness * np.exp(-age / 8.0) + noise, 0.05**2)


def test_a_warm_up_is_found_with_about_its_length() -> None:
    found = fit_warm_up([_ageing(0.3, 1), _ageing(0.3, 2)])
    assert found.slowness == pytest.approx(0.3, rel=0.4)
    assert 15 < found.lasts_s <= 40


def test_a_server_without_warm_up_is_rarely_given_one() -> None:
    given_one = sum(
        fit_warm_up([_ageing(0.0, seed)]).slowness > 0 for seed in range(300)
    )
    assert given_one < 30
    assert fit_warm_up([]).lasts_s == tuning.WARM_UP_LEAST_S


def test_quantiles_of_weighted_draws() -> None:
    values = np.arange(1000.0)
    weight = np.full(1000, 1e-3)
    found = weighted_quantiles(values, weight, (0.25, 0.75))
    assert found == pytest.approx([249.5, 749.5], abs=1)


def test_an_overloaded_run_tells_the_capacity() -> None:
    told = []
    for seed in range(8):
        search = search_of(QueueGuided(), A, seed)
        readings = read_runs(A.binding, search.history)
        told += [r.capacity for r in readings.runs if r.capacity is not None]
    ratios = [(one.rate / (4 / 0.015) - 1) / one.relative_sd for one in told]
    assert len(told) >= 8
    assert abs(float(np.mean(ratios))) < 1.0
    assert float(np.std(ratios)) < 2.0


def _read(history: Sequence[LoadTrial]) -> RunEstimates:
    return read_runs(A.binding, history, [6.0] * len(history))


def test_the_posterior_narrows_around_the_peak() -> None:
    search = search_of(QueueGuided(), A, 3)
    known = [
        posterior(_read(search.history[:n]), (100.0, 400.0), None)
        for n in (5, len(search.history))
    ]
    widths = [math.log(one.quantile(0.95) / one.quantile(0.05)) for one in known]
    assert widths[1] < 0.5 * widths[0]
    assert known[1].quantile(0.5) == pytest.approx(A.peak_rate, rel=0.03)


@pytest.mark.parametrize("kind", list(ClaimKind))
def test_an_answers_probability_is_one_of_the_draws(kind: ClaimKind) -> None:
    search = search_of(QueueGuided(), A, 3)
    known = posterior(_read(search.history), (100.0, 400.0), None)
    found = best_answer(Claim(kind), known)
    assert 0 <= found.probability <= 1
    assert found.low < found.high
    if kind is ClaimKind.SLO:
        assert found.rate < known.quantile(0.5)


def test_a_pool_of_fifty_is_found_at_once() -> None:
    """Its many precise runs are a small part of any wide proposal: without the likeliest curve as a beginning, searches
    ended after forty trials, or with a rate above the capacity."""
    server = BY_NAME["flat"]
    searches = [
        search_of(QueueGuided(), server, seed) for seed in range(100073, 100079)
    ]
    for search in searches:
        assert search.result is not None
        assert search.result.status is PeakStatus.FOUND
        assert search.result.peak_rate is not None
        response = server.response(search.result.peak_rate)
        assert response == pytest.approx(server.binding.limit, rel=0.12)
    assert np.median([len(search.history) for search in searches]) < 15


def test_the_likeliest_curve_is_where_draws_of_the_posterior_are() -> None:
    history = search_of(QueueGuided(), A, 3).history
    model = Likelihood(_read(history), (100.0, 400.0), None)
    centre, spread = likeliest(model, model.first())
    known = posterior(_read(history), (100.0, 400.0), None)
    middle, width = known.moments
    assert abs(centre - middle)[PEAK] < 2 * math.sqrt(width[PEAK, PEAK])
    assert 0.3 < spread[PEAK, PEAK] / width[PEAK, PEAK] < 3
    around = centre + 0.3 * np.linalg.cholesky(spread)
    here = sum(model.log_density(centre[None]))
    assert (sum(model.log_density(around)) <= here + 1e-2).all()


def test_the_exponent_is_expected_to_be_that_of_so_many_servers() -> None:
    """One server has 1; four have sqrt(2 * 5) - 1."""
    history = search_of(QueueGuided(), A, 3).history
    model = Likelihood(_read(history), (100.0, 400.0), None)
    one = np.array([[math.log(100), math.log(0.25), 0.0, 0.0, 0.0, -5.0, 0.0]])
    four = one.copy()
    four[0, 0] += math.log(4)
    shift, width = tuning.EXPONENT_OF_SERVERS
    for theta, servers in ((one, 2.5), (four, 10.0)):
        # The capacity times the unloaded response, half of 40 ms.
        centre, scale = model.exponent_prior(curve_of(theta))
        assert centre == pytest.approx(
            shift + math.log(math.sqrt(2 * (servers + 1)) - 1)
        )
        assert scale == width
    untimed = Likelihood(
        RunEstimates(_read(history).runs, 2.0, None), (100.0, 400.0), None
    )
    assert untimed.exponent_prior(curve_of(one)) == tuning.EXPONENT_PRIOR


def test_a_short_run_far_above_the_limit_is_not_steady() -> None:
    """The mean of a queue that begins to grow is a matter of the run's length."""
    search = search_of(QueueGuided(), BY_NAME["held-out-bursty"], 100089)
    runs = read_runs(A.binding, search.history).runs
    probe = [
        trial.lasted_s < 30 and run.rate > 1.2 * BY_NAME["held-out-bursty"].peak_rate
        for trial, run in zip(search.history, runs, strict=True)
    ]
    assert any(probe)
    assert not any(
        run.steady for run, is_probe in zip(runs, probe, strict=True) if is_probe
    )


@pytest.mark.parametrize("kind", list(ClaimKind))
def test_a_search_ends_with_its_claim(kind: ClaimKind) -> None:
    search = search_of(QueueGuided(), A, 11, Claim(kind))
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert search.result.claim_probability is not None
    assert search.result.claim_probability >= 0.95
    assert search.result.peak_rate == pytest.approx(A.peak_rate, rel=0.10)
    assert len(search.result.curve) == 40
    assert search.result.shape is not None


def test_the_next_step_depends_on_nothing_but_the_history() -> None:
    search = search_of(QueueGuided(), A, 5)
    for n in range(len(search.history)):
        again = QueueGuided().next(search.goal, search.history[:n])
        assert isinstance(again, Probe)
        assert again.rate == pytest.approx(search.probes[n].rate, rel=1e-4)
        assert again.duration_s == search.probes[n].duration_s


def test_a_resumed_search_ends_with_the_same_answer() -> None:
    whole = search_of(QueueGuided(), A, 7)
    goal = A.goal(None, unit_of(7))
    resumed = play(QueueGuided(), goal, A, 7, whole.history[:4])
    assert whole.result is not None
    assert resumed.result is not None
    assert resumed.result.peak_rate == whole.result.peak_rate


def _overloaded(index: int, capacity: float, offered: float) -> RunEstimate:
    told = MeasuredCapacity(capacity, 0.01)
    return RunEstimate(index, offered, 60.0, math.nan, capacity=told)


def test_capacities_that_grow_with_the_load_are_none() -> None:
    alike = RunEstimates(
        (_overloaded(0, 100, 130), _overloaded(1, 101, 200)), 2.0, 0.04
    )
    unlike = RunEstimates(
        (_overloaded(0, 100, 130), _overloaded(1, 130, 200)), 2.0, 0.04
    )
    assert without_contradictory_capacities(alike) is alike
    assert all(
        run.capacity is None for run in without_contradictory_capacities(unlike).runs
    )


def _trial(rate: float, response_ms: float, lasts_s: float = 20.0) -> LoadTrial:
    """Return a trial that tells its totals only."""
    return LoadTrial(
        rate=rate,
        duration_s=lasts_s,
        lasted_s=lasts_s,
        cost_s=lasts_s,
        values={A.binding.key: response_ms},
        offered=round(rate * lasts_s),
    )


def _asked(goal: PeakGoal, history: list[LoadTrial]) -> Probe:
    step = QueueGuided().next(goal, history)
    assert isinstance(step, Probe)
    return step


def test_the_climb_doubles_while_all_holds() -> None:
    goal = A.goal()
    assert _asked(goal, [_trial(50, 20)]).rate == 100


def test_the_descent_takes_ever_longer_steps() -> None:
    goal, history = A.goal(), [_trial(50, 90)]
    for _ in range(3):
        history.append(_trial(_asked(goal, history).rate, 90))
    assert [trial.rate for trial in history] == [50, 25, 6.25, 0.39062]


def test_a_wide_bracket_is_halved_before_the_curve_is_asked() -> None:
    history = [_trial(50, 90), _trial(2, 20)]
    step = _asked(A.goal(), history)
    assert step.purpose == "climb"
    assert step.rate == pytest.approx(10)


def test_a_run_length_that_was_set_is_that_of_every_trial() -> None:
    goal = msgspec.structs.replace(A.goal(), run_length_s=33.0)
    search = play(QueueGuided(), msgspec.structs.replace(goal, max_trials=8), A, 3)
    assert {probe.duration_s for probe in search.probes} == {33.0}


def test_an_overload_that_stays_bounded_is_not_repeated() -> None:
    history = [_trial(100, 20), _trial(200, 60)]
    purposes = []
    for _ in range(5):
        step = _asked(A.goal(), history)
        purposes.append(step.purpose)
        value = 80.0 if step.rate > 190 else 30.0
        history.append(_trial(step.rate, value, step.duration_s))
    assert purposes[0] == "overload"
    assert purposes.count("overload") == 1


def test_no_answer_is_beyond_the_limit_by_its_own_curve() -> None:
    for seed in range(1, 5):
        search = search_of(QueueGuided(), D, seed)
        limit = D.binding.limit * (1 + search.goal.claim.tolerance)
        for n in range(1, len(search.history) + 1):
            result = QueueGuided().best(search.goal, search.history[:n])
            assert result.peak_rate is not None
            below = [p for p in result.curve if p.rate <= result.peak_rate]
            assert max(point.middle for point in below) <= limit, (seed, n)
            assert result.interval is not None
            assert result.interval.low <= result.peak_rate <= result.interval.high


# The climb below a wall ---------------------------------------------------------------------------


def _bracket(
    below: tuple[float, ...], above: tuple[float, ...], *, quiet: bool, capacity: float
) -> Bracket:
    """Return a bracket whose rates were all realised as intended."""
    return Bracket(below, above, (capacity,), (*below, *above), quiet)


def test_the_climb_goes_on_below_a_wall_until_a_rate_close_to_it() -> None:
    goal = PeakGoal(criteria=A.criteria, claim=Claim(ClaimKind.RATE, 0.05))
    below, above = (200.0, 400.0, 800.0), (1600.0,)
    queue = _bracket(below, above, quiet=False, capacity=1500.0)
    assert next_climb(goal, queue) is None
    wall = _bracket(below, above, quiet=True, capacity=1500.0)
    probe = next_climb(goal, wall)
    assert probe is not None
    assert probe.purpose == "climb"
    assert probe.rate == pytest.approx(math.sqrt(800 * 1500), rel=1e-4)
    # 1450/s held, but it is so close that its queue is no longer empty.
    close = _bracket((*below, 1450.0), above, quiet=True, capacity=1500.0)
    probe = next_climb(goal, close)
    assert probe is not None
    assert probe.rate == pytest.approx(1500 / 1.15, rel=1e-4)
    shown = _bracket((*below, 1450.0, 1310.0), above, quiet=True, capacity=1500.0)
    assert next_climb(goal, shown) is None


@given(miss=st.floats(0.7, 1.3), peak=st.floats(820.0, 1580.0))
def test_the_climb_below_a_wall_ends_whatever_the_generator_offers(
    miss: float, peak: float
) -> None:
    """The generator always offers `miss` times the intended rate."""
    goal = PeakGoal(criteria=A.criteria, claim=Claim(ClaimKind.RATE, 0.05))
    tried, below, above = [800 / miss, 1600 / miss], [800.0], [1600.0]
    for _ in range(30):
        bracket = Bracket(tuple(below), tuple(above), (), tuple(tried), quiet=True)
        probe = next_climb(goal, bracket)
        if probe is None:
            break
        tried.append(probe.rate)
        offered = miss * probe.rate
        (below if offered < peak else above).append(offered)
    assert len(tried) <= 12


def test_only_a_claim_of_the_rate_looks_for_a_wall() -> None:
    history = [run_of(800.0, [2.2] * 5), overloaded_run(1800, 1500)]
    region = PeakGoal(criteria=A.criteria)
    rate = msgspec.structs.replace(region, claim=Claim(ClaimKind.RATE, 0.05))
    assert bracket_of(rate, history).quiet
    assert not bracket_of(region, history).quiet
    assert not bracket_of(rate, [run_of(800.0, [3.0] * 5), history[1]]).quiet
