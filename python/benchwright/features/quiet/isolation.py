"""Isolates the benchmark on its CPUs: moves all other processes to other CPUs, by the cpuset
controller of cgroups, version 1 or 2; and what others need of cgroups: their hierarchies,
members, moving and removal.

Source: kernel documentation, admin-guide/cgroup-v1/cgroups.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.core.quantity import cpu_list, parse_cpu_list
from benchwright.features.quiet import cpus
from benchwright.features.quiet.host import (
    Host,
    SettingPlan,
    SettingRefused,
    unavailable,
    unknown_item,
)
from benchwright.features.quiet.types import RequestedSetting, SettingChange

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
    paths = []
    for path, names, _ in os.walk(tree.root):
        names.sort()
        if Path(path) != tree.root:
            paths.append(Path(path))
    return paths


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


# --------------------------------------------------------------------------------------
# The cpuset controller: its hierarchy, and what its groups may use.
#
# Source: kernel documentation, admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst.


def cpuset(host: Host) -> Hierarchy | None:
    """Return the hierarchy with the cpuset controller; None if there is none."""
    tree = hierarchy(host, "cpuset")
    if tree is None or host.cpuset is None:
        return tree
    return msgspec.structs.replace(tree, root=host.cpuset)


def nodes(host: Host, tree: Hierarchy) -> str:
    """Return the memory nodes for a new group: all of the root group's."""
    for name in ("cpuset.mems.effective", "cpuset.mems"):
        if text := host.read(tree.root / name):
            return text
    return "0"


def given(host: Host, tree: Hierarchy, group: Path) -> str | None:
    """Return the CPUs set for a group; None if they cannot be set.

    In version 2 the file exists only if the controller is enabled, and is empty at first.
    """
    text = host.read(group / "cpuset.cpus")
    return "" if text is None and not tree.enabled(host) else text


def takes_back(host: Host, tree: Hierarchy) -> bool:
    """Return whether tasks that leave the root group could return to it.

    In version 2 only the machine's real root may have tasks beside child groups with
    controllers; it has no `cgroup.type`. The root that a container sees may not. Source:
    cgroup-v2.rst, "No Internal Process Constraint".
    """
    own = tree.version == 1 or not (tree.root / "cgroup.type").exists()
    return own or not listed(host, tree.root)


def describe(host: Host, group: Path) -> str | None:
    """Return a group's CPUs and memory nodes; None if the group does not exist.

    The text is empty if one of them is not set yet.
    """
    if not group.is_dir():
        return None
    cpu = host.read(group / "cpuset.cpus")
    memory = host.read(group / "cpuset.mems")
    return f"{cpu} {memory}" if cpu and memory else ""


def uses(host: Host, group: Path) -> bool:
    """Return whether a group of version 2 sets CPUs or nodes, or enables cpuset for children."""
    cpu = host.read(group / "cpuset.cpus")
    held = cpu and not is_all(host, cpu)
    below = host.read(group / "cgroup.subtree_control") or ""
    return bool(held or host.read(group / "cpuset.mems") or "cpuset" in below.split())


def is_all(host: Host, text: str) -> bool:
    """Return whether a list contains all possible CPUs."""
    return set(parse_cpu_list(text)) >= cpus.possible(host)


# -- Isolation: the benchmark's tree on its CPUs, all other processes on the rest ------
#
# Method: the benchmark's tree moves into its own cpuset, the tasks of the root cgroup into
# another, and existing groups are restricted in place. The log need not store each task's
# group: every task in `bw-others` came from the root group, or descends from one that did.
# A task that cannot be moved (a kernel thread bound to a CPU) is counted.
# Source: cpuset(7); kernel documentation, admin-guide/cgroup-v1/cpusets.rst and
# cgroup-v2.rst.

BENCH, OTHERS = "bw-bench", "bw-others"
_ABSENT, _ON, _OFF, _THERE = "absent", "on", "off", "where it was"


