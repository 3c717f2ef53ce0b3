"""The transformations of `bw stats` as the command line has them: read, not applied.

Decision: they are steps in the order given, because each sees what the ones before it
made (a derived column can be selected by). Applied in stats_transform.py.
Source: Auto-pilot paper, section 3.3.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class KeepOrder(argparse.Action):
    """Appends (option, text) to `steps`, which all transformations share."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Append the option in its full spelling, and its text."""
        text = values if isinstance(values, str) else ""
        said = (self.option_strings[0], text)
        namespace.steps = [*(namespace.steps or ()), said]


_STEPS = (
    ("--derive", "NAME=E", "a new column NAME"),
    ("--select", "E", "keep the rows for which E is true"),
    ("--group", "COLUMN", "a table for each value of COLUMN"),
    ("--warn", "E", "a finding that names the rows for which E is true"),
    (
        "--aggregate",
        "NAME=HOW",
        "an epoch's rows become one, NAME by HOW: sum, mean, max, min, median, count",
    ),
)
_SWITCHES = (
    ("--unify", "a thread's commands become one row here (default: at the end)"),
    ("--no-unify", "each command is a table of its own"),
)


def add_steps(parser: argparse.ArgumentParser) -> None:
    """Add the transformations."""
    group = parser.add_argument_group(
        "transformations",
        "Applied in the order given, to rows; a row is one measured command. "
        "E reads $elapsed, $user and other values, $command, $thread, $epoch, and the "
        "sample's levels.",
    )
    for name, metavar, text in _STEPS:
        group.add_argument(
            name, action=KeepOrder, dest="steps", metavar=metavar, help=text
        )
    for name, text in _SWITCHES:
        group.add_argument(name, action=KeepOrder, dest="steps", nargs=0, help=text)
