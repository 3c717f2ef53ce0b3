"""What is still in memory after caches were made cold."""

from __future__ import annotations

from benchwright.finding.codes import doubt
from benchwright.model.chill import Checked, Chilled, Stopped
from benchwright.model.finding import Finding

_REASONS = {
    Stopped.RESERVE: "the reserve for others was reached",
    Stopped.STEADY: "more memory made the cache no smaller",
    Stopped.SWAP: "the kernel began to swap",
    Stopped.LIMIT: "no more memory was given",
    Stopped.KILLED: "the kernel ended it for want of memory",
    Stopped.EMPTY: "next to nothing was cached",
}


def doubts_of_chill(chilled: Chilled) -> list[Finding]:
    """Return `chill-incomplete` for each checked file that is still in memory in part,
    or could not be looked at; and for a file system that others kept mounted."""
    found = [
        doubt("chill-incomplete", one.path, _evidence(one, chilled))
        for one in chilled.checked
        if one.after_pages or one.unread
    ]
    if chilled.kept_by:
        who = ", ".join(chilled.kept_by)
        kept = f"it is also mounted in the mount namespace of {who}: its caches stayed"
        found.append(doubt("chill-incomplete", "remount", kept))
    return found


def _evidence(one: Checked, chilled: Chilled) -> str:
    text = f"{one.after_pages:,} of {one.pages:,} pages still in memory"
    text += f" after {chilled.method} (before: {one.before_pages:,})"
    if chilled.squeeze is not None:
        text += f"; it stopped because {_REASONS[chilled.squeeze.stopped]}"
    if one.unread:
        text += f"; {one.unread:,} files could not be looked at"
    return text
