"""The stopping rules of a test: run more epochs, ask a program, or stop.

`decide` is one pure function of the rule and the history for all four stopping rules;
`main_metric` and `current_estimate` choose the figure of a test; `progress_of` returns how far
it is from its end.
Decision: rules decide only at fixed epoch counts, so a decision does not depend on how the
epochs were divided into batches, even if the launcher ended a batch early.
A failed epoch counts towards every limit and is in no series.
Sources: Auto-pilot paper, section 3.1 (TEST); decide/precision.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, assert_never

import msgspec

from benchwright.core.plan import (
    AskProgram,
    Decision,
    FixedCount,
    MetricSpec,
    Replicated,
    ReplicatePath,
    RunMore,
    StopDecision,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.results import Estimate
from benchwright.core.text import plural
from benchwright.decide.history import History, missing_text, watched_summaries
from benchwright.stats.aggregate import MetricRules, evaluate_predicate, parse_predicate
from benchwright.stats.intervals import t_interval, unless_too_equal


def decide(rule: StoppingRule, history: History) -> Decision:
    """Return what to do next, given the outcomes so far.

    Depends on nothing but the arguments. Raises InputError for a predicate that does not
    parse; a suite's predicates are checked before anything runs.
    """
    match rule:
        case FixedCount():
            return _decide_fixed(rule, history)
        case UntilPredicate():
            return _decide_predicate(rule, history)
        case UntilProgram():
            return _decide_program(rule, history)
        case UntilPrecise():
            # Only this rule needs numpy.
            from benchwright.decide.precision import decide_precise

            return decide_precise(rule, history)
        case Replicated():
            from benchwright.decide.replicated import decide_replicated

            return decide_replicated(rule, history)
        case _:  # pragma: no cover
            assert_never(rule)


def _decide_fixed(rule: FixedCount, history: History) -> Decision:
    left = rule.count - history.epochs
    if left > 0:
        return RunMore(left)
    if rule.count > 0 and not history.trials:
        return _stop_all_failed(history)
    if absent := [name for name in history.metrics if not history.series.get(name)]:
        detail = missing_text(absent, history)
        return StopDecision("missing", detail, answered=False)
    return StopDecision("count", f"{epochs_text(history)}, as requested")


def _decide_predicate(rule: UntilPredicate, history: History) -> Decision:
    looks = LookSchedule(rule.minimum, rule.increment, rule.maximum)
    left = looks.epochs_to_next(history.epochs)
    if left:
        return RunMore(left)
    if not history.trials:
        return _stop_all_failed(history)
    taken = looks.taken(history.epochs)
    summaries = watched_summaries(history)
    if absent := [summary.label for summary in summaries if not summary.count]:
        detail = missing_text(absent, history)
        return StopDecision("missing", detail, answered=False, looks=taken)
    predicate = parse_predicate(rule.predicate)
    if evaluate_predicate(predicate, summaries):
        names = ", ".join(summary.label for summary in summaries)
        detail = f"the predicate holds for {names} after {epochs_text(history)}"
        return StopDecision("predicate", detail, looks=taken)
    if rule.maximum is not None and history.epochs >= rule.maximum:
        detail = f"the predicate does not hold after {epochs_text(history)}, the maximum"
        return StopDecision("max-runs", detail, answered=False, looks=taken)
    if _hopeless(history, rule.minimum):
        return _stop_mostly_failed(history, taken)
    return RunMore(looks.step(history.epochs))


def _decide_program(rule: UntilProgram, history: History) -> Decision:
    looks = LookSchedule(rule.minimum, rule.increment, None)
    left = looks.epochs_to_next(history.epochs)
    if left:
        return RunMore(left)
    if not history.trials:
        return _stop_all_failed(history)
    answers = dict(history.program_answers)
    taken = len(answers)
    status = answers.get(history.epochs)
    if status is None:
        return AskProgram()
    if status == 0:
        detail = f"`{rule.command.text}` exited with 0 after {epochs_text(history)}"
        return StopDecision("program", detail, looks=taken)
    if _hopeless(history, rule.minimum):
        return _stop_mostly_failed(history, taken)
    return RunMore(looks.step(history.epochs))


def _hopeless(history: History, patience: int) -> bool:
    """Return whether a rule without a maximum must end because most epochs fail: failed
    trials exceed completed ones by at least `patience`, and by at least 10."""
    return history.failed >= history.trials + max(patience, 10)


def _stop_all_failed(history: History) -> StopDecision:
    detail = f"all {history.failed} trials failed: there is nothing to estimate"
    return StopDecision("failed", detail, answered=False)


def _stop_mostly_failed(history: History, looks: int) -> StopDecision:
    detail = f"{history.failed} of {history.epochs} trials failed"
    return StopDecision("failed", detail, answered=False, looks=looks)


def epochs_text(history: History) -> str:
    """Return the number of epochs as text, with the number of failed ones."""
    text = plural(history.epochs, "trial")
    return f"{text} ({history.failed} failed)" if history.failed else text


# -- looks of an Auto-pilot rule: at the minimum, then after every increment -----------------------


class LookSchedule(msgspec.Struct, frozen=True):
    """The fixed epoch counts at which the rule decides."""

    minimum: int
    increment: int
    maximum: int | None = None

    def epochs_to_next(self, epochs: int) -> int:
        """Return the number of epochs until the next look; 0 at a look."""
        first = max(self.minimum, 1)
        if self.maximum is not None and epochs >= self.maximum:
            return 0
        if epochs < first:
            return self._within(epochs, first - epochs)
        over = (epochs - first) % self.step_size
        return self._within(epochs, self.step_size - over) if over else 0

    def step(self, epochs: int) -> int:
        """Return how many epochs to run after a look that did not end the test."""
        return self._within(epochs, self.step_size)

    def taken(self, epochs: int) -> int:
        """Return the number of looks so far, including one at `epochs`."""
        first = max(self.minimum, 1)
        if epochs <= first:
            return 1
        return 1 - (first - epochs) // self.step_size

    @property
    def step_size(self) -> int:
        """The increment, at least 1."""
        return max(self.increment, 1)

    def _within(self, epochs: int, more: int) -> int:
        if self.maximum is None:
            return more
        return max(min(more, self.maximum - epochs), 1)


# -- the figure of a test --------------------------------------------------------------------------
#
# Decision: every surface (progress, the end of a run, reports, notices) shows the metric and the
# interval chosen here, so that they show the same numbers. The interval is that of the stopping
# rule, because a narrower one would claim more than the rule did.


def main_metric(
    rule: StoppingRule | None, declared: Sequence[str], present: Collection[str]
) -> str | None:
    """Return the metric that a test is about; None if nothing was measured.

    A declared metric comes before the built-in ones if the rule watches it, then the rule's
    first, the first declared, elapsed time, and whatever else is `present`.
    """
    watched = rule.metrics if isinstance(rule, UntilPrecise | Replicated) else ()
    wanted = [name for name in watched if name in declared]
    order = (*wanted, *watched, *declared, "elapsed", *present)
    return next((name for name in order if name in present), None)


def current_estimate(
    rule: StoppingRule | None,
    name: str,
    values: Sequence[float],
    unit: str = "",
    paths: Sequence[ReplicatePath] = (),
) -> Estimate:
    """Return a metric's value with the interval that the rule uses for it, at this moment.

    With the `paths` of replicates, it is about the population of the outermost level. Where the
    rule has none, it is the mean with Student's t interval. The ends are NaN or
    infinite where the values do not bound anything.
    """
    if isinstance(rule, Replicated) and paths:
        # Only this rule needs numpy.
        from benchwright.decide.replicated import nested_of

        nested = nested_of(rule.replication, values, paths, rule.confidence)
        return msgspec.structs.replace(nested.mean, unit=unit)
    if isinstance(rule, UntilPrecise):
        if name in rule.metrics:
            # Only this rule needs numpy.
            from benchwright.decide.precision import estimate_of

            estimate = estimate_of(rule, values)
            return msgspec.structs.replace(estimate, unit=unit)
        return unless_too_equal(t_interval(values, rule.confidence, unit))
    return unless_too_equal(t_interval(values, unit=unit))


# -- progress: only displayed, never used for a decision -------------------------------------------


class TestProgress(msgspec.Struct, frozen=True):
    """How far a test is from its end."""

    fraction: float | None
    """Share of the expected epochs that are done, 0 .. 1; None when unknown."""
    metric: str
    """What is displayed: the test's main metric, such as `elapsed` or `median elapsed`."""
    estimate: Estimate | None
    """Its value and interval at this moment; None before there is a value."""
    target_percent: float | None
    """Target of the half width [%]; None without such a target."""
    expected_total: int | None
    """Epochs expected in total; None when unknown."""
    bound: ProgressBound = "about"
    """What `expected_total` and `left_s` are: the pilot is the least that a test runs; a maximum
    or a time limit is the most."""
    left_s: float | None = None
    """Expected time to the end, from the mean duration of the epochs so far [s]."""


