"""Documents that trials printed, such as the result of a load: a port.

A session runs any program, also one of ours that prints a JSON document (`bw load --study` runs the
load as a trial; a suite can run `bw load --json`). The complete result is then in the output of the
trial, and the feature that the program belongs to shows it. Decision: the output identifies the
document, not the command, since a script can run the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from benchwright.feature import features
from benchwright.study.logs import read_output

if TYPE_CHECKING:
    from benchwright.core.observation import Trial
    from benchwright.findings.result import TestResult
    from benchwright.report.answer import Results
    from benchwright.report.charts.sheet import Sheet
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
    for kind in dict.fromkeys(one.kind for one in found):
        yield kind.section(part, [one for one in found if one.kind is kind])
