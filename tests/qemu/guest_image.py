"""The images that a guest machine starts from: a root, a kernel, an archive that mounts it.

Purpose: as guest.py, which runs them. Nothing here is run as root or mounted.
"""

from __future__ import annotations

import compileall
import contextlib
import functools
import gzip
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
SYSTEMD_PACKAGES = (
    *("systemd", "libsystemd-shared", "libsystemd0", "util-linux", "mount"),
    *("libacl1", "libapparmor1", "libaudit1", "libblkid1", "libcap-ng0", "libcap2"),
    *("libfdisk1", "libgcrypt20", "libgpg-error0", "libip4tc2", "libkmod2"),
    *("liblz4-1", "libmount1", "libpam0g", "libpcre2-8-0", "libseccomp2"),
    *("libselinux1", "libsmartcols1", "libtinfo6", "libudev1", "libzstd1"),
)
"""What systemd, its programs and swapon are linked with."""
NFS_PACKAGES = (
    *("nfs-kernel-server", "rpcbind", "netbase", "libtirpc-common", "libtirpc3"),
    *("libwrap0", "libnsl2", "libblkid1", "libgssapi-krb5-2", "libkrb5-3"),
    *("libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1", "libsystemd0"),
    *("libcap2", "libgcrypt20", "libgpg-error0", "liblz4-1", "libzstd1"),
)
"""What rpc.nfsd, rpc.mountd, exportfs and rpcbind need."""
NFS_MODULES = (
    *("failover", "net_failover", "virtio_net", "sunrpc", "grace", "lockd"),
    *("nfs_acl", "auth_rpcgss", "nfsd"),
)
NFS_CLIENT_PACKAGES = (
    *("nfs-common", "util-linux", "mount", "libmount1", "libselinux1", "libpcre2-8-0"),
    *("libsmartcols1", "libtinfo6", "libudev1", "libevent-core-2.1-7"),
)
"""What mount.nfs, findmnt and flock need beside those."""
NFS_CLIENT_MODULES = ("netfs", "fscache", "nfs", "nfsv3")
KERNEL = "linux-image-cloud-amd64"
"""Depends on the kernel's own package."""
SITE = ("numpy", "numpy.libs", "msgspec", "rich", "scipy.libs", "scipy")
SCIPY_PARTS = ("_lib", "special")
"""The run-time uses scipy.special alone."""
PROGRAMS = ("qemu-system-x86_64", "apt-get", "apt-cache", "dpkg-deb", "mke2fs", "debugfs", "mkswap")

INITRAMFS_INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for name in {modules}; do /bin/busybox insmod /$name.ko; done
until [ -b /dev/vdb ]; do /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount -t ext4 /dev/vdb /root/work
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
[ ! -d /work/log ] || mount -o bind /work/log /var/log
hostname guest
"""
LINKS = {"usr/local/bin": "/work/bin", "etc/rc.local": "/work/rc.local"}
LINKS |= {"var/lib/benchwright": "/work/state"}


@dataclass(frozen=True)
class Flavour:
    """What starts the machine, and what that needs."""

    name: str
    init: str
    packages: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """More words of QEMU's command line."""
    kernel: str = ""
    """More words of the kernel's."""
    modules: tuple[str, ...] = ()
    """Kernel modules in /lib/modules, in the order in which they must be loaded."""


PLAIN = Flavour("plain", "/bin/busybox")
SYSTEMD = Flavour(
    "systemd",
    "/lib/systemd/systemd",
    SYSTEMD_PACKAGES,
    ("-smp", "4,sockets=1,cores=2,threads=2"),
    "systemd.show_status=no systemd.unit=multi-user.target",
)
"""With two cores of two threads each, so that SMT can be switched off."""
NFS = Flavour("nfs", "/bin/busybox", NFS_PACKAGES, modules=NFS_MODULES)
"""With the kernel's NFS server; a user of it adds a network card to its words."""
NFS_CLIENT = Flavour(
    "nfs-client",
    "/bin/busybox",
    (*NFS_PACKAGES, *NFS_CLIENT_PACKAGES),
    modules=(*NFS_MODULES, *NFS_CLIENT_MODULES),
)
"""The same with a client of it, so that a machine mounts what it exports."""
KEPT_DAYS = 30
"""An image that was not used for so long is removed when another is made."""


class Unavailable(Exception):
    """The machine cannot be made here; the message says why."""


