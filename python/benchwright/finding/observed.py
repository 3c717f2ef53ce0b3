"""The doubts that profiles and the characterized trial of a test give rise to."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding.characterized import doubts_of_io
from benchwright.finding.profiled import doubts_of_profiles
from benchwright.finding.sanity import Claims, with_sample
from benchwright.model.characterized import Characterized
from benchwright.model.finding import Finding
from benchwright.model.observation import Trial
from benchwright.model.plan import Pairs


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
