"""fio's side of a pair: random 4 KiB reads by io_uring, told what it is best at.

Registered files and buffers, one thread, no submission thread (`sqthread_poll` is off
unless asked for), no map of blocks already read; the same processor as ours.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

Document = dict[str, Any]


def fio(path: str, cpu: int, seconds: float, *words: str) -> Document:
    """Run fio on a path and return its account of the reads."""
    command = [
        *("fio", "--name=read", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1", "--thread"),
        *("--time_based", "--norandommap", "--randrepeat=1", "--output-format=json"),
        *(f"--filename={path}", f"--cpus_allowed={cpu}", f"--runtime={round(seconds * 1e3)}ms"),
        *words,
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    # fio may print notes before the document.
    told = json.loads(done.stdout[done.stdout.index("{") :])
    reads: Document = told["jobs"][0]["read"]
    return reads


def version() -> str:
    """Return fio's own word for its version."""
    done = subprocess.run(["fio", "--version"], capture_output=True, text=True)
    return done.stdout.strip()
