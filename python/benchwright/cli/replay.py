"""`bw replay`: a recorded trace issued again, each operation at its own time."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from benchwright.cli.load_options import add_output, add_run, add_target

if TYPE_CHECKING:
    from benchwright.core.errors import Diagnostic
    from benchwright.load.plan import PreparedLoad


SUMMARY = "issue a recorded trace of I/O again, at its own times"

_EXAMPLES = """\
examples:
  bw replay web.load.gz --target null
  bw replay web.load.gz --speed 4x --scale-space --direct --overwrite --target /dev/loop0
  bw replay oltp.bin --format spc --for 60s --lenient --target /tmp/file --json

exit status: 0 done, also with findings; 1 the engine failed, or more operations than
--max-errors did; 2 bad input; 130 interrupted; partial results are printed
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw replay`."""
    parser = commands.add_parser(
        "replay",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="bw replay [options] TRACE... --target T",
    )
    parser.add_argument(
        "trace",
        nargs="+",
        metavar="TRACE",
        help="the trace, also gzip or zstd; several are merged by time",
    )
    _add_trace(parser.add_argument_group("the trace"))
    parser.add_argument(
        "--duration", metavar="5s", help="end after this (default: all)"
    )
    add_target(parser)
    add_run(parser, "in flight at most, per worker (default 128)")
    add_output(parser)
    parser.set_defaults(handler=replay)


def _add_trace(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--format", metavar="F", help="its format (default: found from the content)")
    add("--speed", metavar="4x", help="replay this many times as fast (default 1x)")
    add("--offsets", metavar="wrap|scale|exact", help="how its offsets fit the target")
    add("--scale-space", action="store_true", help="the same as --offsets scale")
    add(
        "--duplicates",
        metavar="burst|spread",
        help="operations of one stamp: at once, or spread until the next stamp",
    )
    add("--window", metavar="1s", help="put stamps in order that are this far off")
    add("--window-rows", metavar="N", help="and at most so many operations")
    add("--lenient", action="store_true", help="skip and count malformed lines")
    add("--from", dest="start", metavar="10s", help="leave out what is before")
    add("--for", dest="length", metavar="60s", help="read only this much of the trace")
    add("--devices", metavar="A,B", help="only these devices")
    add("--source-size", metavar="1T", help="size of what was traced, for `scale`")
    add("--align", metavar="4k", help="offsets and sizes are made multiples of it")
    add("--v2-wait", metavar="us|ms", help="what fio's iolog version 2 means by `wait`")
    add("--arrivals", metavar="queue|issue", help="blktrace's event of an arrival")
    add("--stamp-unit", metavar="1ns", help="of MQSim's stamps")


def replay(arguments: argparse.Namespace) -> int:
    """Do what `bw replay` was asked; return the exit code."""
    plan = plan_of(arguments)
    from benchwright.cli.load_run import carry_out

    return carry_out(plan, arguments, "replay")


def plan_of(arguments: argparse.Namespace) -> PreparedLoad:
    """Return what the arguments mean. Raises InputError with every mistake."""
    from benchwright.cli import load_options as options
    from benchwright.load.plan import plan_of_trace
    from benchwright.load.workload import Trace

    wrong: list[Diagnostic] = []
    fields = _trace_fields(arguments, wrong)
    target = options.target_of(arguments, None, wrong)
    said = options.run_fields(arguments, wrong)
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw replay")
    options.check_samples(arguments, arguments.trace)
    if arguments.samples is not None:
        said["samples"] = arguments.samples
    return plan_of_trace(Trace(**fields), said, target)


_ARGUMENT = {"from": "start", "for": "length"}
"""Options whose names are words of Python."""


def _trace_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, Any]:
    from benchwright.cli.shared_options import checked
    from benchwright.core.errors import Diagnostic
    from benchwright.load.workload_toml import TRACE_KEYS

    paths = tuple(arguments.trace)
    fields: dict[str, Any] = {
        "path": paths[0] if len(paths) == 1 else paths,
        "lenient": arguments.lenient,
    }
    for key, (into, parse) in TRACE_KEYS.items():
        text = getattr(arguments, _ARGUMENT.get(key, key))
        if text is not None:
            option = "--" + key.replace("_", "-")
            fields[into] = checked(option, text, parse, None, wrong)
    if arguments.scale_space:
        if arguments.offsets not in (None, "scale"):
            message = "--scale-space is --offsets scale, and --offsets says another"
            wrong.append(
                Diagnostic(
                    "bad-argument", message, file="--offsets", text=arguments.offsets
                )
            )
        fields["offsets"] = "scale"
    if arguments.devices is not None:
        fields["devices"] = tuple(arguments.devices.split(","))
    return fields
