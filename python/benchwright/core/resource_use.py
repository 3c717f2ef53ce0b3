"""What a machine did while a trial ran: resources used, limits, messages.

Purpose: the evidence for findings, `bw why` and reports. It is computed from the
sampler's series (docs/watch-format.md) once, right after the trial, and stored in the
journal with it, so a finding is a function of the journal; the series stay in the study for
plots. Times are seconds of the window, shares are from 0 to 1 of one thing's capacity, and
*cores* are CPU time per time. Absent is not zero: None, or an empty tuple with
the reason in `absent`. Source: Systems Performance, 12.3.4 (USE).
"""

from __future__ import annotations

from typing import Literal

import msgspec


class TaskUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thread (of the own tree or a target), or one other process."""

    pid: int
    tid: int
    """The thread; equal to `pid` for a main thread, 0 for a process as a whole."""
    name: str
    share: float
    """Mean of its CPU time over the window [cores]; over 1 only for a process."""
    of: Literal["own", "target", "other"] = "own"
    busiest_share: float | None = None
    """Its mean while it ran at all: from its first to its last sample [cores]."""
    seen_s: float | None = None
    """How long it was observed [s]."""
    waiting: float | None = None
    """Time runnable without a CPU, as a share of the window."""
    cpus: tuple[int, ...] | None = None
    """The CPUs on which a thread may run (affinity and cpuset), empty for all; None: recorded by a
    version that did not look."""


WaitKind = Literal["disk", "network", "locks", "pipe", "sleep", "ring", "other"]
"""What a thread waits for; `ring`: the completions of asynchronous I/O."""


class WaitUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the trial waited for while none of its threads ran."""

    kind: WaitKind
    share: float
    """Share of the window; several kinds overlap if threads waited for different things."""
    name: str
    """The thread that was seen most often."""
    call: str
    """The system call in which it waited; `page fault` outside of one."""
    what: str = ""
    """What the call waits for: `tcp 127.0.0.1:80`, `file /data/log`, `pipe`."""
    channel: str = ""
    """The kernel's function in which it slept."""
    threads: int = 1
    """The most threads that waited so at once."""


class OffCpuUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The time in which no thread of the trial ran or was ready to run."""

    share: float
    """Share of the window."""
    samples: int
    """Samples in which this was so: what was waited for is known from these."""
    waits: tuple[WaitUse, ...] = ()
    """The kinds, the largest share first; empty if it is not known what the threads waited for."""
    watched: int | None = None
    """All samples of the trial's threads; None: recorded by a version that did not count them."""
    alone: int = 0
    """Samples in which exactly one thread ran or was ready."""


class ProgramUse(msgspec.Struct, frozen=True):
    """All other processes of one name."""

    name: str
    processes: int
    share: float
    """Sum of their means of CPU time over the window [cores]."""


class CpuUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The CPUs. Sums are in cores: 1.5 is the time of one and a half CPUs."""

    count: int
    busy: float
    """All but idle, iowait and steal."""
    user: float
    system: float
    """Without interrupts."""
    interrupts: float
    """irq and softirq."""
    iowait: float
    steal: float
    each: tuple[float, ...] = ()
    """Busy share of each CPU, in order."""
    runnable: float | None = None
    """Mean of tasks that run or want to (procs_running), the sampler not counted."""
    pressure: float | None = None
    """Share of the window in which some task waited for a CPU (PSI)."""
    own: float | None = None
    """Used by the trial's own tree."""
    target: float | None = None
    watcher: float | None = None
    """Used by bw, its launcher and its sampler."""
    others: float | None = None
    """Used by everybody else: busy - own - target - watcher - interrupts; not below 0."""
    own_user: float | None = None
    """The part of `own` that is user time."""
    kernel: float | None = None
    """Used by all the kernel's own threads, whoever they worked for; a part of `others`."""


class MemoryUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Memory [bytes] and what was done to get more of it [events in the window]."""

    total: int
    available_min: int
    dirty_max: int = 0
    swap_total: int = 0
    swap_used_max: int = 0
    swapped_in: int = 0
    """Bytes."""
    swapped_out: int = 0
    scanned_direct: int = 0
    """Pages that tasks had to look through themselves for free memory."""
    scanned_kswapd: int = 0
    refaults: int = 0
    """Pages read again soon after they were thrown out."""
    major_faults: int = 0
    oom_kills: int = 0
    pressure: float | None = None
    pressure_full: float | None = None


class DiskUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One whole block device."""

    name: str
    busy: float
    """Share of the window with a request in flight; 1 is no saturation where a device
    works in parallel."""
    reads_per_s: float
    writes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    queue: float
    """Mean of requests in flight or waiting."""
    response_s: float | None = None
    """Mean time of a request; None where there was none."""
    flushes_per_s: float = 0.0
    in_flight_min: int = 0
    """Least requests in flight at any sample: above 0 for a device that never drained."""
    longest_stall_s: float = 0.0
    """Longest stretch of samples with requests in flight and none completed."""
    active: float | None = None
    """Share of the window in whose samples any request was in flight or completed: a
    mean over it is that of the time in which the disk was used at all."""


class NetworkUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One interface."""

    name: str
    receive_bytes_per_s: float
    send_bytes_per_s: float
    receive_packets_per_s: float
    send_packets_per_s: float
    errors: int = 0
    dropped: int = 0
    speed_bits_per_s: float | None = None
    """Of the link, as detected; None where it is not reported (virtual interfaces)."""


class IoLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit of a cgroup on one device; None: no such limit."""

    device: str
    """`MAJOR:MINOR`."""
    name: str = ""
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    reads_per_s: float | None = None
    writes_per_s: float | None = None


class CgroupUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cgroup that the trial or its target ran in, or an ancestor with a limit."""

    path: str
    version: int
    controller: str = ""
    of: Literal["own", "target"] = "own"
    cpu_limit_cores: float | None = None
    cpu_used_cores: float | None = None
    periods: int = 0
    throttled: int = 0
    """Periods in which its tasks were stopped because the quota was spent."""
    throttled_s: float = 0.0
    memory_limit: int | None = None
    memory_max: int | None = None
    """Most bytes at any sample."""
    memory_limit_hits: int = 0
    oom_kills: int = 0
    pids_limit: int | None = None
    pids_max: int | None = None
    io_limits: tuple[IoLimit, ...] = ()
    cpus: tuple[int, ...] = ()
    """The CPUs that its cpuset allows; empty where that is not reported or all are allowed."""


class TreeIo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tree of processes read and wrote in the window [bytes; calls]."""

    read_chars: int
    """By system calls, from wherever it came (rchar)."""
    written_chars: int
    read_bytes: int
    """From the storage layer (read_bytes of /proc/PID/io)."""
    write_bytes: int
    read_calls: int = 0
    write_calls: int = 0


class FilesOpen(msgspec.Struct, frozen=True):
    """The process nearest to its limit of open files."""

    pid: int
    name: str
    open: int
    limit: int | None


KERNEL_ERROR, KERNEL_WARNING = 3, 4
"""Levels of the kernel's log; lower is worse. Source: syslog(2)."""


class KernelMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the kernel's log."""

    at_s: float
    """After the window's beginning."""
    level: int
    """0 emergency .. 7 debug."""
    text: str
    epoch: int = 0
    """The trial in whose time it was written; 0: recorded by a version that stored only the window.
    """
    in_trial_s: float = 0.0
    """After the beginning of that trial."""


class MemoryKill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that the kernel killed for lack of memory, as its log reports it."""

    pid: int
    name: str
    cgroup: str
    """The cgroup that reached its limit; empty: the machine had no memory left."""
    limit: int | None = None
    """Of that cgroup [bytes]; None: not in the log."""
    epoch: int = 0
    """The trial in whose time it was killed."""


class SocketUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the network's own software dropped or did again [events in the window]."""

    retransmits: int = 0
    segments_out: int = 0
    listen_overflows: int = 0
    listen_drops: int = 0
    receive_errors: int = 0
    softnet_dropped: int = 0
    softnet_squeezed: int = 0


