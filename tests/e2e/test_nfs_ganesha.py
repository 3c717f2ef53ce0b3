"""A spec that starts NFS-Ganesha on limited disks in a network of its own, and what is left of it:
nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.features.quiet.server_resources import MOUNTS_PREFIX
from benchwright.features.quiet.types import IoLimits, ServerDisks, ServerResources
from benchwright.features.search.server.host import ServerResourcesHeld
from benchwright.features.search.spec_toml import read_spec
from benchwright.features.search.surface.spec import read_surface

HERE = Path(__file__).parents[2] / "examples/workbench/nfs-ganesha"
PROGRAMS = (
    "ganesha.nfsd",
    "rpcbind",
    "rpcinfo",
    "nfs-ls",
    "nfs-cp",
    "nfs-cat",
    "unshare",
    "nsenter",
)
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
BW = str(Path(sys.executable).with_name("bw"))
PATIENCE_S = 300.0
SPEC = f"""[server]
configure = "{HERE}/prepare.sh {{state}} {{disk1}}/export {{threads}} {{fsal}}"
start = "{HERE}/run.sh {{state}}"
ready = {{ command = "rpcinfo -T tcp 127.0.0.1 100005 3" }}
ready_timeout = "60s"
network = "private"

[server.resources]
memory = "256M"
disks = "{{disks}}"
disk_striped = true
disk_size = "128M"
disk_iops = 500

[load]
generator = "command"
command = "{sys.executable} witness.py {{rate}} {{duration}}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/n", completed = "/n" }}

[factors]
disks = [2, 1]
threads = [4, 2]
fsal = ["VFS", "MEM"]

[peak]
criteria = ["mean response < 60s"]
policy = "monotone"
start = "1"
highest = "2"
run_length = "1s"
max_trials = 2
seed = 1
"""
KINDS = ("read", "write")
WITNESS = '''"""Writes and reads a file by libnfs, which knows nothing of bw."""
import json, pathlib, subprocess, sys, time
url = f"nfs://127.0.0.1/export/file-{time.time_ns()}?version=3"
begin = time.monotonic()
pathlib.Path("local").write_bytes(b"0123456789" * 5_000)
subprocess.run(["nfs-cp", "local", url], check=True, stdout=subprocess.DEVNULL)
read = subprocess.run(["nfs-cat", url], check=True, capture_output=True).stdout
assert read == b"0123456789" * 5_000
time.sleep(max(0, float(sys.argv[2]) - (time.monotonic() - begin)))
print(json.dumps({"mean_ms": 1.0, "n": 2}))
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a directory with a spec; check afterwards that the machine is as it was."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    disks = ServerDisks(count=2, file_system="btrfs", striped=True, limits=IoLimits(read_iops=500))
    refusals = ServerResourcesHeld().refusals(ServerResources(memory_bytes=1 << 28, disks=disks))
    if os.geteuid() != 0 or refusals:
        pytest.skip(f"needs root; {'; '.join(refusals)}")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("BW_STATE", str(state))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PATH", PATH)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "witness.py").write_text(WITNESS)
    before = remains(tmp_path)
    yield tmp_path
    assert remains(tmp_path) == before


def remains(place: Path) -> dict[str, list[str]]:
    """Return what a search in this directory has on the machine."""
    loops = subprocess.run(["losetup", "-n", "-O", "BACK-FILE"], capture_output=True, text=True)
    mounts = Path("/proc/mounts").read_text().splitlines()
    return {
        "processes": sorted(servers(place)),
        "loops": [one for one in loops.stdout.split() if str(place) in one],
        "mounts": [one for one in mounts if str(place) in one],
        "networks": sorted(networks(place)),
        "disks": [str(one) for one in place.glob(f"{MOUNTS_PREFIX}*")],
        "groups": [
            str(one)
            for one in Path("/sys/fs/cgroup").rglob("bw-server-*")
            if one.name.split("-")[2].split("_")[0] in searches(place)
        ],
    }


def processes(place: Path) -> Iterator[Path]:
    """Yield the processes that work for a search in this directory."""
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (one / "environ").read_bytes()
            if f"BW_STATE={place}/state\0".encode() in said and one.name != str(os.getpid()):
                yield one


def servers(place: Path) -> Iterator[str]:
    """Yield the names of the servers' processes."""
    for one in processes(place):
        with contextlib.suppress(OSError):
            yield (one / "comm").read_text().strip()


def networks(place: Path) -> set[str]:
    """Return the network namespaces of a search, without that of the machine."""
    found = set()
    for one in processes(place):
        with contextlib.suppress(OSError):
            found.add(os.readlink(one / "ns/net"))
    return found - {os.readlink("/proc/self/ns/net")}


def searches(place: Path) -> set[str]:
    """Return the process ids of the searches that ran in this directory."""
    return {one.read_text() for one in place.glob("pid-*")}


