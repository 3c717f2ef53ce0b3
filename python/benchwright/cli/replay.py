"""`bw replay`: issues the operations of a recorded trace again, at their recorded times."""

from __future__ import annotations

import argparse
from typing import Annotated, Any

import msgspec

from benchwright.cli import load_options as options
from benchwright.cli.load_options import add_options_of_load, trace_fields
from benchwright.cli.parser import add_command
from benchwright.core.errors import Diagnostic
from benchwright.load.options import TraceOptions
from benchwright.load.plan import PreparedLoad, plan_of_trace
from benchwright.load.workload import Trace
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import Option, add_options, options_of

_EXAMPLES = """\
examples:
  bw replay web.load.gz --target null
  bw replay web.load.gz --speed 4x --scale-space --direct --overwrite --target /dev/loop0
  bw replay oltp.bin --format spc --for 60s --lenient --target /tmp/file --json

exit status: 0 done, also with findings; 1 the engine failed, or more operations than
--max-errors did; 2 bad input; 130 interrupted; partial results are printed
"""


_OPTIONS = tuple(name for name in options_of(TraceOptions) if name != "target_size")
_HELPS = {
    "duration": "end after this time (default: at the end of the trace)",
    "depth": "most operations in flight, per worker (default: 128)",
}


class TraceArguments(msgspec.Struct, frozen=True):
    """The trace that is replayed."""

    trace: Annotated[
        tuple[str, ...],
        Option(
            "the trace, also gzip or zstd; several are merged by time",
            "TRACE",
            positional=True,
            names="file",
        ),
    ]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw replay`."""
    parser = add_command(
        commands,
        "replay",
        epilog=_EXAMPLES,
        usage="bw replay [options] TRACE... --target T",
    )
    add_options(parser, TraceArguments)
    add_options(parser, TraceOptions, only=_OPTIONS)
    add_options_of_load(parser, _HELPS)
    parser.set_defaults(handler=replay)


def replay(arguments: argparse.Namespace) -> int:
    """Run `bw replay`; return the exit code."""
    plan = plan_of(arguments)
    from benchwright.cli.load_run import carry_out

    return carry_out(plan, arguments, "replay")


def plan_of(arguments: argparse.Namespace) -> PreparedLoad:
    """Return the plan of the arguments. Raises InputError with all mistakes."""
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


def _trace_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, Any]:
    """Return the fields of the trace that the options set; mistakes are in `wrong`."""
    fields = trace_fields(arguments, wrong)
    if arguments.scale_space:
        if arguments.offsets not in (None, "scale"):
            message = (
                "--scale-space means --offsets scale, but --offsets has another value"
            )
            wrong.append(option_mistake("--offsets", message, text=arguments.offsets))
        fields["offsets"] = "scale"
    paths = tuple(arguments.trace)
    return {**fields, "path": paths[0] if len(paths) == 1 else paths}
