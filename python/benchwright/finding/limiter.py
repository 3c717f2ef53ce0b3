"""What limited a result: the resource that was at its limit, with its evidence.

Purpose: either some component has reached its limit, or the system was not driven to it;
this says which. Decision: each kind of limit is a function of one window and asks for
evidence of its own; the order of LIMITER_CODES says which explains which, and a limit
that cannot be told from what was seen is not named. A short window has none.
Source: Systems Performance, 12.3.4; the thresholds' reasons are in thresholds.py.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchwright.finding import limiter_cpu, limiter_memory, limiter_storage
from benchwright.finding import thresholds as t
from benchwright.finding.limit import Capacity, Limit
from benchwright.finding.limiter_neighbour import noisy_neighbour
from benchwright.finding.limiter_network import network_limit
from benchwright.finding.machine_codes import LIMITER_CODES
from benchwright.model.watched import ResourceUse


class Seen(msgspec.Struct, frozen=True):
    """What is known beside the window itself."""

    capacities: tuple[Capacity, ...] = ()
    """What the user says that resources can do."""
    late: bool = False
    """The trial's own engine said that it fell behind its schedule."""


_KINDS: tuple[Callable[[ResourceUse], Limit | None], ...] = (
    noisy_neighbour,
    limiter_cpu.steal,
    limiter_cpu.quota,
    limiter_storage.io_throttle,
    limiter_storage.files,
    limiter_storage.processes,
    limiter_memory.swapping,
    limiter_memory.memory_limit,
    limiter_memory.pressure,
    limiter_storage.stalled,
    limiter_storage.saturated,
    limiter_cpu.saturated,
)


def explainable(use: ResourceUse) -> bool:
    """Tell whether a window is long enough to say what limited it."""
    return use.samples >= t.FEWEST_SAMPLES and use.seconds >= t.SHORTEST_S


def limiters(use: ResourceUse, seen: Seen | None = None) -> tuple[Limit, ...]:
    """Return what was at its limit in a window, the most explanatory first.

    Empty where nothing was, and where the window is too short to tell (`explainable`).
    """
    if not explainable(use):
        return ()
    known = seen or Seen()
    found = [kind(use) for kind in _KINDS]
    found.append(limiter_cpu.generator_bound(use, late=known.late))
    found.append(limiter_cpu.single_threaded(use, late=known.late))
    found.append(limiter_cpu.too_few_threads(use, late=known.late))
    found.append(network_limit(use, known.capacities))
    limits = [limit for limit in found if limit is not None]
    return tuple(sorted(limits, key=lambda limit: rank(limit.code)))


def rank(code: str) -> int:
    """Return a limiter's place among the causes: what explains more comes first."""
    return _ORDER[code]


_ORDER = {code: place for place, code in enumerate(LIMITER_CODES)}
