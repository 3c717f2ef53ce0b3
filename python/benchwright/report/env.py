"""A capture of the machine as text: grouped, one fact a line, what is absent at the end.

Decision: many facts of one thing (a disk, a mount) are one paragraph, and absent facts are
put together by their reason: a page that is read, not scrolled past. `--json` has every
fact with its source.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

from benchwright.finding.words import counted
from benchwright.model.machine import Fact, Machine
from benchwright.model.visible import one_line, visible_lines

GROUPS = (
    ("Host", ("host", "os", "kernel", "firmware", "virtual", "clock")),
    ("Processors", ("cpu", "mitigation")),
    ("Memory", ("memory", "numa")),
    ("Storage", ("block", "partition", "mount", "workdir")),
    ("Network", ("net",)),
    ("Graphics", ("gpu",)),
    ("Kernel settings", ("sysctl",)),
    ("What we may use", ("self", "limit", "cgroup")),
    ("What else runs", ("load", "process", "systemd", "cron")),
    ("Programs", ("command", "program", "git", "benchwright", "python")),
    ("Environment variables", ("env",)),
)
"""Headings, and the first words of the names that stand under them."""

_THINGS = ("block", "partition", "mount", "net", "numa", "gpu", "program")
_WIDTH = 96
_MOST_NAME = 40
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_CUT = 240


def machine_text(machine: Machine) -> str:
    """Return a capture as text, ended by a newline."""
    return visible_lines("\n".join(_lines(machine))) + "\n"


def taken_text(machine: Machine) -> str:
    """Return when a capture was taken: `2026-11-21 23:26:58 UTC`."""
    taken = datetime.fromtimestamp(machine.taken_ns // 10**9, UTC)
    return f"{taken:%Y-%m-%d %H:%M:%S} UTC"


def shown_value(name: str, value: str) -> str:
    """Return a value as it is shown: sizes with a unit, flags counted, long texts cut."""
    text = one_line(value) or "none"
    if name == "cpu.flags":
        digest = hashlib.sha256(" ".join(sorted(value.split())).encode()).hexdigest()
        return f"{len(value.split())} flags, sha256 {digest[:16]}"
    size = _size(name, text)
    if size:
        return f"{text} ({size})"
    return text if len(text) <= _CUT else f"{text[:_CUT]}... ({len(text)} characters)"


def _lines(machine: Machine) -> Iterator[str]:
    absent = [fact for fact in machine.facts if fact.value is None]
    there = [fact for fact in machine.facts if fact.value is not None]
    count = f"{counted(len(there), 'fact')}, {len(absent)} absent"
    yield f"captured {taken_text(machine)}: {count}"
    for title, words in _headings(there):
        facts = [f for word in words for f in there if _first(f) == word]
        if facts:
            yield ""
            yield title
            yield from _facts(facts, _name_width(facts))
    if absent:
        yield ""
        yield "Absent"
        yield from _absent(absent)


def _headings(facts: list[Fact]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the groups, and one more for names that a newer version may have."""
    known = {word for _, words in GROUPS for word in words}
    others = tuple(dict.fromkeys(_first(f) for f in facts if _first(f) not in known))
    return (*GROUPS, ("Other", others))


def _facts(facts: list[Fact], width: int) -> Iterator[str]:
    for thing, of_thing in groupby(facts, _thing):
        if thing:
            yield from _paragraph(thing, list(of_thing))
        else:
            for fact in of_thing:
                value = shown_value(fact.name, fact.value or "")
                yield f"  {fact.name:<{width}}  {value}"


def _paragraph(thing: str, facts: list[Fact]) -> Iterator[str]:
    pairs = (
        f"{f.name.rpartition('.')[2]} {shown_value(f.name, f.value or '')}"
        for f in facts
    )
    yield from _wrapped(thing, "; ".join(pairs))


def _absent(facts: list[Fact]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for fact in facts:
        reasons.setdefault(fact.absent or "no reason known", []).append(fact.name)
    for reason, names in sorted(reasons.items()):
        yield from _wrapped(reason, ", ".join(names))


def _wrapped(head: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(
        text, _WIDTH - 6, break_long_words=False, break_on_hyphens=False
    )
    yield f"  {head}"
    yield from (f"      {line}" for line in lines)


def _name_width(facts: list[Fact]) -> int:
    """Return the width of a group's column of names; a very long one sticks out."""
    return min(
        _MOST_NAME, max((len(f.name) for f in facts if not _thing(f)), default=0)
    )


def _first(fact: Fact) -> str:
    return fact.name.partition(".")[0]


def _thing(fact: Fact) -> str:
    """Return the thing that a fact is of, such as `block.vda`; empty for the machine."""
    thing = fact.name.rpartition(".")[0]
    return thing if _first(fact) in _THINGS and "." in thing else ""


def _size(name: str, text: str) -> str:
    """Return a size in a unit that a person reads, empty for what is no size."""
    if not text.isdecimal() or not name.endswith(("_bytes", "_kib")):
        return ""
    size = int(text) / (1024 if name.endswith("_bytes") else 1)
    if size < 1:
        return ""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} {_UNITS[-1]}"
