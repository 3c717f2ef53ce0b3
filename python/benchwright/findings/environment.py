"""Changes of the machine between captures, and which of them concern a session.

Purpose: a change of another user's file system does not affect the measurements. Decision: a file
system counts as used if the working directory, a program, the directory for temporary files, the
study or a path in a command is on it, or if it is mounted below such a path; a device, if it has
such a file system, or if a command names it. Limits of a cgroup on other devices, and swap space,
are changed by searches and tests elsewhere; a trial that swaps has a finding of its own. Other
files that a program opens are not known: `bw env --diff` lists every change.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.machine import Fact, FactChange, FactWeight, MachineCapture, MachineDifference
from benchwright.core.results import Finding, Severity
from benchwright.core.text import some_text
from benchwright.core.untrusted import one_line
from benchwright.findings import thresholds as t
from benchwright.findings.codes import MACHINE_CODES

_MOUNT = "mount."
_WORDS = re.compile(r"[^\s'\"=:,;|&<>()]+")


def of_session(
    changes: Sequence[FactChange], captures: Sequence[MachineCapture], places: Sequence[str]
) -> tuple[FactChange, ...]:
    """Return the changes that can concern a session.

    `places` are directories that are used although no command names them. If the
    working directory was not captured, all changes are returned.
    """
    facts = [capture.named() for capture in captures]
    if not all(fact.get("workdir.path") for fact in facts):
        return tuple(changes)
    points = {
        name.removeprefix(_MOUNT).rpartition(".")[0]
        for fact in facts
        for name in fact
        if name.startswith(_MOUNT)
    }
    named = {path for capture in captures for path in _in_commands(capture)}
    used = {path for capture in captures for path in _around(capture)}
    used |= named | set(places)
    on = {max(_above(path, points), key=len, default="") for path in used}
    below = {point for point in points for path in named if _is_below(point, path)}
    mounts = on | below
    sources = {
        fact.value or ""
        for known in facts
        for point in mounts
        if (fact := known.get(f"{_MOUNT}{point}.device"))
    }
    numbers = {
        fact.value or "": name.split(".")[1]
        for known in facts
        for name, fact in known.items()
        if name.startswith("block.") and name.endswith(".number")
    }
    devices = {path for path in sources | named if path.startswith("/dev/")}
    fact_changes = []
    for change in changes:
        if change.name.startswith(_MOUNT):
            if _point_of(change.name, points) not in mounts:
                continue
        elif change.name in _SWAP:
            continue
        elif change.name in _DEVICE_LIMITS:
            before, after = (
                _of_devices(text, devices, numbers) for text in (change.before, change.after)
            )
            if before == after:
                continue
            change = msgspec.structs.replace(change, before=before, after=after)
        fact_changes.append(change)
    return tuple(fact_changes)


_SWAP = ("memory.swaps", "memory.swap_total_kib")
_DEVICE_LIMITS = frozenset(
    (
        "cgroup.io_max",
        *(f"cgroup.{way}_{unit}" for way in ("read", "write") for unit in ("bps", "iops")),
    )
)
"""Limits of a cgroup on devices: `254:0 100; 7:0 20`."""
_LOOP = 7
"""The major number of loop devices, whose minor number is that of the device."""


def _of_devices(text: str | None, devices: set[str], numbers: dict[str, str]) -> str | None:
    """Return the entries of a limit whose device is used, or is not known."""
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(";")]
    return "; ".join(
        entry for entry in entries if _is_used(entry.partition(" ")[0], devices, numbers)
    )


def _is_used(number: str, devices: set[str], numbers: dict[str, str]) -> bool:
    """Return whether a device may have a file system of the session.

    Which disks a device of the device mapper or a RAID lies on is not examined: then every disk may
    be used, except loop devices, which are named themselves.
    """
    major, _, minor = number.partition(":")
    name = f"loop{minor}" if major == str(_LOOP) else numbers.get(number)
    if name is None or any(path.startswith(f"/dev/{name}") for path in devices):
        return True
    stacked = any(path.startswith(("/dev/mapper/", "/dev/dm-", "/dev/md")) for path in devices)
    return stacked and major != str(_LOOP)


def _point_of(name: str, points: set[str]) -> str:
    point = name.removeprefix(_MOUNT)
    return point if point in points else point.rpartition(".")[0]


def _above(path: str, points: set[str]) -> list[str]:
    return [point for point in points if point == path or _is_below(path, point)]


def _is_below(path: str, above: str) -> bool:
    return path.startswith(above.rstrip("/") + "/")


def _around(capture: MachineCapture) -> Iterator[str]:
    """Yield the directories in which a session's commands run, and their programs."""
    yield "/tmp"
    for name, fact in capture.named().items():
        program = name.startswith("program.") and name.endswith(".path")
        if fact.value and (program or name in ("workdir.path", "env.TMPDIR")):
            yield fact.value


