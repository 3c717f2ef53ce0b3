"""Which mounts there are, and which of them can be unmounted and mounted again.

Purpose: the pure part of the method remount. Decision: only what a device or a server
keeps is unmounted (a tmpfs would be lost), and only if nothing else of the machine shows
the same file system: its cache lives as long as its last mount. `mount -o remount` only
changes options and empties nothing. Source: proc_pid_mountinfo(5), mount(8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from benchwright.model.errors import BenchError

_ESCAPED = re.compile(r"\\([0-7]{3})")
_KEPT_ELSEWHERE = ("nfs", "nfs4", "cifs", "ceph", "9p", "virtiofs")
"""Types without a device below /dev whose data a server keeps."""
_NOT_GIVEN = frozenset({"seclabel"})
"""Told by the kernel, and refused by mount."""


class Mount(msgspec.Struct, frozen=True):
    """One line of mountinfo."""

    device: str
    """Major and minor number, `7:0`."""
    root: str
    """What of the file system is shown: `/`, or a directory of a bind mount."""
    target: str
    options: tuple[str, ...]
    """Of this mount: `rw`, `nosuid`."""
    fs_type: str
    source: str
    super_options: tuple[str, ...]
    """Of the file system: `errors=remount-ro`."""

    def command(self) -> list[str]:
        """Return the command that mounts it again as it is."""
        return [
            *("mount", "-t", self.fs_type, "-o", ",".join(self._all_options())),
            *("--", self.source, self.target),
        ]

    def _all_options(self) -> list[str]:
        given = {*self.options, *self.super_options} - _NOT_GIVEN
        if "ro" in given:
            given.discard("rw")
        order = dict.fromkeys((*self.options, *self.super_options))
        return [option for option in order if option in given]


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts of /proc/PID/mountinfo, in its order."""
    return [_parsed(line) for line in text.splitlines()]


def _parsed(line: str) -> Mount:
    ours, _, theirs = line.partition(" - ")
    fields, others = ours.split(" "), theirs.split(" ")
    return Mount(
        device=fields[2],
        root=_plain(fields[3]),
        target=_plain(fields[4]),
        options=tuple(fields[5].split(",")),
        fs_type=others[0],
        source=_plain(others[1]),
        super_options=tuple(others[2].split(",")) if len(others) > 2 else (),
    )


def _plain(text: str) -> str:
    """Return a field without its escapes: `\\040` is a blank."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def remountable(mounts: Sequence[Mount], target: str) -> Mount:
    """Return the mount at `target`, if it can be unmounted and mounted as it was.

    Raises BenchError `chill-no-mount` or `chill-not-remountable`.
    """
    here = [mount for mount in mounts if mount.target == target]
    if not here:
        raise BenchError(
            "chill-no-mount",
            f"nothing is mounted at {target}",
            "give the directory that a file system is mounted at (findmnt)",
        )
    mount = here[-1]
    reason = _reason_against(mount, mounts, len(here))
    if reason:
        raise BenchError(
            "chill-not-remountable",
            f"{target} is not unmounted: {reason}",
            "use --method drop-caches or chill, or another file system",
        )
    return mount


def _reason_against(mount: Mount, mounts: Sequence[Mount], layers: int) -> str:
    others = [m for m in mounts if m.device == mount.device and m is not mount]
    below = [m for m in mounts if m.target.startswith(mount.target.rstrip("/") + "/")]
    if mount.target == "/":
        return "the machine runs from it"
    if layers > 1:
        return f"{layers} file systems are mounted there, one over the other"
    if below:
        return f"{below[0].target} is mounted below it"
    if others:
        return f"the same file system is also at {others[0].target}, and stays cached"
    if mount.root != "/" and mount.fs_type != "btrfs":
        return f"it shows only {mount.root} of its file system (a bind mount)"
    kept = mount.source.startswith("/dev/") or mount.fs_type in _KEPT_ELSEWHERE
    if not kept or mount.fs_type.startswith("fuse"):
        return f"a {mount.fs_type} from {mount.source} could not be mounted as it was"
    return ""
