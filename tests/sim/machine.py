"""A simulated machine: when the generator and the server do not get the CPU, and how fast it is.

A `Machine` gives, for one trial, the `Course` of time on it: gaps of the generator, in which it
neither issues nor reads, and the work that the server's CPUs do by each moment. Operations that are
due in a gap are issued in a burst at its end, and answers that come in a gap are read at its end;
the kernel's stamp says when they were there. The server's gaps stop all work at once, so they are a
change of time (speed_profiles.py).

Gaps are drawn for each trial. Drift, wave and the phases of a neighbour are functions of the
search's virtual time, so a search that is resumed meets the same machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from queues import Times
from speed_profiles import STANDSTILL, STEP_S, WorkTime

GAP_STREAM = 2
"""The stream of random numbers of a trial's gaps."""
PHASE_STREAM = 2**30
"""The stream of a search's phases of the neighbour, instead of a trial's number."""
Span = tuple[float, float]
"""Lowest and highest length [s]."""


@dataclass(frozen=True)
class Gaps:
    """Disjoint spans of time `(n_gaps,)`, ascending [s]."""

    begins: Times
    ends: Times

    @staticmethod
    def none() -> Gaps:
        """Return no gaps."""
        return Gaps(np.empty(0), np.empty(0))

    def around(self, moments: Times) -> np.ndarray:
        """Return whether each moment lies in a gap."""
        if not self.begins.size:
            return np.zeros(moments.shape, bool)
        last = np.searchsorted(self.begins, moments, side="right") - 1
        return (last >= 0) & (moments < self.ends[np.maximum(last, 0)])

    def after(self, moments: Times) -> Times:
        """Return each moment, or the end of the gap that it lies in; NaN stays."""
        if not self.begins.size:
            return moments
        last = np.searchsorted(self.begins, moments, side="right") - 1
        return np.where(self.around(moments), self.ends[np.maximum(last, 0)], moments)

    def with_others(self, others: Gaps) -> Gaps:
        """Return the union of both."""
        begins = np.concatenate((self.begins, others.begins))
        if not begins.size:
            return self
        order = np.argsort(begins, kind="stable")
        begins = begins[order]
        ends = np.maximum.accumulate(np.concatenate((self.ends, others.ends))[order])
        first = np.concatenate(([True], begins[1:] > ends[:-1]))
        last = np.concatenate((first[1:], [True]))
        return Gaps(begins[first], ends[last])

    def chosen(self, kept: np.ndarray) -> Gaps:
        """Return the gaps at which `kept` is true."""
        return Gaps(self.begins[kept], self.ends[kept])


@dataclass(frozen=True)
class Preemption:
    """Gaps that come at random: the time between two is exponential."""

    share: float
    """Of time."""
    length_s: Span = (0.001, 0.3)
    """Its logarithm is uniform."""

    @property
    def mean_s(self) -> float:
        """The mean length of a gap [s]."""
        low, high = self.length_s
        return (high - low) / math.log(high / low)

    def gaps(self, random: Generator, lasts_s: float) -> Gaps:
        """Return the gaps that begin in [0, lasts_s)."""
        between_s = self.mean_s * (1 - self.share) / self.share
        expected = lasts_s / (between_s + self.mean_s)
        n = int(expected + 8 * math.sqrt(expected) + 20)
        lengths = np.exp(random.uniform(*np.log(self.length_s), n))
        runs = between_s * random.standard_exponential(n)
        ends = np.cumsum(runs + lengths)
        gaps = Gaps(ends - lengths, ends)
        return gaps.chosen(gaps.begins < lasts_s)


@dataclass(frozen=True)
class Neighbour:
    """Another program that comes and goes, and takes CPU time while it is there."""

    generator: Preemption
    """What it takes from the generator."""
    server: Preemption
    here_s: Span = (20.0, 120.0)
    """How long it stays; uniform."""
    away_s: Span = (20.0, 120.0)

    def here(self, seed: int, from_s: float, lasts_s: float) -> Gaps:
        """Return when it is there in a trial that begins at a moment of the search."""
        random = np.random.default_rng([seed, PHASE_STREAM])
        edges = [0.0, random.uniform(0.0, self.away_s[1])]
        while edges[-1] < from_s + lasts_s:
            span = self.here_s if len(edges) % 2 == 0 else self.away_s
            edges.append(edges[-1] + random.uniform(*span))
        edges = edges[1:] if len(edges) % 2 else [*edges[1:], math.inf]
        moments = np.array(edges) - from_s
        return Gaps(moments[::2], moments[1::2])


@dataclass(frozen=True)
class SharedCpus:
    """Generator and server on the same few CPUs: the busier the server, the later the generator.

    A scheduler that divides by process lets the generator wait for one slice; one that divides by
    session or container makes it wait until the server's group has used its share.
    """

    generator: Preemption | None
    """Its gaps while the server is busy all the time; None: it never waits."""
    server: Preemption
    """Those of the server, which waits for the generator."""


@dataclass(frozen=True)
class Course:
    """Time on a machine during one trial."""

    generator: Gaps
    server: WorkTime | None
    """CPU time that the server gets by each moment; None: all of it."""


