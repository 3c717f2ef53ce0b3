"""The view of a ramp, for terminal and page: levels, laws, figures, and its charts: the scalability
profile with the fitted law, and the response times.

Purpose of the charts: one page that shows where throughput stops growing and how response times
grow. Decision: two panels with the same axis of levels. Rejected: one panel with two scales, where
the crossing of the curves would mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

from benchwright.core.numeric import np
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.core.text import number_text, percent_text, plural, rate_text
from benchwright.core.text_table import Field
from benchwright.core.untrusted import visible
from benchwright.features.search.documents import StoredSearch, answer_load
from benchwright.features.search.ramp.profile import band_of
from benchwright.features.search.ramp.queues import LevelResources, QueueNetwork
from benchwright.features.search.ramp.report import (
    RampReport,
    exceeded_text,
    level_text,
    ramp_document,
    ramp_ending_text,
    ramp_fields,
    ramp_headline,
    ramp_sentence,
)
from benchwright.features.search.ramp.scalability import law_throughput
from benchwright.features.search.ramp.types import (
    BandPoint,
    PreferredLaw,
    RampAxis,
    RampPoint,
    RampResult,
    RampStatus,
    ScalabilityModel,
    UslFit,
)
from benchwright.features.search.text import sample_text
from benchwright.features.search.view import (
    CellColumn,
    SearchView,
    cost_tiles,
    estimate_column,
    figure_column,
    late_column,
    share_scale,
    word_column,
)
from benchwright.report.charts.sheet import (
    AxisTick,
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
)
from benchwright.report.documents import FileEntry
from benchwright.views.blocks import (
    Column,
    Picture,
    Scale,
    TableBlock,
    Tile,
    count_column,
    estimate_number,
    keyed,
    number_of,
    scale_of,
    table_of,
)

_LOG_FROM = 30.0
"""Levels, or responses, that differ by this factor are drawn on a logarithmic axis."""
_RESPONSES = {"mean": "response_ms_mean", "p50": "response_ms_p50", "p99": "response_ms_p99"}
_FIRST = {"p50": "first_ms_p50", "p99": "first_ms_p99"}
_OF_STREAMS = {
    "First p50": "first_ms_p50",
    "First p99": "first_ms_p99",
    "tpot p50": "tpot_ms_p50",
    "Gap p99": "gap_ms_p99",
}
"""Columns of times of streams."""


def ramp_sheet(report: RampReport, band: Sequence[BandPoint]) -> Sheet:
    """Return the page of a ramp; `band` is the whole law's curve, empty if there is none."""
    points = () if report.result is None else report.result.points
    along = _along(report, points)
    panels = [
        _throughput_panel(report, points, band, along),
        _time_panel("Response", "response [ms]", _RESPONSES, points, along),
    ]
    if report.resources:
        panels.append(_resource_panel(report.resources, along))
    if any(point.streams for point in points):
        panels.append(_time_panel("First event", "first event [ms]", _FIRST, points, along))
    return Sheet(title=_title(report), panels=tuple(panels), note=_note(report, points))


def _title(report: RampReport) -> str:
    result = report.result
    parts = ["Scalability profile"]
    if result is not None and result.saturation is not None:
        point = result.saturation
        level = level_text(point.level, result.axis)
        parts.append(f"saturates at {level} with {rate_text(point.throughput.value)}")
    if report.sample:
        parts.append(f"at {sample_text(report.sample)}")
    return ", ".join(parts)


_FEW_LEVELS = 6
"""Levels that have ticks of their own."""


def _along(report: RampReport, points: Sequence[RampPoint]) -> PanelAxis:
    levels = sorted({point.level for point in points})
    if report.goal.axis is RampAxis.RATE:
        return PanelAxis("intended rate [1/s]", log=_is_wide(levels))
    # A tick between two numbers of users would be none of a user.
    few = levels if len(levels) <= _FEW_LEVELS else []
    ticks = tuple(AxisTick(level, number_text(level)) for level in few)
    return PanelAxis("users", log=_is_wide(levels), ticks=ticks)


