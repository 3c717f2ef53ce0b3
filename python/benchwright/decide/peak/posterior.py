"""The posterior of the response curve after the runs so far, and the answer that most probably keeps a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np

from benchwright.core.search import Claim, ClaimKind, CurveShape
from benchwright.decide.peak.curve import FloatArray, ResponseCurve
from benchwright.decide.peak.reading import SERVICE_CV2, RunEstimate, RunEstimates

# -- How likely runs are under a curve: priors, and the density of every reading -------
#
# Purpose: log prior and log likelihood of many draws of (peak, gap, exponent, unloaded
# response, noise, noise between runs, discrepancy of overload) at once.
# Decision: reciprocal. A queue's run mean is so skewed (skewness 6 to 10 times its relative
# standard deviation, measured) that 1/mean is nearly normal, around (1 + v)/response.
# Source: docs/peak.md.

PEAK, GAP, EXPONENT, UNLOADED, NOISE, BETWEEN, EXCESS = range(7)
SIZE = 7

GAP_PRIOR = (math.log(0.15), 0.9)
"""Of ln gap: M/M/c and M/G/1 with limits of 3 to 13 services lie in 0.04 .. 0.2."""
EXPONENT_PRIOR = (math.log(1.5), 0.5)
"""Of ln exponent: 1 for one server, 2.2 for four, 7 for thirty-two. Student's t, of
`EXPONENT_TAIL` degrees of freedom: a pool of fifty is rare, not impossible."""
EXPONENT_TAIL = 3.0
MOST_EXPONENT = math.log(60.0)
UNLOADED_PRIOR = (-0.8, 1.2)
"""Of the logit of the unloaded response."""
NOISE_PRIOR = (math.log(1.6), 0.45)
"""Of the noise at the peak over that of reflected Brownian motion, where the gap is 0.1;
Student's t of `NOISE_TAIL` degrees of freedom."""
NOISE_TAIL = 3.0
NOISE_BY_GAP = 1.1
"""Power of the gap that this grows with: heavy tails make both large. Measured: 1.0 at a gap
of 0.04, 0.8 at 0.09, 1.8 at 0.13, 2.0 at 0.18, 8 at 0.26, 10 at 0.44."""
NOISE_PRIOR_UNTIMED = (math.log(1.0), 1.5)
"""... in seconds, where the limit is no time."""
NOISE_EXPONENT = 1.5
"""Of the noise's growth with waiting: 1.1 to 1.7 measured."""
NEIGHBOUR_SD = 0.3
"""Standard deviation of ln gap between neighbouring samples: what a handed-on shape is worth."""
BETWEEN_RUNS_PRIOR = (math.log(0.004), 1.0)
"""Of the capacity's relative standard deviation between runs."""
EXCESS_SCALE = 0.002
"""Of the relative difference between what an overloaded server completes and the pole;
Cauchy: one in six differs by more than 0.8 %, and then runs near the peak decide."""
MODEL_ERROR = 0.02
"""Relative error of the family for each factor e that a response is from the limit."""


UNSEEN_WARM_UP_S = 0.2
"""Seconds of work that an unnoticed warm-up may cost a run: short runs bear it most."""
UNCHECKED_WARM_UP_S = 1.0
"""... before a long overloaded run, which shows a warm-up best, was made."""
CHECKED_LIMITS = 1000.0
"""Limits of the response that such a run lasts, within the bounds below."""
CHECKED_S = (10.0, 40.0)
OVERLOADED_SD = 0.02
"""How sharply a run that reached no steady state says that the peak is lower, of ln rate."""
IMPOSSIBLE = -1e12
"""Log likelihood of a draw that cannot be."""
BUSY_SHARE = 0.5
"""From this share of the limit on a run's noise is waiting's; below, that of service."""


class ExpectedRuns(msgspec.Struct, frozen=True):
    """Runs beside what draws expect of them; every table is `(n_runs, n)`."""

    ratio: FloatArray
    """Expected over measured response: nearly normal."""
    left: FloatArray
    """... less its mean."""
    variance: FloatArray
    noise_s: FloatArray


