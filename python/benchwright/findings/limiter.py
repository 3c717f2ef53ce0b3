"""What limited a result: the limits of each window and of most windows, or a sentence without one.

A wait is a limit too: no thread of the trial ran or was ready, because all waited for something. A
trial that neither uses a CPU nor fills a resource is limited by what it waits for.
Decision: these limits come last, because a wait is the effect of any other limit; they are named
only if the trial waited most of the time that it did not want a CPU. A load generator waits by its
nature, so its waits are only part of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.resource_use import CpuUse, ResourceUse, WaitUse
from benchwright.core.results import Figure, FindingFigures, Value, states
from benchwright.core.text import duration_text, list_text, percent_text
from benchwright.findings import limiter_cpu, limiter_io
from benchwright.findings import thresholds as t
from benchwright.findings.codes import LIMITER_CODES, SLEPT, WAITED
from benchwright.findings.cpu_time import CpuShares, allowed_cpus, cpu_shares
from benchwright.findings.limit import LimitReached, StatedCapacity
from benchwright.findings.programs import is_generator
from benchwright.findings.sentence import range_sentence, sentence

WAIT_CODES = {
    "disk": "waits-for-disk",
    "network": "waits-for-network",
    "locks": "waits-for-locks",
    "pipe": "waits-for-pipe",
    "sleep": "sleeps",
}
"""The code of each kind of wait that has one."""


def waits(use: ResourceUse) -> Iterator[LimitReached]:
    """Yield what the trial waited for most of the time in which it did not want a CPU."""
    off = use.off_cpu
    if off is None or any(task.of == "own" and is_generator(task.name) for task in use.tasks):
        return
    if off.samples < t.FEWEST_SAMPLES:
        return
    # What no sample saw run or wait for a CPU looks like waiting for something else.
    seen = off.samples / off.watched if off.watched else 1.0
    most = min(seen / off.share, 1.0) if off.share else 0.0
    ready = min(sum(task.waiting or 0.0 for task in use.tasks if task.of == "own"), 1.0)
    for wait in off.waits:
        code = WAIT_CODES.get(_kind(wait, use))
        least = max(t.WAITS_MOST * (1.0 - ready), t.WAITS_SOME)
        if code is not None and wait.share * most >= least:
            yield LimitReached(code, wait.what or wait.name, _statement(wait, use))


def what_it_waited_for(use: ResourceUse) -> dict[str, Value]:
    """Return what the trial waited for, as values of WAITED or SLEPT, or as `waits`, a text; empty
    if it hardly waited, or if that is not known."""
    off = use.off_cpu
    if off is None or off.share < t.WAITS_SOME:
        return {}
    waited = [wait for wait in off.waits if wait.share >= t.WAITS_SOME / 2]
    if len(waited) == 1:
        return _statement(waited[0], use).named
    each = [_wait_text(wait, use) for wait in waited]
    return {
        "waits": list_text(each) if each else f"it waited {percent_text(off.share)} of the time"
    }


def _kind(wait: WaitUse, use: ResourceUse) -> str:
    """Return the kind of a wait; that for completions of a ring depends on what the trial read and
    wrote, and a fault of a page waits for a disk only if pages were read."""
    losses = use.losses
    if wait.call == "page fault" and losses is not None and losses.major_faults == 0:
        return "other" if wait.kind == "disk" else wait.kind
    if wait.kind != "ring":
        return wait.kind
    io = use.own_io
    return "disk" if io is not None and io.read_bytes + io.write_bytes else "other"


def _wait_text(wait: WaitUse, use: ResourceUse) -> str:
    """Return `waited 91 % of the time for locks (python3 in futex; 20 samples)`."""
    return sentence(SLEPT if _kind(wait, use) == "sleep" else WAITED, _statement(wait, use))


def _statement(wait: WaitUse, use: ResourceUse) -> FindingFigures:
    assert use.off_cpu is not None
    kind = _kind(wait, use)
    where = f"{wait.name} in {wait.call or wait.channel}"
    of_file = kind == "disk" or wait.what.startswith("memory ")
    path = wait.what.partition(" ")[2] if of_file else ""
    if path:
        where += f" of {path}"
    if kind in ("disk", "other") and wait.call and wait.channel:
        where += f", {wait.channel}"
    if kind == "sleep" and wait.call and "nanosleep" not in wait.call:
        where += ", with a time limit"
    elif wait.threads > 1:
        where += f", up to {wait.threads} threads"
    disk, each = _disk_texts(wait, use)
    if kind == "disk" and each:
        where = f"{each}; {where}"
    whom = {"disk": disk, "network": _peer_text(wait.what), "locks": "locks", "pipe": "a pipe"}.get(
        kind, _other_text(wait)
    )
    share = Figure(min(wait.share, 1.0), "%")
    return states(
        **{"slept" if kind == "sleep" else "share": share},
        whom=None if kind == "sleep" else whom,
        detail=where,
        samples=use.off_cpu.samples,
    )


def _disk_texts(wait: WaitUse, use: ResourceUse) -> tuple[str, str]:
    """Return which disk, and how long each request took; empty if that is not known."""
    if wait.channel.startswith(("rpc_", "nfs", "request_wait_answer", "fuse")):
        return "the server of a file system", ""
    if wait.call == "page fault":
        return "pages of memory that had to be read", ""
    used = max(use.disks, key=lambda disk: disk.queue, default=None)
    if wait.threads > 1 or used is None or used.response_s is None:
        alone = ", one request at a time" if wait.threads == 1 else ""
        return f"the disk{alone}", ""
    each = f"{duration_text(used.response_s)} each"
    return f"the disk {used.name}, one request at a time", each


def _peer_text(what: str) -> str:
    address = what.partition(" ")[2]
    first, _, rest = address.partition(" ")
    if first == "listen":
        return f"connections to {rest}"
    if first == "bound":
        return f"datagrams to {rest}"
    return f"the network peer {address}" if address else "a local socket"


def _other_text(wait: WaitUse) -> str:
    if wait.call in ("wait4", "waitid", "vfork", "clone", "clone3"):
        return "another process"
    if wait.what.startswith("device "):
        return wait.what.partition(" ")[2]
    if wait.what.startswith("memory "):
        return "a file in memory"
    if "futex" in (wait.call, wait.channel.partition("_")[0]):
        return "its own threads, or for a time"
    if wait.kind == "ring":
        return "asynchronous I/O"
    if wait.call in ("rt_sigsuspend", "rt_sigtimedwait", "pause"):
        return "a signal"
    return "something else"


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
        return tuple(event for event in events if event is not None and event.event)
    kinds = [memory, *(kind(use) for kind in _KINDS)]
    kinds.append(limiter_cpu.generator_bound(use, late=known.late))
    kinds.append(limiter_cpu.single_threaded(use, late=known.late))
    kinds.append(limiter_cpu.too_few_threads(use, late=known.late))
    kinds.append(limiter_io.network_limit(use, known.capacities))
    kinds.append(limiter_io.device_limit(use, known.capacities))
    limits = [limit for limit in kinds if limit is not None]
    if all(limit.code in _BESIDE_WAITS for limit in limits):
        limits.extend(waits(use))
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
    measured: float = 1.0
    """The part of it that the stated elapsed times are; 1 if they are not stated."""

    @property
    def of_figures(self) -> bool:
        """Whether it is the time that the figures are about, and not one that has much more."""
        return self.measured >= t.MEASURED


class NamedLimit(msgspec.Struct, frozen=True):
    """A limit of most of a test, or of some of its windows."""

    limit: LimitReached
    """The limit as the longest window shows it; one that has an event, if there is one."""
    windows: tuple[WatchedWindow, ...]
    share: float
    """Share of the watched time in which it showed."""


def windows_of(trials: Sequence[Trial]) -> tuple[WatchedWindow, ...]:
    """Return the windows of a test's trials, in order, without void and warm-up trials."""
    known = {trial.epoch: trial for trial in trials}
    counted = {trial.epoch: trial for trial in trials if counts(trial)}
    windows = []
    for trial in counted.values():
        if trial.use is not None:
            first, last = trial.use.epochs
            epochs = tuple(e for e in range(first, last + 1) if e in counted)
            late = any(_is_late(counted[epoch]) for epoch in epochs)
            shot = tuple(e for e in epochs if _is_shot(counted[e]))
            those = [known[epoch] for epoch in range(first, last + 1) if epoch in known]
            measured = _measured(those or [trial], trial.use.seconds)
            window = WatchedWindow(trial.use, epochs or (trial.epoch,), late, shot, measured)
            windows.append(window)
    return tuple(windows)


