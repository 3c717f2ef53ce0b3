"""A response surface as one JSON document, `benchwright/surface/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchwright.model.estimate import Estimate
from benchwright.model.surface import (
    CrossValidation,
    Factor,
    ModelFit,
    Prediction,
    SampleResult,
    SurfaceGoal,
)
from benchwright.report.json import encode, finding_object, known
from benchwright.report.surface import SurfaceReport

SCHEMA = "benchwright/surface/1"


def surface_document(
    report: SurfaceReport, plots: Sequence[dict[str, Any]] = (), **session: object
) -> str:
    """Return the document. `session` are further members: where it is kept, how it
    ended."""
    result = report.result
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        **session,
        "status": report.status,
        "detail": report.detail,
        **_goal(report.goal),
        "policy": report.policy,
        "claims": [claim.text for claim in report.claims],
        "samples": [_sample(one) for one in result.results],
        "model": None if result.fit is None else _model(result.fit),
        "validation": None if result.validation is None else _errors(result.validation),
        "predictions": [_prediction(one) for one in result.predictions],
        "asked": [_prediction(one) for one in report.asked],
        "seconds": result.cost_s,
        "load_s": result.load_s,
        "trials": result.trials,
        "findings": [finding_object(one) for one in report.findings],
        "plots": list(plots),
    }
    return encode(fields)


def _goal(goal: SurfaceGoal) -> dict[str, Any]:
    return {
        "design": goal.design.value,
        "confidence": goal.confidence,
        "seed": goal.seed,
        "response": "log" if goal.log_response else "linear",
        "factors": [_factor(one) for one in goal.factors],
    }


def _factor(one: Factor) -> dict[str, Any]:
    return {
        "name": one.name,
        "levels": list(one.levels),
        "measure": one.measure,
        "transform": one.transform.value,
    }


def _sample(one: SampleResult) -> dict[str, Any]:
    found = one.found
    return {
        "sample": dict(one.sample),
        "status": found.status.value,
        "detail": found.detail,
        "peak_rate": known(found.peak_rate),
        "interval": _interval(found.interval),
        "interval_confidence": None
        if found.interval is None
        else found.interval.confidence,
        "claim_probability": known(found.claim_probability),
        "seeded_from": dict(one.seeded_from) or None,
        "trials": found.trials,
        "seconds": found.cost_s,
        "load_s": found.load_s,
    }


def _model(fit: ModelFit) -> dict[str, Any]:
    return {
        "kind": fit.kind.value,
        "text": fit.text,
        "n": fit.n,
        "residual_share": known(fit.residual_share),
        "expected_error": known(fit.expected_error),
        "widening": fit.widening,
        "coefficients": [
            {
                "name": one.name,
                "value": known(one.estimate.value),
                "interval": _interval(one.estimate),
                "confidence": one.estimate.confidence,
            }
            for one in fit.coefficients
        ],
    }


def _errors(validation: CrossValidation) -> dict[str, Any]:
    error = validation.error
    return {
        "method": error.method,
        "mean_absolute_error": error.value,
        "band": _interval(error),
        "confidence": error.confidence,
        "left_out": [
            {
                "sample": dict(one.sample),
                "measured": one.measured,
                "predicted": one.predicted,
                "error": one.error,
            }
            for one in validation.left_out
        ],
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "sample": dict(one.sample),
        "value": known(one.value),
        "low": known(one.low),
        "high": known(one.high),
        "measured": None if one.measured is None else known(one.measured.value),
        "extrapolated": list(one.outside),
    }


def _interval(interval: Estimate | None) -> list[float | None] | None:
    if interval is None:
        return None
    return [known(interval.low), known(interval.high)]
