"""A response surface in sentences, and for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, Unpack

import msgspec

from benchwright.core.results import Finding
from benchwright.core.text import (
    binary_size_text,
    duration_text,
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
)
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line
from benchwright.features.search.documents import SearchHead, StoredSearch
from benchwright.features.search.explained import SearchReport
from benchwright.features.search.surface.answers import (
    Basis,
    BestSamples,
    Chance,
    Crossing,
    SurfaceAnswers,
    surface_answers,
)
from benchwright.features.search.surface.model import has_interval
from benchwright.features.search.surface.types import (
    CrossValidation,
    DesignKind,
    Factor,
    GangEffects,
    ModelFit,
    ModelKind,
    Prediction,
    SampleResult,
    SurfaceGoal,
    SurfaceQuestions,
    SurfaceResult,
)
from benchwright.features.search.text import (
    gangs_text,
    interval_text,
    peak_rate_text,
    sample_text,
    spent_text,
)
from benchwright.features.search.types import Claim, PeakStatus
from benchwright.report.documents import Ends, FileEntry, FindingEntry, encode, entries, entry

# --------------------------------------------------------------------------------------
# A response surface as text: the model and its error, then the table of samples.
#
# Decision: every row has the measured peak beside the model's prediction, to show where the model
# does not fit. Only a peak whose claim held is in the column `measured`; what the other searches
# know is a column of its own, in words. For a large factor space the table has only the samples
# that were searched, and a line says how many are left out.

_MAPPED = ("complete", "deadline")
"""Statuses of a map that was made as requested."""
MOST_ROWS = 64
"""Maximum rows of a table of all samples; larger spaces show only searched samples."""
_SEARCH_SUFFIX = " search"
"""Suffix of the subject of a finding about one sample's search."""


class SurfaceReport(SearchReport, frozen=True, kw_only=True):
    """Everything in the report of a surface."""

    goal: SurfaceGoal
    claims: tuple[Claim, ...]
    policy: str
    result: SurfaceResult
    asked: tuple[Prediction, ...] = ()
    """The predictions that `--predict` requested."""
    questions: SurfaceQuestions = SurfaceQuestions()

    def answers(self) -> SurfaceAnswers:
        """Return the best sample, and the answers to the questions."""
        return surface_answers(self.goal, self.result.results, self.questions)

    @property
    def own_findings(self) -> Sequence[Finding]:
        """The findings of the result."""
        return self.result.findings


def named_findings(report: SurfaceReport) -> list[tuple[str, Finding]]:
    """Return the findings, each with the sample of its search; empty if it concerns them all."""
    return [
        (
            finding.subject.removesuffix(_SEARCH_SUFFIX)
            if finding.subject.endswith(_SEARCH_SUFFIX)
            else "",
            finding,
        )
        for finding in report.findings
    ]


class PeakOrder(msgspec.Struct, frozen=True):
    """What the searches establish about the order of the samples' peaks."""

    known: tuple[SampleResult, ...]
    """Samples whose claim held, or whose peak has a bound, the highest first."""
    open: int
    """Number of the other samples that were searched: each may be the highest or the lowest."""
    highest: tuple[SampleResult, ...]
    """Those of the known that may be the highest, because their intervals overlap."""
    lowest: tuple[SampleResult, ...]
    """Those that may be the lowest."""

    @property
    def measured(self) -> tuple[SampleResult, ...]:
        """The samples whose claim held, the highest first."""
        return tuple(sample_result for sample_result in self.known if sample_result.claim_held)


def peak_order(result: SurfaceResult) -> PeakOrder:
    """Return the order of the peaks of the samples that were searched."""
    ends = [
        (_known_ends(sample_result), sample_result)
        for sample_result in result.by_sample.values()
        if sample_result.found.peak_rate is not None
    ]
    known = [(pair, sample_result) for pair, sample_result in ends if pair is not None]
    known.sort(key=lambda pair: pair[1].found.peak_rate or 0.0, reverse=True)
    floor = max((low for (low, _), _ in known), default=0.0)
    ceiling = min((high for (_, high), _ in known), default=math.inf)
    return PeakOrder(
        known=tuple(sample_result for _, sample_result in known),
        open=result.searched - len(known),
        highest=tuple(sample_result for (_, high), sample_result in known if high >= floor),
        lowest=tuple(sample_result for (low, _), sample_result in known if low <= ceiling),
    )


