"""The answer of a comparison that ended, its progress, and the noise floor of a command compared with itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonProgress,
    ComparisonResult,
    ComparisonRule,
    GateVerdict,
    MetricVerdict,
    NullFloor,
    NullResult,
    Verdict,
)
from benchwright.core.plan import StopDecision
from benchwright.core.results import Estimate
from benchwright.decide.compare.decision import (
    CONSTANT_FROM,
    ComparedPair,
    JudgedGate,
    NextBlock,
    adjustment,
    decide_comparison,
    gate_limit,
    gates_of,
    judged_pairs,
    too_few_to_see_dependence,
    verdicts_of,
    why_unanswerable,
)
from benchwright.decide.compare.evidence import (
    ComparisonBuilder,
    ComparisonHistory,
    Evidence,
    MetricValues,
)
from benchwright.decide.compare.intervals import (
    dependence_factor,
    log_ratio_interval,
    p_value,
    smallest_effect,
)
from benchwright.stats.dependence import MIN_INDEPENDENT, MIN_VALUES_FOR_DEPENDENCE
from benchwright.stats.intervals import sequence_radius
from benchwright.stats.moments import Moments

# -- From the evidence to the comparison's answer: ratios, intervals, words for why ----


def conclude(
    rule: ComparisonRule,
    history: ComparisonHistory,
    names: Sequence[str],
    stop: StopDecision,
    null: NullResult | None = None,
) -> ComparisonResult:
    """Return the comparison's answer; `names` are the arms', the baseline first."""
    verdicts = verdicts_of(rule, history)
    return ComparisonResult(
        arms=tuple(names),
        rule=rule,
        verdicts=tuple(
            _concluded(rule, history, (metric, place), names, verdicts)
            for metric in rule.metrics
            for place in range(1, rule.arms)
        ),
        gates=tuple(
            GateVerdict(
                found.gate,
                names[found.pair[1]],
                found.outcome,
                _gate_detail(rule, history, found),
            )
            for found in gates_of(rule, history)
        ),
        stop=stop,
        blocks=history.blocks,
        failed_blocks=history.failed,
        duration_ns=history.duration_ns,
        null=null,
    )


def _concluded(
    rule: ComparisonRule,
    history: ComparisonHistory,
    asked: tuple[ComparedMetric, int],
    names: Sequence[str],
    verdicts: Mapping[ComparedPair, tuple[Verdict, float]],
) -> MetricVerdict:
    metric, place = asked
    evidence = history.evidence[metric.name, place]
    p = math.nan if evidence.unfit else p_value(rule, evidence)
    verdict, p_adjusted = verdicts.get((metric.name, place), (None, p))
    return MetricVerdict(
        metric=metric.name,
        better=metric.better,
        judged=metric.judged,
        baseline=names[0],
        candidate=names[place],
        n_baseline=evidence.baseline_trials,
        n_candidate=evidence.candidate_trials,
        blocks=evidence.n if evidence.paired else None,
        mean_baseline=_mean(evidence, evidence.baseline),
        mean_candidate=_mean(evidence, evidence.candidate),
        ratio=ratio_estimate(rule, evidence),
        p=p,
        p_adjusted=math.nan if evidence.unfit else p_adjusted,
        adjustment=adjustment(rule) if metric.judged else "none",
        smallest_effect=_smallest_share(rule, evidence, metric),
        verdict=verdict,
        reason=_reason(rule, history, evidence, (verdict, p_adjusted)),
        widened=dependence_factor(evidence),
    )


def _mean(evidence: Evidence, arm: Moments) -> float:
    """Return an arm's geometric mean; NaN where a value is not positive."""
    return math.nan if evidence.unfit else _exp(arm.mean)


def _smallest_share(
    rule: ComparisonRule, evidence: Evidence, metric: ComparedMetric
) -> float:
    """Return the smallest effect as a share; NaN where there is no interval."""
    if evidence.unfit or why_no_interval(rule, evidence):
        return math.nan
    hypotheses = len(judged_pairs(rule)) if metric.judged else 1
    return _exp(smallest_effect(rule, evidence, hypotheses)) - 1


def ratio_estimate(rule: ComparisonRule, evidence: Evidence) -> Estimate:
    """Return the ratio with its interval, of that of its logarithm; NaN where a value is
    not positive, and for the limits where there is no interval yet."""
    found = log_ratio_interval(rule, evidence)
    center = math.nan if evidence.unfit else found.center
    half = math.nan if why_no_interval(rule, evidence) else found.half
    return Estimate(
        _exp(center),
        _exp(center - half),
        _exp(center + half),
        rule.confidence,
        found.method,
        evidence.n,
        "ratio",
    )


def why_no_interval(rule: ComparisonRule, evidence: Evidence) -> str:
    """Return what is missing for an interval: `no interval yet: 5 of at least 10
    blocks`; nothing where there is one."""
    if evidence.paired:
        count, what = evidence.n, "blocks"
    else:
        count, what = min(evidence.baseline.n, evidence.candidate.n), "trials"
    bounded = math.isfinite(log_ratio_interval(rule, evidence).half)
    if evidence.n >= rule.minimum and bounded:
        return ""
    if (which := _too_dependent(evidence)) is not None:
        return (
            f"no interval: neighbouring trials depend on each other so much that "
            f"{which.n} are worth fewer than {MIN_INDEPENDENT} independent ones"
        )
    least = max(rule.minimum, _first_bounded(rule, evidence))
    return f"no interval yet: {count} of at least {least} {what}"


