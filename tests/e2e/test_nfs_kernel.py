"""The kernel's NFS server, in a machine of QEMU's: what libnfs writes there and reads again.

Functional only: an emulated processor has no times of interest. Where the machine cannot be made
(no QEMU, no network for apt), the test is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import guest

SESSION = f"""#!/bin/sh
exec > /dev/ttyS0 2>&1
# Serve /work/export until a client makes the file `finish`.
for name in {" ".join(guest.NFS.modules)}; do insmod /lib/modules/$name.ko; done
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
{guest.SERVE_NFS}
until [ -s /work/export/finish ]; do
  sleep 0.2
done
sleep 2 # nfs-cp closes what it wrote
rpc.nfsd 0
umount /proc/fs/nfsd
sync
poweroff -f
"""
BOOT_S = 240
BW = str(Path(sys.executable).with_name("bw"))


@dataclasses.dataclass
class Machine:
    """A running machine with an NFS server."""

    port: int
    mount_port: int
    disk: Path
    consoles: list[str]
    thread: threading.Thread

    def nfs(self, program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run one of libnfs's programs; a word `//NAME` is a path of the export."""
        ports = f"version=3&nfsport={self.port}&mountport={self.mount_port}"
        export = "nfs://127.0.0.1/work/export/"
        named = [f"{export}{one[2:]}?{ports}" if one.startswith("//") else one for one in words]
        return subprocess.run([program, *named], capture_output=True, timeout=60)

    def told(self) -> str:
        """Return what the console said."""
        return "".join(self.consoles)


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose kernel exports /work/export."""
    missing = [one for one in ("nfs-ls", "nfs-cp", "nfs-cat") if not shutil.which(one)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    try:
        guest.image(guest.NFS)
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    place = tmp_path_factory.mktemp("machine")
    work = place / "work"
    work.mkdir()
    (work / "session").write_text(SESSION)
    (work / "session").chmod(0o755)
    disk = place / "work.img"
    guest.make_disk(work, disk, "64M")
    port, mount_port = free_port(), free_port()
    forwarded = "".join(
        f",hostfwd=tcp:127.0.0.1:{outside}-:{inside}"
        for outside, inside in ((port, 2049), (mount_port, 20048))
    )
    network = ("-netdev", f"user,id=net,restrict=on{forwarded}")
    card = ("-device", "virtio-net-pci,netdev=net,romfile=")
    flavour = dataclasses.replace(guest.NFS, words=(*network, *card))
    consoles: list[str] = []

    def boot() -> None:
        try:
            consoles.append(guest.boot([disk], timeout_s=BOOT_S, flavour=flavour))
        except RuntimeError as error:
            consoles.append(str(error))

    thread = threading.Thread(target=boot)
    thread.start()
    served = Machine(port, mount_port, disk, consoles, thread)
    try:
        while served.nfs("nfs-ls", "//").returncode:
            assert thread.is_alive(), served.told()
            time.sleep(0.2)
        yield served
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            (place / "empty").touch()
            served.nfs("nfs-cp", str(place / "empty"), "//finish")
        thread.join()


WORKLOAD = """[run]
duration = "5s"
[files]
files = 20
directories = 2
levels = 2
symlinks = 1
empty_directories = 1
size = {1k = 5, 20k = 1}
[[filament]]
type = "files"
rate = "40/s"
[filament.operations]
lookup = 5
getattr = 5
setattr = 2
access = 2
readlink = 2
readdir = 2
readdirplus = 2
read = 5
write = 5
append = 2
commit = 2
create = 2
remove = 2
mkdir = 1
rmdir = 1
rename = 2
fsstat = 1
"""


def test_every_operation_works_on_the_kernels_server(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    target = f"nfs://127.0.0.1:{machine.port}/work/export"
    ports = ("--mount-port", str(machine.mount_port))
    command = (
        *(BW, "load", "workload.toml", "--target", target, *ports),
        *("--json", "--max-errors", "50%"),
    )
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, (done.stderr, machine.told())
    kinds = json.loads(done.stdout)["result"]["kinds"]
    named = {line.split()[0] for line in WORKLOAD.partition("operations]")[2].split("\n") if line}
    assert named - {"commit"} <= kinds.keys()
    # Operations that were chosen while no object was in the right state fail on any server.
    failed = {name for name, kind in kinds.items() if kind["errors"]} - {"all"}
    assert failed <= {"create", "remove", "mkdir", "rmdir"}, kinds["all"]["errors"]
    levels = ("--start", "1", "--highest", "2", "--hold", "300ms", "--repeats", "1")
    levels += ("--max-errors", "50%")
    done = subprocess.run(
        (BW, "ramp", "workload.toml", "--target", target, *ports, *levels, "--json"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, (done.stderr, machine.told())
    assert [one["level"] for one in json.loads(done.stdout)["points"]] == [1, 2]


def test_files_are_what_libnfs_wrote(machine: Machine, tmp_path: Path) -> None:
    contents = b"0123456789abcdef" * 40_000
    (tmp_path / "local").write_bytes(contents)
    assert machine.nfs("nfs-cp", str(tmp_path / "local"), "//file").returncode == 0
    assert machine.nfs("nfs-cat", "//file").stdout == contents
    # The machine ends; its disk is read without a client.
    assert machine.nfs("nfs-cp", str(tmp_path / "local"), "//finish").returncode == 0
    machine.thread.join()
    guest.copy_out(machine.disk, "/export", tmp_path / "out")
    assert (tmp_path / "out/export/file").read_bytes() == contents, machine.told()
