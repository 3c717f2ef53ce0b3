"""The ramp's policy: a pure function of its goal and the trials so far.

Levels rise by a factor or a step; the goal sets the length and the number of runs at each. The ramp
ends when throughput has not grown at a given number of consecutive levels, at the highest level, when
too many operations fail, or when the server fails twice at one level. If noise hides the growth at a
level, the level is run again, up to a limit.
Source: Systems Performance, 12.3.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.ramp import RampAxis, RampGoal, RampResult, RampStatus
from benchwright.core.search import (
    LoadEnding,
    LoadTrial,
    Probe,
    rounded_bound,
    rounded_rate,
)
from benchwright.core.text import percent_text, plural
from benchwright.decide.ramp import tuning
from benchwright.decide.ramp.levels import (
    Climb,
    RampLevel,
    ThroughputGrowth,
    climb_of,
    falls,
    measured_levels,
    trial_throughput,
)
from benchwright.decide.ramp.profile import RampEnding, errors_of, result_of


def next_ramp_step(goal: RampGoal, history: Sequence[LoadTrial]) -> Probe | RampResult:
    """Return the next probe, or the result."""
    if not history:
        return _probe(goal, first_level(goal), "begin")
    ended = _budget(goal, history) or _failure(goal, history)
    if ended is not None:
        return result_of(goal, history, ended)
    if history[-1].ending is LoadEnding.FAILED:
        return _probe(goal, history[-1].rate, "again after a failure")
    return _after_level(goal, history)


def best_so_far(goal: RampGoal, history: Sequence[LoadTrial]) -> RampResult:
    """Return the profile so far, for when the time is up or the user stops the ramp."""
    detail = "the ramp was ended before throughput stopped growing"
    return result_of(goal, history, RampEnding(RampStatus.BUDGET, detail))


def first_level(goal: RampGoal) -> float:
    """Return the level at which a ramp starts."""
    return _rounded(goal, goal.start)


def level_after(goal: RampGoal, level: float) -> float | None:
    """Return the level after `level`; None after the highest."""
    if level >= goal.highest:
        return None
    higher = level * goal.factor if goal.step is None else level + goal.step
    rounded = _rounded(goal, higher)
    step = 1.0 if goal.axis is RampAxis.USERS else goal.rate_step
    if step is not None and rounded <= level:
        rounded = _rounded(goal, level + step)
    # If the highest level was rounded down, it may have been reached already.
    last = min(rounded, _highest_level(goal))
    return last if last > level else None


def _highest_level(goal: RampGoal) -> float:
    if goal.axis is RampAxis.USERS:
        return _rounded(goal, goal.highest)
    return rounded_bound(goal.highest, goal.rate_step, math.floor)


def _rounded(goal: RampGoal, level: float) -> float:
    """Return a level that a generator can run: whole users, or a rate with five digits."""
    if goal.axis is RampAxis.USERS:
        return float(max(1, round(level)))
    return rounded_rate(level, goal.rate_step)


def _probe(goal: RampGoal, level: float, purpose: str) -> Probe:
    users = int(level) if goal.axis is RampAxis.USERS else None
    return Probe(level, goal.hold_s, purpose, users)


def _budget(goal: RampGoal, history: Sequence[LoadTrial]) -> RampEnding | None:
    spent_s = sum(trial.cost_s for trial in history)
    if goal.budget_s is None or spent_s < goal.budget_s:
        return None
    detail = f"{spent_s:.0f} s of {goal.budget_s:.0f} s are used up"
    return RampEnding(RampStatus.BUDGET, detail)


def _failure(goal: RampGoal, history: Sequence[LoadTrial]) -> RampEnding | None:
    last = history[-tuning.MOST_FAILURES :]
    if len(last) == tuning.MOST_FAILURES and all(
        trial.ending is LoadEnding.FAILED and trial.rate == last[0].rate
        for trial in last
    ):
        detail = f"{tuning.MOST_FAILURES} trials failed at {last[0].rate:g}: {last[-1].failure}"
        return RampEnding(RampStatus.FAILED, detail)
    if last[-1].ending is LoadEnding.FAILED:
        return None
    detail = why_unusable(goal, last[-1])
    return RampEnding(RampStatus.FAILED, detail) if detail else None


def why_unusable(goal: RampGoal, trial: LoadTrial) -> str:
    """Return why a trial cannot be used; empty where it can."""
    if trial.ending is LoadEnding.FAILED:
        return trial.failure or "it failed"
    run = trial_throughput(trial, goal.axis)
    if run is None:
        return "the generator reports no throughput: neither a number nor a count"
    if run.throughput < 0:
        return f"the generator reports a throughput of {run.throughput:g}/s"
    return ""


class _RampState(msgspec.Struct, frozen=True):
    """The state of a ramp after a trial that succeeded."""

    current: float
    """The level of the last trial."""
    trials_here: tuple[LoadTrial, ...]
    """Trials at the current level."""
    levels: tuple[RampLevel, ...]
    climb: Climb


def _ramp_state(goal: RampGoal, history: Sequence[LoadTrial]) -> _RampState:
    current = history[-1].rate
    good = [trial for trial in history if trial.ending is not LoadEnding.FAILED]
    levels = measured_levels(history, goal.axis)
    here = tuple(trial for trial in good if trial.rate == current)
    return _RampState(current, here, tuple(levels), climb_of(levels, goal))


def _after_level(goal: RampGoal, history: Sequence[LoadTrial]) -> Probe | RampResult:
    """Return the step after a trial that succeeded."""
    state = _ramp_state(goal, history)
    ended = _too_many_errors(goal, state)
    if ended is not None:
        return result_of(goal, history, ended)
    if len(state.trials_here) < goal.repeats:
        return _probe(goal, state.current, "repeat")
    hidden = state.climb.last is ThroughputGrowth.UNCLEAR
    if hidden and len(state.trials_here) < goal.most_repeats:
        return _probe(goal, state.current, "repeat: noise hides the growth")
    if state.climb.flat >= goal.flat_levels:
        return result_of(goal, history, _saturated(goal, state))
    after = level_after(goal, state.current)
    if after is None:
        return result_of(goal, history, _highest(goal, state))
    return _probe(goal, after, "climb")


def _too_many_errors(goal: RampGoal, state: _RampState) -> RampEnding | None:
    share = errors_of(state.trials_here)
    if share is None or share <= goal.most_errors:
        return None
    detail = (
        f"{percent_text(share)} of the operations failed at {state.current:g}; "
        f"at most {percent_text(goal.most_errors)} may"
    )
    return RampEnding(RampStatus.ERRORS, detail)


def _saturated(goal: RampGoal, state: _RampState) -> RampEnding:
    best, flat = state.climb.best, state.climb.flat
    if not best.throughput > 0:
        detail = f"no operation ended well, from {best.level:g} to {state.current:g}"
        return RampEnding(RampStatus.FAILED, detail)
    detail = (
        f"from {best.level:g} on throughput grew by less than {percent_text(goal.growth, 10)} "
        f"at {plural(flat, 'level')}: {best.throughput:.4g}/s there, "
        f"{state.levels[-1].throughput:.4g}/s at {state.current:g}"
    )
    return RampEnding(RampStatus.SATURATED, detail)


def _highest(goal: RampGoal, state: _RampState) -> RampEnding:
    """Return the ending at the highest level; a fall beyond noise counts as saturation."""
    best, last = state.climb.best, state.levels[-1]
    if falls(best, last, goal):
        return _saturated(goal, state)
    detail = f"{state.current:g} is the highest level"
    if state.climb.flat:
        return RampEnding(
            RampStatus.HIGHEST,
            f"{detail}; throughput last grew at {best.level:g}, and "
            f"{goal.flat_levels} levels without growth are required",
        )
    return RampEnding(RampStatus.HIGHEST, f"{detail}, and throughput was still growing")
