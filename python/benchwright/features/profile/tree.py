"""The processes whose calls count: all below the launcher, each from its exec on.

Decision: the launcher, and its children before their exec, are followed but not counted; the
same holds for a nested `bw-launcher measure`. Rejected: subtracting a fixed number of calls,
because it depends on the threads, logs and hooks of a trial. Source: execve(2),
events/sched/sched_process_exec/format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchwright.core.processes import all_processes, thread_ids, tree_of

LAUNCHER = "bw-launcher"
"""The launcher's program name."""
FLUSH_HERTZ = 49
"""How often the CPU time of a thread that keeps running is added [Hz]."""
_STEP = re.compile(
    rb"(?: sched_process_exec: filename=(?P<program>.{0,4096}))? "
    rb"pid=(?P<pid>\d+) (?:child_comm=.{0,64} child_pid=(?P<child>\d+)|old_pid=(?P<old>\d+))\n"
)
"""A fork or an exec, in the text of tracefs."""


class ThreadTree(msgspec.Struct, frozen=True):
    """The threads that are alive when counting starts."""

    launching: tuple[int, ...] = ()
    """The launcher's own threads: followed, not counted."""
    running: tuple[int, ...] = ()
    """Threads of commands and targets: counted."""

    @property
    def threads(self) -> tuple[int, ...]:
        """Return all threads."""
        return (*self.launching, *self.running)


def tree_below(launcher: int, targets: Iterable[int], proc: Path) -> ThreadTree:
    """Return the threads of a launcher, its descendants, and targets."""
    running = tree_of([launcher, *targets], all_processes(proc)) - {launcher}
    return ThreadTree(
        launching=tuple(thread_ids([launcher], proc)), running=tuple(thread_ids(running, proc))
    )


class FollowedThreads:
    """Tracks the launcher's threads through forks and execs. Pure."""

    def __init__(self, launching: Iterable[int]) -> None:
        self.launching = {b"%d" % thread for thread in launching}

    def parts(self, text: bytes) -> Iterable[bytes]:
        """Yield the text between forks and execs; `launching` is valid for each part."""
        at = 0
        for step in _STEP.finditer(text):
            yield text[at : step.start()]
            self._step(step)
            at = step.end()
        yield text[at:]

    def _step(self, step: re.Match[bytes]) -> None:
        if step["child"]:
            # The number may have been used by a thread that ended.
            self.launching.discard(step["child"])
            if step["pid"] in self.launching:
                self.launching.add(step["child"])
            return
        self.launching -= {step["old"], step["pid"]}
        name = (step["program"] or b"").rpartition(b"/")[2]
        if name == LAUNCHER.encode():
            self.launching.add(step["pid"])


def tree_clauses(tree: ThreadTree) -> str:
    """Return the part of the bpftrace program that selects the counted threads (`@own`)."""
    seeds = (
        *(f"@launch[{thread}] = 1;" for thread in tree.launching),
        *(f"@own[{thread}] = 1;" for thread in tree.running),
    )
    return f"BEGIN {{ {' '.join(seeds)} }}\n{_FOLLOWING}"


_FOLLOWING = f"""\
tracepoint:sched:sched_process_fork /@own[tid]/ {{ @own[args->child_pid] = 1; }}
tracepoint:sched:sched_process_fork /@launch[tid]/ {{ @launch[args->child_pid] = 1; }}
tracepoint:sched:sched_process_exec /@own[args->old_pid] || @launch[args->old_pid]/ {{
  $on = @launch[args->old_pid] ? (uint64)0 : @on[args->old_pid];
  delete(@on[args->old_pid]);
  delete(@own[args->old_pid]);
  delete(@launch[args->old_pid]);
  delete(@launch[args->pid]);
  if (comm == "{LAUNCHER}") {{ @launch[args->pid] = 1; }}
  else {{
    @own[args->pid] = 1;
    @on[args->pid] = $on ? $on : nsecs;
  }}
}}
tracepoint:sched:sched_process_exit /@own[tid] || @launch[tid]/ {{
  if (@own[tid] && @on[tid]) {{ @cpu[(int32)tid, comm] = sum(nsecs - @on[tid]); }}
  delete(@own[tid]); delete(@launch[tid]); delete(@s[tid]);
  delete(@on[tid]); delete(@off[tid]);
}}"""
"""@on: since when a thread has been on a CPU. CPU time of a launcher's child before its exec
does not belong to the trial, and thread numbers may be reused."""

CPU_CLAUSES = f"""\
tracepoint:sched:sched_switch {{
  if (@own[args->prev_pid]) {{
    if (@on[args->prev_pid]) {{
      @cpu[args->prev_pid, args->prev_comm] = sum(nsecs - @on[args->prev_pid]);
      delete(@on[args->prev_pid]);
    }}
    if (args->prev_state == 0 || (args->prev_state & 0x100)) {{
      @off[args->prev_pid] = nsecs;
    }}
  }}
  if (@own[args->next_pid]) {{
    @on[args->next_pid] = nsecs;
    if (@off[args->next_pid]) {{
      @wait[args->next_pid, args->next_comm] = sum(nsecs - @off[args->next_pid]);
      delete(@off[args->next_pid]);
    }}
  }}
}}
profile:hz:{FLUSH_HERTZ} /@own[tid] && @on[tid]/ {{
  @cpu[(int32)tid, comm] = sum(nsecs - @on[tid]);
  @on[tid] = nsecs;
}}"""
"""Counts running and preempted threads (0x100: preempted). Rejected: sampling alone, because
samples that interrupt a bpftrace program are dropped, and here many would."""
