"""A test's findings from what was seen of the machine: limits of most of it, doubts of figures."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import MetricSpec
from benchwright.core.resource_use import (
    ClockUse,
    IoLimit,
    KernelMessage,
    ResourceUse,
    SocketUse,
    TreeIo,
)
from benchwright.core.results import Finding, Severity
from benchwright.findings.codes import MACHINE_FINDING_CODES
from benchwright.findings.examine import Evidence, Questions, compute_findings
from benchwright.findings.limit import StatedCapacity, bytes_per_s
from benchwright.findings.sanity import Claims, from_cache, grain_text, with_sample
from watched_uses import MIB, cpu, disk, group, memory, network, task, trial, use

BOUND = use(cpu=cpu(1.0), tasks=(task("gzip", 0.99),))
GIB = 1024 * MIB
KILLED = KernelMessage(1.0, 3, "Memory cgroup out of memory: Killed process 7 (sort)")


def machine_findings(
    *uses: ResourceUse | None, claims: Claims | None = None
) -> list[Finding]:
    """Return the machine's findings of a test with a trial for each use."""
    trials = [trial(epoch, seen) for epoch, seen in enumerate(uses, 1)]
    questions = Questions(claims or Claims())
    found = compute_findings(Evidence("t", trials), questions)
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
        one for one in compute_findings(Evidence("t", trials)) if one.code in CODES_HERE
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
        not {one.code for one in compute_findings(Evidence("t", trials))} & CODES_HERE
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
            use(sockets=SocketUse(retransmits=120, segments_out=100_000)),
            use(sockets=SocketUse(retransmits=80, segments_out=100_000)),
        ),
        (
            "network-errors",
            use(sockets=SocketUse(retransmits=11, segments_out=100)),
            use(sockets=SocketUse(retransmits=9, segments_out=100)),
        ),
        (
            "network-errors",
            use(sockets=SocketUse(listen_overflows=1)),
            use(networks=(network(dropped=9),)),
        ),
        ("network-errors", use(networks=(network(dropped=20),)), use()),
        ("network-errors", use(networks=(network(errors=1),)), use()),
        ("steal", use(cpu=cpu(1.2, steal=0.043)), use(cpu=cpu(1.2, steal=0.03))),
        (
            "not-watched",
            use(absent=(("kernel", "/dev/kmsg: Permission denied"),)),
            use(absent=(("frequency", "cpufreq: No such file or directory"),)),
        ),
    ],
)
def test_a_doubt_of_the_machine(
    code: str, seen: ResourceUse, free: ResourceUse
) -> None:
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
    assert grave.evidence == (
        "the kernel logged 'Buffer I/O error' after 1.5 s and 1 more message"
    )
    assert (warning.code, warning.severity) == (grave.code, Severity.NOTE)


FLOOD = KernelMessage(1.5, 6, "TCP: request_sock_TCP: Possible SYN flooding on port 9.")


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (use(kernel=(FLOOD,), tasks=(task("sleep", 0.0),)), Severity.NOTE),
        (use(kernel=(FLOOD,), tasks=(task("wrk", 0.5),)), Severity.SERIOUS),
        (use(kernel=(FLOOD,), cpu=cpu(0.5, target=0.2)), Severity.SERIOUS),
        (use(kernel=(KernelMessage(1.5, 6, "EXT4-fs error"),)), Severity.SERIOUS),
    ],
)
def test_a_message_about_network_traffic_is_serious_only_if_the_trial_has_some(
    seen: ResourceUse, severity: Severity
) -> None:
    (one,) = machine_findings(seen)
    assert (one.code, one.severity) == ("errors-in-kernel-log", severity)


