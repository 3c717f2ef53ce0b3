"""Findings about a comparison as a whole, and the effect of serious findings on its gates.

Findings about the arms come from examine.py. These concern the design: a difference between
arms that were not interleaved may be a difference between times.
Decision: a serious finding means that the result may be wrong, so a gate that it concerns
is undecided, unless the user accepted its code. So is the gate of arms that were measured at
different times: what else changed in between could pass or fail a build. If arms are paired by
blocks in random order, dependence between trials affects both arms alike and leaves the gates
decided. A verdict alone is undecided only where the arms themselves show that the difference is
not the program's: elapsed time differs, user time does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

from benchwright.core.comparison import (
    ComparisonDesign,
    ComparisonResult,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    Verdict,
)
from benchwright.core.results import Figure, Finding, Severity, states
from benchwright.core.text import list_text
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding
from benchwright.findings.series import ExaminedSeries, examine_series
from benchwright.stats.aggregate import MetricColumn
from benchwright.stats.metric_rules import MetricRules
from benchwright.stats.moments import finite_values

_MOST_NAMED = 4
"""Results that a finding about many names."""
_HOLDS_GATES = ("not-interleaved", "gang-confounded")
"""Codes of findings that are not serious and make a gate undecided."""
_HOLDS_VERDICTS = ("difference-not-in-user-time",)
"""Codes of findings that make the verdict on elapsed time undecided."""
_PAIRED_OUT = ("dependent-trials",)
"""Codes of an arm's findings whose effect on a difference blocks in random order remove."""


def comparison_findings(comparison: ComparisonResult) -> tuple[Finding, ...]:
    """Return the findings about a comparison's design and its null comparison."""
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
    return (*found, *_not_in_user_time(comparison))


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


def _not_in_user_time(comparison: ComparisonResult) -> list[Finding]:
    """Return a note for each candidate with a different elapsed time but the same user time,
    if the trials were not interleaved and the programs mostly compute."""
    if comparison.rule.paired:
        return []
    found = []
    by_metric = {(v.metric, v.candidate): v for v in comparison.verdicts}
    for (metric, candidate), v in by_metric.items():
        user = by_metric.get(("user", candidate))
        if metric != "elapsed" or user is None or user.judged:
            continue
        if (difference := _elapsed_alone(v, user)) is not None:
            elapsed, own = (Figure(one, "+%") for one in difference)
            shown = states(elapsed=elapsed, user=own)
            subject = f"{v.baseline} and {candidate}"
            found.append(make_finding("difference-not-in-user-time", subject, shown))
    return found


def _elapsed_alone(v: MetricVerdict, user: MetricVerdict) -> tuple[float, float] | None:
    """Return the relative differences of elapsed and user time; None unless only elapsed time
    differs much."""
    values = (v.ratio.value, user.ratio.value, user.mean_baseline, v.mean_baseline)
    if not all(math.isfinite(value) and value > 0 for value in values):
        return None
    whole, own = math.log(v.ratio.value), math.log(user.ratio.value)
    least = min(v.mean_baseline, v.mean_candidate)
    mostly_computes = user.mean_baseline >= t.OWN_WORK * least
    is_clear = user.ratio.low > 1 or user.ratio.high < 1
    share = t.USER_DIFFERS if is_clear else t.USER_MAY_DIFFER
    is_explained = own / whole > share if whole else True
    if abs(whole) < math.log1p(t.ELAPSED_DIFFERS) or is_explained or not mostly_computes:
        return None
    return math.expm1(whole), math.expm1(own)


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
    grave = [f for f in findings if _concerns(comparison, gate, f)]
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


def _concerns(comparison: ComparisonResult, gate: GateVerdict, finding: Finding) -> bool:
    """Return whether a finding makes a gate undecided."""
    grave = finding.severity is Severity.SERIOUS or finding.code in _HOLDS_GATES
    if not grave or (comparison.rule.paired and finding.code in _PAIRED_OUT):
        return False
    others = set(comparison.arms[1:]) - {gate.candidate}
    return finding.metric in ("", gate.gate.metric) and finding.subject not in others


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
