"""What is seen of one window while a series goes by, and the use that it comes to.

Purpose: all that a window needs of every line, gathered in one place. Decision: everything
kept here is bounded by the machine (its columns, threads, processes), not by the time.
"""

from __future__ import annotations

import msgspec

from benchwright.model.watched import KernelMessage, ResourceUse, TreeIo
from benchwright.probe.use.cgroup import cgroups_use
from benchwright.probe.use.clock import Busy, ClocksSeen, clock_use
from benchwright.probe.use.columns import Columns, Sample
from benchwright.probe.use.cpu import cpu_use, pressure
from benchwright.probe.use.disk import DisksSeen, DiskSteps, disks_use
from benchwright.probe.use.lines import Cgroup, End, Header, KernelLine
from benchwright.probe.use.memory import FilesSeen, files_of_machine, memory_use
from benchwright.probe.use.network import networks_use, sockets_use
from benchwright.probe.use.others import OthersSeen, Trees
from benchwright.probe.use.tasks import ThreadsSeen, tasks_use
from benchwright.probe.use.window import Window

MOST_MESSAGES = 20
_WARNING = 4
"""The kernel's level of a warning; lower is worse."""
_LATE_SHARE = 0.1
"""From here on samples that came late are told: shares of single samples are coarse."""

Span = tuple[int, int]
"""From when to when [CLOCK_MONOTONIC ns]."""


class Machine:
    """What all windows of a series look at: columns, processors, disks, trees."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.columns = Columns()
        self.busy = Busy(header, self.columns)
        self.disks = DiskSteps(self.columns)
        self.trees = Trees(header)
        self.cgroups: list[Cgroup] = []
        self.end: End | None = None
        """None: the file was cut short."""
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        """When the first and the last sample were."""

    def take(self, sample: Sample) -> None:
        """Take in a sample, before the windows do."""
        self.first_ns = sample.when_ns if self.first_ns is None else self.first_ns
        self.last_ns = sample.when_ns
        self.busy.take(sample)
        self.disks.take(sample)

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """What could not be read, and why."""
        return self.header.absent + (self.end.absent if self.end else ())

    @property
    def cost(self) -> float | None:
        """The sampler's own processor time [cores]."""
        end = self.end
        if end is None or end.end_ns <= end.begin_ns:
            return None
        return end.cost_ns / (end.end_ns - end.begin_ns)


class Group:
    """One trial, or a few that are seen together, while the series goes by."""

    def __init__(self, machine: Machine, span: Span, epochs: tuple[int, int]) -> None:
        self._machine = machine
        self._span = span
        self._epochs = epochs
        self.window = Window(machine.header, machine.columns, *span)
        self.own = ThreadsSeen("own", *span)
        self.target = ThreadsSeen("target", *span)
        self.others = OthersSeen(machine.trees, *span)
        self.files = FilesSeen(*span)
        self._clocks = ClocksSeen(*span)
        self._disks = DisksSeen(*span)
        self._samples = 0
        self._late_s = 0.0
        self._kernel: tuple[list[KernelLine], list[KernelLine]] = ([], [])
        """Warnings and worse, and the others: the first of each."""

    def take(self, sample: Sample) -> None:
        """Take in a sample that the machine has taken in."""
        begin_ns, end_ns = self._span
        self.window.take(sample)
        self._clocks.take(sample, self._machine.busy)
        self._disks.take(sample.when_ns, self._machine.disks)
        self._samples += begin_ns <= sample.when_ns <= end_ns
        before_ns = sample.before_ns
        if before_ns is not None and begin_ns < sample.when_ns and before_ns < end_ns:
            interval_s = self._machine.header.interval_ns / 1e9
            step_s = (sample.when_ns - before_ns) / 1e9
            self._late_s += max(step_s - 2 * interval_s, 0.0)

    def message(self, line: KernelLine) -> None:
        """Take in a message of the kernel; the earliest are kept."""
        if self._span[0] <= line.t <= self._span[1]:
            kept = self._kernel[line.level > _WARNING]
            kept.append(line)
            kept.sort(key=lambda one: one.t)
            del kept[MOST_MESSAGES:]

    def use(self) -> ResourceUse:
        """Return what was used, after the series' end."""
        machine, (begin_ns, end_ns) = self._machine, self._span
        absent = self._unseen()
        bare = ResourceUse(
            seconds=(end_ns - begin_ns) / 1e9,
            samples=self._samples,
            epochs=self._epochs,
            begin_ns=begin_ns,
            end_ns=end_ns,
            absent=machine.absent + absent,
            sampler_cost=machine.cost,
        )
        return self._filled(bare) if self._is_seen() else bare

    def _is_seen(self) -> bool:
        """Return whether the series covers a part; the window becomes that part."""
        first_ns, last_ns = self._machine.first_ns, self._machine.last_ns
        if first_ns is None or last_ns is None or first_ns == last_ns:
            return False
        self.window.finish(first_ns, last_ns)
        return self.window.begin_ns < self.window.end_ns

    def _unseen(self) -> tuple[tuple[str, str], ...]:
        """Return what of a window the samples do not tell, and why."""
        if not self._is_seen():
            return (("samples", "no two samples lie around the trial"),)
        whole_s = (self._span[1] - self._span[0]) / 1e9
        seen_s = self.window.seconds
        if whole_s - seen_s > self._machine.header.interval_ns / 1e9:
            return (("samples", f"the sampler saw {seen_s:.1f} s of {whole_s:.1f} s"),)
        if self._late_s > _LATE_SHARE * whole_s:
            return (("samples", f"they came {self._late_s:.1f} s late in all"),)
        return ()

    def _filled(self, bare: ResourceUse) -> ResourceUse:
        window = self.window
        others = self.others.others_use(window)
        tasks, working = tasks_use(window, self.own, self.target)
        return msgspec.structs.replace(
            bare,
            cpu=cpu_use(window, others.of_kernel),
            tasks=tasks,
            working=working,
            others=others.processes,
            programs=others.programs,
            memory=memory_use(window),
            disks=disks_use(window, self._disks),
            io_pressure=pressure(window, "io"),
            io_pressure_full=pressure(window, "io", "full"),
            networks=networks_use(window),
            sockets=sockets_use(window),
            cgroups=cgroups_use(window, self._machine.cgroups),
            own_io=_tree_io(window, "own"),
            target_io=_tree_io(window, "target"),
            files=self.files.nearest(),
            files_of_machine=files_of_machine(window),
            kernel=self._messages(),
            clock=clock_use(window, self._clocks),
        )

    def _messages(self) -> tuple[KernelMessage, ...]:
        """Return the kernel's messages in the window: warnings and worse, then the others."""
        begin_ns, end_ns = self.window.begin_ns, self.window.end_ns
        warnings, others = self._kernel
        inside = [line for line in warnings + others if begin_ns <= line.t <= end_ns]
        return tuple(
            KernelMessage((line.t - begin_ns) / 1e9, line.level, line.text)
            for line in inside[:MOST_MESSAGES]
        )


def _tree_io(window: Window, of: str) -> TreeIo | None:
    if window.growth(f"{of}/read_chars") is None:
        return None
    return TreeIo(
        read_chars=window.whole(f"{of}/read_chars"),
        written_chars=window.whole(f"{of}/written_chars"),
        read_bytes=window.whole(f"{of}/read_bytes"),
        write_bytes=window.whole(f"{of}/write_bytes"),
        read_calls=window.whole(f"{of}/read_calls"),
        write_calls=window.whole(f"{of}/write_calls"),
    )
