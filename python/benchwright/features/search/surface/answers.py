"""Answers from a surface, as probabilities: its best sample, the samples that reach a rate, and where
two lines of samples cross. Pure.

Decision: all of them are shares of joint draws of the true peaks given the searches, by the process
of `gaussian_process.py` whatever model the map has. The process is the allowance for many samples:
it learns from all of them how far peaks lie apart, and the highest of many equal samples is
drawn towards the others. Rejected: the intervals of the searches alone, as if every sample were by
itself: of four samples whose peaks differ by 1 % the best was among those named in 87 % of the maps
(95 % with the process), and in 86 % on a surface of 32 with a plateau (91 %).

Decision: a sample whose search ended without its claim has a peak anywhere within its bound, however
close its guess is, so that a probability has two ends: what holds wherever those peaks are.
Decision: crossings are those of the process without each sample's own deviation, which would cross
at every point near a crossing. Each draw counts by its signs at both ends of a line, so that a
draw that crosses and comes back does not cross.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.features.search.surface.coding import Matrix, candidates
from benchwright.features.search.surface.gangs import responses_of
from benchwright.features.search.surface.gaussian_process import GaussianProcess, fit_process
from benchwright.features.search.surface.model import SampleResponses, with_peak, with_value
from benchwright.features.search.surface.types import (
    Factor,
    LevelPair,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceQuestions,
)

DRAWS = 4000
"""Joint draws: the error of a probability is at most 0.8 %."""
LINE_STEPS = 33
"""Levels of a line at which its draws are taken; a crossing lies between two of them."""
MOST_CANDIDATES = 96
"""Most samples without a search that are drawn, those with the highest ends of their bands."""


class Basis(enum.StrEnum):
    """What is known about the peak of a sample."""

    MEASURED = "measured"
    """Its search ended with its claim."""
    OPEN = "open"
    """Its search ended without its claim, or with a bound."""
    PREDICTED = "predicted"
    """It was not searched; the process predicts it."""
    UNKNOWN = "unknown"
    """It was not searched, and too few others were for a prediction."""


class Chance(msgspec.Struct, frozen=True):
    """A probability about one sample; its ends differ where searches are open."""

    sample: Sample
    basis: Basis
    at_least: float
    at_most: float
    rough: float
    """The probability if the open searches are as right as their intervals say: not established."""

    @property
    def exact(self) -> bool:
        """Whether no open search matters."""
        return self.at_least == self.at_most


class BestSamples(msgspec.Struct, frozen=True):
    """Which samples may have the highest peak of all."""

    chances: tuple[Chance, ...]
    """Those that cannot be ruled out together at the confidence, the most probable first."""
    ruled_out: int
    """Number of the others."""
    confidence: float
    """That the best sample is one of `chances`, at least."""

    @property
    def established(self) -> Sample | None:
        """The best sample, if only one may be the best."""
        return self.chances[0].sample if len(self.chances) == 1 else None


class Crossing(msgspec.Struct, frozen=True):
    """Whether and where two lines of samples cross, from the lowest to the highest level of a
    factor."""

    along: str
    """The factor."""
    fixed: Pairs
    """Levels of the other factors that both lines have."""
    crosses: float
    """Probability that another line is the higher one at the end than at the beginning."""
    first_higher: float
    """Probability that the first line is the higher one at both ends."""
    second_higher: float
    rises: bool
    """Whether the first line is more probably the higher one at the end, where they cross."""
    level: Estimate | None
    """Where they cross, if they do, as a number of the factor: its unit is that of the levels.
    None: no draw crosses."""


class ReachedRate(msgspec.Struct, frozen=True):
    """Which samples have a peak of a rate or more."""

    rate: float
    """[1/s]."""
    chances: tuple[Chance, ...]
    """Of the samples, in the factors' order: that its peak is `rate` or more. Of a space of more
    than `MOST_CANDIDATES`, those that were searched, and of the others the highest."""
    left_out: int = 0
    """Number of the others that `chances` does not have."""
    crossings: tuple[Crossing, ...] = ()
    """Where the surface reaches the rate along the numeric factor with most levels; one for each
    combination of the other levels."""


class Crossed(msgspec.Struct, frozen=True):
    """Where the peaks at two levels of a factor are the same."""

    levels: LevelPair
    crossings: tuple[Crossing, ...]


class SurfaceAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a surface: its best sample, and what was asked."""

    best: BestSamples | None
    """None before any search."""
    reached: tuple[ReachedRate, ...] = ()
    crossed: tuple[Crossed, ...] = ()


