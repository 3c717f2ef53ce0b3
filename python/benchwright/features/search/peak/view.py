"""The view of a peak search, for terminal and page: tables, figures, and its charts: the response
against the rate, and the trials in order.

Purpose of the charts: one page that shows the evidence for the answer: each trial at its offered
rate, the curve with its band, the limit, and the peak's interval. Decision: the response axis ends
at `_LIMITS_UP` times the limit, because one overloaded trial would flatten all others; trials
beyond it are drawn at its edge and counted in the note.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import msgspec

from benchwright.core.criterion import Criterion, criterion_name, criterion_text
from benchwright.core.numeric import np
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.core.text import (
    ABSENT,
    duration_text,
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
)
from benchwright.core.text_table import Field
from benchwright.core.untrusted import visible
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.peak.policies.evidence import is_void, limits_hold
from benchwright.features.search.peak.report import (
    NO_CLAIM,
    PeakReport,
    peak_document,
    peak_ending_text,
    peak_fields,
    peak_headline,
    peak_sentence,
)
from benchwright.features.search.text import (
    binding_criterion,
    interval_text,
    load_value_text,
    sample_text,
)
from benchwright.features.search.types import ClaimResult, CurvePoint, PeakStatus, SearchTrial
from benchwright.features.search.view import (
    SearchView,
    cost_tiles,
    criterion_label,
    criterion_scale,
    estimate_column,
    figure_column,
    peak_number,
    trials_table,
    word_column,
)
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
    named_ticks,
)
from benchwright.report.documents import FileEntry
from benchwright.stats.dependence import cosine_count, long_run_sdev
from benchwright.stats.intervals import t_quantile
from benchwright.views.blocks import (
    Column,
    Number,
    Picture,
    TableBlock,
    Tile,
    keyed,
    scale_of,
    share_number,
    table_of,
)

_LIMITS_UP = 3.0
"""Maximum end of the response axis, as a multiple of the limit."""
_ROOM = 1.08
_LOG_FROM = 30.0
"""Rates that differ by this factor are drawn on a logarithmic axis."""
_RIGHT = 1.25
"""Maximum end of the rate axis, as a multiple of the highest rate with a value on the page."""
_CONFIDENCE = 0.95
_FEWEST_BINS = 8
"""Minimum number of bins of a series that gives an interval."""
_MEANS = ("mean", "ratio", "share")
"""Statistics that are means of their series."""
_NO_VALUE = "failed, or without a value"
_LATE = "decides nothing: the generator was late"
_MOST_CRITERIA = 3
_MOST_NAMES = 12
"""Maximum number of trials for which the axis shows each number."""


def peak_sheet(report: PeakReport) -> Sheet:
    """Return the page of a search; only the trials if nothing else is known."""
    # A closed loop is at no rate.
    at_rates = tuple(trial for trial in report.trials if trial.trial.users is None)
    report = msgspec.structs.replace(report, trials=at_rates)
    shown = _shown(report)
    several = len(shown) > 1
    panels = [_response_panel(report, criterion, several=several) for criterion in shown]
    panels.append(_course_panel(report))
    return Sheet(_title(report), tuple(panels), columns_of(panels), note=_note(report, shown))


def columns_of(panels: Sequence[Panel]) -> int:
    """Return how many panels of a search are beside each other."""
    return 2 if len(panels) == 4 else min(len(panels), 3)


def _shown(report: PeakReport) -> tuple[Criterion, ...]:
    """Return the criteria to draw: the binding one, then the others in their order."""
    result = report.result
    binding = None if result is None else binding_criterion(result, report.criteria)
    ordered = sorted(report.criteria, key=lambda criterion: criterion is not binding)
    return tuple(ordered[:_MOST_CRITERIA])


def _title(report: PeakReport) -> str:
    result = report.result
    title = peak_headline(report)
    if result is not None and result.peak_rate is not None and result.interval is not None:
        if report.status is PeakStatus.FOUND:
            title += f" ({interval_text(result.interval)})"
        else:
            low, high = number_text(result.interval.low, 5), rate_text(result.interval.high)
            title += f": between {low} and {high}, or beyond"
    if report.sample:
        title += f" at {sample_text(report.sample)}"
    return title


def _response_panel(report: PeakReport, criterion: Criterion, *, several: bool) -> Panel:
    points = _points(report.trials, criterion)
    top = _top(points, criterion)
    right = _right(report.result, points, top)
    binding = report.result is not None and report.result.binding == criterion.key
    curve = _curve(report.result, top) if binding else []
    curves = [*curve, *_trial_points(points, top, right)]
    rising = criterion.better == "lower"
    return Panel(
        title=f"{_named(criterion)} against rate" if several else "Response against rate",
        x=PanelAxis("offered rate [1/s]", high=right),
        y=_value_axis(criterion, top),
        curves=tuple(curves),
        marks=(LevelLine(criterion_text(criterion), criterion.limit, left=rising),),
        spans=_spans(report.result),
        missing="" if points else "no trial has a value",
    )


def _named(criterion: Criterion) -> str:
    name = criterion_name(criterion)
    return name[:1].upper() + name[1:]


def _course_panel(report: PeakReport) -> Panel:
    """Return the rates of the trials in order, by whether every limit held."""
    groups: dict[str, tuple[int, list[tuple[float, float]]]] = {
        "holds": (0, []),
        "does not hold": (3, []),
        _LATE: (4, []),
        _NO_VALUE: (6, []),
    }
    named = len(report.trials) <= _MOST_NAMES
    for place, trial in enumerate(report.trials):
        along = place if named else trial.number
        point = (float(along), trial.trial.offered_rate)
        groups[_verdict(trial, report.criteria)][1].append(point)
    curves = [
        PanelCurve(label, *_columns(points), CurveForm.POINTS, colour=colour)
        for label, (colour, points) in groups.items()
        if points
    ]
    rates = [trial.trial.offered_rate for trial in report.trials]
    return Panel(
        title="Rates in the order tried",
        x=_trial_axis([trial.number for trial in report.trials], named=named),
        y=PanelAxis("offered rate [1/s]", log=bool(rates) and _is_wide(rates)),
        curves=tuple(curves),
        marks=_peak_marks(report.result),
        missing="" if curves else "no trial has ended",
    )


def cost_panel(trials: Sequence[SearchTrial]) -> Panel:
    """Return what each trial of a search cost: the time under load, and on top of it the time
    to configure, start and stop."""
    named = len(trials) <= _MOST_NAMES
    places = tuple(
        float(place if named else search_trial.number) for place, search_trial in enumerate(trials)
    )
    loaded = tuple(trial.trial.lasted_s * 1e9 for trial in trials)
    whole = tuple(trial.trial.cost_s * 1e9 for trial in trials)
    loads = (
        load_value_text(trial.trial.rate, in_users=trial.trial.users is not None)
        for trial in trials
    )
    names = tuple(
        f"trial {search_trial.number}, {load}"
        for search_trial, load in zip(trials, loads, strict=True)
    )
    rest = tuple(max(all_ - load, 0.0) for all_, load in zip(whole, loaded, strict=True))
    curves = [PanelCurve("under load", places, loaded, CurveForm.BARS, names=names)]
    if any(rest):
        curves.append(
            PanelCurve(
                *("configure, start, stop", places, rest, CurveForm.BARS),
                colour=1,
                base=loaded,
                names=names,
            )
        )
    return Panel(
        title=f"Cost of each trial, {duration_text(sum(whole) / 1e9)} together",
        x=_trial_axis([trial.number for trial in trials], named=named),
        y=PanelAxis("time", AxisUnit.TIME, low=0.0),
        curves=tuple(curves) if trials else (),
        missing="" if trials else "no trial has ended",
    )


def _trial_axis(numbers: Sequence[int], *, named: bool) -> PanelAxis:
    """Return the axis of trial numbers. It starts just before the first trial, because there
    is no trial 0."""
    if named:
        beside = 0.6 if len(numbers) > 1 else 1.2
        return PanelAxis(
            "trial",
            AxisUnit.COUNT,
            low=-beside,
            high=len(numbers) - 1 + beside,
            ticks=named_ticks(map(str, numbers)),
        )
    return PanelAxis("trial", AxisUnit.COUNT, low=numbers[0] - 0.5)


def _is_wide(rates: Sequence[float]) -> bool:
    return min(rates) > 0 and max(rates) > _LOG_FROM * min(rates)


def _verdict(search_trial: SearchTrial, criteria: Sequence[Criterion]) -> str:
    trial = search_trial.trial
    if not any(_has_value(trial, criterion) for criterion in criteria):
        return _NO_VALUE
    if is_void(criteria, trial):
        return _LATE
    return "holds" if limits_hold(criteria, trial) else "does not hold"


def _has_value(trial: LoadTrial, criterion: Criterion) -> bool:
    value = trial.values.get(criterion.key, math.nan)
    return trial.ending is not LoadEnding.FAILED and not math.isnan(value)


# -- parts -------------------------------------------------------------------------------


class TrialPoint(msgspec.Struct, frozen=True):
    """One trial's value at its offered rate."""

    rate: float
    value: float
    half: float | None
    """Half the width of its interval; None if its series gives none."""


