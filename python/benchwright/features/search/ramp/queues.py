"""What each resource costs an operation, and the throughput that a closed network of queues with
these costs has at more users.

Purpose: the scalability law says how throughput bends; the queues say at which resource, and how
much of the bend no measured resource explains. Each resource is a queue whose service demand
follows from its utilization (U = X D); what is left of an operation's time passes elsewhere,
without a queue. The demands come from the lower half of the levels, so that the higher ones test
the prediction.
Decision: convolution, which is exact for queues of several servers (CPUs) and in logarithms stable
for any number of users; mean value analysis with several servers is not. Rejected: Seidmann's
approximation of several servers, which is up to 20 % low near the knee.
Sources: J. Buzen 1973, Communications of the ACM 16(9); M. Reiser and S. Lavenberg 1980, Journal of
the ACM 27(2); Systems Performance, 2.6 and 12.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import msgspec

from benchwright.core.numeric import np
from benchwright.core.resource_use import ResourceUse
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.ramp.levels import measured_levels
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.findings.cpu_time import cpu_shares
from benchwright.findings.limiter_io import is_own
from benchwright.findings.programs import is_engine
from benchwright.findings.utilization import Utilization, mean_utilizations, utilizations
from benchwright.stats.arrays import FloatArray

_MOST_USERS = 5_000
"""The convolution takes the square of their number: 0.5 s for each queue."""
_UNEVEN = 0.09
"""Share of the throughput that service times of any distribution may cost near the knee: a
simulation with lognormal ones, whose deviation is twice their mean, has 8.8 % less than exponential
ones."""
_LEAST_DEMAND = 0.02
"""A resource with a smaller share of an operation's time is no queue of its own."""


class ServiceQueue(msgspec.Struct, frozen=True):
    """A resource that operations wait for."""

    name: str
    demand_s: float
    """Of an operation [s]."""
    servers: float = 1.0
    """How many operations it serves at once; of CPUs, those that our engine does not use."""

    @property
    def most_per_s(self) -> float:
        """The throughput that it allows [1/s]."""
        return self.servers / self.demand_s


class QueuePoint(msgspec.Struct, frozen=True):
    """The network's throughput at a level, and the measured one."""

    users: int
    predicted: float
    measured: float
    fitted: bool
    """Whether the demands come from this level too."""
    within: bool
    """Whether the prediction lies in the level's interval, or differs by no more than the
    distribution of the service times can change."""

    @property
    def difference(self) -> float:
        """Of the measured throughput, as a share of the predicted one."""
        return self.measured / self.predicted - 1


class QueueNetwork(msgspec.Struct, frozen=True):
    """A closed network of queues, fitted to the lower levels of a ramp."""

    queues: tuple[ServiceQueue, ...]
    """The one that limits throughput first."""
    elsewhere_s: float
    """Time of an operation at no queue: thinking, the network, waits inside the server [s]."""
    points: tuple[QueuePoint, ...]

    @property
    def knee(self) -> float:
        """The number of users from which on the first queue limits throughput."""
        first = self.queues[0]
        return first.most_per_s * (self.elsewhere_s + sum(one.demand_s for one in self.queues))

    @property
    def misses(self) -> tuple[QueuePoint, ...]:
        """The levels that the demands do not come from and that the network does not predict."""
        return tuple(point for point in self.points if not (point.fitted or point.within))


class LevelResources(msgspec.Struct, frozen=True):
    """How much of each resource was used at a level, the busiest first."""

    level: float
    resources: tuple[Utilization, ...]


def level_resources(trials: Sequence[LoadTrial]) -> tuple[LevelResources, ...]:
    """Return the resources of each level at which every trial was watched, the lowest level first.

    Those of a remote server's host have its name in front.
    """
    by_level: dict[float, list[LoadTrial]] = {}
    for trial in trials:
        by_level.setdefault(trial.rate, []).append(trial)
    return tuple(
        LevelResources(level, mean_utilizations(map(_resources, by_level[level])))
        for level in sorted(by_level)
        if all(trial.use is not None for trial in by_level[level])
    )


