"""What a characterized trial's I/O makes doubtful: sizes other than said, lost events.

Decision: sizes are judged one by one, not by their mean: a mean of 8 KiB may be single bytes
and large blocks. Data of programs that start (832 bytes of a library) are few calls.
"""

from __future__ import annotations

from collections import Counter

from benchwright.finding.codes import doubt
from benchwright.finding.machine_words import bytes_text, share_text
from benchwright.model.characterized import Characterized, Direction, sizes_of
from benchwright.model.finding import Finding

AS_CLAIMED = 0.5
"""Share of calls of the size that was said, below which it is told."""
FEW_CALLS = 100
"""Calls in a direction below which nothing is said of sizes."""


def doubts_of_io(
    subject: str, found: Characterized, claimed_bytes: float | None = None
) -> list[Finding]:
    """Return the doubts about a test whose I/O was characterized.

    `claimed_bytes`: how large an operation is said to be; None: it was not said.
    """
    doubts = []
    if found.lost_events:
        evidence = (
            f"{found.lost_events:,} of the trial's calls were not counted: all counts of "
            "its I/O are too low"
        )
        doubts.append(doubt("characterize-lost-events", subject, evidence))
    told = "" if claimed_bytes is None else _not_as_claimed(found, claimed_bytes)
    if told:
        doubts.append(doubt("io-size-not-as-claimed", subject, told))
    return doubts


def _not_as_claimed(found: Characterized, claimed_bytes: float) -> str:
    """Return in words which directions have other sizes; empty where one has those said."""
    sizes: dict[Direction, Counter[int]] = {
        "write": sizes_of(found, "write"),
        "read": sizes_of(found, "read"),
    }
    large = {
        way: counts for way, counts in sizes.items() if counts.total() >= FEW_CALLS
    }
    shares = [
        counts[round(claimed_bytes)] / counts.total() for counts in large.values()
    ]
    # Where one direction is as said the other may be something that was not spoken of.
    if not large or max(shares) >= AS_CLAIMED:
        return ""
    parts = []
    for way, counts in large.items():
        [(size, calls)] = counts.most_common(1)
        share = share_text(calls / counts.total())
        parts.append(f"{share} of {counts.total():,} {way}s are of {bytes_text(size)}")
    return f"said to be {bytes_text(claimed_bytes)}, but {', '.join(parts)}"
