"""`bw compare`: commands side by side until the ratio's interval answers."""

from __future__ import annotations

import argparse
import sys
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
    from benchwright.core.comparison import NullResult
    from benchwright.suite.comparison import ComparisonRequest


SUMMARY = "compare commands side by side, or stored results, until the answer is sound"

_WORDS = (
    "design",
    "mode",
    "margin",
    "confidence",
    "power",
    "min_blocks",
    "max_blocks",
    "max_time",
    "warmup",
    "seed",
    "threads",
    "setup",
    "cleanup",
    "rest",
    "timeout",
    "output",
    "junit",
)
_RUNNING = (
    "design",
    "mode",
    "min_blocks",
    "max_blocks",
    "max_time",
    "warmup",
    "threads",
    "setup",
    "cleanup",
    "rest",
    "timeout",
    "output",
    "hooks",
    "no_watch",
    "profile",
    "characterize",
    "baseline",
    "null",
    "target_pid",
    "target_port",
    "target_unit",
    "target_name",
    "notify",
    "notify_on",
)
_LISTS = ("names", "metrics", "hooks", "fail_if", "accept")

_EXAMPLES = """\
examples:
  bw compare -- 'sort a' 'sort --parallel=4 a'     randomised blocks, until answered
  bw compare --margin 2% --mode plan -- ./old ./new
  bw compare --null -- ./old                       the machine's noise floor
  bw compare --baseline main-study --fail-if 'slower by 3%' --junit out.xml -- ./new
  bw compare old-study:sort new-study:sort         stored results

exit status: 0 answered (with --fail-if: passed); 1 a gate or a command failed;
2 bad input; 3 undecided; 130 interrupted (go on with `bw resume`)
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw compare`."""
    parser = commands.add_parser(
        "compare",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ". Each word after -- is one "
        "command line; the first is the baseline.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="bw compare [options] -- 'A' 'B' ['C'...] | bw compare [options] X Y",
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="STUDY[:TEST]",
        help="stored results: studies, .res files, CSV; the first is the baseline",
    )
    _add_question(parser.add_argument_group("the question"))
    _add_design(parser.add_argument_group("the design"))
    _add_trial(parser.add_argument_group("each trial"))
    add = parser.add_argument
    add_watch(parser.add_argument_group("what watches the trials"))
    add_study(parser)
    add_notify(parser)
    add("--junit", metavar="FILE", help="verdicts and gates as JUnit XML too")
    add("--quiet", action="store_true", help="no progress")
    parser.set_defaults(handler=run)


