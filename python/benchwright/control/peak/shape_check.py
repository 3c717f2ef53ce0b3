"""Doubts about the curve: what a queue's shape does not explain, each as a finding.

Purpose: a search that rests on a shape must say when the shape is wrong. Looked at are the
best curve's residuals, responses that fall with the load, errors beside a flat response,
periodic peaks in the bins, and a trend of the residuals over the search.
Decision: thresholds are far out (one clean search in several hundred): a false doubt sends the
search to its dearer, local form.
Source: docs/peak.md; R. Fisher 1929 (test of a period); G. Box and G. Jenkins (whitening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.qgs_reading import Readings
from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.model.peak import Criterion, LoadTrial

SUBJECT = "search"
SHED_SHARE = 0.005
"""Errors that are more than an accident."""
FALL = 0.12
"""Fall of the response with a higher load that matters, as a logarithm."""
SURELY = 4.0
"""Standard errors of what is told."""
FEWEST_TRENDED = 5
PERIODS_S = (4.0, 40.0)
PERIOD_P = 1e-4
RETROGRADE = 0.03
"""Fall of the capacity under overload that matters."""


def not_monotonic(readings: Readings) -> tuple[Finding, ...]:
    """Return a finding where the response falls clearly with a higher load."""
    runs = sorted((r for r in readings.runs if r.steady), key=lambda r: r.rate)
    for i, low in enumerate(runs):
        for high in runs[i + 1 :]:
            fall = math.log(low.value / high.value)
            error = math.hypot(low.error, high.error)
            if high.rate > 1.1 * low.rate and fall > FALL + SURELY * error:
                evidence = (
                    f"the response is {low.value:.2f} of the limit at {low.rate:.5g}/s and "
                    f"{high.value:.2f} at {high.rate:.5g}/s: {fall / error:.0f} standard "
                    "errors apart"
                )
                return (doubt("non-monotonic-response", SUBJECT, evidence),)
    return ()


def retrograde(readings: Readings) -> tuple[Finding, ...]:
    """Return a finding where a steady run met the limit at a rate that an overloaded server
    cannot do."""
    steady = [run for run in readings.runs if run.steady and run.value < 1]
    for run in readings.runs:
        told = run.capacity
        for low in steady if told is not None else ():
            assert told is not None
            beyond = low.rate / told.rate - 1
            if beyond > RETROGRADE + SURELY * told.relative_sd and low.lasts_s >= 3:
                evidence = (
                    f"overloaded at {run.rate:.5g}/s it completed {told.rate:.5g}/s, and at "
                    f"{low.rate:.5g}/s ({100 * beyond:.0f} % more) it met the limit"
                )
                return (doubt("retrograde-under-overload", SUBJECT, evidence),)
    return ()


def sheds(criterion: Criterion, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return a finding where errors rise although the response meets its limit."""
    for trial in history:
        value = trial.values.get(criterion.key, math.inf)
        share = trial.errors / trial.offered if trial.offered else 0.0
        if share > SHED_SHARE and trial.errors > 20 and criterion.holds(value):
            evidence = (
                f"at {trial.rate:.5g}/s {100 * share:.2g} % of operations ended in errors "
                f"while {criterion.key} was {value:.4g} {criterion.unit}, within its limit"
            )
            return (doubt("sheds-load", SUBJECT, evidence),)
    return ()


def stalls(criterion: Criterion, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return a finding where the bins of the steady runs peak periodically."""
    best: tuple[float, float] | None = None
    logs = 0.0
    runs = 0
    for trial in history:
        column = trial.series.values.get(criterion.key, ())
        values = np.asarray(column, dtype=float)
        if values.size < 60 or not np.all(np.isfinite(values) & (values > 0)):
            continue
        if values.mean() > 1.5 * criterion.limit:
            continue
        p, period = _period(np.log(values), trial.series.width_s)
        runs += 1
        logs += math.log(p)
        if best is None or p < best[0]:
            best = (p, period)
    if best is None or best[0] * runs > PERIOD_P:
        return ()
    evidence = (
        f"the response peaks every {best[1]:.3g} s (Fisher's test of a period: p = "
        f"{best[0] * runs:.1g})"
    )
    return (doubt("periodic-stalls", SUBJECT, evidence),)


def _period(values: FloatArray, width_s: float) -> tuple[float, float]:
    """Return the p-value of the strongest period and the period [s], of a whitened series."""
    left = values - values.mean()
    lag = float(left[1:] @ left[:-1] / (left @ left)) if left @ left else 0.0
    white = left[1:] - lag * left[:-1]
    power = np.abs(np.fft.rfft(white - white.mean())) ** 2
    periods = white.size * width_s / np.maximum(np.arange(power.size), 1)
    kept = (periods >= PERIODS_S[0]) & (periods <= PERIODS_S[1])
    power, periods = power[kept], periods[kept]
    if power.size < 5 or power.sum() <= 0:
        return 1.0, math.nan
    top = int(np.argmax(power))
    share = float(power[top] / power.sum())
    p = min(1.0, power.size * (1 - share) ** (power.size - 1))
    return max(p, 1e-300), float(periods[top])


def drifts(residuals: FloatArray, deviations: FloatArray) -> tuple[Finding, ...]:
    """Return a finding where residuals `(n_runs,)` near the peak, in order, have a trend."""
    n = residuals.size
    if n < FEWEST_TRENDED:
        return ()
    order = np.arange(n) - (n - 1) / 2
    weight = 1 / deviations**2
    order = order - np.average(order, weights=weight)
    slope = float(np.sum(weight * order * residuals) / np.sum(weight * order**2))
    error = 1 / math.sqrt(float(np.sum(weight * order**2)))
    if abs(slope) < SURELY * error:
        return ()
    evidence = (
        f"at equal load the response changes by {100 * slope:+.2g} % from run to run, "
        f"{abs(slope) / error:.1f} standard errors"
    )
    return (doubt("drift-during-search", SUBJECT, evidence),)


def misfits(square: float, freedom: float, worst: str) -> tuple[Finding, ...]:
    """Return a finding where the best curve's squared residuals are too large."""
    from scipy.special import chdtrc

    p = float(chdtrc(max(freedom, 1.0), square))
    if p > 1e-4:
        return ()
    evidence = (
        f"the best queue's curve misses the runs by chi-squared {square:.3g} on "
        f"{freedom:.0f} degrees of freedom (p = {p:.1g}); worst: {worst}"
    )
    return (doubt("curve-is-no-queue", SUBJECT, evidence),)