class OwnLosses(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the sockets of the trial and of its targets lost [events in the window], and the pages
    that their processes waited for."""

    retransmits: int = 0
    """TCP segments that these sockets sent again."""
    segments_out: int = 0
    """TCP segments that they sent, with those sent again; 0 if nothing on the machine was lost."""
    listen_drops: int = 0
    datagram_drops: int = 0
    absent: str = ""
    """Why the sockets are not known; then all counts are 0."""
    major_faults: int | None = None
    """Pages that had to be read from a disk or from swap space."""


class ClockUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Frequencies [Hz], temperatures [degrees C], throttling events; None: not reported."""

    frequency_min: float | None = None
    """Of the CPU whose frequency changed most while it was busy; those of different
    CPUs always differ."""
    frequency_max: float | None = None
    """Of the same CPU."""
    frequency_mean: float | None = None
    """Of the samples of all busy CPUs."""
    temperature_max: float | None = None
    thermal_throttles: int | None = None


MOST_TASKS, MOST_OTHERS = 8, 5
"""How many threads of each side (the own tree, the targets), and how many of the other
processes and programs, a use keeps."""


class ResourceUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that was recorded of the machine in the window of one trial, or of a few."""

    seconds: float
    """Length of the window: the measured part of the trials."""
    samples: int
    """Within the window; below about 3 shares are means over more than the window."""
    epochs: tuple[int, int]
    """First and last trial sampled together: trials shorter than three samples share one, where
    little lies between them."""
    series: str = ""
    """The file of the series, relative to the study."""
    begin_ns: int = 0
    end_ns: int = 0
    """The window in the series' time, CLOCK_MONOTONIC [ns]."""
    cpu: CpuUse | None = None
    tasks: tuple[TaskUse, ...] = ()
    """The busiest threads of the own tree and of the targets, busiest first; at most
    MOST_TASKS of each."""
    working: tuple[int, int] | None = None
    """How many threads of the own tree and of the targets used 5 % of a CPU and more."""
    off_cpu: OffCpuUse | None = None
    """What the trial waited for; None: recorded by a version that did not look."""
    others: tuple[TaskUse, ...] = ()
    """The busiest other processes; at most MOST_OTHERS."""
    programs: tuple[ProgramUse, ...] = ()
    """The other processes by name, without the kernel's threads, busiest first; at most
    MOST_OTHERS. A server of many processes is one of these."""
    memory: MemoryUse | None = None
    disks: tuple[DiskUse, ...] = ()
    """Those with any request in the window."""
    io_pressure: float | None = None
    io_pressure_full: float | None = None
    networks: tuple[NetworkUse, ...] = ()
    """Those with any packet in the window."""
    sockets: SocketUse | None = None
    """Of the whole machine."""
    losses: OwnLosses | None = None
    """None: recorded by a version that counted only those of the machine."""
    cgroups: tuple[CgroupUse, ...] = ()
    own_io: TreeIo | None = None
    target_io: TreeIo | None = None
    files: FilesOpen | None = None
    devices: tuple[str, ...] | None = None
    """Disks on which the working directories and open files of the trial and its targets lie;
    `MAJOR:MINOR` of a file system that has no disk of its own. None: recorded by a version that did
    not look."""
    files_of_machine: tuple[int, int] | None = None
    """Open files of the whole machine, and their limit."""
    kernel: tuple[KernelMessage, ...] = ()
    """At most 20; warnings and worse first. Of the report of a killed task only the last line."""
    killed: tuple[MemoryKill, ...] = ()
    """Tasks that were killed for lack of memory; at most 20."""
    clock: ClockUse | None = None
    absent: tuple[tuple[str, str], ...] = ()
    """What could not be recorded, and why: (`frequency`, `no cpufreq ...`)."""
    sampler_cost: float | None = None
    """The sampler's own CPU time [cores]."""
    target_rss_max: int | None = None
    """Largest resident size of the targets together [bytes]; shared pages count in each process."""

    @property
    def server_values(self) -> dict[str, float]:
        """What the targets used, by the names of values of trials; empty without targets."""
        used = {}
        if self.cpu is not None and self.cpu.target is not None:
            used["server_cpu_s"] = self.cpu.target * self.seconds
        if self.target_rss_max is not None:
            used["server_rss_bytes"] = float(self.target_rss_max)
        if self.target_io is not None:
            used["server_read_bytes"] = float(self.target_io.read_bytes)
            used["server_write_bytes"] = float(self.target_io.write_bytes)
        return used


class RemoteUse(msgspec.Struct, frozen=True):
    """The use of another host, on which the server of a load ran."""

    host: str
    """As ssh knows it."""
    use: ResourceUse
    """Its times are those of that host."""
