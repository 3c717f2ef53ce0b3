"""Findings about a comparison as a whole, and the effect of serious findings on its gates.

Findings about the arms come from examine.py. These concern the design: a difference between
arms that were not interleaved may be a difference between times.
Decision: a serious finding means that the result may be wrong, so a gate that it concerns
is undecided, unless the user accepted its code. So is the gate of arms that were measured at
different times: what else changed in between could pass or fail a build. If arms are paired by
blocks in random order, dependence between trials affects both arms alike and leaves the gates
decided. A verdict alone is undecided only where the arms themselves show that the difference may
not be the program's: elapsed time differs, its CPU time does not, and waiting for a CPU explains
the difference: the measured waiting if the trials were watched, else a share of a CPU that a busy
machine may have left to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import NormalDist
from types import MappingProxyType

import msgspec
from msgspec import UNSET

from benchwright.core.comparison import (
    ComparisonDesign,
    ComparisonResult,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    Verdict,
)
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.results import Figure, Finding, Severity, states
from benchwright.core.text import list_text, noun_of
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding, stated_text
from benchwright.findings.cpu_time import waited
from benchwright.findings.result import TestResult
from benchwright.findings.series import ExaminedSeries, examine_series
from benchwright.stats.aggregate import MetricColumn, MetricRules
from benchwright.stats.sample import finite_values

_MOST_NAMED = 4
"""Results that a finding about many names."""
_HOLDS_GATES = ("not-interleaved", "gang-confounded")
"""Codes of findings that are not serious and make a gate undecided."""
_HOLDS_VERDICTS = ("difference-not-in-user-time",)
"""Codes of findings that make the verdict on elapsed time undecided."""
CPU_TIMES = ("user", "system")
"""The metrics whose sum is a program's own CPU time; the first is needed."""
_PAIRED_OUT = MappingProxyType(
    {
        "dependent-trials": "For the mean of this arm alone, make trials independent: rest between "
        "them (--rest 500ms). Blocks in random order keep this out of the ratio.",
        "drift": "For the mean of this arm alone, find what grows or fills up. Blocks in random "
        "order keep this out of the ratio.",
    }
)
"""Codes of an arm's findings whose effect on a difference blocks in random order remove, and what to
do about them there."""


class ArmTimes(msgspec.Struct, frozen=True):
    """The times of an arm's trials that the load of the machine hardly changes, and that which it
    caused."""

    cpu: float
    """Mean of user and system time together, over trials [s]: the kernel knows their sum and
    divides it by samples, so that either may be 0 in a short trial."""
    waited: float | None = None
    """Share of their elapsed time in which the trials waited for a CPU; None unless most of it was
    watched."""


def arm_times(test: TestResult) -> ArmTimes | None:
    """Return the times of an arm; None if its trials have no user time, not even the mean that
    a tool states."""
    series = {name: test.columns[name].values for name in CPU_TIMES if name in test.columns}
    if "user" not in series:
        series = {s.name: (s.mean,) for s in test.summaries if s.name in CPU_TIMES}
    found = times_of_series(series)
    return found and msgspec.structs.replace(found, waited=_waited(test.trials))


def _waited(trials: Sequence[Trial]) -> float | None:
    """Return the share of the time of all trials in which they waited for a CPU. A window of the
    watcher can contain several short trials: it is stored with the last of them."""
    good = [trial for trial in trials if trial.ending is TrialEnding.OK and not trial.warmup]
    watched = [
        (trial.use.seconds, share)
        for trial in good
        if trial.use is not None and (share := waited(trial.use)) is not None
    ]
    seconds = math.fsum(window for window, _ in watched)
    if not seconds or 2e9 * seconds < sum(trial.duration_ns for trial in good):
        return None
    return math.fsum(window * share for window, share in watched) / seconds


def times_of_series(series: Mapping[str, Sequence[float]]) -> ArmTimes | None:
    """Return the times of trials with these values by metric [s]; None without user time."""
    finite = [finite_values(series.get(name, ())) for name in CPU_TIMES]
    means = [math.fsum(values) / len(values) for values in finite if len(values)]
    return ArmTimes(math.fsum(means)) if len(finite[0]) else None


