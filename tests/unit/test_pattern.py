"""Users' regular expressions: linear in the text, and what RE2 does not have."""

from __future__ import annotations

import pytest

from benchwright.core.pattern import PatternError, compile_pattern
from benchwright.core.plan import MetricSpec
from benchwright.inputs.mistakes import fault_of
from benchwright.suite.values import pattern as parse_pattern
from benchwright.trial.observe import MetricNotFound, extract_metric


@pytest.mark.timeout(30)  # a guard against backtracking, which took for ever
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 33 + "b"),
        (r".*rate (\d+)", "x" * 100_000),
        (r"(\d+\.?\d*) ops", "1" * 300_000),
        (r"(\d+\.?\d*) ops", ("1" * 30_000 + "\r") * 100),
        (r"(\w+x)+\d{1,900}y", "wx" * 200_000),
        (r"(.{1,1000})y", "wx" * 500_000),
    ],
)
def test_no_pattern_takes_more_than_linear_time(pattern: str, text: str) -> None:
    with pytest.raises(MetricNotFound, match="no line matches"):
        extract_metric(MetricSpec("m", pattern=pattern), text, "")


@pytest.mark.parametrize(
    ("pattern", "what", "hint", "offset"),
    [
        (r"x (\d+)(?= ops)", "lookahead", "as it is", 7),
        (r"x (\d+)(?! ops)", "lookahead", "instead", 7),
        (r"(?<=rate )(\d+)", "lookbehind", "rate", 0),
        (r"(?<!rate )(\d+)", "lookbehind", "instead", 0),
        (r"(a)\1", "backreference", "words", 3),
        (r"(?P<x>a)(?P=x)", "backreference", "words", 8),
        (r"a++(b)", "possessive", "last +", 1),
        (r"(?>a)(b)", "atomic", r"\(\?:", 0),
        (r"(a)\Z", r"\Z", r"\z", 3),
        (r"(a){1,2000}", "repetition size", "", 0),
        (r"(?x) a (b)", "perl operator", "", 0),
    ],
)
def test_what_re2_does_not_have_is_refused_with_what_to_write(
    pattern: str, what: str, hint: str, offset: int
) -> None:
    fault = fault_of(parse_pattern, pattern)
    assert fault is not None
    assert fault.message.startswith("bad regular expression")
    assert what in fault.message
    assert hint.replace("\\(\\?:", "(?:") in fault.hint
    assert fault.offset == offset


@pytest.mark.parametrize(("pattern", "offset"), [("x(", 1), ("a**(b)", 2), ("[a(b)", 0)])
def test_what_is_no_regular_expression_is_marked_where_it_is_wrong(
    pattern: str, offset: int
) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert caught.value.offset == offset


def test_carets_and_dollars_match_at_each_line() -> None:
    assert compile_pattern(r"^v (\d+)$").search("a 1\nv 2\nb 3")[1] == "2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234),
        ("-1,234", -1234),
        ("12,345,678.25", 12345678.25),
        ("1234.5", 1234.5),
        ("1e3", 1000),
    ],
)
def test_commas_that_group_by_three_are_left_out(text: str, value: float) -> None:
    assert extract_metric(MetricSpec("v", pattern=r"value (\S*)"), f"value {text}", "") == value


@pytest.mark.parametrize(
    "text",
    [
        "0,25",
        "1,5",
        ",5",
        "5,",
        "1,,5",
        "1.234,5",
        "12,34,56",
        "1234,567",
        "1,234e3",
        "1,2345",
        "1,234.5,6",
    ],
)
def test_a_decimal_comma_is_no_number(text: str) -> None:
    with pytest.raises(MetricNotFound, match="not a number") as caught:
        extract_metric(MetricSpec("v", pattern=r"value (\S*)"), f"value {text}", "")
    assert text in str(caught.value)


def test_a_long_match_is_quoted_in_part() -> None:
    with pytest.raises(MetricNotFound) as caught:
        extract_metric(MetricSpec("v", pattern="(x*)"), "x" * 100_000, "")
    assert len(str(caught.value)) < 200
