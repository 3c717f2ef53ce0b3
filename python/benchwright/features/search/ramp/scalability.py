"""The Universal Scalability Law fitted to throughputs of a closed loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.core.text import plural
from benchwright.features.search.ramp import types
from benchwright.features.search.ramp.types import BandPoint, PreferredLaw, ScalabilityModel, UslFit
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray
from benchwright.stats.intervals import t_quantile

# --------------------------------------------------------------------------------------
# Least squares of a positive linear form with relative errors, and its profiles.
#
# Purpose: the arithmetic of the Universal Scalability Law: log z is approximated by
# log(base + columns @ theta) with free theta. Throughput has relative errors. In this form every
# figure of the law (a parameter, the location of the maximum, a point of the curve) fixes one
# linear combination, so that its profile is a smaller problem of the same kind. Decision: our own
# Levenberg-Marquardt steps, because scipy.optimize takes half a second to import; the tests
# compare with it.
# Sources: D. Marquardt 1963, SIAM J. Appl. Math. 11(2); D. Bates and D. Watts 1988,
# Nonlinear Regression Analysis, section 6.1 (profiles), section 1.3.2 (lack of fit).

_MOST_STEPS = 60
_SMALLEST_MOVE = 1e-7
"""A step that changes the form by less than this share is not taken."""


class RegressionSolution(msgspec.Struct, frozen=True):
    """The best theta, shape `(k,)`, and its weighted sum of squares; infinite where no
    theta makes the form positive at every observation."""

    theta: FloatArray
    squares: float


class LogRegression(msgspec.Struct, frozen=True):
    """Observations `z > 0`, shape `(n,)`, with weights that sum to n."""

    z: FloatArray
    weights: FloatArray

    def solve(self, columns: FloatArray, base: FloatArray | None = None) -> RegressionSolution:
        """Return the least squares of log z - log(base + columns @ theta).

        `columns` has shape `(n, k)`, k from 0 on.
        """
        ground = np.zeros_like(self.z) if base is None else base
        scale = np.abs(columns).max(axis=0, initial=0.0)
        scale[scale == 0] = 1.0
        solution = self._descend(ground, columns / scale)
        return RegressionSolution(solution.theta / scale, solution.squares)

    def misfit_p(self, places: FloatArray, found: RegressionSolution) -> float | None:
        """Return the P-value of the lack-of-fit test, an F test: the probability of so large a
        distance between curve and data if the law is right.

        Observations at equal `places`, shape `(n,)`, are repetitions. None where repetitions
        have fewer than two degrees of freedom, are all equal, or no place is left over.
        """
        pure, repeated = self.pure_error(places)
        left = len(self.z) - repeated - found.theta.size
        if left < 1 or repeated < 2 or not pure > 0:
            return None
        lack = max(found.squares - pure, 0.0) / left
        return special.f_tail(left, repeated, lack / (pure / repeated))

    def pure_error(self, places: FloatArray) -> tuple[float, int]:
        """Return the weighted sum of squares of observations around the mean of those at their
        place, and its degrees of freedom."""
        _, group = np.unique(places, return_inverse=True)
        weights = np.bincount(group, self.weights)
        means = np.bincount(group, self.weights * np.log(self.z)) / weights
        away = np.log(self.z) - means[group]
        return float(np.dot(self.weights * away, away)), len(self.z) - len(weights)

    def _squares(self, form: FloatArray) -> float:
        if not (form > 0).all():
            return math.inf
        residuals = np.log(self.z / form)
        return float(np.dot(self.weights * residuals, residuals))

    def _descend(self, base: FloatArray, columns: FloatArray) -> RegressionSolution:
        theta = self._first(base, columns)
        form = base + columns @ theta
        squares = self._squares(form)
        damping = 0.0
        for _ in range(_MOST_STEPS if theta.size and math.isfinite(squares) else 0):
            step = self._step(form, columns, damping)
            moved = columns @ step
            if not np.abs(moved / form).max() > _SMALLEST_MOVE:
                break
            tried = self._squares(form + moved)
            if tried > squares:
                damping = max(damping * 10, 1e-3)
                continue
            damping = damping / 10 if damping > 1e-6 else 0.0
            theta, form, squares = theta + step, form + moved, tried
        return RegressionSolution(theta, squares)

    def _first(self, base: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the first theta: by linear least squares with relative weights, or any theta
        that makes the form positive."""
        root = np.sqrt(self.weights) / self.z
        columns_of = columns * root[:, None]
        found = np.linalg.lstsq(columns_of, (self.z - base) * root, rcond=None)[0]
        theta = np.asarray(found, dtype=np.float64)
        if (base + columns @ theta > 0).all() or not theta.size:
            return theta
        for place in range(theta.size):
            for sign in (1.0, -1.0):
                alone = np.zeros_like(theta)
                alone[place] = sign * float(np.max(self.z))
                if (base + columns @ alone > 0).all():
                    return alone
        return np.zeros_like(theta)

    def _step(self, form: FloatArray, columns: FloatArray, damping: float) -> FloatArray:
        slopes = columns / form[:, None]
        residuals = np.log(self.z / form)
        weighted = (slopes * self.weights[:, None]).T
        normal = weighted @ slopes
        diagonal = np.diag(normal)
        # The ridge only prevents a division by zero for dependent columns.
        ridge = damping * diagonal + 1e-15 * diagonal.max() + 1e-300
        step = np.linalg.solve(normal + np.diag(ridge), weighted @ residuals)
        return np.asarray(step, dtype=np.float64)


