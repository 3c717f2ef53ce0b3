"""The program that a command starts, and whether it can be started.

Decision: never refuse what may work. Of a shell's text only a first word counts that is
certainly a program's name, in a text that is one command.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence

_SEVERAL = re.compile(r"[;&|\n()`]|\$\(")
"""Signs that a shell's text may be more than one command."""
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
_BUILT_IN = frozenset(
    [
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "break",
        "builtin",
        "case",
        "cd",
        "command",
        "continue",
        "declare",
        "echo",
        "enable",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "for",
        "function",
        "getopts",
        "hash",
        "help",
        "if",
        "jobs",
        "kill",
        "let",
        "local",
        "printf",
        "pwd",
        "read",
        "readonly",
        "return",
        "select",
        "set",
        "shift",
        "shopt",
        "source",
        "test",
        "time",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "until",
        "wait",
        "while",
    ]
)


def program_of(argv: Sequence[str]) -> str | None:
    """Return the name of the program that certainly is started; None if none is."""
    if len(argv) != 3 or argv[:2] != ("/bin/sh", "-c"):
        return argv[0]
    words = argv[2].split(maxsplit=1)
    first = words[0] if words else ""
    if _SEVERAL.search(argv[2]) or not _PLAIN.fullmatch(first) or first in _BUILT_IN:
        return None
    return first


def fault_of(name: str, path: str | None, directory: str) -> str:
    """Return why a program cannot be started from a directory; empty where it can."""
    if "/" not in name:
        places = [os.path.join(directory, p) for p in (path or os.defpath).split(":")]
        found = shutil.which(name, path=":".join(places))
        return "" if found else f"there is no program {name!r}"
    file = os.path.join(directory, name)
    if not os.path.exists(file):
        return f"there is no program {name!r}"
    if os.path.isdir(file) or not os.access(file, os.X_OK):
        return f"{name!r} is not an executable file"
    return ""
