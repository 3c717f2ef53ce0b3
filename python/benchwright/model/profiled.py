"""Where processor time went: stacks with their samples, and what is read off them.

Decision: a profile is a table of stacks, root first, with how often each was seen; a flame
graph, the busiest functions and a difference of two arms are all functions of it. Frames
of the kernel end in `_[k]`, as in the folded format that other tools read. Source: Gregg,
The Flame Graph, CACM 59(6), 2016.
"""

from __future__ import annotations

import msgspec

KERNEL = "_[k]"
"""Ends the name of a frame that ran in the kernel."""
UNKNOWN = "[unknown]"
"""A frame of which not even the file is known."""

Stack = tuple[str, ...]
"""Frames from the outermost to the one that ran; the first is the program's name."""


class StackSample(msgspec.Struct, frozen=True):
    """One sample: when, of whom, and where it was."""

    at_ns: int
    """CLOCK_MONOTONIC [ns]."""
    pid: int
    tid: int
    stack: Stack


class Folded(msgspec.Struct, frozen=True):
    """How many samples each stack has."""

    counts: dict[Stack, int]

    @property
    def samples(self) -> int:
        """Return the samples of all stacks together."""
        return sum(self.counts.values())


class TopFunction(msgspec.Struct, frozen=True):
    """One function, by the time in it alone, not in what it calls."""

    name: str
    samples: int
    share: float
    """Of all samples."""
    kernel: bool = False


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a profile says, for findings and reports; the stacks are in its file."""

    samples: int
    hertz: int
    """Samples a second of processor time that were asked for."""
    kernel_share: float
    """Of the samples that were in the kernel; 0 with `user_only`."""
    unknown_share: float
    """Of the samples whose innermost frame has no name: symbols are missing."""
    top: tuple[TopFunction, ...] = ()
    """Busiest first; at most 10."""
    folded: str = ""
    """The file of the stacks, relative to the study."""
    svg: str = ""
    """The flame graph, relative to the study."""
    user_only: bool = False
    """The kernel's part was not to be had (kernel.perf_event_paranoid)."""
    epochs: tuple[int, int] | None = None
    """First and last trial seen together; None: not told apart."""
    alone_share: float = 0.0
    """Of the samples of which only the innermost function is known, not what called it."""
