"""Generates the bpftrace program that counts a process tree's I/O in the kernel, of the processes
below the launcher, each from its exec on; lists what it cannot show on this kernel, with the
reason. Pure.

Decision: the launcher, and its children before their exec, are followed but not counted; the
same holds for a nested `bw-launcher measure`. Rejected: subtracting a fixed number of calls,
because it depends on the threads, logs and hooks of a trial. Source: execve(2),
events/sched/sched_process_exec/format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from benchwright.core.processes import all_processes, thread_ids, tree_of
from benchwright.features.profile.totals import (
    AIO,
    AIO_SEEN,
    AIO_VECTORS,
    COUNTED_CALLS,
    DATA_CALLS,
    FILE_SYSTEM_POINTS,
    FIRST_AIO,
    FIRST_COUNTED,
    FIRST_DATA,
    FIRST_RING,
    FIRST_TIMED,
    OPENING_CALLS,
    REAPING_CALLS,
    RING_FSYNC,
    RINGS,
    TIMED_CALLS,
    DataCall,
    FileSystemPoint,
)

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


def tree_below(launcher: int | None, targets: Iterable[int], proc: Path) -> ThreadTree:
    """Return the threads of a launcher, its descendants, and targets; without a launcher, those of
    targets."""
    roots = targets if launcher is None else [launcher, *targets]
    running = tree_of(roots, all_processes(proc))
    if launcher is None:
        return ThreadTree(running=tuple(thread_ids(running, proc)))
    running -= {launcher}
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


# --------------------------------------------------------------------------------------
# Clauses that several parts of the bpftrace program share: kinds of files, counting.
#
# Decision: working variables have fixed names ($f the open file, $how its kind and flags, $dev
# its device, $pos the offset, $r the bytes), so that all ways to move data share the counting
# code. Sizes of transfers of files and devices are in one map, those of pipes, sockets and
# character devices in another: many message sizes must not displace those of files. Sources:
# linux/fs.h, bpftrace(8).

EventFields = Mapping[str, frozenset[str]]
"""The events of this kernel: `syscalls/sys_enter_read` -> the names of its fields."""


class Depth(msgspec.Struct, frozen=True):
    """Which of the kernel's own structures the program reads."""

    files: bool = True
    """Structures of open files: the kind of a descriptor."""
    rings: bool = True
    """Structures of io_uring's requests."""


def point(event: str) -> str:
    """Return a tracepoint's name in bpftrace."""
    return f"tracepoint:{event.replace('/', ':')}"


def open_file_clause(descriptor: str) -> str:
    """Return statements that make $f the open file of a descriptor."""
    return (
        "$fds = (uint64)((struct task_struct *)curtask)->files->fdt->fd; "
        f"$f = (struct file *)*(uint64 *)($fds + 8 * (uint64){descriptor}); "
    )


FILE_KIND_CLAUSE = (
    "$i = $f->f_inode; $k = ($i->i_mode >> 12) & 15; "
    "$how = (uint64)$k | ((uint64)$f->f_flags << 8); "
    "$dev = ($k == 6 || $k == 2) ? (uint64)$i->i_rdev : (uint64)$i->i_sb->s_dev; "
)
"""Sets $how (kind and flags) and $dev (device) from the open file $f.

`$how`: bits 0..3 are the kind (from st_mode), bits from 8 on the flags of open(2)."""


def count_clause(call: str, depth: Depth) -> str:
    """Return statements that count $r bytes moved; $how, $dev, $pos, $file must be set."""
    reached = (
        "if (($how & 15) == 8) { "
        "@w[$dev, ((struct file *)$file)->f_inode->i_ino] = max($pos + (uint64)$r); } "
    )
    return (
        f"if (($how & 15) == 8 || ($how & 15) == 6 || $how == 0) "
        f"{{ @n[{call}, $how, $dev, (uint64)$r] = count(); "
        f"if ($pos == @at[$file]) {{ @seq[{call}, $how, $dev] = count(); }} "
        f"@at[$file] = $pos + (uint64)$r; {reached if depth.files else ''}}} "
        f"else {{ @m[{call}, $how, $dev, (uint64)$r] = count(); "
        f"@all[{call}, $how, $dev] = count(); @sum[{call}, $how, $dev] = sum($r); }}"
    )


def duration_clause(key: str, begin: str) -> str:
    """Return statements that add a call's duration to its sum and histogram [ns]."""
    return f"@ns[{key}] = sum(nsecs - {begin}); @lat[{key}] = hist(nsecs - {begin}); "


