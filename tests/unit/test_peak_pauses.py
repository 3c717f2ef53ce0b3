"""Servers that pause at even distances: their period, and runs that are read in whole periods."""

from __future__ import annotations

import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.reading import (
    UNKNOWN_NOISE,
    find_pauses,
    read_runs,
    run_noise,
)
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import PeakGoal, parse_claim
from benchwright.findings.codes import stated_text
from hand_written import MEAN_RESPONSE, run_of
from held_out import BY_NAME
from world import search_of

R_SAT = Criterion(key=MEAN_RESPONSE, limit=40.0)
GOAL = PeakGoal(criteria=(R_SAT,))
PERIOD = 30


def paused(phase: int, lasts: int, rate: float = 200.0, level: float = 20.0) -> LoadTrial:
    """Return a run with a pause each 30 s, the first after `phase` [s]."""
    random = np.random.default_rng(phase)
    bins = level * (1 + 0.05 * random.standard_normal(lasts))
    bins[phase::PERIOD] += 20 * level
    return run_of(rate, bins.tolist())


def test_the_period_is_found() -> None:
    assert find_pauses(R_SAT, [paused(5, 60)]) is None
    pauses = find_pauses(R_SAT, [paused(phase, 150) for phase in (5, 17)])
    assert pauses is not None
    assert pauses.period_s == pytest.approx(PERIOD, abs=0.1)
    assert "every 30 s" in stated_text("server-stalls", pauses.figures)


@pytest.mark.parametrize("longest", [1, 2, 4], ids=lambda bins: f"{bins} bins")
@pytest.mark.parametrize("apart", [4, 8, 15, 40])
def test_spikes_at_random_moments_are_no_pauses(apart: int, longest: int) -> None:
    """300 histories each. Spikes that last for some bins are those of heavy tails."""
    random = np.random.default_rng(100 * apart + longest)
    found = 0
    for _ in range(300):
        history = []
        for _ in range(4):
            bins = np.full(120, 20.0)
            at = 0
            while at < 120:
                at += 1 + int(random.exponential(apart))
                lasts = int(random.integers(1, longest + 1))
                bins[at : at + lasts] = 400.0
                at += lasts
            history.append(run_of(200.0, bins.tolist()))
        found += find_pauses(R_SAT, history) is not None
    assert found <= 1


def test_errors_in_some_moments_are_no_pauses() -> None:
    """There is no usual value that a moment is a multiple of."""
    bins = np.zeros(150)
    bins[5::PERIOD] = 30.0
    assert find_pauses(R_SAT, [run_of(200.0, bins.tolist())] * 3) is None


@pytest.mark.parametrize("lasts", [75, 110, 150])
def test_a_mean_over_whole_periods_does_not_depend_on_the_phase(lasts: int) -> None:
    trials = [paused(phase, lasts) for phase in range(0, PERIOD, 3)]
    parts = [read_runs(R_SAT, [trial])[0].value for trial in trials]
    whole = [read_runs(R_SAT, [trial], period_s=PERIOD)[0].value for trial in trials]
    assert np.std(parts) > 0.03 * np.mean(parts)
    assert np.std(whole) < 0.01 * np.mean(whole)
    # 20 ms, and 400 ms more in one second of thirty.
    assert np.mean(whole) == pytest.approx((20 + 400 / 30) / 40, rel=0.01)


def test_a_run_shorter_than_a_period_is_read_as_it_is() -> None:
    trial = paused(12, 25)
    assert read_runs(R_SAT, [trial], period_s=PERIOD) == read_runs(R_SAT, [trial])


def test_batches_of_whole_periods_show_the_noise_between_runs() -> None:
    trial = paused(7, 210)
    values = np.array(trial.series.values[MEAN_RESPONSE])
    counts = np.full(210, 200.0)
    short = run_noise(values, counts, 1.0)
    whole = run_noise(values, counts, 1.0, PERIOD)
    # 5 % of 20 ms in each bin, of a mean of 33 ms.
    assert whole.relative_s == pytest.approx((0.05 * 20 / 33.3) ** 2, rel=0.8)
    assert short.relative_s > 100 * whole.relative_s
    assert run_noise(values[:30], counts[:30], 1.0, PERIOD) == UNKNOWN_NOISE


def test_where_pauses_are_known_runs_last_whole_periods() -> None:
    held = 0
    for seed in (500_003, 1, 2):
        search = search_of(
            policy_named("monotone"), BY_NAME["stalls"], seed, parse_claim("region:10%")
        )
        assert search.result is not None
        # Noise of pauses may contradict an answer beside it, and then the search says so.
        codes = {finding.code for finding in search.result.findings}
        assert search.result.status == "found" or "check-contradicts" in codes
        (finding,) = (f for f in search.result.findings if f.code == "server-stalls")
        assert float(finding.evidence.split()[1]) == pytest.approx(10, abs=0.1)
        for number, trial in enumerate(search.history):
            known = find_pauses(R_SAT, search.history[:number])
            if known is None:
                continue
            # None is left before a pause can be in it.
            assert trial.lasted_s >= known.period_s
            if search.probes[number].purpose != "hold":
                continue
            # Lengths are rounded up, and the period is known to a part of a second.
            left_out_s = max(2.0, tuning.WARM_UP_SHARE * trial.duration_s)
            assert (trial.duration_s - left_out_s) % known.period_s <= 3
            held += 1
    assert held >= 2


def test_a_search_makes_the_usual_runs_without_pauses() -> None:
    first = Monotone().next(GOAL, [])
    assert first.duration_s == 20  # type: ignore[union-attr]
