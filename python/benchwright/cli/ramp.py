"""`bw ramp`: load in rising levels until throughput stops growing.

Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
`ramp_run.py` ramps and tells. Heavy imports are inside the functions.
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
    from benchwright.session.search_ramp_request import RampRequest
    from benchwright.study.journal import Session, Study

SUMMARY = "raise the load until throughput stops growing, and fit a law of scalability"

_EXAMPLES = """\
examples:
  bw ramp examples/peak-nginx.toml                    users of a closed loop, doubled
  bw ramp server.toml -P workers=2 --repeats 3 --plot profile.png
  bw ramp server.toml --axis rate --start 1k --step 500
  bw ramp --command 'GEN {users} {duration}' --throughput /tps --response /mean_ms
  bw ramp --study DIR --plot profile.png              draw the ramp kept in DIR

With users, the Universal Scalability Law is fitted: X(N) = gamma N /
(1 + sigma (N-1) + kappa N (N-1)), with an interval of each parameter and of the number of
users at its maximum.

exit status: 0 done; 1 the server or the generator failed; 2 bad input; 3 budget spent;
130 interrupted (go on with `bw resume`)
"""
_GENERATOR = ("command", "throughput", "response", "p99", "errors", "series")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw ramp`."""
    parser = commands.add_parser(
        "ramp",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    _add_generator(parser.add_argument_group("instead of a SPEC"))
    _add_levels(parser.add_argument_group("the levels"))
    _add_end(parser.add_argument_group("the end"))
    add_session(parser)
    parser.set_defaults(handler=run)


def _add_generator(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--command",
        metavar="GEN",
        help="a program that applies the load of {users}, or {rate} per second, for "
        "{duration} seconds and prints JSON",
    )
    add("--throughput", metavar="/POINTER", help="where the throughput is [1/s]")
    add("--response", metavar="/POINTER", help="where the mean response is [ms]")
    add("--p99", metavar="/POINTER", help="where the 99th percentile is [ms]")
    add("--errors", metavar="/POINTER", help="where the share of failed operations is")
    add(
        "--series",
        metavar="/POINTER",
        help="JSON pointer to the per-second series, an array of [second, count, "
        "mean_ms], used to estimate the noise",
    )


def _add_levels(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--axis",
        metavar="AXIS",
        help="users (default, a closed loop), or rate (an open one)",
    )
    add("--start", metavar="N", help="the first level (default 1 user, or 50/s)")
    add("--factor", metavar="2", help="from level to level (default 2)")
    add("--step", metavar="N", help="added from level to level, in place of a factor")
    add(
        "--highest",
        metavar="N",
        help="the last level (default 1024 users, or more)",
    )
    add("--hold", metavar="10s", help="length of a trial (default 10s)")
    add("--repeats", metavar="N", help="trials at each level (default 1)")
    add_sample(group)
    add_seed(group)


def _add_end(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--growth", metavar="5%", help="smaller gains count as no growth (default 5%%)")
    add(
        "--flat-levels",
        metavar="N",
        help="stop after N levels without growth (default 2)",
    )
    add(
        "--max-errors",
        metavar="1%",
        help="stop when more operations fail (default 1%%)",
    )
    add("--budget", metavar="10m", help="start no trial after this time")
    add(
        "--confidence", metavar="95%", help="confidence of all intervals (default 95%%)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw ramp` was asked; return the exit code."""
    refuse(_misfits(arguments))
    return search_or_tell("ramp", arguments, _request)


def resume(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored ramp; return the exit code."""
    from benchwright.cli.ramp_run import go_on

    return go_on(study, stored, arguments)


def _misfits(arguments: argparse.Namespace) -> list[Misfit]:
    """Return option, text, what is wrong and what to do, for each misfit."""
    from benchwright.cli.search_again import is_told_again
    from benchwright.workbench.ramp_spec import WORDS

    found: list[Misfit] = []
    new = (*_GENERATOR, *WORDS, "seed", "factors", *OF_A_NEW_SESSION)
    spec, command = arguments.spec, arguments.command
    if arguments.command_argv is not None:
        hint = "give it in one word: --command 'GEN {users} {duration}'"
        found.append(("--", "", "a command after -- has no place for a level", hint))
    elif spec is None and command is None and not is_told_again(arguments, new):
        hint = (
            "bw ramp SPEC.toml, or --command 'GEN {users} {duration}'; or of a ramp that "
            "is kept, bw ramp --study DIR --plot FILE, with no option of a new one"
        )
        found.append(("bw ramp", "", "there is nothing to ramp", hint))
    elif spec is not None and command is not None:
        found.append(two_sources(spec, command))
    if spec is not None and command is None:
        found += of_the_command(arguments, _GENERATOR[1:])
    return found


def _request(arguments: argparse.Namespace) -> RampRequest:
    import secrets

    from benchwright.session.search_ramp_request import RampRequest
    from benchwright.workbench.ramp_spec import WORDS

    options = {key: getattr(arguments, key) for key in WORDS}
    return RampRequest(
        options={key: text for key, text in options.items() if text is not None},
        seed=arguments.seed,
        drawn_seed=secrets.randbelow(2**32),
        factors=tuple(arguments.factors),
        plot=arguments.plot,
        **{name: getattr(arguments, name) for name in _GENERATOR},
    )
