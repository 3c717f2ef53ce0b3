"""Expressions: Perl's precedence and contexts, and every error with its column."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys

import pytest

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.expression import PREDICATE_VARIABLES, EvaluationError, parse
from benchwright.core.expression import to_text as text_of
from benchwright.core.expression.parser import MAX_LENGTH

VALUES: dict[str, float | str] = {
    "name": "User",
    "mean": 10.0,
    "median": 9.5,
    "delta": 0.4,
    "count": 12.0,
    "sdev": 0.7,
    "min": 8.0,
    "max": 12.0,
    "slope": -0.01,
    "sum": 120.0,
}

PERL = [
    # The paper's predicates, and those that the manual ships.
    '("$delta" < 0.05 * $mean) || ($count > 30)',
    '("$name" ne "User" && $count > 3) || ("$delta" < 0.05 * $mean)',
    "($name eq 'User' && $mean < 0.1) || ($delta / $mean < .03)",
    # Precedence and associativity.
    "1 + 2 * 3 - 4 / 8",
    "2 ** 3 ** 2",
    "-2 ** 2",
    "2 ** -1",
    "10 - 3 - 2",
    "100 / 10 / 5",
    "!1 == 0",
    "! 0 + 1",
    "not 1 == 2",
    "not 0 and 0 or 5",
    "1 ? 2 : 0 ? 3 : 4",
    "0 ? 2 : 0 ? 3 : 4",
    "1 || 0 && 0",
    "0 or 2 and 3",
    "1 < 2 == 1",
    "'a' . 1 + 2",
    "1 + 2 . 3 + 4",
    "1 . 2 * 3",
    "- - 3",
    "-(3 - 5)",
    # Truth, and what the logical operators return.
    "!''",
    "!'0'",
    "!'0.0'",
    "!'00'",
    "!0.0",
    "!!'abc'",
    "0 || 'x'",
    "'y' || 'x'",
    "'' && 3",
    "5 && 'z'",
    "3 > 4",
    "(3 > 4) + 0",
    "(3 < 4) . ''",
    # Numeric and string contexts.
    "'3 apples' + 4",
    "'abc' + 1",
    "'  12x' * 2",
    "'1e3' + 0",
    "'.5' + '.25'",
    "'0x1A' + 0",
    "'10' == 10.0",
    "'10' eq 10.0",
    "'abc' == 0",
    "10 lt 9",
    "10 < 9",
    "'b' cmp 'a'",
    "2 <=> 10",
    "2 cmp 10",
    "'a' lt 'b'",
    "'a' ge 'a'",
    "1.0",
    "1.50",
    "0.1 + 0.2",
    "1e15 + 0.5",
    "1e16",
    "1 / 3",
    "1e-7",
    "123456789 * 1000",
    "-0.0 . ''",
    '"$name has $mean"',
    '"${name}s"',
    '"a\\"b\\$c\\\\"',
    "'it\\'s'",
    "-'foo'",
    "-'10'",
    # Modulus, powers, functions.
    "7 % 3",
    "-7 % 3",
    "7 % -3",
    "-7 % -3",
    "7.9 % 3.9",
    "int(7.9)",
    "int(-7.9)",
    "int('42abc')",
    "abs(-3) + abs(3)",
    "sqrt(16)",
    "exp(0)",
    "log(exp(2))",
    "9 ** 0.5",
    "(-8) ** 3",
    "9**9**9",
    "9**9**9 - 9**9**9",
    "9**9**9 == 9**9**9",
    "$count >= 10 ? 'enough' : 'more'",
    "sin(1) . ' ' . cos(1) . ' ' . atan2(1, 2)",
    "atan2(-1, -1)",
    "sin(9**9**9)",
    "int(atan2(0, -1) * 1000)",
    # Texts.
    "length('seven') + length(12.50)",
    "lc('MiXed') . uc('MiXed') . lc(1)",
    "substr('abcdef', 2)",
    "substr('abcdef', 1, 3)",
    "substr('abcdef', -3)",
    "substr('abcdef', -3, 2)",
    "substr('abcdef', 1, -2)",
    "substr('abcdef', -10, 6)",
    "substr('abcdef', 6) . '.'",
    "substr('abcdef', 9) . '.'",
    "substr('abcdef', 2, 0) . '.'",
    "substr('abcdef', 4, -3) . '.'",
    "substr($name, 0, 1) eq 'U'",
    "substr(12345, 1.9, '2x')",
    # Matching.
    "$name =~ /se/",
    "$name =~ /^User$/",
    "$name =~ /^user$/",
    "$name =~ /^user$/i",
    "$name !~ /^user$/",
    "$name !~ /User|Elapsed/ || $count > 3",
    "'a/b' =~ /a\\/b/",
    "'a/b' =~ m{a/b}",
    "'a}b' =~ m{a\\}b}",
    "'aa' =~ m{^a{2}$}",
    "'a#b' =~ m#a\\#b#",
    "'x(y)' =~ m(\\(y\\))",
    "'ab' =~ m|b|",
    '"a\\nb" =~ /^b/',
    '"a\\nb" =~ /^b/m',
    '"a\\nb" =~ /a.b/',
    '"a\\nb" =~ /a.b/s',
    '"A\\nB" =~ /^a.b$/ism',
    "$name =~ 'U(s|x)er'",
    "'User' =~ $name",
    "'the User is' =~ /the $name is/",
    "'Users' =~ /^${name}s$/",
    "12.5 =~ /^\\d+\\.5$/",
    "3 * 'a' =~ /a/",
    "! 'a' =~ /a/",
    "-1 . 'a' =~ /a/",
    "'a' =~ /a/ == 1",
    "('x' . 'y') =~ /xy/ ? 'yes' : 'no'",
    "'b' =~ /a/ || 'c' =~ /c/",
]


def perl_results(expressions: list[str]) -> list[str]:
    """Return what Perl prints for each expression, in one run of it."""
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("NOT COMPARED WITH PERL: there is no perl on this machine")
    settings = "".join(f"my ${name} = {json.dumps(value)};" for name, value in VALUES.items())
    each = "".join(f"print(scalar({one}), chr(10));" for one in expressions)
    script = f"no warnings; {settings} {each}"
    done = subprocess.run([perl, "-e", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_perl_agrees() -> None:
    ours = [text_of(parse(one, variables=VALUES).evaluate(VALUES)) for one in PERL]
    theirs = perl_results(PERL)
    assert len(theirs) == len(PERL)
    different = [
        (one, mine, perl)
        for one, mine, perl in zip(PERL, ours, theirs, strict=True)
        if mine != perl
    ]
    assert different == []


def truth(text: str, **changed: float | str) -> bool:
    return parse(text, variables=PREDICATE_VARIABLES).truth({**VALUES, **changed})


def test_the_predicate_of_figure_1() -> None:
    predicate = '("$delta" < 0.05 * $mean) || ($count > 30)'
    assert truth(predicate)
    assert not truth(predicate, delta=0.6)
    assert truth(predicate, delta=0.6, count=31.0)
    assert not truth(predicate, delta=0.6, count=30.0)


def test_an_interval_that_is_not_known_yet_is_not_narrow() -> None:
    assert not truth('"$delta" < 0.05 * $mean', delta=math.nan)
    assert not truth('!("$delta" >= 0) && "$delta" < 1', delta=math.nan)


def test_nan_compared_is_undefined() -> None:
    assert parse("$x <=> 1", variables=None).evaluate({"x": math.nan}) == ""


def test_infinity_is_a_value() -> None:
    assert parse("9**9**9**9", variables=None).evaluate({}) == math.inf
    assert parse("exp(10000)", variables=None).evaluate({}) == math.inf


def test_minimum_and_maximum() -> None:
    assert parse("min(3, 1, 2) . max(3, 1, '20')", variables=None).evaluate({}) == "120"


def test_a_pattern_cannot_hold_up_a_predicate() -> None:
    hostile = "a" * 100_000 + "!"
    expression = parse("$x =~ /^(a+)+$/ || $x =~ /(a|a)*b/", variables=None)
    assert not expression.truth({"x": hostile})


def test_a_pattern_that_a_variable_makes_wrong_is_an_error_at_its_place() -> None:
    expression = parse("1 + ('a' =~ /$p/)", variables=None)
    with pytest.raises(EvaluationError) as caught:
        expression.evaluate({"p": "(b"})
    assert caught.value.column == 10
    assert "'(b'" in caught.value.message


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 + 2 / 0", 7, "the right side of `/` is 0"),
        ("1 % 0.5", 3, "the right side of `%` is 0"),
        ("sqrt(-1)", 1, "sqrt(-1) has no value"),
        ("1 + log(0)", 5, "log(0) has no value"),
        ("$x + 1", 1, "$x has no value"),
    ],
)
def test_what_has_no_value(text: str, column: int, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        parse(text, variables=None).evaluate({})
    assert (caught.value.column, caught.value.message) == (column, message)


def mistakes(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(InputError) as caught:
        parse(text, variables=PREDICATE_VARIABLES)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("", 1, "ends too early"),
        ("1 +", 4, "ends too early"),
        ("(1", 3, "not closed"),
        ("1)", 2, "')' is not expected"),
        ("1 2", 3, "'2' is not expected"),
        ("1 < 2 < 3", 7, "follows another comparison"),
        ("1 == 2 != 3", 8, "follows another comparison"),
        ("$mean = 3", 7, "'=' means nothing"),
        ("$count & 1", 8, "'&' means nothing"),
        ("'abc", 1, "not closed"),
        ('1 . "abc', 5, "not closed"),
        ("010", 1, "octal"),
        ("12abc", 1, "not a number"),
        ("count > 3", 1, "neither a function nor an operator"),
        ("sqrt 4", 6, "parentheses"),
        ("abs(1, 2)", 6, "takes one argument"),
        ("substr(1)", 9, "takes 2 to 3 arguments"),
        ("atan2(1, 2, 3)", 11, "takes two arguments"),
        ("'a' =~ /b", 8, "pattern is not closed"),
        ("'a' =~ /b(/", 10, "cannot be used"),
        ("'a' =~ m{b(}", 11, "cannot be used"),
        ("'a' =~ /a(?=b)/", 10, "lookahead is not supported"),
        ("'a' =~ /(a)\\1/", 12, "backreference is not supported"),
        ("'a' =~ /a/x", 11, "/x is not supported"),
        ("'a' =~ s/a/b/", 8, "no substitution"),
        ("'a' =~ tr/a/b/", 8, "no substitution"),
        ("'a' =~", 7, "ends too early"),
        ("$mean ~ 3", 7, "'~' means nothing"),
        ("1 ? 2", 6, "needs its :"),
        ('"\\q"', 2, "not an escape"),
        ("system('ls')", 1, "neither a function"),
        ("`ls`", 1, "means nothing"),
    ],
)
def test_bad_syntax(text: str, column: int, part: str) -> None:
    first = mistakes(text)[0]
    assert first.column == column
    assert part in first.message
    assert first.code == "expression-syntax"


def test_all_mistakes_at_once_with_hints() -> None:
    found = mistakes('$meen < 3 || "$cuont" = foo')
    assert [d.column for d in found] == [1, 15, 23, 25]
    assert [d.code for d in found] == [
        "expression-unknown-name",
        "expression-unknown-name",
        "expression-syntax",
        "expression-syntax",
    ]
    assert found[0].hint.startswith("did you mean $mean?")
    assert "$count" in found[1].hint


def test_columns_count_from_the_given_offset() -> None:
    with pytest.raises(InputError) as caught:
        parse("1 +", variables=(), file="f", line=7, column_offset=10, line_text="x")
    only = caught.value.diagnostics[0]
    assert (only.file, only.line, only.column, only.text) == ("f", 7, 14, "x")


def test_depth_and_length_have_limits() -> None:
    for text in ("(" * 5000 + "1", "-" * 5000 + "1", "1+" * 200 + "1", "1" * 20_000):
        assert mistakes(text)
    assert parse("1+" * 100 + "1", variables=()).evaluate({}) == 101


def test_the_names_that_it_reads() -> None:
    expression = parse("$a + \"$b${c}\" . '$d'", variables=None)
    assert expression.variables == {"a", "b", "c"}


# -- bounds ------------------------------------------------------------------------------


def filled(piece: str, between: str = "") -> str:
    """Return as many of a piece as an expression may have characters for."""
    count = (MAX_LENGTH - 10) // (len(piece) + len(between))
    return between.join([piece] * count)


WORST = {
    "interpolation": '"' + filled("$s") + '"',
    "concatenation": ".".join(["$s"] * 140),
    "brackets": "(" * 70 + "9 ** 9" + ")" * 70,
    "powers": " ** ".join(["9"] * 140),
    "products": " * ".join(["9e300"] * 140),
    "remainders": " % ".join(["9e300"] * 140),
    "choices": "1 ? " * 140 + "1" + " : 1" * 140,
    "texts": "lc(uc(" * 60 + "$s" + "))" * 60,
    "parts": "substr(" * 100 + "$s" + ", -9e99, 9e99)" * 100,
    "minima": f"min({filled('$s', ',')})",
    "a long number": filled("9"),
    "a long pattern": f"$s =~ /{filled('(a*)*')}c/",
    "counted": "$s =~ /(((a{1,30}){1,30}){1,30}){1,30}c/",
    "many states": "$s =~ /(a|b)*a(a|b){900}c/ || " * 20 + "0",
    "a pattern at run time": "$s =~ ($s . $s)",
    "matches": " && ".join(f"$s !~ /(a|b)*a{{{n}}}c/" for n in range(1, 100)),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", WORST.values(), ids=WORST.keys())
def test_the_worst_expressions_end_in_bounded_time_and_memory(text: str) -> None:
    """Each ends, with a value or refused; the limit is of processor time, in a child that
    may have 1 GB, so that neither another program nor this one's size decides."""
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from benchwright.core.expression import EvaluationError, parse\n"
        "from benchwright.core.errors import InputError\n"
        "import random\n"
        "text = ''.join(random.Random(1).choices('ab', k=1_000_000))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "try:\n"
        "    parse(sys.stdin.read(), variables={'s'}).evaluate({'s': text})\n"
        "except (EvaluationError, InputError): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr[-500:]