class Likelihood:
    """The densities, with the runs in arrays `(n_runs, 1)`."""

    def __init__(
        self,
        readings: RunEstimates,
        start: tuple[float, float],
        shape: CurveShape | None,
    ) -> None:
        steady = [run for run in readings.runs if run.steady]
        told = [run for run in readings.runs if run.capacity is not None]
        self.low, self.high = start
        self.limit_s = readings.limit_s
        self.shape = shape
        long_s = min(
            max(CHECKED_LIMITS * (self.limit_s or 1.0), CHECKED_S[0]), CHECKED_S[1]
        )
        looked = any(run.lasts_s >= long_s for run in told)
        self.unseen_s = UNSEEN_WARM_UP_S if looked else UNCHECKED_WARM_UP_S
        self.rate = _run_column(steady, lambda run: run.rate)
        self.value = _run_column(steady, lambda run: run.value)
        self.lasts_s = _run_column(steady, lambda run: run.lasts_s)
        self.own = _run_column(steady, lambda run: max(run.noise.relative_s, 1e-9))
        self.freedom = _run_column(
            steady, lambda run: run.noise.freedom if run.value > BUSY_SHARE else 0.0
        )
        self.idle_s = _run_column(
            steady, lambda run: run.noise.relative_s if run.value <= BUSY_SHARE else 0.0
        )
        self.capacity = np.array([[c.rate] for c in (r.capacity for r in told) if c])
        # A run that is neither steady nor tells a capacity was overloaded, no more is known.
        lost = [run for run in readings.runs if not run.steady and run.capacity is None]
        self.too_high = _run_column(lost, lambda run: run.rate)
        self.told_s = _run_column(told, lambda run: run.lasts_s)
        self.capacity_sd = np.array(
            [[c.relative_sd] for c in (r.capacity for r in told) if c]
        )

    def first(self) -> tuple[FloatArray, FloatArray]:
        """Return centre and covariance of the first proposal: the prior's, with the guess."""
        middle = 0.5 * (math.log(self.low) + math.log(self.high))
        width = 0.5 * (math.log(self.high) - math.log(self.low)) + 0.05
        gap, unloaded, noise = self._priors()
        pairs = (
            (middle, width),
            gap,
            EXPONENT_PRIOR,
            unloaded,
            noise,
            BETWEEN_RUNS_PRIOR,
            (0.0, 3 * EXCESS_SCALE),
        )
        centre = np.array([pair[0] for pair in pairs])
        return centre, np.diag(np.array([pair[1] for pair in pairs]) ** 2)

    def _priors(
        self,
    ) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        noise = NOISE_PRIOR if self.limit_s is not None else NOISE_PRIOR_UNTIMED
        if self.shape is None:
            return GAP_PRIOR, UNLOADED_PRIOR, noise
        unloaded = min(max(self.shape.unloaded, 0.01), 0.99)
        return (
            (math.log(max(self.shape.gap, 1e-3)), NEIGHBOUR_SD),
            (math.log(unloaded / (1 - unloaded)), 2 * NEIGHBOUR_SD),
            noise,
        )

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
            above = np.log(self.too_high / curve.peak) / OVERLOADED_SD
            total += log_ndtr(above).sum(axis=0)
        # A draw so far off that its curve overflows explains nothing.
        return self._log_prior(theta), np.where(np.isfinite(total), total, IMPOSSIBLE)

    def _log_prior(self, theta: FloatArray) -> FloatArray:
        gap, unloaded, noise = self._priors()
        total = np.zeros(theta.shape[0])
        for column, (centre, spread) in (
            (GAP, gap),
            (UNLOADED, unloaded),
            (BETWEEN, BETWEEN_RUNS_PRIOR),
        ):
            total -= 0.5 * ((theta[:, column] - centre) / spread) ** 2
        squares = ((theta[:, NOISE] - noise[0]) / noise[1]) ** 2
        total -= 0.5 * (NOISE_TAIL + 1) * np.log1p(squares / NOISE_TAIL)
        squares = ((theta[:, EXPONENT] - EXPONENT_PRIOR[0]) / EXPONENT_PRIOR[1]) ** 2
        total -= 0.5 * (EXPONENT_TAIL + 1) * np.log1p(squares / EXPONENT_TAIL)
        middle = 0.5 * (math.log(self.low) + math.log(self.high))
        width = (math.log(self.high) - math.log(self.low)) + 0.3
        total -= 0.5 * ((theta[:, PEAK] - middle) / width) ** 2
        total -= np.log1p((theta[:, EXCESS] / EXCESS_SCALE) ** 2)
        return total

    def noise_s(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the noise at the peak: a multiple of what reflected Brownian motion has."""
        scale = np.exp(theta[:, NOISE])
        if self.limit_s is None:
            return scale
        share = 1 - curve.unloaded
        busy = curve.gap / (1 + curve.gap)
        by_gap = (curve.gap / 0.1) ** NOISE_BY_GAP
        result: FloatArray = scale * by_gap * share**3 * 4 * self.limit_s / busy
        return result

    def expected(self, curve: ResponseCurve, theta: FloatArray) -> ExpectedRuns:
        """Return what the runs should have shown, and how they differ."""
        noise_s = self.noise_s(curve, theta)
        busy = curve.gap / (1 + curve.gap)
        share = np.maximum(1 - curve.unloaded, 1e-6)
        # The wait at the peak in seconds, by the noise it must have.
        waits_s = noise_s * busy / (6 * share**2)
        softness = 1.0 * np.sqrt(waits_s * busy / self.lasts_s)
        waiting = curve.waiting(self.rate, softness)
        response = curve.unloaded + (1 - curve.unloaded) * waiting
        served_s = SERVICE_CV2 / self.rate * (curve.unloaded / response) ** 2
        here_s = noise_s * waiting**NOISE_EXPONENT + np.maximum(self.idle_s, served_s)
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
            + (MODEL_ERROR * away) ** 2
            + 1e-6
        )
        ratio = response / self.value
        left = ratio - 1 - np.minimum(variance, 0.5)
        return ExpectedRuns(ratio, left, variance, here_s)

    def _steady(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of responses and of their own noise."""
        of = self.expected(curve, theta)
        told = -0.5 * of.left**2 / of.variance - 0.5 * np.log(of.variance)
        told += np.log(of.ratio)
        told -= 0.5 * self.freedom * (np.log(of.noise_s) + self.own / of.noise_s)
        result: FloatArray = told.sum(axis=0)
        return result

    def _overloaded(self, curve: ResponseCurve, theta: FloatArray) -> FloatArray:
        """Return the log likelihood of capacities told by overload."""
        left = np.log(self.capacity / curve.capacity) - theta[:, EXCESS]
        variance = (
            self.capacity_sd**2
            + np.exp(2 * theta[:, BETWEEN])
            + (self.unseen_s / self.told_s) ** 2
        )
        result: FloatArray = (-0.5 * left**2 / variance - 0.5 * np.log(variance)).sum(
            axis=0
        )
        return result


def curve_of(theta: FloatArray) -> ResponseCurve:
    return ResponseCurve(
        np.exp(theta[:, PEAK]),
        np.exp(theta[:, GAP]),
        np.exp(np.minimum(theta[:, EXPONENT], MOST_EXPONENT)),
        1 / (1 + np.exp(-theta[:, UNLOADED])),
    )


def _run_column(
    runs: list[RunEstimate], value: Callable[[RunEstimate], float]
) -> FloatArray:
    return np.array([[value(run)] for run in runs], dtype=float)


# --------------------------------------------------------------------------------------
# What is known of a criterion's peak after the runs so far: weighted draws of the
# curve.
#
# Purpose: the joint posterior of (peak, gap, exponent, unloaded response, noise, noise between
# runs, discrepancy of overload), by importance sampling with a fixed low-discrepancy
# sequence: no random numbers, the same history gives the same answer.
# Decision: draws, not a grid: seven parameters. Draws are moved to the posterior in tempered
# steps (the likelihood's power grows as fast as the draws can follow), and the last step's
# draws carry weights, so that the normal shape of a step is a proposal and no assumption.
# The density itself is qgs_likelihood.py's.
# Source: docs/peak.md; O. Cappe et al. 2004, Population Monte Carlo, J. Comp. Graph. Stat. 13.

POSTERIOR_DRAWS = 1024
MORE_DRAWS = 4
"""Times so many draws where the posterior is far from normal."""
TEMPERED_STEPS = 12
"""Tempered steps at most; three to five are usual."""
EFFECTIVE_PART = 8.0
"""One draw in so many is effective after a tempered step: their moments make the next. Late
steps ask for less: a bent posterior fits no proposal better, and must be reached."""
PROPOSAL_FREEDOM = 6.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's."""


class Posterior(msgspec.Struct, frozen=True):
    """Weighted draws; every column is `(n,)`."""

    curve: ResponseCurve
    weight: FloatArray
    """Sums to 1."""
    noise_s: FloatArray
    """Relative variance of a run's mean at the peak times its length [s]."""
    between: FloatArray
    excess: FloatArray
    effective: float
    """How many equal draws the weights are worth."""
    residuals: FloatArray
    """Of the steady runs at the best draw `(n_steady,)`, relative."""
    deviations: FloatArray
    """... and the standard deviations that they should have."""
    moments: tuple[FloatArray, FloatArray]
    """Centre and covariance of the draws' parameters: where another posterior may begin."""

    def mean(self, values: FloatArray) -> float:
        """Return the posterior mean of a column."""
        return float(self.weight @ values)

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak [1/s]."""
        return weighted_quantile(self.curve.peak, self.weight, share)


def weighted_quantile(values: FloatArray, weight: FloatArray, share: float) -> float:
    """Return the value below which the given share of the weight lies."""
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(share, below, values[order]))


@lru_cache(maxsize=4)
def _points(n: int, size: int) -> FloatArray:
    """Return fixed points of Student's t `(n, size)`: a Kronecker sequence of the roots of
    primes, through the normal's quantiles, each over a common chi deviate."""
    from scipy.special import chdtri, ndtri

    roots = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29][: size + 1], float))
    uniform = (np.outer(np.arange(1, n + 1), roots) + 0.5) % 1.0
    uniform = np.clip(uniform, 1e-6, 1 - 1e-6)
    normal = ndtri(uniform[:, :size])
    normal -= normal.mean(axis=0)
    chi = chdtri(PROPOSAL_FREEDOM, uniform[:, size]) / PROPOSAL_FREEDOM
    result: FloatArray = normal / np.sqrt(chi)[:, None]
    result.setflags(write=False)
    return result


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def posterior(
    readings: RunEstimates,
    start: tuple[float, float],
    shape: CurveShape | None,
    *,
    draws: int = POSTERIOR_DRAWS,
    begin: Posterior | None = None,
) -> Posterior:
    """Return the posterior given the runs; `start` is a low and a high guess of the peak
    [1/s] that need not hold it, `begin` a posterior of nearly the same runs."""
    model = Likelihood(readings, start, shape)
    points = _points(draws, SIZE)
    centre, spread = model.first() if begin is None else begin.moments
    power = 0.0
    for step in range(TEMPERED_STEPS):
        root = np.linalg.cholesky(spread)
        theta = centre + points @ root.T
        prior, likelihood = model.log_density(theta)
        proposed = _log_t(points)
        part = EFFECTIVE_PART * (1 + step / 4)
        power = _next_power(prior - proposed, likelihood, part)
        weight = _normalised(prior - proposed + power * likelihood)
        effective = 1.0 / float(weight @ weight)
        if power >= 1.0 and effective > draws / 5:
            break
        if step == TEMPERED_STEPS - 3 and draws == POSTERIOR_DRAWS:
            # A posterior far from normal: more draws, and a wider proposal.
            points = _points(MORE_DRAWS * draws, SIZE)
        centre, spread = _moments(theta, weight)
    best = int(np.argmax(prior + likelihood))
    return _named_draws(model, theta, (weight, effective), best)


