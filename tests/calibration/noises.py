"""Kinds of noise that no rule was tuned on, for the calibration of stopping rules and comparisons.

Each draws series of shape `(replications, length)` of the trials of one test in order, most with
mean 1. Where an interval of these trials cannot hold the long-run mean, the kind says why: its slow
runs are too rare for the number of trials (`rare`), or its machine changes more slowly than a visit
lasts (`slow`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
Beyond = Literal["", "rare", "slow"]


class Noise(msgspec.Struct, frozen=True):
    """A named process."""

    name: str
    draw: Draw
    beyond: Beyond = ""
    """Why an interval of some of its trials cannot hold its mean; empty where it can."""
    level: float | None = None
    """What is estimated, where it is not the mean over all: the level after a warm-up."""

    def series(self, seed: int, shape: tuple[int, int]) -> Array:
        """Return series; the name is part of the seed."""
        return self.draw(np.random.default_rng([seed, *self.name.encode()]), shape)

    def truth(self, share: float | None) -> float:
        """Return the mean, or the quantile of a share, from four million values."""
        if share is None and self.level is not None:
            return self.level
        return _truth(self, share)


@lru_cache(maxsize=256)
def _truth(noise: Noise, share: float | None) -> float:
    # Many long series: slow kinds have few independent values in one.
    values = noise.series(0, (2000, 2000))
    return float(values.mean() if share is None else np.quantile(values, share))


def modes(share: float, times: float, cv: float = 0.03) -> Draw:
    """Trials of which a share takes so many times as long."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        slow = rng.random(shape) < share
        return (1 + cv * rng.standard_normal(shape)) * np.where(slow, times, 1.0)

    return draw


def pareto(index: float, base: float = 0.0) -> Draw:
    """A constant and a Pareto tail, with mean 1."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        tail = (1 + rng.pareto(index, shape)) * (index - 1) / index
        return base + (1 - base) * tail

    return draw


def student(degrees: float, cv: float) -> Draw:
    return lambda rng, shape: 1 + cv * rng.standard_t(degrees, shape)


def lognormal(cv: float) -> Draw:
    square = math.log(1 + cv * cv)
    return lambda rng, shape: rng.lognormal(-square / 2, math.sqrt(square), shape)


def weibull(form: float) -> Draw:
    return lambda rng, shape: rng.weibull(form, shape) / math.gamma(1 + 1 / form)


def ticks(mean: float, sdev: float, step: float) -> Draw:
    """Times that a coarse clock writes."""
    return lambda rng, shape: step * np.floor((mean + sdev * rng.standard_normal(shape)) / step)


def zeros(share: float) -> Draw:
    """Counts of which a share is 0."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        return np.where(rng.random(shape) < share, 0.0, 1 + rng.poisson(2.0, shape))

    return draw


def counts(mean: float) -> Draw:
    return lambda rng, shape: rng.poisson(mean, shape).astype(np.float64)


def wave(period: float, height: float = 0.1, cv: float = 0.03) -> Draw:
    """A sinusoid with a random phase."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        phase = 2 * math.pi * rng.random((shape[0], 1))
        places = 2 * math.pi * np.arange(shape[1]) / period
        return 1 + height * np.sin(places + phase) + cv * rng.standard_normal(shape)

    return draw


def states(stay: float, apart: float = 0.25, cv: float = 0.03) -> Draw:
    """Two states of the machine, each kept with this probability from trial to trial."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        turns = rng.random(shape) > stay
        turns[:, 0] = rng.random(shape[0]) < 0.5
        state = np.cumsum(turns, axis=1) % 2
        return (1 + apart * (state - 0.5)) * (1 + cv * rng.standard_normal(shape))

    return draw


def autoregressive(rho: float, cv: float, white: float = 0.0, degrees: float = math.inf) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        steps = _steps(rng, shape, degrees)
        values = np.empty(shape)
        values[:, 0] = steps[:, 0]
        for at in range(1, shape[1]):
            values[:, at] = rho * values[:, at - 1] + math.sqrt(1 - rho * rho) * steps[:, at]
        return 1 + cv * values + white * rng.standard_normal(shape)

    return draw


def _steps(rng: np.random.Generator, shape: tuple[int, int], degrees: float = math.inf) -> Array:
    """Return normal values, or Student's of variance 1."""
    if math.isinf(degrees):
        return rng.standard_normal(shape)
    return rng.standard_t(degrees, shape) * math.sqrt((degrees - 2) / degrees)


def walk(cv: float) -> Draw:
    """A level that wanders; what is estimated is its start."""
    return lambda rng, shape: np.cumprod(1 + cv * rng.standard_normal(shape), axis=1)


