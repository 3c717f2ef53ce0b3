"""bpftrace's words -> what I/O arrived; events of tracefs; places."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchwright.features.profile.description import (
    DescriptionContext,
    DeviceMount,
    describe_io,
    descriptor_kind,
    devices_used,
    disk_name,
    disks_below,
    mounts_of,
    node_name,
    nodes_used,
    phases,
    transfers,
    under_way_s,
)
from benchwright.features.profile.kernel_counter import MAP_KEYS, EventCounts
from benchwright.features.profile.totals import MapKey, TotalsTick, blocks, totals
from benchwright.features.profile.types import (
    BusiestThread,
    LatencyCalls,
    MappedFiles,
    SizeCalls,
    Transfer,
    latency_ns,
    sizes_of,
)

FILE, PIPE, CHARACTERS = 8, 1, 2
ZERO = 1 << 20 | 5
DIRECT = FILE | os.O_DIRECT << 8
VDA = 254 << 20
WRITE, READ = 2, 1
S = 10**9


def said(*objects: dict[str, object]) -> list[str]:
    """Return bpftrace's output: what it says of itself, then these."""
    head = {"type": "attached_probes", "data": {"probes": 70}}
    return ["", *(json.dumps(one) for one in (head, *objects))]


def a_map(name: str, **values: int) -> dict[str, object]:
    return {"type": "map", "data": {f"@{name}": values}}


def counts(*items: tuple[tuple[int, ...], int]) -> dict[str, int]:
    return {",".join(map(str, key)): value for key, value in items}


N = counts(
    ((WRITE, FILE, VDA, 1), 900),
    ((WRITE, FILE | 1 << 8, VDA, 1), 50),
    ((WRITE, FILE, VDA, 8192), 50),
    ((WRITE, DIRECT, VDA, 4096), 7),
)
M = counts(
    ((READ, PIPE, 13, 100), 2),
    ((READ, PIPE | 1 << 8, 13, 12145), 1),
    ((READ, CHARACTERS, ZERO, 512), 7),
)


def moved(*lines: dict[str, object], nodes: dict[str, str] | None = None) -> list[Transfer]:
    return list(transfers(totals(said(*lines)), nodes or {}))


def test_transfers_join_what_differs_only_in_the_mode_of_opening() -> None:
    plain, direct = moved(
        a_map("n", **N),
        a_map("seq", **counts(((WRITE, FILE, VDA), 500))),
        a_map("ns", **counts(((WRITE, FILE, VDA), 2 * S))),
    )
    assert (plain.calls, plain.bytes) == (1000, 950 + 50 * 8192)
    assert plain.sizes == (SizeCalls(1, 950), SizeCalls(8192, 50))
    assert (plain.sequential, plain.seconds, plain.device) == (0.5, 2.0, "254:0")
    assert (direct.direct, direct.calls, plain.direct) == (True, 7, False)


def test_pipes_and_character_devices_have_sizes_and_no_order() -> None:
    sums = (((READ, PIPE, 13), 200), ((READ, PIPE | 1 << 8, 13), 12145))
    zeros = ((READ, CHARACTERS, ZERO), 7 * 512)
    zero, pipe = moved(
        a_map("m", **M), a_map("sum", **counts(*sums, zeros)), nodes={"1:5": "/dev/zero"}
    )
    assert (zero.kind, zero.node, zero.bytes) == ("character device", "/dev/zero", 3584)
    assert zero.sizes == (SizeCalls(512, 7),)
    assert (pipe.kind, pipe.calls, pipe.bytes, pipe.device) == ("pipe", 3, 12345, "")
    assert pipe.sizes == (SizeCalls(100, 2), SizeCalls(12145, 1))
    assert (zero.sequential, pipe.sequential) == (None, None)
    assert nodes_used(totals(said(a_map("m", **M))).maps) == {"1:5"}


def test_they_enter_no_share_of_the_files_and_no_file_system() -> None:
    lines = said(a_map("n", **N), a_map("m", **M))
    # A block device has the number of /dev/zero.
    mounted = DeviceMount("1:5", "ext4", "/ram", "/dev/ram5")
    found = describe_io(
        totals(lines), DescriptionContext("bpftrace", 0, 1.0, 4096, {"1:5": mounted}, {})
    )
    assert sizes_of(found, "read") == {}
    assert devices_used(found) == ["254:0"]
    assert found.file_systems == ()


