"""What differs between two captures, as text: the gravest first, the expected counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.environment import value_text
from benchwright.model.machine import Machine, Weight
from benchwright.model.machine_difference import Change, Difference
from benchwright.model.visible import one_line, visible_lines
from benchwright.report.env import shown_value, taken_text

Named = tuple[str, Machine]
"""What the user called a capture, and the capture."""

_MEANING = {
    Weight.FATAL: "figures of the two are of different machines",
    Weight.SUSPICIOUS: "may well change a figure",
    Weight.EXPECTED: "differ between any two runs",
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
    a: Named, b: Named, difference: Difference, *, everything: bool
) -> str:
    """Return the difference as text, ended by a newline; the expected with `everything`."""
    return visible_lines("\n".join(_lines(a, b, difference, everything))) + "\n"


def _lines(
    a: Named, b: Named, difference: Difference, everything: bool
) -> Iterator[str]:
    for letter, (name, machine) in (("A", a), ("B", b)):
        yield f"{letter}  {name}, captured {taken_text(machine)}"
    if not difference.matters:
        yield ""
        yield "nothing is known to differ that may change a figure"
    for weight in (Weight.FATAL, Weight.SUSPICIOUS):
        head = f"{weight.value}: {_MEANING[weight]}"
        yield from _section(head, difference.of(weight))
    head = "not known: could be read on one side only"
    yield from _section(head, difference.unknown)
    expected = [c for c in difference.changes if c.weight is Weight.EXPECTED]
    if everything:
        yield from _section(f"expected: {_MEANING[Weight.EXPECTED]}", expected)
    elif expected:
        yield ""
        verb = "differs" if len(expected) == 1 else "differ"
        yield f"expected: {len(expected)} more {verb} between any two runs (--all)"


def _section(head: str, changes: Sequence[Change]) -> Iterator[str]:
    if changes:
        yield ""
        yield head
    for change in changes:
        yield f"  {change.name}"
        for letter, text in zip("AB", _sides(change), strict=True):
            yield f"    {letter}  {text}"


def _sides(change: Change) -> tuple[str, str]:
    """Return both values; of long lists only what is in one and not in the other."""
    before, after = change.before, change.after
    if before is not None and after is not None and len(before + after) > 2 * _LONG:
        one, other = _parts(change.name, before), _parts(change.name, after)
        if len(one) > 1 or len(other) > 1:
            only = [p for p in one if p not in other]
            only_other = [p for p in other if p not in one]
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
        else "nothing that the other lacks"
    )


def _side(name: str, value: str | None, absent: str) -> str:
    if value is None:
        return value_text(None, absent, _LONG)
    return one_line(value) if name == "cpu.flags" else shown_value(name, value)
