"""One estimate from several jobs, each with an estimate and a standard error of its own.

Machines, boots and CI jobs differ by more than the trials within one of them show. So the jobs are a
sample of a population, and the estimate is its mean: random effects.
Method: the variance between jobs is Paule and Mandel's, for which the jobs vary by as much as they
should. The interval of the mean is Hartung and Knapp's, with one degree of freedom less than there
are jobs, and no narrower than the jobs' own errors allow: few that happen to agree are no evidence
of a narrow population. There a job's error from few trials, which is uncertain itself, counts as the
error of a normal value whose interval is as wide as the job's. The intervals of the variance and of
I^2 are those of Q profiles. The prediction interval is that of a fiducial mixture (Nagashima, Noma and
Furukawa): over all variances that the jobs allow, by quadrature in place of random numbers; for jobs
without an error of their own it is Student's. It is at least as wide as the interval of the mean.
Rejected: DerSimonian and Laird's variance with normal quantiles, whose intervals of 3 to 10 jobs are too
narrow (tests/calibration/test_meta.py).
Non-goals: whether jobs belong together; influence of jobs, publication bias, moderators.
Sources: R. Paule and J. Mandel 1982, Consensus values and weighting factors, Journal of Research of the
NBS 87(5); J. Hartung and G. Knapp 2001, Statistics in Medicine 20(24); C. Roever, G. Knapp and T.
Friede 2015, BMC Medical Research Methodology 15:99, for the floor; W. Viechtbauer 2007, Statistics in
Medicine 26(1), for Q profiles; J. Higgins and S. Thompson 2002, Statistics in Medicine 21(11), for
I^2; K. Nagashima, H. Noma and T. Furukawa 2019, Statistical Methods in Medical Research 28(6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray
from benchwright.stats.intervals import t_quantile
from benchwright.stats.nested import Prediction

META_METHOD = "hartung-knapp"


class JobEstimate(msgspec.Struct, frozen=True):
    """What one job found, such as a log ratio."""

    value: float
    error: float
    """Standard error, above 0."""
    degrees: float = math.inf
    """Degrees of freedom of the error."""

    @classmethod
    def of(cls, estimate: Estimate) -> JobEstimate:
        """Return the job whose interval is an estimate's, whatever made it."""
        normal = special.normal_quantile(0.5 + estimate.confidence / 2)
        return cls(estimate.value, estimate.half_width / normal)


class Spread(msgspec.Struct, frozen=True):
    """A figure of heterogeneity with its interval."""

    value: float
    low: float
    high: float


class MetaEstimate(msgspec.Struct, frozen=True):
    """The mean of the population of jobs, and how much jobs differ."""

    mean: Estimate
    """`n` are the jobs. The ends are NaN for fewer than two."""
    error: float
    """Standard error of the mean."""
    weights: tuple[float, ...]
    """Share of each job in the mean; their sum is 1."""
    tau: Spread
    """Standard deviation between the true values of jobs, in the values' unit."""
    i_squared: Spread
    """Share of the variance between the jobs' estimates that is not their own error, 0 to 1."""
    q_p_value: float
    """P-value of Cochran's Q: that all jobs have one true value."""
    next_job: Prediction
    """What the true value of the next job will be."""

    @property
    def replicates(self) -> int:
        """The number of jobs."""
        return self.mean.n

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the mean's error."""
        return self.mean.n - 1

    def p_value(self, null: float = 0.0) -> float:
        """Return the two-sided P-value of a mean of `null`; 1 without an interval."""
        distance = abs(self.mean.value - null)
        if not (self.error > 0 and distance):
            return 1.0
        return 2 * special.t_cdf(self.degrees, -distance / self.error)


