"""One TEST of a program: its epochs, interpreted one by one or ahead of being run."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol

from benchwright.model.plan import Command, Mode, Phases, StoppingRule, TestPlan
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite import reading
from benchwright.suite.effects import Answer, Effect
from benchwright.suite.fault import mistake, raised
from benchwright.suite.naming import file_friendly
from benchwright.suite.program import Step
from benchwright.suite.shape import has_effects, reads
from benchwright.suite.state import State
from benchwright.suite.stopping import parse_termination

AHEAD = 1000
"""How many epochs that may differ are interpreted ahead of being run."""

Walk = Generator[Effect, Answer, None]


class Interpreter(Protocol):
    """What a test needs of the interpreter that it is in."""

    state: State
    phases: dict[Mode, list[Command]]
    names: set[str]

    def run(self, steps: Iterable[Step]) -> Walk:
        """Yield the effects of steps."""

    def ask(self, what: Effect) -> Generator[Effect, Answer, int]:
        """Yield an effect and return its answer."""


class Repeated:
    """The interpretation of one TEST."""

    def __init__(self, interpreter: Interpreter, test: step.Test) -> None:
        self._in = interpreter
        self._test = test
        self._pure = not has_effects(test.body)
        self._steady = self._pure and not reads(test.body, "EPOCH")
        self._outside = interpreter.state.copy()
        self._before = self._outside
        self._name, self._stopping = self._heading()

    def run(self) -> Walk:
        """Yield the effects of the whole test. Raises InputError."""
        opened = effect.OpenTest(self._name, self._stopping, self._test.where)
        yield from self._in.ask(opened)
        done, plan = 0, None
        while wanted := (yield from self._in.ask(effect.AskNext(self._name))):
            target = done + wanted
            while done < target:
                plan, states = yield from self._next(done + 1, target - done)
                asked = effect.RunEpochs(plan, done + 1, len(states))
                ran = yield from self._in.ask(asked)
                assert 0 <= ran <= len(states), "no more epochs than asked for"
                done += ran
                if ran < len(states):
                    self._in.state = states[ran - 1] if ran else self._before
                    break
        self._leave()
        yield from self._in.ask(effect.CloseTest(plan))

    def planned(self) -> Generator[Effect, Answer, TestPlan]:
        """Interpret the body for one epoch that stands for all; return what is run."""
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
        fault = reading.name_fault(name)
        if fault is not None:
            raise raised([fault], where, name)
        if name in self._in.names:
            message = f"a test named {name!r} has been run before"
            hint = "results are kept by name; put the loop's variables into it"
            raise mistake(where, "suite-duplicate-test", message, hint)
        self._in.names.add(name)
        return name, rule

    # -- epochs ------------------------------------------------------------------

    def _next(
        self, first: int, most: int
    ) -> Generator[Effect, Answer, tuple[TestPlan, list[State]]]:
        """Interpret the next epochs that share one plan; return the state after each."""
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

    def _epoch(self, epoch: int) -> Generator[Effect, Answer, TestPlan]:
        """Interpret the body for one epoch and return what is to be run."""
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
        if not phases.get(Mode.EXEC):
            message = f"test {self._name!r} has nothing to EXEC in this epoch"
            raise mistake(self._test.where, "suite-no-exec", message)
        plan = TestPlan(
            name=self._name,
            stopping=self._stopping,
            phases=Phases(
                presetup=tuple(phases.get(Mode.PRESETUP, ())),
                setup=tuple(phases.get(Mode.SETUP, ())),
                exec=tuple(phases[Mode.EXEC]),
                cleanup=tuple(phases.get(Mode.CLEANUP, ())),
                postcleanup=tuple(phases.get(Mode.POSTCLEANUP, ())),
            ),
            threads=reading.threads(state.variables["THREADS"], self._test.where),
            sample=state.sample,
            environment=tuple(state.exported.items()),
            metrics=tuple(state.metrics.values()),
            timeout_ns=state.timeout_ns,
            output=state.output,
            hooks=state.hooks,
            fail_fast=state.fail_fast,
            warmup=state.warmup,
        )
        if plan.output.mode == "null" and plan.reads_output:
            message = (
                f"test {self._name!r} reads a metric from output that is discarded"
            )
            hint = "write bounded in place of null, or leave the metric out"
            raise mistake(state.output_at, "suite-output", message, hint)
        return plan

    def _leave(self) -> None:
        """Take back what holds inside the test only."""
        self._in.state = self._in.state.copy()
        self._in.state.variables.pop("EPOCH", None)
        self._in.state.limits_from(self._outside)