ProgressBound = Literal["about", "at least", "at most"]


def progress_of(
    rule: StoppingRule, history: History, specs: Sequence[MetricSpec] = ()
) -> TestProgress:
    """Return how far a test is from its end under its rule; `specs` are its declared metrics."""
    name = main_metric(rule, history.metrics, history.series)
    estimate = None
    if name is not None:
        unit = MetricRules(specs).row(name).unit
        paths = [o.path for o in history.outcomes if o.values is not None and name in o.values]
        estimate = current_estimate(rule, name, history.series[name], unit, paths)
    total, bound = _expected_total(rule, history)
    left_s = None
    if total is not None and 0 < history.epochs <= total:
        each_s = history.duration_ns / 1e9 / history.epochs
        left_s = each_s * (total - history.epochs)
    if isinstance(rule, UntilPrecise) and rule.max_time_ns is not None:
        limit_s = max(rule.max_time_ns - history.duration_ns, 0) / 1e9
        if left_s is None or (limit_s < left_s and bound != "at least"):
            left_s, bound = limit_s, "at most"
    fraction = None
    if total is not None and bound != "at least":
        fraction = min(history.epochs / total, 1.0) if total else 1.0
    return TestProgress(
        fraction,
        "" if name is None else statistic_label(rule, name),
        estimate,
        _target_percent(rule),
        total,
        bound,
        left_s,
    )


