"""Interrupts, away from the benchmark's processors.

Some interrupts belong to one processor and refuse (EIO); they are told, with what the
kernel says is in effect. Source: kernel documentation, core-api/irq/irq-affinity.rst.
"""

# A setting fills a slot: it is given what any setting might want to know.
# ruff: noqa: ARG002

from __future__ import annotations

import re

from benchwright.machine.quiet import cpus
from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.setting import Plan, check_item, lacking
from benchwright.model.quiet import Change, Wish

_LIST = "smp_affinity_list"
INTERRUPTS = rf"proc/irq/\d+/{_LIST}"
"""The files of interrupts' affinities, as a regular expression."""
_ITEMS = re.compile(INTERRUPTS)


class IrqAffinity:
    """/proc/irq/N/smp_affinity_list, and the default of interrupts to come."""

    name = "irq-affinity"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return a change for each interrupt that may reach the benchmark's processors."""
        bench, others = cpus.split(host, wish.values)
        files = host.glob(f"proc/irq/*/{_LIST}")
        if not files:
            return lacking("/proc/irq has no interrupts with an affinity")
        changes, forbidden = [], 0
        for path in files:
            old = host.read(path) or ""
            now = cpus.parse(old)
            if not now & bench:
                continue
            if not host.writable(path):
                forbidden += 1
                continue
            new = cpus.render(now & others or others)
            changes.append(
                Change(self.name, str(path.relative_to(host.root)), old, new)
            )
        why = f"{forbidden} of {len(files)} interrupts may not be moved: run as root"
        return Plan(tuple(changes), (why,) if forbidden else ())

    def now(self, host: Host) -> str:
        """Return how many interrupts go where."""
        files = host.glob(f"proc/irq/*/{_LIST}")
        counts: dict[str, int] = {}
        for path in files:
            value = host.read(path) or "none"
            counts[value] = counts.get(value, 0) + 1
        told = (f"{n} on {where}" for where, n in sorted(counts.items()))
        return ", ".join(told) or "none are told"

    def check(self, host: Host, change: Change) -> None:
        """Refuse what is no interrupt's affinity."""
        check_item(change, _ITEMS)

    def read(self, host: Host, change: Change) -> str | None:
        """Return the processors that an interrupt may reach."""
        return host.read(host.root / change.item)

    def write(self, host: Host, change: Change, value: str) -> str:
        """Set them; tell where it is still delivered to if that is elsewhere."""
        path = host.root / change.item
        try:
            host.write(path, value)
        except Refused as refused:
            if host.read(path) is None:
                raise
            raise Refused(f"interrupt {path.parent.name} cannot be moved") from refused
        effective = host.read(path.with_name("effective_affinity_list"))
        if effective and not cpus.parse(effective) <= cpus.parse(value):
            # The kernel moves it at its next occurrence.
            return (
                f"interrupt {path.parent.name} is on {effective} until it next occurs"
            )
        return ""
