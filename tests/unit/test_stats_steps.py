"""Steps of a series and the looks at its newest value: what is found, and the edges."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from benchwright.stats.steps import (
    MIN_VALUES,
    TAIL,
    LevelVerdict,
    NewestComparison,
    find_steps,
    newest_comparisons,
    newest_differs,
    newest_verdicts,
)

SEED = 20_261_123


def noise(n: int, sdev: float = 0.05, seed: int = SEED) -> npt.NDArray[np.float64]:
    return sdev * np.random.default_rng(seed).standard_normal(n)


def stepped(change: float, at: int = 60, n: int = 100) -> npt.NDArray[np.float64]:
    values = noise(n)
    values[at:] += change
    return values


# -- steps of a whole series ------------------------------------------------------------------


def test_a_step_has_its_place_its_size_and_a_small_p() -> None:
    fit = find_steps(stepped(math.log(1.3)))
    (step,) = fit.steps
    assert step.first <= 60 <= step.last
    assert step.last - step.first <= 2
    assert step.ratio_low < 1.3 < step.ratio_high
    assert step.ratio_low < step.ratio < step.ratio_high
    assert step.p < 1e-6
    assert fit.sdev == pytest.approx(0.05, rel=0.2)
    assert fit.undecided_from is None


def test_a_spike_beside_a_step_does_not_move_it() -> None:
    values = np.concatenate([noise(15, 0.006), noise(40, 0.006, 2) - 0.12])
    values[10] -= 0.5
    fit = find_steps(values)
    assert [step.index for step in fit.steps] == [15]
    assert fit.spikes == (10,)


def test_a_bump_is_two_steps() -> None:
    values = noise(80)
    values[30:40] += 0.3
    assert [step.index for step in find_steps(values).steps] == [30, 40]


def test_a_spike_is_no_step() -> None:
    values = noise(60)
    values[25] += 1.0
    fit = find_steps(values)
    assert fit.steps == ()
    assert fit.spikes == (25,)


def test_the_newest_value_alone_is_undecided_and_three_like_it_are_a_step() -> None:
    assert find_steps(stepped(0.5, 60, 61)).undecided_from == 60
    few = find_steps(stepped(0.5, 60, 62))
    assert (few.steps, few.undecided_from) == ((), 60)
    after = find_steps(stepped(0.5, 60, 64))
    assert [step.index for step in after.steps] == [60]
    assert after.steps[0].change == pytest.approx(0.5, abs=0.1)


def autoregressive(rho: float, n: int, seed: int) -> npt.NDArray[np.float64]:
    values = noise(n, 1.0, seed)
    for at in range(1, n):
        values[at] = rho * values[at - 1] + math.sqrt(1 - rho * rho) * values[at]
    return values


def test_correlated_values_are_no_steps() -> None:
    fit = find_steps(autoregressive(0.8, 120, 3))
    assert fit.correlation > 0.6
    assert (fit.steps, fit.wanders) == ((), False)


def test_a_slope_is_a_drift_and_no_staircase() -> None:
    fit = find_steps(0.01 * np.arange(100) + noise(100, 0.02))
    assert (fit.steps, fit.wanders) == ((), False)
    (drift,) = fit.patterns
    assert (drift.kind, drift.first, drift.last) == ("drift", 0, 99)
    assert drift.size == pytest.approx(1.0, abs=0.05)
    assert not drift.is_alternative


def test_a_step_that_a_slope_explains_about_as_well_says_so() -> None:
    fit = find_steps(0.001 * np.arange(100) + noise(100, seed=0))
    assert len(fit.steps) == 1
    (drift,) = fit.patterns
    assert (drift.kind, drift.is_alternative) == ("drift", True)
    assert find_steps(stepped(0.3)).patterns == ()


@pytest.mark.parametrize("long", [4, 5, 8])
def test_a_few_values_after_which_the_series_is_back_are_an_excursion(long: int) -> None:
    values = noise(100)
    values[40 : 40 + long] += 0.7
    fit = find_steps(values)
    assert (fit.steps, fit.undecided_from) == ((), None)
    (found,) = fit.patterns
    assert (found.kind, found.first, found.last) == ("excursion", 40, 39 + long)
    assert found.size == pytest.approx(0.7, abs=0.06)


def test_a_step_beside_an_excursion_is_where_it_is() -> None:
    values = noise(100)
    values[20:25] += 0.7
    values[60:] += 0.3
    fit = find_steps(values)
    assert [step.index for step in fit.steps] == [60]
    assert [(one.kind, one.first, one.last) for one in fit.patterns] == [("excursion", 20, 24)]


def test_the_end_is_undecided_where_the_level_had_an_excursion_as_long() -> None:
    values = noise(100)
    values[40:45] += 0.7
    values[95:] += 0.7
    fit = find_steps(values)
    assert (fit.steps, fit.undecided_from) == ((), 95)
    longer = np.concatenate([values, 0.7 + noise(2, seed=4)])
    assert [step.index for step in find_steps(longer).steps] == [95]


def test_two_levels_at_the_same_time_are_modes() -> None:
    rng = np.random.default_rng(SEED)
    fit = find_steps(noise(100, 0.01) + 0.3 * (rng.random(100) < 0.3))
    assert fit.steps == ()
    (modes,) = fit.patterns
    assert modes.kind == "modes"
    assert modes.size == pytest.approx(0.3, abs=0.02)
    assert modes.share == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_noise_that_changes_is_no_step(factor: float) -> None:
    values = noise(120)
    values[60:] *= factor
    fit = find_steps(values)
    assert fit.steps == ()
    (spread,) = fit.patterns
    assert spread.kind == "spread"
    assert abs(spread.first - 60) <= 8
    assert spread.size == pytest.approx(factor, rel=0.5)


def test_values_of_a_coarse_clock_are_no_level_without_noise() -> None:
    values = np.log([30.0] * 40 + [31.0, 30.0, 31.0] + [30.0] * 57)
    assert find_steps(values, logarithms=True).steps == ()
    changed = np.log([30.0] * 40 + [32.0] * 20 + [30.0, 33.0] * 2)
    (step,) = find_steps(changed, logarithms=True).steps
    assert step.index == 40


def test_large_moves_of_a_level_that_wanders_have_no_p() -> None:
    wave = 0.1 * np.sin(np.arange(120) / 12) + noise(120, 0.01)
    fit = find_steps(wave)
    assert fit.wanders
    assert fit.steps
    assert all(math.isnan(step.p) for step in fit.steps)


def test_counts_that_are_nearly_always_equal_change_with_a_few_values() -> None:
    assert [s.index for s in find_steps([1.0] * 20 + [2.0] * 5).steps] == [20]
    assert find_steps([1.0] * 20 + [2.0] * 2).steps == ()
    one = find_steps([1.0] * 10 + [2.0] + [1.0] * 10)
    assert (one.steps, one.patterns) == ((), ())


def test_values_less_certain_than_the_step_show_none() -> None:
    values = np.concatenate([np.zeros(8), np.full(8, 0.02)]) + noise(16, 0.001)
    assert len(find_steps(values).steps) == 1
    assert find_steps(values, standard_errors=np.full(16, 0.05)).steps == ()


def test_a_few_uncertain_values_make_no_step() -> None:
    values, errors = noise(60, 0.01), np.full(60, 0.005)
    values[40:46] += 0.06
    assert len(find_steps(values, standard_errors=errors).patterns) == 1
    errors[40:46] = 0.06
    fit = find_steps(values, standard_errors=errors)
    assert (fit.steps, fit.patterns) == ((), ())


@pytest.mark.parametrize("tick", [0.004, 0.01])
@pytest.mark.parametrize("mean_ticks", [0.4, 1.5, 3.0])
def test_ticks_are_rarely_steps(tick: float, mean_ticks: float) -> None:
    """CPU times of short commands: 0, 1, 2 ticks."""
    series = tick * np.random.default_rng(SEED).binomial(6, mean_ticks / 6, (200, 30))
    hits = sum(bool(find_steps(row, false_alarms=0.01).steps) for row in series)
    # Three standard errors above 2 % of 200.
    assert hits <= 10


def test_equal_values_have_no_step() -> None:
    assert find_steps(np.full(40, 0.1)).steps == ()


@pytest.mark.parametrize("n", [10, 30, 200])
def test_a_smaller_rate_of_false_alarms_is_kept(n: int) -> None:
    series = 10 + np.random.default_rng(SEED).normal(size=(400, n))
    hits = sum(bool(find_steps(row, false_alarms=0.01).steps) for row in series)
    # Three standard errors above 1 % of 400.
    assert hits <= 10


@pytest.mark.parametrize("n", range(MIN_VALUES))
def test_too_few_values_are_undecided(n: int) -> None:
    fit = find_steps(noise(n))
    assert fit.steps == ()
    assert fit.undecided_from == (0 if n else None)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_size_changes_no_answer(scale: float) -> None:
    values = 5 + stepped(0.5)
    fit, large = find_steps(values), find_steps(values * scale)
    assert [(s.index, s.first, s.last) for s in large.steps] == [
        (s.index, s.first, s.last) for s in fit.steps
    ]
    assert large.steps[0].change == pytest.approx(fit.steps[0].change * scale)


def test_the_widest_range_of_numbers_overflows_nowhere() -> None:
    values = np.tile([-1.7e308, 1.7e308, 1e-300], 10)
    assert find_steps(values).steps == ()


def test_a_long_series_has_its_step_where_it_is() -> None:
    (step,) = find_steps(stepped(0.15, 1500, 3001)).steps
    assert abs(step.index - 1500) <= 4


def test_the_same_values_give_the_same_bytes() -> None:
    import msgspec

    values = stepped(0.2)
    assert msgspec.json.encode(find_steps(values)) == msgspec.json.encode(
        find_steps(values.tolist())
    )


# -- looks at the newest value ----------------------------------------------------------------


def test_a_change_is_first_unclear_then_reported_then_the_new_level() -> None:
    values = stepped(0.3)
    assert newest_differs(values[:60]).state == "same"
    assert newest_differs(values[:62]).state == "unclear"
    states = [newest_differs(values[:end]) for end in range(62, 75)]
    found = next(verdict for verdict in states if verdict.state == "differs")
    assert found.since is not None
    assert abs(found.since - 60) <= 1
    assert found.level_start == found.since
    assert found.change == pytest.approx(0.3, abs=0.1)
    assert newest_differs(values).state == "same"
    assert newest_differs(values).level_start == found.since


def test_a_look_at_a_stored_level_is_the_look_that_repeats_all() -> None:
    values, start = stepped(0.3), 0
    for end in range(1, 101):
        verdict = newest_differs(values[:end], level_start=start)
        start = verdict.level_start
        if end in (5, 60, 62, 70, 100):
            assert repr(verdict) == repr(newest_differs(values[:end]))
    assert start > 0


def test_many_series_have_the_verdicts_of_each() -> None:
    series = [noise(n, seed=n) for n in (0, 5, 9, 30, 31, 250, 400)]
    series[4][28:] += 0.6
    single = [repr(newest_differs(values)) for values in series]
    assert [repr(verdict) for verdict in newest_verdicts(series)] == single
    assert newest_verdicts([]) == []


def watched(values: npt.NDArray[np.float64]) -> list[LevelVerdict]:
    """Return the verdict after each value."""
    found = [LevelVerdict("short", 0)]
    for end in range(1, values.size + 1):
        found += newest_verdicts(
            [values[:end]],
            level_starts=[found[-1].level_start],
            befores=[found[-1].before],
            logarithms=True,
        )
    return found[1:]


def test_after_a_burst_the_level_before_it_goes_on() -> None:
    values = noise(200)
    values[60:65] += 0.7
    found = watched(values)
    assert "differs" in {one.state for one in found[60:65]}
    assert {one.state for one in found[70:]} <= {"same", "unclear"}
    assert (found[-1].level_start, found[-1].before) == (0, 0)


def test_a_burst_like_an_earlier_one_raises_no_alarm_and_a_longer_one_does() -> None:
    values = noise(200)
    values[60:65] += 0.7
    values[120:125] += 0.7
    states = [one.state for one in watched(values)[118:]]
    assert "differs" not in states
    assert "unclear" in states
    values[125:] += 0.7
    assert "differs" in {one.state for one in watched(values)[125:130]}


def test_one_far_value_is_unclear_and_no_change() -> None:
    values = np.append(noise(50), 1.0)
    verdict = newest_differs(values)
    assert (verdict.state, verdict.since) == ("unclear", 50)


def test_a_level_begins_again_where_a_change_was_accepted() -> None:
    values = stepped(0.3, 60, 64)
    assert newest_differs(values, level_start=60).state == "short"


def test_uncertain_values_hardly_differ() -> None:
    values = stepped(0.3, 60, 66)
    errors = np.full(66, 0.01)
    assert newest_differs(values, standard_errors=errors, level_start=0).state == "differs"
    errors[60:] = 0.3
    sure = newest_differs(values, standard_errors=errors, level_start=0)
    assert sure.state in ("same", "unclear")


def test_the_newest_values_are_compared_with_the_level_before_without_its_spikes() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(0, 0.05, 60), rng.normal(0.5, 0.05, 20)])
    values[30] = 3.0

    def compared(end: int) -> NewestComparison | None:
        (found,) = newest_comparisons([values[:end]], newest_verdicts([values[:end]]))
        return found

    same = compared(60)
    assert same is not None
    assert (same.end, same.old.n, same.new.n) == (59, 58, 1)
    assert same.old.mean == pytest.approx(np.delete(values[:59], 30).mean())
    assert same.old.sdev == pytest.approx(np.delete(values[:59], 30).std(ddof=1))
    assert compared(61) is None
    start = newest_differs(values[:68]).level_start
    assert start == pytest.approx(60, abs=2)
    for end in range(65, start + 9):
        change = compared(end)
        assert change is not None
        assert (change.end, change.old.n, change.new.n) == (start, start - 1, end - start)
    again = compared(80)
    assert again is not None
    # The looks put the start too early; those values are spikes of the new level.
    assert (again.end, again.old.n) == (79, 19)
    assert start < 60


def test_the_last_values_and_the_starts_of_two_levels_are_enough_for_a_look() -> None:
    rng = np.random.default_rng(6)
    series = [
        np.concatenate([rng.normal(0, 1, at), rng.normal(6, 1, 400 - at)])
        for at in (50, 300, 380, 391, 395, 397, 399)
    ]
    errors = [None, *(np.where(rng.random(400) < 0.5, 0.3, math.nan) for _ in series[1:])]
    before = newest_verdicts(
        [values[:-1] for values in series],
        standard_errors=[None if e is None else e[:-1] for e in errors],
    )
    whole = newest_verdicts(series, standard_errors=errors)
    offset = 400 - TAIL
    tails = [values[offset:] for values in series]
    own = [None if e is None else e[offset:] for e in errors]
    found = newest_verdicts(
        tails,
        standard_errors=own,
        level_starts=[one.level_start - offset for one in before],
        befores=[one.before - offset for one in before],
    )
    for one, other in zip(whole, found, strict=True):
        moved = msgspec.structs.replace(
            other,
            level_start=other.level_start + offset,
            before=other.before + offset,
            since=None if other.since is None else other.since + offset,
        )
        assert repr(moved) == repr(one)
    assert len({one.state for one in whole}) > 2
    for one, other in zip(
        newest_comparisons(series, whole, standard_errors=errors),
        newest_comparisons(tails, found, standard_errors=own),
        strict=True,
    ):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            moved = msgspec.structs.replace(other, end=other.end + offset)
            assert repr(moved) == repr(one)


def test_the_change_since_a_step_is_that_of_the_levels_around_the_later_ones() -> None:
    rng = np.random.default_rng(3)
    values = np.repeat([0.0, 0.08, 0.15], 20) + 0.005 * rng.standard_normal(60)
    fit = find_steps(values)
    first, last = fit.steps
    assert fit.change_since(1) == pytest.approx((last.change, last.low, last.high))
    change, low, high = fit.change_since(0)
    assert change == pytest.approx(first.change + last.change)
    assert low < 0.15 < high
    assert 0 < high - low < 2 * (first.high - first.low)


@pytest.mark.parametrize("size", [1.0, 2.0])
def test_a_look_sees_a_step_of_whole_numbers_that_hardly_vary(size: float) -> None:
    values = np.full(80, 30.0)
    values[[7, 31]] = 31.0
    assert newest_differs(np.log(values), logarithms=True).state == "same"
    values[60:] += size
    states = [one.state for one in watched(np.log(values))]
    assert "differs" in states[60:66]
    assert set(states[71:]) == {"same"}


def of_runs(*runs: tuple[int, float]) -> npt.NDArray[np.float64]:
    """Return values in which each of these stays for so many."""
    return np.repeat([value for _, value in runs], [count for count, _ in runs])


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize(
    ("values", "steps"),
    [
        (of_runs((5, 1000.0), (7, 1100.0)), [5]),
        (of_runs((10, 10.0), (12, 12.0)), [10]),
        (of_runs((20, 1000.0), (4, 1100.0)), [20]),
        (of_runs((10, 1000.0), (3, 1100.0)), [10]),
        (of_runs((9, 1000.0), (6, 1100.0), (6, 1200.0)), [9, 15]),
        (of_runs((9, 1000.0), (6, 1100.0), (6, 1300.0)), [9, 15]),
        (of_runs((20, 15.6), (20, 31.2)), [20]),
        (1000 + np.arange(20) % 2 + of_runs((10, 0.0), (10, 100.0)), [10]),
        (of_runs((10, 1000.0), (2, 1100.0)), []),
        (15.6 * np.array([3, 3, 4, 3, 3, 4, 4, 3, 3, 4, 3, 3, 3, 4, 4, 4]), []),
        (15.6 * np.array([3, 3, 3, 3, 3, 4, 3, 3, 3, 3, 3, 3, 4, 4, 3, 4]), []),
    ],
)
def test_a_change_that_stays_is_a_step_and_no_tick(
    values: npt.NDArray[np.float64], steps: list[int], logarithms: bool
) -> None:
    series = np.log(values) if logarithms else values
    assert [step.index for step in find_steps(series, logarithms=logarithms).steps] == steps


def test_the_size_of_a_step_between_equal_values_is_known_to_their_last_decimal() -> None:
    (step,) = find_steps(of_runs((5, 1000.0), (7, 1100.0))).steps
    assert step.change == 100
    assert 0.1 < step.change - step.low < 1


@pytest.mark.parametrize(("new", "states"), [(1, {"same"}), (2, {"same", "unclear"})])
def test_one_or_two_values_after_equal_ones_are_no_new_level_yet(
    new: int, states: set[str]
) -> None:
    values = np.log(of_runs((20, 1000.0), (new, 1100.0)))
    verdict = newest_differs(values, logarithms=True)
    assert verdict.state in states
    if verdict.state == "same":
        (compared,) = newest_comparisons([values], [verdict], logarithms=True)
        assert compared is not None
        assert compared.is_beyond
    after = np.log(of_runs((20, 1000.0), (3, 1100.0)))
    assert newest_differs(after, logarithms=True).state == "differs"


@pytest.mark.parametrize(("old", "new"), [(5, 7), (6, 8), (9, 4), (12, 8)])
def test_a_short_new_level_after_a_shorter_one_is_clear(old: int, new: int) -> None:
    values = noise(old + new, 0.01) + of_runs((old, 0.0), (new, 0.3))
    (verdict,) = newest_verdicts([values])
    (compared,) = newest_comparisons([values], [verdict])
    assert compared is not None
    assert compared.p < 0.01
