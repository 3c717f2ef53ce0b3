"""The t-test report of two inputs, quantity by quantity, with P-values adjusted for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.comparison import Variances
from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats.arrays import FloatArray, SampleValues
from benchwright.stats.sample import anderson_darling, moments
from benchwright.stats.two_sample import (
    RankTest,
    TTest,
    VarianceTest,
    hodges_lehmann,
    rank_test,
    ratio_of_means,
    t_test,
    variance_test,
)

# -- Many hypotheses at once: P-values adjusted for their number ----------------------
#
# Purpose: Holm's step-down limits the probability of any false rejection; Benjamini and
# Hochberg's step-up limits the expected share of false rejections among all rejections. An
# adjusted P-value is compared with the level like a single P-value.
# Decision: a missing P-value (NaN) remains NaN and does not count as a hypothesis.
# Sources: S. Holm 1979, Scandinavian Journal of Statistics 6(2); Y. Benjamini and
# Y. Hochberg 1995, J. Royal Statistical Society B 57(1).


def holm(p: FloatArray | Sequence[float]) -> FloatArray:
    """Return Holm's adjusted P-values, shape `(n,)` -> `(n,)`, in the order given."""
    values, known, order = _ordered(p)
    count = order.size
    stepped = values[known][order] * (count - np.arange(count))
    adjusted = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return _placed(values, known, order, adjusted)


def benjamini_hochberg(p: FloatArray | Sequence[float]) -> FloatArray:
    """Return Benjamini and Hochberg's adjusted P-values, shape `(n,)` -> `(n,)`."""
    values, known, order = _ordered(p)
    count = order.size
    stepped = values[known][order] * (count / np.arange(1, count + 1))
    adjusted = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return _placed(values, known, order, adjusted)


def _ordered(p: FloatArray | Sequence[float]) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Return the values, a mask of the known ones, and the order of the known ones."""
    values = np.asarray(p, dtype=np.float64).reshape(-1)
    known = np.flatnonzero(~np.isnan(values))
    assert not np.any((values[known] < 0) | (values[known] > 1)), "no P-value"
    return values, known, np.argsort(values[known], kind="stable")


def _placed(
    values: FloatArray, known: np.ndarray, order: np.ndarray, adjusted: FloatArray
) -> FloatArray:
    result = np.full(values.shape, np.nan)
    result[known[order]] = adjusted
    return result


# -- The report of `--ttest` on two inputs, quantity by quantity -----------------------
#
# Purpose: the paper's t-test with the extensions of its future work: an F-test chooses between
# pooled variances and Welch, and where a sample is not normal a rank test is added.
# Decision: both pre-tests have a level of 5 % at any confidence of the intervals, because a
# higher confidence must not reduce their power; Welch where the F-test is not possible. The
# rank test never replaces the t-test: the report shows both.
# Non-goal: a verdict; that is `bw compare`.
# Sources: Auto-pilot paper, sections 3.3 (Figure 3) and 4.1.

PRETEST_LEVEL = 0.05
"""Level of the F-test and of the tests of normality."""


class QuantityComparison(msgspec.Struct, frozen=True):
    """One quantity of a candidate (sample 1) compared with a baseline (sample 2)."""

    name: str
    label: str
    means: tuple[float, float]
    """Means of candidate and baseline, in the quantity's unit."""
    test: TTest
    decided: Variances
    """`auto` where the F-test chose the t-test."""
    variances: VarianceTest
    normality_p: tuple[float, float]
    """P-values of normality for candidate and baseline; NaN where not tested."""
    ratio: Estimate
    """candidate / baseline, of geometric means."""
    rank: RankTest | None = None
    """Rank test, where a sample is not normal."""
    shift: Estimate | None = None
    """Hodges and Lehmann's shift, with the rank test."""
    p_adjusted: float = float("nan")
    """`test.p_two_sided` adjusted for the number of comparisons."""


class InputComparison(msgspec.Struct, frozen=True):
    """The comparison of two inputs in every quantity that both have."""

    candidate: str
    baseline: str
    quantities: tuple[QuantityComparison, ...]


def compare_quantity(
    name: str,
    candidate: SampleValues,
    baseline: SampleValues,
    confidence: float = 0.95,
    *,
    label: str = "",
    unit: str = "",
    variances: Variances = "auto",
) -> QuantityComparison:
    """Return the comparison of two samples of one quantity, with unadjusted P-values."""
    f_test = variance_test(candidate, baseline, confidence)
    pooled = variances == "equal" or (variances == "auto" and f_test.p >= PRETEST_LEVEL)
    normal = (anderson_darling(candidate).p, anderson_darling(baseline).p)
    odd = any(p < PRETEST_LEVEL for p in normal)
    return QuantityComparison(
        name=name,
        label=label or name,
        means=(moments(candidate).mean, moments(baseline).mean),
        test=t_test(candidate, baseline, confidence, equal_variance=pooled, unit=unit),
        decided=variances,
        variances=f_test,
        normality_p=normal,
        ratio=ratio_of_means(baseline, candidate, confidence),
        rank=rank_test(candidate, baseline, confidence) if odd else None,
        shift=hodges_lehmann(candidate, baseline, confidence, unit) if odd else None,
    )


def compare_inputs(
    inputs: Sequence[tuple[str, Mapping[str, SampleValues]]],
    rows: Mapping[str, tuple[str, str]],
    *,
    baseline: int = 0,
    confidence: float = 0.95,
    variances: Variances = "auto",
) -> tuple[InputComparison, ...]:
    """Return every input compared with the one at index `baseline`.

    `inputs` are names with their quantities, of shape `(n,)`; `rows` has the label and the
    unit of each quantity. The two-sided P-values of all quantities of all
    inputs are adjusted together by Benjamini and Hochberg.
    """
    base_name, base = inputs[baseline]
    input_comparisons = [
        InputComparison(
            name,
            base_name,
            tuple(
                compare_quantity(
                    quantity,
                    values,
                    base[quantity],
                    confidence,
                    label=rows[quantity][0],
                    unit=rows[quantity][1],
                    variances=variances,
                )
                for quantity, values in quantities.items()
                if quantity in base
            ),
        )
        for place, (name, quantities) in enumerate(inputs)
        if place != baseline
    ]
    return _adjusted(input_comparisons)


def _adjusted(input_comparisons: Sequence[InputComparison]) -> tuple[InputComparison, ...]:
    p = [quantity.test.p_two_sided for pair in input_comparisons for quantity in pair.quantities]
    adjusted = iter(benjamini_hochberg(p).tolist())
    return tuple(
        msgspec.structs.replace(
            pair,
            quantities=tuple(
                msgspec.structs.replace(quantity, p_adjusted=next(adjusted))
                for quantity in pair.quantities
            ),
        )
        for pair in input_comparisons
    )
