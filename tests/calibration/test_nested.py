"""Do means over nested replicates keep their promises? Measured on simulated replicates.

Replicates of the outermost level differ by 0 to 10 times what trials do (standard deviations), normal,
log-normal (deviation of the logarithm 0.5) or exponential; of inner levels by 0.7 times, normal; trials are
normal or exponential. A stop leaves the last outermost replicate incomplete at random. The controller and
the verdicts are those of the product. BW_CALIBRATION=full plays all cells with more replications, and
prints the tables of docs/calibration.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from benchwright.core.comparison import ComparisonResult, ComparisonRule
from benchwright.core.plan import (
    LevelKind,
    Replicated,
    ReplicateLevel,
    ReplicatePath,
    Replication,
    RunMore,
    StopDecision,
    UntilPrecise,
)
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder, ratio_name
from benchwright.decide.history import History, ReplicateOutcome
from benchwright.decide.replicated import decide_replicated, next_in_order
from benchwright.stats.nested import nested_estimate
from comparing import NAMES, any_difference, rule_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20261130
MEAN = 100.0

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


def chance(count: int) -> float:
    """Return two standard errors of a share of 93 %, in per cent."""
    return 200 * math.sqrt(0.07 * 0.93 / count)


# -- populations: of mean 0 and standard deviation 1 -----------------------------------------


def normal(rng: np.random.Generator, count: int) -> Array:
    return rng.standard_normal(count)


def lognormal(rng: np.random.Generator, count: int) -> Array:
    values = np.exp(0.5 * rng.standard_normal(count))
    return (values - math.exp(0.125)) / math.sqrt(math.exp(0.25) * math.expm1(0.25))


def exponential(rng: np.random.Generator, count: int) -> Array:
    return rng.exponential(size=count) - 1


class World(msgspec.Struct, frozen=True):
    """What replicates and trials are drawn from."""

    outer: Draw = normal
    trial: Draw = normal
    ratio: float = 1.0
    """Standard deviation of the outermost replicates, in that of trials, which is 1."""
    inner: float = 0.7
    """That of each inner level."""

    def values(self, rng: np.random.Generator, paths: npt.NDArray[np.int64]) -> Array:
        """Return a value for each path, shape `(n, levels)`."""
        found = MEAN + self.trial(rng, len(paths))
        for depth in range(1, paths.shape[1] + 1):
            _, own = np.unique(paths[:, :depth], axis=0, return_inverse=True)
            draw, sdev = (self.outer, self.ratio) if depth == 1 else (normal, self.inner)
            found = found + sdev * draw(rng, int(own.max()) + 1)[own.reshape(-1)]
        return found


def all_paths(shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the paths of the trials of a balanced design; the last number is of trials."""
    return np.array(list(np.ndindex(*shape)), dtype=np.int64)[:, :-1]


# -- intervals, predictions and components of fixed designs ------------------------------------

REPLICATIONS = 1_000 if FULL else 200
SHAPES = {1: (5,), 2: (2, 4), 3: (2, 2, 3)}
"""By levels: how many there are of each inner level and of trials."""


class Coverage(msgspec.Struct, frozen=True):
    """Shares of designs, in per cent."""

    mean: float
    next_replicate: float
    next_trial: float
    components: tuple[float, ...]


def coverage(world: World, clusters: int, levels: int, *, stopped: bool) -> Coverage:
    """Return how often each interval holds what it is about."""
    rng = np.random.default_rng([SEED, clusters, levels, stopped, round(10 * world.ratio)])
    shape = SHAPES[levels]
    whole, one = all_paths((clusters, *shape)), all_paths((1, *shape))
    truths = [world.ratio**2, *[world.inner**2] * (levels - 1), 1.0]
    counts = np.zeros(3 + len(truths))
    for _ in range(REPLICATIONS):
        paths = whole[: len(whole) - int(rng.integers(1, len(one)))] if stopped else whole
        found = nested_estimate(world.values(rng, paths), paths)
        following = world.values(rng, one)
        counts += [
            found.mean.low <= MEAN <= found.mean.high,
            found.next_replicate.low <= following.mean() <= found.next_replicate.high,
            found.next_trial.low <= following[0] <= found.next_trial.high,
            *(
                part.low <= truth <= part.high
                for part, truth in zip(found.components, truths, strict=True)
            ),
        ]
    mean, replicate, trial, *parts = (100 * counts / REPLICATIONS).tolist()
    return Coverage(mean, replicate, trial, tuple(parts))


