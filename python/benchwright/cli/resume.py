"""`bw resume`: continues an interrupted session, also after a crash or a reboot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.cli.live import live_port, live_view
from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import LiveOptions
from benchwright.core.plan import command_word
from benchwright.feature import owner_of
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.suite.common_options import Json, Quiet, Verbose

if TYPE_CHECKING:
    from benchwright.study.journal import Study


class ResumeOptions(msgspec.Struct, frozen=True):
    """The options of `bw resume`."""

    study: Annotated[
        str,
        Option(
            "study, or the file that CHECKPOINT FILE wrote",
            "DIR",
            default="./bw-study",
            positional=True,
            names="file",
            default_key="study",
        ),
    ] = "bw-study"
    json: Json = False
    quiet: Quiet = False
    verbose: Verbose = False


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw resume`."""
    parser = add_command(
        commands,
        "resume",
        more="The suite is the one that the study stores, even if its files have "
        "changed since. A session that has ended stays as it is, with exit status 0, also if it "
        "missed a gate or a limit.",
    )
    add_options(parser, ResumeOptions)
    add_options(parser, LiveOptions)
    parser.set_defaults(handler=resume)


def resume(arguments: argparse.Namespace) -> int:
    """Run `bw resume`; return the exit code."""
    import contextlib
    import os
    import sys
    from pathlib import Path

    from benchwright.cli.session_output import experiment_of, output_of
    from benchwright.core.errors import StudyError
    from benchwright.run.ledger import study_of
    from benchwright.run.runner import OutputOptions, resume_session
    from benchwright.study.journal import Study

    request = request_from(ResumeOptions, arguments)
    place, port = study_of(Path(request.study)), live_port(arguments)
    with contextlib.closing(Study.open_to_resume(place)) as study:
        stored = study.last_resumable()
        if stored is None:
            print(f"bw: nothing to resume in {place}: {_why(study)}", file=sys.stderr)
            return 0
        here = Path.cwd()
        try:
            os.chdir(stored.info.directory)
        except OSError as error:
            raise StudyError(
                "directory-missing",
                f"the session ran in {stored.info.directory}: {error.strerror}",
                "create that directory again; its commands are relative to it",
            ) from None
        options = OutputOptions(
            json=request.json, quiet=request.quiet, verbose=request.verbose, here=here
        )
        experiment = experiment_of(stored.info)
        output = output_of(experiment, options)
        with live_view(place, port):
            status = resume_session(experiment, study, stored, output, undone=arguments.undone)
    owner = owner_of(command_word(stored.info.arguments))
    if owner is None:
        return status
    return owner.status_of_resumed(here / study.path, stored.number, stored.info, status)


_LIMITS = {"run": ("--max-runs", "--max-time"), "compare": ("--max-blocks", "--max-time")}
"""The options that limit a session of tests of each kind, which ends undecided there."""


def _why(study: Study) -> str:
    """Return the reason why no session of a study can be resumed, and the command that measures
    again if the last one ended undecided."""
    from benchwright.core.untrusted import shell_text
    from benchwright.feature import session_kind
    from benchwright.run.preparation import COMMAND_LINE
    from benchwright.study.journal import RESUMABLE

    sessions = study.sessions()
    if not sessions:
        return "it has no session"
    last = sessions[-1]
    text = f"its last session, {last.number}, has ended: {last.status}"
    left = [str(s.number) for s in sessions if s.status in RESUMABLE]
    if left:
        text += f" (sessions before it that did not finish cannot be resumed: {', '.join(left)})"
    kind = session_kind(last.info.kind)
    limits = _LIMITS.get(last.info.kind, ()) if kind is None else kind.limits
    if last.status == "undecided" and limits:
        if last.info.kind == "run" and last.info.program_main != COMMAND_LINE:
            limits = ("max_runs", "max_time")
        again = shell_text(("bw", *last.info.arguments))
        text += f"\n  = measure again with a larger {' or '.join(limits)}: {again}"
    return text
