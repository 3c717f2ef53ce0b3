"""The controller of a comparison: run another block, or stop.

`decide_comparison` is a pure function of the rule and the history, so that a simulation, a resumed
session and a live session make the same decisions. Below it: the verdict for each judged metric of
each candidate, the outcome of each gate, and the order of the arms in a block. Decision: looks are
between blocks, not between trials: at each look every arm has run equally often. Sources:
decide/precision.py; tests/calibration/test_compare.py measures the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from benchwright.core.comparison import ComparisonDesign, ComparisonRule, Gate, GateOutcome, Verdict
from benchwright.core.plan import ReplicatePath, RunMore, StopDecision, UntilPrecise
from benchwright.core.text import list_text, plural, replicates_text
from benchwright.decide.compare.evidence import ComparisonHistory, MetricEvidence, ratio_name
from benchwright.decide.compare.intervals import log_ratio_interval, p_value, planned_size
from benchwright.stats import special
from benchwright.stats.dependence import MIN_VALUES_FOR_DEPENDENCE

QuestionState = Literal["open", "settled", "answered"]
"""`settled`: no further block would answer the questions that are open."""


class NextBlock(msgspec.Struct, frozen=True):
    """Run these arms, in this order, then decide again."""

    order: tuple[int, ...]
    path: ReplicatePath = ()
    """The replicate in which it runs."""


def decide_comparison(rule: ComparisonRule, history: ComparisonHistory) -> NextBlock | StopDecision:
    """Return what to do next, given the outcomes so far; depends on nothing else."""
    replicate = None if rule.replication is None else _next_replicate(rule, history)
    if rule.replication is not None and rule.replication.only is not None:
        # The whole comparison is judged where all its replicates are.
        from benchwright.core.replication import trials_before

        if isinstance(replicate, StopDecision):
            return replicate
        assert replicate is not None
        before = trials_before(rule.replication, rule.warmup)
        return NextBlock(block_order(rule, before + history.run), replicate.path)
    order = block_order(rule, history.run)
    stop = _decided_stop(rule, history, replicate)
    if stop is not None:
        return stop
    return NextBlock(order, replicate.path if isinstance(replicate, RunMore) else ())


def _next_replicate(rule: ComparisonRule, history: ComparisonHistory) -> RunMore | StopDecision:
    """Return the replicate of the next block, or why the comparison stops."""
    # Few comparisons replicate anything.
    from benchwright.decide.replicated import next_block

    assert rule.replication is not None
    quantile = special.normal_quantile(1 - rule.level / 2)
    least = math.log1p(rule.margin) * quantile / (quantile + special.normal_quantile(rule.power))
    return next_block(
        rule.replication,
        history.outcomes,
        UntilPrecise(
            least,
            tuple(map(ratio_name, judged_pairs(rule))),
            minimum=rule.blocks_for_sameness,
            maximum=rule.maximum,
            max_time_ns=rule.max_time_ns,
            confidence=rule.confidence,
        ),
    )


def _decided_stop(
    rule: ComparisonRule, history: ComparisonHistory, replicate: RunMore | StopDecision | None
) -> StopDecision | None:
    """Return why the comparison stops, or None. `replicate`: what its levels of replication want."""
    total = history.blocks + history.failed
    if not total:
        return None
    if history.failed >= history.blocks + max(rule.minimum, 10):
        detail = f"a trial failed in {history.failed} of {total} blocks"
        return StopDecision("failed", detail, answered=False, looks=_looks(rule, history))
    if rule.paired and rule.stored is None and (absent := _absent(rule, history)):
        detail = f"no arm has {list_text(absent)} in {plural(history.blocks, 'block')}"
        if "instructions" in absent:
            detail += "; --instructions counts them"
        return StopDecision("missing", detail, answered=False)
    if rule.stored is None and not rule.paired:
        return _ended("count", rule, history)
    if isinstance(replicate, StopDecision):
        reason = replicate.reason if replicate.reason in _REASONS else "max-blocks"
        return _ended(reason, rule, history)
    if replicate is not None:
        return _out_of_time(rule, history)
    if rule.exactly is not None:
        if total >= rule.exactly:
            return _ended("count", rule, history)
        return _out_of_time(rule, history)
    if rule.mode == "plan" or rule.stored is not None:
        if _plan_fulfilled(rule, history):
            return _ended("planned", rule, history)
    elif history.blocks >= rule.minimum and _question_state(rule, history) != "open":
        return _ended("answered", rule, history)
    if total >= rule.maximum:
        return _ended("max-blocks", rule, history)
    return _out_of_time(rule, history)


def _absent(rule: ComparisonRule, history: ComparisonHistory) -> list[str]:
    """Return the judged metrics that no trial of any arm has, from the first block on."""
    judged = [metric.name for metric in rule.metrics if metric.judged]
    found = []
    for name in judged:
        own = [evidence for (known, _), evidence in history.evidence.items() if known == name]
        if history.blocks and all(one.absent == history.blocks for one in own):
            found.append(name)
    return found


def _out_of_time(rule: ComparisonRule, history: ComparisonHistory) -> StopDecision | None:
    """Return the stop at the time limit, or None. The limit is reached when a block of the mean
    duration so far would end after it."""
    if rule.max_time_ns is None:
        return None
    left = rule.max_time_ns - history.duration_ns
    if left > 0 and left * history.run >= history.duration_ns:
        return None
    return _ended("max-time", rule, history)


_REASONS = {
    "answered": "every question is answered",
    "planned": "the planned number",
    "count": "as requested",
    "precise": "the interval is narrow enough",
    "max-blocks": "the maximum",
    "max-time": "the time is used up",
}


def _ended(reason: str, rule: ComparisonRule, history: ComparisonHistory) -> StopDecision:
    why = _REASONS[reason]
    state = _question_state(rule, history)
    has_floor = rule.exactly is not None and history.blocks >= rule.minimum
    if state == "settled":
        reason, why = "unanswerable", "and no more would answer the rest"
    return StopDecision(
        reason,
        f"{count_text(rule, history)}, {why}",
        answered=state == "answered" or has_floor,
        looks=_looks(rule, history),
    )


def count_text(rule: ComparisonRule, history: ComparisonHistory) -> str:
    """Return the number of blocks or trials as text: `24 blocks (1 failed)`, `30 trials of each
    arm`."""
    count = history.blocks
    if rule.paired:
        text = plural(count, "block")
    else:
        text = f"{plural(count, 'trial')} of each arm"
        if rule.stored is not None:
            text = text.replace("each arm", "the candidate")
    if rule.replication is not None:
        level = rule.replication.levels[0].kind
        text += f" in {replicates_text(len({one.path[0] for one in history.outcomes}), level)}"
    return f"{text} ({history.failed} failed)" if history.failed else text


def _looks(rule: ComparisonRule, history: ComparisonHistory) -> int:
    if rule.mode == "plan" or not rule.paired or rule.exactly is not None:
        return 1
    return max(0, history.blocks - rule.minimum + 1)


# -- whether the questions are answered --------------------------------------------------


def _plan_fulfilled(rule: ComparisonRule, history: ComparisonHistory) -> bool:
    """Return whether every judged pair that can be answered has all the blocks that it needs."""
    pairs = judged_pairs(rule)
    if history.blocks < rule.minimum:
        return False
    for pair in pairs:
        evidence = history.evidence[pair]
        if why_unanswerable(rule, history, evidence):
            continue
        need = planned_size(rule, evidence, len(pairs))
        if need is None or evidence.n < need:
            return False
    return True


def _question_state(rule: ComparisonRule, history: ComparisonHistory) -> QuestionState:
    """Return whether the questions are answered, gates included.

    The cheap test comes first, because this is computed after every block.
    """
    pairs = judged_pairs(rule)
    waiting = [p for p in pairs if not why_unanswerable(rule, history, history.evidence[p])]
    limit = math.log1p(rule.margin)
    for pair in waiting:
        interval = log_ratio_interval(rule, history.evidence[pair])
        if not (interval.excludes_zero or interval.within(limit)):
            return "open"
    verdicts = verdicts_of(rule, history)
    if any(verdicts[pair].verdict is Verdict.UNDECIDED for pair in waiting):
        return "open"
    for gate in gates_of(rule, history):
        if gate.outcome is GateOutcome.UNDECIDED and gate.pair in waiting:
            return "open"
    return "answered" if waiting == pairs else "settled"


# -- verdicts and gates from the evidence so far ---------------------------------------
#
# Decision: a verdict requires that the interval and the adjusted P-value agree. Equivalence
# within the margin takes precedence over a difference, because a difference within the margin
# does not matter. There is no verdict before the minimum number of blocks, because a few blocks
# may agree by chance.
# Sources: S. Holm 1979; Y. Benjamini and Y. Hochberg 1995 (stats/input_comparison.py).

ComparedPair = tuple[str, int]
"""A metric's name and a candidate's index among the arms."""


CONSTANT_FROM = 10
"""Constant ratios are called different only with at least this many: fewer may be constant
by chance, and then an interval of width 0 is no evidence."""


class JudgedGate(msgspec.Struct, frozen=True):
    """The outcome of a gate for one pair."""

    gate: Gate
    pair: ComparedPair
    outcome: GateOutcome


def judged_pairs(rule: ComparisonRule) -> list[ComparedPair]:
    """Return the questions: each judged metric of each candidate."""
    return [
        (metric.name, place)
        for metric in rule.metrics
        if metric.judged
        for place in range(1, rule.arms)
    ]


def why_unanswerable(
    rule: ComparisonRule, history: ComparisonHistory, evidence: MetricEvidence
) -> str:
    """Return why no further block would answer a question; empty where one may."""
    if evidence.unfit:
        return (
            f"{evidence.unfit} {_unit(evidence)} with a value that is not positive: "
            "there is no ratio"
        )
    nothing = not (evidence.baseline.n and evidence.candidate.n)
    never = evidence.absent == history.blocks
    if nothing and history.blocks and (never or history.blocks >= rule.minimum):
        if not evidence.paired:
            return "the metric is missing in all trials of an arm"
        return f"the metric is missing in all of {history.blocks} blocks"
    return ""


def _unit(evidence: MetricEvidence) -> str:
    what = "block" if evidence.paired else "trial"
    return what if evidence.unfit == 1 else f"{what}s"


class PairVerdict(msgspec.Struct, frozen=True):
    """The answer to a question, by the evidence so far."""

    verdict: Verdict
    p_adjusted: float


class OtherQuestions(msgspec.Struct, frozen=True):
    """The P-values of other comparisons that are judged together with one, before adjustment."""

    verdicts: tuple[float, ...] = ()
    gates: tuple[float, ...] = ()


ALONE = OtherQuestions()
"""Nothing is judged together with a comparison."""


def questions_of(rule: ComparisonRule, history: ComparisonHistory) -> OtherQuestions:
    """Return the P-values of a comparison's own verdicts and gates, before adjustment."""
    return OtherQuestions(_p_values(rule, history), _gate_p_values(rule, history))


