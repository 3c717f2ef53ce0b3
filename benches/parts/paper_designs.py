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
    Factor,
    Sample,
    SampleResult,
    SurfaceGoal,
    Transform,
)
from benchwright.decide.surface.coding import coded, columns_of, model_matrix, terms_of
from benchwright.decide.surface.design import (
    DesignCriterion,
    Exchange,
    next_sample,
    optimal_rows,
)
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
    """Return the errors of a quadratic over D-optimal samples [%]."""
    factors = FACTORS if logs else RAW
    terms = terms_of(columns_of(factors), 2)
    matrix = model_matrix(coded(factors, SAMPLES), terms)
    found = {one.sample: one.found.peak_rate for one in results}
    rates = np.array([found[sample] for sample in SAMPLES], dtype=float)
    response = np.log(rates) if logs else rates
    errors = []
    for n in SIZES:
        rows = list(optimal_rows(Exchange(matrix, DesignCriterion.D), n, 1))
        fit, *_ = np.linalg.lstsq(matrix[rows], response[rows], rcond=None)
        predicted = matrix @ fit
        errors.append(percent_off(workload, np.exp(predicted) if logs else predicted))
    return errors


def adaptive(workload: str, results: Sequence[SampleResult]) -> list[float]:
    """Return the errors of the product's default way over measured samples [%]."""
    return [_adaptive(workload, results, n) for n in SIZES]


def _adaptive(workload: str, results: Sequence[SampleResult], n: int) -> float:
    by_sample: dict[Sample, SampleResult] = {one.sample: one for one in results}
    peak = PeakGoal(criteria=server(workload, SAMPLES[0]).criteria)
    goal = SurfaceGoal(factors=FACTORS, peak=peak, samples=n)
    chosen: list[SampleResult] = []
    while (asked := next_sample(goal, chosen)) is not None:
        chosen.append(by_sample[asked.sample])
    model = fit_surface(goal, chosen)
    assert model is not None
    return percent_off(workload, model.observed.rate(model.predict(SAMPLES).mean))


def percent_off(workload: str, predicted: NDArray[np.float64]) -> float:
    """Return the mean absolute error over all samples [%]."""
    true = np.array([server(workload, sample).peak_rate for sample in SAMPLES])
    return float(100 * np.mean(np.abs(predicted / true - 1)))
