"""The ramp's policy over simulated closed and open loops in virtual time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.features.load.criteria import parse_criterion
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.ramp.levels import (
    THROUGHPUT_KEY,
    TrialThroughput,
    levels_of,
    noise_exponent,
    trial_throughput,
    trial_throughputs,
)
from benchwright.features.search.ramp.policy import (
    best_so_far,
    first_level,
    level_after,
    next_ramp_step,
)
from benchwright.features.search.ramp.profile import RampEnding, band_of, result_of
from benchwright.features.search.ramp.scalability import usl_throughput
from benchwright.features.search.ramp.types import (
    RampAxis,
    RampGoal,
    RampResult,
    RampStatus,
    ScalabilityModel,
)

Curve = Callable[[float], float]
"""Users, or arrivals per second, to the true throughput [1/s]."""


class Server(msgspec.Struct, frozen=True):
    """A throughput curve with noise within a run and between runs."""

    curve: Curve
    within: float = 0.02
    """Relative standard deviation of a second, with a correlation of 0.5."""
    between: float = 0.0
    seed: int = 1
    fails_at: tuple[float, ...] = ()
    """Levels at which the first trial fails, or each where `dead`."""
    dead: bool = False
    errors_from: float = math.inf

    def run(self, probe: Probe, number: int) -> LoadTrial:
        """Return the trial of a probe; a function of the seed and the trial's number."""
        random = np.random.default_rng((self.seed, number))
        seconds = int(probe.duration_s)
        noise = _autoregressive(random, seconds) * self.within
        true = self.curve(probe.rate) * math.exp(random.normal(0, self.between))
        counts = np.maximum(np.round(true * np.exp(noise)), 0).astype(int)
        total = int(counts.sum())
        failed = total // 10 if probe.rate >= self.errors_from else 0
        response_ms = probe.rate / true * 1e3 if true and probe.users else 5.0
        return LoadTrial(
            rate=probe.rate,
            duration_s=probe.duration_s,
            lasted_s=float(seconds),
            cost_s=seconds + 1.0,
            values={"response_ms_mean": response_ms, "response_ms_p99": 3 * response_ms},
            series=LoadSeries(
                at_s=tuple(float(s) for s in range(seconds)),
                counts=tuple(int(c) for c in counts),
                binned_by="completion",
            ),
            completed=total,
            errors=failed,
        )


def _autoregressive(random: np.random.Generator, n: int) -> np.ndarray:
    steps = random.normal(0, math.sqrt(0.75), n)
    return np.array(list(itertools.accumulate(steps, lambda a, e: 0.5 * a + e)))


def play(goal: RampGoal, server: Server, most: int = 400) -> tuple[RampResult, list[LoadTrial]]:
    """Ramp a simulated server; return the result and the trials."""
    history: list[LoadTrial] = []
    while len(history) < most:
        step = next_ramp_step(goal, history)
        if isinstance(step, RampResult):
            return step, history
        fails = step.rate in server.fails_at and (
            server.dead or all(trial.rate != step.rate for trial in history)
        )
        trial = server.run(step, len(history))
        if fails:
            trial = msgspec.structs.replace(
                trial, ending=LoadEnding.FAILED, failure="connection refused"
            )
        history.append(trial)
    raise AssertionError("the ramp does not end")


def usl(gamma: float, sigma: float, kappa: float) -> Curve:
    """Return the law's curve."""
    return lambda n: float(usl_throughput(np.array([n]), gamma, sigma, kappa)[0])


def closed_queue(servers: int, service_s: float, think_s: float) -> Curve:
    """Return the throughput of a closed network by exact mean value analysis: one queue of
    one server `servers` times as fast, and thinking. Source: Reiser and Lavenberg 1980."""

    def throughput(users: float) -> float:
        queue = rate = 0.0
        for n in range(1, int(users) + 1):
            response_s = service_s / servers * (1 + queue)
            rate = n / (think_s + response_s)
            queue = rate * response_s
        return rate

    return throughput


def codes(result: RampResult) -> set[str]:
    """Return the findings' codes."""
    return {finding.code for finding in result.findings}


GOAL = RampGoal(highest=256, hold_s=20)


