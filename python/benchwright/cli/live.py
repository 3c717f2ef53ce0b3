"""`bw live`, and the option --live: a study as a page that follows its session."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import LiveOptions, parse_port
from benchwright.cli.terminal import warn
from benchwright.core.errors import InputError, OperatingError, argument_error
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from

_EXAMPLES = """\
examples:
  bw live                       the last session of ./bw-study, at any free port
  bw live results --port 8080   http://127.0.0.1:8080/...
  bw run --live -- sort big     the same page, which ends with the session
"""
VIEWER = (sys.executable, "-P", "-m", "benchwright.page.live")
"""The command line of the viewer; -P prevents imports from the current directory."""
_START_S = 60.0
"""A viewer starts within this time, also on a busy machine."""
_END_S = 5.0
"""A viewer ends within this time after its session."""
_KILL_S = 2.0
"""One that does not, because it is stopped or stuck, is killed this long after it was asked to end.
"""


class LivePageOptions(msgspec.Struct, frozen=True):
    """The options of `bw live`."""

    study: Annotated[
        str,
        Option(
            "study directory",
            "STUDY",
            default="./bw-study",
            positional=True,
            names="directory",
            default_key="study",
        ),
    ] = "bw-study"
    port: Annotated[
        Text, Option("port of 127.0.0.1", "PORT", parse_port, default="any free one")
    ] = None


def add_parser(commands: Any) -> None:
    """Add `bw live` to the commands."""
    parser = add_command(
        commands,
        "live",
        more="Prints the address of the page, and serves it until Ctrl-C.",
        epilog=_EXAMPLES,
    )
    add_options(parser, LivePageOptions)
    parser.set_defaults(handler=show)


def show(arguments: argparse.Namespace) -> int:
    """Run `bw live`; return the exit code. Raises InputError, StudyError."""
    import os

    from benchwright.page.live import LiveServer
    from benchwright.run.viewer import url_of_viewer
    from benchwright.study.journal import Study

    request = request_from(LivePageOptions, arguments)
    reader = OptionReader(request)
    port = reader.value("port") or 0
    if reader.found:
        raise InputError(reader.found)
    study = Path(request.study)
    with contextlib.closing(Study.open_to_read(study)):
        pass  # a damaged study is an error here, and a state of the page later
    known = url_of_viewer(study, _report_silence)
    if known is not None:
        print(known)
        return 0
    os.nice(19)
    try:
        server = LiveServer(study, port, until_end=False)
    except OSError as error:
        raise _no_port("--port", str(port), error.strerror or str(error)) from None
    with contextlib.suppress(KeyboardInterrupt):
        server.serve(lambda url: print(url, flush=True))
    return 0


def _no_port(option: str, port: str, why: str) -> OperatingError:
    hint = "give another port, or none: then any free one is used"
    return argument_error(option, port, f"cannot listen on 127.0.0.1: {why}", hint)


def live_port(arguments: argparse.Namespace) -> int | None:
    """Return the port of --live, 0 for any; None if it is not given. Raises InputError."""
    reader = OptionReader(request_from(LiveOptions, arguments))
    port: int | None = reader.value("live")
    if reader.found:
        raise InputError(reader.found)
    return port


@contextlib.contextmanager
def live_view(study: Path, port: int | None) -> Iterator[None]:
    """Show a study while the body runs a session of it; without a port, do nothing.

    The viewer is ready when the body starts, so it starts during no trial. Raises InputError if the
    port is in use, StudyError if there can be no study.
    """
    if port is None:
        yield
        return
    import select
    import subprocess

    from benchwright.run.viewer import url_of_viewer
    from benchwright.study.directory import JOURNAL
    from benchwright.study.journal import Study

    if not (study / JOURNAL).exists():
        # The viewer has its socket in the study's directory.
        with contextlib.closing(Study.create_or_open(study)):
            pass
    known = url_of_viewer(study, _report_silence)
    if known is not None:
        # That of a killed session, or of `bw live`: its pages go on.
        _print_url(known)
        yield
        return
    # Not in the session of the terminal: Ctrl-C is for `bw`, which ends the viewer.
    viewer = subprocess.Popen(
        (*VIEWER, str(study.absolute()), str(port)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert viewer.stdout is not None
        with viewer.stdout:
            ready, _, _ = select.select([viewer.stdout], [], [], _START_S)
            answer = viewer.stdout.readline().strip() if ready else ""
        if not answer.startswith("http://"):
            why = answer.removeprefix("error: ") or "the server did not start"
            raise _no_port("--live", str(port), why)
        _print_url(answer)
        yield
        with contextlib.suppress(subprocess.TimeoutExpired):
            viewer.wait(_END_S)
    finally:
        viewer.terminate()
        try:
            viewer.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            viewer.kill()
            warn("bw: live: the viewer did not end, and was killed")
            viewer.wait()


def _report_silence(process: int) -> None:
    warn(
        f"bw: live: process {process} has the live view of this study and does not answer; "
        "a new view starts unless it does soon"
    )


def _print_url(url: str) -> None:
    warn(f"bw: live: {url}")
