"""What limited a result: the limits of each window and of most windows, or a sentence without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.resource_use import CpuUse, ResourceUse
from benchwright.core.text import cpus_text, list_text, percent_text
from benchwright.findings import limiter_cpu, limiter_io, limiter_waits
from benchwright.findings import thresholds as t
from benchwright.findings.codes import LIMITER_CODES
from benchwright.findings.cpu_time import CpuShares, allowed_cpus, cpu_shares
from benchwright.findings.limit import LimitReached, StatedCapacity

# -- The limits of one window: resources at their limit, with evidence -----------------
#
# Purpose: either some component has reached its limit, or the system was not driven to one;
# this determines which. Decision: each kind of limit is a function of one window and requires
# its own evidence; without evidence a limit is not named. The order of LIMITER_CODES determines
# which limit explains which. A window that is too short has no limit.
# Source: Systems Performance, 12.3.4; the thresholds' reasons are in thresholds.py.


class LimiterContext(msgspec.Struct, frozen=True):
    """What is known in addition to the window itself."""

    capacities: tuple[StatedCapacity, ...] = ()
    """Capacities of resources that the user states."""
    late: bool = False
    """Whether the trial's own engine reported that it fell behind its schedule."""
    shot: tuple[int, ...] = ()
    """Epochs of which a command was killed by SIGKILL."""


_KINDS: tuple[Callable[[ResourceUse], LimitReached | None], ...] = (
    limiter_cpu.noisy_neighbour,
    limiter_cpu.cpu_steal,
    limiter_cpu.cpu_quota,
    limiter_io.io_throttle,
    limiter_io.file_limit,
    limiter_io.process_limit,
    limiter_io.swapping,
    limiter_io.memory_pressure,
    limiter_io.disk_stalled,
    limiter_io.disk_saturated,
    limiter_cpu.cpu_saturated,
)


def explainable(use: ResourceUse) -> bool:
    """Return whether a window is long enough to find its limit."""
    return use.samples >= t.FEWEST_SAMPLES and use.seconds >= t.SHORTEST_S


def limiters(use: ResourceUse, seen: LimiterContext | None = None) -> tuple[LimitReached, ...]:
    """Return the limits that were reached in a window, the most explanatory first.

    Empty if there were none. A window that is too short (`explainable`) has only events.
    """
    known = seen or LimiterContext()
    memory = limiter_io.memory_limit(use, known.shot)
    if not explainable(use):
        events = (memory, limiter_io.memory_pressure(use))
        return tuple(one for one in events if one is not None and one.event)
    kinds = [memory, *(kind(use) for kind in _KINDS)]
    kinds.append(limiter_cpu.generator_bound(use, late=known.late))
    kinds.append(limiter_cpu.single_threaded(use, late=known.late))
    kinds.append(limiter_cpu.too_few_threads(use, late=known.late))
    kinds.append(limiter_io.network_limit(use, known.capacities))
    limits = [limit for limit in kinds if limit is not None]
    if all(limit.code in _BESIDE_WAITS for limit in limits):
        limits.extend(limiter_waits.waits(use))
    return tuple(sorted(limits, key=lambda limit: rank(limit.code)))


_BESIDE_WAITS = ("noisy-neighbour", "steal", "disk-saturated")
"""Limits beside which the waits of a trial say more; every other one causes waits itself."""


def rank(code: str) -> int:
    """Return a limiter's rank among the causes: one that explains more has a lower rank."""
    return _ORDER[code]


_ORDER = {code: place for place, code in enumerate(LIMITER_CODES)}


# -- The windows in which a test was watched, and the limits of most of them -----------
#
# Purpose: from trials to windows, and from windows to the limits of a test. Decision: a test's
# limit must show in most of its watched time; a single event (an error of a device) is reported
# for its windows. The trials of a search work too: each has one window.

_LATE = ("generator-late", "load-not-offered", "generator-behind")
"""Codes of the findings with which our engine reports that it fell behind its schedule."""


