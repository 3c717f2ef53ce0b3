"""How often the answers from a surface are right: which sample is the best, which samples reach a rate,
and where lines of samples cross.

Each draw has its own true peaks, known exactly, and searches that find them with relative noise. What
is stated as a probability is compared with how often it is so. The full form (BW_CALIBRATION=full)
prints the tables of docs/surface.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from benchwright.core.criterion import Criterion
from benchwright.features.search.surface.answers import (
    Crossing,
    best_samples,
    crossed_levels,
    crossed_surfaces,
    reached_rate,
)
from benchwright.features.search.surface.coding import candidates
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    LevelPair,
    Sample,
    SampleResult,
    SurfaceGoal,
    make_factor,
)
from benchwright.features.search.types import PeakGoal
from surface_maps import next_sample
from surfaces import factors, randomised, searched, searched_all, true_peaks

FULL = os.environ.get("BW_CALIBRATION") == "full"
TIMES = 300 if FULL else 30
PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),))
NOISE = 0.03
Peaks = dict[Sample, float]


class Played(msgspec.Struct, frozen=True):
    """A map of known peaks."""

    goal: SurfaceGoal
    results: tuple[SampleResult, ...]
    peaks: Peaks


def noisy(peaks: Peaks, rng: np.random.Generator, noise: float = NOISE) -> Peaks:
    return {sample: peak * float(np.exp(rng.normal(0, noise))) for sample, peak in peaks.items()}


def full_map(made: Sequence[Factor], peaks: Peaks, rng: np.random.Generator) -> Played:
    """Return a map with a search at every sample."""
    goal = SurfaceGoal(factors=tuple(made), peak=PEAK, samples=len(peaks), design=DesignKind.FULL)
    return Played(goal, searched_all(list(peaks), noisy(peaks, rng), NOISE), peaks)


def bottleneck(name: str, samples: int) -> Callable[[int], Played]:
    """Return what maps a surface shaped by bottlenecks: 4 x 8 samples."""

    def play(seed: int) -> Played:
        peaks = true_peaks(randomised(name, seed))
        rng = np.random.default_rng((seed, 40))
        if samples == len(peaks):
            return full_map(factors(), peaks, rng)
        rates = noisy(peaks, rng)
        goal = SurfaceGoal(factors=factors(), peak=PEAK, samples=samples, seed=seed)
        results: tuple[SampleResult, ...] = ()
        while (wanted := next_sample(goal, results)) is not None:
            results = (*results, searched(wanted.sample, rates[wanted.sample], NOISE))
        return Played(goal, results, peaks)

    return play


def words(count: int, spread: float = 0.0, better: float = 0.0) -> Callable[[int], Played]:
    """Return what maps one factor of `count` words: their peaks differ by `spread`, and one is
    `better` than all others (logarithms)."""

    def play(seed: int) -> Played:
        rng = np.random.default_rng((seed, count, 41))
        (factor,) = made = (make_factor("kind", tuple(f"k{at}" for at in range(count))),)
        peaks = {sample: 1000 * float(np.exp(rng.normal(0, spread))) for sample in candidates(made)}
        if better:
            peaks[("kind", factor.levels[seed % count]),] *= float(np.exp(better))
        return full_map(made, peaks, rng)

    return play


POPULATIONS: dict[str, Callable[[int], Played]] = {
    "db, all 32": bottleneck("db", 32),
    "web, all 32": bottleneck("web", 32),
    "mail, all 32": bottleneck("mail", 32),
    "db, 10 of 32": bottleneck("db", 10),
    "web, 10 of 32": bottleneck("web", 10),
    "mail, 10 of 32": bottleneck("mail", 10),
    "2 words, 3 %": words(2, 0.03),
    "4 words, 1 %": words(4, 0.01),
    "8 words, 3 %": words(8, 0.03),
    "8 words, 10 %": words(8, 0.10),
    "8 words, equal": words(8),
    "32 words, equal": words(32),
    "8 words, one 3 % better": words(8, 0, 0.03),
    "8 words, one 6 % better": words(8, 0, 0.06),
    "8 words, one 12 % better": words(8, 0, 0.12),
}


class Stated(msgspec.Struct, frozen=True):
    """A probability that was stated, and how much of it is so: 1, 0, or a share of equals."""

    probability: float
    true: float


def stated_best(played: Played) -> tuple[list[Stated], bool, bool]:
    """Return the probabilities, whether the set has a best sample, and whether one sample alone is
    said to be the best although it is not."""
    answer = best_samples(played.goal, played.results)
    assert answer is not None
    most = max(played.peaks.values())
    best = [sample for sample, peak in played.peaks.items() if peak == most]
    listed = [chance.sample for chance in answer.chances]
    stated = [
        Stated(chance.at_most, (chance.sample in best) / len(best)) for chance in answer.chances
    ]
    wrong = answer.established is not None and (len(best) > 1 or answer.established != best[0])
    return stated, bool(set(best) & set(listed)), wrong


EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0001)


def reliability(stated: Sequence[Stated]) -> Iterator[tuple[float, float, int]]:
    """Yield mean probability, frequency and number of the statements between two edges."""
    for low, high in itertools.pairwise(EDGES):
        some = [one for one in stated if low <= one.probability < high]
        if some:
            yield (
                float(np.mean([one.probability for one in some])),
                float(np.mean([one.true for one in some])),
                len(some),
            )


def row(title: str, stated: Sequence[Stated], *more: str) -> str:
    cells = [f"{100 * p:.0f}: {100 * f:.0f} ({n})" for p, f, n in reliability(stated)]
    return f"| {title} | {', '.join(cells)} | {' | '.join(more)} |"


def test_the_best_sample() -> None:
    """The set has the best sample in 95 of 100 maps over all populations, in 90 of each."""
    held, wrong = [], []
    for population, play in POPULATIONS.items():
        plays = [stated_best(play(seed)) for seed in range(TIMES)]
        stated = [one for some, _, _ in plays for one in some]
        held.append(np.mean([held for _, held, _ in plays]))
        wrong.append(np.mean([wrong for _, _, wrong in plays]))
        size = np.median([len(some) for some, _, _ in plays])
        texts = (f"{100 * held[-1]:.1f}", f"{size:.0f}", f"{100 * wrong[-1]:.1f}")
        print(row(population, stated, *texts))
    assert np.mean(held) >= 0.95
    assert np.mean(wrong) <= 0.02
    assert min(held) >= (0.9 if FULL else 0.8)
    assert max(wrong) <= (0.03 if FULL else 0.1)


# -- a rate that samples reach ---------------------------------------------------------


def stated_reached(played: Played, share: float) -> list[Stated]:
    """Return the probabilities that samples reach a rate, a share of the highest peak."""
    rate = share * max(played.peaks.values())
    answer = reached_rate(played.goal, played.results, rate)
    assert answer is not None
    return [
        Stated(chance.at_most, float(played.peaks[chance.sample] >= rate))
        for chance in answer.chances
    ]


REACHING = {
    name: play
    for name, play in POPULATIONS.items()
    if name in {"db, 10 of 32", "mail, 10 of 32", "mail, all 32", "8 words, 3 %"}
}


def test_samples_that_reach_a_rate() -> None:
    """What is said with 95 % is so, of the samples on either side of a rate."""
    for population, play in REACHING.items():
        stated = [
            one
            for seed in range(TIMES // 3)
            for share in (0.5, 0.9, 0.97)
            for one in stated_reached(play(seed), share)
        ]
        print(row(population, stated))
        sure = [one.true for one in stated if one.probability >= 0.95]
        sure_not = [one.true for one in stated if one.probability <= 0.05]
        assert np.mean(sure) >= 0.95
        assert np.mean(sure_not) <= 0.05


# -- where lines of samples cross ------------------------------------------------------

CONNECTIONS = make_factor("connections", ("1", "2", "4", "8", "16", "32", "64", "128"))
SERVERS = make_factor("server", ("a", "b"))


class Line(msgspec.Struct, frozen=True):
    """A peak that grows with connections up to a ceiling."""

    slope: float
    ceiling: float
    sharpness: float

    def peak(self, connections: float) -> float:
        by_slope, by = self.slope * connections, self.sharpness
        return float((by_slope**-by + self.ceiling**-by) ** (-1 / by))


def lines(seed: int, *, cross: bool) -> tuple[Line, Line]:
    """Return two lines: one has the higher slope, and the other the higher ceiling if they cross."""
    rng = np.random.default_rng((seed, 42))
    slope, ceiling = 60 * np.exp(rng.uniform(-0.5, 0.5)), 1500 * np.exp(rng.uniform(-0.5, 0.5))
    steeper, lower = np.exp(rng.uniform(0.15, 0.7)), np.exp(-rng.uniform(0.15, 0.7))
    sharpness = float(rng.uniform(1.5, 4))
    second = Line(slope, ceiling, sharpness)
    if not cross:
        return Line(slope * steeper, ceiling * steeper, sharpness), second
    return Line(slope * steeper, ceiling * lower, sharpness), second


def true_crossing(first: Line, second: Line) -> float:
    """Return the connections at which two lines have the same peak."""
    low, high = 1.0, 128.0
    for _ in range(60):
        middle = (low * high) ** 0.5
        above = first.peak(middle) > second.peak(middle)
        low, high = (middle, high) if above else (low, middle)
    return low


def crossing_of_levels(seed: int, samples: int, *, cross: bool) -> tuple[Crossing, float]:
    """Return where two levels of one surface cross, as stated and in truth."""
    of_server = dict(zip(SERVERS.levels, lines(seed, cross=cross), strict=True))
    made = (SERVERS, CONNECTIONS)
    peaks = {
        sample: of_server[sample[0][1]].peak(float(sample[1][1])) for sample in candidates(made)
    }
    rng = np.random.default_rng((seed, 43))
    rates = noisy(peaks, rng)
    goal = SurfaceGoal(factors=made, peak=PEAK, samples=samples, seed=seed)
    results: tuple[SampleResult, ...] = ()
    while (wanted := next_sample(goal, results)) is not None:
        results = (*results, searched(wanted.sample, rates[wanted.sample], NOISE))
    (found,) = crossed_levels(goal, results, LevelPair("server", "a", "b")).crossings
    return found, true_crossing(*of_server.values())


def crossing_of_surfaces(seed: int, *, cross: bool) -> tuple[Crossing, float]:
    """Return where two surfaces over one factor cross, as stated and in truth."""
    both = lines(seed, cross=cross)
    rng = np.random.default_rng((seed, 44))
    maps = []
    for line in both:
        peaks = {sample: line.peak(float(sample[0][1])) for sample in candidates((CONNECTIONS,))}
        played = full_map((CONNECTIONS,), peaks, rng)
        maps.append((played.goal, played.results))
    (found,) = crossed_surfaces(*maps)
    return found, true_crossing(*both)


CROSSINGS: dict[str, Callable[[int, bool], tuple[Crossing, float]]] = {
    "two levels, all 16": lambda seed, cross: crossing_of_levels(seed, 16, cross=cross),
    "two levels, 10 of 16": lambda seed, cross: crossing_of_levels(seed, 10, cross=cross),
    "two surfaces of 8": lambda seed, cross: crossing_of_surfaces(seed, cross=cross),
}


def test_crossings() -> None:
    """The interval has the true crossing, and lines that do not cross are not said to."""
    everywhere = []
    for case, play in CROSSINGS.items():
        crossing = [play(seed, True) for seed in range(TIMES // 3)]
        shown = [(one.level, true) for one, true in crossing if one.crosses >= 0.95]
        held = [level.low <= true <= level.high for level, true in shown if level is not None]
        widths = [level.high / level.low for level, _ in shown if level is not None]
        beside = [play(seed, False)[0] for seed in range(TIMES // 3)]
        false = np.mean([one.crosses >= 0.95 for one in beside])
        throughout = np.mean([one.first_higher >= 0.95 for one in beside])
        print(
            f"| {case} | {100 * len(shown) / len(crossing):.0f} | {100 * np.mean(held):.1f} | "
            f"{np.median(widths):.2f} | {100 * false:.1f} | {100 * throughout:.0f} |"
        )
        everywhere += held
        assert false <= 0.05
        assert len(shown) >= 0.9 * len(crossing)
    assert np.mean(everywhere) >= (0.92 if FULL else 0.8)
