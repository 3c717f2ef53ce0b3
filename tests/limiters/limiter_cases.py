"""Benchmarks with a limiter that is made to happen for real, and clean ones without.

A case is a context: it makes the limiter, yields the command to be measured, and puts all
back. Commands are real programs (fio, PostMark, a compiler, nginx under wrk and our own
engine) and run for two to three seconds.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import pwd
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from limiter_means import (
    LINK,
    Lacking,
    cgroup,
    loop_device,
    mounted,
    needs,
    running,
    slow_link,
    swap_on,
    throttled,
)

Command = list[str]
SECONDS = "2"
"""For which programs run that run for a time; in half of it a cgroup of 48 MiB is not yet full."""


@dataclass(frozen=True)
class Case:
    """One limiter and a benchmark that meets it."""

    code: str
    """What `bw why` is to name first; empty for a clean run."""
    name: str
    make: Callable[[Path], AbstractContextManager[Command]]
    figure: str = ""
    """A metric of the output for `bw run --metric`."""
    said: tuple[str, ...] = ()
    """What a user who asks `bw why` says beside: a link's rate."""


def shell(text: str) -> Command:
    """Return a command line that a user gives to a shell."""
    return ["/bin/sh", "-c", text]


# -- benchmarks ------------------------------------------------------------------------


def postmark(directory: Path, transactions: int = 20_000) -> str:
    """Return the command line of a PostMark in a directory."""
    needs("postmark")
    config = directory / "postmark.cfg"
    config.write_text(
        f"set location {directory}\nset number 500\nset transactions {transactions}\n"
        "set size 500 10000\nrun\nquit\n"
    )
    return f"postmark {config}"


def fio(target: Path, *options: str) -> Command:
    """Return the command of a fio job of random 4k requests."""
    needs("fio")
    return [
        *("fio", "--name=job", f"--filename={target}", "--bs=4k", "--time_based"),
        *(f"--runtime={SECONDS}", "--output-format=json", *options),
    ]


def compilation(directory: Path) -> Path:
    """Return a C file whose compilation takes about a quarter of a second."""
    needs("gcc")
    source = directory / "big.c"
    source.write_text(
        "".join(
            f"int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) "
            f"s += (i * {n}) ^ (s >> {n % 7}); return s; }}\n"
            for n in range(300)
        )
    )
    return source


@contextlib.contextmanager
def nginx(
    directory: Path, address: str = "127.0.0.1", there: tuple[str, ...] = (), size: int = 100
) -> Iterator[str]:
    """Run nginx over a file at an address, by a prefix that goes there; yield its URL."""
    needs("nginx")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (directory / "file").write_text("x" * size)
    config = directory / "nginx.conf"
    # The directory is for its owner alone, and so must the workers be his.
    user = f"user {pwd.getpwuid(os.getuid()).pw_name};\n" if os.getuid() == 0 else ""
    config.write_text(
        f"{user}worker_processes 1;\nerror_log {directory}/error.log;\n"
        f"pid {directory}/pid;\nevents {{ worker_connections 512; }}\n"
        f"http {{ access_log off; keepalive_requests 1000000; server {{ "
        f"listen {address}:{port}; root {directory}; }} }}\n"
    )
    with running(*there, "nginx", "-c", str(config), "-g", "daemon off;"):
        url = f"http://{address}:{port}/file"
        for _attempt in range(100):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                with urllib.request.urlopen(url, timeout=5) as answer:
                    assert len(answer.read()) == size, url
                break
            time.sleep(0.05)
        else:
            raise AssertionError(f"nginx did not serve its file: {directory}/error.log")
        yield url


# -- limiters --------------------------------------------------------------------------


@contextlib.contextmanager
def quota(directory: Path) -> Iterator[Command]:
    """PostMark in a cgroup with 30 % of a processor."""
    with cgroup("cpu", {"cpu.cfs_quota_us": "30000"}) as enter:
        yield shell(enter + postmark(directory, 15_000))


@contextlib.contextmanager
def io_throttle(directory: Path) -> Iterator[Command]:
    """fio on a device that is limited to 300 reads a second."""
    with loop_device(directory / "image", 64) as device, throttled(device, "read_iops", 300):
        yield fio(device, "--rw=randread", "--direct=1", "--ioengine=libaio", "--iodepth=8")


@contextlib.contextmanager
def saturated_disk(directory: Path) -> Iterator[Command]:
    """fio with eight writers, each with a flush after each request."""
    with loop_device(directory / "image", 64) as device:
        yield fio(
            device,
            *("--rw=randwrite", "--direct=1", "--ioengine=psync", "--numjobs=8"),
            *("--fdatasync=1", "--group_reporting"),
        )


