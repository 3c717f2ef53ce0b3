"""The scalability profile of a ramp's trials: points, saturation, the fitted law, findings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Figure, Finding, states
from benchwright.core.text import p_text, percent_text
from benchwright.features.generators.findings import mark_findings
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.ramp import types
from benchwright.features.search.ramp.levels import (
    Climb,
    RampLevel,
    SpeedChange,
    TrialThroughput,
    between_runs,
    climb_of,
    control_change,
    error_of_ratio,
    falls,
    levels_of,
    noise_exponent,
    sort_trials,
    speed_change,
    trial_throughput,
    trial_throughputs,
)
from benchwright.features.search.ramp.scalability import (
    fit_usl,
    law_throughput,
    usl_band,
    why_no_fit,
)
from benchwright.features.search.ramp.types import (
    STREAM_FIGURES,
    BandPoint,
    PreferredLaw,
    RampAxis,
    RampGoal,
    RampPoint,
    RampResult,
    RampStatus,
    ScalabilityModel,
    UslFit,
)
from benchwright.findings.codes import make_finding

ERROR_KEY = "error_ratio"
_RESPONSES = ("response_ms_mean", "response_ms_p50", "response_ms_p99")


class RampEnding(msgspec.Struct, frozen=True):
    """How and why a ramp ended."""

    status: RampStatus
    detail: str


def result_of(goal: RampGoal, history: Sequence[LoadTrial], end: RampEnding) -> RampResult:
    """Return the profile of all trials; failed trials only count as cost."""
    measured = _measured(goal, history)
    levels, points = measured.levels, measured.points
    climb = climb_of(levels, goal) if levels else None
    fell = climb is not None and falls(climb.best, levels[-1], goal)
    # Between single runs a fall may be chance: the noise between runs is not known.
    shown = None if fell and _repetitions(levels) < types.FEWEST_REPETITIONS else fell
    fitted, absent = _fit(goal, measured, fell=shown)
    outcome = RampOutcome(
        goal=goal,
        status=end.status,
        points=points,
        levels=levels,
        climb=climb,
        fell=fell,
        usl=fitted,
        change=_speed_change(goal, measured, fitted),
    )
    return RampResult(
        status=end.status,
        detail=end.detail,
        axis=goal.axis,
        points=points,
        saturation=_saturation(end, points, climb),
        within=_within(goal, points),
        usl=fitted,
        usl_absent=absent,
        load_s=sum(trial.lasted_s for trial in history),
        cost_s=sum(trial.cost_s for trial in history),
        trials=len(history),
        findings=ramp_findings(outcome, history),
    )


def band_of(goal: RampGoal, history: Sequence[LoadTrial]) -> tuple[BandPoint, ...]:
    """Return the fitted curve with its band; empty where there is no fit.

    The band is not part of the result because it takes forty times as long as the fit.
    """
    fitted = _measured(goal, history).fitted
    if why_no_law(goal, fitted):
        return ()
    return usl_band(*_columns(fitted), confidence=goal.confidence)


class _Measured(msgspec.Struct, frozen=True):
    """The trials that did not fail, in three forms."""

    levels: tuple[RampLevel, ...]
    points: tuple[RampPoint, ...]
    fitted: tuple[TrialThroughput, ...]
    """The trials that the law is fitted to, without levels with many errors."""
    control: TrialThroughput | None


def _measured(goal: RampGoal, history: Sequence[LoadTrial]) -> _Measured:
    trials = sort_trials(goal, history)
    good, again = trials.of_levels, trials.control
    runs = trial_throughputs(good, goal.axis)
    levels = tuple(levels_of(runs))
    points = tuple(_point(level, levels[0], good, goal) for level in levels)
    wrong = {
        point.level
        for point in points
        if point.error_share is not None and point.error_share > goal.most_errors
    }
    fitted = tuple(run for run in runs if run.level not in wrong)
    control = None if again is None else trial_throughput(again, goal.axis)
    return _Measured(levels, points, fitted, control)


def _speed_change(goal: RampGoal, measured: _Measured, fit: UslFit | None) -> SpeedChange | None:
    """Return how the machine's speed changed, by the repeated levels or the control run."""
    if goal.repeats > 1:
        return speed_change(measured.fitted)
    if measured.control is None or fit is None:
        return None
    by_level = {level.level: level for level in measured.levels}
    return control_change(measured.control, by_level[measured.control.level], fit)


