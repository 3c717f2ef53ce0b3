"""Findings from what was observed beside a test's figures (profiles, characterized I/O), and the files that hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from benchwright.core.characterization import Characterization, Direction, sizes_of
from benchwright.core.observation import CpuProfile, Trial
from benchwright.core.results import Finding
from benchwright.core.text import percent_text, plural, size_text, was
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding

# --------------------------------------------------------------------------------------
# Findings about a characterized trial's I/O: sizes other than stated, lost events.
#
# Decision: sizes are judged one by one, not by their mean: a mean of 8 KiB may be single bytes
# and large blocks. Data of programs that start (832 bytes of a library) are few calls.


def io_findings(
    subject: str, found: Characterization | None, claimed_bytes: float | None = None
) -> list[Finding]:
    """Return the findings about a test's characterized I/O; none where it was not.

    `claimed_bytes`: the stated size of an operation; None: none was stated.
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
    """Return which directions have other sizes; empty where one has the stated size."""
    sizes: dict[Direction, Counter[int]] = {
        "write": sizes_of(characterization, "write"),
        "read": sizes_of(characterization, "read"),
    }
    large = {
        way: counts for way, counts in sizes.items() if counts.total() >= t.FEW_CALLS
    }
    shares = [
        counts[round(claimed_bytes)] / counts.total() for counts in large.values()
    ]
    # Where one direction has the stated size, the other may be something else.
    if not large or max(shares) >= t.SIZE_AS_STATED:
        return ""
    parts = []
    for way, counts in large.items():
        [(size, calls)] = counts.most_common(1)
        share = percent_text(calls / counts.total())
        parts.append(f"{share} of {counts.total():,} {way}s are of {size_text(size)}")
    return f"stated as {size_text(claimed_bytes)}, but {', '.join(parts)}"


# -- That a test's trials were profiled, which costs some time itself ------------------


def profile_note(subject: str, profiles: Sequence[CpuProfile]) -> list[Finding]:
    """Return the note that trials with these profiles were profiled; nothing without any."""
    if not profiles:
        return []
    number, hertz = len(profiles), profiles[0].hertz
    evidence = (
        f"{plural(number, 'trial')} {was(number)} profiled, {hertz} samples a second of "
        "each CPU"
    )
    return [make_finding("profiled", subject, evidence)]


# --------------------------------------------------------------------------------------
# What was observed of a test beside its figures: the findings it gives rise to, its
# files.


class ObservedFiles(msgspec.Struct, frozen=True):
    """Where profiles and the characterized trial of a test are stored; empty: there is none."""

    flame_graphs: tuple[str, ...] = ()
    """One for each profile, in the order of trials."""
    io: str = ""
    """The description of the trial's I/O, JSON."""
    block_trace: str = ""


def observed_files(
    trials: Sequence[Trial], characterized: Characterization | None, study: PurePath
) -> ObservedFiles:
    """Return the files that a study keeps of a test's profiles and characterized trial."""
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