# -- a machine that is slow in phases ------------------------------------------------------------


def slow_in_phases(rng: np.random.Generator, count: int, trials: float) -> Array:
    """Return what a machine adds to trials that follow each other: in phases of so many trials, 15 % of
    the time, 40; its mean is 6."""
    ends, begins = 1 / trials, 0.15 / 0.85 / trials
    slow, found = rng.random() < 0.15, []
    for chance_of_change in rng.random(count).tolist():
        found.append(40.0 if slow else 0.0)
        slow = chance_of_change >= ends if slow else chance_of_change < begins
    return np.array(found)


@pytest.mark.parametrize("trials", [1.0, 3.0, 8.0])
def test_environments_in_turns_do_not_differ_by_what_the_machine_does(trials: float) -> None:
    """Ten environments, eight trials in each, of which none is another: one after the other beside in
    turns. What is common to all of them is in the error of the mean in both."""
    rng = np.random.default_rng([SEED, round(trials)])
    replication = Replication((ReplicateLevel(LevelKind.ENV, 10),), SEED, trials=8)
    outcomes: list[ReplicateOutcome] = []
    while (path := next_in_order(replication, outcomes)) is not None:
        outcomes.append(ReplicateOutcome(path, {}, 0))
    orders = {True: np.array([one.path for one in outcomes]), False: all_paths((10, 8))}
    differ, held = dict.fromkeys(orders, 0), dict.fromkeys(orders, 0)
    for _ in range(REPLICATIONS):
        values = MEAN + rng.standard_normal(80) + slow_in_phases(rng, 80, trials)
        for in_turns, paths in orders.items():
            found = nested_estimate(values, paths, in_turns=in_turns)
            differ[in_turns] += found.components[0].low > 0
            held[in_turns] += found.mean.low <= MEAN + 6 <= found.mean.high
    shares = {name: 100 * count / REPLICATIONS for name, count in differ.items()}
    assert shares[True] <= 5, "none differs"
    if trials > 1:
        assert shares[False] > 40, "the machine's phases are taken for differences"
    assert held[True] >= held[False] - 0.06 * REPLICATIONS


DRAWS = {
    "normal": World(),
    "lognormal": World(lognormal),
    "exponential": World(exponential),
    "exponential trials": World(trial=exponential),
}
TELLING = [
    ("normal", 3, 1, 0.0, True),
    ("normal", 10, 3, 1.0, True),
    ("lognormal", 3, 2, 10.0, False),
    ("lognormal", 5, 1, 1.0, True),
    ("exponential", 10, 1, 1.0, False),
    ("exponential trials", 5, 2, 0.3, True),
]
CELLS = [
    (name, clusters, levels, ratio, stopped)
    for name in DRAWS
    for clusters in (3, 5, 10, 30)
    for levels in SHAPES
    for ratio in (0.0, 0.3, 1.0, 10.0)
    for stopped in (False, True)
]


@pytest.mark.parametrize(
    ("name", "clusters", "levels", "ratio", "stopped"), CELLS if FULL else TELLING
)
def test_intervals_hold(name: str, clusters: int, levels: int, ratio: float, stopped: bool) -> None:
    world = msgspec.structs.replace(DRAWS[name], ratio=ratio)
    found = coverage(world, clusters, levels, stopped=stopped)
    parts = ", ".join(f"{part:.1f}" for part in found.components)
    print(
        f"{name:18} {clusters:2} replicates, {levels} levels, ratio {ratio:4}"
        f"{', stopped' if stopped else '':9}: mean {found.mean:5.1f}, next {found.next_replicate:5.1f}, "
        f"{found.next_trial:5.1f}, components {parts}"
    )
    # Not reached: five exponential replicates that differ far more than their trials, 92.6 %.
    aim = 91.5 if name == "exponential" else 93
    assert found.mean >= aim - chance(REPLICATIONS)
    assert found.next_replicate >= aim - chance(REPLICATIONS)
    assert found.next_trial >= aim - chance(REPLICATIONS)