class ValueBounds(msgspec.Struct, frozen=True):
    """The lower and upper bound of a figure."""

    low: float
    high: float


def profile_interval(
    excess: Callable[[float], float], centre: float, width: float, bounds: ValueBounds
) -> tuple[float, float]:
    """Return the interval around the centre, within the bounds, where `excess` is at most 0.

    `excess(value)` is the profile's sum of squares minus what the interval allows;
    `width`, above 0, is a first estimate of the distance to an end. Where the excess stays
    below 0, the end is the bound. Both ends are the centre if the excess is positive there.
    """
    centre = min(max(centre, bounds.low), bounds.high)
    at_centre = excess(centre)
    if at_centre > 0:
        return centre, centre
    return (
        _profile_end(excess, (centre, at_centre), -width, bounds.low),
        _profile_end(excess, (centre, at_centre), width, bounds.high),
    )


def _profile_end(
    excess: Callable[[float], float], inside: tuple[float, float], step: float, bound: float
) -> float:
    """Return the end of the interval in the direction of `step`."""
    centre = inside[0]
    for _ in range(40):
        place = centre + step
        if (place >= bound) if step > 0 else (place <= bound):
            value = excess(bound)
            if value <= 0:
                return bound
            return _crossing(excess, inside, (bound, value))
        value = excess(place)
        if value > 0:
            return _crossing(excess, inside, (place, value))
        inside, step = (place, value), step * 2
    return bound


def _crossing(
    excess: Callable[[float], float], inside: tuple[float, float], outside: tuple[float, float]
) -> float:
    """Return the zero of the excess between a point inside and one outside, by false position,
    with bisection where that is slow."""
    for turn in range(60):
        (a, fa), (b, fb) = inside, outside
        if abs(b - a) <= 1e-5 * max(abs(a), abs(b)):
            break
        share = fa / (fa - fb) if math.isfinite(fb) and turn % 3 else 0.5
        place = a + (b - a) * min(max(share, 0.01), 0.99)
        value = excess(place)
        if value <= 0:
            inside = (place, value)
        else:
            outside = (place, value)
    return inside[0]


