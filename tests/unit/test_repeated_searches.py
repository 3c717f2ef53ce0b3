"""What counts as agreement of repeated searches (benches/parts/repeated_searches.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.repeated_searches import (
    LongRun,
    Search,
    agreement,
    confirmed,
    cost_ratio,
)

sys.path.pop(0)


def found(peak: float, half: float = 0.03, cost_s: float = 60.0) -> Search:
    """Return a search with an answer."""
    return Search(True, peak, peak * (1 - half), peak * (1 + half), cost_s)


SPENT = Search(False, 100.0, 95.0, 105.0, 300.0)


def test_nine_of_ten_within_their_interval_are_enough_and_eight_are_not() -> None:
    good = [found(100.0)] * 8
    nine = agreement([*good, found(102.0), found(120.0)])
    assert (nine.agreeing, nine.median_peak, nine.kept) == (9, 100.0, True)
    eight = agreement([*good, found(80.0), found(120.0)])
    assert (eight.agreeing, eight.kept) == (8, False)


def test_a_search_without_an_answer_does_not_agree_although_its_interval_would() -> (
    None
):
    told = agreement([found(100.0)] * 8 + [SPENT] * 2)
    assert (told.repetitions, told.found, told.agreeing) == (10, 8, 8)
    assert not told.kept
    assert told.median_cost_s == 60.0, "its cost counts"


def test_pairs_count_who_lies_in_whose_interval() -> None:
    wide, narrow = found(100.0, 0.05), found(104.0, 0.01)
    told = agreement([wide, narrow])
    assert told.pair_share == 0.5, "104 is in 95 .. 105, 100 not in 102.96 .. 105.04"
    assert told.most_common == 2, "103 to 105 is in both"
    assert told.widest_error == pytest.approx(2 / 102)


def test_a_machine_that_slows_down_shows() -> None:
    peaks = [100.0, 101.0, 99.0, 90.0, 91.0, 89.0]
    assert agreement([found(p) for p in peaks]).later_over_earlier == pytest.approx(0.9)


def test_nothing_found_is_no_agreement() -> None:
    for none in ([], [SPENT], [Search(False, None, None, None, 9.0)]):
        told = agreement(none)
        assert (told.kept, told.median_peak, told.pair_share) == (False, None, None)


@given(st.lists(st.floats(50, 150), min_size=1, max_size=12))
def test_no_rate_is_in_fewer_intervals_than_the_median_answer(
    peaks: list[float],
) -> None:
    told = agreement([found(peak) for peak in peaks])
    assert told.agreeing <= told.most_common <= told.found == len(peaks)
    assert told.most_common >= 1


def long(share: float, holds: bool | None) -> LongRun:
    """Return a long run."""
    return LongRun(share, 100 * share, holds, "")


@pytest.mark.parametrize(
    ("runs", "wanted"),
    [
        ([long(0.95, True), long(1.05, False)], True),
        ([long(0.95, True), long(1.05, False), long(0.95, False)], False),
        ([long(0.95, True), long(1.05, True)], False),
        ([long(0.95, True), long(1.05, None)], None),
        ([long(0.95, True)], None),
        ([], None),
    ],
)
def test_every_long_run_must_be_on_its_side(
    runs: list[LongRun], wanted: bool | None
) -> None:
    assert confirmed(runs) is wanted


def test_a_peer_that_was_cut_off_costs_at_least_so_much() -> None:
    ours = agreement([found(100.0)])
    assert cost_ratio(found(100.0, cost_s=600.0), ours) == "10.0"
    assert cost_ratio(SPENT, ours) == "at least 5.0"
    assert cost_ratio(SPENT, agreement([])) == "unknown"
