"""The results of the Python API: the document of the command as a type, with what readers ask
first.

Decision: the types of `--json` are the types of the API, so that there is one description of a
result (`bw schema KIND`). A result adds the study and its HTML in notebooks.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import msgspec

from benchwright.api.frames import table_html
from benchwright.api.studies import OpenStudy, open_study
from benchwright.core.errors import argument_error
from benchwright.core.text import number_text
from benchwright.report.answer import AnswerEntry
from benchwright.report.comparison import GateEntry, VerdictEntry
from benchwright.report.documents import FindingEntry
from benchwright.report.run import CompareDocument, RunDocument
from benchwright.study.catalogue import StudyPart

UNDECIDED = 3
"""The exit status of a command without an answer."""


class Place:
    """A study directory; a temporary one is removed with the last result that refers to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def temporary(cls) -> Place:
        """Return a new temporary directory."""
        parent = tempfile.mkdtemp(prefix="bw-study-")
        place = cls(Path(parent) / "study")
        weakref.finalize(place, shutil.rmtree, parent, ignore_errors=True)
        return place


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What all results have."""

    messages: str
    """What the command printed on stderr; empty with `progress=True`."""
    place: Place | None
    """The study directory; None if nothing was stored."""

    def open_study(self) -> OpenStudy:
        """Return the stored study. Raises InputError if nothing was stored."""
        if self.place is None:
            hint = "give study='DIR'"
            raise argument_error("study", "", "this result was not stored", hint)
        return open_study(self.place.path, keep=self.place)


class RunResult(CallResult, frozen=True, kw_only=True):
    """The answers of `run`."""

    document: RunDocument

    @property
    def exit_status(self) -> int:
        """That of the command: 0 done, 1 a benchmark failed, 3 undecided."""
        return self.document.exit_status

    @property
    def is_decided(self) -> bool:
        """Whether each test has its answer."""
        return self.exit_status == 0

    @property
    def answers(self) -> tuple[AnswerEntry, ...]:
        """The answer of each test, in order."""
        return self.document.answers

    @property
    def findings(self) -> tuple[FindingEntry, ...]:
        """What makes the answers doubtful."""
        return self.document.findings

    def __getitem__(self, test: str) -> AnswerEntry:
        """Return the answer of a test by its name. Raises KeyError."""
        for answer in self.answers:
            if test in (answer.test, answer.name):
                return answer
        raise KeyError(test)

    def _repr_html_(self) -> str:
        return session_html(self, self.document.session)

    def __str__(self) -> str:
        """Return the answer as the terminal shows it."""
        return session_text(self, self.document.session)


class CompareResult(CallResult, frozen=True, kw_only=True):
    """The verdicts and gates of `compare`."""

    document: CompareDocument

    @property
    def exit_status(self) -> int:
        """That of the command: 0 decided, 1 a gate or a command failed, 3 undecided."""
        return self.document.exit_status

    @property
    def is_decided(self) -> bool:
        """Whether the comparison, and each gate, has an answer."""
        return self.exit_status != UNDECIDED

    @property
    def verdicts(self) -> tuple[VerdictEntry, ...]:
        """The verdict on each candidate and metric."""
        return self.document.verdicts

    @property
    def gates(self) -> tuple[GateEntry, ...]:
        """The result of each `fail_if`."""
        return self.document.gates

    @property
    def findings(self) -> tuple[FindingEntry, ...]:
        """What makes the verdicts doubtful."""
        return self.document.findings

    def _repr_html_(self) -> str:
        if self.place is not None and self.document.session is not None:
            return session_html(self, self.document.session)
        heads = ("metric", "candidate", "baseline", "ratio", "low", "high", "verdict")
        rows = [
            (
                *(verdict.metric, verdict.candidate, verdict.baseline),
                *map(figure_text, (verdict.ratio.value, verdict.ratio.low, verdict.ratio.high)),
                str(verdict.verdict or "undecided"),
            )
            for verdict in self.verdicts
        ]
        return table_html(heads, rows)

    def __str__(self) -> str:
        """Return the verdicts as the terminal shows them."""
        if self.place is not None and self.document.session is not None:
            return session_text(self, self.document.session)
        return "\n".join(
            f"{verdict.candidate} against {verdict.baseline}: {verdict.verdict or 'undecided'} "
            f"({verdict.metric}: {verdict.reason or f'ratio {figure_text(verdict.ratio.value)}'})"
            for verdict in self.verdicts
        )


def session_text(result: CallResult, session: int | None) -> str:
    """Return the answer of a stored session and its findings in short, without colours."""
    from benchwright.cli.show import shown_session

    place = result.open_study().path
    shown = shown_session(StudyPart(place, None if session is None else str(session)))
    return "\n".join((*(shown.answer_lines or (shown.headline,)), *shown.finding_lines))


def session_html(result: CallResult, session: int | None) -> str:
    return result.open_study().html(session)


def figure_text(value: float | None) -> str:
    return "" if value is None else number_text(value)
