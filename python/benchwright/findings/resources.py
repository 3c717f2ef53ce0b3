"""Findings from the sampler's records of a test: limits, messages, frequency, heat, packets,
figures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.resource_use import (
    KERNEL_ERROR,
    KERNEL_WARNING,
    CgroupUse,
    IoLimit,
    KernelMessage,
    ResourceUse,
)
from benchwright.core.results import Figure, Finding, FindingFigures, Severity, Value, states
from benchwright.core.text import cpus_text, epochs_text, plural, size_text
from benchwright.findings import sanity
from benchwright.findings import thresholds as t
from benchwright.findings.codes import in_trials, make_finding
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter import (
    WatchedWindow,
    counts,
    epochs_of,
    named_limits,
    showing,
    windows_of,
)
from benchwright.findings.limiter_cpu import cpu_steal, steal_statement, stolen
from benchwright.findings.limiter_io import limit_kills, uses_disk
from benchwright.findings.programs import is_generator, is_server
from benchwright.findings.result import TestResult
from benchwright.findings.sanity import (
    Claims,
    ReportedMetric,
    coarse_times,
    grain_of,
    mostly_start,
    removed_work,
    split_by_ticks,
)
from benchwright.stats.aggregate import MetricColumn, MetricRules

# --------------------------------------------------------------------------------------
# Findings about the machine itself: messages, frequency, heat, lost packets,
# changes.
#
# Each function of a window returns its evidence, None if there is none. A figure that the machine
# does not report is no evidence.

_KILL_OF_CGROUP = r"memory cgroup out of memory|CONSTRAINT_MEMCG"
_KILL_OF_ANY = r"Out of memory|oom-kill|oom_reaper"
_INTERFACE_DOWN = r"link is not ready|Link is Down|NETDEV WATCHDOG"
_KINDS_OF_TROUBLE: tuple[tuple[str, str], ...] = (
    (
        _KILL_OF_CGROUP,
        "Raise the memory limit of the cgroup, or use less memory: the kernel killed a task at that limit.",
    ),
    (
        _KILL_OF_ANY,
        "Add memory, or use less: the kernel killed a task, or looked for one to kill, for lack of memory.",
    ),
    (
        r"I/O error|critical (target|medium) error",
        "Check the device and its connection (smartctl -a, or the storage server): it failed reads or writes "
        "during the trial.",
    ),
    (
        r"EXT[234]-fs error|XFS.{0,200}(corrupt|error)|BTRFS.{0,200}error|Remounting filesystem read-only",
        "Check the file system (fsck, xfs_repair, btrfs check) and its device: it had errors during the trial.",
    ),
    (
        r"hung task|blocked for more than",
        "Find what the task waited for, a device or a server that does not answer: it was blocked for "
        "minutes.",
    ),
    (
        r"soft lockup|hard LOCKUP|detected stalls? on|self-detected stall",
        "Measure again on a machine whose CPUs run all the time: one was stuck in the kernel, or the hypervisor "
        "did not run it.",
    ),
    (
        r"Hardware Error|Machine check",
        "Check the hardware (rasdaemon, mcelog): it reported an error, so do not trust results of this machine.",
    ),
    (
        r"\bBUG\b|\bOops\b",
        "Restart the machine, and update its kernel: the kernel had an error of its own, and is no longer reliable.",
    ),
    (
        _INTERFACE_DOWN,
        "Check the link (cable, switch, driver): the interface was down or its device did not answer.",
    ),
    (r"temperature above threshold", "Cool the machine: a CPU was slowed down because of heat."),
    (
        r"table full|SYN flooding",
        "Raise the limit that the message names (net.netfilter.nf_conntrack_max, the backlog of listen), or open "
        "fewer connections.",
    ),
    (
        r"segfault",
        "Find why the program crashed (its core dump, its output in the study's logs): a trial with a crash is "
        "no result.",
    ),
)
"""Known words of messages about trouble, and what to do; the first that a message has counts."""
_TROUBLE = re.compile("|".join(words for words, _ in _KINDS_OF_TROUBLE), re.IGNORECASE)
_FLOOD = re.compile(r"SYN flooding", re.IGNORECASE)
_NETWORK_LOAD = re.compile(r"SYN flooding|table full|link is not ready", re.IGNORECASE)
"""Messages about network traffic or an interface, which may be that of another program."""
_OF_INTERFACE = re.compile(_INTERFACE_DOWN, re.IGNORECASE)
_WORD = re.compile(r"\w+(?:[.-]+\w+)*")
_OUT_OF_MEMORY = re.compile(_KILL_OF_ANY, re.IGNORECASE)


def _errors(window: WatchedWindow) -> list[KernelMessage]:
    """Return the messages about errors that concern the trial.

    Without those about a task that was killed at its cgroup's limit, which are evidence of that
    limit (limiter_io.py), and those about network traffic that the trial did not cause.
    """
    messages = _of_interest(window)
    return [message for message in messages if _is_trouble(message, window.use)]


def _of_interest(window: WatchedWindow) -> list[KernelMessage]:
    use = window.use
    limited = any(group.oom_kills for group in use.cgroups)
    limited = limited or bool(limit_kills(use, window.shot))
    for_all = any(not kill.cgroup for kill in use.killed)
    of_limit = _OF_CGROUP if for_all else _OUT_OF_MEMORY
    return [message for message in use.kernel if not (limited and of_limit.search(message.text))]


def _warnings(window: WatchedWindow) -> list[KernelMessage]:
    """Return the other messages of level 4, and errors that do not concern the trial; not those
    about the network traffic of others."""
    use = window.use
    return [
        message
        for message in _of_interest(window)
        if not _is_trouble(message, use)
        and (message.level <= KERNEL_WARNING or _TROUBLE.search(message.text))
        and (uses_network(use) or not _NETWORK_LOAD.search(message.text))
    ]


def _is_trouble(message: KernelMessage, use: ResourceUse) -> bool:
    """Return whether a message reports an error that concerns the trial."""
    known = message.level <= KERNEL_ERROR or _TROUBLE.search(message.text) is not None
    return known and _concerns(message.text, use)


_PROCESS = re.compile(
    r"(?<!\S)(?P<name>\S{1,64})\[(?P<pid>\d+)\]: segfault|Killed process (?P<killed>\d+) \((?P<its_name>[^)]{0,64})\)|"
    r"task (?P<hung>\S{1,64}):(?P<hung_pid>\d+) blocked for more than|^(?P<invoker>\S+) invoked oom-killer|"
    r"oom-kill:.{0,1000}task=(?P<victim>[^,]{0,64}),pid=(?P<victim_pid>\d+)"
)
"""Names of tasks have at most 64 characters; the bounds make a search linear."""
_OF_CGROUP = re.compile(_KILL_OF_CGROUP, re.IGNORECASE)
_DEVICE = re.compile(
    r"\b(sd[a-z]+|x?vd[a-z]+|nvme\d+n\d+|mmcblk\d+|loop\d+|dm-\d+|md\d+|sr\d+|zram\d+|"
    r"n?fd\d+|[nrd]r?bd\d+|ram\d+|pmem\d+|bcache\d+)"
)


def _concerns(text: str, use: ResourceUse) -> bool:
    """Return whether a message concerns the trial: it names one of its processes, or a device or
    interface that the trial uses; or it names none and has known words, which are about the machine
    as a whole."""
    if _OF_INTERFACE.search(text):
        words = set(_WORD.findall(text))
        return uses_network(use) and any(net.name in words for net in use.networks)
    if _NETWORK_LOAD.search(text):
        return uses_network(use) and not (_FLOOD.search(text) and _lost_no_connection(use))
    process = _PROCESS.search(text)
    if process is not None:
        if _OUT_OF_MEMORY.search(text) and not _OF_CGROUP.search(text):
            return True
        words = {word for word in process.groups() if word}
        return any(task.name in words or str(task.pid) in words for task in use.tasks)
    if _OF_CGROUP.search(text):
        return any(group.oom_kills for group in use.cgroups)
    device = _DEVICE.search(text)
    if device is not None:
        return uses_disk(device[1], use)
    return _TROUBLE.search(text) is not None or _names_own(text, use)


def _lost_no_connection(use: ResourceUse) -> bool:
    """Return whether the trial's own sockets are known to have lost no connection: the port that
    the message names is another program's, or its queue was full and nothing was lost."""
    own = use.losses
    return own is not None and not own.absent and not own.listen_drops


