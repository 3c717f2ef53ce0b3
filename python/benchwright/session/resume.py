"""Making a session's journal whole before it is run again.

What a crash cut short is marked void with its cause; what a crashed session left
running is ended; a checkpoint after which no trial was recorded is restored.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.session.ledger import Begun, Voided
from benchwright.study.journal import Entry, NewEntry, Study

_KINDS = ("begin", "outcome", "void", "checkpoint", "restore")


class Recovery(msgspec.Struct):
    """What was found and done when a session was taken up again."""

    voided: int = 0
    """Begun effects that a crash cut short."""
    crashed: dict[str, list[int]] = {}
    """Test key -> sequence numbers of its void batches: CLEANUP is owed for each."""
    restored: str | None = None
    """Key of the checkpoint that was restored."""


def recover(study: Study, session: int, cause: str) -> Recovery:
    """Close what a crash left open, and restore the last checkpoint if it is due."""
    entries = list(study.entries(session, _KINDS))
    recovery = Recovery()
    news: list[NewEntry] = []
    for begin in _open_begins(entries):
        begun = msgspec.json.decode(begin.payload, type=Begun)
        news.append(
            NewEntry("void", begun.keys[0], Voided(cause, begun.keys), begin.seq)
        )
        recovery.voided += 1
    checkpoint = _checkpoint_due(entries)
    if checkpoint is not None:
        news.append(NewEntry("restore", checkpoint.key, None, None))
        recovery.restored = checkpoint.key
    if news:
        study.append(session, news)
    recovery.crashed = owed_cleanups(study.entries(session, ("void", "outcome")))
    return recovery


def owed_cleanups(entries: Iterable[Entry]) -> dict[str, list[int]]:
    """Return the void batches of each test whose CLEANUP a crash prevented."""
    owed: dict[str, list[int]] = {}
    for entry in entries:
        if entry.kind != "void" or "/epoch/" not in entry.key:
            continue
        void = msgspec.json.decode(entry.payload, type=Voided)
        if void.cause.startswith(CRASH):
            owed.setdefault(entry.key.split("/epoch/")[0], []).append(entry.seq)
    return owed


CRASH = "crash"
"""Causes of this kind owe a CLEANUP: nothing ran after the cut."""


def _open_begins(entries: Iterable[Entry]) -> list[Entry]:
    """Return the begun effects that no later entry closes."""
    entries = list(entries)
    closed = {entry.begin for entry in entries if entry.begin is not None}
    return [e for e in entries if e.kind == "begin" and e.seq not in closed]


def _checkpoint_due(entries: list[Entry]) -> Entry | None:
    """Return the last checkpoint if no trial was recorded after it and it is not
    restored yet: going on from there means RESTORE=1."""
    for entry in reversed(entries):
        if entry.kind == "checkpoint":
            restored = any(e.kind == "restore" and e.key == entry.key for e in entries)
            return None if restored else entry
        if entry.kind == "outcome" and "/epoch/" in entry.key:
            return None
    return None
