"""The program that the kernel runs to count a tree's I/O, in bpftrace's language. Pure.

Decision: everything is counted in the kernel and printed as totals ten times a second, so a million
calls a second cost no events and lose none. Tracepoints only: kprobes and kfuncs are
missing from many kernels. The tree is a set of threads, seeded with those that live and
extended at every fork. What a descriptor is (file, pipe, its file system, O_DIRECT, where
it stands) is read from the kernel's own structures, whose layout the kernel tells (BTF);
a script without that is tried where it does not. Sources: bpftrace(8), linux/fs.h.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from benchwright.probe.characterize.calls import (
    COUNTED_CALLS,
    DATA_CALLS,
    FILE_SYSTEM_POINTS,
    FIRST_COUNTED,
    FIRST_DATA,
    FIRST_TIMED,
    OPENING_CALLS,
    TIMED_CALLS,
    DataCall,
    FileSystemPoint,
)
from benchwright.probe.characterize.clauses import (
    WHAT,
    Depth,
    Events,
    counts,
    lasted,
    opened,
    point,
    timed,
)
from benchwright.probe.characterize.queued import aio, rings
from benchwright.probe.characterize.tree import PROCESSORS, Tree, following

TICK_MS = 100
"""Between two printings."""
THREADS_SHOWN = 16
SHOWN = 64
"""Sizes in a printing, the commonest; the last one has all."""
CACHE = "filemap/mm_filemap_add_to_page_cache"
THROTTLED = "writeback/balance_dirty_pages"
REQUESTS = "block/block_rq_issue"
_APPENDING = tuple(
    number
    for number, call in enumerate(DATA_CALLS, FIRST_DATA)
    if call.name in ("write", "writev")
)
RING_EVENTS = ("io_uring/io_uring_submit_req", "io_uring/io_uring_complete")


def wanted_events() -> Iterator[str]:
    """Yield the events whose fields the script has to know."""
    for call in DATA_CALLS:
        yield f"syscalls/sys_enter_{call.name}"
    for name in (*TIMED_CALLS, *COUNTED_CALLS):
        yield f"syscalls/sys_enter_{name}"
    for one in FILE_SYSTEM_POINTS:
        yield f"{one.category}/{one.name}"
    yield from (CACHE, THROTTLED, REQUESTS, *RING_EVENTS)


def script(tree: Tree, events: Events, depth: Depth) -> str:
    """Return the whole program for a tree whose threads are these now."""
    parts = [
        following(tree),
        PROCESSORS,
        *(
            _data(n, call, events, depth)
            for n, call in enumerate(DATA_CALLS, FIRST_DATA)
        ),
        _moved([c.name for c in DATA_CALLS if _enters(c.name) in events], depth),
        *_timed(events),
        *_counted(events, depth),
        _mapped(events, depth),
        aio(events, depth),
        rings(events, depth) if depth.rings and depth.files else "",
        *_file_systems(events),
        _cache(events),
        _throttled(events),
        _block(events, depth),
    ]
    text = "\n".join(part for part in parts if part)
    return f"{text}\n{_end(text)}"


def _enters(name: str) -> str:
    return f"syscalls/sys_enter_{name}"


def _leaves(name: str) -> str:
    return point(f"syscalls/sys_exit_{name}")


def _data(number: int, call: DataCall, events: Events, depth: Depth) -> str:
    event = _enters(call.name)
    if event not in events:
        return ""
    place = _place(call, "(uint64)$f->f_pos" if depth.files else "(uint64)0")
    look, what = "", f"(uint64)0, (uint64)0, {place}, (uint64)0"
    if depth.files:
        look = f"{opened(f'args->{call.descriptor}')}{WHAT}"
        what = f"$how, $dev, {place}, (uint64)$f"
    return (
        f"{point(event)} /@own[tid]/ {{ {look}"
        f"@s[tid] = ((uint64){number}, {what}, nsecs); }}"
    )


def _place(call: DataCall, own: str) -> str:
    """Return where a call begins; `own`: where the open file stands."""
    if call.offset_at:
        at = f"(uint64)args->{call.offset_at}"
        return f"({at} != 0 ? *(uint64 *)uptr({at}) : {own})"
    if call.offset:
        told = f"(uint64)args->{call.offset}"
        return f"((int64)args->{call.offset} == -1 ? {own} : {told})"
    return own


def _moved(names: Iterable[str], depth: Depth) -> str:
    points = ",\n".join(map(_leaves, names))
    return (
        f"{points} /@own[tid]/ {{ $s = @s[tid]; if ($s.0 != 0) {{ $r = (int64)args->ret; "
        "$how = $s.1; $dev = $s.2; $pos = $s.3; $file = $s.4; "
        "if ($r < 0) { @bad[$s.0, -$r] = count(); } "
        f"else {{ {_appended() if depth.files else ''}{counts('$s.0', depth)} }} "
        f"{lasted('$s.0, $how, $dev', '$s.5')}delete(@s[tid]); }} }}"
    )


def _appended() -> str:
    """Return what finds where an append was: at the end, and so in order, whatever the open
    file's own place was before (open(2), O_APPEND)."""
    wanted = " || ".join(f"$s.0 == {number}" for number in _APPENDING)
    return (
        f"if (($how & {os.O_APPEND << 8}) && ({wanted})) {{ "
        "$pos = (uint64)((struct file *)$file)->f_pos - (uint64)$r; "
        "@at[$file] = $pos; } "
    )


