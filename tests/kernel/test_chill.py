"""Cold caches on the real kernel: files that were in memory, and no longer are.

The squeeze runs in a memory cgroup of its own, so that the machine's caches and its other
tests are left alone; where there is none to be had, that is said and skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.quiet.chill import residency
from benchwright.features.quiet.chill_remount import parse_mountinfo, remount

MIB = 1 << 20
# Of the 10,240 pages of the file: the kernel may have taken a few back by itself.
MOST = 9000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
BW = [sys.executable, "-m", "benchwright.cli.main", "chill", "--json"]


@pytest.fixture
def data() -> Iterator[Path]:
    """Yield a file of 40 MiB on a disk, written back and not in memory."""
    place = Path(f"/var/tmp/bw-test-chill-{os.getpid()}")
    place.write_bytes(os.urandom(40 * MIB))
    try:
        evict(place)
        yield place
    finally:
        place.unlink()


def evict(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if residency(path).resident:
        pytest.skip(f"{path} is in memory whatever is done: no disk below it?")


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """Yield a memory cgroup with a limit, of version 1 or 2; skip without one."""
    root = Path("/sys/fs/cgroup")
    for parent, name in ((root / "memory", "memory.limit_in_bytes"), (root, "memory.max")):
        place = parent / f"bw-test-chill-{os.getpid()}"
        try:
            place.mkdir()
        except OSError:
            continue
        try:
            (place / name).write_text(str(limit))
        except OSError:
            place.rmdir()
            continue
        try:
            yield place
        finally:
            place.rmdir()
        return
    pytest.skip("no memory cgroup can be made here (root, with the memory controller)")


def test_pages_in_memory_are_counted(data: Path) -> None:
    with data.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 8192, 4096 * 100)
        found = residency(data)
    assert (found.files, found.pages, found.resident) == (1, 10240, 2)
    assert residency(data.parent / "no such file").unread == 1


@needs_root
def test_a_file_is_evicted_and_nothing_else(data: Path, tmp_path: Path) -> None:
    other = Path(f"{data}-other")
    other.write_bytes(data.read_bytes())
    try:
        done = subprocess.run(
            [*BW, "--strict", str(data)], capture_output=True, text=True, check=True
        )
        assert residency(other).resident > MOST
    finally:
        other.unlink()
    told = json.loads(done.stdout)
    assert (told["method"], told["squeeze"]) == ("files", None)
    (one,) = told["checked"]
    assert one["before_pages"] > MOST
    assert one["after_pages"] == 0


def test_the_set_up_of_a_trial_evicts_what_its_command_names(data: Path, tmp_path: Path) -> None:
    chill = " ".join([*BW, "--method", "files", "--strict"])
    for command in (["cat", str(data)], [f"cat {data} | wc -c"]):
        study = tmp_path / command[0][:3].strip("/")
        words = ("run", "--study", str(study), "--runs", "2", "--output", "null")
        end = ["--", *command] if len(command) > 1 else command
        subprocess.run([*BW[:3], *words, "--setup", chill, *end], check=True, capture_output=True)
        (log,) = study.glob("logs/s1/*/setup-0.out")
        told = log.read_text()
        assert told.count(f'"path": "{data}"') == 2
        assert told.count('"after_pages": 0') == 2
        assert max(map(int, re.findall(r"before_pages.*?(\d+)", told))) > MOST
    missing = subprocess.run(
        [*BW[:3], "run", "--study", str(tmp_path / "m"), "--runs", "1", "--setup", chill, "true"],
        capture_output=True,
        text=True,
    )
    assert missing.returncode == 1
    assert "names no file to evict" in missing.stdout + missing.stderr


def test_chill_empties_the_cache_of_its_cgroup(data: Path) -> None:
    with memory_cgroup(256 * MIB) as group:
        # Read three times in that cgroup, and so as dear to the kernel as can be.
        script = f"echo $$ >{group}/cgroup.procs; cat {data} {data} {data} >/dev/null; "
        method = ("--method", "chill")
        words = " ".join([*BW, *method, "--strict", "--check", str(data)])
        done = subprocess.run(
            ["sh", "-c", f"{script} {words}; s=$?; echo $$ >{group.parent}/cgroup.procs; exit $s"],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert told["checked"][0]["before_pages"] > MOST
    assert told["checked"][0]["after_pages"] == 0
    assert told["squeeze"]["limit_bytes"] == 256 * MIB
    assert told["squeeze"]["taken_bytes"] <= 256 * MIB - told["squeeze"]["reserve_bytes"]


def test_the_squeeze_ends_with_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.features.quiet.chill_squeeze", "/var/tmp", "1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (1, b""), done.stderr


@needs_root
def test_dropped_caches_are_cold(data: Path) -> None:
    data.read_bytes()
    words = [*BW, "--method", "drop-caches", "--check", str(data)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["checked"][0]["before_pages"] > MOST
    assert told["checked"][0]["after_pages"] == 0


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Yield a mounted ext4 on a loop device that vanishes with its mount."""
    image, target = tmp_path / "image", tmp_path / "mnt dir"
    target.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * MIB)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image], check=True)
    made = ["mount", "-o", "loop,noatime,nosuid", image, target]
    if subprocess.run(made, capture_output=True).returncode:
        pytest.skip("no loop device can be mounted here")
    try:
        yield target
    finally:
        subprocess.run(["umount", target], check=True)


def line_of(target: Path) -> tuple[object, ...]:
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    (mount,) = (m for m in mounts if m.target == str(target))
    return (mount.source, mount.options, mount.fs_type, mount.super_options)


@needs_root
def test_a_remounted_file_system_is_as_before_and_cold(mounted: Path) -> None:
    file = mounted / "file"
    file.write_bytes(os.urandom(8 * MIB))
    before = line_of(mounted)
    assert residency(file).resident == 2048
    remount(mounted)
    assert residency(file).resident == 0
    assert line_of(mounted) == before
    image = mounted.parent / "image"
    assert residency(image).resident < 1024, "the file behind the loop device is cold too"


@needs_root
def test_who_is_in_the_way_is_named_and_nothing_is_changed(mounted: Path) -> None:
    before = line_of(mounted)
    with subprocess.Popen(["sleep", "60"], cwd=mounted) as holder:
        try:
            with pytest.raises(BenchError) as caught:
                remount(mounted)
        finally:
            holder.kill()
    assert caught.value.code == "chill-busy"
    assert f"sleep ({holder.pid}): cwd" in caught.value.message
    assert line_of(mounted) == before


@needs_root
def test_a_mount_in_another_namespace_keeps_the_caches_and_is_told(mounted: Path) -> None:
    (mounted / "file").write_bytes(os.urandom(MIB))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    with subprocess.Popen([*words, "echo; exec sleep 60"], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            if not other.stdout.readline():
                pytest.skip("no mount namespace can be made here")
            told = remount(mounted)
        finally:
            other.kill()
    # Other tests of the machine may have namespaces of their own.
    assert any(f"({other.pid})" in who for who in told.kept_by)
    assert residency(mounted / "file").resident == 256
