"""What the reports of all searches have in common: the profiles of loads as lines and as entries
for JSON, which of them explains the answer best, the trials, and the first members of a
document.

Decision: only the profile of the load nearest to the answer is printed in full; for the
others only their directory. Unprintable characters are escaped.

Decision: every trial of a search is profiled, as every trial of a test is, and one is named as
the explanation of the answer: that of the highest load up to the answer. Above a peak the
server is overloaded, and a profile shows its queue. Only if no lower load was profiled, the next
one above is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NotRequired, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.observation import CpuProfile
from benchwright.core.plan import Pairs
from benchwright.core.results import Finding, states
from benchwright.core.untrusted import visible_lines
from benchwright.features.load.plan import LoadEnding
from benchwright.features.search.ramp.types import RampResult
from benchwright.features.search.text import load_value_text, sample_text
from benchwright.features.search.types import PeakAnswer, SearchTrial
from benchwright.findings.codes import make_finding
from benchwright.findings.result import profile_note
from benchwright.report.documents import EntryT, entry, infinite
from benchwright.report.observed import ProfileEntry
from benchwright.views.tests import profile_lines


class ProfileNearestAnswer(msgspec.Struct, frozen=True):
    """The profiled trial of a search that is closest to its answer."""

    trial: SearchTrial
    profile: CpuProfile
    answer: float | None
    """The load of the answer; None if there is none: then this is the last trial."""

    @property
    def place(self) -> str:
        """Its place: `at the answer`, `next below the answer, 452.9/s`, ..."""
        if self.answer is None:
            return "the last trial; there is no answer"
        probe = self.trial.probe
        if probe.rate == self.answer:
            return "at the answer"
        side = "below" if probe.rate < self.answer else "above"
        answer = load_value_text(self.answer, in_users=probe.users is not None)
        return f"next {side} the answer, {answer}"


def answer_load(result: PeakAnswer | RampResult | None) -> float | None:
    """Return the load of a search's answer, a rate [1/s] or users: the peak, or the saturation
    point of a ramp, else the level with the highest throughput."""
    if isinstance(result, PeakAnswer):
        return result.first.peak_rate
    if result is None or not result.points:
        return None
    best = max(result.points, key=lambda point: point.throughput.value)
    return (result.saturation or best).level


def profiled_trials(trials: Sequence[SearchTrial]) -> list[tuple[SearchTrial, CpuProfile]]:
    """Return the trials that have a profile, with the profile; without failed ones."""
    return [
        (trial, trial.trial.profile)
        for trial in trials
        if trial.trial.profile is not None
        and trial.trial.profile.samples
        and trial.trial.ending is not LoadEnding.FAILED
    ]


def profile_nearest_answer(
    trials: Sequence[SearchTrial], answer: float | None
) -> ProfileNearestAnswer | None:
    """Return the profiled trial closest to a search's answer; None if there is none.

    Of several at one load, returns the one with the most samples.
    """
    found = profiled_trials(trials)
    if not found:
        return None
    below = [one for one in found if answer is None or one[0].probe.rate <= answer]
    if answer is None:
        best = found[-1]
    elif below:
        best = max(below, key=lambda one: (one[0].probe.rate, one[1].samples))
    else:
        best = min(found, key=lambda one: (one[0].probe.rate, -one[1].samples))
    return ProfileNearestAnswer(*best, answer)


def search_profile_findings(subject: str, trials: Sequence[SearchTrial]) -> tuple[Finding, ...]:
    """Return the note that loads of a search were profiled; empty if none was."""
    return tuple(profile_note(subject, [profile for _, profile in profiled_trials(trials)]))


def answer_profile_note(
    subject: str, trials: Sequence[SearchTrial], best: ProfileNearestAnswer | None
) -> tuple[Finding, ...]:
    """Return the note that one of these trials is the profiled one closest to its search's answer
    (`best`); empty if none is."""
    if best is None or best.trial not in trials:
        return ()
    shown = states("answer", number=str(best.trial.number), place=best.place)
    return (make_finding("profiled", subject, shown),)


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
            trial=trial.number,
            sample=dict(trial.sample),
            load=trial.probe.rate,
            next_to_answer=trial in named,
            **msgspec.structs.asdict(profile),
        )
        for trial, profile in profiled_trials(trials)
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
