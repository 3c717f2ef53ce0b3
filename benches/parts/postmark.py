"""PostMark on a file system on a loop device, as the block layer sees it.

Copies of PostMark run side by side on one ext4, each with files of 512 bytes to 200 KB as in the
Buttress paper (section 6.2), in a memory group that is smaller than the files: otherwise all
reads would come from the page cache. What is recorded is everything that reaches the device,
also what kernel threads write, up to the end of a sync.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchwright.features.quiet.host import Host
from benchwright.features.quiet.isolation import hierarchy
from parts import engine
from parts.stand import mounted

COPIES = 4
FILES = 300
"""Of each copy."""
SIZES = (512, 200_000)
MEMORY_BYTES = 32 << 20


def record(device: str, transactions: int, output: Path) -> engine.Document:
    """Run PostMark on a new file system on the device; return the observer's account.

    Raises OSError or CalledProcessError where that may not be done.
    """
    with (
        mounted(device) as folder,
        _memory_group() as group,
        tempfile.TemporaryDirectory(prefix="bw-postmark-") as scratch,
    ):
        configurations = [
            _configuration(Path(scratch), folder, copy, transactions) for copy in range(COPIES)
        ]
        with engine.capturing(device, output) as account:
            running = [_started(one, group) for one in configurations]
            # All are waited for, whatever one of them says.
            statuses = [process.wait() for process in running]
            subprocess.run(["sync", "-f", str(folder)], check=True)
    if any(statuses):
        raise OSError(f"PostMark ended with {statuses}")
    return account


def _configuration(scratch: Path, folder: Path, copy: int, transactions: int) -> Path:
    location = folder / str(copy)
    location.mkdir()
    path = scratch / f"{copy}.conf"
    path.write_text(
        f"set location {location}\nset number {FILES}\n"
        f"set transactions {transactions}\nset size {SIZES[0]} {SIZES[1]}\n"
        f"set read 4096\nset write 4096\nset seed {42 + copy}\nrun\nquit\n"
    )
    return path


def _started(configuration: Path, group: Path | None) -> subprocess.Popen[bytes]:
    words = ["postmark", str(configuration)]
    if group is not None:
        enter = 'echo $$ >"$0" && exec "$@"'
        words = ["sh", "-c", enter, str(group / "cgroup.procs"), *words]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _memory_group() -> Iterator[Path | None]:
    """Yield a group with little memory; None, and a line that says so, where there is none."""
    tree = hierarchy(Host(), "memory")
    if tree is None:
        print("no memory group: PostMark's reads come from the page cache")
        yield None
        return
    group = tree.root / f"bw-postmark-{os.getpid()}"
    group.mkdir()
    try:
        name = "memory.max" if tree.version == 2 else "memory.limit_in_bytes"
        (group / name).write_text(str(MEMORY_BYTES))
        yield group
    finally:
        group.rmdir()
