"""Limits of CPUs: a quota, all of them, one thread, the generator itself, steal, other processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.resource_use import (
    MOST_OTHERS,
    MOST_TASKS,
    CgroupUse,
    CpuUse,
    ResourceUse,
    TaskUse,
)
from benchwright.core.results import Figure, FindingFigures, Value, states
from benchwright.core.text import cpus_text, list_text, percent_text
from benchwright.findings import thresholds as t
from benchwright.findings.cpu_time import (
    CpuShares,
    allowed_cpus,
    cpu_shares,
    demanded,
    drives_another,
    never_rests,
    pressing,
    served_by_others,
    spins,
    waited,
    whole_threads,
)
from benchwright.findings.limit import LimitReached
from benchwright.findings.programs import (
    has_one_thread,
    is_generator,
    is_kernel,
    is_own,
    is_server,
    plain,
    polls,
)

# -- Limits of CPUs: a quota, all of them, one thread, the generator itself ------
#
# Source: Systems Performance, 12.3.2 (Bonnie++ on one thread); reference figures for each
# threshold are in thresholds.py. Non-goal: what the CPU time is spent on; a profile shows that.


def cpu_quota(use: ResourceUse) -> LimitReached | None:
    """Return the cgroup whose tasks were stopped by its quota of CPU time."""
    stopped = [group for group in use.cgroups if _is_throttled(group, use.seconds)]
    if not stopped:
        return None
    worst = max(stopped, key=lambda group: group.throttled_s)
    figures = states(
        cgroup=worst.path,
        throttled=worst.throttled,
        periods=worst.periods,
        stopped=worst.throttled_s,
        seconds=use.seconds,
        used=None if worst.cpu_used_cores is None else Figure(worst.cpu_used_cores, "CPUs"),
        limit=worst.cpu_limit_cores,
    )
    return LimitReached("throttled-by-cgroup-quota", worst.path, figures)


def _is_throttled(group: CgroupUse, seconds: float) -> bool:
    """Return whether a quota stopped a cgroup's tasks for a relevant time.

    The kernel sums the time over the CPUs on which they were stopped.
    """
    stopped_s = group.throttled_s / max(1.0, group.cpu_limit_cores or 1.0)
    return (
        group.throttled > 0
        and group.throttled >= t.QUOTA_PERIODS * group.periods
        and stopped_s >= t.QUOTA_STOPPED * seconds
    )


def cpu_steal(use: ResourceUse) -> LimitReached | None:
    """Return the hypervisor, if it took CPU time that was wanted."""
    share, found = stolen(use, t.STEAL_CORES), cpu_shares(use)
    if share is None or found is None:
        return None
    cost = share * pressing(use, found)
    if cost < t.OTHERS_COST:
        return None
    return LimitReached("steal", "cpu", steal_statement(use, share, cost))


def stolen(use: ResourceUse, least: float) -> float | None:
    """Return the stolen share of the wanted CPU time; None below `least` [cores], and for a trial
    that hardly wanted a CPU, because then others lost the time."""
    if use.cpu is None or use.cpu.steal < least:
        return None
    own = use.cpu.own
    if own is not None and own + (use.cpu.target or 0.0) < t.STEAL_WANTED:
        return None
    return use.cpu.steal / (use.cpu.busy + use.cpu.steal)


def steal_statement(use: ResourceUse, share: float, cost: float | None = None) -> FindingFigures:
    """Return the evidence of CPU steal; `cost`: the share of the elapsed time that it took."""
    cpu = use.cpu
    assert cpu is not None
    return states(
        share=Figure(share, "%"),
        stolen=Figure(cpu.steal, "CPUs"),
        cost=None if cost is None else Figure(cost, "%"),
    )


def cpu_saturated(use: ResourceUse) -> LimitReached | None:
    """Return the CPUs, if all that the trial may use were busy, mostly with the trial.

    If others used more than the trial, they are the cause, even if the trial would have filled
    the CPUs alone.
    """
    found = cpu_shares(use)
    if found is None:
        return None
    others_more = (found.neighbours or 0.0) > (found.trial or 0.0)
    if not found.full or others_more or not _of_the_trial(use, found):
        return _kept_full(use, found)
    figures = states(
        busy=Figure(found.busy, "CPUs"),
        count=found.count,
        trial=found.trial,
        runnable=_runnable(use),
    )
    return LimitReached("cpu-saturated", "cpu", figures)


def _runnable(use: ResourceUse) -> float | None:
    return None if use.cpu is None else use.cpu.runnable


def _of_the_trial(use: ResourceUse, found: CpuShares) -> bool:
    """Return whether the trial filled the CPUs, or would have without others."""
    if demanded(use, found) >= t.ALL_CPUS * found.count:
        return True
    if found.neighbours is not None:
        return found.neighbours <= (1 - t.TRIAL_SHARE) * found.busy
    return found.own is None or (found.trial or 0.0) >= t.TRIAL_SHARE * found.busy


def _kept_full(use: ResourceUse, found: CpuShares) -> LimitReached | None:
    """Return the few CPUs that the trial may use, if it filled them."""
    full = [allowed_cpu for allowed_cpu in allowed_cpus(use) if allowed_cpu.filled]
    if not full:
        return None
    least = min(full, key=lambda cpus: len(cpus.cpus))
    figures = states(
        "cpuset",
        trial=Figure(least.trial, "CPUs"),
        cpus=len(least.cpus),
        idle=Figure(found.idle, "CPUs"),
        count=found.count,
        runnable=_runnable(use),
    )
    return LimitReached("cpu-saturated", "cpuset", figures)


def generator_bound(use: ResourceUse, *, late: bool = False) -> LimitReached | None:
    """Return the load generator, if it was at its own limit, and not what it drives."""
    of_generator = [
        task
        for task in use.tasks
        if task.of == "own" and is_generator(task.name) and (late or not spins(task))
    ]
    unresting = [task for task in of_generator if never_rests(task, use.seconds)]
    if not unresting or not drives_another(use):
        return None
    servers = served_by_others(use)
    targets = [task for task in use.tasks if _is_driven(task)]
    if any(never_rests(task, use.seconds) for task in targets) or any(
        _may_be_full(task, use) for task in servers
    ):
        return None
    name = plain(unresting[0].name)
    rest = max(servers, key=lambda task: task.share, default=None)
    target = None if use.cpu is None or rest is not None else use.cpu.target
    figures = states(
        **_threads(unresting),
        server=None if rest is None else rest.name,
        served=None if rest is None else rest.share,
        target=None if target is None else Figure(target, "CPUs"),
    )
    return LimitReached("generator-bound", name, figures)


def _may_be_full(server: TaskUse, use: ResourceUse) -> bool:
    """Return whether a server's process may be at its own limit.

    Its threads are not observed: a process with one thread is at its limit with a whole CPU; one
    with many threads only if no CPU was left.
    """
    if server.share < t.WHOLE_CPU:
        return False
    found = cpu_shares(use)
    full = found is None or found.full
    return full or server.share <= t.ONE_PROCESS or has_one_thread(server.name)


def _is_driven(task: TaskUse) -> bool:
    """Return whether a generator drives a thread: it belongs to a target, or to a known server in
    the trial's own tree, as when a search starts both."""
    return task.of == "target" or (is_server(task.name) and not is_generator(task.name))


