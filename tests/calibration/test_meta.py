"""Does the estimate from several jobs keep its promises? Measured on simulated jobs.

Jobs have errors of their own that differ up to threefold, known or from ten trials each; their true
values differ by 0 to 10 times a typical error. DerSimonian and Laird's interval with normal quantiles
stands beside. BW_CALIBRATION=full runs 4,000 sets of jobs of every cell, the small form 300 of some.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from benchwright.stats.meta import JobEstimate, meta_estimate

FULL = os.environ.get("BW_CALIBRATION") == "full"
REPLICATIONS = 4_000 if FULL else 300
SEED = 20261130
TRUTH = 0.02
"""A log ratio."""
ERRORS = (0.005, 0.015)
"""Standard errors of single jobs lie between these."""
TRIALS = 10
"""Trials of a job whose error is estimated."""

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


def normal(rng: np.random.Generator, count: int) -> Array:
    """True values of jobs: normal, of mean 0 and standard deviation 1."""
    return rng.standard_normal(count)


def skewed(rng: np.random.Generator, count: int) -> Array:
    """The same, log-normal with a deviation of the logarithm of 0.5."""
    values = np.exp(0.5 * rng.standard_normal(count))
    return (values - math.exp(0.125)) / math.sqrt(math.exp(0.25) * (math.exp(0.25) - 1))


class Coverage(msgspec.Struct, frozen=True):
    """Shares of sets of jobs, in per cent."""

    mean: float
    """The interval holds the population's mean."""
    next_job: float
    """The prediction holds the true value of one more job."""
    tau: float
    """The interval holds the standard deviation between jobs."""
    peer: float
    """DerSimonian and Laird's interval of the mean holds it."""
    width: float
    """Mean width of our interval of the mean, in those of the peer."""


def coverage(jobs: int, ratio: float, draw: Draw, *, known: bool) -> Coverage:
    """Return the coverage over simulated sets; `ratio` is the standard deviation between jobs over
    the middle of their errors."""
    rng = np.random.default_rng([SEED, jobs, round(100 * ratio), known])
    between = ratio * sum(ERRORS) / 2
    counts = np.zeros(4)
    widths = np.zeros(2)
    for _ in range(REPLICATIONS):
        truths = TRUTH + between * draw(rng, jobs + 1)
        errors = rng.uniform(*ERRORS, jobs)
        values = truths[:jobs] + errors * rng.standard_normal(jobs)
        degrees = math.inf
        if not known:
            degrees = TRIALS - 1
            errors = errors * np.sqrt(rng.chisquare(degrees, jobs) / degrees)
        found = meta_estimate(
            [JobEstimate(float(v), float(e), degrees) for v, e in zip(values, errors, strict=True)]
        )
        peer = normal_interval(values, errors)
        counts += [
            found.mean.low <= TRUTH <= found.mean.high,
            found.next_job.low <= truths[-1] <= found.next_job.high,
            found.tau.low <= between <= found.tau.high,
            peer[0] <= TRUTH <= peer[1],
        ]
        widths += [found.mean.high - found.mean.low, peer[1] - peer[0]]
    mean, following, tau, other = (100 * counts / REPLICATIONS).tolist()
    return Coverage(mean, following, tau, other, float(widths[0] / widths[1]))


def normal_interval(values: Array, errors: Array) -> tuple[float, float]:
    """Return DerSimonian and Laird's interval with a normal quantile, as most programs print it."""
    weights = 1 / errors**2
    mean = weights @ values / weights.sum()
    q = weights @ (values - mean) ** 2
    scale = weights.sum() - weights @ weights / weights.sum()
    between = max(0.0, (q - (len(values) - 1)) / scale)
    weights = 1 / (errors**2 + between)
    mean = weights @ values / weights.sum()
    half = 1.96 / math.sqrt(weights.sum())
    return mean - half, mean + half


CELLS = [
    (jobs, ratio, draw, known)
    for draw in (normal, skewed)
    for known in (True, False)
    for jobs in (2, 3, 5, 10, 20)
    for ratio in (0.0, 0.3, 1.0, 3.0, 10.0)
]
TELLING = {
    (3, 0.0, normal, True),
    (3, 1.0, normal, False),
    (5, 0.3, normal, True),
    (5, 3.0, normal, False),
    (20, 1.0, normal, True),
    (10, 3.0, skewed, False),
}


@pytest.mark.parametrize(
    ("jobs", "ratio", "draw", "known"), [one for one in CELLS if FULL or one in TELLING]
)
def test_intervals_hold(jobs: int, ratio: float, draw: Draw, known: bool) -> None:
    found = coverage(jobs, ratio, draw, known=known)
    errors = "known" if known else "estimated"
    print(
        f"{draw.__name__:7} {errors:9} {jobs:3} jobs, ratio {ratio:4}: mean {found.mean:5.1f}, next "
        f"{found.next_job:5.1f}, tau {found.tau:5.1f}, DL {found.peer:5.1f}, width {found.width:.2f}"
    )
    chance = 200 * math.sqrt(0.07 * 0.93 / REPLICATIONS)
    assert found.mean >= 93 - chance
    assert found.next_job >= 93 - chance
