"""The limit that others are: they used the processors that a trial waited for.

Purpose: what others cost, as a share of the elapsed time. Decision: a trial loses to others
what it wanted and could have had of the processors that it may use, at most what they used;
its own threads' waiting for each other is no loss. Threads' waiting alone would make much
of a trial with more threads than processors, others' use alone of one that rests.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.finding import thresholds as t
from benchwright.finding.kept import confined_to, fills, kept
from benchwright.finding.limit import Limit
from benchwright.finding.machine_words import cores_text, share_text
from benchwright.finding.processors import (
    Shares,
    demanded,
    pressing,
    served_by_others,
    shares,
    waited,
)
from benchwright.finding.programs import is_kernel
from benchwright.model.watched import MOST_OTHERS, ResourceUse


class _Crowd(msgspec.Struct, frozen=True):
    """Processors that the trial shared with others."""

    count: int
    trial: float
    others: float
    foreign: float
    """Used by others, the kernel's own threads and the watcher together."""


def noisy_neighbour(use: ResourceUse) -> Limit | None:
    """Return the neighbours that cost the trial a share of its time that matters."""
    found = shares(use)
    if found is None or found.neighbours is None:
        return None
    waiting = _waiting_text(use, found)
    crowds = list(_crowds(use, found))
    if not waiting or not crowds:
        return None
    worst = max(crowds, key=lambda crowd: _cost(crowd, use, found))
    cost = _cost(worst, use, found)
    if cost < t.OTHERS_COST:
        return None
    names = ", ".join(_named(use))
    some = "the busiest: " if len(use.others) >= MOST_OTHERS else ""
    whom = f" ({some}{names})" if names else ""
    evidence = (
        f"others cost about {share_text(cost)} of elapsed: they used "
        f"{cores_text(worst.others)} of {worst.count}{whom}, and {waiting}"
    )
    return Limit("noisy-neighbour", "cpu", evidence)


def _cost(crowd: _Crowd, use: ResourceUse, found: Shares) -> float:
    """Return the share of the elapsed time that others of a crowd cost.

    What the trial wanted and might have, beyond what it had, is lost: to others the part
    that they have of what was not the trial's, and at most what they used. The time in
    which its threads wanted nothing is not longer for it.
    """
    wished = demanded(use, found) - _stopped(use)
    lost = min(wished, _most(crowd, use)) - crowd.trial
    if lost <= 0 or not crowd.others:
        return 0.0
    lost *= crowd.others / max(crowd.foreign, crowd.others)
    lost = min(lost, crowd.others)
    return lost / (crowd.trial + lost) * pressing(use, found)


def _most(crowd: _Crowd, use: ResourceUse) -> float:
    """Return what the trial could have had of a crowd's processors alone [cores]."""
    quotas = [
        group.cpu_limit_cores
        for group in use.cgroups
        if group.of == "own" and group.cpu_limit_cores is not None
    ]
    driven = (use.cpu.target or 0.0) if use.cpu is not None else 0.0
    return min([float(crowd.count), *(quota + driven for quota in quotas)])


def _stopped(use: ResourceUse) -> float:
    """Return how much of the waiting was for a quota: its time is in a thread's too."""
    own = [group.throttled_s for group in use.cgroups if group.of == "own"]
    return max(own, default=0.0) / use.seconds


def _named(use: ResourceUse) -> Iterator[str]:
    """Yield the neighbours by program, who used most first: `3 x sha256sum 1.9 processors`."""
    served = served_by_others(use)
    shares_of: dict[str, list[float]] = {}
    for task in use.others:
        if not is_kernel(task.name) and task not in served:
            shares_of.setdefault(task.name, []).append(task.share)
    for name, used in sorted(shares_of.items(), key=lambda one: -sum(one[1])):
        if sum(used) >= t.NAMED_CORES:
            several = f"{len(used)} x " if len(used) > 1 else ""
            yield f"{several}{name} {cores_text(sum(used))}"


def _crowds(use: ResourceUse, found: Shares) -> Iterator[_Crowd]:
    """Yield the processors that the trial may use, where others could stand in its way."""
    trial, others = found.trial or 0.0, found.neighbours or 0.0
    sets = kept(use)
    busy = () if sets else confined_to(use, found)
    if found.full or (not (sets or busy) and _fits(use, found)):
        yield _Crowd(found.count, trial, others, found.busy - trial)
    for one in sets:
        if one.full:
            yield _Crowd(len(one.cpus), one.trial, min(one.others, others), one.others)
    if busy and not fills(trial, len(busy)):
        foreign = max(len(busy) - trial, 0.0)
        yield _Crowd(len(busy), trial, min(others, foreign), foreign)


def _fits(use: ResourceUse, found: Shares) -> bool:
    """Tell whether each of the trial's threads could have had a processor: then they do not
    wait for each other, and others are in their way though not all the time."""
    return use.working is not None and sum(use.working) <= found.count


def _waiting_text(use: ResourceUse, found: Shares) -> str:
    """Return how the trial waited for processors; empty where that is not known.

    Of processes that come and go only the run queue is known. A trial that wants half a
    processor gets half a fair share at least, so one with less did not want it.
    """
    waiting = waited(use)
    if waiting is not None:
        return f"its threads spent {share_text(waiting)} of the time waiting for a CPU"
    runnable = use.cpu.runnable if use.cpu is not None else None
    if not found.full or runnable is None or runnable < t.QUEUED * found.count:
        return ""
    fair = found.count / runnable
    if (found.trial or 0.0) < t.WANTED * fair:
        return ""
    return f"{runnable:.1f} tasks wanted to run on {found.count}"
