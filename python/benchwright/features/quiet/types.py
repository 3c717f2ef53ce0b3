"""The settings of `bw quiet` (their names and values, a user's request, the result of each change),
and what a spec gives its server: shares and limits of CPU, memory and I/O, and disks of its own.

The server's resources are plain data between the reader of a spec, the workbench and the settings
that change the machine (features/quiet/server_resources.py). None or 0: not limited. Source:
Workbench paper, Table 1, R.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from benchwright.core.errors import Diagnostic, suggestion
from benchwright.core.quantity import MAX_CPU, parse_cpu_list

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


# -- The values of settings that do not depend on the machine ----------------------------------
#
# Purpose: a value that no machine accepts is reported at its place, even if a suite is checked
# on another machine. Values that differ between machines (governors, huge pages, CPU numbers)
# are checked on the machine: features/quiet/settings.py.
# Source: kernel documentation, admin-guide/sysctl/{kernel,vm}.rst, admin-guide/pm/cpufreq.rst,
# admin-guide/mm/transhuge.rst.

CPU_SETTINGS = ("irq-affinity", "isolation")
"""Settings whose values are the CPUs of the benchmark."""
DOCUMENTED_VALUES: dict[str, tuple[str, ...]] = {
    "governor": (
        *("performance", "powersave", "userspace", "ondemand", "conservative"),
        "schedutil",
    ),
    "thp": ("always", "madvise", "never"),
}
"""Values in the kernel's documentation; a machine that lists its own accepts only those."""
_WITHOUT_VALUE = ("nologin", "dirty", "smt", "caches")
_CHOICES: dict[str, tuple[str, ...]] = {
    "turbo": ("off", "on"),
    "aslr": ("0", "1", "2"),
    "nmi-watchdog": ("0", "1"),
}
_ONE_VALUE = (*_CHOICES, *DOCUMENTED_VALUES, "swappiness")
_MAX_SWAPPINESS = 200
_NUMBER = re.compile(r"0|[1-9][0-9]{0,4}")


def setting_value_error(name: str, values: Sequence[str]) -> str:
    """Return what is wrong with the values, and what is allowed; empty if they are valid."""
    if name in _WITHOUT_VALUE:
        return f"{name} takes no values: write it alone"
    if name in _ONE_VALUE and len(values) > 1:
        return f"{name} takes one value, not {len(values)}: {', '.join(values)}"
    if name in CPU_SETTINGS:
        return _cpu_list_error(name, values)
    value = values[0]
    if name in _CHOICES and value not in _CHOICES[name]:
        return value_not_allowed(name, value, _CHOICES[name])
    if name == "swappiness" and not _is_number(value, _MAX_SWAPPINESS):
        return value_not_allowed(name, value, (f"whole numbers from 0 to {_MAX_SWAPPINESS}",))
    return ""


