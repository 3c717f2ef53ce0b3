"""The Universal Scalability Law: the published formula's properties, and the fit of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from benchwright.features.search.ramp.scalability import (
    LogRegression,
    SaturatingLaw,
    ValueBounds,
    fit_usl,
    profile_interval,
    saturating_law,
    users_at_peak,
    usl_band,
    usl_throughput,
    why_no_fit,
)
from benchwright.features.search.ramp.types import ScalabilityModel
from benchwright.stats.arrays import FloatArray

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
gammas = st.floats(1e-2, 1e6)
sigmas = st.floats(0.001, 0.5)
kappas = st.floats(1e-5, 0.01)


def throughputs(gamma: float, sigma: float, kappa: float) -> FloatArray:
    """Return the law's throughput at each level."""
    return usl_throughput(np.array(LEVELS), gamma, sigma, kappa)


def noisy(seed: int, gamma: float, sigma: float, kappa: float, noise: float = 0.03) -> list[float]:
    """Return throughputs with relative normal noise."""
    errors = np.random.default_rng(seed).normal(0, noise, len(LEVELS))
    return [float(x) for x in throughputs(gamma, sigma, kappa) * np.exp(errors)]


@given(gammas, sigmas, kappas)
def test_the_published_formulas_properties_hold(gamma: float, sigma: float, kappa: float) -> None:
    """Gunther 2007: X(1) is gamma; the maximum is at sqrt((1 - sigma)/kappa)."""
    peak = users_at_peak(sigma, kappa)
    assert peak is not None
    users = np.array([1.0, peak / 1.01, peak, peak * 1.01])
    one, before, top, after = usl_throughput(users, gamma, sigma, kappa)
    assert one == pytest.approx(gamma)
    assert before <= top >= after
    amdahl = usl_throughput(np.array([1e9]), gamma, sigma, 0.0)
    assert amdahl[0] == pytest.approx(gamma / sigma, rel=1e-4)
    assert users_at_peak(sigma, 0.0) is None


@settings(max_examples=25)
@given(gammas, sigmas, kappas)
def test_exact_data_give_their_parameters_back(gamma: float, sigma: float, kappa: float) -> None:
    found = fit_usl(LEVELS, throughputs(gamma, sigma, kappa).tolist())
    assert found.gamma.value == pytest.approx(gamma, rel=1e-6)
    assert found.sigma.value == pytest.approx(sigma, rel=1e-5)
    assert found.kappa.value == pytest.approx(kappa, rel=1e-5)
    assert found.users_at_peak is not None
    assert found.users_at_peak.value == pytest.approx(users_at_peak(sigma, kappa), rel=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_fit_is_scipys_within_the_same_bounds(seed: int) -> None:
    measured = noisy(seed, 120.0, 0.05, 0.0003 if seed % 2 else 0.0)

    def law(n: FloatArray, gamma: float, sigma: float, kappa: float) -> FloatArray:
        return np.log(usl_throughput(n, gamma, sigma, kappa))

    (gamma, sigma, kappa), _ = curve_fit(
        *(law, np.array(LEVELS), np.log(measured)),
        p0=(measured[0], 0.05, 1e-4),
        bounds=((1e-9, 0, 0), (np.inf, 1, np.inf)),
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
        x_scale=(100, 0.1, 1e-3),
    )
    found = fit_usl(LEVELS, measured)
    assert found.gamma.value == pytest.approx(gamma, rel=2e-3)
    assert found.sigma.value == pytest.approx(sigma, rel=1e-2, abs=1e-4)
    assert found.kappa.value == pytest.approx(kappa, rel=1e-2, abs=1e-6)


def test_weights_are_scipys() -> None:
    measured = noisy(3, 120.0, 0.05, 0.0005)
    variances = [0.01, 0.0025, 0.0004, 0.0001, 0.0001, 0.0001, 0.0002]

    def law(n: FloatArray, gamma: float, sigma: float, kappa: float) -> FloatArray:
        return np.log(usl_throughput(n, gamma, sigma, kappa))

    (gamma, _, kappa), _ = curve_fit(
        *(law, np.array(LEVELS), np.log(measured)), p0=(120.0, 0.05, 5e-4), sigma=np.sqrt(variances)
    )
    found = fit_usl(LEVELS, measured, variances)
    assert found.gamma.value == pytest.approx(gamma, rel=1e-3)
    assert found.kappa.value == pytest.approx(kappa, rel=1e-3)


def test_kappa_that_the_data_do_not_tell_from_zero_has_no_largest_peak() -> None:
    found = fit_usl(LEVELS, noisy(1, 100.0, 0.05, 1e-6))
    assert found.kappa.low == 0
    assert found.preferred is ScalabilityModel.AMDAHL
    if found.users_at_peak is not None:
        assert math.isinf(found.users_at_peak.high)


@pytest.mark.parametrize(
    ("law", "preferred"),
    [
        ((100.0, 0.0, 0.0), ScalabilityModel.LINEAR),
        ((100.0, 0.2, 0.0), ScalabilityModel.AMDAHL),
        ((100.0, 0.02, 0.002), ScalabilityModel.USL),
        ((100.0, 0.0, 0.002), ScalabilityModel.USL),
    ],
)
def test_the_simplest_law_that_is_not_refuted_is_preferred(
    law: tuple[float, float, float], preferred: ScalabilityModel
) -> None:
    found = [fit_usl(LEVELS, noisy(seed, *law, noise=0.01)) for seed in range(20)]
    agreed = sum(one.preferred is preferred for one in found)
    assert agreed >= 17, "each step up is taken wrongly in 5 % of profiles"


def levelling(throughput: FloatArray) -> SaturatingLaw:
    """Return the saturating law fitted to throughputs of LEVELS."""
    users = np.array(LEVELS)
    return saturating_law(LogRegression(users / throughput, np.ones_like(users)), users)


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 6.0, 16.0])
def test_a_saturating_law_is_found_again(sharpness: float) -> None:
    users = np.array(LEVELS)
    measured = ((100 * users) ** -sharpness + 1500**-sharpness) ** (-1 / sharpness)
    law = levelling(measured)
    assert law.squares == pytest.approx(0, abs=1e-9)
    assert (law.gamma, law.limit, law.sharpness) == pytest.approx((100, 1500, sharpness), rel=1e-3)


