"""What is drawn: series of points with their intervals, on named axes.

Purpose: one description for every mode, so that the picture, `--json` and `--datafile`
cannot disagree. Decision: a point carries its place on the axis, its bar's base and
width, so that layout is computed (and tested) here and drawing only draws; handing
matplotlib the data and asking it afterwards lost. Absent is not zero: a value that is
None is a gap. Non-goal: colours and fonts (`look.py`, `style.py`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Mode(StrEnum):
    """What kind of chart."""

    LINE = "line"
    BAR = "bar"
    ECDF = "ecdf"
    VIOLIN = "violin"
    STRIP = "strip"
    EPOCHS = "epochs"
    RATIO = "ratio"


ABSENT = "no trial that counts has it"
"""Why most gaps are there."""
DISTRIBUTIONS = (Mode.ECDF, Mode.VIOLIN, Mode.STRIP)


class Values(msgspec.Struct, frozen=True):
    """The single values of a test: one per trial that counts."""

    epochs: tuple[int, ...]
    values: tuple[float, ...]
    removed: int = 0
    """How many at the beginning are warm-up."""
    changes: tuple[int, ...] = ()
    """Places, from 0, at which a new segment begins."""


class Point(msgspec.Struct, frozen=True):
    """One test in a series."""

    test: str
    """The input's name."""
    label: str
    """What stands under it on the axis: a factor's level, or a name."""
    x: float
    """Its place on the axis: the number itself, or where its category is."""
    n: int = 0
    """How many trials."""
    value: float | None = None
    """In the series' unit; None is a gap."""
    gap: str = ""
    """Why there is no value."""
    low: float | None = None
    """Lower end of the error bar; None where there is none."""
    high: float | None = None
    method: str = ""
    """Of the error bar."""
    short: tuple[tuple[str, str], ...] = ()
    """Tests with too few trials for an error bar, each with what it has; empty: this
    test itself."""
    base: float = 0.0
    """Where a stacked bar begins, in the series' unit."""
    width: float = 0.0
    """Of a bar, in the unit of `x`."""
    values: Values | None = None


class Series(msgspec.Struct, frozen=True):
    """One quantity of the tests under one name."""

    name: str
    """As on the command line."""
    component: str
    """Its label, such as `Elapsed`."""
    unit: str
    legend: str
    """In the legend; series with the same text look the same."""
    points: tuple[Point, ...]


class Tick(msgspec.Struct, frozen=True):
    """A label on the horizontal axis."""

    x: float
    label: str


class Chart(msgspec.Struct, frozen=True):
    """Everything that one picture shows."""

    mode: Mode
    series: tuple[Series, ...]
    xlabel: str = ""
    ylabel: str = ""
    ticks: tuple[Tick, ...] = ()
    """Labels of the horizontal axis; empty where its numbers are."""
    blocks: tuple[Tick, ...] = ()
    """A second row of labels, under groups of ticks."""
    factor: str = ""
    """What varies along the horizontal axis, where that is known."""
    numeric: bool = False
    """The horizontal axis is one of numbers."""
    baseline: str = ""
    """What ratios refer to."""
    confidence: float = 0.95
    errorbars: str = "t"

    def legends(self) -> tuple[str, ...]:
        """Return the legend's texts, each once, in order."""
        return tuple(dict.fromkeys(series.legend for series in self.series))

    def components(self) -> tuple[str, ...]:
        """Return the labels of the quantities, each once, in order."""
        return tuple(dict.fromkeys(series.component for series in self.series))


def named(label: str, unit: str) -> str:
    """Return a quantity's label with its unit: `Elapsed (s)`, `CPU%`."""
    return f"{label} ({unit})" if unit and not label.endswith("%") else label