def value_not_allowed(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return the message for a value that a setting does not accept."""
    return f"{name} cannot be {value!r}; allowed: {', '.join(allowed)}"


def _is_number(text: str, most: int) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) <= most


def _cpu_list_error(name: str, values: Sequence[str]) -> str:
    for value in values:
        try:
            parse_cpu_list(value)
        except ValueError:
            allowed = f"CPUs from 0 to {MAX_CPU}, as 2 or 2-5 or 2-5,7"
            return value_not_allowed(name, value, (allowed,))
    return ""


# -- Requests, changes, and their results ----------------------------------------------
#
# Purpose: plain data between the log of a transaction, the settings and the reports. A
# value is always text, as the kernel or a service manager reports it: what is read back
# can then be compared with what was written, whatever the setting is.
# Source: Auto-pilot paper, section 3.5 (what noservices.sh does).

SETTINGS: dict[str, str] = {
    "nologin": "only root may log in",
    "services": "timers, mail, printing, indexing and other services are stopped",
    "swap": "no swap device is used",
    "dirty": "unwritten data are written to the disks, once",
    "smt": "the second thread of each core is off",
    "turbo": "no frequency above the nominal one",
    "governor": "the frequency governor of every CPU is `performance`",
    "aslr": "addresses are not randomised",
    "thp": "transparent huge pages are `never` used",
    "nmi-watchdog": "the hard-lockup detector is off",
    "swappiness": "vm.swappiness is 1",
    "irq-affinity": "interrupts go to CPUs other than the benchmark's",
    "isolation": "all other processes run on CPUs other than the benchmark's",
    "caches": "page cache, dentries and inodes are dropped, once",
}
"""Every setting, in the order of applying; restored in the reverse order."""

ALL_SETTINGS = "all"
_PATHS = ("proc/", "sys/", "run/", "etc/")
_WORD = re.compile(r"([a-z-]+)(?:=(.*))?\Z", re.DOTALL)


class RequestedSetting(msgspec.Struct, frozen=True):
    """One requested setting, with the user's values if there are any."""

    name: str
    values: tuple[str, ...] = ()
    """`cron,atd` of `services=cron,atd`; `2-5` of `isolation=2-5`."""


class QuietSettings(msgspec.Struct, frozen=True):
    """The request of a suite or a command line."""

    wishes: tuple[RequestedSetting, ...]
    require: bool = False
    """Whether an unavailable setting is an error, before anything is changed or run."""
    places: tuple[Diagnostic, ...] = ()
    """Where each wish is written, still without a message: for a value that the machine
    does not take."""


class SettingChange(msgspec.Struct, frozen=True):
    """One change: durable in the log before it is made."""

    setting: str
    item: str
    """What of the setting: a file, a unit, a process, a device."""
    old: str
    new: str
    action: bool = False
    """Done once, with nothing to restore (dropping caches)."""
    keep: bool = False
    """Not changed by us, but by a side effect of a later change: put back if so."""

    @property
    def place(self) -> str:
        """The item for a person: a path from the root, if it is one."""
        return f"/{self.item}" if self.item.startswith(_PATHS) else self.item


class UnavailableSetting(msgspec.Struct, frozen=True):
    """Something that is unavailable, and the reason, in words for a person."""

    setting: str
    why: str


class AppliedChange(msgspec.Struct, frozen=True):
    """A change that was made, and what was read back after it."""

    change: SettingChange
    value: str
    """As the system reports it now; it can differ from the requested value (affinities)."""
    note: str = ""


class QuietResult(msgspec.Struct, frozen=True):
    """The result of quieting the machine."""

    done: tuple[AppliedChange, ...] = ()
    lacking: tuple[UnavailableSetting, ...] = ()
    already: tuple[str, ...] = ()
    """Settings in which there was nothing to change."""


WRITTEN, AS_BEFORE, GONE, FOREIGN, FAILED = ("written", "as-before", "gone", "foreign", "failed")
"""How a change was undone: the old value was written; it was there already; the thing
itself is gone; another program changed it and it is left; it could not be."""


class RevertedChange(msgspec.Struct, frozen=True):
    """Result of restoring one change."""

    change: SettingChange
    how: str
    value: str = ""
    """What is there now."""
    why: str = ""
    lost: bool = False
    """It had been made, and was taken back by another program before it was undone."""


class QuietOwner(msgspec.Struct, frozen=True):
    """Owner of a transaction: a process, identified by its id and start time."""

    pid: int
    """0: no owner; it holds until a user restores it."""
    start: int
    """Field 22 of /proc/PID/stat [clock ticks since boot]."""
    boot_id: str
    session: str = ""
    """BW_SESSION of the session that it belongs to."""


class RestoreResult(msgspec.Struct, frozen=True):
    """The result of restoring a whole transaction."""

    owner: QuietOwner
    undone: tuple[RevertedChange, ...] = ()
    rebooted: bool = False
    log: str = ""
    """How the log was lost meanwhile, or why it is still there; mostly empty."""
    place: str = ""
    """The file of the log that listed the changes."""

    @property
    def failed(self) -> tuple[RevertedChange, ...]:
        """Changes that could not be restored and are still in the log."""
        return tuple(change for change in self.undone if change.how == FAILED)

    @property
    def lost(self) -> tuple[RevertedChange, ...]:
        """Changes that another program reverted before the end."""
        return tuple(change for change in self.undone if change.lost)

    @property
    def foreign(self) -> tuple[RevertedChange, ...]:
        """Values that another program had changed meanwhile, and that were left."""
        return tuple(change for change in self.undone if change.how == FOREIGN)


def parse_settings(words: Sequence[str]) -> tuple[RequestedSetting, ...]:
    """Return the wishes that words stand for, in the order of applying.

    A word is a setting's name, `NAME=VALUE[,VALUE]`, or `all`; a later word for the same
    setting wins. Raises ValueError with what is wrong and what there is, for the first
    word that is wrong.
    """
    wanted: dict[str, RequestedSetting] = {}
    for word in words:
        if word == ALL_SETTINGS:
            wanted = {setting: RequestedSetting(setting) for setting in SETTINGS} | wanted
        else:
            wish = _parse_setting(word)
            wanted[wish.name] = wish
    return tuple(wanted[name] for name in SETTINGS if name in wanted)


def setting_errors(words: Sequence[str]) -> dict[int, str]:
    """Return what is wrong with each word that is no wish, by its index."""
    found = {}
    for index, word in enumerate(words):
        try:
            parse_settings([word])
        except ValueError as error:
            found[index] = str(error)
    return found


def quiet_settings(
    words: Sequence[str], places: Sequence[Diagnostic], *, require: bool
) -> QuietSettings:
    """Return what words without a mistake ask for; `places` are theirs, one for each."""
    settings = parse_settings(words)
    at = tuple(places[_setting_index(words, wish.name)] for wish in settings)
    return QuietSettings(settings, require, at)


def _parse_setting(word: str) -> RequestedSetting:
    match = _WORD.match(word)
    name, values = (match[1], match[2]) if match else (word, None)
    if name == ALL_SETTINGS:
        raise ValueError(f"{ALL_SETTINGS} takes no values: write it alone")
    if name not in SETTINGS:
        known = f"known: {', '.join((*SETTINGS, ALL_SETTINGS))}"
        hint = f"{suggestion(name, SETTINGS)} {known}".lstrip()
        raise ValueError(f"there is no setting {name!r}; {hint}")
    given = tuple(one for one in (values or "").split(",") if one)
    if values is not None and not given:
        raise ValueError(f"{word!r} has no value: write {name} alone, or give it one")
    if given and (wrong := setting_value_error(name, given)):
        raise ValueError(wrong)
    return RequestedSetting(name, given)


def _setting_index(words: Sequence[str], name: str) -> int:
    """Return the index of the word that requested a setting."""
    named = [i for i, word in enumerate(words) if word.partition("=")[0] == name]
    return named[-1] if named else words.index(ALL_SETTINGS)