def _repetitions(levels: Sequence[RampLevel]) -> int:
    """Return the number of trials that repeated a level."""
    return sum(len(level.runs) - 1 for level in levels)


def errors_of(trials: Sequence[LoadTrial]) -> float | None:
    """Return the share of operations that failed; None where they were not counted."""
    reported = _mean_of_key(trials, ERROR_KEY)
    if reported is not None:
        return reported
    errors = sum(trial.errors for trial in trials)
    if any(trial.completed is None for trial in trials):
        return None
    ended = errors + sum(trial.completed or 0 for trial in trials)
    return errors / ended if ended else None


# -- points ----------------------------------------------------------------------------------


def _point(
    level: RampLevel, first: RampLevel, good: Sequence[LoadTrial], goal: RampGoal
) -> RampPoint:
    trials = [trial for trial in good if trial.rate == level.level]
    mean, median, tail = (_mean_of_key(trials, key) for key in _RESPONSES)
    offered = None
    if goal.axis is RampAxis.RATE:
        offered = _mean_value(trials, lambda t: None if t.offered is None else t.offered_rate)
    per_unit, first_per_unit = (x.throughput / x.level for x in (level, first))
    return RampPoint(
        level=level.level,
        throughput=level.estimate(goal.confidence),
        trials=len(level.runs),
        offered=offered,
        response_ms_mean=mean,
        response_ms_p50=median,
        response_ms_p99=tail,
        streams={
            key: value for key in STREAM_FIGURES if (value := _mean_of_key(trials, key)) is not None
        },
        limits={
            one.key: value
            for one in goal.criteria
            if (value := _mean_of_key(trials, one.key)) is not None
        },
        exceeded=tuple(
            dict.fromkeys(
                one.key
                for one in goal.criteria
                for trial in trials
                if not one.holds(trial.values.get(one.key, math.nan))
            )
        ),
        late_p99_ms=max(
            (trial.late_p99_ms for trial in trials if trial.late_p99_ms is not None), default=None
        ),
        error_share=errors_of(trials),
        efficiency=per_unit / first_per_unit if first_per_unit else None,
    )


def _mean_of_key(trials: Sequence[LoadTrial], key: str) -> float | None:
    return _mean_value(trials, lambda trial: trial.values.get(key))


def _mean_value(
    trials: Sequence[LoadTrial], value: Callable[[LoadTrial], float | None]
) -> float | None:
    """Return the mean over the trials; None where the value is unknown for any trial."""
    values = [one for one in map(value, trials) if one is not None]
    return sum(values) / len(values) if values and len(values) == len(trials) else None


def _within(goal: RampGoal, points: Sequence[RampPoint]) -> RampPoint | None:
    """Return the highest level up to which no criterion was exceeded."""
    held = itertools.takewhile(lambda point: not point.exceeded, points)
    return max(held, key=lambda point: point.level, default=None) if goal.criteria else None


def _saturation(
    end: RampEnding, points: Sequence[RampPoint], climb: Climb | None
) -> RampPoint | None:
    if end.status is not RampStatus.SATURATED or climb is None:
        return None
    return next(point for point in points if point.level == climb.best.level)


# -- the law ---------------------------------------------------------------------------------


def _fit(goal: RampGoal, measured: _Measured, *, fell: bool | None) -> tuple[UslFit | None, str]:
    """Return the fit, or None and why there is none. A law that misses a level is not stated."""
    runs = measured.fitted
    absent = why_no_law(goal, runs)
    if absent:
        return None, absent
    fit = fit_usl(*_columns(runs), confidence=goal.confidence, fell=fell)
    used = {run.level for run in runs}
    if fit.law is not None and any(
        _misses(fit.law, point, goal.growth) for point in measured.points if point.level in used
    ):
        fit = msgspec.structs.replace(fit, preferred=ScalabilityModel.NONE, law=None)
    return fit, ""


