"""Intervals for one look and for every look: against oracles, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from benchwright.stats.dependence import (
    autocorrelations,
    cosine_count,
    dependence,
    inflation,
    long_run_sdev,
)
from benchwright.stats.intervals import (
    exact_ranks,
    quantile,
    quantile_interval,
    quantile_sequence_interval,
    sequence_radius,
    sequence_ranks,
    t_interval,
    t_mixture_interval,
    t_mixture_p_of_moments,
)
from benchwright.stats.sample import Moments, moments, standardized

RNG = np.random.default_rng(7)
NORMAL = RNG.normal(10, 1, 40)


# -- quantiles at one look -----------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 37, 367, 368, 500])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_exact_ranks_are_scipys(n: int, share: float, confidence: float) -> None:
    values = np.sort(np.random.default_rng(n).normal(size=n))
    found = scipy.stats.quantile_test(values, p=share).confidence_interval(confidence)
    low, high = exact_ranks(n, share, confidence)
    expected = (found.low, found.high)
    ours = (values[low - 1] if low >= 1 else math.nan, values[high - 1] if high <= n else math.nan)
    np.testing.assert_array_equal(ours, expected)


def test_a_median_needs_six_values_and_a_p99_needs_368() -> None:
    assert math.isnan(quantile_interval([1.0, 2, 3, 4, 5], 0.5).low)
    assert quantile_interval([1.0, 3, 2, 5, 4, 6], 0.5).low == 1
    values = np.random.default_rng(1).normal(size=368)
    assert math.isnan(quantile_interval(values[:367], 0.99).high)
    assert exact_ranks(367, 0.99, 0.95)[1] == 368
    assert exact_ranks(368, 0.99, 0.95)[1] == 368


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9, 0.999])
def test_quantiles_are_numpys(share: float) -> None:
    assert quantile(NORMAL, share) == pytest.approx(float(np.quantile(NORMAL, share)), rel=1e-14)


def test_dependence_widens_a_quantiles_interval_and_never_narrows_it() -> None:
    slow = np.repeat([9.0, 9.5, 10.5, 11.0], 10) + 0.01 * np.arange(40)
    wide, exact = quantile_interval(slow, 0.5), exact_ranks(40, 0.5, 0.95)
    ordered = np.sort(slow)
    assert wide.low < ordered[exact[0] - 1]
    assert wide.high > ordered[exact[1] - 1]
    alternating = np.tile([9.0, 11.0], 20) + 0.01 * np.arange(40)
    same = quantile_interval(alternating, 0.5)
    ordered = np.sort(alternating)
    assert (same.low, same.high) == (ordered[exact[0] - 1], ordered[exact[1] - 1])


# -- quantiles at every look ----------------------------------------------------------------


def test_a_sequence_is_wider_than_one_look_and_misses_rarely_over_all_looks() -> None:
    assert sequence_ranks(100, 0.5, 0.95)[0] < exact_ranks(100, 0.5, 0.95)[0]
    for share in (0.5, 0.9):
        counts = (np.random.default_rng(3).random((2000, 300)) < share).cumsum(axis=1)
        missed = np.zeros(2000, dtype=bool)
        for n in range(2, 301):
            low, high = sequence_ranks(n, share, 0.95)
            missed |= (counts[:, n - 1] < low) | (counts[:, n - 1] > high - 1)
        print(f"share {share}: missed at any of 299 looks {missed.mean():.1%}")
        assert 0.005 < missed.mean() <= 0.05


def test_few_values_have_no_sequence_interval() -> None:
    assert math.isnan(quantile_sequence_interval([1.0, 2.0, 3.0], 0.5).half_width)
    found = quantile_sequence_interval(NORMAL, 0.5)
    assert found.low < 10 < found.high


# -- means at every look -------------------------------------------------------------------


def test_a_confidence_sequence_misses_rarely_over_all_looks() -> None:
    """2000 series watched from n = 2 to 300: exact for normal values of any scale."""
    values = np.random.default_rng(5).normal(size=(2000, 300))
    n = np.arange(1, 301)
    mean = values.cumsum(axis=1) / n
    square = (values**2).cumsum(axis=1) - n * mean**2
    sdev = np.sqrt(np.maximum(square, 0) / np.maximum(n - 1, 1))
    reach = np.array([sequence_radius(int(k), 0.95) for k in n])
    with np.errstate(invalid="ignore"):
        missed = (np.abs(mean) > sdev * reach)[:, 1:].any(axis=1)
    print(f"missed at any of 299 looks: {missed.mean():.1%}")
    assert 0.01 < missed.mean() <= 0.05


@pytest.mark.parametrize("n", [3, 8, 12, 20, 40])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_p_value_and_interval_agree(n: int, confidence: float) -> None:
    values = NORMAL[:n]
    found = t_mixture_interval(values, confidence)
    if not math.isfinite(found.half_width):
        assert t_mixture_p_of_moments(moments(values), found.value - 1e9, confidence=confidence) > (
            1 - confidence
        )
        return
    inside = found.low + 1e-9 * found.half_width
    outside = found.low - 1e-9 * found.half_width
    assert t_mixture_p_of_moments(moments(values), inside, confidence=confidence) > 1 - confidence
    assert t_mixture_p_of_moments(moments(values), outside, confidence=confidence) < 1 - confidence


def test_sequences_at_their_edges() -> None:
    assert math.isnan(t_mixture_interval([]).value)
    one = t_mixture_interval([3.0])
    assert (one.value, one.n) == (3, 1)
    assert math.isnan(one.low)
    assert t_mixture_interval([1.0, 2.0]).high == math.inf
    constant = t_mixture_interval([2.0] * 30)
    assert (constant.low, constant.high) == (2, 2)
    assert t_mixture_p_of_moments(moments([2.0] * 30), 2.0) == 1
    assert t_mixture_p_of_moments(moments([2.0] * 30), 1.0) == 0
    assert t_mixture_p_of_moments(moments([1.0]), 0.0) == 1
    assert t_mixture_interval([1.0, math.nan, 2.0, math.inf]).n == 2


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e300])
def test_size_does_not_matter(size: float) -> None:
    plain, scaled = NORMAL / 16, NORMAL / 16 * size
    assert long_run_sdev(scaled) == pytest.approx(long_run_sdev(plain) * size)
    assert inflation(scaled) == pytest.approx(inflation(plain))
    found = t_mixture_interval(scaled)
    assert found.low == pytest.approx(t_mixture_interval(plain).low * size)
    assert quantile(scaled, 0.9) == pytest.approx(quantile(plain, 0.9) * size)


# -- the long-run deviation ------------------------------------------------------------------


def test_independent_values_have_their_own_deviation() -> None:
    values = np.random.default_rng(9).normal(size=(2000, 60))
    ratios = [long_run_sdev(one) ** 2 for one in values]
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    # chi-square over its degrees of freedom: the variance is 2 / count.
    assert np.var(ratios) == pytest.approx(2 / cosine_count(60), rel=0.1)


def test_correlated_values_have_a_larger_one() -> None:
    rng, found = np.random.default_rng(9), []
    for _ in range(500):
        noise = rng.normal(size=200)
        for place in range(1, 200):
            noise[place] = 0.6 * noise[place - 1] + 0.8 * noise[place]
        found.append(inflation(noise))
    # sqrt((1 + rho) / (1 - rho)) = 2
    assert 1.7 < np.mean(found) < 2.1


def test_the_long_run_deviation_at_its_edges() -> None:
    assert [cosine_count(n) for n in (0, 1, 2, 5, 6, 20, 30, 60, 600)] == [
        0,
        0,
        1,
        4,
        5,
        5,
        5,
        10,
        100,
    ]
    assert math.isnan(long_run_sdev(np.array([1.0])))
    assert long_run_sdev(np.array([2.0, 2.0, 2.0])) == 0
    assert inflation(np.array([])) == 1
    assert inflation(np.array([2.0] * 9)) == 1


def test_samples_of_any_kind_are_accepted() -> None:
    """What the public functions took as arrays: missing values, two dimensions."""
    plain = t_interval([1.0, 2.0, 4.0])
    assert t_interval([1.0, None, 2.0, 4.0]) == plain
    assert t_interval(np.array([[1.0, 2.0], [4.0, math.nan]])) == plain


def test_a_spread_of_the_smallest_float_can_be_standardized() -> None:
    data = [0.0, 0.0, 5e-324, *[0.0] * 9]
    assert all(map(math.isfinite, standardized(data, Moments(12, 0.0, 5e-324))))


@pytest.mark.parametrize("n", [700, 776, 1500])
def test_a_long_series_needs_no_table_of_cosines(n: int) -> None:
    noise = np.random.default_rng(7).normal(size=n)
    count = cosine_count(n)
    numbers, middle = np.arange(1, count + 1), (np.arange(n) + 0.5) / n
    table = np.cos(np.pi * np.outer(numbers, middle)) * np.sqrt(2 / n)
    expected = math.sqrt(float(((table @ noise) ** 2).mean()))
    assert long_run_sdev(noise) == pytest.approx(expected, rel=1e-9)


def test_no_step_over_a_long_series_takes_its_square() -> None:
    # 200,000 values whose correlation reaches far: a table of cosines would have 53 GB.
    noise = np.random.default_rng(8).normal(size=200_000)
    walk = np.cumsum(noise)
    lags = autocorrelations(walk[:2000], 300)
    centred = walk[:2000] - walk[:2000].mean()
    direct = [float(centred[lag:] @ centred[: 2000 - lag]) for lag in (64, 200, 300)]
    assert [lags[lag] for lag in (64, 200, 300)] == pytest.approx(
        [value / float(centred @ centred) for value in direct]
    )
    assert dependence(walk).effective < 100
    assert inflation(noise) == pytest.approx(1, abs=0.05)
