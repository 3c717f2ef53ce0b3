"""The resolution of values."""

from __future__ import annotations

import math

import pytest

from benchwright.stats.sample import resolution, rounding_error


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([30, 30, 31, 30, 30, 31], 1.0),
        ([30, 30, 33, 30, 39, 30, 33, 30], 3.0),
        ([0.03, 0.03, 0.031, 0.03, 0.032, 0.032], 0.001),
        ([0.1, 0.2, 0.1 + 0.2, 0.3, 0.1, 0.2], 0.1),
        ([1e300, 1e300, 2e300, 1e300, 3e300, 1e300], 1e300),
        ([0, 0, 10, 0, 0, math.nan, 10], 10.0),
        ([-2, -2, -1, -1, 1, 1], 1.0),
    ],
)
def test_values_on_a_grid_have_its_step(values: list[float], step: float) -> None:
    assert resolution(values) == pytest.approx(step)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [3.0],
        [3.0] * 10,
        [1, 2, 3, 4, 5, 6],
        [1, 1, 2, 3],
        [30, 30, 31, 31, 32.5, 32.5],
        [0.1, 0.1, 0.2, 0.2, 0.3001, 0.3001],
    ],
)
def test_other_values_have_none(values: list[float]) -> None:
    assert resolution(values) == 0


def test_values_that_are_written_rounded_have_the_step_within_their_last_digit() -> None:
    thirds = [0.33, 0.67, 1.0, 0.33, 0.67, 0.33]
    assert resolution(thirds) == 0
    assert resolution(thirds, rounding=0.01) == pytest.approx(1 / 3, abs=0.01)


def test_a_clock_moves_a_mean_by_half_a_step_where_the_values_hardly_vary() -> None:
    steady = [12.0] * 57 + [11.0, 13.0, 12.0]
    assert 0.2 < rounding_error(steady) < 0.3
    assert rounding_error([0.3, 0.1, 0.2, 0.2, 0.1, 0.3, 0.2, 0.2]) < 0.01
    assert rounding_error([10.5, 15.5] * 10) == 0, "no clock has a step of 5 and 10.5"
    assert rounding_error([1.0] * 20) == 0, "no step is known"
