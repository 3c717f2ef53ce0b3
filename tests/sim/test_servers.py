"""The simulated servers against closed forms, and the stored curves against new runs."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrivals import Bursty, Poisson
from benchwright.core.criterion import Criterion
from benchwright.findings.codes import all_codes
from held_out import BY_NAME, HELD_OUT
from servers import MEAN, P95, SERVERS, A, B, C, D, SimServer
from speed_profiles import STANDSTILL, SpeedProfile
from stations import (
    Capped,
    Growing,
    Queue,
    Refusing,
    Sharing,
    Station,
    Tandem,
    Throttled,
    hyperexponential_wait_s,
)
from work import (
    BoundedPareto,
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Work,
)
from world import State, simulate

SEED = 77
STANDARD_ERRORS = 4.0


def many(server: SimServer, rate: float, runs: int, run_s: float) -> list[np.ndarray]:
    """Return what limits of independent runs, responses or other times, without their first
    quarter [s]."""
    kept = []
    for number in range(runs):
        run = simulate(server, rate, run_s, State(SEED, number))
        kept.append(run.of(server.binding)[run.arrivals >= run_s / 4])
    return kept


def assert_near(samples: list[float], truth: float, truth_se: float = 0.0) -> None:
    """Assert that a mean of independent samples is the truth, within its error."""
    error = math.hypot(statistics.stdev(samples) / math.sqrt(len(samples)), truth_se)
    assert abs(statistics.fmean(samples) - truth) < STANDARD_ERRORS * error
    assert error < 0.05 * truth


STATIONS: dict[str, tuple[Station, float]] = {
    "M/M/1": (Queue(1, Exponential(0.005)), 140.0),
    "M/M/4": (Queue(4, Exponential(0.015)), 220.0),
    "M/D/1": (Queue(1, Deterministic(0.005)), 150.0),
    "M/E4/1": (Queue(1, Erlang(0.005, 4)), 150.0),
    "M/G/1 lognormal": (Queue(1, Lognormal(0.005, 1.5)), 140.0),
    "M/H2/1": (Queue(1, Hyperexponential(0.005, 3.0)), 120.0),
    "M/H2/3": (Queue(3, Hyperexponential(0.006, 3.0)), 420.0),
    "M/G/1 heavy": (Queue(1, BoundedPareto(0.005, 1.5, 30.0)), 120.0),
    "M/G/1-PS": (Sharing(1, Lognormal(0.005, 4.0)), 140.0),
    "M/M/4-PS": (Sharing(4, Exponential(0.015)), 210.0),
    "M/M/4/12": (Refusing(4, 0.015, 8), 260.0),
    "kink, before": (Growing(4, 0.012, 200.0, 3.0), 190.0),
    "kink, after": (Growing(4, 0.012, 200.0, 3.0), 215.0),
    "wall": (Throttled(1500.0, Exponential(0.002)), 1400.0),
    "wall behind a cache": (Throttled(1000.0, Exponential(0.002), 0.67), 1400.0),
    "tandem": (Tandem(Queue(2, Exponential(0.008)), Queue(1, Exponential(0.004))), 170.0),
}


@pytest.mark.parametrize("name", STATIONS)
def test_steady_response_is_the_closed_form(name: str) -> None:
    station, rate = STATIONS[name]
    runs = many(SimServer(name, station), rate, 30, 200.0)
    truth = station.response_s(rate)
    assert truth is not None
    assert_near([float(np.nanmean(run)) for run in runs], truth)


@given(servers=st.integers(2, 5), load=st.floats(0.1, 0.95))
@settings(max_examples=20)
def test_two_kinds_that_are_alike_are_one(servers: int, load: float) -> None:
    """Against Erlang C, and for one server's worth of work against Pollaczek-Khinchine."""
    rate = load * servers / 0.01
    alike = Queue(servers, Hyperexponential(0.01, 1.0)).response_s(rate)
    assert alike == pytest.approx(Queue(servers, Exponential(0.01)).response_s(rate))
    one = hyperexponential_wait_s(1, Hyperexponential(0.01, 3.0), load / 0.01)
    assert one == pytest.approx(2 * load / (1 - load) * 0.01)