def _is_wide(values: Sequence[float]) -> bool:
    known = [value for value in values if value > 0]
    return bool(known) and max(known) > _LOG_FROM * min(known)


def _throughput_panel(
    report: RampReport, points: Sequence[RampPoint], band: Sequence[BandPoint], along: PanelAxis
) -> Panel:
    result = report.result
    fit = None if result is None else result.usl
    curves = [*_laws(fit, band), *_queues(report.network), *_linear(points), *_measured(points)]
    return Panel(
        title="Throughput",
        x=along,
        y=PanelAxis("operations per second", low=0.0, high=_top(points, band)),
        curves=tuple(curves),
        spans=_spans(result),
        missing="" if points else "no level was measured",
    )


def _top(points: Sequence[RampPoint], band: Sequence[BandPoint]) -> float | None:
    """Return the upper end of the axis, so that the straight line does not flatten the profile."""
    measured = [point.throughput for point in points]
    ends = [
        estimate.high if math.isfinite(estimate.high) else estimate.value for estimate in measured
    ]
    most = max([*ends, *(point.middle for point in band)], default=0.0)
    return 1.15 * most if most else None


def _measured(points: Sequence[RampPoint]) -> list[PanelCurve]:
    if not points:
        return []
    estimates = [point.throughput for point in points]
    known = any(math.isfinite(estimate.low) for estimate in estimates)
    return [
        PanelCurve(
            "measured",
            tuple(point.level for point in points),
            tuple(estimate.value for estimate in estimates),
            CurveForm.POINTS,
            low=tuple(_known(estimate.low) for estimate in estimates) if known else (),
            high=tuple(_known(estimate.high) for estimate in estimates) if known else (),
        )
    ]


