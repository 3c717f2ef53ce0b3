"""The few processors that a trial is kept on, by a cpuset or as it looks by an affinity.

Purpose: what fills them is no matter of the machine, and what others do elsewhere is none
of theirs. Decision: a cpuset is told by its cgroup; an affinity is not, so it is taken from
threads that wait while processors stand idle, which no scheduler leaves so by chance.
"""

from __future__ import annotations

import msgspec

from benchwright.finding import thresholds as t
from benchwright.finding.processors import Shares, waited
from benchwright.model.watched import CpuUse, ResourceUse


class Kept(msgspec.Struct, frozen=True):
    """Processors that a cpuset allows, fewer than the machine has."""

    cpus: tuple[int, ...]
    trial: float
    """Used by what it holds of the trial and its target [cores]."""
    busy: float | None
    """Used of them by anybody [cores]; None: not told."""

    @property
    def others(self) -> float:
        """Used of them by anybody else [cores]."""
        return max((self.busy or 0.0) - self.trial, 0.0)

    @property
    def full(self) -> bool:
        """Whether hardly any of their time was left."""
        most = max(self.busy or 0.0, self.trial)
        return most >= t.ALL_PROCESSORS * len(self.cpus)

    @property
    def filled(self) -> bool:
        """Whether it was the trial that left none."""
        return self.full and self.trial >= t.TRIAL_SHARE * (self.busy or 0.0)


def kept(use: ResourceUse) -> tuple[Kept, ...]:
    """Return the cpusets of the trial and its target; empty where they may use all."""
    cpu = use.cpu
    if cpu is None:
        return ()
    held: dict[tuple[int, ...], set[str]] = {}
    for group in use.cgroups:
        if 0 < len(group.cpus) < cpu.count:
            held.setdefault(group.cpus, set()).add(group.of)
    return tuple(_kept(cpus, whose, cpu) for cpus, whose in held.items())


def _kept(cpus: tuple[int, ...], whose: set[str], cpu: CpuUse) -> Kept:
    trial = sum(
        used or 0.0
        for of, used in (("own", cpu.own), ("target", cpu.target))
        if of in whose
    )
    told = max(cpus) < len(cpu.each)
    return Kept(cpus, trial, sum(cpu.each[place] for place in cpus) if told else None)


def confined_to(use: ResourceUse, found: Shares) -> tuple[int, ...]:
    """Return the busy processors, some of which are all that the trial looks to have;
    empty where it does not look so."""
    cpu, waiting = use.cpu, waited(use)
    if cpu is None or waiting is None or found.trial is None:
        return ()
    if found.idle < t.IDLE_CORES or waiting < t.CONFINED:
        return ()
    return tuple(
        place for place, share in enumerate(cpu.each) if share >= t.WHOLE_PROCESSOR
    )


def fills(trial: float, busy: int) -> bool:
    """Tell whether a trial had whole processors of so many busy ones to itself."""
    whole = round(trial)
    some = 1 <= whole <= busy and abs(trial - whole) <= 0.1 * whole
    return some or trial >= t.WHOLE_PROCESSOR * busy
