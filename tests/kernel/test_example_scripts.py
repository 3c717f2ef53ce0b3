"""The examples' scripts against the real kernel: loop devices, mounts, PostMark, make.

As root the file systems are made and killed in the making; what must hold is that
afterwards no mount and no loop device of theirs is left. The launcher is
replaced by a stand-in for `bw`, so that a failure here is the scripts' own.
"""

from __future__ import annotations

import fcntl
import os
import random
import shlex
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
def test_a_file_system_is_mounted_and_undone(file_system: str, scripts: Scripts) -> None:
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
def test_a_set_up_killed_at_any_moment_can_be_undone(file_system: str, scripts: Scripts) -> None:
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


def test_a_clean_up_waits_for_the_last_process_of_a_killed_set_up(scripts: Scripts) -> None:
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


# -- a real partition ------------------------------------------------------------------


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """A block device of 320 MiB that nobody uses, as a partition of the user's is."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root")
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(320 << 20)
    made = subprocess.run(["losetup", "--find", "--show", disk], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no loop device can be made: {made.stderr}")
    name = made.stdout.strip()
    yield name
    subprocess.run(["losetup", "-d", name], check=True)


def _content(device: str) -> str:
    words = ["wipefs", "--noheadings", "--parsable", "-O", "UUID,TYPE", device]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.root
@pytest.mark.parametrize("file_system", ["ext4", "xfs", "btrfs"])
def test_a_partition_is_used_whole_and_known_again(
    file_system: str, scripts: Scripts, device: str
) -> None:
    _require(file_system, scripts)
    for _ in range(2):  # the second finds the file system of the first
        scripts.works("fs-setup.sh", file_system, TESTDEV=device)
        (mount,) = _ours(scripts)
        assert mount.startswith(f"{device} {scripts.mount} {file_system} ")
        (scripts.mount / "kept").touch()
        scripts.works("fs-cleanup.sh", TESTDEV=device)
        assert _ours(scripts) == []
    scripts.works("fs-setup.sh", file_system, TESTDEV=device, FORMAT="no")
    assert (scripts.mount / "kept").exists()
    scripts.works("fs-setup.sh", "ext2", TESTDEV=device, FORMAT="no")
    assert not (scripts.mount / "kept").exists(), "of another type there was none"
    assert [path.name for path in scripts.root.iterdir() if path.is_file()] == ["testdev.uuid"]


PARTITIONS = "sh -c \"printf '\\\\125\\\\252' | dd of={} bs=1 seek=510 status=none\""
"""Ends the first block as a table of partitions does."""


@pytest.mark.root
@pytest.mark.parametrize("holding", ["mkfs.ext4 -q -F {}", "mkswap {}", PARTITIONS])
@pytest.mark.parametrize("formatting", ["yes", "no"])
def test_a_partition_with_something_on_it_is_refused(
    holding: str, formatting: str, scripts: Scripts, device: str
) -> None:
    _require("ext4", scripts)
    command = shlex.split(holding.format(device))
    subprocess.run(command, check=True, capture_output=True)
    before = _content(device)
    refused = scripts("fs-setup.sh", "ext4", TESTDEV=device, FORMAT=formatting)
    assert refused.returncode == 1
    assert "did not make" in refused.stderr
    assert "TESTDEV_OVERWRITE=yes" in refused.stderr
    assert before == _content(device) != ""
    assert _ours(scripts) == []
    given = {"TESTDEV": device, "TESTDEV_OVERWRITE": "yes", "FORMAT": formatting}
    scripts.works("fs-setup.sh", "ext4", **given)
    scripts.works("fs-cleanup.sh")
    scripts.works("fs-setup.sh", "ext4", TESTDEV=device)


@pytest.mark.root
def test_a_partition_in_use_is_refused_whatever_is_allowed(
    scripts: Scripts, device: str, tmp_path: Path
) -> None:
    _require("ext4", scripts)
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    given = {"TESTDEV": device, "TESTDEV_OVERWRITE": "yes"}
    subprocess.run(["mount", device, elsewhere], check=True)
    try:
        refused = scripts("fs-setup.sh", "ext4", **given)
        assert refused.returncode == 1
        assert f"is mounted on {elsewhere}" in refused.stderr
    finally:
        subprocess.run(["umount", elsewhere], check=True)
    held = os.open(device, os.O_RDONLY | os.O_EXCL)  # as swap, RAID and LVM do
    try:
        before = _content(device)
        refused = scripts("fs-setup.sh", "ext4", **given)
        assert refused.returncode == 1
        assert "in use" in refused.stderr
        assert _content(device) == before
    finally:
        os.close(held)


@pytest.mark.root
def test_a_file_is_no_partition(scripts: Scripts, tmp_path: Path) -> None:
    _require("ext4", scripts)
    (tmp_path / "file").write_text("precious")
    refused = scripts("fs-setup.sh", "ext4", TESTDEV=str(tmp_path / "file"))
    assert refused.returncode == 1
    assert "not a block device" in refused.stderr
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.root
def test_another_file_system_of_a_partition_is_not_unmounted(scripts: Scripts, device: str) -> None:
    _require("ext4", scripts)
    scripts.works("fs-setup.sh", "ext4", TESTDEV=device)
    scripts.works("fs-cleanup.sh")
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    scripts.mount.mkdir(exist_ok=True)
    subprocess.run(["mount", device, scripts.mount], check=True)
    try:
        refused = scripts("fs-cleanup.sh", TESTDEV=device)
        assert refused.returncode == 1
        assert "not ours" in refused.stderr
    finally:
        subprocess.run(["umount", scripts.mount], check=True)


# -- hooks of the scripts --------------------------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize("wanted", ["yes", "no"])
def test_htrees_are_a_hooks_work(wanted: str, scripts: Scripts) -> None:
    _require("ext2", scripts)
    scripts.works("fs-setup.sh", "ext2", HTREE=wanted, FSSIZE="16M")
    words = ["dumpe2fs", "-h", scripts.root / "fs-ext2.img"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert ("dir_index" in told) is (wanted == "yes")


@pytest.mark.root
def test_a_file_system_is_stacked_on_another(scripts: Scripts) -> None:
    _require("ext4", scripts)
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("no overlay in this kernel")
    for _ in range(2):
        scripts.works("fs-setup.sh", "ext4", STACK="overlay", FSSIZE="16M")
        below, above, _loop = _ours(scripts)
        assert (" ext4 " in below, " overlay " in above) == (True, True)
        (scripts.mount / "file").write_text("above")
    scripts.works("fs-cleanup.sh")
    assert _ours(scripts) == []


def hook(directory: Path, name: str, text: str) -> Path:
    """Write a hook into a directory of APLIB's; return that directory."""
    place = directory / "commonsettings.d"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text("#!/bin/sh\n" + text)
    (place / name).chmod(0o755)
    return directory


