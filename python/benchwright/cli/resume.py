"""`bw resume`: go on with an interrupted study, after a crash or a reboot too."""

from __future__ import annotations

import argparse

SUMMARY = "go on with an interrupted study, after a crash or a reboot too"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw resume`."""
    parser = commands.add_parser(
        "resume",
        help=SUMMARY,
        description=SUMMARY[0].upper()
        + SUMMARY[1:]
        + ". The suite is the one that the "
        "study keeps, also if its files have changed since.",
    )
    parser.add_argument(
        "study",
        nargs="?",
        default="bw-study",
        metavar="DIR",
        help="the study, or the file that CHECKPOINT FILE wrote (default ./bw-study)",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on stdout"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(handler=resume)


def resume(arguments: argparse.Namespace) -> int:
    """Do what `bw resume` was asked; return the exit code."""
    import contextlib
    import os
    import sys
    from pathlib import Path

    from benchwright.cli.live import run_again
    from benchwright.model.errors import StudyError
    from benchwright.session.checkpoint import study_of
    from benchwright.session.start import prepare_again
    from benchwright.study.journal import Study

    place = study_of(Path(arguments.study))
    with contextlib.closing(Study.open_to_resume(place)) as study:
        stored = study.last_resumable()
        if stored is None:
            print(f"bw: nothing to resume in {place}", file=sys.stderr)
            return 0
        prepared = prepare_again(stored.info)
        try:
            os.chdir(stored.info.directory)
        except OSError as error:
            raise StudyError(
                "directory-missing",
                f"the session ran in {stored.info.directory}: {error.strerror}",
                "put that directory back; its commands are relative to it",
            ) from None
        return run_again(prepared, study, stored, arguments)
