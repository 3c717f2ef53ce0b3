"""Memory, open files, cgroups, disks and networks in a window."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchwright.core.numeric import np
from benchwright.core.resource_use import (
    CgroupUse,
    DiskUse,
    FilesOpen,
    MemoryUse,
    NetworkUse,
    OwnLosses,
    SocketUse,
)
from benchwright.watch.use.columns import (
    SWAP_USED,
    Columns,
    CounterSums,
    Flags,
    FloatValues,
    Ints,
    SeriesSample,
    fitted,
)
from benchwright.watch.use.cpu import pressure
from benchwright.watch.use.series_file import Cgroup, FilesOpenTable, FilesRow
from benchwright.watch.use.window import SeriesWindow, TablesAround, names_of

# --------------------------------------------------------------------------------------
# Memory and open files in a window.

_KIB = 1024


def memory_use(window: SeriesWindow) -> MemoryUse | None:
    """Return the use of memory; None if /proc/meminfo was not reported."""
    total = window.most("memory/total")
    available = window.least("memory/available")
    if total is None or available is None:
        return None
    page = window.header.page_size
    return MemoryUse(
        total=round(total) * _KIB,
        available_min=round(available) * _KIB,
        dirty_max=round(window.most("memory/dirty") or 0) * _KIB,
        swap_total=round(window.most("memory/swap_total") or 0) * _KIB,
        swap_used_max=round(window.most(SWAP_USED) or 0) * _KIB,
        swapped_in=window.whole("vm/swap_in") * page,
        swapped_out=window.whole("vm/swap_out") * page,
        scanned_direct=window.whole("vm/scanned_direct"),
        scanned_kswapd=window.whole("vm/scanned_kswapd"),
        refaults=window.whole("vm/refault_file", "vm/refault_anon"),
        major_faults=window.whole("vm/major_faults"),
        oom_kills=window.count("vm/oom_kill"),
        pressure=pressure(window, "memory"),
        pressure_full=pressure(window, "memory", "full"),
    )


def files_of_machine(window: SeriesWindow) -> tuple[int, int] | None:
    """Return the highest number of open files of the whole machine, and its limit."""
    most, limit = window.most("files/open"), window.most("files/limit")
    return None if most is None or limit is None else (round(most), round(limit))


class WindowFiles:
    """The process nearest to its limit of open files, from one moment to another.

    Uses the tables in between; if there are none, those on both sides.
    """

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._around: TablesAround[FilesOpenTable] = TablesAround(begin_ns, end_ns)
        self._inside: FilesRow | None = None
        self._beside: FilesRow | None = None
        self._any_inside = False
        self._devices: set[str] | None = None

    def take(self, table: FilesOpenTable) -> None:
        """Add a table."""
        for one in self._around.taken(table.t, table):
            self._look_at(one)

    def nearest(self) -> FilesOpen | None:
        """Return the process, after the last table; None if none is reported."""
        for one in self._around.rest():
            self._look_at(one)
        row = self._inside if self._any_inside else self._beside
        if row is None:
            return None
        return FilesOpen(row.pid, row.name, row.open, row.limit)

    @property
    def devices(self) -> tuple[str, ...] | None:
        """The disks that the processes use, after `nearest`; None if they are not reported."""
        return None if self._devices is None else tuple(sorted(self._devices))

    def _look_at(self, table: FilesOpenTable) -> None:
        for row in table.rows:
            if row.devices is not None:
                self._devices = (self._devices or set()) | set(row.devices)
        if self._begin_ns <= table.t <= self._end_ns:
            self._any_inside = True
            self._inside = _nearest(self._inside, table)
        else:
            self._beside = _nearest(self._beside, table)


def _nearest(files_row: FilesRow | None, table: FilesOpenTable) -> FilesRow | None:
    rows = table.rows if files_row is None else (files_row, *table.rows)
    return max(rows, key=_nearness, default=None)


def _nearness(row: FilesRow) -> tuple[float, int]:
    return (row.open / row.limit if row.limit else 0.0, row.open)


# -- Cgroups in a window: their limits, and the use of their tasks ---------------------

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def cgroups_use(window: SeriesWindow, reported: Sequence[Cgroup]) -> tuple[CgroupUse, ...]:
    """Return the use of each cgroup seen before the window's end, in order of number."""
    seen = {one.number: one for one in reported if one.t <= window.end_ns}
    return tuple(_use(window, seen[number], seen) for number in sorted(seen))