# -- The Universal Scalability Law fitted to throughputs of a closed loop --------------
#
# X(N) = gamma N / (1 + sigma (N-1) + kappa N (N-1)), sigma in [0, 1], kappa >= 0.
#
# Method: N/X is alpha + beta (N-1) + delta N (N-1) with gamma = 1/alpha, sigma = beta/alpha, kappa
# = delta/alpha, and it has the same relative errors as X: weighted least squares of the logarithms,
# by our own Levenberg-Marquardt steps. Intervals are profiles of the fit *without* the bounds, by t
# with n - 3 degrees of freedom, cut at the bounds, and contain the fitted value; their noise comes
# from the residuals, including lack of fit. Their coverage is 94 to 96 % inside the bounds and 93
# to 99 % at the bounds (docs/calibration.md). Rejected: profiles within the bounds, whose coverage
# at the corner sigma = kappa = 0 is 100 %: they are too wide. Decision: gamma is fitted, not taken
# from N = 1, where one noisy run would change the whole curve. Rejected: the bootstrap of
# residuals, whose 95 % intervals over 7 levels have a coverage of 73 to 80 %. Decision: kappa > 0
# alone claims no maximum. The throughput of a closed network of queues bends more sharply than
# Amdahl's law, and a law with kappa > 0 is the nearest one that bends so, although nothing falls:
# the saturating law below has as many parameters and never falls (docs/decisions). Non-goals: N as
# a random variable (rates of an open loop), two laws in one profile. Sources: N. Gunther 2007,
# Guerrilla Capacity Planning, chapters 4 and 5; M. Moeding's R package `usl` for names;
# tests/calibration/test_usl.py measures the coverage.

PROFILE_METHOD = "profile"
PARAMETERS = 3
_MAX_KAPPA = 1e6
"""Upper bound of kappa: with it, one more user stops all throughput."""
_BAND_POINTS = 25
_REFUTED_FROM = 0.99
"""Confidence at which the law is refuted; above 95 % because two bounds are tested."""


def usl_throughput(users: FloatArray, gamma: float, sigma: float, kappa: float) -> FloatArray:
    """Return X(N) in gamma's unit, in the shape of `users`, each at least 1."""
    return np.asarray(gamma * users / (1 + sigma * (users - 1) + kappa * users * (users - 1)))


# -- The saturating law: throughput that levels off with a knee of any sharpness ---------
#
# X(N) = ((gamma N)^-p + limit^-p)^(-1/p), p from 1 (Amdahl's law) towards infinity, where it is
# the smaller of gamma N and the limit: the bounds of a closed network (J. Zahorjan et al. 1982,
# CACM 25(2)). p is one of some values.

_SHARPNESS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
"""With the last one, throughput at the knee is 1 % below both bounds."""


class SaturatingLaw(msgspec.Struct, frozen=True):
    """The fitted saturating law, and its weighted sum of squares."""

    gamma: float
    """Throughput per user of few users [1/s]."""
    limit: float
    """Which throughput tends to; infinite where the levels show none [1/s]."""
    sharpness: float
    """p."""
    squares: float


def saturating_law(problem: LogRegression, n: FloatArray, least: float = 1.0) -> SaturatingLaw:
    """Return the saturating law with at least this sharpness, fitted to N/X; `n` are the users,
    shape `(n,)`."""
    laws = [_saturating_at(problem, n, sharpness) for sharpness in _SHARPNESS if sharpness >= least]
    each, limit = (
        problem.solve(column[:, None], None) for column in (np.ones_like(n), n / float(n.max()))
    )
    gamma, most = 1 / float(each.theta[0]), float(n.max()) / float(limit.theta[0])
    ends = [
        SaturatingLaw(gamma, math.inf, least, each.squares),
        SaturatingLaw(math.inf, most, least, limit.squares),
    ]
    # A limit, or a growth, that the levels do not show is none.
    return min([*ends, *laws], key=lambda law: law.squares * (1 + 1e-6) + 1e-14 * (law in laws))


