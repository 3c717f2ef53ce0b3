"""`bw trace` with the real engine, on small traces that the tests write.

Nothing here asserts a time: counts, offsets and orders do not depend on the machine. The
capture needs root, a loop device and tracefs; elsewhere it is skipped, and says why.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchwright.features.load.response_times import decode_histogram

Done = subprocess.CompletedProcess[str]
FORMAT = Path(__file__).parents[2] / "docs" / "trace-format.md"


def bw(directory: Path, *words: str) -> Done:
    """Run `bw trace` in a directory and return what it did."""
    return subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", "trace", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )


def document(done: Done) -> dict[str, Any]:
    """Return the document of a command that went well."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def msr(stamps_us: list[int], *, response_us: int = 500) -> str:
    """Return an MSR trace: at each stamp a read of the next 4 KiB, 100 ns FILETIMEs."""
    begin = 128_166_372_000_000_000
    lines = (
        f"{begin + us * 10},hm,1,Read,{place * 4096},4096,{response_us * 10}\n"
        for place, us in enumerate(stamps_us)
    )
    return "".join(lines)


def rows(path: Path) -> np.ndarray[Any, Any]:
    """Return every row of a file of ours, as the page of the format reads it."""
    code = FORMAT.read_text().partition("## Reading it with numpy")[2]
    lines = [line[4:] for line in code.splitlines() if line.startswith("    ") or not line]
    reader = path.with_suffix(".py")
    reader.write_text("\n".join(lines))
    found: np.ndarray[Any, Any] = runpy.run_path(str(reader))["read"](path)[1]
    return found


def test_even_arrivals_are_told(tmp_path: Path) -> None:
    # 10 ms apart, each takes 5 ms: half an operation is under way on average.
    stamps = [place * 10_000 for place in range(1001)]
    (tmp_path / "even.csv.gz").write_bytes(gzip.compress(msr(stamps, response_us=5000).encode()))
    (found,) = document(bw(tmp_path, "stat", "even.csv.gz", "--json"))["traces"]
    assert (found["operations"], found["duration_ns"]) == (1001, 10 * 10**9)
    assert found["rate_per_s"] == pytest.approx(100)
    assert found["gaps"]["gap_ns"]["min"] == found["gaps"]["gap_ns"]["max"] == 10**7
    assert found["gaps"]["cv_squared"] == 0
    by_scale = {one["bin_ns"]: one["index"] for one in found["dispersion"]}
    assert by_scale[10**9] == 0, "even arrivals do not burst"
    assert found["sequentiality"]["sequential_share"] == 1
    assert found["queue"]["mean"] == pytest.approx(0.5, rel=0.01)
    assert found["working_set"]["blocks"] == 1001
    assert found["popularity"]["method"] == "exact"
    histogram = decode_histogram(found["gaps"]["gap_ns"]["hdr"])
    assert histogram.total == 1000