def _p_values(rule: ComparisonRule, history: ComparisonHistory) -> tuple[float, ...]:
    return tuple(_p_value(rule, history.evidence[pair]) for pair in judged_pairs(rule))


def _gate_p_values(rule: ComparisonRule, history: ComparisonHistory) -> tuple[float, ...]:
    return tuple(
        _p_value(rule, history.evidence[pair], gate_limit(rule, gate))
        for gate, pair in _gated_pairs(rule)
    )


def verdicts_of(
    rule: ComparisonRule, history: ComparisonHistory, others: OtherQuestions = ALONE
) -> dict[ComparedPair, PairVerdict]:
    """Return the verdict of every judged pair."""
    pairs = judged_pairs(rule)
    adjusted = _adjusted(rule, _p_values(rule, history), others.verdicts)
    return {
        pair: PairVerdict(_verdict(rule, history, pair, p), p)
        for pair, p in zip(pairs, adjusted, strict=True)
    }


def _p_value(rule: ComparisonRule, evidence: MetricEvidence, null: float = 0.0) -> float:
    """Return the P-value before adjustment; 1 where there is no ratio, because the positive
    values show nothing about the others."""
    return 1.0 if evidence.unfit else p_value(rule, evidence, null)


def _adjusted(
    rule: ComparisonRule, p_values: Sequence[float], others: Sequence[float]
) -> Sequence[float]:
    """Return the P-values adjusted for their number, with the others: by Holm where a gate may fail
    a build, by Benjamini and Hochberg where only a table is printed."""
    every = [*p_values, *others]
    if len(every) < 2:
        return p_values
    from benchwright.stats.input_comparison import benjamini_hochberg, holm

    adjusted = (holm if rule.gates else benjamini_hochberg)(every)
    return [float(p) for p in adjusted[: len(p_values)]]


