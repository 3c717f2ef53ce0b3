"""The normal probability plot of a sample: normal scores, the line, and a simultaneous band.

Decision: the band is a rank envelope: simulated normal samples are standardized by their own mean
and deviation, as the data are, and the band holds the whole of `confidence` of them. Rejected:
pointwise bands, which one point of most normal samples leaves; Kolmogorov and Smirnov's, which are
wide in the tails, where deviations are of interest. Sources: G. Blom 1958, Statistical Estimates
and Transformed Beta-Variables, for the scores; S. Aldor-Noiman and others 2013, The Power to See: A
New Graphical Test of Normality, for the band.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from benchwright.core.numeric import np
from benchwright.stats import special
from benchwright.stats.arrays import SampleValues
from benchwright.stats.sample import anderson_darling, moments

FEWEST_OF_PROBABILITY_PLOT = 3
"""Minimum of values: two are always on the line."""
MOST_WITH_BAND = 500
"""Maximum of values for which a band is simulated."""
_MOST_SAMPLES = 20_000
_MOST_SIMULATED = 2_000_000
"""Maximum of simulated values, for a band in about half a second."""
_SEED = 20080101

Floats = tuple[float, ...]


class ProbabilityPlot(msgspec.Struct, frozen=True):
    """A sample beside the normal distribution of its mean and standard deviation."""

    scores: Floats
    """Normal score of each value, in the values' order, shape `(n,)`."""
    expected: Floats
    """The value of a normal distribution at each score: the line."""
    low: Floats = ()
    """Ends of the band at each score; empty without a band."""
    high: Floats = ()
    p: float | None = None
    """P value of Anderson and Darling's test; None for fewer than 8 values."""


def probability_plot(values: SampleValues, confidence: float = 0.95) -> ProbabilityPlot | None:
    """Return the normal probability plot of finite values; None for fewer than
    `FEWEST_OF_PROBABILITY_PLOT`, and for equal ones."""
    data = np.asarray(values, dtype=float)
    found = moments(values)
    if len(data) < FEWEST_OF_PROBABILITY_PLOT or not found.sdev:
        return None
    ranks = np.empty(len(data), dtype=int)
    ranks[np.argsort(data, kind="stable")] = np.arange(len(data))
    scores = np.array(normal_scores(len(data)))

    def scaled(standard: Floats) -> Floats:
        return tuple((found.mean + found.sdev * np.array(standard)[ranks]).tolist())

    low, high = normal_band(len(data), confidence)
    p = anderson_darling(values).p
    return ProbabilityPlot(
        scores=tuple(scores[ranks].tolist()),
        expected=scaled(tuple(scores)),
        low=scaled(low) if low else (),
        high=scaled(high) if high else (),
        p=None if np.isnan(p) else p,
    )


@lru_cache(maxsize=64)
def normal_scores(n: int) -> Floats:
    """Return the expected order statistics of n standard normal values (Blom's approximation)."""
    return tuple(special.normal_quantile((i - 0.375) / (n + 0.25)) for i in range(1, n + 1))


@lru_cache(maxsize=64)
def normal_band(n: int, confidence: float) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the band for n sorted standardized values; empty for
    more than `MOST_WITH_BAND`.

    All values of a normal sample together are within it with probability `confidence`.
    """
    if n > MOST_WITH_BAND:
        return (), ()
    count = min(_MOST_SAMPLES, _MOST_SIMULATED // n)
    samples = np.random.default_rng(_SEED).standard_normal((count, n))
    samples = np.sort(samples, axis=1)
    mean, sd = samples.mean(axis=1), samples.std(axis=1, ddof=1)
    samples = (samples - mean[:, None]) / sd[:, None]
    ranks = np.argsort(np.argsort(samples, axis=0), axis=0)
    depth = np.minimum(ranks, count - 1 - ranks).min(axis=1)
    # The largest depth of which at least `confidence` of all samples are nowhere outside.
    outermost = int(np.sort(depth)[int((1 - confidence) * count)])
    ordered = np.sort(samples, axis=0)
    return (tuple(ordered[outermost].tolist()), tuple(ordered[count - 1 - outermost].tolist()))
