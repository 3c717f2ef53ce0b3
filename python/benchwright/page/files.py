"""From a stored session, or a file that another tool or a user wrote, to its report: which session,
its answer, and its sections in order.

Decision: the tests of a file are those of a session that is complete, so every section about trials
is the one of studies. What only a session has (machine, method, rules) is left out, and what only
such a file has, the estimates of another tool, is a table of its own.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright import __version__
from benchwright.core.errors import argument_error
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import StopDecision
from benchwright.core.results import Summary
from benchwright.core.text import moment_text, percent_text, plural
from benchwright.core.untrusted import visible
from benchwright.feature import session_kind
from benchwright.findings.environment import value_text
from benchwright.findings.examine import findings_about
from benchwright.findings.result import TestResult
from benchwright.machine.redact import without_secrets
from benchwright.page.document import ReportDocument, ReportPart
from benchwright.page.origin import data_section, facts_table, shared_section
from benchwright.page.tests import answered_part, results_section, tests_part, tests_section
from benchwright.report.answer import Results
from benchwright.stats.aggregate import MetricRules
from benchwright.study.catalogue import StudyPart
from benchwright.study.contents import first_machine
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    Section,
    TableBlock,
    Words,
    number_of,
    scale_of,
)

_MOST_OF_FACT = 200
"""Characters of a fact that are shown."""


class FileResults(msgspec.Struct, frozen=True):
    """The tests of one file."""

    place: Path
    inputs: tuple[TestResult, ...]

    @property
    def machines(self) -> tuple[MachineCapture, ...]:
        """Return the machines that the file states, each once."""
        stated = (test.machine for test in self.inputs if test.machine is not None)
        return tuple({str(capture.facts): capture for capture in stated}.values())


def file_part(results: FileResults, part: str) -> ReportPart:
    """Return the report of a file's tests; `part` is the prefix of its ids, such as `p1`."""
    inputs = results.inputs
    origins = [test.origin for test in inputs if test.origin is not None]
    started = min((o.started_ns for o in origins if o.started_ns is not None), default=None)
    if started is None:
        started = results.place.stat().st_mtime_ns if results.place.exists() else 0
    stored = Results(
        id=part,
        path=results.place,
        session=None,
        started_ns=started,
        tests=tuple(
            _ended(f"{part}.t{place}", test) for place, test in enumerate(inputs, 1) if test.trials
        ),
        about_session=tuple(finding for test in inputs for finding in test.session_findings),
    )
    answer = stored.answer()
    estimates = _estimates_section(part, inputs)
    sections = [
        *([results_section(stored, answer)] if len(stored.tests) > 1 else []),
        *([estimates] if estimates is not None else []),
        *([tests_section(stored, answer)] if stored.tests else []),
        _origin_section(part, results, started),
        *([_data(stored)] if stored.tests else []),
    ]
    return answered_part(stored, answer, sections, headline=_headline(inputs, stored))


def _ended(identifier: str, one: TestResult) -> TestResult:
    """Return a test of a file as one that has ended, with its findings."""
    count = sum(trial.ending is TrialEnding.OK for trial in one.trials)
    stop = StopDecision("count", plural(count, "trial"), answered=bool(count))
    return one.labelled(id=identifier, stop=stop, findings=findings_about(one))


def _data(stored: Results) -> Section:
    """Return the data as files; all of it is in the results."""
    lead = "The same numbers for other programs."
    return msgspec.structs.replace(data_section(stored), lead=lead)


def _headline(inputs: Sequence[TestResult], stored: Results) -> str:
    """Return what the file has, as no test of it asked a question; empty for a single test, of
    which the answer is the figure."""
    if len(inputs) == 1 and stored.tests:
        return ""
    tools = sorted({test.origin.tool for test in inputs if test.origin is not None})
    whose = f" by {', '.join(tools)}" if tools else ""
    tests = plural(len(inputs), "test")
    if not stored.tests:
        return f"Estimates of {tests}{whose}, without values of trials."
    return f"Results of {tests}{whose}."


def _estimates_section(part: str, inputs: Sequence[TestResult]) -> Section | None:
    """Return the quantities of which the file has only estimates; None if there are none."""
    rows = [
        row
        for place, test in enumerate(inputs, 1)
        for row in _estimate_rows(f"{part}.t{place}", test)
    ]
    if not rows:
        return None
    return Section(
        id=f"{part}-estimates",
        title="Estimates of the tool",
        lead="What the file states without the values of trials: with its own interval, or without one.",
        blocks=(
            TableBlock(
                id=f"{part}-stated",
                title="Estimates",
                columns=(
                    Column("Test"),
                    Column("Quantity"),
                    Column("Mean", numeric=True),
                    Column("Median", numeric=True),
                    Column("Interval"),
                    Column("Values", "how many the tool had"),
                ),
                rows=tuple(rows),
            ),
        ),
    )