def test_messages_without_room_for_their_sizes_are_still_counted() -> None:
    key = (READ, PIPE, 13)
    sums = (a_map("all", **counts((key, 9))), a_map("sum", **counts((key, 900))))
    [one] = moved(a_map("m", **counts(((*key, 100), 2))), *sums)
    assert (one.calls, one.bytes, one.sizes) == (9, 900, (SizeCalls(100, 2),))


def hist(name: str, **buckets: list[tuple[int, int]]) -> dict[str, object]:
    """Return a histogram as bpftrace prints it: (first of a bucket, calls)."""
    data = {
        key: [{"min": low, "max": 2 * low - 1, "count": calls} for low, calls in counts]
        for key, counts in buckets.items()
    }
    return {"type": "hist", "data": {f"@{name}": data}}


def test_times_are_told_by_powers_of_two_and_joined() -> None:
    first = f"{WRITE},{FILE},{VDA}"
    second = f"{WRITE},{FILE | 1 << 8},{VDA}"
    [one, _] = moved(
        a_map("n", **N),
        hist("lat", **{first: [(512, 90), (1024, 0), (4096, 4)], second: [(512, 6)]}),
    )
    assert one.latencies == (LatencyCalls(1024, 96), LatencyCalls(8192, 4))
    assert [latency_ns(one.latencies, share) for share in (0.5, 0.96, 0.99, 1)] == [
        *(1024, 1024, 8192, 8192)
    ]
    assert latency_ns((), 0.5) is None


def test_a_time_below_nothing_is_the_shortest() -> None:
    """bpftrace's bucket of negative values has no beginning."""
    buckets = [{"max": -1, "count": 2}, {"min": 0, "max": 0, "count": 3}]
    buckets += [{"min": 4, "max": 7, "count": 0}, {"min": 8, "count": 1}]
    data = {"@klat": {"40": buckets}}
    [times] = totals(said({"type": "hist", "data": data})).lasted["klat"].values()
    assert times == (LatencyCalls(1, 5), LatencyCalls(16, 1))


def test_what_makes_data_durable_has_its_times_too() -> None:
    lines = said(a_map("k", **{"40": 3}), hist("klat", **{"40": [(1 << 20, 3)]}))
    [one] = describe_io(totals(lines), DescriptionContext("bpftrace", 0, 1.0, 4096, {}, {})).others
    assert (one.call, one.calls, one.latencies) == (*("fsync", 3), (LatencyCalls(1 << 21, 3),))


def test_files_are_told_by_how_many_and_how_far_they_were_used() -> None:
    lines = said(a_map("n", **N), a_map("w", **counts(((VDA, 7), 100), ((VDA, 8), 50))))
    around = DescriptionContext("bpftrace", 0, 1.0, 4096, mounts_of(MOUNTINFO), {})
    [use] = describe_io(totals(lines), around).file_systems
    assert (use.files, use.files_bytes) == (2, 150)


def test_mapped_files_are_told() -> None:
    lines = said(a_map("map", **{"0": 2, "1": 1}), a_map("maplen", **{"0": 8192, "1": 4096}))
    found = describe_io(totals(lines), DescriptionContext("bpftrace", 0, 1.0, 4096, {}, {}))
    assert found.mapped == (MappedFiles(True, 1, 4096), MappedFiles(False, 2, 8192))


def test_what_libaio_has_under_way_follows_from_both_ends() -> None:
    def sums(given: int, taken: int, late: int) -> float | None:
        values = {"given": given, "taken": taken, "givenat": 100, "takenat": late}
        data = {f"@{name}": value for name, value in values.items()}
        return under_way_s(totals(said({"type": "map", "data": data})).maps)

    assert sums(3, 3, 100 + 5 * S) == 5.0
    # The sums wrap; some operations were taken from the ring in memory; there were none.
    assert sums(3, 3, 100 + 5 * S - (1 << 64)) == 5.0
    assert sums(3, 2, 100 + 5 * S) is None
    assert sums(0, 0, 100) is None


def test_rare_sizes_are_told_by_powers_of_two() -> None:
    many = counts(*(((WRITE, FILE, VDA, size), 100 - size) for size in range(1, 21)))
    [one] = moved(a_map("n", **many))
    assert [size.bytes for size in one.sizes] == list(range(1, 13))
    assert [(b.bytes, b.calls) for b in one.buckets] == [
        (16, 87 + 86 + 85 + 84),
        (32, 83 + 82 + 81 + 80),
    ]
    assert sum(s.calls for s in (*one.sizes, *one.buckets)) == one.calls


