"""The USE table has every resource, its figures, and reasons for what is absent."""

from __future__ import annotations

from benchwright.core.resource_use import FilesOpen, IoLimit, KernelMessage, ResourceUse, SocketUse
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.use_table import UseRow, UseValue, use_table
from watched_uses import MIB, cpu, disk, group, memory, network, use


def rows(seen: ResourceUse) -> dict[str, UseRow]:
    return {f"{row.resource} {row.name}".strip(): row for row in use_table(seen)}


def named(readings: tuple[UseValue, ...]) -> dict[str, UseValue]:
    return {one.name: one for one in readings}


def test_every_resource_has_a_row() -> None:
    seen = use(
        cpu=cpu(0.5, 0.25, each=(0.5, 0.25)),
        disks=(disk(0.5, 1.0),),
        networks=(network(speed_bits_per_s=1e9),),
        sockets=SocketUse(retransmits=3, segments_out=100),
        files=FilesOpen(3, "wrk", 12, 48),
        files_of_machine=(500, 1000),
        cgroups=(
            group(
                cpu_limit_cores=0.5,
                cpu_used_cores=0.4,
                io_limits=(IoLimit("8:0", "vda", reads_per_s=9.0),),
            ),
        ),
        kernel=(KernelMessage(0.1, 3, "bad"), KernelMessage(0.2, 6, "fine")),
    )
    found = rows(seen)
    assert list(found) == [
        *("cpu all", "cpu 0", "cpu 1", "thread work", "cgroup /bench", "memory"),
        *("swap", "disk vda", "disks all", "network eth0", "sockets", "files", "kernel"),
    ]
    assert found["cpu all"].utilization[0] == UseValue("busy", 0.75, "processors", 2)
    assert found["cpu 0"].utilization == (UseValue("busy", 0.5, "share"),)
    assert named(found["cgroup /bench"].utilization)["cpu"].of == 0.5
    assert named(found["cgroup /bench"].utilization)["limit of reads on vda"].value == 9
    assert named(found["network eth0"].utilization)["sent"].of == 125e6
    assert found["sockets"].errors == (UseValue("sent again", 3, "segments", 100),)
    assert named(found["files"].utilization)["wrk"] == UseValue("wrk", 12, "files", 48)
    assert found["kernel"].errors[0].value == 1


def test_cpus_are_at_most_fully_busy() -> None:
    """In a window of some ticks the kernel's counters can say more."""
    found = rows(use(cpu=cpu(2.3, 0.1, each=(1.2, 1.2))))
    assert found["cpu all"].utilization[0] == UseValue("busy", 2, "processors", 2)
    assert found["cpu 0"].utilization == (UseValue("busy", 1.0, "share"),)


def test_what_is_absent_says_why_and_is_not_zero() -> None:
    seen = ResourceUse(
        seconds=1.0,
        samples=10,
        epochs=(1, 1),
        absent=(("cpu", "stat: no such file"), ("pressure/io", "no PSI"), ("throttle", "no file")),
    )
    for row in use_table(seen):
        for one in (*row.utilization, *row.saturation, *row.errors):
            assert one.value is None or row.resource == "kernel", row
            assert one.value is not None or one.absent
    found = rows(seen)
    assert found["cpu"].utilization[0].absent == "stat: no such file"
    assert found["disks all"].saturation[0].absent == "no PSI"
    assert found["disk"].utilization[0].absent == "no request in this window"


def test_stated_capacities_are_what_disks_and_links_are_shares_of() -> None:
    seen = use(
        disks=(disk(0.5, 1.0, writes_per_s=50.0), disk(0.5, 1.0, name="vdb", writes_per_s=20.0)),
        networks=(network("veth0", send_bytes_per_s=1e6),),
    )
    stated = (
        StatedCapacity("vda", 200.0, "1/s"),
        StatedCapacity("vda", 819200.0),
        StatedCapacity("vda+vdb", 300.0, "1/s"),
        StatedCapacity("veth0", 4e6),
        StatedCapacity("vdc+vdd", 100.0, "1/s"),
        StatedCapacity("bus", 1e9),
    )
    found = {f"{row.resource} {row.name}": row for row in use_table(seen, stated)}
    of_disk = named(found["disk vda"].utilization)
    assert of_disk["requests"] == UseValue("requests", 150.0, "1/s", 200.0)
    assert of_disk["moved"] == UseValue("moved", 409600.0, "B/s", 819200.0)
    assert "requests" not in named(found["disk vdb"].utilization)
    assert found["disks vda+vdb"].utilization == (UseValue("requests", 270.0, "1/s", 300.0),)
    assert named(found["network veth0"].utilization)["sent"].of == 4e6
    assert not {"disks vdc+vdd", "disks bus"} & set(found)


def test_no_swap_space_is_told_as_that() -> None:
    assert rows(use())["swap"].utilization[0].absent == "there is no swap space"
    some = use(memory=memory(swap_total=64 * MIB, swap_used_max=MIB))
    assert rows(some)["swap"].utilization[0] == UseValue("used", MIB, "B", 64 * MIB)


def test_the_largest_number_is_no_limit_of_files() -> None:
    (one,) = (
        one
        for one in rows(use(files_of_machine=(5, (1 << 63) - 1)))["files"].utilization
        if one.name == "machine"
    )
    assert (one.value, one.of) == (5, None)
