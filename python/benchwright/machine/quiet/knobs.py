"""Settings that are files of the kernel: one value each, in /proc/sys or /sys.

Source: kernel documentation, admin-guide/sysctl/{kernel,vm}.rst, pm/cpufreq.rst,
mm/transhuge.rst, cpu/hotplug.
"""

# A setting fills a slot: it is given what any setting might want to know.
# ruff: noqa: ARG002

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.setting import Plan, check_item, lacking
from benchwright.model.quiet import Change, Wish

_CPU = "sys/devices/system/cpu"
_CHOSEN = re.compile(r"\[([^\]]+)\]")
Target = tuple[Path, str]
"""A file, and the value that it shall have."""


class Knobs:
    """A setting that is some files, each with one value."""

    def __init__(
        self,
        name: str,
        find: Callable[[Host, str], Sequence[Target]],
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

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return one change for each file that has another value."""
        targets = self._find(host, wish.values[0] if wish.values else self._default)
        if not targets:
            return lacking(self._missing)
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
                changes.append(Change(self.name, item, old, value))
        return Plan(tuple(changes), tuple(absent))

    def now(self, host: Host) -> str:
        """Return the value, or how many files have which."""
        values = [_value(host, path) for path, _ in self._find(host, self._default)]
        told = list(dict.fromkeys(value for value in values if value is not None))
        return ", ".join(told) or self._missing

    def check(self, host: Host, change: Change) -> None:
        """Refuse a file that is not this setting's."""
        check_item(change, self._places)

    def read(self, host: Host, change: Change) -> str | None:
        """Return the file's value."""
        return _value(host, host.root / change.item)

    def write(self, host: Host, change: Change, value: str) -> str:
        """Write the file."""
        host.write(host.root / change.item, value)
        return ""


def choices(host: Host, path: Path) -> list[str]:
    """Return the values that a file offers, the chosen one in brackets; else none."""
    text = host.read(path) or ""
    plain = text.replace("[", "").replace("]", "")
    return plain.split() if _CHOSEN.search(text) else []


def governors(host: Host) -> list[Path]:
    """Return the file of each set of processors that has a frequency governor."""
    return host.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


def available(governor: Path) -> Path:
    """Return the file that lists the governors that one can be."""
    return governor.with_name("scaling_available_governors")


def huge_pages(host: Host) -> list[Path]:
    """Return the two files of transparent huge pages, as far as they are there."""
    place = host.sys / "kernel/mm/transparent_hugepage"
    return [path for path in (place / "enabled", place / "defrag") if path.exists()]


def _value(host: Host, path: Path) -> str | None:
    """Return a file's value: the word in brackets where it lists its choices."""
    text = host.read(path)
    if text is None:
        return None
    match = _CHOSEN.search(text)
    return match[1] if match else text.strip()


def _problem(host: Host, path: Path, value: str) -> str:
    """Return why a file cannot get a value, as far as that is known before."""
    if not host.writable(path):
        return f"/{path.relative_to(host.root)} may not be written: run as root"
    offered = choices(host, path)
    if offered and value not in offered:
        return f"/{path.relative_to(host.root)} has no {value!r}, only {', '.join(offered)}"
    return ""


def _file(relative: str) -> Callable[[Host, str], Sequence[Target]]:
    def find(host: Host, value: str) -> Sequence[Target]:
        path = host.root / relative
        return [(path, value)] if path.exists() else []

    return find


def _governors(host: Host, value: str) -> Sequence[Target]:
    found = governors(host)
    for path in found:
        known = host.read(available(path))
        if known is not None and value not in known.split():
            raise Refused(f"{path.parent.name} has no governor {value!r}, only {known}")
    return [(path, value) for path in found]


def _turbo(host: Host, value: str) -> Sequence[Target]:
    """`no_turbo` of intel_pstate is the opposite of the `boost` of all others."""
    cpu = host.sys / "devices/system/cpu"
    direct, inverted = {"off": ("0", "1"), "on": ("1", "0")}[value]
    if (cpu / "intel_pstate/no_turbo").exists():
        return [(cpu / "intel_pstate/no_turbo", inverted)]
    if (cpu / "cpufreq/boost").exists():
        return [(cpu / "cpufreq/boost", direct)]
    policies = host.glob("sys/devices/system/cpu/cpufreq/policy*/boost")
    return [(path, direct) for path in policies]


def _huge_pages(host: Host, value: str) -> Sequence[Target]:
    return [(path, value) for path in huge_pages(host)]


KNOBS = (
    Knobs(
        "turbo",
        _turbo,
        places=rf"{_CPU}/(intel_pstate/no_turbo|cpufreq/(policy\d+/)?boost)",
        default="off",
        missing="not available here (usual on VMs)",
    ),
    Knobs(
        "governor",
        _governors,
        places=rf"{_CPU}/cpufreq/policy\d+/scaling_governor",
        default="performance",
        missing="no frequency governors here (usual on VMs)",
    ),
    Knobs(
        "aslr",
        _file("proc/sys/kernel/randomize_va_space"),
        places="proc/sys/kernel/randomize_va_space",
        default="0",
        missing="/proc/sys/kernel/randomize_va_space is not there",
    ),
    Knobs(
        "thp",
        _huge_pages,
        places="sys/kernel/mm/transparent_hugepage/(enabled|defrag)",
        default="never",
        missing="this kernel has no transparent huge pages",
    ),
    Knobs(
        "nmi-watchdog",
        _file("proc/sys/kernel/nmi_watchdog"),
        places="proc/sys/kernel/nmi_watchdog",
        default="0",
        missing="this kernel has no such watchdog",
    ),
    Knobs(
        "swappiness",
        _file("proc/sys/vm/swappiness"),
        places="proc/sys/vm/swappiness",
        default="1",
        missing="/proc/sys/vm/swappiness is not there",
    ),
)
