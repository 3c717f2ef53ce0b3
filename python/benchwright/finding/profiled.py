"""That a test's trials were profiled, which costs some time itself."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding.codes import doubt
from benchwright.finding.words import counted, was
from benchwright.model.finding import Finding
from benchwright.model.observation import Trial
from benchwright.model.profiled import Profile


def doubts_of_profiles(subject: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return the note that these trials were profiled; nothing where none was."""
    found = [trial.profile for trial in trials if trial.profile is not None]
    return note_of_profiles(subject, found)


def note_of_profiles(subject: str, profiles: Sequence[Profile]) -> list[Finding]:
    """Return the note that trials with these profiles were profiled; nothing without any."""
    if not profiles:
        return []
    number, hertz = len(profiles), profiles[0].hertz
    evidence = (
        f"{counted(number, 'trial')} {was(number)} profiled, {hertz} samples a second of "
        "each processor"
    )
    return [doubt("profiled", subject, evidence)]