def _in_commands(capture: MachineCapture) -> Iterator[str]:
    """Yield the paths that words of commands may be, relative to the working directory."""
    facts = capture.named()
    directory = facts["workdir.path"].value or "/"
    for name, fact in facts.items():
        if name.startswith("command.") and fact.value:
            for word in _WORDS.findall(fact.value):
                yield os.path.normpath(os.path.join(directory, word))


# --------------------------------------------------------------------------------------
# Two captures compared, and the finding about trials that ran on a changed machine.
#
# Purpose: `bw env --diff`, and `environment-changed-between-trials`. Decision: a fact's weight
# is the more serious of those in the two captures; a device or mount that is in one capture only
# is one change, not twenty. A fact that could not be read (permission, time) does not count as
# a difference.

CODE = "environment-changed-between-trials"
SEPARATE = "environments-differ"

_ORDER = {FactWeight.FATAL: 0, FactWeight.SUSPICIOUS: 1, FactWeight.EXPECTED: 2}
_GROUPED = ("block.", "partition.", "mount.", "net.", "numa.", "gpu.", "program.")
"""Prefixes of facts of which there are several of one kind: `block.vda.scheduler`."""
_LOOKED_FOR = {"partition.": "block", "program.": "command"}
"""Prefixes of facts that show that a kind was captured, if they differ from the kind's own."""
_COMES_AND_GOES = ("mount.", "program.")
"""Kinds for which one more or one fewer does not change a figure."""
_DRIVER = "driver"
"""An interface without this fact is the software's, such as half of a veth pair: containers make
and remove them."""
_COMPARED = ("program.", "git.", "command")
"""Facts of what is measured: in a comparison of results they are meant to differ."""
_MEMORY = "memory.total_kib"
_FROM_MEMORY = frozenset(
    (
        *("sysctl.net.ipv4.tcp_mem", "sysctl.kernel.threads-max"),
        *("sysctl.vm.min_free_kbytes", "sysctl.net.ipv4.tcp_max_syn_backlog"),
        *("limit.processes", "limit.pending_signals", "workdir.size_bytes"),
    )
)
"""Numbers that the kernel computes from the memory that it finds at boot."""
_NOT_CAPTURED = "not captured"
_NOT_SET = "not set"
_TRULY_ABSENT = (
    *("no such file", "no such device", "not in its file", "in no package"),
    *("no repository here", "no cgroup hierarchy has its controller"),
    *("systemd does not run here", "on no branch", "on no mount", "empty", _NOT_SET),
)
"""Reasons that mean that the thing does not exist."""
_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 6


