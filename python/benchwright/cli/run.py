"""`bw run`: a suite from a file, or a command measured with no file at all."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchwright.cli.shared_options import (
    add_hook,
    add_metric,
    add_notify,
    add_phases,
    add_study,
    add_watch,
    with_session_options,
)

if TYPE_CHECKING:
    from benchwright.run.preparation import PreparedProgram
    from benchwright.suite.command_line import CommandRequest
    from benchwright.suite.plan import Planned


SUMMARY = "run a suite (.ap, .toml), or measure a command until the answer is stable"

_COMMAND_OPTIONS = (
    "factors",
    "threads",
    "min_runs",
    "max_runs",
    "precision",
    "max_time",
    "metrics",
    "setup",
    "cleanup",
    "timeout",
    "output",
    "name",
    "hooks",
    "keep_going",
    "mode",
    "of",
    "confidence",
    "rest",
)

_RESUMING = frozenset(
    ("suite", "json", "quiet", "handler", "default_of", "command_argv", "undone")
)
"""What `bw run CHECKPOINT` takes; the rest is as the checkpoint's session was begun."""
_SPELLED = {"factors": "-P", "metrics": "--metric", "hooks": "--hook", "defines": "-D"}

_EXAMPLES = """\
examples:
  bw run postmark.ap                              Auto-pilot's language
  bw run suite.toml -D fs=ext4 --study results    the modern one
  bw run /var/lib/benchwright/checkpoint          goes on from a CHECKPOINT
  bw run --precision 2% -- sort big.txt           no file needed
  bw run -P n=1,2,4 --metric ops:higher=/ops -- ./bench --threads {n}

exit status: 0 done; 1 a benchmark failed; 2 bad input; 3 stopped without an
answer; 130 interrupted (go on with `bw resume`)
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw run`."""
    parser = commands.add_parser(
        "run",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="bw run [options] SUITE | bw run [options] -- CMD...",
    )
    add = parser.add_argument
    add(
        "suite",
        nargs="?",
        metavar="SUITE",
        help="a suite: FILE.ap or FILE.toml; or the file of a CHECKPOINT, to resume it",
    )
    add(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable of the suite",
    )
    add("--check", action="store_true", help="only look for mistakes; run nothing")
    add("--plan", action="store_true", help="print samples and commands; run nothing")
    _add_command_options(parser.add_argument_group("for a command after --"))
    _add_common_options(parser)
    parser.set_defaults(handler=run, default_of=parser.get_default)


