"""oha: HTTP at a rate (-q), with its response counted from the schedule.

With --latency-correction a response counts from the intended start. What is under way
when the time is up is "aborted due to deadline", and so is what was not begun: neither is
an error, and neither has a response. A backlog shows as fewer requests completed. A
status of 400 or more is an error here; oha's mean and percentiles hold its response too,
and such a run is marked.
Source: oha 1.16 --help and its schema.json; an output, recorded.
"""

from __future__ import annotations

import math
from typing import ClassVar

import msgspec

from benchwright.model.plan import Command
from benchwright.workbench.generators import summary
from benchwright.workbench.generators.adapter import (
    ERRORS_IN_RESPONSE,
    Asked,
    Diagnosis,
    Invocation,
    Measured,
    Output,
    Traits,
)
from benchwright.workbench.generators.document import Document
from benchwright.workbench.generators.fields import NO_WORDS, Count, Words
from benchwright.workbench.generators.placeholders import filled, plain, whole

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
_TOO_OLD = Diagnosis(
    "'--output-format'", "this oha has no --output-format: install 1.5 or later"
)
UNFINISHED = "aborted due to deadline"


class Oha(msgspec.Struct, frozen=True, kw_only=True):
    """A URL."""

    url: str
    connections: Count = 50
    arguments: Words = NO_WORDS
    """More words of the command line, such as `-H 'Accept: text/html'`."""

    name: ClassVar = "oha"
    programs: ClassVar = ("oha",)

    @property
    def traits(self) -> Traits:
        """What its figures are worth: they count from the schedule."""
        return Traits(
            open_loop=True,
            from_intended=True,
            tells_lateness=False,
            statistics=("mean", "percentile", "ratio"),
            shares=SHARES,
        )

    def invocation(self, asked: Asked) -> Invocation:
        """Return the command of a trial."""
        words = ["oha", "--no-tui", "--output-format", "json"]
        words += ["-z", f"{plain(asked.duration_s)}s"]
        connections = asked.users or whole(self.connections, asked, "connections")
        words += ["-c", str(connections)]
        if asked.rate is not None:
            words += ["-q", plain(asked.rate), "--latency-correction"]
        words += [filled(word, asked) for word in (*self.arguments, self.url)]
        return Invocation(commands=(Command(tuple(words)),), diagnoses=(_TOO_OLD,))

    def parse(self, output: Output, _asked: Asked, /) -> Measured:
        """Return what its JSON says. Raises UnreadableOutput."""
        document = Document(output.stdout, "stdout")
        good, refused, broken = _counts(document)
        errors = refused + broken
        mean_s = document.number("summary", "average") if good else None
        percentiles = {
            share: 1e3 * document.number("latencyPercentiles", f"p{100 * share:.10g}")
            if good
            else math.inf
            for share in SHARES
        }
        ended = good + errors
        values = summary.values_of(
            None if mean_s is None else 1e3 * mean_s,
            percentiles,
            errors / ended if ended else 0.0,
        )
        return Measured(
            values=values if ended else {},
            completed=good,
            errors=errors,
            lasted_s=document.number("summary", "total"),
            marks=(ERRORS_IN_RESPONSE,) if good and refused else (),
        )

    def so_far(self, _output: Output, _asked: Asked, /) -> Measured | None:
        """Return None: it prints at its end."""
        return None


def _counts(document: Document) -> tuple[int, int, int]:
    """Return how many requests went well, were refused, and had no answer at all."""
    statuses = document.table("statusCodeDistribution")
    broken = document.table("errorDistribution")
    refused = sum(n for status, n in statuses.items() if int(status) >= 400)
    failed = sum(n for why, n in broken.items() if why != UNFINISHED)
    return sum(statuses.values()) - refused, refused, failed
