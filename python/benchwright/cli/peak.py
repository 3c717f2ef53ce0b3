"""`bw peak`: the highest rate that a server sustains under its criteria."""

from __future__ import annotations

import argparse

from benchwright.cli.parser import add_command
from benchwright.cli.search_options import CommandSearch, SpecArgument, add_session
from benchwright.core.errors import InputError
from benchwright.load.search_options import PeakRequest
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options

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


_SPEC = (
    "server, load and criteria; without one, and without --command, print the study's "
    "last search again"
)
_PEAK = CommandSearch(
    kind="peak",
    request=PeakRequest,
    verb="search",
    noun="search",
    level="a rate",
    command="GEN {rate} {duration}",
    for_command=("response", "series"),
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw peak`."""
    parser = add_command(
        commands,
        "peak",
        epilog=_EXAMPLES,
        usage="bw peak [options] SPEC.toml | bw peak [options] --command 'GEN {rate} "
        "{duration}' --response /POINTER --limit 40ms",
    )
    add_options(parser, SpecArgument, helps={"spec": _SPEC})
    add_options(parser, PeakRequest)
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw peak` was asked; return the exit code."""
    wrong = _PEAK.mistakes(arguments)
    if arguments.command is not None and arguments.response is None:
        hint = "such as --response /mean_ms, a JSON pointer into GEN's output"
        message = "the pointer to the mean response time is missing"
        wrong.append(option_mistake("--response", message, hint))
    if wrong:
        raise InputError(wrong)
    return _PEAK.run(arguments)