def _names_own(text: str, use: ResourceUse) -> bool:
    """Return whether a message names a process of the trial, or the disk of its files, in other
    words than those of `_PROCESS` and `_DEVICE`."""
    words = set(_WORD.findall(text))
    if any(name in words for name in use.devices or ()):
        return True
    return any(
        f"{task.name}[{task.pid}]" in text or f"PID: {task.pid} " in text for task in use.tasks
    )


def uses_network(use: ResourceUse) -> bool:
    """Return whether the trial has network traffic of its own: it has a target, a known load
    generator or server runs in it, or its sockets sent segments. The machine's counters of packets
    include those of all programs."""
    driven = use.cpu is not None and use.cpu.target is not None
    sent = use.losses is not None and use.losses.segments_out > 0
    return (
        driven or sent or any(is_generator(task.name) or is_server(task.name) for task in use.tasks)
    )


def frequency_within(use: ResourceUse) -> FindingFigures | None:
    """Return the evidence that the frequency of busy CPUs changed much within a window."""
    clock = use.clock
    if clock is None or not clock.frequency_min or not clock.frequency_max:
        return None
    if clock.frequency_min >= (1 - t.FREQUENCY_WITHIN) * clock.frequency_max:
        return None
    return states(frequency=Figure(clock.frequency_min / 1e9, "GHz", clock.frequency_max / 1e9))


