"""Tables of text: aligned, the unit in the heading, the same digits in a column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.text_table import (
    TextColumn,
    cells_in_unit,
    duration_column,
    field_lines,
    number_cells,
    number_column,
    number_columns,
    percent_column,
    table_lines,
    text_column,
    word_column,
)


def test_typical_values_decide_on_decimals_and_the_unit() -> None:
    values = [0.012, 0.0000001, 0.5]
    assert cells_in_unit(values, "s", typical=[0.012]) == (["12.00", "0.00", "500.00"], "ms")
    assert cells_in_unit([0.01234, 0.0], "s")[0] == ["12.34", "0.00"]
    assert cells_in_unit([1.5, None], "1/s") == (["1.5", "-"], "1/s")


def test_words_are_left_and_figures_right() -> None:
    columns = [word_column("name", ["a", "longer"]), text_column("n", ["1", "1,000"])]
    assert list(table_lines(columns)) == ["name        n", "a           1", "longer  1,000"]


def test_a_column_of_numbers_has_the_same_decimals() -> None:
    assert number_cells([1.5, 236.3412, None, math.nan]) == ["1.5", "236.3", "-", "-"]
    assert number_cells([100.0, 200.0, math.inf]) == ["100", "200", "never"]
    assert number_cells([80.5, 0.4, 9.0], 3) == ["80.5", "0.4", "9.0"]
    assert number_cells([1e9, 1e-9]) == ["1,000,000,000", "1e-09"]


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_all_cells_have_as_many_decimals(values: list[float]) -> None:
    cells = number_cells(values)
    assert len({len(cell.partition(".")[2]) for cell in cells}) == 1


@pytest.mark.parametrize("unit", ["s", "B"])
@pytest.mark.parametrize("value", [0.0, math.nan, None])
def test_without_a_size_the_unit_is_the_plain_one(unit: str, value: float | None) -> None:
    assert cells_in_unit([value, value], unit)[1] == unit


def test_extreme_numbers_have_exponents_among_others() -> None:
    column = number_column("N", [1e300, 2.5, 1e14, 0.0, -3e20])
    assert column.cells == ("1e+300", "2.5", "1e+14", "0.0", "-3e+20")
    assert cells_in_unit([1e300, 1.0], "s")[0][0] == "1e+300"


def test_the_unit_is_in_the_heading() -> None:
    (times,) = [duration_column("lasted", [0.0123, 0.0456, None])]
    assert (times.heading, times.cells) == ("lasted ms", ("12.3", "45.6", "-"))
    shares = percent_column("errors", [0.01, None])
    assert (shares.heading, shares.cells) == ("errors %", ("1", "-"))


def test_an_estimate_and_its_interval_have_the_same_decimals() -> None:
    columns = number_columns(["value", "low", "high"], [[1.032, 1.0, 1.1]])
    assert [column.cells for column in columns] == [("1.032",), ("1.000",), ("1.100",)]


def test_long_cells_are_wrapped() -> None:
    columns = [
        word_column("a", ["x"]),
        TextColumn("b", ("one two three",), left=True, width=7, wrap=True),
    ]
    assert list(table_lines(columns, indent=" ")) == [" a  b", " x  one two", "    three"]


def test_fields_stand_below_each_other() -> None:
    assert list(field_lines([("peak rate", "1/s"), ("n", "2"), ("", "more")])) == [
        "peak rate  1/s",
        "n          2",
        "           more",
    ]
