"""Reads texts that are complete at run time: commands, durations, counts, comparisons.

Each raises InputError at the step's place, or returns a Fault where the compiler asks
the same question of a text that has no variable in it.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from decimal import Decimal

import msgspec

from benchwright.expression import EvaluationError, Expression, parse
from benchwright.model.errors import InputError
from benchwright.model.plan import Command, Output
from benchwright.model.quantity import parse_duration_ns, parse_size_bytes
from benchwright.suite.counting import decimal_number
from benchwright.suite.fault import Fault, mistake, raised
from benchwright.suite.program import Where

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
    """Return the command of a text. Raises InputError when it is empty."""
    try:
        return Command.from_text(text)
    except ValueError:
        hint = "after substitution nothing is left of it"
        raise mistake(where, "suite-no-command", "the command is empty", hint) from None


def threads_fault(text: str) -> Fault | None:
    """Return what is wrong with a number of threads, or None."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) and 1 <= int(text) <= MAX_THREADS:
        return None
    message = f"{text!r} is not a number of threads"
    return Fault("suite-threads", message, f"a whole number from 1 to {MAX_THREADS}")


def threads(text: str, where: Where) -> int:
    """Return a number of threads. Raises InputError."""
    fault = threads_fault(text)
    if fault is not None:
        raise raised([fault], where, text)
    return int(text)


def timeout_fault(text: str) -> Fault | None:
    """Return what is wrong with a time limit, or None."""
    try:
        limit = 1 if text.strip() == "none" else parse_duration_ns(text.strip())
    except ValueError as error:
        return Fault("suite-duration", str(error), "such as 30s or 10m; none: no limit")
    if not 0 < limit < 2**63:
        return Fault("suite-duration", f"{text.strip()!r} is no limit of time")
    return None


def timeout_ns(text: str, where: Where) -> int | None:
    """Return a time limit [ns], None for `none`. Raises InputError."""
    fault = timeout_fault(text)
    if fault is not None:
        raise raised([fault], where, text)
    return None if text.strip() == "none" else parse_duration_ns(text.strip())


def warmup_fault(text: str) -> Fault | None:
    """Return what is wrong with a number of warm-up epochs, or None."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) and int(text) <= MAX_WARMUP:
        return None
    message = f"{text!r} is not a number of warm-up epochs"
    return Fault("suite-warmup", message, f"a whole number from 0 to {MAX_WARMUP}")


def warmup(text: str, where: Where) -> int:
    """Return a number of warm-up epochs. Raises InputError."""
    fault = warmup_fault(text)
    if fault is not None:
        raise raised([fault], where, text)
    return int(text)


def output_fault(text: str) -> Fault | None:
    """Return what is wrong with a choice of what becomes of the output, or None."""
    mode, colon, limit = text.strip().partition(":")
    if mode not in OUTPUT_MODES:
        modes = ", ".join(OUTPUT_MODES)
        hint = f"must be one of {modes}; file:4G allows 4 GiB a trial"
        return Fault("suite-output", f"unknown output {mode!r}", hint)
    if not colon:
        return None
    try:
        if not 0 < parse_size_bytes(limit) < 2**63:
            raise ValueError(f"{limit!r} is no limit")
    except ValueError as error:
        return Fault("suite-output", str(error), "such as file:4G", len(mode) + 1)
    return None


def output(text: str, where: Where) -> Output:
    """Return what becomes of the output. Raises InputError."""
    fault = output_fault(text)
    if fault is not None:
        raise raised([fault], where, text)
    mode, colon, limit = text.strip().partition(":")
    chosen = msgspec.convert({"mode": mode}, Output)
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
        return Fault("suite-duration", f"{text.strip()!r} is no pause")
    return None


def rest_command(text: str) -> str:
    """Return the command of SETUP that pauses for a duration."""
    return f"sleep {Decimal(parse_duration_ns(text.strip())) / 10**9:f}"


def name_fault(name: str) -> Fault | None:
    """Return why a test's name cannot name files, or None."""
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

    `=` and `!=` compare numbers when both sides are numbers, else texts; the others need
    numbers. Raises InputError.
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
    """Return an expression whose variables have been put in. Raises InputError."""
    try:
        return _parse(text)
    except InputError as error:
        faults = [
            Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics
        ]
        raise raised(faults, where, text) from None


def no_value(error: EvaluationError, where: Where) -> InputError:
    """Return the InputError for an expression that has no value."""
    fault = Fault(error.code, error.message, "", error.column - 1)
    return raised([fault], where, error.text)
