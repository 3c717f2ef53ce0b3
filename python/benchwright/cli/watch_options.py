"""Options that say what watches the trials and what they drive, for every command that runs some.

Decision: what was wished for is kept among the session's options, so that `bw resume` watches
as the session began.
"""

from __future__ import annotations

from argparse import Namespace
from argparse import _ActionsContainer as Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchwright.model.named_server import NamedServer
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
    add_servers(group)


def add_servers(group: Container) -> None:
    """Add --target-pid and its like, which name a server that runs already."""
    for way, like, what in (
        ("port", "PORT", "the port that it listens on"),
        ("unit", "UNIT", "its systemd unit"),
        ("name", "NAME", "the name of its program"),
        ("pid", "PID", "its process id"),
    ):
        group.add_argument(
            f"--target-{way}",
            action="append",
            default=[],
            metavar=like,
            help=f"a running server that the benchmark drives: {what}",
        )


def named_servers(arguments: Namespace) -> tuple[NamedServer, ...]:
    """Return the servers that the options name. Raises InputError with every mistake."""
    from benchwright.model.errors import Diagnostic, InputError
    from benchwright.model.named_server import WAYS, named_server

    found, wrong = [], []
    for way in WAYS:
        for text in getattr(arguments, f"target_{way}", ()):
            try:
                found.append(named_server(way, text))
            except ValueError as error:
                option = f"--target-{way}"
                wrong.append(
                    Diagnostic("bad-argument", str(error), file=option, text=text)
                )
    if wrong:
        raise InputError(wrong)
    return tuple(dict.fromkeys(found))


def begun_with(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return what a session is begun with, what is to watch it, which servers it drives and
    whom it is to tell.

    Raises InputError.
    """
    import msgspec

    from benchwright.cli.notify_option import notifying
    from benchwright.session.observers import OPTION
    from benchwright.session.servers import with_servers

    options = {**info.options, OPTION: watch_wish(arguments)}
    begun = notifying(msgspec.structs.replace(info, options=options), arguments)
    return with_servers(begun, named_servers(arguments))


def watch_wish(arguments: Namespace) -> str:
    """Return what is to watch, as the session keeps it: words parted by a space.

    A command that has not one of the options watches as if it was not given.
    """
    from benchwright.session.observers import CHARACTERIZE, PROFILE, SAMPLE

    wish = [] if getattr(arguments, "no_watch", False) else [SAMPLE]
    more = (PROFILE, CHARACTERIZE)
    return " ".join([*wish, *(one for one in more if getattr(arguments, one, False))])
