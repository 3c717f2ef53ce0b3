"""Table 4 of the workbench paper: a surface predicted from a few of its samples.

As published: a quadratic of the factors as they are, D-optimal samples, Binsearch at each.
Beside it the same with logarithms, and the product's default (adaptive samples, Gaussian
process) over monotone searches. Errors are against the true peaks of all samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from nfs_servers import Peaks

from benchwright.features.search.surface.design import chosen_sample
from benchwright.features.search.surface.result import fit_surface
from benchwright.features.search.surface.types import (
    DesignKind,
    ModelKind,
    Sample,
    SampleResult,
    SurfaceGoal,
    Transform,
)
from benchwright.features.search.types import PeakGoal

SIZES = (6, 8, 10)


def quadratic(peaks: Peaks, results: Sequence[SampleResult], *, logs: bool) -> list[float]:
    """Return the errors of a quadratic over D-optimal samples [%]: `bw surface --design d-optimal
    --spread 0%`, with transforms and the logarithm of the rate, or without any."""
    goal = _goal(peaks)
    raw = [msgspec.structs.replace(f, transform=Transform.NONE) for f in goal.factors]
    goal = msgspec.structs.replace(
        goal,
        factors=goal.factors if logs else tuple(raw),
        design=DesignKind.D_OPTIMAL,
        spread=0.0,
        model=ModelKind.POLYNOMIAL,
        log_response=logs,
    )
    return _errors(peaks, goal, results)


def adaptive(peaks: Peaks, results: Sequence[SampleResult]) -> list[float]:
    """Return the errors of the product's default way over measured samples [%]."""
    return _errors(peaks, _goal(peaks), results)


def _goal(peaks: Peaks) -> SurfaceGoal:
    criteria = peaks.server(peaks.samples[0]).criteria
    goal = PeakGoal(criteria=criteria)
    return SurfaceGoal(factors=peaks.factors, peak=goal, samples=SIZES[0])


def _errors(peaks: Peaks, goal: SurfaceGoal, results: Sequence[SampleResult]) -> list[float]:
    """Return the mean absolute errors of the goal's model over all samples, with each number
    of samples [%]."""
    by_sample: dict[Sample, SampleResult] = {one.sample: one for one in results}
    true = np.array(list(peaks.rates.values()))
    errors = []
    for n in SIZES:
        sized = msgspec.structs.replace(goal, samples=n)
        chosen: list[SampleResult] = []
        while len(chosen) < n:
            chosen.append(by_sample[chosen_sample(sized, chosen, ()).sample])
        model = fit_surface(sized, chosen)
        assert model is not None
        rates = model.observed.rate(model.predict(peaks.samples).mean)
        errors.append(float(100 * np.mean(np.abs(rates / true - 1))))
    return errors
