"""Trials that only a late generator spoilt: they decide nothing, and their rates are tried again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
import pytest

from benchwright.core.criterion import Criterion
from benchwright.core.results import Finding, Severity
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import is_void, tallies
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.peak.policies.trials import (
    late_findings,
    late_trials,
    on_time,
    resolve_failures,
)
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from hand_written import MEAN_RESPONSE, mean_response_ms

MEAN = Criterion(MEAN_RESPONSE, 40.0)
P99 = Criterion("response_ms_p99", 100.0, statistic="percentile", share=0.99)
GOAL = PeakGoal(criteria=(MEAN,), start_rate=50.0)


def trial(rate: float, mean_ms: float, late_ms: float = 0.0, lasts_s: float = 20.0) -> LoadTrial:
    """Return a run whose mean response includes this lateness of the generator."""
    count = round(lasts_s * rate)
    return LoadTrial(
        rate=rate,
        duration_s=lasts_s,
        lasted_s=lasts_s,
        cost_s=lasts_s,
        values={MEAN.key: mean_ms},
        target_values={MEAN.key: mean_ms - late_ms},
        late_p99_ms=4 * late_ms,
        offered=count,
        completed=count,
    )


HELD, LATE, FAILED = trial(100, 20.0), trial(200, 70.0, 50.0), trial(200, 90.0, 4.0)


def test_a_trial_is_void_only_where_it_would_have_held_on_time() -> None:
    assert not is_void((MEAN,), HELD)
    assert is_void((MEAN,), LATE)
    assert not is_void((MEAN,), FAILED), "the server is too slow without the lateness"
    silent = msgspec.structs.replace(LATE, target_values={})
    assert not is_void((MEAN,), silent), "the generator does not know it"
    died = msgspec.structs.replace(LATE, ending=LoadEnding.FAILED)
    assert not is_void((MEAN,), died)


def test_a_trial_is_void_only_where_the_lateness_explains_every_limit() -> None:
    values = {MEAN.key: 70.0, P99.key: 300.0}
    one = msgspec.structs.replace(LATE, values=values)
    both = {MEAN.key: 20.0, P99.key: 90.0}
    assert is_void((MEAN, P99), msgspec.structs.replace(one, target_values=both))
    slow = both | {P99.key: 110.0}
    little = msgspec.structs.replace(one, target_values=slow, late_p99_ms=30.0)
    assert not is_void((MEAN, P99), little)


@pytest.mark.parametrize(
    ("late_p99_ms", "rest", "void"),
    [(30.0, 1.2, True), (10.0, 1.2, False), (30.0, 1.05 * tuning.VOID_BEYOND, False)],
)
def test_much_lateness_also_explains_a_little_more_than_the_limit(
    late_p99_ms: float, rest: float, void: bool
) -> None:
    """Operations that waited for the generator come in a burst, in which the server is slower."""
    own = {MEAN.key: rest * MEAN.limit}
    one = msgspec.structs.replace(LATE, target_values=own, late_p99_ms=late_p99_ms)
    assert is_void((MEAN,), msgspec.structs.replace(one, values={MEAN.key: 900.0})) == void


def test_refusals_after_a_burst_are_void() -> None:
    """At 1,000/s 40 ms of lateness are 40 operations at once; at 100/s they are four."""
    errors = Criterion("error_ratio", 0.01, unit="", statistic="ratio")
    for rate, void in ((1000.0, True), (100.0, False)):
        one = msgspec.structs.replace(
            trial(rate, 20.0),
            values={errors.key: 0.02},
            target_values={errors.key: 0.02},
            late_p99_ms=40.0,
        )
        assert is_void((errors,), one) == void


@pytest.mark.parametrize("allowed", [0.001, 0.0])
@pytest.mark.parametrize(("wrong", "void"), [(0.02, True), (0.06, False)])
@pytest.mark.parametrize("share", [False, True])
def test_a_burst_may_cost_as_many_operations_as_come_in_it(
    allowed: float, wrong: float, void: bool, share: bool
) -> None:
    """One in a hundred came later than the p99: for a limit of one in a thousand that is many
    limits."""
    limit, value = Criterion("error_ratio", allowed, "", "lower", "ratio"), wrong
    if share:
        limit = Criterion("within_40ms_share", 1 - allowed, "", "higher", "share")
        value = 1 - wrong
    late = msgspec.structs.replace(
        trial(1000.0, 20.0),
        values={limit.key: value},
        target_values={limit.key: value},
        late_p99_ms=40.0,
    )
    assert is_void((limit,), late) == void


def test_values_without_the_lateness_are_the_servers_and_the_series_is_in_proportion() -> None:
    series = LoadSeries(at_s=(0.0, 1.0), counts=(5, 5), values={MEAN.key: (20.0, 40.0)})
    late = msgspec.structs.replace(trial(100, 30.0, 15.0), series=series)
    right = on_time(late)
    assert right.values[MEAN.key] == 15.0
    assert right.series.values[MEAN.key] == (10.0, 20.0)
    assert right.series.counts == series.counts
    known = msgspec.structs.replace(late, target_values={})
    assert on_time(known) is known


def test_a_policy_sees_the_servers_values_and_no_void_trial() -> None:
    late = trial(120, 30.0, 15.0)
    seen = resolve_failures(GOAL, [late, LATE, FAILED]).trials
    assert [one.values[MEAN.key] for one in seen] == [15.0, 86.0]
    assert tallies(GOAL.criteria, seen)[-1].failed == 1


# The next probe -------------------------------------------------------------------------


def test_a_void_rate_is_tried_again_with_a_control_between() -> None:
    history = [HELD, LATE]
    rates, purposes = [], []
    while isinstance(step := late_trials(GOAL, history).next, Probe):
        rates.append(step.rate)
        purposes.append(step.purpose)
        history.append(LATE if step.rate == 200 else HELD)
    assert rates == [100, 200, 100, 200]
    assert purposes == ["control", "again"] * 2
    assert sum(is_void(GOAL.criteria, t) for t in history) == tuning.ENOUGH_TRIALS


def test_a_void_first_trial_is_tried_again_without_a_control() -> None:
    late = trial(50, 70.0, 50.0)
    again = late_trials(GOAL, [late]).next
    assert again is not None
    assert (again.rate, again.purpose) == (50, "again")


@pytest.mark.parametrize("usable", [trial(200, 30.0), FAILED])
def test_a_rate_that_was_usable_once_is_not_tried_again(usable: LoadTrial) -> None:
    late = late_trials(GOAL, [HELD, LATE, HELD, usable])
    assert late.next is None
    assert math.isinf(late.untestable)
    assert not late.ended


def test_rates_that_stay_void_end_the_search_near_what_held() -> None:
    far = [HELD, *[LATE, HELD] * tuning.ENOUGH_TRIALS]
    late = late_trials(GOAL, far)
    assert late.untestable == 200
    assert not late.ended, "there are rates between"
    near = [*far, *[trial(120, 60.0, 40.0), HELD] * tuning.ENOUGH_TRIALS]
    assert late_trials(GOAL, near).ended, "120/s is within a quarter of 100/s"


# Whole searches --------------------------------------------------------------------------


Late = Callable[[float], float]
"""Rate -> lateness of the generator [ms]."""


def played(late: Late, own: Late = mean_response_ms) -> tuple[list[LoadTrial], ClaimResult]:
    """Return a search whose generator is late by `late`, of a server with the response `own` [ms]."""
    history: list[LoadTrial] = []
    goal = msgspec.structs.replace(GOAL, claim=Claim(ClaimKind.RATE, 0.05))
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        late_ms = late(step.rate)
        whole_ms = own(step.rate) + late_ms
        history.append(trial(step.rate, whole_ms, late_ms, step.duration_s))
    return history, step


def from_rate(rate: float, late_ms: float) -> Late:
    """Return a lateness from a rate on."""
    return lambda here: late_ms if here >= rate else 0.0


def found_code(findings: tuple[Finding, ...], code: str) -> Finding:
    """Return the one finding of a code."""
    (one,) = (f for f in findings if f.code == code)
    return one


def test_a_search_ends_with_what_held_where_the_generator_is_always_late_above() -> None:
    history, result = played(from_rate(300.0, 200.0), lambda _rate: 20.0)
    assert result.status is PeakStatus.UNDECIDED
    assert result.bound_kind == "lower"
    assert result.peak_rate is not None
    assert 300 / tuning.NEAR_RATES <= result.peak_rate < 300
    assert result.interval is None
    assert result.claim_probability is None
    finding = found_code(result.findings, "generator-late")
    assert finding.severity is Severity.SERIOUS
    void = sum(is_void(GOAL.criteria, one) for one in history)
    assert f"in {void} of {len(history)} trials" in finding.evidence
    assert "p99 up to 800 ms (limit 40 ms)" in finding.evidence
    assert f"{void} trials exceeded a limit, perhaps only because of that" in finding.evidence


def test_a_generator_that_is_always_late_gives_no_answer() -> None:
    history, result = played(from_rate(0.0, 200.0), lambda _rate: 20.0)
    assert result.status is PeakStatus.UNDECIDED
    assert result.peak_rate is None
    assert len(history) <= 2 * tuning.MANY_TRIALS
    finding = found_code(result.findings, "generator-late")
    assert finding.severity is Severity.SERIOUS


def test_a_trial_that_fails_both_ways_fails() -> None:
    """The generator is late only far above the peak, where the server is far too slow anyway."""
    history, result = played(from_rate(300.0, 200.0))
    assert any(one.late_p99_ms for one in history)
    assert not any(is_void(GOAL.criteria, one) for one in history)
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(236, rel=0.02)


def test_a_lateness_that_changes_no_verdict_does_not_move_the_answer() -> None:
    """A step at 236/s, and 15 ms of lateness at every rate: the mean is 25 ms below it."""
    history, result = played(from_rate(0.0, 15.0), lambda rate: 10.0 if rate <= 236 else 5000.0)
    assert not any(is_void(GOAL.criteria, one) for one in history)
    assert result.peak_rate == pytest.approx(236, rel=0.05)
    near = [point.middle for point in result.curve if point.rate <= result.peak_rate]
    assert max(near) < 12, "the curve is the server's"


def test_a_generator_that_is_late_now_and_then_costs_trials_and_no_answer() -> None:
    chance = random.Random(7)
    history, result = played(lambda _rate: 80.0 * (chance.random() < 0.15))
    assert any(is_void(GOAL.criteria, one) for one in history)
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(236, rel=0.05)
    finding = found_code(result.findings, "generator-late")
    assert finding.severity is not Severity.SERIOUS


# The finding ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late_ms", "severity"), [(0.5, None), (2.0, Severity.WARNING), (8.0, Severity.SERIOUS)]
)
def test_the_finding_is_serious_where_the_lateness_is_much_of_the_limit(
    late_ms: float, severity: Severity | None
) -> None:
    """p99 is 2, 8 and 32 ms of a limit of 40 ms."""
    history = [trial(100 + n, 30.0, late_ms) for n in range(4)]
    late = late_trials(GOAL, history)
    found = late_findings(GOAL, 100.0, history, late)
    assert [one.severity for one in found] == ([] if severity is None else [severity])


def test_lateness_far_from_the_answer_is_no_serious_finding() -> None:
    far = [trial(1000 + n, 30.0, 8.0) for n in range(4)]
    history = [trial(100, 30.0), *far]
    (found,) = late_findings(GOAL, 100.0, history, late_trials(GOAL, history))
    assert found.severity is Severity.WARNING
    assert "in 4 of 5 trials" in found.evidence
