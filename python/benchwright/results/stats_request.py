"""What `bw stats` is asked for: transformations, whose form and syntax are checked before any file is
read, and the names of quantities, as in the data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from benchwright.core.comparison import Variances
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.expression import Expression, parse
from benchwright.core.plan import SUCCESS
from benchwright.findings.result import TestResult
from benchwright.findings.rules import NamedRule
from benchwright.stats.aggregate import (
    COMPUTED_COLUMNS,
    EXTRAS,
    FIXED_COLUMNS,
    HEADING_COLUMNS,
    TABLE_FOLDS,
    TIMES,
    MetricRules,
    TableFold,
)

# -- Transformations: form and syntax are checked before any file is read --------------

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MEASURED = frozenset((*TIMES, *COMPUTED_COLUMNS, *EXTRAS, *FIXED_COLUMNS, *HEADING_COLUMNS))
"""Names with a fixed meaning and unit."""


class TransformStep(msgspec.Struct, frozen=True):
    """One transformation: `--derive rate=$ops/$elapsed`."""

    option: str
    text: str = ""
    """The option's text, for messages."""
    name: str = ""
    """Name of the column that the step derives, groups by or aggregates."""
    body: str = ""
    """The expression."""
    how: TableFold | None = None

    @property
    def offset(self) -> int:
        """Offset of the expression in the text."""
        return len(self.text) - len(self.body)


def checked_steps(
    said: Iterable[tuple[str, str]], wrong: list[Diagnostic]
) -> tuple[TransformStep, ...]:
    """Return the steps; add mistakes of form and syntax to `wrong`."""
    steps = []
    for option, text in said:
        try:
            steps.append(_step(option, text))
        except InputError as error:
            wrong.extend(error.diagnostics)
    _check_order(steps, wrong)
    return tuple(steps)


def _check_order(steps: Iterable[TransformStep], wrong: list[Diagnostic]) -> None:
    """Report each --no-unify after a step that merges rows, or before a --unify."""
    before: set[str] = set()
    for step in steps:
        merging = before & {"--unify", "--aggregate"}
        if step.option == "--no-unify" and merging:
            message = f"{min(merging)} before it has merged the commands into one row"
            hint = "put --no-unify first, or leave out one of the two"
            wrong.extend(refused("", step.option, (message, hint)).diagnostics)
        if step.option == "--unify" and "--no-unify" in before:
            said = ("--no-unify and --unify contradict", "leave out one of the two")
            wrong.extend(refused("", step.option, said).diagnostics)
        before.add(step.option)


def _step(option: str, text: str) -> TransformStep:
    if option in ("--unify", "--no-unify"):
        return TransformStep(option)
    if option == "--group":
        return TransformStep(option, text, name=HEADING_COLUMNS.get(text, text))
    if option == "--aggregate":
        return _aggregate(option, text)
    step = TransformStep(option, text, body=text)
    if option == "--derive":
        name, _, body = text.partition("=")
        _check_name(option, text, name)
        step = TransformStep(option, text, name=name, body=body)
    parsed(step, None)
    return step


def parsed(step: TransformStep, names: Iterable[str] | None) -> Expression:
    """Return a step's expression, which may read `names`; None allows all names.

    Raises InputError with the column in the option's text.
    """
    return parse(
        step.body,
        variables=None if names is None else frozenset(names),
        file=step.option,
        column_offset=step.offset,
        line_text=step.text,
    )


def refused(step_text: str, option: str, said: tuple[str, str], at: int = 0) -> InputError:
    """Return the InputError for an option's text; `said`: message and hint, `at`: the offset."""
    message, hint = said
    return InputError(
        [Diagnostic("bad-argument", message, hint, file=option, column=at + 1, text=step_text)]
    )


