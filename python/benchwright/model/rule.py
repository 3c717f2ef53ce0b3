"""A stopping rule in words: one wording for plans, progress and reports."""

from __future__ import annotations

from benchwright.model.comparison import ComparisonRule
from benchwright.model.plan import (
    FixedCount,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
)


def describe_comparison(rule: ComparisonRule) -> str:
    """Return in words how a comparison is run, and what ends it."""
    names = ", ".join(metric.name for metric in rule.metrics if metric.judged)
    if rule.exactly is not None:
        return f"{rule.exactly} {rule.design} of a command against itself"
    if not rule.paired and rule.stored is None:
        return f"sequence: {rule.maximum} trials of each arm, one after the other"
    what = "trials" if rule.stored is not None else f"blocks ({rule.design})"
    looks = "planned by a pilot" if rule.mode == "plan" else "watched"
    limit = (
        "" if rule.max_time_ns is None else f", at most {rule.max_time_ns / 1e9:g} s"
    )
    return (
        f"{rule.minimum} to {rule.maximum} {what}, {looks}, until {names} is faster, "
        f"slower or within {100 * rule.margin:g} %{limit}"
    )


def describe_rule(rule: StoppingRule) -> str:
    """Return a stopping rule in words."""
    if isinstance(rule, FixedCount):
        return f"{rule.count} epoch{'' if rule.count == 1 else 's'}"
    if isinstance(rule, UntilPrecise):
        return _precise(rule)
    words = f"{rule.minimum} epochs, then {rule.increment} more at a time until "
    if isinstance(rule, UntilPredicate):
        most = "" if rule.maximum is None else f", at most {rule.maximum} epochs"
        return f"{words}{rule.predicate}{most}"
    return f"{words}`{rule.command.text}` exits with 0"


def _precise(rule: UntilPrecise) -> str:
    of = "" if rule.share is None else f"the {rule.statistic} of "
    looks = "" if rule.mode == "plan" else ", watched"
    words = (
        f"until {of}{', '.join(rule.metrics)} within ±{100 * rule.target:g} % at "
        f"{100 * rule.confidence:g} % confidence{looks}, "
        f"{rule.minimum} to {rule.maximum} epochs"
    )
    if rule.max_time_ns is None:
        return words
    return f"{words}, at most {rule.max_time_ns / 1e9:g} s"
