"""Trials that were recorded on a real server, for policies to search again. Pure.

Decision: a policy may ask for any rate, and was recorded at some. A trial is drawn from those at the
nearest rates; its response is that of the curve at the rate that is asked for, times the ratio by
which the recorded one was off the curve. So the scatter is the server's own, and the true peak is
known: where the curve meets the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchwright.core.criterion import Criterion
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, PeakGoal
from world import play_means

MEAN = "response_ms_mean"
NEAREST = 12
"""Trials that one is drawn from."""
TOGETHER = 0.01


class Recorded(NamedTuple):
    """One trial."""

    rate: float
    """[1/s]."""
    response_ms: float
    lasted_s: float


Values = NDArray[np.float64]


class Recording(NamedTuple):
    """Trials of one server, by their rate."""

    rates: Values
    """Ascending `(trials,)` [1/s]."""
    ratios: Values
    """Of each trial's response to the curve there `(trials,)`."""
    knots: Values
    """Logarithms of rates `(knots,)`."""
    logs: Values
    """The curve there: logarithms of responses [ms], which never fall `(knots,)`."""

    def response(self, rate: float) -> float:
        """Return the response of the curve at a rate [ms]."""
        return math.exp(np.interp(math.log(rate), self.knots, self.logs))

    def peak(self, limit_ms: float) -> float:
        """Return the rate at which the curve meets a limit [1/s]."""
        rising = np.maximum.accumulate(self.logs + 1e-9 * np.arange(len(self.logs)))
        return math.exp(np.interp(math.log(limit_ms), rising, self.knots))

    def drawn(self, rate: float, random: Generator) -> float:
        """Return the response of one trial at a rate [ms]."""
        near = np.argsort(np.abs(np.log(self.rates / rate)))[:NEAREST]
        return float(self.response(rate) * self.ratios[random.choice(near)])


def recording(trials: Sequence[Recorded]) -> Recording:
    """Return trials as a recording. A knot of the curve is the mean response of trials at rates
    within `TOGETHER`; the means are made to grow with the rate."""
    known = sorted(trials)
    rates = np.array([one.rate for one in known])
    responses = np.array([one.response_ms for one in known])
    weights = np.array([one.lasted_s for one in known])
    parts: list[list[int]] = []
    for at, rate in enumerate(rates):
        if parts and rate <= (1 + TOGETHER) * rates[parts[-1][0]]:
            parts[-1].append(at)
        else:
            parts.append([at])
    mean = [float(np.average(responses[part], weights=weights[part])) for part in parts]
    knots = np.array([float(np.mean(np.log(rates[part]))) for part in parts])
    sizes = [float(weights[part].sum()) for part in parts]
    logs = isotonic_regression(np.log(mean), weights=sizes).x
    curve = np.exp(np.interp(np.log(rates), knots, logs))
    return Recording(rates, responses / curve, knots, logs)


class Searched(NamedTuple):
    """A search of recorded trials."""

    peak_rate: float | None
    trials: int
    load_s: float


def search(
    known: Recording, policy_name: str, goal: PeakGoal, length_s: float, seed: int
) -> Searched:
    """Return what a policy finds, and what it costs, with trials of one length [s]."""
    random = np.random.default_rng(seed)
    played = play_means(
        policy_named(policy_name), goal, MEAN, lambda rate: known.drawn(rate, random)
    )
    assert played.result is not None
    found = played.result.peak_rate if played.result.status == "found" else None
    return Searched(found, len(played.history), length_s * len(played.history))


def goal_of(
    limit_ms: float,
    claim: Claim,
    *,
    start_rate: float,
    highest_rate: float,
    length_s: float,
    accuracy: float = 0.9,
    most_trials: int = 1000,
) -> PeakGoal:
    """Return the goal of one search for a mean response."""
    return PeakGoal(
        criteria=(Criterion(key=MEAN, limit=limit_ms),),
        claim=claim,
        start_rate=start_rate,
        highest_rate=highest_rate,
        max_trials=most_trials,
        watched=False,
        accuracy=accuracy,
        run_length_s=length_s,
    )
