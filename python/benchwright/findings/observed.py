"""The note that trials were profiled, and the files of what observers recorded of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from benchwright.core.observation import CpuProfile, Trial
from benchwright.core.results import Finding, states
from benchwright.feature import recorded_by
from benchwright.findings.codes import make_finding

# -- The note that trials were profiled, which costs some time -------------------------


def profile_note(subject: str, profiles: Sequence[CpuProfile]) -> list[Finding]:
    """Return the note that trials were profiled; empty without profiles."""
    if not profiles:
        return []
    shown = states(trials=len(profiles), hertz=profiles[0].hertz)
    return [make_finding("profiled", subject, shown)]


# --------------------------------------------------------------------------------------
# The files of a test's profiles and characterized I/O.


class ObservedFiles(msgspec.Struct, frozen=True):
    """Paths of a test's profiles and characterized trial; None: there is none."""

    flame_graphs: tuple[str, ...] = ()
    """One for each profile, in the order of trials."""
    io: str | None = None
    """The characterized I/O of the trial, as JSON."""
    block_trace: str | None = None


def observed_files(
    trials: Sequence[Trial], recorded: Mapping[str, Any], study: PurePath
) -> ObservedFiles:
    """Return the files of a test's profiles in a study, and those of what observers recorded of the
    test (`recorded_by`)."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    graphs = dict.fromkeys(
        profile.svg for profile in profiles if profile is not None and profile.svg
    )
    files = ObservedFiles(tuple(str(study / graph) for graph in graphs))
    for kind, record in recorded_by(recorded):
        files = msgspec.structs.replace(files, **kind.files(record, study))
    return files