@dataclass(frozen=True)
class Machine:
    """What happens to a generator and a server on one machine."""

    name: str
    generator: Preemption | None = None
    server: Preemption | None = None
    both: Preemption | None = None
    """Of the whole virtual machine: generator and server stop together."""
    neighbour: Neighbour | None = None
    shared: SharedCpus | None = None
    loses: float = 0.0
    """Share of the server's speed that is lost at the end of `over_s`, linear in time."""
    over_s: float = 1200.0
    wave: float = 0.0
    """Share of the server's speed that is lost in the middle of each `wave_s`."""
    wave_s: float = 300.0

    @property
    def calm(self) -> bool:
        """Return whether nothing happens."""
        return self == Machine(self.name)

    def pace(self, at_s: Times) -> Times:
        """Return the server's speed at moments of the search, relative to the first."""
        lost = self.loses * np.minimum(at_s / self.over_s, 1.0)
        swing = self.wave * (1 - np.cos(2 * np.pi * at_s / self.wave_s)) / 2
        return (1 - lost) * (1 - swing)

    def course(self, trial: tuple[int, int, float], lasts_s: float, busy: Times | None) -> Course:
        """Return the course of a trial: seed, number, and moment of the search [s].

        busy: the share of the server that is busy in each `BUSY_S`, for `shared`.
        """
        seed, number, from_s = trial
        random = np.random.default_rng([seed, number, GAP_STREAM])
        generator, server = self._gaps(random, lasts_s)
        if self.neighbour is not None:
            here = self.neighbour.here(seed, from_s, lasts_s)
            parts = self.neighbour.generator, self.neighbour.server
            taken = [part.gaps(random, lasts_s) for part in parts]
            taken = [gaps.chosen(here.around(gaps.begins)) for gaps in taken]
            generator = generator.with_others(taken[0])
            server = server.with_others(taken[1])
        if self.shared is not None and busy is not None:
            # The server's are drawn first: without the generator's they are the same.
            slices = _while_busy(self.shared.server, random, lasts_s, busy)
            server = server.with_others(slices)
            if self.shared.generator is not None:
                waits = _while_busy(self.shared.generator, random, lasts_s, busy)
                generator = generator.with_others(waits)
        return Course(generator, self._work_time(server, from_s, lasts_s))

    def _gaps(self, random: Generator, lasts_s: float) -> tuple[Gaps, Gaps]:
        """Return the gaps of generator and server that no one else causes."""
        gaps = [
            Gaps.none() if each is None else each.gaps(random, lasts_s)
            for each in (self.generator, self.server, self.both)
        ]
        return gaps[0].with_others(gaps[2]), gaps[1].with_others(gaps[2])

    def _work_time(self, gaps: Gaps, from_s: float, lasts_s: float) -> WorkTime | None:
        if not gaps.begins.size and not self.loses and not self.wave:
            return None
        end_s = max(lasts_s, float(gaps.ends[-1]) if gaps.ends.size else 0.0)
        steps = np.arange(0.0, end_s + 2 * STEP_S, STEP_S)
        edges = np.union1d(steps, np.concatenate((gaps.begins, gaps.ends)))
        pace = self.pace(from_s + edges[:-1])
        pace = np.where(gaps.around(edges[:-1]), STANDSTILL, pace)
        work = np.concatenate(([0.0], np.cumsum(np.diff(edges) * pace)))
        return WorkTime(edges, work)


BUSY_S = 0.02
"""The step in which the server's business is known [s]."""


def busy_share(arrivals: Times, ends: Times, servers: int, lasts_s: float) -> Times:
    """Return the share of a server's parallel parts that is busy at each `BUSY_S` `(n,)`."""
    grid = np.arange(0.0, lasts_s + BUSY_S, BUSY_S)
    inside = np.searchsorted(arrivals, grid, side="right") - np.searchsorted(
        np.sort(ends), grid, side="right"
    )
    return np.minimum(inside / servers, 1.0)


def _while_busy(preemption: Preemption, random: Generator, lasts_s: float, busy: Times) -> Gaps:
    """Return gaps that are the more frequent the busier the server is."""
    gaps = preemption.gaps(random, lasts_s)
    at = np.minimum((gaps.begins / BUSY_S).astype(np.intp), busy.size - 1)
    return gaps.chosen(random.random(gaps.begins.size) < busy[at])


CALM = Machine("calm")
SHORT_S, LONG_S = (0.001, 0.02), (0.1, 0.3)
SLICES = Preemption(0.35, (0.003, 0.030))

MACHINES: tuple[Machine, ...] = (
    CALM,
    Machine("gen-2-short", generator=Preemption(0.02, SHORT_S)),
    Machine("gen-5", generator=Preemption(0.05)),
    Machine("gen-20", generator=Preemption(0.20)),
    Machine("gen-30-long", generator=Preemption(0.30, LONG_S)),
    Machine("server-10", server=Preemption(0.10)),
    Machine("server-10-short", server=Preemption(0.10, SHORT_S)),
    Machine("vm-10-short", both=Preemption(0.10, SHORT_S)),
    Machine("vm-10", both=Preemption(0.10)),
    Machine("vm-25", both=Preemption(0.25)),
    Machine("drift", loses=0.20),
    Machine("wave", wave=0.15),
    Machine("neighbour", neighbour=Neighbour(SLICES, SLICES)),
    Machine(
        "neighbour-late",
        neighbour=Neighbour(
            Preemption(0.10, (0.02, 0.2)), Preemption(0.20, SHORT_S), (10.0, 40.0), (10.0, 40.0)
        ),
    ),
    Machine(
        "shared-process",
        shared=SharedCpus(Preemption(0.30, (0.001, 0.006)), Preemption(0.10, (0.001, 0.006))),
    ),
    Machine(
        "shared-session",
        shared=SharedCpus(Preemption(0.30, (0.010, 0.100)), Preemption(0.10, (0.001, 0.006))),
    ),
)
BY_MACHINE = {machine.name: machine for machine in MACHINES}
"""Every machine by its name."""
