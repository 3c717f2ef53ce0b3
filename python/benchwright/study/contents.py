"""What a session holds: its tests, captures of the machine, and findings.

Findings are stored when the session ends, and read by every report. Decision: outcomes
`findings/1`, `findings/2`, ... of the journal, numbered in order; stored findings are valid as long
as the session has no later outcome. A session of an older version, a killed one, or one that was
resumed and cut short again has no valid ones: a reader computes them from the journal with the same
function. Findings recorded while a session ran (settings that could not be restored, an observer
that failed) cannot be computed again; they are entries of kind `finding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from benchwright.core.comparison import NullResult
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import Trial
from benchwright.core.plan import StopDecision, TestPlan
from benchwright.core.results import Finding
from benchwright.feature import observers
from benchwright.findings.environment import environment_findings
from benchwright.study.database import reporting_damage
from benchwright.study.journal import JournalEntry, NewEntry, SessionInfo, StoredSession, Study
from benchwright.study.keys import (
    ENVIRONMENT_KEYS,
    FINDINGS_KEYS,
    KeysOfTest,
    environment_key,
    epoch_of,
    findings_key,
    is_comparison_result,
    is_epoch,
    owning_test,
)

# -- What a session holds, test by test: plans, trials, stops, voids -------------------
#
# Decision: read from the journal each time; a cache could disagree with it. Non-goal: no
# figure is computed here.

NULL_KIND = "null"
"""The kind of a session that compares a command with itself."""

DEFAULTS_OPTION = "defaults"
"""The option of a session with the defaults that configuration files set."""


class StoredDefault(msgspec.Struct, frozen=True):
    """A default of an option that a configuration file set for a session."""

    key: str
    value: str
    place: str
    """The file and the line."""


def stored_defaults(info: SessionInfo) -> tuple[StoredDefault, ...]:
    """Return the defaults of a session that are from configuration files."""
    text = info.options.get(DEFAULTS_OPTION, "[]")
    return msgspec.json.decode(text, type=tuple[StoredDefault, ...])


BASELINE_OPTION = "baseline"
"""The option of a session with the test that ratios refer to."""


def stored_baseline(info: SessionInfo) -> str:
    """Return what the ratios of a session refer to: `first`, `best`, or the name of a test."""
    return info.options.get(BASELINE_OPTION, "first")


class VoidBatch(msgspec.Struct, frozen=True):
    """Epochs of one batch that do not count; they were run again."""

    cause: str
    epochs: tuple[int, ...]
    trial: Trial | None = None
    """The measurements of the epoch that was cut short, if there are any."""


class TestContents(msgspec.Struct):
    """Everything recorded about one test of a session."""

    key: str
    plan: TestPlan
    trials: list[Trial] = []
    """Counted trials, in order of epoch."""
    void: list[VoidBatch] = []
    """Batches that were cut short, in order: stored, never counted."""
    stop: StopDecision | None = None
    recorded: dict[str, Any] = {}
    """What observers recorded of the test, by `ObserverKind.record`."""
    unread: list[str] = []
    """The names of records of observers whose feature is not installed."""

    @property
    def all_trials(self) -> tuple[Trial, ...]:
        """The counted trials and the records of void ones, in order of epoch."""
        both = (*self.trials, *self.void_trials)
        return tuple(sorted(both, key=lambda trial: trial.epoch))

    @property
    def void_trials(self) -> tuple[Trial, ...]:
        """The records of trials that do not count: cut short, or the failure that ended the
        session."""
        return tuple(batch.trial for batch in self.void if batch.trial is not None)


class _VoidRecord(msgspec.Struct):
    """Payload of a `void` entry, as the session writes it (run/ledger.py)."""

    cause: str = ""
    keys: tuple[str, ...] = ()
    trial: Trial | None = None


def tests_of(study: Study, session: int) -> list[TestContents]:
    """Return the tests of a session in the order in which they were started; interleaved tests in
    the order given.

    A test that was started after a checkpoint, before the session was restored from it, has no
    trial that counts (run/ledger.py); it is left out because it was started again.
    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    kinds = ("outcome", "void", "checkpoint", "restore")
    with reporting_damage(study.path):
        return _read_tests(study.entries(session, kinds))


def one_test_of(study: Study, session: int, key: str) -> TestContents:
    """Return one test that is in progress, regardless of checkpoints.

    Reads no other test of the session. Raises StudyError as `tests_of`.
    """
    kinds = ("outcome", "void")
    with reporting_damage(study.path):
        (test,) = _read_tests(study.entries(session, kinds, under=f"{key}/"))
        return test


def _read_tests(entries: Iterable[JournalEntry]) -> list[TestContents]:
    found: dict[str, TestContents] = {}
    begun: dict[str, int] = {}
    checkpoints: dict[str, int] = {}
    for entry in entries:
        if entry.kind == "checkpoint":
            checkpoints[entry.key] = entry.seq
        elif entry.kind == "restore":
            since = checkpoints.get(entry.key, entry.seq)
            for key in [key for key, seq in begun.items() if seq > since]:
                del found[key], begun[key]
        elif (test := owning_test(entry.key)) is not None:
            if entry.key == KeysOfTest(test).plan:
                plan = msgspec.json.decode(entry.payload, type=TestPlan)
                found[test], begun[test] = TestContents(test, plan), entry.seq
            elif test in found:
                _add_entry(found[test], entry)
    for contents in found.values():
        contents.trials.sort(key=lambda trial: trial.epoch)
    return sorted(found.values(), key=lambda test: test.plan.place or 0)


