"""Generators for databases: redis-benchmark, memtier_benchmark (Redis, memcached) and pgbench
(PostgreSQL).

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

pgbench with -R: PostgreSQL's own generator, on a schedule.

With -R transactions are scheduled as a Poisson process, and the latency that pgbench reports and
logs counts from the scheduled start ("includes the schedule lag"). Transactions that are due but
not started when the time is up are neither run nor counted: above the server's capacity, fewer
transactions complete than rate times length. With -L, transactions that are already too late when
they could start are skipped: they have no latency. Values come from the log of transactions (-l),
where each line is `client transaction latency_us script second microsecond lag_us`, or has
`skipped` or `failed` in place of the latency. -T takes whole seconds. If more transactions are due
than `LOGGED`, a random share of them is logged (--sampling-rate), because a log of millions costs
the generator's CPU without a better result. Counts then come from pgbench's summary. The schedule
lag of a transaction contains the wait for its client, which the server causes. How late pgbench
itself was is the time from the later of two moments, the scheduled start and the end of the
client's transaction before, to the start. The number of a transaction, which counts those that are
not logged, says whether the one before is known. Source: PostgreSQL 15, pgbench(1): -R, -L, -l,
"Per-Transaction Logging".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec

from benchwright.core.numeric import np
from benchwright.core.plan import Command
from benchwright.core.quantity import parse_duration_ns
from benchwright.features.generators.adapter import (
    LATENESS,
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
    Floats,
    JsonOutput,
    OperationLog,
    ValueSource,
    columns,
    operations_measurement,
    summary_values,
    wanted_shares,
)
from benchwright.features.load.plan import LoadSeries
from benchwright.inputs.options import Option
from benchwright.trial.observe import MetricNotFound

LOG = "pgbench_log"
CLIENT, NUMBER, LATENCY, SECOND, MICROSECOND, LAG = 0, 1, 2, 4, 5, 6
"""Columns of the log."""
LOGGED = 200_000
"""Approximate maximum of logged transactions of a trial."""
LEAST_SHARE = 0.05
"""Smallest share that is logged: the log's buffer must fill now and then on a slow server."""
SKIPPED = -1
_WORDS = {"skipped": str(SKIPPED), "failed": "-2", "serialization": "-2", "deadlock": "-2"}
"""Numbers that replace a word in the latency column."""


_COUNTS = {
    "processed": re.compile(r"transactions actually processed: (\d+)"),
    "failed": re.compile(r"failed transactions: (\d+)"),
    "skipped": re.compile(r"transactions skipped: (\d+)"),
}


def _milliseconds(text: str) -> float:
    return parse_duration_ns(text) / 1e6


