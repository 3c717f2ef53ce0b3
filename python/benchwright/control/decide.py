"""The decision after each batch: run more epochs, ask a program, or stop.

Purpose: the four stopping rules behind one pure function of the rule and the history.
Decision: rules act only at fixed points of the epoch count, so it does not matter where
the launcher ended a batch early; a decision never depends on how the history was cut.
An epoch that failed counts towards every limit and is in no series.
Sources: Auto-pilot paper, section 3.1 (TEST), control/precise.py.
"""

from __future__ import annotations

from typing import assert_never

from benchwright.control.history import History
from benchwright.control.looks import Looks
from benchwright.control.precise import decide_precise
from benchwright.control.watched import watched_summaries
from benchwright.model.decision import AskProgram, Decision, RunMore, Stop
from benchwright.model.plan import (
    FixedCount,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.stats.predicate import evaluate_predicate, parse_predicate


def decide(rule: StoppingRule, history: History) -> Decision:
    """Return what to do next, given the outcomes so far.

    Deterministic, without memory of earlier calls. Raises InputError for a predicate
    that does not parse; suites check theirs before anything runs.
    """
    match rule:
        case FixedCount():
            return _fixed(rule, history)
        case UntilPredicate():
            return _predicate(rule, history)
        case UntilProgram():
            return _program(rule, history)
        case UntilPrecise():
            return decide_precise(rule, history)
        case _:  # pragma: no cover
            assert_never(rule)


def _fixed(rule: FixedCount, history: History) -> Decision:
    left = rule.count - history.epochs
    if left > 0:
        return RunMore(left)
    if rule.count > 0 and not history.trials:
        return _all_failed(history)
    if absent := [name for name in history.metrics if not history.series.get(name)]:
        names = ", ".join(absent)
        detail = f"{names} is in none of {history.trials} completed trials"
        return Stop("missing", detail, answered=False)
    return Stop("count", f"{epochs_text(history)}, as asked for")


def _predicate(rule: UntilPredicate, history: History) -> Decision:
    looks = Looks(rule.minimum, rule.increment, rule.maximum)
    left = looks.epochs_to_next(history.epochs)
    if left:
        return RunMore(left)
    if not history.trials:
        return _all_failed(history)
    taken = looks.taken(history.epochs)
    seen = watched_summaries(history)
    if absent := [s.label for s in seen if not s.count]:
        names = ", ".join(absent)
        detail = f"{names} is in none of {history.trials} completed trials"
        return Stop("missing", detail, answered=False, looks=taken)
    predicate = parse_predicate(rule.predicate)
    if evaluate_predicate(predicate, seen):
        names = ", ".join(summary.label for summary in seen)
        detail = f"the predicate holds for {names} after {epochs_text(history)}"
        return Stop("predicate", detail, looks=taken)
    if rule.maximum is not None and history.epochs >= rule.maximum:
        detail = f"the predicate does not hold after {epochs_text(history)}, the most allowed"
        return Stop("max-runs", detail, answered=False, looks=taken)
    if _hopeless(history, rule.minimum):
        return _mostly_failed(history, taken)
    return RunMore(looks.step(history.epochs))


def _program(rule: UntilProgram, history: History) -> Decision:
    looks = Looks(rule.minimum, rule.increment, None)
    left = looks.epochs_to_next(history.epochs)
    if left:
        return RunMore(left)
    if not history.trials:
        return _all_failed(history)
    answers = dict(history.program_answers)
    taken = len(answers)
    status = answers.get(history.epochs)
    if status is None:
        return AskProgram()
    if status == 0:
        detail = f"`{rule.command.text}` exited with 0 after {epochs_text(history)}"
        return Stop("program", detail, looks=taken)
    if _hopeless(history, rule.minimum):
        return _mostly_failed(history, taken)
    return RunMore(looks.step(history.epochs))


def _hopeless(history: History, patience: int) -> bool:
    """A rule without a maximum must end all the same when nearly every epoch fails:
    as soon as failures outnumber completed trials by a whole first stage."""
    return history.failed >= history.trials + max(patience, 10)


def _all_failed(history: History) -> Stop:
    detail = f"all {history.failed} epochs failed: there is nothing to estimate"
    return Stop("failed", detail, answered=False)


def _mostly_failed(history: History, looks: int) -> Stop:
    detail = f"{history.failed} of {history.epochs} epochs failed"
    return Stop("failed", detail, answered=False, looks=looks)


def epochs_text(history: History) -> str:
    """Return the count of epochs in words, with the failed ones named."""
    text = f"{history.epochs} epoch{'' if history.epochs == 1 else 's'}"
    return f"{text} ({history.failed} failed)" if history.failed else text
