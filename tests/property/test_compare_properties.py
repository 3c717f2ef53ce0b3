"""More trials that agree never take a clear decision back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.comparison import ComparisonDesign, ComparisonResult, ComparisonRule, Verdict
from benchwright.core.plan import StopDecision
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.evidence import ComparisonBuilder

FEWEST, MOST = 5, 50


def both_stored(old: list[float], new: list[float]) -> ComparisonResult:
    """Return what `bw compare OLD NEW` comes to."""
    rule = ComparisonRule(2, design=ComparisonDesign.STORED, warmup=0, minimum=2, once=True)
    builder = ComparisonBuilder(rule)
    builder.add([[{"elapsed": value} for value in arm] for arm in (old, new)])
    return conclude(rule, builder.history(), ("old", "new"), StopDecision("stored", ""))


def assert_decided_at_every_size(old: list[float], new: list[float]) -> None:
    for n in range(FEWEST, MOST + 1):
        (verdict,) = both_stored(old[:n], new[:n]).verdicts
        assert verdict.verdict is Verdict.SLOWER, n
        assert 1 < verdict.ratio.low < verdict.ratio.value < verdict.ratio.high
        assert math.isfinite(verdict.smallest_effect)


within = st.lists(st.floats(1.0, 1.05), min_size=MOST, max_size=MOST).filter(
    lambda values: len(set(values[:FEWEST])) > 1
)
"""Constant values are decided from ten on."""


@given(within, within, st.floats(2.0, 100.0))
def test_values_far_outside_the_other_range_are_decided_at_every_size(
    old: list[float], new: list[float], ratio: float
) -> None:
    assert_decided_at_every_size(old, [ratio * value for value in new])


@pytest.mark.parametrize("ratio", [2.0, 10.0])
@pytest.mark.parametrize(
    "course",
    [
        np.linspace(1.0, 1.05, MOST),
        np.where(np.arange(MOST) < 3, 1.05, 1.0),
        np.where((np.arange(MOST) < MOST // 2) & (np.arange(MOST) > 0), 1.05, 1.0),
        1.025 + 0.025 * np.sin(np.arange(MOST) / 5),
    ],
    ids=["rise", "warm-up", "step", "wave"],
)
def test_trials_that_follow_a_course_are_decided_at_every_size(
    course: np.ndarray, ratio: float
) -> None:
    assert_decided_at_every_size(course.tolist(), (ratio * course).tolist())
