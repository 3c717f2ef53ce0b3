"""`bw history`: its commands, which show, store and accept results over time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchwright.cli.parser import CommandParser, add_command
from benchwright.cli.shared_options import (
    RESULT,
    WATCHING,
    DetailOptions,
    LiveOptions,
    NotifyOptions,
    StudyOptions,
    TrialWatchOptions,
)
from benchwright.features.history import options
from benchwright.inputs.options import add_options, options_of
from benchwright.suite.comparison import ComparisonRequest

# -- The commands of `bw history` --------------------------------------------------------
#
# options.py declares the options; run.py runs the commands. `bw history PATH` is
# `bw history show PATH`, because that is what a person means by it.

_COMMANDS = """\
commands (`bw history COMMAND --help`):
  show    show series of results (the default)
  add     store the results of studies in a history file
  accept  accept a step: its new level is intended
  feed    write the changes as an Atom or a JSON feed
  push    send the runs of a history file to a git remote, as notes of their commits
  pull    fetch the runs that others pushed into a history file
  confirm compare two commits side by side, to decide whether a change is real
  bisect  find the commit that made a change, by comparisons side by side
"""
_EXAMPLES = """\
examples:
  bw history results                     all studies below the folder results
  bw history add bw-study                store ./bw-study in ./bw-history.db
  bw history                             show ./bw-history.db, or the studies here
  bw history --test 'sort*' --since 30d --html history.html
  bw history --gate 5%                   exit 1 if a newest run is worse by more
  bw history add bw-study --gate 5%      the same after each run, for thousands of series
  bw history accept sort/1 --reason 'checks its input now'
"""
_EXITS = """
exit status: 0 done; 1 the gate failed; 2 bad input; 3 the gate is undecided"""


def add_parser(commands: Any) -> None:
    """Add `bw history` and its commands."""
    parser: CommandParser = add_command(commands, "history")  # type: ignore[assignment]
    parser.default_command = "show"
    below = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (
        *(_add_show, _add_add, _add_accept, _add_feed, _add_push, _add_pull),
        *(_add_confirm, _add_bisect),
    ):
        add(below)


def _add(
    below: Any,
    name: str,
    summary: str,
    more: str = "",
    handler: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = below.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=more or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def by_name(arguments: argparse.Namespace) -> int:
        from benchwright.features.history import run as history_run

        handlers = {
            "show": history_run.show,
            "add": history_run.add,
            "accept": history_run.accept,
            "feed": history_run.feed,
            "push": history_run.push,
            "pull": history_run.pull,
        }
        return handlers[name](arguments)

    parser.set_defaults(handler=handler or by_name)
    return parser


def _add_show(below: Any) -> None:
    parser = _add(
        below,
        "show",
        "show how results changed, run after run, and which change is real",
        _COMMANDS + "\n" + _EXAMPLES + _EXITS,
    )
    parser.usage = "bw history [PATH...] [options]\n       bw history COMMAND [arguments]"
    add_options(parser, options.HistoryOptions)


def _add_add(below: Any) -> None:
    parser = _add(
        below,
        "add",
        "store the results of studies in a history file",
        "A run is stored once, however often it is added. With --gate the newest run of each series of\n"
        "the file is compared with its level, as `bw history FILE --gate` does, without a table and\n"
        "without the steps before.\n\n"
        "exit status: 0 done; 1 the gate failed; 2 bad input; 3 the gate is undecided",
    )
    add_options(parser, options.AddOptions)


def _add_accept(below: Any) -> None:
    parser = _add(
        below,
        "accept",
        "accept a step: its new level is intended",
        "The acceptance is stored with its reason; it cannot be changed or removed.",
    )
    add_options(parser, options.AcceptOptions)


def _add_feed(below: Any) -> None:
    parser = _add(below, "feed", "write the changes as an Atom or a JSON feed")
    add_options(parser, options.FeedOptions)


def _add_push(below: Any) -> None:
    parser = _add(
        below,
        "push",
        "send the runs of a history file to a git remote, as notes of their commits",
        "Runs without a commit, and of files that differed from it, stay here.",
    )
    add_options(parser, options.NotesOptions)


def _add_pull(below: Any) -> None:
    parser = _add(below, "pull", "fetch the runs that others pushed into a history file")
    add_options(parser, options.NotesOptions)


_COMMITS = """\
Each commit is checked out into a clone in the user's cache and built there by --build; the
command runs in it. The repository and the working tree stay as they are.

examples:
  bw history confirm v1.2 HEAD --build 'make -j2' -- './prog input'
  bw history bisect v1.2 HEAD --build 'make -j2' --instructions=callgrind -- './prog input'
"""


def _add_confirm(below: Any) -> None:
    def handler(arguments: argparse.Namespace) -> int:
        from benchwright.features.history.bisect import confirm

        return confirm(arguments)

    parser = _add(
        below,
        "confirm",
        "compare two commits side by side, to decide whether a change is real",
        _COMMITS + "\nexit status: as of bw compare",
        handler,
    )
    parser.usage = "bw history confirm OLD [NEW] [options] -- 'COMMAND'"
    add_options(parser, options.CommitOptions)
    asked = (*options.COMPARING, *options.ASKING)
    add_options(parser, ComparisonRequest, "each trial", only=asked)
    for shared in (StudyOptions, DetailOptions, LiveOptions, NotifyOptions):
        add_options(parser, shared, RESULT)
    add_options(parser, TrialWatchOptions, WATCHING)
    others = set(options_of(ComparisonRequest)) - set(asked)
    unused = {name: getattr(ComparisonRequest(()), name) for name in others}
    parser.set_defaults(
        **unused, inputs=(), baseline=None, interleave_baseline=False, null_from=None
    )


def _add_bisect(below: Any) -> None:
    def handler(arguments: argparse.Namespace) -> int:
        from benchwright.features.history.bisect import bisect

        return bisect(arguments)

    parser = _add(
        below,
        "bisect",
        "find the commit that made a change, by comparisons side by side",
        _COMMITS
        + """
A commit has the change if its interval, interleaved with OLD, lies beyond half of the
difference of OLD and NEW. A comparison that the study holds already is not run again.

exit status: 0 one commit, or no change; 1 a command failed; 2 bad input; 3 several commits
are left, because the others could not be built or decided""",
        handler,
    )
    parser.usage = "bw history bisect OLD [NEW] [options] -- 'COMMAND'"
    add_options(parser, options.CommitOptions)
    add_options(parser, ComparisonRequest, "each trial", only=options.COMPARING)
    for shared in (StudyOptions, NotifyOptions):
        add_options(parser, shared, RESULT)
    add_options(parser, TrialWatchOptions, WATCHING)
