"""The sources of facts: files, and programs started early.

Each source returns a text, or the reason why there is none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple, Protocol

from benchwright.core.machine import Fact, FactWeight

# --------------------------------------------------------------------------------------
# The files of a machine.
#
# Purpose: the one seam between a capture and the kernel; a test passes a simulated tree of
# `/proc` and `/sys` as root. Decision: `os.open` and `os.read`, which are faster than
# `Path.read_text`: a capture reads hundreds of files at the start of every session. An absent
# value is not zero: it is a fact with its reason.

NOT_IN_FILE = "not in its file"
"""The reason for an absent fact whose source was read but does not contain it."""

_MOST_BYTES = 1 << 20
_REASONS = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file",
    errno.ENODEV: "no such device",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EINVAL: "not reported by the kernel",
    errno.EOPNOTSUPP: "not reported by the kernel",
}


class FileText(NamedTuple):
    """The trimmed text of a source, or the reason why there is none."""

    text: str | None
    absent: str = ""


class MachineFiles:
    """The file system below a root; paths are given as on the real machine."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def read(self, path: str, most: int = _MOST_BYTES) -> FileText:
        """Return a file's text, at most that many bytes of it, or why it is absent."""
        try:
            return FileText(_read_limited(self.root + path, most).decode(errors="replace").strip())
        except OSError as error:
            return FileText(None, reason_of(error))

    def text(self, path: str) -> str:
        """Return a file's text; empty if it cannot be read."""
        return self.read(path).text or ""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory in natural order; empty if it does not exist."""
        try:
            return sorted(os.listdir(self.root + path), key=_numeric_order)
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return os.path.lexists(self.root + path)

    def target(self, path: str) -> str | None:
        """Return the last component of a symbolic link's target, or None."""
        try:
            return os.path.basename(os.readlink(self.root + path))
        except OSError:
            return None

    def fact(
        self,
        name: str,
        path: str,
        weight: FactWeight = FactWeight.SUSPICIOUS,
        change: Callable[[str], str] | None = None,
    ) -> Fact:
        """Return a file's text as a fact; `change` converts the text."""
        text, absent = self.read(path)
        if text is not None and change is not None:
            text = change(text)
        return Fact(name, text, path, absent, weight)

    def facts(self, rows: tuple[tuple[str, str, FactWeight], ...]) -> Iterator[Fact]:
        """Yield a fact for each (name, path, weight)."""
        for name, path, weight in rows:
            yield self.fact(name, path, weight)


def reason_of(error: OSError) -> str:
    """Return why something could not be read, in a wording common to all captures."""
    known = _REASONS.get(error.errno or 0)
    return known or (error.strerror or str(error)).lower()


def present_fact(name: str, value: str, source: str, weight: FactWeight) -> Fact:
    """Return a fact with a value."""
    return Fact(name, value, source, "", weight)


def absent_fact(name: str, source: str, reason: str, weight: FactWeight) -> Fact:
    """Return an absent fact with the reason."""
    return Fact(name, None, source, reason, weight)


def _read_limited(path: str, most: int) -> bytes:
    # O_NONBLOCK: opening a FIFO must not block the session.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = []
        while most > 0 and (part := os.read(descriptor, most)):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _numeric_order(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or -1), name


# --------------------------------------------------------------------------------------
# Programs that run while files are read.
#
# Purpose: the few facts that no file reports (`git status`, `systemctl list-units`). Decision:
# programs are started first and collected last, so that they delay a capture little. A program
# that is not ready in time is killed, and its fact is absent. Each gets only PATH and the C
# locale as environment, no input and no terminal.

_MOST_OUTPUT_BYTES = 1 << 20


class ProgramAnswer(NamedTuple):
    """A program's output, or the reason why there is none."""

    text: str | None
    absent: str = ""
    source: str = ""


class RunningProgram(Protocol):
    """A program that was started."""

    def answer(self, deadline_ns: int) -> ProgramAnswer:
        """Return its answer if it ends by then (CLOCK_MONOTONIC); otherwise kill it."""


StartProgram = Callable[[Sequence[str], str], RunningProgram]
"""(words, directory) -> the started program. Never raises for a missing program."""


