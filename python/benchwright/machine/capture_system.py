"""The operating system and what runs on it: kernel, firmware, virtualisation, clock, load,
processes, services, timers; and what this process may use of it, which the benchmarked programs
inherit: affinity, limits, rights, cgroups, environment variables.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from benchwright.core.machine import Fact, FactWeight
from benchwright.core.processes import Process, parse_stat
from benchwright.machine.redact import SET, recorded_settings, redacted_variable
from benchwright.machine.sources import (
    EXPECTED,
    FATAL,
    FIRMWARE,
    HOST,
    NOT_IN_FILE,
    SUSPICIOUS,
    MachineFiles,
    ProgramAnswer,
    absent_fact,
    present_fact,
)

# --------------------------------------------------------------------------------------
# Affinity, limits and rights of this process. Sources: proc(5), getrlimit(2).

_STATUS = "/proc/self/status"
_RESOURCE_LIMITS = "/proc/self/limits"
_STATUS_ROWS = (
    ("self.cpus_allowed", "Cpus_allowed_list", FATAL),
    ("self.memory_nodes_allowed", "Mems_allowed_list", FATAL),
    ("self.seccomp", "Seccomp", SUSPICIOUS),
    ("self.capabilities", "CapEff", SUSPICIOUS),
    ("self.transparent_hugepages", "THP_enabled", SUSPICIOUS),
)


def self_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield what this process and its children may use."""
    text, absent = tree.read(_STATUS)
    pairs = dict(line.split(":", 1) for line in (text or "").splitlines() if ":" in line)
    for name, key, weight in _STATUS_ROWS:
        value = pairs.get(key)
        if value is None:
            yield absent_fact(name, _STATUS, absent or NOT_IN_FILE, weight)
        else:
            yield present_fact(name, value.strip(), _STATUS, weight)
    yield _user(pairs, absent)
    yield tree.fact("self.oom_score_adj", "/proc/self/oom_score_adj")
    yield tree.fact("self.autogroup", "/proc/self/autogroup", EXPECTED)
    yield from _resource_limits(tree)


def _user(pairs: dict[str, str], absent: str) -> Fact:
    """Return the effective user id, which determines which facts are readable."""
    words = pairs.get("Uid", "").split()
    if len(words) < 2:
        return absent_fact("self.user_id", _STATUS, absent or NOT_IN_FILE, SUSPICIOUS)
    return present_fact("self.user_id", words[1], _STATUS, SUSPICIOUS)


