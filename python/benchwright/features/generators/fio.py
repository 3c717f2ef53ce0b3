"""fio: block I/O at a rate (rate_iops), with Poisson arrivals.

fio's latency counts from the submission. An operation that finds `depth` operations in
flight waits, and no figure includes that wait: fio hides its lateness, and a rate that the
device cannot sustain shows only as fewer operations. rate_iops is a whole number per
direction. Unless configured otherwise, fio repeats its random numbers in every run
(randrepeat=0 prevents it), which would make trials alike.
Values come from the log of latencies (write_lat_log): `completion_ms, latency_ns, ...`.
Source: fio 3.33, fio(1): rate_iops, rate_process, write_lat_log, json+.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from benchwright.core.numeric import np
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
    fill_text,
    filled,
    placeholder_values,
)
from benchwright.features.generators.output import (
    JsonOutput,
    OperationLog,
    columns,
    operations_measurement,
)

SUMMARY = "fio.json"
LOG = "fio_lat.log"
MIXED = ("rw", "readwrite", "randrw")


class Fio(ProgramGenerator, frozen=True, kw_only=True):
    """A file or device, and the operations on it."""

    filename: str
    """A file or device; fio writes to it."""
    size: str = ""
    """Size of the file, or of the part that is used, such as `64M`."""
    rw: str = "randread"
    """Kind of access: `randread`, `write`, `randrw` and others."""
    block: str = "4k"
    """Size of an operation."""
    engine: str = "io_uring"
    """How fio issues operations (ioengine)."""
    depth: CountOrPlaceholder = 32
    """Operations in flight; a further one waits, and no figure includes its wait."""
    read_percent: CountOrPlaceholder = 50
    """Share of reads in a mixture (`randrw`) [%]."""
    direct: bool = False
    """Bypass the page cache."""

    name: ClassVar = "fio"
    traits: ClassVar = GeneratorTraits(
        open_loop=True,
        statistics=("mean", "percentile", "share", "ratio"),
        series=True,
        rate_step=1.0,
        threads=1,
    )
    """The meaning of its figures: on a schedule, but counted from the submission."""

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial; `depth` is the number of users, if they are set."""
        rates = self._rates(request)
        words = {
            "name": "load",
            "filename": fill_text(self.filename, request),
            "rw": fill_text(self.rw, request),
            "bs": fill_text(self.block, request),
            "ioengine": fill_text(self.engine, request),
            "iodepth": str(self.users("depth", request)),
            "direct": str(int(self.direct)),
            "runtime": placeholder_values(request.duration_s),
            "randrepeat": "0",
            "disable_clat": "1",
            "disable_slat": "1",
            "write_lat_log": f"{request.directory}/fio",
            "per_job_logs": "0",
            "output-format": "json",
            "output": f"{request.directory}/{SUMMARY}",
        }
        words |= {"size": fill_text(self.size, request)} if self.size else {}
        if rates:
            words |= {"rate_iops": ",".join(map(str, rates)), "rate_process": "poisson"}
        if len(rates) > 1:
            words["rwmixread"] = str(self.count("read_percent", request))
        argv = ["fio", "--time_based", *(f"--{k}={v}" for k, v in words.items())]
        argv += filled(self.arguments, request)
        return Invocation(
            commands=(Command(tuple(argv)),),
            rate=float(sum(rates)) if rates else None,
            reads=(SUMMARY, LOG),
        )

    def _rates(self, request: GeneratorRequest) -> list[int]:
        """Return whole rates by direction; empty without a rate."""
        if request.rate is None:
            return []
        if fill_text(self.rw, request) not in MIXED:
            return [max(1, round(request.rate))]
        reads = request.rate * self.count("read_percent", request) / 100
        return [max(1, round(reads)), max(1, round(request.rate - reads))]

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of the log and the summary. Raises UnreadableOutput."""
        document = JsonOutput(output.files.get(SUMMARY, ""), SUMMARY)
        lasted_s = document.number("jobs", 0, "job_runtime") / 1e3
        failed = document.number_or(0, "jobs", 0, "total_err")
        text = output.files.get(LOG, "").replace(",", " ")
        try:
            rows = columns(text, 2)
        except ValueError as error:
            raise UnreadableOutput(f"latency ({error})", LOG, text[-200:]) from None
        if not len(rows):
            raise UnreadableOutput("operation", LOG, output.stderr)
        lost = np.full(int(failed), np.nan)
        log = OperationLog(
            # No log says when they failed: a time before the load keeps them out of all bins.
            at_s=np.concatenate([rows[:, 0] / 1e3, np.full_like(lost, -1)]),
            response_ms=np.concatenate([rows[:, 1] / 1e6, lost]),
            binned_by="completion",
        )
        measurement = operations_measurement(log, request.criteria, lasted_s or request.duration_s)
        return msgspec.structs.replace(measurement, offered=len(log.at_s))
