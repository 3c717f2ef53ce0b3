"""redis-benchmark: a closed loop of clients, each with one request in flight.

It has no rate: its axis is users, for a ramp. With `requests` it runs that many and prints
percentiles (--csv); otherwise it is ended when the time is up, and the only figures are
those of its progress, which it prints four times a second: mean and throughput. It does not
count error replies, so the error ratio is unknown.
Source: redis-benchmark --help of 7.0.15; its outputs, recorded.
"""

from __future__ import annotations

import re
from typing import ClassVar

from benchwright.core.plan import Command
from benchwright.features.generators.adapter import (
    CountOrPlaceholder,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    Measurement,
    ProgramGenerator,
    UnreadableOutput,
    WordList,
    fill_text,
    filled,
    placeholder_values,
)
from benchwright.features.generators.measurements import MEAN
from benchwright.features.generators.output import ValueSource
from benchwright.trial.metrics import MetricNotFound

ENDLESS = 2_000_000_000
"""Requests that outlast any trial; the counter is a 32-bit int."""
ENDED = 124
"""Exit status of timeout(1) when the time was up."""
_PROGRESS = re.compile(r"rps=[\d.]+ \(overall: ([\d.]+)\) avg_msec=[\d.]+ \(overall: ([\d.]+)\)")
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class RedisBenchmark(ProgramGenerator, frozen=True, kw_only=True):
    """A Redis server and one operation on it."""

    host: str = "127.0.0.1"
    """Name or address of the server."""
    port: CountOrPlaceholder = 6379
    """Port of the server."""
    clients: CountOrPlaceholder = 50
    """Connections to the server."""
    test: str = "get"
    """One of redis-benchmark's own tests (-t)."""
    operation: WordList = ()
    """A command instead of `test`, such as `GET key:__rand_int__`."""
    requests: CountOrPlaceholder | None = None
    """Number of requests, whatever the duration; without it the run ends with the duration."""
    keyspace: CountOrPlaceholder | None = None
    """Number of random keys (-r)."""
    threads: CountOrPlaceholder = 1
    """Threads of redis-benchmark."""

    name: ClassVar = "redis-benchmark"

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be in PATH."""
        timed = () if self.requests is not None else ("timeout",)
        return ("redis-benchmark", *timed)

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: those of a closed loop."""
        counted = self.requests is not None
        return GeneratorTraits(
            statistics=("mean", "percentile") if counted else ("mean",),
            shares=tuple(_SHARES.values()),
            axes=("users",),
            reports_errors=False,
        ).using(self.threads)

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial. Raises ValueError for a rate."""
        if request.rate is not None:
            raise ValueError("it has no rate: use memtier, or a ramp of users")
        words = ["redis-benchmark", "-h", fill_text(self.host, request)]
        words += ["-p", fill_text(str(self.port), request), "-q"]
        words += ["-c", str(self.users("clients", request))]
        threads = self.count("threads", request)
        words += ["--threads", str(threads)] if threads > 1 else []
        if self.keyspace is not None:
            words += ["-r", str(self.count("keyspace", request))]
        words += filled(self.arguments, request)
        if self.requests is not None:
            words += ["--csv", "-n", str(self.count("requests", request))]
        else:
            limit = ["timeout", placeholder_values(request.duration_s)]
            words = [*limit, *words, "-n", str(ENDLESS)]
        words += filled(self.operation or ("-t", self.test), request)
        statuses = (0,) if self.requests is not None else (0, ENDED)
        return Invocation(commands=(Command(tuple(words)),), statuses=statuses)

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its table or its progress. Raises UnreadableOutput."""
        if self.requests is None:
            return _of_progress(output, request)
        return _of_table(output, self.count("requests", request))


def _of_progress(output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
    """Return the last overall figures, which cover all the time before them."""
    found = _PROGRESS.findall(output.stdout)
    if not found:
        raise UnreadableOutput("progress (rps=...)", "stdout", output.stderr)
    rps, mean_ms = (float(text) for text in found[-1])
    return Measurement(values={MEAN: mean_ms}, completed=round(rps * request.duration_s))


def _of_table(output: GeneratorOutput, requests: int) -> Measurement:
    try:
        found = {
            key: ValueSource(column=f"{key}_latency_ms").value(output) for key in ("avg", *_SHARES)
        }
        rps = ValueSource(column="rps").value(output)
    except MetricNotFound as error:
        where = f"its table ({error})"
        raise UnreadableOutput("figures", where, output.stdout or output.stderr) from None
    values = {MEAN: found["avg"]}
    values |= {f"response_ms_{key}": found[key] for key in _SHARES}
    return Measurement(values=values, completed=requests, lasted_s=requests / rps if rps else None)
