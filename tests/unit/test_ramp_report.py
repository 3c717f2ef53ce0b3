"""What a ramp came to: text, document, progress, picture."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.text_table import field_lines
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.output import probe_text, ramp_opening_text, ramp_trial_text
from benchwright.features.search.ramp.policy import best_so_far, next_ramp_step
from benchwright.features.search.ramp.profile import band_of
from benchwright.features.search.ramp.queues import (
    LevelResources,
    QueueNetwork,
    QueuePoint,
    ServiceQueue,
)
from benchwright.features.search.ramp.report import (
    RampReport,
    ramp_document,
    ramp_ending_text,
    ramp_fields,
    ramp_headline,
)
from benchwright.features.search.ramp.types import (
    RampAxis,
    RampGoal,
    RampResult,
    RampStatus,
    ScalabilityModel,
)
from benchwright.features.search.ramp.view import RampView, ramp_sheet
from benchwright.features.search.types import SearchTrial
from benchwright.features.search.view import late_column
from benchwright.findings.codes import make_finding
from benchwright.findings.utilization import Utilization
from benchwright.report.charts.draw import draw_sheet
from benchwright.report.charts.render import render_sheet
from benchwright.report.charts.style import IMAGE_FORMATS, ChartStyle

GOLDEN = Path(__file__).parents[1] / "golden" / "ramp"
STORED: dict[str, Any] = {"study": "s", "session": 1, "exit_status": 0}
"""Where a search is kept, and how it ended."""

GOAL = RampGoal(highest=64, hold_s=12)
"""It ends at its highest level, where throughput has fallen."""
RATES = RampGoal(axis=RampAxis.RATE, start=100, highest=1e5, hold_s=12)


def users_curve(level: float) -> float:
    """Return the law's throughput with a maximum at 25 users."""
    return 120 * level / (1 + 0.03 * (level - 1) + 0.0015 * level * (level - 1))


def trial_of(probe: Probe, curve: Callable[[float], float]) -> LoadTrial:
    """Return a trial whose seconds scatter by a fixed pattern of 3 %."""
    true = curve(probe.rate)
    pattern = [math.sin(12.9898 * (probe.rate + at)) for at in range(12)]
    counts = tuple(round(true * (1 + 0.03 * x)) for x in pattern)
    mean = probe.rate / true * 1e3 if probe.users else 4 + 900 * (probe.rate > true)
    return LoadTrial(
        rate=probe.rate,
        duration_s=12,
        lasted_s=12,
        cost_s=13.5,
        values={
            "response_ms_mean": mean,
            "response_ms_p99": mean * 4 if probe.rate < 60 else math.inf,
        },
        series=LoadSeries(tuple(map(float, range(12))), counts=counts, binned_by="completion"),
        offered=None if probe.users else round(probe.rate * 12),
        completed=sum(counts),
        errors=3 if probe.rate > 30 else 0,
    )


def played(
    goal: RampGoal, curve: Callable[[float], float], most: int = 99
) -> tuple[RampResult, list[SearchTrial]]:
    """Return a ramp's result and its trials; of the first `most` trials only."""
    trials: list[SearchTrial] = []
    while True:
        history = [one.trial for one in trials]
        step = next_ramp_step(goal, history)
        if isinstance(step, RampResult):
            return step, trials
        if len(trials) == most:
            return best_so_far(goal, history), trials
        trials.append(SearchTrial(len(trials) + 1, step, trial_of(step, curve)))


def report_of(
    goal: RampGoal = GOAL, curve: Callable[[float], float] = users_curve, most: int = 99
) -> RampReport:
    """Return the report of a simulated ramp."""
    result, trials = played(goal, curve, most)
    return RampReport(
        status=result.status.value,
        detail=result.detail,
        goal=goal,
        result=result,
        trials=tuple(trials),
        seed=7,
        sample=(("workers", "2"),),
        bench_findings=(
            make_finding("server-and-generator-share-cores", "examples", "one processor"),
        ),
    )


