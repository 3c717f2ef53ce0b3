"""The kernel's NFS server, in a machine of QEMU's: what libnfs writes there and reads again.

Functional only: an emulated processor has no times of interest. Where the machine cannot be made (no
QEMU, no network for apt), the test is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import guest

SESSION = f"""#!/bin/sh
# Serve /work/export until a client makes the file `finish`; a file `restart` restarts the server.
for name in {" ".join(guest.NFS.modules)}; do insmod /lib/modules/$name.ko; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
mkdir -p /var/lib/nfs /work/export
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
rpcbind -w
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=1,no_subtree_check '*:/work/export'
rpc.mountd --port 20048
rpc.nfsd --no-udp -N 4 8
until [ -e /work/export/finish ]; do
  if [ -e /work/export/restart ]; then
    rpc.nfsd 0
    rm /work/export/restart
    rpc.nfsd --no-udp -N 4 8
  fi
  sleep 0.2
done
rpc.nfsd 0
umount /proc/fs/nfsd
sync
poweroff -f
"""
BOOT_S = 240


@dataclasses.dataclass
class Machine:
    """A running machine with an NFS server."""

    url: str
    disk: Path
    consoles: list[str]
    thread: threading.Thread

    def nfs(self, program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run one of libnfs's programs; a word `NAME` with a leading / is a path of the export."""
        ports = self.url.partition("?")[2]
        base = self.url.partition("?")[0]
        named = [f"{base}{one}?{ports}" if one[:1] == "/" else one for one in words]
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
    url = f"nfs://127.0.0.1/work/export?version=3&nfsport={port}&mountport={mount_port}"
    served = Machine(url, disk, consoles, thread)
    try:
        while served.nfs("nfs-ls", "/").returncode:
            assert thread.is_alive(), served.told()
            time.sleep(0.2)
        yield served
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            (place / "empty").touch()
            served.nfs("nfs-cp", str(place / "empty"), "/finish")
        thread.join()


def test_libnfs_reads_what_it_wrote_on_the_kernels_server(
    machine: Machine, tmp_path: Path
) -> None:
    contents = b"0123456789abcdef" * 40_000
    (tmp_path / "local").write_bytes(contents)
    assert machine.nfs("nfs-cp", str(tmp_path / "local"), "/file").returncode == 0
    assert machine.nfs("nfs-cat", "/file").stdout == contents
    assert b"file" in machine.nfs("nfs-ls", "/").stdout


def test_the_disk_has_what_the_client_wrote(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"kept")
    for _ in ("file", "finish"):
        assert machine.nfs("nfs-cp", str(tmp_path / "local"), f"/{_}").returncode == 0
    machine.thread.join()
    guest.copy_out(machine.disk, "/export", tmp_path / "out")
    assert (tmp_path / "out/export/file").read_bytes() == b"kept", machine.told()
