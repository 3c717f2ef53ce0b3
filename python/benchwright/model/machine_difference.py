"""What differs between two captures of a machine."""

from __future__ import annotations

import msgspec

from benchwright.model.machine import Weight


class Change(msgspec.Struct, frozen=True):
    """One fact, or one device with all of its facts, that is not the same in both."""

    name: str
    before: str | None
    after: str | None
    before_absent: str
    """Why there is no value before; empty where there is one."""
    after_absent: str
    weight: Weight
    known: bool = True
    """Whether it is known to differ: what could not be read on one side may be the same."""


class Difference(msgspec.Struct, frozen=True):
    """All that differs between two captures, the gravest first."""

    changes: tuple[Change, ...]

    def of(self, weight: Weight) -> tuple[Change, ...]:
        """Return what is known to differ with this weight."""
        return tuple(c for c in self.changes if c.known and c.weight is weight)

    @property
    def unknown(self) -> tuple[Change, ...]:
        """What could be read on one side only, beyond what always differs."""
        return tuple(
            c for c in self.changes if not c.known and c.weight is not Weight.EXPECTED
        )

    @property
    def matters(self) -> bool:
        """Whether anything that may change a figure is known to differ."""
        return bool(self.of(Weight.FATAL) or self.of(Weight.SUSPICIOUS))