def adjustment(rule: ComparisonRule, others: OtherQuestions = ALONE) -> str:
    """Return the name of the adjustment."""
    if len(judged_pairs(rule)) + len(others.verdicts) < 2:
        return "none"
    return "holm" if rule.gates else "benjamini-hochberg"


def _verdict(
    rule: ComparisonRule, history: ComparisonHistory, pair: ComparedPair, p_adjusted: float
) -> Verdict:
    evidence = history.evidence[pair]
    if evidence.n < rule.minimum or why_unanswerable(rule, history, evidence):
        return Verdict.UNDECIDED
    interval = log_ratio_interval(rule, evidence)
    if interval.within(math.log1p(rule.margin)) and may_rule_out(rule, evidence):
        return Verdict.EQUIVALENT
    if not interval.half and evidence.n < CONSTANT_FROM:
        return Verdict.UNDECIDED
    if not interval.excludes_zero or p_adjusted > rule.level:
        return Verdict.UNDECIDED
    worse = (interval.center > 0) is (_better(rule, pair[0]) == "lower")
    return Verdict.SLOWER if worse else Verdict.FASTER


def may_rule_out(rule: ComparisonRule, evidence: MetricEvidence) -> bool:
    """Return whether there are enough trials to rule a difference out: fewer may all miss a slow
    mode."""
    if rule.paired:
        return evidence.n >= rule.blocks_for_sameness
    return rule.rare is None or trials_of_each(evidence) >= rule.rare.trials