def _known_ends(result: SampleResult) -> tuple[float, float] | None:
    """Return between which rates the peak of a sample is known to be [1/s]; None if the search
    ended without its claim. A claim without an interval counts with its tolerance."""
    claim_result = result.found
    rate, interval = claim_result.peak_rate, claim_result.interval
    assert rate is not None
    match claim_result.status:
        case PeakStatus.FOUND if interval is not None and has_interval(result):
            return interval.low, interval.high
        case PeakStatus.FOUND:
            by = claim_result.claim.tolerance
            return rate * (1 - by), rate * (1 + by)
        case PeakStatus.NEVER_FAILS:
            return rate, math.inf
        case PeakStatus.FAILS_AT_LOWEST:
            return 0.0, rate
    return None


def surface_sentence(report: SurfaceReport) -> str:
    """Return the answer in one sentence: where the peak is highest and lowest, as far as that is
    established, with the intervals and the number of samples whose claim held."""
    result, order = report.result, peak_order(report.result)
    count = plural(report.goal.count, "sample")
    searched = f"{result.searched} of {count} searched"
    if result.left_out:
        searched += f" by the deadline, {result.left_out} missing"
    ended = "" if report.status in _MAPPED else f"{report.status}: "
    if not order.known:
        why = f"; {report.detail}" if ended and report.status != "undecided" else ""
        return f"{ended}no sample has a peak rate whose claim held; {searched}{why}"
    held = f"the claim held at {len(order.measured)} of {result.searched}"
    if order.open:
        return (
            f"{ended}which sample has the highest or the lowest peak rate is not established: "
            f"{held}{_measured_text(order)}; {searched}"
        )
    return f"{ended}{_order_text(order)}; {searched}, {held}"


def _measured_text(order: PeakOrder) -> str:
    """Return the range of the measured peaks, after a comma; empty without any."""
    if not order.measured:
        return ""
    first, last = order.measured[0], order.measured[-1]
    low = f"{_answer_text(last)} at {sample_text(last.sample)}"
    if first is last:
        return f", {low}"
    return f", from {low} to {_answer_text(first)} at {sample_text(first.sample)}"


def _order_text(order: PeakOrder) -> str:
    """Return where the highest and the lowest peak are, if every sample has a known peak."""
    samples = len(order.known)
    if samples == 1:
        (sample_result,) = order.known
        return (
            f"the peak rate at {sample_text(sample_result.sample)} is {_answer_text(sample_result)}"
        )
    if len(order.highest) == len(order.lowest) == samples:
        return (
            f"no difference between the peak rates of {samples} samples is established: their "
            f"intervals overlap, {_span_text(order.known)}"
        )
    highest, lowest = _place_text(order.highest), _place_text(order.lowest)
    return f"the peak rate is highest {highest}; lowest {lowest}"


def _place_text(candidates: Sequence[SampleResult]) -> str:
    """Return where an extreme is: at one sample, or at one of those whose intervals overlap."""
    if len(candidates) == 1:
        (sample_result,) = candidates
        return f"at {sample_text(sample_result.sample)}: {_answer_text(sample_result)}"
    names = f"one of {len(candidates)} samples"
    if len(candidates) == 2:
        names = " or ".join(sample_text(candidate.sample) for candidate in candidates)
    return f"at {names}, whose intervals overlap: {_span_text(candidates)}"


def _span_text(results: Sequence[SampleResult]) -> str:
    """Return between which rates the peaks of these samples are."""
    ends = [pair for result in results if (pair := _known_ends(result)) is not None]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if math.isinf(high):
        return f"{rate_text(low)} or more"
    return f"{number_text(low, 5)} to {rate_text(high)}"


def _answer_text(result: SampleResult) -> str:
    """Return the peak of a sample with its interval, or its bound."""
    rate, interval = _answer_texts(result)
    return f"{rate} ({interval})" if interval else rate


def _answer_texts(result: SampleResult) -> tuple[str, str]:
    """Return the peak of a sample, or its bound, and its interval, empty if it has none."""
    claim_result = result.found
    return peak_rate_text(claim_result), interval_text(
        claim_result.interval
    ) if result.claim_held else ""


