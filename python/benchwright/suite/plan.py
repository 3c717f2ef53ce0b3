"""The dry run of a program: for `bw run --plan`, and to find mistakes before a session.

The interpreter gets dry answers: every command succeeds, no session resumes, each test runs one
epoch. If a program branches on the results of commands, its plan is one of several possible ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchwright.core.comparison import describe_comparison, describe_test
from benchwright.core.errors import InputError
from benchwright.core.plan import TestPlan
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.suite import effects as effect
from benchwright.suite.check import inner, walk
from benchwright.suite.effects import Effect, EffectAnswer
from benchwright.suite.interpret import execute
from benchwright.suite.program import ForEach, Interleave, Program, Step

MOST_EFFECTS = 100_000
"""Maximum number of effects in a plan: a program may loop until a command fails."""
MOST_SAMPLES = 20_000
"""Maximum number of combinations of levels; 100 x 100 = 10,000 take some seconds to plan."""
MODES = ("presetup", "setup", "exec", "cleanup", "postcleanup")


class PlannedTest(msgspec.Struct, frozen=True, tag="test"):
    """One test at one sample, as it would run."""

    plan: TestPlan
    stopping: str
    """Description of the stopping rule."""
    where: Where

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Each command as (mode, text), in the order of a trial."""
        return tuple(
            (mode.upper(), command.text)
            for mode in MODES
            for command in getattr(self.plan.phases, mode)
        )


class PlannedStep(msgspec.Struct, frozen=True, tag="step"):
    """A step between tests: `SYSTEM`, `ECHO`, `CHECKPOINT` or `FASTFAIL`; or the `ORDER` of the
    tests, if that is random."""

    keyword: str
    text: str


Planned = PlannedTest | PlannedStep


def describe(
    program: Program,
    *,
    defines: Mapping[str, str],
    environment: Mapping[str, str],
    most: int = MOST_EFFECTS,
) -> list[Planned]:
    """Return the planned tests and steps of the program in order, at most `most` effects;
    interleaved tests are in the order given.

    Raises InputError for the first mistake of the dry run.
    """
    _check_size(program)
    planned: list[Planned] = [
        PlannedStep("ORDER", f"random in each round of trials (seed {one.seed})")
        for one in walk(program.steps)
        if isinstance(one, Interleave)
    ]
    steps = execute(program, defines=defines, environment=environment)
    rehearsal = _Rehearsal()
    answer: EffectAnswer = None
    for _ in range(most):
        try:
            what = steps.send(answer)
        except StopIteration:
            break
        answer = rehearsal.answer(what)
        planned += rehearsal.seen(what)
    steps.close()
    return sorted(planned, key=_place)


def _place(item: Planned) -> int:
    return (item.plan.place or 0) if isinstance(item, PlannedTest) else 0


def _check_size(program: Program) -> None:
    """Raise InputError if the loops make more than MOST_SAMPLES samples."""
    at = max(program.steps, key=_samples, default=None)
    if at is None or (count := _samples(at)) <= MOST_SAMPLES:
        return
    message = f"the factors make {count:,} samples: at most {MOST_SAMPLES:,} are run"
    hint = "use fewer levels, or search the best ones (bw surface)"
    where = getattr(at, "where", Where(""))
    raise InputError([diagnostic(where, "suite-range", message, hint)])


def _samples(step: Step) -> int:
    """Return the number of combinations of levels in a step's nested loops."""
    within = max((_samples(each) for each in inner(step)), default=1)
    if isinstance(step, ForEach) and isinstance(step.values, tuple):
        return len(step.values) * within
    return within


class DryAnswers:
    """Answers effects as if every command succeeded and each test ran some epochs."""

    def __init__(self, epochs: int = 1) -> None:
        self._epochs = epochs
        """Of each test."""
        self._ran: set[str] = set()

    def answer(self, what: Effect) -> EffectAnswer:
        """Return a dry answer."""
        match what:
            case effect.AskNext(name):
                return 0 if name in self._ran else self._epochs
            case effect.RunEpochs(plan, _, count):
                self._ran.add(plan.name)
                return count
            case effect.RunSystem() | effect.WriteCheckpoint():
                return 0
        return None


class _Rehearsal(DryAnswers):
    """Gives dry answers, and collects the plan."""

    def __init__(self) -> None:
        super().__init__()
        self._where: dict[str, Where] = {}
        """Places of the tests that have begun."""

    def answer(self, what: Effect) -> EffectAnswer:
        """Return a dry answer; note where a test begins."""
        if isinstance(what, effect.BeginTest):
            self._where[what.name] = what.where
        return super().answer(what)

    def seen(self, what: Effect) -> list[Planned]:
        """Return the plan entries for an effect."""
        match what:
            case effect.RunEpochs(plan):
                return [PlannedTest(plan, describe_test(plan), self._where[plan.name])]
            case effect.RunComparison(plans, rule, _, _, where):
                words = describe_comparison(rule)
                return [PlannedTest(plan, words, where) for plan in plans]
            case effect.RunSystem(command):
                return [PlannedStep("SYSTEM", command.text)]
            case effect.Say(text):
                return [PlannedStep("ECHO", text)]
            case effect.WriteCheckpoint(file):
                return [PlannedStep("CHECKPOINT", file or "")]
            case effect.SetFastFail(command):
                return [PlannedStep("FASTFAIL", command.text if command else "")]
            case _:
                return []
