"""What `bw stats` was asked, checked: every mistake at once, before a file is read."""

from __future__ import annotations

import argparse
import math
from typing import TypeVar

import msgspec

from benchwright.cli.checked import checked
from benchwright.cli.rule_files import rules
from benchwright.cli.stats_checked import Step, checked_steps
from benchwright.finding.rules import NamedRule
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.quantity import parse_share
from benchwright.stats.sample_comparison import Variances
from benchwright.stats.transform import HEADINGS

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
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
    steps: tuple[Step, ...] = ()
    least_changes: dict[str, float] = {}
    """By quantity: the smallest change over a test that is a drift, as a share."""
    rules: tuple[NamedRule, ...] = ()
    """The user's own, loaded."""


def request_of(arguments: argparse.Namespace) -> Request:
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
    return Request(
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
        return tuple(rules(files))
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
        what = "prints raw rows as CSV: there is nothing to be done with"
        found += [
            ("--dump", "", f"--dump {what} {one}")
            for one, said in others.items()
            if said
        ]
    hint = "leave one of the two out"
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
            found[HEADINGS.get(name, name)] = parse_share(share)
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
