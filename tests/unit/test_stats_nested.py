"""The mean of nested replicates, beside closed forms, scipy and statsmodels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from benchwright.stats import special
from benchwright.stats.intervals import t_interval
from benchwright.stats.nested import NestedEstimate, nested_estimate

BALANCED = [(a, b) for a in range(5) for b in range(3) for _ in range(4)]


def drawn(paths: Sequence[tuple[int, ...]], sdevs: tuple[float, ...], seed: int) -> list[float]:
    """Return values around 10, with a normal effect of each replicate; the last is a trial's."""
    rng = np.random.default_rng(seed)
    effects: dict[tuple[int, ...], float] = {}
    found = []
    for path in paths:
        value = 10 + sdevs[-1] * float(rng.standard_normal())
        for depth, sdev in enumerate(sdevs[:-1], 1):
            own = effects.setdefault(path[:depth], sdev * float(rng.standard_normal()))
            value += own
        found.append(value)
    return found


def test_no_level_is_students_interval_with_its_longer_tail() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = nested_estimate(values, np.zeros((5, 0), dtype=int))
    plain = t_interval(values)
    assert (found.mean.low, found.mean.high) == pytest.approx((plain.low, plain.high))
    assert found.components[0].name == "trial"
    skewed = nested_estimate([1.0, 1.0, 1.0, 1.0, 5.0], np.zeros((5, 0), dtype=int))
    assert skewed.mean.high - skewed.mean.value > skewed.mean.value - skewed.mean.low
    assert skewed.mean.low == pytest.approx(t_interval([1.0, 1.0, 1.0, 1.0, 5.0]).low)


def test_interval_is_that_of_the_outermost_means() -> None:
    values = drawn(BALANCED, (2, 1, 0.5), 0)
    found = nested_estimate(values, BALANCED, names=("build", "process"))
    means = np.reshape(values, (5, 12)).mean(axis=1)
    assert found.mean.value == pytest.approx(means.mean())
    assert found.error == pytest.approx(means.std(ddof=1) / math.sqrt(5))
    assert found.degrees == 4
    assert [c.name for c in found.components] == ["build", "process", "trial"]
    assert [c.replicates for c in found.components] == [5, 15, 60]
    assert [c.degrees for c in found.components] == [4, 10, 45]
    assert sum(c.share for c in found.components) == pytest.approx(1)
    assert sum(c.share_of_error for c in found.components) == pytest.approx(1)


def test_components_of_a_balanced_design_are_those_of_restricted_maximum_likelihood() -> None:
    statsmodels = pytest.importorskip("statsmodels.api")
    pandas = pytest.importorskip("pandas")
    values = drawn(BALANCED, (2, 1, 0.5), 0)
    frame = pandas.DataFrame(
        {"v": values, "a": [a for a, _ in BALANCED], "b": [10 * a + b for a, b in BALANCED]}
    )
    fit = statsmodels.MixedLM.from_formula(
        "v ~ 1", frame, groups="a", re_formula="1", vc_formula={"b": "0 + C(b)"}
    ).fit(reml=True)
    peer = (float(fit.cov_re.iloc[0, 0]), float(fit.vcomp[0]), float(fit.scale))
    found = nested_estimate(values, BALANCED)
    assert [c.variance for c in found.components] == pytest.approx(peer, rel=1e-3)
    assert found.mean.value == pytest.approx(float(fit.fe_params.iloc[0]))


def test_components_are_unbiased_where_a_stop_left_the_design_unbalanced() -> None:
    paths = [p for p in BALANCED if p < (4, 1)][:-2]
    sums = np.zeros(3)
    for seed in range(600):
        values = drawn(paths, (2, 1, 0.5), seed)
        tree = nested_estimate(values, paths)
        sums += [c.variance for c in tree.components]
    # Truncation at 0 adds to the outer ones; their standard errors here are 3 and 1 %.
    assert sums / 600 == pytest.approx([4, 1, 0.25], rel=0.12)


def test_interval_of_one_component_is_exact() -> None:
    values = [3.0, 5.0, 4.0, 8.0]
    trial = nested_estimate(values, np.zeros((4, 0), dtype=int)).components[0]
    square = 3 * float(np.var(values, ddof=1))
    assert trial.low == pytest.approx(square / stats.chi2.ppf(0.975, 3))
    assert trial.high == pytest.approx(square / stats.chi2.ppf(0.025, 3))


