"""The syntax of metrics, gates and stopping rules."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Literal, cast

from benchwright.core.comparison import Gate
from benchwright.core.errors import InputError
from benchwright.core.expression import PREDICATE_VARIABLES, parse
from benchwright.core.pattern import PatternError, compile_pattern
from benchwright.core.plan import (
    Command,
    FixedCount,
    MetricSpec,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.quantity import parse_change
from benchwright.inputs.mistakes import Fault, WrongText
from benchwright.inputs.template import Word, split_words

# --------------------------------------------------------------------------------------
# `NAME[:higher][=/json/pointer | ~regex(group)]`, for `.ap` and the command line.
#
# Sources: RFC 6901 for pointers; RE2 for patterns (core/pattern.py).

ALWAYS = ("elapsed", "user", "system", "rss_bytes")
"""Metrics that are measured for every command, never read from its output."""
METRIC_CODE = "suite-metric"
METRIC_SYNTAX = "write NAME, NAME:higher, NAME=/json/pointer or NAME~regex(group)"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*", re.ASCII)
_MARKS = re.compile(r"[:=~]")
"""What can follow the name of a metric."""
_BAD_ESCAPE = re.compile(r"~(?![01])")


def parse_metric(text: str) -> tuple[MetricSpec | None, list[Fault]]:
    """Return the metric that a text declares, or None, and its faults."""
    name = _NAME.match(text)
    if name is None:
        return None, [Fault(METRIC_CODE, f"{text!r} does not start with a name", METRIC_SYNTAX)]
    if (whole := _MARKS.split(text, maxsplit=1)[0]) != name[0]:
        return None, [_not_a_name(whole, name.end())]
    at, better, faults = _direction(text, name.end())
    if faults:
        return None, faults
    source = text[at:]
    if source and source[0] not in "=~":
        return None, [Fault(METRIC_CODE, f"{source!r} is not expected here", METRIC_SYNTAX, at)]
    if source and name[0] in ALWAYS:
        message = f"{name[0]} is measured, not read from the output"
        return None, [Fault(METRIC_CODE, message, "give the metric another name", at)]
    if source.startswith("=~"):
        hint = f"write {text[:at]}{source[1:]}"
        message = "a regular expression follows ~ without ="
        return None, [Fault(METRIC_CODE, message, hint, at)]
    try:
        spec = MetricSpec(
            name[0],
            pointer(source[1:]) if source.startswith("=") else None,
            pattern(source[1:]) if source.startswith("~") else None,
            better=better,
        )
    except WrongText as error:
        return None, [error.fault.moved(at + 1)]
    return spec, []


def metric(text: str) -> MetricSpec:
    """Return the metric that a text declares. Raises WrongText with its first fault."""
    spec, faults = parse_metric(text)
    if spec is None:
        raise WrongText.of(faults[0])
    return spec


def metric_name(name: str) -> str:
    """Return a metric's name. Raises WrongText."""
    if not _NAME.fullmatch(name):
        raise WrongText.of(_not_a_name(name))
    return name


def _not_a_name(text: str, at: int = 0) -> Fault:
    hint = "letters from a to z, digits, _ . -, beginning with a letter or _"
    return Fault(METRIC_CODE, f"{text!r} is not a metric's name", hint, at)


def pointer(text: str) -> str:
    """Return a JSON pointer. Raises WrongText."""
    if not text.startswith("/"):
        raise WrongText(METRIC_CODE, f"{text!r} is not a JSON pointer", "it begins with /")
    if escape := _BAD_ESCAPE.search(text):
        hint = "in a pointer ~0 stands for ~ and ~1 for /"
        raise WrongText(METRIC_CODE, "~ is not followed by 0 or 1", hint, escape.start())
    return text


def pattern(text: str) -> str:
    """Return a regular expression with one group. Raises WrongText."""
    try:
        groups = compile_pattern(text).groups
    except PatternError as error:
        message = f"bad regular expression: {error.message}"
        raise WrongText(METRIC_CODE, message, error.hint, error.offset) from None
    if groups != 1:
        hint = "exactly one ( ) around the number; (?: ) for others"
        raise WrongText(METRIC_CODE, f"the regular expression has {groups} groups", hint)
    return text


def _direction(text: str, at: int) -> tuple[int, Literal["lower", "higher"], list[Fault]]:
    if text[at : at + 1] != ":":
        return at, "lower", []
    for word in ("higher", "lower"):
        end = at + 1 + len(word)
        if text.startswith(word, at + 1) and text[end : end + 1] in ("", "=", "~"):
            return end, "higher" if word == "higher" else "lower", []
    message = "the better direction is given by :higher or :lower"
    return at, "lower", [Fault(METRIC_CODE, message, METRIC_SYNTAX, at + 1)]


# -- `[METRIC] slower|faster by SHARE`: a gate, the value of --fail-if -----------------

GATE_SYNTAX = "write 'slower by 3%' or 'METRIC faster by 5%'"
_CODE = "suite-gate"
_SPACED = re.compile(r"(?<=\d)\s+%\s*\Z")
"""The blank in `3 %`, the spelling in our reports."""
_WORD = re.compile(r"\S+")


def _condition_words(text: str) -> tuple[list[re.Match[str]], str]:
    """Return the words of a condition, and the name of its metric, which can have blanks."""
    words = list(_WORD.finditer(_SPACED.sub("%", text)))
    return words, " ".join(word[0] for word in words[:-3])


