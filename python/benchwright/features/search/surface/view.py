"""The view of a surface, for terminal and page: samples, model, figures, and its charts: contours
and a relief of two factors, or profiles.

Decision: every row has the measured peak beside the model's prediction, to show where the model
does not fit. Only a peak whose claim held is in the column of measured ones; what the other searches
know is a column of its own, in words.

The charts are plain numbers, composed and tested without drawing. With two or more numeric factors,
the two with the most levels are the axes of a map; there is a map for each combination of the
categorical factors. Other numeric factors are at a middle level, which the title shows. With one
numeric factor or none, there are profiles with the model's band. Decision: axes use the model's
transformed scale with the levels as ticks, so that powers of two are evenly spaced.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Unpack

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import (
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
    signed_percent_text,
    some_text,
    was,
)
from benchwright.core.text_table import Field
from benchwright.core.untrusted import visible
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.surface.answers import (
    Basis,
    BestSamples,
    Chance,
    Crossing,
    ReachedRate,
    SurfaceAnswers,
)
from benchwright.features.search.surface.report import (
    MOST_ROWS,
    SurfaceReport,
    chance_text,
    crossing_text,
    named_findings,
    peak_order,
    surface_document,
    surface_fields,
    surface_headline,
    surface_sentence,
)
from benchwright.features.search.surface.result import predict_samples
from benchwright.features.search.surface.types import (
    Factor,
    GangEffect,
    GangEffects,
    ModelFit,
    Prediction,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.features.search.text import open_answer_text, sample_text
from benchwright.features.search.types import ClaimResult
from benchwright.features.search.view import (
    CellColumn,
    SearchView,
    cost_tiles,
    estimate_column,
    figure_column,
    peak_estimate,
    peak_number,
    word_column,
)
from benchwright.report.charts.sheet import (
    OPEN_NAME,
    AxisTick,
    CurveForm,
    HeightGrid,
    OpenPoint,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    empty_panel,
)
from benchwright.report.documents import FileEntry
from benchwright.views.blocks import (
    Column,
    Number,
    Picture,
    TableBlock,
    Tile,
    as_sentence,
    count_column,
    count_number,
    keyed,
    scale_of,
    share_number,
    table_of,
)

STEPS = 33
"""Number of points of a map along each factor."""
MOST_MAPS = 4
_BOUND_DRAWN = 2.0
"""An answer that is not measured is drawn up to this multiple of the highest prediction: a bound
may be far above."""
_MOST_NAMED = 4
"""Maximum of samples named in a note."""
_OPEN_SHAPE = 6
"""Marker of a sample that is not measured: a cross."""
_BESIDE = 0.08
"""Sideways offset between curves at the same categorical level."""


def surface_sheet(goal: SurfaceGoal, result: SurfaceResult) -> Sheet:
    """Return the page of a surface."""
    title = "Peak rate [1/s]"
    if result.fit is None:
        why = "too few samples have a peak that a model can use"
        panel = empty_panel(why)
        return Sheet(title, (panel,), columns=1)
    numeric = _most_levels(
        [factor for factor in goal.factors if factor.numeric and len(factor.levels) > 1]
    )
    if len(numeric) >= 2:
        return _mapped(goal, result, (numeric[0], numeric[1]), title)
    axis = numeric[0] if numeric else _most_levels(goal.factors)[0]
    most = _BOUND_DRAWN * max(prediction.value for prediction in result.predictions)
    panel = _profile_panel(goal, result, axis, most)
    return Sheet(title, (panel,), columns=1, note="; ".join(_notes(result, most)))


def _most_levels(factors: Sequence[Factor]) -> list[Factor]:
    return sorted(factors, key=lambda factor: -len(factor.levels))


# -- maps ------------------------------------------------------------------------------


def _mapped(
    goal: SurfaceGoal, result: SurfaceResult, axes: tuple[Factor, Factor], title: str
) -> Sheet:
    """Return contours and a relief for each combination of the other factors' levels, all
    with the same colour scale."""
    others = list(_fixed(goal.factors, axes))
    shown = others[:MOST_MAPS]
    grids = [_grid(goal, result, axes, fixed) for fixed in shown]
    heights = [height for grid in grids for row in grid.heights for height in row]
    low, high = min(heights), max(heights)
    scale = (low, high) if high > low else (low - 0.5, high + 0.5)
    across, up = (_axis(axis) for axis in axes)
    panels = []
    for fixed, grid in zip(shown, grids, strict=True):
        flat = msgspec.structs.replace(grid, scale=scale)
        relief = msgspec.structs.replace(flat, relief=True)
        panels.append(Panel(_title(fixed), across, up, grid=flat))
        panels.append(Panel("", across, up, grid=relief))
    left = len(others) - len(shown)
    notes = [f"{left} more combinations of levels are not drawn"] if left else []
    notes += _notes(result)
    return Sheet(title, tuple(panels), note="; ".join(notes))


def _notes(result: SurfaceResult, most: float = math.inf) -> list[str]:
    """Return texts about what the picture does not show: that the model counts rough samples, and
    the samples whose search has no rate to draw, or none up to `most` [1/s]."""
    fit = result.fit
    notes = []
    if fit is not None and fit.rough:
        notes.append(
            f"the model is of {plural(fit.n, 'sample')}, {fit.rough} of them rough: their claim did not hold"
        )
    texts = [
        f"{sample_text(sample_result.sample)}: {open_answer_text(sample_result.found)}"
        for sample_result in result.by_sample.values()
        if not sample_result.claim_held and not _is_drawn(sample_result, most)
    ]
    if texts:
        notes.append(f"not drawn: {some_text(texts, _MOST_NAMED, '; ')}")
    return notes


def _is_drawn(result: SampleResult, most: float) -> bool:
    rate = result.found.peak_rate
    return rate is not None and (result.claim_held or rate <= most)


def _fixed(factors: Sequence[Factor], axes: Sequence[Factor]) -> Iterator[dict[str, str]]:
    """Yield the combinations of the other factors' levels: all levels of categorical factors,
    a middle one of numeric factors."""
    others = [factor for factor in factors if factor not in axes]
    choices = [_middle(other) if other.numeric else other.levels for other in others]
    for chosen in itertools.product(*choices):
        yield {one.name: level for one, level in zip(others, chosen, strict=True)}


def _middle(factor: Factor) -> tuple[str, ...]:
    ordered = sorted(factor.levels, key=factor.place)
    return (ordered[len(ordered) // 2],)


def _grid(
    goal: SurfaceGoal, result: SurfaceResult, axes: tuple[Factor, Factor], fixed: dict[str, str]
) -> HeightGrid:
    across, up = axes
    x_at, y_at = _steps(), _steps()
    samples = [
        _sample(
            goal.factors,
            {**fixed, across.name: across.level_between(x), up.name: up.level_between(y)},
        )
        for y in y_at
        for x in x_at
    ]
    rates = [prediction.value for prediction in predict_samples(goal, result.results, samples)]
    rows = tuple(tuple(rates[at : at + STEPS]) for at in range(0, len(rates), STEPS))
    points: list[tuple[float, float, float]] = []
    open_points: list[OpenPoint] = []
    for sample_result, rate in _answered(result.by_sample.values(), fixed):
        levels = dict(sample_result.sample)
        x, y = across.place(levels[across.name]), up.place(levels[up.name])
        if sample_result.claim_held:
            points.append((x, y, rate))
        else:
            open_points.append(OpenPoint(x, y, rate, _open_text(sample_result)))
    return HeightGrid(x_at, y_at, rows, (0.0, 1.0), tuple(points), open_points=tuple(open_points))


def _answered(
    results: Iterable[SampleResult], fixed: dict[str, str]
) -> Iterator[tuple[SampleResult, float]]:
    """Yield the samples with the fixed levels whose search has an answer, measured or not, with its
    rate."""
    for result in results:
        levels, rate = dict(result.sample), result.found.peak_rate
        here = all(levels[name] == level for name, level in fixed.items())
        if here and rate is not None:
            yield result, rate


def _open_text(result: SampleResult) -> str:
    """Return the answer of a search without its claim in a few letters."""
    rate, kind = result.found.peak_rate or 0.0, result.found.bound_kind
    sign = "~" if kind is None else "≥ " if kind == "lower" else "≤ "
    return f"{sign}{number_text(float(f'{rate:.3g}'))}"


def _finite_ends(result: SampleResult) -> tuple[float | None, float | None]:
    """Return the ends of a search's interval; None for each that is not known."""
    interval = result.found.interval
    if interval is None:
        return None, None
    low = interval.low if 0 < interval.low < math.inf else None
    return low, interval.high if math.isfinite(interval.high) else None


