"""Benchmarks with two limits at once, in several strengths, and what lifts each.

A case is a context that makes both limits and yields a situation: the command, and by
code the context in which that limit is lifted. What is to be named first is stated; that
its remedy helps is measured, by pairs of the same fixed work with and without it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from limiter_cases import Command, shell
from limiter_means import cgroup, loop_device, mounted, needs, running, swap_on

OTHERS, QUOTA, SWAP = "noisy-neighbour", "throttled-by-cgroup-quota", "swapping"
THREAD, DISK = "single-threaded-cpu-bound", "disk-saturated"
PIECES = 20_000_000
"""Steps of a loop that takes about two seconds."""
HOG = (
    "use Time::HiRes 'time'; for (;;) { my $end = time + 0.02 * $ARGV[0]; "
    "while (time < $end) { $s += $_ for 1..500 } "
    "select undef, undef, undef, 0.02 * (1 - $ARGV[0]) if $ARGV[0] < 1 }"
)


@dataclass(frozen=True)
class Situation:
    """A command beside two limits."""

    command: Command
    lifted: dict[str, Callable[[], AbstractContextManager[Command]]]
    """By code: the context in which its remedy is applied, which yields the command."""


@dataclass(frozen=True)
class Mixed:
    """Two limits at once."""

    name: str
    strength: str
    code: str
    """What is to be named first."""
    beside: str
    """The other limit."""
    make: Callable[[Path], AbstractContextManager[Situation]]


def work(threads: int = 1, share: float = 1.0) -> str:
    """Return the command line of a share of a fixed work, by so many processes at once."""
    needs("perl")
    one = shlex.quote(f"$s += $_ * 3 for 1..{round(PIECES * share / threads)}")
    if threads == 1:
        return f"perl -e {one}"
    return f"seq {threads} | xargs -P {threads} -I% perl -e {one}"


@contextlib.contextmanager
def hogs(number: int, duty: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run programs of somebody else that each want so much of a processor."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(running("perl", "-e", HOG, str(duty))) for _ in range(number)
        ]
        time.sleep(0.2)
        yield started


@contextlib.contextmanager
def without(started: list[subprocess.Popen[bytes]], command: Command) -> Iterator[Command]:
    """Stop programs for a while."""
    for one in started:
        one.send_signal(signal.SIGSTOP)
    try:
        yield command
    finally:
        for one in started:
            one.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def instead(command: Command) -> Iterator[Command]:
    """Run another command in its place."""
    yield command


def _beside(number: float, duty: float, directory: Path) -> Iterator[Situation]:
    """One thread beside others: so many for each processor."""
    del directory
    with hogs(round(number * (os.cpu_count() or 1)), duty) as started:
        command = shell(work())
        yield Situation(
            command,
            {OTHERS: lambda: without(started, command), THREAD: lambda: instead(shell(work(2)))},
        )


def _in_quota(share: float, directory: Path) -> Iterator[Situation]:
    """One thread in a cgroup with so much of a processor."""
    del directory
    quota = {"cpu.cfs_quota_us": str(round(100_000 * share))}
    part = max(share, 0.3)
    with cgroup("cpu", quota) as enter:
        yield Situation(
            shell(enter + work(1, part)),
            {
                QUOTA: lambda: instead(shell(work(1, part))),
                THREAD: lambda: instead(shell(f"{enter}sh -c {shlex.quote(work(2, part))}")),
            },
        )


def _flushing(number: float, duty: float, directory: Path) -> Iterator[Situation]:
    """A program that works and waits for a disk in turns, beside others on the processors."""

    def writing(place: Path) -> Command:
        loop = (
            "open F, '>', $ARGV[0]; for my $n (1..150) { $s += $_ * 3 for 1..100000; "
            "syswrite F, 'x' x 65536; F->sync }"
        )
        return ["perl", "-MIO::Handle", "-e", loop, str(place / "written")]

    with ExitStack() as stack:
        device = stack.enter_context(loop_device(directory / "image", 96))
        place = stack.enter_context(mounted(device, directory / "mnt"))
        memory = Path("/dev/shm") / f"bw-limiters-{os.getpid()}"
        memory.mkdir()
        stack.callback(memory.rmdir)
        stack.callback(lambda: (memory / "written").unlink(missing_ok=True))
        many = round(number * (os.cpu_count() or 1))
        started = stack.enter_context(hogs(many, duty))
        command = writing(place)
        yield Situation(
            command,
            {OTHERS: lambda: without(started, command), DISK: lambda: instead(writing(memory))},
        )


def _swapping(mebibytes: int, directory: Path) -> Iterator[Situation]:
    """sort, which has one thread here, with more than its cgroup's memory."""
    lines = random.Random(1)
    data = directory / "data"
    with data.open("w") as file:
        for _ in range(400_000):
            file.write(f"{lines.getrandbits(200):060x}\n")

    def sort(threads: int) -> str:
        return f"sort --parallel={threads} -S 400M -o {directory}/sorted {data}"

    limit = {"memory.limit_in_bytes": str(mebibytes << 20)}
    with (
        loop_device(directory / "image", 512) as device,
        swap_on(device),
        cgroup("memory", limit) as enter,
    ):
        yield Situation(
            shell(enter + sort(1)),
            {
                SWAP: lambda: instead(shell(sort(1))),
                THREAD: lambda: instead(shell(enter + sort(2))),
            },
        )


def _made(
    how: Callable[..., Iterator[Situation]], *strength: float
) -> Callable[[Path], AbstractContextManager[Situation]]:
    return contextlib.contextmanager(partial(how, *strength))


MIXED = (
    *(
        Mixed("one thread beside others", said, OTHERS, THREAD, _made(_beside, *how))
        for said, how in (
            ("as many as processors", (1.0, 1.0)),
            ("half busy", (1.0, 0.5)),
            ("three for two processors", (1.5, 1.0)),
        )
    ),
    *(
        Mixed("one thread in a quota", f"{share:.0%}", QUOTA, THREAD, _made(_in_quota, share))
        for share in (0.2, 0.5, 0.7)
    ),
    *(
        Mixed("a disk beside others", said, OTHERS, DISK, _made(_flushing, *how))
        for said, how in (
            ("as many as processors", (1.0, 1.0)),
            ("three for two processors", (1.5, 1.0)),
        )
    ),
    *(
        Mixed("swap space and a thread", f"{size} MiB", SWAP, THREAD, _made(_swapping, size))
        for size in (40, 32, 56)
    ),
)
"""The first of a name is that of the small form."""
