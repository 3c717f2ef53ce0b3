"""What is told of a surface: text, JSON, pictures, and what a spec and options mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.criterion import Criterion
from benchwright.core.errors import InputError
from benchwright.core.results import Finding, Severity
from benchwright.features.search.requests import (
    PeakRequest,
    SurfacePlan,
    SurfaceRequest,
    surface_plan,
)
from benchwright.features.search.spec_toml import read_spec
from benchwright.features.search.surface.coding import candidates
from benchwright.features.search.surface.design import initial_samples
from benchwright.features.search.surface.report import (
    SurfaceReport,
    named_findings,
    surface_document,
    surface_headline,
    surface_sentence,
)
from benchwright.features.search.surface.result import predict_samples, surface_of
from benchwright.features.search.surface.spec import read_surface, unused_factors
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    ModelKind,
    SampleResult,
    SurfaceGoal,
    Transform,
    make_factor,
)
from benchwright.features.search.surface.view import SurfaceView, surface_sheet
from benchwright.features.search.types import Claim, ClaimResult, PeakGoal, PeakStatus
from benchwright.report.answer import finding_groups
from benchwright.report.charts.render import render_sheet
from benchwright.report.charts.sheet import CurveForm, Sheet
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.svg import sheet_svg
from surface_maps import next_sample
from surfaces import ending, factors, measured_peaks, randomised, searched, true_peaks

PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),))
RATES = measured_peaks(true_peaks(randomised("web", 2)), 0.03, 2)
STYLE = ChartStyle(width_in=4.6, height_in=3.4, fontsize_pt=9.0, dpi=50)
SPEC = """
[load]
target = "http://127.0.0.1:8080/{disks}/{sync}"

[factors]
disks = [1, 2, 3, 4]
sync = ["on", "off"]

