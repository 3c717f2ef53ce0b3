"""CPU time in a window: who used it, how long tasks waited for it, and a trial's allowed CPUs."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from benchwright.core.resource_use import CpuUse, ResourceUse, TaskUse
from benchwright.findings import thresholds as t
from benchwright.findings.programs import (
    is_engine,
    is_generator,
    is_kernel,
    is_server,
    may_drive_nothing,
    polls,
)

# -- Who used the CPUs in a window, and how long tasks waited for one ------------
#
# Purpose: the figures behind the limits of CPUs. Decision: threads of the kernel and
# interrupts serve other processes, so they do not count as load; a known server next to a
# load generator counts as its target, even if it was not named as one.


class CpuShares(msgspec.Struct, frozen=True):
    """CPU time of a window by its user [cores]."""

    count: int
    busy: float
    steal: float
    own: float | None
    target: float
    """Used by the targets and by a server that counts as one."""
    neighbours: float | None
    """Used by others, without the kernel's threads and that server; None: not known."""

    @property
    def trial(self) -> float | None:
        """Used by the trial and what it drives."""
        return None if self.own is None else self.own + self.target

    @property
    def full(self) -> bool:
        """Whether hardly any CPU time was left."""
        return self.busy + self.steal >= t.ALL_CPUS * self.count

    @property
    def filled(self) -> bool:
        """Whether hardly any was left, and the trial used more than all others."""
        return self.full and (self.trial or 0.0) >= 0.5 * self.busy

    @property
    def idle(self) -> float:
        """Not used [cores]."""
        return max(self.count - self.busy - self.steal, 0.0)


def cpu_shares(use: ResourceUse) -> CpuShares | None:
    """Return who used the CPUs; None if the CPUs were not recorded."""
    cpu = use.cpu
    if cpu is None:
        return None
    served = _served(use)
    return CpuShares(
        count=cpu.count,
        busy=cpu.busy,
        steal=cpu.steal,
        own=cpu.own,
        target=(cpu.target or 0.0) + served,
        neighbours=_neighbours(use, cpu, served),
    )


def _neighbours(use: ResourceUse, cpu: CpuUse, served: float) -> float | None:
    if cpu.others is None:
        return None
    kernel = cpu.kernel
    if kernel is None:
        kernel = sum(task.share for task in use.others if is_kernel(task.name))
    return max(cpu.others - kernel - served, 0.0)


def _served(use: ResourceUse) -> float:
    """Return the CPU time of the processes that a generator probably drives [cores], with all
    processes of a server, not only those among the busiest."""
    listed = sum(task.share for task in served_by_others(use))
    if not _has_generator(use):
        return listed
    whole = sum(program.share for program in use.programs if is_server(program.name))
    return max(listed, whole)


def _has_generator(use: ResourceUse) -> bool:
    return any(task.of == "own" and is_generator(task.name) for task in use.tasks)


def served_by_others(use: ResourceUse) -> tuple[TaskUse, ...]:
    """Return the processes that a generator in the trial's own tree probably drives."""
    if not _has_generator(use):
        return ()
    return tuple(task for task in use.others if is_server(task.name))


def drives_another(use: ResourceUse) -> bool:
    """Return whether the trial's own tree drives a server: a target or another local process
    that worked, or one across the network that is not observed."""
    found = cpu_shares(use)
    driven = [task for task in use.tasks if task.of == "target"]
    served = max(found.target if found else 0.0, sum(task.share for task in driven))
    if served >= t.DRIVEN_CORES:
        return True
    generators = [
        task.share
        for task in use.tasks
        if task.of == "own" and is_generator(task.name) and not may_drive_nothing(task.name)
    ]
    packets = sum(max(n.send_packets_per_s, n.receive_packets_per_s) for n in use.networks)
    return packets > 0 and packets >= t.DRIVEN_PACKETS_PER_S * sum(generators) > 0


def is_whole(task: TaskUse, seconds: float) -> bool:
    """Return whether a thread ran nearly all the time in a window of `seconds`.

    True also for a thread that was always ready to run and hardly ever waited for a CPU.
    """
    if task.share >= t.WHOLE_CPU:
        return True
    ran, wished = _of_life(task, seconds)
    if task.share < t.SEEN_MOST:
        return False
    ready = wished >= t.WHOLE_WHILE_SEEN and ran >= t.READY_RAN
    return ran >= t.WHOLE_WHILE_SEEN or ready