def trials_of_each(evidence: MetricEvidence) -> int:
    """Return how many trials the arm with fewer has, of those with a positive value."""
    return min(evidence.baseline.n, evidence.candidate.n)


def _better(rule: ComparisonRule, name: str) -> str:
    return next(metric.better for metric in rule.metrics if metric.name == name)


def gates_of(
    rule: ComparisonRule, history: ComparisonHistory, others: OtherQuestions = ALONE
) -> list[JudgedGate]:
    """Return the outcome of every gate for every candidate.

    A gate fails when the whole interval lies beyond its limit and the P-value of the
    limit, adjusted over all gates and candidates, agrees.
    """
    pairs = _gated_pairs(rule)
    adjusted = _adjusted(rule, _gate_p_values(rule, history), others.gates)
    return [
        JudgedGate(gate, pair, _outcome(rule, history, JudgedLimit(gate, pair, p)))
        for (gate, pair), p in zip(pairs, adjusted, strict=True)
    ]


def _gated_pairs(rule: ComparisonRule) -> list[tuple[Gate, ComparedPair]]:
    there = {metric.name for metric in rule.metrics}
    return [
        (gate, (gate.metric, place))
        for gate in rule.gates
        if gate.metric in there
        for place in range(1, rule.arms)
    ]


class JudgedLimit(msgspec.Struct, frozen=True):
    """A gate for one pair, with the adjusted P-value of its limit."""

    gate: Gate
    pair: ComparedPair
    p_adjusted: float


def too_few_to_see_dependence(evidence: MetricEvidence) -> bool:
    """Return whether unpaired arms have too few trials to show whether neighbouring trials
    depend on each other; then no gate is decided."""
    return not evidence.paired and trials_of_each(evidence) < MIN_VALUES_FOR_DEPENDENCE


def gate_limit(rule: ComparisonRule, gate: Gate) -> float:
    """Return the log ratio beyond which, away from 0, the gate fails."""
    size = math.log1p(gate.share)
    up = (gate.direction == "slower") is (_better(rule, gate.metric) == "lower")
    return size if up else -size


def _outcome(rule: ComparisonRule, history: ComparisonHistory, judged: JudgedLimit) -> GateOutcome:
    evidence, limit = history.evidence[judged.pair], gate_limit(rule, judged.gate)
    if evidence.n < rule.minimum or why_unanswerable(rule, history, evidence):
        return GateOutcome.UNDECIDED
    if too_few_to_see_dependence(evidence):
        return GateOutcome.UNDECIDED
    interval = log_ratio_interval(rule, evidence)
    constant = not interval.half
    if math.isnan(interval.half) or (constant and evidence.n < CONSTANT_FROM):
        return GateOutcome.UNDECIDED
    upwards = limit > 0
    fails = interval.low > limit if upwards else interval.high < limit
    if fails and judged.p_adjusted <= rule.level:
        return GateOutcome.FAILED
    passes = interval.high <= limit if upwards else interval.low >= limit
    if passes and may_rule_out(rule, evidence):
        return GateOutcome.PASSED
    return GateOutcome.UNDECIDED


# -- the order in which the arms of a block run ----------------------------------------
#
# The order depends only on the seed and the block's number, so that a resumed comparison continues
# in the same order. Decision: every design begins its blocks at random. With a fixed order a
# machine that is slow at every second trial (at every fourth with ABBA) is a difference between the
# arms, in all comparisons. Source: R. A. Fisher 1935, The Design of Experiments, on randomised
# blocks; ABBA cancels a linear drift within a block.


def block_order(rule: ComparisonRule, block: int) -> tuple[int, ...]:
    """Return the indexes of the arms to run in block `block`, counted from 0.

    A sequence is one block that contains all trials. A stored baseline does not run.
    """
    if rule.stored is not None:
        return tuple(range(1, rule.arms))
    assert rule.design is not ComparisonDesign.STORED, "what is stored does not run"
    if rule.design is ComparisonDesign.SEQUENCE:
        each = rule.warmup + rule.maximum
        return tuple(arm for arm in range(rule.arms) for _ in range(each))
    shuffled = _shuffled(rule.arms, rule.seed, block)
    match rule.design:
        case ComparisonDesign.BLOCKS:
            return shuffled
        case ComparisonDesign.ABBA:
            return shuffled + shuffled[::-1]
    return tuple((shuffled[0] + arm) % rule.arms for arm in range(rule.arms))


@lru_cache(maxsize=65536)
def _shuffled(arms: int, seed: int, block: int) -> tuple[int, ...]:
    # Stored sessions depend on numpy's generator. The import is lazy: a run of one command
    # does not need it.
    from benchwright.core.numeric import np

    order = np.random.default_rng([seed, block]).permutation(arms)
    return tuple(int(arm) for arm in order)
