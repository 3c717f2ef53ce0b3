"""The chart that fits a study, for `bw plot STUDY -o FILE` without further words.

Decision: the kind of the session decides: a search, a comparison and a load have charts of their
own; tests have lines where a number varies, else their trials as points. Rejected: an error that
asks for a NAME and a mode, which is what everybody got at the first attempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.feature import session_kind
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotGroup, axis_positions, split_by_factors, stated_of
from benchwright.study.contents import tests_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import StoredSession, Study
from benchwright.study.selection import split_selector

_MOST_DOCUMENTS = 6
"""Documents in one chart: more colours and dashes are hard to distinguish."""


def session_sheet(word: str) -> Sheet | None:
    """Return the chart of a study's session (`DIR`, `DIR@2`, `DIR:TEST`) that is a search, a
    comparison or a load; None for other tests and for what is no study.

    Raises StudyError for a study that cannot be read, InputError for a search without a load.
    """
    part = split_selector(Path(word))
    if not (part.place / JOURNAL).is_file():
        return None
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.among(study.sessions())
        if session is None:
            return None  # The reader of inputs reports it.
        if (kind := session_kind(session.info.kind)) is not None:
            if not kind.uses(study, session):
                message = f"{word!r} has nothing to draw: no load was completed"
                hint = "`bw resume` continues an interrupted search"
                raise InputError([Diagnostic("empty-series", message, hint, "GLOB")])
            return kind.sheet(study, session)
        if part.test is not None:
            return document_sheet(study, session, part.test)
        return comparison_sheet(study, session) or document_sheet(study, session)


def resources_sheet(word: str) -> Sheet:
    """Return the utilization of the machine's resources during the trials of a session, or of one
    of its tests (`DIR:TEST`).

    Raises InputError for what is no study, StudyError for a study that cannot be read.
    """
    from benchwright.page.why import shown_uses
    from benchwright.report.charts.use import use_sheet

    part = split_selector(Path(word))
    place, name = part.place, part.test
    if not (place / JOURNAL).is_file():
        message = f"{word!r} is no study, so it has no record of resources"
        raise argument_error("GLOB", word, message, "give one STUDY, or STUDY:TEST")
    with contextlib.closing(Study.open_to_read(place)) as study:
        session = part.of(study, "GLOB")
        if (kind := session_kind(session.info.kind)) is not None:
            found = list(kind.uses(study, session))
        else:
            tests = tests_of(study, session.number)
            found = [
                trial.use
                for test in tests
                if name is None or test.plan.name == name
                for trial in test.all_trials
            ]
    uses = [use for use in found if use is not None]
    if not uses:
        return use_sheet(())
    shown, what = shown_uses(uses, place)
    return msgspec.structs.replace(use_sheet(shown), note=what)


def response_group(word: str) -> PlotGroup | None:
    """Return the responses of a session's trials as tests; None for a session of tests and for what
    is no study.

    Raises StudyError for a study that cannot be read, InputError for too few responses.
    """
    part = split_selector(Path(word))
    if not (part.place / JOURNAL).is_file():
        return None
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.among(study.sessions())
        kind = None if session is None else session_kind(session.info.kind)
        if session is None or kind is None:
            return None
        responses = kind.responses(study, session)
    if responses is None:
        message = f"no load of {word!r} has three trials with a response"
        raise argument_error("GLOB", word, message, "apply a load more often")
    return msgspec.structs.replace(responses, name=part.place.name)


def comparison_sheet(study: Study, session: StoredSession) -> Sheet | None:
    """Return the ratios of a session's comparisons that ended; None if there are none."""
    from benchwright.report.charts.forest import forest_sheet
    from benchwright.results.stored import recorded_comparisons

    sheets = list(map(forest_sheet, recorded_comparisons(study, session.number)))
    if not sheets:
        return None
    notes = dict.fromkeys(sheet.note for sheet in sheets if sheet.note)
    panels = tuple(panel for sheet in sheets for panel in sheet.panels)
    return Sheet("", panels, columns=1, note="; ".join(notes))


def document_sheet(study: Study, session: StoredSession, name: str | None = None) -> Sheet | None:
    """Return the documents of a session's trials (page/trial_documents.py); None if a test has
    none."""
    from benchwright.page.trial_documents import PrintedDocument, trial_document

    found: list[tuple[str, PrintedDocument]] = []
    tests = tests_of(study, session.number)
    tests = [test for test in tests if name is None or test.plan.name == name]
    several = len(tests) > 1
    for test in tests:
        name_of = f"{test.plan.name} trial" if several else "trial"
        for trial in test.trials:
            printed = trial_document(study.path, session.number, test.plan.name, trial)
            if printed is not None:
                found.append((f"{name_of} {trial.epoch}", printed))
        if not found:
            return None
    if not found:
        return None
    kind = found[-1][1].kind
    alike = [(name, one.document) for name, one in found if one.kind is kind]
    shown = alike[-_MOST_DOCUMENTS:]
    note = f"the last {len(shown)} of {len(alike)} trials" if len(shown) < len(alike) else ""
    return msgspec.structs.replace(kind.sheet(shown), note=note)


def fitting_request(
    groups: Sequence[PlotGroup], request: ChartRequest, *, errorbars: bool
) -> ChartRequest:
    """Return the request with the mode and the quantity that fit these tests: lines along a
    factor that is another number for each of them, else the trials as points; the metric of the
    stopping rule.

    `errorbars`: whether the request names their kind; else they are those of the answer.
    """
    changed = msgspec.structs.replace
    if not errorbars:
        request = changed(request, errorbars="interval")
    if not request.components:
        request = changed(request, components=_main_component(groups))
    split, factor = split_by_factors(groups, request.factor)
    places = axis_positions(split, factor, [])
    lines = (
        places.numeric and not places.ambiguous and all(len(group) > 1 for group in places.groups)
    )
    return changed(request, mode=PlotMode.LINE if lines else PlotMode.POINTS)


def _main_component(groups: Sequence[PlotGroup]) -> tuple[str, ...]:
    """Return the metric that a test's stopping rule watches; none if no rule watches one."""
    for group in groups:
        for test in group.sources:
            for reached in test.stop.reached if test.stop is not None else ():
                if reached.metric in test.columns:
                    return (reached.metric,)
    tests = [test for group in groups for test in group.sources]
    timed = ("elapsed" in test.columns or "elapsed" in stated_of(test) for test in tests)
    return ("elapsed",) if all(timed) else ()
