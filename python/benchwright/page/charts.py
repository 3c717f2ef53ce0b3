"""The pictures of trials, of any number, as drawings and as series with zoom and cursor; and the
chart that fits a study, for `bw plot STUDY -o FILE` without further words.

Decision: up to `MOST_DRAWN` trials each is a point. Beyond, the drawing has the range of the values
in equal groups of trials, the distribution has values at evenly spaced ranks, and the page has all
values once more as a series.

Decision: the kind of the session decides which chart fits: a search, a comparison and a load have
charts of their own; tests have lines where a number varies, else their trials as points. Rejected:
an error that asks for a NAME and a mode, which is what everybody got at the first attempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.text import plural
from benchwright.core.untrusted import visible
from benchwright.feature import session_kind
from benchwright.findings.result import TestResult
from benchwright.report.answer import TestAnswer
from benchwright.report.charts.compose import compose_plot, plot_sheet
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.sheet import AxisUnit, LevelLine, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.source import PlotGroup, axis_positions, split_by_factors, stated_of
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.trials import (
    ShownTest,
    course_sheet,
    distribution_sheet,
    metric_axis,
    shown_test,
)
from benchwright.study.catalogue import split_selector
from benchwright.study.contents import tests_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import LongSeries, Picture

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
            resource_uses = list(kind.uses(study, session))
        else:
            tests = tests_of(study, session.number)
            resource_uses = [
                trial.use
                for test in tests
                if name is None or test.plan.name == name
                for trial in test.all_trials
            ]
    uses = [use for use in resource_uses if use is not None]
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
    """Return the documents of a session's trials (page/kinds.py); None if a test has
    none."""
    from benchwright.page.kinds import PrintedDocument, trial_document

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


_BRIEF = "A slope, a step or a wave means that something changed during the test."
MOST_DRAWN = 500
_GROUPS = 150
_RANKS = 250
_MOST_IN_SERIES = 100_000
MOST_OF_PAGE = 9
"""Maximum of loads that a page shows."""


def normal_sheet(group: PlotGroup) -> Sheet:
    """Return the normal probability plots of a page."""
    shown = group.sources[:MOST_OF_PAGE]
    shown = tuple(test.labelled(name=visible(test.name)) for test in shown)
    group = msgspec.structs.replace(group, sources=shown)
    plot, _ = compose_plot([group], ChartRequest(mode=PlotMode.NORMAL))
    return plot_sheet(plot, ChartStyle())


def shown(test: TestResult, row: TestAnswer) -> ShownTest:
    """Return a test's trials with the values of the metric that it is about."""
    return shown_test(test, visible(row.name), row.metric, row.estimate)


def axis_of(test: TestResult, row: TestAnswer) -> PanelAxis:
    """Return the axis of the metric that a test is about."""
    rule = test.rules.row(row.metric)
    return metric_axis(visible(rule.label.lower()), rule.unit)


def distribution(
    identifier: str, tests: Sequence[ShownTest], axis: PanelAxis, title: str = ""
) -> Picture:
    """Return every value of each test, with the estimates; `title` says what the rows are."""
    several = len(tests) > 1
    rarer = [_at_ranks(test) for test in tests]
    thinned = "" if rarer == list(tests) else " Of many trials, values at even ranks."
    return Picture(
        id=identifier,
        title=title or ("Distribution of each test" if several else "Distribution"),
        sheet=distribution_sheet(rarer, axis),
        reading="Each pale point is a trial, and the dark point is the estimate with its "
        "interval. Two clusters, or points far from the others, mean that one number does not "
        f"describe the trials.{thinned}",
    )


def over_factor(identifier: str, tests: Sequence[TestResult], metric: str) -> Picture | None:
    """Return the estimates along the factor that is a number, with a line for each level of the
    others; None if no factor is a number."""
    # Also the arms of a comparison, which a chart of their own has by name.
    groups = [PlotGroup("", tuple(test.labelled(arm=None) for test in tests))]
    split, factor = split_by_factors(groups, None)
    places = axis_positions(split, factor, [])
    if not places.numeric or not all(len(group) > 1 for group in places.groups):
        return None
    request = ChartRequest(components=(metric,), errorbars="interval")
    try:
        plot, _ = compose_plot(groups, request)
    except InputError:
        return None  # Two tests of one level, for example, have no line.
    return Picture(
        id=identifier,
        title=f"Along {visible(places.factor or 'the number in the name')}",
        sheet=plot_sheet(plot, ChartStyle()),
        reading="The points are the estimates with their intervals. The lines only connect them: "
        "between two levels nothing was measured.",
    )


