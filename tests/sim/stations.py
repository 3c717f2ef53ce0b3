"""Stations: a discipline with its work, and the closed form of its response if known.

A station serves arrivals in work time (queues.py); servers.py adds speed profile, arrivals and
criteria. Closed forms: Erlang C for M/M/c, Pollaczek-Khinchine for M/G/1, insensitivity for
M/G/1-PS, birth and death for M/M/c/K (any textbook of queueing, e.g. Kleinrock 1975), a
matrix-geometric chain for M/H2/c (M. Neuts 1981, Matrix-Geometric Solutions in Stochastic Models,
chapter 3).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

import queues
from queues import Times
from work import Exponential, Hyperexponential, Work


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


@functools.lru_cache(maxsize=4096)
def hyperexponential_wait_s(servers: int, work: Hyperexponential, rate: float) -> float:
    """Return the mean wait of an M/H2/c below its capacity [s].

    A state is the number inside (a level) and how many of those in service are of the first kind.
    From level `servers` on, each level's probabilities are the last one's times one matrix.
    """
    share, (first, second) = work.share, (1 / mean_s for mean_s in work.means_s)
    kinds = np.arange(servers + 1)
    leave = np.diag(kinds * first), np.diag((servers - kinds) * second)
    fewer, more = np.eye(servers + 1, k=-1), np.eye(servers + 1, k=1)
    same = np.eye(servers + 1)
    down = leave[0] @ (share * same + (1 - share) * fewer)
    down += leave[1] @ (share * more + (1 - share) * same)
    stay = -(leave[0] + leave[1] + rate * same)
    # Logarithmic reduction (G. Latouche, V. Ramaswami 1993, J. Appl. Prob. 30): the kinds at the
    # first visit to the level below, doubling the levels that it may come from.
    rises, falls = -rate * np.linalg.inv(stay), -np.linalg.solve(stay, down)
    below, reached = falls, rises
    for _ in range(64):
        both = np.linalg.inv(same - rises @ falls - falls @ rises)
        rises, falls = both @ rises @ rises, both @ falls @ falls
        below, reached = below + reached @ falls, reached @ rises
        if reached.max() < 1e-15:
            break
    ratio = -rate * np.linalg.inv(stay + rate * below)
    # The levels up to `servers`, one block of states after the other.
    begins = [level * (level + 1) // 2 for level in range(servers + 2)]
    flow = np.zeros((begins[-1], begins[-1]))
    for level in range(servers):
        for kind in range(level + 1):
            up = begins[level + 1] + kind
            flow[begins[level] + kind, [up, up + 1]] = rate * (1 - share), rate * share
    for level in range(1, servers + 1):
        for kind in range(level + 1):
            here, lower = begins[level] + kind, begins[level - 1] + kind
            if kind:
                flow[here, lower - 1] = kind * first
            if kind < level:
                flow[here, lower] = (level - kind) * second
    flow -= np.diag(flow.sum(axis=1))
    last = slice(begins[servers], None)
    flow[last, last] += ratio @ down - rate * same
    queues_on = np.linalg.inv(same - ratio)
    weights = np.concatenate((np.ones(begins[servers]), queues_on.sum(axis=1)))
    equations = np.column_stack((flow[:, 1:], weights))
    states = np.linalg.solve(equations.T, np.eye(begins[-1])[-1])
    waiting = states[last] @ ratio @ queues_on @ queues_on
    return float(waiting.sum()) / rate


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
        """Erlang C, Pollaczek-Khinchine for one server, M/H2/c; else None."""
        load = rate * self.work.mean_s
        if load >= self.servers:
            return math.inf
        if self.servers > 1 and isinstance(self.work, Hyperexponential):
            wait_s = hyperexponential_wait_s(self.servers, self.work, rate)
            return self.work.mean_s + wait_s
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
class Capped:
    """A rate limit that refuses: a token bucket before a server that is fast enough."""

    limit: float
    """Tokens per second [1/s]."""
    burst: float
    """Tokens that the bucket holds."""
    latency: Work
    """Of what is accepted."""

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time; NaN: refused."""
        latencies_s = self.latency.draw(random, arrivals.size)
        accepted = queues.token_bucket(arrivals, self.limit, self.burst)
        return np.where(accepted, arrivals + latencies_s, np.nan)

    def response_s(self, rate: float) -> float | None:
        """That of what is accepted: the same at every rate."""
        return self.latency.mean_s


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
class Streaming:
    """A language model that is served in steps, with continuous batching: each gives one token to
    every stream in it, and takes longer the more there are."""

    step_s: float
    stream_s: float
    """Of a step for each stream in it."""
    prefill_s: float
    """Of a step for each stream that has just joined."""
    most: int
    """Streams in a step."""
    tokens: Work
    """Of a stream; rounded, at least 2."""

    def streams(self, arrivals: Times, random: Generator) -> tuple[Times, Times, Times]:
        """Return first tokens and completions in work time, and the tokens of each stream."""
        tokens = np.maximum(np.rint(self.tokens.draw(random, arrivals.size)), 2.0)
        step = (self.step_s, self.stream_s, self.prefill_s, self.most)
        return *queues.streaming(arrivals, tokens, step), tokens

    def serve(self, arrivals: Times, rate: float, random: Generator) -> Times:
        """Return completions in work time."""
        return self.streams(arrivals, random)[1]

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
        poisson = isinstance(self.first, Queue) and isinstance(self.first.work, Exponential)
        return first + second if poisson and first and second else None
