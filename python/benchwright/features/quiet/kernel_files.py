"""Settings that are files: kernel parameters in /proc/sys and /sys, caches, dirty pages,
nologin."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchwright.features.quiet.host import (
    Host,
    SettingPlan,
    SettingRefused,
    check_item,
    unavailable,
    unknown_item,
)
from benchwright.features.quiet.types import RequestedSetting, SettingChange

# -- Settings that are kernel files with one value each, in /proc/sys or /sys ----------
#
# Source: kernel documentation, admin-guide/sysctl/{kernel,vm}.rst, pm/cpufreq.rst,
# mm/transhuge.rst, cpu/hotplug.

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


_CPU = "sys/devices/system/cpu"
_CHOSEN = re.compile(r"\[([^\[\]]+)\]")
KernelFile = tuple[Path, str]
"""A file and the value to write to it."""


class KernelFiles:
    """A setting that consists of files with one value each."""

    def __init__(
        self,
        name: str,
        find: Callable[[Host, str], Sequence[KernelFile]],
        *,
        places: str,
        default: str,
        missing: str,
    ) -> None:
        """`places` is a regular expression: the files that `find` can return."""
        self.name = name
        self._find = find
        self._places = re.compile(places)
        self._default = default
        self._missing = missing

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return one change for each file with a different value."""
        targets = self._find(host, wish.values[0] if wish.values else self._default)
        if not targets:
            return unavailable(self._missing)
        changes, absent = [], []
        for path, value in targets:
            item = str(path.relative_to(host.root))
            old = _value(host, path)
            problem = _problem(host, path, value)
            if old == value or old is None:
                continue
            if problem:
                absent.append(problem)
            else:
                changes.append(SettingChange(self.name, item, old, value))
        return SettingPlan(tuple(changes), tuple(absent))

    def now(self, host: Host) -> str:
        """Return the value, or how many files have which value."""
        values = [_value(host, path) for path, _ in self._find(host, self._default)]
        told = list(dict.fromkeys(value for value in values if value is not None))
        return ", ".join(told) or self._missing

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for a file that does not belong to this setting."""
        check_item(change, self._places)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return the file's value."""
        return _value(host, host.root / change.item)

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Write the file."""
        host.write(host.root / change.item, value)
        return ""


def choices(host: Host, path: Path) -> list[str]:
    """Return the values that a file offers, if it marks the chosen one with brackets."""
    text = host.read(path) or ""
    plain = text.replace("[", "").replace("]", "")
    return plain.split() if _CHOSEN.search(text) else []


def governors(host: Host) -> list[Path]:
    """Return the governor file of each cpufreq policy."""
    return host.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


def available(governor: Path) -> Path:
    """Return the file that lists the available governors."""
    return governor.with_name("scaling_available_governors")


def huge_pages(host: Host) -> list[Path]:
    """Return those of the two files of transparent huge pages that exist."""
    place = host.sys / "kernel/mm/transparent_hugepage"
    return [path for path in (place / "enabled", place / "defrag") if path.exists()]


def _value(host: Host, path: Path) -> str | None:
    """Return a file's value: the word in brackets if it lists its choices."""
    text = host.read(path)
    if text is None:
        return None
    match = _CHOSEN.search(text)
    return match[1] if match else text.strip()


def _problem(host: Host, path: Path, value: str) -> str:
    """Return why a value cannot be written to a file, as far as that can be checked."""
    if not host.writable(path):
        return f"/{path.relative_to(host.root)} may not be written: run as root"
    offered = choices(host, path)
    if offered and value not in offered:
        return f"/{path.relative_to(host.root)} has no {value!r}, only {', '.join(offered)}"
    return ""


def _file(relative: str) -> Callable[[Host, str], Sequence[KernelFile]]:
    def find(host: Host, value: str) -> Sequence[KernelFile]:
        path = host.root / relative
        return [(path, value)] if path.exists() else []

    return find


def _governors(host: Host, value: str) -> Sequence[KernelFile]:
    paths = governors(host)
    for path in paths:
        known = host.read(available(path))
        if known is not None and value not in known.split():
            raise SettingRefused(f"{path.parent.name} has no governor {value!r}, only {known}")
    return [(path, value) for path in paths]


def _turbo(host: Host, value: str) -> Sequence[KernelFile]:
    """intel_pstate has `no_turbo`, the inverse of the `boost` file of other drivers."""
    cpu = host.sys / "devices/system/cpu"
    direct, inverted = {"off": ("0", "1"), "on": ("1", "0")}[value]
    if (cpu / "intel_pstate/no_turbo").exists():
        return [(cpu / "intel_pstate/no_turbo", inverted)]
    if (cpu / "cpufreq/boost").exists():
        return [(cpu / "cpufreq/boost", direct)]
    policies = host.glob("sys/devices/system/cpu/cpufreq/policy*/boost")
    return [(path, direct) for path in policies]


def _huge_pages(host: Host, value: str) -> Sequence[KernelFile]:
    return [(path, value) for path in huge_pages(host)]