def frequency_between(uses: Sequence[ResourceUse]) -> FindingFigures | None:
    """Return the evidence that the mean frequency differs between windows."""
    means = [
        use.clock.frequency_mean
        for use in uses
        if use.clock is not None and use.clock.frequency_mean
    ]
    if len(means) < 2 or min(means) >= (1 - t.FREQUENCY_BETWEEN) * max(means):
        return None
    low, high = Figure(min(means) / 1e9, "GHz"), Figure(max(means) / 1e9, "GHz")
    return states("between", low=low, high=high)


def heat(use: ResourceUse) -> FindingFigures | None:
    """Return the evidence that a CPU was throttled because of heat."""
    clock = use.clock
    if clock is None or not clock.thermal_throttles:
        return None
    return states(times=clock.thermal_throttles, temperature=clock.temperature_max)


def steal_evidence(use: ResourceUse) -> FindingFigures | None:
    """Return the evidence of CPU steal that is too low to be the limit."""
    share = stolen(use, t.STEAL_DOUBT_CORES)
    if share is None or share < t.STEAL_DOUBT or cpu_steal(use) is not None:
        return None
    return steal_statement(use, share)


def lost_packets(use: ResourceUse) -> FindingFigures | None:
    """Return the evidence of packets that the trial's own sockets lost, and that interfaces and the
    machine dropped while the trial used the network."""
    if not uses_network(use):
        return None
    figures = states(interfaces="; ".join(_interfaces(use)), **_sockets(use))
    return figures if figures.values else None


def _interfaces(use: ResourceUse) -> Iterator[str]:
    for network in use.networks:
        packets = (network.receive_packets_per_s + network.send_packets_per_s) * use.seconds
        if network.errors:
            yield f"{network.name}: {plural(network.errors, 'error')}"
        if network.dropped >= max(t.LOST_FEWEST, t.LOST_PACKETS * packets):
            yield f"{network.name}: {plural(network.dropped, 'packet')} dropped"


def _sockets(use: ResourceUse) -> dict[str, Value]:
    machine, own = use.sockets, use.losses
    lost: dict[str, Value] = {}
    if own is None or own.absent:
        # Whose segments these were is not known: the trial uses the network, and may be one of
        # several programs.
        if machine is not None:
            sent = machine.segments_out + machine.retransmits
            lost = _losses(
                machine.retransmits,
                sent,
                max(machine.listen_overflows, machine.listen_drops),
                machine.receive_errors,
            )
    else:
        lost = _losses(own.retransmits, own.segments_out, own.listen_drops, own.datagram_drops)
    if machine is not None and machine.softnet_dropped:
        lost["early"] = machine.softnet_dropped
    return lost


def _losses(again: int, sent: int, connections: int, datagrams: int) -> dict[str, Value]:
    """Return what sockets lost; `sent` are segments, with those sent again."""
    lost: dict[str, Value] = {}
    if again >= max(t.LOST_FEWEST, t.LOST_PACKETS * sent):
        lost |= {"again": again, "sent": sent}
    if connections:
        lost["connections"] = connections
    if datagrams >= t.LOST_FEWEST:
        lost["datagrams"] = datagrams
    return lost


def changed(uses: Sequence[ResourceUse]) -> str:
    """Return the changes of the machine between windows: CPUs, memory, limits."""
    return "; ".join(_changes(uses))