def _measured(trials: Sequence[Trial], seconds: float) -> float:
    """Return which part of a window the elapsed times of its trials are, at most 1; 1 if one of
    them states none."""
    total = 0.0
    for trial in trials:
        each: dict[int, float] = {}
        for block in trial.blocks:
            if "elapsed" in block.values:
                each[block.thread] = each.get(block.thread, 0.0) + block.values["elapsed"]
        if not each:
            return 1.0
        total += max(each.values())
    return min(total / seconds, 1.0) if seconds > 0 else 1.0


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
    return tuple(sorted(most, key=lambda named_limit: rank(named_limit.limit.code)))


def _named_limit(
    found: Sequence[tuple[WatchedWindow, LimitReached]], among: Sequence[WatchedWindow]
) -> NamedLimit:
    _longest, limit = max(found, key=lambda one: (one[1].event, one[0].use.seconds))
    time = sum(window.use.seconds for window in among)
    share = sum(window.use.seconds for window, _ in found) / time
    return NamedLimit(limit, tuple(window for window, _ in found), share)


def epochs_of(windows: Sequence[WatchedWindow]) -> tuple[int, ...]:
    """Return the epochs of windows, in order."""
    return tuple(sorted({epoch for window in windows for epoch in window.epochs}))


def showing(
    windows: Sequence[WatchedWindow],
    evidence_of: Callable[[ResourceUse], FindingFigures | None],
    *,
    mostly: bool = False,
) -> tuple[FindingFigures | None, list[WatchedWindow]]:
    """Return the evidence of the longest window that has any, and all windows that do; None if
    there are none, or, with `mostly`, if they are not most of the watched time."""
    each = [(window, evidence_of(window.use)) for window in windows]
    found = [(window, shown) for window, shown in each if shown is not None]
    if not found:
        return None, []
    time = sum(window.use.seconds for window in windows)
    watched = sum(window.use.seconds for window, _ in found)
    if mostly and watched <= t.MAJORITY * time:
        return None, []
    _longest, evidence = max(found, key=lambda one: one[0].use.seconds)
    return evidence, [window for window, _ in found]


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
_IN_WINDOWS = "[ (in {some} of {total} watched windows)]"
_UNLIMITED = {
    "nothing": NOTHING,
    "short": TOO_SHORT,
    "busy": "no limit of the benchmark's own was found, but [; {cpus} {busy} busy[ (the hypervisor took {stolen:.2f})], "
    "mostly with {user} ({used:.2f}[ of {count}] CPUs)[, which is neither the benchmark's own nor named as its "
    "server; if it is the server, name it: --target-name {program}]][; the CPUs that it may use ({allowed}) "
    "were all busy][; cgroup {cgroup} was throttled by its CPU quota in {throttled} of {periods} periods][; the disk "
    "{disk} was {disk_busy} busy with {queue:.1f} requests in flight]" + _IN_WINDOWS,
    "brief": "no limit lasted for most of the watched time: {code} in {some} of {total} watched windows",
    "waits": f"no single limit: it ran or was ready to run {{ran}} of the time, and [{WAITED}][{SLEPT}][{{waits}}]"
    + _IN_WINDOWS,
    "turns": "no single limit: its threads used {used} in total, none of them a whole one, and too few samples show "
    "whether they take turns on it" + _IN_WINDOWS,
}
"""Templates (findings/sentence.py) of the sentence about a result without a limit."""


