"""What a feature answers about a kind of session that it adds, such as a peak search.

A session of tests is the core's own kind. Of every other kind the core and the features ask its
`SessionKind` (`session_kind` in feature.py), and never compare its name. Decision: one protocol for
everything that is asked of a stored session; a port of its own for each question would be ten
tables of the same kinds. It is in this room because the page is the highest one that asks; rooms
below it, which see it through feature.py, ask only what their own types can answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from benchwright.core.comparison import Better
from benchwright.core.errors import StudyError
from benchwright.core.hosts import GangClients
from benchwright.core.plan import Pairs
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Estimate, Finding
from benchwright.findings.explanation import Explanation
from benchwright.page.document import ReportPart
from benchwright.report.answer import State
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotGroup
from benchwright.run.runner import Experiment, OutputOptions, SessionOutput
from benchwright.study.journal import SessionInfo, StoredSession, Study


class SampleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a session at one sample: a point of a history, if there is an estimate."""

    sample: Pairs
    metric: str
    unit: str
    better: Better
    estimate: Estimate | None
    """None where it has none, or only a bound."""
    what: str
    """What the value is in words, with a hash of what was measured, or why there is none."""
    is_answered: bool
    is_failed: bool
    findings: tuple[Finding, ...]
    """Those that concern this sample; a serious one if it is not answered, so that no gate decides by
    it."""


class SampleMetric(msgspec.Struct, frozen=True):
    """A figure of a session at one sample, which no single trial has."""

    name: str
    unit: str
    better: Better
    estimate: Estimate
    """Its ends are NaN where they are not known."""


class SampleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a session at one sample or load, as an export has them."""

    name: str
    """The sample in a name: `workers=2, buffers=64M`; empty for none."""
    sample: Pairs
    metrics: tuple[SampleMetric, ...]
    state: State
    reason: str


class SessionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a stored session found, which may be incomplete."""

    status: str
    detail: str
    """How it ended."""
    exit_status: int
    subject: str
    """What it is about: the name of its spec or workload, its target, or a program."""
    answers: tuple[SampleAnswer, ...]
    figures: tuple[SampleFigures, ...]
    sentence: str
    """The answer as a sentence."""
    spent_s: float
    """The time that its trials took [s]."""
    findings: tuple[tuple[str, Finding], ...]
    """Each with the sample that it concerns; empty: all of them."""


class SessionKind(Protocol):
    """A kind of session that a feature adds. No session of such a kind contains a test, so that
    `:TEST` selects nothing in it.

    What reads a stored session, which may be incomplete, raises StudyError for a record that cannot
    be read, and InputError if this version cannot read its request.
    """

    @property
    def title(self) -> str:
        """Its name on a page: `peak search`."""

    @property
    def noun(self) -> str:
        """What its findings concern, in the plural: `tests`, `samples`."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The options that limit a session, which ends undecided there."""

    def subject(self, info: SessionInfo) -> str:
        """Return what a session runs, for its notice: the path of its file, or `<peak>`."""

    def experiment(self, info: SessionInfo) -> Experiment[Any]:
        """Return the experiment of a session, new or stored.

        Raises InputError with all mistakes of its request, and for a package that it needs and that
        is not installed.
        """

    def output(self, experiment: Experiment[Any], options: OutputOptions) -> SessionOutput:
        """Return what a person sees of an experiment of this kind."""

    def part(
        self,
        info: SessionInfo,
        number: int,
        wanted: str,
        left_s: float | None,
        clients: GangClients | None,
    ) -> Experiment[Any]:
        """Return the experiment of one part of a session, as a task of a pool runs it.

        `number`: of the part; `wanted`: the part as the journal stores it; `left_s`: time until the
        deadline [s]; `clients`: the hosts of the gang that issue the load. Raises InputError.
        """

    def print_report(self, study: Study, session: StoredSession, options: OutputOptions) -> None:
        """Print the report, as text or as JSON."""

    def headline(self, study: Study, session: StoredSession) -> str:
        """Return the answer in one line; empty where it has none yet."""

    def page(self, study: Study, session: StoredSession, part: str) -> ReportPart:
        """Return the part of a report page; `part` is the prefix of its ids."""

    def sheet(self, study: Study, session: StoredSession) -> Sheet:
        """Return the chart."""

    def responses(self, study: Study, session: StoredSession) -> PlotGroup | None:
        """Return the responses of its trials as tests of a plot; None for too few."""

    def uses(self, study: Study, session: StoredSession) -> Sequence[ResourceUse | None]:
        """Return the use of this machine in every trial, in order, including those that do not
        count; None where it was not watched."""

    def explained(self, study: Study, session: StoredSession) -> tuple[Explanation, ...]:
        """Return what limited each of its results."""

    def outcome(self, study: Study, session: StoredSession) -> SessionOutcome:
        """Return what it found, with its findings."""

    def has_no_tests(self, study: Study, session: StoredSession) -> StudyError:
        """Return the error for a reader of tests."""
