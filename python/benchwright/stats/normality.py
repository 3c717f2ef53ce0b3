"""Are the data normal? The Anderson-Darling test.

Decision: Anderson and Darling's A2 with mean and deviation estimated, because it sees
both tails and second modes, and its P-value has a closed form that is good from n = 8
on. What lost: Shapiro and Wilk, as powerful, but a polynomial fit that scipy.special
does not have and scipy.stats costs 0.5 s to load; D'Agostino's K2, which looks at skew
and kurtosis only and hardly sees two modes of like size.
Source: R. B. D'Agostino and M. A. Stephens 1986, Goodness-of-Fit Techniques, section
4.8, case 3 and table 4.9. Non-goal: saying what else the data are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray, finite, moments

SMALLEST = 8
"""Below this many values the P-value has no good approximation."""


class NormalityTest(msgspec.Struct, frozen=True):
    """Anderson and Darling's test of one sample."""

    n: int
    a2: float
    """The statistic without its small-sample factor; large speaks against normal."""
    p: float
    """NaN for n < 8 and for constant values: not judged."""


def anderson_darling(values: FloatArray | Sequence[float]) -> NormalityTest:
    """Return the Anderson-Darling test of the finite values, shape `(n,)`."""
    data = np.sort(finite(values))
    found = moments(data)
    if found.n < SMALLEST or not found.sdev:
        return NormalityTest(found.n, math.nan, math.nan)
    from scipy.special import log_ndtr

    # Halves, because a difference of two huge values may be no float.
    z = (data / 2 - found.mean / 2) / (found.sdev / 2)
    weights = 2 * np.arange(1, found.n + 1) - 1
    tails = log_ndtr(z) + log_ndtr(-z[::-1])
    a2 = -found.n - float(np.sum(weights * tails)) / found.n
    return NormalityTest(found.n, a2, _p_value(a2, found.n))


def _p_value(a2: float, n: int) -> float:
    a = a2 * (1 + 0.75 / n + 2.25 / n**2)
    if a < 0.2:
        return 1 - math.exp(-13.436 + 101.14 * a - 223.73 * a * a)
    if a < 0.34:
        return 1 - math.exp(-8.318 + 42.796 * a - 59.938 * a * a)
    if a < 0.6:
        return math.exp(0.9177 - 4.279 * a - 1.38 * a * a)
    if a <= 13:
        return math.exp(1.2937 - 5.709 * a + 0.0186 * a * a)
    return 0.0  # The fit ends here: P is below 1e-30.
