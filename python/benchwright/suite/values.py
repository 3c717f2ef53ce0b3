"""Parses values of directives, keys and options: loops, levels, commands, threads, timeouts,
output."""

from __future__ import annotations

import decimal
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Literal, TypeVar

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.expression import EvaluationError, Expression, parse
from benchwright.core.plan import Command, OutputPolicy
from benchwright.core.quantity import parse_duration_ns, parse_size_bytes
from benchwright.core.results import SlowRuns
from benchwright.core.text import percent_text
from benchwright.inputs.mistakes import Fault, Where, WrongText, mistake, raised
from benchwright.inputs.values import expanded

T = TypeVar("T")


def too_few_for(rare: SlowRuns, most: int, needed: int | None = None) -> str:
    """Return that so many trials, or blocks, may show none of these slow runs; `needed`: how many
    do."""
    share = percent_text(rare.share, 10)
    return f"{most} may show no slow run of {share}: that takes {needed or rare.trials}"


# -- The values of `FOR V=A TO B [FACTOR M|ADD I]` -------------------------------------
#
# Decision: decimal arithmetic, so that 0.1 TO 0.5 ADD 0.1 has five values and 1 TO 32
# FACTOR 2 yields integers. A loop that cannot reach its end is an error before its first
# turn. Source: Auto-pilot paper, section 3.1, FOR.

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\Z", re.ASCII)
_CONTEXT = decimal.Context(prec=40)

LoopPart = Literal["begin", "end", "factor", "add"]


class NeverEnds(Exception):
    """Raised for a loop without an end; `part` is the cause."""

    def __init__(self, part: LoopPart, message: str) -> None:
        self.part = part
        self.message = message
        super().__init__(message)


def decimal_number(text: str) -> Decimal:
    """Return a number of at most 18 digits before the point and 9 after it.

    Raises ValueError; its message states what was expected.
    """
    text = text.strip()
    if not _NUMBER.match(text):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text)


def counted(
    begin: Decimal, end: Decimal, *, factor: Decimal | None, add: Decimal | None
) -> Iterator[str]:
    """Return the values as texts; none if the loop starts beyond `end`.

    Raises NeverEnds when called, before the first value.
    """
    if factor is None:
        step = Decimal(1) if add is None else add
        if step == 0:
            raise NeverEnds("add", "ADD 0 never changes the value")
        return _turns(begin, end, step, _CONTEXT.add, rising=step > 0)
    return _turns(begin, end, factor, _CONTEXT.multiply, rising=_rises(begin, end, factor))


def _rises(begin: Decimal, end: Decimal, factor: Decimal) -> bool:
    """Return whether the values grow. Raises NeverEnds if they cannot pass `end`."""
    if factor <= 0 or factor == 1:
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if begin == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    rising = (factor > 1) == (begin > 0)
    shrinks = factor < 1
    if shrinks and (end <= 0 if begin > 0 else end >= 0):
        raise NeverEnds("end", f"FACTOR {factor} approaches 0 and never passes {end}")
    if not shrinks and not rising and end > begin:
        raise NeverEnds("begin", f"{begin} times {factor} moves away from {end}")
    return rising


def _turns(
    begin: Decimal,
    end: Decimal,
    step: Decimal,
    move: Callable[[Decimal, Decimal], Decimal],
    *,
    rising: bool,
) -> Iterator[str]:
    value = begin
    while value <= end if rising else value >= end:
        yield _without_exponent(value)
        value = move(value, step)


def _without_exponent(value: Decimal) -> str:
    return f"{value.normalize(_CONTEXT) + 0:f}"


def check_ends(numbers: Mapping[LoopPart, Decimal], *, complete: bool) -> None:
    """Raise NeverEnds if the known numbers show that the loop cannot end.

    `complete`: all numbers of the loop are known.
    """
    if numbers.get("add") == 0:
        raise NeverEnds("add", "ADD 0 never changes the value")
    factor = numbers.get("factor")
    if factor is not None and (factor <= 0 or factor == 1):
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if factor is not None and numbers.get("begin") == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    if complete:
        begin, end = numbers["begin"], numbers["end"]
        counted(begin, end, factor=factor, add=numbers.get("add"))


# --------------------------------------------------------------------------------------
# Parses texts: commands, durations, counts, comparisons.
#
# One parser for each value: of options, of keys, and of texts of a suite, which the compiler checks
# if they have no variables (`fault_of`), and the interpreter reads when they have their values
# (`at_run_time`).

MAX_THREADS = 4096
MAX_WARMUP = 1_000_000
OUTPUT_MODES = ("null", "bounded", "file", "inherit")
_FORBIDDEN = re.compile(r"[/\x00-\x1f\x7f]")
_ORDER: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def command(text: str, where: Where) -> Command:
    """Return the command of a text. Raises InputError if it is empty."""
    try:
        return Command.from_text(text)
    except ValueError:
        hint = "it is empty after substitution"
        raise mistake(where, "suite-no-command", "the command is empty", hint) from None


def at_run_time(parse: Callable[[str], T], text: str, where: Where) -> T:
    """Return the value of a text that exists only at run time. Raises InputError."""
    try:
        return parse(text)
    except WrongText as error:
        raise raised([error.fault], where, text) from None


