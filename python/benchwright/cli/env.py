"""`bw env`: prints and compares captures of the machine."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.terminal import write_answer
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.machine import Fact, MachineCapture
from benchwright.core.text import plural
from benchwright.core.untrusted import decode_json, regular_bytes
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.machine.capture import capture
from benchwright.report.env import ENV_SCHEMA
from benchwright.study.catalogue import StudyPart, split_selector
from benchwright.study.contents import machines_of
from benchwright.study.journal import Study
from benchwright.suite.common_options import FOR_SCRIPTS, Json

_INPUT = "now, a STUDY, STUDY@SESSION, STUDY@SESSION:N, or a file of `bw env --json`"


class EnvOptions(msgspec.Struct, frozen=True):
    """The options of `bw env`."""

    input: Annotated[
        Text, Option(_INPUT, "INPUT", default="now", positional=True, names="file")
    ] = None
    diff: Annotated[
        tuple[str, str] | None, Option(f"compare two captures: {_INPUT}", "A B", names="file")
    ] = None
    all: Annotated[
        bool, Option("with --diff, show also what differs between any two runs", needs="diff")
    ] = False
    exit_code: Annotated[
        bool,
        Option(
            "with --diff, exit with 1 if something differs that may change a result",
            no_default=FOR_SCRIPTS,
        ),
    ] = False
    program_version: Annotated[
        bool, Option("run each program of COMMAND with --version", no_default="it needs a COMMAND")
    ] = False
    study: Annotated[
        Text,
        Option(
            "print the last capture of this study",
            "DIR",
            default="the machine now",
            names="directory",
            no_default="without it, the machine now is captured",
        ),
    ] = None
    json: Json = False
    command: tuple[str, ...] | None = None
    """The words after `--`; None if there is no `--`."""


# -- Captures: of the machine now, of a study, or of a file ----------------------------

NOW = "now"
_PATIENCE_S = 5.0
"""Time limit of slow lookups [s]; longer than that of a session (machine/capture.py)."""
_READS = "name a study, STUDY@SESSION, a file that `bw env --json` wrote, or now"


class _File(msgspec.Struct):
    """The document of `bw env --json`."""

    schema: str
    taken_ns: int
    facts: tuple[Fact, ...]


def check_options(asked: EnvOptions) -> None:
    """Raise InputError with all options that cannot be combined."""
    wrong = []
    named = [n for n in (asked.input, asked.study) if n is not None]
    if len(named) > 1:
        wrong.append(option_mistake("--study", "an INPUT is given too", "give only one of them"))
    if asked.diff and named:
        wrong.append(
            option_mistake(
                "--diff",
                f"only two captures can be compared; {named[0]} is a third",
                "name two captures",
            )
        )
    for option, is_given in (("--all", asked.all), ("--exit-code", asked.exit_code)):
        if is_given and not asked.diff:
            wrong.append(option_mistake(option, "it is only for --diff", "add --diff A B"))
    command = asked.command
    is_now = NOW in (asked.diff or ()) or not (asked.diff or named)
    if command is not None and not (is_now or asked.input == NOW):
        message = "a command can only be given with a capture of now"
        wrong.append(option_mistake("--", message, "leave the command out"))
    elif asked.program_version and not command:
        message = "there is no program to run"
        wrong.append(option_mistake("--program-version", message, "add -- COMMAND"))
    if wrong:
        raise InputError(wrong)


def read_captures(names: Sequence[str], asked: EnvOptions) -> list[tuple[str, MachineCapture]]:
    """Return the named captures. Raises InputError with all mistakes, or StudyError."""
    found: list[tuple[str, MachineCapture]] = []
    wrong: list[Diagnostic] = []
    for name in names:
        try:
            found.append((name, read_capture(name, asked)))
        except InputError as error:
            wrong += error.diagnostics
    if wrong:
        raise InputError(wrong)
    return found


def read_capture(name: str, asked: EnvOptions) -> MachineCapture:
    """Return one capture; `asked` contains the command. Raises InputError or StudyError."""
    if name == NOW:
        command = asked.command
        return capture(
            [command] if command else [], patience_s=_PATIENCE_S, ask_versions=asked.program_version
        )
    if Path(name).is_file():
        return _of_file(name)
    if Path(name).is_dir():
        return _of_study(name, StudyPart(Path(name)), None)
    # STUDY@SESSION[:CAPTURE]; STUDY:SESSION[:CAPTURE], with numbers, is older.
    part = split_selector(Path(name))
    numbers = part.test.split(":") if part.test else []
    session = part.session or (numbers.pop(0) if numbers else "")
    if session and len(numbers) < 2 and all(map(str.isdecimal, numbers)):
        number = int(numbers[0]) if numbers else None
        if part.session or session.isdecimal():
            return _of_study(name, StudyPart(part.place, session), number)
    raise argument_error("INPUT", name, f"{name}: there is no such capture", _READS)


def _of_file(name: str) -> MachineCapture:
    try:
        data = regular_bytes(name)
        read = decode_json(data, _File)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{name}: not a capture: {reason}"
        raise argument_error("INPUT", name, message, _READS) from None
    if read.schema != ENV_SCHEMA:
        message = f"{name}: its schema is {read.schema!r}, not {ENV_SCHEMA!r}"
        raise argument_error("INPUT", name, message, _READS)
    return MachineCapture(read.taken_ns, read.facts)


def _of_study(name: str, part: StudyPart, number: int | None) -> MachineCapture:
    """Return a capture of a study; without numbers, the last one of the last session."""
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        if part.session is None:
            asked = [session.number for session in reversed(study.sessions())]
        else:
            asked = [part.of(study, "INPUT").number]
        captures = next(filter(None, (machines_of(study, s) for s in asked)), ())
    if not captures:
        message = f"{name} contains no capture of the machine"
        hint = "its sessions were recorded by a version without captures"
        raise argument_error("INPUT", name, message, hint)
    if number is None:
        return captures[-1]
    if not 1 <= number <= len(captures):
        there = plural(len(captures), "capture")
        message = f"{name}: session {part.session} has {there}"
        hint = f"name 1 to {len(captures)}" if len(captures) > 1 else "name 1"
        raise argument_error("INPUT", name, message, hint)
    return captures[number - 1]


# --------------------------------------------------------------------------------------
# `bw env`: describes this machine or that of a study, and the differences of two captures.


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
    add_options(parser, EnvOptions)
    parser.set_defaults(handler=env)


def env(arguments: argparse.Namespace) -> int:
    """Run `bw env`; return the exit code."""
    argv = arguments.command_argv
    command = None if argv is None else tuple(argv)
    request = request_from(EnvOptions, arguments, command=command)
    check_options(request)
    if request.diff is not None:
        return _compare(request, request.diff)
    return _show(request)


def _show(env_options: EnvOptions) -> int:
    from benchwright.report.env import env_document, machine_text

    name = env_options.input or env_options.study or NOW
    machine = read_capture(name, env_options)
    write_answer(
        json=env_options.json,
        document=lambda: env_document(name, machine),
        text=lambda: machine_text(machine),
    )
    return 0


def _compare(env_options: EnvOptions, names: tuple[str, str]) -> int:
    from benchwright.findings.environment import difference
    from benchwright.report.env import difference_document, difference_text

    a, b = read_captures(names, env_options)
    machine_difference = difference(a[1], b[1])
    write_answer(
        json=env_options.json,
        document=lambda: difference_document(a, b, machine_difference),
        text=lambda: difference_text(a, b, machine_difference, everything=env_options.all),
    )
    return 1 if env_options.exit_code and machine_difference.matters else 0
