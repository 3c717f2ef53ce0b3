"""Means by which a limiter is made to happen for real, each put back at its end.

Purpose: cgroups (version 1), loop devices, throttles, swap, a paused device. All of it
is this test's own: names of its own, processes that it started. What a machine does not
have raises `Lacking` with the reason, and the case is skipped aloud.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
LINK = "bw-limiters"
"""The near end of a slow link."""


class Lacking(Exception):
    """What this machine does not have."""


def needs(*programs: str) -> None:
    """Raise Lacking for a program that is not installed."""
    for program in programs:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            raise Lacking(f"{program} is not installed")


@contextlib.contextmanager
def cgroup(controller: str, limits: dict[str, str]) -> Iterator[str]:
    """Make a cgroup with limits, by the names of version 1; yield a shell's prefix that enters it.

    Raises Lacking where there is no such controller or it may not be used.
    """
    place = CGROUPS / controller / f"bw-limiters-{os.getpid()}"
    if not place.parent.is_dir():
        raise Lacking(f"no cgroup controller {controller} of version 1")
    try:
        place.mkdir()
    except OSError as error:
        raise Lacking(f"{place}: {error.strerror}") from None
    try:
        for name, value in limits.items():
            (place / name).write_text(value)
        yield f"echo $$ > {place}/cgroup.procs && exec "
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    """Remove a cgroup once its last process has gone."""
    for _attempt in range(100):
        try:
            place.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    place.rmdir()


@contextlib.contextmanager
def loop_device(image: Path, megabytes: int) -> Iterator[Path]:
    """Make a loop device over a new file, past the page cache; yield its path."""
    needs("losetup")
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, megabytes << 20)
    done = _run("losetup", "-f", "--show", "--direct-io=on", str(image))
    device = Path(done.strip())
    try:
        yield device
    finally:
        _undo("losetup", "-d", str(device))


@contextlib.contextmanager
def mounted(device: Path, place: Path, kind: str = "ext4") -> Iterator[Path]:
    """Make a file system, ext4 or xfs, on a device and mount it; yield the mount point."""
    needs(f"mkfs.{kind}")
    _run(f"mkfs.{kind}", "-q", "-f" if kind == "xfs" else "-F", str(device))
    place.mkdir()
    _run("mount", str(device), str(place))
    try:
        yield place
    finally:
        _undo("umount", str(place))


@contextlib.contextmanager
def throttled(device: Path, name: str, value: int) -> Iterator[None]:
    """Limit a device for everybody, in the root group of blkio (version 1)."""
    place = CGROUPS / "blkio" / f"blkio.throttle.{name}_device"
    if not place.exists():
        raise Lacking("no cgroup controller blkio of version 1")
    stat = device.stat()
    number = f"{os.major(stat.st_rdev)}:{os.minor(stat.st_rdev)}"
    place.write_text(f"{number} {value}")
    try:
        yield
    finally:
        place.write_text(f"{number} 0")


@contextlib.contextmanager
def swap_on(device: Path) -> Iterator[None]:
    """Use a device as swap space."""
    needs("mkswap", "swapon")
    _run("mkswap", str(device))
    _run("swapon", str(device))
    try:
        yield
    finally:
        _undo("swapoff", str(device))


@contextlib.contextmanager
def slow_link(rate: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Make a network namespace behind a link, LINK, that brings no more than a rate (`40mbit`).

    Yields the far end's address and the prefix that runs a command over there.
    """
    needs("ip", "tc")
    place = f"bw-limiters-{os.getpid()}"
    far = f"{LINK}-far"
    there = ("ip", "netns", "exec", place)
    with contextlib.suppress(Lacking):
        _run("ip", "link", "del", LINK)  # of a run that was killed
    _run("ip", "netns", "add", place)
    with contextlib.ExitStack() as stack:
        stack.callback(_undo, "ip", "netns", "del", place)
        _run("ip", "link", "add", LINK, "type", "veth", "peer", "name", far)
        stack.callback(_undo, "ip", "link", "del", LINK)
        _run("ip", "link", "set", far, "netns", place)
        for where, end, address in (((), LINK, 1), (there, far, 2)):
            _run(*where, "ip", "addr", "add", f"10.231.77.{address}/30", "dev", end)
            _run(*where, "ip", "link", "set", end, "up")
        shaped = ("tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        _run(*there, "tc", "qdisc", "add", "dev", far, "root", *shaped)
        yield "10.231.77.2", there


@contextlib.contextmanager
def running(*argv: str, directory: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program meanwhile; it is ended by its process id."""
    needs(argv[0])
    process = subprocess.Popen(
        argv, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _undo(*argv: str) -> None:
    """Put something back; that it cannot be is an error, never a case that is skipped."""
    try:
        _run(*argv)
    except Lacking as error:
        raise RuntimeError(f"left behind: {error}") from None


def _run(*argv: str) -> str:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PATH": path})
    if done.returncode:
        raise Lacking(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
