"""What is doubtful about a machine that was put in order: what could not be had or undone."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.model.quiet import Quiet, Restored, Undone

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
        yield doubt_of_log(restored.log)


def doubt_of_log(what: str) -> Finding:
    """Return what is to be said of a log that others touched, or that cannot be used."""
    return doubt("quiet-log-broken", "quiet log", what)


def _names(undone: list[Undone]) -> list[str]:
    return list(dict.fromkeys(u.change.setting for u in undone))


def _few(words: list[str]) -> str:
    more = len(words) - _SHOWN
    if len(words) > 2 * _SHOWN:
        return "; ".join(words[:_SHOWN]) + f"; and {more} more"
    return "; ".join(words)