# -- numbers that the controller chooses --------------------------------------------------------

RUNS = 300 if FULL else 60
TRIAL_NS = 1_000_000


class Played(msgspec.Struct, frozen=True):
    """What tests with a precision came to."""

    coverage: float
    """Share of intervals that hold the mean, in per cent."""
    cost: float
    """Mean cost, in that of one trial."""
    replicates: float
    """Mean number of outermost replicates."""


def play(world: World, making: float, target: float) -> Played:
    """Play tests until the half width is at most `target` (in trials' deviations); an outermost
    replicate costs as much as `making` trials."""
    rng = np.random.default_rng([SEED, round(10 * world.ratio), round(making)])
    level = ReplicateLevel(LevelKind.BUILD, command="make")
    precise = UntilPrecise(target / MEAN, maximum=100_000)
    rule = Replicated(Replication((level,), 1), precise=precise)
    ends = [_one(rule, world, round(making * TRIAL_NS), rng) for _ in range(RUNS)]
    held, costs, replicates = np.array(ends).T
    return Played(100 * float(held.mean()), float(costs.mean()), float(replicates.mean()))


def _one(
    rule: Replicated, world: World, making_ns: int, rng: np.random.Generator
) -> tuple[bool, float, int]:
    outcomes: list[ReplicateOutcome] = []
    effects: list[float] = []
    while True:
        history = History(len(outcomes), outcomes=tuple(outcomes))
        step = decide_replicated(rule, history)
        if isinstance(step, StopDecision):
            found = step.reached[0].estimate
            assert found is not None
            spent = sum(one.spent_ns + sum(one.made_ns) for one in outcomes)
            return found.low <= MEAN <= found.high, spent / TRIAL_NS, len(effects)
        assert isinstance(step, RunMore)
        number = step.path[0]
        is_new = number > len(effects)
        if is_new:
            effects.append(world.ratio * float(world.outer(rng, 1)[0]))
        for place, noise in enumerate(world.trial(rng, step.epochs).tolist()):
            made = (making_ns if is_new and not place else 0,)
            value = MEAN + effects[number - 1] + noise
            outcomes.append(ReplicateOutcome(step.path, {"elapsed": value}, TRIAL_NS, made))


@lru_cache(maxsize=512)
def mean_half_width(replicates: int) -> float:
    """Return the mean half width of our interval of a fixed design of normal replicates whose means
    have a standard deviation of 1."""
    rng = np.random.default_rng([SEED, replicates])
    paths = np.arange(replicates)[:, None]
    halves = [
        nested_estimate(rng.standard_normal(replicates), paths).mean.half_width for _ in range(400)
    ]
    return float(np.mean(halves))


def best_fixed(ratio: float, making: float, target: float) -> tuple[float, int, int]:
    """Return the least cost of a fixed design whose mean half width is the target, and its numbers of
    outermost replicates, at least 3, and of trials in each."""
    designs = []
    for replicates in (*range(3, 40), *range(40, 121, 5)):
        left = (target / mean_half_width(replicates)) ** 2 - ratio**2
        if left > 0:
            trials = max(1, math.ceil(1 / left))
            designs.append((replicates * (making + trials), replicates, trials))
    return min(designs)


CONTROLLED = [
    (making, ratio, clusters)
    for making in (1.0, 10.0, 100.0)
    for ratio in (0.0, 0.3, 1.0, 3.0, 10.0)
    for clusters in (5, 12, 30)
]
CONTROLLED_TELLING = [(10.0, 0.3, 12), (100.0, 1.0, 12), (1.0, 3.0, 12)]


