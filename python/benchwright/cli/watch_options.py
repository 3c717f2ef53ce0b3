"""Options that say what watches the trials, for every command that runs some.

Decision: what was wished for is kept among the session's options, so that `bw resume` watches
as the session began.
"""

from __future__ import annotations

from argparse import Namespace
from argparse import _ActionsContainer as Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchwright.study.journal import SessionInfo


def add_watch(group: Container) -> None:
    """Add --no-watch, --profile and --characterize."""
    add_watch_of_loads(group)
    group.add_argument(
        "--characterize",
        action="store_true",
        help="one more trial, not counted, with its I/O traced: sizes, mix, sequentiality",
    )


def add_watch_of_loads(group: Container) -> None:
    """Add --no-watch and --profile."""
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


def begun_with(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return what a session is begun with, what is to watch it and whom it is to tell.

    Raises InputError.
    """
    import msgspec

    from benchwright.cli.notify_option import notifying
    from benchwright.session.observers import OPTION

    options = {**info.options, OPTION: watch_wish(arguments)}
    return notifying(msgspec.structs.replace(info, options=options), arguments)


def watch_wish(arguments: Namespace) -> str:
    """Return what is to watch, as the session keeps it: words parted by a space.

    A command that has not one of the options watches as if it was not given.
    """
    from benchwright.session.observers import CHARACTERIZE, PROFILE, SAMPLE

    wish = [] if getattr(arguments, "no_watch", False) else [SAMPLE]
    more = (PROFILE, CHARACTERIZE)
    return " ".join([*wish, *(one for one in more if getattr(arguments, one, False))])
