"""A limit that was reached, and a capacity that a user states."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from benchwright.core.results import FindingFigures
from benchwright.findings.codes import stated_text


class LimitReached(msgspec.Struct, frozen=True):
    """A resource that was at its limit in a window."""

    code: str
    """One of LIMITER_CODES."""
    resource: str
    """Its name: `cpu`, `vda`, `eth0`, a cgroup's path, a program's name."""
    figures: FindingFigures
    """The observations, for the template of the code."""
    event: bool = False
    """Whether it was reached at one moment, so that it needs no share of the time."""

    @property
    def evidence(self) -> str:
        """The observations as a sentence."""
        return stated_text(self.code, self.figures)


class StatedCapacity(msgspec.Struct, frozen=True):
    """The capacity of a resource, as stated by the user or reported by the machine."""

    resource: str
    """An interface, a disk, disks joined by `+` (`sda+sdb`, an array or a controller), or any other
    name."""
    most: float
    """In `unit`."""
    unit: Literal["B/s", "1/s"] = "B/s"
    """Of bytes, or of requests to a disk, in both directions together (of a link, in each)."""

    def __post_init__(self) -> None:
        assert self.most > 0

    @property
    def disks(self) -> tuple[str, ...]:
        """The names that may be disks."""
        return tuple(self.resource.split("+"))


_RATE = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kKMGT]?)(i?)(bits?|bytes?|[bB])(?:/s|ps)\s*"
)
_REQUESTS = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:([kKMG])\s*)?(?:/s|IOPS|iops|IO/s)\s*"
)
_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}


def stated_rate(text: str) -> tuple[float, Literal["B/s", "1/s"]]:
    """Return a rate of bytes or of requests (`20k/s`, `3000 IOPS`) with its unit.

    Raises ValueError.
    """
    match = _REQUESTS.fullmatch(text)
    if match is None:
        return bytes_per_s(text), "B/s"
    number, prefix = match.groups()
    rate = float(number) * 1000.0 ** _POWERS[(prefix or "").replace("K", "k")]
    if not rate:
        raise ValueError(f"{text!r} is a limit of no requests")
    return rate, "1/s"


def bytes_per_s(text: str) -> float:
    """Return a rate such as `1Gbit/s`, `200MB/s` or `64KiB/s` in bytes a second.

    `b` and `bit` are bits, `B` and `byte` are bytes; an `i` means powers of 1024. Raises
    ValueError.
    """
    factor = unit_factor(text)
    if factor is None or not factor:
        raise ValueError(f"{text!r} is not a rate such as 1Gbit/s, 200MB/s or 3k/s")
    return factor


def unit_factor(text: str) -> float | None:
    """Return a rate in bytes per second; a unit alone, such as `MB/s`, means 1.

    None if the text is not a rate of bytes or bits.
    """
    match = _RATE.fullmatch(text if text[:1].isdigit() else f"1{text.strip()}")
    if match is None:
        return None
    number, prefix, binary, unit = match.groups()
    base = 1024 if binary else 1000
    power = _POWERS[prefix if prefix != "K" else "k"]
    bits = 8 if unit == "b" or unit.startswith("bit") else 1
    return float(number) * float(base**power) / bits
