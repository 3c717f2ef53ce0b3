"""From the trials to the scalability profile: points, saturation, the law's fit, doubts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from benchwright.control.ramp.doubts import Shown, doubts_of
from benchwright.control.ramp.flow import Flow, flows_of
from benchwright.control.ramp.growth import Climb, climb_of
from benchwright.control.ramp.level import Level, between_runs, levels_of
from benchwright.model.peak import LoadEnding, LoadTrial
from benchwright.model.ramp import Axis, RampGoal, RampPoint, RampResult, RampStatus
from benchwright.model.usl import BandPoint, UslFit
from benchwright.stats.usl import fit_usl, usl_band, why_no_fit

ERRORS = "error_ratio"
_RESPONSES = ("response_ms_mean", "response_ms_p50", "response_ms_p99")


class Ended(msgspec.Struct, frozen=True):
    """How and why a ramp ended."""

    status: RampStatus
    detail: str


def result_of(goal: RampGoal, history: Sequence[LoadTrial], ended: Ended) -> RampResult:
    """Return the profile of all trials; those that failed only cost."""
    good = [trial for trial in history if trial.ending is not LoadEnding.FAILED]
    flows = flows_of(good, goal.axis)
    levels = levels_of(flows)
    points = tuple(_point(level, levels[0], good, goal) for level in levels)
    climb = climb_of(levels, goal) if levels else None
    fitted, absent = _fit(goal, _lawful(goal, flows, points))
    shown = Shown(goal, ended.status, points, tuple(levels), climb, fitted)
    return RampResult(
        status=ended.status,
        detail=ended.detail,
        axis=goal.axis,
        points=points,
        saturation=_saturation(ended, points, climb),
        usl=fitted,
        usl_absent=absent,
        load_s=sum(trial.lasted_s for trial in history),
        cost_s=sum(trial.cost_s for trial in history),
        trials=len(history),
        findings=doubts_of(shown, history),
    )


def band_of(goal: RampGoal, history: Sequence[LoadTrial]) -> tuple[BandPoint, ...]:
    """Return the fitted curve with its band, empty where nothing could be fitted.

    Apart from the result: it takes forty times as long as the fit.
    """
    good = [trial for trial in history if trial.ending is not LoadEnding.FAILED]
    flows = flows_of(good, goal.axis)
    levels = levels_of(flows)
    points = tuple(_point(level, levels[0], good, goal) for level in levels)
    lawful = _lawful(goal, flows, points)
    if goal.axis is not Axis.USERS or _no_fit(lawful):
        return ()
    return usl_band(*_columns(lawful), confidence=goal.confidence)


def errors_of(trials: Sequence[LoadTrial]) -> float | None:
    """Return the share of operations that failed; None where nobody counted."""
    told = _mean_value(trials, lambda trial: trial.values.get(ERRORS))
    if told is not None:
        return told
    errors = sum(trial.errors for trial in trials)
    if any(trial.completed is None for trial in trials):
        return None
    ended = errors + sum(trial.completed or 0 for trial in trials)
    return errors / ended if ended else None


# -- points ----------------------------------------------------------------------------------


def _point(
    level: Level, first: Level, good: Sequence[LoadTrial], goal: RampGoal
) -> RampPoint:
    trials = [trial for trial in good if trial.rate == level.level]
    mean, median, tail = (_response(trials, key) for key in _RESPONSES)
    own, begin = (one.throughput / one.level for one in (level, first))
    return RampPoint(
        level=level.level,
        throughput=level.estimate(goal.confidence),
        trials=len(level.flows),
        offered=_offered(trials) if goal.axis is Axis.RATE else None,
        response_ms_mean=mean,
        response_ms_p50=median,
        response_ms_p99=tail,
        error_share=errors_of(trials),
        efficiency=own / begin if begin else None,
    )


def _response(trials: Sequence[LoadTrial], key: str) -> float | None:
    return _mean_value(trials, lambda trial: trial.values.get(key))


def _offered(trials: Sequence[LoadTrial]) -> float | None:
    return _mean_value(
        trials, lambda trial: None if trial.offered is None else trial.offered_rate
    )


def _mean_value(
    trials: Sequence[LoadTrial], value: Callable[[LoadTrial], float | None]
) -> float | None:
    """Return the mean over the trials; None where one does not know it."""
    known = [one for one in map(value, trials) if one is not None]
    return sum(known) / len(known) if known and len(known) == len(trials) else None


def _saturation(
    ended: Ended, points: Sequence[RampPoint], climb: Climb | None
) -> RampPoint | None:
    if ended.status is not RampStatus.SATURATED or climb is None:
        return None
    return next(point for point in points if point.level == climb.best.level)


# -- the law ---------------------------------------------------------------------------------


def _lawful(
    goal: RampGoal, flows: Sequence[Flow], points: Sequence[RampPoint]
) -> list[Flow]:
    """Return the trials that the law is about: not those of a level with many errors."""
    wrong = {
        point.level
        for point in points
        if point.error_share is not None and point.error_share > goal.most_errors
    }
    return [flow for flow in flows if flow.level not in wrong]


def _fit(goal: RampGoal, flows: Sequence[Flow]) -> tuple[UslFit | None, str]:
    """Return the fit, or None and why there is none."""
    if goal.axis is not Axis.USERS:
        return None, (
            "the law is one of users, and this ramp raises a rate: use axis = users"
        )
    absent = _no_fit(flows)
    if absent:
        return None, absent
    return fit_usl(*_columns(flows), confidence=goal.confidence), ""


def _no_fit(flows: Sequence[Flow]) -> str:
    return why_no_fit(
        [flow.level for flow in flows], [flow.throughput for flow in flows]
    )


def _columns(
    flows: Sequence[Flow],
) -> tuple[list[float], list[float], list[float] | None]:
    """Return users, throughputs and relative variances, one element a trial."""
    users = [flow.level for flow in flows]
    return users, [flow.throughput for flow in flows], _variances(flows)


def _variances(flows: Sequence[Flow]) -> list[float] | None:
    """Return each trial's relative variance; None where one does not know it.

    Half of it is the trials' median: a variance from ten bins may be small by luck, and
    such a trial must not pull the curve to itself.
    """
    within = [flow.variance for flow in flows if flow.variance is not None]
    middle = float(np.median(within)) if within else 0.0
    if len(within) < len(flows) or not middle > 0:
        return None
    groups: dict[float, list[Flow]] = {}
    for flow in flows:
        groups.setdefault(flow.level, []).append(flow)
    between = between_runs(list(groups.values())).variance
    return [(one + middle) / 2 + between for one in within]