def _points(trials: Sequence[SearchTrial], criterion: Criterion) -> list[TrialPoint]:
    """Return the trials that have a value, in order of rate."""
    trial_points = [
        TrialPoint(
            trial.trial.offered_rate,
            trial.trial.values[criterion.key],
            half_width(trial.trial, criterion),
        )
        for trial in trials
        if _has_value(trial.trial, criterion)
    ]
    return sorted(trial_points, key=lambda point: point.rate)


def half_width(trial: LoadTrial, criterion: Criterion) -> float | None:
    """Return the half-width of the 95 % interval of a run's mean, from the run's series; None
    if the series is too short or the statistic is not a mean.

    It uses the long-run standard deviation, because the bins of a run are correlated.
    """
    column = trial.series.values.get(criterion.key, ())
    if criterion.statistic not in _MEANS:
        return None
    bins = np.array(
        [v for v, n in zip(column, trial.series.counts, strict=False) if n], dtype=float
    )
    if bins.size < _FEWEST_BINS or not np.isfinite(bins).all():
        return None
    error = long_run_sdev(bins) / math.sqrt(bins.size)
    return t_quantile(_CONFIDENCE, cosine_count(bins.size)) * error


def _top(points: Sequence[TrialPoint], criterion: Criterion) -> float:
    """Return the upper end of the value axis."""
    most = max((p.value for p in points if math.isfinite(p.value)), default=0.0)
    if criterion.better == "higher":
        return max(most, criterion.limit) * _ROOM
    limit = criterion.limit or most or 1.0
    return min(max(most, limit) * _ROOM, _LIMITS_UP * limit)


