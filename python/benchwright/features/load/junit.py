"""Limits of a load, and how it ended, as JUnit XML (report/junit.py)."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from benchwright.core.comparison import GateOutcome
from benchwright.core.results import Finding
from benchwright.features.load.report import EndingCase
from benchwright.features.load.types import LimitVerdict
from benchwright.report.junit import add_child, junit_text, suite_of, xml_text


def limit_cases(
    verdicts: Sequence[LimitVerdict], classname: str = "bw.load"
) -> list[ElementTree.Element]:
    """Return a case for each limit of a load."""
    cases = []
    for verdict in verdicts:
        case = ElementTree.Element(
            "testcase", classname=xml_text(classname), name=xml_text(verdict.limit)
        )
        if verdict.outcome is GateOutcome.FAILED:
            add_child(case, "failure", verdict.detail)
        elif verdict.outcome is GateOutcome.UNDECIDED:
            add_child(case, "error", f"undecided: {verdict.detail}")
        else:
            add_child(case, "system-out", text=verdict.detail)
        cases.append(case)
    return cases


def ending_case(name: str, outcome: str, message: str) -> ElementTree.Element:
    """Return a case about how a load ended; it passes without a message."""
    case = ElementTree.Element("testcase", classname="bw.load", name=name)
    if message:
        add_child(case, outcome, message)
    return case


def limits_junit(
    verdicts: Sequence[LimitVerdict],
    subject: str,
    length_ns: int,
    findings: Sequence[Finding],
    endings: Sequence[EndingCase] = (),
) -> str:
    """Return the verdicts on the limits of a load, and how it ended, as JUnit XML: a missed limit
    is a failure, an undecided one an error, because a build without an answer has not passed."""
    cases = limit_cases(verdicts)
    cases += [ending_case(ending.name, ending.outcome, ending.message) for ending in endings]
    return junit_text("bw load", [suite_of(subject, cases, length_ns, findings)])
