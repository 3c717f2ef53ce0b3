"""Findings about a characterized trial's I/O: sizes other than stated, lost events.

Decision: sizes are judged one by one, not by their mean: a mean of 8 KiB may come from single
bytes and large blocks. The start of programs (832 bytes of a library) causes few calls.
"""

from __future__ import annotations

from collections import Counter

from benchwright.core.results import Figure, Finding, states
from benchwright.core.text import percent_text, size_text
from benchwright.features.profile.types import Characterization, Direction, sizes_of
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding


def io_findings(
    subject: str, found: Characterization, claimed_bytes: float | None = None
) -> list[Finding]:
    """Return the findings about a test's characterized I/O.

    `claimed_bytes`: the stated size of an operation, if any.
    """
    doubts = []
    if found.lost_events:
        shown = states(lost=found.lost_events)
        doubts.append(make_finding("characterize-lost-events", subject, shown))
    sizes = "" if claimed_bytes is None else _not_as_claimed(found, claimed_bytes)
    if claimed_bytes is not None and sizes:
        shown = states("calls", stated=Figure(claimed_bytes, "B"), sizes=sizes)
        doubts.append(make_finding("io-size-not-as-claimed", subject, shown))
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
    return ", ".join(parts)
