"""Which profiled load of a search says most of its answer, and that loads were profiled.

Decision: every trial of a search is profiled as every trial of a test is, and the one that
explains the answer is named: the highest load up to the answer's, since above a peak the
server is overloaded, and a profile then is of its queue. Only where nothing lower was
profiled the next one above is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.finding.codes import doubt
from benchwright.finding.load_words import number_text
from benchwright.finding.profiled import note_of_profiles
from benchwright.model.finding import Finding
from benchwright.model.peak import LoadEnding
from benchwright.model.profiled import Profile
from benchwright.model.ramp import RampResult
from benchwright.model.search import PeakAnswer, SearchTrial


class NextToAnswer(msgspec.Struct, frozen=True):
    """The profiled trial of a search that lies next to its answer."""

    trial: SearchTrial
    profile: Profile
    answer: float | None
    """The load of the answer; None where there is none, and this is the last trial."""

    @property
    def place(self) -> str:
        """Where it lies: `at the answer`, `next below the answer, 452.9/s`, ..."""
        if self.answer is None:
            return "the last one; there is no answer"
        probe = self.trial.probe
        if probe.rate == self.answer:
            return "at the answer"
        side = "below" if probe.rate < self.answer else "above"
        answer = load_text(self.answer, in_users=probe.users is not None)
        return f"next {side} the answer, {answer}"


def answer_load(result: PeakAnswer | RampResult | None) -> float | None:
    """Return the load that a search came to, a rate [1/s] or users: the peak, or the level at
    which throughput stopped growing, else that of the highest throughput."""
    if isinstance(result, PeakAnswer):
        return result.first.peak_rate
    if result is None or not result.points:
        return None
    best = max(result.points, key=lambda point: point.throughput.value)
    return (result.saturation or best).level


def profiled(trials: Sequence[SearchTrial]) -> list[tuple[SearchTrial, Profile]]:
    """Return the trials that have a profile, with it; one that failed has none worth a look."""
    return [
        (one, one.trial.profile)
        for one in trials
        if one.trial.profile is not None
        and one.trial.profile.samples
        and one.trial.ending is not LoadEnding.FAILED
    ]


def next_to_answer(
    trials: Sequence[SearchTrial], answer: float | None
) -> NextToAnswer | None:
    """Return the profiled trial of a search next to its answer; None where none is.

    Of several at one load it is the one with the most samples.
    """
    found = profiled(trials)
    if not found:
        return None
    below = [one for one in found if answer is None or one[0].probe.rate <= answer]
    if answer is None:
        best = found[-1]
    elif below:
        best = max(below, key=lambda one: (one[0].probe.rate, one[1].samples))
    else:
        best = min(found, key=lambda one: (one[0].probe.rate, -one[1].samples))
    return NextToAnswer(*best, answer)


def load_text(load: float, *, in_users: bool) -> str:
    """Return a load in words: `452.89/s`, `16 users`."""
    if in_users:
        return f"{number_text(load)} user{'' if load == 1 else 's'}"
    return f"{number_text(load)}/s"


def doubts_of_profiled(
    subject: str, trials: Sequence[SearchTrial]
) -> tuple[Finding, ...]:
    """Return the note that loads of a search were profiled; nothing where none was."""
    return tuple(
        note_of_profiles(subject, [profile for _, profile in profiled(trials)])
    )


def note_of_answer(
    subject: str, trials: Sequence[SearchTrial], best: NextToAnswer | None
) -> tuple[Finding, ...]:
    """Return the note that one of these trials is the profiled one next to its search's answer
    (`best`); nothing where none is."""
    if best is None or best.trial not in trials:
        return ()
    evidence = f"of the profiled trials, trial {best.trial.number} is {best.place}"
    return (doubt("profiled", subject, evidence),)
