"""Who used the CPUs in a window, how long tasks waited for one, and to which CPUs a trial was confined."""

from __future__ import annotations

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
# Purpose: what the limits of CPUs are judged by. Decision: threads of the kernel and
# interrupts serve other processes, so they count as no load; a known server beside a
# load generator is taken for its target, even if it was not named as one.


class CpuShares(msgspec.Struct, frozen=True):
    """CPU time of a window by who had it [cores]."""

    count: int
    busy: float
    steal: float
    own: float | None
    target: float
    """Of the targets, and of a server that is taken for one."""
    neighbours: float | None
    """Of others, without the kernel's threads and that server; None: not known."""

    @property
    def trial(self) -> float | None:
        """Of the trial and what it drives."""
        return None if self.own is None else self.own + self.target

    @property
    def full(self) -> bool:
        """Whether hardly any CPU time was left."""
        return self.busy + self.steal >= t.ALL_CPUS * self.count

    @property
    def filled(self) -> bool:
        """Whether it was the trial, more than all others, that left none."""
        return self.full and (self.trial or 0.0) >= 0.5 * self.busy

    @property
    def idle(self) -> float:
        """Left to anybody [cores]."""
        return max(self.count - self.busy - self.steal, 0.0)


def cpu_shares(use: ResourceUse) -> CpuShares | None:
    """Return who used the CPUs; None where they were not seen."""
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
    """Return what the processes used that a generator is likely to drive [cores]: of a
    server of many processes all, not only those that are among the busiest."""
    listed = sum(task.share for task in served_by_others(use))
    if not _has_generator(use):
        return listed
    whole = sum(program.share for program in use.programs if is_server(program.name))
    return max(listed, whole)


def _has_generator(use: ResourceUse) -> bool:
    return any(task.of == "own" and is_generator(task.name) for task in use.tasks)


def served_by_others(use: ResourceUse) -> tuple[TaskUse, ...]:
    """Return the processes that a generator of the own tree is likely to drive."""
    if not _has_generator(use):
        return ()
    return tuple(task for task in use.others if is_server(task.name))


def drives_another(use: ResourceUse) -> bool:
    """Return whether the own tree is seen to drive a server: a target or one beside it that
    worked, or one that is not seen, at the other end of a network."""
    found = cpu_shares(use)
    driven = [task for task in use.tasks if task.of == "target"]
    served = max(found.target if found else 0.0, sum(task.share for task in driven))
    if served >= t.DRIVEN_CORES:
        return True
    generators = [
        task.share
        for task in use.tasks
        if task.of == "own"
        and is_generator(task.name)
        and not may_drive_nothing(task.name)
    ]
    packets = sum(
        max(n.send_packets_per_s, n.receive_packets_per_s) for n in use.networks
    )
    return packets > 0 and packets >= t.DRIVEN_PACKETS_PER_S * sum(generators) > 0


def is_whole(task: TaskUse, seconds: float) -> bool:
    """Return whether a thread did hardly anything but run, in a window of so many seconds.

    One that was always ready to run, and hardly ever waited for a CPU, is too.
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
    """Return how much a thread ran, and ran or wanted to, of the time it was there."""
    life = min(task.seen_s or seconds, seconds)
    ran = task.busiest_share or min(task.share * seconds / life, 1.0)
    return ran, ran + (task.waiting or 0.0) * seconds / life


def whole_threads(use: ResourceUse, *, late: bool = False) -> tuple[TaskUse, ...]:
    """Return the threads that used a whole CPU each.

    Our engine's spin until the next operation is due; they count only where it fell
    behind its schedule (`late`).
    """
    return tuple(
        task
        for task in use.tasks
        if is_whole(task, use.seconds)
        and not polls(task.name)
        and (late or not spins(task))
    )


def spins(task: TaskUse) -> bool:
    """Return whether a thread is our engine's, which is busy while it has nothing to do."""
    return task.of == "own" and is_engine(task.name)


def waited(use: ResourceUse) -> float | None:
    """Return which share of their lives the trial's threads waited for a CPU, each
    weighted with the time that it wanted one.

    None where the threads that were seen are not most of the trial, or no waiting is
    told. A sum over threads would make much of many that mostly wait for a disk.
    """
    tasks = [task for task in use.tasks if task.waiting is not None]
    if not tasks or use.cpu is None:
        return None
    work = (use.cpu.own or 0.0) + (use.cpu.target or 0.0)
    if sum(task.share for task in tasks) < 0.5 * work:
        return None
    weights = [_wanted(task) for task in tasks]
    lives = [_waited_of_life(task, use.seconds) for task in tasks]
    total = sum(weights)
    if not total:
        return 0.0
    return sum(w * life for w, life in zip(weights, lives, strict=True)) / total


