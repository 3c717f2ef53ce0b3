"""A test's findings from what was seen of the machine: limits of most of it, doubts of figures."""

from __future__ import annotations

from math import floor
from random import Random
from typing import Any

import msgspec
import pytest

from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import MetricSpec
from benchwright.core.resource_use import (
    ClockUse,
    IoLimit,
    KernelMessage,
    MemoryKill,
    OwnLosses,
    ResourceUse,
    SocketUse,
    TreeIo,
)
from benchwright.core.results import Finding, Severity
from benchwright.findings.codes import MACHINE_FINDING_CODES, stated_text
from benchwright.findings.examine import Questions, compute_findings
from benchwright.findings.limit import StatedCapacity, bytes_per_s, stated_rate
from benchwright.findings.result import TestResult
from benchwright.findings.sanity import (
    Claims,
    from_cache,
    grain_of,
    removed_work,
    split_by_ticks,
    with_sample,
)
from watched_uses import MIB, cpu, disk, group, memory, network, task, trial, use

BOUND = use(cpu=cpu(1.0), tasks=(task("gzip", 0.99),))
GIB = 1024 * MIB
KILLED = KernelMessage(1.0, 3, "Memory cgroup out of memory: Killed process 7 (sort)")


SENT = OwnLosses(segments_out=100_000)
LOST = SocketUse(retransmits=64, segments_out=18, listen_overflows=2, receive_errors=40)


def machine_findings(*uses: ResourceUse | None, claims: Claims | None = None) -> list[Finding]:
    """Return the machine's findings of a test with a trial for each use."""
    trials = [trial(epoch, seen) for epoch, seen in enumerate(uses, 1)]
    questions = Questions(claims or Claims())
    found = compute_findings(TestResult("t", whole_trials=trials), questions)
    return [one for one in found if one.code in CODES_HERE]


def codes(*uses: ResourceUse | None, **more: Any) -> list[str]:
    return [one.code for one in machine_findings(*uses, **more)]


CODES_HERE = frozenset(MACHINE_FINDING_CODES) | {"single-threaded-cpu-bound", "steal"}


def test_a_light_load_on_a_quiet_machine_has_no_finding() -> None:
    assert codes(use(), use(), use()) == []


def test_a_limit_is_one_finding_with_its_epochs() -> None:
    (one,) = machine_findings(BOUND, BOUND, use())
    assert one.code == "single-threaded-cpu-bound"
    assert one.severity is Severity.NOTE
    assert one.evidence.endswith("idle (trials 1, 2 (2 of 3))")
    (every,) = machine_findings(BOUND, BOUND)
    assert every.evidence.endswith("(all 2 trials)")


def test_a_limit_must_show_in_most_of_the_watched_time() -> None:
    assert codes(BOUND, use()) == []
    long = msgspec.structs.replace(BOUND, seconds=11.0)
    assert codes(long, use()) == ["single-threaded-cpu-bound"]


def test_trials_seen_together_name_all_their_epochs() -> None:
    together = msgspec.structs.replace(BOUND, epochs=(1, 3))
    trials = [trial(1, together), trial(2), trial(3), trial(4)]
    found = [
        one
        for one in compute_findings(TestResult("t", whole_trials=trials))
        if one.code in CODES_HERE
    ]
    assert [one.code for one in found] == ["single-threaded-cpu-bound", "not-watched"]
    assert "trials 1, 2, 3 (3 of 4)" in found[0].evidence
    assert found[1].evidence == "not watched: trial 4 (1 of 4)"
    assert "--no-watch" not in found[1].remedy


def test_trials_that_do_not_count_say_nothing() -> None:
    trials = [
        trial(1, use()),
        trial(2, BOUND, ending=TrialEnding.INTERRUPTED),
        trial(3, BOUND, warmup=True),
        trial(4, None, warmup=True),
    ]
    assert (
        not {one.code for one in compute_findings(TestResult("t", whole_trials=trials))}
        & CODES_HERE
    )


