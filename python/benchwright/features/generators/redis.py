"""redis-benchmark and memtier_benchmark: loads of Redis, memtier also of memcached.

redis-benchmark: a closed loop of clients, each with one request in flight.

It has no rate: its axis is users, for a ramp. With `requests` it runs that many and prints
percentiles (--csv); otherwise it is ended when the time is up, and the only figures are
those of its progress, which it prints four times a second: mean and throughput. It does not
count error replies, so the error ratio is unknown.
Source: redis-benchmark --help of 7.0.15; its outputs, recorded.

memtier_benchmark: Redis or memcached; each connection is limited to a rate.

--rate-limiting is a whole number for each connection, so a trial's rate is a multiple of
threads x clients; a rate that differs by more than 1 % from the requested one is marked. A
connection waits for its response before it sends again: a closed loop behind a limit,
which omits the waits of requests that it could not send.
Source: memtier_benchmark --help; the JSON that its source writes (run_stats.cpp).
"""

from __future__ import annotations

import re
from typing import ClassVar

from benchwright.core.plan import Command
from benchwright.features.generators.adapter import (
    CountOrPlaceholder,
    Diagnosis,
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
    whole_seconds,
)
from benchwright.features.generators.output import (
    MEAN,
    JsonOutput,
    ValueSource,
    summary_values,
    wanted_shares,
)
from benchwright.features.load.plan import LoadSeries
from benchwright.trial.observe import MetricNotFound

SUMMARY = "memtier.json"
_NO_RATE = Diagnosis(
    "rate-limiting", "this memtier_benchmark has no --rate-limiting: install 1.4 or later"
)
TOTALS = ("ALL STATS", "Totals")


class Memtier(ProgramGenerator, frozen=True, kw_only=True):
    """A key-value server."""

    host: str = "127.0.0.1"
    """Name or address of the server."""
    port: CountOrPlaceholder = 6379
    """Port of the server."""
    protocol: str = ""
    """`redis`, `memcache_text` or `memcache_binary`; redis if empty."""
    threads: CountOrPlaceholder = 1
    """Threads of memtier_benchmark."""
    clients: CountOrPlaceholder = 8
    """Connections of each thread; fewer if the rate is below one per second for each."""

    name: ClassVar = "memtier"

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be in PATH."""
        return ("memtier_benchmark",)

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: those of a closed loop behind a limit."""
        return GeneratorTraits(
            statistics=("mean", "percentile"), series=True, reports_errors=False
        ).using(self.threads)

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial."""
        threads, clients, each = self._split(request)
        shares = ",".join(f"{100 * s:.10g}" for s in _shares(request))
        words = ["memtier_benchmark", "-s", fill_text(self.host, request)]
        words += ["-p", fill_text(str(self.port), request), "-t", str(threads)]
        words += ["-c", str(clients)]
        words += [f"--test-time={whole_seconds(request.duration_s)}"]
        words += [f"--print-percentiles={shares}", "--hide-histogram"]
        words += [f"--json-out-file={request.directory}/{SUMMARY}"]
        words += [] if each is None else [f"--rate-limiting={each}"]
        words += [f"--protocol={self.protocol}"] if self.protocol else []
        words += filled(self.arguments, request)
        return Invocation(
            commands=(Command(tuple(words)),),
            rate=None if each is None else float(each * clients * threads),
            diagnoses=(_NO_RATE,),
            reads=(SUMMARY,),
        )

    def _split(self, request: GeneratorRequest) -> tuple[int, int, int | None]:
        """Return threads, clients per thread, and the rate of each client."""
        threads = self.count("threads", request)
        if request.rate is None:
            users = request.users or threads * self.count("clients", request)
            # All threads have equally many clients: use fewer threads rather than other users.
            threads = next(n for n in range(threads, 0, -1) if users % n == 0)
            return threads, users // threads, None
        clients = self.count("clients", request)
        clients = max(1, min(clients, int(request.rate / threads)))
        return threads, clients, max(1, round(request.rate / threads / clients))

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its JSON. Raises UnreadableOutput."""
        document = JsonOutput(output.files.get(SUMMARY, ""), SUMMARY)
        count = int(document.number(*TOTALS, "Count"))
        latencies = document.table(*TOTALS, "Percentile Latencies") if count else {}
        percentiles = {
            share: float(latencies[key])
            for share in _shares(request)
            if (key := _key(share, latencies))
        }
        mean_ms = _mean_ms(document) if count else None
        values = summary_values(mean_ms, percentiles, 0.0)
        # It does not count error replies, so their number is unknown.
        values = {k: v for k, v in values.items() if k.startswith("response")}
        return Measurement(
            values=values,
            series=_series(document),
            offered=count,
            completed=count,
            lasted_s=float(whole_seconds(request.duration_s)),
        )


def _shares(request: GeneratorRequest) -> tuple[float, ...]:
    return wanted_shares(request.criteria)


def _mean_ms(document: JsonOutput) -> float:
    newer = document.get(*TOTALS, "Average Latency") is not None
    return document.number(*TOTALS, "Average Latency" if newer else "Latency")


def _key(share: float, latencies: dict[str, object]) -> str:
    """Return the name of a percentile's member: `p99.00`, `p99.90`; empty if there is none."""
    names = (f"p{100 * share:.2f}", f"p{100 * share:.3f}", f"p{100 * share:.10g}")
    return next((name for name in names if name in latencies), "")


def _series(document: JsonOutput) -> LoadSeries:
    """Return the values by second; seconds without operations have no mean."""
    place = (*TOTALS, "Time-Serie")
    found = document.get(*place)
    names = found if isinstance(found, dict) else ()
    seconds = sorted((int(name), name) for name in names if name.isdecimal())
    if not seconds:
        return LoadSeries()
    first = seconds[0][0]
    counts, means = (
        [document.number_or(0, *place, name, member) for _, name in seconds]
        for member in ("Count", "Average Latency")
    )
    return LoadSeries(
        at_s=tuple(float(at - first) for at, _ in seconds),
        counts=tuple(int(count) for count in counts),
        values={MEAN: tuple(means)},
        binned_by="completion",
    )


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
