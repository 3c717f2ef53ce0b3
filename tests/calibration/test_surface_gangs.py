"""Surfaces that the gangs of a pool search side by side: what it costs, and how well gangs are told
apart.

Maps of the surfaces of `surfaces.py`, with every parameter, the design and the noise drawn anew for
a seed. The full form (BW_CALIBRATION=full) prints the tables of docs/pool.md; the small one plays
fewer seeds. A seed fixes everything, so a test passes always or never.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.search.surface import design
from benchwright.features.search.surface.design import ANCHOR, next_search
from benchwright.features.search.surface.gangs import gang_effects, responses_of
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.types import (
    DesignKind,
    GangNames,
    Sample,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)
from benchwright.features.search.types import PeakGoal
from surfaces import SURFACES, factors, measured_peaks, randomised, searched, true_peaks

FULL = os.environ.get("BW_CALIBRATION") == "full"
PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),))
SLOW = 0.97
"""Speed of the slowed gang."""


def names(count: int) -> tuple[str, ...]:
    return tuple(f"g{number}" for number in range(1, count + 1))


def mapped(
    goal: SurfaceGoal,
    gangs: GangNames,
    rates: Mapping[Sample, float],
    noise: float,
    speeds: Mapping[str, float],
) -> tuple[SampleResult, ...]:
    """Return the results of a map whose searches find these rates times the speed of their gang;
    each search of the anchor with noise of its own."""
    rng = np.random.default_rng((goal.seed, 11))
    wanted: list[SampleRequest] = []
    ended: dict[int, SampleResult] = {}
    while (request := next_search(goal, gangs, wanted, ended)) is not None:
        wanted.append(request)
        rate = rates[request.sample] * speeds.get(request.gang, 1.0)
        if request.why == ANCHOR:
            rate *= float(np.exp(rng.normal(0, noise)))
        result = searched(request.sample, rate, noise)
        ended[len(wanted)] = msgspec.structs.replace(result, gang=request.gang)
    return tuple(ended.values())


# -- samples in batches: what they cost in error -------------------------------------------------


def map_error(surface: str, seed: int, samples: int, gangs: int, lag: int) -> float:
    """Return the mean absolute error of a map over all 32 samples; results are used `lag` searches
    late. Without an anchor, so that every map has the same number of searches."""
    peaks = true_peaks(randomised(surface, seed))
    rates = measured_peaks(peaks, 0.03, seed)
    goal = SurfaceGoal(factors=factors(), peak=PEAK, samples=samples, seed=seed)

    def needed(number: int, _: GangNames) -> int:
        return max(0, number - lag)

    pool = GangNames(names(gangs), anchor=False)
    with patch.object(design, "results_needed", needed):
        results = mapped(goal, pool, rates, 0.03, {})
    # One gang: no effects are estimated.
    alone = [msgspec.structs.replace(result, gang="") for result in results]
    found = surface_of(goal, alone).predictions
    return float(np.mean([abs(one.value / peaks[one.sample] - 1) for one in found]))


@pytest.mark.parametrize("samples", [10, 20] if FULL else [10])
def test_samples_in_batches_map_almost_as_well(samples: int) -> None:
    seeds = range(60 if FULL else 6)
    chosen = {
        "one after another": (1, 1),
        "on 2 gangs": (2, 3),
        "on 4 gangs": (4, 7),
        "on 8 gangs": (8, 15),
    }
    chosen = chosen if FULL else {name: chosen[name] for name in list(chosen)[:3:2]}
    means = {}
    for name, (gangs, lag) in chosen.items():
        errors = np.array(
            [
                [map_error(surface, seed, samples, gangs, lag) for seed in seeds]
                for surface in SURFACES
            ]
        )
        each = ", ".join(f"{100 * one:.1f}" for one in errors.mean(axis=1))
        print(f"| {samples} | {name} | {each} | {100 * errors.mean():.2f} |", flush=True)
        means[name] = errors.mean()
    assert means["on 4 gangs"] < means["one after another"] + 0.01


# -- gangs ---------------------------------------------------------------------------------------


class Pool(msgspec.Struct, frozen=True):
    """A map by a pool, as a simulation."""

    surface: str
    gangs: int
    samples: int
    noise: float
    own: float = 0.0
    """Standard deviation of a factor that is each sample's own: neighbours say little about it."""

    def played(self, seed: int, slow: float) -> PlayedPool:
        """Return the map of a seed, in which the first gang has the speed `slow`."""
        peaks = true_peaks(randomised(self.surface, seed))
        if self.own:
            peaks = measured_peaks(peaks, self.own, 1000 + seed)
        rates = measured_peaks(peaks, self.noise, seed)
        # The samples of an optimal design do not depend on results, which makes this fast.
        goal = SurfaceGoal(
            factors=factors(),
            peak=PEAK,
            samples=self.samples,
            seed=seed,
            design=DesignKind.FULL if self.samples == 32 else DesignKind.I_OPTIMAL,
        )
        speeds = {"g1": slow}
        pool = GangNames(names(self.gangs))
        results = mapped(goal, pool, rates, self.noise, speeds)
        return PlayedPool(goal, peaks, results, slow ** (1 / self.gangs))

    @property
    def text(self) -> str:
        own = f", own {100 * self.own:.0f} %" if self.own else ""
        return f"{self.surface}{own} | {self.gangs} | {self.samples} | {100 * self.noise:.1f}"


