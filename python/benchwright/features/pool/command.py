"""`bw pool`: the gangs of a session, and what each does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import CommandParser, add_command
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.suite.common_options import Json

_TEXT = """\
commands:
  status  print the gangs of a session, their tasks, leases and void attempts (the default)

examples:
  bw pool status                 the last session with a pool of ./bw-study
  bw pool status results@2       session 2 of the study results, also while it runs
"""


class PoolStatusOptions(msgspec.Struct, frozen=True):
    """The options of `bw pool status`."""

    study: Annotated[
        str,
        Option(
            "study, or one session of it",
            "STUDY[@SESSION]",
            default="./bw-study",
            positional=True,
            names="directory",
            default_key="study",
        ),
    ] = "bw-study"
    json: Json = False


def add_parser(commands: Any) -> None:
    """Add `bw pool` and its commands."""
    parser: CommandParser = add_command(commands, "pool", epilog=_TEXT)  # type: ignore[assignment]
    parser.default_command = "status"
    below = parser.add_subparsers(metavar="COMMAND", required=True)
    summary = "print the gangs of a session, their tasks, leases and void attempts"
    status = below.add_parser("status", help=summary, description=f"{summary.capitalize()}.")
    add_options(status, PoolStatusOptions)
    status.set_defaults(handler=print_status)


def print_status(arguments: argparse.Namespace) -> int:
    """Run `bw pool status`; return the exit code. Raises StudyError, InputError."""
    import contextlib
    import time

    from benchwright.cli.terminal import table_width, write_answer
    from benchwright.core.errors import argument_error
    from benchwright.features.pool.report import pool_document, pool_state, pool_text
    from benchwright.features.pool.stored import stored_pool
    from benchwright.study.catalogue import sessions_now, split_selector
    from benchwright.study.journal import Study

    request = request_from(PoolStatusOptions, arguments)
    part = split_selector(Path(request.study))
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        sessions = sessions_now(study)
        with_pool = [session for session in sessions if stored_pool(session.info)]
        if part.session is None and with_pool:
            session = with_pool[-1]
        else:
            number = part.of(study).number
            session = next(session for session in sessions if session.number == number)
        state = pool_state(study, session, time.time_ns())
        if state is None:
            message = f"session {session.number} of {part.place} has no pool"
            raise argument_error("STUDY", request.study, message, "see docs/pool.md")
        document = pool_document(str(part.place), session.number, session.status, state)
    write_answer(
        json=request.json,
        document=lambda: document,
        text=lambda: pool_text(document, state, table_width()),
    )
    return 0
