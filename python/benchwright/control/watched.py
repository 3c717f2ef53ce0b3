"""The quantities that a rule looks at, summarised."""

from __future__ import annotations

from benchwright.control.history import History
from benchwright.model.estimate import Summary
from benchwright.model.plan import MetricSpec
from benchwright.stats.describe import summarise
from benchwright.stats.rows import RowBook


def watched_summaries(
    history: History, names: tuple[str, ...] = (), confidence: float = 0.95
) -> tuple[Summary, ...]:
    """Return summaries of `names`, or of what a predicate is asked about.

    A declared metric that no trial yielded is there with a count of 0, so that no
    predicate over it can hold.
    """
    book = RowBook([MetricSpec(name) for name in history.metrics])
    chosen = names or book.judged((*history.series, *history.metrics))
    return tuple(
        summarise(
            name,
            history.series.get(name, ()),
            label=book.row(name).label,
            unit=book.row(name).unit,
            confidence=confidence,
        )
        for name in chosen
    )