def test_a_ramp_ends_where_throughput_stops_growing() -> None:
    result, history = play(GOAL, Server(closed_queue(4, 0.02, 0.08)))
    assert result.status is RampStatus.SATURATED
    assert result.saturation is not None
    assert result.saturation.throughput.value == pytest.approx(200, rel=0.05)
    assert result.saturation.level in (16, 32, 64)
    *climb, control = [trial.rate for trial in history]
    assert climb == sorted(set(climb))
    assert control == 1, "a low level again"
    assert result.trials == len(history)
    assert result.cost_s == pytest.approx(sum(trial.cost_s for trial in history))


def test_users_are_whole_and_said_in_the_probe() -> None:
    step = next_ramp_step(GOAL, [])
    assert isinstance(step, Probe)
    assert (step.users, step.rate, step.duration_s) == (1, 1.0, 20)


def test_a_rate_is_raised_without_users_and_without_a_law() -> None:
    goal = RampGoal(axis=RampAxis.RATE, start=33.333333, highest=1e4, hold_s=20)
    step = next_ramp_step(goal, [])
    assert isinstance(step, Probe)
    assert (step.users, step.rate) == (None, 33.333)
    result, _ = play(goal, Server(lambda rate: min(rate, 500.0)))
    assert result.status is RampStatus.SATURATED
    assert result.saturation is not None
    assert result.saturation.throughput.value == pytest.approx(500, rel=0.05)
    assert result.usl is None
    assert "axis" in result.usl_absent


def test_the_law_is_found_again_with_its_maximum() -> None:
    goal = RampGoal(highest=128, hold_s=30, repeats=3, flat_levels=3)
    found, _ = play(goal, Server(usl(100, 0.02, 0.0008), between=0.01, seed=2))
    assert found.usl is not None
    assert found.usl.preferred is ScalabilityModel.USL
    peak = found.usl.users_at_peak
    assert peak is not None
    assert peak.low <= math.sqrt(0.98 / 0.0008) <= peak.high
    assert found.usl.gamma.low <= 100 <= found.usl.gamma.high
    assert "throughput-falls" in codes(found)
    assert "single-runs" not in codes(found)


def test_a_server_that_only_levels_off_leaves_kappa_untold() -> None:
    servers = [Server(usl(100, 0.1, 0.0), seed=seed) for seed in range(20)]
    found = [play(GOAL, server)[0] for server in servers]
    untold = sum("kappa-not-identified" in codes(result) for result in found)
    assert untold >= 16, "one in twenty is told wrongly"
    for result in found:
        repeated = sum(point.trials - 1 for point in result.points)
        assert ("single-runs" in codes(result)) == (repeated < 3)
        assert result.usl is not None
        claimed = result.usl.preferred is ScalabilityModel.USL
        assert ("kappa-not-identified" in codes(result)) != claimed


def test_still_growing_at_the_highest_level_is_said() -> None:
    result, history = play(RampGoal(highest=20, hold_s=20), Server(usl(100, 0.001, 0.0)))
    assert result.status is RampStatus.HIGHEST
    assert [trial.rate for trial in history] == [1, 2, 4, 8, 16, 20, 1]
    assert "ramp-not-saturated" in codes(result)
    assert result.saturation is None


def test_a_fall_at_the_highest_level_is_saturation() -> None:
    goal = RampGoal(highest=64, hold_s=20)
    result, _ = play(goal, Server(usl(120, 0.03, 0.0015)))
    assert result.status is RampStatus.SATURATED
    assert "at 1 level:" in result.detail
    assert "ramp-not-saturated" not in codes(result)


def test_small_steps_add_up_to_growth() -> None:
    """From 20 users on, one more is less than 5 %: no reason to stop."""
    goal = RampGoal(start=20, step=1, highest=40, hold_s=20)
    result, history = play(goal, Server(usl(100, 0.0, 0.0), within=0.005))
    assert result.points[-1].level == 40
    assert history[-1].rate == 20
    assert result.status is RampStatus.HIGHEST


def test_noise_that_hides_growth_is_asked_again() -> None:
    goal = RampGoal(highest=64, hold_s=10, most_repeats=3)
    quiet, _ = play(goal, Server(usl(100, 0.1, 0.001), within=0.001))
    noisy, _ = play(goal, Server(usl(100, 0.1, 0.001), within=0.25))
    assert max(point.trials for point in quiet.points) == 1
    assert max(point.trials for point in noisy.points) == 3