def test_bytes_of_trials_watched_together_are_per_trial() -> None:
    io = TreeIo(8_000_000_000, 0, 0, 0)
    alone = use(own_io=io)
    together = msgspec.structs.replace(alone, epochs=(1, 8))
    assert from_cache(alone).startswith("8 GB read by system calls")
    assert from_cache(together).startswith("1 GB per trial read by system calls")


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
    assert "CPUs: 2 and 4" in one.evidence
    assert "swap space: 0 B and 1.07 GB" in one.evidence
    assert codes(
        use(cgroups=(group(cpu_limit_cores=0.5),)),
        use(cgroups=(group(cpu_limit_cores=1.0),)),
    ) == ["environment-changed-between-trials"]
    for slow, found in ((1.98e9, []), (1.92e9, ["frequency-changed"])):
        two = (use(clock=ClockUse(f, f, f)) for f in (slow, 2.0e9))
        assert codes(*two) == found


READ = TreeIo(1000 * MIB, 0, 10 * MIB, 0, 250_000, 0)


def test_what_memory_answered_is_told_and_matters_for_storage() -> None:
    (one,) = machine_findings(use(own_io=READ, tasks=(task("fio", 0.4),)))
    assert (one.code, one.severity) == ("answered-from-cache", Severity.WARNING)
    assert one.evidence == (
        "1.05 GB read by system calls, 10.5 MB of it came from a device (1 %)"
    )
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
    trials = [
        trial(1, seen, values={"rate": rate}),
        trial(2, seen, values={"rate": rate}),
    ]
    specs = [MetricSpec("rate", pointer="/r", unit=unit, better="higher")]
    return [
        one
        for one in compute_findings(
            Evidence("t", trials, specs), Questions(claims=Claims(**claims))
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
        "rate 5e+04 1/s at 8.19 kB each implies 410 MB/s, over the 125 MB/s of eth0's link"
    )


def test_a_figure_is_held_against_limits_it_has_to_do_with() -> None:
    idle = network(speed_bits_per_s=1e9)
    for received, found in ((28e6, 0), (34e6, 1)):
        link = network(receive_bytes_per_s=received, speed_bits_per_s=1e9)
        assert len(nfs(350, "MB/s", use(networks=(link,)))) == found
    stated = (StatedCapacity("bus", bytes_per_s("1Gbit/s")),)
    assert nfs(350, "MB/s", use(networks=(idle,))) == []
    assert [f.code for f in nfs(350, "MB/s", use(), capacities=stated)] == [
        "exceeds-known-limit"
    ]
    assert nfs(120, "MB/s", use(), capacities=stated) == []
    assert nfs(350, "ms", use(), capacities=stated) == []
    assert nfs(50_000, "1/s", use(), capacities=stated) == []
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
    ("text", "rate"),
    [("1Gbit/s", 1.25e8), ("200MB/s", 2e8), ("64KiB/s", 65536), ("8 Mb/s", 1e6)],
)
def test_a_rate_is_read(text: str, rate: float) -> None:
    assert bytes_per_s(text) == rate


@pytest.mark.parametrize("text", ["fast", "1", "1GB", "0MB/s", "-1MB/s", "1XB/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        bytes_per_s(text)


def started(elapsed: float) -> list[str]:
    """Return the doubts about commands that a launcher ran for so long."""
    process = ProcessRecord("EXEC", 0, 1, 0, int(elapsed * 1e9), 0, 0, 0)
    trials = [
        trial(epoch, values={"elapsed": elapsed + 1e-6 * epoch}, processes=(process,))
        for epoch in (1, 2)
    ]
    found = [one.code for one in compute_findings(Evidence("t", trials))]
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
    assert "the resolution of a clock" in grain_text(name, unit, values)


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [
        ("total", "s", [3.01, 3.02, 4.11, 3.0, 3.3, 4.2]),
        ("total", "s", [21, 22, 21, 21, 22, 21]),
        ("length", "s", [10] * 6),
        ("total", "s", [3, 4, 3, 4]),
        ("errors", "", [1, 2, 1, 1, 1, 2]),
        ("rate", "1/s", [0, 1, 0, 0, 1, 0]),
        ("rate", "1/s", [8333, 7312, 8333, 8333, 7312]),
        ("rate", "1/s", [8333.1, 6250.2, 8334.3, 8331.2, 6251.9]),
    ],
)
def test_a_clock_that_is_fine_enough(name: str, unit: str, values: list[float]) -> None:
    assert grain_text(name, unit, values) == ""
