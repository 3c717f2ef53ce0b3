"""The I/O of a characterized trial as text (system calls, file systems, device), and the findings
about it: sizes other than stated, lost events.

Decision: sizes are judged one by one, not by their mean: a mean of 8 KiB may come from single
bytes and large blocks. The start of programs (832 bytes of a library) causes few calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchwright.core.results import Figure, Finding, states
from benchwright.core.text import (
    binary_size_text,
    duration_ns_text,
    duration_text,
    percent_text,
    size_text,
)
from benchwright.features.profile.types import (
    DISK_KINDS,
    SEEKABLE_KINDS,
    BlockTrace,
    BlockUse,
    Characterization,
    Direction,
    FileSystemEvent,
    FileSystemUse,
    IoPhase,
    LatencyCalls,
    OtherCalls,
    SizeCalls,
    Transfer,
    bytes_of_device,
    latency_ns,
    sizes_of,
    transfers_of,
)
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


# -- The system calls of a characterized trial, as text --------------------------------
#
# Decision: files and devices come first, apart from the rest, because shares, order and offsets
# are meaningful only for them; pipes, sockets and character devices have sizes and times. Times
# were counted in powers of two, so each percentile is printed as an upper bound.

_SIZES = 3
_TRANSFERS = 8
_OTHERS = 6
RARE = 0.001
"""Minimum share of calls for a size or a phase to be shown."""
_AT_ONCE = 0.01
"""Minimum mean number of calls in progress that is reported."""
_SHARES = (("p50", 0.5), ("p99", 0.99), ("all", 1.0))


def call_lines(found: Characterization) -> Iterator[str]:
    """Yield calls on files and devices, calls that move no data, then calls on pipes and sockets."""
    on_disk = [transfer for transfer in found.transfers if transfer.kind in DISK_KINDS]
    apart = [transfer for transfer in found.transfers if transfer.kind not in DISK_KINDS]
    yield "  system calls"
    if not on_disk:
        of = " of files or devices" if apart else ""
        yield f"    no data{of} were moved by system calls"
    yield from _transfer_lines(on_disk, found)
    yield from _mix(found)
    yield from _uncounted_lines(found)
    yield from _other_calls(found)
    if apart:
        yield "  pipes, sockets and character devices"
        yield from _transfer_lines(apart, found)


def size_words(sizes: Sequence[SizeCalls], calls: int) -> str:
    """Return ` of 1 B (100 %)`, the commonest sizes with their shares of calls."""
    if not sizes:
        return ""
    common = [size for size in sizes[1:_SIZES] if size.calls >= calls * RARE]
    shown = [
        f"{binary_size_text(size.bytes)} ({percent_text(size.calls / calls)})"
        for size in (sizes[0], *common)
    ]
    more = ", ..." if len(sizes) > len(shown) else ""
    return f" of {', '.join(shown)}{more}"


def _transfer_lines(moved: Sequence[Transfer], characterization: Characterization) -> Iterator[str]:
    """Yield a line for each kind of transfer, the most frequent first."""
    places = {use.device: _mounted_on(use) for use in characterization.file_systems}
    for transfer in moved[:_TRANSFERS]:
        yield f"    {_transfer(transfer, places.get(transfer.device, ''), characterization.seconds)}"
        times = _transfer_times(transfer, characterization.seconds)
        if times:
            yield f"      {times}"
    left = moved[_TRANSFERS:]
    if left:
        calls, total = sum(t.calls for t in left), sum(t.bytes for t in left)
        yield f"    {len(left)} other kinds: {calls:,} calls, {binary_size_text(total)}"


def _mounted_on(use: FileSystemUse) -> str:
    """Return ` on ext4 /home`; empty if the file system is not mounted."""
    return f" on {use.type} {use.mount}" if use.mount else ""


def _transfer(transfer: Transfer, where: str, seconds: float) -> str:
    sizes = size_words(transfer.sizes, transfer.calls)
    words = [
        f"{transfer.call}, {_what(transfer)}{where}: {transfer.calls:,} calls{sizes}",
        f"{binary_size_text(transfer.bytes)} in total",
    ]
    if transfer.sequential is not None:
        words.append(f"sequential {percent_text(transfer.sequential)}")
    if seconds:
        words.append(f"{binary_size_text(round(transfer.bytes / seconds))}/s")
    if transfer.seconds is not None:
        words.append(f"{duration_ns_text(transfer.seconds * 1e9)} in them")
    return "; ".join(words)


def _what(transfer: Transfer) -> str:
    if transfer.kind not in SEEKABLE_KINDS:
        return f"{transfer.kind} {transfer.node}".rstrip()
    how = "direct" if transfer.direct else "buffered"
    return (
        f"{how}, synchronous {transfer.kind}" if transfer.synchronous else f"{how} {transfer.kind}"
    )


def _transfer_times(transfer: Transfer, seconds: float) -> str:
    """Return the latencies and the mean number in progress; empty if unknown."""
    if not transfer.latencies:
        return ""
    words = _latency(transfer.latencies)
    at_once = transfer.seconds / seconds if transfer.seconds is not None and seconds else 0.0
    if at_once < _AT_ONCE:
        return words
    return f"{words}; {at_once:.2g} at once, mean of the trial"


def _latency(latencies: tuple[LatencyCalls, ...]) -> str:
    """Return `p50 < 2.05 us, all < 1.05 ms`, without percentiles equal to the last."""
    found = [(word, latency_ns(latencies, share)) for word, share in _SHARES]
    last = found[-1][1]
    told = [(word, ns) for word, ns in found[:-1] if ns != last]
    return ", ".join(f"{word} < {duration_ns_text(ns)}" for word, ns in (*told, found[-1]) if ns)


def _mix(characterization: Characterization) -> Iterator[str]:
    """Yield the share of reads if there are both reads and writes."""
    reads, writes = (
        transfers_of(characterization, "read"),
        transfers_of(characterization, "write"),
    )
    if not reads or not writes:
        return
    calls = [sum(transfer.calls for transfer in some) for some in (reads, writes)]
    moved = [sum(transfer.bytes for transfer in some) for some in (reads, writes)]
    words = f"reads are {percent_text(calls[0] / sum(calls))} of the calls"
    if sum(moved):
        words += f" and {percent_text(moved[0] / sum(moved))} of the bytes"
    yield f"    {words}"


def _uncounted_lines(characterization: Characterization) -> Iterator[str]:
    """Yield operations queued in libaio, and mapped files, whose accesses are not calls."""
    if characterization.queued_s is not None and characterization.seconds:
        at_once = characterization.queued_s / characterization.seconds
        yield f"    libaio: {at_once:.3g} operations at once, mean of the trial"
    for mapped_files in characterization.mapped:
        how = "to be written" if mapped_files.written else "to be read"
        yield (
            f"    mapped files, shared, {how}: {mapped_files.mappings:,} of "
            f"{binary_size_text(mapped_files.bytes)} in total; access through them is not counted as calls"
        )


def _other_calls(characterization: Characterization) -> Iterator[str]:
    if characterization.others:
        yield f"    also {', '.join(map(_other, _shown(characterization.others)))}"
    if characterization.failed:
        shown = ", ".join(
            f"{calls.call} {calls.error} {calls.calls:,}"
            for calls in characterization.failed[:_OTHERS]
        )
        yield f"    failed: {shown}"


def _shown(others: Sequence[OtherCalls]) -> list[OtherCalls]:
    """Return the most frequent calls, and all calls that make data durable."""
    return [calls for n, calls in enumerate(others) if n < _OTHERS or calls.seconds is not None]


def _other(other_calls: OtherCalls) -> str:
    if other_calls.seconds is None:
        return f"{other_calls.call} {other_calls.calls:,}"
    each = f"; {_latency(other_calls.latencies)}" if other_calls.latencies else ""
    return f"{other_calls.call} {other_calls.calls:,} ({duration_ns_text(other_calls.seconds * 1e9)}{each})"


# --------------------------------------------------------------------------------------
# The I/O as system calls, file system and device saw it, as text.
#
# Decision: one line for each way of moving data, with its sizes, because wrong call sizes are
# the most common fault of I/O benchmarks; then the same over time, because the phases of a
# benchmark differ; then the bytes at each level down to the device.

_PHASES = 12
_ALWAYS = 0.9
"""Minimum share of a CPU at which a thread limits a phase."""
_ALONE = 1.5
"""Number of usable CPUs from which on no single thread is the limit."""
_WAITED = 0.05
_TRACED = ("ext4", "xfs", "btrfs")
"""File systems whose tracepoints are counted."""


def characterize_lines(found: Characterization) -> Iterator[str]:
    """Yield the description for the terminal."""
    yield (
        f"I/O in {duration_text(found.seconds)}, counted by {found.method}; "
        "counting slows small calls down"
    )
    if found.lost_events:
        yield f"  {found.lost_events:,} events were lost: all counts are too low"
    yield from call_lines(found)
    yield from _over_time(found.phases)
    for use in found.file_systems:
        if _is_shown(use, found):
            yield from _file_system(use, found)
    yield from _device(found)
    yield from _ratios(found)
    for what, why in found.absent:
        yield f"  not seen: {what}: {why}"


# -- over time -------------------------------------------------------------------------


def _over_time(phases: Sequence[IoPhase]) -> Iterator[str]:
    """Yield the largest phases in order of time."""
    if not phases:
        return
    yield "  over time, the most frequent call"
    most = sorted(phases, key=_calls_of, reverse=True)[:_PHASES]
    least = RARE * sum(map(_calls_of, phases))
    shown = [phase for phase in phases if phase in most and _calls_of(phase) >= least]
    for phase in shown:
        yield (
            f"    {phase.begin_s:6.1f} - {phase.end_s:.1f} s  {phase.call} of "
            f"{binary_size_text(phase.bytes)} ({phase.kind}): {phase.calls_per_s:,.0f}/s, "
            f"{binary_size_text(round(phase.bytes_per_s))}/s, "
            f"{percent_text(phase.share)} of calls{_thread(phase)}"
        )
    if len(phases) > len(shown):
        yield f"    and {len(phases) - len(shown)} with fewer calls"


def _thread(phase: IoPhase) -> str:
    """Return how busy a phase's busiest thread was, and whether it is the limit."""
    busiest = phase.busiest
    if busiest is None:
        return ""
    words = f"; one thread ({busiest.name}) ran {percent_text(busiest.ran)} of it"
    if busiest.waited >= _WAITED:
        words += f" and could have run another {percent_text(busiest.waited)}"
    if busiest.wanted < _ALONE and busiest.ran + busiest.waited >= _ALWAYS:
        return f"{words}: it is the limit"
    return words


