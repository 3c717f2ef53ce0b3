"""`bw peak`: the highest rate that a server sustains under its criteria."""

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
from benchwright.load.search_options import PeakRequest
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options, request_from

_EXAMPLES = """\
examples:
  bw peak examples/peak-nginx.toml                    docs/workbench.md
  bw peak server.toml -P workers=2 --claim rate:5% --plot peak.png
  bw peak --command 'GEN {rate} {duration}' --response /mean_ms --series /series \\
      --limit 40ms --claim region:10%,rate:5%         GEN prints JSON
  bw peak --study DIR --plot peak.png                 draw the search stored in DIR

claims (with several, all are reached):
  region:10%   the true response at the answer is within 10 % of the limit
  rate:5%      the answer is within 5 % of the true peak rate
  slo:95%      the limit holds at the answer with a probability of 95 %

exit status: 0 found; 1 the server or the generator failed, or a criterion fails at the
lowest rate; 2 bad input; 3 undecided, budget spent, or no criterion ever fails;
130 interrupted (continue with `bw resume`)
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw peak`."""
    parser = add_command(
        commands,
        "peak",
        epilog=_EXAMPLES,
        usage="bw peak [options] SPEC.toml | bw peak [options] --command 'GEN {rate} "
        "{duration}' --response /POINTER --limit 40ms",
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server, load and criteria; without one, and without --command, print the "
        "study's last search again",
    )
    add_options(parser, PeakRequest)
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw peak` was asked; return the exit code."""
    wrong = _mistakes(arguments)
    if wrong:
        raise InputError(wrong)
    return search_or_print("peak", arguments, _request)


def _mistakes(arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return what does not go together, or is missing."""
    found: list[Diagnostic] = []
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {rate} {duration}'"
        found.append(
            option_mistake("--", "a command after -- cannot take a rate", hint)
        )
    elif (
        spec is None
        and command is None
        and not is_stored_search(arguments, (PeakRequest, *NEW_SESSION))
    ):
        hint = (
            "bw peak SPEC.toml, or --command 'GEN {rate} {duration}'; or for a "
            "stored search bw peak --study DIR --plot FILE, without options of a new one"
        )
        found.append(option_mistake("bw peak", "there is nothing to search", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if command is not None and arguments.response is None:
        hint = "such as --response /mean_ms, a JSON pointer into GEN's output"
        message = "the pointer to the mean response time is missing"
        found.append(option_mistake("--response", message, hint))
    if spec is not None and command is None:
        found += for_command_only(arguments, PeakRequest, ("response", "series"))
    return found


def _request(arguments: argparse.Namespace) -> PeakRequest:
    """Return what the user typed, with a seed drawn."""
    return request_from(PeakRequest, arguments, drawn_seed=secrets.randbelow(2**32))
