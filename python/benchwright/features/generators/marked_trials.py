"""The evidence of findings about trials under load that have a mark: how many, how late, beside
whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchwright.core.results import Figure, Value
from benchwright.core.text import cpus_text, duration_ns_text
from benchwright.features.load.trial import LoadTrial
from benchwright.findings import thresholds as t
from benchwright.findings.cpu_time import served_by_others
from benchwright.findings.programs import is_kernel, is_own

LATE_MARK = "generator-late"
_MOST_NEIGHBOURS = 3
"""Programs that a sentence about neighbours names at most."""


def late_figures(trials: Iterable[LoadTrial], limit_ms: float | None) -> dict[str, Value | None]:
    """Return how late the generator was at most, and the limit; as `late_text`."""
    known = [trial.late_p99_ms for trial in trials if trial.late_p99_ms is not None]
    if not known:
        return {}
    limit = None if limit_ms is None else Figure(limit_ms / 1e3, "s")
    return {"p99": Figure(max(known) / 1e3, "s"), "limit": limit}


def late_text(trials: Iterable[LoadTrial], limit_ms: float | None) -> str:
    """Return how late the generator was at most: `p99 up to 258 ms (limit 50 ms)`; empty if no
    trial says so. `limit_ms`: the smallest limit of a response; None: there is none."""
    known = [trial.late_p99_ms for trial in trials if trial.late_p99_ms is not None]
    if not known:
        return ""
    limit = "" if limit_ms is None else f" (limit {_ms_text(limit_ms)})"
    return f"p99 {'up to ' * (len(known) > 1)}{_ms_text(max(known))}{limit}"


def _ms_text(ms: float) -> str:
    return duration_ns_text(round(1e6 * ms))


def neighbours_text(trials: Iterable[LoadTrial]) -> str:
    """Return who else used the CPUs during these trials, the largest use first: `stress-ng (pid
    4711) used 0.98 CPUs`; empty if that is unknown, or nobody used a relevant share.

    A program's CPU time is its mean over all trials whose use was recorded. Threads of the kernel,
    programs of bw and servers that the load probably drives are no neighbours.
    """
    seconds = 0.0
    used: dict[str, dict[int, float]] = {}
    for use in (trial.use for trial in trials):
        if use is None:
            continue
        seconds += use.seconds
        served = served_by_others(use)
        for task in use.others:
            if not (is_kernel(task.name) or is_own(task.name) or task in served):
                by_pid = used.setdefault(task.name, {})
                cpu_s = task.share * use.seconds
                by_pid[task.pid] = by_pid.get(task.pid, 0.0) + cpu_s
    if not seconds:
        return ""
    return ", ".join(_named(used, seconds))


def _named(used: dict[str, dict[int, float]], seconds: float) -> Iterator[str]:
    """Yield the programs that used most, from the CPU time of their processes [s]."""
    cores = {name: sum(by_pid.values()) / seconds for name, by_pid in used.items()}
    busiest = sorted(cores, key=lambda name: -cores[name])[:_MOST_NEIGHBOURS]
    for name in busiest:
        if cores[name] < t.DELAYING_CORES:
            return
        pids = list(used[name])
        who = f"{name} (pid {pids[0]})" if len(pids) == 1 else f"{len(pids)} x {name}"
        yield f"{who} used {cpus_text(cores[name])}"
