"""Sheets: what is composed of results, and that every form of it can be drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.features.load.chart import NamedLoad, load_sheet, rate_panel, response_panel
from benchwright.features.load.types import EngineResult
from benchwright.features.replay.chart import NamedStat, compare_sheet, stat_sheet
from benchwright.features.replay.types import TraceComparison, TraceStatistics
from benchwright.report.charts.render import printable_sheet, render_sheet
from benchwright.report.charts.sheet import (
    AxisUnit,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    binary_step,
    tick_text,
)
from benchwright.report.charts.style import IMAGE_FORMATS, ChartStyle

GOLDEN = Path(__file__).parents[1] / "golden"
RESULT = GOLDEN / "load" / "result.json"


def golden(kind: str) -> dict[str, Any]:
    """Return what the engine said once of a small trace."""
    found: dict[str, Any] = json.loads((GOLDEN / "trace" / f"{kind}.json").read_text())
    return found


def stat(**changes: Any) -> TraceStatistics:
    """Return the figures of a small trace with some members changed."""
    return msgspec.convert({**golden("stat"), **changes}, TraceStatistics)


def load(hdr: str | None = None) -> EngineResult:
    """Return a load's result whose issue error has this histogram."""
    document = json.loads((GOLDEN / "load" / "result.json").read_text())
    known = golden("stat")["response_ns"]["hdr"]
    document["lateness_ns"]["hdr"] = hdr or known
    for kind in document["kinds"].values():
        for name in ("issue_error_ns", "response_ns", "service_ns"):
            kind[name]["hdr"] = known
    return msgspec.convert(document, EngineResult)


def panels(sheet: Sheet) -> dict[str, Panel]:
    """Return the panels by their titles' first words."""
    return {panel.title.split(",")[0]: panel for panel in sheet.panels}


def test_a_traces_panels_hold_its_numbers() -> None:
    result = stat()
    found = panels(stat_sheet([NamedStat("small", result)]))
    (rate,) = found["Rate"].curves
    width_s = result.rate.bin_ns / 1e9
    assert sum(rate.y[:-1]) * width_s == pytest.approx(result.operations)  # type: ignore[arg-type]
    assert len(rate.x) == len(result.rate.operations) + 1, "the last bin has an end"
    (gaps,) = found["Gaps between arrivals"].curves
    assert (gaps.y[0], gaps.y[-1]) == (0.0, 1.0)
    assert list(gaps.x) == sorted(gaps.x)
    (sizes,) = found["Sizes"].curves
    assert sum(y or 0 for y in sizes.y) == pytest.approx(1)
    (tops,) = found["Popularity"].curves
    assert (tops.x[-1], tops.y[-1]) == (1.0, 1.0)
    assert [mark.y for mark in found["Burstiness"].marks] == [1.0]


def test_what_a_trace_does_not_tell_is_no_empty_panel_but_a_note() -> None:
    nothing = {"count": 0, "hdr": golden("stat")["response_ns"]["hdr"]}
    sheet = stat_sheet([NamedStat("small", stat(queue=None, response_ns=nothing))])
    assert "Queue" not in panels(sheet)
    assert "Queue (not in the trace)" in sheet.note
    assert "Response time" in sheet.note


def test_several_traces_keep_their_colours_and_share_a_legend() -> None:
    sheet = stat_sheet([NamedStat("one", stat()), NamedStat("two", stat())])
    assert sheet.shared_labels() == ("one", "two")
    for panel in sheet.panels:
        looks = {curve.label: curve.colour for curve in panel.curves}
        assert looks == {"one": 0, "two": 1}


def test_a_comparisons_panels_are_the_papers_figures() -> None:
    result = msgspec.convert(golden("compare"), TraceComparison)
    found = panels(compare_sheet(result))
    assert [c.label for c in found["Response time"].curves] == ["A: small.csv", "B: seen.csv"]
    a, b = found["Arrivals"].curves
    drawn = sum(y or 0 for curve in (a, b) for y in curve.y[:-1])
    both = result.a.operations + result.b.operations
    assert drawn + result.counts.before_zero == both
    shares = {curve.label: curve.y[-1] for curve in found["Arrival error"].curves}
    assert shares["all"] == pytest.approx(1)
    late, early = shares["late or on time"], shares["early"]
    assert (late or 0) + (early or 0) == pytest.approx(1)


