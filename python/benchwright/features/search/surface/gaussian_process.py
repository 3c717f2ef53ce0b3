"""A Gaussian process over the factors: its predictions and their uncertainty.

Covariance: squared exponential with a length for each axis, a linear trend, and a separate
deviation of each sample (without it the model treats a surface with cliffs as smooth); the
response is the logarithm of the rate over transformed factors; the noise of each search is on
the diagonal.
Decision: the model averages over hyperparameters, weighted by their likelihood, and does not fit
them: with ten samples many explain the data, and the most likely ones alone have 20 % larger errors
and are overconfident (docs/decisions/0007-peak.md has errors and coverage of both, and of other
kernels and trends). Rejected: scikit-learn, which fits the most likely ones; only for covariances
it took about fifty times as long as this module. The tests compare with it. The draws are an even
sequence: nothing is random.
Source: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning
(2006), sections 2.2, 5.2 and 5.4.2; choosing samples: D. J. C. MacKay, Neural Computation
4 (1992), 590-604; even sequences: M. Roberts, The Unreasonable Effectiveness of Quasirandom
Sequences (2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import Matrix, points_of
from benchwright.features.search.surface.model import (
    LeaveOneOut,
    PredictedResponse,
    SampleResponses,
    widening_factor,
)
from benchwright.features.search.surface.types import Factor, ModelFit, ModelKind, Sample


class HyperparameterDraws(msgspec.Struct, frozen=True):
    """Draws of the hyperparameters, one in each row."""

    wave: Matrix
    """Variance of the smooth part, `(n_draws,)`."""
    trend: Matrix
    """Variance of the linear trend's slopes, `(n_draws,)`."""
    own: Matrix
    """Variance of each sample's own deviation, `(n_draws,)`."""
    lengths: Matrix
    """Lengths of the smooth part, `(n_draws, n_axes)`."""
    weights: Matrix
    """Weights of the draws; their sum is 1, `(n_draws,)`."""

    def covariance(self, a: Matrix, b: Matrix) -> Matrix:
        """Return the covariance of points without their own deviations, shape
        `(n_draws, n_a, n_b)`."""
        apart = (a[:, None, :] - b[None, :, :]) ** 2
        squared = np.einsum("nmk,dk->dnm", apart, self.lengths**-2.0)
        smooth = np.exp(-squared / 2)
        line = self.trend[:, None, None] * (a @ b.T)
        return np.asarray(self.wave[:, None, None] * smooth + line)

    def chosen(self, which: Matrix, weights: Matrix) -> HyperparameterDraws:
        """Return some of the draws, with new weights."""
        return HyperparameterDraws(
            self.wave[which], self.trend[which], self.own[which], self.lengths[which], weights
        )


