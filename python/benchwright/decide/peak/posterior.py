"""Steps 2 and 3 of a decision: the response curve after the runs so far, and the answer.

Purpose: the joint posterior of (peak, gap, exponent, unloaded response, noise, noise between
runs, excess of overload), and the rate that satisfies a claim with the highest probability.
Decision: weighted draws, not a grid, because there are seven parameters. Importance sampling uses
a fixed low-discrepancy sequence and no random numbers, so the same history gives the same answer.
Draws approach the posterior in tempered steps (the power of the likelihood grows as fast as the
draws can follow). The last step's draws have weights, so the normal shape of a step is only a
proposal, not an assumption.
Source: docs/peak-method.md; O. Cappe et al. 2004, Population Monte Carlo, J. Comp. Graph. Stat. 13.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from benchwright.core.numeric import np
from benchwright.core.search import Claim, ClaimKind, CurveShape, LoadTrial, PeakGoal
from benchwright.decide.peak import tuning
from benchwright.decide.peak.reading import RunEstimate, RunEstimates, read_trials
from benchwright.decide.peak.trials import TrialCache
from benchwright.stats.arrays import FloatArray

# -- the family of response curves that queues have -----------------------------------------------
#
# response(rate) = S0 + (limit - S0) (rate/peak)^p gap/(capacity - rate/peak): a pole at the
# capacity, an unloaded response S0, and an exponent p that sets how sharply waiting begins: 1 for
# one server (Pollaczek-Khinchine, exactly), about sqrt(2(c+1)) - 1 for c servers (Sakasegawa),
# 0 for Kingman's plain pole. The peak is a parameter because it is what the search estimates.
# Decision: the exponent is estimated, so that runs well below the peak show it and do not mislead;
# a pole without it bends wrongly for many servers. Rejected: the paper's a + b/rate, which is
# concave and has no pole.
# Decision: near and above the capacity a run has no steady state, and its response depends on its
# length; `softness` limits the pole to what a run that starts with an empty server can reach.
# Source: H. Sakasegawa 1977, An approximation formula L_q, Ann. Inst. Stat. Math. 29;
# J. Harrison 1985, Brownian motion and stochastic flow systems (reflected Brownian motion).


class ResponseCurve(msgspec.Struct, frozen=True):
    """Many curves of one criterion, one for each draw; columns `(n,)`.

    Responses are shares of the limit: 1 at the peak.
    """

    peak: FloatArray
    """Peak rate [1/s]."""
    gap: FloatArray
    """(capacity - peak) / peak."""
    exponent: FloatArray
    unloaded: FloatArray
    """Response without load, as a share of the limit."""

    @property
    def capacity(self) -> FloatArray:
        """The rate of the pole [1/s]."""
        return self.peak * (1 + self.gap)

    def waiting(self, rate: FloatArray, softness: FloatArray | float = 0.0) -> Any:
        """Return the response minus the unloaded one, as a share of that difference at the peak.

        The shape of `rate` broadcasts to `(..., n)`; `softness` is a share of the capacity.
        """
        x = rate / self.peak
        distance = 1 + self.gap - x
        softened = 4 * (softness * (1 + self.gap)) ** 2 + 1e-9
        # The positive root of r^2 - distance r - softened/4, without a difference of nearly
        # equal numbers, which would be 0 far above the capacity.
        away = np.abs(distance) + np.sqrt(distance * distance + softened)
        reach = np.where(distance > 0, away / 2, softened / (2 * away))
        return np.maximum(np.exp(self.exponent * np.log(x)) * self.gap / reach, 1e-6)

    def response(self, rate: FloatArray, softness: FloatArray | float = 0.0) -> Any:
        """Return the response as a share of the limit."""
        return self.unloaded + (1 - self.unloaded) * self.waiting(rate, softness)


# -- how likely the runs are under a curve ------------------------------------------------------------
#
# Log prior and log likelihood of many draws at once.
# Decision: the reciprocal of a run's mean is modelled. The mean of a queue's run is so skewed
# (measured skewness: 6 to 10 times its relative standard deviation) that 1/mean is nearly normal,
# around (1 + v)/response.

PEAK, GAP, EXPONENT, UNLOADED, NOISE, BETWEEN, EXCESS = range(7)
"""Columns of a table of draws `(n, 7)`: logarithms, a logit (UNLOADED), a share (EXCESS)."""
SIZE = 7
IMPOSSIBLE = -1e12
"""Log likelihood of an impossible draw."""


class ExpectedRuns(msgspec.Struct, frozen=True):
    """Runs compared with what each draw predicts; every table is `(n_runs, n)`."""

    ratio: FloatArray
    """Expected / measured response; nearly normal."""
    left: FloatArray
    """`ratio` minus its expected mean."""
    variance: FloatArray
    noise_s: FloatArray


class Likelihood:
    """The log prior and log likelihood of draws, with the runs in arrays `(n_runs, 1)`."""

    def __init__(
        self,
        estimates: RunEstimates,
        guess: tuple[float, float],
        shape: CurveShape | None,
    ) -> None:
        """`guess` is a low and a high initial peak [1/s], `shape` a neighbouring sample's curve."""
        steady = [run for run in estimates.runs if run.steady]
        over = [run for run in estimates.runs if run.capacity is not None]
        # A run that is neither steady nor shows a capacity only shows that it was overloaded.
        lost = [r for r in estimates.runs if not r.steady and r.capacity is None]
        self.low, self.high = guess
        self.limit_s = estimates.limit_s
        self.mean_limit_s = estimates.mean_limit_s
        self.gap_prior, self.unloaded_prior, self.noise_prior = _priors(
            estimates.limit_s, shape
        )
        self.unseen_s = _unseen_warm_up_s(over, estimates.limit_s)
        self.rate = _run_column(steady, lambda run: run.rate)
        self.value = _run_column(steady, lambda run: run.value)
        self.lasts_s = _run_column(steady, lambda run: run.lasts_s)
        self.own = _run_column(steady, lambda run: max(run.noise.relative_s, 1e-9))
        busy = tuning.BUSY_SHARE
        self.freedom = _run_column(
            steady, lambda run: run.noise.freedom if run.value > busy else 0.0
        )
        self.idle_s = _run_column(
            steady, lambda run: run.noise.relative_s if run.value <= busy else 0.0
        )
        capacities = [run.capacity for run in over if run.capacity]
        self.capacity = np.array([[capacity.rate] for capacity in capacities])
        self.capacity_sd = np.array([[capacity.relative_sd] for capacity in capacities])
        self.overload_s = _run_column(over, lambda run: run.lasts_s)
        self.too_high = _run_column(lost, lambda run: run.rate)

    def first(self) -> tuple[FloatArray, FloatArray]:
        """Return centre and covariance of the first proposal, from the prior and the guess."""
        middle = 0.5 * (math.log(self.low) + math.log(self.high))
        width = 0.5 * (math.log(self.high) - math.log(self.low)) + 0.05
        pairs = (
            (middle, width),
            self.gap_prior,
            tuning.EXPONENT_PRIOR,
            self.unloaded_prior,
            self.noise_prior,
            tuning.BETWEEN_RUNS_PRIOR,
            (0.0, 3 * tuning.EXCESS_SCALE),
        )
        centre = np.array([pair[0] for pair in pairs])
        return centre, np.diag(np.array([pair[1] for pair in pairs]) ** 2)

    def log_density(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior and log likelihood of draws `(n, 7)`."""
        from scipy.special import log_ndtr

        curve = curve_of(theta)
        total = np.zeros(theta.shape[0])
        if self.rate.size:
            total += self._steady(curve, theta)
        if self.capacity.size:
            total += self._overloaded(curve, theta)
        if self.too_high.size:
            above = np.log(self.too_high / curve.peak) / tuning.OVERLOADED_SD
            total += log_ndtr(above).sum(axis=0)
        # A draw whose curve overflows is impossible.
        return self._log_prior(theta, curve), np.where(
            np.isfinite(total), total, IMPOSSIBLE
        )

    def _log_prior(self, theta: FloatArray, curve: ResponseCurve) -> FloatArray:
        total = np.zeros(theta.shape[0])
        for column, (centre, spread) in (
            (GAP, self.gap_prior),
            (UNLOADED, self.unloaded_prior),
            (BETWEEN, tuning.BETWEEN_RUNS_PRIOR),
        ):
            total -= 0.5 * ((theta[:, column] - centre) / spread) ** 2
        tailed: tuple[tuple[int, tuple[FloatArray | float, float], float], ...] = (
            (NOISE, self.noise_prior, tuning.NOISE_TAIL),
            (EXPONENT, self.exponent_prior(curve), tuning.EXPONENT_TAIL),
        )
        for column, (middle, scale), tail in tailed:
            away = (theta[:, column] - middle) / scale
            total -= 0.5 * (tail + 1) * np.log1p(away * away / tail)
        guessed = 0.5 * (math.log(self.low) + math.log(self.high))
        width = (math.log(self.high) - math.log(self.low)) + 0.3
        total -= 0.5 * ((theta[:, PEAK] - guessed) / width) ** 2
        total -= np.log1p((theta[:, EXCESS] / tuning.EXCESS_SCALE) ** 2)
        return total

    def exponent_prior(self, curve: ResponseCurve) -> tuple[FloatArray | float, float]:
        """Return the centre and scale of ln exponent for each curve: that of a queue with as many servers as
        the capacity keeps busy."""
        if self.mean_limit_s is None:
            return tuning.EXPONENT_PRIOR
        centre, scale = tuning.EXPONENT_OF_SERVERS
        return centre + np.log(np.sqrt(2 * (self._servers(curve) + 1)) - 1), scale

    def _servers(self, curve: ResponseCurve) -> FloatArray:
        """Return how many servers the capacity keeps busy, each for the unloaded response (Little); the limit
        is a time."""
        assert self.mean_limit_s is not None
        result: FloatArray = np.maximum(
            curve.capacity * curve.unloaded * self.mean_limit_s, 1.0
        )
        return result

    def noise_s(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the noise at the peak [s]: a multiple of that of reflected Brownian motion."""
        multiple = self._noise_multiple(curve, theta)
        if self.mean_limit_s is None:
            return multiple
        share = 1 - curve.unloaded
        busy = curve.gap / (1 + curve.gap)
        result: FloatArray = multiple * share**3 * 4 * self.mean_limit_s / busy
        return result

    def noise_power(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the power of the waiting with which the noise grows: less where heavy tails make
        most of it, because a huge operation is as rare at any load. Of several servers it stops one."""
        if self.limit_s is None:
            return np.full(theta.shape[0], tuning.NOISE_EXPONENT)
        multiple = self._noise_multiple(curve, theta)
        usual = tuning.NOISE_OF_TAILS * self._servers(curve)
        tails = np.maximum(multiple / usual, 1.0)
        result: FloatArray = tuning.NOISE_EXPONENT / tails
        return result

    def _noise_multiple(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the noise at the peak over that of reflected Brownian motion; in seconds where
        the limit is not a time."""
        scale = np.exp(theta[:, NOISE])
        if self.limit_s is None:
            return scale
        result: FloatArray = scale * (curve.gap / 0.1) ** tuning.NOISE_BY_GAP
        return result

    def expected(self, curve: ResponseCurve, theta: FloatArray) -> ExpectedRuns:
        """Return the expected results of the steady runs, and their deviations."""
        noise_s = self.noise_s(curve, theta)
        busy = curve.gap / (1 + curve.gap)
        share = np.maximum(1 - curve.unloaded, 1e-6)
        # The wait at the peak in seconds, by the noise it must have.
        waits_s = noise_s * busy / (6 * share**2)
        softness = 1.0 * np.sqrt(waits_s * busy / self.lasts_s)
        waiting = curve.waiting(self.rate, softness)
        response = curve.unloaded + (1 - curve.unloaded) * waiting
        served_s = tuning.SERVICE_CV2 / self.rate * (curve.unloaded / response) ** 2
        here_s = noise_s * waiting ** self.noise_power(curve, theta)
        here_s += np.maximum(self.idle_s, served_s)
        x = self.rate / curve.peak
        distance = np.maximum(1 + curve.gap - x, softness * (1 + curve.gap))
        elasticity = (
            (1 - curve.unloaded) * waiting / response * (curve.exponent + x / distance)
        )
        away = (1 - curve.unloaded) * waiting / response * np.log(waiting)
        variance = (
            here_s / self.lasts_s
            + (elasticity * np.exp(theta[:, BETWEEN])) ** 2
            + (elasticity * self.unseen_s / self.lasts_s) ** 2
            + (tuning.MODEL_ERROR * away) ** 2
            + 1e-6
        )
        ratio = response / self.value
        left = ratio - 1 - np.minimum(variance, 0.5)
        return ExpectedRuns(ratio, left, variance, here_s)

    def _steady(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of the steady responses and of their own noise."""
        runs = self.expected(curve, theta)
        total = -0.5 * runs.left**2 / runs.variance - 0.5 * np.log(runs.variance)
        total += np.log(runs.ratio)
        # A run that is high by chance also varies more within itself; batches that are no longer
        # than an excursion do not show all of it.
        high = np.clip(runs.ratio, 1 / tuning.OWN_NOISE_REACH, tuning.OWN_NOISE_REACH)
        batched = 1 + tuning.OWN_NOISE_BATCHES * runs.noise_s / self.lasts_s
        own_s = runs.noise_s / (batched * high**tuning.OWN_NOISE_EXPONENT)
        total -= 0.5 * self.freedom * (np.log(own_s) + self.own / own_s)
        result: FloatArray = total.sum(axis=0)
        return result

    def _overloaded(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of the capacities of overloaded runs."""
        left = np.log(self.capacity / curve.capacity) - theta[:, EXCESS]
        variance = (
            self.capacity_sd**2
            + np.exp(2 * theta[:, BETWEEN])
            + (self.unseen_s / self.overload_s) ** 2
        )
        total = -0.5 * left**2 / variance - 0.5 * np.log(variance)
        result: FloatArray = total.sum(axis=0)
        return result


Prior = tuple[float, float]
"""Centre and standard deviation."""


def _priors(
    limit_s: float | None, shape: CurveShape | None
) -> tuple[Prior, Prior, Prior]:
    """Return the priors of ln gap, the unloaded response's logit and ln noise."""
    noise = tuning.NOISE_PRIOR if limit_s is not None else tuning.NOISE_PRIOR_UNTIMED
    if shape is None:
        return tuning.GAP_PRIOR, tuning.UNLOADED_PRIOR, noise
    unloaded = min(max(shape.unloaded, 0.01), 0.99)
    return (
        (math.log(max(shape.gap, 1e-3)), tuning.NEIGHBOUR_SD),
        (math.log(unloaded / (1 - unloaded)), 2 * tuning.NEIGHBOUR_SD),
        noise,
    )


def _unseen_warm_up_s(over: Sequence[RunEstimate], limit_s: float | None) -> float:
    """Return the seconds of work that an undetected warm-up may cost a run; fewer after a long
    overloaded run."""
    shortest_s, longest_s = tuning.CHECKED_S
    long_s = min(max(tuning.CHECKED_LIMITS * (limit_s or 1.0), shortest_s), longest_s)
    if any(run.lasts_s >= long_s for run in over):
        return tuning.UNSEEN_WARM_UP_S
    return tuning.UNCHECKED_WARM_UP_S


def curve_of(theta: FloatArray) -> ResponseCurve:
    """Return the curves for draws `(n, 7)`."""
    return ResponseCurve(
        np.exp(theta[:, PEAK]),
        np.exp(theta[:, GAP]),
        np.exp(np.minimum(theta[:, EXPONENT], tuning.MOST_EXPONENT)),
        1 / (1 + np.exp(-theta[:, UNLOADED])),
    )


def _run_column(
    runs: Sequence[RunEstimate], value: Callable[[RunEstimate], float]
) -> FloatArray:
    return np.array([[value(run)] for run in runs], dtype=float)


# -- the posterior ---------------------------------------------------------------------------------------


class Posterior(msgspec.Struct, frozen=True):
    """Weighted draws; every column is `(n,)`."""

    curve: ResponseCurve
    weight: FloatArray
    """Sums to 1."""
    noise_s: FloatArray
    """Relative variance of a run's mean at the peak times its length [s]."""
    noise_power: FloatArray
    """Power of the waiting with which the noise grows."""
    between: FloatArray
    """Relative standard deviation of the capacity between runs."""
    excess: FloatArray
    """Relative difference between the rate that an overloaded server completes and the pole."""
    effective: float
    """Effective number of draws, given their weights."""
    moments: tuple[FloatArray, FloatArray]
    """Centre and covariance of the draws' parameters: a first proposal for a similar posterior."""

    def mean(self, values: FloatArray) -> float:
        """Return the posterior mean of a column."""
        return float(self.weight @ values)

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak [1/s]."""
        return weighted_quantiles(self.curve.peak, self.weight, [share])[0]


def weighted_quantiles(
    values: FloatArray, weight: FloatArray, shares: Sequence[float]
) -> list[float]:
    """Return the values below which the given shares of the weight lie."""
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return [float(value) for value in np.interp(shares, below, values[order])]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def posterior(
    estimates: RunEstimates,
    guess: tuple[float, float],
    shape: CurveShape | None,
    *,
    draws: int = tuning.POSTERIOR_DRAWS,
    begin: Posterior | None = None,
) -> Posterior:
    """Return the posterior given the runs.

    `guess` is a low and a high initial peak [1/s], which need not enclose it; `begin` is a
    posterior of nearly the same runs, whose moments are the first proposal.
    """
    model = Likelihood(estimates, guess, shape)
    first = model.first() if begin is None else begin.moments
    found = _sampled(model, first, draws)
    if found.effective < tuning.FEWEST_EFFECTIVE_DRAWS:
        # Hardly any draw of a wide proposal fits many precise runs: begin at the likeliest curve.
        found = _sampled(model, likeliest(model, found.moments), tuning.RESTART_DRAWS)
    return found


def _sampled(
    model: Likelihood, first: tuple[FloatArray, FloatArray], draws: int
) -> Posterior:
    """Return the posterior by importance sampling from centre and covariance of a first proposal.

    Without effective draws where the steps do not suffice for the whole likelihood.
    """
    points = _points(draws, SIZE)
    centre, spread = first
    for step in range(tuning.TEMPERED_STEPS):
        theta = centre + points @ np.linalg.cholesky(spread).T
        prior, likelihood = model.log_density(theta)
        base = prior - _log_proposal(points)
        part = tuning.EFFECTIVE_PART * (1 + step / 4)
        power = _next_power(base, likelihood, part)
        weight = _normalised(base + power * likelihood)
        effective = 1.0 / float(weight @ weight)
        if power >= 1.0 and effective > draws / 5:
            break
        if step == tuning.TEMPERED_STEPS - 3 and draws == tuning.POSTERIOR_DRAWS:
            # The posterior is far from normal: more draws and a wider proposal.
            points = _points(tuning.MORE_DRAWS * draws, SIZE)
        centre, spread = _moments(theta, weight)
    curve = curve_of(theta)
    return Posterior(
        curve,
        weight,
        model.noise_s(curve, theta),
        model.noise_power(curve, theta),
        np.exp(theta[:, BETWEEN]),
        theta[:, EXCESS],
        effective if power >= 1.0 else 0.0,
        _moments(theta, weight),
    )


def likeliest(
    model: Likelihood, near: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the parameters with the highest density, and the covariance of a normal posterior there.

    `near` are the centre and covariance of draws that are near it. Newton's method with second
    differences; each step is the best of several dampings, so the density never falls.
    """
    centre, spread = near
    scale = np.linalg.cholesky(spread)

    def density(theta: FloatArray) -> FloatArray:
        prior, likelihood = model.log_density(theta)
        total: FloatArray = np.nan_to_num(
            prior + likelihood, nan=IMPOSSIBLE, neginf=IMPOSSIBLE
        )
        return total

    theta = centre + _points(tuning.POSTERIOR_DRAWS, SIZE) @ scale.T
    at = theta[int(np.argmax(density(theta)))]
    for _ in range(tuning.NEWTON_STEPS):
        around = density(at + _STENCIL @ scale.T)
        gradient, curvature = _differences(around)
        widths, axes = np.linalg.eigh(-curvature)
        widths = np.maximum(widths, tuning.NEWTON_WIDEST)
        root = scale @ axes @ np.diag(widths**-0.5)
        along = axes.T @ gradient
        steps = np.array([axes @ (along / (widths + d)) for d in _DAMPINGS]) @ scale.T
        reached = density(at + steps)
        best = int(np.argmax(reached))
        if reached[best] - around[0] < tuning.NEWTON_GAIN:
            break
        at = at + steps[best]
        scale = scale @ axes @ np.diag(np.clip(widths**-0.5, 0.2, 2.0))
    return at, tuning.NEWTON_WIDER * root @ root.T


_STEP = 0.05
"""Of the differences, as a share of the proposal's width."""
_PAIRS = tuple(itertools.combinations(range(SIZE), 2))
_DAMPINGS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def _stencil() -> FloatArray:
    """Return the points of second differences: the centre, each parameter up and down, and each pair."""
    unit = _STEP * np.eye(SIZE)
    pairs = [unit[i] + unit[j] for i, j in _PAIRS]
    return np.concatenate(
        [np.zeros((1, SIZE)), unit, -unit, pairs, [-pair for pair in pairs]]
    )


_STENCIL = _stencil()


def _differences(density: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return gradient and second derivatives from the densities at the points of `_STENCIL`."""
    middle, rest = density[0], density[1:]
    up, down = rest[:SIZE], rest[SIZE : 2 * SIZE]
    both, neither = np.split(rest[2 * SIZE :], 2)
    own = (up + down - 2 * middle) / _STEP**2
    curvature = np.diag(own)
    for (i, j), above, below in zip(_PAIRS, both, neither, strict=True):
        mixed = (above + below - 2 * middle) / _STEP**2 - own[i] - own[j]
        curvature[i, j] = curvature[j, i] = mixed / 2
    return (up - down) / (2 * _STEP), curvature


@lru_cache(maxsize=4)
def _points(n: int, size: int) -> FloatArray:
    """Return fixed points of a multivariate Student t `(n, size)`: normal quantiles of a
    Kronecker sequence (roots of primes), each point divided by its chi deviate."""
    from scipy.special import chdtri, ndtri

    roots = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29][: size + 1], float))
    uniform = (np.outer(np.arange(1, n + 1), roots) + 0.5) % 1.0
    uniform = np.clip(uniform, 1e-6, 1 - 1e-6)
    normal = ndtri(uniform[:, :size])
    normal -= normal.mean(axis=0)
    chi = chdtri(tuning.PROPOSAL_FREEDOM, uniform[:, size]) / tuning.PROPOSAL_FREEDOM
    result: FloatArray = normal / np.sqrt(chi)[:, None]
    result.setflags(write=False)
    return result


def _log_proposal(points: FloatArray) -> FloatArray:
    """Return the proposal's log density at its standard points, without the constant."""
    squares = np.einsum("ij,ij->i", points, points)
    freedom = tuning.PROPOSAL_FREEDOM
    result: FloatArray = (
        -0.5 * (freedom + points.shape[1]) * np.log1p(squares / freedom)
    )
    return result


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    result: FloatArray = weight / weight.sum()
    return result


def _next_power(base: FloatArray, likelihood: FloatArray, part: float) -> float:
    """Return the largest power, at most 1, at which one draw in `part` is still effective."""
    low, high = 0.0, 1.0
    for _ in range(7):
        weight = _normalised(base + high * likelihood)
        if 1.0 / float(weight @ weight) >= base.size / part:
            low = high
            if high >= 1.0:
                break
            high = (high + 1.0) / 2
        else:
            high = (low + high) / 2
    return max(low, high if low == 0.0 else low)


def _moments(theta: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centre and covariance of draws, with the covariance slightly enlarged."""
    centre = weight @ theta
    left = theta - centre
    spread = (left * weight[:, None]).T @ left
    return centre, 1.1 * spread + 1e-10 * np.eye(theta.shape[1])


# -- the fit of a search's trials ----------------------------------------------------------------------------


class FittedCurve(msgspec.Struct, frozen=True):
    """A curve fitted to the trials, and the trials' estimates with its slope."""

    estimates: RunEstimates
    posterior: Posterior


_FITS: TrialCache[FittedCurve] = TrialCache(4)


def fit_curve(
    goal: PeakGoal, history: Sequence[LoadTrial], guess: tuple[float, float]
) -> FittedCurve:
    """Return the curve of the goal's first criterion, fitted to at least one trial."""
    key = (goal.criteria[0], goal.shape)
    return _FITS.value(history, key, lambda: _fit_curve(goal, history, guess))


def _fit_curve(
    goal: PeakGoal, history: Sequence[LoadTrial], guess: tuple[float, float]
) -> FittedCurve:
    """Fit twice: the first fit's slope at each run's rate separates its noise from its rate."""
    criterion, shape = goal.criteria[0], goal.shape
    first = read_trials(criterion, history)
    rough = posterior(first, guess, shape, draws=tuning.ROUGH_DRAWS)
    slopes = _elasticities(first, rough)
    estimates = read_trials(criterion, history, slopes)
    return FittedCurve(estimates, posterior(estimates, guess, shape, begin=rough))


def _elasticities(estimates: RunEstimates, known: Posterior) -> list[float]:
    """Return the mean elasticity of the response to the rate at each trial's rate."""
    rates, step = np.array([[run.rate] for run in estimates.runs]), 0.005
    up, down = (
        np.log(known.curve.response(rates * (1 + by), tuning.SOFTNESS))
        for by in (step, -step)
    )
    means = (up - down) / math.log((1 + step) / (1 - step)) @ known.weight
    return [round(float(mean), 2) for mean in np.clip(means, 0, tuning.STEEPEST_SLOPE)]


# -- the answer ------------------------------------------------------------------------------------------------
#
# Source: Workbench paper, section 2 (peak region).


class ClaimAnswer(msgspec.Struct, frozen=True):
    """A rate and the probability that it satisfies the claim."""

    rate: float
    """[1/s]."""
    probability: float
    low: float
    """Lower end of the peak's central interval [1/s]."""
    high: float


def best_answer(claim: Claim, known: Posterior) -> ClaimAnswer:
    """Return the rate that satisfies a claim with the highest probability."""
    if claim.kind is ClaimKind.SLO:
        return _slo_answer(claim, known)
    first, last = (known.quantile(share) for share in tuning.ANSWER_QUANTILES)
    rates = np.linspace(first, last, tuning.ANSWER_RATES)
    keeps = _probability_kept(claim, known, rates)
    # Of several equally probable rates, the middle one.
    good = np.flatnonzero(keeps >= keeps.max() - 1e-3)
    best = int(good[good.size // 2])
    return _answer(claim, known, float(rates[best]), float(keeps[best]))


def answer_at(claim: Claim, known: Posterior, rate: float) -> ClaimAnswer:
    """Return a rate as the answer to a claim of the region or of the rate."""
    keeps = _probability_kept(claim, known, np.array([rate]))
    return _answer(claim, known, rate, float(keeps[0]))


def _answer(
    claim: Claim, known: Posterior, rate: float, probability: float
) -> ClaimAnswer:
    tail = (1 - claim.confidence) / 2
    low, high = known.quantile(tail), known.quantile(1 - tail)
    return ClaimAnswer(rate, min(probability, 1.0), low, high)


def _probability_kept(claim: Claim, known: Posterior, rates: FloatArray) -> FloatArray:
    """Return the probability that each rate satisfies the claim `(n_rates,)`."""
    curve, each = known.curve, rates[:, None]
    if claim.kind is ClaimKind.RATE:
        keeps = np.abs(each / curve.peak - 1) <= claim.tolerance
    else:
        near = np.abs(curve.response(each) - 1) <= claim.tolerance
        keeps = near & (each < curve.capacity)
    result: FloatArray = np.asarray(keeps, dtype=float) @ known.weight
    return result


def _slo_answer(claim: Claim, known: Posterior) -> ClaimAnswer:
    """Return the highest rate that is below the peak with the claim's confidence. Its
    probability is 0 while the rate is still far below the middle of the peak's distribution."""
    rate, middle = known.quantile(1 - claim.confidence), known.quantile(0.5)
    near = rate >= middle * (1 - claim.tolerance)
    return _answer(claim, known, rate, claim.confidence if near else 0.0)
