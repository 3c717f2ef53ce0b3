"""How figures are written: one form for each kind."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core import text as t


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "-"),
        (0.0, "0"),
        (-0.00001234, "-1.234e-05"),
        (1e13, "1e+13"),
        (1_234_567, "1,235,000"),
        (0.05, "0.05"),
        (99.996, "100"),
    ],
)
def test_a_number_has_four_digits(value: float | None, written: str) -> None:
    assert t.number_text(value) == written


@given(st.floats(min_value=1e-4, max_value=1e11), st.integers(2, 6))
def test_a_number_is_right_to_its_digits(value: float, digits: int) -> None:
    back = float(t.number_text(value, digits).replace(",", ""))
    assert back == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits))


@given(st.integers(0, 10**15), st.integers(1, 5))
def test_a_lower_bound_is_rounded_down(value: int, digits: int) -> None:
    bound = t.rounded_down(value, digits)
    assert bound <= value < bound + 10 ** max(0, len(str(value)) - digits)
    assert len(str(bound).rstrip("0")) <= digits


def test_times_are_short_or_in_minutes_and_hours() -> None:
    seconds = (None, 0, 1e-9, 5.6e-5, 0.9996, 48.51, 99.96, 120, 3599.7, 7500, -200)
    assert [t.duration_text(s) for s in seconds] == [
        *("-", "0 s", "1 ns", "56 us", "1 s", "48.5 s", "1 min 40 s", "2 min"),
        *("1 h", "2 h 5 min", "-3 min 20 s"),
    ]
    assert t.signed_duration_ns_text(1500) == "+1.5 us"
    assert t.signed_duration_ns_text(0) == "0"


def test_sizes_are_decimal_or_binary() -> None:
    assert [t.size_text(n) for n in (0, 999, 1000, 12_345_678)] == [
        *("0 B", "999 B", "1 kB", "12.3 MB")
    ]
    assert [t.binary_size_text(n) for n in (1000, 65536, 3 << 29)] == [
        *("1,000 B", "64 KiB", "1.5 GiB")
    ]
    assert t.byte_rate_text(2e6) == "2 MB/s"
    assert t.byte_rate_text(None) == "-"


def test_shares_and_probabilities() -> None:
    assert [t.percent_text(x) for x in (None, 0, 0.00012, 0.973, 1, 12.345)] == [
        *("-", "0 %", "0.012 %", "97.3 %", "100 %", "1,230 %")
    ]
    assert t.signed_percent_text(-3, 100) == "-3 %"
    assert t.signed_percent_text(0.5, 100) == "+0.5 %"
    assert t.signed_percent_text(3, 0) == "+3"
    assert [t.p_text(p) for p in (math.nan, 0.0312, 1e-5)] == [
        *("P = -", "P = 0.031", "P < 0.0001")
    ]


def test_counts_and_lists() -> None:
    assert [t.plural(2, noun) for noun in ("search", "process")] == ["2 searches", "2 processes"]
    assert [t.plural(n, "trial") for n in (0, 1, 12_000)] == [
        *("0 trials", "1 trial", "12,000 trials")
    ]
    assert t.part_text(3, 1000) == "3 of 1,000 operations (0.3 %)"
    assert t.list_text(["a", "b", "c"]) == "a, b and c"
    assert t.list_text(["a", "b", "c"], 2) == "a, b and c"
    assert t.list_text(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert t.some_text(["a", "b", "c"], 2) == "a, b, c"
    assert t.some_text(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert t.some_text(["a", "b", "c", "d"], 2, "; ") == "a; b; and 2 more"
    assert t.some_text([], 2) == ""
    assert t.more_text(1234) == "and 1,234 more"
    assert t.epochs_text([2, 5], 10) == "trials 2, 5 (2 of 10)"
    assert t.epochs_text([1, 1], 2) == "trial 1 (2 of 2 attempts)"
    assert t.epochs_text([1, 1, 2], 4) == "trials 1, 2 (3 of 4 attempts)"
    assert [t.cpus_text(x) for x in (1.0, 1.239)] == ["1 CPU", "1.24 CPUs"]


def test_a_metric_has_the_unit_that_suits() -> None:
    assert t.quantity_text(150.3, "s") == "150.3 s"
    assert t.quantity_text(0.0105, "s") == "10.5 ms"
    assert t.quantity_text(5, "requests") == "5 requests"
    assert t.quantity_text(5, "") == "5"
    assert t.quantity_text(5, "1") == "5", "a pure number"


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1234567891, "", "1,234,567,891"),
        (1048576.0, "1", "1,048,576"),
        (16777216, "B", "16.777216 MB"),
        (9007199254740991, "instructions", "9,007,199,254,740,991 instructions"),
        (0.1234567, "s", "123.4567 ms"),
        (150.25, "s", "150.25 s"),
        (0.1 + 0.2, "s", "300 ms"),
        (1234567.5, "B/s", "1.2345675 MB/s"),
        (-1234567, "", "-1,234,567"),
        (0, "", "0"),
        (1e30, "", "1e+30"),
        (1e-7, "J", "1e-07 J"),
    ],
)
def test_an_exact_value_has_all_its_digits(value: float, unit: str, expected: str) -> None:
    assert t.exact_text(value, unit) == expected
