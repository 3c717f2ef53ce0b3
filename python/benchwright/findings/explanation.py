"""One result explained: its figure, what limited it, the USE table, every finding.

Purpose: the answer of `bw why`, as data. Decision: causes are ordered: first evidence that the
figure does not measure what it seems to (a failing device), then unintended limits, then
answers from a cache and the resolution of a clock, then limits that a benchmark may intend
to reach. The table describes the longest window.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from benchwright.core.criterion import Criterion
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import Pairs
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import (
    BROKEN_CODES,
    Figure,
    Finding,
    FindingFigures,
    Severity,
    Summary,
    states,
)
from benchwright.findings.codes import LIMITER_CODES, LIMITS_OF_FAILURES, make_finding
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter import (
    WatchedWindow,
    counts,
    epochs_of,
    unlimited,
    unlimited_text,
    windows_of,
)
from benchwright.findings.resources import limit_findings, reason_not_watched, window_findings
from benchwright.findings.result import ObservedFiles, TestResult
from benchwright.findings.use_table import UseRow, use_table

NOT_WATCHED = (
    "no trial was watched: the trials were shorter than 0.25 s, or --no-watch was given, or "
    "the results come from a file"
)
NO_RESULT = "no trial was completed, so there is no result to explain"
ONLY_STATED = (
    "the file states only estimates (bw stats prints them) and no values of trials, so there is nothing "
    "to explain them by"
)
_OF_THE_FIGURE = frozenset(
    (
        "errors-in-kernel-log",
        "environment-changed-between-trials",
        "exceeds-known-limit",
        "work-removed",
        "work-too-short-for-the-clock",
        "answered-from-cache",
    )
)
"""Findings that explain a figure better than an intended limit does."""


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of one result."""

    name: str
    figure: Summary | None
    """The main quantity of the test."""
    causes: tuple[Finding, ...]
    """Causes of the figure, the most important first: limits, and findings about the figure."""
    sentence: str
    """The sentence about a result without a limit; empty if there is a limit."""
    unlimited: FindingFigures | None
    """The figures of the sentence; None where it has none."""
    table: tuple[UseRow, ...]
    window: ResourceUse | None
    """The window of the table."""
    watched_s: float
    watched: int
    """Number of watched trials."""
    trials: int
    findings: tuple[Finding, ...]
    """All other findings."""
    sample: Pairs = ()
    threads: int | None = None
    files: ObservedFiles | None = None
    """Files of the observations that belong to the figure."""
    criterion: Criterion | None = None
    """For a load of a search: the criterion that limits the figure."""
    running: bool = False
    """Whether it still ran: a server, or a trial that has not ended. It has no figure."""

    @property
    def first(self) -> str:
        """The code of the first cause; empty if there is none."""
        return self.causes[0].code if self.causes else ""

    @property
    def limited_by(self) -> str:
        """The code of the first limit; empty if there is none."""
        limits = (cause.code for cause in self.causes if cause.code in LIMITER_CODES)
        return next(limits, "")


def explain_test(
    test: TestResult,
    name: str,
    findings: Sequence[Finding],
    figure: Summary | None = None,
    capacities: Sequence[StatedCapacity] = (),
) -> Explanation:
    """Return the explanation of a test, under this name, from its findings and those of rules.

    `capacities`: what the user states about resources.
    """
    counted = [trial for trial in test.all_trials if counts(trial)]
    explanation = explain_windows(
        name, windows_of(test.all_trials), len(counted), findings, capacities
    )
    if not any(trial.ending is TrialEnding.OK for trial in counted):
        explanation = _without_result(explanation)
        if test.summaries and not counted:
            explanation = msgspec.structs.replace(explanation, sentence=ONLY_STATED, unlimited=None)
    return msgspec.structs.replace(
        explanation,
        figure=figure,
        sample=test.sample,
        threads=counted[0].threads if counted else None,
        files=test.files,
    )


def _without_result(found: Explanation) -> Explanation:
    """Return the explanation of a test without a completed trial: what failed, if anything did.

    A limit at which commands fail precedes the failure.
    """
    broken = tuple(finding for finding in found.findings if finding.code in BROKEN_CODES)
    limits = tuple(cause for cause in found.causes if cause.code in LIMITS_OF_FAILURES)
    others = (cause for cause in found.causes if cause not in limits)
    return msgspec.structs.replace(
        found,
        causes=(*limits, *broken, *others),
        sentence="" if broken else NO_RESULT,
        unlimited=None,
        findings=tuple(finding for finding in found.findings if finding not in broken),
    )


