"""The view of a peak search: tables, figures and picture, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.core.text import ABSENT, percent_text, plural, probability_text
from benchwright.core.text_table import Field
from benchwright.core.untrusted import visible
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.peak.report import (
    NO_CLAIM,
    PeakReport,
    peak_document,
    peak_ending_text,
    peak_fields,
    peak_headline,
    peak_sentence,
)
from benchwright.features.search.text import binding_criterion
from benchwright.features.search.types import ClaimResult, CurvePoint
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
from benchwright.report.charts.sheet import Sheet
from benchwright.report.documents import FileEntry
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
                    lambda one: Estimate(one.middle, one.low, one.high, _BAND, "posterior", 0),
                    criterion_scale(
                        criterion,
                        [v for point in points for v in (point.low, point.middle, point.high)],
                    ),
                ),
            ),
            folded=True,
        )

    def sheet(self) -> Sheet:
        from benchwright.features.search.peak.chart import peak_sheet

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
