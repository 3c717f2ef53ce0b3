"""Results of other tools as the points of a history."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

from benchwright.core.history import (
    UNKNOWN_MACHINE,
    HistoryPoint,
    Run,
    SeriesKey,
)
from benchwright.core.results import Summary
from benchwright.stats.aggregate import (
    metric_columns,
    observe_trials,
    summarise_columns,
)
from benchwright.stats.metric_rules import MetricRules
from benchwright.study.parsers.api import FileOrigin, ParsedInput, trials_of


def imported_runs(inputs: Sequence[ParsedInput]) -> list[Run]:
    """Return the runs of files of other tools: the tests of one file and one commit are a run.

    The inputs are those of a parser's `history`, with their source. A point is the mean of the values
    with Student's interval, or the estimate that the file states with its own interval or without one. A
    run without a time has that of its commit, else that of its file.
    """
    groups: dict[tuple[str, str, int], list[ParsedInput]] = {}
    file_ns = {source: _file_ns(source) for source in {one.source for one in inputs}}
    for one in inputs:
        origin = one.origin or FileOrigin(tool="")
        moment = _moment_ns(origin)
        if moment is None:
            moment = file_ns[one.source]
        same = (one.source, origin.commit, moment)
        groups.setdefault(same, []).append(one)
    rules_of = functools.cache(MetricRules)
    return [
        Run(
            points=tuple(
                point
                for one in group
                for point in _points(one, rules_of(one.specs), *same)
            ),
            environment=None,
            machine=(group[0].origin.machine if group[0].origin else "")
            or "a machine that was not recorded",
        )
        for same, group in groups.items()
    ]


def _moment_ns(origin: FileOrigin) -> int | None:
    """Return the time of an input's run [ns since 1970]: of its commit, so that benchmarks that a
    tool measured one after the other are one run; else of its start; None if both are unknown."""
    if origin.commit_time_ns is not None:
        return origin.commit_time_ns
    return origin.started_ns


def _file_ns(source: str) -> int:
    path = Path(source)
    return path.stat().st_mtime_ns if path.exists() else 0


def _points(
    one: ParsedInput,
    rules: MetricRules,
    source: str,
    commit: str,
    moment_ns: int,
) -> list[tuple[SeriesKey, HistoryPoint]]:
    origin = one.origin or FileOrigin(tool="")
    machine = UNKNOWN_MACHINE
    if origin.machine:
        machine = _digest(f"machine {origin.machine}")[:8]
    better = {spec.name: spec.better for spec in one.specs}
    points = []
    for summary in _summaries(one, rules):
        value = summary.mean if math.isfinite(summary.mean) else summary.median
        if not math.isfinite(value):
            continue
        ends = math.isfinite(summary.low) and math.isfinite(summary.high)
        known = ends and math.isfinite(summary.confidence)
        point = HistoryPoint(
            run=_digest(f"{origin.tool}\n{origin.machine}\n{commit}\n{moment_ns}")[:16],
            study=source,
            session=0,
            started_ns=moment_ns if origin.started_ns is None else origin.started_ns,
            estimate=value,
            low=summary.low if ends else None,
            high=summary.high if ends else None,
            confidence=summary.confidence if known else None,
            trials=summary.count,
            unit=summary.unit,
            better=better.get(summary.name, "lower"),
            commit=commit or None,
            commit_time_ns=origin.commit_time_ns,
            asked=not origin.main or summary.name in origin.main,
        )
        points.append((SeriesKey(one.name, summary.name, machine), point))
    return points


def _summaries(one: ParsedInput, rules: MetricRules) -> tuple[Summary, ...]:
    """Return what is known about each quantity: from its values, else as the file states it."""
    found = metric_columns(observe_trials(trials_of(one), rules), rules)
    computed = summarise_columns(found, rules.ordered(found), rules)
    return (*computed, *(stat for stat in one.summaries if stat.name not in found))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
