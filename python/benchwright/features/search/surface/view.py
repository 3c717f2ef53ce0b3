"""The view of a surface: samples, model, figures and picture, for terminal and page.

Decision: every row has the measured peak beside the model's prediction, to show where the model
does not fit. Only a peak whose claim held is in the column of measured ones; what the other searches
know is a column of its own, in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Unpack

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import percent_text, plural, signed_percent_text, was
from benchwright.core.text_table import Field
from benchwright.core.untrusted import visible
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.surface.report import (
    MOST_ROWS,
    SurfaceReport,
    named_findings,
    peak_order,
    surface_document,
    surface_fields,
    surface_headline,
    surface_sentence,
)
from benchwright.features.search.surface.types import (
    GangEffect,
    GangEffects,
    ModelFit,
    Prediction,
    Sample,
    SampleResult,
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
from benchwright.report.charts.sheet import Sheet
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
        return surface_fields(self.report)

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

    def _rows(self) -> list[SampleRow]:
        """Return the samples in the factors' order; of a large space, and if not verbose, only those
        that were searched."""
        results: dict[Sample, list[SampleResult | None]] = {}
        none: list[SampleResult | None] = [None]
        for one in self.report.result.results:
            results.setdefault(one.sample, []).append(one)
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
            found = one.prediction
            if found is None:
                return None
            return Estimate(found.value, found.low, found.high, report.goal.confidence, "model", 0)

        def level_at(place: int) -> Callable[[SampleRow], str]:
            return lambda one: one.sample[place][1]

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
                word_column("Gang", lambda one: one.gang),
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
                word_column("Sample", lambda one: sample_text(one.sample)),
                estimate_column(
                    *("Model", "model"),
                    lambda one: Estimate(one.value, one.low, one.high, level, "model", 0),
                    scale,
                ),
                word_column("Extrapolated in", lambda one: ", ".join(one.outside)),
            ),
        )

    def sheet(self) -> Sheet:
        from benchwright.features.search.surface.chart import surface_sheet

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
        return surface_document(self.report, plots, **stored)

    def peaks(self) -> Mapping[Pairs, ClaimResult]:
        return {at: one.found for at, one in self.report.result.by_sample.items()}

    def answers(self) -> Mapping[Pairs, float | None]:
        return {at: found.peak_rate for at, found in self.peaks().items()}


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
