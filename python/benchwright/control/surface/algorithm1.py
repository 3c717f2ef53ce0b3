"""Algorithm 1: mapping response surfaces, as a function of the results so far.

1) Inputs: factors and their levels. 2) Outer loop: for each distinct sample ... 3) inner loop:
find its peak rate (control/peak). Which samples, the design says; in which order, this
module: each as near as can be to one that was searched already, because the inner search
begins at the nearest one's peak ("better seeding", section 5.4) and is told the shape of its
curve. Decision: a neighbour has the same categorical levels, since another file system may
be ten times as fast; where none has, the inner search begins at its own first rate.
Source: Workbench paper, algorithm 1, sections 5.4 and 5.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from benchwright.control.surface.coding import (
    Column,
    Matrix,
    Term,
    candidates,
    coded,
    columns_of,
    model_matrix,
    spread,
    terms_for,
)
from benchwright.control.surface.design import Criterion, Exchange, optimal_rows
from benchwright.control.surface.gp import even_points, fit_process
from benchwright.control.surface.observed import measured, observed
from benchwright.model.surface import (
    DesignKind,
    Factor,
    Sample,
    SampleResult,
    SampleWanted,
    SurfaceGoal,
)

INITIAL_SHARE = 0.6
"""Of an adaptive design's samples: chosen before anything was measured."""
SPREAD_SHARE = 0.5
"""Of an optimal design's samples beyond the polynomial's terms: those that tell whether the
polynomial fits at all. An optimal design has no level but those that its terms need."""
_MOST_DRAWN = 64
"""Even points looked at for each sample: some fall on one that is there already."""
_SIGNIFICANT = 5
"""Digits of a rate that can be written down."""


def next_sample(
    goal: SurfaceGoal, results: Sequence[SampleResult]
) -> SampleWanted | None:
    """Return the next sample to search; None when the design is complete."""
    if len(results) >= goal.samples:
        return None
    tried = [one.sample for one in results]
    waiting = [one for one in initial_samples(goal) if one not in tried]
    if waiting:
        return wanted(
            goal, results, _nearest_to(goal.factors, tried, waiting), "design"
        )
    left = [one for one in candidates(goal.factors) if one not in tried]
    process = fit_process(goal.factors, observed(results, log=goal.log_response))
    if process is None:
        farthest = _farthest_from(goal.factors, tried, left)
        return wanted(goal, results, farthest, "spread")
    _, sd = process.known(left)
    # What differs by rounding only is a tie, which the first wins.
    best = left[int(np.argmax(np.round(sd / sd.max(), 9)))]
    return wanted(goal, results, best, "least known")


def wanted(
    goal: SurfaceGoal, results: Sequence[SampleResult], sample: Sample, why: str
) -> SampleWanted:
    """Return a sample with the goal of its inner search: the nearest measured sample's
    peak as seed, and the shape of its curve."""
    near = nearest(goal.factors, measured(results), sample)
    if near is None:
        return SampleWanted(sample, goal.peak, why=why)
    assert near.peak_rate is not None
    inner = msgspec.structs.replace(
        goal.peak, start_rate=_seed_rate(goal, near.peak_rate), shape=near.found.shape
    )
    return SampleWanted(sample, inner, near.sample, why)


def _seed_rate(goal: SurfaceGoal, peak_rate: float) -> float:
    """Return a neighbour's peak as a first rate, within the goal's bounds [1/s]."""
    low, high = goal.peak.lowest_rate, goal.peak.highest_rate
    within = min(max(peak_rate, low or 0.0), high or math.inf)
    return float(f"{within:.{_SIGNIFICANT}g}")


def nearest(
    factors: Sequence[Factor], results: Sequence[SampleResult], sample: Sample
) -> SampleResult | None:
    """Return the nearest result with the same categorical levels; None where none has.

    Near in the transformed numeric factors; of several as near the first.
    """
    same = [one for one in results if _alike(factors, one.sample, sample)]
    if not same:
        return None
    away = _distances(factors, [one.sample for one in same], [sample])[:, 0]
    return same[int(np.argmin(np.round(away, 9)))]


