"""Static checks of a program: its steps and variables, and names that are never set or used."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from benchwright.core.errors import Diagnostic, InputError, suggestion
from benchwright.core.expression import parse
from benchwright.inputs.mistakes import Where, diagnostic, within
from benchwright.inputs.template import Slot, Template
from benchwright.suite import program as step
from benchwright.suite.effects import BUILT_IN, not_in_environment
from benchwright.suite.program import Program, Step

# -- Queries: the steps, texts and variables of a program ------------------------------


def inner(one: Step) -> tuple[Step, ...]:
    """Return the steps directly inside a step."""
    match one:
        case step.ForEach() | step.For() | step.While() | step.Test() | step.Interleave():
            return one.body
        case step.Compare(arms):
            return arms
        case step.If(branches, otherwise):
            return (*(s for branch in branches for s in branch.body), *otherwise)
        case _:
            return ()


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield every step in the order written; a block comes before the steps inside it."""
    pending = list(steps)[::-1]
    while pending:
        one = pending.pop()
        yield one
        pending += inner(one)[::-1]


def has_effects(steps: Iterable[Step]) -> bool:
    """Return whether any step, when interpreted, yields an effect."""
    outward = (step.Echo, step.System, step.Checkpoint, step.FastFail, step.StopProgram, step.Test)
    return any(isinstance(one, outward) for one in walk(steps))


def templates(one: Step) -> Iterator[Template]:
    """Yield the texts of a step itself, without those of the steps inside it."""
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
    """Yield the slots in the texts of a step itself."""
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
    """Return whether the steps may read a variable; an expression that contains its name counts."""
    for one in walk(steps):
        if any(slot.name == name for slot in slots(one)):
            return True
        if any(name in template.raw for template in computes(one)):
            return True
    return False


# -- Checks: variables that are never set, definitions and factors that are never used --

_PERL_NAME = re.compile(r"\$\{?\s*([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)


def assigned(steps: Collection[Step]) -> set[str]:
    """Return the names that any step sets."""
    setting = (step.Assign, step.ForEach, step.For)
    return {one.name for one in walk(steps) if isinstance(one, setting)}


def names_read(program: Program) -> frozenset[str]:
    """Return the names of all variables that a program may read, its own and the environment's.

    A session stores the environment's values of these names for a resume.
    """
    names = {slot.name for one in walk(program.steps) for slot in slots(one)}
    for one in walk(program.steps):
        for template in computes(one):
            names |= set(_PERL_NAME.findall(template.raw))
    return frozenset(names)


def unset_variables(steps: Collection[Step], given: Collection[str]) -> list[Diagnostic]:
    """Return a Diagnostic for each use of a variable that can never have a value.

    `given`: the names set by -D and by the environment.
    """
    own = assigned(steps)
    known = own | set(given) | set(BUILT_IN)
    exported = {
        one.name for one in walk(steps) if isinstance(one, step.Assign) and one.environment
    } | set(given)
    diagnostics: list[Diagnostic] = []
    for one in walk(steps):
        for slot in slots(one):
            if slot.environment:
                if slot.name not in exported:
                    no = not_in_environment(slot.name)
                    diagnostics.append(diagnostic(slot.where, no.code, no.message, no.hint))
            elif slot.name not in known:
                hint = f"set it with VAR or ENV, or give -D {slot.name}=VALUE"
                hint = f"{suggestion(slot.name, own)} {hint}".lstrip()
                message = f"{slot.name} is never set"
                code = "suite-unknown-variable"
                diagnostics.append(diagnostic(slot.where, code, message, hint))
        diagnostics += _unknown_in_expressions(one, known)
    return diagnostics


def unused_defines(steps: Collection[Step], defines: Collection[str]) -> list[Diagnostic]:
    """Return a Diagnostic for each -D name that the suite neither sets nor reads."""
    own = assigned(steps)
    used = own | set(BUILT_IN) | {s.name for one in walk(steps) for s in slots(one)}
    texts = [t.raw for one in walk(steps) for t in computes(one)]
    diagnostics: list[Diagnostic] = []
    for name in defines:
        if name in used or any(name in text for text in texts):
            continue
        hint = suggestion(name, used) or f"it has {_listed(own)}"
        message = f"the suite has no variable {name}"
        where = Where("-D", text=name)
        diagnostics.append(diagnostic(where, "suite-unused-define", message, hint))
    return diagnostics


def unused_factors(steps: Collection[Step]) -> list[str]:
    """Return the factors that no text and no condition mentions.

    A script may still read such a factor from its environment, as BW_FACTOR_NAME.
    """
    every = list(walk(steps))
    factors = [one.name for one in every if isinstance(one, step.ForEach)]
    # A test's name contains every factor, so it does not show which its commands use.
    own = [one for one in every if not isinstance(one, step.Test)]
    read = {slot.name for one in own for slot in slots(one)}
    asked = [t.raw for one in own for t in computes(one)]
    texts = [t.raw for one in own for t in templates(one)]
    return [
        name
        for name in dict.fromkeys(factors)
        if name not in read
        and not any(name in text for text in asked)
        and not any(f"BW_FACTOR_{name}" in text for text in texts)
    ]


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:20]) or "none"


def _unknown_in_expressions(one: Step, known: set[str]) -> list[Diagnostic]:
    diagnostics: list[Diagnostic] = []
    for template in computes(one):
        text = template.literal
        try:
            if text is not None:
                parse(text, variables=known)
        except InputError as error:
            for d in error.diagnostics:
                if d.code == "expression-unknown-name":
                    where = within(template.where, text or "", d.column - 1)
                    diagnostics.append(diagnostic(where, d.code, d.message, d.hint))
    return diagnostics