def _resource_limits(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the soft and hard resource limits."""
    text, absent = tree.read(_RESOURCE_LIMITS)
    if text is None:
        yield absent_fact("limit", _RESOURCE_LIMITS, absent, SUSPICIOUS)
        return
    for line in text.splitlines()[1:]:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) >= 3:
            name = cells[0].removeprefix("Max ").replace(" ", "_")
            value = f"{cells[1]}, hard {cells[2]}"
            yield present_fact(f"limit.{name}", value, _RESOURCE_LIMITS, SUSPICIOUS)


# -- The cgroups of this process, and their limits -------------------------------------
#
# Decision: the tightest limit of a cgroup and its ancestors is reported, with the file that
# sets it. If both versions are mounted, each controller is read in the version that has it.
# Sources: cgroups(7), admin-guide/cgroup-v2 and cgroup-v1.

_CGROUP = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"
_UNLIMITED = 1 << 62
"""From this value on a limit means none: cgroup v1 reports a number near 2^63."""


class CgroupPath(NamedTuple):
    """The directories of a controller, from our cgroup up to the mount's root."""

    version: int
    directories: tuple[str, ...]


class CgroupLimit(NamedTuple):
    """A numeric limit; the lowest of our cgroup and its ancestors applies."""

    name: str
    controller: str
    files: tuple[str, str]
    """File names in version 1 and version 2; empty: this version has no such file."""
    read: Callable[[MachineFiles, str], float | None]
    weight: FactWeight = FATAL


class CgroupSetting(NamedTuple):
    """A setting of our own cgroup, as text."""

    name: str
    controller: str
    files: tuple[str, str]
    weight: FactWeight = FATAL


def cgroup_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield our cgroups and their limits."""
    text, absent = tree.read(_CGROUP)
    if text is None:
        yield absent_fact("cgroup", _CGROUP, absent, SUSPICIOUS)
        return
    yield present_fact("cgroup.path", "; ".join(text.splitlines()), _CGROUP, EXPECTED)
    places = _cgroup_paths(tree, text)
    for limit in _CGROUP_LIMITS:
        yield _limit(tree, limit, places.get(limit.controller))
    for setting in _SETTINGS:
        fact = _setting(tree, setting, places.get(setting.controller))
        if fact is not None:
            yield fact


def _cgroup_paths(tree: MachineFiles, membership: str) -> dict[str, CgroupPath]:
    """Return the directories of each controller."""
    mounts = tree.text(_MOUNTS)
    places: dict[str, CgroupPath] = {}
    unified = ""
    for line in membership.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            unified = path
            continue
        for name in controllers.split(","):
            mounted = _mount(mounts, "cgroup", name)
            if mounted is not None:
                places[name] = CgroupPath(1, tuple(_upward(path, mounted)))
    mounted = _mount(mounts, "cgroup2", "")
    if mounted is not None and unified:
        for name in tree.text(f"{mounted[0]}/cgroup.controllers").split():
            v1_name = {"io": "blkio"}.get(name, name)
            places.setdefault(v1_name, CgroupPath(2, tuple(_upward(unified, mounted))))
    return places


def _mount(mounts: str, kind: str, controller: str) -> tuple[str, str] | None:
    """Return the mount point and the mounted root of a hierarchy: (mount point, root)."""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        head, tail = left.split(" "), right.split(" ")
        if tail[0] != kind or len(tail) < 3 or len(head) < 5:
            continue
        if not controller or controller in tail[2].split(","):
            return head[4], head[3]
    return None


def _upward(path: str, mounted: tuple[str, str]) -> Iterator[str]:
    """Yield the directories of a cgroup and its ancestors, the innermost first.

    In a container only part of the hierarchy may be mounted; its root is a prefix of `path`.
    """
    point, root = mounted
    inner = path.removeprefix(root) if root != "/" else path
    parts = [part for part in inner.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield "/".join([point.rstrip("/"), *parts[:count]])


def _limit(tree: MachineFiles, limit: CgroupLimit, place: CgroupPath | None) -> Fact:
    if place is None:
        reason = "no cgroup hierarchy has its controller"
        return absent_fact(limit.name, _CGROUP, reason, limit.weight)
    file = limit.files[place.version - 1]
    if not file:
        reason = f"cgroup version {place.version} has none"
        return absent_fact(limit.name, place.directories[0], reason, limit.weight)
    found = [
        (value, f"{directory}/{file}")
        for directory in place.directories
        if (value := limit.read(tree, f"{directory}/{file}")) is not None
    ]
    if not found:
        source = f"{place.directories[0]}/{file}"
        return present_fact(limit.name, "no limit", source, limit.weight)
    least, source = min(found)
    return present_fact(limit.name, f"{least:.12g}", source, limit.weight)


def _setting(tree: MachineFiles, setting: CgroupSetting, place: CgroupPath | None) -> Fact | None:
    """Return a setting's text; None if our cgroup has no such file (a root has few)."""
    if place is None or not setting.files[place.version - 1]:
        return None
    path = f"{place.directories[0]}/{setting.files[place.version - 1]}"
    text = tree.read(path).text
    if text is None:
        return None
    return present_fact(setting.name, "; ".join(text.splitlines()), path, setting.weight)


def _cores(tree: MachineFiles, path: str) -> float | None:
    """Return a CPU quota in cores, or None for no limit."""
    if path.endswith("cpu.max"):
        quota, period = [*tree.text(path).split(), "", ""][:2]
    else:
        quota = tree.text(path)
        period = tree.text(path.replace("quota", "period"))
    if not quota.isdecimal() or not period.isdecimal() or period == "0":
        return None
    return int(quota) / int(period)


def _number(tree: MachineFiles, path: str) -> float | None:
    text = tree.text(path)
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


_CGROUP_LIMITS = (
    CgroupLimit("cgroup.cpu_limit_cores", "cpu", ("cpu.cfs_quota_us", "cpu.max"), _cores),
    CgroupLimit(
        *("cgroup.memory_max_bytes", "memory"), *(("memory.limit_in_bytes", "memory.max"), _number)
    ),
    CgroupLimit("cgroup.memory_high_bytes", "memory", ("", "memory.high"), _number),
    CgroupLimit("cgroup.swap_max_bytes", "memory", ("", "memory.swap.max"), _number),
    CgroupLimit("cgroup.pids_max", "pids", ("pids.max", "pids.max"), _number, SUSPICIOUS),
)
_SETTINGS = (
    CgroupSetting("cgroup.cpus", "cpuset", ("cpuset.cpus", "cpuset.cpus.effective")),
    CgroupSetting("cgroup.nodes", "cpuset", ("cpuset.mems", "cpuset.mems.effective")),
    CgroupSetting("cgroup.cpu_weight", "cpu", ("cpu.shares", "cpu.weight"), SUSPICIOUS),
    CgroupSetting("cgroup.io_max", "blkio", ("", "io.max")),
    *(
        CgroupSetting(f"cgroup.{way}_{unit}", "blkio", (f"blkio.throttle.{way}_{unit}_device", ""))
        for way in ("read", "write")
        for unit in ("bps", "iops")
    ),
)


# -- Environment variables, each with the weight of a difference -----------------------
#
# Decision: record values only of variables that are known to change how programs run; of all
# others only the name. A list of names of secrets is never complete (SSHPASS, LDAP_BINDPW).

_MOST_CHARACTERS = 2000
_MATTERS = re.compile(
    r"(PATH|LANG|TZ|TMPDIR)\Z|LC_|LD_|MALLOC_|GLIBC_|OMP_|GOMP_|KMP_|MKL_"
    r"|OPENBLAS_|NUMEXPR_|BLIS_|CUDA_|NVIDIA_|ROCR_|HIP_|JAVA_|JDK_|_JAVA|JVM_|GO(GC|MAXPROCS"
    r"|DEBUG|MEMLIMIT|FLAGS)|PYTHON|RUST|NODE_OPTIONS|UV_THREADPOOL|RUBY|PERL|MIMALLOC_"
    r"|JEMALLOC|_RJEM|TCMALLOC|CC\Z|CXX\Z|CFLAGS|CXXFLAGS|LDFLAGS|MAKEFLAGS|NPROC"
    r"|ASAN_|UBSAN_|TSAN_|DEBUGINFOD|(http|https|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables that change how programs run; others show who started them, and where."""


def variable_facts(environment: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the environment variables, `env.NAME`: the value, or that it is set."""
    for name in sorted(environment):
        matters = _MATTERS.match(name) is not None
        value = redacted_variable(name, environment[name]) if matters else SET
        if len(value) > _MOST_CHARACTERS:
            value = f"{value[:_MOST_CHARACTERS]}... ({len(value)} characters)"
        weight = SUSPICIOUS if matters else EXPECTED
        yield present_fact(f"env.{name}", _printable(value), "environment", weight)


def _printable(text: str) -> str:
    """Return the text with invalid UTF-8 escaped: an environment may contain any bytes."""
    return text.encode(errors="backslashreplace").decode()


# -- The host: operating system, kernel, firmware, virtualisation, clock ---------------
#
# Decision: virtualisation is detected from the files that systemd-detect-virt reads. CPUID
# would need machine code, so a hypervisor without DMI has no name here. The machine's id is
# stored as an application-specific hash, as machine-id(5) requires.

_VENDORS = (
    *(("KVM", "kvm"), ("QEMU", "qemu"), ("Amazon EC2", "amazon"), ("Google", "google")),
    *(("VMware", "vmware"), ("VMW", "vmware"), ("innotek GmbH", "oracle")),
    *(("VirtualBox", "oracle"), ("Xen", "xen"), ("Bochs", "bochs")),
    *(("Parallels", "parallels"), ("BHYVE", "bhyve"), ("Hyper-V", "microsoft")),
    *(("Microsoft Corporation", "microsoft"), ("Apple Virtualization", "apple")),
    *(("OpenStack", "kvm"), ("KubeVirt", "kvm"), ("DigitalOcean", "kvm")),
)
_DMI = ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
_CONTAINER_MARKS = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"))
_IN_CGROUP = re.compile(r"docker|kubepods|lxc|containerd|libpod|garden")


_KERNEL_PARAMETERS = frozenset(
    re.findall(
        r"\S+",
        """
    BOOT_IMAGE acpi amd_iommu amd_pstate apparmor audit cgroup.memory cgroup_disable
    cgroup_enable cgroup_no_v1 clocksource console cpufreq.default_governor
    cpuidle.governor cpuidle.off crashkernel default_hugepagesz elevator hugepages
    hugepagesz hugetlb_cma hugetlb_free_vmemmap hypervisor_launchtype idle init
    init_on_alloc init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu
    iommu.passthrough iommu.strict irqaffinity isolcpus kpti kvm-intel.ept l1tf loglevel
    maxcpus mce mds mem memmap mitigations mmio_stale_data movablecore net.ifnames
    nmi_watchdog nohz nohz_full noxsave nr_cpus numa numa_balancing nvme.poll_queues
    nvme_core.multipath page_alloc.shuffle pci pcie_aspm possible_cpus preempt
    processor.max_cstate psi pti rcu_nocb_poll rcu_nocbs rcupdate.rcu_expedited reboot
    retbleed ro root rootflags rootfstype scsi_mod.use_blk_mq security selinux skew_tick
    slab_nomerge smt spec_rstack_overflow spec_store_bypass_disable spectre_v2
    spectre_v2_user srbds swapaccount sysctl.kernel.randomize_va_space
    systemd.unified_cgroup_hierarchy systemd.unit transparent_hugepage tsc tsx
    tsx_async_abort usbcore.autosuspend workqueue.power_efficient
    """,
    )
)
"""Kernel parameters whose values are recorded."""


def host_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the facts about operating system, kernel, firmware and clock."""
    yield from _system(tree)
    yield from tree.facts(HOST)
    yield tree.fact(
        "kernel.command_line",
        "/proc/cmdline",
        change=lambda text: recorded_settings(text, _KERNEL_PARAMETERS),
    )
    yield _modules(tree)
    yield from tree.facts(FIRMWARE)
    yield _machine_id(tree)


def virtualisation_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the kind of virtual machine and of container, or `none`."""
    kind, source = _hypervisor(tree)
    if kind:
        yield present_fact("virtual.machine", kind, source, FATAL)
    else:
        reason = "not reported by /proc/cpuinfo of this architecture"
        yield absent_fact("virtual.machine", source, reason, FATAL)
    kind, source = _container(tree)
    if kind:
        yield present_fact("virtual.container", kind, source, SUSPICIOUS)
    else:
        yield absent_fact("virtual.container", source, "no such file", SUSPICIOUS)


def _system(tree: MachineFiles) -> Iterator[Fact]:
    path = "/etc/os-release"
    text, absent = tree.read(path)
    if text is None:
        path = "/usr/lib/os-release"
        text, absent = tree.read(path)
    pairs = dict(line.split("=", 1) for line in (text or "").splitlines() if "=" in line)
    for name, key in (("os.name", "PRETTY_NAME"), ("os.version", "VERSION_ID")):
        if key in pairs:
            yield present_fact(name, pairs[key].strip("\"'"), path, SUSPICIOUS)
        else:
            yield absent_fact(name, path, absent or NOT_IN_FILE, SUSPICIOUS)
    yield tree.fact("os.debian_version", "/etc/debian_version")


def _modules(tree: MachineFiles) -> Fact:
    """Return the loaded modules' names, which change as file systems are mounted."""
    text, absent = tree.read("/proc/modules")
    if text is None:
        return absent_fact("kernel.modules", "/proc/modules", absent, EXPECTED)
    names = sorted(line.split(" ", 1)[0] for line in text.splitlines())
    return present_fact("kernel.modules", ", ".join(names), "/proc/modules", EXPECTED)


def _machine_id(tree: MachineFiles) -> Fact:
    path = "/etc/machine-id"
    text, absent = tree.read(path)
    if not text:
        return absent_fact("host.id_hash", path, absent or "empty", SUSPICIOUS)
    hashed = hashlib.sha256(f"benchwright machine {text}".encode()).hexdigest()
    return present_fact("host.id_hash", hashed[:16], path, SUSPICIOUS)


def _hypervisor(tree: MachineFiles) -> tuple[str, str]:
    """Return the kind of virtual machine, or `none`, and the source; the kind is empty if
    nothing is reported."""
    path = "/sys/hypervisor/type"
    kind = tree.read(path).text
    if kind or tree.exists("/proc/xen"):
        path = path if kind else "/proc/xen"
        if "control_d" in tree.text("/proc/xen/capabilities"):
            return "none (xen's own host)", "/proc/xen/capabilities"
        return kind or "xen", path
    for file in _DMI:
        path = f"/sys/class/dmi/id/{file}"
        text = tree.text(path)
        for vendor, name in _VENDORS:
            if text.startswith(vendor) and _is_guest(tree, name):
                return name, path
    if "qemu" in tree.text("/proc/device-tree/hypervisor/compatible"):
        return "qemu", "/proc/device-tree/hypervisor/compatible"
    if "User Mode Linux" in _cpuinfo(tree):
        return "uml", "/proc/cpuinfo"
    if _has_hypervisor_flag(tree):
        return "a virtual machine of unknown kind", "/proc/cpuinfo"
    # Only x86 has a flag for hypervisors: without flags nothing is known.
    has_flags = re.search(r"^flags\s*:", _cpuinfo(tree), re.MULTILINE)
    return "none" if has_flags else "", "/proc/cpuinfo"


def _is_guest(tree: MachineFiles, name: str) -> bool:
    """Return whether a vendor's name means a guest: some vendors also build real machines."""
    return name not in ("amazon", "google", "microsoft") or _has_hypervisor_flag(tree)


def _has_hypervisor_flag(tree: MachineFiles) -> bool:
    matched = re.search(r"^flags\s*:.*\bhypervisor\b", _cpuinfo(tree), re.MULTILINE)
    return matched is not None


def _cpuinfo(tree: MachineFiles) -> str:
    return tree.read("/proc/cpuinfo", 1 << 14).text or ""


def _container(tree: MachineFiles) -> tuple[str, str]:
    """Return the kind of container, or `none`, and the source."""
    path = "/run/systemd/container"
    if kind := tree.text(path):
        return kind, path
    path = "/proc/1/environ"
    matched = re.search(r"(?:^|\0)container=([\w.-]+)", tree.text(path))
    if matched:
        return matched[1], path
    for path, kind in _CONTAINER_MARKS:
        if tree.exists(path):
            return kind, path
    if tree.exists("/proc/vz") and not tree.exists("/proc/bc"):
        return "openvz", "/proc/vz"
    if "microsoft" in tree.text("/proc/sys/kernel/osrelease").lower():
        return "wsl", "/proc/sys/kernel/osrelease"
    path = "/proc/self/cgroup"
    text = tree.read(path).text
    if text is None:
        return "", path
    matched = _IN_CGROUP.search(text)
    return (matched[0] if matched else "none"), path


# -- Whether the clock is synchronised, from the kernel. Source: adjtimex(2) -----------

_STA_UNSYNC = 0x0040
_STATUS_WORD = 10
"""Index of `status` in a 64-bit `struct timex`, in 32-bit words: after modes, padding, offset,
freq, maxerror and esterror."""


def synchronised() -> str:
    """Return `yes` or `no`. Raises OSError if the kernel cannot report it."""
    import ctypes
    import struct

    if struct.calcsize("l") != 8:
        raise OSError(None, "not read on 32 bits")
    library = ctypes.CDLL(None, use_errno=True)
    # No mode is set: this only reads. The structure has 208 bytes; the buffer is larger.
    timex = (ctypes.c_int32 * 128)()
    if library.adjtimex(timex) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return "no" if timex[_STATUS_WORD] & _STA_UNSYNC else "yes"


# --------------------------------------------------------------------------------------
# Other activity on the machine: load, running processes, services, timers.
#
# Decision: services are listed by `systemctl` if systemd runs, within the capture's time
# limit, else by names of processes. Command lines are not read: they may hold secrets. Sources:
# proc(5) stat, sd_booted(3), systemctl(1), adjtimex(2).

SYSTEMD = "/run/systemd/system"
LIST_UNITS = (
    *("systemctl", "list-units", "--type=service,timer"),
    *("--state=running,waiting"),
    *("--no-legend", "--plain", "--no-pager", "--full"),
)
_CRON = ("/etc/cron.d", "/var/spool/cron/crontabs", "/var/spool/cron")
_TIME_DAEMONS = ("chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l")
_MOST_PROCESSES = 2048
_MOST_NAMES = 200


def load_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield uptime and load averages, of 1, 5 and 15 minutes."""
    yield tree.fact("load.uptime_s", "/proc/uptime", EXPECTED, _first)
    text, absent = tree.read("/proc/loadavg")
    words = (text or "").split()
    for at, name in enumerate(("1min", "5min", "15min", "running")):
        value = words[at] if at < len(words) else None
        reason = "" if value is not None else absent or "too short"
        yield Fact(f"load.{name}", value, "/proc/loadavg", reason, EXPECTED)


def process_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the running processes, without kernel threads, ourselves and our ancestors."""
    numbers = _user_processes(tree)
    texts = (tree.text(f"/proc/{n}/stat") for n in numbers[:_MOST_PROCESSES])
    processes = [p for p in map(parse_stat, texts) if p]
    if not processes:
        yield absent_fact("process.names", "/proc", "no process is visible", EXPECTED)
        return
    ours = _own_line(processes)
    others = [p for p in processes if not p.is_kernel and p.pid not in ours]
    busy = (f"{p.name} {p.state}" for p in others if p.state in "RD")
    daemons = {p.name for p in others}.intersection(_TIME_DAEMONS)
    for name, text, weight in (
        ("process.count", str(len(others)), EXPECTED),
        ("process.names", _counted(p.name for p in others), EXPECTED),
        ("process.running", _counted(busy), EXPECTED),
        ("clock.sync_daemons", ", ".join(sorted(daemons)), SUSPICIOUS),
    ):
        yield present_fact(name, text, "/proc/*/stat", weight)
    if len(numbers) > _MOST_PROCESSES:
        rest = f"not captured: {len(numbers) - _MOST_PROCESSES} more processes"
        yield absent_fact("process.more", "/proc", rest, EXPECTED)


def service_facts(tree: MachineFiles, units: ProgramAnswer | None) -> Iterator[Fact]:
    """Yield the active units of systemd; `units` is `systemctl`'s answer."""
    if units is None:
        reason = "systemd does not run here"
        for name in ("services", "timers"):
            yield absent_fact(f"systemd.{name}", SYSTEMD, reason, SUSPICIOUS)
    else:
        rows = [line.split()[0] for line in (units.text or "").splitlines() if line]
        for name, kind in (("services", ".service"), ("timers", ".timer")):
            of_kind = (row for row in rows if row.endswith(kind))
            text = ", ".join(sorted(of_kind)) if units.text is not None else None
            yield Fact(f"systemd.{name}", text, "systemctl", units.absent, SUSPICIOUS)
    source = "/etc/cron.d and others"
    yield present_fact("cron.files", ", ".join(_cron_files(tree)), source, SUSPICIOUS)


def _cron_files(tree: MachineFiles) -> Iterator[str]:
    """Yield the readable crontabs; those of users need root."""
    for path in _CRON:
        names = [n for n in tree.names(path) if n not in (".placeholder", "crontabs")]
        yield from (f"{path}/{name}" for name in names)
    if tree.exists("/etc/crontab"):
        yield "/etc/crontab"


def _user_processes(tree: MachineFiles) -> list[str]:
    """Return the process ids, without kernel threads if the kernel lists them.

    A large machine has thousands of them; reading each would take most of a capture.
    """
    kernel = set(tree.text("/proc/2/task/2/children").split())
    return [n for n in tree.names("/proc") if n.isdecimal() and n not in kernel]


def _own_line(found: list[Process]) -> set[int]:
    """Return the ids of our own process, its ancestors and its children."""
    parents = {p.pid: p.parent for p in found}
    ours = {os.getpid()}
    ours.update(pid for pid, parent in parents.items() if parent == os.getpid())
    pid = os.getpid()
    while (pid := parents.get(pid, 0)) > 0:
        ours.add(pid)
    return ours


def _counted(names: Iterator[str]) -> str:
    """Return names with their numbers of occurrences: `nginx x 4, sshd`."""
    counts = sorted(Counter(names).items())
    each = [name if n == 1 else f"{name} x {n}" for name, n in counts]
    if len(each) > _MOST_NAMES:
        each = [*each[:_MOST_NAMES], f"{len(each) - _MOST_NAMES} more names"]
    return ", ".join(each)


def _first(text: str) -> str:
    return text.split(" ", 1)[0]
