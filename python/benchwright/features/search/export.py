"""Plain-text export of a session's searches: the trials under load and their series.

Under `results/s<N>/`: `loads.csv`, one row per trial, `series.csv`, one row per bin, and the
session's own `session.json`. Derived from the journal and replaced whole, as above. Failed
trials that a resume no longer counts are included, with 0 in the column `counted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchwright.core.text_table import csv_of_rows
from benchwright.features.search.keys import searches_of
from benchwright.features.search.types import SearchTrial
from benchwright.study.export import results_directory, write_session, write_whole
from benchwright.study.journal import Study

_TRIAL_COLUMNS = ("search", "trial", "counted", "purpose")
_LOAD_COLUMNS = (
    "rate",
    "duration_s",
    "lasted_s",
    "cost_s",
    "offered",
    "completed",
    "errors",
    "ending",
    "failure",
    "started_ns",
    "late_p99_ms",
    "users",
)


class ExportedTrial(msgspec.Struct, frozen=True):
    """A trial of one of a session's searches."""

    search: str
    """The last part of the search's key: 0, or the sample's number in a surface."""
    counted: bool
    done: SearchTrial


def exported_trials(study: Study, session: int) -> list[ExportedTrial]:
    """Return every trial of a session's searches, in order. Raises StudyError as `tests_of`."""
    return [
        ExportedTrial(search.name, trial.number not in search.forgotten, trial)
        for search in searches_of(study, session)
        for trial in search.trials
    ]


def export_searches(study: Study, session: int) -> Path:
    """Write a session's searches and return their directory. Raises OSError."""
    directory = results_directory(study, session)
    listed = exported_trials(study, session)
    write_whole(directory / "loads.csv", [loads_text(listed).encode()])
    write_whole(directory / "series.csv", [series_text(listed).encode()])
    write_session(study, session)
    return directory


def loads_text(listed: Sequence[ExportedTrial]) -> str:
    """Return one row per trial; absent values are empty."""
    factors = list(dict.fromkeys(n for trial in listed for n, _ in trial.done.sample))
    keys = list(dict.fromkeys(k for trial in listed for k in trial.done.trial.values))
    heads = [
        *_TRIAL_COLUMNS,
        *(f"factor:{name}" for name in factors),
        *_LOAD_COLUMNS,
        "marks",
        *keys,
    ]
    return csv_of_rows([heads, *(_load_row(trial, factors, keys) for trial in listed)])


def _load_row(
    exported_trial: ExportedTrial, factors: Sequence[str], keys: Sequence[str]
) -> list[object]:
    trial, sample = exported_trial.done.trial, dict(exported_trial.done.sample)
    place = [
        exported_trial.search,
        exported_trial.done.number,
        int(exported_trial.counted),
        exported_trial.done.probe.purpose,
    ]
    levels = [sample.get(name, "") for name in factors]
    fields = [getattr(trial, name) for name in _LOAD_COLUMNS]
    values = [trial.values.get(key) for key in keys]
    return [*place, *levels, *fields, " ".join(trial.marks), *values]


def series_text(listed: Sequence[ExportedTrial]) -> str:
    """Return one row per bin of each trial; values of an empty bin are empty."""
    keys = list(dict.fromkeys(key for trial in listed for key in trial.done.trial.series.values))
    heads = ["search", "trial", "at_s", "width_s", "count", *keys]
    return csv_of_rows([heads, *(row for trial in listed for row in _series_rows(trial, keys))])


def _series_rows(exported_trial: ExportedTrial, keys: Sequence[str]) -> Iterable[list[object]]:
    series = exported_trial.done.trial.series
    for place, (at_s, count) in enumerate(zip(series.at_s, series.counts, strict=True)):
        columns = [series.values.get(key) for key in keys]
        values = ["" if column is None or not count else column[place] for column in columns]
        yield [
            exported_trial.search,
            exported_trial.done.number,
            at_s,
            series.width_s,
            count,
            *values,
        ]
