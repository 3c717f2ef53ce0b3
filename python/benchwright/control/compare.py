"""A comparison's controller: run another block, or stop.

Purpose: `decide_comparison`, a pure function of the rule and the history, so that a
simulation of thousands of comparisons, a resume and a live session take the same
decisions. Decision: blocks, not trials, are what is decided about: between two looks
every arm has run equally often. What the evidence says is in compare_verdict.py.
Source: figures in tests/calibration/test_compare.py; control/stein.py.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from benchwright.control.compare_history import ComparisonHistory
from benchwright.control.compare_reading import planned, reading
from benchwright.control.compare_verdict import (
    gates_of,
    judged_pairs,
    unanswerable,
    verdicts_of,
)
from benchwright.control.design import block_order
from benchwright.model.comparison import ComparisonRule, Outcome, Verdict
from benchwright.model.decision import Stop

State = Literal["open", "settled", "answered"]
"""`settled`: what is still open, no further block would answer."""


class NextBlock(msgspec.Struct, frozen=True):
    """Run these arms, in this order, then ask again."""

    order: tuple[int, ...]


def decide_comparison(
    rule: ComparisonRule, history: ComparisonHistory
) -> NextBlock | Stop:
    """Return what to do next, given the outcomes so far; without memory or chance."""
    stop = _stop(rule, history)
    return NextBlock(block_order(rule, history.run)) if stop is None else stop


def _stop(rule: ComparisonRule, history: ComparisonHistory) -> Stop | None:
    total = history.blocks + history.failed
    if not total:
        return None
    if history.failed >= history.blocks + max(rule.minimum, 10):
        detail = f"a trial failed in {history.failed} of {total} blocks"
        return Stop("failed", detail, answered=False, looks=_looks(rule, history))
    if rule.stored is None and not rule.paired:
        return _ended("count", rule, history)
    if rule.exactly is not None:
        return _ended("count", rule, history) if total >= rule.exactly else None
    if rule.mode == "plan" or rule.stored is not None:
        if _plan_fulfilled(rule, history):
            return _ended("planned", rule, history)
    elif history.blocks >= rule.minimum and _state(rule, history) != "open":
        return _ended("answered", rule, history)
    if total >= rule.maximum:
        return _ended("max-blocks", rule, history)
    return _out_of_time(rule, history)


def _out_of_time(rule: ComparisonRule, history: ComparisonHistory) -> Stop | None:
    """A block is not begun that, at the mean duration so far, would end too late."""
    if rule.max_time_ns is None:
        return None
    left = rule.max_time_ns - history.duration_ns
    if left > 0 and left * history.run >= history.duration_ns:
        return None
    return _ended("max-time", rule, history)


_WHY = {
    "answered": "every question is answered",
    "planned": "the planned number",
    "count": "as asked for",
    "max-blocks": "the most allowed",
    "max-time": "the time is spent",
}


def _ended(reason: str, rule: ComparisonRule, history: ComparisonHistory) -> Stop:
    why = _WHY[reason]
    state = _state(rule, history)
    if state == "settled":
        reason, why = "unanswerable", "and no more would answer what is left"
    return Stop(
        reason,
        f"{count_text(rule, history)}, {why}",
        answered=rule.exactly is not None or state == "answered",
        looks=_looks(rule, history),
    )


def count_text(rule: ComparisonRule, history: ComparisonHistory) -> str:
    """Return how much was run: `24 blocks (1 failed)`, `30 trials of each arm`."""
    count = history.blocks
    if rule.paired:
        text = f"{count} block{'' if count == 1 else 's'}"
    else:
        text = f"{count} trial{'' if count == 1 else 's'} of each arm"
        if rule.stored is not None:
            text = text.replace("each arm", "the candidate")
    return f"{text} ({history.failed} failed)" if history.failed else text


def _looks(rule: ComparisonRule, history: ComparisonHistory) -> int:
    if rule.mode == "plan" or not rule.paired or rule.exactly is not None:
        return 1
    return max(0, history.blocks - rule.minimum + 1)


# -- whether the questions are answered --------------------------------------------------


def _plan_fulfilled(rule: ComparisonRule, history: ComparisonHistory) -> bool:
    """Tell whether every judged pair that can be answered has the blocks it needs."""
    pairs = judged_pairs(rule)
    if history.blocks < rule.minimum:
        return False
    for pair in pairs:
        evidence = history.evidence[pair]
        if unanswerable(rule, history, evidence):
            continue
        need = planned(rule, evidence, len(pairs))
        if need is None or evidence.n < need:
            return False
    return True


def _state(rule: ComparisonRule, history: ComparisonHistory) -> State:
    """Return where the questions stand, gates included.

    The cheap question comes first: this is asked after every block.
    """
    pairs = judged_pairs(rule)
    waiting = [p for p in pairs if not unanswerable(rule, history, history.evidence[p])]
    limit = math.log1p(rule.margin)
    for pair in waiting:
        found = reading(rule, history.evidence[pair])
        if not (found.excludes_zero or found.within(limit)):
            return "open"
    verdicts = verdicts_of(rule, history)
    if any(verdicts[pair][0] is Verdict.UNDECIDED for pair in waiting):
        return "open"
    for gate in gates_of(rule, history):
        if gate.outcome is Outcome.UNDECIDED and gate.pair in waiting:
            return "open"
    return "answered" if waiting == pairs else "settled"