def test_limit_is_what_infinitely_many_trials_leave() -> None:
    few = [(a,) for a in range(6) for _ in range(2)]
    values = drawn(few, (1, 1), 5)
    found = nested_estimate(values, few)
    outer = found.components[0]
    whole = outer.variance + found.components[1].variance / 2
    assert outer.limit == pytest.approx(found.mean.half_width * math.sqrt(outer.variance / whole))
    assert outer.limit < found.mean.half_width
    assert found.components[-1].limit == 0


def test_a_level_with_one_replicate_each_is_part_of_the_level_outside() -> None:
    paths = [(a, 1) for a in range(4) for _ in range(5)]
    found = nested_estimate(drawn(paths, (1, 1, 0.1), 1), paths)
    assert math.isnan(found.components[1].variance)
    plain = nested_estimate(drawn(paths, (1, 1, 0.1), 1), [path[:1] for path in paths])
    assert found.components[0].variance == pytest.approx(plain.components[0].variance)
    assert found.next_trial.high == pytest.approx(plain.next_trial.high)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [math.nan, 2.0]])
def test_one_outermost_replicate_has_no_interval(values: list[float]) -> None:
    found = nested_estimate(values, np.array([[1, 1]] * len(values)).reshape(-1, 2))
    assert math.isnan(found.mean.low)
    assert found.p_value() == 1
    assert math.isnan(found.next_replicate.high)


def test_few_equal_replicates_have_no_interval() -> None:
    paths = [(a,) for a in range(5) for _ in range(2)]
    assert math.isnan(nested_estimate([7.0] * 10, paths).mean.low)
    many = [(a,) for a in range(60)]
    assert nested_estimate([7.0] * 60, many).mean.low == 7


def test_the_p_value_agrees_with_the_interval() -> None:
    paths = [(a,) for a in range(4) for _ in range(3)]
    found: NestedEstimate = nested_estimate(drawn(paths, (1, 1), 3), paths)
    assert found.p_value(found.mean.low) == pytest.approx(0.05)
    assert found.p_value(found.mean.high) == pytest.approx(0.05)
    assert found.p_value(found.mean.low - 0.01) < 0.05 < found.p_value(found.mean.value)


def test_values_far_from_zero_lose_no_digits() -> None:
    paths = [(a,) for a in range(4) for _ in range(3)]
    values = [0.25 * v for v in (1, 2, 3, 1, 4, 2, 2, 2, 5, 1, 1, 3)]
    near = nested_estimate(values, paths)
    far = nested_estimate([v + 2**20 for v in values], paths)
    assert far.mean.half_width == pytest.approx(near.mean.half_width)
    assert far.components[0].variance == pytest.approx(near.components[0].variance)


@pytest.mark.parametrize("freedom", [1, 2, 5, 29, 400])
@pytest.mark.parametrize("p", [0.001, 0.025, 0.5, 0.975, 0.999])
def test_chi_square_quantiles_are_those_of_scipy(freedom: int, p: float) -> None:
    assert special.chi_square_quantile(freedom, p) == pytest.approx(stats.chi2.ppf(p, freedom))


def test_what_replicates_in_turns_have_in_common_is_in_the_error_and_the_prediction() -> None:
    """Half of the trials of each of ten replicates are slow, all at the same time."""
    rng = np.random.default_rng(6)
    paths = np.concatenate([rng.permutation(10) for _ in range(8)]).reshape(-1, 1)
    values = np.repeat([100.0, 110.0], 40) + rng.standard_normal(80)
    one_by_one, in_turns = (
        nested_estimate(values, paths, in_turns=in_turns) for in_turns in (False, True)
    )
    assert one_by_one.mean.half_width < 1
    assert in_turns.mean.half_width > 5
    following = in_turns.next_replicate
    assert following.high - following.low > 2 * 0.95 * in_turns.mean.half_width
    assert in_turns.components[0].low == one_by_one.components[0].low == 0
    assert in_turns.p_value(100) > 0.05 > one_by_one.p_value(100)