def test_a_loads_panels() -> None:
    found = panels(load_sheet([NamedLoad("x", load())]))
    (tail,) = found["Issue error: the tail"].curves
    # 400 operations: one percentile in a hundred has one beyond it, one in a thousand none.
    assert tail.x == (0.0, 1.0, 2.0)
    names = [tick.label for tick in found["Issue error: the tail"].x.ticks]
    assert names == ["50 %", "90 %", "99 %"]
    assert {curve.label for curve in found["Rate"].curves} == {"intended", "completed"}
    by_percentile = load_sheet([NamedLoad("x", load())]).panels[-1]
    assert [curve.label for curve in by_percentile.curves] == [
        *("response", "service", "issue error")
    ]
    two = panels(load_sheet([NamedLoad("x", load()), NamedLoad("y", load())]))
    assert [c.colour for c in two["Issue error"].curves] == [0, 1]
    dashes = {curve.label: (curve.colour, curve.dash) for curve in two["Rate"].curves}
    assert dashes["x, intended"][0] == dashes["x, completed"][0]
    assert dashes["x, intended"][1] == dashes["y, intended"][1]
    assert len(set(dashes.values())) == 4


@pytest.mark.parametrize("form", IMAGE_FORMATS)
def test_every_sheet_is_drawn_in_every_form_the_same_twice(form: str) -> None:
    style = ChartStyle(width_in=3, height_in=2, fontsize_pt=7, dpi=50)
    compared = msgspec.convert(golden("compare"), TraceComparison)
    stats = [NamedStat("$a_b$", stat()), NamedStat("two", stat(queue=None))]
    for sheet in (stat_sheet(stats), compare_sheet(compared)):
        assert render_sheet(sheet, style, form).notes == ()
    sheet = load_sheet([NamedLoad("x", load())])
    first = render_sheet(sheet, style, form)
    assert first.notes == ()
    assert render_sheet(sheet, style, form).data == first.data


def test_control_characters_are_not_drawn() -> None:
    panel = Panel("", PanelAxis("x"), PanelAxis("y"), (PanelCurve("a\x07b", (1.0,), (1.0,)),))
    sheet = printable_sheet(Sheet("t\x1b", (panel,)))
    assert "\x1b" not in sheet.title
    assert "\x07" not in sheet.panels[0].curves[0].label


@pytest.mark.parametrize(
    ("value", "axis", "text"),
    [
        (10_000, PanelAxis("", AxisUnit.TIME), "10 us"),
        (0, PanelAxis("", AxisUnit.TIME), "0"),
        (65_536, PanelAxis("", AxisUnit.BYTES), "64 KiB"),
        (0.999, PanelAxis("", AxisUnit.SHARE), "99.9 %"),
        (1e6, PanelAxis("", log=True), "1e6"),
        (1200, PanelAxis(""), "1,200"),
    ],
)
def test_ticks_are_in_their_unit(value: float, axis: PanelAxis, text: str) -> None:
    assert tick_text(value, axis) == text


@pytest.mark.parametrize(("span", "step"), [(2**31, 2**29), (0, 1), (5000, 1024)])
def test_sizes_are_at_powers_of_two(span: float, step: float) -> None:
    assert binary_step(span) == step


def test_a_last_interval_that_was_cut_is_no_rate_of_its_own() -> None:
    """43 operations in the millisecond after the last whole second are no 43,000/s."""
    found = msgspec.json.decode(RESULT.read_bytes())
    whole = {**found["intervals"][0], "start_ns": 0, "length_ns": 10**9}
    whole |= {"intended": 2000, "completed": 2000}
    cut = {**whole, "start_ns": 10**9, "length_ns": 10**6, "completed": 43}
    found["intervals"] = [whole, cut]
    panel = rate_panel([NamedLoad("a", msgspec.convert(found, EngineResult))])
    for curve in panel.curves:
        assert (curve.x, curve.y) == ((0.0, 1.0), (2000.0, 2000.0))


def test_a_percentile_that_no_interval_has_is_in_no_legend() -> None:
    """Of the first load alone, and beside a load that has it: each load keeps its colour."""
    found = msgspec.json.decode(RESULT.read_bytes())
    one = {**found["intervals"][0], "response_ns_p50": 7, "response_ns_p99": 9}
    loads = []
    for p99 in (None, 9):
        found["intervals"] = [{**one, "response_ns_p99": p99}]
        loads.append(NamedLoad(f"l{p99}", msgspec.convert(found, EngineResult)))
    for shown, labels in (
        (loads[:1], {"p50": 0, "max": 2}),
        (loads, {"lNone, p50": 0, "l9, p50": 1, "l9, p99": 1}),
    ):
        curves = response_panel(shown).curves
        assert {curve.label: curve.colour for curve in curves} == labels


def test_time_in_which_the_generator_stood_still_is_a_gap() -> None:
    found = msgspec.json.decode(RESULT.read_bytes())
    one = {**found["intervals"][0], "length_ns": 10**9, "completed": 7, "intended": 7}
    found["intervals"] = [{**one, "start_ns": at * 10**9} for at in (0, 5)]
    panel = rate_panel([NamedLoad("a", msgspec.convert(found, EngineResult))])
    for curve in panel.curves:
        assert (curve.x, curve.y) == ((0.0, 1.0, 5.0, 6.0), (7.0, None, 7.0, 7.0))
