"""What a trial used, each figure by arithmetic from a series written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.resource_use import (
    CgroupUse,
    ClockUse,
    CpuUse,
    DiskUse,
    FilesOpen,
    IoLimit,
    MemoryKill,
    MemoryUse,
    NetworkUse,
    ResourceUse,
    SocketUse,
    TreeIo,
)
from series_writer import SECOND, Row, SeriesWriter
from use_of_series import use_between, uses_of, uses_of_slices

TENTH = SECOND // 10


def even(rates: dict[str, int], base: int = 1000) -> list[Row]:
    """Return eleven samples a tenth of a second apart; values grow by these each sample."""
    return [{name: base + i * step for name, step in rates.items()} for i in range(11)]


def series_of(path: Path, rows: list[Row], **header: object) -> Path:
    """Return a series of samples a tenth of a second apart, from time 0."""
    writer = SeriesWriter(**header)
    for i, row in enumerate(rows):
        writer.row(i * TENTH, row)
    return writer.write(path / "s")


def used(path: Path, rows: list[Row], **header: object) -> ResourceUse:
    """Return what was used from 0.25 s to 0.75 s of such a series."""
    return use_between(series_of(path, rows, **header), TENTH * 5 // 2, TENTH * 15 // 2)


def test_processors(tmp_path: Path) -> None:
    rates = {f"cpu/{n}/{kind}": 0 for n in (0, 1, 10) for kind in ("user", "iowait")}
    rates |= {
        "cpu/0/user": 4,  # 0.4 of a processor at 100 ticks a second.
        "cpu/0/nice": 1,
        "cpu/0/guest": 4,  # Inside user.
        "cpu/0/system": 2,
        "cpu/0/irq": 1,
        "cpu/0/softirq": 2,
        "cpu/1/idle": 6,
        "cpu/1/iowait": 3,
        "cpu/1/steal": 1,
        "cpu/10/user": 10,
        "pressure/cpu/some": 25_000,
        "own/user_ns": 70_000_000,
        "own/system_ns": 20_000_000,
        "target/user_ns": 5_000_000,
        "watcher/system_ns": 1_000_000,
    }
    rows = [row | {"kernel/running": 3 + i % 2} for i, row in enumerate(even(rates))]
    cpu = used(tmp_path, rows).cpu
    assert cpu is not None
    expected = CpuUse(
        count=3,
        busy=2.0,
        user=1.5,
        system=0.2,
        interrupts=0.3,
        iowait=0.3,
        steal=0.1,
        each=(1.0, 0.0, 1.0),
        runnable=2.6,  # Samples 3 to 7: 4 3 4 3 4, less the sampler.
        pressure=0.25,
        own=0.9,
        target=0.05,
        watcher=0.01,
        others=2.0 - 0.3 - 0.96,
        own_user=0.7,
    )
    assert cpu.kernel is None  # No table of processes.
    for name in expected.__struct_fields__:
        if name == "kernel":
            continue
        figure = pytest.approx(getattr(expected, name), rel=1e-6)
        assert getattr(cpu, name) == figure, name


def test_memory(tmp_path: Path) -> None:
    rates = {
        "vm/swap_in": 1,
        "vm/swap_out": 2,
        "vm/scanned_direct": 3,
        "vm/scanned_kswapd": 4,
        "vm/refault_file": 5,
        "vm/refault_anon": 6,
        "vm/major_faults": 7,
        "pressure/memory/some": 10_000,
        "pressure/memory/full": 5_000,
    }
    rows = even(rates)
    for i, row in enumerate(rows):
        row |= {"memory/total": 9000, "memory/available": 5000 - 100 * i}
        row |= {"memory/dirty": 10 * i, "memory/swap_total": 100}
        row |= {"memory/swap_free": 100 - i, "vm/oom_kill": int(i >= 3)}
    assert used(tmp_path, rows).memory == MemoryUse(
        total=9000 * 1024,
        available_min=4300 * 1024,
        dirty_max=70 * 1024,
        swap_total=100 * 1024,
        swap_used_max=7 * 1024,
        swapped_in=5 * 4096,
        swapped_out=10 * 4096,
        scanned_direct=15,
        scanned_kswapd=20,
        refaults=55,
        major_faults=35,
        oom_kills=1,  # Half of the interval lies before the window: told all the same.
        pressure=pytest.approx(0.1),
        pressure_full=pytest.approx(0.05),
    )


def disk_rows(name: str = "sda", **rates: int) -> list[Row]:
    """Return samples of a disk with these rates, and nothing else in flight."""
    kinds = ("reads", "read_sectors", "writes", "written_sectors", "read_ms", "write_ms")
    more = ("busy_ms", "queue_ms", "discards", "flushes")
    rows = even({f"disk/{name}/{kind}": rates.get(kind, 0) for kind in kinds + more})
    return [{**row, f"disk/{name}/in_flight": 0} for row in rows]


def test_a_disk(tmp_path: Path) -> None:
    rows = disk_rows(
        reads=10,
        read_sectors=80,
        writes=30,
        written_sectors=480,
        read_ms=20,
        write_ms=100,
        busy_ms=60,
        queue_ms=400,
        flushes=1,
    )
    for i, row in enumerate(rows):
        row["disk/sda/in_flight"] = 2 + i % 3
    assert used(tmp_path, rows).disks == (
        DiskUse(
            name="sda",
            busy=pytest.approx(0.6),
            reads_per_s=pytest.approx(100),
            writes_per_s=pytest.approx(300),
            read_bytes_per_s=pytest.approx(800 * 512),
            write_bytes_per_s=pytest.approx(4800 * 512),
            queue=pytest.approx(4),
            response_s=pytest.approx(0.003),
            flushes_per_s=pytest.approx(10),
            in_flight_min=2,
            active=pytest.approx(1),
        ),
    )


def test_a_disk_is_active_where_it_has_requests(tmp_path: Path) -> None:
    rows = disk_rows(reads=10)
    for row in rows[: len(rows) // 2]:
        row["disk/sda/reads"] = rows[0]["disk/sda/reads"]
    (disk,) = used(tmp_path, rows).disks
    assert disk.active == pytest.approx(0.7)


def test_a_disk_without_a_request_is_left_out(tmp_path: Path) -> None:
    rows = [a | b for a, b in zip(disk_rows("sda"), disk_rows("cciss/c0d0", reads=1), strict=True)]
    assert [disk.name for disk in used(tmp_path, rows).disks] == ["cciss/c0d0"]


def test_a_stalled_disk_is_seen_by_what_is_in_flight(tmp_path: Path) -> None:
    rows = disk_rows()
    for row in rows:
        row["disk/sda/in_flight"] = 4
    (disk,) = used(tmp_path, rows).disks
    assert (disk.queue, disk.in_flight_min, disk.response_s) == (4.0, 4, None)
    assert disk.longest_stall_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("in_flight", "reads", "expected"),
    [
        ("00000111110", "00000000000", 0.25),  # From sample 5 to the window's end.
        ("00111100000", "00000000000", 0.25),  # From its beginning to sample 5.
        ("00011111000", "00001111111", 0.3),  # One completes: the longer part.
        ("11111111111", "0123456789a", 0.0),
        ("01010101010", "00000000000", 0.0),
    ],
)
def test_the_longest_stall(in_flight: str, reads: str, expected: float, tmp_path: Path) -> None:
    rows = disk_rows()
    for row, flying, done in zip(rows, in_flight, reads, strict=True):
        row["disk/sda/in_flight"] = int(flying)
        row["disk/sda/reads"] = int(done, 16)
    disks = used(tmp_path, rows).disks
    assert disks[0].longest_stall_s == pytest.approx(expected)


def test_counters_that_wrap_restart_or_slip(tmp_path: Path) -> None:
    rows = disk_rows()
    for i, row in enumerate(rows):
        row["disk/sda/busy_ms"] = (2**32 - 200 + 50 * i) % 2**32
        row["disk/sda/reads"] = 5000 + i if i < 5 else 2 * (i - 4)
        row["disk/sda/writes"] = 5000 + 10 * i - (300 if i == 5 else 0)
        row["cpu/0/user"] = 0
        row["cpu/0/iowait"] = 100 + i - (3 if i >= 5 else 0)
    use = used(tmp_path, rows)
    (disk,) = use.disks
    assert disk.busy == pytest.approx(0.5)
    # 2.5 to 4: 1.5; to 5 it counted 2 from 0; to 7.5 another 5.
    assert disk.reads_per_s == pytest.approx((1.5 + 2 + 5) / 0.5)
    assert disk.writes_per_s == pytest.approx(100)
    assert use.cpu is not None
    assert use.cpu.iowait == pytest.approx(4 / 100 / 0.5)  # 5 steps, one of them back.


def test_a_disk_that_comes_and_one_that_goes(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(11):
        row: Row = {"kernel/forks": i}
        if i >= 5:
            row["disk/new/reads"] = 100 * (i - 4)
        if i <= 5:
            row["disk/old/reads"] = 100 * i
        writer.row(i * TENTH, row)
    file = writer.write(tmp_path / "s")
    use = use_between(file, TENTH * 5 // 2, TENTH * 15 // 2)
    assert [(d.name, d.reads_per_s) for d in use.disks] == [
        ("new", pytest.approx(350 / 0.5)),
        ("old", pytest.approx(250 / 0.5)),
    ]


def test_a_counter_that_is_not_told_at_first_does_not_count_from_nothing(tmp_path: Path) -> None:
    """A sample may be cut short; what the disk did since the machine began is not its growth."""
    writer = SeriesWriter()
    for i in range(11):
        reads = None if i == 0 else 1_000_000 + 10 * i
        writer.row(i * TENTH, {"kernel/forks": i, "disk/sda/reads": reads})
    file = writer.write(tmp_path / "s")
    use = use_between(file, 0, 10 * TENTH)
    (disk,) = use.disks
    assert disk.reads_per_s == pytest.approx(90)


def test_interfaces_and_sockets(tmp_path: Path) -> None:
    rates = {f"net/eth0/{k}": 1 for k in ("rx_dropped", "tx_dropped", "rx_errors")}
    rates |= {"net/eth0/rx_bytes": 1000, "net/eth0/tx_bytes": 2000}
    rates |= {"net/eth0/rx_packets": 10, "net/eth0/tx_packets": 20}
    rates |= {"net/ifb0/rx_packets": 0, "net/ifb0/tx_packets": 0}
    rates |= {"net/lo/rx_packets": 1, "net/lo/tx_packets": 0}
    rates |= {"tcp/retransmits": 1, "tcp/segments_out": 50, "softnet/squeezed": 2}
    limits = {"net/eth0/speed_mbit": 1000, "net/lo/speed_mbit": -1}
    use = used(tmp_path, even(rates), limits=limits)
    eth0, lo = use.networks
    assert eth0 == NetworkUse(
        name="eth0",
        receive_bytes_per_s=pytest.approx(10_000),
        send_bytes_per_s=pytest.approx(20_000),
        receive_packets_per_s=pytest.approx(100),
        send_packets_per_s=pytest.approx(200),
        errors=5,
        dropped=10,
        speed_bits_per_s=1e9,
    )
    assert (lo.name, lo.speed_bits_per_s) == ("lo", None)
    assert use.sockets == SocketUse(retransmits=5, segments_out=250, softnet_squeezed=10)


def test_cgroups(tmp_path: Path) -> None:
    writer = SeriesWriter()
    common = {"t": 0, "of": "own", "path": "/b"}
    io = {"device": "8:0", "name": "sda", "write_bytes_per_s": 1048576}
    one = {"version": 2, "limits": {"cpu_cores": 0.5, "memory_bytes": 9, "io": [io]}}
    quota = {"version": 1, "controller": "cpu", "limits": {"cpu_cores": 0.2}}
    count = {"version": 1, "controller": "cpuacct", "limits": {}}
    for number, more in enumerate((one, quota, count)):
        writer.say("cgroup", number=number, **common, **more)
    late = {"number": 3, "version": 2, "path": "/late", "of": "target", "limits": {}}
    writer.say("cgroup", t=8 * TENTH, **late)
    kinds = {"usage_us": 40_000, "periods": 10, "throttled": 5, "throttled_us": 60_000}
    rates = {f"cgroup/0/{kind}": step for kind, step in kinds.items()}
    rates |= {"cgroup/0/memory_limit_hits": 2, "cgroup/2/usage_us": 10_000}
    for i, row in enumerate(even(rates)):
        row |= {"cgroup/0/memory": 10 * i, "cgroup/0/pids": i}
        writer.row(i * TENTH, row)
    file = writer.write(tmp_path / "s")
    use = use_between(file, TENTH * 5 // 2, TENTH * 15 // 2)
    assert use.cgroups == (
        CgroupUse(
            path="/b",
            version=2,
            cpu_limit_cores=0.5,
            cpu_used_cores=pytest.approx(0.4),
            periods=50,
            throttled=25,
            throttled_s=pytest.approx(0.3),
            memory_limit=9,
            memory_max=70,
            memory_limit_hits=10,
            pids_max=7,
            io_limits=(IoLimit("8:0", "sda", write_bytes_per_s=1048576),),
        ),
        CgroupUse(
            path="/b",
            version=1,
            controller="cpu",
            cpu_limit_cores=0.2,
            cpu_used_cores=pytest.approx(0.1),
        ),
        CgroupUse(path="/b", version=1, controller="cpuacct", cpu_used_cores=pytest.approx(0.1)),
    )


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        (None, ()),
        ("", ()),
        ("0-", ()),
        ("0-99999999999", ()),
        ("0-3,many", ()),
    ],
)
def test_the_processors_of_a_cpuset(
    told: str | None, expected: tuple[int, ...], tmp_path: Path
) -> None:
    writer = SeriesWriter()
    group = {"number": 0, "version": 2, "path": "/b", "of": "own"}
    writer.say("cgroup", t=0, limits={"cpus": told}, **group)
    for i, row in enumerate(even({"kernel/forks": 1})):
        writer.row(i * TENTH, row)
    file = writer.write(tmp_path / "s")
    (one,) = use_between(file, 0, SECOND).cgroups
    assert one.cpus == expected


def test_what_a_tree_read_and_wrote(tmp_path: Path) -> None:
    kinds = ("read_chars", "written_chars", "read_bytes", "write_bytes", "read_calls")
    rates = {f"own/{kind}": 10 + i for i, kind in enumerate(kinds)}
    use = used(tmp_path, even(rates))
    assert use.own_io == TreeIo(50, 55, 60, 65, 70)
    assert use.target_io is None


def test_clocks_count_only_busy_processors(tmp_path: Path) -> None:
    rows = even({"cpu/0/user": 8, "cpu/1/user": 2, "throttle/0": 1})
    for i, row in enumerate(rows):
        row |= {"frequency/0": 2_000_000 + 1000 * i, "frequency/1": 800_000}
        row |= {"thermal/zone0": 50_000 + i, "thermal/zone1": None}
    assert used(tmp_path, rows).clock == ClockUse(
        frequency_min=2_003_000_000,
        frequency_max=2_007_000_000,
        frequency_mean=2_005_000_000,
        temperature_max=50.007,
        thermal_throttles=5,
    )


def test_processors_of_different_speeds_have_not_changed_theirs(tmp_path: Path) -> None:
    rows = even({"cpu/0/user": 8, "cpu/1/user": 8, "cpu/2/user": 8})
    for i, row in enumerate(rows):
        row |= {"frequency/0": 5_000_000 + i, "frequency/1": 3_000_000}
        row |= {"frequency/2": 3_000_000 + 100_000 * i}
    clock = used(tmp_path, rows).clock
    assert clock is not None
    assert clock.frequency_min == pytest.approx(3.3e9)  # Samples 3 to 7 of the last.
    assert clock.frequency_max == pytest.approx(3.7e9)
    assert clock.frequency_mean == pytest.approx((5.0e9 + 3.0e9 + 3.5e9) / 3, rel=1e-5)


def test_open_files(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i, row in enumerate(even({"kernel/forks": 1})):
        row |= {"files/open": 100 + i, "files/limit": 1000}
        writer.row(i * TENTH, row)
    tables = {0: [[1, "a", 9, 10]], 5: [[2, "b", 500, 1000], [3, "c", 900, None]]}
    for i, table in tables.items():
        writer.say("files_open", t=i * TENTH, rows=table)
    file = writer.write(tmp_path / "s")
    use = use_between(file, TENTH * 5 // 2, TENTH * 15 // 2)
    assert use.files == FilesOpen(2, "b", 500, 1000)
    assert use.files_of_machine == (107, 1000)
    # No table lies in this window: both beside it are looked at.
    use = use_between(file, TENTH, 2 * TENTH)
    assert use.files == FilesOpen(1, "a", 9, 10)


def test_kernel_messages_worst_first_and_at_most_twenty(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"kernel/forks": i})
        for level in (3, 6):
            writer.say("kernel", t=i * TENTH, level=level, text=f"{i}")
    for i in range(30):
        writer.say("kernel", t=4 * TENTH + i, level=7, text="debug")
    file = writer.write(tmp_path / "s")
    kernel = use_between(file, TENTH * 5 // 2, TENTH * 15 // 2).kernel
    assert len(kernel) == 20
    assert [line.text for line in kernel[:6]] == ["3", "4", "5", "6", "7", "3"]
    assert kernel[0].at_s == pytest.approx(0.05)
    assert [line.level for line in kernel[4:7]] == [3, 6, 6]


def test_nothing_told_is_nothing_and_not_zero(tmp_path: Path) -> None:
    rows: list[Row] = [{"cpu/0/user": None, "memory/total": None} for _ in range(11)]
    use = used(tmp_path, rows, absent=[["cpu", "no /proc"]])
    assert use.absent == (("cpu", "no /proc"),)
    for name in ("memory", "clock", "sockets", "own_io", "files", "io_pressure"):
        assert getattr(use, name) is None, name
    assert use.cpu is None
    assert use.disks == use.networks == use.cgroups == use.tasks == use.others == ()
    assert use.sampler_cost is None


def test_what_the_samples_do_not_cover_is_told(tmp_path: Path) -> None:
    file = series_of(tmp_path, even({"cpu/0/user": 5}))
    use = use_between(file, 5 * TENTH, 20 * TENTH)
    assert use.seconds == pytest.approx(1.5)
    assert use.absent == (("samples", "the sampler saw 0.5 s of 1.5 s"),)
    assert use.cpu is not None
    assert use.cpu.busy == pytest.approx(0.5)
    use = use_between(file, 15 * TENTH, 20 * TENTH)
    assert (use.cpu, use.samples) == (None, 0)
    assert use.absent == (("samples", "fewer than two samples around the trial"),)


def test_late_samples_are_told(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for t in (0, 1, 8, 9, 10):
        writer.row(t * TENTH, {"cpu/0/user": t})
    file = writer.write(tmp_path / "s")
    use = use_between(file, 0, 10 * TENTH)
    assert use.absent == (("samples", "they came 0.5 s late in total"),)


def test_short_trials_are_seen_together(tmp_path: Path) -> None:
    file = series_of(tmp_path, even({"cpu/0/user": 5}))
    windows = [(4, 0, 1), (5, 2, TENTH), (6, TENTH, 6 * TENTH), (7, 7 * TENTH, SECOND)]
    windows += [(8, SECOND, SECOND + 1)]
    first, second, third, fourth, fifth = uses_of(file, "watched/s1/x", windows)
    assert first is not None
    assert (first.epochs, first.begin_ns, first.end_ns) == ((4, 5), 0, TENTH)
    assert first.series == "watched/s1/x"
    assert first.samples == 2
    assert second is None
    assert [use.epochs if use else None for use in (third, fourth, fifth)] == [
        (6, 6),
        (7, 7),
        (8, 8),
    ]


def test_what_lies_between_trials_is_not_told_as_theirs(tmp_path: Path) -> None:
    """Two short trials that use nothing, and a SETUP between them that computes."""
    rows: list[Row] = [
        {"cpu/0/user": max(0, min(i, 8) - 2) * 10, "cpu/0/idle": 0} for i in range(11)
    ]
    file = series_of(tmp_path, rows)
    uses = uses_of(file, "x", [(1, 0, 2 * TENTH), (2, 8 * TENTH, SECOND)])
    for use in uses:
        assert use is not None
        assert use.seconds == pytest.approx(0.2)
        assert use.cpu is not None
        assert use.cpu.busy == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("gaps_ms", "expected"),
    [
        ((20, 10), [(1, 3)]),  # A tenth of the EXEC time each time.
        ((21, 10), [(1, 1), (2, 3)]),
        ((10, 21), [(1, 2), (3, 3)]),  # Together they are more than a tenth of 300.
    ],
)
def test_trials_with_little_between_them_are_seen_together(
    gaps_ms: tuple[int, int], expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    file = series_of(tmp_path, even({"cpu/0/user": 5}))
    windows, begin = [], 0
    for epoch, gap_ms in enumerate((*gaps_ms, 0), start=1):
        windows.append((epoch, begin, begin + TENTH))
        begin += TENTH + gap_ms * 1_000_000
    uses = uses_of(file, "x", windows)
    assert [use.epochs for use in uses if use] == expected


def test_trials_within_one_interval_are_seen_together(tmp_path: Path) -> None:
    """Of 1 ms each, with as much between them: no sample distinguishes them."""
    file = series_of(tmp_path, even({"cpu/0/user": 5}))
    millisecond = TENTH // 100
    windows = [
        (epoch, 2 * epoch * millisecond, (2 * epoch + 1) * millisecond) for epoch in range(1, 101)
    ]
    uses = [use for use in uses_of(file, "x", windows) if use]
    assert [use.epochs for use in uses] == [(1, 50), (51, 100)]
    busy = [use.cpu.busy for use in uses if use.cpu]
    assert busy == pytest.approx([0.5, 0.5])


OOM_REPORT = (
    (4, "sort invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
    *((4, f" ? charge_memcg+0x{n:x}/0x90") for n in range(40)),
    (6, "memory: usage 24576kB, limit 24576kB, failcnt 67"),
    (6, "memory+swap: usage 24576kB, limit 9007199254740988kB, failcnt 0"),
    (3, "I/O error, dev vda"),
    *((6, f"total_pgfault {n}") for n in range(40)),
    (
        6,
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,b,"
        "task_memcg=/a,b/c,task=so,rt,pid=812,uid=0",
    ),
    (3, "Memory cgroup out of memory: Killed process 812 (so,rt) total-vm:90kB"),
)
ALL_REPORT = (
    (4, "cc1 invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0"),
    (4, "Mem-Info:"),
    (
        6,
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        "task_memcg=/,task=cc1,pid=9,uid=0",
    ),
    (3, "Out of memory: Killed process 9 (cc1) total-vm:90kB"),
)


def test_the_report_of_a_killed_task_is_one_message(tmp_path: Path) -> None:
    """Of its cgroup or the machine; other errors stay, and what follows the report."""
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"kernel/forks": i})
    lines = (*OOM_REPORT, (4, "a warning"), *ALL_REPORT)
    for n, (level, text) in enumerate(lines):
        writer.say("kernel", t=TENTH + n, level=level, text=text)
    use = use_between(writer.write(tmp_path / "s"), 0, SECOND)
    assert [line.text.partition(" process")[0] for line in use.kernel] == [
        "I/O error, dev vda",
        "Memory cgroup out of memory: Killed",
        "a warning",
        "Out of memory: Killed",
    ]
    assert use.killed == (
        MemoryKill(812, "so,rt", "/a,b", 24576 * 1024, 1),
        MemoryKill(9, "cc1", "", None, 1),
    )


def test_a_report_that_does_not_end_hides_nothing_else(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(31):
        writer.row(i * TENTH, {"kernel/forks": i})
    later = TENTH + SECOND + 100
    texts = ((TENTH, OOM_REPORT[0][1]), (TENTH + 1, "Call Trace:"), (later, "eth0: up"))
    for at, text in texts:
        writer.say("kernel", t=at, level=4, text=text)
    use = use_between(writer.write(tmp_path / "s"), 0, 3 * SECOND)
    assert [line.text[:12] for line in use.kernel] == ["sort invoked", "eth0: up"]
    assert use.killed == ()


def test_kernel_messages_between_short_trials_are_not_theirs(tmp_path: Path) -> None:
    """The trials are one window, but messages have exact times."""
    writer = SeriesWriter()
    for i in range(3):
        writer.row(i * TENTH, {"cpu/0/user": i})
    millisecond = TENTH // 100
    half = millisecond // 2
    written = (("trial", half), ("cleanup", 25 * millisecond), ("two", 51 * millisecond))
    for name, at in written:
        writer.say("kernel", t=at, level=3, text=name)
    windows = [(1, 0, millisecond), (2, 50 * millisecond, 51 * millisecond)]
    first, second = uses_of(writer.write(tmp_path / "s"), "x", windows)
    assert first is not None
    assert second is None
    told = [(line.text, line.epoch, line.in_trial_s) for line in first.kernel]
    assert told == [("trial", 1, half / 1e9), ("two", 2, millisecond / 1e9)]


def test_the_samplers_cost(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"cpu/0/user": i})
    writer.end(0, SECOND, cost_ns=3_000_000)
    use = use_between(writer.write(tmp_path / "s"), 0, SECOND)
    assert use.sampler_cost == pytest.approx(0.003)


steps = st.lists(st.integers(0, 10), min_size=10, max_size=10)


@given(steps, steps, st.integers(1, 98), st.integers(1, 98), st.integers(1, 98))
def test_windows_side_by_side_mix(
    tmp_path_factory: pytest.TempPathFactory,
    user: list[int],
    reads: list[int],
    one: int,
    two: int,
    three: int,
) -> None:
    """The use of two windows, weighted by their lengths, is the use of both together."""
    path = tmp_path_factory.mktemp("mix", numbered=True)
    rows: list[Row] = [{"cpu/0/user": 0, "disk/a/reads": 0, "disk/a/busy_ms": 0}]
    for ticks, requests in zip(user, reads, strict=True):
        last = rows[-1]
        rows.append(
            {
                "cpu/0/user": (last["cpu/0/user"] or 0) + ticks,
                "disk/a/reads": (last["disk/a/reads"] or 0) + requests,
                "disk/a/busy_ms": (last["disk/a/busy_ms"] or 0) + 9 * requests,
            }
        )
    file = series_of(path, rows)
    begin, middle, end = sorted((one, two + 1, three + 2))
    parts = [(begin, middle), (middle, end), (begin, end)]
    figures = [_figures(file, a * SECOND // 100, b * SECOND // 100) for a, b in parts]
    for first, second, both in zip(*figures, strict=True):
        mixed = first * (middle - begin) + second * (end - middle)
        assert mixed == pytest.approx(both * (end - begin), abs=1e-6)


def _figures(file: Path, begin_ns: int, end_ns: int) -> tuple[float, float, float]:
    if begin_ns == end_ns:
        return (0.0, 0.0, 0.0)
    use = use_between(file, begin_ns, end_ns)
    assert use.cpu is not None
    disk = use.disks[0] if use.disks else DiskUse("", 0, 0, 0, 0, 0, 0)
    return (use.cpu.busy, disk.reads_per_s, disk.busy)


def test_slices_of_a_long_trial_have_the_means_of_their_own_time(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"cpu/0/user": 10 * min(at, 6), "cpu/0/idle": 10 * max(at - 6, 0)} for at in range(13)
    ]
    file = series_of(tmp_path, rows)
    first, second = uses_of_slices(file, "s", 0, 12 * TENTH, 2)
    assert first.cpu is not None
    assert second.cpu is not None
    assert (first.cpu.busy, second.cpu.busy) == (1.0, 0.0)
    assert (first.end_ns, second.begin_ns) == (6 * TENTH, 6 * TENTH)
    four = uses_of_slices(file, "s", 0, 12 * TENTH, 60)
    assert len(four) == 4, "a slice has at least three sampling intervals"
    assert uses_of_slices(file, "s", 0, 2 * TENTH, 60) == []