def comparison_findings(
    comparison: ComparisonResult, times: Mapping[str, ArmTimes | None] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """Return the findings about a comparison's design and its null comparison; `times`: those of
    the trials of each arm, where they are known."""
    subject = " and ".join(comparison.arms)
    found = []
    rule = comparison.rule
    if rule.stored is not None:
        shown = states(baseline=rule.stored.name, source=rule.stored.source)
        found.append(make_finding("not-interleaved", subject, shown))
    elif rule.design is ComparisonDesign.STORED:
        evidence = "the arms were measured at different times"
        found.append(make_finding("not-interleaved", subject, evidence))
    elif rule.design is ComparisonDesign.SEQUENCE:
        evidence = "all trials of one arm ran before the next arm's first"
        found.append(make_finding("sequential-arms", subject, evidence))
    if rule.exactly is not None:
        found += _biased(comparison)
    elif comparison.null is not None and comparison.null.biased:
        evidence = "comparing a command with itself found a difference on this machine"
        found.append(make_finding("biased-null", subject, evidence))
    return (*found, *_one_replicate(comparison), *_not_in_cpu_time(comparison, times))


def caused_by_level(spread: float, confidence: float = 0.95) -> float:
    """Return up to which share two replicates of a level differ that spreads logarithms by `spread`
    (standard deviation): by a normal variable with twice the variance of one."""
    return math.expm1(NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(2) * spread)


def _one_replicate(comparison: ComparisonResult) -> Iterator[Finding]:
    """Yield a finding for each verdict on a difference that is smaller than what a level, of which
    the comparison has one replicate, causes by the stored null comparison over levels."""
    rule, null = comparison.rule, comparison.null
    if rule.exactly is not None or null is None:
        return
    own = () if rule.replication is None else rule.replication.levels
    replicated = {level.kind.value for level in own}
    spreads = {floor.metric: floor.levels for floor in null.floors if floor.levels is not UNSET}
    for v in comparison.verdicts:
        if v.verdict not in (Verdict.FASTER, Verdict.SLOWER) or v.metric not in spreads:
            continue
        levels = spreads[v.metric]
        for one in levels[:-1]:
            caused = caused_by_level(one.spread or 0.0, rule.confidence)
            effect = math.expm1(abs(math.log(v.ratio.value)))
            if one.level not in replicated and effect < caused:
                shown = states(
                    candidate=v.candidate,
                    metric=v.metric,
                    effect=Figure(effect, "%"),
                    level=noun_of(one.level),
                    caused=Figure(caused, "%"),
                    command=null.command,
                )
                yield make_finding("one-replicate", " and ".join(comparison.arms), shown)
                break


def gang_confounded(
    gangs: Mapping[str, Collection[str]], anchored: Collection[str] = ()
) -> Finding | None:
    """Return the finding about results that different gangs of a pool measured; None if their
    difference is not that of the gangs.

    `gangs`: the gangs that measured each result, by its name; those of a result that no pool
    measured are empty. `anchored`: the gangs that measured one common anchor. Two results can be
    compared if a gang measured both, or if anchors relate all gangs that measured them.
    """
    apart = [
        (one, other)
        for one, other in itertools.combinations(gangs, 2)
        if gangs[one]
        and gangs[other]
        and not set(gangs[one]) & set(gangs[other])
        and not {*gangs[one], *gangs[other]} <= set(anchored)
    ]
    if not apart:
        return None
    named = list(dict.fromkeys(itertools.chain.from_iterable(apart)))
    measured = [f"{name} by {list_text(sorted(gangs[name]))}" for name in named]
    evidence = (
        f"different gangs measured them, without an anchor: {list_text(measured, _MOST_NAMED)}; a "
        "difference includes that of the hosts"
    )
    return make_finding("gang-confounded", list_text(named, _MOST_NAMED), evidence)


def _not_in_cpu_time(
    comparison: ComparisonResult, times: Mapping[str, ArmTimes | None]
) -> list[Finding]:
    """Return a note for each candidate with a different elapsed time but the same CPU time, if the
    trials were not interleaved and waiting for a CPU explains the difference."""
    if comparison.rule.paired:
        return []
    findings = []
    judged = {v.metric for v in comparison.verdicts if v.judged}
    for v in comparison.verdicts:
        before, after = times.get(v.baseline), times.get(v.candidate)
        if v.metric != "elapsed" or judged & {*CPU_TIMES} or before is None or after is None:
            continue
        if (difference := _elapsed_alone(v, before, after)) is not None:
            elapsed, own = (Figure(one, "+%") for one in difference)
            shown = states(elapsed=elapsed, cpu=own)
            subject = f"{v.baseline} and {v.candidate}"
            findings.append(make_finding("difference-not-in-user-time", subject, shown))
    return findings


def _elapsed_alone(
    v: MetricVerdict, before: ArmTimes, after: ArmTimes
) -> tuple[float, float] | None:
    """Return the relative differences of elapsed and CPU time; None unless only elapsed time
    differs much, and a program that waited for a CPU explains it."""
    values = (v.ratio.value, before.cpu, after.cpu)
    if not all(math.isfinite(value) and value > 0 for value in values):
        return None
    whole, own = math.log(v.ratio.value), math.log(after.cpu / before.cpu)
    is_explained = own / whole > t.CPU_EXPLAINS if whole else True
    if abs(whole) < math.log1p(t.ELAPSED_DIFFERS) or is_explained:
        return None
    if not _is_contention(v, before, after):
        return None
    return math.expm1(whole), math.expm1(own)


def _is_contention(v: MetricVerdict, before: ArmTimes, after: ArmTimes) -> bool:
    """Return whether waiting for a CPU explains the difference in elapsed time."""
    added = v.mean_candidate - v.mean_baseline
    if before.waited is not None and after.waited is not None:
        waits = after.waited * v.mean_candidate - before.waited * v.mean_baseline
        return waits / added > t.WAIT_EXPLAINS
    # A program that needs a CPU for long can wait for it for long.
    return max(before.cpu, after.cpu) >= t.LEAST_CPU_SHARE * abs(added)


def stored_baseline_findings(comparison: ComparisonResult) -> tuple[Finding, ...]:
    """Return the findings about the judged series of a stored baseline."""
    rule = comparison.rule
    if rule.stored is None:
        return ()
    book, found = MetricRules(()), list[Finding]()
    for name in rule.judged:
        values = tuple(finite_values(rule.stored.series.get(name, ())))
        if len(values) < t.FEWEST_TRIALS:
            continue
        column = MetricColumn(name, tuple(range(1, len(values) + 1)), values)
        row = book.row(name)
        examined_series = ExaminedSeries(
            rule.stored.name, column, row.unit, 1 / len(rule.judged), book.least_change(name)
        )
        found += examine_series(examined_series)
    return tuple(found)


def beside_a_ratio(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings about an arm that is paired by blocks in random order: what these keep
    out of the ratio is a note about the arm alone, which says nothing of intervals."""
    return tuple(
        _of_the_arm_alone(finding) if finding.code in _PAIRED_OUT else finding
        for finding in findings
    )


def _of_the_arm_alone(finding: Finding) -> Finding:
    evidence, figures = finding.evidence, finding.figures
    if figures is not UNSET and figures.form:
        figures = msgspec.structs.replace(figures, form="")
        evidence = stated_text(finding.code, figures)
    return msgspec.structs.replace(
        finding,
        severity=Severity.NOTE,
        remedy=_PAIRED_OUT[finding.code],
        evidence=evidence,
        figures=figures,
    )


# -- what the findings leave undecided -----------------------------------------------------


def hold_doubtful(comparison: ComparisonResult, findings: Sequence[Finding]) -> ComparisonResult:
    """Return the comparison with each gate and verdict undecided that a finding makes doubtful,
    unless the rule accepts the finding's code."""
    accepted = comparison.rule.accepted
    findings = [finding for finding in findings if finding.code not in accepted]
    gates = tuple(_held_gate(comparison, gate, findings) for gate in comparison.gates)
    verdicts = tuple(_held_verdict(v, findings) for v in comparison.verdicts)
    stop = comparison.stop
    if any(v.held_by for v in verdicts):
        stop = msgspec.structs.replace(stop, answered=False)
    return msgspec.structs.replace(comparison, gates=gates, verdicts=verdicts, stop=stop)


def _held_gate(
    comparison: ComparisonResult, gate: GateVerdict, findings: Sequence[Finding]
) -> GateVerdict:
    grave = [f for f in findings if concerns(comparison, gate.candidate, gate.gate.metric, f)]
    if not grave or gate.outcome is GateOutcome.UNDECIDED:
        return gate
    codes = tuple(dict.fromkeys(finding.code for finding in grave))
    named = ", ".join(dict.fromkeys(f"{f.code} ({f.subject})" for f in grave))
    detail = (
        f"blocked by {named}; without it: {gate.outcome}, {gate.detail}; "
        f"remove its cause, or accept it with {_accepting(codes)}"
    )
    return msgspec.structs.replace(
        gate, outcome=GateOutcome.UNDECIDED, detail=detail, held_by=codes, otherwise=gate.outcome
    )


def concerns(comparison: ComparisonResult, candidate: str, metric: str, finding: Finding) -> bool:
    """Return whether a finding makes a gate on this metric of this candidate undecided."""
    grave = finding.severity is Severity.SERIOUS or finding.code in _HOLDS_GATES
    if not grave or (comparison.rule.paired and finding.code in _PAIRED_OUT):
        return False
    others = set(comparison.arms[1:]) - {candidate}
    return finding.metric in ("", metric) and finding.subject not in others


def _held_verdict(v: MetricVerdict, findings: Sequence[Finding]) -> MetricVerdict:
    codes = tuple(
        finding.code
        for finding in findings
        if finding.code in _HOLDS_VERDICTS and finding.subject == _both(v)
    )
    is_decided = v.judged and v.verdict in (Verdict.FASTER, Verdict.SLOWER)
    if not codes or not is_decided or v.metric != "elapsed":
        return v
    reason = (
        f"blocked by {codes[0]}; by its interval alone: {v.verdict}; "
        f"accept it with {_accepting(codes)}"
    )
    return msgspec.structs.replace(
        v, verdict=Verdict.UNDECIDED, reason=reason, held_by=codes, otherwise=v.verdict
    )


def _accepting(codes: Sequence[str]) -> str:
    return " ".join(f"--accept {code}" for code in codes)


def _both(v: MetricVerdict) -> str:
    """Return the subject of a finding about the difference of two arms."""
    return f"{v.baseline} and {v.candidate}"


def _biased(comparison: ComparisonResult) -> list[Finding]:
    """Return the finding about a machine on which a command differs from itself."""
    different = [v for v in comparison.verdicts if v.verdict in (Verdict.FASTER, Verdict.SLOWER)]
    return [
        make_finding(
            "biased-null",
            _both(v),
            states(
                verdict=v.verdict,
                metric=v.metric,
                ratio=v.ratio.value,
                low=v.ratio.low,
                high=v.ratio.high,
            ),
        )
        for v in different
    ]
