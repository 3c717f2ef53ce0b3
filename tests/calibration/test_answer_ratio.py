"""Coverage of the interval of a ratio in the table of a run: MOVER from two Student intervals."""

from __future__ import annotations

import numpy as np
import pytest

from benchwright.report.answer import ratio_of
from benchwright.stats.intervals import t_interval

ROUNDS = 4000


@pytest.mark.parametrize("n", [5, 10, 30])
@pytest.mark.parametrize("deviation", [0.02, 0.2])
def test_the_interval_of_a_ratio_covers_the_true_ratio(n: int, deviation: float) -> None:
    random = np.random.default_rng(1000 * n + int(100 * deviation))
    covered = 0
    for _ in range(ROUNDS):
        one = t_interval(random.normal(3, 3 * deviation, n))
        other = t_interval(random.normal(1, deviation, n))
        found = ratio_of(one, other)
        assert found is not None
        covered += not found.low > 3 and not found.high < 3
    # Three standard errors of a coverage of 95 % are 1.03 %.
    assert 0.939 < covered / ROUNDS < 0.985
