"""Each limit is named by its evidence, on the right side of its thresholds, and no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchwright.core.resource_use import (
    MOST_OTHERS,
    CgroupUse,
    FilesOpen,
    IoLimit,
    OffCpuUse,
    OwnLosses,
    ResourceUse,
    TaskUse,
    TreeIo,
    WaitKind,
    WaitUse,
)
from benchwright.core.results import states
from benchwright.core.text import cpus_text
from benchwright.findings.codes import LIMITER_CODES, WAITED
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter import LimiterContext, limiters, what_it_waited_for
from benchwright.findings.sentence import sentence
from watched_uses import (
    MIB,
    codes,
    cpu,
    disk,
    group,
    memory,
    network,
    task,
    throttled,
    use,
    waiting_for_io,
)


def quota(throttled: int, seconds: float) -> CgroupUse:
    """Return a cgroup of half a processor whose tasks were stopped."""
    return group(
        cpu_limit_cores=0.5,
        cpu_used_cores=0.5,
        periods=100,
        throttled=throttled,
        throttled_s=seconds,
    )


ONE_THREAD = use(cpu=cpu(1.0), tasks=(task("gzip", 0.99),))
ALL_BUSY = use(
    cpu=cpu(1.96, runnable=4.0), tasks=tuple(task("cc1", 0.49, waiting=0.5) for _ in range(4))
)
NEIGHBOUR = use(
    cpu=cpu(0.7, 1.3, runnable=4.0),
    tasks=(task("cc1", 0.7, waiting=0.3),),
    others=(TaskUse(9, 0, "sha256sum", 0.65, of="other"),) * 2,
)
GENERATOR = use(
    cpu=cpu(0.97, 0.6, runnable=1.6),
    tasks=(task("ab", 0.97),),
    others=(TaskUse(9, 0, "nginx", 0.3, of="other"),) * 2,
)
SWAPPING = use(memory=memory(swap_total=512 * MIB, swapped_in=200 * MIB, swapped_out=150 * MIB))
MEMORY_LIMIT = use(
    memory=memory(refaults=50_000),
    cgroups=(group(memory_limit=64 * MIB, memory_max=64 * MIB, memory_limit_hits=9000),),
)


def waiting(kind: WaitKind, share: float = 0.95, **more: Any) -> ResourceUse:
    """Return a window in which the trial's only thread waited."""
    call, what = {
        "disk": ("fdatasync", "file /data/log"),
        "network": ("recvfrom", "tcp 127.0.0.1:8080"),
        "locks": ("futex", ""),
        "pipe": ("read", "pipe"),
        "sleep": ("clock_nanosleep", ""),
        "ring": ("io_uring_enter", ""),
        "other": ("rt_sigsuspend", ""),
    }[kind]
    wait = WaitUse(kind, share, "work", call, what)
    parts = {
        "cpu": cpu(0.02),
        "tasks": (task(share=0.02),),
        "off_cpu": OffCpuUse(0.97, 90, (wait,)),
        "losses": OwnLosses(major_faults=0),
    }
    return use(**(parts | more))


def test_every_code_has_a_case_on_both_sides() -> None:
    covered = {code for code, _ in LIMITED}
    # A capacity that the user states is no figure of a window.
    assert covered | {"device-limit"} == set(LIMITER_CODES)


