"""Limits on a machine of 64 CPUs, and what somebody else's work there is no limit of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchwright.core.resource_use import IoLimit, ResourceUse, TaskUse, TreeIo
from benchwright.findings.codes import stated_text
from benchwright.findings.limiter import limiters
from benchwright.findings.limiter_io import network_limit
from benchwright.findings.resources import steal_evidence
from watched_uses import MIB, codes, cpu, disk, group, network, task, throttled, use, waiting_for_io


def other(name: str, share: float) -> TaskUse:
    """Return a process of somebody else."""
    return TaskUse(9, 0, name, share, of="other")


def each(busy: int) -> tuple[float, ...]:
    """Return 64 CPUs, of which the first few are busy."""
    return (1.0,) * busy + (0.0,) * (64 - busy)


def large(own: float, beside: float = 0.05, **more: Any) -> ResourceUse:
    """Return what a trial used of 64 CPUs."""
    parts = {key: more.pop(key) for key in ("each", "target", "kernel", "iowait") if key in more}
    runnable = more.pop("runnable", own + beside)
    return use(cpu=cpu(own, beside, count=64, runnable=runnable, **parts), **more)


SPINNER = (task("sysbench", 0.995),)


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({"networks": (network(receive_packets_per_s=120.0),)}, False),
        ({"networks": (network(send_packets_per_s=90e3),)}, False),
        ({"others": (other("mysqld", 0.001),)}, False),
        ({"others": (other("mysqld", 0.06),)}, True),
    ],
    ids=["a shell", "somebody's traffic", "an idle server", "a server at work"],
)
def test_sysbench_is_a_generator_only_if_a_server_worked(more: dict[str, Any], bound: bool) -> None:
    seen = large(1.0, tasks=SPINNER, **more)
    first = "generator-bound" if bound else "single-threaded-cpu-bound"
    assert codes(seen)[0] == first


@pytest.mark.parametrize(("packets", "bound"), [(900.0, False), (1100.0, True)])
def test_a_generator_of_a_server_elsewhere_has_packets(packets: float, bound: bool) -> None:
    seen = large(1.0, tasks=(task("wrk", 0.99),), networks=(network(send_packets_per_s=packets),))
    assert ("generator-bound" in codes(seen)) is bound


@pytest.mark.parametrize(
    ("server", "share", "bound"),
    [
        ("mysqld", 1.2, True),
        ("mysqld", 1.05, False),
        ("mysqld", 0.8, True),
        ("redis-server", 1.9, False),
    ],
)
def test_a_server_of_many_threads_has_room(server: str, share: float, bound: bool) -> None:
    seen = large(1.0, share, tasks=SPINNER, others=(other(server, share),))
    assert ("generator-bound" in codes(seen)) is bound


def test_a_server_that_left_no_processor_has_no_room() -> None:
    seen = use(
        cpu=cpu(0.75, 1.2), tasks=(task("wrk", 0.75, waiting=0.2),), others=(other("mysqld", 1.2),)
    )
    assert "generator-bound" not in codes(seen)


PINNED = tuple(task("app", 0.25, waiting=0.75) for _ in range(4))


def test_a_pinned_trial_is_not_limited_by_neighbours_elsewhere() -> None:
    apart = (1.0, *(0.0,) * 4, 1.0, *(0.0,) * 58)
    pinned = tuple(msgspec.structs.replace(one, cpus=(0,)) for one in PINNED)
    assert codes(large(1.0, 1.0, each=apart, tasks=pinned)) == ["cpu-saturated"]
    unknown = large(1.0, 1.0, each=apart, tasks=PINNED, others=(other("java", 1.0),))
    assert codes(unknown) == []
    held = large(1.0, 1.0, each=apart, tasks=PINNED, cgroups=(group(cpus=(0,)),))
    assert codes(held) == ["cpu-saturated"]


def test_a_pinned_trial_is_limited_by_neighbours_on_its_processor() -> None:
    half = (task("app", 0.5, waiting=0.5),)
    pinned = (task("app", 0.5, waiting=0.5, cpus=(0,)),)
    assert codes(large(0.5, 0.5, each=each(1), tasks=pinned)) == ["noisy-neighbour"]
    held = (group(cpus=(0,)),)
    seen = large(0.5, 0.5, each=each(1), tasks=half, cgroups=held)
    (limit,) = limiters(seen)
    assert limit.code == "noisy-neighbour"
    assert (
        "50 % of the elapsed time: they used 0.5 CPUs of 1 (0.5 CPUs of unidentified "
        in limit.evidence
    )
    room = large(0.5, 5.0, each=(0.6, *(0.1,) * 63), tasks=half, cgroups=held)
    assert codes(room) == []


@pytest.mark.parametrize("tasks", [(task("cc1", 0.25, waiting=0.75),) * 8, ()])
def test_a_trial_of_too_many_threads_waits_for_itself(tasks: tuple[TaskUse, ...]) -> None:
    """Its threads wait 75 % of their time; others cost it no more than they used."""
    crowd = large(62.0, 2.0, runnable=256.0, tasks=tasks)
    assert codes(crowd) == ["cpu-saturated"]
    beside = limiters(large(57.0, 7.0, runnable=256.0, tasks=tasks))
    assert [one.code for one in beside] == ["noisy-neighbour", "cpu-saturated"]
    assert "cost about 10.9 % of the elapsed time" in beside[0].evidence


@pytest.mark.parametrize(
    ("used", "found"), [(3.4, []), (3.7, ["cpu-saturated"])], ids=["room", "full"]
)
def test_a_cpuset_that_is_full_is_the_limit(used: float, found: list[str]) -> None:
    pool = tuple(task("pool", used / 32, waiting=0.8) for _ in range(8))
    held = (group(cpus=(0, 1, 2, 3)),)
    busy = ((used / 4,) * 4) + (0.0,) * 60
    for told in (busy, ()):
        seen = large(used, each=told, tasks=pool, cgroups=held)
        assert codes(seen) == found
    everywhere = (group(cpus=tuple(range(64))),)
    assert codes(large(used, each=busy, tasks=pool, cgroups=everywhere)) == []


def test_a_targets_cpuset_is_filled_by_the_target() -> None:
    held = (group(of="target", cpus=(0, 1)),)
    tasks = tuple(task("java", 0.1, of="target", waiting=0.9) for _ in range(8))
    seen = large(0.1, target=1.95, each=each(2), tasks=tasks, cgroups=held)
    assert codes(seen) == ["cpu-saturated"]
    assert codes(large(1.95, target=0.1, tasks=tasks, cgroups=held)) == []


@pytest.mark.parametrize(
    ("threads", "code"),
    [
        (1, "single-threaded-cpu-bound"),
        (2, "single-threaded-cpu-bound"),
        (3, "too-few-threads"),
        (32, "too-few-threads"),
        (64, "cpu-saturated"),
    ],
)
def test_many_whole_threads_are_not_one(threads: int, code: str) -> None:
    tasks = tuple(task("xhpl", 1.0) for _ in range(min(threads, 8)))
    assert codes(large(float(threads), tasks=tasks, working=(threads, 0))) == [code]


@pytest.mark.parametrize("working", [None, (48, 0)])
def test_threads_that_are_not_kept_may_be_no_whole_ones(working: tuple[int, int] | None) -> None:
    """Eight at 91 %, and forty at 60 %; or how many worked is not known."""
    tasks = tuple(task("pool", 0.91) for _ in range(8))
    assert codes(large(31.3, tasks=tasks, working=working)) == []


def test_whole_threads_on_a_full_machine_are_not_too_few() -> None:
    tasks = tuple(task("xhpl", 0.99) for _ in range(3))
    assert codes(large(3.0, 61.0, tasks=tasks)) == []


@pytest.mark.parametrize(
    "other",
    [
        task("xhpl", 0.5),  # one that mostly works too, and waits
        task("java", 0.8),
    ],
)
def test_whole_threads_beside_others_that_wait_are_not_too_few(other: TaskUse) -> None:
    whole = tuple(task("xhpl", 1.0) for _ in range(4))
    assert codes(large(4.0 + other.share, tasks=(*whole, other))) == []


def test_the_evidence_of_too_few_threads() -> None:
    eight = tuple(task("xhpl", share) for share in (1.0, *(0.97,) * 7))
    (found,) = limiters(large(32.0, tasks=eight, working=(33, 0)))
    assert found.evidence == (
        "33 threads of the trial, each 97 to 100 % of a CPU; 32 CPUs of 64 idle"
    )
    server = tuple(task("mariadbd", 0.99, of="target") for _ in range(3))
    (found,) = limiters(large(0.2, target=2.97, tasks=server))
    assert found.evidence.startswith("3 threads of the target, each 99 % of a CPU")


def test_one_whole_thread_of_much_other_work_is_no_limit() -> None:
    whole = (task("a", 0.95), *(task("a", 0.85) for _ in range(7)))
    assert codes(large(29.0, tasks=whole)) == []
    helped = (task("a", 0.95), *(task("a", 0.3) for _ in range(7)))
    assert codes(large(3.0, tasks=helped)) == ["single-threaded-cpu-bound"]
    spinning = tuple(task(f"bw-worker-{i}", 1.0) for i in range(6))
    server = task("nginx", 1.0, of="target")
    driven = large(6.0, target=1.0, tasks=(*spinning, server))
    assert codes(driven) == ["single-threaded-cpu-bound"]


KWORKERS = tuple(other(f"[kworker/u64:{i}]", 0.6) for i in range(5))


@pytest.mark.parametrize(("kernel", "first"), [(18.0, "cpu-saturated"), (3.0, "noisy-neighbour")])
def test_all_of_the_kernels_threads_are_no_neighbours(kernel: float, first: str) -> None:
    """Thirty of them at 0.6 each: the busiest five are a sixth."""
    fio = tuple(task("fio", 0.75, waiting=0.2) for _ in range(8))
    seen = use(
        cpu=cpu(12.0, 18.5, count=32, kernel=kernel, runnable=60.0), tasks=fio, others=KWORKERS
    )
    assert codes(seen)[0] == first


WRITE_BACK = TreeIo(0, 8 << 30, 0, 8 << 30)


@pytest.mark.parametrize(
    ("pressure", "iowait", "limited"),
    [(0.002, 0.3, False), (0.12, 0.0, True), (None, 0.05, False), (None, 0.15, True)],
)
def test_a_busy_device_limits_only_who_waits_for_it(
    pressure: float | None, iowait: float, limited: bool
) -> None:
    seen = large(
        40.0,
        iowait=iowait,
        tasks=(task("cc1plus", 0.4),) * 8,
        io_pressure=pressure,
        disks=(disk(0.97, 6.0, write_bytes_per_s=800e6),),
        own_io=WRITE_BACK,
    )
    assert ("disk-saturated" in codes(seen)) is limited


@pytest.mark.parametrize(("pressure", "limited"), [(0.95, True), (0.5, False)])
def test_a_thread_that_polls_does_not_hide_a_disk(pressure: float, limited: bool) -> None:
    poller = task("poller", 1.0, of="target")
    seen = large(
        0.0,
        target=4.0,
        tasks=(poller,),
        io_pressure=pressure,
        disks=(disk(1.0, 64.0),),
        target_io=TreeIo(MIB, 0, 8 * MIB, 0),
    )
    assert ("disk-saturated" in codes(seen)) is limited


def test_the_kernels_poller_of_a_ring_is_no_work() -> None:
    tasks = (task("iou-sqp-100", 1.0), task("fio", 0.3))
    io = TreeIo(8 * MIB, 0, 8 * MIB, 0)
    seen = large(1.3, tasks=tasks, io_pressure=0.3, disks=(disk(1.0, 32.0),), own_io=io)
    assert codes(seen) == ["disk-saturated"]
    assert codes(large(1.3, tasks=tasks)) == []


@pytest.mark.parametrize(("mine", "limited"), [(0, False), (8 * MIB, True)])
def test_limits_of_somebody_elses_requests(mine: int, limited: bool) -> None:
    io = TreeIo(mine, 0, mine, 0)
    limit = throttled(IoLimit("8:0", "vda", reads_per_s=100.0))
    seen = use(disks=(disk(0.01, 0.1),), cgroups=(limit,), own_io=io)
    assert codes(seen) == (["io-throttled"] if limited else [])
    none = {"reads_per_s": 0.0, "read_bytes_per_s": 0.0, "longest_stall_s": 6.0}
    still = use(disks=(disk(1.0, 1.0, **none),), own_io=io)
    assert codes(still) == (["disk-stalled"] if limited else [])


def test_a_disk_is_the_limit_where_nobody_tells_whose_requests_they_are() -> None:
    still = use(disks=(disk(1.0, 1.0, longest_stall_s=6.0),), own_io=None)
    assert codes(still) == ["disk-stalled"]
    busy = waiting_for_io(disks=(disk(0.97, 7.0),), own_io=None)
    assert codes(busy) == ["disk-saturated"]


def _steal(of: ResourceUse) -> str:
    shown = steal_evidence(of)
    assert shown is not None
    return stated_text("steal", shown)


def test_steal_needs_time_that_was_missed() -> None:
    idle = use(cpu=cpu(0.0, 0.02, steal=0.003), tasks=())
    assert codes(idle) == []
    assert steal_evidence(idle) is None
    assert codes(use(cpu=cpu(0.3, steal=0.045))) == []
    assert "CPU steal: 12.3 %" in _steal(use(cpu=cpu(0.3, steal=0.045)))
    assert codes(use(cpu=cpu(0.3, steal=0.055))) == ["steal"]
    assert steal_evidence(use(cpu=cpu(0.3, steal=0.055))) is None


def test_what_others_lost_is_no_trials_loss() -> None:
    """A sleep beside somebody whom the hypervisor took a seventh of a CPU from."""
    asleep = use(cpu=cpu(0.0, 1.13, steal=0.14), tasks=(task("sleep", 0.002),))
    assert codes(asleep) == []
    assert steal_evidence(asleep) is None
    little = use(cpu=cpu(0.12, 1.0, steal=0.14), tasks=(task("work", 0.12),))
    assert codes(little) == []
    assert "CPU steal: 11.1 %" in _steal(little)
    awake = use(cpu=cpu(0.6, 1.0, steal=0.16), tasks=(task("work", 0.6),))
    assert codes(awake) == ["steal"]


@pytest.mark.parametrize(("stopped", "limited"), [(3.9, False), (4.1, True)])
def test_a_stop_is_counted_on_each_processor(stopped: float, limited: bool) -> None:
    quota = group(cpu_limit_cores=8.0, periods=100, throttled=90, throttled_s=stopped)
    found = limiters(large(8.0, cgroups=(quota,), tasks=()))
    assert [one.code for one in found] == (["throttled-by-cgroup-quota"] if limited else [])
    if limited:
        assert "4.10 thread-seconds in 10.00 s" in found[0].evidence


def test_a_link_that_moved_more_than_its_speed_tells_none() -> None:
    for moved, limited in ((0.93, True), (1.04, True), (1.06, False), (16.0, False)):
        link = network("tun0", receive_bytes_per_s=moved * 1.25e6, speed_bits_per_s=1e7)
        assert (network_limit(use(networks=(link,))) is not None) is limited