def timed_clause(call: str, begin: str) -> str:
    """Return statements that count a call without data and its duration since `begin`."""
    return (
        f"@k[{call}] = count(); @kns[{call}] = sum(nsecs - {begin}); "
        f"@klat[{call}] = hist(nsecs - {begin}); "
    )


# --------------------------------------------------------------------------------------
# The part of the bpftrace program for asynchronous I/O.
#
# Decision: io_uring's requests are followed from submission to completion. libaio's control
# blocks are read at submission, because their completions have neither offset nor file; the
# number in flight follows from the sums of submission and completion times. Sources:
# linux/aio_abi.h (struct iocb), io_uring(7).


def aio_clauses(events: EventFields, depth: Depth) -> str:
    """Return the probes that read the control blocks passed to io_submit."""
    if "syscalls/sys_enter_io_submit" not in events or not depth.files:
        return ""
    one = f"if ($j < (uint64)args->nr) {{ {_aio_block(depth)} }} $j = $j + 1; "
    return (
        f"{point('syscalls/sys_enter_io_submit')} /@own[tid]/ {{ "
        f"$list = (uint64)args->iocbpp; $j = (uint64)0; unroll({AIO_SEEN}) {{ {one} }} "
        f"if (args->nr > {AIO_SEEN}) {{ @unseen = sum(args->nr - {AIO_SEEN}); }} }}\n"
        f"{_under_way(events)}"
    )


def _aio_block(depth: Depth) -> str:
    """Return statements that count the $j-th control block."""
    vector = " || ".join(f"$op == {opcode}" for opcode in AIO_VECTORS)
    data = " || ".join(f"$op == {opcode}" for opcode in AIO)
    return (
        "$b = *(uint64 *)uptr($list + 8 * $j); $op = (uint64)*(uint16 *)uptr($b + 16); "
        f"$call = (uint64){FIRST_AIO} + $op; "
        "$r = (int64)*(uint64 *)uptr($b + 32); $pos = *(uint64 *)uptr($b + 40); "
        # For a vector the block has the number of parts; the size of the first is read.
        f"if ({vector}) {{ $v = *(uint64 *)uptr($b + 24); "
        "$r = ($r == 1) ? (int64)*(uint64 *)uptr($v + 8) : -1; } "
        f"if ({data}) {{ if ($r < 0) {{ @vectors = count(); }} else {{ "
        f"{open_file_clause('*(uint32 *)uptr($b + 20)')}{FILE_KIND_CLAUSE}"
        f"$file = (uint64)$f; {count_clause('$call', depth)} }} }} "
        "else { @k[$call] = count(); }"
    )


def _under_way(events: EventFields) -> str:
    """Return the probes that sum the times of submissions and of completions."""
    points = [
        point(f"syscalls/sys_exit_{name}")
        for name in REAPING_CALLS
        if f"syscalls/sys_enter_{name}" in events
    ]
    if not points:
        return ""
    moment = "(int64)args->ret * (int64)nsecs"
    given = point("syscalls/sys_exit_io_submit")
    ends = ((given, "given"), *((one, "taken") for one in points))
    # One by one: bpftrace refuses a list if another probe uses the same tracepoint.
    return "\n".join(
        f"{end} /@own[tid] && args->ret > 0/ "
        f"{{ @{name} = sum(args->ret); @{name}at = sum({moment}); }}"
        for end, name in ends
    )


def ring_clauses(events: EventFields, depth: Depth) -> str:
    """Return the probes that follow io_uring's requests; empty if the kernel has no events."""
    submit, complete = "io_uring/io_uring_submit_req", "io_uring/io_uring_complete"
    known = {"req", "opcode"} <= events.get(submit, frozenset())
    if not known or not {"req", "res"} <= events.get(complete, frozenset()):
        return ""
    wanted = " || ".join(f"args->opcode == {code}" for code in (*RINGS, RING_FSYNC))
    return (
        f"{point(submit)} /@own[tid]/ {{ if ({wanted}) {{ "
        f"@u[(uint64)args->req] = ((uint64){FIRST_RING} + (uint64)args->opcode, "
        "(uint64)((struct io_rw *)args->req)->kiocb.ki_pos, nsecs); } }\n"
        f"{point(complete)} {{ $u = @u[(uint64)args->req]; if ($u.0 != 0) {{ "
        "$r = (int64)args->res; if ($r < 0) { @bad[$u.0, -$r] = count(); } "
        f"if ($u.0 == {FIRST_RING + RING_FSYNC}) {{ {timed_clause('$u.0', '$u.2')}}} "
        f"else {{ {_completed(depth)} }} delete(@u[(uint64)args->req]); }} }}"
    )


