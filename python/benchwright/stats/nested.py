"""The mean of a population of replicates, from trials that are nested in a few of them.

Trials of one build share its layout, those of one boot its memory: an interval of trials is about this
build and this boot. The interval here is about all builds: each outermost replicate is one value.

Method: every replicate's value is the plain mean of those within it. The interval of the mean is
Student's over the outermost replicates, with one degree of freedom less than there are. In a balanced
design they count alike. Where a stop or the controller left them with different numbers of trials,
they have the weights of their variances, and the error is Hartung and Knapp's; the variance between
them counts as at least a k-th of that of their means, because a few may agree by chance. Skewed
values end Student's interval too early on the side of the longer tail; there it reaches further, by
Johnson's correction, and nothing is taken from the other side.
Decision: no pooling of levels. Restricted maximum likelihood with Satterthwaite's degrees of freedom
gives narrower intervals where replicates hardly differ, and too narrow ones where a few of them
happened to agree. Plain means of unequal replicates are as safe (Student's test keeps its level
for any variances), but a design that learns how many trials pay then costs up to 2.8 times as much
as the best fixed one, in place of 1.4.
Where replicates take turns, what the machine changes meanwhile is common to all of them. Then the error
has the long-run variance of the trials in place of their plain one (stats/dependence.py).
Variance components are those of unweighted means, by the expected squares of the design as it is;
their intervals recombine those of the mean squares (MOVER).
Non-goals: medians and quantiles of a population, crossed factors, dependence between neighbouring
trials (it is part of what the replicates' means vary by).
Sources: T. Kalibera and R. Jones 2013, Rigorous benchmarking in reasonable time, ISMM; J. Hartung and
G. Knapp 2001, Statistics in Medicine 20(24); R. Ibragimov and U. Mueller 2010, t-statistic based
correlation and heterogeneity robust inference, Journal of Business & Economic Statistics 28(4);
N. J. Johnson 1978, JASA 73(363); R. Burdick and F. Graybill 1992, Confidence intervals on variance
components; G. Zou and A. Donner 2008, Statistics in Medicine 27(10), for MOVER.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray, IntArray, SampleValues
from benchwright.stats.dependence import mean_errors
from benchwright.stats.intervals import ENOUGH_EQUAL, t_quantile
from benchwright.stats.sample import skewness

NESTED_METHOD = "nested-means"
TRIAL = "trial"
"""Name of the innermost level."""


class Component(msgspec.Struct, frozen=True):
    """By how much the replicates of one level differ, within one replicate of the level outside."""

    name: str
    """The level: `build`, `process`; `trial` is the last."""
    replicates: int
    """How many there are in all."""
    degrees: int
    """Degrees of freedom of its mean square; 0 where no replicate outside has two of them."""
    variance: float
    """In squares of the values' unit, at least 0; NaN without degrees of freedom: then it is part of
    the next level outside."""
    low: float
    """Lower end of the variance's interval, at least 0."""
    high: float
    share: float
    """Share of the variance of a single trial of a random replicate, 0 to 1."""
    least: float
    """What the variance counts as at least where little shows it: its mean square over the number of
    replicates."""
    share_of_error: float
    """Share of the squared error of the mean, 0 to 1."""
    limit: float
    """Half width of the mean's interval if infinitely many trials, or replicates of the levels
    inside, showed each of these replicates exactly; 0 for trials."""

    @property
    def sdev(self) -> float:
        """Standard deviation; of log ratios roughly a share."""
        return math.sqrt(self.variance)


class Prediction(msgspec.Struct, frozen=True):
    """An interval for what one more of its kind will show."""

    low: float
    high: float


