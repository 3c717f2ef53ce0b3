"""`bw env`: captures of the machine, printed and compared."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.machine import Fact, MachineCapture
from benchwright.core.text import plural
from benchwright.machine.capture import capture
from benchwright.report.env import ENV_SCHEMA
from benchwright.study.contents import machines_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study

# -- The captures that `bw env` is asked for: now, of a study, or of a file ------------

NOW = "now"
_PATIENCE_S = 5.0
"""A person waits for a package's name; a session does not (capture.PATIENCE_S)."""
_OF_SESSION = re.compile(r"(?P<study>.+?)(:(?P<session>\d+))?(:(?P<number>\d+))?\Z")
_READS = "name a study, STUDY:SESSION, a file that `bw env --json` wrote, or now"


class _File(msgspec.Struct):
    """What `bw env --json` writes."""

    schema: str
    taken_ns: int
    facts: tuple[Fact, ...]


def check_options(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that say nothing together, all of them at once."""
    wrong = []
    named = [n for n in (arguments.input, arguments.study) if n is not None]
    if len(named) > 1:
        wrong.append(
            _wrong("--study", "an INPUT is given too", "give only one of them")
        )
    if arguments.diff and named:
        wrong.append(_wrong("--diff", f"it takes no third, {named[0]}", "name two"))
    for option, asked in (
        ("--all", arguments.all),
        ("--exit-code", arguments.exit_code),
    ):
        if asked and not arguments.diff:
            wrong.append(_wrong(option, "it is only for --diff", "add --diff A B"))
    command = arguments.command_argv
    is_now = NOW in (arguments.diff or ()) or not (arguments.diff or named)
    if command is not None and not (is_now or arguments.input == NOW):
        message = "a command can only be given with a capture of now"
        wrong.append(_wrong("--", message, "leave the command out"))
    elif arguments.program_version and not command:
        message = "there is no program to run"
        wrong.append(_wrong("--program-version", message, "add -- COMMAND"))
    if wrong:
        raise InputError(wrong)


def read_captures(
    names: Sequence[str], arguments: argparse.Namespace
) -> list[tuple[str, MachineCapture]]:
    """Return the named captures. Raises InputError with all mistakes, StudyError."""
    found: list[tuple[str, MachineCapture]] = []
    wrong: list[Diagnostic] = []
    for name in names:
        try:
            found.append((name, read_capture(name, arguments)))
        except InputError as error:
            wrong += error.diagnostics
    if wrong:
        raise InputError(wrong)
    return found


def read_capture(name: str, arguments: argparse.Namespace) -> MachineCapture:
    """Return one capture; `arguments` has the command. Raises InputError, StudyError."""
    if name == NOW:
        command = arguments.command_argv
        return capture(
            [command] if command else [],
            patience_s=_PATIENCE_S,
            ask_versions=arguments.program_version,
        )
    if Path(name).is_file():
        return _of_file(name)
    if Path(name).is_dir():
        return _of_study(name, name, None, None)
    match = _OF_SESSION.match(name)
    if match and match["session"] and (Path(match["study"]) / JOURNAL).exists():
        number = int(match["number"]) if match["number"] else None
        return _of_study(name, match["study"], int(match["session"]), number)
    raise argument_error("INPUT", name, f"{name}: there is no such capture", _READS)


def _of_file(name: str) -> MachineCapture:
    try:
        data = Path(name).read_bytes()
        read = msgspec.json.decode(data, type=_File)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{name}: not a capture: {reason}"
        raise argument_error("INPUT", name, message, _READS) from None
    if read.schema != ENV_SCHEMA:
        message = f"{name}: its schema is {read.schema!r}, not {ENV_SCHEMA!r}"
        raise argument_error("INPUT", name, message, _READS)
    return MachineCapture(read.taken_ns, read.facts)


def _of_study(
    name: str, place: str, session: int | None, number: int | None
) -> MachineCapture:
    """Return a study's capture: of the last session, the last that it has."""
    with contextlib.closing(Study.open_to_read(Path(place))) as study:
        sessions = [s.number for s in study.sessions()]
        if session is not None and session not in sessions:
            known = ", ".join(map(str, sessions)) or "none"
            message = f"{place} has no session {session}"
            raise argument_error("INPUT", name, message, f"there are: {known}")
        asked = sessions[::-1] if session is None else [session]
        captures = next(filter(None, (machines_of(study, s) for s in asked)), ())
    if not captures:
        message = f"{name} holds no capture of the machine"
        hint = "its sessions were recorded by a version without captures"
        raise argument_error("INPUT", name, message, hint)
    if number is None:
        return captures[-1]
    if not 1 <= number <= len(captures):
        there = plural(len(captures), "capture")
        message = f"{name}: session {session} has {there}"
        hint = f"name 1 to {len(captures)}" if len(captures) > 1 else "name 1"
        raise argument_error("INPUT", name, message, hint)
    return captures[number - 1]


def _wrong(option: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-argument", f"{option}: {message}", hint, file=option)


# --------------------------------------------------------------------------------------
# `bw env`: what machine this is, or was in a study, and what differs between two.

_INPUT = "now, a STUDY, STUDY:SESSION, STUDY:SESSION:N, or a file of `bw env --json`"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw env`."""
    parser = add_command(
        commands,
        "env",
        description="Print the machine: hardware, kernel, settings, limits and, "
        "with `-- COMMAND`, the versions of the programs that it names. Secrets are left out; "
        "what cannot be read is listed with the reason.",
        usage="bw env [INPUT | --study DIR] [--json] [--program-version] [-- COMMAND...]\n"
        "       bw env --diff A B [--all] [--exit-code] [--json]",
    )
    parser.add_argument(
        "input", nargs="?", metavar="INPUT", help=f"{_INPUT} (default: now)"
    )
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help=f"compare two captures: {_INPUT}"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with --diff, show also what differs between any two runs",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="with --diff, exit with 1 if something differs that may change a result",
    )
    parser.add_argument(
        "--program-version",
        action="store_true",
        help="run each program of COMMAND with --version",
    )
    parser.add_argument(
        "--study",
        metavar="DIR",
        help="print the last capture of this study (default: the machine now)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout"
    )
    parser.set_defaults(handler=env)


def env(arguments: argparse.Namespace) -> int:
    """Do what `bw env` was asked; return the exit code."""

    check_options(arguments)
    return _compare(arguments) if arguments.diff else _show(arguments)


def _show(arguments: argparse.Namespace) -> int:
    import sys

    from benchwright.report.documents import encode
    from benchwright.report.env import env_document, machine_text

    name = arguments.input or arguments.study or NOW
    machine = read_capture(name, arguments)
    if arguments.json:
        sys.stdout.write(encode(env_document(name, machine)))
    else:
        sys.stdout.write(machine_text(machine))
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    import sys

    from benchwright.findings.environment import difference
    from benchwright.report.documents import encode
    from benchwright.report.env import difference_document, difference_text

    a, b = read_captures(arguments.diff, arguments)
    found = difference(a[1], b[1])
    if arguments.json:
        sys.stdout.write(encode(difference_document(a, b, found)))
    else:
        sys.stdout.write(difference_text(a, b, found, everything=arguments.all))
    return 1 if arguments.exit_code and found.matters else 0
