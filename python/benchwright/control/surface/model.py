"""The slot that a surface's model fits into, and what is common to all: bands, errors left out.

A band is what a search at the sample would find, in `confidence` of the cases: it holds the
model's doubt and the searches' noise. Decision: bands are widened until they agree with the
errors of the samples left out one by one, and never narrowed; with ten samples a
distribution-free band (conformal) of 95 % would be infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from scipy.special import ndtri, stdtrit

from benchwright.control.surface.coding import Matrix
from benchwright.control.surface.observed import Observed
from benchwright.model.estimate import Estimate
from benchwright.model.surface import CrossValidation, LeftOut, ModelFit, Sample


class Predicted(msgspec.Struct, frozen=True):
    """The response at samples, each an array `(n_samples,)`."""

    mean: Matrix
    sd: Matrix
    """Of a new search's response around `mean`."""
    dof: float | None = None
    """Degrees of freedom behind `sd`; None: it holds the doubt about itself."""


class LeaveOneOut(msgspec.Struct, frozen=True):
    """The response of each measured sample by a model without it; NaN where the others
    do not determine it."""

    mean: Matrix
    sd: Matrix


class SurfaceModel(Protocol):
    """A model that was fitted."""

    @property
    def observed(self) -> Observed:
        """What it was fitted to."""

    def predict(self, samples: Sequence[Sample]) -> Predicted:
        """Return the response at samples; raises ValueError for an impossible level."""

    def leave_one_out(self) -> LeaveOneOut:
        """Return what each measured sample would be without its own measurement."""

    def fit(self, confidence: float) -> ModelFit:
        """Return the model as figures and words."""


def bands(
    model: SurfaceModel, samples: Sequence[Sample], confidence: float
) -> tuple[Matrix, Matrix, Matrix]:
    """Return value, lower and upper end of the band at samples [1/s]."""
    predicted = model.predict(samples)
    reach = _quantile(predicted.dof, (1 + confidence) / 2) * predicted.sd
    rate = model.observed.rate
    return (
        rate(predicted.mean),
        rate(predicted.mean - reach),
        rate(predicted.mean + reach),
    )


def _quantile(dof: float | None, probability: float) -> float:
    """Return the quantile of Student's t, or of the normal distribution."""
    return float(ndtri(probability) if dof is None else stdtrit(dof, probability))


def widening(response: Matrix, left_out: LeaveOneOut) -> float:
    """Return by what standard deviations must be multiplied to agree with the errors of
    the samples left out; 1 at least."""
    scaled = (response - left_out.mean) / left_out.sd
    known = scaled[np.isfinite(scaled)]
    return max(1.0, float(np.sqrt(np.mean(known**2)))) if len(known) else 1.0


def expected_error(model: SurfaceModel, samples: Sequence[Sample]) -> float:
    """Return the mean absolute error over samples that the model's own doubt implies, as a
    share of the rate; errors taken as normal."""
    predicted = model.predict(samples)
    sizes = float(np.sqrt(2 / np.pi)) * predicted.sd
    if not model.observed.log:
        rates = model.observed.rate(predicted.mean)
        sizes = sizes / np.maximum(rates, np.finfo(float).tiny)
    return float(np.mean(sizes))


def cross_validated(model: SurfaceModel, confidence: float) -> CrossValidation | None:
    """Return the errors of samples left out, and their mean size with its band.

    The band is Student's, of the mean over samples, cut off at 0. None where fewer than
    two samples can be left out.
    """
    seen = model.observed
    rates = seen.rate(model.leave_one_out().mean)
    left_out = tuple(
        LeftOut(sample, float(was), float(would))
        for sample, was, would in zip(seen.samples, seen.rates, rates, strict=True)
        if np.isfinite(would)
    )
    if len(left_out) < 2:
        return None
    sizes = np.array([abs(one.error) for one in left_out])
    n = len(sizes)
    reach = _quantile(n - 1, (1 + confidence) / 2) * sizes.std(ddof=1) / np.sqrt(n)
    mean, reach = float(sizes.mean()), float(reach)
    error = Estimate(
        mean, max(0.0, mean - reach), mean + reach, confidence, "leave-one-out", n
    )
    return CrossValidation(left_out, error)