class PlayedPool(msgspec.Struct, frozen=True):
    """A map by a pool whose first gang may be slow."""

    goal: SurfaceGoal
    peaks: dict[Sample, float]
    results: tuple[SampleResult, ...]
    mean_gang: float
    """Speed of the mean gang."""

    def differ(self) -> bool:
        """Return whether gangs are said to differ."""
        effects = gang_effects(self.goal, self.results)
        assert effects is not None
        return effects.differ

    def bias_on_slow(self) -> float:
        """Return the mean error of the corrected peaks that the first gang measured."""
        fitted = responses_of(self.goal, self.results)
        corrected = dict(zip(fitted.samples, fitted.rates.tolist(), strict=True))
        anchor = self.results[0].sample
        return float(
            np.mean(
                [
                    corrected[one.sample] / (self.peaks[one.sample] * self.mean_gang) - 1
                    for one in self.results
                    if one.gang == "g1" and one.sample != anchor
                ]
            )
        )

    def surface_error(self, *, corrected: bool) -> tuple[float, float]:
        """Return the mean and the mean absolute error of the map against the mean gang's peaks."""
        results = self.results
        if not corrected:
            results = tuple(
                msgspec.structs.replace(one, gang="")
                for one in {one.sample: one for one in results[::-1]}.values()
            )
        found = surface_of(self.goal, results).predictions
        errors = np.array(
            [one.value / (self.peaks[one.sample] * self.mean_gang) - 1 for one in found]
        )
        return float(errors.mean()), float(np.abs(errors).mean())


EQUAL = (
    (
        Pool("web", 2, 12, 0.01),
        Pool("web", 4, 12, 0.01),
        Pool("db", 4, 24, 0.01),
        Pool("mail", 4, 24, 0.03),
        Pool("mail", 8, 32, 0.005),
        Pool("web", 4, 24, 0.01, own=0.4),
    )
    if FULL
    else (Pool("web", 4, 12, 0.01),)
)
POOLS = 400 if FULL else 100
MOST_CLAIMS = 12 if FULL else 1
"""Of this many pools of equal gangs in which they are said to differ. If the probability were 5 %,
so few claims would have one of less than 5 % (binomial: 3.6 % for 12 of 400, 3.7 % for 1 of 100).
"""


@pytest.mark.parametrize("pool", EQUAL)
def test_equal_gangs_are_seldom_said_to_differ(pool: Pool) -> None:
    claims = sum(pool.played(seed, 1.0).differ() for seed in range(POOLS))
    print(f"| {pool.text} | {claims} of {POOLS:,} |", flush=True)
    assert claims <= MOST_CLAIMS


SLOWED = (
    (
        *(Pool("web", 4, n, noise) for noise in (0.005, 0.01) for n in (12, 24, 32)),
        Pool("db", 4, 32, 0.005),
        Pool("mail", 4, 32, 0.005),
        Pool("web", 2, 24, 0.005),
        Pool("web", 8, 32, 0.005),
        Pool("web", 4, 32, 0.03),
    )
    if FULL
    else (Pool("web", 4, 24, 0.005),)
)


@pytest.mark.parametrize("pool", SLOWED)
def test_a_gang_slowed_by_3_per_cent_is_found_and_removed(pool: Pool) -> None:
    played = [pool.played(seed, SLOW) for seed in range(50 if FULL else 20)]
    found = np.mean([one.differ() for one in played])
    on_slow = np.mean([one.bias_on_slow() for one in played])
    surfaces = {
        corrected: np.mean([one.surface_error(corrected=corrected) for one in played], 0)
        for corrected in (False, True)
    }
    errors = " / ".join(f"{100 * surfaces[which][1]:.2f}" for which in surfaces)
    print(
        f"| {pool.text} | {100 * found:.0f} | {100 * on_slow:+.2f} | "
        f"{100 * surfaces[True][0]:+.2f} | {errors} |",
        flush=True,
    )
    if pool.noise <= 0.005 and pool.samples >= 24:
        assert found >= 0.9
        assert abs(on_slow) < 0.01
    assert abs(surfaces[True][0]) < 0.01
