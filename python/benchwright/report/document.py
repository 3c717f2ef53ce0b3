"""What a report says, before it has a form.

Purpose: one neutral structure that every renderer reads (table, CSV, Markdown, LaTeX,
JSON), so that the same figure cannot differ between forms.
Non-goals: no text, no width, no rounding here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.model.decision import Stop
from benchwright.model.estimate import Summary
from benchwright.model.finding import Finding
from benchwright.model.plan import Pairs
from benchwright.stats.overhead import overhead_percent, percent_of_mean
from benchwright.stats.sample_comparison import InputComparison


class Line(msgspec.Struct, frozen=True):
    """One quantity of one input."""

    summary: Summary
    sdev_percent: float
    """SDEV% [% of the mean]."""
    half_width_percent: float
    """HW% [% of the mean]."""
    overhead_percent: float | None = None
    """O/H [% of the baseline's mean]; None in the baseline itself, NaN where the
    baseline has no such quantity or a mean of 0."""


class Section(msgspec.Struct, frozen=True):
    """One input: a test of a study, or a file."""

    name: str
    lines: tuple[Line, ...]
    stop: Stop | None = None
    sample: Pairs = ()
    threads: int | None = None


class Notice(msgspec.Struct, frozen=True):
    """A line that asks for a look, without doubting the result: no finding."""

    subject: str
    text: str
    size: float = 0.0
    """How far out it is: of many the largest are printed."""


class Document(msgspec.Struct, frozen=True):
    """Everything that `bw stats` says."""

    sections: tuple[Section, ...]
    findings: tuple[Finding, ...] = ()
    notices: tuple[Notice, ...] = ()
    baseline: int = 0
    """Place of the section that overheads refer to."""
    confidence: float = 0.95
    comparisons: tuple[InputComparison, ...] = ()
    """What `--ttest` found, each input against the baseline."""


class Entry(msgspec.Struct, frozen=True):
    """What a caller knows of one input."""

    name: str
    summaries: tuple[Summary, ...]
    stop: Stop | None = None
    sample: Pairs = ()
    threads: int | None = None


def compose(
    entries: Sequence[Entry],
    findings: Sequence[Finding] = (),
    *,
    notices: Sequence[Notice] = (),
    baseline: int = 0,
    confidence: float = 0.95,
    comparisons: Sequence[InputComparison] = (),
) -> Document:
    """Return the document: percentages of the mean, and overheads against a baseline.

    `baseline` is the place of an entry. Without entries the document is empty.
    """
    means = {s.name: s.mean for s in entries[baseline].summaries} if entries else {}
    sections = tuple(
        Section(
            name=entry.name,
            lines=tuple(
                _line(summary, None if place == baseline else means)
                for summary in entry.summaries
            ),
            stop=entry.stop,
            sample=entry.sample,
            threads=entry.threads,
        )
        for place, entry in enumerate(entries)
    )
    return Document(
        sections,
        tuple(findings),
        tuple(notices),
        baseline,
        confidence,
        tuple(comparisons),
    )


def _line(summary: Summary, means: dict[str, float] | None) -> Line:
    overhead = None
    if means is not None:
        overhead = overhead_percent(summary.mean, means.get(summary.name, float("nan")))
    return Line(
        summary,
        percent_of_mean(summary.sdev, summary.mean),
        percent_of_mean(summary.half_width, summary.mean),
        overhead,
    )
