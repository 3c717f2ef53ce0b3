"""Which machine a capture is of, which of its facts divide a series, and the segments of a series.

Purpose: points of two machines are never in one series, and points of two environments of a machine
never in one segment. Decision: the machine is what cannot be changed by software (CPU, memory,
kind of virtual machine); the environment is what can. Left out are facts that belong to what is
measured (its program, the git commit), and what comes and goes beside it: other mounts and
disks than the working directory's, network interfaces, services, limits that no benchmark meets.
A fact that could be read on one side only divides nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.core.text import plural
from benchwright.core.untrusted import one_line
from benchwright.features.history.types import (
    UNKNOWN_MACHINE,
    Environment,
    HistoryPoint,
    Segment,
    settings_in,
)
from benchwright.findings.environment import change_text, difference

# -- The machine -----------------------------------------------------------------------

_HARDWARE = (
    *("cpu.vendor", "cpu.model", "cpu.family", "cpu.model_number", "cpu.architecture"),
    *("cpu.cores", "cpu.threads", "cpu.packages", "numa.nodes", "virtual.machine"),
)
_MEMORY = "memory.total_kib"
_STEPS = 8
"""Steps of memory size in each doubling. The kernel reports a few percent less than is installed,
so the next step above is the same with each kernel."""


def installed_memory(total_kib: int) -> int:
    """Return the size of the memory of which the kernel reports `total_kib` [bytes]: the next
    eighth of a doubling above it."""
    step = 2 ** max(0, math.ceil(math.log2(max(total_kib, 1))) - 1) / _STEPS
    return int(math.ceil(total_kib / step) * step) * 1024


def machine_fingerprint(capture: MachineCapture | None) -> str:
    """Return 8 hexadecimal digits that are equal for captures of one kind of machine.

    `unknown` without a capture.
    """
    if capture is None:
        return UNKNOWN_MACHINE
    named = capture.named()
    words = [f"{name}={_value(named, name)}" for name in _HARDWARE]
    words.append(f"{_MEMORY}={_memory(named)}")
    return _digest("\n".join(words))[:8]


def machine_text(capture: MachineCapture | None) -> str:
    """Return a machine in words: `AMD EPYC, 2 CPUs, 24 GiB`."""
    if capture is None:
        return "a machine that was not recorded"
    named = capture.named()
    threads = _value(named, "cpu.threads")
    size = _memory(named)
    words = (
        one_line(_value(named, "cpu.model")),
        plural(int(threads), "CPU") if threads.isdecimal() else "",
        f"{size / 2**30:.3g} GiB" if size else "",
    )
    return ", ".join(filter(None, words)) or "an unnamed machine"


def _value(named: Mapping[str, Fact], name: str) -> str:
    fact = named.get(name)
    return (fact.value if fact is not None else None) or ""


def _memory(named: Mapping[str, Fact]) -> int:
    total = _value(named, _MEMORY)
    return installed_memory(int(total)) if total.isdecimal() else 0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- The environment -------------------------------------------------------------------

_KINDS = (
    *("kernel.", "os.", "firmware.", "cpu.", "mitigation.", "memory.", "sysctl."),
    *("cgroup.", "self.", "env.", "virtual.", "workdir."),
)
_NAMES = ("clock.source",)
_NOT = frozenset(
    (
        *_HARDWARE,
        _MEMORY,
        # They follow from others, and are long.
        *("cpu.flags", "cpu.bugs", "kernel.command_line", "kernel.modules"),
        # Other directories of the same programs; the programs are facts of their own.
        *("env.PATH", "env.PYTHONPATH", "workdir.mount", "workdir.size_bytes"),
        "workdir.device",
        # It differs between shells on one machine, and no throughput depends on it.
        *("self.capabilities", "self.oom_score_adj"),
        # They depend on what else uses the disks.
        *("cgroup.read_iops", "cgroup.write_iops"),
        *("cgroup.read_bps", "cgroup.write_bps"),
    )
)
_PROGRAM = "program."


def environment_of(capture: MachineCapture | None) -> Environment | None:
    """Return the facts of a capture that divide a series, in order of name, with a hash.

    None without a capture.
    """
    if capture is None:
        return None
    named = capture.named()
    disk = _value(named, "workdir.device").rpartition("/")[2]
    facts = tuple(
        msgspec.structs.replace(fact, source="")
        for name, fact in sorted(named.items())
        if fact.weight is not FactWeight.EXPECTED and _divides(name, named, disk)
    )
    return Environment.of(facts)


def _divides(name: str, named: Mapping[str, Fact], disk: str) -> bool:
    if name in _NOT:
        return False
    if name.startswith(_PROGRAM):
        # A program of a package is part of the system; another one is what is measured.
        thing, _, fact = name.rpartition(".")
        return fact == "package" and bool(_value(named, f"{thing}.package"))
    if name.startswith("block."):
        # A partition is named after its disk.
        return bool(disk) and disk.startswith(name.split(".")[1])
    return name in _NAMES or name.startswith(_KINDS)


# -- Segments --------------------------------------------------------------------------

COMMAND = "command"
"""The name under which a change of the measured command is ignored."""


def segments_of(
    points: Sequence[HistoryPoint],
    environments: Mapping[str, Environment],
    ignored: Callable[[str], bool] = lambda _name: False,
) -> tuple[Segment, ...]:
    """Return the segments of a series, at least one.

    A segment ends where a fact is known to differ from the last point with a known environment.
    Facts whose names are `ignored` do not count.
    """
    starts: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    known = points[0]
    for place, point in enumerate(points[1:], 1):
        changes = _changes(known, point, environments, ignored)
        if changes:
            starts.append((place, changes))
        known = msgspec.structs.replace(
            known,
            environment=point.environment or known.environment,
            command=point.command or known.command,
            unit=point.unit,
        )
    ends = [*(place - 1 for place, _ in starts[1:]), len(points) - 1]
    return tuple(
        Segment(first, last, changes) for (first, changes), last in zip(starts, ends, strict=True)
    )


def _command_changes(before: HistoryPoint, after: HistoryPoint) -> list[str]:
    """Return how the measured command differs: of points of another tool's file, each setting that
    does."""
    if not before.session and not after.session:
        one, other = settings_in(before.command), settings_in(after.command)
        changed = [
            f"{name}: {one_line(one.get(name, _NOT_STATED))}, then {one_line(other.get(name, _NOT_STATED))}"
            for name in one | other
            if one.get(name) != other.get(name)
        ]
        if changed:
            return changed
    return [f"command: {one_line(before.command)}, then {one_line(after.command)}"]


_NOT_STATED = "not stated"


def _changes(
    before: HistoryPoint,
    after: HistoryPoint,
    environments: Mapping[str, Environment],
    ignored: Callable[[str], bool],
) -> tuple[str, ...]:
    found: list[str] = []
    commands = before.command, after.command
    if all(commands) and commands[0] != commands[1] and not ignored(COMMAND):
        found += _command_changes(before, after)
    if before.unit != after.unit:
        found.append(f"unit: {before.unit or 'none'}, then {after.unit or 'none'}")
    environment, other = (environments.get(before.environment), environments.get(after.environment))
    if environment is not None and other is not None and environment.id != other.id:
        changes = difference(
            MachineCapture(before.started_ns, environment.facts),
            MachineCapture(after.started_ns, other.facts),
        ).changes
        found += [
            change_text(change)
            for change in changes
            if change.known
            and change.weight is not FactWeight.EXPECTED
            and not ignored(change.name)
        ]
    return tuple(found)
