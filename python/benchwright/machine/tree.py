"""The files of a machine, read as they are: text, or the reason why there is none.

Purpose: the one seam between a capture and the kernel; a test gives a made-up tree of
`/proc` and `/sys` as root. Decision: `os.open` and `os.read`, not `Path.read_text`: a
capture reads some hundred files at the start of every session. Absent is not zero: what
cannot be read is a fact with its reason.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchwright.model.machine import Fact, Weight

NOT_IN_FILE = "not in its file"
"""Why a fact is absent whose source was read and says nothing of it."""

_MOST_BYTES = 1 << 20
_REASONS = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file",
    errno.ENODEV: "no such device",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EINVAL: "the kernel does not tell",
    errno.EOPNOTSUPP: "the kernel does not tell",
}


class Told(NamedTuple):
    """What a source says: its text, trimmed, or why there is none."""

    text: str | None
    absent: str = ""


class Tree:
    """The file system below a root; paths are given as on the real machine."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def read(self, path: str, most: int = _MOST_BYTES) -> Told:
        """Return a file's text, at most that many bytes of it, or why it is absent."""
        try:
            return Told(_read(self.root + path, most).decode(errors="replace").strip())
        except OSError as error:
            return Told(None, reason_of(error))

    def text(self, path: str) -> str:
        """Return a file's text; empty where it cannot be read."""
        return self.read(path).text or ""

    def names(self, path: str) -> list[str]:
        """Return what is in a directory, numbers in their order; empty without one."""
        try:
            return sorted(os.listdir(self.root + path), key=_natural)
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file or directory."""
        return os.path.lexists(self.root + path)

    def target(self, path: str) -> str | None:
        """Return the last part of what a symbolic link names, or None."""
        try:
            return os.path.basename(os.readlink(self.root + path))
        except OSError:
            return None

    def fact(
        self,
        name: str,
        path: str,
        weight: Weight = Weight.SUSPICIOUS,
        change: Callable[[str], str] | None = None,
    ) -> Fact:
        """Return what one file says as a fact, its text changed where that is asked."""
        text, absent = self.read(path)
        if text is not None and change is not None:
            text = change(text)
        return Fact(name, text, path, absent, weight)

    def facts(self, rows: tuple[tuple[str, str, Weight], ...]) -> Iterator[Fact]:
        """Yield a fact for each (name, path, weight)."""
        for name, path, weight in rows:
            yield self.fact(name, path, weight)


def reason_of(error: OSError) -> str:
    """Return why something could not be read, in the words of all captures."""
    known = _REASONS.get(error.errno or 0)
    return known or (error.strerror or str(error)).lower()


def known(name: str, value: str, source: str, weight: Weight) -> Fact:
    """Return a fact that is there."""
    return Fact(name, value, source, "", weight)


def missing(name: str, source: str, reason: str, weight: Weight) -> Fact:
    """Return a fact that is not there, and why."""
    return Fact(name, None, source, reason, weight)


def _read(path: str, most: int) -> bytes:
    # O_NONBLOCK: a FIFO in the way must not hold a session up.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = []
        while most > 0 and (part := os.read(descriptor, most)):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _natural(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or -1), name
