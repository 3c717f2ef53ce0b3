"""The examples' scripts against the real kernel: loop devices, mounts, PostMark, make.

As root the file systems are made and killed in the making; what must hold is that
afterwards no mount and no loop device of theirs is left. The launcher is
replaced by a stand-in for `bw`, so that a failure here is the scripts' own.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs")
STAND_IN = """#!/bin/sh
case $1 in
barrier) shift; [ "${1-}" != -- ] || shift; [ $# -eq 0 ] || exec "$@" ;;
measure) shift 2; echo "measured $1" >>"${APLOG:-/dev/null}"; exec "$@" ;;
esac
"""

needs_postmark = pytest.mark.skipif(
    shutil.which("postmark") is None, reason="postmark is not installed"
)


class Scripts:
    """Runs the scripts as the launcher would, in a TESTROOT with a blank in its name."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "test root"
        self.aplog = directory / "aplog"
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        (bin_directory / "bw").write_text(STAND_IN)
        (bin_directory / "bw").chmod(0o755)
        path = os.pathsep.join((str(bin_directory), str(EXAMPLES), os.environ["PATH"]))
        self.environment = {
            **os.environ,
            "PATH": path + os.pathsep + "/usr/sbin",
            "TESTROOT": str(self.root),
            "APTHREAD": "1",
            "THREADS": "1",
            "APEPOCH": "1",
            "APLOG": str(self.aplog),
            "PM_FILES": "50",
            "PM_TRANSACTIONS": "50",
        }

    def __call__(
        self, script: str, *words: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EXAMPLES / script, *words],
            env=self.environment | variables,
            capture_output=True,
            text=True,
        )

    def works(self, script: str, *words: str, **variables: str) -> str:
        result = self(script, *words, **variables)
        assert result.returncode == 0, result.stderr
        return result.stdout

    @property
    def mount(self) -> Path:
        return self.root / "mnt"


def _ours(scripts: Scripts) -> list[str]:
    """Return the mounts and loop devices in this test's own TESTROOT.

    Others on this machine may mount what they like meanwhile.
    """
    root = str(scripts.root)
    mounts = Path("/proc/mounts").read_text().replace("\\040", " ").splitlines()
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    return [line for line in mounts if root in line] + [
        f"{path}: {backing}" for path in loops if root in (backing := _text(path))
    ]


