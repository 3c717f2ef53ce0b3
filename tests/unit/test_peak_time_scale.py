"""Lengths of a search's probes follow the limit: a quick server needs shorter ones."""

from __future__ import annotations

import pytest

from benchwright.core.search import Criterion, LoadEnding, LoadTrial, PeakGoal, Probe
from benchwright.decide.peak import tuning
from benchwright.decide.peak.queue_guided import QueueGuided
from benchwright.decide.peak.reading import time_scale


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


def overloaded(criterion: Criterion, probe: Probe) -> LoadTrial:
    """Return a trial of a server that completes half of what arrives."""
    count = round(probe.rate * probe.duration_s)
    return LoadTrial(
        rate=probe.rate,
        duration_s=probe.duration_s,
        lasted_s=probe.duration_s,
        cost_s=probe.duration_s,
        values={criterion.key: 500.0 * criterion.limit},
        offered=count,
        completed=count // 2,
        ending=LoadEnding.WHOLE,
    )


@pytest.mark.parametrize(
    "case",
    [(20.0, 0.5), (10.0, tuning.LEAST_TIME_SCALE), (5.0, tuning.LEAST_TIME_SCALE)],
)
def test_every_probe_of_a_quick_server_is_shorter_in_proportion(
    case: tuple[float, float],
) -> None:
    limit_ms, share = case
    usual = Criterion("response_ms_mean", 40.0)
    quick = Criterion("response_ms_mean", limit_ms)
    lengths = []
    for criterion in (usual, quick):
        goal = PeakGoal(criteria=(criterion,), start_rate=1000.0)
        first = QueueGuided().next(goal, [])
        assert isinstance(first, Probe)
        second = QueueGuided().next(goal, [overloaded(criterion, first)])
        assert isinstance(second, Probe)
        lengths.append((first.duration_s, second.duration_s))
    (one, two), (shorter_one, shorter_two) = lengths
    assert shorter_one == pytest.approx(share * one)
    assert shorter_two == pytest.approx(share * two)