def surface_headline(report: SurfaceReport) -> str:
    """Return the answer in a few words, with its interval in parentheses: `Highest peak rate
    254.47/s, interrupted (240.1 to 270.3/s at 95 %)`."""
    result, order = report.result, peak_order(report.result)
    ended = "" if report.status == "complete" else f", {report.status}"
    if result.left_out:
        ended = f", {plural(result.left_out, 'sample')} missing at the deadline"
    samples = plural(result.searched, "sample")
    held = f"the claim held at {len(order.measured)} of {samples}"
    if not order.known:
        return f"No peak rate{ended}" + (f" ({held})" if result.results else "")
    if order.open:
        ended = "" if report.status == "undecided" else ended
        if order.measured:
            texts = filter(None, _answer_texts(order.measured[0]))
            held += f"; the highest of them {', '.join(texts)}"
        return f"Highest peak rate not established{ended} ({held})"
    if len(order.highest) > 1:
        place = f"at one of {len(order.highest)} samples"
        return f"Highest peak rate {place}{ended} ({_span_text(order.highest)})"
    rate, interval = _answer_texts(order.known[0])
    return f"Highest peak rate {rate}{ended}" + (f" ({interval})" if interval else "")


# -- head ------------------------------------------------------------------------------


def chance_text(chance: Chance) -> str:
    """Return a probability, or between which two it is: `87.3 %`, `0 to 87.3 %`, `unknown`."""
    least, most = chance.at_least, chance.at_most
    if chance.exact:
        return probability_text(most)
    if least <= 0 and most >= 1:
        return "unknown"
    return f"{number_text(100 * least, 3)} to {percent_text(most)}"


def best_text(best: BestSamples, factors: Sequence[Factor]) -> str:
    """Return which samples may be the best: `disks=4, nfsd=32 with 87 %; at 95 % one of 3 samples:
    disks 4; nfsd 16, 32`."""
    first, level = best.chances[0], percent_text(best.confidence, 10)
    if best.established is not None:
        return f"{sample_text(best.established)}, at {level}"
    lead = ""
    if first.exact:
        lead = f"{sample_text(first.sample)} with a probability of {chance_text(first)}; "
    region = [
        f"{factor.name} {', '.join(level for level in factor.levels if level in used)}"
        for place, factor in enumerate(factors)
        if len(used := {chance.sample[place][1] for chance in best.chances}) < len(factor.levels)
    ]
    text = f"{lead}at {level} one of {len(best.chances)} samples"
    if region:
        text += f": {'; '.join(region)}"
    unended = sum(chance.basis is Basis.OPEN for chance in best.chances)
    if unended:
        likely = max(best.chances, key=lambda chance: chance.rough)
        text += (
            f" ({unended} of them because their search ended without its claim); if rough answers "
            f"hold, {sample_text(likely.sample)} with {probability_text(likely.rough)}"
        )
    return text


def level_number_text(factor: Factor, number: float) -> str:
    """Return a number between the levels of a factor: `12.3`, `96 MiB`, `1.5 s`, `12 %`."""
    if factor.measure == "size":
        return binary_size_text(number)
    if factor.measure == "duration":
        return duration_text(number)
    return percent_text(number) if factor.measure == "share" else number_text(number, 3)


def crossing_text(crossing: Crossing, factor: Factor) -> str:
    """Return where lines cross, with the interval: `12.3 (10.1 to 15.2)`; empty if they hardly do."""
    level = crossing.level
    if level is None or crossing.crosses < 1 - level.confidence:
        return ""
    low, value, high = (
        level_number_text(factor, one) for one in (level.low, level.value, level.high)
    )
    return f"{value} ({low} to {high})"


