"""Text that several reports share: findings, stop lines, stderr of failed trials, whole reports."""

from __future__ import annotations

from collections.abc import Iterable

from benchwright.core.observation import Trial
from benchwright.core.plan import StopDecision
from benchwright.core.results import Finding, Severity
from benchwright.core.untrusted import one_line, visible, visible_lines

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
