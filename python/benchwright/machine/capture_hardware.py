"""The devices of the machine: CPUs, memory, NUMA nodes, graphics devices, block devices, file
systems and network interfaces. Sources: proc(5), sysfs, mountinfo, the SIOCETHTOOL ioctl.
"""

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
from benchwright.core.quantity import parse_cpu_list
from benchwright.machine.redact import recorded_settings, redacted_text
from benchwright.machine.sources import (
    BLOCK_QUEUE,
    EXPECTED,
    FATAL,
    MEMORY,
    NOT_IN_FILE,
    PROCESSOR,
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


# --------------------------------------------------------------------------------------
# The CPUs: model, topology, caches, frequency policies, mitigations, NUMA
# nodes.
#
# Decision: a value that all CPUs share is reported once; otherwise each value is listed
# with its CPUs. Sources: admin-guide/cputopology, pm/cpufreq, sysfs
# ABI devices-system-cpu and devices-node.

_CPU = "/sys/devices/system/cpu"
_CPUINFO = "/proc/cpuinfo"
"""The highest NR_CPUS of a Linux build."""
_FIRST_BYTES = 1 << 16
"""Enough for the first CPU's entry: all entries are alike, and reading hundreds takes long."""
_INFO = (
    ("cpu.vendor", ("vendor_id", "CPU implementer"), FATAL),
    ("cpu.model", ("model name", "Processor", "cpu", "uarch"), FATAL),
    ("cpu.family", ("cpu family", "CPU architecture"), FATAL),
    ("cpu.model_number", ("model", "CPU part"), FATAL),
    ("cpu.stepping", ("stepping", "CPU revision"), SUSPICIOUS),
    ("cpu.microcode", ("microcode",), SUSPICIOUS),
    ("cpu.flags", ("flags", "Features", "isa"), SUSPICIOUS),
    ("cpu.bugs", ("bugs",), SUSPICIOUS),
)
_CACHE_LETTERS = {"Data": "d", "Instruction": "i"}
_POLICY = (
    ("cpu.governor", "scaling_governor", FATAL),
    ("cpu.frequency_driver", "scaling_driver", FATAL),
    ("cpu.frequency_min_khz", "scaling_min_freq", FATAL),
    ("cpu.frequency_max_khz", "scaling_max_freq", FATAL),
    ("cpu.hardware_min_khz", "cpuinfo_min_freq", FATAL),
    ("cpu.hardware_max_khz", "cpuinfo_max_freq", FATAL),
    ("cpu.energy_preference", "energy_performance_preference", SUSPICIOUS),
)


def processor_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the facts about the CPUs."""
    yield from _info(tree)
    yield from tree.facts(PROCESSOR)
    yield from _topology(tree)
    yield from _caches(tree)
    yield from _policies(tree)
    yield from _mitigations(tree)


def node_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the NUMA nodes: CPUs, memory [KiB], distances."""
    base = "/sys/devices/system/node"
    nodes = [name for name in tree.names(base) if re.fullmatch(r"node\d+", name)]
    if not nodes:
        yield absent_fact("numa.nodes", base, "no such file", FATAL)
        return
    yield present_fact("numa.nodes", str(len(nodes)), base, FATAL)
    for node in nodes:
        name = f"numa.{node.removeprefix('node')}"
        yield tree.fact(f"{name}.cpus", f"{base}/{node}/cpulist", FATAL)
        yield tree.fact(f"{name}.distances", f"{base}/{node}/distance", FATAL)
        yield _node_memory(tree, name, f"{base}/{node}/meminfo")


def _listed(cpus: str) -> list[int]:
    """Return the CPUs of a list; none of a text that is not one."""
    try:
        return parse_cpu_list(cpus)
    except ValueError:
        return []


def _info(tree: MachineFiles) -> Iterator[Fact]:
    text, absent = tree.read(_CPUINFO, _FIRST_BYTES)
    pairs: dict[str, str] = {}
    for line in (text or "").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), value.strip())
    for name, keys, weight in _INFO:
        told = next((pairs[key] for key in keys if key in pairs), None)
        reason = "" if told is not None else absent or NOT_IN_FILE
        yield Fact(name, told, _CPUINFO, reason, weight)


