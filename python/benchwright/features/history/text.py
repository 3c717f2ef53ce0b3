"""The answer of a history as text: a row for each series, its steps, then findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.text import list_text, more_text, p_cell, percent_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.history.answer import HistoryAnswer, SeriesAnswer, StepAnswer
from benchwright.features.history.newest import (
    HistoryGate,
    JudgedSeries,
    change_and_interval,
    change_with_interval,
    direction,
    no_value_text,
    signed_change,
)
from benchwright.features.history.types import NoValue, brief_run_text, run_at
from benchwright.report.answer import finding_groups
from benchwright.views.blocks import (
    Column,
    TableBlock,
    Tone,
    Words,
    count_column,
    estimate_number,
    keyed,
    table_of,
)
from benchwright.views.terminal import (
    Paint,
    finding_paragraphs,
    group_lines,
    table_text,
    unpainted,
    wrapped,
)

TONES: dict[str, Tone] = {
    **dict.fromkeys(("slower", "worse"), "bad"),
    **dict.fromkeys(("faster", "better", "no difference"), "good"),
    "undecided": "doubtful",
}
MOST_STEPS = 20
"""Steps in the table, the newest first."""
_MOST_SENTENCES = 12


def history_lines(
    answer: HistoryAnswer, width: int, paint: Paint = unpainted, *, verbose: bool = False
) -> list[str]:
    """Return the answer as lines: the series, the steps, findings, what was not read."""
    blocks = [
        list(table_text(series_table(answer.series), width)),
        [line for text in headline(answer) for line in wrapped(text, width)],
        list(_step_lines(answer, width)),
        list(_findings(answer, width, paint, verbose=verbose)),
        list(_notes(answer, width)),
    ]
    return [
        line
        for at, block in enumerate(filter(None, blocks))
        for line in (["", *block] if at else block)
    ]


def headline(answer: HistoryAnswer, most: int = _MOST_SENTENCES) -> list[str]:
    """Return the answer in sentences: what has no value, the steps that ask for a decision, then
    the newest runs. At most `most` sentences of each kind."""
    lost = _some(map(no_value_text, answer.without), most)
    return [*lost, *_open_steps(answer, most), *_newest(answer.series, most)]


def no_value_lines(found: Sequence[NoValue]) -> list[str]:
    """Return what has no value as lines, at most twelve."""
    return _some(map(no_value_text, found), _MOST_SENTENCES)


def _some(texts: Iterable[str], most: int) -> list[str]:
    every = list(texts)
    if len(every) <= most:
        return every
    return [*every[:most], f"{more_text(len(every) - most)}: --json has all"]


def _open_steps(answer: HistoryAnswer, most: int) -> Iterator[str]:
    found = [
        (series_answer, step)
        for series_answer in answer.series
        for step in series_answer.open_steps
    ]
    if not found:
        return
    found.sort(key=lambda pair: -pair[0].series.points[pair[1].index].started_ns)
    several = len(answer.series) > 1
    texts = [
        " ".join(
            filter(
                None,
                (
                    one_line(series_answer.name) if several else "",
                    step_words(series_answer, step),
                    f"at {run_at(series_answer.series.points, step.index, brief_run_text)}",
                ),
            )
        )
        for series_answer, step in found[:most]
    ]
    if len(found) > most:
        texts.append(more_text(len(found) - most))
    yield f"{plural(len(found), 'step')} not accepted: {'; '.join(texts)}"


def _newest(series: Sequence[JudgedSeries], most: int) -> Iterator[str]:
    """Yield the answer of each series that differs or is undecided, and a sentence about all."""
    if not series:
        yield "no series"
        return
    if len(series) == 1:
        yield sentence(series[0])
        return
    shown = [
        judged_series for judged_series in series if judged_series.newest.verdict != "no difference"
    ]
    if len(shown) <= most:
        yield from map(sentence, shown)
    yield summary(series)


def newest_lines(series: Sequence[JudgedSeries], width: int) -> list[str]:
    """Return the answers about newest runs alone as lines: series that differ, then undecided ones,
    at most twelve together, and a sentence about all."""
    if not series:
        return ["no series"]
    shown = [
        judged_series
        for undecided in (False, True)
        for judged_series in series
        if judged_series.newest.verdict != "no difference"
        and (judged_series.newest.verdict == "undecided") == undecided
    ]
    texts = [sentence(judged_series) for judged_series in shown[:_MOST_SENTENCES]]
    if len(shown) > _MOST_SENTENCES:
        texts.append(f"{more_text(len(shown) - _MOST_SENTENCES)}: --json has all")
    if len(series) > 1 or not shown:
        texts.append(summary(series))
    return [line for text in texts for line in wrapped(text, width)]


def summary(series: Sequence[JudgedSeries]) -> str:
    """Return how many series differ: `4 series: 1 is slower and 3 have no difference`."""
    counts = Counter(judged_series.newest.verdict for judged_series in series)
    parts = []
    for verdict in ("slower", "worse", "faster", "better", "undecided"):
        if count := counts[verdict]:
            parts.append(f"{count} {'is' if count == 1 else 'are'} {verdict}")
    if count := counts["no difference"]:
        parts.append(f"{count} {'has' if count == 1 else 'have'} no difference")
    return f"{plural(len(series), 'series')}: {list_text(parts)}"


# -- One series ---------------------------------------------------------------------------


def sentence(one: JudgedSeries) -> str:
    """Return the answer of a series as a sentence."""
    newest = one.newest
    name = one_line(one.name)
    if newest.verdict == "undecided" or newest.ratio is None or newest.since is None:
        return f"{name}: undecided: {newest.why}"
    size = change_and_interval(newest.ratio)
    if newest.verdict == "no difference":
        how = newest.why or f"the newest run has its level, {size}"
        return f"{name}: no difference: {how}"
    runs = plural(one.runs_since, "run")
    but = f"; {newest.why}" if newest.why else ""
    since = f"since {brief_run_text(one.since_point)}, {runs}"
    return f"{name}: {newest.verdict}: {size} {since}{but}"


# -- The steps -------------------------------------------------------------------------


def step_name(one: SeriesAnswer, step: StepAnswer) -> str:
    """Return the name of a step in commands: `sort/2`."""
    return f"{one.name}/{step.number}"


def step_words(one: SeriesAnswer, step: StepAnswer) -> str:
    """Return a step as a change in words: `slower +7.9 %`."""
    rises = step.ratio.value > 1
    return f"{direction(one.series.newest, rises=rises)} {signed_change(step.ratio.value)}"


def _interval(step: StepAnswer) -> str:
    return change_with_interval(step.ratio)[1] or "-"


def commits_of(one: SeriesAnswer, step: StepAnswer) -> tuple[str, str]:
    """Return the last run that surely has the old level and the first that surely has the new one."""
    points = one.series.points
    ends = max(step.first - 1, 0), step.last
    return run_at(points, ends[0], brief_run_text), run_at(points, ends[1], brief_run_text)


def series_table(series: Sequence[SeriesAnswer], part: str = "") -> TableBlock:
    """Return a row for each series: its level, and its newest run; `part` begins the ids."""
    return table_of(
        f"{part}-levels",
        "Series",
        keyed(f"{part}.s", series),
        (
            (
                Column("Series"),
                lambda key, series_answer: Words(
                    visible(series_answer.name), link=key.replace(".", "-")
                ),
            ),
            (
                Column("Level", numeric=True, interval_rank=3),
                lambda key, one: estimate_number(f"{key}.level", one.level),
            ),
            count_column("Runs", "runs", lambda one: len(one.series.points), rank=4),
            count_column("Steps", "steps", lambda one: len(one.steps), rank=4),
            (
                Column("Newest run"),
                lambda _, one: Words(one.newest.verdict, tone=TONES[one.newest.verdict]),
            ),
            (
                Column("Change (95 %)", short="change", rank=1),
                lambda _, one: Words(
                    "-" if one.newest.ratio is None else change_and_interval(one.newest.ratio)
                ),
            ),
            (
                Column("P", note="at any of the looks so far", numeric=True, rank=5),
                lambda _, one: Words(p_cell(one.newest.p)),
            ),
            (
                Column("Adjusted P", note="for all series together", numeric=True, rank=2),
                lambda _, one: Words(p_cell(one.newest.p_adjusted) if len(series) > 1 else ""),
            ),
        ),
    )


def steps_table(series: Sequence[SeriesAnswer], part: str = "") -> TableBlock:
    """Return a row for each step, the newest first; `part` begins the ids."""
    found = [(series_answer, step) for series_answer in series for step in series_answer.steps]
    found.sort(key=lambda pair: -pair[0].series.points[pair[1].index].started_ns)

    def tone(step: StepAnswer) -> Tone:
        return "plain" if step.accepted else "bad" if step.is_worse else "good"

    return table_of(
        f"{part}-steps",
        "Steps, the newest first",
        keyed(f"{part}.step", found),
        (
            (Column("Step"), lambda _, row: Words(visible(step_name(*row)))),
            (Column("Change"), lambda _, row: Words(step_words(*row), tone=tone(row[1]))),
            (Column("95 % interval"), lambda _, row: Words(_interval(row[1]))),
            (Column("After"), lambda _, row: Words(visible(commits_of(*row)[0]))),
            (Column("Up to"), lambda _, row: Words(visible(commits_of(*row)[1]))),
            count_column(
                "Runs since", "since", lambda row: len(row[0].series.points) - row[1].index, rank=1
            ),
            (
                Column("Accepted", rank=2),
                lambda _, row: Words(one_line(row[1].accepted.reason) if row[1].accepted else ""),
            ),
        ),
        note="A step happened after the run in the column After, and at the latest with that in the "
        "column Up to (95 %).",
    )


def _step_lines(answer: HistoryAnswer, width: int) -> Iterator[str]:
    table = steps_table(answer.series)
    more = len(table.rows) - MOST_STEPS
    shown = msgspec.structs.replace(table, rows=table.rows[:MOST_STEPS])
    yield from table_text(shown, width)
    if more > 0:
        yield f"and {more} earlier: --json has all"


# -- Findings and notes ----------------------------------------------------------------


def _findings(answer: HistoryAnswer, width: int, paint: Paint, *, verbose: bool) -> Iterator[str]:
    named = [
        (series_answer.name, finding)
        for series_answer in answer.series
        for finding in series_answer.findings
    ]
    if verbose:
        yield from finding_paragraphs(named, width, paint)
        return
    groups = finding_groups(named)
    yield from group_lines(groups, len(answer.series), width, paint, "series")
    if groups:
        yield "evidence and remedies: -v"


def _notes(answer: HistoryAnswer, width: int) -> Iterator[str]:
    machines = sorted({one.key.machine for one in answer.series})
    for machine in machines if len(machines) > 1 else ():
        words = one_line(answer.history.machines.get(machine, ""))
        yield f"@{machine}: {words}"
    doubtful = [
        (one, one.undecided_from)
        for one in answer.series
        if one.undecided_from is not None and one.newest.verdict != "undecided"
    ]
    for series_answer, place in doubtful[:_MOST_SENTENCES]:
        first = run_at(series_answer.series.points, place, brief_run_text)
        text = f"{series_answer.name}: the runs since {first} may have a new level, or are chance"
        yield from wrapped(text, width)
    if len(doubtful) > _MOST_SENTENCES:
        more = plural(len(doubtful) - _MOST_SENTENCES, "more series")
        yield f"{more} may have a new level: --json has all"
    for text in (*answer.history.unread, *answer.history.skipped):
        yield from wrapped(text, width)


# -- The gate --------------------------------------------------------------------------


def gate_lines(gate: HistoryGate, width: int) -> list[str]:
    """Return the outcome of a gate as lines."""
    limit = percent_text(gate.limit)
    text = f"gate {gate.outcome}: worse by more than {limit}"
    if gate.failed:
        names = ", ".join(map(one_line, gate.failed))
        lines = wrapped(f"{text}: {names}", width)
    elif gate.broken:
        lines = ["gate failed: a benchmark failed"]
    elif gate.undecided:
        lines = [f"{text}?"]
    if gate.outcome != "passed":
        undecided = () if gate.outcome == "failed" else gate.undecided
        why = (*gate.steps, *gate.broken, *undecided)
        for one in _some(map(one_line, why), _MOST_SENTENCES):
            lines += wrapped(one, width, "  ")
        return lines
    return [f"gate passed: no newest run is worse by more than {limit}"]
