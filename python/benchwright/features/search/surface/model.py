"""The models of a surface: the measured peaks as numbers, the interface, the bands, and the
polynomial of coded factors by least squares.

Decision: the noise of a sample comes from the inner search's own interval. If a policy states none,
the tolerance of its claim replaces it, and a finding reports this. A bound (`never-fails`,
`fails-at-lowest`) is not a peak: it is left out, and a finding reports this. Decision: a search
that ended before its claim held has a *rough* peak. A process gives it the weight of its interval,
which counts as wide on both sides as on its wider one, and never as narrower than the claim.
Without two ends there is nothing to weigh it by, so it is left out; of a polynomial, whose samples
all count alike, it is left out in any case. A finding has the numbers. Rejected: to leave it out of
every model, because a deadline maps by rough searches. Decision: a band contains the peak that a
search at the sample would find, in `confidence` of the cases: it includes the model's uncertainty
and the searches' noise. Bands are widened until they agree with the leave-one-out errors, and never
narrowed; with ten samples a distribution-free (conformal) band of 95 % would be infinite.

Decision: the fit of the polynomial is unweighted, although the searches state their noise: on
surfaces with a bottleneck the lack of fit is several times that noise, and weights would ignore it.
The width of the bands comes from the residuals, which include the lack of fit, and from the
leave-one-out errors: with residuals alone the coverage at a bottleneck was 86 % instead of 95 %.
Source: D. C. Montgomery, Introduction to Linear Regression Analysis, chapters 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Protocol

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import (
    CodedColumn,
    Matrix,
    Term,
    coded,
    columns_of,
    model_matrix,
    term_name,
    terms_for,
    terms_of,
)
from benchwright.features.search.surface.types import (
    Coefficient,
    CrossValidation,
    Factor,
    LeftOutPrediction,
    ModelFit,
    ModelKind,
    Sample,
    SampleResult,
)
from benchwright.stats import special


class SampleResponses(msgspec.Struct, frozen=True):
    """The samples that have a value."""

    samples: tuple[Sample, ...]
    rates: Matrix
    """Peaks, measured or rough [1/s], shape `(n_samples,)`."""
    response: Matrix
    """The modelled quantity: the rates or their logarithms."""
    noise_sd: Matrix
    """Standard deviation of each response."""
    log: bool

    def rate(self, response: Matrix) -> Matrix:
        """Return rates [1/s] for responses; never below 0."""
        return np.exp(response) if self.log else np.maximum(response, 0.0)


def sample_responses(results: Sequence[SampleResult], *, log: bool) -> SampleResponses:
    """Return the results with a value, as numbers to fit."""
    used = with_value(results)
    rates = np.array([result.found.peak_rate for result in used], dtype=float)
    noise = np.array([_relative_sd(result) for result in used], dtype=float)
    return SampleResponses(
        samples=tuple(result.sample for result in used),
        rates=rates,
        response=np.log(rates) if log else rates,
        noise_sd=noise if log else noise * rates,
        log=log,
    )


def with_peak(results: Sequence[SampleResult]) -> tuple[SampleResult, ...]:
    """Return the results that have a measured peak above 0."""
    return tuple(result for result in results if (result.peak_rate or 0) > 0)


def with_value(results: Sequence[SampleResult]) -> tuple[SampleResult, ...]:
    """Return the results that have a value for a model with weights: a measured peak, or a rough
    one with both ends of an interval."""
    return tuple(
        result
        for result in results
        if (result.peak_rate or 0) > 0 or ((result.rough_rate or 0) > 0 and has_interval(result))
    )


def has_interval(result: SampleResult) -> bool:
    """Return whether the search stated an interval from which its noise can be computed."""
    interval = result.found.interval
    return interval is not None and 0 < interval.low <= interval.high < math.inf


def _relative_sd(result: SampleResult) -> float:
    """Return the standard deviation of a peak's logarithm."""
    interval, rate = result.found.interval, result.found.peak_rate
    claimed = result.found.claim.tolerance / special.normal_quantile(0.975)
    if interval is None or not has_interval(result):
        return claimed
    reach = special.normal_quantile((1 + interval.confidence) / 2)
    if not result.claim_held:
        assert rate is not None
        wider = max(math.log(interval.high / rate), math.log(rate / interval.low))
        return max(wider / reach, claimed)
    width = math.log(interval.high / interval.low)
    return max(width / (2 * reach), tuning.LEAST_RELATIVE_SD)


# -- the interface of a model, and its bands ------------------------------------------------------


