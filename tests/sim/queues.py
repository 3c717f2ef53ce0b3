"""Queues as compiled loops: arrivals and work in, completions out.

Each loop is exact for its discipline in *work time*, the time that a server of constant
speed would need; how speed changes (cold start, stalls, drift) is a change of time that
the caller makes before and after (speed_profiles.py). Randomness comes in as arrays, so a loop is
a function of its arguments. Plain Python lost by a factor of 200.

Compiled by numba, a development dependency: importing it takes about 0.3 s, compiling is
done once per machine and then read from `__pycache__`.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit
from numpy.typing import NDArray

Times = NDArray[np.float64]
"""Ascending moments or works `(n_operations,)` [s]; NaN: refused."""


@njit(cache=True)
def fcfs(arrivals: Times, works: Times, servers: int) -> Times:
    """Return completions of first come, first served by `servers` equals."""
    free = np.zeros(servers)
    completions = np.empty_like(arrivals)
    for i in range(arrivals.size):
        k = np.argmin(free)
        free[k] = max(free[k], arrivals[i]) + works[i]
        completions[i] = free[k]
    return completions


@njit(cache=True)
def fcfs_refusing(arrivals: Times, works: Times, servers: int, longest: int) -> Times:
    """Return completions where nothing is accepted while `longest` wait."""
    free = np.zeros(servers)
    starts = np.empty_like(arrivals)
    completions = np.full_like(arrivals, np.nan)
    accepted, begun = 0, 0
    for i in range(arrivals.size):
        while begun < accepted and starts[begun] <= arrivals[i]:
            begun += 1
        k = np.argmin(free)
        start = max(free[k], arrivals[i])
        if start > arrivals[i] and accepted - begun >= longest:
            continue
        starts[accepted] = start
        accepted += 1
        free[k] = start + works[i]
        completions[i] = free[k]
    return completions


@njit(cache=True)
def token_bucket(arrivals: Times, limit: float, burst: float) -> NDArray[np.bool_]:
    """Return what is accepted by a bucket of `burst` tokens that gets `limit` a second."""
    accepted = np.zeros(arrivals.size, np.bool_)
    tokens, now = burst, 0.0
    for i in range(arrivals.size):
        tokens = min(burst, tokens + (arrivals[i] - now) * limit)
        now = arrivals[i]
        if tokens >= 1.0:
            tokens -= 1.0
            accepted[i] = True
    return accepted


@njit(cache=True)
def fcfs_thrashing(arrivals: Times, works: Times, servers: int, thrash: tuple[int, float]) -> Times:
    """Return completions where work grows while many wait.

    thrash: from how many waiting on, and by what factor at twice that and above; linear
    between.
    """
    begins, factor = thrash
    free = np.zeros(servers)
    completions = np.empty_like(arrivals)
    seen = 0
    for i in range(arrivals.size):
        k = np.argmin(free)
        start = max(free[k], arrivals[i])
        while seen < arrivals.size and arrivals[seen] <= start:
            seen += 1
        excess = min(max((seen - i) / begins - 1.0, 0.0), 1.0)
        free[k] = start + works[i] * (1.0 + (factor - 1.0) * excess)
        completions[i] = free[k]
    return completions


@njit(cache=True)
def sharing(arrivals: Times, works: Times, servers: int) -> Times:
    """Return completions of processor sharing by `servers` equals.

    Each of n operations in the server gets min(1, servers / n) of one server.
    """
    completions = np.empty_like(arrivals)
    inside = [(0.0, 0) for _ in range(0)]
    now, attained = 0.0, 0.0
    i = 0
    while i < arrivals.size or len(inside) > 0:
        speed = min(1.0, servers / max(len(inside), 1))
        ends = np.inf
        if len(inside) > 0:
            ends = now + (inside[0][0] - attained) / speed
        if i < arrivals.size and arrivals[i] <= ends:
            attained += (arrivals[i] - now) * speed
            now = arrivals[i]
            heapq.heappush(inside, (attained + works[i], i))
            i += 1
        else:
            attained, j = heapq.heappop(inside)
            now = ends
            completions[j] = now
    return completions


@njit(cache=True)
def batching(arrivals: Times, works: Times, batch: tuple[int, float, float]) -> Times:
    """Return completions of a server that serves in batches.

    batch: the largest; how long the first one waits for the others [s]; what each batch
    costs beside its works [s]. A batch begins when the server is free and either the
    batch is full or the wait is over.
    """
    largest, patience, fixed = batch
    completions = np.empty_like(arrivals)
    free = 0.0
    i = 0
    while i < arrivals.size:
        over = arrivals[i] + patience
        last = i + largest - 1
        full = arrivals[last] if last < arrivals.size else np.inf
        start = max(free, min(over, full))
        end = start + fixed
        j = i
        while j < arrivals.size and j - i < largest and arrivals[j] <= start:
            end += works[j]
            j += 1
        completions[i:j] = end
        free = end
        i = j
    return completions


@njit(cache=True)
def streaming(
    arrivals: Times, tokens: Times, step: tuple[float, float, float, int]
) -> tuple[Times, Times]:
    """Return first tokens and completions of a server that gives tokens in steps, as language models
    are served.

    step: what each costs [s], for each stream in it, for each that has just joined; how many may be
    in it. A step gives each of its streams one token; streams join between steps in the order of
    their arrival.
    """
    fixed, each, joining, most = step
    first, completions = np.empty_like(arrivals), np.empty_like(arrivals)
    batch, left = np.empty(most, np.int64), np.empty(most)
    size, now, i = 0, 0.0, 0
    while i < arrivals.size or size > 0:
        if size == 0:
            now = max(now, arrivals[i])
        joined = i
        while i < arrivals.size and size < most and arrivals[i] <= now:
            batch[size], left[size] = i, tokens[i]
            size += 1
            i += 1
        now += fixed + each * size + joining * (i - joined)
        first[joined:i] = now
        kept = 0
        for k in range(size):
            if left[k] > 1.0:
                batch[kept], left[kept] = batch[k], left[k] - 1.0
                kept += 1
            else:
                completions[batch[k]] = now
        size = kept
    return first, completions