LIMITED = [
    ("throttled-by-cgroup-quota", use(cgroups=(quota(30, 0.6),))),
    (
        "io-throttled",
        use(
            disks=(disk(0.01, 0.1),), cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=105.0)),)
        ),
    ),
    ("swapping", SWAPPING),
    ("memory-limit", MEMORY_LIMIT),
    ("fd-limit", use(files=FilesOpen(3, "wrk", 47, 48))),
    ("pids-limit", use(cgroups=(group(pids_limit=100, pids_max=99),))),
    ("generator-bound", GENERATOR),
    ("memory-pressure", use(memory=memory(pressure=0.12))),
    ("disk-stalled", use(disks=(disk(0.9, 1.0, longest_stall_s=1.2),))),
    ("disk-saturated", waiting_for_io(disks=(disk(0.97, 7.0),))),
    ("noisy-neighbour", NEIGHBOUR),
    ("steal", use(cpu=cpu(1.2, steal=0.2))),
    ("network-limit", use(networks=(network(receive_bytes_per_s=119e6, speed_bits_per_s=1e9),))),
    ("cpu-saturated", ALL_BUSY),
    ("single-threaded-cpu-bound", ONE_THREAD),
    (
        "too-few-threads",
        use(cpu=cpu(3.0, count=8), tasks=tuple(task("xhpl", 0.99) for _ in range(3))),
    ),
    ("waits-for-disk", waiting("disk")),
    ("waits-for-network", waiting("network")),
    ("waits-for-locks", waiting("locks")),
    ("waits-for-pipe", waiting("pipe")),
    ("sleeps", waiting("sleep")),
    ("swapping", waiting("other", memory=SWAPPING.memory, losses=OwnLosses(major_faults=900))),
    ("memory-pressure", use(memory=memory(pressure=0.12), losses=OwnLosses(major_faults=400))),
    ("waits-for-disk", waiting("ring", own_io=TreeIo(MIB, 0, MIB, 0, 9, 0))),
    # Others took a CPU for half of the time: of the rest, it slept.
    ("sleeps", waiting("sleep", 0.3, tasks=(task(share=0.1, waiting=0.5),))),
]

FREE = [
    ("few periods", use(cgroups=(quota(20, 0.6),))),
    ("short stops", use(cgroups=(quota(30, 0.3),))),
    (
        "far below an I/O limit",
        use(
            disks=(disk(0.01, 0.1),), cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=115.0)),)
        ),
    ),
    (
        "far above an I/O limit, which is for other I/O",
        use(
            disks=(disk(0.01, 0.1),), cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=50.0)),)
        ),
    ),
    (
        "a limit of another program's device",
        use(
            disks=(disk(0.01, 0.1),),
            cgroups=(throttled(IoLimit("8:0", "vda", reads_per_s=105.0)),),
            own_io=TreeIo(0, 60 * MIB, 0, 60 * MIB, 0, 60),
            devices=("sdb",),
        ),
    ),
    (
        "another disk's limit",
        use(
            disks=(disk(0.01, 0.1),),
            cgroups=(throttled(IoLimit("8:16", "vdb", reads_per_s=100.0)),),
        ),
    ),
    ("idle pages went to swap space", use(memory=memory(swapped_out=200 * MIB))),
    ("a little swapping", use(memory=memory(swapped_in=5 * MIB, swapped_out=3 * MIB))),
    (
        "a page cache fills a memory limit",
        use(cgroups=(group(memory_limit=64 * MIB, memory_max=64 * MIB, memory_limit_hits=90),)),
    ),
    ("some files open", use(files=FilesOpen(3, "wrk", 45, 48))),
    ("no limit of files", use(files=FilesOpen(3, "wrk", 4500, None))),
    ("some processes", use(cgroups=(group(pids_limit=100, pids_max=97),))),
    ("a little pressure", use(memory=memory(pressure=0.08))),
    ("a slow request", use(disks=(disk(0.5, 1.0, longest_stall_s=0.4),))),
    ("a short stall of a long run", use(disks=(disk(0.5, 1, longest_stall_s=0.9),))),
    (
        "busy with a short queue",
        waiting_for_io(io_pressure=0.2, disks=(disk(0.97, 1.2),), cpu=cpu(0.1)),
    ),
    ("a queue and time to spare", waiting_for_io(disks=(disk(0.85, 7.0),), cpu=cpu(0.1))),
    ("a disk that others use", use(disks=(disk(0.99, 9.0, read_bytes_per_s=50e6),))),
    ("neighbours that leave room", use(cpu=cpu(0.8, 0.9), tasks=(task(share=0.8, waiting=0.02),))),
    (
        "a light load beside neighbours that use all",
        use(cpu=cpu(0.05, 1.95, runnable=4.0), tasks=(task(share=0.05, waiting=0.03),)),
    ),
    ("a little steal", use(cpu=cpu(1.2, steal=0.05))),
    ("half a link", use(networks=(network(send_bytes_per_s=100e6, speed_bits_per_s=1e9),))),
    ("a link of no speed", use(networks=(network("lo", send_bytes_per_s=9e9),))),
    ("most of both processors", use(cpu=cpu(1.7), tasks=(task(share=0.85), task(share=0.85)))),
    ("most of a CPU", use(cpu=cpu(0.85), tasks=(task(share=0.85),))),
    ("two half threads", use(cpu=cpu(1.0), tasks=(task(share=0.5),) * 2)),
    ("swapping of others", use(memory=SWAPPING.memory, losses=OwnLosses(major_faults=3))),
    (
        "few of many faults",
        use(
            memory=memory(swapped_in=200 * MIB, pressure=0.5, major_faults=50_000),
            losses=OwnLosses(major_faults=400),
        ),
    ),
    (
        "a task killed at the limit of another cgroup",
        use(memory=memory(oom_kills=1), losses=OwnLosses(major_faults=0)),
    ),
    ("some waiting", waiting("disk", 0.4)),
    ("a wait for a signal", waiting("other")),
    ("a ring of sockets", waiting("ring", own_io=None)),
    ("a generator waits", waiting("network", tasks=(task("wrk", 0.02),))),
    ("nothing seen", ResourceUse(seconds=10.0, samples=100, epochs=(1, 1))),
]


