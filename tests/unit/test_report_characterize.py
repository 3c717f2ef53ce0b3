"""What a person reads of a trial's I/O."""

from __future__ import annotations

import msgspec

from benchwright.features.profile.report import characterize_lines
from benchwright.features.profile.types import (
    BlockTrace,
    BlockUse,
    BusiestThread,
    Characterization,
    FailedCalls,
    FileSystemEvent,
    FileSystemUse,
    IoPhase,
    LatencyCalls,
    MappedFiles,
    OtherCalls,
    SizeCalls,
    Transfer,
)

BONNIE = BusiestThread("bonnie", 0.8, 0.15, 0.8)
DD = BusiestThread("dd", 0.95, 0.0, 1.9)
ONES = (SizeCalls(1, 998), SizeCalls(8192, 2))
FOUND = Characterization(
    seconds=10.0,
    method="bpftrace",
    transfers=(
        Transfer(
            *("write", "write", "file", 1000, 17382),
            device="254:0",
            sizes=ONES,
            sequential=1.0,
            seconds=0.25,
            latencies=(LatencyCalls(2048, 985), LatencyCalls(1 << 20, 15)),
        ),
        Transfer("read", "read", "pipe", 3, 1024, sizes=(SizeCalls(341, 3),)),
        Transfer(
            *("read", "read", "character device", 2, 8192),
            node="/dev/zero",
            sizes=(SizeCalls(4096, 2),),
        ),
    ),
    others=(OtherCalls("fsync", 2, 0.5, (LatencyCalls(1 << 28, 2),)), OtherCalls("lseek", 1)),
    failed=(FailedCalls("write", "ENOSPC", 4),),
    mapped=(MappedFiles(True, 1, 65536),),
    queued_s=15.0,
    phases=(
        IoPhase(0.0, 8.0, "write", "file", 1, 1.0, 1000.0, 1000.0, BONNIE),
        IoPhase(8.0, 9.0, "write", "file", 8192, 0.5, 200.0, 1638400.0, DD),
        IoPhase(9.0, 10.0, "write", "file", 512, 1.0, 1.0, 512.0),
    ),
    file_systems=(
        FileSystemUse("0:21", "proc", "/proc", "proc", 0, 0, 0),
        FileSystemUse(
            *("254:0", "ext4", "/", "/dev/vda", 0, 40960, 8192),
            files=2,
            files_bytes=12288,
            events=(
                FileSystemEvent("ext4_da_write_end", "buffered write", 1000, 17382, ONES),
                FileSystemEvent("ext4_sync_file_enter", "fsync", 2),
            ),
        ),
    ),
    throttled=3,
    throttled_s=1.5,
    blocks=(
        BlockUse("vda", "write", "kernel", 2, 24576, (SizeCalls(12288, 2),)),
        BlockUse("vda", "write", "others", 1, 4096, (SizeCalls(4096, 1),)),
        BlockUse("vda", "flush", "kernel", 1, 0),
        BlockUse("vda", "read", "trial", 2, 8192, (SizeCalls(4096, 2),)),
        BlockUse("vdb", "write", "others", 9, 9216),
    ),
    trace=BlockTrace(
        *("watched/s1/a.bw", 4, 0, ("vda",)),
        sequential=0.5,
        queue_mean=0.25,
        queue_at_arrival=1.5,
        queue_max=3,
        response_s_p50=0.001,
        response_s_p99=0.002,
    ),
    absent=(("io_uring", "no tracepoints"),),
)


