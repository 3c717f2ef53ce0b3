"""CHECKPOINT over a reboot, in a machine that really restarts: QEMU, as tests/qemu/ makes it.

The guest begins a suite of four epochs with a restart between them; the shipped rc.local
goes on with it at each start. The study is then taken out of the disk and read here. Another guest
compares two commands over boots, and its bw is killed in the middle of one.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
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


def disk_of(place: Path, files: Mapping[str, str]) -> Path:
    """Make the disk that the guest mounts at /work, with these files."""
    work = place / "work"
    work.mkdir()
    disk = place / "work.img"
    guest.work_disk(work, disk, files, "64M")
    return disk


@pytest.mark.timeout(600)
def test_a_suite_that_reboots_between_its_epochs_ends_complete(tmp_path: Path) -> None:
    try:
        guest.image()
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    files = {"work.sh": WORK, "session": SESSION, "suite.ap": guest.suite_of(epochs=4)}
    disk = disk_of(tmp_path, files)
    console = guest.boot([disk], timeout_s=150, restarts=3)
    out = tmp_path / "out"
    guest.copy_out(disk, "/", out)
    told = {name: (out / name).read_text() for name in ("first.log", RESUMED)}
    assert (out / "finished").exists(), (console, told)
    starts = (out / "boots").read_text().split()
    assert len(set(starts)) == len(starts) == 4, "three restarts, each a boot of its own"
    assert guest.rows(out / "study") == [("1", 11), ("2", 22), ("3", 33), ("4", 44)], told


ARM = """#!/bin/sh
# Prints the number of the boot and of this arm. In the second boot it kills bw once.
echo "{\\"value\\": $(wc -l <boots)$1}"
if [ "$(wc -l <boots)" = 2 ] && [ "$1" = 2 ] && mkdir killed 2>/dev/null; then
  read -r _ _ _ bw _ </proc/$PPID/stat
  kill -9 "$bw"
  sleep 100
fi
"""
OVER_BOOTS = """#!/bin/sh
# What the machine does at each start; once more rc.local's call after bw was killed.
cd /work
export PATH=/usr/local/bin:$PATH
cat /proc/sys/kernel/random/boot_id >>boots
if [ -d study ]; then
  /etc/rc.local
else
  bw compare --replicate boot=3 --seed 1 --metric value=/value --study study --json \\
    --name a --name b -- './arm.sh 1' './arm.sh 2' >first.out 2>first.log &
fi
n=0
until [ "$(wc -l <boots)" -ge 3 ] && [ ! -e state/checkpoint ]; do
  sleep 1
  if [ -d killed ] && [ ! -e again ] && ! ps w | grep -q '[l]ocal/bin/bw'; then
    touch again
    /etc/rc.local
  fi
  [ $((n += 1)) -lt 120 ] || break
done
while ps w | grep -q '[l]ocal/bin/bw'; do sleep 0.5; done
sync
poweroff
"""


@pytest.mark.timeout(600)
def test_a_comparison_over_boots_restarts_the_machine_and_survives_a_kill(tmp_path: Path) -> None:
    try:
        guest.image()
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    disk = disk_of(tmp_path, {"arm.sh": ARM, "session": OVER_BOOTS})
    console = guest.boot([disk], timeout_s=200, restarts=2)
    out = tmp_path / "out"
    guest.copy_out(disk, "/", out)
    told = {name: (out / name).read_text() for name in ("first.log", RESUMED)}
    starts = (out / "boots").read_text().split()
    assert len(set(starts)) == len(starts) == 3, (console, told)
    assert (out / "again").exists(), "bw was killed in the second boot"
    with (out / "study/results/s1/trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = sorted((row["replicate:boot"], row["test"], row["value"]) for row in rows)
    arms = (("a", 1), ("b", 2))
    # Each boot is cold, so it has a warm-up block.
    assert found == [(n, arm, f"{n}{k}") for n in "123" for arm, k in arms for _ in range(3)], told
    assert "3 boots" in told[RESUMED], told
    assert list((out / "state").iterdir()) == [], "the file that continues it is gone"
    assert not (out / "study/replicates").exists()
