"""Findings as lines for a person."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.model.finding import Finding, Severity
from benchwright.model.visible import one_line, visible


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: `SUBJECT: what was seen`.

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
