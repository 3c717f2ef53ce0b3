"""Findings from the sampler's records of a test: limits, messages, frequency, heat, packets, figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.resource_use import KernelMessage, ResourceUse
from benchwright.core.results import Finding, Severity
from benchwright.core.text import epochs_text, plural, size_text
from benchwright.findings import sanity
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter import (
    WatchedWindow,
    counts,
    named_limits,
    showing,
    windows_of,
)
from benchwright.findings.limiter_cpu import cpu_steal, steal_text, stolen
from benchwright.findings.programs import is_generator, is_server
from benchwright.findings.sanity import Claims, Figure, grain_text, start_text
from benchwright.stats.aggregate import TrialValues, metric_columns
from benchwright.stats.metric_rules import MetricRules

# --------------------------------------------------------------------------------------
# Findings about the machine itself: messages, frequency, heat, lost packets,
# changes.
#
# Each function returns its evidence as text, empty if there is none. A figure that the machine
# does not report is no evidence.

_TROUBLE = re.compile(
    r"I/O error|EXT[234]-fs error|XFS.*(corrupt|error)|BTRFS.*error|Out of memory|oom-kill|"
    r"hung task|blocked for more than|soft lockup|hard LOCKUP|Hardware Error|Machine check|"
    r"\bBUG\b|\bOops\b|Remounting filesystem read-only|link is not ready|Link is Down|"
    r"NETDEV WATCHDOG|table full|SYN flooding|segfault|critical (target|medium) error",
    re.IGNORECASE,
)
_NETWORK_LOAD = re.compile(r"SYN flooding|table full|link is not ready", re.IGNORECASE)
"""Messages about network traffic or an interface, which may be that of another program."""
_OUT_OF_MEMORY = re.compile(r"out of memory|oom-kill|oom_reaper", re.IGNORECASE)
_ERROR, _WARNING = 3, 4
"""Levels of the kernel's log (syslog(2))."""


def kernel_errors(use: ResourceUse) -> str:
    """Return the messages about errors: of level 3 or more serious, or with known words.

    Without those about a task that was killed at its cgroup's limit, which are evidence of that
    limit (limiter_io.py), and those about network traffic that the trial did not cause.
    """
    limited = any(group.oom_kills for group in use.cgroups)
    return _messages(
        [
            message
            for message in use.kernel
            if _is_trouble(message, use)
            and not (limited and _OUT_OF_MEMORY.search(message.text))
        ]
    )


def kernel_warnings(use: ResourceUse) -> str:
    """Return the other messages of level 4, and those about network traffic of others."""
    return _messages(
        [
            message
            for message in use.kernel
            if not _is_trouble(message, use)
            and (message.level == _WARNING or _NETWORK_LOAD.search(message.text))
        ]
    )


def _is_trouble(message: KernelMessage, use: ResourceUse) -> bool:
    """Return whether a message reports an error that can concern the trial.

    A trial has network traffic of its own if it has a target, or if a known load generator or
    server runs in it; the machine's counters of packets include those of all programs.
    """
    if _NETWORK_LOAD.search(message.text):
        driven = use.cpu is not None and use.cpu.target is not None
        return driven or any(
            is_generator(task.name) or is_server(task.name) for task in use.tasks
        )
    return message.level <= _ERROR or _TROUBLE.search(message.text) is not None


def _messages(kernel_messages: Sequence[KernelMessage]) -> str:
    if not kernel_messages:
        return ""
    first = min(kernel_messages, key=lambda message: (message.level, message.at_s))
    more = (
        f" and {plural(len(kernel_messages) - 1, 'more message')}"
        if len(kernel_messages) > 1
        else ""
    )
    return f"the kernel logged {first.text!r} after {max(first.at_s, 0):.1f} s{more}"


def frequency_within(use: ResourceUse) -> str:
    """Return the evidence that the frequency of busy CPUs changed much within a window."""
    clock = use.clock
    if clock is None or not clock.frequency_min or not clock.frequency_max:
        return ""
    if clock.frequency_min >= (1 - t.FREQUENCY_WITHIN) * clock.frequency_max:
        return ""
    return (
        f"busy CPUs ran at {clock.frequency_min / 1e9:.2f} to "
        f"{clock.frequency_max / 1e9:.2f} GHz"
    )


def frequency_between(uses: Sequence[ResourceUse]) -> str:
    """Return the evidence that the mean frequency differs between windows."""
    means = [
        use.clock.frequency_mean
        for use in uses
        if use.clock is not None and use.clock.frequency_mean
    ]
    if len(means) < 2 or min(means) >= (1 - t.FREQUENCY_BETWEEN) * max(means):
        return ""
    low, high = min(means) / 1e9, max(means) / 1e9
    return f"the mean frequency of busy CPUs was {low:.2f} GHz in one trial and {high:.2f} GHz in another"


