"""`bw chill`: empties the caches and reports what is still cached."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core.errors import InputError, argument_error
from benchwright.core.quantity import parse_size_bytes
from benchwright.core.text import binary_size_text
from benchwright.core.untrusted import shell_text
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.inputs.template import split_words
from benchwright.suite.common_options import Json

_EPILOG = """\
methods:
  files        evict the pages of each FILE, of all files below a directory, or of the
               files that the measured command names (in --setup); needs no root
  drop-caches  write back, then drop clean pages, dentries and inodes (root)
  remount      unmount --mount DIR and mount it again as it was (root). `mount -o remount`
               only changes options and empties no cache
  reboot       restart the machine. In a suite write CHECKPOINT first (docs/reboot.md);
               elsewhere it needs --yes. It never returns success

  chill        fill memory until the kernel has dropped its caches; needs no root, and
               affects every process. It takes at most --most, leaves 5 % of memory (at
               least 256 MiB) free and stops when swapping starts

Without --method: files if a FILE is given, else drop-caches for root, else files.

examples:
  bw chill /srv/data                              evict it, and count what is left
  bw chill a.img --check b.img c.img              FILE is before --check, which takes several
  bw run --setup 'bw chill' -- cat data.img       data.img, or with root all caches
  bw chill --method remount --mount /mnt/test --check /mnt/test/src

exit status: 0 done, even if something is still warm (unless --strict); 1 failed;
2 bad input. docs/chill.md describes what each method leaves warm"""

METHODS = ("files", "drop-caches", "remount", "reboot", "chill")


class ChillOptions(msgspec.Struct, frozen=True):
    """The options of `bw chill`."""

    files: Annotated[
        tuple[str, ...],
        Option(
            "file or directory to evict",
            "FILE",
            positional=True,
            names="file",
            no_default="it names what is measured",
        ),
    ] = ()
    method: Annotated[
        Text,
        Option(
            "how to empty caches",
            default="as described below",
            choices=METHODS,
            no_default="it may restart the machine",
        ),
    ] = None
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
        bool, Option("exit with 1 if something is still warm", no_default="it needs --check")
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
    most: Annotated[
        Text,
        Option(
            "most memory that --method chill takes",
            "SIZE",
            parse_size_bytes,
            default="4G",
            hint="write --most 16G",
        ),
    ] = None
    yes: Annotated[bool, Option("restart the machine", no_default="it restarts the machine")] = (
        False
    )
    json: Json = False


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw chill`."""
    parser = add_command(commands, "chill", epilog=_EPILOG)
    add_options(parser, ChillOptions)
    parser.set_defaults(handler=chill)


def chill(arguments: argparse.Namespace) -> int:
    """Run `bw chill`; return the exit code."""
    request = request_from(ChillOptions, arguments)
    reader = OptionReader(request)
    most_bytes = reader.value("most")
    if reader.found:
        raise InputError(reader.found)
    files = request.files
    method = request.method or _usual_method(files)
    _check(request, method)
    if method == "reboot":
        _reboot(confirmed=request.yes)
    if method == "files" and not files:
        files = _files_of_trial(request.check)
    return _chilled(request, method, files, most_bytes)


def _usual_method(files: Sequence[str]) -> str:
    return "files" if files or os.geteuid() else "drop-caches"


def _files_of_trial(check: Sequence[str]) -> tuple[str, ...]:
    """Return the files and directories that the commands of this trial's test name.

    Raises InputError if there are none, or outside of a trial.
    """
    place, name = os.environ.get("BW_STUDY"), os.environ.get("BW_TEST")
    files = () if place is None or name is None else files_of_test(Path(place), name)
    if files:
        return files
    if check and name is None:
        words = shell_text(check)
        what = "no FILE is left to evict: --check takes all words that follow it"
        hint = f"write FILE first: bw chill FILE --check {words}"
        raise argument_error("--check", check[-1], what, hint)
    what = "there is no file to evict"
    if name is not None:
        what = f"the command of test {name} names no file to evict"
    hint = (
        "name what the command reads: bw chill FILE...; as root --method drop-caches; "
        "--method chill fills the machine's memory"
    )
    raise argument_error("FILE", "", what, hint)


