"""A closed loop of users on a server that knows only how to serve given starts.

The start of an operation is the end of the one that came `users` earlier in the order of ends, so
the starts are a fixed point of serving. Each round serves everything again; the first `users`
operations are right from the first round on, and each further round adds at least as many that are
right if none of them is disturbed by later ones. A loop of events in each discipline would be exact
with less work, and lost: it would have to be written again for every station.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ledger import Operations
from machine import Gaps
from queues import Times

ROUNDS = 300
"""At most; a run of more than so many operations a user goes on with its own second half."""
REFUSAL_S = 0.001
"""After which a user who was refused asks again [s]."""


def closed_loop(
    serve: Callable[[Times], Times], users: int, lasts_s: float, generator: Gaps | None = None
) -> Operations:
    """Return the operations that start in [0, lasts_s)."""
    gaps = Gaps.none() if generator is None else generator
    most, count = ROUNDS * users, 8 * users
    while True:
        starts, arrived = _fixed_point(serve, users, count, gaps)
        if starts[-1] >= lasts_s or count == most:
            break
        enough = 1.2 * count * lasts_s / max(float(starts[-1]), 1e-9)
        count = min(most, int(min(max(enough, 2 * count), most)))
    if starts[-1] < lasts_s:
        starts, arrived = _gone_on(starts, arrived, lasts_s)
    starts, arrived = starts[starts < lasts_s], arrived[starts < lasts_s]
    read = gaps.after(arrived)
    return Operations(starts, read, arrived=arrived, users=users)


def _fixed_point(
    serve: Callable[[Times], Times], users: int, count: int, gaps: Gaps
) -> tuple[Times, Times]:
    """Return starts, and when answers are there to be read `(count,)`."""
    starts = np.full(count, float(gaps.after(np.zeros(1))[0]))
    arrived = serve(starts)
    for _ in range(ROUNDS):
        read = gaps.after(arrived)
        ends = np.where(np.isnan(read), starts + REFUSAL_S, read)
        next_starts = starts.copy()
        next_starts[users:] = gaps.after(np.sort(ends)[: count - users])
        if np.array_equal(next_starts, starts):
            break
        starts = next_starts
        arrived = serve(starts)
    return starts, arrived


def _gone_on(starts: Times, arrived: Times, lasts_s: float) -> tuple[Times, Times]:
    """Return a run that goes on until the load ends as its second half went."""
    half = starts.size // 2
    period_s = float(starts[-1] - starts[half]) * half / max(half - 1, 1)
    times = int(np.ceil((lasts_s - starts[-1]) / max(period_s, 1e-9))) + 1
    shifts = period_s * np.arange(1, times + 1)[:, None]
    more = (starts[half:] + shifts).ravel(), (arrived[half:] + shifts).ravel()
    return np.concatenate((starts, more[0])), np.concatenate((arrived, more[1]))
