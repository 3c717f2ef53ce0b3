"""Regular expressions that a user wrote: the one engine for all of them.

Decision: RE2 (package `google-re2`): matching takes time proportional to the text for every
pattern, so it needs no time limit and never delays Ctrl-C. Rejected: Python's `re`, whose
backtracking can take forever on one line; `re` with a time limit (an alarm cannot interrupt it,
a child process for each trial costs milliseconds); the package `regex` with a timeout (still
exponential, and on a slow machine the result depends on the timeout). The price: no look-around,
no backreferences, repetition counts up to 1000; a pattern with one of these is refused when it is
read.

Source of the syntax: https://github.com/google/re2/wiki/Syntax. `^` and `$` match at
each line; `\\d`, `\\w`, `\\s` and `\b` know ASCII only.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_MAX_MEMORY_BYTES = 16 << 20
"""Bytes that one compiled pattern and its automaton may take."""
_UNSUPPORTED = (
    ("(?=", "lookahead", "write what follows the group as it is: (\\d+) ops"),
    ("(?!", "lookahead", "describe what may follow the group instead"),
    ("(?<=", "lookbehind", "write what precedes the group as it is: rate (\\d+)"),
    ("(?<!", "lookbehind", "describe what may precede the group instead"),
    ("(?>", "an atomic group", "write (?: ): matching is always fast"),
    ("(?(", "a condition", "write both cases with |"),
    ("(?#", "a comment", "leave it out"),
    ("(?P=", "a backreference", "write the words themselves"),
    ("\\Z", "\\Z", "write \\z, or $ for the end of a line"),
    ("\\u", "\\u", "write the character itself, or \\x{...}"),
    ("\\U", "\\U", "write the character itself, or \\x{...}"),
    ("\\N", "\\N", "write the character itself, or \\x{...}"),
)
_BACKREFERENCE = re.compile(r"\\[1-9]")
_POSSESSIVE = re.compile(r"[*+?}]\+")


class PatternError(ValueError):
    """A text that is not a regular expression, or one that RE2 does not support."""

    def __init__(self, message: str, hint: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.hint, self.offset = message, hint, offset


class Pattern:
    """A compiled regular expression."""

    def __init__(self, text: str, flags: str = "m") -> None:
        """Compile the text. Raises PatternError, which says what to write instead."""
        import re2  # 10 ms, and most runs have no pattern

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        try:
            self._compiled = re2.compile(f"(?{flags}){text}", options)
        except re2.error as error:
            raise _pattern_error(text, error) from None
        self.groups: int = self._compiled.groups
        self.size: int = self._compiled.programsize
        """Number of instructions: a search takes at most this many steps per character."""

    def search(self, text: str | bytes | memoryview) -> Any:
        """Return the first match, as `re.search` does, or None."""
        return self._compiled.search(text)

    def finditer(self, text: str | bytes | memoryview) -> Iterator[Any]:
        """Yield the matches, as `re.finditer` does."""
        yield from self._compiled.finditer(text)


@lru_cache(maxsize=256)
def compile_pattern(text: str, flags: str = "m") -> Pattern:
    """Return the pattern, compiled once. Raises PatternError.

    `flags` are RE2's, as between `(?` and `)`; the default is `^` and `$` at each line.
    """
    return Pattern(text, flags)


def _pattern_error(text: str, error: Exception) -> PatternError:
    """Return why RE2 refuses a text: not a regular expression, or not supported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except re.error as wrong:
        if not (unsupported := _unsupported(text)):
            return PatternError(wrong.msg, "", wrong.pos or 0)
        return unsupported
    except (OverflowError, RecursionError, ValueError) as wrong:
        return PatternError(str(wrong))
    said = error.args[0] if error.args else ""
    plain = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return _unsupported(text) or PatternError(plain)


def _unsupported(text: str) -> PatternError | None:
    """Return what of Python's or Perl's syntax a text uses that RE2 does not have."""
    found = [
        (at, f"{what} is not supported", hint)
        for sign, what, hint in _UNSUPPORTED
        if (at := text.find(sign)) >= 0
    ]
    if match := _BACKREFERENCE.search(text):
        found.append(
            (match.start(), "a backreference is not supported", "write the words themselves")
        )
    if match := _POSSESSIVE.search(text):
        hint = "leave the last + out: matching is always fast"
        found.append((match.start(), "a possessive repetition is not supported", hint))
    if not found:
        return None
    at, message, hint = min(found)
    return PatternError(message, hint, at)