def _log_t(points: FloatArray) -> FloatArray:
    """Return the proposal's log density at its standard points, without its constant."""
    squares = np.einsum("ij,ij->i", points, points)
    result: FloatArray = (
        -0.5
        * (PROPOSAL_FREEDOM + points.shape[1])
        * np.log1p(squares / PROPOSAL_FREEDOM)
    )
    return result


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    result: FloatArray = weight / weight.sum()
    return result


def _next_power(base: FloatArray, likelihood: FloatArray, part: float) -> float:
    """Return the largest power, at most 1, that leaves one draw in `part` effective."""
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
    centre = weight @ theta
    left = theta - centre
    spread = (left * weight[:, None]).T @ left
    return centre, 1.1 * spread + 1e-10 * np.eye(theta.shape[1])


def _named_draws(
    model: Likelihood, theta: FloatArray, weights: tuple[FloatArray, float], best: int
) -> Posterior:
    """Return the draws by their names."""
    curve = curve_of(theta)
    residuals = deviations = np.empty(0)
    if model.rate.size:
        peak = theta[best : best + 1]
        expected = model.expected(curve_of(peak), peak)
        residuals = (expected.left)[:, 0]
        deviations = np.sqrt(expected.variance)[:, 0]
    return Posterior(
        curve,
        weights[0],
        model.noise_s(curve, theta),
        np.exp(theta[:, BETWEEN]),
        theta[:, EXCESS],
        weights[1],
        residuals,
        deviations,
        _moments(theta, weights[0]),
    )


