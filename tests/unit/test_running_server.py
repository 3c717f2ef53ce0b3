"""A server that runs already: what each of its processes used, and its explanation."""

from __future__ import annotations

from pathlib import Path

from benchwright.core.resource_use import CpuUse, ResourceUse, TaskUse
from benchwright.findings.explanation import explain_running
from benchwright.findings.limit import StatedCapacity
from benchwright.watch.process_use import look_at_tree, process_uses, roots_among
from watched_uses import disk
from watched_uses import use as watched_use

PAGES = 3


def process(proc: Path, pid: int, parent: int, ticks: int, *, started: int = 5) -> None:
    """Write the files of a process with this user time [ticks], half as much of the system."""
    place = proc / str(pid)
    place.mkdir(exist_ok=True)
    fields = [parent, 0, 0, 0, 0, 0, 0, 0, 0, 0, ticks, ticks // 2, 0, 0, 20, 0, 4, 0, started]
    rest = " ".join(map(str, [*fields, 1 << 20, PAGES, 0]))
    (place / "stat").write_text(f"{pid} (a (b) c) S {rest}\n")
    if pid != 3:
        (place / "io").write_text(f"rchar: 1\nread_bytes: {ticks * 10}\nwrite_bytes: 0\n")


def test_each_process_of_a_tree_has_its_own_use(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (2, 1), (3, 2), (7, 1)):
        process(tmp_path, pid, parent, 100)
    before = look_at_tree(2, tmp_path)
    assert sorted(before) == [2, 3], "a process beside the tree is not of it"
    process(tmp_path, 2, 1, 100)
    process(tmp_path, 3, 2, 300)
    process(tmp_path, 4, 2, 50)  # It started meanwhile.
    busiest, fresh, idle = process_uses(before, look_at_tree(2, tmp_path), 2.0)
    assert (busiest.pid, busiest.name, busiest.threads) == (3, "a (b) c", 4)
    assert (busiest.user_cores, busiest.system_cores) == (1.0, 0.5)
    assert busiest.read_bytes_per_s is None, "a file that may not be read is not zero"
    assert (fresh.pid, fresh.cores, fresh.read_bytes_per_s) == (4, 0.375, 250.0)
    assert (idle.pid, idle.cores, idle.read_bytes_per_s) == (2, 0.0, 0.0)


def test_a_reused_number_is_a_new_process(tmp_path: Path) -> None:
    process(tmp_path, 2, 1, 1000)
    before = look_at_tree(2, tmp_path)
    process(tmp_path, 2, 1, 100, started=9)
    (use,) = process_uses(before, look_at_tree(2, tmp_path), 1.0)
    assert use.cores == 1.5


def test_the_roots_of_a_server_are_no_ones_descendants(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (2, 1), (3, 2), (7, 1)):
        process(tmp_path, pid, parent, 0)
    assert roots_among([3, 7, 2], tmp_path) == (2, 7)


def test_a_running_server_has_the_limits_of_a_trial_and_no_figure() -> None:
    cpu = CpuUse(
        count=4, busy=1.0, user=1.0, system=0.0, interrupts=0.0, iowait=0.0, steal=0.0, own=1.0
    )
    task = TaskUse(7, 7, "server", 0.99, "own", 0.99, 10.0, 0.0, ())
    use = ResourceUse(seconds=10.0, samples=100, epochs=(1, 1), cpu=cpu, tasks=(task,))
    explained = explain_running("server (7)", use)
    assert explained.first == "single-threaded-cpu-bound"
    assert explained.running
    assert explained.figure is None
    idle = explain_running(
        "server (7)", ResourceUse(seconds=10.0, samples=100, epochs=(1, 1), cpu=cpu)
    )
    assert not idle.causes
    assert idle.sentence


def test_a_stated_capacity_is_in_the_table_of_what_runs() -> None:
    busy = watched_use(disks=(disk(0.5, 1.0),))
    explained = explain_running("server (7)", busy, (StatedCapacity("vda", 200.0, "1/s"),))
    (row,) = [row for row in explained.table if f"{row.resource} {row.name}" == "disk vda"]
    assert [one.of for one in row.utilization if one.name == "requests"] == [200.0]
