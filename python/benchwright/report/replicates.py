"""What replicates show, in sentences."""

from __future__ import annotations

from benchwright.core.results import LevelSpread, Population
from benchwright.core.text import (
    list_text,
    noun_of,
    number_text,
    percent_text,
    plural_of,
    quantity_text,
)


def population_sentences(population: Population, unit: str) -> list[str]:
    """Return by how much replicates differ, what more trials could reach, and what the next replicate
    will show. `unit`: of the mean; `ratio` for the ratio of a comparison."""
    outer, inner = noun_of(population.levels[0].level), plural_of(population.levels[-1].level)
    sentences = [_spreads(population, is_ratio=unit == "ratio")]
    now, least = population.half_width, population.least_half_width
    if now is not None and least is not None:
        half, reached = percent_text(now, 2), percent_text(min(least, now), 2)
        if not least:
            sentences[0] += f": more {inner} of each {outer} narrow ± {half}"
        elif half == reached:
            sentences[0] += f": more {inner} of one {outer} cannot help"
        else:
            sentences[0] += f": more {inner} of each {outer} narrow ± {half} to ± {reached} at best"
    low, high = population.next_replicate
    if low is not None and high is not None:
        if unit == "ratio":
            ends = f"a ratio of {number_text(low)} to {number_text(high)}"
        else:
            ends = f"{quantity_text(low, unit, 3)} to {quantity_text(high, unit, 3)}"
        sentences.append(f"the next {outer} will show {ends}")
    return sentences


def _spreads(population: Population, *, is_ratio: bool) -> str:
    """Return `builds differ by 2.1 % (1.3 % to 4.8 %), trials of one build by 0.4 %`."""
    parts = []
    for at, level in enumerate(population.levels):
        what = plural_of(level.level)
        if at:
            what += f" of one {noun_of(population.levels[at - 1].level)}"
        amount = _spread_text(level, ends=not at)
        if is_ratio:
            parts.append(f"between {what} by {amount}")
        else:
            parts.append(f"{what}{'' if at else ' differ'} by {amount}")
    start = "the ratio differs " if is_ratio else ""
    return f"{start}{parts[0]}, {list_text(parts[1:])}"


def _spread_text(level: LevelSpread, *, ends: bool) -> str:
    if level.spread is None:
        return "an unknown amount (one in each)"
    text = percent_text(level.spread, 2)
    if not ends or level.low is None or level.high is None:
        return text
    return f"{text} ({percent_text(level.low, 2)} to {percent_text(level.high, 2)})"