def _use(window: SeriesWindow, cgroup: Cgroup, seen: dict[int, Cgroup]) -> CgroupUse:
    def column(name: str) -> str:
        return f"cgroup/{cgroup.number}/{name}"

    memory, pids = window.most(column("memory")), window.most(column("pids"))
    return CgroupUse(
        path=cgroup.path,
        version=cgroup.version,
        controller=cgroup.controller,
        of=cgroup.of,
        cpu_limit_cores=cgroup.limits.cpu_cores,
        cpu_used_cores=_cpu_used(window, cgroup, seen),
        periods=window.whole(column("periods")),
        throttled=window.whole(column("throttled")),
        throttled_s=(window.growth(column("throttled_us")) or 0.0) / 1e6,
        memory_limit=cgroup.limits.memory_bytes,
        memory_max=None if memory is None else round(memory),
        memory_limit_hits=window.count(column("memory_limit_hits")),
        oom_kills=window.count(column("oom_kill")),
        pids_limit=cgroup.limits.pids,
        pids_max=None if pids is None else round(pids),
        io_limits=cgroup.limits.io,
        cpus=_cpus(cgroup.limits.cpus or ""),
    )


def _cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a cpuset's list such as `0-3,8`; empty for an invalid list."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return ()
        first = int(match[1])
        found.update(range(first, int(match[2] or first) + 1))
    return tuple(sorted(found))


def _cpu_used(window: SeriesWindow, cgroup: Cgroup, seen: dict[int, Cgroup]) -> float | None:
    """Return the CPU time used [cores]; version 1 counts it in another hierarchy."""
    numbers = [cgroup.number]
    if cgroup.version == 1 and cgroup.controller == "cpu":
        numbers += [
            other.number
            for other in seen.values()
            if other.controller == "cpuacct" and other.path == cgroup.path
        ]
    rates = [window.rate(f"cgroup/{number}/usage_us") for number in numbers]
    return next((rate / 1e6 for rate in rates if rate is not None), None)


# -- Disks in a window: their requests, and whether they stalled -----------------------
#
# Source: the kernel's Documentation/admin-guide/iostats.rst. `queue_ms` counts a request
# when it completes, so stalls are detected by the requests in flight.

_SECTOR = 512
_COMPLETED = ("reads", "writes", "discards", "flushes")
_IN_FLIGHT = "/in_flight"


