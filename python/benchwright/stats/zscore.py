"""Standard scores: which values lie far from the others.

Non-goal: a verdict. On clean normal data some |z| exceeds 2 in 23 % of samples of 10 and
in 82 % of samples of 30 (simulated), and none can at n <= 5 because |z| <=
(n-1)/sqrt(n): a high score asks for a look, nothing more.
"""

from __future__ import annotations

import numpy as np

from benchwright.stats.moments import FloatArray, moments

THRESHOLD = 2.0
"""Auto-pilot's: warn about a value more than 2 standard deviations from the mean."""


def z_scores(values: FloatArray) -> FloatArray:
    """Return |value - mean| / sdev for finite values, shape `(n,)` -> `(n,)`.

    Zero for constant values and for n < 2: nothing lies apart there.
    """
    if not values.size:
        return np.zeros(values.shape, dtype=np.float64)
    # By a power of two, exactly, to at most 1: neither a huge nor a tiny difference is lost.
    _, exponent = np.frexp(np.abs(values).max())
    scaled: FloatArray = np.ldexp(values, -exponent)
    found = moments(scaled)
    if found.n < 2 or not found.sdev:
        return np.zeros(values.shape, dtype=np.float64)
    scores: FloatArray = np.abs(scaled - found.mean) / found.sdev
    return scores
