"""A small Debian machine in QEMU that has Python and what `bw run` imports.

Purpose: tests and examples that restart a machine. Decision: a base image made from
.deb files (no maintainer script runs, no root and no mount is needed), kept in a cache
under a hash of what went in; it is never written to (QEMU's snapshot), so what a
test brings and takes away is on a second disk, mounted at /work. TCG, because KVM is
not to be had in most machines that run tests. What lost: mmdebstrap (four times the size,
and one more program), an initramfs alone (no state survives).

By hand: `guest.py image`; `guest.py boot DISK.img`.
"""

from __future__ import annotations

import compileall
import functools
import gzip
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

BOOT = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev")
MODULES = (*BOOT, "virtio_pci", "virtio_blk")
"""Kernel modules in the order in which they must be loaded."""
PACKAGES = (
    *("busybox-static", "python3.11-minimal", "libpython3.11-minimal"),
    *("libpython3.11-stdlib", "libc6", "libssl3", "libexpat1", "zlib1g", "libbz2-1.0"),
    *("libffi8", "liblzma5", "libsqlite3-0", "libuuid1", "libcrypt1", "libgcc-s1"),
    "libstdc++6",
)
KERNEL = "linux-image-cloud-amd64"
"""Depends on the kernel's own package."""
SITE = ("numpy", "numpy.libs", "msgspec", "rich", "scipy.libs", "scipy")
SCIPY_PARTS = ("_lib", "special")
"""The run-time uses scipy.special alone."""
PROGRAMS = (
    "qemu-system-x86_64",
    "apt-get",
    "apt-cache",
    "dpkg-deb",
    "mke2fs",
    "debugfs",
)

# The same addresses in each process: what was translated once is found again, which
# makes the start of a Python program a third cheaper.
KERNEL_WORDS = (
    "console=ttyS0 quiet panic=1 mitigations=off norandmaps nokaslr random.trust_cpu=on"
)

INITRAMFS_INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for name in {modules}; do /bin/busybox insmod /$name.ko; done
until [ -b /dev/vdb ]; do /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""
INITTAB = """::sysinit:/etc/rcS
::once:/work/session
::shutdown:/bin/umount -a -r
"""
RCS = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t ext4 /dev/vdb /work
[ ! -d /work/log ] || mount -o bind /work/log /var/log
hostname guest
"""
LINKS = {"usr/local/bin": "/work/bin", "etc/rc.local": "/work/rc.local"}
LINKS |= {"var/lib/benchwright": "/work/state"}


class Unavailable(Exception):
    """The machine cannot be made here; the message says why."""


@functools.cache
def image() -> Path:
    """Return the directory of the base image (root.img, kernel, initramfs), made if need be.

    Raises Unavailable.
    """
    _require()
    versions = _versions()
    key = hashlib.sha256("\n".join([*versions, Path(__file__).read_text()]).encode())
    place = _cache() / key.hexdigest()[:16]
    if not place.exists():
        _cache().mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_cache()) as draft:
            _build(Path(draft), versions)
            done = Path(draft) / "done"
            try:
                done.rename(place)
            except OSError:
                # Another test made it meanwhile; one is as good as the other.
                assert place.exists()
    return place


def make_disk(contents: Path, disk: Path, size: str) -> None:
    """Make an ext4 image of a directory; everything in it is root's."""
    _run(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-E",
            "root_owner=0:0",
            "-d",
            contents,
            disk,
            size,
        ]
    )


def boot(disks: Sequence[Path], *, timeout_s: int, restarts: int = 0) -> str:
    """Run the machine until it switches itself off; return what its consoles said.

    `disks` become /dev/vdb, /dev/vdc; `restarts` is how often it may restart itself. Each
    start is a QEMU of its own: after a reset within one, writing over the pages whose
    code is translated takes ten times as long as starting. Raises
    subprocess.TimeoutExpired, and RuntimeError for one restart too many.
    """
    consoles = ""
    for _start in range(restarts + 1):
        console = _started(disks, timeout_s)
        consoles += console
        if "reboot: Restarting system" not in console:
            return consoles
    raise RuntimeError(f"the machine restarted more than {restarts} times: {consoles}")


def _started(disks: Sequence[Path], timeout_s: int) -> str:
    """Run the machine until it restarts or switches itself off."""
    base = image()
    words: list[str | Path] = [
        *(
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-cpu",
            "Nehalem,+rdrand",
            "-m",
            "512",
        ),
        *("-nodefaults", "-nographic", "-serial", "stdio", "-no-reboot"),
        *("-kernel", base / "vmlinuz", "-initrd", base / "initramfs.gz"),
        *("-append", KERNEL_WORDS),
        *_drive(base / "root.img", "snapshot=on,cache=unsafe"),
    ]
    for disk in disks:
        words += _drive(disk, "cache=unsafe")
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )
    return done.stdout


def copy_out(disk: Path, inside: str, target: Path) -> None:
    """Copy a directory out of an image, without mounting it."""
    target.mkdir(parents=True, exist_ok=True)
    _run(["debugfs", "-R", f"rdump {inside} {target}", disk])


def bw_files(project: Path, programs: Sequence[Path], target: Path) -> None:
    """Lay out what an installation of bw has, for a disk that is mounted at /work."""
    shutil.copytree(project / "python", target / "python", ignore=_skipped)
    compileall.compile_dir(
        target / "python", quiet=2, stripdir=str(target), prependdir="/work"
    )
    scripts = target / "bin"
    scripts.mkdir()
    for program in programs:
        shutil.copy2(program, scripts / program.name)
    for script in (project / "packaging/data/scripts").iterdir():
        text = script.read_text()
        made = scripts / script.name
        made.write_text(text.replace("#!python", "#!/usr/bin/python3.11", 1))
        made.chmod(0o755)


