"""The cpuset controller of cgroups, version 1 or 2: groups, their members, moving.

Source: kernel documentation, admin-guide/cgroup-v1/cgroups.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.machine.quiet import cpus
from benchwright.machine.quiet.host import Host, Refused

_PASSES = 50


class Hierarchy(msgspec.Struct, frozen=True):
    """Where the cpuset controller is."""

    root: Path
    mount: Path
    """What the paths in /proc/PID/cgroup are relative to."""
    version: int

    def enabled(self, host: Host) -> bool:
        """Tell whether groups below the root have the controller."""
        if self.version == 1:
            return True
        text = host.read(self.root / "cgroup.subtree_control") or ""
        return "cpuset" in text.split()


def cpuset(host: Host) -> Hierarchy | None:
    """Return the hierarchy with the controller, None where there is none."""
    first = host.sys / "fs/cgroup/cpuset"
    if (first / "cpuset.cpus").exists():
        return Hierarchy(host.cpuset or first, first, 1)
    second = host.sys / "fs/cgroup"
    if "cpuset" in (host.read(second / "cgroup.controllers") or "").split():
        return Hierarchy(host.cpuset or second, second, 2)
    return None


def nodes(host: Host, tree: Hierarchy) -> str:
    """Return the memory nodes that a new group gets: all of the root's."""
    for name in ("cpuset.mems.effective", "cpuset.mems"):
        if text := host.read(tree.root / name):
            return text
    return "0"


def below(tree: Hierarchy) -> list[Path]:
    """Return the groups below the root, parents before their children."""
    found = []
    for path, names, _ in os.walk(tree.root):
        names.sort()
        if Path(path) != tree.root:
            found.append(Path(path))
    return found


def of(host: Host, tree: Hierarchy, pid: int) -> Path:
    """Return the group of a process. Raises Refused."""
    text = host.read(host.proc / str(pid) / "cgroup")
    for line in (text or "").splitlines():
        _, controllers, path = line.split(":", 2)
        wanted = "" if tree.version == 2 else "cpuset"
        if wanted in controllers.split(","):
            return tree.mount / path.lstrip("/")
    raise Refused(f"the cpuset of process {pid} is not told")


def members(host: Host, group: Path) -> list[int]:
    """Return the processes of a group that have an id here; none where it does not exist."""
    return [pid for pid in _told(host, group) if pid]


def hidden(host: Host, group: Path) -> int:
    """Return how many processes of a group are outside our PID namespace.

    The kernel tells them as 0, which as a process to be moved means the one that writes.
    """
    return _told(host, group).count(0)


def _told(host: Host, group: Path) -> list[int]:
    return [int(word) for word in (host.read(group / "cgroup.procs") or "").split()]


def given(host: Host, tree: Hierarchy, group: Path) -> str | None:
    """Return the processors that a group is given; None where it cannot be given any.

    Of version 2 its file comes with the controller, and is empty then.
    """
    text = host.read(group / "cpuset.cpus")
    return "" if text is None and not tree.enabled(host) else text


def takes_back(host: Host, tree: Hierarchy) -> bool:
    """Tell whether tasks that leave the root group could return to it.

    Of version 2 only the machine's own root, which has no type, may have tasks beside
    groups with tasks and controllers; the root that a container sees may not. Source:
    cgroup-v2.rst, "No Internal Process Constraint".
    """
    own = tree.version == 1 or not (tree.root / "cgroup.type").exists()
    return own or not _told(host, tree.root)


def describe(host: Host, group: Path) -> str | None:
    """Return a group's processors and memory nodes, None where there is no group.

    One that was made and not yet given both is told as an empty text.
    """
    if not group.is_dir():
        return None
    cpu = host.read(group / "cpuset.cpus")
    memory = host.read(group / "cpuset.mems")
    return f"{cpu} {memory}" if cpu and memory else ""


def uses(host: Host, group: Path) -> bool:
    """Tell whether a group of version 2 is held to processors or nodes, or gives them on."""
    cpu = host.read(group / "cpuset.cpus")
    held = cpu and not is_all(host, cpu)
    below = host.read(group / "cgroup.subtree_control") or ""
    return bool(held or host.read(group / "cpuset.mems") or "cpuset" in below.split())


def is_all(host: Host, text: str) -> bool:
    """Tell whether a list has all processors that there can be."""
    return cpus.parse(text) >= cpus.possible(host)


def remove(host: Host, group: Path) -> None:
    """Remove a group without members, if it is there. Raises Refused."""
    for _ in range(_PASSES):
        # The last task of a group that ended a moment ago still counts.
        if host.remove_directory(group):
            return
        host.rest(0.01)
    raise Refused(f"{group}: there are still tasks in it")


def move(
    host: Host, wanted: Callable[[], set[int]], group: Path, *, unseen: int = 0
) -> str:
    """Move processes until no new one appears; return how many could not be moved.

    `wanted` looks each time: who was moved is not among them any more. `unseen`: how many
    have no process id here, and so cannot be moved either.
    """
    stuck: set[int] = set()
    for _ in range(_PASSES):
        left = wanted() - stuck
        if not left:
            break
        for pid in left:
            try:
                host.write(group / "cgroup.procs", str(pid))
            except Refused:
                stuck.add(pid)
    there = [process for pid in stuck if (process := host.process(pid))]
    if not there and not unseen:
        return ""
    told = f"{sum(process.kernel for process in there)} threads of the kernel"
    if unseen:
        told += f", {unseen} outside our PID namespace"
    return f"{len(there) + unseen} tasks cannot be moved ({told})"
