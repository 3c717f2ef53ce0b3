"""The results of `bw quiet` as text and for JSON (available, changed and restored settings), and
the findings about a machine that bw changed: quiet settings and emptied caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.results import Finding, FindingFigures, states
from benchwright.core.text import list_text, plural, some_text
from benchwright.core.untrusted import one_line
from benchwright.features.quiet.chill_types import CacheResidency, ChillReport, ChillStop
from benchwright.features.quiet.types import (
    AS_BEFORE,
    FAILED,
    FOREIGN,
    GONE,
    SETTINGS,
    WRITTEN,
    QuietOwner,
    QuietResult,
    RestoreResult,
    RevertedChange,
    SettingChange,
)
from benchwright.findings.codes import make_finding
from benchwright.report.documents import FindingEntry, entries, finding_line

# --------------------------------------------------------------------------------------
# Findings about a machine that was made quiet: settings that were unavailable, or that other
# programs changed back.

_SHOWN = 3


def quiet_findings(quiet: QuietResult) -> tuple[Finding, ...]:
    """Return a note for each setting that was unavailable in part."""
    whys: dict[str, list[str]] = {}
    for setting in quiet.lacking:
        whys.setdefault(setting.setting, []).append(setting.why)
    return tuple(
        make_finding("quiet-incomplete", f"quiet {name}", _few(list(dict.fromkeys(why))))
        for name, why in whys.items()
    )


def restore_findings(restored: RestoreResult, *, late: bool) -> tuple[Finding, ...]:
    """Return the findings about a machine whose settings were restored.

    `late`: by another process than the one that changed them, which was killed.
    """
    return tuple(_restore_findings(restored, late))


def _restore_findings(restored: RestoreResult, late: bool) -> Iterator[Finding]:
    if late and restored.undone:
        who = f"process {restored.owner.pid}" if restored.owner.pid else "bw quiet --keep"
        boot = " before the last boot" if restored.rebooted else ""
        good = [u for u in restored.undone if u not in restored.failed]
        settings = _few(_names(good))
        shown = states(
            who=f"{who}{boot}", settings=settings, log=restored.place and str(restored.place)
        )
        yield make_finding("quiet-undone-late", "machine", shown)
    if not late:
        yield from _reverted_settings(restored.lost)
    for change in restored.foreign:
        text = (
            f"{change.change.place} was not restored: another program changed it (before: "
            f"{change.change.old!r}, bw set {change.change.new!r}, now {change.value!r})"
        )
        yield make_finding("quiet-not-restored", f"quiet {change.change.setting}", text)
    for change in restored.failed:
        text = f"{change.change.place} was not restored to {change.change.old!r}: {change.why}"
        yield make_finding("quiet-not-restored", f"quiet {change.change.setting}", text)
    if restored.log:
        yield make_finding("quiet-log-broken", "quiet log", restored.log)


def _reverted_settings(lost: Sequence[RevertedChange]) -> Iterator[Finding]:
    """Yield a finding for each setting that another program changed back before the end."""
    told: dict[str, list[str]] = {}
    for reverted_change in lost:
        change = reverted_change.change
        now = repr(reverted_change.value) if reverted_change.how == AS_BEFORE else "gone"
        text = f"{change.place} (bw set {change.new!r}, at the end it was {now})"
        told.setdefault(change.setting, []).append(text)
    for name, texts in told.items():
        text = f"reverted before the end: {_few(texts)}"
        yield make_finding("quiet-reverted", f"quiet {name}", text)


def not_restored_finding(what: str, hint: str) -> Finding:
    """Return the finding that stored settings could not be restored."""
    text = f"the stored settings were not restored: {what}"
    return make_finding("quiet-not-restored", "quiet", "; ".join(filter(None, (text, hint))))


def _names(undone: list[RevertedChange]) -> list[str]:
    return list(dict.fromkeys(u.change.setting for u in undone))


def _few(words: list[str]) -> str:
    return some_text(words, _SHOWN if len(words) > 2 * _SHOWN else len(words), "; ")


# -- Files that are still in memory after caches were emptied --------------------------

_REASONS = {
    ChillStop.RESERVE: "the reserve for other programs was reached",
    ChillStop.STEADY: "more memory did not shrink the cache",
    ChillStop.SWAP: "the kernel started to swap",
    ChillStop.MOST: "as much memory was taken as --most allows",
    ChillStop.LIMIT: "no more memory was available",
    ChillStop.KILLED: "the kernel killed it because memory ran out",
    ChillStop.EMPTY: "almost nothing was cached",
}


def chill_findings(chilled: ChillReport) -> list[Finding]:
    """Return `chill-incomplete` for each checked file that is still partly in memory or could not
    be checked, and for a file system that others kept mounted."""
    findings = [
        _warm_finding(residency, chilled)
        for residency in chilled.checked
        if residency.after_pages or residency.unread
    ]
    if chilled.kept_by:
        who = ", ".join(chilled.kept_by)
        kept = f"it is also mounted in the mount namespace of {who}: its caches remain"
        findings.append(make_finding("chill-incomplete", "remount", kept))
    return findings


def _warm_finding(one: CacheResidency, chilled: ChillReport) -> Finding:
    """Return the finding about one file; its remedy is no other method if no method can drop the
    pages."""
    finding = make_finding("chill-incomplete", one.path, _chill_evidence(one, chilled))
    if one.only_in:
        remedy = "No method drops them. Put the data on a disk, or report the result as that of data in memory."
    elif one.locked_by:
        remedy = "No method drops them. End the process that locks them, or report the result as that of data in memory."
    else:
        return finding
    return msgspec.structs.replace(finding, remedy=remedy)


def _chill_evidence(cache_residency: CacheResidency, chilled: ChillReport) -> FindingFigures:
    locked = cache_residency.locked_by if not cache_residency.only_in else ()
    squeeze = chilled.squeeze
    return states(
        after=cache_residency.after_pages,
        pages=cache_residency.pages,
        method=chilled.method,
        before=cache_residency.before_pages,
        only_in=cache_residency.only_in,
        locked_by=list_text(locked, 3) if locked else None,
        stopped=None if squeeze is None else _REASONS[squeeze.stopped],
        unread=cache_residency.unread or None,
    )


_WORDS = {
    WRITTEN: "restored",
    AS_BEFORE: "unchanged",
    GONE: "gone",
    FOREIGN: "not restored, another program changed it",
    FAILED: "NOT restored",
}


class Offer(msgspec.Struct, frozen=True):
    """Effect of one setting on this machine."""

    name: str
    now: str
    changes: int
    """Number of changes that the setting would make."""
    lacking: tuple[str, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """A transaction that is not finished."""

    owner: QuietOwner
    alive: bool
    begun_at: int
    changes: tuple[tuple[SettingChange, str], ...]
    """Each change with the present value."""


class ServerStatus(Status, frozen=True):
    """The unfinished transaction that gave a spec's server its resources."""

    log: str
    """Path of its log."""
    networks: tuple[str, ...] = ()
    """Network namespaces that its owner keeps open, each as `net:[NUMBER]`."""


