"""What is counted in the kernel against programs whose I/O is known exactly.

One recording serves most tests: bpftrace takes seconds to begin and end. Beside it a
stranger writes, which must not be seen. What is skipped is printed by pytest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.features.profile.bpftrace_program import Depth, ThreadTree
from benchwright.features.profile.kernel_counter import CountingTask
from benchwright.features.profile.observer import Characterizer, Counting
from benchwright.features.profile.types import Characterization, MappedFiles, Transfer, sizes_of
from benchwright.trial.programs import find_engine
from benchwright.watch.observer import ObserverError, Watch

needs_bpftrace = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bpftrace") is None,
    reason="counting in the kernel needs root and bpftrace",
)
WORK = """
dd if=/dev/zero of=bytes bs=1 count=3000
dd if=/dev/zero of=bytes bs=512 count=20 oflag=append conv=notrunc
dd if=/dev/zero of=pages bs=4096 count=200 conv=fsync
dd if=/dev/zero of=direct bs=64k count=10 oflag=direct
dd if=/dev/zero of=synchronous bs=2k count=7 oflag=sync
(dd if=pages of=/dev/null bs=5000; cat pages) | wc -c
sh -c 'i=0; while [ $i -lt 200 ]; do echo x >small$i; i=$((i+1)); done'
"""
MAPPING = "import mmap; f = open('pages', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 1"
FAR = 1 << 40
COPYING = f"""
import os
source, copied = open('far', 'w+b'), open('copied', 'wb')
os.truncate('far', {FAR} + (1 << 20))
file, (_, pipe) = source.fileno(), os.pipe()
places = iter(range({FAR}, {FAR} + (1 << 20), 4096))
for _ in range(4):
    os.sendfile(pipe, file, next(places), 4096)
for _ in range(4):
    os.splice(file, pipe, 4096, offset_src=next(places))
for _ in range(4):
    os.copy_file_range(file, copied.fileno(), 4096, offset_src=next(places))
os.lseek(file, next(places), os.SEEK_SET)
for _ in range(4):
    os.preadv(file, [bytearray(4096)], -1)
"""
"""What is read at places that calls point to, and with -1 at the open file's own."""
FIO = """
fio --name=a --directory=. --size=2M --bs=4k --rw=randwrite --direct=1 --iodepth=8 \\
    --ioengine=ENGINE --output=/dev/null
"""
STRANGER = "while :; do dd if=/dev/zero of=stranger bs=777 count=50; sleep 0.1; done"


def characterized(
    place: Path, script: str, bpftrace: str = "bpftrace"
) -> tuple[Characterization, Path]:
    """Return what was counted of a script that runs in `place`, and the study."""
    study = place / "study"
    directory = study / "watched" / "s1"
    directory.mkdir(parents=True)
    stranger = _shell(STRANGER, place)
    # The shell takes the launcher's place: what it starts counts, itself it does not.
    worker = _shell(f"read line; {script}", place)
    observer = Characterizer(find_engine(), bpftrace)
    try:
        observer.begin(Watch(directory, "io_1-1", worker.pid))
        worker.communicate(b"go\n")
        observer.end()
    finally:
        observer.close()
        for process in (stranger, worker):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert observer.recorded is not None
    return observer.recorded, study


def _shell(script: str, place: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", script],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


PAIRS = """
import os
source, target = os.open('/dev/zero', os.O_RDONLY), os.open('pairs', os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(target, b'x' * 100, 0)
    os.lseek(target, 0, os.SEEK_SET)
    os.write(target, b'y' * 300)
"""
"""A loop of three calls, which are equally many in any time."""


@needs_bpftrace
def test_all_calls_of_what_runs_already_are_counted_from_and_until_the_same_time(
    tmp_path: Path,
) -> None:
    runs = subprocess.Popen([sys.executable, "-c", PAIRS], cwd=tmp_path)
    observer = Characterizer(None)
    try:
        observer.begin(Watch(tmp_path, "pairs", runs.pid, root_counts=True))
        time.sleep(0.5)
        observer.end()
    finally:
        observer.close()
        runs.kill()
        runs.wait()
    found = observer.recorded
    assert found is not None
    counts = {t.call: t.calls for t in found.transfers} | {o.call: o.calls for o in found.others}
    assert set(counts) == {"pwrite64", "write", "lseek"}
    # The counts are cleared one after the other, within milliseconds.
    least, most = min(counts.values()), max(counts.values())
    assert least > 1000
    assert most < 1.1 * least
    assert (tmp_path / found.file).is_file()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Characterization, Path]:
    engines = [e for e in ("libaio", "io_uring") if shutil.which("fio")]
    script = "".join((WORK, *(f'{sys.executable} -c "{one}"\n' for one in (MAPPING, COPYING))))
    script += "".join(FIO.replace("ENGINE", engine) for engine in engines)
    return characterized(tmp_path_factory.mktemp("io"), script)


@pytest.fixture
def counted(known: tuple[Characterization, Path]) -> Characterization:
    return known[0]


def files(counted: Characterization, call: str) -> Iterator[Transfer]:
    return (t for t in counted.transfers if t.call == call and t.kind == "file")