def single_threaded(use: ResourceUse, *, late: bool = False) -> LimitReached | None:
    """Return the thread that used a whole CPU while other CPUs were free."""
    found = cpu_shares(use)
    if found is None or found.count < 2 or not _room(use, found):
        return None
    if _kept_full(use, found) is not None:
        return None
    whole = whole_threads(use, late=late)
    free: dict[str, Value] = {"idle": Figure(found.idle, "CPUs"), "count": found.count}
    if whole:
        whole = _few(whole, use, late=late)
        if not whole:
            return None
        figures = states(**_threads(whole), **free)
        return LimitReached("single-threaded-cpu-bound", plain(whole[0].name), figures)
    free["used"] = Figure(found.own or 0.0, "CPUs")
    if _one_at_a_time(use):
        figures = states("processes", **free)
    elif takes_turns(use) and use.off_cpu is not None:
        off = use.off_cpu
        figures = states("turns", alone=off.alone, watched=off.watched, **free)
    else:
        return None
    return LimitReached("single-threaded-cpu-bound", "cpu", figures)


def too_few_threads(use: ResourceUse, *, late: bool = False) -> LimitReached | None:
    """Return the threads that did nearly all work of a side, trial or target, and each used a
    whole CPU, while other CPUs were free."""
    found = cpu_shares(use)
    if found is None or found.idle < t.IDLE_CORES:
        return None
    if not _room(use, found) or _kept_full(use, found) is not None:
        return None
    for of in ("target", "own"):
        whole = [task for task in whole_threads(use, late=late) if task.of == of]
        number = _all_whole(whole, use, of, late=late)
        if number > t.FEW_THREADS:
            shares = [task.share for task in whole]
            figures = states(
                threads=number,
                side="the target" if of == "target" else "the trial",
                share=Figure(min(shares), "%", max(shares)),
                idle=Figure(found.idle, "CPUs"),
                count=found.count,
            )
            return LimitReached("too-few-threads", plain(whole[0].name), figures)
    return None


