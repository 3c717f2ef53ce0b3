"""The result of a ramp in sentences, and for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Unpack

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.criterion import criterion_name, criterion_text, criterion_value_text
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import duration_text, number_text, percent_text, plural, rate_text
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line
from benchwright.features.load.plan import LoadEnding
from benchwright.features.search.documents import SearchHead, StoredSearch, search_trial_entry
from benchwright.features.search.explained import SearchReport
from benchwright.features.search.ramp.queues import (
    LevelResources,
    QueueNetwork,
    QueuePoint,
    ServiceQueue,
)
from benchwright.features.search.ramp.types import (
    BandPoint,
    PreferredLaw,
    RampAxis,
    RampGoal,
    RampPoint,
    RampResult,
    RampStatus,
    ScalabilityModel,
    UslFit,
)
from benchwright.features.search.text import load_value_text, sample_text, spent_text
from benchwright.features.search.types import SearchTrial
from benchwright.findings.utilization import Utilization
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
# The result of a ramp as text: saturation, fitted law, profile by level.
#
# Decision: the saturation and the fitted law come first, each with its interval. The table has
# latency beside throughput, because throughput with unacceptable latency is not capacity.
# Source: Systems Performance, 12.3.7.


class RampReport(SearchReport, frozen=True, kw_only=True):
    """Everything in the report of a ramp; the result is None if nothing ran."""

    goal: RampGoal
    result: RampResult | None
    seed: int
    sample: Pairs = ()
    target: str = ""
    """What is known of a server that bw did not start."""
    resources: tuple[LevelResources, ...] = ()
    """Of the levels that were watched."""
    network: QueueNetwork | None = None

    def resources_at(self, level: float) -> tuple[Utilization, ...]:
        """Return the resources of a level, the busiest first; empty where it was not watched."""
        found = (one.resources for one in self.resources if one.level == level)
        return next(found, ())

    @property
    def own_findings(self) -> Sequence[Finding]:
        """The findings of the result."""
        return () if self.result is None else self.result.findings


def level_text(level: float, axis: RampAxis) -> str:
    """Return a level with its unit: `16 users`, `500/s`."""
    return load_value_text(level, in_users=axis is RampAxis.USERS)


# -- head --------------------------------------------------------------------------------


def ramp_sentence(report: RampReport) -> str:
    """Return the answer in one sentence: where throughput saturates, or why that is not known."""
    result, how = report.result, ramp_ending_text(report)
    if report.status == RampStatus.FAILED:
        return f"no answer: {report.detail}"
    if result is None or not result.points:
        return f"{how}: no level was measured"
    if result.saturation is not None:
        point = result.saturation
        level = level_text(point.level, result.axis)
        stopped = "" if report.status == RampStatus.SATURATED else f"{how}; "
        return f"{stopped}throughput saturates at {level}: {_throughput(point.throughput)}"
    best = max(result.points, key=lambda point: point.throughput.value)
    level = level_text(best.level, result.axis)
    return (
        f"{how}: saturation was not reached; the highest throughput is "
        f"{_throughput(best.throughput)}, at {level}"
    )


def ramp_headline(report: RampReport) -> str:
    """Return the answer in a few words: `Saturation at 5 users, stopped at the 30 s budget`."""
    result = report.result
    if report.status == RampStatus.FAILED or result is None or not result.points:
        return f"No answer: {report.status}"
    if result.saturation is None:
        return f"No saturation, {ramp_ending_text(report)}"
    answer = f"Saturation at {level_text(result.saturation.level, result.axis)}"
    if report.status == RampStatus.SATURATED:
        return f"{answer}: {rate_text(result.saturation.throughput.value)}"
    return f"{answer}, {ramp_ending_text(report)}"


def ramp_ending_text(report: RampReport) -> str:
    """Return how a ramp ended, in a few words: `stopped at the 30 s budget`."""
    axis = report.goal.axis
    match report.status:
        case RampStatus.HIGHEST:
            return f"stopped at {level_text(report.goal.highest, axis)}, the highest level"
        case RampStatus.ERRORS:
            return "stopped by errors"
        case RampStatus.BUDGET if report.goal.budget_s is not None:
            return f"stopped at the {duration_text(report.goal.budget_s)} budget"
        case "interrupted":
            return f"interrupted after {plural(len(report.trials), 'trial')}"
    return report.status


def ramp_fields(report: RampReport, *, verbose: bool = False) -> Iterator[Field]:
    """Yield what a ramp found, and how, as names and texts."""
    result = report.result
    if result is not None and result.points:
        yield ("highest", _highest(result))
        if report.goal.criteria:
            yield ("limits", _within(report.goal, result))
    if result is not None:
        yield from _law_rows(result, verbose=verbose)
    if report.network is not None:
        yield ("queues", one_line(_network_text(report.network)))
    if report.target:
        yield ("target", one_line(report.target))
    if report.sample:
        yield ("sample", sample_text(report.sample))
    making_s = sum(trial.trial.making_s for trial in report.trials)
    spent = spent_text(report.load_s, report.cost_s, len(report.trials), making_s)
    yield ("spent", f"{spent}; seed {report.seed}")
    yield ("ended", one_line(f"{report.status}: {report.detail}"))


def _highest(result: RampResult) -> str:
    """Return the highest throughput that was measured, with its response time."""
    best = max(result.points, key=lambda point: point.throughput.value)
    text = f"{_throughput(best.throughput)} at {level_text(best.level, result.axis)}"
    mean = best.response_ms_mean
    if mean is not None:
        text += f", mean response {number_text(mean)} ms"
    return text


def _within(goal: RampGoal, result: RampResult) -> str:
    """Return up to which level the limits were held."""
    limits = " and ".join(map(criterion_text, goal.criteria))
    if result.within is None:
        return f"{limits}: exceeded at the first level"
    level = level_text(result.within.level, result.axis)
    return f"{limits}: held by each run up to {level}"


def exceeded_text(point: RampPoint, goal: RampGoal) -> str:
    """Return the limits that a level exceeds, with its values; empty: none."""
    exceeded = (one for one in goal.criteria if one.key in point.exceeded)
    texts = (
        f"{criterion_name(one)} {criterion_value_text(one, point.limits.get(one.key))}"
        for one in exceeded
    )
    return ", ".join(texts)


def _throughput(estimate: Estimate) -> str:
    text = rate_text(estimate.value)
    if not math.isfinite(estimate.low):
        return f"{text} (no interval is known)"
    return f"{text} ({range_text(estimate)} at {percent_text(estimate.confidence, 10)})"


def range_text(estimate: Estimate) -> str:
    """Return `LOW to HIGH`, with at most four digits."""
    low, high = (_short(end) for end in (estimate.low, estimate.high))
    return f"{low} to {high}"


def _short(value: float) -> str:
    if math.isinf(value):
        return "any"
    return number_text(value)


_UNKNOWN_SHARE = 0.5
"""Width of the interval of sigma from which on the levels do not show its size."""


def _law_rows(result: RampResult, *, verbose: bool) -> Iterator[Field]:
    """Yield the preferred law as a sentence; `verbose`: also its parameters and the whole law."""
    fit = result.usl
    if fit is None:
        yield ("law", f"not fitted: {result.usl_absent}")
        return
    law = fit.law or _whole_law(fit)
    yield ("law", _law_sentence(fit, law, len(result.points)))
    if not verbose:
        return
    yield ("fit", _goodness(fit))
    if fit.preferred is not ScalabilityModel.USL:
        reason = "the data do not ask for it"
        if fit.preferred is ScalabilityModel.SATURATING:
            reason = "the levels do not show its fall"
        if fit.preferred is ScalabilityModel.NONE:
            reason = "it misses the levels too"
        maximum = _maximum(fit)
        yield ("whole law", f"{maximum or 'the fitted throughput never falls'}; {reason}")


_MOST_QUEUES = 3
"""Queues in the sentence; those that limit throughput last are left out."""


def _network_text(network: QueueNetwork) -> str:
    """Return what an operation costs at each queue, the throughput that this allows, and whether the
    higher levels have it."""
    costs = [
        f"{one.name} {duration_text(one.demand_s)}"
        + (f" of {number_text(one.servers)}" if one.servers != 1 else "")
        for one in network.queues[:_MOST_QUEUES]
    ]
    if network.elsewhere_s > 0:
        costs.append(f"elsewhere {duration_text(network.elsewhere_s)}")
    first = network.queues[0]
    text = (
        f"{', '.join(costs)} an operation; {first.name} allows {rate_text(first.most_per_s)}, from "
        f"{number_text(network.knee)} users"
    )
    tested = [point for point in network.points if not point.fitted]
    worst = max(network.misses or tested, key=lambda point: abs(point.difference))
    less = worst.difference < 0
    text += (
        f"; at {worst.users} users that predicts {rate_text(worst.predicted)}, and measured is "
        f"{percent_text(abs(worst.difference))} {'less' if less else 'more'}"
    )
    if worst.within:
        return f"{text}, which noise or uneven service times may explain"
    if less:
        return f"{text}: something else limits it, or an operation costs more with more users"
    return f"{text}: an operation costs less with more users, or a resource serves several at once"


def _law_sentence(fit: UslFit, law: PreferredLaw, levels: int) -> str:
    """Return what the preferred law says of the server."""
    match fit.preferred:
        case ScalabilityModel.LINEAR:
            rate = rate_text(law.gamma, 4)
            return f"linear: each user adds {rate}, and no limit shows"
        case ScalabilityModel.AMDAHL:
            top = "" if law.asymptote is None else f" at {rate_text(law.asymptote, 4)}"
            share = fit.sigma
            text = f"Amdahl's law: throughput levels off{top}"
            if fit.sharper_fits:
                return f"{text}; a law with a sharper knee fits about as well, so why is not known"
            if share.high - share.low >= _UNKNOWN_SHARE:
                return (
                    f"{text}; the share of the work that is done one at a time is not known "
                    f"from {levels} levels"
                )
            ends = f"{percent_text(share.low)} to {percent_text(share.high)}"
            return (
                f"{text}, because {percent_text(law.sigma)} of the work is done one at a time "
                f"({ends} at {percent_text(share.confidence, 10)})"
            )
        case ScalabilityModel.SATURATING:
            top = "" if law.asymptote is None else f" at {rate_text(law.asymptote, 4)}"
            return f"saturating law: throughput levels off{top}, more sharply than by Amdahl's law"
        case ScalabilityModel.NONE:
            return "no law fits: each misses a level by more than the level is uncertain"
    maximum = _maximum(fit) or "the fitted throughput never falls"
    return f"Universal Scalability Law: {maximum}"


def _whole_law(fit: UslFit) -> PreferredLaw:
    """Return the whole law's parameters, for a result without a preferred law."""
    return PreferredLaw(
        gamma=fit.gamma.value, sigma=fit.sigma.value, kappa=fit.kappa.value, asymptote=fit.asymptote
    )


