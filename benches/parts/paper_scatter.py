"""Runs of one simulated NFS server, for the workbench paper's figures 4, 5 and 6. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchwright.stats.intervals import t_quantile
from servers import SimServer
from world import State, simulate

Values = NDArray[np.float64]
LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
LENGTHS_S = (30, 60, 90, 120, 180, 240, 300)
RUNS = 250
SEQUENCES = 400
MOST_TRIALS = 400
ACCURACY, CONFIDENCE = 0.90, 0.95


class Scatter(NamedTuple):
    """Mean responses of runs over something."""

    places: list[float]
    """Load factors, or run lengths [s]."""
    means_ms: list[Values]
    """At each place, one per run."""


def mean_ms(server: SimServer, rate: float, length_s: float, number: int) -> float:
    """Return the mean response of one run from an empty server [ms]."""
    operations = simulate(server, rate, length_s, State(7, number))
    return float(1000 * np.nanmean(operations.responses))


def runs_ms(server: SimServer, rate: float, length_s: float, runs: int) -> Values:
    """Return the mean responses of several runs `(runs,)` [ms]."""
    return np.array([mean_ms(server, rate, length_s, n) for n in range(runs)])


def over_load(server: SimServer, runs: int = 5) -> Scatter:
    """Return figure 4: runs of 180 s at load factors."""
    peak = server.peak_rate
    means = [runs_ms(server, factor * peak, 180.0, runs) for factor in LOADS]
    return Scatter(list(LOADS), means)


def over_length(server: SimServer, factor: float, runs: int = 10) -> Scatter:
    """Return figure 5: runs of several lengths at one load factor."""
    rate = factor * server.peak_rate
    means = [runs_ms(server, rate, length, runs) for length in LENGTHS_S]
    return Scatter([float(length) for length in LENGTHS_S], means)


def trials_needed(server: SimServer, factor: float) -> list[float]:
    """Return figure 6: mean trials to 90 % accuracy at 95 % by run length.

    Trials are drawn from `RUNS` runs, and the interval looked at after each, as
    Algorithm 2 does; NaN where the runs are too few for it.
    """
    rate = factor * server.peak_rate
    random = np.random.default_rng(11)
    return [
        trials_until_accurate(runs_ms(server, rate, length, RUNS), random) for length in LENGTHS_S
    ]


def trials_until_accurate(means_ms: Values, random: np.random.Generator | None = None) -> float:
    """Return the mean number of trials, drawn with replacement, until accurate; NaN where
    `MOST_TRIALS` are too few."""
    most = MOST_TRIALS
    random = random or np.random.default_rng(11)
    drawn = random.choice(means_ms, (SEQUENCES, most))
    counts = np.arange(1, most + 1)
    means = np.cumsum(drawn, axis=1) / counts
    squares = np.cumsum(drawn**2, axis=1) - counts * means**2
    spread = np.sqrt(np.maximum(squares[:, 1:], 0) / counts[:-1])
    quantiles = np.array([t_quantile(CONFIDENCE, int(n)) for n in counts[:-1]])
    error = quantiles * spread / np.sqrt(counts[1:]) / means[:, 1:]
    enough = error <= 1 - ACCURACY
    if not enough.any(axis=1).all():
        return float("nan")
    return float(np.mean(enough.argmax(axis=1) + 2))
