"""Two limits at once, in several strengths: what comes first, and what others are said to cost."""

from __future__ import annotations

import re

import pytest

from benchwright.core.resource_use import CgroupUse, ResourceUse, TaskUse
from benchwright.findings.limiter import limiters
from watched_uses import MIB, codes, cpu, disk, group, memory, task, use, waiting_for_io


def hogs(share: float) -> tuple[TaskUse, ...]:
    """Return two processes of others that used so much together."""
    return (TaskUse(9, 0, "sha256sum", share / 2, of="other"),) * 2


def one_thread(waited: float, **more: object) -> ResourceUse:
    """Return a thread that always ran or waited for a processor, beside two of others."""
    ran = 1.0 - waited
    return use(
        cpu=cpu(ran, 2 - ran, runnable=3.0, pressure=0.5),
        tasks=(task("gzip", ran, waiting=waited),),
        others=hogs(2 - ran),
        **more,
    )


def cost(seen: ResourceUse) -> int:
    """Return what others are said to cost [%]."""
    (limit,) = (one for one in limiters(seen) if one.code == "noisy-neighbour")
    found = re.match(r"other processes cost about ([0-9.]+) % of the elapsed time", limit.evidence)
    assert found is not None, limit.evidence
    return round(float(found[1]))


@pytest.mark.parametrize("waited", [0.06, 0.1, 0.16, 0.33, 0.6])
def test_one_thread_beside_busy_neighbours(waited: float) -> None:
    """The trial of a busy thread at 85 % of a CPU that waited 16 % was such a one."""
    seen = one_thread(waited)
    assert codes(seen)[0] == "noisy-neighbour"
    assert cost(seen) == pytest.approx(100 * waited, abs=1)


def test_one_thread_beside_neighbours_that_cost_it_little() -> None:
    assert codes(one_thread(0.03)) == ["single-threaded-cpu-bound"]


def brief_processes(life: float, ran: float, waited: float, seconds: float = 1.0) -> ResourceUse:
    """Return processes of `life` seconds, one after the other, as samples each 0.1 s show them:
    of a process its figures when it was last seen, and for how long it was seen."""
    seen: dict[int, list[float]] = {}
    for sample in range(1, int(seconds / 0.1)):
        number, age = divmod(0.1 * sample, life)
        seen.setdefault(int(number), []).append(age)
    tasks = [
        task(
            "burn",
            ages[-1] * ran / seconds,
            waiting=ages[-1] * waited / seconds,
            seen_s=ages[-1] - ages[0],
        )
        for ages in seen.values()
    ]
    busiest = sorted(tasks, key=lambda one: one.share, reverse=True)[:8]
    counted = cpu(ran, 2 - ran, runnable=3.0, pressure=0.5)
    return use(cpu=counted, tasks=tuple(busiest), others=hogs(2 - ran), seconds=seconds)


@pytest.mark.parametrize("life", [0.11, 0.13, 0.17, 0.23, 0.45])
@pytest.mark.parametrize("waited", [0.3, 0.7])
def test_brief_processes_lose_what_a_long_one_loses(life: float, waited: float) -> None:
    seen = brief_processes(life, 1 - waited, waited)
    assert codes(seen)[0] == "noisy-neighbour"
    assert cost(seen) == pytest.approx(100 * waited, abs=3)


@pytest.mark.parametrize("life", [0.11, 0.13, 0.17, 0.23, 0.45])
def test_brief_processes_that_rest_lose_little(life: float) -> None:
    assert "noisy-neighbour" not in codes(brief_processes(life, 0.05, 0.02))


@pytest.mark.parametrize("threads", [2, 4, 8, 64])
def test_threads_that_wait_for_each_other_lose_nothing_to_others(threads: int) -> None:
    each = 1.97 / threads
    own = tuple(task("cc1", each, waiting=1 - each) for _ in range(min(threads, 8)))
    alone = use(cpu=cpu(1.97, 0.03, runnable=float(threads)), tasks=own)
    assert codes(alone)[-1:] == ["cpu-saturated"]
    assert "noisy-neighbour" not in codes(alone)


