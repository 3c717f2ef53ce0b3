"""Gives a server its resources: groups with limits, and disks with a file system.

The changes are those of a transaction like any other: durable before they are made, verified,
undone in reverse order, by the next `bw` if this one is killed. Each server has its own log
(`log_path.server_logs`), so that several searches can run at once, also inside `bw quiet`.

Decision: a group for each controller, below the group of `bw` in version 1, and below the root
in version 2, where a group with processes cannot have children with limits. Each group is one
change whose value is the text of its limits.
Decision: in version 1 a disk of our own is limited in the root group too. The kernel writes back
dirty pages there, whatever group made them; without that limit only direct I/O and reads would be
limited. A server without limits of other devices then stays in the root group, so that all I/O of
a disk shares one limit.
Rejected: dm-delay and nbd for slow disks (modules that many kernels lack), loop devices attached
by `mount -o loop` (no direct I/O: the cache of the image would hide the limit of memory).
Source: kernel documentation, admin-guide/cgroup-v1/{blkio-controller,memory}.rst,
admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst; losetup(8).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.features.quiet.host import (
    Host,
    SettingPlan,
    SettingRefused,
    check_item,
    unknown_item,
)
from benchwright.features.quiet.isolation import (
    Hierarchy,
    below,
    group_of,
    hierarchy,
    listed,
    members,
    move,
    remove,
)
from benchwright.features.quiet.types import (
    CPU_PERIOD_US,
    STRIPED,
    IoLimits,
    RequestedSetting,
    ServerDisks,
    ServerResources,
    ServerSetup,
    SettingChange,
)

DISKS, GROUPS = "server-disks", "server-groups"
"""The names of the settings in a log; a user cannot request them."""
GROUP_PREFIX, MOUNTS_PREFIX = "bw-server-", "bw-disks-"
_ABSENT, _ON, _OFF, _UNLIMITED = "absent", "on", "off", "0"


def server_wishes(setup: ServerSetup) -> tuple[RequestedSetting, ...]:
    """Return the settings to request for a server, disks before the groups that limit them."""
    text = (msgspec.json.encode(setup).decode(),)
    return RequestedSetting(DISKS, text), RequestedSetting(GROUPS, text)


def _setup_of(wish: RequestedSetting) -> ServerSetup:
    return msgspec.json.decode(wish.values[0], type=ServerSetup)


# -- disks: an image file, a loop device, a file system, a mount ------------------------

_DISK = re.compile(rf"\A/(?:[^/]+/)*{MOUNTS_PREFIX}\w+/disk\d+")
_WHOLE_EXT = "lazy_itable_init=0,lazy_journal_init=0"
_DETACH_TRIES = 100
_PAUSE_S = 0.05


class Disks:
    """Disks of the server, each mounted in a directory of its own, or striped in one."""

    name = DISKS

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return one change for each disk."""
        setup = _setup_of(wish)
        disks = setup.resources.disks
        if disks is None:
            return SettingPlan()
        lacking = tuple(_disk_problems(host, disks))
        if lacking:
            return SettingPlan((), lacking)
        images = disks.count if disks.striped else 1
        size = f"{images}x{disks.size_bytes}"
        layout = ("-d", "raid0", "-m", "raid0") if disks.striped else ()
        made = shlex.join((size, disks.file_system, *layout, *disks.options))
        return SettingPlan(
            tuple(SettingChange(self.name, path, _ABSENT, made) for path in setup.disk_paths)
        )

    def now(self, host: Host) -> str:
        """Return nothing: the disks of other servers are theirs."""
        del host
        return ""

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for a path that no disk of ours has."""
        del host
        check_item(change, _DISK)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return `absent`, or what was to be made where any part of it exists."""
        mount, images = _paths(host, change)
        there = mount.exists() or any(image.exists() for image in images)
        return change.new if there else _ABSENT

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Make and mount the disk, or remove it."""
        if value == _ABSENT:
            _remove_disk(host, change)
        else:
            _make_disk(host, change, value)
        return ""


def _disk_problems(host: Host, disks: ServerDisks) -> Iterator[str]:
    if not host.superuser:
        yield "disks cannot be made: run as root"
    place = disks.directory
    if place is not None and not (host.root / place.lstrip("/")).is_dir():
        yield f"disk_directory {place} does not exist"
    if not host.glob("dev/loop-control"):
        yield "disks need loop devices, and this kernel has none (/dev/loop-control)"
    for program in ("losetup", "mount", "umount", "fallocate"):
        if not host.has_program(program):
            yield f"disks need the program {program} (package util-linux or mount)"
    if not host.has_program(f"mkfs.{disks.file_system}"):
        yield f"no program makes the file system {disks.file_system}: mkfs.{disks.file_system}"


def _paths(host: Host, change: SettingChange) -> tuple[Path, list[Path]]:
    """Return the mount point and the image file of a disk; of striped disks the image files."""
    mount = host.root / change.item.lstrip("/")
    count = int(change.new.partition("x")[0])
    first = int(mount.name.removeprefix("disk"))
    numbers = range(first, first + count)
    return mount, [mount.with_name(f"disk{number}.img") for number in numbers]


def _make_disk(host: Host, change: SettingChange, value: str) -> None:
    mount, images = _paths(host, change)
    size, file_system, *options = shlex.split(value)
    for made in (mount.parent, mount):
        host.make_directory(made)
        # The server may run as its own user.
        made.chmod(0o755)
    for image in images:
        _run(host, "fallocate", "-l", size.partition("x")[2], str(image))
    if file_system.startswith("ext"):
        # Otherwise the kernel writes the tables in the background while the server is measured.
        options = ["-q", "-F", "-E", _WHOLE_EXT, *options]
    elif file_system == STRIPED:
        # -K: discarding would release the blocks of the images again.
        options = ["-q", "-f", "-K", *options]
    _run(host, f"mkfs.{file_system}", *options, *map(str, images))
    devices = [_attached(host, image) for image in images]
    options = ["noatime"]
    if file_system == STRIPED:
        # Overwritten in place, as by other file systems: copies of what is overwritten make files
        # more scattered with every run, so that the same load takes more and more operations.
        # A file system over several devices must know the others when it is mounted.
        options += ["nodatacow", *(f"device={device}" for device in devices[1:])]
    _run(host, "mount", "-o", ",".join(options), devices[0], str(mount))
    mount.chmod(0o1777)


def _attached(host: Host, image: Path) -> str:
    """Attach an image file to a loop device; return the device."""
    attach = ("losetup", "--find", "--show")
    ran = host.run((*attach, "--direct-io=on", str(image)))
    # A file system without direct I/O (tmpfs) has its image in memory anyway.
    done = ran.output if ran.status == 0 else _run(host, *attach, str(image))
    return done.split()[-1]


def _remove_disk(host: Host, change: SettingChange) -> None:
    mount, images = _paths(host, change)
    for _ in range(_DETACH_TRIES):
        if not _is_mounted(host, mount):
            break
        failure = host.run(("umount", str(mount)))
        if failure.status:
            # A process of the server may be ending.
            host.rest(_PAUSE_S)
    else:
        raise SettingRefused(f"umount {mount}: {failure.output or failure.status}")
    for image in images:
        if image.exists():
            attached = _run(host, "losetup", "-n", "-O", "NAME", "-j", str(image))
            for device in attached.split():
                _run(host, "losetup", "-d", device)
        host.remove(image)
    if not host.remove_directory(mount):
        raise SettingRefused(f"{mount} is not empty")
    # The last disk removes the directory of all.
    host.remove_directory(mount.parent)


def _is_mounted(host: Host, mount: Path) -> bool:
    lines = (host.read(host.proc / "mounts") or "").splitlines()
    named = str(mount).replace(" ", "\\040")
    return any(line.split()[1] == named for line in lines)


def _run(host: Host, *argv: str) -> str:
    """Run a program; return its output. Raises SettingRefused if it fails."""
    ran = host.run(argv)
    if ran.status:
        raise SettingRefused(f"{' '.join(argv)}: {ran.output or ran.status}")
    return ran.output


# -- groups and their limits ------------------------------------------------------------

_GROUP = re.compile(rf"group (/.+/{GROUP_PREFIX}[\w-]+)")
_THROTTLE = re.compile(
    r"throttle (/.+/blkio/blkio\.throttle\.(?:read|write)_(?:bps|iops)_device) (\d+:\d+)"
)
_CONTROLLER = re.compile(r"controller (cpu|memory|io)")
_DEVICE = re.compile(r"(\d+:\d+) ")
_BETWEEN = "; "


class Groups:
    """The groups of a server, one for each hierarchy, with their limits."""

    name = GROUPS

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the changes: controllers, groups with their limits, limits of the root."""
        setup = _setup_of(wish)
        steps: list[tuple[str, str, str]] = []
        lacking: list[str] = []
        for controller, limits in _limits(host, setup, lacking):
            tree = hierarchy(host, controller)
            assert tree is not None, "the limits of a controller need its hierarchy"
            steps += _steps(host, tree, setup.group, limits, lacking)
        steps += _steps_of_disks(host, setup, lacking)
        if lacking:
            return SettingPlan((), tuple(dict.fromkeys(lacking)))
        changes = (SettingChange(self.name, *step) for step in dict.fromkeys(steps))
        return SettingPlan(_merged(tuple(changes)))

    def now(self, host: Host) -> str:
        """Return nothing: the groups of other servers are theirs."""
        del host
        return ""

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for an item that is no group of ours and no limit of a device."""
        item, top = change.item, f"{host.sys}/fs/cgroup"
        known = (_GROUP, _THROTTLE, _CONTROLLER)
        match = next((m for one in known if (m := one.fullmatch(item))), None)
        path = match[1] if match is not None else ""
        inside = path.startswith(f"{top}/") or not path.startswith("/")
        if match is None or not inside or ".." in path.split("/"):
            raise unknown_item(change)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return whether a group is there or a controller is on, or the limit of a device."""
        kind, _, rest = change.item.partition(" ")
        if kind == "controller":
            return _read_controller(host, rest)
        if kind == "throttle":
            file, device = rest.rsplit(" ", 1)
            return _limit_of(host, Path(file), device) or _UNLIMITED
        # Limits are not compared: we may have been killed before writing them, and the group is
        # ours by its name.
        return change.new if Path(rest).is_dir() else _ABSENT

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Make or remove a group, limit a device, or switch a controller."""
        kind, _, rest = change.item.partition(" ")
        if kind == "controller":
            control = host.sys / "fs/cgroup/cgroup.subtree_control"
            host.write(control, f"{'+' if value == _ON else '-'}{rest}")
        elif kind == "throttle":
            file, device = rest.rsplit(" ", 1)
            host.write(Path(file), f"{device} {value}")
        elif value == _ABSENT:
            _remove_group(host, Path(rest))
        else:
            return _make_group(host, Path(rest), value.split(_BETWEEN))
        return ""


def server_groups(changes: Sequence[SettingChange]) -> tuple[str, ...]:
    """Return the directories of the groups that changes made."""
    matches = (_GROUP.fullmatch(change.item) for change in changes)
    return tuple(match[1] for match in matches if match is not None)


def _limits(
    host: Host, setup: ServerSetup, lacking: list[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each controller that is needed, and its limits as `FILE=VALUE`."""
    resources = setup.resources
    for controller, wanted, what in (
        (
            "cpu",
            resources.cpu_share is not None or resources.cpu_quota_us is not None,
            "cpu_share and cpu_quota",
        ),
        ("memory", resources.memory_bytes is not None, "memory"),
        ("blkio", bool(resources.io), "limits of I/O"),
    ):
        tree = hierarchy(host, controller) if wanted else None
        if wanted and tree is None:
            lacking.append(_missing(controller, what))
        if tree is not None:
            yield controller, _own_limits(host, tree, resources, lacking)