def surface_fields(report: SurfaceReport, answers: SurfaceAnswers | None = None) -> Iterator[Field]:
    """Yield what a surface found, and how, as names and texts."""
    goal, result = report.goal, report.result
    searched = f"{result.searched} of {plural(goal.count, 'sample')} searched"
    held = f"the claim held at {len(peak_order(result).measured)}"
    yield ("surface", f"{searched}, {held}; design {goal.design}")
    if answers is not None and answers.best is not None:
        yield ("best", one_line(best_text(answers.best, goal.factors)))
    yield ("factors", ", ".join(map(_factor_text, goal.factors)))
    fit, model = result.fit, "none"
    if fit is not None:
        rough = f", {fit.rough} of them rough" if fit.rough else ""
        model = f"{fit.kind} of {plural(fit.n, 'sample')}{rough}: {fit.text}"
    yield ("model", model)
    yield from _error_rows(result, chosen=goal.design is not DesignKind.FULL)
    if result.gangs is not None:
        yield ("gangs", f"{gangs_text(result.gangs)}; the model is of the mean gang")
    claims = ", ".join(claim.text for claim in report.claims)
    yield ("search", f"claim {claims}; policy {report.policy}, seed {goal.seed}")
    spent = spent_text(result.load_s, result.cost_s, result.trials)
    if goal.deadline_s is not None:
        spent += f"; deadline {duration_text(goal.deadline_s)}"
    yield ("spent", spent)
    if result.left_out:
        yield ("missing", one_line(_missing_text(result)))
    yield ("ended", one_line(f"{report.status}: {report.detail}"))


def _missing_text(result: SurfaceResult) -> str:
    """Return the samples that the deadline left out: `a=1,b=2; a=1,b=4; 2 not chosen yet`."""
    shown = [sample_text(one) for one in result.missing[:MOST_ROWS]]
    hidden, unnamed = (len(result.missing) - len(shown), result.left_out - len(result.missing))
    if hidden:
        shown.append(f"{hidden} more")
    if unnamed:
        shown.append(f"{unnamed} not chosen yet")
    return "; ".join(shown)


def _factor_text(factor: Factor) -> str:
    kind = factor.title if factor.numeric else f"{factor.name} (words)"
    return f"{kind} with {plural(len(factor.levels), 'level')}"


def _error_rows(result: SurfaceResult, *, chosen: bool) -> Iterator[Field]:
    """Yield the model's error: as its bands imply, and cross-validated."""
    if result.fit is not None and result.fit.expected_error is not None:
        share = percent_text(result.fit.expected_error)
        yield ("error", f"{share} mean absolute over all samples, by the bands")
    elif result.fit is not None:
        yield ("error", "unknown: the model has as many terms as samples")
        return
    if result.validation is None:
        yield ("", "cross-validated: not known, too few samples to leave one out")
        return
    error = result.validation.error
    band = f"{percent_text(error.low)} to {percent_text(error.high)}"
    text = (
        f"{percent_text(error.value)} cross-validated, each of {error.n} samples by the "
        f"others ({band} at {percent_text(error.confidence, 10)})"
    )
    # A design places each sample where the others predict it worst.
    yield (
        "",
        f"{text}: high, because each sample was chosen where the model was least certain"
        if chosen
        else text,
    )


# -- the document ------------------------------------------------------------------------


class SampleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The search at one sample."""

    sample: dict[str, str]
    status: PeakStatus
    detail: str
    claim_held: bool
    """Only then `peak_rate` is measured; else it is the best answer so far, or a bound."""
    peak_rate: float | None
    bound: Literal["lower", "upper"] | None
    """What `peak_rate` is a bound of; null: it is an estimate."""
    interval: Ends | None
    interval_confidence: float | None
    claim_probability: float | None
    seeded_from: dict[str, str] | None
    trials: int
    seconds: float
    load_s: float
    gang: str | None
    """Of a pool: the gang that measured it."""


class GangEffectEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How the peaks of one gang differ from those of the mean gang, as a share."""

    gang: str
    searches: int
    effect: float
    interval: Ends


class GangEffectsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How the gangs of a pool differ."""

    differ: bool
    """Whether gangs are known to differ."""
    difference: float
    """Peak on the fastest gang / peak on the slowest one - 1."""
    interval: Ends
    confidence: float
    gangs: tuple[GangEffectEntry, ...]


class CoefficientEntry(msgspec.Struct, frozen=True):
    """A coefficient of the polynomial, in coded units (-1 to 1)."""

    name: str
    value: float | None
    interval: Ends
    confidence: float


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fitted model."""

    kind: ModelKind
    text: str
    n: int
    rough: int
    """Samples of them whose search ended before its claim held."""
    residual_share: float | None
    expected_error: float | None
    widening: float
    coefficients: tuple[CoefficientEntry, ...]


