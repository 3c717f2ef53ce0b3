"""Whether a figure is plausible: caches, known limits, sizes of I/O, the clock's resolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import cast

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import Pairs
from benchwright.core.quantity import parse_size_bytes
from benchwright.core.resource_use import NetworkUse, ResourceUse, TreeIo
from benchwright.core.results import Figure, FindingFigures, Value, states
from benchwright.core.text import list_text
from benchwright.findings import thresholds as t
from benchwright.findings.limit import StatedCapacity, unit_factor
from benchwright.findings.limiter_io import speed_of
from benchwright.findings.programs import is_storage, plain
from benchwright.stats.sample import resolution

# --------------------------------------------------------------------------------------
# Work that is too short: its start takes much of the time, or the clock is too
# coarse.
#
# Purpose: PostMark counts whole seconds, so a run of three seconds is known to 17 % and its rates
# are N/3 or N/4; /bin/true measures the start of a process. Decision: the resolution is inferred
# from the values themselves: they are so few and so far apart that a finer clock would not give
# them. Only times and rates depend on a clock. The values of a clock are whole numbers of its steps
# and some are neighbours, which the constants of two modes seldom are; a fraction of a second is a
# step only as large as ticks are, or as one digit (0.1 s). Of two random constants (10 ms to 3 s,
# written in steps of 1 us to 10 ms) 0.2 to 6 % look like a clock, of their rates 2 to 8 %; clocks
# of 4 ms to 1 s are recognised in over 95 % of tests (tests/unit/test_finding_resources.py).
# Source: Systems Performance, 12.3.8; PostMark 1.51.

_TIMES = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}


def mostly_start(trials: Sequence[Trial], elapsed: Sequence[float]) -> FindingFigures | None:
    """Return that starting the command takes much of its time; None if it does not.

    `elapsed` has the seconds of the trials that count; empty for trials that no launcher started.
    """
    if not elapsed or not any(trial.processes for trial in trials):
        return None
    middle = sorted(elapsed)[len(elapsed) // 2]
    share = t.START_S / max(middle, t.START_S)
    if share <= t.START_SHARE:
        return None
    taken = Figure(middle, "s")
    if share == 1:
        return states("hardly", elapsed=taken)
    return states("start", elapsed=taken, start=Figure(t.START_S, "s"), share=Figure(share, "%"))


def coarse_times(elapsed: Sequence[float], clock_s: float) -> FindingFigures | None:
    """Return that the step in which times are written [s] is a large share of the shortest of the
    trials that count; None if it is not."""
    shortest = min(elapsed, default=math.inf)
    if shortest * t.GRAIN > clock_s:
        return None
    return states("coarse", step=Figure(clock_s, "s"), shortest=Figure(shortest, "s"))


def grain_of(name: str, unit: str, values: Sequence[float]) -> FindingFigures | None:
    """Return that a time or a rate has large steps relative to its size; None if it has not."""
    kind = kind_of(name, unit)
    if not kind or len(values) < t.GRAIN_FEWEST or min(values) <= 0:
        return None
    distinct = sorted(set(values))
    if 2 * len(distinct) > len(values):
        return None
    scale = _TIMES.get(unit, 1.0)
    step = _step(values, distinct, scale) if kind == "time" else _rate_step(distinct)
    if step is None or step < t.GRAIN:
        return None
    return states(
        "grain", metric=name, values=len(distinct), trials=len(values), step=Figure(step, "%")
    )


def split_by_ticks(
    name: str, values: Sequence[float], other: Sequence[float]
) -> FindingFigures | None:
    """Return that the kernel divides CPU time by its ticks and a tick is a large share of a part,
    `user` or `system` [s]; None if it is not. `other` is the other part.

    Every process is in the kernel and out of it, so a part that is 0 was not measured but divided: all
    of its ticks fell into the other part. Source: cputime_adjust() of Linux.
    """
    lesser = min(values, other, key=sum)
    some = sorted(value for value in lesser if value > 0)
    if len(values) < t.GRAIN_FEWEST or not some or len(some) == len(lesser):
        return None
    single = [value for value in some if value < 1.5 * some[0]]
    step, middle = single[len(single) // 2], sorted(values)[len(values) // 2]
    if step <= t.GRAIN * middle:
        return None
    share = Figure(step / max(middle, step), "%")
    return states("split", metric=name, step=Figure(step, "s"), share=share)


def removed_work(name: str, unit: str, values: Sequence[float]) -> FindingFigures | None:
    """Return that a time is shorter than any work takes; None if it is not. A metric without a unit may
    name it: `step_ns`."""
    named = (unit or name.rpartition("_")[2]).removesuffix("/op")
    scale = {"ns": 1e-9, **_TIMES}.get(named, 0.0)
    if not scale or not values or min(values) < 0:
        return None
    middle_s = sorted(values)[len(values) // 2] * scale
    if not 0 < middle_s < t.LEAST_WORK_S:
        return None
    return states(metric=name, value=Figure(middle_s, "s"), cycles=t.LEAST_WORK_CYCLES)


def kind_of(name: str, unit: str) -> str:
    """Return `time`, `rate` or an empty text."""
    if unit in _TIMES:
        return "time"
    ends = ("_per_s", "/s", "_per_second", "tps", "iops")
    if unit.endswith(("/s", "/sec")) or (not unit and name.endswith(ends)):
        return "rate"
    return ""


def _step(values: Sequence[float], distinct: Sequence[float], unit_s: float) -> float | None:
    """Return the step of times as a share of the smallest: one unit if all are whole, else their
    resolution if a clock can have it. None for a single value that may be a requested length: one
    of more than two steps."""
    if len(distinct) == 1 and distinct[0] > 2:
        return None
    if all(value == int(value) for value in distinct):
        return 1 / distinct[0]
    # Of values that are written rounded the step is known to one last digit.
    digit = _last_digit(distinct)
    step = resolution(values, digit)
    if not step or not _is_clock_step(step * unit_s):
        return None
    # The values of a clock are multiples of its step, and not only their distances.
    error = digit / step
    is_clock = all(
        _is_nearly_whole(ticks, max(t.WHOLE_STEPS, ticks * error))
        for ticks in (value / step for value in distinct)
    )
    return step / distinct[0] if is_clock else None


def _last_digit(values: Sequence[float]) -> float:
    """Return the size of the last decimal that any of the values has."""
    exponents = (Decimal(repr(value)).as_tuple().exponent for value in values)
    return 10.0 ** min(cast("int", exponent) for exponent in exponents)


def _is_clock_step(step_s: float) -> bool:
    """Return whether a clock, or the digits of a tool, can have this step [s]: a tick of the system
    or a power of ten."""
    return step_s <= t.LONGEST_TICK_S or _is_nearly_whole(math.log10(step_s))


def _is_nearly_whole(value: float, tolerance: float = t.WHOLE_STEPS) -> bool:
    return abs(value - round(value)) <= tolerance


def _rate_step(distinct: Sequence[float]) -> float | None:
    """Return the step of rates that are a count over whole units of time; None if they are not.

    With times of k, k+1, ... units the ratios of the rates are 1/k : 1/(k+1) : ...
    """
    if len(distinct) < 2:
        return None
    highest = distinct[-1]
    for units in range(1, math.floor(1 / t.GRAIN) + 1):
        ratios = [units * highest / value for value in distinct]
        if all(map(_is_nearly_whole, ratios)):
            ticks = sorted(map(round, ratios))
            is_clock = any(high - low == 1 for low, high in pairwise(ticks))
            return 1 / units if is_clock else None
    return None


# -- Whether a figure is plausible: caches, known limits, sizes of I/O ----------
#
# Purpose: the simple checks of Systems Performance, 12.3.8, for every result: what system calls
# requested against what devices moved, and what a figure implies against what a link, a
# cgroup's limit or a stated capacity allows.
# Decision: links limit a figure only if a good part of the figure was observed on them (on all
# of them together, and in both directions if both were used); a local disk's rate is unrelated
# to an idle link. For a figure that a cache answered entirely, the user states the limit.

SIZE_FACTORS = frozenset(
    (
        *("bs", "block", "block_size", "blocksize", "io_size", "iosize"),
        *("operation_size", "record_size", "recordsize"),
    )
)
"""Names of factors whose levels are sizes of an operation."""
_OPERATIONS = frozenset(
    (
        *("1/s", "op/s", "ops/s", "ops", "iops", "io/s", "ios/s", "tps"),
        *("req/s", "reqs/s", "requests/s", "1/second"),
    )
)
"""Units of a rate of operations, in lower case."""


_BONDS = ("bond", "team")


class ReportedMetric(msgspec.Struct, frozen=True):
    """A reported metric of a test."""

    name: str
    value: float
    """The median over its trials, in `unit`."""
    unit: str = ""


class Claims(msgspec.Struct, frozen=True):
    """The user's statements about a test."""

    capacities: tuple[StatedCapacity, ...] = ()
    operation_bytes: float | None = None
    """The stated size of an operation [bytes]."""


