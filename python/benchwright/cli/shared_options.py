"""Options that several commands share: what surrounds a trial, what watches it, where it is stored."""

from __future__ import annotations

from argparse import Namespace
from argparse import _ActionsContainer as Container
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from benchwright.core.errors import Diagnostic

if TYPE_CHECKING:
    from benchwright.core.named_server import NamedServer
    from benchwright.study.journal import SessionInfo


# -- One option's text, parsed; a mistake is noted so that all are told at once --------

T = TypeVar("T")


def checked(
    option: str,
    text: str | None,
    parse: Callable[[str], T],
    default: T,
    wrong: list[Diagnostic],
) -> T:
    """Return what an option's text means; `default` where nothing was said, or where
    `parse` raised ValueError, whose words are then in `wrong`."""
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return default


# --------------------------------------------------------------------------------------
# Options that `bw run` and `bw compare` share: what is done around each trial, and
# where it is kept. What differs between the two is only the help of some.


def add_metric(group: Container, what: str) -> None:
    """Add --metric, which declares a number of the output."""
    group.add_argument(
        "--metric",
        dest="metrics",
        action="append",
        default=[],
        metavar="NAME[:higher][=/json/pointer | ~regex(group)]",
        help=what,
    )


def add_phases(group: Container) -> None:
    """Add what is done before and after each trial, and how long it may take."""
    add = group.add_argument
    add("--setup", metavar="C", help="command before each trial (a shell command)")
    add("--cleanup", metavar="C", help="command after each trial, also a failed one")
    add("--rest", metavar="500ms", help="pause before each trial")
    add("--timeout", metavar="30s", help="end a trial that takes longer; it failed")
    add(
        "--output",
        metavar="WHERE",
        help="null: discard the output; bounded: keep the first and last 64 KiB of each "
        "stream of a trial (default); file: keep all, compressed; inherit: bounded, and "
        "show it on stderr. file:4G sets what a trial may write (default 1G)",
    )


def add_hook(group: Container, what: str) -> None:
    """Add --hook, which names measurement hooks."""
    group.add_argument(
        "--hook",
        dest="hooks",
        action="append",
        default=[],
        metavar="NAME|PATH",
        help=what,
    )


def add_notify(group: Container) -> None:
    """Add --notify and --notify-on; cli/notices.py reads them."""
    group.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="WHOM",
        help="tell of the end: mail:ADDRESS, https://..., env:NAME, command:PROGRAM, "
        "FILE.toml (docs/notices.md)",
    )
    group.add_argument(
        "--notify-on",
        metavar="EVENTS",
        help="only of these: fail-fast,failure,done,undecided,interrupted",
    )


def add_study(group: Container) -> None:
    """Add where the study is, and the form of the answer."""
    group.add_argument(
        "--study",
        default="bw-study",
        metavar="DIR",
        help="where everything is kept (default ./bw-study)",
    )
    group.add_argument(
        "--json", action="store_true", help="one JSON document on stdout"
    )


# --------------------------------------------------------------------------------------
# Options that say what watches the trials and what they drive, for every command that
# runs some.
#
# Decision: what was wished for is kept among the session's options, so that `bw resume` watches
# as the session began.


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
    from benchwright.core.errors import Diagnostic, InputError
    from benchwright.core.named_server import SERVER_KEYS, parse_named_server

    found, wrong = [], []
    for way in SERVER_KEYS:
        for text in getattr(arguments, f"target_{way}", ()):
            try:
                found.append(parse_named_server(way, text))
            except ValueError as error:
                option = f"--target-{way}"
                wrong.append(
                    Diagnostic("bad-argument", str(error), file=option, text=text)
                )
    if wrong:
        raise InputError(wrong)
    return tuple(dict.fromkeys(found))


def with_session_options(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return what a session is begun with, what is to watch it, which servers it drives and
    whom it is to tell.

    Raises InputError.
    """
    import msgspec

    from benchwright.cli.notices import with_notify
    from benchwright.run.observers import WATCH_OPTION
    from benchwright.run.watching import with_servers

    options = {**info.options, WATCH_OPTION: watch_setting(arguments)}
    begun = with_notify(msgspec.structs.replace(info, options=options), arguments)
    return with_servers(begun, named_servers(arguments))


def watch_setting(arguments: Namespace) -> str:
    """Return what is to watch, as the session keeps it: words parted by a space.

    A command that has not one of the options watches as if it was not given.
    """
    from benchwright.run.observers import CHARACTERIZE, PROFILE, SAMPLE

    wish = [] if getattr(arguments, "no_watch", False) else [SAMPLE]
    more = (PROFILE, CHARACTERIZE)
    return " ".join([*wish, *(one for one in more if getattr(arguments, one, False))])