class NestedEstimate(msgspec.Struct, frozen=True):
    """The mean of a population of outermost replicates, and what its error is made of."""

    mean: Estimate
    """With its interval, whose ends are NaN where there is none: one outermost replicate, or too few
    that are all equal. `n` are the trials."""
    error: float
    """Standard error of the mean."""
    degrees: int
    """Degrees of freedom of the mean's interval: outermost replicates less one."""
    components: tuple[Component, ...]
    """The levels, outermost first, trials last."""
    next_replicate: Prediction
    """What the mean of the next outermost replicate will be, with the same number of trials."""
    next_trial: Prediction
    """What a single trial of the next outermost replicate will show."""

    @property
    def replicates(self) -> int:
        """Number of outermost replicates."""
        return self.components[0].replicates

    def p_value(self, null: float = 0.0) -> float:
        """Return the two-sided P-value of a mean of `null`: at most 1 - confidence exactly where the
        interval excludes it. 1 without an interval."""
        mean = self.mean
        side = mean.value - mean.low if null < mean.value else mean.high - mean.value
        distance = abs(mean.value - null)
        if math.isnan(side) or not distance:
            return 1.0
        if not side:
            return 0.0
        quantile = t_quantile(mean.confidence, self.degrees)
        return 2 * special.t_cdf(self.degrees, -distance / side * quantile)


def nested_estimate(
    values: SampleValues,
    paths: IntArray | Sequence[Sequence[int]],
    confidence: float = 0.95,
    names: Sequence[str] = (),
    *,
    sequential: bool = False,
    in_turns: bool = False,
) -> NestedEstimate:
    """Return the mean of the population of the outermost level.

    `values`, shape `(n,)`, are of single trials (of comparisons, the log ratios of blocks);
    `paths`, shape `(n, levels)`, have the number of each trial's replicate at each level, outermost
    first, in any order. `names` are those of the levels. `sequential`: the interval's width decides when
    to stop, so it is wider for the looks. `in_turns`: the replicates of the only level took turns, and
    values are in the order of their trials. Values that are not finite are ignored.
    """
    array = np.asarray(values, dtype=np.float64)
    table = np.asarray(paths, dtype=np.int64)
    assert table.ndim == 2, "a path is a row"
    assert len(table) == len(array), "a path for each value"
    known = np.isfinite(array)
    tree = _Tree(array[known], table[known])
    labels = [*(names or (f"level {place + 1}" for place in range(table.shape[1]))), TRIAL]
    assert len(labels) == table.shape[1] + 1, "a name for each level"
    wider = _dependence(array[known], table[known]) if in_turns else 1.0
    return _estimate(tree, confidence, labels, sequential=sequential, wider=wider)


def _dependence(values: FloatArray, table: IntArray) -> float:
    """Return the factor, at least 1, by which the error of the mean of all trials is larger than that of
    independent ones, by their differences from the means of their replicates."""
    _, of = np.unique(table, axis=0, return_inverse=True)
    of = of.reshape(-1)
    means = np.bincount(of, values) / np.bincount(of)
    (error,) = mean_errors((values - means[of]).tolist())
    return error.factor


class ReplicateSummary(msgspec.Struct, frozen=True):
    """What is known of the trials of one replicate where they are too many to store."""

    count: int
    """At least 1."""
    mean: float
    sdev: float


def summary_estimate(
    replicates: Sequence[ReplicateSummary], confidence: float = 0.95, name: str = "replicate"
) -> NestedEstimate:
    """Return the mean of the population of replicates of one level, from summaries of them, as
    `nested_estimate` of all their trials; `name` is that of the level. Trials count as normal in the
    interval of their own component."""
    counts, means, sdevs = (
        np.array([[one.count, one.mean, one.sdev] for one in replicates], dtype=np.float64)
        .reshape(-1, 3)
        .T
    )
    return _estimate(
        _SummaryTree(counts, means, sdevs), confidence, [name, TRIAL], sequential=False
    )


# -- the tree of replicates ----------------------------------------------------------------

_NORMAL_KURTOSIS = 3.0