@contextlib.contextmanager
def paused_disk(directory: Path) -> Iterator[Command]:
    """fio on a device whose storage, a program, stands still most of the time."""
    needs("bindfs")
    below, above = directory / "below", directory / "above"
    below.mkdir()
    above.mkdir()
    with ExitStack() as stack:
        program = stack.enter_context(
            running("bindfs", "-f", "-o", "direct_io", str(below), str(above))
        )
        stack.callback(subprocess.run, ["umount", str(above)], check=False)
        _wait_for(lambda: above.is_mount())
        device = stack.enter_context(loop_device(above / "image", 32))
        stack.enter_context(_pausing(program))
        yield fio(device, "--rw=randread", "--direct=1", "--ioengine=psync")


@contextlib.contextmanager
def _pausing(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a program for 0.8 of each second."""
    over = threading.Event()

    def pause() -> None:
        while not over.wait(0.2):
            program.send_signal(signal.SIGSTOP)
            over.wait(0.8)
            program.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        program.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def swap(directory: Path) -> Iterator[Command]:
    """sort in memory, with more than its cgroup may have, and swap space."""
    lines = random.Random(1)
    data = directory / "data"
    with data.open("w") as file:
        for _ in range(500_000):
            file.write(f"{lines.getrandbits(200):060x}\n")
    with (
        loop_device(directory / "image", 512) as device,
        swap_on(device),
        cgroup("memory", {"memory.limit_in_bytes": str(32 << 20)}) as enter,
    ):
        sort = f"sort --parallel=1 -S 400M -o {directory}/sorted {data}"
        yield shell(f"{enter}{sort}")


@contextlib.contextmanager
def memory_limit(directory: Path) -> Iterator[Command]:
    """fio over a file half as large again than its cgroup's memory."""
    with (
        loop_device(directory / "image", 300) as device,
        mounted(device, directory / "mnt") as place,
        cgroup("memory", {"memory.limit_in_bytes": str(48 << 20)}) as enter,
    ):
        job = fio(place / "data", "--rw=randread", "--size=72m", "--invalidate=0")
        subprocess.run([*job, "--create_only=1"], check=True, capture_output=True)
        yield shell(enter + shlex.join(job))


@contextlib.contextmanager
def one_thread(directory: Path) -> Iterator[Command]:
    """gzip, which has one thread."""
    data = directory / "data"
    data.write_bytes(bytes(range(256)) * 40_000 + directory.as_posix().encode() * 900_000)
    yield shell(f"gzip -9 -c {data} {data} {data} > /dev/null")


@contextlib.contextmanager
def all_processors(directory: Path) -> Iterator[Command]:
    """Many compilations, as many at a time as there are processors, and more."""
    source = compilation(directory)
    one = f"gcc -O2 -c {source} -o {directory}/%.o"
    yield shell(f"seq 9 | xargs -P 6 -I% {one}")


@contextlib.contextmanager
def neighbour(directory: Path) -> Iterator[Command]:
    """Two compilations at a time beside three programs of somebody else that never rest."""
    source = compilation(directory)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(running("sha256sum", "/dev/zero"))
        yield shell(f"seq 4 | xargs -P 2 -I% gcc -O2 -c {source} -o {directory}/%.o")


@contextlib.contextmanager
def cached(directory: Path) -> Iterator[Command]:
    """fio that means to read a disk and reads memory."""
    job = fio(directory / "data", "--rw=randread", "--size=64m", "--invalidate=0")
    subprocess.run([*job, "--create_only=1"], check=True, capture_output=True)
    (directory / "data").read_bytes()
    yield job


@contextlib.contextmanager
def slow_generator(directory: Path) -> Iterator[Command]:
    """wrk with one thread whose script works long on each request."""
    needs("wrk")
    script = directory / "slow.lua"
    script.write_text(
        "request = function() local s = 0 for i = 1, 50000 do s = s + i % 7 end "
        "return wrk.format(s % 2 == 2 and 'HEAD' or 'GET') end\n"
    )
    with nginx(directory) as url:
        yield ["wrk", "-t", "1", "-c", "8", "-d", SECONDS, "-s", str(script), url]


@contextlib.contextmanager
def open_files(directory: Path) -> Iterator[Command]:
    """wrk with more connections than files that it may have open."""
    needs("wrk")
    with nginx(directory) as url:
        yield shell(f"ulimit -n 48; exec wrk -t 1 -c 200 -d {SECONDS} {url}")


@contextlib.contextmanager
def processes(directory: Path) -> Iterator[Command]:
    """A shell that compiles many files at a time, in a cgroup of eight tasks: it tries again."""
    needs("bash")
    source = compilation(directory)
    one = f"gcc -O2 -c {source} -o {directory}/$n.o"
    script = f"for n in $(seq 8); do {one} & done; wait"
    with cgroup("pids", {"pids.max": "8"}) as enter:
        yield shell(f"{enter}bash -c {shlex.quote(script)}")


@contextlib.contextmanager
def link(directory: Path) -> Iterator[Command]:
    """wrk that fetches a large file over a link of 40 Mbit/s, of which the user tells."""
    needs("wrk")
    with (
        slow_link("40mbit") as (address, there),
        nginx(directory, address, there, size=1 << 20) as url,
    ):
        yield ["wrk", "-t", "1", "-c", "4", "-d", SECONDS, url]


@contextlib.contextmanager
def kernel_error(directory: Path) -> Iterator[Command]:
    """PostMark, and a read from a device of the trial's own that fails."""
    with loop_device(directory / "image", 8) as device:
        os.truncate(directory / "image", 1 << 20)
        words = f"dd if={device} of=/dev/null bs=4k skip=1500 count=1 iflag=direct"
        yield shell(f"exec 9<{device}; {postmark(directory)}; {words}; true")


@contextlib.contextmanager
def updates_itself(directory: Path) -> Iterator[Command]:
    """PostMark by a script that installs a new version of itself while it is measured."""
    work = directory / "work"
    work.write_text(
        f"#!/bin/sh\ncp {work} {work}.new && echo '# 1.1' >>{work}.new\n"
        f"mv {work}.new {work}\n{postmark(directory)}\n"
    )
    work.chmod(0o755)
    yield [str(work)]


@contextlib.contextmanager
def too_short(_directory: Path) -> Iterator[Command]:
    """A command that does nothing."""
    yield ["/bin/true"]


# -- waits: the trial uses no resource fully, and waits for something --------------------

_LOCK = """
import sys, threading, time
lock, end = threading.Lock(), time.monotonic() + float(sys.argv[1])
def work():
    while time.monotonic() < end:
        lock.acquire(timeout=float(sys.argv[2]))
        time.sleep(0.03)
        lock.release()
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
_PROCESS_LOCK = """
import multiprocessing, sys, time
def work(lock, end):
    while time.monotonic() < end:
        with lock:
            time.sleep(0.03)
        # Long enough that another one gets it: it would be taken again at once.
        time.sleep(0.005)
fork = multiprocessing.get_context("fork")
lock, end = fork.Lock(), time.monotonic() + float(sys.argv[1])
processes = [fork.Process(target=work, args=(lock, end)) for _ in range(4)]
[process.start() for process in processes]
[process.join() for process in processes]
"""
_WORK_LOCK = """
import multiprocessing, sys, time
def work(lock, end):
    while time.monotonic() < end:
        with lock:
            sum(range(2_000_000))
fork = multiprocessing.get_context("fork")
lock, end = fork.Lock(), time.monotonic() + float(sys.argv[1])
processes = [fork.Process(target=work, args=(lock, end)) for _ in range(3)]
[process.start() for process in processes]
[process.join() for process in processes]
"""
_CLIENT = """
import sys, urllib.request
for _ in range(10):
    urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2]) or None).read()