@pytest.mark.parametrize(("code", "seen"), LIMITED, ids=[c for c, _ in LIMITED])
def test_a_limit_is_named_first(code: str, seen: ResourceUse) -> None:
    assert codes(seen)[:1] == [code]


@pytest.mark.parametrize("seen", [seen for _, seen in FREE], ids=[n for n, _ in FREE])
def test_what_is_no_limit_is_not_named(seen: ResourceUse) -> None:
    assert codes(seen) == []


@pytest.mark.parametrize("seen", [seen for _, seen in LIMITED], ids=[c for c, _ in LIMITED])
def test_a_short_window_has_no_limit(seen: ResourceUse) -> None:
    for short in ({"samples": 2}, {"seconds": 0.2}):
        assert codes(msgspec.structs.replace(seen, **short)) == []


def test_a_window_that_is_just_long_enough_has_its_limit() -> None:
    seen = msgspec.structs.replace(ONE_THREAD, samples=3, seconds=0.25)
    assert codes(seen) == ["single-threaded-cpu-bound"]


def test_evidence_has_figures_with_units() -> None:
    evidence = {limit.code: limit.evidence for _, one in LIMITED for limit in limiters(one)}
    assert evidence["throttled-by-cgroup-quota"] == (
        "cgroup /bench was throttled by its CPU quota in 30 of 100 periods, 0.60 thread-seconds in "
        "10.00 s; "
        "used 0.5 CPUs of 0.5"
    )
    assert evidence["single-threaded-cpu-bound"] == (
        "thread gzip used 99 % of a CPU; 0.98 CPUs of 2 idle"
    )
    assert (
        "vda busy 97 % with 7.0 requests in flight, 10 ms a request" in evidence["disk-saturated"]
    )
    assert (
        evidence["noisy-neighbour"]
        == "other processes cost about 30 % of the elapsed time: they used 1.3 CPUs of 2 (2 x sha256sum "
        "1.3 CPUs), and its threads spent 30 % of the time waiting for a CPU"
    )
    assert evidence["steal"] == (
        "CPU steal: 14.1 % (0.2 CPUs): it cost about 14.1 % of the elapsed time"
    )
    assert evidence["fd-limit"] == "wrk (3) had 47 of 48 files open"
    assert "119 MB/s on the wire, 95.2 % of 125 MB/s" in evidence["network-limit"]


