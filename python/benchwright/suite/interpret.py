"""The interpreter: walks a program and yields its effects. It performs none of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol, TypeVar

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.expression import EvaluationError
from benchwright.core.expression import to_text as text_of
from benchwright.core.plan import (
    Command,
    CommandMode,
    ComparisonArm,
    Phases,
    StoppingRule,
    TestPlan,
)
from benchwright.inputs.mistakes import Where, mistake, raised
from benchwright.inputs.template import Template, file_friendly, has_quotes, split_words
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.check import has_effects, reads
from benchwright.suite.effects import Effect, EffectAnswer, InterpreterState
from benchwright.suite.program import Condition, Program, Step
from benchwright.suite.values import (
    NeverEnds,
    counted,
    decimal_number,
    parse_metric,
    parse_termination,
)
from benchwright.trial.programs import counting_instructions

# --------------------------------------------------------------------------------------
# One TEST: its epochs are interpreted one by one, or in advance, before they run.

AHEAD = 1000
"""Maximum number of epochs interpreted in advance, if they may differ."""

T = TypeVar("T")
Effects = Generator[Effect, EffectAnswer, None]
"""Yields effects; each is answered with `send`."""


class StepInterpreter(Protocol):
    """The part of the interpreter that a test uses."""

    state: InterpreterState
    phases: dict[CommandMode, list[Command]]
    names: set[str]

    def run(self, steps: Iterable[Step]) -> Effects:
        """Yield the effects of steps."""

    def ask(self, what: Effect) -> Generator[Effect, EffectAnswer, int]:
        """Yield an effect and return its answer."""


class Repeated:
    """The interpretation of one TEST."""

    def __init__(
        self, interpreter: StepInterpreter, test: step.Test, place: int | None = None
    ) -> None:
        self._in = interpreter
        self._test = test
        self._place = place
        self._pure = not has_effects(test.body)
        self._steady = self._pure and not reads(test.body, "EPOCH")
        self._outside = interpreter.state.copy()
        self._before = self._outside
        self._name, self._stopping = self._heading()

    def run(self) -> Effects:
        """Yield the effects of the test. Raises InputError."""
        opened = effect.BeginTest(self._name, self._stopping, self._test.where, self._place)
        yield from self._in.ask(opened)
        done, plan = 0, None
        while wanted := (yield from self._in.ask(effect.AskNext(self._name))):
            target = done + wanted
            while done < target:
                plan, states = yield from self._next(done + 1, target - done)
                epochs = effect.RunEpochs(plan, done + 1, len(states))
                ran = yield from self._in.ask(epochs)
                assert 0 <= ran <= len(states), "no more epochs than requested"
                done += ran
                if ran < len(states):
                    self._in.state = states[ran - 1] if ran else self._before
                    break
        self._leave()
        yield from self._in.ask(effect.EndTest(self._name, plan))

    def planned(self) -> Generator[Effect, EffectAnswer, TestPlan]:
        """Interpret the body once, for all epochs; return its plan."""
        plan = yield from self._epoch(1)
        self._leave()
        return plan

    def _heading(self) -> tuple[str, StoppingRule]:
        where, text = self._test.heading.where, self._in.state.text(self._test.heading)
        if self._test.stopping is not None:
            name, rule = file_friendly(text), self._test.stopping
        else:
            text = text.strip()
            name = text.split(None, 1)[0] if text else ""
            rest = text[len(name) :]
            found, faults = parse_termination(rest)
            if found is None:
                raise raised(faults, where, rest.strip())
            rule = found
        values.at_run_time(values.name_of_test, name, where)
        if name in self._in.names:
            message = f"a test named {name!r} has already run"
            hint = "results are stored by name; put the loop's variables into it"
            raise mistake(where, "suite-duplicate-test", message, hint)
        self._in.names.add(name)
        return name, rule

    # -- epochs ------------------------------------------------------------------

    def _next(
        self, first: int, most: int
    ) -> Generator[Effect, EffectAnswer, tuple[TestPlan, list[InterpreterState]]]:
        """Interpret the next epochs with equal plans; return the plan and the state after each."""
        self._before = self._in.state.copy()
        before = self._before.settled()
        plan = yield from self._epoch(first)
        states = [self._in.state]
        if self._steady and self._in.state.settled() == before:
            return plan, states * most
        while self._pure and len(states) < min(most, AHEAD):
            self._in.state = states[-1].copy()
            other = yield from self._epoch(first + len(states))
            if other != plan:
                break
            states.append(self._in.state)
        self._in.state = states[-1].copy()
        return plan, states

    def _epoch(self, epoch: int) -> Generator[Effect, EffectAnswer, TestPlan]:
        """Interpret the body for one epoch; return its plan."""
        state = self._in.state
        state.variables["EPOCH"] = str(epoch)
        state.limits_from(self._outside)
        self._in.phases = {}
        yield from self._in.run(self._test.body)
        plan = self._plan()
        self._in.phases = {}
        return plan

    def _plan(self) -> TestPlan:
        state, phases = self._in.state, self._in.phases
        if not phases.get(CommandMode.EXEC):
            message = f"test {self._name!r} has nothing to EXEC in this trial"
            raise mistake(self._test.where, "suite-no-exec", message)
        plan = TestPlan(
            name=self._name,
            stopping=self._stopping,
            phases=Phases(
                presetup=tuple(phases.get(CommandMode.PRESETUP, ())),
                setup=tuple(phases.get(CommandMode.SETUP, ())),
                exec=tuple(
                    counting_instructions(command, state.instructions)
                    if state.instructions
                    else command
                    for command in phases[CommandMode.EXEC]
                ),
                cleanup=tuple(phases.get(CommandMode.CLEANUP, ())),
                postcleanup=tuple(phases.get(CommandMode.POSTCLEANUP, ())),
            ),
            threads=values.at_run_time(
                values.threads, state.variables["THREADS"], self._test.where
            ),
            sample=state.sample,
            environment=tuple(state.exported.items()),
            directory=self._test.directory,
            metrics=tuple(state.metrics.values()),
            timeout_ns=state.timeout_ns,
            ok_status=state.ok_status,
            output=state.output,
            hooks=state.hooks,
            fail_fast=state.fail_fast,
            warmup=state.warmup,
            place=self._place,
        )
        if plan.output.mode == "null" and plan.reads_output:
            message = f"test {self._name!r} reads a metric from output that is discarded"
            hint = "write bounded in place of null, or leave the metric out"
            raise mistake(state.output_at, "suite-output", message, hint)
        return plan

    def _leave(self) -> None:
        """Restore the settings from before the test, and remove EPOCH."""
        self._in.state = self._in.state.copy()
        self._in.state.variables.pop("EPOCH", None)
        self._in.state.limits_from(self._outside)


# -- Interleaved tests: rounds in random order -----------------------------------------
#
# Purpose: a disturbance of the machine that lasts for a while reaches all tests alike, instead of
# those that happen to run then.
# Decision: a visit is one RunEpochs: the bench ends it after 0.3 s (VISIT_NS in trial/protocol.py),
# so long trials alternate one by one, and short ones in batches, which cost less and which the
# sampler can watch. The tests start in the first round, so their keys do not depend on how many
# epochs a visit ran; a resumed session may visit them in another order after it.


def interleaved(tests: Sequence[Effects], seed: int) -> Effects:
    """Yield the effects of the tests, at most one RunEpochs of each in every round."""
    order = random.Random(seed)
    pending = [_Visited(effects) for effects in tests]
    while pending:
        order.shuffle(pending)
        going = []
        for test in pending:
            if not (yield from test.visit()):
                going.append(test)
        pending = going


class _Visited:
    """One of the interleaved tests, between two visits."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._due: Effect | None = None
        self._answer: EffectAnswer = None

    def visit(self) -> Generator[Effect, EffectAnswer, bool]:
        """Yield its effects up to its next RunEpochs but one; return whether the test has ended."""
        has_run = False
        while True:
            if self._due is None:
                try:
                    self._due = self._effects.send(self._answer)
                except StopIteration:
                    return True
            if isinstance(self._due, effect.RunEpochs):
                if has_run:
                    return False
                has_run = True
            self._answer = yield self._due
            self._due = None