def _missing(controller: str, what: str) -> str:
    return f"{what}: this machine has no cgroup controller {controller} (version 1 or 2)"


def _own_limits(
    host: Host, tree: Hierarchy, resources: ServerResources, lacking: list[str]
) -> tuple[str, ...]:
    """Return the limits of a server in one hierarchy, except those of its disks."""
    second = tree.version == 2
    if tree.controller == "memory":
        file = "memory.max" if second else "memory.limit_in_bytes"
        page = os.sysconf("SC_PAGE_SIZE")
        memory = resources.memory_bytes or 0
        return (f"{file}={max(page, memory // page * page)}",)
    if tree.controller == "cpu":
        return tuple(_cpu_limits(resources, second=second))
    found: list[str] = []
    for limits in resources.io:
        try:
            device = _disk_of(host, limits.device)
        except SettingRefused as refused:
            lacking.append(str(refused))
        else:
            found += _io_limits(device, limits.limits, second=second)
    return tuple(found)


def _cpu_limits(resources: ServerResources, *, second: bool) -> Iterator[str]:
    share, quota = resources.cpu_share, resources.cpu_quota_us
    if share is not None:
        # A group without a share has the weight 100, which is 1024 shares in version 1.
        shares = max(2, round(share * 1024 / 100))
        yield f"cpu.weight={share}" if second else f"cpu.shares={shares}"
    if quota is not None and second:
        yield f"cpu.max={quota} {CPU_PERIOD_US}"
    elif quota is not None:
        yield f"cpu.cfs_period_us={CPU_PERIOD_US}"
        yield f"cpu.cfs_quota_us={quota}"


