"""A small Debian machine in QEMU that has Python and what `bw run` imports.

Purpose: tests and examples that restart a machine. Decision: a base image made from
.deb files (no maintainer script runs, no root and no mount is needed), kept in a cache
under a hash of what went in; it is never written to (QEMU's snapshot), so what a
test brings and takes away is on a second disk, mounted at /work. TCG, because KVM is
not to be had in most machines that run tests. What lost: mmdebstrap (four times the size,
and one more program), an initramfs alone (no state survives).

Four flavours: busybox's init, which is quick; systemd with the units of /work/units; the kernel's
NFS server; that with a client. By hand: `guest.py image`; `guest.py boot DISK.img`.
"""

from __future__ import annotations

import compileall
import csv
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from guest_image import NFS, NFS_CLIENT, PLAIN, SYSTEMD, Flavour, Unavailable, image, run, skipped

__all__ = ["NFS", "NFS_CLIENT", "PLAIN", "SYSTEMD", "Flavour", "Unavailable", "image"]

PROJECT = Path(__file__).parents[2]
# On a busy host the kernel may believe that the emulated timer is dead, and panic: it is not to look.
KERNEL_WORDS = "console=ttyS0 quiet panic=1 mitigations=off random.trust_cpu=on no_timer_check"
FIXED_ADDRESSES = "norandmaps nokaslr"
"""The same addresses in each process: what was translated once is found again, which makes the start
of a Python program a third cheaper."""

SERVE_NFS = """ifconfig lo 127.0.0.1 up
mkdir -p /var/lib/nfs /work/export
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
echo '_rpc:x:100:65534::/run/rpcbind:/bin/false' >>/etc/passwd
mkdir -p /run/rpcbind
chown 100 /run/rpcbind
rpcbind
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=1,no_subtree_check '*:/work/export'
rpc.mountd --port 20048
rpc.nfsd --no-udp -N 4 8
"""
"""Words of a script that export /work/export to everybody, once the modules are there."""
SUITE = r"""
FASTFAIL
TEST value %d
  METRIC value
  CHECKPOINT /var/lib/benchwright/checkpoint
  IF RESTORE = 0
    IF EPOCH > 1
      SYSTEM bw chill --method reboot
    FI
  FI
  EXEC ./work.sh
DONE
SYSTEM touch finished
"""
RESTARTS = ("reboot: Restarting system", "sysrq: Resetting")
"""What the kernel says at a restart in order, and at one by its emergency key."""


def make_disk(contents: Path, disk: Path, size: str) -> None:
    """Make an ext4 image of a directory; everything in it is root's."""
    run(["mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", contents, disk, size])


def boot(
    disks: Sequence[Path],
    *,
    timeout_s: int,
    restarts: int = 0,
    flavour: Flavour = PLAIN,
    log: Path | None = None,
    fixed_addresses: bool = True,
) -> str:
    """Run the machine until it switches itself off; return what its consoles said.

    `disks` become /dev/vdb, /dev/vdc; every write and flush of the first one is appended to
    `log` (tests/qemu/power_cut.py); `restarts` is how often it may restart itself. Each
    start is a QEMU of its own: after a reset within one, writing over the pages whose
    code is translated takes ten times as long as starting. Raises RuntimeError, with what the
    console said, for a start that takes too long and for one restart too many.
    """
    consoles = ""
    kernel = f"{KERNEL_WORDS} {FIXED_ADDRESSES if fixed_addresses else ''} {flavour.kernel}"
    for _start in range(restarts + 1):
        console = _started(disks, kernel, timeout_s, flavour, log)
        consoles += console
        if not any(word in console for word in RESTARTS):
            return consoles
    raise RuntimeError(f"the machine restarted more than {restarts} times: {consoles}")


def _started(
    disks: Sequence[Path], kernel: str, timeout_s: int, flavour: Flavour, log: Path | None
) -> str:
    """Run the machine, with these words for its kernel, until it restarts or switches itself off."""
    base = image(flavour)
    words: list[str | Path] = [
        *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "Nehalem,+rdrand", "-m", "512"),
        *("-nodefaults", "-nographic", "-serial", "stdio", "-no-reboot"),
        *("-kernel", base / "vmlinuz", "-initrd", base / "initramfs.gz"),
        *("-append", kernel),
        *flavour.words,
        *_drive(base / "root.img", "snapshot=on,cache=unsafe"),
    ]
    logged, others = (disks[:1], disks[1:]) if log else ((), disks)
    for disk in logged:
        words += _logged_drive(disk, str(log))
    for disk in others:
        words += _drive(disk, "cache=unsafe")
    try:
        done = subprocess.run(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        raise RuntimeError(f"not over after {timeout_s} s: {said}") from None
    return done.stdout.decode(errors="replace")


def copy_out(disk: Path, inside: str, target: Path) -> None:
    """Copy a directory out of an image, without mounting it."""
    target.mkdir(parents=True, exist_ok=True)
    run(["debugfs", "-R", f"rdump {inside} {target}", disk])


def bw_files(natives: Sequence[Path], target: Path) -> None:
    """Lay out what an installation of bw has, for a disk that is mounted at /work."""
    shutil.copytree(PROJECT / "python", target / "python", ignore=skipped)
    compileall.compile_dir(target / "python", quiet=2, stripdir=str(target), prependdir="/work")
    scripts = target / "bin"
    scripts.mkdir()
    for program in natives:
        shutil.copy2(program, scripts / program.name)
    for script in (PROJECT / "packaging/data/scripts").iterdir():
        text = script.read_text()
        made = scripts / script.name
        made.write_text(text.replace("#!python", "#!/usr/bin/python3.11", 1))
        made.chmod(0o755)


def work_disk(work: Path, disk: Path, files: Mapping[str, str], size: str) -> None:
    """Make the disk that is mounted at /work: bw, what goes on with it after a restart, these
    programs, and what else is in the directory `work`."""
    bw_files(programs(), work)
    shutil.copy2(PROJECT / "packaging/rc.local", work / "rc.local")
    for name in ("state", "log"):
        (work / name).mkdir()
    for name, text in files.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    make_disk(work, disk, size)


def _drive(path: Path, how: str) -> list[str]:
    return ["-drive", f"file={path},if=virtio,format=raw,{how}"]


def _logged_drive(path: Path, log: str) -> list[str]:
    driver = "driver=blklogwrites,node-name=w,file=f,log=l,log-sector-size=512"
    return [
        *("-blockdev", f"driver=file,node-name=f,filename={path}"),
        *("-blockdev", f"driver=file,node-name=l,filename={log}"),
        *("-blockdev", driver),
        # Disks are named in the order of their slots.
        *("-device", "virtio-blk-pci,drive=w,addr=0x10"),
    ]


def suite_of(epochs: int) -> str:
    """Return a suite that restarts the machine between its epochs."""
    return SUITE % epochs


def programs() -> list[Path]:
    """Return our native programs, as bw finds them."""
    from benchwright.trial.programs import find_launcher, find_sampler

    return [find_launcher(), find_sampler()]


def rows(study: Path) -> list[tuple[str, float]]:
    """Return (epoch, value) of each row that `bw stats` computes its table of."""
    words = [sys.executable, "-m", "benchwright.cli.main", "stats", "--dump", study]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [(row["epoch"], float(row["value"])) for row in csv.DictReader(done.stdout.splitlines())]


def main() -> int:
    """Do what the command line says."""
    if sys.argv[1:2] == ["boot"]:
        print(boot([Path(word) for word in sys.argv[2:]], timeout_s=600, restarts=99))
    else:
        print(image())
    return 0


if __name__ == "__main__":
    sys.exit(main())
