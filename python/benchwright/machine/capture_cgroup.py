"""The cgroups that this process is in, and the limits that they set.

Decision: of a cgroup and its ancestors the tightest limit is told, with the file that
sets it; where both versions are mounted, each controller is asked in the one that has
it. Sources: cgroups(7), admin-guide/cgroup-v2 and cgroup-v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchwright.machine.tree import Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, FATAL, SUSPICIOUS
from benchwright.model.machine import Fact, Weight

_CGROUP = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"
_UNLIMITED = 1 << 62
"""cgroup v1 says no memory limit as a number near 2^63."""


class Place(NamedTuple):
    """Where a controller's files are: directories from ours up to the mount's root."""

    version: int
    directories: tuple[str, ...]


class Limit(NamedTuple):
    """A number of which the least on the way up holds."""

    name: str
    controller: str
    files: tuple[str, str]
    """Of version 1 and version 2; empty: this version has none."""
    read: Callable[[Tree, str], float | None]
    weight: Weight = FATAL


class Setting(NamedTuple):
    """A text of our own cgroup."""

    name: str
    controller: str
    files: tuple[str, str]
    weight: Weight = FATAL


def cgroup_facts(tree: Tree) -> Iterator[Fact]:
    """Yield our cgroups and what they limit."""
    text, absent = tree.read(_CGROUP)
    if text is None:
        yield missing("cgroup", _CGROUP, absent, SUSPICIOUS)
        return
    yield known("cgroup.path", "; ".join(text.splitlines()), _CGROUP, EXPECTED)
    places = _places(tree, text)
    for limit in _LIMITS:
        yield _limit(tree, limit, places.get(limit.controller))
    for setting in _SETTINGS:
        found = _setting(tree, setting, places.get(setting.controller))
        if found is not None:
            yield found


def _places(tree: Tree, membership: str) -> dict[str, Place]:
    """Return where each controller's files are."""
    mounts = tree.text(_MOUNTS)
    places: dict[str, Place] = {}
    unified = ""
    for line in membership.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            unified = path
            continue
        for name in controllers.split(","):
            mounted = _mount(mounts, "cgroup", name)
            if mounted is not None:
                places[name] = Place(1, tuple(_upward(path, mounted)))
    mounted = _mount(mounts, "cgroup2", "")
    if mounted is not None and unified:
        for name in tree.text(f"{mounted[0]}/cgroup.controllers").split():
            v1_name = {"io": "blkio"}.get(name, name)
            places.setdefault(v1_name, Place(2, tuple(_upward(unified, mounted))))
    return places


def _mount(mounts: str, kind: str, controller: str) -> tuple[str, str] | None:
    """Return where a hierarchy is mounted, and what of it: (mount point, root)."""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        head, tail = left.split(" "), right.split(" ")
        if tail[0] != kind or len(tail) < 3 or len(head) < 5:
            continue
        if not controller or controller in tail[2].split(","):
            return head[4], head[3]
    return None


def _upward(path: str, mounted: tuple[str, str]) -> Iterator[str]:
    """Yield the directories of a cgroup and its ancestors, the innermost first.

    In a container only a part of the hierarchy may be mounted: the path begins with it.
    """
    point, root = mounted
    inner = path.removeprefix(root) if root != "/" else path
    parts = [part for part in inner.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield "/".join([point.rstrip("/"), *parts[:count]])


def _limit(tree: Tree, limit: Limit, place: Place | None) -> Fact:
    if place is None:
        reason = "no cgroup hierarchy has its controller"
        return missing(limit.name, _CGROUP, reason, limit.weight)
    file = limit.files[place.version - 1]
    if not file:
        reason = f"cgroup version {place.version} has none"
        return missing(limit.name, place.directories[0], reason, limit.weight)
    found = [
        (value, f"{directory}/{file}")
        for directory in place.directories
        if (value := limit.read(tree, f"{directory}/{file}")) is not None
    ]
    if not found:
        source = f"{place.directories[0]}/{file}"
        return known(limit.name, "no limit", source, limit.weight)
    least, source = min(found)
    return known(limit.name, f"{least:.12g}", source, limit.weight)


def _setting(tree: Tree, setting: Setting, place: Place | None) -> Fact | None:
    """Return a setting's text; None where our cgroup (a root has few) has none."""
    if place is None or not setting.files[place.version - 1]:
        return None
    path = f"{place.directories[0]}/{setting.files[place.version - 1]}"
    text = tree.read(path).text
    if text is None:
        return None
    return known(setting.name, "; ".join(text.splitlines()), path, setting.weight)


def _cores(tree: Tree, path: str) -> float | None:
    """Return a processor quota in cores, or None for no limit."""
    if path.endswith("cpu.max"):
        quota, period = [*tree.text(path).split(), "", ""][:2]
    else:
        quota = tree.text(path)
        period = tree.text(path.replace("quota", "period"))
    if not quota.isdecimal() or not period.isdecimal() or period == "0":
        return None
    return int(quota) / int(period)


def _number(tree: Tree, path: str) -> float | None:
    text = tree.text(path)
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


_LIMITS = (
    Limit("cgroup.cpu_limit_cores", "cpu", ("cpu.cfs_quota_us", "cpu.max"), _cores),
    Limit(
        *("cgroup.memory_max_bytes", "memory"),
        *(("memory.limit_in_bytes", "memory.max"), _number),
    ),
    Limit("cgroup.memory_high_bytes", "memory", ("", "memory.high"), _number),
    Limit("cgroup.swap_max_bytes", "memory", ("", "memory.swap.max"), _number),
    Limit("cgroup.pids_max", "pids", ("pids.max", "pids.max"), _number, SUSPICIOUS),
)
_SETTINGS = (
    Setting("cgroup.cpus", "cpuset", ("cpuset.cpus", "cpuset.cpus.effective")),
    Setting("cgroup.nodes", "cpuset", ("cpuset.mems", "cpuset.mems.effective")),
    Setting("cgroup.cpu_weight", "cpu", ("cpu.shares", "cpu.weight"), SUSPICIOUS),
    Setting("cgroup.io_max", "blkio", ("", "io.max")),
    *(
        Setting(
            f"cgroup.{way}_{unit}", "blkio", (f"blkio.throttle.{way}_{unit}_device", "")
        )
        for way in ("read", "write")
        for unit in ("bps", "iops")
    ),
)