def cooling(excess: float, trials: float, cv: float = 0.05) -> Draw:
    """A warm-up that fades with so many trials."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        fading = excess * np.exp(-np.arange(shape[1]) / trials)
        return (1 + fading) * (1 + cv * rng.standard_normal(shape))

    return draw


def clustered(alpha: float, beta: float, cv: float = 0.1) -> Draw:
    """GARCH(1, 1): bursts of variance."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        steps = rng.standard_normal(shape)
        values, variance = np.empty(shape), np.ones(shape[0])
        for at in range(shape[1]):
            values[:, at] = np.sqrt(variance) * steps[:, at]
            variance = 1 - alpha - beta + alpha * values[:, at] ** 2 + beta * variance
        return 1 + cv * values

    return draw


def every(period: int, times: float, cv: float = 0.03) -> Draw:
    """One trial of each `period` takes so many times as long, from a random one on."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        first = rng.integers(period, size=(shape[0], 1))
        slow = (np.arange(shape[1]) + first) % period == 0
        return np.where(slow, times, 1.0) * (1 + cv * rng.standard_normal(shape))

    return draw


def bursts(start: float, length: int, times: float, cv: float = 0.03) -> Draw:
    """From a rare trial on so many in a row take so many times as long."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        begins = rng.random((shape[0], shape[1] + length)) < start
        sums = np.cumsum(np.pad(begins, ((0, 0), (1, 0))), axis=1)
        slow = sums[:, length + 1 :] > sums[:, 1:-length]
        slow = slow[:, : shape[1]]
        return np.where(slow, times, 1.0) * (1 + cv * rng.standard_normal(shape))

    return draw


def louder(factor: float, cv: float = 0.03) -> Draw:
    """The deviation grows to so many times as much over the first hundred trials."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        grown = factor ** np.minimum(np.arange(shape[1]) / 100, 1)
        return 1 + cv * grown * rng.standard_normal(shape)

    return draw


def sawtooth(period: int, height: float, cv: float = 0.02) -> Draw:
    """A heap that fills and is collected: each trial a little slower than the one before, up to the
    next collection."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        first = rng.integers(period, size=(shape[0], 1))
        place = (np.arange(shape[1]) + first) % period / period
        return 1 + height * place + cv * rng.standard_normal(shape)

    return draw


NOISES = (
    Noise("Pareto tail 2.5", pareto(2.5, 0.85)),
    Noise("Pareto 2.5", pareto(2.5)),
    Noise("1 % five times", modes(0.01, 5), "rare"),
    Noise("1 % twice", modes(0.01, 2), "rare"),
    Noise("3 % five times", modes(0.03, 5), "rare"),
    Noise("30 % slower by 30 %", modes(0.3, 1.3)),
    Noise("clock of 1 ms, 12.6 ms", ticks(12.6, 0.5, 1)),
    Noise("clock of 10 ms, 47 ms", ticks(47, 3, 10)),
    Noise("clock of 10 ms, 7 ms", ticks(7, 4, 10)),
    Noise("clock of 1 ms, 12.45 ms", ticks(12.45, 0.25, 1)),
    Noise("30 % zeros", zeros(0.3)),
    Noise("95 % zeros", zeros(0.95), "rare"),
    Noise("wave of 7", wave(7)),
    Noise("wave of 40", wave(40), "slow"),
    Noise("wave of 400", wave(400), "slow"),
    Noise("two states of 20", states(0.95), "slow"),
    Noise("AR(1) 0.98", autoregressive(0.98, 0.06, 0.04), "slow"),
    Noise("random walk", walk(0.005), "slow", level=1.0),
    Noise("warm-up of 40 %", cooling(0.4, 5), level=1.0),
    Noise("warm-up of 10 %", cooling(0.1, 5), level=1.0),
    Noise("GARCH", clustered(0.15, 0.8)),
    Noise("lognormal 80 %", lognormal(0.8)),
    Noise("AR(1) 0.5, t3", autoregressive(0.5, 0.1, degrees=3)),
    Noise("every second 20 % slower", every(2, 1.2)),
    Noise("bursts of 5, twice", bursts(0.01, 5, 2), "rare"),
    Noise("half 10 % slower", modes(0.5, 1.1)),
    Noise("10 % three times", modes(0.1, 3), "rare"),
    Noise("0.3 % twenty times", modes(0.003, 20), "rare"),
    Noise("t3", student(3, 0.06)),
    Noise("Weibull 0.7", weibull(0.7)),
    Noise("counts of 4", counts(4)),
    Noise("every tenth 30 % slower", every(10, 1.3)),
    Noise("heap of 12 trials", sawtooth(12, 0.15)),
    Noise("states of 4", states(0.75)),
    Noise("deviation grows four times", louder(4)),
    Noise("bursts of 20, 20 %", bursts(0.01, 20, 1.2), "slow"),
    Noise("AR(1) 0.8", autoregressive(0.8, 0.06)),
    Noise("clock of 4 ms, 30 ms", ticks(30, 1.5, 4)),
    Noise("normal 10 %", autoregressive(0.0, 0.1)),
)
BY_NAME = {noise.name: noise for noise in NOISES}
