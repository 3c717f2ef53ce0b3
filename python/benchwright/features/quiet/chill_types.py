"""Cold caches: the requested method, and what was in memory before and after.

Purpose: the types of `bw chill`. Decision: cached pages are counted, not assumed to be gone:
`ChillAllocation` reports what a method did, `CacheResidency` the effect on the files that
matter. Source: Auto-pilot paper, sections 3.3 and 3.5.
"""

from __future__ import annotations

import enum

import msgspec


class ChillMethod(enum.StrEnum):
    """Method of emptying caches, from the gentlest to the most thorough."""

    FILES = "files"
    """Evict the pages of files: of those named, or of those that the measured command names."""
    CHILL = "chill"
    """Dirty so much memory that the kernel evicts its caches; needs no root."""
    DROP_CACHES = "drop-caches"
    """Write back, then ask the kernel to drop clean pages, dentries and inodes."""
    REMOUNT = "remount"
    """Unmount a file system and mount it again."""
    REBOOT = "reboot"
    """Restart the machine."""


class ChillStop(enum.StrEnum):
    """Reason why `bw chill` took no more memory."""

    EMPTY = "empty"
    """Almost nothing was cached any more."""
    STEADY = "steady"
    """More memory no longer made the cache smaller."""
    RESERVE = "reserve"
    """Only the reserve was left, which others may need."""
    SWAP = "swap"
    """The kernel started to swap, and memory of others must not be swapped out."""
    MOST = "most"
    """As much as the user allows was taken."""
    LIMIT = "limit"
    """No more memory was given: a limit of this process, or of overcommit."""
    KILLED = "killed"
    """The kernel killed the child, and nothing else, because memory ran out."""


class CachedMemory(msgspec.Struct, frozen=True):
    """Memory of the kernel's caches [bytes]."""

    page_bytes: int
    """Page cache and buffers, without shared memory, which is no cache."""
    slab_bytes: int
    """Reclaimable kernel objects: inodes, dentries."""


class ChillAllocation(msgspec.Struct, frozen=True):
    """Report of `bw chill`."""

    taken_bytes: int
    """Memory allocated and dirtied; it is free again."""
    read_bytes: int
    """Bytes of a sparse file that were read to displace the rest."""
    stopped: ChillStop
    reserve_bytes: int
    """Memory that was left for others."""
    limit_bytes: int | None = None
    """The memory cgroup's limit that replaced the machine's memory; None: no limit."""


class CacheResidency(msgspec.Struct, frozen=True):
    """How much of one file or directory is in memory [pages]."""

    path: str
    files: int
    pages: int
    before_pages: int
    """In memory before."""
    after_pages: int
    """In memory after."""
    unread: int = 0
    """Files that could not be checked; they are in no figure."""
    only_in: str = ""
    """Type of the file system, if it keeps its data only in memory (`tmpfs`): no method can drop
    them."""
    locked_by: tuple[str, ...] = ()
    """Processes that lock pages that are still in memory (mlock): no method can drop those."""


class ChillReport(msgspec.Struct, frozen=True):
    """The report of one `bw chill`."""

    method: ChillMethod
    before: CachedMemory
    after: CachedMemory
    elapsed_ns: int
    squeeze: ChillAllocation | None = None
    """For the method chill."""
    mounted: str | None = None
    """For the method remount: the command that mounted it again."""
    kept_by: tuple[str, ...] = ()
    """Processes that still have the file system mounted, in their own mount namespace."""
    checked: tuple[CacheResidency, ...] = ()
    notes: tuple[str, ...] = ()
    """Further remarks, one sentence each."""
