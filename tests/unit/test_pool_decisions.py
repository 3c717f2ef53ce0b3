"""The decisions of a pool's controller, in virtual time: what runs where, what is tried again, what
is given up."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.features.pool.planning import AssignTask, CloseLease, GiveUp, OpenLease, PoolPlan
from benchwright.features.pool.toml import parse_pool, read_pool
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.inputs.toml_table import read_toml
from benchwright.run.gangs import Task

Ends = Callable[[Task, str], VoidReason | None]
"""How an attempt of a task on a gang ends."""


class Simulation:
    """Runs a plan with leases that open at once and tasks of random length."""

    def __init__(self, settings: PoolSettings, tasks: list[Task], ends: Ends) -> None:
        self.attempts: list[Attempt] = []
        self.given_up: list[Task] = []
        self.opened: list[OpenLease] = []
        plan = PoolPlan(settings, seed=1)
        plan.add(tasks)
        self._random = random.Random(1)
        running: list[tuple[int, int, AssignTask]] = []
        now_ns, count = 0, Counter[str]()
        while True:
            while actions := plan.next_actions(now_ns):
                for action in actions:
                    match action:
                        case OpenLease(gang, _, excluded) if gang in excluded:
                            self.opened.append(action)
                            plan.lease_refused(gang)
                        case OpenLease(gang, number):
                            self.opened.append(action)
                            plan.lease_changed(self._lease(gang, number, now_ns))
                        case CloseLease(lease):
                            plan.lease_changed(
                                msgspec.structs.replace(lease, state=LeaseState.ENDED)
                            )
                        case GiveUp(task):
                            self.given_up.append(task)
                        case AssignTask(task):
                            count[task.place] += 1
                            length_ns = self._random.randint(1, 1000)
                            order = (now_ns + length_ns, len(self.attempts))
                            heapq.heappush(running, (*order, action))
                            self.attempts.append(attempt_of(action, count[task.place], now_ns))
            if not running:
                return
            now_ns, at, done = heapq.heappop(running)
            void = ends(done.task, done.lease.gang)
            ended = msgspec.structs.replace(self.attempts[at], ended_ns=now_ns, void=void)
            self.attempts[at] = ended
            plan.attempt_ended(ended)
            self.excluded = plan.excluded

    def _lease(self, gang: str, number: int, now_ns: int) -> Lease:
        return Lease(
            gang=gang, number=number, hosts=(gang,), state=LeaseState.RUNNING, ends_ns=now_ns + 5000
        )


def attempt_of(action: AssignTask, number: int, now_ns: int) -> Attempt:
    task, lease = action.task, action.lease
    return Attempt(
        place=task.place,
        name=task.name,
        number=number,
        gang=lease.gang,
        lease=lease.name,
        hosts=lease.hosts,
        began_ns=now_ns,
    )


def tasks_of(count: int) -> list[Task]:
    return [
        Task(place=str(number), name=f"task {number}", prefixes=(f"{number}/",))
        for number in range(1, count + 1)
    ]


def local(gangs: int, retries: int = 2) -> PoolSettings:
    return PoolSettings(engine=PoolKind.LOCAL, gangs=gangs, retries=retries)


def never(_task: Task, _gang: str) -> None:
    return None


def test_each_task_runs_once_and_all_gangs_work() -> None:
    done = Simulation(local(8), tasks_of(200), never)
    assert sorted(int(one.place) for one in done.attempts) == list(range(1, 201))
    assert {one.gang for one in done.attempts} == {f"g{n}" for n in range(1, 9)}
    assert len({one.gang for one in done.opened}) == 8
    # A lease that is too short for another task is closed before its end.
    assert all(one.void is None for one in done.attempts)


def test_tasks_are_spread_over_the_gangs_at_random() -> None:
    """Otherwise a gang would have the tasks of one part of the list, and its effect would be
    theirs."""
    done = Simulation(local(2), tasks_of(400), never)
    first = [one.gang for one in done.attempts if int(one.place) <= 200]
    assert 70 <= first.count("g1") <= 130
    order = [int(one.place) for one in done.attempts]
    assert order != sorted(order)


def test_a_void_task_runs_again_on_another_gang() -> None:
    tried: Counter[str] = Counter()

    def ends(task: Task, _gang: str) -> VoidReason | None:
        tried[task.place] += 1
        is_first = task.place == "7" and tried["7"] == 1
        return VoidReason.PREEMPTED if is_first else None

    done = Simulation(local(3), tasks_of(30), ends)
    first, second = [one for one in done.attempts if one.place == "7"]
    assert first.gang != second.gang
    assert second.void is None
    assert done.excluded == ()


def test_a_task_is_given_up_after_its_retries() -> None:
    def ends(task: Task, _gang: str) -> VoidReason | None:
        return VoidReason.PREEMPTED if task.place == "3" else None

    done = Simulation(local(4, retries=2), tasks_of(10), ends)
    assert [task.place for task in done.given_up] == ["3"]
    assert sum(one.place == "3" for one in done.attempts) == 3
    assert sum(one.is_recorded for one in done.attempts) == 9


def test_a_host_of_two_void_attempts_gets_no_task_any_more() -> None:
    def ends(_task: Task, gang: str) -> VoidReason | None:
        return VoidReason.DISK_FULL if gang == "g2" else None

    settings = local(3)
    done = Simulation(settings, tasks_of(60), ends)
    assert done.excluded == ("g2",)
    assert sum(one.gang == "g2" for one in done.attempts) == 2
    assert sum(one.is_recorded for one in done.attempts) == 60
    later = [one for one in done.opened if one.number > 1 and one.gang == "g2"]
    assert all(one.excluded == ("g2",) for one in later)


def test_ends_of_leases_do_not_exclude_a_host() -> None:
    def ends(task: Task, gang: str) -> VoidReason | None:
        return VoidReason.LEASE_ENDED if gang == "g1" and int(task.place) < 9 else None

    assert Simulation(local(2), tasks_of(20), ends).excluded == ()


def test_the_turn_of_a_gang_is_kept_unless_the_gang_is_lost() -> None:
    plan = PoolPlan(local(2), seed=1)
    turns = [
        msgspec.structs.replace(task, gang="g2" if int(task.place) % 2 else "g1")
        for task in tasks_of(4)
    ]
    plan.add(turns)
    for action in plan.next_actions(0):
        assert isinstance(action, OpenLease)
        plan.lease_changed(Lease(gang=action.gang, number=1, state=LeaseState.RUNNING))
    given = [one for one in plan.next_actions(0) if isinstance(one, AssignTask)]
    assert all(one.task.gang == one.lease.gang for one in given)
    assert len(given) == 2
    plan.lease_refused("g2")
    (mine,) = [one for one in given if one.lease.gang == "g1"]
    plan.attempt_ended(attempt_of(mine, 1, 0))
    places = []
    for _ in range(2):
        (one,) = [one for one in plan.next_actions(0) if isinstance(one, AssignTask)]
        places.append(one.task.gang)
        plan.attempt_ended(attempt_of(one, 1, 0))
    assert sorted(places) == ["g1", "g2"]


def test_a_task_that_does_not_fit_waits_for_a_new_lease() -> None:
    plan = PoolPlan(local(1), seed=1)
    plan.add([msgspec.structs.replace(task, seconds=60.0) for task in tasks_of(2)])
    lease = Lease(gang="g1", number=1, state=LeaseState.RUNNING, ends_ns=90 * 10**9)
    assert plan.next_actions(0) == [OpenLease("g1", 1, ())]
    plan.lease_changed(lease)
    (first,) = plan.next_actions(0)
    assert isinstance(first, AssignTask)
    plan.attempt_ended(attempt_of(first, 1, 0))
    assert plan.next_actions(60 * 10**9) == [CloseLease(lease)]
    plan.lease_changed(msgspec.structs.replace(lease, state=LeaseState.ENDED))
    assert plan.next_actions(60 * 10**9) == [OpenLease("g1", 2, ())]


def test_the_longest_task_so_far_is_the_expected_length() -> None:
    plan = PoolPlan(local(1), seed=1)
    plan.add(tasks_of(2))
    plan.next_actions(0)
    lease = Lease(gang="g1", number=1, state=LeaseState.RUNNING, ends_ns=90)
    plan.lease_changed(lease)
    (first,) = plan.next_actions(0)
    assert isinstance(first, AssignTask)
    ended = msgspec.structs.replace(attempt_of(first, 1, 0), ended_ns=60)
    plan.attempt_ended(ended)
    assert plan.next_actions(60) == [CloseLease(lease)]


def test_leases_that_ran_out_do_not_count_as_failures() -> None:
    plan = PoolPlan(local(1), seed=1)
    plan.add(tasks_of(1))
    for number in range(1, 9):
        assert plan.next_actions(0) == [OpenLease("g1", number, ())]
        plan.lease_changed(
            Lease(gang="g1", number=number, state=LeaseState.ENDED, ended=VoidReason.LEASE_ENDED)
        )


def test_a_gang_whose_leases_fail_is_given_up() -> None:
    plan = PoolPlan(local(1), seed=1)
    plan.add(tasks_of(1))
    for number in (1, 2, 3):
        assert plan.next_actions(0) == [OpenLease("g1", number, ())]
        plan.lease_changed(
            Lease(gang="g1", number=number, state=LeaseState.ENDED, ended=VoidReason.AGENT_LOST)
        )
    assert plan.next_actions(0) == [GiveUp(tasks_of(1)[0], None)]


def test_a_pool_is_read_from_a_text_and_from_a_table() -> None:
    read = parse_pool("slurm:partition=bench,gangs=4,lease=2h")
    assert read == PoolSettings(engine=PoolKind.SLURM, gangs=4, partition="bench", lease_s=7200.0)
    text = 'engine = "slurm"\ngangs = 4\npartition = "bench"\nlease = "2h"\n'
    assert read_toml(text, "a.toml", "spec", read_pool) == read


def test_mistakes_in_a_table_are_reported_at_their_lines() -> None:
    text = 'engine = "local"\ngangs = 0\nretry = 3\n'
    with pytest.raises(InputError) as caught:
        read_toml(text, "a.toml", "spec", read_pool)
    assert {one.line for one in caught.value.diagnostics} == {2, 3}
