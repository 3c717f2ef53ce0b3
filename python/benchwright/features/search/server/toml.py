"""`[server.resources]` and `[remote]` of a spec: shares and limits of CPU, memory and I/O, and
disks of the server; the host on which the server, or the load generator, runs.

Decision: the keys of `[remote]` that the hook `remote` has too have its names and its meaning;
commands before and after a trial are those of `[server]`. docs/remote.md and docs/workbench.md
describe the table.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Literal

from benchwright.core.hosts import HOST, PATH, RemoteSettings
from benchwright.features.load import parse as words
from benchwright.features.load import workload as w
from benchwright.features.quiet.types import (
    CPU_PERIOD_US,
    MOST_DISKS,
    STRIPED,
    DeviceLimits,
    IoLimits,
    ServerDisks,
    ServerResources,
    names_of_disks,
)
from benchwright.features.search.spec import LoadPlan, RemotePlan, ServerPlan
from benchwright.inputs.form import Form, each, needed, of_type, optional, read_form, whole
from benchwright.inputs.toml_table import TomlTable

_OF_SUITES = dict.fromkeys(
    ("before", "after", "processes", "hooks", "prefix"),
    "it is a key of suites; in a spec, [server] has configure and stop",
)


def _host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a host: a name of ~/.ssh/config, user@host, or ssh://host:port"
        )
    return text


def _plain_path(text: str) -> str:
    if not PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not an absolute path of letters, digits and . _ - /")
    return text.rstrip("/") or "/"


def _copies(table: TomlTable, key: str) -> tuple[str, ...]:
    names = tuple(posixpath.normpath(name) for name in table.texts(key))
    for name in names:
        if name.startswith(("/", "..")):
            message = f"{name!r} is not below the directory of the spec"
            table.refuse(table.at(key), message, "files are copied with their names")
    return names


def _plan(
    run: Literal["server", "load"] = "server", copy: tuple[str, ...] = (), **settings: Any
) -> RemotePlan:
    return RemotePlan(settings=RemoteSettings(**settings), run=run, copy=copy)


REMOTE_OF_SPEC = Form(
    (
        needed(
            "host",
            _host,
            hint='host = "filer" (a name of ~/.ssh/config, user@host, ssh://host:port)',
            help="the other host: a name of `~/.ssh/config`, `user@host` or `ssh://user@host:port`",
            default="required",
        ),
        optional(
            "run",
            read=of_type(Literal["server", "load"]),
            help='what runs there: `"server"`, the commands of `[server]`; `"load"`, the generator',
            default='`"server"`',
        ),
        optional(
            "copy",
            read=_copies,
            help="files and directories below the spec's directory that are copied there, to "
            "`{here}`",
            default="none",
        ),
        optional(
            "directory",
            _plain_path,
            help="where `bw` makes its private directory there",
            default="its `TMPDIR`, or `/tmp`",
        ),
        optional(
            "programs",
            _plain_path,
            help="the directory of `bw-launcher` and `bw-sampler` there",
            default="they are copied",
        ),
        optional(
            "ssh_config",
            str,
            help="a file for `ssh -F` instead of your own, relative to the spec",
            default="none",
        ),
        optional(
            "timeout_s",
            read=lambda table, key: table.whole(key, 1, 86400),
            help="time limit of the connection, and of each question [s]",
            default="20",
        ),
    ),
    _plan,
)
"""The keys of `[remote]` in a spec."""


def remote_of(
    top: TomlTable, server: ServerPlan | None, load: LoadPlan, engine: str
) -> RemotePlan | None:
    """Return what `[remote]` says; report what cannot be on another host."""
    table = top.table("remote")
    if table is None:
        return None
    plan: RemotePlan | None = read_form(table, REMOTE_OF_SPEC, elsewhere=_OF_SUITES)
    if plan is None:
        return None
    host = plan.settings.host
    if server is not None and server.network == "private":
        message = f"a private network belongs to this machine: {host} cannot reach it"
        hint = "leave out network; the server listens on an address that both hosts reach"
        top.refuse(top.at("server", "network"), message, hint)
    if plan.run == "load":
        if load.generator == engine:
            message = f"[remote] does not run our engine on {host}"
            hint = (
                f'hosts = ["{host}"] in [load] does; or name another generator there, or '
                'run = "server"'
            )
            top.refuse(table.at("run"), message, hint)
        return plan
    if "server" not in top:
        message = f"the spec has no [server] that could run on {host}"
        top.refuse(table.where, message, 'add [server], or run = "load"')
    if server is not None and server.resources is not None:
        message = (
            f"[server.resources] limits this machine, not {host}: bw could not undo its "
            "changes there after a crash"
        )
        hint = "limit the server in its start command, such as systemd-run -p MemoryMax=1G"
        top.refuse(top.at("server", "resources"), message, hint)
    return plan


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
