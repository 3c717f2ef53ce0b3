"""What a run of a generator gives rise to doubt: marks, which are codes of findings.

Purpose: doubts that need the request, the processor time or the counts of a run; those that
follow from the generator's nature are its traits (adapter.py). Pure.
"""

from __future__ import annotations

import math

from benchwright.model.observation import ProcessRecord
from benchwright.model.peak import LoadTrial
from benchwright.workbench.generators.adapter import (
    BACKLOG_UNCOUNTED,
    GENERATOR_BOUND,
    RATE_ROUNDED,
    Asked,
    Generator,
    Invocation,
)

BOUND_SHARE = 0.9
"""Of its cores: a generator that uses more cannot be told from a slow server."""
ROUNDED_SHARE = 0.01
"""A rate that is further than this from the one asked for is marked."""
BACKLOG_SHARE = 0.1
"""Of what was due: a whole run that ended so much less, and counts no arrivals, is marked."""
BACKLOG_SDEVS = 4.0
"""And by so many standard deviations of a Poisson process of arrivals."""


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


def generator_bound(
    generator: Generator, available: int, record: ProcessRecord
) -> tuple[str, ...]:
    """Return the mark of a generator that used nearly all of the cores that it could use,
    of so many that it may run on."""
    threads = generator.traits.threads
    cores = available if threads is None else min(threads, available)
    used_s = (record.user_us + record.system_us) / 1e6
    most_s = BOUND_SHARE * cores * record.elapsed_ns / 1e9
    return (GENERATOR_BOUND,) if used_s > most_s else ()
