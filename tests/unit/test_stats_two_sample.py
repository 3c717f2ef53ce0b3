"""Two samples: scipy's and statsmodels' figures, and decided answers at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.weightstats import ttost_ind

from benchwright.stats.two_sample import (
    equivalence,
    ratio_of_means,
    t_test,
    variance_test,
)

RNG = np.random.default_rng(11)
PAIRS = [
    (RNG.normal(10, 1, 12), RNG.normal(10.5, 3, 20)),
    (RNG.lognormal(0, 0.3, 5), RNG.lognormal(0.1, 0.1, 50)),
    (RNG.normal(5, 1e-3, 2), RNG.normal(5, 1, 3)),
    (np.round(RNG.normal(10, 1, 30)), np.round(RNG.normal(10, 1, 30))),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_means(a: np.ndarray, b: np.ndarray, equal: bool, confidence: float) -> None:
    found = t_test(a, b, confidence, equal_variance=equal)
    oracle = scipy.stats.ttest_ind(a, b, equal_var=equal)
    low, high = oracle.confidence_interval(confidence)
    exactly = {"rel": 1e-9, "abs": 1e-12}
    assert found.statistic == pytest.approx(oracle.statistic, **exactly)
    assert found.degrees == pytest.approx(oracle.df, **exactly)
    assert found.p_equal == pytest.approx(oracle.pvalue, **exactly)
    assert found.difference.low == pytest.approx(low, **exactly)
    assert found.difference.high == pytest.approx(high, **exactly)
    for side, p in (("greater", found.p_not_greater), ("less", found.p_not_less)):
        other = scipy.stats.ttest_ind(a, b, equal_var=equal, alternative=side)
        assert p == pytest.approx(other.pvalue, **exactly)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_variances(a: np.ndarray, b: np.ndarray) -> None:
    found = variance_test(a, b)
    ratio = a.var(ddof=1) / b.var(ddof=1)
    law = scipy.stats.f(a.size - 1, b.size - 1)
    assert found.ratio == pytest.approx(ratio)
    assert found.p == pytest.approx(2 * min(law.cdf(ratio), law.sf(ratio)))


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("margin", [0.01, 0.2, 2.0])
def test_equivalence(a: np.ndarray, b: np.ndarray, margin: float) -> None:
    limit = math.log1p(margin)
    oracle = ttost_ind(np.log(b), np.log(a), -limit, limit, usevar="unequal")[0]
    assert equivalence(a, b, margin).p == pytest.approx(oracle, rel=1e-9)


def test_a_ratio_is_that_of_the_geometric_means() -> None:
    a, b = PAIRS[1]
    found = ratio_of_means(a, b)
    plain = scipy.stats.gmean(b) / scipy.stats.gmean(a)
    assert found.value == pytest.approx(plain)
    interval = scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    low, high = interval.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (found.unit, found.n) == ("ratio", 55)


def test_too_few_values_have_no_interval() -> None:
    for a, b in (([], []), ([1.0], [1.0, 2.0]), ([1.0, 2.0], [3.0])):
        found = t_test(a, b)
        assert math.isnan(found.p_equal)
        assert math.isnan(found.difference.low)
        assert math.isnan(variance_test(a, b).p)
        assert math.isnan(ratio_of_means(a, b).low)
        assert math.isnan(equivalence(a, b, 0.1).p)
    assert ratio_of_means([2.0], [3.0]).value == pytest.approx(1.5)


def test_constant_samples() -> None:
    same, other = [2.0] * 5, [3.0] * 5
    equal = t_test(same, same)
    assert (equal.p_equal, equal.difference.low, equal.difference.high) == (1, 0, 0)
    found = t_test(other, same)
    assert (found.p_equal, found.p_not_greater, found.p_not_less) == (0, 0, 1)
    assert (found.difference.low, found.difference.high) == (1, 1)
    assert math.isnan(variance_test(same, other).p)
    assert variance_test(same, [1.0, 2.0]).p == 0
    assert variance_test([1.0, 2.0], same).ratio == math.inf
    assert equivalence(same, same, 0.01).p == 0
    assert equivalence(same, other, 0.01).p == 1


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e300])
def test_size_does_not_matter(size: float) -> None:
    a, b = PAIRS[0][0] / 32, PAIRS[0][1] / 32
    plain = t_test(a, b)
    for equal in (True, False):
        plain = t_test(a, b, equal_variance=equal)
        scaled = t_test(a * size, b * size, equal_variance=equal)
        assert scaled.p_equal == pytest.approx(plain.p_equal)
        assert scaled.difference.low == pytest.approx(plain.difference.low * size)
    assert variance_test(a * size, b * size).p == pytest.approx(variance_test(a, b).p)
    assert ratio_of_means(a * size, b * size).low == pytest.approx(
        ratio_of_means(a, b).low
    )


def test_what_is_no_number_is_no_observation() -> None:
    a, b = PAIRS[0]
    dirty = np.concatenate([a, [math.nan, math.inf, -math.inf]])
    assert t_test(dirty, b) == t_test(a, b)
    assert ratio_of_means(dirty, b) == ratio_of_means(a, b)
    assert math.isnan(ratio_of_means([1.0, 0.0], [1.0, 2.0]).value)
    assert math.isnan(ratio_of_means([1.0, 2.0], [-1.0, 2.0]).value)
