"""One task in a process of its own: a part of a session, run as a session of a study on the gang's
host.

`python -m benchwright.features.pool.task DIRECTORY`: reads the order there, runs its session in the
study beside it, and writes how it ended (features/pool/agent.py names the files).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.core.errors import HostError, OperatingError, StudyError
from benchwright.core.processes import die_with_parent
from benchwright.core.progress import NoProgress
from benchwright.feature import session_kind
from benchwright.features.pool.agent import ENDED, ORDER, STUDY, failed_by
from benchwright.features.pool.protocol import TaskOrder, TaskVerdict
from benchwright.features.pool.types import VoidReason
from benchwright.report.progress import SessionProgress
from benchwright.run.findings import NoticeContents
from benchwright.run.runner import SessionResult, run_session
from benchwright.study.journal import UNWRITABLE

if TYPE_CHECKING:
    from benchwright.run.runner import Experiment

_INTERRUPTED = 130


class TaskOutput:
    """The output of a task: warnings in the file of its output, and its verdict."""

    def __init__(self) -> None:
        self.progress = SessionProgress(NoProgress())
        self.ended: SessionResult | None = None

    def note(self, text: str) -> None:
        """Show nothing."""

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show nothing."""

    def warn(self, text: str) -> None:
        """Write a line to the output."""
        print(text, flush=True)

    def print(self, ended: SessionResult) -> None:
        """Keep the result for the verdict."""
        self.ended = ended

    def notice(self, ended: SessionResult) -> NoticeContents:  # noqa: ARG002
        """Return nothing: the controller sends the notices of the session."""
        return NoticeContents()

    def close(self) -> None:
        """Do nothing."""


def experiment_of(order: TaskOrder) -> Experiment[Any]:
    """Return the experiment of the part that an order names. Raises InputError."""
    if (kind := session_kind(order.info.kind)) is None:
        from benchwright.run.preparation import prepare_again
        from benchwright.run.session import ProgramExperiment

        only = order.keys or [prefix.removesuffix("/") for prefix in order.prefixes]
        return ProgramExperiment(prepare_again(order.info), only, order.replicate)
    number = int(order.attempt.place)
    return kind.part(order.info, number, order.wanted, order.left_s, order.clients)


def _with_own_testroot(order: TaskOrder, place: Path) -> TaskOrder:
    """Return an order whose tests have their files beside the task's study, if the user named no
    place."""
    options = order.info.options
    environment = msgspec.json.decode(options["environment"], type=dict[str, str])
    if environment.get("TESTROOT", "") != order.testroot:
        return order
    environment["TESTROOT"] = str(place / "testroot")
    own = {**options, "environment": msgspec.json.encode(environment).decode()}
    info = msgspec.structs.replace(order.info, options=own)
    return msgspec.structs.replace(order, info=info)


def run_task(place: Path) -> TaskVerdict:
    """Run the task in this directory to its end, and return how it ended."""
    order = msgspec.json.decode((place / ORDER).read_bytes(), type=TaskOrder)
    order = _with_own_testroot(order, place)
    attempt, output = order.attempt.id, TaskOutput()
    try:
        os.chdir(order.info.directory)
        status = run_session(experiment_of(order), place / STUDY, output)
    except OSError as error:
        return failed_by(attempt, error)
    except HostError as error:
        # A host of `[load] hosts` is none of the gang.
        is_client = error.host in order.attempt.hosts
        return TaskVerdict(
            id=attempt,
            void=VoidReason(error.code) if is_client else VoidReason.SERVER_FAILED,
            detail=error.message,
            status=error.exit_status,
            failed_host=error.host if is_client else "",
        )
    except OperatingError as error:
        full = isinstance(error, StudyError) and error.code == UNWRITABLE
        void = VoidReason.DISK_FULL if full else VoidReason.SERVER_FAILED
        status = error.exit_status
        return TaskVerdict(id=attempt, void=void, detail=str(error), status=status)
    assert output.ended is not None, "a session that returns was printed"
    verdict = output.ended.verdict
    void_or_none = None
    if status == _INTERRUPTED:
        void_or_none = VoidReason.CANCELLED
    elif verdict.status == "failed":
        void_or_none = VoidReason.SERVER_FAILED
    return TaskVerdict(id=attempt, void=void_or_none, detail=verdict.detail, status=status)


def main(words: list[str]) -> int:
    """Run the task in the directory that the words name."""
    die_with_parent()
    (directory,) = words
    place = Path(directory)
    verdict = run_task(place)
    (place / ENDED).write_bytes(msgspec.json.encode(verdict))
    return verdict.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