def _right(result: ClaimResult | None, points: Sequence[TrialPoint], top: float) -> float | None:
    """Return the upper end of the rate axis, which leaves out rates far above those with a
    value on the page; None if there are none to leave out."""
    inside = [point.rate for point in points if point.value <= top]
    if result is not None and result.interval is not None:
        inside.append(result.interval.high)
    if not inside or not points or points[-1].rate <= _RIGHT * max(inside):
        return None
    return _RIGHT * max(inside)


def _trial_points(
    points: Sequence[TrialPoint], top: float, right: float | None
) -> list[PanelCurve]:
    """Return the trials within the axes; those above the value axis are at its upper end."""
    points = [p for p in points if right is None or p.rate <= right]
    inside = [point for point in points if point.value <= top]
    beyond = [(point.rate, top) for point in points if point.value > top]
    curves = []
    if inside:
        told = any(point.half is not None for point in inside)
        label = f"trials, {100 * _CONFIDENCE:g} % by their own series"
        curves.append(
            PanelCurve(
                label if told else "trials",
                *_columns([(point.rate, point.value) for point in inside]),
                CurveForm.POINTS,
                low=tuple(p.value - (p.half or 0.0) for p in inside),
                high=tuple(min(p.value + (p.half or 0.0), top) for p in inside),
            )
        )
    if beyond:
        curves.append(
            PanelCurve("trials beyond the axis", *_columns(beyond), CurveForm.POINTS, colour=3)
        )
    return curves


