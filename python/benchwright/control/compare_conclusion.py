"""From the evidence to the comparison's answer: ratios, intervals, words for why."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from benchwright.control.compare_history import ComparisonHistory, Evidence
from benchwright.control.compare_reading import (
    p_value,
    reading,
    smallest_effect,
    widening,
)
from benchwright.control.compare_verdict import (
    CONSTANT,
    GateReading,
    Pair,
    adjustment,
    gate_limit,
    gates_of,
    judged_pairs,
    too_few_to_see_dependence,
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
from benchwright.stats.autocorrelation import FEWEST
from benchwright.stats.confidence_sequence import radius
from benchwright.stats.longrun import FEWEST_INDEPENDENT
from benchwright.stats.moments import Moments


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
        smallest_effect=_seen_from(rule, evidence, metric),
        verdict=verdict,
        reason=_reason(rule, history, evidence, (verdict, p_adjusted)),
        widened=widening(evidence),
    )


def _mean(evidence: Evidence, arm: Moments) -> float:
    """Return an arm's geometric mean; NaN where a value is not positive."""
    return math.nan if evidence.unfit else _exp(arm.mean)


def _seen_from(
    rule: ComparisonRule, evidence: Evidence, metric: ComparedMetric
) -> float:
    """Return the smallest effect as a share; NaN where there is no interval."""
    if evidence.unfit or no_interval(rule, evidence):
        return math.nan
    hypotheses = len(judged_pairs(rule)) if metric.judged else 1
    return _exp(smallest_effect(rule, evidence, hypotheses)) - 1


def ratio_estimate(rule: ComparisonRule, evidence: Evidence) -> Estimate:
    """Return the ratio with its interval, of that of its logarithm; NaN where a value is
    not positive, and for the limits where there is no interval yet."""
    found = reading(rule, evidence)
    center = math.nan if evidence.unfit else found.center
    half = math.nan if no_interval(rule, evidence) else found.half
    return Estimate(
        _exp(center),
        _exp(center - half),
        _exp(center + half),
        rule.confidence,
        found.method,
        evidence.n,
        "ratio",
    )


def no_interval(rule: ComparisonRule, evidence: Evidence) -> str:
    """Return what is missing for an interval: `no interval yet: 5 of at least 10
    blocks`; nothing where there is one."""
    if evidence.paired:
        count, what = evidence.n, "blocks"
    else:
        count, what = min(evidence.baseline.n, evidence.candidate.n), "trials"
    bounded = math.isfinite(reading(rule, evidence).half)
    if evidence.n >= rule.minimum and bounded:
        return ""
    if (which := _too_dependent(evidence)) is not None:
        return (
            f"no interval: neighbouring trials depend on each other so much that "
            f"{which.n} are worth fewer than {FEWEST_INDEPENDENT} independent ones"
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
        n for n in itertools.count(2) if math.isfinite(radius(n, rule.confidence))
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
    if verdict is Verdict.UNDECIDED and (why := no_interval(rule, evidence)):
        return why
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
    if why := no_interval(rule, evidence):
        return why
    if too_few_to_see_dependence(evidence):
        counts = f"{evidence.baseline.n} and {evidence.candidate.n} trials"
        return (
            f"{counts}: at least {FEWEST} of each show whether trials are independent"
        )
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