def test_a_wait_names_its_share_its_call_and_its_peer() -> None:
    found = {kind: limiters(waiting(kind))[0].evidence for kind in KINDS}
    assert found["network"] == (
        "waited 95 % of the time for the network peer 127.0.0.1:8080 (work in recvfrom; 90 samples)"
    )
    assert found["locks"] == "waited 95 % of the time for locks (work in futex; 90 samples)"
    assert found["sleep"] == "slept 95 % of the time (work in clock_nanosleep; 90 samples)"
    timer = OffCpuUse(0.97, 90, (WaitUse("sleep", 0.95, "java", "futex", threads=3),))
    assert limiters(waiting("sleep", off_cpu=timer))[0].evidence == (
        "slept 95 % of the time (java in futex, with a time limit; 90 samples)"
    )
    buffer = WaitUse(*("other", 0.95, "head", "write", "memory /memfd:x"), "shmem_file_write_iter")
    memory = what_it_waited_for(waiting("other", off_cpu=OffCpuUse(0.97, 90, (buffer,))))
    assert sentence(WAITED, states(**memory)) == (
        "waited 95 % of the time for a file in memory (head in write of /memfd:x, shmem_file_write_iter; 90 samples)"
    )
    assert "one request at a time" in found["disk"]
    assert "work in fdatasync of /data/log" in found["disk"]
    one = limiters(waiting("disk", disks=(disk(0.6, 0.6),)))[0]
    assert "vda, one request at a time (10 ms each; work in fdatasync" in one.evidence


KINDS: tuple[WaitKind, ...] = ("disk", "network", "locks", "pipe", "sleep")


def test_another_limit_explains_the_waits() -> None:
    assert codes(waiting("disk", cgroups=(quota(90, 5.0),))) == ["throttled-by-cgroup-quota"]
    beside = waiting(
        "sleep", cpu=cpu(0.02, 1.96, runnable=3.0), tasks=(task(share=0.02, waiting=0.4),)
    )
    assert codes(beside)[-1] == "sleeps"


def test_neighbours_of_one_name_are_told_together_and_who_used_most_first() -> None:
    used = [("make", 0.2), *[("cc1", 0.1)] * 3, *[("sh", 0.01)] * 2, ("cat", 0.01)]
    others = [TaskUse(9, 0, name, share, of="other") for name, share in used]
    others.append(TaskUse(9, 0, "[kswapd0]", 0.5, of="other"))
    (limit,) = limiters(msgspec.structs.replace(NEIGHBOUR, others=tuple(others)))
    named = "(the busiest: 3 x cc1 0.3 CPUs, make 0.2 CPUs, 2 x sh 0.02 CPUs)"
    assert f"they used 0.8 CPUs of 2 {named}, and" in limit.evidence


def test_what_explains_more_comes_first() -> None:
    both = use(
        cpu=cpu(0.5),
        tasks=(task(share=0.5),),
        cgroups=(quota(90, 5.0), *MEMORY_LIMIT.cgroups),
        memory=memory(refaults=50_000, swapped_in=100 * MIB, swapped_out=90 * MIB),
    )
    assert codes(both) == ["throttled-by-cgroup-quota", "swapping", "memory-limit"]


def test_rates_are_judged_where_the_disk_was_used() -> None:
    limit = throttled(IoLimit("8:0", "vda", reads_per_s=140.0))
    assert codes(use(disks=(disk(0.01, 0.1),), cgroups=(limit,))) == []
    assert codes(use(disks=(disk(0.01, 0.1, active=0.72),), cgroups=(limit,))) == ["io-throttled"]
    assert codes(use(disks=(disk(0.01, 0.1, active=0.4),), cgroups=(limit,))) == []
    starting = waiting_for_io(disks=(disk(0.8, 6.0, active=0.82),))
    assert codes(starting) == ["disk-saturated"]


def test_a_disk_at_depth_one_limits_who_waits_for_it() -> None:
    assert codes(waiting_for_io(disks=(disk(0.93, 0.93),))) == ["disk-saturated"]


def test_a_busy_disk_is_no_limit_of_a_busy_thread() -> None:
    busy = (disk(1.0, 4.0),)
    seen = use(cpu=cpu(1.0), tasks=(task("dd", 0.97),), disks=busy, own_io=None)
    assert codes(seen) == ["single-threaded-cpu-bound"]


def test_a_thread_is_bound_while_it_runs_at_all() -> None:
    late = task("fio", 0.8, busiest_share=0.99, seen_s=8.0)
    assert codes(use(cpu=cpu(0.82), tasks=(late,))) == ["single-threaded-cpu-bound"]
    seldom = task("fio", 0.5, busiest_share=0.99, seen_s=5.0)
    assert codes(use(cpu=cpu(0.52), tasks=(seldom,))) == []


