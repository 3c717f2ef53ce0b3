"""Tables of text: aligned, the unit in the heading, the same digits in a column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.text import scale_of
from benchwright.core.text_table import (
    TextColumn,
    field_lines,
    percent_column,
    table_lines,
    text_column,
    word_column,
)
from benchwright.views.blocks import Cell, Column, Number, TableBlock, Words, number_of
from benchwright.views.terminal import table_rows, table_text


def cells(values: list[float | None], unit: str = "1", digits: int = 4) -> list[str]:
    scale = scale_of(values, unit, digits)
    return [scale.text(value, unit=False) for value in values]


def test_typical_values_decide_on_decimals_and_the_unit() -> None:
    scale = scale_of([0.012], "s", ends=[0.0000001, 0.5])
    assert [scale.text(value) for value in (0.012, 0.0000001, 0.5)] == [
        *("12.00 ms", "0.00 ms", "500.00 ms")
    ]
    assert cells([0.01234, 0.0], "s") == ["12.34", "0.00"]
    assert scale_of([1.5, None], "1/s").text(1.5) == "1.5 1/s"
    assert scale_of([2.5e6], "B/s").text(2.5e6) == "2.5 MB/s"


def test_words_are_left_and_figures_right() -> None:
    columns = [word_column("name", ["a", "longer"]), text_column("n", ["1", "1,000"])]
    assert list(table_lines(columns)) == ["name        n", "a           1", "longer  1,000"]


def test_a_column_of_numbers_has_the_same_decimals() -> None:
    assert cells([1.5, 236.3412, None, math.nan]) == ["1.5", "236.3", "-", "-"]
    assert cells([80.5, 0.4, 9.0], digits=3) == ["80.5", "0.4", "9.0"]
    assert cells([1e9, 1e-9]) == ["1,000,000,000", "1e-09"]
    assert number_of("k", math.inf, scale_of([1.0], "s")).text == "never"


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_all_cells_have_as_many_decimals(values: list[float | None]) -> None:
    assert len({len(cell.partition(".")[2]) for cell in cells(values)}) == 1


@pytest.mark.parametrize("unit", ["s", "B"])
@pytest.mark.parametrize("value", [0.0, math.nan, None])
def test_without_a_size_the_unit_is_the_plain_one(unit: str, value: float | None) -> None:
    assert scale_of([value, value], unit).unit == unit


def test_extreme_numbers_have_exponents_among_others() -> None:
    assert cells([1e300, 2.5, 1e14, 0.0, -3e20]) == ["1e+300", "2.5", "1e+14", "0.0", "-3e+20"]
    assert cells([1e300, 1.0], "s")[0] == "1e+300"


def test_shares_have_their_unit_in_the_heading() -> None:
    shares = percent_column("errors", [0.01, None])
    assert (shares.heading, shares.cells) == ("errors %", ("1", "-"))


def number(text: str, low: str = "", high: str = "") -> Number:
    return Number(key="k", value=1.0, text=text, low_text=low, high_text=high)


def table(columns: list[Column], *rows: tuple[Cell, ...]) -> TableBlock:
    return TableBlock(id="t", title="T", columns=tuple(columns), rows=rows)


def test_a_unit_that_all_numbers_have_is_in_the_heading() -> None:
    column = Column("Time", numeric=True)
    alike = table([column], (number("1.5 ms", "1.2", "1.8 ms"),), (number("-"),))
    assert table_rows(alike) == [["time ms", "low", "high"], ["1.5", "1.2", "1.8"], ["-", "", ""]]
    mixed = table([column], (number("1.5 ms"),), (number("2 MB"),))
    assert table_rows(mixed) == [["time"], ["1.5 ms"], ["2 MB"]]
    compound = table([column], (number("3 min 20 s"),), (number("4 min 1 s"),))
    assert table_rows(compound)[0] == ["time"]
    counts = table([column], (number("10, 12"),))
    assert table_rows(counts) == [["time"], ["10, 12"]]


def test_a_table_that_is_too_wide_is_cut_or_wrapped_but_no_word_is_broken() -> None:
    rows = (Words("a"), Words("/a/path/without/blanks")), (Words("b"), Words("x " * 20))
    both = table([Column("Name"), Column("Text")], *rows)
    assert list(table_text(both, 30, cut=True))[1:] == [
        "a     /a/path/without/blanks",
        f"b     {'x ' * 10}x...",
    ]
    wrapped = list(table_text(both, 30, wrap=True))
    assert wrapped[1] == "a     /a/path/without/blanks"
    assert max(map(len, wrapped)) <= 30
    narrow = list(table_text(both, 20, wrap=True))
    assert narrow[1] == "a     /a/path/without/blanks"


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
