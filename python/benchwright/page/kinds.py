"""What a feature answers about the kinds of sessions that it adds, such as a peak search, and about
the documents that trials printed, such as the result of a load.

A session of tests is the core's own kind. Of every other kind the core and the features ask its
`SessionKind` (`session_kind` in feature.py), and never compare its name. Decision: one protocol for
everything that is asked of a stored session; a port of its own for each question would be ten
tables of the same kinds. It is in this room because the page is the highest one that asks; rooms
below it, which see it through feature.py, ask only what their own types can answer.

A session runs any program, also one of ours that prints a JSON document (`bw load --study` runs the
load as a trial; a suite can run `bw load --json`). The complete result is then in the output of the
trial, and the feature that the program belongs to shows it. Decision: the output identifies the
document, not the command, since a script can run the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from benchwright.core.comparison import Better
from benchwright.core.errors import StudyError
from benchwright.core.hosts import GangClients
from benchwright.core.plan import Pairs
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Estimate, Finding
from benchwright.feature import features
from benchwright.findings.explanation import Explanation
from benchwright.findings.sanity import Claims
from benchwright.page.document import ReportPart
from benchwright.report.answer import State
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotGroup
from benchwright.run.runner import Experiment, OutputOptions, SessionOutput
from benchwright.study.journal import SessionInfo, StoredSession, Study
from benchwright.study.logs import read_output

if TYPE_CHECKING:
    from benchwright.core.observation import Trial
    from benchwright.findings.result import TestResult
    from benchwright.report.answer import Results
    from benchwright.views.blocks import Section, Tile
    from benchwright.views.terminal import Paint


_HEAD = 200
"""Bytes at the begin of an output in which the mark of its kind is."""
_MOST = 12
"""Documents on a page; a suite can repeat a program hundreds of times."""


class TrialDocument(Protocol):
    """A document that a trial printed."""

    @property
    def headline(self) -> str:
        """Its answer in a few words."""

    @property
    def sentence(self) -> str:
        """Its answer."""

    def text(self, width: int, paint: Paint, *, table_width: int | None, verbose: bool) -> str:
        """Return the report that its program prints, without findings, which the session has;
        empty where that is not possible."""


class TrialDocumentKind(Protocol):
    """A kind of documents that trials print."""

    noun: str
    """What such a document is about: `load`."""
    mark: bytes
    """What the output begins with, within its first 200 bytes: the name of its schema."""

    def read(self, output: bytes) -> TrialDocument | None:
        """Return the document; None for another program's, which can print the same name."""

    def tiles(self, one: StoredDocument) -> Iterator[Tile]:
        """Yield the figures of its answer."""

    def section(self, part: str, found: Sequence[StoredDocument]) -> Section:
        """Return the section of a page about documents of this kind, one or more."""

    def sheet(self, named: Sequence[tuple[str, TrialDocument]]) -> Sheet:
        """Return the chart of documents of this kind, each with its name in the legend."""


class StoredDocument(msgspec.Struct, frozen=True):
    """A document that a trial of a session printed."""

    id: str
    name: str
    trial: int
    """The number of its trial."""
    test: TestResult
    kind: TrialDocumentKind
    document: TrialDocument


class PrintedDocument(NamedTuple):
    """A document, and what knows such documents."""

    kind: TrialDocumentKind
    document: TrialDocument


def trial_document(study: Path, session: int, test: str, trial: Trial) -> PrintedDocument | None:
    """Return the document in a trial's stored output; None for the output of another program."""
    kinds = [kind for feature in features() for kind in feature.trial_documents()]
    for process in trial.processes:
        if process.mode != "EXEC":
            continue
        output = read_output(study, session, test, process, "out")
        for kind in kinds:
            if kind.mark in output[:_HEAD] and (found := kind.read(output)) is not None:
                return PrintedDocument(kind, found)
    return None


def stored_documents(stored: Results, most: int | None = _MOST) -> tuple[StoredDocument, ...]:
    """Return the documents in the output of a session's trials.

    `most`: how many of them at most; None: all.
    """
    found: list[StoredDocument] = []
    assert stored.session is not None, "a file has no output of trials"
    for test in stored.tests:
        documents = [
            (trial, printed)
            for trial in test.all_trials
            if (printed := trial_document(stored.path, stored.session.number, test.name, trial))
        ]
        for trial, (kind, document) in documents[: None if most is None else most - len(found)]:
            name = test.name if len(documents) == 1 else f"{test.name}, trial {trial.epoch}"
            key = f"{test.id}.{kind.noun}{trial.epoch}"
            found.append(StoredDocument(key, name, trial.epoch, test, kind, document))
    return tuple(found)


