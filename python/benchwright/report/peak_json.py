"""What a peak search came to as one JSON document, `benchwright/peak/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from benchwright.model.peak import (
    Claim,
    Criterion,
    CurvePoint,
    LoadTrial,
    PeakResult,
)
from benchwright.model.search import SearchTrial
from benchwright.report.json import encode, finding_object, infinite, known
from benchwright.report.peak import PeakReport

SCHEMA = "benchwright/peak/1"


def peak_document(
    report: PeakReport, plots: Sequence[dict[str, Any]] = (), **session: object
) -> str:
    """Return the document. `session` are further members: where it is kept, how it
    ended."""
    result = report.result
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        **session,
        "status": report.status,
        "detail": report.detail,
        "policy": report.policy,
        "seed": report.seed,
        "sample": dict(report.sample),
        "criteria": [_criterion(one) for one in report.criteria],
        **_answer(result, report.claims[0]),
        "claims": [
            {
                "kind": claim.kind.value,
                "tolerance": claim.tolerance,
                "confidence": claim.confidence,
                **_answer(one, claim),
            }
            for claim, one in zip(report.claims, report.results, strict=True)
        ],
        "binding": None if result is None else result.binding or None,
        "seconds": sum(one.trial.cost_s for one in report.trials),
        "load_s": sum(one.trial.lasted_s for one in report.trials),
        "trials": [_trial(one, report.criteria) for one in report.trials],
        "components": _components(result),
        "curve": [] if result is None else _curve(result),
        "shape": None if result is None else _plain(result.shape),
        "findings": [finding_object(one) for one in report.findings],
        "plots": list(plots),
    }
    return encode(fields)


def _answer(result: PeakResult | None, claim: Claim) -> dict[str, Any]:
    """Return what is said of one claim; null where nothing is known."""
    interval = None if result is None else result.interval
    return {
        "claim": claim.text,
        "claim_status": None if result is None else result.status.value,
        "claim_probability": None
        if result is None
        else known(result.claim_probability),
        "peak_rate": None if result is None else known(result.peak_rate),
        "interval": None
        if interval is None
        else [known(interval.low), known(interval.high)],
        "interval_confidence": None if interval is None else interval.confidence,
        "interval_method": None if interval is None else interval.method,
    }


def _criterion(one: Criterion) -> dict[str, Any]:
    return {
        "key": one.key,
        "statistic": one.statistic,
        "limit": one.limit,
        "unit": one.unit,
        "better": one.better,
    }


def _trial(one: SearchTrial, criteria: Sequence[Criterion]) -> dict[str, Any]:
    trial = one.trial
    return {
        "number": one.number,
        "rate": trial.rate,
        "duration": trial.duration_s,
        "response": _response(trial, criteria),
        "values": {key: known(value) for key, value in trial.values.items()},
        "infinite": infinite(trial.values),
        "lasted_s": trial.lasted_s,
        "cost_s": trial.cost_s,
        "offered": trial.offered,
        "offered_rate": None if trial.offered is None else trial.offered_rate,
        "completed": trial.completed,
        "errors": trial.errors,
        "ending": trial.ending.value,
        "failure": trial.failure or None,
        "marks": list(trial.marks),
        "purpose": one.probe.purpose,
        "started_ns": trial.started_ns or None,
    }


def _response(trial: LoadTrial, criteria: Sequence[Criterion]) -> float | None:
    """Return the mean response [ms], or where that is no criterion, the first one's."""
    keys = [one.key for one in criteria]
    mean = "response_ms_mean"
    key = mean if mean in keys or mean in trial.values else keys[0]
    return known(trial.values.get(key))


def _components(result: PeakResult | None) -> dict[str, float | None]:
    if result is None:
        return {"within_s": None, "between": None}
    found = result.components
    return {"within_s": known(found.within_s), "between": known(found.between)}


def _curve(result: PeakResult) -> list[dict[str, Any]]:
    return [_curve_point(one) for one in result.curve]


def _curve_point(point: CurvePoint) -> dict[str, Any]:
    band = {"low": point.low, "middle": point.middle, "high": point.high}
    finite = {key: known(value) for key, value in band.items()}
    return {"rate": point.rate, **finite, "infinite": infinite(band)}


def _plain(value: object) -> Any:
    return None if value is None else msgspec.to_builtins(value)
