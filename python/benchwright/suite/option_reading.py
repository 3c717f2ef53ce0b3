"""Options of a command line being read: every wrong value is noted, none ends it.

Purpose: what `bw run -- CMD` and `bw compare -- A B` read in the same way. A mistake has
the option's name in the place of a file's. Non-goal: what the options mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from benchwright.core.errors import Diagnostic
from benchwright.core.plan import MetricSpec
from benchwright.suite.mistakes import Fault, placed
from benchwright.suite.program import Where
from benchwright.suite.rules import parse_metric

T = TypeVar("T")


class OptionReading:
    """Options being read; mistakes gather in `found`."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def _declared(self, words: Sequence[str]) -> list[MetricSpec]:
        """Return the metrics that `--metric` words declare."""
        specs: list[MetricSpec] = []
        for word in words:
            spec, faults = parse_metric(word)
            if spec is None:
                self.found += placed(faults, placer("--metric", word))
            elif any(spec.name == other.name for other in specs):
                self._wrong("--metric", word, f"metric {spec.name} is given twice")
            else:
                specs.append(spec)
        return specs

    def _parsed(
        self,
        option: str,
        text: str | None,
        parse: Callable[[str], T | None],
        hint: str = "",
    ) -> T | None:
        """Return what a text means; None where nothing was said, or it is wrong."""
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self._wrong(option, text or "", str(error), hint)
            return None

    def _checked(
        self, option: str, text: str, fault_of: Callable[[str], Fault | None]
    ) -> bool:
        """Note what is wrong with a text; tell whether nothing is."""
        fault = fault_of(text)
        if fault is not None:
            self._wrong(option, text, fault.message, fault.hint, fault.offset)
        return fault is None

    def _wrong(
        self, option: str, text: str, message: str, hint: str = "", offset: int = 0
    ) -> None:
        where = at(option, text, offset)
        self.found.append(
            Diagnostic(
                "bad-argument",
                message,
                hint,
                file=option,
                column=where.column,
                text=where.text,
            )
        )


def at(option: str, text: str, offset: int = 0) -> Where:
    """Return the place of a character of an option's value."""
    return Where(option, 1, offset + 1, shown(text))


def placer(option: str, text: str) -> Callable[[int], Where]:
    """Return the function from a character's offset to its place."""
    return lambda offset: at(option, text, offset)


def shown(text: str) -> str:
    """Return a text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)