def files_of_test(study: Path, name: str) -> tuple[str, ...]:
    """Return the words of a test's commands that are files or directories, without the programs
    themselves; the test is one of the study's last session."""
    from benchwright.study.contents import tests_of
    from benchwright.study.journal import Study

    with contextlib.closing(Study.open_to_read(study)) as opened:
        tests = tests_of(opened, opened.sessions()[-1].number)
    commands = (
        command for test in tests if test.plan.name == name for command in test.plan.phases.exec
    )
    found = (word for command in commands for word in _words_after_programs(command.argv))
    return tuple(dict.fromkeys(word for word in found if _is_data(word)))


def _words_after_programs(argv: Sequence[str]) -> list[str]:
    """Return the arguments of a command; of a shell's text, all of its words."""
    if tuple(argv[:2]) != ("/bin/sh", "-c"):
        words = list(argv[1:])
    else:
        words = [word.text for word in split_words(argv[2])[0]]
    return [*words, *(word.partition("=")[2] for word in words if "=" in word)]


def _is_data(word: str) -> bool:
    """Return whether a word names a file, or a directory but not the root of everything."""
    return (
        bool(word)
        and (os.path.isfile(word) or os.path.isdir(word))
        and (os.path.realpath(word) != "/")
    )


def _chilled(
    chill_options: ChillOptions, method: str, files: Sequence[str], most_bytes: int | None
) -> int:
    """Empty the caches and print the result."""
    from benchwright.features.quiet.chill import MOST_BYTES, ChillRequest
    from benchwright.features.quiet.chill import chill as make_cold
    from benchwright.features.quiet.chill_types import ChillMethod, chill_document, chill_text
    from benchwright.features.quiet.report import chill_findings

    request = ChillRequest(
        ChillMethod(method),
        files=tuple(Path(path) for path in files),
        mount=None if chill_options.mount is None else Path(chill_options.mount),
        check=tuple(Path(path) for path in chill_options.check),
        scratch=Path(chill_options.scratch),
        most_bytes=most_bytes or MOST_BYTES,
    )
    if request.method is ChillMethod.CHILL:
        size = binary_size_text(request.most_bytes)
        warning = (
            f"bw: this fills up to {size} of memory and evicts what other processes have cached"
        )
        print(warning, file=sys.stderr)
    chilled = make_cold(request)
    findings = chill_findings(chilled)
    as_text = chill_document if chill_options.json else chill_text
    sys.stdout.write(as_text(chilled, findings))
    return 1 if findings and chill_options.strict else 0


def _check(chill_options: ChillOptions, method: str) -> None:
    """Raise InputError for options that cannot be combined."""
    remounts = method == "remount"
    if chill_options.files and method != "files":
        message = f"--method {method} is about more than a file"
        hint = "leave FILE out, or --method; --check FILE counts its pages"
        raise argument_error("FILE", chill_options.files[0], message, hint)
    if chill_options.most is not None and method != "chill":
        message = f"--method {method} takes no memory"
        hint = "leave --most out, or give --method chill"
        raise argument_error("--most", chill_options.most, message, hint)
    if remounts and chill_options.mount is None:
        raise argument_error(
            "--method", "remount", "remount needs --mount DIR", "name the mount point to remount"
        )
    if chill_options.mount is not None and not remounts:
        raise argument_error(
            "--mount",
            chill_options.mount,
            f"--method {method} does not remount",
            "leave --mount out, or give --method remount",
        )
    is_checked = chill_options.check or remounts or method == "files"
    if chill_options.strict and not is_checked:
        raise argument_error("--strict", "--strict", "nothing is checked", "add --check FILE")
    if not os.path.isdir(chill_options.scratch):
        raise argument_error("--scratch", chill_options.scratch, "it is not a directory")


def _reboot(*, confirmed: bool) -> NoReturn:
    """Restart the machine; does not return."""
    from benchwright.core import SESSION_TOKEN
    from benchwright.features.quiet.chill import reboot

    if not confirmed and SESSION_TOKEN not in os.environ:
        raise argument_error(
            "--method",
            "reboot",
            "this restarts the machine, and no suite would continue afterwards",
            "add --yes, or use it in a suite, after CHECKPOINT (docs/reboot.md)",
        )
    reboot()
