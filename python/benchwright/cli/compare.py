"""`bw compare`: commands side by side until the ratio's interval answers."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "junit",
)
_LISTS = ("names", "metrics", "hooks", "fail_if")

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
    add(
        "--study",
        default="bw-study",
        metavar="DIR",
        help="where everything is kept (default ./bw-study)",
    )
    add("--json", action="store_true", help="one JSON document on stdout")
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
        help="a gate: exit 1 if that is so, 3 if it cannot be told",
    )
    add(
        "--metric",
        dest="metrics",
        action="append",
        default=[],
        metavar="NAME[:higher][=/json/pointer | ~regex(group)]",
        help="judge this too; user, system and rss_bytes are only shown unless named",
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
    add("--min-blocks", metavar="N", help="before the first look (default 10)")
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
    add("--setup", metavar="C", help="command before each trial (a shell command)")
    add("--cleanup", metavar="C", help="command after each trial, also a failed one")
    add("--rest", metavar="500ms", help="pause before each trial")
    add("--timeout", metavar="30s", help="end a trial that takes longer; it failed")
    add(
        "--hook",
        dest="hooks",
        action="append",
        default=[],
        metavar="NAME|PATH",
        help="a measurement hook, as in bw run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what `bw compare` was asked; return the exit code."""
    from benchwright.cli.live import run_new
    from benchwright.session.start import prepare_comparison, rehearse

    request = _request(arguments)
    prepared = prepare_comparison(request, arguments.study, sys.argv[1:])
    rehearse(prepared)
    return run_new(prepared, arguments)


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
