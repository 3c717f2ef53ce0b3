"""A capture of the machine, and the difference between two captures, as text and for JSON."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from benchwright.core.machine import Fact, FactChange, FactWeight, MachineCapture, MachineDifference
from benchwright.core.text import binary_size_text, plural
from benchwright.core.untrusted import one_line
from benchwright.findings.environment import value_text
from benchwright.report.documents import entries, entry, report_text

# --------------------------------------------------------------------------------------
# A capture of the machine as text: in groups, one fact per line, absent facts at the end.
#
# Decision: the facts of one device or mount are one paragraph, and absent facts are grouped by
# reason, to keep the page short. `--json` has every fact with its source.

GROUPS = (
    ("Host", ("host", "os", "kernel", "firmware", "virtual", "clock")),
    ("Processors", ("cpu", "mitigation")),
    ("Memory", ("memory", "numa")),
    ("Storage", ("block", "partition", "mount", "workdir")),
    ("Network", ("net",)),
    ("Graphics", ("gpu",)),
    ("Kernel settings", ("sysctl",)),
    ("Limits of this process", ("self", "limit", "cgroup")),
    ("Other programs", ("load", "process", "systemd", "cron")),
    ("Programs", ("command", "program", "git", "benchwright", "python")),
    ("Environment variables", ("env",)),
)
"""Headings, each with the first words of the names of its facts."""

_THINGS = ("block", "partition", "mount", "net", "numa", "gpu", "program")
_WIDTH = 96
_MOST_NAME = 40
_CUT = 240


def machine_text(machine: MachineCapture) -> str:
    """Return a capture as text, ending with a newline."""
    return report_text(_lines(machine))


def taken_text(machine: MachineCapture) -> str:
    """Return when a capture was taken: `2026-11-21 23:26:58 UTC`."""
    taken = datetime.fromtimestamp(machine.taken_ns // 10**9, UTC)
    return f"{taken:%Y-%m-%d %H:%M:%S} UTC"


def shown_value(name: str, value: str) -> str:
    """Return a value for display: sizes with a unit, CPU flags counted, long texts cut."""
    text = one_line(value) or "none"
    if name == "cpu.flags":
        digest = hashlib.sha256(" ".join(sorted(value.split())).encode()).hexdigest()
        return f"{len(value.split())} flags, sha256 {digest[:16]}"
    size = _size(name, text)
    if size:
        return f"{text} ({size})"
    return text if len(text) <= _CUT else f"{text[:_CUT]}... ({len(text)} characters)"


def _lines(machine: MachineCapture) -> Iterator[str]:
    absent = [fact for fact in machine.facts if fact.value is None]
    there = [fact for fact in machine.facts if fact.value is not None]
    count = f"{plural(len(there), 'fact')}, {len(absent)} absent"
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
    """Return the groups, and one more for the names that no group has."""
    known = {word for _, words in GROUPS for word in words}
    others = tuple(dict.fromkeys(_first(f) for f in facts if _first(f) not in known))
    return (*GROUPS, ("Other", others))


def _facts(facts: list[Fact], width: int) -> Iterator[str]:
    for thing, of_thing in groupby(facts, _thing):
        if thing:
            pairs = (
                f"{fact.name.rpartition('.')[2]} {shown_value(fact.name, fact.value or '')}"
                for fact in of_thing
            )
            yield from _wrapped(thing, "; ".join(pairs))
        else:
            for fact in of_thing:
                value = shown_value(fact.name, fact.value or "")
                yield f"  {fact.name:<{width}}  {value}"


def _absent(facts: list[Fact]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for fact in facts:
        reasons.setdefault(fact.absent or "no reason known", []).append(fact.name)
    for reason, names in sorted(reasons.items()):
        yield from _wrapped(reason, ", ".join(names))


def _wrapped(head: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, _WIDTH - 6, break_long_words=False, break_on_hyphens=False)
    yield f"  {head}"
    yield from (f"      {line}" for line in lines)


def _name_width(facts: list[Fact]) -> int:
    """Return the width of a group's column of names; very long names overflow it."""
    return min(_MOST_NAME, max((len(f.name) for f in facts if not _thing(f)), default=0))


def _first(fact: Fact) -> str:
    return fact.name.partition(".")[0]


def _thing(fact: Fact) -> str:
    """Return the device that a fact describes, such as `block.vda`; empty for the machine."""
    thing = fact.name.rpartition(".")[0]
    return thing if _first(fact) in _THINGS and "." in thing else ""


def _size(name: str, text: str) -> str:
    """Return a size with a binary unit; empty for sizes below 1 KiB and for other values."""
    if not text.isdecimal() or not name.endswith(("_bytes", "_kib")):
        return ""
    size = int(text) * (1 if name.endswith("_bytes") else 1024)
    return binary_size_text(size) if size >= 1024 else ""


# --------------------------------------------------------------------------------------
# The differences between two captures, as text: the most serious first; expected ones are counted.

NamedCapture = tuple[str, MachineCapture]
"""The user's name for a capture, and the capture."""