def difference(before: MachineCapture, after: MachineCapture) -> MachineDifference:
    """Return the differences between two captures, the most serious first, then by name."""
    named, other = before.named(), after.named()
    # What a file of another tool does not state is not known.
    not_set = _NOT_SET if before.taken_ns and after.taken_ns else _NOT_CAPTURED
    changes = _lone_things(named, other)
    lone = {change.name for change in changes}
    for name in sorted(named.keys() | other.keys()):
        if name.rpartition(".")[0] not in lone:
            change = _change(name, named.get(name), other.get(name), not_set)
            if change is not None:
                changes.append(change)
    changes.sort(key=lambda c: (_ORDER[c.weight], c.name))
    return MachineDifference(tuple(changes))


def environment_findings(
    captures: Sequence[MachineCapture], places: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return a finding for each capture of a session that differs from the one before.

    Serious if the machines are different, else a warning. Free memory, load and the like are
    ignored, and so are file systems and devices that neither the commands nor `places`, directories
    of the session, use.
    """
    findings = []
    for at in range(1, len(captures)):
        pair = captures[at - 1 : at + 1]
        changes = difference(*pair).changes
        machine_difference = MachineDifference(of_session(changes, pair, places))
        if machine_difference.matters:
            subject = f"machine, capture {at} to {at + 1}"
            findings.append(_environment_finding(machine_difference, subject, CODE))
    return tuple(findings)


def separate_findings(results: Sequence[tuple[str, MachineCapture | None]]) -> tuple[Finding, ...]:
    """Return a finding for each named result whose machine differs from the first's.

    The measured programs and their commit may differ: that is the question. A result without a
    capture has no finding.
    """
    (first, base), *others = results
    findings = []
    for name, machine in others:
        if base is not None and machine is not None and machine != base:
            machine_difference = _without_compared(difference(base, machine))
            if machine_difference.matters:
                findings.append(
                    _environment_finding(machine_difference, f"{first}, {name}", SEPARATE)
                )
    return tuple(findings)


def _without_compared(machine_difference: MachineDifference) -> MachineDifference:
    changes = (
        change for change in machine_difference.changes if not change.name.startswith(_COMPARED)
    )
    return MachineDifference(tuple(changes))


def _environment_finding(machine_difference: MachineDifference, subject: str, name: str) -> Finding:
    changes = [
        *machine_difference.of(FactWeight.FATAL),
        *machine_difference.of(FactWeight.SUSPICIOUS),
    ]
    shown = some_text([change_text(change) for change in changes], _SHOWN, "; ")
    code = MACHINE_CODES[name]
    severity = code.severity if machine_difference.of(FactWeight.FATAL) else Severity.WARNING
    return Finding(name, severity, subject, shown, code.remedy)


def change_text(change: FactChange, most: int = 60) -> str:
    """Return a change as one line: `cpu.governor: performance, then powersave`."""
    before, after = side_texts(change, most)
    return f"{change.name}: {before}, then {after}"


def side_texts(change: FactChange, most: int) -> tuple[str, str]:
    """Return both values of a change as texts."""
    if change.before is not None and change.after is not None:
        return changed_texts(change.before, change.after, most)
    return (
        value_text(change.before, change.before_absent, most),
        value_text(change.after, change.after_absent, most),
    )


def changed_texts(before: str, after: str, most: int) -> tuple[str, str]:
    """Return two values as texts of at most `most` characters; if one is longer, both begin shortly
    before what differs, so that it is not cut."""
    one, other = one_line(before), one_line(after)
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    start = next(unlike, min(len(one), len(other))) - most // 3
    if start > 0 and max(len(one), len(other)) > most:
        one, other = f"...{one[start:]}", f"...{other[start:]}"
    return value_text(one, "", most), value_text(other, "", most)


def value_text(value: str | None, absent: str, most: int) -> str:
    """Return a value as text, shortened if it is long; the reason if there is no value."""
    if value is None:
        return f"absent ({absent})"
    text = one_line(value) or "none"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _change(name: str, before: Fact | None, after: Fact | None, not_set: str) -> FactChange | None:
    """Return how a fact differs; None if it does not, or is absent on both sides. `not_set` is why
    a variable can be missing."""
    one, one_absent = _side(name, before, not_set)
    other, other_absent = _side(name, after, not_set)
    if one == other:
        return None
    weight = min((fact.weight for fact in (before, after) if fact), key=lambda w: _ORDER[w])
    absent = one_absent or other_absent
    if absent:
        # Without a value there is no evidence of different machines.
        lighter = max(weight, FactWeight.SUSPICIOUS, key=lambda w: _ORDER[w])
        is_known = absent in _TRULY_ABSENT
        return FactChange(name, one, other, one_absent, other_absent, lighter, is_known)
    if name == _MEMORY or name in _FROM_MEMORY:
        weight = _weight_of_size(name, weight, _apart(str(one), str(other)))
    return FactChange(name, one, other, "", "", weight)


def _side(name: str, fact: Fact | None, not_set: str) -> tuple[str | None, str]:
    """Return a fact's value, and why there is none."""
    if fact is None:
        # A capture has all variables that matter: a missing one was not set.
        return None, not_set if name.startswith("env.") else _NOT_CAPTURED
    return fact.value, "" if fact.value is not None else fact.absent or _NOT_CAPTURED


def _weight_of_size(name: str, weight: FactWeight, apart: float) -> FactWeight:
    """Return the weight of a size that differs by this share."""
    if name == _MEMORY and apart <= t.SIZE_OF_ANOTHER_KERNEL:
        return FactWeight.EXPECTED if apart <= t.SIZE_AFTER_REBOOT else FactWeight.SUSPICIOUS
    return FactWeight.EXPECTED if name != _MEMORY and apart <= t.SIZE_OF_ANOTHER_KERNEL else weight


def _apart(one: str, other: str) -> float:
    """Return the largest relative difference of the numbers in two texts; infinity if the texts
    differ otherwise."""
    pairs = list(zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=False))
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other) or not pairs:
        return math.inf
    shares = (abs(int(a) - int(b)) / max(int(a), int(b), 1) for a, b in pairs)
    return max(shares)


