"""The report of a session of `bw ramp`, `bw peak` or `bw surface`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.text import moment_text
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line, visible
from benchwright.features.search.charts import response_tests
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.explained import explained_loads
from benchwright.features.search.export import exported_trials, loads_text
from benchwright.features.search.peak.chart import cost_panel
from benchwright.features.search.reports import open_search, search_view
from benchwright.features.search.types import SearchTrial
from benchwright.features.search.view import trials_table
from benchwright.page.document import ReportPart
from benchwright.page.origin import (
    compact_json,
    environment_section,
    facts_table,
    files_section,
    session_rows,
)
from benchwright.page.sections import added_sections
from benchwright.page.trial_charts import normal_pictures
from benchwright.page.why import why_section
from benchwright.report.answer import finding_groups
from benchwright.report.charts.sheet import Sheet
from benchwright.study.contents import machines_of
from benchwright.study.findings import findings_about_session
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import Cell, Download, Picture, Section, Tone, Words
from benchwright.views.figures import as_sentence, finding_lines
from benchwright.views.why import named_results

_MOST_VALUES = 4
"""Values of a trial in the table, which is as wide as the page; the file of the section Data has
all."""


def search_part(study: Study, session: StoredSession, part: str) -> ReportPart:
    """Return the report of a session that searches over loads."""
    opened = open_search(study, session)
    listed = exported_trials(study, session.number)
    trials = [one.done for one in listed]
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
    numbered = [msgspec.structs.replace(one, number=at) for at, one in enumerate(trials, 1)]
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
