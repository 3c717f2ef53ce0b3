"""Searches of the simulated NFS servers by the paper's policies, and what they cost.

Every search runs the product's own policies and its `next_step`, in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from nfs_servers import Peaks

from benchwright.features.load.plan import LoadSeries, LoadTrial
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.surface.design import sample_wanted
from benchwright.features.search.surface.types import DesignKind, Sample, SampleResult, SurfaceGoal
from benchwright.features.search.types import Claim, ClaimKind, PeakGoal, PeakStatus
from servers import SimServer
from world import Search, play

START_RATE = 50.0
"""The paper's low seed [1/s]."""
HIGHEST_RATE = 4000.0
"""What the load generator can do [1/s]; the model may ask for millions."""
HIGHEST_SHARE = 3.0
"""What it can do where a peak is higher: this many times the highest peak."""
MOST_TRIALS = {"model": 80, "model-polynomial": 80}
"""Of a search; the models do not always converge."""


class Line(NamedTuple):
    """A policy in a figure."""

    label: str
    policy: str
    seeded: bool = False


STRAWMAN = Line("Strawman", "strawman")
LINEAR = Line("Linear", "linear")
BINSEARCH = Line("Binsearch", "binsearch")
MODEL = Line("Model", "model")
MONOTONE = Line("monotone (ours)", "monotone")
BINSEARCH_SEEDED = Line("Binsearch with seeding", "binsearch", True)
LINES = (
    LINEAR,
    BINSEARCH,
    MODEL,
    Line("Linear with seeding", "linear", True),
    BINSEARCH_SEEDED,
    Line("Model with seeding", "model", True),
    MONOTONE,
    Line("monotone with seeding (ours)", "monotone", True),
)
"""Of figures 7, 8 and 10."""
POLYNOMIAL_LINES = (
    Line("Model, polynomial", "model-polynomial"),
    Line("Model, polynomial, with seeding", "model-polynomial", True),
)
"""Printed below figure 8; the paper tried this model and draws no figure of it."""


class Targets(NamedTuple):
    """The published targets, or those that a figure varies."""

    width: float = 0.10
    confidence: float = 0.95
    accuracy: float = 0.90
    kind: ClaimKind = ClaimKind.REGION


class Mapping(NamedTuple):
    """What mapping samples of a surface came to."""

    seconds: float
    trials: int
    not_found: int
    in_region: int
    """Searches whose answer's true response lies in the region, of those found."""
    results: tuple[SampleResult, ...]
    histories: tuple[tuple[LoadTrial, ...], ...]

    @property
    def searches(self) -> int:
        """How many there were."""
        return len(self.results)


def goal_for(policy: str, targets: Targets, peaks: Peaks, step: float | None = None) -> PeakGoal:
    """Return the goal of one search from the low seed, with the figure's targets."""
    return PeakGoal(
        criteria=peaks.server(peaks.samples[0]).criteria,
        claim=Claim(targets.kind, targets.width, targets.confidence),
        start_rate=START_RATE,
        highest_rate=max(HIGHEST_RATE, HIGHEST_SHARE * max(peaks.rates.values())),
        max_trials=MOST_TRIALS.get(policy, 1000),
        watched=policy == "monotone",
        accuracy=targets.accuracy,
        increment=step,
    )


def mapped(
    peaks: Peaks,
    line: Line,
    targets: Targets = Targets(),  # noqa: B008 - a frozen tuple
    among: Sequence[Sample] = (),
    seed: int = 1,
    step: float | None = None,
) -> Mapping:
    """Return the cost of finding the peak at each of `among` (default: all), by Algorithm 1.

    Unseeded, every search begins at the low seed; seeded, at the peak of the nearest sample before
    it.
    """
    policy = policy_named(line.policy)
    goal = goal_for(line.policy, targets, peaks, step)
    results: list[SampleResult] = []
    searches: list[Search] = []
    servers: list[SimServer] = []
    surface = SurfaceGoal(
        factors=peaks.factors, peak=goal, design=DesignKind.FULL, samples=len(peaks.samples)
    )
    for number, sample in enumerate(among or peaks.samples):
        begun = results if line.seeded else ()
        inner = sample_wanted(surface, begun, sample, "").goal
        servers.append(peaks.server(sample))
        searches.append(play(policy, inner, servers[-1], 1000 * seed + number))
        found = searches[-1].result
        assert found is not None
        results.append(SampleResult(sample, found))
    return Mapping(
        sum(search.load_s for search in searches),
        sum(len(search.history) for search in searches),
        sum(one.found.status is not PeakStatus.FOUND for one in results),
        sum(map(_in_region, servers, results)),
        tuple(results),
        tuple(tuple(map(_without_series, search.history)) for search in searches),
    )


def _without_series(trial: LoadTrial) -> LoadTrial:
    """Return a trial without its bins, of which many searches hold gigabytes."""
    return msgspec.structs.replace(trial, series=LoadSeries())


def _in_region(server: SimServer, result: SampleResult) -> bool:
    found = result.found
    if found.status is not PeakStatus.FOUND or found.peak_rate is None:
        return False
    limit, width = server.binding.limit, found.claim.tolerance
    response = server.response(found.peak_rate)
    return (1 - width) * limit <= response <= (1 + width) * limit
