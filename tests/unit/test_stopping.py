"""The four stopping rules, at their edges."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import t as student

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import (
    AskProgram,
    Command,
    Decision,
    FixedCount,
    MetricSpec,
    RunMore,
    StopDecision,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.decide.history import History, HistoryBuilder
from benchwright.decide.precision import alternatives, needed_trials, sequential_interval, stages
from benchwright.decide.stopping import LookSchedule, current_estimate, decide, out_of_reach
from benchwright.stats.dependence import ar1_inflation
from benchwright.stats.sample import rounding_error

SECOND = 10**9


def run(trials: int, failed: int = 0, **series: list[float]) -> History:
    return History(trials, failed, {k: tuple(v) for k, v in series.items()})


def stopped(decision: Decision) -> StopDecision:
    assert isinstance(decision, StopDecision), decision
    return decision


def noisy(n: int, share: float = 0.1) -> list[float]:
    return [1 + share * (-1) ** k for k in range(n)]


# -- counts --------------------------------------------------------------------------


def test_a_count_is_run_whatever_the_batches() -> None:
    assert decide(FixedCount(10), run(0)) == RunMore(10)
    assert decide(FixedCount(10), run(3, 1)) == RunMore(6)
    stop = stopped(decide(FixedCount(10), run(9, 1)))
    assert (stop.reason, stop.answered) == ("count", True)
    assert stop.detail == "10 trials (1 failed), as requested"


def test_a_count_of_failures_only_is_no_answer() -> None:
    stop = stopped(decide(FixedCount(2), run(0, 2)))
    assert (stop.reason, stop.answered) == ("failed", False)


def test_a_count_without_a_declared_metric_is_no_answer() -> None:
    history = History(2, series={"elapsed": (1.0, 2.0)}, metrics=("ops",))
    stop = stopped(decide(FixedCount(2), history))
    assert (stop.reason, stop.answered) == ("missing", False)
    assert stop.detail == "ops is in none of 2 completed trials"


def test_a_count_of_zero_stops_at_once() -> None:
    assert stopped(decide(FixedCount(0), run(0))).reason == "count"


# -- predicates ------------------------------------------------------------------------

LEGACY = UntilPredicate(10, 2, '("$delta" < 0.05 * $mean) || ($count > 30)')


def test_looks_are_at_fixed_epochs() -> None:
    looks = LookSchedule(10, 3, 20)
    waits = {n: looks.epochs_to_next(n) for n in (0, 9, 10, 11, 13, 18, 19, 20, 21)}
    assert waits == {0: 10, 9: 1, 10: 0, 11: 2, 13: 0, 18: 1, 19: 0, 20: 0, 21: 0}
    assert [looks.taken(n) for n in (10, 13, 19, 20)] == [1, 2, 4, 5]
    assert (looks.step(10), looks.step(19)) == (3, 1)
    assert LookSchedule(30, 1, 20).epochs_to_next(0) == 20


def test_a_predicate_that_holds_stops_and_says_how_often_it_was_looked_at() -> None:
    assert decide(LEGACY, run(0)) == RunMore(10)
    assert decide(LEGACY, run(7)) == RunMore(3)
    assert decide(LEGACY, run(10, elapsed=noisy(10))) == RunMore(2)
    assert decide(LEGACY, run(11, elapsed=noisy(11))) == RunMore(1)
    stop = stopped(decide(LEGACY, run(12, elapsed=noisy(12, 0.01))))
    assert (stop.reason, stop.answered, stop.looks) == ("predicate", True, 2)
    assert "Elapsed after 12 trials" in stop.detail


def test_count_above_30_ends_at_the_next_look() -> None:
    """`$count > 30` really ends at the 31st epoch."""
    rule = UntilPredicate(10, 1, LEGACY.predicate)
    assert decide(rule, run(30, elapsed=noisy(30, 0.5))) == RunMore(1)
    assert stopped(decide(rule, run(31, elapsed=noisy(31, 0.5)))).looks == 22


def test_the_predicate_must_hold_for_every_quantity_that_is_asked() -> None:
    calm, wild = noisy(10, 0.001), noisy(10, 0.5)
    assert decide(LEGACY, run(10, elapsed=calm, user=wild)) == RunMore(2)
    ignored = run(10, elapsed=calm, wait=wild, cpu_percent=wild, free=wild, rss_bytes=wild)
    assert stopped(decide(LEGACY, ignored)).answered
    declared = History(10, series={"elapsed": tuple(calm), "ops": tuple(wild)}, metrics=("ops",))
    assert decide(LEGACY, declared) == RunMore(2)


def test_a_predicates_maximum_ends_it_undecided() -> None:
    rule = UntilPredicate(10, 5, "$delta < 0", maximum=12)
    assert decide(rule, run(10, elapsed=noisy(10))) == RunMore(2)
    stop = stopped(decide(rule, run(12, elapsed=noisy(12))))
    assert (stop.reason, stop.answered, stop.looks) == ("max-runs", False, 2)


def test_what_can_never_converge_ends_undecided() -> None:
    absent = History(10, series={"elapsed": (1.0,) * 10}, metrics=("ops",))
    assert stopped(decide(LEGACY, absent)).reason == "missing"
    assert stopped(decide(LEGACY, run(0, 10))).reason == "failed"
    assert stopped(decide(LEGACY, run(3, 13, elapsed=noisy(3)))).reason == "failed"
    assert decide(LEGACY, run(4, 12, elapsed=noisy(4))) == RunMore(2)


def test_a_bad_predicate_is_bad_input() -> None:
    with pytest.raises(InputError):
        decide(UntilPredicate(1, 1, "$mean <"), run(1, elapsed=[1.0]))


# -- programs --------------------------------------------------------------------------


def test_a_program_is_asked_once_per_look() -> None:
    rule = UntilProgram(4, 2, Command(("stable",)))
    assert decide(rule, run(0)) == RunMore(4)
    assert decide(rule, run(3, 1)) == AskProgram()
    no = History(3, 1, program_answers=((4, 1),))
    assert decide(rule, no) == RunMore(2)
    again = History(5, 1, program_answers=((4, 1),))
    assert decide(rule, again) == AskProgram()
    yes = History(5, 1, program_answers=((4, 1), (6, 0)))
    stop = stopped(decide(rule, yes))
    assert (stop.reason, stop.looks) == ("program", 2)
    assert "`stable` exited with 0 after 6 trials (1 failed)" in stop.detail
    assert stopped(decide(rule, run(0, 4))).reason == "failed"


# -- precision ---------------------------------------------------------------------------


def lasting(n: int, each_s: float, cv: float) -> History:
    """Return a history of n trials that take so long and scatter by so much."""
    values = tuple(noisy(n, cv))
    return History(n, series={"elapsed": values}, duration_ns=int(n * each_s * SECOND))


def test_a_mean_by_plan_is_looked_at_after_the_pilot_and_then_regularly() -> None:
    rule = UntilPrecise(0.05, minimum=20)
    assert decide(rule, run(0)) == RunMore(20)
    assert decide(rule, run(5, elapsed=noisy(5))) == RunMore(15)
    # t(19) = 2.0930, s = 0.15 * sqrt(20/19): a half width of 7.2 % and more.
    assert decide(rule, run(20, elapsed=noisy(20, 0.15))) == RunMore(1)
    assert decide(rule, run(40, elapsed=noisy(40, 0.3))) == RunMore(2)
    assert decide(rule, run(41, elapsed=noisy(41, 0.3))) == RunMore(1), "to the look"
    # t(41) = 2.0195, 1 + 1.25/42, values that alternate have no positive correlation.
    stop = stopped(decide(rule, run(42, elapsed=noisy(42, 0.15))))
    assert (stop.reason, stop.answered, stop.looks) == ("precise", True, 22)
    assert stop.detail.startswith("42 trials, 22 looks; elapsed 1 ± 4.87 %")


def test_a_calm_pilot_is_enough() -> None:
    stop = stopped(decide(UntilPrecise(0.05, minimum=20), run(20, elapsed=noisy(20, 0.01))))
    assert stop.detail.startswith("20 trials, one look")


def test_an_interval_by_plan_reaches_further_where_the_longer_tail_is() -> None:
    """Against Johnson 1978, whose whole correction is m3 (1 + 2 t^2) / (6 s^2 n)."""
    values = [*[1.0] * 5, 1.53, 1.0] * 30
    found = sequential_interval(values, 0.05, 0.95)
    spread, t = np.std(values, ddof=1), student.ppf(0.975, 209)
    half = t * spread / np.sqrt(210) * (1 + 1.25 / 210) * ar1_inflation(values, 0.1)
    third = np.mean((np.array(values) - np.mean(values)) ** 3)
    moved = 0.5 * third * (1 + 2 * t * t) / (6 * spread**2 * 210)
    assert found.half_width == pytest.approx(half)
    assert (found.high + found.low) / 2 - found.value == pytest.approx(moved)
    mirrored = sequential_interval([3 - value for value in values], 0.05, 0.95)
    assert mirrored.low == pytest.approx(3 - found.high)
    assert mirrored.high == pytest.approx(3 - found.low)


def test_an_interval_by_plan_reaches_the_level_after_a_small_warm_up() -> None:
    """Three trials 15 % slower, which no finding sees among noise of 5 %."""
    values = [1.15, 1.15, 1.15, *noisy(27, 0.05)]
    found = sequential_interval(values, 0.05, 0.95)
    later = sequential_interval(values[10:], 0.05, 0.95)
    assert found.low < later.value - 0.5 * later.half_width
    tame = sequential_interval(noisy(300, 0.05), 0.05, 0.95)
    assert tame.half_width == pytest.approx(0.05 * 1.96 / np.sqrt(300), rel=0.15)


def test_the_mean_of_a_coarse_clock_is_known_to_a_part_of_its_step() -> None:
    values = [*[12.0] * 19, 13.0] * 2
    for mode in ("plan", "watch"):
        rule = UntilPrecise(0.05, mode=mode)  # type: ignore[arg-type]
        found = current_estimate(rule, "elapsed", values)
        assert found.half_width >= rounding_error(values) > 0.15


@pytest.mark.parametrize("n", [3, 10, 30, 1000])
def test_an_interval_by_plan_holds_its_mean_however_skewed_the_values_are(n: int) -> None:
    found = sequential_interval([*[1.0] * (n - 1), 9.0], 0.05, 0.95)
    assert found.low < found.value < found.high


def test_a_pilot_of_long_trials_is_shorter() -> None:
    rule = UntilPrecise(0.05, long_minimum=10)
    assert decide(rule, lasting(0, 60, 0.01)) == RunMore(1)
    assert decide(rule, lasting(1, 60, 0.01)) == RunMore(1)
    assert decide(rule, lasting(4, 60, 0.01)) == RunMore(4)
    assert decide(rule, lasting(8, 60, 0.01)) == RunMore(2)
    assert stopped(decide(rule, lasting(10, 60, 0.01))).answered
    assert decide(rule, lasting(10, 60, 0.15)) == RunMore(1)
    # 20 trials of 1.5 s take 30 s; 30 of 1 s do.
    assert decide(rule, lasting(16, 1.5, 0.01)) == RunMore(4)
    assert stopped(decide(rule, lasting(20, 1.5, 0.01))).answered
    assert decide(rule, lasting(16, 0.1, 0.01)) == RunMore(14)
    given = UntilPrecise(0.05, minimum=30)
    assert decide(given, lasting(10, 60, 0.01)) == RunMore(20)


def test_no_interval_of_few_trials_is_much_finer_than_the_target() -> None:
    (few,) = stages(UntilPrecise(0.08), run(10, elapsed=noisy(10, 0.001)))
    assert few.estimate.half_width == pytest.approx(0.02)
    (enough,) = stages(UntilPrecise(0.08), run(30, elapsed=noisy(30, 0.001)))
    assert enough.estimate.half_width < 0.001


def test_the_worst_metric_decides() -> None:
    rule = UntilPrecise(0.05, ("elapsed", "user"), 20)
    assert decide(rule, run(20, elapsed=noisy(20, 0.01), user=noisy(20, 0.15))) == RunMore(1)


def test_a_maximum_ends_it_undecided_with_the_interval_reached() -> None:
    rule = UntilPrecise(0.05, minimum=20, maximum=30)
    assert decide(rule, run(20, elapsed=noisy(20, 0.15))) == RunMore(1)
    stop = stopped(decide(rule, run(28, 2, elapsed=noisy(28, 0.15))))
    assert (stop.reason, stop.answered) == ("max-runs", False)
    assert "30 trials, the maximum; elapsed 1 ± 6.43 %" in stop.detail
    (stage,) = stages(rule, run(28, elapsed=noisy(28, 0.15)))
    estimate = stage.estimate
    assert (estimate.method, estimate.n) == ("sequential-t", 28)


def test_the_last_look_is_at_the_maximum() -> None:
    narrow = noisy(41, 0.15)
    assert decide(UntilPrecise(0.05, minimum=20), run(41, elapsed=narrow)) == RunMore(1)
    last = UntilPrecise(0.05, minimum=20, maximum=41)
    assert stopped(decide(last, run(41, elapsed=narrow))).reason == "precise"


def test_a_maximum_below_the_pilot_shortens_it() -> None:
    rule = UntilPrecise(0.05, maximum=5)
    assert decide(rule, run(0)) == RunMore(5)
    assert stopped(decide(rule, run(5, elapsed=noisy(5, 0.01)))).answered
    assert not stopped(decide(rule, run(5, elapsed=noisy(5, 0.5)))).answered
    only_one = UntilPrecise(0.05, maximum=1)
    stop = stopped(decide(only_one, run(1, elapsed=[1.0])))
    assert not stop.answered
    assert "no interval from n = 1" in stop.detail


def test_time_is_kept_by_the_size_of_batches() -> None:
    rule = UntilPrecise(0.05, minimum=20, max_time_ns=60 * SECOND)

    def spent(n: int, each_s: float) -> History:
        values = tuple(noisy(n, 0.15))
        return History(n, series={"elapsed": values}, duration_ns=int(n * each_s * SECOND))

    assert decide(rule, spent(0, 2)) == RunMore(1)
    assert decide(rule, spent(1, 2)) == RunMore(19)
    assert decide(rule, spent(20, 2)) == RunMore(1)
    assert decide(rule, spent(20, 0)) == RunMore(1)
    quantile = msgspec.structs.replace(rule, share=0.5)
    assert decide(quantile, spent(20, 2)) == RunMore(10)
    stop = stopped(decide(rule, spent(30, 2)))
    assert (stop.reason, stop.answered) == ("max-time", False)
    assert "60 s of 60 s spent; elapsed 1 ±" in stop.detail
    # 10 s are left and a trial takes 25 s: it is not begun.
    assert stopped(decide(rule, spent(2, 25))).reason == "max-time"


def test_a_time_limit_far_below_the_plan_is_reported() -> None:
    rule = UntilPrecise(0.02, max_time_ns=60 * SECOND)
    pilot = lasting(30, 1, 0.15)
    need = int(needed_trials(rule, pilot.series))
    assert need > 240
    text = out_of_reach(rule, pilot)
    assert text.startswith("±2 % needs about ")
    assert "the limit is 60 s: the test will probably end undecided" in text
    (shown,) = re.findall(r"\(([0-9,]+) trials\)", text)
    assert int(shown.replace(",", "")) == pytest.approx(need, rel=0.05)
    generous = UntilPrecise(0.02, max_time_ns=(need - 20) * SECOND)
    assert out_of_reach(generous, pilot) == "", "only a little more than the limit"


def test_a_target_is_projected_before_the_pilot_is_complete() -> None:
    rule = UntilPrecise(0.02, max_time_ns=60 * SECOND)
    assert out_of_reach(rule, lasting(9, 1, 0.15)) == "", "the scatter is not known yet"
    assert "the limit is 60 s" in out_of_reach(rule, lasting(12, 1, 0.15))
    assert out_of_reach(rule, lasting(12, 1, 0.005)) == ""


def test_a_pilot_that_does_not_fit_is_reported_after_three_trials() -> None:
    rule = UntilPrecise(0.02, max_time_ns=60 * SECOND)
    assert out_of_reach(rule, lasting(2, 5, 0.01)) == ""
    assert out_of_reach(rule, lasting(3, 5, 0.01)).startswith(
        "±2 % needs about 2 min 30 s (30 trials); the limit is 60 s: "
    )
    assert out_of_reach(rule, lasting(3, 3, 0.01)) == "", "less than twice the limit"


def test_a_maximum_far_below_the_plan_is_reported() -> None:
    rule = UntilPrecise(0.001, maximum=1000)
    text = out_of_reach(rule, lasting(30, 0.1, 0.15))
    assert "; the limit is 1,000 trials: the test will probably end undecided" in text
    assert out_of_reach(UntilPrecise(0.05), lasting(30, 0.1, 0.15)) == ""
    mean_of_zero = History(30, series={"elapsed": (-1.0, 1.0) * 15}, duration_ns=SECOND)
    assert "needs more than 1,000,000,000 trials" in out_of_reach(rule, mean_of_zero)


def scattered(count: int, each_s: float, share: float) -> History:
    """Return a history of trials with this coefficient of variation, in a fixed order."""
    values = tuple(1 + share * math.sqrt(2) * math.sin(7 * at) for at in range(count))
    quiet = tuple(1 + value / 1000 for value in values)
    return History(
        count,
        series={"elapsed": values, "user": quiet},
        metrics=(),
        duration_ns=int(count * each_s * SECOND),
    )


@pytest.mark.parametrize("mode", ["plan", "watch"])
def test_a_target_out_of_reach_is_given_up_after_its_time(mode: Any) -> None:
    rule = UntilPrecise(0.005, maximum=1000, mode=mode, give_up_ns=120 * SECOND)
    assert isinstance(decide(rule, scattered(42, 1, 0.5)), RunMore), "too early"
    stop = stopped(decide(rule, scattered(42, 4, 0.5)))
    assert (stop.reason, stop.answered) == ("out-of-reach", False)
    assert "; the limit is 1,000 trials; elapsed " in stop.detail
    never = msgspec.structs.replace(rule, give_up_ns=None)
    assert isinstance(decide(never, scattered(42, 4, 0.5)), RunMore)
    near = msgspec.structs.replace(rule, target=0.05)
    assert isinstance(decide(near, scattered(42, 4, 0.3)), RunMore)
    # A limit of time is one, too.
    timed = msgspec.structs.replace(near, max_time_ns=200 * SECOND)
    stop = stopped(decide(timed, scattered(42, 4, 0.5)))
    assert stop.reason == "out-of-reach"
    assert "the limit is 3 min 20 s" in stop.detail


def test_one_far_value_of_a_pilot_is_not_a_wide_distribution() -> None:
    rule = UntilPrecise(0.02, maximum=1000, give_up_ns=60 * SECOND)
    calm = scattered(30, 4, 0.01)
    values = (10.0, *calm.series["elapsed"][1:])
    first_slow = msgspec.structs.replace(calm, series={"elapsed": values})
    assert needed_trials(rule, first_slow.series) > 5000
    assert isinstance(decide(rule, first_slow), RunMore)


def test_what_is_within_reach_is_computed_from_the_same_trials() -> None:
    rule = UntilPrecise(0.005, maximum=1000)
    found = {one.option: one for one in alternatives(rule, scattered(60, 1, 0.5).series)}
    assert list(found) == ["--metric user"], "the median is as uncertain as the mean"
    assert found["--metric user"].needed is None
    assert found["--metric user"].estimate.unit == "s"
    rare = tuple(5.0 if at % 15 == 0 else 1 + at % 7 / 1e4 for at in range(60))
    found = {one.option: one for one in alternatives(rule, {"elapsed": rare})}
    assert found["--of median"].metric == "median elapsed"
    median = msgspec.structs.replace(rule, share=0.5)
    assert alternatives(median, {"elapsed": rare}) == ()


def test_a_watched_quantile_is_projected_from_its_look() -> None:
    rule = UntilPrecise(0.001, mode="watch", share=0.5, minimum=20, max_time_ns=60 * SECOND)
    assert "the limit is 60 s" in out_of_reach(rule, lasting(40, 1, 0.15))


def test_other_rules_have_no_target_out_of_reach() -> None:
    assert out_of_reach(FixedCount(30), lasting(20, 100, 0.5)) == ""


def test_zero_means_and_constant_values() -> None:
    rule = UntilPrecise(0.05, minimum=20, maximum=100)
    for value in (0.0, 3.0):
        # The first look from 59 on: fewer equal values are no interval.
        assert isinstance(decide(rule, run(58, elapsed=[value] * 58)), RunMore)
        assert stopped(decide(rule, run(60, elapsed=[value] * 60))).answered
    assert decide(rule, run(20, elapsed=[-1.0, 1.0] * 10)) == RunMore(1)
    assert needed_trials(rule, {"elapsed": [-1.0, 1.0] * 10}) == float("inf")
    assert not stopped(decide(rule, run(100, elapsed=[-1.0, 1.0] * 50))).answered


def test_a_metric_missing_in_some_trials_needs_more_of_them() -> None:
    rule = UntilPrecise(0.05, ("ops",), 20)
    assert decide(rule, run(20, ops=noisy(15, 0.01))) == RunMore(1)
    assert stopped(decide(rule, run(25, ops=noisy(20, 0.01)))).answered
    stop = stopped(decide(rule, run(20, elapsed=noisy(20))))
    assert (stop.reason, stop.answered) == ("missing", False)
    assert stop.detail.startswith("ops is in none of 20 completed trials")


def test_failures_only_end_after_the_pilot() -> None:
    assert decide(UntilPrecise(0.05, minimum=20), run(0, 19)) == RunMore(1)
    assert stopped(decide(UntilPrecise(0.05, minimum=20), run(0, 20))).reason == "failed"


def test_slow_changes_need_more_trials_than_fast_ones_of_the_same_spread() -> None:
    rule = UntilPrecise(0.05, minimum=20)
    slow = [0.85] * 10 + [1.15] * 10
    fast = [0.85, 1.15] * 10
    assert needed_trials(rule, {"elapsed": slow}) > 200
    assert needed_trials(rule, {"elapsed": fast}) < 60


def test_the_result_of_a_precision_carries_target_and_interval() -> None:
    stop = stopped(decide(UntilPrecise(0.05), run(30, elapsed=noisy(30, 0.01))))
    assert stop.target == 0.05
    (reached,) = stop.reached
    assert (reached.metric, reached.statistic) == ("elapsed", "mean")
    assert reached.estimate is not None
    assert reached.estimate.low < 1 < reached.estimate.high
    undecided = stopped(decide(UntilPrecise(0.01, maximum=30), run(30, elapsed=noisy(30))))
    assert not undecided.answered
    assert undecided.reached[0].estimate is not None
    assert undecided.reached[0].estimate.half_width > 0.01


# -- precision of a quantile ---------------------------------------------------------------


def test_a_median_is_resized_by_what_it_shows() -> None:
    rule = UntilPrecise(0.05, minimum=20, share=0.5)
    assert decide(rule, run(0)) == RunMore(20)
    spread = np.random.default_rng(4).normal(1, 0.16, 400).tolist()
    more = decide(rule, run(20, elapsed=spread[:20]))
    assert isinstance(more, RunMore)
    assert more.epochs > 10
    calm = stopped(decide(rule, run(20, elapsed=noisy(20, 0.01))))
    assert (calm.looks, calm.reached[0].statistic) == (1, "median")
    assert "median elapsed 1 ± 1 %" in calm.detail
    done = 20
    while isinstance(step := decide(rule, run(done, elapsed=spread[:done])), RunMore):
        done += step.epochs
    stop = stopped(step)
    assert stop.answered
    assert stop.looks >= 2
    assert stop.reached[0].n == done


def test_a_percentile_waits_until_order_statistics_can_bound_it() -> None:
    rule = UntilPrecise(0.5, share=0.99, maximum=2000)
    done = 0
    while isinstance(step := decide(rule, run(done, elapsed=noisy(done))), RunMore):
        done += step.epochs
    assert stopped(step).answered
    assert done >= 368


# -- watching --------------------------------------------------------------------------------


def test_a_watched_test_is_looked_at_at_fixed_epochs() -> None:
    rule = UntilPrecise(0.05, mode="watch", minimum=20)
    assert decide(rule, run(0)) == RunMore(20)
    assert decide(rule, run(20, elapsed=noisy(20))) == RunMore(1)
    assert decide(rule, run(60, elapsed=noisy(60, 0.5))) == RunMore(3)
    assert decide(rule, run(61, elapsed=noisy(61, 0.5))) == RunMore(2)
    stop = stopped(decide(rule, run(20, elapsed=noisy(20, 0.01))))
    assert (stop.reason, stop.looks, stop.answered) == ("precise", 1, True)
    assert "20 trials, one look of a confidence sequence; elapsed 1 ±" in stop.detail
    assert stop.reached[0].estimate is not None
    assert stop.reached[0].estimate.method == "t-mixture-sequence"


def test_a_watched_test_between_looks_does_not_decide() -> None:
    rule = UntilPrecise(0.05, mode="watch", minimum=20)
    assert decide(rule, run(61, elapsed=noisy(61, 0.001))) == RunMore(2)


def test_watching_ends_at_the_limits_undecided() -> None:
    rule = UntilPrecise(0.01, mode="watch", minimum=20, maximum=50)
    stop = stopped(decide(rule, run(50, elapsed=noisy(50, 0.5))))
    assert (stop.reason, stop.answered) == ("max-runs", False)
    assert stop.reached[0].n == 50


# -- histories -----------------------------------------------------------------------------


def trial(epoch: int, ending: TrialEnding = TrialEnding.OK) -> Trial:
    values = {"elapsed": float(epoch)} | ({"ops": 5.0} if epoch % 2 else {})
    return Trial("t", epoch, 1, ending, 0, 100, (MeasurementBlock(1, epoch, "c", 0, values),))


def test_a_history_is_the_same_however_it_was_gathered() -> None:
    trials = [
        trial(1),
        trial(2),
        trial(3, TrialEnding.FAILED),
        trial(4, TrialEnding.INTERRUPTED),
        trial(5, TrialEnding.TIMEOUT),
        trial(6),
    ]
    specs = [MetricSpec("ops")]
    builder = HistoryBuilder(specs)
    for one in trials[:5]:
        builder.add(one)
    early = builder.history()
    builder.answer(1)
    builder.add(trials[5])
    whole = builder.history()
    again = HistoryBuilder(specs)
    for one in trials[:5]:
        again.add(one)
    assert early == again.history()
    again.add(trials[5])
    answers = ((4, 1),)
    assert whole == msgspec.structs.replace(again.history(), program_answers=answers)
    assert (early.trials, early.failed, early.epochs) == (2, 2, 4)
    assert whole.series["elapsed"] == (1, 2, 6)
    assert (whole.missing("ops"), whole.duration_ns) == (2, 500)


@pytest.mark.parametrize(
    "rule", [FixedCount(3), LEGACY, UntilProgram(3, 1, Command(("x",))), UntilPrecise(0.1)]
)
def test_nothing_known_yet_means_run(rule: StoppingRule) -> None:
    assert isinstance(decide(rule, History()), RunMore)


def test_a_second_mode_does_not_put_a_median_out_of_reach() -> None:
    """The end of its interval in the other mode says nothing about the trials that are needed."""
    rule = UntilPrecise(0.02, share=0.5, maximum=1000)
    told = 0
    for seed in range(40):
        draws = np.random.default_rng(seed)
        values = 1 + (draws.random(30) < 0.3) + 0.01 * draws.normal(size=30)
        history = History(30, series={"elapsed": tuple(values.tolist())}, duration_ns=30 * 10**9)
        told += bool(out_of_reach(rule, history))
    assert told <= 2
