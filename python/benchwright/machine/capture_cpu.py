"""The processors: model, topology, caches, frequency policies, mitigations, NUMA nodes.

Decision: what is the same for all processors is said once; where it is not, each value
has the processors that it holds for. Sources: admin-guide/cputopology, pm/cpufreq, sysfs
ABI devices-system-cpu and devices-node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchwright.machine.tree import NOT_IN_FILE, Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, FATAL, PROCESSOR, SUSPICIOUS
from benchwright.model.machine import Fact

_CPU = "/sys/devices/system/cpu"
_CPUINFO = "/proc/cpuinfo"
_MOST_CPUS = 8192
"""As many as Linux can be built for."""
_FIRST_BYTES = 1 << 16
"""Enough for one processor's part: hundreds of them say the same, and take long."""
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


def processor_facts(tree: Tree) -> Iterator[Fact]:
    """Yield what is known of the processors."""
    yield from _info(tree)
    yield from tree.facts(PROCESSOR)
    yield from _topology(tree)
    yield from _caches(tree)
    yield from _policies(tree)
    yield from _mitigations(tree)


def node_facts(tree: Tree) -> Iterator[Fact]:
    """Yield the NUMA nodes: processors, memory [KiB], distances."""
    base = "/sys/devices/system/node"
    nodes = [name for name in tree.names(base) if re.fullmatch(r"node\d+", name)]
    if not nodes:
        yield missing("numa.nodes", base, "no such file", FATAL)
        return
    yield known("numa.nodes", str(len(nodes)), base, FATAL)
    for node in nodes:
        name = f"numa.{node.removeprefix('node')}"
        yield tree.fact(f"{name}.cpus", f"{base}/{node}/cpulist", FATAL)
        yield tree.fact(f"{name}.distances", f"{base}/{node}/distance", FATAL)
        yield _node_memory(tree, name, f"{base}/{node}/meminfo")


def expand(cpus: str) -> list[int]:
    """Return the numbers of a list such as `0-3,8`; what is none is left out."""
    found: list[int] = []
    for part in cpus.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            end = min(int(last or first), int(first) + _MOST_CPUS)
            found.extend(range(int(first), end + 1))
    return found


def _info(tree: Tree) -> Iterator[Fact]:
    text, absent = tree.read(_CPUINFO, _FIRST_BYTES)
    pairs: dict[str, str] = {}
    for line in (text or "").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), value.strip())
    for name, keys, weight in _INFO:
        told = next((pairs[key] for key in keys if key in pairs), None)
        reason = "" if told is not None else absent or NOT_IN_FILE
        yield Fact(name, told, _CPUINFO, reason, weight)


def _topology(tree: Tree) -> Iterator[Fact]:
    source = f"{_CPU}/cpu*/topology"
    packages: set[str] = set()
    cores: set[str] = set()
    threads = 0
    for cpu in expand(tree.text(f"{_CPU}/online")):
        base = f"{_CPU}/cpu{cpu}/topology"
        siblings = tree.read(f"{base}/thread_siblings_list").text
        if siblings is not None:
            cores.add(siblings)
            packages.add(tree.text(f"{base}/physical_package_id"))
            threads += 1
    rows = (("packages", len(packages)), ("cores", len(cores)), ("threads", threads))
    for what, count in rows:
        if threads:
            yield known(f"cpu.{what}", str(count), source, FATAL)
        else:
            yield missing(f"cpu.{what}", source, "no such file", FATAL)


def _caches(tree: Tree) -> Iterator[Fact]:
    """Yield the caches of each kind: size, and how many there are."""
    kinds: dict[str, dict[str, set[str]]] = {}
    source = f"{_CPU}/cpu*/cache"
    seen: set[int] = set()
    for cpu in expand(tree.text(f"{_CPU}/online")):
        siblings = expand(tree.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list"))
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
        yield missing("cpu.caches", source, "no such file", FATAL)
    for name, sizes in sorted(kinds.items()):
        each = (f"{size} x {len(sets)}" for size, sets in sorted(sizes.items()))
        yield known(name, ", ".join(each), source, FATAL)


def _policies(tree: Tree) -> Iterator[Fact]:
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
        yield _per_cpu(values, missing(name, source, reason, weight))


def _per_cpu(values: dict[str, list[str]], absent: Fact) -> Fact:
    """Return a policy's value, each with its processors where there are several."""
    if not values:
        return absent
    text = next(iter(values))
    if len(values) > 1:
        each = (f"{value} (cpu {','.join(cpus)})" for value, cpus in values.items())
        text = "; ".join(each)
    return known(absent.name, text, absent.source, absent.weight)


def _mitigations(tree: Tree) -> Iterator[Fact]:
    base = f"{_CPU}/vulnerabilities"
    names = tree.names(base)
    for name in names:
        yield tree.fact(f"mitigation.{name}", f"{base}/{name}", SUSPICIOUS)
    if not names:
        yield missing("mitigation", base, "no such file", SUSPICIOUS)


def _node_memory(tree: Tree, name: str, path: str) -> Fact:
    found = re.search(r"MemTotal:\s+(\d+)", tree.text(path))
    if found is None:
        return missing(f"{name}.memory_kib", path, NOT_IN_FILE, EXPECTED)
    # The node's size changes a little with each boot; memory.total says how much matters.
    return known(f"{name}.memory_kib", found[1], path, EXPECTED)