def _target_percent(rule: StoppingRule) -> float | None:
    target = rule.target if isinstance(rule, UntilPrecise | Replicated) else None
    return None if target is None else 100 * target


def out_of_reach(rule: StoppingRule, history: History) -> str:
    """Return why the rule's limits are far from enough for its target, as a sentence; an empty text
    if they may be enough, or if it is too early. Only a rule of precision has such a target."""
    if not isinstance(rule, UntilPrecise):
        return ""
    from benchwright.decide.precision import out_of_reach as out_of_reach_of

    return out_of_reach_of(rule, history)


class TestsProgress(msgspec.Struct, frozen=True):
    """How far the tests of a session are together."""

    number: int
    """Place of the test that ran last, from 1."""
    tests: int
    trials: int
    """Completed and failed ones of all tests."""
    expected_total: int | None
    """Trials of all tests, those that have not started included; None when unknown."""
    elapsed_s: float
    left_s: float | None
    bound: ProgressBound = "about"

    @property
    def fraction(self) -> float | None:
        """Share of the expected trials that are done; None when it is not known."""
        if not self.expected_total or self.bound == "at least":
            return None
        return min(self.trials / self.expected_total, 1.0)


class _Share(msgspec.Struct, frozen=True):
    """What one test contributes; `total` and `left_s` are None when unknown."""

    trials: int
    elapsed_s: float
    total: int | None
    left_s: float | None
    bound: ProgressBound


