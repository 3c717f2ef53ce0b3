"""The page of a merge: the answer, the forest plot, the jobs and their machines, the findings."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright import __version__
from benchwright.core.comparison import GateOutcome, Verdict
from benchwright.core.text import moment_text
from benchwright.core.untrusted import visible
from benchwright.features.merge.chart import ratio_panel
from benchwright.features.merge.document import merge_document, status_of
from benchwright.features.merge.types import MergeResult
from benchwright.features.merge.view import jobs_table, judged, named_findings, sentences, title
from benchwright.page.document import ReportDocument, ReportPart
from benchwright.report.answer import finding_groups
from benchwright.report.charts.sheet import Sheet
from benchwright.report.comparison import gates_headline, verdict_headline
from benchwright.report.documents import encode
from benchwright.views.blocks import (
    Block,
    Column,
    Download,
    Downloads,
    Picture,
    Section,
    Tone,
    Words,
    as_sentence,
    count_number,
    finding_lines,
    keyed,
    table_of,
)
from benchwright.views.comparison import Compared, comparison_tiles, verdicts_table

_PART = "p1"


def merge_page(result: MergeResult) -> ReportDocument:
    """Return the page of a merge."""
    part = _part(result)
    return ReportDocument(title=part.title, version=__version__, parts=(part,), shared=())


def _part(result: MergeResult) -> ReportPart:
    comparison = result.comparison
    named = named_findings(result)
    compared = Compared(_PART, [comparison])
    return ReportPart(
        id=_PART,
        title=visible(f"{' and '.join(comparison.arms)} in {len(result.jobs)} jobs"),
        study=visible(", ".join(job.name for job in result.jobs)),
        session=0,
        kind="merge",
        status=status_of(result),
        started=moment_text(max(job.info.started_ns for job in result.jobs)),
        verdict=tuple(as_sentence(visible(one)) for one in _answer(result)),
        tone=_tone(result),
        tiles=tuple(comparison_tiles(compared)),
        findings=finding_lines(finding_groups(named), named),
        sections=(
            Section(
                id=f"{_PART}-jobs",
                title="Jobs",
                lead=visible(f"{title(result)}. Each job is one draw from all machines and hours."),
                blocks=tuple(_blocks(result)),
            ),
            Section(
                id=f"{_PART}-verdicts",
                title="Verdicts",
                lead="Ratios of candidate to baseline in the mean over jobs.",
                blocks=(verdicts_table(comparison, f"{_PART}.c1"),),
            ),
            Section(id=f"{_PART}-studies", title="Studies", blocks=(_studies(result),)),
            Section(
                id=f"{_PART}-data",
                title="Data",
                blocks=(
                    Downloads(
                        (
                            Download(
                                "merge.json",
                                "application/json",
                                encode(merge_document(result)),
                                "what bw compare --merge --json prints",
                            ),
                        )
                    ),
                ),
            ),
        ),
    )


def _answer(result: MergeResult) -> Iterator[str]:
    comparison = result.comparison
    if comparison.gates:
        yield gates_headline(comparison.gates)
    else:
        yield verdict_headline(judged(result)[0].verdict, comparison)
    yield from sentences(result)


def _tone(result: MergeResult) -> Tone:
    comparison = result.comparison
    outcomes = {gate.outcome for gate in comparison.gates}
    verdicts = {ratio.verdict.verdict for ratio in judged(result)}
    if GateOutcome.FAILED in outcomes or comparison.has_failures:
        return "bad"
    if GateOutcome.UNDECIDED in outcomes:
        return "doubtful"
    if outcomes:
        return "good"
    if Verdict.SLOWER in verdicts:
        return "bad"
    return "doubtful" if Verdict.UNDECIDED in verdicts else "good"


def _blocks(result: MergeResult) -> Iterator[Block]:
    for number, ratio in enumerate(judged(result), 1):
        verdict = ratio.verdict
        key = f"{_PART}.m{number}"
        yield Picture(
            id=f"{key}.forest",
            title=visible(f"{verdict.candidate} / {verdict.baseline}, {verdict.metric}"),
            sheet=Sheet("", (ratio_panel(result.comparison, ratio, titled=False),), columns=1),
            wide=True,
            reading="The interval of a job is the one that it reported. That of the mean contains "
            "the difference between jobs, and the last row is where the ratio of one more job is "
            "expected. Dashed lines are no difference, and the limits of equivalence.",
        )
        yield jobs_table(result, ratio, key)


def _studies(result: MergeResult) -> Block:
    return table_of(
        f"{_PART}.studies",
        "The stored comparisons",
        keyed(f"{_PART}.s", result.jobs),
        (
            (Column("Job"), lambda _, job: Words(visible(job.name))),
            (
                Column("Study"),
                lambda _, job: Words(visible(f"{job.study}@{job.session}"), code=True),
            ),
            (Column("Started (UTC)"), lambda _, job: Words(moment_text(job.info.started_ns))),
            (Column("Boot"), lambda _, job: Words(visible(job.info.boot_id[:8]), code=True)),
            (
                Column("Failed blocks", numeric=True),
                lambda key, job: count_number(f"{key}.failed", job.comparison.failed_blocks),
            ),
        ),
    )
