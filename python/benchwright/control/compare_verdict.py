"""The answers to a comparison's questions, as far as the evidence goes.

Purpose: a verdict for each judged metric of each candidate, an outcome for each gate.
Decision: a verdict needs the interval and the adjusted P-value to agree; equivalence
within the margin goes before a difference, because a difference that nobody would act
on is not an answer. No verdict before the minimum number of blocks, whatever they say:
few blocks that agree by chance are no evidence that they always do.
Sources: S. Holm 1979; Y. Benjamini and Y. Hochberg 1995 (stats/multiplicity.py).
"""

from __future__ import annotations

import math

import msgspec

from benchwright.control.compare_history import ComparisonHistory, Evidence
from benchwright.control.compare_reading import p_value, reading
from benchwright.model.comparison import ComparisonRule, Gate, Outcome, Verdict
from benchwright.stats.autocorrelation import FEWEST

Pair = tuple[str, int]
"""A metric's name and a candidate's place."""


CONSTANT = 10
"""Values that never vary are called different from so many on: fewer may well only seem
not to vary, and an interval of width 0 is no evidence."""


class GateReading(msgspec.Struct, frozen=True):
    """What came of a gate for one pair."""

    gate: Gate
    pair: Pair
    outcome: Outcome


def judged_pairs(rule: ComparisonRule) -> list[Pair]:
    """Return the questions: each judged metric of each candidate."""
    return [
        (metric.name, place)
        for metric in rule.metrics
        if metric.judged
        for place in range(1, rule.arms)
    ]


def unanswerable(
    rule: ComparisonRule, history: ComparisonHistory, evidence: Evidence
) -> str:
    """Return why no further block would answer a question, or nothing."""
    if evidence.unfit:
        return (
            f"{evidence.unfit} {_unit(evidence)} with a value that is not positive: "
            "there is no ratio"
        )
    nothing = not (evidence.baseline.n and evidence.candidate.n)
    if nothing and history.blocks >= rule.minimum:
        if not evidence.paired:
            return "the metric is missing in all trials of an arm"
        return f"the metric is missing in all of {history.blocks} blocks"
    return ""


def _unit(evidence: Evidence) -> str:
    what = "block" if evidence.paired else "trial"
    return what if evidence.unfit == 1 else f"{what}s"


def verdicts_of(
    rule: ComparisonRule, history: ComparisonHistory
) -> dict[Pair, tuple[Verdict, float]]:
    """Return the verdict and the adjusted P-value of every judged pair."""
    pairs = judged_pairs(rule)
    p_values = [_p_value(rule, history.evidence[pair]) for pair in pairs]
    adjusted = _adjusted(rule, p_values)
    return {
        pair: (_verdict(rule, history, pair, p), p)
        for pair, p in zip(pairs, adjusted, strict=True)
    }


def _p_value(rule: ComparisonRule, evidence: Evidence, null: float = 0.0) -> float:
    """Return the P-value for the family: 1 where there is no ratio, because those of the
    values that happen to be positive say nothing of the others."""
    return 1.0 if evidence.unfit else p_value(rule, evidence, null)


def _adjusted(rule: ComparisonRule, p_values: list[float]) -> list[float]:
    """Return the P-values adjusted for their number: Holm where a gate may fail a
    build, Benjamini and Hochberg in a table to read."""
    if len(p_values) < 2:
        return p_values
    from benchwright.stats.multiplicity import benjamini_hochberg, holm

    return [float(p) for p in (holm if rule.gates else benjamini_hochberg)(p_values)]


def adjustment(rule: ComparisonRule) -> str:
    """Return the name of the adjustment."""
    if len(judged_pairs(rule)) < 2:
        return "none"
    return "holm" if rule.gates else "benjamini-hochberg"


def _verdict(
    rule: ComparisonRule, history: ComparisonHistory, pair: Pair, p_adjusted: float
) -> Verdict:
    evidence = history.evidence[pair]
    if evidence.n < rule.minimum or unanswerable(rule, history, evidence):
        return Verdict.UNDECIDED
    found = reading(rule, evidence)
    if found.within(math.log1p(rule.margin)) and _may_be_same(rule, evidence):
        return Verdict.EQUIVALENT
    if not found.half and evidence.n < CONSTANT:
        return Verdict.UNDECIDED
    if not found.excludes_zero or p_adjusted > rule.level:
        return Verdict.UNDECIDED
    worse = (found.center > 0) is (_better(rule, pair[0]) == "lower")
    return Verdict.SLOWER if worse else Verdict.FASTER


def _may_be_same(rule: ComparisonRule, evidence: Evidence) -> bool:
    """Tell whether enough was seen to say that nothing differs."""
    return not rule.paired or evidence.n >= rule.blocks_for_sameness


def _better(rule: ComparisonRule, name: str) -> str:
    return next(metric.better for metric in rule.metrics if metric.name == name)


def gates_of(rule: ComparisonRule, history: ComparisonHistory) -> list[GateReading]:
    """Return what came of every gate for every candidate.

    A gate fails when the whole interval lies beyond its limit, and the P-value of
    the limit itself, adjusted over all gates and candidates, agrees.
    """
    asked = [(gate, place) for gate in rule.gates for place in range(1, rule.arms)]
    limits = [gate_limit(rule, gate) for gate, _ in asked]
    p_values = [
        _p_value(rule, history.evidence[gate.metric, place], limit)
        for (gate, place), limit in zip(asked, limits, strict=True)
    ]
    adjusted = _adjusted(rule, p_values)
    return [
        GateReading(
            gate,
            (gate.metric, place),
            _outcome(rule, history, (gate.metric, place), (limit, p)),
        )
        for (gate, place), limit, p in zip(asked, limits, adjusted, strict=True)
    ]


def too_few_to_see_dependence(evidence: Evidence) -> bool:
    """Tell whether an arm that is not paired has too few trials to show whether
    neighbouring ones depend on each other: then no gate is decided."""
    fewest = min(evidence.baseline.n, evidence.candidate.n)
    return not evidence.paired and fewest < FEWEST


def gate_limit(rule: ComparisonRule, gate: Gate) -> float:
    """Return the log ratio beyond which, away from 0, the gate fails."""
    size = math.log1p(gate.share)
    up = (gate.direction == "slower") is (_better(rule, gate.metric) == "lower")
    return size if up else -size


def _outcome(
    rule: ComparisonRule,
    history: ComparisonHistory,
    pair: Pair,
    limit_and_p: tuple[float, float],
) -> Outcome:
    evidence = history.evidence[pair]
    limit, p = limit_and_p
    if evidence.n < rule.minimum or unanswerable(rule, history, evidence):
        return Outcome.UNDECIDED
    if too_few_to_see_dependence(evidence):
        return Outcome.UNDECIDED
    found = reading(rule, evidence)
    if math.isnan(found.half) or (not found.half and evidence.n < CONSTANT):
        return Outcome.UNDECIDED
    beyond = (found.center - limit) * math.copysign(1, limit)
    if beyond > found.half and p <= rule.level:
        return Outcome.FAILED
    if -beyond < found.half:
        return Outcome.UNDECIDED
    # A difference the other way is one that was seen; no difference needs more.
    other_way = found.excludes_zero and found.center * limit < 0
    if other_way or _may_be_same(rule, evidence):
        return Outcome.PASSED
    return Outcome.UNDECIDED
