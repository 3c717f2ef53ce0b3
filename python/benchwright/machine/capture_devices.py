"""Block devices, file systems and network interfaces: sizes, queues, mounts, drivers,
links, offloads. Sources: sysfs, mountinfo, the SIOCETHTOOL ioctl."""

from __future__ import annotations

import array
import fcntl
import hashlib
import os
import re
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchwright.core.machine import Fact, FactWeight
from benchwright.machine.redact import recorded_settings, redacted_text
from benchwright.machine.sources import (
    BLOCK_QUEUE,
    EXPECTED,
    FATAL,
    SUSPICIOUS,
    MachineFiles,
    absent_fact,
    present_fact,
    reason_of,
)

# -- Block devices, partitions, mounts, the working directory's file system ------------
#
# Decision: pseudo file systems are counted, not listed; free space of network file systems
# is not queried, since a dead server would hang the session. A serial number is stored as a
# hash, which shows that a disk was exchanged. Sources: sysfs-block, proc(5) mountinfo.

AskSpace = Callable[[str], tuple[int, int]]
"""Path -> (bytes of its file system, bytes free). Raises OSError."""

_BLOCK = "/sys/block"
_MOUNTS = "/proc/self/mountinfo"
_MOST_DEVICES = 64
_MOST_MOUNTS = 64
_VIRTUAL_DEVICES = re.compile(r"(loop|ram|zram|nbd|sr|fd)\d+\Z")
"""Devices that software creates and removes; they are not part of the machine."""
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


_MOUNT_OPTIONS = frozenset(
    re.findall(
        r"\S+",
        """
    access acdirmax acdirmin acregmax acregmin actimeo active_logs addr alloc_mode
    allocsize auto_da_alloc background_gc barrier blksize block_validity bsize cache
    checkpoint clientaddr codepage commit compress compress-force compress_algorithm
    compress_log_size data discard dmask errors fd fmask fragment fsync_mode gid
    group_id grpid huge index init_itable inline_xattr_size inode_readahead_blks
    iocharset journal_dev journal_ioprio jqfmt largeio local_lock logbsize logbufs
    logdev lookupcache lowerdir max_batch_time max_dir_size_kb max_inline max_open_zones
    max_read mb_optimize_scan metacopy metadata_ratio min_batch_time minorversion mode
    mountaddr mountport mountproto mountvers mpol msize namlen nconnect nfs_export
    nfsvers nr_inodes pgrp port posixacl pquota prjquota proto redirect_dir rescue
    resgid resuid retrans rfdno rsize rtdev sb sec shortname size space_cache stripe
    subvol subvolid sunit swidth thread_pool timeo timeout trans uid umask upperdir
    user_id uuid vers wfdno whint_mode workdir wsize xattr xino
    """,
    )
)
"""Mount options whose values are recorded."""


class CapturedMount(NamedTuple):
    """One line of mountinfo."""

    point: str
    kind: str
    source: str
    options: str
    """Options of the mount and of the file system; values of listed options only."""