# -- the order of the levels -------------------------------------------------------------

FirstRuns = dict[float, float]
"""Throughput of a level's first run, where it differs from the curve [1/s]."""


def play_exactly(
    goal: RampGoal, curve: Curve, first: FirstRuns | None = None
) -> tuple[RampResult, list[float]]:
    """Ramp a server without noise; return the result and the levels in order of time."""
    history: list[LoadTrial] = []
    while True:
        step = next_ramp_step(goal, history)
        levels = [trial.rate for trial in history]
        if isinstance(step, RampResult):
            return step, levels
        throughput = curve(step.rate)
        if step.rate not in levels:
            throughput = (first or {}).get(step.rate, throughput)
        history.append(reported(step.rate, throughput))


def reported(level: float, throughput: float, **more: float) -> LoadTrial:
    """Return a trial without a series; `more` are other values of it."""
    values = {THROUGHPUT_KEY: throughput, **more}
    return LoadTrial(rate=level, duration_s=10, lasted_s=10, cost_s=11, values=values)


def level_off(users: float) -> float:
    """Return the throughput of a server that saturates at 8 users."""
    return 100 * min(users, 8.0)


def test_limits_are_held_up_to_the_level_before_the_first_that_exceeds_one() -> None:
    limits = tuple(map(parse_criterion, ("p95 first < 100ms", "p95 tpot < 20ms")))
    first = {1.0: [20.0, 22.0], 2.0: [60.0, 130.0], 4.0: [90.0, 95.0], 8.0: [300.0, 310.0]}
    history = [
        reported(
            level, 100 * level, first_ms_p95=value, **({"tpot_ms_p95": 5.0} if level < 8 else {})
        )
        for level, values in first.items()
        for value in values
    ]
    goal = RampGoal(highest=8, repeats=2, criteria=limits)
    result = best_so_far(goal, history)
    exceeded = {point.level: point.exceeded for point in result.points}
    # One of two runs, and a value that no trial knows.
    assert exceeded == {1: (), 2: ("first_ms_p95",), 4: (), 8: ("first_ms_p95", "tpot_ms_p95")}
    assert result.points[1].limits == {"first_ms_p95": 95.0, "tpot_ms_p95": 5.0}
    assert result.points[3].limits == {"first_ms_p95": 305.0}
    assert result.within is not None
    assert result.within.level == 1
    assert best_so_far(RampGoal(highest=8), history).within is None


REPEATED = RampGoal(highest=64, repeats=3)


def test_repeats_follow_the_climb_in_random_order() -> None:
    result, levels = play_exactly(REPEATED, level_off)
    climb = [1, 2, 4, 8, 16, 32]
    assert levels[:6] == climb
    assert sorted(levels[6:12]) == sorted(levels[12:]) == climb
    assert climb not in (levels[6:12], levels[12:])
    assert [point.trials for point in result.points] == [3] * 6
    other = msgspec.structs.replace(REPEATED, seed=2)
    assert play_exactly(other, level_off)[1] != levels


def test_a_climb_that_ended_by_chance_goes_on_after_the_repeats() -> None:
    """Two first runs are slow: the repeats show that throughput still grew."""
    curve = {1.0: 100.0, 2.0: 110.0, 4.0: 121.0, 8.0: 133.0, 16.0: 130.0, 32.0: 130.0}
    result, levels = play_exactly(REPEATED, curve.__getitem__, {4.0: 112.0, 8.0: 113.0})
    assert levels[:4] == [1, 2, 4, 8]
    assert sorted(levels[4:12]) == [1, 1, 2, 2, 4, 4, 8, 8]
    assert levels[12:14] == [16, 32]
    assert sorted(levels[14:]) == [16, 16, 32, 32]
    assert result.saturation is not None
    assert result.saturation.level == 8


def test_a_level_with_errors_is_not_repeated() -> None:
    result, history = play(REPEATED, Server(usl(100, 0.01, 0.0), errors_from=16))
    assert result.status is RampStatus.ERRORS
    assert [point.trials for point in result.points] == [3, 3, 3, 3, 1]
    assert sum(trial.rate == 16 for trial in history) == 1


