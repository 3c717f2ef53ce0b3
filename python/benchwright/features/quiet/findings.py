"""Findings about a machine that bw changed: quiet settings and emptied caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.results import Finding, FindingFigures, states
from benchwright.core.text import list_text, some_text
from benchwright.features.quiet.chill_types import CacheResidency, ChillReport, ChillStop
from benchwright.features.quiet.types import AS_BEFORE, QuietResult, RestoreResult, RevertedChange
from benchwright.findings.codes import make_finding

# --------------------------------------------------------------------------------------
# Findings about a machine that was made quiet: settings that were unavailable, or that other
# programs changed back.

_SHOWN = 3


def quiet_findings(quiet: QuietResult) -> tuple[Finding, ...]:
    """Return a note for each setting that was unavailable in part."""
    whys: dict[str, list[str]] = {}
    for one in quiet.lacking:
        whys.setdefault(one.setting, []).append(one.why)
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
    for one in restored.foreign:
        text = (
            f"{one.change.place} was not restored: another program changed it (before: "
            f"{one.change.old!r}, bw set {one.change.new!r}, now {one.value!r})"
        )
        yield make_finding("quiet-not-restored", f"quiet {one.change.setting}", text)
    for one in restored.failed:
        text = f"{one.change.place} was not restored to {one.change.old!r}: {one.why}"
        yield make_finding("quiet-not-restored", f"quiet {one.change.setting}", text)
    if restored.log:
        yield make_finding("quiet-log-broken", "quiet log", restored.log)


def _reverted_settings(lost: Sequence[RevertedChange]) -> Iterator[Finding]:
    """Yield a finding for each setting that another program changed back before the end."""
    told: dict[str, list[str]] = {}
    for one in lost:
        change = one.change
        now = repr(one.value) if one.how == AS_BEFORE else "gone"
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
        _warm_finding(one, chilled) for one in chilled.checked if one.after_pages or one.unread
    ]
    if chilled.kept_by:
        who = ", ".join(chilled.kept_by)
        kept = f"it is also mounted in the mount namespace of {who}: its caches remain"
        findings.append(make_finding("chill-incomplete", "remount", kept))
    return findings


def _warm_finding(one: CacheResidency, chilled: ChillReport) -> Finding:
    """Return the finding about one file; its remedy is no other method if no method can drop the
    pages."""
    found = make_finding("chill-incomplete", one.path, _chill_evidence(one, chilled))
    if one.only_in:
        remedy = "No method drops them. Put the data on a disk, or report the result as that of data in memory."
    elif one.locked_by:
        remedy = "No method drops them. End the process that locks them, or report the result as that of data in memory."
    else:
        return found
    return msgspec.structs.replace(found, remedy=remedy)


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