def test_a_straight_line_and_a_constant_are_ends_of_the_saturating_law() -> None:
    users = np.array(LEVELS)
    line = levelling(50 * users)
    assert (line.gamma, line.squares) == pytest.approx((50, 0), abs=1e-6)
    assert line.limit > 1e4
    constant = levelling(np.full_like(users, 70.0))
    assert constant.limit == pytest.approx(70, rel=1e-3)
    falling = levelling(70 / users)
    assert falling.squares > 1


def test_a_maximum_is_claimed_only_against_a_law_that_levels_off() -> None:
    """A pool bends as the whole law does, and never falls."""
    users = LEVELS * 3
    random = np.random.default_rng(4)
    noise = np.exp(random.normal(0, 0.03, len(users)))
    pool = (100 * np.minimum(np.array(users), 12) * noise).tolist()
    found = fit_usl(users, pool)
    assert found.kappa.low > 0, "without kappa no knee is so sharp"
    assert found.preferred is ScalabilityModel.SATURATING
    assert found.law is not None
    assert found.law.asymptote == pytest.approx(1200, rel=0.05)
    assert found.law.sharpness is not None
    assert found.users_at_peak is not None
    assert math.isinf(found.users_at_peak.high)
    assert fit_usl(users, pool, fell=True).preferred is ScalabilityModel.USL
    law = (np.tile(throughputs(100, 0.03, 0.005), 3) * noise).tolist()
    assert fit_usl(users, law).preferred is ScalabilityModel.USL
    seen = fit_usl(users, law, fell=False)
    assert seen.preferred is ScalabilityModel.SATURATING, "the levels have the say"


def test_a_kink_refutes_the_law_and_noise_does_not() -> None:
    """Two bottlenecks: linear up to 16 users, flat beyond."""
    users = np.arange(1.0, 41.0)
    kink = np.minimum(users, 16.0) * 50
    errors = np.random.default_rng(1).normal(0, 0.005, users.size)
    assert fit_usl(users.tolist(), (kink * np.exp(errors)).tolist()).refuted
    lawful = usl_throughput(users, 50, 0.01, 0.001) * np.exp(errors)
    assert not fit_usl(users.tolist(), lawful.tolist()).refuted


def test_throughput_that_falls_from_the_second_user_on_peaks_at_one() -> None:
    found = fit_usl((1.0, 2.0, 4.0, 8.0, 16.0), (100.0, 60.0, 31.0, 16.0, 7.5))
    assert found.sigma.value <= 1
    assert found.users_at_peak is not None
    assert found.users_at_peak.value == pytest.approx(1, abs=0.5)


