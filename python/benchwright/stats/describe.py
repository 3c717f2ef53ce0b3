"""Describing a sample: one row of Getstats' table.

Purpose: COUNT, MEAN, MEDIAN, LOW, HIGH, MIN, MAX, SDEV and HW of one quantity, with the
slope and the sum that predicates may ask about.
Source: Auto-pilot paper, section 3.3 and Figure 2. Non-goals: percentiles, robust
or resampling estimates; rendering (report/).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchwright.model.estimate import Summary
from benchwright.stats.moments import FloatArray, IntArray, median, moments, slope
from benchwright.stats.students_t import t_half_width


def summarise(
    name: str,
    values: FloatArray | Sequence[float],
    *,
    label: str = "",
    unit: str = "",
    confidence: float = 0.95,
    epochs: IntArray | None = None,
) -> Summary:
    """Return one row of Getstats' table for `values`, shape `(n,)`, in `unit`.

    `epochs`, of the same shape, places the values for the slope where trials are
    missing. A figure that n does not allow is NaN: everything but COUNT and SUM for
    n = 0; LOW, HIGH, SDEV, HW and the slope for n = 1.
    """
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    kept = np.isfinite(array)
    data = array[kept]
    found = moments(data)
    half = t_half_width(found.sdev, found.n, confidence)
    with np.errstate(over="ignore"):
        total = float(np.sum(data))
    return Summary(
        name=name,
        label=label or name,
        unit=unit,
        count=found.n,
        mean=found.mean,
        median=median(data),
        low=found.mean - half,
        high=found.mean + half,
        minimum=float(data.min()) if found.n else math.nan,
        maximum=float(data.max()) if found.n else math.nan,
        sdev=found.sdev,
        half_width=half,
        slope=slope(data, None if epochs is None else epochs[kept]),
        sum=total,
        confidence=confidence,
    )
