"""`bw peak`: the highest rate that a server sustains under its criteria.

Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
`peak_run.py` searches and tells. Heavy imports are inside the functions.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchwright.cli.search_options import (
    OF_A_NEW_SESSION,
    Misfit,
    add_sample,
    add_seed,
    add_session,
    of_the_command,
    refuse,
    search_or_tell,
    two_sources,
)

if TYPE_CHECKING:
    from benchwright.session.search_peak_request import PeakRequest
    from benchwright.study.journal import Session, Study

SUMMARY = "find the highest rate that a server sustains, with a stated probability"

_EXAMPLES = """\
examples:
  bw peak examples/peak-nginx.toml                    docs/workbench.md
  bw peak server.toml -P workers=2 --claim rate:5% --plot peak.png
  bw peak --command 'GEN {rate} {duration}' --response /mean_ms --series /series \\
      --limit 40ms --claim region:10%,rate:5%         GEN prints JSON
  bw peak --study DIR --plot peak.png                 draw the search kept in DIR

claims (with several, all are reached):
  region:10%   the true response at the answer is within 10 % of the limit
  rate:5%      the answer is within 5 % of the true peak rate
  slo:95%      the limit holds at the answer with a probability of 95 %

exit status: 0 found; 1 the server or the generator failed, or a criterion fails at the
lowest rate; 2 bad input; 3 undecided, budget spent, or no criterion ever fails;
130 interrupted (go on with `bw resume`)
"""
_WORDS = (
    "command",
    "response",
    "series",
    "claim",
    "policy",
    "start",
    "lowest",
    "highest",
    "confidence",
    "budget",
    "max_trials",
    "run_length",
    "seed",
    "plot",
)
_NEW = (*_WORDS[:-1], "limits", "factors", *OF_A_NEW_SESSION)
"""Options of a new search."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw peak`."""
    parser = commands.add_parser(
        "peak",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    _add_generator(parser.add_argument_group("instead of a SPEC"))
    _add_question(parser.add_argument_group("the question"))
    _add_search(parser.add_argument_group("the search"))
    add_session(parser)
    parser.set_defaults(handler=run)


def _add_generator(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--command",
        metavar="GEN",
        help="a program that applies {rate} per second for {duration} seconds and prints "
        "JSON ({rate:int}, {duration:int}: it takes whole numbers only); run by a shell only "
        "if other shell characters are in it",
    )
    add("--response", metavar="/POINTER", help="where the mean response is [ms]")
    add(
        "--series",
        metavar="/POINTER",
        help="where an array of [second, count, mean_ms] is, of the operations that "
        "were to begin in each second",
    )


def _add_question(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--limit",
        dest="limits",
        action="append",
        default=[],
        metavar="40ms",
        help="limit on the mean response time; with a SPEC also 'p99 response < 100ms' and "
        "so on, several times, in place of the SPEC's criteria",
    )
    add(
        "--claim",
        metavar="CLAIM",
        help="region:10%% (default), rate:5%%, slo:95%%; several with commas",
    )
    add(
        "--confidence",
        metavar="95%",
        help="confidence of a claim of region or rate (default 95%%)",
    )
    add_sample(group)


def _add_search(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--policy", metavar="NAME", help="qgs (default), binsearch, ...: how to search")
    add(
        "--start",
        metavar="RATE",
        help="rate of the first trial, a low one (default 50)",
    )
    add(
        "--lowest",
        metavar="RATE",
        help="lowest rate to try (default 1, less where a limit is seconds long)",
    )
    add("--highest", metavar="RATE", help="highest rate to try (default 1M)")
    add(
        "--budget",
        metavar="10m",
        help="stop after this time and report the best answer so far",
    )
    add("--max-trials", metavar="N", help="stop undecided after N trials (default 200)")
    add(
        "--run-length",
        metavar="60s",
        help="length of every trial (default: the policy chooses)",
    )
    add_seed(group)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw peak` was asked; return the exit code."""
    refuse(_misfits(arguments))
    return search_or_tell("peak", arguments, _request)


def resume(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored search; return the exit code."""
    from benchwright.cli.peak_run import go_on

    return go_on(study, stored, arguments)


def _misfits(arguments: argparse.Namespace) -> list[Misfit]:
    """Return option, text, what is wrong and what to do, for each misfit."""
    from benchwright.cli.search_again import is_told_again

    found: list[Misfit] = []
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {rate} {duration}'"
        found.append(("--", "", "a command after -- has no place for a rate", hint))
    elif spec is None and command is None and not is_told_again(arguments, _NEW):
        hint = (
            "bw peak SPEC.toml, or --command 'GEN {rate} {duration}'; or of a search that "
            "is kept, bw peak --study DIR --plot FILE, with no option of a new one"
        )
        found.append(("bw peak", "", "there is nothing to search", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if command is not None and arguments.response is None:
        hint = "such as --response /mean_ms, a JSON pointer into GEN's output"
        message = "nothing says where the mean response is"
        found.append(("--response", "", message, hint))
    if spec is not None and command is None:
        found += of_the_command(arguments, ("response", "series"))
    return found


def _request(arguments: argparse.Namespace) -> PeakRequest:
    import secrets

    from benchwright.session.search_peak_request import PeakRequest

    given = {name: getattr(arguments, name) for name in _WORDS}
    return PeakRequest(
        limits=tuple(arguments.limits),
        factors=tuple(arguments.factors),
        drawn_seed=secrets.randbelow(2**32),
        **given,
    )
