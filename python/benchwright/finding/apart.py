"""Outliers and modes: values that stand apart, whatever their order.

Purpose: two or more values together, apart from all others, are a mode; else those that
stand apart are outliers, named, classified and kept.
Sources: stats/outliers.py, stats/modes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.finding.codes import doubt
from benchwright.finding.levels import MODES, OUTLIERS, Series
from benchwright.finding.words import amount, epochs_text
from benchwright.model.finding import Finding
from benchwright.stats.modes import two_modes
from benchwright.stats.moments import FloatArray, moments
from benchwright.stats.outliers import Outlier, threshold


def outlier_finding(one: Series, apart: Sequence[Outlier]) -> Finding:
    """Return the doubt about a series' outliers, at least one."""
    values, places = one.column.values, [o.place for o in apart]
    rest = moments(np.delete(values, places)).mean
    every = moments(values).mean
    worst = max(apart, key=lambda o: abs(o.score))
    kind = "extreme" if any(o.extreme for o in apart) else "mild"
    epochs = epochs_text([int(one.column.epochs[p]) for p in places], values.size)
    limit = threshold(values.size, OUTLIERS * one.share)
    evidence = (
        f"{one.column.name}: {kind} outlier{'' if len(apart) == 1 else 's'} in {epochs}, "
        f"up to {amount(worst.value, one.unit)}, {abs(worst.score):.1f} scaled MADs "
        f"{'above' if worst.score > 0 else 'below'} the median (threshold {limit:.1f}); "
        f"mean {amount(every, one.unit)} with, {amount(rest, one.unit)} without"
    )
    return doubt("outliers", one.test, evidence)


def modes_finding(one: Series, residuals: FloatArray) -> Finding | None:
    """Return the doubt about two modes, if there are two.

    They must show in what a drift leaves over too, `residuals` of shape `(n,)`: a ramp
    that stands still on both ends has two groups of values, but one cause.
    """
    values = one.column.values
    found = two_modes(values, MODES * one.share)
    if found is None or two_modes(residuals, MODES * one.share) is None:
        return None
    evidence = (
        f"{one.column.name} has two modes: {found.n_low} trials near "
        f"{amount(found.low, one.unit)} and {found.n_high} near "
        f"{amount(found.high, one.unit)}, with nothing between for {found.gap:.1f} "
        "standard deviations: no single trial is close to the mean"
    )
    return doubt("multimodal", one.test, evidence)
