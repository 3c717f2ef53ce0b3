"""The session's view of the journal: recorded outcomes first, then live ones.

Resuming consists of `once`: it returns a recorded outcome from the journal; any other effect is
recorded as started, run, and recorded as done, and each step is durable before the next.

`CHECKPOINT FILE` leaves a small text file for a boot script. The checkpoint itself is in the
journal; the file only says where the study is, so that `bw resume
FILE` and `bw run FILE` work as Auto-pilot's own did. The paper's rule for boot scripts holds
(section 3.5): a file that root follows must belong to root and not be writable by others.

A session's journal is repaired before it is resumed. Effects that a crash cut short are marked void with the cause; processes that a crashed session
left running are ended; a checkpoint after which no trial was recorded is restored.
Decision: a test that was cut short between PRESETUP and POSTCLEANUP is cleaned up and set
up again, as after an interrupt. Rejected: continuing without a new PRESETUP. The launcher's
death ends what PRESETUP started, a reboot unmounts what it mounted, and the next epochs would
measure something else. A test that has done nothing since the restored checkpoint is left as it
is: the suite meant to reboot in the middle of it (paper section 3.5).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.observation import Trial
from benchwright.core.plan import TestPlan
from benchwright.core.text import status_text
from benchwright.core.untrusted import open_regular, others_could_write
from benchwright.study.journal import EndPayload, JournalEntry, NewEntry, Study
from benchwright.study.keys import KeysOfTest, is_epoch, owning_test

_HEAD = "benchwright checkpoint 1\n"
_LONGEST = 1 << 16


def write_pointer(path: Path, study: Path) -> None:
    """Write the file, durably, for its owner only; an older pointer is replaced.

    Raises StudyError `checkpoint-file` if a file of another kind is in the way, or if
    it cannot be written.
    """
    try:
        if os.path.lexists(path) and not _begins_as_ours(path):
            raise StudyError(
                "checkpoint-file",
                f"{path} exists and is not a checkpoint, so it is not overwritten",
                "give CHECKPOINT another file name",
            )
        # mkstemp: an unpredictable name, so that no one can place a link there first.
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{_HEAD}study = {study.absolute()}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise StudyError(
            "checkpoint-file",
            f"cannot write the checkpoint file {path}: {error.strerror}",
            "create its directory, or give CHECKPOINT another name; then `bw resume`",
        ) from None


def _begins_as_ours(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(len(_HEAD)) == _HEAD.encode()


def is_checkpoint(place: Path) -> bool:
    """Return whether a path is a file that `write_pointer` wrote; its text says so."""
    try:
        return place.is_file() and _begins_as_ours(place)
    except OSError:
        return False


def study_of(place: Path) -> Path:
    """Return the study at a directory, or the one that a checkpoint file names.

    Raises StudyError `checkpoint-unsafe` or `checkpoint-file`.
    """
    try:
        if not place.is_file():
            return place
        # Checks and reads use one open file, so replacing the name in between has no effect.
        with open(os.open(place, os.O_RDONLY | _no_links()), errors="replace") as file:
            found, text = os.fstat(file.fileno()), file.read(_LONGEST)
    except OSError as error:
        raise StudyError(
            "checkpoint-file",
            f"cannot read the checkpoint file {place}: {error.strerror}",
            "give the study's directory, or the real path of the file",
        ) from None
    if os.geteuid() == 0 and others_could_write(found, 0):
        raise StudyError(
            "checkpoint-unsafe",
            f"{place} belongs to another user or may be written by others: root does not resume from it",
            f"chown root {place}; chmod go-w {place}",
        )
    if not text.startswith(_HEAD + "study = "):
        raise StudyError("checkpoint-file", f"{place} is not a benchwright checkpoint")
    return Path(text.removeprefix(_HEAD + "study = ").rstrip("\n"))


def _no_links() -> int:
    return os.O_NOFOLLOW if os.geteuid() == 0 else 0


Outcome = TypeVar("Outcome")


class BeginPayload(msgspec.Struct, frozen=True):
    """Payload of a `begin` entry: the effects that are about to run."""

    what: str
    keys: tuple[str, ...]
    """The keys of these effects: one, or one per epoch of a batch."""
    plan: TestPlan | None = None
    """The plan of a batch, if it is not the test's first plan (its commands name EPOCH)."""


class VoidPayload(msgspec.Struct, frozen=True):
    """Payload of a `void` entry: what was cut short, and why."""

    cause: str
    keys: tuple[str, ...]
    trial: Trial | None = None
    """Its measurements so far: stored, never counted."""
    cleanup_owed: bool = False
    """Whether CLEANUP did not complete after the cut."""