@pytest.mark.parametrize(
    ("code", "seen", "free"),
    [
        (
            "errors-in-kernel-log",
            use(kernel=(KernelMessage(1.5, 3, "I/O error, dev loop0"),)),
            use(kernel=(KernelMessage(1.5, 6, "loop0: detected capacity change"),)),
        ),
        (
            "errors-in-kernel-log",
            use(kernel=(KILLED,), cgroups=(group(),)),
            # The limit's own evidence, where the kernel counts it for the cgroup.
            use(kernel=(KILLED,), cgroups=(group(oom_kills=1),)),
        ),
        (
            "frequency-changed",
            use(clock=ClockUse(2.35e9, 3.0e9, 2.5e9)),
            use(clock=ClockUse(2.5e9, 3.0e9, 2.9e9)),
        ),
        (
            "thermal",
            use(clock=ClockUse(thermal_throttles=3, temperature_max=97.0)),
            use(clock=ClockUse(thermal_throttles=0, temperature_max=97.0)),
        ),
        (
            "network-errors",
            use(losses=OwnLosses(retransmits=120, segments_out=100_000)),
            use(losses=OwnLosses(retransmits=80, segments_out=100_000)),
        ),
        (
            "network-errors",
            use(losses=OwnLosses(retransmits=11, segments_out=100)),
            use(losses=OwnLosses(retransmits=9, segments_out=100)),
        ),
        (
            "network-errors",
            use(losses=OwnLosses(listen_drops=1, segments_out=1)),
            use(networks=(network(dropped=9),), losses=SENT),
        ),
        (
            "network-errors",
            use(losses=OwnLosses(datagram_drops=10), tasks=(task("dnsperf", 0.3),)),
            use(losses=OwnLosses(datagram_drops=9), tasks=(task("dnsperf", 0.3),)),
        ),
        (
            "network-errors",
            use(networks=(network(dropped=20),), losses=SENT),
            use(networks=(network(dropped=20),), losses=OwnLosses()),
        ),
        (
            "network-errors",
            use(networks=(network(errors=1),), losses=SENT),
            use(networks=(network(errors=1),), losses=OwnLosses()),
        ),
        # Recorded by a version that counted only those of the machine.
        ("network-errors", use(sockets=LOST, cpu=cpu(0.4, target=0.1)), use(sockets=LOST)),
        (
            "network-errors",
            use(sockets=LOST, losses=OwnLosses(absent="sock_diag"), tasks=(task("wrk", 0.3),)),
            use(sockets=LOST, losses=SENT),
        ),
        ("steal", use(cpu=cpu(1.2, steal=0.043)), use(cpu=cpu(1.2, steal=0.03))),
        (
            "not-watched",
            use(absent=(("kernel", "/dev/kmsg: Permission denied"),)),
            use(absent=(("frequency", "cpufreq: No such file or directory"),)),
        ),
    ],
)
def test_a_doubt_of_the_machine(code: str, seen: ResourceUse, free: ResourceUse) -> None:
    assert codes(seen, seen) == [code]
    assert codes(free, free) == []


def test_the_kernels_message_is_told_with_its_time() -> None:
    seen = use(
        kernel=(
            KernelMessage(0.5, 4, "workqueue: hogged CPU"),
            KernelMessage(1.5, 3, "Buffer I/O error"),
            KernelMessage(1.6, 4, "EXT4-fs error (device loop0)"),
        )
    )
    grave, warning = machine_findings(seen)
    assert grave.severity is Severity.SERIOUS
    assert grave.evidence == ("the kernel logged 'Buffer I/O error' after 1.5 s and 1 more message")
    assert (warning.code, warning.severity) == (grave.code, Severity.NOTE)


FLOOD = KernelMessage(1.5, 6, "TCP: request_sock_TCP: Possible SYN flooding on port 9.")


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (use(kernel=(FLOOD,), tasks=(task("wrk", 0.5),)), Severity.SERIOUS),
        (use(kernel=(FLOOD,), cpu=cpu(0.5, target=0.2)), Severity.SERIOUS),
        (use(kernel=(FLOOD,), tasks=(task("wrk", 0.5),), losses=OwnLosses()), Severity.NOTE),
        (
            use(kernel=(FLOOD,), tasks=(task("wrk", 0.5),), losses=OwnLosses(listen_drops=3)),
            Severity.SERIOUS,
        ),
        (use(kernel=(KernelMessage(1.5, 6, "EXT4-fs error"),)), Severity.SERIOUS),
    ],
)
def test_a_message_about_network_traffic_is_serious_only_if_the_trial_has_some(
    seen: ResourceUse, severity: Severity
) -> None:
    (one,) = (one for one in machine_findings(seen) if one.code == "errors-in-kernel-log")
    assert one.severity == severity


