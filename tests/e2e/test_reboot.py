"""CHECKPOINT over a reboot, in a machine that really restarts: QEMU, as tests/qemu/ makes it.

The guest begins a suite of four epochs with a restart between them; the shipped rc.local
goes on with it at each start. The study is then taken out of the disk and read here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import guest

WORK = """#!/bin/sh
# The number of starts so far, and the epoch: each epoch must be of a start of its own.
echo "value = $(wc -l <boots)$APEPOCH" >>"$APLOG"
"""
SESSION = """#!/bin/sh
# What the machine does when it is up: begin the suite once, else what rc.local says.
cd /work
export PATH=/usr/local/bin:$PATH
cat /proc/sys/kernel/random/boot_id >>boots
if [ -d study ]; then
  /etc/rc.local
else
  bw run suite.ap --study study --quiet >first.log 2>&1 &
fi
# A restart ends this script too. Looking is dear: each look is an emulated process.
n=0
until [ -e finished ] || [ $((n += 1)) -gt 120 ]; do sleep 0.5; done
while ps w | grep -q '[l]ocal/bin/bw'; do sleep 0.5; done
sync
poweroff
"""


RESUMED = "log/bw-resume.log"
"""What the shipped rc.local writes."""


def disk_of(place: Path) -> Path:
    """Make the disk that the guest mounts at /work."""
    work = place / "work"
    work.mkdir()
    guest.bw_files(guest.programs(), work)
    shutil.copy2(guest.PROJECT / "packaging/rc.local", work / "rc.local")
    for name in ("state", "log"):
        (work / name).mkdir()
    (work / "suite.ap").write_text(guest.suite_of(epochs=4))
    for name, text in {"work.sh": WORK, "session": SESSION}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    disk = place / "work.img"
    guest.make_disk(work, disk, "64M")
    return disk


@pytest.mark.timeout(600)
def test_a_suite_that_reboots_between_its_epochs_ends_complete(tmp_path: Path) -> None:
    try:
        guest.image()
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    disk = disk_of(tmp_path)
    console = guest.boot([disk], timeout_s=150, restarts=3)
    out = tmp_path / "out"
    guest.copy_out(disk, "/", out)
    told = {name: (out / name).read_text() for name in ("first.log", RESUMED)}
    assert (out / "finished").exists(), (console, told)
    starts = (out / "boots").read_text().split()
    assert len(set(starts)) == len(starts) == 4, "three restarts, each a boot of its own"
    assert guest.rows(out / "study") == [("1", 11), ("2", 22), ("3", 33), ("4", 44)], told
