"""Colours, markers, dashes and hatches that tell series apart, in grey print too.

Decision: Okabe and Ito's palette, made for the common kinds of colour blindness (grey for
its yellow, which a line on white paper loses), ordered so that neighbours differ in lightness; and never colour alone: bars are hatched, lines
have markers and dashes. Source: M. Okabe and K. Ito 2008, Color Universal
Design.
"""

from __future__ import annotations

import msgspec

from benchwright.report.plot.chart import Chart

Dash = str | tuple[int, tuple[float, ...]]
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#56B4E9",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#999999",
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (9, 3)),
    (0, (4, 1.5, 1, 1.5, 1, 1.5)),
)
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo", "--")
GREY = "#666666"
LIGHT = "#DDDDDD"


class Look(msgspec.Struct, frozen=True):
    """How one series looks."""

    colour: str
    marker: str
    dash: Dash
    hatch: str


def look(place: int) -> Look:
    """Return the look of the series at a place, from 0; 24 differ in colour or dash."""
    return mixed(place, place, place)


def mixed(colour: int, dash: int, shape: int) -> Look:
    """Return a look with a colour, a dash and a shape (marker, hatch) of its own each."""
    cycle = shape // len(_COLOURS)
    return Look(
        colour=_COLOURS[colour % len(_COLOURS)],
        marker=_MARKERS[(shape + cycle) % len(_MARKERS)],
        dash=_DASHES[dash % len(_DASHES)],
        hatch=_HATCHES[(shape + cycle) % len(_HATCHES)],
    )


def looks(chart: Chart) -> list[Look]:
    """Return how each series of a chart looks.

    Of several NAMEs with several components each, the colour is the component's and
    the dash the NAME's; of several tests under several NAMEs, the colour is the NAME's.
    """
    names = list(dict.fromkeys(series.name for series in chart.series))
    components = chart.components()
    within: dict[tuple[str, str], int] = {}
    found = []
    for place, series in enumerate(chart.series):
        name, component = names.index(series.name), components.index(series.component)
        key = (series.name, series.component)
        within[key] = within.get(key, -1) + 1
        if len(names) > 1 and len(components) > 1:
            found.append(mixed(component, name, place))
        elif 1 < len(names) < len(chart.series):
            found.append(mixed(name, within[key], place))
        else:
            found.append(look(place))
    return found
