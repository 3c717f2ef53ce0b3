"""`bw ramp`: throughput and response time from a low load to saturation."""

from __future__ import annotations

import argparse
import secrets

from benchwright.cli.parser import add_command
from benchwright.cli.search_options import (
    NEW_SESSION,
    add_session,
    for_command_only,
    is_stored_search,
    search_or_print,
    two_sources,
)
from benchwright.core.errors import Diagnostic, InputError
from benchwright.load.search_options import RampRequest
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options, request_from

_EXAMPLES = """\
examples:
  bw ramp examples/peak-nginx.toml                    users of a closed loop, doubled
  bw ramp server.toml -P workers=2 --repeats 3 --plot profile.png
  bw ramp server.toml --axis rate --start 1k --step 500
  bw ramp --command 'GEN {users} {duration}' --throughput /tps --response /mean_ms
  bw ramp --study DIR --plot profile.png              draw the ramp stored in DIR

With users, the Universal Scalability Law is fitted: X(N) = gamma N /
(1 + sigma (N-1) + kappa N (N-1)), with an interval of each parameter and of the number of
users at its maximum.

exit status: 0 done; 1 the server or the generator failed; 2 bad input; 3 budget spent;
130 interrupted (continue with `bw resume`)
"""
_OUTPUT = ("throughput", "response", "p99", "errors", "series")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw ramp`."""
    parser = add_command(
        commands,
        "ramp",
        epilog=_EXAMPLES,
        usage="bw ramp [options] SPEC.toml | bw ramp [options] --command 'GEN {users} "
        "{duration}' --throughput /POINTER",
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server and load; [ramp] if it has one; without one, and without "
        "--command, print the study's last ramp again",
    )
    add_options(parser, RampRequest)
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw ramp` was asked; return the exit code."""
    wrong = _mistakes(arguments)
    if wrong:
        raise InputError(wrong)
    return search_or_print("ramp", arguments, _request)


def _mistakes(arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return what does not go together, or is missing."""

    found: list[Diagnostic] = []
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {users} {duration}'"
        found.append(
            option_mistake("--", "a command after -- cannot take a level", hint)
        )
    elif (
        spec is None
        and command is None
        and not is_stored_search(arguments, (RampRequest, *NEW_SESSION))
    ):
        hint = (
            "bw ramp SPEC.toml, or --command 'GEN {users} {duration}'; or for a "
            "stored ramp bw ramp --study DIR --plot FILE, without options of a new one"
        )
        found.append(option_mistake("bw ramp", "there is nothing to ramp", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if spec is not None and command is None:
        found += for_command_only(arguments, RampRequest, _OUTPUT)
    return found


def _request(arguments: argparse.Namespace) -> RampRequest:
    """Return what the user typed, with a seed drawn."""
    return request_from(RampRequest, arguments, drawn_seed=secrets.randbelow(2**32))
