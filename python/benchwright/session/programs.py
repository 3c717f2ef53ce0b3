"""Whether the programs of a session are there, before its first trial.

Decision: never refuse what may work. A program that something before it may make (set-up,
an earlier test of a suite) is not asked for, and of a shell's text only a first word that
is certainly a program's name, in a text that is one command.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence

from benchwright.model.plan import TestPlan
from benchwright.suite.plan import Planned, PlannedTest

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
_PAUSE = "sleep"
"""The program of `--rest`, which makes nothing."""


def missing_programs(
    planned: Sequence[Planned],
    environment: Mapping[str, str],
    directory: str,
    *,
    is_suite: bool,
) -> Iterator[tuple[PlannedTest, str, str]]:
    """Yield each test with a program that cannot be started, its name, and why.

    Of a suite only the first step is asked: those before a test may make its program.
    """
    for item in planned[:1] if is_suite else planned:
        if not isinstance(item, PlannedTest) or _may_make(item.plan):
            continue
        own = {**environment, **dict(item.plan.environment)}
        for command in item.plan.phases.exec:
            name = _program(command.argv)
            why = "" if name is None else fault_of(name, own.get("PATH"), directory)
            if name is not None and why:
                yield item, name, why


def _may_make(plan: TestPlan) -> bool:
    """Tell whether something before a test's command may make its program."""
    before = (*plan.phases.presetup, *plan.phases.setup)
    return any(command.argv[0] != _PAUSE for command in before)


def _program(argv: Sequence[str]) -> str | None:
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
