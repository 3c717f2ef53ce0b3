"""Block devices, partitions, mounts, and what the working directory lies on.

Decision: pseudo file systems are counted, not listed; free space of network file systems
is not asked for, since a dead server would hang the session. A serial number is kept as a
hash: enough to see that a disk was exchanged. Sources: sysfs-block, proc(5) mountinfo.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchwright.machine.redact import redacted_text
from benchwright.machine.tree import Tree, known, missing, reason_of
from benchwright.machine.vocabulary import BLOCK_QUEUE, EXPECTED, FATAL, SUSPICIOUS
from benchwright.model.machine import Fact, Weight

Space = Callable[[str], tuple[int, int]]
"""Path -> (bytes of its file system, bytes free). Raises OSError."""

_BLOCK = "/sys/block"
_MOUNTS = "/proc/self/mountinfo"
_MOST_DEVICES = 64
_MOST_MOUNTS = 64
_MADE = re.compile(r"(loop|ram|zram|nbd|sr|fd)\d+\Z")
"""Devices that are made and gone again by software: no part of the machine."""
_PSEUDO = frozenset(
    (
        *("proc", "sysfs", "devpts", "devtmpfs", "cgroup", "cgroup2", "mqueue", "bpf"),
        *("tracefs", "debugfs", "securityfs", "pstore", "configfs", "fusectl", "nsfs"),
        *("hugetlbfs", "autofs", "binfmt_misc", "efivarfs", "rpc_pipefs", "selinuxfs"),
        *("ramfs", "fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal"),
    )
)
_REMOTE = re.compile(
    r"nfs|cifs|smb|ceph|gluster|lustre|afs|9p|gpfs|beegfs|fuse|ncp|ocfs|gfs|orangefs"
)


class Mount(NamedTuple):
    """One line of mountinfo."""

    point: str
    kind: str
    source: str
    options: str
    """Of the mount and of the file system, without secrets."""


def block_facts(tree: Tree) -> Iterator[Fact]:
    """Yield the block devices that have a size, with their queues and partitions."""
    names = tree.names(_BLOCK)
    sized = [n for n in names if tree.text(f"{_BLOCK}/{n}/size") not in ("", "0")]
    if not names:
        yield missing("block", _BLOCK, "no such file", SUSPICIOUS)
    for name in sized[:_MOST_DEVICES]:
        yield from _device(tree, name)
    if len(sized) > _MOST_DEVICES:
        rest = f"{len(sized) - _MOST_DEVICES} more devices"
        yield missing("block.more", _BLOCK, f"not captured: {rest}", EXPECTED)


def mount_facts(tree: Tree, space: Space, directory: str) -> Iterator[Fact]:
    """Yield the mounts of real file systems, and the one of the working directory."""
    text, absent = tree.read(_MOUNTS)
    if text is None:
        yield missing("mount", _MOUNTS, absent, SUSPICIOUS)
        return
    mounts = [m for m in map(read_mount, text.splitlines()) if m is not None]
    yield from _working_directory(mounts, space, directory)
    real = {m.point: m for m in mounts if m.kind not in _PSEUDO}
    for mount in list(real.values())[:_MOST_MOUNTS]:
        name = f"mount.{mount.point}"
        yield known(f"{name}.type", mount.kind, _MOUNTS, SUSPICIOUS)
        yield known(f"{name}.device", redacted_text(mount.source), _MOUNTS, SUSPICIOUS)
        yield known(f"{name}.options", mount.options, _MOUNTS, SUSPICIOUS)
        yield from _space(name, mount, space)
    if len(real) > _MOST_MOUNTS:
        rest = f"not captured: {len(real) - _MOST_MOUNTS} more mounts"
        yield missing("mount.more", _MOUNTS, rest, EXPECTED)
    kinds = Counter(m.kind for m in mounts if m.kind in _PSEUDO)
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    yield known("mount.pseudo", counts, _MOUNTS, EXPECTED)


def read_mount(line: str) -> Mount | None:
    """Return one line of mountinfo, or None for what is no such line."""
    left, separator, right = line.partition(" - ")
    head, tail = left.split(" "), right.split(" ")
    if not separator or len(head) < 6 or len(tail) < 3:
        return None
    options = dict.fromkeys([*head[5].split(","), *tail[2].split(",")])
    shown = redacted_text(",".join(options))
    return Mount(_unescaped(head[4]), tail[0], _unescaped(tail[1]), shown)


def mount_of(mounts: list[Mount], directory: str) -> Mount | None:
    """Return the mount that a directory lies on: the longest, of equals the last."""
    parts = directory.rstrip("/") + "/"
    best: Mount | None = None
    for mount in mounts:
        if parts.startswith(mount.point.rstrip("/") + "/") and (
            best is None or len(mount.point) >= len(best.point)
        ):
            best = mount
    return best


def _device(tree: Tree, name: str) -> Iterator[Fact]:
    base, fact = f"{_BLOCK}/{name}", f"block.{name}"
    made = _MADE.match(name) is not None
    heavy = EXPECTED if made else FATAL
    light = EXPECTED if made else SUSPICIOUS
    yield tree.fact(f"{fact}.size_bytes", f"{base}/size", heavy, _sectors)
    for file in BLOCK_QUEUE:
        weight = heavy if file == "rotational" else light
        yield tree.fact(f"{fact}.{file}", f"{base}/queue/{file}", weight)
    if made:
        return
    yield tree.fact(f"{fact}.model", f"{base}/device/model", FATAL)
    yield tree.fact(f"{fact}.firmware", f"{base}/device/firmware_rev", SUSPICIOUS)
    yield _serial(tree, fact, base)
    slaves = tree.names(f"{base}/slaves")
    if slaves:
        yield known(f"{fact}.made_of", ", ".join(slaves), f"{base}/slaves", FATAL)
    if tree.exists(f"{base}/md"):
        yield tree.fact(f"{fact}.raid", f"{base}/md/level", FATAL)
    for part in (n for n in tree.names(base) if tree.exists(f"{base}/{n}/partition")):
        yield tree.fact(
            f"partition.{part}.size_bytes", f"{base}/{part}/size", light, _sectors
        )
        yield tree.fact(
            f"partition.{part}.start_bytes", f"{base}/{part}/start", light, _sectors
        )


def _serial(tree: Tree, fact: str, base: str) -> Fact:
    for path in (f"{base}/serial", f"{base}/device/serial", f"{base}/device/wwid"):
        text, absent = tree.read(path)
        if text:
            hashed = hashlib.sha256(f"benchwright block {text}".encode()).hexdigest()
            return known(f"{fact}.serial_hash", hashed[:16], path, SUSPICIOUS)
    return missing(f"{fact}.serial_hash", path, absent or "empty", SUSPICIOUS)


def _sectors(text: str) -> str:
    """Return a count of sectors, which are of 512 bytes whatever the device's, in bytes."""
    return str(int(text) * 512) if text.isdecimal() else text