def test_a_budget_that_ends_between_repeats_leaves_the_climbs_answer() -> None:
    goal = msgspec.structs.replace(REPEATED, budget_s=11.0 * 8)
    result, levels = play_exactly(goal, level_off)
    assert len(levels) == 8
    assert result.status is RampStatus.SATURATED
    assert result.detail.endswith("no time was left for every repeat")
    history = [reported(level, level_off(level)) for level in levels]
    stopped = best_so_far(REPEATED, history[:7])
    assert stopped.saturation is not None, "what was left were repeats"


def test_the_control_is_an_early_level_that_shows_the_servers_speed() -> None:
    """Users think for 1 s: only from 128 users on they mostly wait for the server."""
    history: list[LoadTrial] = []
    goal = RampGoal(highest=1024)
    curve = closed_queue(1, 0.02, 1.0)
    while isinstance(step := next_ramp_step(goal, history), Probe):
        rate = curve(step.rate)
        response_ms = 1e3 * (step.rate / rate - 1.0)
        history.append(reported(step.rate, rate, response_ms_mean=response_ms))
    *climb, control = [trial.rate for trial in history]
    assert climb == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert control == 128
    _, levels = play_exactly(goal, level_off)
    assert levels[-1] == 1, "nobody thinks: the earliest"


@pytest.mark.parametrize(("speed", "told"), [(1.0, False), (0.9, True)])
def test_a_control_that_differs_is_told_and_in_no_level(speed: float, told: bool) -> None:
    levels = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    law, away = usl(100, 0.03, 0.001), (0.004, -0.006, 0.002, 0.005, -0.004, 0.001, 0.0)
    climb = [
        reported(level, law(level) * (1 + off)) for level, off in zip(levels, away, strict=True)
    ]
    goal = RampGoal(highest=64, flat_levels=9)
    control = next_ramp_step(goal, climb)
    assert isinstance(control, Probe)
    assert control.rate == 1
    result = next_ramp_step(goal, [*climb, reported(1.0, 100.4 * speed)])
    assert isinstance(result, RampResult)
    assert ("drift" in codes(result)) is told
    assert result.points[0].throughput.value == pytest.approx(100.4)
    assert result.points[0].trials == 1
    if told:
        (found,) = (one for one in result.findings if one.code == "drift")
        assert "differs by -10 % from" in found.evidence


def test_a_machine_that_slows_down_between_repeats_is_told() -> None:
    for speed, told in ((1.0, False), (0.995, True)):
        history: list[LoadTrial] = []
        random = np.random.default_rng(5)
        while isinstance(step := next_ramp_step(REPEATED, history), Probe):
            noise = math.exp(random.normal(0, 0.01)) * speed ** len(history)
            history.append(reported(step.rate, level_off(step.rate) * noise))
        assert ("drift" in codes(step)) is told


def test_a_control_that_fails_leaves_the_climbs_answer() -> None:
    levels, law = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0), usl(100, 0.03, 0.001)
    climb = [reported(level, law(level)) for level in levels]
    goal = RampGoal(highest=64, flat_levels=9)
    broken = msgspec.structs.replace(
        reported(1.0, 100.0), ending=LoadEnding.FAILED, failure="refused"
    )
    again = next_ramp_step(goal, [*climb, broken])
    assert isinstance(again, Probe)
    assert again.rate == 1
    result = next_ramp_step(goal, [*climb, broken, broken])
    assert isinstance(result, RampResult)
    assert result.status is RampStatus.SATURATED
    assert "a repeat of a level failed" in result.detail
    assert len(result.points) == 7


def test_a_failed_trial_is_run_again_and_two_end_the_ramp() -> None:
    curve = usl(100, 0.05, 0.001)
    again, history = play(GOAL, Server(curve, fails_at=(8.0,)))
    assert again.status is RampStatus.SATURATED
    assert "probe-failed" in codes(again)
    assert len([trial for trial in history if trial.rate == 8]) == 2
    dead, history = play(GOAL, Server(curve, fails_at=(8.0,), dead=True))
    assert dead.status is RampStatus.FAILED
    assert "connection refused" in dead.detail
    assert [point.level for point in dead.points] == [1, 2, 4]
    first, _ = play(GOAL, Server(curve, fails_at=(1.0,), dead=True))
    assert (first.status, first.points) == (RampStatus.FAILED, ())


