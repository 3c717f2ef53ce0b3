"""`bw load`: operations issued when they are meant to be, and what became of them.

Two steps: what the user said (arguments, a workload's file), what it means here (a plan);
`load_run.py` runs it and tells the result.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from benchwright.cli.load_options import add_output, add_run, add_target

if TYPE_CHECKING:
    from benchwright.core.errors import Diagnostic
    from benchwright.load.plan import CommandLineLoad, PreparedLoad


SUMMARY = "apply load at exact times to a file, a device or a server"

_EXAMPLES = """\
examples:
  bw load --rate 10k --target null                     the engine itself
  bw load --rate 10k --block 4k --read 70% --direct --size 1G --target /tmp/file
  bw load --depth 32 --direct --target /dev/loop0      no --rate: a closed loop
  bw load --rate 500 --target http://127.0.0.1:8080/   open loop, many connections
  bw load oltp.toml --target /tmp/file --json          docs/workload-toml.md

exit status: 0 done, also with findings; 1 the engine failed, or more operations than
--max-errors did; 2 bad input; 130 interrupted; partial results are printed
"""
_BARE = ("rate", "arrival", "block", "read", "location", "think")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw load`."""
    parser = commands.add_parser(
        "load",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="bw load [options] [WORKLOAD.toml] --target T",
    )
    parser.add_argument(
        "workload", nargs="?", metavar="WORKLOAD.toml", help="filaments"
    )
    add = parser.add_argument_group("without a WORKLOAD").add_argument
    add("--rate", metavar="10k", help="arrivals per second; without it, a closed loop")
    add(
        "--arrival",
        metavar="PROCESS",
        help="constant, poisson (default), uniform, gamma:CV, on-off:1s:3s",
    )
    add(
        "--block", metavar="4k", help="size of an operation, or a distribution of sizes"
    )
    add("--read", metavar="100%", help="share of reads; the rest are writes")
    add(
        "--location",
        metavar="WHERE",
        help="uniform (default), zipf:1.2, hot-cold:10%%:90%%, sequential, strided:64k",
    )
    add("--think", metavar="0ms", help="in a closed loop, the time between operations")
    parser.add_argument("--duration", metavar="5s", help="how long (default 5s)")
    add_target(parser)
    add_run(
        parser,
        "in flight at most, per worker (default 128); in a closed loop, "
        "always in flight (default 1)",
    )
    add_output(parser)
    parser.set_defaults(handler=load)


def load(arguments: argparse.Namespace) -> int:
    """Do what `bw load` was asked; return the exit code."""
    plan = plan_of(arguments)
    from benchwright.cli.load_run import carry_out

    return carry_out(plan, arguments, "load")


def plan_of(arguments: argparse.Namespace) -> PreparedLoad:
    """Return what the arguments mean. Raises InputError with every mistake."""
    _refuse_command(arguments)
    if arguments.workload is not None:
        return _plan_of_file(arguments)
    from benchwright.cli import load_options as options
    from benchwright.load.plan import plan_of_command

    wrong: list[Diagnostic] = []
    target = options.target_of(arguments, None, wrong)
    bare = _bare(arguments, target, wrong)
    said = options.trial_seed() | options.run_fields(arguments, wrong)
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw load")
    options.check_samples(arguments, [])
    return plan_of_command(bare, _with_samples(said, arguments), target)


def _plan_of_file(arguments: argparse.Namespace) -> PreparedLoad:
    from benchwright.cli import load_options as options
    from benchwright.load.plan import plan_of_file
    from benchwright.load.workload_toml import read_workload

    _refuse_server(arguments.workload)
    wrong: list[Diagnostic] = []
    for name in _BARE:
        if getattr(arguments, name) is not None:
            wrong.append(_beside_a_file(name, arguments.workload))
    named = options.target_of(arguments, None, wrong)
    said = options.run_fields(arguments, wrong)
    options.raise_all(wrong)
    text = _text_of(arguments.workload)
    description = read_workload(text, arguments.workload, named)
    target = options.target_of(arguments, description.target, wrong)
    options.raise_all(wrong)
    if target is None:
        raise options.no_target("bw load")
    options.check_samples(arguments, [arguments.workload])
    if "seed" not in description.run:
        said = options.trial_seed() | said
    return plan_of_file(description, _with_samples(said, arguments), target)


def _refuse_server(workload: str) -> None:
    """Raise InputError for a URL: wrk2 and k6 take one where a file stands here."""
    from benchwright.core.errors import argument_error

    if "://" in workload:
        hint = f"--target {workload}"
        raise argument_error("bw load", "", f"{workload} is a target, no file", hint)


def _text_of(workload: str) -> str:
    """Return the text of a workload's file. Raises InputError."""

    from benchwright.core.errors import argument_error
    from benchwright.suite.source import Unreadable, read_regular, read_text

    try:
        text = read_text(workload, read_regular)
    except Unreadable as error:
        hint = (
            "a workload is a TOML file (docs/workload-toml.md); for a trace: bw replay"
        )
        raise argument_error(workload, "", error.message, hint) from None
    if text is None:
        hint = "give the path of a workload, or leave it out and say --rate and so on"
        raise argument_error(workload, "", f"there is no file {workload}", hint)
    return text


def _beside_a_file(name: str, workload: str) -> Diagnostic:
    from benchwright.core.errors import Diagnostic

    return Diagnostic(
        "bad-argument",
        f"--{name} is for a load without a file",
        "say it in the workload's [[filament]]",
        file=f"--{name}",
        text=workload,
    )


def _bare(
    arguments: argparse.Namespace, target: Any, wrong: list[Diagnostic]
) -> CommandLineLoad:
    from benchwright.cli.shared_options import checked
    from benchwright.load import parse as words
    from benchwright.load import workload as w
    from benchwright.load.parse import is_network
    from benchwright.load.plan import CommandLineLoad

    def read(name: str, parse: Any, default: Any = None) -> Any:
        text = getattr(arguments, name)
        return checked(f"--{name}", text, parse, default, wrong)

    micro = read("rate", words.rate_micro)
    if micro is None and arguments.rate is None and arguments.arrival is not None:
        wrong.append(
            _needless("--arrival", arguments.arrival, "an open loop: add --rate")
        )
    if arguments.rate is not None and arguments.think is not None:
        wrong.append(_needless("--think", arguments.think, "a closed loop: no --rate"))
    if target is not None and is_network(target) and arguments.read is not None:
        wrong.append(_needless("--read", arguments.read, "a file or a device"))
    return CommandLineLoad(
        rate=None if micro is None else w.ConstantRate(micro),
        arrival=read("arrival", words.parse_arrival, w.PoissonArrival()),
        size=read("block", words.size_distribution),
        read=read("read", words.share_micro),
        location=read("location", words.parse_location, w.UniformLocation()),
        think=read("think", words.time_distribution, w.ConstantValue(0)),
    )


def _needless(option: str, text: str, where: str) -> Diagnostic:
    from benchwright.core.errors import Diagnostic

    message = f"{option} is for {where}"
    return Diagnostic("bad-argument", message, file=option, text=text)


def _with_samples(
    said: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    if arguments.samples is not None:
        said["samples"] = arguments.samples
    return said


def _refuse_command(arguments: argparse.Namespace) -> None:
    if arguments.command_argv is not None:
        from benchwright.core.errors import argument_error

        raise argument_error(
            "bw load",
            " ".join(arguments.command_argv),
            "there is a command after --, and bw load runs none",
            "bw run -- bw load ... repeats a load",
        )
