"""Does `bw compare` keep its promises? Measured through its own controller.

Every replication is a whole comparison: the rule's own orders of arms, blocks added one
by one, `decide_comparison` after each, `conclude` at the end. Seeds are fixed. The margin
is made so small that equivalence hides no false difference. BW_CALIBRATION=full runs
ten times the replications of all cells; the small form 1,000 of the telling ones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonDesign,
    ComparisonResult,
    ComparisonRule,
    Gate,
    GateOutcome,
    StoredArm,
    Verdict,
)
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.suite.comparison import PILOT
from comparing import DIFFERENT, any_difference, one_comparison, rule_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
REPLICATIONS = 10_000 if FULL else 1_000
ORDERS = 97
"""Seeds of the random orders, used in turn."""
SEED = 20261122
"""Not that of decide/compare/intervals.py: its paths would be these very numbers."""

Array = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal times, CV 5 %."""
    return 1 + 0.05 * rng.standard_normal(shape)


def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Lognormal times, CV 30 %."""
    return np.exp(0.3 * rng.standard_normal(shape))


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Times of which 15 % are of a mode that is 20 % slower."""
    slow = rng.random(shape) < 0.15
    return 1 + 0.2 * slow + 0.03 * rng.standard_normal(shape)


SDEV = {normal: 0.05, lognormal: 0.3, bimodal: 0.077}


def comparisons(
    rule: ComparisonRule,
    noise: Noise,
    *,
    effect: float = 1.0,
    effects: Sequence[float] = (),
    drift: float = 0.0,
    replications: int = REPLICATIONS,
    seed: int = SEED,
) -> Iterator[ComparisonResult]:
    """Yield simulated comparisons. `effect` multiplies the last arm's values, or each of `effects`
    in turn; `drift` is in standard deviations over the whole session; metrics correlate by a half.
    """
    rng = np.random.default_rng(seed)
    names = [f"arm{place}" for place in range(rule.arms)]
    each = rule.arms * rule.design.trials_per_block * rule.maximum
    trend = 1 + drift * SDEV[noise] * np.arange(each) / each
    for number in range(replications):
        own = msgspec.structs.replace(rule, seed=number % ORDERS)
        values = noise(rng, (each, len(rule.metrics)))
        if len(rule.metrics) > 1:
            values = np.sqrt(values * noise(rng, (each, 1)))
        one = effects[number] if effects else effect
        yield one_comparison(own, (values.T * trend).T.tolist(), one, names)


def share(found: list[bool]) -> float:
    """Return the share that is true."""
    assert found
    return sum(found) / len(found)


def show(title: str, rate: float, count: int = REPLICATIONS) -> None:
    """Print a line of the table."""
    print(f"{title:<58} {100 * rate:6.2f} %  (n = {count})")


def allowed(level: float) -> float:
    """Return the level and two standard errors of its simulation."""
    return level + 2 * math.sqrt(level * (1 - level) / REPLICATIONS)


TWO = (ComparedMetric("elapsed"), ComparedMetric("ops", "higher"))
THREE = (*TWO, ComparedMetric("lag"))

CELLS = [
    ("blocks normal", normal, rule_of(), 0.0, True),
    ("blocks lognormal", lognormal, rule_of(), 0.0, True),
    ("blocks bimodal", bimodal, rule_of(), 0.0, True),
    ("blocks normal, drift 2 sigma", normal, rule_of(), 2.0, True),
    ("blocks bimodal, drift 2 sigma", bimodal, rule_of(), 2.0, False),
    ("blocks lognormal, drift 2 sigma", lognormal, rule_of(), 2.0, False),
    ("abba normal", normal, rule_of(ComparisonDesign.ABBA), 0.0, False),
    ("abba lognormal", lognormal, rule_of(ComparisonDesign.ABBA), 0.0, False),
    ("abba bimodal", bimodal, rule_of(ComparisonDesign.ABBA), 0.0, True),
    ("abba normal, drift 2 sigma", normal, rule_of(ComparisonDesign.ABBA), 2.0, True),
    ("round-robin normal", normal, rule_of(ComparisonDesign.ROUND_ROBIN), 0.0, False),
    ("blocks normal, 2 metrics, BH", normal, rule_of(metrics=TWO), 0.0, True),
    ("blocks normal, 3 metrics, BH", normal, rule_of(metrics=THREE), 0.0, False),
    (
        "blocks lognormal, 3 metrics, Holm",
        lognormal,
        rule_of(metrics=THREE, gates=(Gate("elapsed", "slower", 0.5, "slower by 50%"),)),
        0.0,
        False,
    ),
    ("blocks normal, 3 arms, BH", normal, rule_of(arms=3), 0.0, True),
]
"""Title, noise, rule, drift, whether in the small form."""


@pytest.mark.parametrize(
    ("title", "noise", "rule", "drift"),
    [cell[:4] for cell in CELLS if FULL or cell[4]],
    ids=[cell[0] for cell in CELLS if FULL or cell[4]],
)
def test_watched_after_every_pair_a_command_rarely_differs_from_itself(
    title: str, noise: Noise, rule: ComparisonRule, drift: float
) -> None:
    rate = share([any_difference(c) for c in comparisons(rule, noise, drift=drift)])
    show(f"A/A watch, {title}", rate)
    assert rate <= 0.05


