"""The section on what limited the results: causes, resources over time, the USE table, profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.observation import CpuProfile
from benchwright.core.resource_use import ResourceUse
from benchwright.core.text import plural, some_text
from benchwright.core.untrusted import visible
from benchwright.feature import observers
from benchwright.findings.explanation import Explanation, unlimited_groups
from benchwright.report.answer import FindingGroup, finding_groups
from benchwright.report.charts.use import use_sheet
from benchwright.trial.programs import find_sampler
from benchwright.views.blocks import (
    Block,
    Findings,
    Flame,
    Picture,
    Prose,
    Section,
    as_sentence,
    finding_lines,
)
from benchwright.views.why import use_table, worst_of
from benchwright.watch.sampler import SeriesError, SeriesReducer

_SLICES = 60
"""Intervals of the strip of one long trial."""
_FEW_WINDOWS = 8
"""With fewer windows than this, the strip shows slices of the longest one."""
_MOST_WINDOWS = 40
_MOST_STACKS = 4000
"""Stacks of a profile that the page contains; the rarest beyond them are left out."""


def why_section(
    part: str,
    explanations: Sequence[Explanation],
    uses: Sequence[ResourceUse],
    profiles: Sequence[CpuProfile],
    study: Path,
    noun: str = "test",
) -> Section:
    """Return what limited these results; `uses` and `profiles` are those of
    all trials of the session."""
    groups = finding_groups(
        (explanation.name, cause) for explanation in explanations for cause in explanation.causes
    )
    worst = worst_of(groups, explanations)
    blocks: list[Block] = list(_causes(groups, explanations, noun))
    blocks += _strip(part, uses, study)
    if worst is not None and worst.window is not None:
        blocks += [use_table(worst, part, whole=whole) for whole in (False, True)]
    blocks += _flame(part, profiles, study)
    return Section(
        id=f"{part}-why",
        title="Why",
        lead="What limited the result, with the evidence.",
        blocks=tuple(blocks),
    )


def _causes(
    groups: Sequence[FindingGroup], explanations: Sequence[Explanation], noun: str
) -> Iterator[Block]:
    named = [
        (explanation.name, cause) for explanation in explanations for cause in explanation.causes
    ]
    if groups:
        yield Findings(
            tuple(
                msgspec.structs.replace(
                    line, evidence=_whom(group, explanations, noun) + line.evidence
                )
                for group, line in zip(groups, finding_lines(groups, named), strict=True)
            )
        )
    for names, text in unlimited_groups(explanations):
        whom = f"{some_text(names, 6)}: "
        if len(names) == len(explanations):
            whom = f"All {plural(len(names), noun)}: " if len(names) > 1 else ""
        # A name stays as it is; the sentence after it begins in lower case.
        yield Prose(visible(f"{whom}{text}." if whom else as_sentence(text)))


def _whom(group: FindingGroup, explanations: Sequence[Explanation], noun: str) -> str:
    if len(explanations) == 1:
        return ""
    return f"{len(group.tests)} of {plural(len(explanations), noun)}: "


def _strip(part: str, uses: Sequence[ResourceUse], study: Path) -> Iterator[Picture]:
    """Yield the resources over time, if any use was recorded."""
    if not uses:
        return
    shown, what = shown_uses(uses, study)
    yield Picture(
        id=f"{part}-use",
        title="Resources over time",
        sheet=use_sheet(shown),
        brief=len(shown) > _SLICES // 3,
        reading="Each row is a resource. The color is the share of it that was busy, and the number "
        f"at the name is the highest share. {as_sentence(what)} A row in the color of 100 % is at "
        "its limit.",
    )


def shown_uses(uses: Sequence[ResourceUse], study: Path) -> tuple[list[ResourceUse], str]:
    """Return the intervals of a strip of resources and what they are: some of the uses of trials,
    of which there is one at least, or slices of the longest of a few."""
    if len(uses) < _FEW_WINDOWS:
        longest = max(uses, key=lambda use: use.seconds)
        try:
            slices = _slices(longest, study)
        except BenchError as error:
            # A study is read on a machine without the native programs, too.
            return list(uses), f"each column is a trial; not the time inside it: {error.message}"
        if len(slices) > len(uses):
            return slices, "the time is that inside the longest trial"
    elif len(uses) > _MOST_WINDOWS:
        step = -(-len(uses) // _MOST_WINDOWS)
        return list(uses[::step]), f"each column is every {step}th trial"
    return list(uses), "each column is a trial or a few short ones"


def _slices(use: ResourceUse, study: Path) -> list[ResourceUse]:
    """Return the use of slices of a trial; none without its series, which is optional, because the
    uses of the trials are in the journal. Raises BenchError if no program can read it."""
    if not use.series:
        return []
    try:
        reducer = SeriesReducer(find_sampler())
        return reducer.slices(study / use.series, use.series, use.begin_ns, use.end_ns, _SLICES)
    except (OSError, SeriesError, OverflowError):
        return []


# -- Profiles --------------------------------------------------------------------------


def _flame(part: str, profiles: Sequence[CpuProfile], study: Path) -> Iterator[Block]:
    if not profiles:
        return
    try:
        found = (kind.stacks(profiles, study) for kind in observers())
        folded = next((stacks for stacks in found if stacks is not None), None)
    except (OSError, ValueError) as why:
        yield Prose(visible(f"The profile cannot be read: {why}"), "doubtful")
        return
    if folded is None or not folded.samples:
        return
    ordered = sorted(folded.counts.items(), key=lambda pair: (-pair[1], pair[0]))
    kept = ordered[:_MOST_STACKS]
    yield Flame(
        id=f"{part}-flame",
        title=f"Where CPU time went: {plural(folded.samples, 'sample')} of all trials",
        reading="The width of a box is the share of the samples in a function and in the functions "
        "that it calls. Callers are below. Blue boxes are the kernel. Boxes below 0.1 % are left out.",
        stacks=tuple((";".join(stack), count) for stack, count in sorted(kept)),
    )
