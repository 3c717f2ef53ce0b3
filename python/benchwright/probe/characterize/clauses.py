"""The clauses that several parts of bpftrace's program share: what a file is, what is counted.

Decision: working variables have fixed names ($f the open file, $how what it is, $dev where
it lies, $pos, $r bytes), so that each way of moving data ends in the same counting. Sizes
of files and devices are in one map, those of pipes, sockets and character devices in another: many sizes of
messages must not displace the files'. Sources: linux/fs.h, bpftrace(8).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Events = Mapping[str, frozenset[str]]
"""`syscalls/sys_enter_read` -> the names of its fields, of all events that this kernel has."""


class Depth(msgspec.Struct, frozen=True):
    """How much of the kernel's own structures is looked at."""

    files: bool = True
    """What a descriptor is."""
    rings: bool = True
    """What io_uring's requests are."""


def point(event: str) -> str:
    """Return a tracepoint as bpftrace calls it."""
    return f"tracepoint:{event.replace('/', ':')}"


def opened(descriptor: str) -> str:
    """Return statements that make $f the open file of a descriptor."""
    return (
        "$fds = (uint64)((struct task_struct *)curtask)->files->fdt->fd; "
        f"$f = (struct file *)*(uint64 *)($fds + 8 * (uint64){descriptor}); "
    )


WHAT = (
    "$i = $f->f_inode; $k = ($i->i_mode >> 12) & 15; "
    "$how = (uint64)$k | ((uint64)$f->f_flags << 8); "
    "$dev = ($k == 6 || $k == 2) ? (uint64)$i->i_rdev : (uint64)$i->i_sb->s_dev; "
)
"""Makes of $f what it is, $how, and where it lies, $dev.

`$how`: bits 0..3 the kind (st_mode's), from bit 8 on the flags of open(2)."""


def counts(call: str, depth: Depth) -> str:
    """Return statements that count $r bytes moved: $how, $dev, $pos, $file are known."""
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


def lasted(key: str, begin: str) -> str:
    """Return statements that add up how long a call lasted, and its power of two [ns]."""
    return f"@ns[{key}] = sum(nsecs - {begin}); @lat[{key}] = hist(nsecs - {begin}); "


def timed(call: str, begin: str) -> str:
    """Return statements that count a call that moves no data and lasted from `begin` on."""
    return (
        f"@k[{call}] = count(); @kns[{call}] = sum(nsecs - {begin}); "
        f"@klat[{call}] = hist(nsecs - {begin}); "
    )
