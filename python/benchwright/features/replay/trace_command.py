"""`bw trace`: its commands, which analyze, compare, convert and capture I/O traces."""

from __future__ import annotations

import argparse
from typing import Any

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import RESULT
from benchwright.features.load.options import OutputOptions, TraceOptions
from benchwright.features.replay import trace_options as options
from benchwright.inputs.options import add_options

# -- The commands of `bw trace` --------------------------------------------------------
#
# trace_options.py declares the options; trace_run.py runs the commands.

_EXAMPLES = """\
examples:
  bw trace stat web.load.gz --plot web.svg
  bw trace compare web.load.gz replayed.bw --plot fidelity.png
  bw trace convert oltp.csv.gz -o oltp.bw
  bw trace capture -o build.bw -- make -j4

docs/traces.md describes the formats, the policies and each figure.
"""
_EXITS = """
exit status: 0 done, also with findings; 1 an operating error; 2 bad input, with
its path, line and column"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw trace` and its commands."""
    parser = add_command(commands, "trace", epilog=_EXAMPLES)
    below = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_stat, _add_compare, _add_convert, _add_capture):
        add(below)


def _add(below: Any, name: str, summary: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = below.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog + _EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def handler(arguments: argparse.Namespace) -> int:
        from benchwright.features.replay import trace_run

        handlers = {
            "stat": trace_run.stat,
            "compare": trace_run.compare,
            "convert": trace_run.convert,
            "capture": trace_run.capture,
        }
        return handlers[name](arguments)

    parser.set_defaults(handler=handler)
    return parser


def _add_stat(below: Any) -> None:
    parser = _add(
        below,
        "stat",
        "describe a trace: bursts, sizes, locality, popularity, queue, requests",
        "several TRACEs are reported one after the other, and drawn side by side",
    )
    add_options(parser, options.StatOptions)
    add_options(parser, TraceOptions, only=options.READING)
    add_options(parser, OutputOptions, RESULT, only=("plot", "json"))


def _add_compare(below: Any) -> None:
    parser = _add(
        below,
        "compare",
        "measure how faithful B, a replay, is to A: arrivals, bursts, response times",
        "A is the intended trace, B what an observer recorded: a capture or samples",
    )
    add_options(parser, options.CompareArguments)
    add_options(parser, TraceOptions, only=options.COMPARED, helps=options.OF_COMPARED)
    add_options(parser, options.PairingOptions)
    add_options(parser, OutputOptions, RESULT, only=("plot", "json"))


def _add_convert(below: Any) -> None:
    parser = _add(
        below,
        "convert",
        "write a trace in another format",
        "OUT must not exist; it appears when it is complete",
    )
    add_options(parser, options.ConvertOptions)
    changed = ("speed", *options.MAPPING, "unsafe_methods")
    add_options(parser, TraceOptions, only=changed, helps=options.OF_CONVERTED)
    add_options(parser, TraceOptions, only=options.READING)
    add_options(parser, OutputOptions, RESULT, only=("json",))


def _add_capture(below: Any) -> None:
    parser = _add(
        below,
        "capture",
        "record the block I/O of a device, a process tree or a command",
        "needs root (it uses a private instance of tracefs); records until the command\n"
        "ends, the time of --for is over, or it is interrupted\n",
    )
    parser.usage = "bw trace capture [--device D] [--pid N] [options] -o OUT [-- CMD...]"
    add_options(parser, options.CaptureOptions)
    add_options(parser, OutputOptions, RESULT, only=("json",))
