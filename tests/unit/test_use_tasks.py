"""The busiest threads and other processes of a window, by arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchwright.core.resource_use import ProgramUse, ResourceUse, TaskUse
from series_writer import SECOND, SeriesWriter
from use_of_series import use_between

TENTH = SECOND // 10
MS = 1_000_000

Tables = dict[int, list[list[Any]]]
"""By number of the sample, the rows of a table."""


def used(
    path: Path,
    own: Tables,
    *,
    begin: int = 0,
    end: int = 10,
    more: int = 0,
    processes: Tables | None = None,
    **trees: Tables,
) -> ResourceUse:
    """Return what was used between two samples of eleven, a tenth of a second apart."""
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"kernel/forks": i})
        for type_, tables in {"own": own, **trees}.items():
            if i in tables:
                writer.say(type_, t=i * TENTH, rows=tables[i], more=more)
        if processes and i in processes:
            writer.say("processes", t=i * TENTH, rows=processes[i])
    file = writer.write(path / "s")
    return use_between(file, begin * TENTH, end * TENTH)


def test_a_thread_that_is_there_all_the_time(tmp_path: Path) -> None:
    own = {i: [[100, 101, "a", "R", (500 + 90 * i) * MS, i * MS]] for i in range(11)}
    use = used(tmp_path, own, begin=2, end=8)
    assert use.tasks == (
        TaskUse(
            pid=100,
            tid=101,
            name="a",
            share=pytest.approx(0.9),
            busiest_share=pytest.approx(0.9),
            seen_s=pytest.approx(0.6),
            waiting=pytest.approx(0.01),
            cpus=(),
        ),
    )


def test_a_thread_that_began_and_ended_within(tmp_path: Path) -> None:
    # Not there at sample 3: what it had used at sample 4 is of the time between.
    own = {i: [[100, 100, "a", "R", (40 + 80 * (i - 4)) * MS, None]] for i in (4, 5, 6)}
    (task,) = used(tmp_path, own).tasks
    assert task.share == pytest.approx(0.2)
    assert task.busiest_share == pytest.approx(0.8)
    assert task.seen_s == pytest.approx(0.2)
    assert task.waiting is None


def test_one_that_may_have_been_among_the_others_counts_from_where_it_is_seen(
    tmp_path: Path,
) -> None:
    row = [1, 1, "b", "S", 0, None]
    own = {3: [row], 4: [row, [100, 100, "a", "R", 9000 * MS, None]]}
    own[5] = [row, [100, 100, "a", "R", 9050 * MS, None]]
    (task,) = used(tmp_path, own, more=5).tasks
    assert task.share == pytest.approx(0.05)


def test_a_number_given_to_a_new_thread(tmp_path: Path) -> None:
    runs = [900, 950, 1000, 20, 70, 120]
    own = {i: [[7, 7, "ab"[i > 2], "R", ms * MS, None]] for i, ms in enumerate(runs)}
    (task,) = used(tmp_path, own).tasks
    assert task.share == pytest.approx(0.1 + 0.12)
    assert task.name == "b"


def test_the_busiest_eight_of_each_side(tmp_path: Path) -> None:
    own = {i: [[100, t, f"t{t}", "R", i * t * MS, None] for t in range(10)] for i in range(11)}
    target = {i: [[500, 500, "server", "R", i * 50 * MS, None]] for i in range(11)}
    tasks = used(tmp_path, own, target=target).tasks
    assert [(task.name, task.of) for task in tasks] == [
        ("server", "target"),
        *((f"t{t}", "own") for t in range(9, 1, -1)),
    ]


def test_a_thread_that_sleeps_is_no_task(tmp_path: Path) -> None:
    own = {i: [[100, 100, "sleep", "S", MS, 0]] for i in range(11)}
    assert used(tmp_path, own).tasks == ()


def test_others_are_who_is_not_of_the_trial(tmp_path: Path) -> None:
    def table(i: int) -> list[list[Any]]:
        rows: list[list[Any]] = [
            [2, 0, "kthreadd", 0, 1],
            [9, 2, "kworker/0:1", i, 1],
            [60, 1, "cron", 4 * i, 1],
            [77, 1, "bw", 50, 1],
            [78, 77, "bw-launcher", 50 * i, 1],  # A watcher.
            [100, 78, "worker", 60 * i, 1],  # The root.
            [101, 100, "shell", 60 * i, 1],
            [102, 101, "grandchild", 60 * i, 1],
            [500, 1, "server", 70 * i, 1],
            [501, 500, "its worker", 70 * i, 1],
        ]
        return rows

    use = used(
        tmp_path,
        {},
        processes={0: table(0), 10: table(10)},
        target={0: [[500, 500, "server", "S", 0, None]]},
        watcher={0: [[77, 77, "bw", "S", 0, 0], [78, 78, "bw-launcher", "S", 0, 0]]},
    )
    assert use.others == (
        TaskUse(60, 0, "cron", pytest.approx(0.4), "other"),
        TaskUse(9, 0, "[kworker/0:1]", pytest.approx(0.1), "other"),
    )


def test_at_most_five_others_and_one_that_began_counts_from_zero(tmp_path: Path) -> None:
    old = [[pid, 1, f"p{pid}", 1000, 1] for pid in range(200, 210)]
    new = [[pid, 1, f"p{pid}", 1000 + pid - 200, 1] for pid in range(200, 206)]
    new.append([206, 1, "another 206", 30, 77])
    new.append([300, 1, "new", 40, 78])
    others = used(tmp_path, {}, processes={0: old, 10: new}).others
    assert [(one.name, round(one.share * 100)) for one in others] == [
        ("new", 40),
        ("another 206", 30),
        ("p205", 5),
        ("p204", 4),
        ("p203", 3),
    ]


def test_others_of_one_name_are_one_program(tmp_path: Path) -> None:
    """A server of more processes than are kept one by one is told as a whole."""

    def table(i: int) -> list[list[Any]]:
        backends = [[300 + n, 1, "postgres", 2 * i, 1] for n in range(9)]
        kernel = [[2, 0, "kthreadd", 0, 1], [9, 2, "kworker/0:1", 9 * i, 1]]
        return [*kernel, *backends, [60, 1, "cron", 4 * i, 1]]

    use = used(tmp_path, {}, processes={0: table(0), 10: table(10)})
    assert len(use.others) == 5
    assert use.programs == (
        ProgramUse("postgres", 9, pytest.approx(1.8)),
        ProgramUse("cron", 1, pytest.approx(0.4)),
    )


def test_a_window_between_two_tables_gets_its_part(tmp_path: Path) -> None:
    tables = {i: [[60, 1, "cron", 10 * i, 1]] for i in (0, 10)}
    (one,) = used(tmp_path, {}, begin=4, end=5, processes=tables).others
    assert one.share == pytest.approx(1.0)


def kernel_tables(kthreadd: str = "kthreadd") -> Tables:
    """Return two tables a second apart: eight workers use a tenth of a processor each."""

    def table(ticks: int) -> list[list[Any]]:
        workers = [[10 + n, 2, f"kworker/{n}", 500 + ticks * 10, 1] for n in range(8)]
        first: list[list[Any]] = [[1, 0, "init", 50 * ticks, 1]]
        return [*first, [2, 0, kthreadd, 3, 1], *workers]

    return {0: table(0), 10: table(1)}


def used_by_kernel(path: Path, processes: Tables) -> float | None:
    """Return what the kernel's threads used in a second."""
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"kernel/forks": i, "cpu/0/user": 9 * i})
        if i in processes:
            writer.say("processes", t=i * TENTH, rows=processes[i])
    cpu = use_between(writer.write(path / "s"), 0, SECOND).cpu
    assert cpu is not None
    return cpu.kernel


def test_all_threads_of_the_kernel_are_added_up(tmp_path: Path) -> None:
    assert used_by_kernel(tmp_path, kernel_tables()) == pytest.approx(0.8)


def test_where_the_kernels_threads_are_not_seen_nothing_is_told_of_them(tmp_path: Path) -> None:
    """In a PID namespace 2 is a process like any other; one table tells no use."""
    shell = kernel_tables("sh")
    assert used_by_kernel(tmp_path, shell) is None
    others = used(tmp_path, {}, processes=shell).others
    assert not any(one.name.startswith("[") for one in others)
    assert used_by_kernel(tmp_path, {0: kernel_tables()[0]}) is None