class DiskSteps:
    """Disks between the last two samples: requests in flight, requests completed.

    Arrays are of shape `(n_disks,)`; only disks that report requests in flight are included.
    """

    def __init__(self, columns: Columns) -> None:
        self.names: dict[str, int] = {}
        self.from_ns: Ints = np.zeros(0, np.int64)
        """Time of each disk's previous sample; -1: none."""
        self.is_idle: Flags = np.zeros(0, bool)
        """Whether nothing was in flight at either sample, and nothing completed."""
        self.is_stalled: Flags = np.zeros(0, bool)
        """Whether requests were in flight at both samples, and none completed."""
        self.is_there: Flags = np.zeros(0, bool)
        """Whether the disk has this sample and one before it."""
        self._columns = columns
        self._known = (0, 0)
        self._gauges: Ints = np.zeros(0, np.int64)
        self._sums = CounterSums((), {})
        self._when_ns: Ints = np.zeros(0, np.int64)
        self._in_flight: FloatValues = np.zeros(0)
        self._done: FloatValues = np.zeros(0)

    def take(self, sample: SeriesSample) -> None:
        """Add a sample, which ends a step."""
        self._fit()
        before, after = self._in_flight, sample.gauges[self._gauges]
        there, done = sample.gauges_there[self._gauges], self._sums.of(sample.totals)
        stood = done == self._done
        self.from_ns = self._when_ns
        self.is_there = there & (self.from_ns >= 0)
        # Comparisons with nan are false.
        self.is_stalled = (before > 0) & (after > 0) & stood
        self.is_idle = ~((before > 0) | (after > 0) | ~stood)
        self._when_ns = np.where(there, sample.when_ns, self._when_ns)
        self._in_flight = np.where(there, after, before)
        self._done = np.where(there, done, self._done)

    def _fit(self) -> None:
        """Add new disks."""
        counters, gauges = self._columns.counters.names, self._columns.gauges.names
        if self._known == (len(counters), len(gauges)):
            return
        self._known = (len(counters), len(gauges))
        for name in gauges:
            if name.startswith("disk/") and name.endswith(_IN_FLIGHT):
                disk = name.removeprefix("disk/").removesuffix(_IN_FLIGHT)
                self.names.setdefault(disk, len(self.names))
        places = [gauges[f"disk/{name}{_IN_FLIGHT}"] for name in self.names]
        kinds = [[f"disk/{name}/{kind}" for kind in _COMPLETED] for name in self.names]
        self._gauges = np.array(places, dtype=np.int64)
        self._sums = CounterSums(kinds, counters)
        more = len(self.names) - len(self._when_ns)
        self._when_ns = np.append(self._when_ns, np.full(more, -1))
        self._in_flight = fitted(self._in_flight, len(self.names))
        self._done = np.append(self._done, np.zeros(more))


class WindowDisks:
    """How long disks stalled, and how long they were used, from one moment to another."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._names: dict[str, int] = {}
        self._stall_s: FloatValues = np.zeros(0)
        """Length of each disk's current stall [s]."""
        self._longest_s: FloatValues = np.zeros(0)
        self._used_ns: Ints = np.zeros(0, np.int64)
        self._is_told: Flags = np.zeros(0, bool)

    def take(self, when_ns: int, steps: DiskSteps) -> None:
        """Add the steps that end at a moment."""
        if when_ns <= self._begin_ns or not steps.names:
            return
        inside = steps.is_there & (steps.from_ns < self._end_ns)
        if not inside.any():
            return
        self._fit(steps.names)
        begin_ns = np.maximum(steps.from_ns, self._begin_ns)
        lengths_ns = np.where(inside, min(when_ns, self._end_ns) - begin_ns, 0)
        stall_s = np.where(steps.is_stalled, self._stall_s + lengths_ns / 1e9, 0.0)
        self._stall_s = np.where(inside, stall_s, self._stall_s)
        self._longest_s = np.maximum(self._longest_s, self._stall_s)
        self._used_ns += np.where(steps.is_idle, 0, lengths_ns)
        self._is_told |= inside

    def longest_stall_s(self, name: str) -> float:
        """Return the longest time [s] with requests in flight and none completed."""
        place = self._names.get(name)
        return 0.0 if place is None else float(self._longest_s[place])

    def used_s(self, name: str) -> float | None:
        """Return how long the disk had any request [s]; None if that is not reported."""
        place = self._names.get(name)
        if place is None or not self._is_told[place]:
            return None
        return int(self._used_ns[place]) / 1e9

    def _fit(self, names: dict[str, int]) -> None:
        more = len(names) - len(self._stall_s)
        if not more:
            return
        self._names = dict(names)
        self._stall_s = np.append(self._stall_s, np.zeros(more))
        self._longest_s = np.append(self._longest_s, np.zeros(more))
        self._used_ns = np.append(self._used_ns, np.zeros(more, np.int64))
        self._is_told = np.append(self._is_told, np.zeros(more, bool))


def disks_use(window: SeriesWindow, disks: WindowDisks) -> tuple[DiskUse, ...]:
    """Return the use of each disk that had a request in the window."""
    names = names_of(window, "disk", "reads")
    found = (_disk(window, disks, name) for name in names)
    return tuple(use for use in found if use is not None)


