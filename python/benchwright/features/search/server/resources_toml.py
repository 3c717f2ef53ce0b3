"""`[server.resources]` of a spec: shares and limits of CPU, memory and I/O, and disks."""

from __future__ import annotations

import re
from typing import Any

from benchwright.features.load import parse as words
from benchwright.features.load import workload as w
from benchwright.features.quiet.server_resources_types import (
    CPU_PERIOD_US,
    MOST_DISKS,
    STRIPED,
    DeviceLimits,
    IoLimits,
    ServerDisks,
    ServerResources,
    names_of_disks,
)
from benchwright.inputs.form import Form, each, needed, of_type, optional, whole
from benchwright.inputs.toml_table import TomlTable

LEAST_QUOTA_MICRO = 10_000
"""The kernel accepts no quota below 1 ms in a period."""
_FILE_SYSTEM = re.compile(r"[a-z][a-z0-9]*", re.ASCII)


def _file_system(text: str) -> str:
    if not _FILE_SYSTEM.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a file system such as ext4")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f"{text!r} does not begin with /")
    return text


_DISK_COUNTS = whole(1, MOST_DISKS)


def _cpu_quota_us(text: str) -> int:
    """Return the CPU time in each period of a quota, a number of CPUs [us]. Raises ValueError."""
    micro = words.number_micro(text)
    if micro < LEAST_QUOTA_MICRO:
        raise ValueError(f"{text!r} is less than 0.01 CPUs")
    return int(micro * CPU_PERIOD_US // w.MICRO)


_IO_LIMITS = (
    optional("read_iops", words.some, help="reads per second", default="none"),
    optional("write_iops", words.some, help="writes per second", default="none"),
    optional(
        "read_bandwidth",
        words.some_bytes,
        field="read_bytes_per_s",
        help="bytes read per second",
        default="none",
    ),
    optional(
        "write_bandwidth",
        words.some_bytes,
        field="write_bytes_per_s",
        help="bytes written per second",
        default="none",
    ),
)


def _device_limits(device: str, **limits: int) -> DeviceLimits:
    if not limits:
        known = ", ".join(str(io_limit.key) for io_limit in _IO_LIMITS)
        raise ValueError(f"{device} has no limit: {known}")
    return DeviceLimits(device=device, limits=IoLimits(**limits))


IO = Form(
    (
        needed(
            "device",
            read=of_type(str),
            help="a block device, or a file or directory on it; the whole disk is limited",
            default="needed",
        ),
        *_IO_LIMITS,
    ),
    _device_limits,
)
"""The keys of an element of `io`."""


def _made_resources(*, disks: int | None = None, **fields: Any) -> ServerResources:
    """Return the resources of a table. Raises ValueError."""
    own = {name: fields.pop(name) for name in [*fields] if name.startswith("disk_")}
    if disks is None:
        if own:
            raise ValueError(f"{next(iter(own))} has no effect without disks")
        return ServerResources(**fields)
    iops, bytes_per_s = own.pop("disk_iops", None), own.pop("disk_bandwidth", None)
    limits = IoLimits(
        read_iops=iops, write_iops=iops, read_bytes_per_s=bytes_per_s, write_bytes_per_s=bytes_per_s
    )
    if "disk_size" in own:
        own["disk_size_bytes"] = own.pop("disk_size")
    given = {name.removeprefix("disk_"): value for name, value in own.items()}
    if given.get("striped") and given.setdefault("file_system", STRIPED) != STRIPED:
        raise ValueError(f"disk_striped needs the file system {STRIPED}")
    made = ServerDisks(count=disks, limits=limits, **given)
    return ServerResources(disks=made, **fields)


RESOURCES = Form(
    (
        optional(
            "cpu_share",
            read=whole(1, 10_000),
            help="weight against other processes while the CPUs are busy, 1 to 10,000; without a "
            "share it is 100",
            default="none",
        ),
        optional(
            "cpu_quota",
            _cpu_quota_us,
            field="cpu_quota_us",
            help="CPU time, in CPUs: `0.5`, `2`",
            default="none",
        ),
        optional(
            "memory",
            words.some_bytes,
            field="memory_bytes",
            help='memory with page cache: `"512M"`; beyond it the kernel reclaims, then ends a '
            "process",
            default="none",
        ),
        optional(
            "io",
            read=each(IO),
            help="limits of devices, an array of tables; keys below",
            default="none",
        ),
        optional(
            "disks",
            read=_DISK_COUNTS,
            help="make so many disks, 1 to 64: loop devices with a file system",
            default="none",
        ),
        optional("disk_size", words.some_bytes, help="of each", default='`"1G"`'),
        optional(
            "disk_iops",
            words.some,
            help="operations per second of each disk, of reads and of writes",
            default="none",
        ),
        optional(
            "disk_bandwidth",
            words.some_bytes,
            help="bytes per second of each disk, of reads and of writes",
            default="none",
        ),
        optional(
            "disk_file_system",
            _file_system,
            help="made by `mkfs.NAME`: `ext4`, `xfs`, ...",
            default='`"ext4"`, striped `"btrfs"`',
        ),
        optional(
            "disk_striped",
            read=of_type(bool),
            help="one btrfs over all disks, with data and metadata striped; `{disk1}` is its directory",
            default="`false`",
        ),
        optional(
            "disk_sync",
            read=of_type(bool),
            help="each write reaches the disk before it is answered (the mount option `sync`)",
            default="`false`",
        ),
        optional(
            "disk_options",
            read=of_type(tuple[str, ...]),
            help='further words for `mkfs.NAME`: `["-b", "1024"]`',
            default="none",
        ),
        optional(
            "disk_directory",
            _absolute,
            help="where the image files of the disks are: an absolute path",
            default="that of temporary files",
        ),
    ),
    _made_resources,
)
"""The keys of `[server.resources]`."""


def disk_names_of(top: TomlTable) -> dict[str, str]:
    """Return the names in braces of the disks that a spec makes, with values to check texts."""
    server = top.silent().table("server")
    table = None if server is None else server.table("resources")
    if table is None or "disks" not in table:
        return {}
    count = _DISK_COUNTS(table, "disks")
    striped = table.values.get("disk_striped") is True
    disks = None if count is None else ServerDisks(count=count, striped=striped)
    return names_of_disks(disks, "/disks")
