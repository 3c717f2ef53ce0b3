"""Series of trials as benchmarks really yield them, mean 1, with fixed seeds.

Each population draws an array of shape `(replications, length)` and knows the true value
of what is estimated. The coefficient of variation is that of a single trial. Recorded series are
populations too (recorded.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SLOW_SHARE = 0.15
"""Share of the slow mode of the bimodal population."""
SLOW_VARIANCE = 0.9
"""Share of the variance that the distance of the two modes accounts for."""


class Population(msgspec.Struct, frozen=True):
    """A named way to draw series."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int]], Array]

    def series(self, seed: int, shape: tuple[int, int]) -> Array:
        """Return series of this population; the name is part of the seed."""
        return self.draw(np.random.default_rng([seed, *self.name.encode()]), shape)

    def truth(self, share: float | None) -> float:
        """Return the mean, 1, or the quantile of a share, from two million draws."""
        return 1.0 if share is None else _quantile(self, share)


@lru_cache(maxsize=64)
def _quantile(population: Population, share: float) -> float:
    # 20 000 series of 100: enough draws also where neighbours are correlated.
    return float(np.quantile(population.series(0, (20_000, 100)), share))


def normal(cv: float) -> Population:
    return Population(f"normal {cv:.0%}", lambda rng, shape: 1 + cv * rng.normal(size=shape))


def lognormal(cv: float) -> Population:
    square = math.log(1 + cv * cv)
    return Population(
        f"lognormal {cv:.0%}",
        lambda rng, shape: rng.lognormal(-square / 2, math.sqrt(square), shape),
    )


def gamma(cv: float) -> Population:
    return Population(f"gamma {cv:.0%}", lambda rng, shape: rng.gamma(cv**-2, cv**2, shape))


def bimodal(cv: float) -> Population:
    distance = cv * math.sqrt(SLOW_VARIANCE / (SLOW_SHARE * (1 - SLOW_SHARE)))
    within = cv * math.sqrt(1 - SLOW_VARIANCE)

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        slow = rng.random(shape) < SLOW_SHARE
        fast = 1 - SLOW_SHARE * distance
        return fast + distance * slow + within * rng.normal(size=shape)

    return Population(f"bimodal {cv:.0%}", draw)


def two_modes(slow: float) -> Population:
    """A share of the trials takes twice as long; each mode varies by 1 %."""
    return Population(
        f"two modes {slow:.0%}",
        lambda rng, shape: 1 + (rng.random(shape) < slow) + 0.01 * rng.normal(size=shape),
    )


def correlated(rho: float, cv: float) -> Population:
    """AR(1), stationary from its first trial."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        noise = rng.normal(size=shape)
        values = np.empty(shape)
        values[:, 0] = noise[:, 0]
        for place in range(1, shape[1]):
            values[:, place] = (
                rho * values[:, place - 1] + math.sqrt(1 - rho * rho) * noise[:, place]
            )
        return 1 + cv * values

    return Population(f"AR(1) {rho:g}, {cv:.0%}", draw)


EVERY = (
    normal(0.02),
    normal(0.08),
    normal(0.16),
    lognormal(0.08),
    lognormal(0.16),
    gamma(0.16),
    bimodal(0.02),
    bimodal(0.08),
    bimodal(0.16),
    correlated(0.3, 0.02),
    correlated(0.3, 0.08),
    correlated(0.3, 0.16),
    correlated(0.6, 0.02),
    correlated(0.6, 0.08),
    correlated(0.6, 0.16),
)


def at_most(hits: int, of: int, rate: float) -> bool:
    """Return whether that many hits are compatible with the rate: three standard errors."""
    return hits <= of * rate + 3 * math.sqrt(of * rate * (1 - rate))


def at_least(hits: int, of: int, rate: float) -> bool:
    return at_most(of - hits, of, 1 - rate)