def _disk(window: SeriesWindow, disks: WindowDisks, name: str) -> DiskUse | None:
    def rate(*kinds: str) -> float:
        return window.rate(*(f"disk/{name}/{kind}" for kind in kinds)) or 0.0

    in_flight = f"disk/{name}{_IN_FLIGHT}"
    completed = rate(*_COMPLETED)
    if completed == 0 and not window.most(in_flight) and not window.least(in_flight):
        return None
    transfers = rate("reads", "writes")
    queue = rate("queue_ms") / 1000
    used_s = disks.used_s(name)
    return DiskUse(
        name=name,
        busy=min(rate("busy_ms") / 1000, 1.0),
        reads_per_s=rate("reads"),
        writes_per_s=rate("writes"),
        read_bytes_per_s=rate("read_sectors") * _SECTOR,
        write_bytes_per_s=rate("written_sectors") * _SECTOR,
        queue=queue if completed else window.mean(in_flight) or 0.0,
        response_s=rate("read_ms", "write_ms") / 1000 / transfers if transfers else None,
        flushes_per_s=rate("flushes"),
        in_flight_min=round(window.least(in_flight) or 0),
        longest_stall_s=disks.longest_stall_s(name),
        active=None if used_s is None else min(used_s / window.seconds, 1.0),
    )


# -- Network interfaces in a window, and losses in the network stack -------------------


def networks_use(window: SeriesWindow) -> tuple[NetworkUse, ...]:
    """Return the use of each interface that had a packet in the window."""
    names = names_of(window, "net", "rx_packets")
    return tuple(use for name in names if (use := _network(window, name)) is not None)


def sockets_use(window: SeriesWindow) -> SocketUse | None:
    """Return counts of losses and retransmissions; None if none of them is reported."""
    columns = {
        "retransmits": "tcp/retransmits",
        "segments_out": "tcp/segments_out",
        "listen_overflows": "tcp/listen_overflows",
        "listen_drops": "tcp/listen_drops",
        "receive_errors": "udp/receive_errors",
        "softnet_dropped": "softnet/dropped",
        "softnet_squeezed": "softnet/squeezed",
    }
    if not set(columns.values()).intersection(window.names):
        return None
    return SocketUse(**{field: window.count(name) for field, name in columns.items()})


def own_losses(window: SeriesWindow, absent: Mapping[str, str]) -> OwnLosses | None:
    """Return what the trees of the trial and its targets lost; None for a series without these
    columns."""
    if "own/retransmits" not in window.names:
        return None

    def both(kind: str) -> int:
        return window.count(f"own/{kind}") + window.count(f"target/{kind}")

    return OwnLosses(
        retransmits=both("retransmits"),
        segments_out=both("segments_out"),
        listen_drops=both("listen_drops"),
        datagram_drops=both("datagram_drops"),
        absent=absent.get("own/retransmits", ""),
        major_faults=both("major_faults"),
    )


def _network(window: SeriesWindow, name: str) -> NetworkUse | None:
    def names(*kinds: str) -> tuple[str, ...]:
        return tuple(f"net/{name}/{kind}" for kind in kinds)

    def rate(kind: str) -> float:
        return window.rate(*names(kind)) or 0.0

    if rate("rx_packets") == 0 and rate("tx_packets") == 0:
        return None
    return NetworkUse(
        name=name,
        receive_bytes_per_s=rate("rx_bytes"),
        send_bytes_per_s=rate("tx_bytes"),
        receive_packets_per_s=rate("rx_packets"),
        send_packets_per_s=rate("tx_packets"),
        errors=window.count(*names("rx_errors", "tx_errors")),
        dropped=window.count(*names("rx_dropped", "tx_dropped")),
        speed_bits_per_s=_speed(window, name),
    )


def _speed(window: SeriesWindow, name: str) -> float | None:
    """Return the link's speed [bit/s]; a virtual interface reports none, or -1."""
    reported = window.header.limits.get(f"net/{name}/speed_mbit")
    return reported * 1e6 if isinstance(reported, int | float) and reported > 0 else None
