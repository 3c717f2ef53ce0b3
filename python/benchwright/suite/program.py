"""The program of steps that every suite language compiles to.

Purpose: plain frozen data; interpret.py defines the meaning of each step.
Decision: variables stay in texts, as `Slot`s of a `Template`, because Auto-pilot substitutes
them just before a line is executed; TOML's placeholders work the same way.
Non-goals: syntax. Nothing here depends on a suite language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from benchwright.core.comparison import ComparisonRule, NullResult
from benchwright.core.draws import Draws
from benchwright.core.hosts import NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import CommandMode, MetricSpec, StoppingRule
from benchwright.inputs.mistakes import SourceFile, Where
from benchwright.inputs.template import Template

Relation = Literal["=", "!=", "<", ">", "<=", ">="]


class Relational(msgspec.Struct, frozen=True, tag=True):
    """`VAR OP VAL`; `=` and `!=` compare numbers if both sides are numbers, else strings."""

    left: Template
    operator: Relation
    right: Template
    where: Where


class Holds(msgspec.Struct, frozen=True, tag=True):
    """An expression over the variables that must be true (with `negated`: false)."""

    expression: Template
    negated: bool
    where: Where


Condition = Relational | Holds


class Echo(msgspec.Struct, frozen=True, tag=True):
    """Print a text."""

    text: Template
    where: Where


class Assign(msgspec.Struct, frozen=True, tag=True):
    """Set a variable; `environment` exports it, `expression` computes it."""

    name: str
    value: Template
    environment: bool
    expression: bool
    where: Where


class ForEach(msgspec.Struct, frozen=True, tag=True):
    """Set a variable to each value in turn; the variable is a factor of the samples.

    The values are the words of one template (`.ap`), or one template each (TOML).
    """

    name: str
    values: Template | tuple[Template, ...]
    body: tuple[Step, ...]
    where: Where


class For(msgspec.Struct, frozen=True, tag=True):
    """Count from `begin` to `end`, multiplying by `factor` or adding `add` (1)."""

    name: str
    begin: Template
    end: Template
    factor: Template | None
    add: Template | None
    body: tuple[Step, ...]
    where: Where


class While(msgspec.Struct, frozen=True, tag=True):
    """Repeat while a condition holds."""

    condition: Condition
    body: tuple[Step, ...]
    where: Where


class Branch(msgspec.Struct, frozen=True):
    """A condition of an If, and the steps under it."""

    condition: Condition
    body: tuple[Step, ...]


class If(msgspec.Struct, frozen=True, tag=True):
    """Run the first branch whose condition holds, else `otherwise`."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Step, ...]
    where: Where


class SetThreads(msgspec.Struct, frozen=True, tag=True):
    """Set the number of concurrent processes of the next tests."""

    count: Template
    where: Where


class Test(msgspec.Struct, frozen=True, tag=True):
    """Run a test. Its body is interpreted once per epoch and sets the phases' commands.

    `heading` is only the name if `stopping` is given, else `NAME COUNT` or
    `NAME BEGIN INCREMENT PROGRAM`, split into words after substitution.
    """

    __test__ = False

    heading: Template
    stopping: StoppingRule | None
    body: tuple[Step, ...]
    where: Where
    directory: str | None = None
    """Working directory of its commands; None: that of the session."""


class Interleave(msgspec.Struct, frozen=True, tag=True):
    """Run all tests of the body in rounds: in each round some trials of every test that has not
    ended, in a random order. Reports list the tests in the order of the body.

    The body has no effects except its tests.
    """

    body: tuple[Step, ...]
    seed: int
    where: Where


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Run tests as the arms of a comparison, in blocks, until its rule stops it."""

    __test__ = False

    arms: tuple[Test, ...]
    """The arms that run: without a stored baseline."""
    rule: ComparisonRule
    token: str
    """Distinguishes this comparison from all others; empty: the session chooses one."""
    where: Where
    null: NullResult | None = None
    """A stored null comparison: the machine's noise floor, stored with the result."""


class SetPhase(msgspec.Struct, frozen=True, tag=True):
    """Add a command to a phase: a command line, or an exact argv."""

    mode: CommandMode
    command: Template | tuple[Template, ...]
    where: Where
    drawn: tuple[str, ...] = ()
    """Names of inputs that each trial gets: `{name}` in a command line is a part of one word."""


class FastFail(msgspec.Struct, frozen=True, tag=True):
    """End the session at the first failure; first run the script, if there is one."""

    command: Template | None
    where: Where


class Checkpoint(msgspec.Struct, frozen=True, tag=True):
    """Write a checkpoint; set RESTORE to 0, or to 1 after a resume from it."""

    file: Template | None
    where: Where


class System(msgspec.Struct, frozen=True, tag=True):
    """Run a command once; set SYSTEM_STATUS to its exit status."""

    command: Template
    where: Where


class StopProgram(msgspec.Struct, frozen=True, tag=True):
    """End the program at once."""

    where: Where


class SetTimeout(msgspec.Struct, frozen=True, tag=True):
    """Set the time limit of an EXEC phase: a duration, or `none`."""

    duration: Template
    where: Where


class SetOkStatus(msgspec.Struct, frozen=True, tag=True):
    """Set the exit statuses with which an EXEC command succeeds: `0,1`."""

    statuses: Template
    where: Where


class SetWarmUp(msgspec.Struct, frozen=True, tag=True):
    """Set the number of warm-up trials."""

    count: Template
    where: Where


class SetOutput(msgspec.Struct, frozen=True, tag=True):
    """Set the handling of output: `null`, `bounded`, `file` or `inherit`, with `:LIMIT`."""

    choice: Template
    where: Where


class Metric(msgspec.Struct, frozen=True, tag=True):
    """Read a metric from the output; given as a spec or as its text."""

    spec: Template | MetricSpec
    where: Where


class SetHooks(msgspec.Struct, frozen=True, tag=True):
    """Set the measurement hooks: the words of one template, or one template each."""

    names: Template | tuple[Template, ...]
    where: Where


class CountInstructions(msgspec.Struct, frozen=True, tag=True):
    """Count the instructions of every EXEC command, by `perf` or by `callgrind`."""

    method: str
    where: Where


Step = (
    CountInstructions
    | Echo
    | Assign
    | ForEach
    | For
    | While
    | If
    | SetThreads
    | Test
    | Interleave
    | Compare
    | SetPhase
    | FastFail
    | Checkpoint
    | System
    | StopProgram
    | SetTimeout
    | SetOkStatus
    | SetWarmUp
    | SetOutput
    | Metric
    | SetHooks
)


class Baseline(msgspec.Struct, frozen=True):
    """The test that ratios refer to, as the user wrote it."""

    text: str
    """`first`, `best`, or a test's name."""
    where: Where


class Program(msgspec.Struct, frozen=True):
    """A compiled suite: its steps, and the text of every file that was read for it."""

    steps: tuple[Step, ...]
    sources: tuple[SourceFile, ...] = ()
    """In the order read, the main file first; the input of `compile_sources`."""
    notify: NoticeSettings | None = None
    """Targets of the notice at the session's end."""
    servers: tuple[NamedServer, ...] = ()
    """Running servers that its tests drive."""
    tables: Mapping[str, Any] = {}
    """What the tables of features state, by key (`Feature.suite_tables`)."""
    baseline: Baseline | None = None
    fixed_addresses: bool = False
    """Whether its programs start without random addresses."""
    draws: Draws | None = None
    """Inputs that are drawn for each trial."""
