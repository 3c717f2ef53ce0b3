"""The limit that others are: they used the processors that a trial waited for.

Decision: others are the limit only where the processors that the trial may use were full,
and where they took more of them than the trial itself had threads too many.
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
    served_by_others,
    shares,
    waited,
    wanted,
)
from benchwright.finding.programs import is_kernel
from benchwright.model.watched import MOST_OTHERS, ResourceUse


class _Crowd(msgspec.Struct, frozen=True):
    """Full processors that the trial shared with others."""

    count: int
    trial: float
    others: float


def noisy_neighbour(use: ResourceUse) -> Limit | None:
    """Return the neighbours that used much while the trial waited for a processor."""
    found = shares(use)
    if found is None or found.neighbours is None:
        return None
    crowds = [crowd for crowd in _crowds(use, found) if _matters(crowd, use, found)]
    if not crowds:
        return None
    waiting = _waiting_text(use, found)
    if not waiting:
        return None
    worst = max(crowds, key=lambda crowd: crowd.others)
    names = ", ".join(_named(use))
    evidence = f"others used {cores_text(worst.others)} of {worst.count}"
    some = "the busiest: " if len(use.others) >= MOST_OTHERS else ""
    evidence += f" ({some}{names})" if names else ""
    return Limit("noisy-neighbour", "cpu", f"{evidence}, and {waiting}")


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
    """Yield the processors that the trial may use, where they were full."""
    trial, others = found.trial or 0.0, found.neighbours or 0.0
    if found.full:
        yield _Crowd(found.count, trial, others)
    sets = kept(use)
    for one in sets:
        if one.full:
            yield _Crowd(len(one.cpus), one.trial, min(one.others, others))
    busy = () if sets else confined_to(use, found)
    if busy and not fills(trial, len(busy)):
        yield _Crowd(len(busy), trial, min(others, max(len(busy) - trial, 0.0)))


def _matters(crowd: _Crowd, use: ResourceUse, found: Shares) -> bool:
    """Tell whether others took a good part, and more than the trial wanted too much."""
    used = crowd.trial + crowd.others
    if crowd.others < max(t.OTHERS_CORES, t.OTHERS_SHARE * used):
        return False
    surplus = demanded(use, found) - crowd.count
    return surplus <= crowd.others or crowd.trial < t.TRIAL_SHARE * used


def _waiting_text(use: ResourceUse, found: Shares) -> str:
    """Return how the trial waited for processors; empty where it hardly did.

    Of processes that come and go only the run queue is known. A trial that wants half a
    processor gets half a fair share at least, so one with less did not want it.
    """
    waiting = waited(use)
    if waiting is not None:
        if wanted(use) < t.WANTED or waiting < t.WAITED:
            return ""
        return f"its threads waited {share_text(waiting)} of their time for one"
    runnable = use.cpu.runnable if use.cpu is not None else None
    if not found.full or runnable is None or runnable < t.QUEUED * found.count:
        return ""
    fair = found.count / runnable
    if (found.trial or 0.0) < t.WANTED * fair:
        return ""
    return f"{runnable:.1f} tasks wanted to run on {found.count}"
