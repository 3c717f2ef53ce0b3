"""Findings of a session: stored when its outcome is known, read, and computed again when asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.core.progress import NoProgress
from benchwright.core.results import Finding, Severity
from benchwright.findings.examine import Questions, findings_about
from benchwright.findings.result import TestResult
from benchwright.findings.rules import NamedRule, Result
from benchwright.report.progress import SessionProgress
from benchwright.results.inputs import read_inputs, selected
from benchwright.run.findings import findings_of_session, findings_of_test
from benchwright.run.ledger import Ledger
from benchwright.run.performer import Performer
from benchwright.run.session import Session
from benchwright.study.contents import (
    recorded_findings,
    session_findings,
    store_findings,
    stored_findings,
)
from benchwright.study.journal import NewEntry, Study
from benchwright.suite.compile import load
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment
from session_infos import suite_info

SUITE = "TEST t 1 1\n  EXEC work\nDONE\n"
"""One trial: too few for an interval."""
INFO = suite_info(SUITE)
NOTE = Finding("quiet-incomplete", Severity.NOTE, "quiet swap", "no swap")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A study with a session whose findings are stored as `bw run` stores them."""
    with contextlib.closing(Study.create_or_open(tmp_path / "study")) as study:
        ledger = Ledger(study, study.begin_session(INFO))
        performer = Performer(
            FakeBench(lambda *_: 0.5), ExecEnvironment("/", ()), study.path, ledger.session
        )
        program = load("s.ap", {"s.ap": SUITE}.__getitem__)
        session = Session(program, ledger, performer, SessionProgress(NoProgress()))
        verdict = session.run({}, {})
        found = findings_of_session(session, verdict, ledger, [NOTE])
        assert findings_of_test(session.tests[0]) is found.tests[session.tests[0].key]
        store_findings(study, ledger.session, found, [NOTE])
        yield study


def codes(one: TestResult, questions: Questions | None = None) -> list[str]:
    return [finding.code for finding in findings_about(one, questions)]


def test_what_was_found_is_read_and_not_computed(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchwright.findings.examine.compute_findings", None)
    (one,) = read_inputs([str(study.path)])
    assert one.session_findings == (NOTE,)
    assert codes(one) == ["too-few-trials"]
    renamed = msgspec.structs.replace(one, name="mine:t")
    assert [f.subject for f in findings_about(renamed)] == ["mine:t"]


def test_what_is_computed_again_is_the_same(study: Study) -> None:
    (one,) = read_inputs([str(study.path)])
    again = msgspec.structs.replace(one, findings=None)
    assert findings_about(again) == findings_about(one)


def test_a_selection_and_further_questions_compute_again(study: Study) -> None:
    (one,) = read_inputs([str(study.path)])
    (few,) = selected([one], one.rows[0].command)
    assert few.findings is None
    assert codes(few) == ["too-few-trials"]
    # What is stored would say so twice.
    stale = msgspec.structs.replace(one, findings=(NOTE, NOTE))
    assert codes(stale, Questions(also=["elapsed"])) == ["too-few-trials"]
    assert codes(stale) == ["quiet-incomplete"] * 2


def test_the_findings_of_rules_are_added(study: Study) -> None:
    def rule(result: Result) -> list[Finding]:
        return [Finding("mine", Severity.NOTE, result.test, f"{result.values}")]

    (one,) = read_inputs([str(study.path)])
    rules = Questions(rules=[NamedRule("r.py", rule)])
    assert codes(one, rules) == ["too-few-trials", "mine"]
    again = msgspec.structs.replace(one, findings=None)
    assert findings_about(again, rules) == findings_about(one, rules)


def test_what_is_stored_holds_until_the_session_goes_on(study: Study) -> None:
    assert stored_findings(study, 1) is not None
    study.append(1, [NewEntry("outcome", "environment/9", "{}")])
    assert stored_findings(study, 1) is None
    assert recorded_findings(study, 1) == (NOTE,)


def test_a_session_of_an_older_version_has_what_was_recorded(study: Study) -> None:
    number = study.begin_session(INFO)
    former = Finding("quiet-incomplete", Severity.NOTE, "quiet smt", "no SMT")
    study.append(number, [NewEntry("finding", former.code, former)])
    assert stored_findings(study, number) is None
    assert session_findings(study, number) == (former,)