def _io_limits(device: str, limits: IoLimits, *, second: bool) -> Iterator[str]:
    """Yield the limits of a device as the files of a group have them."""
    if second:
        named = {
            "rbps": limits.read_bytes_per_s,
            "wbps": limits.write_bytes_per_s,
            "riops": limits.read_iops,
            "wiops": limits.write_iops,
        }
        pairs = (f"{k}={'max' if v is None else v}" for k, v in named.items())
        yield f"io.max={device} {' '.join(pairs)}"
        return
    for name, value in _files_of_version_1(limits):
        yield f"{name}={device} {value}"


def _files_of_version_1(limits: IoLimits) -> Iterator[tuple[str, int]]:
    for name, value in (
        ("read_bps", limits.read_bytes_per_s),
        ("write_bps", limits.write_bytes_per_s),
        ("read_iops", limits.read_iops),
        ("write_iops", limits.write_iops),
    ):
        if value is not None:
            yield f"blkio.throttle.{name}_device", value


def _disk_of(host: Host, path: str) -> str:
    """Return MAJOR:MINOR of the disk of a device, a file or a directory. Raises SettingRefused."""
    try:
        found = os.stat(host.root / path.lstrip("/"))
    except OSError as error:
        raise SettingRefused(f"{path}: {error.strerror}") from None
    number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    place = host.sys / "dev/block" / device
    if not place.exists():
        raise SettingRefused(f"{path} is on no block device: its I/O cannot be limited")
    if (place / "partition").exists():
        # The kernel limits whole disks only.
        return host.read(place.resolve().parent / "dev") or device
    return device


