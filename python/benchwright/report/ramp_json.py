"""What a ramp came to as one JSON document, `benchwright/ramp/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchwright.model.estimate import Estimate
from benchwright.model.ramp import RampPoint
from benchwright.model.search import SearchTrial
from benchwright.model.usl import BandPoint, PreferredLaw, UslFit
from benchwright.report.json import encode, finding_object, infinite, known
from benchwright.report.ramp import RampReport

SCHEMA = "benchwright/ramp/1"


def ramp_document(
    report: RampReport,
    band: Sequence[BandPoint],
    plots: Sequence[dict[str, Any]] = (),
    **session: object,
) -> str:
    """Return the document. `band` is the fitted curve; `session` are further members:
    where it is kept, how it ended."""
    result = report.result
    saturation = None if result is None else result.saturation
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        **session,
        "status": report.status,
        "detail": report.detail,
        "axis": report.goal.axis.value,
        "seed": report.seed,
        "sample": dict(report.sample),
        "saturation": None if saturation is None else _point(saturation),
        "points": [] if result is None else [_point(one) for one in result.points],
        "usl": None if result is None or result.usl is None else _law(result.usl),
        "usl_absent": None if result is None else result.usl_absent or None,
        "band": [_band(one) for one in band],
        "seconds": sum(one.trial.cost_s for one in report.trials),
        "load_s": sum(one.trial.lasted_s for one in report.trials),
        "trials": [_trial(one) for one in report.trials],
        "findings": [finding_object(one) for one in report.findings],
        "plots": list(plots),
    }
    return encode(fields)


def _point(point: RampPoint) -> dict[str, Any]:
    responses = {
        "response_ms_mean": point.response_ms_mean,
        "response_ms_p50": point.response_ms_p50,
        "response_ms_p99": point.response_ms_p99,
    }
    return {
        "level": point.level,
        "throughput": _estimate(point.throughput),
        "offered_rate": known(point.offered),
        **{key: known(value) for key, value in responses.items()},
        "infinite": infinite(responses),
        "error_share": known(point.error_share),
        "efficiency": known(point.efficiency),
        "trials": point.trials,
    }


def _estimate(one: Estimate) -> dict[str, Any]:
    """Return an estimate; an end that nothing bounds, or nobody knows, is null."""
    return {
        "value": known(one.value),
        "interval": [known(one.low), known(one.high)],
        "confidence": one.confidence,
        "method": one.method,
        "n": one.n,
        "unit": one.unit,
    }


def _law(fit: UslFit) -> dict[str, Any]:
    peak = fit.users_at_peak
    return {
        "preferred": fit.preferred.value,
        "gamma": _estimate(fit.gamma),
        "sigma": _estimate(fit.sigma),
        "kappa": _estimate(fit.kappa),
        "users_at_peak": None if peak is None else _estimate(peak),
        "peak_throughput": known(fit.peak_throughput),
        "asymptote": known(fit.asymptote),
        "law": None if fit.law is None else _preferred(fit.law),
        "residual": fit.residual,
        "r_squared": known(fit.r_squared),
        "refuted": fit.refuted,
        "misfit_p": fit.misfit_p,
        "n": fit.n,
    }


def _preferred(law: PreferredLaw) -> dict[str, float | None]:
    return {
        "gamma": law.gamma,
        "sigma": law.sigma,
        "kappa": law.kappa,
        "asymptote": known(law.asymptote),
    }


def _band(point: BandPoint) -> dict[str, float | None]:
    return {
        "users": point.users,
        "low": known(point.low),
        "middle": known(point.middle),
        "high": known(point.high),
    }


def _trial(one: SearchTrial) -> dict[str, Any]:
    trial = one.trial
    return {
        "number": one.number,
        "level": trial.rate,
        "users": one.probe.users,
        "duration": trial.duration_s,
        "values": {key: known(value) for key, value in trial.values.items()},
        "infinite": infinite(trial.values),
        "lasted_s": trial.lasted_s,
        "cost_s": trial.cost_s,
        "offered": trial.offered,
        "completed": trial.completed,
        "errors": trial.errors,
        "ending": trial.ending.value,
        "failure": trial.failure or None,
        "marks": list(trial.marks),
        "purpose": one.probe.purpose,
        "started_ns": trial.started_ns or None,
    }