def surface_answers(
    goal: SurfaceGoal, results: Sequence[SampleResult], questions: SurfaceQuestions
) -> SurfaceAnswers:
    """Return the answers of a surface."""
    reached = [reached_rate(goal, results, rate) for rate in questions.rates]
    return SurfaceAnswers(
        best=best_samples(goal, results),
        reached=tuple(one for one in reached if one is not None),
        crossed=tuple(crossed_levels(goal, results, pair) for pair in questions.crossed),
    )


class TruePeaks(msgspec.Struct, frozen=True):
    """Joint draws of the true peaks of samples, with what is known of those without a draw."""

    samples: tuple[Sample, ...]
    bases: tuple[Basis, ...]
    low: Matrix
    """Lowest possible peaks [1/s], `(n_draws, n_samples)`; -inf: anything."""
    high: Matrix
    rough: Matrix
    """The same if open searches are as right as their intervals say; a peak that nothing is known of
    is 0."""


def true_peaks(goal: SurfaceGoal, results: Sequence[SampleResult], *, every: bool) -> TruePeaks:
    """Return draws of the true peaks. `every`: of all samples; else of those that were searched or
    that may be the highest."""
    responses = responses_of(goal, with_value(results))
    process = fit_process(goal.factors, responses) if len(responses.samples) else None
    searched = {result.sample: result for result in results}
    measured = {result.sample for result in with_peak(results)}
    others = [sample for sample in candidates(goal.factors) if sample not in searched]
    if process is not None and not every:
        others = _highest(process, others)
    samples = (*searched, *others)
    drawn = measured if process is None else {*measured, *others}
    low, high = (np.full((DRAWS, len(samples)), end) for end in (-math.inf, math.inf))
    if process is None:
        rough = np.zeros((DRAWS, len(samples)))
        valued = [samples.index(sample) for sample in responses.samples]
        rough[:, valued] = _alone(responses, goal.seed)
    else:
        rough = responses.rate(process.draw(samples, DRAWS, goal.seed))
    places = [place for place, sample in enumerate(samples) if sample in drawn]
    low[:, places] = high[:, places] = rough[:, places]
    bases = [
        Basis.PREDICTED
        if sample in drawn and sample not in searched
        else Basis.MEASURED
        if sample in measured
        else Basis.OPEN
        if sample in searched
        else Basis.UNKNOWN
        for sample in samples
    ]
    for place, sample in enumerate(samples):
        found = searched[sample].found if bases[place] is Basis.OPEN else None
        if found is not None and found.peak_rate is not None and found.bound_kind is not None:
            (low if found.bound_kind == "lower" else high)[:, place] = found.peak_rate
            within = np.maximum if found.bound_kind == "lower" else np.minimum
            rough[:, place] = within(rough[:, place], found.peak_rate)
    return TruePeaks(samples, tuple(bases), low, high, rough)


def _highest(process: GaussianProcess, samples: list[Sample]) -> list[Sample]:
    if len(samples) <= MOST_CANDIDATES:
        return samples
    mean, sd = process.response(samples)
    order = np.argsort(-(mean + 2 * sd))[:MOST_CANDIDATES]
    return [samples[at] for at in sorted(order.tolist())]


def _alone(responses: SampleResponses, seed: int) -> Matrix:
    """Return draws of samples that are too few for a process, each by its interval."""
    normals = np.random.default_rng(seed).standard_normal((DRAWS, len(responses.samples)))
    return responses.rate(responses.response + responses.noise_sd * normals)


# -- the best sample -------------------------------------------------------------------


