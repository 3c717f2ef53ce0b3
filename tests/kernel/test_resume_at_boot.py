"""The boot script's rule of ownership, and the unit that calls it.

A stand-in for bw lies beside the script and tells who it is run as.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
UNIT = PACKAGING / "systemd/bw-resume@.service"
STAND_IN = '#!/bin/sh\necho "$(id -u): $*"\n'
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a directory that every user may enter, with the script and a stand-in."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        shutil.copy2(PACKAGING / "data/scripts/bw-resume-at-boot", directory)
        (directory / "bw").write_text(STAND_IN)
        (directory / "bw").chmod(0o755)
        yield directory


def called(place: Path, checkpoint: str | Path) -> subprocess.CompletedProcess[str]:
    words = [place / "bw-resume-at-boot", checkpoint]
    return subprocess.run(words, capture_output=True, text=True)


def checkpoint_of(place: Path, *, mode: int = 0o600, uid: int | None = None) -> Path:
    file = place / "check point"
    file.write_text("benchwright checkpoint 1\n")
    file.chmod(mode)
    if uid is not None:
        os.chown(file, uid, uid)
    return file


def test_ones_own_checkpoint_is_resumed(place: Path) -> None:
    file = checkpoint_of(place)
    done = called(place, file)
    assert (done.returncode, done.stdout) == (0, f"{os.getuid()}: resume {file}\n")


def test_without_a_checkpoint_there_is_nothing_to_do(place: Path) -> None:
    done = called(place, place / "none")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o660])
def test_what_others_may_write_is_refused(place: Path, mode: int) -> None:
    done = called(place, checkpoint_of(place, mode=mode))
    assert (done.returncode, done.stdout) == (2, "")
    assert "may write to it" in done.stderr


def test_links_directories_and_relative_names_are_refused(place: Path) -> None:
    (place / "link").symlink_to(checkpoint_of(place))
    for name, why in ((place / "link", "symbolic link"), (place, "not a file")):
        done = called(place, name)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
    assert called(place, "relative").returncode == 2


@needs_root
def test_a_users_checkpoint_is_resumed_as_that_user(place: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    file = checkpoint_of(place, uid=nobody)
    done = called(place, file)
    assert (done.returncode, done.stdout) == (0, f"{nobody}: resume {file}\n"), done.stderr


@needs_root
def test_an_owner_that_is_no_user_is_refused(place: Path) -> None:
    done = called(place, checkpoint_of(place, uid=54321))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no user of this machine" in done.stderr


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text()
    assert "ExecStart=/usr/local/bin/bw-resume-at-boot %f" in text
    # The program need not be installed for the test: only it is replaced.
    instance = tmp_path / "bw-resume@var-lib-benchwright-checkpoint.service"
    (tmp_path / UNIT.name).write_text(text.replace("/usr/local/bin/bw-resume-at-boot", "/bin/true"))
    words = ["systemd-analyze", "verify", "--man=no", instance]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
