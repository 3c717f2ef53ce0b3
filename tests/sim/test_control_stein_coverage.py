"""Stein's two stages cover what they claim, by simulation with fixed seeds.

2000 replications of a true 95 % give 93.6 % or less once in 500 (binomial); 93 % is
the project's line, so a failure means a wrong rule and not bad luck.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchwright.control.decide import decide
from benchwright.control.history import History
from benchwright.control.stein import reached_intervals
from benchwright.model.decision import RunMore, Stop
from benchwright.model.plan import UntilPrecise

SEED = 20_261_121
REPLICATIONS = 2000
RULE = UntilPrecise(0.05, maximum=2000)


def simulate(cv: float, rng: np.random.Generator) -> tuple[bool, int, bool]:
    """Return whether the interval covered, the trials used, and whether it answered."""
    values: list[float] = []
    while True:
        history = History(len(values), series={"elapsed": tuple(values)})
        decision = decide(RULE, history)
        if isinstance(decision, Stop):
            (estimate,) = reached_intervals(RULE, history)
            return estimate.low <= 1 <= estimate.high, len(values), decision.answered
        assert isinstance(decision, RunMore)
        values.extend(rng.normal(1, cv, decision.epochs).tolist())


@pytest.mark.parametrize(
    ("cv", "largest_mean_n"), [(0.02, 20), (0.08, 21), (0.12, 29), (0.16, 50)]
)
def test_coverage_at_nominal_95_percent(cv: float, largest_mean_n: float) -> None:
    rng = np.random.default_rng([SEED, int(1000 * cv)])
    runs = [simulate(cv, rng) for _ in range(REPLICATIONS)]
    coverage = sum(covered for covered, _, _ in runs) / REPLICATIONS
    size = sum(n for _, n, _ in runs) / REPLICATIONS
    print(f"CV {cv:.0%}: coverage {coverage:.1%}, mean n {size:.1f}, seed {SEED}")
    assert coverage >= 0.93
    assert 20 <= size <= largest_mean_n
    assert all(answered for _, _, answered in runs)


def test_the_simulation_can_fail() -> None:
    """An interval of half the width must be caught by the same count."""
    rng = np.random.default_rng(SEED)
    hits = 0
    for _ in range(REPLICATIONS):
        sample = rng.normal(1, 0.16, 20)
        (estimate,) = reached_intervals(
            RULE, History(20, series={"elapsed": tuple(sample.tolist())})
        )
        hits += abs(estimate.value - 1) <= estimate.half_width / 2
    assert hits / REPLICATIONS < 0.8