"""
_EVENT_LOOP = """
import asyncio, sys, time
async def main():
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.01) for _ in range(4)))
    await asyncio.sleep(float(sys.argv[1]))
asyncio.run(main())
"""


@contextlib.contextmanager
def synchronous_disk(directory: Path) -> Iterator[Command]:
    """A program that waits for each of its writes to reach the disk."""
    write = ("dd", "if=/dev/zero", f"of={directory}/data", "bs=4k", "count=4000")
    yield [*write, "oflag=dsync"]


@contextlib.contextmanager
def lock(_directory: Path) -> Iterator[Command]:
    """Four threads on one lock, each of which waits for something else while it holds the lock."""
    yield [sys.executable, "-c", _LOCK, SECONDS, "-1"]


@contextlib.contextmanager
def timed_lock(_directory: Path) -> Iterator[Command]:
    """The same with a time limit."""
    yield [sys.executable, "-c", _LOCK, SECONDS, "60"]


@contextlib.contextmanager
def process_lock(_directory: Path) -> Iterator[Command]:
    """Four processes on one lock, each of which waits for something else while it holds the lock."""
    yield [sys.executable, "-c", _PROCESS_LOCK, SECONDS]


@contextlib.contextmanager
def work_lock(_directory: Path) -> Iterator[Command]:
    """Three processes on one lock, each of which computes while it holds the lock."""
    yield [sys.executable, "-c", _WORK_LOCK, SECONDS]


@contextlib.contextmanager
def pipe(directory: Path) -> Iterator[Command]:
    """A program that reads what a slow program of somebody else writes into a pipe."""
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    # A writer that opens it again at once may do so before the reader has seen its end.
    slow = f"while :; do for n in $(seq 20); do sleep 0.1; echo $n; done >{fifo}; sleep 1; done"
    with running("/bin/sh", "-c", slow):
        yield ["cat", str(fifo)]


@contextlib.contextmanager
def slow_server(limit: str, _directory: Path) -> Iterator[Command]:
    """A client of a server that takes a fifth of a second for each answer, with a time limit [s] or
    without (0)."""

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(0.2)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            yield [sys.executable, "-c", _CLIENT, url, limit]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def sleeps(_directory: Path) -> Iterator[Command]:
    """A program that does nothing."""
    yield ["sleep", SECONDS]


@contextlib.contextmanager
def event_loop(_directory: Path) -> Iterator[Command]:
    """A timer of an event loop, beside threads of its pool that are idle."""
    yield [sys.executable, "-c", _EVENT_LOOP, SECONDS]


@contextlib.contextmanager
def timed_wait(_directory: Path) -> Iterator[Command]:
    """A wait with a time limit for an event that never comes."""
    wait = "import sys, threading; threading.Event().wait(float(sys.argv[1]))"
    yield [sys.executable, "-c", wait, SECONDS]


@contextlib.contextmanager
def slow_disk_load(directory: Path) -> Iterator[Command]:
    """A disk with twenty requests a second: the generator sleeps in between."""
    with loop_device(directory / "image", 64) as device:
        yield fio(device, "--rw=randread", "--direct=1", "--rate_iops=20")


@contextlib.contextmanager
def half_a_thread(_directory: Path) -> Iterator[Command]:
    """A program that works for a third of the time and sleeps for the rest."""
    needs("perl")
    work = "for (1..2e5) { $s += $_ * 3 } select undef, undef, undef, 0.04"
    yield ["perl", "-e", f"for my $n (1..40) {{ {work} }}"]


# -- clean runs ------------------------------------------------------------------------


@contextlib.contextmanager
def light_load(directory: Path) -> Iterator[Command]:
    """A server at a small part of what it can do."""
    with nginx(directory) as url:
        load = [sys.executable, "-m", "benchwright.cli.main", "load", "--rate", "300"]
        yield [*load, "--duration", f"{SECONDS}s", "--quiet", "--target", url]


CASES = (
    Case("throttled-by-cgroup-quota", "quota", quota),
    Case("io-throttled", "io throttle", io_throttle),
    Case("memory-limit", "memory limit", memory_limit),
    Case("fd-limit", "open files", open_files),
    Case("generator-bound", "slow generator", slow_generator),
    Case("noisy-neighbour", "neighbour", neighbour),
    Case("swapping", "swap", swap),
    Case("disk-saturated", "saturated disk", saturated_disk),
    Case("disk-stalled", "paused disk", paused_disk),
    Case("cpu-saturated", "all processors", all_processors),
    Case("single-threaded-cpu-bound", "one thread", one_thread),
    Case("single-threaded-cpu-bound", "work under a lock", work_lock),
    Case("answered-from-cache", "cached file", cached),
    Case("pids-limit", "processes", processes),
    Case("network-limit", "link", link, said=("--limit", f"{LINK}=40Mbit/s")),
    Case(
        *("exceeds-known-limit", "beyond a limit", cached),
        figure="read_bytes_per_s:higher=/jobs/0/read/bw_bytes",
        said=("--limit", "disk=100MB/s"),
    ),
    Case("errors-in-kernel-log", "kernel message", kernel_error),
    Case("environment-changed-between-trials", "updates itself", updates_itself),
    Case("work-too-short-for-the-clock", "too short", too_short),
    Case("waits-for-disk", "synchronous disk", synchronous_disk),
    Case("waits-for-locks", "lock", lock),
    Case("waits-for-locks", "lock with a time limit", timed_lock),
    Case("waits-for-locks", "lock of processes", process_lock),
    Case("waits-for-pipe", "pipe", pipe),
    Case("waits-for-network", "slow server", partial(slow_server, "0")),
    Case("waits-for-network", "slow server, time limit", partial(slow_server, "60")),
    Case("sleeps", "sleep", sleeps),
    Case("sleeps", "timer of an event loop", event_loop),
    Case("sleeps", "wait with a time limit", timed_wait),
    Case("sleeps", "slow disk load", slow_disk_load),
    Case("sleeps", "half a thread", half_a_thread),
)
CLEAN = (Case("", "light load", light_load),)


def _wait_for(true: Callable[[], bool]) -> None:
    for _attempt in range(100):
        if true():
            return
        time.sleep(0.05)
    raise Lacking("a file system that a program serves did not come up")
