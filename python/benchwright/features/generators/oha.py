"""oha: HTTP at a rate (-q), with its response time counted from the schedule.

With --latency-correction a response time counts from the intended start. Requests that are
in flight or not started when the time is up are "aborted due to deadline": they are not
errors and have no response. A backlog shows only as fewer completed requests. A
status of 400 or more is an error here; oha's mean and percentiles include its response,
and such a run is marked.
Source: oha 1.16 --help and its schema.json; an output, recorded.
"""

from __future__ import annotations

import math
from typing import ClassVar

from benchwright.core.plan import Command
from benchwright.features.generators import measurements as summary
from benchwright.features.generators.adapter import (
    ERRORS_IN_RESPONSE,
    CountOrPlaceholder,
    Diagnosis,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    Measurement,
    ProgramGenerator,
    filled,
    placeholder_values,
)
from benchwright.features.generators.output import JsonOutput

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
_TOO_OLD = Diagnosis("'--output-format'", "this oha has no --output-format: install 1.5 or later")
UNFINISHED = "aborted due to deadline"


class Oha(ProgramGenerator, frozen=True, kw_only=True):
    """The settings of oha."""

    url: str
    """URL to request."""
    connections: CountOrPlaceholder = 50
    """Connections to the server."""

    name: ClassVar = "oha"
    traits: ClassVar = GeneratorTraits(
        open_loop=True,
        from_intended=True,
        statistics=("mean", "percentile", "ratio"),
        shares=SHARES,
    )
    """The meaning of its figures: they count from the schedule."""

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial."""
        words = ["oha", "--no-tui", "--output-format", "json"]
        words += ["-z", f"{placeholder_values(request.duration_s)}s"]
        words += ["-c", str(self.users("connections", request))]
        if request.rate is not None:
            words += ["-q", placeholder_values(request.rate), "--latency-correction"]
        words += filled((*self.arguments, self.url), request)
        return Invocation(commands=(Command(tuple(words)),), diagnoses=(_TOO_OLD,))

    def parse(self, output: GeneratorOutput, _request_of_trial: GeneratorRequest, /) -> Measurement:
        """Return the values of its JSON. Raises UnreadableOutput."""
        document = JsonOutput(output.stdout, "stdout")
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
        values = summary.summary_values(
            None if mean_s is None else 1e3 * mean_s, percentiles, errors / ended if ended else 0.0
        )
        return Measurement(
            values=values if ended else {},
            completed=good,
            errors=errors,
            lasted_s=document.number("summary", "total"),
            marks=(ERRORS_IN_RESPONSE,) if good and refused else (),
        )


def _counts(document: JsonOutput) -> tuple[int, int, int]:
    """Return how many requests succeeded, were refused, and got no response."""
    statuses = document.table("statusCodeDistribution")
    broken = document.table("errorDistribution")
    refused = sum(n for status, n in statuses.items() if int(status) >= 400)
    failed = sum(n for why, n in broken.items() if why != UNFINISHED)
    return sum(statuses.values()) - refused, refused, failed