def golden(name: str, text: str) -> str:
    """Return a golden text; BW_GOLDEN=write renews it."""
    path = GOLDEN / name
    if os.environ.get("BW_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path.read_text()


def test_the_report_of_a_ramp_of_users() -> None:
    text = RampView(report_of()).text()
    assert text == golden("users.txt", text)


def test_a_headline_is_where_throughput_saturates_or_why_that_is_unknown() -> None:
    report = report_of()
    assert report.result is not None
    cut = msgspec.structs.replace(report, status="interrupted")
    unknown = msgspec.structs.replace(report.result, saturation=None)
    highest = msgspec.structs.replace(report, status=RampStatus.HIGHEST, result=unknown)
    failed = msgspec.structs.replace(report, status=RampStatus.FAILED)
    assert [ramp_headline(one) for one in (report, cut, highest, failed)] == [
        "Saturation at 32 users: 1,122.3/s",
        "Saturation at 32 users, " + ramp_ending_text(cut),
        "No saturation, stopped at 64 users, the highest level",
        "No answer: failed",
    ]


def test_nothing_of_a_server_reaches_a_terminal_as_a_command() -> None:
    report = report_of()
    detail = "\x1b[2J\x9b\nsecond"
    text = RampView(msgspec.structs.replace(report, detail=detail, sample=(("a", "\x7f"),))).text()
    assert text.replace("\n", "").isprintable()
    assert r": \x1b[2J\x9b second" in text
    assert r"a=\x7f" in text


def test_the_report_of_a_ramp_of_rates() -> None:
    text = RampView(report_of(RATES, lambda rate: min(rate, 700.0))).text()
    assert text == golden("rates.txt", text)


def test_an_interrupt_before_anything_is_told() -> None:
    nothing = RampReport(
        status="interrupted", detail="interrupted", goal=GOAL, result=None, trials=(), seed=7
    )
    text = RampView(nothing).text()
    assert text.startswith("interrupted after 0 trials: no level was measured\n")
    assert "in 0 trials" in text
    assert json.loads(ramp_document(nothing, (), **STORED))["points"] == []
    assert ramp_sheet(nothing, ()).panels[0].missing == "no level was measured"


def test_the_document_has_figures_and_no_nan() -> None:
    report = report_of()
    band = band_of(GOAL, [one.trial for one in report.trials])
    document = json.loads(ramp_document(report, band, **STORED))
    assert document["schema"] == "benchwright/ramp/1"
    assert document["session"] == 1
    assert [point["level"] for point in document["points"]] == [1, 2, 4, 8, 16, 32, 64]
    point = document["points"][0]["throughput"]
    assert point["interval"][0] < point["value"] < point["interval"][1]
    last = document["points"][-1]
    assert last["response_ms_p99"] is None, "infinite is not a number"
    assert last["infinite"] == ["response_ms_p99"]
    assert document["points"][0]["infinite"] == []
    assert "response_ms_p99" in document["trials"][-2]["infinite"]
    assert document["trials"][-1]["purpose"].startswith("control")
    assert document["usl"]["preferred"] == "usl"
    assert 20 < document["usl"]["users_at_peak"]["value"] < 30
    assert document["trials"][0]["users"] == 1
    assert len(document["band"]) == len(band)
    assert {f["code"] for f in document["findings"]} >= {
        "throughput-falls",
        "server-and-generator-share-cores",
    }


def test_how_late_the_generator_was_is_a_column_where_any_trial_says_so() -> None:
    report = report_of(most=2)
    assert "late p99" not in RampView(report).text()
    history = [
        msgspec.structs.replace(report.trials[0].trial, late_p99_ms=20.5),
        report.trials[1].trial,
    ]
    late = [
        msgspec.structs.replace(one, trial=trial)
        for one, trial in zip(report.trials, history, strict=True)
    ]
    report = msgspec.structs.replace(report, result=best_so_far(GOAL, history), trials=tuple(late))
    _, heading, first, second = RampView(report).text().split("\n\n")[2].splitlines()[:4]
    assert "p99 ms  late p99 ms  efficiency" in heading
    assert "  20.5  " in first
    assert "  -  " in second
    document = json.loads(ramp_document(report, (), **STORED))
    for member in ("points", "trials"):
        assert [one["late_p99_ms"] for one in document[member]] == [20.5, None]


@pytest.mark.parametrize(
    ("late_ms", "cells"),
    [
        ([0.0054, 10.469, None], ("0.0 ms", "10.5 ms", "-")),
        ([0.00542, 0.0021], ("0.00542 ms", "0.00210 ms")),
        ([258.04, 3.2], ("258 ms", "3 ms")),
    ],
)
def test_lateness_has_the_decimals_of_the_worst(
    late_ms: list[float | None], cells: tuple[str, ...]
) -> None:
    ((_, cell),) = late_column(lambda late: late, late_ms)
    assert tuple(cell("", late).text for late in late_ms) == cells
    assert late_column(lambda late: late, [None, None]) == []


def test_a_short_ramp_says_why_there_is_no_law() -> None:
    report = report_of(most=2)
    assert "\nlaw      not fitted: 2 levels: three are needed" in RampView(report).text()
    document = json.loads(ramp_document(report, (), **STORED))
    assert document["usl"] is None
    assert "three" in document["usl_absent"]


@pytest.mark.parametrize("form", IMAGE_FORMATS)
def test_every_form_can_be_drawn(form: str) -> None:
    report = report_of()
    band = band_of(GOAL, [one.trial for one in report.trials])
    sheet = ramp_sheet(report, band)
    style = ChartStyle(width_in=3, height_in=2, fontsize_pt=7, dpi=50)
    first = render_sheet(sheet, style, form)
    assert render_sheet(sheet, style, form).data == first.data
    assert "saturates at 32 users" in sheet.title
    assert "workers=2" in sheet.title


def test_the_picture_has_points_with_intervals_the_law_and_what_is_left_out() -> None:
    report = report_of()
    band = band_of(GOAL, [one.trial for one in report.trials])
    throughput, response = ramp_sheet(report, band).panels
    curves = {curve.label: curve for curve in throughput.curves}
    assert list(curves["measured"].x) == [1, 2, 4, 8, 16, 32, 64]
    assert len(curves["measured"].low) == 7
    assert len(curves["Universal Scalability Law, with its band"].high) == len(band)
    assert throughput.spans[0].low == 32
    assert {curve.label for curve in response.curves} == {"mean", "p99"}
    assert "p99 longer than any response that was waited for at 64" in ramp_sheet(report, band).note


def test_the_busiest_resources_are_a_column_a_panel_and_in_the_document() -> None:
    bare = report_of()
    levels = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    resources = tuple(
        LevelResources(
            level,
            (
                Utilization("disk", "disk vda", min(level / 16, 1.0)),
                Utilization("cpu", "CPU", level / 128),
            ),
        )
        for level in levels
    )
    network = QueueNetwork(
        (ServiceQueue("disk vda", 0.002), ServiceQueue("CPU", 0.0012, 1.5)),
        0.004,
        (QueuePoint(1, 120, 120, fitted=True, within=True), QueuePoint(64, 500, 400, False, False)),
    )
    report = msgspec.structs.replace(bare, resources=resources, network=network)
    panels = {panel.title: panel for panel in ramp_sheet(report, ()).panels}
    assert [curve.label for curve in panels["Busiest resources"].curves] == ["disk vda", "CPU"]
    assert panels["Busiest resources"].curves[0].y[-1] == 1.0
    (queues,) = (c for c in panels["Throughput"].curves if c.label.startswith("queues"))
    assert queues.y == (120, 500)
    text = " ".join(RampView(report).text().split())
    assert (
        "queues disk vda 2 ms, CPU 1.2 ms of 1.5, elsewhere 4 ms an operation; disk vda allows 500/s, from "
        "3.6 users; at 64 users that predicts 500/s, and measured is 20 % less"
    ) in text
    near = msgspec.structs.replace(
        network, points=(network.points[0], QueuePoint(64, 500, 490, False, True))
    )
    text_near = " ".join(RampView(msgspec.structs.replace(report, network=near)).text().split())
    assert (
        "at 64 users that predicts 500/s, and measured is 2 % less, which noise or uneven service "
        "times may explain"
    ) in text_near
    assert "disk vda 50 %" in text
    document = json.loads(ramp_document(report, (), **STORED))
    assert document["points"][0]["resources"] == {"disk vda": 1 / 16, "CPU": 1 / 128}
    assert document["network"]["knee"] == pytest.approx(3.6)
    assert json.loads(ramp_document(bare, (), **STORED))["network"] is None


@pytest.mark.parametrize(
    ("law", "curve"),
    [
        ("Amdahl's law", lambda users: 100 * users / (1 + 0.05 * (users - 1))),
        ("linear law", lambda users: 100 * users),
        ("saturating law", lambda users: ((100 * users) ** -4 + 900**-4) ** -0.25),
    ],
)
def test_the_picture_has_the_law_that_the_text_states(
    law: str, curve: Callable[[float], float]
) -> None:
    report = report_of(curve=curve)
    assert report.result is not None
    assert report.result.usl is not None
    stated = report.result.usl.law
    assert stated is not None
    assert law.split()[0] in RampView(report).text()
    band = band_of(GOAL, [one.trial for one in report.trials])
    curves = {one.label: one for one in ramp_sheet(report, band).panels[0].curves}
    assert curves["whole law, with its band"].low
    drawn = curves[law]
    assert not drawn.low, "the band is that of the whole law"
    for users, value in zip(drawn.x, drawn.y, strict=True):
        assert value == pytest.approx(curve(users), rel=0.1)
    assert drawn.y[-1] == max(value or 0 for value in drawn.y), "it never falls"


def test_progress_has_a_line_for_each_trial() -> None:
    _, trials = played(GOAL, users_curve, 1)
    assert ramp_opening_text(GOAL).startswith("ramping from 1 user, rising times 2, to at")
    assert ramp_opening_text(GOAL).endswith("; then a low level once more, as a control")
    repeated = msgspec.structs.replace(GOAL, repeats=3)
    assert ramp_opening_text(repeated).endswith("; then each level 2 more times, in random order")
    assert ramp_opening_text(RATES).endswith("at 2 levels")
    assert probe_text(1, trials[0].probe) == "trial 1: 1 user for 12 s (begin)"
    assert "throughput 120" in ramp_trial_text(trials[0], RampAxis.USERS)
    failed = msgspec.structs.replace(trials[0].trial, ending=LoadEnding.FAILED, failure="refused")
    line = ramp_trial_text(msgspec.structs.replace(trials[0], trial=failed), RampAxis.USERS)
    assert line.endswith("failed: refused")


@pytest.mark.parametrize("knee", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("falls", [0.0, 0.004, 0.05])
def test_the_name_of_the_saturation_is_clear_of_the_legend(knee: float, falls: float) -> None:
    def curve(level: float) -> float:
        return 100 * min(level, knee) / (1 + falls * max(level - knee, 0))

    report = report_of(curve=curve)
    assert report.result is not None
    assert report.result.saturation is not None
    band = band_of(GOAL, [one.trial for one in report.trials])
    figure = draw_sheet(ramp_sheet(report, band), ChartStyle())
    figure.draw_without_rendering()
    axes = figure.axes[0]
    legend = axes.get_legend()
    assert legend is not None
    (name,) = (text for text in axes.texts if text.get_text() == "saturation")
    assert not legend.get_window_extent().overlaps(name.get_window_extent())
    assert axes.get_window_extent().x0 <= name.get_window_extent().x0


def test_an_interval_that_is_not_known_hides_no_other_one() -> None:
    report = report_of()
    assert report.result is not None
    points = list(report.result.points)
    bare = msgspec.structs.replace(points[1].throughput, low=math.nan, high=math.nan)
    points[1] = msgspec.structs.replace(points[1], throughput=bare)
    result = msgspec.structs.replace(report.result, points=tuple(points))
    sheet = ramp_sheet(msgspec.structs.replace(report, result=result), ())
    (measured,) = (c for c in sheet.panels[0].curves if c.label == "measured")
    assert measured.low[1] is None
    assert measured.high[1] is None
    assert measured.low[0] == points[0].throughput.low
    assert "no interval at 2: the noise is not known" in sheet.note


def rows_of(report: RampReport, *, verbose: bool) -> dict[str, str]:
    """Return the rows of the report's head by name."""
    lines = field_lines(ramp_fields(report, verbose=verbose))
    return {line[:9].strip(): line[9:].strip() for line in lines}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (RampStatus.SATURATED, "throughput saturates at 32 users: 1,122.3/s (1,093 to"),
        (RampStatus.BUDGET, "stopped at the 30 s budget; throughput saturates at 32"),
    ],
)
def test_the_sentence_comes_first(status: RampStatus, sentence: str) -> None:
    goal = msgspec.structs.replace(GOAL, budget_s=30.0)
    report = msgspec.structs.replace(report_of(), status=status.value, goal=goal)
    assert RampView(report).text().startswith(sentence)


