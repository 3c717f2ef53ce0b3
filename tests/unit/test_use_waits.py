"""What a trial waited for, from the places in which samples found its threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchwright.core.resource_use import OffCpuUse
from series_writer import SECOND, SeriesWriter
from use_of_series import use_between

TENTH = SECOND // 10
RUNNER = 100
Place = list[Any] | None
SLEEP: Place = ["clock_nanosleep", "hrtimer_nanosleep", []]
CHILD: Place = ["wait4", "do_wait", []]
RECV: Place = ["recvfrom", "", ["tcp 127.0.0.1:80"]]
SYNC: Place = ["fdatasync", "", ["file /d/log"]]
PIPE: Place = ["read", "pipe_read", ["pipe"]]


def futex(address: str, limited: bool | None = False) -> Place:
    return ["futex", "futex_do_wait", [address], limited]


def loop(*objects: str, limited: bool | None = True) -> Place:
    return ["epoll_wait", "ep_poll", list(objects), limited]


def waits(path: Path, *threads: tuple[int, int, int, Place], **more: Any) -> OffCpuUse:
    """Return the waits of threads (process, thread, parent, place) in ten samples; `ran`: places of
    other samples."""
    writer = SeriesWriter()
    ran: dict[int, Place] = more.get("ran", {})
    for i in range(11):
        writer.row(i * TENTH, {"own/user_ns": 0, "own/system_ns": 0})
        rows = [[RUNNER, RUNNER, "bw-launcher", "S", 0, 0, 1, 1, CHILD]]
        for pid, tid, parent, place in threads:
            at = ran.get(i, place) if tid == more.get("who", tid) else place
            name = f"p{pid}" if pid == tid else f"p{pid} thread {tid}"
            rows.append([pid, tid, name, "S", 0, 0, 3, parent, at])
        writer.say("own", t=i * TENTH, rows=rows, more=0)
    found = use_between(writer.write(path / "s"), 0, SECOND).off_cpu
    assert found is not None
    return found


def kinds(found: OffCpuUse) -> dict[str, float]:
    return {wait.kind: wait.share for wait in found.waits}


def test_a_wait_has_its_call_and_what_it_is_for(tmp_path: Path) -> None:
    found = waits(tmp_path, (7, 7, RUNNER, RECV))
    (wait,) = found.waits
    assert (found.samples, found.share) == (11, pytest.approx(1.0))
    assert (wait.kind, wait.name, wait.call) == ("network", "p7", "recvfrom")
    assert (wait.what, wait.threads) == ("tcp 127.0.0.1:80", 1)


def test_a_sample_in_which_a_thread_runs_explains_no_wait(tmp_path: Path) -> None:
    """A second process waits all the time; the first runs in five of eleven samples."""
    running: dict[int, Place] = dict.fromkeys((0, 2, 4, 6, 8))
    found = waits(tmp_path, (7, 7, RUNNER, SYNC), (8, 8, RUNNER, RECV), ran=running, who=7)
    assert found.samples == 6
    # Nobody used CPU time, which is exact: the samples only say what was waited for.
    assert found.share == pytest.approx(1.0)
    assert kinds(found) == {"disk": pytest.approx(1.0), "network": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        # A shell waits for its child.
        ([(7, 7, RUNNER, CHILD), (8, 8, 7, SYNC)], {"disk"}),
        # The main thread joins one that sleeps.
        ([(7, 7, RUNNER, futex("0x1")), (7, 8, RUNNER, SLEEP)], {"sleep"}),
        # The main thread reads from a socket beside helpers that are idle.
        ([(7, 7, RUNNER, RECV), (7, 8, RUNNER, futex("0x1")), (7, 9, RUNNER, SLEEP)], {"network"}),
        # Two helpers are idle at the lock of their queue while the program sleeps.
        (
            [
                (7, 7, RUNNER, futex("0x1")),
                (7, 8, RUNNER, futex("0x2")),
                (7, 9, RUNNER, futex("0x2", limited=True)),
                (7, 10, RUNNER, SLEEP),
            ],
            {"sleep"},
        ),
        # Idle helpers of forked processes have their own futexes at one address.
        (
            [
                (7, 7, RUNNER, CHILD),
                *((8, 8, 7, SYNC), (8, 9, 7, futex("0x2"))),
                *((10, 10, 7, SYNC), (10, 11, 7, futex("0x2"))),
            ],
            {"disk"},
        ),
        # Workers are idle at the lock of their queue, while the first process waits for its server.
        (
            [(7, 7, RUNNER, RECV), (8, 8, 7, futex("shared 0x2")), (9, 9, 7, futex("shared 0x2"))],
            {"network"},
        ),
        # Processes of a pipeline.
        ([(7, 7, RUNNER, CHILD), (8, 8, 7, SLEEP), (9, 9, 7, PIPE)], {"sleep", "pipe"}),
        # A program reads what its child writes.
        ([(7, 7, RUNNER, PIPE), (8, 8, 7, SYNC)], {"disk"}),
        ([(7, 7, RUNNER, PIPE), (8, 8, 7, CHILD)], {"pipe"}),
        # All threads wait for each other.
        ([(7, 7, RUNNER, futex("0x1")), (7, 8, RUNNER, futex("0x2"))], {"locks"}),
        # One has a time limit: Thread.sleep of Java beside helpers of the JVM.
        (
            [
                (7, 7, RUNNER, futex("0x1")),
                (7, 8, RUNNER, futex("0x2", limited=True)),
                (7, 9, RUNNER, futex("0x3")),
                (7, 10, RUNNER, futex("0x3")),
            ],
            {"sleep"},
        ),
        # A thread waits for another with a time limit, and that one for its peer.
        ([(7, 7, RUNNER, futex("0x1", limited=True)), (7, 8, RUNNER, RECV)], {"network"}),
        # A thread without a known time limit: it sleeps, or waits for a lock or for work.
        ([(7, 7, RUNNER, futex("0x1", limited=None))], {"other"}),
        # The timer of an event loop, which only its own threads wake up before.
        ([(7, 7, RUNNER, loop("own socket"))], {"sleep"}),
        ([(7, 7, RUNNER, loop("own pipe", "event"))], {"sleep"}),
        ([(7, 7, RUNNER, loop("own socket", limited=None))], {"other"}),
        ([(7, 7, RUNNER, loop("own socket", limited=False))], {"other"}),
        # It has a peer too.
        ([(7, 7, RUNNER, loop("tcp 127.0.0.1:80", "own socket"))], {"network"}),
        # It waits for the work of its helper.
        ([(7, 7, RUNNER, loop("own socket", limited=False)), (7, 8, RUNNER, SYNC)], {"disk"}),
        ([(7, 7, RUNNER, loop("own socket")), (7, 8, RUNNER, SYNC)], {"disk"}),
        # Two event loops are no lock.
        ([(7, 7, RUNNER, loop("event")), (7, 8, RUNNER, loop("event"))], {"sleep"}),
        # What the child waits for is not seen.
        ([(7, 7, RUNNER, CHILD)], {"other"}),
    ],
)
def test_a_wait_that_another_explains_is_left_out(
    tmp_path: Path, threads: list[tuple[int, int, int, Place]], expected: set[str]
) -> None:
    assert set(kinds(waits(tmp_path, *threads))) == expected


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    "threads",
    [
        # Threads of a process whose first joins them.
        ((7, 7, RUNNER, "0x1"), (7, 8, RUNNER, "0x2"), (7, 9, RUNNER, "0x2")),
        # Processes that share it.
        ((7, 7, RUNNER, ""), (8, 8, 7, "shared 0x2"), (9, 9, 7, "shared 0x2")),
    ],
)
def test_a_lock_is_passed_on_while_its_holder_sleeps(
    tmp_path: Path, threads: Any, limited: bool
) -> None:
    waiting = [
        (pid, tid, parent, futex(at, limited) if at else CHILD) for pid, tid, parent, at in threads
    ]
    holder = (7, 10, RUNNER, SLEEP) if threads[0][3] else (10, 10, 7, SLEEP)
    found = waits(tmp_path, *waiting, holder, ran={1: SLEEP}, who=9)
    assert set(kinds(found)) == {"locks", "sleep"}


@pytest.mark.parametrize("apart", [0, 1], ids=["one lock", "apart"])
def test_the_threads_at_a_lock_are_counted(tmp_path: Path, apart: int) -> None:
    threads = [(7, n, RUNNER, futex(f"0x{2 + apart * n}")) for n in range(7, 11)]
    (wait,) = waits(tmp_path, *threads).waits
    assert (wait.kind, wait.threads, wait.what) == ("locks", 4, "")
    # Idle helpers may be among them, so no thread is named.
    assert wait.name == "p7"


def test_a_peer_that_was_looked_up_once_is_named(tmp_path: Path) -> None:
    others: dict[int, Place] = {n: ["recvfrom", "", ["socket"]] for n in range(2, 11)}
    (wait,) = waits(tmp_path, (7, 7, RUNNER, RECV), ran=others).waits
    assert (wait.what, wait.share) == ("tcp 127.0.0.1:80", pytest.approx(1.0))


def test_samples_with_one_ready_thread_are_counted(tmp_path: Path) -> None:
    ran: dict[int, Place] = dict.fromkeys(range(4, 11))
    found = waits(tmp_path, (7, 7, RUNNER, CHILD), (8, 8, 7, RECV), ran=ran, who=8)
    assert (found.watched, found.alone, found.samples) == (11, 7, 4)
    both = waits(tmp_path, (7, 7, RUNNER, RECV), (8, 8, 7, RECV), ran={3: None})
    assert (both.watched, both.alone, both.samples) == (11, 0, 10)


CPU = ("user", "nice", "system", "irq", "softirq", "idle", "iowait", "steal")


def share(path: Path, *, cores: float, ready: dict[int, int], samples: int = 10) -> float:
    """Return the share of waits on a machine of 8 CPUs whose own tree used `cores`.

    The CPU time is of children that no table of threads has; `ready`: threads that were ready in a
    sample.
    """
    writer = SeriesWriter(cpus=8)
    idle = {f"cpu/{cpu}/{kind}": 0 for cpu in range(8) for kind in CPU}
    for i in range(samples + 1):
        used = round(cores * i * TENTH)
        writer.row(i * TENTH, {**idle, "own/user_ns": used, "own/system_ns": 0})
        rows = [[7, 7, "sh", "S", 0, 0, 3, RUNNER, SLEEP]]
        rows += [[8 + n, 8 + n, "sh", "R", 0, 0, 3, 7, None] for n in range(ready.get(i, 0))]
        writer.say("own", t=i * TENTH, rows=rows, more=0)
    found = use_between(writer.write(path / "s"), 0, samples * TENTH).off_cpu
    assert found is not None
    return found.share


@pytest.mark.parametrize(
    ("cores", "ready", "samples", "expected"),
    [
        # A step of 0.05 s between two samples, and one that a sample saw.
        (0.19, {}, 4, 0.81),
        (0.35, {2: 1}, 4, 0.65),
        # One sample saw two or four at once: their CPU time need not be one after the other.
        (0.4, {3: 2}, 4, 0.8),
        (0.4, {3: 4}, 5, 5 / 6),
        # Never two were seen, but of so much CPU time in a row many samples had seen a part.
        (0.8, {}, 100, 0.9),
        # More CPU time than the window has was of two at once.
        (1.6, {}, 1, 0.2),
    ],
)
def test_cpu_time_of_ended_children_is_no_wait(
    tmp_path: Path, cores: float, ready: dict[int, int], samples: int, expected: float
) -> None:
    found = share(tmp_path, cores=cores, ready=ready, samples=samples)
    assert found == pytest.approx(expected, abs=0.01)


def test_a_series_of_an_earlier_version_has_none(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(11):
        writer.row(i * TENTH, {"own/user_ns": 0})
        writer.say("own", t=i * TENTH, rows=[[7, 7, "a", "S", 0, 0]], more=0)
    assert use_between(writer.write(tmp_path / "s"), 0, SECOND).off_cpu is None
