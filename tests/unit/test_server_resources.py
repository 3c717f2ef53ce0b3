"""The resources of a spec's server: what is read, and what becomes of it in cgroups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.features.quiet.hold import Quieted, QuietRequest
from benchwright.features.quiet.host import Host, ProgramResult, SettingRefused
from benchwright.features.quiet.server_resources import (
    Disks,
    Groups,
    io_limits,
    lift,
    put_back,
    server_groups,
    server_wishes,
)
from benchwright.features.quiet.transaction import plans
from benchwright.features.quiet.types import (
    WRITTEN,
    DeviceLimits,
    IoLimits,
    ServerDisks,
    ServerResources,
    ServerSetup,
    SettingChange,
)
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import read_spec

SERVER = '[server]\nstart = "serve {disks_}"\nready = { tcp = "127.0.0.1:{port}" }\n'
LOAD = '[load]\ntarget = "null"\n'


def read(resources: str, more: str = "", start: str = "serve") -> Spec:
    """Return a spec whose server has these resources."""
    server = SERVER.replace("serve {disks_}", start)
    return read_spec(f"{server}[server.resources]\n{resources}\n{LOAD}{more}", "s.toml")


def resources(text: str, more: str = "", **sample: str) -> ServerResources:
    """Return the resources of a server at a sample."""
    server = read(text, more).at(tuple(sample.items())).server
    assert server is not None
    assert server.resources is not None
    return server.resources


def mistakes(text: str, more: str = "", start: str = "serve") -> list[str]:
    """Return each mistake as `line message`."""
    with pytest.raises(InputError) as caught:
        read(text, more, start)
    return [f"{d.line} {d.message}" for d in caught.value.diagnostics]


# -- what is read --------------------------------------------------------------------------


def test_each_resource_is_read() -> None:
    assert resources(
        """cpu_share = 200
cpu_quota = 1.5
memory = "512M"
io = [{ device = "/dev/sdb", read_iops = 100, write_bandwidth = "10M" }]
disks = 2
disk_size = "64M"
disk_iops = 50
disk_bandwidth = "1M"
disk_file_system = "xfs"
disk_options = ["-b", "size=1024"]
disk_directory = "/data"
"""
    ) == ServerResources(
        cpu_share=200,
        cpu_quota_us=150_000,
        memory_bytes=512 << 20,
        io=(
            DeviceLimits(
                device="/dev/sdb", limits=IoLimits(read_iops=100, write_bytes_per_s=10 << 20)
            ),
        ),
        disks=ServerDisks(
            count=2,
            size_bytes=64 << 20,
            limits=IoLimits(
                read_iops=50, write_iops=50, read_bytes_per_s=1 << 20, write_bytes_per_s=1 << 20
            ),
            file_system="xfs",
            options=("-b", "size=1024"),
            directory="/data",
        ),
    )


def test_each_resource_may_be_a_factor() -> None:
    text = """cpu_share = "{share}"
cpu_quota = "{cpus}"
memory = "{memory}M"
io = [{ device = "{device}", read_iops = "{iops}" }]
disks = "{n}"
disk_file_system = "{fs}"
disk_options = ["-b", "{block}"]
disk_iops = "{iops}"
"""
    more = """[factors]
