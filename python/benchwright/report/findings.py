"""Findings as lines for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from benchwright.model.finding import Finding, Severity

HIGH_Z_SCORE = "high-z-score"


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: `SUBJECT: what was seen`.

    Beyond a note, its severity, code and remedy too. A note has none of them, so that
    a high z-score reads as in the paper's Figure 2.
    """
    evidence = " ".join(finding.evidence.split())
    if finding.severity is Severity.NOTE:
        return f"{finding.subject}: {evidence}"
    line = f"{finding.subject}: {finding.severity}: {evidence} [{finding.code}]"
    return f"{line} {finding.remedy}" if finding.remedy else line


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return findings one per line, the last ended too; empty without any."""
    return "".join(finding_line(finding) + "\n" for finding in findings)


def condensed_lines(findings: Iterable[Finding]) -> str:
    """Return findings one per line, but all high z-scores of a test as one line.

    For the end of a run, where a table follows; `bw stats` lists them one by one.
    """
    findings = list(findings)
    rest = [finding for finding in findings if finding.code != HIGH_Z_SCORE]
    counts = Counter(f.subject for f in findings if f.code == HIGH_Z_SCORE)
    lines = [
        f"{subject}: {count} high z-score{'' if count == 1 else 's'} (bw stats lists them)\n"
        for subject, count in counts.items()
    ]
    return finding_lines(rest) + "".join(lines)
