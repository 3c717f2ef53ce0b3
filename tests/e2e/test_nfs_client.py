"""Auto-pilot's case of NFS: a suite mounts an export by the hook of fs-setup.sh, and the server's own
counters stand beside each trial. Client and server are one machine of QEMU's, with the kernel's both.

Where the machine cannot be made (no QEMU, no network for apt), the test is skipped with the reason.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import guest

WRITTEN = 100 * 4096
SESSION = f"""#!/bin/sh
exec >/work/session.log 2>&1
set -x
for name in {" ".join(guest.NFS_CLIENT.modules)}; do insmod /lib/modules/$name.ko; done
{guest.SERVE_NFS}
cd /work
export PATH=/work/examples:/usr/local/bin:$PATH
bw run suite.ap --study study --quiet >run.log 2>&1
echo "exit status $?"
grep nfs /proc/mounts
rpc.nfsd 0
sync
poweroff -f
"""
SUITE = """FASTFAIL
ENV TESTROOT=/tmp/root
ENV NFS_EXPORT=127.0.0.1:/work/export
ENV NFS_OPTIONS=vers=3,nolock,proto=tcp,mountproto=tcp
ENV NFS_BEFORE=cat /proc/uptime >>/work/before
HOOKS nfsd
TEST nfs 2
  SETUP fs-setup.sh nfs
  EXEC ./work.sh
  CLEANUP fs-cleanup.sh nfs
DONE
"""
WORK = """#!/bin/sh
exec dd if=/dev/zero of=/tmp/root/mnt/of-$APEPOCH bs=4096 count=100 conv=fsync
"""


@pytest.mark.timeout(600)
def test_a_suite_mounts_an_export_and_has_the_servers_own_counters(tmp_path: Path) -> None:
    try:
        guest.image(guest.NFS_CLIENT)
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    work = tmp_path / "work"
    work.mkdir()
    guest.bw_files(guest.programs(), work)
    shutil.copytree(guest.PROJECT / "examples", work / "examples")
    for name, text in {"session": SESSION, "suite.ap": SUITE, "work.sh": WORK}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    disk = tmp_path / "work.img"
    guest.make_disk(work, disk, "96M")
    console = guest.boot([disk], timeout_s=300, flavour=guest.NFS_CLIENT)
    out = tmp_path / "out"
    guest.copy_out(disk, "/", out)
    told = (console, *((out / name).read_text() for name in ("session.log", "run.log")))
    assert "exit status 0" in told[1], told
    assert "127.0.0.1:/work/export" not in told[1].partition("exit status")[2], "still mounted"
    results = (out / "study/results/s1/nfs.res").read_text()
    assert re.findall(r"nfsd_write_bytes = (\d+)", results) == [str(WRITTEN)] * 2, results
    written = re.findall(r"procedure = write\noperations = (\d+)", results)
    assert len(written) == 2, results
    assert len((out / "before").read_text().splitlines()) == 2, "before each mount"
    assert {one.name for one in (out / "export").iterdir()} == {"of-1", "of-2"}
