"""Ramps of simulated servers, with noise of many kinds between their trials.

A ramp is played by the policy of `bw ramp`. A trial reports one throughput: the server's curve
times the machine's speed in this trial. The speed is a function of the trial's number and of its
level, drawn once for each ramp. Where it changes with time, gamma is that of the mean speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.random import Generator

from benchwright.core.results import Estimate
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.ramp.levels import THROUGHPUT_KEY
from benchwright.features.search.ramp.policy import next_ramp_step
from benchwright.features.search.ramp.scalability import users_at_peak, usl_throughput
from benchwright.features.search.ramp.types import RampGoal, RampResult, UslFit

Curve = Callable[[float], float]
"""Users to throughput [1/s]."""
Speed = Callable[[int, float], float]
"""Number of a trial, from 0, and its level, to the logarithm of the machine's relative speed."""
Noise = Callable[[Generator, int], Speed]
"""Draws the speed for a ramp of about so many trials."""

SDEV = 0.03
MOST = 400
"""Trials of a ramp, at most."""
HIGHEST = 64.0


def usl(gamma: float, sigma: float, kappa: float) -> Curve:
    """Return the Universal Scalability Law."""
    return lambda n: float(usl_throughput(np.array([n]), gamma, sigma, kappa)[0])


def network(demands_ms: tuple[float, ...], think_ms: float = 0.0) -> Curve:
    """Return the throughput of a closed network of queues by exact mean value analysis: it rises
    to the bottleneck's rate and never falls. Source: M. Reiser and S. Lavenberg 1980, JACM 27(2).
    """

    def throughput(users: float) -> float:
        queues, rate = [0.0] * len(demands_ms), 0.0
        for number in range(1, int(users) + 1):
            waits = [demand * (1 + queue) for demand, queue in zip(demands_ms, queues, strict=True)]
            rate = number / (think_ms + sum(waits))
            queues = [rate * wait for wait in waits]
        return 1e3 * rate

    return throughput


def pool(size: int, service_ms: float) -> Curve:
    """Return the throughput of a pool without a queue before it: a sharp knee."""
    return lambda n: 1e3 * min(n, size) / service_ms


# -- kinds of noise ----------------------------------------------------------------------


def _of_time(draw: Callable[[Generator, int], np.ndarray]) -> Noise:
    """Return a noise that depends on the trial's number only."""

    def noise(random: Generator, trials: int) -> Speed:
        logs = np.asarray(draw(random, trials), dtype=float)
        return lambda at, level: float(logs[at])

    return noise


def _with_drift(draw: Callable[[Generator, int], np.ndarray]) -> Noise:
    """Return independent noise and a change of speed over the trials, whose mean is 0."""

    def drawn(random: Generator, trials: int) -> np.ndarray:
        change = np.asarray(draw(random, trials), dtype=float)
        change = np.concatenate([change, np.full(MOST - trials, change[-1])])
        change -= change[:trials].mean()
        return change + random.normal(0, SDEV, MOST)

    return _of_time(drawn)


def _unequal(exponent: float) -> Noise:
    """Return noise that changes tenfold from 1 to 64 users."""

    def noise(random: Generator, trials: int) -> Speed:
        logs = random.normal(0, SDEV, MOST)

        def speed(at: int, level: float) -> float:
            place = math.log(level) / math.log(HIGHEST) - 0.5
            return float(logs[at]) * 10 ** (exponent * place)

        return speed

    return noise


def _own_effect(random: Generator, trials: int) -> Speed:
    """Each level has its own effect of 3 %; its runs differ by 0.5 %."""
    logs, effects = random.normal(0, 0.005, MOST), random.normal(0, SDEV, 4096)
    return lambda at, level: float(logs[at] + effects[int(level)])


def _correlated(random: Generator, share: float) -> np.ndarray:
    """Return AR(1) values with the standard deviation SDEV."""
    steps = random.normal(0, SDEV, MOST)
    found = [steps[0]]
    for step in steps[1:]:
        found.append(share * found[-1] + math.sqrt(1 - share**2) * step)
    return np.array(found)


def _states(random: Generator) -> np.ndarray:
    """Return the speed of a machine with two states, 8 % apart, that stay for 5 trials on average."""
    state = np.cumsum(random.random(MOST) < 0.2) % 2
    state = state ^ (random.random() < 0.5)
    return 0.08 * (state - 0.5) + random.normal(0, 0.01, MOST)