def heat(use: ResourceUse) -> str:
    """Return the evidence that a CPU was throttled because of heat."""
    clock = use.clock
    if clock is None or not clock.thermal_throttles:
        return ""
    text = f"slowed down by heat {plural(clock.thermal_throttles, 'time')}"
    if clock.temperature_max is not None:
        text += f", at up to {clock.temperature_max:.0f} degrees C"
    return text


def steal_evidence(use: ResourceUse) -> str:
    """Return the evidence of CPU steal that is too low to be the limit."""
    share = stolen(use, t.STEAL_DOUBT_CORES)
    if share is None or share < t.STEAL_DOUBT or cpu_steal(use) is not None:
        return ""
    return steal_text(use, share)


def lost_packets(use: ResourceUse) -> str:
    """Return the evidence of packets that the network lost, dropped or sent again."""
    parts = [*_interfaces(use), *_sockets(use)]
    return "; ".join(parts)


def _interfaces(use: ResourceUse) -> Iterator[str]:
    for network in use.networks:
        packets = (
            network.receive_packets_per_s + network.send_packets_per_s
        ) * use.seconds
        if network.errors:
            yield f"{network.name}: {plural(network.errors, 'error')}"
        if network.dropped >= max(t.LOST_FEWEST, t.LOST_PACKETS * packets):
            yield f"{network.name}: {plural(network.dropped, 'packet')} dropped"


def _sockets(use: ResourceUse) -> Iterator[str]:
    sockets = use.sockets
    if sockets is None:
        return
    again = sockets.retransmits
    if again >= max(t.LOST_FEWEST, t.LOST_PACKETS * sockets.segments_out):
        yield f"{plural(again, 'segment')} of {sockets.segments_out:,} sent again"
    if sockets.listen_overflows or sockets.listen_drops:
        lost = max(sockets.listen_overflows, sockets.listen_drops)
        yield f"{plural(lost, 'connection')} dropped by full listen queues"
    if sockets.receive_errors >= t.LOST_FEWEST:
        yield f"{plural(sockets.receive_errors, 'datagram')} lost to full receive buffers"
    if sockets.softnet_dropped:
        yield f"{plural(sockets.softnet_dropped, 'packet')} dropped before the network stack"


def changed(uses: Sequence[ResourceUse]) -> str:
    """Return the changes of the machine between windows: CPUs, memory, limits."""
    return "; ".join(_changes(uses))


def _changes(uses: Sequence[ResourceUse]) -> Iterator[str]:
    counts = sorted({use.cpu.count for use in uses if use.cpu is not None})
    if len(counts) > 1:
        yield f"CPUs: {counts[0]} and {counts[-1]}"
    totals = sorted({use.memory.total for use in uses if use.memory is not None})
    if totals and totals[0] < 0.99 * totals[-1]:
        yield f"memory: {size_text(totals[0])} and {size_text(totals[-1])}"
    swaps = sorted({use.memory.swap_total for use in uses if use.memory is not None})
    if len(swaps) > 1:
        yield f"swap space: {size_text(swaps[0])} and {size_text(swaps[-1])}"
    yield from _quota_changes(uses)


def _quota_changes(uses: Sequence[ResourceUse]) -> Iterator[str]:
    limits: dict[tuple[str, str], dict[str, None]] = {}
    for use in uses:
        for group in use.cgroups:
            key = (group.controller, group.path)
            limit = f"{group.cpu_limit_cores}, {group.memory_limit}, {group.io_limits}"
            limits.setdefault(key, {})[limit] = None
    for (_controller, path), found in limits.items():
        if len(found) > 1:
            yield f"limits of cgroup {path}: {plural(len(found), 'kind')}"


def not_allowed(use: ResourceUse) -> str:
    """Return what could not be observed without permission."""
    names = [
        what
        for what, why in use.absent
        if "ermission denied" in why or "not permitted" in why
    ]
    return f"not visible without permission: {', '.join(names)}" if names else ""


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

_ANYWHERE: tuple[tuple[str, Callable[[ResourceUse], str], Severity | None], ...] = (
    ("errors-in-kernel-log", kernel_errors, None),
    ("errors-in-kernel-log", kernel_warnings, Severity.NOTE),
    ("thermal", heat, None),
    ("frequency-changed", frequency_within, None),
    ("network-errors", lost_packets, None),
    ("not-watched", reason_not_watched, None),
    ("not-watched", not_allowed, None),
)
_REMEDIES: dict[Callable[[ResourceUse], str], str] = {
    kernel_warnings: "Read the message: it need not concern the test.",
    reason_not_watched: "What limited these trials is unknown. Remove the reason, and run them "
    "again.",
    not_allowed: "Run bw as a user with permission to read these (root), if you need them.",
}
"""Remedies of evidence to which that of its code does not apply."""
_MOSTLY: tuple[tuple[str, Callable[[ResourceUse], str], Severity | None], ...] = (
    ("steal", steal_evidence, Severity.NOTE),
)
_BETWEEN: tuple[tuple[str, Callable[[Sequence[ResourceUse]], str]], ...] = (
    ("environment-changed-between-trials", changed),
    ("frequency-changed", frequency_between),
)


