"""Repairs a session's journal before the session is resumed.

Effects that a crash cut short are marked void with the cause; processes that a crashed session
left running are ended; a checkpoint after which no trial was recorded is restored.
Decision: a test that was cut short between PRESETUP and POSTCLEANUP is cleaned up and set
up again, as after an interrupt. Rejected: continuing without a new PRESETUP. The launcher's
death ends what PRESETUP started, a reboot unmounts what it mounted, and the next epochs would
measure something else. A test that has done nothing since the restored checkpoint is left as it
is: the suite meant to reboot in the middle of it (paper section 3.5).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.core.plan import TestPlan
from benchwright.run.ledger import BeginPayload, VoidPayload
from benchwright.study.journal import EndPayload, JournalEntry, NewEntry, Study
from benchwright.study.keys import KeysOfTest, is_epoch, owning_test

_KINDS = ("begin", "outcome", "void", "checkpoint", "restore", "end")

CRASH_CAUSE = "crash"
"""Prefix of causes that end `bw` at once: nothing ran after the cut."""


class OwedCleanup(msgspec.Struct, frozen=True):
    """A void batch whose CLEANUP did not run."""

    sequence: int
    """Sequence number of the entry that made it void."""
    plan: TestPlan
    """The plan of that batch."""


class CutTest(msgspec.Struct, frozen=True):
    """A test that was cut short, and the cleanup to run before it continues."""

    key: str
    plan: TestPlan
    cleanups: tuple[OwedCleanup, ...]
    set_up: bool
    """Whether PRESETUP was started and POSTCLEANUP has not completed since."""


class Recovery(msgspec.Struct):
    """What was found and done when a session was resumed."""

    voided: int = 0
    """Number of started effects that a crash cut short."""
    cut: tuple[CutTest, ...] = ()
    restored: str | None = None
    """Key of the restored checkpoint."""


def recover(study: Study, session: int, cause: str) -> Recovery:
    """Close effects that a crash left open, and restore the last checkpoint if it is due.

    `cause` is recorded for effects that no recorded end explains.
    """
    entries = list(study.entries(session, _KINDS))
    news = [_void_entry(begin, entries, cause) for begin in _open_begins(entries)]
    recovery = Recovery(voided=len(news))
    checkpoint = _checkpoint_due(entries)
    if checkpoint is not None:
        news.append(NewEntry("restore", checkpoint.key, None, None))
        recovery.restored = checkpoint.key
    if news:
        study.append(session, news)
        entries = list(study.entries(session, _KINDS))
    recovery.cut = cut_tests(entries, 0 if checkpoint is None else checkpoint.seq)
    return recovery


def cut_tests(entries: Iterable[JournalEntry], restored: int) -> tuple[CutTest, ...]:
    """Return the tests to clean up, in the order in which they started.

    `restored` is the sequence number of the checkpoint to restore, or 0.
    """
    by_test: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        key = owning_test(entry.key)
        if key is not None:
            by_test.setdefault(key, []).append(entry)
    found = (_cut_test(key, own, restored) for key, own in by_test.items())
    return tuple(cut for cut in found if cut is not None)


def _cut_test(key: str, own: list[JournalEntry], restored: int) -> CutTest | None:
    """Return the cleanup that a test needs, from its own entries; None if it needs none."""
    done = {e.key: e.payload for e in own if e.kind == "outcome"}
    keys = KeysOfTest(key)
    if keys.plan not in done or keys.stop in done:
        return None
    if not any(e.kind == "begin" and e.seq > restored for e in own):
        return None
    plan = msgspec.json.decode(done[keys.plan], type=TestPlan)
    cut = CutTest(key, plan, _owed_cleanups(own, plan), _is_set_up(keys, own))
    return cut if cut.cleanups or cut.set_up else None


def _owed_cleanups(own: list[JournalEntry], first: TestPlan) -> tuple[OwedCleanup, ...]:
    """Return the void batches of a test whose CLEANUP did not run."""
    begun = {e.seq: e for e in own if e.kind == "begin"}
    owed = []
    for entry in own:
        if entry.kind != "void" or entry.begin is None:
            continue
        if msgspec.json.decode(entry.payload, type=VoidPayload).cleanup_owed:
            begin = msgspec.json.decode(begun[entry.begin].payload, type=BeginPayload)
            owed.append(OwedCleanup(entry.seq, begin.plan or first))
    return tuple(owed)


def _is_set_up(keys: KeysOfTest, own: list[JournalEntry]) -> bool:
    """Return whether effects of the last PRESETUP may still exist."""
    recorded = {e.key for e in own}
    last = 0
    while keys.suspended(last) in recorded:
        last += 1
    begun = (keys.presetup(last), keys.ready(last))
    return any(e.key.startswith(begun) for e in own)


def _void_entry(begin: JournalEntry, entries: Iterable[JournalEntry], crash: str) -> NewEntry:
    """Return the entry that closes a started effect; its cause is what ended `bw` after it."""
    begun = msgspec.json.decode(begin.payload, type=BeginPayload)
    later = (e for e in entries if e.kind == "end" and e.seq > begin.seq)
    end = next((msgspec.json.decode(e.payload, type=EndPayload) for e in later), None)
    if end is None:
        cause = crash
    elif end.status == "interrupted":
        cause = "interrupted by the user"
    else:
        cause = f"{CRASH_CAUSE}: {end.detail}"
    owed = is_epoch(begin.key)
    void = VoidPayload(cause, begun.keys, cleanup_owed=owed)
    return NewEntry("void", begun.keys[0], void, begin.seq)


def _open_begins(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return the started effects that no later entry closes."""
    entries = list(entries)
    closed = {entry.begin for entry in entries if entry.begin is not None}
    return [e for e in entries if e.kind == "begin" and e.seq not in closed]


def _checkpoint_due(entries: list[JournalEntry]) -> JournalEntry | None:
    """Return the last checkpoint if no trial was recorded after it and it was not
    restored yet: the program then continues from it with RESTORE=1."""
    for entry in reversed(entries):
        if entry.kind == "checkpoint":
            restored = any(e.kind == "restore" and e.key == entry.key for e in entries)
            return None if restored else entry
        if entry.kind == "outcome" and is_epoch(entry.key):
            return None
    return None
