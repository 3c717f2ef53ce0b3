"""`bw chill`: empties the caches and reports what is still cached."""

from __future__ import annotations

import argparse
from typing import Annotated, NoReturn

import msgspec

from benchwright.cli.parser import add_command
from benchwright.suite.common_options import Json
from benchwright.suite.options import Option, Text, add_options, request_from

_EPILOG = """\
methods:
  chill        fill memory until the kernel has dropped its caches; needs no root.
               It leaves 5 % of memory (at least 256 MiB) free and stops when swapping starts
  drop-caches  write back, then drop clean pages, dentries and inodes (root)
  remount      unmount --mount DIR and mount it again as it was (root). `mount -o remount`
               only changes options and empties no cache
  reboot       restart the machine. In a suite write CHECKPOINT first (docs/reboot.md);
               elsewhere it needs --yes. It never returns success

examples:
  bw chill --check /srv/data
  bw chill --method remount --mount /mnt/test --check /mnt/test/src

exit status: 0 done, even if something is still warm (unless --strict); 1 failed;
2 bad input. docs/chill.md describes what each method leaves warm"""

METHODS = ("chill", "drop-caches", "remount", "reboot")


class ChillOptions(msgspec.Struct, frozen=True):
    """The options of `bw chill`."""

    method: Annotated[
        str,
        Option(
            "how to empty caches",
            default="chill",
            choices=METHODS,
            no_default="it may restart the machine",
        ),
    ] = "chill"
    mount: Annotated[
        Text,
        Option(
            "mount point, for --method remount",
            "DIR",
            names="directory",
            no_default="it is for --method remount",
        ),
    ] = None
    check: Annotated[
        tuple[str, ...],
        Option(
            "count the pages of these files, or of all below a directory, in memory "
            "before and after",
            "FILE",
            several=True,
            names="file",
        ),
    ] = ()
    strict: Annotated[
        bool,
        Option("exit with 1 if something is still warm", no_default="it needs --check"),
    ] = False
    scratch: Annotated[
        str,
        Option(
            "directory on a disk for chill's sparse file, which uses no space",
            "DIR",
            default="/var/tmp",
            names="directory",
        ),
    ] = "/var/tmp"
    yes: Annotated[
        bool, Option("restart the machine", no_default="it restarts the machine")
    ] = False
    json: Json = False


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw chill`."""
    parser = add_command(
        commands,
        "chill",
        epilog=_EPILOG,
    )
    add_options(parser, ChillOptions)
    parser.set_defaults(handler=chill)


def chill(arguments: argparse.Namespace) -> int:
    """Run `bw chill`; return the exit code."""
    request = request_from(ChillOptions, arguments)
    _check(request)
    if request.method == "reboot":
        _reboot(confirmed=request.yes)
    return _chilled(request)


def _chilled(chill_options: ChillOptions) -> int:
    """Empty the caches and print the result."""
    import sys
    from pathlib import Path

    from benchwright.core.chill import ChillMethod
    from benchwright.findings.machine_state import chill_findings
    from benchwright.machine.chill import ChillRequest
    from benchwright.machine.chill import chill as make_cold
    from benchwright.report.chill import chill_document, chill_text

    request = ChillRequest(
        ChillMethod(chill_options.method),
        mount=None if chill_options.mount is None else Path(chill_options.mount),
        check=tuple(Path(path) for path in chill_options.check),
        scratch=Path(chill_options.scratch),
    )
    chilled = make_cold(request)
    findings = chill_findings(chilled)
    as_text = chill_document if chill_options.json else chill_text
    sys.stdout.write(as_text(chilled, findings))
    return 1 if findings and chill_options.strict else 0


def _check(chill_options: ChillOptions) -> None:
    """Raise InputError for options that cannot be combined."""
    import os

    from benchwright.core.errors import argument_error

    remounts = chill_options.method == "remount"
    if remounts and chill_options.mount is None:
        raise argument_error(
            "--method",
            "remount",
            "remount needs --mount DIR",
            "name the mount point to remount",
        )
    if chill_options.mount is not None and not remounts:
        raise argument_error(
            "--mount",
            chill_options.mount,
            f"--method {chill_options.method} does not remount",
            "leave --mount out, or give --method remount",
        )
    if chill_options.strict and not (chill_options.check or remounts):
        raise argument_error(
            "--strict", "--strict", "nothing is checked", "add --check FILE"
        )
    if not os.path.isdir(chill_options.scratch):
        raise argument_error(
            "--scratch", chill_options.scratch, "it is not a directory"
        )


def _reboot(*, confirmed: bool) -> NoReturn:
    """Restart the machine; does not return."""
    import os

    from benchwright.core.errors import argument_error
    from benchwright.machine.chill import reboot
    from benchwright.trial.bench import SESSION_TOKEN

    if not confirmed and SESSION_TOKEN not in os.environ:
        raise argument_error(
            "--method",
            "reboot",
            "this restarts the machine, and no suite would continue afterwards",
            "add --yes, or use it in a suite, after CHECKPOINT (docs/reboot.md)",
        )
    reboot()