@pytest.mark.parametrize(
    ("making", "ratio", "clusters"), CONTROLLED if FULL else CONTROLLED_TELLING
)
def test_chosen_numbers_cost_little_more_than_the_best_fixed_ones(
    making: float, ratio: float, clusters: int
) -> None:
    """The target is what the optimum of Kalibera and Jones with so many replicates reaches."""
    each = min(max(2, round(math.sqrt(making) / max(ratio, 0.1))), 100)
    target = mean_half_width(clusters) * math.sqrt(ratio**2 + 1 / each)
    best, replicates, trials = best_fixed(ratio, making, target)
    found = play(World(ratio=ratio), making, target)
    print(
        f"making {making:5}, ratio {ratio:4}, best {replicates:2} with {trials:3}: cost "
        f"{found.cost / best:.2f}, coverage {found.coverage:5.1f}, replicates {found.replicates:.1f}"
    )
    assert found.coverage >= 93 - chance(RUNS)
    # Not reached (aim 1.3): replicates that do not differ and are expensive, which only the best design
    # knows; and few replicates of one trial each, because the pilot has two trials in each.
    assert found.cost / best <= (1.45 if ratio in (0.0, 1.0) else 1.35) + (0 if FULL else 0.15)


# -- comparisons over levels ---------------------------------------------------------------------

COMPARISONS = 1_000 if FULL else 150
BLOCKS = 10
"""Blocks in each build."""
NOISE = 0.01
"""Standard deviation of a block's log ratio within a build."""
BUILD = ReplicateLevel(LevelKind.BUILD, 5, "make")


def log_ratios(
    rng: np.random.Generator, world: World, builds: int, effect: float
) -> tuple[Array, list[ReplicatePath]]:
    """Return the log ratios of the blocks of a comparison, and their paths: the builds of both arms are
    drawn alike, so their ratio is symmetric."""
    paths = all_paths((builds, BLOCKS))
    difference = world.values(rng, paths) - world.values(rng, paths)
    values = effect + NOISE * difference / math.sqrt(2)
    return values, [(int(path) + 1,) for path in paths[:, 0]]


def over_builds(values: Array, paths: list[ReplicatePath], builds: int) -> ComparisonResult:
    """Return the comparison that knows its builds."""
    level = msgspec.structs.replace(BUILD, count=builds)
    rule: ComparisonRule = rule_of(
        replication=Replication((level,), 1, BLOCKS), maximum=builds * BLOCKS
    )
    builder = ComparisonBuilder(rule)
    for value, path in zip(values.tolist(), paths, strict=True):
        block = [[{"elapsed": 1.0}], [{"elapsed": math.exp(value)}]]
        builder.add(block, 0, ReplicateOutcome(path, {}, 0))
    return conclude(rule, builder.history(), NAMES, StopDecision("count", ""))


def watched(values: Array) -> ComparisonResult:
    """Return the comparison that takes the same blocks for independent ones, with a look after each."""
    rule = rule_of(maximum=len(values))
    builder = ComparisonBuilder(rule)
    rest = iter(values.tolist())
    while True:
        history = builder.history()
        decision = decide_comparison(rule, history)
        if not isinstance(decision, NextBlock):
            return conclude(rule, history, NAMES, decision)
        builder.add([[{"elapsed": 1.0}], [{"elapsed": math.exp(next(rest))}]])


