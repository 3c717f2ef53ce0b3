"""The answer of a comparison: verdicts with their ratios and reasons, gates, the noise floor.

Input: a comparison's history. Output: a `ComparisonResult`, the progress while it runs, and for
a null comparison the noise floor and the rate of false differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonProgress,
    ComparisonResult,
    ComparisonRule,
    Gate,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    NullFloor,
    NullResult,
    Verdict,
)
from benchwright.core.plan import StopDecision
from benchwright.core.quantity import exponential, finite
from benchwright.core.results import Estimate, Population, SlowRuns
from benchwright.core.text import percent_text, replicates_text
from benchwright.decide.compare.decision import (
    ALONE,
    CONSTANT_FROM,
    ComparedPair,
    JudgedGate,
    NextBlock,
    OtherQuestions,
    PairVerdict,
    adjustment,
    decide_comparison,
    gate_limit,
    gates_of,
    judged_pairs,
    may_rule_out,
    too_few_to_see_dependence,
    trials_of_each,
    verdicts_of,
    why_unanswerable,
)
from benchwright.decide.compare.evidence import (
    ComparisonBuilder,
    ComparisonHistory,
    MetricEvidence,
    MetricValues,
)
from benchwright.decide.compare.intervals import (
    LogRatioInterval,
    dependence_factor,
    log_ratio_interval,
    p_value,
    smallest_effect,
)
from benchwright.decide.history import ReplicateOutcome
from benchwright.stats.dependence import MIN_VALUES_FOR_DEPENDENCE
from benchwright.stats.intervals import sequence_radius
from benchwright.stats.sample import Moments


def conclude(
    rule: ComparisonRule,
    history: ComparisonHistory,
    names: Sequence[str],
    stop: StopDecision,
    null: NullResult | None = None,
    others: OtherQuestions = ALONE,
) -> ComparisonResult:
    """Return the comparison's answer; `names` are the names of the arms, the baseline first.

    `others`: what is judged together with it, which the adjusted P-values take into account.
    """
    verdicts = verdicts_of(rule, history, others)
    return ComparisonResult(
        arms=tuple(names),
        rule=rule,
        verdicts=tuple(
            _metric_verdict(
                rule, names, metric, _answer(rule, history, (metric.name, place), verdicts), others
            )
            for metric in rule.metrics
            for place in range(1, rule.arms)
        ),
        gates=tuple(
            GateVerdict(
                judged.gate,
                names[judged.pair[1]],
                judged.outcome,
                _gate_detail(rule, history, judged),
            )
            for judged in gates_of(rule, history, others)
        ),
        stop=stop,
        blocks=history.blocks,
        failed_blocks=history.failed,
        duration_ns=history.duration_ns,
        null=null,
    )


class _Answer(msgspec.Struct, frozen=True):
    """What the evidence shows about one metric of one candidate."""

    place: int
    """The candidate's index among the arms."""
    evidence: MetricEvidence
    p: float
    p_adjusted: float
    verdict: Verdict | None
    """None for a metric that is shown and not judged."""
    reason: str


def _answer(
    rule: ComparisonRule,
    history: ComparisonHistory,
    pair: ComparedPair,
    verdicts: Mapping[ComparedPair, PairVerdict],
) -> _Answer:
    evidence = history.evidence[pair]
    unknown = bool(evidence.unfit or why_no_interval(rule, evidence))
    p = math.nan if unknown else p_value(rule, evidence)
    judged = verdicts.get(pair)
    verdict = None if judged is None else judged.verdict
    p_adjusted = p if judged is None or unknown else judged.p_adjusted
    reason = _reason(rule, history, evidence, judged)
    return _Answer(pair[1], evidence, p, p_adjusted, verdict, reason)


def _metric_verdict(
    rule: ComparisonRule,
    names: Sequence[str],
    metric: ComparedMetric,
    answer: _Answer,
    others: OtherQuestions,
) -> MetricVerdict:
    evidence = answer.evidence
    return MetricVerdict(
        metric=metric.name,
        better=metric.better,
        judged=metric.judged,
        baseline=names[0],
        candidate=names[answer.place],
        n_baseline=evidence.baseline_trials,
        n_candidate=evidence.candidate_trials,
        blocks=evidence.n if evidence.paired else None,
        mean_baseline=_mean(evidence, evidence.baseline),
        mean_candidate=_mean(evidence, evidence.candidate),
        ratio=ratio_estimate(rule, evidence),
        p=answer.p,
        p_adjusted=answer.p_adjusted,
        adjustment=adjustment(rule, others) if metric.judged else "none",
        smallest_effect=_smallest_share(rule, evidence, metric, others),
        verdict=answer.verdict,
        reason=answer.reason,
        widened=dependence_factor(evidence),
        unseen_share=_unseen_share(evidence),
        population=_population(evidence),
    )


def _population(evidence: MetricEvidence) -> Population | None:
    if evidence.nested is None or evidence.unfit:
        return None
    from benchwright.decide.replicated import population_of
    from benchwright.stats.nested import NestedEstimate

    nested = evidence.nested
    return population_of(nested, is_ratio=True) if isinstance(nested, NestedEstimate) else None


