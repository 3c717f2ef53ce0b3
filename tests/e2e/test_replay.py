"""`bw replay` with the real engine: every operation of a trace, once, as the trace has it.

Nothing here asserts a time, but that nothing is issued early. What arrived is asked of the
rows that the engine writes and, with root, of the block layer: who issues is not its own
witness. Elsewhere that part is skipped, and says why.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchwright.features.load.samples import Batch, blocks_of, encode_header, end_block, rows_of
from benchwright.load import read_samples

Operations = list[tuple[int, int, int, int]]
FIELDS = ("intended", "kind", "offset", "size")
TARGETS = {
    "null": ("null",),
    "file": ("file", "--size", "8M", "--overwrite"),
    "direct": ("file", "--size", "8M", "--overwrite", "--direct"),
}
BYTES = 8 << 20
NUMBER = 400
WRITE = 1


def trace(path: Path) -> Operations:
    """Write a bursty trace of 400 operations in a fifth of a second, and return it.

    Places are of all kinds: repeated ones too, and several operations have one stamp.
    """
    random = np.random.default_rng(11)
    bursts = np.repeat(np.arange(NUMBER // 20) * 10_000_000, 20)
    at_ns = np.sort(bursts + random.integers(0, 200, NUMBER) * 1000)
    kinds = random.choice(["read", "write"], NUMBER)
    places = random.integers(0, BYTES // 4096 - 8, NUMBER)
    places[::7] = places[0]
    sizes = random.choice([4096, 12_288, 32_768], NUMBER)
    batch = Batch(at_ns, [str(kind) for kind in kinds], places * 4096, sizes)
    rows = rows_of(batch)
    path.write_bytes(encode_header("a test") + b"".join(blocks_of(rows)) + end_block())
    return operations(rows)


def operations(rows: NDArray[np.void]) -> Operations:
    """Return what each row is, in the order of intended starts."""
    found = zip(*(rows[field].tolist() for field in FIELDS), strict=True)
    return sorted(found)


def bw(directory: Path, *words: str) -> dict[str, Any]:
    """Run bw in a directory; return its document."""
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0 and "trace-capture" in done.stderr:
        pytest.skip(f"this kernel does not let us record: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_is_issued_once(tmp_path: Path, target: str) -> None:
    meant = trace(tmp_path / "t.bw")
    words = ("--samples", "rows.bw", "--depth", "32", "--json")
    found = bw(tmp_path, "replay", "t.bw", *words, "--target", *TARGETS[target])
    counts = found["result"]["counts"]
    assert counts["intended"] == counts["issued"] == counts["completed"] == NUMBER
    assert counts["errors"] == counts["early"] == counts["dropped"] == 0
    rows = read_samples(tmp_path / "rows.bw")
    assert operations(rows) == meant
    assert (rows["issued"] >= rows["intended"]).all()
    assert (rows["completed"] >= rows["issued"]).all()
    assert (rows["result"] == rows["size"]).all()


def test_the_naive_pacers_are_not_in_the_product(tmp_path: Path) -> None:
    trace(tmp_path / "t.bw")
    words = ["replay", "t.bw", "--pacer", "select", "--target", "null"]
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, "pacer-unavailable" in done.stderr) == (2, True)


def test_a_speed_divides_the_stamps(tmp_path: Path) -> None:
    meant = trace(tmp_path / "t.bw")
    words = ("--speed", "4x", "--samples", "rows.bw", "--json", "--target", "null")
    bw(tmp_path, "replay", "t.bw", *words)
    faster = [(at // 4, *what) for at, *what in meant]
    assert operations(read_samples(tmp_path / "rows.bw")) == sorted(faster)


def test_workers_share_a_trace(tmp_path: Path) -> None:
    meant = trace(tmp_path / "t.bw")
    words = ("--workers", "2", "--samples", "rows.bw", "--json", "--target", "null")
    bw(tmp_path, "replay", "t.bw", *words)
    rows = read_samples(tmp_path / "rows.bw")
    assert operations(rows) == meant
    assert Counter(rows["device"].tolist()) == {0: NUMBER // 2, 1: NUMBER // 2}


@contextlib.contextmanager
def loop_device(directory: Path) -> Iterator[str]:
    """Attach a file as a loop device on which an operation is one request."""
    image = directory / "disk.img"
    image.write_bytes(bytes(BYTES))
    done = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    device = done.stdout.strip()
    queue = Path("/sys/block") / Path(device).name / "queue"
    try:
        (queue / "scheduler").write_text("none")
        (queue / "nomerges").write_text("2")
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def witness_or_skip() -> None:
    """Skip, with the reason, where the block layer cannot be asked."""
    if os.geteuid() != 0:
        pytest.skip("recording block I/O needs root")
    if shutil.which("losetup") is None:
        pytest.skip("there is no losetup")
    if "tracefs" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no tracefs")


@pytest.mark.root
@pytest.mark.parametrize("depth", ["1", "64"])
def test_every_operation_arrives_at_the_device_once(tmp_path: Path, depth: str) -> None:
    witness_or_skip()
    meant = trace(tmp_path / "t.bw")
    with loop_device(tmp_path) as device:
        capture = ("trace", "capture", "--device", device, "-o", "seen.bw", "--json")
        replay = (sys.executable, "-m", "benchwright.cli.main", "replay", "t.bw")
        words = ("--direct", "--overwrite", "--depth", depth, "--quiet")
        found = bw(tmp_path, *capture, "--", *replay, *words, "--target", device)
    assert found["command"]["status"] == 0
    assert found["result"]["lost_events"] == found["result"]["unfinished"] == 0
    seen = [what for _, *what in arrivals(tmp_path / "seen.bw")]
    if depth == "1":
        # One at a time: the order at the device is that of the intended starts, and of
        # the trace among equal ones.
        rows = read_samples(tmp_path / "t.bw")
        assert seen == [what for _, *what in in_order(rows, "intended")]
    assert Counter(map(tuple, seen)) == Counter(tuple(what) for _, *what in meant)


POSTMARK = """set location {location}
set number 40
set transactions 120
set size 500 9000
set read 1024
set write 1024
set seed 7
run
quit
"""


@contextlib.contextmanager
def file_system(device: str, directory: Path) -> Iterator[Path]:
    """Mount a new ext4 on a device, on which each write reaches the device at once."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    place = directory / "mounted"
    place.mkdir()
    words = ["mount", "-o", "sync,noatime", device, str(place)]
    subprocess.run(words, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        _until_free(device)


def _until_free(device: str) -> None:
    """Wait until nothing holds a device: a program that has a mount namespace of its own, such as a
    recording beside this test, keeps a copy of the mount until it ends."""
    until = time.monotonic() + 120
    while True:
        try:
            return os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
        except OSError as why:
            if why.errno != errno.EBUSY or time.monotonic() > until:
                raise
        time.sleep(0.1)


@pytest.mark.root
@pytest.mark.parametrize(("speed", "depth"), [("1x", "64"), ("4x", "1")])
def test_what_postmark_did_to_a_device_is_done_again(
    tmp_path: Path, speed: str, depth: str
) -> None:
    witness_or_skip()
    if shutil.which("postmark") is None:
        pytest.skip("postmark is not installed (make setup)")
    with loop_device(tmp_path) as device:
        capture = ("trace", "capture", "--device", device, "--json", "-o")
        with file_system(device, tmp_path) as place:
            configuration = tmp_path / "postmark.conf"
            configuration.write_text(POSTMARK.format(location=place))
            recorded = bw(tmp_path, *capture, "pm.bw", "--", "postmark", str(configuration))
        replay = (sys.executable, "-m", "benchwright.cli.main", "replay", "pm.bw")
        words = ("--direct", "--overwrite", "--depth", depth, "--speed", speed)
        replay = (*replay, *words, "--quiet", "--target", device)
        replayed = bw(tmp_path, *capture, "seen.bw", "--", *replay)
    for found in (recorded, replayed):
        assert found["command"]["status"] == 0
        assert found["result"]["lost_events"] == found["result"]["unread_lines"] == 0
    meant = [what for _, *what in arrivals(tmp_path / "pm.bw")]
    seen = [what for _, *what in arrivals(tmp_path / "seen.bw")]
    # Each byte of 40 files at least was written once.
    assert sum(size for kind, _, size in meant if kind == WRITE) > 40 * 500
    assert len(seen) == len(meant) == recorded["result"]["operations"]
    assert sum(what[-1] for what in seen) == sum(what[-1] for what in meant)
    if depth == "1":
        assert seen == meant
    assert Counter(map(tuple, seen)) == Counter(map(tuple, meant))


def arrivals(path: Path) -> Operations:
    """Return what arrived, in the order of arrival, as the kernel told it."""
    return in_order(read_samples(path), "issued")


def in_order(rows: NDArray[np.void], field: str) -> Operations:
    """Return what each row is, in the order of a field and of the file."""
    ordered = rows[np.argsort(rows[field], kind="stable")]
    return list(zip(*(ordered[name].tolist() for name in FIELDS), strict=True))


def test_devices_go_to_their_targets(tmp_path: Path) -> None:
    lines = [f"{n % 2},{8 * n},4096,{'rw'[n % 3 == 0]},{n / 1000}" for n in range(300)]
    (tmp_path / "two.spc").write_text("".join(f"{line}\n" for line in lines))
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(BYTES))
    words = ("--map", "0=./a", "--map", "1=./b", "--overwrite", "--samples", "rows.bw")
    found = bw(tmp_path, "replay", "two.spc", *words, "--json")["result"]
    assert found["counts"]["completed"] == 300
    assert found["counts"]["errors"] == 0
    assert found["target"]["kind"] == "several"
    assert {name: one["kind"] for name, one in found["target"]["targets"].items()} == {
        "./a": "file",
        "./b": "file",
    }
    rows = read_samples(tmp_path / "rows.bw")
    for device in (0, 1):
        own = rows[rows["device"] == device]
        expected = [512 * 8 * n for n in range(device, 300, 2)]
        assert sorted(own["offset"].tolist()) == expected
    # Each file has what was written to it, and nothing of the other.
    for device, name in enumerate(("a", "b")):
        data = np.frombuffer((tmp_path / name).read_bytes(), np.uint8)
        used = data.reshape(-1, 4096).any(axis=1)
        written = [n for n in range(device, 300, 2) if n % 3 == 0]
        assert np.flatnonzero(used).tolist() == written


