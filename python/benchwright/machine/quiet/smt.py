"""The second threads of cores, off; and what switching them off disturbs, put back.

A processor that goes offline is taken out of every cpuset of version 1 and of interrupts'
affinities, and does not return to them when it comes online: these are kept in the
log as they were, and put back after it. Source: kernel documentation, cpu/hotplug.
"""

# A setting fills a slot: it is given what any setting might want to know.
# ruff: noqa: ARG002

from __future__ import annotations

import re
from pathlib import Path

from benchwright.machine.quiet.host import Host
from benchwright.machine.quiet.interrupts import INTERRUPTS
from benchwright.machine.quiet.setting import Plan, check_item, lacking
from benchwright.model.quiet import Change, Wish

_CONTROL = "sys/devices/system/cpu/smt/control"


_ITEMS = re.compile(
    rf"{_CONTROL}|{INTERRUPTS}|sys/fs/cgroup/cpuset/(.+/)?cpuset\.cpus", re.DOTALL
)


class Smt:
    """Simultaneous multithreading."""

    name = "smt"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return the switch, after all that it will disturb."""
        path = host.root / _CONTROL
        state = host.read(path)
        if state is None:
            return lacking("this kernel does not tell of it")
        if state in ("notsupported", "notimplemented"):
            return lacking("the processor has no second threads, or does not show them")
        if state != "on":
            return Plan()
        if not host.writable(path):
            return lacking(f"/{_CONTROL} may not be written: run as root")
        kept = tuple(
            Change(self.name, str(one.relative_to(host.root)), value, value, keep=True)
            for one in _disturbed(host)
            if (value := host.read(one)) and host.writable(one)
        )
        return Plan((*kept, Change(self.name, _CONTROL, "on", "off")))

    def now(self, host: Host) -> str:
        """Return what the kernel says."""
        return host.read(host.root / _CONTROL) or "not told"

    def check(self, host: Host, change: Change) -> None:
        """Refuse what is neither the switch nor what it disturbs."""
        check_item(change, _ITEMS)

    def read(self, host: Host, change: Change) -> str | None:
        """Return a file's value."""
        return host.read(host.root / change.item)

    def write(self, host: Host, change: Change, value: str) -> str:
        """Write a file."""
        host.write(host.root / change.item, value)
        return ""


def _disturbed(host: Host) -> list[Path]:
    """Return the files that lose a processor which goes offline; parents last.

    They are put back in the reverse order: a child's cpuset is part of its parent's.
    """
    sets = host.glob("sys/fs/cgroup/cpuset/**/cpuset.cpus")
    groups = [p for p in sets if p.parent != host.sys / "fs/cgroup/cpuset"]
    groups.sort(key=lambda path: -len(path.parts))
    return [*host.glob("proc/irq/*/smp_affinity_list"), *groups]