def _all_whole(whole: Sequence[TaskUse], use: ResourceUse, of: str, *, late: bool) -> int:
    """Return the number of whole threads that do nearly all work of a side; 0 if others work too.

    A resource use contains only the busiest threads: if these are all whole, the number of
    working threads and the side's CPU time show whether the others are whole too.
    """
    if not whole:
        return 0
    work = _work(use, of, late=late)
    if sum(task.share for task in whole) >= t.ALL_WHOLE * work:
        return len(whole)
    if len(whole) < MOST_TASKS or use.working is None:
        return 0
    working = use.working[1 if of == "target" else 0]
    return working if work >= t.ALL_WHOLE * working else 0


def _few(whole: Sequence[TaskUse], use: ResourceUse, *, late: bool) -> tuple[TaskUse, ...]:
    """Return the whole threads of a side, trial or target, if its other threads hardly work.

    Empty for many whole threads, of which no single one is the limit.
    """
    task_uses: tuple[TaskUse, ...] = ()
    for of in ("target", "own"):
        mine = tuple(task for task in whole if task.of == of)
        least = t.THREADS_SHARE * _work(use, of, late=late)
        if len(mine) <= t.FEW_THREADS and sum(task.share for task in mine) >= least:
            task_uses += mine
    return tuple(sorted(task_uses, key=lambda task: -task.share))


def _work(use: ResourceUse, of: str, *, late: bool) -> float:
    """Return the CPU time of a side without spinning threads [cores]."""
    if use.cpu is None:
        return 0.0
    idle = sum(task.share for task in use.tasks if task.of == of and _waits_busy(task, late=late))
    return max(((use.cpu.own if of == "own" else use.cpu.target) or 0.0) - idle, 0.0)


def _waits_busy(task: TaskUse, *, late: bool) -> bool:
    """Return whether a thread is busy while it waits for work."""
    return polls(task.name) or (spins(task) and not late)


def _room(use: ResourceUse, found: CpuShares) -> bool:
    """Return whether another thread would have had a CPU: one was idle, or another program used
    it."""
    return not (found.full and _of_the_trial(use, found))


def _threads(tasks: Sequence[TaskUse]) -> dict[str, Value]:
    """Return the values of `thread gzip used 99 % of a CPU`, for one or a few threads."""
    names = [("the target's " if task.of == "target" else "") + task.name for task in tasks]
    if len(tasks) == 1:
        return {"thread": names[0], "share": Figure(tasks[0].share, "%")}
    each = [
        f"{name} used {percent_text(task.share)}" for name, task in zip(names, tasks, strict=True)
    ]
    return {"threads": list_text(each, 3)}


def _alone(use: ResourceUse, cpu: CpuUse) -> bool:
    """Return whether no second process of the trial wanted a CPU at the same time.

    Computed from the run queue less the other programs, as if each had a CPU. If many share one,
    the run queue shows nothing, but the waiting of the threads does.
    """
    others = max(cpu.busy - (cpu.own or 0.0), 0.0)
    waiting = waited(use)
    if others >= t.GROUP_CORES and waiting is not None:
        return waiting < t.WAITED
    return cpu.runnable is not None and cpu.runnable - others <= t.RUNNABLE_ALONE