class TestsTally:
    """Adds up the progress of the tests of a session. A test that has not run yet is expected to
    take as long as the mean of those that have."""

    def __init__(self, tests: int) -> None:
        self._tests = tests
        self._shares: dict[str, _Share] = {}
        self._sums: Counter[str] = Counter()
        """Of the shares, so that a session of many tests does not add them all each time."""
        self._seconds = 0.0
        self._left_s = 0.0

    def put(self, key: str, history: History, progress: TestProgress | None) -> None:
        """Set what a test contributes; without its progress, it has ended."""
        total: int | None = history.epochs
        left_s: float | None = 0.0
        bound: ProgressBound = "about"
        if progress is not None:
            total, left_s = progress.expected_total, progress.left_s
            bound = progress.bound
        share = _Share(history.epochs, history.duration_ns / 1e9, total, left_s, bound)
        before = self._shares.get(key)
        if before is not None:
            self._add(before, -1)
        self._shares[key] = share
        self._add(share, 1)

    def _add(self, share: _Share, sign: int) -> None:
        self._sums["trials"] += sign * share.trials
        self._sums["total"] += sign * (share.total or 0)
        self._sums["without total"] += sign * (share.total is None)
        self._sums["without time"] += sign * (share.left_s is None)
        self._sums[share.bound] += sign
        self._seconds += sign * share.elapsed_s
        self._left_s += sign * (share.left_s or 0)

    def progress(self, number: int) -> TestsProgress:
        """Return how far the tests are; `number` is the place of the one that ran last."""
        sums, scale = self._sums, self._tests / len(self._shares)
        left_s = scale * (self._seconds + self._left_s) - self._seconds
        bounds: list[ProgressBound] = ["at least", "at most"]
        bounds = [bound for bound in bounds if sums[bound]]
        return TestsProgress(
            number,
            self._tests,
            sums["trials"],
            None if sums["without total"] else round(scale * sums["total"]),
            self._seconds,
            None if sums["without time"] else left_s,
            bounds[0] if len(bounds) == 1 else "about",
        )


def statistic_label(rule: StoppingRule | None, name: str) -> str:
    """Return the name of a metric with the statistic that the rule estimates:
    `elapsed`, `median elapsed`."""
    if isinstance(rule, UntilPrecise) and rule.share is not None and name in rule.metrics:
        return f"{rule.statistic} {name}"
    return name


def _expected_total(rule: StoppingRule, history: History) -> tuple[int | None, ProgressBound]:
    match rule:
        case FixedCount():
            return rule.count, "about"
        case UntilPredicate():
            return rule.maximum, "at most"
        case UntilProgram():
            return None, "about"
        case UntilPrecise():
            return _planned_total(rule, history)
        case Replicated():
            from benchwright.decide.replicated import expected_trials

            return expected_trials(rule.replication), "about"
        case _:  # pragma: no cover
            assert_never(rule)


def _planned_total(rule: UntilPrecise, history: History) -> tuple[int | None, ProgressBound]:
    """Return the epochs that a precision rule expects: at least its pilot, then the plan; None for
    a pilot that is as long as its time allows."""
    from benchwright.decide.precision import pilot_size, stages

    metrics = stages(rule, history)
    if not all(stage.pilot_complete for stage in metrics):
        size = pilot_size(rule, history)
        if rule.long_minimum is None or size >= min(rule.minimum, rule.maximum):
            return size, "at least"
        # The size of a pilot that takes long follows the mean duration, which still changes.
        is_known = history.epochs < rule.long_minimum
        return (rule.long_minimum if is_known else None), "at least"
    more = max(rule.maximum if stage.need is None else stage.need - stage.have for stage in metrics)
    return min(rule.maximum, history.epochs + max(more, 0)), "about"
