"""bw-sampler on the real kernel: what it tells against what was done and what the kernel says.

Nothing about time is asserted but its order. What needs root or a controller is skipped
with a reason where it is not there.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.errors import BenchError
from benchwright.trial.programs import find_sampler
from whole_series import Series, read_whole

try:
    SAMPLER: Path | None = find_sampler()
except BenchError:
    SAMPLER = None

pytestmark = pytest.mark.skipif(SAMPLER is None, reason="bw-sampler is not built")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")

CPU_V1 = Path("/sys/fs/cgroup/cpu")
PATIENCE_S = 20.0


class Sampler:
    """A sampler, and the file that it writes."""

    def __init__(self, out: Path, program: Path | None = SAMPLER, user: str | None = None) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [str(program), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user
        )
        self.hello = self._answer()

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer."""
        return self.send(json.dumps(request))

    def send(self, line: str) -> dict[str, Any]:
        """Send a line and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def watch(self, root: int, **more: object) -> dict[str, Any]:
        """Begin to watch a tree, at 100 samples a second unless told otherwise."""
        asked = {"id": 1, "out": str(self.out), "interval_ns": 10_000_000, **more}
        answer = self.ask(type="watch", root_pid=root, **asked)
        assert answer["type"] == "watching", answer
        return answer

    def end(self) -> dict[str, Any]:
        """End the watch."""
        answer = self.ask(type="end", id=1)
        assert answer["type"] == "watched", answer
        return answer

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of one type in the finished file."""
        with gzip.open(self.out, "rt") as text:
            read = [json.loads(line) for line in text]
        return [line for line in read if line["type"] == kind]

    def series(self) -> Series:
        """Return the finished file as the reader understands it."""
        return read_whole(self.out)

    def close(self) -> None:
        """End it, whatever state it is in."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


@pytest.fixture
def sampler(tmp_path: Path) -> Iterator[Sampler]:
    made = Sampler(tmp_path / "series.jsonl.gz")
    yield made
    made.close()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start commands whose whole sessions are ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, start_new_session=True, **pipes)  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(int(PATIENCE_S * 100)):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail(f"it never came true in {PATIENCE_S} s")


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that live."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return [int(word) for word in listed.stdout.split()]


def grown(series: Series, name: str) -> float:
    """Return by how much a column grew from the first sample to the last."""
    values = series.columns[name].values
    return float(values[-1] - values[0])


def test_columns_lie_between_the_copies_before_and_after(sampler: Sampler) -> None:
    sampler.watch(os.getpid(), copies=True)
    sampler.end()
    series = sampler.series()
    copies = {(one["at"], one["path"]): one["text"] for one in sampler.lines("file")}
    for column, path, key in (
        ("kernel/context_switches", "/proc/stat", "ctxt"),
        ("kernel/forks", "/proc/stat", "processes"),
        ("vm/faults", "/proc/vmstat", "pgfault"),
        ("vm/pages_out", "/proc/vmstat", "pgpgout"),
    ):
        before, after = (keyed(copies[at, path], key) for at in ("before", "after"))
        values = series.columns[column].values
        assert before <= values[0] <= values[-1] <= after, column
    total = keyed(copies["before", "/proc/meminfo"], "MemTotal:")
    assert series.columns["memory/total"].values[0] == total
    assert series.end is not None


def keyed(text: str, key: str) -> int:
    """Return the number after a key."""
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(key))


def test_every_disk_interface_and_processor_is_there(sampler: Sampler) -> None:
    sampler.watch(os.getpid())
    sampler.end()
    names = set(sampler.series().columns)
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    for line in lines:
        whole = Path("/sys/block", line[2]).exists()
        used = int(line[3]) > 0 or int(line[7]) > 0
        if whole and used:
            assert f"disk/{line[2]}/busy_ms" in names
        if not whole:
            assert f"disk/{line[2]}/busy_ms" not in names
    for name in os.listdir("/sys/class/net"):
        if Path("/sys/class/net", name, "mtu").exists():
            assert f"net/{name}/rx_bytes" in names
    assert {f"cpu/{cpu}/steal" for cpu in range(os.cpu_count() or 1)} <= names


def test_what_short_lived_children_wrote_is_the_trees(
    sampler: Sampler, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    write = f"head -c 300000 /dev/zero > {tmp_path}/f"
    root = start("sh", "-c", f"read go; for i in 1 2 3 4; do {write}; done; echo; read x")
    sampler.watch(root.pid)
    assert root.stdin is not None
    assert root.stdout is not None
    root.stdin.write(b"\n")
    root.stdin.flush()
    root.stdout.readline()
    sampler.end()
    series = sampler.series()
    written = grown(series, "own/written_chars")
    assert 1_200_000 <= written < 1_300_000
    assert grown(series, "own/write_calls") >= 4
    processes = series.columns["own/processes"].values
    assert processes[0] == processes[-1] == 1


def test_an_orphan_stays_in_its_tree(
    sampler: Sampler, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    root = start("sh", "-c", "sh -c 'sleep 1000 & wait' & read x")
    until(lambda: any(children(child) for child in children(root.pid)))
    (parent,) = children(root.pid)
    (orphan,) = children(parent)
    sampler.watch(root.pid)
    os.kill(parent, signal.SIGKILL)
    until(lambda: orphan not in children(parent))
    sampler.end()
    last = sampler.lines("own")[-1]["rows"]
    living = {row[0] for row in last if row[3] != "Z"}
    assert living == {root.pid, orphan}


def test_a_target_below_the_root_is_a_target_and_a_watcher_has_no_children(
    sampler: Sampler, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    root = start("sh", "-c", "sh -c 'sleep 1000 & wait' & read x")
    until(lambda: any(children(child) for child in children(root.pid)))
    (server,) = children(root.pid)
    (below,) = children(server)
    sampler.watch(root.pid, extra_pids=[server, 4_000_000], watcher_pids=[os.getpid()])
    sampler.end()
    of = {kind: sampler.lines(kind)[0]["rows"] for kind in ("own", "target", "watcher")}
    pids = {kind: {row[0] for row in rows} for kind, rows in of.items()}
    assert pids["own"] == {root.pid}
    assert pids["target"] == {server, below}
    assert pids["watcher"] == {os.getpid(), sampler.hello["pid"]}
    absent = sampler.lines("series")[0]["absent"]
    assert ["target", "there is no process 4000000"] in absent


THREADS = """
import threading
hold = threading.Event()
started = [threading.Thread(target=hold.wait, daemon=True) for _ in range(70)]
for one in started: one.start()
print(flush=True); input()
"""


def test_at_most_64_threads_are_told_and_the_others_counted(
    sampler: Sampler, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    root = start(sys.executable, "-c", THREADS)
    assert root.stdout is not None
    root.stdout.readline()
    sampler.watch(root.pid)
    sampler.end()
    line = sampler.lines("own")[-1]
    assert (len(line["rows"]), line["more"]) == (64, 7)
    assert all(row[2] for row in line["rows"])
    assert sampler.series().columns["own/threads"].values[-1] == 71


LOOP = "import asyncio, time; print(flush=True); asyncio.run({})"
FORKED = """
import os, select
read, write = os.pipe()
if os.fork(): print(flush=True); os.wait()
poll = select.poll(); poll.register(read, select.POLLIN); poll.poll(60_000)
"""
IN_MEMORY = """
import fcntl, os
one = os.memfd_create("x")
two = os.open(f"/proc/self/fd/{one}", os.O_RDWR)
fcntl.flock(one, fcntl.LOCK_EX); print(flush=True); fcntl.flock(two, fcntl.LOCK_EX)
"""
CLIENT = """
import select, socket
peer = socket.create_connection(("127.0.0.1", {port}))
poll = select.poll(); poll.register(peer, select.POLLIN); print(flush=True); poll.poll({limit})
"""


def rests(pid: int) -> bool:
    """Return whether a process sleeps and goes on to sleep."""

    def turns() -> str:
        return Path(f"/proc/{pid}/schedstat").read_text()

    before = turns()
    time.sleep(0.1)
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S" and turns() == before


@needs_root
@pytest.mark.parametrize(
    ("program", "objects", "limited"),
    [
        # Only its own wake-up socket can end it before its time.
        (LOOP.format("asyncio.sleep(60)"), ["own socket"], True),
        (LOOP.format("asyncio.to_thread(time.sleep, 60)"), ["own socket"], False),
        (FORKED, ["pipe"], True),
        (CLIENT.format(port="{port}", limit="60_000"), ["tcp 127.0.0.1:{port}"], True),
        (CLIENT.format(port="{port}", limit=""), ["tcp 127.0.0.1:{port}"], False),
        (IN_MEMORY, ["memory /memfd:x (deleted)"], None),
        ("import threading; print(flush=True); threading.Event().wait(60)", None, True),
        ("import threading; print(flush=True); threading.Event().wait()", None, False),
    ],
    ids=[
        "timer",
        "helper",
        "forked",
        "client-limited",
        "client",
        "memory",
        "event-limited",
        "event",
    ],
)
def test_a_wait_has_its_objects_and_whether_it_has_a_time_limit(
    sampler: Sampler,
    start: Callable[..., subprocess.Popen[bytes]],
    program: str,
    objects: list[str] | None,
    limited: bool | None,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        root = start(sys.executable, "-c", program.replace("{port}", port))
        assert root.stdout is not None
        root.stdout.readline()
        (waiting,) = children(root.pid) or [root.pid]
        until(lambda: rests(waiting))
        sampler.watch(root.pid)
        sampler.end()
    rows = sampler.lines("own")[-1]["rows"]
    (place,) = (row[8] for row in rows if row[1] == waiting)
    assert place[3:] == ([] if limited is None else [limited])
    if objects is None:
        assert place[0] == "futex"
    else:
        assert place[2] == [text.replace("{port}", port) for text in objects]


def test_open_files_and_all_processes_are_counted(sampler: Sampler) -> None:
    sampler.watch(os.getpid())
    expected = len(os.listdir("/proc/self/fd")) - 1
    sampler.end()
    told = {row[0]: row for row in sampler.lines("files_open")[-1]["rows"]}
    assert told[os.getpid()][2] == expected
    told = {row[0]: row for row in sampler.lines("processes")[-1]["rows"]}
    assert {1, os.getpid(), sampler.hello["pid"]} <= set(told)
    assert told[os.getpid()][1] == os.getppid()


@needs_root
def test_a_message_of_the_kernel_is_told_once(sampler: Sampler) -> None:
    mark = f"benchwright test {os.getpid()}"
    write_message(f"<3>{mark} before")
    sampler.watch(os.getpid())
    write_message(f'<4>{mark} "during"')
    sampler.end()
    (found,) = (line for line in sampler.lines("kernel") if mark in line["text"])
    assert found["text"] == f'{mark} "during"'
    assert found["level"] == 4
    rows = sampler.lines("row")
    assert rows[0]["t"] <= found["t"] <= rows[-1]["t"]


def write_message(text: str) -> None:
    """Write into the kernel's log."""
    with Path("/dev/kmsg").open("w") as log:
        log.write(text + "\n")  # Without it the record waits for more.


