"""The JSON document of a merge."""

from __future__ import annotations

import msgspec

from benchwright.core.comparison import Verdict
from benchwright.core.quantity import finite
from benchwright.features.merge.types import JobRatio, MergedRatio, MergeResult
from benchwright.features.merge.view import named_findings
from benchwright.report.answer import FindingGroup, finding_groups
from benchwright.report.comparison import GateEntry, RatioEntry, VerdictEntry, comparison_entry
from benchwright.report.documents import Ends, FileEntry, FindingEntry, entries, entry


class JobEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A job: one stored comparison."""

    name: str
    study: str
    session: int
    boot_id: str
    started_ns: int
    machine: str
    """That of the first job; of the others, how it differs."""
    blocks: int
    failed_blocks: int
    seed: int
    findings: tuple[FindingEntry, ...]


class JobRatioEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What one job shows of one metric of one candidate."""

    job: str
    ratio: RatioEntry
    """With the interval that the job reported."""
    blocks: int
    weight: float
    """Share of the mean over jobs; 0 without a ratio."""
    verdict: Verdict | None
    doubts: tuple[str, ...]
    """Codes of the findings of the job that make its ratio doubtful."""


class SpreadEntry(msgspec.Struct, frozen=True, kw_only=True):
    """By how much jobs differ, beyond the error of each."""

    metric: str
    candidate: str
    jobs: tuple[JobRatioEntry, ...]
    between_jobs: float | None
    """Standard deviation of the jobs' true ratios, as a share."""
    between_jobs_interval: Ends
    heterogeneity: float | None
    """Share of the variance between the jobs' ratios that is not their own error (I squared)."""
    heterogeneity_interval: Ends
    prediction: Ends
    """Where the true ratio of the next job is, with the rule's confidence."""


class MergeDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/merge/1"
):
    """One verdict from several jobs."""

    status: str
    """`complete`, or `undecided`."""
    detail: str
    exit_status: int
    jobs: tuple[JobEntry, ...]
    arms: tuple[str, ...]
    design: str
    margin: float
    confidence: float
    power: float
    verdicts: tuple[VerdictEntry, ...]
    """About the mean over jobs; `blocks` and `n` are those of all jobs."""
    spread: tuple[SpreadEntry, ...]
    """One for each verdict, in their order."""
    accepted: tuple[str, ...]
    gates: tuple[GateEntry, ...]
    findings: tuple[FindingEntry, ...]
    """About the jobs together."""
    finding_groups: tuple[FindingGroup, ...]
    """`tests` are the names of jobs."""
    files: tuple[FileEntry, ...]
    """That were written beside it."""


def status_of(result: MergeResult) -> str:
    """Return `undecided` if a question is open, else `complete`."""
    return "undecided" if result.comparison.exit_status == 3 else "complete"


def merge_document(result: MergeResult, files: tuple[FileEntry, ...] = ()) -> MergeDocument:
    """Return the document of a merge."""
    comparison = result.comparison
    known = comparison_entry(comparison)
    named = named_findings(result)
    return MergeDocument(
        status=status_of(result),
        detail=comparison.stop.detail,
        exit_status=comparison.exit_status,
        jobs=tuple(
            JobEntry(
                name=job.name,
                study=job.study,
                session=job.session,
                boot_id=job.info.boot_id,
                started_ns=job.info.started_ns,
                machine=machine,
                blocks=job.history.blocks,
                failed_blocks=job.comparison.failed_blocks,
                seed=job.comparison.rule.seed,
                findings=entries(FindingEntry, [finding for _, finding in job.findings]),
            )
            for job, machine in zip(result.jobs, result.machines, strict=True)
        ),
        arms=known.arms,
        design=known.design,
        margin=known.margin,
        confidence=known.confidence,
        power=known.power,
        verdicts=known.verdicts,
        spread=tuple(map(_spread_entry, result.ratios)),
        accepted=known.accepted,
        gates=known.gates,
        findings=entries(FindingEntry, result.findings),
        finding_groups=finding_groups(named),
        files=files,
    )


def _spread_entry(ratio: MergedRatio) -> SpreadEntry:
    spread, share, prediction = ratio.spread, ratio.heterogeneity, ratio.prediction
    return SpreadEntry(
        metric=ratio.verdict.metric,
        candidate=ratio.verdict.candidate,
        jobs=tuple(map(_job_entry, ratio.jobs)),
        between_jobs=finite(spread.value),
        between_jobs_interval=(finite(spread.low), finite(spread.high)),
        heterogeneity=finite(share.value),
        heterogeneity_interval=(finite(share.low), finite(share.high)),
        prediction=(finite(prediction.low), finite(prediction.high)),
    )


def _job_entry(job: JobRatio) -> JobRatioEntry:
    own = job.own
    return entry(JobRatioEntry, job, ratio=entry(RatioEntry, job.ratio), verdict=own.verdict)
