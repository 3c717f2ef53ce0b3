"""Whether the response times of a load stayed at one level, by its intervals. Pure.

Decision: the median response of each interval is a series, and the steps and slopes of a history
(stats/steps.py) are those of a load: neighbours may correlate, and bursts that end are no step. It
is examined as logarithms, in which a step is a ratio, and as it is, in which a queue that fills is
a straight line. Only what the load ends with counts, and only a level that a fifth of the intervals
have: of less, a step cannot be distinguished from a burst at the edge. An arrival process that
changes itself, as that of a trace, explains any change. Rejected: the p99 of intervals, which has
few operations of each; Mann-Kendall's test, which has a step at half time of 12 intervals at 2 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.text import duration_ns_text
from benchwright.features.load.types import EngineResult, IntervalResult
from benchwright.findings import thresholds as t
from benchwright.stats.steps import MIN_VALUES, find_steps


class LevelChange(msgspec.Struct, frozen=True):
    """The levels between which a series changed."""

    first: float
    last: float
    until: int
    """The first value that is not of the first level,"""
    since: int
    """... and the first of the last level; the same for a single step."""


class ResponseChange(msgspec.Struct, frozen=True):
    """How the median response of a load changed while it ran."""

    first_ns: float
    last_ns: float
    when: str
    """Such as `after 6 s`."""

    @property
    def way(self) -> str:
        """Whether it rose or fell."""
        return "rose" if self.last_ns > self.first_ns else "fell"

    @property
    def sentence(self) -> str:
        """What happened, for a verdict."""
        first, last = (duration_ns_text(round(ns)) for ns in (self.first_ns, self.last_ns))
        return f"the median response {self.way} from {first} to {last} {self.when}"


def full_intervals(intervals: Sequence[IntervalResult]) -> list[IntervalResult]:
    """Return the intervals, without those at the end that are shorter than half of the longest.

    The last interval ends with the run's last operation. Few operations, divided by a very
    short interval, would give a rate that never occurred.
    """
    whole = [i for i in intervals if i.length_ns]
    longest_ns = max((i.length_ns for i in whole), default=0)
    while len(whole) > 1 and whole[-1].length_ns * 2 < longest_ns:
        whole.pop()
    return whole


def response_change(result: EngineResult, warm_up_ns: int = 0) -> ResponseChange | None:
    """Return how the median response changed in the measured part, which begins after `warm_up_ns`;
    None if it did not, if that is too little to matter, or if there are too few intervals."""
    run = [
        interval_result
        for interval_result in full_intervals(result.measured_intervals(warm_up_ns))
        if interval_result.response_ns_p50
    ]
    change = level_change([interval_result.response_ns_p50 or 0 for interval_result in run])
    if change is None or abs(change.last - change.first) < t.UNSTEADY_NS:
        return None
    arrivals = [interval_result.intended for interval_result in run]
    before, after = np.mean(arrivals[: change.until]), np.mean(arrivals[change.since :])
    # The arrivals of a closed loop follow from its responses.
    is_open = result.intended_rate_per_s is not None
    if is_open and max(before, after) >= t.UNSTEADY * min(before, after):
        return None
    when = "during the load"
    if change.until == change.since:
        when = f"after {duration_ns_text(run[change.until].start_ns - run[0].start_ns)}"
    return ResponseChange(change.first, change.last, when)


def level_change(values: Sequence[float]) -> LevelChange | None:
    """Return the change between the beginning and the end of a series, shape `(n,)`, in order of
    time; None where it does not change, or by less than t.UNSTEADY."""
    data = np.asarray(values, dtype=np.float64)
    if data.size < MIN_VALUES:
        return None
    for is_log in (True, False):
        if is_log and data.min() <= 0:
            continue
        change = _change(data, is_log)
        if change is not None and max(change.first, change.last) >= t.UNSTEADY * min(
            change.first, change.last
        ):
            return change
    return None


def _change(data: np.ndarray, is_log: bool) -> LevelChange | None:
    fit = find_steps(
        np.log(data) if is_log else data, false_alarms=t.LEVEL_UNSTEADY / 2, logarithms=is_log
    )
    if any(step.change * fit.slope < 0 for step in fit.steps):
        return None  # a saw: what rises falls back
    edge = -(-data.size // 5)
    cuts = [step.index for step in fit.steps] if not fit.wanders else []
    cuts = cuts or [p.last + 1 for p in fit.patterns if p.kind == "excursion" and p.first == 0]
    if not cuts and any(pattern.kind == "drift" for pattern in fit.patterns):
        cuts = [edge, data.size - edge]
    if not cuts or cuts[0] < edge or data.size - cuts[-1] < edge:
        return None
    first, last = np.median(data[: cuts[0]]), np.median(data[cuts[-1] :])
    return LevelChange(float(first), float(last), cuts[0], cuts[-1])