def test_processes_that_take_turns_are_one_thread() -> None:
    turns = tuple(task("cc1", 0.03, busiest_share=1.0, seen_s=0.3) for _ in range(8))
    assert codes(use(cpu=cpu(0.96), tasks=turns)) == ["single-threaded-cpu-bound"]
    lasting = tuple(task("worker", 0.12, seen_s=10.0) for _ in range(8))
    assert codes(use(cpu=cpu(0.96), tasks=lasting)) == []


@pytest.mark.parametrize("number", [2, 3, 8])
def test_threads_that_take_turns_are_one_thread(number: int) -> None:
    """Under one lock whose holder computes: exactly one is ready in nearly every sample."""
    workers = tuple(task("worker", 1.0 / number) for _ in range(number))

    def seen(alone: int, own: float = 1.0) -> ResourceUse:
        off = OffCpuUse(0.02, 2, (), 100, alone)
        return use(cpu=cpu(own), tasks=workers, off_cpu=off)

    assert codes(seen(92)) == ["single-threaded-cpu-bound"]
    (limit,) = limiters(seen(92))
    assert limit.evidence == (
        "threads that take turns, one at a time in 92 of 100 samples, in total 1 CPU; 0.98 "
        "CPUs of 2 idle"
    )
    assert codes(seen(50)) == [], "by chance"
    assert codes(seen(92, 0.7)) == []


def test_two_whole_threads_of_four_processors_are_bound() -> None:
    two = (task("a", 0.98), task("b", 0.97))
    (limit,) = limiters(use(cpu=cpu(1.96, count=4), tasks=two))
    assert limit.evidence.startswith("threads a used 98 % and b used 97 %")


def test_threads_kept_on_one_processor_have_no_more() -> None:
    kept = tuple(task("w", 0.49, waiting=0.5, cpus=(0,)) for _ in range(2))
    starter = task("bw-launcher", 0.001, cpus=())
    (limit,) = limiters(use(cpu=cpu(0.98, each=(0.98, 0.03)), tasks=(*kept, starter)))
    assert limit.code == "cpu-saturated"
    assert "0.98 CPUs of the 1 CPU that it may use (affinity" in limit.evidence


def test_others_cost_a_pinned_trial_no_more_than_its_processor_had_left() -> None:
    """Six threads on one processor of a full machine, as `taskset -c 0` leaves them."""
    pinned = tuple(task("python3", 0.048, waiting=0.9, cpus=(0,)) for _ in range(6))
    seen = cpu(0.29, 1.71, each=(1.0, 1.0))
    (limit, *_) = limiters(use(cpu=seen, tasks=pinned))
    assert limit.code == "noisy-neighbour"
    assert "about 67.3 % of the elapsed time: they used 0.71 CPUs of 1" in limit.evidence
    (limit, *_) = limiters(use(cpu=seen, tasks=pinned, others=(task("java", 1.7, of="other"),)))
    assert "of 1 (on all CPUs, java 1.7 CPUs), and" in limit.evidence
    anywhere = tuple(task("python3", 0.048, waiting=0.9, cpus=()) for _ in range(6))
    (limit, *_) = limiters(use(cpu=seen, tasks=anywhere))
    assert "they used 1.71 CPUs of 2" in limit.evidence


def test_a_generator_is_bound_only_if_it_drives_something_that_has_room() -> None:
    alone = use(cpu=cpu(0.97), tasks=(task("wrk", 0.97),))
    assert codes(alone) == ["single-threaded-cpu-bound"]
    remote = use(
        cpu=cpu(0.97), tasks=(task("wrk", 0.97),), networks=(network(send_packets_per_s=9000.0),)
    )
    assert codes(remote)[0] == "generator-bound"
    server = task("nginx", 0.98, of="target")
    both = use(cpu=cpu(0.97, target=0.98), tasks=(server, task("wrk", 0.97)))
    assert codes(both) == ["cpu-saturated"]
    started = use(
        cpu=cpu(1.95), tasks=(task("nginx", 0.98), task("wrk", 0.97)), networks=remote.networks
    )
    assert codes(started) == ["cpu-saturated"]
    idle = use(cpu=cpu(0.5, target=0.98, count=4), tasks=(server, task("wrk", 0.5)))
    assert codes(idle) == ["single-threaded-cpu-bound"]