def _misses(law: PreferredLaw, point: RampPoint, relevant: float) -> bool:
    """Return whether a law is outside the interval of a level, if that is known, and differs from
    the level by more than a relevant share: the interval of a single run has only its own noise."""
    measured = point.throughput
    value = float(law_throughput(law, np.array([point.level]))[0])
    is_far = abs(math.log(value / measured.value)) > math.log1p(relevant)
    return is_far and (value < measured.low or value > measured.high)


def why_no_law(goal: RampGoal, runs: Sequence[TrialThroughput]) -> str:
    """Return why no law can be fitted; empty if one can."""
    if goal.axis is not RampAxis.USERS:
        return "the law is one of users, and this ramp raises a rate: use axis = users"
    return why_no_fit([run.level for run in runs], [run.throughput for run in runs])


def _columns(
    runs: Sequence[TrialThroughput],
) -> tuple[list[float], list[float], list[float] | None]:
    """Return users, throughputs and relative variances, one element a trial."""
    users = [run.level for run in runs]
    return users, [run.throughput for run in runs], _variances(runs)


def _variances(runs: Sequence[TrialThroughput]) -> list[float] | None:
    """Return each trial's relative variance; None where it is unknown for any trial.

    Where repeated levels show that noise changes with the number of users, it is a power of that.
    Else half of each variance is the median over the trials: a variance from ten bins may be
    small by chance, and such a trial must not dominate the fit.
    """
    groups: dict[float, list[TrialThroughput]] = {}
    for run in runs:
        groups.setdefault(run.level, []).append(run)
    exponent = noise_exponent(list(groups.values()))
    if exponent:
        return [run.level**exponent for run in runs]
    within = [run.variance for run in runs if run.variance is not None]
    middle = float(np.median(within)) if within else 0.0
    if len(within) < len(runs) or not middle > 0:
        return None
    between = between_runs(list(groups.values())).variance
    return [(one + middle) / 2 + between for one in within]


# -- findings: doubts about a scalability profile ----------------------------------------------

RAMP_SUBJECT = "ramp"
CLOSED_LOOP_MARK = "closed-loop-generator"


class RampOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A ramp's result, before its findings."""

    goal: RampGoal
    status: RampStatus
    points: tuple[RampPoint, ...]
    levels: tuple[RampLevel, ...]
    climb: Climb | None
    fell: bool
    """Whether throughput at the highest level is below that of the best one, beyond noise."""
    usl: UslFit | None
    change: SpeedChange | None
    """Of the machine's speed; None: unknown."""


