"""What a mapping came to: the model, its error, predictions of every sample, doubts.

Pure: fitted anew from the samples' results, so that a stored study predicts the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from benchwright.control.surface.coding import candidates
from benchwright.control.surface.doubts import doubts_of
from benchwright.control.surface.fit import fit_polynomial
from benchwright.control.surface.gp import fit_process
from benchwright.control.surface.model import (
    SurfaceModel,
    bands,
    cross_validated,
    expected_error,
)
from benchwright.control.surface.observed import has_interval, measured, observed
from benchwright.model.estimate import Estimate
from benchwright.model.surface import (
    Factor,
    ModelFit,
    ModelKind,
    Prediction,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)


def surface_of(goal: SurfaceGoal, results: Sequence[SampleResult]) -> SurfaceResult:
    """Return the surface that these results tell."""
    model = fitted(goal, results)
    every = candidates(goal.factors)
    return SurfaceResult(
        results=tuple(results),
        fit=None if model is None else _fit(goal, model, every),
        validation=None if model is None else cross_validated(model, goal.confidence),
        predictions=() if model is None else _predictions(goal, model, results, every),
        findings=doubts_of(goal, results, model),
        load_s=math.fsum(one.found.load_s for one in results),
        cost_s=math.fsum(one.found.cost_s for one in results),
        trials=sum(one.found.trials for one in results),
    )


def _fit(goal: SurfaceGoal, model: SurfaceModel, every: Sequence[Sample]) -> ModelFit:
    return msgspec.structs.replace(
        model.fit(goal.confidence), expected_error=expected_error(model, every)
    )


def fitted(goal: SurfaceGoal, results: Sequence[SampleResult]) -> SurfaceModel | None:
    """Return the goal's model; None where too few samples have a peak."""
    seen = observed(results, log=goal.log_response)
    if goal.model is ModelKind.GAUSSIAN_PROCESS:
        return fit_process(goal.factors, seen)
    return fit_polynomial(goal.factors, seen, goal.degree)


def predicted(
    goal: SurfaceGoal, results: Sequence[SampleResult], samples: Sequence[Sample]
) -> tuple[Prediction, ...]:
    """Return what the model says of any samples, levels between the given ones too.

    Empty where there is no model. Raises ValueError for an impossible level.
    """
    model = fitted(goal, results) if samples else None
    return () if model is None else _predictions(goal, model, results, samples)


def _predictions(
    goal: SurfaceGoal,
    model: SurfaceModel,
    results: Sequence[SampleResult],
    samples: Sequence[Sample],
) -> tuple[Prediction, ...]:
    known = {one.sample: measured_estimate(one) for one in measured(results)}
    told = zip(samples, *bands(model, samples, goal.confidence), strict=True)
    return tuple(
        Prediction(
            sample,
            float(value),
            float(low),
            float(high),
            known.get(sample),
            outside(goal.factors, sample),
        )
        for sample, value, low, high in told
    )


def measured_estimate(result: SampleResult) -> Estimate:
    """Return a sample's peak with its interval; of ends that are NaN, with
    n = 0 and the method `none`, where the search stated none."""
    found = result.found
    assert found.peak_rate is not None
    if found.interval is not None and has_interval(result):
        return found.interval
    rate = found.peak_rate
    return Estimate(rate, math.nan, math.nan, found.claim.confidence, "none", 0, "1/s")


def outside(factors: Sequence[Factor], sample: Sample) -> tuple[str, ...]:
    """Return the names of numeric factors whose level lies outside of those given."""
    return tuple(
        factor.name
        for factor, (_, level) in zip(factors, sample, strict=True)
        if factor.numeric and _is_outside(factor, level)
    )


@lru_cache(maxsize=4096)
def _is_outside(factor: Factor, level: str) -> bool:
    numbers = [factor.number(one) for one in factor.levels]
    return not min(numbers) <= factor.number(level) <= max(numbers)
