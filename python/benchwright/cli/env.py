"""`bw env`: what machine this is, or was in a study, and what differs between two."""

from __future__ import annotations

import argparse

SUMMARY = "capture the machine, and tell what differs between two captures"

_INPUT = "now, a STUDY, STUDY:SESSION, STUDY:SESSION:N, or a file of `bw env --json`"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw env`."""
    parser = commands.add_parser(
        "env",
        help=SUMMARY,
        description="Print what machine this is: hardware, kernel, settings, limits and, "
        "with `-- COMMAND`, the versions of the programs that it names. Secrets are left out; "
        "what cannot be read is listed with the reason.",
        usage="bw env [INPUT | --study DIR] [--json] [--program-version] [-- COMMAND...]\n"
        "       bw env --diff A B [--all] [--exit-code] [--json]",
    )
    parser.add_argument(
        "input", nargs="?", metavar="INPUT", help=f"{_INPUT} (default now)"
    )
    parser.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help=f"compare two captures: {_INPUT}"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with --diff: also what differs between any two runs",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="with --diff: exit with 1 where something that may change a figure differs",
    )
    parser.add_argument(
        "--program-version",
        action="store_true",
        help="run each program of COMMAND with --version",
    )
    parser.add_argument(
        "--study",
        metavar="DIR",
        help="the last capture of this study (default: the machine now)",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on stdout"
    )
    parser.set_defaults(handler=env)


def env(arguments: argparse.Namespace) -> int:
    """Do what `bw env` was asked; return the exit code."""
    from benchwright.cli.env_inputs import check_options

    check_options(arguments)
    return _compare(arguments) if arguments.diff else _show(arguments)


def _show(arguments: argparse.Namespace) -> int:
    import sys

    from benchwright.cli.env_inputs import NOW, read_capture
    from benchwright.report.env import machine_text
    from benchwright.report.env_json import encode, machine_document

    name = arguments.input or arguments.study or NOW
    machine = read_capture(name, arguments)
    if arguments.json:
        sys.stdout.write(encode(machine_document(name, machine)))
    else:
        sys.stdout.write(machine_text(machine))
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    import sys

    from benchwright.cli.env_inputs import read_captures
    from benchwright.finding.environment import difference
    from benchwright.report.env_difference import difference_text
    from benchwright.report.env_json import difference_document, encode

    a, b = read_captures(arguments.diff, arguments)
    found = difference(a[1], b[1])
    if arguments.json:
        sys.stdout.write(encode(difference_document(a, b, found)))
    else:
        sys.stdout.write(difference_text(a, b, found, everything=arguments.all))
    return 1 if arguments.exit_code and found.matters else 0
