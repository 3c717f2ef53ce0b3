"""The resolution of values: the step of the grid on which they lie."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from benchwright.stats.moments import finite_values, moments

if TYPE_CHECKING:
    from benchwright.stats.arrays import SampleValues

# Purpose: a clock of 1 ms and a percentile in whole milliseconds give values that repeat. Each is
# known no better than half a step, whatever the standard deviation of the values is: 30 measured
# three times is no evidence of a value without noise. Method: the step is the smallest distance of
# two different values, if all distances are whole multiples of it and at least half of the values
# repeat another one. A value that is rounded to such a step has an error whose variance is step **
# 2 / 12. Non-goals: the step of values that hardly repeat, which is smaller than their standard
# deviation; rates over whole units of time, whose steps differ (findings/sanity.py).

_ROUNDING = 1e-6
"""Largest distance from a whole multiple of values that are not rounded, in steps: 0.3 - 0.2 is not
0.1."""
_EQUAL = 1e-12
"""Values that differ by less, relative to the largest, are equal: they were rounded on different
ways."""


def resolution(values: SampleValues, rounding: float = 0.0) -> float:
    """Return the step of the grid on which the finite values lie, shape `(n,)`, in their unit.

    It is 0 where more than half of the values are different, where all are equal, and where they
    lie on no grid. `rounding` is the last digit of values that are written rounded: 0.33, 0.67 and
    1.00 have a step of 0.33.
    """
    data = sorted(finite_values(values))
    if not data:
        return 0.0
    tiny = _EQUAL * max(abs(data[0]), abs(data[-1]))
    distances = [high - low for low, high in pairwise(data) if high - low > tiny]
    if not distances or 2 * (len(distances) + 1) > len(data):
        return 0.0
    step = min(distances)
    error = (tiny + rounding) / step
    for distance in distances:
        times = distance / step
        if abs(times - round(times)) > max(_ROUNDING, (times + 1) * error):
            return 0.0
    return step


def rounding_error(values: SampleValues) -> float:
    """Return by how much the mean of finite values, shape `(n,)`, can be off because a clock
    rounded them, in their unit; 0 where they lie on no grid that begins at 0.

    It is half a step where they hardly vary, and vanishes with their standard deviation: rounding
    moves the mean of normal values by at most step / pi * exp(-2 (pi sdev / step)**2), and rounded
    down they are half a step lower anyway.
    """
    step = resolution(values)
    data = finite_values(values)
    if not step or abs(math.remainder(min(data), step)) > _ROUNDING * step:
        return 0.0
    return step / 2 * math.exp(-2 * (math.pi * moments(data).sdev / step) ** 2)
