"""The polynomial of coded factors, by least squares.

Decision: the fit is unweighted, although the searches state their noise: on surfaces with a
bottleneck the lack of fit is several times that noise, and weights would ignore it. The width of
the bands comes from the residuals, which include the lack of fit, and from the leave-one-out
errors: with residuals alone the coverage at a bottleneck was 86 % instead of 95 %.
Source: D. C. Montgomery, Introduction to Linear Regression Analysis, chapters 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from benchwright.features.search.surface.model import (
    LeaveOneOut,
    PredictedResponse,
    SampleResponses,
)
from benchwright.features.search.surface.types import (
    Coefficient,
    Factor,
    ModelFit,
    ModelKind,
    Sample,
)
from benchwright.stats import special


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
