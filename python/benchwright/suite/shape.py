"""Questions about a program's steps that need no running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchwright.suite import program as step
from benchwright.suite.program import Slot, Step, Template


def inner(one: Step) -> tuple[Step, ...]:
    """Return the steps directly inside a step."""
    match one:
        case step.ForEach() | step.For() | step.While() | step.Test():
            return one.body
        case step.Compare(arms):
            return arms
        case step.If(branches, otherwise):
            return (*(s for branch in branches for s in branch.body), *otherwise)
        case _:
            return ()


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield every step, each before what is inside it, in the order written."""
    pending = list(steps)[::-1]
    while pending:
        one = pending.pop()
        yield one
        pending += inner(one)[::-1]


def has_effects(steps: Iterable[Step]) -> bool:
    """Return whether interpreting the steps can ask anything of the world."""
    outward = (
        step.Echo,
        step.System,
        step.Checkpoint,
        step.FastFail,
        step.Stop,
        step.Test,
    )
    return any(isinstance(one, outward) for one in walk(steps))


def templates(one: Step) -> Iterator[Template]:
    """Yield the texts of a step itself, not of what is inside it."""
    for condition in conditions(one):
        if isinstance(condition, step.Holds):
            yield condition.expression
        else:
            yield from (condition.left, condition.right)
    for field in one.__struct_fields__:
        value = getattr(one, field)
        if isinstance(value, Template):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, Template))


def conditions(one: Step) -> tuple[step.Condition, ...]:
    """Return the conditions of a WHILE or an IF."""
    if isinstance(one, step.While):
        return (one.condition,)
    if isinstance(one, step.If):
        return tuple(branch.condition for branch in one.branches)
    return ()


def slots(one: Step) -> Iterator[Slot]:
    """Yield the slots of a step itself."""
    for template in templates(one):
        yield from template.slots


def computes(one: Step) -> Iterator[Template]:
    """Yield the texts of a step that are expressions."""
    if isinstance(one, step.Assign) and one.expression:
        yield one.value
    for condition in conditions(one):
        if isinstance(condition, step.Holds):
            yield condition.expression


def reads(steps: Iterable[Step], name: str) -> bool:
    """Return whether the steps may read a variable (expressions: by mention)."""
    for one in walk(steps):
        if any(slot.name == name for slot in slots(one)):
            return True
        if any(name in template.raw for template in computes(one)):
            return True
    return False
