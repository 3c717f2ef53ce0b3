"""What the reports of all kinds of searches have, and what disturbed their loads, in the words of
`bw why`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.results import Finding, Severity
from benchwright.features.search.types import SearchTrial
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
        (load.name, cause)
        for load in loads
        for cause in load.causes
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


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is reported of a search of any kind, which may be incomplete."""

    status: str
    """How it ended, or `interrupted`."""
    detail: str
    trials: tuple[SearchTrial, ...] = ()
    bench_findings: tuple[Finding, ...] = ()
    """Findings about the workbench, independent of what was measured."""
    disturbed: DisturbedLoads = DisturbedLoads()

    @property
    def own_findings(self) -> Sequence[Finding]:
        """The findings about what was measured."""
        raise NotImplementedError

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding once, those of the search first."""
        found = (*self.own_findings, *self.disturbed.findings, *self.bench_findings)
        return tuple(dict.fromkeys(found))

    @property
    def load_s(self) -> float:
        """Time under load of its trials [s]."""
        return sum(trial.trial.lasted_s for trial in self.trials)

    @property
    def cost_s(self) -> float:
        """Time that its trials took [s]."""
        return sum(trial.trial.cost_s for trial in self.trials)
