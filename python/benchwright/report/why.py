"""The document of `bw why`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from benchwright.core.resource_use import ProgramUse, ResourceUse, TaskUse
from benchwright.core.results import Finding
from benchwright.findings.explanation import Explanation
from benchwright.findings.observed import ObservedFiles
from benchwright.findings.use_table import UseRow
from benchwright.report.answer import FindingGroup, finding_groups
from benchwright.report.documents import FindingEntry, entries, entry


def groups_of(
    results: Iterable[Explanation],
    findings: Callable[[Explanation], Sequence[Finding]],
    about: Sequence[Finding] = (),
) -> tuple[FindingGroup, ...]:
    """Return the groups of some findings of each result, and of those `about` no single one."""
    named = [(result.name, finding) for result in results for finding in findings(result)]
    return finding_groups([*(("", finding) for finding in about), *named])


class FigureEntry(msgspec.Struct, frozen=True):
    """The quantity that a result is about."""

    name: str
    label: str
    unit: str
    count: int
    mean: float | None
    low: float | None
    high: float | None
    confidence: float


class LimitEntry(msgspec.Struct, frozen=True):
    """The criterion of a search's load, and its limit."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]


class AbsentEntry(msgspec.Struct, frozen=True):
    """Something that was not measured, and the reason."""

    what: str
    why: str


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the USE table covers."""

    epochs: tuple[int, int]
    seconds: float
    samples: int
    series: str | None
    """The file of the sampler's series, relative to the study."""
    sampler_cores: float | None
    tasks: tuple[TaskUse, ...]
    others: tuple[TaskUse, ...]
    programs: tuple[ProgramUse, ...]
    absent: tuple[AbsentEntry, ...]


class ExplanationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One result explained."""

    name: str
    sample: dict[str, str]
    threads: int | None
    figure: FigureEntry | None
    limit: LimitEntry | None
    first: str | None
    """The code of the first cause."""
    limited_by: str | None
    """The code of the first limit."""
    sentence: str | None
    """Text for a result without a limit; null if there is one."""
    causes: tuple[FindingEntry, ...]
    trials: int
    trials_watched: int
    watched_s: float
    window: WindowEntry | None
    use: tuple[UseRow, ...]
    findings: tuple[FindingEntry, ...]
    files: ObservedFiles


class WhyDocument(msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/why/1"):
    """Limiters of each result."""

    study: str
    session: int | None
    results: tuple[ExplanationEntry, ...]
    groups: tuple[FindingGroup, ...]
    """The causes of all results together, the most severe first."""
    findings: tuple[FindingEntry, ...]
    """About the session or the file, and no single result."""


def why_document(
    results: Iterable[Explanation], study: str, session: int | None, about: Sequence[Finding] = ()
) -> WhyDocument:
    """Return the document of all results."""
    explained = tuple(results)
    groups = groups_of(explained, lambda one: one.causes)
    return WhyDocument(
        study,
        session,
        tuple(map(_explanation_entry, explained)),
        groups,
        entries(FindingEntry, about),
    )


def _explanation_entry(explanation: Explanation) -> ExplanationEntry:
    limit = explanation.criterion
    return ExplanationEntry(
        name=explanation.name,
        sample=dict(explanation.sample),
        threads=explanation.threads,
        figure=None if explanation.figure is None else entry(FigureEntry, explanation.figure),
        limit=None
        if limit is None
        else entry(LimitEntry, limit, name=limit.key, value=limit.limit),
        first=explanation.first or None,
        limited_by=explanation.limited_by or None,
        sentence=explanation.sentence or None,
        causes=entries(FindingEntry, explanation.causes),
        trials=explanation.trials,
        trials_watched=explanation.watched,
        watched_s=explanation.watched_s,
        window=None if explanation.window is None else _window_entry(explanation.window),
        use=explanation.table,
        findings=entries(FindingEntry, explanation.findings),
        files=explanation.files or ObservedFiles(),
    )


def _window_entry(use: ResourceUse) -> WindowEntry:
    return entry(
        WindowEntry,
        use,
        series=use.series or None,
        sampler_cores=use.sampler_cost,
        absent=tuple(AbsentEntry(what, why) for what, why in use.absent),
    )
