"""Effects: the requests of an interpreted program to its session, and their answers.

`interpret.execute` yields effects; the session answers each with `send`. An effect's docstring
states its answer; without such a statement the answer is None.
"""

from __future__ import annotations

import msgspec

from benchwright.core.comparison import ComparisonRule, NullResult
from benchwright.core.plan import Command, Pairs, StoppingRule, TestPlan
from benchwright.inputs.mistakes import Where


class Say(msgspec.Struct, frozen=True):
    """Print a text (ECHO)."""

    text: str


class RunSystem(msgspec.Struct, frozen=True):
    """Run a command once (SYSTEM). Answer: its exit status."""

    command: Command
    environment: Pairs
    where: Where


class SetFastFail(msgspec.Struct, frozen=True):
    """From now on a failure ends the session; first the command runs, if there is one."""

    command: Command | None


class WriteCheckpoint(msgspec.Struct, frozen=True):
    """Write a checkpoint. Answer: 0 if it was written, 1 if the session resumed from it."""

    file: str | None
    where: Where


class BeginTest(msgspec.Struct, frozen=True):
    """Start a test; AskNext, RunEpochs and EndTest follow for it, between those of other tests
    if the tests are interleaved."""

    name: str
    stopping: StoppingRule
    where: Where
    place: int | None = None
    """Its place among interleaved tests, in the order given."""


class AskNext(msgspec.Struct, frozen=True):
    """Apply the stopping rule. Answer: the number of epochs to run next, 0 to stop."""

    name: str


class RunEpochs(msgspec.Struct, frozen=True):
    """Run epochs `first` .. `first + count - 1`. Answer: the number that ran.

    If that is less than `count`, AskNext follows.
    """

    plan: TestPlan
    first: int
    count: int


class EndTest(msgspec.Struct, frozen=True):
    """End a test; `plan` is that of its last epoch, None if none ran.

    Not yielded if STOP ends the test.
    """

    name: str
    plan: TestPlan | None


class RunComparison(msgspec.Struct, frozen=True):
    """Run a comparison in blocks (one epoch of each plan) until its rule stops it."""

    plans: tuple[TestPlan, ...]
    """The arms that run; `arm` is set in each."""
    rule: ComparisonRule
    names: tuple[str, ...]
    """Names of all arms, also of a stored baseline."""
    null: NullResult | None
    where: Where


class Halt(msgspec.Struct, frozen=True):
    """End the program at STOP; no effect follows.

    A session that stops after a checkpoint, for example to reboot, can be resumed from it.
    """


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
