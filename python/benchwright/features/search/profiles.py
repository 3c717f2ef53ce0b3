"""The profiled load of a search that explains its answer best, and notes about profiled loads.

Decision: every trial of a search is profiled, as every trial of a test is, and one is named as
the explanation of the answer: that of the highest load up to the answer. Above a peak the
server is overloaded, and a profile shows its queue. Only if no lower load was profiled, the next
one above is named.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.observation import CpuProfile
from benchwright.core.results import Finding, states
from benchwright.features.load.trial import LoadEnding
from benchwright.features.search.ramp.types import RampResult
from benchwright.features.search.text import load_value_text
from benchwright.features.search.types import PeakAnswer, SearchTrial
from benchwright.findings.codes import make_finding
from benchwright.findings.observed import profile_note


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
