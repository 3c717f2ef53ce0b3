"""What a spec gives its server: shares and limits of CPU, memory and I/O, and disks of its own.

Plain data between the reader of a spec, the workbench and the settings that change the machine
(features/quiet/server_resources.py). None or 0: not limited. Source: Workbench paper, Table 1, R.
"""

from __future__ import annotations

import msgspec

CPU_PERIOD_US = 100_000
"""Period in which a group may use its quota of CPU time."""
MOST_DISKS = 64
STRIPED = "btrfs"
"""The file system that stripes over disks without help: many kernels have no md and dm."""


class IoLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a block device, for reads and for writes."""

    read_iops: int | None = None
    write_iops: int | None = None
    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self != IoLimits()


class DeviceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a device of the machine."""

    device: str
    """A block device, or a file or a directory on it."""
    limits: IoLimits


class ServerDisks(msgspec.Struct, frozen=True, kw_only=True):
    """Disks that are made for the server: loop devices with a file system."""

    count: int
    size_bytes: int = 1 << 30
    limits: IoLimits = IoLimits()
    """Of each disk."""
    file_system: str = "ext4"
    options: tuple[str, ...] = ()
    """Further words of the mkfs command."""
    directory: str | None = None
    """Where their image files are; None: the directory of temporary files."""
    striped: bool = False
    """One file system over all of them, mounted as the first one."""
    sync: bool = False
    """Whether each write reaches the disk before it returns (the mount option sync)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of their directories: disk1, disk2 ..."""
        count = 1 if self.striped else self.count
        return tuple(f"disk{number}" for number in range(1, count + 1))


class ServerResources(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a server."""

    cpu_share: int | None = None
    """Weight against other groups while the CPUs are busy; 100 is that of a group without one."""
    cpu_quota_us: int | None = None
    """CPU time in each period of CPU_PERIOD_US."""
    memory_bytes: int | None = None
    """Memory with page cache."""
    io: tuple[DeviceLimits, ...] = ()
    disks: ServerDisks | None = None


class ServerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a server that is about to start, and their names on this machine."""

    resources: ServerResources
    group: str
    """Name of the server's groups."""
    mounts: str
    """Directory that contains the mounted disks."""

    @property
    def disk_paths(self) -> tuple[str, ...]:
        """The directories of the disks."""
        disks = self.resources.disks
        names = () if disks is None else disks.names
        return tuple(f"{self.mounts}/{name}" for name in names)


MOUNTS = "disk_mounts"
"""The name in braces of the directory that contains the server's disks."""


def names_of_disks(disks: ServerDisks | None, mounts: str) -> dict[str, str]:
    """Return the value of each name in braces of a server's disks; none without disks."""
    if disks is None:
        return {}
    return {MOUNTS: mounts} | {name: f"{mounts}/{name}" for name in disks.names}
