"""A series' statistics: against scipy and statsmodels, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from statsmodels.tsa.stattools import acf

from benchwright.stats.autocorrelation import (
    autocorrelations,
    average_ranks,
    dependence,
)
from benchwright.stats.changes import change_points
from benchwright.stats.modes import two_modes
from benchwright.stats.outliers import modified_z, outliers, threshold
from benchwright.stats.trend import mann_kendall, theil_sen
from benchwright.stats.warmup import beginnings, mser_truncation

RNG = np.random.default_rng(23)
SERIES = [
    RNG.normal(10, 1, 30),
    RNG.lognormal(0, 0.4, 47),
    np.round(RNG.normal(10, 1, 40)),
    RNG.normal(0, 1, 12) + 0.5 * np.arange(12),
]


# -- oracles -------------------------------------------------------------------------------


@pytest.mark.parametrize("values", SERIES)
def test_autocorrelations_are_statsmodels(values: np.ndarray) -> None:
    np.testing.assert_allclose(
        autocorrelations(values, 10), acf(values, nlags=10, fft=False), atol=1e-12
    )


@pytest.mark.parametrize("values", SERIES)
def test_trends_are_scipys(values: np.ndarray) -> None:
    place = np.arange(values.size)
    slope, found = theil_sen(values), scipy.stats.theilslopes(values, place, 0.95)
    assert (slope.value, slope.low, slope.high) == pytest.approx(
        (found.slope, found.low_slope, found.high_slope), abs=1e-12
    )
    # scipy leaves out the continuity correction: a step of 1 less in S.
    tau = scipy.stats.kendalltau(place, values, method="asymptotic")
    ours = mann_kendall(values)
    plain = scipy.stats.norm.isf(tau.pvalue / 2)
    corrected = plain * max(abs(ours.s) - 1, 0) / max(abs(ours.s), 1)
    assert ours.p == pytest.approx(2 * scipy.stats.norm.sf(corrected), rel=1e-9)


@pytest.mark.parametrize("values", SERIES)
def test_modified_scores_and_ranks_are_scipys(values: np.ndarray) -> None:
    mad = scipy.stats.median_abs_deviation(values, scale="normal")
    if mad:
        expected = (values - np.median(values)) / mad
        np.testing.assert_allclose(modified_z(values), expected, atol=1e-9)
    np.testing.assert_allclose(average_ranks(values), scipy.stats.rankdata(values))


# -- what they say ------------------------------------------------------------------------


def test_epochs_place_the_values_of_a_slope() -> None:
    assert theil_sen([1.0, 2.0, 4.0], [1, 2, 4]).value == 1
    assert math.isnan(theil_sen([1.0, 2.0], [3, 3]).value)


def test_a_truncation_tells_the_beginning_from_the_rest() -> None:
    values = np.concatenate([[5.0, 4.9, 5.1], RNG.normal(1, 0.1, 27)])
    found = mser_truncation(values)
    assert found.removed == 3
    assert found.p < 1e-6
    assert found.mean_before == pytest.approx(5)
    assert found.mean_after == pytest.approx(values[3:].mean())
    assert mser_truncation(values, inflation=50).p > 0.05
    assert beginnings(12).tolist() == [1, 2, 3, 4, 5, 7, 9, 12]


def test_change_points_are_where_levels_jump() -> None:
    values = np.concatenate(
        [RNG.normal(1, 0.1, 20), RNG.normal(2, 0.1, 20), RNG.normal(1.5, 0.1, 20)]
    )
    assert change_points(values) == (20, 40)
    assert change_points(values * 1e300 / 4) == (20, 40)


def test_clean_series_rarely_jump() -> None:
    for n in (10, 30, 100):
        clean = np.random.default_rng(n).normal(size=(1000, n))
        share = np.mean([bool(change_points(one)) for one in clean])
        print(f"{n} clean values: a change in {share:.1%} of 1000 series")
        assert share <= 0.01


def test_outliers_are_named_and_classified() -> None:
    values = RNG.normal(1, 0.05, 30)
    values[7], values[20] = 1.35, 3.0
    mild, extreme = outliers(values)
    assert (mild.place, mild.extreme, extreme.place, extreme.extreme) == (
        7,
        False,
        20,
        True,
    )
    assert extreme.score > 2 * threshold(30, 0.02)
    low = values.copy()
    low[3] = 0.2
    assert outliers(low)[0].score < 0
    assert threshold(10, 0.01) > threshold(30, 0.01) > threshold(100, 0.01)


def test_a_long_tail_is_no_outlier() -> None:
    """The level on the logarithmic scale keeps clean skewed data from being accused."""
    skewed = np.random.default_rng(8).lognormal(0, 0.5, (500, 30))
    raw = np.mean(
        [np.abs(modified_z(one)).max() > threshold(30, 0.02) for one in skewed]
    )
    share = np.mean([bool(outliers(one)) for one in skewed])
    assert raw > 0.2
    assert share < 0.06


def test_modes_are_two_groups_with_nothing_between() -> None:
    values = np.concatenate([RNG.normal(1, 0.02, 25), RNG.normal(1.4, 0.02, 5)])
    found = two_modes(RNG.permutation(values))
    assert found is not None
    assert (found.n_low, found.n_high) == (25, 5)
    assert found.low == pytest.approx(1, abs=0.02)
    assert found.gap > 5
    assert two_modes(values[:26]) is None  # one slow value is an outlier


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_ticks_are_no_modes_and_no_outliers(levels: int) -> None:
    for seed in range(200):
        ticks = np.random.default_rng(seed).integers(0, levels, 30) * 0.004
        assert two_modes(ticks) is None
        assert outliers(ticks) == ()


# -- edges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0] * 30])
def test_what_says_nothing(values: list[float]) -> None:
    assert outliers(values) == ()
    assert two_modes(values) is None
    assert change_points(values) == ()
    assert mser_truncation(values).removed == 0
    assert math.isnan(mser_truncation(values).p)
    assert math.isnan(dependence(values).p)
    assert dependence(values).effective == len(values)
    if len(values) != 2:
        assert math.isnan(mann_kendall(values).p)
    if values == [3.0] * 30:
        slope = theil_sen(values)
        assert slope.value == 0
    if len(values) < 2:
        assert math.isnan(theil_sen(values).value)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_size_does_not_matter(size: float) -> None:
    values = RNG.normal(1, 0.05, 40) / 4
    values[5], values[:4] = 1.0, values[:4] + 0.2
    scaled = values * size
    assert [o.place for o in outliers(scaled)] == [o.place for o in outliers(values)]
    assert mser_truncation(scaled).removed == mser_truncation(values).removed
    assert mann_kendall(scaled) == mann_kendall(values)
    assert theil_sen(scaled).value == pytest.approx(theil_sen(values).value * size)
    assert dependence(scaled) == pytest.approx(dependence(values)) or (
        dependence(scaled).lag_1 == pytest.approx(dependence(values).lag_1)
    )


def test_what_is_no_number_is_no_observation() -> None:
    values = SERIES[0]
    dirty = np.insert(values, 3, [math.nan, math.inf])
    assert mann_kendall(dirty) == mann_kendall(values)
    assert mser_truncation(dirty) == mser_truncation(values)
    assert dependence(dirty) == dependence(values)
    assert change_points(dirty) == change_points(values)
    spoilt = dirty.copy()
    spoilt[-1] = 100
    assert [o.place for o in outliers(spoilt)] == [spoilt.size - 1]


def test_dependence_counts_what_is_left() -> None:
    noise = np.random.default_rng(2).normal(size=400)
    for place in range(1, 400):
        noise[place] = 0.6 * noise[place - 1] + 0.8 * noise[place]
    found = dependence(noise)
    assert found.lag_1 == pytest.approx(0.6, abs=0.1)
    assert 60 < found.effective < 160  # n (1 - rho) / (1 + rho) = 100
    assert found.p < 1e-6
    alternating = dependence(np.tile([1.0, 2.0], 20) + 0.01 * noise[:40])
    assert alternating.p > 0.99
    assert alternating.effective == 40