def _maximum(fit: UslFit) -> str:
    """Return where the throughput of the whole law is highest; empty if it never falls."""
    if fit.users_at_peak is None or fit.peak_throughput is None:
        return ""
    users = fit.users_at_peak
    low, high = _short(users.low), _short(users.high)
    ends = f"{low} or more" if math.isinf(users.high) else f"{low} to {high}"
    confidence = percent_text(users.confidence, 10)
    return (
        f"throughput is highest at {_short(users.value)} users ({ends} at {confidence}), with "
        f"{rate_text(fit.peak_throughput, 4)}, and falls beyond"
    )


def _goodness(fit: UslFit) -> str:
    text = f"points within ±{percent_text(fit.residual)} of the curve"
    if fit.r_squared is not None:
        text += f", R² {fit.r_squared:.4f}"
    return f"{text}, {fit.n} trials, intervals at {percent_text(fit.gamma.confidence, 10)}"


# -- the document ------------------------------------------------------------------------


class IntervalEntry(msgspec.Struct, frozen=True):
    """A value with its interval; unbounded or unknown ends are null."""

    value: float | None
    interval: Ends
    confidence: float
    method: str
    n: int
    unit: str


class RampPointEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements at one level."""

    level: float
    throughput: IntervalEntry
    offered_rate: float | None
    response_ms_mean: float | None
    response_ms_p50: float | None
    response_ms_p99: float | None
    streams: dict[str, float | None]
    """Of answers that are read as events, by the name of the value; empty: none are, or a trial does
    not know it."""
    infinite: tuple[str, ...]
    """The infinite ones of the responses, of `streams` and of `limits`; their values are null."""
    limits: dict[str, float | None]
    """Values of the limits, by the name of the value; absent: a trial does not know it."""
    exceeded: tuple[str, ...]
    """Names of the values that a trial of the level did not hold."""
    late_p99_ms: float | None
    """How late the generator was, 99th percentile, at most in a trial; null: it does not say."""
    error_share: float | None
    efficiency: float | None
    trials: int
    resources: dict[str, float]
    """The share of its capacity that each resource was used; empty where a trial was not watched."""


class QueueNetworkEntry(msgspec.Struct, frozen=True):
    """The closed network of queues, the first one limiting throughput first."""

    queues: tuple[ServiceQueue, ...]
    elsewhere_s: float
    knee: float
    points: tuple[QueuePoint, ...]


class UslEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fitted Universal Scalability Law."""

    preferred: ScalabilityModel
    gamma: IntervalEntry
    sigma: IntervalEntry
    kappa: IntervalEntry
    users_at_peak: IntervalEntry | None
    peak_throughput: float | None
    asymptote: float | None
    law: PreferredLaw | None
    residual: float
    r_squared: float | None
    refuted: bool
    misfit_p: float | None
    n: int


