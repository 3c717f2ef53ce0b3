"""benches/parts/recorded_trials.py: searches of recorded trials find the recorded peak."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.recorded_trials import Recorded, Recording, goal_of, recording, search

sys.path.pop(0)

from benchwright.features.search.types import Claim, ClaimKind

LIMIT_MS = 40.0


def curve(rate: float) -> float:
    """Return the response of a queue that completes 220/s [ms]; it meets the limit at 195/s."""
    return 1000.0 / (220.0 - rate)


@pytest.fixture(scope="module")
def known() -> Recording:
    """Trials that scatter by 15 %, as they would be recorded."""
    random = np.random.default_rng(3)
    rates = np.repeat(np.linspace(50, 215, 34), 12)
    return recording(
        [Recorded(rate, curve(rate) * random.lognormal(-0.011, 0.15), 40.0) for rate in rates]
    )


def test_the_curve_and_the_peak_are_those_of_the_trials(known: Recording) -> None:
    assert known.peak(LIMIT_MS) == pytest.approx(195, rel=0.01)
    for rate in (60.0, 150.0, 200.0):
        assert known.response(rate) == pytest.approx(curve(rate), rel=0.1)
    assert known.response(300.0) == known.response(215.0), "nothing is known beyond"


def test_trials_between_recorded_rates_scatter_as_the_recorded_ones_about_the_curve(
    known: Recording,
) -> None:
    random = np.random.default_rng(5)
    drawn = np.array([known.drawn(152.3, random) for _ in range(2000)])
    assert drawn.mean() == pytest.approx(known.response(152.3), rel=0.06)
    assert drawn.std() / drawn.mean() == pytest.approx(0.15, rel=0.5)


@pytest.mark.parametrize("policy", ["linear", "binsearch"])
def test_a_published_policy_ends_near_the_peak(known: Recording, policy: str) -> None:
    claim = Claim(ClaimKind.REGION, 0.10, 0.95)
    goal = goal_of(LIMIT_MS, claim, start_rate=50.0, highest_rate=900.0, length_s=40.0)
    found = [search(known, policy, goal, 40.0, seed) for seed in range(8)]
    answers = [one.peak_rate for one in found if one.peak_rate is not None]
    assert len(answers) == 8
    assert np.median(answers) == pytest.approx(195, rel=0.03)
    assert all(one.load_s == 40.0 * one.trials for one in found)
    again = search(known, policy, goal, 40.0, 0)
    assert again == found[0], "a seed repeats its search"
