"""The page of a session of `bw ramp`, `bw peak` or `bw surface`, and what `bw plot` draws of it:
its chart, and the responses of its trials, at each load or relative to the curve.

Decision: the responses at one load are a sample of one distribution, so each load with enough
trials is a test of its own. A search that has no such load (it seldom repeats one) has one test:
every response divided by the fitted curve at its load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.numeric import np
from benchwright.core.plan import Pairs
from benchwright.core.text import moment_text
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line, visible
from benchwright.features.load.plan import LoadEnding
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.explained import explained_loads
from benchwright.features.search.export import exported_trials, loads_text
from benchwright.features.search.keys import search_trials_of
from benchwright.features.search.peak.view import columns_of, cost_panel
from benchwright.features.search.reports import open_search, search_view
from benchwright.features.search.text import load_value_text, sample_text
from benchwright.features.search.types import ClaimResult, CurvePoint, SearchTrial
from benchwright.features.search.view import trials_table
from benchwright.findings.result import TestResult
from benchwright.page.charts import normal_pictures
from benchwright.page.document import ReportPart
from benchwright.page.origin import (
    added_sections,
    compact_json,
    environment_section,
    facts_table,
    files_section,
    session_rows,
)
from benchwright.page.why import why_section
from benchwright.report.answer import finding_groups
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotComponent, PlotGroup, result_of_columns
from benchwright.stats.aggregate import MetricColumn
from benchwright.stats.probability_plot import FEWEST_OF_PROBABILITY_PLOT
from benchwright.study.contents import findings_about_session, machines_of
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Cell,
    Download,
    Picture,
    Section,
    Tone,
    Words,
    as_sentence,
    finding_lines,
)
from benchwright.views.why import named_results

_RELATIVE = "relative_response"


def search_sheet(study: Study, session: StoredSession) -> Sheet:
    """Return the chart of a stored search, which may be incomplete; but for a surface, with the
    cost of each trial."""
    view = search_view(open_search(study, session), (), ())
    sheet = view.sheet()
    if session.info.kind == "surface":
        return sheet
    panels = (*sheet.panels, cost_panel(view.report.trials))
    return msgspec.structs.replace(sheet, panels=panels, columns=columns_of(panels))


def search_responses(study: Study, session: StoredSession) -> PlotGroup | None:
    """Return the responses of the trials as tests of a plot; None where there are too few."""
    opened = open_search(study, session)
    trials = search_trials_of(study, session.number)
    return response_tests(trials, opened.experiment.criteria, search_view(opened, (), ()).peaks())


# -- The responses ---------------------------------------------------------------------


def response_tests(
    trials: Sequence[SearchTrial], criteria: Sequence[Criterion], found: Mapping[Pairs, ClaimResult]
) -> PlotGroup | None:
    """Return the loads that have at least three responses, those with most first; else all
    responses relative to the curves of `found`, by sample, as one test. None where there are too
    few."""
    tests = _by_load(trials, criteria)
    if not tests:
        return _relative(trials, found)
    names = [(criterion, criterion_name(criterion)) for criterion in criteria]
    named = (PlotComponent(one.key, text[:1].upper() + text[1:], one.unit) for one, text in names)
    return PlotGroup("", tests, tuple(named))


def _by_load(
    trials: Sequence[SearchTrial], criteria: Sequence[Criterion]
) -> tuple[TestResult, ...]:
    at_load: dict[tuple[Pairs, float], list[tuple[int, SearchTrial]]] = {}
    for number, trial in enumerate(trials, 1):
        if trial.trial.ending is not LoadEnding.FAILED:
            at_load.setdefault((trial.sample, trial.trial.rate), []).append((number, trial))
    samples = {sample for sample, _ in at_load}
    tests = []
    for (sample, rate), here in at_load.items():
        columns = [_column(criterion.key, here) for criterion in criteria]
        enough = [column for column in columns if len(column.values) >= FEWEST_OF_PROBABILITY_PLOT]
        name = load_value_text(rate, in_users=here[0][1].probe.users is not None)
        if len(samples) > 1:
            name = f"{sample_text(sample)} {name}"
        if enough:
            tests.append(result_of_columns(name, enough))
    return tuple(sorted(tests, key=_size, reverse=True))


def _column(key: str, here: Iterable[tuple[int, SearchTrial]]) -> MetricColumn:
    known = [
        (number, trial.trial.values[key])
        for number, trial in here
        if math.isfinite(trial.trial.values.get(key, math.nan))
    ]
    return MetricColumn(key, tuple(n for n, _ in known), tuple(v for _, v in known))


def _size(test: TestResult) -> int:
    return max(len(column.values) for column in test.columns.values())


def _relative(
    trials: Sequence[SearchTrial], found: Mapping[Pairs, ClaimResult]
) -> PlotGroup | None:
    values: dict[int, float] = {}
    for number, trial in enumerate(trials, 1):
        result = found.get(trial.sample)
        if result is None or trial.trial.ending is not LoadEnding.WHOLE:
            continue
        expected = _response_at(trial.trial.offered_rate, result.curve)
        value = trial.trial.values.get(result.binding, math.nan)
        if expected is not None and math.isfinite(value):
            values[number] = value / expected
    if len(values) < FEWEST_OF_PROBABILITY_PLOT:
        return None
    column = MetricColumn(_RELATIVE, tuple(values), tuple(values.values()))
    named = PlotComponent(_RELATIVE, "Response / fitted curve", "")
    return PlotGroup("", (result_of_columns("all loads", [column]),), (named,))


def _response_at(rate: float, curve: Sequence[CurvePoint]) -> float | None:
    """Return the curve's response at a rate, interpolated in its logarithm; None outside of it."""
    rates = [point.rate for point in curve]
    middles = [point.middle for point in curve]
    if not rates or not rates[0] <= rate <= rates[-1] or min(middles) <= 0:
        return None
    return float(np.exp(np.interp(rate, rates, np.log(middles))))


