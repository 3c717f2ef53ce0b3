"""Operating errors: typed, with stable codes, message = what, where, what to do.

There are three kinds of trouble: a programmer's error is an assert, an operating error is one of
these types, a doubtful measurement is a `Finding` in the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

_ARGUMENT_CODES = ("bad-argument", "bad-define", "not-text", "unreadable-input", "empty-series")
"""Codes of mistakes in command-line arguments, which have no lines."""
_PASSWORD = re.compile(r"://[^\s:@/]*:")
"""What is before the password of a URL, which may contain any character, and ends at the last `@`.
"""


class Diagnostic(msgspec.Struct, frozen=True):
    """One mistake in an input, placed so that an editor can jump to it."""

    code: str
    """Stable identifier, such as `suite-unknown-directive`."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do, or what was expected; empty if the message says it."""
    file: str = ""
    """Path as the user wrote it; `-P`, `--precision` for command-line input."""
    line: int = 1
    """1-based line."""
    column: int = 1
    """1-based column, counted in characters."""
    text: str = ""
    """The offending line itself, without its newline."""

    @property
    def place(self) -> str:
        """The place of the mistake: `suite.toml:3:7`, `--duration`, `trace.vscsi`."""
        of_argument = self.code in _ARGUMENT_CODES and self.line == 1
        is_option = self.file.startswith("-") or of_argument
        first = (self.line, self.column) == (1, 1)
        if is_option or (first and not self.text):
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def render(self) -> str:
        """Return `file:line:column: message`, the line, a caret, and the hint; for an option, or a
        file without a known line, only the name."""
        lines = [f"{self.place}: {self.message} [{self.code}]"]
        if self.text:
            shown = self.text.expandtabs(1)
            url, at, place = shown.rpartition("@")
            if before := _PASSWORD.search(url):
                shown = f"{url[: before.end()]}***{at}{place}"
            lines.append(f"  | {shown}")
            lines.append("  | " + " " * (self.column - 1) + "^")
        if self.hint:
            lines.append(f"  = {self.hint}")
        return "\n".join(lines)


class OperatingError(Exception):
    """Base of every error that a user can cause and fix."""

    code = "error"
    exit_status = 2


class InputError(OperatingError):
    """Bad input: all mistakes of one input at once. Exit status 2."""

    code = "bad-input"

    def __init__(self, diagnostics: tuple[Diagnostic, ...] | list[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        assert self.diagnostics, "an InputError names at least one mistake"
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class StudyError(OperatingError):
    """A study that cannot be used as requested: damaged, foreign, locked, unsafe."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"{message} [{code}]" + (f"\n  = {hint}" if hint else ""))


class BenchError(OperatingError):
    """The bench itself failed (the launcher died, a file could not be made)."""

    exit_status = 1

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"{message} [{code}]" + (f"\n  = {hint}" if hint else ""))


def argument_error(where: str, text: str, message: str, hint: str = "") -> InputError:
    """Return the InputError for one bad command-line value.

    `where` is the option's name; the column counts within `text`.
    """
    return InputError([Diagnostic("bad-argument", message, hint, file=where, text=text)])


def similar(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known word that an unknown one resembles most; None below a similarity of `least`,
    from 0 to 1 (difflib)."""
    # Imported when something is wrong, not by each command.
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1, least)), None)


def suggestion(word: str, known: Iterable[str], *, form: str = "%s", least: float = 0.6) -> str:
    """Return the hint `did you mean WORD?` with the similar known word, empty if there is none.

    `form`: how the word is written, such as `{%s}`; `least` as in `similar`.
    """
    near = similar(word, known, least)
    return "" if near is None else f"did you mean {form % near}?"


class HostError(BenchError):
    """A host that issues a part of a load failed: `host-lost`, `not-armed`, `clock-uncertain`."""

    def __init__(self, code: str, host: str, message: str) -> None:
        self.host = host
        super().__init__(code, message)


class Interrupted(Exception):
    """The user (or a machine that shuts down) requested a stop; resumable."""
