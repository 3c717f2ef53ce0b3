"""The machine and its software as a file of another tool describes them: facts, like those of a
capture.

Purpose: two files that were written on different machines are compared with the finding
`environments-differ`, and a history begins a segment where they change. Decision: a fact that `bw
env` captures too has its name, so that a file can be compared with a study; others have the tool's
name. What a file does not state is unknown, and no difference.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.features.exchange.foreign.json_file import Node

CPU = "cpu.model"
CPUS = "cpu.threads"
_MACHINE = (CPU, CPUS, "goos", "goarch", "machine", "arch")
"""Facts of the machine itself; others are of its software."""


def stated_machine(facts: Mapping[str, str]) -> MachineCapture | None:
    """Return the facts that are stated; None if none is."""
    found = tuple(
        Fact(name, value, weight=_weight(name)) for name, value in sorted(facts.items()) if value
    )
    return MachineCapture(0, found) if found else None


def _weight(name: str) -> FactWeight:
    return FactWeight.FATAL if name in _MACHINE else FactWeight.SUSPICIOUS


def facts_of(described: Node, *names: str) -> dict[str, str]:
    """Return the members of an object with these names that are texts or numbers."""
    return {
        name: described[name].text()
        for name in names
        if isinstance(described[name].value, str | int | float)
    }