def _lone_things(one: dict[str, Fact], other: dict[str, Fact]) -> list[FactChange]:
    """Return the devices, mounts and programs that are in one capture only."""
    there, here = _things(one), _things(other)
    changes = []
    for name in sorted(there.keys() ^ here.keys()):
        kind = next(k for k in _GROUPED if name.startswith(k))
        # If a kind was not captured at all, its things are unknown.
        is_known = _is_captured(one, kind) and _is_captured(other, kind)
        absent = "not there" if is_known else _NOT_CAPTURED
        weight = _weight_of_thing(kind, there.get(name) or here[name])
        if kind == "net." and f"{name}.{_DRIVER}" not in (one | other):
            weight = FactWeight.EXPECTED
        if name in there:
            changes.append(FactChange(name, "there", None, "", absent, weight, is_known))
        else:
            changes.append(FactChange(name, None, "there", absent, "", weight, is_known))
    return changes


def _weight_of_thing(kind: str, weights: list[FactWeight]) -> FactWeight:
    if kind in _COMES_AND_GOES or all(w is FactWeight.EXPECTED for w in weights):
        return FactWeight.EXPECTED
    return FactWeight.SUSPICIOUS


def _is_captured(facts: dict[str, Fact], kind: str) -> bool:
    """Return whether a kind was captured, even if nothing of it was found."""
    sign = _LOOKED_FOR.get(kind, kind.removesuffix("."))
    return any(name == sign or name.startswith(f"{sign}.") for name in facts)


def _things(facts: dict[str, Fact]) -> dict[str, list[FactWeight]]:
    """Return the things that facts describe, each with the weights of its facts."""
    things: dict[str, list[FactWeight]] = {}
    for name, fact in facts.items():
        kind = next((k for k in _GROUPED if name.startswith(k)), None)
        thing, dot, _ = name.rpartition(".")
        if kind is not None and dot and len(thing) > len(kind):
            things.setdefault(thing, []).append(fact.weight)
    return things