share = [100, 50]
cpus = [0.5, 2]
memory = [64, 128]
device = ["/dev/sdb", "/"]
n = [1, 4]
fs = ["ext4", "ext2"]
block = [1024, 4096]
iops = [10, 20]
"""
    assert resources(text, more).disks == ServerDisks(
        count=1, options=("-b", "1024"), limits=IoLimits(read_iops=10, write_iops=10)
    )
    other = resources(
        text,
        more,
        share="50",
        cpus="2",
        memory="128",
        device="/",
        n="4",
        fs="ext2",
        block="4096",
        iops="20",
    )
    assert other == ServerResources(
        cpu_share=50,
        cpu_quota_us=200_000,
        memory_bytes=128 << 20,
        io=(DeviceLimits(device="/", limits=IoLimits(read_iops=20)),),
        disks=ServerDisks(
            count=4,
            file_system="ext2",
            options=("-b", "4096"),
            limits=IoLimits(read_iops=20, write_iops=20),
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu_share = 0", "cpu_share is out of range"),
        ("cpu_quota = 0.001", "cpu_quota: '0.001' is less than 0.01 CPUs"),
        ("memory = '0'", "memory: '0' is zero; it must be more"),
        ("disks = 65", "disks is out of range"),
        ("disk_size = '1G'", "disk_size has no effect without disks"),
        ("disks = 1\ndisk_file_system = 'a b'", "'a b' is not the name of a file"),
        (
            "disks = 1\ndisk_striped = true\ndisk_file_system = 'xfs'",
            "disk_striped needs the file system btrfs",
        ),
        ("io = [{ device = '/' }]", "/ has no limit: read_iops, write_iops"),
        ("io = [{ read_iops = 1 }]", "device is missing here"),
        ("cores = 1", "unknown key 'cores'"),
    ],
)
def test_a_wrong_resource_is_refused(text: str, words: str) -> None:
    assert any(words in one for one in mistakes(text))


def test_names_of_disks_are_those_of_the_sample() -> None:
    start = "serve {disk1} {disk2} {disk_mounts}"
    factors = "[factors]\nn = [2, 1]\n"
    assert mistakes('disks = "{n}"', factors, start) == [
        "2 there is no variable 'disk2' (at {n} = 1)"
    ]
    assert mistakes("memory = '1G'", "", "serve {disk1}") == ["2 there is no variable 'disk1'"]
    assert mistakes("disks = 1", "[factors]\ndisk1 = [1]\n") == [
        "9 {disk1} is a disk of [server.resources]: no factor can have this name"
    ]
    # Striped disks have one directory.
    striped = 'disks = "{n}"\ndisk_striped = true'
    assert mistakes(striped, factors, "serve {disk2}") == ["2 there is no variable 'disk2'"]
    assert resources(striped, factors).disks == ServerDisks(
        count=2, file_system="btrfs", striped=True
    )
    # A factor may be named `disks`, as in the paper.
    assert read('disks = "{disks}"', "[factors]\ndisks = [1, 2]\n").server is not None


def test_a_server_that_bw_does_not_start_has_no_resources() -> None:
    with pytest.raises(InputError) as caught:
        read_spec(f"[server]\nconfigure = 'x'\n[server.resources]\nmemory = '1M'\n{LOAD}", "s.toml")
    assert [d.message for d in caught.value.diagnostics] == [
        "resources has no effect without start"
    ]


# -- cgroups -------------------------------------------------------------------------------

FILES_OF_GROUP = {
    "cpu": ("cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"),
    "memory": ("memory.limit_in_bytes",),
    "blkio": tuple(
        f"blkio.throttle.{kind}_{unit}_device"
        for kind in ("read", "write")
        for unit in ("bps", "iops")
    ),
    "": ("cpu.weight", "cpu.max", "memory.max", "io.max"),
}


WITHOUT_LIMITS = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "cpu.cfs_quota_us": "-1",
}


class GroupsOnly(Host):
    """A machine that has cgroups, a process 31 and a disk 8:0, of plain files."""

    def __init__(self, root: Path, version: int, *controllers: str) -> None:
        super().__init__(root, superuser=True, run=self._run)
        self.own_pid = 31
        self.version = version
        (root / "proc/31").mkdir(parents=True)
        (root / "proc/mounts").write_text("")
        top = self.sys / "fs/cgroup"
        if version == 1:
            lines = [f"{n}:{name}:/own" for n, name in enumerate(controllers)]
            for name in controllers:
                self.make_directory(top / name)
                self.make_directory(top / name / "own")
        else:
            lines = ["0::/own"]
            self.make_directory(top)
            (top / "cgroup.controllers").write_text(" ".join(controllers))
            (top / "cgroup.subtree_control").write_text("cpu")
            self.make_directory(top / "own")
        (root / "proc/31/cgroup").write_text("\n".join(lines))

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        kind = path.relative_to(self.sys / "fs/cgroup").parts[:1]
        for name in FILES_OF_GROUP[kind[0] if self.version == 1 else ""]:
            if self.version == 1 or name.partition(".")[0] in self._on(path.parent):
                (path / name).write_text(WITHOUT_LIMITS.get(name, ""))
        (path / "cgroup.procs").touch()

    def _on(self, group: Path) -> list[str]:
        """Return the controllers of the children of a group of version 2."""
        return (self.read(group / "cgroup.subtree_control") or "").split()

    def write(self, path: Path, text: str) -> None:
        if path.name == "cgroup.subtree_control":
            on = set(path.read_text().split())
            (on.add if text[0] == "+" else on.discard)(text[1:])
            path.write_text(" ".join(sorted(on)))
            for child in path.parent.iterdir():
                for name in FILES_OF_GROUP[""] if child.is_dir() else ():
                    if name.partition(".")[0] == text[1:]:
                        (child / name).unlink(missing_ok=True)
                        if text[0] == "+":
                            (child / name).write_text(WITHOUT_LIMITS.get(name, ""))
        elif text[:1].isdigit() and ":" in text.split()[0]:
            # A line for each device; a limit of 0 is none.
            device = text.split()[0]
            kept = [one for one in path.read_text().splitlines() if one.split()[0] != device]
            off = text.endswith(" 0") or text.count("=max") == 4
            lines = kept if off else [*kept, text]
            path.write_text("\n".join(lines))
        else:
            super().write(path, text)

    def remove_directory(self, path: Path) -> bool:
        for one in path.iterdir() if path.is_dir() else ():
            one.unlink()
        return super().remove_directory(path)

    def _run(self, argv: tuple[str, ...]) -> ProgramResult:
        asked = ("losetup", "-n", "-O", "MAJ:MIN", "-j")
        assert argv[:-1] == asked, argv
        return ProgramResult(0, f"  7:{Path(argv[-1]).stem.removeprefix('disk')}\n")

    def disk(self, name: str) -> str:
        """Return the path of a device on a disk that is limited by its number."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        number = os.stat(path).st_dev
        known = f"{os.major(number)}:{os.minor(number)}"
        (self.sys / "dev/block" / known).mkdir(parents=True, exist_ok=True)
        return known


