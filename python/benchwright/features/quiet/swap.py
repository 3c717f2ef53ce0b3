"""Switches swap devices off, and on again with their priorities and options.

Decision: run the system's `swapon` and `swapoff`, which handle labels, files and options.
Devices are switched off from the lowest priority up. The kernel assigns negative priorities
downwards in the order of swapon, so the reverse order restores each device's priority.
Source: swapon(8), proc(5) on /proc/swaps.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec

from benchwright.features.quiet.host import (
    Host,
    SettingPlan,
    SettingRefused,
    check_item,
    unavailable,
    unknown_item,
)
from benchwright.features.quiet.types import RequestedSetting, SettingChange

_OFF = "off"
_ABSOLUTE = re.compile(r"/.+", re.DOTALL)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MARKS = (b"SWAPSPACE2", b"SWAP-SPACE")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_DISCARD = re.compile(r"discard(?:=\w+)?\Z")


class SwapDevice(msgspec.Struct, frozen=True):
    """One line of /proc/swaps."""

    path: str
    used_kib: int
    priority: int


class Swap:
    """All swap devices and files."""

    name = "swap"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return one change for each device, lowest priority first."""
        swap_devices = devices(host)
        why = _no_swap(host, wish, swap_devices)
        if wish.values:
            swap_devices = [d for d in swap_devices if any(means(host, v, d) for v in wish.values)]
        if not swap_devices:
            return SettingPlan((), why)
        if not host.superuser:
            return unavailable("swap may not be switched off: run as root")
        used = sum(swap_device.used_kib for swap_device in swap_devices)
        free = _available_kib(host)
        if free is not None and used > free * 0.9:
            return unavailable(f"{used} KiB are swapped out and {free} KiB of memory free")
        if not host.has_program("swapoff"):
            return unavailable("the program swapoff is not installed (package mount or util-linux)")
        swap_devices.sort(key=lambda device: device.priority)
        steps = (SettingChange(self.name, d.path, _state(d), _OFF) for d in swap_devices)
        return SettingPlan(tuple(steps), why)

    def now(self, host: Host) -> str:
        """Return the devices."""
        swap_devices = devices(host)
        return ", ".join(f"{d.path} {_state(d)}" for d in swap_devices) or "no swap device"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for an item that is neither a swap device nor a swap area.

        A device that no longer exists is accepted: reading it finds nothing to restore.
        """
        path = host.root / change.item.lstrip("/")
        if any(device.path == change.item for device in devices(host)):
            return
        check_item(change, _ABSOLUTE)
        if path.exists() and not _is_area(path):
            raise unknown_item(change)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return `on, priority N` or `off`; None if the device no longer exists."""
        for device in devices(host):
            if device.path == change.item:
                return _state(device)
        return _OFF if (host.root / change.item.lstrip("/")).exists() else None

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Switch a device off, or on with its priority and the options of fstab."""
        if value == _OFF:
            argv = ("swapoff", change.item)
        else:
            priority = int(value.rsplit(" ", 1)[1])
            # A negative priority cannot be requested: the kernel assigns it.
            wanted = ("-p", str(priority)) if priority >= 0 else ()
            argv = ("swapon", *_options(host, change.item), *wanted, change.item)
        ran = host.run(argv)
        if ran.status != 0:
            raise SettingRefused(f"{argv[0]} {change.item}: {ran.output or ran.status}")
        return ""


def devices(host: Host) -> list[SwapDevice]:
    """Return the active swap devices and files."""
    lines = (host.read(host.proc / "swaps") or "").splitlines()[1:]
    rows = (line.split() for line in lines)
    return [
        SwapDevice(_ESCAPE.sub(lambda m: chr(int(m[1], 8)), r[0]), int(r[3]), int(r[4]))
        for r in rows
        if len(r) >= 5
    ]


def means(host: Host, value: str, device: SwapDevice) -> bool:
    """Return whether a user's value, a path or a label, refers to a device."""
    if "\0" in value:
        return False
    return value == device.path or host.same_device(value, device.path)


def _no_swap(host: Host, wish: RequestedSetting, swap_devices: list[SwapDevice]) -> tuple[str, ...]:
    """Return why values match no swap device; a device that is already off is no problem."""
    strange = (
        value
        for value in wish.values
        if not any(means(host, value, device) for device in swap_devices)
        and not _is_area(host.root / value.lstrip("/"))
    )
    return tuple(f"{value} is not a swap device, or not readable" for value in strange)


def _is_area(path: Path) -> bool:
    """Return whether a device or file has mkswap's signature at the end of its first page."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISBLK(mode) and not stat.S_ISREG(mode):
            return False
        with path.open("rb") as file:
            first = file.read(_PAGE)
    except OSError:
        return False
    return len(first) == _PAGE and first.endswith(_MARKS)


def _state(device: SwapDevice) -> str:
    return f"on, priority {device.priority}"


def _options(host: Host, path: str) -> tuple[str, ...]:
    """Return swapon's discard option if fstab has one for this device."""
    for line in (host.read(host.root / "etc/fstab") or "").splitlines():
        fields = line.split()
        if len(fields) < 4 or line.startswith("#") or fields[2] != "swap":
            continue
        if not host.same_device(fields[0], path):
            continue
        for option in fields[3].split(","):
            if _DISCARD.match(option):
                return (f"--{option}",)
    return ()


def _available_kib(host: Host) -> int | None:
    text = host.read(host.proc / "meminfo") or ""
    match = re.search(r"^MemAvailable:\s+(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else None
