"""The I/O of a trial: at the system calls, in the file system, at the block layer.

Purpose: workload characterization; a benchmark's claims about its I/O are compared with it.
Sizes are bytes that were moved, times seconds since the recording began. Absent is not
zero: what a kernel or a method does not report is None, or named in `absent`. Source:
Systems Performance, 12.3.2, 12.3.5 and 12.3.7 (latency distribution, working set).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

Direction = Literal["read", "write"]
CountingMethod = Literal["bpftrace", "tracefs"]
"""Counted in the kernel, or event by event."""
SEEKABLE_KINDS = ("file", "device")
"""Kinds of things whose bytes have places."""
DISK_KINDS = (*SEEKABLE_KINDS, "unknown")
"""Kinds of things whose bytes may lie on a disk; what is not known is taken for one."""
COPY_CALLS = ("copy_file_range",)
"""Calls that read and write."""
MOST_SIZES = 12
"""Sizes that are listed one by one; the others are counted by powers of two."""


class SizeCalls(msgspec.Struct, frozen=True):
    """Number of calls of one size."""

    bytes: int
    calls: int


class LatencyCalls(msgspec.Struct, frozen=True):
    """Number of calls with a duration below a limit and at least half of it."""

    below_ns: int
    """A power of two."""
    calls: int


class Transfer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of one name that moved data to or from one kind of file."""

    call: str
    """`write`, `pread64`, `io_uring READ`, `io_submit write`."""
    direction: Direction
    kind: str
    """`file`, `device`, `pipe`, `socket`, `character device`, `other`; `unknown`: not reported."""
    calls: int
    """Those that succeeded; of libaio those handed over, whatever became of them."""
    bytes: int
    """Moved; for libaio, requested."""
    direct: bool = False
    """Past the page cache (O_DIRECT)."""
    synchronous: bool = False
    """Each write waits for the device (O_SYNC, O_DSYNC)."""
    device: str = ""
    """`MAJOR:MINOR` of the file system or the device; empty where there is none."""
    node: str = ""
    """The name of a character device, `/dev/zero`, where it is known."""
    sizes: tuple[SizeCalls, ...] = ()
    """The commonest sizes, commonest first."""
    buckets: tuple[SizeCalls, ...] = ()
    """The other calls by size, up to so many bytes (powers of two)."""
    sequential: float | None = None
    """Share of calls that begin where the one before on the same open file ended, the first
    at its beginning; of files and devices only."""
    seconds: float | None = None
    """Time in these calls, summed over threads; of a ring until each was complete."""
    latencies: tuple[LatencyCalls, ...] = ()
    """How long each took, failed ones too; shortest first, empty where it is not known."""