ALL = ServerResources(
    cpu_share=50,
    cpu_quota_us=50_000,
    memory_bytes=(64 << 20) + 1,
    io=(DeviceLimits(device="/disk", limits=IoLimits(read_iops=10, write_bytes_per_s=1 << 20)),),
)


def made(host: Host, wanted: ServerResources, place: Path) -> Quieted:
    """Return the transaction that gives a server its resources."""
    setup = ServerSetup(resources=wanted, group="bw-server-1", mounts="/bw-disks-x")
    wishes = server_wishes(setup)
    return Quieted(QuietRequest(wishes, host=host, directory=place / "state"))


def snapshot(host: Host) -> dict[str, str]:
    """Return every file of the cgroups."""
    top = host.sys / "fs/cgroup"
    return {str(one.relative_to(top)): one.read_text() for one in top.rglob("*") if one.is_file()}


def test_version_1_has_a_group_below_that_of_bw_for_each_controller(tmp_path: Path) -> None:
    host = GroupsOnly(tmp_path / "m", 1, "cpu", "memory", "blkio")
    device = host.disk("disk")
    before = snapshot(host)
    with made(host, ALL, tmp_path) as held:
        assert held.quiet.lacking == ()
        inside = {k: v.strip() for k, v in snapshot(host).items() if k not in before}
        groups = server_groups([one.change for one in held.quiet.done])
    group = "own/bw-server-1"
    assert {k: v for k, v in inside.items() if v} == {
        f"cpu/{group}/cpu.shares": "512",
        f"cpu/{group}/cpu.cfs_period_us": "100000",
        f"cpu/{group}/cpu.cfs_quota_us": "50000",
        f"memory/{group}/memory.limit_in_bytes": str(64 << 20),
        f"blkio/{group}/blkio.throttle.read_iops_device": f"{device} 10",
        f"blkio/{group}/blkio.throttle.write_bps_device": f"{device} {1 << 20}",
    }
    top = host.sys / "fs/cgroup"
    assert groups == tuple(str(top / name / group) for name in ("cpu", "memory", "blkio"))
    assert snapshot(host) == before
    assert held.restored is not None
    assert {one.how for one in held.restored.undone} == {WRITTEN}