class GaussianProcess(msgspec.Struct, frozen=True):
    """A process given the samples; implements model.SurfaceModel."""

    factors: tuple[Factor, ...]
    observed: SampleResponses
    draws: HyperparameterDraws
    inverse: Matrix
    """Inverse of the samples' covariance with noise, `(n_draws, n_samples, n_samples)`."""
    centre: float
    scale: float
    """The modelled quantity is (response - centre) / scale."""

    def predict(self, samples: Sequence[Sample]) -> PredictedResponse:
        """Return the response at samples; raises ValueError for an impossible level."""
        mean, sd = self.response(samples)
        noise = float(np.median(self.observed.noise_sd))
        return PredictedResponse(mean, self._widening() * np.hypot(sd, noise))

    def response(self, samples: Sequence[Sample]) -> tuple[Matrix, Matrix]:
        """Return the mean response and its standard deviation, without a search's noise."""
        points = points_of(self.factors, samples)
        parts = [
            self._conditional(points[at : at + tuning.PREDICTED_AT_ONCE])
            for at in range(0, len(points), tuning.PREDICTED_AT_ONCE)
        ]
        means, sds = (np.concatenate(column) for column in zip(*parts, strict=True))
        return means, sds

    def draw(
        self, samples: Sequence[Sample], count: int, seed: int, *, smooth: bool = False
    ) -> Matrix:
        """Return joint draws of the true response at different samples, `(count, n_samples)`:
        without the noise of a search, and of a sample that was searched with what its search
        found. `smooth`: without each sample's own deviation.

        Raises ValueError for an impossible level.
        """
        rng = np.random.default_rng(seed)
        seen = points_of(self.factors, self.observed.samples)
        points = points_of(self.factors, samples)
        place = {sample: at for at, sample in enumerate(self.observed.samples)}
        own = np.zeros((len(points), len(seen)))
        for row, sample in enumerate(samples):
            if sample in place and not smooth:
                own[row, place[sample]] = 1.0
        alone = np.eye(len(points)) * (not smooth)
        drawn = []
        for at, times in enumerate(rng.multinomial(count, self.draws.weights).tolist()):
            if times:
                one = self.draws.chosen(np.array([at]), np.ones(1))
                (cross,) = one.covariance(points, seen) + one.own * own
                (prior,) = one.covariance(points, points) + one.own * alone
                gain = cross @ self.inverse[at]
                variances, axes = np.linalg.eigh(prior - gain @ cross.T)
                root = axes * np.sqrt(np.maximum(variances, 0.0))
                normals = rng.standard_normal((times, len(points)))
                drawn.append(gain @ self._scaled() + normals @ root.T)
        scaled = np.concatenate(drawn)
        # What was searched is known by its own search, which the others' errors do not widen.
        apart = np.where(own.any(axis=1), 1.0, self._widening())
        mean = scaled.mean(axis=0)
        return np.asarray(self.centre + self.scale * (mean + apart * (scaled - mean)))

    def believing(self, samples: Sequence[Sample]) -> GaussianProcess:
        """Return the process as if searches at further samples had found its own predictions.

        Source: D. Ginsbourger, R. Le Riche, L. Carraro, Kriging Is Well-Suited to Parallelize
        Optimization (2010), section 3 (the kriging believer).
        """
        seen = self.observed
        new = [sample for sample in dict.fromkeys(samples) if sample not in seen.samples]
        if not new:
            return self
        believed, _ = self.response(new)
        noise = np.full(len(new), np.median(seen.noise_sd))
        fitted = SampleResponses(
            samples=(*seen.samples, *new),
            rates=np.append(seen.rates, seen.rate(believed)),
            response=np.append(seen.response, believed),
            noise_sd=np.append(seen.noise_sd, noise),
            log=seen.log,
        )
        process = fit_process(self.factors, fitted)
        assert process is not None, "there are more samples than before"
        return process

    def leave_one_out(self) -> LeaveOneOut:
        """Return the prediction of each measured sample without it, with the same hyperparameters."""
        own = np.diagonal(self.inverse, axis1=1, axis2=2)
        means = self._scaled() - self.inverse @ self._scaled() / own
        return LeaveOneOut(*self._mixed(means, 1 / own))

    def fit(self, confidence: float) -> ModelFit:  # noqa: ARG002 - nothing has an interval
        """Return the covariance as text, with averaged hyperparameters."""
        return ModelFit(
            kind=ModelKind.GAUSSIAN_PROCESS,
            text=self._text(),
            n=len(self.observed.samples),
            residual_share=self._residual_share(),
            widening=self._widening(),
        )

    def _scaled(self) -> Matrix:
        return np.asarray((self.observed.response - self.centre) / self.scale)

    def _conditional(self, points: Matrix) -> tuple[Matrix, Matrix]:
        cross = self.draws.covariance(points, points_of(self.factors, self.observed.samples))
        gain = cross @ self.inverse
        prior = (self.draws.wave + self.draws.own)[:, None] + self.draws.trend[:, None] * (
            (points**2).sum(axis=1)[None, :]
        )
        variances = prior - np.einsum("dpn,dpn->dp", gain, cross)
        return self._mixed(gain @ self._scaled(), variances)

    def _mixed(self, means: Matrix, variances: Matrix) -> tuple[Matrix, Matrix]:
        """Return mean and standard deviation of the draws' mixture, in the response's unit.

        Differences between the draws are part of the uncertainty.
        """
        mean = self.draws.weights @ means
        variance = self.draws.weights @ (variances + (means - mean) ** 2)
        sd = np.sqrt(np.maximum(variance, 0.0))
        return self.centre + self.scale * mean, self.scale * sd

    def _widening(self) -> float:
        return widening_factor(self.observed.response, self.leave_one_out())

    def _residual_share(self) -> float:
        at_measured, _ = self.response(self.observed.samples)
        rates = self.observed.rate(at_measured)
        return float(np.sqrt(np.mean((rates / self.observed.rates - 1) ** 2)))

    def _text(self) -> str:
        draws = self.draws
        wave, trend, *lengths = (
            float(np.exp(draws.weights @ np.log(column)))
            for column in (draws.wave, draws.trend, *draws.lengths.T)
        )
        lengths_text = ", ".join(
            f"{name} {length:.2g}"
            for name, length in zip(_axis_names(self.factors), lengths, strict=True)
        )
        return (
            f"squared exponential of sd {self.scale * math.sqrt(wave):.2g} with lengths {lengths_text} "
            f"(each factor spans 2), and slopes of sd {self.scale * math.sqrt(trend):.2g}; "
            f"means of {len(draws.weights)} draws"
        )