def _changes(uses: Sequence[ResourceUse]) -> Iterator[str]:
    yield from _change("CPUs", [use.cpu.count for use in uses if use.cpu is not None])
    totals = [use.memory.total for use in uses if use.memory is not None]
    if totals and min(totals) < 0.99 * max(totals):
        yield from _change("memory", [size_text(total) for total in totals])
    named = {
        limit.name for use in uses for cgroup_use in use.cgroups for limit in cgroup_use.io_limits
    }
    used = sorted(name for name in named if any(uses_disk(name, use) for use in uses))
    limits: dict[tuple[str, str], dict[str, list[str]]] = {}
    for use in uses:
        for group in use.cgroups:
            found = limits.setdefault((group.controller, group.path), {})
            for field, value in _limits_of(group, used):
                found.setdefault(field, []).append(value)
    for (_controller, path), fields in limits.items():
        for field, values in fields.items():
            yield from _change(f"{field} of cgroup {path}", values)


def _change(field: str, values: Sequence[object]) -> Iterator[str]:
    """Yield `field: old, then new`, with every value that followed another one."""
    steps = [value for value, _ in itertools.groupby(values)]
    if len(steps) > 1:
        yield f"{field}: {', then '.join(map(str, steps[:_MOST_STEPS]))}"


_MOST_STEPS = 4