def _too_dependent(evidence: Evidence) -> Moments | None:
    """Return the arm whose trials show too little of their mean, if one does."""
    arms = (evidence.baseline, evidence.candidate)
    for arm, error in zip(arms, evidence.errors(), strict=True):
        if not evidence.paired and arm.n >= 2 and math.isnan(error.degrees):
            return arm
    return None


def _first_bounded(rule: ComparisonRule, evidence: Evidence) -> int:
    """Return from how many on an interval has ends."""
    if not evidence.paired or rule.mode != "watch":
        return 2
    return next(
        n
        for n in itertools.count(2)
        if math.isfinite(sequence_radius(n, rule.confidence))
    )


def _reason(
    rule: ComparisonRule,
    history: ComparisonHistory,
    evidence: Evidence,
    answer: tuple[Verdict | None, float],
) -> str:
    verdict, p_adjusted = answer
    if why := why_unanswerable(rule, history, evidence):
        return why
    if verdict is Verdict.UNDECIDED and (why := why_no_interval(rule, evidence)):
        return why
    if verdict is Verdict.UNDECIDED and rule.level < p_adjusted <= rule.error:
        share = f"{100 * rule.level:.3g} of {100 * rule.error:.3g} %"
        return f"p = {p_adjusted:.2g}: one look spends {share}"
    if evidence.n >= 2 and not log_ratio_interval(rule, evidence).half:
        what = "blocks" if evidence.paired else "trials"
        text = f"constant: the same ratio in all of {evidence.n} {what}"
        if verdict is Verdict.UNDECIDED:
            return f"{text}; called different from {CONSTANT_FROM} on"
        return text
    return ""


def _gate_detail(
    rule: ComparisonRule, history: ComparisonHistory, found: JudgedGate
) -> str:
    evidence = history.evidence[found.pair]
    if why := why_unanswerable(rule, history, evidence):
        return why
    if why := why_no_interval(rule, evidence):
        return why
    if too_few_to_see_dependence(evidence):
        counts = f"{evidence.baseline.n} and {evidence.candidate.n} trials"
        return f"{counts}: at least {MIN_VALUES_FOR_DEPENDENCE} of each show whether trials are independent"
    ratio = ratio_estimate(rule, evidence)
    limit = _exp(gate_limit(rule, found.gate))
    return (
        f"ratio {ratio.value:.4g} ({100 * rule.confidence:g} % interval "
        f"{ratio.low:.4g} to {ratio.high:.4g}), limit {limit:.4g}"
    )


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def comparison_progress(
    rule: ComparisonRule, history: ComparisonHistory, names: Sequence[str]
) -> ComparisonProgress:
    """Return where a comparison stands."""
    ratios = tuple(
        (
            name,
            names[place],
            ratio_estimate(rule, evidence),
        )
        for name, place in judged_pairs(rule)
        for evidence in [history.evidence[name, place]]
    )
    return ComparisonProgress(
        blocks=history.blocks,
        failed=history.failed,
        warming_up=rule.paired and history.run <= rule.warmup,
        maximum=rule.exactly or rule.maximum,
        elapsed_s=history.duration_ns / 1e9,
        ratios=ratios,
    )


# -- What comparing a command with itself tells of the machine -------------------------
#
# Purpose: the noise floor of each metric, and the share of false differences. Decision: the
# latter by relabelling. Within each block, which trial is called the baseline's is drawn
# anew; if the machine is fair every such labelling was as likely as the real one, so the
# share of them that the very rule of a comparison, looking after every block, calls
# different is the rule's false-positive rate on this machine's own noise: its modes, its
# tails, its drift. A theoretical rate lost: it is what should be checked.
# Source: R. A. Fisher 1935, The Design of Experiments, on randomisation tests.

RELABELLINGS = 1000
ComparisonBlock = Sequence[Sequence[MetricValues | None]]
"""Of each arm, the values of its trials in one block."""


def false_positives(rule: ComparisonRule, blocks: Sequence[ComparisonBlock]) -> float:
    """Return the share of relabellings of these blocks that are called different.

    Looked at after every block as a comparison is, up to all of them; the seed is the
    rule's own.
    """
    judged = tuple(metric for metric in rule.metrics if metric.judged)
    rule = msgspec.structs.replace(
        rule, metrics=judged, exactly=None, maximum=max(len(blocks), 1), warmup=0
    )
    rng = np.random.default_rng([rule.seed, RELABELLINGS])
    swaps = rng.random((RELABELLINGS, len(blocks))) < 0.5
    found = sum(_is_different(rule, blocks, row.tolist()) for row in swaps)
    return found / RELABELLINGS


def _is_different(
    rule: ComparisonRule, blocks: Sequence[ComparisonBlock], swaps: Sequence[bool]
) -> bool:
    builder = ComparisonBuilder(rule)
    for block, swap in zip(blocks, swaps, strict=True):
        if not isinstance(decide_comparison(rule, builder.history()), NextBlock):
            break
        builder.add(block[::-1] if swap else block)
    verdicts = verdicts_of(rule, builder.history()).values()
    return any(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict, _ in verdicts)


def noise_floors(comparison: ComparisonResult) -> tuple[NullFloor, ...]:
    """Return the noise floor of each metric of a null comparison, judged or shown."""
    return tuple(
        NullFloor(
            v.metric,
            half_width=_finite(
                v.ratio.high / v.ratio.value - 1 if v.ratio.value else 0
            ),
            noise_floor=_finite(v.smallest_effect),
        )
        for v in comparison.verdicts
    )


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
