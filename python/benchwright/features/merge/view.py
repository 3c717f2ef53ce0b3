"""The merged result as blocks, as lines of a terminal, and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import number_text, percent_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.merge.chart import ALL_JOBS, NEXT_JOB, TextScale
from benchwright.features.merge.types import JobRatio, MergedRatio, MergeResult
from benchwright.report.answer import finding_groups
from benchwright.report.comparison import gate_sentence, sentence
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    TableBlock,
    Words,
    count_number,
    estimate_number,
    scale_of,
    share_number,
    table_of,
)
from benchwright.views.stats import markdown_code, markdown_table, markdown_text
from benchwright.views.terminal import table_rows, table_text


def named_findings(result: MergeResult) -> list[tuple[str, Finding]]:
    """Return the findings about the merge, then those of the jobs, each with the name of its job."""
    found = [("", finding) for finding in result.findings]
    found += [(job.name, finding) for job in result.jobs for _, finding in job.findings]
    return list(dict.fromkeys(found))


def judged(result: MergeResult) -> list[MergedRatio]:
    """Return what has a verdict."""
    return [ratio for ratio in result.ratios if ratio.verdict.judged]


def title(result: MergeResult) -> str:
    """Return what was merged: `Against old, 5 jobs, 200 blocks`."""
    comparison = result.comparison
    return f"Against {comparison.arms[0]}, {comparison.stop.detail}"


def sentences(result: MergeResult) -> Iterator[str]:
    """Yield a sentence for each gate and for each judged metric, and how the jobs differ."""
    comparison = result.comparison
    yield from (gate_sentence(gate) for gate in comparison.gates)
    for ratio in judged(result):
        yield sentence(ratio.verdict, comparison)
        yield from spread_sentences(ratio)


def spread_sentences(ratio: MergedRatio) -> Iterator[str]:
    """Yield what the next job will show, and by how much jobs differ, where that is known."""
    next_job, spread, share = ratio.prediction, ratio.spread, ratio.heterogeneity
    if math.isnan(next_job.low):
        return
    level = percent_text(next_job.confidence, 10)
    what = f"{ratio.verdict.candidate}, {ratio.verdict.metric}"
    yield (
        f"{what}: in the next job the ratio is {number_text(next_job.low)} to "
        f"{number_text(next_job.high)} ({level} prediction interval)"
    )
    yield (
        f"{what}: jobs differ by {percent_text(spread.value)} (standard deviation, {level} interval "
        f"{percent_text(spread.low).removesuffix(' %')} to {percent_text(spread.high)}); "
        f"that is {percent_text(share.value)} of the variance between their ratios; the rest is the error "
        "of each job"
    )


class _Row:
    """A row of the table of jobs."""

    def __init__(self, name: str, ratio: Estimate, point: str = "o") -> None:
        self.name, self.ratio, self.point = name, ratio, point
        self.job: JobRatio | None = None
        self.blocks: int | None = None
        self.machine = ""


def jobs_table(
    result: MergeResult, ratio: MergedRatio, key: str, *, drawn: bool = False
) -> TableBlock:
    """Return a row for each job, for the mean over jobs and for the next job. `drawn`: with each
    interval as a picture of characters."""
    verdict = ratio.verdict
    rows: list[tuple[str, _Row]] = []
    for at, (job, machine) in enumerate(zip(ratio.jobs, result.machines, strict=True), 1):
        row = _Row(job.job, job.ratio)
        row.job, row.machine, row.blocks = job, machine, job.blocks
        rows.append((f"{key}.j{at}", row))
    total = _Row(ALL_JOBS, verdict.ratio, "#")
    total.blocks = sum(job.blocks for job in ratio.jobs)
    rows += [(f"{key}.all", total), (f"{key}.next", _Row(NEXT_JOB, ratio.prediction, "-"))]
    scale = scale_of(
        [row.ratio.value for _, row in rows if finite(row.ratio.value) is not None],
        "",
        4,
        ends=[end for _, row in rows for end in (row.ratio.low, row.ratio.high)],
    )
    text_scale = TextScale(ratio, verdict.ratio.low, verdict.ratio.high)

    def number(key: str, row: _Row) -> Number:
        return estimate_number(f"{key}.ratio", row.ratio, scale)

    def blocks(key: str, row: _Row) -> Cell:
        return Words("") if row.blocks is None else count_number(f"{key}.blocks", row.blocks)

    def weight(key: str, row: _Row) -> Cell:
        return Words("") if row.job is None else share_number(f"{key}.weight", row.job.weight)

    def verdict_of(_: str, row: _Row) -> Cell:
        if row.job is None:
            return Words(str(verdict.verdict) if row.name == ALL_JOBS else "")
        return Words(
            str(row.job.own.verdict or "shown"), tone="doubtful" if row.job.doubts else "plain"
        )

    def picture(_: str, row: _Row) -> Cell:
        drawing = text_scale.picture(row.ratio.value, row.ratio.low, row.ratio.high, row.point)
        return Words(drawing if drawn else "")

    level = percent_text(result.comparison.rule.confidence)
    unit = "Blocks" if result.comparison.rule.paired else "Trials"
    return table_of(
        f"{key}.jobs",
        f"{visible(verdict.candidate)} / {visible(verdict.baseline)}, {visible(verdict.metric)}",
        rows,
        (
            (Column("Job"), lambda _, row: Words(visible(row.name))),
            (Column(unit, short=unit.lower(), numeric=True, rank=2), blocks),
            (Column(f"Ratio, {level} interval", numeric=True, short="ratio"), number),
            (Column("Weight", "share of the mean over jobs", numeric=True, rank=3), weight),
            (Column("Verdict", "of the job alone", rank=2), verdict_of),
            (Column("Interval", short=text_scale.heading, rank=1), picture),
            (
                Column("Finding", rank=1),
                lambda _, row: Words(", ".join(row.job.doubts) if row.job else "", tone="doubtful"),
            ),
            (
                Column("Machine", "that of the first job, and how the others differ", rank=1),
                lambda _, row: Words(visible(row.machine) if not drawn else ""),
            ),
        ),
    )


def merge_lines(result: MergeResult, width: int | None) -> Iterator[str]:
    """Yield the report of a merge on a terminal."""
    yield one_line(f"{title(result)}:")
    for number, ratio in enumerate(judged(result)):
        if number:
            yield ""
        table = jobs_table(result, ratio, "", drawn=True)
        if len(result.comparison.verdicts) > 1 and len(judged(result)) > 1:
            yield f"{table.title}:"
        yield from table_text(table, width)
    yield ""
    for job, machine in zip(result.jobs, result.machines, strict=True):
        yield one_line(f"{job.name}: {machine}")
    yield ""
    yield from map(one_line, sentences(result))


_MOST_FINDINGS = 10


def merge_markdown(result: MergeResult, status: str) -> str:
    """Return a summary for people, as `bw export --format markdown` has it of a session."""
    blocks = [
        f"### {markdown_text(f'bw compare --merge, {result.comparison.stop.detail}')}: {status}\n"
    ]
    blocks.append("".join(f"- {markdown_text(one)}\n" for one in sentences(result)))
    for ratio in judged(result):
        table = jobs_table(result, ratio, "")
        blocks.append(f"{markdown_text(table.title)}\n\n{markdown_table(table_rows(table))}")
    groups = finding_groups(named_findings(result))
    lines = []
    for group in groups[:_MOST_FINDINGS]:
        whom = f"{', '.join(group.tests)}: " if group.tests else ""
        text = markdown_text(f"{whom}{group.sentence}")
        lines.append(f"- {group.severity} {markdown_code(group.code)}: {text}\n")
    if len(groups) > _MOST_FINDINGS:
        lines.append(f"- {plural(len(groups) - _MOST_FINDINGS, 'more finding')}\n")
    if lines:
        blocks.append("".join(lines))
    return "\n".join(blocks)
