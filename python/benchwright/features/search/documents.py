"""What the reports of all searches have in common: the profiles of loads, as lines and entries for
JSON, the trials, and the first members of a document.

Decision: only the profile of the load nearest to the answer is printed in full; for the
others only their directory. Unprintable characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NotRequired, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.plan import Pairs
from benchwright.core.untrusted import visible_lines
from benchwright.features.search.profiles import (
    ProfileNearestAnswer,
    profile_nearest_answer,
    profiled_trials,
)
from benchwright.features.search.text import load_value_text, sample_text
from benchwright.features.search.types import SearchTrial
from benchwright.report.documents import EntryT, entry, infinite
from benchwright.report.observed import ProfileEntry, profile_lines

Answers = Mapping[Pairs, float | None]
"""The load of the answer for each sample: a rate [1/s] or users; None without an answer."""


def search_profiles_text(trials: Sequence[SearchTrial], answers: Answers) -> str:
    """Return a blank line and the lines of a search's profiles, each ending with a newline;
    empty without profiles."""
    lines = [line for best in _next_to_answers(trials, answers) for line in _answer_lines(best)]
    if not lines:
        return ""
    found = profiled_trials(trials)
    if len(found) > 1:
        place = PurePath(found[0][1].svg).parent
        lines.append(f"profile: all {len(found)} flame graphs are in {place}/")
    return visible_lines("".join(f"{line}\n" for line in ("", *lines)))


def _next_to_answers(trials: Sequence[SearchTrial], answers: Answers) -> list[ProfileNearestAnswer]:
    """Return, for each sample with profiles, the profiled trial nearest to its answer."""
    nearest_answers = (
        profile_nearest_answer([trial for trial in trials if trial.sample == sample], answer)
        for sample, answer in answers.items()
    )
    return [nearest_answer for nearest_answer in nearest_answers if nearest_answer is not None]


def _answer_lines(best: ProfileNearestAnswer) -> Iterator[str]:
    trial = best.trial
    sample = f"{sample_text(trial.sample)}: " if trial.sample else ""
    load = load_value_text(trial.probe.rate, in_users=trial.probe.users is not None)
    yield f"{sample}trial {trial.number} at {load} ({best.place}):"
    yield from (f"  {line}" for line in profile_lines(best.profile))


def search_profiles(trials: Sequence[SearchTrial], answers: Answers) -> tuple[ProfileEntry, ...]:
    """Return every trial's profile for JSON."""
    named = [best.trial for best in _next_to_answers(trials, answers)]
    return tuple(
        ProfileEntry(
            trial=one.number,
            sample=dict(one.sample),
            load=one.probe.rate,
            next_to_answer=one in named,
            **msgspec.structs.asdict(profile),
        )
        for one, profile in profiled_trials(trials)
    )


def search_trial_entry(kind: type[EntryT], one: SearchTrial, **members: object) -> EntryT:
    """Return a trial of a search as an entry of this type; `members` are the type's own
    members."""
    trial = one.trial
    return entry(
        kind,
        trial,
        number=one.number,
        duration=trial.duration_s,
        values=dict(trial.values),
        infinite=infinite(trial.values),
        failure=trial.failure or None,
        purpose=one.probe.purpose,
        started_ns=trial.started_ns or None,
        making_s=trial.making_s or UNSET,
        **members,
    )


class SearchHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first members of a search's document: its study and session, and how it ended."""

    study: str
    session: int
    exit_status: int
    profiles: tuple[ProfileEntry, ...] | UnsetType = UNSET
    status: str
    detail: str


class StoredSearch(TypedDict):
    """The members of `SearchHead` that come from the session, not from the report."""

    study: str
    session: int
    exit_status: int
    profiles: NotRequired[tuple[ProfileEntry, ...] | UnsetType]