def _count(text: str, what: str, code: str, least: int, most: int) -> int:
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) and least <= int(text) <= most:
        return int(text)
    message = f"{text!r} is not a number of {what}"
    raise WrongText(code, message, f"a whole number from {least} to {most}")


def threads(text: str) -> int:
    """Return a number of threads. Raises WrongText."""
    return _count(text, "threads", "suite-threads", 1, MAX_THREADS)


def timeout_ns(text: str) -> int | None:
    """Return a time limit [ns], None for `none`. Raises WrongText."""
    text = text.strip()
    if text == "none":
        return None
    try:
        limit = parse_duration_ns(text)
    except ValueError as error:
        hint = "such as 30s or 10m; none: no limit"
        raise WrongText("suite-duration", str(error), hint) from None
    if not 0 < limit < 2**63:
        raise WrongText("suite-duration", f"{text!r} is not a time limit")
    return limit


_LARGEST_STATUS = 255
_STATUS_HINT = "such as 0,1 or 0,2..4; 128 + N is a command that signal N ended"


def statuses(text: str) -> tuple[int, ...]:
    """Return exit statuses: numbers and ranges, separated by commas. Raises WrongText."""
    code = "suite-status"
    try:
        found = [level for part in text.split(",") for level in expanded(part.strip())]
    except ValueError as error:
        raise WrongText(code, str(error), _STATUS_HINT) from None
    for one in found:
        if re.fullmatch("[0-9]{1,3}", one, re.ASCII) is None or int(one) > _LARGEST_STATUS:
            message = f"{one!r} is not an exit status: 0 to {_LARGEST_STATUS}"
            raise WrongText(code, message, _STATUS_HINT)
    return tuple(sorted({int(one) for one in found}))


def warmup(text: str) -> int:
    """Return a number of warm-up trials. Raises WrongText."""
    return _count(text, "warm-up trials", "suite-warmup", 0, MAX_WARMUP)


def output(text: str) -> OutputPolicy:
    """Return the output policy of a text. Raises WrongText."""
    mode, colon, limit = text.strip().partition(":")
    if mode not in OUTPUT_MODES:
        modes = ", ".join(OUTPUT_MODES)
        hint = f"must be one of {modes}; file:4G allows 4 GiB a trial"
        raise WrongText("suite-output", f"unknown output {mode!r}", hint)
    chosen = msgspec.convert({"mode": mode}, OutputPolicy)
    if not colon:
        return chosen
    try:
        size = parse_size_bytes(limit)
        if not 0 < size < 2**63:
            raise ValueError(f"{limit!r} is not a size limit")
    except ValueError as error:
        offset = len(mode) + 1
        raise WrongText("suite-output", str(error), "such as file:4G", offset) from None
    return msgspec.structs.replace(chosen, limit_bytes=size)


def rest_command(text: str) -> str:
    """Return the command of SETUP that pauses for a duration. Raises WrongText."""
    try:
        pause = parse_duration_ns(text.strip())
    except ValueError as error:
        raise WrongText("suite-duration", str(error), "such as 500ms or 2s") from None
    if not 0 < pause < 2**63:
        raise WrongText("suite-duration", f"{text.strip()!r} is not a pause")
    return f"sleep {Decimal(pause) / 10**9:f}"


def name_of_test(name: str) -> str:
    """Return a test's name, which must be valid in file names. Raises WrongText."""
    code, hint = "suite-test-name", "the name also names the test's files"
    if not name or name in (".", "..") or name[0] in "_-":
        raise WrongText(code, f"{name!r} cannot name a test", hint)
    if bad := _FORBIDDEN.search(name):
        message = f"{bad[0]!r} cannot be in a test's name"
        raise WrongText(code, message, hint, bad.start())
    if len(name.encode("utf-8", "replace")) > 200:
        raise WrongText(code, "a test's name of more than 200 bytes is too long", hint)
    return name


def compare(left: str, relation: str, right: str, where: Where) -> bool:
    """Return whether a comparison of IF or WHILE holds.

    `=` and `!=` compare numbers if both sides are numbers, else texts; the other relations
    need numbers. Raises InputError.
    """
    try:
        numbers = decimal_number(left), decimal_number(right)
    except ValueError as error:
        if relation in ("=", "!="):
            return (left == right) is (relation == "=")
        hint = f"{relation} compares numbers; = and != compare texts too"
        raise mistake(where, "suite-not-a-number", str(error), hint) from None
    if relation in ("=", "!="):
        return (numbers[0] == numbers[1]) is (relation == "=")
    return _ORDER[relation](*numbers)


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Expression:
    return parse(text, variables=None)


def expression(text: str, where: Where) -> Expression:
    """Return the expression of a text after substitution. Raises InputError."""
    try:
        return _parse(text)
    except InputError as error:
        faults = [Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics]
        raise raised(faults, where, text) from None


def no_value(error: EvaluationError, where: Where) -> InputError:
    """Return the InputError for an expression that has no value."""
    fault = Fault(error.code, error.message, "", error.column - 1)
    return raised([fault], where, error.text)