def test_a_failure_before_another_end_is_told() -> None:
    """Only the two that end a ramp are told by its end alone."""
    well = LoadTrial(rate=1, duration_s=5, lasted_s=5, cost_s=5, values={THROUGHPUT_KEY: -1})
    failed = msgspec.structs.replace(well, values={}, ending=LoadEnding.FAILED, failure="refused")
    result = next_ramp_step(GOAL, [failed, well])
    assert isinstance(result, RampResult)
    assert result.status is RampStatus.FAILED
    assert "probe-failed" in codes(result)
    twice = next_ramp_step(GOAL, [failed, failed])
    assert isinstance(twice, RampResult)
    assert "probe-failed" not in codes(twice)


def test_errors_end_the_ramp_and_are_not_in_the_fit() -> None:
    result, _ = play(GOAL, Server(usl(100, 0.01, 0.0), errors_from=16))
    assert result.status is RampStatus.ERRORS
    assert "9.09 % of the operations failed at 16" in result.detail
    assert result.points[-1].error_share == pytest.approx(1 / 11, rel=1e-2)
    assert result.usl is not None
    assert result.usl.n == len(result.points) - 1


def test_a_budget_ends_the_ramp_with_what_is_known() -> None:
    goal = msgspec.structs.replace(GOAL, budget_s=50.0)
    result, history = play(goal, Server(usl(100, 0.01, 0.0)))
    assert result.status is RampStatus.BUDGET
    assert len(history) == 3, "21 s each: the third ends beyond the budget"
    assert len(result.points) == 3
    assert "three" not in result.usl_absent
    assert "four are needed" in result.usl_absent
    assert best_so_far(GOAL, history[:2]).points == result.points[:2]


def test_throughput_per_user_that_rises_is_told() -> None:
    result, _ = play(GOAL, Server(lambda n: 100 * min(n, 16.0) ** 1.2))
    assert "superlinear" in codes(result)


def test_a_kink_is_told_as_no_law() -> None:
    goal = RampGoal(start=1, step=2, highest=40, flat_levels=12, hold_s=30)
    result, _ = play(goal, Server(lambda n: 50 * min(n, 16.0), within=0.005))
    assert "usl-misfit" in codes(result)


def test_levels_off_the_curve_are_told_where_runs_were_repeated() -> None:
    """Two levels with 15 % more: the law bends rightly, and still is none."""
    law = usl(100, 0.05, 0.001)

    def bumpy(users: float) -> float:
        return law(users) * (1.15 if users in (4, 32) else 1.0)

    goal = msgspec.structs.replace(GOAL, repeats=3)
    result, _ = play(goal, Server(bumpy, between=0.005))
    assert result.usl is not None
    assert not result.usl.refuted
    (told,) = (one for one in result.findings if one.code == "usl-misfit")
    assert "lack of fit" in told.evidence
    smooth, _ = play(goal, Server(law, between=0.005))
    assert "usl-misfit" not in codes(smooth)


def test_a_generator_without_any_count_is_a_clear_end() -> None:
    bare = LoadTrial(rate=1, duration_s=5, lasted_s=5, cost_s=5)
    result = next_ramp_step(GOAL, [bare])
    assert isinstance(result, RampResult)
    assert result.status is RampStatus.FAILED
    assert "no throughput" in result.detail


def test_a_throughput_without_series_has_no_interval_and_says_so() -> None:
    trial = LoadTrial(rate=1, duration_s=5, lasted_s=5, cost_s=5, values={THROUGHPUT_KEY: 90.0})
    result = best_so_far(GOAL, [trial])
    assert result.points[0].throughput.value == 90
    assert math.isnan(result.points[0].throughput.low)
    assert "throughput-noise-unknown" in codes(result)


def test_repetitions_give_an_interval_where_there_is_no_series() -> None:
    trials = [
        LoadTrial(rate=n, duration_s=5, lasted_s=5, cost_s=5, values={THROUGHPUT_KEY: x})
        for n, x in ((1, 90.0), (1, 94.0), (2, 180.0), (2, 182.0))
    ]
    first, second = best_so_far(GOAL, trials).points
    assert first.throughput.low < 92 < first.throughput.high
    assert second.throughput.high / second.throughput.value == pytest.approx(
        first.throughput.high / first.throughput.value
    ), "one variance between runs for all levels"