def _add_entry(test: TestContents, entry: JournalEntry) -> None:
    keys = KeysOfTest(test.key)
    if is_epoch(entry.key):
        _add_trial(test, entry.kind, entry.payload)
    elif entry.key == keys.stop and entry.kind == "outcome":
        test.stop = msgspec.json.decode(entry.payload, type=StopDecision)
    elif entry.kind == "outcome" and (name := keys.recorded_name(entry.key)):
        kind = next((observer for observer in observers() if observer.record == name), None)
        if kind is None:
            test.unread.append(name)
        else:
            test.recorded[name] = msgspec.json.decode(entry.payload, type=kind.record_type())


def _add_trial(test: TestContents, kind: str, payload: bytes) -> None:
    if kind == "outcome":
        test.trials.append(msgspec.json.decode(payload, type=Trial))
        return
    void = msgspec.json.decode(payload, type=_VoidRecord)
    epochs = tuple(map(epoch_of, void.keys))
    test.void.append(VoidBatch(void.cause, epochs, void.trial))


class _NullRecord(msgspec.Struct):
    """The part of a comparison's recorded result that is read here (run/comparison.py)."""

    null: NullResult | None = None


def last_null(study: Study) -> NullResult | None:
    """Return the result of the study's last null comparison; None if there is none.

    Raises StudyError as `tests_of`.
    """
    with reporting_damage(study.path):
        sessions = [one for one in study.sessions() if one.info.kind == NULL_KIND]
        return next(filter(None, (null_of(study, one) for one in reversed(sessions))), None)


def null_of(study: Study, session: StoredSession) -> NullResult | None:
    """Return the result of a null comparison's session; None if it has none. Raises StudyError."""
    with reporting_damage(study.path):
        for entry in study.entries(session.number, ("outcome",)):
            if is_comparison_result(entry.key):
                null_record = msgspec.json.decode(entry.payload, type=_NullRecord)
                if null_record.null is not None:
                    return null_record.null
    return None


# --------------------------------------------------------------------------------------
# The captures of the machine in a session: `environment/1`, `environment/2`, ...
#
# One is written when a session starts, each time it is resumed, and when it ends, because the
# machine may change between or during trials. Decision: they are ordinary outcomes of the
# journal, numbered in order; a session of an older version has none.


def machines_of(study: Study, session: int) -> tuple[MachineCapture, ...]:
    """Return a session's captures in the order in which they were taken.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        return tuple(
            msgspec.json.decode(entry.payload, type=MachineCapture)
            for entry in study.entries(session, ("outcome",), under=ENVIRONMENT_KEYS)
        )


def first_machine(study: Study, session: int) -> MachineCapture | None:
    """Return the first capture of a session; None if it has none. Decodes no other capture.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=ENVIRONMENT_KEYS):
            return msgspec.json.decode(entry.payload, type=MachineCapture)
        return None


def record_capture(study: Study, session: int, machine: MachineCapture) -> None:
    """Append a capture to a session; durable on return. Raises StudyError."""
    known = sum(1 for _ in study.entries(session, ("outcome",), under=ENVIRONMENT_KEYS))
    key = environment_key(known + 1)
    study.append(session, [NewEntry("outcome", key, machine)])


FINDING_KIND = "finding"


class SessionFindings(msgspec.Struct, frozen=True):
    """The findings of a session."""

    session: tuple[Finding, ...]
    """Findings about the session as a whole: its machine, failed observers."""
    tests: dict[str, tuple[Finding, ...]]
    """Findings about each test, by its key."""
    comparisons: dict[str, tuple[Finding, ...]] = {}
    """Findings about each comparison as a whole, by its key; those about its arms are in `tests`.
    """

    @property
    def all(self) -> tuple[Finding, ...]:
        """Return all of them: about the session, its comparisons, its tests."""
        each = (*self.comparisons.values(), *self.tests.values())
        return (*self.session, *(finding for findings in each for finding in findings))


def store_findings(
    study: Study, session: int, found: SessionFindings, recorded: Sequence[Finding] = ()
) -> None:
    """Append a session's findings and those recorded while it ran; durable on return. Raises
    StudyError."""
    entries = [NewEntry(FINDING_KIND, finding.code, finding) for finding in recorded]
    known = sum(1 for _ in study.entries(session, ("outcome",), under=FINDINGS_KEYS))
    entries.append(NewEntry("outcome", findings_key(known + 1), found))
    study.append(session, entries)


def stored_findings(study: Study, session: int) -> SessionFindings | None:
    """Return a session's stored findings; None if there are none, or if they are outdated.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        last = study.last_outcome(session)
        if last is None or not last.key.startswith(FINDINGS_KEYS):
            return None
        return msgspec.json.decode(last.payload, type=SessionFindings)


def recorded_findings(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings recorded while a session ran, in order.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        return tuple(
            msgspec.json.decode(entry.payload, type=Finding)
            for entry in study.entries(session, (FINDING_KIND,))
        )


def session_findings(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings about a session as a whole in its current state, each once.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    changed = environment_findings(machines_of(study, session), (str(study.path.resolve()),))
    return tuple(dict.fromkeys((*changed, *recorded_findings(study, session))))


def findings_about_session(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings about a session as a whole: stored, else computed again.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    stored = stored_findings(study, session)
    return session_findings(study, session) if stored is None else stored.session
