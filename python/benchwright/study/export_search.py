"""Plain-text export of a session's searches: each trial under load, and its series.

Under `results/s<N>/`: `loads.csv`, one row per trial, `series.csv`, one row per bin, and the
session's own `session.json`. Derived from the journal and replaced whole, as export.py's.
Trials that a resume did not count are there too: `counted` says which are not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchwright.model.search import SearchTrial
from benchwright.study.contents import searches_of
from benchwright.study.export import results_directory, write_session, write_whole
from benchwright.study.journal import Study

_PLACE = ("search", "trial", "counted", "purpose")
_LOAD = (
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
)


class Listed(msgspec.Struct, frozen=True):
    """One trial of one of a session's searches."""

    search: str
    """Its key's last part: 0, or the sample's place in a surface."""
    counted: bool
    done: SearchTrial


def export_searches(study: Study, session: int) -> Path:
    """Write a session's searches and return their directory. Raises OSError."""
    directory = results_directory(study, session)
    listed = [
        Listed(search, one.number not in forgotten, one)
        for search, trials, forgotten in searches_of(study, session)
        for one in trials
    ]
    write_whole(directory / "loads.csv", [loads_text(listed).encode()])
    write_whole(directory / "series.csv", [series_text(listed).encode()])
    write_session(study, session)
    return directory


def loads_text(listed: Sequence[Listed]) -> str:
    """Return one row per trial; absent values are empty."""
    factors = list(dict.fromkeys(n for one in listed for n, _ in one.done.sample))
    keys = list(dict.fromkeys(k for one in listed for k in one.done.trial.values))
    heads = [*_PLACE, *(f"factor:{name}" for name in factors), *_LOAD, "marks", *keys]
    return _csv(heads, (_load_row(one, factors, keys) for one in listed))


def _load_row(one: Listed, factors: Sequence[str], keys: Sequence[str]) -> list[object]:
    trial, sample = one.done.trial, dict(one.done.sample)
    place = [one.search, one.done.number, int(one.counted), one.done.probe.purpose]
    levels = [sample.get(name, "") for name in factors]
    fields = [_cell(getattr(trial, name)) for name in _LOAD]
    values = [_cell(trial.values.get(key)) for key in keys]
    return [*place, *levels, *fields, " ".join(trial.marks), *values]


def series_text(listed: Sequence[Listed]) -> str:
    """Return one row per bin of each trial; values of an empty bin are empty."""
    keys = list(
        dict.fromkeys(key for one in listed for key in one.done.trial.series.values)
    )
    heads = ["search", "trial", "at_s", "width_s", "count", *keys]
    return _csv(heads, (row for one in listed for row in _bins(one, keys)))


def _bins(one: Listed, keys: Sequence[str]) -> Iterable[list[object]]:
    series = one.done.trial.series
    for place, (at_s, count) in enumerate(zip(series.at_s, series.counts, strict=True)):
        columns = [series.values.get(key) for key in keys]
        values = [
            "" if column is None or not count else column[place] for column in columns
        ]
        yield [one.search, one.done.number, at_s, series.width_s, count, *values]


def _cell(value: object) -> object:
    return "" if value is None else value


def _csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()
