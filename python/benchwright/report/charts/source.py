"""The tests of a plot, grouped by NAME, and their positions on the horizontal axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.core.observation import MeasurementBlock
from benchwright.core.quantity import parse_size_bytes
from benchwright.core.results import Summary
from benchwright.findings.result import TestResult
from benchwright.stats.aggregate import MetricColumn, MetricRules

# -- The tests of each NAME on the command line -----------------------------------------
#
# Columns exclude failed and void trials. Non-goal: finding files (`results/inputs.py`).

SUFFIXES = (".res", ".csv", ".txt", ".time", ".log")


class PlotComponent(msgspec.Struct, frozen=True):
    """A quantity to draw."""

    name: str
    """Name of the column: `elapsed`."""
    label: str
    unit: str


class PlotGroup(msgspec.Struct, frozen=True):
    """The tests of one NAME."""

    name: str
    sources: tuple[TestResult, ...]
    named: tuple[PlotComponent, ...] = ()
    """The quantities whose label and unit the tests do not state."""


def result_of_columns(name: str, columns: Iterable[MetricColumn]) -> TestResult:
    """Return values that are of no trials of a test, such as the responses of loads, as a test."""
    rows: dict[int, dict[str, float]] = {}
    for column in columns:
        for epoch, value in zip(column.epochs, column.values, strict=True):
            rows.setdefault(epoch, {})[column.name] = value
    blocks = (MeasurementBlock(1, epoch, name, 0, values) for epoch, values in sorted(rows.items()))
    return TestResult(name, tuple(blocks))


def title_of(test: TestResult) -> str:
    """Return a test's name without a results file's suffix."""
    for suffix in SUFFIXES:
        if test.name.endswith(suffix) and test.name != suffix:
            return test.name.removesuffix(suffix)
    return test.name


def stated_of(test: TestResult) -> dict[str, Summary]:
    """Return the estimates of quantities without values, as another tool's file states them."""
    return {summary.name: summary for summary in test.summaries if summary.name not in test.columns}


def components_of(groups: Iterable[PlotGroup]) -> tuple[PlotComponent, ...]:
    """Return all quantities that any test has, in the tables' order."""
    found: dict[str, PlotComponent] = {}
    for group in groups:
        found |= {
            component.name: component for component in group.named if component.name not in found
        }
        for test in group.sources:
            rows = [test.rules.row(name) for name in test.columns]
            for row in rows:
                found.setdefault(row.name, PlotComponent(row.name, row.label, row.unit))
            for name, summary in stated_of(test).items():
                label = test.rules.row(name).label
                found.setdefault(name, PlotComponent(name, label, summary.unit))
    return tuple(found[name] for name in MetricRules().ordered(found))


def choose_components(
    words: Sequence[str], there: Sequence[PlotComponent], wrong: list[Diagnostic]
) -> tuple[PlotComponent, ...]:
    """Return the quantities with these labels or names, in any case, each once.

    For a quantity that no test has, an error is added to `wrong`.
    """
    known = {c.label.lower(): c for c in there} | {c.name.lower(): c for c in there}
    chosen: dict[str, PlotComponent] = {}
    for word in words:
        component = known.get(word.strip().lower())
        if component is None:
            hint = "there are: " + (", ".join(c.label for c in there) or "none at all")
            message = f"no test has a component {word.strip()!r}"
            wrong.append(Diagnostic("bad-argument", message, hint, "--components"))
        else:
            chosen.setdefault(component.name, component)
    return tuple(chosen.values())


# -- The position of each test on the horizontal axis ----------------------------------
#
# Purpose: a line chart of `reiserfs:*.res` has the number of threads along its axis without
# any option. The axis is, in this order: the factor that `-x` names; a category for each test
# if all are arms of comparisons; the only factor that varies within a series; the number of
# threads; the only number in the tests' names that varies within a series; else a category for
# each test. If several factors vary, lines and bars have the numeric one with the most levels along
# the axis, and a series for each combination of the others (`split_by_factors`); in other charts
# each test is a category.
# Source: Auto-pilot paper, section 3.4, Figure 4.

THREADS = "threads"
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_SIZE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?\s*[KMGTkmgt](?:i?[Bb])?")


class AxisPosition(msgspec.Struct, frozen=True):
    """The position of one test."""

    label: str
    number: float | None = None


class AxisPositions(msgspec.Struct, frozen=True):
    """The positions of all tests: one tuple per group, in the groups' order."""

    factor: str
    """The factor along the axis; empty if unknown or if each test is a category."""
    groups: tuple[tuple[AxisPosition, ...], ...]

    @property
    def numeric(self) -> bool:
        """Whether every position is a number."""
        return all(p.number is not None for group in self.groups for p in group)

    @property
    def ambiguous(self) -> bool:
        """Whether two tests of a group have the same position."""
        return any(len({p.label for p in group}) < len(group) for group in self.groups)