class LeftOutEntry(msgspec.Struct, frozen=True):
    """A measured sample, predicted from the others."""

    sample: dict[str, str]
    measured: float
    predicted: float
    error: float


class ValidationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Error of predicting each measured sample from the others."""

    method: str
    mean_absolute_error: float
    band: Ends
    confidence: float
    left_out: tuple[LeftOutEntry, ...]


class PredictionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The model's prediction for one sample."""

    sample: dict[str, str]
    value: float | None
    low: float | None
    high: float | None
    measured: float | None
    extrapolated: tuple[str, ...]
    """Factors whose level lies outside the range of the given levels."""


class ChanceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A probability about one sample; its ends differ where searches are open."""

    sample: dict[str, str]
    basis: Basis
    at_least: float
    at_most: float
    rough: float
    """The probability if the open searches are as right as their intervals say."""


class BestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples may have the highest peak of all."""

    confidence: float
    samples: tuple[ChanceEntry, ...]
    """Those that cannot be ruled out together, the most probable first."""
    ruled_out: int


class CrossingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and where two lines of samples cross along a factor."""

    along: str
    fixed: dict[str, str]
    """Levels of the other factors."""
    crosses: float
    """Probability that another line is the higher one at the highest level than at the lowest."""
    first_higher: float
    """Probability that the first is the higher one at both."""
    second_higher: float
    rises: bool
    """Whether the first is the higher one beyond the crossing."""
    level: float | None
    """Number of the factor where they cross, if they do."""
    interval: Ends | None
    confidence: float | None


class ReachedRateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples have a peak of a rate or more."""

    rate: float
    samples: tuple[ChanceEntry, ...]
    left_out: int
    """Number of samples, not searched and probably low, that `samples` does not have."""
    crossings: tuple[CrossingEntry, ...]
    """Where the surface (first) reaches the rate (second)."""


class CrossedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Where the peaks at two levels of a factor are the same."""

    factor: str
    first: str
    second: str
    crossings: tuple[CrossingEntry, ...]


class AnswersEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a surface."""

    best: BestEntry | None
    reached: tuple[ReachedRateEntry, ...]
    """Of `--at-rate`."""
    crossed: tuple[CrossedEntry, ...]
    """Of `--cross`."""


class SurfaceDocument(
    SearchHead, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/surface/1"
):
    """A response surface: the request, the samples that were searched, the model."""

    design: DesignKind
    confidence: float
    seed: int
    response: Literal["log", "linear"]
    factors: tuple[Factor, ...]
    policy: str
    claims: tuple[str, ...]
    samples: tuple[SampleEntry, ...]
    gangs: GangEffectsEntry | None
    """None: fewer than two gangs of a pool have an estimate of a peak. The model is of the mean
    gang."""
    model: ModelEntry | None
    validation: ValidationEntry | None
    predictions: tuple[PredictionEntry, ...]
    deadline_s: float | None
    left_out: int
    """Number of samples that were not searched because the deadline had come."""
    missing: tuple[dict[str, str], ...]
    """Those of them that the design names."""
    asked: tuple[PredictionEntry, ...]
    """The predictions that `--predict` requested."""
    answers: AnswersEntry
    seconds: float
    load_s: float
    trials: int
    findings: tuple[FindingEntry, ...]
    plots: tuple[FileEntry, ...]


def surface_document(
    report: SurfaceReport,
    plots: Sequence[FileEntry] = (),
    answers: SurfaceAnswers | None = None,
    **stored: Unpack[StoredSearch],
) -> str:
    """Return the document as JSON; `answers`: those of the report, if the caller has them."""
    result, goal = report.result, report.goal
    checked = result.validation
    document = SurfaceDocument(
        **stored,
        status=report.status,
        detail=report.detail,
        design=goal.design,
        confidence=goal.confidence,
        seed=goal.seed,
        response="log" if goal.log_response else "linear",
        factors=goal.factors,
        policy=report.policy,
        claims=tuple(claim.text for claim in report.claims),
        samples=tuple(map(_sample_entry, result.results)),
        gangs=None if result.gangs is None else _gangs_entry(result.gangs),
        model=None if result.fit is None else _model_entry(result.fit),
        validation=None if checked is None else _validation_entry(checked),
        predictions=tuple(map(_prediction_entry, result.predictions)),
        deadline_s=goal.deadline_s,
        left_out=result.left_out,
        missing=tuple(map(dict, result.missing)),
        asked=tuple(map(_prediction_entry, report.asked)),
        answers=_answers_entry(report.answers() if answers is None else answers),
        seconds=result.cost_s,
        load_s=result.load_s,
        trials=result.trials,
        findings=entries(FindingEntry, report.findings),
        plots=tuple(plots),
    )
    return encode(document)


