"""`bw quiet`: changes settings of the machine for a benchmark, and restores them."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core import SESSION_TOKEN
from benchwright.core.errors import BenchError, Diagnostic, InputError, argument_error
from benchwright.core.processes import stop_signals
from benchwright.core.untrusted import regular_bytes, visible_lines
from benchwright.features.quiet import report
from benchwright.features.quiet.hold import Quieted, QuietRequest, alive, hold, restore_now
from benchwright.features.quiet.host import Host, SettingRefused
from benchwright.features.quiet.log_path import LOG, server_directories, state_directory
from benchwright.features.quiet.private_network import held_networks
from benchwright.features.quiet.settings import REGISTRY, check_values
from benchwright.features.quiet.transaction import plans, read_log
from benchwright.features.quiet.types import (
    ALL_SETTINGS,
    QuietSettings,
    RestoreResult,
    quiet_settings,
    setting_errors,
)
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.report.documents import encode
from benchwright.suite.common_options import Json

# --------------------------------------------------------------------------------------
# `bw quiet`: lists settings, shows or restores changes, keeps them, or runs a command.

_STUDY = "BW_STUDY"
_INTERRUPTED = 130


_MODE = "it decides what bw quiet does"


class QuietOptions(msgspec.Struct, frozen=True):
    """The options of `bw quiet`."""

    settings: Annotated[
        tuple[str, ...],
        Option(
            "setting (see --list), or `all`; NAME=VALUES where it takes values",
            "NAME",
            positional=True,
        ),
    ] = ()
    keep: Annotated[
        bool,
        Option(
            "keep the settings until --restore, or inside a session until it ends", no_default=_MODE
        ),
    ] = False
    require: Annotated[
        bool, Option("fail before changing anything if a setting is unavailable")
    ] = False
    list: Annotated[bool, Option("show every setting and its state", no_default=_MODE)] = False
    status: Annotated[bool, Option("show what is changed and by whom", no_default=_MODE)] = False
    restore: Annotated[bool, Option("restore what was changed", no_default=_MODE)] = False
    json: Json = False
    command: tuple[str, ...] = ()
    """The words after `--`."""


def handle(arguments: argparse.Namespace) -> int:
    """Run `bw quiet`; return the exit code. Raises InputError or BenchError."""
    command = tuple(arguments.command_argv or ())
    request = request_from(QuietOptions, arguments, command=command)
    modes = (request.list, request.status, request.restore, request.keep)
    names = ("--list", "--status", "--restore", "--keep")
    chosen = [name for name, mode in zip(names, modes, strict=True) if mode]
    if request.command:
        chosen.append("-- CMD")
    if len(chosen) > 1:
        message = f"{' and '.join(chosen)} cannot be combined"
        raise argument_error("bw quiet", " ".join(chosen), message, "give one of them")
    if request.list:
        return _list(request)
    if request.status:
        return _status(request)
    if request.restore:
        return _restore(request)
    wanted = _wanted(request.settings, require=request.require)
    if request.keep:
        return _keep(request, wanted)
    if not request.command:
        hint = "bw quiet NAME... -- CMD..., or --keep; bw quiet --list shows the names"
        raise argument_error("bw quiet", "", "there is no command to run", hint)
    return _around(request, wanted)


def _wanted(words: Sequence[str], *, require: bool = False) -> QuietSettings:
    """Return the settings that the words name. Raises InputError with all mistakes."""
    places = [Diagnostic("bad-argument", "", file="bw quiet", text=w) for w in words]
    if wrong := setting_errors(words):
        replace = msgspec.structs.replace
        raise InputError([replace(places[i], message=m) for i, m in wrong.items()])
    if not words:
        hint = f"bw quiet --list shows them; `{ALL_SETTINGS}` stands for all of them"
        raise argument_error("bw quiet", "", "no setting is given", hint)
    return quiet_settings(words, places, require=require)


def _parsed_settings(
    wanted: QuietSettings, *, session: str = "", host: Host | None = None
) -> QuietRequest:
    return QuietRequest(
        wanted.wishes, places=wanted.places, session=session, require=wanted.require, host=host
    )


def _list(quiet_options: QuietOptions) -> int:
    host = Host()
    wanted = _wanted(quiet_options.settings or (ALL_SETTINGS,))
    check_values(host, wanted.wishes, wanted.places)
    offers = tuple(
        report.Offer(wish.name, _now(host, wish.name), len(plan.changes), plan.lacking)
        for wish, plan in plans(host, wanted.wishes)
    )
    if quiet_options.json:
        _write(report.QuietDocument(command="list", settings=offers))
    else:
        _print(report.offer_lines(offers), to_stdout=True)
    return 0


def _now(host: Host, name: str) -> str:
    try:
        return REGISTRY[name].now(host)
    except SettingRefused as refused:
        return f"unknown: {refused}"


def _status(quiet_options: QuietOptions) -> int:
    host = Host()
    status, servers = _present(host), tuple(_servers(host))
    if quiet_options.json:
        document = report.QuietDocument(command="status", status=status, servers=servers)
        _write(document)
    else:
        _print(report.status_lines(status, servers), to_stdout=True)
    return 0


def _servers(host: Host) -> Iterator[report.ServerStatus]:
    """Yield what is changed for the servers of specs; print which logs cannot be read."""
    for directory in sorted(server_directories()):
        try:
            status = _present(host, Path(directory))
        except (BenchError, OSError) as error:
            print(visible_lines(f"bw: {error}"), file=sys.stderr)
            continue
        if status is not None:
            networks = held_networks(status.owner.pid) if status.alive else ()
            log = os.path.join(directory, LOG)
            yield report.ServerStatus(**msgspec.structs.asdict(status), log=log, networks=networks)


def _present(host: Host, directory: Path | None = None) -> report.Status | None:
    """Return the unfinished transaction with a log in a directory; None if there is none."""
    contents = read_log(directory or Path(state_directory()))
    if contents is None or contents.begin is None:
        return None
    changes = []
    for intent, _ in contents.changes:
        change = intent.change
        try:
            REGISTRY[change.setting].check(host, change)
            value = REGISTRY[change.setting].read(host, change)
        except (SettingRefused, KeyError) as error:
            value = f"unknown: {error}"
        changes.append((change, "gone" if value is None else value))
    begin = contents.begin
    return report.Status(begin.owner, alive(host, begin.owner), begin.at, tuple(changes))


def _restore(quiet_options: QuietOptions) -> int:
    session = os.environ.get(SESSION_TOKEN, "")
    restored = restore_now(Host(), Path(state_directory()), session)
    if quiet_options.json:
        done = report.restore_entry(restored, late=False)
        _write(report.QuietDocument(command="restore", restored=done))
    elif restored is None:
        print("quiet: nothing is changed", file=sys.stderr)
    else:
        _print(report.restored_lines(restored, late=False))
    return 1 if _left(restored) else 0


def _left(restored: RestoreResult | None) -> bool:
    """Return whether a setting was not restored, or the log of changes was lost or still exists."""
    return restored is not None and bool(restored.failed or restored.log)


def _keep(quiet_options: QuietOptions, wanted: QuietSettings) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            # The default action would end this process before it reports the changes (`hold`).
            signal.signal(number, signal.default_int_handler)
    host, session = Host(), os.environ.get(SESSION_TOKEN, "")
    owner = _session_process(host) if session else 0
    # Root of the benchmark's processes, for isolation: the session, or the calling shell.
    host.own_pid = owner or os.getppid()
    settings = _parsed_settings(wanted, session=session, host=host)
    quiet, late = hold(settings, owner)
    if quiet_options.json:
        document = report.QuietDocument(
            command="keep",
            quiet=report.quiet_entry(quiet),
            undone_late=report.restore_entry(late, late=True),
        )
        _write(document)
    else:
        _print(report.restored_lines(late, late=True) if late else ())
        _print(report.quiet_lines(quiet))
    return 0


def _session_process(host: Host) -> int:
    """Return the process id of the `bw` of the enclosing session; 0 if it is unknown.

    The id is in the lock file of the session's study.
    """
    study = os.environ.get(_STUDY, "")
    try:
        pid = int(regular_bytes(Path(study) / "lock"))
    except (OSError, ValueError):
        return 0
    return pid if pid in host.ancestors(os.getpid()) else 0


# -- Running a command with changed settings -------------------------------------------


class _Child:
    """A command; signals to this process are forwarded to it."""

    def __init__(self, words: Sequence[str], *, quiet: bool) -> None:
        self._words = words
        self._out = sys.stderr if quiet else None
        self._process: subprocess.Popen[bytes] | None = None
        self.interrupted = False

    def note(self, number: int) -> None:
        """Handle a signal: forward the first one to the command; kill the command at the second."""
        process = self._process
        if process is not None and process.poll() is None:
            if self.interrupted:
                process.kill()
            elif number != signal.SIGINT or not _from_terminal():
                process.send_signal(number)
        self.interrupted = True

    def run(self) -> int:
        """Run the command, unless a signal arrived before; return its exit status."""
        if self.interrupted:
            return _INTERRUPTED
        self._process = subprocess.Popen(self._words, stdout=self._out)
        if self.interrupted:
            self._process.terminate()
        return self._process.wait()


def _from_terminal() -> bool:
    """Return whether the terminal sends Ctrl-C to the command too: it is in the foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _around(quiet_options: QuietOptions, wanted: QuietSettings) -> int:
    words = quiet_options.command
    if shutil.which(words[0]) is None:
        raise argument_error("bw quiet", words[0], f"there is no program {words[0]!r}")
    child = _Child(words, quiet=quiet_options.json)
    quieted = Quieted(_parsed_settings(wanted))
    # Signals are deferred while settings are changed or restored (features/quiet/host.py).
    with stop_signals(child.note):
        with quieted:
            if not quiet_options.json:
                late = quieted.late
                _print(report.restored_lines(late, late=True) if late else ())
                _print(report.quiet_lines(quieted.quiet))
            sys.stdout.flush()
            status = child.run()
        _print_quiet(quiet_options, quieted, status)
    if child.interrupted:
        return _INTERRUPTED
    return 1 if status != 0 or _left(quieted.restored) else 0