def axis_positions(
    groups: Sequence[PlotGroup], factor: str | None, wrong: list[Diagnostic]
) -> AxisPositions:
    """Return the positions of the tests; if a test lacks `factor`, an error is added to
    `wrong`."""
    if factor is not None:
        _check(groups, factor, wrong)
        return _by_factor(groups, factor)
    if all(source.arm is not None for group in groups for source in group.sources):
        return positions_by_name(groups)  # commands that are compared, whatever their numbers
    varying = _varying_factors(groups)
    if len(varying) == 1:
        return _by_factor(groups, varying[0])
    if varying:
        return positions_by_name(groups)
    if any(len({s.threads for s in group.sources}) > 1 for group in groups):
        return _by_factor(groups, THREADS)
    return _by_number(groups) or positions_by_name(groups)


def split_by_factors(
    groups: Sequence[PlotGroup], factor: str | None
) -> tuple[list[PlotGroup], str | None]:
    """Return the groups with a series for each combination of the factors that vary beside the one
    along the axis, and that one: `factor`, or the numeric one with the most levels.

    The groups are unchanged if fewer than two factors vary, or if none of several is numeric.
    """
    varying = _varying_factors(groups)
    if factor is None:
        numeric = [name for name in varying if _levels(groups, name) > 1]
        if len(varying) < 2 or not numeric:
            return list(groups), factor
        factor = max(numeric, key=lambda name: _levels(groups, name))
    others = [name for name in varying if name.lower() != factor.lower()]
    if not others:
        return list(groups), factor
    found: dict[str, list[TestResult]] = {}
    for group in groups:
        for source in group.sources:
            levels = [(name, level_of(source, name) or "") for name in others]
            words = [
                level if number_of(level) is None else f"{name}={level}" for name, level in levels
            ]
            parts = [group.name, *words] if len(groups) > 1 else words
            found.setdefault(" ".join(parts), []).append(source)
    return [PlotGroup(name, tuple(tests)) for name, tests in found.items()], factor


def _levels(groups: Sequence[PlotGroup], factor: str) -> int:
    """Return how many levels a factor has; 0 if one is no number."""
    levels = {level_of(s, factor) or "" for group in groups for s in group.sources}
    return 0 if any(number_of(level) is None for level in levels) else len(levels)


def level_of(source: TestResult, factor: str) -> str | None:
    """Return a test's level of a factor; None if it has none."""
    for name, value in source.sample:
        if name.lower() == factor.lower():
            return value
    if factor.lower() == THREADS and source.threads is not None:
        return str(source.threads)
    return None


def number_of(text: str) -> float | None:
    """Return `16`, `0.5` or `4k` as a number (sizes in bytes), or None."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    return float(parse_size_bytes(text)) if _SIZE.fullmatch(text.strip()) else None


def _check(groups: Sequence[PlotGroup], factor: str, wrong: list[Diagnostic]) -> None:
    sources = [source for group in groups for source in group.sources]
    without = [source for source in sources if level_of(source, factor) is None]
    if without:
        names = {name for source in sources for name, _ in source.sample} | {THREADS}
        message = f"{title_of(without[0])} has no factor {factor!r}"
        hint = "there are: " + ", ".join(sorted(names))
        wrong.append(Diagnostic("bad-argument", message, hint, "-x", text=factor))


def _varying_factors(groups: Sequence[PlotGroup]) -> list[str]:
    """Return the factors with more than one level within some series."""
    names = dict.fromkeys(n for g in groups for s in g.sources for n, _ in s.sample)
    return [
        name
        for name in names
        if any(len({level_of(s, name) for s in group.sources}) > 1 for group in groups)
        and all(level_of(s, name) is not None for g in groups for s in g.sources)
    ]


def _by_factor(groups: Sequence[PlotGroup], factor: str) -> AxisPositions:
    def placed(source: TestResult) -> AxisPosition:
        text = level_of(source, factor) or title_of(source)
        return AxisPosition(text, number_of(text))

    sources = [source for group in groups for source in group.sources]
    same = all(level_of(s, factor) == level_of(s, THREADS) for s in sources)
    return AxisPositions(
        THREADS if same else factor, tuple(tuple(map(placed, group.sources)) for group in groups)
    )


def _by_number(groups: Sequence[PlotGroup]) -> AxisPositions | None:
    """Return positions by the only number that varies in the names; None if there is none."""
    places = {_varying_number(g.sources) for g in groups if len(g.sources) > 1}
    if len(places) != 1 or None in places:
        return None
    (from_end,) = places
    assert from_end is not None
    numbers = [[_NUMBER.findall(title_of(s)) for s in g.sources] for g in groups]
    if any(len(found) < from_end for group in numbers for found in group):
        return None
    return AxisPositions(
        "",
        tuple(
            tuple(AxisPosition(found[-from_end], float(found[-from_end])) for found in group)
            for group in numbers
        ),
    )


def _varying_number(sources: Sequence[TestResult]) -> int | None:
    """Return which number of the names varies, counted from the end; None unless exactly one
    does."""
    if len({_NUMBER.sub("#", title_of(source)) for source in sources}) != 1:
        return None
    numbers = [_NUMBER.findall(title_of(source)) for source in sources]
    varying = [at for at, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
    return len(numbers[0]) - varying[0] if len(varying) == 1 else None


def positions_by_name(groups: Sequence[PlotGroup]) -> AxisPositions:
    """Return a category for each test."""
    return AxisPositions(
        "", tuple(tuple(AxisPosition(title_of(s)) for s in g.sources) for g in groups)
    )
