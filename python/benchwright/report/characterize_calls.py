"""The system calls of a characterized trial, for a person.

Decision: files and devices first and by themselves, because shares, order and places mean
something only there; pipes, sockets and character devices have sizes and times. Times are told
as the powers of two that they were counted in: a percentile is below the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.load import time_words
from benchwright.model.characterized import (
    ON_DISK,
    PLACED,
    Characterized,
    FileSystemUse,
    LatencyCalls,
    OtherCalls,
    SizeCalls,
    Transfer,
    latency_ns,
    transfers_of,
)
from benchwright.report.load import bytes_words
from benchwright.report.trace_stat import share_words

_SIZES = 3
_TRANSFERS = 8
_OTHERS = 6
RARE = 0.001
"""Share of calls below which a size is not told beside the commonest."""
_AT_ONCE = 0.01
"""Calls under way below which nothing is said of it."""
_SHARES = (("p50", 0.5), ("p99", 0.99), ("all", 1.0))


def call_lines(found: Characterized) -> Iterator[str]:
    """Yield the calls on files and devices, the others, and those that move nothing."""
    on_disk = [one for one in found.transfers if one.kind in ON_DISK]
    apart = [one for one in found.transfers if one.kind not in ON_DISK]
    yield "  system calls"
    if not on_disk:
        of = " of files or devices" if apart else ""
        yield f"    no data{of} were moved by system calls"
    yield from _sorts(on_disk, found)
    yield from _mix(found)
    yield from _beside(found)
    yield from _other_calls(found)
    if apart:
        yield "  pipes, sockets and character devices"
        yield from _sorts(apart, found)


def size_words(sizes: Sequence[SizeCalls], calls: int) -> str:
    """Return ` of 1 B (100 %)`, the commonest sizes with their shares of calls."""
    if not sizes:
        return ""
    common = [one for one in sizes[1:_SIZES] if one.calls >= calls * RARE]
    shown = [
        f"{bytes_words(size.bytes)} ({share_words(size.calls / calls)})"
        for size in (sizes[0], *common)
    ]
    more = ", ..." if len(sizes) > len(shown) else ""
    return f" of {', '.join(shown)}{more}"


def _sorts(moved: Sequence[Transfer], found: Characterized) -> Iterator[str]:
    """Yield one sort of transfer after the other, the commonest first."""
    places = {use.device: _place(use) for use in found.file_systems}
    for one in moved[:_TRANSFERS]:
        yield f"    {_transfer(one, places.get(one.device, ''), found.seconds)}"
        times = _times(one, found.seconds)
        if times:
            yield f"      {times}"
    left = moved[_TRANSFERS:]
    if left:
        calls, total = sum(t.calls for t in left), sum(t.bytes for t in left)
        yield f"    {len(left)} other sorts: {calls:,} calls, {bytes_words(total)}"


def _place(use: FileSystemUse) -> str:
    """Return ` on ext4 /home`, or nothing where it is not mounted anywhere."""
    return f" on {use.type} {use.mount}" if use.mount else ""


def _transfer(one: Transfer, where: str, seconds: float) -> str:
    sizes = size_words(one.sizes, one.calls)
    words = [
        f"{one.call}, {_what(one)}{where}: {one.calls:,} calls{sizes}",
        f"{bytes_words(one.bytes)} in all",
    ]
    if one.sequential is not None:
        words.append(f"sequential {share_words(one.sequential)}")
    if seconds:
        words.append(f"{bytes_words(round(one.bytes / seconds))}/s")
    if one.seconds is not None:
        words.append(f"{time_words(one.seconds * 1e9)} in them")
    return "; ".join(words)


def _what(one: Transfer) -> str:
    if one.kind not in PLACED:
        return f"{one.kind} {one.node}".rstrip()
    how = "direct" if one.direct else "buffered"
    return f"{how}, synchronous {one.kind}" if one.synchronous else f"{how} {one.kind}"


def _times(one: Transfer, seconds: float) -> str:
    """Return how long each took, and how many were under way; empty if not known."""
    if not one.latencies:
        return ""
    words = _latency(one.latencies)
    at_once = one.seconds / seconds if one.seconds is not None and seconds else 0.0
    if at_once < _AT_ONCE:
        return words
    return f"{words}; {at_once:.2g} at once, mean of the trial"


def _latency(latencies: tuple[LatencyCalls, ...]) -> str:
    """Return `p50 < 2.05 us, all < 1.05 ms`, a percentile only where it is below the last."""
    found = [(word, latency_ns(latencies, share)) for word, share in _SHARES]
    last = found[-1][1]
    told = [(word, ns) for word, ns in found[:-1] if ns != last]
    return ", ".join(
        f"{word} < {time_words(ns)}" for word, ns in (*told, found[-1]) if ns
    )


def _mix(found: Characterized) -> Iterator[str]:
    """Yield the share of reads, where there are reads and writes."""
    reads, writes = transfers_of(found, "read"), transfers_of(found, "write")
    if not reads or not writes:
        return
    calls = [sum(one.calls for one in some) for some in (reads, writes)]
    moved = [sum(one.bytes for one in some) for some in (reads, writes)]
    words = f"reads are {share_words(calls[0] / sum(calls))} of the calls"
    if sum(moved):
        words += f" and {share_words(moved[0] / sum(moved))} of the bytes"
    yield f"    {words}"


def _beside(found: Characterized) -> Iterator[str]:
    """Yield what is queued in libaio, and what no call shows."""
    if found.queued_s is not None and found.seconds:
        at_once = found.queued_s / found.seconds
        yield f"    libaio: {at_once:.3g} operations at once, mean of the trial"
    for one in found.mapped:
        how = "to be written" if one.written else "to be read"
        yield (
            f"    mapped files, shared, {how}: {one.mappings:,} of "
            f"{bytes_words(one.bytes)} in all; what goes through them is no call"
        )


def _other_calls(found: Characterized) -> Iterator[str]:
    if found.others:
        yield f"    also {', '.join(map(_other, _shown(found.others)))}"
    if found.failed:
        shown = ", ".join(
            f"{one.call} {one.error} {one.calls:,}" for one in found.failed[:_OTHERS]
        )
        yield f"    failed: {shown}"


def _shown(others: Sequence[OtherCalls]) -> list[OtherCalls]:
    """Return the commonest, and all that make data durable."""
    return [
        one for n, one in enumerate(others) if n < _OTHERS or one.seconds is not None
    ]


def _other(one: OtherCalls) -> str:
    if one.seconds is None:
        return f"{one.call} {one.calls:,}"
    each = f"; {_latency(one.latencies)}" if one.latencies else ""
    return f"{one.call} {one.calls:,} ({time_words(one.seconds * 1e9)}{each})"
