"""Transformations of tables: what each gives, and what absent values become."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.stats.aggregate import TABLE_FOLDS, MetricRules, aggregate_trial
from benchwright.stats.table import (
    Table,
    aggregate_rows,
    derive,
    group,
    select,
    table_of_trials,
    trials_of_table,
    unify,
    warn,
    with_wait,
)

NAN = math.nan


def values(table: Table, name: str) -> list[float | str | None]:
    """Return a column with None for what is absent."""
    return [
        None if value is None or value != value else value for value in table.columns[name].tolist()
    ]


def rows() -> Table:
    return Table(
        {
            "epoch": [1, 1, 2, 2],
            "thread": [1, 2, 1, 2],
            "command": ["make", "make", "tar", None],
            "elapsed": [4.0, 5.0, 2.0, 0.0],
            "user": [3.0, 1.0, NAN, 1.0],
            "system": [0.5, 0.5, 0.5, 0.0],
            "ops": [100, None, 300, 400],
        }
    )


def test_a_table_is_frozen_and_its_columns_are_of_one_length() -> None:
    table = rows()
    with pytest.raises(ValueError, match="read-only"):
        table.columns["elapsed"][0] = 9
    with pytest.raises(ValueError, match="columns of one length, not a: 1, b: 2"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="one dimension"):
        Table({"a": [[1, 2]]})
    assert Table({}).rows == 0
    assert "ops" not in table.row(1)
    assert "command" not in table.row(3)
    assert table.columns["ops"].dtype == np.float64


def test_a_derived_column_is_absent_where_a_value_is() -> None:
    assert values(derive(rows(), "x", "$ops / $user"), "x") == [100 / 3, None, None, 400]


def test_what_has_no_value_is_absent() -> None:
    assert values(derive(rows(), "rate", "$ops / $elapsed"), "rate")[3] is None
    assert values(derive(rows(), "r", "sqrt(0 - $elapsed)"), "r") == [None] * 3 + [0.0]


def test_comparisons_are_one_and_zero_and_texts_stay_texts() -> None:
    assert values(derive(rows(), "long", "$elapsed > 3"), "long") == [1, 1, 0, 0]
    kinds = derive(rows(), "kind", '$command eq "tar" ? "io" : "cpu"')
    assert values(kinds, "kind") == ["cpu", "cpu", "io", None]


def test_computed_values_and_headings_can_be_read() -> None:
    table = rows()
    assert values(derive(table, "x", "$wait"), "x") == [0.5, 3.5, None, -1.0]
    assert values(derive(table, "x", "$cpu_percent"), "x") == [87.5, 30.0, None, None]
    assert values(derive(table, "x", "$Elapsed + 1"), "x") == [5, 6, 3, 1]


def test_selecting_and_warning_are_of_true_rows_only() -> None:
    assert values(select(rows(), "$ops > 100"), "ops") == [300, 400]
    assert values(select(rows(), '$command eq "make" && $thread == 2'), "elapsed") == [5]
    assert warn(rows(), "$ops < 500").tolist() == [0, 2, 3]
    assert select(rows(), "$elapsed > 10").rows == 0
    assert warn(rows(), "$elapsed > 10").tolist() == []


def test_a_mistake_in_an_expression_has_its_column() -> None:
    with pytest.raises(InputError) as caught:
        select(rows(), "$elapsed > $nonsense + $nope")
    assert [d.column for d in caught.value.diagnostics] == [12, 24]
    with pytest.raises(InputError, match="expression-syntax"):
        derive(rows(), "x", "$elapsed +")


def test_groups_are_in_order_of_appearance() -> None:
    found = group(rows(), "command")
    assert [(value, table.rows) for value, table in found] == [("make", 2), ("tar", 1), (None, 1)]
    assert [value for value, _ in group(rows(), "thread")] == ["1", "2"]
    with pytest.raises(KeyError):
        group(rows(), "nothing")


def test_rows_become_one_by_the_tables_rules() -> None:
    found = aggregate_rows(rows())
    assert values(found, "elapsed") == [5, 2]
    assert values(found, "user") == [4, None]
    assert values(found, "system") == [1, 0.5]
    assert values(found, "ops") == [None, 350]
    assert values(found, "command") == ["make", "tar"]
    assert values(found, "thread") == [None, None]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("sum", 90.0), ("mean", 22.5), ("max", 40.0), ("min", 10.0), ("median", 20.0), ("count", 4.0)],
)
def test_every_way_to_aggregate(how: str, expected: float) -> None:
    table = Table({"epoch": [1] * 4, "x": [40.0, 10.0, 20.0, 20.0]})
    assert values(aggregate_rows(table, how={"x": how}), "x") == [expected]
    dirty = Table({"epoch": [1] * 3, "x": [1.0, math.inf, 2.0]})
    found = values(aggregate_rows(dirty, how={"x": how}), "x")
    assert found == ([3.0] if how == "count" else [None])
    empty = aggregate_rows(Table({"epoch": [1], "x": [NAN]}), how={"x": how})
    assert values(empty, "x") == ([0.0] if how == "count" else [None])
    assert how in TABLE_FOLDS


def test_aggregating_at_the_ends_of_the_floats() -> None:
    table = Table({"epoch": [1, 1], "x": [1e300, 1e300], "y": [1e-300, 3e-300]})
    found = aggregate_rows(table, how={"x": "mean", "y": "mean"})
    assert values(found, "x") == [1e300]
    assert values(found, "y") == pytest.approx([2e-300])


def test_unifying_sums_commands_and_keeps_threads_apart() -> None:
    table = Table(
        {
            "epoch": [1, 1, 1],
            "thread": [1, 1, 2],
            "command": ["tar", "make", "tar"],
            "status": [0, 2, 0],
            "elapsed": [1.0, 4.0, 2.0],
            "rss_bytes": [10.0, 30.0, 5.0],
            "ops": [None, 7.0, None],
        }
    )
    found = unify(table)
    assert values(found, "elapsed") == [5, 2]
    assert values(found, "rss_bytes") == [30, 5]
    assert values(found, "ops") == [7, None]
    assert values(found, "command") == ["tar + make", "tar"]
    assert values(found, "status") == [2, 0]


def test_unified_and_aggregated_rows_are_what_the_table_shows() -> None:
    rng = np.random.default_rng(5)
    blocks = [
        MeasurementBlock(
            thread,
            1,
            command,
            0,
            {n: float(rng.random()) for n in ("elapsed", "user", "system", "ops")},
        )
        for thread in (1, 2, 3)
        for command in ("tar", "make")
    ]
    expected = aggregate_trial(blocks, MetricRules()).values
    table = with_wait(table_of_trials("t", [trial(1, *blocks)]))
    found = aggregate_rows(unify(table, ("trial", "thread")), ("trial",)).row(0)
    for name in ("elapsed", "user", "system", "wait", "ops"):
        assert found[name] == pytest.approx(expected[name])


def trial(epoch: int, *blocks: MeasurementBlock, ending: TrialEnding = TrialEnding.OK) -> Trial:
    return Trial("t", epoch, 1, ending, 0, 0, tuple(blocks))


def test_trials_survive_the_way_through_a_table() -> None:
    trials = (
        trial(
            1,
            MeasurementBlock(1, 1, "a", 0, {"elapsed": 1.0}),
            MeasurementBlock(1, 1, "b", 3, {"x": 2.0}),
        ),
        trial(2, ending=TrialEnding.FAILED),
        trial(3, MeasurementBlock(2, 3, "a", 0, {"elapsed": 1.5})),
    )
    table = table_of_trials("t", trials, (("FS", "ext2"),))
    assert trials_of_table(table, trials) == trials
    assert values(table, "FS") == ["ext2"] * 3
    # What is deselected is gone; what failed without any row stays.
    left = trials_of_table(select(table, '$command eq "b" && $FS eq "ext2"'), trials)
    assert [(t.epoch, len(t.blocks)) for t in left] == [(1, 1), (2, 0)]


def test_a_table_without_rows_passes_through_everything() -> None:
    table = table_of_trials("t", [])
    assert derive(table, "x", "$epoch + 1").rows == 0
    assert select(table, "$epoch > 1").rows == 0
    assert aggregate_rows(table).rows == unify(table).rows == 0
    assert group(table, "command") == ()