class Ledger:
    """Reads and writes the outcomes of one session."""

    def __init__(self, study: Study, session: int) -> None:
        self.study = study
        self.session = session
        self._outcomes = study.load_outcomes(session)
        self._checkpoints = {e.key for e in study.entries(session, ("checkpoint",))}
        self.restores = {e.key: e.seq for e in study.entries(session, ("restore",))}
        """Restored checkpoints: key -> sequence number of the restore."""
        self.at_checkpoint = False
        """Whether a boot script resumes the session from its last recorded outcome, apart from
        commands: a checkpoint, or a restart between replicates."""

    def knows(self, key: str) -> bool:
        """Return whether an effect had an outcome when the session was opened."""
        return key in self._outcomes

    def count(self, counts: Callable[[str], bool]) -> int:
        """Return the number of recorded outcomes for whose key `counts` is true."""
        return sum(map(counts, self._outcomes))

    def recorded(self, key: str, kind: type[Outcome]) -> Outcome | None:
        """Return the recorded outcome of an effect; None if there is none."""
        payload = self._outcomes.get(key)
        return None if payload is None else msgspec.json.decode(payload, type=kind)

    def void_trials(self, test_key: str) -> list[Trial]:
        """Return the records of a test's trials that were cut short, in this run or earlier."""
        voids = self.study.entries(self.session, ("void",), under=KeysOfTest(test_key).epochs)
        payloads = (msgspec.json.decode(v.payload, type=VoidPayload) for v in voids)
        return [payload.trial for payload in payloads if payload.trial is not None]

    def once(self, key: str, what: str, kind: type[Outcome], do: Callable[[], Outcome]) -> Outcome:
        """Return the outcome of an effect that happens once in a session."""
        known = self.recorded(key, kind)
        if known is not None:
            return known
        begin = self.begin(what, (key,))
        outcome = do()
        self._append([NewEntry("outcome", key, outcome, begin)])
        return outcome

    def command(
        self, key: str, what: str, do: Callable[[], int], *, must_succeed: bool = False
    ) -> int:
        """Return the exit status of a command that happens once in a session.

        With `must_succeed`, a failure is void, not an outcome: it ends the session, and
        a resume runs the command again.
        """
        known = self.recorded(key, int)
        if known is not None:
            return known
        begin = self.begin(what, (key,))
        status = do()
        if status and must_succeed:
            void = VoidPayload(status_text(status), (key,))
            self._append([NewEntry("void", key, void, begin)])
        else:
            self._append([NewEntry("outcome", key, status, begin)])
        return status

    def note(self, key: str, outcome: object) -> None:
        """Record an outcome without an effect to run: a written checkpoint, a stop."""
        if key not in self._outcomes:
            self._append([NewEntry("outcome", key, outcome, None)])

    def adopt(self, entries: Sequence[NewEntry]) -> None:
        """Record entries, among them copies of those of another journal, in one durable write."""
        self._append(entries)

    def has_checkpoint(self, key: str) -> bool:
        """Return whether this checkpoint was written."""
        return key in self._checkpoints

    def write_checkpoint(self, key: str, file: str | None) -> None:
        """Make a checkpoint durable; `file` is the path of the pointer that the suite asks for."""
        if file is not None:
            # The file first: a checkpoint in the journal always has its file.
            write_pointer(Path(file), self.study.path)
        self.study.append(self.session, [NewEntry("checkpoint", key, file, None)])
        self._checkpoints.add(key)
        self.at_checkpoint = True

    def leave_pointer(self, file: Path) -> None:
        """Write the file with which a boot script resumes this session. Raises StudyError
        `checkpoint-file`."""
        write_pointer(file, self.study.path)
        self.at_checkpoint = True

    def begin(self, what: str, keys: tuple[str, ...], plan: TestPlan | None = None) -> int:
        """Record that effects are about to run; return the entry's sequence number."""
        (sequence,) = self.study.append(
            self.session, [NewEntry("begin", keys[0], BeginPayload(what, keys, plan), None)]
        )
        return sequence

    def finish_trials(
        self, test_key: str, begin: int, trials: Sequence[Trial], void: VoidPayload | None
    ) -> None:
        """Record the trials of a batch, and its void part, in one durable write."""
        keys = KeysOfTest(test_key)
        entries = [NewEntry("outcome", keys.epoch(trial.epoch), trial, begin) for trial in trials]
        if void is not None:
            entries.append(NewEntry("void", void.keys[0], void, begin))
        self.at_checkpoint = False
        if entries:
            self.study.append(self.session, entries)

    def _append(self, entries: Sequence[NewEntry]) -> None:
        self.study.append(self.session, entries)
        for entry in entries:
            if entry.kind == "outcome":
                self._outcomes[entry.key] = msgspec.json.encode(entry.payload)


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
    tests = (_cut_test(key, own, restored) for key, own in by_test.items())
    return tuple(cut for cut in tests if cut is not None)


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
