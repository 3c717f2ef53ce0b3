"""CPUs, memory, NUMA nodes and graphics devices: model, topology, caches, frequency
policies, sizes. Sources: proc(5), sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchwright.core.machine import Fact
from benchwright.core.quantity import parse_cpu_list
from benchwright.machine.sources import (
    EXPECTED,
    FATAL,
    MEMORY,
    NOT_IN_FILE,
    PROCESSOR,
    SUSPICIOUS,
    MachineFiles,
    absent_fact,
    present_fact,
)

# --------------------------------------------------------------------------------------
# The CPUs: model, topology, caches, frequency policies, mitigations, NUMA
# nodes.
#
# Decision: a value that all CPUs share is reported once; otherwise each value is listed
# with its CPUs. Sources: admin-guide/cputopology, pm/cpufreq, sysfs
# ABI devices-system-cpu and devices-node.

_CPU = "/sys/devices/system/cpu"
_CPUINFO = "/proc/cpuinfo"
"""The highest NR_CPUS of a Linux build."""
_FIRST_BYTES = 1 << 16
"""Enough for the first CPU's entry: all entries are alike, and reading hundreds takes long."""
_INFO = (
    ("cpu.vendor", ("vendor_id", "CPU implementer"), FATAL),
    ("cpu.model", ("model name", "Processor", "cpu", "uarch"), FATAL),
    ("cpu.family", ("cpu family", "CPU architecture"), FATAL),
    ("cpu.model_number", ("model", "CPU part"), FATAL),
    ("cpu.stepping", ("stepping", "CPU revision"), SUSPICIOUS),
    ("cpu.microcode", ("microcode",), SUSPICIOUS),
    ("cpu.flags", ("flags", "Features", "isa"), SUSPICIOUS),
    ("cpu.bugs", ("bugs",), SUSPICIOUS),
)
_CACHE_LETTERS = {"Data": "d", "Instruction": "i"}
_POLICY = (
    ("cpu.governor", "scaling_governor", FATAL),
    ("cpu.frequency_driver", "scaling_driver", FATAL),
    ("cpu.frequency_min_khz", "scaling_min_freq", FATAL),
    ("cpu.frequency_max_khz", "scaling_max_freq", FATAL),
    ("cpu.hardware_min_khz", "cpuinfo_min_freq", FATAL),
    ("cpu.hardware_max_khz", "cpuinfo_max_freq", FATAL),
    ("cpu.energy_preference", "energy_performance_preference", SUSPICIOUS),
)


def processor_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the facts about the CPUs."""
    yield from _info(tree)
    yield from tree.facts(PROCESSOR)
    yield from _topology(tree)
    yield from _caches(tree)
    yield from _policies(tree)
    yield from _mitigations(tree)


def node_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the NUMA nodes: CPUs, memory [KiB], distances."""
    base = "/sys/devices/system/node"
    nodes = [name for name in tree.names(base) if re.fullmatch(r"node\d+", name)]
    if not nodes:
        yield absent_fact("numa.nodes", base, "no such file", FATAL)
        return
    yield present_fact("numa.nodes", str(len(nodes)), base, FATAL)
    for node in nodes:
        name = f"numa.{node.removeprefix('node')}"
        yield tree.fact(f"{name}.cpus", f"{base}/{node}/cpulist", FATAL)
        yield tree.fact(f"{name}.distances", f"{base}/{node}/distance", FATAL)
        yield _node_memory(tree, name, f"{base}/{node}/meminfo")


def _listed(cpus: str) -> list[int]:
    """Return the CPUs of a list; none of a text that is not one."""
    try:
        return parse_cpu_list(cpus)
    except ValueError:
        return []


def _info(tree: MachineFiles) -> Iterator[Fact]:
    text, absent = tree.read(_CPUINFO, _FIRST_BYTES)
    pairs: dict[str, str] = {}
    for line in (text or "").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), value.strip())
    for name, keys, weight in _INFO:
        told = next((pairs[key] for key in keys if key in pairs), None)
        reason = "" if told is not None else absent or NOT_IN_FILE
        yield Fact(name, told, _CPUINFO, reason, weight)


