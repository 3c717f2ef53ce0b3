"""Cold caches: the requested method, what was in memory before and after, and this result as text
and as JSON.

Purpose: the types of `bw chill`. Decision: cached pages are counted, not assumed to be gone:
`ChillAllocation` reports what a method did, `CacheResidency` the effect on the files that
matter. Source: Auto-pilot paper, sections 3.3 and 3.5.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.results import Finding
from benchwright.core.text import binary_size_text, duration_ns_text, plural
from benchwright.core.text_table import Field, field_lines
from benchwright.report.documents import FindingEntry, entries, report_text


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


_STOPPED = {
    ChillStop.EMPTY: "until almost nothing was cached",
    ChillStop.STEADY: "until the cache became no smaller",
    ChillStop.RESERVE: "down to the reserve of {reserve}",
    ChillStop.SWAP: "until the kernel began to swap",
    ChillStop.MOST: "up to --most",
    ChillStop.LIMIT: "until no more memory was available",
    ChillStop.KILLED: "until the kernel killed it",
}


class ChillFindingEntry(FindingEntry, frozen=True):
    """A doubt about what was emptied."""

    metric: str = ""


class ChillDocument(ChillReport, frozen=True, tag_field="schema", tag="benchwright/chill/1"):
    """Contents of the caches before and after, with findings."""

    findings: tuple[ChillFindingEntry, ...] = ()


def chill_document(chilled: ChillReport, findings: Sequence[Finding]) -> str:
    """Return the report as one JSON document; a path may contain bytes that are not text."""
    members = msgspec.structs.asdict(chilled)
    document = ChillDocument(**members, findings=entries(ChillFindingEntry, findings))
    return json.dumps(msgspec.to_builtins(document), indent=2) + "\n"


def chill_text(chilled: ChillReport, findings: Sequence[Finding]) -> str:
    """Return the report as text, ending with a newline; control characters are escaped."""
    return report_text(field_lines(_fields(chilled)), findings=findings)


def _fields(chilled: ChillReport) -> Iterator[Field]:
    before, after = chilled.before, chilled.after
    yield ("method", f"{chilled.method}, {duration_ns_text(chilled.elapsed_ns)}")
    limited = chilled.squeeze is not None and chilled.squeeze.limit_bytes is not None
    whole = " (of the whole machine)" if limited else ""
    yield ("page cache", _change(before.page_bytes, after.page_bytes) + whole)
    yield ("slab", _change(before.slab_bytes, after.slab_bytes))
    if chilled.squeeze is not None:
        yield ("memory", _squeezed(chilled.squeeze))
    if chilled.mounted is not None:
        yield ("mounted by", chilled.mounted)
    for residency in chilled.checked:
        yield ("checked", _checked(residency))
    for note in chilled.notes:
        yield ("note", note)


def _change(before: int, after: int) -> str:
    return f"{binary_size_text(before)} before, {binary_size_text(after)} after"


def _squeezed(squeeze: ChillAllocation) -> str:
    if squeeze.stopped is ChillStop.KILLED:
        return f"taken {_STOPPED[squeeze.stopped]}"
    reason = _STOPPED[squeeze.stopped].format(reserve=binary_size_text(squeeze.reserve_bytes))
    text = f"{binary_size_text(squeeze.taken_bytes)} taken, {reason}"
    if squeeze.limit_bytes is not None:
        text += f", in a cgroup limited to {binary_size_text(squeeze.limit_bytes)}"
    if squeeze.read_bytes:
        text += (
            f"; {binary_size_text(squeeze.read_bytes)} of a sparse file read to displace the rest"
        )
    return text


def _checked(cache_residency: CacheResidency) -> str:
    files = "" if cache_residency.files == 1 else f" ({cache_residency.files:,} files)"
    return (
        f"{cache_residency.path}{files}: {cache_residency.after_pages:,} of {plural(cache_residency.pages, 'page')} in memory, "
        f"{cache_residency.before_pages:,} before"
    )
