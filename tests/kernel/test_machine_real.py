"""A capture of the machine that runs the test, held against the system's own tools."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchwright.core.machine import Fact, MachineCapture
from benchwright.machine.capture import capture
from benchwright.machine.capture_hardware import ask_interface

NOBODY = 65534


def out(*words: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip without these programs, and say which."""
    gone = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(gone), reason=f"not installed: {', '.join(gone)}")


@pytest.fixture(scope="module")
def facts() -> dict[str, Fact]:
    """Return the facts of this machine, with the shell as the program."""
    return capture([["sh", "-c", "true"]], patience_s=60.0).named()


def test_the_kernel_and_the_processors(facts: dict[str, Fact]) -> None:
    assert facts["kernel.release"].value == os.uname().release
    assert facts["host.name"].value == os.uname().nodename
    assert facts["cpu.architecture"].value == os.uname().machine
    allowed = facts["self.cpus_allowed"].value
    assert allowed == _status("Cpus_allowed_list")
    assert facts["self.user_id"].value == str(os.geteuid())
    total_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert facts["memory.total_kib"].value == str(total_kib)


def _status(key: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(key))


@needs("lscpu")
def test_the_topology_is_lscpu_s(facts: dict[str, Fact]) -> None:
    if facts["cpu.cores"].value is None:
        pytest.skip(f"no topology: {facts['cpu.cores'].absent}")
    rows = [
        line.split(",")
        for line in out("lscpu", "--parse=CPU,CORE,SOCKET").splitlines()
        if not line.startswith("#")
    ]
    assert facts["cpu.threads"].value == str(len(rows))
    assert facts["cpu.cores"].value == str(len({(r[1], r[2]) for r in rows}))
    assert facts["cpu.packages"].value == str(len({r[2] for r in rows}))


@needs("findmnt")
def test_the_working_directory_s_mount_is_findmnt_s(facts: dict[str, Fact]) -> None:
    told = json.loads(out("findmnt", "--json", "--target", os.getcwd()))
    mount = told["filesystems"][-1]
    assert facts["workdir.mount"].value == mount["target"]
    assert facts["workdir.type"].value == mount["fstype"]
    ours = (facts["workdir.options"].value or "").split(",")
    assert set(ours) == set(mount["options"].split(","))


@needs("lsblk")
def test_the_disks_are_lsblk_s(facts: dict[str, Fact]) -> None:
    columns = "NAME,TYPE,SIZE,ROTA,SCHED"
    told = json.loads(out("lsblk", "--json", "--bytes", "--nodeps", "--output", columns))
    disks = [d for d in told["blockdevices"] if d["type"] == "disk" and d["size"]]
    disks = [d for d in disks if f"block.{d['name']}.size_bytes" in facts]
    if not disks:
        pytest.skip("no disk can be seen here")
    for disk in disks:
        name = f"block.{disk['name']}"
        assert facts[f"{name}.size_bytes"].value == str(disk["size"])
        assert facts[f"{name}.rotational"].value == str(int(disk["rota"]))
        scheduler = facts[f"{name}.scheduler"].value or ""
        if disk["sched"] is None:  # a disk without a queue, such as one in memory
            assert scheduler == ""
        else:
            assert f"[{disk['sched']}]" in scheduler or scheduler == "none"


@needs("dpkg-query")
def test_the_shell_s_package_is_dpkg_s(facts: dict[str, Fact]) -> None:
    package, _, version = (facts["program.sh.package"].value or "").partition(" ")
    assert out("dpkg-query", "-W", "-f", "${Version}", package) == version
    path = str(facts["program.sh.path"].value)
    files = out("dpkg-query", "-L", package).splitlines()
    assert {path, path.removeprefix("/usr")}.intersection(files)
    digest = out("sha256sum", path).split()[0]
    assert facts["program.sh.sha256"].value == digest


def test_the_loopback_interface_tells_its_offloads(facts: dict[str, Fact]) -> None:
    if "net.lo.mtu" not in facts:
        pytest.skip("no loopback interface")
    told = ask_interface("lo").get("offloads", "")
    assert facts["net.lo.offloads"].value == told
    assert "gro " in told
    assert ask_interface("no-such-if0") == {}


def test_every_fact_has_a_source_and_every_absence_a_reason(facts: dict[str, Fact]) -> None:
    assert [f.name for f in facts.values() if not f.source] == []
    wrong = [f.name for f in facts.values() if (f.value is None) != bool(f.absent)]
    assert wrong == []


def as_nobody(work: Callable[[], bytes]) -> bytes:
    """Return what a child process without any right returns."""
    # Imported before rights are lost: nobody may be forbidden to read the library.
    assert ctypes, platform
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(work())
            os._exit(0)
        finally:
            os._exit(1)  # whatever happened: the child must not go on with the tests
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return data


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_captures_with_less_and_says_what(facts: dict[str, Fact]) -> None:
    data = as_nobody(lambda: msgspec.json.encode(capture(patience_s=60.0)))
    told = msgspec.json.decode(data, type=MachineCapture).named()
    assert told["self.user_id"].value == str(NOBODY)
    for name in ("cpu.model", "memory.total_kib", "kernel.release", "workdir.mount"):
        assert told[name].value == facts[name].value
    assert int(told["self.capabilities"].value or "1", 16) == 0
    wrong = [f.name for f in told.values() if (f.value is None) != bool(f.absent)]
    assert wrong == []
