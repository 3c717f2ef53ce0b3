"""Reads the tests of a study: of its last session, or of a given one.

`DIR` is the last session, `DIR@2` and `DIR@NAME` other ones, `DIR:TEST` one of its tests
(study/catalogue.py).
Decision: read from the journal, not from the exports: the journal includes void trials and
stops, and exports may be missing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from benchwright.core.errors import argument_error
from benchwright.feature import session_kind
from benchwright.findings.result import TestResult, observed_files
from benchwright.study.catalogue import hosts_of_tests, sessions_now, split_selector
from benchwright.study.contents import (
    TestContents,
    first_machine,
    session_findings,
    stored_baseline,
    stored_findings,
    tests_of,
)
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import StoredSession, Study


class _StudyParser:
    name = "study"
    description = "a study's directory: DIR, DIR@SESSION, DIR:TEST"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the path is a directory with a journal, with or without a selector."""
        del head
        return (split_selector(path).place / JOURNAL).is_file()

    def read(self, path: Path) -> list[TestResult]:
        """Return the selected tests. Raises InputError for an unknown session or test, StudyError
        for a study that cannot be read."""
        part = split_selector(path)
        place, name = part.place, part.test
        with contextlib.closing(Study.open_to_read(place)) as study:
            chosen_session = part.of(study, "INPUT")
            kind = session_kind(chosen_session.info.kind)
            if kind is not None:
                raise kind.has_no_tests(study, chosen_session)
            tests = tests_of(study, chosen_session.number)
            stored = stored_findings(study, chosen_session.number)
            about_session = (
                session_findings(study, chosen_session.number) if stored is None else stored.session
            )
            machine = first_machine(study, chosen_session.number)
            status = _status_now(study, chosen_session)
            gangs = hosts_of_tests(study, chosen_session.number, chosen_session.info)
        if name is not None:
            chosen = [test for test in tests if test.plan.name == name]
            if not chosen:
                there = ", ".join(test.plan.name for test in tests)
                message = f"{path}: there is no test {name!r}"
                raise argument_error("INPUT", str(path), message, f"there are: {there}")
            tests = chosen
        found = {} if stored is None else stored.tests
        return [
            msgspec.structs.replace(
                parsed_test(test, place),
                findings=found.get(test.key),
                status=status,
                baseline=stored_baseline(chosen_session.info),
                session_findings=about_session if test is tests[0] else (),
                machine=machine,
                gang=gangs.get(test.key, ""),
            )
            for test in tests
        ]


def _status_now(study: Study, session: StoredSession) -> str:
    """Return how a session ended; `running` while a process writes to it."""
    (now,) = (
        stored_session
        for stored_session in sessions_now(study)
        if stored_session.number == session.number
    )
    return now.status


def parsed_test(test: TestContents, place: Path) -> TestResult:
    """Return a test of a study as the input of a report."""
    return TestResult(
        name=test.plan.name,
        specs=test.plan.metrics,
        whole_trials=tuple(test.trials),
        void_trials=test.void_trials,
        rule=test.plan.stopping,
        stop=test.stop,
        ok_status=test.plan.ok_status,
        sample=test.plan.sample,
        arm=test.plan.arm,
        plan=test.plan,
        recorded=test.recorded,
        files=observed_files(test.all_trials, test.recorded, place),
        notes=tuple(
            f"what was recorded as {name!r} is not shown: its feature is not installed"
            for name in test.unread
        ),
    )


PARSER = _StudyParser()
