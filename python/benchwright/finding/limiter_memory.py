"""Limits of memory: swapping, a cgroup's limit, tasks that waited for memory."""

from __future__ import annotations

from benchwright.finding import thresholds as t
from benchwright.finding.limit import Limit
from benchwright.finding.machine_words import bytes_text, rate_text, share_text
from benchwright.finding.words import counted
from benchwright.model.watched import CgroupUse, MemoryUse, ResourceUse


def swapping(use: ResourceUse) -> Limit | None:
    """Return the swap space that stood in for memory.

    Pages that only go out are those that nobody uses, unless tasks wait for memory.
    """
    memory = use.memory
    if memory is None:
        return None
    moved = (memory.swapped_in + memory.swapped_out) / use.seconds
    if moved < t.SWAP_BYTES_PER_S:
        return None
    waited = memory.pressure is not None and memory.pressure >= t.PRESSURE / 2
    if memory.swapped_in < 0.1 * memory.swapped_out and not waited:
        return None
    evidence = (
        f"{bytes_text(memory.swapped_in)} came from swap space and "
        f"{bytes_text(memory.swapped_out)} went there, {rate_text(moved)}"
    )
    full = _full_group(use)
    if full is not None:
        evidence += f"; {_group_text(full)}"
    return Limit("swapping", "memory" if full is None else full.path, evidence)


def memory_limit(use: ResourceUse) -> Limit | None:
    """Return the cgroup at its memory limit, where it was missed: a page cache fills any
    limit without harm."""
    full = _full_group(use)
    if full is None:
        return None
    missed = _missed(use, full)
    if not missed:
        return None
    return Limit("memory-limit", full.path, f"{_group_text(full)}; {missed}")


def _full_group(use: ResourceUse) -> CgroupUse | None:
    full = [
        group
        for group in use.cgroups
        if group.memory_limit
        and group.memory_max is not None
        and group.memory_max >= t.MEMORY_FULL * group.memory_limit
        and (group.memory_limit_hits or group.oom_kills)
    ]
    return max(full, key=lambda group: group.memory_limit_hits, default=None)


def _group_text(group: CgroupUse) -> str:
    return (
        f"cgroup {group.path} had {bytes_text(group.memory_max or 0)} of "
        f"{bytes_text(group.memory_limit or 0)} and met its limit "
        f"{counted(group.memory_limit_hits, 'time')}"
    )


def _missed(use: ResourceUse, group: CgroupUse) -> str:
    """Return what a lack of memory did, in words; empty where nothing."""
    if group.oom_kills:
        return f"the kernel ended {counted(group.oom_kills, 'task')} for it"
    memory = use.memory
    if memory is None:
        return ""
    if memory.refaults / use.seconds >= t.REFAULTS_PER_S:
        return (
            f"{counted(memory.refaults, 'page')} read again after they were thrown out"
        )
    if memory.pressure is not None and memory.pressure >= t.PRESSURE:
        return (
            f"tasks waited for memory {share_text(memory.pressure)} of the time (PSI)"
        )
    return ""


def pressure(use: ResourceUse) -> Limit | None:
    """Return memory, where tasks waited for it, or the kernel ended one for the lack."""
    memory = use.memory
    if memory is None:
        return None
    evidence = _pressure_text(memory, use.seconds)
    if not evidence:
        return None
    left = f"{bytes_text(memory.available_min)} of {bytes_text(memory.total)} available"
    return Limit("memory-pressure", "memory", f"{evidence}; at least {left}")


def _pressure_text(memory: MemoryUse, seconds: float) -> str:
    if memory.oom_kills:
        return (
            f"the kernel ended {counted(memory.oom_kills, 'task')} for lack of memory"
        )
    if memory.pressure is not None:
        if memory.pressure < t.PRESSURE:
            return ""
        return (
            f"tasks waited for memory {share_text(memory.pressure)} of the time (PSI)"
        )
    if memory.scanned_direct / seconds < t.DIRECT_SCANS_PER_S:
        return ""
    return f"tasks looked through {memory.scanned_direct:,} pages for free memory"
