"""Options that `bw run` and `bw compare` share: what is done around each trial, and
where it is kept. What differs between the two is only the help of some."""

from __future__ import annotations

from argparse import _ActionsContainer as Container


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


def add_around(group: Container) -> None:
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
    """Add --notify and --notify-on; cli/notify_option.py reads them."""
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


def add_kept(group: Container) -> None:
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