def _calls_of(phase: IoPhase) -> float:
    return phase.calls_per_s * (phase.end_s - phase.begin_s)


# -- the file system, the device -------------------------------------------------------


def _is_shown(use: FileSystemUse, characterization: Characterization) -> bool:
    """Return whether a file system has enough I/O to be shown; /proc, for example, has not."""
    if use.events or use.cache_read_bytes or use.cache_written_bytes:
        return True
    moved = [transfer for transfer in characterization.transfers if transfer.kind == "file"]
    own = sum(one.bytes for one in moved if one.device == use.device)
    return bool(own) and own >= RARE * sum(one.bytes for one in moved)


def _file_system(use: FileSystemUse, characterization: Characterization) -> Iterator[str]:
    name = use.type or "file system"
    where = f" on {use.source} ({use.mount})" if use.mount else f" {use.device}"
    yield f"  {name}{where}"
    for event in use.events:
        yield f"    {_event(event)}"
    if use.type not in _TRACED and not use.events:
        yield "    it has no known tracepoints"
    if use.files is not None and use.files_bytes is not None:
        yield (
            f"    different files: {use.files:,}, {binary_size_text(use.files_bytes)} "
            "up to the highest offset reached in each"
        )
    if use.cache_read_bytes is not None:
        yield f"    {_page_cache(use, characterization)}"