def block_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the block devices that have a size, with their queues and partitions."""
    names = tree.names(_BLOCK)
    sized = [n for n in names if tree.text(f"{_BLOCK}/{n}/size") not in ("", "0")]
    if not names:
        yield absent_fact("block", _BLOCK, "no such file", SUSPICIOUS)
    for name in sized[:_MOST_DEVICES]:
        yield from _device(tree, name)
    if len(sized) > _MOST_DEVICES:
        rest = f"{len(sized) - _MOST_DEVICES} more devices"
        yield absent_fact("block.more", _BLOCK, f"not captured: {rest}", EXPECTED)


def mount_facts(tree: MachineFiles, space: AskSpace, directory: str) -> Iterator[Fact]:
    """Yield the mounts of real file systems, and the one of the working directory."""
    text, absent = tree.read(_MOUNTS)
    if text is None:
        yield absent_fact("mount", _MOUNTS, absent, SUSPICIOUS)
        return
    mounts = [m for m in map(read_mount, text.splitlines()) if m is not None]
    yield from _working_directory(mounts, space, directory)
    real = {m.point: m for m in mounts if m.kind not in _PSEUDO}
    for mount in list(real.values())[:_MOST_MOUNTS]:
        name = f"mount.{mount.point}"
        yield present_fact(f"{name}.type", mount.kind, _MOUNTS, SUSPICIOUS)
        yield present_fact(f"{name}.device", redacted_text(mount.source), _MOUNTS, SUSPICIOUS)
        yield present_fact(f"{name}.options", mount.options, _MOUNTS, SUSPICIOUS)
        yield from _space(name, mount, space)
    if len(real) > _MOST_MOUNTS:
        rest = f"not captured: {len(real) - _MOST_MOUNTS} more mounts"
        yield absent_fact("mount.more", _MOUNTS, rest, EXPECTED)
    kinds = Counter(m.kind for m in mounts if m.kind in _PSEUDO)
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    yield present_fact("mount.pseudo", counts, _MOUNTS, EXPECTED)


def read_mount(line: str) -> CapturedMount | None:
    """Return a line of mountinfo; None if the line has another format."""
    left, separator, right = line.partition(" - ")
    head, tail = left.split(" "), right.split(" ")
    if not separator or len(head) < 6 or len(tail) < 3:
        return None
    options = dict.fromkeys([*head[5].split(","), *tail[2].split(",")])
    shown = recorded_settings(",".join(options), _MOUNT_OPTIONS, ",")
    return CapturedMount(_unescaped(head[4]), tail[0], _unescaped(tail[1]), shown)


def mount_of(mounts: list[CapturedMount], directory: str) -> CapturedMount | None:
    """Return the mount that contains a directory: the longest path, of equals the last."""
    parts = directory.rstrip("/") + "/"
    best: CapturedMount | None = None
    for mount in mounts:
        if parts.startswith(mount.point.rstrip("/") + "/") and (
            best is None or len(mount.point) >= len(best.point)
        ):
            best = mount
    return best


def _device(tree: MachineFiles, name: str) -> Iterator[Fact]:
    base, fact = f"{_BLOCK}/{name}", f"block.{name}"
    made = _VIRTUAL_DEVICES.match(name) is not None
    heavy = EXPECTED if made else FATAL
    light = EXPECTED if made else SUSPICIOUS
    yield tree.fact(f"{fact}.number", f"{base}/dev", EXPECTED)
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
        yield present_fact(f"{fact}.made_of", ", ".join(slaves), f"{base}/slaves", FATAL)
    if tree.exists(f"{base}/md"):
        yield tree.fact(f"{fact}.raid", f"{base}/md/level", FATAL)
    for part in (n for n in tree.names(base) if tree.exists(f"{base}/{n}/partition")):
        yield tree.fact(f"partition.{part}.size_bytes", f"{base}/{part}/size", light, _sectors)
        yield tree.fact(f"partition.{part}.start_bytes", f"{base}/{part}/start", light, _sectors)


def _serial(tree: MachineFiles, fact: str, base: str) -> Fact:
    for path in (f"{base}/serial", f"{base}/device/serial", f"{base}/device/wwid"):
        text, absent = tree.read(path)
        if text:
            hashed = hashlib.sha256(f"benchwright block {text}".encode()).hexdigest()
            return present_fact(f"{fact}.serial_hash", hashed[:16], path, SUSPICIOUS)
    return absent_fact(f"{fact}.serial_hash", path, absent or "empty", SUSPICIOUS)


def _sectors(text: str) -> str:
    """Return a number of 512-byte sectors in bytes; sysfs uses this unit for all devices."""
    return str(int(text) * 512) if text.isdecimal() else text


def _working_directory(
    mounts: list[CapturedMount], space: AskSpace, directory: str
) -> Iterator[Fact]:
    mount = mount_of(mounts, directory)
    yield present_fact("workdir.path", directory, "getcwd", EXPECTED)
    if mount is None:
        yield absent_fact("workdir.mount", _MOUNTS, "on no mount", SUSPICIOUS)
        return
    yield present_fact("workdir.mount", mount.point, _MOUNTS, SUSPICIOUS)
    yield present_fact("workdir.type", mount.kind, _MOUNTS, SUSPICIOUS)
    yield present_fact("workdir.device", redacted_text(mount.source), _MOUNTS, SUSPICIOUS)
    yield present_fact("workdir.options", mount.options, _MOUNTS, SUSPICIOUS)
    yield from _space("workdir", mount, space)


def _space(name: str, mount: CapturedMount, space: AskSpace) -> Iterator[Fact]:
    reason = ""
    sizes = (0, 0)
    if _REMOTE.match(mount.kind):
        reason = "not read: a network file system may hang"
    else:
        try:
            sizes = space(mount.point)
        except OSError as error:
            reason = reason_of(error)
    # The size that ZFS reports is used plus free space, which changes as pools share space.
    heavy = EXPECTED if mount.kind == "zfs" else SUSPICIOUS
    rows: tuple[tuple[str, int, FactWeight], ...] = (
        ("size_bytes", sizes[0], heavy),
        ("free_bytes", sizes[1], EXPECTED),
    )
    for what, value, weight in rows:
        if reason:
            yield absent_fact(f"{name}.{what}", "statvfs", reason, weight)
        else:
            yield present_fact(f"{name}.{what}", str(value), "statvfs", weight)


def space_of(path: str) -> tuple[int, int]:
    """Return the size and the free space of a path's file system [bytes]."""
    told = os.statvfs(path)
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _unescaped(text: str) -> str:
    """Return a field of mountinfo with its octal escapes decoded."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


# -- Offloads, driver and firmware of a network interface, by the SIOCETHTOOL ioctl ----
#
# Decision: the ioctl's old requests for single numbers, not netlink: twelve of them report
# what affects a measurement, without message format and root. Source: linux/ethtool.h.

SIOCETHTOOL = 0x8946
_DRVINFO = 0x03
_OFFLOADS = (
    ("rx_checksum", 0x14),
    ("tx_checksum", 0x16),
    ("scatter_gather", 0x18),
    ("tso", 0x1E),
    ("gso", 0x23),
    ("gro", 0x2B),
)
_FLAGS = 0x25
_FLAG_BITS = (("lro", 15), ("ntuple", 27), ("rx_hash", 28))


def ask_interface(name: str) -> dict[str, str]:
    """Return an interface's `offloads`, `driver_version` and `firmware`.

    Values that it does not report are omitted. Raises OSError if no query is possible.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        offloads = []
        for what, request in _OFFLOADS:
            value = _number(port, name, request)
            if value is not None:
                offloads.append(f"{what} {'on' if value else 'off'}")
        flags = _number(port, name, _FLAGS)
        if flags is not None:
            offloads += [
                f"{what} {'on' if flags >> bit & 1 else 'off'}" for what, bit in _FLAG_BITS
            ]
        found = {"offloads": ", ".join(offloads)} | _driver(port, name)
        return {key: value for key, value in found.items() if value}