class PredictedResponse(msgspec.Struct, frozen=True):
    """The response at samples, each an array `(n_samples,)`."""

    mean: Matrix
    sd: Matrix
    """Standard deviation of a new search's response around `mean`."""
    dof: float | None = None
    """Degrees of freedom of `sd`; None: `sd` includes its own uncertainty; 0: `sd` is NaN."""


class LeaveOneOut(msgspec.Struct, frozen=True):
    """The response of each measured sample, predicted from the others; NaN where these do not
    determine it."""

    mean: Matrix
    sd: Matrix


class SurfaceModel(Protocol):
    """A fitted model."""

    @property
    def observed(self) -> SampleResponses:
        """The samples to which the model was fitted."""

    def predict(self, samples: Sequence[Sample]) -> PredictedResponse:
        """Return the response at samples; raises ValueError for an impossible level."""

    def leave_one_out(self) -> LeaveOneOut:
        """Return the prediction of each measured sample without its own measurement."""

    def fit(self, confidence: float) -> ModelFit:
        """Return the model as figures and text."""


def bands(
    model: SurfaceModel, samples: Sequence[Sample], confidence: float
) -> tuple[Matrix, Matrix, Matrix]:
    """Return value, lower and upper end of the band at samples [1/s]; NaN ends where the model has
    no standard deviation."""
    predicted = model.predict(samples)
    reach = predicted.sd
    if predicted.dof != 0:
        reach = _quantile(predicted.dof, (1 + confidence) / 2) * predicted.sd
    rate = model.observed.rate
    return (rate(predicted.mean), rate(predicted.mean - reach), rate(predicted.mean + reach))


def _quantile(dof: float | None, probability: float) -> float:
    """Return the quantile of Student's t, or of the normal distribution."""
    return (
        special.normal_quantile(probability)
        if dof is None
        else special.t_quantile(dof, probability)
    )


def widening_factor(response: Matrix, left_out: LeaveOneOut) -> float:
    """Return the factor, at least 1, by which standard deviations must be multiplied to agree
    with the leave-one-out errors."""
    scaled = (response - left_out.mean) / left_out.sd
    finite = scaled[np.isfinite(scaled)]
    return max(1.0, float(np.sqrt(np.mean(finite**2)))) if len(finite) else 1.0


def expected_error(model: SurfaceModel, samples: Sequence[Sample]) -> float | None:
    """Return the mean absolute error over samples that the model's own uncertainty implies, as
    a share of the rate, assuming normal errors; None where the model has no uncertainty."""
    predicted = model.predict(samples)
    sizes = float(np.sqrt(2 / np.pi)) * predicted.sd
    if not model.observed.log:
        rates = model.observed.rate(predicted.mean)
        sizes = sizes / np.maximum(rates, np.finfo(float).tiny)
    error = float(np.mean(sizes))
    return error if math.isfinite(error) else None


def cross_validated(
    model: SurfaceModel, confidence: float, measured: Container[Sample]
) -> CrossValidation | None:
    """Return the leave-one-out errors of the measured samples and their mean size with its band.

    `measured`: the samples whose peaks are known; a rough one does not show an error. The band is
    Student's interval of the mean over samples, cut off at 0. None where fewer than two samples can
    be left out.
    """
    fitted = model.observed
    rates = fitted.rate(model.leave_one_out().mean)
    left_out = tuple(
        LeftOutPrediction(sample, float(rate), float(predicted))
        for sample, rate, predicted in zip(fitted.samples, fitted.rates, rates, strict=True)
        if np.isfinite(predicted) and sample in measured
    )
    if len(left_out) < 2:
        return None
    sizes = np.array([abs(prediction.error) for prediction in left_out])
    n = len(sizes)
    reach = _quantile(n - 1, (1 + confidence) / 2) * sizes.std(ddof=1) / np.sqrt(n)
    mean, reach = float(sizes.mean()), float(reach)
    error = Estimate(mean, max(0.0, mean - reach), mean + reach, confidence, "leave-one-out", n)
    return CrossValidation(left_out, error)


