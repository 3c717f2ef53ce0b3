"""`bw compare STUDY STUDY` of two stored searches: reads them, compares them, prints the outcome."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec

from benchwright.cli.outcome import print_blocks
from benchwright.cli.shared_options import (
    AboutOptions,
    DetailOptions,
    LiveOptions,
    NotifyOptions,
    StudyOptions,
    TrialWatchOptions,
    added_to,
)
from benchwright.cli.terminal import table_width
from benchwright.core.criterion import criterion_text
from benchwright.core.errors import InputError, argument_error
from benchwright.core.quantity import parse_confidence
from benchwright.core.text import list_text
from benchwright.features.search.compared.document import comparison_document
from benchwright.features.search.compared.ratio import compare_peaks, compare_samples
from benchwright.features.search.compared.view import SearchesCompared, comparison_text
from benchwright.features.search.reports import open_search, search_view
from benchwright.features.search.spec_toml import ENGINE
from benchwright.features.search.surface.answers import crossed_surfaces
from benchwright.features.search.surface.report import SurfaceReport
from benchwright.features.search.types import ClaimKind
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.options import given
from benchwright.report.documents import encode
from benchwright.study.catalogue import StudyPart
from benchwright.study.journal import Study
from benchwright.suite.comparison import ComparisonRequest

_DEFAULT_CONFIDENCE = "95%"
_OF_THE_SERVER = ("target", "hosts", "ssh_config")
"""Settings of a load that may differ: which server, and from where."""


class StoredPeaks(msgspec.Struct, frozen=True):
    """A stored search, as it is compared."""

    place: str
    """With `@SESSION`, if one was named."""
    session: int
    experiment: Any
    report: Any


def kind_of(part: StudyPart) -> str:
    """Return the kind of a session. Raises InputError and StudyError where there is none."""
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        return part.of(study, "INPUT").info.kind


def compare_searches(arguments: Namespace, parts: Sequence[StudyPart]) -> int:
    """Compare two stored searches and print the outcome; return the exit status.

    Raises InputError for options that do not apply, and for searches that cannot be compared.
    """
    _check_options(arguments)
    confidence = _confidence(arguments.confidence or _DEFAULT_CONFIDENCE)
    first, second = (_read(part) for part in parts)
    _check_comparable(first, second)
    compared = _compared(first, second, confidence)
    if arguments.json:
        sys.stdout.write(encode(comparison_document(compared)))
    else:
        print_blocks([comparison_text(compared, table_width())])
    return compared.exit_status


def _check_options(arguments: Namespace) -> None:
    """Raise InputError for options that say nothing about two searches."""
    from benchwright.cli.compare import StoredOptions

    others = (added_options.declared for added_options in added_to("compare"))
    running = (TrialWatchOptions, AboutOptions, NotifyOptions, LiveOptions)
    kept = {"confidence", "seed", *DetailOptions.__struct_fields__}
    kept |= {*StudyOptions.__struct_fields__} - {"study"}
    wrong = [
        option_mistake(option.flag, f"{option.flag} is not for searches", "leave it out")
        for option in given(
            arguments, ComparisonRequest, StoredOptions, StudyOptions, *running, *others
        )
        if option.name not in kept
    ]
    if wrong:
        raise InputError(wrong)


def _confidence(text: str) -> float:
    try:
        return parse_confidence(text)
    except ValueError as error:
        raise argument_error("--confidence", text, str(error), "write --confidence 95%") from None


def _read(part: StudyPart) -> StoredPeaks:
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        stored = part.of(study)
        opened = open_search(study, stored)
        report = search_view(opened, ()).report
        place = str(part.place) if part.session is None else f"{part.place}@{part.session}"
        return StoredPeaks(place, stored.number, opened.experiment, report)


def _check_comparable(first: StoredPeaks, second: StoredPeaks) -> None:
    """Raise InputError for searches of different questions."""
    differ = []
    kinds = [one.experiment.info.kind for one in (first, second)]
    if kinds[0] != kinds[1]:
        differ.append(f"one is a bw {kinds[0]}, the other a bw {kinds[1]}")
    criteria = [sorted(map(criterion_text, one.experiment.criteria)) for one in (first, second)]
    if criteria[0] != criteria[1]:
        texts = [" and ".join(each) for each in criteria]
        differ.append(f"the limits of the first are {texts[0]}, those of the second {texts[1]}")
    slo = [
        any(claim.kind is ClaimKind.SLO for claim in one.report.claims[:1])
        for one in (first, second)
    ]
    if slo[0] != slo[1]:
        differ.append("one claims a rate at which limits hold (slo), the other the peak")
    differ += _loads_differ(first, second)
    if not differ and kinds[0] == "surface":
        factors = [
            [(factor.name, factor.measure) for factor in one.report.goal.factors]
            for one in (first, second)
        ]
        if factors[0] != factors[1]:
            names = [list_text([name for name, _ in each]) for each in factors]
            differ.append(
                f"the factors of the first are {names[0]}, those of the second {names[1]}"
            )
    if differ:
        hint = "search both with the same limits and the same load"
        message = f"the searches cannot be compared: {'; '.join(differ)}"
        raise argument_error("INPUT", second.place, message, hint)


def _loads_differ(first: StoredPeaks, second: StoredPeaks) -> list[str]:
    """Return how the loads differ beside their targets."""
    loads = [one.experiment.spec.load for one in (first, second)]
    if loads[0].generator != loads[1].generator:
        return [f"the generators are {loads[0].generator} and {loads[1].generator}"]
    if loads[0].generator != ENGINE:
        return []
    settings = [load.settings for load in loads]
    names = [
        name
        for name in settings[0].__struct_fields__
        if name not in _OF_THE_SERVER and getattr(settings[0], name) != getattr(settings[1], name)
    ]
    return [f"the loads differ in {list_text(names)}"] if names else []


def _compared(first: StoredPeaks, second: StoredPeaks, confidence: float) -> SearchesCompared:
    a, b = first.report, second.report
    places = (first.place, second.place)
    sessions = (first.session, second.session)
    if isinstance(a, SurfaceReport):
        results = [
            {at: one.found for at, one in report.result.by_sample.items()} for report in (a, b)
        ]
        return SearchesCompared(
            places=places,
            sessions=sessions,
            confidence=confidence,
            ratios=compare_samples(results[0], results[1], confidence),
            crossings=crossed_surfaces(
                (msgspec.structs.replace(a.goal, confidence=confidence), a.result.results),
                (b.goal, b.result.results),
            ),
            factors=a.goal.factors,
        )
    for report, place in ((a, first.place), (b, second.place)):
        if report.result is None:
            message = "the search has no result yet"
            raise argument_error("INPUT", place, message, "finish it with bw resume")
    return SearchesCompared(
        places=places,
        sessions=sessions,
        confidence=confidence,
        ratios=(compare_peaks(a.result, b.result, confidence),),
    )