def _print_quiet(quiet_options: QuietOptions, quieted: Quieted, status: int) -> None:
    if not quiet_options.json:
        if quieted.restored is not None:
            _print(report.restored_lines(quieted.restored, late=False))
        return
    document = report.QuietDocument(
        command="run",
        quiet=report.quiet_entry(quieted.quiet),
        undone_late=report.restore_entry(quieted.late, late=True),
        restored=report.restore_entry(quieted.restored, late=False),
        argv=quiet_options.command,
        exit_status=status,
    )
    _write(document)


def _write(document: report.QuietDocument) -> None:
    sys.stdout.write(encode(document))


def _print(lines: Iterable[str], *, to_stdout: bool = False) -> None:
    for line in lines:
        print(line, file=sys.stdout if to_stdout else sys.stderr)


# -- The command-line interface --------------------------------------------------------

_EXAMPLES = """\
examples:
  bw quiet --list                          the settings of this machine
  bw quiet services swap aslr -- CMD...    quiet while CMD runs, back after it
  bw quiet all --require -- CMD...         only if all are available
  bw quiet services=cron,atd isolation=2-5 --keep    until `bw quiet --restore`

If bw is killed, the next bw command restores what it had changed.
exit status: 0 done; 1 CMD failed, or something could not be restored; 2 bad input;
130 interrupted
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw quiet`."""
    parser = add_command(
        commands,
        "quiet",
        epilog=_EXAMPLES,
        usage="bw quiet NAME[=VALUES]... [--require] (-- CMD... | --keep)\n"
        "       bw quiet (--list | --status | --restore)",
    )
    add_options(parser, QuietOptions)
    parser.set_defaults(handler=handle)