@pytest.fixture
def a_twentieth() -> Iterator[Path]:
    """Make a cgroup that may use a twentieth of a processor."""
    if not os.access(CPU_V1 / "cpu.cfs_quota_us", os.W_OK) and os.geteuid() != 0:
        pytest.skip("no cgroup may be made here")
    if not (CPU_V1 / "cgroup.procs").exists():
        pytest.skip("no cpu controller of version 1")
    group = CPU_V1 / f"bw-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text("5000")
        yield group
    finally:
        group.rmdir()


def test_a_cgroup_is_told_with_its_limit_and_its_throttling(
    sampler: Sampler, start: Callable[..., subprocess.Popen[bytes]], a_twentieth: Path
) -> None:
    root = start("sh", "-c", "read go; while :; do :; done")
    assert root.stdin is not None
    (a_twentieth / "cgroup.procs").write_text(str(root.pid))
    sampler.watch(root.pid)
    root.stdin.write(b"\n")
    root.stdin.flush()
    until(lambda: keyed((a_twentieth / "cpu.stat").read_text(), "nr_throttled") >= 2)
    sampler.end()
    os.killpg(root.pid, signal.SIGKILL)
    root.wait()
    told = sampler.lines("cgroup")
    (line,) = (line for line in told if line["path"] == f"/{a_twentieth.name}")
    assert line["limits"] == {"cpu_cores": 0.05}
    assert line["of"] == "own"
    columns = sampler.series().columns
    throttled = columns[f"cgroup/{line['number']}/throttled"].values
    assert throttled[-1] >= 2
    assert columns[f"cgroup/{line['number']}/throttled_us"].values[-1] > 0