def never_rests(task: TaskUse, seconds: float) -> bool:
    """Return whether a thread always ran or wanted to, and ran for most of it."""
    _ran, wished = _of_life(task, seconds)
    return task.share >= t.NEVER_RESTS_RAN and wished >= t.WHOLE_CPU


def _of_life(task: TaskUse, seconds: float) -> tuple[float, float]:
    """Return the shares of a thread's lifetime in which it ran, and in which it ran or was ready."""
    life = min(task.seen_s or seconds, seconds)
    ran = task.busiest_share or min(task.share * seconds / life, 1.0)
    return ran, ran + (task.waiting or 0.0) * seconds / life


def whole_threads(use: ResourceUse, *, late: bool = False) -> tuple[TaskUse, ...]:
    """Return the threads that used a whole CPU each.

    Threads of our engine spin until the next operation is due; they count only if the engine
    fell behind its schedule (`late`).
    """
    return tuple(
        task
        for task in use.tasks
        if is_whole(task, use.seconds) and not polls(task.name) and (late or not spins(task))
    )


def spins(task: TaskUse) -> bool:
    """Return whether a thread belongs to our engine, which is busy even without work."""
    return task.of == "own" and is_engine(task.name)


class _Share(NamedTuple):
    """How a thread, or one of the short-lived ones, spent its lifetime [shares]."""

    weight: float
    """Time that it ran or wanted to [cores]."""
    waited: float
    pressed: float
    """Ran or wanted to."""
    is_brief: bool = False


def _shares(use: ResourceUse) -> list[_Share]:
    """Return the shares of each thread's lifetime; empty if the recorded threads are not most of
    the trial, or no waiting was recorded.

    Short-lived threads are one entry: no sample saw their whole lives, nor all of them, but what
    they waited for each second that they ran is known, and so is the CPU time of all. As many are
    assumed to live at a time as were seen to, or wanted a CPU, and one at least.
    """
    tasks = [task for task in use.tasks if task.waiting is not None]
    if not tasks or use.cpu is None:
        return []
    work = (use.cpu.own or 0.0) + (use.cpu.target or 0.0)
    if sum(task.share for task in tasks) < 0.5 * work:
        return []
    brief = [task for task in tasks if _is_brief(task, use)]
    lasting = [task for task in tasks if not _is_brief(task, use)]
    shares = [_share(task, use.seconds) for task in lasting]
    if ran := sum(task.share for task in brief):
        unseen = max((work - sum(task.share for task in lasting)) / ran, 1.0)
        wanted_cores = unseen * sum(map(_wanted, brief))
        waiting = unseen * sum(task.waiting or 0.0 for task in brief)
        seen = sum(task.seen_s or 0.0 for task in brief) / use.seconds
        living = max(wanted_cores, seen, 1.0)
        shares.append(_Share(wanted_cores, waiting / living, wanted_cores / living, is_brief=True))
    return shares


def _is_brief(task: TaskUse, use: ResourceUse) -> bool:
    return task.seen_s is not None and task.seen_s < t.SHORT_LIVED * use.seconds


def _share(task: TaskUse, seconds: float) -> _Share:
    life = min(task.seen_s or seconds, seconds)
    wanted_cores, waiting = _wanted(task), task.waiting or 0.0
    return _Share(
        wanted_cores, min(waiting * seconds / life, 1.0), min(wanted_cores * seconds / life, 1.0)
    )


def waited(use: ResourceUse) -> float | None:
    """Return the share of their lifetimes that the trial's threads waited for a CPU, weighted
    by the time that each wanted one.

    None if the recorded threads are not most of the trial, or no waiting was recorded. A plain sum
    would overrate many threads that mostly wait for a disk.
    """
    shares = _shares(use)
    if not shares:
        return None
    total = sum(share.weight for share in shares)
    return sum(share.weight * share.waited for share in shares) / total if total else 0.0


def wanted(use: ResourceUse) -> float:
    """Return the time that the trial's threads ran or wanted to [cores]."""
    return sum(map(_wanted, use.tasks))


def pressing(use: ResourceUse, found: CpuShares) -> float:
    """Return the share of their lifetimes that the trial's threads ran or wanted to run, weighted
    by that time, and at least that of brief threads; if threads are not known, the CPUs that the
    trial wanted, at most 1.

    Who starts one brief process after the other waits for it meanwhile, and that is no rest.
    """
    shares = _shares(use)
    total = sum(share.weight for share in shares)
    if not total:
        return min(demanded(use, found), 1.0)
    mean = sum(share.weight * share.pressed for share in shares) / total
    return max(mean, *(share.pressed for share in shares if share.is_brief), 0.0)


