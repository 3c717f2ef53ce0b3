"""The session's view of the journal: recorded outcomes first, then live ones.

Resuming consists of `once`: it returns a recorded outcome from the journal; any other effect is
recorded as started, run, and recorded as done, and each step is durable before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import TestPlan
from benchwright.core.text import status_text
from benchwright.run.checkpoint import write_pointer
from benchwright.study.journal import NewEntry, Study
from benchwright.study.keys import KeysOfTest

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
        """Whether the last recorded outcome, apart from commands, is a checkpoint."""

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
