"""When a test stops: `COUNT`, or `BEGIN INCREMENT [PROGRAM... [--]]` of TEST.

getstats with a --predicate is answered in process, so it becomes `UntilPredicate`; any
other program is run. A trailing `--` marks that the results file is appended; it is
appended anyway, so the mark is dropped. Source: Auto-pilot paper, section 3.1.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

from benchwright.expression import PREDICATE_VARIABLES, parse
from benchwright.model.errors import InputError
from benchwright.model.plan import (
    Command,
    FixedCount,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
)
from benchwright.suite.fault import Fault
from benchwright.suite.words import Word, split_words

CODE = "suite-test-arguments"
SYNTAX = "write TEST NAME COUNT, or TEST NAME BEGIN INCREMENT PROGRAM"
MAX_EPOCHS = 10**9

MODES = ("plan", "watch")

_HEAD = re.compile(r"\s*(\S+)(?:\s+(\S+)(?:\s+(\S.*))?)?\s*\Z", re.DOTALL)
_TRAILING_MARK = re.compile(r"(?:\A|\s+)--\s*\Z")


def parse_termination(text: str) -> tuple[StoppingRule | None, list[Fault]]:
    """Return the rule that stands after a test's name, or None and its faults."""
    head = _HEAD.match(text)
    if head is None:
        return None, [Fault(CODE, "TEST needs a name and a count", SYNTAX, len(text))]
    faults: list[Fault] = []
    begin = _epochs(head[1], "the count", head.start(1), faults)
    if head[2] is None:
        return (None, faults) if faults else (FixedCount(begin), faults)
    increment = _epochs(head[2], "the increment", head.start(2), faults)
    program = _TRAILING_MARK.sub("", head[3] or "").rstrip()
    if not program:
        return (None, faults) if faults else (FixedCount(begin), faults)
    found = _rule(program, head.start(3), begin, increment, faults)
    return (None, faults) if faults else (found, faults)


def predicate_faults(predicate: str) -> list[Fault]:
    """Return what is wrong with a predicate over Getstats' variables."""
    try:
        parse(predicate, variables=PREDICATE_VARIABLES)
    except InputError as error:
        return [
            Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics
        ]
    return []


def precise_mode(text: str | None) -> Literal["plan", "watch"]:
    """Return the mode of a rule of precision; plan where nothing is said."""
    return "watch" if text == "watch" else "plan"


def epochs_fault(text: str, what: str) -> Fault | None:
    """Return what is wrong with a number of epochs, or None."""
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or int(text) < 1:
        message = f"{what} {text!r} is not a whole number of at least 1"
        return Fault(CODE, message, SYNTAX)
    if int(text) > MAX_EPOCHS:
        return Fault(CODE, f"{what} {text} is more than {MAX_EPOCHS}", SYNTAX)
    return None


def _epochs(text: str, what: str, offset: int, faults: list[Fault]) -> int:
    fault = epochs_fault(text, what)
    if fault is None:
        return int(text)
    faults.append(Fault(fault.code, fault.message, fault.hint, offset))
    return 1


def _rule(
    program: str, offset: int, begin: int, increment: int, faults: list[Fault]
) -> StoppingRule:
    words, wrong = split_words(program)
    if words and posixpath.basename(words[0].text) == "getstats":
        faults += [Fault(f.code, f.message, f.hint, offset + f.offset) for f in wrong]
        predicate = _predicate(words, offset + len(program), faults)
        if predicate is not None:
            at = predicate.offsets
            for f in predicate_faults(predicate.text):
                place = offset + at[min(f.offset, len(at) - 1)]
                faults.append(Fault(f.code, f.message, f.hint, place))
            return UntilPredicate(begin, increment, predicate.text)
    return UntilProgram(begin, increment, Command.from_text(program))


def _predicate(words: list[Word], end: int, faults: list[Fault]) -> Word | None:
    """Return the predicate's word; its offsets still count within the program."""
    for number, word in enumerate(words):
        if word.text == "--predicate":
            if number + 1 < len(words):
                return words[number + 1]
            hint = "expected an expression after --predicate"
            faults.append(Fault(CODE, "--predicate has no expression", hint, end))
        if word.text.startswith("--predicate="):
            skip = len("--predicate=")
            return Word(word.text[skip:], word.offsets[skip], word.offsets[skip:])
    return None
