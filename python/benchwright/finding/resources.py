"""Findings of a test from what was seen of the machine: limits, and doubts about figures.

Purpose: one call for examine(). One finding per cause, naming its epochs. Decision: limits and
lasting doubts must hold for most of the watched time; errors are told wherever they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchwright.finding import machine_doubts as doubts
from benchwright.finding import sanity
from benchwright.finding.codes import doubt
from benchwright.finding.granularity import grain_text, start_text
from benchwright.finding.limit import Capacity
from benchwright.finding.sanity import Claims, Figure
from benchwright.finding.windows import (
    Window,
    counts,
    named_limits,
    showing,
    windows_of,
)
from benchwright.finding.words import epochs_text
from benchwright.model.finding import Finding, Severity
from benchwright.model.observation import Trial
from benchwright.model.watched import ResourceUse
from benchwright.stats.aggregate import TrialValues, columns
from benchwright.stats.rows import RowBook

_ANYWHERE: tuple[tuple[str, Callable[[ResourceUse], str], Severity | None], ...] = (
    ("errors-in-kernel-log", doubts.kernel_errors, None),
    ("errors-in-kernel-log", doubts.kernel_warnings, Severity.NOTE),
    ("thermal", doubts.heat, None),
    ("frequency-changed", doubts.frequency_within, None),
    ("network-errors", doubts.lost_packets, None),
    ("not-watched", doubts.unseen, None),
    ("not-watched", doubts.not_allowed, None),
)
_MOSTLY: tuple[tuple[str, Callable[[ResourceUse], str], Severity | None], ...] = (
    ("steal", doubts.steal_doubt, Severity.NOTE),
)
_BETWEEN: tuple[tuple[str, Callable[[Sequence[ResourceUse]], str]], ...] = (
    ("environment-changed-between-trials", doubts.changed),
    ("frequency-changed", doubts.frequency_between),
)


def resource_findings(
    name: str,
    trials: Sequence[Trial],
    observed: Sequence[TrialValues],
    book: RowBook,
    claims: Claims | None = None,
) -> list[Finding]:
    """Return the findings of a test about the machine that it ran on."""
    windows, said = windows_of(trials), claims or Claims()
    figures = figures_of(observed, book)
    return [
        *limit_findings(name, windows, len(trials), said.capacities),
        *window_findings(name, windows, len(trials)),
        *_figure_findings(name, windows, len(trials), figures, said),
        *_too_short(name, trials, observed, book),
        *_partly_watched(name, trials, windows),
    ]


def figures_of(observed: Sequence[TrialValues], book: RowBook) -> tuple[Figure, ...]:
    """Return the figures of a test that are its own, not getrusage's: medians."""
    found = columns(observed, book)
    return tuple(
        Figure(name, float(median(found[name].values.tolist())), book.row(name).unit)
        for name in book.shown(found)
        if not book.row(name).computed
    )


def limit_findings(
    name: str,
    windows: Sequence[Window],
    total: int,
    capacities: Sequence[Capacity] = (),
) -> list[Finding]:
    """Return a finding for each thing that limited a test, most explanatory first."""
    return [
        doubt(
            one.limit.code,
            name,
            f"{one.limit.evidence}{where(one.epochs, total)}",
        )
        for one in named_limits(windows, capacities)
    ]


def window_findings(name: str, windows: Sequence[Window], total: int) -> list[Finding]:
    """Return the doubts that windows raise by themselves, and beside each other."""
    found = []
    for code, evidence_of, severity in _ANYWHERE:
        text, epochs = showing(windows, evidence_of)
        if text:
            found.append(doubt(code, name, text + where(epochs, total), severity))
    for code, evidence_of, severity in _MOSTLY:
        text, epochs = showing(windows, evidence_of, mostly=True)
        if text:
            found.append(doubt(code, name, text + where(epochs, total), severity))
    told = {finding.code for finding in found}
    for code, between in _BETWEEN:
        text = between([window.use for window in windows])
        if text and code not in told:
            found.append(doubt(code, name, text))
    return found


def _figure_findings(
    name: str,
    windows: Sequence[Window],
    total: int,
    figures: Sequence[Figure],
    said: Claims,
) -> Iterator[Finding]:
    """Yield whether the figures can be what they say."""
    uses = [window.use for window in windows]
    text, epochs = showing(windows, sanity.from_cache, mostly=True)
    if text:
        storage = any(map(sanity.about_storage, uses)) or any(
            sanity.implied(figure, said) is not None for figure in figures
        )
        severity = None if storage else Severity.NOTE
        evidence = text + where(epochs, total)
        yield doubt("answered-from-cache", name, evidence, severity)
    for figure in figures:
        text = sanity.exceeded(figure, said, uses)
        if text:
            yield doubt("exceeds-known-limit", name, text)
    text, epochs = showing(
        windows, lambda use: sanity.io_size(use, said.operation_bytes), mostly=True
    )
    if text:
        yield doubt("io-size-not-as-claimed", name, text + where(epochs, total))


def _too_short(
    name: str,
    trials: Sequence[Trial],
    observed: Sequence[TrialValues],
    book: RowBook,
) -> Iterator[Finding]:
    found = columns(observed, book)
    declared = [metric for metric in book.declared if metric in found]
    if "elapsed" in found and not declared:
        text = start_text(trials, found["elapsed"].values.tolist())
        if text:
            yield doubt("work-too-short-for-the-clock", name, text)
    for metric in book.shown(found):
        row = book.row(metric)
        if not row.computed and metric not in ("user", "system"):
            text = grain_text(metric, row.unit, found[metric].values.tolist())
            if text:
                yield doubt("work-too-short-for-the-clock", name, text)


def _partly_watched(
    name: str, trials: Sequence[Trial], windows: Sequence[Window]
) -> Iterator[Finding]:
    """Yield which trials were not watched, where others were."""
    seen = {epoch for window in windows for epoch in window.epochs}
    if not seen:
        return
    missed = [
        trial.epoch for trial in trials if counts(trial) and trial.epoch not in seen
    ]
    if missed:
        text = f"not watched: {epochs_text(missed, len(trials))}"
        yield doubt("not-watched", name, text)


def where(epochs: Sequence[int], total: int) -> str:
    """Return ` (epochs 2, 5 (2 of 10 trials))`, or ` (all 10 trials)`; of one nothing."""
    if len(epochs) >= total:
        return f" (all {total} trials)" if total > 1 else ""
    return f" ({epochs_text(epochs, total)})"
