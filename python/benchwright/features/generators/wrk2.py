"""wrk2: wrk with a rate (-R); its response time counts from the schedule.

It spends its first ten seconds on calibration and then restarts its histogram, so a
run of more than ten seconds reports only the time after them. -R and -d are whole
numbers. Debian's `wrk` is the original wrk, a closed loop without -R, and is recognised.
Percentiles come from the detailed spectrum (value, share, count), rounded up to its next
row; shares within a limit are rounded down to its last row. Both include the responses of
refused requests, and such a run is marked.
Source: wrk2's README and usage text; the spectrum is HdrHistogram's classic format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from benchwright.core.criterion import Criterion
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
    UnreadableOutput,
    fill_text,
    filled,
    rate_of,
    whole_seconds,
)
from benchwright.features.load.criteria import within_ns

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
        values = summary.summary_values(
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
    for share in summary.wanted_shares(criteria):
        above = [value for value, upto, _ in rows if upto >= share]
        if above:
            found[share] = above[0]
    return found


def _shares(rows: SpectrumRows, criteria: Iterable[Criterion], failed: float) -> dict[str, float]:
    """Return the shares within a limit; failed operations are within no limit."""
    found = {}
    for one in criteria:
        ns = within_ns(one)
        if ns is not None and rows:
            inside = max((n for ms, _, n in rows if ms <= ns / 1e6), default=0)
            found[one.key] = inside / rows[-1][2] * (1 - failed)
    return found