def demanded(use: ResourceUse, found: CpuShares) -> float:
    """Return how many CPUs the trial's threads would have used if each had had its own.

    Computed from the recorded threads if they are most of the trial, else from the trial's part of
    the run queue, assumed to be its part of the CPU time: at most one CPU, since nothing shows that
    it would use several, unless it did, and none while all its threads slept.
    """
    trial, ran = found.trial or 0.0, sum(task.share for task in use.tasks)
    if waited(use) is not None and ran:
        return trial * wanted(use) / ran
    if use.cpu is None or use.cpu.runnable is None or not found.busy:
        return trial
    queued = use.cpu.runnable * trial / found.busy
    return min(queued, max(_awake(use, found), trial)) if trial < 1 else queued


def _awake(use: ResourceUse, found: CpuShares) -> float:
    """Return the share of the samples in which a thread of the trial ran or was ready to; 1 where
    this is not known, and with a target, whose threads are in no sample.

    The stated share of the time off the CPUs also counts what no sample saw as sleep, and for
    brief processes that is where they waited for a CPU.
    """
    off = use.off_cpu
    if off is None or not off.watched or off.watched < t.FEWEST_SAMPLES or found.target:
        return 1.0
    return 1.0 - off.samples / off.watched


def _wanted(task: TaskUse) -> float:
    return task.share + (task.waiting or 0.0)


# --------------------------------------------------------------------------------------
# The CPUs to which an affinity or a cpuset confines a trial.
#
# Purpose: a trial can fill them while the machine has idle CPUs, and other programs matter only on
# these CPUs. Decision: the kernel reports for each thread where it may run, which its cpuset limits
# too; the cpusets of cgroups remain for threads that were not reported.


class AllowedCpus(msgspec.Struct, frozen=True):
    """The CPUs that the trial or its target may use, fewer than the machine has."""

    cpus: tuple[int, ...]
    sides: frozenset[str]
    """Who is confined to them: `own`, `target`, or both."""
    trial: float
    """Used by these [cores]."""
    busy: float | None
    """Used by all programs [cores]; None: not reported."""

    @property
    def others(self) -> float:
        """Used by other programs [cores]."""
        return max((self.busy or 0.0) - self.trial, 0.0)

    @property
    def full(self) -> bool:
        """Whether hardly any CPU time was left on them."""
        most = max(self.busy or 0.0, self.trial)
        return most >= t.ALL_CPUS * len(self.cpus)

    @property
    def filled(self) -> bool:
        """Whether hardly any was left, and the trial used it."""
        return self.full and self.trial >= t.TRIAL_SHARE * (self.busy or 0.0)


def allowed_cpus(use: ResourceUse) -> tuple[AllowedCpus, ...]:
    """Return the CPUs that the trial and its target may use; empty if they may use all."""
    cpu = use.cpu
    if cpu is None:
        return ()
    held: dict[tuple[int, ...], set[str]] = {}
    for side in ("own", "target"):
        affinity = _affinity(use, side)
        groups = [group.cpus for group in use.cgroups if group.of == side]
        for cpus in [affinity] if affinity else groups:
            if 0 < len(cpus) < cpu.count:
                held.setdefault(cpus, set()).add(side)
    return tuple(_allowed_cpus(cpus, frozenset(sides), cpu) for cpus, sides in held.items())


def _affinity(use: ResourceUse, side: str) -> tuple[int, ...]:
    """Return the CPUs on which the threads of a side may run; empty if that is not known, or if
    threads that may run on all did, or wanted to do, more than a little of the work."""
    threads = [task for task in use.tasks if task.of == side]
    free = sum(_wanted(task) for task in threads if not task.cpus)
    if free > (1 - t.ALL_WHOLE) * sum(map(_wanted, threads)):
        return ()
    return tuple(sorted({place for task in threads for place in task.cpus or ()}))


def _allowed_cpus(cpus: tuple[int, ...], sides: frozenset[str], cpu: CpuUse) -> AllowedCpus:
    trial = sum(
        used or 0.0 for of, used in (("own", cpu.own), ("target", cpu.target)) if of in sides
    )
    told = max(cpus) < len(cpu.each)
    busy = sum(cpu.each[place] for place in cpus) if told else None
    return AllowedCpus(cpus, sides, trial, busy)