def meta_estimate(jobs: Sequence[JobEstimate], confidence: float = 0.95) -> MetaEstimate:
    """Return the mean over the population of jobs, of at least one job.

    Every value must be finite, every error finite and above 0.
    """
    assert jobs, "at least one job"
    assert all(math.isfinite(j.value) and 0 < j.error < math.inf for j in jobs), "bad job"
    values = np.array([job.value for job in jobs])
    squares = np.array([job.error**2 for job in jobs])
    count = len(jobs)
    if count < 2:
        nothing = Spread(math.nan, math.nan, math.nan)
        mean = Estimate(jobs[0].value, math.nan, math.nan, confidence, META_METHOD, 1)
        ends = Prediction(math.nan, math.nan)
        return MetaEstimate(mean, math.nan, (1.0,), nothing, nothing, math.nan, ends)
    profile = _Profile(values, squares)
    between = profile.variance_at(count - 1)
    weights = 1 / (squares + between)
    total = float(weights.sum())
    value = float(weights @ values) / total
    known = np.array([_normal_error(job, confidence) ** 2 for job in jobs])
    least_error = 1 / float((1 / (known + between)).sum())
    spread = float(weights @ (values - value) ** 2) / ((count - 1) * total)
    error = math.sqrt(max(spread, least_error))
    half = t_quantile(confidence, count - 1) * error
    tail = (1 - confidence) / 2
    least, most = (
        profile.variance_at(special.chi_square_quantile(count - 1, p)) for p in (1 - tail, tail)
    )
    ends = _prediction(profile, confidence)
    return MetaEstimate(
        Estimate(value, value - half, value + half, confidence, META_METHOD, count),
        error,
        tuple((weights / total).tolist()),
        Spread(*(math.sqrt(one) for one in (between, least, most))),
        Spread(*(one / (one + _typical(squares)) for one in (between, least, most))),
        special.chi_square_tail(profile.q(0.0), count - 1),
        Prediction(min(ends.low, value - half), max(ends.high, value + half)),
    )


def _normal_error(job: JobEstimate, confidence: float) -> float:
    """Return the standard error with which a normal value has as wide an interval as the job."""
    wanted = 0.5 + confidence / 2
    return job.error * special.t_quantile(job.degrees, wanted) / special.normal_quantile(wanted)


def _typical(squares: FloatArray) -> float:
    """Return the jobs' typical squared error (Higgins and Thompson, equation 9)."""
    weights = 1 / squares
    total = float(weights.sum())
    return (len(squares) - 1) * total / (total**2 - float(weights @ weights))


class _Profile:
    """Q, the weighted squares of the jobs around their mean, as a function of the variance between
    jobs: it falls, and at the true variance it is chi-square."""

    def __init__(self, values: FloatArray, squares: FloatArray) -> None:
        self.values, self.squares = values, squares

    def q(self, between: float) -> float:
        """Return Q at one variance."""
        return float(self._q(np.array([between]))[0])

    def variance_at(self, q: float) -> float:
        """Return the variance with this Q; 0 where Q is below it at 0."""
        return float(self.variances_at(np.array([q]))[0])

    def variances_at(self, wanted: FloatArray) -> FloatArray:
        """Return the variances with these Q, shape `(m,)`."""
        # Q at v is at most the sum of squares around the plain mean / v.
        around = self.values - self.values.mean()
        low = np.zeros(len(wanted))
        high = np.full(len(wanted), float(around @ around)) / wanted
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_above = self._q(middle) > wanted
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        found: FloatArray = np.where(self._q(np.zeros(1)) <= wanted, 0.0, (low + high) / 2)
        return found

    def means_at(self, between: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and its squared error at these variances, shapes `(m,)`."""
        weights = 1 / (self.squares + between[:, None])
        total = weights.sum(axis=1)
        return weights @ self.values / total, 1 / total

    def _q(self, between: FloatArray) -> FloatArray:
        weights = 1 / (self.squares + between[:, None])
        means = weights @ self.values / weights.sum(axis=1)
        found: FloatArray = (weights * (self.values - means[:, None]) ** 2).sum(axis=1)
        return found


_HALVINGS = 50
_NODES = 200
"""Points of the quadrature over the variances."""


def _prediction(profile: _Profile, confidence: float) -> Prediction:
    """Return the interval of the next job's true value: the mixture, over the variances that have
    Q = u for a chi-square u, of normal values with that variance and the mean's error."""
    freedom = len(profile.values) - 1
    shares = (np.arange(_NODES) + 0.5) / _NODES
    wanted = np.array([special.chi_square_quantile(freedom, p) for p in shares.tolist()])
    between = profile.variances_at(wanted)
    means, errors = profile.means_at(between)
    centers, sdevs = means.tolist(), np.sqrt(between + errors).tolist()

    def below(x: float) -> float:
        terms = (
            special.normal_cdf((x - center) / sdev)
            for center, sdev in zip(centers, sdevs, strict=True)
        )
        return math.fsum(terms) / _NODES

    tail = (1 - confidence) / 2
    reach = max(sdevs) * special.normal_quantile(1 - tail / _NODES)
    ends = (min(centers) - reach, max(centers) + reach)
    return Prediction(_root(below, tail, ends), _root(below, 1 - tail, ends))


def _root(rising: Callable[[float], float], wanted: float, ends: tuple[float, float]) -> float:
    low, high = ends
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2