def with_sample(claims: Claims, sample: Pairs) -> Claims:
    """Return the claims with the size of an operation from a factor of the sample, such as
    `block_size=8k`, unless one was stated."""
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


def from_cache(use: ResourceUse) -> FindingFigures | None:
    """Return that memory answered reads or writes; None if it did not. Of several trials, amounts
    are per trial."""
    found: dict[str, Value] = {}
    trials = use.epochs[1] - use.epochs[0] + 1
    for io, whose in ((use.own_io, ""), (use.target_io, "target_")):
        if io is not None:
            if (reads := _read(io, use)) is not None:
                asked, moved = reads
                found[f"{whose}read"] = Figure(asked / trials, "B")
                found[f"{whose}from_device"] = Figure(moved / trials, "B")
                found[f"{whose}read_share"] = Figure(moved / asked, "%")
            if (writes := _written(io, use)) is not None:
                asked, moved = writes
                found[f"{whose}written"] = Figure(asked / trials, "B")
                found[f"{whose}to_device"] = Figure(moved / trials, "B")
                found[f"{whose}written_share"] = Figure(moved / asked, "%")
    return states(per=" per trial" if trials > 1 else None, **found) if found else None


def _read(io: TreeIo, use: ResourceUse) -> tuple[float, float] | None:
    """Return the bytes that were read, and those of them that a device supplied; None if memory did
    not answer."""
    received = sum(n.receive_bytes_per_s for n in use.networks) * use.seconds
    asked = io.read_chars - received
    if asked < t.CACHED_BYTES or io.read_bytes >= t.FROM_DEVICE * asked:
        return None
    return None if _copies_zeros(io, use) else (asked, io.read_bytes)


