"""The peak of an earlier search, with which `bw peak --from STUDY` begins."""

from __future__ import annotations

import contextlib
from pathlib import Path

from benchwright.core.criterion import criterion_text
from benchwright.core.errors import argument_error
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.reports import open_search, search_view
from benchwright.features.search.types import ClaimResult, EarlierPeak, PeakStatus
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study


def earlier_peak(place: str) -> EarlierPeak:
    """Return the answer of a study's last peak search. Raises InputError where it has none."""
    hint = "give a study with a bw peak that ended"
    if not (Path(place) / JOURNAL).is_file():
        raise argument_error("--from", place, "there is no study", hint)
    with contextlib.closing(Study.open_to_read(Path(place))) as study:
        searches = [one for one in study.sessions() if one.info.kind == "peak"]
        if not searches:
            raise argument_error("--from", place, "the study has no peak search", hint)
        opened = open_search(study, searches[-1])
        result: ClaimResult | None = search_view(opened, ()).report.result
        criteria = opened.experiment.criteria
    limits = tuple(sorted(map(criterion_text, criteria)))
    if result is None or not result.peak_rate or result.bound_kind == "upper":
        raise argument_error("--from", place, "that search found no rate that held", hint)
    return earlier_of(result, place, limits)


def earlier_of(result: ClaimResult, study: str, limits: tuple[str, ...]) -> EarlierPeak:
    """Return where a search begins that starts from this result, which has a rate that held."""
    rate = result.peak_rate
    assert rate
    if result.bound_kind == "lower":
        return EarlierPeak(study=study, rate=rate, low=rate, high=None, limits=limits)
    low, high = rate * (1 - tuning.EARLIER_SHARE), rate * (1 + tuning.EARLIER_SHARE)
    interval = result.interval
    if interval is not None and result.status is PeakStatus.FOUND:
        low, high = min(low, interval.low), max(high, interval.high)
    return EarlierPeak(study=study, rate=rate, low=low, high=high, limits=limits)
