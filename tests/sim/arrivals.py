"""When operations arrive: Poisson, or in bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from queues import Times


@dataclass(frozen=True)
class Poisson:
    """Memoryless arrivals."""

    def times(self, random: Generator, rate: float, lasts_s: float) -> Times:
        """Return arrivals in [0, lasts_s)."""
        n = int(rate * lasts_s + 6 * math.sqrt(rate * lasts_s) + 20)
        times = np.cumsum(random.standard_exponential(n)) / rate
        while times[-1] < lasts_s:
            more = np.cumsum(random.standard_exponential(n)) / rate
            times = np.concatenate((times, times[-1] + more))
        return times[: np.searchsorted(times, lasts_s)]


@dataclass(frozen=True)
class Bursty:
    """Poisson arrivals whose rate switches between two levels (a two-state MMPP)."""

    high: float
    """Relative to the mean rate; the low level makes the mean one."""
    share: float
    """Of time at the high level."""
    burst_s: float
    """Mean length of a stay at the high level."""

    def times(self, random: Generator, rate: float, lasts_s: float) -> Times:
        """Return arrivals in [0, lasts_s)."""
        stays = [self.burst_s, self.burst_s * (1 - self.share) / self.share]
        pace = [self.high, (1 - self.share * self.high) / (1 - self.share)]
        state = int(random.random() >= self.share)
        edges, work = [0.0], [0.0]
        while edges[-1] < lasts_s:
            stay = stays[state] * random.standard_exponential()
            edges.append(edges[-1] + stay)
            work.append(work[-1] + stay * pace[state])
            state = 1 - state
        end = float(np.interp(lasts_s, edges, work))
        return np.interp(Poisson().times(random, rate, end), work, edges)