def _copies_zeros(io: TreeIo, use: ResourceUse) -> bool:
    """Return whether dd writes everything that it reads, most often from /dev/zero."""
    copies = any(plain(task.name) == "dd" for task in use.tasks)
    return copies and io.written_chars >= 0.9 * io.read_chars


def _written(io: TreeIo, use: ResourceUse) -> tuple[float, float] | None:
    """Return the bytes that were written, and those of them that reached a device; None if memory
    did not take them."""
    sent = sum(n.send_bytes_per_s for n in use.networks if n.name != "lo") * use.seconds
    # Bytes on a network may belong to files: NFS and CIFS have no device here.
    asked = io.write_bytes - sent
    if asked < t.CACHED_BYTES or any(what == "disk" for what, _ in use.absent):
        return None
    moved = sum(disk.write_bytes_per_s for disk in use.disks) * use.seconds
    return None if moved >= t.FROM_DEVICE * asked else (asked, moved)


def about_storage(use: ResourceUse) -> bool:
    """Return whether a known benchmark of storage is among the busiest threads."""
    return any(is_storage(task.name) for task in use.tasks)


def implied(figure: ReportedMetric, claims: Claims) -> float | None:
    """Return the bandwidth that a figure is or implies [bytes/s]; None if it is neither."""
    factor = unit_factor(figure.unit) if figure.unit else None
    if factor is not None:
        return figure.value * factor
    if figure.unit == "" and figure.name.endswith("bytes_per_s"):
        return figure.value
    if claims.operation_bytes is None or not _is_rate(figure):
        return None
    return figure.value * claims.operation_bytes


def _is_rate(figure: ReportedMetric) -> bool:
    if figure.unit:
        return figure.unit.lower() in _OPERATIONS
    return figure.name.lower() in _OPERATIONS or figure.name.endswith("_per_s")


def exceeded(
    figure: ReportedMetric, claims: Claims, uses: Sequence[ResourceUse]
) -> FindingFigures | None:
    """Return the known limit that a figure exceeds; None if there is none."""
    rate = implied(figure, claims)
    if rate is None or not rate > 0:
        return None
    stated = [
        (capacity.most * _stated_ways(capacity, uses), f"{capacity.resource}, as stated")
        for capacity in claims.capacities
        if capacity.unit == "B/s"
    ]
    limits = [*stated, *_detected(rate, claims, uses)]
    over = [(most, what) for most, what in limits if rate > t.EXCEEDS * most]
    if not over:
        return None
    most, what = max(over)
    each = None
    if claims.operation_bytes is not None and not unit_factor(figure.unit or "-"):
        each = Figure(claims.operation_bytes, "B")
    return states(
        metric=figure.name,
        value=Figure(figure.value, figure.unit),
        each=each,
        how="is" if each is None else "implies",
        rate=Figure(rate, "B/s"),
        limit=Figure(most, "B/s"),
        what=what,
    )