@pytest.mark.parametrize(
    "text",
    [
        "blk_update_request: I/O error, dev loop7, sector 12",
        "EXT4-fs error (device sdb): ext4_find_entry",
        "convert[812]: segfault at 8 ip 000055d sp 00007ff error 4",
        "Memory cgroup out of memory: Killed process 812 (convert) total-vm:90kB",
        "INFO: task convert:812 blocked for more than 120 seconds",
    ],
)
def test_a_message_about_another_device_or_process_is_a_note(text: str) -> None:
    message = KernelMessage(1.5, 3, text)
    seen = use(kernel=(message,), devices=("vda",))
    (one,) = machine_findings(seen)
    assert (one.code, one.severity) == ("errors-in-kernel-log", Severity.NOTE)
    device = text.partition("dev")[2].lstrip("ice ").split(",")[0].split(")")[0]
    mine = use(kernel=(message,), devices=("vda", device.strip()), tasks=(task("convert", 0.3),))
    (own,) = machine_findings(mine)
    assert own.severity is Severity.SERIOUS


@pytest.mark.parametrize(
    "text",
    [
        "ext4: Unknown parameter 'nonsense'",
        "tmpfs: Unknown parameter 'nonsense'",
        "FAT-fs (nbd3): bogus number of reserved sectors",
        "blk_update_request: I/O error, dev fd0, sector 0",
        "SQUASHFS error: zlib decompression failed, data probably corrupt",
        "e1000e: eth7: NIC Link is Down",
    ],
)
def test_an_error_of_the_kernel_that_names_nothing_of_the_trial_is_a_note(text: str) -> None:
    seen = use(kernel=(KernelMessage(1.5, 3, text),), devices=("vda",), tasks=(task("wrk", 0.5),))
    (one,) = machine_findings(seen)
    assert (one.code, one.severity) == ("errors-in-kernel-log", Severity.NOTE)


@pytest.mark.parametrize(
    "text",
    [
        "mce: [Hardware Error]: Machine check events logged",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [sort:9]",
        "Out of memory: Killed process 9 (sort) total-vm:90kB",
        "FAT-fs (pvd1): error, fat_get_cluster: invalid cluster chain",
        "CPU2: Core temperature above threshold, cpu clock throttled",
        "virtio_net: eth0: NIC Link is Down",
        "wrk[10]: bad frame in signal delivery",
    ],
)
def test_an_error_of_the_machine_or_of_what_the_trial_uses_is_serious(text: str) -> None:
    seen = use(
        kernel=(KernelMessage(1.5, 3, text),),
        devices=("vda", "pvd1"),
        tasks=(task("wrk", 0.5),),
        networks=(network(),),
    )
    (one,) = [f for f in machine_findings(seen) if f.code == "errors-in-kernel-log"]
    assert one.severity is Severity.SERIOUS


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Memory cgroup out of memory: Killed process 9 (wrk)", "Raise the memory limit"),
        ("Out of memory: Killed process 9 (sort) total-vm:90kB", "Add memory"),
        ("blk_update_request: I/O error, dev vda, sector 12", "Check the device"),
        ("EXT4-fs error (device vda): ext4_find_entry", "Check the file system"),
        ("INFO: task wrk:10 blocked for more than 120 seconds", "Find what the task"),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 23s!", "Measure again"),
        ("mce: [Hardware Error]: Machine check events logged", "Check the hardware"),
        ("BUG: unable to handle page fault", "Restart the machine"),
        ("virtio_net: eth0: NIC Link is Down", "Check the link"),
        ("CPU2: Core temperature above threshold", "Cool the machine"),
        ("nf_conntrack: table full, dropping packet", "Raise the limit that"),
        ("wrk[10]: segfault at 8 ip 000055d sp 00007ff error 4", "Find why the program"),
        ("wrk[10]: bad frame in signal delivery", "Read the message: the kernel"),
    ],
)
def test_a_message_has_the_remedy_of_its_kind(text: str, begins: str) -> None:
    seen = use(
        kernel=(KernelMessage(1.5, 3, text),),
        devices=("vda",),
        tasks=(task("wrk", 0.5),),
        networks=(network(),),
        losses=OwnLosses(segments_out=10),
    )
    (one,) = [f for f in machine_findings(seen) if f.code == "errors-in-kernel-log"]
    assert one.severity is Severity.SERIOUS
    assert one.remedy.startswith(begins)


