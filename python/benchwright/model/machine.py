"""What machine it is: one fact a line, each with its source, or the reason it is absent.

Purpose: what `bw env` prints and every session records. Decision: a flat table of named
texts, not a tree of types: machines differ, a fact that a newer kernel tells needs no new
type, and the difference of two captures is a difference of two tables. Nothing here is
secret: values of variables that may be are redacted where they are read.
"""

from __future__ import annotations

import enum

import msgspec


class Weight(enum.StrEnum):
    """What a difference in a fact means for comparing two results."""

    EXPECTED = "expected"
    """It differs between any two runs: free memory, uptime, a process id."""
    SUSPICIOUS = "suspicious"
    """It may well change a figure: a kernel's version, a mount option."""
    FATAL = "fatal"
    """Figures are of different machines: processor, memory size, governor."""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is known of the machine, or known to be absent."""

    name: str
    """Dotted, from a fixed vocabulary: `cpu.model`, `block.vda.scheduler`."""
    value: str | None
    """As the source has it, trimmed; None: absent."""
    source: str = ""
    """The file or command that it was read from."""
    absent: str = ""
    """Why there is no value: `no such file`, `permission denied`."""
    weight: Weight = Weight.SUSPICIOUS


class Machine(msgspec.Struct, frozen=True):
    """A capture: facts in order of name, and when it was taken."""

    taken_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    facts: tuple[Fact, ...]

    def named(self) -> dict[str, Fact]:
        """Return the facts by name."""
        return {fact.name: fact for fact in self.facts}
