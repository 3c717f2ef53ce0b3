"""vegeta: HTTP on a fixed schedule, each request logged.

vegeta starts requests evenly, with as many workers as it needs, and counts a latency from the
moment of sending. Its log has that moment, so the intended start is restored here: request i was
due i / rate after the first, and its response time counts from there. With `max_workers` a request
may wait for a worker, which is the server's part of its wait; the rest is lateness. Two commands:
`attack`, then `encode -to=csv` of the result: time [ns], status, latency [ns], bytes out, bytes in,
error, and more. Rejected: `report -type=json`, which has no values over time and no share within a
limit. Rates are whole numbers per minute. Source: vegeta 12's usage manual: attack, encode.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from typing import ClassVar

import msgspec

from benchwright.core.numeric import np, npt
from benchwright.core.plan import Command
from benchwright.features.generators import measurements as operations
from benchwright.features.generators.adapter import (
    GENERATOR_LATE,
    LATENESS,
    PER_MINUTE,
    CountOrPlaceholder,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    Measurement,
    ProgramGenerator,
    UnreadableOutput,
    fill_text,
    filled,
    placeholder_values,
    rate_of,
    whole_per_minute,
)

RESULTS, LOG, TARGETS = "vegeta.bin", "vegeta.csv", "targets"
LATE_SHARE = 0.1
"""Share of the mean response; a generator whose lateness exceeds it is marked."""
TIME, STATUS, LATENCY, ERROR = 0, 1, 2, 5
"""Columns of the log."""


class Vegeta(ProgramGenerator, frozen=True, kw_only=True):
    """A URL, or a file of targets."""

    url: str = ""
    """URL to request; or set `targets`."""
    targets: str = ""
    """A file of targets, instead of `url`."""
    max_workers: CountOrPlaceholder | None = None
    """Maximum number of workers; as many as needed if not set."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.targets):
            raise ValueError("vegeta needs a url or targets, one of the two")

    name: ClassVar = "vegeta"
    traits: ClassVar = GeneratorTraits(
        open_loop=True,
        from_intended=True,
        reports_lateness=True,
        statistics=("mean", "percentile", "share", "ratio"),
        series=True,
        axes=("rate",),
        rate_step=1 / PER_MINUTE,
    )
    """The meaning of its figures: counted from the schedule, by its log."""

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the two commands of a trial. Raises ValueError without a rate."""
        rate = whole_per_minute(rate_of(request))
        own = f"{request.directory}/{TARGETS}"
        attack = ["vegeta", "attack", f"-rate={rate}/1m", "-max-body=0"]
        attack += [f"-duration={placeholder_values(request.duration_s)}s"]
        attack += [f"-targets={fill_text(self.targets, request) or own}"]
        if self.max_workers is not None:
            attack.append(f"-max-workers={self.count('max_workers', request)}")
        results = f"{request.directory}/{RESULTS}"
        attack += [*filled(self.arguments, request), f"-output={results}"]
        log = f"-output={request.directory}/{LOG}"
        encode = ("vegeta", "encode", "-to=csv", log, results)
        target = f"GET {fill_text(self.url, request)}\n"
        return Invocation(
            commands=(Command(tuple(attack)), Command(encode)),
            rate=rate / PER_MINUTE,
            writes=((TARGETS, target),) if self.url else (),
            reads=(LOG,),
        )

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its log. Raises UnreadableOutput."""
        sent_s, took_ms, failed = _columns(output)
        order = np.argsort(sent_s, kind="stable")
        sent_s, took_ms = sent_s[order] - sent_s[order[0]], took_ms[order]
        latency_ms = np.where(failed[order], np.nan, took_ms)
        rate = whole_per_minute(rate_of(request)) / PER_MINUTE
        due_s = np.arange(len(sent_s)) / rate
        late_ms = 1e3 * np.maximum(sent_s - due_s, 0)
        free_s = self._free_s(request, sent_s + took_ms / 1e3)
        log = operations.OperationLog(
            at_s=due_s,
            response_ms=latency_ms + late_ms,
            late_ms=1e3 * np.maximum(sent_s - np.maximum(due_s, free_s), 0),
        )
        found = operations.operations_measurement(log, request.criteria, request.duration_s)
        lateness_ms = float(late_ms.mean())
        late = lateness_ms > LATE_SHARE * found.values.get(operations.MEAN, math.inf)
        return msgspec.structs.replace(
            found,
            values=found.values | {LATENESS: lateness_ms},
            offered=len(sent_s),
            marks=(GENERATOR_LATE,) if late else (),
        )

    def _free_s(self, request: GeneratorRequest, end_s: operations.Floats) -> operations.Floats:
        """Return when a worker was free for each request, in order of sending `(n,)` [s]."""
        free_s = np.full(len(end_s), -np.inf)
        if self.max_workers is not None:
            workers = self.count("max_workers", request)
            free_s[workers:] = np.sort(end_s)[: max(len(end_s) - workers, 0)]
        return free_s


def _columns(
    output: GeneratorOutput,
) -> tuple[operations.Floats, operations.Floats, npt.NDArray[np.bool_]]:
    """Return when each request was sent [s], how long it took [ms], and whether it failed."""
    csv.field_size_limit(sys.maxsize)
    text = output.files.get(LOG, "")
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        rows = [row for row in lines if len(row) > ERROR]
        sent_ns = [int(row[TIME]) for row in rows]
        sent_s = [(ns - sent_ns[0]) / 1e9 for ns in sent_ns]
        took_ms = [int(row[LATENCY]) / 1e6 for row in rows]
        failed = [bool(row[ERROR]) or not 0 < int(row[STATUS]) < 400 for row in rows]
    except (ValueError, OverflowError, csv.Error):
        raise UnreadableOutput("time,status,latency", LOG, text) from None
    if not rows:
        raise UnreadableOutput("request", LOG, text or output.stderr)
    return np.array(sent_s), np.array(took_ms), np.array(failed)
