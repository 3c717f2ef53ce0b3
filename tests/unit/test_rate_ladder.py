"""The truth from fixed-rate runs, and how searches are judged by it (benches/parts/rate_ladder.py)."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.rate_ladder import (
    ENOUGH_RUNS,
    RUNGS,
    STEP,
    Answer,
    Outcome,
    Region,
    Run,
    first_rates,
    judged,
    next_rates,
    pools,
    region,
    rung,
)

sys.path.pop(0)

HELD, FAILED, LATE = Outcome.HELD, Outcome.FAILED, Outcome.LATE
TRUTH = Region(low=1000.0, high=1100.0, runs=20, late=0)


def runs(**outcomes: str) -> list[Run]:
    """Return runs by rate: r100="hhf" are two that held at 100/s and one that failed."""
    known = {"h": HELD, "f": FAILED, "l": LATE, "n": Outcome.NONE}
    return [
        Run(float(name[1:]), known[letter])
        for name, letters in outcomes.items()
        for letter in letters
    ]


def answer(
    status: str,
    peak: float | None,
    low: float | None = None,
    high: float | None = None,
    serious: bool = False,
    bound: str | None = None,
) -> Answer:
    return Answer(status, peak, low, high, serious, bound)


@pytest.mark.parametrize(
    ("made", "low", "high"),
    [
        (runs(r100="hh", r200="hh", r300="ff", r400="ff"), 200, 300),
        # Rates with mixed results are inside.
        (runs(r100="hhh", r200="hf", r300="fh", r400="fff"), 100, 400),
        # One run of many that was disturbed moves nothing.
        (runs(r100="hhf", r200="hhh", r300="hhhh", r400="ff"), 300, 400),
        # One of three did not hold, and no more were made above it.
        (runs(r100="hh", r200="hhf", r300="ff"), 100, 300),
        # A rate that held once between those that failed has mixed results.
        (runs(r100="hh", r200="ff", r300="h", r400="ff"), 100, 400),
        (runs(r100="hh", r200="hh"), 200, None),
        (runs(r100="ff", r200="ff"), None, 100),
        # A single run is not enough for a bound.
        (runs(r100="h", r200="f"), None, None),
        # A bound is where two runs show it, at that rate or beyond.
        (runs(r100="h", r200="h", r300="f", r400="f"), 100, 400),
        (runs(r100="hh", r200="hlll", r300="llll", r400="ff"), 100, 400),
        # What the generator spoiled is no evidence.
        (runs(r100="hh", r200="hhll", r300="llll", r400="ffl"), 200, 400),
        ([], None, None),
    ],
)
def test_the_region_is_what_the_runs_leave_open(
    made: list[Run], low: float | None, high: float | None
) -> None:
    found = region(made)
    assert (found.low, found.high) == (low, high)
    assert found.runs + found.late == len(made)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([100.0, 200.0, 300.0, 400.0, 500.0]),
            st.sampled_from([HELD, FAILED, LATE]),
        )
    )
)
def test_pooled_shares_never_fall_and_count_every_run(made: list[tuple[float, Outcome]]) -> None:
    every = [Run(*one) for one in made]
    pooled = pools(every)
    counted = [run for run in every if run.outcome is not LATE]
    assert sum(one.runs for one in pooled) == len(counted)
    assert sum(one.failed for one in pooled) == sum(run.outcome is FAILED for run in counted)
    for one, other in itertools.pairwise(pooled):
        assert one.high < other.low
        assert one.share < other.share
    found = region(every)
    if found.low is not None and found.high is not None:
        assert found.low < found.high


@pytest.mark.parametrize("peak", [0.07, 3.0, 240.0, 26_000.0, 2e6])
@pytest.mark.parametrize("capacity", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_ladder_ends_around_the_peak_of_a_server_from_whatever_it_begins(
    peak: float, capacity: float, seed: int
) -> None:
    made: list[Run] = []
    rates = first_rates(capacity * peak)
    for number in range(9):
        for rate in rates:
            assert rung(rate) == rate
            made.append(Run(rate, HELD if rate < peak else FAILED))
        rates = next_rates(made, random.Random(seed + number))
        assert len(set(rates)) == len(rates) <= RUNGS
    found = region(made)
    assert found.low is not None
    assert found.high is not None
    assert found.low < peak <= found.high
    assert found.high / found.low < STEP**3


def test_rates_at_which_the_generator_is_late_end_the_ladder() -> None:
    made: list[Run] = []
    rates = first_rates(1000.0)
    for number in range(8):
        made += [Run(rate, HELD if rate < 600 else LATE) for rate in rates]
        rates = next_rates(made, random.Random(number))
    found = region(made)
    assert found.high is None
    assert found.low is not None
    assert 500 < found.low < 600
    assert max(run.rate for run in made) < 1200


@pytest.mark.parametrize(
    ("said", "off", "wrong"),
    [
        (answer("found", 1050.0, 1000.0, 1100.0), 1.0, False),
        (answer("found", 1200.0, 1150.0, 1250.0), 1200 / 1100, False),
        (answer("found", 500.0, 480.0, 520.0), 2.0, True),
        (answer("found", 500.0, 480.0, 520.0, serious=True), 2.0, False),
        # Undecided: it states its interval, not its best guess.
        (answer("budget", 500.0, 400.0, 2000.0), 1.0, False),
        (answer("budget", 500.0, 400.0, 550.0), 1000 / 550, True),
        (answer("budget", 500.0, 400.0, None), 1.0, False),
        # A bound, or a best answer without an interval.
        (answer("never-fails", 900.0, bound="lower"), 1.0, False),
        (answer("never-fails", 2200.0, bound="lower"), 2.0, True),
        (answer("fails-at-lowest", 1.0, bound="upper"), 1000.0, True),
        (answer("budget", 900.0, 850.0, 950.0, bound="lower"), 1.0, False),
        (answer("budget", None), 1.0, False),
        (answer("no answer", None), 1.0, False),
    ],
)
def test_an_answer_is_judged_by_what_it_states(said: Answer, off: float, wrong: bool) -> None:
    found = judged(said, TRUTH)
    assert found.off == pytest.approx(off)
    assert found.is_wrong == wrong
    assert found.is_inside == (off <= 1.05)


def test_the_best_guess_of_an_undecided_search_is_judged_beside_it() -> None:
    found = judged(answer("budget", 100.0, 50.0, 4000.0), TRUTH)
    assert (found.off, found.best_off) == (1.0, 10.0)
    bound = judged(answer("budget", 100.0, bound="lower"), TRUTH)
    assert (bound.off, bound.best_off) == (1.0, 10.0)


def test_a_region_that_is_open_contradicts_nothing_on_that_side() -> None:
    open_above = Region(low=1000.0, high=None, runs=4, late=3)
    assert judged(answer("found", 9000.0), open_above).off == 1.0
    assert judged(answer("found", 100.0), open_above).is_wrong
    nothing = region([], ENOUGH_RUNS)
    assert judged(answer("found", 9000.0), nothing).off == 1.0
