"""How the values of a test depend on inputs that were drawn for its trials, on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchwright.core.untrusted import visible
from benchwright.findings.drawn import numbers_of
from benchwright.findings.result import TestResult
from benchwright.page.charts import axis_of, distribution, shown
from benchwright.report.answer import TestAnswer
from benchwright.report.charts.sheet import CurveForm, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.trials import ShownTest, scale_of_axis
from benchwright.stats.input_dependence import is_wide
from benchwright.views.blocks import Block, Picture

_MOST_ROWS = 40
"""Texts in the picture."""


def drawn_blocks(test: TestResult, row: TestAnswer) -> Iterator[Block]:
    """Yield a picture for each input: values over a number, or the values of each text."""
    drawn = {trial.epoch: dict(trial.drawn) for trial in test.all_trials if trial.drawn}
    whole = shown(test, row)
    for place, name in enumerate(dict.fromkeys(name for one in drawn.values() for name in one), 1):
        texts = {epoch: inputs[name] for epoch, inputs in drawn.items() if name in inputs}
        identifier = f"{test.id}-input{place}"
        title = f"Along the input {visible(name)}"
        if numbers_of(list(texts.values())) is None:
            rows = _each(whole, texts)
            if len(rows) > 1:
                yield distribution(identifier, rows, axis_of(test, row), title)
        else:
            yield Picture(
                id=identifier,
                title=title,
                sheet=_along(visible(name), whole, texts, axis_of(test, row)),
                reading="Each point is a trial with the input that was drawn for it.",
            )


def _each(whole: ShownTest, texts: Mapping[int, str]) -> list[ShownTest]:
    """Return the trials of each text, in the order in which they were drawn first."""
    return [
        ShownTest(visible(text), tuple(one for one in whole.trials if texts.get(one.epoch) == text))
        for text in list(dict.fromkeys(texts.values()))[:_MOST_ROWS]
    ]


def _along(name: str, whole: ShownTest, texts: Mapping[int, str], axis: PanelAxis) -> Sheet:
    points = [
        (float(texts[one.epoch]), one.value * scale_of_axis(axis), one.epoch)
        for one in whole.counted()
        if one.value is not None and one.epoch in texts
    ]
    curve = PanelCurve(
        "",
        tuple(x for x, _, _ in points),
        tuple(y for _, y, _ in points),
        CurveForm.POINTS,
        names=tuple(f"trial {epoch}" for _, _, epoch in points),
    )
    along = PanelAxis(name, log=is_wide([x for x, _, _ in points]))
    return Sheet("", (Panel("", along, axis, (curve,)),), columns=1)