def test_a_sampler_that_was_killed_leaves_what_it_saw(sampler: Sampler) -> None:
    sampler.watch(os.getpid())
    until(lambda: sampler.out.exists() and len(sampler.out.read_bytes()) > 0)
    size = sampler.out.stat().st_size
    until(lambda: sampler.out.stat().st_size > size)
    sampler.process.kill()
    sampler.process.wait()
    series = sampler.series()
    assert series.end is None
    assert len(series.times) > 2
    assert series.columns["kernel/forks"].values[-1] > 0


def test_the_end_of_input_ends_the_file(sampler: Sampler) -> None:
    sampler.watch(os.getpid())
    assert sampler.process.stdin is not None
    sampler.process.stdin.close()
    assert sampler.process.wait() == 0
    assert sampler.series().end is not None


PARENT = """
import os, subprocess, sys
out, sampler = sys.argv[1:]
inner, outer = os.pipe()
os.set_inheritable(outer, True)
asked = '{"type":"watch","id":1,"out":"%s","root_pid":1,"interval_ns":10000000}' % out
child = subprocess.Popen([sampler, "serve"], stdin=inner, stdout=subprocess.PIPE, pass_fds=[outer])
child.stdout.readline()
os.write(outer, asked.encode() + b"\\n")
child.stdout.readline()
print(child.pid, flush=True)
input()
"""


