"""Commands unified, threads aggregated, Wait and CPU% computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import MetricSpec
from benchwright.core.results import Summary
from benchwright.findings.result import TestResult
from benchwright.report.stats_document import table_of
from benchwright.stats.aggregate import (
    HOOK_VALUES,
    MetricRules,
    aggregate_trial,
    metric_columns,
    observe_trials,
    trials_of_blocks,
)


def block(thread: int, epoch: int = 1, status: int = 0, **values: float) -> MeasurementBlock:
    return MeasurementBlock(thread, epoch, "cmd", status, values)


def trial_values(
    blocks: list[MeasurementBlock], specs: Sequence[MetricSpec] = ()
) -> dict[str, float]:
    return aggregate_trial(blocks, MetricRules(specs)).values


def trial(epoch: int, ending: TrialEnding = TrialEnding.OK, **values: float) -> Trial:
    blocks = (block(1, epoch, **values),)
    return Trial("t", epoch, 1, ending, 0, 10, blocks)


def test_the_longest_thread_is_the_elapsed_time_and_cpu_times_are_summed() -> None:
    found = trial_values(
        [
            block(1, elapsed=4.0, user=1.0, system=0.5, rss_bytes=100, major_faults=2),
            block(2, elapsed=5.0, user=1.5, system=0.25, rss_bytes=300, major_faults=3),
        ]
    )
    assert found["elapsed"] == 5
    assert (found["user"], found["system"]) == (2.5, 0.75)
    assert (found["rss_bytes"], found["major_faults"]) == (300, 5)
    assert found["wait"] == pytest.approx((4 - 1.5) + (5 - 1.75))
    assert found["cpu_percent"] == pytest.approx(65)


def test_commands_of_one_thread_become_one_result_before_threads_are_aggregated() -> None:
    found = trial_values(
        [
            block(1, elapsed=1.0, user=0.5, system=0.0, rss_bytes=50),
            block(1, elapsed=2.0, user=0.5, system=0.5, rss_bytes=20),
            block(2, elapsed=2.5, user=0.25, system=0.0, rss_bytes=70),
        ]
    )
    assert (found["elapsed"], found["user"], found["rss_bytes"]) == (3, 1.25, 70)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (MetricSpec("ops", better="higher"), 30),
        (MetricSpec("ops"), 15),
        (MetricSpec("ops", across_threads="max"), 20),
        (MetricSpec("ops", across_threads="min"), 10),
        (MetricSpec("ops", better="higher", across_threads="mean"), 15),
    ],
)
def test_a_declared_metric_says_how_threads_are_aggregated(
    spec: MetricSpec, expected: float
) -> None:
    assert trial_values([block(1, ops=10), block(2, ops=20)], [spec]) == {"ops": expected}


@pytest.mark.parametrize("prefix", ["", "server_"])
def test_what_a_hook_reads_at_one_moment_is_not_summed_over_commands(prefix: str) -> None:
    free, growth = f"{prefix}free_memory_bytes", f"{prefix}disk_read_bytes"
    values = [{free: 10.0, growth: 1.0}, {free: 20.0, growth: 2.0}]
    found = trial_values([block(1, **one) for one in values])
    assert found == {free: 15, growth: 3}


@pytest.mark.parametrize("name", HOOK_VALUES)
def test_a_machines_value_is_not_summed_over_threads(name: str) -> None:
    spec = MetricSpec(name, better="higher")
    blocks = [block(1, **{name: 10.0}), block(2, **{name: 10.0})]
    assert trial_values(blocks, [spec]) == {name: 10}
    told = MetricSpec(name, across_threads="sum")
    assert trial_values(blocks, [told]) == {name: 20}


def test_what_only_some_threads_have_is_absent_and_named() -> None:
    found = aggregate_trial([block(1, elapsed=1, ops=10), block(2, elapsed=2)], MetricRules())
    assert found.values == {"elapsed": 2}
    assert found.partial == ("ops",)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_absent_and_named(bad: float) -> None:
    blocks = [block(1, ops=10), block(1, ops=bad), block(1, elapsed=1)]
    found = aggregate_trial(blocks, MetricRules())
    assert found.values == {"elapsed": 1}
    assert found.partial == ("ops",)


def test_no_cpu_share_of_no_time() -> None:
    found = trial_values([block(1, elapsed=0.0, user=0.0, system=0.0)])
    assert found["wait"] == 0
    assert "cpu_percent" not in found


def test_the_first_failure_is_the_status() -> None:
    blocks = [block(1), block(1, status=3), block(2, status=4)]
    assert aggregate_trial(blocks, MetricRules()).status == 3


def test_no_blocks_are_no_values() -> None:
    assert trial_values([]) == {}


def test_series_leave_out_trials_that_do_not_count_and_values_that_are_missing() -> None:
    trials = [
        trial(1, elapsed=1, ops=5),
        trial(2, TrialEnding.FAILED, elapsed=100),
        trial(3, TrialEnding.INTERRUPTED, elapsed=100),
        trial(4, TrialEnding.TIMEOUT, elapsed=100),
        trial(5, elapsed=2),
    ]
    rules = MetricRules(())
    columns = metric_columns(observe_trials(trials, rules), rules)
    series = {name: list(column.values) for name, column in columns.items()}
    assert series == {"elapsed": [1, 2], "ops": [5]}


def test_rows_of_a_file_become_trials_by_epoch() -> None:
    rows = [block(1, 1, elapsed=1), block(2, 1, elapsed=2), block(1, 2, 1, elapsed=3)]
    first, second = trials_of_blocks("x.res", rows)
    assert (first.epoch, first.threads, first.ending) == (1, 2, TrialEnding.OK)
    assert (second.epoch, second.ending) == (2, TrialEnding.FAILED)


def table(
    trials: list[Trial], specs: tuple[MetricSpec, ...] = (), *, everything: bool = False
) -> tuple[Summary, ...]:
    """Return the rows of the table of a test with these trials."""
    return table_of(TestResult("t", (), specs, tuple(trials)), everything=everything)


def test_rows_come_in_the_tables_order_and_extras_only_when_asked_for() -> None:
    trials = [trial(1, zeta=1, ops=2, rss_bytes=3, user=0.1, system=0.2, elapsed=1, alpha=1)]
    specs = (MetricSpec("ops"),)
    labels = [s.label for s in table(trials, specs)]
    assert labels == ["Elapsed", "System", "User", "Wait", "CPU%", "ops", "zeta", "alpha"]
    everything = [s.label for s in table(trials, specs, everything=True)]
    assert everything == [*labels, "rss_bytes"]
    asked = [s.label for s in table(trials, (MetricSpec("rss_bytes"), *specs))]
    assert asked[5:7] == ["rss_bytes", "ops"]


def test_a_declared_metric_without_a_value_is_a_row_of_none() -> None:
    (_, row) = table([trial(1, elapsed=1)], (MetricSpec("ops", unit="1/s"),))
    assert (row.label, row.count, row.unit) == ("ops", 0, "1/s")


def test_predicates_are_asked_about_times_and_declared_metrics() -> None:
    book = MetricRules([MetricSpec("ops")])
    names = ("elapsed", "user", "system", "wait", "cpu_percent", "free", "ops", "rss_bytes")
    assert book.judged(names) == ("elapsed", "system", "user", "ops")
    assert MetricRules().judged(("latency", "rss_bytes")) == ("latency",)


def test_threads_that_never_wait_have_no_negative_wait() -> None:
    busy = [block(n, elapsed=1.0, user=0.6, system=0.4) for n in range(1, 5)]
    found = trial_values(busy)
    assert found["wait"] == pytest.approx(0)
    assert found["cpu_percent"] == pytest.approx(400)


def test_a_bound_of_what_cannot_be_negative_is_not_below_0() -> None:
    trials = [
        trial(epoch, elapsed=x, user=0.0, delay=x, major_faults=x)
        for epoch, x in enumerate((0.001, 0.0, 0.02), 1)
    ]
    rows = {row.name: row for row in table(trials, everything=True)}
    delay = rows["delay"]
    assert delay.low < 0, "a metric of the user's may be negative"
    for name in ("elapsed", "major_faults"):
        assert rows[name].low == 0
        assert rows[name].high == pytest.approx(delay.high)
        assert rows[name].half_width == pytest.approx(delay.half_width)


@pytest.mark.parametrize(
    ("unit", "is_signed"),
    [("1/s", False), ("B/s", False), ("req/s", False), ("B", False), ("s", False), ("", True)],
)
def test_a_bound_of_a_rate_or_a_size_is_not_below_0(unit: str, is_signed: bool) -> None:
    trials = [trial(epoch, of=x) for epoch, x in enumerate((1.0, 30.0, 2.0), 1)]
    specs = (MetricSpec("of", unit=unit, better="higher"),)
    one = TestResult("t", tuple(b for t in trials for b in t.blocks), specs=specs)
    (row,) = (row for row in table_of(one, everything=True) if row.name == "of")
    assert row.low < 0 if is_signed else row.low == 0


@pytest.mark.parametrize("name", ["req/s", "requests_per_second", "allocs/op", "throughput"])
def test_a_name_of_a_rate_is_enough(name: str) -> None:
    trials = [trial(epoch, **{name: x}) for epoch, x in enumerate((1.0, 30.0, 2.0), 1)]
    assert {row.name: row for row in table(trials, everything=True)}[name].low == 0
    odd = [trial(epoch, elapsed=x) for epoch, x in enumerate((-0.1, 0.2), 1)]
    assert table(odd)[0].low < 0, "values that are wrong stay visible"