def unlimited(uses: Sequence[ResourceUse]) -> FindingFigures:
    """Return what the sentence about windows in which no limit was found says."""
    able = [use for use in uses if explainable(use)]
    if not able:
        return states("short")
    busy = [(use, shown) for use in able if (shown := what_was_busy(use))]
    if busy:
        _longest, shown = max(busy, key=lambda one: one[0].seconds)
        return states("busy", **shown, **_in_windows(len(busy), len(able)))
    found = [limits[0].code for use in able if (limits := limiters(use))]
    if found:
        most = max(dict.fromkeys(found), key=found.count)
        return states("brief", code=most, some=found.count(most), total=len(able))
    waited = [(use, shown) for use in able if (shown := what_it_waited_for(use))]
    if waited:
        longest, shown = max(waited, key=lambda one: one[0].seconds)
        ran = max(1.0 - (longest.off_cpu.share if longest.off_cpu else 0.0), 0.0)
        where = _in_windows(len(waited), len(able))
        return states("waits", ran=Figure(ran, "%"), **shown, **where)
    unclear = [use for use in able if limiter_cpu.may_take_turns(use)]
    if unclear:
        own = max(use.cpu.own or 0.0 for use in unclear if use.cpu is not None)
        where = _in_windows(len(unclear), len(able))
        return states("turns", used=Figure(own, "CPUs"), **where)
    return states("nothing")


