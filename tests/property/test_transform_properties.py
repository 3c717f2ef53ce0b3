"""What holds of transformations for any table."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchwright.stats.table import Table, aggregate_rows, derive, group, select, unify, warn

NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True, width=64))
ROWS = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.sampled_from(["a", "b", None]), NUMBERS, NUMBERS
    ),
    max_size=12,
)
EXPRESSIONS = st.sampled_from(
    ["$x > $y", "$x / $y", "sqrt($x) + log($y)", '$command eq "a"', "$x % $y > 1", "$x"]
)


def table_of(rows: list[tuple[object, ...]]) -> Table:
    """Return the rows as a table whose kinds of columns do not depend on them."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    numbers = [
        np.array([math.nan if v is None else v for v in column], dtype=float)
        for column in (columns[0], columns[1], columns[3], columns[4])
    ]
    return Table(
        {
            "epoch": numbers[0],
            "thread": numbers[1],
            "command": np.array(columns[2], dtype=object),
            "x": numbers[2],
            "y": numbers[3],
        }
    )


@given(ROWS, EXPRESSIONS)
def test_selected_and_warned_rows_are_the_same(
    rows: list[tuple[object, ...]], expression: str
) -> None:
    table = table_of(rows)
    chosen = select(table, expression)
    assert chosen.rows == warn(table, expression).size
    assert select(chosen, expression).rows == chosen.rows
    # A row and its negation: never both; neither, where the expression is absent.
    absent = np.array(
        [value is None or value != value for value in derive(table, "z", expression).columns["z"]]
    )
    refused = select(table, f"not ({expression})").rows
    assert chosen.rows + refused == table.rows - int(absent.sum())


@given(ROWS, st.sampled_from(["epoch", "thread", "command", "x"]))
def test_groups_part_the_rows(rows: list[tuple[object, ...]], column: str) -> None:
    table = table_of(rows)
    groups = group(table, column)
    assert sum(part.rows for _, part in groups) == table.rows
    assert len({value for value, _ in groups}) == len(groups)


@given(ROWS)
def test_one_row_per_key_and_nothing_invented(rows: list[tuple[object, ...]]) -> None:
    table = table_of(rows)
    found = aggregate_rows(table, ("epoch",), {"x": "count", "y": "max"})
    keys = {row[0] for row in rows}
    assert found.rows == len(keys)
    assert set(found.columns["epoch"].tolist()) == keys
    given_x = [r[3] for r in rows if r[3] is not None and not math.isnan(r[3])]
    assert float(np.sum(found.columns["x"])) == len(given_x)
    allowed = {r[4] for r in rows}
    assert all(v in allowed for v in found.columns["y"].tolist() if not math.isnan(v))


@given(ROWS)
def test_unifying_twice_is_unifying_once(rows: list[tuple[object, ...]]) -> None:
    once = unify(table_of(rows))
    twice = unify(once)
    for name, column in once.columns.items():
        if column.dtype.kind == "O":
            assert column.tolist() == twice.columns[name].tolist()
        else:
            np.testing.assert_array_equal(column, twice.columns[name])