def test_refused_share_is_that_of_the_closed_form() -> None:
    station = Refusing(4, 0.015, 8)
    runs = many(SimServer("M/M/4/12", station), 260.0, 30, 200.0)
    shares = [float(np.isnan(run).mean()) for run in runs]
    assert_near(shares, station.error_ratio(260.0))


def test_percentile_of_one_memoryless_server() -> None:
    server = BY_NAME["mm1-p95"]
    runs = many(server, 150.0, 30, 200.0)
    tails = [1000 * float(np.quantile(run, 0.95)) for run in runs]
    assert_near(tails, server.response(150.0))


def test_percentile_of_several_memoryless_servers() -> None:
    server = SimServer("mm3-p95", Queue(3, Exponential(0.015)), criteria=(P95,))
    runs = many(server, 180.0, 30, 200.0)
    tails = [1000 * float(np.quantile(run, 0.95)) for run in runs]
    assert_near(tails, server.response(180.0))
    assert server.response(200.0) == math.inf


def test_overloaded_is_infinite_and_refusing_is_not() -> None:
    assert A.response(267.0) == math.inf
    refusing = Refusing(4, 0.015, 8).response_s(1000.0)
    assert refusing is not None
    assert refusing < 0.050


WORKS: tuple[Work, ...] = (
    Exponential(2.0),
    Lognormal(2.0, 1.5),
    Erlang(2.0, 4),
    Deterministic(2.0),
    BoundedPareto(2.0, 1.5, 30.0),
    Hyperexponential(2.0, 4.0),
)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: type(work).__name__)
def test_work_has_the_moments_that_it_tells(work: Work) -> None:
    drawn = work.draw(np.random.default_rng(SEED), 1_000_000)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(work.mean_s, rel=0.01)
    assert drawn.var() / work.mean_s**2 == pytest.approx(work.cv2, rel=0.03)


def test_bounded_pareto_keeps_its_bounds() -> None:
    work = BoundedPareto(2.0, 1.5, 30.0)
    drawn = work.draw(np.random.default_rng(SEED), 100_000)
    assert drawn.min() >= work.lowest_s
    assert drawn.max() <= 30 * work.lowest_s


@pytest.mark.parametrize("arrivals", [Poisson(), Bursty(1.25, 0.4, 0.4)])
def test_arrivals_have_their_rate(arrivals: Poisson | Bursty) -> None:
    random = np.random.default_rng(SEED)
    times = [arrivals.times(random, 200.0, 50.0) for _ in range(200)]
    assert all((np.diff(run) >= 0).all() and run[-1] < 50.0 for run in times)
    assert_near([run.size / 50.0 for run in times], 200.0)


def test_bursts_disperse_counts() -> None:
    random = np.random.default_rng(SEED)

    def dispersion(arrivals: Poisson | Bursty) -> float:
        counts = np.bincount(arrivals.times(random, 200.0, 2000.0).astype(int))
        return float(counts.var() / counts.mean())

    assert dispersion(Poisson()) < 1.2 < 2 < dispersion(Bursty(1.25, 0.4, 0.4))


# The true peaks ---------------------------------------------------------------------


def test_peaks_of_the_reference() -> None:
    """These are from a simulation by another program."""
    assert A.peak_rate == pytest.approx(236.3, rel=0.001)
    assert B.peak_rate == pytest.approx(169.7, rel=0.001)
    assert C.peak_rate == pytest.approx(231.3, rel=0.003)
    assert D.peak_rate == pytest.approx(641.2, rel=0.001)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_criterion_is_met_up_to_the_peak(name: str) -> None:
    server = BY_NAME[name]
    limit, peak = server.binding.limit, server.peak_rate
    assert server.response(peak) == pytest.approx(limit, rel=1e-4)
    assert server.response(0.98 * peak) < limit < server.response(1.02 * peak)


MEASURED = [name for name, server in BY_NAME.items() if server.curve]