class WatchedWindow(msgspec.Struct, frozen=True):
    """The resource use of one trial, or of a few that were sampled together."""

    use: ResourceUse
    epochs: tuple[int, ...]
    late: bool = False
    """Whether its engine reported that it fell behind its schedule."""
    shot: tuple[int, ...] = ()
    """Its epochs of which a command was killed by SIGKILL."""


class NamedLimit(msgspec.Struct, frozen=True):
    """A limit of most of a test, or of some of its windows."""

    limit: LimitReached
    """The limit as the longest window shows it; one that has an event, if there is one."""
    epochs: tuple[int, ...]
    share: float
    """Share of the watched time in which it showed."""


def windows_of(trials: Sequence[Trial]) -> tuple[WatchedWindow, ...]:
    """Return the windows of a test's trials, in order, without void and warm-up trials."""
    counted = {trial.epoch: trial for trial in trials if counts(trial)}
    found = []
    for trial in counted.values():
        if trial.use is not None:
            first, last = trial.use.epochs
            epochs = tuple(e for e in range(first, last + 1) if e in counted)
            late = any(_is_late(counted[epoch]) for epoch in epochs)
            shot = tuple(e for e in epochs if _is_shot(counted[e]))
            window = WatchedWindow(trial.use, epochs or (trial.epoch,), late, shot)
            found.append(window)
    return tuple(found)


def counts(trial: Trial) -> bool:
    """Return whether a trial belongs to a result, even as a failed one."""
    return trial.ending is not TrialEnding.INTERRUPTED and not trial.warmup


def _is_late(trial: Trial) -> bool:
    return any(block.get("code") in _LATE for block in trial.extra_blocks)


def _is_shot(trial: Trial) -> bool:
    return any(block.status == _SHOT for block in trial.blocks)


_SHOT = 128 + 9
"""The status of a command that SIGKILL ended."""


def named_limits(
    windows: Sequence[WatchedWindow], capacities: Sequence[StatedCapacity] = ()
) -> tuple[NamedLimit, ...]:
    """Return the limits of a test, the most explanatory first.

    Windows that are too short have only events, which are named wherever they occur.
    """
    shown: dict[str, list[tuple[WatchedWindow, LimitReached]]] = {}
    for window in windows:
        limiter_context = LimiterContext(tuple(capacities), window.late, window.shot)
        for limit in limiters(window.use, limiter_context):
            shown.setdefault(limit.code, []).append((window, limit))
    able = [window for window in windows if explainable(window.use)]
    named = (_named_limit(found, able or windows) for found in shown.values())
    most = [one for one in named if one.limit.event or one.share > t.MAJORITY]
    return tuple(sorted(most, key=lambda one: rank(one.limit.code)))


def _named_limit(
    found: Sequence[tuple[WatchedWindow, LimitReached]], among: Sequence[WatchedWindow]
) -> NamedLimit:
    _longest, limit = max(found, key=lambda one: (one[1].event, one[0].use.seconds))
    time = sum(window.use.seconds for window in among)
    share = sum(window.use.seconds for window, _ in found) / time
    return NamedLimit(limit, epochs_of([window for window, _ in found]), share)


def epochs_of(windows: Sequence[WatchedWindow]) -> tuple[int, ...]:
    """Return the epochs of windows, in order."""
    return tuple(sorted({epoch for window in windows for epoch in window.epochs}))


def showing(
    windows: Sequence[WatchedWindow],
    evidence_of: Callable[[ResourceUse], str],
    *,
    mostly: bool = False,
) -> tuple[str, tuple[int, ...]]:
    """Return the evidence of the longest window that has any, and the epochs of all windows that
    do; empty if there are none, or, with `mostly`, if they are not most of the watched time."""
    told = [(window, evidence_of(window.use)) for window in windows]
    found = [(window, text) for window, text in told if text]
    if not found:
        return "", ()
    time = sum(window.use.seconds for window in windows)
    shown = sum(window.use.seconds for window, _ in found)
    if mostly and shown <= t.MAJORITY * time:
        return "", ()
    _longest, text = max(found, key=lambda one: one[0].use.seconds)
    return text, epochs_of([window for window, _ in found])


