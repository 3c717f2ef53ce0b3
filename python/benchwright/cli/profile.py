"""The difference flame graphs of a comparison whose trials were profiled.

Decision: drawn once, at the end, from the stacks that are kept with the trials: each candidate
against the first arm, the baseline. What cannot be read or written is told and ends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchwright.model.profiled import Folded, Stack
from benchwright.probe.folded import read_folded
from benchwright.study.names import file_name

if TYPE_CHECKING:
    from benchwright.model.observation import Trial
    from benchwright.session.test import OpenTest


def difference_lines(
    tests: Sequence[OpenTest], study: Path, session: int
) -> Iterator[str]:
    """Write `watched/sN/difference-ARM.svg` of each candidate, and yield what to tell.

    `tests` are the arms, the baseline first. Nothing where no two of them were profiled.
    """
    if len(tests) < 2:
        return
    baseline, *candidates = tests
    for candidate in candidates:
        try:
            yield from _difference((baseline, candidate), study, session)
        except (OSError, ValueError) as why:
            yield f"profile: no difference of {candidate.name}: {why}"


def _difference(
    arms: tuple[OpenTest, OpenTest], study: Path, session: int
) -> Iterator[str]:
    from benchwright.report.flame_difference import (
        change_lines,
        changes,
        difference_svg,
    )

    before, after = (stacks_of(arm.trials, study) for arm in arms)
    if not before.counts or not after.counts:
        return
    names = arms[0].name, arms[1].name
    file = Path("watched", f"s{session}", f"difference-{file_name(names[1])}.svg")
    (study / file).write_text(difference_svg(before, after, names))
    found = list(change_lines(changes(before, after)))
    for line in found or ["no function's share differs beyond the noise"]:
        yield f"{names[1]} against {names[0]}: {line}"
    yield f"{names[1]} against {names[0]}: difference flame graph {file}"


def stacks_of(trials: Sequence[Trial], study: Path) -> Folded:
    """Return the stacks of all trials that count; what several share is taken once.

    Raises OSError, or ValueError for a file that is not as it was written.
    """
    profiles = (trial.profile for trial in trials if not trial.warmup)
    files = sorted({profile.folded for profile in profiles if profile is not None})
    together: Counter[Stack] = Counter()
    for file in files:
        together.update(read_folded((study / file).read_text(), file).counts)
    return Folded(dict(together))
