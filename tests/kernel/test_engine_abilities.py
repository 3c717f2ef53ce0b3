"""The engine where the kernel offers less: no io_uring, no privileges.

io_uring is taken away from one process by a seccomp filter, as containers do it; nothing
of the machine changes. The probe (`bw-engine`'s request of that name) is what other tests
decide by, and is held here against what the engine then does.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchwright.trial.programs import find_engine

NOBODY = 65534
IO_URING_SETUP = 425
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
# struct sock_filter: load the system call's number; if it is io_uring_setup answer EPERM.
FILTER = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (0x20, 0, 0, 0),
        (0x15, 0, 1, IO_URING_SETUP),
        (0x06, 0, 0, 0x00050000 | 1),
        (0x06, 0, 0, 0x7FFF0000),
    )
)

needs_filter = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"),
    reason="the number of io_uring_setup is known for x86-64 and ARM only",
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def without_io_uring() -> None:
    """Take io_uring from the calling process; for a child before it becomes a program."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(4, FILTER)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def ask(
    request: dict[str, Any], engine: str, before: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Return the engine's last line."""
    done = subprocess.run(
        [engine],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=before,
    )
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def load(path: Path, engine: str = "auto") -> dict[str, Any]:
    """Return a request for 100 random reads and writes of a file."""
    access = {
        "kinds": [["read", 1], ["write", 1]],
        "size": {"type": "constant", "value": 4096},
        "location": {"type": "uniform"},
        "region": {"offset_bytes": 0, "length_bytes": None},
        "align_bytes": 4096,
    }
    arrivals = {"type": "open", "arrival": {"type": "constant"}, "count": 100}
    rate = {"rate": {"micro_per_s": 10**9}, "access": access}
    target = {"kind": "file", "path": str(path), "size_bytes": 1 << 20}
    return {
        "type": "load",
        "target": {**target, "engine": engine},
        "workload": {"seed": 1, "filaments": [{**arrivals, **rate}]},
        "duration_ns": None,
    }


@needs_filter
def test_without_io_uring_threads_do_it_and_that_is_told(tmp_path: Path) -> None:
    engine = str(find_engine())
    probed = ask({"type": "probe"}, engine, without_io_uring)["io_uring"]
    assert not probed["available"]
    assert "io_uring_disabled or seccomp" in " ".join(probed["absent"])
    result = ask(load(tmp_path / "file"), engine, without_io_uring)
    assert result["type"] == "result", result
    assert result["target"]["engine"] == "threads"
    assert "io_uring" in " ".join(result["target"]["absent"])
    assert result["counts"]["completed"] == 100
    assert result["counts"]["errors"] == 0


@needs_filter
def test_io_uring_asked_for_by_name_is_refused_where_it_is_not(tmp_path: Path) -> None:
    request = load(tmp_path / "file", "io_uring")
    answer = ask(request, str(find_engine()), without_io_uring)
    assert answer["type"] == "error"
    assert answer["remedy"]


@needs_root
def test_nobody_can_load_a_file(tmp_path: Path) -> None:
    """Without privileges: pages are locked as far as the limit goes, and no more is told."""
    place = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        engine = shutil.copy(find_engine(), place / "bw-engine")
        place.chmod(0o777)

        def become_nobody() -> None:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        result = ask(load(place / "file"), str(engine), become_nobody)
        assert result["type"] == "result", result
        assert result["counts"]["completed"] == 100
        environment = result["environment"]
        assert environment["memory_locked"] or environment["absent"]
        probed = ask({"type": "probe"}, str(engine), become_nobody)
        assert not probed["tracefs"]["available"]
        assert probed["tracefs"]["absent"]
    finally:
        shutil.rmtree(place)
