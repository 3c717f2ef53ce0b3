"""Keys of effects: the same program and the same outcomes give the same keys.

A key is `<branch>.<n>/<what>`: `n` counts the program's effects in order, `branch` is 0
until a checkpoint is restored, then names that restore, because a program may take
another way after one. Epochs are keyed under their test, so they survive a restore.
"""

from __future__ import annotations


class EffectKeys:
    """Hands out the keys of one pass over a program."""

    def __init__(self) -> None:
        self._branch = "0"
        self._count = 0

    def next(self, what: str) -> str:
        """Return the key of the next effect."""
        self._count += 1
        return f"{self._branch}.{self._count}/{what}"

    def restore(self, sequence: int) -> None:
        """Begin the branch that a restored checkpoint opens."""
        self._branch = f"r{sequence}"
        self._count = 0


def epoch_key(test_key: str, epoch: int) -> str:
    """Return the key of one epoch of a test."""
    return f"{test_key}/epoch/{epoch}"
