"""What a session holds, test by test: plans, trials, stops, voids.

Purpose: the one place of this room that knows which keys are a test's (session/keys.py
makes them). Decision: gathered from the journal each time; a cache of our own could
disagree with it. Non-goal: no figure is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.model.characterized import Characterized
from benchwright.model.comparison import NullResult
from benchwright.model.decision import Stop
from benchwright.model.observation import Trial
from benchwright.model.plan import TestPlan
from benchwright.model.search import SearchTrial, read_kept
from benchwright.study.database import seeing_damage
from benchwright.study.journal import Entry, Study

NULL = "null"
"""The kind of a session that compares a command with itself."""

SEARCHES = ("ramp", "peak", "surface")
"""The kinds of sessions that search over loads; they hold no test."""


class VoidBatch(msgspec.Struct, frozen=True):
    """Epochs that were begun together and do not count; they were run again."""

    cause: str
    epochs: tuple[int, ...]
    trial: Trial | None = None
    """What was seen of the one that was cut short, if anything was."""


class TestContents(msgspec.Struct):
    """Everything recorded about one test of a session."""

    key: str
    plan: TestPlan
    trials: list[Trial] = []
    """Counted trials, in order of epoch."""
    void: list[VoidBatch] = []
    """What was cut short, in the order in which it was: kept, never counted."""
    stop: Stop | None = None
    characterized: Characterized | None = None
    """Of a trial of its own, which is in no figure."""


class _VoidPayload(msgspec.Struct):
    """What the session writes of what is void (session/ledger.py)."""

    cause: str = ""
    keys: tuple[str, ...] = ()
    trial: Trial | None = None


def tests_of(study: Study, session: int) -> list[TestContents]:
    """Return the tests of a session in the order in which they were begun.

    A test that was begun after a checkpoint, and before the session went back to it,
    has no trial that counts (session/resume.py) and is left out: it was begun again.
    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    kinds = ("outcome", "void", "checkpoint", "restore")
    with seeing_damage(study.path):
        return _gathered(study.entries(session, kinds))


def one_test_of(study: Study, session: int, key: str) -> TestContents:
    """Return one test that is in progress, whatever checkpoints there are.

    Raises StudyError as `tests_of`; no other test of the session is read.
    """
    kinds = ("outcome", "void")
    with seeing_damage(study.path):
        (test,) = _gathered(study.entries(session, kinds, under=f"{key}/"))
        return test


def _gathered(entries: Iterable[Entry]) -> list[TestContents]:
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
        elif (at := entry.key.find("/test/")) >= 0:
            key = entry.key[: at + len("/test")]
            if entry.key == f"{key}/plan":
                plan = msgspec.json.decode(entry.payload, type=TestPlan)
                found[key], begun[key] = TestContents(key, plan), entry.seq
            elif key in found:
                _add(found[key], entry)
    for test in found.values():
        test.trials.sort(key=lambda trial: trial.epoch)
    return list(found.values())


def _add(test: TestContents, entry: Entry) -> None:
    what = entry.key.removeprefix(f"{test.key}/")
    if what.startswith("epoch/"):
        _add_trial(test, entry.kind, entry.payload)
    elif what == "characterized" and entry.kind == "outcome":
        test.characterized = msgspec.json.decode(entry.payload, type=Characterized)
    elif what == "stop" and entry.kind == "outcome":
        test.stop = msgspec.json.decode(entry.payload, type=Stop)


def _add_trial(test: TestContents, kind: str, payload: bytes) -> None:
    if kind == "outcome":
        test.trials.append(msgspec.json.decode(payload, type=Trial))
        return
    void = msgspec.json.decode(payload, type=_VoidPayload)
    epochs = tuple(int(key.rpartition("/")[2]) for key in void.keys)
    test.void.append(VoidBatch(void.cause, epochs, void.trial))


def searches_of(
    study: Study, session: int
) -> list[tuple[str, list[SearchTrial], frozenset[int]]]:
    """Return a session's searches in order: name, every trial, the numbers of those that
    a resume did not count.

    Raises StudyError as `tests_of`. The keys are made by session/search.py.
    """
    found: dict[str, list[SearchTrial]] = {}
    forgotten: dict[str, set[int]] = {}
    with seeing_damage(study.path):
        for entry in study.entries(session, ("outcome",), under="search/"):
            _, name, what = entry.key.split("/", 2)
            if what.startswith("trial/"):
                trial = read_kept(entry.payload, SearchTrial)
                found.setdefault(name, []).append(trial)
            elif what.startswith("forgotten/"):
                last = int(what.removeprefix("forgotten/"))
                count = msgspec.json.decode(entry.payload, type=int)
                numbers = range(last - count + 1, last + 1)
                forgotten.setdefault(name, set()).update(numbers)
    return [
        (name, trials, frozenset(forgotten.get(name, ())))
        for name, trials in found.items()
    ]


def search_trials_of(study: Study, session: int) -> list[SearchTrial]:
    """Return every trial of a session's searches in order, also those that a resume did
    not count: what was measured is told.

    Raises StudyError as `tests_of`.
    """
    searches = searches_of(study, session)
    return [trial for _, trials, _ in searches for trial in trials]


class _NullPayload(msgspec.Struct):
    """What is read of a comparison's recorded result (session/comparison.py)."""

    null: NullResult | None = None


def last_null(study: Study) -> NullResult | None:
    """Return what the study's last null comparison told, or None without one.

    Raises StudyError as `tests_of`.
    """
    with seeing_damage(study.path):
        for session in reversed(study.sessions()):
            if session.info.kind != NULL:
                continue
            for entry in study.entries(session.number, ("outcome",)):
                if entry.key.endswith("/compare/result"):
                    found = msgspec.json.decode(entry.payload, type=_NullPayload)
                    if found.null is not None:
                        return found.null
    return None
