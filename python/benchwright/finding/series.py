"""Doubts about a series of trials: warm-up, outliers, modes, drift and leaks, dependence.

Purpose: what a mean and its interval hide. One cause is told once: a warm-up is taken out
before the rest is looked at, values of a second mode are no outliers, and dependence is
judged on what a drift leaves over.
Decision: the metrics that the test is about (its rule's, or elapsed and the declared
ones) get every question, all others only that of drift; levels.py shares out the level.
Jumps (stats/changes.py) are marked in plots and are no finding: a jump late in a test is
told as drift, an early one as warm-up, and a code of its own would take from the rest.
Non-goals: causes; nothing is dropped from any figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchwright.finding.apart import modes_finding, outlier_finding
from benchwright.finding.levels import DRIFT, DRIFT_OF_OTHERS, FEWEST, OUTLIERS, Series
from benchwright.finding.order import RISING, dependence_finding, drift_finding, trend
from benchwright.finding.warm_up import rather_a_step, warm_up, warm_up_finding
from benchwright.model.finding import Finding
from benchwright.model.plan import StoppingRule, UntilPrecise
from benchwright.stats.aggregate import Column, TrialValues, columns
from benchwright.stats.outliers import Outlier, outliers
from benchwright.stats.rows import RowBook
from benchwright.stats.warmup import Truncation


def series_findings(
    test: str,
    observed: Sequence[TrialValues],
    book: RowBook,
    *,
    rule: StoppingRule | None = None,
    least_changes: Mapping[str, float] | None = None,
    also: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return the doubts about a test's series, metric by metric; `also` are metrics that
    it is about, beside its own."""
    found = {
        name: column
        for name, column in columns(observed, book).items()
        if column.values.size >= FEWEST
    }
    least = least_changes or {}
    judged = dict.fromkeys((*_about(rule, book, found), *also))
    about = [name for name in judged if name in found]
    others = [name for name in _others(book, found) if name not in about]

    def series(name: str, among: int) -> Series:
        unit, change = book.row(name).unit, least.get(name, book.least_change(name))
        return Series(test, found[name], unit, 1 / among, change)

    result: list[Finding] = []
    for name in about:
        result += examine_series(series(name, len(about)))
    for name in others:
        one = series(name, len(others))
        result += _drift_of_other(one)
    return tuple(result)


def _about(
    rule: StoppingRule | None, book: RowBook, found: Mapping[str, Column]
) -> Sequence[str]:
    """Return the metrics that the test is about."""
    if isinstance(rule, UntilPrecise):
        return rule.metrics
    if "elapsed" in found:
        return tuple(dict.fromkeys(("elapsed", *book.declared)))
    return book.judged((*found, *book.declared))


def _others(book: RowBook, found: Mapping[str, Column]) -> list[str]:
    """Return the metrics of which only a drift or a leak is asked."""
    shown = [n for n in book.shown(found) if not book.row(n).computed]
    return list(dict.fromkeys((*shown, *(n for n in RISING if n in found))))


def examine_series(one: Series) -> list[Finding]:
    """Return every doubt about one metric; the order is that of causes."""
    far = outliers(one.column.values, OUTLIERS * one.share)
    warm = _warm_up(one, far, DRIFT * one.share)
    cut = 0 if warm is None else warm.removed
    rest = one.after(cut)
    slope = trend(rest, DRIFT * one.share)
    residuals = rest.column.values if slope is None else slope.residuals
    modes = modes_finding(rest, residuals)
    if warm is not None:
        far = outliers(rest.column.values, OUTLIERS * one.share)
    found = (
        None if warm is None else warm_up_finding(one, warm),
        modes,
        outlier_finding(rest, far) if far and modes is None else None,
        None if slope is None else drift_finding(rest, slope),
        dependence_finding(rest, residuals),
    )
    return [
        msgspec.structs.replace(finding, metric=one.column.name)
        for finding in found
        if finding is not None
    ]


def _drift_of_other(one: Series) -> list[Finding]:
    far = outliers(one.column.values, OUTLIERS * one.share)
    warm = _warm_up(one, far, DRIFT_OF_OTHERS * one.share)
    rest = one if warm is None else one.after(warm.removed)
    slope = trend(rest, DRIFT_OF_OTHERS * one.share)
    found = None if slope is None else drift_finding(rest, slope)
    return [] if found is None else [found]


def _warm_up(
    one: Series, far: Sequence[Outlier], drift_level: float
) -> Truncation | None:
    """Return the warm-up; none where the series as a whole rather drifts."""
    warm = warm_up(one, far)
    if warm is None or rather_a_step(one.column.values):
        return warm
    return warm if trend(one, drift_level) is None else None