def document_sections(part: str, found: Sequence[StoredDocument]) -> Iterator[Section]:
    """Yield the section of each kind of these documents."""
    for kind in dict.fromkeys(stored_document.kind for stored_document in found):
        yield kind.section(
            part, [stored_document for stored_document in found if stored_document.kind is kind]
        )


class SampleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a session at one sample: a point of a history, if there is an estimate."""

    sample: Pairs
    metric: str
    unit: str
    better: Better
    estimate: Estimate | None
    """None where it has none, or only a bound."""
    what: str
    """What the value is in words, with a hash of what was measured, or why there is none."""
    is_answered: bool
    is_failed: bool
    findings: tuple[Finding, ...]
    """Those that concern this sample; a serious one if it is not answered, so that no gate decides by
    it."""


class SampleMetric(msgspec.Struct, frozen=True):
    """A figure of a session at one sample, which no single trial has."""

    name: str
    unit: str
    better: Better
    estimate: Estimate
    """Its ends are NaN where they are not known."""


class SampleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a session at one sample or load, as an export has them."""

    name: str
    """The sample in a name: `workers=2, buffers=64M`; empty for none."""
    sample: Pairs
    metrics: tuple[SampleMetric, ...]
    state: State
    reason: str


class SessionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a stored session found, which may be incomplete."""

    status: str
    detail: str
    """How it ended."""
    exit_status: int
    subject: str
    """What it is about: the name of its spec or workload, its target, or a program."""
    answers: tuple[SampleAnswer, ...]
    figures: tuple[SampleFigures, ...]
    sentence: str
    """The answer as a sentence."""
    spent_s: float
    """The time that its trials took [s]."""
    findings: tuple[tuple[str, Finding], ...]
    """Each with the sample that it concerns; empty: all of them."""


class SessionKind(Protocol):
    """A kind of session that a feature adds. No session of such a kind contains a test, so that
    `:TEST` selects nothing in it.

    What reads a stored session, which may be incomplete, raises StudyError for a record that cannot
    be read, and InputError if this version cannot read its request.
    """

    @property
    def title(self) -> str:
        """Its name on a page: `peak search`."""

    @property
    def noun(self) -> str:
        """What its findings concern, in the plural: `tests`, `samples`."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The options that limit a session, which ends undecided there."""

    def subject(self, info: SessionInfo) -> str:
        """Return what a session runs, for its notice: the path of its file, or `<peak>`."""

    def experiment(self, info: SessionInfo) -> Experiment[Any]:
        """Return the experiment of a session, new or stored.

        Raises InputError with all mistakes of its request, and for a package that it needs and that
        is not installed.
        """

    def output(self, experiment: Experiment[Any], options: OutputOptions) -> SessionOutput:
        """Return what a person sees of an experiment of this kind."""

    def part(
        self,
        info: SessionInfo,
        number: int,
        wanted: str,
        left_s: float | None,
        clients: GangClients | None,
    ) -> Experiment[Any]:
        """Return the experiment of one part of a session, as a task of a pool runs it.

        `number`: of the part; `wanted`: the part as the journal stores it; `left_s`: time until the
        deadline [s]; `clients`: the hosts of the gang that issue the load. Raises InputError.
        """

    def print_report(self, study: Study, session: StoredSession, options: OutputOptions) -> None:
        """Print the report, as text or as JSON."""

    def headline(self, study: Study, session: StoredSession) -> str:
        """Return the answer in one line; empty where it has none yet."""

    def page(self, study: Study, session: StoredSession, part: str) -> ReportPart:
        """Return the part of a report page; `part` is the prefix of its ids."""

    def sheet(self, study: Study, session: StoredSession) -> Sheet:
        """Return the chart."""

    def responses(self, study: Study, session: StoredSession) -> PlotGroup | None:
        """Return the responses of its trials as tests of a plot; None for too few."""

    def uses(self, study: Study, session: StoredSession) -> Sequence[ResourceUse | None]:
        """Return the use of this machine in every trial, in order, including those that do not
        count; None where it was not watched."""

    def explained(
        self, study: Study, session: StoredSession, claims: Claims
    ) -> tuple[Explanation, ...]:
        """Return what limited each of its results, with what the user states."""

    def outcome(self, study: Study, session: StoredSession) -> SessionOutcome:
        """Return what it found, with its findings."""

    def has_no_tests(self, study: Study, session: StoredSession) -> StudyError:
        """Return the error for a reader of tests."""
