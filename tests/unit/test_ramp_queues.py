"""The resources of a ramp's levels, and the closed network of queues that they make."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from benchwright.core.resource_use import RemoteUse, ResourceUse, TaskUse
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.ramp.queues import (
    ServiceQueue,
    level_resources,
    queue_network,
    throughput_of,
)
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from watched_uses import cpu, disk, task, use

CPU, DISK = ServiceQueue("CPU", 0.002, 2.0), ServiceQueue("disk vda", 0.0014)
ELSEWHERE_S = 0.004


def of_markov_chain(queues: list[ServiceQueue], elsewhere_s: float, users: int) -> float:
    """Return the throughput by the balance equations of all states, without any product form."""
    rates = [(1 / one.demand_s, one.servers) for one in queues] + [(1 / elsewhere_s, np.inf)]
    states = [
        state
        for state in itertools.product(range(users + 1), repeat=len(rates))
        if sum(state) == users
    ]
    place = {state: at for at, state in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for state in states:
        for at, (rate, servers) in enumerate(rates):
            if state[at]:
                after = list(state)
                after[at] -= 1
                after[(at + 1) % len(rates)] += 1
                flow[place[state], place[tuple(after)]] += rate * min(state[at], servers)
    balance = np.vstack(((flow - np.diag(flow.sum(axis=1))).T, np.ones(len(states))))
    share, *_ = np.linalg.lstsq(balance, np.append(np.zeros(len(states)), 1.0), rcond=None)
    rate, servers = rates[0]
    return float(sum(p * rate * min(s[0], servers) for p, s in zip(share, states, strict=True)))


@pytest.mark.parametrize("users", [1, 2, 3, 7])
def test_the_throughput_is_that_of_the_markov_chain(users: int) -> None:
    queues = [CPU, DISK]
    found = throughput_of(queues, ELSEWHERE_S, users)
    assert found[-1] == pytest.approx(of_markov_chain(queues, ELSEWHERE_S, users), rel=1e-6)


def test_the_throughput_has_its_bounds_with_many_users() -> None:
    found = throughput_of([CPU, DISK], 10.0, 5000)
    assert found[0] == pytest.approx(1 / 10.0034)
    assert found[4999] == pytest.approx(500, rel=0.01), "users that do not queue yet"
    assert throughput_of([CPU, DISK], 0.0, 3000)[-1] == pytest.approx(1 / 0.0014, rel=1e-3)


def level_of(rate: float, seen: ResourceUse | None, users: int, **more: object) -> LoadTrial:
    values = {"throughput_per_s": rate}
    return LoadTrial(
        rate=users,
        duration_s=10,
        lasted_s=10,
        cost_s=10,
        values=values,
        use=seen,
        **more,  # type: ignore[arg-type]
    )


def used(rate: float, threads: int, engine: float = 0.3) -> ResourceUse:
    """Return the use of a server of so many threads that spends 2 ms of CPU and 1.4 ms of a disk."""
    cores = 0.002 * rate
    tasks = tuple(
        TaskUse(20, 20 + at, "server", cores / threads, of="target") for at in range(threads)
    )
    return use(
        cpu=cpu(0.0, target=cores),
        tasks=(task("bw-engine-0", engine), *tasks),
        disks=(disk(min(0.0014 * rate, 1.0), 0.5),),
        target_io=None,
        own_io=None,
    )


def ramp_of(
    throughput: Callable[[int], float], threads: int = 8, engine: float = 0.3
) -> list[LoadTrial]:
    return [
        level_of(rate, used(rate, min(threads, users), engine), users)
        for users in (1, 2, 4, 8, 16, 32)
        for rate in [throughput(users)]
    ]


GOAL = RampGoal(highest=32)


def test_the_demands_of_the_lower_levels_predict_the_higher_ones() -> None:
    true = throughput_of([msgspec.structs.replace(CPU, servers=1.7), DISK], ELSEWHERE_S, 32)
    found = queue_network(GOAL, ramp_of(lambda users: float(true[users - 1])))
    assert found is not None
    first, second = found.queues
    assert (first.name, second.name) == ("disk vda", "CPU")
    assert first.demand_s == pytest.approx(0.0014)
    assert second.demand_s == pytest.approx(0.002)
    assert second.servers == pytest.approx(1.7), "the engine's threads use the rest"
    assert found.elsewhere_s == pytest.approx(ELSEWHERE_S, rel=1e-3)
    assert [point.fitted for point in found.points] == [True] * 3 + [False] * 3
    for point in found.points:
        assert point.predicted == pytest.approx(point.measured, rel=1e-3)
    assert found.misses == ()


def simulated(draws: list[Callable[[], float]], users: int, ends: int = 15_000) -> float:
    """Return the throughput of users who pass two CPUs, a disk and a wait without a queue."""
    free, waiting, events = [2, 1, users], [[], [], []], []  # type: ignore[var-annotated]
    now, since, ended = 0.0, 0.0, 0

    def arrive(station: int, user: int) -> None:
        if free[station]:
            free[station] -= 1
            heapq.heappush(events, (now + draws[station](), user, station))
        else:
            waiting[station].append(user)

    for user in range(users):
        arrive(0, user)
    while ended < ends:
        now, user, station = heapq.heappop(events)
        free[station] += 1
        if waiting[station]:
            arrive(station, waiting[station].pop(0))
        if station == 2:
            ended += 1
            since = now if ended == ends // 5 else since
        arrive((station + 1) % 3, user)
    return (ends - ends // 5) / (now - since)


@pytest.mark.parametrize("cv", [0.0, 1.0, 2.0])
def test_the_distribution_of_service_times_is_no_reason_for_a_miss(cv: float) -> None:
    draw = random.Random(7)
    spread = math.sqrt(math.log(1 + cv * cv))

    def times(mean: float) -> Callable[[], float]:
        return lambda: draw.lognormvariate(math.log(mean) - spread**2 / 2, spread)

    def throughput(users: int) -> float:
        return simulated([times(0.002), times(0.0014), lambda: ELSEWHERE_S], users)

    trials = ramp_of(throughput, engine=0.0)
    found = queue_network(GOAL, trials)
    assert found is not None
    assert found.misses == ()
    at_eight = next(point for point in found.points if point.users == 8)
    assert (at_eight.difference > 0.02) == (cv == 0.0), "steady times queue less"


def test_a_lock_is_what_the_queues_do_not_predict() -> None:
    lock = ServiceQueue("lock", 0.003)
    true = throughput_of([CPU, DISK, lock], ELSEWHERE_S, 32)
    found = queue_network(GOAL, ramp_of(lambda users: float(true[users - 1])))
    assert found is not None
    assert found.misses
    assert all(point.difference < -0.2 for point in found.misses[-2:])


def test_a_server_of_one_thread_is_one_queue() -> None:
    true = throughput_of([msgspec.structs.replace(CPU, servers=1.0)], ELSEWHERE_S, 32)
    found = queue_network(GOAL, ramp_of(lambda users: float(true[users - 1]), threads=1))
    assert found is not None
    assert found.queues[0].name == "thread server"
    assert found.queues[0].most_per_s == pytest.approx(500)


def test_there_is_no_network_without_what_it_takes() -> None:
    levels = ramp_of(lambda users: 100.0 * users)
    assert queue_network(RampGoal(axis=RampAxis.RATE, highest=32), levels) is None
    assert queue_network(GOAL, levels[:2]) is None
    assert queue_network(GOAL, [level_of(10.0, None, 1), *levels[1:]]) is None
    idle = [level_of(float(users), used(1e-3, 1), users) for users in (1, 2, 4)]
    assert queue_network(GOAL, idle) is None


def test_resources_of_a_level_are_means_and_those_of_another_host_have_its_name() -> None:
    near = use(cpu=cpu(0.5), tasks=(task("wrk", 0.3),), disks=(disk(0.2, 1.0),))
    far = RemoteUse("db1", use(cpu=cpu(1.8), tasks=(task("bw-engine", 1.0),)))
    trials = [
        level_of(10.0, near, 1, remote_use=far),
        level_of(10.0, use(cpu=cpu(0.7), tasks=(task("wrk", 0.5),)), 1, remote_use=far),
        level_of(20.0, None, 2),
    ]
    (level,) = level_resources(trials)
    assert {one.name: round(one.share, 3) for one in level.resources} == {
        "db1: CPU": 0.91,
        "thread wrk": 0.4,
        "CPU": 0.31,
        "disk vda": 0.1,
    }
    assert level.resources[0].name == "db1: CPU"
