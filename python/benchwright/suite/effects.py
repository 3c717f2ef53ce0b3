"""What a program asks of the world, one effect at a time, and what it is answered.

`execute` yields these; a session answers each with `send`. The answer's meaning is in
each effect's first line; effects without one are answered with None.
"""

from __future__ import annotations

import msgspec

from benchwright.core.comparison import ComparisonRule, NullResult
from benchwright.core.plan import Command, Pairs, StoppingRule, TestPlan
from benchwright.suite.program import Where


class Say(msgspec.Struct, frozen=True):
    """Print a text (ECHO)."""

    text: str


class RunSystem(msgspec.Struct, frozen=True):
    """Run a command once (SYSTEM). Answer: its exit status."""

    command: Command
    environment: Pairs
    where: Where


class SetFastFail(msgspec.Struct, frozen=True):
    """From now on a failure ends the session, after this command if there is one."""

    command: Command | None


class WriteCheckpoint(msgspec.Struct, frozen=True):
    """Make this point one to resume from. Answer: 0 written, 1 resumed from here."""

    file: str | None
    where: Where


class BeginTest(msgspec.Struct, frozen=True):
    """A test begins; AskNext, RunEpochs and CloseTest follow for it."""

    name: str
    stopping: StoppingRule
    where: Where


class AskNext(msgspec.Struct, frozen=True):
    """Decide. Answer: how many epochs to run next, 0 to stop."""

    name: str


class RunEpochs(msgspec.Struct, frozen=True):
    """Run epochs `first` .. `first + count - 1`. Answer: how many were really run.

    When fewer ran than were requested, AskNext comes next.
    """

    plan: TestPlan
    first: int
    count: int


class EndTest(msgspec.Struct, frozen=True):
    """The test is over; `plan` is the one of its last epoch, None if none was run.

    Not yielded for a test that STOP ends.
    """

    plan: TestPlan | None


class RunComparison(msgspec.Struct, frozen=True):
    """Run a comparison to its end: blocks of one epoch of each plan, by its own rule."""

    plans: tuple[TestPlan, ...]
    """The arms that run, each with `arm` set."""
    rule: ComparisonRule
    names: tuple[str, ...]
    """Of all arms, a stored baseline too."""
    null: NullResult | None
    where: Where


class Halt(msgspec.Struct, frozen=True):
    """STOP was reached: nothing follows. A session that halts after a checkpoint, as
    one that reboots the machine does, can be resumed from there."""


Effect = (
    Say
    | RunSystem
    | SetFastFail
    | WriteCheckpoint
    | BeginTest
    | AskNext
    | RunEpochs
    | EndTest
    | RunComparison
    | Halt
)
EffectAnswer = int | None
