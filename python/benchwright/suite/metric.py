"""`NAME[:higher][=/json/pointer | ~regex(group)]`, for `.ap` and the command line.

Sources: RFC 6901 for pointers; RE2 for patterns (model/pattern.py).
"""

from __future__ import annotations

import re
from typing import Literal

from benchwright.model.pattern import PatternError, compiled
from benchwright.model.plan import MetricSpec
from benchwright.suite.fault import Fault

ALWAYS = ("elapsed", "user", "system", "rss_bytes")
"""Measured for every command; no output is searched for them."""
CODE = "suite-metric"
SYNTAX = "write NAME, NAME:higher, NAME=/json/pointer or NAME~regex(group)"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def parse_metric(text: str) -> tuple[MetricSpec | None, list[Fault]]:
    """Return the metric that a text declares, or None and what is wrong with it."""
    name = _NAME.match(text)
    if name is None:
        return None, [Fault(CODE, f"{text!r} does not start with a name", SYNTAX)]
    at, better, faults = _direction(text, name.end())
    if faults:
        return None, faults
    source = text[at:]
    if source and source[0] not in "=~":
        return None, [Fault(CODE, f"{source!r} is not expected here", SYNTAX, at)]
    if source and name[0] in ALWAYS:
        message = f"{name[0]} is measured, not read from the output"
        return None, [Fault(CODE, message, "give the metric another name", at)]
    if source.startswith("=~"):
        hint = f"write {text[:at]}{source[1:]}"
        message = "a regular expression follows ~ without ="
        return None, [Fault(CODE, message, hint, at)]
    pointer = source[1:] if source.startswith("=") else None
    pattern = source[1:] if source.startswith("~") else None
    wrong = pointer_fault(pointer) or pattern_fault(pattern)
    if wrong is not None:
        return None, [
            Fault(wrong.code, wrong.message, wrong.hint, at + 1 + wrong.offset)
        ]
    return MetricSpec(name[0], pointer, pattern, better=better), []


def metric_name_fault(name: str) -> Fault | None:
    """Return what is wrong with a metric's name, or None."""
    if _NAME.fullmatch(name):
        return None
    hint = "letters, digits, _ . -, beginning with a letter or _"
    return Fault(CODE, f"{name!r} is not a metric's name", hint)


def pointer_fault(pointer: str | None) -> Fault | None:
    """Return what is wrong with a JSON pointer, or None."""
    if pointer is None:
        return None
    if not pointer.startswith("/"):
        return Fault(CODE, f"{pointer!r} is not a JSON pointer", "it begins with /")
    if escape := _BAD_ESCAPE.search(pointer):
        hint = "in a pointer ~0 stands for ~ and ~1 for /"
        return Fault(CODE, "~ is not followed by 0 or 1", hint, escape.start())
    return None


def pattern_fault(pattern: str | None) -> Fault | None:
    """Return what is wrong with a pattern, or None."""
    if pattern is None:
        return None
    try:
        groups = compiled(pattern).groups
    except PatternError as error:
        message = f"bad regular expression: {error.message}"
        return Fault(CODE, message, error.hint, error.offset)
    if groups != 1:
        hint = "exactly one ( ) around the number; (?: ) for others"
        return Fault(CODE, f"the regular expression has {groups} groups", hint)
    return None


def _direction(
    text: str, at: int
) -> tuple[int, Literal["lower", "higher"], list[Fault]]:
    if text[at : at + 1] != ":":
        return at, "lower", []
    for word in ("higher", "lower"):
        end = at + 1 + len(word)
        if text.startswith(word, at + 1) and text[end : end + 1] in ("", "=", "~"):
            return end, "higher" if word == "higher" else "lower", []
    message = "which way is better is told by :higher or :lower"
    return at, "lower", [Fault(CODE, message, SYNTAX, at + 1)]
