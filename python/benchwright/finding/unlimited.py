"""What is said of a result where no limit is named.

Purpose: "no resource was saturated" is said only where that was seen. Decision: where every
CPU, a disk or a quota was busy, the sentence says so and by whom; a busy program that is
neither the benchmark's nor its named server may be that server, so it says how to name it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchwright.finding import thresholds as t
from benchwright.finding.kept import kept
from benchwright.finding.limiter import explainable, limiters
from benchwright.finding.machine_words import listed, share_text
from benchwright.finding.processors import Shares, shares
from benchwright.model.watched import CpuUse, ResourceUse

NOTHING = "no resource was saturated"
TOO_SHORT = "watched too briefly to tell a limit: what limited it is not known"
NONE_FOUND = "no limit of the benchmark's own was found, but"


def sentence(uses: Sequence[ResourceUse]) -> str:
    """Return what there is to say of windows in which no limit is named."""
    able = [use for use in uses if explainable(use)]
    if not able:
        return TOO_SHORT
    busy = [(use, text) for use in able if (text := what_was_busy(use))]
    if busy:
        _longest, text = max(busy, key=lambda one: one[0].seconds)
        return f"{NONE_FOUND} {text}{_where(len(busy), len(able))}"
    found = [limits[0].code for use in able if (limits := limiters(use))]
    if found:
        most = max(dict.fromkeys(found), key=found.count)
        shown = f"{most} in {found.count(most)} of {len(able)} watched windows"
        return f"no limit held for most of the watched time: {shown}"
    return NOTHING


def _where(some: int, total: int) -> str:
    return "" if some == total else f" (in {some} of {total} watched windows)"


def what_was_busy(use: ResourceUse) -> str:
    """Return what was busy in a window, and with what; empty where nothing was."""
    kinds: tuple[Callable[[ResourceUse], str], ...] = (_cpus, _quotas, _disks)
    return "; ".join(text for kind in kinds if (text := kind(use)))


def _cpus(use: ResourceUse) -> str:
    found, cpu = shares(use), use.cpu
    if found is None or cpu is None:
        return ""
    if found.full:
        busy = share_text(min((found.busy + found.steal) / found.count, 1.0))
        some = (
            f"the CPUs were {busy} busy"
            if found.count > 1
            else f"the CPU was {busy} busy"
        )
        stolen = (
            f" (the hypervisor took {found.steal:.2f})" if found.steal >= 0.05 else ""
        )
        return f"{some}{stolen}, {_with_whom(use, cpu, found)}"
    full = [one.cpus for one in kept(use) if one.full]
    if full:
        names = listed([str(place) for place in full[0]])
        return f"the CPUs that its cpuset allows ({names}) were all busy"
    return ""


def _with_whom(use: ResourceUse, cpu: CpuUse, found: Shares) -> str:
    """Return who had most of the processors' time, and how to name a server."""
    program = next(iter(use.programs), None)
    unknown = max((found.neighbours or 0.0) - sum(p.share for p in use.programs), 0.0)
    kernel = cpu.kernel or 0.0
    users = [
        (found.own or 0.0, "with the benchmark itself"),
        (found.target, "with its server"),
        (kernel + cpu.interrupts, "with the kernel's own threads and interrupts"),
        (unknown, "with short-lived or unidentified processes"),
    ]
    share, text = max(users, key=lambda one: one[0])
    if program is None or program.share < share:
        return f"mostly {text} ({_of(share, found)})"
    several = f"{program.processes} x " if program.processes > 1 else ""
    return (
        f"mostly with {several}{program.name} ({_of(program.share, found)}), which is neither "
        "the benchmark's own nor named as its server; if it is the server, name it: "
        f"--target-name {program.name}"
    )


def _of(share: float, found: Shares) -> str:
    return (
        f"{share:.2f} of {found.count} CPUs" if found.count > 1 else f"{share:.2f} CPUs"
    )


def _quotas(use: ResourceUse) -> str:
    full = [
        group
        for group in use.cgroups
        if group.throttled and group.throttled >= t.QUOTA_PERIODS * group.periods
    ]
    if not full:
        return ""
    worst = max(full, key=lambda group: group.throttled / max(group.periods, 1))
    return (
        f"cgroup {worst.path} was stopped for its CPU quota in {worst.throttled} of "
        f"{worst.periods} periods"
    )


def _disks(use: ResourceUse) -> str:
    busy = [disk for disk in use.disks if disk.busy >= t.DISK_BUSY_ALONE]
    if not busy:
        return ""
    worst = max(busy, key=lambda disk: disk.busy)
    return (
        f"the disk {worst.name} was {share_text(min(worst.busy, 1.0))} busy with "
        f"{worst.queue:.1f} requests in flight"
    )
