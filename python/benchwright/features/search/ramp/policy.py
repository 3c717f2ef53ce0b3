"""The ramp's policy: a pure function of its goal and the trials so far.

Levels rise by a factor or a step, with one trial each. The climb ends when throughput has not grown
at a given number of consecutive levels, at the highest level, or when too many operations fail; the
ramp ends when the server fails twice at one level. Further trials of the levels follow in random
order; then the climb is judged again, and goes on if throughput still grew. If noise hides the
growth at the highest level after that, it is run again, up to a limit. If each level is run once, a
low one is run again at the end: the control. Decision: random order, because throughput that
changes with time would look like a property of the levels if they only rose. The first trials rise
nevertheless: no load far beyond the server's limit comes before the levels below it are known.
Rejected: levels in one random order, which need a highest level. Source: Systems Performance,
12.3.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.text import percent_text, plural
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe, rounded_rate
from benchwright.features.search.ramp import types
from benchwright.features.search.ramp.levels import (
    Climb,
    RampLevel,
    SortedTrials,
    ThroughputGrowth,
    climb_of,
    falls,
    measured_levels,
    sort_trials,
    trial_throughput,
)
from benchwright.features.search.ramp.profile import RampEnding, errors_of, result_of, why_no_law
from benchwright.features.search.ramp.types import RampAxis, RampGoal, RampResult, RampStatus
from benchwright.features.search.types import rounded_bound


def next_ramp_step(goal: RampGoal, history: Sequence[LoadTrial]) -> Probe | RampResult:
    """Return the next probe, or the result."""
    step = _next_step(goal, history)
    return step if isinstance(step, Probe) else result_of(goal, history, step)


def _next_step(goal: RampGoal, history: Sequence[LoadTrial]) -> Probe | RampEnding:
    if not history:
        return _probe(goal, first_level(goal), "begin")
    failed, spent = _failure(goal, history), _budget(goal, history)
    if history[-1].ending is LoadEnding.FAILED:
        over = failed or spent
        if over is None:
            return _probe(goal, history[-1].rate, "again after a failure")
        climbed = _ended_climb(goal, history)
        if climbed is None:
            return over
        detail = f"{climbed.detail}; a repeat of a level failed"
        return RampEnding(climbed.status, detail)
    if failed is not None:
        return failed
    state = _ramp_state(goal, history)
    climb, again = _climb(goal, state), _repeat(goal, state)
    if isinstance(climb, Probe):
        # Repeats that have begun come first: the climb is judged by all of them.
        after = again if state.is_repeating else None
        return spent or after or climb
    if spent is None:
        return again or _control(goal, state) or climb
    if again is None:
        return climb
    detail = f"{climb.detail}; no time was left for every repeat"
    return RampEnding(climb.status, detail)


def _ended_climb(goal: RampGoal, history: Sequence[LoadTrial]) -> RampEnding | None:
    """Return how the climb ended, by the trials that did not fail; None where it has not."""
    if not measured_levels(goal, history):
        return None
    climb = _climb(goal, _ramp_state(goal, history))
    return None if isinstance(climb, Probe) else climb


def best_so_far(goal: RampGoal, history: Sequence[LoadTrial]) -> RampResult:
    """Return the profile so far, for when the time is up or the user stops the ramp."""
    detail = "the ramp was ended before throughput stopped growing"
    # What was left of a climb that had ended would have repeated levels.
    end = _ended_climb(goal, history) or RampEnding(RampStatus.BUDGET, detail)
    return result_of(goal, history, end)


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
    last = history[-types.MOST_FAILURES :]
    if len(last) == types.MOST_FAILURES and all(
        trial.ending is LoadEnding.FAILED and trial.rate == last[0].rate for trial in last
    ):
        detail = f"{types.MOST_FAILURES} trials failed at {last[0].rate:g}: {last[-1].failure}"
        return RampEnding(RampStatus.FAILED, detail)
    if last[-1].ending is LoadEnding.FAILED:
        return None
    detail = why_unusable(goal, last[-1])
    return RampEnding(RampStatus.FAILED, detail) if detail else None


def why_unusable(goal: RampGoal, trial: LoadTrial) -> str:
    """Return why a trial cannot be used; empty where it can."""
    if trial.why_failed:
        return trial.why_failed
    run = trial_throughput(trial, goal.axis)
    if run is None:
        return "the generator reports no throughput: neither a number nor a count"
    if run.throughput < 0:
        return f"the generator reports a throughput of {run.throughput:g}/s"
    return ""


class _RampState(msgspec.Struct, frozen=True):
    """The state of a ramp after a trial that succeeded."""

    trials: SortedTrials
    levels: tuple[RampLevel, ...]
    climb: Climb

    @property
    def top(self) -> RampLevel:
        """The highest level so far."""
        return self.levels[-1]

    @property
    def is_repeating(self) -> bool:
        """Whether the last trial repeated its level."""
        last = self.trials.of_levels[-1].rate
        return sum(trial.rate == last for trial in self.trials.of_levels) > 1

    def error_share(self, level: RampLevel) -> float | None:
        """Return the share of a level's operations that failed; None where it is unknown."""
        return errors_of([t for t in self.trials.of_levels if t.rate == level.level])