def gated_metric(text: str) -> str:
    """Return the metric that a gate's text names; empty if it names none."""
    return _condition_words(text)[1]


def parse_gate(text: str, known: Sequence[str]) -> tuple[Gate | None, Fault | None]:
    """Return the gate that a text describes, or its fault.

    `known`: the compared metrics. A gate without a metric applies to the first of them.
    """
    words, name = _condition_words(text)
    at = len(words) - 3
    if at < 0 or (at > 1 and name not in known):
        return None, Fault(_CODE, f"{text!r} is not a condition", GATE_SYNTAX)
    direction, by, share = words[at:]
    if direction[0] not in ("slower", "faster"):
        message = f"{direction[0]!r} is neither slower nor faster"
        return None, Fault(_CODE, message, GATE_SYNTAX, direction.start())
    if by[0] != "by":
        return None, Fault(_CODE, f"{by[0]!r} should be `by`", GATE_SYNTAX, by.start())
    try:
        size = parse_change(share[0])
    except ValueError as error:
        return None, Fault(_CODE, str(error), GATE_SYNTAX, share.start())
    metric = name or known[0]
    if metric not in known:
        there = ", ".join(dict.fromkeys(known))
        hint = f"compared metrics: {there}; --metric declares others"
        return None, Fault(_CODE, f"{metric} is not compared", hint, words[0].start())
    way = cast(Literal["slower", "faster"], direction[0])
    return Gate(metric, way, size, " ".join(word[0] for word in words)), None


# -- When a test stops: `COUNT`, or `BEGIN INCREMENT [PROGRAM... [--]]` of TEST --------
#
# getstats with a --predicate becomes `UntilPredicate`, which is evaluated in this process; any
# other program is executed. A trailing `--` asks for the results file as last argument; that is
# always appended, so the `--` is dropped. Source: Auto-pilot paper, section 3.1.

RULE_CODE = "suite-test-arguments"
RULE_SYNTAX = "write TEST NAME COUNT, or TEST NAME BEGIN INCREMENT PROGRAM"
MAX_EPOCHS = 10**9


_HEAD = re.compile(r"\s*(\S+)(?:\s+(\S+)(?:\s+(\S.*))?)?\s*\Z", re.DOTALL)
_TRAILING_MARK = re.compile(r"(?:\A|\s)--\s*\Z")


def parse_termination(text: str) -> tuple[StoppingRule | None, list[Fault]]:
    """Return the rule in the text after a test's name, or None, and its faults."""
    head = _HEAD.match(text)
    if head is None:
        return None, [Fault(RULE_CODE, "TEST needs a name and a count", RULE_SYNTAX, len(text))]
    faults: list[Fault] = []
    begin = _epochs(head[1], "the count", head.start(1), faults)
    if head[2] is None:
        return (None, faults) if faults else (FixedCount(begin), faults)
    increment = _epochs(head[2], "the increment", head.start(2), faults)
    program = _TRAILING_MARK.sub("", head[3] or "").rstrip()
    if not program:
        return (None, faults) if faults else (FixedCount(begin), faults)
    rule = _rule(program, head.start(3), begin, increment, faults)
    return (None, faults) if faults else (rule, faults)


def predicate_faults(predicate: str) -> list[Fault]:
    """Return the faults of a predicate over Getstats' variables."""
    try:
        parse(predicate, variables=PREDICATE_VARIABLES)
    except InputError as error:
        return [Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics]
    return []


def epochs(text: str, what: str = "the number of runs") -> int:
    """Return a number of epochs. Raises WrongText."""
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or int(text) < 1:
        message = f"{what} {text!r} is not a whole number of at least 1"
        raise WrongText(RULE_CODE, message, RULE_SYNTAX)
    if int(text) > MAX_EPOCHS:
        raise WrongText(RULE_CODE, f"{what} {text} is more than {MAX_EPOCHS}", RULE_SYNTAX)
    return int(text)


def _epochs(text: str, what: str, offset: int, faults: list[Fault]) -> int:
    try:
        return epochs(text, what)
    except WrongText as error:
        faults.append(error.fault.moved(offset))
        return 1


def _rule(
    program: str, offset: int, begin: int, increment: int, faults: list[Fault]
) -> StoppingRule:
    words, wrong = split_words(program)
    if words and posixpath.basename(words[0].text) == "getstats":
        faults += [f.moved(offset) for f in wrong]
        predicate = _predicate(words, offset + len(program), faults)
        if predicate is not None:
            at = predicate.offsets
            for f in predicate_faults(predicate.text):
                place = offset + at[min(f.offset, len(at) - 1)]
                faults.append(Fault(f.code, f.message, f.hint, place))
            return UntilPredicate(begin, increment, predicate.text)
    return UntilProgram(begin, increment, Command.from_text(program))


def _predicate(words: list[Word], end: int, faults: list[Fault]) -> Word | None:
    """Return the predicate's word, with offsets in the text of the program."""
    for number, word in enumerate(words):
        if word.text == "--predicate":
            if number + 1 < len(words):
                return words[number + 1]
            hint = "expected an expression after --predicate"
            faults.append(Fault(RULE_CODE, "--predicate has no expression", hint, end))
        if word.text.startswith("--predicate="):
            skip = len("--predicate=")
            return Word(word.text[skip:], word.offsets[skip], word.offsets[skip:])
    return None