@pytest.mark.parametrize("seconds", [0.04, 10.0])
def test_a_task_killed_at_the_limit_of_a_cgroup_is_that_limit_alone(seconds: float) -> None:
    """Also in a window that no sample shows, where SIGKILL ended the command; others' tasks are not
    the trial's."""
    kill = MemoryKill(7, "sort", "/lab", 24 << 20, 1)
    seen = msgspec.structs.replace(
        use(
            kernel=(KILLED,),
            killed=(kill,),
            memory=memory(oom_kills=1),
            losses=OwnLosses(major_faults=0),
        ),
        seconds=seconds,
        samples=0 if seconds < 1 else 100,
    )
    one = trial(1, seen)
    (block,) = one.blocks
    shot = msgspec.structs.replace(one, blocks=(msgspec.structs.replace(block, status=137),))
    (found,) = _machine([shot])
    assert (found.code, found.severity) == ("memory-limit", Severity.WARNING)
    assert found.evidence == (
        "cgroup /lab reached its limit of 25.2 MB; the kernel killed 1 task because of it (sort)"
    )
    (other,) = _machine([one])
    assert (other.code, other.severity) == ("errors-in-kernel-log", Severity.NOTE)
    named = trial(1, msgspec.structs.replace(seen, tasks=(task("sort", 0.4),)))
    assert [f.code for f in _machine([named])] == ["memory-limit"]
    among = [*(trial(epoch, use()) for epoch in range(2, 9)), shot]
    (rare,) = _machine(among)
    assert rare.code == "memory-limit"
    assert rare.evidence.endswith("(trial 1 (1 of 8))")


def test_a_task_killed_for_the_machine_is_pressure_on_its_memory() -> None:
    kill = MemoryKill(9, "cc1", "", None, 1)
    seen = use(
        kernel=(KernelMessage(1.0, 3, "Out of memory: Killed process 9 (cc1)"),),
        killed=(kill,),
        memory=memory(oom_kills=1),
        losses=OwnLosses(major_faults=0),
    )
    grave, limit = sorted(_machine([trial(1, seen)]), key=lambda one: one.code)
    assert (grave.code, limit.code) == ("errors-in-kernel-log", "memory-pressure")
    assert grave.remedy.startswith("Add memory")
    assert limit.evidence.startswith(
        "the kernel killed 1 task because the machine had no memory left; at least "
    )


def test_a_message_counts_for_the_trial_in_whose_time_it_was() -> None:
    error = "Buffer I/O error"
    seen = use(kernel=(KernelMessage(1.0, 3, error, 7, 0.1), KernelMessage(0.1, 3, error, 1, 0.1)))
    shared = msgspec.structs.replace(seen, epochs=(1, 9))
    first = msgspec.structs.replace(shared, kernel=seen.kernel[:1])
    trials = [trial(1, first), *(trial(epoch, None) for epoch in range(2, 10))]
    (one,) = _kernel(trials)
    assert one.evidence.endswith("'Buffer I/O error' after 0.1 s (trial 7 (1 of 9))")
    trials[0] = trial(1, shared)
    (both,) = _kernel(trials)
    assert both.evidence.endswith(
        "after 0.1 s of trial 1 and 1 more message (trials 7, 1 (2 of 9))"
    )


def _machine(trials: Any) -> list[Finding]:
    """Return the findings about memory and messages."""
    found = compute_findings(TestResult("t", whole_trials=trials), Questions(Claims()))
    about = ("errors-in-kernel-log", "memory-limit", "memory-pressure")
    return [one for one in found if one.code in about]


def _kernel(trials: Any) -> list[Finding]:
    found = compute_findings(TestResult("t", whole_trials=trials), Questions(Claims()))
    return [one for one in found if one.code == "errors-in-kernel-log"]


def test_a_message_about_network_traffic_of_others_is_no_finding() -> None:
    assert codes(use(kernel=(FLOOD,), tasks=(task("sleep", 0.0),))) == []


def test_segments_sent_again_are_a_share_of_all_that_were_sent() -> None:
    (one,) = machine_findings(use(sockets=LOST, cpu=cpu(0.4, target=0.1)))
    assert "64 segments of 82 sent again" in one.evidence


