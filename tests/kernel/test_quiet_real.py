"""`bw quiet` on the real kernel: what this machine offers, changed and put back.

The whole machine's tasks are not moved here: isolation has a cpuset of the test's own as its
root. What cannot be tried is skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.features.quiet import isolation
from benchwright.features.quiet.hold import Quieted, QuietRequest
from benchwright.features.quiet.host import Host
from benchwright.features.quiet.swap import devices
from benchwright.features.quiet.types import RequestedSetting

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
HUGE = Path("/sys/kernel/mm/transparent_hugepage")
SYSCTLS = Path("/proc/sys")
NOBODY = 2**22 + 1
"""A process id that is never given out."""
CPUSET = Path("/sys/fs/cgroup/cpuset")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    return place


def quieted(state: Path, *wanted: RequestedSetting, host: Host | None = None) -> Quieted:
    return Quieted(QuietRequest(wanted, host=host or Host(), directory=state))


def needs(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device over 4 MiB."""
    needs("losetup", "mkswap", "swapon")
    image = tmp_path / "swap.img"
    image.write_bytes(bytes(4 << 20))
    image.chmod(0o600)
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run(["swapoff", device], capture_output=True)
    subprocess.run(["losetup", "-d", device], check=True)


def test_swap_goes_off_and_returns_with_its_priority(state: Path, loop: str) -> None:
    subprocess.run(["mkswap", loop], check=True, capture_output=True)
    on = subprocess.run(["swapon", "-p", "7", loop], capture_output=True, text=True)
    if on.returncode != 0:
        pytest.skip(f"no swap: {on.stderr.strip()}")
    with quieted(state, RequestedSetting("swap", (loop,))) as one:
        assert loop not in [device.path for device in devices(Host())]
    assert [d.priority for d in devices(Host()) if d.path == loop] == [7]
    assert one.restored is not None
    assert one.restored.failed == ()


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("aslr", SYSCTLS / "kernel/randomize_va_space", "0"),
        ("swappiness", SYSCTLS / "vm/swappiness", "1"),
        ("nmi-watchdog", SYSCTLS / "kernel/nmi_watchdog", "0"),
        ("thp", HUGE / "enabled", "always madvise [never]"),
        ("thp", HUGE / "defrag", "always defer defer+madvise madvise [never]"),
        ("nologin", Path("/run/nologin"), "A benchmark is running"),
    ],
)
def test_a_knob_is_turned_and_turned_back(state: Path, name: str, path: Path, value: str) -> None:
    before = path.read_text() if path.exists() else None
    with quieted(state, RequestedSetting(name)) as one:
        if one.quiet.lacking:
            pytest.skip(one.quiet.lacking[0].why)
        assert path.read_text().startswith(value)
    assert (path.read_text() if path.exists() else None) == before


def test_interrupts_are_where_they_were(state: Path) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor")
    files = sorted(Path("/proc/irq").glob("*/smp_affinity_list"))
    before = [path.read_text() for path in files]
    with quieted(state, RequestedSetting("irq-affinity")) as one:
        for done in one.quiet.done:
            assert (Path("/") / done.change.item).read_text().strip() == done.value
    assert [path.read_text() for path in files] == before


def started(tmp_path: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a process with a name of its own."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / name
    shutil.copy(sleep, program)
    return subprocess.Popen([str(program), "600"])


def beside(daemon: subprocess.Popen[bytes]) -> Host:
    """Return the machine as a benchmark sees it that did not start the daemon."""
    host = Host()
    host.own_pid = NOBODY
    assert host.process(NOBODY) is None
    assert daemon.pid != NOBODY
    return host


def test_a_process_is_paused_and_goes_on(state: Path, tmp_path: Path) -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("with systemd its units are stopped, not processes")
    with started(tmp_path, "bwtestd") as daemon:
        try:
            wish, host = RequestedSetting("services", ("bwtestd",)), beside(daemon)
            with quieted(state, wish, host=host) as one:
                process = Host().process(daemon.pid)
                assert process is not None
                assert process.state == "T"
            process = Host().process(daemon.pid)
            assert process is not None
            assert process.state in "SR"
            assert [done.note for done in one.quiet.done] == [""]
        finally:
            daemon.kill()


def test_one_that_was_paused_before_stays_so(state: Path, tmp_path: Path) -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("with systemd its units are stopped, not processes")
    with started(tmp_path, "bwtestd2") as daemon:
        try:
            daemon.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, daemon.pid, os.WSTOPPED)
            wish, host = RequestedSetting("services", ("bwtestd2",)), beside(daemon)
            with quieted(state, wish, host=host) as one:
                assert one.quiet.done == ()
            process = Host().process(daemon.pid)
            assert process is not None
            assert process.state == "T"
        finally:
            daemon.kill()


@pytest.fixture
def room() -> Iterator[Path]:
    """A cpuset of version 1 that stands for the whole machine, with a group in it."""
    if not (CPUSET / "cpuset.cpus").exists():
        pytest.skip("no cpuset controller of version 1")
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor")
    made = CPUSET / f"bw-test-{os.getpid()}"
    for group in (made, made / "box"):
        group.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):
            (group / name).write_text((CPUSET / name).read_text())
    yield made
    groups = [made, *(path for path in made.rglob("*") if path.is_dir())]
    for group in reversed(groups):
        for word in (group / "cgroup.procs").read_text().split():
            (CPUSET / "cgroup.procs").write_text(word)
        group.rmdir()


def where(pid: int) -> tuple[str, str]:
    """Return a process's cpuset and the processors that it may use."""
    group = isolation.group_of(Host(), isolation.Hierarchy(CPUSET, CPUSET, 1), pid)
    status = Path(f"/proc/{pid}/status").read_text()
    allowed = next(x for x in status.splitlines() if x.startswith("Cpus_allowed_list"))
    return str(group), allowed.split()[1]


def test_isolated_processes_return_to_their_places(state: Path, room: Path) -> None:
    """The benchmark, another one, one in a group; and a child begun meanwhile."""
    shell = ["sh", "-c", "read x; sleep 600 & wait"]
    everyone = [subprocess.Popen(shell, stdin=subprocess.PIPE) for _ in range(3)]
    own, other, boxed = everyone
    try:
        for one, group in ((own, room), (other, room), (boxed, room / "box")):
            (group / "cgroup.procs").write_text(str(one.pid))
        before = [where(one.pid) for one in everyone]
        host = Host(cpuset=room)
        host.own_pid = own.pid
        with quieted(state, RequestedSetting("isolation", ("1",)), host=host) as held:
            assert held.quiet.lacking == ()
            assert where(own.pid) == (str(room / "bw-bench"), "1")
            assert where(other.pid) == (str(room / "bw-others"), "0")
            assert where(boxed.pid) == (str(room / "box"), "0")
            assert other.stdin is not None
            other.stdin.write(b"go\n")
            other.stdin.flush()
            child = None
            while child is None:
                child = next((p for p in Host().processes() if p.parent == other.pid), None)
            assert where(child.pid) == (str(room / "bw-others"), "0")
        assert [where(one.pid) for one in everyone] == before
        assert where(child.pid)[0] == str(room)
        assert {p.name for p in room.iterdir() if p.is_dir()} == {"box"}
        os.kill(child.pid, signal.SIGKILL)
    finally:
        for one in everyone:
            one.kill()
            one.communicate()