@pytest.mark.root
def test_hooks_of_several_directories_are_asked_in_order(scripts: Scripts, tmp_path: Path) -> None:
    _require("ext4", scripts)
    log = tmp_path / "log"
    say = f'echo "${{0##*/}} $1 $2 $3 $4" >>"{log}"\n'
    first = hook(tmp_path / "a b", "one", say + '[ "$1" = mkfs ] || exit 3\nmkfs.ext4 -q -F "$3"')
    second = hook(tmp_path / "c", "two", say + "exit 3\n")
    both = f"{first}:{second}:{tmp_path / 'nowhere'}:{first}"
    scripts.works("fs-setup.sh", "ext4", APLIB=both, FSSIZE="16M")
    image, mount = scripts.root / "fs-ext4.img", scripts.mount
    assert log.read_text().splitlines() == [
        f"one unmount ext4  {mount}",
        f"two unmount ext4  {mount}",
        f"one mkfs ext4 {image} {mount}",
        f"one tune ext4 {image} {mount}",
        f"two tune ext4 {image} {mount}",
        f"one mount ext4 {image} {mount}",
        f"two mount ext4 {image} {mount}",
        f"one mounted ext4 {image} {mount}",
        f"two mounted ext4 {image} {mount}",
    ]


@pytest.mark.root
def test_a_hook_brings_a_file_system_of_its_own(scripts: Scripts, tmp_path: Path) -> None:
    _require("ext4", scripts)
    text = (
        'case "$1 $2" in\n'
        '"mount memory") exec mount -t tmpfs memory "$4" ;;\n'
        'unmount*) mountpoint -q "$4" || exit 3; exec umount "$4" ;;\n'
        "*) exit 3 ;;\nesac\n"
    )
    library = str(hook(tmp_path / "lib", "memory", text))
    scripts.works("fs-setup.sh", "memory", APLIB=library)
    (mount,) = _ours(scripts)
    assert mount.startswith("memory ")
    assert list(scripts.root.iterdir()) == [scripts.mount], "an image of no use"
    scripts.works("fs-cleanup.sh", APLIB=library)
    assert _ours(scripts) == []
    refused = scripts("fs-setup.sh", "memory")
    assert refused.returncode == 1
    assert "unknown file system 'memory'" in refused.stderr


