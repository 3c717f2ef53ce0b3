"""`bw trace`: I/O traces measured, compared, converted and captured.

This file is the table of contents and the arguments; each command is in a module of its
own. Heavy imports are inside the functions.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from benchwright.cli.trace_options import (
    add_compared,
    add_convert,
    add_output,
    add_reading,
)

SUMMARY = "I/O traces: what they are like, how faithful a replay is, formats, recording"

_EXAMPLES = """\
examples:
  bw trace stat web.load.gz --plot web.svg
  bw trace compare web.load.gz replayed.bw --plot fidelity.png
  bw trace convert oltp.csv.gz -o oltp.bw
  bw trace capture -o build.bw -- make -j4

docs/traces.md has the formats, the policies and what each figure means.
"""
_EXITS = """
exit status: 0 done, also with findings; 1 an operating error; 2 bad input, with
its path, line and column"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw trace` and its commands."""
    parser = commands.add_parser(
        "trace",
        help=SUMMARY,
        description=SUMMARY + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
        module = import_module(f"benchwright.cli.trace_{name}")
        status: int = getattr(module, name)(arguments)
        return status

    parser.set_defaults(handler=handler)
    return parser


def _add_stat(below: Any) -> None:
    parser = _add(
        below,
        "stat",
        "tell what a trace is like: bursts, sizes, locality, popularity, queue",
        "several TRACEs are reported one after the other, and drawn side by side",
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="- is stdin")
    parser.add_argument(
        "--merge", action="store_true", help="take the TRACEs as one, merged by time"
    )
    add_reading(parser)
    add_output(parser, plot=True)


def _add_compare(below: Any) -> None:
    parser = _add(
        below,
        "compare",
        "tell how faithful B, a replay, is to A: arrivals, bursts, response times",
        "A is the trace that was meant, B what an observer saw: a capture, or samples",
    )
    parser.add_argument("a", metavar="A", help="the trace that was replayed")
    parser.add_argument("b", metavar="B", help="what was seen of the replay")
    add_compared(parser)
    add_output(parser, plot=True)


def _add_convert(below: Any) -> None:
    parser = _add(
        below,
        "convert",
        "write a trace in another format",
        "an OUT that exists is refused; it appears when it is whole",
    )
    parser.add_argument("trace", metavar="IN", help="- is stdin")
    add_convert(parser)
    add_reading(parser)
    add_output(parser)


def _add_capture(below: Any) -> None:
    parser = _add(
        below,
        "capture",
        "record the block I/O of a device, a process tree or a command",
        "it needs root (a private instance of tracefs, which clashes with nobody's)\n"
        "and records until the command ends, --for is over, or it is interrupted\n",
    )
    parser.usage = (
        "bw trace capture [--device D] [--pid N] [options] -o OUT [-- CMD...]"
    )
    add = parser.add_argument
    add("--device", metavar="/dev/X", help="this block device (or partition) only")
    add("--pid", metavar="N", help="this process and all that it begins")
    add("--for", dest="length", metavar="10s", help="so long; see below")
    add("-o", "--output", metavar="OUT", help="the new trace, in our own format")
    add(
        "--buffer",
        metavar="16M",
        help="the kernel's buffer for each processor (default 16M)",
    )
    add_output(parser)
