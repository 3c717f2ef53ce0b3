"""The workbench in virtual time, searches played on it, and what is told of many."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

import peak_table
import sim_server
from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from held_out import BY_NAME
from ledger import Ledger, Operations
from mlrsearch_peer import mlrsearch
from outcomes import Outcome, Task, claim_held, in_region, play_task, row_of, wilson
from servers import MEAN, R_SAT, A, SimServer
from world import DRAIN_S, SimWorkbench, play, search_of, unit_of

P99 = Criterion(key="response_ms_p99", limit=100, statistic="percentile", share=0.99)
WITHIN = Criterion(key="within_40ms_share", limit=0.9, unit="", better="higher", statistic="share")
ERRORS = Criterion(key="error_ratio", limit=0.001, unit="", statistic="ratio")
ALL = (R_SAT, P99, WITHIN, ERRORS)


def never(so_far: LoadTrial) -> bool:
    """Look, and stay."""
    return False


def ran(server: SimServer, rate: float, duration_s: float, seed: int = 3) -> LoadTrial:
    """Return one whole trial."""
    probe = Probe(rate=rate, duration_s=duration_s)
    return SimWorkbench(server, ALL, seed).run(probe, (), never)


def hand_made() -> Operations:
    """Five operations: one is late, one is refused, one never ends."""
    arrivals = np.array([0.1, 0.5, 0.9, 1.2, 2.5])
    completions = np.array([0.13, 2.5, np.nan, 1.25, 900.0])
    return Operations(arrivals, completions)


def test_a_look_knows_only_what_has_ended() -> None:
    ledger = Ledger(hand_made(), ALL)
    ledger.take(1.0, 1.0)
    assert ledger.values()[MEAN] == pytest.approx(30.0)
    assert ledger.series(1.0).counts == (1,)
    assert ledger.refused == 1
    assert ledger.values()["error_ratio"] == 0.5
    ledger.take(2.0, 2.0)
    assert ledger.series(2.0).counts == (1, 1)
    assert ledger.values()["within_40ms_share"] == pytest.approx(1 / 3)


def test_at_the_end_it_waits_for_what_is_in_flight_but_not_for_ever() -> None:
    ledger = Ledger(hand_made(), ALL)
    ledger.take(2.6 + DRAIN_S, 2.6)
    series = ledger.series(2.6)
    assert series.counts == (2, 1, 0)
    assert series.values[MEAN] == pytest.approx((1015.0, 50.0, 0.0))
    assert series.values["error_ratio"] == pytest.approx((1 / 3, 0.0, 0.0))
    assert ledger.values()[MEAN] == pytest.approx((30 + 2000 + 50) / 3)
    assert hand_made().completed_by(2.0) == 2


def test_what_arrives_after_a_probe_was_left_is_no_part_of_it() -> None:
    ledger = Ledger(hand_made(), ALL)
    ledger.take(0.6 + DRAIN_S, 0.6)
    assert ledger.series(0.6).counts == (2,)
    assert ledger.values()["response_ms_p99"] == pytest.approx(2000, rel=0.02)


def test_nothing_known_is_absent() -> None:
    ledger = Ledger(Operations(np.array([0.5]), np.array([99.0])), ALL)
    ledger.take(1.0, 1.0)
    assert ledger.values() == {}


def test_a_trial_adds_up() -> None:
    trial = ran(A, 230.0, 60.0)
    series = trial.series
    assert len(series.at_s) == 60
    assert sum(series.counts) == trial.offered
    assert trial.completed is not None
    assert 0 <= sum(series.counts) - trial.completed < 60
    weights = np.array(series.counts)
    mean = float(weights @ np.array(series.values[MEAN]) / weights.sum())
    assert trial.values[MEAN] == pytest.approx(mean)
    assert trial.lasted_s == 60.0 <= trial.cost_s < 61.0
    assert trial.ending is LoadEnding.WHOLE
    assert trial.offered_rate == pytest.approx(230.0, rel=0.05)


def test_an_overloaded_trial_completes_what_the_server_can_do() -> None:
    trial = ran(A, 500.0, 60.0)
    assert trial.completed is not None
    assert trial.completed / 60 == pytest.approx(4 / 0.015, rel=0.03)
    assert trial.cost_s == pytest.approx(60 + DRAIN_S, abs=0.5)
    assert sum(trial.series.counts) < (trial.offered or 0)


def test_looks_come_each_second_and_end_the_trial() -> None:
    seen: list[LoadTrial] = []

    def leaves(so_far: LoadTrial) -> bool:
        seen.append(so_far)
        return so_far.lasted_s >= 7

    bench = SimWorkbench(A, ALL, 3, restart_s=5.0)
    trial = bench.run(Probe(rate=200.0, duration_s=30.0), (), leaves)
    assert [one.lasted_s for one in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert trial.ending is LoadEnding.LEFT
    assert trial.lasted_s == 7.0
    assert 12.0 <= trial.cost_s < 13.0
    assert all(len(one.series.at_s) == one.lasted_s for one in seen)
    # The first part of a longer run is the same: it was one run.
    whole = ran(A, 200.0, 30.0)
    assert whole.series.counts[:6] == trial.series.counts[:6]


def test_a_bench_that_is_not_watched_is_not_asked() -> None:
    bench = SimWorkbench(A, ALL, 3, watched=False)
    trial = bench.run(Probe(rate=200.0, duration_s=30.0), (), lambda so_far: True)
    assert trial.ending is LoadEnding.WHOLE


def test_percentiles_and_shares_are_those_of_all_operations() -> None:
    trial = ran(A, 230.0, 60.0)
    bins = trial.series.values["response_ms_p99"]
    assert min(bins) < trial.values["response_ms_p99"] < max(bins)
    within = np.array(trial.series.values["within_40ms_share"])
    counts = np.array(trial.series.counts)
    assert trial.values["within_40ms_share"] == pytest.approx(float(within @ counts / counts.sum()))


def test_shedding_keeps_responses_flat_and_counts_errors() -> None:
    server = BY_NAME["shedding"]
    near, over = ran(server, server.peak_rate, 20.0), ran(server, 6000.0, 20.0)
    assert over.values[MEAN] < 10.0
    assert near.errors < 0.01 * (near.offered or 0)
    assert over.values["error_ratio"] == pytest.approx(1 - 4000 / 6000, abs=0.02)
    assert over.errors == pytest.approx((over.offered or 0) * over.values["error_ratio"])


def test_trials_differ_and_repeat() -> None:
    bench, again = SimWorkbench(A, ALL, 3), SimWorkbench(A, ALL, 3)
    probe = Probe(rate=200.0, duration_s=10.0)
    first, second = bench.run(probe, (), never), bench.run(probe, (), never)
    assert first == again.run(probe, (), never)
    assert first.values != second.values
    assert ran(A, 200.0, 10.0, seed=4).values != first.values


def test_drift_goes_on_between_trials() -> None:
    server = BY_NAME["drift"]
    bench = SimWorkbench(server, ALL, 3, restart_s=600.0)
    trials = [bench.run(Probe(rate=200.0, duration_s=60.0), (), never) for _ in range(8)]
    means = [trial.values[MEAN] for trial in trials]
    assert np.mean(means[4:]) > 1.5 * np.mean(means[:4])
    assert bench.age_s == pytest.approx(sum(trial.cost_s for trial in trials))


# Searches ---------------------------------------------------------------------------


class Ladder:
    """Three probes, and the last rate is the answer."""

    name = "ladder"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        if len(history) == 3:
            return self.best(goal, history)
        rate = goal.start_rate * (1 + len(history))
        return Probe(rate=rate, duration_s=10.0)

    def leaves(
        self, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
    ) -> bool:
        return len(history) == 1 and so_far.lasted_s >= 4

    def read(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
        return history

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        return ClaimResult(
            status=PeakStatus.FOUND,
            detail="",
            claim=goal.claim,
            policy=self.name,
            peak_rate=history[-1].rate,
        )


def test_play_goes_from_the_first_probe_to_the_answer() -> None:
    search = play(Ladder(), A.goal(), A, 3)
    assert [trial.rate for trial in search.history] == [50.0, 100.0, 150.0]
    assert [trial.lasted_s for trial in search.history] == [10.0, 4.0, 10.0]
    assert search.result is not None
    assert search.result.peak_rate == 150.0
    assert search.result.trials == 3
    assert search.load_s == 24.0 == search.result.load_s


@pytest.mark.parametrize("policy", ["binsearch", "monotone"])
@pytest.mark.parametrize("server", ["A-mm4", "drift"])
def test_a_search_resumed_at_any_trial_ends_with_the_same_answer(policy: str, server: str) -> None:
    sim, goal = BY_NAME[server], BY_NAME[server].goal(unit=unit_of(3))
    whole = play(policy_named(policy), goal, sim, 3)
    for k in range(0, len(whole.history), 3):
        rest = play(policy_named(policy), goal, sim, 3, whole.history[:k])
        assert rest.history == whole.history
        assert rest.result == whole.result


def test_units_differ_between_searches_within_their_range() -> None:
    units = [unit_of(seed) for seed in range(2000)]
    assert min(units) > math.exp(-0.35)
    assert max(units) < math.exp(0.35)
    assert np.log(units).std() == pytest.approx(0.7 / math.sqrt(12), rel=0.05)
    assert search_of(Ladder(), A, 5).history[0].rate == pytest.approx(50 * unit_of(5), rel=1e-4)


def test_mlrsearch_finds_a_peak_by_its_own_rules() -> None:
    search = mlrsearch(A, 3, Claim(), by_share=False)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert search.result.peak_rate == pytest.approx(A.peak_rate, rel=0.1)
    assert max(trial.duration_s for trial in search.history) == 60.0
    again = mlrsearch(A, 3, Claim(), by_share=False)
    assert again.history == search.history


# Outcomes ---------------------------------------------------------------------------


def outcome(**changed: object) -> Outcome:
    """Return a good search's outcome with some of it changed."""
    good = Outcome(
        seed=1,
        status="found",
        trials=10,
        load_s=500.0,
        error=0.01,
        in_region=True,
        claim_held=True,
        interval_held=True,
        probability=0.96,
        codes=(),
        cpu_s=0.1,
    )
    return msgspec.structs.replace(good, **changed)


