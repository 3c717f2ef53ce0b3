"""What this process may use: affinity, limits, rights, cgroups, environment variables.

The benchmarked programs inherit all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from benchwright.core.machine import Fact, FactWeight
from benchwright.machine.redact import SET, redacted_variable
from benchwright.machine.sources import (
    EXPECTED,
    FATAL,
    NOT_IN_FILE,
    SUSPICIOUS,
    MachineFiles,
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
        found = _setting(tree, setting, places.get(setting.controller))
        if found is not None:
            yield found


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
