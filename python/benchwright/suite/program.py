"""The program of steps that every suite language compiles to.

Purpose: plain frozen data; what a step means is in interpret.py.
Decision: text keeps its variables as `Slot`s inside a `Template`, because Auto-pilot
substitutes them just before a line is executed and TOML's placeholders can do the same.
Non-goals: no syntax of any language is visible here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.core.comparison import ComparisonRule, NullResult
from benchwright.core.named_server import NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import CommandMode, MetricSpec, StoppingRule
from benchwright.core.quiet import QuietSettings


class Where(msgspec.Struct, frozen=True):
    """A place in a suite, for error messages; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1
    text: str = ""
    """The physical line itself."""


class SourceFile(msgspec.Struct, frozen=True):
    """The text of a file that was read, by the path that was given."""

    path: str
    text: str


class Slot(msgspec.Struct, frozen=True):
    """A place in a text where a variable's value goes."""

    name: str
    where: Where
    environment: bool = False
    """Whether it takes the environment's value, not the suite's variable of the name."""

    @property
    def raw(self) -> str:
        """The slot as `.ap` writes it."""
        mark = "$" if self.environment else "%"
        return f"{mark}{self.name}{mark}"


class Template(msgspec.Struct, frozen=True):
    """A text with slots, in order; empty literal parts are left out."""

    parts: tuple[str | Slot, ...]
    where: Where
    """Where its first character stands."""

    @property
    def literal(self) -> str | None:
        """The text itself when it has no slot, else None."""
        if any(isinstance(part, Slot) for part in self.parts):
            return None
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Its slots, in order."""
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @property
    def raw(self) -> str:
        """The text with `%NAME%` or `$NAME$` for every slot, for people to read."""
        return "".join(p if isinstance(p, str) else p.raw for p in self.parts)


Relation = Literal["=", "!=", "<", ">", "<=", ">="]


class Relational(msgspec.Struct, frozen=True, tag=True):
    """`VAR OP VAL`: `=` and `!=` compare numbers where both sides are, else strings."""

    left: Template
    operator: Relation
    right: Template
    where: Where


class Holds(msgspec.Struct, frozen=True, tag=True):
    """An expression that is true over the variables in scope."""

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
    """Give a variable each value in turn; the variable is a factor of the samples.

    Words of one template (`.ap`) or one template for each value (TOML).
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
    """One arm of an If."""

    condition: Condition
    body: tuple[Step, ...]


class If(msgspec.Struct, frozen=True, tag=True):
    """The first branch whose condition holds, else `otherwise`."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Step, ...]
    where: Where


class SetThreads(msgspec.Struct, frozen=True, tag=True):
    """How many concurrent processes the next tests run."""

    count: Template
    where: Where


class Test(msgspec.Struct, frozen=True, tag=True):
    """A test. Its body is interpreted once per epoch and collects the phases.

    `heading` is the name alone when `stopping` is given, else `NAME COUNT` or
    `NAME BEGIN INCREMENT PROGRAM`, split into words after substitution.
    """

    __test__ = False

    heading: Template
    stopping: StoppingRule | None
    body: tuple[Step, ...]
    where: Where


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Run tests as the arms of a comparison, in blocks, until it is answered."""

    __test__ = False

    arms: tuple[Test, ...]
    """Those that run: without the baseline where that is stored."""
    rule: ComparisonRule
    token: str
    """Distinguishes this comparison from all others; empty: the session finds one."""
    where: Where
    null: NullResult | None = None
    """A stored null comparison: the machine's noise, stored with the answer."""


class SetPhase(msgspec.Struct, frozen=True, tag=True):
    """A command of a test: a line of text, or an exact argv."""

    mode: CommandMode
    command: Template | tuple[Template, ...]
    where: Where


class FastFail(msgspec.Struct, frozen=True, tag=True):
    """End the session at the first failure, after running a script if there is one."""

    command: Template | None
    where: Where


class Checkpoint(msgspec.Struct, frozen=True, tag=True):
    """Make this point one to resume from; sets RESTORE to 0, or 1 when resumed."""

    file: Template | None
    where: Where


class System(msgspec.Struct, frozen=True, tag=True):
    """Run a command once; sets SYSTEM_STATUS to its exit status."""

    command: Template
    where: Where


class StopProgram(msgspec.Struct, frozen=True, tag=True):
    """End the program at once."""

    where: Where


class SetTimeout(msgspec.Struct, frozen=True, tag=True):
    """Limit one EXEC phase: a duration, or `none`."""

    duration: Template
    where: Where


class SetWarmUp(msgspec.Struct, frozen=True, tag=True):
    """How many epochs at a test's beginning are run and not counted."""

    count: Template
    where: Where


class SetOutput(msgspec.Struct, frozen=True, tag=True):
    """Say what becomes of the output: `null`, `bounded`, `file` or `inherit`, `:LIMIT`."""

    choice: Template
    where: Where


class Metric(msgspec.Struct, frozen=True, tag=True):
    """Take a number from the output: a spec, or its text."""

    spec: Template | MetricSpec
    where: Where


class SetHooks(msgspec.Struct, frozen=True, tag=True):
    """Use measurement hooks: words of one template, or one template each."""

    names: Template | tuple[Template, ...]
    where: Where


Step = (
    Echo
    | Assign
    | ForEach
    | For
    | While
    | If
    | SetThreads
    | Test
    | Compare
    | SetPhase
    | FastFail
    | Checkpoint
    | System
    | StopProgram
    | SetTimeout
    | SetWarmUp
    | SetOutput
    | Metric
    | SetHooks
)


class Program(msgspec.Struct, frozen=True):
    """A suite: its steps, and the text of every file that was read for it."""

    steps: tuple[Step, ...]
    sources: tuple[SourceFile, ...] = ()
    """In the order read, the main file first: `compile_sources` needs nothing else."""
    notify: NoticeSettings | None = None
    """Who is notified of the session's end."""
    quiet: QuietSettings | None = None
    """How the machine is put in order while it runs."""
    servers: tuple[NamedServer, ...] = ()
    """Servers that its tests drive and do not start."""