def test_the_band_holds_the_curve_and_is_widest_where_nothing_was_measured() -> None:
    measured = noisy(5, 100.0, 0.05, 0.0005, 0.05)
    band = usl_band(LEVELS, measured)
    assert [point.users for point in band] == sorted(point.users for point in band)
    assert all(point.low <= point.middle <= point.high for point in band)
    assert (band[0].users, band[-1].users) == (LEVELS[0], LEVELS[-1])


@pytest.mark.parametrize(
    ("users", "throughput", "why"),
    [
        ((1.0, 2.0, 2.0, 1.0), (1.0, 2.0, 2.0, 1.0), "2 levels: three are needed"),
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), "four are needed"),
        ((0.5, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0), "whole users"),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 0.0, 4.0), "a throughput is 0"),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0), ""),
    ],
)
def test_what_cannot_be_fitted_says_why(
    users: tuple[float, ...], throughput: tuple[float, ...], why: str
) -> None:
    found = why_no_fit(users, throughput)
    assert why in found
    assert bool(found) == bool(why)


def test_a_profile_of_a_parabola_ends_where_algebra_says() -> None:
    low, high = profile_interval(lambda x: (x - 2) ** 2 - 9, 2.0, 0.01, ValueBounds(-10, 100))
    assert (low, high) == pytest.approx((-1, 5), rel=1e-4)
    assert profile_interval(lambda x: (x - 2) ** 2 - 9, 2.0, 1.0, ValueBounds(0, 3)) == (0, 3)
    assert profile_interval(lambda _: 1.0, 2.0, 1.0, ValueBounds(0, 3)) == (2, 2)


def test_a_problem_without_unknowns_only_has_a_sum_of_squares() -> None:
    problem = LogRegression(np.array([1.0, math.e]), np.ones(2))
    found = problem.solve(np.empty((2, 0)), np.ones(2))
    assert found.squares == pytest.approx(1)
    assert problem.solve(np.empty((2, 0)), -np.ones(2)).squares == math.inf


def test_lack_of_fit_needs_repetitions_that_differ() -> None:
    once = [float(x) for x in throughputs(100, 0.03, 0.001)]
    assert fit_usl(LEVELS, noisy(1, 100, 0.03, 0.001)).misfit_p is None
    assert fit_usl(LEVELS * 2, once * 2).misfit_p is None, "repeated to the last digit"
    twice = noisy(1, 100, 0.03, 0.001) + noisy(2, 100, 0.03, 0.001)
    assert fit_usl(LEVELS[:3] * 2, twice[:3] + twice[7:10]).misfit_p is None
    assert fit_usl(LEVELS * 2, twice).misfit_p is not None


def test_lack_of_fit_is_the_textbooks_f_test() -> None:
    """Of a constant, whose test is that of an analysis of variance; by scipy's F."""
    from scipy.stats import f

    x = np.repeat(np.arange(1.0, 6.0), 3)
    y = np.exp(np.random.default_rng(5).normal(0, 0.1, x.size))
    problem = LogRegression(y, np.ones_like(y))
    found = problem.solve(np.ones((x.size, 1)))
    logs = np.log(y).reshape(5, 3)
    pure = float(((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum())
    ratio = ((float(((logs - logs.mean()) ** 2).sum()) - pure) / 4) / (pure / 10)
    assert problem.misfit_p(x, found) == pytest.approx(float(f.sf(ratio, 4, 10)))


@pytest.mark.parametrize("levels", [5, 7])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_four_slots_level_off_where_the_table_does(levels: int, noise: float) -> None:
    """The whole law fits a pool as badly as Amdahl's does; its misfit is no noise."""
    users = np.array(LEVELS[:levels])
    for seed in range(10):
        errors = np.random.default_rng(seed).normal(0, noise, levels)
        measured = 49 * np.minimum(users, 4) * np.exp(errors)
        found = fit_usl(users.tolist(), measured.tolist())
        assert found.preferred is ScalabilityModel.SATURATING
        assert found.law is not None
        assert found.law.asymptote == pytest.approx(196, rel=0.01 + 2 * noise)


def test_the_cause_of_a_limit_is_known_only_where_a_sharper_knee_fits_worse() -> None:
    long = [fit_usl(LEVELS, noisy(seed, 100, 0.2, 0, 0.01)) for seed in range(20)]
    assert sum(one.sharper_fits for one in long) <= 2
    short = [fit_usl(LEVELS[:5], noisy(seed, 100, 0.2, 0, 0.05)[:5]) for seed in range(20)]
    assert sum(one.sharper_fits for one in short) >= 15