def uses_one_cpu(use: ResourceUse) -> bool:
    """Return whether the trial's threads together used the time of one CPU."""
    if use.cpu is None or use.cpu.own is None:
        return False
    least, most = t.ONE_AT_A_TIME
    return least <= use.cpu.own <= most


def takes_turns(use: ResourceUse) -> bool | None:
    """Return whether the trial's threads used one CPU's time by turns, as under one lock, and did
    not work part of the time each, which adds up to that by chance; None if samples do not show it.
    """
    off = use.off_cpu
    if off is None or off.watched is None or off.watched < t.TURNS_SAMPLES:
        return None
    return uses_one_cpu(use) and off.alone >= t.TURNS * off.watched


def may_take_turns(use: ResourceUse) -> bool:
    """Return whether threads used one CPU's time, and samples do not show whether by turns."""
    return uses_one_cpu(use) and takes_turns(use) is None


def _one_at_a_time(use: ResourceUse) -> bool:
    """Return whether short-lived processes ran one after the other and used one CPU's time.

    False for long-lived threads that each work part of the time: samples show whether these take
    turns.
    """
    cpu = use.cpu
    if cpu is None or cpu.own is None:
        return False
    if not uses_one_cpu(use) or not _alone(use, cpu):
        return False
    own = [task for task in use.tasks if task.of == "own"]
    lasting = [
        task for task in own if task.seen_s is None or task.seen_s >= t.SHORT_LIVED * use.seconds
    ]
    if len(own) >= MOST_TASKS and 2 * len(lasting) > len(own):
        return False
    return sum(task.share for task in lasting) <= 0.3 * cpu.own


# -- Other programs as a limit: they used the CPUs that a trial waited for -------
#
# Purpose: the cost of others, as a share of the elapsed time. Decision: a trial loses to others
# the CPU time that it wanted and could have had on the CPUs that it may use, at most what they
# used; waiting of its own threads for each other is no loss. The waiting of threads alone would
# overrate a trial with more threads than CPUs; the use by others alone, an idle trial.


class _ProgramGroup(msgspec.Struct, frozen=True):
    """CPUs that the trial shared with others."""

    count: int
    trial: float
    others: float
    foreign: float
    """CPU time used by others, the kernel's threads and the watcher together [cores]."""


def noisy_neighbour(use: ResourceUse) -> LimitReached | None:
    """Return the other programs, if they cost the trial a relevant share of its time."""
    found = cpu_shares(use)
    if found is None or found.neighbours is None:
        return None
    waiting = _waiting(use, found)
    crowds = list(_program_groups(use, found))
    if not waiting or not crowds:
        return None
    worst = max(crowds, key=lambda crowd: _cost(crowd, use, found))
    cost = _cost(worst, use, found)
    if cost < t.OTHERS_COST:
        return None
    named = list(_named(use))
    names = ", ".join((*named, *_not_identified(worst.others, use)))
    some = "the busiest: " if len(use.others) >= MOST_OTHERS else ""
    if named and worst.count < found.count:
        some = f"on all CPUs, {some}"  # On which of them a program ran is not recorded.
    figures = states(
        cost=Figure(cost, "%"),
        used=Figure(worst.others, "CPUs"),
        count=worst.count,
        whom=f"{some}{names}" if names else None,
        **waiting,
    )
    return LimitReached("noisy-neighbour", "cpu", figures)


def _cost(crowd: _ProgramGroup, use: ResourceUse, found: CpuShares) -> float:
    """Return the share of the elapsed time that others on the CPUs of `crowd` cost.

    The trial lost the CPU time that it wanted and could have had, beyond what it had. Others
    caused the part of this loss that is their part of the CPU time not used by the trial, at most
    what they used. Time in which the trial's threads wanted no CPU is not a loss: no more time can
    be lost than all threads together waited.
    """
    wished = demanded(use, found) - _stopped(use)
    lost = min(wished, _most(crowd, use)) - crowd.trial
    if lost <= 0 or not crowd.others:
        return 0.0
    lost *= crowd.others / max(crowd.foreign, crowd.others)
    lost = min(lost, crowd.others)
    return min(lost / (crowd.trial + lost) * pressing(use, found), lost)