def _limits_of(group: CgroupUse, disks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the limits of a cgroup, those of I/O only for these devices."""
    cores, memory = group.cpu_limit_cores, group.memory_limit
    yield "CPU limit", "none" if cores is None else cpus_text(cores)
    yield "memory limit", "none" if memory is None else size_text(memory)
    limits = {limit.name: limit for limit in group.io_limits}
    for name in disks:
        limit = limits.get(name, IoLimit(""))
        for field in ("read_bytes_per_s", "write_bytes_per_s", "reads_per_s", "writes_per_s"):
            value = getattr(limit, field)
            shown = "none" if value is None else f"{value:,.10g}"
            yield f"{field} limit on {name}", shown


def not_allowed(use: ResourceUse) -> FindingFigures | None:
    """Return what could not be observed without permission."""
    names = [
        what for what, why in use.absent if "ermission denied" in why or "not permitted" in why
    ]
    return states(what=f"not visible without permission: {', '.join(names)}") if names else None


def reason_not_watched(use: ResourceUse) -> str:
    """Return why a trial could not be watched at all; empty if it was watched, even if only by
    the samples around it."""
    why = next((why for what, why in use.absent if what == "series"), "")
    return f"not watched: {why}" if why and not use.samples else ""


# --------------------------------------------------------------------------------------
# Findings of a test from its resource use: limits, and findings about
# figures.
#
# Purpose: one call for examine.py. One finding per cause, naming its epochs. Decision: limits and
# lasting findings must hold for most of the watched time; errors are reported wherever they occur.


def _why_not(use: ResourceUse) -> FindingFigures | None:
    why = reason_not_watched(use)
    return states(what=why) if why else None


_ANYWHERE: tuple[
    tuple[str, Callable[[ResourceUse], FindingFigures | None], Severity | None], ...
] = (
    ("thermal", heat, None),
    ("frequency-changed", frequency_within, None),
    ("network-errors", lost_packets, None),
    ("not-watched", _why_not, None),
    ("not-watched", not_allowed, None),
)
_REMEDIES: dict[Callable[[ResourceUse], FindingFigures | None], str] = {
    _why_not: "What limited these trials is unknown. Remove the reason, and run them again.",
    not_allowed: "Run bw as a user with permission to read these (root), if you need them.",
}
"""Remedies of evidence to which that of its code does not apply."""
_CHANGED = (
    "Do not combine these trials: what the evidence names changed while they ran. Set it back, or keep it "
    "as it is now, and run again."
)
"""Of a change between trials, which captures at the start and the end may not show."""
_MOSTLY: tuple[tuple[str, Callable[[ResourceUse], FindingFigures | None], Severity | None], ...] = (
    ("steal", steal_evidence, Severity.NOTE),
)
_BETWEEN: tuple[tuple[str, Callable[[Sequence[ResourceUse]], str | FindingFigures | None]], ...] = (
    ("environment-changed-between-trials", changed),
    ("frequency-changed", frequency_between),
)


def resource_findings(test: TestResult, claims: Claims | None = None) -> list[Finding]:
    """Return the findings of a test about its machine."""
    name, trials, book = test.name, test.all_trials, test.rules
    windows, stated = windows_of(trials), claims or Claims()
    figures = figures_of(test.columns, book)
    return [
        *limit_findings(name, windows, len(trials), stated.capacities),
        *window_findings(name, windows, len(trials)),
        *_figure_findings(name, windows, len(trials), figures, stated),
        *_too_short(name, trials, test.columns, book, test.clock_s),
        *_partly_watched(name, trials, windows),
    ]


def figures_of(found: Mapping[str, MetricColumn], book: MetricRules) -> tuple[ReportedMetric, ...]:
    """Return the medians of the test's own metrics, not those of getrusage."""
    return tuple(
        ReportedMetric(name, median(found[name].values), book.row(name).unit)
        for name in book.shown(found)
        if not book.row(name).computed
    )


def limit_findings(
    name: str,
    windows: Sequence[WatchedWindow],
    total: int,
    capacities: Sequence[StatedCapacity] = (),
) -> list[Finding]:
    """Return a finding for each limit of a test, the most explanatory first."""
    return [
        _finding(
            limit.limit.code,
            name,
            limit.limit.figures,
            limit.windows,
            total,
            event=limit.limit.event,
        )
        for limit in named_limits(windows, capacities)
    ]


def window_findings(name: str, windows: Sequence[WatchedWindow], total: int) -> list[Finding]:
    """Return the findings from single windows and from differences between windows."""
    findings = _kernel_findings(name, windows, total)
    for code, evidence_of, severity in _ANYWHERE:
        shown, those = showing(windows, evidence_of)
        if shown is not None:
            one = _finding(code, name, shown, those, total, severity, event=code == "not-watched")
            remedy = _REMEDIES.get(evidence_of, one.remedy)
            findings.append(msgspec.structs.replace(one, remedy=remedy))
    for code, evidence_of, severity in _MOSTLY:
        shown, those = showing(windows, evidence_of, mostly=True)
        if shown is not None:
            findings.append(_finding(code, name, shown, those, total, severity))
    told = {finding.code for finding in findings}
    for code, between in _BETWEEN:
        evidence = between([window.use for window in windows])
        if evidence and code not in told:
            one = make_finding(code, name, evidence)
            remedy = _CHANGED if between is changed else one.remedy
            findings.append(msgspec.structs.replace(one, remedy=remedy))
    return findings


_OF_OTHERS = "Read the message: it need not concern the test."


def _kernel_findings(name: str, windows: Sequence[WatchedWindow], total: int) -> list[Finding]:
    """Return a finding about the errors in the kernel's log that concern the test, and a note about
    other messages."""
    findings = []
    for chosen, severity in ((_errors, None), (_warnings, Severity.NOTE)):
        messages = [
            (message, (message.epoch,) if message.epoch else window.epochs)
            for window in windows
            for message in chosen(window)
            if not message.epoch or message.epoch in window.epochs
        ]
        if not messages:
            continue
        epochs = tuple(dict.fromkeys(e for _, within in messages for e in within))
        kernel_messages = [message for message, _ in messages]
        shown = _messages(kernel_messages, tells_trial=len(epochs) > 1)
        where = _where(epochs, total)
        evidence = states(shown.form, **shown.named, where=where)
        finding = make_finding("errors-in-kernel-log", name, evidence, severity)
        remedy = _OF_OTHERS
        if chosen is _errors:
            remedy = _remedy(_gravest(kernel_messages).text) or finding.remedy
        findings.append(msgspec.structs.replace(finding, remedy=remedy))
    return findings


def _remedy(text: str) -> str:
    """Return what to do about a message; empty for one without known words."""
    kinds = (remedy for words, remedy in _KINDS_OF_TROUBLE if re.search(words, text, re.IGNORECASE))
    return next(kinds, "")


def _gravest(messages: Sequence[KernelMessage]) -> KernelMessage:
    """Return the gravest message, the earliest of several."""
    return min(messages, key=lambda message: (message.level, message.epoch, message.at_s))


def _messages(messages: Sequence[KernelMessage], *, tells_trial: bool) -> FindingFigures:
    """Return the gravest message with the number of the others."""
    first = _gravest(messages)
    return states(
        message=repr(first.text),
        after=Figure(max(first.in_trial_s if first.epoch else first.at_s, 0), "s"),
        trial=first.epoch if first.epoch and tells_trial else None,
        more=len(messages) - 1 or None,
    )


def _figure_findings(
    name: str,
    windows: Sequence[WatchedWindow],
    total: int,
    figures: Sequence[ReportedMetric],
    stated: Claims,
) -> Iterator[Finding]:
    """Yield findings about implausible figures."""
    uses = [window.use for window in windows]
    shown, those = showing(windows, sanity.from_cache, mostly=True)
    if shown is not None:
        storage = any(map(sanity.about_storage, uses)) or any(
            sanity.implied(figure, stated) is not None for figure in figures
        )
        severity = None if storage else Severity.NOTE
        yield _finding("answered-from-cache", name, shown, those, total, severity)
    for figure in figures:
        exceeded = sanity.exceeded(figure, stated, uses)
        if exceeded is not None:
            yield make_finding("exceeds-known-limit", name, exceeded)
    shown, those = showing(
        windows, lambda use: sanity.io_size(use, stated.operation_bytes), mostly=True
    )
    if shown is not None:
        yield _finding("io-size-not-as-claimed", name, shown, those, total)


def _too_short(
    name: str,
    trials: Sequence[Trial],
    columns: Mapping[str, MetricColumn],
    book: MetricRules,
    clock_s: float,
) -> Iterator[Finding]:
    found = columns
    if clock_s:
        elapsed = found["elapsed"].values if "elapsed" in found else ()
        if coarse := coarse_times(elapsed, clock_s):
            yield make_finding("work-too-short-for-the-clock", name, coarse)
    declared = [metric for metric in book.declared if metric in found]
    if "elapsed" in found and not declared:
        start = mostly_start(trials, found["elapsed"].values)
        if start is not None:
            yield make_finding("work-too-short-for-the-clock", name, start)
    parts = {"user": "system", "system": "user"}
    for part, other in parts.items():
        if part in declared and other in found:
            split = split_by_ticks(part, found[part].values, found[other].values)
            if split is not None:
                yield make_finding("work-too-short-for-the-clock", name, split)
    known = (*parts, *(("elapsed",) if clock_s else ()))
    for metric in book.shown(found):
        row, values = book.row(metric), found[metric].values
        if row.computed:
            continue
        if (removed := removed_work(metric, row.unit, values)) is not None:
            yield make_finding("work-removed", name, removed)
        if metric not in known:
            grain = grain_of(metric, row.unit, values)
            if grain is not None:
                yield make_finding("work-too-short-for-the-clock", name, grain)


_PARTLY_WATCHED = (
    "What limited these trials is unknown, but the others were watched. If they are shorter than "
    "half a second, repeat the command within a trial (sh -c 'COMMAND; COMMAND')."
)
"""Here --no-watch was not given: other trials of the same test were watched."""


def _partly_watched(
    name: str, trials: Sequence[Trial], windows: Sequence[WatchedWindow]
) -> Iterator[Finding]:
    """Yield a finding about trials that were not watched, if others were."""
    seen = {epoch for window in windows for epoch in window.epochs}
    if not seen:
        return
    missed = [trial.epoch for trial in trials if counts(trial) and trial.epoch not in seen]
    if missed:
        evidence = states("trials", **in_trials(missed, len(trials)))
        yield msgspec.structs.replace(
            make_finding("not-watched", name, evidence), remedy=_PARTLY_WATCHED
        )


def _finding(
    code: str,
    name: str,
    shown: FindingFigures,
    windows: Sequence[WatchedWindow],
    total: int,
    severity: Severity | None = None,
    *,
    event: bool = False,
) -> Finding:
    """Return a finding of these windows. Where these have much more time than the figures are about,
    it says so, and is no doubt about them, unless it is about an `event` and no share of a time."""
    seconds = sum(window.use.seconds for window in windows)
    parts = sum(window.measured * window.use.seconds for window in windows)
    measured = parts / seconds if seconds else 1.0
    part = None if event or measured >= t.MEASURED else Figure(measured, "%")
    where = _where(epochs_of(windows), total)
    figures = states(shown.form, **shown.named, part_measured=part, where=where)
    return make_finding(code, name, figures, Severity.NOTE if part else severity)


def _where(epochs: Sequence[int], total: int) -> str:
    """Return ` (trials 2, 5 (2 of 10))` or ` (all 10 trials)`; empty for a single trial."""
    if len(epochs) >= total:
        return f" (all {total} trials)" if total > 1 else ""
    return f" ({epochs_text(epochs, total)})"