def _page_cache(use: FileSystemUse, characterization: Characterization) -> str:
    read = sum(
        transfer.bytes
        for transfer in characterization.transfers
        if transfer.device == use.device and transfer.direction == "read" and not transfer.direct
    )
    words = f"page cache: {binary_size_text(use.cache_read_bytes or 0)} brought in by reads"
    if read:
        words += f" of {binary_size_text(read)}"
    words += f", {binary_size_text(use.cache_written_bytes or 0)} added by writes"
    if use.cache_other_bytes:
        other = binary_size_text(use.cache_other_bytes)
        words += f", {other} otherwise (mapped files, programs that start, copies)"
    return words


def _event(event: FileSystemEvent) -> str:
    words = f"{event.means}: {event.count:,}{size_words(event.sizes, event.count)}"
    total = "" if event.bytes is None else f"; {binary_size_text(event.bytes)} in total"
    return f"{words}{total} ({event.name})"


def _device(characterization: Characterization) -> Iterator[str]:
    trace = characterization.trace
    used = () if trace is None else trace.devices
    for device in used or sorted({b.device for b in characterization.blocks if b.by == "trial"}):
        yield f"  device {device}"
        sorts = [block for block in characterization.blocks if block.device == device]
        for block in sorted(sorts, key=_order):
            yield f"    {_block(block)}"
    if trace is not None and trace.sequential is not None:
        yield f"    all requests: {', '.join(_requests(trace, trace.sequential))}"
    if characterization.throttled:
        yield (
            f"  writers waited {characterization.throttled:,} times, "
            f"{duration_text(characterization.throttled_s)} in total, for dirty pages to be written"
        )
    if trace is not None and trace.operations:
        yield f"  block trace: {trace.file} (bw trace stat, bw trace compare)"


