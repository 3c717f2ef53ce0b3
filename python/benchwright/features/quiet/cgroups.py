"""Groups of processes (cgroups), version 1 or 2: their hierarchies, members, moving and removal.

Source: kernel documentation, admin-guide/cgroup-v1/cgroups.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.features.quiet.host import Host, SettingRefused

_PASSES = 50
_OF_VERSION_1 = {
    "cpuset": "cpuset.cpus",
    "cpu": "cpu.cfs_quota_us",
    "memory": "memory.limit_in_bytes",
    "blkio": "blkio.throttle.read_bps_device",
}
"""A file of each controller, which exists only if the kernel can limit with it."""


class Hierarchy(msgspec.Struct, frozen=True):
    """The hierarchy that has a controller."""

    root: Path
    mount: Path
    """What the paths in /proc/PID/cgroup are relative to."""
    version: int
    controller: str = "cpuset"

    def enabled(self, host: Host) -> bool:
        """Return whether groups below the root have the controller."""
        if self.version == 1:
            return True
        text = host.read(self.root / "cgroup.subtree_control") or ""
        return self.controller in text.split()


def hierarchy(host: Host, controller: str) -> Hierarchy | None:
    """Return the hierarchy with a controller; None if there is none.

    `blkio` of version 1 is `io` in version 2.
    """
    first = host.sys / "fs/cgroup" / controller
    if (first / _OF_VERSION_1[controller]).exists():
        return Hierarchy(first, first, 1, controller)
    second = host.sys / "fs/cgroup"
    name = "io" if controller == "blkio" else controller
    if name in (host.read(second / "cgroup.controllers") or "").split():
        return Hierarchy(second, second, 2, name)
    return None


def below(tree: Hierarchy) -> list[Path]:
    """Return the groups below the root, parents before their children."""
    found = []
    for path, names, _ in os.walk(tree.root):
        names.sort()
        if Path(path) != tree.root:
            found.append(Path(path))
    return found


def group_of(host: Host, tree: Hierarchy, pid: int) -> Path:
    """Return the group of a process in a hierarchy. Raises SettingRefused."""
    text = host.read(host.proc / str(pid) / "cgroup")
    for line in (text or "").splitlines():
        _, controllers, path = line.split(":", 2)
        wanted = "" if tree.version == 2 else tree.controller
        if wanted in controllers.split(","):
            return tree.mount / path.lstrip("/")
    raise SettingRefused(f"the {tree.controller} group of process {pid} is not reported")


def members(host: Host, group: Path) -> list[int]:
    """Return the ids of a group's processes; empty if the group does not exist."""
    return [pid for pid in listed(host, group) if pid]


def hidden(host: Host, group: Path) -> int:
    """Return how many processes of a group are outside our PID namespace.

    The kernel reports them as 0; written as a process to move, 0 means the writer itself.
    """
    return listed(host, group).count(0)


def listed(host: Host, group: Path) -> list[int]:
    """Return the ids of a group's processes as the kernel reports them; empty if the group does not
    exist."""
    return [int(word) for word in (host.read(group / "cgroup.procs") or "").split()]


def remove(host: Host, group: Path) -> None:
    """Remove a group without members if it exists. Raises SettingRefused."""
    for _ in range(_PASSES):
        # A task that ended a moment ago still counts as a member.
        if host.remove_directory(group):
            return
        host.rest(0.01)
    raise SettingRefused(f"{group}: there are still tasks in it")


def move(host: Host, wanted: Callable[[], set[int]], group: Path, *, unseen: int = 0) -> str:
    """Move processes until no new one appears; return a note about tasks that stayed.

    `wanted` returns the processes that are still to be moved. `unseen`: the number of
    processes without an id in our PID namespace, which cannot be moved either.
    """
    stuck: set[int] = set()
    for _ in range(_PASSES):
        left = wanted() - stuck
        if not left:
            break
        for pid in left:
            try:
                host.write(group / "cgroup.procs", str(pid))
            except SettingRefused:
                stuck.add(pid)
    there = [process for pid in stuck if (process := host.process(pid))]
    if not there and not unseen:
        return ""
    told = f"{sum(process.is_kernel for process in there)} threads of the kernel"
    if unseen:
        told += f", {unseen} outside our PID namespace"
    return f"{len(there) + unseen} tasks cannot be moved ({told})"
