"""The documents of `bw run`, `bw resume` and `bw compare`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.report.answer import AnswerEntry, FindingGroup
from benchwright.report.comparison import ComparisonEntry
from benchwright.report.documents import FindingEntry
from benchwright.report.observed import FailureEntry, ObservedEntry, OutputEntry
from benchwright.report.stats_json import InputEntry
from benchwright.study.contents import StoredDefault


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