def ramp_findings(outcome: RampOutcome, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the findings; those about the answer come first."""
    return (
        *_end_findings(outcome),
        *_profile_findings(outcome),
        *_law_findings(outcome),
        *_change_findings(outcome),
        *_noise_findings(outcome),
        *_trial_findings(outcome, history),
    )


def _end_findings(outcome: RampOutcome) -> Iterator[Finding]:
    if outcome.status is RampStatus.HIGHEST and outcome.points:
        last = outcome.points[-1]
        shown = states(throughput=Figure(last.throughput.value, "1/s"), level=last.level)
        yield make_finding("ramp-not-saturated", RAMP_SUBJECT, shown)


def _profile_findings(outcome: RampOutcome) -> Iterator[Finding]:
    if outcome.climb is None:
        return
    best, last = outcome.climb.best, outcome.levels[-1]
    if outcome.fell:
        shown = states(
            best=best.level,
            most=Figure(best.throughput, "1/s"),
            last=Figure(last.throughput, "1/s"),
            less=Figure(1 - last.throughput / best.throughput, "%"),
            level=last.level,
        )
        yield make_finding("throughput-falls", RAMP_SUBJECT, shown)
    if outcome.goal.axis is RampAxis.USERS:
        yield from _superlinear(outcome)


def _superlinear(outcome: RampOutcome) -> Iterator[Finding]:
    """Yield a finding where throughput per user exceeds the first level's, beyond the known
    noise."""
    first = outcome.levels[0]
    for level in outcome.levels[1:]:
        error = error_of_ratio((first, level), outcome.goal.confidence)
        gain = (level.throughput / level.level) / (first.throughput / first.level or 1)
        if error and gain > math.exp(error) * (1 + outcome.goal.growth):
            shown = states(users=level.level, gain=Figure(gain, "%"), first=first.level)
            yield make_finding("superlinear", RAMP_SUBJECT, shown)
            return


def _law_findings(outcome: RampOutcome) -> Iterator[Finding]:
    fit = outcome.usl
    if fit is None:
        return
    if fit.refuted:
        evidence = (
            "the measured curve bends as the law cannot: it would need a negative sigma or kappa"
        )
        yield make_finding("usl-misfit", RAMP_SUBJECT, evidence)
    elif fit.misfit_p is not None and fit.misfit_p < types.LACK_OF_FIT_P:
        yield make_finding("usl-misfit", RAMP_SUBJECT, states(p=fit.misfit_p))
    elif fit.preferred is ScalabilityModel.NONE:
        evidence = "no law is as near to the levels as they are known"
        yield make_finding("usl-misfit", RAMP_SUBJECT, evidence)
    if fit.preferred not in (ScalabilityModel.USL, ScalabilityModel.NONE):
        confidence = percent_text(fit.kappa.confidence, 10)
        shown = states(confidence=confidence, high=fit.kappa.high)
        if fit.preferred is ScalabilityModel.SATURATING:
            shown = states(why="a law that only levels off fits them as well as one that falls")
        yield make_finding("kappa-not-identified", RAMP_SUBJECT, shown)
    elif fit.preferred is ScalabilityModel.USL and fit.users_at_peak is not None:
        highest = outcome.points[-1].level
        if fit.users_at_peak.value > highest:
            shown = states(maximum=fit.users_at_peak.value, highest=highest)
            yield make_finding("usl-extrapolated", RAMP_SUBJECT, shown)


def _change_findings(outcome: RampOutcome) -> Iterator[Finding]:
    change = outcome.change
    if change is None or not change.p < types.DRIFT_P:
        return
    if max(change.scatter, abs(change.share)) < types.RELEVANT_CHANGE:
        return
    shown = states(
        "repeats" if outcome.goal.repeats > 1 else "control",
        change=Figure(change.share, "+%"),
        scatter=Figure(change.scatter, "%"),
        p=p_text(change.p),
    )
    yield make_finding("drift", RAMP_SUBJECT, shown)


def _noise_findings(outcome: RampOutcome) -> Iterator[Finding]:
    levels = outcome.levels
    if any(level.variance is None for level in levels):
        unknown = ", ".join(f"{level.level:g}" for level in levels if level.variance is None)
        evidence = (
            f"at {unknown}: no series has the operations of each second, and no level was run twice"
        )
        yield make_finding("throughput-noise-unknown", RAMP_SUBJECT, evidence)
        return
    again = _repetitions(levels)
    if levels and again < types.FEWEST_REPETITIONS:
        once = "each level was run once: intervals contain only the noise within a run"
        shown = states(trials=again + len(levels), again=again)
        yield make_finding("single-runs", RAMP_SUBJECT, shown if again else once)


def _trial_findings(outcome: RampOutcome, history: Sequence[LoadTrial]) -> Iterator[Finding]:
    failed = [trial for trial in history if trial.ending is LoadEnding.FAILED]
    last = history[-1:] and history[-1].ending is LoadEnding.FAILED
    again = len(failed) - (2 if outcome.status is RampStatus.FAILED and last else 0)
    if again > 0:
        shown = states(again=again, trials=len(history))
        yield make_finding("probe-failed", RAMP_SUBJECT, shown)
    for finding in mark_findings(history, RAMP_SUBJECT):
        is_meant = outcome.goal.axis is RampAxis.USERS
        if not (is_meant and finding.code == CLOSED_LOOP_MARK):
            yield finding