def _working_directory(
    mounts: list[Mount], space: Space, directory: str
) -> Iterator[Fact]:
    mount = mount_of(mounts, directory)
    yield known("workdir.path", directory, "getcwd", EXPECTED)
    if mount is None:
        yield missing("workdir.mount", _MOUNTS, "on no mount", SUSPICIOUS)
        return
    yield known("workdir.mount", mount.point, _MOUNTS, SUSPICIOUS)
    yield known("workdir.type", mount.kind, _MOUNTS, SUSPICIOUS)
    yield known("workdir.device", redacted_text(mount.source), _MOUNTS, SUSPICIOUS)
    yield known("workdir.options", mount.options, _MOUNTS, SUSPICIOUS)
    yield from _space("workdir", mount, space)


def _space(name: str, mount: Mount, space: Space) -> Iterator[Fact]:
    reason = ""
    sizes = (0, 0)
    if _REMOTE.match(mount.kind):
        reason = "not asked: a network file system may hang"
    else:
        try:
            sizes = space(mount.point)
        except OSError as error:
            reason = reason_of(error)
    # ZFS tells as size what is used and what is free, and others share the rest.
    heavy = EXPECTED if mount.kind == "zfs" else SUSPICIOUS
    rows: tuple[tuple[str, int, Weight], ...] = (
        ("size_bytes", sizes[0], heavy),
        ("free_bytes", sizes[1], EXPECTED),
    )
    for what, value, weight in rows:
        if reason:
            yield missing(f"{name}.{what}", "statvfs", reason, weight)
        else:
            yield known(f"{name}.{what}", str(value), "statvfs", weight)


def space_of(path: str) -> tuple[int, int]:
    """Return the size of a path's file system and what is free of it [bytes]."""
    told = os.statvfs(path)
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _unescaped(text: str) -> str:
    """Return a field of mountinfo with its octal escapes undone."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)
