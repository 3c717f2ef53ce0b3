"""Parses values of directives, keys and options: loops, levels, commands, threads, timeouts,
output."""

from __future__ import annotations

import decimal
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, TypeVar

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.expression import EvaluationError, Expression, parse
from benchwright.core.plan import Command, OutputPolicy
from benchwright.core.quantity import parse_duration_ns, parse_size_bytes
from benchwright.core.results import SlowRuns
from benchwright.core.text import percent_text
from benchwright.suite.mistakes import Fault, mistake, raised
from benchwright.suite.program import Where

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


# -- One of several words --------------------------------------------------------------


def one_of(text: str, known: Sequence[str], what: str) -> str:
    """Return the text if it is one of the known words. Raises ValueError otherwise."""
    if text not in known:
        raise ValueError(f"{text!r} is not a {what}: must be one of {', '.join(known)}")
    return text


def choice(what: str, *known: str) -> Callable[[str], str]:
    """Return the parser of one of several words."""
    return lambda text: one_of(text, known, what)


# -- Levels of a factor: values, and ranges of numbers ---------------------------------
#
# `1..9` counts by one, `1..9:2` by two, `1..64*2` multiplies; the end is included if it is
# reached. Any other text is one level. Used by `-P`, `--threads`, and `factors` and
# `threads` of a suite.

_RANGE = re.compile(
    r"(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)\.\.(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)"
    r"(?:([:*])([0-9]{1,18}(?:\.[0-9]{1,9})?))?",
    re.ASCII,
)
_LIKE = re.compile(r"-?[0-9][0-9.]*\.\.\S*", re.ASCII)
MOST = 10_000
"""Maximum number of levels of a range."""
HINT = "write 1..9, 1..9:2 (steps of 2) or 1..64*2 (1, 2, 4 ... 64)"


def expanded(text: str) -> tuple[str, ...]:
    """Return the levels of a text: the numbers of a range, or the text itself.

    Raises ValueError for an invalid range, or one that never ends.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        if _LIKE.fullmatch(text):
            raise ValueError(f"{text!r} is not a range of numbers")
        return (text,)
    first, last, sign, by = match.groups()
    at, end, step = Decimal(first), Decimal(last), Decimal(by or "1")
    if at > end:
        raise ValueError(f"{text!r} ends before it begins")
    if not step:
        raise ValueError(f"{text!r} never reaches its end: its step is 0")
    if sign == "*" and (step <= 1 or at <= 0):
        raise ValueError(f"{text!r} never reaches its end")
    levels: list[str] = []
    while at <= end:
        if len(levels) == MOST:
            raise ValueError(f"{text!r} has more than {MOST} levels")
        levels.append(_level_text(at))
        at = at * step if sign == "*" else at + step
    return tuple(levels)


def _level_text(number: Decimal) -> str:
    """Return a number as text, without an exponent and without trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --------------------------------------------------------------------------------------
# Parses texts: commands, durations, counts, comparisons.
#
# The functions for the interpreter raise InputError at the step's position. Those for the
# compiler, which checks texts without variables, return a Fault.

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


def _refuse(fault: Fault | None, text: str, where: Where) -> None:
    """Raise InputError for a fault in a text that exists only at run time."""
    if fault is not None:
        raise raised([fault], where, text)


def _count_fault(text: str, what: str, code: str, least: int, most: int) -> Fault | None:
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) and least <= int(text) <= most:
        return None
    message = f"{text!r} is not a number of {what}"
    return Fault(code, message, f"a whole number from {least} to {most}")


def faultless(fault_of: Callable[[str], Fault | None]) -> Callable[[str], str]:
    """Return the parser of an option whose value stays a text: it raises ValueError for a fault."""

    def parse(text: str) -> str:
        fault = fault_of(text)
        if fault is not None:
            raise ValueError(fault.message)
        return text

    return parse


def named(parse: Callable[[str], T]) -> Callable[[str], tuple[str, T]]:
    """Return the parser of `NAME=VALUE`: it raises ValueError if one of the two is missing or
    wrong."""

    def pair(text: str) -> tuple[str, T]:
        name, _, value = text.partition("=")
        if not name or not value:
            raise ValueError("no name or no value")
        return name, parse(value)

    return pair


def threads_fault(text: str) -> Fault | None:
    """Return what is wrong with a number of threads, or None."""
    return _count_fault(text, "threads", "suite-threads", 1, MAX_THREADS)


def threads(text: str, where: Where) -> int:
    """Return a number of threads. Raises InputError."""
    _refuse(threads_fault(text), text, where)
    return int(text)


