"""The interval, the P-value and the smallest detectable effect of a comparison's evidence.

There are three methods without levels of replication. `watch`: the confidence sequence of a t mixture on the blocks' log
ratios, exact at every look if these are normal. `plan`: Stein's two stages on the log ratios,
exact for one planned look. Unpaired arms: Welch on the logs, one look; with a stored baseline
and a plan the candidate's variance is the pilot's, because the pilot set the number of trials.
With levels of replication: the nested mean of the blocks' log ratios (stats/nested.py); of merged
jobs: the mean over them (stats/meta.py).
For unpaired arms both standard errors allow for dependence between neighbouring trials
(stats/dependence.py), which no order of the arms averages out.
All values here are logarithms; the caller applies `exp`.
Sources: decide/precision.py; stats/intervals.py; B. L. Welch 1947, Biometrika 34.
"""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec

from benchwright.core.comparison import ComparisonRule
from benchwright.decide.compare.evidence import MetricEvidence
from benchwright.stats import special
from benchwright.stats.intervals import SEQUENCE_MEAN_METHOD as WATCHED
from benchwright.stats.intervals import sequence_radius, t_mixture_p_of_moments, t_quantile
from benchwright.stats.sample import Moments
from benchwright.stats.two_sample import WELCH_LOG

PLANNED = "stein-two-stage"


