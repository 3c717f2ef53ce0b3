"""Bisection of commits: which commit is measured next, given the outcomes so far.

A pure function of the outcomes, so a bisection continues where it was stopped. A commit that cannot
be built, or whose comparison is undecided, is left out and its neighbours are measured; if such
commits are all that is left, the answer is the range that they span.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class CommitOutcome(enum.StrEnum):
    """What the comparison of a commit with the first one showed."""

    OLD = "old"
    """It does not have the change."""
    NEW = "new"
    """It has the change."""
    UNDECIDED = "undecided"
    BROKEN = "broken"
    """It could not be built, or its command failed."""


class BisectAnswer(msgspec.Struct, frozen=True):
    """The commits of which one made the change: indices `first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_one(self) -> bool:
        """Whether the commit is known."""
        return self.first == self.last


def next_commit(count: int, known: Mapping[int, CommitOutcome]) -> int | BisectAnswer:
    """Return the index of the commit to measure next, or the answer.

    `count`: the number of commits, at least 2, in order; the first does not have the change, the
    last has it. `known`: outcomes of other commits by index.
    """
    assert count >= 2
    new = min((at for at, one in known.items() if one is CommitOutcome.NEW), default=0)
    last = new or count - 1
    old = [at for at, one in known.items() if one is CommitOutcome.OLD and at < last]
    first = max(old, default=0)
    unknown = [at for at in range(first + 1, last) if at not in known]
    if not unknown:
        return BisectAnswer(first + 1, last)
    middle = (first + last) / 2
    return min(unknown, key=lambda at: (abs(at - middle), at))


def steps_left(count: int, known: Mapping[int, CommitOutcome]) -> int:
    """Return the number of comparisons that a bisection needs if each decides."""
    found = dict(known)
    steps = 0
    while isinstance(at := next_commit(count, found), int):
        found[at] = CommitOutcome.OLD
        steps += 1
    return steps