def _mean(evidence: MetricEvidence, arm: Moments) -> float:
    """Return the geometric mean of an arm; NaN where a value is not positive."""
    return math.nan if evidence.unfit else exponential(arm.mean)


def _smallest_share(
    rule: ComparisonRule, evidence: MetricEvidence, metric: ComparedMetric, others: OtherQuestions
) -> float:
    """Return the smallest effect as a share; NaN where there is no interval."""
    if evidence.unfit or why_no_interval(rule, evidence):
        return math.nan
    asked = len(judged_pairs(rule)) + len(others.verdicts)
    hypotheses = asked if metric.judged else 1
    return exponential(smallest_effect(rule, evidence, hypotheses)) - 1


def ratio_estimate(rule: ComparisonRule, evidence: MetricEvidence) -> Estimate:
    """Return the ratio with its interval, computed on logarithms. All NaN where a value is
    not positive; the ends are NaN where there is no interval yet."""
    interval = log_ratio_interval(rule, evidence)
    if evidence.unfit:
        interval = LogRatioInterval(math.nan, math.nan, interval.method)
    elif why_no_interval(rule, evidence):
        interval = LogRatioInterval(interval.center, math.nan, interval.method)
    return Estimate(
        exponential(interval.center),
        exponential(interval.low),
        exponential(interval.high),
        rule.confidence,
        interval.method,
        evidence.n,
        "ratio",
    )


def why_no_interval(rule: ComparisonRule, evidence: MetricEvidence) -> str:
    """Return why there is no interval, such as `no interval yet: 5 of at least 10 blocks`;
    empty where there is one."""
    if evidence.paired:
        count, what = evidence.n, "blocks"
    else:
        count, what = min(evidence.baseline.n, evidence.candidate.n), "trials"
    bounded = math.isfinite(log_ratio_interval(rule, evidence).half)
    if evidence.n >= rule.minimum and bounded:
        return ""
    if evidence.nested is not None and rule.replication is not None:
        kind = rule.replication.levels[0].kind
        return f"no interval: {replicates_text(evidence.nested.replicates, kind)}"
    least = max(rule.minimum, _first_bounded(rule, evidence))
    return f"no interval yet: {count} of at least {least} {what}"


def _first_bounded(rule: ComparisonRule, evidence: MetricEvidence) -> int:
    """Return the smallest number of blocks or trials for which an interval has ends."""
    if not evidence.paired or rule.mode != "watch":
        return 2
    return next(n for n in itertools.count(2) if math.isfinite(sequence_radius(n, rule.confidence)))


def _reason(
    rule: ComparisonRule,
    history: ComparisonHistory,
    evidence: MetricEvidence,
    judged: PairVerdict | None,
) -> str:
    undecided = judged is not None and judged.verdict is Verdict.UNDECIDED
    if why := why_unanswerable(rule, history, evidence):
        return why
    if undecided and (why := why_no_interval(rule, evidence)):
        return why
    if judged and undecided and rule.level < judged.p_adjusted <= rule.error:
        level, error = percent_text(rule.level), percent_text(rule.error)
        return f"P = {judged.p_adjusted:.2g} is above {level}: one look keeps the rest of {error} in reserve"
    if evidence.n >= 2 and not log_ratio_interval(rule, evidence).half:
        what = "blocks" if evidence.paired else "trials"
        text = f"constant: the same ratio in all of {evidence.n} {what}"
        if undecided:
            return f"{text}; called different from {CONSTANT_FROM} on"
        return text
    if judged is not None and judged.verdict is Verdict.EQUIVALENT:
        return _unseen_text(evidence)
    is_within = log_ratio_interval(rule, evidence).within(math.log1p(rule.margin))
    if undecided and is_within and not may_rule_out(rule, evidence):
        return _too_few(rule, evidence, "equivalent")
    return ""


def _gate_detail(rule: ComparisonRule, history: ComparisonHistory, judged: JudgedGate) -> str:
    evidence = history.evidence[judged.pair]
    if why := why_unanswerable(rule, history, evidence):
        return why
    if why := why_no_interval(rule, evidence):
        return why
    if too_few_to_see_dependence(evidence):
        counts = f"{evidence.baseline.n} and {evidence.candidate.n} trials"
        return f"{counts}: at least {MIN_VALUES_FOR_DEPENDENCE} of each show whether trials are independent"
    ratio = ratio_estimate(rule, evidence)
    log_limit = gate_limit(rule, judged.gate)
    limit = exponential(log_limit)
    why = _why_passed(judged.gate, ratio, log_limit) + f"{_unseen_text(evidence)}; "
    if judged.outcome is not GateOutcome.PASSED:
        why = ""
        if judged.outcome is GateOutcome.UNDECIDED and not may_rule_out(rule, evidence):
            why = f"{_too_few(rule, evidence, 'a gate passes')}; "
    return (
        f"{why}ratio {ratio.value:.4g} ({percent_text(rule.confidence, 10)} interval "
        f"{ratio.low:.4g} to {ratio.high:.4g}), limit {limit:.4g}"
    )


