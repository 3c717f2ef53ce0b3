"""How a server's speed changes over time: cold start, noise, stalls, drift.

Speed acts on all of a server at once, so it is a change of time: `work_time` gives the work
time done by each moment, the loops of queues.py run in work time, and completions are
mapped back. What lost: speed looked up at each start of service, which misses that a
stall stops what is already in service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import Generator

from queues import Times

STEP_S = 0.5
STANDSTILL = 1e-9


@njit(cache=True)
def autoregression(shocks: Times, keep: float) -> Times:
    """Return a series with variance one and correlation `keep` from step to step."""
    values = np.empty_like(shocks)
    now = shocks[0]
    for i in range(shocks.size):
        now = keep * now + np.sqrt(1 - keep**2) * shocks[i]
        values[i] = now
    return values


@dataclass(frozen=True)
class SpeedProfile:
    """What makes speed differ from one."""

    cold: float = 0.0
    """Service takes so much longer at first (0.15), fading with `cold_s`."""
    cold_s: float = 8.0
    slow: float = 0.0
    """Standard deviation of a slow noise of speed, with correlation time `slow_s`."""
    slow_s: float = 10.0
    between: float = 0.0
    """Standard deviation of each trial's own speed."""
    stall_s: float = 0.0
    """Length of a pause, every `stall_every_s` with random phase."""
    stall_every_s: float = 10.0
    stall_jitter: float = 0.0
    """Each pause comes so much earlier or later, as a share of `stall_every_s`."""
    drift_per_minute: float = 0.0
    """Loss of speed per minute of the whole search, also between trials."""

    @property
    def constant(self) -> bool:
        """Return whether speed is always one."""
        return self == SpeedProfile()

    @property
    def settles(self) -> bool:
        """Return whether speed is one after a cold start, before a drift."""
        return not (self.slow or self.between or self.stall_s)

    def work_time(self, random: Generator, lasts_s: float, age_s: float) -> WorkTime:
        """Return one trial's work time; age_s: age of the server's state when it begins."""
        if self.constant:
            return WorkTime(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        edges = np.arange(0.0, lasts_s + 2 * STEP_S, STEP_S)
        pace = self._pace(random, edges, age_s)
        if self.stall_s:
            edges, pace = self._stalled(random, edges, pace)
        work = np.concatenate(([0.0], np.cumsum(np.diff(edges) * pace[:-1])))
        return WorkTime(edges, work)

    def _pace(self, random: Generator, edges: Times, age_s: float) -> Times:
        """Return the speed in the step that begins at each edge `(n_edges,)`."""
        pace = 1 / (1 + self.cold * np.exp(-edges / self.cold_s))
        pace *= max(0.05, 1 + self.between * random.standard_normal())
        if self.slow:
            keep = math.exp(-STEP_S / self.slow_s)
            noise = autoregression(random.standard_normal(edges.size), keep)
            pace *= np.maximum(0.05, 1 + self.slow * noise)
        return pace * np.exp(-self.drift_per_minute * (age_s + edges) / 60)

    def _stalled(self, random: Generator, edges: Times, pace: Times) -> tuple[Times, Times]:
        """Return edges and speeds with the pauses cut in."""
        begins = np.arange(random.random() * self.stall_every_s, edges[-1], self.stall_every_s)
        if self.stall_jitter:
            reach_s = self.stall_jitter * self.stall_every_s
            begins = np.maximum(begins + random.uniform(-reach_s, reach_s, begins.size), 0.0)
        all_edges = np.union1d(edges, np.concatenate([begins, begins + self.stall_s]))
        speed = pace[np.searchsorted(edges, all_edges, side="right") - 1]
        since = (
            all_edges - begins[np.maximum(np.searchsorted(begins, all_edges, side="right") - 1, 0)]
            if begins.size
            else np.full(all_edges.size, np.inf)
        )
        paused = (since >= 0) & (since < self.stall_s * (1 - 1e-12))
        return all_edges, np.where(paused, STANDSTILL, speed)


@dataclass(frozen=True)
class WorkTime:
    """Work time done by each moment: piecewise linear, the last slope continues."""

    moments: Times
    work: Times

    def to_work(self, moments: Times) -> Times:
        """Return the work time done by each moment [s]."""
        return _line(moments, self.moments, self.work)

    def to_moments(self, work: Times) -> Times:
        """Return the moments by which so much work time is done [s]; NaN stays."""
        return _line(work, self.work, self.moments)


def _line(at: Times, x: Times, y: Times) -> Times:
    """Interpolate, and continue with the last slope beyond the end."""
    inside = np.interp(at, x, y)
    slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
    return np.where(at > x[-1], y[-1] + (at - x[-1]) * slope, inside)
