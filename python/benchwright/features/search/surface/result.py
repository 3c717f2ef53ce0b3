"""The surface of the samples' results: model, error, predictions of every sample, findings.

Pure: every call fits the model again from the samples' results, so that a stored study gives the
same predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate, Figure, Finding, states
from benchwright.core.text import list_text, number_text, rate_text, some_text
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import candidates, columns_of, terms_of
from benchwright.features.search.surface.design import missing_samples
from benchwright.features.search.surface.gangs import gang_effects, responses_of
from benchwright.features.search.surface.gaussian_process import fit_process
from benchwright.features.search.surface.model import (
    Polynomial,
    SurfaceModel,
    bands,
    cross_validated,
    expected_error,
    fit_polynomial,
    has_interval,
    with_peak,
    with_value,
)
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    GangEffects,
    ModelFit,
    ModelKind,
    Prediction,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.features.search.text import gangs_text, open_answer_text
from benchwright.features.search.types import PeakStatus
from benchwright.findings.codes import make_finding
from benchwright.stats import special


def surface_of(
    goal: SurfaceGoal, results: Sequence[SampleResult], *, at_deadline: bool = False
) -> SurfaceResult:
    """Return the surface of these results; `at_deadline`: the deadline ended the mapping."""
    model = fit_surface(goal, results)
    gangs = gang_effects(goal, results)
    every = candidates(goal.factors)
    measured = {result.sample for result in with_peak(results)}
    surface = SurfaceResult(
        results=tuple(results),
        fit=None if model is None else _fit(goal, model, every, measured),
        validation=None if model is None else cross_validated(model, goal.confidence, measured),
        predictions=() if model is None else _predictions(goal, model, results, every),
        findings=surface_findings(goal, results, model, gangs),
        load_s=math.fsum(result.found.load_s for result in results),
        cost_s=math.fsum(result.found.cost_s for result in results),
        trials=sum(result.found.trials for result in results),
        gangs=gangs,
    )
    return _with_left_out(goal, surface) if at_deadline else surface


def _with_left_out(goal: SurfaceGoal, surface: SurfaceResult) -> SurfaceResult:
    """Return a surface that its deadline ended, with the samples that are missing and a finding
    about them."""
    assert goal.deadline_s is not None
    missing = missing_samples(goal, surface.results)
    left_out = goal.samples - surface.searched
    names = [sample_text(one) for one in missing[: tuning.SAMPLES_SHOWN]]
    if left_out > len(names):
        names.append(f"{left_out - len(names)} more")
    error = None if surface.fit is None else surface.fit.expected_error
    shown = states(
        left_out=left_out,
        samples=goal.samples,
        deadline=Figure(goal.deadline_s, "s"),
        names=list_text(names),
        error=None if error is None else Figure(error, "%"),
        unknown="the error of the map is unknown" if error is None else None,
    )
    finding = make_finding("surface-deadline", "mapping", shown)
    return msgspec.structs.replace(
        surface, left_out=left_out, missing=missing, findings=(finding, *surface.findings)
    )


def _fit(
    goal: SurfaceGoal, model: SurfaceModel, every: Sequence[Sample], measured: AbstractSet[Sample]
) -> ModelFit:
    return msgspec.structs.replace(
        model.fit(goal.confidence),
        rough=len(set(model.observed.samples) - measured),
        expected_error=expected_error(model, every),
    )


def model_results(goal: SurfaceGoal, results: Sequence[SampleResult]) -> tuple[SampleResult, ...]:
    """Return the results that the goal's model is fitted to. A polynomial has no weights, so it is
    fitted to measured peaks only."""
    weighs = goal.model is ModelKind.GAUSSIAN_PROCESS
    return with_value(results) if weighs else with_peak(results)


def fit_surface(goal: SurfaceGoal, results: Sequence[SampleResult]) -> SurfaceModel | None:
    """Return the goal's model; None where too few samples have a value for it."""
    responses = responses_of(goal, model_results(goal, results))
    if goal.model is ModelKind.GAUSSIAN_PROCESS:
        return fit_process(goal.factors, responses)
    optimal = goal.design in (DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    planned = goal.samples if optimal else None
    return fit_polynomial(goal.factors, responses, goal.degree, planned)


def predict_samples(
    goal: SurfaceGoal, results: Sequence[SampleResult], samples: Sequence[Sample]
) -> tuple[Prediction, ...]:
    """Return the model's predictions of any samples, including ones between the given levels.

    Empty where there is no model. Raises ValueError for an impossible level.
    """
    model = fit_surface(goal, results) if samples else None
    return () if model is None else _predictions(goal, model, results, samples)


def _predictions(
    goal: SurfaceGoal,
    model: SurfaceModel,
    results: Sequence[SampleResult],
    samples: Sequence[Sample],
) -> tuple[Prediction, ...]:
    measured = measured_estimates(goal, results)
    predicted = zip(samples, *bands(model, samples, goal.confidence), strict=True)
    return tuple(
        Prediction(
            sample,
            float(value),
            float(low),
            float(high),
            measured.get(sample),
            outside(goal.factors, sample),
        )
        for sample, value, low, high in predicted
    )


def measured_estimate(result: SampleResult) -> Estimate:
    """Return a sample's peak with its interval; NaN ends, n = 0 and the method `none` where the
    search stated no interval."""
    peak = result.found
    assert peak.peak_rate is not None
    if peak.interval is not None and has_interval(result):
        return peak.interval
    rate, confidence = peak.peak_rate, peak.claim.confidence
    return Estimate(rate, math.nan, math.nan, confidence, "none", 0, "1/s")


def measured_estimates(
    goal: SurfaceGoal, results: Sequence[SampleResult]
) -> dict[Sample, Estimate]:
    """Return the measured peak of each sample that has one, with its interval; those of a pool as
    the mean gang would have found them."""
    sample_results = with_peak(results)
    if len({result.gang for result in with_value(results)}) < 2:
        return {result.sample: measured_estimate(result) for result in sample_results}
    responses = responses_of(goal, results)
    relative = responses.noise_sd / (1 if responses.log else responses.rates)
    reach = np.exp(special.normal_quantile((1 + goal.confidence) / 2) * relative)
    measured = {result.sample for result in sample_results}
    return {
        sample: Estimate(rate, rate / by, rate * by, goal.confidence, "mean-gang", 1, "1/s")
        for sample, rate, by in zip(
            responses.samples, responses.rates.tolist(), reach.tolist(), strict=True
        )
        if sample in measured
    }


def outside(factors: Sequence[Factor], sample: Sample) -> tuple[str, ...]:
    """Return the names of the numeric factors whose level is outside the range of the given levels."""
    return tuple(
        factor.name
        for factor, (_, level) in zip(factors, sample, strict=True)
        if factor.numeric and _is_outside(factor, level)
    )


@lru_cache(maxsize=4096)
def _is_outside(factor: Factor, level: str) -> bool:
    numbers = [factor.number(level) for level in factor.levels]
    return not min(numbers) <= factor.number(level) <= max(numbers)


# -- findings: samples without a peak, a model that does not fit, assumptions ----------


def surface_findings(
    goal: SurfaceGoal,
    results: Sequence[SampleResult],
    model: SurfaceModel | None,
    gangs: GangEffects | None = None,
) -> tuple[Finding, ...]:
    """Return the findings about a surface; the most serious kinds come first."""
    return (
        *_failed_samples(results),
        *_no_model(goal, results, model),
        *_excluded_bounds(goal, results, model),
        *_bound_samples(results),
        *_missed_claims(goal, results, has_model=model is not None),
        *_different_gangs(gangs),
        *_few_samples(goal, results),
        *_fit_findings(goal, model),
        *_assumed_noise(goal, results),
        *_search_findings(results),
    )


def sample_text(sample: Sample) -> str:
    """Return a sample as one word: `disks=2,nfsd=16`."""
    return ",".join(f"{name}={level}" for name, level in sample)


def _failed_samples(results: Sequence[SampleResult]) -> Iterator[Finding]:
    for result in results:
        if result.found.status is PeakStatus.FAILED:
            yield make_finding(
                "surface-sample-failed", sample_text(result.sample), result.found.detail
            )


def _no_model(
    goal: SurfaceGoal, results: Sequence[SampleResult], model: SurfaceModel | None
) -> Iterator[Finding]:
    if model is None:
        used = len(model_results(goal, results))
        shown = states(samples=len(results), used=used or "none")
        yield make_finding("surface-no-model", "model", shown)


def _bound_samples(results: Sequence[SampleResult]) -> Iterator[Finding]:
    kinds = (PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS)
    for result in results:
        if result.found.status in kinds:
            yield make_finding(
                "surface-bound-only", sample_text(result.sample), result.found.detail
            )


def _excluded_bounds(
    goal: SurfaceGoal, results: Sequence[SampleResult], model: SurfaceModel | None
) -> Iterator[Finding]:
    """Yield a finding about the samples whose known bound the model's band excludes: no model is
    fitted to bounds."""
    used = {result.sample for result in model_results(goal, results)}
    bounded = [result for result in results if result.sample not in used]
    if model is None or not bounded:
        return
    samples = [result.sample for result in bounded]
    _, lows, highs = bands(model, samples, goal.confidence)
    texts = []
    for result, low, high in zip(bounded, lows.tolist(), highs.tolist(), strict=True):
        least, most = known_bounds(result)
        if high < least or low > most:
            band = f"{number_text(low, 5)} to {rate_text(high)}"
            answer = open_answer_text(result.found)
            texts.append(f"{sample_text(result.sample)} {answer}, band {band}")
    if texts:
        evidence = some_text(texts, tuning.SAMPLES_SHOWN, "; ")
        yield make_finding("surface-bound-excluded", "model", evidence)


def known_bounds(result: SampleResult) -> tuple[float, float]:
    """Return between which rates a search that found only a bound places the peak [1/s]: 0 and
    infinity where it found none."""
    claim_result = result.found
    if claim_result.peak_rate is None or claim_result.bound_kind is None:
        return 0.0, math.inf
    lower = claim_result.bound_kind == "lower"
    return (claim_result.peak_rate, math.inf) if lower else (0.0, claim_result.peak_rate)


def _missed_claims(
    goal: SurfaceGoal, results: Sequence[SampleResult], *, has_model: bool
) -> Iterator[Finding]:
    kinds = (PeakStatus.BUDGET, PeakStatus.UNDECIDED)
    missed = [result for result in results if result.found.status in kinds]
    if missed:
        used = model_results(goal, results)
        rough = sum(result in used for result in missed)
        shown = states(
            missed=len(missed),
            searches=len(results),
            names=_named(missed),
            rough=rough if has_model else None,
            left_out=len(missed) - rough,
        )
        yield make_finding("surface-claim-missed", "searches", shown)


def _different_gangs(gangs: GangEffects | None) -> Iterator[Finding]:
    if gangs is not None and gangs.differ:
        slowest = min(gangs.gangs, key=lambda effect: effect.effect.value)
        shown = states(
            gangs=gangs_text(gangs), slowest=slowest.gang, by=Figure(-slowest.effect.value, "%")
        )
        yield make_finding("gangs-differ", "pool", shown)


def _few_samples(goal: SurfaceGoal, results: Sequence[SampleResult]) -> Iterator[Finding]:
    have = len({result.sample for result in model_results(goal, results)})
    terms = 1 + len(columns_of(goal.factors))
    if have >= tuning.FEWEST_SAMPLES_PER_TERM * terms or goal.samples >= goal.count:
        return
    shown = states(samples=have, count=goal.count, terms=terms)
    yield make_finding("surface-few-samples", "model", shown)


def _named(results: Sequence[SampleResult]) -> str:
    named = [sample_text(result.sample) for result in results]
    return some_text(named, tuning.SAMPLES_SHOWN)


def _fit_findings(goal: SurfaceGoal, model: SurfaceModel | None) -> Iterator[Finding]:
    if not isinstance(model, Polynomial):
        return
    full = len(terms_of(columns_of(goal.factors), goal.degree))
    if len(model.terms) < full:
        shown = states(
            samples=len(model.residuals), full=full, degree=goal.degree, terms=len(model.terms)
        )
        yield make_finding("surface-model-reduced", "model", shown)
    if not model.dof:
        shown = states(samples=len(model.residuals), terms=len(model.terms))
        yield make_finding("surface-fit-unjudged", "model", shown)
        return
    scaled = model.residuals / model.observed.noise_sd
    chi_square = float(scaled @ scaled)
    from scipy.special import chdtrc

    if chdtrc(model.dof, chi_square) < tuning.LACK_OF_FIT_LEVEL:
        noise = float(np.median(model.observed.noise_sd))
        shown = states(sd=model.sd, noise=noise, chi_square=chi_square, dof=model.dof)
        yield make_finding("surface-lack-of-fit", "model", shown)


def _assumed_noise(goal: SurfaceGoal, results: Sequence[SampleResult]) -> Iterator[Finding]:
    used = model_results(goal, results)
    without = [result for result in used if not has_interval(result)]
    if without:
        yield make_finding(
            "surface-noise-assumed",
            "model",
            f"no interval was stated at {_named(without)}: the claim's tolerance was taken",
        )


def _search_findings(results: Sequence[SampleResult]) -> Iterator[Finding]:
    """Yield the findings of the inner searches, with the sample as part of the subject."""
    for result in results:
        for finding in result.found.findings:
            subject = f"{sample_text(result.sample)} {finding.subject}".strip()
            yield msgspec.structs.replace(finding, subject=subject, metric="")
