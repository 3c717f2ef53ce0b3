"""Histories as they are stored: folders of studies, and history files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchwright.core.history import (
    Acceptance,
    Environment,
    History,
    HistoryPoint,
    Run,
    Series,
    SeriesKey,
)
from benchwright.study.directory import JOURNAL

_DEPTH = 4
"""How deep below a folder studies are looked for."""


def studies_below(folder: Path) -> Iterator[Path]:
    """Yield the studies in a folder and in the folders below it, in order of name.

    The folder itself may be one. What is inside a study, and hidden folders, are not searched.
    """
    for place, names, files in os.walk(folder):
        if JOURNAL in files:
            yield Path(place)
            names.clear()
            continue
        deep = len(Path(place).relative_to(folder).parts)
        names[:] = (
            sorted(name for name in names if not name.startswith("."))
            if deep < _DEPTH
            else []
        )


def history_of(
    runs: Iterable[Run],
    acceptances: Iterable[Acceptance] = (),
    skipped: Iterable[str] = (),
) -> History:
    """Return the series of these runs, in order of their keys, each point once."""
    points: dict[SeriesKey, dict[str, HistoryPoint]] = {}
    environments: dict[str, Environment] = {}
    machines: dict[str, str] = {}
    for run in runs:
        if run.environment is not None:
            environments[run.environment.id] = run.environment
        for key, point in run.points:
            points.setdefault(key, {})[point.run] = point
            machines.setdefault(key.machine, run.machine)
    series = (
        Series(
            key,
            tuple(sorted(found.values(), key=lambda one: (one.started_ns, one.run))),
        )
        for key, found in sorted(points.items())
    )
    return History(
        series=tuple(series),
        environments=environments,
        machines=machines,
        acceptances=tuple(acceptances),
        skipped=tuple(skipped),
    )
