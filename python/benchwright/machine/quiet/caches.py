"""What is done once and leaves nothing to put back: dirty pages written, caches dropped.

Source: kernel documentation, admin-guide/sysctl/vm.rst, drop_caches: dirty objects are
not freeable, so what is dirty is written first.
"""

# A setting fills a slot: it is given what any setting might want to know.
# ruff: noqa: ARG002

from __future__ import annotations

import re

from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.setting import Plan, lacking
from benchwright.model.quiet import Change, Wish

_ENOUGH_KIB = 1024
_TRIES = 100
_REST_S = 0.1
_DROP = "proc/sys/vm/drop_caches"
_DONE = "done"


class Dirty:
    """What is not yet written, written: until less than 1 MiB is left, for 10 s at most."""

    name = "dirty"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return the one action."""
        return Plan((Change(self.name, "writeback", "", _DONE, action=True),))

    def now(self, host: Host) -> str:
        """Return how much is dirty."""
        return f"{_dirty_kib(host)} KiB are not yet written"

    def check(self, host: Host, change: Change) -> None:
        """Refuse nothing: the item names no place."""

    def read(self, host: Host, change: Change) -> str | None:
        """Return `done` when little is dirty."""
        left = _dirty_kib(host)
        return _DONE if left < _ENOUGH_KIB else f"{left} KiB are still not written"

    def write(self, host: Host, change: Change, value: str) -> str:
        """Write it, and again as long as others make more."""
        for _ in range(_TRIES):
            host.sync()
            if _dirty_kib(host) < _ENOUGH_KIB:
                return ""
            host.rest(_REST_S)
        return "somebody writes all the time"


class Caches:
    """Page cache, dentries and inodes, dropped for the whole machine."""

    name = "caches"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return the one action."""
        if not host.writable(host.root / _DROP):
            return lacking(f"/{_DROP} may not be written: run as root")
        return Plan((Change(self.name, _DROP, "", _DONE, action=True),))

    def now(self, host: Host) -> str:
        """Return how much is cached."""
        return f"{_memory_kib(host, 'Cached')} KiB are cached"

    def check(self, host: Host, change: Change) -> None:
        """Refuse nothing: the item is not used."""

    def read(self, host: Host, change: Change) -> str | None:
        """Return `done`: nothing tells afterwards that it was."""
        return _DONE

    def write(self, host: Host, change: Change, value: str) -> str:
        """Drop them."""
        host.sync()
        host.write(host.root / _DROP, "3")
        return ""


def _dirty_kib(host: Host) -> int:
    return _memory_kib(host, "Dirty") + _memory_kib(host, "Writeback")


def _memory_kib(host: Host, name: str) -> int:
    text = host.read(host.proc / "meminfo") or ""
    match = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    if match is None:
        raise Refused(f"/proc/meminfo does not tell of {name}")
    return int(match[1])
