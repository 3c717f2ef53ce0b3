"""Finds programs: our own, measurement hooks by name, and the program of a command."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchwright.core.errors import BenchError
from benchwright.core.hosts import PATH
from benchwright.core.plan import Command

# -- Where our native programs are: the launcher, the load engine, the sampler ---------


def find_launcher() -> Path:
    """Return the path of `bw-launcher`: next to this interpreter, else on PATH.

    BW_LAUNCHER overrides both. Raises BenchError `launcher-missing`.
    """
    return _find_program("launcher", "BW_LAUNCHER")


def find_engine() -> Path:
    """Return the path of `bw-engine`: next to this interpreter, else on PATH.

    BW_ENGINE overrides both. Raises BenchError `engine-missing`.
    """
    return _find_program("engine", "BW_ENGINE")


def find_sampler() -> Path:
    """Return the path of `bw-sampler`: next to this interpreter, else on PATH.

    BW_SAMPLER overrides both. Raises BenchError `sampler-missing`.
    """
    return _find_program("sampler", "BW_SAMPLER")


def common_directory() -> str:
    """Return the directory of all three, for hosts that have them at the same path; empty if they
    are elsewhere, or at a path that needs quoting."""
    paths = [find_launcher().resolve(), find_engine().resolve(), find_sampler().resolve()]
    directory = paths[0].parent
    usual = [directory / name for name in ("bw-launcher", "bw-engine", "bw-sampler")]
    needs_quotes = PATH.fullmatch(str(directory)) is None
    return "" if paths != usual or needs_quotes else str(directory)


def _find_program(what: str, variable: str) -> Path:
    name = f"bw-{what}"
    override = os.environ.get(variable)
    candidates = [
        Path(override) if override else None,
        Path(sysconfig.get_path("scripts")) / name,
        Path(sys.executable).parent / name,
    ]
    for candidate in candidates:
        if candidate is not None and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which(name)
    if found is None:
        raise BenchError(
            f"{what}-missing",
            f"the {what} `{name}` is not installed beside this Python",
            f"run `make setup`, or set {variable} to its path",
        )
    return Path(found)


# -- The instructions of a command --------------------------------------------------------

COUNTER = Path(__file__).parent.parent / "wrappers" / "count-instructions"


def counting_instructions(command: Command, method: str) -> Command:
    """Return the command that runs another one and counts its instructions."""
    return Command((str(COUNTER), method, *command.argv))


def uncounted(command: Command) -> Command:
    """Return the command whose instructions another one counts; any other command itself."""
    is_counted = command.argv[0] == str(COUNTER)
    return Command(command.argv[2:]) if is_counted else command


def counter_problem(method: str) -> tuple[str, str]:
    """Return why instructions cannot be counted here, and what to do; empty if they can."""
    program = {"perf": "perf", "callgrind": "valgrind"}[method]
    slower = "; --instructions=callgrind counts without the CPU's help, 50 times slower"
    if shutil.which(program) is None:
        hint = "install it: Debian has it in linux-perf" if method == "perf" else ""
        return f"{program} is not installed", hint or "install valgrind"
    if method == "perf":
        # Only this question starts a program.
        import subprocess

        tried = ["perf", "stat", "-x", ";", "-e", "instructions:u", "--", "true"]
        done = subprocess.run(tried, capture_output=True, text=True, check=False)
        first = done.stderr.strip().partition(";")[0]
        if not first.isdecimal():
            why = "perf cannot count instructions on this machine"
            hint = "a virtual machine needs a virtual PMU, and kernel.perf_event_paranoid at most 2"
            return why, hint + slower
    return "", ""


# -- Measurement hooks, found by the name that the user gives --------------------------
#
# A hook is an executable that is called with `premeasure`, `start`, `end` and `final` around
# a measurement (docs/launcher-protocol.md). The user gives the name of a shipped hook, a path,
# or a directory, which stands for all its executables in the order of their names.
# Source: Auto-pilot paper, sections 3.2 and 3.6.

SHIPPED_HOOKS = Path(__file__).parent.parent / "hooks"


def shipped_hooks() -> tuple[str, ...]:
    """Return the names of the hooks that come with Benchwright."""
    return tuple(sorted(p.name for p in SHIPPED_HOOKS.iterdir() if os.access(p, os.X_OK)))


def resolve_hooks(names: Iterable[str], directory: Path) -> tuple[str, ...]:
    """Return the absolute paths of hooks; relative paths start at `directory`.

    Raises ValueError for a name that is not a hook.
    """
    found: list[str] = []
    for name in names:
        found += [str(path) for path in _hook_paths(name, directory)]
    return tuple(dict.fromkeys(found))


def _hook_paths(name: str, directory: Path) -> list[Path]:
    if name in shipped_hooks():
        return [SHIPPED_HOOKS / name]
    path = (directory / name).absolute()
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.is_file() and os.access(p, os.X_OK))
        if not inside:
            raise ValueError(f"the directory {name} holds no executable")
        return inside
    if not path.is_file():
        known = ", ".join(shipped_hooks())
        raise ValueError(f"there is no hook {name!r}: give a path, or one of {known}")
    if not os.access(path, os.X_OK):
        raise ValueError(f"the hook {name} is not executable: chmod +x {name}")
    return [path]


# -- The program that a command starts, and whether it can be started ------------------
#
# Decision: never refuse what may work. In a shell command only the first word counts, and
# only if it is certainly a program's name and the text is a single command.

_SEVERAL_COMMANDS = re.compile(r"[;&|\n()`]|\$\(")
"""Signs that a shell text may contain more than one command."""
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+-]+")
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
    """Return the name of the program that is certainly started; None if that is unknown."""
    if len(argv) != 3 or argv[:2] != ("/bin/sh", "-c"):
        return argv[0]
    words = argv[2].split(maxsplit=1)
    first = words[0] if words else ""
    if _SEVERAL_COMMANDS.search(argv[2]) or not _PLAIN_WORD.fullmatch(first) or first in _BUILT_IN:
        return None
    return first


_BEFORE_COMMAND = frozenset(
    ["!", "(", "do", "elif", "else", "if", "then", "time", "until", "while", "{"]
)
"""Words of the shell that a command follows."""
_COMPOUND = frozenset(["case", "for", "if", "select", "until", "while"])
_END_OF_COMMAND = re.compile(r"[;&|\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def program_of_loop(text: str) -> str | None:
    """Return the first program that a loop or a condition of the shell contains; None if it is
    neither, or contains only what the shell does itself."""
    if _COMPOUND.isdisjoint(text.split()[:1]):
        return None
    for part in _END_OF_COMMAND.split(text):
        for word in part.split():
            if word in _BEFORE_COMMAND or _ASSIGNMENT.match(word):
                continue
            if _PLAIN_WORD.fullmatch(word) and word not in {*_BUILT_IN, "done", "fi"}:
                return word
            break
    return None


def program_problem(name: str, path: str | None, directory: str) -> str:
    """Return why a program cannot be started from a directory; empty if it can."""
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