def _check_name(option: str, text: str, name: str) -> None:
    hint = "write NAME=EXPRESSION, such as rate='$ops / $elapsed'"
    if "=" not in text:
        raise refused(text, option, ("there is no = and no expression", hint))
    if _NAME.fullmatch(name) is None:
        what = f"{name!r} is not a name: letters, digits and _, not starting with a digit"
        raise refused(text, option, (what if name else "a column needs a name", hint))
    if not text.partition("=")[2].strip():
        said = (f"{name} has no expression", hint)
        raise refused(text, option, said, len(name) + 1)
    if name in _MEASURED:
        message = f"{name} is measured and keeps its meaning and unit"
        raise refused(text, option, (message, "choose another name"))


def _aggregate(option: str, text: str) -> TransformStep:
    name, _, how = text.partition("=")
    if not name:
        hint = "write NAME=HOW, such as ops=sum"
        raise refused(text, option, ("the value to aggregate is missing", hint))
    if how not in TABLE_FOLDS:
        said = (f"there is no aggregation {how!r}", "one of " + ", ".join(TABLE_FOLDS))
        raise refused(text, option, said, len(name) + ("=" in text))
    if name in FIXED_COLUMNS:
        message = f"{name} identifies the row and cannot be aggregated"
        raise refused(text, option, (message, "name a measured value"))
    return TransformStep(
        option, text, name=HEADING_COLUMNS.get(name, name), how=cast("TableFold", how)
    )


# -- The request -----------------------------------------------------------------------


class StatsRequest(msgspec.Struct, frozen=True):
    """A checked request."""

    paths: tuple[str, ...]
    predicate: str | None = None
    baseline: str | None = None
    format: str = "table"
    everything: bool = False
    metrics: tuple[str, ...] = ()
    threshold: float = 2.0
    command: str | None = None
    ok_status: tuple[int, ...] = SUCCESS
    confidence: float = 0.95
    dump: bool = False
    ttest: bool = False
    variances: Variances = "auto"
    steps: tuple[TransformStep, ...] = ()
    least_changes: dict[str, float] = {}
    """For each quantity, the smallest change over a test that counts as drift, as a share."""
    rules: tuple[NamedRule, ...] = ()
    """The user's rules."""


# -- Names of quantities in options: as in the table or in the data --------------------
#
# `--metric` and `--drift` accept `elapsed`, `Elapsed` and `cpu%`; a name that no input has is an
# error.

_ALWAYS = (*TIMES, *COMPUTED_COLUMNS, *sorted(EXTRAS))
"""Names that are valid even if no input has them."""


def with_known_names(request: StatsRequest, inputs: Sequence[TestResult]) -> StatsRequest:
    """Return the request with the names of quantities as in the data.

    Raises InputError with all names that no input has; if nothing was measured, any name is
    accepted.
    """
    there = dict.fromkeys(_names_of(inputs))
    if not there:
        return request
    known = dict.fromkeys((*there, *_ALWAYS))
    wrong: list[Diagnostic] = []
    metrics = [_known("--metric", name, known, wrong) for name in request.metrics]
    changes = {
        _known("--drift", name, known, wrong): share
        for name, share in request.least_changes.items()
    }
    if wrong:
        raise InputError(wrong)
    return msgspec.structs.replace(request, metrics=tuple(metrics), least_changes=changes)


def _names_of(inputs: Iterable[TestResult]) -> list[str]:
    found: list[str] = []
    for test in inputs:
        found += [spec.name for spec in test.specs]
        blocks = (block for trial in test.all_trials for block in trial.blocks)
        found += dict.fromkeys(name for block in blocks for name in block.values)
        found += [summary.name for summary in test.summaries]
    return found


def _known(option: str, said: str, known: Iterable[str], wrong: list[Diagnostic]) -> str:
    """Return the known name that equals the text, or matches it ignoring case, or by label."""
    names, book = list(known), MetricRules()
    if said in names:
        return said
    for name in names:
        if said.lower() in (name.lower(), book.row(name).label.lower()):
            return name
    message = f"no input has {said!r}"
    hint = "there are: " + ", ".join(names)
    wrong.append(Diagnostic("bad-argument", message, hint, file=option, text=said))
    return said