def wanted(use: ResourceUse) -> float:
    """Return the time that the trial's threads ran or wanted to [cores]."""
    return sum(map(_wanted, use.tasks))


def pressing(use: ResourceUse, found: CpuShares) -> float:
    """Return which share of their lives the trial's threads ran or wanted to, each weighted
    with that time; of short-lived processes, what they wanted, at most 1."""
    weights = [_wanted(task) for task in use.tasks]
    if waited(use) is None or not sum(weights):
        return min(demanded(use, found), 1.0)
    lives = (min(task.seen_s or use.seconds, use.seconds) for task in use.tasks)
    pressed = [
        weight * min(weight * use.seconds / life, 1.0)
        for weight, life in zip(weights, lives, strict=True)
    ]
    return sum(pressed) / sum(weights)


def demanded(use: ResourceUse, found: CpuShares) -> float:
    """Return how many CPUs the trial's threads would have used, had each had one.

    By the threads that were seen where they are most of it, else by the run queue, of
    which it has the part that it has of the time.
    """
    trial, ran = found.trial or 0.0, sum(task.share for task in use.tasks)
    if waited(use) is not None and ran:
        return trial * wanted(use) / ran
    if use.cpu is None or use.cpu.runnable is None or not found.busy:
        return trial
    return use.cpu.runnable * trial / found.busy


def _wanted(task: TaskUse) -> float:
    return task.share + (task.waiting or 0.0)


def _waited_of_life(task: TaskUse, seconds: float) -> float:
    waiting = task.waiting or 0.0
    if not task.seen_s or task.seen_s >= seconds:
        return min(waiting, 1.0)
    return min(waiting * seconds / task.seen_s, 1.0)


# --------------------------------------------------------------------------------------
# The few CPUs that a trial is kept on, by a cpuset or as it looks by an
# affinity.
#
# Purpose: what fills them is no matter of the machine, and what others do elsewhere is none
# of theirs. Decision: a cgroup reports its cpuset; an affinity is not reported, so it is inferred from
# threads that wait while CPUs stand idle, which no scheduler leaves so by chance.


class AllowedCpus(msgspec.Struct, frozen=True):
    """CPUs that a cpuset allows, fewer than the machine has."""

    cpus: tuple[int, ...]
    trial: float
    """Used by what it holds of the trial and its target [cores]."""
    busy: float | None
    """Used of them by any program [cores]; None: not reported."""

    @property
    def others(self) -> float:
        """Used of them by any other program [cores]."""
        return max((self.busy or 0.0) - self.trial, 0.0)

    @property
    def full(self) -> bool:
        """Whether hardly any of their time was left."""
        most = max(self.busy or 0.0, self.trial)
        return most >= t.ALL_CPUS * len(self.cpus)

    @property
    def filled(self) -> bool:
        """Whether it was the trial that left none."""
        return self.full and self.trial >= t.TRIAL_SHARE * (self.busy or 0.0)


def allowed_cpus(use: ResourceUse) -> tuple[AllowedCpus, ...]:
    """Return the cpusets of the trial and its target; empty where they may use all."""
    cpu = use.cpu
    if cpu is None:
        return ()
    held: dict[tuple[int, ...], set[str]] = {}
    for group in use.cgroups:
        if 0 < len(group.cpus) < cpu.count:
            held.setdefault(group.cpus, set()).add(group.of)
    return tuple(_allowed_cpus(cpus, whose, cpu) for cpus, whose in held.items())


def _allowed_cpus(cpus: tuple[int, ...], whose: set[str], cpu: CpuUse) -> AllowedCpus:
    trial = sum(
        used or 0.0
        for of, used in (("own", cpu.own), ("target", cpu.target))
        if of in whose
    )
    told = max(cpus) < len(cpu.each)
    return AllowedCpus(
        cpus, trial, sum(cpu.each[place] for place in cpus) if told else None
    )


def confined_to(use: ResourceUse, found: CpuShares) -> tuple[int, ...]:
    """Return the busy CPUs, some of which are all that the trial looks to have;
    empty where it does not look so."""
    cpu, waiting = use.cpu, waited(use)
    if cpu is None or waiting is None or found.trial is None:
        return ()
    if found.idle < t.IDLE_CORES or waiting < t.CONFINED:
        return ()
    return tuple(place for place, share in enumerate(cpu.each) if share >= t.WHOLE_CPU)


def fills(trial: float, busy: int) -> bool:
    """Return whether a trial had whole CPUs of so many busy ones to itself."""
    whole = round(trial)
    some = 1 <= whole <= busy and abs(trial - whole) <= 0.1 * whole
    return some or trial >= t.WHOLE_CPU * busy
