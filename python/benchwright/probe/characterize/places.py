"""What device numbers are: file systems by the mounts, disks and character devices by /sys.

Decision: mounts are read at the beginning and at the end, because a trial's own clean-up
unmounts what it used. Source: proc_pid_mountinfo(5), sysfs-dev-block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

SYS_DEVICES = Path("/sys/dev/block")
SYS_CHARACTER_DEVICES = Path("/sys/dev/char")
_PTS_MAJORS = range(136, 144)


class Mount(msgspec.Struct, frozen=True):
    """One mounted file system."""

    device: str
    type: str
    mount: str
    source: str


def mounts(mountinfo: Path) -> dict[str, Mount]:
    """Return the mounts by `MAJOR:MINOR`, the first of each; empty if it cannot be read."""
    try:
        text = mountinfo.read_text(errors="replace")
    except OSError:
        return {}
    return mounts_of(text)


def mounts_of(text: str) -> dict[str, Mount]:
    """Return the mounts in the text of a mountinfo, by `MAJOR:MINOR`."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        words = line.split()
        if "-" not in words[6:]:
            continue
        after = words.index("-", 6)
        if len(words) >= after + 3:
            one = Mount(
                words[2], words[after + 1], _plain(words[4]), _plain(words[after + 2])
            )
            found.setdefault(one.device, one)
    return found


def _plain(word: str) -> str:
    """Return a word of mountinfo without its escapes, `\\040` for a blank."""
    for escape, plain in (
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ):
        word = word.replace(escape, plain)
    return word


def disk_name(number: str, devices: Path = SYS_DEVICES) -> str | None:
    """Return the whole disk's name of a block device `MAJOR:MINOR`; None if there is none."""
    place = devices / number
    if number.startswith("0:") or not place.exists():
        return None
    real = place.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def disks_below(
    numbers: Iterable[str], mounted: dict[str, Mount], devices: Path = SYS_DEVICES
) -> list[str]:
    """Return the disks that file systems or devices lie on, in order of name.

    A file system without a number of its own (btrfs) is looked up by what was mounted.
    """
    found = set()
    for number in numbers:
        name = disk_name(number, devices)
        if name is None and number in mounted:
            name = _disk_of_source(mounted[number].source, devices)
        if name is not None:
            found.add(name)
    return sorted(found)


def _disk_of_source(source: str, devices: Path) -> str | None:
    if not source.startswith("/"):
        return None
    try:
        about = os.stat(source)
    except OSError:
        return None
    if not stat.S_ISBLK(about.st_mode):
        return None
    number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    return disk_name(number, devices)


def node_name(number: str, devices: Path = SYS_CHARACTER_DEVICES) -> str:
    """Return the path of a character device `MAJOR:MINOR`, `/dev/zero`; empty if unknown."""
    major, minor = map(int, number.split(":"))
    if major in _PTS_MAJORS:
        # /dev/pts is a file system of its own, of which /sys says nothing (pts(4)).
        return f"/dev/pts/{(major - _PTS_MAJORS[0]) * 256 + minor}"
    try:
        lines = (devices / number / "uevent").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    names = [line.removeprefix("DEVNAME=") for line in lines if "DEVNAME=" in line]
    return f"/dev/{names[0]}" if names else ""