def _number(port: socket.socket, name: str, request: int) -> int | None:
    data = array.array("B", struct.pack("=II", request, 0))
    if not _ioctl(port, name, data):
        return None
    return int(struct.unpack("=II", data.tobytes())[1])


def _driver(port: socket.socket, name: str) -> dict[str, str]:
    data = array.array("B", struct.pack("=I", _DRVINFO).ljust(196, b"\0"))
    if not _ioctl(port, name, data):
        return {}
    _, _, version, firmware = struct.unpack_from("=I32s32s32s", data.tobytes())
    return {"driver_version": _word(version), "firmware": _word(firmware)}


def _ioctl(port: socket.socket, name: str, data: array.array[int]) -> bool:
    """Let the kernel fill `data`; return whether it did."""
    address, _ = data.buffer_info()
    try:
        fcntl.ioctl(port, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
    except OSError:
        return False
    return True


def _word(text: bytes) -> str:
    found = text.split(b"\0")[0].decode(errors="replace").strip()
    return "" if found == "N/A" else found


# -- Network interfaces: driver, link, queues, offloads. Source: sysfs-class-net -------

AskInterface = Callable[[str], dict[str, str]]
"""Interface -> values reported by its driver. Raises OSError."""

_NET = "/sys/class/net"
_MOST_INTERFACES = 32
_VIRTUAL_INTERFACES = re.compile(r"(veth|docker|br-|virbr|tap|tun|vnet|cali|cni|flannel|ifb|dummy)")
"""Interfaces that containers and virtual machines create and remove."""
_FILES = ("operstate", "speed", "duplex", "mtu", "tx_queue_len", "gro_flush_timeout")
_DRIVER_FACTS = ("offloads", "driver_version", "firmware")


def network_facts(tree: MachineFiles, ask: AskInterface) -> Iterator[Fact]:
    """Yield the interfaces; the speed is in Mbit/s, as the kernel reports it."""
    names = tree.names(_NET)
    names = [name for name in names if tree.exists(f"{_NET}/{name}/mtu")]
    if not names:
        yield absent_fact("net", _NET, "no such file", SUSPICIOUS)
    for name in names[:_MOST_INTERFACES]:
        yield from _interface(tree, name, ask)
    if len(names) > _MOST_INTERFACES:
        rest = f"not captured: {len(names) - _MOST_INTERFACES} more interfaces"
        yield absent_fact("net.more", _NET, rest, EXPECTED)


def _interface(tree: MachineFiles, name: str, ask: AskInterface) -> Iterator[Fact]:
    base, fact = f"{_NET}/{name}", f"net.{name}"
    weight = EXPECTED if _VIRTUAL_INTERFACES.match(name) else SUSPICIOUS
    for file in _FILES:
        found = tree.fact(f"{fact}.{file}", f"{base}/{file}", weight)
        if file == "speed" and found.value in ("-1", "4294967295"):
            reason = "the driver does not know it"
            found = absent_fact(found.name, found.source, reason, weight)
        yield found
    driver = tree.target(f"{base}/device/driver")
    if driver:
        yield present_fact(f"{fact}.driver", driver, f"{base}/device/driver", weight)
    queues = tree.names(f"{base}/queues")
    if queues:
        counts = (sum(q.startswith(f"{way}-") for q in queues) for way in ("rx", "tx"))
        text = "{} rx, {} tx".format(*counts)
        yield present_fact(f"{fact}.queues", text, f"{base}/queues", weight)
    try:
        told = ask(name)
    except OSError as error:
        yield absent_fact(f"{fact}.offloads", "SIOCETHTOOL", reason_of(error), weight)
        return
    for what in _DRIVER_FACTS:
        if what in told:
            yield present_fact(f"{fact}.{what}", told[what], "SIOCETHTOOL", weight)
        elif what == "offloads":
            reason = "not reported by the driver"
            yield absent_fact(f"{fact}.{what}", "SIOCETHTOOL", reason, weight)
