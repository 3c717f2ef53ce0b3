"""Categories along the horizontal axis: one per level that is shared, or one per test.

Decision: where each test is a category of its own, the NAMEs are a second row under
their tests, and stand a little apart from each other.
"""

from __future__ import annotations

from benchwright.report.plot.chart import Tick
from benchwright.report.plot.places import natural
from benchwright.report.plot.plan import Plan

_APART = 0.4


def categories(plan: Plan) -> dict[str, int]:
    """Return the labels of all places with their positions, in natural order."""
    labels = {place.label for group in plan.places.groups for place in group}
    if plan.places.numeric:
        by_number = {p.label: p.number or 0.0 for g in plan.places.groups for p in g}
        ordered = sorted(labels, key=lambda label: (by_number[label], label))
    else:
        ordered = sorted(labels, key=natural)
    return {label: at for at, label in enumerate(ordered)}


def spots(plan: Plan) -> tuple[float, ...]:
    """Return where each test stands when it is a category: 0, 1, ...; NAMEs with
    several tests stand further apart."""
    several = any(len(group.sources) > 1 for group in plan.groups)
    found: list[float] = []
    for block, group in enumerate(plan.groups):
        apart = block * _APART if several else 0.0
        found += [len(found) + apart + at for at in range(len(group.sources))]
    return tuple(found)


def category_ticks(
    plan: Plan, pitch: float = 1.0
) -> tuple[tuple[Tick, ...], tuple[Tick, ...]]:
    """Return the labels of one category per test, and of the NAMEs under them.

    Where each NAME has one test, its label is the NAME and there is no second row.
    """
    at = [spot * pitch for spot in spots(plan)]
    if all(len(group.sources) == 1 for group in plan.groups):
        return tuple(map(Tick, at, (group.name for group in plan.groups))), ()
    ticks = tuple(map(Tick, at, (place.label for _, _, place in plan.tests())))
    blocks, start = [], 0
    for group in plan.groups:
        end = start + len(group.sources)
        blocks.append(Tick((at[start] + at[end - 1]) / 2, group.name))
        start = end
    return ticks, tuple(blocks)
