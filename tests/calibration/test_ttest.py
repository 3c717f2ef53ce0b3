"""`bw stats --ttest` keeps its word: measured by simulation, with fixed seeds.

4000 replications: a rate of 5 % is known to +-1.0 points (three standard errors), and
`pytest -s` prints every figure. The rate of false alarms is that of the whole procedure,
the F-test that chooses the t-test included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchwright.stats.input_comparison import PRETEST_LEVEL
from benchwright.stats.two_sample import (
    brunner_munzel,
    hodges_lehmann,
    ratio_equivalence,
    ratio_of_means,
    t_test,
    variance_test,
)

REPLICATIONS = 4000
ROOM = 0.0104
"""Three standard errors of a rate of 5 %."""
Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(cv: float) -> Draw:
    return lambda rng, n: 1 + cv * rng.standard_normal(n)


def lognormal(sigma: float) -> Draw:
    return lambda rng, n: np.exp(sigma * rng.standard_normal(n))


def rate(
    asked: Callable[[np.ndarray, np.ndarray], bool], cell: tuple[Draw, Draw, int, int]
) -> float:
    """Return how often the question is answered with yes."""
    draw_a, draw_b, n_a, n_b = cell
    rng = np.random.default_rng(20261121)
    return float(np.mean([asked(draw_a(rng, n_a), draw_b(rng, n_b)) for _ in range(REPLICATIONS)]))


def rejects(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether u1 == u2 is rejected, by the test that the F-test chooses."""
    pooled = variance_test(a, b).p >= PRETEST_LEVEL
    return t_test(a, b, equal_variance=pooled).p_two_sided < 0.05


CELLS = {
    "normal 10+10": (normal(0.05), normal(0.05), 10, 10),
    "normal 10+30": (normal(0.05), normal(0.05), 10, 30),
    "sd x3, 10+10": (normal(0.05), normal(0.15), 10, 10),
    "sd x3 in the larger": (normal(0.05), normal(0.15), 10, 30),
    "sd x3 in the smaller": (normal(0.15), normal(0.05), 10, 30),
    "sd x1.5 in the smaller": (normal(0.15), normal(0.10), 10, 30),
    "lognormal CV 30 %": (lognormal(0.294), lognormal(0.294), 10, 10),
}


@pytest.mark.parametrize("name", list(CELLS))
def test_false_alarms_of_the_t_test(name: str) -> None:
    found = rate(rejects, CELLS[name])
    print(f"\n{name}: u1 == u2 rejected in {100 * found:.1f} % (5 %)")
    # Where the F-test misses a moderate difference of variances it pools wrongly, to
    # the harm of the level: this is measured and told, not hidden (docs/stats.md).
    limit = 0.08 if name == "sd x1.5 in the smaller" else 0.05
    assert found <= limit + ROOM


@pytest.mark.parametrize("name", ["sd x3 in the smaller", "sd x1.5 in the smaller"])
def test_welch_alone_keeps_the_level_there(name: str) -> None:
    found = rate(lambda a, b: t_test(a, b).p_two_sided < 0.05, CELLS[name])
    print(f"\n{name}: Welch alone rejects in {100 * found:.1f} % (5 %)")
    assert found == pytest.approx(0.05, abs=ROOM)


@pytest.mark.parametrize("n", [10, 30])
def test_the_interval_of_the_ratio_covers(n: int) -> None:
    def covers(a: np.ndarray, b: np.ndarray) -> bool:
        found = ratio_of_means(a, b * 1.1)
        return found.low <= 1.1 <= found.high

    found = rate(covers, (lognormal(0.1), lognormal(0.3), n, n))
    print(f"\nratio, lognormal, n = {n}: covers in {100 * found:.1f} % (95 %)")
    assert found == pytest.approx(0.95, abs=ROOM)


def test_the_interval_of_the_shift_covers() -> None:
    def covers(a: np.ndarray, b: np.ndarray) -> bool:
        found = hodges_lehmann(a + 0.1, b)
        return found.low <= 0.1 <= found.high

    found = rate(covers, (lognormal(0.5), lognormal(0.5), 10, 12))
    print(f"\nshift, lognormal: covers in {100 * found:.1f} % (at least 95 %)")
    assert 0.95 - ROOM <= found <= 0.97 + ROOM  # Exact, so a little conservative.


def test_false_alarms_of_brunner_munzel_with_unequal_spread() -> None:
    cell = (normal(0.05), normal(0.2), 15, 25)
    found = rate(lambda a, b: brunner_munzel(a, b).p < 0.05, cell)
    print(f"\nBrunner-Munzel, sd x4: rejects in {100 * found:.1f} % (5 %)")
    assert found == pytest.approx(0.05, abs=2 * ROOM)


def test_equivalence_is_rarely_said_at_the_margin_itself() -> None:
    def said(a: np.ndarray, b: np.ndarray) -> bool:
        return ratio_equivalence(a, b * 1.05, 0.05).p < 0.05

    found = rate(said, (lognormal(0.03), lognormal(0.03), 15, 15))
    print(f"\nequivalence at the margin: said in {100 * found:.1f} % (5 %)")
    assert found == pytest.approx(0.05, abs=ROOM)