@pytest.mark.parametrize("name", MEASURED)
def test_stored_curve_is_measured_again(name: str) -> None:
    """With other random numbers, and fewer of them."""
    server = BY_NAME[name]
    assert server.curve is not None
    peak = server.curve.peak_rate
    assert server.curve.peak_rate_se < 0.001 * peak
    # From an empty server, and a cold one: the first quarter is left out.
    refuses = server.binding.statistic == "ratio"
    # A ratio of one in a thousand, and a mean with a heavy tail, need more runs.
    noisy = refuses or name == "held-out-heavy"
    runs = many(server, peak, 64 if noisy else 16, 500.0)
    if refuses:
        means = [float(np.isnan(run).mean()) for run in runs]
    elif server.binding.statistic == "percentile":
        assert server.binding.share is not None
        means = [1000 * float(np.nanquantile(run, server.binding.share)) for run in runs]
    else:
        means = [1000 * float(np.nanmean(run)) for run in runs]
    slope = (server.response(1.002 * peak) - server.response(peak)) / (0.002 * peak)
    assert_near(means, server.response(peak), slope * server.curve.peak_rate_se)


def test_there_are_all_the_kinds() -> None:
    names = [server.name for server in (*SERVERS, *HELD_OUT)]
    assert len(set(names)) == len(names) >= 17
    flat = BY_NAME["flat"]
    unloaded = flat.response(1.0)
    assert flat.binding.limit < 1.5 * unloaded
    assert D.binding.limit / D.response(1.0) > 13
    assert {server.stationary for server in SERVERS} == {True, False}
    assert all(s.finding for s in SERVERS if not s.stationary)


def test_findings_that_are_asked_for_exist() -> None:
    asked = {code for s in SERVERS if s.finding for code in s.finding.split("|")}
    assert asked <= set(all_codes())


def test_batching_is_slow_when_idle_then_quick_then_slow() -> None:
    server = BY_NAME["batching"]

    def mean(rate: float) -> float:
        return float(np.mean([run.mean() for run in many(server, rate, 4, 200.0)]))

    idle, busy, near = mean(20.0), mean(200.0), mean(server.peak_rate)
    assert busy < 0.7 * idle < near


def test_streams_at_their_peak_are_within_both_limits_and_well_above_it_within_none() -> None:
    server = BY_NAME["held-out-streaming"]
    first, tpot = server.criteria

    def p95_ms(criterion: Criterion, rate: float) -> float:
        run = simulate(server, rate, 600.0, State(SEED, 0))
        return 1000 * float(np.quantile(run.of(criterion), 0.95))

    assert p95_ms(first, 0.97 * server.peak_rate) < first.limit
    assert p95_ms(tpot, 0.97 * server.peak_rate) < tpot.limit
    assert p95_ms(tpot, 1.05 * server.peak_rate) > tpot.limit
    assert p95_ms(first, 1.15 * server.peak_rate) > first.limit


def test_thrashing_completes_less_when_overloaded_more() -> None:
    server = BY_NAME["thrash"]

    def completed(rate: float) -> int:
        return simulate(server, rate, 60.0, State(SEED, 0)).completed_by(60.0)

    assert completed(230.0) > 1.3 * completed(400.0)


def test_a_throttled_server_never_bursts() -> None:
    """Even after a second without operations, tokens come one by one; the latency is constant."""
    station = Throttled(100.0, Deterministic(0.002))
    arrivals = np.concatenate([np.zeros(3), 1 + np.zeros(50), [5.0]])
    completions = station.serve(arrivals, 100.0, np.random.default_rng(SEED))
    first, burst, last = completions[:3], completions[3:-1], completions[-1]
    assert first == pytest.approx([0.002, 0.012, 0.022])
    assert burst == pytest.approx(1.002 + 0.01 * np.arange(50))
    assert last == pytest.approx(5.002)


def test_a_rate_limit_refuses_what_is_above_it_and_lets_bursts_pass() -> None:
    station = Capped(100.0, 5.0, Deterministic(0.002))
    arrivals = np.concatenate([np.zeros(8), 1 + 0.005 * np.arange(400)])
    done = station.serve(arrivals, 100.0, np.random.default_rng(SEED))
    accepted = ~np.isnan(done)
    assert accepted[:8].tolist() == [True] * 5 + [False] * 3
    # 200/s for two seconds: the bucket, and 100 tokens a second.
    assert accepted[8:].sum() == pytest.approx(5 + 200, abs=2)
    assert done[accepted] - arrivals[accepted] == pytest.approx(0.002)


def test_behind_a_cache_overload_completes_more_than_at_the_peak() -> None:
    """What the cache answers is completed at any rate: the capacity is not the pole."""
    server = BY_NAME["wall-cache"]

    def completed(rate: float) -> float:
        return simulate(server, rate, 60.0, State(SEED, 0)).completed_by(60.0) / 60

    assert completed(1800.0) > 1.05 * server.peak_rate
    assert completed(2400.0) > 1.1 * completed(1800.0)