class Isolation:
    """Moves all other processes to other CPUs, with cpusets of cgroups."""

    name = "isolation"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the steps: two groups, our tree, other groups, other tasks."""
        tree = cpuset(host)
        if tree is None:
            return unavailable("no cpuset controller of cgroups is available")
        if not host.writable(tree.root / "cgroup.procs"):
            return unavailable(f"{tree.root} may not be written: run as root")
        if not takes_back(host, tree):
            return unavailable(f"{tree.root} belongs to a container: tasks could not return to it")
        bench, others = cpus.split(host, wish.values)
        for name in (BENCH, OTHERS):
            if (tree.root / name).exists():
                return unavailable(f"{tree.root / name} already exists, and bw did not create it")
        memory = nodes(host, tree)
        steps = [
            *((("controller", _OFF, _ON),) if not tree.enabled(host) else ()),
            (f"group {BENCH}", _ABSENT, f"{cpu_list(bench)} {memory}"),
            (f"group {OTHERS}", _ABSENT, f"{cpu_list(others)} {memory}"),
            (f"own {group_of(host, tree, host.own_pid)}", _THERE, BENCH),
            *_narrowed(host, tree, others),
            *((("tasks", _THERE, OTHERS),) if _strangers(host, tree) else ()),
        ]
        return SettingPlan(tuple(SettingChange(self.name, *step) for step in steps))

    def now(self, host: Host) -> str:
        """Return whether the benchmark is isolated, and the number of groups."""
        tree = cpuset(host)
        if tree is None:
            return "no cpuset controller of cgroups is available"
        groups = below(tree)
        isolated = "isolated" if tree.root / OTHERS in groups else "not isolated"
        return f"{isolated}; cgroup v{tree.version}, {len(groups)} groups"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for an unknown step, and for a group outside the hierarchy."""
        kind, _, name = change.item.partition(" ")
        known = {"controller": ("",), "tasks": ("",), "group": (BENCH, OTHERS)}
        if kind in known:
            if name not in known[kind]:
                raise unknown_item(change)
            return
        path, tree = Path(name), _tree(host)
        inside = any(path.is_relative_to(top) for top in (tree.root, tree.mount))
        file = kind == "own" or (kind == "cpus" and path.name == "cpuset.cpus")
        if not inside or not file or ".." in path.parts:
            raise unknown_item(change)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return an item's state."""
        tree = _tree(host)
        kind, _, name = change.item.partition(" ")
        match kind:
            case "controller":
                return _controller(host, tree)
            case "group":
                told = describe(host, tree.root / name)
                # A group of this name without CPUs: we were killed before setting them.
                return _ABSENT if told is None else told or change.new
            case "own" | "tasks":
                group = BENCH if kind == "own" else OTHERS
                return group if members(host, tree.root / group) else _THERE
            case _:
                return _processors(host, tree, Path(name), change)

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Write an item's state; return a note about tasks that could not be moved."""
        tree = _tree(host)
        kind, _, name = change.item.partition(" ")
        match kind:
            case "controller":
                sign = "+" if value == _ON else "-"
                host.write(tree.root / "cgroup.subtree_control", f"{sign}cpuset")
            case "group":
                _group(host, tree.root / name, value)
            case "own":
                return _move_own(host, tree, Path(name), value)
            case "tasks":
                return _move_others(host, tree, value)
            case _:
                _give(host, tree, Path(name), value)
        return ""


def _strangers(host: Host, tree: Hierarchy) -> bool:
    """Return whether there are tasks in the root group beside our own."""
    seen = set(members(host, tree.root)) - host.tree(host.own_pid)
    return bool(seen) or hidden(host, tree.root) > 0


def _tree(host: Host) -> Hierarchy:
    tree = cpuset(host)
    if tree is None:
        raise SettingRefused("the cpuset controller of cgroups no longer exists")
    return tree


def _controller(host: Host, tree: Hierarchy) -> str:
    """Return whether the controller is on, and which other groups use it.

    It is not switched off while other groups use it.
    """
    if not tree.enabled(host):
        return _OFF
    groups = (g for g in below(tree) if g.parent == tree.root)
    users = [
        group.name for group in groups if group.name not in (BENCH, OTHERS) and uses(host, group)
    ]
    return f"{_ON}, used by {', '.join(users)}" if users else _ON


def _narrowed(host: Host, tree: Hierarchy, others: set[int]) -> list[tuple[str, str, str]]:
    """Return the steps that restrict existing groups, in an order that the kernel accepts.

    In version 1 every group, the deepest first: a child's CPUs must be part of its
    parent's. In version 2 only children of the root: the kernel restricts their descendants.
    """
    targets: dict[Path, set[int]] = {tree.root: others}
    steps = []
    for group in below(tree):
        if tree.version == 2 and group.parent != tree.root:
            continue
        old = given(host, tree, group)
        room = targets.get(group.parent, others)
        targets[group] = set(parse_cpu_list(old or "")) & room or room
        if old is None or (tree.version == 1 and not old):
            continue  # in version 1, a group without CPUs cannot hold a task
        new = cpu_list(targets[group])
        if new != old:
            steps.append((f"cpus {group / 'cpuset.cpus'}", old, new))
    return steps[::-1]


def _processors(host: Host, tree: Hierarchy, path: Path, change: SettingChange) -> str | None:
    """Return a group's CPUs; empty for all CPUs if the group had none set before."""
    text = host.read(path)
    if text and not change.old and tree.version == 2 and is_all(host, text):
        return ""
    return text


def _give(host: Host, tree: Hierarchy, path: Path, value: str) -> None:
    try:
        host.write(path, value)
    except SettingRefused:
        # In version 2 the CPUs of a group with tasks cannot be cleared (ENOSPC). All possible
        # CPUs have the same effect.
        if value or tree.version == 1:
            raise
        host.write(path, cpu_list(cpus.possible(host)))


def _group(host: Host, path: Path, value: str) -> None:
    if value == _ABSENT:
        remove(host, path)
        return
    host.make_directory(path)
    cpu, memory = value.split(" ")
    host.write(path / "cpuset.mems", memory)
    host.write(path / "cpuset.cpus", cpu)


def _move_own(host: Host, tree: Hierarchy, old: Path, value: str) -> str:
    if value == BENCH:
        return move(
            host, lambda: set(members(host, old)) & host.tree(host.own_pid), tree.root / BENCH
        )
    home = old if old.is_dir() else tree.root
    bench = tree.root / BENCH
    return move(host, lambda: set(members(host, bench)), home)


def _move_others(host: Host, tree: Hierarchy, value: str) -> str:
    others = tree.root / OTHERS
    if value == OTHERS:
        return move(
            host, lambda: set(members(host, tree.root)), others, unseen=hidden(host, tree.root)
        )
    return move(host, lambda: set(members(host, others)), tree.root)
