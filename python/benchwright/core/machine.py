"""A capture of the machine: one fact a line; and the differences between two captures."""

from __future__ import annotations

import enum

import msgspec

# --------------------------------------------------------------------------------------
# A capture of the machine: named facts, each with its source, or the reason why it is
# absent.
#
# Purpose: what `bw env` prints and every session records. Decision: a flat table of named
# texts, not a tree of types: machines differ, a fact that a newer kernel reports needs no new
# type, and the difference of two captures is a difference of two tables. Nothing here is
# secret: values of variables that may be are redacted where they are read.


class FactWeight(enum.StrEnum):
    """Importance of a differing fact for comparing two results."""

    EXPECTED = "expected"
    """It differs between any two runs: free memory, uptime, a process id."""
    SUSPICIOUS = "suspicious"
    """It may well change a figure: a kernel's version, a mount option."""
    FATAL = "fatal"
    """Figures are of different machines: CPU, memory size, governor."""


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
    weight: FactWeight = FactWeight.SUSPICIOUS


class MachineCapture(msgspec.Struct, frozen=True):
    """A capture: facts in order of name, and when it was taken."""

    taken_ns: int
    """CLOCK_REALTIME [ns since 1970]; 0 for what a file of another tool states, which is only a
    part."""
    facts: tuple[Fact, ...]

    def named(self) -> dict[str, Fact]:
        """Return the facts by name."""
        return {fact.name: fact for fact in self.facts}


class Revision(msgspec.Struct, frozen=True):
    """The git commit of a session's working directory."""

    commit: str
    """Its whole name, 40 or 64 hexadecimal digits."""
    branch: str | None = None
    """None: on no branch."""
    dirty: bool | None = None
    """Whether tracked files differ from the commit; None: unknown."""
    committed_s: int | None = None
    """The committer's time [s since 1970]; None: unknown."""


def revision_of(capture: MachineCapture) -> Revision | None:
    """Return the commit of a capture's working directory; None outside a repository and before
    its first commit."""
    facts = {fact.name: fact.value for fact in capture.facts}
    commit = facts.get("git.commit")
    if commit is None:
        return None
    state, time = facts.get("git.state"), facts.get("git.commit_time")
    return Revision(
        commit,
        facts.get("git.branch"),
        None if state is None else state != "clean",
        int(time) if time is not None and time.isdecimal() else None,
    )


# -- What differs between two captures of a machine ------------------------------------


class FactChange(msgspec.Struct, frozen=True):
    """One fact, or one device with all of its facts, that is not the same in both."""

    name: str
    before: str | None
    after: str | None
    before_absent: str
    """Why there is no value before; empty where there is one."""
    after_absent: str
    weight: FactWeight
    known: bool = True
    """Whether it is known to differ: what could not be read on one side may be the same."""


class MachineDifference(msgspec.Struct, frozen=True):
    """All that differs between two captures, the gravest first."""

    changes: tuple[FactChange, ...]

    def of(self, weight: FactWeight) -> tuple[FactChange, ...]:
        """Return what is known to differ with this weight."""
        return tuple(c for c in self.changes if c.known and c.weight is weight)

    @property
    def unknown(self) -> tuple[FactChange, ...]:
        """What could be read on one side only, beyond what always differs."""
        return tuple(c for c in self.changes if not c.known and c.weight is not FactWeight.EXPECTED)

    @property
    def matters(self) -> bool:
        """Whether anything that may change a figure is known to differ."""
        return bool(self.of(FactWeight.FATAL) or self.of(FactWeight.SUSPICIOUS))