def _stated_ways(stated_capacity: StatedCapacity, uses: Sequence[ResourceUse]) -> int:
    """Return how many directions of a stated link were used; 1 for any other resource."""
    named = [n for use in uses for n in use.networks if n.name == stated_capacity.resource]
    return max(map(_ways, named), default=1)


def _detected(
    rate: float, claims: Claims, uses: Sequence[ResourceUse]
) -> Iterator[tuple[float, str]]:
    """Yield the limits that the machine reports and that apply to the figure."""
    for use in uses:
        yield from _links(rate, claims, use.networks)
        for group in use.cgroups:
            for limit in group.io_limits:
                both = (limit.read_bytes_per_s, limit.write_bytes_per_s)
                if all(both) and any(d.name == limit.name for d in use.disks):
                    yield (sum(filter(None, both)), f"cgroup {group.path} on {limit.name}")


def _links(
    rate: float, claims: Claims, networks: Sequence[NetworkUse]
) -> Iterator[tuple[float, str]]:
    """Yield the joint capacity of the links that may have carried the figure, and a text.

    Nothing if an interface without a speed (loopback, a tunnel) may have carried it.
    """
    told = {n.name: speed_of(n, claims.capacities) for n in networks}
    if any(not told[n.name] and _moved(n) >= t.EXCEEDS_RELATED * rate for n in networks):
        return
    links = _without_slaves([n for n in networks if told[n.name]])
    total = sum(map(_moved, links))
    used = [n for n in links if total and _moved(n) >= t.EXCEEDS_PATH * total]
    most = sum((told[n.name] or 0.0) * _ways(n) for n in used)
    if most and total >= t.EXCEEDS_RELATED * min(rate, most):
        both = " (both ways)" if any(_ways(n) > 1 for n in used) else ""
        link = "link" if len(used) == 1 else "links"
        yield most, f"{list_text([n.name for n in used])}'s {link}{both}"


def _moved(network: NetworkUse) -> float:
    return network.receive_bytes_per_s + network.send_bytes_per_s


def _ways(network: NetworkUse) -> int:
    """Return 2 if both directions carried data, else 1."""
    ways = (network.receive_bytes_per_s, network.send_bytes_per_s)
    return 2 if min(ways) >= t.EXCEEDS_WAY * max(ways) > 0 else 1


def _without_slaves(links: Sequence[NetworkUse]) -> list[NetworkUse]:
    """Return the links without members of a bond, which moved the same data as the bond."""
    bonds = [n for n in links if n.name.startswith(_BONDS)]
    rest = [n for n in links if n not in bonds]
    bonded, moved = sum(map(_moved, bonds)), sum(map(_moved, rest))
    return bonds if bonds and abs(moved - bonded) <= 0.1 * bonded else list(links)


def io_size(use: ResourceUse, claimed: float | None) -> FindingFigures | None:
    """Return that I/O had another size than stated; None if it had the stated size."""
    io = use.own_io
    if claimed is None or io is None:
        return None
    each = [
        (what, moved / calls)
        for what, moved, calls in (
            ("reads", io.read_chars, io.read_calls),
            ("writes", io.written_chars, io.write_calls),
        )
        if calls >= t.IO_SIZE_CALLS and moved >= 0.1 * (io.read_chars + io.written_chars)
    ]
    wrong = {what: Figure(size, "B") for what, size in each if not _near(size, claimed)}
    if not wrong:
        return None
    return states(
        stated=Figure(claimed, "B"),
        **wrong,
        joined=" and " if len(wrong) > 1 else None,
        **_reached(use),
    )


def _near(size: float, claimed: float) -> bool:
    return claimed / t.IO_SIZE_FACTOR <= size <= claimed * t.IO_SIZE_FACTOR


def _reached(use: ResourceUse) -> dict[str, Value]:
    """Return the mean request size of the busiest disk; empty if none was used."""
    disk = max(use.disks, key=lambda disk: disk.busy, default=None)
    if disk is None or not disk.reads_per_s + disk.writes_per_s:
        return {}
    moved = disk.read_bytes_per_s + disk.write_bytes_per_s
    size = moved / (disk.reads_per_s + disk.writes_per_s)
    return {"requests": Figure(size, "B"), "disk": disk.name}
