"""How much work an operation is: distributions with their first two moments.

The moments give the closed forms (Pollaczek-Khinchine); the draws drive the loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from queues import Times


class Work(Protocol):
    """A distribution of positive times [s]."""

    @property
    def mean_s(self) -> float:
        """The mean."""

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation."""

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s]."""


@dataclass(frozen=True)
class Exponential:
    """Memoryless work."""

    mean_s: float
    cv2: float = 1.0

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s]."""
        return self.mean_s * random.standard_exponential(n)


@dataclass(frozen=True)
class Lognormal:
    """Skewed work with every moment."""

    mean_s: float
    cv2: float

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s]."""
        sigma2 = math.log1p(self.cv2)
        return self.mean_s * np.exp(math.sqrt(sigma2) * random.standard_normal(n) - sigma2 / 2)


@dataclass(frozen=True)
class Erlang:
    """The sum of `stages` memoryless parts: light tail."""

    mean_s: float
    stages: int

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation."""
        return 1 / self.stages

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s]."""
        return random.standard_gamma(self.stages, n) * (self.mean_s / self.stages)


@dataclass(frozen=True)
class Deterministic:
    """Always the same work."""

    mean_s: float
    cv2: float = 0.0

    def draw(self, random: Generator, n: int) -> Times:
        """Return n works `(n,)` [s]."""
        return np.full(n, self.mean_s)


@dataclass(frozen=True)
class BoundedPareto:
    """Heavy tail: density ~ x^-(alpha + 1) between `lowest_s` and `span` times that."""

    mean_s: float
    alpha: float
    span: float

    def _moment(self, k: int) -> float:
        """Return E[X^k] for a lowest value of one; alpha differs from 1 and 2."""
        scale = self.alpha / (1 - self.span**-self.alpha)
        return float(scale * (self.span ** (k - self.alpha) - 1) / (k - self.alpha))

    @property
    def lowest_s(self) -> float:
        """The least work [s]."""
        return self.mean_s / self._moment(1)

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation."""
        return self._moment(2) / self._moment(1) ** 2 - 1

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s], by the inverse of the distribution."""
        left = 1 - random.random(n) * (1 - self.span**-self.alpha)
        works: Times = self.lowest_s * left ** (-1 / self.alpha)
        return works


@dataclass(frozen=True)
class Hyperexponential:
    """Two memoryless kinds with balanced means: cv2 > 1."""

    mean_s: float
    cv2: float

    @property
    def share(self) -> float:
        """The share of the first kind."""
        return (1 + math.sqrt((self.cv2 - 1) / (self.cv2 + 1))) / 2

    @property
    def means_s(self) -> tuple[float, float]:
        """The mean of each kind [s]."""
        return self.mean_s / (2 * self.share), self.mean_s / (2 - 2 * self.share)

    def draw(self, random: Generator, n: int) -> Times:
        """Return n independent works `(n,)` [s]."""
        mean = np.where(random.random(n) < self.share, *self.means_s)
        return mean * random.standard_exponential(n)
