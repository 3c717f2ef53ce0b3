"""Power loss: what a disk that loses or reorders unflushed writes leaves of a study.

A guest in QEMU runs a suite on an ext4 disk whose every write and flush is logged; the
state after a power cut is made for seeded random moments. Each is a whole study with every
acknowledged trial once (or none yet), and one is resumed by a second guest to the table of
an undisturbed run. More by hand: BW_TEST_POWER_CUTS=500, BW_TEST_POWER_RESUMES=10.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import guest
import power_cut
from benchwright.study.contents import tests_of
from benchwright.study.journal import Study

CUTS = int(os.environ.get("BW_TEST_POWER_CUTS", "20"))
RESUMES = int(os.environ.get("BW_TEST_POWER_RESUMES", "1"))
SEED = 20261122
TESTS = 5
SUITE = f"""
FOR N=1 TO {TESTS}
  TEST t%N% 2
    METRIC value
    EXEC ./work.sh %N%
  DONE
DONE
SYSTEM touch finished
"""
WORK = """#!/bin/sh
# A deterministic value; and a mark that stands in the log of writes where it has begun.
echo "begun-test-$1-" >>marks
sync marks || exit 1
echo "value = $(( $1 * 100 + APEPOCH ))" >>"$APLOG"
"""
SESSION = """#!/bin/sh
cd /work
export PATH=/usr/local/bin:$PATH
if [ -e study/journal.sqlite ]; then
  bw resume study --quiet >resumed.log 2>&1 || bw run suite.ap --study study --quiet >>resumed.log 2>&1
else
  bw run suite.ap --study study --quiet >first.log 2>&1
fi
sync
poweroff
"""
EXPECTED = [(n, e, float(n * 100 + e)) for n in range(1, TESTS + 1) for e in (1, 2)]


def base_disk(place: Path) -> Path:
    """Make the disk that the guest mounts at /work."""
    work = place / "work"
    work.mkdir()
    guest.bw_files(guest.programs(), work)
    (work / "suite.ap").write_text(SUITE)
    for name, text in {"work.sh": WORK, "session": SESSION}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    disk = place / "base.img"
    guest.make_disk(work, disk, "48M")
    return disk


def after_recovery(disk: Path, out: Path) -> None:
    """Take the study out of a disk, its file system recovered."""
    done = subprocess.run(["e2fsck", "-fy", disk], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    shutil.rmtree(out, ignore_errors=True)
    guest.copy_out(disk, "/study", out)


def rows(study: Path) -> list[tuple[int, int, float]]:
    """Return (test, epoch, value) of each trial on record, in the order of writing."""
    with contextlib.closing(Study.open_to_read(study)) as opened:
        return [
            (int(test.plan.name[1:]), block.epoch, block.values["value"])
            for session in opened.sessions()
            for test in tests_of(opened, session.number)
            for trial in test.trials
            for block in trial.blocks
        ]


def begun(entries: Sequence[power_cut.Entry]) -> int:
    """Return the number of the last test that had begun before a cut; 0 without one.

    bw begins a test when the trials of the one before are acknowledged.
    """
    written = b"".join(entry.data for entry in entries)
    return max((int(n) for n in re.findall(rb"begun-test-(\d+)-", written)), default=0)


def check(out: Path, entries: Sequence[power_cut.Entry]) -> int:
    """Check what a power cut after these requests left; return how many trials that is."""
    last = begun(entries)
    if not (out / "study" / "journal.sqlite").exists():
        assert last == 0, "a study whose trials had begun is gone"
        return 0
    found = rows(out / "study")
    assert found == EXPECTED[: len(found)], "not a prefix of what was measured"
    assert len(found) >= 2 * (last - 1), "an acknowledged trial is lost"
    return len(found)


@pytest.mark.timeout(1200)
def test_a_power_cut_loses_no_acknowledged_trial(tmp_path: Path) -> None:
    try:
        guest.image()
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    base, disk, log = base_disk(tmp_path), tmp_path / "disk.img", tmp_path / "log"
    shutil.copy(base, disk)
    log.touch()
    console = guest.boot([disk], timeout_s=240, log=log)
    entries = power_cut.entries_of(log)
    played = tmp_path / "played.img"
    shutil.copy(base, played)
    power_cut.play(played, entries)
    assert filecmp.cmp(played, disk, shallow=False), "the log is not all of the writes"
    after_recovery(disk, tmp_path / "out")
    assert rows(tmp_path / "out" / "study") == EXPECTED, console
    places = power_cut.flushes(entries)
    random_ = random.Random(SEED)
    print(f"{len(entries)} requests, {len(places)} flushes; seed {SEED}")
    marked = [place for place, entry in enumerate(entries) if begun([entry])]
    assert len(marked) >= TESTS, "a mark that is written late proves nothing"
    counts: list[int] = []
    for number in range(CUTS):
        # Half of them where a loss would show: just after a test began.
        late = random_.choice(marked) + random_.randint(1, 8)
        at = late if number % 2 else random_.randrange(places[0], len(entries))
        shutil.copy(base, disk)
        kept, lost = power_cut.cut(disk, entries, at, random_)
        crashed = tmp_path / "crashed.img"
        shutil.copy(disk, crashed)
        after_recovery(disk, tmp_path / "out")
        counts.append(check(tmp_path / "out", entries[:at]))
        print(f"cut at {at}: {kept} kept, {lost} lost of the cache; {counts[-1]} trials")
        if number >= CUTS - RESUMES:
            said = guest.boot([crashed], timeout_s=240)
            after_recovery(crashed, tmp_path / "out")
            assert rows(tmp_path / "out" / "study")[-len(EXPECTED) :] == EXPECTED, said
    assert len(set(counts)) > 2, "the cuts did not spread over the run"