def _ramp_state(goal: RampGoal, history: Sequence[LoadTrial]) -> _RampState:
    levels = measured_levels(goal, history)
    return _RampState(sort_trials(goal, history), tuple(levels), climb_of(levels, goal))


def _climb(goal: RampGoal, state: _RampState) -> Probe | RampEnding:
    """Return the next trial of the climb, or how it ended."""
    ended = _too_many_errors(goal, state)
    if ended is not None:
        return ended
    runs = len(state.top.runs)
    hidden = state.climb.last is ThroughputGrowth.UNCLEAR
    if hidden and goal.repeats <= runs < goal.most_repeats:
        return _probe(goal, state.top.level, "repeat: noise hides the growth")
    if state.climb.flat >= goal.flat_levels:
        return _saturated(goal, state)
    after = level_after(goal, state.top.level)
    return _highest(goal, state) if after is None else _probe(goal, after, "climb")


def _repeat(goal: RampGoal, state: _RampState) -> Probe | None:
    """Return the next repeat of a level; None where each has as many as the goal asks for.

    Each pass over the levels has its own random order, of which no level that is added later
    changes the rest.
    """
    for number in range(1, goal.repeats):
        ranks = np.random.default_rng([goal.seed, number]).random(len(state.levels))
        missing = [
            (float(rank), level.level)
            for rank, level in zip(ranks, state.levels, strict=True)
            if len(level.runs) <= number and not _has_errors(goal, state, level)
        ]
        if missing:
            return _probe(goal, min(missing)[1], "repeat")
    return None


def _control(goal: RampGoal, state: _RampState) -> Probe | None:
    """Return the control run of a ramp that runs each level once; None where it was run, or there
    is no law whose scatter it could be compared with."""
    levels = {level.level: level for level in state.levels if not _has_errors(goal, state, level)}
    runs = [run for level in levels.values() for run in level.runs]
    done = goal.repeats > 1 or state.trials.control is not None
    if done or why_no_law(goal, runs):
        return None
    trials = state.trials.of_levels

    def lever(place: int) -> float:
        """Return the time since a trial, by how much it shows of the server's speed."""
        return (len(trials) - place) * _server_share(trials[place], goal)

    places = [
        place
        for place, trial in enumerate(trials)
        if trial.rate in levels and trial.rate < state.top.level
    ]
    level = trials[max(places, key=lever)].rate
    return _probe(goal, level, "control: the machine's speed at the end")


def _server_share(trial: LoadTrial, goal: RampGoal) -> float:
    """Return the share of a user's time that is response time, the rest being think time, which no
    change of the server's speed changes; 1 where it is unknown."""
    response_ms = trial.values.get("response_ms_mean")
    run = trial_throughput(trial, goal.axis)
    if response_ms is None or run is None:
        return 1.0
    return min(run.throughput * response_ms / 1e3 / trial.rate, 1.0)


def _has_errors(goal: RampGoal, state: _RampState, level: RampLevel) -> bool:
    share = state.error_share(level)
    return share is not None and share > goal.most_errors


def _too_many_errors(goal: RampGoal, state: _RampState) -> RampEnding | None:
    for level in state.levels:
        if _has_errors(goal, state, level):
            detail = (
                f"{percent_text(state.error_share(level))} of the operations failed at "
                f"{level.level:g}; at most {percent_text(goal.most_errors)} may"
            )
            return RampEnding(RampStatus.ERRORS, detail)
    return None


def _saturated(goal: RampGoal, state: _RampState) -> RampEnding:
    best, flat = state.climb.best, state.climb.flat
    if not best.throughput > 0:
        detail = f"no operation ended well, from {best.level:g} to {state.top.level:g}"
        return RampEnding(RampStatus.FAILED, detail)
    detail = (
        f"from {best.level:g} on throughput grew by less than {percent_text(goal.growth, 10)} "
        f"at {plural(flat, 'level')}: {best.throughput:.4g}/s there, "
        f"{state.top.throughput:.4g}/s at {state.top.level:g}"
    )
    return RampEnding(RampStatus.SATURATED, detail)


def _highest(goal: RampGoal, state: _RampState) -> RampEnding:
    """Return the ending at the highest level; a fall beyond noise counts as saturation."""
    if falls(state.climb.best, state.top, goal):
        return _saturated(goal, state)
    detail = f"{state.top.level:g} is the highest level"
    if state.climb.flat:
        return RampEnding(
            RampStatus.HIGHEST,
            f"{detail}; throughput last grew at {state.climb.best.level:g}, and "
            f"{goal.flat_levels} levels without growth are required",
        )
    return RampEnding(RampStatus.HIGHEST, f"{detail}, and throughput was still growing")