@pytest.mark.parametrize(("others", "lost"), [(0.2, 10), (0.5, 25), (1.0, 50)])
def test_many_threads_beside_neighbours_lose_what_those_used(others: float, lost: int) -> None:
    each = (2 - others) / 8
    own = tuple(task("cc1", each, waiting=1 - each) for _ in range(8))
    seen = use(cpu=cpu(2 - others, others, runnable=9.0), tasks=own)
    assert codes(seen) == ["noisy-neighbour", "cpu-saturated"]
    assert cost(seen) == lost


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("neighbours", [False, True], ids=["alone", "beside"])
def test_one_thread_in_a_quota(share: float, neighbours: bool) -> None:
    """What its quota withheld is no loss to others, though it is in the thread's waiting."""
    held = CgroupUse(
        path="/bench",
        version=2,
        cpu_limit_cores=share,
        cpu_used_cores=share,
        periods=100,
        throttled=95,
        throttled_s=10 * (1 - share),
    )
    others = 2 - share if neighbours else 0.02
    seen = use(
        cpu=cpu(share, others, runnable=3.0),
        tasks=(task("gzip", share, waiting=1 - share),),
        others=hogs(others),
        cgroups=(held,),
    )
    assert codes(seen) == ["throttled-by-cgroup-quota"]


@pytest.mark.parametrize("waited", [0.07, 0.15, 0.3])
def test_a_quota_that_is_met_beside_neighbours_comes_after_them(waited: float) -> None:
    """Half of the quota is not used, for others: its loss is theirs first."""
    held = group(
        cpu_limit_cores=0.8, cpu_used_cores=0.6, periods=100, throttled=30, throttled_s=0.6
    )
    seen = use(
        cpu=cpu(0.6, 1.4, runnable=3.0),
        tasks=(task("gzip", 0.6, waiting=waited + 0.06),),
        others=hogs(1.4),
        cgroups=(held,),
    )
    assert codes(seen)[:2] == ["noisy-neighbour", "throttled-by-cgroup-quota"]


@pytest.mark.parametrize(
    ("ran", "waited", "found"),
    [
        (0.05, 0.01, ["disk-saturated"]),
        (0.05, 0.08, ["noisy-neighbour", "disk-saturated"]),
        (0.3, 0.25, ["noisy-neighbour", "disk-saturated"]),
    ],
)
def test_a_thread_that_waits_for_a_disk_beside_neighbours(
    ran: float, waited: float, found: list[str]
) -> None:
    """Others cost it what it waited for a processor, not a share of what it waited at all."""
    seen = waiting_for_io(
        cpu=cpu(ran, 1.9 - ran, iowait=0.1, runnable=2.5),
        tasks=(task("fio", ran, waiting=waited),),
        others=hogs(1.9 - ran),
        disks=(disk(0.97, 7.0),),
    )
    assert codes(seen) == found
    if "noisy-neighbour" in found:
        assert cost(seen) == pytest.approx(100 * waited, abs=1)


@pytest.mark.parametrize("waited", [0.0, 0.1, 0.3])
def test_swapping_and_a_busy_thread(waited: float) -> None:
    swapping = memory(swapped_in=200 * MIB, swapped_out=150 * MIB)
    alone = use(cpu=cpu(1.0), tasks=(task("sort", 0.97),), memory=swapping)
    assert codes(alone) == ["swapping", "single-threaded-cpu-bound"]
    first = ["noisy-neighbour"] if waited else []
    assert codes(one_thread(waited, memory=swapping))[: len(first) + 1] == [*first, "swapping"]


def test_steal_comes_before_what_the_program_does() -> None:
    seen = use(cpu=cpu(0.9, steal=0.1), tasks=(task("gzip", 0.92),))
    assert codes(seen) == ["steal", "single-threaded-cpu-bound"]
