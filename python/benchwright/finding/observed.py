"""What was observed of a test beside its figures: the doubts it gives rise to, its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from benchwright.finding.characterized import doubts_of_io
from benchwright.finding.profiled import doubts_of_profiles
from benchwright.finding.sanity import Claims, with_sample
from benchwright.model.characterized import Characterized
from benchwright.model.finding import Finding
from benchwright.model.observation import Trial
from benchwright.model.plan import Pairs


class ObservedFiles(msgspec.Struct, frozen=True):
    """Where profiles and the characterized trial of a test are kept; empty: there is none."""

    flame_graphs: tuple[str, ...] = ()
    """One for each profile, in the order of trials."""
    io: str = ""
    """The description of the trial's I/O, JSON."""
    block_trace: str = ""


def observed_doubts(
    name: str,
    trials: Sequence[Trial],
    characterized: Characterized | None,
    sample: Pairs = (),
) -> tuple[Finding, ...]:
    """Return what was observed of a test beside its figures and makes them doubtful."""
    found = [*doubts_of_profiles(name, trials)]
    if characterized is not None:
        claimed = with_sample(Claims(), sample).operation_bytes
        found += doubts_of_io(name, characterized, claimed)
    return tuple(found)


def observed_files(
    trials: Sequence[Trial], characterized: Characterized | None, study: PurePath
) -> ObservedFiles:
    """Return the files that a study keeps of a test's profiles and characterized trial."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    graphs = dict.fromkeys(one.svg for one in profiles if one is not None and one.svg)
    files = ObservedFiles(tuple(str(study / graph) for graph in graphs))
    if characterized is None:
        return files
    trace = characterized.trace
    return msgspec.structs.replace(
        files,
        io=str(study / characterized.file) if characterized.file else "",
        block_trace=str(study / trace.file) if trace and trace.operations else "",
    )