@needs_bpftrace
def test_sizes_are_exact_and_strangers_are_not_seen(counted: Characterization) -> None:
    [plain] = (t for t in files(counted, "write") if not t.direct and not t.synchronous)
    sizes = {size.bytes: size.calls for size in plain.sizes}
    assert (sizes[1], sizes[4096]) == (3000, 200)
    assert 777 not in sizes_of(counted, "write")
    # Each of the small files begins at its beginning, whoever had its place in memory;
    # an append is in order.
    assert (sizes[2], sizes[512], plain.sequential) == (200, 20, 1.0)
    assert sum(one.calls for one in plain.latencies) == plain.calls
    [direct] = (t for t in files(counted, "write") if t.direct)
    assert (direct.calls, direct.bytes) == (10, 10 * 65536)
    [synchronous] = (t for t in files(counted, "write") if t.synchronous)
    assert (synchronous.calls, synchronous.bytes) == (7, 7 * 2048)
    reads = sizes_of(counted, "read")
    assert reads[5000] == 200 * 4096 // 5000
    assert (counted.lost_events, counted.method) == (0, "bpftrace")


@needs_bpftrace
def test_pipes_are_told_apart_from_files(counted: Characterization) -> None:
    moved = Counter[str]()
    for transfer in counted.transfers:
        if transfer.kind == "pipe":
            moved[transfer.direction] += transfer.bytes
            assert sum(one.bytes * one.calls for one in transfer.sizes) == transfer.bytes
    assert moved["write"] >= 200 * 4096
    assert moved["read"] >= 200 * 4096
    [fsync] = (one for one in counted.others if one.call == "fsync")
    assert (fsync.calls, sum(one.calls for one in fsync.latencies)) == (1, 1)


@needs_bpftrace
def test_character_devices_have_names_and_sizes(counted: Characterization) -> None:
    [zero] = (t for t in counted.transfers if t.node == "/dev/zero")
    assert {one.bytes: one.calls for one in zero.sizes} == {
        1: 3000,
        512: 20,
        4096: 200,
        65536: 10,
        2048: 7,
    }
    assert (zero.kind, zero.sequential) == ("character device", None)


@needs_bpftrace
def test_files_and_mappings_are_told(counted: Characterization) -> None:
    assert MappedFiles(True, 1, 200 * 4096) in counted.mapped
    used = [use for use in counted.file_systems if (use.files or 0) >= 204]
    assert used
    assert all((use.files_bytes or 0) > 200 * 2 + 200 * 4096 for use in used)


@needs_bpftrace
@pytest.mark.parametrize(
    ("call", "sequential"),
    # The first of all is not at the beginning of the file.
    [("sendfile64", 0.75), ("splice", 1.0), ("copy_file_range", 1.0), ("preadv2", 1.0)],
)
def test_a_call_is_where_it_says(counted: Characterization, call: str, sequential: float) -> None:
    [one] = files(counted, call)
    assert (one.calls, one.bytes, one.sequential) == (4, 4 * 4096, sequential)
    reached = [use.files_bytes or 0 for use in counted.file_systems]
    assert FAR < max(reached) < 2 * FAR


@needs_bpftrace
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("call", ["io_submit write", "io_uring WRITE"])
def test_what_bypasses_write_is_seen_too(counted: Characterization, call: str) -> None:
    [one] = files(counted, call)
    assert (one.calls, one.bytes, one.direct) == (512, 2 << 20, True)
    assert [size.bytes for size in one.sizes] == [4096]
    assert one.sequential is not None
    assert one.sequential < 0.5
    assert counted.queued_s is not None
    assert counted.queued_s > 0


@needs_bpftrace
def test_what_reached_the_device_is_recorded_as_a_trace(
    known: tuple[Characterization, Path],
) -> None:
    counted, study = known
    assert counted.trace is not None
    assert (study / counted.trace.file).read_bytes()[:8] == b"bwtrace\n"
    if not counted.trace.devices:
        pytest.skip("the temporary directory lies on no block device")
    own = sum(
        block.bytes
        for block in counted.blocks
        if block.direction == "write" and block.device in counted.trace.devices
    )
    assert own >= 10 * 65536 + 200 * 4096
    assert (study / counted.file).is_file()
    assert {p.suffix for p in (study / "watched" / "s1").iterdir()} == {".bw", ".json"}


@pytest.mark.skipif(os.geteuid() != 0, reason="tracefs is root's")
def test_without_bpftrace_events_are_read(tmp_path: Path) -> None:
    script = (
        "dd if=/dev/zero of=a bs=3000 count=100 conv=fsync; "
        "dd if=a of=/dev/null bs=1500; dd if=a of=b bs=1500 oflag=direct"
    )
    counted, study = characterized(tmp_path, script, bpftrace="no-such-bpftrace")
    assert (counted.method, counted.lost_events) == ("tracefs", 0)
    writes = sizes_of(counted, "write")
    assert writes[3000] == 100
    assert sizes_of(counted, "read")[1500] >= 200
    assert [one.calls for one in counted.others if one.call == "fsync"] == [1]
    assert ("write", "EINVAL") in {(one.call, one.error) for one in counted.failed}
    assert any("bpftrace is not installed" in why for _, why in counted.absent)
    assert {p.suffix for p in (study / "watched" / "s1").iterdir()} == {".bw", ".json"}


@needs_bpftrace
def test_a_kernel_that_tells_less_is_counted_too(tmp_path: Path) -> None:
    depth = Depth(files=False, rings=False)
    bpftrace = shutil.which("bpftrace") or ""
    counting = Counting(
        CountingTask(ThreadTree((), (os.getpid(),)), bpftrace, depth, os.getpid()),
        tmp_path / "counts",
    )
    try:
        counting.wait_until_ready()
        assert counting.absent()
    finally:
        counting.discard()
    assert list(tmp_path.iterdir()) == []


def test_an_ordinary_user_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(ObserverError, match=r"only root.*strace") as refused:
        Characterizer(None).begin(Watch(tmp_path, "x", os.getpid()))
    assert refused.value.code == "characterize-unavailable"
