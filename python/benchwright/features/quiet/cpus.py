"""Settings of CPUs: the benchmark's CPUs, interrupt affinity, simultaneous multithreading."""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.core.quantity import cpu_list, parse_cpu_list
from benchwright.features.quiet.host import (
    Host,
    SettingPlan,
    SettingRefused,
    check_item,
    unavailable,
)
from benchwright.features.quiet.types import RequestedSetting, SettingChange

# -- The CPUs of this machine, and the benchmark's ----------------------------


def _cpus(text: str) -> set[int]:
    return set(parse_cpu_list(text))


def online(host: Host) -> set[int]:
    """Return the CPUs that are online; CPU 0 if that is not reported."""
    return _cpus(host.read(host.sys / "devices/system/cpu/online") or "0")


def possible(host: Host) -> set[int]:
    """Return the CPUs that can ever be online."""
    text = host.read(host.sys / "devices/system/cpu/possible")
    return _cpus(text) if text else online(host)


def second_threads(host: Host) -> set[int]:
    """Return the CPUs that go offline with SMT: all but the first of each core."""
    return {cpu for cpu in online(host) if cpu != min(siblings(host, cpu))}


def siblings(host: Host, cpu: int) -> set[int]:
    """Return the online CPUs of the core that a CPU belongs to."""
    topology = host.sys / f"devices/system/cpu/cpu{cpu}/topology"
    return _cpus(host.read(topology / "thread_siblings_list") or "") | {cpu}


def split(host: Host, values: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Return the benchmark's CPUs and the remaining ones.

    `values` lists the benchmark's CPUs; by default it gets all but the first core. Raises
    SettingRefused if one of the two sets is empty.
    """
    there = online(host)
    if values:
        bench = _cpus(",".join(values))
        if not bench <= there:
            missing = cpu_list(bench - there)
            raise SettingRefused(f"processor {missing} is not online ({cpu_list(there)} are)")
    else:
        bench = there - siblings(host, min(there))
    others = there - bench
    if not bench or not others:
        raise SettingRefused(
            f"needs two cores or more: the benchmark's CPUs would be "
            f"{cpu_list(bench) or 'none'}, the others' {cpu_list(others) or 'none'}"
        )
    return bench, others


# -- Interrupts are moved away from the benchmark's CPUs -------------------------------
#
# Some interrupts are bound to one CPU and cannot be moved (EIO); they are reported with the
# CPU that the kernel uses. Source: kernel documentation, core-api/irq/irq-affinity.rst.

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


_LIST = "smp_affinity_list"
INTERRUPTS = rf"proc/irq/\d+/{_LIST}"
"""A regular expression for the files with an interrupt's affinity."""
_ITEMS = re.compile(INTERRUPTS)


class IrqAffinity:
    """/proc/irq/N/smp_affinity_list, and the default for new interrupts."""

    name = "irq-affinity"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return a change for each interrupt that may reach the benchmark's CPUs."""
        bench, others = split(host, wish.values)
        files = host.glob(f"proc/irq/*/{_LIST}")
        if not files:
            return unavailable("/proc/irq has no interrupts with an affinity")
        changes, forbidden = [], 0
        for path in files:
            old = host.read(path) or ""
            now = _cpus(old)
            if not now & bench:
                continue
            if not host.writable(path):
                forbidden += 1
                continue
            new = cpu_list(now & others or others)
            changes.append(SettingChange(self.name, str(path.relative_to(host.root)), old, new))
        why = f"{forbidden} of {len(files)} interrupts may not be moved: run as root"
        return SettingPlan(tuple(changes), (why,) if forbidden else ())

    def now(self, host: Host) -> str:
        """Return how many interrupts go to which CPUs."""
        files = host.glob(f"proc/irq/*/{_LIST}")
        counts: dict[str, int] = {}
        for path in files:
            value = host.read(path) or "none"
            counts[value] = counts.get(value, 0) + 1
        told = (f"{n} on {where}" for where, n in sorted(counts.items()))
        return ", ".join(told) or "not reported"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for a file that is not an interrupt's affinity."""
        check_item(change, _ITEMS)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return the CPUs that an interrupt may reach."""
        return host.read(host.root / change.item)

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Set the CPUs; return a note if the kernel still delivers to another one."""
        path = host.root / change.item
        try:
            host.write(path, value)
        except SettingRefused as refused:
            if host.read(path) is None:
                raise
            raise SettingRefused(f"interrupt {path.parent.name} cannot be moved") from refused
        effective = host.read(path.with_name("effective_affinity_list"))
        if effective and not _cpus(effective) <= _cpus(value):
            # The kernel moves it at its next occurrence.
            return f"interrupt {path.parent.name} is on {effective} until it next occurs"
        return ""


# --------------------------------------------------------------------------------------
# Switches off the second threads of cores, and restores the files that this disturbs.
#
# The kernel removes a CPU that goes offline from every cpuset of version 1 and from all
# interrupt affinities, and does not add it again when it comes online. The log keeps the
# earlier values; they are restored afterwards. Source: kernel documentation, cpu/hotplug.

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


_CONTROL = "sys/devices/system/cpu/smt/control"


_smt_ITEMS = re.compile(
    rf"{_CONTROL}|{INTERRUPTS}|sys/fs/cgroup/cpuset/(.+/)?cpuset\.cpus", re.DOTALL
)


class Smt:
    """Simultaneous multithreading."""

    name = "smt"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the change of the switch, after the files that it will disturb."""
        path = host.root / _CONTROL
        state = host.read(path)
        if state is None:
            return unavailable("not reported by this kernel")
        if state in ("notsupported", "notimplemented"):
            return unavailable("the CPU has no second threads, or does not report them")
        if state != "on":
            return SettingPlan()
        if not host.writable(path):
            return unavailable(f"/{_CONTROL} may not be written: run as root")
        setting_changes = tuple(
            SettingChange(self.name, str(one.relative_to(host.root)), value, value, keep=True)
            for one in _disturbed(host)
            if (value := host.read(one)) and host.writable(one)
        )
        return SettingPlan((*setting_changes, SettingChange(self.name, _CONTROL, "on", "off")))

    def now(self, host: Host) -> str:
        """Return the state that the kernel reports."""
        return host.read(host.root / _CONTROL) or "not reported"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for a file that is neither the switch nor disturbed by it."""
        check_item(change, _smt_ITEMS)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return a file's value."""
        return host.read(host.root / change.item)

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Write a file."""
        host.write(host.root / change.item, value)
        return ""


def _disturbed(host: Host) -> list[Path]:
    """Return the files that lose a CPU when it goes offline; parent groups last.

    Restoring uses the reverse order, because a child's cpuset must be part of its parent's.
    """
    sets = host.glob("sys/fs/cgroup/cpuset/**/cpuset.cpus")
    groups = [p for p in sets if p.parent != host.sys / "fs/cgroup/cpuset"]
    groups.sort(key=lambda path: -len(path.parts))
    return [*host.glob("proc/irq/*/smp_affinity_list"), *groups]