# -- The claims: which answer is most likely to keep one, and how likely it is ---------
#
# Purpose: from a posterior's draws to an answer with the probability of its claim.
# Source: Workbench paper, section 2 (peak region).

ANSWER_RATES = 41
"""Rates that are tried as the answer, between the quantiles below."""
ANSWER_QUANTILES = (0.1, 0.9)


class ClaimAnswer(msgspec.Struct, frozen=True):
    """A rate and the probability that it keeps the claim."""

    rate: float
    probability: float
    low: float
    """Of the peak's central interval [1/s]."""
    high: float


def best_answer(claim: Claim, known: Posterior) -> ClaimAnswer:
    """Return the best answer to a claim."""
    tail = (1 - claim.confidence) / 2
    low, high = known.quantile(tail), known.quantile(1 - tail)
    if claim.kind is ClaimKind.SLO:
        return _slo_answer(claim, known, low, high)
    first, last = (known.quantile(share) for share in ANSWER_QUANTILES)
    rates = np.linspace(first, last, ANSWER_RATES)[:, None]
    kept = _keeps_claim(claim, known, rates) @ known.weight
    # Where many answers keep it alike, the middle one.
    good = np.flatnonzero(kept >= kept.max() - 1e-3)
    best = int(good[good.size // 2])
    return ClaimAnswer(float(rates[best, 0]), min(float(kept[best]), 1.0), low, high)


def answer_at(claim: Claim, known: Posterior, rate: float) -> ClaimAnswer:
    """Return a rate as the answer to a claim of the region or of the rate."""
    tail = (1 - claim.confidence) / 2
    kept = _keeps_claim(claim, known, np.array([[rate]])) @ known.weight
    low, high = known.quantile(tail), known.quantile(1 - tail)
    return ClaimAnswer(rate, min(float(kept[0]), 1.0), low, high)


def _keeps_claim(claim: Claim, known: Posterior, rates: FloatArray) -> FloatArray:
    """Return which draws keep the claim at each rate `(n_rates, n)`, as 0 and 1."""
    curve = known.curve
    if claim.kind is ClaimKind.RATE:
        kept = np.abs(rates / curve.peak - 1) <= claim.tolerance
    else:
        response = curve.response(rates)
        kept = (np.abs(response - 1) <= claim.tolerance) & (rates < curve.capacity)
    return np.asarray(kept, dtype=float)


def _slo_answer(claim: Claim, known: Posterior, low: float, high: float) -> ClaimAnswer:
    rate = known.quantile(1 - claim.confidence)
    middle = known.quantile(0.5)
    near = rate >= middle * (1 - claim.tolerance)
    return ClaimAnswer(rate, claim.confidence if near else 0.0, low, high)