# -- The sentence about a result without a limit -------------------------------------
#
# Purpose: "no resource was saturated" is reported only if that was observed. Decision: if every
# CPU, a disk or a quota was busy, the sentence names it and its user. A busy program that belongs
# neither to the benchmark nor to a named server may be the server under test, so the sentence
# shows how to name it. If the trial waited for something, the sentence says for what.

NOTHING = "no resource was saturated"
TOO_SHORT = (
    "watched too briefly to know what limited it: a trial must last half a second or more; "
    "repeat the command within a trial, such as sh -c 'COMMAND; COMMAND; COMMAND'"
)
NONE_FOUND = "no limit of the benchmark's own was found, but"
NO_MAIN_LIMIT = "no single limit:"


def sentence(uses: Sequence[ResourceUse]) -> str:
    """Return the sentence about windows in which no limit was found."""
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
        return f"no limit lasted for most of the watched time: {shown}"
    waited = [(use, text) for use in able if (text := limiter_waits.waits_text(use))]
    if waited:
        longest, text = max(waited, key=lambda one: one[0].seconds)
        ran = percent_text(max(1.0 - (longest.off_cpu.share if longest.off_cpu else 0.0), 0.0))
        return f"{NO_MAIN_LIMIT} it ran or was ready to run {ran} of the time, and {text}{_where(len(waited), len(able))}"
    unclear = [use for use in able if limiter_cpu.may_take_turns(use)]
    if unclear:
        own = max(use.cpu.own or 0.0 for use in unclear if use.cpu is not None)
        return (
            f"{NO_MAIN_LIMIT} its threads used {cpus_text(own)} in total, none of them a whole one, and "
            f"too few samples show whether they take turns on it{_where(len(unclear), len(able))}"
        )
    return NOTHING


def _where(some: int, total: int) -> str:
    return "" if some == total else f" (in {some} of {total} watched windows)"


def what_was_busy(use: ResourceUse) -> str:
    """Return a text that says what was busy in a window, and who used it; empty if nothing was."""
    kinds: tuple[Callable[[ResourceUse], str], ...] = (_cpus, _quotas, _disks)
    return "; ".join(text for kind in kinds if (text := kind(use)))


def _cpus(use: ResourceUse) -> str:
    found, cpu = cpu_shares(use), use.cpu
    if found is None or cpu is None:
        return ""
    if found.full:
        busy = percent_text(min((found.busy + found.steal) / found.count, 1.0))
        some = f"the CPUs were {busy} busy" if found.count > 1 else f"the CPU was {busy} busy"
        stolen = f" (the hypervisor took {found.steal:.2f})" if found.steal >= 0.05 else ""
        return f"{some}{stolen}, {_with_whom(use, cpu, found)}"
    full = [allowed_cpu.cpus for allowed_cpu in allowed_cpus(use) if allowed_cpu.full]
    if full:
        names = list_text([str(place) for place in full[0]])
        return f"the CPUs that its cpuset allows ({names}) were all busy"
    return ""


def _with_whom(use: ResourceUse, cpu: CpuUse, found: CpuShares) -> str:
    """Return a text that says who used most CPU time, and how to name a server."""
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


def _of(share: float, found: CpuShares) -> str:
    return f"{share:.2f} of {found.count} CPUs" if found.count > 1 else f"{share:.2f} CPUs"


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
        f"cgroup {worst.path} was throttled by its CPU quota in {worst.throttled} of "
        f"{worst.periods} periods"
    )


def _disks(use: ResourceUse) -> str:
    busy = [disk for disk in use.disks if disk.busy >= t.DISK_BUSY_ALONE]
    if not busy:
        return ""
    worst = max(busy, key=lambda disk: disk.busy)
    return (
        f"the disk {worst.name} was {percent_text(min(worst.busy, 1.0))} busy with "
        f"{worst.queue:.1f} requests in flight"
    )