def fit_process(factors: tuple[Factor, ...], fitted: SampleResponses) -> GaussianProcess | None:
    """Return the process given the samples; None for fewer than `FEWEST_PROCESS_SAMPLES`."""
    points = points_of(factors, fitted.samples)
    if len(points) < tuning.FEWEST_PROCESS_SAMPLES or not points.shape[1]:
        return None
    centre = float(fitted.response.mean())
    scale = max(float(fitted.response.std()), float(np.median(fitted.noise_sd)))
    scaled = (fitted.response - centre) / scale
    draws = prior_draws(points.shape[1])
    noise = (fitted.noise_sd / scale) ** 2
    alone = np.eye(len(points)) * (noise + draws.own[:, None])[:, None, :]
    covariance = draws.covariance(points, points) + alone
    likelihood = log_likelihood(covariance, scaled)
    weights = np.exp(likelihood - likelihood.max())
    heavy = weights >= tuning.LEAST_WEIGHT
    shares = weights[heavy] / weights[heavy].sum()
    inverse = np.linalg.inv(covariance[heavy])
    return GaussianProcess(factors, fitted, draws.chosen(heavy, shares), inverse, centre, scale)


def log_likelihood(covariance: Matrix, values: Matrix) -> Matrix:
    """Return the logarithm of the values' density, without constants, for each covariance.

    `covariance` has shape `(n_draws, n_samples, n_samples)`.
    """
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, np.broadcast_to(values, lower.shape[:2])[:, :, None])
    logarithms = np.log(np.diagonal(lower, axis1=1, axis2=2))
    return np.asarray(-0.5 * (white[:, :, 0] ** 2).sum(axis=1) - logarithms.sum(axis=1))


def prior_draws(axes: int) -> HyperparameterDraws:
    """Return draws of the hyperparameters, evenly spread over their logarithms within bounds."""
    even = even_points(axes + 3, tuning.HYPERPARAMETER_DRAWS)
    bounds = (tuning.SMOOTH_VARIANCES, tuning.TREND_VARIANCES, tuning.OWN_VARIANCES)
    wave, trend, own = (_between(bound, even[:, at]) for at, bound in enumerate(bounds))
    lengths = _between(tuning.SMOOTH_LENGTHS, even[:, 3:])
    return HyperparameterDraws(
        wave,
        trend,
        own,
        lengths,
        np.full(tuning.HYPERPARAMETER_DRAWS, 1 / tuning.HYPERPARAMETER_DRAWS),
    )


def even_points(axes: int, n: int) -> Matrix:
    """Return n points that fill the unit cube evenly, shape `(n, n_axes)`.

    The point of index k is k times an irrational step in each axis, modulo 1; the steps are
    powers of the root of x^(axes + 1) = x + 1.
    """
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (axes + 1))
    steps = root ** -np.arange(1.0, axes + 1)
    return np.asarray((0.5 + np.outer(np.arange(1, n + 1), steps)) % 1)


def _between(bounds: tuple[float, float], shares: Matrix) -> Matrix:
    low, high = bounds
    return np.asarray(low * (high / low) ** shares)


def _axis_names(factors: Sequence[Factor]) -> list[str]:
    names = []
    for factor in factors:
        if factor.numeric and len(factor.levels) > 1:
            names.append(factor.title)
        elif len(factor.levels) > 1:
            names += [f"{factor.name}={level}" for level in factor.levels]
    return names