class OtherCalls(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of one name that move no data: fsync, openat, lseek."""

    call: str
    calls: int
    """All of them, failed ones too."""
    seconds: float | None = None
    latencies: tuple[LatencyCalls, ...] = ()
    """How long each took; of those that make data durable only."""


class FailedCalls(msgspec.Struct, frozen=True):
    """Calls of one name that failed in one way."""

    call: str
    error: str
    """The name of errno, `ENOSPC`."""
    calls: int


class MappedFiles(msgspec.Struct, frozen=True):
    """Files that were mapped into memory and shared: access through them is not counted as calls."""

    written: bool
    """They may be written by it."""
    mappings: int
    """Asked for, refused ones too."""
    bytes: int
    """The lengths of all mappings."""


class BusiestThread(msgspec.Struct, frozen=True):
    """The trial's thread that ran most in a phase; shares are of the phase's length."""

    name: str
    ran: float
    """On a CPU."""
    waited: float
    """Put aside for others while it could run on."""
    wanted: float
    """Processors that all threads of the trial ran on, or could have."""


class IoPhase(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in which one kind of transfer was the most frequent."""

    begin_s: float
    end_s: float
    call: str
    kind: str
    bytes: int
    """Of each such call."""
    share: float
    """Of all transfers in this time."""
    calls_per_s: float
    bytes_per_s: float
    """Of these calls alone."""
    busiest: BusiestThread | None = None
    """None where it was not recorded."""


class Arrivals(msgspec.Struct, frozen=True):
    """When calls that move data came: how many in each slot of the time."""

    slot_s: float
    calls: tuple[int, ...]


class FileSystemEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tracepoint of a file system, counted for the tasks of the trial."""

    name: str
    """`ext4_da_write_end`."""
    means: str
    """`buffered write`."""
    count: int
    bytes: int | None = None
    sizes: tuple[SizeCalls, ...] = ()


class FileSystemUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file system that was used."""

    device: str
    type: str = ""
    mount: str = ""
    source: str = ""
    cache_read_bytes: int | None = None
    """Brought into the page cache by reads: what was not there yet, and read-ahead."""
    cache_written_bytes: int | None = None
    """Added to the page cache by writes."""
    cache_other_bytes: int | None = None
    """Added otherwise: page faults of mapped files, programs that start, copies in the kernel,
    io_uring."""
    files: int | None = None
    """Different files that calls moved data of; None where that is not known."""
    files_bytes: int | None = None
    """Up to the furthest place that was reached in each: the working set at most."""
    events: tuple[FileSystemEvent, ...] = ()


class BlockUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests of one kind to one whole block device."""

    device: str
    """Its name, `vda`."""
    direction: Literal["read", "write", "discard", "flush", "other"]
    by: Literal["trial", "kernel", "others"]
    """Issued by the trial's tasks, by kernel threads for anybody, or by other tasks."""
    requests: int
    bytes: int
    sizes: tuple[SizeCalls, ...] = ()


class BlockTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recording of the block layer, for `bw trace stat` and `bw trace compare`."""

    file: str
    """Relative to the study."""
    operations: int
    lost_events: int
    devices: tuple[str, ...] = ()
    """Those that the trial's file systems lie on; the file has all devices of the machine."""
    sequential: float | None = None
    queue_mean: float | None = None
    """Requests under way, mean over time."""
    queue_at_arrival: float | None = None
    """The same, as each new request met them."""
    queue_max: int | None = None
    response_s_p50: float | None = None
    response_s_p99: float | None = None


class Characterization(msgspec.Struct, frozen=True, omit_defaults=True):
    """I/O of the trial's tasks, level by level."""

    seconds: float
    method: CountingMethod
    transfers: tuple[Transfer, ...] = ()
    """Most calls first."""
    others: tuple[OtherCalls, ...] = ()
    failed: tuple[FailedCalls, ...] = ()
    mapped: tuple[MappedFiles, ...] = ()
    """Files that were mapped and shared, those to be written first."""
    queued_s: float | None = None
    """Time of all operations of libaio from being handed over to being taken back."""
    phases: tuple[IoPhase, ...] = ()
    arrivals: Arrivals | None = None
    """None: recorded by a version that did not, or too briefly."""
    file_systems: tuple[FileSystemUse, ...] = ()
    throttled: int | None = None
    """How often a writer was made to wait for dirty pages to be written."""
    throttled_s: float | None = None
    blocks: tuple[BlockUse, ...] = ()
    """Counted by bpftrace only; the trace has them otherwise too."""
    trace: BlockTrace | None = None
    lost_events: int = 0
    """Of system calls and file systems; above 0 all counts are too low."""
    absent: tuple[tuple[str, str], ...] = ()
    """What could not be recorded, and why."""
    file: str = ""
    """Where this is stored, relative to the study."""


def sizes_of(characterized: Characterization, direction: Direction) -> Counter[int]:
    """Return how many calls of each size moved data of files and devices, by bytes.

    Where it is not known what descriptors are, calls on anything count. Sizes of `buckets`
    are left out: they are not exact. For io-size-not-as-claimed.
    """
    found: Counter[int] = Counter()
    for transfer in characterized.transfers:
        if transfer.direction == direction and transfer.kind in DISK_KINDS:
            for size in transfer.sizes:
                found[size.bytes] += size.calls
    return found


def transfers_of(characterized: Characterization, direction: Direction) -> tuple[Transfer, ...]:
    """Return the transfers to (`write`) or from (`read`) files and devices.

    A copy within the kernel (copy_file_range) is both.
    """
    return tuple(
        transfer
        for transfer in characterized.transfers
        if transfer.kind in DISK_KINDS
        and (transfer.direction == direction or transfer.call in COPY_CALLS)
    )


def latency_ns(latencies: tuple[LatencyCalls, ...], share: float) -> int | None:
    """Return within what time at least a share of the calls were done, as a power of two;
    None where it is not known."""
    left = share * sum(latency.calls for latency in latencies)
    for latency in latencies:
        left -= latency.calls
        if left <= 0:
            return latency.below_ns
    return None


def bytes_of_device(
    characterized: Characterization, direction: Direction, by: tuple[str, ...]
) -> int | None:
    """Return the bytes of the trial's devices that some (`trial`, `kernel`) requested.

    None where it is not known which devices or who asked.
    """
    used = () if characterized.trace is None else characterized.trace.devices
    if not used or not characterized.blocks:
        return None
    return sum(
        block.bytes
        for block in characterized.blocks
        if block.device in used and block.direction == direction and block.by in by
    )