# -- One comparison: the plans of its arms, as one effect ------------------------------
#
# Decision: the body of an arm is interpreted once, so that every block compares the same
# commands. A body that changes from epoch to epoch would make the blocks differ.


def compared(interpreter: StepInterpreter, one: step.Compare) -> Effects:
    """Yield the effects of a comparison. Raises InputError for mistakes in the arms' bodies."""
    plans: list[TestPlan] = []
    for arm in one.arms:
        plan = yield from Repeated(interpreter, arm).planned()
        plans.append(plan)
    stored = () if one.rule.stored is None else (one.rule.stored.name,)
    names = (*stored, *(plan.name for plan in plans))
    armed = tuple(
        # A failed trial voids its block; fail-fast of tests does not apply.
        msgspec.structs.replace(plan, fail_fast=False, arm=_arm(one, names, place))
        for place, plan in enumerate(plans, len(stored))
    )
    yield from interpreter.ask(effect.RunComparison(armed, one.rule, names, one.null, one.where))


def _arm(compare: step.Compare, names: tuple[str, ...], place: int) -> ComparisonArm:
    each = compare.rule.design.trials_per_block
    return ComparisonArm(
        comparison=compare.token,
        place=place,
        names=names,
        trials_per_block=each,
        warmup=compare.rule.warmup * each,
        paired=compare.rule.paired,
    )


