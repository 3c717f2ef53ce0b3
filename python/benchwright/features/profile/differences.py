"""Difference flame graphs of a comparison whose trials were profiled.

Decision: they are drawn once, at the end, from the stacks stored with the trials: each
candidate against the baseline, the first arm. A file that cannot be read or written is
reported; it is not an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchwright.core.observation import Trial, profiles_of
from benchwright.features.profile.flame_graph import change_lines, difference_svg, share_changes
from benchwright.features.profile.profiler import stored_stacks
from benchwright.study.logs import file_name

Arm = tuple[str, Sequence[Trial]]


def difference_lines(arms: Sequence[Arm], study: Path, session: int) -> Iterator[str]:
    """Write `watched/sN/difference-ARM.svg` of each candidate, and yield the lines to print.

    `arms`: names and trials, the baseline first. No output unless the baseline and a candidate were
    profiled.
    """
    if len(arms) < 2:
        return
    baseline, *candidates = arms
    for candidate in candidates:
        try:
            yield from _difference((baseline, candidate), study, session)
        except (OSError, ValueError) as why:
            yield f"profile: no difference of {candidate[0]}: {why}"


def _difference(arms: tuple[Arm, Arm], study: Path, session: int) -> Iterator[str]:
    before, after = (stored_stacks(profiles_of(trials), study) for _, trials in arms)
    if not before.counts or not after.counts:
        return
    names = arms[0][0], arms[1][0]
    file = Path("watched", f"s{session}", f"difference-{file_name(names[1])}.svg")
    (study / file).write_text(difference_svg(before, after, names))
    found = list(change_lines(share_changes(before, after)))
    for line in found or ["no function's share differs beyond the noise"]:
        yield f"{names[1]} against {names[0]}: {line}"
    yield f"{names[1]} against {names[0]}: difference flame graph {file}"
