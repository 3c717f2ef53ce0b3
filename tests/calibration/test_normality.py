"""The finding `responses-not-normal`: false alarms where responses are normal, and what it detects.

Searches by the published policies of a server whose responses are normal, or lognormal with the
same deviation. Stopping rules look at the data, so the test's level is not that of one sample: the
false alarms are counted after whole searches. Fixed seeds; BW_CALIBRATION=full plays more.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import ClaimResult, PeakGoal
from hand_written import mean_response_ms
from world import play_means

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 400 if FULL else 60
LIMIT = Criterion("response_ms_mean", 40.0)
GOALS = {
    "strawman": PeakGoal(criteria=(LIMIT,), start_rate=215.0, trials_each=12),
    "binsearch": PeakGoal(criteria=(LIMIT,), accuracy=0.95, max_trials=60),
    "linear": PeakGoal(criteria=(LIMIT,), start_rate=200.0, max_trials=60),
    "binsearch-honest": PeakGoal(criteria=(LIMIT,), max_trials=60),
}
Noise = Callable[[np.random.Generator, float], float]


def normal(random: np.random.Generator, sd: float) -> float:
    return max(1 + sd * float(random.standard_normal()), 0.01)


def skewed(random: np.random.Generator, sd: float) -> float:
    """Return a lognormal factor whose logarithm has six times the deviation."""
    return float(np.exp(6 * sd * random.standard_normal()))


def reported(policy: str, noise: Noise, sd: float) -> float:
    """Return the share of searches with the finding."""
    alarms = []
    for seed in range(SEARCHES):
        random = np.random.default_rng([seed, 11])
        search = play_means(
            policy_named(policy),
            GOALS[policy],
            LIMIT.key,
            lambda rate, random=random: mean_response_ms(rate) * noise(random, sd),
        )
        assert isinstance(search.result, ClaimResult)
        codes = {finding.code for finding in search.result.findings}
        alarms.append("responses-not-normal" in codes)
    share = float(np.mean(alarms))
    print(f"| {policy} | {noise.__name__} | {100 * sd:.0f} % | {100 * share:.1f} % |")
    return share


@pytest.mark.parametrize("policy", GOALS)
@pytest.mark.parametrize("sd", [0.05, 0.15])
def test_normal_responses_are_hardly_ever_reported(policy: str, sd: float) -> None:
    assert reported(policy, normal, sd) <= (0.03 if FULL else 0.05)


def test_skewed_responses_of_a_strawman_are_reported() -> None:
    assert reported("strawman", skewed, 0.15) > 0.5
