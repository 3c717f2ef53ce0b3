"""`bw why --json`: `benchwright/why/1`.

`first` is the code of the first cause, null without any; `limited_by` that of the first
limit. Figures that are absent are null, with the reason beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from benchwright.finding.explained import Explained
from benchwright.finding.observed import ObservedFiles
from benchwright.finding.use_table import Reading, UseRow
from benchwright.model.estimate import Summary
from benchwright.model.peak import Criterion
from benchwright.model.watched import ResourceUse
from benchwright.report.json import finding_object, known

SCHEMA = "benchwright/why/1"


def why_object(
    results: Iterable[Explained], study: str, session: int | None
) -> dict[str, Any]:
    """Return the whole answer as plain objects."""
    return {
        "schema": SCHEMA,
        "study": study,
        "session": session,
        "results": [_result(one) for one in results],
    }


def _result(one: Explained) -> dict[str, Any]:
    return {
        "name": one.name,
        "sample": dict(one.sample),
        "threads": one.threads,
        "figure": None if one.figure is None else _figure(one.figure),
        "limit": None if one.criterion is None else _limit(one.criterion),
        "first": one.first or None,
        "limited_by": one.limited_by or None,
        "sentence": one.sentence or None,
        "causes": [finding_object(finding) for finding in one.causes],
        "trials": one.trials,
        "trials_watched": one.watched,
        "watched_s": one.watched_s,
        "window": None if one.window is None else _window(one.window),
        "use": [_row(row) for row in one.table],
        "findings": [finding_object(finding) for finding in one.findings],
        "files": _files(one.files or ObservedFiles()),
    }


def _figure(summary: Summary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "label": summary.label,
        "unit": summary.unit,
        "count": summary.count,
        "mean": known(summary.mean),
        "low": known(summary.low),
        "high": known(summary.high),
        "confidence": summary.confidence,
    }


def _limit(criterion: Criterion) -> dict[str, Any]:
    return {
        "name": criterion.key,
        "value": criterion.limit,
        "unit": criterion.unit,
        "better": criterion.better,
    }


def _files(files: ObservedFiles) -> dict[str, Any]:
    return {
        "flame_graphs": list(files.flame_graphs),
        "io": files.io or None,
        "block_trace": files.block_trace or None,
    }


def _window(use: ResourceUse) -> dict[str, Any]:
    return {
        "epochs": list(use.epochs),
        "seconds": use.seconds,
        "samples": use.samples,
        "series": use.series or None,
        "sampler_cores": known(use.sampler_cost),
        "tasks": [msgspec.to_builtins(task) for task in use.tasks],
        "others": [msgspec.to_builtins(task) for task in use.others],
        "programs": [msgspec.to_builtins(one) for one in use.programs],
        "absent": [{"what": what, "why": why} for what, why in use.absent],
    }


def _row(row: UseRow) -> dict[str, Any]:
    return {
        "resource": row.resource,
        "name": row.name,
        "utilization": [_reading(one) for one in row.utilization],
        "saturation": [_reading(one) for one in row.saturation],
        "errors": [_reading(one) for one in row.errors],
    }


def _reading(one: Reading) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": known(one.value),
        "unit": one.unit,
        "of": known(one.of),
        "absent": one.absent or None,
    }
