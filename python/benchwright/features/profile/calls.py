"""Tables of the system calls and tracepoints to count, with their numbers in our maps.

Decision: one table for the script, its reader and the fallback. Maps use numbers, because
they cost the kernel less than names. Source: syscalls(2), the kernel's events/*/format.
"""

from __future__ import annotations

import msgspec

from benchwright.features.profile.types import Direction


class DataCall(msgspec.Struct, frozen=True):
    """A system call that moves data; its value is the bytes moved."""

    name: str
    direction: Direction
    descriptor: str = "fd"
    """The argument with the file descriptor."""
    offset: str = ""
    """The argument with the offset; empty: the call uses the open file's offset, as preadv2
    and pwritev2 do for -1 (other calls refuse -1)."""
    offset_at: str = ""
    """The argument that points to the offset; a null pointer means the open file's offset."""


DATA_CALLS = (
    DataCall("read", "read"),
    DataCall("write", "write"),
    DataCall("pread64", "read", offset="pos"),
    DataCall("pwrite64", "write", offset="pos"),
    DataCall("readv", "read"),
    DataCall("writev", "write"),
    DataCall("preadv", "read", offset="pos_l"),
    DataCall("pwritev", "write", offset="pos_l"),
    DataCall("preadv2", "read", offset="pos_l"),
    DataCall("pwritev2", "write", offset="pos_l"),
    DataCall("sendto", "write"),
    DataCall("recvfrom", "read"),
    DataCall("sendmsg", "write"),
    DataCall("recvmsg", "read"),
    DataCall("sendfile64", "read", descriptor="in_fd", offset_at="offset"),
    DataCall("copy_file_range", "read", descriptor="fd_in", offset_at="off_in"),
    DataCall("splice", "read", descriptor="fd_in", offset_at="off_in"),
)
FIRST_DATA = 1
"""Number of the first of DATA_CALLS; 0 is no call."""

TIMED_CALLS = ("fsync", "fdatasync", "sync_file_range", "msync", "sync", "syncfs")
FIRST_TIMED = 40
OPENING_CALLS = ("open", "openat", "openat2", "creat")
REAPING_CALLS = ("io_getevents", "io_pgetevents")
"""The calls that collect libaio's completions."""
COUNTED_CALLS = (
    *(*OPENING_CALLS, "close", "lseek", "mmap"),
    *("unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat"),
    *("rmdir", "truncate", "ftruncate", "fallocate", "getdents64"),
    *("newstat", "newfstat", "newlstat", "newfstatat", "statx", "fadvise64"),
    *("io_uring_enter", "io_submit", *REAPING_CALLS),
    *("sendmmsg", "recvmmsg", "vmsplice", "tee"),
)
FIRST_COUNTED = 60

RINGS: dict[int, tuple[str, Direction]] = {
    1: ("io_uring READV", "read"),
    2: ("io_uring WRITEV", "write"),
    4: ("io_uring READ_FIXED", "read"),
    5: ("io_uring WRITE_FIXED", "write"),
    9: ("io_uring SENDMSG", "write"),
    10: ("io_uring RECVMSG", "read"),
    22: ("io_uring READ", "read"),
    23: ("io_uring WRITE", "write"),
    26: ("io_uring SEND", "write"),
    27: ("io_uring RECV", "read"),
}
"""io_uring's opcodes that move data (linux/io_uring.h)."""
RING_FSYNC = 3
FIRST_RING = 1000

AIO: dict[int, tuple[str, Direction]] = {
    0: ("io_submit read", "read"),
    1: ("io_submit write", "write"),
    7: ("io_submit readv", "read"),
    8: ("io_submit writev", "write"),
}
"""libaio's opcodes that move data (linux/aio_abi.h)."""
AIO_VECTORS = (7, 8)
"""The opcodes with a vector of buffers."""
_AIO_OTHERS = {2: "fsync", 3: "fdsync", 5: "poll", 6: "noop"}
FIRST_AIO = 2000
AIO_SEEN = 8
"""The number of operations of one io_submit that are examined."""


class FileSystemPoint(msgspec.Struct, frozen=True):
    """A tracepoint of a file system, with its fields for device and bytes."""

    category: str
    name: str
    means: str
    size: str = ""
    device: str = "dev"


FILE_SYSTEM_POINTS = (
    FileSystemPoint("ext4", "ext4_da_write_end", "buffered write", "copied"),
    FileSystemPoint("ext4", "ext4_write_end", "buffered write", "copied"),
    FileSystemPoint("ext4", "ext4_journalled_write_end", "journalled write", "copied"),
    FileSystemPoint("ext4", "ext4_sync_file_enter", "fsync"),
    FileSystemPoint("xfs", "xfs_file_buffered_write", "buffered write", "count"),
    FileSystemPoint("xfs", "xfs_file_buffered_read", "buffered read", "count"),
    FileSystemPoint("xfs", "xfs_file_fsync", "fsync"),
    FileSystemPoint("btrfs", "btrfs_sync_file", "fsync", device=""),
    FileSystemPoint("iomap", "iomap_dio_rw_begin", "direct I/O", "count"),
)


def data_name(number: int) -> tuple[str, Direction]:
    """Return the name and direction of a data call, from its number in a map."""
    if number >= FIRST_AIO:
        return AIO[number - FIRST_AIO]
    if number >= FIRST_RING:
        return RINGS[number - FIRST_RING]
    call = DATA_CALLS[number - FIRST_DATA]
    return call.name, call.direction


def call_name(number: int) -> str:
    """Return the name of any call, from its number in a map."""
    if number >= FIRST_AIO and number - FIRST_AIO not in AIO:
        code = number - FIRST_AIO
        return f"io_submit {_AIO_OTHERS.get(code, code)}"
    if number == FIRST_RING + RING_FSYNC:
        return "io_uring FSYNC"
    if number >= FIRST_RING or number < FIRST_TIMED:
        return data_name(number)[0]
    if number >= FIRST_COUNTED:
        return COUNTED_CALLS[number - FIRST_COUNTED]
    return TIMED_CALLS[number - FIRST_TIMED]
