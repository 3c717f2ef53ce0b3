"""Stations: a discipline with its work, and the closed form of its response if known.

A station serves arrivals in work time (queues.py); servers.py adds speed profile, arrivals and
criteria. Closed forms: Erlang C for M/M/c, Pollaczek-Khinchine for M/G/1, insensitivity for
M/G/1-PS, birth and death for M/M/c/K (any textbook of queueing, e.g. Kleinrock 1975).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

import queues
from queues import Times
from work import Exponential, Work


class Station(Protocol):
    """What serves operations."""

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time; NaN: refused. rate: intended [1/s]."""

    def response_s(self, rate: float) -> float | None:
        """Return the exact mean response in steady state under Poisson arrivals.

        Infinite when overloaded; None where there is no closed form.
        """


def waiting_share(servers: int, load: float) -> float:
    """Return Erlang C: the share of operations that wait; load: rate times work."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@dataclass(frozen=True)
class Queue:
    """First come, first served by equals."""

    servers: int
    work: Work

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        works = self.work.draw(random, arrivals.size)
        return queues.fcfs(arrivals, works, self.servers)

    def response_s(self, rate: float) -> float | None:
        """Erlang C, or Pollaczek-Khinchine for one server; else None."""
        load = rate * self.work.mean_s
        if load >= self.servers:
            return math.inf
        if self.servers > 1 and not isinstance(self.work, Exponential):
            return None
        wait = waiting_share(self.servers, load) * self.work.mean_s
        wait *= (1 + self.work.cv2) / 2
        return self.work.mean_s + wait / (self.servers - load)


@dataclass(frozen=True)
class Growing:
    """A queue whose work grows with the rate beyond a knee: two bottlenecks, a kink.

    Such as a cache that no longer holds what is asked for.
    """

    servers: int
    mean_s: float
    knee: float
    """From this rate on [1/s]."""
    growth: float
    """Relative growth of work per relative growth of rate."""

    def at(self, rate: float) -> Queue:
        """Return the queue that it is at a rate."""
        factor = 1 + self.growth * max(0.0, rate / self.knee - 1)
        return Queue(self.servers, Exponential(self.mean_s * factor))

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        return self.at(rate).serve(arrivals, rate, random)

    def response_s(self, rate: float) -> float | None:
        """Erlang C with the work of this rate."""
        return self.at(rate).response_s(rate)


@dataclass(frozen=True)
class Refusing:
    """An M/M/c/K: a queue that refuses what comes while it is full."""

    servers: int
    mean_s: float
    longest: int
    """How many may wait."""

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time; NaN: refused."""
        works = Exponential(self.mean_s).draw(random, arrivals.size)
        return queues.fcfs_refusing(arrivals, works, self.servers, self.longest)

    def states(self, rate: float) -> Times:
        """Return the probability of each number inside, by birth and death."""
        number = np.arange(1, self.servers + self.longest + 1)
        ratios = rate * self.mean_s / np.minimum(number, self.servers)
        weights: Times = np.concatenate(([1.0], np.cumprod(ratios)))
        return weights / float(weights.sum())

    def response_s(self, rate: float) -> float | None:
        """Little's law over the states: of those served."""
        states = self.states(rate)
        served = rate * (1 - states[-1])
        return float(np.arange(states.size) @ states / served)

    def error_ratio(self, rate: float) -> float:
        """Return the share of refused operations: arrivals see the states."""
        return float(self.states(rate)[-1])


@dataclass(frozen=True)
class Thrashing:
    """A queue whose work grows while many wait: retrograde throughput in overload."""

    servers: int
    work: Work
    begins: int
    factor: float

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        works = self.work.draw(random, arrivals.size)
        thrash = (self.begins, self.factor)
        return queues.fcfs_thrashing(arrivals, works, self.servers, thrash)

    def response_s(self, rate: float) -> float | None:
        """That of the plain queue: `begins` lies where it never is in steady state."""
        return Queue(self.servers, self.work).response_s(rate)


@dataclass(frozen=True)
class Throttled:
    """A wall: operations start at most `limit` times a second, and until then nothing waits.

    Like a disk that a control group limits in operations per second: no burst, each operation waits
    for its token, and the rest of its response does not depend on the load. Several clients with
    Poisson arrivals are one Poisson stream.
    """

    limit: float
    """Tokens per second [1/s]."""
    latency: Work
    """The rest of the response."""
    needs: float = 1.0
    """Share of the operations that need a token; a cache answers the others."""

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        latencies_s = self.latency.draw(random, arrivals.size)
        waits = random.random(arrivals.size) < self.needs
        starts = arrivals.copy()
        interval = np.full(int(waits.sum()), 1 / self.limit)
        starts[waits] = queues.fcfs(arrivals[waits], interval, 1) - interval
        return starts + latencies_s

    def response_s(self, rate: float) -> float | None:
        """The wait of the M/D/1 for those that need a token, and the latency."""
        load = rate * self.needs / self.limit
        if load >= 1:
            return math.inf
        wait_s = load / (2 * self.limit * (1 - load))
        return self.latency.mean_s + self.needs * wait_s


@dataclass(frozen=True)
class Sharing:
    """Processor sharing."""

    servers: int
    work: Work

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        works = self.work.draw(random, arrivals.size)
        return queues.sharing(arrivals, works, self.servers)

    def response_s(self, rate: float) -> float | None:
        """That of the M/M/c: sharing does not feel the distribution of work."""
        return Queue(self.servers, Exponential(self.work.mean_s)).response_s(rate)


@dataclass(frozen=True)
class Batching:
    """Serves in batches, and waits for them to fill: slow when there is little to do."""

    largest: int
    patience_s: float
    fixed_s: float
    work: Work

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        works = self.work.draw(random, arrivals.size)
        batch = (self.largest, self.patience_s, self.fixed_s)
        return queues.batching(arrivals, works, batch)

    def response_s(self, rate: float) -> float | None:
        """No closed form."""
        return None


@dataclass(frozen=True)
class Tandem:
    """One station after the other."""

    first: Station
    second: Station

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time, in the order of arrival."""
        middle = self.first.serve(arrivals, rate, random)
        order = np.argsort(middle, kind="stable")
        completions = np.empty_like(arrivals)
        completions[order] = self.second.serve(middle[order], rate, random)
        return completions

    def response_s(self, rate: float) -> float | None:
        """The sum, where the first is an M/M/c: what leaves it is Poisson (Burke)."""
        first, second = self.first.response_s(rate), self.second.response_s(rate)
        poisson = isinstance(self.first, Queue) and isinstance(
            self.first.work, Exponential
        )
        return first + second if poisson and first and second else None
