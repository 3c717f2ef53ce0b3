"""What a deadline makes of a map: time kept, error, and the same without sharing the time.

Searches by the default policy of simulated servers in virtual time, ten adaptive samples of 32.
*Shared* is the product's rule (features/search/surface/spec.py); *in order* searches each
sample until its claim holds, and is cut at the deadline. The full form (BW_CALIBRATION=full) prints
the figures of docs/surface.md; the small one plays one surface.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.spec import TimeLeft
from benchwright.features.search.surface.types import (
    Sample,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)
from benchwright.features.search.types import PeakGoal
from servers import R_SAT, SimServer, queue_with_peak
from surface_maps import next_sample
from surfaces import factors, randomised, true_peaks
from world import play

FULL = os.environ.get("BW_CALIBRATION") == "full"
NAMES = ("db", "web", "mail") if FULL else ("web",)
SEEDS = range(1, 5 if FULL else 2)
DEADLINES_S = (300, 600, 1800, 3600, 7200) if FULL else (600,)
SAMPLES = 10
PEAK = PeakGoal(criteria=(R_SAT,), start_rate=50.0, highest_rate=1e5)
Results = tuple[SampleResult, ...]
Chooses = Callable[[SurfaceGoal, Results], SampleRequest | None]


class Mapped(msgspec.Struct, frozen=True):
    """One mapping."""

    error: float
    """Mean absolute, over all 32 samples, against the true peaks; NaN without a model."""
    expected: float
    """The same as the bands imply."""
    covered: float
    """Share of the samples whose true peak lies in the band."""
    searched: int
    cost_s: float


def shared(goal: SurfaceGoal, results: Results) -> SampleRequest | None:
    """Return the next sample by the product's rule, in virtual time."""
    assert goal.deadline_s is not None
    spent_s = math.fsum(one.found.cost_s for one in results)
    time = TimeLeft(spent_s, goal.deadline_s - spent_s, begins=not results)
    return next_sample(goal, results, time)


def in_order(goal: SurfaceGoal, results: Results) -> SampleRequest | None:
    """Return the next sample until the time is over; only the last search has a budget."""
    assert goal.deadline_s is not None
    left_s = goal.deadline_s - math.fsum(one.found.cost_s for one in results)
    wanted = next_sample(goal, results)
    if wanted is None or left_s < 1:
        return None
    inner = msgspec.structs.replace(wanted.goal, budget_s=left_s)
    return msgspec.structs.replace(wanted, goal=inner)


def mapped(name: str, seed: int, deadline_s: float, chooses: Chooses) -> Mapped:
    """Return how a mapping of a surface with drawn parameters did."""
    peaks = true_peaks(randomised(name, seed))
    goal = SurfaceGoal(
        factors=factors(), peak=PEAK, samples=SAMPLES, seed=seed, deadline_s=deadline_s
    )
    results: Results = ()
    while (wanted := chooses(goal, results)) is not None:
        server = server_at(wanted.sample, peaks[wanted.sample])
        number = 1000 * seed + len(results)
        found = play(policy_named("monotone"), wanted.goal, server, number).result
        assert found is not None
        results = (*results, SampleResult(wanted.sample, found))
    surface = surface_of(goal, results, at_deadline=len(results) < SAMPLES)
    errors = [abs(p.value / peaks[p.sample] - 1) for p in surface.predictions]
    covered = [p.low <= peaks[p.sample] <= p.high for p in surface.predictions]
    expected = None if surface.fit is None else surface.fit.expected_error
    return Mapped(
        error=float(np.mean(errors)) if errors else math.nan,
        expected=math.nan if expected is None else expected,
        covered=float(np.mean(covered)) if covered else math.nan,
        searched=len(results),
        cost_s=surface.cost_s,
    )


def server_at(sample: Sample, peak: float) -> SimServer:
    """Return an M/M/c with this peak, and as many servers as disks that its threads keep busy."""
    disks, nfsd = (int(level) for _, level in sample)
    return SimServer(str(sample), queue_with_peak(min(disks, nfsd), peak))


@pytest.mark.timeout(1200)
def test_a_deadline_is_kept_and_its_time_is_better_shared() -> None:
    for deadline_s in DEADLINES_S:
        table = {
            way.__name__: [mapped(name, seed, deadline_s, way) for name in NAMES for seed in SEEDS]
            for way in (shared, in_order)
        }
        for way, maps in table.items():
            figures = np.array([msgspec.structs.astuple(one) for one in maps])
            searched, cost_s = figures[:, 3:].mean(axis=0)
            fitted = figures[~np.isnan(figures[:, 0]), :3]
            shown = "- | - | -"
            if len(fitted):
                error, expected, covered = 100 * np.nanmean(fitted, axis=0)
                shown = f"{error:.1f} | {expected:.1f} | {covered:.0f}"
            print(
                f"| {deadline_s / 60:.0f} min | {way} | {searched:.1f} | {cost_s:.0f} "
                f"| {shown} | {len(figures) - len(fitted)} |",
                flush=True,
            )
        assert all(one.cost_s <= deadline_s for one in table["shared"])
        if deadline_s <= 1800:
            error = np.mean([one.error for one in table["shared"]])
            other = [one.error for one in table["in_order"]]
            assert any(math.isnan(one) for one in other) or error < np.mean(other)
