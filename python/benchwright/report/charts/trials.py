"""Charts of single trials: their distribution, and their course in time order.

Purpose: what a mean hides. One row for each test with every value and the mean with its
interval below them; the share of trials at or below each value; each trial in the order of time,
with those that do not count. Decision: rows instead of columns, so that names of any length fit;
the interval is the one that the answer reports, passed in. Values are spread by a fixed sequence,
not at random. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchwright.core.numeric import np
from benchwright.core.observation import FAILED_ENDINGS, Trial, TrialEnding
from benchwright.core.quantity import finite
from benchwright.core.results import Estimate
from benchwright.findings.result import TestResult
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    ecdf_steps,
    named_ticks,
)
from benchwright.stats.arrays import FloatArray

FEWEST_OF_ECDF = 20
"""Minimum number of trials of a test whose steps show the shape of a distribution."""
_MOST_OF_ECDF = 6
_GOLDEN = 0.6180339887498949
_ABOVE, _BELOW, _SPREAD = -0.14, 0.28, 0.42
"""In a row: the middle of the values, the place of the mean, the height of the values."""
_BLACK = 6
_PANELS_IN_COLUMN = 4

TrialState = Literal["counted", "warm-up", "void", "failed"]


class ShownTrial(msgspec.Struct, frozen=True):
    """One trial with its value of one metric."""

    epoch: int
    value: float | None
    """None if the trial did not measure it."""
    state: TrialState = "counted"


class ShownTest(msgspec.Struct, frozen=True):
    """One test's trials in the order of time, and the estimate that the answer reports."""

    name: str
    trials: tuple[ShownTrial, ...]
    estimate: Estimate | None = None

    def counted(self) -> tuple[ShownTrial, ...]:
        """Return the trials that count and have a value."""
        return tuple(
            trial for trial in self.trials if trial.state == "counted" and trial.value is not None
        )


def shown_test(test: TestResult, name: str, metric: str, estimate: Estimate | None) -> ShownTest:
    """Return a test's trials, void and failed ones included, with their values of a metric."""
    ordered = sorted(states_of(test), key=lambda one: (one[0].started_ns, one[0].epoch))
    return ShownTest(
        name,
        tuple(
            ShownTrial(trial.epoch, finite(test.values_of(trial).get(metric, math.nan)), state)
            for trial, state in ordered
        ),
        estimate,
    )


def states_of(test: TestResult) -> list[tuple[Trial, TrialState]]:
    """Return all trials of a test in order of epoch, each with whether it counts, or why not."""
    void = set(map(id, test.void_trials))

    def state(trial: Trial) -> TrialState:
        if trial.ending in FAILED_ENDINGS:
            return "failed"
        if id(trial) in void or trial.ending is TrialEnding.INTERRUPTED:
            return "void"
        return "warm-up" if trial.warmup else "counted"

    return [(trial, state(trial)) for trial in test.all_trials]


def metric_axis(label: str, unit: str) -> PanelAxis:
    """Return the axis of a metric; times are drawn in nanoseconds, so that ticks have a unit."""
    if unit == "s":
        return PanelAxis(label, AxisUnit.TIME)
    plain = not unit or label.endswith("%")
    return PanelAxis(label if plain else f"{label} ({unit})")


def scale_of_axis(axis: PanelAxis) -> float:
    """Return by what a value of a metric is multiplied on its axis."""
    return 1e9 if axis.unit is AxisUnit.TIME else 1.0


# -- distributions -----------------------------------------------------------------------


def distribution_sheet(tests: Sequence[ShownTest], axis: PanelAxis) -> Sheet:
    """Return the values of each test with its mean; beside them the ECDF of a few tests with
    enough trials. The metric is along `axis` (`metric_axis`)."""
    panels = [values_panel(tests, axis)]
    fewest = min((len(test.counted()) for test in tests), default=0)
    if fewest >= FEWEST_OF_ECDF and len(tests) <= _MOST_OF_ECDF:
        panels.append(ecdf_panel(tests, axis))
    return Sheet("", tuple(panels))


def values_panel(tests: Sequence[ShownTest], axis: PanelAxis, rows: str = "") -> Panel:
    """Return a row for each test: every value that counts, and below them the mean with its
    interval. `rows` is what the names of the rows are."""
    scale = scale_of_axis(axis)
    curves: list[PanelCurve] = []
    means: list[tuple[int, Estimate]] = []
    for row, test in enumerate(tests):
        counted = test.counted()
        if counted:
            places = row + _ABOVE + jitter(len(counted)) * _SPREAD
            curves.append(
                PanelCurve(
                    "trials" if not curves else "",
                    tuple(places.tolist()),
                    tuple((trial.value or 0.0) * scale for trial in counted),
                    CurveForm.VALUES,
                    names=tuple(_trial_name(test, trial) for trial in counted),
                )
            )
        if test.estimate is not None and finite(test.estimate.value) is not None:
            means.append((row, test.estimate))
    if means:
        curves.append(_estimates(means, scale, [test.name for test in tests]))
    return Panel(
        "",
        PanelAxis(rows, ticks=named_ticks(test.name for test in tests)),
        axis,
        tuple(curves),
        missing="" if curves else "no trial has a value",
        sideways=True,
    )


