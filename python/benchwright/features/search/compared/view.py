"""Two compared searches as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec

from benchwright.core.results import Estimate
from benchwright.core.text import number_text, percent_text, probability_text
from benchwright.core.text_table import field_lines
from benchwright.core.untrusted import one_line, visible
from benchwright.features.search.compared.ratio import PeakRatio, PeakVerdict
from benchwright.features.search.surface.answers import Crossing
from benchwright.features.search.surface.report import crossing_text
from benchwright.features.search.surface.types import Factor
from benchwright.features.search.text import (
    interval_text,
    open_answer_text,
    peak_rate_text,
    sample_text,
)
from benchwright.features.search.types import ClaimResult, PeakStatus
from benchwright.features.search.view import CellColumn, word_column
from benchwright.report.documents import report_text
from benchwright.views.blocks import TableBlock, keyed, table_of
from benchwright.views.terminal import table_text

_VERDICTS = {
    PeakVerdict.BETTER: "better",
    PeakVerdict.WORSE: "worse",
    PeakVerdict.NO_DIFFERENCE: "no difference shown",
    PeakVerdict.UNDECIDED: "undecided",
}


class SearchesCompared(msgspec.Struct, frozen=True, kw_only=True):
    """Two stored searches, the first of which is the baseline."""

    places: tuple[str, str]
    sessions: tuple[int, int]
    confidence: float
    ratios: tuple[PeakRatio, ...]
    """Of two peak searches one; of surfaces one for each sample that both searched."""
    crossings: tuple[Crossing, ...] = ()
    """Of two surfaces: where they cross."""
    factors: tuple[Factor, ...] = ()

    @property
    def exit_status(self) -> int:
        """0: every ratio has a verdict; 3: one is undecided, or there is none."""
        undecided = any(one.verdict is PeakVerdict.UNDECIDED for one in self.ratios)
        return 3 if undecided or not self.ratios else 0


def ratio_text(ratio: Estimate | None) -> str:
    """Return a ratio with its interval: `1.93 (1.8 to 2.07)`, `1.8 or more`, `0.53 or less`."""
    if ratio is None:
        return "unknown"
    if math.isnan(ratio.value):
        if math.isinf(ratio.high):
            return f"{number_text(ratio.low, 3)} or more" if ratio.low > 0 else "unknown"
        return f"{number_text(ratio.high, 3)} or less"
    ends = f"{number_text(ratio.low, 4)} to {number_text(ratio.high, 4)}"
    return f"{number_text(ratio.value, 4)} ({ends})"


def comparison_sentence(compared: SearchesCompared) -> str:
    """Return the outcome in one sentence."""
    level = percent_text(compared.confidence, 10)
    if compared.factors:
        counts = [
            f"{text} at {count}"
            for verdict, text in _VERDICTS.items()
            if (count := sum(one.verdict is verdict for one in compared.ratios))
        ]
        return (
            f"{compared.places[1]} against {compared.places[0]}, of {len(compared.ratios)} samples "
            f"that both searched: {', '.join(counts) or 'none'} (all together at {level})"
        )
    (one,) = compared.ratios
    text = f"{_VERDICTS[one.verdict]}: "
    if one.verdict is PeakVerdict.UNDECIDED:
        text += f"{one.why}; "
    return f"{text}peak of {compared.places[1]} / {compared.places[0]} = {ratio_text(one.ratio)} at {level}"


def _peak_text(result: ClaimResult) -> str:
    if result.status is not PeakStatus.FOUND:
        return open_answer_text(result)
    ends = interval_text(result.interval)
    return f"{peak_rate_text(result)} ({ends})" if ends else peak_rate_text(result)


def comparison_text(compared: SearchesCompared, width: int | None) -> str:
    """Return the report, ending with a newline."""
    fields: list[tuple[str, str]] = []
    if not compared.factors:
        (one,) = compared.ratios
        fields = [
            (name, f"{place}, session {session}: {_peak_text(result)}")
            for name, place, session, result in zip(
                ("first", "second"),
                compared.places,
                compared.sessions,
                (one.first, one.second),
                strict=True,
            )
        ]
    tables = [_samples(compared)] if compared.factors else []
    if compared.crossings:
        tables.append(_crossings(compared))
    return report_text(
        [one_line(comparison_sentence(compared))],
        map(one_line, field_lines(fields)),
        *(_titled(table, width) for table in tables),
    )


def _titled(table: TableBlock, width: int | None) -> Iterator[str]:
    if table.rows:
        yield f"{table.title}:"
        yield from table_text(table, width)


def _samples(compared: SearchesCompared) -> TableBlock:
    columns: tuple[CellColumn[PeakRatio], ...] = (
        word_column("Sample", lambda one: sample_text(one.sample)),
        word_column("First", lambda one: _peak_text(one.first)),
        word_column("Second", lambda one: _peak_text(one.second)),
        word_column("Second / first", lambda one: ratio_text(one.ratio)),
        word_column("Verdict", lambda one: _VERDICTS[one.verdict]),
    )
    return table_of("samples", "Samples", keyed("sample", compared.ratios), columns)


def _crossings(compared: SearchesCompared) -> TableBlock:
    factors = {factor.name: factor for factor in compared.factors}
    first = compared.crossings[0]

    def what(crossing: Crossing) -> str:
        if crossing.crosses >= compared.confidence:
            return "first higher from there on" if crossing.rises else "second higher from there on"
        if crossing.first_higher >= compared.confidence:
            return "first higher throughout"
        if crossing.second_higher >= compared.confidence:
            return "second higher throughout"
        return "not established"

    def fixed_at(place: int) -> Callable[[Crossing], str]:
        return lambda crossing: crossing.fixed[place][1]

    columns: tuple[CellColumn[Crossing], ...] = (
        *(
            word_column(visible(name), fixed_at(place))
            for place, (name, _) in enumerate(first.fixed)
        ),
        word_column(
            visible(f"At {first.along}"), lambda one: crossing_text(one, factors[one.along])
        ),
        word_column("Probability", lambda one: probability_text(one.crosses)),
        word_column(f"At {percent_text(compared.confidence, 10)}", what),
    )
    title = "Where the surfaces cross, by their models"
    return table_of("crossings", title, keyed("crossing", compared.crossings), columns)