def _steps(
    host: Host, tree: Hierarchy, group: str, limits: tuple[str, ...], lacking: list[str]
) -> list[tuple[str, str, str]]:
    """Return the steps that make a group with limits."""
    parent = tree.root if tree.version == 2 else group_of(host, tree, host.own_pid)
    if not host.writable(parent / "cgroup.procs"):
        lacking.append(f"{parent} may not be written: run as root")
        return []
    path = parent / group
    if path.exists():
        lacking.append(f"{path} already exists")
        return []
    steps = []
    if not tree.enabled(host):
        # Only the machine's real root may have processes beside groups with controllers.
        if (tree.root / "cgroup.type").exists() and listed(host, tree.root):
            lacking.append(
                f"{tree.root} belongs to a container and has processes: the controller "
                f"{tree.controller} cannot be switched on for groups below it"
            )
            return []
        steps.append((f"controller {tree.controller}", _OFF, _ON))
    memory = hierarchy(host, "memory") if tree.controller == "io" else None
    if memory is not None and not memory.enabled(host):
        # Without it, data that the kernel writes back later are not limited.
        steps.append(("controller memory", _OFF, _ON))
    return [*steps, (f"group {path}", _ABSENT, _BETWEEN.join(limits))]


def _steps_of_disks(
    host: Host, setup: ServerSetup, lacking: list[str]
) -> list[tuple[str, str, str]]:
    """Return the steps that limit the disks of the server; none for disks not yet made."""
    disks = setup.resources.disks
    if disks is None or not disks.limits.any:
        return []
    tree = hierarchy(host, "blkio")
    if tree is None:
        lacking.append(_missing("blkio", "limits of disks"))
        return []
    # The directory of a btrfs does not name its devices; the image files do.
    devices = [
        device
        for number in range(1, disks.count + 1)
        if (image := host.root / setup.mounts.lstrip("/") / f"disk{number}.img").exists()
        for device in _run(host, "losetup", "-n", "-O", "MAJ:MIN", "-j", str(image)).split()
    ]
    limits = [
        one
        for device in devices
        for one in _io_limits(device, disks.limits, second=tree.version == 2)
    ]
    steps: list[tuple[str, str, str]] = []
    if tree.version == 1:
        if not host.writable(tree.root / "blkio.throttle.read_bps_device"):
            lacking.append(f"{tree.root} has no limits of devices that may be written")
        for limit in limits:
            name, device, value = re.split("[= ]", limit)
            item = f"throttle {tree.root / name} {device}"
            old = _limit_of(host, tree.root / name, device) or _UNLIMITED
            steps.append((item, old, value))
        alone = group_of(host, tree, host.own_pid) == tree.root
        if alone and not setup.resources.io:
            return steps
    return [*_steps(host, tree, setup.group, tuple(limits), lacking), *steps]