def test_flags_mean_nothing_for_a_pipe() -> None:
    assert not descriptor_kind(PIPE | os.O_DIRECT << 8).direct
    assert descriptor_kind(FILE | os.O_SYNC << 8).synchronous
    assert (descriptor_kind(0).kind, descriptor_kind(2 << 8).kind) == ("unknown", "other")


def test_lost_events_and_foreign_lines_do_not_hide() -> None:
    lines = [*said({"type": "lost_events", "data": {"events": 5}}), "garbage {"]
    assert totals(lines).lost == 5


def test_phases_follow_the_commonest_call() -> None:
    def tick(seconds: int, ones: int, blocks: int) -> TotalsTick:
        key = (str(WRITE), str(FILE), str(VDA))
        calls: dict[MapKey, int] = {(*key, "1"): ones, (*key, "8192"): blocks}
        ran: dict[MapKey, int] = {("7", "bonnie,x"): S * min(seconds, 2), ("8", "a"): S}
        waited: dict[MapKey, int] = {("7", "bonnie,x"): S // 2}
        return TotalsTick(seconds * S, calls, ran, waited)

    ticks = [tick(1, 1000, 0), tick(2, 3000, 5), tick(3, 3000, 205), tick(4, 3000, 205)]
    first, second = phases(ticks, 0)
    assert (first.begin_s, first.end_s, first.bytes) == (0, 2, 1)
    assert first.calls_per_s == 1500
    assert first.busiest == BusiestThread("bonnie,x", 1.0, 0.25, 1.75)
    assert second.busiest is None
    assert first.share == pytest.approx(3000 / 3005)
    assert (second.begin_s, second.end_s, second.bytes) == (2, 3, 8192)
    assert second.bytes_per_s == 200 * 8192


def test_a_long_trial_keeps_fewer_ticks_and_all_calls() -> None:
    def printed(second: int) -> list[dict[str, object]]:
        tick: dict[str, object] = {"type": "printf", "data": f"tick {second * S}\n"}
        return [tick, a_map("n", **counts(((WRITE, FILE, VDA, 1), second)))]

    lines = said(*(one for second in range(1, 10_001) for one in printed(second)))
    found = totals(lines)
    assert 2000 < len(found.ticks) <= 4096
    [phase] = phases(found.ticks, 0)
    assert phase.end_s == found.ticks[-1].at_ns / S > 9990
    assert phase.calls_per_s == pytest.approx(1)


def test_a_long_pause_parts_a_phase_and_pipes_have_none() -> None:
    key = (str(WRITE), str(FILE), str(VDA), "1")
    pipe = (str(READ), str(PIPE), "0", "0")
    ticks = [
        TotalsTick(S, {key: 5}),
        TotalsTick(2 * S, {key: 5, pipe: 9}),
        TotalsTick(3 * S, {key: 8, pipe: 9}),
    ]
    assert [(p.begin_s, p.end_s) for p in phases(ticks, 0)] == [(0, 1), (2, 3)]


def test_block_requests_are_by_whom_and_what() -> None:
    blk = {
        f"1,{VDA},WS,4096": 3,
        f"2,{VDA},FWFS,4096": 2,
        f"2,{VDA},FF,0": 1,
        f"0,{VDA},RAM,8192": 4,
        f"2,{VDA},DS,512": 1,
    }
    found = blocks(totals(said(a_map("blk", **blk))).maps, {"254:0": "vda"})
    assert {(b.device, b.by, b.direction, b.requests) for b in found} == {
        ("vda", "trial", "write", 3),
        ("vda", "kernel", "write", 2),
        ("vda", "kernel", "flush", 1),
        ("vda", "others", "read", 4),
        ("vda", "kernel", "discard", 1),
    }


def test_events_are_counted_from_text_cut_anywhere() -> None:
    text = (
        b" dd-9 [000] ..... 6.1: sys_write -> 0x1000\n"
        b" dd-9 [000] ..... 6.2: sys_write -> 0x1000\n"
        b" a: sys_b-9 [000] ..... 6.3: sys_read -> 0xfffffffffffffff5\n"
        b"CPU:0 [LOST 7 EVENTS]\n"
        b" dd-9 [000] ..... 6.4: sys_fsync -> 0x0\n"
        b" dd-9 [000] ..... 6.5: sys_futex -> 0x0\n"
        b" dd-9 [000] ..... 6.6: sys_wri"
    )
    for cut in range(0, len(text), 11):
        counts = EventCounts()
        counts.take(text[:cut])
        counts.take(text[cut:])
        maps = counts.maps()
        assert maps == {"@n": {"2,0,0,4096": 2}, "@k": {"40": 1}, "@bad": {"1,11": 1}}
        assert counts.lost == 7
    [one] = moved(a_map("n", **maps["@n"]))
    assert (one.call, one.kind, one.bytes, one.sequential) == ("write", "unknown", 8192, None)


MOUNTINFO = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:21 / /proc rw - proc proc rw
23 21 254:0 /sub /with\\040blank rw - ext4 /dev/vda rw
24 21 0:40 / /data rw - btrfs /dev/no-such rw
too short
"""


def test_mounts_are_the_first_of_each_device() -> None:
    found = mounts_of(MOUNTINFO)
    assert found["254:0"] == DeviceMount("254:0", "ext4", "/", "/dev/vda")
    assert found["0:40"].mount == "/data"
    assert set(found) == {"254:0", "0:21", "0:40"}


def test_disks_are_whole_and_what_has_none_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "block/vda/vda1").mkdir(parents=True)
    (tmp_path / "block/vda/vda1/partition").write_text("1\n")
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "254:0").symlink_to(tmp_path / "block/vda")
    (devices / "254:1").symlink_to(tmp_path / "block/vda/vda1")
    assert disk_name("254:1", devices) == "vda"
    assert disk_name("9:9", devices) is None
    found = disks_below(["254:1", "0:21", "0:40"], mounts_of(MOUNTINFO), devices)
    assert found == ["vda"]


@pytest.mark.parametrize(
    ("room", "what"), [("cpu", "threads that ran"), ("wait", "threads that were preempted")]
)
def test_threads_without_room_are_told(room: str, what: str) -> None:
    for seen, told in ((MAP_KEYS - 1, []), (MAP_KEYS, [f"some of {what}"])):
        full = a_map(room, **{f"{thread},sh": 1 for thread in range(seen)})
        found = describe_io(
            totals(said(full)), DescriptionContext("bpftrace", 0, 1.0, 4096, {}, {})
        )
        assert [name for name, _ in found.absent] == told


def test_everything_counted_is_described() -> None:
    lines = said(
        a_map("n", **N),
        a_map(
            "cache", **counts(((VDA, WRITE), 10), ((VDA, READ), 2), ((VDA, 0), 1), ((VDA, 16), 3))
        ),
        a_map("fs", **counts(((0, VDA, 1), 950), ((8, VDA, 4096), 7))),
        a_map("k", **{"40": 2}),
        a_map("kns", **{"40": S // 2}),
        a_map("bad", **{"2,28": 4}),
        {"type": "map", "data": {"@pauses": 3}},
        {"type": "map", "data": {"@paused": 1500}},
        {"type": "map", "data": {"@unseen": 6}},
    )
    around = DescriptionContext("bpftrace", 0, 10.0, 4096, mounts_of(MOUNTINFO), {})
    found = describe_io(totals(lines), around)
    [use] = found.file_systems
    assert (use.type, use.mount) == ("ext4", "/")
    assert (use.cache_read_bytes, use.cache_written_bytes, use.cache_other_bytes) == (
        8192,
        40960,
        # A page fault, and three pages of a copy_file_range.
        4 * 4096,
    )
    assert [(e.means, e.count, e.bytes) for e in use.events] == [
        ("buffered write", 950, 950),
        ("direct I/O", 7, 7 * 4096),
    ]
    assert [(o.call, o.calls, o.seconds) for o in found.others] == [("fsync", 2, 0.5)]
    assert [(f.call, f.error, f.calls) for f in found.failed] == [("write", "ENOSPC", 4)]
    assert (found.throttled, found.throttled_s) == (3, 1.5)
    assert found.absent[0][0] == "6 operations of io_submit"
    assert sizes_of(found, "write") == {1: 950, 8192: 50, 4096: 7}
    assert devices_used(found) == ["254:0"]


def test_character_devices_have_their_names(tmp_path: Path) -> None:
    (tmp_path / "1:5").mkdir()
    (tmp_path / "1:5/uevent").write_text("MAJOR=1\nMINOR=5\nDEVNAME=zero\n")
    assert node_name("1:5", tmp_path) == "/dev/zero"
    assert node_name("137:2", tmp_path) == "/dev/pts/258"
    assert node_name("9:9", tmp_path) == ""