def _completed(depth: Depth) -> str:
    return (
        "$f = (struct file *)((struct io_rw *)args->req)->kiocb.ki_filp; "
        f"{FILE_KIND_CLAUSE}$pos = $u.1; $file = (uint64)$f; "
        f"if ($r >= 0) {{ {count_clause('$u.0', depth)} }} {duration_clause('$u.0, $how, $dev', '$u.2')}"
    )


# --------------------------------------------------------------------------------------
# The whole bpftrace program.
#
# Decision: calls are counted in the kernel and printed as totals ten times a second, so even
# a million calls per second cause no events that could be lost. Only tracepoints are used:
# many kernels lack kprobes or kfuncs. The tree is a set of threads, initialized with the live
# ones and extended at every fork. The properties of a descriptor (file or pipe, file system,
# O_DIRECT, offset) are read from the kernel's structures, whose layout the kernel provides
# (BTF); without BTF a simpler script is tried.
#
# Decision: the observer marks when counting begins and ends by a system call without effect, whose
# number the script knows: probes are attached and detached one after the other for seconds, in
# which a running server would be counted by some of them and not by others.
# Sources: bpftrace(8), linux/fs.h.

TICK_MS = 100
"""Time between two printings."""
THREADS_SHOWN = 16
SHOWN = 64
"""The number of sizes in a printing, the commonest; the last printing has all."""
CACHE = "filemap/mm_filemap_add_to_page_cache"
THROTTLED = "writeback/balance_dirty_pages"
REQUESTS = "block/block_rq_issue"
_APPENDING = tuple(
    number for number, call in enumerate(DATA_CALLS, FIRST_DATA) if call.name in ("write", "writev")
)
RING_EVENTS = ("io_uring/io_uring_submit_req", "io_uring/io_uring_complete")
_MARKS = "syscalls/sys_enter_getpgid"
_WORKING = ("own", "launch", "s", "at", "since", "u", "on", "off")
"""Maps that have no counts."""


def begin_mark(observer: int) -> int:
    """Return the process of whose group an observer asks when counting begins; the kernel has no
    such numbers."""
    return (1 << 30) + observer


def end_mark(observer: int) -> int:
    """Return the process of whose group an observer asks when counting ends."""
    return (1 << 29) + observer


def wanted_events() -> Iterator[str]:
    """Yield the events whose fields the script needs."""
    for call in DATA_CALLS:
        yield f"syscalls/sys_enter_{call.name}"
    for name in (*TIMED_CALLS, *COUNTED_CALLS):
        yield f"syscalls/sys_enter_{name}"
    for file_system_point in FILE_SYSTEM_POINTS:
        yield f"{file_system_point.category}/{file_system_point.name}"
    yield from (CACHE, THROTTLED, REQUESTS, *RING_EVENTS, _MARKS)


def script(tree: ThreadTree, events: EventFields, depth: Depth, observer: int) -> str:
    """Return the whole program for a tree with these live threads; `observer`: the process that
    marks when counting begins and ends."""
    parts = [
        tree_clauses(tree),
        CPU_CLAUSES,
        *(_data(n, call, events, depth) for n, call in enumerate(DATA_CALLS, FIRST_DATA)),
        _moved([c.name for c in DATA_CALLS if _enters(c.name) in events], depth),
        *_timed(events),
        *_counted_calls(events, depth),
        _mapped(events, depth),
        aio_clauses(events, depth),
        ring_clauses(events, depth) if depth.rings and depth.files else "",
        *_file_systems(events),
        _cache(events),
        _throttled(events),
        _block(events, depth),
    ]
    text = "\n".join(part for part in parts if part)
    marks = _marked(text, observer) if "pid" in events.get(_MARKS, frozenset()) else ""
    return f"{text}\n{marks}{_end(text)}"


def _enters(name: str) -> str:
    return f"syscalls/sys_enter_{name}"


def _leaves(name: str) -> str:
    return point(f"syscalls/sys_exit_{name}")


def _data(number: int, call: DataCall, events: EventFields, depth: Depth) -> str:
    event = _enters(call.name)
    if event not in events:
        return ""
    place = _file_position(call, "(uint64)$f->f_pos" if depth.files else "(uint64)0")
    look, what = "", f"(uint64)0, (uint64)0, {place}, (uint64)0"
    if depth.files:
        look = f"{open_file_clause(f'args->{call.descriptor}')}{FILE_KIND_CLAUSE}"
        what = f"$how, $dev, {place}, (uint64)$f"
    return f"{point(event)} /@own[tid]/ {{ {look}@s[tid] = ((uint64){number}, {what}, nsecs); }}"


