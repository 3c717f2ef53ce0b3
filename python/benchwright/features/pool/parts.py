"""The parts of a program that do not depend on each other: gangs of a pool run them side by side.

A part is a test, all interleaved tests together, or a comparison with its arms. Its keys follow
from a walk through the program with dry answers, so a program whose later steps depend on what
happens in earlier ones has no parts. Such a program is refused. Under FASTFAIL a failure ends the
session once its part has failed on several gangs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import TestPlan
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.run.gangs import Task
from benchwright.study.keys import EffectKeys
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite.check import walk
from benchwright.suite.interpret import execute
from benchwright.suite.plan import DryAnswers
from benchwright.suite.program import Program

_CODE = "pool-dependent"
_DEPENDENT: tuple[tuple[type, str], ...] = (
    (step.System, "SYSTEM runs a command between tests"),
    (step.Checkpoint, "CHECKPOINT divides the program"),
    (step.StopProgram, "STOP ends the program"),
)


class _Part(msgspec.Struct):
    names: list[str]
    keys: list[str]
    where: Where
    plans: list[TestPlan | tuple[TestPlan, ...]] = []
    """Of the first epoch of each test."""


def parts_of(
    program: Program, defines: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Task, ...]:
    """Return the parts of a program in the order in which they would run here.

    Raises InputError with all steps that make parts depend on each other.
    """
    wrong: list[Diagnostic] = [
        diagnostic(
            one.where,
            _CODE,
            f"{why}: gangs of a pool cannot run such a suite side by side",
            "move it into setup, cleanup, presetup or postcleanup, or run without --pool",
        )
        for one in walk(program.steps)
        for kind, why in _DEPENDENT
        if isinstance(one, kind)
    ]
    if wrong:
        raise InputError(wrong)
    parts = _walked(program, defines, environment, 1)
    others = _walked(program, defines, environment, 2)
    for part, other in zip(parts, others, strict=False):
        if (part.keys, part.plans) != (other.keys, other.plans):
            names = ", ".join(part.names)
            message = f"what {names} runs depends on the number of trials of an earlier test"
            raise InputError([diagnostic(part.where, _CODE, message)])
    return tuple(
        Task(
            place=str(number),
            name=f"{_kind(part)} {', '.join(part.names)}",
            prefixes=tuple(f"{key}/" for key in part.keys),
        )
        for number, part in enumerate(parts, 1)
    )


def _kind(part: _Part) -> str:
    if part.keys[0].endswith("/compare"):
        return "comparison of"
    return "test" if len(part.names) == 1 else "tests"


def _walked(
    program: Program, defines: Mapping[str, str], environment: Mapping[str, str], epochs: int
) -> list[_Part]:
    """Return the parts if each test has this number of epochs."""
    parts: list[_Part] = []
    together: _Part | None = None
    of_test: dict[str, _Part] = {}
    keys, answers = EffectKeys(), DryAnswers(epochs)
    steps = execute(program, defines=defines, environment=environment)
    answer: effect.EffectAnswer = None
    while True:
        try:
            what = steps.send(answer)
        except StopIteration:
            return parts
        answer = answers.answer(what)
        match what:
            case effect.Say():
                keys.next("say")
            case effect.BeginTest(name, _, where, place):
                key = keys.next("test")
                if place is not None and together is not None:
                    together.names.append(name)
                    together.keys.append(key)
                    of_test[name] = together
                    continue
                part = of_test[name] = _Part([name], [key], where)
                parts.append(part)
                if place is not None:
                    together = part
            case effect.RunEpochs(plan, 1):
                of_test[plan.name].plans.append(plan)
            case effect.RunComparison(plans, _, names, _, where):
                own = [keys.next("compare"), *(keys.next("test") for _ in plans)]
                parts.append(_Part(list(names), own, where, [plans]))
