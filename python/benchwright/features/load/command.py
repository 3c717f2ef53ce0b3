"""`bw load`: issues operations at their intended times, and measures their responses.

Two steps: the user's input (arguments, a workload file) becomes a plan; `session.py` runs the
plan and prints the result.
"""

from __future__ import annotations

import argparse
from typing import Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core.errors import Diagnostic, argument_error
from benchwright.core.hosts import HostsSettings
from benchwright.features.load import command_line as options
from benchwright.features.load import workload as w
from benchwright.features.load.command_line import add_options_of_load
from benchwright.features.load.llm import conversation_of
from benchwright.features.load.options import BareOptions
from benchwright.features.load.parse import is_network
from benchwright.features.load.plan import (
    CommandLineLoad,
    PreparedLoad,
    has_rate,
    plan_of_command,
    plan_of_file,
)
from benchwright.features.load.request import LoadTarget
from benchwright.features.load.workload_toml import read_workload
from benchwright.inputs.mistakes import Unreadable, option_mistake, read_regular, read_text
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from

_EXAMPLES = """\
examples:
  bw load --rate 10k --target null                     the engine itself
  bw load --rate 10k --block 4k --read 70% --direct --size 1G --target /tmp/file
  bw load --depth 32 --direct --target /dev/loop0      no --rate: a closed loop
  bw load --rate 500 --target http://127.0.0.1:8080/   open loop, many connections
  bw load --rate 500 --target redis://127.0.0.1 --commands '90% GET a; 10% SET a b' \\
      --limit 'p99 < 20ms' --limit 'p90 < 5ms of SET' --limit 'errors < 0.1%'
  bw load --rate 10 --target http://127.0.0.1:8000 --llm chat --model NAME \\
      --limit 'p95 first < 500ms'
  bw load oltp.toml --target /tmp/file --json          docs/workload-toml.md
  bw load mail.toml --rate 200 --target dir:/mnt/data  operations on many files
  bw load --hosts a,b,c --rate 90k --target http://10.0.0.9/   one load from three hosts

exit status: 0 done, also with findings; 1 the engine failed, more operations failed
than --max-errors allows, or a limit was missed; 2 bad input; 3 a limit is
undecided; 130 interrupted; partial results are printed
"""


class WorkloadArgument(msgspec.Struct, frozen=True):
    """The workload file."""

    workload: Annotated[
        Text,
        Option(
            "workload file (docs/workload-toml.md)",
            "WORKLOAD.toml",
            positional=True,
            names="*.toml",
            decides=True,
        ),
    ] = None


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw load`."""
    parser = add_command(
        commands, "load", epilog=_EXAMPLES, usage="bw load [options] [WORKLOAD.toml] --target T"
    )
    add_options(parser, WorkloadArgument)
    add_options(parser, BareOptions)
    add_options_of_load(parser, {})
    parser.set_defaults(handler=load)


def load(arguments: argparse.Namespace) -> int:
    """Run `bw load`; return the exit code."""
    plan = plan_of(arguments)
    from benchwright.features.load.session import carry_out

    return carry_out(plan, arguments, "load")


def plan_of(arguments: argparse.Namespace) -> PreparedLoad:
    """Return the plan of the arguments. Raises InputError with all mistakes."""
    _refuse_command(arguments)
    wrong: list[Diagnostic] = []
    hosts = options.hosts_of(arguments, wrong)
    if arguments.workload is not None:
        plan = _plan_of_file(arguments, wrong)
    else:
        plan = _plan_of_options(arguments, hosts, wrong)
    return options.on_hosts(plan, hosts, arguments)


def _plan_of_options(
    arguments: argparse.Namespace, hosts: HostsSettings | None, wrong: list[Diagnostic]
) -> PreparedLoad:
    target = options.target_of(arguments, None, wrong)
    wrong += options.unfiled_mistakes(arguments, target, "bw load")
    bare = _bare(arguments, target, wrong)
    if hosts is not None:
        bare = msgspec.structs.replace(bare, hosts=len(hosts.names))
    said = options.trial_seed() | options.run_fields(arguments, wrong)
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw load")
    said |= options.output_files(arguments, [])
    return plan_of_command(bare, said, target)


def _plan_of_file(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> PreparedLoad:
    _refuse_target(arguments.workload)
    wrong += options.bare_mistakes(arguments, arguments.workload)
    named = options.target_of(arguments, None, wrong)
    fields = options.run_fields(arguments, wrong)
    reader = OptionReader(BareOptions(rate=arguments.rate))
    rate_micro = reader.fields().get("rate")
    wrong += reader.found
    options.raise_all(wrong)
    text = _text_of(arguments.workload)
    description = read_workload(text, arguments.workload, named)
    target = options.target_of(arguments, description.target, wrong)
    if rate_micro is not None and not has_rate(description):
        message = f"no filament of {arguments.workload} has a rate"
        wrong.append(option_mistake("--rate", message, text=arguments.rate))
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw load")
    fields |= options.output_files(arguments, [arguments.workload])
    if "seed" not in description.run:
        fields = options.trial_seed() | fields
    rate_per_s = None if rate_micro is None else rate_micro / w.MICRO
    return plan_of_file(description, fields, target, rate_per_s)


def _refuse_target(workload: str) -> None:
    """Raise InputError for a URL in place of the file, as wrk2 and k6 expect it, or for `null`."""
    if "://" in workload or workload == "null":
        hint = f"--target {workload}"
        raise argument_error("bw load", "", f"{workload} is a target, not a file", hint)


def _text_of(workload: str) -> str:
    """Return the text of a workload's file. Raises InputError."""
    try:
        text = read_text(workload, read_regular)
    except Unreadable as error:
        hint = "a workload is a TOML file (docs/workload-toml.md); for a trace: bw replay"
        raise argument_error(workload, "", error.message, hint) from None
    if text is None:
        hint = "give the path of a workload, or leave it out and give --rate and so on"
        raise argument_error(workload, "", f"there is no file {workload}", hint)
    return text


def _bare(
    arguments: argparse.Namespace, target: LoadTarget | None, wrong: list[Diagnostic]
) -> CommandLineLoad:
    """Return the load that the options describe; mistakes are in `wrong`."""
    reader = OptionReader(request_from(BareOptions, arguments))
    fields = reader.fields()
    wrong += reader.found
    if arguments.rate is None and arguments.arrival is not None:
        wrong.append(_needless("--arrival", arguments.arrival, "an open loop (add --rate)"))
    talks = target is not None and conversation_of(target) is not None
    if arguments.rate is not None and arguments.think is not None and not talks:
        where = "a closed loop (leave out --rate), or --turns of --llm"
        wrong.append(_needless("--think", arguments.think, where))
    if target is not None and is_network(target) and arguments.read is not None:
        wrong.append(_needless("--read", arguments.read, "a file or a device"))
    return CommandLineLoad(
        rate=w.ConstantRate(fields["rate"]) if "rate" in fields else None,
        arrival=fields.get("arrival", w.PoissonArrival()),
        size=fields.get("size"),
        read=fields.get("kinds"),
        location=fields.get("location", w.UniformLocation()),
        think=fields.get("think", w.ConstantValue(0)),
    )


def _needless(option: str, text: str, where: str) -> Diagnostic:
    return option_mistake(option, f"{option} is for {where}", text=text)


def _refuse_command(arguments: argparse.Namespace) -> None:
    if arguments.command_argv is not None:
        raise argument_error(
            "bw load",
            " ".join(arguments.command_argv),
            "bw load does not run a command after --",
            "bw run -- bw load ... repeats a load",
        )
