"""The responses of trials as tests of a plot: of a load's trials, and of a search's at each load or
relative to the curve.

Decision: the responses at one load are a sample of one distribution, so each load with enough
trials is a test of its own. A search that has no such load (it seldom repeats one) has one test:
every response divided by the fitted curve at its load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from benchwright.core.numeric import np
from benchwright.core.plan import Pairs
from benchwright.core.text import rate_text
from benchwright.features.search.text import criterion_name, sample_text
from benchwright.features.search.types import (
    ClaimResult,
    Criterion,
    CurvePoint,
    LoadEnding,
    SearchTrial,
)
from benchwright.report.charts.compose import compose_plot
from benchwright.report.charts.panels import plot_sheet
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotGroup, PlotTest
from benchwright.report.charts.style import ChartStyle
from benchwright.stats.aggregate import MetricColumn
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT

_RELATIVE = "relative_response"
MOST_OF_PAGE = 9
"""Maximum of loads that a page shows."""


def response_tests(
    trials: Sequence[SearchTrial],
    criteria: Sequence[Criterion],
    found: Mapping[Pairs, ClaimResult],
) -> tuple[PlotTest, ...]:
    """Return the loads that have at least three responses, those with most first; else all
    responses relative to the curves of `found`, by sample, as one test. Empty where there are too
    few."""
    return _by_load(trials, criteria) or _relative(trials, found)


def load_responses(name: str, column: MetricColumn) -> PlotTest | None:
    """Return the mean responses of a load's trials [ns] as a test in milliseconds; None if there
    are fewer than three."""
    if len(column.values) < FEWEST_OF_PROBABILITY_PLOT:
        return None
    values = tuple(value / 1e6 for value in column.values)
    in_ms = MetricColumn(column.name, column.epochs, values)
    label = {column.name: "Mean response"}
    return PlotTest(name, {column.name: in_ms}, label, {column.name: "ms"})


def normal_sheet(tests: Sequence[PlotTest]) -> Sheet | None:
    """Return the normal probability plots of a page; None without tests."""
    if not tests:
        return None
    request = ChartRequest(mode=PlotMode.NORMAL)
    plot, _ = compose_plot([PlotGroup("", tuple(tests[:MOST_OF_PAGE]))], request)
    return plot_sheet(plot, ChartStyle())


def _by_load(trials: Sequence[SearchTrial], criteria: Sequence[Criterion]) -> tuple[PlotTest, ...]:
    at_load: dict[tuple[Pairs, float], list[tuple[int, SearchTrial]]] = {}
    for number, one in enumerate(trials, 1):
        if one.trial.ending is not LoadEnding.FAILED:
            at_load.setdefault((one.sample, one.trial.rate), []).append((number, one))
    samples = {sample for sample, _ in at_load}
    tests = []
    for (sample, rate), here in at_load.items():
        columns = [_column(criterion.key, here) for criterion in criteria]
        enough = {one.name: one for one in columns if len(one.values) >= FEWEST_OF_PROBABILITY_PLOT}
        name = rate_text(rate)
        if len(samples) > 1:
            name = f"{sample_text(sample)} {name}"
        if enough:
            tests.append(_test(name, enough, criteria))
    return tuple(sorted(tests, key=_size, reverse=True))


def _column(key: str, here: Iterable[tuple[int, SearchTrial]]) -> MetricColumn:
    known = [
        (number, one.trial.values[key])
        for number, one in here
        if math.isfinite(one.trial.values.get(key, math.nan))
    ]
    return MetricColumn(key, tuple(n for n, _ in known), tuple(v for _, v in known))


def _size(test: PlotTest) -> int:
    return max(len(column.values) for column in test.columns.values())


def _test(name: str, columns: dict[str, MetricColumn], criteria: Sequence[Criterion]) -> PlotTest:
    labels = {one.key: criterion_name(one) for one in criteria}
    return PlotTest(
        test=name,
        columns=columns,
        labels={key: text[:1].upper() + text[1:] for key, text in labels.items()},
        units={one.key: one.unit for one in criteria},
    )


def _relative(
    trials: Sequence[SearchTrial], found: Mapping[Pairs, ClaimResult]
) -> tuple[PlotTest, ...]:
    values: dict[int, float] = {}
    for number, one in enumerate(trials, 1):
        result = found.get(one.sample)
        if result is None or one.trial.ending is not LoadEnding.WHOLE:
            continue
        expected = _response_at(one.trial.offered_rate, result.curve)
        value = one.trial.values.get(result.binding, math.nan)
        if expected is not None and math.isfinite(value):
            values[number] = value / expected
    if len(values) < FEWEST_OF_PROBABILITY_PLOT:
        return ()
    column = MetricColumn(_RELATIVE, tuple(values), tuple(values.values()))
    label = {_RELATIVE: "Response / fitted curve"}
    return (PlotTest("all loads", {_RELATIVE: column}, label, {_RELATIVE: ""}),)


def _response_at(rate: float, curve: Sequence[CurvePoint]) -> float | None:
    """Return the curve's response at a rate, interpolated in its logarithm; None outside of it."""
    rates = [point.rate for point in curve]
    middles = [point.middle for point in curve]
    if not rates or not rates[0] <= rate <= rates[-1] or min(middles) <= 0:
        return None
    return float(np.exp(np.interp(rate, rates, np.log(middles))))
