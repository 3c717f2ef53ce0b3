"""Arbitrary and mutated expressions: an InputError with columns, or a value."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.core.expression import PREDICATE_VARIABLES, EvaluationError, parse, to_number
from benchwright.core.expression import to_text as text_of

TOKENS = [
    *[
        "+",
        "-",
        "*",
        "/",
        "%",
        "**",
        "<",
        ">",
        "<=",
        ">=",
        "==",
        "!=",
        "<=>",
        "eq",
        "ne",
        "lt",
        "gt",
        "le",
        "ge",
        "cmp",
        ".",
        "=~",
        "!~",
        "/a+$/",
        "m{x(}",
        "/$name/i",
        "substr(",
        "length(",
        "&&",
        "||",
        "!",
        "and",
        "or",
    ],
    *[
        "not",
        "?",
        ":",
        "(",
        ")",
        ",",
        "abs(",
        "sqrt(",
        "log(",
        "exp(",
        "int(",
        "min(",
        "max(",
        "0",
        "1",
        "2.5",
        "1e300",
        ".5",
        "10",
    ],
    *[
        "$mean",
        "${delta}",
        "$count",
        "$name",
        "$nope",
        "=",
        "&",
        "|",
        "{",
        "}",
        "[",
        "é",
        "\\",
        "\x00",
        "9e999",
        "$",
    ],
    *('"$delta"', "'x'", '"a b"', '""', "'3abc'", "'", '"'),
]
VALUES: dict[str, float | str] = {
    "name": "User",
    "mean": 2.0,
    "median": 2.0,
    "delta": math.nan,
    "count": 12.0,
    "sdev": math.inf,
    "min": -1.0,
    "max": 3.0,
    "slope": 0.0,
    "sum": 24.0,
}


def check(text: str) -> None:
    """Parse and evaluate; every error has its column on the text."""
    try:
        expression = parse(text, variables=PREDICATE_VARIABLES, file="p", line=3)
    except InputError as error:
        for d in error.diagnostics:
            assert (d.file, d.line) == ("p", 3)
            assert 1 <= d.column <= len(text) + 1
        return
    try:
        value = expression.evaluate(VALUES)
    except EvaluationError as failure:
        column = failure.column
        assert 1 <= column <= len(text) + 1
        return
    assert isinstance(value, (float, str))
    assert isinstance(expression.truth(VALUES), bool)
    assert isinstance(text_of(value), str)


@settings(max_examples=500)
@given(st.text())
def test_arbitrary_text(text: str) -> None:
    check(text)


@settings(max_examples=1500)
@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(" ".join))
def test_arbitrary_tokens(text: str) -> None:
    check(text)


@settings(max_examples=300)
@given(
    st.sampled_from(("(", "-", "!", "not ", "1?", "2**", "1+", "abs(", "$mean || ")),
    st.integers(0, 3000),
)
def test_depth_and_length_are_bounded(piece: str, times: int) -> None:
    check(piece * times + "1" + ")" * (times if "(" in piece else 0))


@given(st.floats(-1e300, 1e300))
def test_a_number_survives_the_string_context_to_15_digits(value: float) -> None:
    assert math.isclose(to_number(text_of(value)), value, rel_tol=1e-14, abs_tol=0.0)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_whole_numbers_divide_as_in_perl(left: int, right: int) -> None:
    text = f"{left} % ({right})"
    expression = parse(text, variables=())
    if right == 0:
        try:
            expression.evaluate({})
        except EvaluationError:
            return
        raise AssertionError("modulus by zero has no value")
    assert expression.evaluate({}) == left % right
