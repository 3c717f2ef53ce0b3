"""What our load engine is asked for a probe: an open loop at a rate, or so many users. Pure.

Decision: how long an end is waited for follows from the limits, so that an overloaded probe
ends soon and no response within a limit is cut off. Source: docs/engine-protocol.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.plan import Bare, plan_of_command
from benchwright.load.target import is_network
from benchwright.model.peak import Criterion, Probe
from benchwright.workbench.criteria import within_ns
from benchwright.workbench.spec_load import EngineSettings, target_of

INTERVAL_NS = 10**9
LEAST_INTERVALS = 10
"""A short load has shorter intervals, so that it too has a series."""
DRAIN_LIMITS = 3
"""So many times the longest limit is waited for: by then the verdict stands."""
LEAST_DRAIN_S, MOST_DRAIN_S = 1.0, 10.0
UNLIMITED_DRAIN_S = 3.0
"""Where nothing limits a response."""


def request_of(
    settings: EngineSettings,
    probe: Probe,
    criteria: tuple[Criterion, ...],
    values: Mapping[str, str],
) -> r.LoadRequest:
    """Return what the engine is asked for a probe: an open loop, or so many users."""
    target = target_of(settings, values)
    duration_ns = round(probe.duration_s * 1e9)
    said: dict[str, Any] = {
        **settings.run,
        "duration_ns": duration_ns,
        "drain_ns": _drain_ns(settings, criteria),
        "interval_ns": max(10**6, min(INTERVAL_NS, duration_ns // LEAST_INTERVALS)),
        "interval_histograms": True,
    }
    rate = None
    if probe.users is None:
        rate = w.ConstantRate(max(1, round(probe.rate * w.MICRO)))
    else:
        said |= {"depth": probe.users, "workers": 1}
        if is_network(target):
            target = msgspec.structs.replace(target, connections=probe.users)
    bare = Bare(
        rate=rate,
        arrival=settings.arrival,
        size=settings.size,
        read=settings.read,
        location=settings.location,
        think=settings.think,
    )
    return plan_of_command(bare, said, target).request


def _drain_ns(settings: EngineSettings, criteria: tuple[Criterion, ...]) -> int:
    if settings.drain_ns is not None:
        return settings.drain_ns
    limits_s = limits_s_of(criteria)
    if not limits_s:
        return round(UNLIMITED_DRAIN_S * 1e9)
    longest_s = max(limits_s)
    wanted_s = min(max(DRAIN_LIMITS * longest_s, LEAST_DRAIN_S), MOST_DRAIN_S)
    return round(wanted_s * 1e9)


def limits_s_of(criteria: tuple[Criterion, ...]) -> list[float]:
    """Return the times that responses are limited to [s]; infinity limits none."""
    found = []
    for one in criteria:
        ns = within_ns(one)
        if ns is not None:
            found.append(ns / 1e9)
        elif one.statistic in ("mean", "percentile"):
            found.append(one.limit / 1e3)
    return [limit for limit in found if math.isfinite(limit)]


def reseeded(request: r.LoadRequest, seed: int) -> r.LoadRequest:
    """Return the request with arrivals of its own."""
    workload = msgspec.structs.replace(request.workload, seed=seed)
    return msgspec.structs.replace(request, workload=workload)


def seated(request: r.LoadRequest, cpus: tuple[int, ...]) -> r.LoadRequest:
    """Return the request with a processor for each worker, where there are enough."""
    if not cpus or request.workers > len(cpus):
        return request
    return msgspec.structs.replace(request, cpus=cpus[: request.workers])
