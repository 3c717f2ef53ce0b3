"""What a run of a generator gives rise to doubt: marks, which are codes of findings; and
figures that cannot be, which make it no run at all.

Purpose: doubts that need the request, the processor time or the counts of a run; those that
follow from the generator's nature are its traits (adapter.py). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from benchwright.model.observation import ProcessRecord
from benchwright.model.peak import LoadTrial
from benchwright.workbench.generators.adapter import (
    BACKLOG_UNCOUNTED,
    GENERATOR_SATURATED,
    RATE_ROUNDED,
    Asked,
    Generator,
    Invocation,
    Measured,
)

MEAN = "response_ms_mean"
THROUGHPUT = "throughput_per_s"
MOST = 1e15
"""No response [ms] and no throughput [1/s] is higher; infinite: never, which can be."""
BOUND_SHARE = 0.9
"""Of its cores: a generator that uses more cannot be told from a slow server."""
ROUNDED_SHARE = 0.01
"""A rate that is further than this from the one asked for is marked."""
BACKLOG_SHARE = 0.1
"""Of what was due: a whole run that ended so much less, and counts no arrivals, is marked."""
BACKLOG_SDEVS = 4.0
"""And by so many standard deviations of a Poisson process of arrivals."""


def impossible(measured: Measured) -> str:
    """Return what is wrong with figures that no run can have; empty where each can be.

    A search would believe them: a response of -3 ms is within every limit.
    """
    wrong = [*_wrong_values(measured.values), *_wrong_counts(measured)]
    for key, column in measured.series.values.items():
        seen = (v for v, n in zip(column, measured.series.counts, strict=True) if n)
        lowest = min(seen, default=0.0)
        if _is_time(key) and lowest < 0:
            wrong.append(f"a value of its series is {lowest:.4g} ms")
    if not wrong:
        return ""
    return (
        f"{', '.join(wrong)}: it cannot be; check what the generator prints, and where"
    )


def without_zero_mean(trial: LoadTrial) -> LoadTrial:
    """Return a trial without a mean response of exactly 0, which nothing has: a generator
    prints it that measured none. A search that believed it predicted 1e13 ms."""
    if trial.values.get(MEAN) != 0:
        return trial
    values = {key: value for key, value in trial.values.items() if key != MEAN}
    why = f"{MEAN} is 0, so nothing was measured"
    return msgspec.structs.replace(trial, values=values, failure=why)


def _wrong_values(values: Mapping[str, float]) -> list[str]:
    times = [f"{k} is {v:.4g} ms" for k, v in values.items() if _is_time(k) and v < 0]
    shares = [
        f"{key} is {value:.4g}, outside 0 to 1"
        for key, value in values.items()
        if _is_share(key) and not 0 <= value <= 1
    ]
    huge = [
        f"{key} is {value:.4g}"
        for key, value in values.items()
        if (_is_time(key) or key == THROUGHPUT) and MOST < value < math.inf
    ]
    return [*times, *shares, *huge]


def _wrong_counts(measured: Measured) -> list[str]:
    counts = {
        "offered": measured.offered,
        "completed": measured.completed,
        "errors": measured.errors,
    }
    return [f"{k} is {n}" for k, n in counts.items() if n is not None and n < 0]


def _is_time(key: str) -> bool:
    return key.startswith("response_ms_")


def _is_share(key: str) -> bool:
    return key == "error_ratio" or (
        key.startswith("within_") and key.endswith("_share")
    )


def rate_rounded(asked: Asked, call: Invocation) -> tuple[str, ...]:
    """Return the mark of a rate that the generator could not be told exactly."""
    if asked.rate is None or call.rate is None:
        return ()
    off = abs(call.rate / asked.rate - 1)
    return (RATE_ROUNDED,) if off > ROUNDED_SHARE else ()


def backlog_uncounted(
    asked: Asked, call: Invocation, trial: LoadTrial
) -> tuple[str, ...]:
    """Return the mark of a run that ended less than was due, where nobody counted that."""
    if asked.rate is None or trial.offered is not None or trial.completed is None:
        return ()
    due = (call.rate or asked.rate) * trial.lasted_s
    missing = due - trial.completed - trial.errors
    real = missing > max(BACKLOG_SHARE * due, BACKLOG_SDEVS * math.sqrt(due))
    return (BACKLOG_UNCOUNTED,) if real else ()


def generator_saturated(
    generator: Generator, available: int, record: ProcessRecord
) -> tuple[str, ...]:
    """Return the mark of a generator that used nearly all of the cores that it could use,
    of so many that it may run on."""
    threads = generator.traits.threads
    cores = available if threads is None else min(threads, available)
    used_s = (record.user_us + record.system_us) / 1e6
    most_s = BOUND_SHARE * cores * record.elapsed_ns / 1e9
    return (GENERATOR_SATURATED,) if used_s > most_s else ()
