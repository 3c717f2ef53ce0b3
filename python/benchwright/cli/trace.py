"""`bw trace`: I/O traces measured, compared, converted and captured; the arguments."""

from __future__ import annotations

import argparse
from typing import Any

from benchwright.cli.load_options import trace_fields
from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import checked
from benchwright.core.errors import Diagnostic, argument_error
from benchwright.load import parse as words
from benchwright.load.options import TRACE_KEYS, TraceOptions
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options

# -- Options that the commands of `bw trace` share, and their meaning ------------------
#
# Decision: an option's text is read by the function that reads the same key of a trace
# filament in TOML, and all mistakes are told at once. Heavy imports are inside.

_READING = (
    *("format", "lenient", "window", "duplicates", "start", "length", "devices"),
    *("v2_wait", "arrivals", "stamp_unit"),
)
_MAPPING = ("offsets", "target_size", "source_size", "align")
_COMPARED = (
    *("format", "lenient", "duplicates", "start", "length", "devices", *_MAPPING),
    *("speed", "window"),
)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how a trace is read."""
    add_options(parser, TraceOptions, only=_READING)


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add what is written, and what becomes of times and offsets."""
    add = parser.add_argument
    add("-o", "--output", metavar="OUT", help="file to write; it must not exist yet")
    add("--to", metavar="bw|fio-iolog", help="format to write (default: bw)")
    helps = {"speed": "make it this many times as fast (default: 1x)"}
    add_options(parser, TraceOptions, only=("speed", *_MAPPING), helps=helps)


def add_compared(parser: argparse.ArgumentParser) -> None:
    """Add how two traces are read and paired."""
    helps = {
        "format": "format of A (default: detected from the content)",
        "speed": "speed of B compared with A (default: estimated)",
        "window": "largest distance in time of a pair",
        "duplicates": "operations of A with equal time stamps, as in the replay",
        "start": "leave out what comes earlier in A, where the replay did",
        "length": "read only this much of A, by A's time",
        "devices": "read only these devices of A",
    }
    add_options(parser, TraceOptions, only=_COMPARED, helps=helps)
    add = parser.add_argument_group("how operations are paired").add_argument
    add(
        "--shift",
        metavar="1ms",
        help="time in B of A's time zero, such as =-1ms (default: from B's own intended "
        "starts, else estimated)",
    )
    add(
        "--by-device",
        action="store_true",
        help="pair only within devices of equal name",
    )
    add("--format-b", metavar="F", help="format of B")
    add("--devices-b", metavar="A,B", help="read only these devices of B")


def add_output(parser: argparse.ArgumentParser, *, plot: bool = False) -> None:
    """Add what becomes of the result."""
    add = parser.add_argument_group("result").add_argument
    if plot:
        add("--plot", metavar="FILE", help="draw the result: .svg, .png, .pdf or .eps")
    add("--json", action="store_true", help="print one JSON document on stdout")


def compare_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the fields of A, those of B, and those of how they are paired."""
    a = trace_fields(arguments, wrong)
    pairing: dict[str, Any] = {"by_device": arguments.by_device}
    for into in ("speed_micro", "window_ns"):
        if into in a:
            pairing[into] = a.pop(into)
    if arguments.shift is not None:
        shift = checked("--shift", arguments.shift, _signed_ns, None, wrong)
        pairing["shift_ns"] = shift
    b: dict[str, Any] = {"lenient": arguments.lenient}
    if arguments.format_b is not None:
        text = arguments.format_b
        b["format"] = checked("--format-b", text, TRACE_KEYS["format"][1], None, wrong)
    if arguments.devices_b is not None:
        b["devices"] = tuple(arguments.devices_b.split(","))
    check_places(a, wrong)
    return a, b, pairing


def check_places(fields: dict[str, Any], wrong: list[Diagnostic]) -> None:
    """Note in `wrong` that offsets are to be mapped onto a target of no known size."""
    policy = fields.get("offsets")
    if policy in ("wrap", "scale") and fields.get("target_bytes") is None:
        message = f"to {policy} offsets the target's size is needed"
        hint = "give it: --target-size 1G"
        wrong.append(option_mistake("--offsets", message, hint, policy))


def _signed_ns(text: str) -> int:
    bare = text.strip()
    sign = -1 if bare.startswith("-") else 1
    return sign * words.duration_ns(bare.removeprefix("-"))


def refuse_command(arguments: argparse.Namespace, command: str) -> None:
    """Raise InputError when there is a command after `--`."""
    if arguments.command_argv is not None:
        raise argument_error(
            f"bw trace {command}",
            " ".join(arguments.command_argv),
            f"bw trace {command} does not run a command after --",
            "bw trace capture -- CMD records what a command does",
        )


# -- `bw trace`: I/O traces measured, compared, converted and captured -----------------
#
# This file is the table of contents and the arguments; each command is in a module of its
# own. Heavy imports are inside the functions.

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
    parser = add_command(
        commands,
        "trace",
        epilog=_EXAMPLES,
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
        from benchwright.cli import trace_run

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
        "describe a trace: bursts, sizes, locality, popularity, queue",
        "several TRACEs are reported one after the other, and drawn side by side",
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="trace; - is stdin")
    parser.add_argument(
        "--merge", action="store_true", help="merge the TRACEs by time into one"
    )
    add_reading(parser)
    add_output(parser, plot=True)


def _add_compare(below: Any) -> None:
    parser = _add(
        below,
        "compare",
        "measure how faithful B, a replay, is to A: arrivals, bursts, response times",
        "A is the intended trace, B what an observer recorded: a capture or samples",
    )
    parser.add_argument("a", metavar="A", help="trace that was replayed")
    parser.add_argument("b", metavar="B", help="capture or samples of the replay")
    add_compared(parser)
    add_output(parser, plot=True)


def _add_convert(below: Any) -> None:
    parser = _add(
        below,
        "convert",
        "write a trace in another format",
        "OUT must not exist; it appears when it is complete",
    )
    parser.add_argument("trace", metavar="IN", help="trace; - is stdin")
    add_convert(parser)
    add_reading(parser)
    add_output(parser)


def _add_capture(below: Any) -> None:
    parser = _add(
        below,
        "capture",
        "record the block I/O of a device, a process tree or a command",
        "needs root (it uses a private instance of tracefs); records until the command\n"
        "ends, the time of --for is over, or it is interrupted\n",
    )
    parser.usage = (
        "bw trace capture [--device D] [--pid N] [options] -o OUT [-- CMD...]"
    )
    add = parser.add_argument
    add("--device", metavar="/dev/X", help="record only this block device or partition")
    add("--pid", metavar="N", help="record this process and all its descendants")
    add("--for", dest="length", metavar="10s", help="stop after this time")
    add("-o", "--output", metavar="OUT", help="trace to write, in the format of bw")
    add(
        "--buffer",
        metavar="16M",
        help="kernel buffer per CPU (default: 16M)",
    )
    add_output(parser)
