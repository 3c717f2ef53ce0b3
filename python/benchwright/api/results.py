"""The results of the Python API: the document of the command as a type, with what readers ask
first; and `open_study`: the sessions, tests and trials of a study as tables.

Decision: the types of `--json` are the types of the API, so that there is one description of a
result (`bw schema KIND`). A result adds the study and its HTML in notebooks.
"""

from __future__ import annotations

import contextlib
import html
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.api.frames import StudyFrame, table_html
from benchwright.core.errors import argument_error
from benchwright.core.text import number_text
from benchwright.feature import session_kind
from benchwright.findings.result import TestResult
from benchwright.report.answer import AnswerEntry
from benchwright.report.comparison import GateEntry, VerdictEntry
from benchwright.report.documents import FindingEntry
from benchwright.report.run import CompareDocument, RunDocument
from benchwright.results.stored import shown_summaries
from benchwright.study.catalogue import StudyPart, record_of, sessions_now
from benchwright.study.contents import tests_of
from benchwright.study.journal import Study
from benchwright.study.parsers.study import parsed_test
from benchwright.views.sessions import SessionEntry, session_entry

_SESSION_TYPES = {
    "session": "int64",
    "name": "text",
    "kind": "text",
    "state": "text",
    "started_ns": "int64",
    "lasted_ns": "int64",
    "tests": "int64",
    "commit": "text",
    "host": "text",
    "cpu": "text",
    "detail": "text",
}
_TEST_TYPES = {
    "session": "int64",
    "test": "text",
    "threads": "int64",
    "sample": "text",
    "trials": "int64",
    "metric": "text",
    "unit": "text",
    "mean": "float64",
    "median": "float64",
    "low": "float64",
    "high": "float64",
    "sdev": "float64",
    "stopped": "text",
}
_TRIAL_TYPES = {
    "session": "int64",
    "test": "text",
    "epoch": "int64",
    "threads": "int64",
    "sample": "text",
    "ending": "text",
    "warmup": "int64",
    "started_ns": "int64",
    "duration_ns": "int64",
}
Row = Mapping[str, Any]


class OpenStudy(msgspec.Struct, frozen=True):
    """A study that can be read. Each property reads it again, so that it may grow meanwhile."""

    path: Path
    keep: object = None
    """What must live as long as this, such as a temporary directory."""

    @property
    def sessions(self) -> StudyFrame:
        """One row for each session."""
        return _frame(map(_session_row, self.session_entries()), _SESSION_TYPES)

    @property
    def tests(self) -> StudyFrame:
        """One row for each test and quantity, with its interval [in `unit`]."""
        return _frame((row for one in self._measured() for row in _test_rows(*one)), _TEST_TYPES)

    @property
    def trials(self) -> StudyFrame:
        """One row for each trial; its quantities are columns, in base units: seconds, bytes."""
        rows = [row for one in self._measured() for row in _trial_rows(*one)]
        names = dict.fromkeys(name for row in rows for name in row)
        types = {name: _TRIAL_TYPES.get(name, "float64") for name in names}
        return _frame(rows, _TRIAL_TYPES | types)

    def session_entries(self) -> tuple[SessionEntry, ...]:
        """Return the sessions as `bw ls --json` has them, without their answers."""
        with contextlib.closing(Study.open_to_read(self.path)) as study:
            return tuple(
                session_entry(
                    record_of(study, session, self.path, tests_of(study, session.number)), ""
                )
                for session in sessions_now(study)
            )

    def html(self, session: int | None = None) -> str:
        """Return answer, results and their chart of a session as HTML; None: the last session.

        The page is in a frame of its own, so that neither its style nor its script changes the
        notebook.
        """
        from benchwright.page.files import gather_document
        from benchwright.page.html import render_page

        number = None if session is None else str(session)
        document = gather_document([StudyPart(self.path, number)])
        parts = tuple(
            msgspec.structs.replace(part, sections=part.sections[:1]) for part in document.parts
        )
        page = render_page(msgspec.structs.replace(document, parts=parts))
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:36rem;border:0" '
            f'title="Benchwright" srcdoc="{html.escape(page)}"></iframe>'
        )

    def _repr_html_(self) -> str:
        return self.sessions._repr_html_()

    def _measured(self) -> Iterator[tuple[int, TestResult]]:
        """Yield the tests of all sessions, each with the number of its session."""
        with contextlib.closing(Study.open_to_read(self.path)) as study:
            for session in sessions_now(study):
                if session_kind(session.info.kind) is None:
                    for test in tests_of(study, session.number):
                        yield session.number, parsed_test(test, study.path)


def open_study(path: str | Path, keep: object = None) -> OpenStudy:
    """Return a study to read; `keep` lives as long as it does.

    Raises StudyError for a directory without a study, or a damaged one.
    """
    place = Path(path)
    Study.open_to_read(place).close()
    return OpenStudy(place, keep)


def _frame(rows: Any, types: Mapping[str, str]) -> StudyFrame:
    listed: Sequence[Row] = list(rows)
    columns = {name: [row.get(name) for row in listed] for name in types}
    return StudyFrame(columns, types)


def _session_row(one: SessionEntry) -> Row:
    revision = one.revision
    same = ("session", "name", "kind", "state", "started_ns", "lasted_ns")
    return {
        **{name: getattr(one, name) for name in same},
        "tests": len(one.tests),
        "commit": None if revision is None else revision.commit,
        "host": one.host,
        "cpu": one.cpu,
        "detail": one.detail,
    }


def _test_rows(session: int, test: TestResult) -> Iterator[Row]:
    for summary in shown_summaries(test):
        yield {
            "session": session,
            "test": test.name,
            "threads": test.threads,
            "sample": json.dumps(dict(test.sample)),
            "trials": summary.count,
            "metric": summary.name,
            "unit": summary.unit,
            "mean": summary.mean,
            "median": summary.median,
            "low": summary.low,
            "high": summary.high,
            "sdev": summary.sdev,
            "stopped": None if test.stop is None else test.stop.reason,
        }


def _trial_rows(session: int, test: TestResult) -> Iterator[Row]:
    sample = json.dumps(dict(test.sample))
    for trial in test.all_trials:
        yield {
            **test.values_of(trial),
            "session": session,
            "test": test.name,
            "epoch": trial.epoch,
            "threads": trial.threads,
            "sample": sample,
            "ending": trial.ending.value,
            "warmup": int(trial.warmup),
            "started_ns": trial.started_ns,
            "duration_ns": trial.duration_ns,
        }


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
