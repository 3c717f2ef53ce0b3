"""Little time: a search of twenty or forty seconds ends in time with an answer or a bound that is
true."""

from __future__ import annotations

import pytest

from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.types import Claim, ClaimKind
from held_out import BY_NAME
from world import Search, search_of

CLAIM = Claim(ClaimKind.RATE, 0.05)


def searches(server: str, budget_s: float) -> list[Search]:
    """Return six searches of a server within a budget."""
    one = BY_NAME[server]
    return [search_of(Monotone(), one, seed, CLAIM, budget_s) for seed in range(6)]


@pytest.mark.parametrize("budget_s", [20.0, 40.0])
@pytest.mark.parametrize("server", ["A-mm4", "D-mm2-elastic", "fast", "wall"])
def test_a_small_budget_is_enough_for_a_true_answer_or_bound(server: str, budget_s: float) -> None:
    peak = BY_NAME[server].peak_rate
    near = 0
    for search in searches(server, budget_s):
        result = search.result
        assert result is not None
        assert search.load_s <= budget_s
        assert len(search.history) >= 6, "more than one long run"
        assert result.peak_rate is not None
        if result.bound_kind == "lower":
            assert result.peak_rate <= 1.1 * peak
        elif result.bound_kind == "upper":
            assert result.peak_rate >= 0.9 * peak
        else:
            assert 0.7 * peak <= result.peak_rate <= 1.3 * peak
            assert result.interval is not None
            assert result.interval.low <= 1.05 * peak
            assert result.interval.high >= 0.95 * peak
            near += 0.85 * peak <= result.peak_rate <= 1.15 * peak
    assert near >= 4


def test_more_time_makes_the_answer_surer() -> None:
    widths = []
    for budget_s in (20.0, 80.0, 600.0):
        ends = [
            search.result.interval.high / search.result.interval.low
            for search in searches("A-mm4", budget_s)
            if search.result is not None and search.result.interval is not None
        ]
        assert len(ends) >= 5
        widths.append(sum(ends) / len(ends))
    assert widths[0] > widths[1] > widths[2]


def test_a_search_of_one_second_says_that_it_knows_little() -> None:
    for search in searches("A-mm4", 1.0):
        assert search.result is not None
        assert len(search.history) == 1
        assert search.result.bound_kind is not None
        assert search.result.claim_probability is None