def timeout_fault(text: str) -> Fault | None:
    """Return what is wrong with a time limit, or None."""
    try:
        limit = 1 if text.strip() == "none" else parse_duration_ns(text.strip())
    except ValueError as error:
        return Fault("suite-duration", str(error), "such as 30s or 10m; none: no limit")
    if not 0 < limit < 2**63:
        return Fault("suite-duration", f"{text.strip()!r} is not a time limit")
    return None


def timeout_ns(text: str, where: Where) -> int | None:
    """Return a time limit [ns], None for `none`. Raises InputError."""
    _refuse(timeout_fault(text), text, where)
    return None if text.strip() == "none" else parse_duration_ns(text.strip())


def give_up_ns(text: str) -> int | None:
    """Return a time [ns], None for `none`. Raises ValueError."""
    if fault := timeout_fault(text):
        raise ValueError(fault.message)
    return None if text.strip() == "none" else parse_duration_ns(text.strip())


_LARGEST_STATUS = 255
_STATUS_HINT = "such as 0,1 or 0,2..4; 128 + N is a command that signal N ended"


def statuses(text: str) -> tuple[int, ...]:
    """Return exit statuses: numbers and ranges, separated by commas. Raises ValueError."""
    found = [level for part in text.split(",") for level in expanded(part.strip())]
    for one in found:
        if re.fullmatch("[0-9]{1,3}", one, re.ASCII) is None or int(one) > _LARGEST_STATUS:
            raise ValueError(f"{one!r} is not an exit status: 0 to {_LARGEST_STATUS}")
    return tuple(sorted({int(one) for one in found}))


def ok_status_fault(text: str) -> Fault | None:
    """Return what is wrong with a list of exit statuses, or None."""
    try:
        statuses(text)
    except ValueError as error:
        return Fault("suite-status", str(error), _STATUS_HINT)
    return None


def ok_status(text: str, where: Where) -> tuple[int, ...]:
    """Return the exit statuses of a text. Raises InputError."""
    _refuse(ok_status_fault(text), text, where)
    return statuses(text)


def warmup_fault(text: str) -> Fault | None:
    """Return what is wrong with a number of warm-up trials, or None."""
    return _count_fault(text, "warm-up trials", "suite-warmup", 0, MAX_WARMUP)


def warmup(text: str, where: Where) -> int:
    """Return a number of warm-up trials. Raises InputError."""
    _refuse(warmup_fault(text), text, where)
    return int(text)


def output_fault(text: str) -> Fault | None:
    """Return what is wrong with an output policy, or None."""
    mode, colon, limit = text.strip().partition(":")
    if mode not in OUTPUT_MODES:
        modes = ", ".join(OUTPUT_MODES)
        hint = f"must be one of {modes}; file:4G allows 4 GiB a trial"
        return Fault("suite-output", f"unknown output {mode!r}", hint)
    if not colon:
        return None
    try:
        if not 0 < parse_size_bytes(limit) < 2**63:
            raise ValueError(f"{limit!r} is not a size limit")
    except ValueError as error:
        return Fault("suite-output", str(error), "such as file:4G", len(mode) + 1)
    return None


def output(text: str, where: Where) -> OutputPolicy:
    """Return the output policy of a text. Raises InputError."""
    _refuse(output_fault(text), text, where)
    mode, colon, limit = text.strip().partition(":")
    chosen = msgspec.convert({"mode": mode}, OutputPolicy)
    if not colon:
        return chosen
    return msgspec.structs.replace(chosen, limit_bytes=parse_size_bytes(limit))


def rest_fault(text: str) -> Fault | None:
    """Return what is wrong with a pause before a trial, or None."""
    try:
        pause = parse_duration_ns(text.strip())
    except ValueError as error:
        return Fault("suite-duration", str(error), "such as 500ms or 2s")
    if not 0 < pause < 2**63:
        return Fault("suite-duration", f"{text.strip()!r} is not a pause")
    return None


def rest_command(text: str) -> str:
    """Return the command of SETUP that pauses for a duration."""
    return f"sleep {Decimal(parse_duration_ns(text.strip())) / 10**9:f}"


def name_fault(name: str) -> Fault | None:
    """Return what is wrong with a test's name, which must be valid in file names, or None."""
    code, hint = "suite-test-name", "the name also names the test's files"
    if not name or name in (".", "..") or name[0] in "_-":
        return Fault(code, f"{name!r} cannot name a test", hint)
    if bad := _FORBIDDEN.search(name):
        message = f"{bad[0]!r} cannot be in a test's name"
        return Fault(code, message, hint, bad.start())
    if len(name.encode("utf-8", "replace")) > 200:
        return Fault(code, "a test's name of more than 200 bytes is too long", hint)
    return None


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