class BandEntry(msgspec.Struct, frozen=True):
    """The fitted throughput at a number of users."""

    users: float
    low: float | None
    middle: float | None
    high: float | None


class RampTrialEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of a ramp."""

    number: int
    level: float
    users: int | None
    duration: float
    values: dict[str, float | None]
    infinite: tuple[str, ...]
    """Keys of `values` that are infinite; their values are null."""
    lasted_s: float
    cost_s: float
    offered: int | None
    completed: int | None
    errors: int
    ending: LoadEnding
    failure: str | None
    late_p99_ms: float | None
    """How late the generator came to its operations, 99th percentile; null: it does not say."""
    marks: tuple[str, ...]
    purpose: str
    started_ns: int | None
    making_s: float | UnsetType = UNSET
    """How long the file set was examined and made [s]."""


class RampDocument(
    SearchHead, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/ramp/1"
):
    """The result of a ramp: saturation, profile, fitted law and trials."""

    axis: RampAxis
    seed: int
    sample: dict[str, str]
    saturation: RampPointEntry | None
    within: RampPointEntry | None
    """The highest level up to which each trial held all limits."""
    points: tuple[RampPointEntry, ...]
    usl: UslEntry | None
    usl_absent: str | None
    """Why no law was fitted."""
    band: tuple[BandEntry, ...]
    network: QueueNetworkEntry | None
    """null: not known."""
    seconds: float
    load_s: float
    trials: tuple[RampTrialEntry, ...]
    findings: tuple[FindingEntry, ...]
    plots: tuple[FileEntry, ...]


def ramp_document(
    report: RampReport,
    band: Sequence[BandPoint],
    plots: Sequence[FileEntry] = (),
    **stored: Unpack[StoredSearch],
) -> str:
    """Return the document as JSON. `band` is the whole law's curve."""
    result = report.result
    saturation = None if result is None else result.saturation
    within = None if result is None else result.within
    law = None if result is None else result.usl
    document = RampDocument(
        **stored,
        status=report.status,
        detail=report.detail,
        axis=report.goal.axis,
        seed=report.seed,
        sample=dict(report.sample),
        saturation=None if saturation is None else _point_entry(saturation, report),
        within=None if within is None else _point_entry(within, report),
        points=()
        if result is None
        else tuple(_point_entry(point, report) for point in result.points),
        usl=None if law is None else _usl_entry(law),
        usl_absent=None if result is None else result.usl_absent or None,
        band=entries(BandEntry, band),
        network=None if report.network is None else entry(QueueNetworkEntry, report.network),
        seconds=report.cost_s,
        load_s=report.load_s,
        trials=tuple(map(_trial_entry, report.trials)),
        findings=entries(FindingEntry, report.findings),
        plots=tuple(plots),
    )
    return encode(document)