def unlimited_text(each: Sequence[FindingFigures]) -> str | None:
    """Return what the sentences of one result, or of several, say; with the range of each figure,
    and None where they differ in more than figures."""
    first, *others = each
    template = _UNLIMITED[first.form]
    if not others:
        return sentence(template, first)
    if any(other.form != first.form for other in others):
        return None
    return range_sentence(template, each)


def _in_windows(some: int, total: int) -> dict[str, Value]:
    return {} if some == total else {"some": some, "total": total}


def what_was_busy(use: ResourceUse) -> dict[str, Value]:
    """Return what was busy in a window, and who used it; empty if nothing was."""
    return {**_cpus(use), **_quotas(use), **_disks(use)}


def _cpus(use: ResourceUse) -> dict[str, Value]:
    found, cpu = cpu_shares(use), use.cpu
    if found is None or cpu is None:
        return {}
    if found.full:
        return {
            "cpus": "the CPUs were" if found.count > 1 else "the CPU was",
            "busy": Figure(min((found.busy + found.steal) / found.count, 1.0), "%"),
            **({"stolen": found.steal} if found.steal >= 0.05 else {}),
            **({"count": found.count} if found.count > 1 else {}),
            **_main_user(use, cpu, found),
        }
    full = [allowed_cpu.cpus for allowed_cpu in allowed_cpus(use) if allowed_cpu.full]
    return {"allowed": list_text([str(place) for place in full[0]])} if full else {}


def _main_user(use: ResourceUse, cpu: CpuUse, found: CpuShares) -> dict[str, Value]:
    """Return who used most CPU time, and the name of a program that may be the server."""
    program = next(iter(use.programs), None)
    unknown = max((found.neighbours or 0.0) - sum(p.share for p in use.programs), 0.0)
    kernel = cpu.kernel or 0.0
    users = [
        (found.own or 0.0, "the benchmark itself"),
        (found.target, "its server"),
        (kernel + cpu.interrupts, "the kernel's own threads and interrupts"),
        (unknown, "short-lived or unidentified processes"),
    ]
    share, text = max(users, key=lambda one: one[0])
    if program is None or program.share < share:
        return {"user": text, "used": share}
    several = f"{program.processes} x " if program.processes > 1 else ""
    return {"user": f"{several}{program.name}", "used": program.share, "program": program.name}


def _quotas(use: ResourceUse) -> dict[str, Value]:
    full = [
        group
        for group in use.cgroups
        if group.throttled and group.throttled >= t.QUOTA_PERIODS * group.periods
    ]
    if not full:
        return {}
    worst = max(full, key=lambda group: group.throttled / max(group.periods, 1))
    return {"cgroup": worst.path, "throttled": worst.throttled, "periods": worst.periods}


def _disks(use: ResourceUse) -> dict[str, Value]:
    busy = [disk for disk in use.disks if disk.busy >= t.DISK_BUSY_ALONE]
    if not busy:
        return {}
    worst = max(busy, key=lambda disk: disk.busy)
    return {
        "disk": worst.name,
        "disk_busy": Figure(min(worst.busy, 1.0), "%"),
        "queue": worst.queue,
    }
