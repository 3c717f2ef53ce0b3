"""From the evidence to the comparison's answer: ratios, intervals, words for why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchwright.control.compare_history import ComparisonHistory, Evidence
from benchwright.control.compare_reading import (
    Reading,
    p_value,
    reading,
    smallest_effect,
)
from benchwright.control.compare_verdict import (
    CONSTANT,
    GateReading,
    Pair,
    adjustment,
    gate_limit,
    gates_of,
    judged_pairs,
    unanswerable,
    verdicts_of,
)
from benchwright.model.comparison import (
    ComparedMetric,
    Comparison,
    ComparisonProgress,
    ComparisonRule,
    GateVerdict,
    MetricVerdict,
    NullResult,
    Verdict,
)
from benchwright.model.decision import Stop
from benchwright.model.estimate import Estimate


def conclude(
    rule: ComparisonRule,
    history: ComparisonHistory,
    names: Sequence[str],
    stop: Stop,
    null: NullResult | None = None,
) -> Comparison:
    """Return the comparison's answer; `names` are the arms', the baseline first."""
    verdicts = verdicts_of(rule, history)
    return Comparison(
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
    verdicts: Mapping[Pair, tuple[Verdict, float]],
) -> MetricVerdict:
    metric, place = asked
    evidence = history.evidence[metric.name, place]
    found = reading(rule, evidence)
    p = p_value(rule, evidence)
    verdict, p_adjusted = verdicts.get((metric.name, place), (None, p))
    hypotheses = len(judged_pairs(rule)) if metric.judged else 1
    return MetricVerdict(
        metric=metric.name,
        better=metric.better,
        judged=metric.judged,
        baseline=names[0],
        candidate=names[place],
        n_baseline=evidence.baseline.n,
        n_candidate=evidence.candidate.n,
        blocks=evidence.n if evidence.paired else None,
        mean_baseline=_exp(evidence.baseline.mean),
        mean_candidate=_exp(evidence.candidate.mean),
        ratio=ratio_estimate(found, rule, evidence),
        p=p,
        p_adjusted=p_adjusted,
        adjustment=adjustment(rule) if metric.judged else "none",
        smallest_effect=_exp(smallest_effect(rule, evidence, hypotheses)) - 1,
        verdict=verdict,
        reason=_reason(rule, history, evidence, (verdict, p_adjusted)),
    )


def ratio_estimate(
    found: Reading, rule: ComparisonRule, evidence: Evidence
) -> Estimate:
    """Return the interval of the ratio, of that of its logarithm."""
    return Estimate(
        _exp(found.center),
        _exp(found.center - found.half),
        _exp(found.center + found.half),
        rule.confidence,
        found.method,
        evidence.n,
        "ratio",
    )


def _reason(
    rule: ComparisonRule,
    history: ComparisonHistory,
    evidence: Evidence,
    answer: tuple[Verdict | None, float],
) -> str:
    verdict, p_adjusted = answer
    if why := unanswerable(rule, history, evidence):
        return why
    if verdict is Verdict.UNDECIDED and evidence.n < rule.minimum:
        what = "blocks" if evidence.paired else "trials"
        return f"n = {evidence.n}: no verdict before {rule.minimum} {what}"
    if verdict is Verdict.UNDECIDED and rule.level < p_adjusted <= rule.error:
        share = f"{100 * rule.level:.3g} of {100 * rule.error:.3g} %"
        return f"p = {p_adjusted:.2g}: one look spends {share}"
    if evidence.n >= 2 and not reading(rule, evidence).half:
        what = "blocks" if evidence.paired else "trials"
        text = f"constant: the same ratio in all of {evidence.n} {what}"
        if verdict is Verdict.UNDECIDED:
            return f"{text}; called different from {CONSTANT} on"
        return text
    return ""


def _gate_detail(
    rule: ComparisonRule, history: ComparisonHistory, found: GateReading
) -> str:
    evidence = history.evidence[found.pair]
    if why := unanswerable(rule, history, evidence):
        return why
    if evidence.n < rule.minimum:
        return f"n = {evidence.n}: no outcome before {rule.minimum}"
    ratio = ratio_estimate(reading(rule, evidence), rule, evidence)
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
            ratio_estimate(reading(rule, evidence), rule, evidence),
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
