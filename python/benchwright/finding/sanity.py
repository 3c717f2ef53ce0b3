"""Whether a figure can be what it says: caches, known limits, sizes of I/O.

Purpose: the simple sums of methodology.txt 12.3.8, done for every result: what was asked
for by system calls against what devices moved, and what a figure implies against what a
link, a cgroup's limit or the user's own word allows.
Decision: links are taken for a figure's limit only where a good part of the figure was seen
on them, all of them and both directions together, if both were used; a local disk's rate
says nothing of an idle link. For a figure that was answered
by a cache as a whole, the user states the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.finding import thresholds as t
from benchwright.finding.limit import Capacity, unit_factor
from benchwright.finding.limiter_network import speed_of
from benchwright.finding.machine_words import (
    bytes_text,
    listed,
    rate_text,
    share_text,
)
from benchwright.finding.programs import is_storage, plain
from benchwright.model.plan import Pairs
from benchwright.model.quantity import parse_size_bytes
from benchwright.model.watched import NetworkUse, ResourceUse, TreeIo

SIZE_FACTORS = frozenset(
    (
        *("bs", "block", "block_size", "blocksize", "io_size", "iosize"),
        *("operation_size", "record_size", "recordsize"),
    )
)
"""Names of factors that say how large an operation is."""
_OPERATIONS = frozenset(
    (
        *("1/s", "op/s", "ops/s", "ops", "iops", "io/s", "ios/s", "tps"),
        *("req/s", "reqs/s", "requests/s", "1/second"),
    )
)
"""Units of a rate of operations, in lower case."""


_BONDS = ("bond", "team")


class Figure(msgspec.Struct, frozen=True):
    """A metric of a test as it is reported."""

    name: str
    value: float
    """The median over its trials, in `unit`."""
    unit: str = ""


class Claims(msgspec.Struct, frozen=True):
    """What the user says of a test beside its result."""

    capacities: tuple[Capacity, ...] = ()
    operation_bytes: float | None = None
    """How large an operation is said to be [bytes]."""


def with_sample(claims: Claims, sample: Pairs) -> Claims:
    """Return the claims with the size of an operation that a factor of the sample tells,
    `block_size=8k`, unless one was said."""
    if claims.operation_bytes is not None:
        return claims
    for factor, level in sample:
        if factor.lower() in SIZE_FACTORS:
            try:
                size = parse_size_bytes(level)
            except ValueError:
                continue
            if size > 0:
                return msgspec.structs.replace(claims, operation_bytes=float(size))
    return claims


def from_cache(use: ResourceUse) -> str:
    """Return in words that memory answered what was read or written; empty where not."""
    parts = []
    for io, whose in ((use.own_io, ""), (use.target_io, "the target: ")):
        if io is not None:
            parts += [f"{whose}{text}" for text in (_read(io, use), _written(io, use))]
    return "; ".join(part for part in parts if part and not part.endswith(": "))


def _read(io: TreeIo, use: ResourceUse) -> str:
    received = sum(n.receive_bytes_per_s for n in use.networks) * use.seconds
    asked = io.read_chars - received
    if asked < t.CACHED_BYTES or io.read_bytes >= t.FROM_DEVICE * asked:
        return ""
    if _copies_zeros(io, use):
        return ""
    return (
        f"{bytes_text(asked)} read by system calls, {bytes_text(io.read_bytes)} of it "
        f"came from a device ({share_text(io.read_bytes / asked)})"
    )


def _copies_zeros(io: TreeIo, use: ResourceUse) -> bool:
    """Tell whether dd writes all that it reads: most often from /dev/zero."""
    copies = any(plain(task.name) == "dd" for task in use.tasks)
    return copies and io.written_chars >= 0.9 * io.read_chars


def _written(io: TreeIo, use: ResourceUse) -> str:
    sent = sum(n.send_bytes_per_s for n in use.networks if n.name != "lo") * use.seconds
    # What went over a network may be a file's: NFS and CIFS have no device here.
    asked = io.write_bytes - sent
    if asked < t.CACHED_BYTES or any(what == "disk" for what, _ in use.absent):
        return ""
    moved = sum(disk.write_bytes_per_s for disk in use.disks) * use.seconds
    if moved >= t.FROM_DEVICE * asked:
        return ""
    return (
        f"{bytes_text(asked)} written to files, {bytes_text(moved)} had reached a device "
        f"when it ended ({share_text(moved / asked)})"
    )


def about_storage(use: ResourceUse) -> bool:
    """Tell whether a known benchmark of storage is among the busiest threads."""
    return any(is_storage(task.name) for task in use.tasks)


def implied(figure: Figure, claims: Claims) -> float | None:
    """Return the bandwidth that a figure is or implies [bytes/s]; None for another kind."""
    factor = unit_factor(figure.unit) if figure.unit else None
    if factor is not None:
        return figure.value * factor
    if figure.unit == "" and figure.name.endswith("bytes_per_s"):
        return figure.value
    if claims.operation_bytes is None or not _is_rate(figure):
        return None
    return figure.value * claims.operation_bytes


def _is_rate(figure: Figure) -> bool:
    if figure.unit:
        return figure.unit.lower() in _OPERATIONS
    return figure.name.lower() in _OPERATIONS or figure.name.endswith("_per_s")


def exceeded(figure: Figure, claims: Claims, uses: Sequence[ResourceUse]) -> str:
    """Return in words which known limit a figure exceeds; empty where none."""
    rate = implied(figure, claims)
    if rate is None or not rate > 0:
        return ""
    stated = [
        (one.bytes_per_s * _stated_ways(one, uses), f"{one.resource}, as stated")
        for one in claims.capacities
    ]
    limits = [*stated, *_detected(rate, claims, uses)]
    over = [(most, what) for most, what in limits if rate > t.EXCEEDS * most]
    if not over:
        return ""
    most, what = max(over)
    how = "is"
    if claims.operation_bytes is not None and not unit_factor(figure.unit or "-"):
        how = f"at {bytes_text(claims.operation_bytes)} each implies"
    return (
        f"{figure.name} {figure.value:.4g} {figure.unit} {how} {rate_text(rate)}, over "
        f"the {rate_text(most)} of {what}"
    )


def _stated_ways(one: Capacity, uses: Sequence[ResourceUse]) -> int:
    """Return how many directions of a stated link were used; 1 of anything else."""
    named = [n for use in uses for n in use.networks if n.name == one.resource]
    return max(map(_ways, named), default=1)


def _detected(
    rate: float, claims: Claims, uses: Sequence[ResourceUse]
) -> Iterator[tuple[float, str]]:
    """Yield the limits that the machine tells and that the figure has to do with."""
    for use in uses:
        yield from _links(rate, claims, use.networks)
        for group in use.cgroups:
            for limit in group.io_limits:
                both = (limit.read_bytes_per_s, limit.write_bytes_per_s)
                if all(both) and any(d.name == limit.name for d in use.disks):
                    yield (
                        sum(filter(None, both)),
                        f"cgroup {group.path} on {limit.name}",
                    )


def _links(
    rate: float, claims: Claims, networks: Sequence[NetworkUse]
) -> Iterator[tuple[float, str]]:
    """Yield what all links together can move that may have carried the figure.

    Nothing where an interface of no speed (loopback, a tunnel) may have carried it.
    """
    told = {n.name: speed_of(n, claims.capacities) for n in networks}
    if any(
        not told[n.name] and _moved(n) >= t.EXCEEDS_RELATED * rate for n in networks
    ):
        return
    links = _without_slaves([n for n in networks if told[n.name]])
    total = sum(map(_moved, links))
    used = [n for n in links if total and _moved(n) >= t.EXCEEDS_PATH * total]
    most = sum((told[n.name] or 0.0) * _ways(n) for n in used)
    if most and total >= t.EXCEEDS_RELATED * min(rate, most):
        both = " (both ways)" if any(_ways(n) > 1 for n in used) else ""
        link = "link" if len(used) == 1 else "links"
        yield most, f"{listed([n.name for n in used])}'s {link}{both}"


def _moved(network: NetworkUse) -> float:
    return network.receive_bytes_per_s + network.send_bytes_per_s


def _ways(network: NetworkUse) -> int:
    """Return 2 where both directions carried something, else 1."""
    ways = (network.receive_bytes_per_s, network.send_bytes_per_s)
    return 2 if min(ways) >= t.EXCEEDS_WAY * max(ways) > 0 else 1


def _without_slaves(links: Sequence[NetworkUse]) -> list[NetworkUse]:
    """Return links without those that a bond is made of: they moved what it moved."""
    bonds = [n for n in links if n.name.startswith(_BONDS)]
    rest = [n for n in links if n not in bonds]
    bonded, moved = sum(map(_moved, bonds)), sum(map(_moved, rest))
    return bonds if bonds and abs(moved - bonded) <= 0.1 * bonded else list(links)


def io_size(use: ResourceUse, claimed: float | None) -> str:
    """Return in words that I/O had another size than was said; empty where not."""
    io = use.own_io
    if claimed is None or io is None:
        return ""
    told = [
        (what, moved / calls)
        for what, moved, calls in (
            ("reads", io.read_chars, io.read_calls),
            ("writes", io.written_chars, io.write_calls),
        )
        if calls >= t.IO_SIZE_CALLS
        and moved >= 0.1 * (io.read_chars + io.written_chars)
    ]
    wrong = [(what, size) for what, size in told if not _near(size, claimed)]
    if not wrong:
        return ""
    called = " and ".join(f"{what} of {bytes_text(size)}" for what, size in wrong)
    return f"said to be {bytes_text(claimed)} each: {called} by system calls{_reached(use)}"


def _near(size: float, claimed: float) -> bool:
    return claimed / t.IO_SIZE_FACTOR <= size <= claimed * t.IO_SIZE_FACTOR


def _reached(use: ResourceUse) -> str:
    """Return the mean size of the requests of the busiest disk, in words."""
    disk = max(use.disks, key=lambda disk: disk.busy, default=None)
    if disk is None or not disk.reads_per_s + disk.writes_per_s:
        return ""
    moved = disk.read_bytes_per_s + disk.write_bytes_per_s
    size = moved / (disk.reads_per_s + disk.writes_per_s)
    return f", requests of {bytes_text(size)} to {disk.name}"