def _add_command_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-P",
        dest="factors",
        action="append",
        default=[],
        metavar="FACTOR=V1,V2",
        help="a factor and its levels; {FACTOR} in CMD is replaced by each",
    )
    add("--threads", metavar="N", help="concurrent processes of a trial (also 1,2,4)")
    add(
        "--min-runs",
        metavar="N",
        help="trials at least (default 10; 30 for --precision)",
    )
    add(
        "--max-runs",
        metavar="N",
        help="trials at most; only --precision runs more than --min-runs",
    )
    add(
        "--precision",
        metavar="5%",
        help="until the confidence interval is within this share of the value",
    )
    add(
        "--mode",
        choices=("plan", "watch"),
        help="plan: a pilot of 30 sets the number of trials (default); "
        "watch: look as often as you like, stop as soon as it is precise",
    )
    add("--of", metavar="median|p90", help="what is estimated (default: the mean)")
    add("--confidence", metavar="95%", help="of the interval (default 95%%)")
    add("--max-time", metavar="10m", help="stop a test after this much running")
    add_metric(
        group,
        "a number from the output; elapsed, user, system, rss_bytes are always there",
    )
    add_phases(group)
    add("--name", metavar="NAME", help="the test's name (default: the program's)")
    add_hook(
        group,
        "a measurement hook: free-memory, disk-io, other-cpu, network, remote, or a path",
    )
    add("--keep-going", action="store_true", help="go on after a failed trial")


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_watch(parser.add_argument_group("what watches the trials"))
    add_study(parser)
    add_notify(parser)
    add("--quiet", action="store_true", help="no progress")


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw run` was asked; return the exit code."""
    import msgspec

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
    from benchwright.cli.live import run_session

    return run_session(prepared, arguments)


def _resume(arguments: argparse.Namespace) -> int:
    """Go on from a checkpoint, as Auto-pilot does when one is its argument."""
    from benchwright.cli.resume import resume
    from benchwright.core.errors import argument_error

    for name, value in vars(arguments).items():
        if name not in _RESUMING and value != arguments.default_of(name):
            option = _option(name)
            raise argument_error(
                option,
                arguments.suite,
                f"{arguments.suite} is a checkpoint: it goes on as it was begun, "
                f"without {option}",
                f"leave {option} out, or run the suite itself",
            )
    arguments.study = arguments.suite
    return resume(arguments)


def _option(name: str) -> str:
    """Return how an option is written, given its name in the namespace."""
    return _SPELLED.get(name, "--" + name.replace("_", "-"))


def _refuse_missing_servers(prepared: PreparedProgram, planned: list[Planned]) -> None:
    """Raise InputError for named servers that do not run, unless the suite has commands
    before its trials, which may start them."""
    from benchwright.run.watching import refuse_missing, servers_of
    from benchwright.suite.plan import PlannedTest

    plans = [item.plan for item in planned if isinstance(item, PlannedTest)]
    if any(plan.phases.presetup or plan.phases.setup for plan in plans):
        return
    refuse_missing(servers_of(prepared.info, prepared.program.servers))


def _refuse_quiet(prepared: PreparedProgram) -> None:
    """Raise InputError for what the suite wants quiet and this machine does not take."""
    wanted = prepared.program.quiet
    if wanted is None:
        return
    from benchwright.machine.quiet.host import Host
    from benchwright.machine.quiet.settings import check_values

    check_values(Host(), wanted.wishes, wanted.places)


def _prepare(arguments: argparse.Namespace) -> PreparedProgram:
    from benchwright.core.errors import argument_error
    from benchwright.run import preparation as start

    words = sys.argv[1:]
    if arguments.suite and arguments.command_argv is None:
        _refuse_command_options(arguments)
        return start.prepare_suite(
            arguments.suite, arguments.defines, arguments.study, words
        )
    if arguments.command_argv and not arguments.suite:
        return start.prepare_command(_request(arguments), arguments.study, words)
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


def _request(arguments: argparse.Namespace) -> CommandRequest:
    from benchwright.suite.command_line import CommandRequest

    return CommandRequest(
        command=tuple(arguments.command_argv),
        **{name: _frozen(getattr(arguments, name)) for name in _COMMAND_OPTIONS},
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _refuse_command_options(arguments: argparse.Namespace) -> None:
    """Options of a bare command mean nothing beside a suite: say so, do not ignore."""
    from benchwright.core.errors import argument_error

    for name in _COMMAND_OPTIONS:
        if getattr(arguments, name):
            option = _option(name)
            raise argument_error(
                option,
                arguments.suite,
                f"{option} is for a command after --, not for a suite",
                "say it in the suite, or pass -D NAME=VALUE",
            )


def _without_fast_fail(planned: list[Planned]) -> list[Planned]:
    """Return a plan without Auto-pilot's FASTFAIL, which no other suite has written."""
    from benchwright.suite.plan import PlannedStep

    hidden = PlannedStep("FASTFAIL", "")
    return [item for item in planned if item != hidden]


def _print_plan(arguments: argparse.Namespace, planned: list[Planned]) -> int:
    from benchwright.report.plan import plan_lines, plan_object

    if arguments.json:
        from benchwright.report.parts import encode

        sys.stdout.write(encode(plan_object(planned)))
    else:
        is_theirs = (arguments.suite or "").endswith(".ap")
        for line in plan_lines(planned if is_theirs else _without_fast_fail(planned)):
            print(line)
    return 0
