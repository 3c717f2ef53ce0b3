"""`bw show`: one session of a study in full."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.terminal import painter, report_width, write_answer
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.suite.common_options import Json

if TYPE_CHECKING:
    from benchwright.study.catalogue import StudyPart
    from benchwright.views.sessions import ShownSession, StoredFiles
    from benchwright.views.terminal import Paint

SESSION = Option(
    "study, or one of its sessions by number or name: DIR, DIR@2, DIR@NAME",
    "STUDY",
    default="the last session of ./bw-study",
    positional=True,
    names="directory",
    default_key="study",
)


class ShowOptions(msgspec.Struct, frozen=True):
    """The options of `bw show`."""

    study: Annotated[str, SESSION] = "bw-study"
    json: Json = False


def add_parser(commands: Any) -> None:
    """Add `bw show` to the commands."""
    parser = add_command(commands, "show")
    add_options(parser, ShowOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw show`; return the exit code. Raises InputError, StudyError."""
    from benchwright.views.sessions import show_document, show_text

    request = request_from(ShowOptions, arguments)
    part = session_named(request.study)
    shown = shown_session(part, report_width(), painter(sys.stdout))
    write_answer(
        json=request.json, document=lambda: show_document(shown), text=lambda: show_text(shown)
    )
    return 0


def session_named(text: str) -> StudyPart:
    """Return the session that an argument names. Raises InputError for a test."""
    from benchwright.core.errors import argument_error
    from benchwright.study.catalogue import split_selector

    part = split_selector(Path(text))
    if part.test is not None:
        message = f"{text} names a test, and this command is about a session"
        raise argument_error("STUDY", text, message, f"leave out :{part.test}")
    return part


def shown_session(part: StudyPart, width: int = 100, paint: Paint | None = None) -> ShownSession:
    """Return what is printed of a session, for this width and these colours."""
    from benchwright.feature import session_kind
    from benchwright.page.headline import headline
    from benchwright.report.answer import answer_entries, answer_of
    from benchwright.results.stored import read_results
    from benchwright.study.catalogue import record_of, sessions_now
    from benchwright.study.contents import findings_about_session, tests_of
    from benchwright.study.journal import Study
    from benchwright.views.sessions import ShownSession
    from benchwright.views.terminal import group_lines, unpainted
    from benchwright.views.tests import answer_lines

    with contextlib.closing(Study.open_to_read(part.place)) as study:
        number = part.of(study).number
        (session,) = (session for session in sessions_now(study) if session.number == number)
        tests = tests_of(study, number)
        record = record_of(study, session, part.place, tests)
        files = tuple(_files(part.place, number))
        short = headline(study, session, tests)
        if session_kind(session.info.kind) is not None:
            about = findings_about_session(study, number)
            answer = answer_of((), about, status=session.status, detail=session.detail)
        else:
            answer = read_results(study, session).answer()
    paint = paint or unpainted
    lines = answer_lines(answer, width, paint)
    # The table of bw stats: arms and loads have none here.
    alone = len(answer.tests) == 1 and answer.tests[0].trials <= 1
    is_other = alone or all(test.is_arm for test in answer.tests)
    return ShownSession(
        record,
        short,
        (short,) if is_other else tuple(lines),
        tuple(group_lines(answer.groups, len(answer.tests), width, paint)),
        answer_entries(answer),
        answer.groups,
        files,
    )


def _files(study: Path, session: int) -> Iterator[StoredFiles]:
    """Yield the files of a session in each folder of its study."""
    from benchwright.views.sessions import StoredFiles

    for folder in ("logs", "results", "watched"):
        sizes = []
        for place, _, names in os.walk(study / folder / f"s{session}"):
            for name in names:
                # A session that runs also removes files.
                with contextlib.suppress(OSError):
                    sizes.append(os.lstat(os.path.join(place, name)).st_size)
        if sizes:
            yield StoredFiles(f"{folder}/s{session}", len(sizes), sum(sizes))
