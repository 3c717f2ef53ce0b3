"""Effects, the requests of an interpreted program to its session, with their answers; and the state
in which a program is interpreted: variables, exports, settings, the sample.

`interpret.execute` yields effects; the session answers each with `send`. An effect's docstring
states its answer; without such a statement the answer is None.

Epochs are interpreted before they run. The states are copied, so that the interpreter can return
to the state after the last epoch that ran.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping

import msgspec

from benchwright.core.comparison import ComparisonRule, NullResult
from benchwright.core.errors import InputError
from benchwright.core.plan import (
    SUCCESS,
    Command,
    MetricSpec,
    OutputPolicy,
    Pairs,
    StoppingRule,
    TestPlan,
)
from benchwright.inputs.mistakes import Fault, Where, mistake, raised
from benchwright.inputs.template import Slot, Template

BUILT_IN = ("THREADS", "RESTORE", "EPOCH", "SYSTEM_STATUS")
"""Variables that the interpreter sets; EPOCH only inside a test."""
MAX_TEXT = 1_000_000
"""Maximum length of a value [characters], so that a variable that doubles is an error."""


def not_in_environment(name: str) -> Fault:
    """Return the fault of `$NAME$` if the environment has no such variable."""
    hint = (
        f"export it, set it with ENV, or give -D {name}=VALUE; "
        f"%{name}% is a variable of the suite, $${name}$ the text ${name}$"
    )
    message = f"{name} is not in the environment"
    return Fault("suite-unknown-variable", message, hint)


class InterpreterState:
    """The mutable state; `copy` returns an independent one."""

    def __init__(self, defines: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._defines = defines
        self._environment: MutableMapping[str, str] = dict(environment)
        self.variables = {"THREADS": "1", "RESTORE": "0", "SYSTEM_STATUS": "0", **defines}
        self.exported: dict[str, str] = {}
        self.sample: Pairs = ()
        self.fail_fast = False
        self.timeout_ns: int | None = None
        self.ok_status: tuple[int, ...] = SUCCESS
        self.warmup = 0
        self.output = OutputPolicy()
        self.output_at = Where("")
        self.metrics: dict[str, MetricSpec] = {}
        self.hooks: tuple[str, ...] = ()
        self.instructions = ""

    def copy(self) -> InterpreterState:
        """Return a state that changes independently of this one."""
        other = InterpreterState.__new__(InterpreterState)
        other.__dict__.update(self.__dict__)
        other.variables = dict(self.variables)
        other.exported = dict(self.exported)
        other.metrics = dict(self.metrics)
        return other

    def settled(self) -> tuple[object, ...]:
        """Return everything that an epoch may change, without EPOCH, for comparison."""
        known = {k: v for k, v in self.variables.items() if k != "EPOCH"}
        return known, dict(self.exported), self.fail_fast

    def limits_from(self, other: InterpreterState) -> None:
        """Take TIMEOUT, OKSTATUS, WARMUP, OUTPUT, METRIC and HOOKS from another state."""
        self.timeout_ns = other.timeout_ns
        self.ok_status = other.ok_status
        self.warmup = other.warmup
        self.output, self.output_at = other.output, other.output_at
        self.metrics = dict(other.metrics)
        self.hooks = other.hooks

    # -- variables ---------------------------------------------------------------

    def defined(self, name: str) -> str | None:
        """Return the value from -D, which VAR and FOREACH do not change; None if there is none."""
        return self._defines.get(name)

    def value(self, name: str) -> str | None:
        """Return a variable's value, else the environment's, else None."""
        found = self.variables.get(name)
        return self._environment.get(name) if found is None else found

    def exported_value(self, name: str) -> str | None:
        """Return the exported value, else that of -D, else the environment's, else None."""
        for known in (self.exported, self._defines, self._environment):
            if name in known:
                return known[name]
        return None

    def values(self) -> Mapping[str, str]:
        """Return a view of all names that an expression may read, with their values."""
        return ChainMap(self.variables, self._environment)

    def assign(self, name: str, value: str, *, environment: bool) -> None:
        """Set a variable; with `environment`, also export it."""
        self.variables[name] = value
        if environment:
            self.exported[name] = value

    def text(self, template: Template) -> str:
        """Return a template with its variables replaced.

        Raises InputError at the slot of a variable that has no value.
        """
        parts = [p if isinstance(p, str) else self._slot(p) for p in template.parts]
        if sum(map(len, parts)) > MAX_TEXT:
            message = f"the text grows beyond {MAX_TEXT} characters"
            raise mistake(template.where, "suite-too-long", message)
        return "".join(parts)

    def _slot(self, slot: Slot) -> str:
        value = self.exported_value(slot.name) if slot.environment else self.value(slot.name)
        if value is None and slot.environment:
            raise raised([not_in_environment(slot.name)], slot.where, slot.raw)
        if value is None:
            raise self.unset(slot.name, slot.where)
        return value

    def unset(self, name: str, where: Where) -> InputError:
        """Return the error for a variable that has no value here."""
        hint = f"set it before this line, or give -D {name}=VALUE"
        if name == "EPOCH":
            hint = "EPOCH counts the trials of a test: it is set inside TEST only"
        return mistake(where, "suite-unknown-variable", f"{name} has no value here", hint)


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
