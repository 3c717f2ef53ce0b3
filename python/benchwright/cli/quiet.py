"""`bw quiet`: the machine put in order for a command, and back."""

from __future__ import annotations

import argparse

SUMMARY = "put the machine in order for a benchmark, and back as it was"
_EXAMPLES = """\
examples:
  bw quiet --list                          what can be had on this machine
  bw quiet services swap aslr -- CMD...    quiet while CMD runs, back after it
  bw quiet all --require -- CMD...         only if all of it can be had
  bw quiet services=cron,atd isolation=2-5 --keep    until `bw quiet --restore`

What was changed by a bw that was killed is put back by the next bw, whatever it does.
exit status: 0 done; 1 CMD failed, or something could not be put back; 2 bad input;
130 interrupted
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw quiet`."""
    parser = commands.add_parser(
        "quiet",
        help=SUMMARY,
        description=SUMMARY[0].upper() + SUMMARY[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="bw quiet NAME[=VALUES]... [--require] (-- CMD... | --keep)\n"
        "       bw quiet (--list | --status | --restore)",
    )
    add = parser.add_argument
    add(
        "settings",
        nargs="*",
        metavar="NAME",
        help="a setting (see --list), or `all`; NAME=VALUES where it takes any",
    )
    add(
        "--keep",
        action="store_true",
        help="keep it so until --restore; inside a session: until that ends",
    )
    add(
        "--require",
        action="store_true",
        help="what cannot be had is an error, before anything is changed",
    )
    add("--list", action="store_true", help="show every setting and its state")
    add("--status", action="store_true", help="show what is changed now, and by whom")
    add("--restore", action="store_true", help="put back what is changed")
    add("--json", action="store_true", help="one JSON document on stdout")
    parser.set_defaults(handler=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    from benchwright.cli.quiet_run import handle

    return handle(arguments)