def test_bytes_of_trials_watched_together_are_per_trial() -> None:
    io = TreeIo(8_000_000_000, 0, 0, 0)
    alone = use(own_io=io)
    together = msgspec.structs.replace(alone, epochs=(1, 8))
    for use_of, amount in ((alone, "8 GB"), (together, "1 GB per trial")):
        shown = from_cache(use_of)
        assert shown is not None
        text = stated_text("answered-from-cache", shown)
        assert text.startswith(f"{amount} read by system calls")


def test_what_could_not_be_watched_says_why() -> None:
    unseen = ResourceUse(1.0, 0, (1, 1), absent=(("series", "bw-sampler: killed"),))
    (one,) = machine_findings(unseen)
    assert one.evidence == "not watched: bw-sampler: killed"
    brief = ResourceUse(0.01, 0, (1, 1), absent=(("frequency", "no such file"),))
    assert codes(brief) == []


def test_a_machine_that_changed_between_trials() -> None:
    more = use(cpu=cpu(0.4, count=4), memory=memory(swap_total=GIB))
    (one,) = machine_findings(use(), more)
    assert one.code == "environment-changed-between-trials"
    assert one.evidence == "CPUs: 2, then 4"
    assert "bw env --diff" not in one.remedy
    quotas = (use(cgroups=(group(cpu_limit_cores=n),)) for n in (0.5, None, 0.5))
    (one,) = machine_findings(*quotas)
    assert one.evidence == ("CPU limit of cgroup /bench: 0.5 CPUs, then none, then 0.5 CPUs")
    limits = (group(io_limits=(IoLimit("7:0", "loop0", reads_per_s=100.0),)), group())
    for devices, found in ((("vda",), []), (("loop0",), ["loop0"])):
        two = [use(cgroups=(each,), devices=devices) for each in limits]
        evidence = [each.evidence for each in machine_findings(*two)]
        assert evidence == [
            f"reads_per_s limit on {name} of cgroup /bench: 100, then none" for name in found
        ]
    for slow, found in ((1.98e9, []), (1.92e9, ["frequency-changed"])):
        two = (use(clock=ClockUse(f, f, f)) for f in (slow, 2.0e9))
        assert codes(*two) == found


READ = TreeIo(1000 * MIB, 0, 10 * MIB, 0, 250_000, 0)


def test_what_memory_answered_is_told_and_matters_for_storage() -> None:
    (one,) = machine_findings(use(own_io=READ, tasks=(task("fio", 0.4),)))
    assert (one.code, one.severity) == ("answered-from-cache", Severity.WARNING)
    assert one.evidence == ("1.05 GB read by system calls, 10.5 MB of it came from a device (1 %)")
    (note,) = machine_findings(use(own_io=READ, tasks=(task("cc1", 0.4),)))
    assert note.severity is Severity.NOTE


@pytest.mark.parametrize(
    "free",
    [
        use(own_io=TreeIo(60 * MIB, 0, 0, 0)),
        use(own_io=TreeIo(1000 * MIB, 0, 300 * MIB, 0)),
        use(own_io=READ, networks=(network(receive_bytes_per_s=104.0 * MIB),)),
        use(own_io=TreeIo(GIB, GIB, 0, 0), tasks=(task("dd", 0.4),)),
        use(own_io=None),
    ],
    ids=["little", "from the disk", "from the network", "dd of zeros", "not seen"],
)
def test_what_no_cache_answered(free: ResourceUse) -> None:
    assert "answered-from-cache" not in codes(free)


@pytest.mark.parametrize(
    "io",
    [TreeIo(70 * MIB, 0, 0, 0), TreeIo(1000 * MIB, 0, 220 * MIB, 0)],
    ids=["just enough", "a fifth from the disk"],
)
def test_what_a_cache_answered_for_the_most_part(io: TreeIo) -> None:
    assert codes(use(own_io=io)) == ["answered-from-cache"]


def test_what_had_not_reached_the_disk_is_told() -> None:
    written = TreeIo(0, 500 * MIB, 0, 500 * MIB)
    slow = disk(0.2, 0.2, write_bytes_per_s=5.0 * MIB)
    (one,) = machine_findings(use(own_io=written, disks=(slow,)))
    assert one.code == "answered-from-cache"
    assert "524 MB written to files, 52.4 MB had reached a device" in one.evidence
    quick = disk(0.2, 0.2, write_bytes_per_s=15.0 * MIB)
    assert codes(use(own_io=written, disks=(quick,))) == []