@pytest.mark.parametrize(
    ("name", "builds", "ratio"),
    [
        (name, builds, ratio)
        for name in ("normal", "lognormal", "exponential")
        for builds in (3, 5, 10)
        for ratio in (0.0, 1.0, 3.0, 10.0)
        if FULL or (name, builds, ratio) in {("normal", 5, 1.0), ("lognormal", 3, 3.0)}
    ],
)
def test_a_program_compared_with_itself_over_builds_is_seldom_different(
    name: str, builds: int, ratio: float
) -> None:
    """What is different between builds of one source is chance. Beside it: the same blocks without
    their builds, and only those of the first build."""
    rng = np.random.default_rng([SEED, builds, round(10 * ratio)])
    world = msgspec.structs.replace(DRAWS[name], ratio=ratio)
    counts = np.zeros(3)
    for _ in range(COMPARISONS):
        values, paths = log_ratios(rng, world, builds, 0.0)
        counts += [
            any_difference(over_builds(values, paths, builds)),
            any_difference(watched(values)),
            any_difference(watched(values[:BLOCKS])),
        ]
    ours, pooled, single = 100 * counts / COMPARISONS
    print(
        f"{name:12} {builds:2} builds, ratio {ratio:4}: different {ours:4.1f}; without builds "
        f"{pooled:4.1f}; one build {single:4.1f}"
    )
    assert ours <= 5 + 200 * math.sqrt(0.05 * 0.95 / COMPARISONS)
    if ratio >= 1:
        assert pooled > 20


@pytest.mark.parametrize("builds", (5, 10, 30) if FULL else (10,))
def test_power_at_the_smallest_effect_is_as_stated(builds: int) -> None:
    """80 % are stated; each comparison has the effect that the one before it stated."""
    rng = np.random.default_rng([SEED, builds])
    found, effect, stated = 0, 0.0, []
    for _ in range(COMPARISONS + 1):
        values, paths = log_ratios(rng, World(), builds, effect)
        result = over_builds(values, paths, builds)
        found += bool(effect) and any_difference(result)
        effect = math.log1p(result.verdicts[0].smallest_effect)
        stated.append(effect)
    share = 100 * found / COMPARISONS
    print(f"{builds:2} builds: {share:.1f} found of {100 * np.mean(stated):.2f} % stated")
    assert share >= 78 - 200 * math.sqrt(0.2 * 0.8 / COMPARISONS)


def chosen(rng: np.random.Generator, world: World, effect: float) -> ComparisonResult:
    """Return a comparison that chooses its builds and blocks; a build costs as much as ten blocks."""
    level = msgspec.structs.replace(BUILD, count=None)
    rule: ComparisonRule = rule_of(
        replication=Replication((level,), 1), margin=2 * NOISE, maximum=2_000
    )
    builder = ComparisonBuilder(rule)
    builds: list[float] = []
    while True:
        history = builder.history()
        decision = decide_comparison(rule, history)
        if not isinstance(decision, NextBlock):
            return conclude(rule, history, NAMES, decision)
        number = decision.path[0]
        made = 0
        if number > len(builds):
            made = 10 * TRIAL_NS
            builds.append(world.ratio * float(np.diff(world.outer(rng, 2))[0]) / math.sqrt(2))
        value = effect + NOISE * (builds[number - 1] + float(world.trial(rng, 1)[0]))
        block = [[{"elapsed": 1.0}], [{"elapsed": math.exp(value)}]]
        values = {ratio_name(("elapsed", 1)): value}
        builder.add(block, 0, ReplicateOutcome(decision.path, values, TRIAL_NS, (made,)))


@pytest.mark.parametrize("ratio", (0.3, 1.0, 3.0) if FULL else (1.0,))
def test_a_comparison_that_chooses_its_builds_is_seldom_wrong(ratio: float) -> None:
    """A program with itself, and one that is slower by the margin, for which the power is 80 %."""
    rng = np.random.default_rng([SEED, round(10 * ratio)])
    count = COMPARISONS // 5
    same = [chosen(rng, World(ratio=ratio), 0.0) for _ in range(count)]
    slower = [chosen(rng, World(ratio=ratio), math.log1p(2 * NOISE)) for _ in range(count)]
    wrong, found = (100 * sum(map(any_difference, of)) / count for of in (same, slower))
    blocks = np.mean([one.blocks for one in same])
    print(
        f"chosen builds, ratio {ratio}: different {wrong:.1f}, found {found:.1f}, {blocks:.0f} blocks"
    )
    assert wrong <= 5 + 200 * math.sqrt(0.05 * 0.95 / count)
    assert found >= 78 - 200 * math.sqrt(0.2 * 0.8 / count)