def test_the_whole_description() -> None:
    assert (
        "\n".join(characterize_lines(FOUND))
        == """\
I/O in 10 s, counted by bpftrace; counting slows small calls down
  system calls
    write, buffered file on ext4 /: 1,000 calls of 1 B (99.8 %), 8 KiB (0.2 %); \
16.97 KiB in total; sequential 100 %; 1.697 KiB/s; 250 ms in them
      p50 < 2.05 us, all < 1.05 ms; 0.025 at once, mean of the trial
    libaio: 1.5 operations at once, mean of the trial
    mapped files, shared, to be written: 1 of 64 KiB in total; access through them is not counted as calls
    also fsync 2 (500 ms; all < 268 ms), lseek 1
    failed: write ENOSPC 4
  pipes, sockets and character devices
    read, pipe: 3 calls of 341 B (100 %); 1 KiB in total; 102 B/s
    read, character device /dev/zero: 2 calls of 4 KiB (100 %); 8 KiB in total; 819 B/s
  over time, the most frequent call
       0.0 - 8.0 s  write of 1 B (file): 1,000/s, 1,000 B/s, 100 % of calls; \
one thread (bonnie) ran 80 % of it and could have run another 15 %: \
it is the limit
       8.0 - 9.0 s  write of 8 KiB (file): 200/s, 1.562 MiB/s, 50 % of calls; \
one thread (dd) ran 95 % of it
    and 1 with fewer calls
  ext4 on /dev/vda (/)
    buffered write: 1,000 of 1 B (99.8 %), 8 KiB (0.2 %); 16.97 KiB in total \
(ext4_da_write_end)
    fsync: 2 (ext4_sync_file_enter)
    different files: 2, 12 KiB up to the highest offset reached in each
    page cache: 0 B brought in by reads, 40 KiB added by writes, 8 KiB otherwise \
(mapped files, programs that start, copies)
  device vda
    flush by kernel threads, for any process: 1
    read by the trial's tasks: 2 of 4 KiB (100 %); 8 KiB in total
    write by kernel threads, for any process: 2 of 12 KiB (100 %); 24 KiB in total
    write by other tasks: 1 of 4 KiB (100 %); 4 KiB in total
    all requests: sequential 50 %, 0.25 in flight (1.5 as each one arrives, at most 3), response p50 1 ms, p99 2 ms
  writers waited 3 times, 1.5 s in total, for dirty pages to be written
  block trace: watched/s1/a.bw (bw trace stat, bw trace compare)
  from calls to the device
    write: 16.97 KiB by calls -> 0 B (0 x) of the device by itself, at most 24 KiB (1.41 x) \
with what the kernel wrote meanwhile
    read: 0 B by calls -> 8 KiB of the device
  not seen: io_uring: no tracepoints"""
    )


def test_nothing_at_all_is_said_too() -> None:
    lines = list(characterize_lines(Characterization(1.0, "bpftrace", lost_events=5)))
    assert lines[1:] == [
        "  5 events were lost: all counts are too low",
        "  system calls",
        "    no data were moved by system calls",
    ]


def test_the_object_leaves_out_what_is_not_known() -> None:
    plain = msgspec.to_builtins(Characterization(1.0, "tracefs"))
    assert plain == {"seconds": 1.0, "method": "tracefs"}


def test_reads_and_writes_are_told_as_shares_and_a_copy_is_both() -> None:
    found = Characterization(
        1.0,
        "bpftrace",
        (
            Transfer("read", "read", "file", 2, 200),
            Transfer("write", "write", "file", 1, 300),
            Transfer("copy_file_range", "read", "file", 1, 500),
            Transfer("read", "read", "pipe", 9999, 9999),
        ),
    )
    assert "    reads are 60 % of the calls and 46.7 % of the bytes" in list(
        characterize_lines(found)
    )


def test_pipes_alone_are_no_data_of_files() -> None:
    found = Characterization(1.0, "bpftrace", (Transfer("read", "read", "pipe", 9, 900),))
    assert list(characterize_lines(found))[1:] == [
        "  system calls",
        "    no data of files or devices were moved by system calls",
        "  pipes, sockets and character devices",
        "    read, pipe: 9 calls; 900 B in total; 900 B/s",
    ]


def test_a_file_system_read_from_memory_is_told_and_proc_is_not() -> None:
    uses = (
        FileSystemUse("0:21", "proc", "/proc", "proc", 0, 0, 0, files=1, files_bytes=9),
        FileSystemUse("254:0", "ext4", "/", "/dev/vda", 0, 0, 0, files=1),
    )
    moved = (
        Transfer("read", "read", "file", 9, 90_000, device="254:0"),
        Transfer("read", "read", "file", 1, 9, device="0:21"),
    )
    found = Characterization(1.0, "bpftrace", moved, file_systems=uses)
    told = "\n".join(characterize_lines(found))
    assert "page cache: 0 B brought in by reads of 87.89 KiB" in told
    assert "proc on proc" not in told