class Pgbench(ProgramGenerator, frozen=True, kw_only=True):
    """A database and the transactions that it executes."""

    database: str = "postgres"
    """Name of the database."""
    host: str = ""
    """Host name, address or socket directory; libpq's default if empty."""
    port: CountOrPlaceholder = ""
    """Port of the server; libpq's default if empty."""
    user: str = ""
    """Name of the user; libpq's default if empty."""
    clients: CountOrPlaceholder = 8
    """Connections; a transaction that finds none free waits, and its wait is counted."""
    jobs: CountOrPlaceholder = 1
    """Threads of pgbench."""
    builtin: str = ""
    """One of pgbench's own transactions: `tpcb-like`, `simple-update` or `select-only`."""
    script: str = ""
    """A file with your own transaction, instead of `builtin`."""
    latency_limit: Annotated[float | None, Option(parse=_milliseconds)] = None
    """Skip transactions that are later than this before they start (-L), such as `100ms`."""

    name: ClassVar = "pgbench"

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: they count from the schedule."""
        return GeneratorTraits(
            open_loop=True,
            from_intended=True,
            reports_lateness=True,
            statistics=("mean", "percentile", "share", "ratio"),
            series=True,
            watched=True,
        ).using(self.jobs)

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial; without a rate, its clients never wait."""
        words = ["pgbench", "-n", "-T", str(whole_seconds(request.duration_s))]
        words += ["-P", "1", "-l", f"--log-prefix={request.directory}/{LOG}"]
        if request.rate is not None:
            words += ["-R", placeholder_values(request.rate)]
        share = _logged_share(request)
        words += [f"--sampling-rate={share:.6f}"] if share < 1 else []
        words += ["-c", str(self.users("clients", request))]
        words += ["-j", str(self.count("jobs", request))]
        words += self._options(request)
        words += filled(self.arguments, request)
        words.append(fill_text(self.database, request))
        return Invocation(commands=(Command(tuple(words)),), reads=(f"{LOG}.*",))

    def _options(self, request: GeneratorRequest) -> list[str]:
        limit = self.latency_limit
        told = (
            ("-h", self.host),
            ("-p", str(self.port)),
            ("-U", self.user),
            ("-b", self.builtin),
            ("-f", self.script),
            ("-L", "" if limit is None else placeholder_values(limit)),
        )
        return [x for flag, text in told if text for x in (flag, fill_text(text, request))]

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of the logs of transactions. Raises UnreadableOutput."""
        if not output.files:
            raise UnreadableOutput("transaction log", f"{LOG}.*", output.stderr)
        measurement = self._measured(output, request, whole_seconds(request.duration_s))
        if measurement is None:
            # A server that completed no transaction is not an error of the output.
            return Measurement(
                values={}, completed=0, lasted_s=float(whole_seconds(request.duration_s))
            )
        return measurement if _logged_share(request) == 1 else _counted(measurement, output.stdout)

    def so_far(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement | None:
        """Return the values of the logs up to their last line."""
        measurement, share = self._measured(output, request, None), _logged_share(request)
        if measurement is None or share == 1:
            return measurement
        completed = round((measurement.completed or 0) / share)
        return msgspec.structs.replace(measurement, completed=completed, offered=None)

    def _measured(
        self, output: GeneratorOutput, request: GeneratorRequest, lasted_s: float | None
    ) -> Measurement | None:
        width = MICROSECOND + 1 if request.rate is None else LAG + 1
        try:
            rows = _rows(output.files.values(), width)
        except ValueError as error:
            seen = next(iter(output.files.values()))[-200:]
            raise UnreadableOutput(f"log ({error})", f"{LOG}.*", seen) from None
        if not len(rows):
            return None
        latency_ms = np.where(rows[:, LATENCY] < 0, np.nan, rows[:, LATENCY] / 1e3)
        end_s = (rows[:, SECOND] - rows[0, SECOND]) + rows[:, MICROSECOND] / 1e6
        at_s = end_s - np.nan_to_num(latency_ms) / 1e3
        begin_s = float(at_s.min())
        log = OperationLog(
            at_s=at_s - begin_s,
            response_ms=latency_ms,
            skipped=int((rows[:, LATENCY] == SKIPPED).sum()),
            logged=_logged_share(request),
            late_ms=None if request.rate is None else _late_ms(rows, end_s),
        )
        if lasted_s is None:
            lasted_s = max(float(end_s.max()) - begin_s, 1e-3)
        measurement = operations_measurement(log, request.criteria, float(lasted_s))
        if request.rate is None:
            return measurement
        lag_ms = float(rows[:, LAG].mean()) / 1e3
        return msgspec.structs.replace(
            measurement,
            values=measurement.values | {LATENESS: lag_ms},
            # Without -L pgbench does not count transactions that were due and never started.
            offered=len(rows) - log.skipped if log.skipped else None,
        )


def _logged_share(request: GeneratorRequest) -> float:
    due = 0.0 if request.rate is None else request.rate * whole_seconds(request.duration_s)
    return min(1.0, max(LOGGED / due, LEAST_SHARE)) if due else 1.0


def _counted(found: Measurement, summary: str) -> Measurement:
    """Return the values of a sampled log with the summary's counts. Raises UnreadableOutput."""
    counts = {name: pattern.search(summary) for name, pattern in _COUNTS.items()}
    numbers = {name: int(match[1]) for name, match in counts.items() if match}
    if "processed" not in numbers:
        raise UnreadableOutput("number of transactions", "stdout", summary)
    failed, skipped = numbers.get("failed", 0), numbers.get("skipped", 0)
    return msgspec.structs.replace(
        found,
        completed=numbers["processed"],
        errors=failed + skipped,
        offered=numbers["processed"] + failed if skipped else None,
    )


def _late_ms(rows: Floats, end_s: Floats) -> Floats:
    """Return how late pgbench came to each transaction, `(n,)`; nan where that is unknown [ms].

    A client's first transaction waits for no other.
    """
    order = np.lexsort((rows[:, NUMBER], rows[:, CLIENT]))
    client, number = rows[order, CLIENT], rows[order, NUMBER]
    end_s = end_s[order]
    due_s = end_s - rows[order, LATENCY] / 1e6
    start_s = due_s + rows[order, LAG] / 1e6
    follows = np.zeros(len(order), dtype=bool)
    follows[1:] = (client[1:] == client[:-1]) & (number[1:] == number[:-1] + 1)
    free_s = np.where(follows, np.roll(end_s, 1), -np.inf)
    late_ms = 1e3 * np.maximum(start_s - np.maximum(due_s, free_s), 0)
    known = (follows | (number == 1)) & (rows[order, LATENCY] >= 0)
    found = np.empty(len(order))
    found[order] = np.where(known, late_ms, np.nan)
    return found


def _rows(logs: Iterable[str], width: int) -> Floats:
    """Return the transactions of all threads `(n, width)`, in the order of the files."""
    numbers = [columns(_numbers(text), width) for text in logs]
    return np.concatenate([np.empty((0, width)), *numbers])


def _numbers(text: str) -> str:
    for word, number in _WORDS.items():
        text = text.replace(word, number)
    return text


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
