"""The page of a history: its answer, a chart and a table for each series, what changed beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright import __version__
from benchwright.core.text import moment_text, p_cell, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.history.answer import HistoryAnswer, SeriesAnswer
from benchwright.features.history.chart import MOST_RUNS, series_sheet
from benchwright.features.history.document import history_document
from benchwright.features.history.newest import change_and_interval
from benchwright.features.history.text import (
    commits_of,
    headline,
    sentence,
    step_name,
    step_words,
)
from benchwright.features.history.types import commit_text
from benchwright.page.document import (
    Block,
    Cell,
    Column,
    Download,
    Downloads,
    Group,
    Picture,
    ReportDocument,
    ReportPart,
    Section,
    TableBlock,
    Tone,
    Words,
)
from benchwright.report.answer import finding_groups
from benchwright.report.documents import encode
from benchwright.views.figures import (
    as_sentence,
    count_number,
    estimate_number,
    finding_lines,
    scale_of,
)

_PART = "p1"
_MOST_SENTENCES = 8
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("slower", "worse"), "bad"),
    **dict.fromkeys(("faster", "better", "no difference"), "good"),
    "undecided": "doubtful",
}


def history_page(answer: HistoryAnswer) -> ReportDocument:
    """Return the page of a history."""
    part = history_part(answer)
    return ReportDocument(title=part.title, version=__version__, parts=(part,), shared=())


def history_part(answer: HistoryAnswer) -> ReportPart:
    """Return the report of a history."""
    series = answer.series
    named = [(one.name, finding) for one in series for finding in one.findings]
    starts = [p.started_ns for one in series for p in one.series.points]
    days = [moment_text(moment)[:10] for moment in sorted(starts)]
    runs = len({p.run for one in series for p in one.series.points})
    return ReportPart(
        id=_PART,
        title=f"History of {plural(runs, 'run')}",
        study=" to ".join(dict.fromkeys((*days[:1], *days[-1:]))),
        session=0,
        kind="history",
        status=_status(answer),
        started=moment_text(max(starts)) if starts else "",
        verdict=tuple(visible(f"{one}.") for one in headline(answer, _MOST_SENTENCES)),
        tone=_tone(answer),
        tiles=(),
        findings=finding_lines(finding_groups(named), named),
        sections=(
            Section(
                id=f"{_PART}-series",
                title="Series",
                lead="Each series is one test, metric and machine. The newest run is compared with "
                "the level before it.",
                blocks=(_series_table(series), *_step_tables(series)),
            ),
            Section(
                id=f"{_PART}-runs",
                title="Runs",
                blocks=tuple(_series_group(at, one) for at, one in enumerate(series, 1)),
            ),
            Section(
                id=f"{_PART}-data",
                title="Data",
                blocks=(
                    Downloads(
                        (
                            Download(
                                "history.json",
                                "application/json",
                                encode(history_document(answer, None, 0)),
                                "what bw history --json prints",
                            ),
                        )
                    ),
                ),
            ),
        ),
    )


def _tone(answer: HistoryAnswer) -> Tone:
    tones = [_TONES[one.newest.verdict] for one in answer.series]
    if answer.without or not tones:
        tones.append("doubtful")
    if any(one.open_steps for one in answer.series):
        tones.append("bad")
    return next(tone for tone in ("bad", "doubtful", "good") if tone in tones)


def _status(answer: HistoryAnswer) -> str:
    series = answer.series
    if any(one.failed for one in answer.without):
        return "failed"
    if any(one.newest.is_worse for one in series):
        return "worse"
    if any(one.open_steps for one in series):
        return "step not accepted"
    return "no worse" if _tone(answer) == "good" else "undecided"


def _series_table(series: Sequence[SeriesAnswer]) -> TableBlock:
    rows = []
    for at, one in enumerate(series, 1):
        newest = one.newest
        row: tuple[Cell, ...] = (
            Words(visible(one.name), link=f"{_PART}-s{at}"),
            estimate_number(f"{_PART}.s{at}.level", one.level),
            count_number(f"{_PART}.s{at}.runs", len(one.series.points)),
            Words(newest.verdict, tone=_TONES[newest.verdict]),
            Words("-" if newest.ratio is None else change_and_interval(newest.ratio)),
            Words(p_cell(newest.p)),
            Words(p_cell(newest.p_adjusted)),
        )
        rows.append(row)
    return TableBlock(
        id=f"{_PART}-levels",
        title="Series",
        columns=(
            Column("Series"),
            Column("Level", numeric=True),
            Column("Runs", numeric=True),
            Column("Newest run"),
            Column("Change (95 %)"),
            Column("P", note="at any of the looks so far"),
            Column("Adjusted P", note="for all series together"),
        ),
        rows=tuple(rows),
    )


def _step_tables(series: Sequence[SeriesAnswer]) -> Iterator[Block]:
    found = [(one, step) for one in series for step in one.steps]
    found.sort(key=lambda pair: -pair[0].series.points[pair[1].index].started_ns)
    if not found:
        return
    rows = []
    for one, step in found:
        before, after = commits_of(one, step)
        tone: Tone = "plain" if step.accepted else "bad" if step.is_worse else "good"
        accepted = visible(step.accepted.reason) if step.accepted else ""
        rows.append(
            (
                Words(visible(step_name(one, step))),
                Words(step_words(one, step), tone=tone),
                Words(change_and_interval(step.ratio)),
                Words(visible(before)),
                Words(visible(after)),
                Words(accepted),
            )
        )
    headings = ["Step", "Change", "With its interval", "After", "Up to"]
    if any(step.accepted for _, step in found):
        headings.append("Accepted")
    yield TableBlock(
        id=f"{_PART}-steps",
        title="Steps, the newest first",
        columns=tuple(map(Column, headings)),
        rows=tuple(row[: len(headings)] for row in rows),
        note="A step happened after the run in the column After, and at the latest with that in the "
        "column Up to (95 %).",
    )


def _series_group(at: int, one: SeriesAnswer) -> Group:
    identifier = f"{_PART}-s{at}"
    drawn = f" The newest {MOST_RUNS} runs are drawn." if len(one.series.points) > MOST_RUNS else ""
    text = sentence(one).removeprefix(f"{one_line(one.name)}: ")
    reading = (
        "Each point is a run with its interval, and the bands are the levels. A step happened in "
        "the shaded range. A line is a change of the environment: runs on its two sides are not "
        f"compared.{drawn}"
    )
    return Group(
        id=identifier,
        title=visible(one.name),
        sentence=as_sentence(visible(text)),
        tone=_TONES[one.newest.verdict],
        blocks=(
            Picture(
                id=f"{identifier}-chart",
                title="Runs and levels",
                sheet=series_sheet(one),
                wide=True,
                reading=reading if at == 1 or drawn else "",
            ),
            _points_table(f"{_PART}.s{at}", identifier, one),
        ),
    )


def _points_table(key: str, identifier: str, one: SeriesAnswer) -> TableBlock:
    points = one.series.points
    unit = points[-1].unit
    scale = scale_of([p.estimate for p in points], unit)
    rows = []
    for at, point in reversed(list(enumerate(points))):
        notes = [
            *point.tags,
            *(["outlier"] if at in one.outliers else []),
            *point.codes,
        ]
        row: tuple[Cell, ...] = (
            count_number(f"{key}.run{at + 1}", at + 1),
            Words(moment_text(point.started_ns)),
            Words(visible(commit_text(point)), code=True),
            estimate_number(f"{key}.run{at + 1}.value", point.as_estimate(), scale),
            count_number(f"{key}.run{at + 1}.trials", point.trials),
            Words(visible(f"{point.study}@{point.session}" if point.session else point.study)),
            Words(visible(", ".join(notes))),
        )
        rows.append(row)
    return TableBlock(
        id=f"{identifier}-table",
        title=f"All {plural(len(points), 'run')}",
        columns=(
            Column("Run", numeric=True),
            Column("Started (UTC)"),
            Column("Commit"),
            Column("Value", numeric=True),
            Column("Trials", numeric=True),
            Column("Study"),
            Column("Notes"),
        ),
        rows=tuple(rows),
        folded=True,
    )
