"""Sizes of I/O that are not as claimed, and lost events."""

from __future__ import annotations

from benchwright.features.profile.report import io_findings
from benchwright.features.profile.types import Characterization, Direction, SizeCalls, Transfer


def moved(direction: Direction, *sizes: tuple[int, int], kind: str = "file") -> Transfer:
    """Return a transfer of so many calls of each size."""
    return Transfer(
        call=direction,
        direction=direction,
        kind=kind,
        calls=sum(calls for _, calls in sizes),
        bytes=sum(size * calls for size, calls in sizes),
        sizes=tuple(SizeCalls(*size) for size in sizes),
    )


def found(*transfers: Transfer, lost: int = 0) -> Characterization:
    return Characterization(1.0, "bpftrace", transfers, lost_events=lost)


def test_single_bytes_are_no_blocks_whatever_their_mean() -> None:
    io = found(moved("write", (1, 9000), (73_728_000, 1)))
    [doubt] = io_findings("bonnie:1", io, 8192)
    assert (doubt.code, doubt.subject) == ("io-size-not-as-claimed", "bonnie:1")
    assert "of 9,001 writes are of 1 B" in doubt.evidence


def test_sizes_as_claimed_are_not_doubted() -> None:
    assert io_findings("a", found(moved("write", (4096, 900), (832, 90))), 4096) == []


def test_one_direction_as_claimed_is_enough() -> None:
    io = found(moved("read", (4096, 900)), moved("write", (60, 500)))
    assert io_findings("a", io, 4096) == []


def test_few_calls_pipes_and_what_was_not_said_are_no_doubt() -> None:
    assert io_findings("a", found(moved("write", (1, 99))), 4096) == []
    assert io_findings("a", found(moved("write", (1, 999), kind="pipe")), 4096) == []
    assert io_findings("a", found(moved("write", (1, 999)))) == []


def test_lost_events_are_told() -> None:
    [doubt] = io_findings("a", found(lost=5))
    assert doubt.code == "characterize-lost-events"
    assert doubt.evidence.startswith("5 of the trial's calls")