def best_samples(goal: SurfaceGoal, results: Sequence[SampleResult]) -> BestSamples | None:
    """Return which samples may have the highest peak of all; None before any search."""
    if not results:
        return None
    peaks = true_peaks(goal, results, every=False)
    chances = [
        Chance(*chance)
        for chance in zip(
            peaks.samples,
            peaks.bases,
            _chance_of_best(peaks.low, peaks.high),
            _chance_of_best(peaks.high, peaks.low),
            _chance_of_best(peaks.rough, peaks.rough),
            strict=True,
        )
    ]
    # The least probable ones are ruled out, as long as all of them together are improbable.
    chances.sort(key=lambda chance: (chance.at_most, chance.rough))
    together = np.cumsum([chance.at_most for chance in chances])
    out = int(np.searchsorted(together, 1 - goal.confidence, side="right"))
    return BestSamples(
        chances=tuple(reversed(chances[out:])),
        ruled_out=goal.count - (len(chances) - out),
        confidence=goal.confidence,
    )


def _chance_of_best(own: Matrix, others: Matrix) -> list[float]:
    """Return the share of draws in which `own` of a sample is at least `others` of all others."""
    if own.shape[1] == 1:
        return [1.0]
    top = np.sort(others, axis=1)[:, -2:]
    is_top = others == top[:, 1:]
    rivals = np.where(is_top & (is_top.sum(axis=1, keepdims=True) == 1), top[:, :1], top[:, 1:])
    wins = own >= rivals if np.array_equal(own, others) else own > rivals
    return [float(share) for share in wins.mean(axis=0)]


# -- a rate that samples reach ---------------------------------------------------------


def reached_rate(
    goal: SurfaceGoal, results: Sequence[SampleResult], rate: float
) -> ReachedRate | None:
    """Return which samples have a peak of `rate` [1/s] or more; None before any search."""
    if not results:
        return None
    peaks = true_peaks(goal, results, every=goal.count <= MOST_CANDIDATES)
    shares = [
        (bound >= rate).mean(axis=0).tolist() for bound in (peaks.low, peaks.high, peaks.rough)
    ]
    of_sample = {
        chance[0]: Chance(*chance)
        for chance in zip(peaks.samples, peaks.bases, *shares, strict=True)
    }
    chances = tuple(of_sample[sample] for sample in candidates(goal.factors) if sample in of_sample)
    left_out = goal.count - len(chances)
    return ReachedRate(rate, chances, left_out, _contour(goal, results, rate))


def _contour(
    goal: SurfaceGoal, results: Sequence[SampleResult], rate: float
) -> tuple[Crossing, ...]:
    process = process_of(goal, results)
    axis = line_factor(goal.factors)
    if process is None or axis is None:
        return ()
    found = []
    for fixed in _combinations(goal.factors, (axis.name,)):
        line = _line(goal.factors, axis, dict(fixed))
        draws = process.draw(line, DRAWS, goal.seed, smooth=True)
        level = math.log(rate) if process.observed.log else rate
        found.append(crossing_of(draws - level, axis, fixed, goal.confidence))
    return tuple(found)


# -- where lines of samples cross ------------------------------------------------------


def crossed_levels(
    goal: SurfaceGoal, results: Sequence[SampleResult], levels: LevelPair
) -> Crossed:
    """Return where the peaks at two levels of a factor cross, along the numeric factor with most
    levels of the others; no crossing where none is numeric, or too few samples have a peak."""
    process = process_of(goal, results)
    axis = line_factor([one for one in goal.factors if one.name != levels.factor])
    if process is None or axis is None:
        return Crossed(levels, ())
    found = []
    for fixed in _combinations(goal.factors, (axis.name, levels.factor)):
        lines = [
            _line(goal.factors, axis, {**dict(fixed), levels.factor: level})
            for level in (levels.first, levels.second)
        ]
        draws = process.draw([*lines[0], *lines[1]], DRAWS, goal.seed, smooth=True)
        apart = draws[:, :LINE_STEPS] - draws[:, LINE_STEPS:]
        found.append(crossing_of(apart, axis, fixed, goal.confidence))
    return Crossed(levels, tuple(found))