def course(identifier: str, test: ShownTest, axis: PanelAxis, *, brief: bool = False) -> Picture:
    """Return the trials in the order of time; `brief`: as one of many charts."""
    reading = (
        "Each point is a trial, in the order of time; the band is the interval of the estimate. A "
        "slope, a step or a wave means that the machine or the program changed during the test. "
        "Void and failed trials have markers of their own and do not count."
    )
    plain = msgspec.structs.replace(test, name="")
    if len(test.trials) <= MOST_DRAWN:
        sheet = course_sheet([plain], axis)
        return Picture(
            id=identifier,
            title="Course of the trials",
            sheet=sheet,
            reading=_BRIEF if brief else reading,
            brief=brief,
        )
    sheet = _grouped(plain, axis)
    return Picture(
        id=identifier,
        title="Course of the trials",
        sheet=sheet,
        reading=f"The line is the median of {_GROUPS} groups of trials in the order of time, and "
        "the band is from their smallest to their largest value. With scripts, all values "
        "can be zoomed: drag to select a range, double-click to return.",
        long=_series(test, axis),
    )


def _at_ranks(test: ShownTest) -> ShownTest:
    counted = test.counted()
    if len(counted) <= MOST_DRAWN:
        return test
    ordered = sorted(counted, key=lambda trial: trial.value or 0.0)
    last = len(ordered) - 1
    trials = tuple(ordered[round(at * last / (_RANKS - 1))] for at in range(_RANKS))
    return msgspec.structs.replace(test, trials=trials)


def _grouped(test: ShownTest, axis: PanelAxis) -> Sheet:
    scale = 1e9 if axis.unit is AxisUnit.TIME else 1.0
    values = [trial.value for trial in test.trials]
    size = -(-len(values) // _GROUPS)
    x, middle, low, high = [], [], [], []
    for begin in range(0, len(values), size):
        group = [value * scale for value in values[begin : begin + size] if value is not None]
        if group:
            x.append(begin + (size + 1) / 2)
            middle.append(median(group))
            low.append(min(group))
            high.append(max(group))
    curve = PanelCurve(
        "median, with the range", tuple(x), tuple(middle), low=tuple(low), high=tuple(high)
    )
    marks: tuple[LevelLine, ...] = ()
    if test.estimate is not None:
        marks = (LevelLine("estimate", test.estimate.value * scale),)
    along = PanelAxis("trial, in the order of time", AxisUnit.COUNT)
    return Sheet("", (Panel("", along, axis, (curve,), marks=marks),), columns=1)


def _series(test: ShownTest, axis: PanelAxis) -> LongSeries:
    values = [
        None if trial.value is None else float(f"{trial.value:.5g}") for trial in test.trials
    ][:_MOST_IN_SERIES]
    label = axis.label if axis.unit is not AxisUnit.TIME else f"{axis.label} [s]"
    return LongSeries(
        start=1,
        step=1,
        x_label="trial",
        y_label=label,
        labels=(f"{plural(len(values), 'trial')}",),
        series=(tuple(values),),
    )


def normal_pictures(key: str, group: PlotGroup | None) -> Iterator[Picture]:
    """Yield the normal probability plot of responses; nothing for None."""
    if group is None:
        return
    left = len(group.sources) - MOST_OF_PAGE
    more = f" bw plot --mode normal draws {left} more." if left > 0 else ""
    yield Picture(
        id=key,
        title="Normal probability plot of the responses",
        sheet=normal_sheet(group),
        reading="Responses of repeated trials over the scores of a normal distribution: they are "
        "near the line if they are normal, as Student's intervals assume. All points of a normal "
        f"sample are in the band with a probability of 95 %.{more}",
    )
