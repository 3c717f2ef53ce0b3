"""How often is the response of a load whose level does not change called unsteady, and how often is
one whose level does?

Medians of intervals on noises that no threshold was set on: independent, correlated, of two modes,
with bursts and a period. BW_CALIBRATION=full plays 1,000 series of each; fixed seeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from benchwright.features.load.plan import LEAST_INTERVALS
from benchwright.features.load.steady import level_change
from benchwright.findings.thresholds import UNSTEADY_NS
from benchwright.stats.arrays import FloatArray
from populations import at_most

SERIES = 1000 if os.environ.get("BW_CALIBRATION") == "full" else 60
Draw = Callable[[np.random.Generator, int], FloatArray]


def _ar(correlation: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        values = rng.normal(0, 0.2, n)
        for at in range(1, n):
            new = np.sqrt(1 - correlation**2) * values[at]
            values[at] = correlation * values[at - 1] + new
        return np.exp(values)

    return draw


def _modes(dwell: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        turns = rng.random(n) < np.array([0.5, *[1 / dwell] * (n - 1)])
        return (1 + turns.cumsum() % 2) * np.exp(rng.normal(0, 0.05, n))

    return draw


def _bursts(rng: np.random.Generator, n: int) -> FloatArray:
    values = np.exp(rng.normal(0, 0.08, n))
    for at in np.flatnonzero(rng.random(n) < 0.1):
        values[at : at + 1 + rng.poisson(1)] *= 4
    return values


def _saw(rng: np.random.Generator, n: int) -> FloatArray:
    period = (np.arange(n) + rng.integers(7)) % 7
    return np.asarray((1 + period / 3.5) * np.exp(rng.normal(0, 0.05, n)))


STEADY: dict[str, Draw] = {
    "normal 10 %": lambda rng, n: np.exp(rng.normal(0, 0.1, n)),
    "lognormal 50 %": lambda rng, n: np.exp(rng.normal(0, 0.5, n)),
    "t with 2 degrees of freedom": lambda rng, n: np.exp(0.1 * rng.standard_t(2, n)),
    "AR(1) 0.5": _ar(0.5),
    "AR(1) 0.8": _ar(0.8),
    "two modes of 1.5 intervals": _modes(1.5),
    "two modes of 3 intervals": _modes(3),
    "bursts of 2 intervals, 4 times": _bursts,
    "a period of 7 intervals": _saw,
}
NOT_REACHED = {
    ("two modes of 3 intervals", 12): 0.1,
    ("two modes of 3 intervals", 20): 0.05,
    ("bursts of 2 intervals, 4 times", 12): 0.08,
    ("bursts of 2 intervals, 4 times", 20): 0.05,
}
"""With 12 intervals a burst or a mode at the edge is a level."""


@pytest.mark.parametrize("n", [12, 20, 30, 60])
@pytest.mark.parametrize("name", STEADY)
def test_a_steady_response_is_rarely_called_unsteady(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    wrong = sum(level_change(STEADY[name](rng, n)) is not None for _ in range(SERIES))
    print(f"{name}, {n} intervals: {wrong / SERIES:.1%}")
    assert at_most(wrong, SERIES, NOT_REACHED.get((name, n), 0.02))


def _queue(rng: np.random.Generator, rate: float, busy: float) -> list[float]:
    """Return the medians of the 20 intervals of a load of 5 s on a server with one queue [ns]:
    exponential arrivals and services, in equilibrium from the start."""
    arrivals = np.sort(rng.uniform(0, 5, rng.poisson(5 * rate)))
    services = rng.exponential(busy / rate, arrivals.size)
    waiting = rng.exponential(busy / rate / (1 - busy)) if rng.random() < busy else 0.0
    responses, before = [], 0.0
    for at, service in zip(arrivals.tolist(), services.tolist(), strict=True):
        waiting = max(waiting - (at - before), 0.0) + service
        responses.append(waiting)
        before = at
    places = np.minimum(arrivals * LEAST_INTERVALS / 5, LEAST_INTERVALS - 1).astype(int)
    every = np.asarray(responses)
    return [1e9 * float(np.median(every[places == n])) for n in sorted({*places.tolist()})]


@pytest.mark.parametrize("rate", [50, 200, 1000])
@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8, 0.9, 0.95])
def test_a_short_load_on_a_steady_queue_is_rarely_called_unsteady(rate: float, busy: float) -> None:
    """Short intervals resemble their neighbours where a queue takes longer to empty."""
    rng = np.random.default_rng(round(rate + 100 * busy))
    wrong = 0
    for _ in range(SERIES // 2):
        change = level_change(_queue(rng, rate, busy))
        wrong += change is not None and abs(change.last - change.first) >= UNSTEADY_NS
    print(f"{rate}/s, {busy:.0%} busy: {2 * wrong / SERIES:.1%}")
    assert at_most(wrong, SERIES // 2, 0.05)


def _step(size: float) -> Draw:
    return lambda rng, n: np.where(np.arange(n) < n / 2, 1, size) * np.exp(rng.normal(0, 0.1, n))


def _drift(size: float) -> Draw:
    return lambda rng, n: np.linspace(1, size, n) * np.exp(rng.normal(0, 0.05, n))


@pytest.mark.parametrize(
    ("name", "draw", "n", "least"),
    [
        ("step x 2", _step(2), 12, 0.8),
        ("step x 2", _step(2), 20, 0.9),
        ("step x 2", _step(2), 30, 0.95),
        ("step x 1.5", _step(1.5), 30, 0.8),
        ("step x 12", _step(12), 12, 0.95),
        ("drift x 2", _drift(2), 20, 0.8),
        ("drift x 2", _drift(2), 30, 0.95),
        ("drift x 60", _drift(60), 12, 0.95),
    ],
)
def test_a_response_that_changes_is_found(name: str, draw: Draw, n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    missed = sum(level_change(draw(rng, n)) is None for _ in range(SERIES))
    print(f"{name}, {n} intervals: {1 - missed / SERIES:.1%}")
    assert at_most(missed, SERIES, 1 - least)
