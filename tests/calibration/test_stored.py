"""Does a comparison with stored trials keep its promise when trials are not independent?

The same population is baseline and candidate, and neighbouring trials correlate by rho
(AR(1)), as on a busy machine. Every replication goes through the product's own builder,
decisions and conclusion: `--baseline` with its pilot and plan, and two stored results.
Seeds are fixed. BW_CALIBRATION=full runs eight times the replications of all cells.
"""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt
import pytest

from benchwright.core.comparison import ComparisonResult, ComparisonRule, GateOutcome, StoredArm
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from comparing import DIFFERENT, NAMES, both_stored

FULL = os.environ.get("BW_CALIBRATION") == "full"
REPLICATIONS = 5_000 if FULL else 600
SEED = 20261123
MOST = 140

Array = npt.NDArray[np.float64]


def series(rng: np.random.Generator, rho: float, n: int, count: int) -> Array:
    """Return AR(1) times of CV 5 %, shape `(count, n)`."""
    noise = rng.standard_normal((count, n))
    for at in range(1, n):
        noise[:, at] = rho * noise[:, at - 1] + math.sqrt(1 - rho * rho) * noise[:, at]
    return np.exp(0.05 * noise)


def planned(baseline: Array, candidate: Array) -> ComparisonResult:
    """Return what `bw compare --baseline` comes to."""
    stored = StoredArm("old", "study", {"elapsed": tuple(baseline.tolist())})
    rule = ComparisonRule(
        2, mode="plan", stored=stored, warmup=0, minimum=20, maximum=MOST, margin=1e-9
    )
    builder = ComparisonBuilder(rule)
    for value in candidate.tolist():
        builder.add([[], [{"elapsed": value}]])
        decision = decide_comparison(rule, builder.history())
        if not isinstance(decision, NextBlock):
            return conclude(rule, builder.history(), NAMES, decision)
    raise AssertionError("the most trials end it")


def different(found: list[ComparisonResult]) -> float:
    """Return the share of comparisons that call the arms different."""
    return sum(c.verdicts[0].verdict in DIFFERENT for c in found) / len(found)


def allowed(count: int) -> float:
    """Return 5 % and two standard errors of its simulation."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / count)


STRENGTHS = [0.0, 0.3, 0.6, 0.8, 0.9]
SIZES = [(10, 10), (10, MOST), (30, 30), (100, 100)]
SHOWN = [
    (sizes, rho)
    for sizes in SIZES
    for rho in (STRENGTHS if FULL else [0.0, 0.6, 0.9])
    if rho <= 0.6 or max(sizes) >= 30
]
"""Ten values cannot show a correlation of 0.8 or more."""


@pytest.mark.parametrize(("sizes", "rho"), SHOWN, ids=str)
def test_stored_results_of_one_population_rarely_differ(sizes: tuple[int, int], rho: float) -> None:
    rng = np.random.default_rng(SEED)
    arms = (series(rng, rho, n, REPLICATIONS) for n in sizes)
    found = [both_stored(*pair) for pair in zip(*arms, strict=True)]
    rate = different(found)
    failed = sum(c.gates[0].outcome is GateOutcome.FAILED for c in found) / len(found)
    print(f"A/A stored, {sizes}, rho {rho}: {100 * rate:.1f} %, gate {100 * failed:.1f} %")
    assert rate <= allowed(REPLICATIONS)
    assert failed <= allowed(REPLICATIONS)


@pytest.mark.parametrize("rho", STRENGTHS if FULL else [0.6])
@pytest.mark.parametrize("size", [10, 30, 100] if FULL else [30])
def test_a_new_run_against_a_stored_one_of_its_population_rarely_differs(
    size: int, rho: float
) -> None:
    count = REPLICATIONS // 5
    rng = np.random.default_rng(SEED)
    arms = (series(rng, rho, n, count) for n in (size, MOST))
    rate = different([planned(*pair) for pair in zip(*arms, strict=True)])
    print(f"A/A --baseline of {size}, rho {rho}: {100 * rate:.1f} % (n = {count})")
    assert rate <= allowed(count)


@pytest.mark.parametrize(
    ("sizes", "least"), [((30, 30), 0.55), ((20, 60), 0.55), ((100, 100), 0.65)], ids=str
)
def test_the_power_that_it_costs_where_trials_are_independent(
    sizes: tuple[int, int], least: float
) -> None:
    """The effect is one that Welch finds with 80 % at this level."""
    from scipy.stats import t

    rng = np.random.default_rng(SEED)
    degrees = sum(sizes) - 2
    error = 0.05 * math.sqrt(sum(1 / n for n in sizes))
    effect = math.exp((t.ppf(0.98, degrees) + t.ppf(0.8, degrees)) * error)
    old, new = (series(rng, 0.0, n, REPLICATIONS) for n in sizes)
    power = different([both_stored(a, b) for a, b in zip(old, effect * new, strict=True)])
    print(f"power {sizes}: {100 * power:.0f} %, of 80 % by Welch")
    assert power >= least


RATIOS = [1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 10.0]
CORRELATIONS = [0.0, 0.3, 0.6]


def welch(old: Array, new: Array) -> Array:
    """Return Welch's P-values on logarithms, one for each row."""
    from scipy.stats import ttest_ind

    return np.asarray(ttest_ind(np.log(old), np.log(new), axis=1, equal_var=False)[1])


def ranks(old: Array, new: Array) -> Array:
    """Return the exact P-values of the rank test that benchstat uses, one for each row."""
    from scipy.stats import mannwhitneyu

    return np.asarray(mannwhitneyu(old, new, axis=1, method="exact")[1])


def shares(old: Array, new: Array) -> tuple[float, float, float]:
    """Return the shares of pairs that `bw compare`, Welch and the rank test call different."""
    ours = different([both_stored(*pair) for pair in zip(old, new, strict=True)])
    peers = [float((test(old, new) <= 0.05).mean()) for test in (welch, ranks)]
    return ours, peers[0], peers[1]


@pytest.mark.parametrize("n", [5, 6, 8, 9, 10, 12, 15, 20, 30, 50] if FULL else [5, 9, 10, 20])
def test_few_trials_beside_welch_and_ranks(n: int) -> None:
    """A row of the table in docs/calibration.md."""
    count = 2_000 if FULL else 400
    rng = np.random.default_rng(SEED + n)
    same = [shares(series(rng, rho, n, count), series(rng, rho, n, count)) for rho in CORRELATIONS]
    old, new = series(rng, 0.0, n, count // 2), series(rng, 0.0, n, count // 2)
    power = [shares(old, ratio * new) for ratio in RATIOS]
    cells = [" / ".join(f"{100 * x:.3g}" for x in found) for found in same + power]
    print(f"| {n} | " + " | ".join(cells) + " |")
    for ours, _, _ in same:
        assert ours <= allowed(count)
    found = [ours for ours, _, _ in power]
    assert found == sorted(found), "a larger difference is found as often"
    assert found[RATIOS.index(1.5)] > 0.99, "far outside the range of both arms"
    assert found[-1] == 1
    if n >= 10:
        assert found[RATIOS.index(1.2)] >= 0.9
