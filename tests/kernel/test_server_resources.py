"""The resources of a server on the real kernel: in force while it runs, and put back.

Servers are small and on the loopback. Disks are files of a few MiB on loop devices. What this
machine cannot limit is skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.errors import InputError
from benchwright.core.processes import descendants_of
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.quiet.hold import Quieted, QuietRequest, restore_dead
from benchwright.features.quiet.host import Host, ProgramResult, run_program
from benchwright.features.quiet.log_path import LOG, server_directories
from benchwright.features.quiet.server_resources import MOUNTS_PREFIX, server_wishes
from benchwright.features.quiet.types import (
    DeviceLimits,
    IoLimits,
    ServerDisks,
    ServerResources,
    ServerSetup,
)
from benchwright.features.search.server.host import ServerResourcesHeld
from benchwright.features.search.server.workbench import LocalWorkbench, WorkbenchConfig
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import read_spec
from benchwright.trial.bench import LocalBench
from benchwright.trial.protocol import ExecEnvironment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
EXAMPLES = Path(__file__).parents[2] / "examples"
CGROUPS = Path("/sys/fs/cgroup")
VERSION_1 = (CGROUPS / "cpu/cpu.cfs_quota_us").exists()
MIB = 1 << 20


def needs(wanted: ServerResources) -> None:
    """Skip where this machine cannot give these resources."""
    missing = ServerResourcesHeld().refusals(wanted)
    if missing:
        pytest.skip("; ".join(missing))


def left(place: str) -> list[str]:
    """Return what servers of this process, or with disks in this place, have left."""
    loops = subprocess.run(
        ["losetup", "-n", "-O", "BACK-FILE"], capture_output=True, text=True
    ).stdout
    mounts = Path("/proc/mounts").read_text()
    disks = [one for one in (*loops.splitlines(), *mounts.splitlines()) if place in one]
    groups = CGROUPS.rglob(f"bw-server-{os.getpid()}_*")
    return [*disks, *map(str, groups)]


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the logs of the test apart, and check that everything is put back."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("BW_STATE", str(state))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    assert left(str(tmp_path)) == []
    assert list(tmp_path.glob(f"{MOUNTS_PREFIX}*")) == []
    assert list(state.rglob(LOG)) == []


def groups_of(pid: int) -> dict[str, Path]:
    """Return the group of a process, by the controllers of its hierarchy."""
    found = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for one in controllers.split(","):
            top = CGROUPS / one if VERSION_1 else CGROUPS
            found[one] = top / path.lstrip("/")
    return found


def limit_of(pid: int, first: str, second: str) -> str:
    """Return a limit of a process's group: the file of version 1 or of version 2."""
    name = first if VERSION_1 else second
    groups = groups_of(pid)
    group = groups[name.partition(".")[0]] if VERSION_1 else groups[""]
    assert group.name.startswith("bw-server-"), group
    return (group / name).read_text().strip()


def stays(_so_far: LoadTrial) -> bool:
    """Leave no load."""
    return False


def serving(spec: Spec, directory: Path, bench: LocalBench) -> contextlib.closing[LocalWorkbench]:
    """Return the workbench of a spec."""
    assert spec.goal is not None
    setting = WorkbenchConfig(
        spec=spec,
        criteria=spec.goal.criteria,
        around=ExecEnvironment(str(directory), ()),
        logs=directory / "logs",
    )
    return contextlib.closing(LocalWorkbench(setting, bench))


def pids_of(bench: LocalBench, name: str) -> list[int]:
    """Return the processes of a server that the launcher started, the oldest first."""
    found = descendants_of(bench.hello.pid)
    found.sort(key=lambda one: (one.started_ticks, one.pid))
    return [one.pid for one in found if one.name.startswith(name)]


def with_resources(file: str, resources: str, more: str = "") -> str:
    """Return an example with resources, and with further factors."""
    text = (EXAMPLES / file).read_text()
    text = text.replace("[load]", f"[server.resources]\n{resources}\n\n[load]")
    return text.replace("[factors]", f"[factors]\n{more}")