def _title(fixed: dict[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in fixed.items())


# -- profiles --------------------------------------------------------------------------


def _profile_panel(goal: SurfaceGoal, result: SurfaceResult, axis: Factor, most: float) -> Panel:
    """Return the model along one factor, with a curve for each combination of the others; `most`:
    the highest rate of a sample that is not measured [1/s]."""
    others = [factor for factor in goal.factors if factor is not axis]
    curves: list[PanelCurve] = []
    for place, chosen in enumerate(itertools.product(*(other.levels for other in others))):
        fixed = {one.name: level for one, level in zip(others, chosen, strict=True)}
        curves += _profile_curves(goal, result, axis, fixed, place, most)
    y = PanelAxis("peak rate [1/s]", low=0.0)
    return Panel("", _axis(axis), y, tuple(curves))


def _profile_curves(
    goal: SurfaceGoal,
    result: SurfaceResult,
    axis: Factor,
    fixed: dict[str, str],
    place: int,
    most: float,
) -> Iterator[PanelCurve]:
    """Yield the model with its band, the measured samples, and with another marker those whose
    claim did not hold, up to the rate `most` [1/s]. A categorical factor has no values between
    levels, so the model is a level with a bar, beside those of other curves."""
    beside = 0.0 if axis.numeric else _BESIDE * place
    if axis.numeric:
        x_at = _steps()
        levels = [axis.level_between(x) for x in x_at]
    else:
        x_at, levels = tuple(map(float, range(len(axis.levels)))), list(axis.levels)
    samples = [_sample(goal.factors, {**fixed, axis.name: level}) for level in levels]
    predictions = predict_samples(goal, result.results, samples)
    banded = all(math.isfinite(prediction.low + prediction.high) for prediction in predictions)
    yield PanelCurve(
        _title(fixed),
        tuple(x + beside for x in x_at),
        tuple(prediction.value for prediction in predictions),
        CurveForm.LINE if axis.numeric else CurveForm.LEVELS,
        colour=place,
        dash=place,
        low=tuple(prediction.low for prediction in predictions) if banded else (),
        high=tuple(prediction.high for prediction in predictions) if banded else (),
    )
    answered = [
        pair for pair in _answered(result.by_sample.values(), fixed) if _is_drawn(pair[0], most)
    ]
    title = _title(fixed)
    for label, claim_held, shape in (
        ("", True, None),
        (f"{title}, {OPEN_NAME}" if title else OPEN_NAME, False, _OPEN_SHAPE),
    ):
        points = [pair for pair in answered if pair[0].claim_held is claim_held]
        ends = [_finite_ends(sample_result) for sample_result, _ in points]
        known = any(None not in pair for pair in ends)
        if points:
            yield PanelCurve(
                label,
                tuple(
                    _place(axis, dict(sample_result.sample)[axis.name]) + beside
                    for sample_result, _ in points
                ),
                tuple(rate for _, rate in points),
                CurveForm.POINTS,
                colour=place,
                shape=shape,
                low=tuple(low for low, _ in ends) if known else (),
                high=tuple(high for _, high in ends) if known else (),
                names=()
                if claim_held
                else tuple(open_answer_text(sample_result.found) for sample_result, _ in points),
            )


# -- axes ------------------------------------------------------------------------------


def _axis(factor: Factor) -> PanelAxis:
    ordered = sorted(factor.levels, key=lambda level: _place(factor, level))
    ticks = tuple(AxisTick(_place(factor, level), level) for level in ordered)
    return PanelAxis(factor.name, ticks=ticks)


def _place(factor: Factor, level: str) -> float:
    if factor.numeric:
        return factor.place(level)
    return float(factor.levels.index(level))


def _steps() -> tuple[float, ...]:
    return tuple(-1 + 2 * at / (STEPS - 1) for at in range(STEPS))


def _sample(factors: Sequence[Factor], levels: dict[str, str]) -> Sample:
    return tuple((factor.name, levels[factor.name]) for factor in factors)


class SampleRow(msgspec.Struct, frozen=True):
    """A sample: its search, its prediction, or both; of the anchor of a pool, one for each gang."""

    sample: Sample
    result: SampleResult | None
    prediction: Prediction | None

    @property
    def measured(self) -> Estimate | None:
        """Its measured peak; None where the claim did not hold."""
        held = self.result is not None and self.result.claim_held
        return peak_estimate(self.result.found) if self.result is not None and held else None

    @property
    def open_text(self) -> str:
        """What a search without its claim established."""
        result = self.result
        return "" if result is None or result.claim_held else open_answer_text(result.found)


class SurfaceView(SearchView[SurfaceReport]):
    """A surface as texts and blocks."""

    def headline(self) -> str:
        return surface_headline(self.report)

    def sentence(self) -> str:
        return surface_sentence(self.report)

    def fields(self) -> Iterator[Field]:
        return surface_fields(self.report, self._answers)

    @cached_property
    def _answers(self) -> SurfaceAnswers:
        return self.report.answers()

    def named_findings(self) -> tuple[tuple[str, Finding], ...]:
        return tuple(named_findings(self.report))

    def tiles(self) -> Iterator[Tile]:
        result, link = self.report.result, f"{self.part}-samples"
        order = peak_order(result)
        if order.measured:
            best, note = (order.measured[0], "which sample has the highest is not established")
            established = not order.open and len(order.highest) == 1
            if established:
                (highest,) = order.highest
                note = sample_text(highest.sample)
                if highest is not best:
                    note = f"{open_answer_text(highest.found)} at {note}"
            is_highest = established and order.highest[0] is best
            yield Tile(
                "Highest peak rate" if is_highest else "Highest measured peak rate",
                peak_number(f"{self.part}.highest", best.found, link),
                visible(note),
            )
        if result.results:
            yield Tile(
                "Claim held",
                count_number(f"{self.part}.held", len(order.measured), link=link),
                f"of {plural(result.searched, 'sample')} searched",
            )
        if result.validation is not None:
            error = _share_estimate(f"{self.part}.error", result.validation.error, link)
            yield Tile("Cross-validated error", error)
        yield from cost_tiles(self, result.load_s, result.cost_s, result.trials)

    def tables(self) -> Iterator[TableBlock]:
        result = self.report.result
        yield self._samples()
        if result.fit is not None and result.fit.coefficients:
            yield self._coefficients(result.fit)
        if result.gangs is not None:
            yield self._gangs(result.gangs)
        if self.report.asked:
            yield self._asked()
        answers = self._answers
        if answers.best is not None and len(answers.best.chances) > 1:
            yield self._best(answers.best)
        for place, reached in enumerate(answers.reached):
            yield self._reached(f"{self.part}-reached-{place}", reached)
            if reached.crossings:
                title = f"Where the model reaches {rate_text(reached.rate)}"
                words = ("reached from there on", "reached up to there")
                ends = ("reached throughout", "not reached")
                yield self._crossings(
                    f"{self.part}-contour-{place}", title, reached.crossings, words, ends
                )
        for place, crossed in enumerate(answers.crossed):
            pair = crossed.levels
            first, second = (f"{pair.factor}={level}" for level in (pair.first, pair.second))
            yield self._crossings(
                f"{self.part}-crossed-{place}",
                f"Where the peaks at {first} and {second} cross, by the model",
                crossed.crossings,
                (f"{first} higher from there on", f"{first} higher up to there"),
                (f"{first} higher throughout", f"{second} higher throughout"),
            )

    def _rows(self) -> list[SampleRow]:
        """Return the samples in the factors' order; of a large space, and if not verbose, only those
        that were searched."""
        results: dict[Sample, list[SampleResult | None]] = {}
        none: list[SampleResult | None] = [None]
        for sample_result in self.report.result.results:
            results.setdefault(sample_result.sample, []).append(sample_result)
        predictions = {
            prediction.sample: prediction for prediction in self.report.result.predictions
        }
        every = self.verbose or len(predictions) <= MOST_ROWS
        shown = dict.fromkeys((*(predictions if every else ()), *results))
        return [
            SampleRow(sample, one, predictions.get(sample))
            for sample in shown
            for one in results.get(sample, none)
        ]

    def _samples(self) -> TableBlock:
        report, rows = self.report, self._rows()
        scale = scale_of(
            [
                one.value
                for row in rows
                for one in (row.measured, row.prediction)
                if one is not None
            ],
            "/s",
            5,
        )
        costs = scale_of(
            [None if row.result is None else row.result.found.cost_s for row in rows], "s", 3
        )
        left = len(report.result.predictions) - len({row.sample for row in rows if row.prediction})
        notes = [*_level_text(rows)]
        if any(row.prediction is not None for row in rows):
            notes.append(f"Model: with {percent_text(report.goal.confidence, 10)} bands.")
        if left > 0:
            notes.append(f"{plural(left, 'sample')} that {was(left)} not searched: -v has all.")

        def modelled(one: SampleRow) -> Estimate | None:
            prediction = one.prediction
            if prediction is None:
                return None
            return Estimate(
                prediction.value,
                prediction.low,
                prediction.high,
                report.goal.confidence,
                "model",
                0,
            )

        def level_at(place: int) -> Callable[[SampleRow], str]:
            return lambda sample_row: sample_row.sample[place][1]

        def gang(one: SampleRow) -> str:
            return "" if one.result is None else one.result.gang

        columns: tuple[CellColumn[SampleRow], ...] = (
            *(
                word_column(visible(factor.name), level_at(place))
                for place, factor in enumerate(report.goal.factors)
            ),
            word_column("Gang", gang),
            estimate_column("Measured", "", lambda one: one.measured, scale),
            word_column("Claim not held", lambda one: one.open_text),
            estimate_column("Model", "model", modelled, scale),
            figure_column(
                *("Trials", "trials"),
                lambda one: None if one.result is None else float(one.result.found.trials),
                scale_of([], ""),
                rank=1,
            ),
            figure_column(
                *("Cost", "cost"),
                lambda one: None if one.result is None else one.result.found.cost_s,
                costs,
                rank=2,
            ),
        )
        return table_of(
            f"{self.part}-samples",
            "Samples",
            keyed(f"{self.part}.sample", rows),
            columns,
            note=" ".join(notes),
        )

    def _coefficients(self, fit: ModelFit) -> TableBlock:
        estimates = [coefficient.estimate for coefficient in fit.coefficients]
        scale = scale_of([estimate.value for estimate in estimates], "")
        level = percent_text(estimates[0].confidence, 10)
        return table_of(
            f"{self.part}-coefficients",
            f"Coefficients of the model, with {level} intervals",
            keyed(f"{self.part}.coefficient", fit.coefficients),
            (
                word_column("Coefficient", lambda one: one.name),
                estimate_column("Value", "value", lambda one: one.estimate, scale),
            ),
            note="Numeric factors run from -1 (lowest level) to 1 (highest).",
        )

    def _gangs(self, gangs: GangEffects) -> TableBlock:
        def effect(key: str, one: GangEffect) -> Number:
            return _share_estimate(f"{key}.effect", one.effect, signed=True)

        return table_of(
            f"{self.part}-gangs",
            "Gangs: their peaks against the mean gang's, with "
            f"{percent_text(gangs.difference.confidence, 10)} intervals",
            keyed(f"{self.part}.gang", gangs.gangs),
            (
                word_column("Gang", lambda gang_effect: gang_effect.gang),
                count_column("Searches", "searches", lambda one: one.searches),
                (Column("Peaks", numeric=True), effect),
            ),
        )

    def _asked(self) -> TableBlock:
        level = self.report.goal.confidence
        scale = scale_of([one.value for one in self.report.asked], "/s", 5)
        return table_of(
            f"{self.part}-asked",
            f"Requested predictions, with {percent_text(level, 10)} bands",
            keyed(f"{self.part}.asked", self.report.asked),
            (
                word_column("Sample", lambda prediction: sample_text(prediction.sample)),
                estimate_column(
                    *("Model", "model"),
                    lambda one: Estimate(one.value, one.low, one.high, level, "model", 0),
                    scale,
                ),
                word_column("Extrapolated in", lambda one: ", ".join(one.outside)),
            ),
        )

    def _best(self, best: BestSamples) -> TableBlock:
        level = percent_text(best.confidence, 10)
        return self._chances(
            f"{self.part}-best",
            f"Samples that may have the highest peak (all others are ruled out at {level})",
            best.chances,
        )

    def _reached(self, identifier: str, reached: ReachedRate) -> TableBlock:
        title = f"Samples with a peak of {rate_text(reached.rate)} or more"
        return self._chances(identifier, title, reached.chances, reached.left_out)

    def _chances(
        self, identifier: str, title: str, chances: Sequence[Chance], left_out: int = 0
    ) -> TableBlock:
        """Return probabilities about samples, the table's first `MOST_ROWS`; `left_out`: the number
        of samples without one."""
        shown = chances if self.verbose else chances[:MOST_ROWS]
        left = len(chances) - len(shown)
        notes = []
        if any(chance.basis is Basis.OPEN for chance in shown):
            notes.append(
                "open: the search ended without its claim, so the peak may be anywhere within its bound."
            )
        if left:
            notes.append(f"{plural(left, 'more sample')}: -v has all.")
        if left_out:
            notes.append(f"{plural(left_out, 'sample')} with lower predictions left out.")

        def level_at(place: int) -> Callable[[Chance], str]:
            return lambda chance: chance.sample[place][1]

        columns: tuple[CellColumn[Chance], ...] = (
            *(
                word_column(visible(factor.name), level_at(place))
                for place, factor in enumerate(self.report.goal.factors)
            ),
            word_column("Peak", lambda chance: str(chance.basis)),
            (Column("Probability", numeric=True), _chance_number),
        )
        if not all(chance.exact for chance in shown):
            columns = (*columns, (Column("If rough answers hold", numeric=True), _rough_number))
        return table_of(identifier, title, keyed(identifier, shown), columns, note=" ".join(notes))

    def _crossings(
        self,
        identifier: str,
        title: str,
        crossings: Sequence[Crossing],
        beyond: tuple[str, str],
        throughout: tuple[str, str],
    ) -> TableBlock:
        """Return where lines cross; `beyond`: which one is higher beyond and before the crossing,
        `throughout`: where they do not cross."""
        goal = self.report.goal
        factors = {factor.name: factor for factor in goal.factors}
        along = crossings[0].along if crossings else ""
        others = [name for name, _ in crossings[0].fixed] if crossings else []
        level = percent_text(goal.confidence, 10)

        def what(crossing: Crossing) -> str:
            if crossing.crosses >= goal.confidence:
                return beyond[0] if crossing.rises else beyond[1]
            if crossing.first_higher >= goal.confidence:
                return throughout[0]
            if crossing.second_higher >= goal.confidence:
                return throughout[1]
            return "not established"

        def fixed_at(place: int) -> Callable[[Crossing], str]:
            return lambda crossing: crossing.fixed[place][1]

        columns: tuple[CellColumn[Crossing], ...] = (
            *(word_column(visible(name), fixed_at(place)) for place, name in enumerate(others)),
            word_column(visible(f"At {along}"), lambda one: crossing_text(one, factors[one.along])),
            (
                Column("Probability", "that there is a crossing", numeric=True),
                lambda key, one: Number(
                    key=f"{key}.crosses", value=one.crosses, text=probability_text(one.crosses)
                ),
            ),
            word_column(f"At {level}", what),
        )
        return table_of(identifier, title, keyed(identifier, crossings), columns)

    def sheet(self) -> Sheet:

        return surface_sheet(self.report.goal, self.report.result)

    def picture(self) -> Picture:
        sheet, crosses = self.sheet(), ""
        if not all(result.claim_held for result in self.report.result.results):
            crosses = (
                "A cross is a sample whose search ended without its claim: its rate is the best "
                "answer so far (~) or a bound. "
            )
        if sheet.note:
            crosses += f"{as_sentence(sheet.note)} "
        return Picture(
            id=f"{self.part}-surface",
            title="Peak rate [1/s]: the model and the samples",
            sheet=sheet,
            reading="The colors show the model's peak rate. The rings are measured samples. "
            f"{visible(crosses)}The table has their intervals and the bands of the model.",
        )

    def document(self, plots: Sequence[FileEntry] = (), **stored: Unpack[StoredSearch]) -> str:
        return surface_document(self.report, plots, self._answers, **stored)

    def peaks(self) -> Mapping[Pairs, ClaimResult]:
        return {
            at: sample_result.found for at, sample_result in self.report.result.by_sample.items()
        }

    def answers(self) -> Mapping[Pairs, float | None]:
        return {at: claim_result.peak_rate for at, claim_result in self.peaks().items()}


def _chance_number(key: str, chance: Chance) -> Number:
    """Return a probability; its ends where they differ."""
    return Number(
        key=f"{key}.probability",
        value=chance.at_most if chance.exact else None,
        text=chance_text(chance),
    )


def _rough_number(key: str, chance: Chance) -> Number:
    """Return the probability if open searches are as right as their intervals say."""
    return Number(key=f"{key}.rough", value=chance.rough, text=probability_text(chance.rough))


def _level_text(rows: Sequence[SampleRow]) -> Iterator[str]:
    """Yield the confidence of the searches' intervals, if all agree."""
    levels = {row.measured.confidence for row in rows if row.measured is not None}
    if len(levels) == 1:
        yield f"Measured: with {percent_text(levels.pop(), 10)} intervals."


def _share_estimate(key: str, share: Estimate, link: str = "", *, signed: bool = False) -> Number:
    """Return a share with its interval in per cent; `signed`: a change."""

    def text(value: float) -> str:
        if not math.isfinite(value):
            return percent_text(value)
        return signed_percent_text(value, 1, 2) if signed else percent_text(value)

    return msgspec.structs.replace(
        share_number(key, share.value, link=link),
        text=text(share.value),
        low=share.low,
        high=share.high,
        low_text=text(share.low).removesuffix(" %"),
        high_text=text(share.high),
        confidence=share.confidence,
    )
