"""Findings as lines for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

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
    """Return findings for the end of a run, where a table follows.

    What holds for several tests alike is one line, and so are all high z-scores of a
    test; `bw stats` lists each.
    """
    findings = list(findings)
    subjects: dict[Finding, list[str]] = {}
    for finding in findings:
        if finding.code != HIGH_Z_SCORE:
            alike = msgspec.structs.replace(finding, subject="")
            subjects.setdefault(alike, []).append(finding.subject)
    joined = [
        msgspec.structs.replace(alike, subject=", ".join(names))
        for alike, names in subjects.items()
    ]
    counts = Counter(f.subject for f in findings if f.code == HIGH_Z_SCORE)
    lines = [
        f"{subject}: {count} high z-score{'' if count == 1 else 's'} (bw stats lists them)\n"
        for subject, count in counts.items()
    ]
    return finding_lines(joined) + "".join(lines)
