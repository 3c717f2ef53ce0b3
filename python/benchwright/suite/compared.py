"""One comparison of a program: its arms' plans, handed on as one effect.

Decision: the body of an arm is interpreted once. What changes from epoch to epoch would
not be the same in every block, and a block compares like with like.
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from benchwright.model.plan import Arm, TestPlan
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite.effects import Answer, Effect
from benchwright.suite.repeat import Interpreter, Repeated

Walk = Generator[Effect, Answer, None]


def compared(interpreter: Interpreter, one: step.Compare) -> Walk:
    """Yield the effects of a comparison. Raises InputError as a test's body does."""
    plans: list[TestPlan] = []
    for arm in one.arms:
        plan = yield from Repeated(interpreter, arm).planned()
        plans.append(plan)
    stored = () if one.rule.stored is None else (one.rule.stored.name,)
    names = (*stored, *(plan.name for plan in plans))
    armed = tuple(
        # A failure voids a block and ends nothing, whatever holds for tests.
        msgspec.structs.replace(plan, fail_fast=False, arm=_arm(one, names, place))
        for place, plan in enumerate(plans, len(stored))
    )
    yield from interpreter.ask(
        effect.RunComparison(armed, one.rule, names, one.null, one.where)
    )


def _arm(one: step.Compare, names: tuple[str, ...], place: int) -> Arm:
    each = one.rule.trials_per_block
    return Arm(
        comparison=one.token,
        place=place,
        names=names,
        trials_per_block=each,
        warmup=one.rule.warmup * each,
        paired=one.rule.paired,
    )
