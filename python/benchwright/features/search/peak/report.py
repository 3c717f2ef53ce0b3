"""The result of a peak search in sentences, and for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.criterion import Criterion, criterion_text
from benchwright.core.plan import Pairs
from benchwright.core.results import Finding
from benchwright.core.text import (
    duration_text,
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
)
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line
from benchwright.features.load.plan import LoadEnding
from benchwright.features.search.documents import SearchHead, StoredSearch, search_trial_entry
from benchwright.features.search.explained import SearchReport
from benchwright.features.search.peak.policies.check import check_text
from benchwright.features.search.peak.policies.evidence import (
    in_asked_units,
    is_void,
    measured_bounds,
    tallies,
)
from benchwright.features.search.text import (
    binding_criterion,
    claim_sentence,
    claim_text,
    interval_text,
    peak_rate_text,
    sample_text,
    spent_text,
)
from benchwright.features.search.types import (
    Claim,
    ClaimKind,
    ClaimResult,
    CurvePoint,
    PeakStatus,
    RateTally,
    SearchTrial,
    VarianceComponents,
)
from benchwright.report.documents import (
    Ends,
    FileEntry,
    FindingEntry,
    encode,
    entries,
    entry,
    infinite,
)

# --------------------------------------------------------------------------------------
# The result of a peak search as text: answer, trials, curve, findings.
#
# Decision: the answer and its claims come first, then the cost and the sources of noise. The
# tables (view.py) show why. Findings follow the figures.

_NOISE_S = 60.0
"""Length of a run for which the noise is reported."""


class PeakReport(SearchReport, frozen=True, kw_only=True):
    """Everything in the report of a search; `results` are None if it was interrupted before
    anything was known."""

    criteria: tuple[Criterion, ...]
    claims: tuple[Claim, ...]
    results: tuple[ClaimResult | None, ...]
    """One for each claim."""
    policy: str
    seed: int
    budget_s: float | None = None
    """Time budget of the search [s]; None: unlimited."""
    sample: Pairs = ()
    target: str = ""
    """What is known of a server that bw did not start."""

    @property
    def result(self) -> ClaimResult | None:
        """The result for the first claim."""
        return self.results[0]

    @property
    def own_findings(self) -> Sequence[Finding]:
        """The findings of the results."""
        return [f for result in self.results if result is not None for f in result.findings]


def peak_ending_text(report: PeakReport) -> str:
    """Return how a search ended, in a few words: `stopped at the 45 s budget`."""
    if report.status == PeakStatus.BUDGET and report.budget_s is not None:
        return f"stopped at the {duration_text(report.budget_s)} budget"
    if report.status == "interrupted":
        return f"interrupted after {plural(len(report.trials), 'trial')}"
    return report.status


def peak_sentence(report: PeakReport) -> str:
    """Return the answer in one sentence; of a search without one, why it ended and what is open:
    `stopped at the 45 s budget: best answer 11,545/s, between 6,212.1 and 12,717/s; 43.3 %
    sure that the true peak is within ±5 % (95 % required)`. `_open_claim` has the other reasons."""
    result = report.result
    match report.status:
        case PeakStatus.FAILED:
            return f"no answer: {report.detail}"
        case PeakStatus.FAILS_AT_LOWEST | PeakStatus.NEVER_FAILS if result is not None:
            return f"peak rate {_peak(result)}: {report.detail}"
        case PeakStatus.FOUND if result is not None:
            limits = " and ".join(map(criterion_text, report.criteria))
            text = f"peak rate {_peak(result)}: the highest rate with {limits}"
            return f"{text}; {_claims_text(report)}"
    how = peak_ending_text(report)
    if report.status == PeakStatus.UNDECIDED:
        how = f"undecided, {report.detail.partition('; ')[0]}"
    open_claims = (
        (claim, claim_result)
        for claim, claim_result in zip(report.claims, report.results, strict=True)
        if claim_result is not None and claim_result.status is not PeakStatus.FOUND
    )
    claim, best = next(open_claims, (None, None))
    if claim is None or best is None or best.peak_rate is None:
        return f"{how}: no answer"
    if best.bound_kind is not None:
        return f"{how}: {peak_rate_text(best)}; {_one_sided(report, best.bound_kind)}"
    text = f"{how}: best answer {rate_text(best.peak_rate)}"
    if best.interval is not None:
        low, high = best.interval.low, best.interval.high
        text += f", between {number_text(low, 5)} and {rate_text(high)}"
    if best.claim_probability is not None:
        text += f"; {_open_claim(claim, best.claim_probability, best.stop_probability)}"
    return text


def _one_sided(report: PeakReport, bound: str) -> str:
    """Return what the trials show on the other side of a bound."""
    if bound == "upper":
        return "no trial held every limit"
    failed = measured_bounds(_rates(report)).failed
    if failed is None:
        return "no rate exceeded a limit"
    return f"a limit was exceeded from {rate_text(failed)} on"


def peak_headline(report: PeakReport) -> str:
    """Return the answer in a few words: `Peak rate 254.47/s, undecided`."""
    result = report.result
    if result is None or result.peak_rate is None:
        return f"No peak rate: {report.status}"
    rate = peak_rate_text(result)
    known = (PeakStatus.FOUND, PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS)
    if report.status in known:
        return f"Peak rate {rate}"
    return f"Peak rate {rate}, {peak_ending_text(report)}"


def _open_claim(claim: Claim, reached: float, needed: float | None) -> str:
    """Return why a claim with this probability is open; `needed` is the probability at which the
    search may stop, None where it was not recorded."""
    text = f"{probability_text(reached)} sure that {claim_sentence(claim)}"
    asked = percent_text(claim.confidence)
    if reached < claim.confidence:
        return f"{text} ({asked} required)"
    if needed is None:
        needed_text = f"more than {asked}"
    elif reached < needed:
        needed_text = probability_text(needed)
    else:
        return f"{text}, but too few trials are near the limit to rely on it"
    return (
        f"{text}; because it is checked after every trial, it must reach {needed_text} for a "
        f"confidence of {asked}"
    )


def _claims_text(report: PeakReport) -> str:
    """Return the claims that were reached, each with its probability."""
    texts = [
        f"{claim.text} holds with a probability of {probability_text(claim_result.claim_probability)}"
        for claim, claim_result in zip(report.claims, report.results, strict=True)
        if claim_result is not None and claim_result.claim_probability is not None
    ]
    return ", ".join(texts) or "the policy states no probability"


def _rates(report: PeakReport) -> tuple[RateTally, ...]:
    """Return how often each rate held and failed, without the trials that decide nothing."""
    trials = [
        trial.trial
        for trial in report.trials
        if trial.trial.users is None and not is_void(report.criteria, trial.trial)
    ]
    return tallies(report.criteria, in_asked_units(trials))


def _measured(report: PeakReport) -> Iterator[str]:
    """Yield which rates held and which failed, and how often."""
    rates = _rates(report)
    if not rates:
        return
    bounds = measured_bounds(rates)
    if bounds.held is not None:
        yield f"every limit held up to {_counted(rates, bounds.held, held=True)}"
    if bounds.failed is not None:
        yield f"a limit was exceeded from {_counted(rates, bounds.failed, held=False)} on"
    mixed = [
        tally for tally in rates if (bounds.held or 0.0) < tally.rate < (bounds.failed or math.inf)
    ]
    if mixed and bounds.held is not None and bounds.failed is not None:
        held, failed = (sum(t.held for t in mixed), sum(t.failed for t in mixed))
        yield f"between them {plural(held, 'trial')} held and {failed} did not"
    void = sum(is_void(report.criteria, trial.trial) for trial in report.trials)
    if void:
        yield f"{plural(void, 'trial')} decided nothing: the generator was late"


def _counted(rates: Sequence[RateTally], rate: float, *, held: bool) -> str:
    """Return a rate with how often it held or failed: `12,457/s (2 of 2 trials)`."""
    tally = next(rate_tally for rate_tally in rates if rate_tally.rate == rate)
    some = tally.held if held else tally.failed
    return f"{rate_text(rate)} ({some} of {plural(tally.held + tally.failed, 'trial')})"


def peak_fields(report: PeakReport) -> Iterator[Field]:
    """Yield what a peak search found, and how, as names and texts."""
    result = report.result
    for claim, claim_result in zip(report.claims, report.results, strict=True):
        yield ("claim", _claim(claim, claim_result, report.criteria))
    exceeded = any(tally.failed for tally in _rates(report))
    for criterion in report.criteria:
        limits = (
            result is not None
            and len(report.criteria) > 1
            and exceeded
            and result.binding == criterion.key
        )
        yield ("limit", criterion_text(criterion) + " (binding)" * limits)
    if report.target:
        yield ("target", one_line(report.target))
    if report.sample:
        yield ("sample", sample_text(report.sample))
    if measured := "; ".join(_measured(report)):
        yield ("trials", measured)
    if result is not None and result.peak_rate is not None:
        checked = check_text(result.check, result.peak_rate)
        if checked:
            yield ("check", checked)
    yield ("spent", _spent(report))
    if result is not None:
        yield from _noise(result)
    yield ("ended", one_line(f"{report.status}: {report.detail}"))


def _peak(result: ClaimResult) -> str:
    if result.peak_rate is None:
        return "unknown"
    rate = peak_rate_text(result)
    if result.bound_kind is not None:
        return rate
    interval = interval_text(result.interval)
    return f"{rate} ({interval})" if interval else f"{rate} (no interval is known)"


def _claim(claim: Claim, result: ClaimResult | None, criteria: tuple[Criterion, ...]) -> str:
    binding = None if result is None else binding_criterion(result, criteria)
    text = f"{claim.text}: {claim_text(claim, binding)}"
    if result is None or result.status in NO_CLAIM:
        return f"{text}: not claimed"
    if result.claim_probability is None:
        none = "the policy states no probability"
        return f"{text}: {none if result.status is PeakStatus.FOUND else 'not established'}"
    at = "" if result.peak_rate is None else f" at {rate_text(result.peak_rate)}"
    return f"{text}: probability {probability_text(result.claim_probability)}{at}"


NO_CLAIM = (PeakStatus.FAILED, PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS)
"""Endings that claim nothing of an answer."""


def _spent(report: PeakReport) -> str:
    making_s = sum(trial.trial.making_s for trial in report.trials)
    spent = spent_text(report.load_s, report.cost_s, len(report.trials), making_s)
    return f"{spent}; policy {report.policy}, seed {report.seed}"


def _noise(result: ClaimResult) -> Iterator[Field]:
    """Yield the noise within a trial of `_NOISE_S` and between trials, as standard deviations."""
    within, between = result.components.within_s, result.components.between
    parts = []
    if within is not None:
        share = percent_text(math.sqrt(max(within, 0.0) / _NOISE_S))
        parts.append(f"±{share} within a trial of {duration_text(_NOISE_S)}")
    if between is not None:
        parts.append(f"±{percent_text(between)} between trials")
    if parts:
        yield ("noise", f"{', '.join(parts)} (standard deviation of the response)")


# -- the document ------------------------------------------------------------------------


class CriterionEntry(msgspec.Struct, frozen=True):
    """Condition that must hold at a load."""

    key: str
    statistic: Literal["mean", "percentile", "share", "ratio", "metric"]
    limit: float
    unit: str
    better: Literal["lower", "higher"]
    of: str = ""
    """The group of the operations; empty: all."""


class ClaimEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and its answer; unknown members are null."""

    kind: ClaimKind
    tolerance: float
    confidence: float
    claim: str
    claim_status: PeakStatus | None
    claim_probability: float | None
    peak_rate: float | None
    bound: Literal["lower", "upper"] | None
    """What `peak_rate` is a bound of; null: it is an estimate."""
    interval: Ends | None
    interval_confidence: float | None
    interval_method: str | None
    check: tuple[RateTally, ...]


class PeakTrialEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of a search over rates."""

    number: int
    rate: float
    duration: float
    response: float | None
    """The mean response [ms]; if that is not a criterion, the value of the first one."""
    values: dict[str, float | None]
    infinite: tuple[str, ...]
    """Keys of `values` that are infinite; their values are null."""
    lasted_s: float
    cost_s: float
    offered: int | None
    offered_rate: float | None
    completed: int | None
    errors: int
    ending: LoadEnding
    failure: str | None
    late_p99_ms: float | None
    """How late the generator came to its operations, 99th percentile; null: it does not say."""
    marks: tuple[str, ...]
    users: int | None
    """Of a closed loop; `rate` is the same number then."""
    void: bool
    """Whether it exceeded a limit, perhaps only because the generator was late, so that it decides
    nothing."""
    purpose: str
    started_ns: int | None
    making_s: float | UnsetType = UNSET
    """How long the file set was examined and made [s]."""


class CurvePointEntry(msgspec.Struct, frozen=True):
    """The response at one rate, with its band."""

    rate: float
    low: float | None
    middle: float | None
    high: float | None
    infinite: tuple[str, ...]
    """The infinite ones of the three figures; their values are null."""


class PeakDocument(
    SearchHead, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/peak/1"
):
    """The result of a peak search: the request, the answer to the first claim, all claims,
    the trials and the curve."""

    policy: str
    seed: int
    sample: dict[str, str]
    criteria: tuple[CriterionEntry, ...]
    claim: str
    claim_status: PeakStatus | None
    claim_probability: float | None
    peak_rate: float | None
    bound: Literal["lower", "upper"] | None
    """What `peak_rate` is a bound of; null: it is an estimate."""
    interval: Ends | None
    interval_confidence: float | None
    interval_method: str | None
    check: tuple[RateTally, ...]
    claims: tuple[ClaimEntry, ...]
    binding: str | None
    """The key of the binding criterion."""
    seconds: float
    load_s: float
    trials: tuple[PeakTrialEntry, ...]
    components: VarianceComponents
    curve: tuple[CurvePointEntry, ...]
    shape: None
    """Always null: of a policy that earlier versions had."""
    findings: tuple[FindingEntry, ...]
    plots: tuple[FileEntry, ...]


def peak_document(
    report: PeakReport, plots: Sequence[FileEntry] = (), **stored: Unpack[StoredSearch]
) -> str:
    """Return the document as JSON."""
    result = report.result
    answered = zip(report.claims, report.results, strict=True)
    document = PeakDocument(
        **stored,
        status=report.status,
        detail=report.detail,
        policy=report.policy,
        seed=report.seed,
        sample=dict(report.sample),
        criteria=entries(CriterionEntry, report.criteria),
        **_answer(result, report.claims[0]),
        claims=tuple(
            entry(ClaimEntry, claim, **_answer(claim_result, claim))
            for claim, claim_result in answered
        ),
        binding=None if result is None else result.binding or None,
        seconds=report.cost_s,
        load_s=report.load_s,
        trials=tuple(_trial_entry(trial, report.criteria) for trial in report.trials),
        components=VarianceComponents(None, None) if result is None else result.components,
        curve=() if result is None else tuple(map(_curve_point, result.curve)),
        shape=None,
        findings=entries(FindingEntry, report.findings),
        plots=tuple(plots),
    )
    return encode(document)


def _answer(result: ClaimResult | None, claim: Claim) -> dict[str, Any]:
    """Return the members that answer a claim."""
    interval = None if result is None else result.interval
    return {
        "claim": claim.text,
        "claim_status": None if result is None else result.status,
        "claim_probability": None if result is None else result.claim_probability,
        "peak_rate": None if result is None else result.peak_rate,
        "bound": None if result is None else result.bound_kind,
        "check": () if result is None else result.check,
        "interval": None if interval is None else (interval.low, interval.high),
        "interval_confidence": None if interval is None else interval.confidence,
        "interval_method": None if interval is None else interval.method,
    }


def _trial_entry(search_trial: SearchTrial, criteria: Sequence[Criterion]) -> PeakTrialEntry:
    trial = search_trial.trial
    keys = [criterion.key for criterion in criteria]
    mean = "response_ms_mean"
    key = mean if mean in keys or mean in trial.values else keys[0]
    return search_trial_entry(
        PeakTrialEntry,
        search_trial,
        response=trial.values.get(key),
        offered_rate=None if trial.offered is None else trial.offered_rate,
        void=is_void(criteria, trial),
    )


def _curve_point(point: CurvePoint) -> CurvePointEntry:
    band = {"low": point.low, "middle": point.middle, "high": point.high}
    return entry(CurvePointEntry, point, infinite=infinite(band))
