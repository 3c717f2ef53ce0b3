"""Measured curves of servers without a closed form: what measure_curves.py stored."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CURVES = Path(__file__).with_name("curves.json")


@dataclass(frozen=True)
class Curve:
    """A measured curve of the binding criterion around the peak."""

    rates: tuple[float, ...]
    values: tuple[float, ...]
    peak_rate: float
    peak_rate_se: float
    """Standard error of the peak [1/s]."""

    def value(self, rate: float) -> float:
        """Return the criterion's value; linear in its reciprocal, also beyond the ends."""
        x, y = np.asarray(self.rates), 1 / np.asarray(self.values)
        k = int(np.clip(np.searchsorted(x, rate) - 1, 0, x.size - 2))
        line = y[k] + (y[k + 1] - y[k]) * (rate - x[k]) / (x[k + 1] - x[k])
        return float(1 / line) if line > 0 else math.inf


@functools.cache
def measured_curves() -> dict[str, Curve]:
    """Return the curves of curves.json by server."""
    if not CURVES.exists():
        return {}
    read = json.loads(CURVES.read_text())
    return {
        name: Curve(tuple(c["rates"]), tuple(c["values"]), c["peak_rate"], c["peak_rate_se"])
        for name, c in read.items()
    }
