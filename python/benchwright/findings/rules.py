"""Users' rules: a small function from a result to findings.

Purpose: the input and output of a rule; `docs/why.md` has an example. Decision: a
frozen result of plain values, so that a rule is a pure function and needs only `Finding` from
Benchwright; cli/why.py loads it. Non-goal: a rule changes no figure.

    from benchwright.findings.rules import Finding, Result, Severity

    def rule(result: Result) -> Iterable[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Finding, Severity
from benchwright.core.untrusted import regular_bytes
from benchwright.findings.limiter import named_limits, windows_of
from benchwright.findings.result import TestResult

__all__ = [
    "Finding",
    "NamedRule",
    "Result",
    "Rule",
    "Severity",
    "apply_rule",
    "result_of",
    "rule_error",
]

RULE_HINT = "write `def rule(result): ...`, which returns findings (docs/why.md)"


class Result(msgspec.Struct, frozen=True):
    """One test, as a rule sees it."""

    test: str
    factors: dict[str, str]
    """The levels of its sample, by factor."""
    values: dict[str, tuple[float, ...]]
    """By metric, one value per completed trial, in order: `elapsed` [s], `user`,
    `system`, `rss_bytes`, and the test's own."""
    units: dict[str, str]
    """Units by metric; empty if unknown."""
    uses: tuple[ResourceUse, ...]
    """Resource uses of the machine, in order of time; empty if the test was not watched."""
    limits: tuple[str, ...]
    """Codes of the test's limits, the most explanatory first."""


Rule = Callable[[Result], Iterable[Finding]]


class NamedRule(msgspec.Struct, frozen=True):
    """A rule and where it comes from."""

    name: str
    """The file's path, or the plug-in's name."""
    apply: Rule


def result_of(test: TestResult) -> Result:
    """Return the input of a rule for a test."""
    windows = windows_of(test.all_trials)
    return Result(
        test=test.name,
        factors=dict(test.sample),
        values={name: column.values for name, column in test.columns.items()},
        units={name: test.rules.row(name).unit for name in test.columns},
        uses=tuple(window.use for window in windows),
        limits=tuple(
            limit.limit.code
            for limit in named_limits(windows)
            if all(window.of_figures for window in limit.windows)
        ),
    )


def apply_rule(rule: NamedRule, result: Result) -> list[Finding]:
    """Return the findings of a rule about a result. Raises InputError if the rule fails."""
    try:
        findings = list(rule.apply(result))
    except (Exception, SystemExit) as error:
        raise InputError([rule_error(rule.name, error)]) from error
    for finding in findings:
        if not isinstance(finding, Finding):
            kind = type(finding).__name__
            message = f"the rule returned an object of type {kind} for {result.test}, not a Finding"
            raise InputError([Diagnostic("bad-rule", message, RULE_HINT, rule.name)])
    return findings


def rule_error(name: str, error: BaseException) -> Diagnostic:
    """Return the error, placed at the last executed line of the rule's own file."""
    import traceback  # Only a rule that fails needs it.

    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == name:
        text = (error.text or "").rstrip("\n")
        column = max(error.offset or 1, 1)
        message = f"this is not valid Python: {error.msg}"
        return Diagnostic("bad-rule", message, "", name, error.lineno or 1, column, text)
    hint = "fix the rule, or leave it out"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == name:
            line, column = frame.lineno or 1, (frame.colno or 0) + 1
            text = _line(name, line)
            return Diagnostic("bad-rule", what, hint, name, line, column, text)
    return Diagnostic("bad-rule", what, hint, name)


def _line(name: str, number: int) -> str:
    try:
        lines = regular_bytes(name).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return lines[number - 1] if 0 < number <= len(lines) else ""
