"""At which epochs a legacy rule is looked at: minimum, then every increment."""

from __future__ import annotations

import msgspec


class Looks(msgspec.Struct, frozen=True):
    """The fixed points of the epoch count at which a decision is taken."""

    minimum: int
    increment: int
    maximum: int | None = None

    def epochs_to_next(self, epochs: int) -> int:
        """Return how many epochs are missing to the next look; 0 at one."""
        first = max(self.minimum, 1)
        if self.maximum is not None and epochs >= self.maximum:
            return 0
        if epochs < first:
            return self._within(epochs, first - epochs)
        over = (epochs - first) % self.step_size
        return self._within(epochs, self.step_size - over) if over else 0

    def step(self, epochs: int) -> int:
        """Return how many epochs to run after a look that did not stop."""
        return self._within(epochs, self.step_size)

    def taken(self, epochs: int) -> int:
        """Return how many looks there have been, the one at `epochs` included."""
        first = max(self.minimum, 1)
        if epochs <= first:
            return 1
        return 1 - (first - epochs) // self.step_size

    @property
    def step_size(self) -> int:
        """The increment, at least 1."""
        return max(self.increment, 1)

    def _within(self, epochs: int, more: int) -> int:
        if self.maximum is None:
            return more
        return max(min(more, self.maximum - epochs), 1)
