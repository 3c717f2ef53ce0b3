"""The samples of a surface that the gangs of a pool search side by side.

Search N is chosen from the results of the searches 1 to N - lag, in this order, and from the samples of
those in between, which are taken to find what the model predicts. So the choice does not depend on
the order in which results arrive. The searches are spread over the gangs at random: each gang
has one of every `len(gangs)` searches. First every gang searches the anchor.
Decision: the lag is 2 k - 1 for k gangs, so that a gang can be one search ahead of the slowest. With a
lag of k every gang waits for the slowest one: of 32 searches of four gangs whose lengths vary by
30 %, the gangs worked 79 % of the time instead of 88 % (docs/surface.md has the cost in accuracy).
Decision: the gang of a search is a function of the seed, and not the one that is free first, because
gangs may differ: otherwise the surface depended on the order of arrival.
Pure: the caller records what was chosen, and measures the time of a deadline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.surface import (
    GangNames,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)
from benchwright.decide.surface.deadline import TimeLeft, TimeShare, time_share
from benchwright.decide.surface.design import (
    chosen_sample,
    middle_sample,
    sample_wanted,
    within_share,
)

ANCHOR = "anchor"
"""`SampleRequest.why` of a search of the anchor."""
_ORDER_STREAM = 16
"""Stream of random numbers of the gangs' order, so that it has none in common with the design."""


def searches_of(goal: SurfaceGoal, gangs: GangNames) -> int:
    """Return the number of searches of a surface, those of the anchor on every gang included."""
    return goal.samples + max(_anchors(gangs) - 1, 0)


def results_needed(number: int, gangs: GangNames) -> int:
    """Return how many results, from the first one on, must be known before search `number` is chosen."""
    return max(0, number - (2 * len(gangs.names) - 1))


def next_search(
    goal: SurfaceGoal,
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    ended: Mapping[int, SampleResult],
    time: TimeLeft | None = None,
) -> SampleRequest | None:
    """Return the next search, with the gang that is to make it; None when the design is complete, or the
    time is over.

    `wanted`: all searches so far, in their order. `ended`: results by the numbers of their searches,
    from 1 on; the first `results_needed` of them at least. `time`: of a goal with a deadline; where it
    is not enough for all samples and the anchor on every gang, no anchor is searched. With one gang
    these are the searches of `next_sample`.
    """
    number = len(wanted) + 1
    needed = results_needed(number, gangs)
    results = [ended[one] for one in range(1, needed + 1)]
    running = [request.sample for request in wanted[needed:]]
    if wanted and wanted[0].why != ANCHOR:
        gangs = msgspec.structs.replace(gangs, anchor=False)
    to_come = searches_of(goal, gangs) - len(wanted)
    if to_come <= 0:
        return None
    order = _gang_order(goal, gangs, number, to_come)
    share = TimeShare(to_come, math.inf, order[0])
    if time is not None:
        share = time_share(goal, results, time, to_come, order)
        if not wanted and share.searches < to_come:
            gangs = msgspec.structs.replace(gangs, anchor=False)
            order = _gang_order(goal, gangs, number, goal.samples)
            share = time_share(goal, results, time, goal.samples, order)
    if not share.searches:
        return None
    if len(wanted) < _anchors(gangs):
        chosen = sample_wanted(goal, results, middle_sample(goal), ANCHOR)
    else:
        left = None if time is None else share.searches
        chosen = chosen_sample(goal, results, running, left=left)
    chosen = msgspec.structs.replace(chosen, gang=gangs.names[share.gang])
    return chosen if time is None else within_share(chosen, share, time)


def _anchors(gangs: GangNames) -> int:
    """Return the number of searches of the anchor: one for each gang; one gang needs none."""
    count = len(gangs.names)
    return count if gangs.anchor and count > 1 else 0


def _gang_order(
    goal: SurfaceGoal, gangs: GangNames, number: int, searches: int
) -> tuple[int, ...]:
    """Return the gangs (indexes) of the searches from `number` on: after the anchors in blocks, in each
    of which every gang occurs once, in random order.

    So many that every gang occurs at least `searches` times.
    """
    count, anchors = len(gangs.names), _anchors(gangs)
    first = number - 1 - anchors
    order = list(range(anchors + min(first, 0), anchors))
    for block in range(max(first, 0) // count, (max(first, 0)) // count + searches + 1):
        rng = np.random.default_rng((goal.seed, _ORDER_STREAM, block))
        order += rng.permutation(count).tolist()
    return tuple(order[max(first, 0) % count :])