def _saturating_at(problem: LogRegression, n: FloatArray, sharpness: float) -> SaturatingLaw:
    """Return the best law of one sharpness: by Gauss-Newton steps for the logarithms of gamma and
    limit, so that no power overflows."""
    logs, grown, weights = np.log(problem.z), np.log(n), problem.weights

    def form(at: FloatArray) -> FloatArray:
        return np.asarray(np.logaddexp(sharpness * at[0], sharpness * (at[1] + grown)) / sharpness)

    def squares(at: FloatArray) -> float:
        return float(weights @ (logs - form(at)) ** 2)

    # First the two straight lines that meet between two levels, of which one pair is the best.
    levels = np.unique(n)
    found = min(
        (
            np.array([logs[n <= one].mean(), (logs - grown)[n >= other].mean()])
            for one, other in zip(levels, [*levels[1:], levels[-1]], strict=True)
        ),
        key=squares,
    )
    least = squares(found)
    for _ in range(_MOST_STEPS):
        curve = form(found)
        few = np.exp(sharpness * (found[0] - curve))
        slopes = np.stack([few, 1 - few])
        normal = (slopes * weights) @ slopes.T
        step = np.linalg.solve(
            normal + 1e-12 * np.trace(normal) * np.eye(2), (slopes * weights) @ (logs - curve)
        )
        while squares(found + step) > least and np.abs(step).max() > _SMALLEST_MOVE:
            step = step / 2
        if not np.abs(step).max() > _SMALLEST_MOVE:
            break
        found = found + step
        least = squares(found)
    gamma, limit = (math.exp(-min(max(float(one), -700.0), 700.0)) for one in found)
    return SaturatingLaw(gamma, limit, sharpness, least)


def law_throughput(law: PreferredLaw, users: FloatArray) -> FloatArray:
    """Return the throughput of a law [1/s], in the shape of `users`, each at least 1."""
    if law.sharpness is None:
        return usl_throughput(users, law.gamma, law.sigma, law.kappa)
    limit = math.inf if law.asymptote is None else law.asymptote
    # Beside the lower of the two bounds, so that the powers stay small.
    lower = np.minimum(law.gamma * users, limit)
    ratio = lower / np.maximum(law.gamma * users, limit)
    return np.asarray(lower * (1 + ratio**law.sharpness) ** (-1 / law.sharpness))


def why_no_fit(users: Sequence[float], throughput: Sequence[float]) -> str:
    """Return why the law cannot be fitted; empty if it can."""
    levels = len(set(users))
    if levels < PARAMETERS:
        return f"{plural(levels, 'level')}: three are needed"
    if len(users) <= PARAMETERS:
        return f"{len(users)} trials leave no residual: four are needed"
    if min(users) < 1:
        return "the law is one of whole users"
    if not all(x > 0 and math.isfinite(x) for x in throughput):
        return "a throughput is 0"
    return ""


def fit_usl(
    users: Sequence[float],
    throughput: Sequence[float],
    variances: Sequence[float] | None = None,
    confidence: float = 0.95,
    *,
    fell: bool | None = None,
) -> UslFit:
    """Return the fit to trials, one element per trial; `why_no_fit` must be empty.

    Throughput is in 1/s; `variances` are relative (squared coefficients of variation), up to
    a common factor; without them all trials have the same weight. `fell`: whether the levels
    by themselves show that throughput falls, without which no maximum is claimed; None: that is
    not known, and the whole law has to fit better than the saturating one, beyond noise.
    """
    assert not why_no_fit(users, throughput)
    return _UslProfile.of(users, throughput, variances, confidence).result(fell=fell)


