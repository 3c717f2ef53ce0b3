"""Inputs that are drawn anew for each trial, so that an interval is about a population of inputs.

Decision: what a trial gets is a function of the seed, the input's name and the number of the trial, or
of the block of a comparison: a resumed session draws the same, and all arms of a block have the same
inputs. Source: the hash is BLAKE2b (RFC 7693), of which 64 bits are taken modulo the number of values.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from benchwright.core.plan import Pairs, Phases


class DrawnInput(msgspec.Struct, frozen=True):
    """An input that commands name by `{name}`."""

    name: str
    texts: tuple[str, ...] = ()
    """What it is drawn from; empty: the whole numbers from `low` to `high`."""
    low: int = 0
    high: int = 0

    @property
    def placeholder(self) -> str:
        """What stands for its value in a command."""
        return f"{{{self.name}}}"

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.texts) or self.high - self.low + 1

    def value(self, seed: int, number: int) -> str:
        """Return what the trial or block of this number gets."""
        key = f"{seed}/{self.name}/{number}".encode()
        at = int.from_bytes(blake2b(key, digest_size=8).digest(), "big") % self.size
        return self.texts[at] if self.texts else str(self.low + at)


class Draws(msgspec.Struct, frozen=True):
    """The inputs of a program's trials."""

    seed: int
    inputs: tuple[DrawnInput, ...]

    def of(self, number: int) -> Pairs:
        """Return the inputs of the trial or block of this number, by name."""
        return tuple((one.name, one.value(self.seed, number)) for one in self.inputs)

    def used_by(self, phases: Phases) -> Draws:
        """Return the inputs that a trial's commands name; of the others nothing can depend on."""
        commands = (*phases.setup, *phases.exec, *phases.cleanup)
        text = "\0".join(word for command in commands for word in command.argv)
        return Draws(self.seed, tuple(one for one in self.inputs if one.placeholder in text))
