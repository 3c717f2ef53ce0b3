"""The t-test report of two inputs, quantity by quantity, with P-values adjusted for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats.arrays import FloatArray, SampleValues
from benchwright.stats.distribution import anderson_darling
from benchwright.stats.moments import moments
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
# Purpose: Holm's step-down keeps the chance of any false rejection; Benjamini and
# Hochberg's step-up keeps the expected share of false ones among the rejected. An adjusted
# P-value is compared with the level as a single one would be.
# Decision: a P-value that is not there (NaN) stays so and is not counted: a question that
# has no P-value is no hypothesis.
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


def _ordered(
    p: FloatArray | Sequence[float],
) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Return the values, which of them are known, and the order of the known ones."""
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


# -- Everything that `--ttest` says of two inputs, quantity by quantity ----------------
#
# Purpose: the paper's t-test, and what it wished for in its future work: an F-test decides
# between pooled variances and Welch, and where a sample is not normal there is a rank test too.
# Decision: both pre-tests are at 5 % whatever the confidence of the intervals, because a
# higher confidence must not make them blind; Welch where the F-test is not possible. The
# rank test is added and never put in the t-test's place: the reader sees both.
# Non-goal: a verdict; that is `bw compare`.
# Sources: Auto-pilot paper, sections 3.3 (Figure 3) and 4.1.

PRETEST_LEVEL = 0.05
"""Of the F-test and of the tests of normality."""

Variances = Literal["auto", "equal", "welch"]
"""Who decides whether variances are pooled: the F-test, or the caller."""


class QuantityComparison(msgspec.Struct, frozen=True):
    """One quantity of a candidate (sample 1) beside that of a baseline (sample 2)."""

    name: str
    label: str
    means: tuple[float, float]
    """Of the candidate, of the baseline, in the quantity's unit."""
    test: TTest
    decided: Variances
    """`auto` where the F-test chose the t-test."""
    variances: VarianceTest
    normality_p: tuple[float, float]
    """Of the candidate, of the baseline; NaN where not judged."""
    ratio: Estimate
    """candidate / baseline, of geometric means."""
    rank: RankTest | None = None
    """Where a sample is not normal."""
    shift: Estimate | None = None
    """Hodges and Lehmann's, beside the rank test."""
    p_adjusted: float = float("nan")
    """`test.p_two_sided` adjusted for the number of comparisons."""


class InputComparison(msgspec.Struct, frozen=True):
    """Two inputs, by name, in every quantity that both have."""

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
    """Return all that two samples of one quantity say, P-values not yet adjusted."""
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
    """Return every input compared with the one at place `baseline`.

    `inputs` are a name and its quantities, of shape `(n,)`; `rows` has the label
    and the unit of each quantity. The two-sided P-values of all quantities of all
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


def _adjusted(
    input_comparisons: Sequence[InputComparison],
) -> tuple[InputComparison, ...]:
    p = [
        quantity.test.p_two_sided
        for pair in input_comparisons
        for quantity in pair.quantities
    ]
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