PROGRAM = """
import json, os, sys, threading
done = []
def read(fd, size, at):
    done.append((0, at, len(os.read(fd, size))))
a = os.open("a", os.O_RDWR)
read(a, 4096, 0)
read(a, 8192, 4096)
os.pwrite(a, b"x" * 512, 65536)
done.append((1, 65536, 512))
other = threading.Thread(target=read, args=(a, 100, 12288))
other.start()
other.join()
os.lseek(a, 1 << 16, os.SEEK_SET)
copy = os.dup(a)
os.write(copy, b'"a, 7) = 9 <"')
done.append((1, 65536, 13))
if (child := os.fork()) == 0:
    read(a, 10, 65549)
    log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in range(3):
        os.write(log, b"line")
    os.fsync(log)
    os._exit(0)
os.waitpid(child, 0)
read(a, 10, 65559)
json.dump(done, sys.stdout)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_programs_files_are_used_again(tmp_path: Path) -> None:
    for name in ("a", "a2"):
        (tmp_path / name).write_bytes(bytes(1 << 20))
    (tmp_path / "log2").write_bytes(bytes(12))
    words = ("strace", "-f", "-ttt", "-T", "-y", "-o", "app.strace", sys.executable, "-S", "-c")
    done = subprocess.run([*words, PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    if "Operation not permitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    place = tmp_path.resolve()
    mapped = ("--map", f"{place}/a=./a2", "--map", f"{place}/log=./log2", "--overwrite")
    words = ("replay", "app.strace", *mapped, "--samples", "rows.bw", "--speed", "10x", "--json")
    found = bw(tmp_path, *words)["result"]
    assert found["counts"]["errors"] == 0
    rows = read_samples(tmp_path / "rows.bw")
    rows = rows[np.argsort(rows["intended"], kind="stable")]
    of_a, of_log = (rows[rows["device"] == device] for device in (0, 1))
    # What the program itself says, and what its child does.
    told = [*json.loads(done.stdout)]
    told.insert(-1, [0, 65549, 10])
    kinds = ("kind", "offset", "size")
    assert [list(row) for row in of_a[list(kinds)].tolist()] == told
    assert of_log[list(kinds)].tolist()[:3] == [(1, 4 * n, 4) for n in range(3)]
    assert found["kinds"]["flush"]["operations"] == 1


def test_later_and_at_ticks(tmp_path: Path) -> None:
    meant = trace(tmp_path / "t.bw")
    words = ("--delay", "3ms", "--quantize", "1ms", "--samples", "rows.bw", "--json")
    found = bw(tmp_path, "replay", "t.bw", *words, "--target", "null")["result"]
    assert found["counts"]["early"] == 0
    altered = [(-(-(at + 3_000_000) // 10**6) * 10**6, *what) for at, *what in meant]
    rows = read_samples(tmp_path / "rows.bw")
    assert operations(rows) == sorted(altered)
    # Response times count from the altered time.
    assert found["kinds"]["all"]["response_ns"]["max"] == int(
        (rows["completed"] - rows["intended"]).max()
    )