def test_a_ramp_without_saturation_says_so() -> None:
    report = report_of(most=3)
    for status, how in (
        ("highest", f"stopped at {GOAL.highest:g} users, the highest level"),
        ("interrupted", "interrupted after 3 trials"),
        ("errors", "stopped by errors"),
    ):
        text = RampView(msgspec.structs.replace(report, status=status)).text()
        assert text.startswith(f"{how}: saturation was not reached; the highest"), status


def test_what_few_levels_cannot_show_is_not_a_figure() -> None:
    report = report_of(most=4)
    assert report.result is not None
    fit = report.result.usl
    assert fit is not None
    wide = msgspec.structs.replace(fit.sigma, low=0.0, high=1.0)
    fit = msgspec.structs.replace(fit, preferred=ScalabilityModel.AMDAHL, sigma=wide)
    result = msgspec.structs.replace(report.result, usl=fit)
    law = rows_of(msgspec.structs.replace(report, result=result), verbose=False)["law"]
    assert law.endswith("done one at a time is not known from 4 levels")


def test_what_is_reported_of_a_law_follows_from_the_preferred_one() -> None:
    """Four levels leave the whole law with a maximum that nobody saw."""

    def curve(users: float) -> float:
        # A touch of coherency, which four levels cannot show.
        return 100 * users / (1 + 0.3 * (users - 1) + 2e-3 * users * (users - 1))

    report = report_of(GOAL, curve, most=4)
    result = report.result
    assert result is not None
    assert result.usl is not None
    assert result.usl.users_at_peak is not None, "the whole law has one"
    brief, whole = (rows_of(report, verbose=one) for one in (False, True))
    assert brief["law"].startswith("Amdahl's law: throughput levels off at 315.8/s, because")
    assert not {"gamma", "sigma", "kappa", "fit"} & set(brief)
    shown = RampView(report, verbose=True).text()
    assert "  amdahl  whole law " in shown, "the parameters of both"
    (kappa,) = (line.split() for line in shown.splitlines() if line.startswith("kappa"))
    assert float(kappa[-4]) == 0, "the stated law has none; the whole one has an interval"
    assert "highest at" in whole["whole law"]
    assert "highest at" not in RampView(report).text(), "one law"
    assert "[kappa-not-identified]" not in RampView(report).text()
    law = result.usl.law
    assert law is not None
    for value, whole in (
        (law.gamma, result.usl.gamma),
        (law.sigma, result.usl.sigma),
        (law.kappa, result.usl.kappa),
    ):
        assert whole.low <= value <= whole.high


