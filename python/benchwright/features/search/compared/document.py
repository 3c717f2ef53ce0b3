"""The JSON document of two compared searches."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from benchwright.features.search.compared.ratio import PeakRatio, PeakVerdict
from benchwright.features.search.compared.view import SearchesCompared
from benchwright.features.search.surface.report import CrossingEntry, crossing_entry
from benchwright.features.search.types import ClaimResult, PeakStatus
from benchwright.report.documents import Ends


class ComparedPeakEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two peaks."""

    status: PeakStatus
    peak_rate: float | None
    bound: Literal["lower", "upper"] | None
    """What `peak_rate` is a bound of; null: it is an estimate."""
    interval: Ends | None


class PeakRatioEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The second peak over the first."""

    sample: dict[str, str]
    first: ComparedPeakEntry
    second: ComparedPeakEntry
    ratio: float | None
    """null: one peak has only a bound, or no interval."""
    interval: Ends
    """null: that end is unknown."""
    confidence: float | None
    verdict: PeakVerdict
    why: str
    """Why the verdict is `undecided`."""


class SearchComparisonDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/search-compare/1",
):
    """Two stored searches, compared: `bw compare STUDY STUDY`."""

    exit_status: int
    confidence: float
    studies: tuple[str, str]
    """The first is the baseline."""
    sessions: tuple[int, int]
    ratios: tuple[PeakRatioEntry, ...]
    """Of two peak searches one; of surfaces one for each sample that both searched."""
    crossings: tuple[CrossingEntry, ...]
    """Of two surfaces: where they cross."""


def comparison_document(compared: SearchesCompared) -> SearchComparisonDocument:
    """Return the document."""
    return SearchComparisonDocument(
        exit_status=compared.exit_status,
        confidence=compared.confidence,
        studies=compared.places,
        sessions=compared.sessions,
        ratios=tuple(map(_ratio_entry, compared.ratios)),
        crossings=tuple(map(crossing_entry, compared.crossings)),
    )


def _ratio_entry(one: PeakRatio) -> PeakRatioEntry:
    ratio = one.ratio
    low, value, high = (
        None if ratio is None or not math.isfinite(number) else number
        for number in ((ratio.low, ratio.value, ratio.high) if ratio is not None else (0.0,) * 3)
    )
    return PeakRatioEntry(
        sample=dict(one.sample),
        first=_peak_entry(one.first),
        second=_peak_entry(one.second),
        ratio=value,
        interval=(low, high),
        confidence=None if ratio is None else ratio.confidence,
        verdict=one.verdict,
        why=one.why,
    )


def _peak_entry(result: ClaimResult) -> ComparedPeakEntry:
    interval = result.interval
    return ComparedPeakEntry(
        status=result.status,
        peak_rate=result.peak_rate,
        bound=result.bound_kind,
        interval=None if interval is None else (interval.low, interval.high),
    )
