"""Least squares of a positive linear form seen with relative errors, and its profiles.

Purpose: the arithmetic under the Universal Scalability Law: log z is near
log(base + columns @ theta), theta free. Relative errors are what throughput has, and in
this form every question about the law (a parameter, the place of the maximum, a point
of the curve) fixes one linear combination, so that its profile is a smaller problem of
the same kind. Decision: own Levenberg-Marquardt steps: scipy.optimize takes half a
second to import; it is the oracle of the tests.
Sources: D. Marquardt 1963, SIAM J. Appl. Math. 11(2); D. Bates and D. Watts 1988,
Nonlinear Regression Analysis, section 6.1 (profiles), section 1.3.2 (lack of fit).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from benchwright.stats.moments import FloatArray

_MOST_STEPS = 60
_SMALLEST_MOVE = 1e-7
"""Of the form, relative; a step that moves it less is not taken."""


class Solution(msgspec.Struct, frozen=True):
    """The best theta, shape `(k,)`, and its weighted sum of squares; infinite where no
    theta makes the form positive at every observation."""

    theta: FloatArray
    squares: float


class Problem(msgspec.Struct, frozen=True):
    """Observations `z > 0`, shape `(n,)`, with weights that sum to n."""

    z: FloatArray
    weights: FloatArray

    def solve(self, columns: FloatArray, base: FloatArray | None = None) -> Solution:
        """Return the least squares of log z - log(base + columns @ theta).

        `columns` has shape `(n, k)`, k from 0 on.
        """
        ground = np.zeros_like(self.z) if base is None else base
        scale = np.abs(columns).max(axis=0, initial=0.0)
        scale[scale == 0] = 1.0
        found = self._descend(ground, columns / scale)
        return Solution(found.theta / scale, found.squares)

    def misfit_p(self, places: FloatArray, found: Solution) -> float | None:
        """Return how likely repetitions would leave so much between curve and data, if the
        curve were right: the p-value of the lack-of-fit test, an F test.

        Observations at equal `places`, shape `(n,)`, are repetitions. None where fewer than
        two degrees of freedom repeat, they are all alike, or no place is left over.
        """
        _, group = np.unique(places, return_inverse=True)
        weights = np.bincount(group, self.weights)
        means = np.bincount(group, self.weights * np.log(self.z)) / weights
        away = np.log(self.z) - means[group]
        pure = float(np.dot(self.weights * away, away))
        left = len(weights) - found.theta.size
        repeated = len(self.z) - len(weights)
        if left < 1 or repeated < 2 or not pure > 0:
            return None
        from scipy.special import fdtrc

        lack = max(found.squares - pure, 0.0) / left
        return float(fdtrc(left, repeated, lack / (pure / repeated)))

    def _squares(self, form: FloatArray) -> float:
        if not (form > 0).all():
            return math.inf
        residuals = np.log(self.z / form)
        return float(np.dot(self.weights * residuals, residuals))

    def _descend(self, base: FloatArray, columns: FloatArray) -> Solution:
        theta = self._first(base, columns)
        form = base + columns @ theta
        squares = self._squares(form)
        damping = 0.0
        for _ in range(_MOST_STEPS if theta.size and math.isfinite(squares) else 0):
            step = self._step(form, columns, damping)
            moved = columns @ step
            if not np.abs(moved / form).max() > _SMALLEST_MOVE:
                break
            tried = self._squares(form + moved)
            if tried > squares:
                damping = max(damping * 10, 1e-3)
                continue
            damping = damping / 10 if damping > 1e-6 else 0.0
            theta, form, squares = theta + step, form + moved, tried
        return Solution(theta, squares)

    def _first(self, base: FloatArray, columns: FloatArray) -> FloatArray:
        """Return where to begin: linear least squares with relative weights, or any
        theta that makes the form positive."""
        root = np.sqrt(self.weights) / self.z
        columns_of = columns * root[:, None]
        found = np.linalg.lstsq(columns_of, (self.z - base) * root, rcond=None)[0]
        theta = np.asarray(found, dtype=np.float64)
        if (base + columns @ theta > 0).all() or not theta.size:
            return theta
        for place in range(theta.size):
            for sign in (1.0, -1.0):
                alone = np.zeros_like(theta)
                alone[place] = sign * float(np.max(self.z))
                if (base + columns @ alone > 0).all():
                    return alone
        return np.zeros_like(theta)

    def _step(
        self, form: FloatArray, columns: FloatArray, damping: float
    ) -> FloatArray:
        slopes = columns / form[:, None]
        residuals = np.log(self.z / form)
        weighted = (slopes * self.weights[:, None]).T
        normal = weighted @ slopes
        diagonal = np.diag(normal)
        # The ridge only keeps columns that say the same from dividing by zero.
        ridge = damping * diagonal + 1e-15 * diagonal.max() + 1e-300
        step = np.linalg.solve(normal + np.diag(ridge), weighted @ residuals)
        return np.asarray(step, dtype=np.float64)


class Bounds(msgspec.Struct, frozen=True):
    """Between which values a figure lies by its nature."""

    low: float
    high: float


def profile_interval(
    excess: Callable[[float], float], centre: float, width: float, bounds: Bounds
) -> tuple[float, float]:
    """Return where `excess` is at most 0 around the centre, within the bounds.

    `excess(value)` is the profile's sum of squares less what the interval allows;
    `width`, above 0, is a guess at the distance of an end. An end that is never reached
    is the bound. Both are the centre where the excess is positive there.
    """
    centre = min(max(centre, bounds.low), bounds.high)
    at_centre = excess(centre)
    if at_centre > 0:
        return centre, centre
    return (
        _end(excess, (centre, at_centre), -width, bounds.low),
        _end(excess, (centre, at_centre), width, bounds.high),
    )


def _end(
    excess: Callable[[float], float],
    inside: tuple[float, float],
    step: float,
    bound: float,
) -> float:
    """Return the end of the interval in the step's direction."""
    centre = inside[0]
    for _ in range(40):
        place = centre + step
        if (place >= bound) if step > 0 else (place <= bound):
            value = excess(bound)
            if value <= 0:
                return bound
            return _crossing(excess, inside, (bound, value))
        value = excess(place)
        if value > 0:
            return _crossing(excess, inside, (place, value))
        inside, step = (place, value), step * 2
    return bound


def _crossing(
    excess: Callable[[float], float],
    inside: tuple[float, float],
    outside: tuple[float, float],
) -> float:
    """Return where the excess is 0 between a place inside and one outside, by false
    position with bisection where that is slow."""
    for turn in range(60):
        (a, fa), (b, fb) = inside, outside
        if abs(b - a) <= 1e-5 * max(abs(a), abs(b)):
            break
        share = fa / (fa - fb) if math.isfinite(fb) and turn % 3 else 0.5
        place = a + (b - a) * min(max(share, 0.01), 0.99)
        value = excess(place)
        if value <= 0:
            inside = (place, value)
        else:
            outside = (place, value)
    return inside[0]
