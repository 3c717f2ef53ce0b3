"""The samples of a surface that the gangs of a pool search side by side.

Search N is chosen from the results of the searches 1 to N - lag, in this order, and from the
samples of those in between, which are taken to find what the model predicts. So the choice does not
depend on the order in which results arrive. First every gang searches the anchor. The other
searches are spread over the gangs in blocks, in each of which every gang has one search. Of the
gangs that have none in this block, the one whose samples are farthest away searches the sample; of
equally far ones a random one, by the seed. Decision: the lag is 2 k - 1 for k gangs, so that a gang
can be one search ahead of the slowest. With a lag of k every gang waits for the slowest one: of 32
searches of four gangs whose lengths vary by 30 %, the gangs worked 79 % of the time instead of 88 %
(docs/pool.md has the cost in accuracy). Decision: the samples of each gang are spread over the
space. At random some are neighbours, and the gang's effect looks like the surface: with all 32
samples on two gangs the error of the effects was 0.48 % instead of 0.34 %. Decision: the gang of a
search is a function of the seed, and not the one that is free first, because gangs may differ:
otherwise the surface depended on the order of arrival. Pure: the caller records what was chosen,
and measures the time of a deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.features.search.surface.design import (
    chosen_sample,
    distance_to,
    middle_sample,
    sample_wanted,
    within_share,
)
from benchwright.features.search.surface.spec import GangTimes, TimeLeft, time_beside_s, time_share
from benchwright.features.search.surface.types import (
    GangNames,
    Sample,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)

ANCHOR = "anchor"
"""`SampleRequest.why` of a search of the anchor."""
_ORDER_STREAM = 16
"""Stream of random numbers of the gangs' order, so that it has none in common with the design."""


def searches_of(goal: SurfaceGoal, gangs: GangNames) -> int:
    """Return the number of searches of a surface, those of the anchor on every gang included."""
    return _to_come(goal, gangs, ())


def results_needed(number: int, gangs: GangNames) -> int:
    """Return how many results, from the first one on, must be known before search `number` is
    chosen."""
    return max(0, number - (2 * len(gangs.names) - 1))


def next_search(
    goal: SurfaceGoal,
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    ended: Mapping[int, SampleResult],
    time: TimeLeft | None = None,
) -> SampleRequest | None:
    """Return the next search, with the gang that is to make it; None when the design is complete,
    or the time is over.

    `wanted`: all searches so far, in their order. `ended`: results by the numbers of their
    searches, from 1 on; the first `results_needed` of them at least. `time`: of a goal with a
    deadline; where it is not enough for all samples and the anchor on every gang, no anchor is
    searched.
    """
    number = len(wanted) + 1
    needed = results_needed(number, gangs)
    results = [ended[one] for one in range(1, needed + 1)]
    running = [request.sample for request in wanted[needed:]]
    to_come = _to_come(goal, gangs, wanted)
    if to_come <= 0:
        return None
    following = _following(goal, gangs, wanted)
    left: int | None = None
    free_s: tuple[float, ...] = ()
    if time is not None:
        beside_s = time_beside_s(results, time)
        free_s = _free_times(gangs, wanted, ended, time, beside_s)
        times = GangTimes(free_s, following)
        share = time_share(goal, results, time, to_come, times)
        if not wanted and share.searches < to_come:
            gangs = msgspec.structs.replace(gangs, anchor=False)
            following = _following(goal, gangs, wanted)
            to_come = _to_come(goal, gangs, wanted)
            times = GangTimes(free_s, following)
            share = time_share(goal, results, time, to_come, times)
        if not share.searches:
            return None
        left = share.searches
    if _without_anchor(gangs, wanted):
        chosen = sample_wanted(goal, results, middle_sample(goal), ANCHOR)
    else:
        chosen = chosen_sample(goal, results, running, left=left)
        following = _farthest_first(goal, gangs, wanted, following, chosen.sample)
    if time is None:
        return msgspec.structs.replace(chosen, gang=gangs.names[following[0]])
    share = time_share(goal, results, time, to_come, GangTimes(free_s, following))
    chosen = msgspec.structs.replace(chosen, gang=gangs.names[share.gang])
    return within_share(chosen, share, time)


def _without_anchor(gangs: GangNames, wanted: Sequence[SampleRequest]) -> tuple[int, ...]:
    """Return the gangs (indexes) that are still to search the anchor. None are if the first search
    is not one of the anchor, or of a single gang."""
    if not gangs.anchor or len(gangs.names) == 1:
        return ()
    if wanted and wanted[0].why != ANCHOR:
        return ()
    have = {one.gang for one in wanted if one.why == ANCHOR}
    return tuple(n for n, name in enumerate(gangs.names) if name not in have)


def _to_come(goal: SurfaceGoal, gangs: GangNames, wanted: Sequence[SampleRequest]) -> int:
    """Return the number of searches still to come."""
    anchors = len(_without_anchor(gangs, wanted))
    # The anchor is one of the samples.
    again = anchors - 1 if anchors and not wanted else anchors
    return goal.samples - len({request.sample for request in wanted}) + again


def _free_times(
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    ended: Mapping[int, SampleResult],
    time: TimeLeft,
    beside_s: float,
) -> tuple[float, ...]:
    """Return the time until each gang has made all its searches, if they use their whole budgets
    [s].

    A search begins when it is chosen, or when its gang has ended the one before.
    """
    end_s = dict.fromkeys(gangs.names, 0.0)
    running = dict.fromkeys(gangs.names, False)
    for number, one in enumerate(wanted, start=1):
        if one.gang in end_s:
            takes_s = one.goal.budget_s or 0.0
            if number in ended:
                takes_s = ended[number].found.cost_s
            running[one.gang] = number not in ended
            begins_s = max(end_s[one.gang], one.spent_s)
            end_s[one.gang] = begins_s + takes_s + beside_s
    return tuple(max(end_s[name] - time.spent_s, 0.0) if running[name] else 0.0 for name in end_s)


def _following(
    goal: SurfaceGoal, gangs: GangNames, wanted: Sequence[SampleRequest]
) -> tuple[int, ...]:
    """Return the gangs (indexes) that have no search in the current block, in the order of the
    block: the gangs' order for the anchors, and a random one for each block after them."""
    anchors = _without_anchor(gangs, wanted)
    if anchors:
        return anchors
    count = len(gangs.names)
    others = sum(request.why != ANCHOR for request in wanted)
    block, place = divmod(others, count)
    rng = np.random.default_rng((goal.seed, _ORDER_STREAM, block))
    order = [int(gang) for gang in rng.permutation(count)]
    begun = {one.gang for one in wanted[len(wanted) - place :]}
    free = tuple(gang for gang in order if gangs.names[gang] not in begun)
    return free or tuple(order)


def _farthest_first(
    goal: SurfaceGoal,
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    following: Sequence[int],
    sample: Sample,
) -> tuple[int, ...]:
    """Return these gangs in the order of the distance of a sample to the nearest one that the gang
    searches, the anchor left out; the largest first."""

    def away(gang: int) -> float:
        name = gangs.names[gang]
        own = [one for one in wanted if one.gang == name and one.why != ANCHOR]
        return distance_to(goal.factors, [one.sample for one in own], sample)

    return tuple(sorted(following, key=away, reverse=True))
