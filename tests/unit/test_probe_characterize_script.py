"""The script for this kernel and for those that have less; whose calls count."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.features.profile.bpftrace_program import (
    Depth,
    ThreadTree,
    absent_events,
    has_calls,
    script,
    tree_below,
    wanted_events,
)
from benchwright.features.profile.kernel_counter import (
    CountingTask,
    EventCounts,
    TracefsError,
    events,
    events_of,
    fields_of,
)
from benchwright.features.profile.observer import start_counting
from benchwright.features.profile.totals import AIO, FIRST_AIO, FIRST_RING, RING_FSYNC, call_name
from benchwright.watch.observer import ObserverError

LAUNCHER = ThreadTree((7,), (8,))
FORMAT = """\
name: mm_filemap_add_to_page_cache
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t s_dev;\toffset:32;\tsize:4;\tsigned:0;
\tfield:char name[32];\toffset:36;\tsize:32;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:68;\tsize:4;\tsigned:0;
"""
FIELDS = ("req", "res", "opcode", "dev", "bytes", "rwbs", "s_dev")
MAPPED = ("flags", "prot", "fd", "len")
EVERYTHING = {name: frozenset({*FIELDS, *MAPPED}) for name in wanted_events()}


def test_fields_are_read_from_a_format() -> None:
    assert fields_of(FORMAT) == {"common_type", "s_dev", "name", "cmd"}


def test_events_that_the_kernel_has_not_are_not_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "events/syscalls/sys_enter_read"
    place.mkdir(parents=True)
    (place / "format").write_text(FORMAT)
    found = events(tmp_path, wanted_events())
    assert set(found) == {"syscalls/sys_enter_read"}
    text = script(LAUNCHER, found, Depth(), 9)
    assert "@launch[7] = 1; @own[8] = 1;" in text
    assert "sys_exit_read " in text
    for absent in ("sys_enter_write", "ext4", "block", "io_uring", "balance", "mmap"):
        assert absent not in text


def test_without_the_kernels_structures_none_are_read() -> None:
    full = script(LAUNCHER, EVERYTHING, Depth(), 9)
    plain = script(LAUNCHER, EVERYTHING, Depth(files=False, rings=False), 9)
    assert "task_struct" in full
    for structure in ("task_struct", "f_pos", "io_rw", "f_inode"):
        assert structure in full
        assert structure not in plain
    assert full.count("{") == full.count("}")
    assert plain.count("{") == plain.count("}")


def test_a_call_is_where_it_says_or_where_the_open_file_stands() -> None:
    full = script(LAUNCHER, EVERYTHING, Depth(), 9).splitlines()
    own = "(uint64)$f->f_pos"

    def place(call: str) -> str:
        [line] = (one for one in full if f"sys_enter_{call} " in one)
        return line.partition("$how, $dev, ")[2].removesuffix(", (uint64)$f, nsecs); }")

    assert place("read") == own
    # preadv2(2): the offset -1 is the open file's own.
    told = "(uint64)args->pos_l"
    assert place("preadv2") == f"((int64)args->pos_l == -1 ? {own} : {told})"
    for call, argument in (("sendfile64", "offset"), ("splice", "off_in")):
        at = f"(uint64)args->{argument}"
        assert place(call) == f"({at} != 0 ? *(uint64 *)uptr({at}) : {own})"


def test_pages_of_older_kernels_are_counted_one_by_one() -> None:
    event = "filemap/mm_filemap_add_to_page_cache"
    old = script(LAUNCHER, {event: frozenset({"s_dev"})}, Depth(), 9)
    new = script(LAUNCHER, {event: frozenset({"s_dev", "order"})}, Depth(), 9)
    assert "args->order" not in old
    assert "1 << args->order" in new


def test_what_a_kernel_lacks_is_told_with_its_reason() -> None:
    assert list(absent_events(EVERYTHING)) == []
    [lacking] = absent_events(
        {k: v for k, v in EVERYTHING.items() if not k.startswith("writeback/")}
    )
    assert lacking == (
        "how long writers waited for dirty pages",
        "this kernel has no tracepoint writeback/balance_dirty_pages",
    )
    assert has_calls(EVERYTHING)


def test_a_kernel_without_events_of_calls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TracefsError, match="CONFIG_FTRACE_SYSCALLS"):
        events_of(tmp_path)


def test_every_call_of_a_ring_or_of_libaio_has_a_name() -> None:
    assert call_name(FIRST_RING + RING_FSYNC) == "io_uring FSYNC"
    names = [call_name(FIRST_AIO + opcode) for opcode in range(10)]
    assert names[2:4] == ["io_submit fsync", "io_submit fdsync"]
    assert names[9] == "io_submit 9"
    assert {names[opcode] for opcode in AIO} == {name for name, _ in AIO.values()}


# -- whose calls count -----------------------------------------------------------------


def call(thread: int, name: str, value: int = 0) -> bytes:
    return b" any thing-%d [001] ..... 6.1: sys_%s -> 0x%x\n" % (*(thread, name.encode()), value)


def fork(parent: int, child: int) -> bytes:
    return (
        b" a-%d [000] ..... 6.1: sched_process_fork: comm=a b pid=%d child_comm=a b "
        b"child_pid=%d\n" % (parent, parent, child)
    )


def executed(pid: int, old: int, program: str = "/bin/true") -> bytes:
    return b" a-%d [000] ..... 6.1: sched_process_exec: filename=%s pid=%d old_pid=%d\n" % (
        pid,
        program.encode(),
        pid,
        old,
    )


def counted(*lines: bytes) -> int:
    """Return how many calls of lseek count, by a launcher whose thread is 7."""
    counts = EventCounts((7,))
    for line in lines:
        counts.take(line)
    return sum(counts.maps()["@k"].values())


def test_the_launchers_calls_do_not_count_and_a_commands_do_from_its_exec_on() -> None:
    launching = (call(7, "lseek"), fork(7, 20), call(20, "lseek"), call(7, "lseek"))
    assert counted(*launching) == 0
    command = (executed(20, 20), call(20, "lseek"), fork(20, 21), call(21, "lseek"))
    assert counted(*launching, *command) == 2
    assert counted(b"".join((*launching, *command))) == 2
    # An exec by a thread that is not the first takes the number of the first.
    threads = (fork(7, 20), fork(20, 22), executed(20, 22))
    assert counted(*threads, call(20, "lseek")) == 1
    assert counted(*launching, *command, call(7, "lseek")) == 2


def test_what_measures_from_within_does_not_count_but_its_command_does() -> None:
    script = (fork(7, 20), executed(20, 20, "/bin/sh"), call(20, "lseek"))
    measure = (fork(20, 21), executed(21, 21, "/x/bw-launcher"), call(21, "lseek"))
    command = (fork(21, 22), call(22, "lseek"), executed(22, 22), call(22, "lseek"))
    assert counted(*script, *measure, *command) == 2


def test_a_number_that_is_used_again_is_a_new_process() -> None:
    gone = (fork(7, 20), call(20, "lseek"))
    command = (fork(7, 21), executed(21, 21), fork(21, 20), call(20, "lseek"))
    assert counted(*gone, *command) == 1


def test_the_tree_tells_the_launcher_from_what_it_started(tmp_path: Path) -> None:
    for pid, parent, threads in ((7, 1, (7,)), (8, 7, (8, 9)), (30, 1, (30,))):
        for thread in threads:
            (tmp_path / f"{pid}/task/{thread}").mkdir(parents=True)
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a) S {parent} {'0 ' * 20}\n")
    assert tree_below(7, [30], tmp_path) == ThreadTree((7,), (8, 9, 30))


def test_the_reason_why_bpftrace_does_not_count_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it told is the reason, not that there is none."""

    class Refuses:
        def __init__(self, task: CountingTask, place: Path, why: str) -> None:
            self.task, self.why = task, why

        def wait_until_ready(self) -> None:
            if self.task.bpftrace:
                raise ObserverError("x", "bpftrace does not begin: no BPF here")

        def discard(self) -> None:
            pass

    monkeypatch.setattr("benchwright.features.profile.observer.Counting", Refuses)
    counting = start_counting("/bin/bpftrace", LAUNCHER, tmp_path / "counts")
    assert isinstance(counting, Refuses)
    assert counting.why == "bpftrace does not begin: no BPF here"
