"""Usual lengths of runs follow the limit: a quick server needs shorter ones."""

from __future__ import annotations

import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.policy import run_length_s, time_scale
from benchwright.features.search.types import PeakGoal


@pytest.mark.parametrize(
    ("limit_s", "scale"),
    [
        (None, 1.0),
        (2.0, 1.0),
        (tuning.USUAL_LIMIT_S, 1.0),
        (tuning.USUAL_LIMIT_S / 2, 0.5),
        (0.010, tuning.LEAST_TIME_SCALE),
        (1e-4, tuning.LEAST_TIME_SCALE),
    ],
)
def test_a_limit_of_milliseconds_shortens_lengths_down_to_a_bound(
    limit_s: float | None, scale: float
) -> None:
    assert time_scale(limit_s) == pytest.approx(scale)


@pytest.mark.parametrize(
    ("limit_ms", "set_s", "length_s"),
    [(40.0, None, 60.0), (20.0, None, 30.0), (5.0, None, 15.0), (5.0, 7.0, 7.0)],
)
def test_a_usual_length_is_scaled_and_one_that_was_set_is_not(
    limit_ms: float, set_s: float | None, length_s: float
) -> None:
    limit = Criterion("response_ms_mean", limit_ms)
    goal = PeakGoal(criteria=(limit,), run_length_s=set_s)
    assert run_length_s(goal, 60.0) == pytest.approx(length_s)