def _resources(trial: LoadTrial) -> tuple[Utilization, ...]:
    found = [] if trial.use is None else list(utilizations(trial.use))
    if trial.remote_use is not None:
        host = trial.remote_use.host
        found += [
            msgspec.structs.replace(one, name=f"{host}: {one.name}")
            for one in utilizations(trial.remote_use.use)
        ]
    return tuple(found)


# -- the network ------------------------------------------------------------------------


def throughput_of(queues: Sequence[ServiceQueue], elsewhere_s: float, users: int) -> FloatArray:
    """Return the throughput with 1 to `users` users [1/s], shape `(users,)`."""
    ways = _with_delay(_ways_of(queues, users), elsewhere_s)
    return np.exp(ways[:-1] - ways[1:])


def _ways_of(queues: Sequence[ServiceQueue], users: int) -> FloatArray:
    """Return the logarithms of Buzen's G(0) to G(users) of the queues alone."""
    ways = np.full(users + 1, -np.inf)
    ways[0] = 0.0
    count = np.arange(1, users + 1)
    for queue in queues:
        of_queue = np.log(queue.demand_s) - np.log(np.minimum(count, queue.servers))
        ways = _convolved(ways, np.concatenate(([0.0], np.cumsum(of_queue))))
    return ways


def _with_delay(ways: FloatArray, elsewhere_s: float) -> FloatArray:
    if not elsewhere_s > 0:
        return ways
    count = np.arange(1, ways.size)
    of_delay = np.log(elsewhere_s) - np.log(count)
    return _convolved(ways, np.concatenate(([0.0], np.cumsum(of_delay))))


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the logarithms of the convolution of two sequences of logarithms of equal length."""
    found = np.empty(one.size)
    for place in range(one.size):
        terms = one[: place + 1] + other[place::-1]
        top = terms.max()
        found[place] = top + np.log(np.exp(terms - top).sum()) if np.isfinite(top) else top
    return found


def _delay(queues: Sequence[ServiceQueue], users: int, throughput: float) -> float:
    """Return the time elsewhere with which the network has a throughput at a level; 0 if the queues
    alone are slower [s]."""
    ways = _ways_of(queues, users)

    def rate(elsewhere_s: float) -> float:
        found = _with_delay(ways, elsewhere_s)
        return float(np.exp(found[-2] - found[-1]))

    if rate(0.0) <= throughput:
        return 0.0
    low, high = 0.0, users / throughput
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > throughput else (low, middle)
    return (low + high) / 2


# -- the service demands of a ramp ----------------------------------------------------------


def queue_network(goal: RampGoal, trials: Sequence[LoadTrial]) -> QueueNetwork | None:
    """Return the network that the lower half of a ramp's levels shows; None where it cannot be known:
    a ramp of rates, fewer than three levels, trials that nobody watched, or no resource that an
    operation uses for a good part of its time."""
    if goal.axis is not RampAxis.USERS:
        return None
    levels = [level for level in measured_levels(goal, trials) if level.throughput > 0]
    if len(levels) < 3 or levels[-1].level > _MOST_USERS:
        return None
    fitted = levels[: math.ceil(len(levels) / 2)]
    uses = [
        (level.throughput, [trial for trial in trials if trial.rate == level.level])
        for level in fitted
    ]
    if any(trial.use is None for _, same in uses for trial in same):
        return None
    watched = [(rate, trial) for rate, same in uses for trial in same]
    users, throughput = round(fitted[0].level), fitted[0].throughput
    least = _LEAST_DEMAND * users / throughput
    queues = sorted(
        (one for one in _queues(watched) if one.demand_s >= least), key=lambda one: one.most_per_s
    )
    if not queues:
        return None
    elsewhere = _delay(queues, users, throughput)
    predicted = throughput_of(queues, elsewhere, round(levels[-1].level))
    points = []
    for level in levels:
        value = float(predicted[round(level.level) - 1])
        shown = level.estimate(goal.confidence)
        # Steady service times reach the bound of Little's law and of the first queue.
        alone = elsewhere + sum(one.demand_s for one in queues)
        bound = max(min(level.level / alone, queues[0].most_per_s), value) * (1 + goal.growth)
        near = (1 - _UNEVEN) * value <= level.throughput <= bound
        within = near or shown.low <= value <= shown.high
        points.append(
            QueuePoint(round(level.level), value, level.throughput, level in fitted, within)
        )
    return QueueNetwork(tuple(queues), elsewhere, tuple(points))


def _queues(watched: Sequence[tuple[float, LoadTrial]]) -> Iterator[ServiceQueue]:
    """Yield the queues that the uses of trials show, each with the throughput of its level."""
    here = [(rate, trial.use, trial.rate) for rate, trial in watched if trial.use is not None]
    yield from _queues_of("", here)
    there = [
        (rate, trial.remote_use.use, trial.rate)
        for rate, trial in watched
        if trial.remote_use is not None
    ]
    if there and len(there) == len(watched):
        host = next(trial.remote_use.host for _, trial in watched if trial.remote_use is not None)
        yield from _queues_of(f"{host}: ", there)


_WatchedUse = tuple[float, ResourceUse, float]
"""A throughput [1/s], the use meanwhile, and the number of users."""


def _queues_of(prefix: str, watched: Sequence[_WatchedUse]) -> Iterator[ServiceQueue]:
    rates = sum(rate for rate, _, _ in watched)
    yield from (
        msgspec.structs.replace(one, name=prefix + one.name) for one in _of_cpus(watched, rates)
    )
    busy: dict[str, float] = {}
    for _, use, _ in watched:
        own = {f"disk {disk.name}" for disk in use.disks if is_own(disk, use)}
        for one in utilizations(use):
            if one.kind in ("network", "quota") or (one.kind == "disk" and one.name in own):
                busy[one.name] = busy.get(one.name, 0.0) + one.share
    for name, total in busy.items():
        yield ServiceQueue(prefix + name, total / rates)


def _of_cpus(watched: Sequence[_WatchedUse], rates: float) -> Iterator[ServiceQueue]:
    """Yield the CPUs as one queue, or the threads of the server where they allow less.

    Our engine's threads use CPUs, but no operation waits for them. Other programs are no reason for
    fewer CPUs: what they cost depends on their priority, and is a finding.
    """
    worked, left, served = 0.0, [], 0.0
    for _, use, _ in watched:
        found = cpu_shares(use)
        if found is None:
            return
        engine = sum(task.share for task in use.tasks if is_engine(task.name))
        left.append(max(found.count - found.steal - engine, 1.0))
        served += found.target
        worked += max((found.own or 0.0) - engine, 0.0) + found.target
    if worked <= 0:
        return
    cpus = ServiceQueue("CPU", worked / rates, fmean(left))
    threads = _threads(watched, served, rates)
    if threads is not None and threads.most_per_s < cpus.most_per_s:
        yield threads
    else:
        yield cpus


def _threads(watched: Sequence[_WatchedUse], served: float, rates: float) -> ServiceQueue | None:
    """Return the threads of the server as one queue, by how many of them share its work at the
    highest of these levels; None where as many work as there are users, or more."""
    _, use, users = max(watched, key=lambda one: one[2])
    found = cpu_shares(use)
    tasks = [task for task in use.tasks if task.of == "target"]
    if not tasks or found is None or not served > 0:
        return None
    busiest = max(tasks, key=lambda task: task.share)
    if not busiest.share > 0:
        return None
    several = max(round(found.target / busiest.share), 1)
    if several > users / 2:
        return None
    name = f"thread {busiest.name}" if several == 1 else f"{several} threads of {busiest.name}"
    return ServiceQueue(name, served / rates, float(several))