class LogRatioInterval(msgspec.Struct, frozen=True):
    """An interval of the log ratio."""

    center: float
    half: float
    """From the lower end to the center. NaN where there is no interval, infinite where it excludes
    nothing."""
    method: str
    upper: float | None = None
    """From the center to the upper end, where that differs."""

    @property
    def low(self) -> float:
        """The lower end."""
        return self.center - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.center + (self.half if self.upper is None else self.upper)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval shows that the arms differ."""
        return self.low > 0 or self.high < 0

    def within(self, limit: float) -> bool:
        """Whether the whole interval lies within +- limit."""
        return self.low >= -limit and self.high <= limit


class StandardError(msgspec.Struct, frozen=True):
    """A standard error with its degrees of freedom."""

    error: float
    degrees: float


def log_ratio_interval(rule: ComparisonRule, evidence: MetricEvidence) -> LogRatioInterval:
    """Return the interval at this look."""
    center = evidence.log_ratio
    if evidence.nested is not None:
        mean = evidence.nested.mean
        below, above = mean.value - mean.low, mean.high - mean.value
        return LogRatioInterval(mean.value, below, mean.method, above)
    if _is_watched(rule, evidence):
        difference = evidence.difference
        if difference.n < 2:
            return LogRatioInterval(center, math.nan, WATCHED)
        half = (
            difference.sdev * sequence_radius(difference.n, rule.confidence)
            if difference.sdev
            else 0.0
        )
        return LogRatioInterval(center, half, WATCHED)
    method = PLANNED if evidence.paired else WELCH_LOG
    scale = standard_error(rule, evidence)
    if scale is None:
        return LogRatioInterval(center, math.nan, method)
    half = _quantile(rule.confidence, scale.degrees) * scale.error
    return LogRatioInterval(center, half if scale.error else 0.0, method)


def p_value(rule: ComparisonRule, evidence: MetricEvidence, null: float = 0.0) -> float:
    """Return the two-sided P-value of a log ratio of `null`; 1 without an interval."""
    if evidence.nested is not None:
        return evidence.nested.p_value(null)
    if _is_watched(rule, evidence):
        return t_mixture_p_of_moments(evidence.difference, null, confidence=rule.confidence)
    scale = standard_error(rule, evidence)
    distance = abs(evidence.log_ratio - null)
    if scale is None or distance == 0:
        return 1.0
    if not scale.error:
        return 0.0
    return 2 * special.t_cdf(scale.degrees, -distance / scale.error)


def smallest_effect(rule: ComparisonRule, evidence: MetricEvidence, hypotheses: int) -> float:
    """Return the smallest true log ratio that a comparison of this size and noise detects
    with the rule's power; NaN where n is too small.

    The error is divided equally among `hypotheses`.
    """
    error = rule.level / max(hypotheses, 1)
    if (nested := evidence.nested) is not None:
        if not nested.degrees:
            return math.nan
        # The error with which Student's interval is as wide: it may reach further on one side.
        mean = nested.mean
        own = mean.half_width / _quantile(mean.confidence, nested.degrees)
        return _detectable_by_another(rule, error, nested.degrees) * own
    if _is_watched(rule, evidence):
        difference = evidence.difference
        if difference.n < 2 or not difference.sdev:
            return difference.sdev
        # With one question, the first block that answers it ends the comparison. With
        # several, a difference must still be visible when the last one is answered.
        once = hypotheses > 1 or rule.once or rule.exactly is not None
        first = difference.n if once else min(rule.minimum, difference.n)
        return difference.sdev * watched_effect(
            difference.n, first, rule.confidence, error, rule.power
        )
    scale = standard_error(rule, evidence)
    if scale is None:
        return math.nan
    return detectable_errors(rule, error, scale.degrees) * scale.error


def detectable_errors(rule: ComparisonRule, error: float, degrees: float) -> float:
    """Return the effect c = t(1 - error / 2) + t(power) in standard errors, for which
    P(t > t(1 - error / 2) - c) = power."""
    return _quantile(1 - error, degrees) + _quantile(2 * rule.power - 1, degrees)


def _detectable_by_another(rule: ComparisonRule, error: float, degrees: float) -> float:
    """Return the effect in standard errors that another comparison of the same design detects with
    the rule's power: with few degrees of freedom its own standard error differs from this one's.

    c solves E(c s - t s') = z sd(Z + c s - t s') for two independent standard errors s, s', in a normal
    approximation.
    """
    t, z = _quantile(1 - error, degrees), special.normal_quantile(rule.power)
    square = 2 / degrees * math.exp(2 * (math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)))
    rest = 1 - square
    lead, constant = square - z * z * rest, square * t * t - z * z * (1 + t * t * rest)
    root = square * square * t * t - lead * constant
    return (square * t + math.sqrt(root)) / lead


def planned_size(rule: ComparisonRule, evidence: MetricEvidence, hypotheses: int) -> int | None:
    """Return the number of blocks, or of the candidate's trials, that the pilot requires.

    The smallest N with c * s / sqrt(N) <= log(1 + margin) that can also show equivalence.
    None before the pilot is complete; 10^9 where no number is enough, because the stored
    baseline's own error is too large.
    """
    spread = evidence.pilot_sdev
    if math.isnan(spread):
        return None
    error, limit = rule.level / max(hypotheses, 1), math.log1p(rule.margin)
    if evidence.paired:
        ratio = detectable_errors(rule, error, rule.minimum - 1) * spread / limit
        least = max(rule.minimum, rule.blocks_for_sameness)
        return max(least, min(_NEVER, math.ceil(min(ratio, 1e6) ** 2)))
    if evidence.baseline.n < 2:
        return _NEVER
    of_baseline, of_pilot = evidence.pilot_errors
    known = (of_baseline.factor * evidence.baseline.sdev) ** 2 / evidence.baseline.n
    spread *= of_pilot.factor
    least = rule.minimum
    if rule.rare is not None and evidence.baseline.n >= rule.rare.trials:
        least = max(least, rule.rare.trials)
    need = least
    # The degrees of freedom depend on the size that they lead to; this converges quickly.
    for _ in range(5):
        own = spread**2 / need
        degrees = _welch(known, of_baseline.degrees, own, min(rule.minimum - 1, of_pilot.degrees))
        room = (limit / detectable_errors(rule, error, degrees)) ** 2 - known
        if room <= 0:
            return _NEVER
        common = _pooled(evidence.baseline, Moments(need, 0.0, evidence.pilot_sdev))
        alike = (limit / detectable_errors(rule, error, degrees)) ** 2
        alike -= common * of_baseline.factor**2 / evidence.baseline.n
        if alike <= 0:
            return _NEVER
        wanted = max(spread**2 / room, common * of_pilot.factor**2 / alike)
        need = max(least, min(_NEVER, math.ceil(wanted)))
    return need


def _pooled(one: Moments, other: Moments) -> float:
    """Return the variance of both, if they vary alike."""
    squares = (one.n - 1) * one.sdev**2 + (other.n - 1) * other.sdev**2
    return squares / (one.n + other.n - 2)


_NEVER = 10**9


def _is_watched(rule: ComparisonRule, evidence: MetricEvidence) -> bool:
    return evidence.paired and rule.mode == "watch"


def standard_error(rule: ComparisonRule, evidence: MetricEvidence) -> StandardError | None:
    """Return the standard error of the log ratio; None where n is too small."""
    if evidence.paired:
        if math.isnan(evidence.pilot_sdev):
            return None
        spread = _spread(rule, evidence, evidence.difference)
        return StandardError(spread / math.sqrt(evidence.n), rule.minimum - 1)
    baseline, candidate = evidence.baseline, evidence.candidate
    if baseline.n < 2 or candidate.n < 2:
        return None
    spread, pilot = candidate.sdev, candidate.n
    if rule.stored is not None and not math.isnan(evidence.pilot_sdev):
        spread, pilot = _spread(rule, evidence, candidate), rule.minimum
    of_baseline, of_candidate = evidence.errors()
    own = (of_candidate.factor * spread) ** 2 / candidate.n
    known = (of_baseline.factor * baseline.sdev) ** 2 / baseline.n
    degrees = _welch(known, of_baseline.degrees, own, min(pilot - 1, of_candidate.degrees))
    # If both arms vary alike, the shorter one may have missed what the longer one shows: rare slow
    # trials.
    alike = _pooled(baseline, candidate) * (
        of_candidate.factor**2 / candidate.n + of_baseline.factor**2 / baseline.n
    )
    return StandardError(math.sqrt(max(known + own, alike)), degrees)


def dependence_factor(evidence: MetricEvidence) -> float:
    """Return the factor by which dependence between neighbouring trials widens the
    standard error of the log ratio; 1 for arms that are paired."""
    arms = zip((evidence.baseline, evidence.candidate), evidence.errors(), strict=True)
    parts = [
        (arm.sdev / math.sqrt(arm.n), error.factor)
        for arm, error in arms
        if arm.n >= 2 and arm.sdev and not evidence.paired
    ]
    if not parts:
        return 1.0
    wide = math.hypot(*(error * factor for error, factor in parts))
    return wide / math.hypot(*(error for error, _ in parts))


def _spread(rule: ComparisonRule, evidence: MetricEvidence, every: Moments) -> float:
    """Return the pilot's deviation, or that of all values where they contradict it.

    Stein's interval uses the pilot's deviation, which is exact for normal values but too
    small if the pilot missed a slow mode. So where an F test at 10 % shows that all values
    vary more than the pilot, their deviation is used. This only widens intervals: the
    coverage of a bimodal metric rises from 93-94 to 95-96 %; on normal values the power
    changes by less than half a point (tests/calibration/test_compare.py).
    """
    pilot = evidence.pilot_sdev
    if every.n <= rule.minimum or every.sdev <= pilot:
        return pilot
    if not pilot:
        return every.sdev
    limit = special.f_quantile(every.n - 1, rule.minimum - 1, 0.9)
    return every.sdev if (every.sdev / pilot) ** 2 > limit else pilot


def _welch(first: float, of_first: float, second: float, of_second: float) -> float:
    """Return Welch and Satterthwaite's degrees of freedom of a sum of two squared errors,
    given the degrees of each; the smaller of these where both errors are 0."""
    if not first + second:
        return min(of_first, of_second)
    share = first / (first + second)
    return 1 / (share**2 / of_first + (1 - share) ** 2 / of_second)


def _quantile(confidence: float, degrees: float) -> float:
    """Return the two-sided quantile of Student's t; `confidence` may be negative:
    that is the one-sided quantile of a power below 0.5."""
    if float(degrees).is_integer() and 0 < confidence < 1:
        return t_quantile(confidence, int(degrees))
    return special.t_quantile(degrees, 0.5 + confidence / 2)


# -- the smallest effect that a watched comparison could have detected -----------------
#
# A watched comparison finds an effect when its confidence sequence first excludes 0, so
# its power is a probability of first passage, for which there is no closed form with an
# unknown variance.
# Decision: the effect is computed by simulation with a fixed seed, so that it depends only on
# its arguments. Adding d to the data shifts each path's mean and does not change its spread. So
# one set of paths gives, for each path, the smallest d with which it would have crossed; the answer
# is a quantile of these. The effect is stated for another comparison, but its unit, the standard
# deviation of n blocks, is that of this one: each path is divided by such a deviation, drawn
# independently. Without that, an effect stated after 30 blocks was found in 78 % instead of 80.
# Rejected: a normal approximation of the first passage, whose error at 10 to
# 30 blocks exceeds the promised three points of power (tests/calibration/test_compare.py).

EFFECT_PATHS = 20_000
"""Number of simulated comparisons: the power is accurate to about 0.3 points."""


@lru_cache(maxsize=256)
def watched_effect(n: int, minimum: int, confidence: float, error: float, power: float) -> float:
    """Return the mean, in standard deviations of a block's log ratio as `n` blocks show it, that
    another comparison detects by block `n` with probability `power`, with looks from block
    `minimum` on.

    `error` is the error of one hypothesis. Infinite where n blocks cannot detect anything.
    """
    if n < max(2, minimum):
        return math.inf
    from benchwright.core.numeric import np

    rng = np.random.default_rng(20261121)
    mean, square = np.zeros(EFFECT_PATHS), np.zeros(EFFECT_PATHS)
    least = np.full(EFFECT_PATHS, np.inf)
    for k in range(1, n + 1):
        # Mirrored pairs of paths halve the noise of the quantile.
        half = rng.standard_normal(EFFECT_PATHS // 2)
        distance = np.concatenate([half, -half]) - mean
        mean += distance / k
        square += distance * distance * ((k - 1) / k)
        reach = sequence_radius(k, confidence, error=error) if k >= max(2, minimum) else math.inf
        if math.isfinite(reach):
            np.minimum(least, reach * np.sqrt(square / (k - 1)) - mean, out=least)
    least /= np.sqrt(rng.chisquare(n - 1, EFFECT_PATHS) / (n - 1))
    return float(np.sort(least)[math.ceil(power * EFFECT_PATHS) - 1])
