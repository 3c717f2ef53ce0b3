"""What was measured outweighs what was fitted: tallies, bounds, and results that the trials do not
contradict."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.core.results import Estimate
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.peak.policies.evidence import (
    limits_hold,
    measured_bounds,
    tallies,
    weighed,
)
from benchwright.features.search.types import Claim, ClaimResult, CurvePoint, PeakStatus, RateTally
from hand_written import MEAN_RESPONSE

MEAN = Criterion(MEAN_RESPONSE, 40.0)
ERRORS = Criterion("error_ratio", 0.01, unit="", statistic="ratio")
LIMITS = (MEAN, ERRORS)


def trial(rate: float, *, holds: bool, **fields: object) -> LoadTrial:
    """Return a run that meets the limits or does not."""
    values = {MEAN.key: 20.0 if holds else 90.0, ERRORS.key: 0.0}
    one = LoadTrial(rate=rate, duration_s=10.0, lasted_s=10.0, cost_s=10.0, values=values)
    return msgspec.structs.replace(one, **fields)


def trials(**rates: str) -> list[LoadTrial]:
    """Return runs: `r100="hhf"` are two that held and one that failed at 100/s."""
    return [
        trial(float(name[1:]), holds=one == "h")
        for name, verdicts in rates.items()
        for one in verdicts
    ]


def answer(rate: float, low: float, high: float, **fields: object) -> ClaimResult:
    """Return a result of a policy, whatever was measured."""
    one = ClaimResult(
        status=PeakStatus.UNDECIDED,
        detail="",
        claim=Claim(),
        policy="any",
        peak_rate=rate,
        interval=Estimate(rate, low, high, 0.95, "a fit", 3, "1/s"),
        claim_probability=0.9,
        check=(RateTally(0.95 * rate, 1, 0),),
    )
    return msgspec.structs.replace(one, **fields)


# Tallies ------------------------------------------------------------------------------------


def test_a_trial_holds_if_it_meets_every_limit_that_it_has_a_value_of() -> None:
    good = trial(100, holds=True)
    assert limits_hold(LIMITS, good)
    errors = msgspec.structs.replace(good, values=good.values | {ERRORS.key: 0.02})
    assert not limits_hold(LIMITS, errors)
    assert limits_hold((MEAN,), errors)
    assert limits_hold(LIMITS, msgspec.structs.replace(good, values={MEAN.key: 20.0}))
    died = msgspec.structs.replace(good, ending=LoadEnding.FAILED)
    assert not limits_hold(LIMITS, died)


@pytest.mark.parametrize(
    ("verdicts", "fails"), [("h", False), ("f", True), ("hf", False), ("hff", True), ("hhf", False)]
)
def test_a_rate_fails_by_the_majority_of_its_trials(verdicts: str, fails: bool) -> None:
    (tally,) = tallies(LIMITS, trials(r100=verdicts))
    assert (tally.held, tally.failed) == (verdicts.count("h"), verdicts.count("f"))
    assert tally.fails == fails


def test_rates_are_counted_apart_and_in_order() -> None:
    found = tallies(LIMITS, trials(r200="f", r100="hh", r150="hf"))
    assert found == (RateTally(100, 2, 0), RateTally(150, 1, 1), RateTally(200, 0, 1))


def test_a_rate_that_was_not_offered_counts_at_what_was() -> None:
    behind = trial(400, holds=True, offered=1500, completed=1500)
    assert tallies(LIMITS, [behind]) == (RateTally(150, 1, 0),)


@pytest.mark.parametrize(
    ("rates", "held", "failed"),
    [
        ({"r1": "h", "r2": "h", "r3": "f"}, 2, 3),
        ({"r1": "h", "r2": "hhf", "r3": "hff"}, 2, 3),
        # A failure below what held contradicts it, and is contradicted by it.
        ({"r1": "h", "r2": "f", "r3": "h", "r4": "f"}, 1, 4),
        ({"r1": "h", "r2": "h"}, 2, None),
        ({"r1": "f", "r2": "f"}, None, 1),
        ({"r1": "f", "r2": "h"}, None, None),
        ({}, None, None),
    ],
)
def test_bounds_are_rates_that_nothing_contradicts(
    rates: dict[str, str], held: float | None, failed: float | None
) -> None:
    bounds = measured_bounds(tallies(LIMITS, trials(**rates)))
    assert (bounds.held, bounds.failed) == (held, failed)


# Results ------------------------------------------------------------------------------------


def test_where_nothing_failed_the_answer_is_the_highest_rate_as_a_lower_bound() -> None:
    found = weighed(LIMITS, answer(900, 500, 2000), trials(r100="h", r200="hhf"))
    assert (found.peak_rate, found.bound_kind) == (200, "lower")
    assert found.interval is None
    assert found.claim_probability is None
    assert found.check == (), "it was beside another rate"


def test_where_nothing_held_the_answer_is_the_lowest_rate_as_an_upper_bound() -> None:
    found = weighed(LIMITS, answer(20, 5, 60), trials(r100="f", r200="f"))
    assert (found.peak_rate, found.bound_kind) == (100, "upper")
    assert found.interval is None


def test_an_answer_that_the_trials_do_not_contradict_is_unchanged() -> None:
    result = answer(150, 120, 190)
    assert weighed(LIMITS, result, trials(r100="h", r200="f")) == result


def test_an_interval_is_widened_to_what_held_and_to_what_failed() -> None:
    known = trials(r100="hh", r180="hh", r200="f")
    points = (CurvePoint(120.0, 39.0, 40.0, 41.0), CurvePoint(150.0, 55.0, 60.0, 65.0))
    low = weighed(LIMITS, answer(120, 110, 130, curve=points), known)
    assert low.curve == (), "the fit is contradicted"
    assert low.peak_rate == 180
    assert low.interval is not None
    assert (low.interval.low, low.interval.high) == (110, 180)
    assert low.check == (), "it was beside another rate"
    assert low.claim_probability is None, "another rate than that of the claim"
    high = weighed(LIMITS, answer(300, 250, 400), known)
    assert high.peak_rate == 189.74, "between what held and what exceeded the limit"
    assert high.interval is not None
    assert high.interval.low == high.interval.value == 189.74
    stepped = weighed(LIMITS, answer(300, 250, 400), known, step=20.0)
    assert stepped.peak_rate == 180


def test_an_answer_beyond_a_failure_is_above_what_held_below_it() -> None:
    """The lowest rate exceeded a limit too, so that nothing held without a contradiction."""
    known = trials(r100="f", r150="h", r200="f")
    found = weighed(LIMITS, answer(300, 250, 400), known)
    assert found.peak_rate == 173.21


def test_a_single_failure_below_what_held_widens_nothing() -> None:
    result = answer(190, 185, 195)
    known = trials(r100="f", r180="hh", r200="ff")
    assert weighed(LIMITS, result, known) == result


def test_a_claim_that_was_found_keeps_its_rate() -> None:
    found = answer(170, 165, 175, status=PeakStatus.FOUND)
    known = trials(r100="h", r180="hh", r200="f")
    weighed_result = weighed(LIMITS, found, known)
    assert weighed_result.peak_rate == 170
    assert weighed_result.claim_probability == found.claim_probability
    assert weighed_result.interval is not None
    assert weighed_result.interval.high == 180


RATES = st.dictionaries(
    st.integers(1, 12).map(lambda n: 50.0 * n),
    st.text("hf", min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)


@given(
    rates=RATES,
    ends=st.tuples(*[st.floats(1, 5000)] * 3).map(sorted),
    status=st.sampled_from([PeakStatus.UNDECIDED, PeakStatus.BUDGET]),
)
def test_no_answer_is_beyond_the_rates_that_were_tried(
    rates: dict[float, str], ends: list[float], status: PeakStatus
) -> None:
    known = [trial(r, holds=v == "h") for r, text in rates.items() for v in text]
    low, rate, high = ends
    result = weighed(LIMITS, answer(rate, low, high, status=status), known)
    assert result.peak_rate is not None
    assert result.peak_rate <= max(rates)
    counted = tallies(LIMITS, known)
    bounds = measured_bounds(counted)
    if result.bound_kind is not None:
        assert result.interval is None
        verdicts = [tally.fails for tally in counted]
        assert all(verdicts) or not any(verdicts)
        return
    assert result.interval is not None
    assert result.interval.low <= result.peak_rate <= result.interval.high
    if bounds.held is not None:
        assert result.peak_rate >= bounds.held
        assert result.interval.high >= bounds.held
    if bounds.failed is not None:
        assert result.peak_rate <= bounds.failed
        assert result.interval.low <= bounds.failed


@given(rates=RATES)
def test_bounds_are_in_order(rates: dict[float, str]) -> None:
    known = [trial(r, holds=v == "h") for r, text in rates.items() for v in text]
    counted = tallies(LIMITS, known)
    assert all(a.rate < b.rate for a, b in itertools.pairwise(counted))
    bounds = measured_bounds(counted)
    if bounds.held is not None and bounds.failed is not None:
        assert bounds.held < bounds.failed