def test_version_2_has_one_group_and_switches_controllers_on(tmp_path: Path) -> None:
    host = GroupsOnly(tmp_path / "m", 2, "cpu", "memory", "io")
    device = host.disk("disk")
    before = snapshot(host)
    with made(host, ALL, tmp_path) as held:
        assert held.quiet.lacking == ()
        inside = {
            k: v.strip()
            for k, v in snapshot(host).items()
            if v != before.get(k) and not k.startswith("own/")
        }
    assert inside == {
        "cgroup.subtree_control": "cpu io memory",
        "bw-server-1/cgroup.procs": "",
        "bw-server-1/cpu.weight": "50",
        "bw-server-1/cpu.max": "50000 100000",
        "bw-server-1/memory.max": str(64 << 20),
        "bw-server-1/io.max": f"{device} rbps=max wbps={1 << 20} riops=10 wiops=max",
    }
    assert snapshot(host) == before


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_io_are_lifted_and_set_again_and_others_stay(
    tmp_path: Path, version: int
) -> None:
    controllers = ("cpu", "memory", "blkio" if version == 1 else "io")
    host = GroupsOnly(tmp_path / "m", version, *controllers)
    device = host.disk("disk")
    before = snapshot(host)
    with made(host, ALL, tmp_path) as held:
        limited = snapshot(host)
        limits = io_limits([one.change for one in held.quiet.done])
        assert {limit.device for limit in limits} == {device}
        lift(host, limits)
        differ = {k: v for k, v in snapshot(host).items() if v != limited[k]}
        assert {Path(name).name for name in differ} == (
            {"io.max"}
            if version == 2
            else {"blkio.throttle.read_iops_device", "blkio.throttle.write_bps_device"}
        )
        assert set(differ.values()) == {""}
        put_back(host, limits)
        assert snapshot(host) == limited
        # A kernel that takes no value is noticed, in both directions.
        host.write = lambda _path, _text: None  # type: ignore[method-assign]
        with pytest.raises(SettingRefused, match="still has"):
            lift(host, limits)
        del host.write
        lift(host, limits)
        host.write = lambda _path, _text: None  # type: ignore[method-assign]
        with pytest.raises(SettingRefused, match="no limit after"):
            put_back(host, limits)
        del host.write
    # What a bw that ends here leaves is the machine without limits.
    assert snapshot(host) == before


def test_a_controller_that_another_group_uses_meanwhile_stays_on(tmp_path: Path) -> None:
    host = GroupsOnly(tmp_path / "m", 2, "memory")
    other = host.sys / "fs/cgroup/own/memory.max"
    wanted = ServerResources(memory_bytes=1 << 20)
    with made(host, wanted, tmp_path) as held:
        other.write_text("1000")
    assert "memory" in (host.sys / "fs/cgroup/cgroup.subtree_control").read_text()
    assert held.restored is not None
    (kept,) = held.restored.foreign
    assert (kept.change.item, kept.value) == ("controller memory", "on, used by own")


@pytest.mark.parametrize("version", [1, 2])
def test_disks_are_limited_where_the_kernel_writes_back(tmp_path: Path, version: int) -> None:
    controllers = ("blkio",) if version == 1 else ("io", "memory")
    host = GroupsOnly(tmp_path / "m", version, *controllers)
    if version == 1:
        (host.proc / "31/cgroup").write_text("1:blkio:/")
    # Only the directory of the first one is there: both have one file system.
    place = host.root / "bw-disks-x"
    (place / "disk1").mkdir(parents=True)
    for number in (1, 2):
        (place / f"disk{number}.img").touch()
    disks = ServerDisks(count=2, striped=True, limits=IoLimits(read_iops=10, write_iops=10))
    before = snapshot(host)
    setup = ServerSetup(
        resources=ServerResources(disks=disks), group="bw-server-1", mounts="/bw-disks-x"
    )
    request = QuietRequest(server_wishes(setup)[1:], host=host, directory=tmp_path / "state")
    with Quieted(request) as held:
        now = {k: v.strip() for k, v in snapshot(host).items() if v != before.get(k)}
        groups = server_groups([one.change for one in held.quiet.done])
    if version == 1:
        assert groups == ()
        assert now == {
            f"blkio/blkio.throttle.{kind}_iops_device": "7:1 10\n7:2 10"
            for kind in ("read", "write")
        }
    else:
        assert len(groups) == 1
        assert now["cgroup.subtree_control"] == "cpu io memory"
        limits = "rbps=max wbps=max riops=10 wiops=10"
        assert now["bw-server-1/io.max"] == f"7:1 {limits}\n7:2 {limits}"
    assert snapshot(host) == before


def test_a_partition_is_limited_as_its_whole_disk(tmp_path: Path) -> None:
    host = GroupsOnly(tmp_path / "m", 1, "blkio")
    device = host.disk("disk")
    block = host.sys / "dev/block" / device
    block.rmdir()
    (host.sys / "devices/sda/sda1").mkdir(parents=True)
    (host.sys / "devices/sda/dev").write_text("8:0\n")
    (host.sys / "devices/sda/sda1/partition").write_text("1\n")
    block.symlink_to(host.sys / "devices/sda/sda1")
    wanted = msgspec.structs.replace(ALL, cpu_share=None, cpu_quota_us=None, memory_bytes=None)
    with made(host, wanted, tmp_path) as held:
        assert "8:0 10" in held.quiet.done[0].change.new


