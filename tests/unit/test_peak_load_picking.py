"""Algorithms 3 and 4 of the workbench paper, step by step, and what must always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.features.search.peak.policies.published import (
    LoadMean,
    LoadPicking,
    binsearch,
    linear,
    load_of_polynomial,
    model_guided,
    model_guided_polynomial,
    predicted_load,
)
from benchwright.features.search.types import PeakGoal

LIMIT = 40.0


def goal(start: float, increment: float | None = None) -> PeakGoal:
    criteria = (Criterion("response_ms_mean", LIMIT),)
    return PeakGoal(criteria=criteria, start_rate=start, increment=increment)


def load(rate: float, mean: float) -> LoadMean:
    return LoadMean(rate, mean, LIMIT, mean > LIMIT)


def played(picking: LoadPicking, seed: float, peak: float, loads: int) -> list[float]:
    """Return the first loads on a server without noise: R = 40 peak / (2 peak - rate)."""
    tested: list[LoadMean] = []
    for _ in range(loads):
        pick = picking(goal(seed), tested)
        if pick is None:
            break
        room = 2 * peak - pick.rate
        tested.append(load(pick.rate, LIMIT * peak / room if room > 0 else 1e4))
    return [one.rate for one in tested]


def test_binsearch_doubles_then_bisects() -> None:
    rates = played(binsearch, 50.0, 236.0, 7)
    assert rates == [50, 100, 200, 400, 300, 250, 225]


def test_binsearch_bisects_between_its_last_load_and_the_one_that_saturated() -> None:
    """binsearch_low is lambda_prev when the geometric phase ends."""
    assert played(binsearch, 200.0, 236.0, 3) == [200, 400, 300]


def test_linear_steps_then_bisects() -> None:
    rates = played(linear, 50.0, 75.0, 6)
    assert rates == [50, 60, 70, 80, 75, 77.5]


def test_a_seed_above_the_peak_is_followed_by_lower_loads() -> None:
    assert played(binsearch, 64.0, 1.0, 4) == [64, 32, 8, 0.5]
    assert played(linear, 64.0, 30.0, 4) == [64, 32, 8, 20]


def test_a_bracket_that_noise_closed_holds_no_load() -> None:
    assert binsearch(goal(50.0), [load(100, 30), load(100.001, 50)]) is None


def test_the_model_takes_the_response_nearest_to_the_limit() -> None:
    tested = [load(50, 16), load(100, 20), load(400, 900), load(300, 100)]
    assert model_guided(goal(50.0), tested[:1]) is not None
    pick = model_guided(goal(50.0), tested)
    assert pick is not None
    # Through (300, 100) and (100, 20): b = 80 / (1/300 - 1/100), a = 100 - b / 300.
    b = 80 / (1 / 300 - 1 / 100)
    assert pick.rate == pytest.approx(b / (LIMIT - (100 - b / 300)))
    assert pick.purpose == "model"


def test_the_model_doubles_or_halves_after_one_load() -> None:
    assert [p.rate for p in [model_guided(goal(50.0), [load(50, 20)])] if p] == [100]
    assert [p.rate for p in [model_guided(goal(50.0), [load(50, 80)])] if p] == [25]


def test_a_model_that_is_undefined_is_replaced_and_says_so() -> None:
    flat = [load(50, 19), load(100, 20)]  # R = 21 - 100 / load never is 40.
    pick = model_guided(goal(50.0), flat)
    assert pick is not None
    assert pick.rate == 200
    assert "undefined" in pick.purpose
    lost = model_guided(goal(50.0), [load(50, 20), load(100, math.inf)])
    assert lost is not None
    assert lost.rate == 50
    assert "undefined" in lost.purpose


def test_a_prediction_out_of_all_proportion_counts_as_undefined() -> None:
    nearly = [load(50, 38.0), load(100, 39.0001)]  # Meets 40 ms at 500,050/s.
    assert (predicted_load(nearly[1], nearly[0]) or 0) > 1e5
    pick = model_guided(goal(50.0), nearly)
    assert pick is not None
    assert pick.rate == 200
    assert "undefined" in pick.purpose


@given(
    rates=st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)),
    means=st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)),
)
def test_a_prediction_meets_the_limit_on_the_model_through_both(
    rates: tuple[float, float], means: tuple[float, float]
) -> None:
    one, other = load(rates[0], means[0]), load(rates[1], means[1])
    found = predicted_load(one, other)
    if found is None or abs(rates[0] - rates[1]) < 1e-3 * rates[0]:
        return
    # The three points lie on one line over 1 / load.
    slope = (means[0] - means[1]) / (1 / rates[0] - 1 / rates[1])
    size = abs(slope) * (1 / rates[0] + 1 / found) + LIMIT + means[0]
    assert abs(means[0] + slope * (1 / found - 1 / rates[0]) - LIMIT) <= 1e-6 * size


def test_the_polynomial_begins_with_a_doubled_or_halved_load_and_a_line() -> None:
    tested = [load(50, 10), load(100, 12)]
    for known, expected in ((tested[:1], 100), ([load(50, 80)], 25), (tested, 800)):
        pick = model_guided_polynomial(goal(50.0), known)
        assert pick is not None
        assert pick.rate == pytest.approx(expected)


def test_the_polynomial_goes_through_the_current_load_and_the_two_nearest() -> None:
    """R = 10 + 0.02 load + 0.0003 load^2, except at the load that is far from the limit."""
    curve = [load(rate, 10 + 0.02 * rate + 0.0003 * rate**2) for rate in (100, 200)]
    tested = [load(50, 3.0), *curve, load(400, 10 + 8 + 48)]
    pick = model_guided_polynomial(goal(50.0), tested)
    assert pick is not None
    assert pick.purpose == "model"
    assert 0.02 * pick.rate + 0.0003 * pick.rate**2 == pytest.approx(LIMIT - 10)


def test_a_polynomial_that_does_not_meet_the_limit_is_replaced() -> None:
    hump = [load(100, 30), load(200, 35), load(400, 20)]  # At most 36 ms.
    pick = model_guided_polynomial(goal(50.0), hump)
    assert pick is not None
    assert (pick.rate, "undefined" in pick.purpose) == (800, True)
    lost = [load(100, 30), load(200, 35), load(400, math.inf)]
    pick = model_guided_polynomial(goal(50.0), lost)
    assert pick is not None
    assert (pick.rate, "undefined" in pick.purpose) == (200, True)


@given(rates=st.tuples(*[st.floats(1, 1e4)] * 3), means=st.tuples(*[st.floats(0.1, 1e4)] * 3))
def test_a_load_of_the_polynomial_is_on_its_rising_branch(
    rates: tuple[float, ...], means: tuple[float, ...]
) -> None:
    found = load_of_polynomial([load(*one) for one in zip(rates, means, strict=True)])
    ordered = sorted(rates)
    apart = min(ordered[1] - ordered[0], ordered[2] - ordered[1])
    if found is None or apart < 1e-2 * ordered[2]:
        return

    def shares(at: float) -> list[float]:
        """Return the part of each load in the value of Lagrange's polynomial."""
        return [
            mean * math.prod((at - r) / (rate - r) for r in rates if r != rate)
            for rate, mean in zip(rates, means, strict=True)
        ]

    size = sum(map(abs, shares(found)))
    assert abs(sum(shares(found)) - LIMIT) <= 1e-6 * size
    assert sum(shares(1.001 * found)) >= LIMIT - 1e-5 * size


def test_the_linear_policies_take_the_step_of_the_goal() -> None:
    tested = [load(50, 20)]
    assert [one.rate for one in [linear(goal(50.0, 2.5), tested)] if one] == [52.5]


@given(seed=st.floats(1, 1e4), peak=st.floats(1, 1e4))
def test_binsearch_closes_in_on_the_peak_in_logarithmic_steps(seed: float, peak: float) -> None:
    rates = played(binsearch, seed, peak, 60)
    climb = abs(math.log2(peak / seed))
    assert abs(rates[-1] / peak - 1) < 1e-3
    assert len(rates) <= 2 * climb + 20