def _requests(trace: BlockTrace, sequential: float) -> Iterator[str]:
    """Yield the figures of all requests in the block layer's trace."""
    yield f"sequential {percent_text(sequential)}"
    if trace.queue_mean is not None:
        words = f"{trace.queue_mean:.3g} in flight"
        if trace.queue_at_arrival is not None and trace.queue_max is not None:
            met = f"{trace.queue_at_arrival:.3g} as each one arrives"
            words += f" ({met}, at most {trace.queue_max:,})"
        yield words
    if trace.response_s_p50 is not None and trace.response_s_p99 is not None:
        median, high = trace.response_s_p50 * 1e3, trace.response_s_p99 * 1e3
        yield f"response p50 {median:.3g} ms, p99 {high:.3g} ms"


_BY = {
    "trial": "by the trial's tasks",
    "kernel": "by kernel threads, for any process",
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
        f"{binary_size_text(block.bytes)} in total"
    )


def _ratios(characterization: Characterization) -> Iterator[str]:
    lines = [_ratio(characterization, direction) for direction in ("write", "read")]
    told = [line for line in lines if line]
    if told:
        yield "  from calls to the device"
        yield from (f"    {line}" for line in told)


def _ratio(characterization: Characterization, direction: Direction) -> str:
    """Return `read: 41 MiB by calls -> 9 MiB of the device (0.22 x)`; for writes a lower and
    an upper bound. Empty if the device's bytes are unknown."""
    called = sum(transfer.bytes for transfer in transfers_of(characterization, direction))
    own = bytes_of_device(characterization, direction, ("trial",))
    if own is None or not called + own:
        return ""
    words = f"{direction}: {binary_size_text(called)} by calls -> "
    if direction == "read":
        return f"{words}{binary_size_text(own)} of the device{_ratio_text(own, called)}"
    # Kernel threads write data of every process, and some data may still be in memory.
    most = own + (bytes_of_device(characterization, direction, ("kernel",)) or 0)
    return (
        f"{words}{binary_size_text(own)}{_ratio_text(own, called)} of the device by itself, "
        f"at most {binary_size_text(most)}{_ratio_text(most, called)} with what the kernel wrote meanwhile"
    )


def _ratio_text(part: int, whole: int) -> str:
    return f" ({part / whole:.3g} x)" if whole else ""