def nfs(rate: float, unit: str, seen: ResourceUse, **claims: Any) -> list[Finding]:
    """Return the findings of a test with one metric."""
    trials = [trial(1, seen, values={"rate": rate}), trial(2, seen, values={"rate": rate})]
    specs = [MetricSpec("rate", pointer="/r", unit=unit, better="higher")]
    return [
        one
        for one in compute_findings(
            TestResult("t", whole_trials=trials, specs=specs), Questions(claims=Claims(**claims))
        )
        if one.code in CODES_HERE
    ]


def test_the_texts_example_exceeds_its_link() -> None:
    """methodology.txt 12.3.8: 50,000 reads of 8 KiB over 1 Gbit/s."""
    link = network(receive_bytes_per_s=60e6, speed_bits_per_s=1e9)
    (one,) = nfs(50_000, "1/s", use(networks=(link,)), operation_bytes=8192.0)
    assert one.code == "exceeds-known-limit"
    assert one.severity is Severity.SERIOUS
    assert one.evidence == (
        "rate 50,000/s at 8.19 kB each implies 410 MB/s, over the 125 MB/s of eth0's link"
    )


def test_a_figure_is_held_against_limits_it_has_to_do_with() -> None:
    idle = network(speed_bits_per_s=1e9)
    for received, found in ((28e6, 0), (34e6, 1)):
        link = network(receive_bytes_per_s=received, speed_bits_per_s=1e9)
        assert len(nfs(350, "MB/s", use(networks=(link,)))) == found
    stated = (StatedCapacity("bus", bytes_per_s("1Gbit/s")),)
    assert nfs(350, "MB/s", use(networks=(idle,))) == []
    assert [f.code for f in nfs(350, "MB/s", use(), capacities=stated)] == ["exceeds-known-limit"]
    assert nfs(120, "MB/s", use(), capacities=stated) == []
    assert nfs(350, "ms", use(), capacities=stated) == []
    assert nfs(50_000, "1/s", use(), capacities=stated) == []
    requests = (StatedCapacity("bus", *stated_rate("3k/s")),)
    assert nfs(350, "MB/s", use(), capacities=requests) == []
    limit = IoLimit("8:0", "vda", read_bytes_per_s=1e6, write_bytes_per_s=1e6)
    seen = use(cgroups=(group(io_limits=(limit,)),), disks=(disk(0.1, 0.1),))
    assert [f.code for f in nfs(3, "MB/s", seen)] == ["exceeds-known-limit"]
    assert nfs(1.9, "MB/s", seen) == []


def links(*speeds: float, name: str = "eth", sent: float = 1e6) -> tuple[Any, ...]:
    """Return links that move nearly all that they can, one way."""
    return tuple(
        network(
            f"{name}{place}",
            receive_bytes_per_s=0.9 * speed / 8,
            send_bytes_per_s=sent,
            speed_bits_per_s=speed,
        )
        for place, speed in enumerate(speeds)
    )


def test_a_figure_is_held_against_all_links_together() -> None:
    pair = links(10e9, 10e9)
    for rate, found in ((17.6, 0), (20.9, 0), (21.1, 1)):
        for seen in (pair, (*links(20e9, name="bond"), *pair)):
            assert len(nfs(rate, "Gbit/s", use(networks=seen))) == found
    (one,) = nfs(22, "Gbit/s", use(networks=pair))
    assert one.evidence.endswith("over the 2.5 GB/s of eth0 and eth1's links")
    idle = network("eth9", speed_bits_per_s=100e9)
    assert len(nfs(22, "Gbit/s", use(networks=(*pair, idle)))) == 1


def test_a_figure_of_both_directions_is_held_against_both() -> None:
    both = use(networks=links(1e9, sent=110e6))
    assert nfs(1.84, "Gbit/s", both) == []
    (one,) = nfs(2.2, "Gbit/s", both)
    assert one.evidence.endswith("over the 250 MB/s of eth0's link (both ways)")
    assert len(nfs(1.84, "Gbit/s", use(networks=links(1e9)))) == 1
    stated = (StatedCapacity("eth0", 125e6),)
    assert nfs(1.84, "Gbit/s", both, capacities=stated) == []
    assert len(nfs(2.2, "Gbit/s", both, capacities=stated)) == 1


def test_a_figure_is_not_held_against_a_speed_that_is_only_a_name() -> None:
    tunnel = network("tun0", receive_bytes_per_s=20e6, speed_bits_per_s=1e7)
    assert nfs(20, "MB/s", use(networks=(tunnel,))) == []
    loopback = network("lo", receive_bytes_per_s=3e9, send_bytes_per_s=3e9)
    beside = use(networks=(loopback, *links(1e9)))
    assert nfs(24, "Gbit/s", beside) == []