def _file_position(call: DataCall, own: str) -> str:
    """Return an expression for a call's offset; `own`: the offset of the open file."""
    if call.offset_at:
        at = f"(uint64)args->{call.offset_at}"
        return f"({at} != 0 ? *(uint64 *)uptr({at}) : {own})"
    if call.offset:
        reported = f"(uint64)args->{call.offset}"
        return f"((int64)args->{call.offset} == -1 ? {own} : {reported})"
    return own


def _moved(names: Iterable[str], depth: Depth) -> str:
    points = ",\n".join(map(_leaves, names))
    return (
        f"{points} /@own[tid]/ {{ $s = @s[tid]; if ($s.0 != 0) {{ $r = (int64)args->ret; "
        "$how = $s.1; $dev = $s.2; $pos = $s.3; $file = $s.4; "
        "if ($r < 0) { @bad[$s.0, -$r] = count(); } "
        f"else {{ {_appended() if depth.files else ''}{count_clause('$s.0', depth)} }} "
        f"{duration_clause('$s.0, $how, $dev', '$s.5')}delete(@s[tid]); }} }}"
    )


def _appended() -> str:
    """Return statements that find the offset of an append: the end of the file, whatever the
    open file's offset was before (open(2), O_APPEND)."""
    wanted = " || ".join(f"$s.0 == {number}" for number in _APPENDING)
    return (
        f"if (($how & {os.O_APPEND << 8}) && ({wanted})) {{ "
        "$pos = (uint64)((struct file *)$file)->f_pos - (uint64)$r; "
        "@at[$file] = $pos; } "
    )


def _timed(events: EventFields) -> Iterator[str]:
    for number, name in enumerate(TIMED_CALLS, FIRST_TIMED):
        if _enters(name) in events:
            yield f"{point(_enters(name))} /@own[tid]/ {{ @since[tid] = nsecs; }}"
            yield (
                f"{_leaves(name)} /@own[tid] && @since[tid]/ "
                f"{{ {timed_clause(f'(uint64){number}', '@since[tid]')}{_failed(number)} "
                "delete(@since[tid]); }"
            )


def _failed(number: int) -> str:
    return f"if (args->ret < 0) {{ @bad[(uint64){number}, -(int64)args->ret] = count(); }}"


def _counted_calls(events: EventFields, depth: Depth) -> Iterator[str]:
    for number, name in enumerate(COUNTED_CALLS, FIRST_COUNTED):
        if _enters(name) in events:
            fresh = _fresh() if name in OPENING_CALLS and depth.files else ""
            # mmap returns an address; user addresses are never negative as signed numbers.
            yield (
                f"{_leaves(name)} /@own[tid]/ "
                f"{{ @k[(uint64){number}] = count(); {_failed(number)} {fresh}}}"
            )


def _fresh() -> str:
    """Return what forgets where the file stood that had this one's place in memory before."""
    return f"if (args->ret >= 0) {{ {open_file_clause('args->ret')}delete(@at[(uint64)$f]); }} "


def _mapped(events: EventFields, depth: Depth) -> str:
    """Return the probe that counts shared file mappings: their I/O causes no calls."""
    event = _enters("mmap")
    if not {"flags", "prot", "fd", "len"} <= events.get(event, frozenset()):
        return ""
    if not depth.files:
        return ""
    # MAP_SHARED (1), not MAP_ANONYMOUS (0x20); PROT_WRITE (2).
    return (
        f"{point(event)} /@own[tid] && (args->flags & 0x21) == 1/ "
        f"{{ {open_file_clause('args->fd')}{FILE_KIND_CLAUSE}if (($how & 15) == 8) {{ "
        "$written = ((uint64)args->prot >> 1) & 1; "
        "@map[$written] = count(); @maplen[$written] = sum((uint64)args->len); } }"
    )


def _file_systems(events: EventFields) -> Iterator[str]:
    for number, file_system_point in enumerate(FILE_SYSTEM_POINTS):
        event = f"{file_system_point.category}/{file_system_point.name}"
        if event in events and _fields(file_system_point) <= events[event]:
            device = (
                f"(uint64)args->{file_system_point.device}"
                if file_system_point.device
                else "(uint64)0"
            )
            size = (
                f"(uint64)args->{file_system_point.size}" if file_system_point.size else "(uint64)0"
            )
            yield (
                f"{point(event)} /@own[tid]/ "
                f"{{ @fs[(uint64){number}, {device}, {size}] = count(); }}"
            )


