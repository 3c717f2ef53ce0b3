"""Panels as SVG: well-formed, complete, inert, small and the same each time."""

from __future__ import annotations

import math
import random
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchwright.report.charts.sheet import (
    AxisTick,
    AxisUnit,
    CurveForm,
    HeightGrid,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    named_ticks,
    tick_labels,
    tick_positions,
    tick_text,
)
from benchwright.report.charts.svg import CHART_CSS, area_above, described, panel_svgs, sheet_svg

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b[2J\u202e"
X, Y = PanelAxis("level"), PanelAxis("Elapsed (s)")
STEPS = tuple(-1 + at / 8 for at in range(17))


def curve(form: CurveForm, points: int = 30, **more: object) -> PanelCurve:
    """Return a curve of random values with intervals."""
    values = [random.Random(points).uniform(1, 2) + at / 9 for at in range(points)]
    made = PanelCurve(
        "gzip",
        tuple(map(float, range(points))),
        tuple(values),
        form,
        low=tuple(value - 0.1 for value in values),
        high=tuple(value + 0.1 for value in values),
    )
    return msgspec.structs.replace(made, **more)


def grid(heights: list[list[float]], **more: object) -> HeightGrid:
    """Return a grid of heights from 0 to 1."""
    x_at = tuple(map(float, range(len(heights[0]))))
    y_at = tuple(map(float, range(len(heights))))
    rows = tuple(map(tuple, heights))
    return msgspec.structs.replace(HeightGrid(x_at, y_at, rows, (0.0, 1.0)), **more)


def svg(panel: Panel) -> str:
    """Return the SVG of one panel."""
    (text,) = panel_svgs(Sheet("sheet", (panel,)), prefix="p")
    return text


def parsed(text: str) -> ET.Element:
    """Return the root; raises ParseError where a browser would have to guess."""
    return ET.fromstring(text)


def test_a_legend_shows_a_range_and_a_single_value_as_the_plot_does() -> None:
    spans = (
        ShadedRange("step", 0, 1, in_legend=True),
        ShadedRange("environment changed", 1, 1, at=1, in_legend=True),
    )
    root = parsed(svg(Panel("", X, Y, (curve(CurveForm.POINTS),), spans=spans)))
    looks = [one.get("class") for one in root if one.get("class") in ("span", "at")]
    assert looks[:2] == ["span", "at"]


@pytest.mark.parametrize("form", CurveForm)
@pytest.mark.parametrize("sideways", [False, True])
def test_every_form_is_well_formed_and_small(form: CurveForm, sideways: bool) -> None:
    panel = Panel("Elapsed", X, Y, (curve(form),), sideways=sideways)
    text = svg(panel)
    root = parsed(text)
    assert root.get("role") == "img"
    assert len(text) < 12_000
    drawn = [one for one in root.iter() if one.tag in ("path", "circle", "rect")]
    assert len(drawn) >= 3, "the axes, the grid lines and the curve"


@pytest.mark.parametrize(
    "form",
    [
        *(CurveForm.MARKED, CurveForm.POINTS, CurveForm.VALUES),
        *(CurveForm.LEVELS, CurveForm.BARS, CurveForm.INTERVALS),
    ],
)
def test_every_value_with_its_interval_is_in_the_picture(form: CurveForm) -> None:
    one = curve(form, 9)
    titles = [e.text or "" for e in parsed(svg(Panel("", X, Y, (one,)))).iter("title")]
    for value, low, high in zip(one.y, one.low, one.high, strict=True):
        assert value is not None
        assert low is not None
        assert high is not None
        interval = f"({tick_text(low, Y)} to {tick_text(high, Y)})"
        assert any(tick_text(value, Y) in title and interval in title for title in titles)


def test_names_of_points_replace_their_positions() -> None:
    one = curve(CurveForm.POINTS, 2, names=("trial 1", "trial 2, void"))
    text = svg(Panel("", X, Y, (one,)))
    assert ">trial 2, void: " in text


def test_names_from_commands_are_text() -> None:
    axis = PanelAxis(HOSTILE, ticks=named_ticks([HOSTILE, "b"]))
    sheet = Sheet(
        HOSTILE,
        (
            Panel(
                HOSTILE,
                msgspec.structs.replace(axis, groups=(AxisTick(0.5, HOSTILE),)),
                PanelAxis(HOSTILE),
                (
                    curve(CurveForm.BARS, 2, label=HOSTILE),
                    curve(CurveForm.POINTS, 2, label="b", names=(HOSTILE, "")),
                ),
                marks=(LevelLine(HOSTILE, 1.0),),
                spans=(ShadedRange(HOSTILE, 0, 1), ShadedRange(HOSTILE, 0, 1)),
            ),
            Panel("", axis, Y, missing=HOSTILE),
            Panel(
                "",
                X,
                PanelAxis("", ticks=named_ticks([HOSTILE])),
                grid=grid([[0.5]], cells=True, x_at=(0.0, 1.0)),
            ),
        ),
        ylabel=HOSTILE,
    )
    text = sheet_svg(sheet, prefix="p")
    root = parsed(text)
    assert {element.tag for element in root.iter()} <= {
        *("div", "svg", "title", "desc", "g", "path", "rect", "circle", "text"),
        *("clipPath", "pattern"),
    }
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<img" not in text


def test_ids_start_with_the_prefix_and_differ() -> None:
    bars = tuple(curve(CurveForm.BARS, 3, colour=at, label=str(at)) for at in range(3))
    sheet = Sheet("", (Panel("", X, Y, bars), Panel("", X, Y, bars)))
    root = parsed(sheet_svg(sheet, prefix="sort-1"))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    assert all(one is not None and one.startswith("sort-1-") for one in ids)


def test_the_same_sheet_gives_the_same_text() -> None:
    panel = Panel("", X, Y, (curve(CurveForm.MARKED), curve(CurveForm.BARS)))
    assert svg(panel) == svg(panel)


def test_colour_is_not_the_only_difference() -> None:
    lines = tuple(
        curve(CurveForm.MARKED, 3, colour=at, dash=at, label=str(at), low=(), high=())
        for at in range(2)
    )
    root = parsed(svg(Panel("", X, Y, lines)))
    looks = {group.get("class") for group in root.iter("g")}
    assert looks == {"s1 d1", "s2 d2", "dot"}
    dots = {one.tag for group in root.iter("g") if group.get("class") == "dot" for one in group}
    assert dots == {"circle", "path"}, "markers differ"
    assert ".d2 .line{stroke-dasharray" in CHART_CSS


def test_every_series_has_a_colour_on_light_and_on_dark() -> None:
    for name in (*(f"--series-{at}:" for at in range(1, 9)), "--heat-9:"):
        colors = re.findall(f"{name}(#[0-9a-f]+)", CHART_CSS)
        assert len(colors) == 3, "light, dark by the system, dark by choice"
        assert colors[0] != colors[1] == colors[2]


def test_a_point_outside_of_the_axes_is_not_drawn() -> None:
    y = PanelAxis("", low=0.0, high=1.0)
    one = PanelCurve("", (0.0, 1.0), (0.5, 9.0), CurveForm.POINTS)
    root = parsed(svg(Panel("", X, y, (one,))))
    assert len(list(root.iter("circle"))) == 1


def test_a_gap_is_no_line() -> None:
    one = PanelCurve("", (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, None, 3.0))
    (line,) = (e for e in parsed(svg(Panel("", X, Y, (one,)))).iter() if e.get("class") == "line")
    assert (line.get("d") or "").count("M") == 2


def test_a_long_series_is_thinned_and_keeps_its_extremes() -> None:
    values = [math.sin(at / 50) for at in range(100_000)]
    values[54_321] = 7.0
    long = PanelCurve("", tuple(map(float, range(100_000))), tuple(values))
    text = svg(Panel("", X, PanelAxis("", low=-1.0, high=7.0), (long,)))
    assert len(text) < 40_000
    (line,) = (e for e in parsed(text).iter() if e.get("class") == "line")
    heights = [float(at.split(" ")[1]) for at in (line.get("d") or "M0 0")[1:].split("L")]
    frame = 8.0
    assert min(heights) == pytest.approx(frame + 16, abs=10), "the spike reaches the top"


def test_long_names_are_cut_and_whole_in_their_title() -> None:
    name = "a name of a test that is much longer than any axis has room for"
    panel = Panel(
        "",
        PanelAxis("", ticks=named_ticks([name])),
        Y,
        (curve(CurveForm.POINTS, 1),),
        sideways=True,
    )
    texts = list(parsed(svg(panel)).iter("text"))
    assert any(one.findtext("title") == name for one in texts)


def test_a_missing_panel_says_why() -> None:
    assert "no trial has ended" in svg(Panel("", X, Y, missing="no trial has ended"))


def test_cells_have_their_range_and_unknown_ones_are_absent() -> None:
    cells = grid(
        [[0.1, 0.12, 0.9], [math.nan, 0.5, 0.5]],
        cells=True,
        x_at=(0.0, 1.0, 2.0, 3.0),
        unit=AxisUnit.SHARE,
    )
    panel = Panel(
        "", PanelAxis("time [s]"), PanelAxis("", ticks=named_ticks(["CPU", "disk"])), grid=cells
    )
    titles = [e.findtext("title") for e in parsed(svg(panel)).iter("rect")]
    assert [title for title in titles if title] == [
        "CPU, 0 to 2: 10 % to 12 %",
        "CPU, 2 to 3: 90 %",
        "disk, 1 to 3: 50 %",
    ]


@given(st.lists(st.floats(0, 1), min_size=25, max_size=25), st.floats(0.01, 0.99))
def test_areas_above_a_level_are_nested_and_in_the_grid(heights: list[float], level: float) -> None:
    rows = [heights[at : at + 5] for at in range(0, 25, 5)]
    areas = [area(area_above(grid(rows), one)) for one in (level, level / 2)]
    assert -1e-9 <= areas[0] <= areas[1] + 1e-9 <= 16 + 2e-9


@pytest.mark.parametrize("level", [0.25, 0.5, 0.9])
def test_the_area_above_a_level_of_a_plane_is_exact(level: float) -> None:
    rows = [[at / 8 for at in range(9)] for _ in range(9)]
    assert area(area_above(grid(rows), level)) == pytest.approx(64 * (1 - level))


def area(loops: list[list[tuple[float, float]]]) -> float:
    """Return the signed area of closed loops (shoelace formula)."""
    return sum(
        (x1 * y2 - x2 * y1) / 2
        for loop in loops
        for (x1, y1), (x2, y2) in zip(loop, loop[1:] + loop[:1], strict=True)
    )


def test_contours_name_levels_and_measured_samples() -> None:
    rows = [[x + y for x in STEPS] for y in STEPS]
    heights = HeightGrid(
        STEPS, STEPS, tuple(map(tuple, rows)), (-2.0, 2.0), points=((0.0, 0.5, 0.4),)
    )
    text = svg(Panel("", X, Y, grid=heights))
    parsed(text)
    assert "measured: 0.4" in text
    assert "above 1.2" in text
    relief = msgspec.structs.replace(heights, relief=True)
    sheet = Sheet("", (Panel("", X, Y, grid=heights), Panel("", X, Y, grid=relief)))
    assert len(panel_svgs(sheet, prefix="p")) == 1, "the relief repeats the contours"


def test_a_panel_is_described_in_words() -> None:
    one = PanelCurve("gzip", (1.0, 2.0), (0.5, 0.75), CurveForm.POINTS)
    words = described(Panel("", X, Y, (one,), marks=(LevelLine("limit", 1.0),)))
    assert words == "Elapsed (s) over level. gzip: 2 points, 0.5 to 0.75. Level limit: 1."


# -- ticks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "axis", "labels"),
    [
        (0.0, 1.03, PanelAxis(""), ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        (0.8, 9.2, PanelAxis("", AxisUnit.COUNT), ("2", "4", "6", "8")),
        (0.5, 2.5, PanelAxis("", AxisUnit.COUNT), ("1", "2")),
        (0, 1.02, PanelAxis("", AxisUnit.SHARE), ("0 %", "20 %", "40 %", "60 %", "80 %", "100 %")),
        (900, 1.2e9, PanelAxis("", AxisUnit.TIME, log=True), ("1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s")[::2]),
        (0, 9000, PanelAxis("", AxisUnit.BYTES), ("0", "2 KiB", "4 KiB", "6 KiB", "8 KiB")),
        (0.93, 1.08, PanelAxis("", log=True), ("0.95", "1", "1.05")),
    ],
)  # fmt: skip
def test_ticks_are_round_numbers(
    low: float, high: float, axis: PanelAxis, labels: tuple[str, ...]
) -> None:
    assert tick_labels(tick_positions(low, high, axis, 6), axis) == labels


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 9), st.sampled_from(AxisUnit))
@example(low=1e-9, span=1e-6, most=2, unit=AxisUnit.COUNT)
def test_ticks_are_inside_and_few(low: float, span: float, most: int, unit: AxisUnit) -> None:
    high = low + span
    if high == low:
        return
    found = tick_positions(low, high, PanelAxis("", unit), most)
    slack = 1e-6 * max(abs(low), abs(high), span)
    assert len(found) <= most
    assert all(low - slack <= at <= high + slack for at in found)
    assert list(found) == sorted(found)