def _chance_entry(chance: Chance) -> ChanceEntry:
    return entry(ChanceEntry, chance, sample=dict(chance.sample))


def crossing_entry(crossing: Crossing) -> CrossingEntry:
    """Return a crossing for JSON."""
    level = crossing.level
    return entry(
        CrossingEntry,
        crossing,
        fixed=dict(crossing.fixed),
        level=None if level is None else level.value,
        interval=None if level is None else (level.low, level.high),
        confidence=None if level is None else level.confidence,
    )


def _answers_entry(answers: SurfaceAnswers) -> AnswersEntry:
    best = answers.best
    return AnswersEntry(
        best=None
        if best is None
        else entry(BestEntry, best, samples=tuple(map(_chance_entry, best.chances))),
        reached=tuple(
            ReachedRateEntry(
                rate=one.rate,
                samples=tuple(map(_chance_entry, one.chances)),
                left_out=one.left_out,
                crossings=tuple(map(crossing_entry, one.crossings)),
            )
            for one in answers.reached
        ),
        crossed=tuple(
            entry(CrossedEntry, one.levels, crossings=tuple(map(crossing_entry, one.crossings)))
            for one in answers.crossed
        ),
    )


def _sample_entry(sample_result: SampleResult) -> SampleEntry:
    claim_result, interval = sample_result.found, sample_result.found.interval
    return SampleEntry(
        sample=dict(sample_result.sample),
        status=claim_result.status,
        detail=claim_result.detail,
        claim_held=sample_result.claim_held,
        peak_rate=claim_result.peak_rate,
        bound=claim_result.bound_kind,
        interval=None if interval is None else (interval.low, interval.high),
        interval_confidence=None if interval is None else interval.confidence,
        claim_probability=claim_result.claim_probability,
        seeded_from=dict(sample_result.seeded_from) or None,
        trials=claim_result.trials,
        seconds=claim_result.cost_s,
        load_s=claim_result.load_s,
        gang=sample_result.gang or None,
    )


def _gangs_entry(gangs: GangEffects) -> GangEffectsEntry:
    difference = gangs.difference
    return GangEffectsEntry(
        differ=gangs.differ,
        difference=difference.value,
        interval=(difference.low, difference.high),
        confidence=difference.confidence,
        gangs=tuple(
            GangEffectEntry(
                gang=gang.gang,
                searches=gang.searches,
                effect=gang.effect.value,
                interval=(gang.effect.low, gang.effect.high),
            )
            for gang in gangs.gangs
        ),
    )


def _model_entry(fit: ModelFit) -> ModelEntry:
    coefficients = tuple(
        entry(
            CoefficientEntry,
            coefficient.estimate,
            name=coefficient.name,
            interval=(coefficient.estimate.low, coefficient.estimate.high),
        )
        for coefficient in fit.coefficients
    )
    return entry(ModelEntry, fit, coefficients=coefficients)


def _validation_entry(validation: CrossValidation) -> ValidationEntry:
    error = validation.error
    return ValidationEntry(
        method=error.method,
        mean_absolute_error=error.value,
        band=(error.low, error.high),
        confidence=error.confidence,
        left_out=tuple(
            entry(LeftOutEntry, prediction, sample=dict(prediction.sample))
            for prediction in validation.left_out
        ),
    )


def _prediction_entry(prediction: Prediction) -> PredictionEntry:
    return entry(
        PredictionEntry,
        prediction,
        sample=dict(prediction.sample),
        measured=None if prediction.measured is None else prediction.measured.value,
        extrapolated=prediction.outside,
    )
