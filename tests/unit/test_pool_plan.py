"""The plan of a pool: what waits for which gang, and for how long."""

from __future__ import annotations

from benchwright.features.pool.planning import ABSENT_NS, AssignTask, OpenLease, PoolPlan
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