# Speed profiles ---------------------------------------------------------------------

WEATHERS = (
    SpeedProfile(cold=0.25),
    SpeedProfile(slow=0.05),
    SpeedProfile(between=0.05),
    SpeedProfile(stall_s=0.3),
    SpeedProfile(drift_per_minute=0.1),
)


@given(st.sampled_from(WEATHERS), st.integers(0, 1000), st.lists(st.floats(0, 80), min_size=1))
@settings(max_examples=60)
def test_work_time_is_mapped_both_ways(profile: SpeedProfile, seed: int, at: list[float]) -> None:
    work_time = profile.work_time(np.random.default_rng(seed), 60.0, 30.0)
    moments = np.sort(np.array(at))
    work = work_time.to_work(moments)
    assert (np.diff(work) >= 0).all()
    back = work_time.to_moments(work)
    # Within a stall no work is done, so the moment is not told by the work.
    tolerance = profile.stall_s + 1e-6
    assert np.abs(back - moments).max() <= tolerance
    assert work_time.to_work(back) == pytest.approx(work, abs=1e-6)


def test_nothing_is_done_during_a_stall() -> None:
    work_time = SpeedProfile(stall_s=0.3).work_time(np.random.default_rng(3), 100.0, 0.0)
    lost_s = 100.0 - float(work_time.to_work(np.array([100.0]))[0])
    assert lost_s == pytest.approx(10 * 0.3, abs=0.31)
    assert min(np.diff(work_time.work) / np.diff(work_time.moments)) == pytest.approx(
        STANDSTILL, rel=1e-3
    )


def test_pauses_with_jitter_come_at_uneven_distances() -> None:
    profile = SpeedProfile(stall_s=0.4, stall_every_s=20.0, stall_jitter=0.15)
    work_time = profile.work_time(np.random.default_rng(3), 4000.0, 0.0)
    pace = np.diff(work_time.work) / np.diff(work_time.moments)
    paused = work_time.moments[:-1][pace < 1e-3]
    distances = np.diff(paused[np.diff(paused, prepend=-1.0) > 1.0])
    assert 14 <= distances.min() < 16
    assert 24 < distances.max() <= 26


def test_a_cold_start_passes_and_a_drift_stays() -> None:
    random = np.random.default_rng(3)

    def speed(profile: SpeedProfile, at_s: float, age_s: float) -> float:
        ends = profile.work_time(random, 200.0, age_s).to_work(np.array([at_s, at_s + 1]))
        return float(np.diff(ends)[0])

    cold, drift = SpeedProfile(cold=0.25), SpeedProfile(drift_per_minute=0.005)
    assert speed(cold, 0.0, 0.0) == pytest.approx(1 / 1.25, abs=0.02)
    assert speed(cold, 100.0, 0.0) == pytest.approx(1.0, abs=0.001)
    assert speed(drift, 0.0, 0.0) == pytest.approx(1.0, abs=0.001)
    assert speed(drift, 0.0, 3600.0) == pytest.approx(math.exp(-0.3), abs=0.001)


def test_slow_noise_and_own_speeds_have_their_spread() -> None:
    random = np.random.default_rng(3)
    slow = SpeedProfile(slow=0.05).work_time(random, 50_000.0, 0.0)
    pace = np.diff(slow.work) / np.diff(slow.moments)
    assert pace.std() == pytest.approx(0.05, rel=0.1)
    assert np.corrcoef(pace[:-20], pace[20:])[0, 1] == pytest.approx(math.exp(-1), abs=0.05)
    own = SpeedProfile(between=0.05)
    speeds = [float(own.work_time(random, 1.0, 0.0).work[1]) for _ in range(2000)]
    assert np.std(speeds) / np.mean(speeds) == pytest.approx(0.05, rel=0.1)


def test_a_constant_speed_changes_nothing() -> None:
    calm = simulate(A, 200.0, 20.0, State(SEED, 0))
    still = replace(A, speed=SpeedProfile(cold=1e-12))
    assert simulate(still, 200.0, 20.0, State(SEED, 0)).responses == pytest.approx(
        calm.responses, abs=1e-6
    )
    assert A.criteria[0].key == MEAN
