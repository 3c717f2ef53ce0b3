"""Table 4 of the workbench paper: a surface predicted from a few of its samples.

As published: a quadratic of the factors as they are, D-optimal samples, Binsearch at each.
Beside it the same with logarithms, and the product's default (adaptive samples, Gaussian
process) over qgs. Errors are against the true peaks of all 32 samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from nfs_servers import FACTORS, SAMPLES, server
from numpy.typing import NDArray

from benchwright.core.search import PeakGoal
from benchwright.core.surface import (
    DesignKind,
    Factor,
    ModelKind,
    Sample,
    SampleResult,
    SurfaceGoal,
    Transform,
)
from benchwright.decide.surface.design import next_sample
from benchwright.decide.surface.result import fit_surface

SIZES = (6, 8, 10)
RAW: tuple[Factor, ...] = tuple(
    msgspec.structs.replace(factor, transform=Transform.NONE) for factor in FACTORS
)


class Errors(NamedTuple):
    """Mean absolute errors of one way by number of samples [%]."""

    way: str
    percent: list[float]


def quadratic(
    workload: str, results: Sequence[SampleResult], *, logs: bool
) -> list[float]:
    """Return the errors of a quadratic over D-optimal samples [%]: `bw surface --design d-optimal
    --spread 0%`, with transforms and the logarithm of the rate, or without any."""
    goal = msgspec.structs.replace(
        _goal(workload),
        factors=FACTORS if logs else RAW,
        design=DesignKind.D_OPTIMAL,
        spread=0.0,
        model=ModelKind.POLYNOMIAL,
        log_response=logs,
    )
    return _errors(workload, goal, results)


def adaptive(workload: str, results: Sequence[SampleResult]) -> list[float]:
    """Return the errors of the product's default way over measured samples [%]."""
    return _errors(workload, _goal(workload), results)


def _goal(workload: str) -> SurfaceGoal:
    peak = PeakGoal(criteria=server(workload, SAMPLES[0]).criteria)
    return SurfaceGoal(factors=FACTORS, peak=peak, samples=SIZES[0])


def _errors(
    workload: str, goal: SurfaceGoal, results: Sequence[SampleResult]
) -> list[float]:
    """Return the errors of the goal's model with each number of samples [%]."""
    by_sample: dict[Sample, SampleResult] = {one.sample: one for one in results}
    errors = []
    for n in SIZES:
        sized = msgspec.structs.replace(goal, samples=n)
        chosen: list[SampleResult] = []
        while (asked := next_sample(sized, chosen)) is not None:
            chosen.append(by_sample[asked.sample])
        model = fit_surface(sized, chosen)
        assert model is not None
        rates = model.observed.rate(model.predict(SAMPLES).mean)
        errors.append(percent_off(workload, rates))
    return errors


def percent_off(workload: str, predicted: NDArray[np.float64]) -> float:
    """Return the mean absolute error over all samples [%]."""
    true = np.array([server(workload, sample).peak_rate for sample in SAMPLES])
    return float(100 * np.mean(np.abs(predicted / true - 1)))