def usl_band(
    users: Sequence[float],
    throughput: Sequence[float],
    variances: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> tuple[BandPoint, ...]:
    """Return the curve of `fit_usl` over the measured range, with a separate interval for each
    point. Half of the points are evenly spaced on a linear axis of users, half on a logarithmic
    one."""
    assert not why_no_fit(users, throughput)
    fit = _UslProfile.of(users, throughput, variances, confidence)
    low, high = min(users), max(users)
    even = np.linspace(low, high, _BAND_POINTS)
    by_ratio = np.geomspace(low, high, _BAND_POINTS)[1:-1]
    places = np.unique(np.concatenate([even, by_ratio]))
    return tuple(fit.band_point(float(place)) for place in places)


class _UslProfile(msgspec.Struct, frozen=True, dict=True):
    """The data, and the least-squares fits without (free) and within (held) the bounds."""

    n: FloatArray
    problem: LogRegression
    free: RegressionSolution
    held: RegressionSolution
    confidence: float

    @classmethod
    def of(
        cls,
        users: Sequence[float],
        throughput: Sequence[float],
        variances: Sequence[float] | None,
        confidence: float,
    ) -> _UslProfile:
        n = np.asarray(users, dtype=np.float64)
        weights = np.ones_like(n) if variances is None else 1 / np.asarray(variances)
        z = n / np.asarray(throughput, dtype=np.float64)
        problem = LogRegression(z, weights * (n.size / float(weights.sum())))
        free = problem.solve(_usl_columns(n))
        return cls(n, problem, free, _fit_within_bounds(problem, n, free), confidence)

    def result(self, *, fell: bool | None) -> UslFit:
        gamma, sigma, kappa = _parameters(self.held)
        peak = users_at_peak(sigma, kappa)
        preferred = self._preferred(fell=fell)
        maximum = None if peak is None else self._peak(peak)
        if maximum is not None and preferred is not ScalabilityModel.USL:
            maximum = msgspec.structs.replace(maximum, high=math.inf)
        return UslFit(
            gamma=self._gamma(gamma),
            sigma=self._sigma(sigma),
            kappa=self._kappa(kappa),
            users_at_peak=maximum,
            peak_throughput=None if peak is None else self._curve(peak),
            asymptote=gamma / sigma if sigma > 0 and kappa == 0 else None,
            preferred=preferred,
            law=self._law(preferred),
            residual=math.sqrt(self.held.squares / self._degrees),
            r_squared=self._r_squared(),
            n=int(self.n.size),
            misfit_p=self.problem.misfit_p(self.n, self.held),
            sharper_fits=preferred is ScalabilityModel.AMDAHL and self._sharper_fits,
            refuted=self.held.squares - self.free.squares > self._allowed_at(_REFUTED_FROM),
        )

    @property
    def _degrees(self) -> int:
        return int(self.n.size) - PARAMETERS

    @property
    def _allowed(self) -> float:
        """The amount by which a profile's sum of squares may exceed the minimum."""
        return self._allowed_at(self.confidence)

    def _allowed_at(self, confidence: float) -> float:
        t = t_quantile(confidence, self._degrees)
        return t * t * self.free.squares / self._degrees

    # -- intervals: each profile fixes one linear combination of alpha, beta, delta --------

    def _gamma(self, held: float) -> Estimate:
        one, a, b = _usl_columns(self.n).T

        def excess(gamma: float) -> float:
            return self._excess(np.stack([a, b], axis=1), one / gamma)

        bounds = ValueBounds(held * 1e-6, held * 1e6)
        return self._interval(_ProfiledFigure(held, self._freely(0), bounds, "1/s"), excess)

    def _sigma(self, held: float) -> Estimate:
        one, a, b = _usl_columns(self.n).T

        def excess(sigma: float) -> float:
            return self._excess(np.stack([one + sigma * a, b], axis=1))

        return self._interval(_ProfiledFigure(held, self._freely(1), ValueBounds(0, 1)), excess)

    def _kappa(self, held: float) -> Estimate:
        one, a, b = _usl_columns(self.n).T

        def excess(kappa: float) -> float:
            return self._excess(np.stack([one + kappa * b, a], axis=1))

        return self._interval(
            _ProfiledFigure(held, self._freely(2), ValueBounds(0, _MAX_KAPPA)), excess
        )

    def _peak(self, held: float) -> Estimate:
        """Return N_max; its profile is that of kappa/(1 - sigma) = 1/N_max^2."""
        one, a, b = _usl_columns(self.n).T

        def excess(value: float) -> float:
            return self._excess(np.stack([one + value * b, a - value * b], axis=1))

        _, sigma, kappa = _parameters(self.free)
        free = kappa / (1 - sigma) if sigma < 1 else math.nan
        figure = _ProfiledFigure(1 / held**2, free, ValueBounds(0, 1))
        interval = self._interval(figure, excess)
        low, high = (
            1 / math.sqrt(end) if end > 0 else math.inf for end in (interval.high, interval.low)
        )
        return msgspec.structs.replace(interval, value=held, low=low, high=high)

    def band_point(self, users: float) -> BandPoint:
        one, a, b = _usl_columns(self.n).T
        away = np.stack([a - (users - 1) * one, b - users * (users - 1) * one], axis=1)

        def excess(throughput: float) -> float:
            return self._excess(away, one * (users / throughput))

        held, free = self._curve(users), _curve_at(users, self.free)
        figure = _ProfiledFigure(held, free, ValueBounds(held * 1e-3, held * 1e3))
        estimate = self._interval(figure, excess)
        return BandPoint(users, estimate.low, held, estimate.high)

    def _freely(self, place: int) -> float:
        return _parameters(self.free)[place]

    def _excess(self, columns: FloatArray, base: FloatArray | None = None) -> float:
        solution = self.problem.solve(columns, base)
        return solution.squares - self.free.squares - self._allowed

    def _interval(self, asked: _ProfiledFigure, excess: Callable[[float], float]) -> Estimate:
        """Return a figure with its interval, which contains the figure."""
        centre = asked.held if math.isnan(asked.free) else asked.free
        width = max(abs(asked.held) * 0.1, 1e-7)
        low, high = profile_interval(excess, centre, width, asked.bounds)
        return Estimate(
            value=asked.held,
            low=min(low, asked.held),
            high=max(high, asked.held),
            confidence=self.confidence,
            method=PROFILE_METHOD,
            n=int(self.n.size),
            unit=asked.unit,
        )

    # -- the curve and the model -----------------------------------------------------------

    def _curve(self, users: float) -> float:
        return _curve_at(users, self.held)

    def _r_squared(self) -> float | None:
        measured = self.n / self.problem.z
        total = float(np.sum((measured - measured.mean()) ** 2))
        gamma, sigma, kappa = _parameters(self.held)
        curve = usl_throughput(self.n, gamma, sigma, kappa)
        return 1 - float(np.sum((measured - curve) ** 2)) / total if total else None

    # All laws have one yardstick, of which law is true nothing is assumed: the noise between runs
    # of one level, or else the residuals of the law that fits best. Rejected: the residuals of the
    # whole law, whose misfit then counts as noise (docs/decisions/0023-ramp.md).

    @cached_property
    def _saturating(self) -> SaturatingLaw:
        return saturating_law(self.problem, self.n)

    @cached_property
    def _amdahl(self) -> RegressionSolution:
        """Amdahl's law, with sigma of at least 0."""
        one, a, _ = _usl_columns(self.n).T
        solution = self.problem.solve(np.stack([one, a], axis=1))
        if solution.theta[1] > 0:
            return solution
        straight = self.problem.solve(one[:, None])
        return RegressionSolution(np.append(straight.theta, 0.0), straight.squares)

    @property
    def _best(self) -> float:
        """The sum of squares of the law that fits best."""
        return min(self.held.squares, self._saturating.squares)

    def _is_worse(self, squares: float, than: float, terms: int = 1) -> bool:
        """Return whether a law fits worse than another one with so many terms more, beyond
        noise."""
        noise, degrees = self.problem.pure_error(self.n)
        if degrees < types.FEWEST_REPETITIONS or not noise > 0:
            noise, degrees = self._best, self._degrees
        noise = max(noise / degrees, _SMALLEST_MOVE**2)
        ratio = max(squares - than, 0.0) / terms / noise
        return special.f_tail(terms, degrees, ratio) < 1 - self.confidence

    @property
    def _sharper_fits(self) -> bool:
        sharper = saturating_law(self.problem, self.n, _SHARPNESS[1])
        return not self._is_worse(sharper.squares, self._amdahl.squares)

    def _preferred(self, *, fell: bool | None) -> ScalabilityModel:
        """Return the simplest law that is not refuted at the confidence's level.

        The saturating law and the whole one have as many parameters, so the fall decides.
        """
        straight = self.problem.solve(np.ones((self.n.size, 1)))
        if not self._is_worse(straight.squares, self._best, 2):
            return ScalabilityModel.LINEAR
        if not self._is_worse(self._amdahl.squares, self._best):
            return ScalabilityModel.AMDAHL
        if fell is None:
            fell = self._is_worse(self._saturating.squares, self.held.squares)
        return ScalabilityModel.USL if fell else ScalabilityModel.SATURATING

    def _law(self, preferred: ScalabilityModel) -> PreferredLaw:
        """Return the parameters of a law, fitted without the terms that it does not have."""
        if preferred is ScalabilityModel.SATURATING:
            saturating = self._saturating
            limit = saturating.limit
            gamma = min(saturating.gamma, limit)
            return PreferredLaw(
                gamma=gamma,
                sigma=gamma / limit,
                kappa=0.0,
                asymptote=limit if math.isfinite(limit) else None,
                sharpness=saturating.sharpness,
            )
        if preferred is ScalabilityModel.USL:
            gamma, sigma, kappa = _parameters(self.held)
            return PreferredLaw(gamma=gamma, sigma=sigma, kappa=kappa, asymptote=None)
        theta = self._amdahl.theta
        if preferred is ScalabilityModel.LINEAR:
            theta = self.problem.solve(np.ones((self.n.size, 1))).theta
        sigma = float(theta[1] / theta[0]) if len(theta) > 1 else 0.0
        return PreferredLaw(
            gamma=1 / float(theta[0]),
            sigma=min(sigma, 1.0),
            kappa=0.0,
            asymptote=1 / float(theta[1]) if sigma > 0 else None,
        )


class _ProfiledFigure(msgspec.Struct, frozen=True):
    """A figure fitted within the bounds and without them (NaN: none), and the bounds."""

    held: float
    free: float
    bounds: ValueBounds
    unit: str = ""


def users_at_peak(sigma: float, kappa: float) -> float | None:
    """Return N_max = sqrt((1 - sigma) / kappa), at least 1; None where the curve has no
    maximum. Source: Gunther 2007, equation 4.33."""
    if kappa <= 0:
        return None
    return max(math.sqrt(max(1 - sigma, 0.0) / kappa), 1.0)


def _usl_columns(n: FloatArray) -> FloatArray:
    """Return 1, N - 1 and N (N - 1), shape `(n, 3)`."""
    return np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)


