"""What a session holds, test by test: plans, trials, stops, voids."""

from __future__ import annotations

import msgspec

from benchwright.model.decision import Stop
from benchwright.model.observation import Trial
from benchwright.model.plan import TestPlan
from benchwright.study.journal import Entry, Study


class TestContents(msgspec.Struct):
    """Everything recorded about one test of a session."""

    key: str
    plan: TestPlan
    trials: list[Trial] = []
    """Counted trials, in order of epoch."""
    void: list[Trial] = []
    """What was seen of trials that were cut short: kept, never counted."""
    stop: Stop | None = None


class _VoidPayload(msgspec.Struct):
    trial: Trial | None = None


def tests_of(study: Study, session: int) -> list[TestContents]:
    """Return the tests of a session in the order in which they were begun.

    A test that was begun after a checkpoint, and before the session went back to it,
    has no trial that counts (session/resume.py) and is left out: it was begun again.
    """
    found: dict[str, TestContents] = {}
    begun: dict[str, int] = {}
    checkpoints: dict[str, int] = {}
    for entry in study.entries(session, ("outcome", "void", "checkpoint", "restore")):
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
    elif what == "stop" and entry.kind == "outcome":
        test.stop = msgspec.json.decode(entry.payload, type=Stop)


def _add_trial(test: TestContents, kind: str, payload: bytes) -> None:
    if kind == "outcome":
        test.trials.append(msgspec.json.decode(payload, type=Trial))
        return
    void = msgspec.json.decode(payload, type=_VoidPayload)
    if void.trial is not None:
        test.void.append(void.trial)
