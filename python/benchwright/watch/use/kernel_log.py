"""The kernel's log in a window: the messages that are kept, and the tasks that were killed for lack
of memory.

Decision: the report of such a kill has about a hundred lines (calls, registers, counts of memory),
which would displace every other message. Only its last line is kept, and what it says of the
cgroup, its limit and the task is a `MemoryKill`. Source: mm/oom_kill.c and mm/memcontrol.c of Linux
6.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchwright.core.resource_use import (
    KERNEL_ERROR,
    KERNEL_WARNING,
    KernelMessage,
    MemoryKill,
)
from benchwright.watch.use.series_file import KernelLine

MOST_MESSAGES = 20
"""How many messages, and how many kills, are kept."""
_BEGIN = " invoked oom-killer: "
_KILL = "oom-kill:constraint="
_END = re.compile(r"out of memory\b.{0,40}: Killed process \d", re.IGNORECASE)
_LIMIT = re.compile(r"memory: usage \d{1,20}kB, limit (\d{1,20})kB,")
_REPORT_NS = 10**9
"""The longest time that a report takes; one without a task to kill has no last line."""
LOG_AHEAD_NS = 5_000_000
"""How far the clock of the log may run ahead (2.2 ms after 3.8 hours on a virtual machine)."""
TrialTime = tuple[int, int, int]
"""A trial's epoch, and when it began and ended [ns]."""


class WindowMessages:
    """The messages in the time of some trials."""

    def __init__(self, trials: Sequence[TrialTime]) -> None:
        self._trials = trials
        self._kept: tuple[list[KernelLine], list[KernelLine]] = ([], [])
        """The first messages: warnings and worse; others."""
        self._killed: list[MemoryKill] = []
        self._report: KernelLine | None = None
        """The first line of a report that has not ended."""
        self._limit: int | None = None
        """Of the cgroup of that report [bytes]."""

    def take(self, line: KernelLine) -> None:
        """Add a message, in the order of the log."""
        if self._report is not None and line.t - self._report.t > _REPORT_NS:
            self._end_report()
        if _BEGIN in line.text:
            self._end_report()
            self._report = line
        elif line.text.startswith(_KILL):
            self._kill(line)
        elif _END.search(line.text):
            self._report = None
            self._keep(line)
        elif self._report is None or line.level <= KERNEL_ERROR:
            self._keep(line)
        elif match := _LIMIT.match(line.text):
            self._limit = int(match[1]) * 1024

    def _end_report(self) -> None:
        if self._report is not None:
            self._keep(self._report)
        self._report = self._limit = None

    def _keep(self, line: KernelLine) -> None:
        """Keep a message written during a trial; the earliest are stored."""
        if self._trial_at(line.t) is not None:
            kept = self._kept[line.level > KERNEL_WARNING]
            kept.append(line)
            kept.sort(key=lambda one: one.t)
            del kept[MOST_MESSAGES:]

    def _kill(self, line: KernelLine) -> None:
        """Note a line such as
        `oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,task_memcg=/a,task=sort,pid=7,uid=0`.
        """
        trial, limit = self._trial_at(line.t), self._limit
        self._limit = None
        rest, _, _uid = line.text.rpartition(",uid=")
        rest, _, pid = rest.rpartition(",pid=")
        rest, _, name = rest.rpartition(",task=")
        rest, _, _of_task = rest.rpartition(",task_memcg=")
        _, _, cgroup = rest.partition(",oom_memcg=")
        if trial is None or not pid.isdecimal() or len(self._killed) >= MOST_MESSAGES:
            return
        self._killed.append(MemoryKill(int(pid), name, cgroup, limit if cgroup else None, trial[0]))

    def _trial_at(self, when_ns: int) -> TrialTime | None:
        """Return the trial in whose time a message was written; None: in that of none.

        The log's clock runs ahead of the trials' by milliseconds after hours, so a message just
        after a trial is of it.
        """
        for later_ns in (0, LOG_AHEAD_NS):
            for trial in self._trials:
                if trial[1] <= when_ns <= trial[2] + later_ns:
                    return trial
        return None

    def killed(self) -> tuple[MemoryKill, ...]:
        """Return the tasks that were killed, in order."""
        return tuple(self._killed)

    def messages(self, begin_ns: int, end_ns: int) -> tuple[KernelMessage, ...]:
        """Return the messages of a window, after the last line: warnings and worse, then others."""
        self._end_report()
        warnings, others = self._kept
        inside = [line for line in warnings + others if begin_ns <= line.t <= end_ns + LOG_AHEAD_NS]
        return tuple(
            KernelMessage(
                (line.t - begin_ns) / 1e9,
                line.level,
                line.text,
                trial[0],
                (line.t - trial[1]) / 1e9,
            )
            for line in inside[:MOST_MESSAGES]
            if (trial := self._trial_at(line.t)) is not None
        )