def quiet_lines(quiet: QuietResult) -> Iterator[str]:
    """Yield a line for each changed setting, then findings about settings that could not be
    changed."""
    by_setting: dict[str, list[str]] = {}
    for done in quiet.done:
        change = done.change
        if change.keep:
            continue
        text = "done" if change.action else f"{change.place} {change.old} -> {done.value}"
        by_setting.setdefault(change.setting, []).append(text)
    for name, texts in by_setting.items():
        yield one_line(f"quiet: {name}: {some_text(texts, 4, '; ')}")
    for name in quiet.already:
        yield f"quiet: {name}: nothing to change"
    yield from (finding_line(quiet_finding) for quiet_finding in quiet_findings(quiet))


def restored_lines(restored: RestoreResult, *, late: bool) -> Iterator[str]:
    """Yield one line for all restored settings, and one for each that could not be restored."""
    counts: dict[str, int] = {}
    for change in restored.undone:
        if not change.change.action:
            counts[change.how] = counts.get(change.how, 0) + 1
    shown = ", ".join(f"{counts[how]} {text}" for how, text in _WORDS.items() if how in counts)
    if shown and not late:
        names = dict.fromkeys(reverted_change.change.setting for reverted_change in restored.undone)
        yield f"quiet: {shown} ({', '.join(names)})"
    yield from (
        finding_line(restore_finding) for restore_finding in restore_findings(restored, late=late)
    )