def _topology(tree: MachineFiles) -> Iterator[Fact]:
    source = f"{_CPU}/cpu*/topology"
    packages: set[str] = set()
    cores: set[str] = set()
    threads = 0
    for cpu in _listed(tree.text(f"{_CPU}/online")):
        base = f"{_CPU}/cpu{cpu}/topology"
        siblings = tree.read(f"{base}/thread_siblings_list").text
        if siblings is not None:
            cores.add(siblings)
            packages.add(tree.text(f"{base}/physical_package_id"))
            threads += 1
    rows = (("packages", len(packages)), ("cores", len(cores)), ("threads", threads))
    for what, count in rows:
        if threads:
            yield present_fact(f"cpu.{what}", str(count), source, FATAL)
        else:
            yield absent_fact(f"cpu.{what}", source, "no such file", FATAL)


def _caches(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the size and number of the caches of each kind."""
    kinds: dict[str, dict[str, set[str]]] = {}
    source = f"{_CPU}/cpu*/cache"
    seen: set[int] = set()
    for cpu in _listed(tree.text(f"{_CPU}/online")):
        siblings = _listed(tree.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list"))
        if cpu in seen:
            continue  # The other thread of a core has the same caches.
        seen.update(siblings)
        base = f"{_CPU}/cpu{cpu}/cache"
        for index in (n for n in tree.names(base) if n.startswith("index")):
            kind = tree.text(f"{base}/{index}/type")
            level = tree.text(f"{base}/{index}/level")
            name = f"cpu.cache_l{level}{_CACHE_LETTERS.get(kind, '')}"
            size = tree.text(f"{base}/{index}/size")
            shared = tree.text(f"{base}/{index}/shared_cpu_list")
            kinds.setdefault(name, {}).setdefault(size, set()).add(shared)
    if not kinds:
        yield absent_fact("cpu.caches", source, "no such file", FATAL)
    for name, sizes in sorted(kinds.items()):
        each = (f"{size} x {len(sets)}" for size, sets in sorted(sizes.items()))
        yield present_fact(name, ", ".join(each), source, FATAL)


def _policies(tree: MachineFiles) -> Iterator[Fact]:
    base = f"{_CPU}/cpufreq"
    policies = [name for name in tree.names(base) if name.startswith("policy")]
    for name, file, weight in _POLICY:
        source = f"{base}/policy*/{file}"
        values: dict[str, list[str]] = {}
        reason = "no such file"
        for policy in policies:
            text, absent = tree.read(f"{base}/{policy}/{file}")
            reason = absent or reason
            if text is not None:
                cpus = tree.text(f"{base}/{policy}/affected_cpus").replace(" ", ",")
                values.setdefault(text, []).append(cpus)
        yield _per_cpu(values, absent_fact(name, source, reason, weight))


def _per_cpu(values: dict[str, list[str]], absent: Fact) -> Fact:
    """Return the value of all policies; if they differ, each value with its CPUs."""
    if not values:
        return absent
    text = next(iter(values))
    if len(values) > 1:
        each = (f"{value} (cpu {','.join(cpus)})" for value, cpus in values.items())
        text = "; ".join(each)
    return present_fact(absent.name, text, absent.source, absent.weight)


def _mitigations(tree: MachineFiles) -> Iterator[Fact]:
    base = f"{_CPU}/vulnerabilities"
    names = tree.names(base)
    for name in names:
        yield tree.fact(f"mitigation.{name}", f"{base}/{name}", SUSPICIOUS)
    if not names:
        yield absent_fact("mitigation", base, "no such file", SUSPICIOUS)


def _node_memory(tree: MachineFiles, name: str, path: str) -> Fact:
    matched = re.search(r"MemTotal:\s+(\d+)", tree.text(path))
    if matched is None:
        return absent_fact(f"{name}.memory_kib", path, NOT_IN_FILE, EXPECTED)
    # The node's size changes slightly with each boot; memory.total is the fact to compare.
    return present_fact(f"{name}.memory_kib", matched[1], path, EXPECTED)


# --------------------------------------------------------------------------------------
# Memory and swap: sizes, huge pages, swap devices. Source: proc(5), meminfo.

_MEMINFO = "/proc/meminfo"
_SWAPS = "/proc/swaps"
_SIZES = (
    ("memory.total_kib", "MemTotal", FATAL),
    ("memory.available_kib", "MemAvailable", EXPECTED),
    ("memory.cached_kib", "Cached", EXPECTED),
    ("memory.dirty_kib", "Dirty", EXPECTED),
    ("memory.swap_total_kib", "SwapTotal", SUSPICIOUS),
    ("memory.swap_free_kib", "SwapFree", EXPECTED),
    ("memory.hugepages_total", "HugePages_Total", SUSPICIOUS),
    ("memory.hugepages_free", "HugePages_Free", EXPECTED),
    ("memory.hugepage_kib", "Hugepagesize", SUSPICIOUS),
)


def memory_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the facts about memory and swap; sizes in KiB, as the kernel reports them."""
    text, absent = tree.read(_MEMINFO)
    sizes = {}
    for line in (text or "").splitlines():
        key, _, value = line.partition(":")
        sizes[key] = value.removesuffix("kB").strip()
    for name, key, weight in _SIZES:
        if key in sizes:
            yield present_fact(name, sizes[key], _MEMINFO, weight)
        else:
            yield absent_fact(name, _MEMINFO, absent or NOT_IN_FILE, weight)
    yield from tree.facts(MEMORY)
    yield _swaps(tree)


def _swaps(tree: MachineFiles) -> Fact:
    """Return the swap devices and files: `/dev/sda2 (partition, 8388604 KiB)`."""
    text, absent = tree.read(_SWAPS)
    if text is None:
        return absent_fact("memory.swaps", _SWAPS, absent, SUSPICIOUS)
    rows = [line.split() for line in text.splitlines()[1:]]
    each = (f"{r[0]} ({r[1]}, {r[2]} KiB)" for r in rows if len(r) >= 3)
    return present_fact("memory.swaps", ", ".join(each), _SWAPS, SUSPICIOUS)


# --------------------------------------------------------------------------------------
# Graphics devices: vendor, device, driver. Sources: sysfs drm, NVIDIA's
# /proc/driver.

_DRM = "/sys/class/drm"
_NVIDIA = "/proc/driver/nvidia"


def graphics_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the graphics devices."""
    cards = [n for n in tree.names(_DRM) if re.fullmatch(r"card\d+", n)]
    computing = tree.names(f"{_NVIDIA}/gpus")
    if tree.exists(_DRM) or computing:
        yield present_fact("gpu.cards", ", ".join((*cards, *computing)), _DRM, FATAL)
    else:
        yield absent_fact("gpu.cards", _DRM, "no such file", FATAL)
    for card in cards:
        device = f"{_DRM}/{card}/device"
        for file in ("vendor", "device"):
            if tree.exists(f"{device}/{file}"):
                yield tree.fact(f"gpu.{card}.{file}", f"{device}/{file}", FATAL)
        driver = tree.target(f"{device}/driver")
        if driver:
            yield present_fact(f"gpu.{card}.driver", driver, f"{device}/driver", SUSPICIOUS)
    for at, name in enumerate(computing):
        path = f"{_NVIDIA}/gpus/{name}/information"
        matched = re.search(r"^Model:\s*(.+)$", tree.text(path), re.MULTILINE)
        if matched:
            yield present_fact(f"gpu.nvidia{at}.model", matched[1], path, FATAL)
    version = tree.text(f"{_NVIDIA}/version").partition("\n")[0]
    if version:
        path = f"{_NVIDIA}/version"
        yield present_fact("gpu.nvidia_driver", version, path, SUSPICIOUS)
