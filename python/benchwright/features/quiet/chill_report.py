"""The result of `bw chill`: the caches before and after, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.results import Finding
from benchwright.core.text import binary_size_text, duration_ns_text, plural
from benchwright.core.text_table import Field, field_lines
from benchwright.features.quiet.chill_types import (
    CacheResidency,
    ChillAllocation,
    ChillReport,
    ChillStop,
)
from benchwright.report.documents import FindingEntry, entries
from benchwright.report.parts import report_text

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
    for one in chilled.checked:
        yield ("checked", _checked(one))
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
