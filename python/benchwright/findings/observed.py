"""Findings from profiles and characterized I/O of a test, and the files that contain these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from benchwright.core.observation import CpuProfile, Trial
from benchwright.core.results import Finding
from benchwright.core.text import percent_text, plural, size_text, was
from benchwright.features.profile.types import Characterization, Direction, sizes_of
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding

# --------------------------------------------------------------------------------------
# Findings about a characterized trial's I/O: sizes other than stated, lost events.
#
# Decision: sizes are judged one by one, not by their mean: a mean of 8 KiB may come from single
# bytes and large blocks. The start of programs (832 bytes of a library) causes few calls.


def io_findings(
    subject: str, found: Characterization | None, claimed_bytes: float | None = None
) -> list[Finding]:
    """Return the findings about a test's characterized I/O; empty if it has none.

    `claimed_bytes`: the stated size of an operation, if any.
    """
    if found is None:
        return []
    doubts = []
    if found.lost_events:
        evidence = (
            f"{found.lost_events:,} of the trial's calls were not counted: all counts of "
            "its I/O are too low"
        )
        doubts.append(make_finding("characterize-lost-events", subject, evidence))
    told = "" if claimed_bytes is None else _not_as_claimed(found, claimed_bytes)
    if told:
        doubts.append(make_finding("io-size-not-as-claimed", subject, told))
    return doubts


def _not_as_claimed(characterization: Characterization, claimed_bytes: float) -> str:
    """Return a text about directions with other sizes; empty if one has the stated size."""
    sizes: dict[Direction, Counter[int]] = {
        "write": sizes_of(characterization, "write"),
        "read": sizes_of(characterization, "read"),
    }
    large = {way: counts for way, counts in sizes.items() if counts.total() >= t.FEW_CALLS}
    shares = [counts[round(claimed_bytes)] / counts.total() for counts in large.values()]
    # If one direction has the stated size, the other may have another purpose.
    if not large or max(shares) >= t.SIZE_AS_STATED:
        return ""
    parts = []
    for way, counts in large.items():
        [(size, calls)] = counts.most_common(1)
        share = percent_text(calls / counts.total())
        parts.append(f"{share} of {counts.total():,} {way}s are of {size_text(size)}")
    return f"stated as {size_text(claimed_bytes)}, but {', '.join(parts)}"


# -- The note that trials were profiled, which costs some time -------------------------


def profile_note(subject: str, profiles: Sequence[CpuProfile]) -> list[Finding]:
    """Return the note that trials were profiled; empty without profiles."""
    if not profiles:
        return []
    number, hertz = len(profiles), profiles[0].hertz
    evidence = (
        f"{plural(number, 'trial')} {was(number)} profiled, {hertz} samples a second of each CPU"
    )
    return [make_finding("profiled", subject, evidence)]


# --------------------------------------------------------------------------------------
# The files of a test's profiles and characterized I/O.


class ObservedFiles(msgspec.Struct, frozen=True):
    """Paths of a test's profiles and characterized trial; empty: there is none."""

    flame_graphs: tuple[str, ...] = ()
    """One for each profile, in the order of trials."""
    io: str = ""
    """The characterized I/O of the trial, as JSON."""
    block_trace: str = ""


def observed_files(
    trials: Sequence[Trial], characterized: Characterization | None, study: PurePath
) -> ObservedFiles:
    """Return the files of a test's profiles and characterized trial in a study."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    graphs = dict.fromkeys(
        profile.svg for profile in profiles if profile is not None and profile.svg
    )
    files = ObservedFiles(tuple(str(study / graph) for graph in graphs))
    if characterized is None:
        return files
    trace = characterized.trace
    return msgspec.structs.replace(
        files,
        io=str(study / characterized.file) if characterized.file else "",
        block_trace=str(study / trace.file) if trace and trace.operations else "",
    )
