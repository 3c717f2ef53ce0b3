"""Users' rules: a small function from a result to findings.

Purpose: what a rule is given and what it returns; `docs/why.md` has an example. Decision: a
frozen result of plain values, so that a rule is a pure function and needs nothing of ours
but `Finding`; it is loaded by cli/rule_files.py. Non-goal: a rule changes no figure.

    from benchwright.finding.rules import Finding, Result, Severity

    def rule(result: Result) -> Iterable[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import Pairs
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Finding, Severity
from benchwright.findings.limiter import named_limits, windows_of
from benchwright.stats.aggregate import TrialValues, metric_columns
from benchwright.stats.metric_rules import MetricRules

__all__ = ["Finding", "NamedRule", "Result", "Rule", "Severity", "result_of"]


class Result(msgspec.Struct, frozen=True):
    """One test, as a rule sees it."""

    test: str
    factors: dict[str, str]
    """The levels of its sample, by factor."""
    values: dict[str, tuple[float, ...]]
    """One value per completed trial, in order, by metric: `elapsed` [s], `user`,
    `system`, `rss_bytes`, and the test's own."""
    units: dict[str, str]
    """By metric; empty where nobody said."""
    uses: tuple[ResourceUse, ...]
    """What was seen of the machine, in order of time; empty where not watched."""
    limits: tuple[str, ...]
    """Codes of what limited the test, the most explanatory first."""


Rule = Callable[[Result], Iterable[Finding]]


class NamedRule(msgspec.Struct, frozen=True):
    """A rule and where it comes from."""

    name: str
    """The file's path, or the plug-in's name."""
    apply: Rule


def result_of(
    test: str,
    trials: Sequence[Trial],
    observed: Sequence[TrialValues],
    book: MetricRules,
    sample: Pairs = (),
) -> Result:
    """Return what a rule is given of a test."""
    found = metric_columns(observed, book)
    windows = windows_of(trials)
    return Result(
        test=test,
        factors=dict(sample),
        values={name: tuple(found[name].values.tolist()) for name in found},
        units={name: book.row(name).unit for name in found},
        uses=tuple(window.use for window in windows),
        limits=tuple(one.limit.code for one in named_limits(windows)),
    )