def explain_windows(
    name: str,
    windows: Sequence[WatchedWindow],
    total: int,
    findings: Sequence[Finding],
    capacities: Sequence[StatedCapacity] = (),
) -> Explanation:
    """Return the explanation of a result of `total` trials from its windows and findings."""
    causes = _ordered([finding for finding in findings if is_cause(finding)])
    limited = any(cause.code in LIMITER_CODES for cause in causes)
    seen = [window for window in windows if not reason_not_watched(window.use)]
    # What is known of longer times than the figure is about only stands in for what is not.
    best = [window for window in seen if window.of_figures] or seen
    longest = max(best, key=lambda window: window.use.seconds, default=None)
    window = None if longest is None else longest.use
    others = [finding for finding in findings if finding not in causes]
    if not windows and total:
        others.append(make_finding("not-watched", name, NOT_WATCHED))
    free = (
        None if limited or not seen else unlimited([watched_window.use for watched_window in best])
    )
    if free is not None and not best[0].of_figures:
        part = Figure(min(window.measured for window in best), "%")
        free = states(free.form, **free.named, part_measured=part)
    return Explanation(
        name=name,
        figure=None,
        causes=tuple(causes),
        sentence="" if limited else _sentence(windows, free),
        unlimited=free,
        table=() if window is None else use_table(window, capacities),
        window=window,
        watched_s=sum(watched_window.use.seconds for watched_window in seen),
        watched=len(epochs_of(seen)),
        trials=total,
        findings=tuple(others),
    )


def explain_running(
    name: str, use: ResourceUse, capacities: Sequence[StatedCapacity] = ()
) -> Explanation:
    """Return the explanation of what still runs, from its use up to now."""
    windows = (WatchedWindow(use, (1,)),)
    findings = [*limit_findings(name, windows, 1, capacities), *window_findings(name, windows, 1)]
    explained = explain_windows(name, windows, 1, findings, capacities)
    return msgspec.structs.replace(explained, running=True)


def unlimited_groups(explanations: Sequence[Explanation]) -> list[tuple[list[str], str]]:
    """Return the sentences of the results without a limit, each with the names of its results;
    results that differ only in figures share one."""
    texts = dict.fromkeys(
        explanation.sentence for explanation in explanations if explanation.sentence
    )
    groups: list[list[Explanation]] = []
    for text in texts:
        alike = [explanation for explanation in explanations if explanation.sentence == text]
        for group in groups:
            if _shared_text([*group, *alike]) is not None:
                group += alike
                break
        else:
            groups.append(alike)
    return [([one.name for one in group], _shared_text(group) or "") for group in groups]


def _shared_text(explanations: Sequence[Explanation]) -> str | None:
    each = [
        explanation.unlimited for explanation in explanations if explanation.unlimited is not None
    ]
    if len({explanation.sentence for explanation in explanations}) == 1:
        return explanations[0].sentence
    return unlimited_text(each) if len(each) == len(explanations) else None


def _sentence(windows: Sequence[WatchedWindow], free: FindingFigures | None) -> str:
    if free is not None:
        return unlimited_text([free]) or ""
    why = next((reason_not_watched(window.use) for window in windows), "not watched")
    return f"{why}, so what limited it is unknown"


def is_cause(finding: Finding) -> bool:
    """Return whether a finding explains a figure, and is not only a doubt about it."""
    if finding.figures is not UNSET and "part_measured" in finding.figures.named:
        return False  # It is about more time than the figure.
    if finding.code in LIMITER_CODES:
        return finding.code != "steal" or finding.severity is not Severity.NOTE
    return finding.code in _OF_THE_FIGURE and finding.severity is not Severity.NOTE


def _ordered(causes: Sequence[Finding]) -> list[Finding]:
    """Return the causes, the most important first; limits keep their order, in which the one that
    explains more comes first."""
    limits = [cause for cause in causes if cause.code in LIMITER_CODES]
    doubts = [cause for cause in causes if cause not in limits]
    grave = [doubt for doubt in doubts if doubt.severity is Severity.SERIOUS]
    lesser = [doubt for doubt in doubts if doubt not in grave]
    if limits and limits[0].severity is not Severity.NOTE:
        return [*grave, *limits, *lesser]
    return [*grave, *lesser, *limits]