def start_program(words: Sequence[str], directory: str) -> RunningProgram:
    """Start a program in a directory."""
    # A file, not a pipe: it is read only at the end, and a full pipe would block the program.
    output = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            list(words),
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        output.close()
        return _NotStarted(words[0], error)
    return _Started(words[0], process, output)


class _NotStarted:
    """A program that could not be started."""

    def __init__(self, name: str, error: OSError) -> None:
        missing = isinstance(error, FileNotFoundError)
        reason = "is not installed" if missing else f"cannot be run: {error.strerror}"
        self._asked = ProgramAnswer(None, f"{name} {reason}", name)

    def answer(self, deadline_ns: int) -> ProgramAnswer:  # noqa: ARG002
        """Return why there is no answer."""
        return self._asked


class _Started:
    """A running program."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._name = name
        self._process = process
        self._output = output

    def answer(self, deadline_ns: int) -> ProgramAnswer:
        """Return its output; kill it if it is late."""
        left_s = max(0.0, (deadline_ns - time.monotonic_ns()) / 1e9)
        with self._output:
            try:
                status = self._process.wait(left_s)
            except subprocess.TimeoutExpired:
                self._end()
                return ProgramAnswer(None, f"{self._name} took too long", self._name)
            if status:
                reason = f"{self._name} ended with status {status}"
                return ProgramAnswer(None, reason, self._name)
            self._output.seek(0)
            text = self._output.read(_MOST_OUTPUT_BYTES).decode(errors="replace")
            return ProgramAnswer(text, "", self._name)

    def _end(self) -> None:
        # It has its own session, so its children are killed with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


# --------------------------------------------------------------------------------------
# The facts that are one file each: name, path, and the weight of a difference.
#
# Purpose: a table, so that a new fact is one more line. Facts that need code are in the
# capture_*.py files beside it. Sources: the kernel's admin-guide (sysctl/*, cputopology,
# hw-vuln, pm/cpufreq), proc(5), sysfs ABI documents.

FactFile = tuple[str, str, FactWeight]
FATAL, SUSPICIOUS, EXPECTED = (FactWeight.FATAL, FactWeight.SUSPICIOUS, FactWeight.EXPECTED)
_CPU = "/sys/devices/system/cpu"
_MM = "/sys/kernel/mm"
_CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"


def _sysctls(names: str) -> tuple[FactFile, ...]:
    """Return rows for sysctls by their dotted names."""
    return tuple(
        (f"sysctl.{name}", "/proc/sys/" + name.replace(".", "/"), SUSPICIOUS)
        for name in names.split()
    )


HOST: tuple[FactFile, ...] = (
    ("host.name", "/proc/sys/kernel/hostname", EXPECTED),
    ("host.boot_id", "/proc/sys/kernel/random/boot_id", EXPECTED),
    ("kernel.release", "/proc/sys/kernel/osrelease", SUSPICIOUS),
    ("kernel.version", "/proc/sys/kernel/version", SUSPICIOUS),
    ("kernel.tainted", "/proc/sys/kernel/tainted", SUSPICIOUS),
    ("kernel.lsm", "/sys/kernel/security/lsm", SUSPICIOUS),
    ("clock.source", f"{_CLOCKSOURCE}/current_clocksource", SUSPICIOUS),
    ("clock.sources", f"{_CLOCKSOURCE}/available_clocksource", SUSPICIOUS),
)
FIRMWARE: tuple[FactFile, ...] = tuple(
    (f"firmware.{name}", f"/sys/class/dmi/id/{name}", weight)
    for name, weight in (
        ("sys_vendor", FATAL),
        ("product_name", FATAL),
        ("board_name", SUSPICIOUS),
        ("bios_vendor", SUSPICIOUS),
        ("bios_version", SUSPICIOUS),
        ("bios_date", SUSPICIOUS),
    )
)
PROCESSOR: tuple[FactFile, ...] = (
    ("cpu.online", f"{_CPU}/online", FATAL),
    ("cpu.offline", f"{_CPU}/offline", FATAL),
    ("cpu.smt", f"{_CPU}/smt/control", FATAL),
    ("cpu.smt_active", f"{_CPU}/smt/active", FATAL),
    ("cpu.isolated", f"{_CPU}/isolated", SUSPICIOUS),
    ("cpu.nohz_full", f"{_CPU}/nohz_full", SUSPICIOUS),
    ("cpu.idle_driver", f"{_CPU}/cpuidle/current_driver", SUSPICIOUS),
    ("cpu.idle_governor", f"{_CPU}/cpuidle/current_governor", SUSPICIOUS),
    ("cpu.no_turbo", f"{_CPU}/intel_pstate/no_turbo", FATAL),
    ("cpu.pstate_status", f"{_CPU}/intel_pstate/status", SUSPICIOUS),
    ("cpu.amd_pstate_status", f"{_CPU}/amd_pstate/status", SUSPICIOUS),
    ("cpu.boost", f"{_CPU}/cpufreq/boost", FATAL),
    ("cpu.interrupts_on", "/proc/irq/default_smp_affinity", SUSPICIOUS),
)
MEMORY: tuple[FactFile, ...] = (
    *(
        (f"memory.thp_{name}", f"{_MM}/transparent_hugepage/{name}", SUSPICIOUS)
        for name in ("enabled", "defrag", "shmem_enabled")
    ),
    ("memory.ksm_run", f"{_MM}/ksm/run", SUSPICIOUS),
    ("memory.ksm_pages_sharing", f"{_MM}/ksm/pages_sharing", EXPECTED),
    ("memory.lru_gen", f"{_MM}/lru_gen/enabled", SUSPICIOUS),
    ("memory.zswap", "/sys/module/zswap/parameters/enabled", SUSPICIOUS),
)
SYSCTLS: tuple[FactFile, ...] = (
    *_sysctls(
        "kernel.randomize_va_space kernel.numa_balancing kernel.timer_migration "
        "kernel.sched_autogroup_enabled kernel.sched_cfs_bandwidth_slice_us "
        "kernel.sched_rt_period_us kernel.sched_rt_runtime_us kernel.sched_schedstats "
        "kernel.sched_rr_timeslice_ms kernel.sched_energy_aware "
        "kernel.sched_util_clamp_min kernel.sched_util_clamp_max "
        "kernel.nmi_watchdog kernel.watchdog kernel.task_delayacct "
        "kernel.perf_event_paranoid kernel.perf_cpu_time_max_percent "
        "kernel.kptr_restrict kernel.unprivileged_bpf_disabled kernel.io_uring_disabled "
        "kernel.pid_max kernel.threads-max net.core.bpf_jit_enable"
    ),
    *_sysctls(
        "vm.swappiness vm.dirty_ratio vm.dirty_bytes vm.dirty_background_ratio "
        "vm.dirty_background_bytes vm.dirty_expire_centisecs "
        "vm.dirty_writeback_centisecs vm.overcommit_memory vm.overcommit_ratio "
        "vm.nr_hugepages vm.nr_overcommit_hugepages vm.zone_reclaim_mode "
        "vm.vfs_cache_pressure vm.min_free_kbytes vm.watermark_scale_factor "
        "vm.page-cluster vm.max_map_count vm.compaction_proactiveness vm.stat_interval"
    ),
    *_sysctls("fs.file-max fs.nr_open fs.aio-max-nr fs.pipe-max-size"),
    *_sysctls(
        "net.core.rmem_max net.core.wmem_max net.core.rmem_default "
        "net.core.wmem_default net.core.somaxconn net.core.netdev_max_backlog "
        "net.core.default_qdisc net.core.busy_poll net.core.busy_read "
        "net.ipv4.tcp_congestion_control net.ipv4.tcp_rmem net.ipv4.tcp_wmem "
        "net.ipv4.tcp_mem net.ipv4.ip_local_port_range net.ipv4.tcp_tw_reuse "
        "net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_slow_start_after_idle "
        "net.ipv4.tcp_syncookies"
    ),
)
BLOCK_QUEUE = (
    *("scheduler", "nr_requests", "rotational", "write_cache", "read_ahead_kb"),
    *("logical_block_size", "physical_block_size", "max_sectors_kb", "nomerges"),
    *("rq_affinity", "wbt_lat_usec", "io_poll", "fua", "zoned", "discard_max_bytes"),
)
"""Files in `/sys/block/X/queue`."""
