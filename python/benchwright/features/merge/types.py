"""The jobs of a merged comparison, and its result.

A job is one stored comparison: a session of a study, mostly of another machine, boot or CI job.
"""

from __future__ import annotations

import msgspec

from benchwright.core.comparison import ComparisonResult, MetricVerdict
from benchwright.core.machine import MachineCapture
from benchwright.core.plan import TestPlan
from benchwright.core.results import Estimate, Finding
from benchwright.decide.compare.evidence import ComparisonHistory
from benchwright.study.journal import SessionInfo

LEAST_JOBS = 2
"""A single job shows nothing of the difference between jobs."""


class Job(msgspec.Struct, frozen=True):
    """A stored comparison, as the journal has it."""

    text: str
    """As the user named it: `job-3`, `study@2`."""
    name: str
    """Distinct among the jobs."""
    study: str
    session: int
    info: SessionInfo
    machine: MachineCapture | None
    comparison: ComparisonResult
    plans: tuple[TestPlan, ...]
    """Of the arms, the baseline first."""
    commits: tuple[tuple[str, str], ...]
    """Commit and build of each arm that was checked out."""
    history: ComparisonHistory
    findings: tuple[tuple[str, Finding], ...]
    """About its session and its arms, each with the name of the arm or an empty one."""


class JobRatio(msgspec.Struct, frozen=True):
    """What one job shows about one metric of one candidate."""

    job: str
    own: MetricVerdict
    """As the job reported it."""
    weight: float
    """Share of the mean; 0 without a ratio."""
    doubts: tuple[str, ...]
    """Codes of the findings of the job that would hold a gate on this metric."""

    @property
    def ratio(self) -> Estimate:
        """The job's ratio with the interval that it reported; NaN where it has none."""
        return self.own.ratio

    @property
    def blocks(self) -> int:
        """Blocks that count; trials of the candidate, where the arms are not paired by them."""
        return self.own.n_candidate if self.own.blocks is None else self.own.blocks


class MergedRatio(msgspec.Struct, frozen=True):
    """One metric of one candidate over all jobs."""

    verdict: MetricVerdict
    """On the mean over jobs."""
    jobs: tuple[JobRatio, ...]
    spread: Estimate
    """Standard deviation of the jobs' true ratios, as a share: 0.02 is 2 %."""
    heterogeneity: Estimate
    """Share of the variance between the jobs' ratios that is not their own error (I squared)."""
    prediction: Estimate
    """The true ratio of the next job; without value, its ends are the interval."""


class MergeResult(msgspec.Struct, frozen=True):
    """One verdict from several jobs."""

    jobs: tuple[Job, ...]
    machines: tuple[str, ...]
    """Of each job: the first one's machine, then how the others differ from it."""
    comparison: ComparisonResult
    """The merged one; its intervals are about the mean over jobs."""
    ratios: tuple[MergedRatio, ...]
    """In the order of the verdicts."""
    findings: tuple[Finding, ...]
    """About the jobs together."""