# -- The walk through a program --------------------------------------------------------
#
# Purpose: the meaning of each step, the same for every suite language.
# Decision: a generator. The session that answers it owns journal, bench and time; a resume
# walks the same program again. TEST's body is interpreted once per epoch; consecutive epochs
# with equal plans, whose bodies have no effects, become one RunEpochs: one batch.
# Non-goals: deciding when a test stops (decide/), running commands (trial/bench.py).
# Source: Auto-pilot paper, section 3.1.

TURNS = 1_000_000
"""Maximum turns of one WHILE, and of all loops between two effects; more are an error."""


class _ProgramStopped(Exception):
    """Raised at STOP."""


def execute(
    program: Program,
    *,
    defines: Mapping[str, str],
    environment: Mapping[str, str],
    turns: int = TURNS,
) -> Effects:
    """Yield the program's effects in order; each is answered with `send`.

    `defines`: variables that VAR, ENV, FOREACH and FOR of the program do not change.
    `environment`: the values of `%NAME%` that the program does not set. Raises InputError,
    at the step's position, for mistakes that static checks cannot find.
    """
    try:
        yield from _Interpreter(InterpreterState(defines, environment), turns).run(program.steps)
    except _ProgramStopped:
        yield effect.Halt()


class _Interpreter:
    """One walk through a program."""

    def __init__(self, state: InterpreterState, turns: int) -> None:
        self.state = state
        self.phases: dict[CommandMode, list[Command]] = {}
        self.names: set[str] = set()
        self._limit = turns
        self._silent = 0
        self._collected: list[Effects] | None = None
        """The tests of an Interleave that is being walked through; they run after it."""

    def _copy(self) -> _Interpreter:
        """Return an interpreter of one test, whose state changes independently of this one's."""
        other = _Interpreter(self.state.copy(), self._limit)
        other.names = self.names
        return other

    def run(self, steps: Iterable[Step]) -> Effects:
        """Yield the effects of the steps in order."""
        for one in steps:
            yield from self._step(one)

    def _step(self, one: Step) -> Effects:
        match one:
            case step.ForEach() | step.For():
                yield from self._loop(one)
            case step.While():
                yield from self._while(one)
            case step.If():
                yield from self._if(one)
            case step.Test() if self._collected is not None:
                place = len(self._collected)
                self._collected.append(Repeated(self._copy(), one, place).run())
            case step.Test():
                yield from Repeated(self, one).run()
            case step.Interleave():
                self._collected = []
                yield from self.run(one.body)
                tests, self._collected = self._collected, None
                yield from interleaved(tests, one.seed)
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
            case step.StopProgram():
                raise _ProgramStopped
            case _:
                self._set(one)

    def _set(
        self,
        one: step.Assign
        | step.SetThreads
        | step.SetPhase
        | step.SetTimeout
        | step.SetOkStatus
        | step.SetWarmUp
        | step.SetOutput
        | step.Metric
        | step.SetHooks
        | step.CountInstructions,
    ) -> None:
        """Interpret a step that changes only variables and settings."""
        match one:
            case step.Assign():
                self._assign(one)
            case step.SetThreads(count, where):
                given = self.state.defined("THREADS") or self.state.text(count)
                self.state.variables["THREADS"] = str(
                    values.at_run_time(values.threads, given, where)
                )
            case step.SetPhase():
                self.phases.setdefault(one.mode, []).append(self._phase(one))
            case step.SetTimeout(duration, where):
                self.state.timeout_ns = self._value(values.timeout_ns, duration, where)
            case step.SetOkStatus(statuses, where):
                self.state.ok_status = self._value(values.statuses, statuses, where)
            case step.SetWarmUp(count, where):
                self.state.warmup = self._value(values.warmup, count, where)
            case step.SetOutput(choice, where):
                self.state.output = self._value(values.output, choice, where)
                self.state.output_at = where
            case step.Metric():
                self._metric(one)
            case step.SetHooks(names):
                self.state.hooks = self._list(names)
            case step.CountInstructions(method):
                self.state.instructions = method

    def _value(self, parse: Callable[[str], T], template: Template, where: Where) -> T:
        """Return the value of a text with its variables. Raises InputError."""
        return values.at_run_time(parse, self.state.text(template), where)

    # -- effects ---------------------------------------------------------------------

    def ask(self, what: Effect) -> Generator[Effect, EffectAnswer, int]:
        """Yield an effect; return its answer, 0 for None."""
        self._silent = 0
        answer = yield what
        return answer or 0

    def _system(self, system: step.System) -> Effects:
        command = values.command(self.state.text(system.command), system.where)
        environment = tuple(self.state.exported.items())
        status = yield from self.ask(effect.RunSystem(command, environment, system.where))
        self.state.variables["SYSTEM_STATUS"] = str(status)

    def _checkpoint(self, checkpoint: step.Checkpoint) -> Effects:
        file = None if checkpoint.file is None else self.state.text(checkpoint.file).strip()
        restored = yield from self.ask(effect.WriteCheckpoint(file or None, checkpoint.where))
        self.state.variables["RESTORE"] = str(restored)

    def _fast_fail(self, fast_fail: step.FastFail) -> Effects:
        text = "" if fast_fail.command is None else self.state.text(fast_fail.command).strip()
        self.state.fail_fast = True
        command = values.command(text, fast_fail.where) if text else None
        yield from self.ask(effect.SetFastFail(command))

    # -- variables and settings ------------------------------------------------------

    def _assign(self, assign: step.Assign) -> None:
        fixed = None if assign.expression else self.state.defined(assign.name)
        if fixed is not None:
            value = fixed
        elif assign.expression:
            value = self._computed(assign.value)
        else:
            value = self.state.text(assign.value)
        if assign.name == "THREADS":
            value = str(values.at_run_time(values.threads, value, assign.where))
        self.state.assign(assign.name, value, environment=assign.environment)

    def _computed(self, template: Template) -> str:
        text = self.state.text(template)
        try:
            return text_of(values.expression(text, template.where).evaluate(self.state.values()))
        except EvaluationError as error:
            raise values.no_value(error, template.where) from None

    def _metric(self, metric: step.Metric) -> None:
        if isinstance(metric.spec, Template):
            text = self.state.text(metric.spec)
            spec, faults = parse_metric(text)
            if spec is None:
                raise raised(faults, metric.where, text)
        else:
            spec = metric.spec
        self.state.metrics[spec.name] = spec

    def _phase(self, set_phase: step.SetPhase) -> Command:
        if isinstance(set_phase.command, Template):
            text = self.state.text(set_phase.command)
            return values.command(text, set_phase.where, set_phase.drawn)
        return Command(tuple(self.state.text(word) for word in set_phase.command))

    def _list(self, given: Template | tuple[Template, ...]) -> tuple[str, ...]:
        """Return the words of one template, or the text of each of several."""
        if isinstance(given, Template):
            return tuple(self.state.text(given).split())
        return tuple(self.state.text(template) for template in given)

    # -- control ---------------------------------------------------------------------

    def _loop(self, one: step.ForEach | step.For) -> Effects:
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
            quoted = isinstance(one.values, Template) and has_quotes(one.values)
            if quoted and isinstance(one.values, Template):
                text = self.state.text(one.values)
                return [word.text for word in split_words(text)[0]]
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

    def _while(self, one: step.While) -> Effects:
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
        message = f"the loop has run {self._limit} times"
        hint = "nothing in it makes it end; a counter needs VAREX"
        return mistake(where, "suite-endless", message, hint)

    def _if(self, one: step.If) -> Effects:
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
                truth = values.expression(text, condition.where).truth(known)
            except EvaluationError as error:
                raise values.no_value(error, condition.where) from None
            return truth is not condition.negated
        left = self.state.text(condition.left).strip()
        right = self.state.text(condition.right).strip()
        return values.compare(left, condition.operator, right, condition.where)