def _timed(events: Events) -> Iterator[str]:
    for number, name in enumerate(TIMED_CALLS, FIRST_TIMED):
        if _enters(name) in events:
            yield f"{point(_enters(name))} /@own[tid]/ {{ @since[tid] = nsecs; }}"
            yield (
                f"{_leaves(name)} /@own[tid] && @since[tid]/ "
                f"{{ {timed(f'(uint64){number}', '@since[tid]')}{_failed(number)} "
                "delete(@since[tid]); }"
            )


def _failed(number: int) -> str:
    return (
        f"if (args->ret < 0) {{ @bad[(uint64){number}, -(int64)args->ret] = count(); }}"
    )


def _counted(events: Events, depth: Depth) -> Iterator[str]:
    for number, name in enumerate(COUNTED_CALLS, FIRST_COUNTED):
        if _enters(name) in events:
            fresh = _fresh() if name in OPENING_CALLS and depth.files else ""
            # mmap answers with an address, which is negative as a signed number for no user.
            yield (
                f"{_leaves(name)} /@own[tid]/ "
                f"{{ @k[(uint64){number}] = count(); {_failed(number)} {fresh}}}"
            )


def _fresh() -> str:
    """Return what forgets where the file stood that had this one's place in memory before."""
    return f"if (args->ret >= 0) {{ {opened('args->ret')}delete(@at[(uint64)$f]); }} "


def _mapped(events: Events, depth: Depth) -> str:
    """Return what counts files that are mapped and shared: their I/O is no call."""
    event = _enters("mmap")
    if not {"flags", "prot", "fd", "len"} <= events.get(event, frozenset()):
        return ""
    if not depth.files:
        return ""
    # MAP_SHARED (1), not MAP_ANONYMOUS (0x20); PROT_WRITE (2).
    return (
        f"{point(event)} /@own[tid] && (args->flags & 0x21) == 1/ "
        f"{{ {opened('args->fd')}{WHAT}if (($how & 15) == 8) {{ "
        "$written = ((uint64)args->prot >> 1) & 1; "
        "@map[$written] = count(); @maplen[$written] = sum((uint64)args->len); } }"
    )


def _file_systems(events: Events) -> Iterator[str]:
    for number, one in enumerate(FILE_SYSTEM_POINTS):
        event = f"{one.category}/{one.name}"
        if event in events and _fields(one) <= events[event]:
            device = f"(uint64)args->{one.device}" if one.device else "(uint64)0"
            size = f"(uint64)args->{one.size}" if one.size else "(uint64)0"
            yield (
                f"{point(event)} /@own[tid]/ "
                f"{{ @fs[(uint64){number}, {device}, {size}] = count(); }}"
            )


def _fields(one: FileSystemPoint) -> set[str]:
    return {field for field in (one.size, one.device) if field}


def _cache(events: Events) -> str:
    if CACHE not in events:
        return ""
    # Before large folios an event was a page.
    pages = "(uint64)1 << args->order" if "order" in events[CACHE] else "(uint64)1"
    return (
        f"{point(CACHE)} /@own[tid]/ {{ $s = @s[tid]; "
        f"@cache[(uint64)args->s_dev, $s.0] = sum({pages}); }}"
    )


def _throttled(events: Events) -> str:
    if "pause" not in events.get(THROTTLED, frozenset()):
        return ""
    return (
        f"{point(THROTTLED)} /@own[tid] && args->pause > 0/ "
        "{ @pauses = count(); @paused = sum(args->pause); }"
    )


def _block(events: Events, depth: Depth) -> str:
    if not {"dev", "rwbs", "bytes"} <= events.get(REQUESTS, frozenset()):
        return ""
    # PF_KTHREAD: what the page cache writes later, for whomever.
    kernel = "(((struct task_struct *)curtask)->flags & 0x200000) ? 2 : 0"
    kernel = kernel if depth.files else "0"
    return (
        f"{point(REQUESTS)} {{ $by = @own[tid] ? 1 : ({kernel}); "
        "@blk[$by, (uint64)args->dev, args->rwbs, (uint64)args->bytes] = count(); }"
    )


def _end(text: str) -> str:
    """Return what prints the totals; working maps, which are no totals, are emptied at the end."""
    working = ("own", "launch", "s", "at", "since", "u", "on", "off")
    clear = " ".join(f"clear(@{name});" for name in working if f"@{name}[" in text)
    return (
        f'interval:ms:{TICK_MS} {{ printf("tick %llu\\n", nsecs); '
        f"print(@cpu, {THREADS_SHOWN}); print(@wait, {THREADS_SHOWN}); "
        f"print(@n, {SHOWN}); }}\n"
        f'END {{ {clear} printf("tick %llu\\n", nsecs); }}'
    )
