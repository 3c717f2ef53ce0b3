"""How noisy a run's mean is, told by the run itself: batch means with the lugsail correction.

Purpose: the relative variance of a run's mean, times its length [s], with the degrees of
freedom behind it. Autocorrelation is respected: batches are many relaxation times
long, and what correlation is left between them is corrected (2 v_b - v_b/2).
Decision: variances of single requests, and intervals from them, are not used at all: near
the peak they are 13 to 40 times too narrow (reference: peak table of the notes).
Source: D. Vats and J. Flegal 2022, Lugsail lag windows, Biometrika 109(3).
"""

from __future__ import annotations

import msgspec
import numpy as np

from benchwright.control.peak.curve import FloatArray

FEWEST_BATCHES = 5
"""Below it a run tells nothing of its own noise."""
MOST_BATCHES = 8
"""So that batches grow with the run, and their correlation fades."""


TRUST = 0.45
"""Share of the batches' degrees of freedom that count. Their noise is right in the mean (0.9 to
1.1 of the noise between runs on five of six servers, heavy tails among them), but batches
are correlated and skewed, so that it is mostly too low and seldom far too high: with 0.7
answers under heavy tails (M/G/4) were right in 86 searches of 100, with this in 93."""


class OwnNoise(msgspec.Struct, frozen=True):
    """What a run says of its noise."""

    relative_s: float
    """Relative variance of the mean times the length [s]."""
    freedom: float
    """Degrees of freedom; 0: nothing is known."""


NOTHING = OwnNoise(0.0, 0.0)


def own_noise(
    values: FloatArray, counts: FloatArray, width_s: float, slope: float
) -> OwnNoise:
    """Return the noise of a run's bins `(n_bins,)`.

    `slope` is the response's elasticity to the rate: what a batch's own number of arrivals
    explains is not noise, since the realised rate is the abscissa.
    """
    coarse = _variance_s(values, counts, width_s, slope)
    if coarse is None:
        return NOTHING
    size, variance = coarse
    half = _batched(values, counts, max(size // 2, 1), slope)
    fine = float(half.var(ddof=1)) * max(size // 2, 1) * width_s
    lugsail = 2 * variance - fine if size >= 2 else variance
    batches = values.size // size
    return OwnNoise(max(lugsail, variance, 1e-12), (batches - 1) * TRUST)


def _variance_s(
    values: FloatArray, counts: FloatArray, width_s: float, slope: float
) -> tuple[int, float] | None:
    """Return the batch size in bins and the batches' variance times their length [s]."""
    size = max(values.size // MOST_BATCHES, 1)
    if values.size // size < FEWEST_BATCHES:
        return None
    means = _batched(values, counts, size, slope)
    return size, float(means.var(ddof=1)) * size * width_s


def _batched(
    values: FloatArray, counts: FloatArray, size: int, slope: float
) -> FloatArray:
    """Return the batches' means over the run's mean, their rate taken out."""
    n = values.size // size * size
    weights = counts[-n:].reshape(-1, size)
    total = np.maximum(weights.sum(axis=1), 1e-9)
    means = (values[-n:].reshape(-1, size) * weights).sum(axis=1) / total
    overall = float(np.average(means, weights=total))
    rates = total / total.mean()
    if overall <= 0:
        return np.zeros(means.size)
    explained = slope * (rates - 1)
    result: FloatArray = means / overall - explained
    return result
