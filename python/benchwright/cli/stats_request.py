"""What `bw stats` was asked for: options and transformations checked, with every mistake at once."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable
from typing import TypeVar, cast

import msgspec

from benchwright.cli.rule_files import read_rules
from benchwright.cli.shared_options import checked
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.expression import Expression, parse
from benchwright.core.quantity import parse_share
from benchwright.findings.rules import NamedRule
from benchwright.stats.input_comparison import Variances
from benchwright.stats.metric_rules import EXTRAS, TIMES
from benchwright.stats.table import (
    COMPUTED_COLUMNS,
    FIXED_COLUMNS,
    HEADING_COLUMNS,
    TABLE_FOLDS,
    TableFold,
)

# -- Transformations, checked as far as that is possible before a file is read ---------

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MEASURED = frozenset(
    (*TIMES, *COMPUTED_COLUMNS, *EXTRAS, *FIXED_COLUMNS, *HEADING_COLUMNS)
)
"""Names with a meaning and a unit of their own."""


class TransformStep(msgspec.Struct, frozen=True):
    """One transformation: `--derive rate=$ops/$elapsed`."""

    option: str
    text: str = ""
    """As written, for messages."""
    name: str = ""
    """Of the column that is derived, grouped by or aggregated."""
    body: str = ""
    """The expression."""
    how: TableFold | None = None

    @property
    def offset(self) -> int:
        """Where the expression begins within the text, from 0."""
        return len(self.text) - len(self.body)


def checked_steps(
    said: Iterable[tuple[str, str]], wrong: list[Diagnostic]
) -> tuple[TransformStep, ...]:
    """Return the steps; mistakes of form and of syntax go to `wrong`."""
    steps = []
    for option, text in said:
        try:
            steps.append(_step(option, text))
        except InputError as error:
            wrong.extend(error.diagnostics)
    _check_order(steps, wrong)
    return tuple(steps)


def _check_order(steps: Iterable[TransformStep], wrong: list[Diagnostic]) -> None:
    """Note every --no-unify that comes too late, or that --unify takes back."""
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
        what = (
            f"{name!r} is not a name: letters, digits and _, not starting with a digit"
        )
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


# --------------------------------------------------------------------------------------
# What `bw stats` was asked, checked: every mistake at once, before a file is read.

T = TypeVar("T")


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
    confidence: float = 0.95
    dump: bool = False
    ttest: bool = False
    variances: Variances = "auto"
    steps: tuple[TransformStep, ...] = ()
    least_changes: dict[str, float] = {}
    """By quantity: the smallest change over a test that is a drift, as a share."""
    rules: tuple[NamedRule, ...] = ()
    """The user's own, loaded."""


def request_of(arguments: argparse.Namespace) -> StatsRequest:
    """Return the request that the arguments mean.

    Words after `--` are inputs too: Auto-pilot ends its predicate with `--` and appends
    the file. Raises InputError.
    """
    wrong: list[Diagnostic] = []
    paths = (*arguments.inputs, *(getattr(arguments, "command_argv", None) or ()))
    if not paths:
        hint = "give a study directory, a .res file, CSV or GNU time output"
        wrong.append(Diagnostic("bad-argument", "no input", hint, file="INPUT"))
    threshold = checked("--threshold", arguments.threshold, _threshold, 2.0, wrong)
    confidence = checked("--confidence", arguments.confidence, _confidence, 0.95, wrong)
    variances = _variances(arguments, wrong)
    wrong += _contradictions(arguments)
    least_changes = _least_changes(arguments.drift, wrong)
    steps = checked_steps(arguments.steps or (), wrong)
    own = _rules(arguments.rule, wrong)
    if wrong:
        raise InputError(wrong)
    return StatsRequest(
        paths=paths,
        predicate=arguments.predicate,
        baseline=arguments.baseline,
        format="json" if arguments.json else arguments.format or "table",
        everything=arguments.all,
        metrics=tuple(arguments.metric),
        threshold=threshold,
        command=arguments.command,
        confidence=confidence,
        dump=arguments.dump,
        ttest=arguments.ttest,
        variances=variances,
        steps=steps,
        least_changes=least_changes,
        rules=own,
    )


def _rules(files: list[str], wrong: list[Diagnostic]) -> tuple[NamedRule, ...]:
    """Return the user's rules; what is wrong with one is a mistake like any other."""
    try:
        return tuple(read_rules(files))
    except InputError as error:
        wrong.extend(error.diagnostics)
        return ()


def _contradictions(arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return a mistake for every two options that ask for different outputs."""
    form = arguments.format
    found = []
    if arguments.json and form not in (None, "json"):
        found.append(("--format", form, f"--json and --format {form} contradict"))
    if arguments.dump:
        others = {
            "--ttest": arguments.ttest,
            "--json": arguments.json,
            "--format": form is not None and not arguments.json,
            "--predicate": arguments.predicate is not None,
        }
        what = "prints raw rows as CSV and ignores"
        found += [
            ("--dump", "", f"--dump {what} {one}")
            for one, said in others.items()
            if said
        ]
    hint = "leave out one of the two"
    return [
        Diagnostic("bad-argument", message, hint, file=option, text=text)
        for option, text, message in found
    ]


def _least_changes(texts: list[str], wrong: list[Diagnostic]) -> dict[str, float]:
    """Return `--drift NAME=5%` as NAME -> 0.05."""
    found = {}
    for text in texts:
        name, _, share = text.partition("=")
        if not name or not share:
            hint = "write NAME=SHARE, such as elapsed=2%"
            wrong.append(
                Diagnostic(
                    "bad-argument", "no name or no share", hint, "--drift", text=text
                )
            )
            continue
        try:
            found[HEADING_COLUMNS.get(name, name)] = parse_share(share)
        except ValueError as error:
            wrong.append(
                Diagnostic(
                    "bad-argument",
                    str(error),
                    file="--drift",
                    column=len(name) + 2,
                    text=text,
                )
            )
    return found


def _variances(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> Variances:
    """Return who decides about pooling; both options belong to --ttest."""
    asked = [
        option
        for option, given in (
            ("--equal-variance", arguments.equal_variance),
            ("--welch", arguments.welch),
        )
        if given
    ]
    if not asked:
        return "auto"
    if not arguments.ttest:
        message = "only a t-test has variances to pool"
        wrong.append(Diagnostic("bad-argument", message, "add --ttest", file=asked[0]))
    return "equal" if arguments.equal_variance else "welch"


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or math.isinf(value):
        raise ValueError(f"{text!r} is not a positive number, such as 2 or 3.5")
    return value


def _confidence(text: str) -> float:
    value = parse_share(text)
    if value >= 1:
        raise ValueError("a confidence is below 100%")
    return value
