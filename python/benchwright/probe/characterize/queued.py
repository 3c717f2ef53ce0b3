"""The part of bpftrace's program that sees I/O that is handed over and not waited for.

Decision: io_uring's requests are followed from submission to completion; libaio's blocks are
read when they are handed over, because their completions tell no place and no file. How many
of those are under way follows from the sums of both moments. Sources: linux/aio_abi.h
(struct iocb), io_uring(7).
"""

from __future__ import annotations

from benchwright.probe.characterize.calls import (
    AIO,
    AIO_SEEN,
    AIO_VECTORS,
    FIRST_AIO,
    FIRST_RING,
    REAPING_CALLS,
    RING_FSYNC,
    RINGS,
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


def aio(events: Events, depth: Depth) -> str:
    """Return what looks at the control blocks that io_submit is handed."""
    if "syscalls/sys_enter_io_submit" not in events or not depth.files:
        return ""
    one = f"if ($j < (uint64)args->nr) {{ {_block(depth)} }} $j = $j + 1; "
    return (
        f"{point('syscalls/sys_enter_io_submit')} /@own[tid]/ {{ "
        f"$list = (uint64)args->iocbpp; $j = (uint64)0; unroll({AIO_SEEN}) {{ {one} }} "
        f"if (args->nr > {AIO_SEEN}) {{ @unseen = sum(args->nr - {AIO_SEEN}); }} }}\n"
        f"{_under_way(events)}"
    )


def _block(depth: Depth) -> str:
    """Return what counts one control block, the $j-th."""
    vector = " || ".join(f"$op == {opcode}" for opcode in AIO_VECTORS)
    data = " || ".join(f"$op == {opcode}" for opcode in AIO)
    return (
        "$b = *(uint64 *)uptr($list + 8 * $j); $op = (uint64)*(uint16 *)uptr($b + 16); "
        f"$call = (uint64){FIRST_AIO} + $op; "
        "$r = (int64)*(uint64 *)uptr($b + 32); $pos = *(uint64 *)uptr($b + 40); "
        # Of a vector the block has the number of parts; the size of one part is there.
        f"if ({vector}) {{ $v = *(uint64 *)uptr($b + 24); "
        "$r = ($r == 1) ? (int64)*(uint64 *)uptr($v + 8) : -1; } "
        f"if ({data}) {{ if ($r < 0) {{ @vectors = count(); }} else {{ "
        f"{opened('*(uint32 *)uptr($b + 20)')}{WHAT}"
        f"$file = (uint64)$f; {counts('$call', depth)} }} }} "
        "else { @k[$call] = count(); }"
    )


def _under_way(events: Events) -> str:
    """Return what sums up when operations were handed over, and when they were taken back."""
    taken = [
        point(f"syscalls/sys_exit_{name}")
        for name in REAPING_CALLS
        if f"syscalls/sys_enter_{name}" in events
    ]
    if not taken:
        return ""
    moment = "(int64)args->ret * (int64)nsecs"
    given = point("syscalls/sys_exit_io_submit")
    ends = ((given, "given"), *((one, "taken") for one in taken))
    # One by one: a list beside another probe of the same point is refused.
    return "\n".join(
        f"{end} /@own[tid] && args->ret > 0/ "
        f"{{ @{name} = sum(args->ret); @{name}at = sum({moment}); }}"
        for end, name in ends
    )


def rings(events: Events, depth: Depth) -> str:
    """Return what follows io_uring's requests; empty where this kernel does not tell them."""
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
        f"if ($u.0 == {FIRST_RING + RING_FSYNC}) {{ {timed('$u.0', '$u.2')}}} "
        f"else {{ {_completed(depth)} }} delete(@u[(uint64)args->req]); }} }}"
    )


def _completed(depth: Depth) -> str:
    return (
        "$f = (struct file *)((struct io_rw *)args->req)->kiocb.ki_filp; "
        f"{WHAT}$pos = $u.1; $file = (uint64)$f; "
        f"if ($r >= 0) {{ {counts('$u.0', depth)} }} {lasted('$u.0, $how, $dev', '$u.2')}"
    )