def _topology(tree: MachineFiles) -> Iterator[Fact]:
    source = f"{_CPU}/cpu*/topology"
    packages: set[str] = set()
    cores: set[str] = set()
    threads = 0
    for cpu in _listed(tree.text(f"{_CPU}/online")):
        base = f"{_CPU}/cpu{cpu}/topology"
        siblings = tree.read(f"{base}/thread_siblings_list").text
        if siblings is not None:
            cores.add(siblings)
            packages.add(tree.text(f"{base}/physical_package_id"))
            threads += 1
    rows = (("packages", len(packages)), ("cores", len(cores)), ("threads", threads))
    for what, count in rows:
        if threads:
            yield present_fact(f"cpu.{what}", str(count), source, FATAL)
        else:
            yield absent_fact(f"cpu.{what}", source, "no such file", FATAL)


def _caches(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the size and number of the caches of each kind."""
    kinds: dict[str, dict[str, set[str]]] = {}
    source = f"{_CPU}/cpu*/cache"
    seen: set[int] = set()
    for cpu in _listed(tree.text(f"{_CPU}/online")):
        siblings = _listed(tree.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list"))
        if cpu in seen:
            continue  # The other thread of a core has the same caches.
        seen.update(siblings)
        base = f"{_CPU}/cpu{cpu}/cache"
        for index in (n for n in tree.names(base) if n.startswith("index")):
            kind = tree.text(f"{base}/{index}/type")
            level = tree.text(f"{base}/{index}/level")
            name = f"cpu.cache_l{level}{_CACHE_LETTERS.get(kind, '')}"
            size = tree.text(f"{base}/{index}/size")
            shared = tree.text(f"{base}/{index}/shared_cpu_list")
            kinds.setdefault(name, {}).setdefault(size, set()).add(shared)
    if not kinds:
        yield absent_fact("cpu.caches", source, "no such file", FATAL)
    for name, sizes in sorted(kinds.items()):
        each = (f"{size} x {len(sets)}" for size, sets in sorted(sizes.items()))
        yield present_fact(name, ", ".join(each), source, FATAL)


def _policies(tree: MachineFiles) -> Iterator[Fact]:
    base = f"{_CPU}/cpufreq"
    policies = [name for name in tree.names(base) if name.startswith("policy")]
    for name, file, weight in _POLICY:
        source = f"{base}/policy*/{file}"
        values: dict[str, list[str]] = {}
        reason = "no such file"
        for policy in policies:
            text, absent = tree.read(f"{base}/{policy}/{file}")
            reason = absent or reason
            if text is not None:
                cpus = tree.text(f"{base}/{policy}/affected_cpus").replace(" ", ",")
                values.setdefault(text, []).append(cpus)
        yield _per_cpu(values, absent_fact(name, source, reason, weight))


def _per_cpu(values: dict[str, list[str]], absent: Fact) -> Fact:
    """Return the value of all policies; if they differ, each value with its CPUs."""
    if not values:
        return absent
    text = next(iter(values))
    if len(values) > 1:
        each = (f"{value} (cpu {','.join(cpus)})" for value, cpus in values.items())
        text = "; ".join(each)
    return present_fact(absent.name, text, absent.source, absent.weight)


def _mitigations(tree: MachineFiles) -> Iterator[Fact]:
    base = f"{_CPU}/vulnerabilities"
    names = tree.names(base)
    for name in names:
        yield tree.fact(f"mitigation.{name}", f"{base}/{name}", SUSPICIOUS)
    if not names:
        yield absent_fact("mitigation", base, "no such file", SUSPICIOUS)


def _node_memory(tree: MachineFiles, name: str, path: str) -> Fact:
    matched = re.search(r"MemTotal:\s+(\d+)", tree.text(path))
    if matched is None:
        return absent_fact(f"{name}.memory_kib", path, NOT_IN_FILE, EXPECTED)
    # The node's size changes slightly with each boot; memory.total is the fact to compare.
    return present_fact(f"{name}.memory_kib", matched[1], path, EXPECTED)


# --------------------------------------------------------------------------------------
# Memory and swap: sizes, huge pages, swap devices. Source: proc(5), meminfo.

_MEMINFO = "/proc/meminfo"
_SWAPS = "/proc/swaps"
_SIZES = (
    ("memory.total_kib", "MemTotal", FATAL),
    ("memory.available_kib", "MemAvailable", EXPECTED),
    ("memory.cached_kib", "Cached", EXPECTED),
    ("memory.dirty_kib", "Dirty", EXPECTED),
    ("memory.swap_total_kib", "SwapTotal", SUSPICIOUS),
    ("memory.swap_free_kib", "SwapFree", EXPECTED),
    ("memory.hugepages_total", "HugePages_Total", SUSPICIOUS),
    ("memory.hugepages_free", "HugePages_Free", EXPECTED),
    ("memory.hugepage_kib", "Hugepagesize", SUSPICIOUS),
)


def memory_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the facts about memory and swap; sizes in KiB, as the kernel reports them."""
    text, absent = tree.read(_MEMINFO)
    sizes = {}
    for line in (text or "").splitlines():
        key, _, value = line.partition(":")
        sizes[key] = value.removesuffix("kB").strip()
    for name, key, weight in _SIZES:
        if key in sizes:
            yield present_fact(name, sizes[key], _MEMINFO, weight)
        else:
            yield absent_fact(name, _MEMINFO, absent or NOT_IN_FILE, weight)
    yield from tree.facts(MEMORY)
    yield _swaps(tree)


def _swaps(tree: MachineFiles) -> Fact:
    """Return the swap devices and files: `/dev/sda2 (partition, 8388604 KiB)`."""
    text, absent = tree.read(_SWAPS)
    if text is None:
        return absent_fact("memory.swaps", _SWAPS, absent, SUSPICIOUS)
    rows = [line.split() for line in text.splitlines()[1:]]
    each = (f"{r[0]} ({r[1]}, {r[2]} KiB)" for r in rows if len(r) >= 3)
    return present_fact("memory.swaps", ", ".join(each), _SWAPS, SUSPICIOUS)


# --------------------------------------------------------------------------------------
# Graphics devices: vendor, device, driver. Sources: sysfs drm, NVIDIA's
# /proc/driver.

_DRM = "/sys/class/drm"
_NVIDIA = "/proc/driver/nvidia"


def graphics_facts(tree: MachineFiles) -> Iterator[Fact]:
    """Yield the graphics devices."""
    cards = [n for n in tree.names(_DRM) if re.fullmatch(r"card\d+", n)]
    computing = tree.names(f"{_NVIDIA}/gpus")
    if tree.exists(_DRM) or computing:
        yield present_fact("gpu.cards", ", ".join((*cards, *computing)), _DRM, FATAL)
    else:
        yield absent_fact("gpu.cards", _DRM, "no such file", FATAL)
    for card in cards:
        device = f"{_DRM}/{card}/device"
        for file in ("vendor", "device"):
            if tree.exists(f"{device}/{file}"):
                yield tree.fact(f"gpu.{card}.{file}", f"{device}/{file}", FATAL)
        driver = tree.target(f"{device}/driver")
        if driver:
            yield present_fact(f"gpu.{card}.driver", driver, f"{device}/driver", SUSPICIOUS)
    for at, name in enumerate(computing):
        path = f"{_NVIDIA}/gpus/{name}/information"
        matched = re.search(r"^Model:\s*(.+)$", tree.text(path), re.MULTILINE)
        if matched:
            yield present_fact(f"gpu.nvidia{at}.model", matched[1], path, FATAL)
    version = tree.text(f"{_NVIDIA}/version").partition("\n")[0]
    if version:
        path = f"{_NVIDIA}/version"
        yield present_fact("gpu.nvidia_driver", version, path, SUSPICIOUS)