KERNEL_FILES = (
    KernelFiles(
        "turbo",
        _turbo,
        places=rf"{_CPU}/(intel_pstate/no_turbo|cpufreq/(policy\d+/)?boost)",
        default="off",
        missing="not available here (usual on VMs)",
    ),
    KernelFiles(
        "governor",
        _governors,
        places=rf"{_CPU}/cpufreq/policy\d+/scaling_governor",
        default="performance",
        missing="no frequency governors here (usual on VMs)",
    ),
    KernelFiles(
        "aslr",
        _file("proc/sys/kernel/randomize_va_space"),
        places="proc/sys/kernel/randomize_va_space",
        default="0",
        missing="/proc/sys/kernel/randomize_va_space does not exist",
    ),
    KernelFiles(
        "thp",
        _huge_pages,
        places="sys/kernel/mm/transparent_hugepage/(enabled|defrag)",
        default="never",
        missing="this kernel has no transparent huge pages",
    ),
    KernelFiles(
        "nmi-watchdog",
        _file("proc/sys/kernel/nmi_watchdog"),
        places="proc/sys/kernel/nmi_watchdog",
        default="0",
        missing="this kernel has no such watchdog",
    ),
    KernelFiles(
        "swappiness",
        _file("proc/sys/vm/swappiness"),
        places="proc/sys/vm/swappiness",
        default="1",
        missing="/proc/sys/vm/swappiness does not exist",
    ),
)


# --------------------------------------------------------------------------------------
# Actions that leave nothing to restore: write dirty pages, drop caches.
#
# Source: kernel documentation, admin-guide/sysctl/vm.rst, drop_caches: dirty objects cannot
# be freed, so dirty pages are written first.

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


_ENOUGH_KIB = 1024
_TRIES = 100
_REST_S = 0.1
_DROP = "proc/sys/vm/drop_caches"
_CACHES_DROPPED = "done"


class Dirty:
    """Writes dirty pages until less than 1 MiB is left, for at most 10 s."""

    name = "dirty"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the one action."""
        return SettingPlan(
            (SettingChange(self.name, "writeback", "", _CACHES_DROPPED, action=True),)
        )

    def now(self, host: Host) -> str:
        """Return the amount of dirty memory."""
        return f"{_dirty_kib(host)} KiB are not yet written"

    def check(self, host: Host, change: SettingChange) -> None:
        """Accept every item: it is not used."""

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return `done` if little memory is dirty."""
        left = _dirty_kib(host)
        return _CACHES_DROPPED if left < _ENOUGH_KIB else f"{left} KiB are still not written"

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Write dirty pages; repeat while other programs make more."""
        for _ in range(_TRIES):
            host.sync()
            if _dirty_kib(host) < _ENOUGH_KIB:
                return ""
            host.rest(_REST_S)
        return "another program writes continuously"


class Caches:
    """Drops page cache, dentries and inodes of the whole machine."""

    name = "caches"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the one action."""
        if not host.writable(host.root / _DROP):
            return unavailable(f"/{_DROP} may not be written: run as root")
        return SettingPlan((SettingChange(self.name, _DROP, "", _CACHES_DROPPED, action=True),))

    def now(self, host: Host) -> str:
        """Return the size of the page cache."""
        return f"{_memory_kib(host, 'Cached')} KiB are cached"

    def check(self, host: Host, change: SettingChange) -> None:
        """Accept every item: it is not used."""

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return `done`: the kernel does not report whether caches were dropped."""
        return _CACHES_DROPPED

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Drop the caches."""
        host.sync()
        host.write(host.root / _DROP, "3")
        return ""


def _dirty_kib(host: Host) -> int:
    return _memory_kib(host, "Dirty") + _memory_kib(host, "Writeback")


def _memory_kib(host: Host, name: str) -> int:
    text = host.read(host.proc / "meminfo") or ""
    match = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    if match is None:
        raise SettingRefused(f"/proc/meminfo does not report {name}")
    return int(match[1])


# -- Only root may log in: login and sshd check for the file nologin(5) ----------------

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


_OURS = "A benchmark is running on this machine (bw quiet). Please come back later."
_ABSENT = "absent"


class Nologin:
    """Makes /run/nologin, or /etc/nologin without /run. An existing file is left."""

    name = "nologin"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return a change that makes the file."""
        if any(path.exists() for path in _places(host)):
            return SettingPlan()
        for path in _places(host):
            if path.parent.is_dir():
                item = str(path.relative_to(host.root))
                if not host.writable(path.parent):
                    return unavailable(f"/{item} may not be made: run as root")
                return SettingPlan((SettingChange(self.name, item, _ABSENT, _OURS),))
        return unavailable("there is neither /run nor /etc")

    def now(self, host: Host) -> str:
        """Return which file forbids logins, if any does."""
        places = [path for path in _places(host) if path.exists()]
        return f"forbidden by {places[0]}" if places else "allowed"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for an item that is not one of the two files."""
        if host.root / change.item not in _places(host):
            raise unknown_item(change)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return the file's text, or `absent`."""
        text = host.read(host.root / change.item)
        # Empty: we were killed after creating the file and before writing it.
        return _ABSENT if text is None else text or change.new

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Make the file, or remove it for the value `absent`."""
        path = host.root / change.item
        if value != _ABSENT:
            host.create(path, value)
        else:
            host.remove(path)
        return ""


def _places(host: Host) -> tuple[Path, Path]:
    return host.root / "run/nologin", host.root / "etc/nologin"