PLANNED = [
    ("blocks normal", normal, rule_of(), 0.0),
    *([("blocks lognormal", lognormal, rule_of(), 0.0)] if FULL else []),
    ("blocks bimodal", bimodal, rule_of(), 0.0),
    ("blocks normal, drift 2 sigma", normal, rule_of(), 2.0),
    ("abba bimodal, drift 2 sigma", bimodal, rule_of(ComparisonDesign.ABBA), 2.0),
    ("blocks normal, 3 metrics, BH", normal, rule_of(metrics=THREE), 0.0),
]


@pytest.mark.parametrize(
    ("title", "noise", "rule", "drift"), PLANNED, ids=[cell[0] for cell in PLANNED]
)
def test_planned_a_command_differs_from_itself_as_often_as_stated(
    title: str, noise: Noise, rule: ComparisonRule, drift: float
) -> None:
    """One look has the level that it spends, 4 %, where logs are normal; more
    replications for what is not, as the pilot's luck weighs on it."""
    margin = SDEV[noise] * 0.7
    rule = msgspec.structs.replace(rule, mode="plan", margin=margin, minimum=PILOT)
    count = REPLICATIONS if noise is not bimodal or FULL else 2 * REPLICATIONS
    cells = comparisons(rule, noise, drift=drift, replications=count)
    rate = share([any_difference(c) for c in cells])
    show(f"A/A plan, {title}", rate, count)
    assert rate <= 0.05


def test_a_sequence_takes_drift_for_a_difference() -> None:
    """Why that design carries a finding; the other designs do not (above)."""
    rule = rule_of(ComparisonDesign.SEQUENCE, maximum=30)
    found = comparisons(rule, normal, drift=2.0, replications=500)
    rate = share([any_difference(c) for c in found])
    show("A/A sequence, drift 2 sigma (finding sequential-arms)", rate, 500)
    assert rate > 0.5
    steady = comparisons(rule, normal, replications=2000)
    rate = share([any_difference(c) for c in steady])
    show("A/A sequence, no drift", rate, 2000)
    assert rate <= allowed(0.05)


def power_at_the_stated_effect(rule: ComparisonRule, noise: Noise) -> float:
    """Return the share of comparisons that find the smallest effect which the one before stated."""
    before = comparisons(rule, noise, seed=SEED + 1)
    stated = [1 + c.verdicts[-1].smallest_effect for c in before]
    found = comparisons(rule, noise, effects=stated)
    return share([c.verdicts[-1].verdict is Verdict.SLOWER for c in found])


@pytest.mark.parametrize("blocks", [20, 60])
@pytest.mark.parametrize("noise", [normal, lognormal] if FULL else [lognormal])
def test_watched_power_at_the_smallest_effect_is_as_stated(blocks: int, noise: Noise) -> None:
    power = power_at_the_stated_effect(rule_of(maximum=blocks), noise)
    show(f"power watch, {blocks} blocks, {noise.__name__} (0.8 stated)", power)
    assert abs(power - 0.8) <= 0.03


def test_watched_power_with_two_questions_is_as_stated() -> None:
    """One candidate differs, the other does not: both are waited for."""
    power = power_at_the_stated_effect(rule_of(arms=3, maximum=40), lognormal_mild)
    show("power watch, 40 blocks, 3 arms (0.8 stated)", power)
    assert abs(power - 0.8) <= 0.03


@pytest.mark.parametrize("metrics", [1, 3])
def test_planned_power_at_the_margin_is_as_stated(metrics: int) -> None:
    rule = rule_of(
        metrics=(ComparedMetric("elapsed"), *THREE[1:])[:metrics],
        mode="plan",
        margin=0.03,
        maximum=1000,
    )
    found = list(comparisons(rule, lognormal_mild, effect=1.03))
    power = share([c.verdicts[0].verdict is Verdict.SLOWER for c in found])
    stated = np.mean([c.verdicts[0].smallest_effect for c in found])
    show(f"power plan at the margin, {metrics} metrics (0.8 stated)", power)
    print(f"{'':<10}smallest effect stated {100 * stated:.2f} %, margin 3 %")
    if metrics == 1:
        assert abs(power - 0.8) <= 0.03
    else:
        # All three metrics differ here, so the step-up method finds them together.
        assert power >= 0.77


