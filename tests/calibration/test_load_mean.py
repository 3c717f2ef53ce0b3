"""How often is a limit of a mean called held or missed wrongly where responses resemble their
neighbours?

M/M/1 queues in their steady state at utilisations of 0.5 to 0.95, loads of 5 to 60 s. The limit is the
true mean, so that both answers are wrong. Independent responses beside them. BW_CALIBRATION=full plays
400 loads of each; fixed seeds.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from benchwright.features.load.mean_interval import ABOVE, BELOW, PartMeans, ends
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray
from populations import at_least, at_most

FULL = os.environ.get("BW_CALIBRATION") == "full"
LOADS = 400 if FULL else 60
SEED = 20_261_130
SHORT = {
    (0.001, 0.95, 5): 0.12,
    (0.01, 0.8, 5): 0.10,
    (0.01, 0.9, 5): 0.15,
    (0.01, 0.9, 20): 0.10,
    (0.01, 0.9, 60): 0.08,
    (0.01, 0.95, 5): 0.15,
    (0.01, 0.95, 20): 0.15,
    (0.01, 0.95, 60): 0.12,
}
"""Loads of fewer than about twenty relaxation times: such a load cannot show the busy periods that it
lacks."""


def queue(
    rng: np.random.Generator, service_s: float, utilisation: float, duration_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return arrivals [s] and responses [s] of M/M/1 in its steady state."""
    relaxation_s = service_s / (1 - math.sqrt(utilisation)) ** 2
    before_s = 12 * relaxation_s
    gap_s = service_s / utilisation
    number = int(1.02 * (duration_s + before_s) / gap_s) + 50
    arrivals = np.cumsum(rng.exponential(gap_s, number))
    services = rng.exponential(service_s, number)
    steps = np.concatenate([[0.0], np.cumsum(services[:-1] - np.diff(arrivals))])
    responses = steps - np.minimum.accumulate(steps) + services
    measured = (arrivals > before_s) & (arrivals < before_s + duration_s)
    return arrivals[measured] - before_s, responses[measured]


def interval(arrivals: FloatArray, responses: FloatArray, duration_s: float) -> tuple[float, float]:
    """Return the ends of the interval of the mean, as a limit of all operations has them."""
    number = 20 if duration_s <= 20 else int(duration_s)
    at = np.minimum((arrivals / duration_s * number).astype(np.int64), number - 1)
    counts = np.bincount(at, minlength=number).astype(np.float64)
    totals = np.bincount(at, responses, minlength=number).astype(np.float64)
    parts = PartMeans(counts, totals)
    alone = float(responses.std(ddof=1)) / math.sqrt(responses.size)
    halves = (
        max(parts.half_width(one), special.t_quantile(responses.size, one) * alone)
        for one in (BELOW, ABOVE)
    )
    return ends(float(responses.mean()), *halves)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("duration_s", [5, 20, 60])
@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("service_s", [0.001, 0.01])
def test_a_limit_at_the_true_mean_is_rarely_decided(
    service_s: float, utilisation: float, duration_s: int
) -> None:
    if not FULL and (service_s == 0.001) == (duration_s == 60):
        pytest.skip("in the full form")
    rng = np.random.default_rng(SEED)
    true = service_s / (1 - utilisation)
    held = missed = twice = half = 0
    for _ in range(LOADS):
        low, high = interval(*queue(rng, service_s, utilisation, duration_s), duration_s)
        held += high < true
        missed += low > true
        twice += high < 2 * true
        half += low > true / 2
    print(
        f"service {service_s:g} s, utilisation {utilisation:g}, {duration_s} s: held {held / LOADS:.1%}, missed"
        f" {missed / LOADS:.1%}; at twice the mean held {twice / LOADS:.0%}, at half of it missed {half / LOADS:.0%}"
    )
    assert at_most(held, LOADS, SHORT.get((service_s, utilisation, duration_s), 0.05))
    assert at_most(missed, LOADS, 0.05)


@pytest.mark.parametrize("ratio", [0.8, 1.25])
def test_independent_responses_are_decided(ratio: float) -> None:
    """Exponential responses of mean 1, 1,000 of them in 5 s."""
    rng = np.random.default_rng(SEED)
    decided = 0
    for _ in range(LOADS):
        low, high = interval(np.sort(rng.random(1000)) * 5, rng.exponential(1.0, 1000), 5)
        decided += low > ratio or high < ratio
    print(f"limit at {ratio:g} of the mean: {decided / LOADS:.0%} decided")
    assert at_least(decided, LOADS, 0.9)
