"""What a person reads of a trial's I/O."""

from __future__ import annotations

from benchwright.model.characterized import (
    BlockTrace,
    BlockUse,
    BusiestThread,
    Characterized,
    FailedCalls,
    FileSystemEvent,
    FileSystemUse,
    OtherCalls,
    Phase,
    SizeCalls,
    Transfer,
)
from benchwright.report.characterize import characterize_lines, characterize_object

BONNIE = BusiestThread("bonnie", 0.8, 0.15, 0.8)
DD = BusiestThread("dd", 0.95, 0.0, 1.9)
ONES = (SizeCalls(1, 998), SizeCalls(8192, 2))
FOUND = Characterized(
    seconds=10.0,
    method="bpftrace",
    transfers=(
        Transfer(
            *("write", "write", "file", 1000, 17382),
            device="254:0",
            sizes=ONES,
            sequential=1.0,
            seconds=0.25,
        ),
        Transfer("read", "read", "pipe", 3, 1024),
    ),
    others=(OtherCalls("fsync", 2, 0.5), OtherCalls("lseek", 1)),
    failed=(FailedCalls("write", "ENOSPC", 4),),
    phases=(
        Phase(0.0, 8.0, "write", "file", 1, 1.0, 1000.0, 1000.0, BONNIE),
        Phase(8.0, 9.0, "write", "file", 8192, 0.5, 200.0, 1638400.0, DD),
        Phase(9.0, 10.0, "write", "file", 512, 1.0, 1.0, 512.0),
    ),
    file_systems=(
        FileSystemUse("0:21", "proc", "/proc", "proc", 0, 0, 0),
        FileSystemUse(
            *("254:0", "ext4", "/", "/dev/vda", 0, 40960, 0),
            events=(
                FileSystemEvent(
                    "ext4_da_write_end", "buffered write", 1000, 17382, ONES
                ),
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
        response_s_p50=0.001,
        response_s_p99=0.002,
    ),
    absent=(("io_uring", "no tracepoints"),),
)


def test_the_whole_description() -> None:
    assert (
        "\n".join(characterize_lines(FOUND))
        == """\
I/O of the trial in 10.0 s, counted by bpftrace; being counted slows small calls down
  system calls
    write, buffered file on ext4 /: 1,000 calls of 1 B (99.8 %), 8 KiB (0.2 %); \
16.97 KiB in all; sequential 100 %; 1.697 KiB/s; 0.25 s in them
    read, pipe: 3 calls; 1 KiB in all; 102 B/s
    also fsync 2 (0.5 s), lseek 1
    failed: write ENOSPC 4
  over time, the commonest call
       0.0 - 8.0 s  write of 1 B (file): 1,000/s, 1000 B/s, 100 % of calls; \
one thread (bonnie) ran 80 % of it and could have run another 15 %: \
it is the limit
       8.0 - 9.0 s  write of 8 KiB (file): 200/s, 1.562 MiB/s, 50 % of calls; \
one thread (dd) ran 95 % of it
    and 1 with fewer calls
  ext4 on /dev/vda (/)
    buffered write: 1,000 of 1 B (99.8 %), 8 KiB (0.2 %); 16.97 KiB in all \
(ext4_da_write_end)
    fsync: 2 (ext4_sync_file_enter)
    page cache: 0 B brought in by reads, 40 KiB added by writes
  device vda
    flush by kernel threads, for anybody: 1
    read by the trial's tasks: 2 of 4 KiB (100 %); 8 KiB in all
    write by kernel threads, for anybody: 2 of 12 KiB (100 %); 24 KiB in all
    write by other tasks: 1 of 4 KiB (100 %); 4 KiB in all
    all requests: sequential 50 %, 0.25 requests under way, response p50 1 ms, p99 2 ms
  writers were made to wait 3 times, 1.5 s in all, for dirty pages to be written
  block trace: watched/s1/a.bw (bw trace stat, bw trace compare)
  from calls to the device
    write: 16.97 KiB by calls -> 0 B (0 x) of the device by itself, at most 24 KiB (1.41 x) \
with what the kernel wrote meanwhile
    read: 0 B by calls -> 8 KiB of the device
  not seen: io_uring: no tracepoints"""
    )


def test_nothing_at_all_is_said_too() -> None:
    lines = list(characterize_lines(Characterized(1.0, "bpftrace", lost_events=5)))
    assert lines[1:] == [
        "  5 events were lost: all counts are too low",
        "  system calls",
        "    no data were moved by system calls",
    ]


def test_the_object_leaves_out_what_is_not_known() -> None:
    plain = characterize_object(Characterized(1.0, "tracefs"))
    assert plain == {"seconds": 1.0, "method": "tracefs"}