@pytest.mark.parametrize(
    ("version", "controllers", "wanted", "words"),
    [
        (1, ("cpu",), ServerResources(memory_bytes=1), "no cgroup controller memory"),
        (2, ("memory",), ServerResources(cpu_share=1), "no cgroup controller cpu"),
        (1, ("cpu",), ALL, "no cgroup controller blkio"),
        (
            1,
            ("blkio",),
            ServerResources(io=(DeviceLimits(device="/none", limits=IoLimits(read_iops=1)),)),
            "/none: No such file or directory",
        ),
        (
            1,
            ("blkio",),
            ServerResources(io=(DeviceLimits(device="/proc", limits=IoLimits(read_iops=1)),)),
            "/proc is on no block device",
        ),
        (
            1,
            ("cpu",),
            ServerResources(disks=ServerDisks(count=1, limits=IoLimits(read_iops=1))),
            "no cgroup controller blkio",
        ),
        (
            1,
            ("blkio",),
            ServerResources(disks=ServerDisks(count=1)),
            "this kernel has none (/dev/loop-control)",
        ),
    ],
)
def test_what_the_machine_does_not_have_is_named(
    tmp_path: Path, version: int, controllers: tuple[str, ...], wanted: ServerResources, words: str
) -> None:
    host = GroupsOnly(tmp_path / "m", version, *controllers)
    setup = ServerSetup(resources=wanted, group="bw-server-1", mounts="/x")
    lacking = [why for _, plan in plans(host, server_wishes(setup)) for why in plan.lacking]
    assert any(words in why for why in lacking), lacking


def test_without_permission_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = GroupsOnly(tmp_path / "m", 1, "cpu")
    monkeypatch.setattr(host, "writable", lambda _path: False)
    host.superuser = False
    before = snapshot(host)
    wanted = ServerResources(cpu_share=1, disks=ServerDisks(count=1))
    with made(host, wanted, tmp_path) as held:
        told = [one.why for one in held.quiet.lacking]
    assert any("may not be written: run as root" in why for why in told)
    assert any("disks cannot be made: run as root" in why for why in told)
    assert snapshot(host) == before


def test_in_a_container_the_controllers_of_the_root_are_not_ours(tmp_path: Path) -> None:
    host = GroupsOnly(tmp_path / "m", 2, "memory")
    top = host.sys / "fs/cgroup"
    (top / "cgroup.type").write_text("domain")
    (top / "cgroup.procs").write_text("1\n")
    wanted = ServerResources(memory_bytes=1 << 20)
    with made(host, wanted, tmp_path) as held:
        (why,) = [one.why for one in held.quiet.lacking]
    assert "belongs to a container" in why


# -- what a log may contain ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "item"),
    [
        (Groups(), "group /sys/fs/cgroup/cpu/other"),
        (Groups(), "group /etc/bw-server-1"),
        (Groups(), "group /sys/fs/cgroup/cpu/../../../etc/bw-server-1"),
        (Groups(), "throttle /sys/fs/cgroup/blkio/blkio.weight 7:0"),
        (Groups(), "controller cpuset"),
        (Groups(), "anything"),
        (Disks(), "/etc/disk1"),
        (Disks(), "/tmp/bw-disks-a/../disk1"),
        (Disks(), "/tmp/bw-disks-a/passwd"),
    ],
)
def test_an_item_that_is_not_ours_is_refused(setting: Any, item: str) -> None:
    change = SettingChange(setting.name, item, "absent", "1")
    with pytest.raises(SettingRefused, match="is not an item of"):
        setting.check(Host(), change)


@pytest.mark.parametrize("what", ["nothing", "the directory", "some limits"])
def test_a_group_that_was_not_finished_is_removed(tmp_path: Path, what: str) -> None:
    host = GroupsOnly(tmp_path / "m", 1, "cpu")
    group = host.sys / "fs/cgroup/cpu/own/bw-server-1"
    new = "cpu.cfs_period_us=100000; cpu.cfs_quota_us=50000"
    change = SettingChange("server-groups", f"group {group}", "absent", new)
    before = snapshot(host)
    if what != "nothing":
        host.make_directory(group)
    if what == "some limits":
        (group / "cpu.cfs_period_us").write_text("100000\n")
    setting = Groups()
    setting.check(host, change)
    assert setting.read(host, change) == ("absent" if what == "nothing" else new)
    setting.write(host, change, "absent")
    assert snapshot(host) == before
    assert setting.read(host, change) == "absent"