def _most(crowd: _ProgramGroup, use: ResourceUse) -> float:
    """Return the CPU time that the trial could have had alone on the CPUs of `crowd` [cores]."""
    quotas = [
        group.cpu_limit_cores
        for group in use.cgroups
        if group.of == "own" and group.cpu_limit_cores is not None
    ]
    driven = (use.cpu.target or 0.0) if use.cpu is not None else 0.0
    return min([float(crowd.count), *(quota + driven for quota in quotas)])


def _stopped(use: ResourceUse) -> float:
    """Return the part of the waiting that was for a quota, which a thread's waiting includes."""
    own = [group.throttled_s for group in use.cgroups if group.of == "own"]
    return max(own, default=0.0) / use.seconds


def _named(use: ResourceUse) -> Iterator[str]:
    """Yield the other programs, the largest use first: `3 x sha256sum 1.9 CPUs`."""
    served = served_by_others(use)
    shares_of: dict[str, list[float]] = {}
    for task in use.others:
        if not (is_kernel(task.name) or is_own(task.name) or task in served):
            shares_of.setdefault(task.name, []).append(task.share)
    for name, used in sorted(shares_of.items(), key=lambda one: -sum(one[1])):
        if sum(used) >= t.NAMED_CORES:
            several = f"{len(used)} x " if len(used) > 1 else ""
            yield f"{several}{name} {cpus_text(sum(used))}"


def _not_identified(others: float, use: ResourceUse) -> Iterator[str]:
    """Yield the CPU time of others that no process in the samples used, if it is most of it: that
    of processes which start and end between two samples, or that are not among the busiest."""
    served = served_by_others(use)
    known = sum(task.share for task in use.others if task not in served)
    rest = others - known
    if rest > 0.5 * others:
        many = len(use.others) >= MOST_OTHERS
        whose = "other" if many else "unidentified"
        yield f"{cpus_text(rest)} of {whose} processes, probably {'small or ' * many}short-lived"


def _program_groups(use: ResourceUse, found: CpuShares) -> Iterator[_ProgramGroup]:
    """Yield the CPUs that the trial may use and shares with others: all only if one of its sides
    may use all."""
    trial, others = found.trial or 0.0, found.neighbours or 0.0
    sets = allowed_cpus(use)
    confined = frozenset[str]().union(*(one.sides for one in sets))
    anywhere = {"own", *(("target",) if found.target else ())} - confined
    if anywhere and (found.full or (not sets and _fits(use, found))):
        yield _ProgramGroup(found.count, trial, others, found.busy - trial)
    for cpus in sets:
        if cpus.full:
            yield _ProgramGroup(len(cpus.cpus), cpus.trial, min(cpus.others, others), cpus.others)


def _fits(use: ResourceUse, found: CpuShares) -> bool:
    """Return whether each of the trial's threads could have had a CPU: then they do not wait for
    each other but for others, if not all the time.

    False if they waited while CPUs were idle, and an affinity, if there was one, was not recorded.
    """
    unknown = all(task.cpus is None for task in use.tasks)
    if unknown and found.idle >= t.IDLE_CORES and (waited(use) or 0.0) >= t.CONFINED:
        return False
    return use.working is not None and sum(use.working) <= found.count


def _waiting(use: ResourceUse, found: CpuShares) -> dict[str, Value]:
    """Return how much the trial waited for CPUs; empty if that is unknown.

    For short-lived processes only the run queue is known. A trial that wants half a
    CPU gets at least half a fair share, so one with less did not want it.
    """
    waiting = waited(use)
    if waiting is not None:
        return {"waiting": Figure(waiting, "%")}
    runnable = use.cpu.runnable if use.cpu is not None else None
    if not found.full or runnable is None or runnable < t.QUEUED * found.count:
        return {}
    fair = found.count / runnable
    if (found.trial or 0.0) < t.WANTED * fair:
        return {}
    return {"runnable": runnable, "cpus": found.count}
