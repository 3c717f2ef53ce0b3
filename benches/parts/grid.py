"""How late the arrivals at a device are against an even grid, as an outside observer sees it. Pure.

The observer knows neither side's time zero, and clocks differ by millionths; so each side
gets the line that suits it: the slope from the medians of its first and last quarter, and
the offset of its 1st percentile, below which nothing counts as late. What is left is
unevenness alone, for both sides by the same rule. Stamps are whole microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


class Lateness(NamedTuple):
    """Of one run, behind its own best grid [us]; `slope_ppm`: how much slower than asked."""

    arrivals: int
    p50_us: float
    p98_us: float
    p99_us: float
    p999_us: float
    slope_ppm: float


def lateness(stamps_ns: NDArray[np.integer], rate_per_s: float) -> Lateness:
    """Return how late arrivals `(n,)` are that were meant to be even; n at least 100."""
    residuals = np.sort(stamps_ns).astype(float) - stamps_ns.min()
    places = np.arange(len(residuals))
    residuals -= places * (1e9 / rate_per_s)
    slope = _slope(residuals)
    residuals -= slope * places
    late = np.maximum(residuals - np.percentile(residuals, 1), 0) / 1e3
    p50, p98, p99, p999 = np.percentile(late, (50, 98, 99, 99.9)).tolist()
    slope_ppm = slope * rate_per_s / 1e3
    return Lateness(len(residuals), p50, p98, p99, p999, slope_ppm)


def _slope(residuals: Times) -> float:
    """Return the slope from quarter to quarter [ns an arrival]; bursts do not move medians."""
    quarter = len(residuals) // 4
    rise = np.median(residuals[-quarter:]) - np.median(residuals[:quarter])
    return float(rise / (len(residuals) - quarter))


def dispersion(stamps_ns: NDArray[np.integer]) -> float:
    """Return variance over squared mean of the gaps: 0 even, 1 Poisson."""
    gaps = np.diff(np.sort(stamps_ns)).astype(float)
    return float(gaps.var() / gaps.mean() ** 2)
