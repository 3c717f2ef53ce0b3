"""The jobs' ratios as one: random effects, the verdicts and gates on them, and what holds these.

The ratio of each job is one draw from those of all machines and hours, with an error of its own. The
mean over jobs has the interval of Hartung and Knapp (stats/meta.py); verdicts, gates, their
adjustment and their reasons are those of every comparison (decide/compare/), on that interval.
Decision: a serious finding in a job holds a verdict or a gate only if it depends on that job: the
answer must be the same without the doubtful jobs, of which the others are at least two. Held by any
doubtful job, ten jobs of which each is doubtful in one of ten runs would be undecided in two of three.
Both answers must agree, so this calls no difference that one alone does not. `--accept CODE` as in
every comparison.
A job stops as soon as it is decided, so one with a small difference has more blocks and more weight.
That moves the mean by a tenth of a percent towards 1 (tests/calibration/test_merged_jobs.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from benchwright.core.comparison import (
    ComparisonResult,
    ComparisonRule,
    Gate,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    Verdict,
)
from benchwright.core.machine import FactWeight
from benchwright.core.plan import StopDecision
from benchwright.core.quantity import exponential
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import list_text, number_text, plural, some_text
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.evidence import ComparisonHistory, MetricEvidence
from benchwright.decide.compare.intervals import standard_error
from benchwright.features.merge.types import LEAST_JOBS, Job, JobRatio, MergedRatio, MergeResult
from benchwright.findings.codes import make_finding
from benchwright.findings.comparison import concerns
from benchwright.findings.environment import difference
from benchwright.stats.intervals import t_quantile
from benchwright.stats.meta import JobEstimate, MetaEstimate, Spread, meta_estimate
from benchwright.stats.sample import Moments

_MOST_NAMED = 3
_MOST_JOBS = 1000
"""Jobs beyond which no number is stated that would decide."""


class Question(msgspec.Struct, frozen=True):
    """What the command line states instead of the jobs; None: what they have in common."""

    margin: float | None = None
    confidence: float | None = None
    gates: tuple[Gate, ...] | None = None
    accepted: tuple[str, ...] = ()


def merge_jobs(jobs: Sequence[Job], question: Question) -> MergeResult:
    """Return one verdict from jobs that belong together (`read_jobs`)."""
    rule = _merged_rule(jobs, question)
    pooled = {pair: _pooled(rule, jobs, pair) for pair in _pairs(rule)}
    comparison = _concluded(rule, jobs, pooled)
    doubts = {
        pair: [_doubts(rule, job, *_named(comparison, pair)) for job in jobs] for pair in pooled
    }
    comparison = _held(comparison, rule, jobs, doubts)
    ratios = tuple(
        _merged_ratio(verdict, jobs, pooled[pair], doubts[pair])
        for verdict, pair in zip(comparison.verdicts, pooled, strict=True)
    )
    return MergeResult(
        tuple(jobs),
        machine_texts(jobs),
        comparison,
        ratios,
        (*_disagreements(ratios), *_of_one_boot(jobs), *_too_few(comparison, pooled)),
    )


# -- the evidence -----------------------------------------------------------------------

_Pair = tuple[str, int]
"""A metric's name and a candidate's index among the arms."""


class _Pooled(msgspec.Struct, frozen=True):
    """One metric of one candidate over jobs."""

    evidence: MetricEvidence
    effects: MetaEstimate | None
    """Of the jobs that have a ratio; None if these are fewer than `LEAST_JOBS`."""
    places: tuple[int, ...]
    """Of these jobs."""


def _merged_rule(jobs: Sequence[Job], question: Question) -> ComparisonRule:
    rule = jobs[0].comparison.rule
    rules = [job.comparison.rule for job in jobs]
    shared = set.intersection(*({*one.accepted} for one in rules))
    gates = rule.gates if question.gates is None else question.gates
    gated = {gate.metric for gate in gates}
    metrics = tuple(
        msgspec.structs.replace(metric, judged=metric.judged or metric.name in gated)
        for metric in rule.metrics
        if all(metric.name in {one.name for one in other.metrics} for other in rules)
    )
    return msgspec.structs.replace(
        rule,
        metrics=metrics,
        mode="plan",
        once=True,
        minimum=min(one.minimum for one in rules),
        maximum=sum(one.maximum for one in rules),
        margin=rule.margin if question.margin is None else question.margin,
        confidence=rule.confidence if question.confidence is None else question.confidence,
        gates=gates,
        accepted=(*sorted(shared | {*question.accepted}),),
        warmup=0,
        max_time_ns=None,
        replication=None,
    )


def _pairs(rule: ComparisonRule) -> list[_Pair]:
    return [(metric.name, place) for metric in rule.metrics for place in range(1, rule.arms)]


def _named(comparison: ComparisonResult, pair: _Pair) -> tuple[str, str]:
    """Return the candidate and the metric of a pair."""
    return comparison.arms[pair[1]], pair[0]


def _pooled(rule: ComparisonRule, jobs: Sequence[Job], pair: _Pair) -> _Pooled:
    each = [job.history.evidence[pair] for job in jobs]
    known: dict[int, JobEstimate] = {}
    for place, (job, evidence) in enumerate(zip(jobs, each, strict=True)):
        own = None if evidence.unfit else _estimate(job, evidence, pair)
        if own is not None:
            known[place] = own
    effects = None
    if len(known) >= LEAST_JOBS:
        effects = meta_estimate(list(known.values()), rule.confidence)
    return _Pooled(_summed(each, effects), effects, tuple(known))


_LEAST_ERROR = 1e-12
"""Of a job whose blocks all have one ratio, such as that of counted instructions: that of a float."""


def _estimate(job: Job, evidence: MetricEvidence, pair: _Pair) -> JobEstimate | None:
    """Return a job's log ratio with its own error; None if it has none."""
    rule = job.comparison.rule
    if rule.replication is not None:
        return _replicated(_verdict_of(job, *_named(job.comparison, pair)).ratio)
    if evidence.paired:
        blocks = evidence.difference
        if blocks.n < 2:
            return None
        error, degrees = blocks.sdev / math.sqrt(blocks.n), blocks.n - 1.0
    elif (own := standard_error(rule, evidence)) is not None:
        error, degrees = own.error, own.degrees
    else:
        return None
    return JobEstimate(evidence.log_ratio, max(error, _LEAST_ERROR), degrees)


