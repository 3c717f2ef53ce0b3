"""The plan of a pool: what waits for which gang, and for how long."""

from __future__ import annotations

import msgspec

from benchwright.features.pool.planning import (
    ABSENT_NS,
    AssignTask,
    CloseLease,
    GiveUp,
    OpenLease,
    PoolPlan,
)
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.run.gangs import Task

SETTINGS = PoolSettings(engine=PoolKind.SLURM, gangs=2)
G1, G2 = (
    Lease(gang=gang, number=1, state=LeaseState.RUNNING, hosts=(f"h-{gang}",))
    for gang in ("g1", "g2")
)


def task(place: str, gang: str = "") -> Task:
    return Task(place=place, name=f"search {place}", prefixes=(), gang=gang)


def assigned(plan: PoolPlan, now_ns: int) -> dict[str, str]:
    """Return the gang of each task that is given out now."""
    actions = plan.next_actions(now_ns)
    return {one.task.place: one.lease.gang for one in actions if isinstance(one, AssignTask)}


def waiting(lease: Lease, number: int) -> Lease:
    return Lease(gang=lease.gang, number=number)


def test_a_task_waits_for_its_gang_but_not_for_ever() -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add([task("1", "g1"), task("2", "g2")])
    opened = [one for one in plan.next_actions(0) if isinstance(one, OpenLease)]
    assert [one.gang for one in opened] == ["g1", "g2"]
    plan.lease_changed(waiting(G1, 1))
    plan.lease_changed(G2)
    assert assigned(plan, 0) == {"2": "g2"}
    plan.attempt_ended(_attempt("2", "g2"))
    assert assigned(plan, ABSENT_NS - 1) == {}
    assert assigned(plan, ABSENT_NS) == {"1": "g2"}


def test_the_task_of_a_lost_host_does_not_wait_for_a_gang_without_hosts() -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add([task("1", "g2")])
    plan.lease_changed(waiting(G1, 1))
    plan.lease_changed(G2)
    assert assigned(plan, 0) == {"1": "g2"}
    plan.attempt_ended(_attempt("1", "g2", VoidReason.SUSPENDED))
    # The other gang is preferred, and may have hosts soon.
    assert assigned(plan, ABSENT_NS - 1) == {}
    assert assigned(plan, ABSENT_NS) == {"1": "g2"}


def test_the_time_counts_from_when_the_lease_waits() -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.lease_changed(waiting(G1, 1))
    plan.lease_changed(G2)
    assert assigned(plan, 0) == {}
    plan.lease_changed(G1)
    assert assigned(plan, ABSENT_NS - 1) == {}
    plan.lease_changed(waiting(G1, 2))
    plan.add([task("1", "g1")])
    assert assigned(plan, ABSENT_NS) == {}
    assert assigned(plan, 2 * ABSENT_NS) == {"1": "g2"}


def replicate(number: int) -> Task:
    return Task(
        place=str(number), name="", prefixes=(), gang=f"g{number}", keys=("t",), replicate=number
    )


def test_a_replicate_of_a_host_stays_with_its_gang() -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add([replicate(1), replicate(2)])
    plan.lease_changed(waiting(G1, 1))
    plan.lease_changed(G2)
    assert assigned(plan, 0) == {"2": "g2"}
    plan.attempt_ended(_attempt("2", "g2", VoidReason.SUSPENDED))
    assert assigned(plan, 10 * ABSENT_NS) == {"2": "g2"}
    plan.attempt_ended(_attempt("2", "g2"))
    assert assigned(plan, 20 * ABSENT_NS) == {}
    plan.lease_refused("g1")
    (given_up,) = plan.next_actions(21 * ABSENT_NS)
    assert isinstance(given_up, GiveUp)
    assert given_up.task.place == "1"


def test_a_replicate_that_is_void_too_often_is_given_up() -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add([replicate(1)])
    plan.lease_changed(G1)
    for _ in range(SETTINGS.retries + 1):
        assert assigned(plan, 0) == {"1": "g1"}
        plan.attempt_ended(_attempt("1", "g1", VoidReason.SUSPENDED))
    (given_up,) = plan.next_actions(0)
    assert isinstance(given_up, GiveUp)


def test_a_host_measures_one_replicate() -> None:
    """Also where an earlier controller had it measure one."""
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add_recorded(msgspec.structs.replace(_attempt("1", "g1"), hosts=("n1",), replicate=1))
    plan.add([replicate(2)])
    (opened,) = plan.next_actions(0)
    assert isinstance(opened, OpenLease)
    assert (opened.gang, opened.excluded) == ("g2", ("n1",))
    lease = msgspec.structs.replace(G2, hosts=("n1",))
    plan.lease_changed(lease)
    assert plan.next_actions(0) == [CloseLease(lease)]


def _attempt(place: str, gang: str, void: VoidReason | None = None) -> Attempt:
    return Attempt(
        place=place,
        name=f"search {place}",
        number=1,
        gang=gang,
        lease=f"{gang}.1",
        hosts=(f"h-{gang}",),
        began_ns=0,
        ended_ns=1,
        void=void,
    )