_MOST_VALUES = 4
"""Values of a trial in the table, which is as wide as the page; the file of the section Data has
all."""


def search_part(study: Study, session: StoredSession, part: str) -> ReportPart:
    """Return the report of a session that searches over loads."""
    opened = open_search(study, session)
    listed = exported_trials(study, session.number)
    trials = [exported_trial.done for exported_trial in listed]
    loads = explained_loads(opened.ledger, session.info)
    about = findings_about_session(study, session.number)
    view = search_view(opened, about, loads, part=part, verbose=True)
    head = StoredSearch(
        study=str(study.path), session=session.number, exit_status=opened.verdict.exit_status
    )
    criteria, status = opened.experiment.criteria, view.report.status
    findings = view.named_findings()
    tone: Tone = "bad" if status == "failed" else "doubtful"
    if status in ("found", "complete", "saturated"):
        tone = "good"
    sections = (
        Section(
            id=f"{part}-search",
            title=_TITLES[session.info.kind],
            lead=visible(one_line(opened.verdict.detail)),
            blocks=(view.picture(), *view.tables()),
        ),
        *added_sections(part, study, session),
        Section(
            id=f"{part}-trials",
            title="Trials",
            lead="Every load that the search applied, in order, with its cost.",
            blocks=(
                *_cost_picture(part, trials),
                *normal_pictures(f"{part}-normal", response_tests(trials, criteria, view.peaks())),
                trials_table(view.trials_id, trials, criteria, part, _MOST_VALUES),
            ),
        ),
        why_section(
            part,
            named_results(loads),
            [trial.trial.use for trial in trials if trial.trial.use is not None],
            [trial.trial.profile for trial in trials if trial.trial.profile is not None],
            study.path,
            noun="load",
        ),
        environment_section(part, machines_of(study, session.number)),
        Section(
            id=f"{part}-method",
            title="How it was measured",
            lead="The request, how the search ended, and what is needed to run it again.",
            blocks=(
                facts_table(
                    f"{part}-method-facts",
                    "Method",
                    [*_field_rows(view.fields()), *session_rows(session)],
                ),
            ),
        ),
        files_section(
            part,
            (
                Download(
                    f"{study.path.name}-trials.csv",
                    "text/csv",
                    loads_text(listed),
                    "each load and its values",
                ),
                Download(
                    f"{study.path.name}-{session.info.kind}.json",
                    "application/json",
                    compact_json(view.document(**head)),
                    f"the document of bw {session.info.kind} --json",
                ),
            ),
        ),
    )
    return ReportPart(
        id=part,
        title=visible(study.path.name),
        study=visible(str(study.path)),
        session=session.number,
        kind=session.info.kind,
        status=status,
        started=moment_text(session.info.started_ns),
        verdict=(visible(view.headline()), visible(as_sentence(view.sentence()))),
        tone=tone,
        tiles=tuple(view.tiles()),
        findings=finding_lines(finding_groups(findings), findings),
        sections=sections,
    )


_TITLES = {
    "peak": "Response against rate",
    "ramp": "Throughput against load",
    "surface": "Peak rate over the factors",
}


def _cost_picture(part: str, trials: Sequence[SearchTrial]) -> Iterator[Picture]:
    if not trials:
        return
    # The searches of a surface number their trials from 1 each.
    numbered = [msgspec.structs.replace(trial, number=at) for at, trial in enumerate(trials, 1)]
    yield Picture(
        id=f"{part}-costs",
        title="Cost of the trials",
        sheet=Sheet("", (cost_panel(numbered),), columns=1),
        reading="Each bar is a trial, in the order of time; its height is the time that the trial "
        "took. A search needs most of its time near the answer, where the trials are longer.",
    )


def _field_rows(fields: Iterable[Field]) -> Iterator[tuple[Cell, ...]]:
    before = ""
    for name, text in fields:
        before = name or before
        yield Words(before.capitalize()), Words(visible(text))