def test_a_generator_that_never_rests_is_bound_though_it_shares_a_processor() -> None:
    server = TaskUse(9, 0, "nginx", 0.8, of="other")
    for share, waiting, found in (
        (0.73, 0.19, "generator-bound"),
        (0.73, 0.10, ""),
        (0.55, 0.40, ""),
    ):
        ab = task("ab", share, waiting=waiting)
        seen = use(cpu=cpu(share, 0.85), tasks=(ab,), others=(server,))
        assert ("generator-bound" in codes(seen)) is bool(found)


def test_a_thread_that_was_always_ready_is_bound() -> None:
    ready = task("gzip", 0.87, waiting=0.10)
    assert codes(use(cpu=cpu(0.87), tasks=(ready,))) == ["single-threaded-cpu-bound"]
    resting = task("gzip", 0.87, waiting=0.02)
    assert codes(use(cpu=cpu(0.87), tasks=(resting,))) == []


def test_our_engine_spins_and_is_bound_only_where_it_is_late() -> None:
    spinning = use(cpu=cpu(0.99, target=0.3), tasks=(task("bw-worker-0", 0.99),))
    assert codes(spinning) == []
    assert codes(spinning, LimiterContext(late=True))[0] == "generator-bound"


def test_the_kernels_threads_and_a_driven_server_are_no_neighbours() -> None:
    worker = TaskUse(9, 0, "[kworker/u8:2-loop1]", 1.2, of="other")
    seen = use(
        cpu=cpu(0.6, 1.25, runnable=3.0), tasks=(task("fio", 0.6, waiting=0.3),), others=(worker,)
    )
    assert "noisy-neighbour" not in codes(seen)
    assert "noisy-neighbour" not in codes(GENERATOR)


def test_a_cgroup_whose_task_was_killed_reached_its_limit() -> None:
    """Though the kernel did not count that it did."""
    held = group(memory_limit=64 * MIB, memory_max=64 * MIB, memory_limit_hits=0, oom_kills=1)
    (limit,) = limiters(use(cgroups=(held,)))
    assert limit.code == "memory-limit"
    assert "reached its limit 1 time; the kernel killed 1 task" in limit.evidence


def test_neighbours_are_known_by_the_run_queue_where_no_thread_is() -> None:
    seen = use(cpu=cpu(1.3, 0.7, runnable=3.0), tasks=())
    assert codes(seen) == ["noisy-neighbour", "cpu-saturated"]
    light = use(cpu=cpu(0.15, 1.85, runnable=5.0), tasks=())
    assert codes(light) == []
    squeezed = use(cpu=cpu(0.25, 1.75, runnable=5.0), tasks=())
    assert codes(squeezed) == ["noisy-neighbour"]
    # A program that used 22 % of a CPU cannot have lost more than the rest to a long queue.
    crowded = use(cpu=cpu(0.22, 1.74, runnable=15.7), tasks=())
    (limit,) = limiters(crowded)
    assert "cost about 78 % of the elapsed time" in limit.evidence
    alone = use(cpu=cpu(1.98, 0.02, runnable=3.0), tasks=())
    assert codes(alone) == ["cpu-saturated"]


@pytest.mark.parametrize(
    ("idle", "cost"), [(0, "84 %"), (22, "31 %"), (32, "6 %"), (36, None), (40, None)]
)
def test_sleep_between_brief_processes_is_not_lost_to_neighbours(
    idle: int, cost: str | None
) -> None:
    """A program on one CPU sleeps, and its processes are too short to be recorded: in `idle` of 40
    samples none of its threads ran or was ready."""
    off = OffCpuUse(0.82, idle, (), 40)
    found = limiters(use(cpu=cpu(0.14, 1.86, runnable=14.0), tasks=(), off_cpu=off))
    evidence = [one.evidence for one in found if one.code == "noisy-neighbour"]
    assert len(evidence) == (cost is not None)
    assert all(f"cost about {cost} of the elapsed time" in text for text in evidence)