class _Squares:
    """The mean squares of every level, and their expectations."""

    counts: list[int]
    degrees: list[int]
    kurtosis: list[float]
    """Of the replicates around the mean of their parent."""
    squares: FloatArray
    shift: float
    top: FloatArray
    """Means of the outermost replicates, less `shift`."""
    top_errors: FloatArray
    """Coefficients of the components in the error of each outermost mean, shape `(k, levels)`."""
    combined: FloatArray
    """The components as combinations of the mean squares. A level without a square counts as a part
    of the next level outside."""
    variances: FloatArray
    """The components; unlike what is reported, they may be below 0."""

    def _combine(self, expected: FloatArray) -> None:
        """Compute the components from the coefficients of each in the expected mean squares."""
        known = np.flatnonzero(self.degrees)
        self.combined = np.zeros(expected.shape)
        self.combined[np.ix_(known, known)] = np.linalg.inv(expected[np.ix_(known, known)])
        self.variances = self.combined @ np.nan_to_num(self.squares)


class _SummaryTree(_Squares):
    """That of one level whose trials are summarized: arrays of shape `(k,)`."""

    def __init__(self, counts: FloatArray, means: FloatArray, sdevs: FloatArray) -> None:
        k, whole = len(counts), int(counts.sum())
        self.counts, self.degrees = [k, whole], [max(k - 1, 0), whole - k]
        self.shift = float(means[0]) if k else 0.0
        self.top = means - self.shift
        around = self.top - self.top.mean() if k else self.top
        total = float(around @ around)
        self.kurtosis = [k * float((around**4).sum()) / total**2 if total else _NORMAL_KURTOSIS]
        self.kurtosis.append(_NORMAL_KURTOSIS)
        within = float((counts - 1) @ sdevs**2)
        self.squares = np.array(
            [
                square / degrees if degrees else math.nan
                for square, degrees in zip((total, within), self.degrees, strict=True)
            ]
        )
        self.top_errors = np.stack([np.zeros(k), 1 / counts], axis=1)
        share = float((1 / counts).mean()) if k else 0.0
        self._combine(np.array([[1.0, share], [0.0, 1.0]]))


class _Tree(_Squares):
    """That of single trials."""

    def __init__(self, values: FloatArray, table: IntArray) -> None:
        levels = table.shape[1] + 1
        # Differences from one of the values, so that no digits are lost and equal ones have squares of 0.
        shift = float(values[0]) if len(values) else 0.0
        means = values - shift
        # Coefficients of the components in each node's own error, around its true value.
        errors = np.zeros((len(values), levels))
        self.counts = [0] * levels
        self.degrees = [0] * levels
        self.kurtosis = [_NORMAL_KURTOSIS] * levels
        self.squares = np.full(levels, math.nan)
        expected = np.zeros((levels, levels))
        self.shift, self.top, self.top_errors = shift, means, errors
        for level in reversed(range(levels)):
            self.counts[level], self.top, self.top_errors = len(means), means, errors
            parents, first, sizes = _parents(table, level)
            sums = np.bincount(parents, means, len(sizes))
            above = sums / sizes
            around = means - above[parents]
            total = float(around @ around)
            self.degrees[level] = int((sizes - 1).sum())
            if self.degrees[level]:
                self.squares[level] = total / self.degrees[level]
                of = int(sizes[sizes > 1].sum())
                self.kurtosis[level] = (
                    of * float((around**4).sum()) / total**2 if total else _NORMAL_KURTOSIS
                )
                weights = ((sizes - 1) / sizes)[parents]
                expected[level] = weights @ errors / self.degrees[level]
            expected[level, level] = 1.0
            inner = np.zeros((len(sizes), levels))
            np.add.at(inner, parents, errors)
            errors = inner / (sizes**2)[:, None]
            errors[:, level] = 1 / sizes
            means, table = above, table[first]
        self._combine(expected)