def initial_samples(goal: SurfaceGoal) -> tuple[Sample, ...]:
    """Return the samples that the design has before anything is measured."""
    if goal.design is DesignKind.FULL:
        return candidates(goal.factors)[: goal.samples]
    adaptive = goal.design is DesignKind.ADAPTIVE
    n = math.ceil(INITIAL_SHARE * goal.samples) if adaptive else goal.samples
    best = Criterion.I if goal.design is DesignKind.I_OPTIMAL else Criterion.D
    spare = 0.0 if adaptive else SPREAD_SHARE
    return _designed(goal.factors, goal.degree, (best, n, spare), goal.seed)


@lru_cache(maxsize=32)
def _designed(
    factors: tuple[Factor, ...],
    degree: int,
    asked: tuple[Criterion, int, float],
    seed: int,
) -> tuple[Sample, ...]:
    """Return the optimal samples for the largest polynomial that so many determine.

    Of those beyond its terms a share is chosen instead as far as can be from all others.
    """
    criterion, n, spare = asked
    every = candidates(factors)
    columns = columns_of(factors)
    terms = terms_for(columns, degree, n)
    if not spare and not _bends(columns, terms):
        return _even_samples(factors, n, seed)
    matrix = model_matrix(coded(factors, every), terms)
    apart = math.ceil(spare * (n - len(terms)))
    rows = optimal_rows(Exchange(matrix, criterion), n - apart, seed)
    return tuple(every[row] for row in _with_farthest(spread(factors, every), rows, n))


def _bends(columns: Sequence[Column], terms: Sequence[Term]) -> bool:
    """Tell whether a polynomial has a square of each factor that can have one."""
    return all((at, at) in terms for at, one in enumerate(columns) if one.curved)


def _even_samples(factors: Sequence[Factor], n: int, seed: int) -> tuple[Sample, ...]:
    """Return samples that have every factor's levels about equally often.

    An optimal design for a plane has the outermost levels only, between which the process
    then sees a straight line whatever is there.
    """
    shift = np.random.default_rng(seed).random(len(factors))
    chosen: dict[Sample, None] = {}
    for point in (even_points(len(factors), _MOST_DRAWN * n) + shift) % 1:
        levels = (
            f.levels[int(u * len(f.levels))]
            for f, u in zip(factors, point, strict=True)
        )
        chosen[
            tuple((f.name, level) for f, level in zip(factors, levels, strict=True))
        ] = None
        if len(chosen) == n:
            break
    return tuple(chosen)


def _with_farthest(points: Matrix, rows: Sequence[int], n: int) -> tuple[int, ...]:
    """Return rows, and further ones up to n, each as far as can be from all before."""
    chosen = list(rows)
    away = np.full(len(points), np.inf)
    for at in range(n):
        if at == len(chosen):
            chosen.append(int(np.argmax(np.round(away, 9))))
        squares = ((points - points[chosen[at]]) ** 2).sum(axis=1)
        away = np.minimum(away, squares)
    return tuple(chosen)


def _nearest_to(
    factors: Sequence[Factor], tried: Sequence[Sample], waiting: Sequence[Sample]
) -> Sample:
    """Return the waiting sample that is nearest to any tried one; the first at first."""
    if not tried:
        return waiting[0]
    away = _distances(factors, waiting, tried).min(axis=1)
    return waiting[int(np.argmin(np.round(away, 9)))]


def _farthest_from(
    factors: Sequence[Factor], tried: Sequence[Sample], left: Sequence[Sample]
) -> Sample:
    away = _distances(factors, left, tried).min(axis=1)
    return left[int(np.argmax(np.round(away, 9)))]


def _distances(
    factors: Sequence[Factor], some: Sequence[Sample], others: Sequence[Sample]
) -> Matrix:
    """Return the distances of each to each, shape `(n_some, n_others)`."""
    a, b = spread(factors, some), spread(factors, others)
    squares: Matrix = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.sqrt(squares))


def _alike(factors: Sequence[Factor], one: Sample, other: Sample) -> bool:
    """Tell whether two samples have the same categorical levels."""
    return all(
        factor.numeric or one[at][1] == other[at][1]
        for at, factor in enumerate(factors)
    )