_WEIGHT_MEANING = {
    FactWeight.FATAL: "the results are from different machines",
    FactWeight.SUSPICIOUS: "may change results",
    FactWeight.EXPECTED: "differ between any two runs",
}
_SEPARATORS = {
    "cpu.flags": " ",
    "cpu.bugs": " ",
    "kernel.command_line": " ",
    "kernel.lsm": ",",
    "env.PATH": ":",
    "env.LD_LIBRARY_PATH": ":",
}
_LONG = 40


def difference_text(
    a: NamedCapture, b: NamedCapture, difference: MachineDifference, *, everything: bool
) -> str:
    """Return the difference as text, ending with a newline; `everything` adds the expected
    changes."""
    return report_text(_difference_lines(a, b, difference, everything))


def _difference_lines(
    a: NamedCapture, b: NamedCapture, difference: MachineDifference, everything: bool
) -> Iterator[str]:
    for letter, (name, machine) in (("A", a), ("B", b)):
        yield f"{letter}  {name}, captured {taken_text(machine)}"
    if not difference.matters:
        yield ""
        yield "no known difference may change results"
    for weight in (FactWeight.FATAL, FactWeight.SUSPICIOUS):
        head = f"{weight.value}: {_WEIGHT_MEANING[weight]}"
        yield from _section(head, difference.of(weight))
    head = "unknown: could be read on one side only"
    yield from _section(head, difference.unknown)
    expected = [c for c in difference.changes if c.weight is FactWeight.EXPECTED]
    if everything:
        yield from _section(f"expected: {_WEIGHT_MEANING[FactWeight.EXPECTED]}", expected)
    elif expected:
        yield ""
        verb = "differs" if len(expected) == 1 else "differ"
        yield f"expected: {len(expected)} more {verb} between any two runs (--all)"


def _section(head: str, changes: Sequence[FactChange]) -> Iterator[str]:
    if changes:
        yield ""
        yield head
    for change in changes:
        yield f"  {change.name}"
        for letter, text in zip("AB", _sides(change), strict=True):
            yield f"    {letter}  {text}"


def _sides(change: FactChange) -> tuple[str, str]:
    """Return both values; for long lists, only the parts that the other side does not have."""
    before, after = change.before, change.after
    if before is not None and after is not None and len(before + after) > 2 * _LONG:
        parts, other = _parts(change.name, before), _parts(change.name, after)
        if len(parts) > 1 or len(other) > 1:
            only = [p for p in parts if p not in other]
            only_other = [p for p in other if p not in parts]
            if only or only_other:
                return _only(only), _only(only_other)
    return (
        _side(change.name, before, change.before_absent),
        _side(change.name, after, change.after_absent),
    )


def _parts(name: str, value: str) -> list[str]:
    separator = _SEPARATORS.get(name, "," if name.endswith(".options") else ", ")
    return value.split(separator)


def _only(parts: list[str]) -> str:
    return (
        f"only here: {one_line(', '.join(parts))}"
        if parts
        else "nothing that the other does not have"
    )


def _side(name: str, value: str | None, absent: str) -> str:
    if value is None:
        return value_text(None, absent, _LONG)
    return one_line(value) if name == "cpu.flags" else shown_value(name, value)


# -- the documents -----------------------------------------------------------------------

ENV_SCHEMA = "benchwright/env/1"


class FactEntry(msgspec.Struct, frozen=True):
    """One fact about the machine, or the reason why it is absent."""

    name: str
    value: str | None
    source: str
    absent: str
    weight: FactWeight


class EnvDocument(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=ENV_SCHEMA):
    """A capture of a machine."""

    of: str
    """What was captured: `now`, a study or a file."""
    taken_ns: int
    facts: tuple[FactEntry, ...]


class CaptureName(msgspec.Struct, frozen=True):
    """One of two captures."""

    of: str
    taken_ns: int


class ChangeEntry(msgspec.Struct, frozen=True):
    """One fact that differs between the captures."""

    name: str
    weight: FactWeight
    known: bool
    """Whether the values are known to differ; a fact that is absent on one side may be equal."""
    a: str | None
    b: str | None
    a_absent: str
    b_absent: str


class EnvDifferenceDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/env-diff/1"
):
    """Everything that differs between two captures."""

    a: CaptureName
    b: CaptureName
    counts: dict[str, int]
    """Number of changes by weight, and of `unknown` ones."""
    changes: tuple[ChangeEntry, ...]


def env_document(name: str, machine: MachineCapture) -> EnvDocument:
    """Return the document of a capture; `name` says what was captured, such as `now`."""
    facts = entries(FactEntry, machine.facts)
    return EnvDocument(of=name, taken_ns=machine.taken_ns, facts=facts)


def difference_document(
    a: NamedCapture, b: NamedCapture, difference: MachineDifference
) -> EnvDifferenceDocument:
    """Return the document with all differences between two captures."""
    counts = {weight.value: len(difference.of(weight)) for weight in FactWeight}
    return EnvDifferenceDocument(
        a=CaptureName(a[0], a[1].taken_ns),
        b=CaptureName(b[0], b[1].taken_ns),
        counts=counts | {"unknown": len(difference.unknown)},
        changes=tuple(
            entry(
                ChangeEntry,
                change,
                a=change.before,
                b=change.after,
                a_absent=change.before_absent,
                b_absent=change.after_absent,
            )
            for change in difference.changes
        ),
    )