def test_it_ends_with_its_parent_though_its_input_stays_open(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    out = tmp_path / "series.jsonl.gz"
    parent = start(sys.executable, "-c", PARENT, str(out), str(SAMPLER))
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    until(lambda: is_gone(pid))
    assert read_whole(out).end is not None


def is_gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"interval_ns": 1}, "interval_ns"),
        ({"root_pid": 4_000_000}, "there is no /proc/4000000"),
        ({"out": "/nowhere/at/all"}, "No such file"),
        ({"what": 1}, "not understood"),
        ({"out": "/dev/null"}, "exists"),
    ],
)
def test_what_cannot_be_done_is_answered(
    sampler: Sampler, request_: dict[str, object], says: str
) -> None:
    asked = {
        "type": "watch",
        "id": 7,
        "out": str(sampler.out),
        "root_pid": os.getpid(),
        "interval_ns": 10_000_000,
        **request_,
    }
    answer = sampler.send(json.dumps(asked))
    assert (answer["type"], answer["id"]) == ("error", 7)
    assert says in answer["message"]
    assert sampler.send("{oops")["id"] == 0
    sampler.watch(os.getpid())
    asked.pop("what", None)
    assert "end it first" in sampler.ask(**asked)["message"]
    assert sampler.ask(type="end", id=9)["type"] == "error"
    sampler.end()


def test_a_full_disk_is_told_and_ends_nothing(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    sampler = Sampler(tmp_path / "series.jsonl.gz")
    resource.prlimit(sampler.process.pid, resource.RLIMIT_FSIZE, (2000, 2000))
    sampler.watch(start("sleep", "1000").pid, copies=True)
    done = sampler.end()
    assert done["error"] == "File too large"
    assert done["bytes"] == sampler.out.stat().st_size == 2000
    assert sampler.ask(type="end", id=1)["type"] == "error"
    sampler.close()


@needs_root
def test_an_ordinary_user_is_told_what_he_may_not_see(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        program = Path(home, "bw-sampler")
        shutil.copy(str(SAMPLER), program)
        for path, mode in ((home, 0o777), (program, 0o755)):
            os.chmod(path, mode)
        sampler = Sampler(Path(home, "out.gz"), program=program, user="nobody")
        sampler.watch(1)
        sampler.end()
        (series,) = sampler.lines("series")
        absent = dict(series["absent"])
        assert absent["own/read_chars"] == "/proc/1/io: Permission denied"
        assert "files_open" in absent
        restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text().strip()
        assert ("kernel" in absent) == (restricted == "1")
        columns = sampler.series().columns
        assert math.isnan(columns["own/read_chars"].values[-1])
        assert columns["own/processes"].values[-1] >= 1
        sampler.close()
