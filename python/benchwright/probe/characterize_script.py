"""The program that the kernel runs to count a tree's I/O, in bpftrace's language. Pure.

Decision: everything is counted in the kernel and printed as totals ten times a second, so a million
calls a second cost no events and lose none. Tracepoints only: kprobes and kfuncs are
missing from many kernels. The tree is a set of threads, seeded with those that live and
extended at every fork. What a descriptor is (file, pipe, its file system, O_DIRECT, where
it stands) is read from the kernel's own structures, whose layout the kernel tells (BTF);
a script without that is tried where it does not. Sources: bpftrace(8), linux/fs.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from benchwright.probe.characterize_calls import (
    AIO_SEEN,
    COUNTED_CALLS,
    DATA_CALLS,
    FILE_SYSTEM_POINTS,
    FIRST_AIO,
    FIRST_COUNTED,
    FIRST_DATA,
    FIRST_RING,
    FIRST_TIMED,
    RINGS,
    TIMED_CALLS,
    DataCall,
    FileSystemPoint,
)

TICK_MS = 100
"""Between two printings."""
FLUSH_HERTZ = 49
"""How often a running thread's time is added up while it runs on."""
THREADS_SHOWN = 16
SHOWN = 64
"""Sizes in a printing, the commonest; the last one has all."""

Events = Mapping[str, frozenset[str]]
"""`syscalls/sys_enter_read` -> the names of its fields, of all events that this kernel has."""


class Depth(msgspec.Struct, frozen=True):
    """How much of the kernel's own structures is looked at."""

    files: bool = True
    """What a descriptor is."""
    rings: bool = True
    """What io_uring's requests are."""


def wanted_events() -> Iterator[str]:
    """Yield the events whose fields the script has to know."""
    for call in DATA_CALLS:
        yield f"syscalls/sys_enter_{call.name}"
    for name in (*TIMED_CALLS, *COUNTED_CALLS):
        yield f"syscalls/sys_enter_{name}"
    for point in FILE_SYSTEM_POINTS:
        yield f"{point.category}/{point.name}"
    yield from (
        "filemap/mm_filemap_add_to_page_cache",
        "writeback/balance_dirty_pages",
        "block/block_rq_issue",
        "io_uring/io_uring_submit_req",
        "io_uring/io_uring_complete",
    )


def script(threads: Iterable[int], events: Events, depth: Depth) -> str:
    """Return the whole program for a tree whose threads are these now."""
    parts = [
        _tree(threads),
        _PROCESSORS,
        *(
            _data(n, call, events, depth)
            for n, call in enumerate(DATA_CALLS, FIRST_DATA)
        ),
        _moved(
            [c.name for c in DATA_CALLS if f"syscalls/sys_enter_{c.name}" in events]
        ),
        *_timed(events),
        *_counted(events),
        _aio(events, depth),
        _rings(events) if depth.rings and depth.files else "",
        *_file_systems(events),
        _cache(events),
        _throttled(events),
        _block(events, depth),
    ]
    text = "\n".join(part for part in parts if part)
    return f"{text}\n{_end(text)}"


def _tree(threads: Iterable[int]) -> str:
    seeds = " ".join(f"@own[{thread}] = 1;" for thread in threads)
    return (
        f"BEGIN {{ {seeds} }}\n"
        "tracepoint:sched:sched_process_fork /@own[tid]/ { @own[args->child_pid] = 1; }\n"
        "tracepoint:sched:sched_process_exit /@own[tid]/ "
        "{ delete(@own[tid]); delete(@s[tid]); delete(@off[tid]); }"
    )