def started(place: Path, *words: str, spec: str = "spec.toml") -> subprocess.Popen[str]:
    """Start `bw peak` in a directory."""
    process = subprocess.Popen(
        [BW, "peak", spec, "--json", "--no-watch", "--study", "study", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (place / f"pid-{process.pid}").write_text(str(process.pid))
    return process


@pytest.mark.parametrize("sample", [(), ("disks=1", "threads=2"), ("fsal=MEM",)])
def test_a_spec_starts_ganesha_and_nothing_of_it_is_left(
    place: Path, sample: tuple[str, ...]
) -> None:
    levels = [word for one in sample for word in ("-P", one)]
    out, err = started(place, *levels).communicate(timeout=PATIENCE_S)
    assert out, err
    document = json.loads(out)
    assert document["trials"], err
    for trial in document["trials"]:
        assert trial["ending"] in ("whole", "left"), trial["failure"]
        assert trial["completed"] == 2
    # The server's log is in the study.
    log = next(place.glob("study/logs/s1/server.err")).read_text()
    assert "NFS SERVER INITIALIZED" in log


def test_after_a_kill_the_next_bw_leaves_nothing(place: Path) -> None:
    search = started(place, "--run-length", "60s")
    for _ in range(3000):
        if list(place.glob("study/logs/s1/trial-1/*")) or search.poll() is not None:
            break
        time.sleep(0.02)
    assert search.poll() is None, search.communicate()
    during = remains(place)
    assert {"ganesha.nfsd", "rpcbind"} <= set(during["processes"])
    assert len(during["loops"]) == 2
    assert len(during["mounts"]) == len(during["networks"]) == 1
    assert during["groups"]
    search.kill()
    search.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while list(servers(place)):
        assert time.monotonic() < deadline, "the launcher has not ended the server"
        time.sleep(0.05)
    said = subprocess.run([BW, "env"], cwd=place, capture_output=True, text=True).stderr
    assert f"the changes of process {search.pid} were undone" in said


def test_a_server_that_cannot_start_is_reported_with_its_own_words(place: Path) -> None:
    spec = place / "spec.toml"
    spec.write_text(spec.read_text().replace("threads = [4, 2]", "threads = [1]"))
    out, err = started(place).communicate(timeout=PATIENCE_S)
    document = json.loads(out)
    assert document["status"] == "failed", err
    assert "at least 2 threads" in document["detail"]


def limits(place: Path) -> dict[str, list[str]]:
    """Return the limits of I/O of each disk of a search in this directory."""
    listed = subprocess.run(
        ["losetup", "-n", "-O", "MAJ:MIN,BACK-FILE"], capture_output=True, text=True
    ).stdout
    found: dict[str, list[str]] = {
        line.split()[0]: [] for line in listed.splitlines() if str(place) in line
    }
    top = Path("/sys/fs/cgroup")
    for file in (*top.glob("blkio/blkio.*_device"), *top.glob("bw-server-*/io.max")):
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                device, _, limit = line.partition(" ")
                if device in found:
                    found[device].append(f"{file.name} {limit}")
    return found


def await_limits(place: Path, search: subprocess.Popen[str], wanted: set[str]) -> None:
    """Wait until the one disk of a search has these limits of I/O."""
    deadline = time.monotonic() + PATIENCE_S
    while [set(found) for found in limits(place).values()] != [wanted]:
        assert search.poll() is None, search.communicate()
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


@pytest.mark.parametrize("end", [None, signal.SIGINT, signal.SIGKILL])
def test_disks_are_not_limited_while_the_set_is_made(
    place: Path, end: signal.Signals | None
) -> None:
    spec = str(HERE.with_name("nfs-ganesha-specsfs97.toml"))
    words = ("--start", "200", "--run-length", "3s", "--max-trials", "1", "--seed", "5")
    search = started(place, *words, "-P", "disks=1", spec=spec)
    limited = {"io.max rbps=max wbps=max riops=150 wiops=150"}
    if Path("/sys/fs/cgroup/blkio").is_dir():
        limited = {f"blkio.throttle.{kind}_iops_device 150" for kind in KINDS}
    await_limits(place, search, limited)
    await_limits(place, search, set())
    if end is None:
        await_limits(place, search, limited)
        out, err = search.communicate(timeout=PATIENCE_S)
        (trial,) = json.loads(out)["trials"]
        assert trial["ending"] in ("whole", "left"), trial["failure"]
        assert trial["offered"] > 0, err
        return
    search.send_signal(end)
    _, err = search.communicate(timeout=PATIENCE_S)
    if end is signal.SIGINT:
        assert search.returncode == 130, err
        return
    assert list(limits(place).values()) in ([[]], []), "nobody sets them again"
    deadline = time.monotonic() + PATIENCE_S
    while list(servers(place)):
        assert time.monotonic() < deadline, "the launcher has not ended the server"
        time.sleep(0.05)
    said = subprocess.run([BW, "env"], cwd=place, capture_output=True, text=True).stderr
    assert f"the changes of process {search.pid} were undone" in said


@pytest.mark.parametrize("name", ["mail", "specsfs97"])
def test_an_example_drives_ganesha_with_our_engine(place: Path, name: str) -> None:
    spec = str(HERE.with_name(f"nfs-ganesha-{name}.toml"))
    words = ("--start", "10", "--run-length", "2s", "--max-trials", "1", "--seed", "5")
    out, err = started(place, *words, spec=spec).communicate(timeout=PATIENCE_S)
    assert out, err
    (trial,) = json.loads(out)["trials"]
    assert trial["ending"] in ("whole", "left"), trial["failure"]
    assert trial["completed"] > 0
    (result,) = place.glob("study/logs/s1/trial-1/result.json")
    made = json.loads(result.read_text())["file_set"]
    assert made["files"] > 0
    assert made["directories"] == (21 if name == "specsfs97" else 1)


@pytest.mark.parametrize("name", ["specsfs97", "db_tp", "web-server", "mail"])
def test_the_examples_are_maps_of_the_papers_factors(name: str) -> None:
    file = HERE.with_name(f"nfs-ganesha-{name}.toml")
    spec = read_spec(file.read_text(), str(file), {"surface": read_surface})
    factors = dict(spec.factors)
    assert len(factors["disks"]) * len(factors["threads"]) == 32
    assert ("surface" in spec.more) == (name in ("specsfs97", "db_tp"))
    for disks in factors["disks"]:
        server = spec.at((("disks", disks), ("threads", "100"))).server
        assert server is not None
        assert server.resources is not None
        assert server.resources.disks is not None
        assert server.resources.disks.count == int(disks)
        assert server.resources.disks.names == ("disk1",)
