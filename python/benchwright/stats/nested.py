"""The mean of a population of replicates, from trials that are nested in a few of them.

Trials of one build share its layout, those of one boot its memory: an interval of trials is about this
build and this boot. The interval here is about all builds: each outermost replicate is one value.

Method: every replicate's value is the plain mean of those within it, at each level, so replicates of
one level count alike, however many trials they have. The interval of the mean is Student's over the
outermost replicates, with one degree of freedom less than there are. If they vary by different
amounts, because a stop left one of them incomplete, the plain mean of squares still estimates the
mean's error without bias, and Student's test keeps its level (Bakirov and Szekely 2005, for a level
of at most 8 %). Skewed values end Student's interval too early on the side of the longer tail; there
it reaches as far as Johnson's correction moves it (half of the extension is what it loses at the
other end, which is kept).
Decision: no weights and no pooling of levels. Weights by estimated variances (restricted maximum
likelihood, Satterthwaite's degrees of freedom) give narrower intervals where replicates do not
differ, and too narrow ones where a few of them happened to agree.
Variance components are those of unweighted means, by the expected squares of the design as it is;
their intervals recombine those of the mean squares (MOVER).
Non-goals: medians and quantiles of a population, crossed factors, dependence between neighbouring
trials (it is part of what the replicates' means vary by).
Sources: T. Kalibera and R. Jones 2013, Rigorous benchmarking in reasonable time, ISMM; N. Bakirov and
G. Szekely 2005, Student's t-test for Gaussian scale mixtures, Journal of Mathematical Sciences
139(3); R. Ibragimov and U. Mueller 2010, t-statistic based correlation and heterogeneity robust
inference, Journal of Business & Economic Statistics 28(4); N. J. Johnson 1978, JASA 73(363);
R. Burdick and F. Graybill 1992, Confidence intervals on variance components; G. Zou and A. Donner
2008, Statistics in Medicine 27(10), for MOVER; F. Satterthwaite 1946, Biometrics Bulletin 2(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray, IntArray, SampleValues
from benchwright.stats.intervals import ENOUGH_EQUAL, t_quantile
from benchwright.stats.sample import moments, skewness

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
) -> NestedEstimate:
    """Return the mean of the population of the outermost level.

    `values`, shape `(n,)`, are of single trials (of comparisons, the log ratios of blocks);
    `paths`, shape `(n, levels)`, have the number of each trial's replicate at each level, outermost
    first, in any order. `names` are those of the levels. Values that are not finite are ignored.
    """
    array = np.asarray(values, dtype=np.float64)
    table = np.asarray(paths, dtype=np.int64)
    assert table.ndim == 2, "a path is a row"
    assert len(table) == len(array), "a path for each value"
    known = np.isfinite(array)
    tree = _Tree(array[known], table[known])
    labels = [*(names or (f"level {place + 1}" for place in range(table.shape[1]))), TRIAL]
    assert len(labels) == table.shape[1] + 1, "a name for each level"
    return _estimate(tree, confidence, labels)


# -- the tree of replicates ----------------------------------------------------------------


class _Tree:
    """The mean squares of every level, and their expectations."""

    def __init__(self, values: FloatArray, table: IntArray) -> None:
        levels = table.shape[1] + 1
        # Differences from one of the values, so that no digits are lost and equal ones have squares of 0.
        shift = float(values[0]) if len(values) else 0.0
        means = values - shift
        # Coefficients of the components in each node's own error, around its true value.
        errors = np.zeros((len(values), levels))
        self.counts = [0] * levels
        self.degrees = [0] * levels
        self.squares = np.full(levels, math.nan)
        self.expected = np.zeros((levels, levels))
        self.top = means
        """Means of the outermost replicates, less one value."""
        for level in reversed(range(levels)):
            self.counts[level], self.top = len(means), means
            parents, first, sizes = _parents(table, level)
            sums = np.bincount(parents, means, len(sizes))
            above = sums / sizes
            squares = np.bincount(parents, (means - above[parents]) ** 2, len(sizes))
            self.degrees[level] = int((sizes - 1).sum())
            if self.degrees[level]:
                self.squares[level] = squares.sum() / self.degrees[level]
                weights = ((sizes - 1) / sizes)[parents]
                self.expected[level] = weights @ errors / self.degrees[level]
            self.expected[level, level] = 1.0
            inner = np.zeros((len(sizes), levels))
            np.add.at(inner, parents, errors)
            errors = inner / (sizes**2)[:, None]
            errors[:, level] = 1 / sizes
            means, table = above, table[first]
        self.mean = shift + float(means[0]) if len(means) else math.nan
        self.error = errors[0] if len(errors) else np.full(levels, math.nan)
        """Coefficients of the components in the squared error of the mean."""


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


def _estimate(tree: _Tree, confidence: float, labels: Sequence[str]) -> NestedEstimate:
    degrees = tree.degrees[0]
    outer = moments(tree.top)
    error = outer.sdev / math.sqrt(outer.n) if degrees else math.nan
    low, high = _interval(tree, error, confidence)
    return NestedEstimate(
        Estimate(tree.mean, low, high, confidence, NESTED_METHOD, tree.counts[-1]),
        error,
        degrees,
        _components(tree, confidence, labels),
        _prediction(tree, {0: 1.0}, confidence),
        _prediction(tree, _single_trial(tree), confidence),
    )


def _interval(tree: _Tree, error: float, confidence: float) -> tuple[float, float]:
    """Return Student's interval over the outermost replicates, further on the side of their longer
    tail."""
    k = tree.counts[0]
    if math.isnan(error) or (not error and k < ENOUGH_EQUAL):
        return math.nan, math.nan
    quantile = t_quantile(confidence, k - 1)
    half = quantile * error
    skew = skewness(tree.top) * k * k / ((k - 1) * (k - 2)) if k > 2 else 0.0
    longer = half * skew * (1 + 2 * quantile**2) / (6 * quantile * math.sqrt(k))
    return tree.mean - half + min(longer, 0.0), tree.mean + half + max(longer, 0.0)


def _known(tree: _Tree) -> list[int]:
    """Return the levels that have a mean square."""
    return [level for level, degrees in enumerate(tree.degrees) if degrees]


def _of_squares(tree: _Tree) -> FloatArray:
    """Return the components as combinations of the mean squares, shape `(levels, levels)`. A level
    without a square counts as a part of the next level outside."""
    levels, known = len(tree.degrees), _known(tree)
    found = np.zeros((levels, levels))
    found[np.ix_(known, known)] = np.linalg.inv(tree.expected[np.ix_(known, known)])
    return found


def _single_trial(tree: _Tree) -> dict[int, float]:
    """Return the variance of a trial of a random replicate, as a combination of the mean squares."""
    total = _of_squares(tree).sum(axis=0)
    return {level: float(total[level]) for level in _known(tree)}


def _prediction(tree: _Tree, variance: dict[int, float], confidence: float) -> Prediction:
    """Return the interval of something with this variance, given as a combination of the mean squares.

    The mean's own error adds to it; the degrees of freedom are Satterthwaite's.
    """
    if not tree.degrees[0]:
        return Prediction(math.nan, math.nan)
    parts = variance | {0: variance[0] + 1 / tree.counts[0]}
    squares = {level: factor * float(tree.squares[level]) for level, factor in parts.items()}
    total = sum(squares.values())
    if total <= 0:
        return Prediction(math.nan, math.nan)
    degrees = total**2 / sum(part**2 / tree.degrees[level] for level, part in squares.items())
    half = special.t_quantile(degrees, 0.5 + confidence / 2) * math.sqrt(total)
    return Prediction(tree.mean - half, tree.mean + half)


def _components(tree: _Tree, confidence: float, labels: Sequence[str]) -> tuple[Component, ...]:
    combined = _of_squares(tree)
    squares = np.nan_to_num(tree.squares)
    variances = np.maximum(combined @ squares, 0.0)
    total, error = variances.sum(), variances @ np.nan_to_num(tree.error)
    quantile = t_quantile(confidence, tree.degrees[0]) if tree.degrees[0] else math.nan
    found = []
    for level, name in enumerate(labels):
        is_known = tree.degrees[level] > 0
        low, high = _mover(tree, combined[level], confidence) if is_known else (0.0, math.nan)
        outer = variances[: level + 1] @ tree.error[: level + 1]
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
                float(variances[level] * tree.error[level] / error) if error else 0.0,
                0.0 if is_trial else float(quantile * math.sqrt(outer)),
            )
        )
    return tuple(found)


def _mover(tree: _Tree, factors: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the interval, at least 0, of a combination of the expected mean squares."""
    value = below = above = 0.0
    tail = (1 - confidence) / 2
    for level in _known(tree):
        factor, square = float(factors[level]), float(tree.squares[level])
        degrees = tree.degrees[level]
        most = square * degrees / special.chi_square_quantile(degrees, tail)
        least = square * degrees / special.chi_square_quantile(degrees, 1 - tail)
        ends = (square - least, most - square)
        value += factor * square
        below += (factor * ends[factor < 0]) ** 2
        above += (factor * ends[factor > 0]) ** 2
    return max(value - math.sqrt(below), 0.0), max(value + math.sqrt(above), 0.0)