def test_what_did_not_converge_is_a_failure() -> None:
    lost = outcome(status="undecided", error=None, in_region=False, claim_held=False)
    task = Task("A-mm4", "monotone", Claim(), (1, 2, 3, 4))
    row = row_of(task, [outcome(), outcome(error=-0.03), outcome(error=0.07), lost])
    assert row.claim_held.value == row.in_region.value == 0.75
    assert row.unconverged.value == 0.25
    assert row.within_10.value == 0.75
    assert row.within_5.value == 0.5
    assert row.bias == pytest.approx(0.05 / 3)
    assert row.mean_abs_error == pytest.approx(0.11 / 3)
    assert row.with_restarts_s == 500 + 30 * 10
    assert row.finding is None


def test_findings_are_counted_where_one_is_due() -> None:
    server = BY_NAME["drift"]
    code = (server.finding or "").split("|")[0]
    task = Task("drift", "monotone", Claim(), (1, 2))
    row = row_of(task, [outcome(codes=("something", code)), outcome()])
    assert row.finding is not None
    assert row.finding.value == 0.5


def test_claims_are_judged_by_the_true_curve() -> None:
    peak = A.peak_rate
    region, rate = Claim(), Claim(ClaimKind.RATE, tolerance=0.05)
    slo = Claim(ClaimKind.SLO)
    assert in_region(A, 1.013 * peak, region)
    assert not in_region(A, 1.016 * peak, region)
    assert not in_region(A, 0.98 * peak, region)
    assert claim_held(A, 0.96 * peak, rate)
    assert not claim_held(A, 0.94 * peak, rate)
    assert claim_held(A, 0.9 * peak, slo)
    assert not claim_held(A, 1.001 * peak, slo)