def test_what_is_wrong_has_its_place_or_is_counted(tmp_path: Path) -> None:
    lines = msr([0, 10, 20]).splitlines()
    lines[1] = lines[1].replace("Read", "Reed")
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    done = bw(tmp_path, "stat", "bad.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("bad.csv:2:")
    assert "--lenient" in done.stderr
    found = document(bw(tmp_path, "stat", "bad.csv", "--lenient", "--json"))
    assert found["traces"][0]["report"]["skipped_lines"] == 1
    assert found["traces"][0]["operations"] == 2
    assert found["findings"][0]["code"] == "trace-lines-skipped"


def test_conversion_keeps_every_operation(tmp_path: Path) -> None:
    stamps = [0, 5, 5, 1_000_000, 1_000_007]
    (tmp_path / "a.csv").write_text(msr(stamps))
    words = ("convert", "a.csv", "-o", "a.bw", "--speed", "2x", "--json")
    result = document(bw(tmp_path, *words))["result"]
    assert (result["rows"], result["output"]["format"]) == (5, "bw")
    found = rows(tmp_path / "a.bw")
    assert found["intended"].tolist() == [us * 1000 // 2 for us in stamps]
    assert found["offset"].tolist() == [place * 4096 for place in range(5)]
    again = bw(tmp_path, *words)
    assert again.returncode == 2
    assert "the file already exists" in again.stderr
    document(bw(tmp_path, "convert", "a.bw", "-o", "a.log", "--to", "fio-iolog", "--json"))
    assert (tmp_path / "a.log").read_text().startswith("fio version 3 iolog\n")
    (same,) = document(bw(tmp_path, "stat", "a.log", "--json"))["traces"]
    assert same["operations"] == 5


def test_a_replay_is_compared_with_its_trace(tmp_path: Path) -> None:
    stamps = [place * 2000 for place in range(500)]
    (tmp_path / "a.csv").write_text(msr(stamps))
    late = [us // 4 + (30 if place % 2 else 0) for place, us in enumerate(stamps)]
    (tmp_path / "b.csv").write_text(msr(late, response_us=1000))
    words = ("compare", "a.csv", "b.csv", "--speed", "4x", "--shift", "0", "--json")
    result = document(bw(tmp_path, *words, "--plot", "p.svg"))["result"]
    assert (result["matched"], result["unmatched_a"], result["unmatched_b"]) == (500, 0, 0)
    error = result["arrival_error"]
    assert error["mean_ns"] == pytest.approx(15_000)
    within = {one["within_ns"]: one["share"] for one in error["within"]}
    assert (within[10_000], within[100_000]) == (0.5, 1.0)
    assert result["response_ratio"] == pytest.approx(2, rel=0.01)
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    told = bw(tmp_path, *words[:-1])
    assert "speed 4x (as given)" in told.stdout


def test_a_part_that_was_replayed_is_compared_with_that_part(tmp_path: Path) -> None:
    stamps = [place * 2000 for place in range(500)]
    (tmp_path / "a.csv").write_text(msr(stamps))
    (tmp_path / "b.csv").write_text(msr([us for us in stamps if us < 200_000]))
    words = ("compare", "a.csv", "b.csv", "--speed", "1x", "--shift", "0", "--json")
    whole = document(bw(tmp_path, *words))
    assert whole["result"]["unmatched_a"] == 400
    (remedy,) = (one["remedy"] for one in whole["findings"] if one["code"] == "trace-unmatched")
    assert "(--from, --for: of A)" in remedy
    part = document(bw(tmp_path, *words, "--for", "200ms"))
    assert (part["result"]["matched"], part["result"]["unmatched_a"]) == (100, 0)
    assert "trace-unmatched" not in {one["code"] for one in part["findings"]}


def test_a_part_that_a_trace_does_not_have_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(msr([0, 2000, 4000]))
    done = bw(tmp_path, "stat", "a.csv", "--from", "2h")
    assert done.returncode == 0, done.stderr
    assert "all 3 were left out [trace-empty]" in done.stdout
    assert "trace-empty" not in bw(tmp_path, "stat", "a.csv").stdout


# -- capture ---------------------------------------------------------------------------


@contextlib.contextmanager
def loop_device(directory: Path) -> Iterator[str]:
    """Attach a file of 8 MiB as a loop device, and detach it."""
    image = directory / "disk.img"
    image.write_bytes(bytes(8 << 20))
    done = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def capture_or_skip() -> None:
    """Skip, with the reason, where this user or kernel cannot record."""
    if os.geteuid() != 0:
        pytest.skip("recording block I/O needs root")
    if shutil.which("losetup") is None:
        pytest.skip("there is no losetup")
    if "tracefs" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no tracefs")


READS = """
import mmap, os, sys
page = mmap.mmap(-1, 8192)
device = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for offset in (12288, 4096, 1048576):
    assert os.preadv(device, [page], offset) == 8192
print("read")
"""


STRANGER = READS.replace("print(", "while True: os.preadv(device, [page], 2097152)\nprint(")


@contextlib.contextmanager
def stranger(device: str) -> Iterator[None]:
    """Let another process, outside the tree, read another place again and again."""
    other = subprocess.Popen([sys.executable, "-c", STRANGER, device])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@pytest.mark.root
def test_a_capture_finds_exactly_what_was_read(tmp_path: Path) -> None:
    capture_or_skip()
    with loop_device(tmp_path) as device:
        words = ("capture", "-o", "cap.bw", "--json", "--device", device)
        reads = (sys.executable, "-c", READS, device)
        with stranger(device):
            # Through a shell: the reader is a grandchild of bw's, and in its tree.
            done = bw(tmp_path, *words, "--", "sh", "-c", '"$@"; :', "sh", *reads)
        if done.returncode != 0 and "trace-capture" in done.stderr:
            pytest.skip(f"this kernel does not let us record: {done.stderr.strip()}")
        found = document(done)
    assert "read" in done.stderr, "the command's words are not in the document"
    assert found["command"]["status"] == 0
    assert found["result"]["lost_events"] == 0
    taken = rows(tmp_path / "cap.bw")
    assert taken["offset"].tolist() == [12288, 4096, 1048576]
    assert taken["size"].tolist() == [8192] * 3
    assert taken["kind"].tolist() == [0] * 3, "reads"
    assert taken["result"].tolist() == [8192] * 3
    assert (taken["completed"] >= taken["intended"]).all()
    assert taken["intended"][0] == 0
    (told,) = document(bw(tmp_path, "stat", "cap.bw", "--json"))["traces"]
    assert told["operations"] == 3
    assert told["queue"]["without_end"] == 0


def test_a_capture_of_nothing_that_exists_is_told(tmp_path: Path) -> None:
    words = ("capture", "--device", "/dev/no-such", "--for", "1s", "-o", "cap.bw")
    done = bw(tmp_path, *words)
    assert done.returncode == 2, done.stdout
    assert "/dev/no-such" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