def _too_few(rule: ComparisonRule, evidence: MetricEvidence, for_what: str) -> str:
    """Return that there are too few trials to rule a difference out."""
    if rule.paired:
        return f"{evidence.n} blocks, {for_what} from {rule.blocks_for_sameness} on"
    assert rule.rare is not None, "else any number is enough"
    return f"{trials_of_each(evidence)} trials, {for_what} from {rule.rare.trials} on"


def _unseen_share(evidence: MetricEvidence) -> float | None:
    """Return the largest share of slow runs of which an arm may have shown none."""
    n = trials_of_each(evidence)
    return SlowRuns.unseen(n).share if n else None


def _unseen_text(evidence: MetricEvidence) -> str:
    """Return what the trials cannot rule out."""
    n = trials_of_each(evidence)
    return f"{n} trials of each may miss slow runs rarer than {SlowRuns.unseen(n).frequency}"


def _why_passed(gate: Gate, ratio: Estimate, log_limit: float) -> str:
    """Return which difference the interval rules out, and where its end is in the gate's measure."""
    end = ratio.high if log_limit > 0 else 1 / ratio.low
    way = gate.direction
    if end < 1:
        end, way = 1 / end, "faster" if way == "slower" else "slower"
    return (
        f"{gate.direction} by more than {percent_text(gate.share)} is ruled out: "
        f"the interval ends at {percent_text(end - 1)} {way}; "
    )


def comparison_progress(
    rule: ComparisonRule, history: ComparisonHistory, names: Sequence[str]
) -> ComparisonProgress:
    """Return the progress of a comparison, with its ratios so far."""
    ratios = tuple(
        (name, names[place], ratio_estimate(rule, evidence))
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
        limit_s=None if rule.max_time_ns is None else rule.max_time_ns / 1e9,
    )


# -- a null comparison: a command compared with itself ---------------------------------
#
# It shows the noise floor of each metric, and the share of false differences.
# Decision: that share is computed by relabelling. In each block, the trial that counts as the
# baseline's is chosen anew at random. Without a difference between the arms, every labelling is as
# likely as the real one. So the share of labellings that the same rule, looking after every block,
# calls different is the rule's false-positive rate on this machine's noise, with its modes, tails
# and drift. Rejected: a theoretical rate, because that is what should be checked.
# Source: R. A. Fisher 1935, The Design of Experiments, on randomisation tests.

RELABELLINGS = 1000
ComparisonBlock = Sequence[Sequence[MetricValues | None]]
"""For each arm, the values of its trials in one block."""


def false_positives(
    rule: ComparisonRule,
    blocks: Sequence[ComparisonBlock],
    replicates: Sequence[ReplicateOutcome] = (),
) -> float:
    """Return the share of relabellings of these blocks that are called different.

    Each relabelling is examined after every block, as a comparison is, up to the last block.
    The seed is the rule's. `replicates`: those of the blocks, with levels of replication.
    """
    judged = tuple(metric for metric in rule.metrics if metric.judged)
    rule = msgspec.structs.replace(
        rule, metrics=judged, exactly=None, maximum=max(len(blocks), 1), warmup=0
    )
    from benchwright.core.numeric import np

    rng = np.random.default_rng([rule.seed, RELABELLINGS])
    # Blocks of one replicate share what it has, so the labels of the outermost one change together.
    groups = [one.path[:1] for one in replicates] or [(at,) for at in range(len(blocks))]
    places = [list(dict.fromkeys(groups)).index(group) for group in groups]
    swaps = rng.random((RELABELLINGS, max(places, default=0) + 1)) < 0.5
    different = sum(
        _is_different(rule, blocks, [bool(row[at]) for at in places], replicates) for row in swaps
    )
    return different / RELABELLINGS


def _is_different(
    rule: ComparisonRule,
    blocks: Sequence[ComparisonBlock],
    swaps: Sequence[bool],
    replicates: Sequence[ReplicateOutcome],
) -> bool:
    builder = ComparisonBuilder(rule)
    for at, (block, swap) in enumerate(zip(blocks, swaps, strict=True)):
        relabelled = block[::-1] if swap else block
        if replicates:
            # All its blocks run before the one look.
            builder.add(relabelled, replicate=replicates[at])
            continue
        if not isinstance(decide_comparison(rule, builder.history()), NextBlock):
            break
        builder.add(relabelled)
    verdicts = verdicts_of(rule, builder.history()).values()
    different = (Verdict.FASTER, Verdict.SLOWER)
    return any(judged.verdict in different for judged in verdicts)


def noise_floors(comparison: ComparisonResult) -> tuple[NullFloor, ...]:
    """Return the noise floor of each metric of a null comparison, judged or only shown."""
    return tuple(
        NullFloor(
            v.metric,
            half_width=finite(v.ratio.high / v.ratio.value - 1 if v.ratio.value else 0),
            noise_floor=finite(v.smallest_effect),
        )
        for v in comparison.verdicts
    )