def _merged(changes: tuple[SettingChange, ...]) -> tuple[SettingChange, ...]:
    """Return changes with one change for each group, after all controllers, which its files need.

    In version 2 one group has all limits; in version 1 one of I/O may have limits of the
    machine's devices and of the server's disks.
    """
    merged: dict[str, SettingChange] = {}
    for change in changes:
        before = merged.get(change.item)
        if before is not None and change.item.startswith("group "):
            both = (one for one in (before.new, change.new) if one)
            change = msgspec.structs.replace(before, new=_BETWEEN.join(both))
        merged[change.item] = change
    return tuple(
        sorted(
            merged.values(),
            key=lambda setting_change: not _CONTROLLER.fullmatch(setting_change.item),
        )
    )


def _read_limit(host: Host, group: Path, limit: str) -> str:
    """Return a limit of a group as `FILE=VALUE`; empty where the file does not have it."""
    name, _, wanted = limit.partition("=")
    device = _DEVICE.match(wanted)
    if device is None:
        text = host.read(group / name)
        return "" if text is None else f"{name}={text.strip()}"
    value = _limit_of(host, group / name, device[1])
    return "" if value is None else f"{name}={device[1]} {value}"


def _limit_of(host: Host, file: Path, device: str) -> str | None:
    """Return the limit of a device in a file with a line for each device."""
    for line in (host.read(file) or "").splitlines():
        number, _, value = line.partition(" ")
        if number == device:
            return value.strip()
    return None


def _make_group(host: Host, group: Path, limits: Sequence[str]) -> str:
    """Make a group with limits; return which ones the kernel changed."""
    host.make_directory(group)
    for limit in limits:
        name, _, text = limit.partition("=")
        host.write(group / name, text)
    changed = [
        f"{group}: {now or 'nothing'} after {limit} was written"
        for limit in limits
        if (now := _read_limit(host, group, limit)) != limit
    ]
    return "; ".join(changed)


def _remove_group(host: Host, group: Path) -> None:
    """Remove a group; a process that is still in it returns to the group above."""
    move(host, lambda: set(members(host, group)), group.parent)
    remove(host, group)


# -- limits of I/O, lifted for a while --------------------------------------------------
#
# Purpose: what is prepared on the server's disks before a load (a file set) is not measured and
# need not wait for the limits. Decision: lifting is no change in the log. Its old values stay those
# of the machine, so whoever undoes the log finds the limits or nothing, and both are right.

_ALL_OFF = "rbps=max wbps=max riops=max wiops=max"


class LiftableLimit(msgspec.Struct, frozen=True):
    """A limit of a device that holds for a server, and what is written there to lift it."""

    file: Path
    device: str
    limited: str
    lifted: str


def io_limits(changes: Sequence[SettingChange]) -> tuple[LiftableLimit, ...]:
    """Return the limits of I/O among the changes of a server's resources."""
    return tuple(_io_limits_of(changes))


