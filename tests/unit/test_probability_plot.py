"""The normal probability plot: scores, line, and a band that holds what it states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.stats.probability_plot import (
    MOST_WITH_BAND,
    normal_band,
    normal_scores,
    probability_plot,
)

SEED = 7


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50])
def test_scores_are_the_expected_order_statistics(n: int) -> None:
    samples = np.random.default_rng(SEED).standard_normal((40_000, n))
    expected = np.sort(samples, axis=1).mean(axis=0)
    assert np.abs(np.array(normal_scores(n)) - expected).max() < 0.03


def test_scores_follow_the_values_in_their_order() -> None:
    plot = probability_plot([3.0, 1.0, 2.0])
    assert plot is not None
    first, second, third = plot.scores
    assert second < third < first
    assert third == pytest.approx(0.0, abs=1e-12)
    assert plot.expected[2] == pytest.approx(2.0)
    assert plot.expected[0] - plot.expected[1] == pytest.approx(first - second)
    assert plot.p is None, "there are fewer than 8 values"


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [5.0] * 9])
def test_too_few_or_equal_values_have_no_plot(values: list[float]) -> None:
    assert probability_plot(values) is None


@pytest.mark.parametrize("n", [3, 8, 30])
def test_the_band_holds_all_values_of_95_percent_of_normal_samples(n: int) -> None:
    """5,000 samples of another seed: a standard error of 0.3 points."""
    samples = np.random.default_rng([SEED, n]).normal(50.0, 4.0, (5000, n))
    inside = []
    for sample in samples:
        plot = probability_plot(sample)
        assert plot is not None
        inside.append(_inside(sample, plot.low, plot.high))
    assert 0.94 <= np.mean(inside) <= 0.965


def _inside(values: np.ndarray, low: tuple[float, ...], high: tuple[float, ...]) -> bool:
    return bool(((low <= values) & (values <= high)).all())


def test_a_skewed_sample_leaves_the_band() -> None:
    samples = np.random.default_rng(SEED).exponential(1.0, (200, 30))
    outside = []
    for sample in samples:
        plot = probability_plot(sample)
        assert plot is not None
        outside.append(not _inside(sample, plot.low, plot.high))
    assert np.mean(outside) > 0.8


def test_more_confidence_is_a_wider_band() -> None:
    low, high = map(np.array, normal_band(10, 0.9))
    lower, higher = map(np.array, normal_band(10, 0.99))
    assert (lower < low).all()
    assert (higher > high).all()


def test_very_many_values_have_no_band() -> None:
    values = np.random.default_rng(SEED).normal(size=MOST_WITH_BAND + 1)
    plot = probability_plot(values)
    assert plot is not None
    assert (plot.low, plot.high) == ((), ())
    assert plot.p is not None
    assert len(plot.scores) == len(values)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=12))
def test_the_line_goes_through_the_mean(values: list[float]) -> None:
    plot = probability_plot(values)
    if plot is None:
        return
    mean = math.fsum(values) / len(values)
    size = max(map(abs, values))
    assert math.fsum(plot.expected) / len(values) == pytest.approx(
        mean, abs=1e-6 * max(size, 1e-300)
    )