def _estimates(
    means: Sequence[tuple[int, Estimate]], scale: float, names: Sequence[str]
) -> PanelCurve:
    """Return the estimates as points with their intervals, where those are finite."""
    known = [
        finite(estimate.low) is not None and finite(estimate.high) is not None
        for _, estimate in means
    ]
    levels = {
        estimate.confidence
        for (_, estimate), both in zip(means, known, strict=True)
        if both and estimate.confidence
    }
    level = levels.pop() if len(levels) == 1 else math.nan
    percent = f"{100 * level:g} % " if math.isfinite(level) else ""
    label = f"estimate, {percent}interval" if any(known) else "estimate"
    ends = [
        (estimate.low * scale, estimate.high * scale) if both else (None, None)
        for (_, estimate), both in zip(means, known, strict=True)
    ]
    return PanelCurve(
        label,
        tuple(row + _BELOW for row, _ in means),
        tuple(estimate.value * scale for _, estimate in means),
        CurveForm.POINTS,
        colour=_BLACK,
        shape=3,
        low=tuple(low for low, _ in ends) if any(known) else (),
        high=tuple(high for _, high in ends) if any(known) else (),
        names=tuple(names[row] for row, _ in means),
    )


def ecdf_panel(tests: Sequence[ShownTest], axis: PanelAxis) -> Panel:
    """Return the share of trials at or below each value, as steps."""
    scale = scale_of_axis(axis)
    curves = []
    for place, test in enumerate(tests):
        x, y = ecdf_steps((trial.value or 0.0) * scale for trial in test.counted())
        if x:
            curves.append(PanelCurve(test.name, x, y, CurveForm.STEPS, colour=place, dash=place))
    return Panel(
        "",
        axis,
        PanelAxis("share of trials", AxisUnit.SHARE, low=0.0, high=1.02),
        tuple(curves),
        missing="" if curves else "no trial has a value",
    )


def jitter(count: int) -> FloatArray:
    """Return evenly spread offsets in (-0.5, 0.5), shape `(count,)`; deterministic."""
    return np.arange(1, count + 1, dtype=np.float64) * _GOLDEN % 1 - 0.5


def _trial_name(test: ShownTest, trial: ShownTrial) -> str:
    state = "" if trial.state == "counted" else f", {trial.state}"
    return f"{test.name} trial {trial.epoch}{state}".strip()


# -- the course over time ----------------------------------------------------------------

STATE_LOOKS: dict[TrialState, tuple[str, int, int]] = {
    "counted": ("trials", 0, 0),
    "warm-up": ("warm-up trial", 7, 1),
    "void": ("void", 1, 2),
    "failed": ("failed", 3, 6),
}
"""Label, colour and marker of the trials of each state."""


def course_sheet(tests: Sequence[ShownTest], axis: PanelAxis) -> Sheet:
    """Return the run chart of each test, in a panel of its own."""
    panels = tuple(course_panel(test, axis) for test in tests)
    return Sheet("", panels, columns=1 if len(panels) <= _PANELS_IN_COLUMN else 2)


def course_panel(test: ShownTest, axis: PanelAxis) -> Panel:
    """Return a test's trials in the order of time: those that count, and with markers of their
    own those that do not; the estimate with its interval as a band.

    A trial without a value is a shaded place on the axis.
    """
    scale = scale_of_axis(axis)
    curves = []
    estimate = test.estimate
    places = {id(trial): at for at, trial in enumerate(test.trials, 1)}
    counted = [places[id(trial)] for trial in test.counted()]
    if counted and estimate is not None and finite(estimate.value) is not None:
        ends = (float(counted[0]), float(counted[-1]))
        band = None
        if finite(estimate.low) is not None and finite(estimate.high) is not None:
            band = (estimate.low * scale, estimate.high * scale)
        curves.append(
            PanelCurve(
                "estimate with its interval" if band else "estimate",
                ends,
                (estimate.value * scale,) * 2,
                colour=_BLACK,
                low=(band[0],) * 2 if band else (),
                high=(band[1],) * 2 if band else (),
            )
        )
    for state, (label, colour, shape) in STATE_LOOKS.items():
        points = [t for t in test.trials if t.state == state and t.value is not None]
        if points:
            curves.append(
                PanelCurve(
                    label,
                    tuple(float(places[id(trial)]) for trial in points),
                    tuple((trial.value or 0.0) * scale for trial in points),
                    CurveForm.POINTS,
                    colour=colour,
                    shape=shape,
                    names=tuple(_trial_name(test, trial) for trial in points),
                )
            )
    spans = []
    for trial in test.trials:
        if trial.value is None:
            at = places[id(trial)]
            label = f"{trial.state}, without a value"
            spans.append(ShadedRange(label, at - 0.4, at + 0.4, in_legend=True))
    along = PanelAxis(
        "trial, in the order of time", AxisUnit.COUNT, low=0.4, high=len(test.trials) + 0.6
    )
    missing = "" if curves or spans else "no trial has ended"
    return Panel(test.name, along, axis, tuple(curves), spans=tuple(spans), missing=missing)