def _estimate_rows(identifier: str, one: TestResult) -> Iterator[tuple[Cell, ...]]:
    rules = MetricRules(one.specs)
    for summary in one.summaries:
        key = f"{identifier}.stated.{summary.name}"
        scale = scale_of((summary.mean, summary.median), summary.unit)
        mean = number_of(f"{key}.mean", summary.mean, scale)
        median = number_of(f"{key}.median", summary.median, scale)
        if math.isfinite(summary.mean):
            mean = _with_interval(mean, summary)
        else:
            median = _with_interval(median, summary)
        interval = ""
        if math.isfinite(summary.low):
            ends = (scale.text(summary.low, unit=False), scale.text(summary.high))
            level = ""
            if math.isfinite(summary.confidence):
                level = f" ({percent_text(summary.confidence)})"
            interval = f"{ends[0]} to {ends[1]}{level}"
        yield (
            Words(visible(one.name)),
            Words(visible(rules.row(summary.name).label)),
            mean,
            median,
            Words(interval or "none"),
            Words(str(summary.count) if summary.count else "unknown"),
        )


def _with_interval(number: Number, summary: Summary) -> Number:
    """Return the number with the ends of its interval, for JSON; the table has them in a column."""
    if not math.isfinite(summary.low):
        return number
    known = math.isfinite(summary.confidence)
    return msgspec.structs.replace(
        number, low=summary.low, high=summary.high, confidence=summary.confidence if known else None
    )


def _origin_section(part: str, results: FileResults, started_ns: int) -> Section:
    """Return where the numbers come from, as far as the file has it."""
    origins = [test.origin for test in results.inputs if test.origin is not None]
    rows: list[tuple[Cell, ...]] = [(Words("File"), Words(visible(str(results.place)), code=True))]
    for label, values in (
        ("Written by", [origin.tool for origin in origins]),
        ("Machine", [origin.machine for origin in origins]),
        ("Commit", [origin.commit for origin in origins]),
    ):
        known = list(dict.fromkeys(filter(None, values)))
        if known:
            rows.append((Words(label), Words(visible(", ".join(known[:5])))))
    stated: dict[str, list[str]] = {}
    for machine in results.machines:
        for fact in machine.facts:
            stated.setdefault(fact.name, []).append(fact.value or "")
    for name, values in stated.items():
        text = value_text("; ".join(dict.fromkeys(values)), "", _MOST_OF_FACT)
        rows.append((Words(visible(name), code=True), Words(visible(text))))
    dated = any(origin.started_ns is not None for origin in origins)
    label = "Measured" if dated else "File of"
    rows.append((Words(label), Words(f"{moment_text(started_ns)} UTC")))
    return Section(
        id=f"{part}-origin",
        title="Where the numbers come from",
        lead="A file has no record of the machine and of how it was measured beyond this.",
        blocks=(facts_table(f"{part}-origin-facts", "Origin", rows),),
    )


def gather_document(sources: Sequence[StudyPart | FileResults]) -> ReportDocument:
    """Return the report of these sessions and files.

    Raises StudyError for a study that cannot be read, InputError for an unknown session or test.
    """
    parts: list[ReportPart] = []
    machines: list[Sequence[MachineCapture]] = []
    for place, source in enumerate(sources, 1):
        if isinstance(source, FileResults):
            parts.append(file_part(source, f"p{place}"))
            machines.append(source.machines)
            continue
        with contextlib.closing(Study.open_to_read(source.place)) as study:
            session = source.of(study)
            if source.test is not None and session_kind(session.info.kind) is not None:
                text, kind = f"{source.place}:{source.test}", session.info.kind
                message = f"session {session.number} is a bw {kind}, which has no tests"
                hint = f"leave out :{source.test}"
                raise argument_error("STUDY", text, message, hint)
            parts.append(read_part(study, session, f"p{place}", source.test))
            machine = first_machine(study, session.number)
            machines.append(() if machine is None else (machine,))
    several = "sessions" if all(part.session for part in parts) else "results"
    title = parts[0].title if len(parts) == 1 else f"{len(parts)} {several}"
    shared = (shared_section(parts, machines),) if len(parts) > 1 else ()
    return ReportDocument(title=title, version=__version__, parts=tuple(parts), shared=shared)


def read_part(
    study: Study, session: StoredSession, part: str, only: str | None = None
) -> ReportPart:
    """Return the report of one session; `part` is the prefix of its ids, such as `p1`.

    The session may be running. Raises StudyError for a record that cannot be read.
    """
    if (kind := session_kind(session.info.kind)) is not None:
        whole = kind.page(study, session, part)
    else:
        whole = tests_part(study, session, part, only)
    shown: ReportPart = without_secrets(whole, session.info.commands)
    return shown
