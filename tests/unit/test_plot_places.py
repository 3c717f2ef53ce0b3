"""Where tests stand on the axis, how options are read, what tells series apart."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchwright.core.errors import Diagnostic
from benchwright.core.observation import MeasurementBlock
from benchwright.core.text import natural_key
from benchwright.findings.result import TestResult
from benchwright.report.charts.compose import plot_sheet
from benchwright.report.charts.draw import contour_label_places, draw_sheet
from benchwright.report.charts.plan import series_looks
from benchwright.report.charts.plot_data import (
    PlotData,
    PlotMode,
    PlotPoint,
    PlotSeries,
    label_with_unit,
)
from benchwright.report.charts.sheet import AxisTick
from benchwright.report.charts.source import (
    AxisPosition,
    PlotComponent,
    PlotGroup,
    axis_positions,
    choose_components,
    number_of,
)
from benchwright.report.charts.style import (
    ChartStyle,
    LegendPlace,
    look_of,
    parse_legend_place,
    parse_size,
)


def source(
    test: str, sample: dict[str, str] | None = None, threads: int | None = None
) -> TestResult:
    blocks = () if threads is None else (MeasurementBlock(threads, 1, test, 0, {}),)
    return TestResult(test, blocks, sample=tuple((sample or {}).items()))


def places(*groups: PlotGroup, factor: str | None = None) -> tuple[str, list[list[AxisPosition]]]:
    wrong: list[Diagnostic] = []
    found = axis_positions(groups, factor, wrong)
    assert wrong == []
    return found.factor, [list(group) for group in found.groups]


def test_natural_order_is_that_of_numbers() -> None:
    names = ["ext2:16", "ext2:2", "ext2:1", "xfs:1", "ext10:1"]
    assert sorted(names, key=natural_key) == ["ext2:1", "ext2:2", "ext2:16", "ext10:1", "xfs:1"]


def test_the_one_number_that_varies_in_the_names_is_the_place() -> None:
    group = PlotGroup("R", tuple(source(f"reiser4fs:{n}.res") for n in (1, 2, 16)))
    factor, found = places(group)
    assert factor == ""
    assert found == [[AxisPosition("1", 1.0), AxisPosition("2", 2.0), AxisPosition("16", 16.0)]]


def test_a_series_of_one_test_takes_the_number_at_the_same_place() -> None:
    many = PlotGroup("A", (source("ext2:1"), source("ext2:8")))
    one = PlotGroup("B", (source("reiserfs3:4"),))
    assert places(many, one)[1][1] == [AxisPosition("4", 4.0)]


@pytest.mark.parametrize("names", [("a1:1", "a2:2"), ("ext2:1", "xfs:1"), ("a", "b"), ("x1", "y2")])
def test_where_two_things_vary_each_test_is_a_category(names: tuple[str, str]) -> None:
    factor, (found,) = places(PlotGroup("G", tuple(map(source, names))))
    assert factor == ""
    assert found == [AxisPosition(name) for name in names]


def test_the_factor_that_varies_within_a_series_is_the_place() -> None:
    def group(fs: str) -> PlotGroup:
        levels = (("1k", 1), ("1M", 1))
        tests = (source(f"{fs}-{b}", {"fs": fs, "block": b}, n) for b, n in levels)
        return PlotGroup(fs, tuple(tests))

    factor, found = places(group("ext2"), group("xfs"))
    assert factor == "block"
    assert found[0] == [AxisPosition("1k", 1024.0), AxisPosition("1M", 1024.0**2)] == found[1]


def test_threads_are_a_factor_where_no_other_varies() -> None:
    tests = (source("a", threads=1), source("b", threads=4))
    assert places(PlotGroup("G", tests)) == (
        "threads",
        [[AxisPosition("1", 1.0), AxisPosition("4", 4.0)]],
    )
    same = tuple(source(f"t{n}", {"COUNT": str(n)}, n) for n in (1, 4))
    assert places(PlotGroup("G", same))[0] == "threads"


def test_a_factor_can_be_chosen_and_must_be_there() -> None:
    tests = tuple(source(f"{a}{b}", {"a": a, "b": b}) for a in "xy" for b in "12")
    assert places(PlotGroup("G", tests[:1] + tests[3:]), factor="B")[1][0][1].number == 2
    wrong: list[Diagnostic] = []
    axis_positions([PlotGroup("G", tests)], "c", wrong)
    assert "no factor 'c'" in wrong[0].message
    assert wrong[0].hint == "there are: a, b, threads"


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4.0), ("0.5", 0.5), ("4k", 4096.0), ("1 GiB", 2.0**30), ("ext2", None), ("", None)],
)
def test_levels_are_numbers_where_they_can_be(text: str, value: float | None) -> None:
    assert number_of(text) == value


def test_components_are_known_by_label_and_name_in_any_case() -> None:
    there = (PlotComponent("elapsed", "Elapsed", "s"), PlotComponent("cpu_percent", "CPU%", "%"))
    wrong: list[Diagnostic] = []
    assert choose_components(["cpu%", "ELAPSED", "cpu_percent"], there, wrong) == there[::-1]
    assert wrong == []
    choose_components(["Elapsd"], there, wrong)
    assert wrong[0].hint == "there are: Elapsed, CPU%"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("top right", LegendPlace("inside", "top", "right")),
        ("bottom left box", LegendPlace("inside", "bottom", "left", box=True)),
        ("center", LegendPlace("inside", "center", "center")),
        ("top center", LegendPlace("inside", "top", "center")),
        ("left center", LegendPlace("inside", "center", "left")),
        ("outside", LegendPlace("outside", "top", "right")),
        ("rmargin", LegendPlace("right", "top", "right")),
        ("below", LegendPlace("below", "top", "right")),
        ("off", LegendPlace("off")),
    ],
)
def test_gnuplots_words_for_the_legend(text: str, key: LegendPlace) -> None:
    assert parse_legend_place(text) == key


def test_other_words_for_the_legend_are_mistakes() -> None:
    with pytest.raises(ValueError, match="'vertical' is not a legend position"):
        parse_legend_place("top vertical")


def test_sizes_have_units_and_bounds() -> None:
    assert parse_size("6x4in") == (6, 4)
    assert parse_size("6x4") == (6, 4)
    assert parse_size("15.24x10.16cm") == pytest.approx((6, 4))
    for text in ("6", "6x4px", "0x4in", "6x4000in", "-6x4in"):
        with pytest.raises(ValueError, match=r"not a size|from 1 to 100"):
            parse_size(text)


def test_quantities_are_named_with_their_units_once() -> None:
    assert label_with_unit("Elapsed", "s") == "Elapsed (s)"
    assert label_with_unit("CPU%", "%") == "CPU%"
    assert label_with_unit("ops", "") == "ops"


def series(*pairs: tuple[str, str]) -> PlotData:
    made = (PlotSeries(name, part, "s", f"{name} {part}", ()) for name, part in pairs)
    return PlotData(PlotMode.LINE, tuple(made))


def test_series_differ_in_shape_or_dash_and_never_in_colour_alone() -> None:
    kinds = [look_of(place) for place in range(8)]
    assert len({kind.colour for kind in kinds}) == 8
    assert len({kind.hatch for kind in kinds}) == len({k.marker for k in kinds}) == 8
    assert len({(k.colour, k.marker, k.dash) for k in map(look_of, range(24))}) == 24


def test_colour_is_of_the_component_and_dash_of_the_name_where_both_vary() -> None:
    a, b, c, d = series_looks(series(("E", "User"), ("X", "User"), ("E", "Sys"), ("X", "Sys")))
    colours, dashes, shapes = zip(a, b, c, d, strict=True)
    assert colours == (0, 0, 1, 1)
    assert dashes == (0, 1, 0, 1)
    assert shapes == (0, 1, 2, 3)


def test_the_palettes_neighbours_differ_in_grey() -> None:
    def lightness(colour: str) -> float:
        parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(116 * (linear @ (0.2126, 0.7152, 0.0722)) ** (1 / 3) - 16)

    first = [lightness(look_of(place).colour) for place in range(2)]
    assert abs(first[0] - first[1]) > 20


@given(st.text(max_size=30))
def test_no_text_of_a_user_is_a_crash(text: str) -> None:
    """What is no place or size is a ValueError; any name can be sorted and placed."""
    for parse in (parse_legend_place, parse_size):
        with contextlib.suppress(ValueError):
            parse(text)
    assert natural_key(text) <= natural_key(text)
    number = number_of(text)
    assert number is None or math.isfinite(number)
    places(PlotGroup("G", (source(text), source(f"{text}1"), source(f"{text}{'9' * 400}"))))


def drawn(plot: PlotData, style: ChartStyle) -> Figure:
    """Return the figure of a plot."""
    return draw_sheet(plot_sheet(plot, style), style)


def drawn_box(key: str) -> tuple[float, float]:
    """Return how high the axis reaches, and the highest mark, with a legend there."""
    points = (PlotPoint("a", "1", 0.0, value=1.0, high=1.1), PlotPoint("b", "2", 1.0, value=1.0))
    made = tuple(PlotSeries(f"N{n}", "Elapsed", "s", f"N{n}", points) for n in range(4))
    chart = PlotData(PlotMode.LINE, made, ticks=(AxisTick(0.0, "a"), AxisTick(1.0, "b")))
    figure = drawn(chart, ChartStyle(key=parse_legend_place(key)))
    return figure.axes[0].get_ylim()[1], 1.1


def test_a_legend_at_the_top_gets_room_above_the_data() -> None:
    top, highest = drawn_box("top right")
    assert top > 1.2 * highest
    assert drawn_box("outside")[0] < 1.1 * highest


@pytest.mark.parametrize("count", [3, 60])
def test_labels_turn_only_when_they_would_touch(count: int) -> None:
    points = tuple(PlotPoint(f"t{n}", f"name-{n}", float(n), value=1.0) for n in range(count))
    ticks = tuple(AxisTick(point.x, point.label) for point in points)
    one = PlotSeries("N", "Elapsed", "s", "N", points)
    figure = drawn(PlotData(PlotMode.LINE, (one,), ticks=ticks), ChartStyle())
    turns = {label.get_rotation() for label in figure.axes[0].get_xticklabels()}
    assert (turns == {0}) == (count == 3)
    asked = drawn(PlotData(PlotMode.LINE, (one,), ticks=ticks), ChartStyle(rotate_deg=-45))
    labels = asked.axes[0].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {315}
    assert {label.get_horizontalalignment() for label in labels} == {"left"}


# -- contours --------------------------------------------------------------------------


def line_at(x: float) -> NDArray[np.float64]:
    """Return a vertical contour across a map."""
    return np.array([[x, y] for y in np.linspace(-1, 1, 41)])


@given(
    st.lists(st.tuples(*[st.sampled_from([-1.0, -0.5, 0.0, 0.6, 1.0])] * 2), max_size=12),
    st.lists(st.floats(-0.79, 0.79), min_size=1, max_size=5, unique=True),
)
def test_labels_of_contours_lie_on_their_lines_clear_of_each_other_and_of_samples(
    samples: list[tuple[float, float]], at: list[float]
) -> None:
    points = [(x, y, 1.0) for x, y in samples]
    places = contour_label_places([[line_at(x)] for x in at], points)
    assert len(places) <= len(at)
    assert {x for x, _ in places} <= set(at)
    for number, place in enumerate(places):
        others = [*samples, *places[:number]]
        assert all(math.dist((1.6 * place[0], place[1]), (1.6 * x, y)) >= 0.3 for x, y in others)


def test_a_contour_through_samples_everywhere_has_no_label() -> None:
    points = [(0.0, y / 4, 1.0) for y in range(-4, 5)]
    ((x, _),) = contour_label_places([[line_at(0.0)], [line_at(0.7)], []], points)
    assert x == 0.7, "the line beside them has one"
