"""MLRsearch 1.2.1 (FD.io CSIT) as a rival: its own controller over a simulated server.

It knows loss ratios only, so a criterion becomes a loss in one of two ways. `mean`: the
pseudo-loss 1 - limit / value where the value is over the limit, goal loss 0. `share`: the
loss is the share of operations above the true 95th percentile at the peak (which no user
would know), goal 5 %. Trials of up to 60 s, 420 s for a bound, width 1.5 %;
everything else is the library's default. The answer is the middle
between its relevant bounds. It states no probability.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from MLRsearch import (  # type: ignore[import-untyped]
    AbstractMeasurer,
    Config,
    GoalResult,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.types import Claim, ClaimResult, PeakStatus
from servers import SimServer
from world import Search, SimWorkbench, State, simulate, unit_of

FOREVER_S = 1e9
"""Its own limit is wall-clock time, which says nothing here."""
LOADS = 20.0
"""The highest load it may try, in units of the first rate."""


class Measurer(AbstractMeasurer):  # type: ignore[misc]
    """Answers MLRsearch's trials from a simulated server."""

    def __init__(self, bench: SimWorkbench, search: Search) -> None:
        self.bench = bench
        self.search = search

    def measure(self, intended_duration: float, intended_load: float) -> object:
        """Run one trial and tell its loss."""
        probe = Probe(rate=intended_load, duration_s=intended_duration)
        trial = self.bench.run(probe, (), lambda so_far: False)
        self.search.probes.append(probe)
        self.search.history.append(trial)
        offered = trial.offered or 0
        return MeasurementResult(
            intended_duration,
            intended_load,
            offered_count=offered,
            loss_count=math.ceil(offered * loss_ratio(self.bench.criteria, trial)),
        )


def loss_ratio(criteria: tuple[Criterion, ...], trial: LoadTrial) -> float:
    """Return the loss that stands for the criteria; nothing completed is all lost."""
    losses = []
    for criterion in criteria:
        value = trial.values.get(criterion.key)
        if value is None:
            losses.append(0.0 if not trial.offered else 1.0)
        elif criterion.statistic == "share":
            losses.append(1 - value)
        else:
            losses.append(max(0.0, 1 - criterion.limit / max(value, criterion.limit)))
    return max(losses)


@functools.cache
def share_at_peak(server: SimServer) -> Criterion:
    """Return the criterion whose limit is the true 95th percentile at the peak."""
    runs = [
        simulate(server, server.peak_rate, 1000.0, State(5, number)).responses[1000:]
        for number in range(20)
    ]
    limit_ms = 1000 * float(np.nanquantile(np.concatenate(runs), 0.95))
    return Criterion(
        key=f"within_{limit_ms:.6g}ms_share",
        limit=0.95,
        unit="",
        better="higher",
        statistic="share",
    )


def mlrsearch(server: SimServer, seed: int, claim: Claim, *, by_share: bool) -> Search:
    """Return MLRsearch's search of a server, with the load unit of its seed."""
    goal = server.goal(claim, unit_of(seed))
    criteria = (share_at_peak(server),) if by_share else goal.criteria
    search = Search(goal)
    aim = SearchGoal(
        loss_ratio=0.05 if by_share else 0.0,
        relative_width=0.015,
        final_trial_duration=60.0,
        duration_sum=420.0,
        fail_fast=False,
    )
    config = Config(
        goals=[aim],
        min_load=goal.start_rate,
        max_load=LOADS * goal.start_rate,
        search_duration_max=FOREVER_S,
    )
    measurer = Measurer(SimWorkbench(server, criteria, seed), search)
    found = MultipleLossRatioSearch(config).search(measurer, debug=lambda line: None)
    search.result = _result(found[aim], search, "mlrsearch-share" if by_share else "mlrsearch-mean")
    return search


def _result(found: GoalResult, search: Search, policy: str) -> ClaimResult:
    """Return its answer as a search's result."""
    low, high = found.relevant_lower_bound, found.relevant_upper_bound
    both = low is not None and high is not None
    return ClaimResult(
        status=PeakStatus.FOUND if both else PeakStatus.UNDECIDED,
        detail="the middle of the relevant bounds" if both else "a bound is missing",
        claim=search.goal.claim,
        policy=policy,
        peak_rate=(float(low) + float(high)) / 2 if both else None,
        load_s=search.load_s,
        cost_s=search.cost_s,
        trials=len(search.history),
    )
