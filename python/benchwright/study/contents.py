"""What a session holds, test by test: plans, trials, stops, voids."""

from __future__ import annotations

import msgspec

from benchwright.model.decision import Stop
from benchwright.model.observation import Trial
from benchwright.model.plan import TestPlan
from benchwright.study.journal import Study


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
    """Return the tests of a session in the order in which they were begun."""
    found: dict[str, TestContents] = {}
    for entry in study.entries(session, ("outcome", "void")):
        key, _, what = entry.key.partition("/test/")
        if not what:
            continue
        key += "/test"
        if what == "plan":
            plan = msgspec.json.decode(entry.payload, type=TestPlan)
            found[key] = TestContents(key, plan)
        elif key in found and what.startswith("epoch/"):
            _add_trial(found[key], entry.kind, entry.payload)
        elif key in found and what == "stop" and entry.kind == "outcome":
            found[key].stop = msgspec.json.decode(entry.payload, type=Stop)
    for test in found.values():
        test.trials.sort(key=lambda trial: trial.epoch)
    return list(found.values())


def _add_trial(test: TestContents, kind: str, payload: bytes) -> None:
    if kind == "outcome":
        test.trials.append(msgspec.json.decode(payload, type=Trial))
        return
    void = msgspec.json.decode(payload, type=_VoidPayload)
    if void.trial is not None:
        test.void.append(void.trial)