def _drive(path: Path, how: str) -> list[str]:
    return ["-drive", f"file={path},if=virtio,format=raw,{how}"]


def _cache() -> Path:
    default = Path.home() / ".cache/benchwright/qemu"
    return Path(os.environ.get("BW_QEMU_CACHE") or default)


def _require() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}")
    if platform.machine() != "x86_64":
        raise Unavailable(f"the guest is x86_64, this is {platform.machine()}")
    if sys.version_info[:2] != (3, 11):
        raise Unavailable("numpy is copied from here, and the guest has Python 3.11")


def _versions() -> list[str]:
    """Return `NAME=VERSION` of each package, Python's and Debian's."""
    shown = _output(["apt-cache", "depends", KERNEL])
    kernels = [w for w in shown.split() if w.startswith("linux-image-")]
    if len(kernels) < 2:
        raise Unavailable(f"apt knows no {KERNEL} (apt-get update?)")
    names = (*PACKAGES, kernels[1])
    policy = _output(["apt-cache", "policy", *names]).splitlines()
    found = [line.split()[1] for line in policy if "Candidate:" in line]
    if len(found) != len(names) or "(none)" in found:
        raise Unavailable("apt lacks some of the guest's packages (Debian 12 is meant)")
    ours = [f"{path}:{path.stat().st_mtime_ns}" for path in _site_packages()]
    return [*(f"{n}={v}" for n, v in zip(names, found, strict=True)), *ours]


def _site_packages() -> Iterator[Path]:
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        raise Unavailable("numpy is not installed")
    site = Path(spec.origin).parents[1]
    yield from (site / name for name in SITE)


def _build(draft: Path, versions: Sequence[str]) -> None:
    root, kernel, done = draft / "root", draft / "kernel", draft / "done"
    done.mkdir()
    _download(draft, [entry for entry in versions if "=" in entry])
    for package in sorted(draft.glob("*.deb")):
        is_kernel = package.name.startswith("linux-image")
        _run(["dpkg-deb", "-x", package, kernel if is_kernel else root])
    _fill(root)
    _run(["mke2fs", "-q", "-t", "ext4", "-d", root, done / "root.img", "600M"])
    shutil.copy2(next((kernel / "boot").glob("vmlinuz-*")), done / "vmlinuz")
    _initramfs(root / "bin/busybox", kernel, done / "initramfs.gz")


def _download(place: Path, packages: Sequence[str]) -> None:
    done = subprocess.run(
        ["apt-get", "download", "-q", *packages],
        cwd=place,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Unavailable(f"apt-get download: {done.stderr.strip().splitlines()[-1:]}")


def _fill(root: Path) -> None:
    """Add Python's packages, busybox's names and the start-up files."""
    site = root / "usr/lib/python3/dist-packages"
    for package in _site_packages():
        shutil.copytree(package, site / package.name, ignore=_skipped)
    (site / "work.pth").write_text("/work/python\n")
    # Compiled here once, and not at each start by an emulated processor.
    compileall.compile_dir(root / "usr/lib", quiet=2, stripdir=str(root), maxlevels=20)
    for directory in (
        "proc",
        "sys",
        "dev",
        "tmp",
        "run",
        "work",
        "sbin",
        "var/lib",
        "var/log",
    ):
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / "var/tmp").mkdir(mode=0o1777)
    (root / "usr/local").mkdir(exist_ok=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for name in _output([root / "bin/busybox", "--list"]).split():
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")
    (root / "sbin/init").symlink_to("/bin/busybox")
    (root / "etc/inittab").write_text(INITTAB)
    (root / "etc/passwd").write_text("root::0:0:root:/root:/bin/sh\n")
    (root / "etc/rcS").write_text(RCS)
    (root / "etc/rcS").chmod(0o755)


def _skipped(directory: str, names: list[str]) -> set[str]:
    left = {
        name for name in names if name in ("tests", "include") or name.endswith(".a")
    }
    if Path(directory).name == "scipy":
        kept = SCIPY_PARTS
        left |= {n for n in names if Path(directory, n).is_dir() and n not in kept}
    return left


def _initramfs(busybox: Path, kernel: Path, target: Path) -> None:
    """Write the archive that loads the disk's driver and goes over to the disk."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for directory in ("bin", "dev", "root"):
            (place / directory).mkdir()
        shutil.copy2(busybox, place / "bin/busybox")
        for module in MODULES:
            shutil.copy2(next(kernel.rglob(f"{module}.ko")), place)
        init = place / "init"
        init.write_text(INITRAMFS_INIT.format(modules=" ".join(MODULES)))
        init.chmod(0o755)
        names = "\n".join(str(p.relative_to(place)) for p in sorted(place.rglob("*")))
        packed = subprocess.run(
            [busybox, "cpio", "-o", "-H", "newc"],
            input=names.encode(),
            cwd=place,
            capture_output=True,
            check=True,
        )
    target.write_bytes(gzip.compress(packed.stdout, 1))


def _run(words: Sequence[str | Path]) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def _output(words: Sequence[str | Path]) -> str:
    command = [str(word) for word in words]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout


def main() -> int:
    """Do what the command line says."""
    if sys.argv[1:2] == ["boot"]:
        print(boot([Path(word) for word in sys.argv[2:]], timeout_s=600, restarts=99))
    else:
        print(image())
    return 0


if __name__ == "__main__":
    sys.exit(main())