def _add_question(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--margin", metavar="1%", help="ratios this close are equivalent (default 1%%)")
    add(
        "--fail-if",
        dest="fail_if",
        action="append",
        default=[],
        metavar="'[METRIC] slower by 3%'",
        help="a gate: exit 1 if that is so, 3 if undecided",
    )
    add(
        "--accept",
        action="append",
        default=[],
        metavar="CODE",
        help="decide gates also under this serious finding (repeatable)",
    )
    add_metric(
        group,
        "judge this too; user, system and rss_bytes are only shown unless named",
    )
    add("--confidence", metavar="95%", help="of verdicts and intervals (default 95%%)")
    add("--power", metavar="80%", help="of the smallest effect stated (default 80%%)")
    add(
        "--baseline",
        metavar="STUDY[:TEST]",
        help="compare with stored trials; commands after -- are candidates",
    )
    add(
        "--null",
        action="store_true",
        help="compare one command with itself: noise floor, false positives",
    )
    add(
        "--null-from",
        dest="null_from",
        metavar="STUDY",
        help="show the noise floor that this study holds (default: --study's own)",
    )


def _add_design(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--design",
        metavar="D",
        help="blocks (default: random order in each), abba, round-robin, sequence",
    )
    add(
        "--mode",
        metavar="M",
        help="watch (default: look after each block) or plan (a pilot, then one look)",
    )
    add(
        "--min-blocks",
        metavar="N",
        help="before the first look (default 10; 20 to plan)",
    )
    add("--max-blocks", metavar="N", help="then undecided (default 200)")
    add("--max-time", metavar="10m", help="then undecided")
    add("--warmup", metavar="N", help="blocks first that do not count (default 1)")
    add(
        "--seed", metavar="N", help="of the random order (default: drawn, and recorded)"
    )


def _add_trial(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--name",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="of the first, second ... command (default: the program's)",
    )
    add("--threads", metavar="N", help="concurrent processes of a trial")
    add_phases(group)
    add_hook(
        group,
        "a measurement hook, as in bw run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw compare` was asked; return the exit code."""
    request = _request(arguments)
    if arguments.junit is not None:
        from benchwright.cli.output_file import check_output

        read = [*arguments.inputs, *filter(None, [arguments.baseline])]
        check_output(arguments.junit, "--junit", read)
    if arguments.inputs:
        from benchwright.cli.compare_stored import compare_stored

        _check_stored(arguments)
        return compare_stored(arguments, request)
    import msgspec

    from benchwright.cli.live import run_session
    from benchwright.run.preparation import prepare_comparison, rehearse
    from benchwright.run.watching import refuse_missing, servers_of

    request = _with_stored(arguments, request)
    prepared = prepare_comparison(request, arguments.study, sys.argv[1:])
    info = with_session_options(prepared.info, arguments)
    prepared = msgspec.structs.replace(prepared, info=info)
    rehearse(prepared)
    if not arguments.setup:
        refuse_missing(servers_of(prepared.info))
    return run_session(prepared, arguments)


def _check_stored(arguments: argparse.Namespace) -> None:
    """Raise InputError for what means nothing where nothing is run."""
    from benchwright.core.errors import Diagnostic, InputError

    wrong = []
    for name in _RUNNING:
        if getattr(arguments, name):
            option = "--" + {"hooks": "hook"}.get(name, name).replace("_", "-")
            message = f"{option} is for commands that are run"
            hint = "stored results are compared as they are"
            wrong.append(Diagnostic("bad-argument", message, hint, file=option))
    if arguments.command_argv:
        message = "there are both stored results and commands"
        hint = "bw compare X Y, or bw compare --baseline X -- CMD"
        wrong.append(Diagnostic("bad-argument", message, hint, file="--"))
    if len(arguments.inputs) < 2:
        message = "there is nothing to compare it with"
        hint = "give two stored results: bw compare OLD:TEST NEW:TEST"
        text = arguments.inputs[0]
        wrong.append(Diagnostic("bad-argument", message, hint, file="INPUT", text=text))
    if wrong:
        raise InputError(wrong)


def _with_stored(
    arguments: argparse.Namespace, request: ComparisonRequest
) -> ComparisonRequest:
    """Return the request with the baseline and the noise floor that studies hold: the
    session keeps both, so that a resume finds what it was begun with."""
    import msgspec

    if arguments.baseline is not None:
        from benchwright.cli.compare_stored import stored_baseline
        from benchwright.suite.comparison import declared_metrics

        _check_baseline(arguments)
        stored = stored_baseline(arguments.baseline, declared_metrics(request))
        request = msgspec.structs.replace(request, stored=stored)
    if request.is_null:
        return request
    return msgspec.structs.replace(request, null=_known_null(arguments))


def _check_baseline(arguments: argparse.Namespace) -> None:
    """Raise InputError for what a stored baseline leaves no room for."""
    from benchwright.core.errors import argument_error

    for name in ("null", "design"):
        if getattr(arguments, name):
            message = f"--{name} needs the baseline to be run too"
            hint = "leave it out, or give the baseline as the first command"
            raise argument_error(f"--{name}", "", message, hint)
    if arguments.mode == "watch":
        hint = "leave it out: a pilot plans one look"
        message = "a stored baseline is not watched"
        raise argument_error("--mode", "watch", message, hint)


def _known_null(arguments: argparse.Namespace) -> NullResult | None:
    """Return the last null comparison of the study, or of the one that is named."""
    import contextlib
    from pathlib import Path

    import msgspec

    from benchwright.core.errors import argument_error
    from benchwright.study.contents import last_null
    from benchwright.study.directory import JOURNAL
    from benchwright.study.journal import Study

    named = arguments.null_from
    place = Path(named or arguments.study)
    found = None
    if named or (place / JOURNAL).is_file():
        with contextlib.closing(Study.open_to_read(place)) as study:
            found = last_null(study)
    if named and found is None:
        hint = f"measure one: bw compare --null --study {named} -- CMD"
        raise argument_error("--null-from", named, "it holds no null comparison", hint)
    if found is None or not named:
        return found
    return msgspec.structs.replace(found, source=named)


def _request(arguments: argparse.Namespace) -> ComparisonRequest:
    import secrets

    from benchwright.suite.comparison import ComparisonRequest

    given: dict[str, Any] = {name: getattr(arguments, name) for name in _WORDS}
    given |= {name: tuple(getattr(arguments, name)) for name in _LISTS}
    if given["seed"] is None:
        given["seed"] = str(secrets.randbelow(2**32))
    return ComparisonRequest(
        commands=tuple(arguments.command_argv or ()),
        is_null=arguments.null,
        token=secrets.token_hex(8),
        **given,
    )