def test_a_warm_up_is_in_no_throughput() -> None:
    counts = (10, 20, 40, 60, *(100, 102, 98, 101, 99, 100, 97, 103) * 4)
    trial = LoadTrial(
        rate=4,
        duration_s=36,
        lasted_s=36,
        cost_s=36,
        completed=sum(counts),
        series=LoadSeries(at_s=tuple(map(float, range(36))), counts=counts),
    )
    flow = trial_throughput(trial, RampAxis.USERS)
    assert flow is not None
    assert flow.throughput == pytest.approx(100, rel=0.01)
    assert flow.warm_up_s == pytest.approx(4, abs=1)


def test_operations_that_failed_are_no_throughput() -> None:
    trial = LoadTrial(rate=4, duration_s=8, lasted_s=8, cost_s=8, completed=400, errors=400)
    flow = trial_throughput(trial, RampAxis.USERS)
    assert flow is not None
    assert flow.throughput == 50


def _open_loop(rate: float, completed: int | None, counts: tuple[int, ...]) -> LoadTrial:
    """Return ten seconds of an open loop whose bins are those of the arrivals."""
    return LoadTrial(
        rate=rate,
        duration_s=10,
        lasted_s=10,
        cost_s=10,
        completed=completed,
        series=LoadSeries(at_s=tuple(map(float, range(10))), counts=counts, binned_by="intended"),
    )


def test_arrivals_are_no_throughput_of_an_overloaded_server() -> None:
    """A server of 100/s is offered 400/s: its schedule has four times what it does."""
    arrivals = (390, 410, 405, 395, 400, 402, 398, 400, 401, 399)
    flow = trial_throughput(_open_loop(400, 1000, arrivals), RampAxis.RATE)
    assert flow is not None
    assert flow.throughput == 100
    assert flow.variance is None, "the noise of arrivals is not the server's"
    assert trial_throughput(_open_loop(400, None, arrivals), RampAxis.RATE) is None
    # The same of a schedule whose end nobody reached: no warm-up that is cut off.
    ended_early = trial_throughput(_open_loop(400, 1000, (400, 400, 200, *[0] * 7)), RampAxis.RATE)
    assert ended_early is not None
    assert ended_early.throughput == 100


def test_a_run_that_kept_up_has_the_noise_of_its_arrivals() -> None:
    flow = trial_throughput(_open_loop(10, 99, (9, 11, 10, 8, 12, 10, 9, 11, 10, 9)), RampAxis.RATE)
    assert flow is not None
    assert flow.throughput == 9.9
    assert flow.variance is not None


@pytest.mark.parametrize(
    ("throughput", "told"),
    [(0.0, "no operation ended well, from 1 to 4"), (-5.0, "a throughput of -5/s")],
)
def test_a_throughput_that_is_none_is_a_failure(throughput: float, told: str) -> None:
    history = [
        LoadTrial(rate=n, duration_s=5, lasted_s=5, cost_s=5, values={THROUGHPUT_KEY: throughput})
        for n in (1.0, 2.0, 4.0)
    ]
    result = next_ramp_step(GOAL, history)
    assert isinstance(result, RampResult)
    assert result.status is RampStatus.FAILED
    assert told in result.detail
    assert result.saturation is None


@pytest.mark.parametrize(
    ("repeats", "told"), [((1, 1, 1), True), ((3, 1, 1), True), ((2, 2, 2), False)]
)
def test_intervals_of_hardly_repeated_levels_are_doubted(
    repeats: tuple[int, ...], told: bool
) -> None:
    server = Server(lambda n: 100.0 * n)
    probes = [
        Probe(n, 12.0, users=int(n))
        for n, times in zip((1.0, 2.0, 4.0), repeats, strict=True)
        for _ in range(times)
    ]
    trials = [server.run(probe, place) for place, probe in enumerate(probes)]
    assert ("single-runs" in codes(best_so_far(GOAL, trials))) is told


