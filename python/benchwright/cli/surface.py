"""`bw surface`: the peak rate over factors, from a few samples.

Two steps: what the user said (arguments, a spec), what it means here (a plan, a workbench);
`surface_run.py` searches and tells. Heavy imports are inside the functions.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchwright.cli.search_options import OF_A_NEW_SESSION, add_seed, add_session

if TYPE_CHECKING:
    from benchwright.session.search_surface_request import SurfaceRequest
    from benchwright.study.journal import Session, Study

SUMMARY = "map the peak rate over a server's factors, from a few samples"

_EXAMPLES = """\
examples:
  bw surface examples/surface-postgres.toml               docs/surface.md
  bw surface server.toml --samples 10 --plot surface.png  10 of all samples, a model for the rest
  bw surface --predict workers=3,buffers=96M              of the surface kept in ./bw-study

designs: adaptive (default with --samples), d-optimal, i-optimal, full (default without)
models: gaussian-process (default), polynomial (default of d- and i-optimal)

exit status: 0 mapped; 1 the server failed at a sample; 2 bad input; 3 too few samples
have a peak for any model; 130 interrupted (go on with `bw resume`)
"""
_INNER = (
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
)
_OUTER = ("samples", "design", "model", "degree")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw surface`."""
    parser = commands.add_parser(
        "surface",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC.toml",
        help="server, load, criteria and factors; without one print the study's last "
        "surface again",
    )
    _add_mapping(parser.add_argument_group("the mapping"))
    _add_inner(parser.add_argument_group("the search at each sample"))
    add_session(parser).add_argument(
        "--predict",
        action="append",
        default=[],
        metavar="FACTOR=LEVEL,...",
        help="what the model says of this sample, also between levels; several times",
    )
    parser.set_defaults(handler=run)


def _add_mapping(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--samples", metavar="N", help="how many are searched (default: all)")
    add("--design", metavar="KIND", help="how they are chosen")
    add("--model", metavar="KIND", help="what predicts the others")
    add("--degree", metavar="N", help="of the polynomial: 1 or 2 (default)")


def _add_inner(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--limit",
        dest="limits",
        action="append",
        default=[],
        metavar="40ms",
        help="limit on the mean response time, or 'p99 response < 100ms' and so on, several times, "
        "in place of the SPEC's criteria",
    )
    add("--claim", metavar="CLAIM", help="region:10%%, rate:5%% or slo:95%%")
    add(
        "--confidence",
        metavar="95%",
        help="confidence of a claim of region or rate (default 95%%)",
    )
    add("--policy", metavar="NAME", help="how to search (default qgs)")
    add(
        "--start",
        metavar="RATE",
        help="first rate of the first search; others begin at a neighbour's peak",
    )
    add("--lowest", metavar="RATE", help="lowest rate to try")
    add("--highest", metavar="RATE", help="highest rate to try")
    add(
        "--budget",
        metavar="10m",
        help="stop each search after this time and use its best answer so far",
    )
    add("--max-trials", metavar="N", help="most trials of each search (default 200)")
    add(
        "--run-length",
        metavar="60s",
        help="length of every trial (default: the policy chooses)",
    )
    add_seed(group)


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw surface` was asked; return the exit code."""
    from benchwright.cli.plot_file import check_plot

    _check(arguments)
    if arguments.spec is None:
        from benchwright.cli.surface_run import tell_again

        check_plot(arguments.plot, [])
        return tell_again(arguments)
    from benchwright.cli.spec_file import spec_source
    from benchwright.cli.surface_run import begin

    spec = spec_source(arguments.spec, "bw surface")
    check_plot(arguments.plot, [spec.path])
    return begin(request_of(arguments), spec, arguments, sys.argv[1:])


def resume(study: Study, stored: Session, arguments: argparse.Namespace) -> int:
    """Go on with a stored mapping; return the exit code."""
    from benchwright.cli.surface_run import go_on

    return go_on(study, stored, arguments)


def request_of(arguments: argparse.Namespace) -> SurfaceRequest:
    """Return what the user typed, word for word, with a seed drawn."""
    import secrets

    from benchwright.session.search_peak_request import PeakRequest
    from benchwright.session.search_surface_request import SurfaceRequest

    inner = PeakRequest(
        limits=tuple(arguments.limits),
        drawn_seed=secrets.randbelow(2**32),
        **{name: getattr(arguments, name) for name in _INNER},
    )
    return SurfaceRequest(
        peak=inner,
        predict=tuple(arguments.predict),
        plot=arguments.plot,
        **{name: getattr(arguments, name) for name in _OUTER},
    )


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for words that mean nothing here."""
    from benchwright.model.errors import argument_error

    if arguments.command_argv is not None:
        hint = "bw surface SPEC.toml: the spec says what is started and loaded"
        raise argument_error("--", "", "a command after -- has no place here", hint)
    new = (*_INNER, *_OUTER, *OF_A_NEW_SESSION)
    given = [name for name in new if getattr(arguments, name)]
    if arguments.limits:
        given.insert(0, "limit")
    if arguments.spec is None and given:
        option = f"--{given[0].replace('_', '-')}"
        message = "there is no SPEC.toml to search with it"
        hint = "bw surface SPEC.toml; without a spec it prints a stored surface again"
        raise argument_error(option, "", message, hint)