def _parents(table: IntArray, level: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each node's parent, a node of each parent, and the parents' sizes. Nodes of `level` have
    the rows of `table`."""
    if not (level and len(table)):
        one = np.zeros(len(table), dtype=np.int64)
        return one, one[:1], np.array([float(len(table))] if len(table) else [])
    _, first, parents, sizes = np.unique(
        table[:, :level], axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return parents.reshape(-1), first, sizes.astype(np.float64)


# -- what follows from it ------------------------------------------------------------------


def _estimate(
    tree: _Squares,
    confidence: float,
    labels: Sequence[str],
    *,
    sequential: bool,
    wider: float = 1.0,
) -> NestedEstimate:
    k = tree.counts[0]
    weights = _weights(tree)
    # The weights of a balanced design are equal; then these are the plain mean and its error.
    mean = float(weights @ tree.top) if k else math.nan
    error = common = math.nan
    if k > 1:
        square = float(weights @ (tree.top - mean) ** 2) / (k - 1)
        # What all replicates have in common is no difference between them.
        common = (wider**2 - 1) * float(np.nan_to_num(tree.squares[-1])) / tree.counts[-1]
        error = math.sqrt(square + common)
    middle = tree.shift + mean
    low, high = _interval(tree, middle, error, confidence, sequential=sequential)
    return NestedEstimate(
        Estimate(middle, low, high, confidence, NESTED_METHOD, tree.counts[-1]),
        error,
        tree.degrees[0],
        _components(tree, confidence, labels, weights, (high - low) / 2),
        _prediction(tree, middle, {0: 1.0}, common, confidence),
        _prediction(tree, middle, _single_trial(tree), common, confidence),
    )


def _weights(tree: _Squares) -> FloatArray:
    """Return the weights of the outermost means, of sum 1: the reciprocals of their variances.

    The variance between outermost replicates counts as at least a k-th of that of their means: that a
    few agree shows little.
    """
    k = tree.counts[0]
    variances = tree.variances
    between = max(float(variances[0]), float(np.nan_to_num(tree.squares[0])) / max(k, 1))
    single = between + tree.top_errors[:, 1:] @ np.maximum(variances[1:], 0.0)
    if not (k and single.min() > 0):
        return np.full(k, 1 / max(k, 1))
    found: FloatArray = 1 / single / (1 / single).sum()
    return found


_LOOKS = 1.0
"""By this / k an interval is wider whose width decided at how many outermost replicates to stop
(tests/calibration/test_nested.py)."""


def _interval(
    tree: _Squares, middle: float, error: float, confidence: float, *, sequential: bool
) -> tuple[float, float]:
    """Return Student's interval over the outermost replicates, further on the side of their longer
    tail."""
    k = tree.counts[0]
    if math.isnan(error) or (not error and k < ENOUGH_EQUAL):
        return math.nan, math.nan
    quantile = t_quantile(confidence, k - 1)
    # Johnson's m3 (1 + 2 t^2) / (6 s^2 n), as a share of the half width t s / sqrt(n).
    longer = _skewness(tree) * (1 + 2 * quantile**2) / (6 * quantile * math.sqrt(k))
    half = quantile * error * (1 + _LOOKS / k if sequential else 1)
    return _around(middle, half, longer)


def _skewness(tree: _Squares) -> float:
    """Return the skewness of the outermost replicates, corrected for its bias; 0 for fewer than 3.

    Few values of a skewed population show about half of its skewness, so it counts up to twice.
    """
    k = tree.counts[0]
    if k < 3:
        return 0.0
    return (1 + min(_FEW / k, 1)) * skewness(tree.top) * k * k / ((k - 1) * (k - 2))


_FEW = 5
"""Outermost replicates whose skewness counts twice, so that the means of 3 to 30 exponential ones hold
in 93 % (tests/calibration/test_nested.py)."""


def _around(middle: float, half: float, longer: float) -> tuple[float, float]:
    """Return both ends, of which the upper one is further by a share `longer` of the half width, or
    the lower one by as much if it is negative."""
    return middle - half * (1 - min(longer, 0.0)), middle + half * (1 + max(longer, 0.0))


def _known(tree: _Squares) -> list[int]:
    """Return the levels that have a mean square."""
    return [level for level, degrees in enumerate(tree.degrees) if degrees]


def _single_trial(tree: _Squares) -> dict[int, float]:
    """Return the variance of a trial of a random replicate, as a combination of the mean squares."""
    total = tree.combined.sum(axis=0)
    return {level: float(total[level]) for level in _known(tree)}


def _prediction(
    tree: _Squares, middle: float, variance: dict[int, float], common: float, confidence: float
) -> Prediction:
    """Return the interval of something with this variance, given as a combination of the mean squares.

    The mean's own error adds to it, with the part `common` to all replicates of its square. Each part
    counts with its own Student's quantile: exact where one part is all of it. Satterthwaite's degrees
    of freedom for the sum are too many where the few outermost replicates agree by chance.
    """
    k = tree.counts[0]
    if not tree.degrees[0]:
        return Prediction(math.nan, math.nan)
    parts = variance | {0: variance[0] + 1 / k}
    square = common * t_quantile(confidence, tree.degrees[0]) ** 2 + math.fsum(
        factor * float(tree.squares[level]) * t_quantile(confidence, tree.degrees[level]) ** 2
        for level, factor in parts.items()
    )
    if square <= 0:
        return Prediction(math.nan, math.nan)
    return Prediction(*_around(middle, math.sqrt(square), _PREDICTED_SKEW * _skewness(tree)))


_PREDICTED_SKEW = 0.2
"""By this share of their skewness a prediction reaches further on the side of the longer tail, so that
those of 3 to 30 exponential replicates hold in 93 % (tests/calibration/test_nested.py)."""


def _components(
    tree: _Squares, confidence: float, labels: Sequence[str], weights: FloatArray, half: float
) -> tuple[Component, ...]:
    variances = np.maximum(tree.variances, 0.0)
    parts = weights**2 @ tree.top_errors
    parts[:1] += weights @ weights
    total, error = variances.sum(), variances @ parts
    found = []
    for level, name in enumerate(labels):
        is_known = tree.degrees[level] > 0
        low, high = _mover(tree, tree.combined[level], confidence) if is_known else (0.0, math.nan)
        outer = variances[: level + 1] @ parts[: level + 1]
        is_trial = level == len(labels) - 1
        found.append(
            Component(
                name,
                tree.counts[level],
                tree.degrees[level],
                float(variances[level]) if is_known else math.nan,
                low,
                high,
                float(variances[level] / total) if total else 0.0,
                float(np.nan_to_num(tree.squares[level])) / max(tree.counts[level], 1),
                float(variances[level] * parts[level] / error) if error else 0.0,
                0.0 if is_trial else half * math.sqrt(float(outer / error) if error else 1.0),
            )
        )
    return tuple(found)


def _mover(tree: _Squares, factors: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the interval, at least 0, of a combination of the expected mean squares."""
    value = below = above = 0.0
    tail = (1 - confidence) / 2
    for level in _known(tree):
        factor, square = float(factors[level]), float(tree.squares[level])
        # A square of values with long tails varies as one of fewer values.
        degrees = tree.degrees[level]
        if tree.kurtosis[level] > _NORMAL_KURTOSIS:
            degrees = max(1, math.floor(2 * degrees / (tree.kurtosis[level] - 1)))
        most = square * degrees / special.chi_square_quantile(degrees, tail)
        least = square * degrees / special.chi_square_quantile(degrees, 1 - tail)
        ends = (square - least, most - square)
        value += factor * square
        below += (factor * ends[factor < 0]) ** 2
        above += (factor * ends[factor > 0]) ** 2
    return max(value - math.sqrt(below), 0.0), max(value + math.sqrt(above), 0.0)