def _slow(random: Generator, share: float, by: float) -> np.ndarray:
    logs = random.normal(0, SDEV, MOST)
    return logs + np.where(random.random(MOST) < share, -math.log1p(by), 0.0)


def _fading(trials: int) -> np.ndarray:
    return -0.2 * np.exp(-np.arange(trials) / 3)


INDEPENDENT: dict[str, Noise] = {
    "normal": _of_time(lambda random, _: random.normal(0, SDEV, MOST)),
    "Student's t3": _of_time(lambda random, _: SDEV / math.sqrt(3) * random.standard_t(3, MOST)),
    "one run of ten 30 % slow": _of_time(lambda random, _: _slow(random, 0.1, 0.3)),
    "5 % of runs 50 % slow": _of_time(lambda random, _: _slow(random, 0.05, 0.5)),
    "exponential": _of_time(lambda random, _: SDEV * (1 - random.exponential(1.0, MOST))),
    "x10 to many users": _unequal(1.0),
    "x10 to few users": _unequal(-1.0),
    "level's own 3 %": _own_effect,
}
"""Noise that does not depend on time."""


def _first_slow(random: Generator, trials: int) -> np.ndarray:
    logs = random.normal(0, SDEV, MOST)
    logs[0] -= math.log1p(0.2)
    return logs


DEPENDENT: dict[str, Noise] = {
    "first run 20 % slow": _of_time(_first_slow),
    "-10 % over the ramp": _with_drift(
        lambda random, trials: np.linspace(0, math.log(0.9), trials)
    ),
    "-10 % from some trial on": _with_drift(
        lambda random, trials: np.where(
            np.arange(trials) < random.integers(1, trials), 0, math.log(0.9)
        )
    ),
    "slow at first, 20 % fading": _with_drift(lambda _, trials: _fading(trials)),
    "wave of 10 trials, 5 %": _with_drift(
        lambda random, trials: 0.05 * np.sin(2 * np.pi * (np.arange(trials) / 10 + random.random()))
    ),
    "walk, 1.5 % a trial": _with_drift(
        lambda random, trials: np.cumsum(random.normal(0, 0.015, trials))
    ),
    "AR(1) 0.7": _of_time(lambda random, _: _correlated(random, 0.7)),
    "AR(1) 0.4": _of_time(lambda random, _: _correlated(random, 0.4)),
    "two states, 8 %": _of_time(lambda random, _: _states(random)),
}
"""Noise in which trials resemble their neighbours, or the machine changes."""

NOISES = INDEPENDENT | DEPENDENT


# -- what is right of a fit --------------------------------------------------------------


def holds(estimate: Estimate, truth: float) -> bool:
    """Return whether an interval holds the truth."""
    return estimate.low <= truth <= estimate.high


def maximum_holds(fit: UslFit, sigma: float, kappa: float) -> bool:
    """Return whether the interval of the users at the maximum holds the truth; no maximum is
    an interval up to infinity."""
    truth = users_at_peak(sigma, kappa)
    if fit.users_at_peak is None:
        return truth is None or fit.kappa.high >= kappa
    return holds(fit.users_at_peak, math.inf if truth is None else truth)


# -- the player --------------------------------------------------------------------------


class Played(msgspec.Struct, frozen=True):
    """A ramp's result, and its levels in order of time."""

    result: RampResult
    levels: tuple[float, ...]


def play(goal: RampGoal, curve: Curve, noise: Noise, random: Generator) -> Played:
    """Play a ramp; `random` draws its noise."""
    levels = 1 + math.log2(goal.highest / goal.start)
    expected = int(goal.repeats * levels) + (goal.repeats == 1)
    speed = noise(random, min(expected, MOST))
    history: list[LoadTrial] = []
    known: dict[float, float] = {}
    while len(history) < MOST:
        step = next_ramp_step(goal, history)
        if isinstance(step, RampResult):
            return Played(step, tuple(trial.rate for trial in history))
        if step.rate not in known:
            known[step.rate] = curve(step.rate)
        throughput = known[step.rate] * math.exp(speed(len(history), step.rate))
        history.append(
            LoadTrial(
                rate=step.rate,
                duration_s=10,
                lasted_s=10,
                cost_s=11,
                values={THROUGHPUT_KEY: throughput},
            )
        )
    raise AssertionError("the ramp does not end")
