"""A virtual machine of the sample's size as the server of a spec: QEMU is started by `[server]`.

Functional only: an emulated processor has no times of interest. Where the machine cannot be made
(no QEMU, no network for apt), the test is skipped with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import guest
from bw_command import bw

SESSION = f"""#!/bin/sh
exec > /dev/ttyS0 2>&1
for name in {" ".join(guest.NFS.modules[:3])}; do insmod /lib/modules/$name.ko; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
mkdir /tmp/www
grep -c ^processor /proc/cpuinfo >/tmp/www/size
grep MemTotal /proc/meminfo >>/tmp/www/size
httpd -p 80 -h /tmp/www
"""
SPEC = """
[server]
start = [
    "qemu-system-x86_64", "-accel", "tcg", "-cpu", "Nehalem,+rdrand", "-nodefaults", "-nographic",
    "-smp", "{cpus}", "-m", "{memory}",
    "-kernel", "@BASE@/vmlinuz", "-initrd", "@BASE@/initramfs.gz", "-append", "@WORDS@",
    "-drive", "file=@BASE@/root.img,if=virtio,format=raw,snapshot=on,cache=unsafe",
    "-drive", "file=@WORK@,if=virtio,format=raw,snapshot=on",
    "-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:80",
    "-device", "virtio-net-pci,netdev=net,romfile=",
]
ready = { command = "curl -sf -m 2 -o {here}/size-{cpus} http://127.0.0.1:{port}/size" }
ready_timeout = "200s"

[load]
target = "http://127.0.0.1:{port}/size"

[factors]
cpus = [1, 2]
memory = ["256", "384"]

[ramp]
highest = 2
hold = "500ms"
"""


def test_a_machine_has_the_cpus_and_the_memory_of_the_sample(tmp_path: Path) -> None:
    try:
        base = guest.image(guest.NFS)
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    work = tmp_path / "work"
    work.mkdir()
    (work / "session").write_text(SESSION)
    (work / "session").chmod(0o755)
    guest.make_disk(work, tmp_path / "work.img", "16M")
    spec = SPEC.replace("@BASE@", str(base)).replace("@WORDS@", guest.KERNEL_WORDS)
    (tmp_path / "machine.toml").write_text(spec.replace("@WORK@", str(tmp_path / "work.img")))
    chosen = ("-P", "cpus=2", "-P", "memory=384")
    done = bw(tmp_path, "ramp", "machine.toml", "--study", "s", "--json", *chosen, timeout=500)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert [point["level"] for point in points] == [1, 2]
    assert all(point["throughput"]["value"] > 0 for point in points)
    processors, memory = (tmp_path / "size-2").read_text().splitlines()
    assert processors == "2"
    assert 300_000 < int(memory.split()[1]) < 384 * 1024
