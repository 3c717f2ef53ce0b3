"""Puts a trial's rate, length, users and factor levels into the user's texts.

Decision: a text is cut into words before anything is put in, so a level with a space
stays one word; only a text that is a shell command by itself gets quoted values.
Decision: a program that takes whole rates only is told so by `{rate:int}`, where the rate
stands, and not by a key beside it; a key would be of no use to `bw peak --command`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping

from benchwright.model.peak import written_rate
from benchwright.model.plan import Command
from benchwright.trial.program_file import program_of
from benchwright.workbench.generators.adapter import Asked

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::int)?)\}", re.ASCII)
WHOLE_RATE, WHOLE_DURATION = "rate:int", "duration:int"
OF_A_TRIAL = (
    "rate",
    WHOLE_RATE,
    "duration",
    WHOLE_DURATION,
    "users",
    "seed",
    "directory",
)


def plain(number: float) -> str:
    """Return a number without an exponent, with at most six decimals."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def levels(asked: Asked) -> dict[str, str]:
    """Return what each placeholder stands for; `{duration}` is in seconds."""
    rate = asked.rate
    own = {
        "rate": None if rate is None else plain(rate),
        WHOLE_RATE: None if rate is None else plain(written_rate(rate, 1.0)),
        "duration": plain(asked.duration_s),
        WHOLE_DURATION: str(whole_seconds(asked.duration_s)),
        "users": None if asked.users is None else str(asked.users),
        "seed": None if asked.seed is None else str(asked.seed),
        "directory": asked.directory,
    }
    return dict(asked.sample) | {k: v for k, v in own.items() if v is not None}


def whole_seconds(duration_s: float) -> int:
    """Return a length that takes whole seconds: never less than was asked for [s]."""
    return math.ceil(duration_s)


def rate_step_in(text: str) -> float | None:
    """Return what the rates are multiples of that a text can be filled with [1/s]; None:
    it takes any."""
    return 1.0 if WHOLE_RATE in named_in(text) else None


def named_in(text: str) -> tuple[str, ...]:
    """Return the names in braces, in order."""
    return tuple(match[1] for match in _PLACEHOLDER.finditer(text))


def filled(text: str, asked: Asked) -> str:
    """Return a text with its known placeholders filled; others stay as they are."""
    return _filled(text, levels(asked), str)


def command_of(text: str, asked: Asked) -> Command:
    """Return the command that a text is, filled word by word. Raises ValueError."""
    known = levels(asked)
    bare = _filled(text, dict.fromkeys(known, "x"), str)
    shell = Command.from_text(bare).argv
    if shell[:2] == ("/bin/sh", "-c") and len(shell) == 3:
        return Command(("/bin/sh", "-c", _filled(text, known, shlex.quote)))
    return Command(tuple(_filled(word, known, str) for word in text.split()))


def program_in(text: str) -> str | None:
    """Return the program that a command certainly starts; None where that is not known, or
    is a placeholder's."""
    first = text.split(maxsplit=1)[:1]
    if not first or _PLACEHOLDER.search(first[0]):
        return None
    return program_of(Command.from_text(_PLACEHOLDER.sub("x", text)).argv)


def _filled(text: str, known: Mapping[str, str], quote: Callable[[str], str]) -> str:
    return _PLACEHOLDER.sub(
        lambda match: quote(known[match[1]]) if match[1] in known else match[0], text
    )


def whole(value: int | str, asked: Asked, key: str) -> int:
    """Return a number that may be a placeholder. Raises ValueError."""
    text = filled(str(value), asked)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{key} is {text!r}, expected a whole number above 0")
    return int(text)


def rate_of(asked: Asked) -> float:
    """Return the rate that is asked for. Raises ValueError where there is none."""
    if asked.rate is None:
        raise ValueError("it needs a rate; this trial has only users")
    return asked.rate
