"""The family of response curves that queues have, as arrays over many parameters at once.

Purpose: response(rate) = S0 + (limit - S0) (rate/peak)^p gap/(capacity - rate): a pole at the
capacity, an unloaded response S0, and an exponent p that says how fast waiting sets in: 1 for
one server (Pollaczek-Khinchine, exactly), about sqrt(2(c+1)) - 1 for c servers (Sakasegawa),
0 for Kingman's plain pole. Written by the peak, since that is what is searched for.
Decision: the exponent is kept unknown, so that runs well below the peak tell of it
instead of misleading; a pole without it bends wrongly for many servers. The paper's
a + b/rate lost: it is concave and has no pole.
Decision: near and above the capacity a run has no steady state, only a length; the distance
to the pole is softened by what a run from an empty server can reach (`softness`).
Source: H. Sakasegawa 1977, An approximation formula L_q, Ann. Inst. Stat. Math. 29;
J. Harrison 1985, Brownian motion and stochastic flow systems (reflected Brownian motion).
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class ResponseCurve(msgspec.Struct, frozen=True):
    """Many curves of one criterion, one for each drawn parameter; columns `(n,)`.

    Responses are shares of the limit: 1 at the peak.
    """

    peak: FloatArray
    """[1/s]."""
    gap: FloatArray
    """(capacity - peak) / peak."""
    exponent: FloatArray
    unloaded: FloatArray
    """Response without load, as a share of the limit."""

    @property
    def capacity(self) -> FloatArray:
        """The rate of the pole [1/s]."""
        return self.peak * (1 + self.gap)

    def waiting(self, rate: FloatArray, softness: FloatArray | float = 0.0) -> Any:
        """Return the response beyond the unloaded, as a share of that at the peak.

        `rate` is of a shape that fits `(..., n)`; `softness` is a share of the capacity.
        """
        x = rate / self.peak
        distance = 1 + self.gap - x
        softened = 4 * (softness * (1 + self.gap)) ** 2 + 1e-9
        # The positive root of r^2 - distance r - softened/4, without a difference of likes:
        # far above the capacity that would come to 0.
        away = np.abs(distance) + np.sqrt(distance * distance + softened)
        reach = np.where(distance > 0, away / 2, softened / (2 * away))
        return np.maximum(np.exp(self.exponent * np.log(x)) * self.gap / reach, 1e-6)

    def response(self, rate: FloatArray, softness: FloatArray | float = 0.0) -> Any:
        """Return the response as a share of the limit."""
        return self.unloaded + (1 - self.unloaded) * self.waiting(rate, softness)
