"""What replicates of levels show about a test, on the page."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.text import noun_of
from benchwright.core.untrusted import visible
from benchwright.findings.result import TestResult
from benchwright.page.charts import axis_of, distribution, shown
from benchwright.report.answer import TestAnswer
from benchwright.report.charts.trials import ShownTest
from benchwright.report.replicates import population_sentences
from benchwright.stats.intervals import t_interval
from benchwright.views.blocks import Block, Prose, as_sentence
from benchwright.views.replicates import levels_table

_MOST_ROWS = 40
"""Outermost replicates in the picture."""


def replicate_blocks(test: TestResult, row: TestAnswer) -> Iterator[Block]:
    """Yield what the replicates of a test show; nothing without levels of replication."""
    if row.population is None or row.estimate is None:
        return
    for text in population_sentences(row.population, row.estimate.unit):
        yield Prose(as_sentence(visible(text)))
    yield levels_table(test.id, row.population.levels)
    outer = row.population.levels[0].level
    pictures = _each(test, row)
    if len(pictures) > 1:
        title = f"Each {noun_of(outer)}"
        yield distribution(f"{test.id}-replicates", pictures, axis_of(test, row), title)


def _each(test: TestResult, row: TestAnswer) -> list[ShownTest]:
    """Return the trials of each outermost replicate, with the mean of those that count."""
    assert row.population is not None
    whole = shown(test, row)
    number = {trial.epoch: trial.path[0] for trial in test.all_trials if trial.path}
    noun = noun_of(row.population.levels[0].level)
    found = []
    for replicate in sorted(set(number.values()))[:_MOST_ROWS]:
        trials = tuple(one for one in whole.trials if number.get(one.epoch) == replicate)
        own = ShownTest(f"{noun} {replicate}", trials)
        values = [one.value for one in own.counted() if one.value is not None]
        if values:
            estimate = t_interval(values, unit=row.estimate.unit if row.estimate else "")
            found.append(ShownTest(own.name, trials, estimate))
    return found
