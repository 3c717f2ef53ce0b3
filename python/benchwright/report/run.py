"""The documents of `bw run`, `bw resume` and `bw compare`.

`bw run --plan`: the samples and commands of a program, without running them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.text import plural
from benchwright.core.untrusted import visible_lines
from benchwright.report.answer import (
    AnswerEntry,
    FindingGroup,
    Results,
    SessionAnswer,
    answer_entries,
)
from benchwright.report.comparison import ComparisonEntry, comparison_entry
from benchwright.report.documents import FindingEntry, entries
from benchwright.report.observed import FailureEntry, ObservedEntry, OutputEntry
from benchwright.report.stats_document import compose_report, section_of, table_of
from benchwright.report.stats_json import InputEntry, input_entry
from benchwright.study.contents import StoredDefault, stored_defaults
from benchwright.suite.plan import Planned, PlannedTest


def plan_lines(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield the plan as text: a line for each step, a paragraph for each test.

    Unprintable characters are escaped.
    """
    yield from map(visible_lines, _lines(planned))


def _lines(planned: Sequence[Planned]) -> Iterator[str]:
    tests = 0
    for item in planned:
        if isinstance(item, PlannedTest):
            tests += 1
            plan = item.plan
            sample = "".join(f" {name}={level}" for name, level in plan.sample)
            threads = plural(plan.threads, "thread")
            yield f"TEST {plan.name}  ({threads}{sample}; {item.stopping})"
            for mode, text in item.commands:
                yield f"  {mode:<11} {text}"
        else:
            yield f"{item.keyword} {item.text}".rstrip()
    yield plural(tests, "test")


class CommandEntry(msgspec.Struct, frozen=True):
    """A command of a test."""

    mode: str
    command: str


class StepEntry(msgspec.Struct, frozen=True):
    """A step: a `TEST` has the members after `text`, other steps have `text`."""

    step: str
    text: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    threads: int | UnsetType = UNSET
    sample: dict[str, str] | UnsetType = UNSET
    stopping: str | UnsetType = UNSET
    commands: tuple[CommandEntry, ...] | UnsetType = UNSET


class PlanDocument(msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/plan/1"):
    """The samples and commands of a program."""

    steps: tuple[StepEntry, ...]


def plan_document(planned: Sequence[Planned]) -> PlanDocument:
    """Return the plan for JSON."""
    return PlanDocument(tuple(map(_step_entry, planned)))


def _step_entry(item: Planned) -> StepEntry:
    if not isinstance(item, PlannedTest):
        return StepEntry(item.keyword, item.text)
    return StepEntry(
        "TEST",
        name=item.plan.name,
        threads=item.plan.threads,
        sample=dict(item.plan.sample),
        stopping=item.stopping,
        commands=tuple(CommandEntry(mode, text) for mode, text in item.commands),
    )


class RunDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/run/1"
):
    """The outcome of a session of tests. `observed`, `stderr_tail` and `output` are keyed by
    test and have only tests with such data."""

    study: str
    session: int
    status: str
    detail: str
    exit_status: int
    defaults: tuple[StoredDefault, ...] | UnsetType = UNSET
    """Defaults of options that configuration files set; absent if there are none."""
    tests: tuple[InputEntry, ...]
    answers: tuple[AnswerEntry, ...]
    """The answer of each test, with the interval of its stopping rule."""
    comparisons: tuple[ComparisonEntry, ...] | UnsetType = UNSET
    observed: dict[str, ObservedEntry] | UnsetType = UNSET
    stderr_tail: dict[str, FailureEntry] | UnsetType = UNSET
    output: dict[str, OutputEntry] | UnsetType = UNSET
    findings: tuple[FindingEntry, ...]
    finding_groups: tuple[FindingGroup, ...]
    """The same findings by code, the worst first."""


def run_document(
    results: Results, answer: SessionAnswer, exit_status: int, observed: Mapping[str, Any]
) -> RunDocument:
    """Return the document of a session that has ended; `observed`: its `observed_members`."""
    session = results.session
    assert session is not None
    sections = [section_of(test, table_of(test)) for test in results.tests]
    report = compose_report(sections, baseline=answer.reference_place)
    return RunDocument(
        study=str(results.path),
        session=session.number,
        status=session.status,
        detail=session.detail,
        exit_status=exit_status,
        defaults=stored_defaults(session.info) or UNSET,
        tests=tuple(map(input_entry, report.sections)),
        answers=answer_entries(answer),
        comparisons=tuple(map(comparison_entry, results.comparisons)) or UNSET,
        **observed,
        findings=entries(FindingEntry, results.findings),
        finding_groups=answer.groups,
    )


class CompareDocument(
    ComparisonEntry, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/compare/1"
):
    """The outcome of a comparison, its answer and its findings."""

    study: str | None
    """null if stored results were compared."""
    session: int | None
    status: str
    detail: str
    exit_status: int
    findings: tuple[FindingEntry, ...]
    finding_groups: tuple[FindingGroup, ...]
    """The same findings by code, the worst first."""
