"""`bw run`: runs a suite file, or measures a command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import (
    WATCHING,
    NotifyOptions,
    StudyOptions,
    TrialWatchOptions,
    with_session_options,
)
from benchwright.core.errors import argument_error
from benchwright.suite.command_line import CommandRequest
from benchwright.suite.options import Option, Text, add_options, given, request_from

if TYPE_CHECKING:
    from benchwright.run.preparation import PreparedProgram
    from benchwright.suite.plan import Planned


_EXAMPLES = """\
examples:
  bw run postmark.ap                              Auto-pilot's language
  bw run suite.toml -D fs=ext4 --study results    a TOML suite
  bw run /var/lib/benchwright/checkpoint          resumes from a CHECKPOINT
  bw run --precision 2% -- sort big.txt           no file needed
  bw run -P n=1,2,4 --metric ops:higher=/ops -- ./bench --threads {n}

exit status: 0 done; 1 a benchmark failed; 2 bad input; 3 stopped without an
answer; 130 interrupted (continue with `bw resume`)
"""


class SuiteOptions(msgspec.Struct, frozen=True):
    """The options of `bw run` for a suite or a command."""

    suite: Annotated[
        Text,
        Option(
            "suite (FILE.ap or FILE.toml), or the file of a CHECKPOINT to resume",
            "SUITE",
            positional=True,
        ),
    ] = None
    defines: Annotated[
        tuple[str, ...], Option("set a variable of the suite", "NAME=VALUE", flag="-D")
    ] = ()
    check: Annotated[bool, Option("check for mistakes; run nothing")] = False
    plan: Annotated[bool, Option("print samples and commands; run nothing")] = False


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw run`."""
    parser = add_command(
        commands,
        "run",
        epilog=_EXAMPLES,
        usage="bw run [options] SUITE | bw run [options] -- CMD...",
    )
    add_options(parser, SuiteOptions)
    add_options(parser, StudyOptions)
    add_options(parser, NotifyOptions)
    add_options(parser, CommandRequest, "for a command after --")
    add_options(parser, TrialWatchOptions, WATCHING)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw run`; return the exit code."""
    if arguments.suite and arguments.command_argv is None:
        from benchwright.run.checkpoint import is_checkpoint

        if is_checkpoint(Path(arguments.suite)):
            return _resume(arguments)

    from benchwright.run.preparation import rehearse
    from benchwright.suite.check import unused_factors

    prepared = _prepare(arguments)
    info = with_session_options(prepared.info, arguments)
    prepared = msgspec.structs.replace(prepared, info=info)
    planned = rehearse(prepared)
    _refuse_quiet(prepared)
    for name in unused_factors(prepared.program.steps):
        print(
            f"bw: warning: no command has {{{name}}}: each level of {name} runs the same "
            f"commands, unless they read BW_FACTOR_{name}",
            file=sys.stderr,
        )
    if arguments.check:
        print(
            f"bw: {arguments.suite or 'the command'}: no mistakes found",
            file=sys.stderr,
        )
        return 0
    if arguments.plan:
        return _print_plan(arguments, planned)
    _refuse_missing_servers(prepared, planned)
    from benchwright.cli.session_output import run_prepared

    return run_prepared(prepared, arguments)


def _resume(arguments: argparse.Namespace) -> int:
    """Resume from a checkpoint given in place of a suite, as in Auto-pilot; return the exit code."""
    from benchwright.cli.resume import resume

    declared = (SuiteOptions, CommandRequest, TrialWatchOptions)
    for option in given(arguments, *declared, NotifyOptions, StudyOptions):
        if option.name not in ("json", "quiet"):
            raise argument_error(
                option.flag,
                arguments.suite,
                f"{arguments.suite} is a checkpoint: it resumes as it was started, "
                f"without {option.flag}",
                f"leave {option.flag} out, or run the suite itself",
            )
    arguments.study = arguments.suite
    return resume(arguments)


def _refuse_missing_servers(prepared: PreparedProgram, planned: list[Planned]) -> None:
    """Raise InputError for named servers that do not run.

    Not raised if a test has PRESETUP or SETUP commands, which may start the servers.
    """
    from benchwright.run.watching import refuse_missing, servers_of
    from benchwright.suite.plan import PlannedTest

    plans = [item.plan for item in planned if isinstance(item, PlannedTest)]
    if any(plan.phases.presetup or plan.phases.setup for plan in plans):
        return
    refuse_missing(servers_of(prepared.info, prepared.program.servers))


def _refuse_quiet(prepared: PreparedProgram) -> None:
    """Raise InputError for values in `quiet` of the suite that this machine does not support."""
    quiet = prepared.program.quiet
    if quiet is None:
        return
    from benchwright.machine.quiet.host import Host
    from benchwright.machine.quiet.settings import check_values

    check_values(Host(), quiet.wishes, quiet.places)


def _prepare(arguments: argparse.Namespace) -> PreparedProgram:
    from benchwright.run import preparation as start

    words = sys.argv[1:]
    if arguments.suite and arguments.command_argv is None:
        _refuse_command_options(arguments)
        return start.prepare_suite(
            arguments.suite, arguments.defines, arguments.study, words
        )
    if arguments.command_argv and not arguments.suite:
        command = tuple(arguments.command_argv)
        request = request_from(CommandRequest, arguments, command=command)
        return start.prepare_command(request, arguments.study, words)
    what = (
        "both a SUITE and a command"
        if arguments.suite
        else "neither a SUITE nor a command"
    )
    raise argument_error(
        "bw run",
        " ".join(words),
        f"there is {what}",
        "bw run SUITE, or bw run [options] -- CMD...",
    )


def _refuse_command_options(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that apply only to a command, not to a suite."""
    for option in given(arguments, CommandRequest):
        raise argument_error(
            option.flag,
            arguments.suite,
            f"{option.flag} is for a command after --, not for a suite",
            "write it into the suite, or give -D NAME=VALUE",
        )


def _without_fast_fail(planned: list[Planned]) -> list[Planned]:
    """Return a plan without FASTFAIL, which only `.ap` files contain in their text."""
    from benchwright.suite.plan import PlannedStep

    hidden = PlannedStep("FASTFAIL", "")
    return [item for item in planned if item != hidden]


def _print_plan(arguments: argparse.Namespace, planned: list[Planned]) -> int:
    from benchwright.report.plan import plan_document, plan_lines

    if arguments.json:
        from benchwright.report.documents import encode

        sys.stdout.write(encode(plan_document(planned)))
    else:
        is_theirs = (arguments.suite or "").endswith(".ap")
        for line in plan_lines(planned if is_theirs else _without_fast_fail(planned)):
            print(line)
    return 0
