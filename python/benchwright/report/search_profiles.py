"""The profiles of a search's loads: what is printed under its report, and for `--json`.

Decision: one is told in full, that of the load next to the answer; of the others only where
they are. The text is escaped: names of functions are from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from benchwright.finding.profiled_search import (
    NextToAnswer,
    load_text,
    next_to_answer,
    profiled,
)
from benchwright.model.plan import Pairs
from benchwright.model.search import SearchTrial
from benchwright.model.visible import visible_lines
from benchwright.report.flame_text import profile_lines, profile_object
from benchwright.report.peak_words import sample_text

Answers = Mapping[Pairs, float | None]
"""By sample: the load of the answer, a rate [1/s] or users; None where there is none."""


def search_profiles_text(trials: Sequence[SearchTrial], answers: Answers) -> str:
    """Return the lines of a search's profiles, each ended, after a blank one; empty where
    there is none."""
    lines = [line for best in _named(trials, answers) for line in _lines(best)]
    if not lines:
        return ""
    found = profiled(trials)
    if len(found) > 1:
        place = PurePath(found[0][1].svg).parent
        lines.append(f"profile: all {len(found)} flame graphs are in {place}/")
    return visible_lines("".join(f"{line}\n" for line in ("", *lines)))


def _named(trials: Sequence[SearchTrial], answers: Answers) -> list[NextToAnswer]:
    """Return the trial next to the answer of each sample that has a profile."""
    found = (
        next_to_answer([one for one in trials if one.sample == sample], answer)
        for sample, answer in answers.items()
    )
    return [one for one in found if one is not None]


def _lines(best: NextToAnswer) -> Iterator[str]:
    one = best.trial
    sample = f"{sample_text(one.sample)}: " if one.sample else ""
    load = load_text(one.probe.rate, in_users=one.probe.users is not None)
    yield f"{sample}trial {one.number} at {load} ({best.place}):"
    yield from (f"  {line}" for line in profile_lines(best.profile))


def search_profiles_object(
    trials: Sequence[SearchTrial], answers: Answers
) -> dict[str, Any]:
    """Return the same for JSON: every trial's profile; no member where there is none."""
    named = [best.trial for best in _named(trials, answers)]
    found = [
        {
            "trial": one.number,
            "sample": dict(one.sample),
            "load": one.probe.rate,
            "next_to_answer": one in named,
            **profile_object(profile),
        }
        for one, profile in profiled(trials)
    ]
    return {"profiles": found} if found else {}