def _known(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _linear(points: Sequence[RampPoint]) -> list[PanelCurve]:
    """Return the line of linear scaling from the first level."""
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    each = first.throughput.value / first.level
    # Enough points to draw the line on a logarithmic axis too.
    step = (last.level / first.level) ** (1 / 40)
    levels = tuple(first.level * step**place for place in range(41))
    return [
        PanelCurve(
            "as good as the first level", levels, tuple(each * x for x in levels), colour=7, dash=1
        )
    ]


_STATED = {
    ScalabilityModel.LINEAR: "linear law",
    ScalabilityModel.AMDAHL: "Amdahl's law",
    ScalabilityModel.SATURATING: "saturating law",
}


def _laws(fit: UslFit | None, band: Sequence[BandPoint]) -> list[PanelCurve]:
    """Return the law that the text states, and the whole one with its band, which may be another."""
    if fit is None or not band:
        return []
    users = tuple(point.users for point in band)
    # A result of an earlier version has the whole law alone.
    other = None if fit.law is None else _STATED.get(fit.preferred)
    whole = PanelCurve(
        "whole law, with its band" if other else "Universal Scalability Law, with its band",
        users,
        tuple(point.middle for point in band),
        colour=3 if other else 2,
        dash=2 if other else 0,
        low=tuple(point.low for point in band),
        high=tuple(point.high for point in band),
    )
    if fit.law is None or not other:
        return [whole]
    stated = law_throughput(fit.law, np.asarray(users))
    return [PanelCurve(other, users, tuple(stated.tolist()), colour=2), whole]


def _queues(network: QueueNetwork | None) -> list[PanelCurve]:
    """Return the throughput that the queues of the lower levels predict."""
    if network is None:
        return []
    levels = tuple(float(point.users) for point in network.points)
    predicted = tuple(point.predicted for point in network.points)
    return [PanelCurve("queues of the lower half", levels, predicted, colour=5, dash=3)]


_MOST_RESOURCES = 5
"""Curves of resources in the picture: the busiest at any level."""


def _resource_panel(levels: Sequence[LevelResources], along: PanelAxis) -> Panel:
    """Return how much of each resource was used at each level."""
    most: dict[str, float] = {}
    for level in levels:
        for one in level.resources:
            most[one.name] = max(most.get(one.name, 0.0), one.share)
    names = sorted(most, key=lambda name: -most[name])[:_MOST_RESOURCES]
    shares = [{one.name: one.share for one in level.resources} for level in levels]
    curves = tuple(
        PanelCurve(
            name,
            tuple(level.level for level in levels),
            tuple(min(share[name], 1.0) if name in share else None for share in shares),
            CurveForm.MARKED,
            colour=place,
            dash=place,
        )
        for place, name in enumerate(names)
    )
    return Panel(
        title="Busiest resources",
        x=along,
        y=PanelAxis("share of the capacity", AxisUnit.SHARE, low=0.0, high=1.0),
        curves=curves,
    )


def _spans(result: RampResult | None) -> tuple[ShadedRange, ...]:
    if result is None or result.saturation is None:
        return ()
    level = result.saturation.level
    return (ShadedRange("saturation", level, level, level),)


def _time_panel(
    title: str, scale: str, names: Mapping[str, str], points: Sequence[RampPoint], along: PanelAxis
) -> Panel:
    """Return the panel of times by level; `names`: their values by the name of the curve."""
    curves: list[PanelCurve] = []
    seen: list[float] = []
    for place, (label, name) in enumerate(names.items()):
        known = [
            (point.level, value)
            for point in points
            if (value := _value(point, name)) is not None and math.isfinite(value)
        ]
        if known:
            x, y = zip(*known, strict=True)
            curves.append(PanelCurve(label, x, y, CurveForm.MARKED, colour=place, dash=place))
            seen += y
    return Panel(
        title=title,
        x=along,
        y=PanelAxis(scale, log=_is_wide(seen), low=None if _is_wide(seen) else 0),
        curves=tuple(curves),
        missing="" if curves else "the generator reports no response times",
    )


def _note(report: RampReport, points: Sequence[RampPoint]) -> str:
    notes = []
    result = report.result
    if result is not None and result.usl is not None:
        fit = result.usl
        notes.append(
            f"preferred law: {fit.preferred}; points within ±"
            f"{percent_text(fit.residual)} of the whole law's curve"
        )
    bare = [p.level for p in points if not math.isfinite(p.throughput.low)]
    if bare:
        levels = ", ".join(map(number_text, bare)) if len(bare) < len(points) else ""
        at = f"no interval at {levels}" if levels else "no intervals"
        notes.append(f"{at}: the noise is not known")
    never = [p.level for p in points if p.response_ms_p99 == math.inf]
    if never:
        levels = ", ".join(number_text(level) for level in never)
        notes.append(f"p99 longer than any response that was waited for at {levels}")
    return "; ".join(notes)


class RampView(SearchView[RampReport]):
    """A ramp as texts and blocks."""

    def headline(self) -> str:
        return ramp_headline(self.report)

    def sentence(self) -> str:
        return ramp_sentence(self.report)

    def ending(self) -> str:
        return ramp_ending_text(self.report)

    def fields(self) -> Iterator[Field]:
        return ramp_fields(self.report, verbose=self.verbose)

    def tiles(self) -> Iterator[Tile]:
        report, result, link = self.report, self.report.result, self.trials_id
        if result is not None and result.points:
            point = result.saturation or max(result.points, key=lambda one: one.throughput.value)
            what = "Saturation" if result.saturation is not None else "Highest throughput"
            scale = scale_of([point.throughput.value], "/s")
            rate = estimate_number(f"{self.part}.saturation", point.throughput, scale, link=link)
            yield Tile(what, rate, level_text(point.level, result.axis))
            fit = result.usl
            users = None if fit is None else fit.users_at_peak
            if users is not None and fit is not None and fit.preferred is ScalabilityModel.USL:
                scale = scale_of([users.value], "")
                number = estimate_number(f"{self.part}.law.users", users, scale, link=link)
                yield Tile("Users at the law's maximum", number)
        yield from cost_tiles(self, report.load_s, report.cost_s, len(report.trials))

    def tables(self) -> Iterator[TableBlock]:
        yield from self._levels()
        if self.verbose:
            yield from self._laws()

    def _levels(self) -> Iterator[TableBlock]:
        """Yield a row for each level: latency is beside throughput, because throughput with
        unacceptable latency is not capacity."""
        result, link = self.report.result, self.trials_id
        if result is None or not result.points:
            return
        points = result.points
        level = ""
        if any(math.isfinite(point.throughput.low) for point in points):
            confidence = percent_text(points[0].throughput.confidence, 10)
            level = f", throughput with {confidence} intervals"
        responses = [
            (label, name)
            for label, name in (("Mean response", "mean"), ("p50", "p50"), ("p99", "p99"))
            if any(_value(point, _RESPONSES[name]) is not None for point in points)
        ]
        streams = {
            label: key
            for label, key in _OF_STREAMS.items()
            if any(key in point.streams for point in points)
        }
        keys = [*(_RESPONSES[name] for _, name in responses), *streams.values()]
        times = scale_of([_value(one, key) for key in keys for one in points], "ms")
        loads: list[CellColumn[RampPoint]] = [
            figure_column(
                *("Users" if result.axis is RampAxis.USERS else "Rate", ""),
                *(lambda one: one.level, scale_of([point.level for point in points], self._unit)),
            )
        ]
        if result.axis is RampAxis.RATE:
            offered = scale_of([point.offered for point in points], self._unit)
            loads.append(
                figure_column(
                    "Offered", "offered", lambda ramp_point: ramp_point.offered, offered, rank=5
                )
            )
        flows = scale_of(
            [point.throughput.value for point in points],
            "/s",
            ends=[end for point in points for end in (point.throughput.low, point.throughput.high)],
        )

        def busiest(one: RampPoint) -> str:
            resources = self.report.resources_at(one.level)
            return f"{resources[0].name} {percent_text(resources[0].share)}" if resources else ""

        def remark(one: RampPoint) -> str:
            marks = []
            if result.saturation is not None and one.level == result.saturation.level:
                marks.append("<- saturation")
            elif result.status is RampStatus.ERRORS and one is points[-1]:
                marks.append("<- too many errors")
            if exceeded := exceeded_text(one, self.report.goal):
                marks.append(f"exceeds {exceeded}")
            return "; ".join(marks)

        yield table_of(
            f"{self.part}-levels",
            plural(len(points), "level") + level,
            keyed(f"{self.part}.level", points),
            (
                *loads,
                estimate_column(
                    "Throughput", "throughput", lambda one: one.throughput, flows, link=link
                ),
                *(
                    figure_column(
                        *(label, label.lower()),
                        *(lambda one, name=name: _value(one, _RESPONSES[name]), times),
                        short=name,
                        note="response time",
                        link=link,
                    )
                    for label, name in responses
                ),
                *(
                    figure_column(
                        *(label, key, lambda one, key=key: _value(one, key), times),
                        note="of streams",
                        link=link,
                    )
                    for label, key in streams.items()
                ),
                *(
                    [
                        figure_column(
                            *("Good", "good", lambda one: one.streams.get("good_share")),
                            share_scale(point.streams.get("good_share") for point in points),
                            note="share of good streams",
                            link=link,
                        )
                    ]
                    if any("good_share" in point.streams for point in points)
                    else []
                ),
                *late_column(lambda one: one.late_p99_ms, points),
                figure_column(
                    *("Efficiency", "efficiency", lambda one: one.efficiency),
                    share_scale(point.efficiency for point in points),
                    note="throughput per unit of load, of the first level's",
                    rank=3,
                ),
                *(
                    [
                        figure_column(
                            *("Errors", "errors", lambda one: one.error_share),
                            share_scale(point.error_share for point in points),
                            link=link,
                        )
                    ]
                    if any(point.error_share is not None for point in points)
                    else []
                ),
                *([word_column("Busiest", busiest)] if self.report.resources else []),
                count_column(
                    "Trials", "trials", lambda one: one.trials, link=lambda _: link, rank=4
                ),
                word_column("", remark),
            ),
        )

    @property
    def _unit(self) -> str:
        return "" if self.report.goal.axis is RampAxis.USERS else "/s"

    def _laws(self) -> Iterator[TableBlock]:
        """Yield the parameters of the law that the answer states, and of the whole one, whose
        intervals contain them."""
        fit = None if self.report.result is None else self.report.result.usl
        if fit is None:
            return
        preferred: list[CellColumn[_Parameter]] = []
        if fit.law is not None and fit.preferred is not ScalabilityModel.USL:
            column = Column(f"Preferred: {fit.preferred}", numeric=True, short=f"{fit.preferred}")
            preferred = [
                (column, lambda key, one: number_of(f"{key}.preferred", one[2], _scale(one)))
            ]
        yield table_of(
            f"{self.part}-law",
            f"Parameters of the laws, fitted to {plural(fit.n, 'trial')}; "
            f"{percent_text(fit.gamma.confidence, 10)} intervals",
            [(f"{self.part}.law.{parameter[0]}", parameter) for parameter in _parameters(fit)],
            (
                word_column("Parameter", lambda one: one[0], code=True),
                word_column("Meaning", lambda one: one[1]),
                *preferred,
                (
                    Column("Whole law", numeric=True),
                    lambda key, one: estimate_number(key, one[3], _scale(one)),
                ),
            ),
        )

    def _band(self) -> tuple[BandPoint, ...]:
        return band_of(self.report.goal, [trial.trial for trial in self.report.trials])

    def sheet(self) -> Sheet:

        return ramp_sheet(self.report, self._band())

    def picture(self) -> Picture:
        sheet = self.sheet()
        return Picture(
            id=f"{self.part}-ramp",
            title=visible(sheet.title),
            sheet=sheet,
            reading="The points are measured levels with their intervals. The line is the law that "
            "the answer states; the band is that of the Universal Scalability Law. Below the "
            "dashed line, a unit of load adds less throughput than at the first level. The queues are "
            "the resources of the lower half of the levels: where the points are below them, something "
            "else limits throughput.",
        )

    def document(self, plots: Sequence[FileEntry] = (), **stored: Unpack[StoredSearch]) -> str:
        return ramp_document(self.report, self._band(), plots, **stored)

    def answers(self) -> Mapping[Pairs, float | None]:
        return {self.report.sample: answer_load(self.report.result)}


def _value(point: RampPoint, key: str) -> float | None:
    """Return a response time or a value of streams."""
    value: float | None = getattr(point, key, None) if key in _RESPONSES.values() else None
    return point.streams.get(key) if value is None else value


_Parameter = tuple[str, str, float | None, Estimate | None, str]
"""A parameter: name, meaning, value in the preferred law, in the whole law, and unit."""


def _parameters(fit: UslFit) -> Iterator[_Parameter]:
    law: PreferredLaw | None = fit.law
    sigma = "contention: the share of the work that is done one at a time"
    if law is not None and law.sharpness is not None:
        sigma += "; of the saturating law: of a user's time at the bottleneck"
    for name, meaning, whole, unit in (
        ("gamma", "throughput of one user", fit.gamma, "/s"),
        ("sigma", sigma, fit.sigma, ""),
        ("kappa", "coherency: the cost of each pair that has to agree", fit.kappa, ""),
    ):
        yield name, meaning, None if law is None else getattr(law, name), whole, unit
    if law is not None and law.sharpness is not None:
        yield "sharpness", "of the knee (Amdahl's law: 1)", law.sharpness, None, ""


def _scale(one: _Parameter) -> Scale:
    """Return the scale of a parameter in both laws."""
    _, _, preferred, whole, unit = one
    return scale_of([preferred, None if whole is None else whole.value], unit)