# -- real servers --------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") is None,
    reason="nginx is not installed (nginx-light)",
)
def test_nginx_with_workers_and_a_share_of_the_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(ServerResources(cpu_share=100))
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")
    text = with_resources(
        "peak-nginx.toml", 'cpu_share = "{share}"', "w = [1, 2]\nshare = [50, 200]"
    )
    text = text.replace("{workers}", "{w}").replace("connections = 64", 'connections = "{w}6"')
    spec = read_spec(text, str(EXAMPLES / "peak-nginx.toml"))
    with contextlib.closing(LocalBench()) as bench, serving(spec, tmp_path, bench) as workbench:
        for w, share, shares in (("1", "50", "512"), ("2", "200", "2048")):
            trial = workbench.run(Probe(20, 0.5), (("w", w), ("share", share)), stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            pids = pids_of(bench, "nginx")
            assert len(pids) == 1 + int(w)
            for pid in pids:
                found = limit_of(pid, "cpu.shares", "cpu.weight")
                assert found == (shares if VERSION_1 else share)
            # The launcher itself is not in a group of the server.
            own = groups_of(bench.hello.pid).values()
            assert not any("bw-server-" in str(one) for one in own)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_redis_with_a_quota_of_the_cpus_on_limited_disks(tmp_path: Path) -> None:
    wanted = ServerResources(cpu_quota_us=50_000, disks=ServerDisks(count=1))
    needs(wanted)
    resources = """cpu_quota = "{quota}"
disks = "{n}"
disk_size = "16M"
disk_iops = "{iops}"
disk_options = ["-b", "{block}"]"""
    text = with_resources(
        "peak-redis.toml",
        resources,
        "quota = [0.5, 1]\nn = [1, 2]\niops = [200, 400]\nblock = [1024, 4096]",
    ).replace("--dir {state}", "--dir {disk1}")
    spec = read_spec(text, str(EXAMPLES / "peak-redis.toml"))
    always = (("persistence", "yes"),)
    with contextlib.closing(LocalBench()) as bench, serving(spec, tmp_path, bench) as workbench:
        for quota, n, iops, block in (("0.5", 1, "200", 1024), ("1", 2, "400", 4096)):
            sample = (("quota", quota), ("n", str(n)), ("iops", iops), ("block", str(block)))
            trial = workbench.run(Probe(20, 1.0), (*sample, *always), stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            (pid,) = pids_of(bench, "redis-server")
            found = limit_of(pid, "cpu.cfs_quota_us", "cpu.max").split()[0]
            assert int(found) == float(quota) * 100_000
            mounts = sorted(tmp_path.glob(f"{MOUNTS_PREFIX}*/disk?"))
            assert len(mounts) == n
            assert list((mounts[0] / "appendonlydir").iterdir())
            for mount in mounts:
                assert os.path.ismount(mount)
                assert os.statvfs(mount).f_bsize == block
                number = mount.stat().st_dev
                device = f"{os.major(number)}:{os.minor(number)}"
                assert f"{device} {iops}" in limits_of_writes(pid)


def limits_of_writes(pid: int) -> list[str]:
    """Return `DEVICE OPERATIONS` of each limit of writes that holds for a process."""
    if VERSION_1:
        file = CGROUPS / "blkio/blkio.throttle.write_iops_device"
        return file.read_text().splitlines()
    lines = (groups_of(pid)[""] / "io.max").read_text().splitlines()
    return [f"{one.split()[0]} {one.rpartition('wiops=')[2]}" for one in lines]


@pytest.mark.skipif(
    not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")),
    reason="PostgreSQL is not installed",
)
def test_postgresql_with_a_limit_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(ServerResources(memory_bytes=MIB))
    # The user postgres cannot enter a directory of pytest's.
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    text = with_resources(
        "peak-postgres.toml", 'memory = "{megabytes}M"', "megabytes = [96, 256]"
    ).replace("scale = [50, 10, 1]", "scale = [1]")
    text = text.replace("clients = 16", 'clients = "{clients}"').replace(
        "[factors]", "[factors]\nclients = [1, 2]"
    )
    spec = read_spec(text, str(EXAMPLES / "peak-postgres.toml"))
    with contextlib.closing(LocalBench()) as bench, serving(spec, tmp_path, bench) as workbench:
        for megabytes in ("96", "256"):
            sample = (("megabytes", megabytes), ("shared_buffers", "16MB"))
            trial = workbench.run(Probe(20, 1.0), sample, stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            # A process of a connection that ends leaves its group before it is gone.
            first, *others = pids_of(bench, "postgres")
            found = limit_of(first, "memory.limit_in_bytes", "memory.max")
            assert int(found) == int(megabytes) * MIB
            group = groups_of(first)["memory" if VERSION_1 else ""]
            inside = map(int, (group / "cgroup.procs").read_text().split())
            assert len({*others} & {*inside}) > 2


@pytest.mark.skipif(
    shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") is None,
    reason="nginx is not installed (nginx-light)",
)
def test_a_file_server_at_samples_of_the_papers_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = EXAMPLES / "surface-files.toml"
    needs(WANTED)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    text = file.read_text().replace("data = [96, 32]", "data = [4, 8]")
    text = text.replace("disk_iops = 200", "disk_iops = 2000")
    spec = read_spec(text.replace('"256M"', '"32M"'), str(file))
    first = {name: levels[0] for name, levels in spec.factors}
    last = {name: levels[-1] for name, levels in spec.factors}
    with contextlib.closing(LocalBench()) as bench, serving(spec, tmp_path, bench) as workbench:
        for sample in (first, last):
            trial = workbench.run(Probe(40, 1.0), tuple(sample.items()), stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            assert trial.values["error_ratio"] == 0
            assert trial.completed
            state = Path(workbench.values["state"])
            sizes = [
                int(line.split()[0]) for line in (state / "files.txt").read_text().splitlines()
            ]
            assert sum(sizes) >= int(sample["data"]) << 20
            assert (len(set(sizes)) == 1) == (sample["sizes"] == "fixed")
            assert len(pids_of(bench, "nginx")) == 1 + int(sample["daemons"])
    assert list(Path("/tmp").glob(f"{MOUNTS_PREFIX}{os.getpid()}_*")) == []


# -- limits in force -----------------------------------------------------------------------


@contextlib.contextmanager
def given(wanted: ServerResources) -> Iterator[ServerResourcesHeld]:
    """Hold resources."""
    needs(wanted)
    held = ServerResourcesHeld()
    try:
        held.give(wanted)
        yield held
    finally:
        held.take_back()
    assert held.findings == ()


def inside(held: ServerResourcesHeld, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in the groups of a server."""
    join = f"groups = {held.groups!r}\n" + (
        "for group in groups:\n open(group + '/cgroup.procs', 'w').write('0')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", join + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_quota_throttles_and_a_limit_of_memory_ends_a_process() -> None:
    with given(ServerResources(cpu_quota_us=20_000, memory_bytes=32 * MIB)) as held:
        inside(
            held,
            """
            import time
            while time.process_time() < 0.2:
                pass
            """,
        )
        stats = [Path(group, "cpu.stat") for group in held.groups]
        (text,) = [one.read_text() for one in stats if one.exists()]
        throttled = dict(line.split() for line in text.splitlines())["nr_throttled"]
        assert int(throttled) > 0
        assert inside(held, "bytearray(16 << 20)").returncode == 0
        assert held.new_memory_kills() == 0
        assert inside(held, "b = bytearray(64 << 20)").returncode == -signal.SIGKILL
        assert [held.new_memory_kills(), held.new_memory_kills()] == [1, 0]


GREEDY = """
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append(bytearray(64 << 20))
        self.send_response(204)
        self.end_headers()

kept = []
http.server.ThreadingHTTPServer(("127.0.0.1", int(__import__("sys").argv[1])), Answer).serve_forever()
"""


def test_a_trial_names_the_memory_limit_at_which_its_server_was_killed(tmp_path: Path) -> None:
    needs(ServerResources(memory_bytes=MIB))
    (tmp_path / "greedy.py").write_text(GREEDY)
    text = f"""[server]
start = "{sys.executable} {tmp_path}/greedy.py {{port}}"
ready = {{ tcp = "127.0.0.1:{{port}}" }}
[server.resources]
memory = "48M"
[load]
target = "http://127.0.0.1:{{port}}/"
[peak]
criteria = ["mean response < 40ms"]
"""
    spec = read_spec(text, str(tmp_path / "greedy.toml"))
    with contextlib.closing(LocalBench()) as bench, serving(spec, tmp_path, bench) as workbench:
        trial = workbench.run(Probe(20, 1.0), (), stays)
    assert trial.ending is LoadEnding.FAILED
    assert (
        "the kernel killed 1 process of the server at its memory limit; "
        "the server has ended" in trial.failure
    )


@pytest.mark.parametrize("direct", [True, False])
def test_a_disk_does_no_more_operations_than_it_may(direct: bool) -> None:
    """A limiter can only make a load longer: the bound holds on any machine."""
    operations, per_second = 60, 40
    disks = ServerDisks(
        count=1, size_bytes=16 * MIB, limits=IoLimits(read_iops=per_second, write_iops=per_second)
    )
    with given(ServerResources(disks=disks)) as held:
        file = Path(held.names(ServerResources(disks=disks))["disk1"]) / "file"
        begin = time.monotonic()
        done = inside(
            held,
            f"""
            import mmap, os
            flags = os.O_RDWR | os.O_CREAT | ({direct} and os.O_DIRECT)
            fd = os.open({str(file)!r}, flags)
            os.ftruncate(fd, 4096 * 1000)
            page = mmap.mmap(-1, 4096)
            for n in range({operations}):
                os.pwrite(fd, page, 4096 * 16 * n)
            os.fsync(fd)
            """,
        )
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - begin > 0.7 * operations / per_second


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_written_without_limits_is_on_the_disks_when_they_hold_again(count: int) -> None:
    disks = ServerDisks(
        count=count,
        size_bytes=16 * MIB,
        limits=IoLimits(read_iops=47, write_iops=47, write_bytes_per_s=4 * MIB),
    )
    wanted = ServerResources(memory_bytes=32 * MIB, disks=disks)
    with given(wanted) as held:
        places = [Path(held.names(wanted)[name]) for name in disks.names]
        devices = [device_of(place) for place in places]
        before = limits_of_io(held, devices)
        assert before.keys() == set(devices)
        with held.io_unlimited():
            assert limits_of_io(held, devices) == {}
            wrote = [sectors_written(device) for device in devices]
            for place in places:
                (place / "file").write_bytes(bytes(4 * MIB))
        assert limits_of_io(held, devices) == before
        for device, sectors in zip(devices, wrote, strict=True):
            assert sectors_written(device) - sectors >= 4 * MIB // 512
        # After a failure too.
        with pytest.raises(ValueError, match="mine"), held.io_unlimited():
            raise ValueError("mine")
        assert limits_of_io(held, devices) == before


def test_synchronous_disks_are_asynchronous_only_while_limits_are_lifted() -> None:
    for disks in (
        ServerDisks(count=2, size_bytes=64 * MIB, sync=True),
        ServerDisks(count=2, size_bytes=256 * MIB, file_system="btrfs", striped=True, sync=True),
    ):
        wanted = ServerResources(disks=disks)
        with given(wanted) as held:
            places = [Path(held.names(wanted)[name]) for name in disks.names]
            assert held.limits_io
            assert [is_synchronous(place) for place in places] == [True] * len(places)
            with held.io_unlimited():
                assert not any(map(is_synchronous, places))
            assert all(map(is_synchronous, places))
            wrote = sectors_written(device_of(places[0])) if not disks.striped else 0
            with pytest.raises(ValueError, match="mine"), held.io_unlimited():
                raise ValueError("mine")
            assert all(map(is_synchronous, places))
            if not disks.striped:
                (places[0] / "file").write_bytes(bytes(4 * MIB))
                written = sectors_written(device_of(places[0])) - wrote
                assert written >= 4 * MIB // 512


def is_synchronous(place: Path) -> bool:
    """Return whether each write to a file system waits for its disk."""
    return bool(os.statvfs(place).f_flag & os.ST_SYNCHRONOUS)


def device_of(place: Path) -> str:
    """Return MAJOR:MINOR of the disk of a directory."""
    number = place.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def sectors_written(device: str) -> int:
    """Return how many sectors of 512 bytes have been written to a disk."""
    return int(Path(f"/sys/dev/block/{device}/stat").read_text().split()[6])


def limits_of_io(held: ServerResourcesHeld, devices: list[str]) -> dict[str, list[str]]:
    """Return the limits of devices, in the groups of a server and in the root of version 1."""
    groups = [*map(Path, held.groups), CGROUPS / "blkio"]
    found: dict[str, list[str]] = {}
    for file in (
        one
        for group in groups
        for one in sorted((*group.glob("blkio.throttle.*_device"), group / "io.max"))
    ):
        for line in file.read_text().splitlines() if file.exists() else ():
            device, limit = line.split(" ", 1)
            if device in devices:
                found.setdefault(device, []).append(f"{file} {limit}")
    return found


def test_striped_disks_share_the_data_and_have_a_limit_each() -> None:
    with given(STRIPES) as held:
        place = Path(held.names(STRIPES)["disk1"])
        assert held.names(STRIPES).keys() == {"disk1", "disk_mounts"}
        contents = os.urandom(64 * MIB)
        (place / "file").write_bytes(contents)
        usage = subprocess.run(
            ["btrfs", "filesystem", "usage", "-b", str(place)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "Data,RAID0" in usage
        assert len([line for line in usage.splitlines() if "/dev/loop" in line]) >= 2
        if VERSION_1:
            limits = (CGROUPS / "blkio/blkio.throttle.write_iops_device").read_text()
            assert limits.count(" 47") == 2
        assert (place / "file").read_bytes() == contents


def test_a_device_of_the_machine_is_limited_for_the_server_only(tmp_path: Path) -> None:
    limits = IoLimits(read_iops=123, write_bytes_per_s=MIB)
    wanted = ServerResources(io=(DeviceLimits(device=str(tmp_path), limits=limits),))
    with given(wanted) as held:
        (group,) = held.groups
        if VERSION_1:
            text = Path(group, "blkio.throttle.read_iops_device").read_text()
            own = (CGROUPS / "blkio/blkio.throttle.read_iops_device").read_text()
            assert " 123" in text
            assert " 123" not in own
        else:
            text = Path(group, "io.max").read_text()
            assert f"wbps={MIB} riops=123" in text


# -- put back ------------------------------------------------------------------------------

WANTED = ServerResources(
    cpu_quota_us=50_000,
    cpu_share=50,
    memory_bytes=32 * MIB,
    disks=ServerDisks(count=2, size_bytes=4 * MIB, limits=IoLimits(read_iops=47, write_iops=47)),
)


STRIPES = ServerResources(
    disks=ServerDisks(
        count=2,
        size_bytes=128 * MIB,
        limits=IoLimits(read_iops=47, write_iops=47),
        file_system="btrfs",
        striped=True,
    )
)


@pytest.mark.parametrize(
    ("wanted", "moments"), [(WANTED, 30), (STRIPES, 15)], ids=["all", "striped"]
)
def test_a_bw_that_is_killed_at_any_moment_leaves_nothing(
    tmp_path: Path, wanted: ServerResources, moments: int
) -> None:
    needs(wanted)
    number, killed = 0, True
    while killed:
        number += 1
        mounts = tmp_path / f"{MOUNTS_PREFIX}{number}"
        state = tmp_path / "state/servers" / str(number)
        setup = ServerSetup(
            resources=wanted, group=f"bw-server-{os.getpid()}_{number}", mounts=str(mounts)
        )
        child = os.fork()
        if child == 0:
            try:
                _killed_at(number, setup, state)
            finally:
                os._exit(2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 1)
        killed = status == 1
        if killed:
            assert restore_dead(Host(), state) is not None
        assert not (state / LOG).exists()
        assert not mounts.exists()
        assert not list(CGROUPS.rglob(setup.group))
    # Each change is recorded, verified and closed; a disk takes several programs.
    assert number > moments
    for file in CGROUPS.glob("blkio/blkio.throttle.*_iops_device"):
        assert " 47" not in file.read_text()


def _killed_at(number: int, setup: ServerSetup, state: Path) -> None:
    """End this process without any cleaning after so many records and programs, else with
    status 0."""
    count = 0

    def after() -> None:
        nonlocal count
        count += 1
        if count == number:
            os._exit(1)

    def run(argv: tuple[str, ...]) -> ProgramResult:
        result = run_program(argv)
        after()
        return result

    request = QuietRequest(server_wishes(setup), directory=state, host=Host(run=run), after=after)
    with Quieted(request) as held:
        assert held.quiet.lacking == ()
    os._exit(0)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_the_next_bw_puts_back_what_a_killed_search_left(tmp_path: Path) -> None:
    needs(WANTED)
    (tmp_path / "spec.toml").write_text(
        """[server]
start = "redis-server --port {port} --bind 127.0.0.1 --dir {disk2} --save ''"
ready = { tcp = "127.0.0.1:{port}" }
network = "private"
[server.resources]
cpu_quota = 0.5
memory = "64M"
disks = 2
disk_size = "4M"
disk_iops = 50
[load]
generator = "redis-benchmark"
port = "{port}"
[ramp]
hold = "60s"
highest = 1
"""
    )
    bw = str(Path(sys.executable).with_name("bw"))
    with (tmp_path / "out").open("w") as out:
        search = subprocess.Popen(
            [bw, "ramp", "spec.toml", "--study", "study"], cwd=tmp_path, stdout=out, stderr=out
        )
        group = f"bw-server-{search.pid}_*"
        for _ in range(1500):
            if list(tmp_path.glob("study/logs/s1/trial-1/*")):
                break
            assert search.poll() is None, (tmp_path / "out").read_text()
            time.sleep(0.02)
        assert list(CGROUPS.rglob(group))
        assert len(list(tmp_path.glob(f"{MOUNTS_PREFIX}*/disk?"))) == 2
        running = status_of_servers(tmp_path)
        search.kill()
        search.wait()
    killed = status_of_servers(tmp_path)
    assert [one["alive"] for one in (running, killed)] == [True, False]
    assert [len(one["networks"]) for one in (running, killed)] == [1, 0]
    for one in (running, killed):
        assert one["owner"]["pid"] == search.pid
        items = [change["item"] for change, _ in one["changes"]]
        assert sum(MOUNTS_PREFIX in item for item in items) == 2
        assert all(now == change["new"] for change, now in one["changes"]), one
    assert len(server_directories()) == 1
    for _ in range(10):
        # The launcher ends the server; until then its disk is busy, and bw tries again.
        told = subprocess.run([bw, "env"], cwd=tmp_path, capture_output=True, text=True).stderr
        if "were undone" in told:
            break
    assert f"the changes of process {search.pid} were undone" in told
    assert server_directories() == []
    assert not list(CGROUPS.rglob(group))


def status_of_servers(place: Path) -> dict[str, Any]:
    """Return the status of the only server with resources, as bw quiet --status prints it."""
    bw = str(Path(sys.executable).with_name("bw"))
    words = [bw, "quiet", "--status", "--json"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=True)
    (server,) = json.loads(done.stdout)["servers"]
    assert isinstance(server, dict)
    return server


def test_what_cannot_be_given_is_refused_before_the_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = with_resources(
        "peak-redis.toml",
        'disks = 1\ndisk_file_system = "{fs}"\nmemory = "1G"',
        'fs = ["nosuchfs"]',
    )
    spec = read_spec(text, "spec.toml")
    monkeypatch.setattr(Host, "writable", lambda _self, _path: False)
    with contextlib.closing(LocalBench()) as bench, pytest.raises(InputError) as caught:
        serving(spec, tmp_path, bench)
    told = [(d.code, d.message) for d in caught.value.diagnostics]
    assert {code for code, _ in told} == {"resources-unavailable"}
    assert any("mkfs.nosuchfs" in message for _, message in told)
    assert any("run as root" in message for _, message in told)
