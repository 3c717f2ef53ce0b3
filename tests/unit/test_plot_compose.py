"""What is drawn: points, error bars, stacks, spacing, gaps; and what cannot be."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest
import scipy.stats

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import ComparisonArm, StopDecision
from benchwright.core.results import Estimate, ReachedPrecision
from benchwright.findings.result import TestResult
from benchwright.report.charts.compose import check_axes, compose_plot, plot_sheet
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import (
    PlotData,
    PlotMode,
    PlotPoint,
    SingleValues,
    plot_document,
)
from benchwright.report.charts.render import fitted_style
from benchwright.report.charts.sheet import CurveForm
from benchwright.report.charts.source import PlotGroup
from benchwright.report.charts.style import BarSpacing, ChartStyle
from benchwright.report.charts.trials import ShownTrial
from benchwright.stats.drift import mser_truncation
from benchwright.stats.intervals import t_mixture_interval

ELAPSED = (10.0, 11.0, 9.5, 10.5)


def source(test: str, stop: StopDecision | None = None, **columns: Sequence[float]) -> TestResult:
    """Return a test with these values, one a trial; NaN is: not measured."""
    rows: list[Mapping[str, float]] = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    trials = [
        Trial(
            test=test,
            epoch=epoch,
            threads=1,
            ending=TrialEnding.OK,
            started_ns=0,
            duration_ns=0,
            blocks=(MeasurementBlock(1, epoch, "c", 0, {k: v for k, v in row.items() if v == v}),),
        )
        for epoch, row in enumerate(rows, 1)
    ]
    return TestResult(test, whole_trials=tuple(trials), stop=stop)


def times(test: str, factor: float = 1.0) -> TestResult:
    values = np.array(ELAPSED) * factor
    return source(test, elapsed=values, user=values / 10, system=values / 2)


def drawn(*groups: PlotGroup, **asked: object) -> PlotData:
    return compose_plot(groups, ChartRequest(**asked))[0]  # type: ignore[arg-type]


def points(chart: PlotData, component: str) -> list[PlotPoint]:
    return [p for s in chart.series if s.component == component for p in s.points]


def line(*sources: TestResult) -> PlotGroup:
    return PlotGroup("G", sources)


def test_a_point_is_the_mean_with_students_interval() -> None:
    (point,) = points(drawn(line(times("a:1"))), "Elapsed")
    expected = scipy.stats.t.interval(0.95, 3, np.mean(ELAPSED), scipy.stats.sem(ELAPSED))
    assert point.value == pytest.approx(np.mean(ELAPSED))
    assert (point.low, point.high) == pytest.approx(expected)
    assert (point.n, point.method) == (4, "student-t")


def test_every_kind_of_error_bar() -> None:
    def ends(kind: str) -> tuple[float | None, float | None]:
        (point,) = points(drawn(line(times("a")), errorbars=kind), "Elapsed")
        return point.low, point.high

    mean, sdev = np.mean(ELAPSED), np.std(ELAPSED, ddof=1)
    assert ends("minmax") == (9.5, 11.0)
    assert ends("sdev") == pytest.approx((mean - sdev, mean + sdev))
    assert ends("none") == (None, None)
    assert ends("interval") == ends("t")


def test_the_interval_that_a_stopping_rule_reached_is_the_tests_own() -> None:
    own = Estimate(10.2, 9.7, 11.4, 0.95, "order-statistics", 4, "s")
    stop = StopDecision("precise", "", reached=(ReachedPrecision("elapsed", "median", 4, own),))
    group = line(source("a", stop, elapsed=ELAPSED, user=ELAPSED))
    chart = drawn(group, errorbars="interval", components=("Elapsed", "User"))
    (elapsed,), (user,) = points(chart, "Elapsed"), points(chart, "User")
    assert (elapsed.value, elapsed.low, elapsed.high) == (10.2, 9.7, 11.4)
    assert elapsed.method == "order-statistics"
    assert user.method == "student-t"


def test_of_one_trial_there_is_no_error_bar_and_it_is_said() -> None:
    chart, findings = compose_plot([line(source("a", elapsed=[3.0]))], ChartRequest())
    (point,) = points(chart, "Elapsed")
    assert (point.value, point.low, point.high, point.method) == (3.0, None, None, "")
    assert [finding.code for finding in findings] == ["too-few-trials"]


def test_lines_are_in_the_order_of_the_axis() -> None:
    chart = drawn(line(*(times(f"r:{n}") for n in (16, 1, 4))), components=("elapsed",))
    assert [point.x for point in chart.series[0].points] == [1, 4, 16]
    assert chart.numeric
    assert [tick.label for tick in chart.ticks] == ["1", "4", "16"]


def test_two_points_at_one_place_are_refused() -> None:
    same = (source("a", elapsed=[1.0]), source("a", elapsed=[2.0]))
    with pytest.raises(InputError, match="both at a"):
        drawn(PlotGroup("G", same))


def test_a_component_that_some_test_lacks_is_a_gap_and_a_finding() -> None:
    bare = source("a:2", elapsed=ELAPSED)
    chart, findings = compose_plot([line(times("a:1"), bare)], ChartRequest())
    user = points(chart, "User")
    assert [point.value for point in user] == [pytest.approx(np.mean(ELAPSED) / 10), None]
    assert {(f.code, f.subject) for f in findings} == {("missing-metric", "G a:2")}
    assert {f.evidence.split(":")[0] for f in findings} == {"User", "System"}


def test_every_mistake_is_told_at_once() -> None:
    empty = PlotGroup("Empty", (TestResult("e", whole_trials=()),))
    with pytest.raises(InputError) as caught:
        drawn(line(times("a")), empty, components=("Elapsed", "Foo"), factor="fs")
    messages = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert len(messages) == 3
    assert "component 'Foo'" in messages[0]
    assert "'Empty' has nothing to draw" in messages[1]
    assert "no factor 'fs'" in messages[2]


def bar(**asked: object) -> PlotData:
    groups = (PlotGroup("Ext2", (times("ext2:1"),)), PlotGroup("Ext3", (times("ext3:1", 2),)))
    return drawn(*groups, mode=PlotMode.BAR, **asked)


def test_user_is_stacked_on_system_and_elapsed_stands_beside() -> None:
    chart = bar(components=("Elapsed", "User", "System"))
    elapsed, user, system = (points(chart, n)[1] for n in ("Elapsed", "User", "System"))
    assert system.base == elapsed.base == 0
    assert user.base == system.value
    assert user.x == system.x > elapsed.x
    assert chart.legends() == ("Elapsed", "User", "System")
    assert [tick.label for tick in chart.ticks] == ["Ext2", "Ext3"]


def test_stacks_are_as_asked() -> None:
    flat = bar(components=("Elapsed", "User", "System"), stacks=())
    assert len({point.x for s in flat.series for point in s.points}) == 6
    other = bar(stacks=(("User", "System", "Elapsed"),))
    assert points(other, "System")[0].base == points(other, "User")[0].value
    for stacks in ((("User", "Nonsense"),), (("User",), ("user",))):
        with pytest.raises(InputError, match="--stack"):
            bar(stacks=stacks)


def test_spacing_is_in_widths_of_bars() -> None:
    chart = bar(components=("Elapsed", "System"), spacing=BarSpacing(2, 0.5, 3))
    elapsed, system = points(chart, "Elapsed"), points(chart, "System")
    assert {point.width for point in (*elapsed, *system)} == {2}
    edges = [(p.x - 1, p.x + 1) for pair in zip(elapsed, system, strict=True) for p in pair]
    gaps = [right[0] - left[1] for left, right in itertools.pairwise(edges)]
    assert gaps == pytest.approx([0.5, 3, 0.5])


def test_nothing_stands_on_a_gap() -> None:
    bare = source("b", elapsed=ELAPSED, user=ELAPSED)
    chart = drawn(PlotGroup("A", (times("a"),)), PlotGroup("B", (bare,)), mode=PlotMode.BAR)
    assert points(chart, "System")[1].value is None
    assert points(chart, "User")[1].value is None
    assert points(chart, "User")[0].value is not None


def test_a_negative_value_is_not_stacked() -> None:
    below = source("a", elapsed=[1.0, 2], user=[-1.0, -2], system=[1.0, 2])
    with pytest.raises(InputError, match="User is negative"):
        drawn(line(below), mode=PlotMode.BAR)
    flat = drawn(line(below), mode=PlotMode.BAR, stacks=())
    assert points(flat, "User")[0].value == -1.5


def test_names_stand_side_by_side_for_one_component_of_many_tests() -> None:
    groups = [PlotGroup(n, tuple(times(f"{n}:{k}") for k in (8, 1))) for n in ("ext", "xfs")]
    chart = drawn(*groups, mode=PlotMode.BAR, components=("Elapsed",))
    assert [tick.label for tick in chart.ticks] == ["1", "8"]
    assert chart.legends() == ("ext", "xfs")
    assert [s.points[0].label for s in chart.series] == ["1", "1"]
    both = drawn(*groups, mode=PlotMode.BAR)
    assert [tick.label for tick in both.ticks] == ["1", "8", "1", "8"]
    assert [block.label for block in both.blocks] == ["ext", "xfs"]


def test_distributions_keep_every_value_and_mark_the_median() -> None:
    values = np.random.default_rng(3).normal(10, 1, 25)
    for mode in (PlotMode.ECDF, PlotMode.VIOLIN, PlotMode.STRIP):
        (point,) = drawn(line(source("a", elapsed=values)), mode=mode).series[0].points
        assert point.values is not None
        assert point.values.values == pytest.approx(values)
        assert point.value == pytest.approx(np.median(values))
        # Exact ranks of n = 25 at 95 % are the 8th and 18th value; dependence, or what
        # looks like it, only widens them.
        ordered = np.sort(values).tolist()
        assert point.low in ordered[:8]
        assert point.high in ordered[17:]


def test_too_few_values_have_a_median_without_an_interval() -> None:
    (point,) = drawn(line(times("a")), mode=PlotMode.STRIP).series[0].points
    assert (point.low, point.high, point.method) == (None, None, "")
    assert point.value == np.median(ELAPSED)


@pytest.mark.parametrize("mode", [PlotMode.STRIP, PlotMode.VIOLIN])
def test_a_median_says_how_many_trials_its_interval_needs(mode: PlotMode) -> None:
    for least, confidence in ((6, 0.95), (8, 0.99)):
        asked = ChartRequest(mode=mode, confidence=confidence)
        enough, few = ([float(n) for n in range(end)] for end in (least, least - 1))
        assert not compose_plot([line(source("a", elapsed=enough))], asked)[1]
        (found,) = compose_plot([line(source("a", elapsed=few))], asked)[1]
        assert found.evidence == f"{least - 1} trials: no error bar"
        assert f"at least {least} trials" in found.remedy


@pytest.mark.parametrize("mode", list(PlotMode))
@pytest.mark.parametrize("components", [(), ("Elapsed",)])
def test_tests_of_which_no_trial_counts_are_refused(
    mode: PlotMode, components: tuple[str, ...]
) -> None:
    failed = Trial("a", 1, 1, TrialEnding.FAILED, 0, 0, blocks=())
    groups = [PlotGroup(name, (TestResult(name, whole_trials=(failed,)),)) for name in "AB"]
    with pytest.raises(InputError) as caught:
        drawn(*groups, mode=mode, components=components)
    told = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert [one.split(": ")[1] for one in told] == [
        "A has no completed trial",
        "B has no completed trial",
    ]


def test_a_series_without_the_component_is_told_apart_from_one_without_trials() -> None:
    bare = PlotGroup("B", (source("b", elapsed=ELAPSED),))
    with pytest.raises(InputError, match=r"'B' has nothing to draw: b has no User"):
        drawn(line(times("a")), bare, components=("user",))


def test_a_ratio_without_an_error_bar_blames_the_test_that_is_too_short() -> None:
    one, several = source("one", elapsed=[3.0]), times("a")
    for groups, blamed in (
        ((PlotGroup("X", (one,)), PlotGroup("Y", (several,))), ["X one"]),
        ((PlotGroup("X", (several,)), PlotGroup("Y", (one,))), ["Y one"]),
        ((PlotGroup("X", (one,)), PlotGroup("Y", (one,))), ["X one", "Y one"]),
    ):
        found = compose_plot(groups, ChartRequest(mode=PlotMode.RATIO))[1]
        assert list(dict.fromkeys(f.subject for f in found)) == blamed
        assert {f.evidence for f in found} == {"1 trial: no error bar"}


@pytest.mark.parametrize("option", ["logx", "logy"])
def test_a_logarithmic_axis_refuses_what_it_cannot_show(option: str) -> None:
    chart = drawn(line(source("a:0", elapsed=[0.0, 0]), source("a:1", elapsed=[1.0, 1])))
    with pytest.raises(InputError, match=f"--{option}.*not above 0"):
        check_axes(chart, ChartStyle(**{option: True}))  # type: ignore[arg-type]
    check_axes(chart, ChartStyle())


def test_a_logarithmic_axis_refuses_stacks_and_what_is_too_far_apart() -> None:
    with pytest.raises(InputError, match="add --no-stack"):
        check_axes(bar(), ChartStyle(logy=True))
    far = drawn(line(source("a", elapsed=[1e-300] * 2), source("b", elapsed=[1e300] * 2)))
    with pytest.raises(InputError, match="do not fit on one axis"):
        check_axes(far, ChartStyle(logy=True))
    huge = drawn(line(source("a", elapsed=[1.7e308] * 2)))
    with pytest.raises(InputError, match="cannot be drawn"):
        check_axes(huge, ChartStyle())


def test_labels_of_the_axes_say_what_is_along_them() -> None:
    chart = drawn(line(times("a:1"), times("a:2")))
    assert (chart.xlabel, chart.ylabel) == ("", "Time (s)")
    assert drawn(line(times("a")), components=("CPU%",)).ylabel == "CPU%"
    both = drawn(line(times("a")), components=("Elapsed", "CPU%"), xlabel="X")
    assert (both.xlabel, both.ylabel) == ("X", "Elapsed (s), CPU%")
    assert drawn(line(times("a")), ylabel="").ylabel == ""


def ratios(*groups: PlotGroup, **asked: object) -> list[tuple[str, str, float | None]]:
    chart = drawn(*groups, mode=PlotMode.RATIO, **asked)
    return [
        (series.name, point.test, None if point.value is None else round(point.value, 6))
        for series in chart.series
        for point in series.points
    ]


def test_a_ratio_has_welchs_interval_on_logarithms() -> None:
    other = source("b", elapsed=np.array([12.0, 13, 12.5, 14, 11]))
    groups = (PlotGroup("A", (times("a"),)), PlotGroup("B", (other,)))
    chart = drawn(*groups, mode=PlotMode.RATIO)
    ((point,),) = [series.points for series in chart.series]
    found = scipy.stats.ttest_ind(
        np.log(other.columns["elapsed"].values), np.log(ELAPSED), equal_var=False
    ).confidence_interval()
    assert (point.low, point.high) == pytest.approx(tuple(np.exp(found)))
    assert (chart.baseline, chart.ylabel, point.n) == ("A", "Elapsed / A", 5)
    assert [tick.label for tick in chart.ticks] == ["B"]


def test_each_test_is_compared_with_the_baselines_at_the_same_place() -> None:
    one = PlotGroup("A", (times("a:1"), times("a:4", 2)))
    two = PlotGroup("B", (times("b:1", 3), times("b:4", 8), times("b:9")))
    assert ratios(one, two) == [("B", "b:1", 3), ("B", "b:4", 4)]
    assert ratios(one, two, baseline="B") == [
        ("A", "a:1", pytest.approx(1 / 3, abs=1e-6)),
        ("A", "a:4", 0.25),
    ]


def test_a_test_can_be_the_baseline_of_all_others() -> None:
    one = PlotGroup("A", (times("a:1"), times("a:4", 2), times("a:16", 3)))
    assert ratios(one) == [("A", "a:4", 2), ("A", "a:16", 3)]
    assert ratios(one, baseline="a:4") == [("A", "a:1", 0.5), ("A", "a:16", 1.5)]
    with pytest.raises(InputError, match="there are: a:1, a:4, a:16"):
        ratios(one, baseline="b")
    with pytest.raises(InputError, match="only test"):
        ratios(line(times("a")))


def test_baselines_that_cannot_be_compared_are_refused() -> None:
    one = PlotGroup("A", (times("a:1"), times("a:4")))
    with pytest.raises(InputError, match="no test at a place"):
        ratios(one, PlotGroup("B", (times("b:2"), times("b:3"))))


def test_a_ratio_of_what_is_not_positive_is_a_gap() -> None:
    zero = source("b", elapsed=[0.0, 1, 2])
    groups = (PlotGroup("A", (times("a"),)), PlotGroup("B", (zero,)))
    chart, findings = compose_plot(groups, ChartRequest(mode=PlotMode.RATIO))
    assert chart.series[0].points[0].value is None
    assert [f.evidence for f in findings] == ["Elapsed: a value is not above 0; a gap, not zero"]


def arm(place: int, values: Sequence[float], per_block: int = 1, name: str = "c") -> PlotGroup:
    """Return an arm of a comparison; an epoch that is NaN has failed."""
    made = source(f"arm-{place}", elapsed=values)
    compared = ComparisonArm(name, place, ("arm-0", "arm-1"), per_block)
    return PlotGroup(f"arm-{place}", (msgspec.structs.replace(made, arm=compared),))


def test_arms_of_one_comparison_are_paired_by_block() -> None:
    base = np.array([10.0, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    noise = np.array([1.1, 1.2, 1.15, 1.1, 1.2, 1.15] * 2)
    chart = drawn(arm(0, base), arm(1, base * noise), mode=PlotMode.RATIO)
    ((point,),) = [series.points for series in chart.series]
    expected = t_mixture_interval(np.log(noise), 0.95)
    assert point.value == pytest.approx(np.exp(expected.value))
    assert (point.low, point.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert point.low is not None
    assert point.low > 1
    apart = drawn(arm(0, base), arm(1, base * noise, name="d"), mode=PlotMode.RATIO)
    ((unpaired,),) = [series.points for series in apart.series]
    assert unpaired.low is not None
    assert unpaired.low < 1  # Welch sees the tenfold drift that the blocks share.


def test_a_block_in_which_an_arm_failed_is_in_no_ratio() -> None:
    one = arm(0, [1.0, 1, 1, 1, 1, np.nan], per_block=2)
    two = arm(1, [2.0, 2, 8, 8, 99, 99], per_block=2)
    chart = drawn(one, two, mode=PlotMode.RATIO)
    assert chart.series[0].points[0].value == pytest.approx(4)  # of 2 and 8
    only = drawn(arm(0, [np.nan, 1]), arm(1, [1, np.nan]), mode=PlotMode.RATIO)
    assert only.series[0].points[0].gap == "no block has both"


def test_commands_that_are_compared_are_categories_by_name() -> None:
    groups = PlotGroup("G", (*arm(0, ELAPSED).sources, *arm(1, ELAPSED).sources))
    assert [tick.label for tick in drawn(groups).ticks] == ["arm-0", "arm-1"]


def course(values: Sequence[float]) -> SingleValues:
    ((point,),) = [
        s.points for s in drawn(line(source("a", elapsed=values)), mode=PlotMode.EPOCHS).series
    ]
    assert point.values is not None
    assert point.values.values == pytest.approx(values)  # nothing is removed
    return point.values


def test_a_warm_up_and_a_change_are_marked_where_they_are() -> None:
    noise = np.random.default_rng(5).normal(0, 0.1, 60)
    steady = course(noise + 10)
    assert (steady.removed, steady.changes) == (0, ())
    warm = np.zeros(60)
    warm[:5] = (5, 4, 3, 2, 1)
    assert course(noise + 10 + warm).removed == 5
    jump = np.where(np.arange(60) >= 40, 3.0, 0.0)
    both = course(noise + 10 + warm + jump)
    before_the_jump = mser_truncation((noise + 10 + warm)[:40])
    assert both.removed == before_the_jump.removed >= 5
    assert both.changes == (40,)


def test_what_mser_cuts_off_clean_values_is_no_warm_up() -> None:
    series = np.random.default_rng(11).normal(10, 1, (200, 30))
    cut = [values for values in series if mser_truncation(values).removed]
    assert len(cut) > 50
    marked = [values for values in cut if course(values).removed]
    assert len(marked) <= 6  # 1 % of 200, with three standard deviations of room


def test_one_slow_epoch_that_happens_to_be_first_is_no_warm_up() -> None:
    noise = np.random.default_rng(5).normal(10, 0.1, 30)
    slow = np.isin(np.arange(30), (0, 17)) * 20
    assert course(noise + slow).removed == 0


def test_of_a_few_epochs_nothing_is_marked_and_many_panels_are_refused() -> None:
    assert (course([9.0, 1, 1]).removed, course([9.0, 1, 1]).changes) == (0, ())
    many = PlotGroup("G", tuple(times(f"t{n}") for n in range(61)))
    with pytest.raises(InputError, match="61 panels"):
        drawn(many, mode=PlotMode.EPOCHS)


# -- normal probability plots -------------------------------------------------------------


def test_a_normal_plot_has_a_panel_for_each_test_with_values_that_differ() -> None:
    group = PlotGroup(
        "G",
        (
            source("a", elapsed=ELAPSED),
            source("few", elapsed=ELAPSED[:2]),
            source("equal", elapsed=(1.0, 1.0, 1.0)),
        ),
    )
    plot, findings = compose_plot([group], ChartRequest(mode=PlotMode.NORMAL))
    assert {one.evidence for one in findings} == {
        "Elapsed: 2 values: 3 are needed; a gap, not zero",
        "Elapsed: 3 values: all are equal; a gap, not zero",
    }
    (panel,) = plot_sheet(plot, ChartStyle()).panels
    line, points = panel.curves
    assert panel.title == "a"
    assert points.y == tuple(sorted(ELAPSED))
    assert points.names == ("trial 3", "trial 1", "trial 4", "trial 2")
    assert line.x == points.x
    assert all(low < high for low, high in zip(line.low, line.high, strict=True))  # type: ignore[operator]
    (point, *gaps) = (one.points[0] for one in plot.series)
    assert point.normal is not None
    assert all(one.value is None and one.normal is None for one in gaps)


def test_a_normal_plot_of_nothing_says_so_and_of_too_much_is_refused() -> None:
    group = PlotGroup("G", (source("few", elapsed=ELAPSED[:2]),))
    plot, _ = compose_plot([group], ChartRequest(mode=PlotMode.NORMAL))
    (panel,) = plot_sheet(plot, ChartStyle()).panels
    assert "enough different values" in panel.missing
    many = PlotGroup("G", tuple(times(f"t{n}") for n in range(61)))
    with pytest.raises(InputError, match="61 panels"):
        drawn(many, mode=PlotMode.NORMAL)


def test_a_normal_plot_of_loads_is_of_the_mean_response() -> None:
    values = {"elapsed": ELAPSED, "response_ns_mean": (5.0, 6.0, 7.0, 9.0)}
    group = PlotGroup("G", (source("load", **values),))
    plot, _ = compose_plot([group], ChartRequest(mode=PlotMode.NORMAL))
    assert plot.components() == ("response_ns_mean",)


# -- two factors -------------------------------------------------------------------------


def leveled(**levels: str) -> TestResult:
    """Return a test with these levels of factors."""
    name = ":".join(levels.values())
    return msgspec.structs.replace(times(name), sample=tuple(levels.items()))


SCAN = PlotGroup(
    "Suite",
    tuple(
        leveled(tool=tool, level=level) for tool in ("gzip", "bzip2") for level in ("1", "5", "9")
    ),
)


@pytest.mark.parametrize("factor", [None, "level"])
def test_of_two_factors_the_number_is_along_the_axis_and_each_name_a_line(
    factor: str | None,
) -> None:
    plot = drawn(SCAN, factor=factor)
    assert plot.factor == "level"
    assert list(dict.fromkeys(series.name for series in plot.series)) == [*("gzip", "bzip2")]
    assert [point.x for point in plot.series[0].points] == [1, 5, 9]


def test_names_are_along_the_axis_in_the_order_given_and_not_joined() -> None:
    plot = drawn(SCAN, factor="tool")
    assert [tick.label for tick in plot.ticks] == ["gzip", "bzip2"]
    assert {series.name for series in plot.series} == {"level=1", "level=5", "level=9"}
    (panel,) = plot_sheet(plot, ChartStyle()).panels
    assert {curve.form for curve in panel.curves} == {CurveForm.POINTS}


def test_of_two_factors_without_a_number_each_test_is_a_category() -> None:
    names = PlotGroup("S", tuple(leveled(a=a, b=b) for a in ("x", "y") for b in ("u", "v")))
    assert [tick.label for tick in drawn(names).ticks] == ["x:u", "x:v", "y:u", "y:v"]


@pytest.mark.parametrize("mode", [PlotMode.POINTS, PlotMode.VIOLIN, PlotMode.STRIP])
@pytest.mark.parametrize("factor", [None, "level"])
def test_rows_of_tests_at_one_level_have_the_names_of_the_tests(
    mode: PlotMode, factor: str | None
) -> None:
    plot = drawn(SCAN, factor=factor, mode=mode)
    labels = [tick.label for tick in plot.ticks]
    assert len(set(labels)) == len(labels) == len(SCAN.sources)
    assert plot.factor == ""
    one = PlotGroup("S", SCAN.sources[:3])
    assert drawn(one, factor="level", mode=mode).factor == "level"


# -- the size of a page ------------------------------------------------------------------


def page(group: PlotGroup, mode: PlotMode) -> ChartStyle:
    """Return the style whose page fits a chart."""
    return fitted_style(plot_sheet(drawn(group, mode=mode), ChartStyle()), ChartStyle())


def group_of(count: int) -> PlotGroup:
    """Return a group of tests without numbers in their names."""
    letters = "abcdefghijklmnopqrstuvwxyzABCD"
    return PlotGroup("G", tuple(times(f"t{letters[at]}") for at in range(count)))


@pytest.mark.parametrize("mode", [PlotMode.EPOCHS, PlotMode.POINTS, PlotMode.ECDF, PlotMode.RATIO])
def test_a_page_grows_with_its_tests(mode: PlotMode) -> None:
    heights = [page(group_of(count), mode).height_in for count in (2, 9, 30)]
    assert heights == sorted(heights)
    assert heights[2] > heights[0]


@pytest.mark.parametrize("mode", [PlotMode.BAR, PlotMode.VIOLIN, PlotMode.STRIP])
def test_a_page_is_as_wide_as_its_names(mode: PlotMode) -> None:
    assert page(group_of(2), mode).width_in == ChartStyle().width_in
    assert page(group_of(30), mode).width_in > 7


def test_a_row_alone_is_no_empty_page() -> None:
    assert page(group_of(2), PlotMode.RATIO).height_in < 2.5


def test_a_row_has_the_values_and_the_mean_with_its_error_bar() -> None:
    plot = drawn(group_of(2), mode=PlotMode.POINTS)
    (panel,) = plot_sheet(plot, ChartStyle()).panels
    assert panel.sideways
    assert [tick.label for tick in panel.x.ticks] == ["ta", "tb"]
    values = [y for curve in panel.curves[:-1] for y in curve.y]
    assert values == [
        value
        for series in plot.series
        for point in series.points
        if point.values is not None
        for value in point.values.values
    ]
    mean = panel.curves[-1]
    assert mean.y == tuple(point.value for point in plot.series[0].points)
    assert mean.low == tuple(point.low for point in plot.series[0].points)


def test_trials_that_do_not_count_are_marked_in_the_course() -> None:
    ends = [TrialEnding.OK] * 4 + [TrialEnding.FAILED, TrialEnding.INTERRUPTED]
    trials = [
        Trial(
            *("t", epoch, 1, ending, epoch, 1),
            (MeasurementBlock(1, epoch, "c", 0, {"elapsed": float(epoch)}),)
            if ending is not TrialEnding.INTERRUPTED
            else (),
        )
        for epoch, ending in enumerate(ends, 1)
    ]
    plot = drawn(line(TestResult("t", whole_trials=tuple(trials))), mode=PlotMode.EPOCHS)
    (panel,) = plot_sheet(plot, ChartStyle()).panels
    curves = {curve.label: curve for curve in panel.curves}
    assert curves["failed"].x == (5.0,)
    assert curves["failed"].y == (5.0,)
    assert [(span.label, span.low) for span in panel.spans] == [
        ("void, without a value", pytest.approx(5.6))
    ]
    (entry,) = plot_document(plot, (), ()).series[0].points
    assert entry.left_out == (ShownTrial(5, 5.0, "failed"), ShownTrial(6, None, "void"))