_PROCESSORS = f"""\
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
"""Who runs, and who was put aside while it could run on (0x100: preempted). Samples alone lost:
those that fall into a program like this one are not taken, and here many do."""


def _file(descriptor: str) -> str:
    """Return statements that make $f the open file, $how what it is, $dev where it lies.

    `$how`: bits 0..3 the kind (st_mode's), from bit 8 on the flags of open(2).
    """
    return (
        "$fds = (uint64)((struct task_struct *)curtask)->files->fdt->fd; "
        f"$f = (struct file *)*(uint64 *)($fds + 8 * (uint64){descriptor}); {_WHAT}"
    )


_WHAT = (
    "$i = $f->f_inode; $k = ($i->i_mode >> 12) & 15; "
    "$how = (uint64)$k | ((uint64)$f->f_flags << 8); "
    "$dev = $k == 6 ? (uint64)$i->i_rdev : (uint64)$i->i_sb->s_dev; "
)


def _data(number: int, call: DataCall, events: Events, depth: Depth) -> str:
    event = f"syscalls/sys_enter_{call.name}"
    if event not in events:
        return ""
    own = "(uint64)$f->f_pos" if depth.files else "(uint64)0"
    place = f"(uint64)args->{call.offset}" if call.offset else own
    look, what = "", f"(uint64)0, (uint64)0, {place}, (uint64)0"
    if depth.files:
        look, what = (
            _file(f"args->{call.descriptor}"),
            f"$how, $dev, {place}, (uint64)$f",
        )
    return (
        f"{_point(event)} /@own[tid]/ {{ {look}"
        f"@s[tid] = ((uint64){number}, {what}, nsecs); }}"
    )


def _counts(call: str) -> str:
    """Return statements that count $r bytes moved: $how, $dev, $pos, $at (file) are known."""
    return (
        f"if (($how & 15) == 8 || ($how & 15) == 6 || $how == 0) "
        f"{{ @n[{call}, $how, $dev, (uint64)$r] = count(); "
        f"if ($pos == @at[$file]) {{ @seq[{call}, $how, $dev] = count(); }} "
        f"@at[$file] = $pos + (uint64)$r; }} "
        f"else {{ @n[{call}, $how, (uint64)0, (uint64)0] = count(); "
        f"@sum[{call}, $how] = sum($r); }}"
    )


def _moved(names: Iterable[str]) -> str:
    points = ",\n".join(_point(f"syscalls/sys_exit_{name}") for name in names)
    return (
        f"{points} /@own[tid]/ {{ $s = @s[tid]; if ($s.0 != 0) {{ $r = (int64)args->ret; "
        "$how = $s.1; $dev = $s.2; $pos = $s.3; $file = $s.4; "
        "if ($r < 0) { @bad[$s.0, -$r] = count(); } "
        f"else {{ {_counts('$s.0')} }} "
        "@ns[$s.0, $how, $dev] = sum(nsecs - $s.5); delete(@s[tid]); } }"
    )


def _timed(events: Events) -> Iterator[str]:
    for number, name in enumerate(TIMED_CALLS, FIRST_TIMED):
        if f"syscalls/sys_enter_{name}" in events:
            yield (
                f"{_point(f'syscalls/sys_enter_{name}')} /@own[tid]/ "
                "{ @since[tid] = nsecs; }"
            )
            yield (
                f"{_point(f'syscalls/sys_exit_{name}')} /@own[tid] && @since[tid]/ "
                f"{{ @k[(uint64){number}] = count(); "
                f"@kns[(uint64){number}] = sum(nsecs - @since[tid]); "
                f"if (args->ret < 0) {{ @bad[(uint64){number}, -(int64)args->ret] = count(); }} "
                "delete(@since[tid]); }"
            )


def _counted(events: Events) -> Iterator[str]:
    for number, name in enumerate(COUNTED_CALLS, FIRST_COUNTED):
        if f"syscalls/sys_enter_{name}" in events:
            # mmap answers with an address, which is negative as a signed number for no user.
            yield (
                f"{_point(f'syscalls/sys_exit_{name}')} /@own[tid]/ "
                f"{{ @k[(uint64){number}] = count(); "
                f"if (args->ret < 0) {{ @bad[(uint64){number}, -(int64)args->ret] = count(); }} }}"
            )


def _aio(events: Events, depth: Depth) -> str:
    """Return what looks at the control blocks that io_submit is handed (struct iocb)."""
    if "syscalls/sys_enter_io_submit" not in events or not depth.files:
        return ""
    one = (
        "if ($j < (uint64)args->nr) { "
        "$b = *(uint64 *)uptr($list + 8 * $j); "
        f"$call = (uint64){FIRST_AIO} + (uint64)*(uint16 *)uptr($b + 16); "
        f"{_file('*(uint32 *)uptr($b + 20)')}"
        "$r = (int64)*(uint64 *)uptr($b + 32); $pos = *(uint64 *)uptr($b + 40); "
        f"$file = (uint64)$f; {_counts('$call')} }} $j = $j + 1; "
    )
    return (
        f"{_point('syscalls/sys_enter_io_submit')} /@own[tid]/ {{ "
        f"$list = (uint64)args->iocbpp; $j = (uint64)0; unroll({AIO_SEEN}) {{ {one} }} "
        f"if (args->nr > {AIO_SEEN}) {{ @unseen = sum(args->nr - {AIO_SEEN}); }} }}"
    )


def _rings(events: Events) -> str:
    submit, complete = "io_uring/io_uring_submit_req", "io_uring/io_uring_complete"
    if not {"req", "opcode"} <= events.get(submit, frozenset()):
        return ""
    if not {"req", "res"} <= events.get(complete, frozenset()):
        return ""
    data = " || ".join(f"args->opcode == {opcode}" for opcode in RINGS)
    return (
        f"{_point(submit)} /@own[tid]/ {{ if ({data}) {{ "
        f"@u[(uint64)args->req] = ((uint64){FIRST_RING} + (uint64)args->opcode, "
        "(uint64)((struct io_rw *)args->req)->kiocb.ki_pos, nsecs); } }\n"
        f"{_point(complete)} {{ $u = @u[(uint64)args->req]; if ($u.0 != 0) {{ "
        "$f = (struct file *)((struct io_rw *)args->req)->kiocb.ki_filp; "
        f"{_WHAT}$r = (int64)args->res; $pos = $u.1; $file = (uint64)$f; "
        f"if ($r < 0) {{ @bad[$u.0, -$r] = count(); }} else {{ {_counts('$u.0')} }} "
        "@ns[$u.0, $how, $dev] = sum(nsecs - $u.2); delete(@u[(uint64)args->req]); } }"
    )


def _file_systems(events: Events) -> Iterator[str]:
    for number, point in enumerate(FILE_SYSTEM_POINTS):
        event = f"{point.category}/{point.name}"
        if event in events and _fields(point) <= events[event]:
            device = f"(uint64)args->{point.device}" if point.device else "(uint64)0"
            size = f"(uint64)args->{point.size}" if point.size else "(uint64)0"
            yield (
                f"{_point(event)} /@own[tid]/ "
                f"{{ @fs[(uint64){number}, {device}, {size}] = count(); }}"
            )


def _fields(point: FileSystemPoint) -> set[str]:
    return {field for field in (point.size, point.device) if field}


def _cache(events: Events) -> str:
    event = "filemap/mm_filemap_add_to_page_cache"
    if event not in events:
        return ""
    # Before large folios an event was a page.
    pages = "(uint64)1 << args->order" if "order" in events[event] else "(uint64)1"
    return (
        f"{_point(event)} /@own[tid]/ {{ $s = @s[tid]; "
        f"@cache[(uint64)args->s_dev, $s.0] = sum({pages}); }}"
    )


def _throttled(events: Events) -> str:
    event = "writeback/balance_dirty_pages"
    if "pause" not in events.get(event, frozenset()):
        return ""
    return (
        f"{_point(event)} /@own[tid] && args->pause > 0/ "
        "{ @pauses = count(); @paused = sum(args->pause); }"
    )


def _block(events: Events, depth: Depth) -> str:
    event = "block/block_rq_issue"
    if not {"dev", "rwbs", "bytes"} <= events.get(event, frozenset()):
        return ""
    # PF_KTHREAD: what the page cache writes later, for whomever.
    kernel = "(((struct task_struct *)curtask)->flags & 0x200000) ? 2 : 0"
    kernel = kernel if depth.files else "0"
    return (
        f"{_point(event)} {{ $by = @own[tid] ? 1 : ({kernel}); "
        "@blk[$by, (uint64)args->dev, args->rwbs, (uint64)args->bytes] = count(); }"
    )


def _point(event: str) -> str:
    return f"tracepoint:{event.replace('/', ':')}"


def _end(text: str) -> str:
    """Return what prints the totals; working maps, which are no totals, are emptied at the end."""
    working = ("own", "s", "at", "since", "u", "on", "off")
    clear = " ".join(f"clear(@{name});" for name in working if f"@{name}[" in text)
    return (
        f'interval:ms:{TICK_MS} {{ printf("tick %llu\\n", nsecs); '
        f"print(@cpu, {THREADS_SHOWN}); print(@wait, {THREADS_SHOWN}); "
        f"print(@n, {SHOWN}); }}\n"
        f'END {{ {clear} printf("tick %llu\\n", nsecs); }}'
    )
