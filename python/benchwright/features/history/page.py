"""The page of a history: its answer, a chart and a table for each series (each run with its
interval, its levels, its steps and its segments), and what changed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright import __version__
from benchwright.core.text import moment_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.history.answer import HistoryAnswer, SeriesAnswer
from benchwright.features.history.document import history_document
from benchwright.features.history.text import TONES, headline, sentence, series_table, steps_table
from benchwright.features.history.types import commit_text, run_text
from benchwright.page.document import ReportDocument, ReportPart
from benchwright.report.answer import finding_groups
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
)
from benchwright.report.charts.trials import metric_axis
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
    as_sentence,
    count_number,
    estimate_number,
    finding_lines,
    scale_of,
)

MOST_RUNS = 500
"""Of a longer series, the newest ones are drawn."""
_RUN, _OUTLIER, _DOUBTFUL, _LEVEL = 0, 1, 3, 7
"""Colours (style.py)."""


def series_sheet(one: SeriesAnswer) -> Sheet:
    """Return the chart of a series."""
    return Sheet("", (series_panel(one),), columns=1)


def series_panel(one: SeriesAnswer) -> Panel:
    """Return the runs of a series in the order of time, each with its interval.

    Levels are lines with their intervals as bands; a step is shaded between the runs between which
    it happened; a line is where the environment changed.
    """
    points = one.series.points
    axis = metric_axis(visible(one.key.metric), points[-1].unit)
    first = max(len(points) - MOST_RUNS, 0)
    along = PanelAxis(
        "run, in the order of time", AxisUnit.COUNT, low=first + 0.4, high=len(points) + 0.6
    )
    scale = 1e9 if axis.unit is AxisUnit.TIME else 1.0
    curves = (*_level_curves(one, first, scale), *_run_curves(one, first, scale))
    return Panel("", along, axis, curves, spans=tuple(_spans(one, first)))


def _level_curves(one: SeriesAnswer, first: int, scale: float) -> Iterator[PanelCurve]:
    label = "level with its interval"
    for start, end, level in one.levels:
        if level is None or end < first:
            continue
        bounded = level.low == level.low
        ends = (max(start, first) + 0.6, end + 1.4)
        yield PanelCurve(
            label,
            ends,
            (level.value * scale,) * 2,
            colour=_LEVEL,
            low=(level.low * scale,) * 2 if bounded else (),
            high=(level.high * scale,) * 2 if bounded else (),
        )
        label = ""


def _run_curves(one: SeriesAnswer, first: int, scale: float) -> Iterator[PanelCurve]:
    points = one.series.points
    places = range(first, len(points))
    outliers = set(one.outliers)
    for label, colour, chosen in (
        ("run", _RUN, [p for p in places if p not in outliers and not points[p].codes]),
        (
            "run with a serious finding",
            _DOUBTFUL,
            [p for p in places if p not in outliers and points[p].codes],
        ),
        ("outlier run", _OUTLIER, [p for p in places if p in outliers]),
    ):
        if not chosen:
            continue
        runs = [points[p] for p in chosen]
        bounded = any(run.low is not None for run in runs)
        yield PanelCurve(
            label,
            tuple(p + 1.0 for p in chosen),
            tuple(run.estimate * scale for run in runs),
            CurveForm.POINTS,
            colour=colour,
            low=tuple(None if run.low is None else run.low * scale for run in runs)
            if bounded
            else (),
            high=tuple(None if run.high is None else run.high * scale for run in runs)
            if bounded
            else (),
            names=tuple(
                visible(" ".join((f"run {p + 1}", run_text(run), *run.tags)))
                for p, run in zip(chosen, runs, strict=True)
            ),
        )


def _spans(one: SeriesAnswer, first: int) -> Iterator[ShadedRange]:
    for step in one.steps:
        if step.index >= first:
            # From the last run that has the old level to the first that has the new one.
            low, high = float(step.first), step.last + 1.0
            label = "accepted step" if step.accepted else "step"
            yield ShadedRange(label, low, high, in_legend=True)
    for segment in one.segments[1:]:
        if segment.first >= first:
            at = segment.first + 0.5
            yield ShadedRange("environment changed", at, at, at=at, in_legend=True)


_PART = "p1"
_MOST_SENTENCES = 8


def history_page(answer: HistoryAnswer) -> ReportDocument:
    """Return the page of a history."""
    part = history_part(answer)
    return ReportDocument(title=part.title, version=__version__, parts=(part,), shared=())


def history_part(answer: HistoryAnswer) -> ReportPart:
    """Return the report of a history."""
    series = answer.series
    named = [
        (series_answer.name, finding)
        for series_answer in series
        for finding in series_answer.findings
    ]
    starts = [p.started_ns for series_answer in series for p in series_answer.series.points]
    days = [moment_text(moment)[:10] for moment in sorted(starts)]
    runs = len({p.run for series_answer in series for p in series_answer.series.points})
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
                blocks=tuple(
                    _series_group(at, series_answer) for at, series_answer in enumerate(series, 1)
                ),
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
    tones = [TONES[series_answer.newest.verdict] for series_answer in answer.series]
    if answer.without or not tones:
        tones.append("doubtful")
    if any(series_answer.open_steps for series_answer in answer.series):
        tones.append("bad")
    return next(tone for tone in ("bad", "doubtful", "good") if tone in tones)


def _status(answer: HistoryAnswer) -> str:
    series = answer.series
    if any(no_value.failed for no_value in answer.without):
        return "failed"
    if any(series_answer.newest.is_worse for series_answer in series):
        return "worse"
    if any(series_answer.open_steps for series_answer in series):
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
