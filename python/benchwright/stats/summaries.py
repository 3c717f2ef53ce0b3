"""Summaries of a test's quantities, in the table's order: what most callers want."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from benchwright.model.estimate import Summary
from benchwright.model.observation import Trial
from benchwright.model.plan import MetricSpec
from benchwright.stats.aggregate import Column, TrialValues, columns, observe_trials
from benchwright.stats.describe import summarise
from benchwright.stats.rows import RowBook


def summarise_columns(
    found: Mapping[str, Column],
    names: Iterable[str],
    book: RowBook,
    confidence: float = 0.95,
) -> tuple[Summary, ...]:
    """Return one summary per name, in the order of `names`.

    A name that no trial has gives a summary of n = 0: a declared metric is never
    silently absent from the table. The interval of a quantity that cannot be below 0
    ends there: its half width stays that of Student's.
    """
    result = []
    for name in names:
        row, column = book.row(name), found.get(name)
        summary = summarise(
            name,
            column.values if column else (),
            label=row.label,
            unit=row.unit,
            confidence=confidence,
            epochs=column.epochs if column else None,
        )
        if not row.signed and summary.minimum >= 0 > summary.low:
            summary = msgspec.structs.replace(summary, low=0.0)
        result.append(summary)
    return tuple(result)


def summarise_trials(
    trials: Iterable[Trial],
    specs: Sequence[MetricSpec] = (),
    *,
    confidence: float = 0.95,
    everything: bool = False,
    observed: Sequence[TrialValues] | None = None,
) -> tuple[Summary, ...]:
    """Return the rows of a test's table: the trials that count, threads aggregated.

    `observed` are the trials' values where the caller has them already.
    """
    book = RowBook(specs)
    found = columns(
        observe_trials(trials, book) if observed is None else observed, book
    )
    names = book.shown((*found, *book.declared), everything=everything)
    return summarise_columns(found, names, book, confidence)
