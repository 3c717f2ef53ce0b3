"""Two-sample statistics agree with scipy.stats and statsmodels, and decide the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import diagnostic, nonparametric, weightstats

from benchwright.stats.sample import anderson_darling
from benchwright.stats.two_sample import (
    brunner_munzel,
    equivalence,
    hodges_lehmann,
    mann_whitney,
    rank_test,
    ratio_equivalence,
    ratio_of_means,
    t_test,
    variance_test,
)

RNG = np.random.default_rng(20260301)
SAMPLES = [
    pytest.param(RNG.normal(10, 1, 10), RNG.normal(10.4, 1, 10), id="normal"),
    pytest.param(RNG.normal(10, 0.1, 7), RNG.normal(11, 2, 23), id="spread"),
    pytest.param(RNG.lognormal(0, 0.5, 12), RNG.lognormal(0.6, 0.4, 9), id="skewed"),
    pytest.param(RNG.integers(1, 6, 15) * 1.0, RNG.integers(2, 8, 12) * 1.0, id="ties"),
    pytest.param(np.array([1.0, 2.0]), np.array([1.5, 4.0]), id="two"),
    pytest.param(RNG.normal(10, 1, 60), RNG.normal(10.2, 1, 50), id="many"),
]
TINY, HUGE = 1e-300, 1e300


def close(value: float) -> object:
    return pytest.approx(float(value), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_t_tests(a: np.ndarray, b: np.ndarray, equal: bool) -> None:
    found = t_test(a, b, 0.9, equal_variance=equal)
    both = stats.ttest_ind(a, b, equal_var=equal)
    ends = both.confidence_interval(0.9)
    assert found.t == close(both.statistic)
    assert found.degrees == close(both.df)
    assert (found.difference.low, found.difference.high) == (close(ends.low), close(ends.high))
    assert found.p_two_sided == close(both.pvalue)
    one_sided = [
        stats.ttest_ind(a, b, equal_var=equal, alternative=side).pvalue
        for side in ("greater", "less")
    ]
    assert [found.p_greater, found.p_less] == [close(p) for p in one_sided]
    assert found.difference.n == a.size + b.size


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_the_f_test(a: np.ndarray, b: np.ndarray) -> None:
    found = variance_test(a, b, 0.95)
    f = a.var(ddof=1) / b.var(ddof=1)
    law = stats.f(a.size - 1, b.size - 1)
    assert found.ratio.value == close(f)
    assert found.p == close(2 * min(law.cdf(f), law.sf(f)))
    assert found.ratio.low == close(f / law.ppf(0.975))
    assert found.ratio.high == close(f / law.ppf(0.025))


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_the_ratio_of_means_is_welch_on_logs(a: np.ndarray, b: np.ndarray) -> None:
    found = ratio_of_means(a, b, 0.95)
    ends = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval()
    assert found.value == close(stats.gmean(b) / stats.gmean(a))
    assert (found.low, found.high) == (close(math.exp(ends.low)), close(math.exp(ends.high)))
    assert (found.unit, found.n) == ("ratio", a.size + b.size)


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_mann_whitney(a: np.ndarray, b: np.ndarray) -> None:
    found = mann_whitney(a, b)
    tied = np.unique(np.concatenate([a, b])).size < a.size + b.size
    exact = not tied and a.size * b.size <= 900
    method = "exact" if exact else "asymptotic"
    expected = stats.mannwhitneyu(a, b, method=method)
    assert found.method == ("mann-whitney-exact" if exact else "mann-whitney")
    assert (found.statistic, found.p) == (close(expected.statistic), close(expected.pvalue))


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_brunner_munzel(a: np.ndarray, b: np.ndarray) -> None:
    found = brunner_munzel(a, b, 0.95)
    expected = stats.brunnermunzel(a, b)
    assert found.statistic == close(expected.statistic)
    assert found.p == close(expected.pvalue)
    other = nonparametric.rank_compare_2indep(b, a)
    low, high = other.conf_int(alpha=0.05)
    assert found.below.value == close(other.prob1)
    assert (found.below.low, found.below.high) == (close(max(low, 0)), close(min(high, 1)))


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_hodges_lehmann_inverts_mann_whitney(a: np.ndarray, b: np.ndarray) -> None:
    found = hodges_lehmann(a, b, 0.95)
    differences = np.sort(np.subtract.outer(a, b).ravel())
    assert found.value == close(np.median(differences))
    if a.size * b.size < 10:
        assert math.isnan(found.low)
        return
    method = "exact" if a.size * b.size <= 900 else "asymptotic"

    def p(shift: float) -> float:
        return float(stats.mannwhitneyu(a - shift, b, method=method).pvalue)

    # A step of 1e-9 to either side of an end is a shift that is kept, or rejected.
    step = 1e-9
    assert min(p(found.low + step), p(found.high - step)) > 0.05
    if np.unique(differences).size == differences.size:
        assert max(p(found.low - step), p(found.high + step)) <= 0.0505


@pytest.mark.parametrize(("a", "b"), SAMPLES)
def test_equivalence_is_tost(a: np.ndarray, b: np.ndarray) -> None:
    found = equivalence(a, b, 0.8)
    p, below, above = weightstats.ttost_ind(a, b, -0.8, 0.8, usevar="unequal")
    assert (found.p, found.p_below, found.p_above) == (close(p), close(below[1]), close(above[1]))
    inside = found.difference.low > -0.8 and found.difference.high < 0.8
    assert inside == (found.p < 0.05)
    ratio = ratio_equivalence(a, b, 0.1)
    limit = math.log(1.1)
    expected = weightstats.ttost_ind(np.log(b), np.log(a), -limit, limit, usevar="unequal")
    assert ratio.p == close(expected[0])
    inside = ratio.difference.low > 1 / 1.1 and ratio.difference.high < 1.1
    assert inside == (ratio.p < 0.05)


def test_ten_values_within_a_per_cent_are_equivalent_within_five() -> None:
    a = [10.0, 10.1, 9.9, 10.05, 9.95] * 2
    assert ratio_equivalence(a, [v * 1.001 for v in a], 0.05).p < 1e-6
    assert ratio_equivalence(a, [v * 1.06 for v in a], 0.05).p > 0.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [8, 10, 30, 200])
def test_normality_is_anderson_darling(seed: int, n: int) -> None:
    rng = np.random.default_rng([seed, n])
    data = rng.normal(5, 2, n) if seed < 3 else rng.gamma(0.5 * seed - 1, 1, n)
    found = anderson_darling(data)
    a2, p = diagnostic.normal_ad(data)
    assert (found.n, found.a2, found.p) == (n, close(a2), close(p))
    assert found.a2 == close(stats.anderson(data, method="interpolate").statistic)


def test_normality_keeps_its_level_and_sees_two_modes() -> None:
    rng = np.random.default_rng(7)
    clean = [anderson_darling(rng.normal(1, 0.1, 20)).p < 0.05 for _ in range(2000)]
    # Three standard errors of 2000 replications: 1.5 points.
    assert np.mean(clean) == pytest.approx(0.05, abs=0.015)
    modes = [
        anderson_darling(np.where(rng.random(30) < 0.3, 2.0, 1.0) + rng.normal(0, 0.05, 30)).p
        for _ in range(200)
    ]
    assert np.mean(np.array(modes) < 0.05) > 0.95


@pytest.mark.parametrize("scale", [1.0, TINY, HUGE])
def test_no_result_depends_on_the_unit(scale: float) -> None:
    a, b = np.array([1.0, 1.2, 0.9, 1.4]), np.array([1.5, 1.1, 1.9, 1.6, 1.3])
    plain, scaled = t_test(a, b), t_test(a * scale, b * scale)
    assert scaled.p_two_sided == close(plain.p_two_sided)
    assert scaled.degrees == close(plain.degrees)
    assert scaled.difference.low / scale == close(plain.difference.low)
    assert variance_test(a * scale, b * scale).p == close(variance_test(a, b).p)
    assert ratio_of_means(a * scale, b * scale).high == close(ratio_of_means(a, b).high)
    assert hodges_lehmann(a * scale, b * scale).value / scale == close(hodges_lehmann(a, b).value)
    data = np.tile(a, 3)
    assert anderson_darling(data * scale).p == close(anderson_darling(data).p)


def test_a_ratio_of_the_ends_of_the_floats() -> None:
    found = ratio_of_means([TINY] * 2, [HUGE] * 2)
    assert (found.value, found.low, found.high) == (math.inf,) * 3
    assert t_test([HUGE, -HUGE], [HUGE, HUGE]).p_two_sided == pytest.approx(0.5)


def test_values_that_are_not_finite_are_left_out() -> None:
    a, b = [1.0, 2.0, 3.5], [2.0, 4.0, 5.0, 7.0]
    dirty_a, dirty_b = [math.nan, *a, math.inf], [*b, -math.inf]
    for asked in (t_test, variance_test, mann_whitney, brunner_munzel, hodges_lehmann):
        assert asked(dirty_a, dirty_b) == asked(a, b)
    assert ratio_of_means(dirty_a, dirty_b) == ratio_of_means(a, b)


@pytest.mark.parametrize(("a", "b"), [([], []), ([], [1.0, 2.0]), ([1.0, 2.0], [])])
def test_no_values_give_no_figures(a: list[float], b: list[float]) -> None:
    found = t_test(a, b)
    figures = [
        found.difference.value,
        found.difference.low,
        found.t,
        found.p_greater,
        found.p_two_sided,
        variance_test(a, b).p,
        variance_test(a, b).ratio.low,
        ratio_of_means(a, b).value,
        mann_whitney(a, b).p,
        rank_test(a, b).p,
        hodges_lehmann(a, b).value,
        equivalence(a, b, 1.0).p,
        ratio_equivalence(a, b, 1.0).p,
        anderson_darling(a).p,
    ]
    assert all(math.isnan(figure) for figure in figures)


def test_one_value_has_a_difference_but_no_test() -> None:
    found = t_test([3.0], [1.0, 2.0])
    assert found.difference.value == 1.5
    assert math.isnan(found.difference.low)
    assert math.isnan(found.p_two_sided)
    ratio = ratio_of_means([2.0], [3.0])
    assert ratio.value == pytest.approx(1.5)
    assert math.isnan(ratio.low)
    assert mann_whitney([3.0], [1.0, 2.0]).p == pytest.approx(2 / 3)
    assert hodges_lehmann([3.0], [1.0]).value == 2.0


def test_constant_data() -> None:
    same = t_test([2.0] * 3, [2.0] * 4)
    assert (same.p_greater, same.p_less, same.p_two_sided) == (1.0, 1.0, 1.0)
    assert (same.difference.low, same.difference.high) == (0.0, 0.0)
    higher = t_test([3.0] * 3, [2.0] * 4)
    assert (higher.p_greater, higher.p_less, higher.p_two_sided) == (0.0, 1.0, 0.0)
    assert (higher.difference.low, higher.difference.high) == (1.0, 1.0)
    assert variance_test([2.0] * 3, [5.0] * 4).p == 1.0
    assert variance_test([1.0, 2.0], [5.0] * 4).p == 0.0
    assert variance_test([5.0] * 4, [1.0, 2.0]).p == 0.0
    assert ratio_of_means([2.0] * 3, [3.0] * 3).low == pytest.approx(1.5)
    assert mann_whitney([2.0] * 3, [2.0] * 4).p == 1.0
    assert brunner_munzel([2.0] * 3, [2.0] * 4).p == 1.0
    one = t_test([2.0] * 5, [1.0, 3.0, 2.5])
    mean, sdev = np.mean([1.0, 3.0, 2.5]), np.std([1.0, 3.0, 2.5], ddof=1)
    expected = stats.ttest_ind_from_stats(2, 0, 5, mean, sdev, 3, equal_var=False)
    assert one.p_two_sided == close(expected.pvalue)


def test_samples_that_do_not_overlap_are_ranked_by_mann_whitney() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    assert math.isnan(brunner_munzel(a, b).p)
    found = rank_test(a, b)
    assert found.method == "mann-whitney-exact"
    assert found.p == pytest.approx(2 / math.comb(8, 4))
    assert found.below.value == 1.0
    assert rank_test([1.0, 6.0, 3.0, 4.0], b).method == "brunner-munzel"


def test_a_ratio_needs_positive_values() -> None:
    for a in ([0.0, 1.0, 2.0], [-1.0, 1.0, 2.0]):
        assert math.isnan(ratio_of_means(a, [1.0, 2.0]).low)
        assert math.isnan(ratio_equivalence([1.0, 2.0], a, 0.1).p)


def test_large_samples_are_thinned_for_the_shift() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(5, 1, 6000), rng.normal(4, 1, 5000)
    found = hodges_lehmann(a, b)
    assert found.value == pytest.approx(1, abs=0.08)
    assert found.low < 1.0 < found.high
    assert found.high - found.low == pytest.approx(
        2 * 1.96 * math.sqrt(math.pi / 3 * (1 / 6000 + 1 / 5000)), rel=0.1
    )
