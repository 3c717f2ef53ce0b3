"""`bw trace`: I/O traces measured, compared, converted and captured; the arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchwright.core.errors import Diagnostic


# -- Options that the commands of `bw trace` share, and their meaning ------------------
#
# Decision: an option's text is read by the function that reads the same key of a trace
# filament in TOML, and all mistakes are told at once. Heavy imports are inside.

_FORMATS = (
    "bw, load, fio-iolog, blkparse, blktrace, msr, systor, spc, vscsi, alibaba,\n"
    "tencent, mqsim"
)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how a trace is read."""
    add = parser.add_argument_group("how it is read").add_argument
    add("--format", metavar="F", help=f"{_FORMATS} (default: found from the content)")
    add("--lenient", action="store_true", help="skip and count malformed lines")
    add("--window", metavar="1s", help="put stamps in order that are this far off")
    add(
        "--duplicates",
        metavar="burst|spread",
        help="operations of one stamp: at once, or spread until the next stamp",
    )
    add("--from", dest="start", metavar="10s", help="leave out what is before")
    add("--for", dest="length", metavar="60s", help="read only this much of the trace")
    add("--devices", metavar="A,B", help="only these devices")
    add(
        "--v2-wait",
        metavar="us|ms",
        help="what `wait` of fio's iolog 2 is (default us)",
    )
    add(
        "--arrivals",
        metavar="queue|issue",
        help="the event of blktrace that is the arrival",
    )
    add("--stamp-unit", metavar="1ns", help="of MQSim's stamps")


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add what is written, and what becomes of times and places."""
    add = parser.add_argument
    add("-o", "--output", metavar="OUT", help="the file to be written; none may exist")
    add("--to", metavar="bw|fio-iolog", help="the format to write (default bw)")
    add("--speed", metavar="4x", help="this many times as fast (default 1x)")
    _add_places(parser)


def add_compared(parser: argparse.ArgumentParser) -> None:
    """Add how two traces are read and paired."""
    group = parser.add_argument_group("how operations are paired")
    add = group.add_argument
    add("--speed", metavar="4x", help="B is A at this speed (default: estimated)")
    add(
        "--shift",
        metavar="1ms",
        help="when in B A's time zero is, such as =-1ms (default: as B's own intended "
        "starts say, else estimated)",
    )
    add("--window", metavar="1s", help="how far apart a pair may be")
    add("--by-device", action="store_true", help="of devices of the same name only")
    group = parser.add_argument_group("how they are read")
    add = group.add_argument
    add("--format", metavar="F", help="of A (default: found from the content)")
    add("--format-b", metavar="F", help="of B")
    add("--lenient", action="store_true", help="skip and count malformed lines")
    add(
        "--duplicates",
        metavar="burst|spread",
        help="operations of A of one stamp, as in the replay",
    )
    add(
        "--from",
        dest="start",
        metavar="10s",
        help="leave out what is before in A, where the replay did",
    )
    add(
        "--for",
        dest="length",
        metavar="60s",
        help="read only this much of A, by A's time",
    )
    add("--devices", metavar="A,B", help="only these devices of A")
    add("--devices-b", metavar="A,B", help="only these devices of B")
    _add_places(group)


def _add_places(to: argparse._ActionsContainer) -> None:
    add = to.add_argument
    add("--offsets", metavar="wrap|scale|exact", help="how offsets fit the target")
    add("--target-size", metavar="1G", help="of what it is replayed on")
    add("--source-size", metavar="1G", help="of what it was taken from, for scale")
    add("--align", metavar="512", help="offsets and sizes are multiples of this")


def add_output(parser: argparse.ArgumentParser, *, plot: bool = False) -> None:
    """Add what becomes of the result."""
    add = parser.add_argument_group("result").add_argument
    if plot:
        add("--plot", metavar="FILE", help="draw it: .svg, .png, .pdf or .eps")
    add("--json", action="store_true", help="one JSON document on stdout")


_DEST = {"from": "start", "for": "length"}
"""Options whose name is a word of Python's: where argparse keeps them."""


def input_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, Any]:
    """Return the fields of a trace's input that the options say."""
    from benchwright.cli.shared_options import checked
    from benchwright.load import parse as words
    from benchwright.load.workload_toml import TRACE_KEYS

    fields: dict[str, Any] = {"lenient": arguments.lenient}
    keys = {**TRACE_KEYS, "target_size": ("target_bytes", words.some_bytes)}
    for key, (into, parse) in keys.items():
        text = getattr(arguments, _DEST.get(key, key), None)
        if text is not None:
            option = "--" + key.replace("_", "-")
            fields[into] = checked(option, text, parse, None, wrong)
    if arguments.devices is not None:
        fields["devices"] = tuple(arguments.devices.split(","))
    return fields


def compare_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the fields of A, those of B, and those of how they are paired."""
    from benchwright.cli.shared_options import checked
    from benchwright.load.workload_toml import TRACE_KEYS

    a = input_fields(arguments, wrong)
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
    from benchwright.core.errors import Diagnostic

    policy = fields.get("offsets")
    if policy in ("wrap", "scale") and fields.get("target_bytes") is None:
        message = f"to {policy} offsets the target's size is needed"
        hint = "give it: --target-size 1G"
        wrong.append(
            Diagnostic("bad-argument", message, hint, "--offsets", text=policy)
        )


def _signed_ns(text: str) -> int:
    from benchwright.load import parse as words

    bare = text.strip()
    sign = -1 if bare.startswith("-") else 1
    return sign * words.duration_ns(bare.removeprefix("-"))


def refuse_command(arguments: argparse.Namespace, command: str) -> None:
    """Raise InputError when there is a command after `--`."""
    if arguments.command_argv is not None:
        from benchwright.core.errors import argument_error

        raise argument_error(
            f"bw trace {command}",
            " ".join(arguments.command_argv),
            f"there is a command after --, and bw trace {command} runs none",
            "bw trace capture -- CMD records what a command does",
        )


# -- `bw trace`: I/O traces measured, compared, converted and captured -----------------
#
# This file is the table of contents and the arguments; each command is in a module of its
# own. Heavy imports are inside the functions.

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
        from benchwright.cli import trace_run

        status: int = getattr(trace_run, name)(arguments)
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
