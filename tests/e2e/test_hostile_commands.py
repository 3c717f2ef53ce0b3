"""Benchmarks that fail, hang, fork, hide, kill, stop, delete, move, fill and print.

Each runs in a PID namespace of its own. After each: the exit code, the message's code, no
process left, a study that is readable or reported as gone, and nothing else overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchwright.study.contents import tests_of
from benchwright.study.journal import Study

STAND_IN = Path(__file__).parent.parent / "stand_ins" / "first_process.py"
UNSHARE = ("unshare", "--fork", "--pid", "--mount", "--mount-proc", "--kill-child")
BW = (sys.executable, "-m", "benchwright.cli.main")
RUNS = 3


def _refusal() -> str:
    """Return why there can be no namespace here; empty where there can."""
    if os.geteuid() != 0:
        return "PID namespaces and mounts take root"
    if shutil.which("unshare") is None:
        return "unshare (util-linux) is not installed"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else ""


WHY_NOT = _refusal()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it can")


class Seen(msgspec.Struct, frozen=True):
    """What became of a command in its namespace."""

    code: int
    out: str
    err: str
    left: tuple[str, ...]


def namespace(
    at: Path, *command: str, signals: tuple[tuple[str, str], ...] = (), room: str = ""
) -> Seen:
    """Run a command as the first in a PID namespace; `bystander` must stay as it is."""
    bystander = at / "bystander"
    bystander.write_text("mine")
    asked = {"command": command, "directory": str(at), "signals": signals, "room": room}
    done = subprocess.run(
        [*UNSHARE, sys.executable, str(STAND_IN), json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    seen = msgspec.json.decode(done.stdout, type=Seen)
    assert bystander.read_text() == "mine"
    assert seen.left == (), f"left running: {seen.left}"
    assert "Traceback" not in seen.err
    return seen


def hostile(
    at: Path, script: str, *signals: tuple[str, str], study: str = "u", room: str = ""
) -> Seen:
    """Measure a shell's script a few times in a study."""
    wish = ("run", "--max-runs", str(RUNS), "--study", study, "--", "sh", "-c", script)
    return namespace(at, *BW, *wish, signals=signals, room=room)


def trials(study: Path) -> list[int]:
    """Return the epochs on record in the last session; the study must be whole."""
    with contextlib.closing(Study.open_to_read(study)) as opened:
        last = opened.sessions()[-1].number
        return [t.epoch for test in tests_of(opened, last) for t in test.trials]