def test_intervals_of_throughput_cover() -> None:
    """Autocorrelated seconds and a run effect; 400 ramps of two levels with 3 runs each."""
    inside = total = 0
    for seed in range(400):
        server = Server(lambda n: 100.0 * n, within=0.05, between=0.02, seed=seed)
        probes = [Probe(n, 12.0, users=int(n)) for n in (10.0, 20.0) for _ in range(3)]
        trials = [server.run(probe, place) for place, probe in enumerate(probes)]
        for level in levels_of(trial_throughputs(trials, RampAxis.USERS)):
            estimate = level.estimate(0.95)
            inside += estimate.low <= 100 * level.level <= estimate.high
            total += 1
    assert 0.93 <= inside / total <= 0.99


def test_levels_of_whole_rates_are_whole_and_rise() -> None:
    goal = RampGoal(
        axis=RampAxis.RATE, start=0.6, factor=1.2, highest=9.5, growth=0.05, rate_step=1.0
    )
    levels = [first_level(goal)]
    while (after := level_after(goal, levels[-1])) is not None:
        levels.append(after)
    assert levels == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@settings(max_examples=60)
@given(
    st.floats(1, 50),
    st.floats(1.01, 8) | st.none(),
    st.floats(0.01, 100),
    st.sampled_from(list(RampAxis)),
)
def test_levels_rise_strictly_to_the_highest(
    start: float, factor: float | None, step: float, axis: RampAxis
) -> None:
    goal = RampGoal(
        axis=axis, start=start, factor=factor or 2.0, step=None if factor else step, highest=200
    )
    level: float | None = goal.start if axis is RampAxis.RATE else float(round(start))
    seen = []
    while level is not None:
        seen.append(level)
        level = level_after(goal, level)
    assert seen == sorted(set(seen))
    assert seen[-1] == 200


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(0, 0.3), st.sampled_from((1, 2)))
def test_a_ramp_is_a_function_of_its_history(seed: int, within: float, repeats: int) -> None:
    """Each prefix asks for the trial that came next: so a resumed ramp goes on alike."""
    goal = RampGoal(highest=32, hold_s=8, repeats=repeats)
    result, history = play(goal, Server(usl(80, 0.1, 0.002), within=within, seed=seed))
    for length, trial in enumerate(history):
        step = next_ramp_step(goal, history[:length])
        assert isinstance(step, Probe)
        assert step.rate == trial.rate
    assert next_ramp_step(goal, history) == result


def test_the_band_is_around_the_curve_and_only_where_there_is_a_law() -> None:
    goal = RampGoal(highest=64, hold_s=20)
    result, history = play(goal, Server(usl(100, 0.05, 0.0005)))
    band = band_of(goal, history)
    assert (band[0].users, band[-1].users) == (1, result.points[-1].level)
    assert all(point.low <= point.middle <= point.high for point in band)
    assert band_of(goal, history[:2]) == ()


def test_noise_that_rises_with_the_users_is_seen_in_repeats() -> None:
    """From 0.3 % at one user to 6 % at 64, and not where three runs of each level scatter alike."""
    steps, levels = (-1.0, 0.0, 1.0), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

    def exponent(noise: Callable[[float], float], most: int = 3) -> float:
        runs = [
            [
                TrialThroughput(level, 100 * math.exp(noise(level) * step), None, 0, 0)
                for step in steps[:most]
            ]
            for level in levels
        ]
        return noise_exponent(runs)

    assert 0.5 < exponent(lambda level: 0.003 * level**0.72) < 1.5
    assert exponent(lambda _: 0.03) == 0
    assert exponent(lambda level: 0.003 * level**0.72, most=1) == 0


def test_no_law_is_stated_that_misses_a_level() -> None:
    goal = RampGoal(repeats=3, highest=32)
    up_and_down = (100.0, 300.0, 110.0, 400.0, 120.0, 500.0)
    trials = [
        LoadTrial(
            rate=2.0**place,
            duration_s=10,
            lasted_s=10,
            cost_s=10,
            values={"throughput_per_s": rate * (1 + 0.01 * turn)},
        )
        for turn in range(3)
        for place, rate in enumerate(up_and_down)
    ]
    fit = result_of(goal, trials, RampEnding(RampStatus.HIGHEST, "")).usl
    assert fit is not None
    assert (fit.preferred, fit.law) == (ScalabilityModel.NONE, None)
