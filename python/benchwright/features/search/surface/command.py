"""`bw surface`: how the peak rate depends on factors of the server and its load."""

from __future__ import annotations

import argparse

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import add_features_options, added_to, drawn_seed
from benchwright.core.errors import argument_error
from benchwright.features.search.command_line import (
    NEW_SESSION,
    SpecArgument,
    add_session,
    begin_search,
    print_stored_search,
    spec_source,
)
from benchwright.features.search.options import INNER, PeakRequest, SurfaceRequest
from benchwright.inputs.options import add_options, given, request_from

_EXAMPLES = """\
examples:
  bw surface postgres.toml                                docs/surface.md
  bw surface server.toml --samples 10 --plot surface.png  10 of all samples, a model for the rest
  bw surface server.toml --samples 10 --deadline 2h       the map that two hours can give
  bw surface --predict workers=3,buffers=96M              of the surface stored in ./bw-study
  bw surface --at-rate 5k --cross workers=1,4             which samples reach 5,000/s; where the
                                                          peaks at two levels cross

designs: adaptive (default with --samples), d-optimal, i-optimal, full (default without)
models: gaussian-process (default), polynomial (default of d- and i-optimal)

exit status: 0 every claim held, or as much was mapped as the deadline allowed; 1 the server failed at
a sample, or a criterion at its lowest rate; 2 bad input; 3 undecided: the claim of a sample did not
hold, or too few have a peak for a model; 130 interrupted (continue with `bw resume`)
"""
_SPEC = "server, load, criteria and factors; without one print the study's last surface again"
_OF_STORED = ("plot", "predict", "at_rate", "cross")
"""Options that apply to a stored surface too."""
_START = "first rate of the first search; others start at a neighbour's peak"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw surface`."""
    parser = add_command(commands, "surface", epilog=_EXAMPLES)
    add_options(parser, SpecArgument, helps={"spec": _SPEC})
    add_options(parser, SurfaceRequest)
    add_options(parser, PeakRequest, only=INNER, helps={"start": _START})
    add_features_options(parser, "surface")
    add_session(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw surface`; return the exit code."""
    _check(arguments)
    if arguments.spec is None:
        print_stored_search(
            "surface", arguments, request_from(SurfaceRequest, arguments, peak=PeakRequest())
        )
        return 0
    spec = spec_source(arguments.spec, "bw surface")
    return begin_search("surface", arguments, request_of(arguments), spec)


def request_of(arguments: argparse.Namespace) -> SurfaceRequest:
    """Return the request: the options' texts, and a random seed."""
    inner = request_from(PeakRequest, arguments, only=INNER, drawn_seed=drawn_seed())
    return request_from(SurfaceRequest, arguments, peak=inner)


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for arguments that do not apply."""
    if arguments.command_argv is not None:
        hint = "bw surface SPEC.toml: the spec defines the server and its load"
        raise argument_error("--", "", "bw surface takes no command after --", hint)
    added = [added_options.declared for added_options in added_to("surface")]
    new = given(arguments, PeakRequest, SurfaceRequest, *added, *NEW_SESSION)
    new = [option for option in new if option.name not in _OF_STORED]
    if arguments.spec is None and new:
        option = new[0].flag
        message = "there is no SPEC.toml to search with it"
        hint = "bw surface SPEC.toml; without a spec it prints a stored surface again"
        raise argument_error(option, "", message, hint)