INT = ("INT", "started")
FORKS = "i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; exit 0"
CHAIN = """
chain() { [ "$1" -gt 0 ] || exit 0; (trap '' TERM; chain $(($1-1))) & sleep 600; }
chain 25 >/dev/null 2>&1 & sleep 0.1
"""
DAEMON = """
(trap '' TERM HUP INT; setsid sh -c 'exec 0<&- 1>&- 2>&-; sleep 600 & sleep 600' &) &
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(FORKS, id="forks"),
        pytest.param(CHAIN, id="chain"),
        pytest.param(DAEMON, id="daemon"),
        pytest.param("exec 0<&- 1>&- 2>&-", id="closed"),
        pytest.param('rm -rf "$TESTROOT"', id="testroot"),
    ],
)
def test_what_a_command_starts_and_closes_harms_nothing(tmp_path: Path, script: str) -> None:
    seen = hostile(tmp_path, script)
    assert seen.code == 0, seen.err
    assert trials(tmp_path / "u") == [1, 2, 3]


def test_a_failing_command_fails_the_run(tmp_path: Path) -> None:
    seen = hostile(tmp_path, "exit 3")
    assert seen.code == 1
    assert trials(tmp_path / "u") == []


def test_escapes_reach_no_terminal(tmp_path: Path) -> None:
    seen = hostile(tmp_path, r"printf '\033]0;x\007\033[2J' | tee /dev/stderr; exit 3")
    assert seen.code == 1
    assert "\x1b" not in seen.out + seen.err


@pytest.mark.parametrize(
    ("script", "signals"),
    [
        pytest.param("touch started; sleep 600", (INT,), id="hangs"),
        pytest.param(
            "trap '' INT TERM HUP; touch started; while :; do sleep 1; done",
            (INT, INT),
            id="ignores-signals",
        ),
        pytest.param("touch started; sleep 600", (("HUP", "started"),), id="hangup"),
        pytest.param("kill -STOP $PPID; touch started; sleep 600", (INT, INT), id="stops-worker"),
        pytest.param(
            "kill -STOP $(ps -o ppid= $PPID); touch started; sleep 600", (INT,), id="stops-guard"
        ),
    ],
)
def test_an_interrupt_ends_what_hangs(
    tmp_path: Path, script: str, signals: tuple[tuple[str, str], ...]
) -> None:
    seen = hostile(tmp_path, script, *signals)
    assert seen.code == 130, seen.err
    assert trials(tmp_path / "u") == []


@pytest.mark.parametrize("whom", ["$PPID", "$(ps -o ppid= $PPID)"])
def test_a_command_that_kills_the_launcher_is_suspected(tmp_path: Path, whom: str) -> None:
    seen = hostile(tmp_path, f"kill -KILL {whom}; sleep 5")
    if whom == "$PPID":
        assert seen.code == 1
        assert "[launcher-gone]" in seen.err
        assert "$PPID" in seen.err
    else:
        # The worker learns of its guard's death as of an interrupt.
        assert seen.code in (1, 130)
    assert trials(tmp_path / "u") == []


def test_kill_of_bw_leaves_nothing_and_no_noise(tmp_path: Path) -> None:
    seen = hostile(tmp_path, "touch started; sleep 600", ("KILL", "started"))
    assert seen.code == -9
    assert "Broken pipe" not in seen.err
    assert trials(tmp_path / "u") == []


@pytest.mark.parametrize("what", ["rm -rf u", "rm u/journal*", "rm u/journal*-wal"])
def test_a_study_that_is_deleted_is_gone(tmp_path: Path, what: str) -> None:
    seen = hostile(tmp_path, f"{what}; true")
    assert seen.code == 2
    assert "[study-gone]" in seen.err
    assert "kept in" not in seen.err
    assert not (tmp_path / "u" / "results").exists()


def test_a_study_that_is_moved_goes_on_where_it_is(tmp_path: Path) -> None:
    seen = hostile(tmp_path, "[ ! -e u ] || mv u v")
    assert seen.code == 2
    assert "[study-gone]" in seen.err
    assert trials(tmp_path / "v") == []
    again = namespace(tmp_path, *BW, "resume", "v")
    assert again.code == 0, again.err
    assert trials(tmp_path / "v") == [1, 2, 3]
    assert not (tmp_path / "u" / "journal.sqlite").exists()


def test_a_study_in_the_place_of_a_moved_one_is_left_alone(tmp_path: Path) -> None:
    inner = " ".join((*BW, "run", "--quiet", "--max-runs", "3", "--study", "u"))
    script = f"[ -e v ] && exit; mv u v; {inner} -- true; touch u/journal.sqlite-wal"
    seen = hostile(tmp_path, script)
    assert seen.code == 2
    assert "[study-gone]" in seen.err
    assert trials(tmp_path / "u") == [1, 2, 3]
    assert (tmp_path / "u" / "journal.sqlite-wal").exists()
    assert trials(tmp_path / "v") == []


def test_a_study_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "fill-once").touch()
    fill = "[ ! -e fill-once ] || { rm fill-once; cat /dev/zero >disk/fill; }; true"
    bw = " ".join(BW)
    script = f"""
        {bw} run --max-runs 3 --study disk/u -- sh -c '{fill}'; echo "run $?"
        rm disk/fill; {bw} resume disk/u; echo "resume $?"
        {bw} stats disk/u | grep '^Elapsed'; cp -a disk/u copied
    """
    seen = namespace(tmp_path, "sh", "-c", script, room="1M")
    assert "run 2" in seen.out, seen.err
    assert "[study-unwritable]" in seen.err
    assert "resume 0" in seen.out, seen.err
    assert trials(tmp_path / "copied") == [1, 2, 3]


QUOTA = """
truncate -s 128M image && mkfs.btrfs -q image && mkdir disk && mount -o loop image disk &&
btrfs quota enable disk && btrfs subvolume create disk/q && btrfs qgroup limit 3M disk/q
"""


def test_a_quota_that_is_used_up_is_as_a_full_disk(tmp_path: Path) -> None:
    """EDQUOT by btrfs: few kernels have the quota formats of ext4 and XFS built in.

    It needs room to rewrite a mapped page, so SQLite's index of its log may end bw by
    SIGBUS (135) there, as a kill would: README, "Limits".
    """
    (tmp_path / "fill-once").touch()
    fill = "[ ! -e fill-once ] || { rm fill-once; cat /dev/zero >disk/q/fill; }; true"
    bw = " ".join(BW)
    script = f"""
        {{ {QUOTA.strip()}; }} >/dev/null 2>quota-error || {{ echo "no quota"; exit; }}
        {bw} run --max-runs 3 --study disk/q/u -- sh -c '{fill}'; echo "run $?"
        btrfs qgroup limit none disk/q; rm disk/q/fill
        {bw} resume disk/q/u; echo "resume $?"; cp -a disk/q/u copied
    """
    seen = namespace(tmp_path, "sh", "-c", script)
    if "no quota" in seen.out:
        pytest.skip(f"no quota here: {(tmp_path / 'quota-error').read_text()}")
    refused = "run 2" in seen.out and "[study-unwritable]" in seen.err
    assert refused or "run 135" in seen.out, seen.err
    assert "resume 0" in seen.out, seen.err
    assert trials(tmp_path / "copied") == [1, 2, 3]


@pytest.mark.parametrize("room", ["16k", "64k", "72k"])
def test_a_disk_that_is_full_while_a_study_is_made(tmp_path: Path, room: str) -> None:
    run = " ".join((*BW, "run", "--max-runs", "2", "--study", "disk/u", "--", "true"))
    grow = "mount -o remount,size=10M disk"
    script = f'{run}; echo "first $?"; {grow}; {run}; echo "second $?"'
    seen = namespace(tmp_path, "sh", "-c", script, room=room)
    assert "first 2" in seen.out, seen.err
    assert "second 0" in seen.out, seen.err
    assert "damaged" not in seen.err


def test_a_disk_that_is_full_at_the_end_costs_no_table(tmp_path: Path) -> None:
    """Between too small for the trials and large enough lies what fails after the end."""
    run = " ".join((*BW, "run", "--max-runs", "4", "--study", "disk/u", "--"))
    after = 0
    for room in ("250k", "270k"):
        command = f"{run} sh -c 'seq 1000'"
        seen = namespace(tmp_path, "sh", "-c", command, room=room)
        if seen.code == 0:
            assert re.search(r"trials.*\nsh ", seen.out)
            after += "`bw stats` reads them" in seen.err
        else:
            assert (seen.code, "[study-unwritable]" in seen.err) == (2, True), seen.err
    assert after, "no room hit the end: choose others"


def test_a_log_that_was_deleted_costs_no_output(tmp_path: Path) -> None:
    seen = hostile(tmp_path, "touch started; echo first; sleep 600", ("KILL", "started"))
    assert seen.code == -9
    (old,) = (tmp_path / "u" / "logs" / "s1").rglob("exec-1.out")
    (tmp_path / "u" / "journal.sqlite-wal").unlink()
    with contextlib.closing(Study.open_to_read(tmp_path / "u")) as study:
        assert study.sessions() == [], "the session's record is lost with the log"
    seen = hostile(tmp_path, "echo second")
    assert seen.code == 0, seen.err
    assert old.read_text() == "first\n"
    assert (tmp_path / "u" / "results" / "s2").is_dir()