def _fields(one: FileSystemPoint) -> set[str]:
    return {field for field in (one.size, one.device) if field}


def _cache(events: EventFields) -> str:
    if CACHE not in events:
        return ""
    # In kernels before large folios, one event is one page.
    pages = "(uint64)1 << args->order" if "order" in events[CACHE] else "(uint64)1"
    return (
        f"{point(CACHE)} /@own[tid]/ {{ $s = @s[tid]; "
        f"@cache[(uint64)args->s_dev, $s.0] = sum({pages}); }}"
    )


def _throttled(events: EventFields) -> str:
    if "pause" not in events.get(THROTTLED, frozenset()):
        return ""
    return (
        f"{point(THROTTLED)} /@own[tid] && args->pause > 0/ "
        "{ @pauses = count(); @paused = sum(args->pause); }"
    )


def _block(events: EventFields, depth: Depth) -> str:
    if not {"dev", "rwbs", "bytes"} <= events.get(REQUESTS, frozenset()):
        return ""
    # PF_KTHREAD: writeback by kernel threads, for any program.
    kernel = "(((struct task_struct *)curtask)->flags & 0x200000) ? 2 : 0"
    kernel = kernel if depth.files else "0"
    return (
        f"{point(REQUESTS)} /@over == 0/ {{ $by = @own[tid] ? 1 : ({kernel}); "
        "@blk[$by, (uint64)args->dev, args->rwbs, (uint64)args->bytes] = count(); }"
    )


def _marked(text: str, observer: int) -> str:
    """Return the probe of the observer's marks: it clears the counts, and at the end forgets whose
    calls are counted."""
    maps = dict.fromkeys(re.findall(r"@(\w+)", text))
    counts = " ".join(f"clear(@{name});" for name in maps if name not in (*_WORKING, "over"))
    return (
        f"{point(_MARKS)} /args->pid == {begin_mark(observer)}/ {{ {counts} }}\n"
        f"{point(_MARKS)} /args->pid == {end_mark(observer)}/ "
        "{ @over = 1; clear(@own); clear(@launch); }\n"
    )


def _end(text: str) -> str:
    """Return the probes that print the totals; at the end, working maps are cleared."""
    clear = " ".join(f"clear(@{name});" for name in _WORKING if f"@{name}[" in text)
    return (
        f'interval:ms:{TICK_MS} {{ printf("tick %llu\\n", nsecs); '
        f"print(@cpu, {THREADS_SHOWN}); print(@wait, {THREADS_SHOWN}); "
        f"print(@all, {SHOWN}); print(@n, {SHOWN}); }}\n"
        f'END {{ {clear} printf("tick %llu\\n", nsecs); }}'
    )


# --------------------------------------------------------------------------------------
# What a kernel, or a counting method, cannot show of a trial's I/O, and why. Pure.

Absent = tuple[str, str]
"""(what is not observed, why)."""

_POINTS = (
    ((CACHE,), "what was read into the page cache"),
    ((THROTTLED,), "how long writers waited for dirty pages"),
    ((REQUESTS,), "which requests reached the block layer"),
    (RING_EVENTS, "io_uring"),
)


def has_calls(events: EventFields) -> bool:
    """Return whether this kernel has events of system calls at all."""
    return any(f"syscalls/sys_enter_{call.name}" in events for call in DATA_CALLS)


def absent_events(events: EventFields) -> Iterator[Absent]:
    """Yield what is not observed because this kernel does not have a tracepoint."""
    for names, what in _POINTS:
        lacking = [name for name in names if name not in events]
        if lacking:
            yield what, f"this kernel has no tracepoint {lacking[0]}"


def absent_of(depth: Depth) -> Iterator[Absent]:
    """Yield what bpftrace does not observe at a depth."""
    if not depth.files:
        why = "this kernel does not provide the layout of its structures (BTF)"
        yield "what descriptors are, sequentiality, files, libaio, io_uring", why
    elif not depth.rings:
        yield "io_uring", "this kernel's io_uring has no known tracepoints"


def absent_without(why: str) -> Iterator[Absent]:
    """Yield what is not observed if events are read one by one; `why`: bpftrace's problem."""
    calls = "what descriptors are, sequentiality, time in calls, files that are mapped"
    yield calls, why
    yield "file systems, the page cache, requests to the block layer", why
    yield "io_uring, libaio", why