def crossed_surfaces(
    first: tuple[SurfaceGoal, Sequence[SampleResult]],
    second: tuple[SurfaceGoal, Sequence[SampleResult]],
) -> tuple[Crossing, ...]:
    """Return where two surfaces over the same factors cross, along the numeric factor with most
    levels that both have: each by its own process. None where one has too few samples with a peak,
    or where they have no levels in common: a line beyond the levels of one would be a guess."""
    goal = first[0]
    factors = _common(goal.factors, second[0].factors)
    processes = [process_of(*surface) for surface in (first, second)]
    axis = line_factor(factors)
    found: list[Crossing] = []
    if axis is None or None in processes:
        return ()
    for fixed in _combinations(factors, (axis.name,)):
        line = _line(factors, axis, dict(fixed))
        rates = [
            np.log(
                np.maximum(
                    process.observed.rate(process.draw(line, DRAWS, seed, smooth=True)), 1e-300
                )
            )
            for seed, process in enumerate(processes)
            if process is not None
        ]
        found.append(crossing_of(rates[0] - rates[1], axis, fixed, goal.confidence))
    return tuple(found)


def _common(first: Sequence[Factor], second: Sequence[Factor]) -> tuple[Factor, ...]:
    """Return the factors with the levels that both have; () if one has none."""
    common = []
    for one, other in zip(first, second, strict=True):
        key = one.number if one.numeric else str
        there = set(map(key, other.levels))
        levels = tuple(level for level in one.levels if key(level) in there)
        if not levels:
            return ()
        common.append(msgspec.structs.replace(one, levels=levels))
    return tuple(common)


def crossing_of(apart: Matrix, axis: Factor, fixed: Pairs, confidence: float) -> Crossing:
    """Return where draws of a difference change their sign, `(n_draws, n_steps)` from the lowest to
    the highest level of `axis`."""
    positive = apart > 0
    begin, end = positive[:, 0], positive[:, -1]
    crosses = begin != end
    level = None
    if crosses.any():
        places = [_place_of_change(draw) for draw in apart[crosses]]
        ends = np.quantile(places, [(1 - confidence) / 2, 0.5, (1 + confidence) / 2])
        low, middle, high = (axis.number_between(place) for place in ends.tolist())
        level = Estimate(middle, low, high, confidence, "gaussian-process", int(crosses.sum()))
    return Crossing(
        along=axis.name,
        fixed=fixed,
        crosses=float(crosses.mean()),
        first_higher=float((begin & end).mean()),
        second_higher=float((~begin & ~end).mean()),
        rises=bool((crosses & end).sum() * 2 >= crosses.sum()),
        level=level,
    )


def _place_of_change(draw: Matrix) -> float:
    """Return the place from -1 to 1 at which a draw changes its sign: of several the middle one."""
    (changes,) = np.nonzero(np.diff(draw > 0))
    at = int(changes[len(changes) // 2])
    before, after = draw[at], draw[at + 1]
    return float(-1 + 2 * (at + before / (before - after)) / (len(draw) - 1))


def process_of(goal: SurfaceGoal, results: Sequence[SampleResult]) -> GaussianProcess | None:
    """Return the process given the results; None where too few have a value."""
    used = with_value(results)
    return fit_process(goal.factors, responses_of(goal, used)) if used else None


def line_factor(factors: Sequence[Factor]) -> Factor | None:
    """Return the numeric factor with most levels, the first of equals; None without any."""
    numeric = [factor for factor in factors if factor.numeric and len(factor.levels) > 1]
    return max(numeric, key=lambda factor: len(factor.levels), default=None)


def _combinations(factors: Sequence[Factor], without: Sequence[str]) -> list[Pairs]:
    """Return the combinations of the levels of the other factors."""
    others = [factor for factor in factors if factor.name not in without]
    names = [factor.name for factor in others]
    return [
        tuple(zip(names, levels, strict=True))
        for levels in itertools.product(*(factor.levels for factor in others))
    ]


def _line(factors: Sequence[Factor], axis: Factor, levels: dict[str, str]) -> list[Sample]:
    """Return `LINE_STEPS` samples from the lowest to the highest level of `axis`."""
    places = np.linspace(-1, 1, LINE_STEPS).tolist()
    return [
        tuple(
            (factor.name, axis.level_between(place) if factor is axis else levels[factor.name])
            for factor in factors
        )
        for place in places
    ]
