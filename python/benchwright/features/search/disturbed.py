"""What disturbed the loads of a search, in the words of `bw why`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.results import Finding, Severity
from benchwright.findings.explanation import Explanation
from benchwright.report.answer import finding_groups
from benchwright.views.why import cause_text


class DisturbedLoads(msgspec.Struct, frozen=True):
    """What disturbed the loads of a search, for the search's own report."""

    lines: tuple[str, ...] = ()
    """A line for each cause, the worst first, and what it means for the result."""
    findings: tuple[Finding, ...] = ()


def disturbed_loads(loads: Sequence[Explanation]) -> DisturbedLoads:
    """Return the causes of `bw why` that are warnings; a limit that a benchmark may intend to
    reach is a note and left out."""
    named = [
        (one.name, cause)
        for one in loads
        for cause in one.causes
        if cause.severity is not Severity.NOTE
    ]
    if not named:
        return DisturbedLoads()
    groups = finding_groups(named)
    lines = [cause_text(group, len(loads), "load") for group in groups]
    meaning = (
        "the result and its interval hold for the machine as it was; bw why prints each "
        "load and what to do"
    )
    return DisturbedLoads((*lines, meaning), tuple(cause for _, cause in named))
