"""The I/O that really arrived, level by level, for a person; and as an object for `--json`.

Decision: one line for each way of moving data, with the sizes in it, because the size of a
call is what benchmarks are most often wrong about; then the same over time, because a
benchmark's phases differ; then what became of the bytes on their way to the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from benchwright.model.characterized import (
    BlockTrace,
    BlockUse,
    Characterized,
    Direction,
    FileSystemEvent,
    FileSystemUse,
    Phase,
    bytes_of_device,
    transfers_of,
)
from benchwright.report.characterize_calls import RARE, call_lines, size_words
from benchwright.report.load import bytes_words
from benchwright.report.trace_stat import share_words

_PHASES = 12
_ALWAYS = 0.9
"""Share of a processor from which on a thread is what a phase waits for."""
_ALONE = 1.5
"""Processors that a trial could use from which on no single thread is the limit."""
_WAITED = 0.05
_TRACED = ("ext4", "xfs", "btrfs")
"""File systems whose own tracepoints are counted."""


def characterize_lines(found: Characterized) -> Iterator[str]:
    """Yield the description for the terminal."""
    yield (
        f"I/O of the trial in {found.seconds:.1f} s, counted by {found.method}; "
        "being counted slows small calls down"
    )
    if found.lost_events:
        yield f"  {found.lost_events:,} events were lost: all counts are too low"
    yield from call_lines(found)
    yield from _over_time(found.phases)
    for use in found.file_systems:
        if _is_told(use, found):
            yield from _file_system(use, found)
    yield from _device(found)
    yield from _ratios(found)
    for what, why in found.absent:
        yield f"  not seen: {what}: {why}"


def characterize_object(found: Characterized) -> dict[str, Any]:
    """Return the description as plain data for JSON."""
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


# -- over time -------------------------------------------------------------------------


def _over_time(phases: Sequence[Phase]) -> Iterator[str]:
    """Yield the largest phases in order of time."""
    if not phases:
        return
    yield "  over time, the commonest call"
    most = sorted(phases, key=_calls_of, reverse=True)[:_PHASES]
    least = RARE * sum(map(_calls_of, phases))
    shown = [phase for phase in phases if phase in most and _calls_of(phase) >= least]
    for phase in shown:
        yield (
            f"    {phase.begin_s:6.1f} - {phase.end_s:.1f} s  {phase.call} of "
            f"{bytes_words(phase.bytes)} ({phase.kind}): {phase.calls_per_s:,.0f}/s, "
            f"{bytes_words(round(phase.bytes_per_s))}/s, "
            f"{share_words(phase.share)} of calls{_thread(phase)}"
        )
    if len(phases) > len(shown):
        yield f"    and {len(phases) - len(shown)} with fewer calls"


def _thread(phase: Phase) -> str:
    """Return what the busiest thread of a phase says of its limit."""
    busiest = phase.busiest
    if busiest is None:
        return ""
    words = f"; one thread ({busiest.name}) ran {100 * busiest.ran:.0f} % of it"
    if busiest.waited >= _WAITED:
        words += f" and could have run another {100 * busiest.waited:.0f} %"
    if busiest.wanted < _ALONE and busiest.ran + busiest.waited >= _ALWAYS:
        return f"{words}: it is the limit"
    return words


def _calls_of(phase: Phase) -> float:
    return phase.calls_per_s * (phase.end_s - phase.begin_s)


# -- the file system, the device -------------------------------------------------------


def _is_told(use: FileSystemUse, found: Characterized) -> bool:
    """Return whether anything of a file system is worth a line: /proc and its like are not."""
    if use.events or use.cache_read_bytes or use.cache_written_bytes:
        return True
    moved = [one for one in found.transfers if one.kind == "file"]
    own = sum(one.bytes for one in moved if one.device == use.device)
    return bool(own) and own >= RARE * sum(one.bytes for one in moved)


def _file_system(use: FileSystemUse, found: Characterized) -> Iterator[str]:
    name = use.type or "file system"
    where = f" on {use.source} ({use.mount})" if use.mount else f" {use.device}"
    yield f"  {name}{where}"
    for event in use.events:
        yield f"    {_event(event)}"
    if use.type not in _TRACED and not use.events:
        yield "    it has no tracepoints that we know"
    if use.files is not None and use.files_bytes is not None:
        yield (
            f"    different files: {use.files:,}, {bytes_words(use.files_bytes)} "
            "up to the furthest place that was reached in each"
        )
    if use.cache_read_bytes is not None:
        yield f"    {_page_cache(use, found)}"


def _page_cache(use: FileSystemUse, found: Characterized) -> str:
    read = sum(
        one.bytes
        for one in found.transfers
        if one.device == use.device and one.direction == "read" and not one.direct
    )
    words = f"page cache: {bytes_words(use.cache_read_bytes or 0)} brought in by reads"
    if read:
        words += f" of {bytes_words(read)}"
    words += f", {bytes_words(use.cache_written_bytes or 0)} added by writes"
    if use.cache_other_bytes:
        other = bytes_words(use.cache_other_bytes)
        words += f", {other} otherwise (mapped files, programs that start, copies)"
    return words


def _event(event: FileSystemEvent) -> str:
    words = f"{event.means}: {event.count:,}{size_words(event.sizes, event.count)}"
    total = "" if event.bytes is None else f"; {bytes_words(event.bytes)} in all"
    return f"{words}{total} ({event.name})"


def _device(found: Characterized) -> Iterator[str]:
    trace = found.trace
    used = () if trace is None else trace.devices
    for device in used or sorted({b.device for b in found.blocks if b.by == "trial"}):
        yield f"  device {device}"
        sorts = [block for block in found.blocks if block.device == device]
        for block in sorted(sorts, key=_order):
            yield f"    {_block(block)}"
    if trace is not None and trace.sequential is not None:
        yield f"    all requests: {', '.join(_requests(trace, trace.sequential))}"
    if found.throttled:
        yield (
            f"  writers were made to wait {found.throttled:,} times, "
            f"{found.throttled_s:.3g} s in all, for dirty pages to be written"
        )
    if trace is not None and trace.operations:
        yield f"  block trace: {trace.file} (bw trace stat, bw trace compare)"


def _requests(trace: BlockTrace, sequential: float) -> Iterator[str]:
    """Yield what the trace of the block layer says of all requests."""
    yield f"sequential {share_words(sequential)}"
    if trace.queue_mean is not None:
        words = f"{trace.queue_mean:.3g} under way"
        if trace.queue_at_arrival is not None and trace.queue_max is not None:
            met = f"{trace.queue_at_arrival:.3g} as each one arrives"
            words += f" ({met}, at most {trace.queue_max:,})"
        yield words
    if trace.response_s_p50 is not None and trace.response_s_p99 is not None:
        median, high = trace.response_s_p50 * 1e3, trace.response_s_p99 * 1e3
        yield f"response p50 {median:.3g} ms, p99 {high:.3g} ms"


_BY = {
    "trial": "by the trial's tasks",
    "kernel": "by kernel threads, for anybody",
    "others": "by other tasks",
}


def _order(block: BlockUse) -> tuple[str, int]:
    return block.direction, list(_BY).index(block.by)


def _block(block: BlockUse) -> str:
    if not block.bytes:
        return f"{block.direction} {_BY[block.by]}: {block.requests:,}"
    sizes = size_words(block.sizes, block.requests)
    return (
        f"{block.direction} {_BY[block.by]}: {block.requests:,}{sizes}; "
        f"{bytes_words(block.bytes)} in all"
    )


def _ratios(found: Characterized) -> Iterator[str]:
    lines = [_ratio(found, direction) for direction in ("write", "read")]
    told = [line for line in lines if line]
    if told:
        yield "  from calls to the device"
        yield from (f"    {line}" for line in told)


def _ratio(found: Characterized, direction: Direction) -> str:
    """Return `write: 41 MiB by calls -> at least 9 MiB of the device (0.22 x)`; empty where
    nothing is known."""
    called = sum(one.bytes for one in transfers_of(found, direction))
    own = bytes_of_device(found, direction, ("trial",))
    if own is None or not called + own:
        return ""
    words = f"{direction}: {bytes_words(called)} by calls -> "
    if direction == "read":
        return f"{words}{bytes_words(own)} of the device{_times(own, called)}"
    # Kernel threads write for anybody, and what is still in memory is not written yet.
    most = own + (bytes_of_device(found, direction, ("kernel",)) or 0)
    return (
        f"{words}{bytes_words(own)}{_times(own, called)} of the device by itself, "
        f"at most {bytes_words(most)}{_times(most, called)} with what the kernel wrote meanwhile"
    )


def _times(part: int, whole: int) -> str:
    return f" ({part / whole:.3g} x)" if whole else ""