def _columns(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in points), tuple(y for _, y in points)


def _curve(result: ClaimResult | None, top: float) -> list[PanelCurve]:
    """Return the curve with its band, cut at the end of the value axis."""
    if result is None or result.interval is None:
        return []
    points = [curve_point for curve_point in result.curve if curve_point.low <= top]
    if not points:
        return []
    return [
        PanelCurve(
            "fitted, with its band",
            tuple(point.rate for point in points),
            tuple(_at_most(point.middle, top) for point in points),
            colour=2,
            low=tuple(point.low for point in points),
            high=tuple(min(point.high, top) for point in points),
        )
    ]


def _at_most(value: float, top: float) -> float | None:
    return value if value <= top else None


def _spans(result: ClaimResult | None) -> tuple[ShadedRange, ...]:
    if result is None or result.peak_rate is None:
        return ()
    rate = result.peak_rate
    if result.interval is None:
        return (ShadedRange("peak", rate, rate, rate),)
    return (ShadedRange("peak", result.interval.low, result.interval.high, rate),)


def _peak_marks(result: ClaimResult | None) -> tuple[LevelLine, ...]:
    if result is None or not result.peak_rate:
        return ()
    return (LevelLine("peak", result.peak_rate),)


def _value_axis(criterion: Criterion, top: float) -> PanelAxis:
    label = criterion_name(criterion)
    share = criterion.statistic in ("share", "ratio")
    if not share and criterion.unit:
        label = f"{label} [{criterion.unit}]"
    low = None if criterion.statistic == "metric" else 0.0
    return PanelAxis(label, AxisUnit.SHARE if share else AxisUnit.NUMBER, low=low, high=top)


def _note(report: PeakReport, shown: Sequence[Criterion]) -> str:
    """Return what is not drawn, and why."""
    parts = []
    for criterion in shown:
        points = _points(report.trials, criterion)
        top = _top(points, criterion)
        if beyond := sum(point.value > top for point in points):
            axis = criterion_name(criterion)
            parts.append(f"{plural(beyond, 'trial')} beyond the axis of {axis}")
    trials = [search_trial.trial for search_trial in report.trials]
    known = [all(_has_value(trial, criterion) for criterion in shown) for trial in trials]
    if missing := known.count(False):
        parts.append(f"{plural(missing, 'trial')} failed or without a value")
    others = [criterion_name(one) for one in report.criteria if one not in shown]
    if others:
        parts.append(f"not drawn: {', '.join(others)}")
    return "; ".join(parts)


_CURVE_ROWS = 7
_BAND = 0.95
"""Confidence of the curve's band."""


