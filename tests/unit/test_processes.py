"""Processes of a made-up /proc, and of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchwright.core.processes import (
    ProcessIdentity,
    all_processes,
    ancestors_of,
    children_of,
    descendants_of,
    is_alive,
    parse_stat,
    read_process,
    signal_all,
    thread_ids,
    tree_of,
)


def add(proc: Path, pid: int, stat: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(stat)


def line(pid: int, parent: int, *, name: str = "x", state: str = "S") -> str:
    """Return a line of /proc/PID/stat; the process started at ten times its id."""
    return f"{pid} ({name}) {state} {parent} {'0 ' * 17}{10 * pid} 0 0\n"


def test_a_process_is_its_id_and_its_start(tmp_path: Path) -> None:
    add(tmp_path, 7, line(7, 3, name="odd) name"))
    process = read_process(7, tmp_path)
    assert process is not None
    assert (process.name, process.parent, process.state) == ("odd) name", 3, "S")
    assert process.identity == ProcessIdentity(7, 70)
    assert is_alive(ProcessIdentity(7, 70), tmp_path)
    assert not is_alive(ProcessIdentity(7, 71), tmp_path)
    assert not is_alive(ProcessIdentity(8, 1), tmp_path)


@pytest.mark.parametrize("text", ["", "7 (x) S", "x (x) S 1", "7 (x) S p" + " 0" * 19])
def test_other_text_describes_no_process(text: str) -> None:
    assert parse_stat(text) is None


def test_a_thread_of_the_kernel_has_its_flag() -> None:
    text = f"9 (kworker/0:1) I 2 0 0 0 -1 {0x00200000 | 64} {'0 ' * 12}5 0"
    process = parse_stat(text)
    assert process is not None
    assert process.is_kernel
    assert process.started_ticks == 5


def test_a_zombie_is_not_alive(tmp_path: Path) -> None:
    add(tmp_path, 7, line(7, 3, state="Z"))
    assert not is_alive(ProcessIdentity(7, 70), tmp_path)
    assert children_of(3, tmp_path) == []


def test_a_tree_and_its_ancestors(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (20, 1), (21, 20), (22, 21), (30, 1)):
        add(tmp_path, pid, line(pid, parent))
    processes = all_processes(tmp_path)
    assert tree_of([20, 99], processes) == {20, 21, 22}
    assert ancestors_of(22, tmp_path) == {22, 21, 20, 1}
    assert [one.pid for one in children_of(1, tmp_path)] == [20, 30]
    assert [one.pid for one in descendants_of(20, tmp_path)] == [21, 22]
    assert all_processes(tmp_path / "none") == []


def test_descendants_are_children_of_children() -> None:
    script = "import subprocess; subprocess.run(['cat'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        while len(descendants_of(child.pid)) < 1:
            pass
        mine = {one.pid for one in children_of(os.getpid())}
        deep = {one.pid for one in descendants_of(os.getpid())}
        assert child.pid in mine
        (inner,) = descendants_of(child.pid)
        assert inner.pid in deep - mine
        assert thread_ids([child.pid]) == [child.pid]
        signal_all([inner], signal.SIGKILL)