def test_levels_of_streams_have_their_times_and_the_share_of_good_ones() -> None:
    report = report_of()
    assert report.result is not None
    values = {"first_ms_p50": 51.5, "tpot_ms_p50": 7.25, "good_share": 0.875}
    trials = tuple(
        msgspec.structs.replace(
            one,
            trial=msgspec.structs.replace(
                one.trial, values=one.trial.values | values | {"first_ms_p99": 4 * one.trial.rate}
            ),
        )
        for one in report.trials
    )
    points = best_so_far(GOAL, [one.trial for one in trials]).points
    assert all(point.streams == values | {"first_ms_p99": 4 * point.level} for point in points)
    result = msgspec.structs.replace(report.result, points=points)
    streamed = msgspec.structs.replace(report, result=result, trials=trials)
    text = RampView(streamed).text()
    for shown in ("first p50", "first p99", "tpot p50", "good %", "51.5", "7.25", "87.5"):
        assert shown in text.lower()
    assert [panel.title for panel in ramp_sheet(streamed, ()).panels][-1] == "First event"
    document = json.loads(ramp_document(streamed, (), **STORED))
    assert document["points"][0]["streams"]["good_share"] == 0.875
    without = RampView(report).text().lower()
    assert "first" not in without.split("levels")[1].split("\n")[1]
