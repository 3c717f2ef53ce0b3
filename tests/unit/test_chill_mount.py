"""What may be unmounted and mounted again, and by which command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.quiet import chill_remount
from benchwright.features.quiet.chill_remount import (
    RemountRoots,
    parse_mountinfo,
    remount,
    remountable,
)
from benchwright.machine.restart import run_command

ROOT = "20 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
DATA = (
    r"30 20 7:0 / /mnt/a\040b rw,nosuid,relatime shared:5 master:1 - "
    "ext4 /dev/loop0 rw,seclabel,errors=remount-ro\n"
)
TMP = "31 20 0:40 / /tmp rw - tmpfs tmpfs rw,size=1k\n"
BIND = "32 20 254:0 /srv /mnt/bind rw - ext4 /dev/vda rw\n"
BELOW = r"33 30 8:1 / /mnt/a\040b/c rw - ext4 /dev/sda1 rw" + "\n"
TWICE = "34 20 7:0 / /other rw - ext4 /dev/loop0 rw\n"
OVER = r"35 30 8:1 / /mnt/a\040b rw - ext4 /dev/sda1 rw" + "\n"
FUSE = "36 20 0:50 / /mnt/f rw - fuse.sshfs host: rw\n"
READ_ONLY = "37 20 8:2 / /mnt/r rw,noatime - xfs /dev/sda2 ro,inode64\n"


def test_the_command_has_source_type_and_options() -> None:
    mount = remountable(parse_mountinfo(ROOT + DATA), "/mnt/a b")
    words = ["mount", "-t", "ext4", "-o", "rw,nosuid,relatime,errors=remount-ro"]
    assert mount.command() == [*words, "--", "/dev/loop0", "/mnt/a b"]


def test_a_file_system_that_is_read_only_stays_so() -> None:
    mount = remountable(parse_mountinfo(READ_ONLY), "/mnt/r")
    assert mount.command()[4] == "noatime,ro,inode64"


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (ROOT, "/", "runs from it"),
        (TMP, "/tmp", "could not be mounted as it was"),
        (FUSE, "/mnt/f", "could not be mounted as it was"),
        (BIND, "/mnt/bind", "bind mount"),
        (DATA + BELOW, "/mnt/a b", "/mnt/a b/c is mounted below"),
        (DATA + TWICE, "/mnt/a b", "also at /other"),
        (DATA + OVER, "/mnt/a b", "one over the other"),
        (DATA, "/nowhere", "nothing is mounted"),
    ],
)
def test_what_would_be_lost_or_useless_is_refused(text: str, target: str, reason: str) -> None:
    with pytest.raises(BenchError) as caught:
        remountable(parse_mountinfo(text), target)
    assert reason in caught.value.message


class Ended(Exception):
    """What the handler of a signal raises here."""


def ended(_number: int, _frame: object) -> None:
    raise Ended


@contextlib.contextmanager
def handled_by(number: signal.Signals, handler: Callable[[int, object], None]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def made_up(place: Path) -> tuple[RemountRoots, Path]:
    """Make the files of a machine with one mount, at a directory that exists."""
    target = place / "mnt"
    target.mkdir()
    (place / "proc/self").mkdir(parents=True)
    line = f"30 20 7:0 / {target} rw - ext4 /dev/none7 rw\n"
    (place / "proc/self/mountinfo").write_text(line)
    return RemountRoots(place / "proc", place / "sys"), target


def test_it_unmounts_then_mounts(tmp_path: Path) -> None:
    places, target = made_up(tmp_path)
    ran: list[list[str]] = []
    told = remount(target, places=places, run=lambda w: ran.append(list(w)) or "")
    assert [words[0] for words in ran] == ["umount", "mount"]
    assert told.command == f"mount -t ext4 -o rw -- /dev/none7 {target}"
    assert (told.kept_by, told.notes) == ((), ())


def test_a_mount_that_fails_says_how_to_mend_it(tmp_path: Path) -> None:
    places, target = made_up(tmp_path)
    with pytest.raises(BenchError) as caught:
        remount(target, places=places, run=lambda w: "" if w[0] == "umount" else "no")
    assert caught.value.code == "chill-unmounted"
    assert caught.value.hint.startswith("mount -t ext4")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("during", ["umount", "mount"])
def test_a_signal_waits_until_it_is_mounted_again(
    tmp_path: Path, during: str, number: signal.Signals
) -> None:
    places, target = made_up(tmp_path)
    ran: list[str] = []

    def run(words: Sequence[str]) -> str:
        ran.append(words[0])
        if words[0] == during:
            signal.raise_signal(number)
        return ""

    with pytest.raises(Ended), handled_by(number, ended):
        remount(target, places=places, run=run)
    assert ran == ["umount", "mount"]


def test_what_is_left_unmounted_is_told_whatever_signal_came(tmp_path: Path) -> None:
    places, target = made_up(tmp_path)

    def run(words: Sequence[str]) -> str:
        signal.raise_signal(signal.SIGINT)
        return "" if words[0] == "umount" else "no"

    with pytest.raises(BenchError) as caught, handled_by(signal.SIGINT, ended):
        remount(target, places=places, run=run)
    assert caught.value.code == "chill-unmounted"


def test_it_is_mounted_again_whatever_fails_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_behind: object) -> list[str]:
        raise OSError("no")

    places, target = made_up(tmp_path)
    monkeypatch.setattr(chill_remount, "_dropped", failing)
    ran: list[str] = []
    with pytest.raises(OSError, match="no"):
        remount(target, places=places, run=lambda w: ran.append(w[0]) or "")
    assert ran == ["umount", "mount"]


def test_a_program_is_out_of_reach_of_the_terminal() -> None:
    program = f"import os, sys; sys.exit(os.getsid(0) == {os.getsid(0)})"
    assert run_command([sys.executable, "-c", program]) == ""


def test_a_holder_is_named_and_nothing_is_run(tmp_path: Path) -> None:
    places, target = made_up(tmp_path)
    process = tmp_path / "proc/42"
    process.mkdir()
    (process / "comm").write_text("cat\n")
    (process / "cwd").symlink_to(target)
    ran: list[str] = []
    with pytest.raises(BenchError) as caught:
        remount(target, places=places, run=lambda w: ran.append(w[0]) or "")
    assert caught.value.code == "chill-busy"
    assert f"cat (42): cwd {target}" in caught.value.message
    assert ran == []


def test_a_mapping_holds_too(tmp_path: Path) -> None:
    process = tmp_path / "7"
    process.mkdir()
    device = os.makedev(7, 1)
    (process / "maps").write_text("1-2 r--p 0 07:02 9 /other\n3-4 r--p 0 07:01 12   /mnt/lib so\n")
    assert chill_remount.holders(device, tmp_path) == ["? (7): mapped /mnt/lib so"]
