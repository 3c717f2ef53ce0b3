"""`bw replay`: issues the operations or requests of a recorded trace again, at their recorded
times."""

from __future__ import annotations

import argparse
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core.errors import Diagnostic
from benchwright.features.load import command_line as options
from benchwright.features.load.command_line import add_options_of_load, trace_fields
from benchwright.features.load.options import TraceOptions
from benchwright.features.load.parse import has_files, kind_of, parse_target, target_text
from benchwright.features.load.plan import PreparedLoad, plan_of_prompts, plan_of_traces
from benchwright.features.load.prompt_traces import TracePart, read_prompt_trace
from benchwright.features.load.request import (
    HttpTarget,
    LanguageModel,
    LoadTarget,
    NamedTarget,
    SeveralTarget,
)
from benchwright.features.load.workload import MICRO, Trace
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, add_options, given, options_of

_EXAMPLES = """\
examples:
  bw replay web.load.gz --target null
  bw replay web.load.gz --speed 4x --scale-space --direct --overwrite --target /dev/loop0
  bw replay two.bin --map sda=/dev/loop1 --map sdb=/dev/loop2 --overwrite
  bw replay access.log --target http://127.0.0.1:8080/ --speed 2x
  bw replay access.log --target http://10.0.0.9/ --hosts a,b   from two hosts
  bw replay mooncake.jsonl --for 600s --target http://127.0.0.1:8000 --llm chat --model NAME
  bw replay oltp.bin --format spc --for 60s --lenient --target /tmp/file --json

exit status: 0 done, also with findings; 1 the engine failed, more operations failed
than --max-errors allows, or a limit was missed; 2 bad input; 3 a limit is
undecided; 130 interrupted; partial results are printed
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


class MapArguments(msgspec.Struct, frozen=True):
    """The targets of the trace's devices."""

    mapped: Annotated[
        tuple[str, ...],
        Option(
            "replay this device of the trace to this target; repeatable, instead of --target",
            "DEVICE=TARGET",
            group="target",
            flag="--map",
            no_default="a load may write to its target",
        ),
    ] = ()


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw replay`."""
    parser = add_command(
        commands, "replay", epilog=_EXAMPLES, usage="bw replay [options] TRACE... --target T"
    )
    add_options(parser, TraceArguments)
    add_options(parser, MapArguments)
    add_options(parser, TraceOptions, only=_OPTIONS)
    add_options_of_load(parser, _HELPS)
    parser.set_defaults(handler=replay)


def replay(arguments: argparse.Namespace) -> int:
    """Run `bw replay`; return the exit code."""
    plan = plan_of(arguments)
    from benchwright.features.load.session import carry_out

    return carry_out(plan, arguments, "replay")


def plan_of(arguments: argparse.Namespace) -> PreparedLoad:
    """Return the plan of the arguments. Raises InputError with all mistakes."""
    wrong: list[Diagnostic] = []
    hosts = options.hosts_of(arguments, wrong)
    fields = _trace_fields(arguments, wrong)
    if arguments.llm is not None:
        plan = _plan_of_prompts(arguments, fields, wrong)
        return options.on_hosts(plan, hosts, arguments)
    traces, several = _mapped(arguments, Trace(**fields), wrong)
    target, run = _target_and_run(arguments, several, wrong)
    plan = plan_of_traces(traces, run, target)
    return options.on_hosts(plan, hosts, arguments)


def _target_and_run(
    arguments: argparse.Namespace, several: SeveralTarget | None, wrong: list[Diagnostic]
) -> tuple[LoadTarget, dict[str, Any]]:
    """Return the target, and the fields of the load's run. Raises InputError with all mistakes."""
    target = options.target_of(arguments, several, wrong)
    run = options.trial_seed() | options.run_fields(arguments, wrong)
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw replay")
    return target, run | options.output_files(arguments, arguments.trace)


_OF_PROMPTS = {"path", "speed_micro", "from_ns", "for_ns", "lenient"}
"""Fields of a trace that one of prompts has."""


def _plan_of_prompts(
    arguments: argparse.Namespace, fields: dict[str, Any], wrong: list[Diagnostic]
) -> PreparedLoad:
    """Return the plan of requests to a language model. Raises InputError with all mistakes."""
    wrong += [
        option_mistake(option.flag, f"{option.flag} is not for a trace of prompts")
        for option in given(arguments, TraceOptions)
        if option.field and fields.keys() & {option.field} - _OF_PROMPTS
    ]
    if len(arguments.trace) > 1 or arguments.mapped or arguments.prompt_trace:
        message = "a trace of prompts is the only one of its replay"
        wrong.append(option_mistake("TRACE", message, text=arguments.trace[-1]))
    target, run = _target_and_run(arguments, None, wrong)
    assert isinstance(target, HttpTarget), "--llm is for it: target_of"
    part = TracePart(
        **{name: fields[name] for name in ("from_ns", "for_ns", "lenient") if name in fields}
    )
    trace = read_prompt_trace(arguments.trace[0], part)
    model = target.language_model
    assert isinstance(model, LanguageModel), "--llm is given"
    model = msgspec.structs.replace(model, prompt_trace=trace)
    target = msgspec.structs.replace(target, language_model=model)
    return plan_of_prompts(trace, fields.get("speed_micro", MICRO), run, target)


def _mapped(
    arguments: argparse.Namespace, trace: Trace, wrong: list[Diagnostic]
) -> tuple[tuple[Trace, ...], SeveralTarget | None]:
    """Return a trace for each target of --map, with its devices, and the targets; the trace alone
    without --map. Mistakes are in `wrong`."""
    if not arguments.mapped:
        return (trace,), None
    for option, text in (("--target", arguments.target), ("--devices", arguments.devices)):
        if text is not None:
            message = f"{option} and --map both name what is replayed where"
            hint = "--map DEVICE=TARGET for each device"
            wrong.append(option_mistake(option, message, hint, text))
    if any(path == "-" for path in arguments.trace):
        message = "--map reads the trace once for each target, and - can be read only once"
        wrong.append(option_mistake("TRACE", message, "write it to a file first", "-"))
    devices: dict[str, list[str]] = {}
    reader = OptionReader(MapArguments(tuple(arguments.mapped)))
    for text in arguments.mapped:
        hint = "--map sda=/dev/loop1"
        named = reader.named("--map", text, parse_target, hint)
        if named is None:
            continue
        device, target = named
        if any(device in of_target for of_target in devices.values()):
            message = f"the device {device} has two targets"
            wrong.append(option_mistake("--map", message, text=text))
        if has_files(target):
            message = f"a {kind_of(target)} target is the only one of its load"
            wrong.append(option_mistake("--map", message, text=text))
        devices.setdefault(target_text(target), []).append(device)
    wrong += reader.found
    traces = tuple(
        msgspec.structs.replace(trace, devices=tuple(of_target)) for of_target in devices.values()
    )
    targets = tuple(
        NamedTarget(name, (place,), parse_target(name)) for place, name in enumerate(devices)
    )
    return traces, SeveralTarget(targets)


def _trace_fields(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> dict[str, Any]:
    """Return the fields of the trace that the options set; mistakes are in `wrong`."""
    fields = trace_fields(arguments, wrong)
    if arguments.scale_space:
        if arguments.offsets not in (None, "scale"):
            message = "--scale-space means --offsets scale, but --offsets has another value"
            wrong.append(option_mistake("--offsets", message, text=arguments.offsets))
        fields["offsets"] = "scale"
    paths = tuple(arguments.trace)
    return {**fields, "path": paths[0] if len(paths) == 1 else paths}