def _replicated(ratio: Estimate) -> JobEstimate | None:
    """Return a job whose interval is about the levels that it replicated."""
    if not (ratio.low > 0 and math.isfinite(ratio.high)):
        return None
    value, low, high = map(math.log, (ratio.value, ratio.low, ratio.high))
    found = JobEstimate.of(Estimate(value, low, high, ratio.confidence, ratio.method, ratio.n))
    return msgspec.structs.replace(found, error=max(found.error, _LEAST_ERROR))


def _verdict_of(job: Job, candidate: str, metric: str) -> MetricVerdict:
    """Return what the job reported of one metric of a candidate."""
    return next(
        v for v in job.comparison.verdicts if (v.candidate, v.metric) == (candidate, metric)
    )


def _summed(each: Sequence[MetricEvidence], effects: MetaEstimate | None) -> MetricEvidence:
    """Return the evidence of all jobs: the mean over jobs, and the counts of their trials."""
    return MetricEvidence(
        paired=each[0].paired,
        baseline=_mean_of([one.baseline for one in each]),
        candidate=_mean_of([one.candidate for one in each]),
        difference=_mean_of([one.difference for one in each]),
        pilot_sdev=math.nan,
        missing=sum(one.missing for one in each),
        unfit=sum(one.unfit for one in each),
        baseline_trials=sum(one.baseline_trials for one in each),
        candidate_trials=sum(one.candidate_trials for one in each),
        absent=sum(one.absent for one in each),
        nested=effects,
    )


def _mean_of(each: Sequence[Moments]) -> Moments:
    """Return the moments of all trials, in whose mean each job counts alike; their deviation is
    part of the mean's error over jobs, and is not known here."""
    means = [one.mean for one in each if one.n]
    mean = math.fsum(means) / len(means) if means else math.nan
    return Moments(sum(one.n for one in each), mean, math.nan)


def _concluded(
    rule: ComparisonRule, jobs: Sequence[Job], pooled: Mapping[_Pair, _Pooled]
) -> ComparisonResult:
    history = ComparisonHistory(
        run=sum(job.history.run for job in jobs),
        blocks=sum(job.history.blocks for job in jobs),
        failed=sum(job.history.failed for job in jobs),
        duration_ns=sum(job.comparison.duration_ns for job in jobs),
        evidence={pair: one.evidence for pair, one in pooled.items()},
    )
    unit = "block" if rule.paired else "trial"
    detail = f"{plural(len(jobs), 'job')}, {plural(history.blocks, unit)}"
    stop = StopDecision("merged", detail, answered=False)
    comparison = conclude(rule, history, jobs[0].comparison.arms, stop)
    failures = (code for job in jobs for code in job.comparison.failures)
    verdicts = (
        msgspec.structs.replace(v, replicates=plural(len(one.places), "job"))
        for v, one in zip(comparison.verdicts, pooled.values(), strict=True)
    )
    return _answered(
        msgspec.structs.replace(
            comparison,
            verdicts=tuple(verdicts),
            failed_blocks=sum(job.comparison.failed_blocks for job in jobs),
            failures=tuple(dict.fromkeys(failures)),
        )
    )