class Polynomial(msgspec.Struct, frozen=True):
    """A fitted polynomial; implements model.SurfaceModel."""

    factors: tuple[Factor, ...]
    terms: tuple[Term, ...]
    observed: SampleResponses
    coefficients: Matrix
    inverse: Matrix
    """Inverse of the information matrix, `(n_terms, n_terms)`."""
    leverage: Matrix
    residuals: Matrix
    sd: float
    """Standard deviation of the residuals; NaN without degrees of freedom."""

    @property
    def dof(self) -> int:
        """Number of samples minus number of terms."""
        return len(self.residuals) - len(self.terms)

    @property
    def columns(self) -> tuple[CodedColumn, ...]:
        """The coded columns that the terms multiply."""
        return columns_of(self.factors)

    def predict(self, samples: Sequence[Sample]) -> PredictedResponse:
        """Return the response at samples; raises ValueError for an impossible level.

        `sd` is NaN where the polynomial has as many terms as samples.
        """
        rows = model_matrix(coded(self.factors, samples), self.terms)
        variance = 1 + np.einsum("ij,jk,ik->i", rows, self.inverse, rows)
        sd = np.maximum(self.sd * np.sqrt(variance), self._left_out_sd())
        return PredictedResponse(rows @ self.coefficients, sd, self.dof)

    def _left_out_sd(self) -> float:
        """Return the root mean square of the leave-one-out errors; at least `sd`.

        The lack of fit is largest away from the samples, where residuals do not show it.
        """
        errors = self.observed.response - self.leave_one_out().mean
        finite = errors[np.isfinite(errors)]
        return max(self.sd, float(np.sqrt(np.mean(finite**2)))) if len(finite) else self.sd

    def leave_one_out(self) -> LeaveOneOut:
        """Return the prediction of each measured sample without it, computed from its leverage."""
        left = np.where(self.leverage < tuning.DETERMINED_LEVERAGE, 1 - self.leverage, np.nan)
        return LeaveOneOut(self.observed.response - self.residuals / left, self.sd / np.sqrt(left))

    def fit(self, confidence: float) -> ModelFit:
        """Return the formula and the coefficients with their intervals."""
        return ModelFit(
            kind=ModelKind.POLYNOMIAL,
            text=self._formula(),
            n=len(self.residuals),
            coefficients=self._coefficients(confidence),
            residual_share=self._share() if self.dof else None,
        )

    def _share(self) -> float:
        if self.observed.log:
            return self.sd
        return self.sd / float(self.observed.rates.mean())

    def _formula(self) -> str:
        response = "ln(rate)" if self.observed.log else "rate"
        names = [term_name(term, self.columns) for term in self.terms]
        return f"{response} = " + " + ".join(names)

    def _coefficients(self, confidence: float) -> tuple[Coefficient, ...]:
        sds = self.sd * np.sqrt(np.diag(self.inverse))
        reach = sds
        if self.dof:
            reach = special.t_quantile(self.dof, (1 + confidence) / 2) * sds
        n = len(self.residuals)
        return tuple(
            Coefficient(
                term_name(term, self.columns),
                Estimate(value, value - half, value + half, confidence, "student-t", n),
            )
            for term, value, half in zip(
                self.terms, self.coefficients.tolist(), reach.tolist(), strict=True
            )
        )


def fit_polynomial(
    factors: tuple[Factor, ...], fitted: SampleResponses, degree: int, planned: int | None = None
) -> Polynomial | None:
    """Return the largest polynomial of the degree that the samples determine.

    It leaves `FEWEST_SPARE_SAMPLES` samples to spare; with a design of `planned` samples for this
    polynomial, as many as were planned, if those are fewer. None if not even main effects are
    determined.
    """
    columns = columns_of(factors)
    spare = tuning.FEWEST_SPARE_SAMPLES
    if planned is not None:
        beyond = planned - len(terms_of(columns, degree))
        spare = beyond if 0 <= beyond < spare else spare
    most = len(fitted.samples) - spare
    codes = coded(factors, fitted.samples)
    while most >= 1:
        terms = terms_for(columns, degree, most)
        rows = model_matrix(codes, terms)
        if np.linalg.matrix_rank(rows) == len(terms):
            return _fitted(factors, terms, fitted, rows)
        most = len(terms) - 1
    return None


def _fitted(
    factors: tuple[Factor, ...], terms: tuple[Term, ...], fitted: SampleResponses, rows: Matrix
) -> Polynomial:
    inverse = np.asarray(np.linalg.inv(rows.T @ rows), float)
    coefficients = inverse @ rows.T @ fitted.response
    residuals = fitted.response - rows @ coefficients
    dof = len(rows) - len(terms)
    sd = float(np.sqrt(residuals @ residuals / dof)) if dof else math.nan
    return Polynomial(
        factors,
        terms,
        fitted,
        coefficients,
        inverse,
        np.einsum("ij,jk,ik->i", rows, inverse, rows),
        residuals,
        sd,
    )
