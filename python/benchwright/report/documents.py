"""The encoder of JSON documents, and the entries that several documents share.

Decision: a document is a type (`msgspec.Struct`), so that its members, its schema
(`bw schema KIND`) and its printed form cannot differ. Rejected: dictionaries built by hand.
An absent figure is null, because absent is not zero and JSON has no NaN. An infinite figure is
null too; where infinity is meaningful, `infinite` lists its key: a percentile among operations
that never ended is not absent. msgspec writes NaN and infinity as null, so a member that may
be either is a `float | None`.
Non-goal: text (`parts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from benchwright.core.plan import StopDecision
from benchwright.core.results import Estimate, ReachedPrecision, Severity
from benchwright.core.untrusted import visible_json
from benchwright.stats.predicate import percent_of_mean

EntryT = TypeVar("EntryT", bound=msgspec.Struct)

Ends = tuple[float | None, float | None]
"""An interval's ends; null where an end is unbounded or unknown."""


def encode(document: msgspec.Struct) -> str:
    """Return a document as indented JSON, ending with a newline.

    Unprintable characters are escaped.
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return visible_json(text) + "\n"


def entry(kind: type[EntryT], source: object, **members: object) -> EntryT:
    """Return an entry with these members; the other members are the source's attributes of
    the same name."""
    names = [name for name in kind.__struct_fields__ if name not in members]
    return kind(**{name: getattr(source, name) for name in names}, **members)


def entries(kind: type[EntryT], sources: Iterable[object]) -> tuple[EntryT, ...]:
    """Return an entry for each of the sources."""
    return tuple(entry(kind, source) for source in sources)


def engine_answer(name: str) -> msgspec.Meta:
    """Return the schema of an engine's answer: it has the members of the type of this name,
    and may have more, because every member that the engine sent is stored."""
    return msgspec.Meta(extra_json_schema={"$ref": f"#/$defs/{name}"})


def infinite(values: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return the keys of the infinite figures, which are null in JSON."""
    return tuple(k for k, v in values.items() if v is not None and math.isinf(v))


class FindingEntry(msgspec.Struct, frozen=True):
    """A doubt about a result, and its remedy."""

    code: str
    severity: Severity
    subject: str
    evidence: str
    remedy: str


class EstimateEntry(msgspec.Struct, frozen=True):
    """A value with its interval."""

    value: float | None
    low: float | None
    high: float | None
    half_width_percent: float | None
    """Half the interval's width [% of the value]."""
    confidence: float
    method: str
    n: int
    unit: str


class ReachedEntry(msgspec.Struct, frozen=True):
    """Precision of a metric of the stopping rule at the end of the test."""

    metric: str
    statistic: str
    n: int
    estimate: EstimateEntry | None


class StopEntry(msgspec.Struct, frozen=True):
    """Reason why a test ended."""

    reason: str
    detail: str
    answered: bool
    looks: int
    target: float | None
    """The requested half-width, as a share of the value."""
    reached: tuple[ReachedEntry, ...]


class FileEntry(msgspec.Struct, frozen=True):
    """A file that was written."""

    path: str
    format: str
    bytes: int


def estimate_entry(estimate: Estimate) -> EstimateEntry:
    """Return an estimate with its half-width as a percentage of its value."""
    percent = percent_of_mean(estimate.half_width, estimate.value)
    return entry(EstimateEntry, estimate, half_width_percent=percent)


def stop_entry(stop: StopDecision) -> StopEntry:
    """Return why a test ended; a metric with an unbounded interval has no estimate."""
    reached = tuple(map(_reached_entry, stop.reached))
    return entry(StopEntry, stop, reached=reached)


def _reached_entry(reached: ReachedPrecision) -> ReachedEntry:
    estimate = None if reached.estimate is None else estimate_entry(reached.estimate)
    return entry(ReachedEntry, reached, estimate=estimate)
