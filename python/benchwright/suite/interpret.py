"""Walks a program and yields its effects; it has none of its own.

Purpose: what each step means, for every suite language alike.
Decision: a generator, so that the session that answers it owns journal, bench and time,
and resuming is walking the same program again. TEST's body is interpreted once per
epoch; consecutive epochs whose plans are equal and whose bodies have no effect become
one RunEpochs, so that they can be one batch.
Non-goals: deciding when a test stops (control), running anything (bench).
Source: Auto-pilot paper, section 3.1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from decimal import Decimal

from benchwright.expression import EvaluationError
from benchwright.expression import text as text_of
from benchwright.model.errors import InputError
from benchwright.model.plan import Command, Mode
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite import reading
from benchwright.suite.compared import compared
from benchwright.suite.counting import NeverEnds, counted, decimal_number
from benchwright.suite.effects import Answer, Effect
from benchwright.suite.fault import mistake, raised
from benchwright.suite.metric import parse_metric
from benchwright.suite.program import Condition, Program, Step, Template, Where
from benchwright.suite.repeat import Repeated
from benchwright.suite.state import State

TURNS = 1_000_000
"""Turns of one WHILE, and of all loops between two effects, before it is an error."""

Walk = Generator[Effect, Answer, None]


class _Stopped(Exception):
    """STOP was reached."""


def execute(
    program: Program,
    *,
    defines: Mapping[str, str],
    environment: Mapping[str, str],
    turns: int = TURNS,
) -> Walk:
    """Yield the program's effects in order; each is answered with `send`.

    `defines` are variables that the program's own VAR, ENV, FOREACH and FOR do not
    change; `environment` is what `%NAME%` falls back to. Raises InputError, at the step's
    place, for what only running can show.
    """
    try:
        yield from _Interpreter(State(defines, environment), turns).run(program.steps)
    except _Stopped:
        yield effect.Halt()


class _Interpreter:
    """One walk."""

    def __init__(self, state: State, turns: int) -> None:
        self.state = state
        self.phases: dict[Mode, list[Command]] = {}
        self.names: set[str] = set()
        self._limit = turns
        self._silent = 0

    def run(self, steps: Iterable[Step]) -> Walk:
        """Yield the effects of steps, one after the other."""
        for one in steps:
            yield from self._step(one)

    def _step(self, one: Step) -> Walk:
        match one:
            case step.ForEach() | step.For():
                yield from self._loop(one)
            case step.While():
                yield from self._while(one)
            case step.If():
                yield from self._if(one)
            case step.Test():
                yield from Repeated(self, one).run()
            case step.Compare():
                yield from compared(self, one)
            case step.Echo(text):
                yield from self.ask(effect.Say(self.state.text(text).strip()))
            case step.System():
                yield from self._system(one)
            case step.Checkpoint():
                yield from self._checkpoint(one)
            case step.FastFail():
                yield from self._fast_fail(one)
            case step.Stop():
                raise _Stopped
            case _:
                self._set(one)

    def _set(
        self,
        one: step.Assign
        | step.Threads
        | step.Phase
        | step.Timeout
        | step.WarmUp
        | step.Output
        | step.Metric
        | step.Hooks,
    ) -> None:
        """Interpret a step that only changes what is known."""
        match one:
            case step.Assign():
                self._assign(one)
            case step.Threads(count, where):
                given = self.state.defined("THREADS") or self.state.text(count)
                self.state.variables["THREADS"] = str(reading.threads(given, where))
            case step.Phase():
                self.phases.setdefault(one.mode, []).append(self._phase(one))
            case step.Timeout(duration, where):
                self.state.timeout_ns = reading.timeout_ns(
                    self.state.text(duration), where
                )
            case step.WarmUp(count, where):
                self.state.warmup = reading.warmup(self.state.text(count), where)
            case step.Output(choice, where):
                self.state.output = reading.output(self.state.text(choice), where)
                self.state.output_at = where
            case step.Metric():
                self._metric(one)
            case step.Hooks(names):
                self.state.hooks = self._list(names)

    # -- effects ---------------------------------------------------------------------

    def ask(self, what: Effect) -> Generator[Effect, Answer, int]:
        """Yield an effect; return its answer, 0 for None."""
        self._silent = 0
        answer = yield what
        return answer or 0

    def _system(self, one: step.System) -> Walk:
        command = reading.command(self.state.text(one.command), one.where)
        environment = tuple(self.state.exported.items())
        status = yield from self.ask(effect.RunSystem(command, environment, one.where))
        self.state.variables["SYSTEM_STATUS"] = str(status)

    def _checkpoint(self, one: step.Checkpoint) -> Walk:
        file = None if one.file is None else self.state.text(one.file).strip()
        restored = yield from self.ask(effect.WriteCheckpoint(file or None, one.where))
        self.state.variables["RESTORE"] = str(restored)

    def _fast_fail(self, one: step.FastFail) -> Walk:
        text = "" if one.command is None else self.state.text(one.command).strip()
        self.state.fail_fast = True
        command = reading.command(text, one.where) if text else None
        yield from self.ask(effect.SetFastFail(command))

    # -- variables and settings ------------------------------------------------------

    def _assign(self, one: step.Assign) -> None:
        fixed = None if one.expression else self.state.defined(one.name)
        if fixed is not None:
            value = fixed
        elif one.expression:
            value = self._computed(one.value)
        else:
            value = self.state.text(one.value)
        if one.name == "THREADS":
            value = str(reading.threads(value, one.where))
        self.state.assign(one.name, value, environment=one.environment)

    def _computed(self, template: Template) -> str:
        text = self.state.text(template)
        try:
            return text_of(
                reading.expression(text, template.where).evaluate(self.state.values())
            )
        except EvaluationError as error:
            raise reading.no_value(error, template.where) from None

    def _metric(self, one: step.Metric) -> None:
        if isinstance(one.spec, Template):
            text = self.state.text(one.spec)
            spec, faults = parse_metric(text)
            if spec is None:
                raise raised(faults, one.where, text)
        else:
            spec = one.spec
        self.state.metrics[spec.name] = spec

    def _phase(self, one: step.Phase) -> Command:
        if isinstance(one.command, Template):
            return reading.command(self.state.text(one.command), one.where)
        return Command(tuple(self.state.text(word) for word in one.command))

    def _list(self, given: Template | tuple[Template, ...]) -> tuple[str, ...]:
        """Return the words of one template, or the text of each of several."""
        if isinstance(given, Template):
            return tuple(self.state.text(given).split())
        return tuple(self.state.text(one) for one in given)

    # -- control ---------------------------------------------------------------------

    def _loop(self, one: step.ForEach | step.For) -> Walk:
        outer = self.state.sample
        for value in self._levels(one):
            self._turn(one.where)
            self.state.assign(one.name, value, environment=False)
            others = tuple(pair for pair in outer if pair[0] != one.name)
            self.state.sample = (*others, (one.name, value))
            yield from self.run(one.body)
        self.state.sample = outer

    def _levels(self, one: step.ForEach | step.For) -> Iterable[str]:
        given = self.state.defined(one.name)
        if given is not None:
            listed = isinstance(one, step.ForEach) and isinstance(one.values, tuple)
            return given.split(",") if listed else given.split()
        if isinstance(one, step.ForEach):
            return self._list(one.values)
        begin, end = self._number(one.begin), self._number(one.end)
        factor = None if one.factor is None else self._number(one.factor)
        add = None if one.add is None else self._number(one.add)
        try:
            return counted(begin, end, factor=factor, add=add)
        except NeverEnds as error:
            raise mistake(one.where, "suite-endless", error.message) from None

    def _number(self, template: Template) -> Decimal:
        try:
            return decimal_number(self.state.text(template))
        except ValueError as error:
            raise mistake(template.where, "suite-not-a-number", str(error)) from None

    def _while(self, one: step.While) -> Walk:
        turns = 0
        while self._holds(one.condition):
            turns += 1
            self._turn(one.where)
            if turns > self._limit:
                raise self._endless(one.where)
            yield from self.run(one.body)

    def _turn(self, where: Where) -> None:
        self._silent += 1
        if self._silent > self._limit:
            raise self._endless(where)

    def _endless(self, where: Where) -> InputError:
        message = f"the loop has made {self._limit} turns"
        hint = "nothing in it makes it end; a counter needs VAREX"
        return mistake(where, "suite-endless", message, hint)

    def _if(self, one: step.If) -> Walk:
        for branch in one.branches:
            if self._holds(branch.condition):
                yield from self.run(branch.body)
                return
        yield from self.run(one.otherwise)

    def _holds(self, condition: Condition) -> bool:
        if isinstance(condition, step.Holds):
            text = self.state.text(condition.expression)
            try:
                known = self.state.values()
                truth = reading.expression(text, condition.where).truth(known)
            except EvaluationError as error:
                raise reading.no_value(error, condition.where) from None
            return truth is not condition.negated
        left = self.state.text(condition.left).strip()
        right = self.state.text(condition.right).strip()
        return reading.compare(left, condition.operator, right, condition.where)
