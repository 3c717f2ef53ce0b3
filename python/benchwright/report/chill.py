"""What became of the caches, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.finding.load import time_words
from benchwright.finding.words import counted
from benchwright.model.chill import Checked, Chilled, Squeeze, Stopped
from benchwright.model.finding import Finding
from benchwright.model.visible import visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.load import bytes_words

SCHEMA = "benchwright/chill/1"
_WIDTH = 14
_STOPPED = {
    Stopped.EMPTY: "until next to nothing was cached",
    Stopped.STEADY: "until the cache became no smaller",
    Stopped.RESERVE: "down to the reserve of {reserve}",
    Stopped.SWAP: "until the kernel began to swap",
    Stopped.LIMIT: "until no more was given",
    Stopped.KILLED: "until the kernel ended it, and nothing else",
}


def chill_document(chilled: Chilled, findings: Sequence[Finding]) -> str:
    """Return the report as one JSON document, schema `benchwright/chill/1`."""
    body = msgspec.to_builtins(chilled)
    body |= {"findings": msgspec.to_builtins(list(findings))}
    return json.dumps({"schema": SCHEMA, **body}, indent=2) + "\n"


def chill_text(chilled: Chilled, findings: Sequence[Finding]) -> str:
    """Return the report for a person, ended by a newline; nothing in it moves a cursor."""
    return visible_lines("\n".join(_lines(chilled, findings))) + "\n"


def _lines(chilled: Chilled, findings: Sequence[Finding]) -> Iterator[str]:
    before, after = chilled.before, chilled.after
    yield _row("method", f"{chilled.method}, {time_words(chilled.elapsed_ns)}")
    limited = chilled.squeeze is not None and chilled.squeeze.limit_bytes is not None
    whole = " (of the whole machine)" if limited else ""
    yield _row("page cache", _change(before.page_bytes, after.page_bytes) + whole)
    yield _row("slab", _change(before.slab_bytes, after.slab_bytes))
    if chilled.squeeze is not None:
        yield _row("memory", _squeezed(chilled.squeeze))
    if chilled.mounted is not None:
        yield _row("mounted by", chilled.mounted)
    for one in chilled.checked:
        yield _row("checked", _checked(one))
    for note in chilled.notes:
        yield _row("note", note)
    if findings:
        yield ""
        yield from (finding_line(one) for one in findings)


def _row(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}{text}"


def _change(before: int, after: int) -> str:
    return f"{bytes_words(before)} before, {bytes_words(after)} after"


def _squeezed(squeeze: Squeeze) -> str:
    if squeeze.stopped is Stopped.KILLED:
        return f"taken {_STOPPED[squeeze.stopped]}"
    reason = _STOPPED[squeeze.stopped].format(
        reserve=bytes_words(squeeze.reserve_bytes)
    )
    text = f"{bytes_words(squeeze.taken_bytes)} taken, {reason}"
    if squeeze.limit_bytes is not None:
        text += f", in a cgroup limited to {bytes_words(squeeze.limit_bytes)}"
    if squeeze.read_bytes:
        text += (
            f"; {bytes_words(squeeze.read_bytes)} of holes read to displace the rest"
        )
    return text


def _checked(one: Checked) -> str:
    files = "" if one.files == 1 else f" ({one.files:,} files)"
    return (
        f"{one.path}{files}: {one.after_pages:,} of {counted(one.pages, 'page')} in memory, "
        f"{one.before_pages:,} before"
    )