def _fit_within_bounds(
    problem: LogRegression, n: FloatArray, free: RegressionSolution
) -> RegressionSolution:
    """Return the best alpha, beta, delta with 0 <= beta <= alpha and 0 <= delta.

    If the free solution is outside, the best one lies on a face; all faces are tried.
    """
    alpha, beta, delta = free.theta
    if 0 <= beta <= alpha and delta >= 0:
        return free
    solutions = []
    for face in _FACES:
        solved = problem.solve(_usl_columns(n) @ face)
        theta = face @ solved.theta
        if theta[0] > 0 and 0 <= theta[1] <= theta[0] and theta[2] >= 0:
            solutions.append(RegressionSolution(theta, solved.squares))
    return min(solutions, key=lambda solution: solution.squares)


_FACES = tuple(
    np.asarray(face, dtype=np.float64).T
    for face in (
        ((1, 0, 0), (0, 0, 1)),
        ((1, 0, 0), (0, 1, 0)),
        ((1, 1, 0), (0, 0, 1)),
        ((1, 0, 0),),
        ((1, 1, 0),),
    )
)
"""beta = 0; delta = 0; beta = alpha; and the edges where two of them meet."""


def _parameters(solution: RegressionSolution) -> tuple[float, float, float]:
    """Return gamma, sigma, kappa; NaN where alpha is not above 0."""
    alpha, beta, delta = (float(x) for x in solution.theta)
    if alpha <= 0:
        return math.nan, math.nan, math.nan
    return 1 / alpha, beta / alpha, delta / alpha


def _curve_at(users: float, solution: RegressionSolution) -> float:
    alpha, beta, delta = (float(x) for x in solution.theta)
    form = alpha + beta * (users - 1) + delta * users * (users - 1)
    return users / form if form > 0 else math.nan
