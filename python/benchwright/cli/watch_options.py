"""Options that say what watches the trials, for `bw run` and `bw compare`."""

from __future__ import annotations

import argparse
from argparse import _ActionsContainer as Container


def add_watch(group: Container) -> None:
    """Add --no-watch, --profile and --characterize."""
    add = group.add_argument
    add(
        "--no-watch",
        action="store_true",
        help="do not sample the machine during trials; `bw why` then knows nothing",
    )
    add(
        "--profile",
        action="store_true",
        help="profile the trials by perf: folded stacks and a flame graph for each",
    )
    add(
        "--characterize",
        action="store_true",
        help="one more trial, not counted, with its I/O traced: sizes, mix, sequentiality",
    )


def watch_wish(arguments: argparse.Namespace) -> str:
    """Return what is to watch, as the session keeps it: words parted by a space."""
    from benchwright.session.observers import CHARACTERIZE, PROFILE, SAMPLE

    wish = [] if arguments.no_watch else [SAMPLE]
    wish += [name for name in (PROFILE, CHARACTERIZE) if getattr(arguments, name)]
    return " ".join(wish)