def test_sleep_before_a_thread_begins_is_not_lost_to_neighbours() -> None:
    """One thread that hardly works lives all the time, another the last 6 of 10 s."""
    rare = task("a", 0.05, waiting=0.05, seen_s=10.0)
    late = task("b", 0.3, waiting=0.3, seen_s=6.0)
    found = limiters(use(seconds=10.0, cpu=cpu(0.35, 1.65, runnable=3.0), tasks=(rare, late)))
    (limit,) = [one for one in found if one.code == "noisy-neighbour"]
    assert "cost about 35 % of the elapsed time" in limit.evidence


def test_a_stated_speed_counts_for_a_link_that_tells_none() -> None:
    shaped = use(networks=(network("veth0", send_bytes_per_s=12.2e6),))
    assert codes(shaped) == []
    stated = LimiterContext((StatedCapacity("veth0", 12.5e6),))
    assert codes(shaped, stated) == ["network-limit"]


def test_a_stated_number_of_requests_is_a_limit_of_a_disk() -> None:
    half = use(disks=(disk(0.3, 0.4, active=0.5, writes_per_s=90.0),))
    for most, found in ((400.0, ["device-limit"]), (430.0, []), (290.0, [])):
        for name in ("vda", "vda+vdb"):
            stated = LimiterContext((StatedCapacity(name, most, "1/s"),))
            assert codes(half, stated) == found
    (limit,) = limiters(half, LimiterContext((StatedCapacity("vda", 400.0, "1/s"),)))
    assert limit.evidence == (
        "vda: 380 requests/s during the 50 % of the time in which it was used, 95 % of the 400 that "
        "vda is stated to have"
    )
    foreign = use(disks=half.disks, own_io=TreeIo(0, 0, 0, 0))
    assert codes(foreign, LimiterContext((StatedCapacity("vda", 400.0, "1/s"),))) == []


def test_the_whole_machine_may_have_too_many_files_open() -> None:
    assert codes(use(files_of_machine=(999, 1000))) == ["fd-limit"]
    assert codes(use(files_of_machine=(900, 1000))) == []


def test_cpus_that_others_filled_are_not_a_limit_of_the_trial() -> None:
    waits = tuple(task("w", 0.235, waiting=0.7) for _ in range(2))
    others = (
        TaskUse(7, 7, "python", 0.2, of="other"),
        TaskUse(8, 8, "bw-launcher", 0.03, of="other"),
    )
    seen = use(cpu=cpu(0.47, 1.41, runnable=6.0), tasks=waits, others=others)
    (limit,) = limiters(seen)
    assert limit.code == "noisy-neighbour"
    assert (
        "(python 0.2 CPUs, 1.18 CPUs of unidentified processes, probably short-lived)"
        in limit.evidence
    )
    many = tuple(TaskUse(n, n, "python", 0.01, of="other") for n in range(MOST_OTHERS))
    (limit,) = limiters(msgspec.structs.replace(seen, others=many))
    rest = cpus_text(1.41 - 0.01 * MOST_OTHERS)
    assert f"{rest} of other processes, probably small or short-lived" in limit.evidence


@pytest.mark.parametrize(
    ("samples", "watched", "major_faults", "found"),
    [
        (90, 100, 50, ["waits-for-disk"]),
        (2, 2, 50, []),  # too few samples to tell
        (10, 100, 50, []),  # in nine of ten samples it ran, or was ready to
        (90, 100, 0, []),  # no page was read
    ],
)
def test_a_wait_for_pages_needs_samples_and_pages_that_were_read(
    samples: int, watched: int, major_faults: int, found: list[str]
) -> None:
    wait = WaitUse("disk", 0.9, "burn", "page fault")
    seen = use(
        cpu=cpu(0.05),
        off_cpu=OffCpuUse(0.95, samples, (wait,), watched),
        losses=OwnLosses(major_faults=major_faults),
    )
    assert codes(seen) == found
