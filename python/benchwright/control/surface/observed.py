"""Samples' results as numbers for a fit: response, and how noisy each is.

Decision: the noise comes from the inner search's own interval. Where a policy states none,
its claim's tolerance is taken for the interval, and a finding says so. A bound (`never-fails`,
`fails-at-lowest`) is no peak and is left out, and told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import ndtri

from benchwright.control.surface.coding import Matrix
from benchwright.model.estimate import Estimate
from benchwright.model.surface import Sample, SampleResult

LEAST_SD = 1e-3
"""Of a peak's logarithm: no rate is known better than to a tenth of a per cent."""


class Observed(msgspec.Struct, frozen=True):
    """The samples that have a peak."""

    samples: tuple[Sample, ...]
    rates: Matrix
    """Measured peaks [1/s], shape `(n_samples,)`."""
    response: Matrix
    """What is modelled: the rates or their logarithms."""
    noise_sd: Matrix
    """Standard deviation of each response."""
    log: bool

    def rate(self, response: Matrix) -> Matrix:
        """Return rates [1/s] for responses; never below 0."""
        return np.exp(response) if self.log else np.maximum(response, 0.0)


def observed(results: Sequence[SampleResult], *, log: bool) -> Observed:
    """Return the results with a peak, as what is fitted."""
    used = measured(results)
    rates = np.array([one.found.peak_rate for one in used], dtype=float)
    noise = np.array([_relative_sd(one) for one in used], dtype=float)
    return Observed(
        samples=tuple(one.sample for one in used),
        rates=rates,
        response=np.log(rates) if log else rates,
        noise_sd=noise if log else noise * rates,
        log=log,
    )


def measured(results: Sequence[SampleResult]) -> tuple[SampleResult, ...]:
    """Return the results that have a peak above 0."""
    return tuple(one for one in results if (one.peak_rate or 0) > 0)


def has_interval(result: SampleResult) -> bool:
    """Tell whether the search stated an interval that noise can be read from."""
    interval = result.found.interval
    return interval is not None and 0 < interval.low <= interval.high < math.inf


def _relative_sd(result: SampleResult) -> float:
    """Return the standard deviation of a peak's logarithm."""
    interval = result.found.interval
    if interval is None or not has_interval(result):
        return result.found.claim.tolerance / float(ndtri(0.975))
    width = math.log(interval.high / interval.low)
    return max(width / (2 * _reach(interval)), LEAST_SD)


def _reach(interval: Estimate) -> float:
    """Return how many standard deviations an interval reaches to each side."""
    return float(ndtri((1 + interval.confidence) / 2))
