"""What is doubtful about a machine that was put in order: what could not be had or undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.model.quiet import AS_BEFORE, Quiet, Restored, Undone

_SHOWN = 3


def doubts_of_quiet(quiet: Quiet) -> tuple[Finding, ...]:
    """Return a note for each setting of which something could not be had."""
    whys: dict[str, list[str]] = {}
    for one in quiet.lacking:
        whys.setdefault(one.setting, []).append(one.why)
    return tuple(
        doubt("quiet-incomplete", f"quiet {name}", _few(list(dict.fromkeys(told))))
        for name, told in whys.items()
    )


def doubts_of_restored(restored: Restored, *, late: bool) -> tuple[Finding, ...]:
    """Return what is to be said of a machine that was put back.

    `late`: not by the one who had changed it, who was killed.
    """
    return tuple(_restored(restored, late))


def _restored(restored: Restored, late: bool) -> Iterator[Finding]:
    if late and restored.undone:
        who = (
            f"process {restored.owner.pid}" if restored.owner.pid else "bw quiet --keep"
        )
        boot = " before the last boot" if restored.rebooted else ""
        good = [u for u in restored.undone if u not in restored.failed]
        text = f"what {who} had changed{boot} was put back: {_few(_names(good))}"
        yield doubt("quiet-undone-late", "machine", text)
    if not late:
        yield from _lost(restored.lost)
    for one in restored.foreign:
        text = (
            f"{one.change.place} was left: somebody else changed it meanwhile (it was "
            f"{one.change.old!r}, we made it {one.change.new!r}, it is {one.value!r})"
        )
        yield doubt("quiet-not-restored", f"quiet {one.change.setting}", text)
    for one in restored.failed:
        text = f"{one.change.place} is not as it was, {one.change.old!r}: {one.why}"
        yield doubt("quiet-not-restored", f"quiet {one.change.setting}", text)
    if restored.log:
        yield doubt("quiet-log-broken", "quiet log", restored.log)


def _lost(lost: Sequence[Undone]) -> Iterator[Finding]:
    """Yield a doubt for each setting of which something did not hold to the end."""
    told: dict[str, list[str]] = {}
    for one in lost:
        change = one.change
        now = repr(one.value) if one.how == AS_BEFORE else "gone"
        text = f"{change.place} (we made it {change.new!r}, in the end it was {now})"
        told.setdefault(change.setting, []).append(text)
    for name, texts in told.items():
        text = f"did not hold to the end: {_few(texts)}"
        yield doubt("quiet-not-held", f"quiet {name}", text)


def doubt_of_kept(what: str, hint: str) -> Finding:
    """Return what is to be said where nothing of what was kept could be put back."""
    text = f"what was kept was not put back: {what}"
    return doubt("quiet-not-restored", "quiet", "; ".join(filter(None, (text, hint))))


def _names(undone: list[Undone]) -> list[str]:
    return list(dict.fromkeys(u.change.setting for u in undone))


def _few(words: list[str]) -> str:
    more = len(words) - _SHOWN
    if len(words) > 2 * _SHOWN:
        return "; ".join(words[:_SHOWN]) + f"; and {more} more"
    return "; ".join(words)
