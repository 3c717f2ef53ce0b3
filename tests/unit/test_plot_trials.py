"""Charts of single trials, of comparisons, of resources and of what trials cost."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from benchwright.core.comparison import (
    ComparisonResult,
    ComparisonRule,
    MetricVerdict,
    NullFloor,
    NullResult,
    Verdict,
)
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import StopDecision
from benchwright.core.resource_use import CpuUse, DiskUse, NetworkUse, ResourceUse
from benchwright.core.results import Estimate
from benchwright.features.load.chart import NamedLoad, course_panel, quantities_panel
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.load.response_times import decode_histogram, response_times
from benchwright.features.load.types import EngineResult
from benchwright.features.search.peak.view import cost_panel
from benchwright.features.search.types import SearchTrial
from benchwright.findings.result import TestResult
from benchwright.report.charts.forest import forest_sheet
from benchwright.report.charts.render import render_sheet
from benchwright.report.charts.sheet import AxisUnit, Panel, PanelCurve, Sheet
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.svg import panel_svgs
from benchwright.report.charts.trials import (
    FEWEST_OF_ECDF,
    ShownTest,
    distribution_sheet,
    metric_axis,
    shown_test,
    values_panel,
)
from benchwright.report.charts.trials import course_panel as run_chart
from benchwright.report.charts.use import use_sheet

GOLDEN = Path(__file__).parents[1] / "golden"
AXIS = metric_axis("Elapsed", "s")
MEAN = Estimate(0.5, 0.4, 0.6, 0.95, "t", 3)


def trial(
    epoch: int,
    elapsed: float | None,
    ending: TrialEnding = TrialEnding.OK,
    *,
    warmup: bool = False,
    started_ns: int = 0,
) -> Trial:
    """Return a trial with one block, or with none."""
    values = {} if elapsed is None else {"elapsed": elapsed}
    block = MeasurementBlock(1, epoch, "c", 0, values)
    return Trial(
        *("sort", epoch, 1, ending, started_ns or epoch, 1, (block,) if values else ()),
        warmup=warmup,
    )


def shown(*trials: Trial, estimate: Estimate | None = MEAN) -> ShownTest:
    """Return the test of these trials."""
    return shown_test(TestResult("t", whole_trials=trials), "sort", "elapsed", estimate)


def curves(panel: Panel) -> dict[str, PanelCurve]:
    """Return the curves by their labels."""
    return {curve.label: curve for curve in panel.curves}


ALL_STATES = (
    trial(1, 1.0, warmup=True),
    trial(2, 0.4),
    trial(3, 0.5),
    trial(4, 0.6),
    trial(5, 0.1, TrialEnding.INTERRUPTED, started_ns=9),
    trial(5, 0.7, TrialEnding.FAILED, started_ns=10),
    trial(6, None, TrialEnding.TIMEOUT, started_ns=11),
)


def test_every_trial_is_in_the_run_chart_with_its_state() -> None:
    found = curves(run_chart(shown(*ALL_STATES), AXIS))
    assert found["warm-up trial"].y == (1e9,)
    assert found["trials"].x == (2.0, 3.0, 4.0)
    assert found["void"].names == ("sort trial 5, void",)
    assert found["failed"].y == (0.7e9,)
    looks = {(curve.colour, curve.shape) for curve in found.values()}
    assert len(looks) == len(found), "each state has a look of its own"


def test_the_band_is_the_interval_over_the_trials_that_count() -> None:
    band = curves(run_chart(shown(*ALL_STATES), AXIS))["estimate with its interval"]
    assert (band.x, band.low, band.high) == ((2.0, 4.0), (4e8,) * 2, (6e8,) * 2)


def test_a_trial_without_a_value_has_a_place_in_the_run_chart() -> None:
    (span,) = run_chart(shown(*ALL_STATES), AXIS).spans
    assert (span.label, span.low, span.high) == (
        "failed, without a value",
        pytest.approx(6.6),
        pytest.approx(7.4),
    )


def test_trials_are_in_the_order_of_time() -> None:
    late = trial(1, 0.9, started_ns=50)
    assert [one.epoch for one in shown(trial(2, 0.4), late).trials] == [2, 1]


def test_only_trials_that_count_are_in_the_distribution() -> None:
    found = curves(values_panel([shown(*ALL_STATES)], AXIS))
    assert found["trials"].y == (4e8, 5e8, 6e8)
    assert found["estimate, 95 % interval"].low == (4e8,)


def test_an_estimate_without_an_interval_is_a_point() -> None:
    bare = Estimate(0.4, math.nan, math.nan, 0.95, "", 1)
    found = curves(values_panel([shown(trial(1, 0.4), estimate=bare)], AXIS))
    assert found["estimate"].low == ()


def test_the_shares_are_drawn_from_enough_trials_on() -> None:
    many = [trial(at, at / 10) for at in range(1, FEWEST_OF_ECDF + 1)]
    assert len(distribution_sheet([shown(*many)], AXIS).panels) == 2
    assert len(distribution_sheet([shown(*many[1:])], AXIS).panels) == 1


def test_no_trial_is_a_reason_and_no_empty_picture() -> None:
    assert run_chart(shown(estimate=None), AXIS).missing
    assert values_panel([shown(estimate=None)], AXIS).missing


def test_a_metric_that_is_no_time_keeps_its_unit() -> None:
    assert metric_axis("tps", "1/s").label == "tps (1/s)"
    assert metric_axis("CPU%", "%").label == "CPU%"
    assert AXIS.unit is AxisUnit.TIME


# -- comparisons -------------------------------------------------------------------------


def verdict(candidate: str, ratio: float, what: Verdict | None) -> MetricVerdict:
    """Return a verdict with an interval of 1 % each way."""
    return MetricVerdict(
        *("elapsed", "lower", what is not None, "a", candidate, 30, 30, 30, 1.0, ratio),
        Estimate(ratio, ratio - 0.01, ratio + 0.01, 0.95, "t", 30),
        *(0.01, 0.01, "holm", 0.02, what),
    )


def comparison(*verdicts: MetricVerdict, null: bool = True) -> ComparisonResult:
    """Return a comparison with these verdicts."""
    floors = (NullFloor("elapsed", 0.02, 0.03),)
    arms = ("a", *(one.candidate for one in verdicts))
    return ComparisonResult(
        *(arms, ComparisonRule(len(arms)), verdicts, ()),
        StopDecision("precise", "decided"),
        *(30, 0, 1),
        NullResult("a", 0, "", 30, floors, 0.05, 100, biased=False) if null else None,
    )


def test_a_forest_has_a_row_for_each_ratio_and_the_null_run_beside_it() -> None:
    sheet = forest_sheet(
        comparison(verdict("b", 0.9, Verdict.FASTER), verdict("c", 1.0, Verdict.EQUIVALENT))
    )
    (panel,) = sheet.panels
    assert panel.sideways
    assert [tick.label for tick in panel.x.ticks] == ["b", "c"]
    found = curves(panel)
    assert found["faster"].low == (pytest.approx(0.89),)
    assert found["null run"].high == (1.02, 1.02)
    assert [mark.y for mark in panel.marks] == [1.0, 1 / 1.01, 1.01]
    assert "±1 %" in sheet.note


def test_a_ratio_that_is_unknown_has_no_row() -> None:
    unknown = verdict("b", math.nan, Verdict.UNDECIDED)
    assert forest_sheet(comparison(unknown)).panels[0].missing
    (panel,) = forest_sheet(
        comparison(unknown, verdict("c", 1.5, Verdict.SLOWER), null=False)
    ).panels
    assert [tick.label for tick in panel.x.ticks] == ["c"]
    assert set(curves(panel)) == {"slower"}


def test_ratios_that_are_far_apart_are_on_a_logarithmic_axis() -> None:
    near, far = verdict("b", 0.5, Verdict.FASTER), verdict("c", 7.0, Verdict.SLOWER)
    assert not forest_sheet(comparison(near)).panels[0].y.log
    assert forest_sheet(comparison(near, far)).panels[0].y.log


# -- resources ---------------------------------------------------------------------------


def use(begin_s: float, end_s: float, busy: float) -> ResourceUse:
    """Return the use of a machine of four CPUs with one disk."""
    return ResourceUse(
        *(end_s - begin_s, 10, (1, 1), ""),
        begin_ns=int(begin_s * 1e9),
        end_ns=int(end_s * 1e9),
        cpu=CpuUse(4, busy, busy, 0, 0, 0, 0),
        disks=(DiskUse("sda", 0.5, 1, 1, 1, 1, 1),),
        networks=(NetworkUse("lo", 1, 1, 1, 1),),
    )


def test_a_row_for_each_resource_with_a_capacity() -> None:
    (panel,) = use_sheet([use(4, 5, 4.0), use(1, 2, 2.0)]).panels
    assert panel.grid is not None
    assert panel.grid.x_at == (0, 1, 3, 4), "the time between trials is a column too"
    cpu, disk = panel.grid.heights
    assert (cpu[0], cpu[2]) == (0.5, 1.0)
    assert math.isnan(cpu[1])
    assert disk[0] == 0.5
    labels = [tick.label for tick in panel.y.ticks]
    assert labels == ["CPU ≤ 100 %", "disk sda ≤ 50 %"]


def test_nothing_recorded_is_a_reason() -> None:
    assert use_sheet([]).panels[0].missing == "no series was recorded"
    idle = msgspec.structs.replace(use(1, 2, 0.0), disks=())
    assert use_sheet([idle]).panels[0].missing == "every resource was idle"


# -- loads and searches ------------------------------------------------------------------

TRIALS = tuple(
    SearchTrial(
        at,
        Probe(100.0 * at, 10),
        LoadTrial(rate=100.0 * at, duration_s=10, lasted_s=10, cost_s=10 + at),
    )
    for at in range(1, 4)
)


def whole_load() -> NamedLoad:
    """Return a load whose kinds of operations have histograms."""
    document = json.loads((GOLDEN / "load" / "result.json").read_text())
    trace = json.loads((GOLDEN / "trace" / "stat.json").read_text())
    for kind in document["kinds"].values():
        for name in ("issue_error_ns", "response_ns", "service_ns"):
            kind[name]["hdr"] = trace["response_ns"]["hdr"]
    return NamedLoad("a", msgspec.convert(document, EngineResult))


def test_the_three_times_of_a_load_by_percentile() -> None:
    panel = quantities_panel(whole_load())
    assert list(curves(panel)) == ["response", "service", "issue error"]
    one = curves(panel)["response"]
    assert list(one.y) == sorted(one.y)  # type: ignore[type-var]


@pytest.mark.parametrize("failed_share", [0.0, 0.004, 0.05, 0.2, 0.7])
def test_the_curve_of_the_response_counts_failures_as_the_table_does(failed_share: float) -> None:
    load = whole_load()
    result = load.result
    response = result.all.response_ns
    assert response.hdr is not None
    answered = decode_histogram(response.hdr).total
    failed = round(answered * failed_share / (1 - failed_share))
    counts = msgspec.structs.replace(
        result.counts,
        intended=answered + failed,
        issued=answered + failed,
        completed=answered + failed,
        errors=failed,
        dropped=0,
        skipped=0,
        unfinished=0,
    )
    result = msgspec.structs.replace(result, counts=counts)
    assert result.missing("all") == (failed, answered + failed)
    drawn = curves(quantities_panel(NamedLoad("a", result))).get("response")
    shown = {} if drawn is None else dict(zip(drawn.x, drawn.y, strict=True))
    table = response_times(result)
    for place, name in enumerate(("p50", "p90", "p99")):
        if failed:
            assert shown.get(float(place)) == getattr(table, name)
        else:
            assert shown[float(place)] is not None


def test_a_load_over_time_has_response_and_issue_error() -> None:
    panel = course_panel(whole_load())
    assert list(curves(panel)) == ["response p99", "issue error p99"]
    assert curves(panel)["response p99"].dash != curves(panel)["issue error p99"].dash


def test_the_cost_of_a_trial_is_its_load_and_the_rest() -> None:
    trials = TRIALS
    under_load, rest = cost_panel(trials).curves
    for at, one in enumerate(trials):
        assert under_load.y[at] == one.trial.lasted_s * 1e9
        assert rest.base[at] + (rest.y[at] or 0) == pytest.approx(one.trial.cost_s * 1e9)
    assert cost_panel(()).missing


def test_both_backends_draw_all_of_them() -> None:
    cells = use_sheet([use(1, 2, 2.0), use(4, 5, 4.0)])
    forest = forest_sheet(comparison(verdict("b", 0.9, Verdict.FASTER)))
    for sheet in (
        distribution_sheet([shown(*ALL_STATES)], AXIS),
        Sheet("", (run_chart(shown(*ALL_STATES), AXIS),)),
        Sheet("", (quantities_panel(whole_load()), cost_panel(TRIALS))),
        forest,
        cells,
    ):
        assert all("<path" in svg for svg in panel_svgs(sheet, prefix="p"))
        rendered = render_sheet(sheet, ChartStyle(dpi=40), "png")
        assert rendered.data.startswith(b"\x89PNG")
        assert rendered.notes == ()