def _point_entry(point: RampPoint, report: RampReport) -> RampPointEntry:
    responses = {
        "response_ms_mean": point.response_ms_mean,
        "response_ms_p50": point.response_ms_p50,
        "response_ms_p99": point.response_ms_p99,
    }
    return entry(
        RampPointEntry,
        point,
        throughput=_interval_entry(point.throughput),
        offered_rate=point.offered,
        infinite=infinite(responses | point.streams | point.limits),
        resources={one.name: one.share for one in report.resources_at(point.level)},
    )


def _interval_entry(estimate: Estimate) -> IntervalEntry:
    return entry(IntervalEntry, estimate, interval=(estimate.low, estimate.high))


def _usl_entry(fit: UslFit) -> UslEntry:
    peak = fit.users_at_peak
    return entry(
        UslEntry,
        fit,
        gamma=_interval_entry(fit.gamma),
        sigma=_interval_entry(fit.sigma),
        kappa=_interval_entry(fit.kappa),
        users_at_peak=None if peak is None else _interval_entry(peak),
        law=fit.law,
    )


def _trial_entry(search_trial: SearchTrial) -> RampTrialEntry:
    return search_trial_entry(
        RampTrialEntry, search_trial, level=search_trial.trial.rate, users=search_trial.probe.users
    )