def _io_limits_of(changes: Sequence[SettingChange]) -> Iterator[LiftableLimit]:
    for change in changes:
        if match := _THROTTLE.fullmatch(change.item):
            yield LiftableLimit(Path(match[1]), match[2], change.new, change.old)
        elif match := _GROUP.fullmatch(change.item):
            for limit in change.new.split(_BETWEEN):
                name, _, text = limit.partition("=")
                if device := _DEVICE.match(text):
                    lifted = _ALL_OFF if name == "io.max" else _UNLIMITED
                    file = Path(match[1], name)
                    yield LiftableLimit(file, device[1], text[device.end() :], lifted)


def lift(host: Host, limits: Sequence[LiftableLimit]) -> None:
    """Lift limits of I/O. Raises SettingRefused."""
    for limit in limits:
        host.write(limit.file, f"{limit.device} {limit.lifted}")
        now = _limit_of(host, limit.file, limit.device)
        if now not in (None, limit.lifted):
            raise SettingRefused(f"{limit.file} still has {limit.device} {now}")


def put_back(host: Host, limits: Sequence[LiftableLimit]) -> None:
    """Set limits of I/O again, all that can be. Raises SettingRefused."""
    problems = []
    for limit in limits:
        try:
            host.write(limit.file, f"{limit.device} {limit.limited}")
            now = _limit_of(host, limit.file, limit.device)
        except SettingRefused as refused:
            problems.append(str(refused))
        else:
            if now != limit.limited:
                has = f"{limit.file} has {limit.device} {now or 'no limit'}"
                problems.append(f"{has} after {limit.limited} was written")
    if problems:
        raise SettingRefused("; ".join(problems))


def set_sync(host: Host, setup: ServerSetup, *, on: bool) -> None:
    """Make writes to the server's disks wait for the disk, or not, if its disks are to be so.
    Raises SettingRefused."""
    disks = setup.resources.disks
    if disks is not None and disks.sync:
        for path in setup.disk_paths:
            option = f"remount,{'sync' if on else 'async'}"
            if disks.file_system == STRIPED:
                # Metadata too; otherwise btrfs writes those of 30 s at once.
                option += ",commit=1"
            _run(host, "mount", "-o", option, str(host.root / path.lstrip("/")))


def write_back(host: Host, setup: ServerSetup) -> None:
    """Write the dirty pages of the server's disks and limited devices. Raises SettingRefused."""
    places = [host.root / path.lstrip("/") for path in setup.disk_paths]
    devices = {_disk_of(host, limits.device) for limits in setup.resources.io}
    for line in (host.read(host.proc / "mounts") or "").splitlines() if devices else ():
        source, mount = line.split()[:2]
        with contextlib.suppress(SettingRefused):
            if source.startswith("/") and _disk_of(host, source) in devices:
                mount = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), mount)
                places.append(host.root / mount.lstrip("/"))
    for place in places:
        host.sync_file_system(place)


_PLAIN = {
    "cpu.max": re.compile(rf"max {CPU_PERIOD_US}"),
    "cpu.weight": re.compile("100"),
    "memory.max": re.compile("max"),
    "io.max": re.compile(""),
}
"""The content of the files of a group of version 2 without limits."""


def _read_controller(host: Host, controller: str) -> str | None:
    """Return whether a controller is on, and which other groups use it: it then stays on."""
    tree = hierarchy(host, "blkio" if controller == "io" else controller)
    if tree is None:
        return None
    if not tree.enabled(host):
        return _OFF
    users = [group.name for group in below(tree) if _uses(host, group, controller)]
    return f"{_ON}, used by {', '.join(users)}" if users else _ON


def _uses(host: Host, group: Path, controller: str) -> bool:
    """Return whether a group of another program limits with a controller."""
    if group.name.startswith(GROUP_PREFIX):
        return False
    if controller in (host.read(group / "cgroup.subtree_control") or "").split():
        return True
    return any(
        not plain.fullmatch((host.read(group / name) or "").strip())
        for name, plain in _PLAIN.items()
        if name.startswith(f"{controller}.") and (group / name).exists()
    )