@pytest.mark.root
def test_a_failed_hook_undoes_the_set_up(scripts: Scripts, tmp_path: Path) -> None:
    _require("ext4", scripts)
    library = hook(tmp_path / "lib", "bad", '[ "$1" != mounted ] || exit 7\nexit 3\n')
    failed = scripts("fs-setup.sh", "ext4", APLIB=str(library), FSSIZE="16M")
    assert failed.returncode == 1
    assert "failed at mounted: exit status 7" in failed.stderr
    assert _ours(scripts) == []


@pytest.mark.parametrize("open_one", ["commonsettings.d", "commonsettings.d/hook"])
def test_a_hook_that_everybody_may_write_is_not_called(
    open_one: str, scripts: Scripts, tmp_path: Path
) -> None:
    library = hook(tmp_path / "lib", "hook", f'touch "{tmp_path}/called"\n')
    (library / open_one).chmod(0o777)
    refused = scripts("fs-setup.sh", "plain", APLIB=str(library))
    assert refused.returncode == 1
    assert "everybody may write" in refused.stderr
    assert not (tmp_path / "called").exists()


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
def test_postmark_on_a_full_disk_is_a_failure_though_it_exits_with_0(scripts: Scripts) -> None:
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


CONFIGURE = """#!/bin/sh
source=$(dirname "$0")
printf 'VPATH = %s\\nprogram: program.c\\n\\tcc -o $@ $<\\nall: program\\n' "$source" >Makefile
echo "$*" >options
"""


def package(place: Path, script: str) -> str:
    """Write a package whose own script configures it; return its path."""
    tree = place / "tree-1.0"
    tree.mkdir(parents=True)
    (tree / script).write_text(CONFIGURE)
    (tree / script).chmod(0o755)
    (tree / "program.c").write_text("int main(void) { return 0; }\n")
    archive = place / "tree.tar.xz"
    subprocess.run(["tar", "-C", place, "-cJf", archive, "tree-1.0"], check=True)
    return str(archive)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("script", "given", "measured"),
    [
        ("config", {"CONFIGURE": "./config no-asm"}, "./config"),
        ("configure", {"BUILD": "out", "TARGETS": "all"}, "/tree-1.0/configure"),
        ("config", {"BUILD": "out", "CONFIGURE": "config -O2"}, "/tree-1.0/config"),
    ],
)
def test_packages_are_configured_and_built_in_their_own_way(
    script: str, given: dict[str, str], measured: str, scripts: Scripts, tmp_path: Path
) -> None:
    scripts.works("fs-setup.sh", "plain")
    scripts.works("compile.sh", PACKAGE=package(tmp_path / "package", script), **given)
    tar, configure, make = scripts.aplog.read_text().splitlines()
    assert (tar, make) == ("measured tar", "measured make")
    assert configure.endswith(measured)
    assert list(scripts.mount.iterdir()) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_package_without_a_script_is_only_made(scripts: Scripts, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "Makefile").write_text("all:\n\ttrue\n")
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "t.tar", "tree"], check=True)
    scripts.works("fs-setup.sh", "plain")
    given = {"PACKAGE": str(tmp_path / "t.tar"), "CONFIGURE": "none"}
    scripts.works("compile.sh", **given)
    assert scripts.aplog.read_text().split() == ["measured", "tar", "measured", "make"]
    assert scripts("compile.sh", **given, BUILD="elsewhere").returncode == 2