def lognormal_mild(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Lognormal times, CV 5 %."""
    return np.exp(0.05 * rng.standard_normal(shape))


SDEV[lognormal_mild] = 0.05


@pytest.mark.parametrize("mode", ["watch", "plan"])
@pytest.mark.parametrize("effect", [1.0, 1.02])
@pytest.mark.parametrize("noise", [normal, bimodal] if FULL else [bimodal])
def test_the_interval_of_the_ratio_covers(noise: Noise, effect: float, mode: str) -> None:
    rule = rule_of(mode=mode, margin=0.02)
    verdicts = [c.verdicts[0] for c in comparisons(rule, noise, effect=effect)]
    covered = share([v.ratio.low <= effect <= v.ratio.high for v in verdicts])
    show(f"coverage {mode}, {noise.__name__}, ratio {effect}", covered)
    assert covered >= 0.93
    if effect == 1 + rule.margin:
        equivalent = share([v.verdict is Verdict.EQUIVALENT for v in verdicts])
        show(f"called equivalent {mode}, {noise.__name__}, at the margin", equivalent)
        assert equivalent <= 0.05


def with_stored(baseline: Array, effect: float, values: Array, number: int) -> ComparisonResult:
    """Run a comparison with a stored baseline."""
    stored = StoredArm("old", "study", {"elapsed": tuple(baseline.tolist())})
    rule = rule_of(mode="plan", margin=0.03, stored=stored, maximum=200, seed=number)
    rows = [[float(v) * effect] for v in values]
    return one_comparison(rule, rows, 1.0, ["old", "new"])


@pytest.mark.parametrize("effect", [1.0, 1.03])
def test_a_stored_baseline_is_compared_honestly(effect: float) -> None:
    rng = np.random.default_rng(SEED)
    found = [
        with_stored(lognormal_mild(rng, (100,)), effect, lognormal_mild(rng, (200,)), number)
        for number in range(REPLICATIONS)
    ]
    verdicts = [c.verdicts[0] for c in found]
    covered = share([v.ratio.low <= effect <= v.ratio.high for v in verdicts])
    different = share([v.verdict in DIFFERENT for v in verdicts])
    show(f"stored baseline, ratio {effect}: coverage", covered)
    show(f"stored baseline, ratio {effect}: called different", different)
    assert covered >= 0.94
    if effect == 1.0:
        assert different <= allowed(0.05)
    else:
        # A pilot allows for more dependence than there is: more trials than needed.
        assert 0.77 <= different <= 0.9


def test_a_gate_fails_rarely_at_its_limit() -> None:
    gate = Gate("elapsed", "slower", 0.03, "slower by 3%")
    rule = rule_of(gates=(gate,))
    found = list(comparisons(rule, normal, effect=1.03))
    rate = share([c.gates[0].outcome is GateOutcome.FAILED for c in found])
    show("gate `slower by 3%` fails at exactly 3 %", rate)
    assert rate <= 0.05


def in_one_arm(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Log ratios of a quiet baseline and a candidate with a slow mode of 15 %."""
    slow = rng.random(shape) < 0.15
    return np.asarray(np.log1p(0.2 * slow) + 0.003 * rng.standard_normal(shape))


def of_ratios(rule: ComparisonRule, ratios: Array) -> ComparisonResult:
    """Run one comparison over the ratios of its blocks, in order."""
    builder = ComparisonBuilder(rule)
    for ratio in ratios.tolist():
        builder.add([[{"elapsed": 1.0}], [{"elapsed": ratio}]])
        decision = decide_comparison(rule, builder.history())
        if not isinstance(decision, NextBlock):
            return conclude(rule, builder.history(), ["quiet", "slow"], decision)
    raise AssertionError("the rule has a maximum")


@pytest.mark.parametrize("mode", ["watch", "plan"])
def test_a_slow_mode_in_one_arm_is_seldom_called_equivalent(mode: str) -> None:
    """It is 2.8 % slower; in 20 % of comparisons the first 10 blocks do not show it, in
    4 % the first 20. So nothing is called the same before 30."""
    rule = rule_of(mode=mode, margin=0.01, maximum=100)
    ratios = np.exp(in_one_arm(np.random.default_rng(SEED), (REPLICATIONS, 100)))
    verdicts = [of_ratios(rule, one).verdicts[0].verdict for one in ratios]
    same = [verdict is Verdict.EQUIVALENT for verdict in verdicts]
    show(f"slow mode in one arm called equivalent, {mode}", share(same))
    assert share(same) <= 0.025


@pytest.mark.parametrize("mode", ["watch", "plan"])
@pytest.mark.parametrize(("slow", "faster"), [(0.1, 0.0), (0.1, 0.02), (0.2, 0.1)])
def test_a_gate_seldom_passes_a_slow_mode(slow: float, faster: float, mode: str) -> None:
    """A share of the candidate's trials takes four times as long, and the others are a little
    faster than the baseline's: its mean is 13 to 19 % slower. In 35 and 11 % of comparisons the
    first 10 blocks do not show the mode, and their interval excludes that the candidate is slower.
    """
    gate = Gate("elapsed", "slower", 0.1, "slower by 10%")
    rule = rule_of(mode=mode, margin=0.01, maximum=100, gates=(gate,))
    rng = np.random.default_rng(SEED)
    modes = np.where(rng.random((REPLICATIONS, 100)) < slow, 4.0, 1.0)
    noise = np.exp(0.014 * rng.standard_normal(modes.shape))
    found = [of_ratios(rule, one) for one in (1 - faster) * modes * noise]
    passed = share([c.gates[0].outcome is GateOutcome.PASSED for c in found])
    show(f"gate passes {slow:.0%} slow, others {faster:.0%} faster, {mode}", passed)
    assert passed <= allowed(0.05)