@functools.cache
def image(flavour: Flavour = PLAIN) -> Path:
    """Return the directory of the base image (root.img, kernel, initramfs), made if need be.

    Raises Unavailable.
    """
    _require()
    versions = _versions(flavour)
    parts = [flavour.name, *versions, Path(__file__).read_text()]
    key = hashlib.sha256("\n".join(parts).encode())
    place = _cache() / key.hexdigest()[:16]
    if not place.exists():
        _cache().mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old()
        with tempfile.TemporaryDirectory(dir=_cache()) as draft:
            _build(Path(draft), versions, flavour)
            done = Path(draft) / "done"
            try:
                done.rename(place)
            except OSError:
                # Another test made it meanwhile; one is as good as the other.
                assert place.exists()
    os.utime(place)
    return place


def _remove_old() -> None:
    """Remove images that no test has used for long, and nothing that is none."""
    for path in _cache().iterdir():
        with contextlib.suppress(OSError):
            old = path.stat().st_mtime < time.time() - KEPT_DAYS * 86400
            if old and re.fullmatch("[0-9a-f]{16}", path.name):
                shutil.rmtree(path, ignore_errors=True)


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


def _versions(flavour: Flavour) -> list[str]:
    """Return `NAME=VERSION` of each package, Python's and Debian's."""
    try:
        shown = output(["apt-cache", "depends", KERNEL])
    except subprocess.CalledProcessError:
        shown = ""
    kernels = [w for w in shown.split() if w.startswith("linux-image-")]
    if len(kernels) < 2:
        raise Unavailable(f"apt knows no {KERNEL} (apt-get update?)")
    names = (*PACKAGES, *flavour.packages, kernels[1])
    policy = output(["apt-cache", "policy", *names]).splitlines()
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


def _build(draft: Path, versions: Sequence[str], flavour: Flavour) -> None:
    root, kernel, done = draft / "root", draft / "kernel", draft / "done"
    done.mkdir()
    _download(draft, [entry for entry in versions if "=" in entry])
    for package in sorted(draft.glob("*.deb")):
        is_kernel = package.name.startswith("linux-image")
        run(["dpkg-deb", "-x", package, kernel if is_kernel else root])
    _fill(root, flavour)
    for module in flavour.modules:
        place = root / "lib/modules"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(next(kernel.rglob(f"{module}.ko")), place)
    run(["mke2fs", "-q", "-t", "ext4", "-d", root, done / "root.img", "600M"])
    shutil.copy2(next((kernel / "boot").glob("vmlinuz-*")), done / "vmlinuz")
    _initramfs(root / "bin/busybox", kernel, done / "initramfs.gz")


def _download(place: Path, packages: Sequence[str]) -> None:
    done = subprocess.run(
        ["apt-get", "download", "-q", *packages], cwd=place, capture_output=True, text=True
    )
    if done.returncode:
        raise Unavailable(f"apt-get download: {done.stderr.strip().splitlines()[-1:]}")


def _fill(root: Path, flavour: Flavour) -> None:
    """Add Python's packages, busybox's names and the start-up files."""
    site = root / "usr/lib/python3/dist-packages"
    for package in _site_packages():
        shutil.copytree(package, site / package.name, ignore=skipped)
    (site / "work.pth").write_text("/work/python\n")
    # Compiled here once, and not at each start by an emulated processor.
    compileall.compile_dir(root / "usr/lib", quiet=2, stripdir=str(root), maxlevels=20)
    for directory in ("proc", "sys", "dev", "tmp", "run", "work", "sbin", "var/lib", "var/log"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / "var/tmp").mkdir(mode=0o1777)
    (root / "usr/local").mkdir(exist_ok=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for name in output([root / "bin/busybox", "--list"]).split():
        # A link to an absolute path leads out of the image here.
        known = [root / place / name for place in ("bin", "sbin", "usr/bin", "usr/sbin")]
        if not any(path.exists() or path.is_symlink() for path in known):
            (root / "bin" / name).symlink_to("busybox")
    (root / "sbin/init").symlink_to(flavour.init)
    (root / "etc/inittab").write_text(INITTAB)
    (root / "etc/passwd").write_text("root::0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/rcS").write_text(RCS)
    (root / "etc/rcS").chmod(0o755)
    if flavour is SYSTEMD:
        _fill_systemd(root)


def _fill_systemd(root: Path) -> None:
    """Let systemd take its units from /work/units."""
    units = root / "etc/systemd/system"
    shutil.rmtree(units, ignore_errors=True)
    units.symlink_to("/work/units")
    (root / "etc/machine-id").write_text(f"{1:032x}\n")
    (root / "etc/os-release").write_text("ID=guest\n")


def skipped(directory: str, names: list[str]) -> set[str]:
    """Return what is not copied of a directory (for shutil.copytree)."""
    left = {name for name in names if name in ("tests", "include") or name.endswith(".a")}
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


def run(words: Sequence[str | Path]) -> None:
    """Run a command that must succeed."""
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def output(words: Sequence[str | Path]) -> str:
    """Return what a command that must succeed prints, in the C locale."""
    command = [str(word) for word in words]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout
