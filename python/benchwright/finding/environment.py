"""Two captures compared, and the doubt about trials that ran on a changed machine.

Purpose: `bw env --diff`, and `environment-changed-between-trials`. Decision: a fact's weight
is what the capture gave it, the graver of the two; a device or mount that is there on one
side only is one change, not twenty. What could not be read (permission, time) is no
difference that is known. Source: reference list of ecosystem.md section 6, typed diff.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from benchwright.finding.machine_codes import MACHINE_CODES
from benchwright.finding.used_mounts import of_used_mounts
from benchwright.model.finding import Finding, Severity
from benchwright.model.machine import Fact, Machine, Weight
from benchwright.model.machine_difference import Change, Difference
from benchwright.model.visible import one_line

CODE = "environment-changed-between-trials"
APART = "environments-differ"

_ORDER = {Weight.FATAL: 0, Weight.SUSPICIOUS: 1, Weight.EXPECTED: 2}
_GROUPED = ("block.", "partition.", "mount.", "net.", "numa.", "gpu.", "program.")
"""Facts of several things of one kind: `block.vda.scheduler`."""
_LOOKED_FOR = {"partition.": "block", "program.": "command"}
"""Facts that show that a kind was looked for, where they are of another name."""
_COMES_AND_GOES = ("mount.", "program.")
"""Kinds of which one more or less changes no figure by itself."""
_COMPARED = ("program.", "git.", "command")
"""Facts of what is measured: where results are compared, they are what is to differ."""
_MEMORY = "memory.total_kib"
_FROM_MEMORY = frozenset(
    (
        *("sysctl.net.ipv4.tcp_mem", "sysctl.kernel.threads-max"),
        *("sysctl.vm.min_free_kbytes", "sysctl.net.ipv4.tcp_max_syn_backlog"),
        *("limit.processes", "limit.pending_signals", "workdir.size_bytes"),
    )
)
"""Numbers that the kernel works out from the memory that it finds at boot."""
_HARDLY, _LITTLE = 0.001, 0.02
"""Shares by which a size may differ after a reboot, and under another kernel."""
_NOT_CAPTURED = "not captured"
_NOT_SET = "not set"
_TRULY_ABSENT = (
    *("no such file", "no such device", "not in its file", "in no package"),
    *("no repository here", "no cgroup hierarchy has its controller"),
    *("systemd does not run here", "on no branch", "on no mount", "empty", _NOT_SET),
)
"""Reasons that are themselves knowledge: there is no such thing."""
_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 6


def difference(before: Machine, after: Machine) -> Difference:
    """Return what differs between two captures, the gravest first, then by name."""
    one, other = before.named(), after.named()
    changes = _lone_things(one, other)
    lone = {change.name for change in changes}
    for name in sorted(one.keys() | other.keys()):
        if name.rpartition(".")[0] not in lone:
            change = _change(name, one.get(name), other.get(name))
            if change is not None:
                changes.append(change)
    changes.sort(key=lambda c: (_ORDER[c.weight], c.name))
    return Difference(tuple(changes))


def environment_findings(
    captures: Sequence[Machine], places: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return a finding for each capture of a session that differs from the one before.

    Serious where the figures are of different machines, else a warning: with free
    memory, load and the like nothing is compared, nor with a file system that neither
    the commands nor `places`, directories of the session, are on.
    """
    found = []
    for at in range(1, len(captures)):
        pair = captures[at - 1 : at + 1]
        changes = difference(*pair).changes
        told = Difference(of_used_mounts(changes, pair, places))
        if told.matters:
            subject = f"machine, capture {at} to {at + 1}"
            found.append(_finding(told, subject, CODE))
    return tuple(found)


def apart_findings(
    results: Sequence[tuple[str, Machine | None]],
) -> tuple[Finding, ...]:
    """Return a finding for each named result whose machine differs from the first's.

    What was measured (the programs, their commit) may differ: that is the question. Of a
    result without a capture nothing is known.
    """
    (first, base), *others = results
    found = []
    for name, machine in others:
        if base is not None and machine is not None and machine != base:
            told = _without_compared(difference(base, machine))
            if told.matters:
                found.append(_finding(told, f"{first}, {name}", APART))
    return tuple(found)


def _without_compared(told: Difference) -> Difference:
    kept = (one for one in told.changes if not one.name.startswith(_COMPARED))
    return Difference(tuple(kept))


def _finding(told: Difference, subject: str, name: str) -> Finding:
    changes = [*told.of(Weight.FATAL), *told.of(Weight.SUSPICIOUS)]
    shown = "; ".join(change_text(change) for change in changes[:_SHOWN])
    more = f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    code = MACHINE_CODES[name]
    severity = code.severity if told.of(Weight.FATAL) else Severity.WARNING
    return Finding(name, severity, subject, f"{shown}{more}", code.remedy)


def change_text(change: Change, most: int = 60) -> str:
    """Return a change in a line: `cpu.governor: performance, then powersave`."""
    before = value_text(change.before, change.before_absent, most)
    after = value_text(change.after, change.after_absent, most)
    return f"{change.name}: {before}, then {after}"


def value_text(value: str | None, absent: str, most: int) -> str:
    """Return a value as words, cut where it is long; its reason where there is none."""
    if value is None:
        return f"absent ({absent})"
    text = one_line(value) or "none"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _change(name: str, before: Fact | None, after: Fact | None) -> Change | None:
    """Return how a fact differs, or None where it does not, or is absent on both sides."""
    one, one_absent = _side(name, before)
    other, other_absent = _side(name, after)
    if one == other:
        return None
    weight = min(
        (fact.weight for fact in (before, after) if fact), key=lambda w: _ORDER[w]
    )
    absent = one_absent or other_absent
    if absent:
        # Without a value it cannot be said that the figures are of different machines.
        lighter = max(weight, Weight.SUSPICIOUS, key=lambda w: _ORDER[w])
        is_known = absent in _TRULY_ABSENT
        return Change(name, one, other, one_absent, other_absent, lighter, is_known)
    if name == _MEMORY or name in _FROM_MEMORY:
        weight = _weight_of_size(name, weight, _apart(str(one), str(other)))
    return Change(name, one, other, "", "", weight)


def _side(name: str, fact: Fact | None) -> tuple[str | None, str]:
    """Return a fact's value, and why there is none."""
    if fact is None:
        # All variables are captured: one that is not there was not set.
        return None, _NOT_SET if name.startswith("env.") else _NOT_CAPTURED
    return fact.value, "" if fact.value is not None else fact.absent or _NOT_CAPTURED


def _weight_of_size(name: str, weight: Weight, apart: float) -> Weight:
    """Return what a size that differs by this share means."""
    if name == _MEMORY and apart <= _LITTLE:
        return Weight.EXPECTED if apart <= _HARDLY else Weight.SUSPICIOUS
    return Weight.EXPECTED if name != _MEMORY and apart <= _LITTLE else weight


def _apart(one: str, other: str) -> float:
    """Return the largest share by which numbers in two texts differ; else infinity."""
    pairs = list(zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=False))
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other) or not pairs:
        return math.inf
    shares = (abs(int(a) - int(b)) / max(int(a), int(b), 1) for a, b in pairs)
    return max(shares)


def _lone_things(one: dict[str, Fact], other: dict[str, Fact]) -> list[Change]:
    """Return the devices, mounts and programs that are in one capture only."""
    there, here = _things(one), _things(other)
    found = []
    for name in sorted(there.keys() ^ here.keys()):
        kind = next(k for k in _GROUPED if name.startswith(k))
        # Where a kind was not captured at all, nothing is known of its things.
        is_known = _is_captured(one, kind) and _is_captured(other, kind)
        absent = "not there" if is_known else _NOT_CAPTURED
        weight = _weight_of_thing(kind, there.get(name) or here[name])
        if name in there:
            found.append(Change(name, "there", None, "", absent, weight, is_known))
        else:
            found.append(Change(name, None, "there", absent, "", weight, is_known))
    return found


def _weight_of_thing(kind: str, weights: list[Weight]) -> Weight:
    if kind in _COMES_AND_GOES or all(w is Weight.EXPECTED for w in weights):
        return Weight.EXPECTED
    return Weight.SUSPICIOUS


def _is_captured(facts: dict[str, Fact], kind: str) -> bool:
    """Tell whether things of a kind were looked for, found or not."""
    sign = _LOOKED_FOR.get(kind, kind.removesuffix("."))
    return any(name == sign or name.startswith(f"{sign}.") for name in facts)


def _things(facts: dict[str, Fact]) -> dict[str, list[Weight]]:
    """Return the things that facts are of, each with the weights of its facts."""
    things: dict[str, list[Weight]] = {}
    for name, fact in facts.items():
        kind = next((k for k in _GROUPED if name.startswith(k)), None)
        thing, dot, _ = name.rpartition(".")
        if kind is not None and dot and len(thing) > len(kind):
            things.setdefault(thing, []).append(fact.weight)
    return things