class PeakView(SearchView[PeakReport]):
    """A peak search as texts and blocks."""

    def headline(self) -> str:
        return peak_headline(self.report)

    def sentence(self) -> str:
        return peak_sentence(self.report)

    def ending(self) -> str:
        return peak_ending_text(self.report)

    def fields(self) -> Iterator[Field]:
        return peak_fields(self.report)

    def tiles(self) -> Iterator[Tile]:
        report, result = self.report, self.report.result
        if result is not None and result.peak_rate is not None:
            yield Tile("Peak rate", peak_number(f"{self.part}.peak", result, self.trials_id))
            if result.claim_probability is not None:
                number = _probability(f"{self.part}.claim", result, self.trials_id)
                yield Tile(f"Claim {report.claims[0].text}", number, "probability that it holds")
        yield from cost_tiles(self, report.load_s, report.cost_s, len(report.trials))

    def tables(self) -> Iterator[TableBlock]:
        # Of one claim, the sentence has everything.
        if self.verbose or len(self.report.claims) > 1:
            yield self._claims()
        yield from self._curve()

    def text_tables(self) -> Iterable[TableBlock]:
        """Return the tables on a terminal: the trials are the evidence."""
        yield trials_table(self.trials_id, self.report.trials, self.report.criteria)
        yield from self.tables()

    def _claims(self) -> TableBlock:
        return table_of(
            f"{self.part}-claims",
            "Claims",
            keyed(f"{self.part}.claim", zip(self.report.claims, self.report.results, strict=True)),
            (
                word_column("Claim", lambda one: one[0].text, code=True),
                word_column("Status", lambda one: "open" if one[1] is None else one[1].status),
                (Column("Rate", numeric=True), lambda key, one: peak_number(f"{key}.rate", one[1])),
                (
                    Column("Probability", numeric=True),
                    lambda key, one: _probability(f"{key}.probability", one[1]),
                ),
            ),
        )

    def _curve(self) -> Iterator[TableBlock]:
        """Yield the response by rate, with its band; if not verbose, at a few rates."""
        result = self.report.result
        criterion = None if result is None else binding_criterion(result, self.report.criteria)
        if result is None or criterion is None or result.status in NO_CLAIM or not result.curve:
            return
        points: Sequence[CurvePoint] = result.curve
        last = len(points) - 1
        if not self.verbose and last >= _CURVE_ROWS:
            places = [round(at * last / (_CURVE_ROWS - 1)) for at in range(_CURVE_ROWS)]
            points = [points[place] for place in places]
        yield table_of(
            f"{self.part}-curve",
            f"The response at {plural(len(points), 'rate')}, with a {percent_text(_BAND)} band",
            keyed(f"{self.part}.curve.", points),
            (
                figure_column(
                    *("Rate", "rate", lambda one: one.rate),
                    scale_of([point.rate for point in points], "/s", 5),
                ),
                estimate_column(
                    criterion_label(criterion),
                    "",
                    lambda curve_point: Estimate(
                        curve_point.middle, curve_point.low, curve_point.high, _BAND, "posterior", 0
                    ),
                    criterion_scale(
                        criterion,
                        [v for point in points for v in (point.low, point.middle, point.high)],
                    ),
                ),
            ),
            folded=True,
        )

    def sheet(self) -> Sheet:

        return peak_sheet(self.report)

    def picture(self) -> Picture:
        sheet = self.sheet()
        return Picture(
            id=f"{self.part}-peak",
            title=visible(sheet.title),
            sheet=sheet,
            reading="Each point is a trial. The band is for many trials at a rate together, so "
            "single trials can be outside it. The peak rate is where the curve reaches the "
            "limit. The second chart shows the same trials in order.",
        )

    def document(self, plots: Sequence[FileEntry] = (), **stored: Unpack[StoredSearch]) -> str:
        return peak_document(self.report, plots, **stored)

    def peaks(self) -> Mapping[Pairs, ClaimResult]:
        result = self.report.result
        return {} if result is None else {self.report.sample: result}

    def answers(self) -> Mapping[Pairs, float | None]:
        result = self.report.result
        return {self.report.sample: None if result is None else result.peak_rate}


def _probability(key: str, found: ClaimResult | None, link: str = "") -> Number:
    """Return the probability of a claim."""
    share = None if found is None else found.claim_probability
    return msgspec.structs.replace(
        share_number(key, share, link=link),
        text=ABSENT if share is None else probability_text(share),
    )
