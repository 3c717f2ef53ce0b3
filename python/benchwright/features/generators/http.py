"""Generators of HTTP at a rate: wrk2, vegeta, oha and k6.

wrk2: wrk with a rate (-R); its response time counts from the schedule.

It spends its first ten seconds on calibration and then restarts its histogram, so a
run of more than ten seconds reports only the time after them. -R and -d are whole
numbers. Debian's `wrk` is the original wrk, a closed loop without -R, and is recognised.
Percentiles come from the detailed spectrum (value, share, count), rounded up to its next
row; shares within a limit are rounded down to its last row. Both include the responses of
refused requests, and such a run is marked.
Source: wrk2's README and usage text; the spectrum is HdrHistogram's classic format.

vegeta: HTTP on a fixed schedule, each request logged.

vegeta starts requests evenly, with as many workers as it needs, and counts a latency from the
moment of sending. Its log has that moment, so the intended start is restored here: request i was
due i / rate after the first, and its response time counts from there. With `max_workers` a request
may wait for a worker, which is the server's part of its wait; the rest is lateness. Two commands:
`attack`, then `encode -to=csv` of the result: time [ns], status, latency [ns], bytes out, bytes in,
error, and more. Rejected: `report -type=json`, which has no values over time and no share within a
limit. Rates are whole numbers per minute. Source: vegeta 12's usage manual: attack, encode.

oha: HTTP at a rate (-q), with its response time counted from the schedule.

With --latency-correction a response time counts from the intended start. Requests that are
in flight or not started when the time is up are "aborted due to deadline": they are not
errors and have no response. A backlog shows only as fewer completed requests. A
status of 400 or more is an error here; oha's mean and percentiles include its response,
and such a run is marked.
Source: oha 1.16 --help and its schema.json; an output, recorded.

k6: HTTP with a constant arrival rate, in iterations of a script.

Its response time (http_req_duration) counts from the sending, so no figure includes a late
start. An iteration for which no virtual user was free is dropped and counted: as failed,
and as not offered. With `url` the script is ours and has a metric for each share that a
criterion needs; with `script` it is the user's, and takes RATE, DURATION and USERS from
__ENV. Rates are whole numbers per minute.
Source: k6 v1.8.1, k6 run --help, --summary-export; an output, recorded.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterable
from typing import ClassVar

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np, npt
from benchwright.core.plan import Command
from benchwright.features.generators.adapter import (
    ERRORS_IN_RESPONSE,
    GENERATOR_LATE,
    LATENESS,
    OPERATIONS_SKIPPED,
    PER_MINUTE,
    CountOrPlaceholder,
    Diagnosis,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    Measurement,
    ProgramGenerator,
    Statistic,
    UnreadableOutput,
    fill_text,
    filled,
    placeholder_values,
    rate_of,
    whole_per_minute,
    whole_seconds,
)
from benchwright.features.generators.output import (
    MEAN,
    Floats,
    JsonOutput,
    OperationLog,
    operations_measurement,
    summary_values,
    wanted_shares,
)
from benchwright.features.load.criteria import within_ns

SUMMARY = "k6.json"
SCRIPT = "load.js"
WELL = "http_req_duration{expected_response:true}"
ALL = "http_req_duration"


class K6(ProgramGenerator, frozen=True, kw_only=True):
    """A URL, or a script."""

    url: str = ""
    """URL to request; or set `script`."""
    script: str = ""
    """Your own script, instead of `url`."""
    vus: CountOrPlaceholder = 50
    """Number of virtual users; an iteration that finds none free is dropped."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.script):
            raise ValueError("k6 needs a url or a script, one of the two")

    name: ClassVar = "k6"

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: on a schedule, but counted from the sending."""
        own: tuple[Statistic, ...] = ("mean", "percentile", "ratio")
        return GeneratorTraits(
            open_loop=True,
            statistics=(*own, "share") if self.url else own,
            rate_step=1 / PER_MINUTE if self.url else None,
        )

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial, with our script unless the user has one."""
        words = ["k6", "run", "--quiet", "--no-color", "--no-usage-report"]
        words += ["--summary-export", f"{request.directory}/{SUMMARY}"]
        words += ["--summary-trend-stats", _trend_stats(request.criteria)]
        words += [word for pair in self._env(request) for word in ("-e", "=".join(pair))]
        words += filled(self.arguments, request)
        ours = f"{request.directory}/{SCRIPT}"
        words.append(fill_text(self.script, request) if self.script else ours)
        rate = None if request.rate is None else whole_per_minute(request.rate) / PER_MINUTE
        return Invocation(
            commands=(Command(tuple(words)),),
            rate=rate if self.url else None,
            writes=((SCRIPT, self._text(request)),) if self.url else (),
            reads=(SUMMARY,),
        )

    def _env(self, request: GeneratorRequest) -> list[tuple[str, str]]:
        if not self.script:
            return []
        rate = [] if request.rate is None else [("RATE", placeholder_values(request.rate))]
        users = str(self.users("vus", request))
        return [*rate, ("DURATION", f"{placeholder_values(request.duration_s)}s"), ("USERS", users)]

    def _text(self, request: GeneratorRequest) -> str:
        limits = {
            criterion.key: ns / 1e6
            for criterion in request.criteria
            if (ns := within_ns(criterion)) is not None
        }
        options = {"discardResponseBodies": True, "scenarios": {"load": self._scenario(request)}}
        return _SCRIPT.format(
            options=json.dumps(options),
            limits=json.dumps(limits),
            url=json.dumps(fill_text(self.url, request)),
        )

    def _scenario(self, request: GeneratorRequest) -> dict[str, object]:
        vus = self.users("vus", request)
        length = f"{placeholder_values(request.duration_s)}s"
        if request.rate is None:
            return {"executor": "constant-vus", "vus": vus, "duration": length}
        return {
            "executor": "constant-arrival-rate",
            "rate": whole_per_minute(request.rate),
            "timeUnit": "1m",
            "duration": length,
            "preAllocatedVUs": vus,
        }

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its summary. Raises UnreadableOutput."""
        document = JsonOutput(output.files.get(SUMMARY, ""), SUMMARY)
        sent = int(document.number_or(0, "metrics", "http_reqs", "count"))
        # The member `passes` of http_req_failed counts the requests that failed.
        failed = int(document.number_or(0, "metrics", "http_req_failed", "passes"))
        dropped = int(document.number_or(0, "metrics", "dropped_iterations", "count"))
        offered = sent + dropped
        values = _values(document, request.criteria, failed, offered, sent)
        return Measurement(
            values=values,
            offered=sent,
            completed=sent - failed,
            errors=failed,
            marks=(OPERATIONS_SKIPPED,) if dropped else (),
        )


def _values(
    document: JsonOutput, criteria: Iterable[Criterion], failed: int, offered: int, sent: int
) -> dict[str, float]:
    if not offered:
        return {}
    lost = (offered - sent + failed) / offered
    shares = wanted_shares(criteria)
    if sent == failed:
        return summary_values(None, dict.fromkeys(shares, math.inf), lost)
    trend = WELL if document.get("metrics", WELL) is not None else ALL
    percentiles = {share: document.number("metrics", trend, _percentile(share)) for share in shares}
    mean_ms = document.number("metrics", trend, "avg")
    values = summary_values(mean_ms, percentiles, lost)
    for criterion in criteria:
        within = document.get("metrics", criterion.key, "passes")
        if within is not None:
            values[criterion.key] = float(within) / offered
    return values


def _percentile(share: float) -> str:
    return f"p({100 * share:.10g})"


def _trend_stats(criteria: Iterable[Criterion]) -> str:
    return ",".join(["avg", *map(_percentile, wanted_shares(criteria))])


_SCRIPT = """\
import http from 'k6/http';
import {{ Rate }} from 'k6/metrics';
export const options = {options};
const limits = {limits};
const within = {{}};
for (const key in limits) within[key] = new Rate(key);
export default function () {{
  const answer = http.get({url});
  const well = answer.status > 0 && answer.status < 400;
  for (const key in limits) {{
    within[key].add(well && answer.timings.duration <= limits[key]);
  }}
}}
"""


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
        log = OperationLog(
            at_s=due_s,
            response_ms=latency_ms + late_ms,
            late_ms=1e3 * np.maximum(sent_s - np.maximum(due_s, free_s), 0),
        )
        measurement = operations_measurement(log, request.criteria, request.duration_s)
        lateness_ms = float(late_ms.mean())
        late = lateness_ms > LATE_SHARE * measurement.values.get(MEAN, math.inf)
        return msgspec.structs.replace(
            measurement,
            values=measurement.values | {LATENESS: lateness_ms},
            offered=len(sent_s),
            marks=(GENERATOR_LATE,) if late else (),
        )

    def _free_s(self, request: GeneratorRequest, end_s: Floats) -> Floats:
        """Return when a worker was free for each request, in order of sending `(n,)` [s]."""
        free_s = np.full(len(end_s), -np.inf)
        if self.max_workers is not None:
            workers = self.count("max_workers", request)
            free_s[workers:] = np.sort(end_s)[: max(len(end_s) - workers, 0)]
        return free_s


def _columns(output: GeneratorOutput) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
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
        values = summary_values(
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


_MEAN = re.compile(r"^#\[Mean\s*=\s*([\d.]+)", re.MULTILINE)
_ROW = re.compile(
    r"^[ \t]+([\d.]+)[ \t]+([\d.]+)[ \t]+(\d+)[ \t]+(?:[\d.]+|inf)[ \t\r]*$", re.MULTILINE
)
_REQUESTS = re.compile(r"^[ \t]*(\d+) requests in ([\d.]+)(us|ms|s|m|h),", re.MULTILINE)
_REFUSED = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_BROKEN = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")
_NO_RATE = Diagnosis(
    "invalid option -- 'R'",
    "this wrk has no -R: it is a closed loop without a rate; install wrk2 "
    "(github.com/giltene/wrk2) and name it by program",
)
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Wrk2(ProgramGenerator, frozen=True, kw_only=True):
    """The settings of wrk2."""

    url: str
    """URL to request."""
    program: str = "wrk2"
    """Name of the program; `wrk` if wrk2 is installed under that name."""
    threads: CountOrPlaceholder = 1
    """Threads of wrk2."""
    connections: CountOrPlaceholder = 50
    """Connections to the server, at least one for each thread."""
    script: str = ""
    """A Lua script."""

    name: ClassVar = "wrk2"

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be in PATH."""
        return (self.program,)

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: they count from the schedule."""
        return GeneratorTraits(
            open_loop=True,
            from_intended=True,
            statistics=("mean", "percentile", "share", "ratio"),
            axes=("rate",),
            rate_step=1.0,
        ).using(self.threads)

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial. Raises ValueError without a rate."""
        rate = max(1, round(rate_of(request)))
        threads = self.count("threads", request)
        connections = max(threads, self.count("connections", request))
        words = [self.program, "-t", str(threads), "-c", str(connections)]
        words += ["-d", f"{whole_seconds(request.duration_s)}s"]
        words += ["-R", str(rate), "--latency"]
        words += ["-s", fill_text(self.script, request)] if self.script else []
        words += filled((*self.arguments, self.url), request)
        return Invocation(
            commands=(Command(tuple(words)),), rate=float(rate), diagnoses=(_NO_RATE,)
        )

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its text output. Raises UnreadableOutput."""
        text = output.stdout
        total = _REQUESTS.search(text)
        mean = _MEAN.search(text)
        if total is None or mean is None:
            sought = "`N requests in`" if total is None else "#[Mean ="
            raise UnreadableOutput(sought, "stdout", text or output.stderr)
        answered, errors = int(total[1]), _errors(text)
        refused = _REFUSED.search(text)
        ended = answered + errors - (int(refused[1]) if refused else 0)
        rows = [(float(m[1]), float(m[2]), int(m[3])) for m in _ROW.finditer(text)]
        share = errors / ended if ended else 0.0
        values = summary_values(
            float(mean[1]) if rows and ended > errors else None,
            _percentiles(rows, request.criteria),
            share,
        )
        values |= _shares(rows, request.criteria, share)
        return Measurement(
            values=values if ended else {},
            completed=ended - errors,
            errors=errors,
            lasted_s=float(total[2]) * _UNITS_S[total[3]],
            marks=(ERRORS_IN_RESPONSE,) if refused and rows else (),
        )


SpectrumRows = list[tuple[float, float, int]]
"""Rows of the spectrum: value [ms], share, number of operations up to the value."""


def _errors(text: str) -> int:
    refused, broken = _REFUSED.search(text), _BROKEN.search(text)
    counts = [refused[1]] if refused else []
    counts += broken.groups() if broken else []
    return sum(map(int, counts))


def _percentiles(rows: SpectrumRows, criteria: Iterable[Criterion]) -> dict[float, float]:
    found = {}
    for share in wanted_shares(criteria):
        above = [value for value, upto, _ in rows if upto >= share]
        if above:
            found[share] = above[0]
    return found


def _shares(rows: SpectrumRows, criteria: Iterable[Criterion], failed: float) -> dict[str, float]:
    """Return the shares within a limit; failed operations are within no limit."""
    found = {}
    for criterion in criteria:
        ns = within_ns(criterion)
        if ns is not None and rows:
            inside = max((n for ms, _, n in rows if ms <= ns / 1e6), default=0)
            found[criterion.key] = inside / rows[-1][2] * (1 - failed)
    return found
