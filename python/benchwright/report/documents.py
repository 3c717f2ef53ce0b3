"""The encoder of JSON documents, and what several documents and reports share: entries, and the
text of findings, stop lines, stderr of failed trials and whole reports.

Decision: a document is a type (`msgspec.Struct`), so that its members, its schema
(`bw schema KIND`) and its printed form cannot differ. Rejected: dictionaries built by hand.
An absent figure is null, because absent is not zero and JSON has no NaN. An infinite figure is
null too; where infinity is meaningful, `infinite` lists its key: a percentile among operations
that never ended is not absent. msgspec writes NaN and infinity as null, so a member that may
be either is a `float | None`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import StopDecision
from benchwright.core.results import Estimate, Finding, ReachedPrecision, Severity
from benchwright.core.untrusted import one_line, visible, visible_json, visible_lines
from benchwright.stats.aggregate import percent_of_mean

# -- Findings as lines -----------------------------------------------------------------


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: `SUBJECT: evidence`.

    Findings above severity `note` have severity, code and remedy too. Unprintable characters
    are escaped.
    """
    subject, evidence = visible(finding.subject), one_line(finding.evidence)
    if finding.severity is Severity.NOTE:
        return f"{subject}: {evidence}"
    line = f"{subject}: {finding.severity}: {evidence} [{finding.code}]"
    return f"{line} {visible(finding.remedy)}" if finding.remedy else line


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return one line per finding, each ending with a newline; empty without findings."""
    return "".join(finding_line(finding) + "\n" for finding in findings)


# -- A report as text -------------------------------------------------------------------


def report_text(*blocks: Iterable[str], findings: Iterable[Finding] = ()) -> str:
    """Return blocks of lines, then findings, with a blank line between non-empty blocks.

    The text ends with a newline; unprintable characters are escaped.
    """
    parts = ["\n".join(block) for block in (*blocks, map(finding_line, findings))]
    return visible_lines("\n\n".join(part for part in parts if part)) + "\n"


# -- Why a test ended, as a line -------------------------------------------------------


def stop_line(name: str, stop: StopDecision) -> str:
    """Return `NAME: stopped: DETAIL [REASON] (N looks)`; `stopped undecided` without an
    answer. The figures of the end are in the answer of the test."""
    verdict = "stopped" if stop.answered else "stopped undecided"
    looks = ""
    if stop.looks > 1 and " looks" not in stop.detail:
        looks = f" ({stop.looks} looks)"
    return one_line(f"{name}: {verdict}: {ending_text(stop)} [{stop.reason}]{looks}")


def ending_text(stop: StopDecision) -> str:
    """Return why a test ended, without the figures that follow in `detail`."""
    return stop.detail.partition("; ")[0] or stop.reason


# -- The last lines of a failed command -------------------------------------------------
#
# Unprintable characters are escaped, because programs write arbitrary bytes.


def failure_text(name: str, trial: Trial, study: str) -> str:
    """Return the last lines of a failed trial's stderr, and the file that has all of it."""
    error_text = trial.error_text
    assert error_text is not None, "only a trial that failed and said something is shown"
    file = f"{study}/{error_text.file}"
    head = visible(f"{name}: the last lines of {file} (trial {trial.epoch}):")
    return "".join([f"{head}\n", *(f"    {visible(line)}\n" for line in error_text.lines)])


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
