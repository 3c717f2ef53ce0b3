"""The page of a history: its answer, a chart and a table for each series, what changed beside it."""

from __future__ import annotations

from benchwright import __version__
from benchwright.core.text import moment_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.history.answer import HistoryAnswer, SeriesAnswer
from benchwright.features.history.chart import MOST_RUNS, series_sheet
from benchwright.features.history.document import history_document
from benchwright.features.history.text import TONES, headline, sentence, series_table, steps_table
from benchwright.features.history.types import commit_text
from benchwright.page.document import ReportDocument, ReportPart
from benchwright.report.answer import finding_groups
from benchwright.report.documents import encode
from benchwright.views.blocks import (
    Cell,
    Column,
    Download,
    Downloads,
    Group,
    Picture,
    Section,
    TableBlock,
    Tone,
    Words,
)
from benchwright.views.figures import (
    as_sentence,
    count_number,
    estimate_number,
    finding_lines,
    scale_of,
)

_PART = "p1"
_MOST_SENTENCES = 8


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
                blocks=(
                    series_table(series, _PART),
                    *([steps] if (steps := steps_table(series, _PART)).rows else []),
                ),
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
    tones = [TONES[one.newest.verdict] for one in answer.series]
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
        tone=TONES[one.newest.verdict],
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
        notes = [*point.tags, *(["outlier"] if at in one.outliers else []), *point.codes]
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