def test_what_went_to_a_server_of_files_was_written() -> None:
    written = TreeIo(0, 1000 * MIB, 0, 1000 * MIB)
    for sent, found in ((115e6, []), (20e6, ["answered-from-cache"])):
        link = network(send_bytes_per_s=sent)
        assert codes(use(own_io=written, networks=(link,))) == found
    local = network("lo", send_bytes_per_s=115e6)
    seen = use(own_io=written, networks=(local,))
    assert codes(seen) == ["answered-from-cache"]


def test_an_operation_has_the_size_that_was_said() -> None:
    few = TreeIo(90 * 4096, 0, 0, 0, 90, 0)
    assert codes(use(own_io=few), claims=Claims(operation_bytes=8192.0)) == []
    io = TreeIo(110 * 4096, 0, 0, 0, 110, 0)
    claims = with_sample(Claims(), (("FS", "ext4"), ("block_size", "8k")))
    assert claims.operation_bytes == 8192
    (one,) = machine_findings(use(own_io=io, disks=(disk(0.1, 0.1),)), claims=claims)
    assert one.code == "io-size-not-as-claimed"
    assert one.evidence == (
        "stated as 8.19 kB each, but reads of 4.1 kB by system calls, requests of 4.1 kB to vda"
    )
    assert codes(use(own_io=io), claims=with_sample(Claims(), (("bs", "4k"),))) == []
    assert codes(use(own_io=io)) == []


@pytest.mark.parametrize(
    ("text", "rate"), [("1Gbit/s", 1.25e8), ("200MB/s", 2e8), ("64KiB/s", 65536), ("8 Mb/s", 1e6)]
)
def test_a_rate_is_read(text: str, rate: float) -> None:
    assert bytes_per_s(text) == rate


@pytest.mark.parametrize("text", ["fast", "1", "1GB", "0MB/s", "-1MB/s", "1XB/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        bytes_per_s(text)


@pytest.mark.parametrize(
    ("name", "unit", "value"),
    [
        ("elapsed", "s", 2.6e-10),
        ("step_ns", "", 8e-7),
        ("sum", "ns/op", 0.25),
        ("sum", "us/op", 1e-4),
    ],
)
def test_less_than_two_cycles_are_no_work(name: str, unit: str, value: float) -> None:
    assert removed_work(name, unit, [value, 1.01 * value, 0.99 * value]) is not None


@pytest.mark.parametrize(
    ("name", "unit", "value"),
    [
        ("elapsed", "s", 1.1e-9),
        ("pause", "ns", 0.0),
        ("pause", "ns", -1.0),
        ("share", "", 0.25),
        ("rate", "1/s", 0.1),
        ("size_gb", "", 0.1),
    ],
)
def test_other_small_values_are_not_removed_work(name: str, unit: str, value: float) -> None:
    assert removed_work(name, unit, [value, value, value]) is None


def started(elapsed: float) -> list[str]:
    """Return the doubts about commands that a launcher ran for so long."""
    process = ProcessRecord("EXEC", 0, 1, 0, int(elapsed * 1e9), 0, 0, 0)
    trials = [
        trial(epoch, values={"elapsed": elapsed + 1e-6 * epoch}, processes=(process,))
        for epoch in (1, 2)
    ]
    found = [one.code for one in compute_findings(TestResult("t", whole_trials=trials))]
    return [code for code in found if code in CODES_HERE]


def test_a_command_that_is_over_at_once_measures_its_start() -> None:
    assert started(0.002) == ["work-too-short-for-the-clock"]
    assert started(0.015) == ["work-too-short-for-the-clock"]
    assert started(0.025) == []


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [
        ("total", "s", [3, 3, 4, 3, 3, 4]),
        ("total", "s", [19, 19, 18, 18, 19, 18]),
        ("total", "s", [1] * 6),
        ("elapsed", "s", [0.02, 0.03, 0.02, 0.02, 0.03, 0.02]),
        ("tps", "", [8333, 6250, 8333, 8333, 6250]),
        ("rate", "1/s", [5000, 2500, 5000, 1667, 5000, 2500]),
    ],
)
def test_a_clock_of_coarse_grain(name: str, unit: str, values: list[float]) -> None:
    assert grain_of(name, unit, values) is not None


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [
        ("total", "s", [3.01, 3.02, 4.11, 3.0, 3.3, 4.2]),
        ("total", "s", [21, 22, 21, 21, 22, 21]),
        ("length", "s", [10] * 6),
        ("total", "s", [3, 4, 3, 4]),
        ("elapsed", "s", [0.3, 0.8] * 5),
        ("elapsed", "s", [0.3, 0.6] * 5),
        ("elapsed", "ms", [302.5, 851.5] * 5),
        ("rate", "1/s", [1000 / 0.3, 1000 / 0.8] * 5),
        ("errors", "", [1, 2, 1, 1, 1, 2]),
        ("rate", "1/s", [0, 1, 0, 0, 1, 0]),
        ("rate", "1/s", [8333, 7312, 8333, 8333, 7312]),
        ("rate", "1/s", [8333.1, 6250.2, 8334.3, 8331.2, 6251.9]),
    ],
)
def test_a_clock_that_is_fine_enough(name: str, unit: str, values: list[float]) -> None:
    assert grain_of(name, unit, values) is None


