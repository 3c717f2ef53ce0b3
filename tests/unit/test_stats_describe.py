"""Figures of one sample: what is decided for few, odd, huge and tiny values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchwright.stats.aggregate import overhead_percent, percent_of_mean, summarise
from benchwright.stats.intervals import t_interval, t_quantile
from benchwright.stats.sample import median, moments, slope, z_scores


def test_no_values_give_a_count_of_zero_and_nothing_else() -> None:
    found = summarise("elapsed", [])
    assert (found.count, found.sum) == (0, 0.0)
    unknown = (found.mean, found.median, found.low, found.high, found.minimum)
    assert all(map(math.isnan, unknown))
    assert all(map(math.isnan, (found.maximum, found.sdev, found.half_width, found.slope)))


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = summarise("elapsed", [3.5])
    assert (found.count, found.mean, found.median) == (1, 3.5, 3.5)
    assert (found.minimum, found.maximum, found.sum) == (3.5, 3.5, 3.5)
    assert all(map(math.isnan, (found.low, found.high, found.sdev, found.slope)))


def test_two_values_have_an_interval_of_one_degree_of_freedom() -> None:
    found = summarise("elapsed", [1.0, 2.0])
    assert found.half_width == pytest.approx(12.706204736174694 * 0.5, rel=1e-12)
    assert found.slope == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.1, 0.0, -3.3, 1e300, 1e-300, 5e-324])
def test_constant_data_have_no_width_at_all(value: float) -> None:
    found = summarise("elapsed", [value] * 10)
    assert (found.sdev, found.half_width, found.slope) == (0, 0, 0)
    assert found.low == found.mean == found.high == value


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e9, 1.0])
def test_the_figures_scale_with_the_values(scale: float) -> None:
    base = summarise("x", [1.0, 2.0, 4.0, 8.5])
    found = summarise("x", [scale * v for v in (1.0, 2.0, 4.0, 8.5)])
    assert found.sdev == pytest.approx(base.sdev * scale, rel=1e-12)
    assert found.half_width == pytest.approx(base.half_width * scale, rel=1e-12)
    assert found.slope == pytest.approx(base.slope * scale, rel=1e-12)


def test_a_spread_far_below_the_mean_is_not_lost() -> None:
    found = moments([1e9 + v for v in (0.0, 0.125, 0.25, 0.375)])
    assert found.sdev == pytest.approx(np.std([0, 1, 2, 3], ddof=1) / 8, rel=1e-12)


def test_the_largest_values_neither_overflow_nor_lose_their_mean() -> None:
    found = moments([1.7e308, -1.7e308, 1.7e308])
    assert found.mean == pytest.approx(1.7e308 / 3)
    assert median(np.array([1.7e308, 1.6e308])) == pytest.approx(1.65e308)


def test_values_that_are_no_numbers_are_not_observations() -> None:
    found = summarise("x", [1.0, math.nan, 3.0, math.inf, 5.0, -math.inf])
    assert (found.count, found.mean, found.maximum) == (3, 3.0, 5.0)


def test_the_slope_knows_which_epochs_are_missing() -> None:
    found = slope(np.array([1.0, 2.0, 5.0]), np.array([1, 2, 5]))
    assert found == pytest.approx(1.0)
    assert math.isnan(slope(np.array([1.0, 2.0]), np.array([3, 3])))


def test_an_estimate_names_its_method() -> None:
    found = t_interval([1.0, 2.0, 3.0], 0.9, "s")
    assert (found.method, found.n, found.unit, found.confidence) == ("student-t", 3, "s", 0.9)
    assert found.half_width == pytest.approx(t_quantile(0.9, 2) / math.sqrt(3))
    assert math.isnan(t_interval([1.0]).low)


def test_overheads_of_odd_baselines() -> None:
    assert overhead_percent(3.0, 2.0) == pytest.approx(50)
    assert overhead_percent(-1.0, -2.0) == pytest.approx(50)
    assert math.isnan(overhead_percent(1.0, 0.0))
    assert math.isnan(overhead_percent(1.0, math.nan))


def test_percentages_of_a_zero_mean() -> None:
    assert percent_of_mean(0.0, 0.0) == 0
    assert math.isnan(percent_of_mean(1.0, 0.0))
    assert percent_of_mean(1.0, -4.0) == 25


def test_z_scores_of_too_few_or_constant_values_are_zero() -> None:
    assert z_scores(np.array([1.0])).tolist() == [0]
    assert z_scores(np.array([2.0, 2.0])).tolist() == [0, 0]
    assert z_scores(np.array([1e300, -1e300, 0.0])).max() == pytest.approx(1)
