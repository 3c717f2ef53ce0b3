"""What a controller answers: run more epochs, ask a program, or stop."""

from __future__ import annotations

import msgspec

from benchwright.model.estimate import Reached


class RunMore(msgspec.Struct, frozen=True):
    """Run this many epochs, between which nothing is decided: one batch."""

    epochs: int

    def __post_init__(self) -> None:
        assert self.epochs >= 1


class AskProgram(msgspec.Struct, frozen=True):
    """Run the test's own termination program; its exit status is the next observation."""


class Stop(msgspec.Struct, frozen=True):
    """The test is over, and why."""

    reason: str
    """`count`, `predicate`, `program`, `precise`, `max-runs`, `max-time`, `failed`."""
    detail: str
    """The reason as a sentence with figures."""
    answered: bool = True
    """False when it stopped without an answer: exit status 3."""
    looks: int = 0
    """How many times the data were looked at."""
    target: float | None = None
    """The half width asked for, as a share of the value; None without such a target."""
    reached: tuple[Reached, ...] = ()
    """The interval reached for each of the rule's metrics."""


Decision = RunMore | AskProgram | Stop
