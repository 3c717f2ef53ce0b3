"""Statistics of a series: against scipy and statsmodels, at their levels, and at the edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from benchwright.stats.dependence import autocorrelations, average_ranks, dependence, mean_errors
from benchwright.stats.drift import mann_kendall, mser_truncation, theil_sen
from benchwright.stats.sample import modified_z, outlier_threshold, outliers, two_modes

Array = npt.NDArray[np.float64]
SEED = 20_261_121


def clean(replications: int, n: int, seed: int = SEED) -> Array:
    return 10 + np.random.default_rng(seed).normal(size=(replications, n))


def at_most(hits: int, of: int, rate: float) -> bool:
    """Return whether that many hits are compatible with the rate: three standard errors."""
    return hits <= of * rate + 3 * math.sqrt(of * rate)


# -- against scipy and statsmodels -----------------------------------------------------------


@pytest.mark.parametrize("n", [3, 10, 57])
def test_theil_sen_is_scipys(n: int) -> None:
    values = clean(1, n)[0] + 0.1 * np.arange(n)
    epochs = np.cumsum(1 + np.arange(n) % 3)
    ours = theil_sen(values, epochs.tolist())
    theirs = stats.theilslopes(values, epochs, 0.95)
    assert ours.value == pytest.approx(theirs.slope, rel=1e-12)
    if n > 3:
        assert ours.low == pytest.approx(theirs.low_slope, rel=1e-12)
        assert ours.high == pytest.approx(theirs.high_slope, rel=1e-12)


def test_sens_interval_of_three_values_is_absent() -> None:
    found = theil_sen([1.0, 2.0, 4.0])
    assert found.value == 1.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("ticks", [None, 0.5])
def test_mann_kendall_is_kendalls_tau_over_the_order(ticks: float | None) -> None:
    for row in clean(20, 40):
        values = row if ticks is None else ticks * np.round(row / ticks)
        ours = mann_kendall(values)
        tau = stats.kendalltau(np.arange(40), values, method="asymptotic")
        _, ties = np.unique(values, return_counts=True)
        pairs = 40 * 39 / 2
        untied = pairs - np.sum(ties * (ties - 1)) / 2
        assert ours.s == pytest.approx(tau.statistic * math.sqrt(pairs * untied))
        # scipy leaves out the continuity correction, so that its P-value is smaller.
        assert tau.pvalue <= ours.p <= tau.pvalue + 0.02


def test_mann_kendall_is_near_the_exact_test_from_10_values_on() -> None:
    for n, row in itertools.product((10, 14), clean(20, 14)):
        exact = stats.kendalltau(np.arange(n), row[:n], method="exact").pvalue
        assert mann_kendall(row[:n]).p == pytest.approx(exact, abs=0.012)


def test_autocorrelations_are_statsmodels() -> None:
    tools = pytest.importorskip("statsmodels.tsa.stattools")
    values = np.cumsum(clean(1, 80)[0] - 10)
    theirs = tools.acf(values, nlags=20, fft=False)
    assert autocorrelations(values, 20) == pytest.approx(theirs, rel=1e-9)


def test_average_ranks_are_scipys() -> None:
    values = np.array([3.0, 1.0, 3.0, 2.0, 2.0, 9.0, 3.0])
    assert average_ranks(values.tolist()) == list(stats.rankdata(values))


def test_modified_z_is_scaled_as_scipys_mad() -> None:
    values = clean(1, 31)[0]
    spread = stats.median_abs_deviation(values, scale="normal")
    expected = (values - np.median(values)) / spread
    assert modified_z(values) == pytest.approx(expected, rel=1e-9)


# -- levels on clean series -------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 11, 30, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_threshold_of_outliers_is_that_of_its_level(n: int, alpha: float) -> None:
    series = clean(4000, n)
    middle = np.median(series, axis=1, keepdims=True)
    scores = np.abs(series - middle)
    scores /= np.median(scores, axis=1, keepdims=True) * 1.482602218505602
    share = float(np.mean(scores.max(axis=1) > outlier_threshold(n, alpha)))
    assert alpha / 2 < share < 1.5 * alpha


@pytest.mark.parametrize("n", [10, 30])
def test_the_other_tests_keep_their_levels(n: int) -> None:
    series, alpha = clean(1000, n), 0.05
    for p in (
        lambda row: mser_truncation(row).p,
        lambda row: mann_kendall(row).p,
        lambda row: dependence(row).p,
    ):
        hits = sum(p(row) <= alpha for row in series)
        assert at_most(hits, len(series), alpha)
        assert hits > len(series) * alpha / 3


@pytest.mark.parametrize("shape", ["lognormal", "gamma"])
def test_a_long_tail_is_neither_outlier_nor_mode(shape: str) -> None:
    rng = np.random.default_rng(SEED)
    draw: Callable[..., Array] = (
        (lambda size: rng.lognormal(0, 0.29, size))
        if shape == "lognormal"
        else (lambda size: rng.gamma(1 / 0.09, 0.09, size))
    )
    series = draw((1000, 30))
    assert at_most(sum(bool(outliers(r, 0.01)) for r in series), 1000, 0.02)
    assert at_most(sum(two_modes(r, 0.01) is not None for r in series), 1000, 0.01)


# -- what they find -----------------------------------------------------------------------------


def test_mser_removes_a_step_and_tells_both_means() -> None:
    values = np.concatenate([np.full(4, 20.0), 10 + 0.1 * (np.arange(26) % 3)])
    found = mser_truncation(values)
    assert (found.removed, found.n, found.mean_before) == (4, 30, 20.0)
    assert found.mean_after == pytest.approx(float(values[4:].mean()))
    assert found.p < 1e-12


def test_mser_removes_at_most_half() -> None:
    values = np.concatenate([np.full(20, 20.0), 10 + 0.1 * (np.arange(10) % 3)])
    assert mser_truncation(values).removed <= 15


def test_an_outlier_has_its_place_side_and_class() -> None:
    values = clean(1, 30)[0]
    values[7], values[19] = 60.0, 4.0
    slow, fast = sorted(outliers(values), key=lambda one: one.place)
    assert (slow.place, slow.value, slow.extreme) == (7, 60.0, True)
    assert (fast.place, fast.value, fast.extreme) == (19, 4.0, False)
    assert fast.score < 0 < slow.score


def test_places_count_values_that_are_not_finite() -> None:
    values = clean(1, 20)[0]
    values[3], values[11] = math.nan, 100.0
    assert [one.place for one in outliers(values)] == [11]


def test_many_outliers_do_not_hide_each_other() -> None:
    values = clean(1, 30)[0]
    values[:8] += 100 + np.arange(8) * 30
    assert [one.place for one in outliers(values)] == list(range(8))


def test_two_modes_have_sizes_and_centres() -> None:
    values = np.concatenate([clean(1, 25)[0], clean(1, 5, 2)[0] + 10])
    found = two_modes(np.random.default_rng(SEED).permutation(values))
    assert found is not None
    assert (found.n_low, found.n_high) == (25, 5)
    assert found.low == pytest.approx(float(values[:25].mean()))
    assert found.high == pytest.approx(float(values[25:].mean()))
    assert found.gap > 4


def test_a_single_slow_value_is_no_mode() -> None:
    values = clean(1, 30)[0]
    values[5] = 40.0
    assert two_modes(values) is None
    assert [one.place for one in outliers(values)] == [5]


def test_the_effective_size_of_a_correlated_series() -> None:
    rng, rho, n = np.random.default_rng(SEED), 0.6, 20_000
    values = np.zeros(n)
    for place in range(1, n):
        values[place] = rho * values[place - 1] + rng.normal()
    found = dependence(values)
    assert found.lag_1 == pytest.approx(rho, abs=0.02)
    assert found.effective == pytest.approx(n * (1 - rho) / (1 + rho), rel=0.1)


def test_the_bias_of_a_short_series_correlation_is_taken_out() -> None:
    found = [dependence(row).lag_1 for row in clean(2000, 20)]
    assert abs(float(np.mean(found))) < 0.02


def test_alternating_values_are_no_doubt() -> None:
    found = dependence(np.tile([1.0, 2.0], 20) + 0.01 * clean(1, 40)[0])
    assert found.lag_1 < -0.9
    assert found.effective == 40
    assert found.p > 0.99


def test_more_than_1000_values_are_thinned_evenly() -> None:
    values = np.arange(5000, dtype=float) + clean(1, 5000)[0]
    assert theil_sen(values).value == pytest.approx(1, rel=1e-3)
    assert theil_sen(values).n == mann_kendall(values).n == 5000
    assert mann_kendall(values).p < 1e-12


# -- edges ---------------------------------------------------------------------------------------

SHORT = [(), (1.0,), (1.0, 2.0), (math.nan,), (math.inf, -math.inf), (3.0,) * 9]


@pytest.mark.parametrize("values", SHORT)
def test_too_few_values_say_nothing(values: tuple[float, ...]) -> None:
    assert outliers(values) == ()
    assert two_modes(values) is None
    assert mser_truncation(values).removed == 0
    assert math.isnan(mser_truncation(values).p)
    assert math.isnan(dependence(values).p)


def test_constant_values_say_nothing() -> None:
    values = np.full(40, 0.1)
    assert outliers(values) == ()
    assert two_modes(values) is None
    assert mser_truncation(values).removed == 0
    assert math.isnan(mann_kendall(values).p)
    assert theil_sen(values).value == 0
    assert math.isnan(dependence(values).p)
    assert np.isnan(autocorrelations(values, 3)).all()


def test_slopes_of_nothing() -> None:
    assert math.isnan(theil_sen([]).value)
    assert math.isnan(theil_sen([5.0]).value)
    assert math.isnan(mann_kendall([5.0]).p)
    assert theil_sen([1.0, math.nan, 3.0]).value == 1


@pytest.mark.parametrize("tick", [0.004, 0.01])
@pytest.mark.parametrize("mean_ticks", [0.4, 1.5, 3.0])
def test_ticks_are_neither_outliers_nor_modes(tick: float, mean_ticks: float) -> None:
    """CPU times of short commands: 0, 1, 2 ticks, clean."""
    series = tick * np.random.default_rng(SEED).binomial(6, mean_ticks / 6, (300, 30))
    assert at_most(sum(bool(outliers(row, 0.01)) for row in series), 300, 0.02)
    assert sum(two_modes(row, 0.01) is not None for row in series) == 0


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_size_changes_no_answer(scale: float) -> None:
    values = np.concatenate([clean(1, 30)[0], clean(1, 8, 2)[0] + 20])
    values[3] = 55.0
    large = values * scale
    assert [o.place for o in outliers(large)] == [o.place for o in outliers(values)]
    assert mser_truncation(large).removed == mser_truncation(values).removed
    assert mser_truncation(large).p == pytest.approx(mser_truncation(values).p)
    assert mann_kendall(large).p == mann_kendall(values).p
    assert theil_sen(large).value == pytest.approx(theil_sen(values).value * scale)
    assert dependence(large).lag_1 == pytest.approx(dependence(values).lag_1)
    kept = np.delete(values, 3)
    ours, theirs = two_modes(kept * scale), two_modes(kept)
    assert ours is not None
    assert theirs is not None
    assert ours.n_high == theirs.n_high == 8


def test_the_widest_range_of_numbers_overflows_nowhere() -> None:
    values = np.tile([-1.7e308, 1.7e308, 1e-300], 10)
    for answer in (outliers, two_modes, mser_truncation, dependence):
        answer(values)
    assert math.isfinite(theil_sen(values).value)
    assert math.isfinite(mann_kendall(values).p)


def test_two_late_values_of_ten_are_outliers_and_three_are_a_mode() -> None:
    calm = 0.0614 + 0.00003 * np.arange(10)
    late = calm.copy()
    late[[3, 8]] += 0.0055
    assert two_modes(late) is None
    assert [one.place for one in outliers(late)] == [3, 8]
    late[5] += 0.0055
    found = two_modes(late)
    assert found is not None
    assert (found.n_low, found.n_high) == (7, 3)


@pytest.mark.parametrize("n", [5, 8, 20, 50])
@pytest.mark.parametrize("step", [0.0, 1.0, 100.0], ids=["alternating", "wavy-rise", "rise"])
def test_the_error_of_a_mean_is_that_of_a_series_of_as_many_values(n: int, step: float) -> None:
    """Its moments from the whole matrix of covariances, at the correlation that is allowed for."""
    places = np.arange(n)
    values = np.where(places % 2, 1.0, -1.0) + step * places
    first = autocorrelations(values, 1)[1]
    first = max(first + (1 + 3 * first) / n, 0.0)
    allowed = min(first * (1 + 1.5 / math.sqrt(n)) + 4 / n, 1 - 2 / n)
    within = allowed ** np.abs(np.subtract.outer(places, places))
    center = np.eye(n) - 1 / n
    centered = center @ within @ center
    variance = np.trace(centered) / (n - 1)
    (error,) = mean_errors(values.tolist())
    expected = math.sqrt(within.sum() / n / variance)
    degrees = np.trace(centered) ** 2 / (centered**2).sum()
    assert error.factor == pytest.approx(expected, rel=1e-6)
    assert error.degrees == pytest.approx(degrees, rel=1e-5)
    assert error.factor < math.sqrt(n) * n, "bounded whatever the values are"
