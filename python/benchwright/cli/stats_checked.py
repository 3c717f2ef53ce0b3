"""Transformations, checked as far as that is possible before a file is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

import msgspec

from benchwright.expression import Expression, parse
from benchwright.model.errors import Diagnostic, InputError
from benchwright.stats.rows import EXTRAS, TIMES
from benchwright.stats.transform import COMPUTED, HEADINGS, HOWS, How
from benchwright.stats.transform_trials import FIXED

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MEASURED = frozenset((*TIMES, *COMPUTED, *EXTRAS, *FIXED, *HEADINGS))
"""Names with a meaning and a unit of their own."""


class Step(msgspec.Struct, frozen=True):
    """One transformation: `--derive rate=$ops/$elapsed`."""

    option: str
    text: str = ""
    """As written, for messages."""
    name: str = ""
    """Of the column that is derived, grouped by or aggregated."""
    body: str = ""
    """The expression."""
    how: How | None = None

    @property
    def offset(self) -> int:
        """Where the expression begins within the text, from 0."""
        return len(self.text) - len(self.body)


def checked_steps(
    said: Iterable[tuple[str, str]], wrong: list[Diagnostic]
) -> tuple[Step, ...]:
    """Return the steps; mistakes of form and of syntax go to `wrong`."""
    steps = []
    for option, text in said:
        try:
            steps.append(_step(option, text))
        except InputError as error:
            wrong.extend(error.diagnostics)
    _check_order(steps, wrong)
    return tuple(steps)


def _check_order(steps: Iterable[Step], wrong: list[Diagnostic]) -> None:
    """Note every --no-unify that comes too late, or that --unify takes back."""
    before: set[str] = set()
    for step in steps:
        merging = before & {"--unify", "--aggregate"}
        if step.option == "--no-unify" and merging:
            message = f"{min(merging)} before it has made one row of the commands"
            hint = "put --no-unify first, or leave one of the two out"
            wrong.extend(refused("", step.option, (message, hint)).diagnostics)
        if step.option == "--unify" and "--no-unify" in before:
            said = ("--no-unify and --unify contradict", "leave one of the two out")
            wrong.extend(refused("", step.option, said).diagnostics)
        before.add(step.option)


def _step(option: str, text: str) -> Step:
    if option in ("--unify", "--no-unify"):
        return Step(option)
    if option == "--group":
        return Step(option, text, name=HEADINGS.get(text, text))
    if option == "--aggregate":
        return _aggregate(option, text)
    step = Step(option, text, body=text)
    if option == "--derive":
        name, _, body = text.partition("=")
        _check_name(option, text, name)
        step = Step(option, text, name=name, body=body)
    parsed(step, None)
    return step


def parsed(step: Step, names: Iterable[str] | None) -> Expression:
    """Return a step's expression, which may read `names`; None allows any.

    Raises InputError with the column in the option's text."""
    return parse(
        step.body,
        variables=None if names is None else frozenset(names),
        file=step.option,
        column_offset=step.offset,
        line_text=step.text,
    )


def refused(
    step_text: str, option: str, said: tuple[str, str], at: int = 0
) -> InputError:
    """Return the InputError for one option's text: what is wrong, what to do, where."""
    message, hint = said
    return InputError(
        [
            Diagnostic(
                "bad-argument",
                message,
                hint,
                file=option,
                column=at + 1,
                text=step_text,
            )
        ]
    )


def _check_name(option: str, text: str, name: str) -> None:
    hint = "write NAME=EXPRESSION, such as rate='$ops / $elapsed'"
    if "=" not in text:
        raise refused(text, option, ("there is no = and no expression", hint))
    if _NAME.fullmatch(name) is None:
        what = f"{name!r} is no name: letters, digits and _, not first a digit"
        raise refused(text, option, (what if name else "a column needs a name", hint))
    if not text.partition("=")[2].strip():
        said = (f"{name} has no expression", hint)
        raise refused(text, option, said, len(name) + 1)
    if name in _MEASURED:
        message = f"{name} is measured and keeps its meaning and unit"
        raise refused(text, option, (message, "choose another name"))


def _aggregate(option: str, text: str) -> Step:
    name, _, how = text.partition("=")
    if not name:
        hint = "write NAME=HOW, such as ops=sum"
        raise refused(text, option, ("which value is to be aggregated?", hint))
    if how not in HOWS:
        said = (f"there is no aggregation {how!r}", "one of " + ", ".join(HOWS))
        raise refused(text, option, said, len(name) + ("=" in text))
    if name in FIXED:
        message = f"{name} says which row it is and cannot be aggregated"
        raise refused(text, option, (message, "name a measured value"))
    return Step(option, text, name=HEADINGS.get(name, name), how=cast("How", how))
