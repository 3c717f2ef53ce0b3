"""Lines that several reports have: findings, why a test stopped, what a failed command wrote; whole texts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import StopDecision
from benchwright.core.results import Finding, Severity
from benchwright.core.text import duration_text, plural
from benchwright.core.untrusted import one_line, visible, visible_lines

# -- Findings as lines for a person ----------------------------------------------------


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: `SUBJECT: evidence`.

    Beyond a note, its severity, code and remedy too. What is not printable is escaped.
    """
    subject, evidence = visible(finding.subject), one_line(finding.evidence)
    if finding.severity is Severity.NOTE:
        return f"{subject}: {evidence}"
    line = f"{subject}: {finding.severity}: {evidence} [{finding.code}]"
    return f"{line} {visible(finding.remedy)}" if finding.remedy else line


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return findings one per line, the last ended too; empty without any."""
    return "".join(finding_line(finding) + "\n" for finding in findings)


def condensed_lines(findings: Iterable[Finding]) -> str:
    """Return findings for the end of a run, where a table follows.

    What holds for several tests alike is one line; `bw stats` lists each.
    """
    subjects: dict[Finding, list[str]] = {}
    for finding in findings:
        alike = msgspec.structs.replace(finding, subject="")
        subjects.setdefault(alike, []).append(finding.subject)
    return finding_lines(
        msgspec.structs.replace(alike, subject=", ".join(names))
        for alike, names in subjects.items()
    )


# -- A report as text -------------------------------------------------------------------


def report_text(*blocks: Iterable[str], findings: Iterable[Finding] = ()) -> str:
    """Return blocks of lines, then findings, with a blank line between two that have any.

    It ends with a newline; what is not printable is escaped.
    """
    parts = ["\n".join(block) for block in (*blocks, map(finding_line, findings))]
    return visible_lines("\n\n".join(part for part in parts if part)) + "\n"


def spent_text(load_s: float, cost_s: float, trials: int) -> str:
    """Return what a search cost: `40 s of load, 52 s in total, in 4 trials`."""
    load, cost = duration_text(load_s), duration_text(cost_s)
    return f"{load} of load, {cost} in total, in {plural(trials, 'trial')}"


# -- Why a test ended, as a line -------------------------------------------------------


def stop_line(name: str, stop: StopDecision) -> str:
    """Return `NAME: stopped: why (looks)`, with `undecided` where no answer came."""
    verdict = "stopped" if stop.answered else "stopped undecided"
    looks = ""
    if stop.looks > 1 and " looks" not in stop.detail:
        looks = f" ({stop.looks} looks)"
    text = f"{name}: {verdict}: {stop.detail or stop.reason} [{stop.reason}]{looks}"
    return one_line(text)


# -- What a failed command wrote last --------------------------------------------------
#
# A program's text is anybody's: what is not printable is escaped.


def failure_text(name: str, trial: Trial) -> str:
    """Return the last lines of a failed trial's stderr and where the rest is."""
    error_text = trial.error_text
    assert error_text is not None, (
        "only a trial that failed and said something is shown"
    )
    head = visible(f"{name}: trial {trial.epoch} failed; the end of {error_text.file}:")
    return "".join(
        [f"{head}\n", *(f"    {visible(line)}\n" for line in error_text.lines)]
    )