def resource_findings(
    name: str,
    trials: Sequence[Trial],
    observed: Sequence[TrialValues],
    book: MetricRules,
    claims: Claims | None = None,
) -> list[Finding]:
    """Return the findings of a test about its machine."""
    windows, stated = windows_of(trials), claims or Claims()
    figures = figures_of(observed, book)
    return [
        *limit_findings(name, windows, len(trials), stated.capacities),
        *window_findings(name, windows, len(trials)),
        *_figure_findings(name, windows, len(trials), figures, stated),
        *_too_short(name, trials, observed, book),
        *_partly_watched(name, trials, windows),
    ]


def figures_of(
    observed: Sequence[TrialValues], book: MetricRules
) -> tuple[Figure, ...]:
    """Return the medians of the test's own metrics, not those of getrusage."""
    found = metric_columns(observed, book)
    return tuple(
        Figure(name, median(found[name].values), book.row(name).unit)
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
        make_finding(
            named_limit.limit.code,
            name,
            f"{named_limit.limit.evidence}{where(named_limit.epochs, total)}",
        )
        for named_limit in named_limits(windows, capacities)
    ]


def window_findings(
    name: str, windows: Sequence[WatchedWindow], total: int
) -> list[Finding]:
    """Return the findings from single windows and from differences between windows."""
    found = []
    for code, evidence_of, severity in _ANYWHERE:
        text, epochs = showing(windows, evidence_of)
        if text:
            one = make_finding(code, name, text + where(epochs, total), severity)
            remedy = _REMEDIES.get(evidence_of, one.remedy)
            found.append(msgspec.structs.replace(one, remedy=remedy))
    for code, evidence_of, severity in _MOSTLY:
        text, epochs = showing(windows, evidence_of, mostly=True)
        if text:
            found.append(
                make_finding(code, name, text + where(epochs, total), severity)
            )
    told = {finding.code for finding in found}
    for code, between in _BETWEEN:
        text = between([window.use for window in windows])
        if text and code not in told:
            found.append(make_finding(code, name, text))
    return found


def _figure_findings(
    name: str,
    windows: Sequence[WatchedWindow],
    total: int,
    figures: Sequence[Figure],
    stated: Claims,
) -> Iterator[Finding]:
    """Yield findings about implausible figures."""
    uses = [window.use for window in windows]
    text, epochs = showing(windows, sanity.from_cache, mostly=True)
    if text:
        storage = any(map(sanity.about_storage, uses)) or any(
            sanity.implied(figure, stated) is not None for figure in figures
        )
        severity = None if storage else Severity.NOTE
        evidence = text + where(epochs, total)
        yield make_finding("answered-from-cache", name, evidence, severity)
    for figure in figures:
        text = sanity.exceeded(figure, stated, uses)
        if text:
            yield make_finding("exceeds-known-limit", name, text)
    text, epochs = showing(
        windows, lambda use: sanity.io_size(use, stated.operation_bytes), mostly=True
    )
    if text:
        yield make_finding("io-size-not-as-claimed", name, text + where(epochs, total))


def _too_short(
    name: str,
    trials: Sequence[Trial],
    observed: Sequence[TrialValues],
    book: MetricRules,
) -> Iterator[Finding]:
    found = metric_columns(observed, book)
    declared = [metric for metric in book.declared if metric in found]
    if "elapsed" in found and not declared:
        text = start_text(trials, found["elapsed"].values)
        if text:
            yield make_finding("work-too-short-for-the-clock", name, text)
    for metric in book.shown(found):
        row = book.row(metric)
        if not row.computed and metric not in ("user", "system"):
            text = grain_text(metric, row.unit, found[metric].values)
            if text:
                yield make_finding("work-too-short-for-the-clock", name, text)


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
    missed = [
        trial.epoch for trial in trials if counts(trial) and trial.epoch not in seen
    ]
    if missed:
        text = f"not watched: {epochs_text(missed, len(trials))}"
        yield msgspec.structs.replace(
            make_finding("not-watched", name, text), remedy=_PARTLY_WATCHED
        )


def where(epochs: Sequence[int], total: int) -> str:
    """Return ` (trials 2, 5 (2 of 10))` or ` (all 10 trials)`; empty for a single trial."""
    if len(epochs) >= total:
        return f" (all {total} trials)" if total > 1 else ""
    return f" ({epochs_text(epochs, total)})"