def _text(path: Path) -> str:
    """Return a file's text; a device that goes away meanwhile has none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    """The scripts; whatever a test does, no mount of it is left."""
    made = Scripts(tmp_path)
    yield made
    made("fs-cleanup.sh")
    assert _ours(made) == []


def _require(file_system: str, scripts: Scripts) -> None:
    """Skip where the machine cannot make this file system at all."""
    if os.geteuid() != 0:
        pytest.skip("loop devices and mounts need root")
    known = Path("/proc/filesystems").read_text().split()
    tool = shutil.which(f"mkfs.{file_system}", path=scripts.environment["PATH"])
    if file_system not in known or tool is None:
        pytest.skip(f"no {file_system} in this kernel, or no mkfs.{file_system}")
    if not Path("/dev/loop-control").exists():
        pytest.skip("no loop devices")


@pytest.mark.root
@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_a_file_system_is_mounted_and_undone(
    file_system: str, scripts: Scripts
) -> None:
    _require(file_system, scripts)
    for _ in range(2):  # the second finds the first one's leavings
        scripts.works("fs-setup.sh", file_system)
        mount, loop = _ours(scripts)
        assert f"{scripts.mount} {file_system} " in mount
        assert f"fs-{file_system}.img" in loop
    scripts.works("fs-cleanup.sh", file_system)
    scripts.works("fs-cleanup.sh", file_system)
    assert _ours(scripts) == []
    assert list(scripts.root.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_set_up_killed_at_any_moment_can_be_undone(
    file_system: str, scripts: Scripts
) -> None:
    _require(file_system, scripts)
    moments = random.Random(20)
    for _ in range(20):
        process = subprocess.Popen(
            [EXAMPLES / "fs-setup.sh", file_system],
            env=scripts.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(moments.uniform(0, 0.06))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        scripts.works("fs-cleanup.sh", file_system)
        assert _ours(scripts) == []


def test_a_clean_up_waits_for_the_last_process_of_a_killed_set_up(
    scripts: Scripts,
) -> None:
    scripts.root.mkdir()
    image = scripts.root / "fs-ext4.img"
    image.touch()
    held = os.open(scripts.root, os.O_RDONLY)  # as a mount(8) still in the kernel does
    fcntl.flock(held, fcntl.LOCK_EX)
    process = subprocess.Popen([EXAMPLES / "fs-cleanup.sh"], env=scripts.environment)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    assert image.exists()
    os.close(held)
    assert process.wait() == 0
    assert not image.exists()


@pytest.mark.root
def test_a_failed_set_up_undoes_itself(scripts: Scripts) -> None:
    _require("ext4", scripts)
    assert scripts("fs-setup.sh", "ext4", MOUNTOPTS="nonsense").returncode != 0
    assert scripts("fs-setup.sh", "reiserfs").returncode != 0
    assert _ours(scripts) == []


@pytest.mark.root
def test_a_mount_that_is_not_ours_is_left_alone(scripts: Scripts) -> None:
    _require("ext4", scripts)
    scripts.mount.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "none", scripts.mount]).returncode:
        pytest.skip("no tmpfs can be mounted")
    try:
        for script in ("fs-cleanup.sh", "fs-setup.sh"):
            result = scripts(script, "ext4")
            assert result.returncode == 1
            assert "not ours" in result.stderr
        assert scripts.mount.is_mount()
    finally:
        subprocess.run(["umount", scripts.mount], check=True)


@pytest.mark.root
def test_format_no_mounts_the_same_file_system_again(scripts: Scripts) -> None:
    _require("ext4", scripts)
    scripts.works("fs-setup.sh", "ext4", FORMAT="no")
    (scripts.mount / "kept").touch()
    scripts.works("fs-cleanup.sh", "ext4", FORMAT="no")
    scripts.works("fs-setup.sh", "ext4", FORMAT="no")
    assert (scripts.mount / "kept").exists()
    scripts.works("fs-setup.sh", "ext4")
    assert not (scripts.mount / "kept").exists()


@pytest.mark.parametrize("root", ["/", "relative", ""])
def test_a_dangerous_testroot_is_refused(root: str, scripts: Scripts) -> None:
    for script in ("fs-setup.sh", "fs-cleanup.sh"):
        result = scripts(script, "plain", TESTROOT=root)
        assert result.returncode == 1
        assert "TESTROOT" in result.stderr


def test_the_machine_is_described(scripts: Scripts) -> None:
    text = scripts.works("fs-setup.sh", "plain")
    for head in ("system", "processors", "memory", "partitions", "mounts"):
        assert f"== {head}" in text


@needs_postmark
def test_postmark_is_measured_and_leaves_nothing(scripts: Scripts) -> None:
    scripts.works("fs-setup.sh", "plain")
    assert "transactions" in scripts.works("postmark.sh", PM_SUBDIRECTORIES="3")
    assert scripts.aplog.read_text() == "measured postmark\n"
    assert list(scripts.mount.iterdir()) == []
    assert list(scripts.root.iterdir()) == [scripts.mount]


@needs_postmark
@pytest.mark.root
def test_postmark_on_a_full_disk_is_a_failure_though_it_exits_with_0(
    scripts: Scripts,
) -> None:
    _require("ext2", scripts)
    scripts.works("fs-setup.sh", "ext2", FSSIZE="8M")
    result = scripts("postmark.sh", PM_FILES="5000")
    assert result.returncode == 1
    assert "PostMark reported errors" in result.stderr


def test_postmark_without_its_set_up_says_so(scripts: Scripts) -> None:
    result = scripts("postmark.sh")
    assert result.returncode == 1
    assert "fs-setup.sh" in result.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_compilation_is_three_measured_commands(scripts: Scripts) -> None:
    scripts.works("compile-package.sh", MODULES="2")
    scripts.works("fs-setup.sh", "plain")
    scripts.works("compile.sh")
    commands = scripts.aplog.read_text().split()[1::2]
    assert commands == ["tar", "./configure", "make"]
    assert list(scripts.mount.iterdir()) == []