[peak]
criteria = ["mean response < 40ms"]
"""


def goal(space: tuple[Factor, ...], samples: int, **more: object) -> SurfaceGoal:
    base = SurfaceGoal(factors=space, peak=PEAK, samples=samples)
    return msgspec.structs.replace(base, **more)


def report_of(asked: SurfaceGoal, results: tuple[SampleResult, ...]) -> SurfaceReport:
    level = {"disks": "3", "nfsd": "24", "sync": "on", "fs": "a"}
    wanted = tuple((one.name, level[one.name]) for one in asked.factors)
    return SurfaceReport(
        status="complete",
        detail="done",
        goal=asked,
        claims=(Claim(),),
        policy="qgs",
        result=surface_of(asked, results),
        asked=predict_samples(asked, results, [wanted]),
    )


def ten() -> SurfaceReport:
    """Return the report of ten adaptive samples, the last of which failed."""
    asked = goal(factors(), 10)
    results: tuple[SampleResult, ...] = ()
    while (wanted := next_sample(asked, results)) is not None:
        results = (*results, searched(wanted.sample, RATES[wanted.sample], 0.03))
    failed = ClaimResult(status=PeakStatus.FAILED, detail="no start", claim=Claim(), policy="qgs")
    last = SampleResult(results[-1].sample, failed)
    return report_of(asked, (*results[:-1], last))


# -- text and JSON ---------------------------------------------------------------------


def test_findings_of_searches_are_grouped_by_code_with_their_samples() -> None:
    late = Finding("generator-late", Severity.WARNING, "a=1 search", "3 of 3", "Do.")
    other = msgspec.structs.replace(late, subject="a=2 search", evidence="1 of 9")
    alone = msgspec.structs.replace(late, code="probe-failed")
    of_all = msgspec.structs.replace(late, code="x", subject="surface")
    report = report_of(goal(factors(), 10), ())
    result = msgspec.structs.replace(report.result, findings=(late, alone, of_all, other))
    named = named_findings(msgspec.structs.replace(report, result=result))
    assert [(group.code, group.tests) for group in finding_groups(named)] == [
        ("generator-late", ("a=1", "a=2")),
        ("probe-failed", ("a=1",)),
        ("x", ()),
    ]


def apart(*rates: float, more: tuple[SampleResult, ...] = ()) -> SurfaceReport:
    """Return the report of samples with these rates, each ±6 %, and of further ones."""
    every = candidates(factors())
    results = tuple(
        searched(sample, rate, 0.03) for sample, rate in zip(every, rates, strict=False)
    )
    return report_of(goal(factors(), 32, design=DesignKind.FULL), (*results, *more))


def test_a_headline_is_the_highest_peak_rate() -> None:
    report = apart(100, 200, 300, 400)
    cut = msgspec.structs.replace(report, status="interrupted")
    none = msgspec.structs.replace(cut, result=msgspec.structs.replace(cut.result, results=()))
    assert [surface_headline(one) for one in (report, cut, none)] == [
        "Highest peak rate 400/s (377.16 to 424.23/s at 95 %)",
        "Highest peak rate 400/s, interrupted (377.16 to 424.23/s at 95 %)",
        "No peak rate, interrupted",
    ]
    assert surface_sentence(report) == (
        "the peak rate is highest at disks=1, nfsd=8: 400/s (377.16 to 424.23/s at 95 %); "
        "lowest at disks=1, nfsd=1: 100/s (94.29 to 106.06/s at 95 %); 4 of 32 samples "
        "searched, the claim held at 4 of 4"
    )


def test_no_winner_is_named_where_intervals_overlap() -> None:
    top = apart(100, 390, 300, 400)
    assert surface_headline(top) == ("Highest peak rate at one of 2 samples (367.73 to 424.23/s)")
    assert surface_sentence(top).startswith(
        "the peak rate is highest at disks=1, nfsd=8 or disks=1, nfsd=2, whose intervals "
        "overlap: 367.73 to 424.23/s; lowest at disks=1, nfsd=1: 100/s ("
    )
    assert "lowest at one of 3 samples, whose intervals overlap: " in surface_sentence(
        apart(100, 101, 99, 400)
    )
    assert surface_sentence(apart(100, 101, 99)).startswith(
        "no difference between the peak rates of 3 samples is established: their intervals "
        "overlap, 93.347 to 107.12/s; "
    )


@pytest.mark.parametrize(
    ("status", "how", "cell"),
    [
        (PeakStatus.BUDGET, {"ends": (5.0, 90.0)}, "about 57.8/s, between 5 and 90/s (budget)"),
        (PeakStatus.BUDGET, {"bound": "lower"}, "57.8/s or more (budget)"),
        (PeakStatus.UNDECIDED, {"bound": "upper"}, "below 57.8/s (undecided)"),
        (PeakStatus.UNDECIDED, {}, "about 57.8/s (undecided)"),
        (PeakStatus.FAILED, {}, "failed"),
    ],
)
def test_a_sample_whose_claim_did_not_hold_is_marked_everywhere_and_leaves_the_order_open(
    status: PeakStatus, how: dict[str, Any], cell: str
) -> None:
    wrong = candidates(factors())[13]
    rate = None if status is PeakStatus.FAILED else 57.8
    report = apart(100, 200, 300, 400, more=(ending(wrong, status, rate, **how),))
    sentence, text = surface_sentence(report), SurfaceView(report).text()
    assert sentence == (
        "which sample has the highest or the lowest peak rate is not established: the claim "
        "held at 4 of 5, from 100/s (94.29 to 106.06/s at 95 %) at disks=1, nfsd=1 to 400/s "
        "(377.16 to 424.23/s at 95 %) at disks=1, nfsd=8; 5 of 32 samples searched"
    )
    assert surface_headline(report) == (
        "Highest peak rate not established (the claim held at 4 of 5 samples; the highest of "
        "them 400/s, 377.16 to 424.23/s at 95 %)"
    )
    head = next(one for one in text.splitlines() if one.startswith("disks"))
    row = next(one for one in text.splitlines() if cell in one)
    assert head.index("claim not held") < row.index(cell) + len(cell)
    assert row[: row.index(cell)].split() == ["2", "32", "-"], "it is not measured"
    document = json.loads(surface_document(report, study="s", session=1, exit_status=3))
    told = {one["status"]: one["claim_held"] for one in document["samples"]}
    assert told == {"found": True, str(status): False}
    sample = {"disks": "2", "nfsd": "32"}
    (predicted,) = (p for p in document["predictions"] if p["sample"] == sample)
    assert predicted["measured"] is None
    (grid, _) = (one.grid for one in surface_sheet(report.goal, report.result).panels)
    assert grid is not None
    assert len(grid.points) == 4
    assert len(grid.open_points) == (rate is not None)


def test_a_bound_has_its_place_in_the_order() -> None:
    every = candidates(factors())
    above = ending(every[13], PeakStatus.NEVER_FAILS, 5000.0)
    below = ending(every[14], PeakStatus.FAILS_AT_LOWEST, 1.0)
    report = apart(100, 200, 300, 400, more=(above, below))
    assert surface_sentence(report) == (
        "the peak rate is highest at disks=2, nfsd=32: 5,000/s or more; lowest at disks=2, "
        "nfsd=64: below 1/s; 6 of 32 samples searched, the claim held at 4 of 6"
    )
    assert surface_headline(report) == "Highest peak rate 5,000/s or more"
    assert "5,000/s or more (never-fails)" in SurfaceView(report).text()
    assert "below 1/s (fails-at-lowest)" in SurfaceView(report).text()
    below_all = ending(every[13], PeakStatus.NEVER_FAILS, 350.0)
    assert surface_headline(apart(100, 400, more=(below_all,))) == (
        "Highest peak rate at one of 2 samples (350/s or more)"
    )


def test_without_any_claim_no_rate_is_named() -> None:
    every = candidates(factors())
    rough = tuple(ending(one, PeakStatus.BUDGET, 57.8, (5.0, 90.0)) for one in every[:4])
    report = msgspec.structs.replace(apart(more=rough), status="undecided")
    assert surface_sentence(report) == (
        "undecided: no sample has a peak rate whose claim held; 4 of 32 samples searched"
    )
    assert surface_headline(report) == (
        "No peak rate, undecided (the claim held at 0 of 4 samples)"
    )
    assert "4 samples, 4 of them rough" in SurfaceView(report).text()


def test_intervals_and_predictions_say_their_confidence() -> None:
    text = SurfaceView(ten()).text()
    assert "Measured: with 95 % intervals. Model: with 95 % bands." in text
    assert "Requested predictions, with 95 % bands:" in text


def test_the_table_has_every_sample_measured_or_predicted() -> None:
    lines = SurfaceView(ten()).text().splitlines()
    head = lines.index("Samples:") + 1
    table = [line.split() for line in lines[head + 1 : head + 33]]
    assert [row[:2] for row in table] == [
        [disks, nfsd] for (_, disks), (_, nfsd) in candidates(factors())
    ]
    assert sum("failed" in row for row in table) == 1
    assert {len(row) for row in table} == {8, 9, 10}, "predicted only, failed, measured"


def test_the_text_tells_errors_failures_and_what_was_asked() -> None:
    text = SurfaceView(ten()).text()
    assert "10 of 32 samples searched" in text
    assert "cross-validated" in text
    assert "disks=3, nfsd=24  " in text
    assert "surface-sample-failed" in {one.code for one in ten().findings}


def test_a_large_space_is_cut_and_the_cut_is_told() -> None:
    space = tuple(make_factor(name, ("1", "2", "3", "4", "5")) for name in ("x", "y", "z"))
    asked = goal(space, 6)
    every = candidates(space)
    results = tuple(searched(one, 100.0 + at, 0.03) for at, one in enumerate(every[:60:10]))
    report = SurfaceReport(
        status="complete",
        detail="",
        goal=asked,
        claims=(Claim(),),
        policy="p",
        result=surface_of(asked, results),
    )
    assert "119 samples that were not searched" in SurfaceView(report).text()
    samples, *_ = SurfaceView(report, verbose=True).tables()
    assert len(samples.rows) == len(every)
    assert "not searched" not in samples.note


def test_the_document_holds_the_same_and_nothing_that_is_not_json() -> None:
    report = ten()
    document = json.loads(surface_document(report, study="s", session=3, exit_status=0))
    assert document["schema"] == "benchwright/surface/1"
    assert document["session"] == 3
    assert len(document["samples"]) == 10
    assert len(document["predictions"]) == 32
    assert document["samples"][-1]["peak_rate"] is None
    (asked,) = document["asked"]
    assert asked["sample"] == {"disks": "3", "nfsd": "24"}
    assert asked["low"] < asked["value"] < asked["high"]
    assert document["validation"]["mean_absolute_error"] > 0


def test_a_polynomial_has_its_coefficients_in_both() -> None:
    asked = goal(factors(), 32, design=DesignKind.FULL, model=ModelKind.POLYNOMIAL)
    results = tuple(searched(one, RATES[one], 0.03) for one in candidates(factors()))
    report = report_of(asked, results)
    stored = {"study": "s", "session": 1, "exit_status": 0}
    document = json.loads(surface_document(report, **stored))
    names = [one["name"] for one in document["model"]["coefficients"]]
    text = SurfaceView(report).text()
    assert len(names) == 6
    assert all(name in text for name in names)


def test_a_surface_without_an_error_says_so_in_both() -> None:
    asked = goal(factors(), 6, design=DesignKind.D_OPTIMAL, model=ModelKind.POLYNOMIAL)
    chosen = initial_samples(asked)
    report = report_of(asked, tuple(searched(x, RATES[x], 0.03) for x in chosen))
    text = SurfaceView(report).text()
    assert "unknown: the model has as many terms as samples" in text
    assert "nan" not in text
    stored = {"study": "s", "session": 1, "exit_status": 0}
    document = json.loads(surface_document(report, **stored))
    assert document["model"]["expected_error"] is None
    assert {(one["low"], one["high"]) for one in document["predictions"]} == {(None, None)}
    assert {tuple(one["interval"]) for one in document["model"]["coefficients"]} == {(None, None)}


# -- pictures --------------------------------------------------------------------------


def test_a_profile_of_a_model_without_bands_is_a_line() -> None:
    space = (make_factor("disks", ("1", "2", "4", "8")),)
    asked = goal(space, 3, design=DesignKind.D_OPTIMAL, model=ModelKind.POLYNOMIAL)
    results = tuple(searched(x, 100.0, 0.03) for x in initial_samples(asked))
    (panel,) = surface_sheet(asked, surface_of(asked, results)).panels
    model, measured = panel.curves
    assert (model.low, model.high) == ((), ())
    assert len(measured.low) == 3


def test_two_numeric_factors_are_a_map_with_the_measured_points() -> None:
    report = ten()
    sheet = surface_sheet(report.goal, report.result)
    flat, relief = sheet.panels
    assert (flat.x.label, flat.y.label) == ("nfsd", "disks")
    assert flat.grid is not None
    assert relief.grid == msgspec.structs.replace(flat.grid, relief=True)
    assert len(flat.grid.points) == 9
    assert min(map(min, flat.grid.heights)) > 0
    assert len(flat.grid.heights) == len(flat.grid.y_at)


def test_one_numeric_factor_is_a_profile_for_each_word() -> None:
    space = (make_factor("disks", ("1", "2", "4")), make_factor("sync", ("on", "off")))
    results = tuple(
        searched(one, 100.0 * (at + 1), 0.03) for at, one in enumerate(candidates(space))
    )
    sheet = surface_sheet(goal(space, 6), surface_of(goal(space, 6), results))
    (panel,) = sheet.panels
    models, measured = panel.curves[::2], panel.curves[1::2]
    assert [one.label for one in models] == ["sync=on", "sync=off"]
    assert [len(one.x) for one in measured] == [3, 3]
    for curve in panel.curves:
        ends = zip(curve.low, curve.high, strict=True)
        assert all(low is not None and high is not None and low < high for low, high in ends)


def test_maps_of_further_words_are_drawn_and_the_rest_is_told() -> None:
    fs = make_factor("fs", ("a", "b", "c", "d", "e"))
    space = (*factors(), fs)
    results = tuple(
        searched(one, 100.0 + at, 0.03) for at, one in enumerate(candidates(space)[::9])
    )
    asked = goal(space, 10)
    sheet = surface_sheet(asked, surface_of(asked, results))
    assert [one.title for one in sheet.panels[::2]] == ["fs=a", "fs=b", "fs=c", "fs=d"]
    assert sheet.note.startswith("1 more")


def with_open_samples(space: tuple[Factor, ...]) -> Sheet:
    """Return the picture of samples that were measured, and of one with each other ending."""
    every = candidates(space)
    results = (
        *(searched(one, 100.0 + at, 0.03) for at, one in enumerate(every[:-5])),
        ending(every[-5], PeakStatus.BUDGET, 57.8, (5.0, 90.0)),
        ending(every[-4], PeakStatus.BUDGET, 90.0, bound="lower"),
        ending(every[-3], PeakStatus.NEVER_FAILS, 1e6),
        ending(every[-2], PeakStatus.FAILS_AT_LOWEST, 1.0),
        ending(every[-1], PeakStatus.FAILED, None),
    )
    asked = goal(space, len(every), design=DesignKind.FULL)
    return surface_sheet(asked, surface_of(asked, results))


def test_a_map_marks_the_samples_that_are_not_measured() -> None:
    space = (make_factor("n", ("1", "2", "4")), make_factor("m", ("1", "2", "3")))
    sheet = with_open_samples(space)
    grid = sheet.panels[0].grid
    assert grid is not None
    assert len(grid.points) == 4
    texts = {one.text for one in grid.open_points}
    assert texts == {"~57.8", "≥ 90", "≥ 1,000,000", "≤ 1"}
    assert "1 of them rough" in sheet.note
    assert "not drawn: n=4, m=3: failed" in sheet.note
    drawn = sheet_svg(sheet, prefix="p")
    assert drawn.count('class="cross"') == 4 + 1, "the samples and the legend"
    assert "claim not held: ≥ 90" in drawn


def test_profiles_mark_the_samples_that_are_not_measured() -> None:
    space = (make_factor("n", ("1", "2", "4", "8", "16")), make_factor("fs", ("a", "b", "c")))
    sheet = with_open_samples(space)
    (panel,) = sheet.panels
    markers = [one for one in panel.curves if one.form is CurveForm.POINTS]
    measured = [one for one in markers if not one.label]
    others = [one for one in markers if one.label]
    assert sum(len(one.x) for one in measured) == 10
    assert all(one.label.endswith(", claim not held") for one in others)
    assert not {one.shape for one in others} & {one.shape for one in measured}
    rates = sorted(rate for one in others for rate in one.y if rate is not None)
    assert rates == [1.0, 57.8, 90.0]
    assert "n=16, fs=a: 1,000,000/s or more (never-fails)" in sheet.note
    assert "n=16, fs=c: failed" in sheet.note
    names = {name for one in others for name in one.names}
    assert "about 57.8/s, between 5 and 90/s (budget)" in names


@pytest.mark.parametrize("form", ["png", "svg"])
@pytest.mark.parametrize("named", ["number", "word"])
def test_charts_with_samples_that_are_not_measured_are_drawn(named: str, form: str) -> None:
    levels = ("1", "2", "3") if named == "number" else ("a", "b", "c")
    space = (make_factor("n", ("1", "2", "4")), make_factor("m", levels))
    rendered = render_sheet(with_open_samples(space), STYLE, form)
    assert rendered.notes == ()
    if form == "svg":
        assert b"claim not held" in rendered.data


@pytest.mark.parametrize("form", ["png", "svg"])
@pytest.mark.parametrize("kind", ["map", "profiles", "words", "nothing"])
def test_every_kind_of_chart_is_drawn_the_same_twice(kind: str, form: str) -> None:
    space = {
        "map": factors(),
        "profiles": (make_factor("disks", ("1", "2", "4")), make_factor("sync", ("on", "off"))),
        "words": (make_factor("fs", ("a", "b", "c")), make_factor("sync", ("on", "off"))),
        "nothing": factors(),
    }[kind]
    few = candidates(space)[: 1 if kind == "nothing" else 6]
    results = tuple(searched(one, 100.0 + at, 0.03) for at, one in enumerate(few))
    sheet = surface_sheet(goal(space, 6), surface_of(goal(space, 6), results))
    assert bool(sheet.panels[0].missing) == (kind == "nothing")
    first = render_sheet(sheet, STYLE, form)
    assert first.notes == ()
    assert first.data == render_sheet(sheet, STYLE, form).data


@pytest.mark.parametrize("levels", [("1", "7.5"), ("16MB", "2GB"), ("10ms", "3s"), ("1%", "50%")])
@pytest.mark.parametrize("place", [-1.0, -0.3, 0.5, 1.0])
def test_a_level_between_is_read_as_its_place(levels: tuple[str, ...], place: float) -> None:
    factor = make_factor("x", levels)
    assert factor.place(factor.level_between(place)) == pytest.approx(place, abs=1e-6)


# -- spec and options ------------------------------------------------------------------


def plan_of(surface: str = "", **options: object) -> SurfacePlan:
    spec = read_spec(SPEC + surface, "s.toml", {"surface": read_surface})
    request = SurfaceRequest(peak=PeakRequest(drawn_seed=7), **options)  # type: ignore[arg-type]
    return surface_plan(request, spec)


def test_without_a_table_every_sample_is_searched() -> None:
    plan = plan_of()
    assert plan.goal.design is DesignKind.FULL
    assert plan.goal.samples == 8
    assert plan.goal.seed == 7


def test_a_number_of_samples_makes_it_adaptive() -> None:
    plan = plan_of("[surface]\nsamples = 5\n")
    assert plan.goal.design is DesignKind.ADAPTIVE
    assert plan.goal.model is ModelKind.GAUSSIAN_PROCESS


def test_an_optimal_design_is_fitted_by_a_polynomial() -> None:
    plan = plan_of('[surface]\nsamples = 6\ndesign = "d-optimal"\nseed = 3\n')
    assert plan.goal.model is ModelKind.POLYNOMIAL
    assert plan.goal.seed == 3


def test_spread_is_of_optimal_designs() -> None:
    table = '[surface]\nsamples = 6\ndesign = "d-optimal"\nspread = "0%"\n'
    assert plan_of(table).goal.spread == 0.0
    assert plan_of(table, spread="100%").goal.spread == 1.0
    assert plan_of().goal.spread is None
    with pytest.raises(InputError, match="design adaptive has no spread"):
        plan_of(samples="6", spread="0%")
    with pytest.raises(InputError, match="design full has no spread"):
        plan_of('[surface]\nspread = "10%"\n')
    with pytest.raises(InputError, match="more than 100 %"):
        plan_of(table, spread="101%")


def test_options_win_over_the_table() -> None:
    plan = plan_of(
        '[surface]\nsamples = 5\ntransform = { disks = "sqrt" }\n', samples="4", model="polynomial"
    )
    assert plan.goal.samples == 4
    assert plan.goal.model is ModelKind.POLYNOMIAL
    assert plan.goal.factors[0].transform is Transform.SQRT


def test_samples_to_predict_are_read_in_the_factors_order() -> None:
    plan = plan_of(predict=("sync=off,disks=2.5",))
    assert plan.questions.predict == ((("disks", "2.5"), ("sync", "off")),)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("disks=2", "no level of sync"),
        ("disks=2,sync=maybe", "must be one of on, off, not 'maybe'"),
        ("disks=two,sync=on", "disks: 'two' is not a number"),
        ("disks=1e300,sync=on", "too far from all levels"),
        ("disks=2,sync", "names no level"),
        ("disk=2,sync=on", "no factor 'disk'"),
        ("disks=2,disks=3,sync=on", "twice"),
        ("disks=-1,sync=on", "disks: -1 has no log2"),
    ],
)
def test_a_sample_that_cannot_be_predicted_is_refused(word: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(predict=(word,))


def test_every_mistake_of_the_table_is_told_at_its_place() -> None:
    text = (
        '[surface]\nsamples = 9\ndesign = "best"\nsample = 3\n'
        'transform = { sync = "log", disk = "log" }\ndegree = 3\n'
    )
    with pytest.raises(InputError) as raised:
        plan_of(text)
    told = [(one.line - 11, one.code) for one in raised.value.diagnostics]
    assert sorted({line for line, _ in told}) == [1, 2, 3, 4, 5]
    assert len(told) == 6


def test_a_spec_without_factors_is_refused(tmp_path: Path) -> None:
    text = SPEC.replace('disks = [1, 2, 3, 4]\nsync = ["on", "off"]', "")
    text = text.replace("/{disks}/{sync}", "/")
    spec = read_spec(text, "s.toml", {"surface": read_surface})
    with pytest.raises(InputError, match="no factors"):
        surface_plan(SurfaceRequest(peak=PeakRequest()), spec)


def test_without_factors_the_number_of_samples_is_no_second_mistake() -> None:
    text = SPEC.replace('disks = [1, 2, 3, 4]\nsync = ["on", "off"]', "")
    text = text.replace("/{disks}/{sync}", "/") + "[surface]\nsamples = 4\n"
    spec = read_spec(text, "s.toml", {"surface": read_surface})
    with pytest.raises(InputError) as error:
        surface_plan(SurfaceRequest(peak=PeakRequest()), spec)
    assert len(error.value.diagnostics) == 1
    assert "no factors" in str(error.value)


def test_a_factor_that_nothing_uses_is_refused_at_its_line() -> None:
    for unused, text in (
        ("sync", SPEC.replace("/{sync}", "")),
        ("disks", SPEC.replace("{disks}", "disks")),
    ):
        spec = read_spec(text, "s.toml", {"surface": read_surface})
        with pytest.raises(InputError) as raised:
            surface_plan(SurfaceRequest(peak=PeakRequest()), spec)
        (one,) = raised.value.diagnostics
        assert f"no value uses the factor {unused}" in one.message
        line = next(at for at, found in enumerate(text.splitlines(), 1) if f"{unused} =" in found)
        assert (one.file, one.line, one.column) == ("s.toml", line, len(unused) + 4)


@pytest.mark.parametrize(
    "use",
    [
        '[server]\nconfigure = "./prepare {disks} {sync}"',
        '[server]\nconfigure = ["true", ["sh", "-c", "echo {disks}"]]\n'
        'environment = { SYNC = "{sync}" }',
        '[server]\nconfigure = "echo $BW_FACTOR_disks > {state}/a; ls {sync}"',
        '[server]\nready = { http = "http://127.0.0.1:80/{disks}/{sync}" }',
    ],
)
def test_a_factor_is_used_wherever_it_is_named(use: str) -> None:
    text = SPEC.replace("/{disks}/{sync}", "/") + use + "\n"
    spec = read_spec(text, "s.toml", {"surface": read_surface})
    assert unused_factors(spec) == ()


def test_a_generators_texts_use_factors() -> None:
    load = '[load]\ngenerator = "{}"\n{}\n'
    rest = SPEC[SPEC.index("[factors]") :]
    for name, keys in (
        ("command", 'command = "g {rate} {disks}"\nvalues = { response_ms_mean = "/m" }'),
        ("oha", 'url = "http://127.0.0.1/{disks}"'),
        ("pgbench", 'clients = "{disks}"'),
    ):
        text = load.replace("{}", name, 1).replace("{}", keys, 1) + rest
        spec = read_spec(text, "s.toml", {"surface": read_surface})
        assert unused_factors(spec) == ("sync",), name


def test_too_few_samples_for_any_model_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        plan_of("[surface]\nsamples = 3\n")
    (one,) = raised.value.diagnostics
    assert one.message == "3 samples cannot predict the peaks of all 8"
    assert "at least 4" in (one.hint or "")
    place = next(
        at
        for at, line in enumerate((SPEC + "[surface]\nsamples = 3\n").splitlines(), 1)
        if line.startswith("samples")
    )
    assert (one.line, one.column) == (place, 11)
    with pytest.raises(InputError, match="--samples"):
        plan_of(samples="1")
    few = SPEC.replace("disks = [1, 2, 3, 4]", "disks = [1, 2]")
    spec = read_spec(few + "[surface]\nsamples = 4\n", "s.toml", {"surface": read_surface})
    assert surface_plan(SurfaceRequest(peak=PeakRequest()), spec).goal.samples == 4


def test_a_level_that_is_there_twice_is_refused() -> None:
    text = SPEC.replace("disks = [1, 2, 3, 4]", "disks = [1, 2, 1]")
    with pytest.raises(InputError, match="disks has the level 1 twice"):
        read_spec(text, "s.toml", {"surface": read_surface})


def test_a_design_of_part_of_the_samples_needs_their_number() -> None:
    with pytest.raises(InputError, match="needs samples"):
        plan_of('[surface]\ndesign = "i-optimal"\n')
    with pytest.raises(InputError, match="design full is all 8"):
        plan_of('[surface]\ndesign = "full"\nsamples = 5\n')


def test_no_name_of_a_level_reaches_a_terminal_as_a_command() -> None:
    evil = "\x1b[2J\x9b\u202e"
    space = (make_factor("fs", (evil, "b")),)
    asked = goal(space, 2, design=DesignKind.FULL)
    results = tuple(
        searched(one, 100.0 + 50 * at, 0.03) for at, one in enumerate(candidates(space))
    )
    report = SurfaceReport(
        status="failed",
        detail=f"{evil}\nsecond",
        goal=asked,
        claims=(Claim(),),
        policy="p",
        result=surface_of(asked, results),
    )
    lines = SurfaceView(report).text().splitlines()
    assert all(line.isprintable() for line in lines)
    shown = r"\x1b[2J\x9b\u202e"
    assert f"ended    failed: {shown} second" in lines
    assert sum(shown in line for line in lines) == 3, "the answer, the level, the end"