def _answered(comparison: ComparisonResult) -> ComparisonResult:
    judged = [v for v in comparison.verdicts if v.judged]
    answered = all(v.verdict is not Verdict.UNDECIDED for v in judged)
    stop = msgspec.structs.replace(comparison.stop, answered=answered)
    return msgspec.structs.replace(comparison, stop=stop)


# -- doubtful jobs ------------------------------------------------------------------------


def _doubts(rule: ComparisonRule, job: Job, candidate: str, metric: str) -> tuple[str, ...]:
    """Return the codes of the findings for which a gate on this metric would be held in the job,
    and of those that held its verdict."""
    counted = msgspec.structs.replace(job.comparison, rule=rule)
    codes = [
        finding.code
        for _, finding in job.findings
        if finding.code not in rule.accepted and concerns(counted, candidate, metric, finding)
    ]
    codes += [
        code
        for v in job.comparison.verdicts
        if (v.candidate, v.metric) == (candidate, metric)
        for code in v.held_by
        if code not in rule.accepted
    ]
    return tuple(dict.fromkeys(codes))


def _held(
    comparison: ComparisonResult,
    rule: ComparisonRule,
    jobs: Sequence[Job],
    doubts: Mapping[_Pair, Sequence[tuple[str, ...]]],
) -> ComparisonResult:
    """Return the comparison in which each verdict and gate is undecided that the jobs without doubts
    do not confirm."""
    verdicts, gates = list(comparison.verdicts), list(comparison.gates)
    for pair, of_jobs in doubts.items():
        if not any(of_jobs):
            continue
        sound = [job for job, codes in zip(jobs, of_jobs, strict=True) if not codes]
        alone = None
        if len(sound) >= LEAST_JOBS:
            others = {one: _pooled(rule, sound, one) for one in doubts}
            alone = _concluded(rule, sound, others)
        codes = tuple(dict.fromkeys(itertools.chain.from_iterable(of_jobs)))
        doubtful = [job.name for job, codes in zip(jobs, of_jobs, strict=True) if codes]
        which = _Doubtful(codes, doubtful)
        candidate, metric = _named(comparison, pair)
        for at, v in enumerate(verdicts):
            if v.judged and (v.candidate, v.metric) == (candidate, metric):
                confirmed = None if alone is None else alone.verdicts[at].verdict
                verdicts[at] = _held_verdict(v, confirmed, which)
        for at, gate in enumerate(gates):
            if (gate.candidate, gate.gate.metric) == (candidate, metric):
                outcome = None if alone is None else alone.gates[at].outcome
                gates[at] = _held_gate(gate, outcome, which)
    held = msgspec.structs.replace(comparison, verdicts=tuple(verdicts), gates=tuple(gates))
    return _answered(held)


class _Doubtful(msgspec.Struct, frozen=True):
    """Jobs with findings that make a result doubtful."""

    codes: tuple[str, ...]
    jobs: list[str]

    def why(self, without: str) -> str:
        accept = " ".join(f"--accept {code}" for code in self.codes)
        named = some_text(self.jobs, _MOST_NAMED)
        return f"depends on {named} ({', '.join(self.codes)}): {without}; accept it with {accept}"


def _held_verdict(v: MetricVerdict, confirmed: Verdict | None, of: _Doubtful) -> MetricVerdict:
    if v.verdict in (confirmed, Verdict.UNDECIDED):
        return v
    without = f"{v.verdict} with all jobs, {confirmed or 'too few jobs'} without"
    return msgspec.structs.replace(
        v, verdict=Verdict.UNDECIDED, reason=of.why(without), held_by=of.codes, otherwise=v.verdict
    )


def _held_gate(gate: GateVerdict, confirmed: GateOutcome | None, of: _Doubtful) -> GateVerdict:
    if gate.outcome in (confirmed, GateOutcome.UNDECIDED):
        return gate
    without = f"{gate.outcome} with all jobs, {confirmed or 'too few jobs'} without"
    return msgspec.structs.replace(
        gate,
        outcome=GateOutcome.UNDECIDED,
        detail=f"{of.why(without)}; {gate.detail}",
        held_by=of.codes,
        otherwise=gate.outcome,
    )


# -- the rows -------------------------------------------------------------------------------

_NOTHING = Estimate(math.nan, math.nan, math.nan, math.nan, "", 0)