SORTED_S = (
    (35.612, 7.913),
    (39.139, 3.904),
    (42.537, 0.0),
    (39.002, 3.9),
    (42.616, 0.0),
    (42.3, 0.0),
)
"""`user` and `system` of runs of sort on a kernel with ticks of 4 ms [ms]."""


@pytest.mark.parametrize(("judged", "told"), [("user", True), ("system", True), ("elapsed", False)])
def test_parts_of_cpu_time_are_known_to_a_tick(judged: str, told: bool) -> None:
    trials = [
        trial(
            epoch,
            values={"elapsed": (user + system) / 1e3, "user": user / 1e3, "system": system / 1e3},
        )
        for epoch, (user, system) in enumerate(SORTED_S, 1)
    ]
    result = TestResult("sort", whole_trials=trials, specs=(MetricSpec(judged),))
    found = [one for one in compute_findings(result) if "ticks" in one.evidence]
    assert [one.code for one in found] == ["work-too-short-for-the-clock"] * told
    assert all("ticks of 3.9 ms" in one.evidence for one in found)


@pytest.mark.parametrize(
    ("user", "system"),
    [
        ([0.42, 0.43, 0.42, 0.42, 0.41], [0.004, 0.0, 0.004, 0.0, 0.004]),
        ([0.032, 0.031, 0.033, 0.03, 0.03], [0.011, 0.012, 0.009, 0.01, 0.01]),
        ([0.0] * 6, [0.0] * 6),
        ([0.04, 0.036], [0.0, 0.004]),
    ],
    ids=["long", "measured", "not-known", "few"],
)
def test_parts_of_cpu_time_that_are_known_well_enough(
    user: list[float], system: list[float]
) -> None:
    assert split_by_ticks("user", user, system) is None


@pytest.mark.parametrize("grid", [1e-6, 1e-3, 1e-2])
@pytest.mark.parametrize("as_rates", [False, True])
def test_constants_of_two_modes_are_no_clock(grid: float, as_rates: bool) -> None:
    random, hits, n = Random(4), 0, 500
    for _ in range(n):
        pair = [round(grid * round(10 ** random.uniform(-2, 0.5) / grid), 9)] * 5
        pair += [round(grid * round(10 ** random.uniform(-2, 0.5) / grid), 9)] * 5
        values = [1000 / value for value in pair] if as_rates else pair
        hits += bool(grain_of("x", "1/s" if as_rates else "s", values))
    assert hits < 0.12 * n


@pytest.mark.parametrize(
    ("step", "decimals"), [(0.01, 9), (1 / 64, 9), (1 / 64, 3), (1 / 60, 3), (0.1, 9), (1, 9)]
)
@pytest.mark.parametrize("ticks", [2, 8, 15])
def test_a_clock_is_recognised_by_its_ticks(step: float, decimals: int, ticks: float) -> None:
    random, hits, n = Random(5), 0, 200
    for _ in range(n):
        mean = ticks * step * random.uniform(0.9, 1.2)
        values = [
            round(floor(random.random() + mean / step * random.gauss(1, 0.03)), 9) * step
            for _ in range(20)
        ]
        hits += bool(grain_of("x", "s", [round(one, decimals) for one in values]))
    assert hits > 0.9 * n
