"""Many hypotheses at once: P-values adjusted for how many were asked.

Purpose: Holm's step-down keeps the chance of any false rejection; Benjamini and
Hochberg's step-up keeps the expected share of false ones among the rejected. An adjusted
P-value is compared with the level as a single one would be.
Decision: a P-value that is not there (NaN) stays so and is not counted: a question that
could not be asked is no hypothesis.
Sources: S. Holm 1979, Scandinavian Journal of Statistics 6(2); Y. Benjamini and
Y. Hochberg 1995, J. Royal Statistical Society B 57(1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.stats.moments import FloatArray


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