def _merged_ratio(
    verdict: MetricVerdict, jobs: Sequence[Job], pooled: _Pooled, doubts: Sequence[tuple[str, ...]]
) -> MergedRatio:
    effects = pooled.effects
    weights = {} if effects is None else dict(zip(pooled.places, effects.weights, strict=True))
    rows = []
    for place, (job, codes) in enumerate(zip(jobs, doubts, strict=True)):
        own = _verdict_of(job, verdict.candidate, verdict.metric)
        rows.append(JobRatio(job.name, own, weights.get(place, 0.0), codes))
    spread = heterogeneity = prediction = _NOTHING
    if effects is not None:
        of, n = verdict.ratio.confidence, len(pooled.places)
        spread = _interval(effects.tau, of, n, math.expm1)
        heterogeneity = _interval(effects.i_squared, of, n)
        ends = effects.next_job
        prediction = Estimate(
            math.nan,
            exponential(ends.low),
            exponential(ends.high),
            of,
            "fiducial-mixture",
            n,
            "ratio",
        )
    return MergedRatio(verdict, tuple(rows), spread, heterogeneity, prediction)


def _interval(
    of: Spread, confidence: float, n: int, scaled: Callable[[float], float] = float
) -> Estimate:
    value, low, high = map(scaled, (of.value, of.low, of.high))
    return Estimate(value, low, high, confidence, "q-profile", n)


def machine_texts(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the first job's machine, and for each other one how its machine differs from it."""
    first = jobs[0]
    texts = [_machine_text(first)]
    for job in jobs[1:]:
        if job.info.boot_id and job.info.boot_id == first.info.boot_id:
            texts.append("same boot")
        elif first.machine is None or job.machine is None:
            texts.append(_machine_text(job))
        else:
            changes = difference(first.machine, job.machine).of(FactWeight.FATAL)
            names = [f"{one.name} {one.after or one.after_absent}" for one in changes]
            texts.append(some_text(names, _MOST_NAMED) if names else "alike, another boot")
    return tuple(texts)


def _machine_text(job: Job) -> str:
    if job.machine is None:
        return "unknown"
    facts = {name: fact.value for name, fact in job.machine.named().items() if fact.value}
    parts = [
        facts.get("cpu.model", ""),
        f"{facts['cpu.threads']} CPUs" if "cpu.threads" in facts else "",
        f"Linux {facts['kernel.release']}" if "kernel.release" in facts else "",
    ]
    return ", ".join(filter(None, parts)) or "unknown"


# -- the findings ---------------------------------------------------------------------------


def _disagreements(ratios: Sequence[MergedRatio]) -> list[Finding]:
    """Return a finding for each difference that the next job may not show."""
    found = []
    for ratio in ratios:
        v, next_job = ratio.verdict, ratio.prediction
        if v.verdict not in (Verdict.FASTER, Verdict.SLOWER):
            continue
        if next_job.low <= 1 <= next_job.high:
            evidence = (
                f"{v.metric} of {v.candidate}: {v.verdict} in the mean over jobs, but in the next "
                f"job the ratio is {number_text(next_job.low)} to {number_text(next_job.high)}"
            )
            found.append(make_finding("jobs-disagree", f"{v.baseline} and {v.candidate}", evidence))
    return found


def _of_one_boot(jobs: Sequence[Job]) -> list[Finding]:
    """Return a finding about each boot in which several jobs ran."""
    by_boot: dict[str, list[str]] = {}
    for job in jobs:
        if job.info.boot_id:
            by_boot.setdefault(job.info.boot_id, []).append(job.name)
    return [
        make_finding(
            "jobs-of-one-boot",
            list_text(names, _MOST_NAMED),
            f"{list_text(names, _MOST_NAMED)} ran in one boot of one machine: the interval does "
            "not contain what differs between machines",
        )
        for names in by_boot.values()
        if len(names) > 1
    ]


def _too_few(comparison: ComparisonResult, pooled: Mapping[_Pair, _Pooled]) -> list[Finding]:
    """Return a finding for each undecided metric that more jobs like these would decide."""
    found = []
    for v, one in zip(comparison.verdicts, pooled.values(), strict=True):
        effects = one.effects
        if v.verdict is not Verdict.UNDECIDED or v.held_by or effects is None:
            continue
        jobs = len(one.places)
        need = jobs_needed(comparison.rule, effects, jobs)
        if need is not None and need > jobs:
            evidence = (
                f"{v.metric} of {v.candidate} is undecided after {plural(jobs, 'job')}; with the "
                f"same mean and spread, about {need} would decide"
            )
            found.append(make_finding("too-few-jobs", f"{v.baseline} and {v.candidate}", evidence))
    return found


def jobs_needed(rule: ComparisonRule, effects: MetaEstimate, jobs: int) -> int | None:
    """Return with how many jobs of this spread the interval around this mean would decide; None if
    not even many would."""
    limit = math.log1p(rule.margin)
    room = max(abs(effects.mean.value), limit - abs(effects.mean.value))
    spread = effects.error * math.sqrt(jobs)
    for count in range(2, _MOST_JOBS):
        if t_quantile(rule.confidence, count - 1) * spread / math.sqrt(count) < room:
            return count
    return None