def offer_lines(offers: tuple[Offer, ...]) -> Iterator[str]:
    """Yield a table of all settings: purpose, state, missing requirements."""
    width = max(len(offer.name) for offer in offers)
    for offer in offers:
        state = f"would change {offer.changes}" if offer.changes else "nothing to change"
        if offer.lacking and not offer.changes:
            state = "not available"
        yield f"{offer.name:{width}}  {state:17}  {SETTINGS[offer.name]}"
        yield f"{'':{width}}  {'':17}  now: {one_line(offer.now)}"
        for why in offer.lacking:
            if why != offer.now:
                yield f"{'':{width}}  {'':17}  missing: {one_line(why)}"


def status_lines(status: Status | None, servers: Sequence[ServerStatus] = ()) -> Iterator[str]:
    """Yield which process holds the machine, its changes, and those for servers of specs."""
    if status is None and not servers:
        yield "nothing is changed"
    if status is not None:
        owner = status.owner
        who = f"process {_life(status)}" if owner.pid else "kept until --restore"
        yield f"held for {who}, {plural(len(status.changes), 'change')}"
        yield from _change_lines(status)
    for server in servers:
        yield f"server of bw, process {_life(server)}, {plural(len(server.changes), 'change')}"
        yield from _change_lines(server)
        for network in server.networks:
            yield f"  private network {network}: the kernel removes it with its last process"
        back = "the search undoes this when it ends, or the next bw if it is killed"
        if not server.alive:
            back = "any other bw command undoes this, such as bw quiet --restore"
        yield f"  {back}; log {one_line(server.log)}"


def _life(status: Status) -> str:
    unseen = "not visible here: it has ended, or runs in another PID namespace"
    return f"{status.owner.pid} ({'alive' if status.alive else unseen})"


def _change_lines(status: Status) -> Iterator[str]:
    for change, now in status.changes:
        if not change.action:
            shown = f"{change.setting} {change.place}: {change.old} -> {change.new}"
            yield "  " + one_line(f"{shown}, now {now}")


class QuietEntry(QuietResult, frozen=True):
    """Quieted settings, with findings."""

    findings: tuple[FindingEntry, ...] = ()


class RestoreEntry(RestoreResult, frozen=True):
    """Restored settings, with findings."""

    findings: tuple[FindingEntry, ...] = ()


class QuietDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/quiet/1"
):
    """The answer of `bw quiet`; `command` decides which members are present."""

    command: Literal["list", "status", "restore", "keep", "run"]
    settings: tuple[Offer, ...] | UnsetType = UNSET
    """`list`: all settings."""
    status: Status | UnsetType | None = UNSET
    """`status`: the unfinished transaction; null if nothing is changed."""
    servers: tuple[ServerStatus, ...] | UnsetType = UNSET
    """`status`: the unfinished transactions for servers of specs."""
    quiet: QuietEntry | UnsetType = UNSET
    """`keep`, `run`: the changed settings."""
    undone_late: RestoreEntry | UnsetType | None = UNSET
    """`keep`, `run`: settings that an earlier transaction had left changed, now restored."""
    restored: RestoreEntry | UnsetType | None = UNSET
    """`restore`, `run`: the restored settings."""
    argv: tuple[str, ...] | UnsetType = UNSET
    """`run`: the command."""
    exit_status: int | UnsetType = UNSET
    """`run`: the exit status of the command."""


def quiet_entry(quiet: QuietResult) -> QuietEntry:
    """Return the changed settings, with findings."""
    finding_entries = entries(FindingEntry, quiet_findings(quiet))
    return QuietEntry(**msgspec.structs.asdict(quiet), findings=finding_entries)


def restore_entry(restored: RestoreResult | None, *, late: bool) -> RestoreEntry | None:
    """Return the restored settings, with findings; None if there was nothing to restore."""
    if restored is None:
        return None
    finding_entries = entries(FindingEntry, restore_findings(restored, late=late))
    return RestoreEntry(**msgspec.structs.asdict(restored), findings=finding_entries)