def test_wilson() -> None:
    """Against Wilson 1927 by R's prop.test(48, 50, correct = FALSE)."""
    share = wilson([True] * 48 + [False] * 2)
    assert share.low == pytest.approx(0.8654, abs=1e-4)
    assert share.high == pytest.approx(0.9890, abs=1e-4)
    assert wilson([True] * 5).high == 1.0


def test_the_table_is_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "rows.json"
    asked = f"--searches 2 --peer-searches 2 --servers A-mm4 --policies monotone,mlrsearch-mean --claims region:10% --jobs 1 --json {told}"
    peak_table.main(asked.split())
    first = capsys.readouterr().out
    peak_table.main(asked.split())
    assert capsys.readouterr().out == first
    rows = json.loads(told.read_text())
    assert [row["policy"] for row in rows] == ["monotone", "mlrsearch-mean"]
    assert "| mlrsearch-mean | region:10% | 2 |" in first
    ratio = rows[1]["load_s"] / rows[0]["load_s"]
    assert f"| geometric mean | {ratio:.1f} |" in first
    outcomes = play_task(Task("A-mm4", "mlrsearch-mean", Claim(), (1, 2)))
    assert rows[1]["load_s"] == sum(one.load_s for one in outcomes) / 2


def test_a_table_goes_on_with_the_searches_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "outcomes.jsonl"
    same = "--servers A-mm4 --policies monotone --claims rate:10% --jobs 1 --searches"
    peak_table.main([*same.split(), "7", "--outcomes", str(kept)])
    whole = capsys.readouterr().out
    first, second = kept.read_bytes().splitlines(keepends=True)
    # Killed while it wrote its second chunk: the first is kept, the second is played again.
    kept.write_bytes(first + second[:40])
    peak_table.main([*same.split(), "7", "--outcomes", str(kept)])
    ended = capsys.readouterr()
    assert ended.out == whole
    assert ended.err == "1/1 A-mm4\n"
    assert len(kept.read_bytes().splitlines()) == 2
    # Fewer searches are a part of the same file, and nothing is played.
    peak_table.main([*same.split(), "3", "--outcomes", str(kept)])
    assert "| A-mm4 | 3 of 3 |" in capsys.readouterr().out


def test_a_finding_about_a_queue_counts_as_wrong() -> None:
    odd = outcome(codes=("server-stalls",))
    rows = {
        name: row_of(Task(name, "monotone", Claim(), (1, 2)), [odd, outcome()])
        for name in ("A-mm4", "kink", "wall", "drift")
    }
    assert {name for name, row in rows.items() if row.wrong_finding} == {"A-mm4"}
    assert rows["A-mm4"].wrong_finding is not None
    assert rows["A-mm4"].wrong_finding.value == 0.5


def test_the_program_prints_a_run_and_goes_on_from_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.json"
    documents = []
    for _ in range(2):
        sim_server.main(["200", "5", "--server", "A-mm4", "--state", str(state)])
        documents.append(json.loads(capsys.readouterr().out))
    first, second = documents
    assert first["mean_ms"] != second["mean_ms"]
    assert [row[0] for row in first["series"]] == [0, 1, 2, 3, 4]
    assert sum(row[1] for row in first["series"]) == first["offered"]
    assert json.loads(state.read_text())["trials"] == 2
    sim_server.main(["200", "5", "--server", "A-mm4"])
    assert json.loads(capsys.readouterr().out) == first
